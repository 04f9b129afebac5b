"""Linear models of helix, ladder and Y under 100 N, compared with the full engine (figure 5 of FORK-1S).

Writes a picture, with the full engine in pale colour, into the folder given (by default the current one):
python 10_reduced.py docs/pictures
"""

import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import supple
from supple.viewer import draw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
pulls = {  # mechanism, end effectors, force on the first
    "helix": (supple.library.helix(), ["tip"], (100, 0, 0)),
    "ladder": (supple.library.ladder(), ["tip"], (0, 100, 0)),
    "Y": (supple.library.y(), ["left_tip", "right_tip"], (0, 100, 0)),
}


def at_rest(model, tip, wrench):
    """A reduced simulation at rest under a load, after half an hour of simulated time; microseconds per step."""
    sim = supple.ReducedSimulation(model, dt=5e-3)
    sim.apply(tip, wrench)
    start = perf_counter()
    sim.step(360_000)
    return sim, 1e6 * (perf_counter() - start) / 360_000


def distance(a, b):
    """Largest distance between the origins of the same link, m."""
    return np.linalg.norm(a[:, :3, 3] - b[:, :3, 3], axis=1).max()


pictures = {}
scratch = tempfile.TemporaryDirectory()
for name, (mech, tips, force) in pulls.items():
    wrench = [*force, 0, 0, 0]
    full = supple.equilibrium(mech, {tips[0]: wrench})
    model = supple.reduce(mech, tips)
    sim, microseconds = at_rest(model, tips[0], wrench)
    joints = supple.ReducedSimulation(model, dt=5e-3, reconstruction="joints")
    joints.restore(sim.save())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # helix and ladder are a little out of the models' range
        shown = sim.poses.array
    apart, closed = (distance(poses, full.poses.array) for poses in (shown, joints.poses.array))
    print(f"{name}: {len(mech.bodies)} links, rank {model.rank}, {microseconds:.2f} us per step")
    print(f"  links move by up to {distance(full.poses.array, mech.poses.array):.3f} m; reduced and full are at most")
    print(f"  {apart:.3f} m apart with links by twists ({closed:.3f} m by joints); the separation is")
    print(f"  {sim.separation.total:.3f} of the radius ({joints.separation.total:.4f})")
    path = Path(scratch.name) / f"{name}.png"
    title = f"{name}, 100 N"
    draw(mech, shown, path=path, ghost=full.poses.array, title=title, view=(12.0, -60.0))
    pictures[name] = plt.imread(path)

widths = [picture.shape[1] / picture.shape[0] for picture in pictures.values()]
figure, axes = plt.subplots(1, 3, figsize=(4 * sum(widths), 4), width_ratios=widths)
for place, picture in zip(axes, pictures.values(), strict=True):
    place.imshow(picture)
    place.set_axis_off()
figure.subplots_adjust(0, 0, 1, 1, wspace=0)
figure.savefig(folder / "reduced_100N.png", dpi=110)
scratch.cleanup()
