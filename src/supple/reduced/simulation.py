"""`supple.ReducedSimulation`: a linear or blended model in time, with the poses of every link."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.engine import equilibrium
from supple.engine.assembly import (
    Equations,
    Targets,
    equations,
    loads,
    one_or_more_targets,
    read_targets,
    sprung_axes,
    target_places,
)
from supple.engine.dynamics import check_count, handle_spring, positive_seconds, stepped_by_world
from supple.errors import ConvergenceError, MechanismError, RangeWarning
from supple.mechanism import Poses
from supple.mechanism.axes import by_joint, of_tree
from supple.mechanism.flexible import refuse_flexible
from supple.mechanism.identity import Identity, digest
from supple.mechanism.kinematics import inertias
from supple.mechanism.moving import Contact, Energy
from supple.mechanism.named import Coordinates, Twists
from supple.mechanism.notebook import brief, html_table
from supple.mechanism.poses import amplitudes_in
from supple.mechanism.rates import JointRates
from supple.mechanism.record import Array, array, checked_pose
from supple.recording.observing import Observer, advance_observed
from supple.recording.recordable import Recordable
from supple.reduced.blending import BlendedModel, BlendedMotion, blend
from supple.reduced.build import reduce
from supple.reduced.driving import Drives
from supple.reduced.floating_motion import FloatingMotion, Mount
from supple.reduced.joints import Separation, separation
from supple.reduced.matrices import Ellipsoid, compliance_at, ellipsoid
from supple.reduced.model import Model, ReducedModel
from supple.reduced.motion import RECONSTRUCTIONS, LinearMotion

RANGE = 0.15
"""Summed separation over the radius above which reading poses warns that the linear model is out of its range."""
RUNAWAY = 10.0
"""Displacement of end effectors over the radius at which the motion of a blended model has diverged."""
FAR_OUT = 1e3
"""Displacement of end effectors over the radius at which a linear model is first checked for instability."""
BASES = ("coupled", "decoupled")
STEPS_AT_ONCE = 4096
"""Steps per call of the core; Python handles Ctrl-C between calls."""


@dataclass(frozen=True)
class ReducedState:
    """State of a reduced simulation; `restore` continues from it to the last bit."""

    __repr__ = brief

    of: Identity
    end_effectors: tuple[str, ...]
    frame: str
    """Digest of the basis and the poses that the coordinates of a linear model refer to; empty for other models."""
    state: tuple[Array, ...]
    time: float
    wrenches: dict[str, tuple[Array, bool]]
    handles: dict[str, tuple[Array, Array, float, float]]
    targets: dict[str, float]
    mount: Mount | None = None
    drives: Drives | None = None


class ReducedSimulation(Recordable):
    """Simulates a reduced model by implicit time steps. Its interface is that of `Simulation`.

    Only the end effectors move in time, along motions that joints and loops allow; loads and handles act on them only.
    The poses of all links are computed from their state when they are read.

    Arguments:
        model: A `ReducedModel` or `BlendedModel`.
        dt: Time step, s.
        reconstruction: How the poses of the links follow from the model's state. "twist" moves every link by its own
            linear map; joints separate a little. "joints" uses joint coordinates and forward kinematics: joints of the
            spanning tree stay closed, and end effectors and loops have the small errors that `gaps` reports.
        corrections: Number of chord corrections (Newton corrections with a constant Jacobian) with "joints".
        threads: Number of threads that compute the links' poses.
        base: For a free base. "coupled": its velocity follows from the momentum of the whole mechanism. "decoupled":
            the variant of the FORK-1S paper, without inertial coupling between base and end effectors.
    """

    def __init__(
        self,
        model: Model,
        dt: float,
        *,
        reconstruction: str = "twist",
        corrections: int = 5,
        threads: int = 1,
        base: str = "coupled",
    ) -> None:
        if not isinstance(model, Model):
            raise MechanismError(f"a reduced model is needed (from supple.reduce), got {type(model).__name__}")
        dt = positive_seconds(dt)
        if reconstruction not in RECONSTRUCTIONS:
            raise MechanismError(f"reconstruction is one of {RECONSTRUCTIONS}, got {reconstruction!r}")
        for what, value, least in (("threads", threads, 1), ("corrections", corrections, 0)):
            if not isinstance(value, int | np.integer) or value < least:
                raise MechanismError(f"{what} must be a whole number, {least} or more, got {value!r}")
        self.model, self.dt, self.reconstruction = model, dt, reconstruction
        self.mechanism = model.mechanism
        self._options = dt, reconstruction, corrections, threads
        self._motion = model.motion(*self._options)
        if base not in BASES:
            raise MechanismError(f"base is one of {BASES}, got {base!r}")
        self._base = base
        if base == "decoupled":
            self._floating.decouple()
        self.observers: list[Observer] = []
        """Recordings and logs of this simulation."""
        self._wrenches: dict[str, tuple[Array, bool]] = {}
        self._handles: dict[str, tuple[Array, Array, float, float]] = {}
        self._by_name: dict[str, float] = {}
        self._given: Array | None = None
        """An array of set-points that is newer than those in `_by_name`, as far as `_names_given` says."""
        self._names_given: Mapping[str, Any] = {}
        self._drives = Drives(self.mechanism, dt)
        self._mount: Mount | None = None
        self._warned, self._watched = False, 0.0
        self._next_check = FAR_OUT * self.mechanism.radius
        for name, (wrench, world) in model.acting.items():
            self._set_wrench(name, wrench, world)
        self._origin = self.save()

    # loads and set-points

    def apply(self, end_effector: str, wrench: ArrayLike, frame: str = "world") -> None:
        """Sets the wrench (6,), force (N) then torque (N m), at the origin of an end effector. It acts until changed.

        `frame` is "world" (directions fixed in the world) or "body" (the wrench is in body axes and turns with them).
        """
        self.model.index(end_effector)
        loads(self.mechanism, {end_effector: wrench}, frame)  # checks
        self._set_wrench(end_effector, np.array(wrench, dtype=float), frame == "world")

    def _set_wrench(self, name: str, wrench: Array, world: bool) -> None:
        self._wrenches[name] = (wrench, world)
        self._motion.core.set_wrench(self.model.index(name), np.ascontiguousarray(wrench), world)

    def pull(
        self,
        end_effector: str,
        point: ArrayLike | None,
        stiffness: float | None = None,
        damping: float | None = None,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """Attaches a spring and damper from an end effector (point `at` in its frame, m) to a `point` of the world, m.

        `point=None` removes it. Defaults as in `Simulation.pull`.
        """
        index = self.model.index(end_effector)
        if point is None:
            self._handles.pop(end_effector, None)
            self._motion.core.set_handle(index, False, np.zeros(3), np.zeros(3), 0.0, 0.0)
            return
        k, d = handle_spring(self.mechanism, stiffness, damping)
        held, target = array(at, (3,), "the handle's point"), array(point, (3,), "the point to pull to")
        self._handles[end_effector] = (held, target, k, d)
        self._motion.core.set_handle(index, True, held, target, k, d)

    def set_target(self, name: str | Targets, value: ArrayLike | None = None) -> None:
        """Sets set-points (rad or m) of springs of joints, couplings and motors; a linear model responds linearly.

        `set_target("elbow", 0.3)` sets one, `set_target({"elbow": 0.3, "wrist": 0.1})` several, `set_target(q)` with q
        (dof,) those of all coordinates with a spring or motor.
        """
        self.set_targets(one_or_more_targets(name, value))

    def set_targets(self, targets: Targets) -> None:
        """Sets several set-points at once, as `set_target` does."""
        if isinstance(targets, np.ndarray) and self._takes_arrays and self._motion.set_target_array(targets):
            self._given, self._names_given = targets.copy(), self._places
            return
        if type(targets) is dict and self._set_named(targets):
            return
        checked = read_targets(self.mechanism, targets)
        if self._set_named(checked):
            return
        merged = self._targets | checked
        self._send_targets(merged, self._drives)
        self._targets = merged

    def _set_named(self, targets: dict[str, Any]) -> bool:
        """Sets set-points by name as an array with these numbers changed, which takes less time. False, and nothing is
        changed, if there is no such array, or if a name or number needs a closer look."""
        start = self._targets_at_start if self._given is None else self._given
        if start is None or not targets or not self._takes_arrays:
            return False
        array = start.copy()
        if self._given is None:
            for name, value in self._by_name.items():
                array[self._places[name]] = value
        for name, value in targets.items():
            if name not in self._places or not isinstance(value, float):
                return False
            array[self._places[name]] = value
        if not self._motion.set_target_array(array):
            return False
        if not self._names_given.keys() >= targets.keys():
            self._names_given = dict.fromkeys((*self._names_given, *targets))
        self._given = array
        return True

    @cached_property
    def _targets_at_start(self) -> Array | None:
        """(dof,) set-points in the model's own state, or zero; None if the models of a blend differ."""
        assert isinstance(self.model, ReducedModel | BlendedModel)
        models = [self.model] if isinstance(self.model, ReducedModel) else self.model.models
        start = np.zeros(self.mechanism.dof)
        for name, at in self._places.items():
            values = {model.rest_target(name) for model in models}
            if len(values) > 1:
                return None
            start[at] = values.pop()
        return start

    @property
    def _takes_arrays(self) -> bool:
        """Whether an array of set-points gives all set-points of the motion."""
        return not self._drives.torques and not self._drives.controls and self._by_name.keys() <= self._places.keys()

    @cached_property
    def _places(self) -> dict[str, int]:
        return target_places(self.mechanism)

    @property
    def _targets(self) -> dict[str, float]:
        """Set-points that were given, by name."""
        if self._given is not None:
            self._by_name = self._by_name | {name: float(self._given[self._places[name]]) for name in self._names_given}
            self._given = None
        return self._by_name

    @_targets.setter
    def _targets(self, targets: dict[str, float]) -> None:
        self._by_name, self._given, self._names_given = targets, None, dict.fromkeys(targets)

    def set_torque(self, name: str | Mapping[str, ArrayLike] | ArrayLike, torque: ArrayLike | None = None) -> None:
        """Sets torques of drives on joints, N m or N, as `Simulation.set_torque` does: by name, {name: torque} or an
        array (dof,). Only coordinates with a linear spring take one; the model responds to it as to a set-point."""
        changed = self._drives.copy()
        changed.set_torque(name, torque)
        self._send_targets(self._targets, changed)
        self._drives = changed

    def set_control(self, name: str | Mapping[str, float | None] | ArrayLike, control: float | None = None) -> None:
        """Sets controls of actuators, as `Simulation.set_control` does. Only actuators that act like springs have a
        place in a reduced model; their lag is left out. In linear and blended models the limit of their force lags one
        time step behind."""
        changed = self._drives.copy()
        changed.set_control(name, control)
        self._send_targets(self._targets, changed)
        self._drives = changed

    @property
    def torques(self) -> Coordinates:
        """(dof,) torques that `set_torque` has set, limited to the joints' efforts, N m or N; also by name."""
        values = np.array([self._drives.torques.get(axis, 0.0) for axis in self.mechanism.coordinates])
        torques: Coordinates = Coordinates(self.mechanism, values)
        return torques

    @property
    def controls(self) -> dict[str, float | None]:
        """Control of each actuator by name; None if it is switched off."""
        return self._drives.all_controls

    @property
    def actuator_forces(self) -> dict[str, float]:
        """Force of each actuator by name, before its gear, N m or N, as `Simulation.actuator_forces`. Those that do not
        act like springs have no place in a reduced model; their force is zero."""
        return self._drives.forces(self._motion.coordinates, self._motion.rates)

    def _send_targets(self, targets: dict[str, float], drives: Drives) -> None:
        """Hands set-points, with torques and controls, to the core."""
        sent = drives.targets(targets, self._rest_target, self._motion)
        if sent.keys() == self._places.keys():  # as an array sets them, so that a restored one repeats to the last bit
            whole = np.zeros(self.mechanism.dof)
            whole[list(self._places.values())] = [sent[name] for name in self._places]
            if self._motion.set_target_array(whole):
                return
        self._motion.set_targets(sent)

    def _rest_target(self, name: str) -> float:
        """A set-point in the model's own state."""
        if isinstance(self.model, ReducedModel):
            return self.model.rest_target(name)
        assert isinstance(self.model, BlendedModel)
        return self.model.models[0].rest_target(name)

    @property
    def limits_forces(self) -> bool:
        """Whether `limit_forces` must be called before each step: an actuator with a limited force has a control."""
        return self._drives.limited

    def limit_forces(self) -> None:
        """Keeps the forces of actuators within their ranges at the present coordinates."""
        self._send_targets(self._targets, self._drives)

    @property
    def _floating(self) -> FloatingMotion:
        if not isinstance(self._motion, FloatingMotion):
            raise MechanismError(f"the base of '{self.mechanism.name}' is fixed; this is for free bases only")
        return self._motion

    def set_base_velocity(self, twist: ArrayLike) -> None:
        """Sets the twist (6,) of a free base, m/s and rad/s in its own frame; the motion of the links relative to the
        base does not change."""
        self._floating.set_base_velocity(array(twist, (6,), "the base's twist"))

    def mount(self, pose: ArrayLike | None, stiffness: ArrayLike = (), damping: ArrayLike = ()) -> None:
        """Attaches a free base to a `pose` (4, 4) of the world by springs (6,), N/m and N m/rad, and dampers (6,).

        They act along and about the base's own axes. A second call moves the pose; springs and dampers that it does
        not give stay the same. `pose=None` removes them.
        """
        motion = self._floating
        if pose is None:
            self._mount = None
        else:
            before = self._mount
            given = [array(value, (-1,), f"{what} of the mount") for value, what in
                     ((stiffness, "stiffness"), (damping, "damping"))]  # fmt: skip
            kept = (before.stiffness, before.damping) if before is not None else (np.zeros(0),) * 2
            springs = [new if new.size else old for new, old in zip(given, kept, strict=True)]
            if any(each.shape != (6,) or (each < 0).any() for each in springs):
                raise MechanismError("stiffness and damping of a mount are 6 numbers each, not negative")
            self._mount = Mount(checked_pose(pose, "pose of the mount"), *springs)
        motion.set_mount(self._mount)

    def step(self, n: int = 1) -> None:
        """Advances by n steps. Raises `ConvergenceError` if a step has no solution."""
        check_count(n)
        if self.in_world is not None:
            raise stepped_by_world(self.in_world)
        if self.observers:
            advance_observed(self.observers, self._advance, n)
        else:
            self._advance(n)

    def _advance(self, n: int) -> None:
        at_once = 1 if self.limits_forces else STEPS_AT_ONCE
        for first in range(0, n, at_once):
            count = min(at_once, n - first)
            if self.limits_forces:
                self.limit_forces()
            if self._motion.core.step(count, False) < count:
                raise ConvergenceError(f"at t = {self.time:g} s {self._motion.failure}", time=self.time)
        self._check_runaway()

    def _check_runaway(self) -> None:
        """Raises if the end effectors of a blended model are where its mechanism cannot be, or if those of an unstable
        linear model are far out. A stable one may be there under a large load; it is checked again at twice the
        distance."""
        if isinstance(self._motion, LinearMotion):
            far = self._motion.core.deflection
            if far > self._next_check:
                rate = self._motion.growth_rate
                if rate * self.time > 1:  # deviations have had the time to grow
                    observed = f"an end effector is {far / self.mechanism.radius:.2g} radii from its pose in the model"
                    text = self._motion.instability(observed, rate)
                    raise ConvergenceError(f"at t = {self.time:g} s {text}", time=self.time)
                self._next_check = 2 * far
            return
        if not isinstance(self.model, BlendedModel):
            return
        turned = 2 * len(self.model.end_effectors) ** 0.5  # the largest part of `reach` by rotations
        if not self._motion.core.reach < RUNAWAY * self.mechanism.radius + turned:
            raise ConvergenceError(
                f"at t = {self.time:g} s the end effectors of '{self.mechanism.name}' are more than {RUNAWAY:g} radii "
                "from the model's poses: the blended motion has diverged. Use a smaller dt, models made at the same "
                "set-points, or supple.Simulation",
                time=self.time,
            )

    def grow(self, fade: float = 0.2) -> ReducedModel:
        """Adds a linear model at the present pose to the blended model, and returns it.

        The engine finds the equilibrium under the wrenches that hold the end effectors here according to the present
        model, with the present set-points. The weight of the new model rises over `fade` seconds, without a jump. A
        simulation of a linear model becomes one of a blended model.
        """
        assert isinstance(self.model, ReducedModel | BlendedModel)
        many = self.model if isinstance(self.model, BlendedModel) else blend([self.model])
        tips, twists = self._motion.tips
        held = many.at(tips).wrenches.reshape(-1, 2, 3)
        world = (tips[:, None, :3, :3] @ held[..., None]).reshape(-1, 6)
        wrenches = dict(zip(self.model.end_effectors, world, strict=True))
        found = equilibrium(self.mechanism, wrenches, targets=self._targets)
        new = reduce(self.mechanism, self.model.end_effectors, at=found, mass=many.models[0].mass_kind)
        many.add(new, fade)
        vars(self).pop("_targets_at_start", None)  # it depends on the models
        if many is not self.model:
            motion = BlendedMotion(many, self.dt, self._options[-1], fade)
            self._origin = replace(self._origin, state=motion.state, frame="")
            motion.place(tips, twists, self.time)
            self.model, self._motion, self.reconstruction = many, motion, "twist"
            self._restore_loads(self.save())
        return new

    @property
    def participant(self) -> Any:
        """The core object that a `World` steps."""
        return self._motion.core.participant

    # results

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return float(self._motion.core.time)

    @property
    def displacement(self) -> Array:
        """(n,) displacement of the model: twists (6e,) of the end effectors from the linearised state, then modes."""
        return self._motion.displacement

    @property
    def poses(self) -> Poses:
        """World poses (4, 4) of every body. Each access computes all of them. The amplitudes of flexible bodies are
        those of `coordinates`."""
        motion, mech = self._motion, self.mechanism
        far = motion.core.update()
        amplitudes = amplitudes_in(mech, motion.coordinates) if mech.flexible else None
        poses = Poses(mech, self._finite(motion.link_poses.copy()), amplitudes, False)
        if far > 1.1 * self._watched and not self._warned and self.reconstruction == "twist":
            self._watched = far  # next check when it has moved a tenth further
            self._warn_out_of_range(poses)
        return poses

    @property
    def momentum(self) -> Array:
        """(6,) of a mechanism with a free base: linear (kg m/s), then angular about the world's origin (kg m^2/s)."""
        return self._floating.momentum

    def end_effector_pose(self, name: str) -> Array:
        """(4, 4) world pose of an end effector, from the model's state (not from the reconstructed links)."""
        return self._motion.tip_pose(self.model.index(name))

    @property
    def velocities(self) -> Twists:
        """(bodies, 6) twists, linear (m/s) then angular (rad/s), each in its body's own frame, also by name; always
        from the links' linear maps, also with `reconstruction="joints"`."""
        velocities: Twists = Twists(self.mechanism, self._motion.velocities)
        return velocities

    @property
    def q(self) -> Coordinates:
        """(dof,) coordinates of the spanning tree, rad and m, also by name; those of `coordinates`."""
        q: Coordinates = Coordinates(self.mechanism, of_tree(self.mechanism, self._motion.coordinates))
        return q

    @property
    def qd(self) -> Coordinates:
        """(dof,) time derivative of `q`, rad/s and m/s, also by name; from the twists of the links."""
        mech, q, twists = self.mechanism, np.asarray(self.q), np.asarray(self._motion.velocities)
        refuse_flexible(mech.flexible, "qd of a reduced simulation", "use supple.Simulation")
        self._motion.core.update()
        found: Coordinates = Coordinates(mech, self._joint_rates(q, self._motion.link_poses, twists))
        return found

    @property
    def coordinates(self) -> dict[str, Array]:
        """Coordinates (k,) of every joint by name, rad and m: from the linear map, or, with
        `reconstruction="joints"`, those of the reconstructed links."""
        return by_joint(self.mechanism, self._motion.coordinates)

    @property
    def separation(self) -> Separation:
        """Distances (m) by which the two bodies of each joint are separated in the reconstructed poses, and their sum
        over the radius. Each access computes them, which takes much longer than a time step."""
        self._motion.core.update()
        return separation(self.mechanism, np.array(self._motion.link_poses), self._motion.coordinates)

    @property
    def gaps(self) -> Array:
        """(e + loops, 6), with `reconstruction="joints"`: twists from the reconstructed end effectors to the
        model's, then the gaps of the loops; m and rad, in the frames of the end effectors and of the loops' joints.
        (0, 6) for links by twists."""
        return self._finite(self._motion.gaps)

    def _finite(self, links: Array) -> Array:
        """Raises `ConvergenceError` unless what was computed of the links is finite."""
        if np.isfinite(links).all():
            return links
        raise ConvergenceError(
            f"at t = {self.time:g} s the links of '{self.mechanism.name}' cannot be shown: its end effectors are too "
            "far from the pose of the model; use smaller loads or supple.Simulation",
            time=self.time,
        )

    def _warn_out_of_range(self, poses: Poses) -> None:
        apart = separation(self.mechanism, poses.array, self._motion.coordinates).total
        if apart > RANGE:
            self._warned = True
            warnings.warn(
                f"'{self.mechanism.name}' is pulled beyond the range of its model: its joints are separated "
                f"by {apart:.2f} of its radius in total; reduce it at an equilibrium nearby, or use the engine",
                RangeWarning,
                stacklevel=3,
            )

    @property
    def energy(self) -> Energy:
        """Energy of the full mechanism at the joint coordinates and the velocities of the links, J. With flexible
        bodies the kinetic energy is the model's own. Each access computes it, which takes longer than a time step."""
        eqs, v = self._equations, np.asarray(self._motion.velocities)
        state = (np.ascontiguousarray(self._motion.coordinates), *eqs.zero_state()[1:])
        strain, weight = eqs.evaluated(eqs.acting(), state).energies
        strain += self._drives.strain_change(state[0])
        kinetic = 0.5 * np.einsum("bi,bij,bj->", v, inertias(self.mechanism), v)
        if self.mechanism.flexible and isinstance(self.model, ReducedModel):
            rates = self.model.basis @ self._motion.state[1]
            kinetic = 0.5 * rates @ self.model.mass @ rates
        return Energy(float(kinetic), strain, weight)

    @property
    def ellipsoids(self) -> dict[str, Ellipsoid]:
        """Compliance ellipsoid of each end effector at its present pose, by name: its displacements under additional
        forces of 1 N in all directions, m/N, in world axes. A linear model's compliance turns with the end effector; a
        blended one is evaluated at the present pose. A free base counts as held."""
        if isinstance(self._motion, BlendedMotion):
            whole = self._motion.evaluate().compliance
            own = {name: whole[6 * i : 6 * i + 6, 6 * i : 6 * i + 6] for i, name in enumerate(self.end_effectors)}
        else:
            own = self._linear_compliances
        found = {}
        for name, compliance in own.items():
            pose = self.end_effector_pose(name)
            turn = np.kron(np.eye(2), pose[:3, :3])
            found[name] = ellipsoid(turn @ compliance @ turn.T, pose[:3, 3], name)
        return found

    @cached_property
    def _linear_compliances(self) -> dict[str, Array]:
        """Of a linear model, which does not change."""
        assert isinstance(self.model, ReducedModel)
        return _compliances(self.model)

    @cached_property
    def _joint_rates(self) -> JointRates:
        return JointRates(self.mechanism)

    @cached_property
    def _equations(self) -> Equations:
        return equations(self.mechanism)

    # what `supple.mechanism.moving.Moving` asks for

    contacts: tuple[Contact, ...] = ()
    """None: only a `World` has contact."""
    touches: Mapping[str, Any] = MappingProxyType({})
    """None: only a `World` has pads."""
    moving_joints: None = None
    """All joints move."""
    can_set_torque = has_velocities = True
    has_contacts = False
    placeable: tuple[str, ...] = ()
    """None: the coordinates of a reduced model follow from its end effectors."""

    @property
    def kind(self) -> str:
        """ "linear" or "blended"."""
        return "linear" if isinstance(self.model, ReducedModel) else "blended"

    @property
    def joints_separate(self) -> bool:
        """Whether the poses of the links separate joints: with `reconstruction="twist"`."""
        return self.reconstruction == "twist"

    @property
    def end_effectors(self) -> tuple[str, ...]:
        """Bodies and sites that `apply` and `pull` act on."""
        return self.model.end_effectors

    def handle_stiffness(self, name: str) -> float:
        """N/m of a handle where `pull` names none."""
        return handle_spring(self.mechanism, None, None)[0]

    @property
    def targets(self) -> dict[str, float]:
        """Set-points of springs of joints, of couplings and of motors by name, rad or m."""
        mech = self.mechanism
        names = [*sprung_axes(mech), *(c.name for c in mech.couplings), *(m.name for m in mech.motors)]
        return {name: self._targets[name] if name in self._targets else self._rest_target(name) for name in names}

    def set_q(self, q: ArrayLike | Mapping[str, float]) -> None:
        """Raises: the coordinates of a reduced model follow from its end effectors."""
        raise MechanismError("a reduced model cannot be placed at joint coordinates; use supple.Simulation")

    def contact_frames(self) -> list[tuple[int, int, Array]]:
        """Frames that a `World` fixes shapes to: index of the participant's frame, index of its body, pose (4, 4) of
        the body in the frame. The first end effector of each body is one."""
        frames: dict[int, tuple[int, int, Array]] = {}
        for i, name in enumerate(self.model.end_effectors):
            body, pose_body_frame = self.mechanism.frame(name)
            frames.setdefault(body, (i, body, spatial.inverse(pose_body_frame)))
        return list(frames.values())

    def plan(self, n: int) -> None:
        """Does nothing: a reduced model has no motors that follow functions of time."""

    def reached(self, plan: None, done: int) -> None:
        """Raises `ConvergenceError` if a blended model has diverged."""
        self._check_runaway()

    # saving

    def save(self) -> ReducedState:
        """Returns the present state. After `restore` the simulation repeats to the last bit."""
        kept = dict(self._wrenches), dict(self._handles), dict(self._targets)
        of = Identity(self.mechanism), self.model.end_effectors, self._state_frame
        return ReducedState(*of, self._motion.state, self.time, *kept, self._mount, self._drives.copy())

    @property
    def _state_frame(self) -> str:
        model = self.model
        return digest(model.basis, model.end_effector_poses) if isinstance(model, ReducedModel) else ""

    def restore(self, saved: ReducedState) -> None:
        """Returns to a saved state, with its loads, handles and set-points. The state may be that of another simulation
        with the same kind of model, mechanism and end effectors; that of a linear model must be equal."""
        self.check_saved(saved)
        self._motion.set_state(saved.state, saved.time)
        self._next_check = FAR_OUT * self.mechanism.radius
        self._restore_loads(saved)
        if isinstance(self._motion, BlendedMotion):  # other set-points begin another energy budget
            self._motion.set_state(saved.state, saved.time)

    def check_saved(self, saved: object) -> None:
        """Raises unless `saved` is a state of the same kind of model, with an equal mechanism and the same end
        effectors."""
        if (
            not isinstance(saved, ReducedState)
            or saved.end_effectors != self.model.end_effectors
            or saved.frame != self._state_frame
            or not saved.of.is_of(self.mechanism)
            or len(saved.state) != len(self._motion.state)
        ):
            raise MechanismError("this state was saved by a simulation of another model")

    def _restore_loads(self, saved: ReducedState) -> None:
        """Sets the loads, handles and targets of a saved state."""
        for name in self._wrenches.keys() - saved.wrenches.keys():
            self._set_wrench(name, np.zeros(6), True)
        for name, (wrench, world) in saved.wrenches.items():
            self._set_wrench(name, wrench, world)
        for name in self._handles.keys() - saved.handles.keys():
            self.pull(name, None)
        for name, (at, point, k, d) in saved.handles.items():
            self.pull(name, point, k, d, at)
        self._wrenches = dict(saved.wrenches)
        self._targets = dict(saved.targets)
        self._drives = Drives(self.mechanism, self.dt) if saved.drives is None else saved.drives.copy()
        if not self._set_named(self._targets):  # as it was set, for the same last bits
            self._send_targets(self._targets, self._drives)
        if isinstance(self._motion, FloatingMotion):
            self._mount = saved.mount
            self._motion.set_mount(self._mount)

    def reset(self) -> None:
        """Returns to the initial state."""
        self.restore(self._origin)

    def __reduce__(self) -> Any:
        """For pickle and copy: the model, the options, the present and the initial state."""
        _, _, corrections, threads = self._options
        options = {"reconstruction": self.reconstruction, "corrections": corrections, "threads": threads}
        fade = self._motion.fade if isinstance(self._motion, BlendedMotion) else 0.0
        return _restored, (self.model, self.dt, options | {"base": self._base}, fade, self.save(), self._origin)

    def __repr__(self) -> str:
        tips = ", ".join(self.model.end_effectors)
        return f"ReducedSimulation('{self.mechanism.name}': {tips}; t = {self.time:g} s, dt = {self.dt:g} s)"

    def _repr_html_(self) -> str:
        return html_table(f"ReducedSimulation of {self.mechanism.name}", {
            "model": self.model, "end effectors": ", ".join(self.model.end_effectors), "time": f"{self.time:g} s",
            "time step": f"{self.dt:g} s", "reconstruction": self.reconstruction,
        })  # fmt: skip


def _compliances(model: ReducedModel) -> dict[str, Array]:
    """(6, 6) of each end effector but a free base, by name, in its own axes."""
    names = [name for name in model.end_effectors if name != model.free_base]
    return {name: compliance_at(model, name, "body", None) for name in names}


def _restored(
    model: Model, dt: float, options: dict[str, Any], fade: float, present: ReducedState, origin: ReducedState
) -> ReducedSimulation:
    """A simulation in a saved state. The last of blended models fades in over `fade` seconds."""
    sim = ReducedSimulation(model, dt, **options)
    if fade and isinstance(model, BlendedModel):
        sim._motion = BlendedMotion(model, dt, options["threads"], fade)
    sim.restore(present)
    sim._origin = origin
    return sim
