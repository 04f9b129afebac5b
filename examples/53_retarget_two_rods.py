"""Two flexible rods with a motor between them: a turn by 90 degrees after which neither motor nor tip shakes.

Writes a picture into the folder given (by default the current one):  python 53_retarget_two_rods.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple
from supple.retargeting import Motion

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
mech = supple.library.two_rods(modes=8, sections=12)
angle = np.radians(90)
motion = Motion.from_samples([0, 1.0, 1.6, 3.5], {"drive": [0, 0, angle, angle]})
for turn in (0, 45, 90):
    eq = supple.equilibrium(mech, targets={"drive": np.radians(turn)})
    print(f"first frequency at {turn} degrees: {supple.modes(mech, at=eq, count=1).frequencies[0]:.2f} Hz")

result = supple.retarget(mech, motion, track={"motor": 1.0, "tip": 1.0}, dt=4e-3)
colours = "#d1495b", "#2e86ab"
figure, axes = plt.subplots(3, 1, figsize=(8, 6.5), sharex=True)
for axis, name in zip(axes, ("tip", "motor"), strict=False):
    before, after = 1e3 * result.deviation_before[name], 1e3 * result.deviation_after[name]
    print(f"rms deviation of the {name}: {before:.1f} mm before, {after:.2f} mm after ({result.status})")
    for part, colour, label in zip(result.deviations[name], colours, ("input", "optimised"), strict=True):
        axis.plot(result.times, 1e3 * np.linalg.norm(part, axis=1), color=colour, label=label)
    axis.set(ylabel=f"{name}: deviation, mm")
    axis.legend(loc="upper left")
for curve, colour, label in ((motion, colours[0], "input"), (result.motion, colours[1], "optimised")):
    axes[2].plot(result.times, np.degrees(curve(result.times)[:, 0]), color=colour, label=label)
axes[2].set(xlabel="time, s", ylabel="motor, degrees")
axes[2].legend(loc="upper left")
figure.tight_layout()
figure.savefig(folder / "retarget_two_rods.png", dpi=90)
