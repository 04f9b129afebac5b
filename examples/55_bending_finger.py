"""A finger with a soft skin bends: half-way zones against pads that meet at the joints, and the skin's resistance.

Writes a picture into the folder given (by default the current one):  python 55_bending_finger.py docs/pictures
"""

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

import supple
from supple import zones

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
cells = (12, 10, 3)
fingers = {"half-way zones": zones.finger(cells=cells), "pads only": zones.finger(cells=cells, halfway=False)}
angles = np.linspace(0, 1.2, 9)
ratios = {}
for name, finger in fingers.items():
    print(f"{name}: {finger.skin}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)  # pads without half-way zones are bent too far
        ratios[name] = [finger.skin.at((0, angle, angle)).solve().volume_ratio for angle in angles]
    print(f"  at {angles[-1]:.1f} rad the least volume ratio of an element is {ratios[name][-1]:.2f}")

finger = fingers["half-way zones"]
curves = finger.curves(9)
for name, curve in curves.items():
    print(f"the skin resists {name} with {1e3 * float(curve(0.5)):.1f} mN m at 0.5 rad")

figure = plt.figure(figsize=(11, 3.6))
for i, angle in enumerate((0.0, 0.6, 1.1)):
    axes = figure.add_subplot(1, 4, i + 1, projection="3d")
    shape = finger.skin.at((0, angle, angle)).solve()
    shown = 1e3 * shape.vertices[finger.skin.triangles]
    normals = np.cross(shown[:, 1] - shown[:, 0], shown[:, 2] - shown[:, 0])
    light = 0.55 + 0.45 * (normals @ [0.2, -0.8, 0.55]) / np.linalg.norm(normals, axis=1)
    colours = np.clip(light, 0.15, 1)[:, None] * np.array([0.93, 0.71, 0.60])
    axes.add_collection3d(Poly3DCollection(shown, facecolors=colours, edgecolors=colours, linewidths=0.2))
    axes.set(xlim=(0, 90), ylim=(-15, 15), zlim=(-60, 15), title=f"{np.degrees(angle):.0f} degrees")
    axes.set_box_aspect((90, 30, 75), zoom=1.25)
    axes.set_axis_off()
    axes.view_init(12, -70)
axes = figure.add_subplot(1, 4, 4)
for name, values in ratios.items():
    axes.plot(np.degrees(angles), values, label=name)
axes.axhline(0, color="#8fa3b5", lw=0.8)
axes.set(xlabel="both joints, degrees", ylabel="least volume ratio")
axes.legend()
figure.tight_layout()
figure.savefig(folder / "bending_finger.png", dpi=90)
