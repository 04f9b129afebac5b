"""Simulations can be copied and pickled; objects print one line; public names are where the documents say."""

from __future__ import annotations

import copy
import importlib
import pickle

import numpy as np
import pytest

import supple
from supple import spatial

DT = 2e-3


def swing(time: float) -> float:
    """A motor's position; a function of a module can be pickled."""
    return 0.1 * np.sin(4 * time)


def full() -> supple.Simulation:
    sim = supple.Simulation(supple.library.ladder(3), DT, "bdf2")
    sim.apply("tip", [0, 5, 0, 0, 0, 0])
    sim.pull("tip", [0.1, 0.2, 0.6])
    return sim


def driven() -> supple.Simulation:
    return supple.Simulation(supple.library.rod_on_motor(modes=6, sections=4), DT, motors={"motor": swing})


def linear() -> supple.ReducedSimulation:
    sim = supple.ReducedSimulation(supple.reduce(supple.library.ladder(3), ["tip"]), DT, reconstruction="joints")
    sim.apply("tip", [0, 5, 0, 0, 0, 0], "body")
    sim.pull("tip", [0.1, 0.2, 0.6])
    return sim


def blended() -> supple.ReducedSimulation:
    sim = supple.ReducedSimulation(supple.reduce(supple.library.helix(7), ["tip"]), DT)
    sim.apply("tip", [0, 5, 0, 0, 0, 0])
    sim.step(5)
    sim.grow(0.01)
    return sim


def condensed() -> supple.ReducedSimulation:
    sim = supple.ReducedSimulation(supple.condense(supple.library.robot_arm(5), ["tip"]), DT)
    sim.set_target(sim.mechanism.coordinates[1], 0.1)
    return sim


SIMULATIONS = {"full": full, "driven": driven, "linear": linear, "blended": blended, "condensed": condensed}


@pytest.fixture(scope="module", params=SIMULATIONS)
def sim(request):
    sim = SIMULATIONS[request.param]()
    sim.step(3)
    return sim


def test_copies_continue_to_the_last_bit(sim):
    copies = [copy.copy(sim), copy.deepcopy(sim), pickle.loads(pickle.dumps(sim))]
    start = [each.poses.array for each in copies]
    sim.step(4)
    for each, before in zip(copies, start, strict=True):
        np.testing.assert_array_equal(each.poses.array, before)  # it did not move along
        each.step(4)
        np.testing.assert_array_equal(each.poses.array, sim.poses.array)
        assert each.time == sim.time
        each.reset()
        assert each.time == 0


def test_getters_agree_with_the_poses(sim):
    if isinstance(sim, supple.Simulation):
        name = sim.mechanism.bodies[-1].name
    else:
        name = sim.model.end_effectors[0]
        poses, twists = sim._motion.tips
        np.testing.assert_allclose(sim.end_effector_pose(name), poses[0], atol=1e-14)
        body, on_body = sim.mechanism.frame(name)
        if sim.reconstruction == "twist":
            own = spatial.adjoint(spatial.inverse(on_body)) @ sim.velocities[body]
            np.testing.assert_allclose(twists[0], own, atol=1e-7)
    pose = sim.poses[name]
    pose[0, 0] = 7.0  # a copy: what was read stays, and can be written to
    kept = sim.velocities
    twist = kept[name].copy()
    sim.step()
    np.testing.assert_array_equal(kept[name], twist)
    assert sim.poses[name][0, 0] != 7.0


def test_objects_print_one_line(sim):
    mech = sim.mechanism
    objects = [sim, sim.save(), sim.poses, mech, mech.topology, supple.kinematics(mech)]
    if not isinstance(sim, supple.Simulation):
        objects += [sim.model, sim.separation]
    for each in objects:
        assert len(repr(each)) < 400, type(each)
        assert "\n" not in repr(each)
    for each in (sim, mech):
        shown = each._repr_html_()
        assert shown.startswith("<table>")
        assert mech.name in shown


def test_results_print_one_line():
    mech = supple.library.ladder()
    found = supple.equilibrium(mech, {"tip": [0, 5, 0, 0, 0, 0]}, path=True)
    model = supple.reduce(mech, ["tip"])
    batch = supple.Batch(model, 3, DT)
    for each in (found, found.path, found.acting, supple.modes(mech), batch, batch.save(), supple.World(DT)):
        assert len(repr(each)) < 400, type(each)
        assert "\n" not in repr(each)
    for each in (found, model, batch):
        assert "ladder" in each._repr_html_()


def test_public_names_are_shown_and_importable():
    assert set(dir(supple)) == {*supple.__all__, "__version__"}
    for name in ("library", "viewer", "spatial", "retargeting", "zones"):
        assert importlib.import_module(f"supple.{name}") is getattr(supple, name)
    from supple.library import ladder

    assert ladder is supple.library.ladder
