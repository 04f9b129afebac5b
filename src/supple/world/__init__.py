"""Mechanisms, rigid objects and ground, stepped together with contact."""

from supple.mechanism.moving import Contact
from supple.world.objects import rigid_object
from supple.world.world import World, WorldState

__all__ = ["Contact", "World", "WorldState", "rigid_object"]
