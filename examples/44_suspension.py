"""A vehicle on four double wishbones coasts over bumps: the reduced model compared with the full engine.

Writes a plot into the folder given (by default the current one):  python 44_suspension.py docs/pictures
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
heights = {}
for level, colour, width in (("full", "#2b2f36", 2.4), ("reduced", "#d1495b", 1.2)):
    scene = supple.scenes.suspension(level)
    start = perf_counter()
    recording = scene.record(5.0, rate=40)
    took = perf_counter() - start
    chassis = recording.positions[:, scene.mechanism.body_index("chassis")]
    heights[level] = chassis[:, 2]
    low, high = chassis[:, 2].min(), chassis[:, 2].max()
    print(f"{level}: 5 s took {took:.2f} s; the chassis moved between {low:.3f} and {high:.3f} m")
    axes.plot(chassis[:, 0], 1e3 * chassis[:, 2], color=colour, lw=width, label=f"chassis, {level}")
print(f"the two chassis differ by at most {1e3 * np.abs(heights['reduced'] - heights['full']).max():.1f} mm in height")
track = scene.ground[0]
x = np.linspace(-track.size[0], track.size[0], track.heights.shape[1]) + track.pose[0, 3]
for row, name in ((2, "right"), (6, "left")):
    axes.plot(x, 1e3 * track.heights[row], lw=1, label=f"ground, {name}")
axes.set(
    xlim=(0, chassis[-1, 0]), xlabel="along the track, m", ylabel="height, mm", title="a vehicle over bumps at 6 m/s"
)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize=8, ncols=2)
figure.savefig(folder / "suspension.png", dpi=90)
