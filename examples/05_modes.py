"""Natural vibrations: the four slowest of the loop, in the reference pose and under a load.

Writes a picture into the folder given (by default the current one):  python 05_modes.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple
from supple import spatial

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
mech = supple.library.loop()
free = supple.modes(mech, count=4)
eq = supple.equilibrium(mech, {"tip": [0, 0, -400, 0, 0, 0]})
loaded = supple.modes(mech, at=eq, count=4)
for i, (before, after) in enumerate(zip(free.frequencies, loaded.frequencies, strict=True), start=1):
    print(f"mode {i}: {before:.3f} Hz in the reference pose, {after:.3f} Hz with 400 N on the tip")


def corners(poses):
    """(bodies, 3) starts of all links, in the order around the ring."""
    names = [f"left_{i}" for i in range(1, 8)] + ["tip"] + [f"right_{i}" for i in range(7, 0, -1)]
    ends = [poses[name][:3, 3] for name in names[:8]]
    ends += [poses["tip"] @ mech.joint("closure").pose_child @ [0, 0, 0, 1]]
    return np.array([*(e[:3] for e in ends), *(poses[name][:3, 3] for name in names[8:])])


figure = plt.figure(figsize=(9, 2.8))
rest = corners(mech.poses)
for i, frequency in enumerate(free.frequencies):
    axes = figure.add_subplot(1, 4, i + 1, projection="3d")
    axes.plot(*rest.T, color="#c3ccd4", lw=4)
    axes.plot(*rest[[0, -1]].T, color="#3d434c", lw=4)  # the ground
    size = 0.15 / np.abs(free.twists[i, :, :3]).max()  # the fastest point moves 0.15 m
    for sign, colour in ((1, "#d1495b"), (-1, "#2e86ab")):
        moved = mech.poses.array @ spatial.exp(sign * size * free.twists[i])
        poses = dict(zip((b.name for b in mech.bodies), moved, strict=True))
        axes.plot(*corners(poses).T, color=colour, lw=1.5)
    axes.set(xlim=(-0.5, 0.5), ylim=(-0.5, 0.5), zlim=(0, 1))
    axes.set_box_aspect((1, 1, 1), zoom=1.25)
    axes.set_axis_off()
    axes.view_init(15, -60)
    figure.text(0.125 + 0.25 * i, 0.93, f"{frequency:.2f} Hz", ha="center", fontsize=11)
figure.subplots_adjust(0, 0, 1, 0.93, wspace=0)
figure.savefig(folder / "modes.png", dpi=90)
