"""What simulations and worlds have in common: the viewer, recordings and the command line use only this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import MechanismError
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.named import Coordinates, Twists
from supple.mechanism.poses import Poses
from supple.mechanism.record import Array


@dataclass(frozen=True)
class Energy:
    """Mechanical energy of a state, J."""

    kinetic: float
    strain: float
    """Of the springs, zero at their rest positions, and of servos at their present controls; none of an actuator that
    is switched off."""
    gravity: float
    """Potential energy; zero at the world's origin."""

    @property
    def total(self) -> float:
        return self.kinetic + self.strain + self.gravity

    def __add__(self, other: Energy) -> Energy:
        return Energy(self.kinetic + other.kinetic, self.strain + other.strain, self.gravity + other.gravity)


@dataclass(frozen=True)
class Contact:
    """A point where two shapes touch, or may touch within the time step."""

    first: str
    """Name of an object, "mechanism:body", or name of a ground shape."""
    second: str
    """The same for the other side."""
    point: Array
    """(3,) m, world."""
    normal: Array
    """(3,) from the second to the first, world axes."""
    force: Array
    """(3,) N on the first, world axes, averaged over the last step."""
    torque: Array
    """(3,) N m on the first about the point, by torsional and rolling friction (`condim` 4 and 6), as `force`."""
    gap: float
    """Distance at the start of the last step, m; negative where the shapes overlap."""


class Moving(Protocol):
    """A mechanism or a world that moves in time steps: `Simulation`, `ReducedSimulation` (of linear and blended
    models), `FullSimulation`, `World`, and the viewer's motions.

    The names of a world's parts are "mechanism:body", "mechanism:joint" and so on; an object has its own name. What
    something cannot do is empty (`contacts`, `touches`, `ellipsoids`, `targets`, `controls`), or a property at the end
    says so.
    """

    # description

    @property
    def mechanism(self) -> Mechanism:
        """All bodies, joints and ground; for a world those of all mechanisms and objects, under the world's names."""

    @property
    def kind(self) -> str:
        """How it is simulated: "engine", "linear", "blended", "adaptive", "nodes" (all nodes of flexible
        bodies) or "world"."""

    @property
    def end_effectors(self) -> tuple[str, ...]:
        """Bodies and sites that `apply` and `pull` act on."""

    # time

    @property
    def dt(self) -> float:
        """Time step, s."""

    @property
    def time(self) -> float:
        """Simulated time, s."""

    def step(self, n: int = 1) -> None:
        """Advances by n time steps. Raises `ConvergenceError` if a step fails; the state is then that before it."""

    def save(self) -> Any:
        """The complete present state. After `restore` the simulation repeats to the last bit."""

    def restore(self, saved: Any) -> None:
        """Returns to a saved state, with its loads, handles and set-points."""

    def reset(self) -> None:
        """Returns to the initial state."""

    # state

    @property
    def poses(self) -> Poses:
        """World poses (4, 4) of every body."""

    @property
    def velocities(self) -> Twists:
        """(bodies, 6) twists, linear (m/s) then angular (rad/s), each in its body's own frame."""

    @property
    def q(self) -> Coordinates:
        """(dof,) coordinates of the spanning tree, rad and m, in the order of `mechanism.coordinates`."""

    @property
    def qd(self) -> Coordinates:
        """(dof,) time derivative of `q`, rad/s and m/s."""

    @property
    def coordinates(self) -> dict[str, Array]:
        """Coordinates (k,) of every joint by name, rad and m."""

    @property
    def energy(self) -> Energy:
        """J; zero for quasi-statics."""

    @property
    def contacts(self) -> Sequence[Contact]:
        """The contacts of the last step."""

    @property
    def touches(self) -> Mapping[str, Any]:
        """Forces on soft pads and displacements of their points (`supple.contact.pads.Touch`), by the covered body."""

    @property
    def ellipsoids(self) -> Mapping[str, Any]:
        """Compliance ellipsoid of each end effector at its present pose (`supple.reduced.matrices.Ellipsoid`, m/N), by
        name; empty where no model gives the compliance. Each access computes them."""

    @property
    def moving_joints(self) -> NDArray[np.bool_] | None:
        """(joints,) which joints an adaptive linkage moved in its last step; None where all move."""

    # inputs

    def apply(self, name: str, wrench: ArrayLike, frame: str = "world", /) -> None:
        """Sets the wrench (6,), N and N m, at the origin of an end effector. It acts until changed."""

    def pull(
        self,
        name: str,
        point: ArrayLike | None,
        /,
        stiffness: float | None = None,
        damping: float | None = None,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """Attaches a handle: a spring from a point `at` of an end effector to a `point` (3,) of the world, m. `None`
        removes it."""

    def handle_stiffness(self, name: str) -> float:
        """N/m of a handle at this end effector where `pull` names none."""

    @property
    def targets(self) -> dict[str, float]:
        """Set-points by name of coordinate, coupling or motor, rad or m: those that `set_targets` takes."""

    def set_targets(self, targets: Any) -> None:
        """Sets set-points {name: position}, rad or m; all of them, or none if one is wrong."""

    @property
    def controls(self) -> dict[str, float | None]:
        """Control of each actuator by name, in the units of its file; None if it is switched off."""

    def set_control(self, name: str | Mapping[str, float | None] | ArrayLike, control: float | None = None) -> None:
        """Sets controls of actuators by name, in the units of their file."""

    def set_torque(self, name: str | Mapping[str, ArrayLike] | ArrayLike, torque: ArrayLike | None = None) -> None:
        """Sets torques of drives on joints by name, N m or N."""

    def set_q(self, q: ArrayLike | Mapping[str, float]) -> None:
        """Places the joints at coordinates (dof,) or {name: position}, rad or m, at rest; time goes on."""

    # what it can do

    @property
    def can_set_torque(self) -> bool:
        """Whether `set_torque` acts on joints."""

    @property
    def placeable(self) -> tuple[str, ...]:
        """Coordinates that `set_q` can place; empty for reduced models."""

    @property
    def has_contacts(self) -> bool:
        """Whether there can be `contacts`."""

    @property
    def has_velocities(self) -> bool:
        """Whether it has velocities; False for quasi-statics, where they are zero."""

    @property
    def joints_separate(self) -> bool:
        """Whether `poses` may separate joints, as those of a linear model do."""


class Participant(Moving, Protocol):
    """What moves and can be added to a `World`, which then steps it."""

    @property
    def participant(self) -> Any:
        """The core object that the world steps."""

    observers: list[Any]
    """Recordings and logs of it (`supple.recording.observing.Observer`); the world calls them."""
    in_world: str | None
    """Its name in a world, which steps it; None outside of worlds."""

    def contact_frames(self) -> list[tuple[int, int, Array]]:
        """Frames that shapes are fixed to: index of the frame in the core object, index of its body, pose (4, 4) of the
        body in the frame."""

    def plan(self, n: int) -> Any:
        """Prepares the next n time steps of the world; returns what `reached` needs."""

    def reached(self, plan: Any, done: int) -> None:
        """Records that `done` of the planned time steps succeeded."""

    def check_saved(self, saved: object) -> None:
        """Raises unless `restore` would accept a saved state."""

    @property
    def limits_forces(self) -> bool:
        """Whether `limit_forces` must be called after each time step."""

    def limit_forces(self) -> None:
        """Keeps the forces of actuators within their ranges at the present coordinates."""


NEEDED = ("step", "save", "restore", "poses", "pull")


def check_moving(thing: object, what: str = "something that moves is needed") -> None:
    """Raises `MechanismError` unless the value has the members of `Moving`."""
    if not all(hasattr(type(thing), name) for name in NEEDED):
        raise MechanismError(f"{what}: a Simulation, a ReducedSimulation or a World, got {thing!r:.60}")


def can_join_world(thing: object) -> bool:
    """Whether a value has the members of `Participant`."""
    return all(hasattr(type(thing), name) for name in (*NEEDED, "participant", "contact_frames"))
