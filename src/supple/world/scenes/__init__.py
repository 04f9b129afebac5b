"""Example scenes, a function each: a `Scene` has a world, a mechanism and its controller."""

from supple.world.scenes._scene import Scene
from supple.world.scenes.hand import hand
from supple.world.scenes.hexapod import hexapod
from supple.world.scenes.peg import peg_in_hole
from supple.world.scenes.shadow_hand import shadow_hand
from supple.world.scenes.suspension import suspension
from supple.world.scenes.trampoline import trampoline

__all__ = ["Scene", "hand", "hexapod", "peg_in_hole", "shadow_hand", "suspension", "trampoline"]
