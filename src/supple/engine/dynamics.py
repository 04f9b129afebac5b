"""Full constrained dynamics in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.engine.assembly import Equations, Load, equations, loads
from supple.engine.statics import Equilibrium
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism, Poses, kinematics, mass_matrix
from supple.mechanism.record import Array, array

METHODS = {"euler": 1, "bdf2": 2}
JUMP = 1.0
"""Largest change of a motor's curve within one step, rad or m; more is taken for a mistake in the curve."""


@dataclass(frozen=True)
class Energy:
    """Mechanical energy of a state, J."""

    kinetic: float
    strain: float
    """In springs, from their rest positions."""
    gravity: float
    """From the world's origin."""

    @property
    def total(self) -> float:
        return self.kinetic + self.strain + self.gravity


@dataclass(frozen=True)
class Handle:
    """A spring from a point of a body to a point of the world."""

    body: int
    point: Array
    """(3,) in the body's frame, m."""
    target: Array
    """(3,) in the world, m."""
    stiffness: float
    damping: float


@dataclass(frozen=True)
class SavedState:
    """Everything a simulation needs to go on, to the same bits."""

    history: Array
    loads: dict[str, Load]
    handles: dict[str, Handle]
    rest: Array
    targets: dict[str, float]


class Simulation:
    """A mechanism moving in time: implicit steps of `dt` seconds, joints closed at the end of each.

    `method="euler"` (backward Euler, first order, damps fast vibrations) or `"bdf2"` (second order). `q` (dof,)
    and `rates` (dof,) start it somewhere else than at rest in the reference pose; `at` starts it in an
    equilibrium, with that equilibrium's loads. `motors` maps motors to functions of time (s) that give their
    positions (rad or m).
    """

    def __init__(
        self,
        mech: Mechanism,
        dt: float,
        method: str = "euler",
        *,
        q: ArrayLike | None = None,
        rates: ArrayLike | None = None,
        at: Equilibrium | None = None,
        motors: Mapping[str, Callable[[float], float]] | None = None,
    ) -> None:
        if not np.isfinite(dt) or dt <= 0:
            raise MechanismError(f"dt must be a positive number of seconds, got {dt}")
        if method not in METHODS:
            raise MechanismError(f"method must be 'euler' or 'bdf2', got {method!r}")
        _check_inertia(mech)
        self.mechanism, self.dt, self.method = mech, float(dt), method
        self._eqs: Equations = equations(mech)
        self._core = self._eqs.core
        self._motors = dict(motors or {})
        names = [motor.name for motor in mech.motors]
        for name in self._motors:
            if name not in names:
                raise MechanismError(f"there is no motor named '{name}'; '{mech.name}' has {names or 'none'}")
        self._loads: dict[str, Load] = {}
        self._handles: dict[str, Handle] = {}
        self._begin(q, rates, at)
        self._check_limits()
        self._origin = self.save()

    def _begin(self, q: ArrayLike | None, rates: ArrayLike | None, at: Equilibrium | None) -> None:
        mech, eqs, core = self.mechanism, self._eqs, self._core
        state = eqs.zero_state()
        if at is not None:
            if at.mechanism is not mech and at.mechanism != mech:
                raise MechanismError(f"`at` is an equilibrium of '{at.mechanism.name}', not of this mechanism")
            state = at.state
            for name, value in at.targets.items():
                eqs.set_target(name, value)
            self._loads = {load.name: load for load in at.loads}
            self._push()
        elif q is not None:
            moved = mech.at(array(q, (mech.dof,), f"q of '{mech.name}'"))
            state = (np.concatenate([np.zeros(0), *(j.reference for j in moved.joints)]), *state[1:])
        core.set_state(*state)
        core.evaluate(False)
        turn = np.zeros(mech.dof) if rates is None else array(rates, (mech.dof,), f"rates of '{mech.name}'")
        twists, all_rates = _rates(eqs, turn)
        core.start(self.dt, METHODS[self.method], 0.0, twists, all_rates)
        for name, motor in self._motors.items():
            now = _motor_value(name, motor, 0.0)
            index = eqs.axis[next(m.coordinate for m in mech.motors if m.name == name)]
            if abs(now - core.q[index]) > JUMP:
                raise MechanismError(
                    f"motor '{name}' starts at {now:g} but its coordinate stands at {core.q[index]:g}; start the "
                    "simulation there (q=...) or the curve where the mechanism is"
                )
            core.set_row(eqs.row[name], now, now)

    def _check_limits(self) -> None:
        q = self._core.q
        for joint, part in zip(self.mechanism.joints, self._eqs.joint_slices(), strict=True):
            for name, value, (lower, upper) in zip(joint.axes, q[part], joint.limits, strict=True):
                if value < lower - 1e-9 or value > upper + 1e-9:
                    raise MechanismError(
                        f"'{name}' starts at {value:g}, outside its limits {lower:g} ... {upper:g}; "
                        "start inside (q=...) or widen the limits"
                    )

    # acting on it

    def apply(self, body: str, wrench: ArrayLike, frame: str = "world") -> None:
        """A wrench (6,), force (N) then torque (N m), on a body or site at its origin, until changed."""
        acting = loads(self.mechanism, {body: wrench}, frame)
        self._loads |= {load.name: load for load in acting}
        self._push()

    def pull(
        self,
        body: str,
        point: ArrayLike | None,
        stiffness: float | None = None,
        damping: float | None = None,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """A handle: a spring from a body (its point `at`, in its frame) to a `point` of the world, m.

        Call it again to move the point; `point=None` lets go. By default the spring is as stiff as moves the
        mechanism's whole mass at two hertz, critically damped.
        """
        if point is None:
            self._handles.pop(body, None)
        else:
            frame, pose_body_frame = self.mechanism.frame(body)
            if frame < 0:
                raise MechanismError(f"'{body}' is fixed to the world; it cannot be pulled")
            k = self.mechanism.mass * (2 * np.pi * 2) ** 2 if stiffness is None else stiffness
            d = 2 * np.sqrt(k * self.mechanism.mass) if damping is None else damping
            if not (np.isfinite(k) and np.isfinite(d) and k >= 0 and d >= 0):
                raise MechanismError(f"stiffness and damping of a handle must be finite and not negative, got {k}, {d}")
            held = pose_body_frame[:3, :3] @ array(at, (3,), "the handle's point") + pose_body_frame[:3, 3]
            self._handles[body] = Handle(frame, held, array(point, (3,), "the point to pull to"), float(k), float(d))
        self._push()

    def _push(self) -> None:
        self._eqs.set_loads(list(self._loads.values()))
        handles = list(self._handles.values())
        self._core.set_handles(
            [h.body for h in handles],
            np.array([h.point for h in handles]).reshape(-1, 3),
            np.array([h.target for h in handles]).reshape(-1, 3),
            [h.stiffness for h in handles],
            [h.damping for h in handles],
        )

    def set_target(self, name: str, value: float) -> None:
        """Set-point (rad or m) of a sprung joint, of a coupling or of a motor."""
        if not np.isfinite(value):
            raise MechanismError(f"target of '{name}' must be finite, got {value}")
        if name in self._motors:
            raise MechanismError(f"motor '{name}' follows its function of time; it takes no set-point")
        self._eqs.set_target(name, float(value))

    def step(self, n: int = 1) -> None:
        """Advances by n steps. Raises `ConvergenceError` with the `time` reached if a step cannot be solved,
        however small; the state stays at the last good step."""
        if n < 0:
            raise MechanismError(f"the number of steps must not be negative, got {n}")
        driven = [self._eqs.row[name] for name in self._motors]
        start = self.time
        targets = np.array(
            [[_motor_value(m, f, start + (k + 1) * self.dt) for m, f in self._motors.items()] for k in range(n)]
        ).reshape(n, len(driven))
        before = np.array([_motor_value(m, f, start) for m, f in self._motors.items()]).reshape(1, -1)
        jumps = np.abs(np.diff(np.vstack([before, targets]), axis=0))
        if (jumps > JUMP).any():
            k, i = np.argwhere(jumps > JUMP)[0]
            raise MechanismError(
                f"the curve of motor '{list(self._motors)[i]}' jumps by {jumps[k, i]:g} within the step to "
                f"t = {start + (k + 1) * self.dt:g} s; motors move continuously"
            )
        done = self._core.step(driven, targets, n)
        if done < n:
            raise ConvergenceError(
                f"the step from t = {self.time:.6g} s did not converge, even in a thousandth of dt: the motion is "
                "violent there (a limit or motor that fights another, a force that is too large); the state is that "
                "of the last good step",
                time=self.time,
            )

    # looking at it

    @property
    def time(self) -> float:
        """s."""
        return float(self._core.time)

    @property
    def poses(self) -> Poses:
        """World poses (4, 4) of every body."""
        return Poses(self.mechanism, self._core.poses)

    @property
    def velocities(self) -> Array:
        """(bodies, 6) twists, linear (m/s) then angular (rad/s), each in its body's own frame."""
        velocities: Array = self._core.velocities
        return velocities

    @property
    def coordinates(self) -> dict[str, Array]:
        """Coordinates (k,) of every joint by name, rad and m."""
        q = self._core.q
        return {j.name: q[p] for j, p in zip(self.mechanism.joints, self._eqs.joint_slices(), strict=True)}

    @property
    def reactions(self) -> dict[str, Array]:
        """Wrench (6,) that each joint exerts on its child, in the joint's frame on the child; N and N m."""
        return {j.name: -row for j, row in zip(self.mechanism.joints, self._core.reactions, strict=True)}

    @property
    def gap(self) -> float:
        """Largest violation of a joint that closes a loop, m or rad (the others are closed by construction)."""
        return float(np.abs(self._core.gaps).max(initial=0.0))

    @property
    def energy(self) -> Energy:
        return Energy(*self._core.energies)

    # keeping it

    def save(self) -> SavedState:
        """The present state; `restore` continues from it to the same bits."""
        return SavedState(
            self._core.history(), dict(self._loads), dict(self._handles), self._eqs.rest, dict(self._eqs.targets)
        )

    def restore(self, saved: SavedState) -> None:
        """Back to a saved state, with the loads, handles and targets of then."""
        if len(saved.history) != len(self._core.history()):
            raise MechanismError("this state was saved by a simulation of another mechanism")
        self._loads, self._handles = dict(saved.loads), dict(saved.handles)
        self._push()
        self._eqs.set_targets(saved.rest, saved.targets)
        self._core.set_history(saved.history)

    def reset(self) -> None:
        """Back to the start."""
        self.restore(self._origin)


def _rates(eqs: Equations, rates: Array) -> tuple[Array, Array]:
    """Twists (bodies, 6) of the bodies and rates (axes,) of every joint's increments at given rates of q."""
    mech, q = eqs.mechanism, eqs.core.q
    slices, columns = eqs.joint_slices(), mech.topology.columns
    state = kinematics(mech, np.concatenate([np.zeros(0), *(q[slices[j]] for j in mech.topology.tree)]))
    world = state.screws.T @ (mech.topology.moves * rates).T  # (6, bodies), at the world's origin
    twists = (spatial.adjoint(spatial.inverse(state.poses.array)) @ world.T[:, :, None])[..., 0]
    result = np.zeros(len(q))
    for i, joint in enumerate(mech.joints):
        if i in mech.topology.loops:  # from the bodies' motion relative to each other
            ends = [mech.body_index(name) for name in (joint.child, joint.parent)]
            across = sum((sign * world[:, b] for b, sign in zip(ends, (1, -1), strict=True) if b >= 0), np.zeros(6))
            frame = spatial.adjoint(spatial.inverse(state.poses[joint.child] @ joint.pose_child))
            turn = np.linalg.lstsq(joint.twist_jacobian(q[slices[i]]), frame @ across, rcond=None)[0]
        else:
            turn = rates[columns[i]]
        result[slices[i]] = joint.increments(q[slices[i]]) @ turn
    return twists, result


def _motor_value(name: str, motor: Callable[[float], float], time: float) -> float:
    value = float(motor(time))
    if not np.isfinite(value):
        raise MechanismError(f"motor '{name}' is not finite at t = {time:g} s: {value}")
    return value


def _check_inertia(mech: Mechanism) -> None:
    """Every coordinate of the tree must move some mass, or have an armature."""
    smallest = np.linalg.eigvalsh(mass_matrix(mech))
    if len(smallest) and smallest[0] <= 1e-14 * max(smallest[-1], 1e-300):
        values, vectors = np.linalg.eigh(mass_matrix(mech))
        light = np.abs(vectors[:, values <= 1e-14 * max(values[-1], 1e-300)]).max(axis=1)
        names = [name for name, size in zip(mech.coordinates, light, strict=True) if size > 1e-3 * light.max()]
        raise MechanismError(
            f"dynamics cannot move {', '.join(repr(n) for n in names[:6])} of '{mech.name}': the bodies beyond have no "
            "inertia; give them mass and inertia, or the joint an armature"
        )
