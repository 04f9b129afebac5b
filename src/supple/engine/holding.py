"""Prescribed poses in statics: each held frame gets a joint to the world whose motors carry it to its pose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.engine.assembly import Acting, Equations, Load, State, turned
from supple.engine.linearisation import RANK_TOLERANCE, Linearisation, null_space
from supple.errors import MechanismError
from supple.mechanism import WORLD, Joint, Mechanism, Motor
from supple.mechanism.record import Array, checked_pose

DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")
NO_TURN = 1e-12
"""rad: a turn below this needs no axis."""
BALANCING_STEPS = 30


@dataclass(frozen=True)
class Hold:
    """A pose of a body or site that `supple.equilibrium` prescribes, in some of its six directions."""

    pose: Array
    """(4, 4) world pose of the frame; m."""
    directions: tuple[str, ...] = DIRECTIONS
    """Held translations along ("x", "y", "z") and rotations about ("rx", "ry", "rz") the axes of `pose`. Where two
    rotations are free, the frame turns as on a universal joint: about the first free axis of `pose`, then about its own
    second one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pose", checked_pose(self.pose, "the pose of a Hold"))
        object.__setattr__(self, "directions", tuple(self.directions))
        if not self.directions or not set(self.directions) <= set(DIRECTIONS):
            raise MechanismError(f"directions of a Hold are some of {DIRECTIONS}, got {self.directions!r:.80}")


Holds: TypeAlias = Mapping[str, ArrayLike | Hold]
"""World pose (4, 4), or `Hold`, by name of a body or site."""


@dataclass(frozen=True)
class HeldMechanism:
    """A mechanism with the joints and motors that hold frames of it."""

    original: Mechanism
    mechanism: Mechanism
    """At the pose where the path starts, with a joint to the world for each held frame."""
    holds: dict[str, Hold]
    targets: dict[str, float]
    """Set-points of the motors at the prescribed poses, rad and m; zero at the start."""

    def acting(self, acting: Acting, targets: Mapping[str, float]) -> Acting:
        """What acts on the mechanism without holds, with set-points of the holds' motors."""
        rest = np.concatenate([acting.rest, *(joint.reference for joint in self.joints)])
        return replace(acting, rest=rest, targets=acting.targets | dict(targets))

    def reduced_acting(self, acting: Acting) -> Acting:
        """What acts on the mechanism with holds, without what belongs to them."""
        axes = sum(len(joint.axes) for joint in self.joints)
        targets = {name: value for name, value in acting.targets.items() if name not in self.targets}
        return replace(acting, rest=acting.rest[: len(acting.rest) - axes], targets=targets)

    def extended(self, state: State) -> State:
        """A state of the mechanism without holds as one with them, where the path starts."""
        q, reactions, mu = state
        q = np.concatenate([q, *(joint.reference for joint in self.joints)])
        mu = np.insert(mu, self._rows_before, np.zeros(len(self.targets)))
        return q, np.concatenate([reactions, np.zeros((len(self.holds), 6))]), mu

    def reduced(self, state: State) -> State:
        """A state with holds, without what belongs to them."""
        q, reactions, mu = state
        axes, before = sum(len(joint.axes) for joint in self.joints), self._rows_before
        rows = slice(before, before + len(self.targets))
        return q[: len(q) - axes].copy(), reactions[: len(self.original.joints)].copy(), np.delete(mu, rows)

    @property
    def joints(self) -> tuple[Joint, ...]:
        """The joints to the world, in the order of `holds`."""
        return self.mechanism.joints[len(self.original.joints) :]

    @property
    def _rows_before(self) -> int:
        """Number of rows before those of the holds' motors: rigid couplings and motors; those of limits follow."""
        return sum(c.rigid for c in self.original.couplings) + len(self.original.motors)


def hold_frames(mech: Mechanism, holds: Holds, start: Array | None = None) -> HeldMechanism:
    """A mechanism with motors that carry frames to prescribed poses. The path begins at coordinates `start` (dof,), by
    default at the reference pose; there each frame translates straight and turns about one axis."""
    if not isinstance(holds, Mapping):
        raise MechanismError(f"hold is given as {{body or site: pose (4, 4) or Hold}}, got {type(holds).__name__}")
    checked = {
        name: each if isinstance(each, Hold) else Hold(checked_pose(each, f"the pose at which '{name}' is held"))
        for name, each in holds.items()
    }
    moved = mech if start is None else mech.at(start)
    joints: list[Joint] = []
    motors: list[Motor] = []
    targets: dict[str, float] = {}
    for name, hold in checked.items():
        joint, found = _joint_to_world(moved, name, hold)
        joints.append(joint)
        motors.extend(Motor(axis, axis) for axis in found)
        targets |= found
    held = replace(moved, joints=(*moved.joints, *joints), motors=(*moved.motors, *motors), keyframes=())
    return HeldMechanism(mech, held, checked, targets)


def _joint_to_world(mech: Mechanism, name: str, hold: Hold) -> tuple[Joint, dict[str, float]]:
    """The joint that holds a frame, and the set-points of its motors.

    R_0 is the frame's orientation at the start, R_g the prescribed one. The joint's frames have the axes of R_g at the
    start. Three slides along them are followed by a hinge about the axis of E = R_0^T R_g, which turns the frame from
    R_0 to R_g, and by hinges that turn it about the free axes of R_g, or by a ball joint if all rotations are free.
    """
    body, pose_body_frame = mech.frame(name)
    if body < 0:
        raise MechanismError(f"'{name}' is fixed to the world; it cannot be held elsewhere")
    pose_body = mech.poses.array[body]
    start = pose_body @ pose_body_frame
    held = [direction in hold.directions for direction in DIRECTIONS]
    turn = start[:3, :3].T @ hold.pose[:3, :3]
    rotation = spatial.so3_log(turn)
    angle = float(np.linalg.norm(rotation))
    turns = any(held[3:]) and angle > NO_TURN
    if any(held[3:]):
        free = [axis for axis, by_motor in zip(turn, held[3:], strict=True) if not by_motor]
        hinges = [rotation / angle, *free] if turns else free
        blocks = [1] * (3 + len(hinges))
    else:
        hinges, blocks = [*np.eye(3)], [1, 1, 1, 3]
    slides = np.hstack([np.eye(3), np.zeros((3, 3))])
    twists = np.vstack([slides, *(np.concatenate([np.zeros(3), axis]) for axis in hinges)])
    names = tuple(f"hold of {name}.{k}" for k in range(len(twists)))
    way = hold.pose[:3, :3].T @ (hold.pose - start)[:3, 3]
    targets = {names[k]: float(way[k]) for k in range(3) if held[k]} | ({names[3]: angle} if turns else {})
    at_start = np.eye(4)
    at_start[:3, :3], at_start[:3, 3] = hold.pose[:3, :3], start[:3, 3]
    pose_child = spatial.inverse(pose_body) @ at_start
    child = mech.bodies[body].name
    return Joint(f"hold of {name}", WORLD, child, at_start, pose_child, twists, tuple(blocks), axes=names), targets


def holding_loads(held: HeldMechanism, eqs: Equations, acting: Acting, state: State) -> tuple[Load, ...]:
    """The wrenches, in world axes, that hold the frames at an equilibrium `state` with holds; `eqs` are without them.

    J^T w = f  in the admissible motions of the mechanism without holds, where f are the forces that it lacks for
    balance and J the frames' twists. A wrench does no work on the free axes of its joint. Where several w do this,
    because frames cannot move in some held directions, w is the smallest (forces times the radius beside torques).
    """
    linear = Linearisation.at(eqs, acting, held.reduced(state))
    mech, lengths = held.original, np.repeat([held.original.radius or 1.0, 1.0], 3)
    bases, jacobians, place = [], [], len(linear.q)
    for joint in held.joints:
        free = [k for k, axis in enumerate(joint.axes) if axis not in held.targets]
        motions = joint.twist_jacobian(state[0][place : place + len(joint.axes)])[:, free]
        place += len(joint.axes)
        body = mech.body_index(joint.child)
        twists = spatial.adjoint(spatial.inverse(joint.pose_child)) @ linear.jacobian[:, body].T @ linear.free
        bases.append(null_space((motions / lengths[:, None]).T))
        jacobians.append(bases[-1].T @ (twists / lengths[:, None]))
    places = np.concatenate([np.arange(linear.layout.size)[linear.layout.twists], linear.layout.coordinates])
    lacking = -linear.motions.T @ linear.core.residual[places]
    amounts = np.linalg.lstsq(np.concatenate(jacobians).T, lacking, rcond=RANK_TOLERANCE)[0]
    result, first = [], 0
    for name, joint, basis in zip(held.holds, held.joints, bases, strict=True):
        body, last = mech.body_index(joint.child), first + basis.shape[1]
        axes = (linear.poses.array[body] @ joint.pose_child)[:3, :3]
        wrench = turned(axes, basis @ amounts[first:last] / lengths)
        result.append(Load(name, body, joint.pose_child[:3, 3].copy(), wrench, True))
        first = last
    return tuple(result)


def with_balancing_multipliers(eqs: Equations, acting: Acting, state: State) -> State:
    """A state of equilibrium with the multipliers of joints and rows that balance what acts.

    They are those of Newton's steps, whose change of the coordinates vanishes at a pose of equilibrium. Multipliers of
    redundant constraints are regularised and take several steps. The steps begin without reactions: in `state` a loop
    and a hold in directions in which the frame cannot move may exert large ones on each other.
    """
    state = state[0], np.zeros_like(state[1]), state[2]
    linear, at = Linearisation.at(eqs, acting, state), eqs.layout
    given, best, least = eqs.compiled(acting), state, np.inf
    for _ in range(BALANCING_STEPS):
        found = eqs.core.evaluate(given, *state)
        if found.error >= least / 2:
            break
        best, least = state, found.error
        change = linear.solve(found.residual[None])[0]
        q, reactions, mu = state
        state = q, reactions + np.array([change[part] for part in at.multipliers]), mu + change[at.rows]
    return best
