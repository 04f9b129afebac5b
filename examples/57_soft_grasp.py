"""Soft fingertips grasp a block, lift it and turn it. The world simulates their skin; sensors read its pressure.

Writes a picture into the folder given (by default the current one):  python 57_soft_grasp.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from supple import zones

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
scene = zones.soft_hand()
world, fingers = scene.world, ("thumb", "index", "middle", "ring", "little")
times, used, normal, heights, turns = [], [], [], [], []
while world.time < 2.7:
    scene.run(0.05)
    touches = [world.touch(f"hand:{finger}_distal") for finger in fingers]
    block = world.pose("block")
    times.append(world.time)
    heights.append(1e3 * (block[2, 3] - 0.045))
    turns.append(np.degrees(np.arctan2(block[1, 0], block[0, 0])))
    normal.append([touch.normal_forces.sum() for touch in touches])
    # mean over the forces; 1: the fingertip slides
    used.append([np.average(t.friction_used, weights=t.normal_forces + 1e-12) for t in touches])
print(f"the block is {heights[-1]:.1f} mm above the floor and turned by {turns[-1]:.1f} degrees")
for finger, force, touch in zip(fingers, normal[-1], touches, strict=True):
    print(f"{finger}: {force:.2f} N, pressed in by {1e3 * touch.depth:.2f} mm, {1e-3 * touch.pressures.max():.0f} kPa")

figure, axes = plt.subplots(1, 3, figsize=(12, 3.4))
axes[0].plot(times, heights, label="height, mm")
axes[0].plot(times, turns, label="turn, degrees")
axes[0].set(xlabel="s", title="block")
axes[0].legend()
for i, finger in enumerate(fingers):
    axes[1].plot(times, np.array(used)[:, i], label=finger)
axes[1].set(xlabel="s", title="share of friction used", ylim=(0, 1))
axes[1].legend(fontsize=7)
most = 1e-3 * max(touch.pressures.max() for touch in touches)
for i, (finger, touch) in enumerate(zip(fingers, touches, strict=True)):
    turned = touch.pad.points @ touch.pose[:3, :3].T
    across = np.array([-np.sin(np.radians(turns[-1])), np.cos(np.radians(turns[-1])), 0])
    flat = 1e3 * np.stack([(turned - turned.mean(axis=0)) @ across, turned[:, 2] - turned[:, 2].mean()], axis=1)
    dots = axes[2].scatter(flat[:, 0] + 14 * i, flat[:, 1], c=1e-3 * touch.pressures, s=40, vmin=0, vmax=most)
    axes[2].text(14 * i, 8, finger, ha="center", fontsize=8)
figure.colorbar(dots, ax=axes[2], label="kPa")
axes[2].set(title="pressure on the fingertips", aspect="equal", ylim=(-12, 12))
axes[2].set_axis_off()
figure.tight_layout()
figure.savefig(folder / "soft_grasp.png", dpi=90)
