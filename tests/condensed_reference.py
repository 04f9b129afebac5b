"""Shared by tests of condensed models: mechanisms, random wrenches for a given displacement, and comparisons."""

import warnings

import numpy as np

import supple

LIBRARY = {
    "helix": (supple.library.helix(50), ["tip"]),
    "ladder": (supple.library.ladder(), ["tip"]),
    "y": (supple.library.y(), ["left_tip", "right_tip"]),
    "loop": (supple.library.loop(), ["tip"]),
    "robot_arm": (supple.library.robot_arm(), ["tip"]),
}
TOES = [f"distal_phalanx_{i}" for i in range(1, 6)]
FINGERTIPS = [f"rh_{finger}distal" for finger in ("ff", "mf", "rf", "lf", "th")]
ROBOT_FILES = {
    "robotiq": ("robotiq_2f85/2f85.xml", ["right_pad", "left_pad"]),
    "shadow_hand": ("shadow_hand/right_hand.xml", FINGERTIPS),
    "iit_softfoot": ("iit_softfoot/softfoot.xml", ["heel", *TOES]),
}


def robot(robots, name):
    """A robot of that folder and its end effectors; the hand's joints get springs."""
    file, tips = ROBOT_FILES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.ImportWarning)
        mech = supple.load(robots / file)
    return (mech.with_springs(1.0, 0.05) if name == "shadow_hand" else mech), tips


def wrenches_reaching(model, rng, reach, torques=True, times=np.inf):
    """Random wrenches on all end effectors whose linear displacement is `reach`, lengths over the radius. They are at
    most `times` as large as those that reach it in the softest direction (other directions may be rigid)."""
    radius = model.mechanism.radius
    lengths = np.tile([radius] * 3 + [1.0] * 3, len(model.end_effectors))
    push = rng.normal(size=len(lengths)) / lengths
    if not torques:
        push.reshape(-1, 6)[:, 3:] = 0
    soft = model.compliance / np.outer(lengths, lengths)
    size = np.linalg.norm(push * lengths)
    push *= reach * min(1 / np.linalg.norm(soft @ (push * lengths)), times / (np.linalg.norm(soft, 2) * size))
    return dict(zip(model.end_effectors, push.reshape(-1, 6), strict=True))


def displacement(model, eq):
    """Relative displacement of an equilibrium: norm of the tips' twists from the reference pose, lengths over the
    radius."""
    far = []
    for name, rest in zip(model.end_effectors, model.end_effector_poses, strict=True):
        twist = supple.spatial.log(np.linalg.inv(rest) @ eq.poses[name])
        far.append(np.linalg.norm(twist / ([model.mechanism.radius] * 3 + [1.0] * 3)))
    return max(far)


def apart(a, b, radius):
    """Largest difference of poses (..., 4, 4), rotations in rad and positions over the radius."""
    return max(np.abs(a[..., :3, 3] - b[..., :3, 3]).max() / radius, np.abs(a[..., :3, :3] - b[..., :3, :3]).max())
