"""A millipede of 13,000 links with a force on one foot: joints that are computed (figures 5 and 6 of Redon and Lin).

Writes two pictures into the folder given (by default the current one):  python 31_millipede.py docs/pictures
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from mpl_toolkits.mplot3d.art3d import Line3DCollection

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
tree = supple.library.millipede()
legs = 1000
foot = 3 * legs + 10 * (legs // 2) + 9  # the last link of the leg in the middle
dt = 3e-3
chain = supple.AdaptiveLinkage(tree)
reference = chain.coordinates
print(f"{chain}, assembly tree {chain.depth} deep, {chain.memory / 1e6:.0f} MB")


def links(poses):
    """(n, 2, 3) both ends of every link."""
    length = np.where(np.arange(len(poses)) < 3 * legs, 0.06, 0.04)
    start = poses[:, :3, 3]
    return np.stack([start, start + length[:, None] * poses[:, :3, 2]], axis=1)


def best_time(steps, repeat):
    """Seconds per step, the best of several runs, and joints computed per step."""
    times, computed = [], 0
    for _ in range(repeat):
        start = perf_counter()
        computed += sum(chain.step(dt).computed for _ in range(steps))
        times.append((perf_counter() - start) / steps)
    return min(times), computed / (steps * repeat)


# figure 5: a part of it; 0.1 N lifts a foot
chain.error = 2.0**-9
chain.apply(foot, [0, 0, 0.1, 0, 0, 0])
lines = [links(chain.poses.array)]
for _ in range(400):
    info = chain.step(1e-2)
lines.append(links(chain.poses.array))
print(f"2^-9: {info.computed} of {len(tree.parent)} joints per step, bound {info.error_bound:.2g}")
figure = plt.figure(figsize=(10, 4.2), constrained_layout=True)
views = ((1, 45, 1.5, "90 of the 3,000 links of the spine"), (2, 9, 1.5, "the leg with the force"))
for place, reach, zoom, title in views:
    panel = figure.add_subplot(1, 2, place, projection="3d", computed_zorder=False)
    spine = np.abs(np.arange(3 * legs) - 3 * (legs // 2) - 1) <= reach
    chosen = np.concatenate([spine, np.repeat(spine[1::3], 10)])
    width = 3 if reach < 20 else 1
    for segments, colour, wider in zip(lines, ("#c9d1d9", "#2e5e8c"), (2, 1), strict=True):
        panel.add_collection(Line3DCollection(segments[chosen], colors=colour, lw=wider * width))
    tip = lines[1][foot, 1]
    panel.quiver(*tip, 0, 0, 0.15, color="#d1495b", lw=2, arrow_length_ratio=0.25)
    corners = np.concatenate([segments[chosen].reshape(-1, 3) for segments in lines])
    low, high = corners.min(axis=0), corners.max(axis=0)
    panel.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    panel.set_box_aspect(high - low, zoom=zoom)
    panel.view_init(28, -65)
    panel.set_axis_off()
    panel.set_title(title)
figure.savefig(folder / "millipede.png", dpi=110)

# figure 6: time and joints for every threshold
chain.error = 0.0
chain.coordinates = reference
chain.step(dt)
full = best_time(1, 8)[0]
powers, times, counts = np.arange(1, 20), [], []
for power in powers:
    chain.error, chain.coordinates = 2.0 ** -float(power), reference
    chain.step(dt)
    seconds, computed = best_time(20 if power < 14 else 2, 5)
    times.append(seconds)
    counts.append(computed)
slower = [p for p, t in zip(powers, times, strict=True) if t > full]
outcome = f"faster than an adaptive one from 2^-{slower[0]} on" if slower else "slower than every adaptive one"
print(f"full pass {1e3 * full:.0f} ms, {outcome}")
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), constrained_layout=True)
left.semilogy(powers, 1e3 * np.array(times), "o-", color="#d1495b", label="adaptive")
left.axhline(1e3 * full, color="#2b2f36", ls="--", label="all 13,000 joints")
left.set_ylabel("ms per step")
right.semilogy(powers, counts, "o-", color="#2e86ab")
right.set_ylabel("joints computed per step")
for panel in (left, right):
    panel.set_xticks(powers[::3])
    panel.set_xlabel("relative joint error 2^-i, i =")
    panel.grid(alpha=0.3)
left.legend(frameon=False)
figure.savefig(folder / "millipede_times.png", dpi=110)
