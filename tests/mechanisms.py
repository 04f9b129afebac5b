"""Mechanisms for tests: random ones from a seed, and classic linkages whose mobility is known."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import supple
from supple import spatial
from supple.mechanism import Curve, Mechanism, Shape

KINDS = ("hinge", "slide", "screw", "cylindrical", "universal", "ball", "planar", "bushing", "axes", "fixed")
Rng = np.random.Generator


FLEXIBLE = ("flexible_four_bar", "rod_on_motor", "two_rods")
RIGID_LIBRARY = [name for name in supple.library.__all__ if name not in FLEXIBLE]
"""Mechanisms of the library without flexible bodies. The others take long to make and have tests of their own."""


def random_mechanism(
    rng: Rng,
    bodies: int = 6,
    kinds: Sequence[str] = KINDS,
    *,
    loops: int = 0,
    sprung: bool = True,
    branching: float = 0.4,
    reversing: float = 0.25,
    free_base: bool = False,
    couplings: int = 0,
    motors: int = 0,
    sites: int = 2,
    shapes: bool = False,
    mjcf: bool = False,
) -> Mechanism:
    """A random tree of `bodies` with joints of the given kinds, and `loops` more that close at the reference.

    branching: how often a body hangs on any earlier body instead of the last one. reversing: how often a
    joint is described from the outer body to the inner one. sprung: springs, dampers, limits, armatures and
    some curves. mjcf: only what MJCF holds exactly (the springs of balls are equal and relaxed at zero).
    """
    b = supple.Builder("random", gravity=rng.normal(size=3))
    names: list[str] = []
    if shapes:
        b.mesh("mesh", rng.normal(size=(8, 3)), rng.permuted(np.tile(np.arange(8), (5, 1)), axis=1)[:, :3])
        b.ground(Shape("plane", (1.0, 0.0, 0.1), _pose(rng)), Shape("mesh", (), _pose(rng), mesh="mesh"))
    where = {"world": np.zeros(3)}
    for i in range(bodies):
        near = names[-1] if names and rng.random() > branching else str(rng.choice(["world", *names]))
        name = f"body{i}"
        where[name] = where[near] + rng.normal(size=3) * 0.2
        frame = spatial.pose(_rotation(rng), where[name])
        b.body(name, frame, **random_inertia(rng), shapes=_shapes(rng) if shapes else ())
        if free_base and i == 0:
            b.free("base", "world", name, reference=rng.uniform(-0.5, 0.5, 6) * (0 if mjcf else 1))
        else:
            _joint(b, rng, f"joint{i}", near, name, kinds, where, sprung, reversing, mjcf)
        names.append(name)
    for i in range(loops):
        first, second = rng.choice(["world", *names], size=2, replace=False)
        _joint(b, rng, f"loop{i}", str(first), str(second), kinds, where, sprung, 0.0, mjcf)
    for i in range(sites):
        b.site(f"site{i}", str(rng.choice(["world", *names])), pose=_pose(rng))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.ImportWarning)  # by chance a loop may be redundant within a thousandth
        _act(b, rng, b.build(), couplings, motors)
        return b.build()


@st.composite
def mechanisms(draw: st.DrawFn, max_bodies: int = 6, **options: Any) -> Mechanism:
    """Random mechanisms by seed; hypothesis shrinks the number of bodies and loops."""
    bodies = draw(st.integers(1, max_bodies))
    options = {"loops": draw(st.integers(0, 2)), "free_base": draw(st.booleans())} | options
    return random_mechanism(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), bodies, **options)


def random_inertia(rng: Rng) -> dict[str, Any]:
    """Mass, centre and inertia of a random cloud of points, hence always physical."""
    points = rng.normal(size=(5, 3)) * rng.uniform(0.02, 0.2, 3)
    masses = rng.uniform(0.1, 0.5, 5)
    centre = masses @ points / masses.sum()
    away = points - centre
    inertia = np.einsum("i,ijk->jk", masses, (away**2).sum(axis=1)[:, None, None] * np.eye(3))
    inertia -= np.einsum("i,ij,ik->jk", masses, away, away)
    return {"mass": masses.sum(), "centre": centre, "inertia": (inertia + inertia.T) / 2}


def random_q(rng: Rng, mech: Mechanism, size: float = 0.7) -> np.ndarray:
    """Coordinates (dof,) around the reference."""
    return mech.reference + rng.uniform(-size, size, mech.dof)


def random_axes(rng: Rng, kind: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """Twists (k, 6) and blocks of a joint of some kind, with random axes."""
    frame = _rotation(rng)
    turn = np.concatenate([np.zeros((3, 3)), frame], axis=1)
    along = np.concatenate([frame, np.zeros((3, 3))], axis=1)
    match kind:
        case "fixed":
            return np.zeros((0, 6)), ()
        case "hinge":
            return turn[:1], ()
        case "slide":
            return along[:1], ()
        case "screw":
            return turn[:1] + rng.uniform(0.02, 0.2) * along[:1], ()
        case "cylindrical":
            return np.array([turn[0], along[0]]), ()
        case "universal":
            return turn[:2], ()
        case "ball":
            return turn, (3,)
        case "planar":
            return np.array([along[0], along[1], turn[2]]), ()
        case "bushing" | "free":
            return np.concatenate([along, turn]), (1, 1, 1, 3)
    count = int(rng.integers(1, 4))
    axes, points = (_unit(rng.normal(size=(count, 3))) for _ in range(2))
    slides = rng.random(count) < 0.4
    rows = [
        [*a, 0, 0, 0] if s else [*np.cross(0.2 * p, a), *a]
        for a, p, s in zip(axes, points, slides, strict=True)
    ]
    return np.array(rows), ()


def _joint(
    b: supple.Builder,
    rng: Rng,
    name: str,
    inner: str,
    outer: str,
    kinds: Sequence[str],
    where: dict[str, np.ndarray],
    sprung: bool,
    reversing: float,
    mjcf: bool,
) -> None:
    twists, blocks = random_axes(rng, str(rng.choice(list(kinds))))
    k = len(twists)
    ball = np.array([size == 3 for size in (blocks or (1,) * k) for _ in range(size)], dtype=bool)
    reference = rng.uniform(-0.5, 0.5, k) * (~ball if mjcf else 1)
    springs: dict[str, Any] = {}
    if sprung:
        low, high = reference - rng.uniform(1, 2, k), reference + rng.uniform(1, 2, k)
        springs = {
            "stiffness": np.where(ball & mjcf, 20.0, rng.uniform(5, 50, k)),
            "damping": rng.uniform(0.1, 1, k) * (~ball if mjcf else 1),
            "rest": np.where(ball & mjcf, reference, reference + rng.uniform(-0.2, 0.2, k)),
            "armature": np.where(ball & mjcf, 0.05, rng.uniform(0, 0.1, k) * (rng.random() < 0.5)),
            "limits": np.stack([np.where(rng.random(k) < 0.5, -np.inf, low), high], axis=1),
            "curves": [None if mjcf or rng.random() < 0.7 else _curve(rng) for _ in range(k)],
        }
        springs["limits"][ball] = -np.inf, np.inf
    middle = (where[inner] + where[outer]) / 2 + rng.normal(size=3) * 0.05
    ends = (outer, inner) if rng.random() < reversing else (inner, outer)
    b.joint(name, *ends, spatial.pose(_rotation(rng), middle), twists, blocks, reference, **springs)


def _act(b: supple.Builder, rng: Rng, mech: Mechanism, couplings: int, motors: int) -> None:
    """Couplings and motors that the reference configuration satisfies."""
    tree = [mech.joints[j] for j in mech.topology.tree]
    usable = {a: r for j in tree if 3 not in j.blocks for a, r in zip(j.axes, j.reference, strict=True)}
    for i in range(couplings):
        chosen = rng.permutation(list(usable))[: int(rng.integers(1, 5))]
        terms = {str(axis): float(c) for axis, c in zip(chosen, rng.uniform(0.5, 2, 4), strict=False)}
        if terms:
            length = sum(c * usable[axis] for axis, c in terms.items())
            numbers = {"stiffness": 30.0, "damping": 0.5, "limits": (length - 1, np.inf)}
            b.couple(f"coupling{i}", terms, rest=length, **({"rigid": True} if i % 3 == 2 else numbers))
    for i, axis in enumerate(rng.permutation(list(usable))[:motors]):
        b.motor(f"motor{i}", str(axis), usable[str(axis)])


def _shapes(rng: Rng) -> list[Shape]:
    sizes = {"sphere": 1, "capsule": 2, "box": 3, "cylinder": 2, "ellipsoid": 3}
    plain = [
        Shape(kind, rng.uniform(0.01, 0.1, n), _pose(rng)) for kind, n in sizes.items() if rng.random() < 0.4
    ]
    masks = {"contact_type": int(rng.integers(2**32)), "contact_affinity": 0, "rgba": rng.random(4)}
    return [*plain, Shape("mesh", (), _pose(rng), mesh="mesh", name="é <&>", friction=rng.random(3), **masks)]


def _curve(rng: Rng) -> Curve:
    return Curve(np.linspace(-1, 1, 5), np.sort(rng.normal(size=5)) * 10)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _rotation(rng: Rng) -> np.ndarray:
    return spatial.so3_exp(rng.normal(size=3))


def _pose(rng: Rng) -> np.ndarray:
    return spatial.pose(_rotation(rng), rng.normal(size=3) * 0.3)


# linkages whose mobility is known


def four_bar(**hinges: Any) -> Mechanism:
    """Crank, coupler and rocker in the x-z plane: one motion."""
    b = supple.Builder("four_bar")
    corners = {"crank": ((0, 0, 0), (0.05, 0, 0.3)), "coupler": ((0.05, 0, 0.3), (0.6, 0, 0.5))}
    corners["rocker"] = ((0.5, 0, 0), (0.6, 0, 0.5))
    for name, (start, end) in corners.items():
        b.link(name, start, end, mass=1.0)
    b.hinge("a", "world", "crank", at=(0, 0, 0), axis="y", **hinges)
    b.hinge("b", "crank", "coupler", at=(0.05, 0, 0.3), axis="y", **hinges)
    b.hinge("c", "world", "rocker", at=(0.5, 0, 0), axis="y", **hinges)
    b.hinge("d", "rocker", "coupler", at=(0.6, 0, 0.5), axis="y", **hinges)
    return b.build()


def stewart(**slides: Any) -> Mechanism:
    """A platform on six legs, each universal, prismatic, ball: six motions."""
    b = supple.Builder("stewart")
    b.body("platform", spatial.translation(np.array([0.0, 0, 0.8])), 5.0, inertia=(0.2, 0.2, 0.3))
    for i in range(6):
        spread = (-1) ** i
        low = np.array([_round(120 * (i // 2) + 15 * spread, 0.6)]).reshape(3)
        high = np.array([_round(120 * (i // 2) + 45 * spread, 0.4, 0.8)]).reshape(3)
        leg = (high - low) / np.linalg.norm(high - low)
        across = np.cross(leg, (0, 0, 1))
        b.link(f"cylinder{i}", low, low + 0.4 * leg, mass=0.5)
        b.link(f"piston{i}", high - 0.4 * leg, high, mass=0.3)
        b.universal(f"foot{i}", "world", f"cylinder{i}", at=low, axes=(across, np.cross(leg, across)))
        b.slide(f"leg{i}", f"cylinder{i}", f"piston{i}", at=low, axis=leg, **slides)
        b.ball(f"top{i}", f"piston{i}", "platform", at=high)
    return b.build()


def delta(rods: int = 2) -> Mechanism:
    """Three arms and rods (pairs, or one each) with universal joints at both ends: three motions."""
    b = supple.Builder("delta")
    b.body("platform", spatial.translation(np.array([0.0, 0, -0.6])), 1.0, inertia=(0.01, 0.01, 0.02))
    for i in range(3):
        turn = spatial.so3_exp(np.array([0, 0, 2 * np.pi * i / 3]))
        tangent = turn @ [0, 1, 0]
        shoulder, elbow, ankle = turn @ [0.2, 0, 0], turn @ [0.45, 0, -0.15], turn @ [0.08, 0, -0.6]
        b.link(f"arm{i}", shoulder, elbow, mass=0.4)
        b.hinge(f"shoulder{i}", "world", f"arm{i}", at=shoulder, axis=tangent)
        across = np.cross(tangent, ankle - elbow)
        for k, offset in enumerate((0.05, -0.05) if rods == 2 else (0.0,)):
            rod, shift = f"rod{i}{k}", offset * tangent
            b.link(rod, elbow + shift, ankle + shift, mass=0.1)
            b.universal(f"elbow{i}{k}", f"arm{i}", rod, at=elbow + shift, axes=(tangent, across))
            b.universal(f"ankle{i}{k}", rod, "platform", at=ankle + shift, axes=(across, tangent))
    return b.build()


def _round(degrees: float, radius: float, height: float = 0.0) -> tuple[float, float, float]:
    angle = np.deg2rad(degrees)
    return radius * np.cos(angle), radius * np.sin(angle), height
