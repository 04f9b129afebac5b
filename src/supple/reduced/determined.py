"""Whether the poses of end effectors determine all coordinates of a mechanism, so that it has no interior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from supple.engine.linearisation import linearised
from supple.errors import ConvergenceError
from supple.mechanism import Mechanism
from supple.mechanism.assembling import assemble
from supple.mechanism.idle import idle_spins
from supple.mechanism.record import Array

AWAY = (0.0, 0.1, 0.3)
"""Largest distances of the random poses from the reference pose, rad or radii. That pose itself may be singular."""
SMALLEST = 1e-6
"""Smallest singular value over the largest of a Jacobian of full rank."""


def determine_coordinates(mech: Mechanism, end_effectors: Sequence[str]) -> bool:
    """Whether the poses of the end effectors determine all coordinates nearly everywhere.

    They do if no admissible motion leaves all end effectors at rest: the Jacobian of the end effectors, times a basis
    of the motions that loops, rigid couplings and motors allow, has full column rank. A Jacobian that has full rank at
    one pose has it at nearly all poses, so one of a few random poses near the reference pose suffices.
    """
    if idle_spins(mech, end_effectors):
        return False
    free = _without_limits(mech)
    rng = np.random.default_rng(0)
    for distance in AWAY:
        try:
            at = free if distance == 0 else _moved(free, distance * rng.uniform(-1, 1, mech.dof))
        except ConvergenceError:
            continue
        linear = linearised(at, turning=end_effectors)
        lengths = np.tile([mech.radius or 1.0] * 3 + [1.0] * 3, len(end_effectors))
        twists = linear.jacobian_of(end_effectors) @ linear.free / lengths[:, None]
        if twists.shape[1] > twists.shape[0]:
            return False
        sizes = np.linalg.svd(twists, compute_uv=False)
        if len(sizes) and sizes[-1] > SMALLEST * sizes[0]:
            return True
    return False


def _without_limits(mech: Mechanism) -> Mechanism:
    """The mechanism without limits, which take away coordinates while they are touched."""
    joints = tuple(replace(j, limits=np.tile([-np.inf, np.inf], (len(j.axes), 1))) for j in mech.joints)
    couplings = tuple(replace(c, limits=np.array([-np.inf, np.inf])) for c in mech.couplings)
    return replace(mech, joints=joints, couplings=couplings)


def _moved(mech: Mechanism, by: Array) -> Mechanism:
    """The mechanism at a pose with closed loops near its coordinates plus `by` (dof,), rad or radii."""
    slides = np.array([mech.joint(name).kind == "slide" for name in mech.coordinates])
    q = np.asarray(assemble(mech).q) + by * np.where(slides, mech.radius or 1.0, 1.0)
    return assemble(mech, q).mechanism
