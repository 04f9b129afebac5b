"""Matrices of a reduced model for other tools: compliances anywhere, ellipsoids, state space, sensitivities."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.dynamics import positive_seconds
from supple.engine.linearisation import Linearisation, linearised
from supple.engine.sensitivity import AXES, ByOneParameter, unit_wrenches
from supple.errors import MechanismError
from supple.mechanism.flexible import refuse_flexible
from supple.mechanism.record import Array, array, lock

if TYPE_CHECKING:
    from supple.reduced.model import ReducedModel

WRENCH = ("fx", "fy", "fz", "tx", "ty", "tz")
DISPLACEMENT = ("x", "y", "z", "rx", "ry", "rz")
VELOCITY = ("vx", "vy", "vz", "wx", "wy", "wz")
RIGID = 1e-12
"""A compliance below this, relative to the largest one, counts as zero."""


@dataclass(frozen=True)
class Ellipsoid:
    """The image of all unit forces (or displacements), in world axes."""

    centre: Array
    """(3,) the point in the world, m."""
    semi_axes: Array
    """(3,) from the longest to the shortest: m/N, rad/(N m), N/m or N m/rad."""
    directions: Array
    """(3, 3) unit vectors of the semi-axes as columns, right-handed."""
    kind: str
    """"compliance" or "stiffness"."""
    part: str
    """"linear" or "angular"."""

    def __post_init__(self) -> None:
        lock((self.centre, self.semi_axes, self.directions))


@dataclass(frozen=True)
class StateSpace:
    """x' = A x + B u, y = C x + D u; with a time step dt, x[k+1] = A x[k] + B u[k].

    It unpacks to (A, B, C, D), or to (A, B, C, D, dt), as `scipy.signal.lsim`, `scipy.signal.dlsim` and `control.ss`
    take it.
    """

    A: Array
    """(2m, 2m)"""
    B: Array
    """(2m, inputs)"""
    C: Array
    """(outputs, 2m)"""
    D: Array
    """(outputs, inputs)"""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[str, ...]
    """The m admissible coordinates of the model, then their rates."""
    dt: float | None = None
    """Time step, s; None for continuous time."""

    def __post_init__(self) -> None:
        lock((self.A, self.B, self.C, self.D))

    def __iter__(self) -> Iterator[Any]:
        yield from (self.A, self.B, self.C, self.D)
        if self.dt is not None:
            yield self.dt

    def to_scipy(self) -> Any:
        """A `scipy.signal.StateSpace`."""
        from scipy.signal import StateSpace as System

        matrices = (self.A, self.B, self.C, self.D)
        return System(*matrices) if self.dt is None else System(*matrices, dt=self.dt)

    def to_control(self) -> Any:
        """A `control.StateSpace` with the same names; the package control must be installed."""
        try:
            control = importlib.import_module("control")
        except ImportError:
            raise ImportError("to_control needs python-control: pip install control") from None
        signals = {"inputs": self.inputs, "outputs": self.outputs, "states": self.states}
        return control.ss(*self, **{what: [n.replace(".", "_") for n in names] for what, names in signals.items()})


@dataclass(frozen=True)
class Sensitivity:
    """Derivatives with respect to one parameter, per unit of it (SI)."""

    parameter: str
    displacement: dict[str, Array]
    """(6,) by end effector: how its pose moves, a twist in its own axes. Zero for a model of the reference pose."""
    compliance: Array
    """(6e, 6e) derivative of the end effectors' compliance in their own axes, with the loads as they were applied."""
    frequencies: Array
    """(k,) derivatives of the mechanism's lowest natural frequencies, Hz; k is the number asked for."""

    def __post_init__(self) -> None:
        lock((self.displacement, self.compliance, self.frequencies))


def as_applied(model: ReducedModel) -> Linearisation:
    """The linearisation at the model's state, with loads in world axes as dead loads."""
    from supple.reduced.model import held_base

    if not any(model.loads_are_dead):
        return model.linearisation
    return linearised(held_base(model.mechanism)[0], model.at)


def compliance_at(model: ReducedModel, name: str, axes: str, point: ArrayLike | None) -> Array:
    """As `ReducedModel.compliance_at`."""
    if axes not in AXES:
        raise MechanismError(f"axes must be 'world' or 'body', got {axes!r}")
    at = None if point is None else array(point, (3,), f"the point of '{name}'")
    linear = as_applied(model)
    forces = unit_wrenches(linear, [name], at)
    compliance: Array = forces @ linear.solve(forces).T
    if axes == "world":
        turn = np.kron(np.eye(2), linear.poses[name][:3, :3])
        compliance = turn @ compliance @ turn.T
    return compliance


def ellipsoid_at(model: ReducedModel, name: str, kind: str, part: str, point: ArrayLike | None) -> Ellipsoid:
    """As `ReducedModel.ellipsoid_at`."""
    if kind not in ("compliance", "stiffness"):
        raise MechanismError(f"kind must be 'compliance' or 'stiffness', got {kind!r}")
    if part not in ("linear", "angular"):
        raise MechanismError(f"part must be 'linear' or 'angular', got {part!r}")
    pose = model.rest_poses[name]
    centre = pose[:3, 3] + (0.0 if point is None else pose[:3, :3] @ np.asarray(point, dtype=float))
    return ellipsoid(compliance_at(model, name, "world", point), centre, name, kind, part)


def ellipsoid(
    compliance: Array, centre: Array, name: str, kind: str = "compliance", part: str = "linear"
) -> Ellipsoid:
    """The ellipsoid of a compliance (6, 6) in world axes, at a point (3,) of the world, m; `name` is that of the body
    or site."""
    own = slice(0, 3) if part == "linear" else slice(3, 6)
    directions, semi_axes, forces = np.linalg.svd(compliance[own, own])
    semi_axes[semi_axes <= RIGID * semi_axes[0]] = 0.0
    if kind == "stiffness":
        if semi_axes[-1] == 0:
            raise MechanismError(
                f"'{name}' cannot move in some direction, so its stiffness there is infinite; "
                "take the ellipsoid of the compliance"
            )
        semi_axes, directions = 1 / semi_axes[::-1], forces[::-1].T
    directions = directions * np.array([1.0, 1.0, np.sign(np.linalg.det(directions))])
    return Ellipsoid(np.array(centre), semi_axes, directions, kind, part)


def state_space(model: ReducedModel, dt: float | None, axes: str, targets: list[str], velocities: bool) -> StateSpace:
    """As `ReducedModel.state_space`."""
    if axes not in AXES:
        raise MechanismError(f"axes must be 'world' or 'body', got {axes!r}")
    if model.free_base is not None:
        raise MechanismError(f"'{model.mechanism.name}' floats, which has no constant matrices; fix its base")
    basis, e = model.basis, len(model.end_effectors)
    tangent = np.array(model.stiffness)
    tangent[: 6 * e, : 6 * e] = model.stiffness_with_loads(model.loads_are_dead)
    given = (model.mass, model.damping, tangent, model.stiffness)
    mass, damping, stiffness, of_springs = (basis.T @ matrix @ basis for matrix in given)
    turn = np.eye(6 * e)
    if axes == "world":
        for i, pose in enumerate(model.end_effector_poses):
            turn[6 * i : 6 * i + 6, 6 * i : 6 * i + 6] = np.kron(np.eye(2), pose[:3, :3])
    outputs = turn @ basis[: 6 * e]  # (6e, m): displacements per unit of z
    forces, through = [outputs.T], np.zeros((6 * e, 6 * e + len(targets)))
    for k, name in enumerate(targets):
        moved, _, _ = model.target_effect(name)
        goal = model.cobasis @ moved
        forces.append((of_springs @ goal)[:, None])
        through[:, 6 * e + k] = turn @ (moved - basis @ goal)[: 6 * e]
    m = len(mass)
    identity, zero = np.eye(m), np.zeros((m, m))
    force = np.hstack(forces)
    if dt is None:
        inverse = np.linalg.inv(mass)
        A = np.block([[zero, identity], [-inverse @ stiffness, -inverse @ damping]])
        B = np.vstack([np.zeros(force.shape), inverse @ force])
    else:  # v+ = S (M v + h (f - K z)) and z+ = z + h v+ with S = (M + h D + h^2 K)^-1
        h = dt = positive_seconds(dt)
        S = np.linalg.inv(mass + h * damping + h**2 * stiffness)
        rates = np.hstack([-h * S @ stiffness, S @ mass])
        A = np.vstack([np.hstack([identity, zero]) + h * rates, rates])
        B = np.vstack([h**2 * S @ force, h * S @ force])
    C, D = np.hstack([outputs, np.zeros(outputs.shape)]), through
    names = [f"{tip}.{part}" for tip in model.end_effectors for part in DISPLACEMENT]
    if velocities:
        C = np.vstack([C, np.hstack([np.zeros(outputs.shape), outputs])])
        D = np.vstack([D, np.zeros(D.shape)])
        names += [f"{tip}.{part}" for tip in model.end_effectors for part in VELOCITY]
    inputs = [f"{tip}.{part}" for tip in model.end_effectors for part in WRENCH] + [f"{n}.target" for n in targets]
    states = [f"z{i}" for i in range(m)] + [f"z{i} rate" for i in range(m)]
    return StateSpace(A, B, C, D, tuple(inputs), tuple(names), tuple(states), dt)


def sensitivity(model: ReducedModel, parameter: str, frequencies: int) -> Sensitivity:
    """As `ReducedModel.sensitivity`."""
    if isinstance(frequencies, bool) or not isinstance(frequencies, int | np.integer) or frequencies < 0:
        raise MechanismError(f"frequencies must be a number of frequencies, 0 or more, got {frequencies!r}")
    refuse_flexible(model.mechanism.flexible, "the sensitivity", "take differences of models instead")
    found = ByOneParameter(as_applied(model), model.at, parameter)
    names = [name for name in model.end_effectors if name != model.free_base]
    return Sensitivity(
        parameter,
        {name: found.displacement(name) for name in names},
        found.compliance(names),
        found.frequencies(int(frequencies)) if frequencies else np.zeros(0),
    )
