"""The dancer: waving near the frequency of its own body, without shaking; and what the weights decide.

Without options it retargets the first 2 s with coarse time steps. `--full` retargets all with three sets of weights,
which takes many minutes. The moving picture shows the stored curves. A folder can be given for the pictures:
python 60_dancer.py docs/pictures --full
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from supple.retargeting import characters
from supple.viewer.side_by_side import retargeted_recordings
from supple.viewer.video import write_panels

FRONT = (8.0, 20.0)
full = "--full" in sys.argv
folder = Path(next((word for word in sys.argv[1:] if not word.startswith("-")), "."))
options = {} if full else {"seconds": 2.0, "dt": 1e-2, "max_iterations": 2}
results = {"all one": characters.retargeted("dancer", **options)}
if full:
    for dance in ("clavicle 100", "left hand 100"):
        results[dance] = characters.another_dance(dance, results["all one"].motion)
for dance, result in results.items():
    print(f"weights: {dance}")
    for name, (before, after) in result.deviations.items():
        peaks = [1e3 * np.linalg.norm(values, axis=1).max() for values in (before, after)]
        rms = 1e3 * result.deviation_before[name], 1e3 * result.deviation_after[name]
        print(f"  {name}: peak {peaks[0]:.1f} mm before, {peaks[1]:.1f} mm after; rms {rms[0]:.2f} and {rms[1]:.2f} mm")

figure, axes = plt.subplots(3, 1, figsize=(8, 6), sharex=True)
for axis, name in zip(axes, results["all one"].deviations, strict=True):
    first = results["all one"]
    axis.plot(first.times, 1e3 * np.linalg.norm(first.deviations[name][0], axis=1), color="#8fa3b5", label="input")
    for (dance, result), colour in zip(results.items(), ("#d1495b", "#2e86ab", "#3a7d44"), strict=False):
        length = 1e3 * np.linalg.norm(result.deviations[name][1], axis=1)
        axis.plot(result.times, length, color=colour, label=f"optimised, {dance}")
    axis.set(ylabel=f"{name}, mm", yscale="log", ylim=(0.03, 200))
axes[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize="small", ncols=4)
axes[-1].set_xlabel("time, s")
figure.suptitle("distance from the target")
figure.tight_layout()
figure.savefig(folder / "dancer_deviation.png", dpi=80)
if full:
    performed = characters.stored("dancer", dt=4e-3)
    shown = retargeted_recordings(performed, 12.5)
    write_panels(shown, folder / "dancer.gif", ghost="target", begin=0.5, end=5.5, height=240, view=FRONT)
