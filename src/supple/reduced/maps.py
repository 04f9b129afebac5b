"""The result of a reduction method (projection or recursion), from which a model is made."""

from __future__ import annotations

from dataclasses import dataclass

from supple.mechanism.record import Array


@dataclass(frozen=True)
class Maps:
    """Responses of the whole mechanism to unit wrenches on e end effectors, each in its own body axes.

    Twists and wrenches are linear part first, in the frame of the body (or site) they belong to. Loads that act on the
    end effectors already turn with them.
    """

    compliance: Array
    """(6e, 6e): twists of the end effectors; m/N, rad/N, m/(N m), rad/(N m)."""
    twists: Array
    """(bodies, 6, 6e): twist of every body."""
    wrenches: Array
    """(bodies, 6, 6e): wrench that every body hands on towards the world, its own load included."""
    coordinates: Array
    """(axes, 6e): increments of every joint's coordinates, in the order of `mech.joints`."""

    def transformed(self, wrenches: Array) -> Maps:
        """Responses to other wrenches: the columns of `wrenches` (6e, 6e)."""
        parts = self.compliance, self.twists, self.wrenches, self.coordinates
        return Maps(*(part @ wrenches for part in parts))
