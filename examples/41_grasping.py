"""A hand grasps a block and lifts it by friction. How much friction is needed, and what happens with less?

Writes a picture into the folder given (by default the current one):  python 41_grasping.py docs/pictures
"""

import sys
from pathlib import Path

import numpy as np

import supple
from supple.viewer.world_picture import draw_world
from supple.world import rigid_object
from supple.world.scenes.hand import BLOCK

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
pressed = {}
for level in ("reduced", "full"):
    scene = supple.scenes.hand(level)
    recording = scene.record(2.0, rate=10)
    contacts = [c for c in scene.world.contacts if np.linalg.norm(c.force) > 0]
    pressed[level] = np.array([abs(c.force @ c.normal) for c in contacts])
    print(f"{level}: the block is at {scene.world.pose('block')[2, 3]:.4f} m, the fingertips press with", end=" ")
    print(", ".join(f"{force:.2f}" for force in pressed[level]), "N")
    if level == "reduced":
        kept, forces = recording, [(c.point, c.force * (1 if c.first == "block" else -1)) for c in contacts]
off = np.abs(pressed["reduced"] / pressed["full"] - 1).max()
print(f"reduced and full forces differ by at most {100 * off:.1f} %")
limit = 0.2 * 9.81 / pressed["reduced"].sum()
print(f"to carry the block the fingertips need a friction of {limit:.4f}")
for factor in (1.15, 0.85):
    trial = supple.scenes.hand(friction=factor * limit)
    trial.run(2.0)
    outcome = "lifted" if trial.world.pose("block")[2, 3] > 0.09 else "left behind"
    print(f"with {factor:.2f} of that it is {outcome}")
scene = supple.scenes.hand()
block = rigid_object("block", "box", BLOCK, 0.2), [kept.poses_of("block")[k] for k in (0, -1)]
draw_world(
    scene.mechanism,
    [kept.at(time).array[: len(scene.mechanism.bodies)] for time in (0.1, 2.0)],
    path=folder / "grasping.png",
    title="a block lifted by five fingertips",
    objects=[block],
    ground=scene.ground,
    forces=forces,
    view=(14, -60),
    around=0.03,
)
