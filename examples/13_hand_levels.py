"""The Shadow Hand reduced to three sets of end effectors: fingertips, one grasp site, fingertips and knuckles.

The file has no springs for the tendon-driven joints, so they get 1 N m/rad here. It reads the MJCF file from
../shared/robots beside the project and writes a picture into the folder given (by default the current one):
python 13_hand_levels.py docs/pictures
"""

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np

import supple
from supple.viewer import draw

file = Path(__file__).parents[2] / "shared/robots/shadow_hand/right_hand.xml"
if not file.exists():
    print("There is no shared/robots/shadow_hand beside the project: nothing to show.")
    sys.exit(0)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", supple.ImportWarning)
    mech = supple.load(file)
print(f"{mech}: nothing holds {', '.join(mech.unheld)}")
hand = replace(mech.with_springs(stiffness=1.0, damping=0.05), gravity=(0, 0, 0))  # weight is left out

fingers = ("ff", "mf", "rf", "lf")
tips = [f"rh_{finger}distal" for finger in (*fingers, "th")]
knuckles = [f"rh_{finger}proximal" for finger in fingers]
lift = [0, 0, 1, 0, 0, 0]  # 1 N upwards on each fingertip closes the flat hand
levels = {
    "five fingertips": (tips, {f"rh_{finger}distal": lift for finger in fingers}),
    "one grasped body": (["grasp_site"], {"grasp_site": [0, 0, 10, 0, 0, 0]}),
    "with knuckles": (tips + knuckles, {f"rh_{finger}distal": lift for finger in fingers} | {knuckles[0]: lift}),
}
shapes = {}
for level, (ends, loads) in levels.items():
    supple.reduce(hand, ends)  # computes what the mechanism caches
    start = perf_counter()
    model = supple.reduce(hand, ends)
    built = perf_counter() - start
    sim = supple.ReducedSimulation(model, dt=2e-3)
    for name, wrench in loads.items():
        sim.apply(name, wrench)
    start = perf_counter()
    sim.step(20_000)
    step = (perf_counter() - start) / 20_000
    full = supple.equilibrium(hand, loads)
    moved = np.linalg.norm((full.poses.array - hand.poses.array)[:, :3, 3], axis=1).max()
    apart = np.linalg.norm((full.poses.array - sim.poses.array)[:, :3, 3], axis=1).max()
    shapes[level] = sim.poses.array
    print(f"{level}: {6 * len(ends)} numbers, rank {model.rank}, built in {1e3 * built:.1f} ms")
    print(f"  {1e6 * step:.2f} us per step; links move {1e3 * moved:.1f} mm, {1e3 * apart:.2f} mm apart from full")

path, rest = folder / "reduced_hand.png", hand.poses.array
title, view = "Shadow Hand: fingertips lifted by 1 N", (25.0, -50.0)
draw(hand, shapes["five fingertips"], path=path, ghost=rest, labels=[tips[0], tips[-1]], title=title, view=view)
