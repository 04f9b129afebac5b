"""Condensed models: interface, and errors for bad input."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import supple
from condensed_reference import LIBRARY, apart
from small_mechanisms import driven
from supple import spatial

ARM = LIBRARY["robot_arm"]


@pytest.fixture(scope="module")
def model():
    return supple.condense(*ARM)


def test_it_is_a_model_for_a_reduced_simulation(model):
    sim = supple.ReducedSimulation(model, 2e-3)
    assert repr(model) == "CondensedModel('robot_arm': tip)"
    assert np.abs(sim.displacement).max() < 1e-14
    sim.apply("tip", [0, 50.0, 0, 0, 0, 0])
    sim.step(50)
    assert sim.time == pytest.approx(0.1)
    assert sim.separation.total < 1e-12
    assert np.abs(sim.gaps).max(initial=0.0) < 1e-12
    assert np.allclose(sim.poses["tip"], sim.end_effector_pose("tip"))
    q = np.concatenate(list(sim.coordinates.values()))
    assert apart(supple.kinematics(model.mechanism, q).poses.array, sim.poses.array, 1.0) < 1e-12
    # velocities are those of the motion
    before, moved = sim.poses.array.copy(), sim.velocities
    sim.step()
    twists = spatial.log(np.linalg.inv(before) @ sim.poses.array) / sim.dt
    assert np.abs(twists - moved).max() < 0.1 * np.abs(moved).max()


@pytest.mark.parametrize("name", ["robot_arm", "loop", "ladder"])
@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_restored_states_go_on_to_the_same_bits(name, method):
    mech, tips = LIBRARY[name]
    sim = supple.ReducedSimulation(supple.condense(mech, tips, method=method), 2e-3)
    sim.apply("tip", [0, 30.0, 10.0, 0, 0, 0])
    sim.pull("tip", (0.5, 0.2, 1.0), stiffness=50.0, damping=1.0)
    sim.step(20)
    saved = sim.save()
    sim.step(30)
    once = sim.poses.array.copy()
    sim.pull("tip", None)
    sim.step(10)
    sim.restore(saved)
    sim.step(30)
    assert np.array_equal(sim.poses.array, once)
    fork = supple.ReducedSimulation(supple.condense(*LIBRARY["y"]), 1e-3)
    with pytest.raises(supple.MechanismError, match="another model"):
        sim.restore(fork.save())
    with pytest.raises(supple.MechanismError, match="another model"):
        sim.restore(supple.ReducedSimulation(supple.reduce(mech, tips), 2e-3).save())
    sim.reset()
    assert sim.time == 0
    assert apart(sim.poses.array, sim.model.rest.poses.array, 1.0) < 1e-12


def test_files(model, tmp_path):
    path = tmp_path / "arm.npz"
    model.save(path)
    again = type(model).load(path)
    load = {"tip": [5.0, 10.0, 0, 0, 0, 0]}
    assert np.array_equal(again.under(load).poses.array, model.under(load).poses.array)
    with pytest.raises(supple.MechanismError, match="not a reduced model"):
        supple.ReducedModel.load(path)
    supple.reduce(*ARM).save(path)
    with pytest.raises(supple.MechanismError, match="not a condensed model"):
        type(model).load(path)


@pytest.mark.parametrize("part", ["poses", "at_q", "at_gravity", "at_rest", "header"])
def test_damaged_files(model, part, tmp_path):
    path = tmp_path / "arm.npz"
    model.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    if part == "header":
        text = arrays[part].tobytes().decode().replace('"targets": {}', '"targets": {"nothing": 1.0}')
        damaged = [np.frombuffer(text.encode(), dtype=np.uint8)]
    else:
        damaged = [arrays[part][:-1], np.full_like(arrays[part], np.nan), np.array(1.0)]
    for each in damaged:
        np.savez(path, **(arrays | {part: each}))
        with pytest.raises(supple.MechanismError, match="is damaged"):
            type(model).load(path)


@pytest.mark.parametrize("name", LIBRARY)
def test_linear_equals_reduce_at_the_same_pose(name):
    mech, tips = LIBRARY[name]
    model = supple.condense(mech, tips)
    load = {tips[0]: [3.0, 5.0, -2.0, 0.2, 0.1, 0.3]}
    here, there = model.under(load).linear(), supple.reduce(mech, tips, at=supple.equilibrium(mech, load))
    assert here.rank == there.rank
    for part in ("compliance", "stiffness", "mass", "damping", "wrenches"):
        a, b = getattr(here, part), getattr(there, part)
        assert np.abs(a - b).max() < 1e-6 * np.abs(b).max()
    at_rest, rest = model.linear(), supple.reduce(mech, tips)
    assert np.abs(at_rest.compliance - rest.compliance).max() < 1e-8 * np.abs(rest.compliance).max()


def test_linear_of_a_simulation_is_at_the_present_pose():
    mech, tips = LIBRARY["robot_arm"]
    model = supple.condense(mech, tips)
    sim = supple.ReducedSimulation(model, 2e-3)
    sim.apply("tip", [0, 100.0, 50.0, 0, 0, 0])
    sim.set_target(mech.joints[3].name, 0.1)
    sim.step(100)
    here = sim.linear()
    assert apart(here.rest_poses.array, sim.poses.array, 1.0) < 1e-7  # as a step's last correction
    full = supple.equilibrium(mech, {"tip": here.wrenches}, frame="body", targets={mech.joints[3].name: 0.1})
    assert apart(full.poses.array, sim.poses.array, mech.radius) < 1e-7
    with pytest.raises(supple.MechanismError, match="condensed models"):
        supple.ReducedSimulation(supple.reduce(mech, tips), 2e-3).linear()


@pytest.mark.parametrize("interior", [True, False])
@pytest.mark.parametrize("tree", [True, False])
def test_the_linear_model_of_a_touched_limit_fixes_its_coordinate(tree, interior):
    """Four hinges with parallel axes have an interior, two have none."""
    b = supple.Builder("finger", gravity=(0, 0, 0))
    links = ["link", "middle", "outer", "tip"] if interior else ["link", "tip"]
    for i, (parent, name) in enumerate(zip(["world", *links], links, strict=False)):
        b.link(name, (0.1 * i, 0, 0), (0.1 * i + 0.1, 0, 0), mass=0.1)
        limits = (-0.3, 0.3 + min(i, 1))
        b.hinge(f"joint_{i}", parent, name, (0.1 * i, 0, 0), "y", stiffness=1.0, damping=0.05, limits=limits)
    if not tree:
        b.couple("tendon", {"joint_0": 1.0, "joint_1": -1.0}, stiffness=0.1)
    mech = b.build()
    sim = supple.ReducedSimulation(supple.condense(mech, "tip"), 1e-2)
    assert sim.model.has_interior == interior
    assert sim._motion.core.passes
    sim.set_target("joint_1", 0.2)
    sim.apply("tip", [0, 0, -6.0, 0, 0, 0])
    sim.step(500)
    touched = sim.coordinates["joint_0"][0]
    assert 0.3 < touched < 0.31 if interior else touched == pytest.approx(0.3, abs=1e-12)  # a stiff spring, or exact
    here = sim.linear()
    assert here.rank == (3 if interior else 1)
    assert here.at.coordinates["joint_0"][0] == pytest.approx(0.3, abs=1e-12)
    assert here.at.coordinates["joint_1"][0] == pytest.approx(sim.coordinates["joint_1"][0], abs=1e-3)


def test_the_error_of_a_step_without_a_solution(model):
    sim, other = (supple.ReducedSimulation(model, 2e-3) for _ in range(2))
    for each in (sim, other):
        each.apply("tip", [0, 5.0, 0, 0, 0, 0])
        each.step(5)
    sim.apply("tip", [1e300, 0, 0, 0, 0, 0])
    with pytest.raises(supple.ConvergenceError, match=r"at t = 0.01 s the time step did not converge.* smaller loads"):
        sim.step()
    assert np.array_equal(sim.poses.array, other.poses.array)
    assert sim.time == other.time
    for each in (sim, other):
        each.apply("tip", np.zeros(6))
        each.step(5)
    assert np.array_equal(sim.poses.array, other.poses.array)


@pytest.mark.parametrize("dt", [1e-3, 1e-1])
@pytest.mark.parametrize("turn", [0.3, 1.0, -2.0])
def test_a_new_motor_position_is_reached_in_one_step(turn, dt):
    """The elbow turns further than the motor does, for the forearm lags behind."""
    mech = driven()
    sim = supple.ReducedSimulation(supple.condense(mech, ["lower"]), dt)
    sim.set_target("drive", turn)
    sim.step()
    assert sim.coordinates["shoulder"][0] == pytest.approx(turn, abs=1e-9)
    sim.step(round(20 / dt))
    full = supple.equilibrium(mech, targets={"drive": turn})
    assert apart(sim.poses.array, full.poses.array, mech.radius) < 1e-6


def test_contradicting_motors_raise():
    """The loop between them cannot close; it must not be left open instead."""
    b = supple.Builder("square", gravity=(0, 0, 0))
    corners = {"crank": ((0, 0, 0), (0, 0, 1)), "rocker": ((1, 0, 0), (1, 0, 1)), "coupler": ((0, 0, 1), (1, 0, 1))}
    for name, ends in corners.items():
        b.link(name, *ends, mass=1.0)
    hinges = {"a": ("world", "crank"), "b": ("world", "rocker"), "c": ("crank", "coupler"), "d": ("rocker", "coupler")}
    for (name, ends), at in zip(hinges.items(), ((0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1)), strict=True):
        b.hinge(name, *ends, at, "y")
    b.link("flag", (1, 0, 1), (2, 0, 1), mass=1.0)
    b.hinge("mast", "coupler", "flag", (1, 0, 1), "y", stiffness=10.0, damping=0.1)
    b.motor("drive", "a")
    b.motor("other drive", "b")
    sim = supple.ReducedSimulation(supple.condense(b.build(), ["flag"]), 1e-2)
    sim.set_targets({"drive": 0.1, "other drive": 0.1})
    sim.step(2)
    before = sim.poses.array.copy()
    sim.set_target("drive", 0.0)
    with pytest.raises(supple.ConvergenceError, match="did not converge"):
        sim.step()
    assert np.array_equal(sim.poses.array, before)
    sim.set_target("other drive", 0.0)
    sim.step(2)
    assert sim.separation.total < 1e-9


def test_gravity_acts_unless_switched_off():
    mech = supple.library.robot_arm(gravity=(0, 0, -9.81))
    heavy, light = supple.condense(mech, "tip"), supple.condense(mech, "tip", gravity=False)
    assert apart(heavy.rest.poses.array, supple.equilibrium(mech).poses.array, 1.0) < 1e-12
    weightless = supple.condense(*ARM)
    assert apart(light.rest.poses.array, weightless.rest.poses.array, 1.0) < 1e-12
    sim = supple.ReducedSimulation(heavy, 2e-3)
    sim.step(20)
    assert apart(sim.poses.array, heavy.rest.poses.array, 1.0) < 1e-9  # stays at rest


def test_set_points_move_it():
    mech = supple.library.robot_arm(damping=300.0)
    name = mech.joints[3].name
    sim = supple.ReducedSimulation(supple.condense(mech, "tip"), 5e-3)
    sim.set_target(name, 0.2)
    sim.step(4000)
    full = supple.equilibrium(mech, targets={name: 0.2})
    assert apart(sim.poses.array, full.poses.array, mech.radius) < 1e-5
    with pytest.raises(supple.MechanismError):
        sim.set_target("nothing", 1.0)


def test_names_that_are_wrong():
    mech = ARM[0]
    for names, words in (([], "at least one"), (["nobody"], "nobody"), (["tip", "tip"], "twice")):
        with pytest.raises(supple.MechanismError, match=words):
            supple.condense(mech, names)
    with pytest.raises(supple.MechanismError, match="method"):
        supple.condense(mech, "tip", method="rk4")
    with pytest.raises(supple.MechanismError, match="Mechanism is needed"):
        supple.condense("arm.xml", "tip")


def welded():
    b = supple.Builder("welded", gravity=(0, 0, 0))
    body = {"mass": 1.0, "inertia": np.eye(3) * 0.01}
    b.body("base", np.eye(4), **body)
    b.fixed("bolt", "world", "base")
    b.body("arm", np.eye(4), **body)
    b.hinge("hinge", "base", "arm", (0, 0, 0), (0, 0, 1), stiffness=1.0)
    b.body("tool", spatial.pose(np.eye(3), (0.1, 0, 0)), **body)
    b.fixed("weld", "arm", "tool")
    b.body("loose", np.eye(4), **body)
    return b


def test_end_effectors_rigidly_tied_to_each_other():
    b = welded()
    b.hinge("other", "tool", "loose", (0.1, 0, 0), (0, 1, 0), stiffness=1.0)
    mech = b.build()
    with pytest.raises(supple.MechanismError, match="'arm' and 'tool' are rigidly tied"):
        supple.condense(mech, ["arm", "tool"])
    with pytest.raises(supple.MechanismError, match="'base' cannot move"):
        supple.condense(mech, ["base"])
    assert supple.condense(mech, ["arm", "loose"]).end_effectors == ("arm", "loose")


def test_coordinates_that_nothing_holds_are_named():
    b = welded()
    b.hinge("other", "tool", "loose", (0.1, 0, 0), (0, 1, 0))
    with pytest.raises(supple.MechanismError, match=r"nothing holds .*other"):
        supple.condense(b.build(), ["loose"])
    b = welded()
    b.free("flight", "world", "loose")
    with pytest.raises(supple.MechanismError, match="'loose' floats"):
        supple.condense(b.build(), ["tool"])


def test_poses_out_of_reach(model):
    far = model.end_effector_poses[0].copy()
    far[:3, 3] += 10 * model.mechanism.radius
    with pytest.raises(supple.ConvergenceError, match="out of reach"):
        model.at({"tip": far})
    with pytest.raises(supple.MechanismError, match="no rotation"):
        model.at({"tip": 2 * np.eye(4)})
    with pytest.raises(supple.MechanismError, match="pose is needed"):
        model.at({})
    for bad in (None, [np.eye(4)]):
        with pytest.raises(supple.MechanismError, match="poses are given as"):
            model.at(bad)
    with pytest.raises(supple.MechanismError, match="pose of this model"):
        model.at({"tip": model.end_effector_poses[0]}, start=model.rest)
    # and it still works afterwards
    assert apart(model.at({"tip": model.end_effector_poses[0]}).poses.array, model.rest.poses.array, 1.0) < 1e-9


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_of_a_used_model(model, copied):
    load = {"tip": [5.0, 10.0, 0, 0, 0, 0]}
    used = model.under(load)
    again = copied(model)
    found = again.under(load)
    assert found.model is again
    assert np.array_equal(found.poses.array, used.poses.array)


def test_threads_share_a_model():
    mech, tips = LIBRARY["ladder"]
    model, rng = supple.condense(mech, tips), np.random.default_rng(0)
    loads = [{"tip": 3 * rng.normal(size=6)} for _ in range(40)]
    alone = [model.under(load).poses.array for load in loads]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda load: model.under(load).poses.array, loads))
    assert np.array_equal(alone, together)


def test_wrenches_that_are_wrong(model):
    for bad in ([np.nan] * 6, [1.0] * 5):
        with pytest.raises(supple.MechanismError):
            model.under({"tip": bad})
    with pytest.raises(supple.MechanismError, match="not an end effector"):
        model.under({model.mechanism.bodies[0].name: np.ones(6)})


def test_an_interior_that_does_not_come_into_balance_is_an_error(monkeypatch):
    """Its state would have a wrench and poses that do not belong together."""
    model = supple.condense(supple.library.helix(10), ["tip"])

    class Unbalanced:
        def __getattr__(self, name):
            return getattr(model._of_thread.solver.core, name)

        def follow_branch(self):
            return 0.3

    class Solver:
        core = Unbalanced()

        def __getattr__(self, name):
            return getattr(model._of_thread.solver, name)

    model.under({"tip": [0, 1.0, 0, 0, 0, 0]})
    monkeypatch.setattr(type(model), "_solver", lambda self, start: Solver())
    with pytest.raises(supple.ConvergenceError, match=r"interior of 'helix.*' does not come into balance") as caught:
        model.under({"tip": [0, 2.0, 0, 0, 0, 0]})
    assert caught.value.reason == "singular"
    assert caught.value.state.residual < 1e-9
