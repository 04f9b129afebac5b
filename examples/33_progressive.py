"""Progressive refinement: a pass with a larger time budget has a smaller error, and states a bound of it.

Forces act on a hundred atoms of a molecule of 20,000 hinges. Each pass gets a budget of time and states its error
bound. Writes a picture into the folder given (by default the current one):  python 33_progressive.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
joints = 20_000
chain = supple.AdaptiveLinkage(supple.library.molecule(joints), measure="relative_linkage")
rng = np.random.default_rng(0)
for body in rng.choice(joints, size=100, replace=False):
    chain.apply(int(body), [*rng.normal(size=3), 0, 0, 0])
chain.accelerate()
exact = chain.accelerations
chain.accelerate(budget=1.0)  # the first adaptive pass prepares the total accelerations

rows = []
for budget in np.geomspace(1e-4, 2e-2, 20):
    tries = []
    for _ in range(3):  # the best of three, because other processes take time too
        info = chain.accelerate(budget=float(budget))
        error = np.linalg.norm(chain.accelerations - exact) / np.linalg.norm(exact)
        assert error <= info.error_bound + 1e-12
        tries.append((info.computed, info.error_bound, error))
    rows.append((1e3 * budget, *max(tries)))
for milliseconds, computed, bound, error in rows[::6]:
    print(f"{milliseconds:6.2f} ms: {computed:5d} joints, error bound {bound:.2e}, true error {error:.2e}")

milliseconds, computed, bound, error = np.array(rows).T
figure, panel = plt.subplots(figsize=(6, 3.8), constrained_layout=True)
panel.loglog(milliseconds, bound, "o-", color="#d1495b", ms=4, label="stated bound")
panel.loglog(milliseconds, np.maximum(error, 1e-16), "x", color="#2b2f36", label="true error")
panel.set_xlabel("budget, ms")
panel.set_ylabel("relative linkage error")
panel.grid(alpha=0.3)
panel.legend(frameon=False)
figure.savefig(folder / "progressive.png", dpi=110)
