"""The Robotiq 2F-85 gripper reduced to its two pads: a set-point and a pinch force on a linkage with two loops.

It reads the MJCF file from ../shared/robots beside the project and writes a picture into the folder given (by
default the current one):  python 12_gripper_pads.py docs/pictures
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import supple
from supple.viewer import draw

file = Path(__file__).parents[2] / "shared/robots/robotiq_2f85/2f85.xml"
if not file.exists():
    print("There is no shared/robots/robotiq_2f85 beside the project: nothing to show.")
    sys.exit(0)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", supple.ImportWarning)
    mech = supple.load(file)
print(f"{mech}; {len(mech.import_report)} notes of the import are in mech.import_report")

# half closed: the actuator drives both sides and has a set-point of 0.4 rad; springs and weight act too
half_closed = supple.equilibrium(mech, targets={"split": 0.4})
model = supple.reduce(mech, ["right_pad", "left_pad"], at=half_closed)
print(f"{model}: both pads move together, in one direction only")


def at_rest(target, pinch):
    """Poses (bodies, 4, 4) of the reduced model at rest, and those of the engine's equilibrium."""
    loads = {"right_pad": [pinch, 0, 0, 0, 0, 0], "left_pad": [-pinch, 0, 0, 0, 0, 0]}  # N, of the object
    sim = supple.ReducedSimulation(model, dt=1e-2)
    sim.set_target("split", target)
    for pad, wrench in loads.items():
        sim.apply(pad, wrench)
    sim.step(20_000)
    full = supple.equilibrium(mech, loads, targets={"split": target}, start=half_closed)
    return sim.poses.array, full.poses.array


for target, pinch in ((0.4, 2.0), (0.42, 0.0), (0.45, 2.0), (0.5, 0.0)):
    reduced, full = at_rest(target, pinch)
    moved = np.linalg.norm((full - half_closed.poses.array)[:, :3, 3], axis=1).max()
    apart = np.linalg.norm((full - reduced)[:, :3, 3], axis=1).max()
    what = f"set-point {target:g} rad, pinch {pinch:g} N"
    print(f"{what}: {1e3 * moved:.2f} mm of motion, {1e3 * apart:.3f} mm from full")

path, pads = folder / "reduced_gripper.png", ["right_pad", "left_pad"]
draw(mech, reduced, path=path, ghost=half_closed.poses.array, labels=pads, title="2F-85: its pads", view=(8.0, -75.0))
