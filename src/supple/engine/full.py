"""Statics with all nodes of flexible bodies, without reduction: the reference for reduced flexible bodies. Its shapes
are snapshots for their bases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.assembly import Acting, loads
from supple.engine.full_part import PartState
from supple.engine.full_system import Failure, FullState, FullSystem
from supple.engine.linearisation import Linearisation, check_held
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.poses import find
from supple.mechanism.record import Array
from supple.progress import progress_callback

SMALLEST_FRACTION = 1 / 512
"""Smallest step of the load's fraction in statics."""
EASY = 8
"""A load step that took fewer Newton iterations than this doubles the next one."""


@dataclass(frozen=True, eq=False)
class FullEquilibrium:
    """A state of all nodes in which all forces balance."""

    mechanism: Mechanism
    poses: Poses
    """World poses (4, 4) of rigid bodies and interface frames."""
    coordinates: dict[str, Array]
    """Coordinates (k,) of every joint, except those of interfaces, by its name; rad and m."""
    reactions: dict[str, Array]
    """Wrench (6,) that each joint exerts on its child, in the joint's frame on the child; N and N m."""
    motor_torques: dict[str, float]
    """Torque or force of each motor, rigid coupling and touched limit on its coordinates, N m or N."""
    load_fraction: float
    """Fraction of the load that this state balances: 1, or less in the `state` of a `ConvergenceError`."""
    iterations: int
    """Number of Newton iterations."""
    acting: Acting = field(repr=False)
    """Loads, gravity and set-points."""
    state: FullState = field(repr=False)

    def displacements(self, name: str) -> Array:
        """(n, 3) displacements of the nodes of a flexible body, in its part's coordinates and relative to its reference
        interface, m; for `part.with_basis(snapshots=...)`."""
        return displacements_of(self.mechanism, self.state, name)


def full_equilibrium(
    mech: Mechanism,
    wrenches: Mapping[str, ArrayLike] | None = None,
    *,
    frame: str = "world",
    targets: Mapping[str, float] | None = None,
    start: FullEquilibrium | None = None,
    progress: Callable[[float], None] | None = None,
) -> FullEquilibrium:
    """Computes the static equilibrium of a mechanism with all nodes of its flexible bodies.

    Args:
        mech: the mechanism.
        wrenches: a wrench (6,), force (N) then torque (N m), for each name of a body, interface frame or site. It acts
            at the origin of that frame.
        frame: axes of the wrenches: "world", or "body" (they turn with the body).
        targets: set-points of springs and motors by name, rad or m.
        start: the equilibrium to start from; by default the reference pose without loads and gravity.
        progress: called with the fraction of the load that is reached; by default a long run shows a bar.

    Loads, gravity and set-points change in proportion from the start to their full values, in steps that shrink where
    Newton's method fails. The stability of the result is not checked: a straight column stays straight.

    Raises:
        ConvergenceError: the path ends before the full load. The error has `load_fraction` and `state`.
        MechanismError: nothing holds some coordinate, or an argument is wrong.
    """
    system = FullSystem(mech)
    eqs = system.eqs
    goal = eqs.acting(loads(mech, wrenches, frame))
    if targets is not None:
        goal = eqs.aimed(goal, targets)
    if start is None:
        begin = eqs.unloaded()
        state = system.state_at(eqs.reference.copy(), np.zeros((len(mech.bodies), 6)), np.zeros(len(eqs.reference)))
    else:
        check_start_state(start, mech)
        begin, state = start.acting, start.state
    done, width = 0.0, 1.0
    with progress_callback("full equilibrium", progress) as report:
        while done < 1:
            fraction = min(1.0, done + width)
            acting, iterations = begin.interpolated(goal, fraction), system.iterations
            reached = system.solve(state, acting, None, state, state)
            if isinstance(reached, Failure):
                if width == 1:
                    check_held(Linearisation.at(eqs, replace(goal, loads=()), eqs.zero_state()))
                width = (fraction - done) / 2
                if width < SMALLEST_FRACTION:
                    raise ConvergenceError(
                        f"no equilibrium of '{mech.name}' beyond {done:.3g} of the load: {reached.reason}. "
                        "The load is too large, or the path of equilibria ends (buckling): apply less",
                        load_fraction=done,
                        state=_equilibrium(system, state, begin.interpolated(goal, done), done),
                    )
                continue
            done, state = fraction, reached
            width *= 2 if system.iterations - iterations < EASY else 1
            report(done)
    return _equilibrium(system, state, goal, done)


def check_start_state(start: object, mech: Mechanism) -> None:
    """Raises unless the value is a full equilibrium of this mechanism."""
    if not isinstance(start, FullEquilibrium):
        raise MechanismError(f"`start` must be a FullEquilibrium (from full_equilibrium), got {type(start).__name__}")
    if start.mechanism is not mech and start.mechanism != mech:
        raise MechanismError(f"`start` is an equilibrium of '{start.mechanism.name}', not of this '{mech.name}'")


def _equilibrium(system: FullSystem, state: FullState, acting: Acting, fraction: float) -> FullEquilibrium:
    return FullEquilibrium(
        system.mechanism,
        system.poses(state),
        _coordinates(system, state),
        reactions_of(system, state),
        motor_torques_of(system, state),
        fraction,
        system.iterations,
        acting,
        state,
    )


def displacements_of(mech: Mechanism, state: FullState, name: str) -> Array:
    """(n, 3) displacements of the nodes of a flexible body, in its part's coordinates and relative to its reference
    interface, m."""
    own = part_state(mech, state, name)
    flexible = mech.flexible[find([each.name for each in mech.flexible], name, f"flexible body of '{mech.name}'")]
    return np.asarray(own.offsets + flexible.basis.origin - flexible.part.nodes)


def part_state(mech: Mechanism, state: FullState, name: str) -> PartState:
    return state.parts[find([each.name for each in mech.flexible], name, f"flexible body of '{mech.name}'")]


def _coordinates(system: FullSystem, state: FullState) -> dict[str, Array]:
    return {joint.name: state.bodies.q[axes].copy() for joint, axes, _, _ in system.bodies.joints}


def reactions_of(system: FullSystem, state: FullState) -> dict[str, Array]:
    joints = (joint.name for joint, *_ in system.bodies.joints)
    return {name: -wrench for name, wrench in zip(joints, state.bodies.reactions, strict=True)}


def motor_torques_of(system: FullSystem, state: FullState) -> dict[str, float]:
    rows = zip(system.bodies.rows, state.bodies.mu, strict=True)
    driven = {row.name for row in system.bodies.rows if row.equality}
    result = {}
    for row, mu in rows:
        if row.equality or mu != 0:
            name = f"{row.name}.limit" if not row.equality and row.name in driven else row.name
            result[name] = -float(mu)
    return result
