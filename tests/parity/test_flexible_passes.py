"""Flexible bodies in the recursive passes: the same steps as by the sparse solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supple
from supple import elastic, spatial
from supple.elastic.cache import with_cached_basis
from supple.engine import adjoint
from supple.mechanism import Shape

DT = 5e-4


@pytest.fixture(scope="module")
def rod() -> elastic.Part:
    """30 cm along z, damped."""
    material = replace(elastic.spring_steel(), alpha=0.3, beta=1e-4)
    return with_cached_basis(elastic.rod(0.3, 4e-3, material, sections=4, sides=6), modes=9, method="linear")


@pytest.fixture(scope="module")
def plate() -> elastic.Part:
    part = elastic.plate(0.2, 0.05, 2e-3, divisions=(6, 2, 1), interfaces=("start", "end", "left"))
    return with_cached_basis(part, modes=6, method="linear")


def tip(b: supple.Builder, name: str, at: tuple[float, float, float], **options) -> None:
    b.body(
        name,
        spatial.translation(np.array(at)),
        0.05,
        centre=(0.004, 0.002, 0.01),
        inertia=(2e-5, 1e-5, 2e-5),
        **options,
    )


def arm(rod: elastic.Part, **elbow) -> supple.Mechanism:
    """Two rods above one another: a motor at the foot, an elbow between them, a ball joint at the end, a coupling."""
    b = supple.Builder("arm")
    b.flexible("lower", rod)
    b.flexible("upper", rod, spatial.translation(np.array([0, 0, 0.3])))
    tip(b, "tip", (0, 0, 0.6))
    tip(b, "side", (0.1, 0, 0.3))
    b.hinge("foot", "world", "lower.start", at=(0, 0, 0), axis="y")
    b.hinge(
        "elbow", "lower.end", "upper.start", at=(0, 0, 0.3), axis="y", **{"stiffness": 2.0, "damping": 0.01} | elbow
    )
    b.hinge("swing", "lower.end", "side", at=(0, 0, 0.3), axis="x", stiffness=0.5, armature=1e-4)
    b.ball("wrist", "upper.end", "tip", at=(0, 0, 0.6), stiffness=0.3, damping=1e-3)
    b.couple("tendon", {"elbow": 1.0, "swing": 0.5}, stiffness=0.4, damping=0.01)
    b.motor("motor", "foot")
    return b.build()


def frame(rod: elastic.Part) -> supple.Mechanism:
    """Two rods carry a bar: a loop through both."""
    b = supple.Builder("frame")
    b.flexible("left", rod)
    b.flexible("right", rod, spatial.translation(np.array([0.2, 0, 0])))
    tip(b, "bar", (0.1, 0, 0.3))
    b.hinge("left foot", "world", "left.start", at=(0, 0, 0), axis="y", stiffness=3.0)
    b.hinge("right foot", "world", "right.start", at=(0.2, 0, 0), axis="y")
    b.fixed("left end", "left.end", "bar")
    b.ball("right end", "right.end", "bar", at=(0.2, 0, 0.3))
    b.motor("motor", "right foot")
    return b.build()


def table(plate: elastic.Part) -> supple.Mechanism:
    """A plate with three interfaces. A loop connects two of them, and a coupling joints on both."""
    b = supple.Builder("table")
    b.flexible("plate", plate)
    at = {name: spatial.translation(plate.rest_frame(name)[:3, 3]) for name in ("end", "left")}
    for name, pose in at.items():
        tip(b, f"on {name}", tuple(pose[:3, 3] + [0, 0, 0.02]))
    b.hinge("edge", "world", "plate.start", at=plate.rest_frame("start")[:3, 3], axis="y", stiffness=5.0, damping=0.01)
    for name, pose in at.items():
        b.hinge(name, f"plate.{name}", f"on {name}", at=pose[:3, 3], axis="x", stiffness=0.2)
    b.ball("link", "on end", "on left", at=0.5 * (at["end"] + at["left"])[:3, 3] + [0, 0, 0.05])
    b.couple("belt", {"end": 1.0, "left": 1.0}, stiffness=0.1)
    return b.build()


def pair(mech: supple.Mechanism, method: str, **options) -> list[supple.Simulation]:
    sims = [supple.Simulation(mech, DT, method, **options) for _ in range(2)]
    sims[1]._core.use_passes(False)
    assert [sim._core.solver for sim in sims] == ["passes", "sparse"]
    return sims


def agree(sims: list[supple.Simulation], steps: int = 300, within: float = 1e-9) -> None:
    for _ in range(2):
        for sim in sims:
            sim.step(steps // 2)
        first, second = sims
        assert np.abs(first.poses.array - second.poses.array).max() < within
        assert DT * np.abs(first.velocities - second.velocities).max() < within
        for name, value in second.coordinates.items():
            np.testing.assert_allclose(first.coordinates[name], value, rtol=0, atol=within)
        assert first.energy.total == pytest.approx(second.energy.total, rel=1e-7)


def same_reactions(sims: list[supple.Simulation]) -> None:
    first, second = (sim.reactions for sim in sims)
    size = max(np.abs(wrench).max() for wrench in second.values())
    for name, wrench in second.items():
        np.testing.assert_allclose(first[name], wrench, rtol=0, atol=1e-6 * size)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_tree(rod, method):
    """Motor, springs, dampers, armature, coupling, ball joint; loads on interfaces and bodies; a handle."""
    sims = pair(arm(rod), method, motors={"motor": lambda t: 0.3 * np.sin(5 * t) ** 2})
    for sim in sims:
        sim.apply("lower.end", [0.5, 0.2, 0, 0, 0.01, 0.02])
        sim.apply("tip", [0.1, 0.1, -0.2, 0.01, 0, 0], frame="body")
        sim.pull("upper.end", [0.1, 0.05, 0.6])
    agree(sims)
    assert np.abs(sims[0].coordinates["lower.end"]).max() > 1e-4
    same_reactions(sims)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_limits(rod, method):
    """The elbow hits its limit and leaves it."""
    sims = pair(arm(rod, limits=(-0.05, 0.05), stiffness=0.0), method)
    for sim in sims:
        sim.apply("tip", [1.0, 0, 0, 0, 0, 0])
    agree(sims, 200)
    assert sims[0].coordinates["elbow"] == pytest.approx(0.05)
    for sim in sims:
        sim.apply("tip", [-2.0, 0, 0, 0, 0, 0])
    agree(sims, 100, 1e-8)  # an impact


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("name", ["frame", "table"])
def test_loops(rod, plate, name, method):
    mech = frame(rod) if name == "frame" else table(plate)
    sims = pair(mech, method)
    for sim in sims:
        sim.apply(mech.bodies[-1].name, [0.3, 0.2, -0.1, 0.01, 0.005, 0.0])
    agree(sims)
    assert sims[0].gap < 1e-9
    same_reactions(sims)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_contact(rod, method):
    """A rod with a ball on its end hits the floor and slides on it."""
    b = supple.Builder("hammer")
    b.flexible("rod", rod, spatial.pose(spatial.so3_exp(np.array([0, np.pi / 2, 0])), np.array([0, 0, 0.1])))
    shape = Shape("sphere", (0.03,), np.eye(4), friction=(0.4, 0, 0))
    b.body("ball", spatial.translation(np.array([0.3, 0, 0.1])), 0.1, inertia=(4e-5,) * 3, shapes=(shape,))
    b.fixed("hold", "rod.end", "ball")
    b.hinge("pivot", "world", "rod.start", at=(0, 0, 0.1), axis="y", damping=1e-3, limits=(-1.0, 0.5))
    sims = [supple.Simulation(b.build(), 1e-3, method) for _ in range(2)]
    sims[1]._core.use_passes(False)
    worlds = [supple.World(1e-3) for _ in range(2)]
    touched = False
    for world, sim in zip(worlds, sims, strict=True):
        world.ground(Shape("plane", (0, 0, 1), np.eye(4), friction=(0.4, 0, 0)))
        world.add(sim)
    for _ in range(30):
        for world in worlds:
            world.step(10)
        touched = touched or bool(worlds[0].contacts)
        assert np.abs(sims[0].poses.array - sims[1].poses.array).max() < 1e-8
    assert touched
    assert sims[0]._core.solver == "passes"


@pytest.mark.parametrize("name", ["arm", "frame", "table"])
def test_gradients_of_recorded_steps(rod, plate, name):
    """Steps of the passes and of the sparse solver have the same gradients, which others compare with differences."""
    mech = {"arm": lambda: arm(rod), "frame": lambda: frame(rod), "table": lambda: table(plate)}[name]()
    found, steps = [], 20
    by_point = np.random.default_rng(0).normal(size=(steps + 1, 3))
    body = mech.bodies[-1].name
    for sim in pair(mech, "bdf2"):
        sim.apply(body, [0.3, 0.2, -0.1, 0.01, 0.005, 0.0])
        sim.step(5)
        tape = sim.tape()
        sim.step(steps)
        gradient = adjoint.gradient(tape, poses=adjoint.point_gradient(tape, body, by_point))
        found.append(np.concatenate([gradient.load(body).ravel(), gradient.gravity]))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-7 * np.abs(found[1]).max())


def test_saved_and_restored_to_the_last_bit(rod):
    sim = supple.Simulation(arm(rod), DT, "bdf2", motors={"motor": lambda t: 0.3 * np.sin(5 * t) ** 2})
    sim.step(20)
    saved = sim.save()
    sim.step(20)
    first = sim.poses.array
    sim.restore(saved)
    sim.step(20)
    np.testing.assert_array_equal(sim.poses.array, first)


def test_a_rod_held_at_its_other_end_uses_the_sparse_solver(rod):
    b = supple.Builder("rod")
    b.flexible("rod", rod)
    b.fixed("clamp", "world", "rod.end")
    sim = supple.Simulation(b.build(), DT)
    assert sim._core.solver == "sparse"
    assert sim._core.uncovered == "a flexible body that is not held at its reference interface"
    sim.apply("rod.start", [0.5, 0, 0, 0, 0, 0])
    sim.step(20)
    assert sim.poses["rod.start"][0, 3] > 1e-3


@pytest.mark.long
@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("name", ["rod_on_motor", "two_rods", "flexible_four_bar"])
def test_library(name, method):
    mech = getattr(supple.library, name)()
    sims = pair(mech, method)
    for sim in sims:
        sim.apply(mech.bodies[-1].name, [0.3, 0.2, -0.1, 0.01, 0.02, 0.0])
    agree(sims)


@pytest.mark.long
@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("name", ["dancer", "bartender", "rapper", "drummer", "boxer"])
def test_characters(name, method):
    mech = getattr(supple.library.characters, name)()
    sims = pair(mech, method)
    for sim in sims:
        sim.apply(mech.bodies[-1].name, [0.3, 0.2, -0.1, 0.01, 0.02, 0.0])
    agree(sims)
