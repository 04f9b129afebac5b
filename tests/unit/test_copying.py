"""Simulations can be copied and pickled; objects print one line; public names are where the documents say."""

from __future__ import annotations

import copy
import importlib
import pickle

import numpy as np
import pytest

import supple
from supple import spatial
from supple.contact import Pad
from supple.mechanism import Body, Mesh, Shape

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
    sim.set_target(sim.mechanism.coordinates[1], 0.01)
    return sim


def blended() -> supple.ReducedSimulation:
    sim = supple.ReducedSimulation(supple.reduce(supple.library.helix(7), ["tip"]), DT)
    sim.apply("tip", [0, 5, 0, 0, 0, 0])
    sim.step(5)
    sim.grow(0.01)
    return sim


SIMULATIONS = {"full": full, "driven": driven, "linear": linear, "blended": blended}


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


CHAIN = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="a" pos="0 0 0.3"><freejoint/><geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03" mass="0.4"/>
 <body name="b" pos="0.2 0 0"><joint name="hinge" axis="0 1 0" damping="0.01" range="-160 160"/>
  <geom type="capsule" fromto="0.04 0 0 0.2 0 0" size="0.03" mass="0.3"/>
  <body name="c" pos="0.2 0 0"><joint name="end" axis="0 1 0" damping="0.01"/>
   <geom type="box" pos="0.06 0 0" size="0.03 0.03 0.03" mass="0.2"/></body></body></body></worldbody>
<actuator><position name="servo" joint="hinge" kp="8" kv="0.1"/></actuator></mujoco>"""


def full_world(folder) -> supple.World:
    """Mechanisms with self-contact and of a linear model, objects, a pad, ground, excludes, loads and handles."""
    path = folder / "chain.xml"
    path.write_text(CHAIN)
    chain = supple.Simulation(supple.load(path), DT)
    world = supple.World()
    world.add(chain, self_contact=True)
    world.add(linear(), "ladder")
    box = Shape("box", (0.05, 0.05, 0.05), np.eye(4))
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    tetra = Mesh("tetra", [[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]], faces)
    solid = Shape("mesh", (), np.eye(4), mesh="tetra")
    places = {"box": (box, (0.6, 0, 0.0499)), "ghost": (box, (0.6, 0, 0.08)), "stone": (solid, (-0.5, 0, 0.2))}
    for name, (shape, place) in places.items():
        body = Body(name, spatial.translation(np.array(place)), 0.5, inertia=1e-3 * np.eye(3), shapes=(shape,))
        world.add(body, velocity=(0.1, 0, 0, 0, 1, 0), meshes=(tetra,))
    world.exclude("box", "ghost")
    world.exclude("ghost", "chain")
    points = np.array([[x, y, -0.055] for x in (-0.04, 0.04) for y in (-0.04, 0.04)])
    pad = Pad(points, np.tile([0.0, 0, -1], (4, 1)), np.full(4, 1e-3), 1e-4 * np.eye(12))
    world.cover("ghost", pad)
    world.ground(Shape("sphere", (0.1,), spatial.translation(np.array([0.3, 0, 0.0]))))
    world.apply("box", [1, 0, 0, 0, 0, 0])
    world.pull("stone", [0, 0, 0.5])
    world.apply("chain:b", [0, 0, 2.0, 0, 0, 0])
    world.pull("chain:c", [0.3, 0.2, 0.3])
    world.set_control("chain:servo", 2.6)  # folds it
    return world


@pytest.mark.parametrize("steps", [0, 100])
@pytest.mark.filterwarnings("ignore::supple.RangeWarning")
def test_copies_of_a_world_continue_to_the_last_bit(steps, tmp_path):
    world = full_world(tmp_path)
    world.step(steps)
    copies = [copy.copy(world), copy.deepcopy(world), pickle.loads(pickle.dumps(world))]
    start = [each.poses.array for each in copies]
    contacts = world.contacts
    world.set_control("chain:servo", 2.7)
    pairs = set()
    for _ in range(200):
        world.step()
        pairs |= {frozenset((contact.first, contact.second)) for contact in world.contacts if contact.force.any()}
    assert {"chain:a", "chain:c"} in pairs
    for each, before in zip(copies, start, strict=True):
        np.testing.assert_array_equal(each.poses.array, before)  # it did not move along
        assert each.controls["chain:servo"] == 2.6
        assert len(each.contacts) == len(contacts)
        each.set_control("chain:servo", 2.7)
        each.step(200)
        np.testing.assert_array_equal(each.poses.array, world.poses.array)
        np.testing.assert_array_equal(each.touch("ghost").forces, world.touch("ghost").forces)
        assert each.time == world.time
        with pytest.raises(supple.MechanismError, match="'chain' is in a world"):
            each.mechanisms["chain"].step()
        each.exclude("stone", "box")  # of the copy alone
        each.reset()
        assert each.time == 0
    assert len(world._excluded) == 2


def test_a_copy_of_a_world_takes_the_step_of_its_first_mechanism():
    world = copy.copy(supple.World())
    world.add(full())
    assert world.dt == DT


def test_a_copy_of_a_world_records_nothing(tmp_path):
    world = full_world(tmp_path)
    log = world.log(["energy"])
    copy.copy(world).step(5)
    world.step(2)
    assert len(log["time"]) == 3


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
