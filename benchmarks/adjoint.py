"""Derivatives of time steps: times of the recorded simulation and of both sweeps, and the error of gradients.

Times are microseconds per step of 2 ms. `simulation` is a run that is not recorded; `gradient` is one sweep backward,
`tangent` one sweep forward with eight directions. The ratio is that of recorded run and sweep backward to the run
alone. The error is that of the gradient with respect to the force on the tip, along one direction, against central
differences of the simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import supple
from _report import Report, best, parse_args
from supple.engine import Tape, adjoint
from supple.mechanism import Mechanism

DT = 2e-3
HAND = Path(__file__).parents[2] / "shared/robots/shadow_hand/right_hand.xml"
"""Where it lies beside the project."""


def main() -> None:
    args = parse_args(__doc__)
    report = Report("derivatives of time steps", args)
    for name, mech in mechanisms().items():
        measure(report, name, mech, 200 if args.quick else 1000)
    report.finish()


def mechanisms() -> dict[str, Mechanism]:
    library = supple.library
    helices = {f"helix, {n} hinges": library.helix(n) for n in (50, 100, 400)}
    hand = {"Shadow Hand": supple.load(HAND)} if HAND.exists() else {}
    return {
        "arm, 20 links": library.robot_arm(20),
        **helices,
        "ladder": library.ladder(),
        "loop": library.loop(),
        **hand,
    }


def has_tip(mech: Mechanism) -> bool:
    return any(frame.name == "tip" for frame in (*mech.bodies, *mech.sites))


def tip(mech: Mechanism) -> str:
    return "tip" if has_tip(mech) else mech.bodies[-1].name


def started(mech: Mechanism, share: float = 1.0) -> supple.Simulation:
    """A simulation with a force on the tip: 20 N, or 0.1 N on a hand."""
    sim = supple.Simulation(mech, DT, "bdf2")
    sim.apply(tip(mech), [0, share * force(mech), 0, 0, 0, 0])
    return sim


def force(mech: Mechanism) -> float:
    return 20.0 if has_tip(mech) else 0.1


def measure(report: Report, name: str, mech: Mechanism, steps: int) -> None:
    sim = started(mech)
    begin = sim.save()

    def run(recorded: bool) -> Tape | None:
        sim.restore(begin)
        tape = sim.tape() if recorded else None
        sim.step(steps)
        return tape

    tape = run(True)
    assert tape is not None
    weights = np.random.default_rng(0).normal(size=(steps + 1, 3))
    wrenches = adjoint.point_gradient(tape, tip(mech), weights)
    directions = {mech.coordinates[0]: np.ones(8)}

    def gradient() -> None:
        vars(tape).pop("sweep", None)  # as for a new tape
        adjoint.gradient(tape, poses=wrenches)

    works: dict[str, Callable[[], object]] = {
        "simulation": lambda: run(False),
        "recorded": lambda: run(True),
        "gradient": gradient,
        "tangent, 8": lambda: adjoint.tangent(tape, stiffness=directions, want=("poses",)),
    }
    times = dict.fromkeys(works, np.inf)
    for _ in range(10):  # alternating, because the speed of the machine changes
        for part, work in works.items():
            times[part] = min(times[part], best(work, 1))
    ratio = (times["recorded"] + times["gradient"]) / times["simulation"]
    report.row(
        mechanism=name,
        **{key: round(value / steps * 1e6, 1) for key, value in times.items()},
        ratio=round(ratio, 2),
        kB_per_step=round(tape.memory / steps / 1e3, 1),
        gradient_error=float(f"{gradient_error(mech, min(steps, 100)):.1e}"),
    )
    report.target(f"recorded run and gradient / run, {name}", ratio, at_most=3.0)
    report.target(f"error of the gradient, {name}", report.rows[-1]["gradient_error"], at_most=1e-7)


def gradient_error(mech: Mechanism, steps: int) -> float:
    """Relative difference of the derivative with respect to the force from a central difference of fourth order."""
    weights = np.random.default_rng(0).normal(size=(steps + 1, 3))

    def recorded(share: float) -> Tape:
        sim = started(mech, share)
        tape = sim.tape()
        sim.step(steps)
        return tape

    def difference(size: float) -> float:
        up, down = (adjoint.points(recorded(1 + change), tip(mech)) for change in (size, -size))
        return float(np.sum(weights * (up - down))) / (2 * size)

    tape = recorded(1.0)
    gradient = adjoint.gradient(tape, poses=adjoint.point_gradient(tape, tip(mech), weights))
    exact = float(gradient.load(tip(mech))[:, 1].sum()) * force(mech)
    return abs((4 * difference(0.05) - difference(0.1)) / 3 - exact) / abs(exact)


if __name__ == "__main__":
    main()
