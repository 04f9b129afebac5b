"""Linear models of loop and robot arm: a handle pulls the tip and releases it. Compared with the full engine.

Writes a plot into the folder given (by default the current one):  python 11_reduced_motion.py docs/pictures
"""

import sys
import tempfile
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
DT, PULLED, FREE = 2e-3, 500, 750  # steps with the handle, and after its release
mechanisms = {
    "loop": (supple.library.loop(), (0.1, 0.15, 0.0)),
    "robot arm": (supple.library.robot_arm(), (0.0, 0.3, 0.2)),
}


def swing(sim, point):
    """Positions (n, 3) of the tip while a handle pulls it to a point and after its release; seconds of stepping."""
    path, took = [], 0.0
    for k in range(PULLED + FREE):
        if k in (0, PULLED):
            sim.pull("tip", point if k == 0 else None, stiffness=600.0, damping=30.0)
        start = perf_counter()
        sim.step()
        took += perf_counter() - start
        path.append(sim.poses["tip"][:3, 3])
    return np.array(path), took


figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
times = DT * np.arange(1, PULLED + FREE + 1)
for place, (name, (mech, offset)) in zip(axes, mechanisms.items(), strict=True):
    point = mech.poses["tip"][:3, 3] + offset
    axis = int(np.argmax(np.abs(offset)))
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "model.npz"
        supple.reduce(mech, ["tip"], modes=4).save(file)
        model, size = supple.ReducedModel.load(file), file.stat().st_size
    true, long = swing(supple.Simulation(mech, DT), point)
    plain, short = swing(supple.ReducedSimulation(supple.reduce(mech, ["tip"]), DT), point)
    with_modes, _ = swing(supple.ReducedSimulation(model, DT), point)
    moved = np.linalg.norm(true - mech.poses["tip"][:3, 3], axis=1).max()
    print(f"{name}: the tip moves up to {moved:.3f} m; {1e6 * long / len(times):.0f} us per step of the engine,")
    print(f"  {1e6 * short / len(times):.1f} us of the reduced model, called one by one from Python")
    for what, path in (("6 numbers", plain), ("and 4 modes", with_modes)):
        print(f"  {what}: the tip is off by at most {np.linalg.norm(path - true, axis=1).max():.4f} m")
    print(f"  the file of the model with 4 modes takes {size / 1e3:.0f} kB")
    for path, colour, label, width in (
        (true, "#2b2f36", "engine", 2.4),
        (plain, "#d1495b", "reduced", 1.2),
        (with_modes, "#3a9e4f", "with 4 modes", 1.2),
    ):
        place.plot(times, 1e3 * (path[:, axis] - mech.poses["tip"][axis, 3]), color=colour, lw=width, label=label)
    place.axvline(DT * PULLED, color="#c3ccd4", lw=1)
    place.set(title=f"{name}: release at {DT * PULLED:g} s", xlabel="s", ylabel=f"tip along {'xyz'[axis]}, mm")
    place.spines[["top", "right"]].set_visible(False)
    place.legend(frameon=False, fontsize=8)
figure.savefig(folder / "reduced_motion.png", dpi=90)
