"""The reduced model: a whole mechanism as a small dense system of its end effectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from supple import spatial
from supple.engine import Equilibrium
from supple.engine.assembly import turned
from supple.engine.linearisation import Linearisation, linearised
from supple.errors import MechanismError, listed
from supple.mechanism import WORLD, Joint, Mechanism, Poses
from supple.mechanism.axes import axis_names
from supple.mechanism.record import Array, lock

if TYPE_CHECKING:
    from supple.reduced.motion import Motion

class Model(ABC):
    """What a `ReducedSimulation` needs of a model: a mechanism seen from its end effectors."""

    mechanism: Mechanism
    end_effectors: tuple[str, ...]

    @abstractmethod
    def motion(self, dt: float, reconstruction: str, corrections: int, threads: int) -> Motion:
        """The model moving in time by steps of `dt` seconds."""

    @property
    def acting(self) -> dict[str, tuple[Array, bool]]:
        """Wrenches (6,) that act from the start, by end effector, and whether they are in world axes."""
        return {}

    def index(self, end_effector: str) -> int:
        """Position of an end effector."""
        if end_effector in self.end_effectors:
            return self.end_effectors.index(end_effector)
        self.mechanism.frame(end_effector)  # raises for names that do not exist at all
        raise MechanismError(
            f"'{end_effector}' is not an end effector of this model ({', '.join(self.end_effectors)}); "
            "name it too when the model is made"
        )


@dataclass(frozen=True)
class ReducedModel(Model):
    """A linear model of e end effectors (6e twists) and k added modes, n = 6e + k numbers in all.

    Twists and wrenches are linear then angular, in the end effector's own axes: at displacement xi it stands at
    `pose @ exp(xi)`, and the wrench that holds it there is Jr(xi)^-T (b + K xi), which does no work around a cycle.
    With a free base the base is the last end effector.
    """

    mechanism: Mechanism
    end_effectors: tuple[str, ...]
    """Names of bodies or sites; a free base is the last one."""
    compliance: Array
    """(n, n): displacement per unit load; zero where nothing can move (and for a free base, which is held)."""
    stiffness: Array
    """(n, n): symmetric; N/m, N/rad, N m/rad. The pseudo-inverse of the compliance in the admissible space."""
    damping: Array
    """(n, n)"""
    mass: Array
    """(n, n)"""
    twist_map: Array
    """(bodies, 6, 6e): every link's twist per unit end-effector wrench."""
    wrench_map: Array
    """(bodies, 6, 6e): the wrench that arrives at every link, per unit end-effector wrench."""
    motion_map: Array
    """(bodies, 6, n): every link's twist per unit displacement of the model."""
    coordinate_map: Array
    """(axes, n): increments of every joint's coordinates, in the order of `mech.joints`, per unit displacement."""
    basis: Array
    """(n, m): the admissible displacements; those of the end effectors are basis @ z."""
    cobasis: Array
    """(m, n): z of an admissible displacement; cobasis @ basis is the identity."""
    rank: int
    """Dimension of the end effectors' admissible twists: their mobility at this pose."""
    modes: int
    """k, the number of added fixed-interface modes."""
    rest_poses: Poses
    """World poses of every body where the model was made."""
    wrenches: Array
    """(6e,) the equilibrium wrenches b on the end effectors, in their own axes."""
    q: Array
    """(axes,) joint coordinates where the model was made."""
    method: str
    mass_kind: str
    at: Equilibrium | None = field(repr=False)
    """The equilibrium the model was made at; None for the reference pose, taken as held."""
    free_base: str | None = None
    """Name of the base if nothing holds it."""

    def __post_init__(self) -> None:
        lock(tuple(vars(self).values()))

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: without the core's equations, which `linear` makes again."""
        return {name: value for name, value in vars(self).items() if name != "linear"}

    @cached_property
    def end_effector_poses(self) -> Array:
        """(e, 4, 4) world poses of the end effectors where the model was made."""
        return np.array([self.rest_poses[name] for name in self.end_effectors])

    @property
    def acting(self) -> dict[str, tuple[Array, bool]]:
        """The loads of the equilibrium that the model was made at."""
        loads = [load for load in (self.at.loads if self.at is not None else ()) if load.name in self.end_effectors]
        frames = {load.name: self.mechanism.frame(load.name)[1][:3, :3].T for load in loads if not load.world}
        return {load.name: (turned(frames.get(load.name, np.eye(3)), load.wrench), load.world) for load in loads}

    def tangent_stiffness(self, frame: str) -> Array:
        """(6e, 6e): d wrench / d twist at the model's pose with the present loads held, either turning with the
        end effectors (`frame="body"`) or fixed in world axes (`"world"`); both equal `stiffness` without load."""
        e = len(self.end_effectors)
        result = np.array(self.stiffness[: 6 * e, : 6 * e])
        for i in range(e):
            part = slice(6 * i, 6 * i + 6)
            force, torque = spatial.skew(self.wrenches[part][:3]), spatial.skew(self.wrenches[part][3:])
            zero = np.zeros((3, 3))
            # K_body = K - N(b)/2 with x^T N y = b^T [x, y], from Jr^-T; K_world = K_body - [[0, [f]], [0, [tau]]]
            result[part, part] += 0.5 * np.block([[zero, force], [force, torque]])
            if frame == "world":
                result[part, part] -= np.block([[zero, force], [zero, torque]])
            elif frame != "body":
                raise MechanismError(f"frame must be 'world' or 'body', got {frame!r}")
        return result

    @cached_property
    def linear(self) -> Linearisation:
        """The engine's linear system that the model was made from, a free base held."""
        return linearised(held_base(self.mechanism)[0], self.at, turning=self.end_effectors)

    def target_effect(self, name: str) -> tuple[Array, Array, Array]:
        """What a unit change of a set-point does with nothing else changed: displacement of the model (n,),
        twists of every link (bodies, 6), increments of every joint's coordinates (axes,)."""
        linear = self.linear
        eqs = linear.equations
        rhs = np.zeros(eqs.core.unknowns)
        rows = np.array(eqs.core.axis_rows, dtype=int)
        if name in eqs.row:
            rhs[eqs.core.unknowns - len(eqs.row) - len(eqs.limit_names) + eqs.row[name]] = 1.0
        elif name in eqs.spring:
            coupling = next(c for c in self.mechanism.couplings if c.name == name)
            axes = [eqs.axis[n] for n in coupling.coordinates]
            stretch = float(coupling.coefficients @ linear.q[axes]) - eqs.targets[name]
            slope = 0.0 if coupling.curve is None else float(coupling.curve.slope(stretch))
            rhs[rows[axes]] = (coupling.stiffness + slope) * coupling.coefficients
        else:
            axis = eqs.sprung_axis(name)
            joint = self.mechanism.joint(name)
            at = joint.axes.index(name)
            curve = joint.curves[at]
            deflection = linear.q[axis] - eqs.rest[axis]
            torque = np.zeros(len(joint.axes))
            torque[at] = joint.stiffness[at] + (0.0 if curve is None else float(curve.slope(deflection)))
            own = slice(axis - at, axis - at + len(joint.axes))
            # on rates of q; a rotation vector's rows are those of its increments
            rhs[rows[own]] = np.linalg.solve(joint.increments(linear.q[own]).T, torque)
        response = linear.solve(rhs[None])[0]
        twists = response[: 6 * len(self.mechanism.bodies)].reshape(-1, 6)
        tips = [self._tip_twist(name, twists) for name in self.end_effectors]
        displacement = np.concatenate([*tips, np.zeros(self.modes)])
        increments = np.zeros(len(self.q))
        increments[self.held_axes] = response[rows]
        return displacement, twists, increments

    def rest_target(self, name: str) -> float:
        """Where a set-point stands in the model; at the reference pose, where that pose has it."""
        eqs = self.linear.equations
        return eqs.targets[name] if name in eqs.targets else float(eqs.rest[eqs.sprung_axis(name)])

    def moved(self, increments: Array) -> Array:
        """(axes,) coordinates of every joint, moved by increments from where the model was made."""
        q, start = self.q + increments, 0
        for joint in self.mechanism.joints:
            for size in joint.blocks:
                if size == 3:
                    part = slice(start, start + 3)
                    q[part] = spatial.so3_log(spatial.so3_exp(self.q[part]) @ spatial.so3_exp(increments[part]))
                start += size
        return q

    def _tip_twist(self, name: str, twists: Array) -> Array:
        body, pose = self.mechanism.frame(name)
        twist: Array = spatial.adjoint(spatial.inverse(pose)) @ twists[body]
        return twist

    @cached_property
    def held_axes(self) -> list[int]:
        """Where the coordinates of `linear` stand among those of the mechanism, which has a free base's too."""
        index = {name: i for i, name in enumerate(axis_names(self.mechanism))}
        return [index[name] for name in self.linear.equations.axis]

    def motion(self, dt: float, reconstruction: str, corrections: int, threads: int) -> Motion:
        from supple.reduced.floating_motion import FloatingMotion
        from supple.reduced.motion import LinearMotion

        kind = LinearMotion if self.free_base is None else FloatingMotion
        return kind(self, dt, reconstruction, corrections, threads)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model, with its mechanism, as `.npz` (no pickle)."""
        from supple.reduced.files import save

        save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> ReducedModel:
        """Reads a model that `save` wrote."""
        from supple.reduced.files import load

        return load(path)

    def __repr__(self) -> str:
        extra = f" and {self.modes} modes" if self.modes else ""
        return f"ReducedModel('{self.mechanism.name}': {', '.join(self.end_effectors)}; rank {self.rank}{extra})"


def held_base(mech: Mechanism) -> tuple[Mechanism, str | None]:
    """The mechanism with its free base fixed where it stands, and the base's name; itself and None without one.

    A free joint whose body is welded or otherwise held is none. What floats only in part, such as the loose object
    in the file of a hand, cannot be told as one base and is refused.
    """
    free = [i for i in mech.topology.tree if mech.joints[i].kind == "free"]
    free = [i for i in free if set(mech.joints[i].axes) <= set(mech.unheld)]
    if not free:
        return mech, None
    if len(free) > 1:
        names = ", ".join(f"'{mech.joints[i].name}'" for i in free)
        raise MechanismError(f"'{mech.name}' floats in several pieces (free joints {names}); reduce one at a time")
    joint = mech.joints[free[0]]
    if WORLD not in (joint.parent, joint.child):
        raise MechanismError(
            f"'{joint.child}' of '{mech.name}' floats on '{joint.parent}'; let it float from the world itself (in a "
            "URDF file, call that link 'world')"
        )
    base = joint.child if joint.parent == WORLD else joint.parent
    held = [other.name for other in mech.joints if WORLD in (other.parent, other.child) and other is not joint]
    if held:
        raise MechanismError(
            f"'{base}' floats in '{mech.name}', but the world holds other parts of it by {listed(held)}; "
            f"reduce a mechanism without '{base}', or without those (a supple.World takes both)"
        )
    at = joint.pose_parent @ joint.displacement(joint.reference)
    fixed = Joint(joint.name, joint.parent, joint.child, at, joint.pose_child)
    joints = tuple(fixed if i == free[0] else other for i, other in enumerate(mech.joints))
    return replace(mech, joints=joints, keyframes=()), base
