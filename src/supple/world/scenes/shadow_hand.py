"""The Shadow Hand, loaded from its MJCF file, grasps a ball from above and lifts it."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from supple import spatial
from supple.contact.colliders import collider, contact_points
from supple.mechanism import WORLD, Body, Joint, Mechanism, Shape, jacobian
from supple.mechanism.io import load
from supple.mechanism.record import Array
from supple.reduced import ReducedSimulation
from supple.world.objects import rigid_object
from supple.world.scenes._scene import Scene, motion, smooth
from supple.world.scenes.hand import WRIST
from supple.world.world import World

FINGERS = ("ff", "mf", "rf", "lf", "th")
AROUND = {
    "FFJ4": 0.219, "FFJ3": 0.639, "FFJ2": 0.775, "FFJ1": 0.149, "MFJ4": 0.322, "MFJ3": 0.648, "MFJ2": 0.829,
    "MFJ1": 0.054, "RFJ4": -0.329, "RFJ3": 0.732, "RFJ2": 0.81, "RFJ1": 0.194, "LFJ4": -0.075, "LFJ3": 1.076,
    "LFJ2": 0.814, "LFJ1": 1.226, "THJ5": 0.518, "THJ4": 1.06, "THJ2": -0.187, "THJ1": 0.105,
}  # fmt: skip
"""rad: joint angles with the fingertips around a ball and the thumb opposite to the fingers."""
RADIUS = 0.03
"""m, radius of the ball."""
MIDDLE = np.array([0.0071, -0.0688, 0.0991])
"""m, centre of the ball in the palm's frame."""
HIGH = 0.15
"""m, height of the stand that the ball lies on."""
PRESS = (1.0, 1.0, 1.0, 2.7, 3.9)
"""N, force of each fingertip towards the centre of the ball; the forces nearly balance."""


def robot(path: str | PathLike[str], friction: float = 1.0, carried: bool = False) -> Mechanism:
    """The right hand of the file at `path`, palm down, with its fingers around the ball. Its servos have no torque in
    this pose. Joints that the tendons leave free get springs of 0.5 N m/rad. The forearm is free, or `carried`: held by
    springs to the world. Only the fingertips have contact. The hand has no weight: its controller is assumed to
    compensate gravity."""
    mech = load(Path(path))
    side = mech.bodies[0].name.partition("_")[0]
    angles = [AROUND.get(name.partition("_")[2], 0.0) for name in mech.coordinates]
    mech = mech.with_springs(0.5, 0.05).at(angles)
    facing = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])  # palm's y axis up, fingers along x
    palm = spatial.pose(facing, np.array([0.0, 0, HIGH + RADIUS]) - facing @ MIDDLE)
    turn = palm @ spatial.inverse(mech.poses[f"{side}_palm"])
    bodies = tuple(_tips_only(replace(body, pose=turn @ body.pose), friction) for body in mech.bodies)
    springs = {"stiffness": WRIST[0], "damping": WRIST[1]} if carried else {}
    level = spatial.translation(bodies[0].pose[:3, 3])  # the base moves along the world's axes
    on_arm = spatial.inverse(bodies[0].pose) @ level
    base = Joint("wrist", WORLD, bodies[0].name, level, on_arm, np.eye(6), (1, 1, 1, 3), **springs)  # type: ignore[arg-type]
    joints = [base if j.parent == WORLD else replace(j, rest=j.reference) for j in mech.joints]
    at = dict(zip(mech.coordinates, angles, strict=True))
    couplings = [
        replace(c, rest=float(sum(k * at[n] for n, k in zip(c.coordinates, c.coefficients, strict=True))))
        for c in mech.couplings
    ]
    return replace(mech, bodies=bodies, joints=tuple(joints), couplings=tuple(couplings), gravity=(0.0, 0, 0))  # type: ignore[arg-type]


def _tips_only(body: Body, friction: float) -> Body:
    touching = body.name.endswith("distal")
    masks = {} if touching else {"contact_type": 0, "contact_affinity": 0}
    shapes = tuple(replace(s, friction=(friction, 0, 0), **masks) if s.touches else s for s in body.shapes)  # type: ignore[arg-type]
    return replace(body, shapes=shapes)


def pressing_targets(mech: Mechanism, ball: Body) -> dict[str, float]:
    """Set-points, rad, for which each fingertip presses on the nearest point of the ball with its force f of `PRESS`:
    the joint torques J^T f divided by the joint stiffnesses."""
    side = mech.bodies[0].name.partition("_")[0]
    meshes = {mesh.name: mesh for mesh in mech.meshes}
    target, torque = collider(ball.shapes[0], {}, ball.pose), np.zeros(mech.dof)
    for finger, force in zip(FINGERS, PRESS, strict=True):
        body = mech.body(f"{side}_{finger}distal")
        tip = next(collider(s, meshes, body.pose) for s in body.shapes if s.touches)
        nearest = contact_points(target, tip, 2 * RADIUS)[0]
        push: Array = body.pose[:3, :3].T @ (force * nearest["normal"])
        at = spatial.inverse(body.pose)[:3] @ [*nearest["position"], 1.0]
        torque += jacobian(mech, body.name).T @ np.concatenate([push, np.cross(at, push)])
    stiffness = {name: k for joint in mech.joints for name, k in zip(joint.axes, joint.stiffness, strict=True)}
    fingers = [(n, t) for n, t in zip(mech.coordinates, torque, strict=True) if "WRJ" not in n and stiffness[n] > 0]
    rest = dict(zip(mech.coordinates, mech.reference, strict=True))
    return {name: float(rest[name] + t / stiffness[name]) for name, t in fingers}


def shadow_hand(
    path: str | PathLike[str],
    level: str = "reduced",
    dt: float = 1e-3,
    friction: float = 1.0,
    mass: float = 0.1,
    lift: float = 0.08,
) -> Scene:
    """The Shadow Hand of the MJCF file at `path` grasps a ball of `mass` kg on a stand and lifts it by `lift` m, from
    0.5 s to 1.3 s, by friction alone. The hand is reduced to its five fingertips and its moving forearm, or simulated
    in full (`level="full"`)."""
    mech = robot(path, friction, carried=level == "full")
    side = mech.bodies[0].name.partition("_")[0]
    sim = motion(mech, [f"{side}_{finger}distal" for finger in FINGERS], dt, level)
    world = World()
    world.add(sim)
    half = HIGH / 2
    stand = Shape("box", (0.008, 0.008, half), spatial.translation([0.0, 0, half]), name="stand", friction=(0.5, 0, 0))  # type: ignore[arg-type]
    floor = Shape("plane", (0, 0, 1), np.eye(4), name="floor")  # type: ignore[arg-type]
    world.ground(stand, floor)
    # the friction of a pair is the larger coefficient: the ball's is zero
    ball = rigid_object("ball", "sphere", (RADIUS,), mass, (0, 0, HIGH + RADIUS), friction=0.0)
    world.add(ball)
    around, closed = dict(zip(mech.coordinates, mech.reference, strict=True)), pressing_targets(mech, ball)
    home = mech.bodies[0].pose

    def steer(time: float) -> dict[str, float]:
        close, up = smooth(time / 0.3), lift * smooth((time - 0.5) / 0.8)
        fingers = {name: around[name] + close * (value - around[name]) for name, value in closed.items()}
        if isinstance(sim, ReducedSimulation):
            sim.mount(spatial.translation([0.0, 0, up]) @ home, *WRIST)
            return fingers
        return fingers | {"wrist.2": up}

    return Scene("the Shadow Hand lifts a ball", world, sim, (stand, floor), steer)
