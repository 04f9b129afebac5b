"""A mechanism written as MJCF is the same mechanism in MuJoCo."""

from __future__ import annotations

import warnings
from dataclasses import replace

import mujoco
import numpy as np
import pytest

import mechanisms
import mujoco_reference as reference
import supple
from supple import spatial
from supple.errors import ExportWarning
from supple.mechanism import Curve, Keyframe, Mechanism, Shape
from supple.mechanism.io import mjcf_writer
from supple.mechanism.kinematics import displacement_across
from supple.mechanism.mobility import constraints

SINGLE = [kind for kind in mechanisms.KINDS if kind != "fixed"]
TREES = range(12)


def compiled(mech: Mechanism, q: np.ndarray | None = None) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The written file in MuJoCo, at the reference or at q (through a keyframe)."""
    if q is not None:
        mech = replace(mech, keyframes=(Keyframe("here", q),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExportWarning)
        model = mujoco.MjModel.from_xml_string(mjcf_writer.write(mech))
    data = mujoco.MjData(model)
    if q is not None:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return model, data


def poses(mech: Mechanism, model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    return np.array([reference.pose(data.body(b.name).xpos, data.body(b.name).xmat) for b in mech.bodies])


def velocities(mech: Mechanism, model: mujoco.MjModel, data: mujoco.MjData, q: np.ndarray) -> np.ndarray:
    """(nv, dof) E with qvel = E dq/dt, from the bodies' Jacobians, which it must reproduce exactly."""
    theirs = np.vstack([reference.body_jacobian(model, data, model.body(b.name).id) for b in mech.bodies])
    ours = np.vstack([supple.jacobian(mech, b.name, q) for b in mech.bodies])
    rates = np.linalg.lstsq(theirs, ours, rcond=None)[0]
    np.testing.assert_allclose(theirs @ rates, ours, atol=1e-9)
    return rates


def tree(kind: str | None, seed: int, **options) -> Mechanism:
    kinds = mechanisms.KINDS if kind is None else (kind,)
    rng = np.random.default_rng(seed)
    return mechanisms.random_mechanism(rng, 5, kinds, mjcf=True, **options)


def check_tree(mech: Mechanism, seed: int, tolerance: float = 1e-9) -> None:
    rng = np.random.default_rng(seed)
    model, data = compiled(mech)
    np.testing.assert_allclose(poses(mech, model, data), mech.poses.array, atol=1e-10)
    for body in mech.bodies:
        theirs = model.body(body.name)
        turn = spatial.matrix_from_quat_wxyz(theirs.iquat)
        assert abs(theirs.mass[0] - body.mass) < 1e-10
        np.testing.assert_allclose(theirs.ipos, body.centre, atol=1e-10)
        np.testing.assert_allclose(turn @ np.diag(theirs.inertia) @ turn.T, body.inertia, atol=1e-10)
    for site in mech.sites:
        here = reference.pose(data.site(site.name).xpos, data.site(site.name).xmat)
        np.testing.assert_allclose(here, mech.poses[site.name], atol=1e-10)
    for _ in range(3):
        q = mechanisms.random_q(rng, mech)
        model, data = compiled(mech, q)
        np.testing.assert_allclose(
            poses(mech, model, data), supple.kinematics(mech, q).poses.array, atol=1e-9
        )
        for name, value in zip(mech.coordinates, q, strict=True):
            if 3 not in mech.joint(name).blocks:
                assert data.joint(name).qpos[0] == value
        rates = velocities(mech, model, data, q)
        mass = rates.T @ reference.mass_matrix(model, data) @ rates
        np.testing.assert_allclose(mass, supple.mass_matrix(mech, q), atol=tolerance, rtol=tolerance)
        rate = rng.normal(size=mech.dof)
        data.qvel[:] = rates @ rate
        mujoco.mj_forward(model, data)
        force = rates.T @ data.qfrc_passive
        np.testing.assert_allclose(force, reference.spring_forces(mech, q, rate), atol=1e-8)


@pytest.mark.parametrize("kind", SINGLE)
def test_joint_kinds(kind):
    """Forwards and described backwards."""
    check_tree(tree(kind, 1, reversing=0.0), 1)
    check_tree(tree(kind, 2, reversing=1.0), 2, 1e-8)


@pytest.mark.parametrize("seed", TREES)
def test_random_trees(seed):
    mech = tree(None, seed, couplings=2, free_base=seed % 2 == 0, shapes=seed % 3 == 0)
    check_tree(mech, seed, 1e-8)


def test_damping_of_a_ball():
    """Ours and MuJoCo's both act on the angular velocity."""
    b = supple.Builder("ball")
    b.link("arm", (0, 0, 0), (0.1, 0.2, 0.5), mass=1.0)
    b.ball("turn", "world", "arm", (0, 0, 0), damping=0.3)
    mech, q, rate = b.build(), np.array([0.5, -0.9, 0.7]), np.array([1.0, 2.0, -0.5])
    model, data = compiled(mech, q)
    rates = velocities(mech, model, data, q)
    data.qvel[:] = rates @ rate
    mujoco.mj_forward(model, data)
    speed = mech.joints[0].increments(q)
    np.testing.assert_allclose(rates.T @ data.qfrc_passive, -0.3 * speed.T @ speed @ rate, atol=1e-10)


def test_rotations_after_a_ball_get_helper_bodies():
    """MuJoCo takes neither a rotation after a ball nor more than six motions on one body."""
    b = supple.Builder("sequence")
    b.link("arm", (0, 0, 0), (0, 0, 0.5), mass=1.0)
    turn = np.concatenate([np.zeros((3, 3)), np.eye(3)], axis=1)
    b.joint(
        "many", "world", "arm", np.eye(4), [*turn, *turn, *turn[:2]], (3, 1, 1, 1, 1, 1), 0.2, armature=0.1
    )
    mech = b.build()
    with pytest.warns(ExportWarning, match="arm__between"):
        mjcf_writer.write(mech)
    q = np.linspace(-0.4, 0.5, 8)
    model, data = compiled(mech, q)
    np.testing.assert_allclose(poses(mech, model, data), supple.kinematics(mech, q).poses.array, atol=1e-9)
    velocities(mech, model, data, q)


@pytest.mark.parametrize("links", [400])
def test_long_chain(links):
    b = supple.Builder("chain")
    rng = np.random.default_rng(0)
    points = np.cumsum(rng.normal(size=(links + 1, 3)) * 0.1, axis=0)
    for i in range(links):
        b.link(f"link{i}", points[i], points[i + 1], mass=0.1)
        b.hinge(f"hinge{i}", f"link{i - 1}" if i else "world", f"link{i}", at=points[i], axis="xyz"[i % 3])
    mech = b.build()
    model, data = compiled(mech)
    np.testing.assert_allclose(poses(mech, model, data), mech.poses.array, atol=1e-10)


def test_chain_too_deep():
    b = supple.Builder("chain")
    for i in range(500):
        b.link(f"link{i}", (0, 0, i), (0, 0, i + 1), mass=0.1)
        b.hinge(f"hinge{i}", f"link{i - 1}" if i else "world", f"link{i}", at=(0, 0, i), axis="x")
    with pytest.raises(supple.MechanismError, match="'link490' of 'chain'"):
        mjcf_writer.write(b.build())


# loops


def residual(data: mujoco.MjData) -> float:
    rows = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
    return float(np.abs(data.efc_pos[rows]).max(initial=0.0))


@pytest.mark.parametrize("kind", mechanisms.KINDS)
@pytest.mark.parametrize("sprung", [False, True])
def test_loops_are_closed_at_the_reference(kind, sprung):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(rng, 5, ("hinge", "universal", kind), loops=2, sprung=sprung)
        model, data = compiled(mech)
        assert model.neq > 0
        assert residual(data) < 1e-12
        assert abs(model.body_mass.sum() - mech.mass) < 1e-10


@pytest.mark.parametrize(
    "mech", [mechanisms.four_bar(), mechanisms.stewart(), mechanisms.delta()], ids=lambda m: m.name
)
def test_energy_of_motions_through_loops(mech):
    """Kinetic energy of every motion that the loops allow, and no equality resists it."""
    q = np.concatenate([mech.reference, *(mech.joints[j].reference for j in mech.topology.loops)])
    _, values, basis = np.linalg.svd(constraints(mech, q)[1])
    motions = basis[int((values > 1e-9).sum()) :].T
    model, data = compiled(mech)
    mass = reference.mass_matrix(model, data)
    ends = [model.body(b.name).id for b in mech.bodies]
    theirs = np.vstack([reference.body_jacobian(model, data, i) for i in ends])
    ours = np.vstack([supple.jacobian(mech, b.name) for b in mech.bodies])
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    mujoco.mj_forward(model, data)
    rows = data.efc_J.reshape(data.nefc, model.nv)
    system = np.vstack([theirs, rows])
    for motion in motions.T:
        wanted = np.concatenate([ours @ motion[: mech.dof], np.zeros(len(rows))])
        qvel = np.linalg.lstsq(system, wanted, rcond=None)[0]
        np.testing.assert_allclose(system @ qvel, wanted, atol=1e-9)
        energy = motion[: mech.dof] @ supple.mass_matrix(mech) @ motion[: mech.dof]
        assert qvel @ mass @ qvel == pytest.approx(energy, rel=1e-9)


def test_spring_across_a_planar_loop_is_a_tendon():
    mech = mechanisms.four_bar(stiffness=30.0, damping=0.3, rest=0.2, limits=(-2.0, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExportWarning)
        mjcf_writer.write(mech)  # nothing is approximated
    rng = np.random.default_rng(0)
    loop = mech.joint("d")

    def energy(q):
        angle = loop.coordinates(displacement_across(supple.kinematics(mech, q).poses, "d"))[0]
        springs = [*(q - np.concatenate([j.rest for j in mech.joints[:3]])), *(angle - loop.rest)]
        return 15.0 * np.sum(np.square(springs))

    for _ in range(3):
        q = mechanisms.random_q(rng, mech)
        data = compiled(mech, q)[1]
        step = 1e-6 * np.eye(mech.dof)
        slopes = [(energy(q + s) - energy(q - s)) / 2e-6 for s in step]
        np.testing.assert_allclose(data.qfrc_passive, -np.array(slopes), atol=1e-5)


def test_an_open_loop_is_closed():
    """The equality of a loop that is open at the reference pose closes it, and does not keep the gap."""
    mech = mechanisms.four_bar(damping=1.0)
    joints = list(mech.joints)
    shift = spatial.translation(np.array([0.02, 0.0, 0.0]))
    joints[3] = replace(joints[3], pose_parent=shift @ joints[3].pose_parent, damping=0.0)
    model, data = compiled(replace(mech, joints=tuple(joints)))
    assert residual(data) > 0.01
    mujoco.mj_step(model, data, 400)
    assert residual(data) < 1e-4


# what else there is


def test_constraints_on_coordinates():
    """Rigid couplings of one, two and three coordinates, motors and screws hold where we say they do."""
    b = supple.Builder("coupled", gravity=(0, 0, 0))
    for i in range(5):
        b.link(f"link{i}", (0, 0, i), (0, 0, i + 1), mass=1.0)
    for i in range(4):
        b.hinge(
            f"h{i}",
            f"link{i - 1}" if i else "world",
            f"link{i}",
            (0, 0, i),
            "x",
            reference=0.1 * i,
            damping=1.0,
        )
    b.screw("s", "link3", "link4", (0, 0, 4), "x", pitch=0.3, reference=0.2, damping=1.0)
    b.couple("one", {"h0": 2.0}, rigid=True, rest=0.4)
    b.couple("two", {"h1": 1.0, "h2": -0.5}, rigid=True, rest=0.05)
    b.couple("three", {"h1": 1.0, "h2": 1.0, "h3": 2.0}, rigid=True, rest=1.3)
    b.motor("drive", "s", 0.5)
    mech = b.build()
    model, data = compiled(mech)
    mujoco.mj_step(model, data, 2000)
    q = {name: data.joint(name).qpos[0] for name in mech.coordinates}
    assert q["h0"] == pytest.approx(0.2, abs=1e-5)
    assert q["h1"] - 0.5 * q["h2"] == pytest.approx(0.05, abs=1e-5)
    assert q["h1"] + q["h2"] + 2 * q["h3"] == pytest.approx(1.3, abs=1e-5)
    assert q["s"] == pytest.approx(0.5, abs=1e-5)
    across = displacement_across(supple.mechanism.Poses(mech, poses(mech, model, data)), "s")
    assert mech.joint("s").coordinates(across)[0][0] == pytest.approx(0.5, abs=1e-4)


def test_motor_on_a_loop_coordinate():
    """Of a planar loop through the tree's hinges, of any other through the copy."""
    mech = mechanisms.four_bar()
    driven = replace(mech, motors=(supple.mechanism.Motor("drive", "d", 0.05),))
    model, data = compiled(driven)
    mujoco.mj_step(model, data, 500)
    across = displacement_across(supple.mechanism.Poses(mech, poses(mech, model, data)), "d")
    assert mech.joint("d").coordinates(across)[0][0] == pytest.approx(0.05, abs=1e-3)


def test_shapes_names_and_keyframes():
    b = supple.Builder('odd <&> "name"\x01')
    cube = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    faces = np.array([[0, 1, 3], [0, 3, 2], [4, 7, 5], [4, 6, 7], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6]])
    b.mesh("solid", cube, faces)
    b.mesh("flat", cube[:3], [[0, 1, 2]])
    b.mesh("nothing", cube, np.zeros((2, 3), dtype=int))
    pose = spatial.pose(spatial.so3_exp(np.array([0.3, 0.2, 0.1])), np.array([0.1, 0.2, 0.3]))
    shapes = [Shape(k, s, pose, name="same") for k, s in {"sphere": [0.1], "box": [0.1, 0.2, 0.3]}.items()]
    shapes += [
        Shape("capsule", (0.1, 0.2), pose),
        Shape("cylinder", (0.1, 0.2), pose, contact_type=2**32 - 1),
    ]
    shapes += [Shape("ellipsoid", (0.1, 0.2, 0.3), pose), Shape("plane", (0, 0, 0), pose)]
    shapes += [Shape("mesh", (), pose, mesh=m) for m in ("solid", "flat", "nothing")]
    b.body('a"<\n', mass=1.0, inertia=(1, 1, 1), shapes=shapes)
    b.ground(Shape("plane", (0, 0, 0), pose))
    b.ball("turn", "world", 'a"<\n', at=(0, 0, 0), stiffness=[1, 2, 3])
    b.site("here", "world", at=(1, 2, 3))
    b.exclude("world", 'a"<\n')
    mech = replace(b.build(), keyframes=(Keyframe("k", (0.1, 0.2, 0.3)),))
    with pytest.warns(ExportWarning) as caught:
        text = mjcf_writer.write(mech)
    said = str(caught[0].message)
    for part in ("no moving planes", "mesh is flat", "have no area", "the means", "'turn'"):
        assert part in said
    model = mujoco.MjModel.from_xml_string(text)
    assert model.body(1).name == 'a"<\n'
    assert (model.ngeom, model.nexclude, model.nkey, model.nsite) == (8, 1, 1, 1)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    mesh = int(np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)[0])
    first = model.mesh_vert[: model.mesh_vertnum[0]]
    seen = data.geom_xpos[mesh] + first @ data.geom_xmat[mesh].reshape(3, 3).T
    np.testing.assert_allclose(seen, cube @ pose[:3, :3].T + pose[:3, 3], atol=1e-6)


def test_curve_becomes_its_tangent():
    b = supple.Builder("curved", gravity=(0, 0, 0))
    b.link("arm", (0, 0, 0), (0, 0, 1), mass=1.0)
    curve = Curve((-1, 0, 1), (-5, 0, 20))
    b.hinge("h", "world", "arm", (0, 0, 0), "x", reference=0.4, rest=0.1, stiffness=3.0, curves=[curve])
    mech = b.build()
    with pytest.warns(ExportWarning, match="'h': the curve"):
        mjcf_writer.write(mech)
    for q in (0.4, 0.4001):
        _, data = compiled(mech, np.array([q]))
        force = -(3.0 * (q - 0.1) + float(curve(q - 0.1)))
        assert data.qfrc_passive[0] == pytest.approx(force, abs=1e-5)


def test_masses_that_mujoco_rejects():
    b = supple.Builder("light")
    b.body("ghost")
    b.hinge("h", "world", "ghost", (0, 0, 0), "x")
    with pytest.raises(supple.MechanismError, match="'ghost' moves but has no mass"):
        mjcf_writer.write(b.build())
    b.body("load", mass=1.0)  # a point mass fixed to it will do
    b.fixed("glue", "ghost", "load")
    compiled(b.build())


def test_save_names_the_file(tmp_path):
    mech = mechanisms.four_bar()
    mjcf_writer.save(mech, tmp_path / "arm.xml")
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "arm.xml")).nbody == 4
    with pytest.raises(supple.MechanismError, match="nowhere"):
        mjcf_writer.save(mech, tmp_path / "nowhere" / "arm.xml")


@pytest.mark.parametrize("name", ["bicycle_chain", "helix", "ladder", "loop", "robot_arm", "y"])
def test_library(name):
    """The file opens; under a load the loops stay closed and the motion is bounded."""
    mech = replace(getattr(supple.library, name)(), gravity=(0.0, 0.0, -9.81))
    model, data = compiled(mech)
    np.testing.assert_allclose(poses(mech, model, data), mech.poses.array, atol=1e-10)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    mujoco.mj_step(model, data, 300)
    assert np.isfinite(data.qpos).all()
    assert residual(data) < 1e-4


@pytest.mark.parametrize(
    "file", ["robotiq_2f85/2f85.xml", "shadow_hand/right_hand.xml", "iit_softfoot/softfoot.xml"]
)
def test_robots_round_trip(robots, file, tmp_path):
    """Read, written and read again: the same bodies, springs and motions."""
    mech = reference.load_quietly(robots / file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExportWarning)
        mech.save(tmp_path / "again.xml")
    again = reference.load_quietly(tmp_path / "again.xml")
    np.testing.assert_allclose(again.poses.array, mech.poses.array, atol=1e-10)
    assert [b.name for b in again.bodies] == [b.name for b in mech.bodies]
    assert (again.coordinates, again.mobility) == (mech.coordinates, mech.mobility)
    q = mechanisms.random_q(np.random.default_rng(0), mech)
    np.testing.assert_allclose(supple.mass_matrix(again, q), supple.mass_matrix(mech, q), atol=1e-9)
    rate = np.zeros(mech.dof)
    springs = reference.spring_forces(mech, q, rate)
    np.testing.assert_allclose(reference.spring_forces(again, q, rate), springs, atol=1e-9)
