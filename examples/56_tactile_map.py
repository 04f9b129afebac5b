"""A ball presses into a bent finger and is twisted: skin, pressure map, share of friction used, and tactile elements.

Writes a picture into the folder given (by default the current one):  python 56_tactile_map.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from supple import spatial, zones
from supple.mechanism import Shape

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
finger = zones.finger(cells=(16, 18, 3))
skin, bent = finger.skin, (0.0, 0.5, 0.4)
posed = skin.at(bent)

# a ball under the middle pad, pressed in along the normal
radius, depth = 0.015, 1.5e-3
middle = skin.touch_of_zone["middle"]
straight = skin.at().solve().vertices
lowest = middle[np.linalg.norm(straight[middle] - [0.045, 0, -9.5e-3], axis=1).argmin()]
pad = posed.pad("middle")
place = int(np.flatnonzero(pad.vertices[:, 0] == lowest)[0])
at, normal = pad.points[place], pad.normals[place]
ball = Shape("sphere", [radius], np.eye(4), friction=(0.6, 0, 0))
touch = None
for part in np.linspace(0.1, 1, 10):
    touch = posed.press(ball, spatial.translation(at + (radius - part * depth) * normal), start=touch, friction=0.6)
centre = at + (radius - depth) * normal
for angle in np.linspace(0.02, 0.15, 6):
    twist = np.concatenate([np.zeros(3), angle * normal])
    touch = posed.press(ball, spatial.translation(centre) @ spatial.exp(twist), start=touch, friction=0.6)
lever = np.cross(touch.pad.points - at, touch.forces).sum(axis=0)
print(f"force {np.linalg.norm(touch.force):.2f} N on {(touch.normal_forces > 0).sum()} points")
print(f"largest pressure {1e-3 * touch.pressures.max():.1f} kPa, resistance to twist {1e3 * lever @ normal:.2f} mN m")
print(f"{np.sum(touch.friction_used > 0.999)} points slide")

# tactile elements on the middle pad, 2 mm apart, placed on the straight finger
x, y = np.meshgrid(np.arange(0.037, 0.054, 2e-3), np.arange(-7e-3, 7.1e-3, 2e-3))
places = np.stack([x, y, -np.sqrt(9.5e-3**2 - y**2)], axis=-1)
readings = skin.taxels(places.reshape(-1, 3), radius=1.8e-3).read(touch).reshape(x.shape)
print(f"largest reading of a tactile element {1e-3 * readings.max():.1f} kPa")

figure = plt.figure(figsize=(12, 3.6))
axes = figure.add_subplot(1, 3, 1, projection="3d")
shape = posed.solve(touch.vertex_forces(skin.vertex_count))
shown = 1e3 * shape.vertices[skin.triangles]
pressure = np.zeros(skin.vertex_count)
pressure[touch.pad.vertices[:, 0]] = touch.pressures
values = pressure[skin.triangles].mean(axis=1) / touch.pressures.max()
across = np.cross(shown[:, 1] - shown[:, 0], shown[:, 2] - shown[:, 0])
light = 0.55 + 0.45 * (across @ [0.2, -0.8, -0.55]) / np.linalg.norm(across, axis=1)
base = np.clip(light, 0.2, 1)[:, None] * np.array([0.93, 0.71, 0.60])
colours = base + np.clip(2 * values, 0, 1)[:, None] * (plt.cm.viridis(values)[:, :3] - base)
axes.add_collection3d(Poly3DCollection(shown, facecolors=colours, edgecolors=colours, linewidths=0.2))
axes.set(xlim=(0, 75), ylim=(-20, 20), zlim=(-50, 15), title="pressed skin, seen from below")
axes.set_box_aspect((75, 40, 65), zoom=1.3)
axes.set_axis_off()
axes.view_init(-35, -75)
u, v = np.linalg.svd(np.eye(3) - np.outer(normal, normal))[0][:, :2].T
flat = 1e3 * (touch.pad.points - at) @ np.stack([u, v], axis=1)
touched = touch.normal_forces > 0
axes = figure.add_subplot(1, 3, 2)
dots = axes.scatter(*flat[touched].T, c=1e-3 * touch.pressures[touched], s=70)
along = touch.forces @ np.stack([u, v], axis=1)
axes.quiver(*flat[touched].T, *along[touched].T, width=4e-3, scale=0.6)
figure.colorbar(dots, label="kPa")
axes.set(aspect="equal", xlabel="mm", ylabel="mm", title="pressure, tangential forces")
axes = figure.add_subplot(1, 3, 3)
image = axes.imshow(1e-3 * readings, origin="lower", extent=1e3 * np.array([x.min(), x.max(), y.min(), y.max()]))
figure.colorbar(image, label="kPa")
axes.set(title="tactile elements of 1.8 mm", xlabel="along the finger, mm", ylabel="across, mm")
figure.tight_layout()
figure.savefig(folder / "tactile_map.png", dpi=90)
