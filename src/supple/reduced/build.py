"""`supple.reduce`: from a mechanism to its reduced model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from supple.engine import Equilibrium
from supple.engine.assembly import turned
from supple.engine.linearisation import RANK_TOLERANCE, Linearisation, check_held, linearised, null_space
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.axes import axis_names, per_axis
from supple.mechanism.kinematics import inertias
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.record import Array
from supple.reduced.floating import floating
from supple.reduced.maps import Maps
from supple.reduced.model import ReducedModel, held_base
from supple.reduced.projection import projection

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
    """Folds a sprung mechanism into a linear model of its end effectors (bodies or sites).

    Without `at` the reference pose is taken as held: preload and gravity count as balanced there. `at` an
    equilibrium linearises there, preload, gravity and loads included. `method="recursion"` is the published
    construction (reference pose only). `mass="consistent"` is the energy of the links' own motion,
    `"accelerability"` the published projection of the inverse mass. `modes` adds that many fixed-interface
    modes. Directions smaller than `tolerance`, relative to the largest and with lengths over the mechanism's
    radius, count as inadmissible.
    """
    names = _checked(mech, end_effectors, method, mass, modes, tolerance)
    held, base = held_base(mech)
    if base is not None:
        if at is not None:
            raise MechanismError(f"'{mech.name}' floats: it is reduced at its reference pose only (at=None)")
        names = [name for name in names if name != base]
    linear = linearised(held, at, turning=names)
    check_held(linear)
    if method == "recursion":
        from supple.reduced.recursion import recursion

        if at is not None:
            raise MechanismError('method="recursion" works at the reference pose only; use method="projection"')
        maps = recursion(held, names)
    else:
        maps = projection(linear, names)

    parts = _Parts(linear, names, tolerance, floating=base is not None)
    stiffness_body = np.linalg.inv(parts.cobasis @ maps.compliance @ parts.cobasis.T)
    wrench_of_z = parts.cobasis.T @ stiffness_body  # the wrench that moves the tips by basis @ z
    motion, turns = maps.twists @ wrench_of_z, maps.coordinates @ wrench_of_z
    stiffness = (stiffness_body + stiffness_body.T) / 2
    basis, cobasis = parts.basis, parts.cobasis
    if modes:
        stiffness, motion, turns, basis, cobasis = _with_modes(linear, parts, modes, stiffness, motion, turns)
    inertia, resistance = _consistent(held, motion, turns)
    if mass == "accelerability":
        inertia, resistance = _published(linear, parts, names, method, inertia, resistance)

    model = _assemble(linear, names, maps, at, method, mass, modes, parts.rank, motion, turns, basis, cobasis,
                      stiffness, resistance, inertia)  # fmt: skip
    return model if base is None else floating(mech, base, model)


class _Parts:
    """The admissible space of the end effectors: range of their rows of the allowed motions."""

    def __init__(self, linear: Linearisation, names: Sequence[str], tolerance: float, floating: bool = False) -> None:
        by_axes = linear.jacobian_of(names)
        self.tips: Array = by_axes @ linear.free
        """(6e, free): twists of the end effectors per allowed motion."""
        radius = linear.mechanism.radius or 1.0
        lengths = np.tile([radius] * 3 + [1.0] * 3, len(names))
        scaled = self.tips / lengths[:, None]
        # what loops, couplings and motors leave of a motion that they hold is rounding, not a small motion
        rounding = RANK_TOLERANCE * np.abs(by_axes / lengths[:, None]).max(axis=1, initial=0.0)
        for i, name in enumerate(() if floating else names):
            part = slice(6 * i, 6 * i + 6)
            if not np.abs(scaled[part]).max(initial=0.0) > rounding[part].max():
                raise MechanismError(
                    f"end effector '{name}' cannot move: every joint on its way to the world is fixed, held by a motor "
                    "or a limit, or locked by a loop; name a body that springs let move"
                )
        left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
        self.rank = int((sizes > max(tolerance * sizes.max(initial=0.0), rounding.max(initial=0.0))).sum())
        self.basis: Array = lengths[:, None] * left[:, : self.rank]
        self.cobasis: Array = left[:, : self.rank].T / lengths


def listed_names(end_effectors: Sequence[str] | str) -> list[str]:
    """One name, or several."""
    names = [end_effectors] if isinstance(end_effectors, str) else end_effectors
    if not isinstance(names, Iterable) or not (names := list(names)):
        raise MechanismError(f"name at least one end effector (a body or site), got {end_effectors!r}")
    return names


def _checked(
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


def _consistent(mech: Mechanism, motion: Array, turns: Array) -> tuple[Array, Array]:
    """Mass and damping from the energy and the losses of every link's own motion: Phi^T M Phi."""
    mass = np.einsum("bim,bij,bjn->mn", motion, inertias(mech), motion, optimize=True)
    armature, damping = (per_axis(mech, what) for what in ("armature", "damping"))
    mass += turns.T @ (armature[:, None] * turns)
    resistance = turns.T @ (damping[:, None] * turns)
    names = axis_names(mech)
    for c in mech.couplings:
        if not c.rigid and c.damping:
            length = c.coefficients @ turns[[names.index(n) for n in c.coordinates]]
            resistance += c.damping * np.outer(length, length)
    return (mass + mass.T) / 2, (resistance + resistance.T) / 2


def _with_modes(
    linear: Linearisation, parts: _Parts, count: int, stiffness: Array, motion: Array, turns: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Adds the slowest modes with the end effectors held (Craig and Bampton)."""
    from scipy.linalg import eigh

    inside = null_space(parts.tips)
    if count > inside.shape[1]:
        name, found = linear.mechanism.name, inside.shape[1]
        raise MechanismError(f"'{name}' has {found} modes with its end effectors held, not {count}")
    own = inside.T @ linear.stiffness @ inside
    values, vectors = eigh((own + own.T) / 2, inside.T @ linear.mass @ inside, subset_by_index=(0, count - 1))
    shapes = linear.motions @ (inside @ vectors)
    nb = len(linear.mechanism.bodies)
    wide = np.zeros((len(stiffness) + count,) * 2)
    wide[: len(stiffness), : len(stiffness)] = stiffness
    wide[len(stiffness) :, len(stiffness) :] = np.diag(values)
    n = len(parts.basis)
    basis, cobasis = np.zeros((n + count, parts.rank + count)), np.zeros((parts.rank + count, n + count))
    basis[:n, : parts.rank], basis[n:, parts.rank :] = parts.basis, np.eye(count)
    cobasis[: parts.rank, :n], cobasis[parts.rank :, n:] = parts.cobasis, np.eye(count)
    return (
        wide,
        np.concatenate([motion, shapes[: 6 * nb].reshape(nb, 6, count)], axis=2),
        np.concatenate([turns, shapes[6 * nb :]], axis=1),
        basis,
        cobasis,
    )


def _published(
    linear: Linearisation, parts: _Parts, names: Sequence[str], method: str, mass: Array, resistance: Array
) -> tuple[Array, Array]:
    """The published mass and damping: their inverses projected, J M^-1 J^T; undamped joints keep the consistent one."""
    if len(mass) > parts.rank:
        raise MechanismError('modes need mass="consistent"; the published mass is that of the end effectors alone')
    if method == "recursion":
        from supple.reduced import recursion

        return _inverse(parts, recursion.accelerability(linear.mechanism, names)), resistance
    damping = per_axis(linear.mechanism, "damping")
    drag = linear.free.T @ (damping[:, None] * linear.free)
    if (damping > 0).all():
        resistance = _inverse(parts, parts.tips @ np.linalg.solve(drag, parts.tips.T))
    accelerability: Array = parts.tips @ np.linalg.solve(linear.mass, parts.tips.T)
    return _inverse(parts, accelerability), resistance


def _inverse(parts: _Parts, projected: Array) -> Array:
    inverse = np.linalg.inv(parts.cobasis @ projected @ parts.cobasis.T)
    symmetric: Array = (inverse + inverse.T) / 2
    return symmetric


def _assemble(
    linear: Linearisation, names: Sequence[str], maps: Maps, at: Equilibrium | None, method: str, mass_kind: str,
    modes: int, rank: int, motion: Array, turns: Array, basis: Array, cobasis: Array, stiffness: Array, damping: Array,
    mass: Array,
) -> ReducedModel:  # fmt: skip
    mech = linear.mechanism
    wrenches = np.zeros(6 * len(names))
    for load in at.loads if at is not None else ():
        if load.name in names:
            i = list(names).index(load.name)
            to_frame = linear.poses[load.name][:3, :3].T if load.world else mech.frame(load.name)[1][:3, :3].T
            wrenches[6 * i : 6 * i + 6] += turned(to_frame, load.wrench)
    return ReducedModel(
        mech,
        tuple(names),
        compliance=basis @ np.linalg.inv(stiffness) @ basis.T,
        stiffness=cobasis.T @ stiffness @ cobasis,
        damping=cobasis.T @ damping @ cobasis,
        mass=cobasis.T @ mass @ cobasis,
        twist_map=maps.twists,
        wrench_map=maps.wrenches,
        motion_map=motion @ cobasis,
        coordinate_map=turns @ cobasis,
        basis=basis,
        cobasis=cobasis,
        rank=rank,
        modes=modes,
        rest_poses=linear.poses,
        wrenches=wrenches,
        q=linear.q,
        method=method,
        mass_kind=mass_kind,
        at=at,
    )
