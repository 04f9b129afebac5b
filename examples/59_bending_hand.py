"""A hand whose skin goes on from the palm to the fingertips: zones half-way across the knuckles bend with the fingers.

Writes a picture into the folder given (by default the current one):  python 59_bending_hand.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from supple import zones

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
hand = zones.hand(cells=(12, 8, 3))
skin, coordinates = hand.skin, hand.mechanism.coordinates
print(skin)


def angles(knuckle: float, pip: float, dip: float, thumb: float) -> np.ndarray:
    """Coordinates of the hand: the joints of four fingers; those of the thumb turn by `thumb` times as much. rad."""
    own = {"knuckle": knuckle, "pip": pip, "dip": dip}
    return np.array([own[n.split("/")[1]] * (thumb if n.startswith("thumb") else 1) for n in coordinates])


poses = {"open": angles(0, 0, 0, 0), "bent": angles(0.5, 0.6, 0.4, 0.8), "nearly closed": angles(1.1, 1.1, 0.7, 0.5)}
figure = plt.figure(figsize=(11, 3.8))
for i, (name, where) in enumerate(poses.items()):
    shape = skin.at(where).solve()
    print(f"{name}: least volume ratio of an element {shape.volume_ratio:.2f}, energy {1e3 * shape.energy:.1f} mJ")
    shown = 1e3 * shape.vertices[skin.triangles]
    normals = np.cross(shown[:, 1] - shown[:, 0], shown[:, 2] - shown[:, 0])
    light = 0.55 + 0.45 * (normals @ [0.35, 0.3, -0.89]) / np.linalg.norm(normals, axis=1)
    colours = np.clip(light, 0.15, 1)[:, None] * np.array([0.93, 0.71, 0.60])
    axes = figure.add_subplot(1, 3, i + 1, projection="3d")
    axes.add_collection3d(Poly3DCollection(shown, facecolors=colours, edgecolors=colours, linewidths=0.2))
    axes.set(xlim=(-45, 130), ylim=(-55, 120), zlim=(-75, 15))
    axes.set_title(name, y=0.08)
    axes.set_box_aspect((175, 175, 90), zoom=1.2)
    axes.set_axis_off()
    axes.view_init(-42, -28)
figure.subplots_adjust(0, 0, 1, 1, 0, 0)
figure.savefig(folder / "bending_hand.png", dpi=90)
