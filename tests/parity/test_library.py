"""The library's mechanisms agree with MuJoCo, from the MJCF that supple writes."""

import warnings
from dataclasses import replace

import mujoco
import numpy as np
import pytest

import supple
from mechanisms import RIGID_LIBRARY
from supple import library

MADE = {name: getattr(library, name)() for name in RIGID_LIBRARY}
MECHANISMS = {name: made for name, made in MADE.items() if isinstance(made, supple.Mechanism)}  # others are bare trees


@pytest.fixture(params=MECHANISMS)
def mech(request):
    return MECHANISMS[request.param]


@pytest.fixture
def model(mech, tmp_path):
    return compiled(mech, tmp_path)


@pytest.fixture
def tree(mech, tmp_path):
    """The spanning tree alone: MuJoCo closes some loops by a copy that shares its body's mass."""
    return compiled(replace(mech, joints=tuple(mech.joints[j] for j in mech.topology.tree)), tmp_path)


def compiled(mech, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the writer tells of the copies
        mech.save(folder / f"{mech.name}.xml")
    return mujoco.MjModel.from_xml_path(str(folder / f"{mech.name}.xml"))


def moved(model, mech, q):
    """MuJoCo's state at our coordinates q, without its constraints."""
    data = mujoco.MjData(model)
    for name, value in zip(mech.coordinates, q, strict=True):
        data.joint(name).qpos[0] = value
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_crb(model, data)
    return data


def columns(model, mech):
    """(dof,) where MuJoCo keeps each of our coordinates."""
    return np.array([model.joint(name).dofadr[0] for name in mech.coordinates])


def world_inertia(data, i):
    """(3, 3) about the centre of mass, world axes."""
    axes = data.ximat[i].reshape(3, 3)
    return axes @ np.diag(data.model.body_inertia[i]) @ axes.T


def test_bodies(mech, model):
    data = moved(model, mech, mech.reference)
    names = [model.body(i).name for i in range(model.nbody)]
    for body, pose in zip(mech.bodies, mech.poses, strict=True):
        # a body and the copies that close loops at it lie on each other and share its mass
        parts = [i for i, name in enumerate(names) if name.partition("__copy")[0] == body.name]
        for i in parts:
            np.testing.assert_allclose(data.xpos[i], pose[:3, 3], rtol=0, atol=1e-10)
            np.testing.assert_allclose(data.xmat[i].reshape(3, 3), pose[:3, :3], rtol=0, atol=1e-10)
            centre = pose[:3, :3] @ body.centre + pose[:3, 3]
            np.testing.assert_allclose(data.xipos[i], centre, rtol=0, atol=1e-10)
        assert abs(model.body_mass[parts].sum() - body.mass) < 1e-10
        inertia = pose[:3, :3] @ body.inertia @ pose[:3, :3].T
        np.testing.assert_allclose(sum(world_inertia(data, i) for i in parts), inertia, rtol=0, atol=1e-10)
    assert abs(model.body_mass.sum() - mech.mass) < 1e-10


def test_springs(mech, model):
    for name in mech.coordinates:
        joint, theirs = mech.joint(name), model.joint(name)
        # one number, or a polynomial of the deflection whose first coefficient it is
        assert np.ravel(theirs.stiffness)[0] == joint.stiffness[0]
        assert np.ravel(theirs.damping)[0] == joint.damping[0]
    np.testing.assert_array_equal(model.opt.gravity, mech.gravity)


def test_mass_matrix_and_jacobians(mech, tree):
    model, rng = tree, np.random.default_rng(0)
    assert model.nv == mech.dof
    order = columns(model, mech)
    for _ in range(50):
        q = rng.uniform(-1.0, 1.0, mech.dof)
        data = moved(model, mech, q)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        np.testing.assert_allclose(supple.mass_matrix(mech, q), full[np.ix_(order, order)], rtol=0, atol=1e-9)
        state = supple.kinematics(mech, q)
        for body, pose in zip(mech.bodies, state.poses, strict=True):
            linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
            mujoco.mj_jacBody(model, data, linear, angular, model.body(body.name).id)
            theirs = np.vstack([pose[:3, :3].T @ linear, pose[:3, :3].T @ angular])[:, order]
            np.testing.assert_allclose(jacobian_at(state, body.name), theirs, rtol=0, atol=1e-9)


def jacobian_at(state, body):
    """`supple.jacobian` at a state already computed."""
    mech = state.mechanism
    adjoint = supple.spatial.adjoint(supple.spatial.inverse(state.poses[body]))
    return adjoint @ (state.screws * mech.topology.moves[mech.body_index(body)][:, None]).T


def test_jacobian_of_the_tip(mech):
    q = np.random.default_rng(1).uniform(-1.0, 1.0, mech.dof)
    expected = jacobian_at(supple.kinematics(mech, q), mech.bodies[-1].name)
    np.testing.assert_allclose(supple.jacobian(mech, mech.bodies[-1].name, q), expected, rtol=0, atol=1e-12)
