"""Mechanisms, rigid objects and fixed geometry, stepped together with contact."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple.contact.colliders import CONTACT, Collider, Records, collider
from supple.contact.pads import Pad, Touch
from supple.engine.assembly import one_or_more_targets
from supple.engine.dynamics import STEPS_AT_ONCE, check_count, positive_seconds
from supple.errors import ConvergenceError, MechanismError, RangeWarning, StartWarning, listed, user_level
from supple.mechanism import WORLD, Body, Mechanism, Mesh, Poses, Shape
from supple.mechanism.mechanism import STANDARD_GRAVITY
from supple.mechanism.moving import Energy, Participant, can_join_world
from supple.mechanism.named import Coordinates, Twists
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array, checked_name
from supple.mechanism.shapes import HeightField
from supple.mechanism.topology import welded_groups
from supple.recording import Log, Recorder
from supple.recording.log import start_log
from supple.recording.observing import Observer, advance_observed
from supple.world.contacts import Contacts
from supple.world.parts import Parts

if TYPE_CHECKING:
    from supple._core import WorldCore

OVERLAP = 1e-3
"""m: largest overlap of shapes that are added to a world, but for floors."""
FLOORS = ("plane", "height_field")
"""Kinds of colliders that others may begin below: it is clear to which side they are pushed out."""
DEFAULT_DT = 1e-3
NO_SOLUTION, NOT_FINITE = 1, 2
"""Outcomes of a step of the core."""
HALVINGS = 5
"""How often a time step that has no solution is divided into halves."""
PLANNED_STEPS = 65_536
"""Time steps for which the positions of motors are computed in advance."""

NOT_COPIED = ("_core_world", "_objects", "_mechanisms", "_whole", "_resolved", "_stepped", "observers")
"""Attributes of a `World` that a copy makes anew."""


@dataclass(frozen=True)
class WorldState:
    """The complete state of a world: after `World.restore` the simulation repeats to the last bit."""

    time: float
    """s."""
    contacts: Records
    """(n,) contacts of the last step; the solver starts from their impulses."""
    limit_impulses: Array
    """(4 n,) impulses of joint limits in the last step, from which the solver starts, too: index of the participant,
    row of the limit, sign of the allowed direction, impulse."""
    objects: dict[str, Array]
    """(18,) state of each object: position, rotation, linear and angular momentum."""
    mechanisms: dict[str, Any]
    """What each mechanism's `save` returned."""
    pads: dict[str, Array]
    """State (10 n,) of the n points of each pad."""


class World:
    """Simulates mechanisms, free rigid objects and fixed geometry together, with contact and friction.

    Args:
        dt: time step, s; by default that of the first mechanism, if it is added before the first step, recording,
            log or `restore`, else 1 ms.
        gravity: (3,) m/s^2, world axes. It acts on the objects; each mechanism has its own gravity.
        compliance: of every contact along its normal, m/N.
        correction: largest speed, m/s, at which overlapping shapes are pushed apart.
        bounce_speed: shapes that approach each other more slowly, m/s, do not bounce, whatever their restitution.
    """

    def __init__(
        self,
        dt: float | None = None,
        gravity: ArrayLike = STANDARD_GRAVITY,
        compliance: float = 0.0,
        correction: float = 0.1,
        bounce_speed: float = 0.05,
    ) -> None:
        self._dt = None if dt is None else positive_seconds(dt)
        self.gravity = array(gravity, (3,), "gravity")
        self.compliance = float(array(compliance, (), "compliance"))
        self.correction = float(array(correction, (), "correction"))
        self.bounce_speed = float(array(bounce_speed, (), "bounce_speed"))
        if self.compliance < 0 or self.correction <= 0 or self.bounce_speed < 0:
            raise MechanismError("compliance and bounce_speed must not be negative, correction must be positive")
        self._core_world: WorldCore | None = None
        self._colliders: list[Collider] = []
        self._owners: list[str] = []
        """Name that contacts report for each collider: an object, "mechanism:body" or a ground shape."""
        self._collider_participants: list[str] = []
        """Object or mechanism that each collider belongs to; "" for the ground."""
        self._placements: list[tuple[int, int, bool]] = []
        """Participant and frame that each collider is fixed to (-1 for the ground), and whether it is welded to the
        world."""
        self._excluded: list[tuple[str, str]] = []
        """Pairs of names between which there is no contact."""
        self._self_contacts: list[int] = []
        """Participants whose bodies touch each other."""
        self._never: list[tuple[int, int]] = []
        """Pairs of colliders of one mechanism that never touch."""
        self._objects: dict[str, Any] = {}
        self._object_loads: dict[tuple[str, str], tuple[Any, ...]] = {}
        """Arguments of the last "set_wrench" and "set_handle" of each object."""
        self.bodies: dict[str, Body] = {}
        """The rigid objects as they were added, by name."""
        self.meshes: dict[str, Mesh] = {}
        """Meshes that shapes of objects and of the ground refer to, by name."""
        self.still: list[Shape | HeightField] = []
        """The ground shapes."""
        self._mechanisms: dict[str, Participant] = {}
        self._participants: list[str] = []
        self._pads: dict[str, tuple[int, Pad]] = {}
        """Index of the collider and the pad, by the body it covers."""
        self.observers: list[Observer] = []
        """Recordings and logs of this world."""
        self._checked_colliders = 0
        """The first so many colliders do not overlap at the start."""
        self._warned_of_residual = False
        self._shapes_of: dict[str, tuple[int, Any]] = {}
        """By a name that `force_on` takes: number of colliders, and (colliders,) whether they belong to it."""
        self._resolved: dict[str, tuple[Participant, str]] = {}
        """Mechanism and name in it by "mechanism:name", as far as they were asked for."""
        self._stepped: list[Any] = []
        """What the core steps of each mechanism."""
        self._initial_state: WorldState | None = None
        self._whole: tuple[Mechanism, Participant | None] | None = None
        """The mechanism made of all that is in the world, and the simulation that is alone in it, if one is."""

    @property
    def dt(self) -> float:
        """Time step, s."""
        return DEFAULT_DT if self._dt is None else self._dt

    @property
    def _core(self) -> WorldCore:
        if self._core_world is None:
            self._core_world = _core.WorldCore(self.dt, self.compliance, self.correction, self.bounce_speed)
        return self._core_world

    # contents

    def add(
        self,
        thing: Participant | Body,
        name: str | None = None,
        *,
        velocity: ArrayLike = (0.0,) * 6,
        meshes: Sequence[Mesh] = (),
        self_contact: bool = False,
    ) -> str:
        """Adds a simulated mechanism, or a rigid object (a `Body` with shapes), to the world; returns its name.

        A full `Simulation` has contact at the shapes of all its bodies, a `ReducedSimulation` at those of its end
        effectors. The mechanism's own ground is added, too. Bodies welded to the world do not touch the ground. Shapes
        of one mechanism touch each other only with `self_contact=True`: not those of bodies that a joint connects, that
        `mech.contact_excludes` names, or that overlap at the start.
        `velocity` (6,) is an object's initial twist, m/s and rad/s in its own frame; `meshes` are those that its shapes
        refer to. After this call use the world's `step`, not the mechanism's.
        """
        if not isinstance(thing, Body) and can_join_world(thing):
            return self._add_mechanism(thing, name, self_contact)
        if self_contact:
            raise MechanismError("self_contact is for mechanisms; an object is one rigid body")
        if not isinstance(thing, Body):
            raise MechanismError(
                f"a world takes a Simulation, a ReducedSimulation or a Body, got {type(thing).__name__}; "
                "make one of the first two from a Mechanism; shapes go to world.ground(...)"
            )
        return self._add_object(thing, name, array(velocity, (6,), "velocity"), {m.name: m for m in meshes})

    def _add_mechanism(self, sim: Participant, name: str | None, self_contact: bool) -> str:
        mech = sim.mechanism
        if self._dt is not None and sim.dt != self._dt:
            raise MechanismError(
                f"'{mech.name}' steps by {sim.dt:g} s and the world by {self._dt:g} s; use the same dt, "
                "for instance World(dt=...)"
            )
        if any(sim is other for other in self._mechanisms.values()):
            raise MechanismError(f"this simulation of '{mech.name}' is in the world already; make another one")
        if sim.in_world is not None:
            raise MechanismError(f"this simulation of '{mech.name}' is in another world, as '{sim.in_world}'; copy it")
        name = self._name(mech.name if name is None else name)
        meshes = {mesh.name: mesh for mesh in mech.meshes}
        frames = sim.contact_frames()
        colliders = [
            [collider(shape, meshes, frame) for shape in mech.bodies[body].shapes if shape.touches]
            for _, body, frame in frames
        ]
        self._fix_dt(sim.dt)
        self.ground(*(shape for shape in mech.shapes if shape.touches), meshes=mech.meshes)
        self.ground(*(field for field in mech.height_fields if field.touches))
        index = self._core.add_participant(sim.participant)
        self._participants.append(name)
        self._whole = None
        self._mechanisms[name] = sim
        self._resolved = {}
        sim.in_world = name
        groups, bodies, first = welded_groups(mech.bodies, mech.joints), [], len(self._colliders)
        for (frame, body, _), fixed in zip(frames, colliders, strict=True):
            for each in fixed:
                self._add_collider(each, f"{name}:{mech.bodies[body].name}", index, frame, groups[body] < 0)
                bodies.append(body)
        if self_contact:
            self._self_contacts.append(index)
            self._core.allow_self_contact(index)
            never = _pairs_that_never_touch(mech, groups)
            for i, a in enumerate(bodies):
                for j, b in enumerate(bodies[:i]):
                    if (min(a, b), max(a, b)) in never:
                        self._exclude(first + i, first + j)
        return name

    def _fix_dt(self, dt: float) -> None:
        """Fixes the time step. The core has it in each object, so what was added before is added to the core again."""
        if self._dt is not None:
            return
        before, self._dt = self.dt, dt
        if self._core_world is None or dt == before:
            return
        states = {name: old.state for name, old in self._objects.items()}
        self._fill_core()
        for name, state in states.items():
            self._objects[name].state = state

    def _fill_core(self) -> None:
        """Adds everything to a new core, objects in their first states."""
        self._core_world, self._stepped = None, []
        for name in self._participants:
            if name in self._mechanisms:
                self._core.add_participant(self._mechanisms[name].participant)
            else:
                self._objects[name] = self._free_body(self.bodies[name])
                self._core.add_participant(self._objects[name])
        for (name, setter), arguments in self._object_loads.items():
            getattr(self._objects[name], setter)(*arguments)
        for index in self._self_contacts:
            self._core.allow_self_contact(index)
        for index in range(len(self._colliders)):
            self._send_collider(index)
        for first, second in self._never:
            self._core.exclude(first, second)

    def _exclude(self, first: int, second: int) -> None:
        """Switches off contact between two colliders of one mechanism."""
        self._never.append((first, second))
        self._core.exclude(first, second)

    def exclude(self, first: str, second: str) -> None:
        """Switches off contact between two things: names of objects, mechanisms, "mechanism:body" or ground shapes.

        It holds for shapes that are added later, too.
        """
        for name in (first, second):
            if not any(self._is_part(i, name) for i in range(len(self._owners))):
                mechanisms = [m for m in self._mechanisms if m != name]
                known = list(dict.fromkeys([*self._owners, *mechanisms]))
                if name not in self._mechanisms:  # a mechanism may have no shapes yet
                    find(known, name, "object, mechanism, mechanism:body or ground shape in this world")
        self._excluded.append((first, second))
        for i in range(len(self._owners)):
            self._apply_excludes(i, [(first, second)])

    def _is_part(self, collider: int, name: str) -> bool:
        return name in (self._owners[collider], self._collider_participants[collider])

    def _apply_excludes(self, collider: int, pairs: Sequence[tuple[str, str]]) -> None:
        """Excludes contact of a collider with those before it."""
        for a, b in pairs:
            for one, two in ((a, b), (b, a)):
                if self._is_part(collider, one):
                    for other in range(collider):
                        if self._is_part(other, two):
                            self._core.exclude(collider, other)

    def _add_object(self, body: Body, name: str | None, velocity: Array, meshes: dict[str, Mesh]) -> str:
        name = self._name(body.name if name is None else name)
        if body.mass == 0 or np.linalg.eigvalsh(body.inertia)[0] <= 0:
            raise MechanismError(
                f"object '{name}' needs a mass and an inertia to move freely; fixed shapes go to ground()"
            )
        colliders = [collider(shape, meshes, np.eye(4)) for shape in body.shapes if shape.touches]
        free = self._free_body(body)
        free.set_velocity(velocity)
        index = self._core.add_participant(free)
        self._participants.append(name)
        self._whole = None
        self._objects[name] = free
        self.bodies[name] = body
        self.meshes |= meshes
        for each in colliders:
            self._add_collider(each, name, index, 0)
        return name

    def _free_body(self, body: Body) -> Any:
        free = _core.FreeBody(body.mass, body.centre, np.ascontiguousarray(body.inertia), body.pose, self.dt)
        free.set_gravity(self.gravity)
        return free

    def ground(self, *shapes: Shape | HeightField, meshes: Sequence[Mesh] = ()) -> None:
        """Adds geometry fixed to the world: floors, walls, uneven ground. `meshes` are those that shapes refer to."""
        for shape in shapes:
            if not isinstance(shape, Shape | HeightField):
                raise MechanismError(f"ground is made of Shape and HeightField, got {type(shape).__name__}")
        named = {mesh.name: mesh for mesh in meshes}
        self.meshes |= named
        for each, shape in [(collider(shape, named, np.eye(4)), shape) for shape in shapes]:
            self._add_collider(each, shape.name or f"ground_{len(self._colliders)}", -1, -1)
            self.still.append(shape)
            self._whole = None

    def cover(self, name: str, pad: Pad) -> None:
        """Covers a body with a soft pad, fixed to it: "mechanism:body", or the name of an object.

        The pad touches other objects, mechanisms and the ground. A `ReducedSimulation` takes pads on the bodies of its
        end effectors. The body's own rigid shapes stay; where they lie inside the pad, they limit how far it can be
        pressed. `World.touch` returns its forces and displacements.
        """
        if not isinstance(pad, Pad):
            raise MechanismError(f"cover takes a Pad, got {type(pad).__name__}; skin.pad(...) makes one of a skin")
        if name in self._pads:
            raise MechanismError(f"'{name}' is covered by a pad already")
        participant, frame, pose = self._frame_of(name)
        others = [other for other, (_, own) in self._pads.items() if not len(pad.triangles) and not len(own.triangles)]
        if others:
            warnings.warn(
                f"the pads of '{name}' and '{others[0]}' do not touch each other, because neither has `triangles`",
                RangeWarning,
                stacklevel=2,
            )
        self._pads[name] = len(self._colliders), pad
        self._add_collider(pad.collider(pose), name, participant, frame)

    def _frame_of(self, name: str) -> tuple[int, int, Array]:
        """Participant, frame, and pose (4, 4) of the body in the frame."""
        if name in self._objects:
            return self._participants.index(name), 0, np.eye(4)
        mechanism, _, body = name.rpartition(":")
        if mechanism not in self._mechanisms:
            bodies = [f"{m}:{b.name}" for m, sim in self._mechanisms.items() for b in sim.mechanism.bodies]
            find([*self._objects, *bodies], name, "object or mechanism:body in this world")
        sim = self._mechanisms[mechanism]
        names = [b.name for b in sim.mechanism.bodies]
        find(names, body, f"body of '{mechanism}'")
        for frame, index, pose in sim.contact_frames():
            if names[index] == body:
                return self._participants.index(mechanism), frame, np.ascontiguousarray(pose)
        raise MechanismError(
            f"'{body}' is not the body of an end effector of the reduced model of '{mechanism}', so it cannot be "
            "covered; name it as an end effector, or use the full Simulation"
        )

    def touch(self, name: str) -> Touch:
        """Forces on the pad that covers a body, and displacements of its points, at the end of the last step."""
        if name not in self._pads:
            find(list(self._pads), name, "covered body in this world")
        index, pad = self._pads[name]
        state = self._core.pad_state(list(self._pads).index(name))
        n = len(pad.points)
        displacements, forces, normals = state[: 9 * n].reshape(3, n, 3)
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        normals = normals / np.where(lengths > 0, lengths, 1.0)
        return Touch(pad, self._core.collider_pose(index), forces, displacements, normals, state[9 * n :])

    def _add_collider(self, each: Collider, owner: str, participant: int, frame: int, still: bool = False) -> None:
        """Fixes a collider to a frame of a participant; both are -1 for the ground. `still`: the body is welded to the
        world."""
        self._colliders.append(each)
        self._owners.append(owner)
        self._collider_participants.append(self._participants[participant] if participant >= 0 else "")
        self._placements.append((participant, frame, still))
        self._send_collider(len(self._colliders) - 1)

    def _send_collider(self, index: int) -> None:
        """Adds a collider to the core, as a pad if it is one."""
        each, (participant, frame, still) = self._colliders[index], self._placements[index]
        if each.kind == "pad":
            pad = self._pads[self._owners[index]][1]
            self._core.add_pad(pad.core(each.pose), participant, frame, pad.compliance, pad.relaxation)
        else:
            self._core.add_collider(each.core, participant, frame, each.contact_type, each.contact_affinity, still)
        self._apply_excludes(index, self._excluded)

    def _name(self, name: str) -> str:
        checked_name(name, "an object or mechanism of a world")
        if name in self._participants:
            raise MechanismError(f"there is something named '{name}' in the world already; choose another name")
        if name == WORLD:
            raise MechanismError(f"'{WORLD}' is the fixed frame; choose another name")
        return name

    # loads and steps

    def apply(self, name: str, wrench: ArrayLike, frame: str = "world") -> None:
        """Applies a wrench (6,), force (N) then torque (N m), to an object at its origin, or to "mechanism:body" at the
        origin of a body, site or end effector, until changed."""
        if (found := self._parts.find(name)) is not None:
            found[0].apply(found[1], wrench, frame)
            return
        if frame not in ("world", "body"):
            raise MechanismError(f"frame must be 'world' or 'body', got {frame!r}")
        self._load(name, "set_wrench", array(wrench, (6,), f"wrench on '{name}'"), frame == "world")

    def pull(
        self,
        name: str,
        point: ArrayLike | None,
        stiffness: float | None = None,
        damping: float | None = None,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """Pulls an object, or a "mechanism:body", by a spring and damper (N/m, N s/m) from its point `at` (3,), in its
        frame, to a `point` (3,) of the world, m; `point=None` removes the spring. By default the spring gives the mass
        of the object, or of the mechanism, a frequency of 2 Hz with critical damping."""
        if (found := self._parts.find(name)) is not None:
            found[0].pull(found[1], point, stiffness, damping, at)
            return
        self._object(name)  # checks
        if point is None:
            self._load(name, "set_handle", False, np.zeros(3), np.zeros(3), 0.0, 0.0)
            return
        k = self.handle_stiffness(name) if stiffness is None else float(array(stiffness, (), "the handle's stiffness"))
        critical = 2 * np.sqrt(max(k, 0.0) * self.bodies[name].mass)
        d = critical if damping is None else float(array(damping, (), "the handle's damping"))
        if k < 0 or d < 0:
            raise MechanismError(f"stiffness and damping of a handle must not be negative, got {k} and {d}")
        ends = array(at, (3,), "the handle's point"), array(point, (3,), "the point to pull to")
        self._load(name, "set_handle", True, *ends, k, d)

    def _load(self, name: str, setter: str, *arguments: Any) -> None:
        """Sets the wrench or the handle of an object."""
        getattr(self._object(name), setter)(*arguments)
        self._object_loads[name, setter] = arguments

    def handle_stiffness(self, name: str) -> float:
        """N/m of a handle where `pull` names none."""
        if (found := self._parts.find(name)) is not None:
            return found[0].handle_stiffness(found[1])
        self._object(name)
        return float(self.bodies[name].mass * (4 * np.pi) ** 2)

    def set_target(self, name: str | Mapping[str, ArrayLike], value: ArrayLike | None = None) -> None:
        """Sets set-points of mechanisms, rad or m: `set_target("arm:elbow", 0.3)` or {"arm:elbow": 0.3}."""
        if value is not None and (found := self._parts.find(name)) is not None:
            found[0].set_targets({found[1]: value})
        else:
            self.set_targets(one_or_more_targets(name, value))

    def set_targets(self, targets: Any) -> None:
        """Sets set-points {"mechanism:name": position}, rad or m, of springs, couplings and motors."""
        for sim, own in self._parts.grouped(targets, "targets"):
            sim.set_targets(own)

    def set_torque(self, name: Any, torque: ArrayLike | None = None) -> None:
        """Sets torques of drives, N m or N: `set_torque("arm:elbow", 2.0)` or {"arm:elbow": 2.0}."""
        if torque is not None and (found := self._parts.find(name)) is not None:
            found[0].set_torque(found[1], torque)
            return
        for sim, own in self._parts.grouped(name if torque is None else {name: torque}, "torques"):
            sim.set_torque(own)

    def set_control(self, name: Any, control: float | None = None) -> None:
        """Sets controls of actuators, in the units of their file: `set_control("arm:grip", 255)` or
        {"arm:grip": 255}; None switches an actuator off."""
        if control is not None and (found := self._parts.find(name)) is not None:
            found[0].set_control(found[1], control)
            return
        given = {name: control} if isinstance(name, str) else name
        for sim, own in self._parts.grouped(given, "controls"):
            sim.set_control(own)

    def set_q(self, q: Any) -> None:
        """Places joints of full simulations at {"mechanism:coordinate": position}, rad or m, at rest."""
        for sim, own in self._parts.grouped(q, "coordinates"):
            sim.set_q(own)

    def step(self, n: int = 1) -> None:
        """Advances by n time steps. A step that has no solution is divided, unless there are reduced models. Raises
        `ConvergenceError` if that does not help; the world is then in the state before that step. Warns once, with
        `RangeWarning`, of contact velocities that are wrong by more than 1e-4 m/s."""
        check_count(n)
        observers = [*self.observers, *(each for sim in self._mechanisms.values() for each in sim.observers)]
        if observers:
            advance_observed(observers, self._advance, n)
        else:
            self._advance(n)

    def _advance(self, n: int) -> None:
        for first in range(0, n, PLANNED_STEPS):
            self._advance_planned(min(PLANNED_STEPS, n - first))

    def _advance_planned(self, n: int) -> None:
        self._fix_dt(self.dt)
        if self._checked_colliders != len(self._colliders) or self._initial_state is None:
            self._check_overlap()
        mechanisms = list(self._mechanisms.values())
        limiting = [sim for sim in mechanisms if sim.limits_forces]
        self._send_participants()
        plans = [sim.plan(n) for sim in mechanisms]
        done, outcome = 0, 0
        try:
            while done < n and not outcome:
                count, outcome = self._core.step(min(1 if limiting else STEPS_AT_ONCE, n - done))
                done += count
                self._warn_of_residual()
                if outcome in (NO_SOLUTION, NOT_FINITE) and self._advance_in_parts():
                    done, outcome = done + 1, 0
                for each in limiting:
                    each.limit_forces()
        finally:
            for sim, plan in zip(mechanisms, plans, strict=True):
                sim.reached(plan, done)
        if done < n:
            failed = self._core.failed_participant
            name = f"'{self._participants[failed]}' " if failed >= 0 else ""
            text = {
                NO_SOLUTION: f"{name}has no solution for it: the motion is too violent or shapes are wedged; use a "
                "smaller dt, smaller forces or World(compliance=1e-7)",
                NOT_FINITE: "the contact impulses are not finite: an object is too light or thrown too hard",
                3: "more than 1,000 points touch at once; use simpler or fewer shapes",
            }[outcome]
            raise ConvergenceError(f"the step from t = {self.time:.6g} s failed: {text}", time=self.time)

    def _send_participants(self) -> None:
        """Hands to the core what it steps, if it changed: `grow` of a linear model replaces it."""
        stepped = [sim.participant for sim in self._mechanisms.values()]
        if len(stepped) == len(self._stepped) and all(map(is_, stepped, self._stepped)):
            return
        for name, own in zip(self._mechanisms, stepped, strict=True):
            self._core.set_participant(self._participants.index(name), own)
        self._stepped = stepped

    def _advance_in_parts(self) -> bool:
        """Makes a time step that has no solution in parts, all things of the world and their contacts together. If
        that fails, or if a linear model has this time step only, returns False; the state is then that before."""
        if not self._core.has_any_step:
            return False
        before = self.save()
        try:
            done = self._advance_by_halves(1)
        finally:
            self._core.set_step(self.dt)
            self._core.checks_motion = True
        if done:
            self._core.time = before.time + self.dt
        else:
            self._set_state(before)
        return done

    def _advance_by_halves(self, depth: int) -> bool:
        """Makes two steps of dt / 2**depth; each is divided further if necessary. The shortest ones are taken whatever
        velocities points in contact have after them."""
        for _ in range(2):
            self._core.set_step(self.dt / 2**depth)
            self._core.checks_motion = depth < HALVINGS
            succeeded, _ = self._core.step(1)
            if not succeeded and (depth == HALVINGS or not self._advance_by_halves(depth + 1)):
                return False
        return True

    def _warn_of_residual(self) -> None:
        """Warns once of contact impulses that do not obey the contact law."""
        if self._warned_of_residual or not self._core.worst_speed:
            return
        speed, time, first, second = self._core.worst_residual
        self._warned_of_residual = True
        if first >= 0:
            where = f"between '{self._owners[first]}' and '{self._owners[second]}'"
        else:
            where = f"at a joint limit of '{self._participants[second]}'"
        text = (
            f"the contact solver reached its largest number of steps at t = {time:.6g} s: velocities {where} are "
            f"wrong by {speed:.2g} m/s; `world.residual` has the error of each step; a smaller dt makes it smaller"
        )
        warnings.warn(text, RangeWarning, stacklevel=user_level())

    def _check_overlap(self) -> None:
        """Raises `MechanismError` if a new collider overlaps another one by more than `OVERLAP`. Those that begin
        below a floor are named in a `StartWarning`."""
        if self._initial_state is None:
            self._initial_state = self.save()
        checked = self._checked_colliders
        previous = self._core.previous_contacts
        self._core.detect()
        contacts = self.contacts.records
        self._core.previous_contacts = previous
        soft = [index for index, _ in self._pads.values()]
        rigid = ~np.isin(contacts["first"], soft) & ~np.isin(contacts["second"], soft)
        new = (np.maximum(contacts["first"], contacts["second"]) >= checked) & rigid
        within: set[tuple[str, str]] = set()
        below: dict[tuple[str, str], float] = {}
        for contact in contacts[new & (contacts["gap"] < -OVERLAP)]:
            first, second = self._owners[contact["first"]], self._owners[contact["second"]]
            if self._collider_participants[contact["first"]] == self._collider_participants[contact["second"]]:
                self._exclude(int(contact["first"]), int(contact["second"]))
                within.add((first, second))
                continue
            if any(self._colliders[contact[side]].kind in FLOORS for side in ("first", "second")):
                below[first, second] = max(below.get((first, second), 0.0), -float(contact["gap"]))
                continue
            raise MechanismError(
                f"'{first}' and '{second}' overlap by {-contact['gap']:.3g} m at the start, near "
                f"{np.round(contact['position'], 4).tolist()}; move them apart (an overlap of a millimetre is allowed, "
                "any with a plane or height field)"
            )
        if below:
            deepest = sorted(below.items(), key=lambda item: -item[1])
            pairs = listed([f"{first} and {second} by {depth:.2g} m" for (first, second), depth in deepest])
            speed = f"{self.correction:g} m/s"
            text = f"shapes are below the floor at the start: {pairs}; contact pushes them out at {speed}"
            warnings.warn(text, StartWarning, stacklevel=user_level())
        if within:
            pairs = listed([f"{first} and {second}" for first, second in sorted(within)])
            text = f"shapes of one mechanism overlap at the start and do not touch each other in this world: {pairs}"
            warnings.warn(text, RangeWarning, stacklevel=user_level())
        self._checked_colliders = len(self._colliders)

    # state and results

    @property
    def time(self) -> float:
        """s."""
        return float(self._core.time)

    def __repr__(self) -> str:
        robots = ", ".join(self._mechanisms) or "none"
        return f"World(mechanisms: {robots}; {len(self._objects)} objects; t = {self.time:g} s)"

    @property
    def objects(self) -> tuple[str, ...]:
        """Names of the rigid objects."""
        return tuple(self._objects)

    @property
    def mechanisms(self) -> Mapping[str, Participant]:
        """The mechanisms by name."""
        return dict(self._mechanisms)

    def pose(self, name: str) -> Array:
        """(4, 4) world pose of an object, or of a body or site as "mechanism:body"."""
        if (found := self._parts.find(name)) is not None:
            return np.asarray(found[0].poses[found[1]])
        pose: Array = self._object(name).pose
        return pose

    def velocity(self, name: str) -> Array:
        """(6,) twist of an object, or of a body or site as "mechanism:body", m/s and rad/s in its own frame."""
        if (found := self._parts.find(name)) is not None:
            return np.asarray(found[0].velocities[found[1]])
        velocity: Array = self._object(name).velocity
        return velocity

    @property
    def contacts(self) -> Contacts:
        """The contacts of the last step, including shapes that were close to each other without a contact force: a
        sequence of `Contact`, and arrays of them all, such as `world.contacts.forces`."""
        return Contacts(self._core.contacts(), self._owners, self.dt)

    def force_on(self, name: str) -> Array:
        """(3,) sum of the contact forces on an object, on a mechanism, or on one "mechanism:body", N, world axes."""
        count, shapes = self._shapes_of.get(name, (0, None))
        if count != len(self._owners):
            if name not in self._owners and name not in self._participants:
                known = list(dict.fromkeys([*self._participants, *self._owners]))
                find(known, name, "object, mechanism or ground in this world")
            names = self._collider_participants if name in self._participants else self._owners
            shapes = np.array([own == name for own in names], dtype=np.uint8)
            self._shapes_of[name] = len(self._owners), shapes
        force = np.empty(3)
        self._core.read_contact_force(shapes, self.dt, force)
        return force

    @property
    def residual(self) -> float:
        """Residual of the contact law in the last step, m/s (relative to the largest speed if that exceeds 1 m/s): the
        largest |p - P(p - rho v)| / rho over all contacts and limits, where P projects onto the friction cone and rho
        is one over the largest diagonal entry of the contact's own block of W. The solver stops below 5e-10; where
        Newton's method does not converge it stops below 1e-6, or after a bounded number of steps with the best impulses
        found. `step` warns once of a residual above 1e-4 m/s."""
        return float(self._core.residual)

    @property
    def energy(self) -> Energy:
        """Kinetic energy, energy of springs and pads, and of gravity, J, without the springs of handles."""
        total = sum((sim.energy for sim in self._mechanisms.values()), Energy(0.0, 0.0, 0.0))
        for name, free in self._objects.items():
            body, twist = self.bodies[name], np.asarray(free.velocity)
            at_centre = twist[:3] + np.cross(twist[3:], body.centre)
            kinetic = 0.5 * (body.mass * at_centre @ at_centre + twist[3:] @ body.inertia @ twist[3:])
            height = free.pose[:3, :3] @ body.centre + free.pose[:3, 3]
            total += Energy(float(kinetic), 0.0, -body.mass * float(self.gravity @ height))
        for name in self._pads:
            touch = self.touch(name)
            total += Energy(0.0, 0.5 * float((touch.forces * touch.displacements).sum()), 0.0)
        return total

    def _object(self, name: str) -> Any:
        if name not in self._objects:
            if name in self._mechanisms:
                raise MechanismError(f"'{name}' is a mechanism; name one of its bodies, as in '{name}:body'")
            find(list(self._objects), name, "object in this world")
        return self._objects[name]

    # all parts as one: what `supple.mechanism.moving.Moving` asks for

    kind = "world"
    moving_joints: None = None
    """All joints move."""
    has_contacts = has_velocities = True

    @property
    def _parts(self) -> Parts:
        return Parts(self._mechanisms, self._resolved)

    @property
    def mechanism(self) -> Mechanism:
        """All mechanisms, objects (on free joints) and the ground as one mechanism, to draw and to record. Its parts
        are named "mechanism:body", "mechanism:joint" and so on; an object has its own name."""
        return self._contents[0]

    @property
    def _contents(self) -> tuple[Mechanism, Participant | None]:
        """`_whole`, made when it is needed. What is read of a simulation that is alone needs only other names."""
        if self._whole is None:
            alone = len(self._participants) == len(self._mechanisms) == 1
            whole = self._parts.joined(self.bodies, self.still, self.meshes)
            self._whole = whole, next(iter(self._mechanisms.values())) if alone else None
        return self._whole

    @property
    def poses(self) -> Poses:
        """World poses (4, 4) of the bodies of all mechanisms and of the objects, by the names of `mechanism`."""
        whole, alone = self._contents
        if alone is not None:
            return alone.poses.renamed(whole, next(iter(self._mechanisms)))
        return self._parts.poses(whole, [free.pose for free in self._objects.values()])

    @property
    def velocities(self) -> Twists:
        """(bodies, 6) twists of the bodies of all mechanisms and of the objects, linear (m/s) then angular (rad/s),
        each in its own frame, by the names of `mechanism`."""
        whole, alone = self._contents
        if alone is not None:
            velocities: Twists = alone.velocities.renamed(whole)
            return velocities
        return self._parts.velocities(whole, [free.velocity for free in self._objects.values()])

    @property
    def q(self) -> Coordinates:
        """(dof,) coordinates of all mechanisms; of an object its position, m, and the rotation vector, rad, from its
        first pose; by the names of `mechanism`."""
        whole, alone = self._contents
        if alone is not None:
            q: Coordinates = alone.q.renamed(whole)
            return q
        return self._parts.q(whole, self._objects)

    @property
    def qd(self) -> Coordinates:
        """(dof,) time derivative of `q`, rad/s and m/s."""
        whole, alone = self._contents
        if alone is not None:
            qd: Coordinates = alone.qd.renamed(whole)
            return qd
        return self._parts.qd(whole, self._objects)

    @property
    def coordinates(self) -> dict[str, Array]:
        """Coordinates (k,) of every joint of the mechanisms by "mechanism:joint", rad and m."""
        return self._parts.by_name("coordinates")

    @property
    def targets(self) -> dict[str, float]:
        """Set-points of all mechanisms by "mechanism:name", rad or m."""
        return self._parts.by_name("targets")

    @property
    def controls(self) -> dict[str, float | None]:
        """Controls of all actuators by "mechanism:name"; None if one is switched off."""
        return self._parts.by_name("controls")

    @property
    def motor_torques(self) -> dict[str, float]:
        """Torque or force of each motor by "mechanism:name", N m or N; for full simulations."""
        return self._parts.by_name("motor_torques")

    @property
    def actuator_forces(self) -> dict[str, float]:
        """Force of each actuator by "mechanism:name", before its gear, N m or N; for full simulations."""
        return self._parts.by_name("actuator_forces")

    @property
    def end_effectors(self) -> tuple[str, ...]:
        """What `apply` and `pull` act on: bodies, sites and end effectors as "mechanism:name", then the objects."""
        return (*(f"{m}:{name}" for m, sim in self._mechanisms.items() for name in sim.end_effectors), *self.objects)

    @property
    def touches(self) -> dict[str, Touch]:
        """What `touch` returns for every covered body, by its name."""
        return {name: self.touch(name) for name in self._pads}

    @property
    def ellipsoids(self) -> dict[str, Any]:
        """Compliance ellipsoids of the end effectors of reduced models at their present poses, by "mechanism:name"."""
        return self._parts.by_name("ellipsoids")

    @property
    def can_set_torque(self) -> bool:
        """Whether a mechanism takes torques."""
        return any(sim.can_set_torque for sim in self._mechanisms.values())

    @property
    def placeable(self) -> tuple[str, ...]:
        """Coordinates that `set_q` can place: those of full simulations, as "mechanism:coordinate"."""
        return tuple(f"{m}:{name}" for m, sim in self._mechanisms.items() for name in sim.placeable)

    @property
    def joints_separate(self) -> bool:
        """Whether the poses of a mechanism may separate its joints."""
        return any(sim.joints_separate for sim in self._mechanisms.values())

    # recording and saving

    def record(self, path: str | PathLike[str] | None = None, rate: float = 30.0) -> Recorder:
        """Starts to record the motion into an `.npz` file (a temporary one without `path`), `rate` frames per second of
        simulated time, while `step` is called. Call `close` of the recorder at the end, or use it in a `with` block.
        Contacts and the surfaces of pads are recorded too.

        If the file cannot be written, the `step` in progress raises `MechanismError` at a frame, the recording ends and
        the simulation can go on.
        """
        self._fix_dt(self.dt)
        return Recorder(self, path, rate).start(self.observers)

    def log(self, quantities: Iterable[str], rate: float | None = None) -> Log:
        """Starts a log of quantities, `rate` rows per second of simulated time (or one for each time step), while
        `step` is called: "q", "qd", "energy", "motor torque", "actuator force", "target", "contact force",
        the name of an object, a "mechanism:body" or "mechanism:site" (its position), or of a "mechanism:joint"."""
        self._fix_dt(self.dt)
        return start_log(self, quantities, rate, self.observers)

    def save(self) -> WorldState:
        """Returns the present state. After `restore` the simulation repeats to the last bit."""
        return WorldState(
            self.time,
            self._core.previous_contacts.view(CONTACT),
            self._core.limit_impulses,
            {name: each.state for name, each in self._objects.items()},
            {name: sim.save() for name, sim in self._mechanisms.items()},
            {name: self._core.pad_state(k) for k, name in enumerate(self._pads)},
        )

    def restore(self, saved: WorldState) -> None:
        """Restores a saved state of this world. Wrenches and handles of objects are not part of it and stay."""
        if not isinstance(saved, WorldState) or any(
            a.keys() != b.keys()
            for a, b in (
                (saved.objects, self._objects),
                (saved.mechanisms, self._mechanisms),
                (saved.pads, self._pads),
            )
        ):
            raise MechanismError("this state was saved by another world, or before something was added")
        for name, mechanism in saved.mechanisms.items():
            self._mechanisms[name].check_saved(mechanism)
        self._fix_dt(self.dt)
        self._set_state(saved)

    def _set_state(self, saved: WorldState) -> None:
        for name, state in saved.objects.items():
            self._objects[name].state = state
        for name, mechanism in saved.mechanisms.items():
            self._mechanisms[name].restore(mechanism)
        for k, state in enumerate(saved.pads.values()):
            self._core.set_pad_state(k, state)
        self._core.previous_contacts, self._core.limit_impulses = saved.contacts.view(np.uint8), saved.limit_impulses
        self._core.time = saved.time

    def reset(self) -> None:
        """Restores the state before the first step."""
        if self._initial_state is not None:
            self.restore(self._initial_state)

    def __reduce__(self) -> Any:
        """For pickle and copy: all that was added, loads and handles, the present and the initial state. Recordings and
        logs stay with the original. Functions of motors are pickled by their names."""
        kept = {name: copy.copy(value) for name, value in vars(self).items() if name not in NOT_COPIED}
        kept["_mechanisms"] = {name: copy.copy(sim) for name, sim in self._mechanisms.items()}
        return _restored, (kept, self.save())

    def __deepcopy__(self, memo: Any) -> World:
        return copy.copy(self)


def _restored(kept: dict[str, Any], present: WorldState) -> World:
    """A world in a saved state."""
    world = World()
    vars(world).update(kept)
    for name, sim in world._mechanisms.items():
        sim.in_world = name
    world._fill_core()
    world._set_state(present)
    return world


def _pairs_that_never_touch(mech: Mechanism, groups: list[int]) -> set[tuple[int, int]]:
    """Pairs of bodies, by index: those that joints connect (also through welded bodies), and the mechanism's own."""

    def group(name: str) -> int:
        return -1 if name == WORLD else groups[mech.body_index(name)]

    beside = {(group(joint.parent), group(joint.child)) for joint in mech.joints}
    named = {frozenset(pair) for pair in mech.contact_excludes}
    never = set()
    for a in range(len(groups)):
        for b in range(a + 1, len(groups)):
            ends = groups[a], groups[b]
            touch = ends[0] != ends[1] and ends not in beside and ends[::-1] not in beside
            if not touch or frozenset((mech.bodies[a].name, mech.bodies[b].name)) in named:
                never.add((a, b))
    return never
