"""A contact scene with soft fingertips."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.elastic._checks import Array
from supple.elastic.material import Material
from supple.elastic.solid import Solid
from supple.mechanism import Shape
from supple.reduced import ReducedSimulation
from supple.world.objects import rigid_object
from supple.world.scenes._scene import Scene, motion, smooth
from supple.world.scenes.hand import BLOCK, FINGERS, TIP, WRIST, grasp, robot
from supple.world.world import World
from supple.zones.generate import lattice
from supple.zones.skin import Attached, Skin
from supple.zones.zone import Zone

RUBBER = Material(young=3e5, poisson=0.45, density=1100.0)
INNER = 3.5e-3
"""m, radius of the bone inside a fingertip; the skin's outer radius is that of the fingertips of `scenes.hand`."""
CELLS = (5, 5, 2)
"""Hexahedra of a fingertip along its two arcs and through it."""
RELAXATION = 0.01
"""s, of the skin."""
SQUEEZE = 0.03
"""rad, by which every joint of the fingers closes."""


def soft_hand(
    level: str = "reduced",
    dt: float = 2e-3,
    friction: float = 0.8,
    mass: float = 0.2,
    lift: float = 0.06,
    twist: float = 0.6,
) -> Scene:
    """The hand of `supple.scenes.hand` with soft fingertips: it grasps a block of `mass` kg, lifts it by `lift` m from
    0.5 s to 1.3 s and turns it by `twist` rad about the vertical from 1.5 s to 2.5 s. Friction alone holds the block.
    `world.touch("hand:index_distal")` is the pressure on a fingertip."""
    mech = robot(None, carried=level == "full")
    sim = motion(mech, [f"{finger}_tip" for finger in FINGERS], dt, level)
    world = World(dt=dt)
    world.add(sim, "hand")
    floor = Shape("plane", (0, 0, 1), np.eye(4), name="floor", friction=(0.5, 0, 0))  # type: ignore[arg-type]
    world.ground(floor)
    world.add(rigid_object("block", "box", BLOCK, mass, (0, 0, BLOCK[2]), friction=0.0))
    zone = Zone.from_solid(fingertip(), RUBBER, bone="bone", touch="outer")
    attached = {}
    for finger in FINGERS:
        body, pose = f"{finger}_distal", mech.poses.of(f"{finger}_distal")
        inward = np.array([1.0 if finger == "thumb" else -1.0, 0, 0])
        turn = spatial.rotation_between([0.0, 0, 1], inward)
        tip = mech.frame(f"{finger}_tip")[1]
        at = spatial.pose(turn, (pose @ tip)[:3, 3])
        attached[finger] = Attached(zone, body, spatial.inverse(pose) @ at)
    skin = Skin(mech, attached)
    for finger in FINGERS:
        body = f"{finger}_distal"
        world.cover(f"hand:{body}", skin.pad(finger, frame=body, friction=friction, relaxation=RELAXATION))
    fingers, home = grasp(SQUEEZE), mech.poses["palm"]

    def steer(time: float) -> dict[str, float]:
        up, turn = lift * smooth((time - 0.5) / 0.8), twist * smooth((time - 1.5) / 1.0)
        if isinstance(sim, ReducedSimulation):
            turned = spatial.exp(np.array([0, 0, 0, 0, 0, turn]))
            sim.mount(spatial.translation([0.0, 0, up]) @ turned @ home, *WRIST)
            return fingers(time)
        return fingers(time) | {"wrist.2": up, "wrist.5": turn}

    return Scene("a hand with soft fingertips that lifts and twists a block", world, sim, (floor,), steer)


def fingertip(radius: float = TIP, inner: float = INNER) -> Solid:
    """A shell that covers a sixth of a sphere around +z; its groups are `bone` (the inner face) and `outer`."""
    ids, cells = lattice(np.array(CELLS))
    u, v, r = (np.linspace(0, 1, n + 1) for n in CELLS)
    across, along, depth = np.meshgrid(np.tan((u - 0.5) * np.pi / 2), np.tan((v - 0.5) * np.pi / 2), r, indexing="ij")
    directions = np.stack([across, along, np.ones_like(across)], axis=-1)
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    nodes: Array = (directions * (inner + (radius - inner) * depth)[..., None]).reshape(-1, 3)
    return Solid(nodes, cells, {"bone": ids[:, :, 0].ravel(), "outer": ids[:, :, -1].ravel()})
