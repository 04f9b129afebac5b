"""A four-bar linkage with a flexible coupler: the faster the crank, the more the coupler bends.

Writes a picture into the folder given (by default the current one):  python 51_flexible_four_bar.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
mech = supple.library.flexible_four_bar(modes=8, sections=12)
coupler = mech.flexible[0]
nodes, basis = coupler.part.nodes, coupler.basis
middle = np.argmin(np.linalg.norm(nodes - nodes.mean(axis=0), axis=1))


def deflection(sim):
    """Of the coupler's middle from the line between its ends, mm, in the plane of the linkage."""
    eta = sim.coordinates["coupler.end"]
    end = basis.frame("end", eta).pose[:3, 3]
    along = end / np.linalg.norm(end)
    point = nodes[middle] - basis.origin + basis.displacements(eta)[middle]
    return 1e3 * (along[2] * point[0] - along[0] * point[2])


figure, axes = plt.subplots(figsize=(7, 3))
for turns_per_second, colour in ((2, "#8fa3b5"), (4, "#2e86ab"), (8, "#d1495b")):
    speed = 2 * np.pi * turns_per_second

    def crank(t, speed=speed):
        """Rises to its speed during the first turn and a half."""
        start = 3 * np.pi / speed
        return speed * (t**2 / (2 * start) if t < start else t - start / 2)

    dt = 1 / (turns_per_second * 800)
    sim = supple.Simulation(mech, dt, "bdf2", motors={"motor": crank})
    turns, bent = [], []
    for _ in range(round(2.75 / (turns_per_second * dt))):
        sim.step()
        turns.append(crank(sim.time) / (2 * np.pi))
        bent.append(deflection(sim))
    print(f"{turns_per_second} turns a second: the coupler's middle bends by up to {np.abs(bent).max():.2f} mm; "
          f"the loop stays closed to {sim.gap:.0e} m")  # fmt: skip
    axes.plot(turns, bent, color=colour, label=f"{turns_per_second} turns a second")
axes.set(xlabel="turns of the crank", ylabel="coupler's middle, mm")
axes.legend()
figure.tight_layout()
figure.savefig(folder / "flexible_four_bar.png", dpi=90)
