"""The rapper's arm: its loop, the gradient through it, and the printed links."""

import numpy as np
import pytest

import supple
from supple import MechanismError, spatial
from supple.mechanism.library import characters
from supple.retargeting import Motion
from supple.retargeting.characters import stored
from supple.retargeting.optimiser import compared
from supple.retargeting.problem import Problem
from supple.retargeting.weights import Weights
from supple.viewer.side_by_side import retargeted_recordings
from supple.viewer.video import write_panels

STENCIL = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
"""Central differences of fourth order."""


@pytest.fixture(scope="module")
def mech():
    return characters.rapper(element=0.03)


@pytest.fixture(scope="module")
def problem(mech):
    """0.3 s of a motion of all motors."""
    angles = {"swing": [0.2, 0.5], "raise": [0.2, 0.5], "twist": [0.2, -0.1], "elbow": [1.2, 1.7]}
    samples = {name: [a, a, b, b] for name, (a, b) in angles.items()}
    motion = Motion.from_samples([0.0, 0.05, 0.25, 0.3], samples)
    return Problem(mech, motion, Weights({"elbow": 1.0, "hand": 1.0}), 3e-3)


@pytest.fixture(scope="module")
def run(problem):
    return problem.simulate(problem.input.control)


def test_numbers(mech):
    interfaces = {each.frame(name) for each in mech.flexible for name in each.part.interfaces}
    assert len([body for body in mech.bodies if body.name not in interfaces]) == 9
    assert [motor.name for motor in mech.motors] == ["swing", "raise", "twist", "elbow"]
    kinds = {name: mech.joints[[joint.name for joint in mech.joints].index(name)].kind for name in ("cross", "ball")}
    assert kinds == {"cross": "universal", "ball": "ball"}
    assert list(mech.flexible[0].part.interfaces) == ["start", "end", "pad"]
    modes = sum(each.basis.size for each in mech.flexible)
    assert mech.mobility == 4 + modes  # three angles of the shoulder and the mobility of 1 of the loop


def largest_gap(mech, poses):
    """Largest distance between the two sides of a joint, m, and of their axes for hinges."""
    index = {body.name: i for i, body in enumerate(mech.bodies)}
    gaps = []
    for joint in mech.joints:
        if joint.parent not in index or joint.kind not in ("ball", "universal", "hinge"):
            continue
        parent = poses[:, index[joint.parent]] @ joint.pose_parent
        child = poses[:, index[joint.child]] @ joint.pose_child
        gaps.append(parent[:, :3, 3] - child[:, :3, 3])
        if joint.kind == "hinge":
            axis = joint.twists[0, 3:]
            gaps.append(parent[:, :3, :3] @ axis - child[:, :3, :3] @ axis)
    assert len(gaps) == 10  # four hinges in the arm besides the first, a universal and a ball joint
    return np.abs(gaps).max()


def test_the_loop_is_closed_throughout(mech, run):
    assert largest_gap(mech, run.poses) < 1e-9


def test_the_loop_is_closed_throughout_the_rap():
    result = stored("rapper", dt=5e-3)
    assert result.times[-1] > 9.9
    assert max(largest_gap(result.mechanism, poses) for poses in result.poses.values()) < 1e-9


def test_the_motor_bends_the_elbow(mech):
    for angle in (0.8, 1.8):
        bent = supple.equilibrium(mech, targets={"elbow": angle})
        assert bent.coordinates["hinge"] == pytest.approx([angle], abs=0.1)


def test_gradient_through_the_loop(problem, run):
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(run.control.shape)
    direction[:3] = 0
    step = 1e-3
    costs = {k: problem.simulate(run.control + k * step * direction).cost for k in STENCIL}
    expected = sum(weight * costs[k] for k, weight in STENCIL.items()) / step
    assert (problem.gradient(run) * direction).sum() == pytest.approx(expected, rel=1e-6)


def test_the_push_rod_bends_in_and_out_of_plane(mech, run):
    push_rod = mech.flexible[1]
    columns = [mech.coordinates.index(name) for name in push_rod.coordinates]
    middle = np.argmin(np.linalg.norm(push_rod.part.nodes - push_rod.part.nodes.mean(axis=0), axis=1))
    moved = run.coordinates[:, columns] @ push_rod.basis.modes[middle].T  # (t, 3) in the frame of its start
    in_world = spatial.rotation_between([0.0, 0.0, 1.0], [0.13, 0.0, -1.0])  # its z axis is along the rod
    moved = moved @ in_world.T
    assert np.ptp(moved[:, 0]) > 1e-5  # m, along x, in the plane of the four-bar
    assert np.ptp(moved[:, 1]) > 1e-5  # m, along y, out of it


def test_moving_picture(problem, run, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("imageio_ffmpeg")
    result = compared(problem, run, run, [run.cost], "stored")
    shown = retargeted_recordings(result, 50)
    options = {"ghost": "target", "progress": lambda fraction: None}
    assert write_panels(shown, tmp_path / "rapper.gif", begin=0.05, fps=10, height=100, **options) == 3
    with image.open(tmp_path / "rapper.gif") as picture:
        assert (picture.n_frames, picture.height) == (3, 100)
        colours = np.asarray(picture.convert("RGB")).reshape(100, 3, -1, 3).astype(int)
    assert (colours.min(axis=-1) < 150).any(axis=(0, 2)).all()  # something is drawn in every panel
    with pytest.raises(MechanismError, match=r"ends in \.mp4 or \.gif"):
        write_panels(shown, tmp_path / "rapper.png", **options)
    with pytest.raises(MechanismError, match="no two pictures between 1 and inf s"):
        write_panels(shown, tmp_path / "rapper.gif", begin=1.0, **options)
    with pytest.raises(MechanismError, match="did you mean 'target'"):
        write_panels(shown, tmp_path / "rapper.gif", ghost="targets")


def test_bad_sizes_are_named():
    with pytest.raises(MechanismError, match=r"`arm_thickness` is 0\.05 m, more than the 0\.028 m"):
        characters.rapper(arm_thickness=0.05)
    with pytest.raises(MechanismError, match="`rod_thickness` must be positive"):
        characters.rapper(rod_thickness=0.0)
