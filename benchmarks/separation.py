"""Figure 7 of the FORK-1S paper: separation of the joints of one linear model as its tip is pulled away.

Forces in several directions of the world act on the first tip, up to a relative displacement of 1.2. The model is in
static equilibrium at every point. Links are reconstructed by twists (joints separate; the separation is summed over all
joints, over the radius) and by joints (the tree stays closed; tips and loops keep a gap, and the largest one counts,
over the radius). `--out FOLDER` writes separation.csv, separation.json and separation.png.
"""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import root

import supple
from _report import Report, parse_args
from supple import spatial
from supple.mechanism import Mechanism

CORRECTIONS = 5
AROUND = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, -1), (1, 1, 1)]
OUT_OF_PLANE = [(0, 1, 0), (0, 1, 1), (0, 1, -1), (1, 1, 0), (0, -1, 1)]


@dataclass(frozen=True)
class Point:
    """One static equilibrium under a force on the tip."""

    mechanism: str
    direction: str
    displacement: float
    """Relative displacement: norm of the tip's twist, its linear part over the radius."""
    force: float
    """N."""
    separation: float
    """By twists: distances in all joints, summed, over the radius."""
    gap: float
    """By joints: largest remaining distance at a tip or in a loop, over the radius."""
    turn: float
    """By joints: largest remaining angle there, rad."""


def main() -> None:
    args = parse_args(__doc__, out="write data and plot there")
    report = Report("separation of joints, one linear model", args)
    steps = np.linspace(0, 1.2, 13 if args.quick else 49)[1:]
    curves: dict[str, list[list[Point]]] = {}
    for name, (mech, tips, directions, has_target) in mechanisms().items():
        curves[name] = [equilibria_along(name, mech, tips, direction, steps) for direction in directions]
        summarise(report, name, curves[name], has_target)
    gaps(report)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        write(args.out, curves)
        plot(args.out / "separation.png", curves)
    report.finish()


def mechanisms() -> dict[str, tuple[Mechanism, list[str], list, bool]]:
    """Mechanism, end effectors, directions of the force, and whether its separation has a target."""
    library = supple.library
    return {
        "y": (library.y(), ["left_tip", "right_tip"], AROUND, True),
        "ladder": (library.ladder(), ["tip"], OUT_OF_PLANE, True),
        "helix": (library.helix(), ["tip"], AROUND, False),
        "loop": (library.loop(), ["tip"], AROUND, False),
        "arm": (library.robot_arm(), ["tip"], AROUND, False),
    }


# pulling


def equilibria_along(name: str, mech: Mechanism, tips: list[str], direction: tuple, steps: np.ndarray) -> list[Point]:
    """Separation and gaps in equilibrium at each relative displacement of the first tip."""
    model = supple.reduce(mech, tips)
    twist = supple.ReducedSimulation(model, 1e-3)
    joints = supple.ReducedSimulation(model, 1e-3, reconstruction="joints", corrections=CORRECTIONS)
    along = np.array(direction) / np.linalg.norm(direction)
    label = "({:g} {:g} {:g})".format(*direction)
    points = []
    for displacement, (z, force) in zip(steps, model_states(model, along, steps), strict=False):
        for sim in (twist, joints):
            sim._motion.core.set_state(z, np.zeros(len(z)), 0.0)
        left = joints.gaps
        gap = float(np.linalg.norm(left[:, :3], axis=1).max() / mech.radius)
        turn = float(np.linalg.norm(left[:, 3:], axis=1).max())
        points.append(Point(name, label, float(displacement), force, twist.separation.total, gap, turn))
    return points


def model_states(model: supple.ReducedModel, along: np.ndarray, steps: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """Coordinates z and force F (N) with K xi = F Jr^T w and the given |xi|; ends where the solver fails.

    xi is the tip's twist, w the unit force in the tip's axes, Jr the right Jacobian of exp, K the stiffness."""
    basis, scale = model.basis, np.array([1 / model.mechanism.radius] * 3 + [1.0] * 3)
    stiffness, rest = basis.T @ model.stiffness @ basis, model.end_effector_poses[0][:3, :3]

    def load(z: np.ndarray) -> np.ndarray:
        xi = basis[:6] @ z
        turned = (rest @ spatial.so3_exp(xi[3:])).T @ along
        return basis[:6].T @ spatial.right_jacobian(xi).T @ np.concatenate([turned, np.zeros(3)])

    def residual(unknown: np.ndarray, displacement: float) -> np.ndarray:
        z, force = unknown[:-1], unknown[-1]
        balance = np.linalg.solve(stiffness, force * load(z)) - z
        return np.append(balance, np.linalg.norm(scale * (basis[:6] @ z)) - displacement)

    start = np.linalg.solve(stiffness, load(np.zeros(len(stiffness))))
    guess = np.append(start, 1.0) * steps[0] / np.linalg.norm(scale * (basis[:6] @ start))
    states: list[tuple[np.ndarray, float]] = []
    for displacement in steps:
        solved = root(residual, guess, args=(displacement,), tol=1e-11)
        if not solved.success or np.abs(solved.fun).max() > 1e-8:
            break
        states.append((solved.x[:-1], float(solved.x[-1])))
        guess = solved.x * (1 + (steps[1] - steps[0]) / displacement)
    return states


def summarise(report: Report, name: str, curves: list[list[Point]], has_target: bool) -> None:
    """Separation and gap at relative displacements of 0.5 and 1, in all directions that reach them."""
    worst = {"sideways or down": 0.0, "with an upward pull": 0.0}
    for curve in curves:
        columns = {}
        for at in (0.5, 1.0):
            for what in ("separation", "gap"):
                columns[f"{what}_{at:g}"] = value(curve, at, what)
        upwards = not curve[0].direction.endswith((" 0)", "-1)"))
        group = "with an upward pull" if upwards else "sideways or down"
        worst[group] = max(worst[group], columns["separation_1"])
        reached = curve[-1].displacement
        report.row(pull=f"{name} {curve[0].direction}", reached=reached, N=curve[-1].force, **columns)
    if has_target:  # upwards is away from the base: the mechanism is soon stretched
        every = max(worst.values())
        report.target(f"{name}: largest separation at relative displacement 1, every direction", every, at_most=0.15)
        for group, apart in worst.items():
            report.target(f"{name}: largest separation at relative displacement 1, {group}", apart, at_most=0.15)


def value(curve: list[Point], at: float, what: str) -> float:
    return float(np.interp(at, [p.displacement for p in curve], [getattr(p, what) for p in curve], right=np.nan))


# joints instead of twists


def gaps(report: Report) -> None:
    """Largest gap (over the radius) after each correction, at relative displacement 1."""
    library = supple.library
    cases = {
        "helix 20": (library.helix(20), ["tip"], AROUND),
        "helix 50": (library.helix(50), ["tip"], AROUND),
        "loop 15": (library.loop(), ["tip"], AROUND),
        "arm 20": (library.robot_arm(), ["tip"], AROUND),
        "y": (library.y(), ["left_tip", "right_tip"], AROUND),
        "ladder 16": (library.ladder(), ["tip"], OUT_OF_PLANE),
    }
    for name, (mech, tips, directions) in cases.items():
        model = supple.reduce(mech, tips)
        worst, apart, tree = np.zeros(CORRECTIONS + 1), 0.0, 0.0
        for direction in directions:
            along = np.array(direction) / np.linalg.norm(direction)
            states = model_states(model, along, np.linspace(0, 1, 21)[1:])
            if len(states) < 20:
                continue
            for k in range(CORRECTIONS + 1):
                sim = supple.ReducedSimulation(model, 1e-3, reconstruction="joints", corrections=k)
                sim._motion.core.set_state(states[-1][0], np.zeros(len(states[-1][0])), 0.0)
                left = np.linalg.norm(sim.gaps[:, :3], axis=1).max() / mech.radius
                worst[k] = max(worst[k], left)
            loops = {mech.joints[j].name for j in mech.topology.loops}
            tree = max(tree, *(d for joint, d in sim.separation.joints.items() if joint not in loops))
            twist = supple.ReducedSimulation(model, 1e-3)
            twist._motion.core.set_state(states[-1][0], np.zeros(len(states[-1][0])), 0.0)
            apart = max(apart, twist.separation.total)
        columns = {f"after_{k}": float(left) for k, left in enumerate(worst)}
        full = model.rank == 6 * len(tips)
        report.row(gap_at_1=name, rank=model.rank, twist_separation=apart, **columns, tree_separation_m=float(tree))
        report.target(f"{name}: largest separation of a tree joint, m", tree, at_most=1e-9)
        if full:
            what = f"{name}: largest gap after {CORRECTIONS} corrections"
            report.target(what, float(worst[-1]), at_most=0.005)


# files


def write(folder: Path, curves: dict[str, list[list[Point]]]) -> None:
    points = [asdict(p) for group in curves.values() for curve in group for p in curve]
    (folder / "separation.json").write_text(json.dumps(points, indent=1) + "\n")
    with (folder / "separation.csv").open("w", newline="") as file:
        lines = csv.DictWriter(file, list(points[0]))
        lines.writeheader()
        lines.writerows(points)


def plot(path: Path, curves: dict[str, list[list[Point]]]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
    for panel, name in zip(axes, ("y", "ladder", "helix"), strict=True):
        for i, curve in enumerate(curves[name]):
            x, colour = [p.displacement for p in curve], plt.cm.viridis(i / len(curves[name]))
            panel.plot(x, [p.separation for p in curve], color=colour, lw=1.4, label=curve[0].direction)
            panel.plot(x, [p.gap for p in curve], color=colour, lw=1.0, ls=":")
        panel.plot([1], [0.15], marker="v", color="#2b2f36", ls="none")
        panel.annotate("target", (1, 0.15), (0.94, 0.158), fontsize=7)
        panel.set(title=name, xlabel="relative displacement of the tip", ylim=(0, 0.25), xlim=(0, 1.2))
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=7, title="pull", title_fontsize=7, loc="upper left")
    axes[0].set_ylabel("separation / radius (dotted: gap by joints)")
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    main()
