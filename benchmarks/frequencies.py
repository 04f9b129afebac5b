"""Natural frequencies and step responses of reduced models, compared with the full engine.

The first natural frequency is that of models without added modes. They have one of three mass matrices: consistent, the
projected inverse mass (J M^-1 J^T), or that of the published recursion. The first six are those of models with twelve
added modes, or as many as there are. `--out FOLDER` plots the step response of the tip and the engine's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import eigh

import supple
from _report import Report, parse_args
from supple.mechanism import Mechanism

MODES = 12
WITH_TARGETS = ("helix 20", "helix 50", "ladder 6", "ladder 16", "y", "y, left tip")
PUSH = {"helix 50": (0, 0, 10), "ladder 16": (0, 10, 0), "y": (0, 10, 0), "arm 20": (0, 0, 10)}
"""Force on the (first) tip for the step response, N."""
INK, RED, BLUE, GREEN = "#2b2f36", "#d1495b", "#2e86ab", "#3a9e4f"


def main() -> None:
    args = parse_args(__doc__, out="plot the step responses there")
    report = Report("natural frequencies of reduced models", args)
    frequencies(report)
    responses(report, 1.0 if args.quick else 4.0, args.out)
    report.finish()


def mechanisms() -> dict[str, tuple[Mechanism, list[str]]]:
    library = supple.library
    return {
        "helix 20": (library.helix(20), ["tip"]),
        "helix 50": (library.helix(50), ["tip"]),
        "ladder 6": (library.ladder(6), ["tip"]),
        "ladder 16": (library.ladder(16), ["tip"]),
        "y": (library.y(), ["left_tip", "right_tip"]),
        "y, left tip": (library.y(), ["left_tip"]),
        "arm 20": (library.robot_arm(20), ["tip"]),
    }


def frequencies(report: Report) -> None:
    for name, (mech, tips) in mechanisms().items():
        true = supple.modes(mech).frequencies
        plain = supple.reduce(mech, tips)
        added = min(MODES, mech.mobility - plain.rank)
        errors = {
            "consistent_%": error(plain, true, 1),
            "projected_%": error(supple.reduce(mech, tips, mass="accelerability"), true, 1),
            "published_%": published_error(mech, tips, true),
            "six_with_modes_%": error(supple.reduce(mech, tips, modes=added), true, 6),
        }
        report.row(what=name, rank=plain.rank, first_Hz=float(true[0]), **errors, modes=added)
        if name in WITH_TARGETS:
            one, six = abs(errors["consistent_%"]), abs(errors["six_with_modes_%"])
            report.target(f"{name}: error of the first frequency, %", one, at_most=8)
            report.target(f"{name}: error of the first six with {added} modes, %", six, at_most=0.5)


def error(model: supple.ReducedModel, true: np.ndarray, count: int) -> float:
    """Largest error of the first `count` frequencies, %; too high is positive."""
    basis = model.basis
    values = eigh(basis.T @ model.stiffness @ basis, basis.T @ model.mass @ basis, eigvals_only=True)
    off = 100 * (np.sqrt(values[:count]) / (2 * np.pi) / true[:count] - 1)
    return float(off[np.abs(off).argmax()])


def published_error(mech: Mechanism, tips: list[str], true: np.ndarray) -> Any:
    try:
        return error(supple.reduce(mech, tips, method="recursion", mass="accelerability"), true, 1)
    except supple.MechanismError:
        return "refused"


# step responses


def responses(report: Report, duration: float, folder: Path | None) -> None:
    """Displacement of the tip along a force that is switched on; engine and models use backward Euler."""
    dt = 1e-3
    times = dt * np.arange(1, round(duration / dt) + 1)
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 5.6), layout="constrained")
    chosen = {name: mechanisms()[name] for name in PUSH}
    for plot, (name, (mech, tips)) in zip(axes.flat, chosen.items(), strict=True):
        added = min(MODES, mech.mobility - supple.reduce(mech, tips).rank)
        models = {
            "6 numbers a tip": supple.reduce(mech, tips),
            "published mass": supple.reduce(mech, tips, mass="accelerability"),
            f"{added} modes added": supple.reduce(mech, tips, modes=added),
        }
        true = response(supple.Simulation(mech, dt), tips[0], PUSH[name], len(times))
        plot.plot(times, 1e3 * true, color=INK, lw=2.4, label="engine")
        errors = {}
        for (what, model), colour in zip(models.items(), (RED, BLUE, GREEN), strict=True):
            path = response(supple.ReducedSimulation(model, dt), tips[0], PUSH[name], len(times))
            plot.plot(times, 1e3 * path, color=colour, lw=1.1, label=what)
            errors[what] = 100 * float(np.sqrt(np.mean((path - true) ** 2)) / np.abs(true).max())
        plain, light, with_modes = errors.values()
        force = float(np.linalg.norm(PUSH[name]))
        columns = {"plain_rms_%": plain, "published_rms_%": light, "with_modes_rms_%": with_modes}
        report.row(response=name, N=force, peak_mm=1e3 * float(np.abs(true).max()), **columns)
        plot.set(title=f"{name}, {force:g} N switched on", xlabel="s", ylabel="tip along the force, mm")
        plot.spines[["top", "right"]].set_visible(False)
        plot.legend(frameon=False, fontsize=7)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / "step_response.png", dpi=90)


def response(sim: supple.Simulation | supple.ReducedSimulation, tip: str, force: tuple, n: int) -> np.ndarray:
    """(n,) displacement of the tip's origin along the force, m."""
    along = np.array(force) / np.linalg.norm(force)
    sim.apply(tip, [*force, 0, 0, 0])
    pose_of = sim.end_effector_pose if isinstance(sim, supple.ReducedSimulation) else (lambda name: sim.poses[name])
    start, path = pose_of(tip)[:3, 3], np.empty(n)
    for k in range(n):
        sim.step()
        path[k] = along @ (pose_of(tip)[:3, 3] - start)
    return path


if __name__ == "__main__":
    main()
