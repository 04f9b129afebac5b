"""Mechanisms, free objects and still geometry in contact, moving in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import _core, spatial
from supple.contact.general import General
from supple.contact.solids import Solid, solid
from supple.engine import Simulation
from supple.engine.dynamics import STEPS_AT_ONCE, check_count, positive_seconds
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import WORLD, Body, Mesh, Shape
from supple.mechanism.mechanism import STANDARD_GRAVITY
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array, checked_name
from supple.mechanism.shapes import HeightField
from supple.reduced import ReducedSimulation

OVERLAP = 1e-3
"""Depth, m, that shapes may overlap by where they are put into a world."""
DEFAULT_DT = 1e-3


@dataclass(frozen=True)
class Contact:
    """A point where two things touch, or are about to."""

    first: str
    """Name of an object, of "mechanism:body", or of a shape of the ground."""
    second: str
    point: Array
    """(3,) m, world."""
    normal: Array
    """(3,) from the second to the first, world axes."""
    force: Array
    """(3,) N on the first, world axes, averaged over the last step."""
    gap: float
    """m, negative where they overlap; at the start of the last step."""


@dataclass(frozen=True)
class WorldState:
    """Everything a world needs to go on, to the same bits."""

    time: float
    memory: Array
    objects: dict[str, Array]
    mechanisms: dict[str, Any]


class World:
    """Mechanisms in motion, free rigid objects and still geometry, stepped together with contact and friction.

    `dt` (s) is that of the first mechanism added, 1 ms without one. `gravity` (3,), m/s^2, acts on the objects; a
    mechanism has its own. `compliance`, m/N, lets every contact give along its normal. `correction`, m/s, is the speed
    at most at which shapes that overlap are taken apart.
    """

    def __init__(
        self,
        dt: float | None = None,
        gravity: ArrayLike = STANDARD_GRAVITY,
        compliance: float = 0.0,
        correction: float = 0.1,
    ) -> None:
        self._dt = None if dt is None else positive_seconds(dt)
        self.gravity = array(gravity, (3,), "gravity")
        self.compliance = float(array(compliance, (), "compliance"))
        self.correction = float(array(correction, (), "correction"))
        if self.compliance < 0 or self.correction <= 0:
            raise MechanismError("compliance must not be negative, correction must be positive")
        self._made: Any = None
        self._solids: list[Solid] = []
        self._owners: list[str] = []
        """Of each solid: an object, "mechanism:body" or a shape of the ground."""
        self._parties: list[str] = []
        """And the object or mechanism it belongs to; none for the ground."""
        self._objects: dict[str, Any] = {}
        self.bodies: dict[str, Body] = {}
        """The free objects as they were put in, by name."""
        self.meshes: dict[str, Mesh] = {}
        """Those that their shapes and the ground's name."""
        self.still: list[Shape | HeightField] = []
        """The ground."""
        self._mechanisms: dict[str, Simulation | ReducedSimulation] = {}
        self._full: list[Simulation] = []
        self._participants: list[str] = []
        self._new = 0
        self._origin: WorldState | None = None

    @property
    def dt(self) -> float:
        """s."""
        return DEFAULT_DT if self._dt is None else self._dt

    @property
    def _core(self) -> Any:
        if self._made is None:
            self._dt = self.dt
            self._made = _core.WorldCore(self.dt, self.compliance, self.correction)
        return self._made

    # what is in it

    def add(
        self,
        thing: Simulation | ReducedSimulation | Body,
        name: str | None = None,
        *,
        velocity: ArrayLike = (0.0,) * 6,
        meshes: Sequence[Mesh] = (),
    ) -> str:
        """Puts a mechanism in motion, or a free rigid object (a `Body` with shapes), into the world; returns its name.

        A full `Simulation` touches with all its bodies' shapes, a `ReducedSimulation` with those of its end effectors.
        The mechanism's own ground comes with it. Shapes of one mechanism do not touch each other. `velocity` (6,) is an
        object's twist, m/s and rad/s in its own frame; `meshes` are those its shapes name. From now on the world steps
        the mechanism; its own `step` would leave the world behind.
        """
        if isinstance(thing, Simulation | ReducedSimulation):
            return self._add_mechanism(thing, name)
        if not isinstance(thing, Body):
            raise MechanismError(
                f"a world takes a Simulation, a ReducedSimulation or a Body, got {type(thing).__name__}; "
                "a Mechanism needs one of the first two, a shape goes to world.ground(...)"
            )
        return self._add_object(thing, name, array(velocity, (6,), "velocity"), {m.name: m for m in meshes})

    def _add_mechanism(self, sim: Simulation | ReducedSimulation, name: str | None) -> str:
        mech = sim.mechanism
        if self._dt is not None and sim.dt != self._dt:
            raise MechanismError(
                f"'{mech.name}' steps by {sim.dt:g} s and the world by {self._dt:g} s; use the same dt"
            )
        if any(sim is other for other in self._mechanisms.values()):
            raise MechanismError(f"this simulation of '{mech.name}' is in the world already; make another one")
        name = self._name(mech.name if name is None else name)
        self._dt = sim.dt
        meshes = {mesh.name: mesh for mesh in mech.meshes}
        frames = list(_frames(sim))
        carried = [
            [solid(shape, meshes, frame) for shape in mech.bodies[body].shapes if shape.touches]
            for _, body, frame in frames
        ]
        self.ground(*(shape for shape in mech.shapes if shape.touches), meshes=mech.meshes)
        self.ground(*(field for field in mech.height_fields if field.touches))
        index = self._core.add_participant(sim.participant)
        self._participants.append(name)
        self._mechanisms[name] = sim
        self._full += [sim] if isinstance(sim, Simulation) else []
        for (frame, body, _), solids in zip(frames, carried, strict=True):
            for each in solids:
                self._add_solid(each, f"{name}:{mech.bodies[body].name}", index, frame)
        return name

    def _add_object(self, body: Body, name: str | None, velocity: Array, meshes: dict[str, Mesh]) -> str:
        name = self._name(body.name if name is None else name)
        if body.mass == 0 or np.linalg.eigvalsh(body.inertia)[0] <= 0:
            raise MechanismError(
                f"object '{name}' needs a mass and an inertia to move freely; still things go to ground()"
            )
        solids = [solid(shape, meshes, np.eye(4)) for shape in body.shapes if shape.touches]
        free = _core.FreeBody(body.mass, body.centre, np.ascontiguousarray(body.inertia), body.pose, self.dt)
        free.set_gravity(self.gravity)
        free.set_velocity(velocity)
        index = self._core.add_participant(free)
        self._participants.append(name)
        self._objects[name] = free
        self.bodies[name] = body
        self.meshes |= meshes
        for each in solids:
            self._add_solid(each, name, index, 0)
        return name

    def ground(self, *shapes: Shape | HeightField, meshes: Sequence[Mesh] = ()) -> None:
        """Still geometry, fixed to the world: floors, walls, uneven ground."""
        for shape in shapes:
            if not isinstance(shape, Shape | HeightField):
                raise MechanismError(f"ground is made of Shape and HeightField, got {type(shape).__name__}")
        named = {mesh.name: mesh for mesh in meshes}
        self.meshes |= named
        for each, shape in [(solid(shape, named, np.eye(4)), shape) for shape in shapes]:
            self._add_solid(each, shape.name or f"ground_{len(self._solids)}", -1, -1)
            self.still.append(shape)

    def _add_solid(self, each: Solid, owner: str, participant: int, frame: int) -> None:
        self._core.add_solid(
            participant,
            frame,
            each.number,
            np.ascontiguousarray(each.size),
            each.pose,
            each.friction,
            np.ascontiguousarray(each.points),
            each.rows,
            each.contact_type,
            each.contact_affinity,
        )
        self._solids.append(each)
        self._owners.append(owner)
        self._parties.append(self._participants[participant] if participant >= 0 else "")
        self._core.set_narrow(General(self._solids))

    def _name(self, name: str) -> str:
        checked_name(name, "what is put into a world")
        if name in self._participants:
            raise MechanismError(f"there is something named '{name}' in the world already; give it another name")
        if name == WORLD:
            raise MechanismError(f"'{WORLD}' is the fixed frame; give it another name")
        return name

    # acting on it

    def apply(self, name: str, wrench: ArrayLike, frame: str = "world") -> None:
        """A wrench (6,), force (N) then torque (N m), on an object at its origin, until changed. Mechanisms take
        theirs by their own `apply`."""
        if frame not in ("world", "body"):
            raise MechanismError(f"frame must be 'world' or 'body', got {frame!r}")
        self._object(name).set_wrench(array(wrench, (6,), f"wrench on '{name}'"), frame == "world")

    def pull(
        self,
        name: str,
        point: ArrayLike | None,
        stiffness: float = 1000.0,
        damping: float = 50.0,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """A handle: a spring (N/m, N s/m) from an object (its point `at`, in its frame) to a `point` of the world, m;
        `point=None` lets go. Mechanisms are pulled by their own `pull`."""
        held = self._object(name)
        if point is None:
            held.set_handle(False, np.zeros(3), np.zeros(3), 0.0, 0.0)
            return
        k, d = (float(array(value, (), f"the handle's {what}")) for value, what in
                ((stiffness, "stiffness"), (damping, "damping")))  # fmt: skip
        if k < 0 or d < 0:
            raise MechanismError(f"stiffness and damping of a handle must not be negative, got {k} and {d}")
        held.set_handle(True, array(at, (3,), "the handle's point"), array(point, (3,), "the point to pull to"), k, d)

    def step(self, n: int = 1) -> None:
        """Advances by n steps. Raises `ConvergenceError` if a step has no solution; the state is then that of the last
        good step."""
        check_count(n)
        if self._new != len(self._solids) or self._origin is None:
            self._check_start()
        plans = [sim.plan(n) for sim in self._full]
        done, why = 0, 0
        try:
            while done < n and not why:
                count, why = self._core.step(min(STEPS_AT_ONCE, n - done))
                done += count
        finally:
            for sim, plan in zip(self._full, plans, strict=True):
                sim.reached(plan, done)
        if done < n:
            culprit = self._core.culprit
            who = f"'{self._participants[culprit]}' " if culprit >= 0 else ""
            text = {
                1: f"{who}has no solution for it: the motion is too violent; use a smaller dt or smaller forces",
                2: "the contact impulses are not finite: an object is too light or thrown too hard",
                3: "more than 1,000 points touch at once; use simpler or fewer shapes",
            }[why]
            raise ConvergenceError(f"the step from t = {self.time:.6g} s failed: {text}", time=self.time)

    def _check_start(self) -> None:
        """Things newly put into the world do not overlap others by more than a trifle."""
        if self._origin is None:
            self._origin = self.save()
        new, self._new = self._new, len(self._solids)
        memory = self._core.memory
        self._core.detect()
        rows = self._core.contacts()
        self._core.memory = memory
        for row in rows:
            first, second = int(row[0]), int(row[1])
            if row[8] < -OVERLAP and max(first, second) >= new:
                self._new = new
                raise MechanismError(
                    f"'{self._owners[first]}' and '{self._owners[second]}' overlap by {-row[8]:.3g} m at the start, "
                    f"near {np.round(row[2:5], 4).tolist()}; put them apart (or a millimetre at most into each other)"
                )

    # looking at it

    @property
    def time(self) -> float:
        """s."""
        return float(self._core.time)

    @property
    def objects(self) -> tuple[str, ...]:
        """Names of the free objects."""
        return tuple(self._objects)

    @property
    def mechanisms(self) -> Mapping[str, Simulation | ReducedSimulation]:
        """The mechanisms by name."""
        return dict(self._mechanisms)

    def pose(self, name: str) -> Array:
        """(4, 4) world pose of an object."""
        pose: Array = self._object(name).pose
        return pose

    def velocity(self, name: str) -> Array:
        """(6,) twist of an object, m/s and rad/s in its own frame."""
        velocity: Array = self._object(name).velocity
        return velocity

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """What touched, or was about to, in the last step."""
        rows = self._core.contacts()
        who = self._owners
        return tuple(
            Contact(who[int(r[0])], who[int(r[1])], r[2:5].copy(), r[5:8].copy(), r[9:12].copy(), float(r[8]))
            for r in rows
        )

    def force_on(self, name: str) -> Array:
        """(3,) sum of the contact forces on an object, on a mechanism, or on one "mechanism:body", N, world axes."""
        if name not in self._owners and name not in self._participants:
            known = list(dict.fromkeys([*self._participants, *self._owners]))
            find(known, name, "object, mechanism or ground in this world")
        parties = self._parties if name in self._participants else self._owners
        total = np.zeros(3)
        for row in self._core.contacts():
            for side, sign in ((int(row[0]), 1.0), (int(row[1]), -1.0)):
                if parties[side] == name:
                    total += sign * row[9:12]
        return total

    @property
    def residual(self) -> float:
        """How far the contact law is from being met in the last step, m/s (over the largest speed, if above 1 m/s):
        the largest |p - P(p - v)| over all contacts, impulses as velocities. The solver ends below 5e-10, or after
        2,000 sweeps."""
        return float(self._core.residual)

    @property
    def energy(self) -> float:
        """J: kinetic, of springs and of gravity. Handles are not counted."""
        return float(self._core.energy)

    def _object(self, name: str) -> Any:
        if name not in self._objects:
            if name in self._mechanisms:
                raise MechanismError(f"'{name}' is a mechanism: ask world.mechanisms['{name}'] itself")
            find(list(self._objects), name, "object in this world")
        return self._objects[name]

    # keeping it

    def save(self) -> WorldState:
        """The present state; `restore` continues from it to the same bits."""
        return WorldState(
            self.time,
            self._core.memory,
            {name: each.state for name, each in self._objects.items()},
            {name: sim.save() for name, sim in self._mechanisms.items()},
        )

    def restore(self, saved: WorldState) -> None:
        """Back to a saved state of the same world. Wrenches and handles of objects stay as they are."""
        keys = self._objects.keys(), self._mechanisms.keys()
        if not isinstance(saved, WorldState) or (saved.objects.keys(), saved.mechanisms.keys()) != keys:
            raise MechanismError("this state was saved by another world, or before something was added")
        for name, state in saved.objects.items():
            self._objects[name].state = state
        for name, kept in saved.mechanisms.items():
            self._mechanisms[name].restore(kept)
        self._core.memory, self._core.time = saved.memory, saved.time

    def reset(self) -> None:
        """Back to the start."""
        if self._origin is not None:
            self.restore(self._origin)


def _frames(sim: Simulation | ReducedSimulation) -> Iterator[tuple[int, int, Array]]:
    """Frames of a mechanism that touch: index of the frame, of its body, and the body's pose (4, 4) in the frame."""
    if isinstance(sim, Simulation):
        for i in range(len(sim.mechanism.bodies)):
            yield i, i, np.eye(4)
        return
    seen = set()
    for i, name in enumerate(sim.model.end_effectors):
        body, pose_body_frame = sim.mechanism.frame(name)
        if body not in seen:
            seen.add(body)
            yield i, body, spatial.inverse(pose_body_frame)
