"""Full simulation against beam theory, conservation laws, rigid bodies and reduced flexible bodies."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_bvp

import supple
from supple import elastic
from supple.engine import FullSimulation, full_equilibrium
from supple.mechanism import Builder, Mechanism

LENGTH, DIAMETER, YOUNG = 0.7, 4e-3, 200e9
BENDING = YOUNG * np.pi * DIAMETER**4 / 64
QUIET = {"progress": lambda fraction: None}


def rod(sections: int = 6, young: float = YOUNG, law: str = "stvk", **damping: float) -> elastic.Part:
    material = elastic.Material(young, 0.3, 7850.0, law, **damping)
    return elastic.rod(LENGTH, DIAMETER, material, sections=sections, sides=6)


def linear(part: elastic.Part) -> elastic.Part:
    return part.with_basis(3, method="linear", **QUIET)


def clamped(part: elastic.Part) -> Mechanism:
    b = Builder("cantilever", gravity=(0, 0, 0))
    b.flexible("rod", part)
    b.fixed("clamp", "world", "rod.start")
    return b.build()


def on_motor(part: elastic.Part) -> Mechanism:
    b = Builder("rod on motor", gravity=(0, 0, -9.81))
    b.flexible("rod", part)
    b.hinge("foot", "world", "rod.start", (0, 0, 0), "y")
    b.motor("motor", "foot")
    b.body("weight", supple.spatial.translation(np.array([0, 0, LENGTH])), 0.1, (0, 0, 0), (1e-5, 1e-5, 8e-6))
    b.fixed("weld", "rod.end", "weight")
    return b.build()


def four_bar(part: elastic.Part) -> Mechanism:
    """A parallelogram whose coupler is flexible."""
    b = Builder("flexible four-bar", gravity=(0, 0, -9.81))
    b.link("crank", (0, 0, 0), (0, 0, 0.2), mass=0.1)
    turn = supple.spatial.rotation_between(np.array([0.0, 0, 1]), np.array([1.0, 0, 0]))
    b.flexible("coupler", part, supple.spatial.pose(turn, np.array([0, 0, 0.2])))
    b.link("rocker", (LENGTH, 0, 0.2), (LENGTH, 0, 0), mass=0.1)
    ends = [("world", "crank"), ("crank", "coupler.start"), ("coupler.end", "rocker"), ("rocker", "world")]
    points = [(0, 0, 0), (0, 0, 0.2), (LENGTH, 0, 0.2), (LENGTH, 0, 0)]
    for k, (pair, point) in enumerate(zip(ends, points, strict=True)):
        b.hinge(f"joint{k}", *pair, point, "y")
    b.motor("motor", "joint0")
    return b.build()


def swing(t: float) -> float:
    return 0.3 * np.sin(5 * t) ** 2


def elastica_tip(force: float) -> tuple[float, float]:
    """Tip (across, along) of an inextensible cantilever under a dead transverse force: EI theta'' = -F cos theta."""
    s = np.linspace(0, LENGTH, 60)
    ratio = force / BENDING
    solution = solve_bvp(
        lambda s, y: np.vstack([y[1], -ratio * np.cos(y[0]), np.sin(y[0]), np.cos(y[0])]),
        lambda a, b: np.array([a[0], b[1], a[2], a[3]]),
        s,
        np.vstack([s / LENGTH, np.ones_like(s), 0.5 * s, 0.8 * s]),
        tol=1e-8,
    )
    return float(solution.y[2, -1]), float(solution.y[3, -1])


@pytest.mark.parametrize("law", ["stvk", "neo-hookean"])
def test_small_deflection_of_a_cantilever(law: str) -> None:
    eq = full_equilibrium(clamped(linear(rod(law=law))), {"rod.end": [0.01, 0, 0, 0, 0, 0]}, **QUIET)
    assert eq.poses["rod.end"][0, 3] == pytest.approx(0.01 * LENGTH**3 / (3 * BENDING), rel=0.03)
    np.testing.assert_allclose(eq.reactions["clamp"][:3], [-0.01, 0, 0], atol=1e-9)


def test_elastica() -> None:
    force = 3.0 * BENDING / LENGTH**2
    eq = full_equilibrium(clamped(linear(rod(sections=20))), {"rod.end": [force, 0, 0, 0, 0, 0]}, **QUIET)
    across, along = elastica_tip(force)
    assert across > 0.55 * LENGTH
    np.testing.assert_allclose(eq.poses["rod.end"][[0, 2], 3], [across, along], rtol=0.02)


def flying() -> tuple[Mechanism, np.ndarray]:
    """A free rod with a body at its end, and rates of translation, rotation and vibration."""
    b = Builder("free assembly", gravity=(0, 0, 0))
    b.flexible("rod", linear(rod(4, young=20e9, beta=1e-4, alpha=0.5)))
    b.free("free", "world", "rod.start")
    b.body("weight", supple.spatial.translation(np.array([0.02, 0, LENGTH])), 0.05, (0, 0, 0), (2e-5, 3e-5, 1e-5))
    b.ball("ball", "rod.end", "weight", (0, 0, LENGTH), stiffness=0.02)
    mech = b.build()
    rates = np.zeros(mech.dof)
    at = {name: i for i, name in enumerate(mech.coordinates)}
    for name, value in {
        "free.0": 0.3,
        "free.1": -0.2,
        "free.3": 2.0,
        "free.4": 1.0,
        "rod.eta0": 0.4,
        "ball.1": 3,
    }.items():
        rates[at[name]] = value
    return mech, rates


def test_momentum_of_a_free_assembly() -> None:
    mech, rates = flying()
    lost = []
    for dt in (4e-3, 2e-3):
        sim = FullSimulation(mech, dt, rates=rates)
        start = sim.momentum
        sim.step(round(0.04 / dt), **QUIET)
        np.testing.assert_allclose(sim.momentum[:3], start[:3], atol=1e-10)
        lost.append(np.linalg.norm(sim.momentum[3:] - start[3:]) / np.linalg.norm(start[3:]))
    assert lost[1] < 1e-5
    assert lost[1] < 0.3 * lost[0]  # second order


def test_energy_of_an_undamped_rod() -> None:
    mech = clamped(linear(rod(4)))
    q = np.zeros(mech.dof)
    q[mech.coordinates.index("rod.eta0")] = 1e-4
    sim = FullSimulation(mech, 1e-3, q=q)
    assert sim.energy.kinetic == 0
    sim.step(4, **QUIET)  # the mode of linear theory is somewhat stretched: this vibration dies quickly
    before = sim.energy
    sim.step(30, **QUIET)  # to about a quarter of the period
    after = sim.energy
    assert after.kinetic > 0.9 * before.total
    assert after.total == pytest.approx(before.total, rel=1e-3)


def test_a_thousand_times_stiffer_rod_is_a_rigid_body() -> None:
    part = linear(rod(4, young=1000 * YOUNG))
    mech = on_motor(part)
    basis = mech.flexible[0].basis
    b = Builder("rigid", gravity=(0, 0, -9.81))
    _, inertia = basis.inertia(np.zeros(basis.size))
    centre = basis.first_moment[0] / basis.mass
    about_centre = inertia - basis.mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    b.body("rod", np.eye(4), basis.mass, centre, about_centre)
    b.hinge("foot", "world", "rod", (0, 0, 0), "y")
    b.motor("motor", "foot")
    b.body("weight", supple.spatial.translation(np.array([0, 0, LENGTH])), 0.1, (0, 0, 0), (1e-5, 1e-5, 8e-6))
    b.fixed("weld", "rod", "weight")
    curve: dict[str, Callable[[float], float]] = {"motor": swing}
    full, rigid = FullSimulation(mech, 2e-3, motors=curve), supple.Simulation(b.build(), 2e-3, "bdf2", motors=curve)
    full.step(25, **QUIET)
    rigid.step(25)
    np.testing.assert_allclose(full.poses["weight"], rigid.poses["weight"], atol=1e-3 * LENGTH)


def test_reduced_body_follows_the_full_one() -> None:
    part = rod(4, beta=5e-4, alpha=1.0)
    mech = on_motor(linear(part))
    full = FullSimulation(mech, 1e-3, motors={"motor": swing})
    shapes, path = [], []
    for _ in range(35):
        full.step(2, **QUIET)
        shapes.append(full.displacements("rod"))
        path.append(full.poses["weight"][:3, 3])
    reduced_mech = on_motor(part.with_basis(8, snapshots=np.array(shapes), **QUIET))
    reduced = supple.Simulation(reduced_mech, 1e-3, "bdf2", motors={"motor": swing})
    error = []
    for point in path:
        reduced.step(2)
        error.append(np.abs(reduced.poses["weight"][:3, 3] - point).max())
    turn = swing(full.time)
    deflection = np.linalg.norm(path[-1] - LENGTH * np.array([np.sin(turn), 0, np.cos(turn)]))
    assert deflection > 0.01
    assert max(error) < 1e-3 * deflection
    assert reduced.motor_torques["motor"] == pytest.approx(full.motor_torques["motor"], abs=5e-3)
    known, other = (
        solve(m, targets={"motor": 0.2}) for solve, m in ((full_equilibrium, mech), (supple.equilibrium, reduced_mech))
    )
    np.testing.assert_allclose(other.poses["weight"][:3, 3], known.poses["weight"][:3, 3], atol=2e-4)


def test_loop_with_a_flexible_coupler() -> None:
    part = rod(4)
    mech = four_bar(linear(part))
    full = FullSimulation(mech, 1e-3, motors={"motor": swing})
    shapes, poses = [], []
    for _ in range(15):
        full.step(2, **QUIET)
        shapes.append(full.displacements("coupler"))
        poses.append(full.poses.array)
    assert np.abs(shapes[-1]).max() > 1e-3
    reduced_mech = four_bar(part.with_basis(4, snapshots=np.array(shapes), **QUIET))
    reduced = supple.Simulation(reduced_mech, 1e-3, "bdf2", motors={"motor": swing})
    for pose in poses:
        reduced.step(2)
        np.testing.assert_allclose(reduced.poses.array, pose, atol=1e-5)
    load = {"coupler.end": [0, 0, -0.1, 0, 0, 0]}
    known, other = full_equilibrium(mech, load, **QUIET), supple.equilibrium(reduced_mech, load)
    assert other.motor_torques["motor"] == pytest.approx(known.motor_torques["motor"], abs=1e-6)


def test_two_rods_with_a_motor_between_them() -> None:
    """The tip of the reference, a chain of 80 links for each rod, is at (0.310, 0.269) m."""
    part = linear(elastic.rod(0.3, DIAMETER, elastic.spring_steel(), sections=10, sides=8))
    b = Builder("two rods", gravity=(0, 0, -9.81))
    b.flexible("lower", part)
    b.flexible("upper", part, supple.spatial.translation(np.array([0, 0, 0.3])))
    b.fixed("clamp", "world", "lower.start")
    b.body("motor", supple.spatial.translation(np.array([0, 0, 0.3])), 0.12, (0, 0, 0), (6e-5, 6e-5, 6e-5))
    b.fixed("bracket", "lower.end", "motor")
    b.hinge("elbow", "motor", "upper.start", (0, 0, 0.3), "y")
    b.motor("drive", "elbow")
    b.body("weight", supple.spatial.translation(np.array([0, 0, 0.6])), 0.2, (0, 0, 0), (2e-5, 2e-5, 2e-5))
    b.fixed("weld", "upper.end", "weight")
    eq = full_equilibrium(b.build(), targets={"drive": np.pi / 2}, **QUIET)
    np.testing.assert_allclose(eq.poses["weight"][:3, 3], [0.310, 0, 0.269], atol=1e-3)
