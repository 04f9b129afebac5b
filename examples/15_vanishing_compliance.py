"""A two-link arm whose compliance along the pull vanishes as it is stretched (figure 4 of FORK-1S).

Linear models made under four forces are blended and compared with the engine. Compliance is the displacement of the tip
per additional newton. Writes a picture into the folder given (by default the current
one):  python 15_vanishing_compliance.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
INK, RED, GREEN, PALE = "#2b2f36", "#d1495b", "#3a9e4f", "#c3ccd4"

b = supple.Builder("two links", gravity=(0, 0, 0))
elbow, hand = (0.25, 0, 0.433), (0.5, 0, 0)
b.link("upper", (0, 0, 0), elbow, mass=1.0, radius=0.02)
b.link("fore", elbow, hand, mass=1.0, radius=0.02)
b.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis="y", stiffness=60.0, damping=6.0)
b.hinge("elbow", "upper", "fore", at=elbow, axis="y", stiffness=60.0, damping=6.0)
b.site("tip", "fore", at=hand)
mech = b.build()

MADE = (0, 150, 400, 1000)  # N along x: forces under which models are made
equilibria = {pull: supple.equilibrium(mech, {"tip": [pull, 0, 0, 0, 0, 0]}) for pull in MADE}
models = [supple.reduce(mech, ["tip"], at=eq) for eq in equilibria.values()]


def engine(x, z):
    """Tip position in equilibrium under a force, m in the plane."""
    return supple.equilibrium(mech, {"tip": [x, 0, z, 0, 0, 0]}).poses["tip"][[0, 2], 3]


def reduced(model):
    sim = supple.ReducedSimulation(model, dt=0.02)

    def place(x, z):
        sim.apply("tip", [x, 0, z, 0, 0, 0])
        sim.step(1500)
        return sim.end_effector_pose("tip")[[0, 2], 3]

    return place


def compliance(place, pull, more=1.0):
    """(2, 2) in the plane, m/N, by central differences of the force."""
    return np.stack(
        [(place(pull + x, z) - place(pull - x, -z)) / (2 * more) for x, z in ((more, 0), (0, more))], axis=1
    )


blended, alone = reduced(supple.blend(models)), reduced(models[0])
shown = {0: True, 60: False, 150: True, 400: True, 600: False, 1000: True}  # N; whether a model was made there
print(f"{mech}: displacement of the tip along the force, mm/N")
ellipses = {}
for pull, sample in shown.items():
    ellipses[pull] = compliance(engine, pull), compliance(blended, pull)
    true, ours = (1e3 * c[0, 0] for c in ellipses[pull])
    print(f"  at {pull} N ({'a model' if sample else 'between'}): {true:.4f} by the engine, {ours:.4f} blended")
pulls = np.concatenate([np.linspace(0, 200, 21), np.linspace(250, 1100, 18)])
paths = {name: np.array([place(pull, 0) for pull in pulls]) for name, place in
         (("engine", engine), ("four models, blended", blended), ("one model, reference pose", alone))}  # fmt: skip

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=[1.1, 1], layout="constrained")
circle = np.linspace(0, 2 * np.pi, 120)
force = 40 * np.stack([np.cos(circle), np.sin(circle)])  # N, all directions in the plane
for row, (pull, sample) in enumerate(shown.items()):
    at = np.array([0, -0.5 * row])
    poses = supple.equilibrium(mech, {"tip": [pull, 0, 0, 0, 0, 0]}).poses
    line = np.array([at, poses["fore"][[0, 2], 3] + at, poses["tip"][[0, 2], 3] + at]).T
    left.plot(*line, color=INK if sample else PALE, lw=4, solid_capstyle="round", zorder=1)
    left.plot(*line[:, :2], "o", color=RED, ms=5, zorder=2)
    for shape, style in zip(
        ellipses[pull], (dict(color=INK, lw=5, alpha=0.25), dict(color=GREEN, lw=1.5)), strict=True
    ):
        left.plot(*(line[:, 2:] + shape @ force), zorder=3, **style)
    left.annotate(f"{pull} N", (1.25, at[1]), fontsize=9, color=INK)
    left.annotate(
        "model" if sample else "in between", (-0.1, at[1]), fontsize=9, ha="right", color=INK if sample else GREEN
    )
left.set(xlim=(-0.5, 1.5), aspect="equal", title="displacement of the tip under another 40 N in any direction")
left.set_axis_off()

styles = (dict(color=INK, lw=5, alpha=0.25), dict(color=GREEN, lw=1.6), dict(color=RED, lw=1.2, ls="--"))
for (name, path), style in zip(paths.items(), styles, strict=True):
    right.plot(pulls, path[:, 0], label=name, **style)
places = [eq.poses["tip"][0, 3] for eq in equilibria.values()]
right.plot(MADE, places, "o", color=GREEN, ms=7, label="models made here")
right.axhline(1.0, color=PALE, lw=1, zorder=0)
right.annotate("stretched", (1090, 1.01), ha="right", fontsize=9, color=INK)
right.set(xlabel="pull, N", ylabel="tip along the pull, m", ylim=(0.45, 1.5), xlim=(-15, 1100))
right.spines[["top", "right"]].set_visible(False)
right.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1, 0.12))
figure.savefig(folder / "vanishing_compliance.png", dpi=90)
