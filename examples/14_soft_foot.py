"""The IIT SoftFoot, 49 bodies and five closed loops, reduced to its heel and five toes. A force lifts one toe.

It reads the MJCF file from ../shared/robots beside the project and writes a picture into the folder given (by
default the current one):  python 14_soft_foot.py docs/pictures
"""

import sys
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np

import supple
from supple.viewer import draw

file = Path(__file__).parents[2] / "shared/robots/iit_softfoot/softfoot.xml"
if not file.exists():
    print("There is no shared/robots/iit_softfoot beside the project: nothing to show.")
    sys.exit(0)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", supple.ImportWarning)
    mech = supple.load(file)
hanging = supple.equilibrium(mech)  # hanging from its ankle under its own weight
toes = [f"distal_phalanx_{i}" for i in range(1, 6)]
start = perf_counter()
model = supple.reduce(mech, ["heel", *toes], at=hanging)
print(f"{mech} becomes {len(model.stiffness)} numbers of rank {model.rank} in {1e3 * (perf_counter() - start):.0f} ms")

for force in (0.1, 0.3, 1.0):
    loads = {toes[-1]: [0, 0, force, 0, 0, 0]}
    sim = supple.ReducedSimulation(model, dt=5e-3)
    sim.apply(toes[-1], loads[toes[-1]])
    start = perf_counter()
    sim.step(20_000)
    step = (perf_counter() - start) / 20_000
    full = supple.equilibrium(mech, loads, start=hanging)
    moved = np.linalg.norm((full.poses.array - hanging.poses.array)[:, :3, 3], axis=1).max()
    apart = np.linalg.norm((full.poses.array - sim.poses.array)[:, :3, 3], axis=1).max()
    print(f"{force:g} N lift a toe: {1e3 * moved:.2f} mm of motion, {1e3 * apart:.3f} mm from full")
    print(f"  {1e6 * step:.2f} us per step")

path, title, labels = folder / "reduced_foot.png", "SoftFoot: 1 N under a toe", ["heel", toes[-1]]
draw(mech, sim.poses.array, path=path, ghost=hanging.poses.array, labels=labels, title=title, view=(15.0, -60.0))
