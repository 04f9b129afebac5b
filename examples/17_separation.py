"""Separation of the joints of Y and ladder under a growing force: one linear model against two (figure 7 of FORK-1S).

For each direction of the force, a second model is made at the engine's equilibrium at a relative displacement of 1.
Dotted: the second model was made for a force in another direction. Without options there are 10 forces in each
direction, with `--full` 30. Writes a plot into the folder given (by default the current one):
python 17_separation.py docs/pictures --full
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple
from supple import spatial

folder = Path(next((word for word in sys.argv[1:] if not word.startswith("-")), "."))
shares = np.linspace(0, 1.5, 31 if "--full" in sys.argv else 11)[1:]
mechanisms = {  # end effectors (the first is pulled), directions, force (N) at relative displacement 1
    "Y": (supple.library.y(), ["left_tip", "right_tip"], {(1, 0, 0): 114, (0, 1, 0): 125, (0, 0, -1): 145}),
    "ladder": (supple.library.ladder(), ["tip"], {(0, 1, 0): 49.6, (0, 1, 1): 147, (0, 1, -1): 46}),
}


def curve(model, tip, rest, direction, force):
    """Relative displacements and separations (n,), at rest under increasing forces."""
    sim = supple.ReducedSimulation(model, dt=0.02)
    home, lengths = rest.end_effector_poses[0], np.array([rest.mechanism.radius] * 3 + [1.0] * 3)
    points = [(0.0, 0.0)]
    for share in shares:
        sim.apply(tip, [*(share * force * direction), 0, 0, 0])
        sim.step(2000)
        twist = spatial.log(spatial.inverse(home) @ sim.end_effector_pose(tip)) / lengths
        points.append((float(np.linalg.norm(twist)), sim.separation.total))
        if points[-1][0] > 1.2:
            break
    return np.array(points).T


figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
colours = ("#2e86ab", "#e08e2b", "#8e5ea2")
for place, (name, (mech, tips, pulls)) in zip(axes, mechanisms.items(), strict=True):
    rest = supple.reduce(mech, tips)
    directions = [np.array(direction) / np.linalg.norm(direction) for direction in pulls]
    forces = list(pulls.values())
    blends = []
    for direction, force in zip(directions, forces, strict=True):
        eq = supple.equilibrium(mech, {tips[0]: [*(force * direction), 0, 0, 0]})
        blends.append(supple.blend([rest, supple.reduce(mech, tips, at=eq)]))
    for i, (direction, force, colour) in enumerate(zip(directions, forces, colours, strict=True)):
        label = "({:g} {:g} {:g})".format(*list(pulls)[i])
        one, two = (curve(model, tips[0], rest, direction, force) for model in (rest, blends[i]))
        other = curve(blends[(i + 1) % len(blends)], tips[0], rest, direction, force)
        place.plot(*one, color=colour, lw=1.2, ls="--")
        place.plot(*two, color=colour, lw=2.2, label=label)
        place.plot(*other, color=colour, lw=1.2, ls=":")
        means = [np.interp(np.linspace(0, 1, 101), *c).mean() for c in (one, two, other)]
        print(f"{name} {label}: mean separation up to displacement 1: one model {means[0]:.4f}, two {means[1]:.4f}")
        print(f"  ({means[0] / means[1]:.1f} times less); with the second made for another direction {means[2]:.4f}")
    place.set(title=name, xlabel="relative displacement of the tip", xlim=(0, 1.2), ylim=(0, 0.2))
    place.spines[["top", "right"]].set_visible(False)
    place.plot([], [], color="#2b2f36", lw=1.2, ls="--", label="one model")
    place.plot([], [], color="#2b2f36", lw=2.2, label="two, second made for this direction")
    place.plot([], [], color="#2b2f36", lw=1.2, ls=":", label="two, second made for another direction")
    place.legend(frameon=False, fontsize=8, loc="upper left")
axes[0].set_ylabel("separation / radius")
figure.savefig(folder / "separation_blended.png", dpi=90)
