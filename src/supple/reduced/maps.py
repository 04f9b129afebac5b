"""What a reduction method finds out about a mechanism, before it becomes a model."""

from __future__ import annotations

from dataclasses import dataclass

from supple.mechanism.record import Array


@dataclass(frozen=True)
class Maps:
    """Responses of the whole mechanism to unit wrenches on e end effectors, each in its own body axes.

    Twists and wrenches are linear part first, in the frame of the body (or site) they belong to.
    """

    compliance: Array
    """(6e, 6e): twists of the end effectors; m/N, rad/N, m/(N m), rad/(N m)."""
    twists: Array
    """(bodies, 6, 6e): twist of every body."""
    wrenches: Array
    """(bodies, 6, 6e): wrench that arrives at every body from what lies beyond it, its own load included."""
    coordinates: Array
    """(axes, 6e): increments of every joint's coordinates, in the order of `mech.joints`."""
