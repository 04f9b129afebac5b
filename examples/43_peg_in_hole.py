"""A peg, 3 mm off, slides into its hole: its end is round, and the arm is compliant. The peg is the end effector.

Writes a picture into the folder given (by default the current one):  python 43_peg_in_hole.py docs/pictures
"""

import sys
from pathlib import Path

import numpy as np

import supple
from supple.viewer.world_picture import draw_world

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
tips = {}
for level in ("reduced", "full"):
    scene = supple.scenes.peg_in_hole(level)
    recording = scene.record(2.4, rate=20)
    peg = recording.poses_of("inserter:peg")[:, :3, 3]
    tips[level] = peg
    deep = 0.05 - (peg[-1, 2] - 0.045)
    aside = np.linalg.norm(peg[-1, :2])
    print(f"{level}: {1e3 * deep:.1f} mm down the hole, {1e3 * aside:.2f} mm to the side of where it began")
    print(f"  walls push with {np.linalg.norm(scene.world.force_on('inserter')):.1f} N in all")
    if level == "reduced":
        kept = recording
print(f"the two paths differ by at most {1e3 * np.linalg.norm(tips['reduced'] - tips['full'], axis=1).max():.2f} mm")
draw_world(
    scene.mechanism,
    [kept.at(time).array for time in (0.05, 2.4)],
    path=folder / "peg_in_hole.png",
    title="peg in hole: twelve links seen as one peg",
    ground=scene.ground[1:3],
    view=(14, -50),
    around=0.02,
)
