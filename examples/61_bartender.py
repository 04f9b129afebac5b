"""The bartender: a glass of water on two thin rods, served without spilling.

Without options it retargets the first 1.6 s with coarse time steps. `--full` retargets all, which takes minutes, and
also writes a moving picture. A folder can be given for the pictures:  python 61_bartender.py docs/pictures --full
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from supple.retargeting import characters
from supple.retargeting.spilling import RIM_ANGLE, surface_angles
from supple.viewer.side_by_side import retargeted_recordings
from supple.viewer.video import write_panels

full = "--full" in sys.argv
folder = Path(next((word for word in sys.argv[1:] if not word.startswith("-")), "."))
options = {} if full else {"seconds": 1.6, "dt": 1e-2, "max_iterations": 2}
result = characters.retargeted("bartender", **options)
glass = result.mechanism.body_index("glass")
rim = np.degrees(RIM_ANGLE)

figure, axes = plt.subplots(3, 1, figsize=(8, 6), sharex=True)
for k, (which, colour) in enumerate((("input", "#d1495b"), ("optimised", "#2e86ab"))):
    angles = np.degrees(surface_angles(result.times, result.poses[which][:, glass]))
    print(f"{which}: water up to {angles.max():.1f} degrees from the glass's axis; it reaches the rim at {rim:.1f}")
    for axis, name in zip(axes, ("elbow", "glass"), strict=False):
        values = result.deviations[name][k]
        print(f"  {name}: peak {1e3 * np.linalg.norm(values, axis=1).max():.1f} mm from the target")
        axis.plot(result.times, 1e3 * np.linalg.norm(values, axis=1), color=colour, label=which)
        axis.set_ylabel(f"{name}, mm")
    axes[2].plot(result.times, angles, color=colour)
axes[0].legend(loc="upper right")
axes[2].axhline(rim, color="#8fa3b5", ls="--")
axes[2].set(ylabel="water, degrees", xlabel="time, s")
figure.tight_layout()
figure.savefig(folder / "bartender_deviation.png", dpi=80)
if full:
    shown = retargeted_recordings(result, 12.5)
    write_panels(shown, folder / "bartender.gif", ghost="target", begin=0.3, end=6.5, height=240)
