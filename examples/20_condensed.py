"""A helix under a large force: the linear model, whose joints separate, and the condensed one, which is exact.

Writes a picture into the folder given (by default the current one):  python 20_condensed.py docs/pictures
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import supple
from supple.viewer import draw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
mech = supple.library.helix(50)
model = supple.condense(mech, ["tip"])
print(model)

# statics: the pose under a wrench, and the wrench that a pose needs
load = {"tip": [0, 60, -50, 0, 0, 0]}  # N, N m
full = supple.equilibrium(mech, load)
loaded = model.under(load)
print(f"under the load: {np.abs(loaded.poses.array - full.poses.array).max():.1e} m from the engine's equilibrium")
prescribed = model.at({"tip": full.poses["tip"]})
force = full.poses["tip"][:3, :3] @ prescribed.wrenches[:3]
print(f"that pose needs {np.round(force, 6)} N; the springs store {prescribed.energy:.3f} J")

# dynamics: both models move under the same load until damping has brought them to rest
damped = supple.library.helix(50, damping=400.0)
poses = {}
for kind, made in (("linear", supple.reduce(damped, ["tip"])), ("condensed", supple.condense(damped, ["tip"]))):
    sim = supple.ReducedSimulation(made, dt=2e-2)
    sim.apply("tip", load["tip"])
    sim.step(8000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)  # the linear model is far outside its range
        poses[kind] = sim.poses.array.copy()
    off = np.linalg.norm(poses[kind][-1, :3, 3] - full.poses["tip"][:3, 3])
    print(f"{kind}: tip {1e3 * off:.3f} mm off, separation {sim.separation.total:.1e} of the radius")

for kind, shown in poses.items():
    draw(mech, shown, path=folder / f"condensed_{kind}.png", ghost=full.poses.array, title=f"{kind}, engine pale")
