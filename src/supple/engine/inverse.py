"""Inverse dynamics: the torques of drives for a given motion, by recursive passes over the spanning tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple.engine.actuation import as_in_spring
from supple.engine.assembly import Load, equations, loads
from supple.errors import MechanismError, listed
from supple.mechanism import Mechanism
from supple.mechanism.axes import axis_slices, per_axis
from supple.mechanism.flexible import refuse_flexible
from supple.mechanism.kinematics import FURTHEST, Kinematics, kinematics
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.mobility import all_coordinates, constraints
from supple.mechanism.named import Coordinates, coordinate_columns
from supple.mechanism.record import Array, array
from supple.mechanism.values import by_coordinate

Given = ArrayLike | Mapping[str, ArrayLike]
CLOSED = 1e-6
"""Largest gap of a loop, m or rad, and speed of the gap, m/s or rad/s, relative to the motion."""
NULL = 1e-9
"""Singular values below this share of the largest one belong to motions that loops and couplings allow."""


def inverse_dynamics(
    mech: Mechanism,
    q: Given | None = None,
    qd: Given | None = None,
    qdd: Given | None = None,
    wrenches: Mapping[str, ArrayLike] | None = None,
    *,
    driven: Iterable[str] | None = None,
    frame: str = "world",
) -> Coordinates:
    """Torques that drives must exert for a motion, N m or N.

        tau = M(q) q'' + c(q, q') + g(q) + springs + dampers - J^T w

    Springs and dampers of joints and couplings count; those parts of them that are actuators (`Actuator.in_spring`) do
    not, because they are drives. With closed loops or rigid couplings the torques are not unique; these are the least
    ones (smallest sum of squares) on the driven joints.

    Args:
        mech: the mechanism.
        q: (dof,) coordinates, rad and m, or {joint or coordinate: value}; those that are not given are those of the
            reference pose. Loops must be closed there.
        qd: (dof,) their time derivative, or {joint or coordinate: value}; zero where not given.
        qdd: the same, their second time derivative.
        wrenches: forces and torques (6,) on bodies or sites by name, as for `Simulation.apply`.
        driven: names of the joints or coordinates that have drives; all of the spanning tree if not given.
        frame: "world" or "body", the axes of the wrenches.

    Returns:
        (dof,) torques, in the order of `mech.coordinates` and by name; zero for coordinates that are not driven.

    Raises:
        MechanismError: a loop is not closed, or the driven joints cannot cause the motion.
    """
    state = _MotionState.of(mech, q, qd, qdd)
    torque = _tree_torques(state, mech.gravity, loads(mech, wrenches, frame)) + _passive_torques(state)
    found: Coordinates = Coordinates(mech, _least_driven_torques(state, torque, driven))
    return found


def gravity_torques(mech: Mechanism, q: Given | None = None, *, driven: Iterable[str] | None = None) -> Coordinates:
    """Torques that hold the mechanism's weight at coordinates q, N m or N, without springs. q as in `inverse_dynamics`.

    With loops or rigid couplings they are the least ones on the `driven` joints, as in `inverse_dynamics`.

    Returns:
        (dof,) torques, in the order of `mech.coordinates` and by name.
    """
    state = _MotionState.of(mech, q, None, None)
    found: Coordinates = Coordinates(mech, _least_driven_torques(state, _tree_torques(state, mech.gravity, []), driven))
    return found


@dataclass(frozen=True)
class _MotionState:
    """Coordinates (dof,) and their first and second time derivative."""

    mech: Mechanism
    q: Array
    qd: Array
    qdd: Array

    @staticmethod
    def of(mech: Mechanism, q: Given | None, qd: Given | None, qdd: Given | None) -> _MotionState:
        check_mechanism(mech)
        refuse_flexible(mech.flexible, "inverse dynamics", "hold it in a Simulation with motors instead")
        values = []
        for name, value in (("q", q), ("qd", qd), ("qdd", qdd)):
            default = mech.reference if name == "q" else np.zeros(mech.dof)
            if isinstance(value, Mapping):
                value = by_coordinate(mech, value, default, name)
            given = default if value is None else array(value, (mech.dof,), f"{name} of '{mech.name}' ({mech.dof})")
            if (far := np.abs(given).max(initial=0.0)) > FURTHEST:
                raise MechanismError(f"{name} of '{mech.name}' must be within {FURTHEST:g}, got {far:g}")
            values.append(np.ascontiguousarray(given))
        return _MotionState(mech, *values)


@dataclass(frozen=True)
class _Compiled:
    """The core's passes for a mechanism, and what it has besides bodies and joints."""

    core: _core.InverseDynamics
    sprung: bool
    """Whether it has springs, dampers or actuators in springs."""
    tied: bool
    """Whether it has loops or rigid couplings."""

    @staticmethod
    def of(mech: Mechanism) -> _Compiled:
        """For a mechanism, which keeps it."""
        kept = vars(mech)
        if "_inverse_dynamics" not in kept:
            sprung = any(j.stiffness.any() or j.damping.any() or any(j.curves) for j in mech.joints)
            sprung = sprung or any(not c.rigid for c in mech.couplings) or any(a.in_spring for a in mech.actuators)
            tied = bool(mech.topology.loops) or any(c.rigid for c in mech.couplings)
            kept["_inverse_dynamics"] = _Compiled(_core.InverseDynamics(equations(mech).core), sprung, tied)
        compiled: _Compiled = kept["_inverse_dynamics"]
        return compiled


def _tree_torques(state: _MotionState, gravity: Array, acting: list[Load]) -> Array:
    """(dof,) torques of the spanning tree without springs, dampers and loops."""
    torques: Array = _Compiled.of(state.mech).core.torques(
        state.q,
        state.qd,
        state.qdd,
        gravity,
        [load.body for load in acting],
        np.array([load.point for load in acting]).reshape(-1, 3),
        np.array([load.wrench for load in acting]).reshape(-1, 6),
        [load.world for load in acting],
    )
    return torques


def _passive_torques(state: _MotionState) -> Array:
    """(dof,) torques that overcome springs and dampers, less the actuators' part of them."""
    mech = state.mech
    if not _Compiled.of(mech).sprung:
        return np.zeros(mech.dof)
    passive = [per_axis(mech, name) for name in ("stiffness", "damping")]
    drives = [as_in_spring(mech, actuator) for actuator in mech.actuators if actuator.in_spring]
    shares = [(drive, drive.gear * drive.spring_force) for drive in drives]
    q, rates, into_tree = _all_axes(state)
    names = {name: i for i, name in enumerate(n for joint in mech.joints for n in joint.axes)}
    torque = passive[0] * (q - per_axis(mech, "rest"))
    for i, (curve, rest) in enumerate(zip(_curves(mech), per_axis(mech, "rest"), strict=True)):
        if curve is not None:
            torque[i] += float(curve(q[i] - rest))
    on_increments = passive[1] * rates
    for coupling in mech.couplings:
        if coupling.rigid:
            continue
        at = [names[n] for n in coupling.coordinates]
        length, speed = coupling.coefficients @ q[at], coupling.coefficients @ rates[at]
        force = coupling.stiffness * (length - coupling.rest) + coupling.damping * speed
        if coupling.curve is not None:
            force += float(coupling.curve(length - coupling.rest))
        for actuator, share in shares:
            if actuator.drives == coupling.name:
                force += share @ [1.0, actuator.gear * length, actuator.gear * speed]
        torque[at] += coupling.coefficients * force
    for actuator, share in shares:
        if actuator.drives in names:
            at_axis = names[actuator.drives]
            torque[at_axis] += share @ [1.0, actuator.gear * q[at_axis], actuator.gear * rates[at_axis]]
    # springs act on coordinates, dampers on increments
    return into_tree[0].T @ torque + into_tree[1].T @ on_increments


def _curves(mech: Mechanism) -> list[Any]:
    return [curve for joint in mech.joints for curve in joint.curves]


def _all_axes(state: _MotionState) -> tuple[Array, Array, tuple[Array, Array]]:
    """Coordinates (axes,) of every joint, rates (axes,) of their increments, and the maps (axes, dof) from rates of q
    to rates of every joint's coordinates and of its increments."""
    mech, slices = state.mech, axis_slices(state.mech)
    count = slices[-1].stop if slices else 0
    q, by_rate, by_increment = np.zeros(count), np.zeros((count, mech.dof)), np.zeros((count, mech.dof))
    whole, moves = state.q, np.eye(mech.dof)
    if mech.topology.loops:
        whole = all_coordinates(kinematics(mech, state.q))
        rows = constraints(mech, whole)[1]
        moves = np.vstack([moves, -np.linalg.pinv(rows[:, mech.dof :]) @ rows[:, : mech.dof]])
    for j, (joint, part) in enumerate(zip(mech.joints, slices, strict=True)):
        loop = j in mech.topology.loops
        if loop and joint.armature.any():
            raise MechanismError(
                f"joint '{joint.name}' closes a loop and has an armature, which inverse dynamics does not take into "
                "account; describe this joint before another one of its loop"
            )
        own = mech.topology.columns[j]
        at = slice(own.start + mech.dof * loop, own.stop + mech.dof * loop)
        q[part], by_rate[part] = whole[at], moves[at]
        by_increment[part] = joint.increments(q[part]) @ by_rate[part]
    return q, by_increment @ state.qd, (by_rate, by_increment)


def _constraint_rows(mech: Mechanism, posed: Kinematics) -> tuple[Array, list[str]]:
    """(rows, dof) rates of the gaps of loops and rigid couplings per rate of q, at closed loops, and their names. The
    coordinates of the loop joints are eliminated."""
    rows = constraints(mech, all_coordinates(posed))[1]
    tree, loop = rows[:, : mech.dof], rows[:, mech.dof :]
    names = [mech.joints[j].name for j in mech.topology.loops for _ in range(6)]
    names += [coupling.name for coupling in mech.couplings if coupling.rigid]
    return tree - loop @ (np.linalg.pinv(loop) @ tree), names


def _allowed_motions(rows: Array) -> Array:
    """(dof, m) orthonormal rates of q that constraint rows (rows, dof) allow."""
    _, values, vectors = np.linalg.svd(rows, full_matrices=True)
    rank = int((values > NULL * max(values.max(initial=0.0), 1e-300)).sum())
    motions: Array = vectors[rank:].T
    return motions


def _least_driven_torques(state: _MotionState, torque: Array, driven: Iterable[str] | None) -> Array:
    """The least torques on driven coordinates that have the same effect on all motions that loops allow."""
    mech = state.mech
    tied = _Compiled.of(mech).tied
    if not tied and driven is None:
        return torque
    chosen = np.ones(mech.dof, dtype=bool)
    if driven is not None:
        chosen[:] = False
        for name in [driven] if isinstance(driven, str) else driven:
            chosen[coordinate_columns(mech, name)] = True
    free = np.eye(mech.dof)
    if tied:
        posed = kinematics(mech, state.q)
        _check_closed(state, posed)
        rows, names = _constraint_rows(mech, posed)
        speed = np.abs(rows @ state.qd)
        if speed.max(initial=0.0) > CLOSED * (1 + np.abs(state.qd).max(initial=0.0)):
            raise MechanismError(
                f"the rates qd open the loop or coupling '{names[int(speed.argmax())]}' of '{mech.name}'; "
                "take them from a simulation, or project them onto the motions that loops allow"
            )
        free = _allowed_motions(rows)
    wanted = free.T @ torque
    found, _, _, _ = np.linalg.lstsq(free.T[:, chosen], wanted, rcond=1e-10)
    missing = wanted - free.T[:, chosen] @ found
    if np.abs(missing).max(initial=0.0) > 1e-8 * max(np.abs(torque).max(initial=0.0), 1e-9):
        motion = np.abs(free @ missing)
        names = [n for n, size in zip(mech.coordinates, motion, strict=True) if size > 0.3 * motion.max()]
        raise MechanismError(
            f"the driven joints of '{mech.name}' cannot cause this motion: {listed(names)} would need torque; "
            "name more joints in `driven`"
        )
    result = np.zeros(mech.dof)
    result[chosen] = found
    return result


def _check_closed(state: _MotionState, posed: Kinematics) -> None:
    mech = state.mech
    for name, gap in posed.gaps.items():
        size = max(np.abs(gap[:3]).max() / (mech.radius or 1.0), np.abs(gap[3:]).max())
        if size > CLOSED:
            raise MechanismError(
                f"the loop at joint '{name}' of '{mech.name}' has a gap of {size:.2g} (rad or radii) at q; "
                "close it with supple.assemble(mech, q).q, or take q from an equilibrium or a simulation"
            )
