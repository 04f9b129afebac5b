"""Flexible bodies in the engine: beam theory, conservation laws, limits, derivatives, and reduction."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import supple
from supple import elastic, spatial
from supple.elastic.cache import with_cached_basis
from supple.engine import adjoint
from supple.mechanism.flexible import FlexibleBody
from supple.mechanism.rigidified import rigidified
from supple.retargeting.altered import stiffened

LENGTH, DIAMETER = 0.7, 4e-3
STEEL = elastic.spring_steel()
BENDING = STEEL.young * np.pi * DIAMETER**4 / 64
LINE_DENSITY = STEEL.density * np.pi * DIAMETER**2 / 4


def rod(material: elastic.Material = STEEL, **options) -> elastic.Part:
    """A coarse rod that bends in the plane normal to y."""
    part = elastic.rod(LENGTH, DIAMETER, material, sections=12)
    return with_cached_basis(part, **{"modes": 8, "plane": "y"} | options)


def clamped(part: elastic.Part, tip_mass: float = 0.0, gravity=(0.0, 0.0, 0.0)) -> supple.Mechanism:
    """The rod clamped upright, with a rigid body at its end."""
    build = supple.Builder("cantilever", gravity=gravity)
    build.flexible("rod", part)
    build.fixed("clamp", "world", "rod.start")
    if tip_mass:
        build.body("tip", spatial.translation(np.array([0, 0, LENGTH])), tip_mass, inertia=(1e-5,) * 3)
        build.fixed("hold", "rod.end", "tip")
    return build.build()


def flying(part: elastic.Part) -> supple.Mechanism:
    """The rod with a body at its end, free of the world, without gravity."""
    build = supple.Builder("flying rod", gravity=(0, 0, 0))
    build.flexible("rod", part)
    build.free("base", "world", "rod.start")
    build.body("tip", spatial.translation(np.array([0, 0, LENGTH])), 0.1, inertia=(1e-5,) * 3)
    build.fixed("hold", "rod.end", "tip")
    return build.build()


def test_a_small_tip_force_bends_as_a_beam():
    force = 1e-2
    eq = supple.equilibrium(clamped(rod()), {"rod.end": [force, 0, 0, 0, 0, 0]})
    assert eq.poses["rod.end"][0, 3] == pytest.approx(force * LENGTH**3 / (3 * BENDING), rel=0.02)
    slope = np.arcsin(eq.poses["rod.end"][0, 2])
    assert slope == pytest.approx(force * LENGTH**2 / (2 * BENDING), rel=0.02)
    assert np.abs(eq.reactions["clamp"][4]) == pytest.approx(force * LENGTH, rel=1e-4)


def test_a_tip_moment_rolls_the_rod_up():
    """Under a moment M the rod is an arc of the curvature M / EI."""
    angle = 0.4
    moment = angle * BENDING / LENGTH
    eq = supple.equilibrium(clamped(rod(modes=12)), {"rod.end": [0, 0, 0, 0, moment, 0]})
    x, _, z = eq.poses["rod.end"][:3, 3]
    assert x == pytest.approx(LENGTH * (1 - np.cos(angle)) / angle, rel=0.03)
    assert z == pytest.approx(LENGTH * np.sin(angle) / angle, rel=0.03)


def test_frequencies_of_a_clamped_rod():
    """Euler and Bernoulli: omega = (beta_k / L)^2 sqrt(EI / rho A)."""
    found = supple.modes(clamped(rod()), count=2).frequencies
    expected = np.array([1.8751, 4.6941]) ** 2 / LENGTH**2 * np.sqrt(BENDING / LINE_DENSITY) / (2 * np.pi)
    np.testing.assert_allclose(found, expected, rtol=0.02)


def test_weight_and_total_mass():
    mech = clamped(rod(), tip_mass=0.1, gravity=(0, 0, -9.81))
    eq = supple.equilibrium(mech)
    mass = 0.1 + LINE_DENSITY * LENGTH
    assert mech.mass == pytest.approx(mass, rel=1e-9)
    assert eq.reactions["clamp"][2] == pytest.approx(9.81 * mass, rel=1e-9)


def test_vibration_of_an_undamped_rod_keeps_its_energy():
    mech = clamped(rod(), tip_mass=0.1)
    start = supple.equilibrium(mech, {"tip": [0.2, 0, 0, 0, 0, 0]})
    sim = supple.Simulation(mech, 5e-4, "bdf2", q=start.q)
    energy = sim.energy.total
    sim.step(8000)
    assert sim.energy.total == pytest.approx(energy, rel=2e-4)  # 1e-4 of the amplitude, in 4 s


def test_momentum_of_a_free_assembly():
    mech = flying(rod())
    rates = np.zeros(mech.dof)
    names = list(mech.coordinates)
    rates[[names.index(f"base.{i}") for i in range(6)]] = [0.3, 0.0, -0.2, 0.0, 2.0, 0.0]
    rates[0] = 0.2
    lost = []
    for dt in (2e-3, 1e-3):
        sim = supple.Simulation(mech, dt, "bdf2", rates=rates)
        sim.step(4)  # the first step is backward Euler
        before = sim.momentum
        sim.step(round(0.2 / dt))
        change = sim.momentum - before
        np.testing.assert_allclose(change[:3], 0, atol=1e-10 * np.abs(before[:3]).max())
        lost.append(np.abs(change[3:]).max())
    assert lost[1] < 0.4 * lost[0]  # second order


def test_a_stiff_rod_moves_as_a_rigid_one():
    stiff = rod(replace(STEEL, young=1000 * STEEL.young), method="linear", modes=4)
    build = supple.Builder("swing")
    build.flexible("rod", stiff, spatial.pose(spatial.so3_exp([0, 0.6, 0]), np.zeros(3)))
    build.hinge("pivot", "world", "rod.start", at=(0, 0, 0), axis="y")
    mech = build.build()
    flexible, rigid = (supple.Simulation(each, 1e-3, "bdf2") for each in (mech, rigidified(mech)))
    for sim in (flexible, rigid):
        sim.step(400)
    gap = np.linalg.norm(flexible.poses["rod.end"][:3, 3] - rigid.poses["rod.end"][:3, 3])
    assert np.linalg.norm(rigid.poses["rod.end"][:3, 3] - mech.poses["rod.end"][:3, 3]) > 0.1
    assert gap < 1e-3 * LENGTH


def test_a_spinning_rod_stiffens():
    """Southwell: omega^2 = omega_0^2 + 1.193 Omega^2 for the first flapping mode of a rod clamped to a small hub."""
    build = supple.Builder("rotor", gravity=(0, 0, 0))
    build.flexible("rod", rod())
    build.hinge("shaft", "world", "rod.start", at=(0, 0, 0), axis="x")
    build.motor("drive", "shaft")
    mech = build.build()
    still = supple.modes(mech, count=1).frequencies[0]
    speed = 2 * np.pi * still
    dt = 1 / (still * 400)
    rates = np.array([speed if name == "shaft" else 0.0 for name in mech.coordinates])
    sim = supple.Simulation(mech, dt, "bdf2", rates=rates, motors={"drive": lambda t: speed * t})
    across = []
    for k in range(1600):
        sim.apply("rod.end", [1e-3 * (k < 100), 0, 0, 0, 0, 0])
        sim.step()
        across.append(sim.poses["rod.end"][0, 3])
    signal = np.array(across[200:])
    times = np.arange(len(signal)) * dt
    rising = np.flatnonzero((signal[:-1] < 0) & (signal[1:] >= 0))
    crossings = times[rising] + dt * signal[rising] / (signal[rising] - signal[rising + 1])
    frequency = (len(crossings) - 1) / (crossings[-1] - crossings[0])
    assert frequency == pytest.approx(np.sqrt(1 + 1.193) * still, rel=0.02)


@pytest.fixture(scope="module")
def four_bar() -> supple.Mechanism:
    return supple.library.flexible_four_bar(modes=8, sections=12)


@pytest.mark.parametrize("name", ["cantilever", "four-bar"])
def test_compliance_is_the_derivative_of_equilibria(name, four_bar):
    mech = clamped(rod(), tip_mass=0.1, gravity=(0, 0, -9.81))
    if name == "four-bar":  # a spring in place of the motor
        mech = replace(four_bar, motors=()).with_springs(2.0, joints="pivot")
    loaded = mech.flexible[0].frame("end")
    load = {loaded: [0.3, 0, -0.2, 0, 0, 0]}
    eq = supple.equilibrium(mech, load)
    model = supple.reduce(mech, ["tip"], at=eq)
    start, turn = spatial.inverse(eq.poses["tip"]), np.kron(np.eye(2), eq.poses["tip"][:3, :3])
    for axis in (0, 2, 4):
        h = 2e-5 / np.abs(model.compliance[:, axis]).max()
        wrench = h * turn[:, axis]
        ends = [supple.equilibrium(mech, load | {"tip": s * wrench}, start=eq) for s in (1, -1)]
        moved = [spatial.log(start @ end.poses["tip"]) for end in ends]
        column = (moved[0] - moved[1]) / (2 * h)
        np.testing.assert_allclose(model.compliance[:, axis], column, rtol=0, atol=1e-5 * np.abs(column).max())


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_blend_is_better_than_its_models(share):
    mech = clamped(rod(), tip_mass=0.1, gravity=(0.0, 0.0, -9.81))
    force = np.array([1.0, 0.4, -0.5, 0.0, 0.0, 0.0])
    models = [supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": f * force})) for f in (0.0, 1.0)]
    true = supple.equilibrium(mech, {"tip": share * force}).poses["tip"][:3, 3]
    errors = []
    for model in (supple.blend(models), *models):
        sim = supple.ReducedSimulation(model, dt=0.05)  # a long step: it comes to rest
        sim.apply("tip", share * force)
        sim.step(2000)
        errors.append(np.linalg.norm(sim.poses["tip"][:3, 3] - true))
    moved = np.linalg.norm(true - models[0].rest_poses["tip"][:3, 3])
    assert errors[0] < min(0.02 * moved, 1.2 * min(errors[1:]))
    assert supple.blend(models).at(models[1].end_effector_poses).separation.total < 1e-9


@pytest.mark.long
def test_explored_models_of_a_rod():
    mech = clamped(rod(), tip_mass=0.1, gravity=(0.0, 0.0, -9.81))
    with ThreadPoolExecutor(1) as here:
        many = supple.explore(mech, ["tip"], max_error=0.1, budget=8, executor=here)
    assert many.exploration.within >= 0.95


def test_loops_through_a_flexible_coupler_stay_closed(four_bar):
    sim = supple.Simulation(four_bar, 1e-3, "bdf2", motors={"motor": lambda t: 3.0 * t})
    sim.step(600)
    assert sim.gap < 1e-9
    assert np.abs(sim.coordinates["coupler.end"]).max() > 1e-5


def test_gradients_of_a_run(four_bar):
    """Central differences of fourth order, of a scalar of all poses, coordinates and velocities."""
    part = rod(replace(STEEL, alpha=0.4, beta=1e-3))
    build = supple.Builder("rod on motor")
    build.body("tip", spatial.translation(np.array([0, 0, LENGTH])), 0.1, centre=(0.01, 0, 0.01), inertia=(1e-5,) * 3)
    build.flexible("rod", part)
    build.hinge("foot", "world", "rod.start", at=(0, 0, 0), axis="y")
    build.hinge("hold", "rod.end", "tip", at=(0, 0, LENGTH), axis="y", stiffness=5.0, damping=1e-3)
    build.motor("motor", "foot")
    _check_gradients(build.build(), "tip", 3e-3)
    _check_gradients(four_bar, "tip", 1e-4)  # faster jumps stretch the coupler, and a step has several solutions


def _check_gradients(mech: supple.Mechanism, tip: str, jump: float) -> None:
    rng, steps, dt = np.random.default_rng(0), 10, 1e-3
    by_point, by_q = rng.normal(size=(steps + 1, 3)), rng.normal(size=(steps + 1, mech.dof))
    curve = np.concatenate([[0.0], jump * rng.normal(size=steps)]).cumsum()
    motor = mech.motors[0].name

    def run(curve, load, gravity, record=False):
        sim = supple.Simulation(replace(mech, gravity=gravity), dt, "bdf2")
        sim.apply(tip, load)
        tape = sim.tape() if record else None
        total = 0.0
        for k in range(steps + 1):
            if k:
                sim.set_target(motor, curve[k])
                sim.step()
            q = np.concatenate([sim.coordinates[mech.joints[j].name] for j in mech.topology.tree])
            total += by_point[k] @ sim.poses[tip][:3, 3] + by_q[k] @ q
        return tape if record else total

    load = np.array([0.2, 0.0, 0.1, 0.0, 0.01, 0.0])
    tape = run(curve, load, mech.gravity, record=True)
    found = adjoint.gradient(tape, poses=adjoint.point_gradient(tape, tip, by_point), coordinates=by_q)

    def differences(function, at, h):
        columns = []
        for unit in np.eye(len(at)):
            near, far = (function(at + k * h * unit) - function(at - k * h * unit) for k in (1, 2))
            columns.append((8 * near - far) / (12 * h))
        return np.array(columns)

    cases = [
        (found.motors[motor][1:], differences(lambda x: run(x, load, mech.gravity), curve, 1e-6)[1:]),
        (found.load(tip).sum(axis=0)[[0, 2]], differences(lambda x: run(curve, x, mech.gravity), load, 0.2)[[0, 2]]),
        (found.gravity[[0, 2]], differences(lambda x: run(curve, load, x), mech.gravity, 1e-2)[[0, 2]]),
    ]
    for gradient, expected in cases:
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    directions = rng.normal(size=(2, steps + 1))
    directions[:, 0] = 0
    moved = adjoint.tangent(tape, motors={motor: directions})
    forward = np.einsum("dta,ta->d", moved.coordinates, by_q)
    forward += np.einsum("dtbi,tbi->d", moved.poses, adjoint.point_gradient(tape, tip, by_point))
    backward = directions @ found.motors[motor]
    np.testing.assert_allclose(forward, backward, rtol=0, atol=1e-9 * np.abs(backward).max())


def test_derivatives_by_the_material():
    """Young's modulus and both damping numbers, from a bent start, against central differences of fourth order."""
    mech = clamped(rod(replace(STEEL, alpha=0.4, beta=1e-3)), 0.1, gravity=(2.0, 0, -9.81))
    start = np.zeros(mech.dof)
    start[:3] = 2e-2, 1e-3, -5e-4
    steps, rng = 12, np.random.default_rng(3)
    by_point = rng.normal(size=(steps + 1, 3))

    def simulation(young=1.0, alpha=0.0, beta=0.0):
        part = stiffened(mech.flexible[0].part, young)
        basis = replace(part.basis, alpha=part.basis.alpha + alpha, beta=part.basis.beta + beta)
        flexible = FlexibleBody("rod", replace(part, basis=basis))
        return supple.Simulation(replace(mech, flexible=(flexible,)), 2e-3, "bdf2", q=start)

    def run(**change):
        sim, total = simulation(**change), 0.0
        for k in range(steps + 1):
            total += by_point[k] @ sim.poses["tip"][:3, 3]
            sim.step()
        return total

    sim = simulation()
    tape = sim.tape()
    sim.step(steps)
    gradient = adjoint.gradient(tape, poses=adjoint.point_gradient(tape, "tip", by_point))
    young = mech.flexible[0].part.material.young
    moved = adjoint.tangent(tape, young={"rod": [young, 0, 0]}, alpha={"rod": [0, 1, 0]}, beta={"rod": [0, 0, 1]})
    by_poses = adjoint.point_gradient(tape, "tip", by_point)
    columns = np.einsum("tbi,dtbi->d", by_poses, moved.poses)
    for k, (name, step, scale) in enumerate((("young", 1e-3, young), ("alpha", 1e-2, 1.0), ("beta", 1e-5, 1.0))):
        at = 1.0 if name == "young" else 0.0
        values = [run(**{name: at + n * step}) for n in (-2, -1, 1, 2)]
        expected = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
        assert columns[k] == pytest.approx(expected, rel=1e-6)
        assert scale * getattr(gradient, name)["rod"] == pytest.approx(expected, rel=1e-6)
    with pytest.raises(supple.MechanismError, match="no flexible body"):
        adjoint.tangent(tape, young={"rob": [1.0]})
