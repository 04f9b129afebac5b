"""The Shadow Hand, reduced to its fingertips, lifts a ball by friction; compared with the full engine.

It reads the MJCF file from ../shared/robots beside the project and writes a picture into the folder given (by
default the current one):  python 45_shadow_hand.py docs/pictures
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import supple
from supple.viewer.world_picture import draw_world
from supple.world import rigid_object
from supple.world.scenes.shadow_hand import RADIUS

file = Path(__file__).parents[2] / "shared/robots/shadow_hand/right_hand.xml"
if not file.exists():
    print("There is no shared/robots/shadow_hand beside the project: nothing to show.")
    sys.exit()
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
warnings.simplefilter("ignore", supple.ImportWarning)  # friction of joints and force limits of servos
pressed = {}
for level in ("full", "reduced"):
    scene = supple.scenes.shadow_hand(file, level)
    recording = scene.record(2.0, rate=10)
    contacts = [c for c in scene.world.contacts if np.any(c.force)]
    pressed[level] = np.array([abs(c.force @ c.normal) for c in contacts])
    up = 1e3 * np.ptp(recording.poses_of("ball")[1:, 2, 3])
    print(f"{level}: the ball is {up:.1f} mm up, the fingertips press with", end=" ")
    print(", ".join(f"{force:.2f}" for force in pressed[level]), "N")
off = np.abs(pressed["reduced"] / pressed["full"] - 1).max()
print(f"reduced and full forces differ by at most {100 * off:.1f} %")
slippery = supple.scenes.shadow_hand(file, friction=0.05)
slippery.run(2.0)
height = slippery.world.pose("ball")[2, 3]
print(f"with a friction of 0.05 instead of 1 the ball slips out: it lies {1e3 * height:.0f} mm over the floor")
ball = rigid_object("ball", "sphere", (RADIUS,), 0.1), [recording.poses_of("ball")[-1]]
draw_world(
    scene.mechanism,
    [recording.at(2.0).array[: len(scene.mechanism.bodies)]],
    path=folder / "shadow_hand.png",
    title="the Shadow Hand, reduced to its fingertips",
    objects=[ball],
    ground=scene.ground[:1],
    forces=[(c.point, c.force * (1 if c.first == "ball" else -1)) for c in contacts],
    view=(5, -80),
    around=0.01,
)
