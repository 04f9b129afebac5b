"""Equilibria between the loads of two linear models: `supple.reduced.rest_paths`."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from blend_sweep import random_pull
from supple import spatial
from supple.reduced.rest_paths import BEYOND, SHORTEST, rest_path


def pose_on(path, first: supple.ReducedModel, share: float) -> np.ndarray:
    lengths = np.tile([first.mechanism.radius] * 3 + [1.0] * 3, len(first.end_effectors))
    return first.end_effector_poses @ spatial.exp((path.at(share) * lengths).reshape(-1, 6))


@pytest.mark.parametrize("seed", [2, 34])
@pytest.mark.parametrize("turned", [False, True], ids=["unloaded first", "loaded first"])
def test_a_path_is_that_of_the_engine(seed, turned):
    """Also beyond the larger load, whatever the order of the models."""
    pull = random_pull(seed, count=12)
    first, second = reversed(pull.models) if turned else pull.models
    path = rest_path(first, second)
    assert path.shares[[0, -1]].tolist() == ([-BEYOND, 1] if turned else [0, 1 + BEYOND])
    for fraction, goal in zip(pull.fractions, pull.poses, strict=True):
        found = pose_on(path, first, 1 - fraction if turned else fraction)
        np.testing.assert_allclose(found, goal, rtol=0, atol=0.004)


def test_a_path_ends_where_the_branch_does():
    """A toggle of two bars, held up by a spring at its knee, snaps through under a growing force."""
    b = supple.Builder("toggle", gravity=(0, 0, 0))
    b.link("left", [-1, 0, 0], [0, 0, 0.3], mass=1.0)
    b.link("right", [0, 0, 0.3], [1, 0, 0], mass=1.0)
    b.hinge("knee", "left", "right", [0, 0, 0.3], [0, 1, 0], stiffness=2.0, damping=0.2)
    b.hinge("foot", "world", "left", [-1, 0, 0], [0, 1, 0], stiffness=2.0, damping=0.2)
    b.link("slider", [1, 0, 0], [1.2, 0, 0], mass=1.0)
    b.hinge("heel", "right", "slider", [1, 0, 0], [0, 1, 0], stiffness=0.1, damping=0.1)
    b.slide("rail", "slider", "world", [1.2, 0, 0], [1, 0, 0], stiffness=400.0, damping=40.0)
    b.site("tip", "left", [0, 0, 0.3])
    mech = b.build()
    down = supple.equilibrium(mech, {"tip": [0, 0, -60.0, 0, 0, 0]})
    path = rest_path(supple.reduce(mech, ["tip"]), supple.reduce(mech, ["tip"], at=down))
    assert path.shares[0] == 0
    assert down.snaps[0] - 2 * SHORTEST < path.shares[-1] < down.snaps[0]


def test_models_that_differ_in_more_than_their_loads_have_no_path():
    mech = supple.library.robot_arm(4)
    rest, load = supple.reduce(mech, ["tip"]), [0, 0, 5.0, 0, 0, 0]
    assert rest_path(rest, supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": load}))) is not None
    elsewhere = supple.equilibrium(mech, {mech.bodies[1].name: load})
    aimed = supple.equilibrium(mech, {"tip": load}, targets={mech.joints[0].axes[0]: 0.1})
    for at in (elsewhere, aimed):
        assert rest_path(rest, supple.reduce(mech, ["tip"], at=at)) is None


def test_loads_that_turn_with_the_end_effector():
    """A torque in body axes, for both models: so is that of the path."""
    mech = supple.library.robot_arm(6)
    torque = np.array([0, 0, 0, 180.0, 360.0, -120.0])
    second = supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": torque}, frame="body"))
    first = supple.reduce(mech, ["tip"])
    path = rest_path(first, second)
    true = supple.equilibrium(mech, {"tip": 0.5 * torque}, frame="body").poses["tip"]
    np.testing.assert_allclose(pose_on(path, first, 0.5)[0], true, rtol=0, atol=0.004)
    other = supple.equilibrium(
        mech, {"tip": 0.5 * np.concatenate([torque[:3], second.end_effector_poses[0, :3, :3] @ torque[3:]])}
    )
    assert np.abs(other.poses["tip"] - true).max() > 0.01


def test_a_small_collection_has_paths_and_a_large_one_no_more():
    mech = supple.library.robot_arm(4)
    models = [supple.reduce(mech, ["tip"])]
    for force in np.linspace(1, 10, 9):
        models.append(supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": [0, 0, force, 0, 0, 0]})))
    many = supple.blend(models)
    assert {second for _, second, _ in many._paths} == set(range(1, 8))
    assert {(0, 5), (4, 5)} <= {(first, second) for first, second, _ in many._paths}
    assert supple.blend(models, scheme="published")._paths == []
