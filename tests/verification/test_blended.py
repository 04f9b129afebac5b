"""Blended models against the engine and the promises of the paper's section 7: interpolation, continuity, work around
closed paths, passivity, accuracy of two models, singular poses."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import pulls
import supple
from supple import spatial
from supple.reduced.blending import BlendedMotion

# interpolation


@pytest.mark.parametrize("support", ["local", "global"])
@pytest.mark.parametrize("name", pulls.LIBRARY)
def test_the_blend_equals_a_sample_at_its_pose(name, support):
    mech, tips = pulls.library_case(name)
    models = pulls.random_models(mech, tips, 7, 0.4)
    many = supple.blend(models, support=support)
    for i, model in enumerate(models):
        found = many.at(model.end_effector_poses)
        np.testing.assert_allclose(found.weights, np.eye(len(models))[i], atol=1e-12)
        for part in ("compliance", "mass", "damping"):
            close(getattr(found, part), getattr(model, part))
        close(model.basis.T @ found.wrenches, model.basis.T @ model.wrenches)  # a wrench that moves nothing is lost
        np.testing.assert_allclose(found.poses.array, model.rest_poses.array, rtol=0, atol=1e-9 * mech.radius)
        np.testing.assert_allclose(found.reference_poses, model.end_effector_poses, rtol=0, atol=1e-9)
        assert found.separation.total < 1e-9  # as in the equilibrium that it was made at
        assert relative_to_engine(model, found.energy) < 1e-9


def close(found: np.ndarray, wanted: np.ndarray, share: float = 1e-9) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=share * max(np.abs(wanted).max(), 1e-30))


def relative_to_engine(model: supple.ReducedModel, energy: float) -> float:
    """Against half the sum of k q^2 over the springs, which is all there is without gravity."""
    stored = 0.0
    if model.at is not None:
        for joint in model.mechanism.joints:
            stored += 0.5 * float(joint.stiffness @ (model.at.coordinates[joint.name] - joint.rest) ** 2)
    return abs(energy - stored) / max(stored, 1.0)


# continuity


PATHS = [("y", 8), ("ladder", 8), ("helix", 8), ("loop", 8), ("arm", 8), ("helix", 64)]


@pytest.mark.parametrize(("name", "count"), PATHS)
def test_poses_are_continuous(name, count):
    continuous(name, count, "local", segments=60, worst=2, parts=16)


@pytest.mark.parametrize(("name", "count"), [("y", 8), ("ladder", 8), ("helix", 64)])
def test_poses_are_continuous_with_global_support(name, count):
    continuous(name, count, "global", segments=24, worst=1, parts=8)


@pytest.mark.long
@pytest.mark.parametrize("support", ["local", "global"])
@pytest.mark.parametrize("name", pulls.LIBRARY)
@pytest.mark.parametrize("count", [8, 64])
def test_poses_are_continuous_on_long_paths(name, count, support):
    continuous(name, count, support, segments=300, worst=6, parts=32)


def continuous(name: str, count: int, support: str, segments: int, worst: int, parts: int) -> None:
    """Along a random path of equilibria through the samples; where poses, compliance and energy change most, twice as
    many points halve the change from one to the next."""
    mech, tips = pulls.library_case(name)
    models = pulls.random_models(mech, tips, count, 0.4)
    many, rest = supple.blend(models, support=support), models[0]
    wrenches = pulls.closed_path(rest, np.random.default_rng(1), 0.4, segments)

    def looked(loads: np.ndarray) -> list[np.ndarray]:
        """Compliance, poses and energy at the equilibria under loads (k, e, 6)."""
        at, rows = None, []
        for load in loads:
            at = supple.equilibrium(mech, dict(zip(tips, load, strict=True)), start=at)
            found = many.at(pulls.tip_poses(at, tips))
            rows.append((found.compliance.ravel(), found.poses.array.ravel(), np.array([found.energy])))
        return [np.array(column) for column in zip(*rows, strict=True)]

    def change(values: np.ndarray) -> np.ndarray:
        return np.abs(np.diff(values, axis=0)).max(axis=1)

    @cache
    def refined(i: int) -> list[np.ndarray]:
        share = np.linspace(0, 1, 2 * parts + 1)[:, None, None]
        return looked((1 - share) * wrenches[i] + share * wrenches[i + 1])

    coarse = looked(wrenches)
    for k in range(3):
        ratios = []
        for i in np.argsort(change(coarse[k]))[-worst:].tolist():
            fine = refined(i)[k]
            ratios.append(change(fine).max() / change(fine[::2]).max())
        assert min(ratios) > 0.35
        assert max(ratios) < 0.65, ("compliance", "poses", "energy")[k]


def test_a_model_turns_a_link_by_less_than_a_quarter_turn():
    """Far beyond its range, a linear model would turn links by more than that."""
    rest = supple.reduce(*pulls.library_case("arm"))
    for way in np.random.default_rng(0).normal(size=(20, 6)):
        far = rest.end_effector_poses @ spatial.exp(2.5 * way / np.linalg.norm(way))
        shown = supple.blend([rest]).at(far).poses.array[:, :3, :3]
        turns = spatial.so3_log(np.swapaxes(rest.rest_poses.array[:, :3, :3], -1, -2) @ shown)
        assert np.linalg.norm(turns, axis=-1).max() < 1.5501


# the published scheme


def test_the_published_blend_satisfies_equations_24_and_25():
    """Weights, means, links and one step of three models, written down from the paper."""
    models = pulls.random_models(*pulls.library_case("helix"), 3, 0.5)
    many, rest = supple.blend(models, scheme="published"), models[0]
    radius = rest.mechanism.radius
    homes = np.array([model.end_effector_poses[0] for model in models])
    pose = homes[1] @ spatial.exp(np.array([0.05, -0.02, 0.03, 0.1, -0.2, 0.1]))
    found = many.at(pose[None])
    xi, samples = (spatial.log(spatial.inverse(homes[0]) @ each) for each in (pose, homes))
    gaps = np.linalg.norm((xi - samples) / ([radius] * 3 + [np.pi] * 3), axis=1)
    weights = gaps**-2 / (gaps**-2).sum()
    np.testing.assert_allclose(found.weights, weights, atol=1e-12)
    base = homes[np.argmax(weights)]
    middle = base @ spatial.exp(weights @ spatial.log(spatial.inverse(base) @ homes))
    np.testing.assert_allclose(found.reference_poses[0], middle, atol=1e-12)
    away = spatial.log(spatial.inverse(middle) @ pose)
    wrench = np.linalg.solve(found.compliance, away) + weights @ [model.wrenches for model in models]
    holding = np.linalg.solve(spatial.right_jacobian(away).T, wrench)
    np.testing.assert_allclose(found.wrenches, holding, rtol=0, atol=1e-8 * np.abs(holding).max())
    links = []
    for model, home in zip(models, homes, strict=True):
        twists = model.motion_map @ spatial.log(spatial.inverse(home) @ pose)
        links.append(model.rest_poses.array @ spatial.exp(twists))
    links = np.array(links)
    nearest = links[np.argmax(weights)]
    mean = nearest @ spatial.exp(np.tensordot(weights, spatial.log(spatial.inverse(nearest) @ links), 1))
    np.testing.assert_allclose(found.poses.array, mean, atol=1e-9)
    h, motion = 2e-3, BlendedMotion(many, 2e-3, 1)
    motion.place(pose[None])
    motion.core.step(1, False)
    system = found.mass + h * found.damping + h**2 * np.linalg.inv(found.compliance)
    rates = np.linalg.solve(system, -h * wrench)
    np.testing.assert_allclose(motion.tips[0][0], middle @ spatial.exp(away + h * rates), atol=1e-9)


# energy


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("name", pulls.LIBRARY)
def test_net_work_around_closed_paths(name, count, capsys):
    """A blend is not conservative: wrenches on a slow closed path from zero to zero do a little net work. It is printed
    over the largest energy stored on the path."""
    mech, tips = pulls.library_case(name)
    models = pulls.random_models(mech, tips, count, 0.6, seed=3)
    motion = BlendedMotion(supple.blend(models), 1.0, 1)
    for seed in (1, 2):
        path = pulls.closed_path(models[0], np.random.default_rng(seed), 0.5, 200)
        motion.place(models[0].end_effector_poses)
        tips_at = []
        for wrenches in path:
            for i, wrench in enumerate(wrenches):
                motion.core.set_wrench(i, wrench, True)
            assert motion.relax() < 1e-6
            tips_at.append(motion.tips[0])
        tips_at = np.array(tips_at)
        np.testing.assert_allclose(tips_at[-1], models[0].end_effector_poses, atol=1e-8)
        travel = spatial.log(spatial.inverse(tips_at[:-1]) @ tips_at[1:])
        body = pulls.rotated_wrench(np.swapaxes(tips_at[..., :3, :3], -1, -2), path)
        work = np.cumsum(((body[1:] + body[:-1]) / 2 * travel).sum(axis=(1, 2)))
        share = work[-1] / np.ptp(work)
        with capsys.disabled():
            print(f"\n{name}, {count} models: net work {share:+.2%} of {np.ptp(work):.3g} J", end="")
        assert abs(share) < 0.12  # measured: up to 8 % (loop), mostly 1 to 2 %


RELEASES = [
    ("helix", 8, 0.6),
    ("helix", 32, 0.6),
    ("loop", 8, 0.6),
    ("loop", 32, 0.3),
    ("ladder", 2, 0.6),
    ("ladder", 8, 0.6),
    ("y", 2, 0.6),
    ("arm", 2, 0.3),
    ("ladder", 32, 0.6),
    ("arm", 8, 0.3),
    ("y", 8, 0.6),
    ("y", 32, 0.3),
    ("arm", 32, 0.3),
]


@pytest.mark.parametrize(("name", "count", "size"), RELEASES)
def test_damping_keeps_the_simulation_passive(name, count, size):
    """A load is applied suddenly and removed after 20 s; then the motion decays for 40 s."""
    mech, tips = pulls.library_case(name)
    models = pulls.random_models(mech, tips, count, size, seed=5)
    sim = supple.ReducedSimulation(supple.blend(models), 5e-3)
    lengths = [mech.radius] * 3 + [1.0] * 3
    speeds = np.zeros((2, 10))
    for phase, share in enumerate((1.0, 0.0)):
        for i, tip in enumerate(tips):
            sim.apply(tip, share * models[-1].wrenches[6 * i : 6 * i + 6], frame="body")
        for window in range(10):
            for _ in range(40):
                sim.step(10 * (phase + 1))
                poses, twists = sim._motion.tips
                assert np.isfinite(poses).all()
                assert pulls.relative_displacement(models[0], poses) < 4 * size
                speeds[phase, window] = max(speeds[phase, window], np.abs(twists / lengths).max())
    assert speeds[1].max() < 3 * speeds[0].max()
    later = speeds[1][1:]
    assert (later <= np.maximum(1.2 * speeds[1][:-1], 1e-12)).all()  # looked at now and then, peaks differ a little
    assert later[-1] < 0.1 * speeds[1, 0]
    np.testing.assert_allclose(sim.displacement, 0, atol=0.01 * mech.radius)


@pytest.mark.parametrize("dt", [2e-4, 2e-3, 0.05])
@pytest.mark.parametrize("name", pulls.LIBRARY)
def test_random_loads_far_beyond_the_samples_stay_bounded(name, dt):
    """Loads that would move it by 0.8, all at once, one after another, for 2 s or 100 steps each; then none."""
    mech, tips = pulls.library_case(name)
    models = pulls.random_models(mech, tips, 8, 0.8, seed=7)
    sim, rng = supple.ReducedSimulation(supple.blend(models), dt), np.random.default_rng(1)
    for k in range(6):
        for tip, wrench in zip(tips, pulls.random_wrenches(models[0], rng, 0.8), strict=True):
            sim.apply(tip, wrench * (k < 5))
        for _ in range(20):
            sim.step(round(max(2.0 / dt, 100) / 20))
            assert pulls.relative_displacement(models[0], sim._motion.tips[0]) < 4


def test_a_sudden_load_on_the_ladder_gives_the_same_motion_at_all_time_steps():
    """Two models, straight and at relative displacement 1: the ladder is stiffer where it is straight."""
    mech = supple.library.ladder()
    load = {"tip": [0, 50.0, 0, 0, 0, 0]}
    models = [supple.reduce(mech, ["tip"]), supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, load))]
    farthest = []
    for dt in (2e-4, 1e-3, 2e-3):
        sim = supple.ReducedSimulation(supple.blend(models), dt)
        sim.apply("tip", load["tip"])
        at = []
        for _ in range(100):
            sim.step(round(0.05 / dt))
            at.append(np.linalg.norm(sim.displacement[:3]) / mech.radius)
        farthest.append(max(at))
    assert max(farthest) < 1.5
    assert max(farthest) - min(farthest) < 0.02 * max(farthest)


# accuracy


TWO = [
    ("y", (1, 0, 0)),
    ("y", (0, 1, 0)),
    ("y", (0, 0, -1)),
    ("y", (1, -1, 1)),
    ("ladder 16", (0, 1, 0)),
    ("ladder 16", (0, 1, -1)),
    ("ladder 16", (1, 1, 0)),
    ("helix", (1, 0, 0)),
    ("helix", (0, 1, 0)),
    ("helix", (0, 0, 1)),
    ("helix", (1, -1, 1)),
]


@pytest.mark.parametrize(("name", "direction"), TWO)
def test_two_models_against_one(name, direction):
    """Rest and one pull at relative displacement 1. Measured: 4.7 (Y along y) to 11 times less separation."""
    mech, tips = (supple.library.ladder(), ["tip"]) if name == "ladder 16" else pulls.library_case(name)
    rest = supple.reduce(mech, tips)
    unit = np.concatenate([np.array(direction) / np.linalg.norm(direction), np.zeros(3)])
    most = force_for(rest, unit, 1.0)
    loads = [{tips[0]: share * most * unit} for share in np.linspace(0.05, 1.0, 16)]
    truth = [supple.equilibrium(mech, load) for load in loads]
    two = supple.blend([rest, supple.reduce(mech, tips, at=truth[-1])])
    singles = [supple.blend([model]) for model in two.models]
    apart, alone, nearest = [], [], []
    for eq in truth:
        poses = pulls.tip_poses(eq, tips)
        apart.append(two.at(poses).separation.total)
        each = [one.at(poses).separation.total for one in singles]
        alone.append(each[0])
        nearest.append(each[int(np.argmin(two.distances(poses)))])
    assert np.mean(alone) > 3 * np.mean(apart)
    apart, nearest = np.array(apart), np.array(nearest)
    counts = nearest > 0.005
    assert counts.any()
    assert (apart[counts] < 1.25 * nearest[counts]).all()


def force_for(rest: supple.ReducedModel, unit: np.ndarray, displacement: float) -> float:
    """The force along a world direction on the first end effector that moves one by so much, by the engine."""
    low, high, force = 0.0, np.inf, 1.0
    while high == np.inf or high - low > 0.01 * high:
        eq = supple.equilibrium(rest.mechanism, {rest.end_effectors[0]: force * unit})
        if pulls.relative_displacement(rest, pulls.tip_poses(eq, list(rest.end_effectors))) < displacement:
            low = force
        else:
            high = force
        force = 2 * force if high == np.inf else (low + high) / 2
        assert force < 1e4
    return low


@pytest.mark.parametrize("name", ["helix", "loop", "arm"])
def test_more_models_reduce_the_error_of_the_tips(name):
    """Under wrenches that were not samples. Measured: helix and loop less than half of the error, arm 71 %."""
    mech, tips = pulls.library_case(name)
    models = pulls.random_models(mech, tips, 40, 0.5)
    rng = np.random.default_rng(9)
    loads = [pulls.random_wrenches(models[0], rng, 0.4) for _ in range(12)]
    truth = [supple.equilibrium(mech, {tips[0]: load[0]}).poses[tips[0]][:3, 3] for load in loads]
    errors = []
    for count in (1, 40):
        motion = BlendedMotion(supple.blend(models[:count]), 1.0, 1)
        off = []
        for load, wanted in zip(loads, truth, strict=True):
            motion.place(models[0].end_effector_poses)
            motion.core.set_wrench(0, np.ascontiguousarray(load[0]), True)
            motion.relax()
            off.append(np.linalg.norm(motion.tips[0][0, :3, 3] - wanted) / mech.radius)
        errors.append(np.mean(off))
    assert errors[1] < 0.8 * errors[0]


# singular poses


def two_links() -> supple.Mechanism:
    """Figure 4: shoulder and elbow turn about y; stretched along x, the tip gives no way along x."""
    b = supple.Builder("two links", gravity=(0, 0, 0))
    b.link("upper", (0, 0, 0), (0.5, 0, 0), mass=1.0)
    b.link("lower", (0.5, 0, 0), (1.0, 0, 0), mass=1.0)
    b.hinge("shoulder", "world", "upper", (0, 0, 0), "y", stiffness=20.0, damping=2.0)
    b.hinge("elbow", "upper", "lower", (0.5, 0, 0), "y", stiffness=20.0, damping=2.0)
    b.site("tip", "lower", (1.0, 0, 0))
    return b.build()


def bent_models(count: int) -> list[supple.ReducedModel]:
    """The stretched arm, then bent more and more by a push against it."""
    mech = two_links()
    models = [supple.reduce(mech, ["tip"])]
    for share in np.arange(1, count) / (count - 1):
        at = supple.equilibrium(mech, {"tip": [0, 0, 4.0 * share, 0, 6.0 * share, 0]})
        models.append(supple.reduce(mech, ["tip"], at=at))
    return models


@pytest.mark.parametrize("count", [2, 6])
def test_stiffness_rises_as_the_arm_is_stretched(count):
    """Along the arm the tip yields less and less; at the stretched pose not at all."""
    models = bent_models(count)
    assert models[0].rank == 2
    many, mech = supple.blend(models), models[0].mechanism
    along = []
    for share in (1.0, 0.6, 0.3, 0.1, 0.03, 0.01, 0.0):
        at = supple.equilibrium(mech, {"tip": [0, 0, 4.0 * share, 0, 6.0 * share, 0]})
        found, pose = many.at([at.poses["tip"]]), at.poses["tip"][:3, :3]
        x = np.concatenate([pose.T @ [1.0, 0, 0], np.zeros(3)])
        along.append(x @ found.compliance @ x)
    assert along[-1] < 1e-15
    assert (np.diff(along) < 0).all()
    assert along[0] > 1e-3


@pytest.mark.parametrize("count", [2, 6])
def test_a_planar_arm_stays_in_its_plane(count):
    models = bent_models(count)
    sim = supple.ReducedSimulation(supple.blend(models), 2e-3)
    rng = np.random.default_rng(0)
    planar(sim, 1, [rng.normal(size=6) * [4, 4, 4, 2, 2, 2] for _ in range(20)])


def test_the_singular_ladder_stays_in_its_plane():
    """At rest the ladder has two motions, elsewhere three, never six; out-of-plane loads do nothing."""
    mech, tips = pulls.library_case("ladder")
    models = pulls.random_models(mech, tips, 8, 0.4)
    assert [model.rank for model in models] == [2] + [3] * 7
    sim = supple.ReducedSimulation(supple.blend(models), 2e-3)
    rng = np.random.default_rng(0)
    planar(sim, 0, [pulls.random_wrenches(models[0], rng, 0.3)[0] for _ in range(20)])
    rest = sim.model.at(models[0].end_effector_poses).compliance
    assert np.linalg.matrix_rank(rest, 1e-9 * np.abs(rest).max()) == 2


def planar(sim: supple.ReducedSimulation, axis: int, wrenches: list[np.ndarray]) -> None:
    """Loads in all directions, changed suddenly: no link moves along the axis that all hinges turn about, or turns
    about another; and nothing flies away."""
    rest = sim.model.models[0]
    start, unit = rest.rest_poses.array, np.eye(3)[axis]
    far = 0.0
    for wrench in wrenches:
        sim.apply("tip", wrench)
        for _ in range(10):
            sim.step(20)
            poses = sim.poses.array
            np.testing.assert_allclose(poses[:, axis, 3], start[:, axis, 3], atol=1e-9)
            np.testing.assert_allclose(unit @ poses[:, :3, :3], unit @ start[:, :3, :3], atol=1e-9)
            tip = sim.end_effector_pose("tip")
            assert abs(tip[axis, 3] - rest.end_effector_poses[0][axis, 3]) < 1e-9
            far = max(far, pulls.relative_displacement(rest, tip[None]))
    assert 0.1 < far < 2


def test_the_ladder_is_stiffer_along_its_rails_the_straighter_it_is():
    """The compliance along the rails goes to zero at the reference pose."""
    mech, tips = pulls.library_case("ladder")
    rest = supple.reduce(mech, tips)
    lean = [supple.equilibrium(mech, {"tip": [0, f, 0, 0, 0, 0]}) for f in (0.0, 2.0, 5.0, 10.0, 30.0)]
    many = supple.blend([rest, supple.reduce(mech, tips, at=lean[-1])])
    along = []
    for eq in lean:
        pose = eq.poses["tip"]
        z = np.concatenate([pose[:3, :3].T @ [0, 0, 1.0], np.zeros(3)])
        along.append(z @ many.at([pose]).compliance @ z)
    assert along[0] < 1e-12 * along[-1]
    assert (np.diff(along) > 0).all()
