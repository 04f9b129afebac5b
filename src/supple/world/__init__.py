"""Mechanisms, free objects and ground, stepped together."""

from supple.world.objects import solid
from supple.world.world import Contact, World, WorldState

__all__ = ["Contact", "World", "WorldState", "solid"]
