"""Errors of reduced models and their simulation for bad input."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import supple
from small_mechanisms import arm, satellite


@pytest.mark.parametrize(
    ("tips", "words"),
    [
        (["tipp"], "tip"),
        (["tip", "tip"], "twice"),
        ([], "at least one"),
        (None, "at least one"),
        (3, "at least one"),
        (["floor"], "cannot move"),
        (["world"], "world"),
        ([3], "3"),
    ],
)
def test_bad_end_effectors(tips, words):
    with pytest.raises(supple.MechanismError, match=words):
        supple.reduce(arm(), tips)


@pytest.mark.parametrize("method", ["projection", "recursion"])
def test_end_effectors_that_cannot_move(method):
    b = supple.Builder("stuck")
    for name, x in (("post", 0.0), ("arm", 0.5), ("driven", 1.0)):
        b.link(name, (x, 0, 0), (x + 0.5, 0, 0), mass=1.0)
    b.fixed("weld", "world", "post")
    b.hinge("spring", "post", "arm", (0.5, 0, 0), "y", stiffness=3.0)
    b.hinge("drive", "post", "driven", (1, 0, 0), "y")
    b.motor("motor", "drive")
    mech = b.build()
    for stuck in ("post", "driven"):
        for tips in ([stuck], ["arm", stuck]):
            with pytest.raises(supple.MechanismError, match=f"'{stuck}'.*cannot move"):
                supple.reduce(mech, tips, method=method)
    assert supple.reduce(mech, ["arm"], method=method).rank == 1


def test_a_body_in_a_rigid_frame_cannot_move():
    """Three bars and three hinges in a triangle: locked, though every hinge could turn."""
    b = supple.Builder("truss")
    b.link("left", (0, 0, 0), (0.5, 0, 0.8), mass=1.0)
    b.link("right", (1, 0, 0), (0.5, 0, 0.8), mass=1.0)
    b.link("free", (0, 0, 1), (1, 0, 1), mass=1.0)
    b.hinge("a", "world", "left", (0, 0, 0), "y", stiffness=5.0)
    b.hinge("b", "world", "right", (1, 0, 0), "y", stiffness=5.0)
    b.hinge("c", "left", "right", (0.5, 0, 0.8), "y", stiffness=5.0)
    b.hinge("d", "world", "free", (0, 0, 1), "y", stiffness=5.0)
    mech = b.build()
    for tips in (["left"], ["free", "right"]):
        with pytest.raises(supple.MechanismError, match="cannot move"):
            supple.reduce(mech, tips)
    assert supple.reduce(mech, ["free"]).rank == 1


def test_parts_that_nothing_holds_are_named():
    mech = arm()
    elbow = dataclasses.replace(mech.joint("elbow"), stiffness=np.zeros(1))
    loose = dataclasses.replace(mech, joints=(mech.joint("shoulder"), elbow))
    with pytest.raises(supple.MechanismError, match=r"nothing holds 'elbow'.*weight counts as balanced.*with_springs"):
        supple.reduce(loose, ["tip"])
    assert supple.reduce(loose.with_springs(stiffness=3.0), ["tip"]).rank == 3


def test_what_weight_alone_holds_is_reduced_at_its_equilibrium():
    b = supple.Builder("pendulum")
    b.link("rod", (0, 0, 0), (0, 0, -1), mass=1.0)
    b.hinge("pivot", "world", "rod", at=(0, 0, 0), axis="y")
    mech = b.build()
    with pytest.raises(supple.MechanismError, match=r"counts as balanced.*reduce\(mech, .*at=supple.equilib"):
        supple.reduce(mech, "rod")
    assert supple.reduce(mech, "rod", at=supple.equilibrium(mech)).rank == 1
    with pytest.raises(supple.MechanismError) as caught:
        supple.reduce(dataclasses.replace(mech, gravity=np.zeros(3)), "rod")
    assert "equilibrium" not in str(caught.value)


def test_a_mechanism_of_which_a_part_floats():
    """A hand and its object in one file: with the object as the base the hand would fall along."""
    b = supple.Builder("scene")
    b.link("arm", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.hinge("pivot", "world", "arm", at=(0, 0, 0), axis="y", stiffness=50.0)
    b.link("ball", (1, 0, 0), (1, 0, 0.1), mass=1.0)
    b.free("loose", "world", "ball")
    with pytest.raises(supple.MechanismError, match=r"'ball' floats in 'scene', .* by 'pivot'"):
        supple.reduce(b.build(), ["arm"])
    b.fixed("weld", "arm", "ball")  # closes a loop: nothing floats any more
    model = supple.reduce(b.build(), ["ball"])
    assert (model.free_base, model.rank) == (None, 1)


def test_a_floating_joint_on_a_link_instead_of_the_world():
    b = supple.Builder("drone")
    b.body("origin", np.eye(4))
    b.body("hull", np.eye(4), mass=1.0, inertia=(1, 1, 1))
    b.fixed("stand", "world", "origin")
    b.free("fly", "origin", "hull")
    with pytest.raises(supple.MechanismError, match=r"'hull' of 'drone' floats on 'origin'; .* from the world itself"):
        supple.reduce(b.build(), ["hull"])


def test_bad_equilibria():
    mech = arm()
    eq = supple.equilibrium(mech)
    for wrong in (3, "rest", mech, eq.poses):
        with pytest.raises(supple.MechanismError, match="Equilibrium"):
            supple.reduce(mech, ["tip"], at=wrong)
    with pytest.raises(supple.MechanismError, match="not of this"):
        supple.reduce(arm(stiffness=60.0), ["tip"], at=eq)
    with pytest.raises(supple.MechanismError, match="no equilibrium"):
        supple.reduce(mech, ["tip"], at=dataclasses.replace(eq, residual=1e-3))
    with pytest.raises(supple.MechanismError, match="reference pose only"):
        supple.reduce(mech, ["tip"], at=eq, method="recursion")
    with pytest.raises(supple.MechanismError, match="floats"):
        supple.reduce(satellite(), ["boom3"], at=eq)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"modes": 1}, "modes with its end effectors held"),
        ({"modes": -1}, "modes"),
        ({"modes": 1.5}, "modes"),
        ({"modes": True}, "modes"),
        ({"modes": "many"}, "modes"),
        ({"method": "guess"}, "method"),
        ({"mass": "heavy"}, "mass"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": 2.0}, "tolerance"),
    ],
)
def test_bad_options_of_reduce(options, words):
    with pytest.raises(supple.MechanismError, match=words):
        supple.reduce(arm(), ["tip"], **options)


def test_modes_with_the_published_mass_raise():
    with pytest.raises(supple.MechanismError, match="consistent"):
        supple.reduce(supple.library.helix(9), ["tip"], mass="accelerability", modes=1)


@pytest.mark.parametrize("dt", [0.0, -1e-3, np.nan, np.inf])
def test_bad_time_steps(dt):
    with pytest.raises(supple.MechanismError, match="dt"):
        supple.ReducedSimulation(supple.reduce(arm(), ["tip"]), dt)


@pytest.mark.parametrize(
    "options",
    [{"reconstruction": "magic"}, {"threads": 0}, {"threads": 1.5}, {"corrections": -1}, {"corrections": "many"}],
)
def test_bad_options_of_a_simulation(options):
    with pytest.raises(supple.MechanismError, match=next(iter(options))):
        supple.ReducedSimulation(supple.reduce(arm(), ["tip"]), 1e-3, **options)


def test_a_simulation_needs_a_reduced_model():
    with pytest.raises(supple.MechanismError, match=r"supple\.reduce"):
        supple.ReducedSimulation(arm(), 1e-3)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda sim: sim.restore(supple.Simulation(arm(), 1e-3).save()), "another model"),
        (lambda sim: sim.set_targets(None), "targets are given as"),
        (lambda sim: sim.restore(supple.ReducedSimulation(supple.blend([sim.model]), 1e-3).save()), "another model"),
        (lambda sim: sim.apply("upper", np.zeros(6)), "not an end effector"),
        (lambda sim: sim.apply("uper", np.zeros(6)), "did you mean"),
        (lambda sim: sim.apply("tip", [0, 0, np.nan, 0, 0, 0]), "tip"),
        (lambda sim: sim.apply("tip", [1, 2, 3]), "tip"),
        (lambda sim: sim.apply("tip", np.zeros(6), frame="tool"), "frame"),
        (lambda sim: sim.pull("upper", [0, 0, 0]), "not an end effector"),
        (lambda sim: sim.pull("tip", [0, np.nan, 0]), "point"),
        (lambda sim: sim.pull("tip", [0, 0, 0], stiffness=-1.0), "stiffness"),
        (lambda sim: sim.pull("tip", [0, 0, 0], damping=np.inf), "damping"),
        (lambda sim: sim.set_target("elbow", np.nan), "finite"),
        (lambda sim: sim.set_target("elbo", 0.1), "did you mean"),
        (lambda sim: sim.set_target("shoulder", 0.1), "several axes"),
        (lambda sim: sim.step(-1), "number of steps"),
        (lambda sim: sim.end_effector_pose("upper"), "not an end effector"),
        (lambda sim: sim.model.tangent_stiffness("world"), "dead"),
    ],
)
def test_bad_loads_and_states_of_a_simulation(act, words):
    sim = supple.ReducedSimulation(supple.reduce(arm(), ["tip"]), 1e-3)
    with pytest.raises(supple.MechanismError, match=words):
        act(sim)
    sim.step(5)
    np.testing.assert_array_equal(sim.displacement, 0)  # nothing of it stayed
