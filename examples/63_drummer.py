"""The drummer: thirteen motors on two thin legs, whose sway grows and decays in turn (a beat).

Without options it retargets the first 1.2 s with coarse time steps. `--full` retargets all, which takes minutes, and
also writes a moving picture. A folder can be given for the pictures:  python 63_drummer.py docs/pictures --full
"""

import sys
from pathlib import Path

import numpy as np

from supple.retargeting import characters
from supple.retargeting.report import write_distances
from supple.viewer.side_by_side import retargeted_recordings
from supple.viewer.video import write_panels

full = "--full" in sys.argv
folder = Path(next((word for word in sys.argv[1:] if not word.startswith("-")), "."))
if full:
    result = characters.retargeted("drummer")
else:
    result = characters.retargeted("drummer", seconds=1.2, method="gauss-newton", dt=1e-2, max_iterations=2)
for name, (before, after) in result.deviations.items():
    peaks = [1e3 * np.linalg.norm(values, axis=1).max() for values in (before, after)]
    rms = 1e3 * result.deviation_before[name], 1e3 * result.deviation_after[name]
    print(f"{name}: peak {peaks[0]:.1f} mm before, {peaks[1]:.1f} mm after; rms {rms[0]:.2f} and {rms[1]:.2f} mm")
write_distances(result, folder / "drummer_deviation.png")
if full:
    shown = retargeted_recordings(result, 12.5)
    write_panels(shown, folder / "drummer.gif", ghost="target", begin=1.0, end=6.0)
