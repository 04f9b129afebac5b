"""Linkages with redundant loops, with exact numbers or with numbers that are rounded to some digits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import supple
from supple import spatial

Y = (0.0, 1.0, 0.0)


class Rounded:
    """A builder that turns everything about a common axis, and moves every point and axis by up to half a digit."""

    def __init__(self, name: str, digits: int | None, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.frame = spatial.so3_exp(self.rng.normal(size=3))
        self.digits = digits
        self.builder = supple.Builder(name, gravity=self.frame @ [0.0, 0.0, -9.81])

    def rounded(self, vector) -> np.ndarray:
        turned = self.frame @ np.asarray(vector, dtype=float)
        return turned if self.digits is None else turned + self.rng.uniform(-0.5, 0.5, 3) * 10.0**-self.digits

    def link(self, name, start, end) -> None:
        self.builder.link(name, self.rounded(start), self.rounded(end), mass=0.3, radius=0.01)

    def hinge(self, name, parent, child, at, axis=Y, **spring) -> None:
        self.builder.hinge(name, parent, child, at=self.rounded(at), axis=self.rounded(axis), **spring)

    def universal(self, name, parent, child, at, axes) -> None:
        twists = [np.append(np.zeros(3), turned / np.linalg.norm(turned)) for turned in map(self.rounded, axes)]
        self.builder.joint(name, parent, child, spatial.translation(self.rounded(at)), twists)

    def body(self, name, at, mass=0.3) -> None:
        self.builder.body(name, spatial.translation(self.rounded(at)), mass=mass, inertia=(1e-3,) * 3)

    def build(self) -> supple.Mechanism:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", supple.ImportWarning)
            return self.builder.build()


def planar(name: str, digits, seed, links: dict, hinges: dict) -> Rounded:
    """Links and hinges by their points (x, z); the hinge A has a spring."""
    b = Rounded(name, digits, seed)
    for link, (start, end) in links.items():
        b.link(link, (start[0], 0, start[1]), (end[0], 0, end[1]))
    for hinge, (parent, child, at) in hinges.items():
        spring = {"stiffness": 8.0, "damping": 0.05} if hinge == "A" else {}
        b.hinge(hinge, parent, child, (at[0], 0, at[1]), **spring)
    return b


def four_bar_parts(digits=None, seed=0, points=((0, 0), (0.1, 0.3), (0.7, 0.5), (0.6, 0))) -> Rounded:
    A, B, C, D = points
    links = {"crank": (A, B), "tip": (B, C), "rocker": (D, C)}
    hinges = {"A": ("world", "crank", A), "B": ("crank", "tip", B), "D": ("world", "rocker", D)}
    return planar("four-bar", digits, seed, links, hinges | {"C": ("rocker", "tip", C)})


def four_bar(digits=None, seed=0):
    return four_bar_parts(digits, seed).build()


def watt(digits=None, seed=0):
    A, B, C, D, E, F, G = (0, 0), (0.1, 0.3), (0.6, 0.4), (0.5, 0), (0.3, 0.6), (0.8, 0.7), (0.75, 0.45)
    links = {"crank": (A, B), "coupler": (B, C), "rocker": (D, C), "tip": (E, F), "last": (G, F)}
    hinges = {"A": ("world", "crank", A), "B": ("crank", "coupler", B), "D": ("world", "rocker", D)}
    hinges |= {"C": ("coupler", "rocker", C), "E": ("coupler", "tip", E), "G": ("rocker", "last", G)}
    return planar("six-bar", digits, seed, links, hinges | {"F": ("tip", "last", F)}).build()


def parallel_cranks(digits=None, seed=0):
    """Three loops that also repeat each other in the plane, at 0.4 rad from the upright pose."""
    x, z = 0.3 * np.sin(0.4), 0.3 * np.cos(0.4)
    links = {"tip": ((x, z), (1.2 + x, z))} | {f"c{i}": ((0.4 * i, 0), (0.4 * i + x, z)) for i in range(4)}
    hinges = {"A" if i == 0 else f"f{i}": ("world", f"c{i}", (0.4 * i, 0)) for i in range(4)}
    hinges |= {f"t{i}": (f"c{i}", "tip", (0.4 * i + x, z)) for i in range(4)}
    return planar("cranks", digits, seed, links, hinges).build()


def chain(digits=None, seed=0, loops=4):
    """Four-bars, each on the coupler of the one before."""
    b, base = Rounded("chain", digits, seed), "world"
    for i in range(loops):
        x, coupler = 0.3 * i, "tip" if i == loops - 1 else f"p{i}"
        b.link(f"a{i}", (x, 0, 0), (x + 0.05, 0, 0.2))
        b.link(coupler, (x + 0.05, 0, 0.2), (x + 0.25, 0, 0.25))
        b.link(f"b{i}", (x + 0.2, 0, 0), (x + 0.25, 0, 0.25))
        b.hinge(f"fa{i}", base, f"a{i}", (x, 0, 0), stiffness=20.0, damping=0.1)
        b.hinge(f"k{i}", f"a{i}", coupler, (x + 0.05, 0, 0.2))
        b.hinge(f"fb{i}", base, f"b{i}", (x + 0.2, 0, 0))
        b.hinge(f"c{i}", f"b{i}", coupler, (x + 0.25, 0, 0.25))
        base = coupler
    return b.build()


def sarrus(digits=None, seed=0):
    b = Rounded("sarrus", digits, seed)
    b.body("tip", (0, 0, 0.4))
    for i, (out, axis) in enumerate(((np.array([1.0, 0, 0]), Y), (np.array([0, 1.0, 0]), (1.0, 0, 0)))):
        low, middle, high = 0.1 * out, 0.35 * out + [0, 0, 0.2], 0.1 * out + [0, 0, 0.4]
        b.link(f"lower{i}", low, middle)
        b.link(f"upper{i}", middle, high)
        b.hinge(f"h{i}0", "world", f"lower{i}", low, axis, stiffness=20.0, damping=0.02)
        b.hinge(f"h{i}1", f"lower{i}", f"upper{i}", middle, axis)
        b.hinge(f"h{i}2", f"upper{i}", "tip", high, axis)
    return b.build()


def bennett(digits=None, seed=0):
    """A spatial loop of four hinges, mobile because a / sin(alpha) = b / sin(beta)."""
    a, alpha, length = 0.4, 0.9, 0.5
    beta = np.arcsin(length * np.sin(alpha) / a)
    first = 1.0
    second = 2 * np.arctan(np.sin((beta + alpha) / 2) / np.sin((beta - alpha) / 2) / np.tan(first / 2))
    frames = [np.eye(4)]
    for angle, side, twist in ((first, a, alpha), (second, length, beta), (-first, a, alpha), (-second, length, beta)):
        along = spatial.translation([side, 0, 0]) @ spatial.exp([0, 0, 0, twist, 0, 0])
        frames.append(frames[-1] @ spatial.exp([0, 0, 0, 0, 0, angle]) @ along)
    assert frames[-1] == pytest.approx(np.eye(4), abs=1e-12)
    b, points, axes = Rounded("bennett", digits, seed), [f[:3, 3] for f in frames], [f[:3, 2] for f in frames]
    names = ("world", "first", "tip", "last", "world")
    for i in range(3):
        b.link(names[i + 1], points[i], points[i + 1])
    for i in range(4):
        b.hinge(f"j{i}", names[i], names[i + 1], points[i], axes[i], stiffness=6.0 * (i == 0), damping=0.03 * (i == 0))
    return b.build()


def delta(digits=None, seed=0, ends="universal"):
    """Three arms with two rods each; `ends` is the kind of the rods' joints, "universal" or "ball"."""
    b = Rounded("delta", digits, seed)
    b.body("tip", (0, 0, -0.5))
    for i, angle in enumerate(np.arange(3) * 2 * np.pi / 3):
        out, side = np.array([np.cos(angle), np.sin(angle), 0]), np.array([-np.sin(angle), np.cos(angle), 0])
        hip, elbow, wrist = 0.15 * out, 0.35 * out - [0, 0, 0.1], 0.06 * out - [0, 0, 0.5]
        across = np.cross(side, wrist - elbow) / np.linalg.norm(wrist - elbow)
        b.link(f"arm{i}", hip, elbow)
        b.hinge(f"hip{i}", "world", f"arm{i}", hip, side, stiffness=10.0, damping=0.05)
        for j, offset in enumerate((-0.05 * side, 0.05 * side)):
            b.link(f"rod{i}{j}", elbow + offset, wrist + offset)
            if ends == "ball":
                b.builder.ball(f"u{i}{j}", f"arm{i}", f"rod{i}{j}", at=b.rounded(elbow + offset))
                b.builder.ball(f"v{i}{j}", f"rod{i}{j}", "tip", at=b.rounded(wrist + offset))
                continue
            b.universal(f"u{i}{j}", f"arm{i}", f"rod{i}{j}", elbow + offset, (side, across))
            b.universal(f"v{i}{j}", f"rod{i}{j}", "tip", wrist + offset, (across, side))
    return b.build()
