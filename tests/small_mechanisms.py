"""Pendulum, chain, wheels, driven rod, square, arm, satellite: small mechanisms with known solutions."""

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


def strut(offset: float = 0.0, gravity=(0, 0, -9.81), stiffness: float = 0.0) -> Mechanism:
    """Two links between fixed points, one 1 m above the other; the knee is off the straight line by `offset`, m."""
    b = supple.Builder("strut", gravity=gravity)
    b.link("lower", (0, 0, 0), (offset, 0, 0.5), mass=1.0)
    b.link("upper", (offset, 0, 0.5), (0, 0, 1.0), mass=1.0)
    b.hinge("foot", "world", "lower", at=(0, 0, 0), axis="y", stiffness=stiffness)
    b.hinge("knee", "lower", "upper", at=(offset, 0, 0.5), axis="y", stiffness=stiffness)
    b.ball("pin", "world", "upper", at=(0, 0, 1))
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


def arm(**springs) -> Mechanism:
    """Two links with a universal joint and a hinge, a site at the end, preloaded by gravity."""
    springs = {"stiffness": 50.0, "damping": 2.0} | springs
    b = supple.Builder("arm", gravity=(0, 0, -9.81))
    b.link("upper", (0, 0, 0), (0.5, 0, 0), mass=1.0)
    b.link("lower", (0.5, 0, 0), (1.0, 0, 0.1), mass=0.5)
    b.universal("shoulder", "world", "upper", (0, 0, 0), ("z", "y"), **springs)
    b.hinge("elbow", "upper", "lower", (0.5, 0, 0), "y", **springs)
    b.site("tip", "lower", (1.0, 0, 0.1))
    b.site("floor", "world", (0, 0, -1))
    return b.build()


def with_motor() -> Mechanism:
    b = supple.Builder("motorised", gravity=(0, 0, 0))
    for i in range(4):
        b.link(f"link{i}", (0.3 * i, 0, 0), (0.3 * i + 0.3, 0, 0), mass=1.0)
        parent = "world" if i == 0 else f"link{i - 1}"
        stiffness = 0.0 if i == 1 else 30.0
        b.hinge(f"hinge{i}", parent, f"link{i}", (0.3 * i, 0, 0), "yz"[i % 2], stiffness=stiffness, damping=1.0)
    b.motor("motor", "hinge1", 0.0)
    b.couple("tendon", {"hinge0": 1.0, "hinge2": -0.5}, stiffness=15.0)
    b.couple("gear", {"hinge2": 1.0, "hinge3": 1.0}, rigid=True)
    return b.build()


def satellite(gravity=(0, 0, 0)) -> Mechanism:
    b = supple.Builder("satellite", gravity=gravity)
    b.body("hull", spatial.exp(np.array([0.1, 0.2, 0.3, 0.2, -0.1, 0.4])), 5.0, inertia=(1, 2, 2.5), centre=(0.1, 0, 0))
    b.free("float", "world", "hull")
    for i in range(4):
        b.link(f"boom{i}", (0.5 + 0.4 * i, 0, 0), (0.9 + 0.4 * i, 0, 0), mass=0.5)
        parent = f"boom{i - 1}" if i else "hull"
        b.hinge(f"hinge{i}", parent, f"boom{i}", (0.5 + 0.4 * i, 0, 0), "yz"[i % 2], stiffness=40.0, damping=0.2)
    b.site("dock", "hull", (-0.5, 0, 0))
    return b.build()


def held_arm() -> Mechanism:
    """An arm on a stand whose hand a bushing holds to the stand: the bushing closes a loop to a body at rest."""
    b = supple.Builder("held arm", gravity=(0, 1.0, -9.81))
    b.link("stand", (0, 0, 0), (0, 0, 0.3), mass=1.0)
    b.fixed("floor", "world", "stand")
    b.link("upper", (0, 0, 0.3), (0.4, 0, 0.3), mass=1.0)
    b.link("lower", (0.4, 0, 0.3), (0.8, 0, 0.3), mass=1.0)
    b.link("hand", (0.8, 0, 0.3), (0.9, 0, 0.3), mass=0.5)
    b.hinge("shoulder", "stand", "upper", (0, 0, 0.3), "z", damping=0.1)
    b.hinge("elbow", "upper", "lower", (0.4, 0, 0.3), "y", stiffness=5.0)
    b.ball("wrist", "lower", "hand", (0.8, 0, 0.3))
    springs = {"stiffness": (300, 200, 400, 3, 2, 1), "damping": (5, 4, 3, 0.1, 0.2, 0.3)}
    b.bushing("grip", "stand", "hand", (0.9, 0, 0.3), **springs)
    return b.build()


def net(columns: int, rows: int) -> Mechanism:
    """A planar net: bodies on a grid, neighbours joined by rods with sprung hinges; (columns - 1) (rows - 1) loops."""
    b = supple.Builder("net", gravity=(0, 0, -9.81))
    places = {
        (i, j): np.array([0.3 * i + 0.02 * j, 0, 0.3 * j + 0.03 * i]) for i in range(columns) for j in range(rows)
    }
    for (i, j), at in places.items():
        b.body(f"node {i} {j}", spatial.translation(at), mass=0.1, inertia=(1e-3, 1e-3, 1e-3))
    b.fixed("root", "world", "node 0 0")
    for (i, j), at in places.items():
        for next_i, next_j in ((i + 1, j), (i, j + 1)):
            if (next_i, next_j) not in places:
                continue
            end, name = places[next_i, next_j], f"{i} {j} to {next_i} {next_j}"
            b.link(name, at, end, mass=0.1)
            b.hinge(f"start of {name}", f"node {i} {j}", name, at=at, axis="y", stiffness=5.0, damping=0.05)
            b.hinge(f"end of {name}", name, f"node {next_i} {next_j}", at=end, axis="y", stiffness=5.0, damping=0.05)
    return b.build()


def tethered_chain(links: int) -> Mechanism:
    """A chain of ball joints; a rod ties each link to the world, so that all loops pass its root."""
    b = supple.Builder("tethered chain", gravity=(0, 0, -9.81))
    last = "world"
    for i in range(links):
        start, end = (0.1 * i, 0, 0), (0.1 * (i + 1), 0, 0)
        b.link(f"link {i}", start, end, mass=0.1)
        b.ball(f"joint {i}", last, f"link {i}", at=start, stiffness=5.0, damping=0.05)
        last = f"link {i}"
        top = (end[0], 0.02 * i, 0.5)
        b.link(f"rod {i}", end, top, mass=0.05)
        b.ball(f"foot {i}", last, f"rod {i}", at=end, stiffness=0.1, damping=0.01)
        b.ball(f"top {i}", f"rod {i}", "world", at=top)
    return b.build()


def loose_bodies(tied: bool = False) -> Mechanism:
    """Two floating bodies with geared booms, one of them on springs. `tied`: a rod connects them."""
    b = supple.Builder("loose bodies", gravity=(0, 0, -9.81))
    for i in range(2):
        at = np.array([1.0 * i, 0.2, 0.5])
        pose = spatial.exp(np.append(at, [0.2, -0.1, 0.4]))
        b.body(f"hull{i}", pose, 3.0, inertia=(0.1, 0.2, 0.25), centre=(0.1, 0, 0))
        springs = {"stiffness": (20, 30, 40, 1, 2, 3), "damping": 0.5, "armature": 0.2} if i else {}
        b.bushing(f"float{i}", "world", f"hull{i}", at, **springs)
        for k in range(2):
            start = at + [0, 0.2 * k, 0.1]
            b.link(f"boom{i}{k}", start, start + [0, 0.3, 0.2], mass=0.4)
            b.hinge(f"hinge{i}{k}", f"hull{i}", f"boom{i}{k}", start, "x", damping=0.05)
        b.couple(f"gear{i}", {f"hinge{i}0": 1.0, f"hinge{i}1": -0.5}, rigid=True)
    if tied:
        b.link("rod", (0, 0.2, 0.5), (1, 0.2, 0.5), mass=0.2)
        b.ball("near", "hull0", "rod", (0, 0.2, 0.5))
        b.ball("far", "rod", "hull1", (1, 0.2, 0.5))
    return b.build()
