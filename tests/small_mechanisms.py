"""Pendulum, chain, wheels, driven rod and square: mechanisms small enough to know the answer."""

from __future__ import annotations

import numpy as np

import supple
from supple import spatial
from supple.mechanism import Mechanism

STILL = (0.0, 0.0, 0.0)


def pendulum(gravity=(0, 0, -9.81), **hinge) -> Mechanism:
    """A rod of 1 m and 1 kg along x, hinged about y at the origin: positive angles lower it."""
    b = supple.Builder("pendulum", gravity=gravity)
    b.link("rod", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("hinge", "world", "rod", at=(0, 0, 0), axis="y", **hinge)
    b.site("end", "rod", at=(1, 0, 0))
    return b.build()


def chain(stiffness, direction=(1.0, 0.0, 0.0), gravity=STILL, **hinge) -> Mechanism:
    """Links of 1 m and 1 kg in a straight line, one for each stiffness; the last one carries the site `end`."""
    b = supple.Builder("chain", gravity=gravity)
    points = np.arange(len(stiffness) + 1)[:, None] * np.array(direction)
    for i, k in enumerate(stiffness):
        b.link(f"link{i}", points[i], points[i + 1], mass=1.0)
        b.hinge(f"hinge{i}", f"link{i - 1}" if i else "world", f"link{i}", points[i], "y", stiffness=k, **hinge)
    b.site("end", f"link{len(stiffness) - 1}", at=points[-1])
    return b.build()


def wheels(spring: float = 0.0, **coupling) -> Mechanism:
    """Two wheels about z, on springs of `spring` and 10 N m/rad, coupled by  first + 2 second."""
    b = supple.Builder("wheels", gravity=STILL)
    for i, name in enumerate(("first", "second")):
        b.body(name, spatial.translation(np.array([float(i), 0, 0])), 1.0, inertia=(0.1, 0.1, 0.1))
        stiffness = (spring, 10.0)[i]
        b.hinge(f"{name} axle", "world", name, at=(i, 0, 0), axis="z", stiffness=stiffness, damping=1.0)
    b.couple("gear", {"first axle": 1.0, "second axle": 2.0}, **coupling)
    return b.build()


def driven(**hinge) -> Mechanism:
    """A rod on a motor, with a second one hanging on a spring from its end."""
    b = supple.Builder("driven")
    b.link("upper", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.link("lower", (1, 0, 0), (2, 0, 0), mass=1.0)
    b.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis="y", **hinge)
    b.hinge("elbow", "upper", "lower", at=(1, 0, 0), axis="y", stiffness=30.0, damping=1.0)
    b.motor("drive", "shoulder")
    return b.build()


def square(**hinges) -> Mechanism:
    """A parallelogram four-bar of side 1 m, standing in the x-z plane."""
    b = supple.Builder("square", gravity=STILL)
    corners = np.array([(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, 0)], dtype=float)
    for name, i, j in (("crank", 0, 1), ("coupler", 1, 2), ("rocker", 3, 2)):
        b.link(name, corners[i], corners[j], mass=1.0)
    ends = {"a": ("world", "crank", 0), "b": ("crank", "coupler", 1), "c": ("world", "rocker", 3)}
    for name, (parent, child, at) in (ends | {"d": ("rocker", "coupler", 2)}).items():
        b.hinge(name, parent, child, at=corners[at], axis="y", **(hinges.get(name, {})))
    b.motor("drive", "a") if hinges.get("driven") else None
    b.motor("other drive", "c") if hinges.get("driven twice") else None
    return b.build()


def flat(values: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate(list(values.values()))
