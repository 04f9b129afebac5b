"""The reduced model: a small dense linear system in the twists of a mechanism's end effectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.engine import Equilibrium
from supple.engine.assembly import turned
from supple.engine.linearisation import Linearisation, linearised
from supple.errors import MechanismError, listed
from supple.mechanism import WORLD, Joint, Mechanism, Poses
from supple.mechanism.axes import axis_names
from supple.mechanism.notebook import html_table
from supple.mechanism.record import Array, lock

if TYPE_CHECKING:
    from supple.reduced.matrices import Ellipsoid, Sensitivity, StateSpace
    from supple.reduced.motion import Motion

LOADS = ("dead", "follower")


class Model(ABC):
    """Interface of the models that a `ReducedSimulation` takes: linear and blended ones."""

    mechanism: Mechanism
    end_effectors: tuple[str, ...]

    @abstractmethod
    def motion(self, dt: float, reconstruction: str, corrections: int, threads: int) -> Motion:
        """The state of the model and its time stepping by `dt` seconds."""

    @property
    def acting(self) -> dict[str, tuple[Array, bool]]:
        """Loads that act at the start, by end effector: wrench (6,), and whether it is in world axes."""
        return {}

    def index(self, end_effector: str) -> int:
        """Index of an end effector."""
        if end_effector in self.end_effectors:
            return self.end_effectors.index(end_effector)
        self.mechanism.frame(end_effector)  # raises for names that do not exist at all
        raise MechanismError(
            f"'{end_effector}' is not an end effector of this model ({', '.join(self.end_effectors)}); "
            "name it too when the model is made"
        )


@dataclass(frozen=True)
class ReducedModel(Model):
    """A linear model with n = 6e + k coordinates: the twists of e end effectors, then k fixed-interface modes.

    Twists and wrenches are linear part first, in the end effector's own axes. At displacement xi the end effector has
    the pose H exp(xi), where H is its pose in the linearised state. The wrench that holds it there is
    Jr(xi)^-T (b + K xi), with Jr the right Jacobian of exp. It is the gradient of the energy b^T xi + 1/2 xi^T K xi and
    does no net work around a closed path.
    """

    mechanism: Mechanism
    end_effectors: tuple[str, ...]
    """Names of bodies or sites; a free base is the last one."""
    compliance: Array
    """(n, n): displacement xi per unit of its generalised force, Jr(xi)^T wrench - b; symmetric, also under load. Zero
    for inadmissible directions (and for a free base, which counts as held here)."""
    stiffness: Array
    """K (n, n): symmetric; N/m, N/rad, N m/rad. The pseudo-inverse of the compliance in the admissible space."""
    damping: Array
    """(n, n): symmetric; N s/m, N s/rad, N m s/rad."""
    mass: Array
    """(n, n): symmetric; kg, kg m, kg m^2."""
    twist_map: Array
    """(bodies, 6, 6e): every link's twist per unit end-effector wrench; the end effectors' rows are `compliance`."""
    wrench_map: Array
    """(bodies, 6, 6e): change of the wrench that every link transmits towards the world, its own load included, in the
    link's own axes, per unit end-effector wrench."""
    motion_map: Array
    """(bodies, 6, n): every link's twist per unit displacement of the model."""
    coordinate_map: Array
    """(axes, n): increments of every joint's coordinates, in the order of `mech.joints`, per unit displacement."""
    basis: Array
    """P (n, m): admissible displacements are P z."""
    cobasis: Array
    """(m, n): z of an admissible displacement; cobasis @ basis is the identity."""
    rank: int
    """Dimension of the space of admissible twists: the end effectors' mobility at this pose."""
    modes: int
    """k, the number of added fixed-interface modes."""
    rest_poses: Poses
    """World poses of every body in the linearised state."""
    wrenches: Array
    """b (6e,): the loads on the end effectors in the linearised state, in their own axes."""
    q: Array
    """(axes,) joint coordinates in the linearised state."""
    method: str
    mass_kind: str
    at: Equilibrium | None = field(repr=False)
    """The equilibrium of the linearisation; None for the reference pose, which is treated as an equilibrium."""
    free_base: str | None = None
    """Name of the base if nothing holds it."""

    def __post_init__(self) -> None:
        lock(tuple(vars(self).values()))

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copy: without the core's equations, which `linearisation` builds again when needed."""
        return {name: value for name, value in vars(self).items() if name != "linearisation"}

    @cached_property
    def end_effector_poses(self) -> Array:
        """(e, 4, 4) world poses of the end effectors in the linearised state."""
        return np.array([self.rest_poses[name] for name in self.end_effectors])

    @property
    def acting(self) -> dict[str, tuple[Array, bool]]:
        """The loads of the linearised equilibrium."""
        loads = [load for load in (self.at.loads if self.at is not None else ()) if load.name in self.end_effectors]
        frames = {load.name: self.mechanism.frame(load.name)[1][:3, :3].T for load in loads if not load.world}
        return {load.name: (turned(frames.get(load.name, np.eye(3)), load.wrench), load.world) for load in loads}

    def tangent_stiffness(self, loads: str) -> Array:
        """(6e, 6e): change of the wrench that holds the end effectors per unit twist from the model's pose, both in the
        end effectors' own axes.

        `loads` says what the present loads do: "dead" loads keep their direction in the world, "follower" loads turn
        with the end effectors. Without load both equal `stiffness`. `compliance_at` gives world axes.
        """
        if loads not in LOADS:
            raise MechanismError(
                f"loads must be 'dead' (fixed in the world) or 'follower' (turning with the end effector), got "
                f"{loads!r}; the axes are always the end effector's own: compliance_at(..., axes='world') gives others"
            )
        return self.stiffness_with_loads([loads == "dead"] * len(self.end_effectors))

    def stiffness_with_loads(self, dead: Sequence[bool]) -> Array:
        """(6e, 6e) as `tangent_stiffness`; for each end effector, whether its loads are dead."""
        e = len(self.end_effectors)
        result = np.array(self.stiffness[: 6 * e, : 6 * e])
        for i, fixed in enumerate(dead):
            part = slice(6 * i, 6 * i + 6)
            force, torque = spatial.skew(self.wrenches[part][:3]), spatial.skew(self.wrenches[part][3:])
            zero = np.zeros((3, 3))
            # K_follower = K - N(b)/2 with x^T N y = b^T [x, y], from Jr^-T; K_dead = that - [[0, [f]], [0, [tau]]]
            result[part, part] += 0.5 * np.block([[zero, force], [force, torque]])
            if fixed:
                result[part, part] -= np.block([[zero, force], [zero, torque]])
        return result

    def tangent_compliance(self, loads: str) -> Array:
        """(6e, 6e): twist of the end effectors per unit of an additional wrench, both in their own axes, while the
        present loads keep their direction in the world ("dead") or turn with the end effectors ("follower").

        It is the inverse of `tangent_stiffness` in the admissible space, and unsymmetric under most loads. `motion_map`
        gives the twists of the links. Without load both equal `compliance`.
        """
        basis = self.basis[: 6 * len(self.end_effectors), : self.basis.shape[1] - self.modes]
        compliance: Array = basis @ np.linalg.solve(basis.T @ self.tangent_stiffness(loads) @ basis, basis.T)
        return compliance

    def compliance_at(self, name: str, axes: str = "world", point: ArrayLike | None = None) -> Array:
        """(6, 6): displacement (m, then rad) per unit of an additional force and torque (N, then N m) at any body or
        site, which need not be an end effector.

        Args:
            name: the body or site.
            axes: "world" or "body", those of the displacement and of the wrench.
            point: (3,) where both are taken, in the frame of the body or site; by default its origin.

        The present loads stay as they were applied: in world axes they are dead loads, in body axes they turn. All of
        the mechanism counts, not only the end effectors; with a free base, the base counts as held.
        """
        from supple.reduced.matrices import compliance_at

        return compliance_at(self, name, axes, point)

    def ellipsoid_at(
        self, name: str, kind: str = "compliance", part: str = "linear", point: ArrayLike | None = None
    ) -> Ellipsoid:
        """Displacements of a body or site under forces of 1 N in all directions ("linear"), or its rotations under
        torques of 1 N m ("angular"): they form an ellipsoid, in world axes.

        `kind="stiffness"` is the inverse: forces (or torques) for displacements of 1 m (rotations of 1 rad) in all
        directions, with the other part of the motion free.
        """
        from supple.reduced.matrices import ellipsoid_at

        return ellipsoid_at(self, name, kind, part, point)

    def state_space(
        self,
        dt: float | None = None,
        *,
        axes: str = "world",
        targets: Sequence[str] | str = (),
        velocities: bool = False,
    ) -> StateSpace:
        """The model as x' = A x + B u, y = C x + D u, for control design.

        Args:
            dt: None for continuous time. With a time step, s, the matrices are those of the steps of
                `ReducedSimulation(model, dt)`: x[k+1] = A x[k] + B u[k], where u[k] acts during the step.
            axes: "world" or "body", the axes of wrenches, displacements and velocities at the linearised pose.
            targets: set-points that are inputs too, by name; their input is the change from the linearised state.
            velocities: whether the end effectors' velocities are outputs too.

        Inputs are the additional wrenches "tip.fx" ... "tip.tz", then targets. Outputs are the displacements "tip.x",
        "tip.y", "tip.z", "tip.rx", "tip.ry", "tip.rz" (rotation vector), then velocities "tip.vx" ... "tip.wz".
        """
        from supple.reduced.matrices import state_space

        return state_space(self, dt, axes, [targets] if isinstance(targets, str) else list(targets), velocities)

    def sensitivity(self, parameter: str, frequencies: int = 0) -> Sensitivity:
        """Derivatives of the model with respect to one parameter of the mechanism, such as "elbow.stiffness"; the names
        are those of `mech.parameters`, and "tip.payload".

        A model at an equilibrium (`at=...`) includes the motion of that equilibrium. `supple.gradient` computes the
        derivatives of one scalar with respect to many parameters.

        Args:
            parameter: its name.
            frequencies: number of natural frequencies of the mechanism whose derivatives are computed, lowest first.
        """
        from supple.reduced.matrices import sensitivity

        return sensitivity(self, parameter, frequencies)

    @cached_property
    def loads_are_dead(self) -> list[bool]:
        """For each end effector, whether the loads on it keep their direction in the world."""
        fixed = {load.name for load in (self.at.loads if self.at is not None else ()) if load.world}
        return [name in fixed for name in self.end_effectors]

    @cached_property
    def linearisation(self) -> Linearisation:
        """The engine's equations, linearised at the state of the model; a free base is fixed in them."""
        return linearised(held_base(self.mechanism)[0], self.at, turning=self.end_effectors)

    def target_effect(self, name: str) -> tuple[Array, Array, Array]:
        """Response to a unit change of a set-point, all loads unchanged.

        Returns:
            The displacement of the model (n,), the twists of every link (bodies, 6), and the increments of every
            joint's coordinates (axes,).
        """
        linear = self.linearisation
        eqs, acting, places = linear.equations, linear.acting, linear.layout
        rhs = np.zeros(places.size)
        rows = places.coordinates
        if name in eqs.row:
            rhs[places.rows][eqs.row[name]] = 1.0
        elif name in eqs.spring:
            coupling = next(c for c in self.mechanism.couplings if c.name == name)
            axes = [eqs.axis[n] for n in coupling.coordinates]
            stretch = float(coupling.coefficients @ linear.q[axes]) - acting.targets[name]
            slope = 0.0 if coupling.curve is None else float(coupling.curve.slope(stretch))
            rhs[rows[axes]] = (coupling.stiffness + slope) * coupling.coefficients
        else:
            axis = eqs.sprung_axis(name)
            joint = self.mechanism.joint(name)
            at = joint.axes.index(name)
            curve = joint.curves[at]
            deflection = linear.q[axis] - acting.rest[axis]
            torque = np.zeros(len(joint.axes))
            torque[at] = joint.stiffness[at] + (0.0 if curve is None else float(curve.slope(deflection)))
            own = slice(axis - at, axis - at + len(joint.axes))
            # the torque is conjugate to rates of q, the rows of a rotation vector to its increments
            rhs[rows[own]] = np.linalg.solve(joint.increments(linear.q[own]).T, torque)
        response = linear.solve(rhs[None])[0]
        twists = response[places.twists].reshape(-1, 6)
        tips = [self._tip_twist(name, twists) for name in self.end_effectors]
        displacement = np.concatenate([*tips, np.zeros(self.modes)])
        increments = np.zeros(len(self.q))
        increments[self.held_axes] = response[rows]
        return displacement, twists, increments

    def rest_target(self, name: str) -> float:
        """Value of a set-point in the linearised state; for a model of the reference pose, its value in that pose."""
        acting, eqs = self.linearisation.acting, self.linearisation.equations
        return acting.targets[name] if name in acting.targets else float(acting.rest[eqs.sprung_axis(name)])

    def moved(self, increments: Array) -> Array:
        """(axes,) coordinates of every joint after increments from the linearised state."""
        q = self.q + increments
        for part in self._rotation_vectors:
            q[part] = spatial.so3_log(spatial.so3_exp(self.q[part]) @ spatial.so3_exp(increments[part]))
        return q

    @cached_property
    def _rotation_vectors(self) -> list[slice]:
        """Places of the rotation vectors among all coordinates."""
        found, start = [], 0
        for size in (size for joint in self.mechanism.joints for size in joint.blocks):
            if size == 3:
                found.append(slice(start, start + 3))
            start += size
        return found

    def _tip_twist(self, name: str, twists: Array) -> Array:
        body, pose = self.mechanism.frame(name)
        twist: Array = spatial.adjoint(spatial.inverse(pose)) @ twists[body]
        return twist

    @cached_property
    def held_axes(self) -> list[int]:
        """Indices of the coordinates of `linearisation` among those of the mechanism, which include a free base's."""
        index = {name: i for i, name in enumerate(axis_names(self.mechanism))}
        return [index[name] for name in self.linearisation.equations.axis]

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

    def _repr_html_(self) -> str:
        return html_table(f"ReducedModel of {self.mechanism.name}", {
            "mechanism": self.mechanism, "end effectors": ", ".join(self.end_effectors), "rank": self.rank,
            "modes": self.modes, "linearised at": "the reference pose" if self.at is None else self.at,
            "free base": self.free_base or "none",
        })  # fmt: skip


def held_base(mech: Mechanism) -> tuple[Mechanism, str | None]:
    """The mechanism with its free base fixed at the reference pose, and the base's name.

    Without a free base it returns the mechanism itself and None. A free joint whose body is held by something else (a
    weld, for example) is not a free base. A mechanism of which only a part floats, such as the file of a hand with a
    loose object, has no single base and is refused.
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
