"""Ladder, helix and loop under a large force: one linear model, and a blend of two (figure 6 of FORK-1S).

The second model is made under a larger force than the one that is shown. Writes a picture, the reduced model solid and
the engine's shape pale, into the folder given (by default the current one):  python 16_two_models.py docs/pictures
"""

import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple
from supple.viewer import draw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
pulls = {  # mechanism, force shown (N), force at the second model / force shown, camera
    "ladder": (supple.library.ladder(), (0, 45, 0), 1.2, (12.0, -20.0)),
    "helix": (supple.library.helix(), (80, 0, 0), 1.2, (12.0, -60.0)),
    "loop": (supple.library.loop(), (0, 1200, 0), 1.3, (12.0, -35.0)),
}


def simulate_to_rest(model, wrench):
    """Poses at rest under a load, and the separation of the joints over the radius."""
    sim = supple.ReducedSimulation(model, dt=0.02)
    sim.apply("tip", wrench)
    sim.step(20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one model is beyond its range, as printed below
        return sim.poses.array, sim.separation.total


pictures = {}
scratch = tempfile.TemporaryDirectory()
for name, (mech, force, factor, view) in pulls.items():
    wrench = np.array([*force, 0, 0, 0], dtype=float)
    rest = supple.reduce(mech, ["tip"])
    far = supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": factor * wrench}))
    full = supple.equilibrium(mech, {"tip": wrench}).poses.array
    moved = np.linalg.norm(full[:, :3, 3] - mech.poses.array[:, :3, 3], axis=1).max()
    print(f"{name}, {np.linalg.norm(force):.0f} N: links move up to {moved:.3f} m")
    for row, (models, model) in enumerate((("one model", rest), ("two models", supple.blend([rest, far])))):
        shown, separation = simulate_to_rest(model, wrench)
        off = np.linalg.norm(shown[:, :3, 3] - full[:, :3, 3], axis=1).max()
        print(f"  {models}: error of a link {off:.3f} m at most, separation {separation:.3f} of the radius")
        path = Path(scratch.name) / f"{name}_{row}.png"
        title = f"{name}, {models}: error {100 * off / mech.radius:.1f} %"
        draw(mech, shown, path=path, ghost=full, labels=[], title=title, view=view)
        pictures[name, row] = plt.imread(path)

widths = [max(pictures[name, row].shape[1] / pictures[name, row].shape[0] for row in (0, 1)) for name in pulls]
figure, axes = plt.subplots(2, 3, figsize=(3.6 * sum(widths), 7.2), width_ratios=widths)
for (name, row), picture in pictures.items():
    axes[row, list(pulls).index(name)].imshow(picture)
for place in axes.flat:
    place.set_axis_off()
figure.subplots_adjust(0, 0, 1, 1, wspace=0, hspace=0)
figure.savefig(folder / "two_models.png", dpi=90)
scratch.cleanup()
