"""Blended models and their simulation: the interface and growth."""

from __future__ import annotations

import numpy as np
import pytest

import pulls
import supple
from pulls import helix_models, simulation_in_motion
from supple import spatial
from supple.reduced import BlendedModel


def motorised() -> supple.Mechanism:
    """Four links with sprung hinges, one of them driven by a motor, a spring coupling and a ball joint."""
    b = supple.Builder("motorised", gravity=(0, 0, -9.81))
    for i in range(4):
        b.link(f"link{i}", (0.3 * i, 0, 0), (0.3 * i + 0.3, 0, 0), mass=0.3)
        parent = "world" if i == 0 else f"link{i - 1}"
        at, springs = (0.3 * i, 0, 0), {"stiffness": 30.0, "damping": 1.0}
        if i == 2:
            b.ball("ball", parent, "link2", at, **springs)
        else:
            b.hinge(f"hinge{i}", parent, f"link{i}", at, "yz"[i % 2], **springs)
    b.motor("motor", "hinge1", 0.0)
    b.couple("tendon", {"hinge0": 1.0, "hinge3": -0.5}, stiffness=15.0)
    b.site("tip", "link3", (1.2, 0, 0))
    return b.build()


# the interface


def test_names_shapes_and_repr():
    models = pulls.random_models(*pulls.library_case("y"), 3, 0.3)
    many = supple.blend(models)
    assert many.models == tuple(models)
    assert many.end_effectors == ("left_tip", "right_tip")
    assert many.mechanism is models[0].mechanism
    assert (many.power, many.support, many.scheme, many.exploration) == (4.0, "local", "corrected", None)
    assert "3 models" in repr(many)
    found = many.at(models[1].end_effector_poses)
    assert found.weights.shape == (3,)
    assert found.compliance.shape == found.mass.shape == found.damping.shape == (12, 12)
    assert found.wrenches.shape == (12,)
    assert found.reference_poses.shape == (2, 4, 4)
    assert found.poses.array.shape == (18, 4, 4)
    assert isinstance(found.energy, float)
    assert supple.blend(iter(models)).models == many.models
    distances = many.distances(models[1].end_effector_poses)
    assert distances[1] == 0
    assert distances.shape == (3,)


def test_results_of_at_are_independent_of_later_calls():
    models = helix_models(3)
    many = supple.blend(models)
    first = many.at(models[1].end_effector_poses)
    kept = first.poses.array.copy(), first.weights.copy(), first.compliance.copy()
    many.at(models[2].end_effector_poses)
    for now, then in zip((first.poses.array, first.weights, first.compliance), kept, strict=True):
        np.testing.assert_array_equal(now, then)


def test_distances_are_lengths_over_the_radius_and_chords_over_pi():
    models = helix_models(2)
    rest, radius = models[0].end_effector_poses[0], models[0].mechanism.radius
    many = supple.blend(models)
    assert many.distances([rest @ spatial.translation(np.array([0, 0.3, 0.4]))])[0] == pytest.approx(0.5 / radius)
    turn = spatial.pose(spatial.so3_exp(np.array([0, 0.8, 0])), np.zeros(3))
    assert many.distances([rest @ turn])[0] == pytest.approx(2 * np.sin(0.4) / np.pi)


@pytest.mark.parametrize("scheme", ["corrected", "published"])
def test_one_model_blended_is_that_model(scheme):
    """The same steps as of the linear model alone: it has weight one and its own pose is the mean."""
    model = helix_models(1)[0]
    sims = [supple.ReducedSimulation(each, 2e-3) for each in (model, supple.blend([model], scheme=scheme))]
    for sim in sims:
        sim.pull("tip", model.end_effector_poses[0, :3, 3] + 0.1, 1000.0, 1.0)
        sim.step(200)
    np.testing.assert_allclose(sims[1].displacement, sims[0].displacement, atol=1e-10)
    np.testing.assert_allclose(sims[1].poses.array, sims[0].poses.array, atol=1e-8)
    np.testing.assert_allclose(sims[1].velocities, sims[0].velocities, atol=1e-6)
    assert np.abs(sims[0].displacement).max() > 0.01


def test_one_model_under_a_load_is_that_model_as_steps_get_small():
    """Linear models take the geometric stiffness of an applied load implicitly, blends do not."""
    model = helix_models(1)[0]
    off = []
    for dt in (8e-3, 4e-3):
        sims = [supple.ReducedSimulation(each, dt) for each in (model, supple.blend([model]))]
        for sim in sims:
            sim.apply("tip", [30.0, -20.0, 10.0, 1.0, 2.0, 0.5], frame="body")
            sim.step(round(0.4 / dt))
        off.append(np.abs(sims[1].displacement - sims[0].displacement).max() / np.abs(sims[0].displacement).max())
    assert off[1] < 0.75 * off[0] < 0.01


def test_one_loaded_model_blended_is_that_model_to_first_order():
    """Blends hold a model's force fixed in the world, linear models let it turn with the end effector."""
    model = helix_models(2)[1]
    off = []
    for size in (1.0, 0.5):
        sims = [supple.ReducedSimulation(each, 2e-3) for each in (model, supple.blend([model]))]
        for sim in sims:
            sim.apply("tip", (1 + size) * model.wrenches, frame="body")
            sim.step(100)
        off.append(np.abs(sims[1].displacement - sims[0].displacement).max() / np.abs(sims[0].displacement).max())
    assert off[1] < 0.6 * off[0] < 0.06


def test_starts_at_rest_with_the_loads_of_the_first_model():
    mech, tips = pulls.library_case("helix")
    models = pulls.random_models(mech, tips, 4, 0.4)
    for order in (models, models[::-1]):
        sim = supple.ReducedSimulation(supple.blend(order), 2e-3)
        sim.step(500)
        np.testing.assert_allclose(sim.displacement, 0, atol=1e-9)
        np.testing.assert_allclose(sim.poses.array, order[0].rest_poses.array, atol=1e-9)


def test_several_end_effectors():
    """A load on one tip of the Y moves the other as in the engine, far from the reference pose."""
    mech, tips = pulls.library_case("y")
    load = np.array([60.0, 20.0, -40.0, 0, 0, 0])
    truth = [supple.equilibrium(mech, {"left_tip": share * load}) for share in (0.5, 0.8, 1.0)]
    many = supple.blend([supple.reduce(mech, tips), *(supple.reduce(mech, tips, at=eq) for eq in truth[::2])])
    sim = supple.ReducedSimulation(many, 0.02)
    sim.apply("left_tip", 0.8 * load)
    sim.step(4000)
    moved = {}
    for tip in tips:
        wanted, rest = truth[1].poses[tip][:3, 3], mech.poses[tip][:3, 3]
        moved[tip] = np.linalg.norm(wanted - rest)
        assert np.linalg.norm(sim.end_effector_pose(tip)[:3, 3] - wanted) < 0.02 * moved["left_tip"]
    assert moved["right_tip"] > 0.01


def test_velocities_are_the_rates_of_link_poses():
    sim = simulation_in_motion(supple.blend(helix_models()))
    small = 1e-5
    fine = supple.ReducedSimulation(sim.model, small)
    fine.restore(sim.save())
    before, velocities = fine.poses.array.copy(), fine.velocities
    fine.step()
    after, later = fine.poses.array.copy(), fine.velocities
    moved = spatial.log(spatial.inverse(before) @ after) / small
    assert np.abs(velocities).max() > 0.1
    np.testing.assert_allclose(moved, (velocities + later) / 2, atol=2e-3 * np.abs(velocities).max())
    np.testing.assert_array_equal(fine.poses.array, after)  # reading velocities does not change poses


def test_coordinates():
    """At each sample they are those of its equilibrium; between samples they agree approximately with the links."""
    mech = motorised()
    models = pulls.random_models(mech, ["tip"], 4, 0.3)
    sim = supple.ReducedSimulation(supple.blend(models), 1e-3)
    for model in models[1:]:
        sim._motion.place(model.end_effector_poses)
        for name, q in sim.coordinates.items():
            np.testing.assert_allclose(q, model.at.coordinates[name], atol=1e-9)
    half = {"tip": 0.5 * (models[1].at.loads[0].wrench + models[2].at.loads[0].wrench)}
    truth = supple.equilibrium(mech, half)
    sim._motion.place(pulls.tip_poses(truth, ["tip"]))
    q = np.concatenate([sim.coordinates[joint.name] for joint in mech.joints])
    shown = supple.kinematics(mech, q).poses.array
    assert np.abs(shown - truth.poses.array).max() < 0.05
    assert np.abs(sim.poses.array - truth.poses.array).max() < 0.05


def test_set_points_move_as_in_the_engine():
    """Of a sprung hinge, a coupling and a motor: the error of a linear change falls with its square."""
    mech = motorised()
    models = pulls.random_models(mech, ["tip"], 4, 0.3)[1:]
    many, load = supple.blend(models), models[0].at.loads[0].wrench
    for name in ("hinge3", "tendon", "motor"):
        off = []
        for change in (0.1, 0.05):
            sim = supple.ReducedSimulation(many, 0.02)
            sim.set_target(name, change)
            sim.step(3000)
            truth = supple.equilibrium(mech, {"tip": load}, targets={name: change})
            plain = models[0].end_effector_poses[0, :3, 3]
            moved = np.linalg.norm(truth.poses["tip"][:3, 3] - plain)
            assert moved > 0.1 * change
            off.append(np.linalg.norm(sim.end_effector_pose("tip")[:3, 3] - truth.poses["tip"][:3, 3]))
            assert off[-1] < 0.1 * moved
            assert np.linalg.norm(sim.poses["tip"][:3, 3] - truth.poses["tip"][:3, 3]) < 0.1 * moved
        assert off[1] < 0.4 * off[0]
        sim.set_target(name, 0.0)
        sim.step(3000)
        np.testing.assert_allclose(sim.end_effector_pose("tip"), models[0].end_effector_poses[0], atol=1e-8)


def test_models_with_modes_blend_their_end_effector_part():
    plain, modal = helix_models(4), helix_models(4, modes=2)
    a, b = supple.blend(plain), supple.blend(modal)
    pose = spatial.exp(np.array([0.02, 0.01, -0.03, 0.05, 0, 0.1]))
    for poses in (plain[2].end_effector_poses, plain[2].end_effector_poses @ pose):
        x, y = a.at(poses), b.at(poses)
        for part in ("compliance", "mass", "damping", "wrenches"):
            found, wanted = getattr(y, part), getattr(x, part)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())
        np.testing.assert_allclose(y.poses.array, x.poses.array, atol=1e-9)
    sims = [simulation_in_motion(many) for many in (a, b)]
    assert sims[1].displacement.shape == (6,)
    np.testing.assert_allclose(sims[1].poses.array, sims[0].poses.array, atol=1e-9)


def test_accelerability_mass():
    models = helix_models(3, mass="accelerability")
    found = supple.blend(models).at(models[2].end_effector_poses)
    np.testing.assert_allclose(found.mass, models[2].mass, rtol=0, atol=1e-9 * np.abs(models[2].mass).max())


def test_models_without_damping():
    mech = supple.library.helix(6, damping=0.0)
    models = pulls.random_models(mech, ["tip"], 3, 0.4)
    many = supple.blend(models)
    found = many.at(models[1].end_effector_poses)
    np.testing.assert_allclose(found.damping, 0, atol=1e-9 * np.abs(found.mass).max())


def test_steps_without_damping():
    sim = simulation_in_motion(supple.blend(pulls.random_models(supple.library.helix(6, damping=0.0), ["tip"], 3, 0.4)))
    assert np.isfinite(sim.poses.array).all()


def test_an_unstable_equilibrium_is_interpolated():
    """A straight strut beyond its buckling load: two directions have negative stiffness."""
    b = supple.Builder("strut", gravity=(0, 0, 0))
    for i in range(3):
        b.link(f"link{i}", (0, 0, 0.3 * i), (0, 0, 0.3 * i + 0.3), mass=1.0)
        parent = "world" if i == 0 else f"link{i - 1}"
        b.universal(f"joint{i}", parent, f"link{i}", (0, 0, 0.3 * i), ("x", "y"), stiffness=10.0, damping=1.0)
    b.site("tip", "link2", (0, 0, 0.9))
    mech = b.build()
    eq = supple.equilibrium(mech, {"tip": [0, 0, -60.0, 0, 0, 0]})
    assert not eq.stable
    model = supple.reduce(mech, ["tip"], at=eq)
    stable = supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": [5.0, 0, 0, 0, 0, 0]}))
    for models in ([model], [stable, model], [model, stable]):
        many = supple.blend(models)
        for each in models:
            found = many.at(each.end_effector_poses)
            np.testing.assert_allclose(found.compliance, each.compliance, atol=1e-9)
            np.testing.assert_allclose(each.basis.T @ (found.wrenches - each.wrenches), 0, atol=1e-9)


def test_a_model_whose_load_is_stiffer_than_its_springs():
    """A nearly stretched arm under a large force: the load's geometric stiffness exceeds that of the springs. The model
    is added to a running simulation, which comes to rest where the engine does."""
    b = supple.Builder("two links", gravity=(0, 0, 0))
    elbow, hand = (0.25, 0, 0.433), (0.5, 0, 0)
    b.link("upper", (0, 0, 0), elbow, mass=1.0)
    b.link("fore", elbow, hand, mass=1.0)
    b.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis="y", stiffness=60.0, damping=6.0)
    b.hinge("elbow", "upper", "fore", at=elbow, axis="y", stiffness=60.0, damping=6.0)
    b.site("tip", "fore", at=hand)
    mech = b.build()
    many = supple.blend([supple.reduce(mech, ["tip"])])
    sim = supple.ReducedSimulation(many, 5e-3)
    load = {"tip": [1000.0, 0, 0, 0, 0, 0]}
    at = supple.equilibrium(mech, load)
    model = supple.reduce(mech, ["tip"], at=at)
    assert np.linalg.eigvalsh(model.stiffness)[0] < 0
    many.add(model, fade=0.1)
    sim.apply("tip", load["tip"])
    sim.step(20_000)
    np.testing.assert_allclose(sim.poses.array, at.poses.array, atol=1e-4 * mech.radius)


def test_threads_give_the_same_bits():
    models = helix_models(5, links=60)
    shown = []
    for threads in (1, 3):
        sim = supple.ReducedSimulation(supple.blend(models), 2e-3, threads=threads)
        sim.apply("tip", models[1].wrenches, frame="body")
        sim.step(50)
        shown.append(sim.poses.array.copy())
    np.testing.assert_array_equal(*shown)


def test_coordinates_follow_set_points_as_the_linear_models_do():
    b = supple.Builder("arm", gravity=(0, 0, 0))
    b.link("upper", (0, 0, 1), (0.5, 0, 1), 1.0, 0.05)
    b.hinge("hinge", "world", "upper", (0, 0, 1), "y", stiffness=50.0, damping=2.0)
    mech = b.build()
    rest = supple.reduce(mech, ["upper"])
    turned = supple.reduce(mech, ["upper"], at=supple.equilibrium(mech, {"upper": [0, 0, 0, 0, 8.0, 0]}))
    sim = supple.ReducedSimulation(supple.blend([rest, turned]), 1e-3)
    sim.set_target("hinge", 0.1)
    sim.step(4000)
    assert sim.coordinates["hinge"][0] == pytest.approx(0.1, abs=1e-6)


# growing


def test_add_while_running_without_a_jump():
    models = helix_models(7)
    many = supple.blend(models[:5])
    sim = simulation_in_motion(many)
    before = sim.poses.array.copy()
    many.add(models[5], fade=0.1)
    np.testing.assert_array_equal(sim.poses.array, before)
    steps = []
    for _ in range(100):
        last = sim.poses.array.copy()
        sim.step()
        steps.append(np.abs(sim.poses.array - last).max())
    assert max(steps) < 0.02
    assert sim.model.at(models[5].end_effector_poses).weights[5] == 1
    sim._motion.place(models[5].end_effector_poses)
    np.testing.assert_allclose(sim.poses.array, models[5].rest_poses.array, atol=1e-9)
    many.add(models[6])  # at once
    assert len(many.models) == 7
    sim.step()
    assert np.isfinite(sim.poses.array).all()


def test_adding_the_fifth_model_without_a_jump():
    """With the fifth model the support of the weights becomes local, gradually."""
    models = pulls.random_models(supple.library.helix(8), ["tip"], 5, 0.8, seed=28)
    many = supple.blend(models[:4])
    sim = supple.ReducedSimulation(many, 2e-3)
    between = 0.5 * (models[1].at.loads[0].wrench + models[2].at.loads[0].wrench)
    sim._motion.place(pulls.tip_poses(supple.equilibrium(many.mechanism, {"tip": between}), ["tip"]))
    before = sim.poses.array.copy()
    many.add(models[4], fade=0.2)
    np.testing.assert_allclose(sim.poses.array, before, atol=1e-9)


def test_simulations_of_one_collection_do_not_disturb_each_other():
    models = helix_models(4)
    many = supple.blend(models[:3])
    alone, other = simulation_in_motion(many), simulation_in_motion(many)
    for sim in (other, alone):
        many.at(models[1].end_effector_poses)
        sim.step(50)
    np.testing.assert_array_equal(alone.poses.array, other.poses.array)


@pytest.mark.parametrize("linear", [True, False])
def test_grow(linear):
    """Far from the first model joints separate; after `grow` they do not, and poses are continuous meanwhile."""
    mech, tips = pulls.library_case("helix")
    rest = supple.reduce(mech, tips)
    sim = supple.ReducedSimulation(rest if linear else supple.blend([rest]), 2e-3)
    load = np.array([80.0, 60.0, -40.0, 0, 0, 0])
    sim.apply("tip", load)
    sim.step(6000)
    truth = supple.equilibrium(mech, {"tip": load})
    shown, before, pose = sim.poses.array.copy(), sim.separation.total, sim.end_effector_pose("tip")
    off = np.linalg.norm(pose[:3, 3] - truth.poses["tip"][:3, 3])
    new = sim.grow(fade=0.3)
    assert isinstance(sim.model, BlendedModel)
    assert sim.model.models == (rest, new)
    assert new.at is not None
    np.testing.assert_allclose(sim.poses.array, shown, atol=1e-9)  # poses have not changed yet
    np.testing.assert_allclose(sim.end_effector_pose("tip"), pose, atol=1e-12)
    last, largest = shown, 0.0
    for _ in range(200):
        sim.step()
        now = sim.poses.array.copy()
        largest, last = max(largest, np.abs(now - last).max()), now
    assert largest < 0.05 * mech.radius  # a small fraction of the motion during the whole fade
    sim.step(6000)
    assert sim.separation.total < 0.2 * before
    assert before > 0.01
    assert np.linalg.norm(sim.end_effector_pose("tip")[:3, 3] - truth.poses["tip"][:3, 3]) < 0.3 * off


def test_grow_keeps_loads_handles_targets_and_time():
    mech = motorised()
    sim = supple.ReducedSimulation(supple.reduce(mech, ["tip"], at=supple.equilibrium(mech)), 2e-3)
    sim.apply("tip", [0, 3.0, 1.0, 0, 0, 0])
    sim.pull("tip", [1.1, 0.2, 0.1], 20.0, 0.5)
    sim.set_target("hinge3", 0.2)
    sim.step(1000)
    time, pose = sim.time, sim.end_effector_pose("tip")
    new = sim.grow(0.1)
    assert sim.time == time
    assert new.rest_target("hinge3") == 0.2  # the engine's equilibrium has the present set-points
    sim.step(100)
    assert np.linalg.norm(sim.end_effector_pose("tip")[:3, 3] - pose[:3, 3]) < 0.1
    saved = sim.save()
    assert saved.handles.keys() == {"tip"}
    assert saved.targets == {"hinge3": 0.2}
    np.testing.assert_array_equal(saved.wrenches["tip"][0], [0, 3.0, 1.0, 0, 0, 0])
    sim.reset()
    assert sim.time == 0
    sim.step(10)
    assert np.isfinite(sim.poses.array).all()


def test_growing_twice_at_one_pose_raises():
    sim = supple.ReducedSimulation(helix_models(1)[0], 2e-3)
    with pytest.raises(supple.MechanismError, match=r"made where model 0 already is"):
        sim.grow()
    sim.step()  # and goes on
    assert len(getattr(sim.model, "models", (0,))) == 1
