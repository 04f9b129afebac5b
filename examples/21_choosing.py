"""Linear and blended models compared with the engine: error of the tip under one force, three mechanisms.

Writes a plot into the folder given (by default the current one):  python 21_choosing.py docs/pictures
"""

import sys
import warnings
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
DT = 5e-3
mechanisms = {  # and the wrench on the tip; N, N m
    "helix": (supple.library.helix(50, damping=400.0), [0, 12, -10, 0, 0, 0]),
    "ladder": (supple.library.ladder(damping=400.0), [0, 40, 0, 0, 0, 0]),
    "robot arm": (supple.library.robot_arm(damping=400.0), [0, 150, 100, 0, 0, 0]),
}
colours = {"linear": "#d1495b", "blended": "#edae49", "engine": "#2b2f36"}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for place, (name, (mech, push)) in zip(axes, mechanisms.items(), strict=True):
    push = np.array(push, dtype=float)
    linear = supple.reduce(mech, ["tip"])
    at_half_load = supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": push / 2}))
    models = {"linear": linear, "blended": supple.blend([linear, at_half_load])}
    runs = {kind: supple.ReducedSimulation(model, DT) for kind, model in models.items()}
    runs["engine"] = supple.Simulation(mech, DT)
    paths, cost = {}, {}
    for kind, sim in runs.items():
        sim.apply("tip", push)
        paths[kind] = []
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", supple.RangeWarning)
            for _ in range(60):
                sim.step(10)
                paths[kind].append(sim.poses["tip"][:3, 3].copy())
        cost[kind] = (perf_counter() - start) / 600
    true = np.array(paths["engine"])
    moved = np.linalg.norm(true - mech.poses["tip"][:3, 3], axis=1).max()
    print(f"{name}: the tip moves by {moved / mech.radius:.2f} radii")
    for kind, sim in runs.items():
        off = np.linalg.norm(np.array(paths[kind]) - true, axis=1)
        apart = 0.0 if kind == "engine" else sim.separation.total
        print(f"  {kind:9}: error at most {100 * off.max() / moved:6.2f} % of that, separation {apart:.1e}")
        if kind != "engine":
            place.plot(DT * 10 * np.arange(1, 61), 100 * off / moved, color=colours[kind], label=kind)
    place.set(title=name, xlabel="s", ylabel="error of the tip, % of its largest displacement")
    place.spines[["top", "right"]].set_visible(False)
    place.legend(frameon=False, fontsize=8)
figure.savefig(folder / "choosing.png", dpi=90)
