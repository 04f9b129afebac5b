"""Full simulation with all nodes: agreement with `Simulation`, start, snapshots, errors."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import supple
from supple import elastic
from supple.engine import FullSimulation, full, full_equilibrium
from supple.mechanism import Builder, Curve, Mechanism
from supple.mechanism.moving import check_moving
from supple.viewer.session import Session

QUIET = {"progress": lambda fraction: None}


@cache
def coarse_part(beta: float = 0.0) -> elastic.Part:
    material = elastic.Material(200e9, 0.3, 7850.0, beta=beta)
    return elastic.rod(0.7, 4e-3, material, sections=4, sides=6).with_basis(3, method="linear", **QUIET)


@cache
def rod_on_motor(beta: float = 0.0) -> Mechanism:
    b = Builder("rod on motor", gravity=(0, 0, -9.81))
    b.flexible("rod", coarse_part(beta))
    b.hinge("foot", "world", "rod.start", (0, 0, 0), "y")
    b.motor("motor", "foot")
    b.body("weight", supple.spatial.translation(np.array([0, 0, 0.7])), 0.1, (0, 0, 0), (1e-5, 1e-5, 8e-6))
    b.fixed("weld", "rod.end", "weight")
    b.site("top", "weight", at=(0, 0, 0.71))
    return b.build()


def rigid_chain() -> Mechanism:
    """Hinge with curve and armature, ball with spring and damper, slide, couplings, motor."""
    b = Builder("chain", gravity=(0.5, 0, -9.81))
    for k, name in enumerate(("a", "b", "c", "d")):
        b.link(name, (0.3 * k, 0, 0), (0.3 * k + 0.3, 0, 0), mass=1.0, inertia=(0.01, 0.012, 0.004))
    curve = Curve([-1.0, 0.0, 1.0], [-8.0, 0.0, 5.0])  # type: ignore[arg-type]
    b.hinge("motor joint", "world", "a", (0, 0, 0), "y")
    b.hinge("bent", "a", "b", (0.3, 0, 0), (0.2, 1, 0.1), armature=0.05, damping=0.1, curves=(curve,))
    b.ball("ball", "b", "c", (0.6, 0, 0), stiffness=3.0, damping=0.2, armature=0.01)
    b.slide("slide", "c", "d", (0.9, 0, 0), "z", stiffness=200.0)
    b.couple("tendon", {"bent": 1.0, "slide": 2.0}, stiffness=4.0, damping=0.3, rest=0.1)
    b.motor("motor", "motor joint")
    b.site("tip", "d", at=(1.2, 0, 0.1))
    return b.build()


def four_bar() -> Mechanism:
    """A plane loop with parallel hinges: three of its constraints are redundant."""
    b = Builder("four-bar", gravity=(0, 0, -9.81))
    corners = [(0, 0, 0), (0, 0, 0.3), (0.4, 0, 0.4), (0.5, 0, 0)]
    for k, name in enumerate(("crank", "coupler", "rocker")):
        b.link(name, corners[k], corners[k + 1], mass=0.5)
    for k, (parent, child) in enumerate((("world", "crank"), ("crank", "coupler"), ("coupler", "rocker"))):
        b.hinge(f"joint{k}", parent, child, corners[k], "y", damping=0.01)
    b.hinge("closing", "rocker", "world", corners[3], "y", stiffness=0.5)
    return b.build()


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_rigid_mechanism_moves_as_in_simulation(method: str) -> None:
    mech = rigid_chain()
    motors = {"motor": lambda t: 0.4 * np.sin(6 * t) ** 2}
    simulations = [kind(mech, 2e-3, method, motors=motors) for kind in (supple.Simulation, FullSimulation)]
    for sim in simulations:
        sim.apply("tip", [1.0, 2.0, 0.5, 0.1, 0.0, -0.2])
        sim.apply("b", [0.3, 0.0, 0.2, 0.0, 0.1, 0.0], frame="body")
        sim.set_target("tendon", 0.3)
        sim.step(15)
    known, other = simulations
    assert np.abs(known.poses.array - mech.poses.array).max() > 0.01
    np.testing.assert_allclose(other.poses.array, known.poses.array, atol=1e-9)
    np.testing.assert_allclose(other.velocities, known.velocities, atol=1e-7)
    assert other.motor_torques == pytest.approx(known.motor_torques, rel=1e-6)
    assert other.energy.total == pytest.approx(known.energy.total, abs=1e-7)
    for name, wrench in known.reactions.items():
        np.testing.assert_allclose(other.reactions[name], wrench, atol=1e-5)


def test_redundant_loop_moves_as_in_simulation() -> None:
    mech = four_bar()
    known, other = supple.Simulation(mech, 2e-3, "bdf2"), FullSimulation(mech, 2e-3)
    for sim in (known, other):
        sim.step(15)
    assert np.abs(known.poses.array - mech.poses.array).max() > 0.002
    np.testing.assert_allclose(other.poses.array, known.poses.array, atol=1e-9)


def test_limits_are_met_as_in_simulation() -> None:
    b = Builder("pendulum", gravity=(0, 0, -9.81))
    b.link("bar", (0, 0, 0), (0.3, 0, 0), mass=1.0)
    b.hinge("hinge", "world", "bar", (0, 0, 0), "y", limits=(-0.1, 0.2))
    mech = b.build()
    known, other = supple.Simulation(mech, 5e-3, "bdf2"), FullSimulation(mech, 5e-3)
    for sim in (known, other):
        sim.step(30)
    assert other.coordinates["hinge"] == pytest.approx([0.2])
    assert other.motor_torques == pytest.approx(known.motor_torques)


def test_statics_of_rigid_mechanisms() -> None:
    mech = rigid_chain()
    known = supple.equilibrium(mech, {"tip": [0, 1.0, 0.5, 0, 0, 0]}, targets={"motor": 0.3})
    other = full_equilibrium(mech, {"tip": [0, 1.0, 0.5, 0, 0, 0]}, targets={"motor": 0.3}, **QUIET)
    np.testing.assert_allclose(other.poses.array, known.poses.array, atol=1e-9)
    assert other.motor_torques == pytest.approx(known.motor_torques, rel=1e-7)


def test_simulation_stays_in_an_equilibrium() -> None:
    mech = rod_on_motor(1e-4)
    load = {"top": [0.3, 0.1, 0, 0, 0, 0.01]}
    start = full_equilibrium(mech, load, targets={"motor": 0.5}, **QUIET)
    sim = FullSimulation(mech, 1e-3, start=start)
    sim.step(4, **QUIET)
    np.testing.assert_allclose(sim.poses.array, start.poses.array, atol=1e-9)
    assert sim.time == pytest.approx(4e-3)
    assert sim.motor_torques["motor"] == pytest.approx(start.motor_torques["motor"], rel=1e-6)
    reached = full_equilibrium(mech, targets={"motor": 0.5}, start=start, **QUIET)
    direct = full_equilibrium(mech, targets={"motor": 0.5}, **QUIET)
    np.testing.assert_allclose(reached.poses["weight"], direct.poses["weight"], atol=1e-8)


def test_it_moves_in_viewer_recordings_and_logs(tmp_path) -> None:
    """It has the members of `Moving`; amplitudes are those that describe its nodes best."""
    mech = rod_on_motor()
    q = mech.reference.copy()
    eta = [mech.coordinates.index(name) for name in mech.flexible[0].coordinates]
    q[eta] = 1e-3, -5e-4, 2e-4
    rates = np.zeros(mech.dof)
    rates[eta] = 0.02, 0.01, -0.03
    sim = FullSimulation(mech, 1e-3, q=q, rates=rates)
    check_moving(sim)
    np.testing.assert_allclose(sim.q, q, atol=1e-9)
    np.testing.assert_allclose(sim.qd, rates, atol=1e-6)
    np.testing.assert_allclose(sim.poses.amplitudes["rod"], q[eta], atol=1e-9)
    log = sim.log(["q", "top", "energy"])
    with sim.record(rate=1000) as recorder:
        sim.step(3, **QUIET)
    assert len(log) == 4
    assert log["top"][-1] == pytest.approx(sim.poses["top"][:3, 3])
    np.testing.assert_allclose(recorder.recording.at(3e-3).amplitudes["rod"], sim.poses.amplitudes["rod"])
    session = Session(sim, ["top"])
    session.pull("top", session.frame.pulls["top"].point + [0, 0.05, 0])
    session.step(3)
    assert session.frame.force > 0
    assert session.frame.poses["top"][1, 3] > 0
    sim.reset()
    np.testing.assert_allclose(sim.q, q, atol=1e-9)


def test_states_of_equal_mechanisms_and_other_time_steps() -> None:
    mech = four_bar()
    sim = FullSimulation(mech, 4e-3, "bdf2")
    sim.step(20, **QUIET)
    saved = sim.save()
    heavier = replace(mech, bodies=(replace(mech.bodies[0], mass=0.6), *mech.bodies[1:]))
    with pytest.raises(supple.MechanismError, match="another mechanism"):
        FullSimulation(heavier, 4e-3, "bdf2").restore(saved)
    fine, exact = FullSimulation(four_bar(), 1e-3, "bdf2"), FullSimulation(mech, 5e-4, "bdf2")
    fine.restore(saved)
    fine.step(40, **QUIET)
    sim.step(10, **QUIET)
    exact.step(240, **QUIET)
    assert np.abs(fine.q - exact.q).max() < 1.5 * np.abs(sim.q - exact.q).max()


def test_displacements_are_relative_to_the_reference_interface() -> None:
    mech = rod_on_motor()
    eq = full_equilibrium(mech, targets={"motor": 0.7}, **QUIET)
    u = eq.displacements("rod")
    part = mech.flexible[0].part
    rows = part.interface("start").rigid_rows()
    np.testing.assert_allclose(np.einsum("rai,ai->r", rows, u[part.interface("start").nodes]), 0, atol=1e-12)
    end = part.frame_of_nodes("end").pose(u[part.interface("end").nodes].ravel())
    expected = eq.poses["rod.start"] @ supple.spatial.inverse(part.rest_frame("start")) @ end
    np.testing.assert_allclose(eq.poses["rod.end"], expected, atol=1e-12)
    with pytest.raises(supple.MechanismError, match="flexible body"):
        eq.displacements("rood")


def test_newton_converges_quadratically() -> None:
    eq = full_equilibrium(rod_on_motor(), {"weight": [0.1, 0.05, 0, 0, 0, 0.01]}, **QUIET)
    assert eq.load_fraction == 1
    assert eq.iterations <= 6


def test_initial_rates_move_nodes_and_frames() -> None:
    b = Builder("free rod", gravity=(0, 0, 0))
    b.flexible("rod", coarse_part())
    b.free("free", "world", "rod.start")
    mech = b.build()
    rates = np.zeros(mech.dof)
    rates[[mech.coordinates.index(f"free.{k}") for k in range(3)]] = 1.0, 2.0, 3.0
    rates[mech.coordinates.index("free.4")] = 0.5
    sim = FullSimulation(mech, 1e-3, rates=rates)
    mass = mech.flexible[0].basis.mass
    np.testing.assert_allclose(sim.momentum[:3], mass * np.array([1.0 + 0.5 * 0.35, 2.0, 3.0]), rtol=1e-9)
    sim.step(1, **QUIET)
    end = sim.velocities[mech.body_index("rod.end")]
    np.testing.assert_allclose(end[:3], [1.35, 2.0, 3.0], atol=5e-3)
    np.testing.assert_allclose(end[3:], [0, 0.5, 0], atol=5e-3)


def test_diverging_step_keeps_the_last_good_state() -> None:
    sim = FullSimulation(rod_on_motor(), 1e-3)
    sim.step(2, **QUIET)
    before = sim.positions("rod")
    sim.apply("weight", [0, 0, -1e6, 0, 0, 0])
    with pytest.raises(supple.ConvergenceError, match=r"tetrahedron \d+ of 'rod' .* is inverted") as caught:
        sim.step(3, **QUIET)
    assert caught.value.time == sim.time == pytest.approx(2e-3)
    np.testing.assert_array_equal(sim.positions("rod"), before)
    sim.apply("weight", np.zeros(6))
    sim.step(1, **QUIET)
    assert np.isfinite(sim.energy.total)


def test_path_that_ends_before_the_full_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full, "SMALLEST_FRACTION", 0.4)
    with pytest.raises(supple.ConvergenceError, match="no equilibrium of 'rod on motor' beyond") as caught:
        full_equilibrium(rod_on_motor(), {"weight": [0, 0, -1e6, 0, 0, 0]}, **QUIET)
    assert 0 <= caught.value.load_fraction < 1
    assert caught.value.state.load_fraction == caught.value.load_fraction


def test_wrong_arguments() -> None:
    mech = rod_on_motor()
    with pytest.raises(supple.MechanismError, match="'motor' is off by"):
        FullSimulation(mech, motors={"motor": lambda t: 0.1})
    with pytest.raises(supple.MechanismError, match="motor of"):
        FullSimulation(mech, motors={"moter": lambda t: 0.0})
    with pytest.raises(supple.MechanismError, match="method"):
        FullSimulation(mech, method="rk4")
    with pytest.raises(supple.MechanismError, match="FullEquilibrium"):
        full_equilibrium(mech, start="rest", **QUIET)  # type: ignore[arg-type]
    with pytest.raises(supple.MechanismError, match="not of this"):
        FullSimulation(mech, start=full_equilibrium(rigid_chain(), **QUIET))
    sim = FullSimulation(mech, motors={"motor": lambda t: 0.0})
    with pytest.raises(supple.MechanismError, match="function of time"):
        sim.set_target("motor", 0.1)


def test_part_that_nothing_holds() -> None:
    b = Builder("loose rod", gravity=(0, 0, 0))
    b.flexible("rod", coarse_part())
    b.hinge("foot", "world", "rod.start", (0, 0, 0), "y")
    with pytest.raises(supple.MechanismError, match="nothing holds 'foot'"):
        full_equilibrium(b.build(), {"rod.end": [0, 0, 0, 0, 0.1, 0]}, **QUIET)


def test_couplings_of_amplitudes_are_refused() -> None:
    b = Builder("coupled amplitude")
    b.flexible("rod", coarse_part())
    b.fixed("foot", "world", "rod.start")
    b.couple("spring", {"rod.eta0": 1.0}, stiffness=2.0)
    with pytest.raises(supple.MechanismError, match="coupling 'spring' acts on a modal amplitude"):
        FullSimulation(b.build())
