"""`supple info`, `run` and `sweep`: a mechanism, its equilibria and its motion in the full engine."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

import supple
from supple.cli import facts, solve, tables
from supple.cli.grouped_options import split_groups
from supple.cli.motion_files import MOTIONS, describe_file, write_motion
from supple.cli.options import (
    PICTURES,
    AsJson,
    Base,
    Coordinates,
    Damping,
    Forces,
    Frame,
    KeyframeName,
    Source,
    Springs,
    Targets,
    Torques,
    Version,
    check_file,
    end_effectors_or_tips,
    values_by_name,
)
from supple.cli.output import errors_in_one_line, print_json
from supple.cli.preparing import Preparation, movable
from supple.cli.standing import open_standing
from supple.cli.sweeping import varied
from supple.recording import Recorder
from supple.viewer import draw

Duration = Annotated[
    float | None, typer.Option("--time", metavar="SECONDS", help="Simulate this time, instead of the equilibrium")
]
StepSize = Annotated[
    float | None, typer.Option("--dt", metavar="SECONDS", help="Time step of the simulation (default 0.002)")
]
Integrator = Annotated[
    str | None, typer.Option("--method", help="Integrator of the simulation: euler or bdf2 (default euler)")
]
PrintAll = Annotated[bool, typer.Option("--all", help="Print every body and joint")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--out",
        "--picture",
        "-o",
        metavar="FILE",
        help="File to write: picture (.png, .pdf, .svg) or, with --time, recording (.npz), glTF animation (.glb), "
        "video (.mp4, .gif) or table (.csv); may be repeated (default supple-run.png)",
    ),
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="NAME VALUES",
        help="Parameter and its values, FIRST:LAST:COUNT or a list: elbow.stiffness 10:100:20, lower.mass 1,2,5; may "
        "be repeated for all combinations",
    ),
]
Measured = Annotated[
    str | None, typer.Option("--measure", metavar="NAME", help="Body or site to write the position of (default: a tip)")
]
ResumeFile = Annotated[
    Path | None, typer.Option("--resume", metavar="FILE", help="File (.npz) from which a stopped sweep goes on")
]
SkipFailures = Annotated[bool, typer.Option("--skip-failures", help="Write nan where there is no equilibrium")]
TableFile = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the table (.csv)")]


def info(
    source: Source,
    base: Base = None,
    keyframe: KeyframeName = None,
    as_json: AsJson = False,
    version: Version = False,
) -> None:
    """Print bodies, joints, springs, loops, mobility, and elements of the file that were not imported."""
    with errors_in_one_line():
        mech = Preparation(keyframe, base).open(source)
        found = facts.describe_mechanism(mech)
        if as_json:
            print_json(found)
        else:
            tables.show(found)


def run(
    source: Source,
    force: Forces = None,
    torque: Torques = None,
    frame: Frame = "world",
    target: Targets = None,
    q: Coordinates = None,
    base: Base = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    time: Duration = None,
    dt: StepSize = None,
    method: Integrator = None,
    out: Files = None,
    everything: PrintAll = False,
    as_json: AsJson = False,
) -> None:
    """Print and draw the equilibrium of a mechanism under a load, or with --time its state after a simulation.

    With --time, a file with ground or a free base has contact and starts from its keyframe (home or the first).
    For example: supple run ladder --force tip 0 100 0
    """
    if time is None and (dt is not None or method is not None):
        raise typer.BadParameter("--dt and --method belong to a simulation; give its length too, with --time SECONDS")
    with errors_in_one_line():
        loads = solve.wrenches(split_groups("--force", force), split_groups("--torque", torque))
        targets = values_by_name("--target", target)
        files = out or [Path("supple-run.png")]
        if time is None and (motions := [path for path in files if path.suffix.lower() in MOTIONS]):
            raise supple.MechanismError(f"'{motions[0]}' holds a motion: give its length, with --time SECONDS")
        for path in files:
            check_file(path, PICTURES if time is None else (*PICTURES, *MOTIONS), "a picture or motion")
        preparation = Preparation(keyframe, base, values_by_name("--q", q), springs, damping)
        if time is None:
            task = solve.Task(preparation.open(source), loads, frame, targets)
        else:
            mech, has_contact = open_standing(preparation, source)
            task = solve.Task(movable(mech), loads, frame, targets, has_contact)
        motions = [path for path in files if path.suffix.lower() in MOTIONS]
        if time is None:
            result = solve.find_equilibrium(task)
        else:
            step = 2e-3 if dt is None else dt
            result = _simulated(task, time, step, method or "euler", motions)
        for path in files:
            if path not in motions:
                _draw(task, result, path)
        if as_json:
            pictures = [str(path) for path in files if path.suffix.lower() in PICTURES]
            named = {"picture": pictures[0]} if pictures else {}
            print_json(result.facts | named | {"files": [str(path) for path in files]})
        else:
            tables.show_outcome(result.facts, None if everything else 10)
            typer.echo("")
            for path in files:
                typer.echo(describe_file(path))
        if result.error is not None:
            raise result.error


def _simulated(task: solve.Task, time: float, dt: float, method: str, motions: list[Path]) -> solve.RunResult:
    """The result of a simulation whose motion is written to files. It is recorded into the first `.npz` file while it
    runs, or into a temporary one."""
    if not motions:
        return solve.simulate(task, time, dt, method)
    own = next((path for path in motions if path.suffix.lower() == ".npz"), None)
    recorders: list[Recorder] = []

    def record(sim: supple.Simulation) -> Recorder:
        recorders.append(sim.record(own))
        return recorders[0]

    result = solve.simulate(task, time, dt, method, record)
    for path in motions:
        if path != own:
            write_motion(recorders[0].recording, path)
    return result


def _draw(task: solve.Task, result: solve.RunResult, path: Path) -> None:
    mech = task.mechanism
    what = "loaded" if task.wrenches else "in equilibrium"
    if "time" in result.facts:
        what = f"at {result.facts['time']:g} s"
    labels, title = list(task.wrenches)[:6] or None, f"{mech.name} {what}"
    draw(mech, result.poses, path=path, ghost=mech.poses, labels=labels, title=title)


def sweep(
    source: Source,
    vary: Vary = None,
    measure: Measured = None,
    force: Forces = None,
    torque: Torques = None,
    frame: Frame = "world",
    q: Coordinates = None,
    base: Base = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    resume: ResumeFile = None,
    skip_failures: SkipFailures = False,
    out: TableFile = Path("supple-sweep.csv"),
    as_json: AsJson = False,
) -> None:
    """Compute the equilibria of many variants of a mechanism, and write where a body or site is in each to a table.

    For example: supple sweep robot_arm --vary hinge_1.stiffness 10:100:20 --force tip 0 0 -5 -o out.csv
    """
    with errors_in_one_line():
        check_file(out, (".csv",), "a table")
        values = varied(vary)
        loads = solve.wrenches(split_groups("--force", force), split_groups("--torque", torque))
        mech = Preparation(keyframe, base, values_by_name("--q", q), springs, damping).open(source)
        name = measure or end_effectors_or_tips(mech, None)[0]
        found = supple.sweep(mech, values, loads, name, frame=frame, resume=resume, skip_failures=skip_failures)
        found.to_csv(out)
        variants = math.prod(map(len, values.values()))
        told = {"variants": variants, "failures": len(found.failures), "measure": name, "file": str(out)}
        if as_json:
            print_json(told)
        else:
            failed = f", {len(found.failures)} of them without an equilibrium" if found.failures else ""
            typer.echo(f"The positions of '{name}' in {variants} variants{failed} are in {out}.")
