"""Matrices for other tools: compliances anywhere, ellipsoids, state space, sensitivities, holding torques."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import signal
from tests.mechanisms import four_bar, random_mechanism

import supple
from small_mechanisms import arm, chain, driven, satellite, with_motor

PUSH = {"tip": [1.0, 2.0, -3.0, 0.0, 0.0, 0.0]}


@pytest.fixture(scope="module")
def loaded():
    mech = arm()
    return supple.reduce(mech, "tip", at=supple.equilibrium(mech, PUSH))


# compliance


def test_compliance_of_a_loaded_tip_is_that_of_small_changes_of_the_load(loaded):
    step, columns = 1e-4, []
    for change in step * np.eye(6):
        ends = [supple.equilibrium(arm(), {"tip": PUSH["tip"] + s * change}) for s in (1, -1)]
        first, second = (eq.poses["tip"] for eq in ends)
        turn = supple.spatial.so3_log(first[:3, :3] @ second[:3, :3].T)
        columns.append(np.concatenate([first[:3, 3] - second[:3, 3], turn]) / (2 * step))
    found = loaded.compliance_at("tip")
    np.testing.assert_allclose(found, np.array(columns).T, atol=1e-6 * np.abs(found).max())


def test_axes_points_and_other_bodies(loaded):
    rotation = np.kron(np.eye(2), loaded.rest_poses["tip"][:3, :3])
    body = loaded.compliance_at("tip", axes="body")
    np.testing.assert_allclose(rotation @ body @ rotation.T, loaded.compliance_at("tip"), atol=1e-15)
    np.testing.assert_allclose(loaded.tangent_compliance("dead"), body, rtol=1e-8, atol=1e-15)
    site = arm().sites[0]
    at_point = loaded.compliance_at("lower", point=site.pose[:3, 3])
    np.testing.assert_allclose(at_point, loaded.compliance_at("tip"), rtol=1e-10)
    assert loaded.compliance_at("upper")[0, 0] >= 0
    unloaded = supple.reduce(arm(), "tip")
    np.testing.assert_allclose(unloaded.compliance_at("tip", axes="body"), unloaded.compliance, atol=1e-14)


def test_compliance_of_a_loop_and_of_a_free_base():
    mech = four_bar(stiffness=20.0)
    model = supple.reduce(mech, "coupler")
    np.testing.assert_allclose(model.compliance_at("coupler", axes="body"), model.compliance, atol=1e-12)
    assert np.isfinite(supple.reduce(satellite(), "boom3").compliance_at("boom3")).all()


def test_ellipsoid_of_a_chain():
    model = supple.reduce(chain([100.0, 50.0]), "end")  # hinges about y, links along x: only z moves
    found = model.ellipsoid_at("end")
    np.testing.assert_allclose(found.semi_axes, [4 / 100 + 1 / 50, 0, 0], atol=1e-15)
    np.testing.assert_allclose(np.abs(found.directions[:, 0]), [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(found.centre, [2, 0, 0], atol=1e-12)
    assert np.isclose(np.linalg.det(found.directions), 1)
    assert np.isclose(model.ellipsoid_at("end", part="angular").semi_axes[0], 1 / 100 + 1 / 50)
    with pytest.raises(supple.MechanismError, match="cannot move"):
        model.ellipsoid_at("end", "stiffness")


def test_stiffness_ellipsoid_is_the_inverse():
    model = supple.reduce(random_mechanism(np.random.default_rng(1), 4, ("bushing",)), "body3")
    soft, stiff = model.ellipsoid_at("body3"), model.ellipsoid_at("body3", "stiffness")
    np.testing.assert_allclose(stiff.semi_axes, 1 / soft.semi_axes[::-1])
    np.testing.assert_allclose(np.abs(stiff.directions[:, ::-1].T @ soft.directions), np.eye(3), atol=1e-8)


# state space


@pytest.mark.parametrize("at", [None, PUSH], ids=["reference", "loaded"])
def test_discrete_steps_are_those_of_the_reduced_simulation(at):
    mech, dt, count = arm(), 2e-3, 200
    eq = None if at is None else supple.equilibrium(mech, at)
    model = supple.reduce(mech, "tip", at=eq)
    system = model.state_space(dt, targets="elbow", axes="body")
    size = 1e-7
    inputs = np.tile(size * np.array([1.0, 2.0, -1.0, 0.2, 0.1, -0.3, 0.5]), (count + 1, 1))
    _, expected, _ = signal.dlsim(tuple(system), inputs)

    def run(sign):
        sim = supple.ReducedSimulation(model, dt)
        turn = np.kron(np.eye(2), model.end_effector_poses[0][:3, :3])
        present = np.array(at["tip"]) if at else np.zeros(6)
        sim.apply("tip", present + sign * turn @ inputs[0, :6])
        sim.set_target("elbow", model.rest_target("elbow") + sign * inputs[0, 6])
        path = []
        for _ in range(count):
            sim.step()
            path.append(sim.displacement)
        return np.array(path)

    found = (run(1.0) - run(-1.0)) / 2  # without terms of second order
    np.testing.assert_allclose(found, expected[1:], atol=1e-8 * np.abs(expected).max())


def test_discrete_steps_are_those_of_the_full_simulation():
    mech, dt, count = chain([40.0, 30.0, 20.0], damping=0.3), 1e-3, 150
    model = supple.reduce(mech, "end", modes=mech.mobility - supple.reduce(mech, "end").rank)
    system = model.state_space(dt)
    force = 1e-4 * np.array([0, 0, 1.0, 0, 0, 0])
    _, expected, _ = signal.dlsim(tuple(system), np.tile(force, (count + 1, 1)))

    def run(sign):
        sim = supple.Simulation(mech, dt, "euler")
        sim.apply("end", sign * force)
        heights = []
        for _ in range(count):
            sim.step()
            heights.append(sim.poses["end"][2, 3])
        return np.array(heights)

    found = (run(1.0) - run(-1.0)) / 2
    z = system.outputs.index("end.z")
    np.testing.assert_allclose(found, expected[1:, z], atol=1e-8 * np.abs(expected[:, z]).max())


def test_continuous_matrices(loaded):
    system = loaded.state_space(velocities=True)
    assert system.inputs == tuple(f"tip.{part}" for part in ("fx", "fy", "fz", "tx", "ty", "tz"))
    assert system.outputs[:3] == ("tip.x", "tip.y", "tip.z")
    assert system.outputs[6] == "tip.vx"
    assert len(system.states) == len(system.A)
    still = -system.C @ np.linalg.solve(system.A, system.B) + system.D
    np.testing.assert_allclose(still[:6], loaded.compliance_at("tip"), rtol=1e-8, atol=1e-14)
    assert (np.linalg.eigvals(system.A).real < 0).all()
    A, B, C, D = system
    assert isinstance(signal.StateSpace(A, B, C, D), signal.StateSpace)
    assert loaded.state_space(1e-3).to_scipy().dt == 1e-3
    discrete = signal.cont2discrete((A, B, C, D), 1e-6)[0]
    np.testing.assert_allclose(loaded.state_space(1e-6).A, discrete, atol=1e-6 * np.abs(discrete).max())


def test_python_control_takes_it(loaded):
    control = pytest.importorskip("control")
    system = loaded.state_space().to_control()
    assert isinstance(system, control.StateSpace)
    assert system.input_labels[0] == "tip_fx"


# sensitivities


@pytest.mark.parametrize("name", ["elbow.stiffness", "lower.mass", "shoulder.1.rest", "elbow.damping"])
def test_sensitivity_against_differences(name):
    def model(change):
        mech = arm().with_parameters({name: arm().parameters[name] + change})
        return supple.reduce(mech, "tip", at=supple.equilibrium(mech, PUSH))

    h = 1e-4
    base, more, less = model(0.0), model(h), model(-h)
    found = base.sensitivity(name, frequencies=2)
    by = (more.compliance_at("tip", axes="body") - less.compliance_at("tip", axes="body")) / (2 * h)
    np.testing.assert_allclose(found.compliance, by, atol=1e-6 * np.abs(by).max() + 1e-12)
    moved = supple.spatial.log(supple.spatial.inverse(less.rest_poses["tip"]) @ more.rest_poses["tip"]) / (2 * h)
    np.testing.assert_allclose(found.displacement["tip"], moved, atol=1e-6 * np.abs(moved).max() + 1e-12)
    pitch = [supple.modes(m.mechanism, m.at).frequencies[:2] for m in (more, less)]
    by = (pitch[0] - pitch[1]) / (2 * h)
    np.testing.assert_allclose(found.frequencies, by, atol=1e-6 * np.abs(by).max() + 1e-9)


def test_sensitivity_at_the_reference_pose_has_the_closed_form():
    found = supple.reduce(chain([100.0, 50.0]), "end").sensitivity("hinge0.stiffness")
    assert np.isclose(found.compliance[2, 2], -4 / 100**2)
    assert not found.displacement["end"].any()


# holding torques


def test_torques_hold_weight_and_loads():
    mech = arm(rest=0.1)
    eq = supple.equilibrium(mech, PUSH)
    holding = supple.inverse_dynamics(_without_springs(mech), eq.q, wrenches=PUSH)
    np.testing.assert_allclose([eq.torques[name] for name in mech.coordinates], holding, rtol=1e-7, atol=1e-12)
    eq = supple.equilibrium(mech)
    weight = supple.gravity_torques(mech, eq.q)
    np.testing.assert_allclose([eq.torques[name] for name in mech.coordinates], weight, rtol=1e-7, atol=1e-12)


def test_torques_of_motors_couplings_and_curves():
    eq = supple.equilibrium(driven(), targets={"drive": 0.4})
    weight = supple.gravity_torques(driven(), eq.q)
    assert np.isclose(eq.torques["drive"], weight["shoulder"], rtol=1e-7)
    assert np.isclose(eq.torques["elbow"], weight["elbow"], rtol=1e-7)
    mech = with_motor()
    eq = supple.equilibrium(mech, {"link3": [0, 1, 2, 0, 0, 0]})
    assert set(eq.torques) >= {"motor", "gear", "tendon", "hinge0"}
    total = eq.torques["hinge0"] + eq.torques["tendon"]
    holding = supple.inverse_dynamics(_without_springs(mech), eq.q, wrenches={"link3": [0, 1, 2, 0, 0, 0]})
    assert np.isclose(total, holding["hinge0"], rtol=1e-6)


def _without_springs(mech):
    joints = [dataclasses.replace(j, stiffness=0 * j.stiffness) for j in mech.joints]
    return dataclasses.replace(mech, joints=tuple(joints), couplings=())


# refusals


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: m.tangent_stiffness("world"), "dead"),
        (lambda m: m.compliance_at("tpi"), "tip"),
        (lambda m: m.compliance_at("floor"), "fixed to the world"),
        (lambda m: m.compliance_at("tip", axes="tool"), "axes"),
        (lambda m: m.compliance_at("tip", point=(1, 2)), "shape"),
        (lambda m: m.compliance_at("tip", point=(1, 2, np.nan)), "finite"),
        (lambda m: m.ellipsoid_at("tip", "mass"), "kind"),
        (lambda m: m.ellipsoid_at("tip", part="force"), "part"),
        (lambda m: m.state_space(0.0), "dt must be"),
        (lambda m: m.state_space(np.nan), "dt must be"),
        (lambda m: m.state_space(axes="tool"), "axes"),
        (lambda m: m.state_space(targets="elbw"), "elbow"),
        (lambda m: m.sensitivity("elbow.stifness"), "elbow.stiffness"),
        (lambda m: m.sensitivity("elbow.stiffness", frequencies=-1), "frequencies"),
        (lambda m: supple.gradient(m.mechanism), "poses="),
        (lambda m: supple.gradient(m.mechanism, poses={"tip": [1.0]}), "shape"),
        (lambda m: supple.gradient(m.mechanism, poses={"tpi": np.zeros(6)}), "tip"),
        (lambda m: supple.gradient(m.mechanism, compliance={"tip": np.full((6, 6), np.nan)}), "finite"),
        (lambda m: supple.gradient(m.mechanism, frequencies=np.ones(9)), "frequencies"),
        (lambda m: supple.gradient(m.mechanism, frequencies=[1.0], parameters="elbow.mass"), "did you mean"),
        (lambda m: m.mechanism.with_parameters({"elbow.stiffness": -1.0}), "negative"),
        (lambda m: m.mechanism.with_parameters({"elbow.stiffness": np.inf}), "finite"),
        (lambda m: m.mechanism.with_parameters({"elbow.rest": 0.1, "elbow.target": 0.2}), "twice"),
        (lambda m: m.mechanism.with_parameters([1.0]), "parameters are given as"),
    ],
)
def test_refusals(loaded, call, text):
    with pytest.raises(supple.MechanismError, match=text):
        call(loaded)
