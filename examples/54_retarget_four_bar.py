"""A flexible arm on a four-bar linkage, with a loop: a quick turn that does not shake, with less torque.

Writes two pictures into the folder given (by default the current one):  python 54_retarget_four_bar.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple
from supple.retargeting import Motion
from supple.viewer.side_by_side import retargeted_recording

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
mech = supple.library.flexible_four_bar(modes=8, sections=12, arm=True)
angle = np.radians(60)
motion = Motion.from_samples([0, 0.4, 0.65, 1.2], {"motor": [0, 0, angle, angle]})
# what happens after the turn counts four times as much as the turn itself
track = {"weight": ([0.65, 0.7], [1.0, 4.0])}
result = supple.retarget(mech, motion, track, dt=5e-3, torque_limit=1.0)
before, after = 1e3 * result.deviation_before["weight"], 1e3 * result.deviation_after["weight"]
torque = [np.abs(values).max() for values in result.torques["motor"]]
print(f"rms deviation of the weight: {before:.1f} mm before, {after:.2f} mm after ({result.status})")
print(f"largest torque of the motor: {torque[0]:.2f} N m before, {torque[1]:.2f} N m after")

figure, axes = plt.subplots(3, 1, figsize=(8, 6.5), sharex=True)
for k, (curve, colour, label) in enumerate(((motion, "#d1495b", "input"), (result.motion, "#2e86ab", "optimised"))):
    deviation = 1e3 * np.linalg.norm(result.deviations["weight"][k], axis=1)
    lines = deviation, np.degrees(curve(result.times)[:, 0]), result.torques["motor"][k]
    for axis, values in zip(axes, lines, strict=True):
        axis.plot(result.times, values, color=colour, label=label)
for axis, label in zip(axes, ("weight: deviation, mm", "motor, degrees", "motor, N m"), strict=True):
    axis.set_ylabel(label)
axes[2].axhline(-1.0, color="#8fa3b5", lw=0.8, ls="--", label="limit")
axes[2].axhline(1.0, color="#8fa3b5", lw=0.8, ls="--")
axes[0].legend(loc="upper left")
axes[2].legend(loc="lower left")
axes[2].set_xlabel("time, s")
figure.tight_layout()
figure.savefig(folder / "retarget_four_bar.png", dpi=90)

# target, input and optimised from front to back, where the input is farthest from the target
recording = retargeted_recording(result)  # recording.save("run.npz") is for `supple replay run.npz`
farthest = result.times[np.argmax(np.linalg.norm(result.deviations["weight"][0], axis=1))]
poses = recording.at(float(farthest))
supple.viewer.draw(recording.mechanism, poses, path=folder / "retarget_side_by_side.png", title="side by side")
