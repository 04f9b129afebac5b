"""A flexible rod that turns and does not shake: motor curves from `supple.retarget`, beside an input shaper.

Writes a picture into the folder given (by default the current one):  python 52_retarget_rod.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple
from supple.retargeting import Motion, baselines

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
mech = supple.library.rod_on_motor(modes=8, sections=12)
angle = np.radians(30)
motion = Motion.from_samples([0, 0.5, 1.1, 2.6, 3.2, 4.0], {"motor": [0, 0, angle, angle, 0, 0]})
result = supple.retarget(mech, motion, track={"tip": 1.0}, dt=4e-3)
before, after = 1e3 * result.deviation_before["tip"], 1e3 * result.deviation_after["tip"]
print(f"rms deviation of the tip: {before:.1f} mm before, {after:.2f} mm after ({result.status})")

early = np.argmax(np.abs(result.motion(result.times)[:, 0]) > 0.01 * angle)
acceleration = result.motion.design(result.times, 2) @ result.motion.control
print(f"the motor starts {0.5 - result.times[early]:.2f} s before the input does and accelerates by at most "
      f"{np.abs(acceleration).max():.0f} rad/s^2")  # fmt: skip
shaped = baselines.zv(baselines.first_frequency(mech))(motion)

figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 5), sharex=True)
for part, colour, label in zip(result.deviations["tip"], ("#d1495b", "#2e86ab"), ("input", "optimised"), strict=True):
    top.plot(result.times, 1e3 * np.linalg.norm(part, axis=1), color=colour, label=label)
top.set(ylabel="deviation of the tip, mm")
top.legend(loc="upper left")
curves = (motion, "#d1495b", "input"), (shaped, "#8fa3b5", "ZV shaper"), (result.motion, "#2e86ab", "optimised")
for curve, colour, label in curves:
    bottom.plot(result.times, np.degrees(curve(result.times)[:, 0]), color=colour, label=label)
bottom.set(xlabel="time, s", ylabel="motor, degrees")
bottom.legend(loc="upper right")
figure.tight_layout()
figure.savefig(folder / "retarget_rod.png", dpi=90)
