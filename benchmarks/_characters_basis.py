"""A basis trained on the boxing run serves the drumming run (figure 6, right, of the retargeting paper).

Full finite elements simulate a part of the boxing motion. Principal components of the shapes of legs and forearms are
the modes of the drummer's rods. The reduced drummer is compared with full finite elements of a part of the drumming
motion, and so is the one with the basis of the library. Both runs begin at rest, 0.3 s after the
start of the motion, and have a coarse mesh. The error is the largest distance between reduced and full, over the
largest deviation of the full simulation from the quasi-static motion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import supple
from _report import Report
from supple.elastic import Part
from supple.engine import FullSimulation, full_equilibrium
from supple.mechanism import Mechanism
from supple.mechanism.library.characters import boxer, drummer
from supple.mechanism.record import Array
from supple.retargeting import Motion, characters
from supple.retargeting.problem import Problem

BEGIN = 0.3
"""s of the motions that are left out: the motors stand still."""
BOXING, DRUMMING = (2.4, 8e-3), (2.0, 5e-3)
"""Duration and time step of the two runs, s."""
SECTIONS = 12
"""Of the mesh of each rod."""
LEG_MODES, FOREARM_MODES = 16, 9
"""Of the bases from the boxing run."""
BODIES = "head", "left_hand", "right_hand"
MOST = 3.0
"""Error, %."""


@dataclass(frozen=True)
class FullRun:
    """A run of full finite elements."""

    positions: dict[str, Array]
    """(t, 3) by body, m."""
    shapes: dict[str, Array]
    """(t, nodes, 3) displacements by flexible body, m."""


def driven(motion: Motion) -> dict[str, Callable[[float], float]]:
    """Functions of time for the motors; the time 0 is `BEGIN` of the motion."""
    return {name: lambda t, i=i: float(motion(t + BEGIN)[i]) for i, name in enumerate(motion.motors)}


def targets(motion: Motion) -> dict[str, float]:
    """Angles of the motors at the begin of the runs."""
    return dict(zip(motion.motors, motion(BEGIN).tolist(), strict=True))


def full_run(mech: Mechanism, motion: Motion, duration: float, dt: float) -> FullRun:
    start = full_equilibrium(mech, targets=targets(motion), progress=lambda fraction: None)
    sim = FullSimulation(mech, dt, start=start, motors=driven(motion))
    positions: dict[str, list[Array]] = {name: [] for name in BODIES}
    shapes: dict[str, list[Array]] = {each.name: [] for each in mech.flexible}
    for _ in range(round(duration / dt)):
        sim.step(1, progress=lambda fraction: None)
        for name, own in positions.items():
            own.append(sim.poses[name][:3, 3])
        for name, own in shapes.items():
            own.append(sim.displacements(name))
    return FullRun(*({name: np.array(own) for name, own in each.items()} for each in (positions, shapes)))


def reduced_run(mech: Mechanism, motion: Motion, duration: float, dt: float) -> dict[str, Array]:
    """(t, 3) positions by body, m."""
    start = supple.equilibrium(mech, targets=targets(motion))
    sim = supple.Simulation(mech, dt, "bdf2", at=start, motors=driven(motion))
    with sim.tape() as tape:
        sim.step(round(duration / dt))
    return {name: tape.poses[1:, mech.body_index(name), :3, 3] for name in BODIES}


def trained_rods(mech: Mechanism, run: FullRun) -> tuple[Part, Part]:
    """Leg and forearm with modes from the shapes of both legs and of both forearms."""
    parts = {each.name: each.part for each in mech.flexible}
    found = []
    for limb, modes in (("leg", LEG_MODES), ("forearm", FOREARM_MODES)):
        shapes = np.concatenate([run.shapes[f"{side}_{limb}"] for side in ("left", "right")])
        part = parts[f"left_{limb}"].without_basis()
        found.append(part.with_basis(modes, snapshots=shapes))
    return found[0], found[1]


def quasi_static(mech: Mechanism, motion: Motion, duration: float, dt: float) -> dict[str, Array]:
    """(t, 3) positions by body of the static states, m."""
    problem = Problem(mech, motion, characters.character("drummer").weights(), dt)
    rows = round(BEGIN / dt) + np.arange(1, round(duration / dt) + 1)
    return {name: problem.targets[rows, mech.body_index(name), :3, 3] for name in BODIES}


def transferred_basis(report: Report, note: Callable[[str], None]) -> None:
    boxing, drumming = (characters.character(name).motion for name in ("boxer", "drummer"))
    fighting, plain = boxer(sections=SECTIONS), drummer(sections=SECTIONS)
    note("basis: full finite elements of the boxing run")
    training = full_run(fighting, boxing, *BOXING)
    note("basis: full finite elements of the drumming run")
    truth = full_run(plain, drumming, *DRUMMING)
    compare(report, plain, drumming, trained_rods(fighting, training), truth.positions)


def compare(
    report: Report, plain: Mechanism, drumming: Motion, rods: tuple[Part, Part], truth: dict[str, Array]
) -> None:
    target = quasi_static(plain, drumming, *DRUMMING)
    bases = {"boxing run": drummer(sections=SECTIONS, rods=rods), "statics": plain}
    for basis, mech in bases.items():
        found = reduced_run(mech, drumming, *DRUMMING)
        for name in BODIES:
            deviation = np.linalg.norm(truth[name] - target[name], axis=1).max()
            error = 100 * float(np.linalg.norm(found[name] - truth[name], axis=1).max() / deviation)
            report.row(basis=basis, body=name, full_deviation_mm=1e3 * float(deviation), error_percent=error)
            if basis == "boxing run":
                report.target(f"basis of the boxing run: error of the {name}, %", error, at_most=MOST)
