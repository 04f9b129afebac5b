"""What holds for blends of every mechanism: interpolation, order, weights, eigenframes."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mechanisms
import pulls
import supple
from engine_reference import unlimited
from supple import spatial
from supple.errors import MechanismError
from supple.reduced.eigenframes import eigenframe

SEEDS = st.integers(0, 2**32 - 1)
QUICK = settings(max_examples=15, deadline=None)


def random_collection(seed: int, count: int = 5) -> list[supple.ReducedModel]:
    """Models of a random mechanism with springs, in gravity or not, loops or not."""
    rng = np.random.default_rng(seed)
    kinds = ("hinge", "universal", "ball", "slide", "cylindrical")
    mech = unlimited(
        mechanisms.random_mechanism(rng, int(rng.integers(2, 7)), kinds, loops=int(rng.integers(2)), sites=3)
    )
    tips = [mech.bodies[-1].name, *(site.name for site in mech.sites if site.body != "world")]
    tips = [str(tip) for tip in rng.permutation(tips)[: rng.integers(1, 3)]]
    try:
        models = [supple.reduce(mech, tips, at=supple.equilibrium(mech))]
        for _ in range(count - 1):
            wrenches = pulls.random_wrenches(models[0], rng, rng.uniform(0.05, 0.2))
            at = supple.equilibrium(mech, dict(zip(tips, wrenches, strict=True)))
            assume(at.stable)
            models.append(supple.reduce(mech, tips, at=at))
        for model in models:  # one that pushes back everywhere; see test_an_unstable_equilibrium in tests/unit
            small = model.basis.T @ model.stiffness @ model.basis
            assume(np.linalg.eigvalsh(small)[0] > 1e-6 * np.abs(small).max())
        supple.blend(models)
    except (supple.ConvergenceError, MechanismError):
        assume(False)
    return models


@QUICK
@given(SEEDS, st.sampled_from(["local", "global"]), st.floats(1, 8))
def test_samples_are_interpolated(seed, support, power):
    models = random_collection(seed)
    many = supple.blend(models, support=support, power=power)
    radius = many.mechanism.radius
    lengths = np.tile([radius] * 3 + [1.0] * 3, len(many.end_effectors))
    for i, model in enumerate(models):
        found = many.at(model.end_effector_poses)
        assert found.weights[i] == 1
        soft = model.compliance / np.outer(lengths, lengths)
        np.testing.assert_allclose(
            found.compliance / np.outer(lengths, lengths), soft, rtol=0, atol=1e-9 * np.abs(soft).max()
        )
        np.testing.assert_allclose(found.poses.array, model.rest_poses.array, rtol=0, atol=1e-9 * max(1, radius))
        np.testing.assert_allclose(found.reference_poses, model.end_effector_poses, rtol=0, atol=1e-9)
        scale = np.abs(model.wrenches).max() + np.abs(model.stiffness).max() * 1e-6
        np.testing.assert_allclose(model.basis.T @ (found.wrenches - model.wrenches), 0, atol=1e-6 * scale)


@QUICK
@given(SEEDS, SEEDS)
def test_the_order_does_not_matter(seed, other):
    """Of weights, means, shown links and energy. (Directions are matched with those of models added before, so that the
    compliance between samples does depend on the order, by some percent.)"""
    models, rng = random_collection(seed), np.random.default_rng(other)
    order = [0, *(1 + rng.permutation(len(models) - 1))]  # the first stays: energies count from there
    a, b = supple.blend(models), supple.blend([models[i] for i in order])
    for i in range(1, len(models)):
        wrenches = {load.name: 0.5 * load.wrench for load in models[i].at.loads}
        try:
            poses = pulls.tip_poses(supple.equilibrium(a.mechanism, wrenches), list(a.end_effectors))
        except supple.ConvergenceError:
            continue
        x, y = a.at(poses), b.at(poses)
        np.testing.assert_allclose(y.weights, x.weights[order], atol=1e-12)
        np.testing.assert_allclose(y.reference_poses, x.reference_poses, atol=1e-12)
        np.testing.assert_allclose(y.poses.array, x.poses.array, atol=1e-9)
        np.testing.assert_allclose(y.energy, x.energy, rtol=1e-9, atol=1e-9)


@QUICK
@given(SEEDS, st.sampled_from(["local", "global"]), st.floats(0, 3))
def test_weights_are_not_negative_and_add_up_to_one(seed, support, size):
    """None is negative, they add up to one, the nearest has the largest; far away too."""
    rng = np.random.default_rng(seed)
    models = pulls.random_models(supple.library.helix(3), ["tip"], int(rng.integers(1, 9)), 0.5, seed=seed)
    many = supple.blend(models, support=support)
    poses = models[-1].end_effector_poses @ spatial.exp(size * rng.normal(size=(1, 6)))
    found = many.at(poses)
    assert (found.weights >= 0).all()
    np.testing.assert_allclose(found.weights.sum(), 1, atol=1e-12)
    distances = many.distances(poses)
    assert found.weights[np.argmin(distances)] == found.weights.max()
    assert (np.diff(found.weights[np.argsort(distances)]) <= 1e-12).all()
    if support == "local" and len(models) > 4:
        reach = 1.2 * np.sort(distances)[3]
        assert (found.weights[distances > reach] == 0).all()
    for part in (found.compliance, found.mass, found.wrenches, found.poses.array):
        assert np.isfinite(part).all()
    np.testing.assert_allclose(found.compliance, found.compliance.T, atol=1e-12 * np.abs(found.compliance).max())
    assert np.linalg.eigvalsh(found.compliance)[0] > -1e-12 * np.abs(found.compliance).max()
    turns = found.poses.array[:, :3, :3]
    np.testing.assert_allclose(turns.swapaxes(-1, -2) @ turns, np.broadcast_to(np.eye(3), turns.shape), atol=1e-9)


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.integers(1, 12))
def test_eigenframes_are_their_matrices(seed, n):
    """For any neighbours, with repeated eigenvalues and missing directions."""
    rng = np.random.default_rng(seed)

    def matrix() -> np.ndarray:
        values = rng.choice([1.0, 1.0, 1.05, 0.3, 1e-3, 1e-7, 0.0], size=n) * rng.choice([1e-3, 1.0])
        values[0] = max(values[0], values.max(), 1e-3)
        turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
        return turn @ np.diag(values) @ turn.T

    frames, wanted = [], []
    for _ in range(3):
        wanted.append(matrix())
        frames.append(eigenframe(wanted[-1], frames[::-1]))
    for frame, each in zip(frames, wanted, strict=True):
        np.testing.assert_allclose(frame.frame @ frame.core @ frame.frame.T, each, atol=1e-10 * np.abs(each).max())
        there = np.diag(frame.core) > 0
        columns = frame.frame[:, there]
        np.testing.assert_allclose(columns.T @ columns, np.eye(there.sum()), atol=1e-10)
        assert not frame.frame[:, ~there].any()


def test_eigenframes_follow_their_neighbour():
    """A matrix that turns slowly keeps the order and the signs of its columns, also where eigenvalues cross."""
    rng = np.random.default_rng(0)
    turn, axis = np.linalg.qr(rng.normal(size=(6, 6)))[0], rng.normal(size=(6, 6))
    axis = axis - axis.T
    last = None
    for s in np.linspace(0, 1, 60):
        rotation = np.linalg.solve(np.eye(6) - 0.05 * s * axis, np.eye(6) + 0.05 * s * axis)  # Cayley
        values = np.array([1 + s, 2 - 0.5 * s, 0.5, 0.1 + 0.2 * s, 0.25, 1e-4])
        basis = rotation @ turn
        frame = eigenframe(basis @ np.diag(values) @ basis.T, [] if last is None else [last])
        if last is not None:
            assert np.abs(frame.frame - last.frame).max() < 0.1
        last = frame
