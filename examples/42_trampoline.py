"""Two firefighters catch a falling ball: 19 links and 5 loops are reduced to one end effector, the sheet.

Writes a picture into the folder given (by default the current one):  python 42_trampoline.py docs/pictures
"""

import sys
from pathlib import Path
from time import perf_counter

import numpy as np

import supple
from supple.viewer.world_picture import draw_world
from supple.world import rigid_object

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
paths = {}
for level in ("reduced", "full"):
    scene = supple.scenes.trampoline(level)
    start = perf_counter()
    recording = scene.record(1.2, rate=50)
    paths[level] = recording.poses_of("body")[:, 2, 3]
    print(f"{level}: 1.2 s took {perf_counter() - start:.2f} s; the ball's lowest point is {paths[level].min():.3f} m")
    if level == "reduced":
        kept = recording
print(f"the two falls differ by at most {1e3 * np.abs(paths['reduced'] - paths['full']).max():.1f} mm")
lowest = int(np.argmin(paths["reduced"]))
ball = rigid_object("body", "sphere", (0.15,), 12.0)
draw_world(
    scene.mechanism,
    [kept.at(kept.times[k]).array[: len(scene.mechanism.bodies)] for k in (0, lowest)],
    path=folder / "trampoline.png",
    title="caught: the sheet is the only end effector",
    objects=[(ball, [kept.poses_of("body")[k] for k in (0, lowest)])],
    view=(12, -75),
)
