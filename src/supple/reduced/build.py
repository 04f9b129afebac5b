"""`supple.reduce`: from a mechanism to its reduced model."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from supple.engine import Equilibrium
from supple.engine.assembly import turned
from supple.engine.linearisation import Linearisation, check_held, check_loops_closed, linearised, null_space
from supple.errors import MechanismError, RangeWarning, listed, user_level
from supple.mechanism import Mechanism
from supple.mechanism.flexible import refuse_flexible
from supple.mechanism.idle import spin_increments
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.projected import projected_damping, projected_mass
from supple.mechanism.record import Array
from supple.reduced.admissible import AdmissibleSpace
from supple.reduced.floating import floating
from supple.reduced.maps import Maps
from supple.reduced.model import ReducedModel, held_base
from supple.reduced.projection import projection
from supple.reduced.published import published_damping, published_mass
from supple.reduced.recursion import PROJECTION, ignored_merges, recursion
from supple.reduced.reference_pose import without_broken_limits

METHODS = ("projection", "recursion")
MASSES = ("consistent", "accelerability")


def reduce(
    mech: Mechanism,
    end_effectors: Sequence[str] | str,
    at: Equilibrium | None = None,
    method: str = "projection",
    mass: str = "consistent",
    modes: int = 0,
    tolerance: float = 1e-8,
) -> ReducedModel:
    """Reduces a mechanism with springs to a linear model of its end effectors, six coordinates for each.

    Arguments:
        mech: The mechanism.
        end_effectors: Names of bodies or sites. Loads and contacts can act on them only.
        at: The equilibrium to linearise at, with its preload, gravity and loads. Without it the model is made at the
            reference pose, which is treated as an equilibrium: preload and gravity are taken as balanced there.
        method: "projection" solves the engine's tangent for unit wrenches. "recursion" is the construction of the
            FORK-1S paper; it works at the reference pose only.
        mass: "consistent" is the mass matrix Phi^T M Phi of the kinetic energy of all links, where Phi maps the motion
            of the end effectors to that of the links. "accelerability" projects the inverse mass and the inverse
            damping, as the paper does.
        modes: Number of fixed-interface modes (Craig-Bampton) to add.
        tolerance: A direction in which joints move the end effectors by less than this, relative to the largest
            direction and with lengths over the mechanism's radius, counts as inadmissible.

    Raises:
        MechanismError: An argument is wrong, a loop is open at the reference pose, or nothing holds some coordinate.

    A limit that the reference pose violates is left out of the model, with a `RangeWarning`. Loops that the recursion
    takes as open are named in one, too.
    """
    names = _checked_names(mech, end_effectors, method, mass, modes, tolerance)
    if method == "recursion" or mass == "accelerability":
        refuse_flexible(mech.flexible, "the published reduction", 'use method="projection", mass="consistent"')
    held, base = held_base(mech)
    if base is not None:
        if at is not None:
            raise MechanismError(f"'{mech.name}' floats: it is reduced at its reference pose only (at=None)")
        names = [name for name in names if name != base]
    if at is None:
        check_loops_closed(held)
        held = without_broken_limits(held)
    linear = linearised(held, at, turning=names)
    check_held(linear, "" if at is not None else "supple.reduce")
    if method == "recursion":
        if at is not None:
            raise MechanismError('method="recursion" works at the reference pose only; use method="projection"')
        maps = recursion(held, names)
        _warn_of_ignored_loops(held, names)
    else:
        maps = projection(linear, names)
    space = AdmissibleSpace(linear, names, tolerance, base_is_free=base is not None)
    shapes, maps = _static_shapes(space, maps)
    shapes = _without_idle_momentum(linear, shapes)
    if modes:
        shapes = _with_modes(linear, space, modes, shapes)
    if mass == "consistent":
        inertia = projected_mass(held, shapes.twists, shapes.increments, linear.q)
        resistance = projected_damping(held, shapes.increments, linear.q)
    elif modes:
        raise MechanismError('modes need mass="consistent"; the published mass is that of the end effectors alone')
    else:
        inertia, resistance = published_mass(linear, space, method), published_damping(linear, space, method)
    basis, cobasis = shapes.basis, shapes.cobasis
    model = ReducedModel(
        held,
        tuple(names),
        compliance=basis @ np.linalg.inv(shapes.stiffness) @ basis.T,
        stiffness=cobasis.T @ shapes.stiffness @ cobasis,
        damping=cobasis.T @ ((resistance + resistance.T) / 2) @ cobasis,
        mass=cobasis.T @ ((inertia + inertia.T) / 2) @ cobasis,
        twist_map=maps.twists,
        wrench_map=maps.wrenches,
        motion_map=shapes.twists @ cobasis,
        coordinate_map=shapes.increments @ cobasis,
        basis=basis,
        cobasis=cobasis,
        rank=space.rank,
        modes=modes,
        rest_poses=linear.poses,
        wrenches=_end_effector_loads(linear, names, at),
        q=linear.q,
        method=method,
        mass_kind=mass,
        at=at,
    )
    return model if base is None else floating(mech, base, model)


def _warn_of_ignored_loops(mech: Mechanism, end_effectors: Sequence[str]) -> None:
    ignored = ignored_merges(mech, end_effectors)
    if ignored:
        text = f"the recursion takes loops of '{mech.name}' as open, so that the model may be too soft; they close at "
        warnings.warn(text + f"{listed(ignored)}; {PROJECTION}", RangeWarning, stacklevel=user_level())


@dataclass(frozen=True)
class _Shapes:
    """The m shapes that the model's coordinates z stand for: r of the end effectors, then k modes."""

    twists: Array
    """Phi (bodies, 6, m): every link's twist per unit of z."""
    increments: Array
    """(axes, m): increments of every joint's coordinates per unit of z."""
    stiffness: Array
    """(m, m): symmetric."""
    basis: Array
    """(n, m): displacement of the end effectors (6e) and of the modes (k) per unit of z."""
    cobasis: Array
    """(m, n): z of a displacement."""


def _static_shapes(space: AdmissibleSpace, maps: Maps) -> tuple[_Shapes, Maps]:
    """The shapes that links take when the end effectors are displaced statically, and the maps of the model.

    `maps` are responses to wrenches while the present loads turn with their bodies: their inverse is K_body, which
    is unsymmetric under load. The model keeps its symmetric part K, the Hessian of its energy b^T xi + 1/2 xi^T K xi.
    The maps that are returned respond to the same wrench as `compliance`, K^-1: the generalised force of xi.
    """
    stiffness_body = np.linalg.inv(space.cobasis @ maps.compliance @ space.cobasis.T)
    stiffness = (stiffness_body + stiffness_body.T) / 2
    by_displacement = space.cobasis.T @ stiffness_body  # wrenches (6e, r) that displace the end effectors by P z
    shapes = _Shapes(
        maps.twists @ by_displacement, maps.coordinates @ by_displacement, stiffness, space.basis, space.cobasis
    )
    # Wrenches with loads that turn, for unit generalised forces; the same for forces that constraints take.
    difference = stiffness_body - stiffness
    turning = np.eye(len(space.basis)) + space.cobasis.T @ difference @ np.linalg.solve(stiffness, space.basis.T)
    return shapes, maps.transformed(turning)


def _without_idle_momentum(linear: Linearisation, shapes: _Shapes) -> _Shapes:
    """The shapes with the turns of idle spins that a motion without momentum about their axes has.

    Statics does not determine these turns. Phi <- Phi - S (S^T M S)^-1 S^T M Phi, with S the spins.
    """
    if not linear.equations.idle:
        return shapes
    increments = spin_increments(linear.mechanism, linear.equations.idle, linear.poses).T
    twists = np.einsum("abi,as->bis", linear.jacobian, increments)
    s = increments.shape[1]
    both = np.concatenate([twists, shapes.twists], axis=2), np.concatenate([increments, shapes.increments], axis=1)
    mass = projected_mass(linear.mechanism, *both, linear.q)[:s]
    heavy = np.diag(mass) > 0
    turns = np.linalg.solve(mass[:, :s][heavy][:, heavy], mass[:, s:][heavy])
    return replace(
        shapes,
        twists=shapes.twists - twists[:, :, heavy] @ turns,
        increments=shapes.increments - increments[:, heavy] @ turns,
    )


def listed_names(end_effectors: Sequence[str] | str) -> list[str]:
    """A list of names from one name or several."""
    names = [end_effectors] if isinstance(end_effectors, str) else end_effectors
    if not isinstance(names, Iterable) or not (names := list(names)):
        raise MechanismError(f"name at least one end effector (a body or site), got {end_effectors!r}")
    return names


def _checked_names(
    mech: Mechanism,
    end_effectors: Sequence[str] | str,
    method: str,
    mass: str,
    modes: int,
    tolerance: float,
) -> list[str]:
    """The end effectors' names, or an error for the first argument that is wrong."""
    check_mechanism(mech)
    names = listed_names(end_effectors)
    for name in names:
        if mech.frame(name)[0] < 0:
            raise MechanismError(f"end effector '{name}' cannot move: it is fixed to the world")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise MechanismError(f"end effector '{twice[0]}' is named twice")
    if method not in METHODS or mass not in MASSES:
        raise MechanismError(f"method is one of {METHODS} and mass one of {MASSES}, got {method!r} and {mass!r}")
    if isinstance(modes, bool) or not isinstance(modes, int | np.integer) or modes < 0:
        raise MechanismError(f"modes must be a number of modes, 0 or more, got {modes!r}")
    if not 0 < tolerance < 1:
        raise MechanismError(f"tolerance must lie between 0 and 1, got {tolerance}")
    return names


def _with_modes(linear: Linearisation, space: AdmissibleSpace, count: int, shapes: _Shapes) -> _Shapes:
    """Adds the slowest modes with the end effectors fixed (Craig and Bampton)."""
    from scipy.linalg import eigh

    interior = null_space(space.tips)
    if count > interior.shape[1]:
        name, available = linear.mechanism.name, interior.shape[1]
        raise MechanismError(f"'{name}' has {available} modes with its end effectors held, not {count}")
    own = interior.T @ linear.stiffness @ interior
    values, vectors = eigh((own + own.T) / 2, interior.T @ linear.mass @ interior, subset_by_index=(0, count - 1))
    twists, increments = np.split(linear.motions @ (interior @ vectors), [linear.layout.twists.stop])
    return _Shapes(
        np.concatenate([shapes.twists, twists.reshape(-1, 6, count)], axis=2),
        np.concatenate([shapes.increments, increments], axis=1),
        _block_diagonal(shapes.stiffness, np.diag(values)),
        _block_diagonal(shapes.basis, np.eye(count)),
        _block_diagonal(shapes.cobasis, np.eye(count)),
    )


def _block_diagonal(a: Array, b: Array) -> Array:
    result = np.zeros((a.shape[0] + b.shape[0], a.shape[1] + b.shape[1]))
    result[: a.shape[0], : a.shape[1]], result[a.shape[0] :, a.shape[1] :] = a, b
    return result


def _end_effector_loads(linear: Linearisation, names: Sequence[str], at: Equilibrium | None) -> Array:
    """(6e,) the equilibrium's loads on the end effectors, each in its own axes."""
    wrenches = np.zeros(6 * len(names))
    for load in at.loads if at is not None else ():
        if load.name in names:
            i = list(names).index(load.name)
            to_frame = linear.poses[load.name] if load.world else linear.mechanism.frame(load.name)[1]
            wrenches[6 * i : 6 * i + 6] += turned(to_frame[:3, :3].T, load.wrench)
    return wrenches
