"""A six-legged robot walks over uneven ground: reduced to its feet and its hull, and compared with the full engine.

Writes a picture into the folder given (by default the current one):  python 40_walking.py docs/pictures
"""

import sys
from pathlib import Path
from time import perf_counter

import numpy as np

import supple
from supple.viewer.world_picture import draw_world

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
scene = supple.scenes.hexapod()
start = perf_counter()
recording = scene.record(6.0, folder / "walk.npz", rate=10)
took = perf_counter() - start
path = recording.poses_of("hexapod:hull")[:, :3, 3]
print(f"walked {path[-1, 0]:.2f} m in 6 s, computed in {took:.1f} s; set-points every 10 ms")
print(
    f"the hull stayed {path[:, 2].min():.3f} to {path[:, 2].max():.3f} m high; it swayed by {np.ptp(path[:, 1]):.3f} m"
)
touching = [c for c in scene.world.contacts if np.linalg.norm(c.force) > 0]
carried = sum(abs(c.force @ c.normal) for c in touching)
print(f"{len(touching)} feet carry {carried:.1f} N now; the residual is {scene.world.residual:.1e}")
print(f"recorded in walk.npz: {len(recording)} frames; play it with: supple replay walk.npz")
(folder / "walk.npz").unlink()

full = supple.scenes.hexapod("full")
short = full.record(1.5, rate=10)
apart = np.linalg.norm(short.poses_of("hexapod:hull")[:, :3, 3] - path[: len(short)], axis=1).max()
print(f"over the first 1.5 s the full engine's hull is at most {1e3 * apart:.1f} mm away")
moments = [recording.at(time).array for time in (1.5, 3.7, 6.0)]
forces = [(c.point, c.force * (1 if c.first.startswith("hexapod") else -1)) for c in touching]
draw_world(
    scene.mechanism,
    moments,
    path=folder / "walking.png",
    title="six legs on uneven ground, reduced: 24 numbers",
    ground=scene.ground,
    forces=forces,
    view=(25, -70),
)
