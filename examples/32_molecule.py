"""A molecule of hinges under 1 to 1,000 forces: time, joints and error (figures 7, 8 and 9 of Redon and Lin).

Without options it has 10,000 hinges; `--full` gives it 50,000, as in the paper. Writes two pictures into the folder
given (by default the current one):  python 32_molecule.py docs/pictures --full
It makes fewer steps than `benchmarks/linkage.py`, so that it takes only some seconds.
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(next((word for word in sys.argv[1:] if not word.startswith("-")), "."))
joints, dt, steps = 50_000 if "--full" in sys.argv else 10_000, 1e-3, 12
tree = supple.library.molecule(joints)
start = perf_counter()
chain = supple.AdaptiveLinkage(tree)
print(f"{chain}: built in {perf_counter() - start:.2f} s, {chain.depth} levels, {chain.memory / 1e6:.0f} MB")
reference, positions = chain.coordinates, chain.poses.array[:, :3, 3]

# figure 7
figure = plt.figure(figsize=(10, 5), constrained_layout=True)
whole, close = figure.add_subplot(121, projection="3d"), figure.add_subplot(122, projection="3d")
near = np.linalg.norm(positions - positions[joints // 2], axis=1) < 0.55
for panel, chosen, size in ((whole, slice(None), 0.3), (close, near, 60)):
    x, y, z = positions[chosen].T
    panel.scatter(x, y, z, c=np.arange(joints)[chosen], cmap="viridis", s=size, lw=0)
    panel.set_axis_off()
    panel.set_box_aspect((np.ptp(x), np.ptp(y), np.ptp(z)), zoom=1.6)
for i in np.flatnonzero(near):
    if tree.parent[i] >= 0 and near[tree.parent[i]]:
        close.plot(*positions[[i, tree.parent[i]]].T, color="#5b6570", lw=1.2)
whole.set_title(f"{joints:,} hinges, coloured along the chain")
close.set_title("a close-up")
figure.savefig(folder / "molecule.png", dpi=110)

# figures 8 and 9
rng = np.random.default_rng(0)
powers = np.arange(1, 20, 2)
figure, (times, counts, errors) = plt.subplots(1, 3, figsize=(12, 3.8), constrained_layout=True)
for forces, colour in ((1, "#2e86ab"), (10, "#3a9e4f"), (100, "#e08e2b"), (1000, "#d1495b")):
    for body in range(joints // 2, joints // 2 + forces):
        force = rng.normal(size=3)
        chain.apply(body, [*force / np.linalg.norm(force), 0, 0, 0])
    took, computed, ends = [], [], []
    for power in (36, *powers):  # the first one is exact for this purpose
        chain.error, chain.coordinates = 2.0 ** -float(power), reference
        chain.accelerate()
        runs, count = [], 0
        for _ in range(6):
            start = perf_counter()
            count += sum(chain.step(dt).computed for _ in range(steps // 6))
            runs.append(1e3 * (perf_counter() - start) / (steps // 6))
        computed.append(count / steps)
        took.append(min(runs))
        ends.append(chain.poses.array[:, :3, 3])
    moved = np.linalg.norm(ends[0] - positions, axis=1).max()
    apart = [np.linalg.norm(end - ends[0], axis=1).max() / moved for end in ends]
    label = f"{forces:,} force{'s' if forces > 1 else ''}"
    times.semilogy(powers, took[1:], "o-", ms=3, color=colour, label=label)
    counts.semilogy(powers, computed[1:], "o-", ms=3, color=colour)
    errors.semilogy(powers, np.array(apart[1:]) / steps, "o-", ms=3, color=colour)
    print(f"{label} at 2^-19: {took[-1]:.3f} ms per step, {computed[-1]:.0f} joints, relative error {apart[-1]:.1e}")
chain.error, chain.coordinates = 0.0, reference
full = []
for _ in range(5):
    start = perf_counter()
    chain.step(dt)
    full.append(1e3 * (perf_counter() - start))
print(f"all joints: {min(full):.0f} ms per step")
times.axhline(min(full), color="#2b2f36", ls="--", label="all joints")
times.set_ylabel("ms per step")
counts.set_ylabel("joints computed per step")
errors.set_ylabel("relative displacement error, per step")
times.legend(frameon=False, fontsize=8, loc=(0.6, 0.5))
for panel in (times, counts, errors):
    panel.set_xticks(powers[::3])
    panel.set_xlabel("relative joint error 2^-i, i =")
    panel.grid(alpha=0.3)
figure.savefig(folder / "molecule_times.png", dpi=110)
