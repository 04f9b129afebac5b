"""Large motions and static shapes against MuJoCo."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import engine_reference
import mechanisms
import mujoco_reference as reference
import supple

STANDARD = (0.0, 0.0, -9.81)


def written(mech: supple.Mechanism, folder: Path) -> mujoco.MjModel:
    mech.save(folder / "mech.xml")
    model = mujoco.MjModel.from_xml_path(str(folder / "mech.xml"))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    return model


def push(model: mujoco.MjModel, data: mujoco.MjData, body: str, force: tuple[float, ...]) -> None:
    """A force at the body's origin; MuJoCo's acts at the centre of mass, so it comes with its moment."""
    index = model.body(body).id
    arm = data.xpos[index] - data.xipos[index]
    data.xfrc_applied[index] = [*force, *np.cross(arm, force)]


def positions(mech: supple.Mechanism, data: mujoco.MjData) -> np.ndarray:
    return np.array([data.body(b.name).xpos for b in mech.bodies])


def rotations(mech: supple.Mechanism, data: mujoco.MjData) -> np.ndarray:
    return np.array([data.body(b.name).xmat.reshape(3, 3) for b in mech.bodies])


def run(
    model: mujoco.MjModel, data: mujoco.MjData, time: float, dt: float, body: str, force: tuple[float, ...]
) -> None:
    """Runge-Kutta of the fourth order; the force is renewed with the pose."""
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.opt.timestep = dt

    def control(model: mujoco.MjModel, data: mujoco.MjData) -> None:
        push(model, data, body, force)

    mujoco.set_mjcb_control(control)
    try:
        for _ in range(round(time / dt)):
            mujoco.mj_step(model, data)
    finally:
        mujoco.set_mjcb_control(None)
    mujoco.mj_forward(model, data)


def test_large_swing_of_the_robot_arm(tmp_path):
    """The arm, with its springs and dampers, dropped under its weight and pulled sideways."""
    mech = supple.library.robot_arm(gravity=STANDARD)
    force = (-150.0, 200.0, 0.0)
    model = written(mech, tmp_path)
    data = mujoco.MjData(model)
    run(model, data, 1.0, 2e-4, "tip", force)

    sim = supple.Simulation(mech, 5e-4, "bdf2")
    sim.apply("tip", [*force, 0, 0, 0])
    sim.step(2000)
    moved = np.linalg.norm(sim.poses["tip"][:3, 3] - mech.poses["tip"][:3, 3])
    assert moved > 0.5 * mech.radius  # a large swing
    np.testing.assert_allclose(sim.poses.array[:, :3, 3], positions(mech, data), atol=1e-4)
    np.testing.assert_allclose(sim.poses.array[:, :3, :3], rotations(mech, data), atol=1e-4)


def test_free_swing_of_a_soft_robot_arm(tmp_path):
    """Soft, without dampers: it whips about for a second."""
    mech = supple.library.robot_arm(links=6, stiffness=4.0, damping=0.0, gravity=STANDARD)
    model = written(mech, tmp_path)
    data = mujoco.MjData(model)
    run(model, data, 1.0, 1e-4, "tip", (0.0, 3.0, 0.0))
    sim = supple.Simulation(mech, 1e-4, "bdf2")
    sim.apply("tip", [0, 3, 0, 0, 0, 0])
    sim.step(10000)
    assert np.linalg.norm(sim.poses["tip"][:3, 3] - mech.poses["tip"][:3, 3]) > 0.5 * mech.radius
    np.testing.assert_allclose(sim.poses.array[:, :3, 3], positions(mech, data), atol=1e-4)
    np.testing.assert_allclose(sim.poses.array[:, :3, :3], rotations(mech, data), atol=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_flight_of_a_free_tree(tmp_path, seed):
    rng = np.random.default_rng(seed)
    kinds = ("hinge", "slide", "ball", "universal", "axes")
    mech = mechanisms.random_mechanism(rng, 6, kinds, free_base=True, mjcf=True, branching=0.0, reversing=0.0)
    mech = engine_reference.unlimited(mech)
    model = written(mech, tmp_path)
    data = mujoco.MjData(model)
    force = tuple(5 * rng.normal(size=3))
    body = mech.bodies[-1].name
    run(model, data, 1.0, 1e-4, body, force)

    sim = supple.Simulation(mech, 2e-4, "bdf2")
    sim.apply(body, [*force, 0, 0, 0])
    sim.step(5000)
    travelled = np.linalg.norm(sim.poses.array[:, :3, 3] - mech.poses.array[:, :3, 3], axis=1).max()
    assert travelled > 0.3
    np.testing.assert_allclose(sim.poses.array[:, :3, 3], positions(mech, data), atol=1e-4)
    np.testing.assert_allclose(sim.poses.array[:, :3, :3], rotations(mech, data), atol=2e-4)


# static shapes


def settle(
    model: mujoco.MjModel, damping: float, dt: float, body: str | None = None, force: tuple[float, ...] = ()
) -> mujoco.MjData:
    """Runs until rest with uniform damping of the joints (it does not move where things rest) and hard constraints."""
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.timestep = dt
    model.opt.tolerance = 1e-14
    model.opt.iterations = 200
    model.dof_damping[:] = damping
    model.tendon_damping[:] = 0
    hard = np.array([0.9999, 0.9999, 0.001, 0.5, 2])
    for solref, solimp in ((model.eq_solref, model.eq_solimp), (model.jnt_solref, model.jnt_solimp)):
        solref[:], solimp[:] = [2 * dt, 1], hard
    data = mujoco.MjData(model)
    for _ in range(40000):
        if body is not None:
            push(model, data, body, force)
        mujoco.mj_step(model, data)
        if data.time > 50 * dt and np.abs(data.qvel).max() < 1e-7 and np.abs(data.qacc).max() < 1e-4:
            break
    else:
        pytest.fail(f"MuJoCo does not come to rest: {np.abs(data.qvel).max():.1e}")
    mujoco.mj_forward(model, data)
    return data


@pytest.mark.parametrize(
    ("name", "size", "force"),
    [
        ("ladder", {"rungs": 6}, (0.0, 60.0, -20.0)),
        ("helix", {"links": 20}, (50.0, -80.0, 100.0)),
    ],
)
def test_static_shapes(tmp_path, name, size, force):
    mech = getattr(supple.library, name)(gravity=STANDARD, **size)
    data = settle(written(mech, tmp_path), 50.0, 1e-3, "tip", force)
    eq = supple.equilibrium(mech, {"tip": [*force, 0, 0, 0]})
    moved = np.linalg.norm(eq.poses["tip"][:3, 3] - mech.poses["tip"][:3, 3])
    assert moved > 0.05 * mech.radius
    error = np.abs(eq.poses.array[:, :3, 3] - positions(mech, data)).max()
    assert error < 1e-4 * moved
    np.testing.assert_allclose(eq.poses.array[:, :3, :3], rotations(mech, data), atol=1e-4)


def test_static_shape_of_the_soft_foot(robots):
    """Tendons along a path in space are not imported; MuJoCo's are switched off."""
    path = robots / "iit_softfoot" / "softfoot.xml"
    mech = reference.load_quietly(path)
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    model.tendon_stiffness[:] = 0
    model.tendon_limited[:] = 0
    data = settle(model, 0.2, 5e-4)
    eq = supple.equilibrium(mech)
    assert eq.stable
    moved = np.abs(eq.poses.array[:, :3, 3] - mech.poses.array[:, :3, 3]).max()
    error = np.abs(eq.poses.array[:, :3, 3] - positions(mech, data)).max()
    assert moved > 1e-3
    assert error < 1e-2 * moved
