"""The commands. Each is a thin layer on the public face."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import supple
from supple.cli import facts, solve, tables, words
from supple.cli.source import open_mechanism

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"supple {supple.__version__}")
        raise typer.Exit


Source = Annotated[
    str, typer.Argument(metavar="NAME_OR_FILE", help="Ladder, helix ... or an MJCF, URDF or JSON file")
]
KeyframeName = Annotated[str | None, typer.Option("--keyframe", help="Start from this keyframe of the file")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts")]
Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version")
]
Picture = Annotated[Path, typer.Option("--picture", "-o", help="Where to write the picture")]
Forces = Annotated[
    list[str] | None,
    typer.Option("--force", metavar="BODY FX FY FZ", help="Force on a body or site, N; may be repeated"),
]
Torques = Annotated[
    list[str] | None,
    typer.Option("--torque", metavar="BODY TX TY TZ", help="Torque on a body or site, N m; may be repeated"),
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="NAME VALUE", help="Set-point of a spring or motor, rad or m"),
]
Frame = Annotated[str, typer.Option("--frame", help="Axes of forces and torques: world or body")]
Springs = Annotated[
    float | None, typer.Option("--springs", metavar="STIFFNESS", help="Spring what nothing holds, N m/rad")
]
Duration = Annotated[
    float | None, typer.Option("--time", metavar="SECONDS", help="Simulate that long, instead of statics")
]
Damping = Annotated[
    float | None, typer.Option("--damping", metavar="DAMPING", help="Of those springs, N m s/rad (none)")
]
StepSize = Annotated[float | None, typer.Option("--dt", metavar="SECONDS", help="Step of the simulation (0.002)")]
Method = Annotated[str | None, typer.Option("--method", help="Of the simulation: euler or bdf2 (euler)")]
Everything = Annotated[bool, typer.Option("--all", help="Print every body and joint")]


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turns what a user can put right into one line on stderr and exit code 1."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever reads has seen enough: typer ends quietly
    except (supple.MechanismError, supple.ConvergenceError, ImportError, OSError) as error:
        text = str(error).replace("mech.with_springs(stiffness=...)", "--springs 50")
        typer.echo(f"supple: {' '.join(tables.printable(text).split())}", err=True)
        raise typer.Exit(1) from None


@app.callback()
def options(version: Version = False) -> None:
    """Mechanisms that bend: look at them, try them."""


@app.command()
def info(source: Source, keyframe: KeyframeName = None, as_json: AsJson = False) -> None:
    """Print bodies, joints, loops, mobility, what holds what, and what was not imported."""
    with _plain_errors():
        mech = open_mechanism(source, keyframe)
        found = facts.describe(mech)
        if as_json:
            json.dump(found, sys.stdout, indent=2, allow_nan=False)
            typer.echo()
        else:
            tables.show(found)


@app.command(cls=words.GroupedCommand)
def run(
    source: Source,
    force: Forces = None,
    torque: Torques = None,
    frame: Frame = "world",
    target: Targets = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    time: Duration = None,
    dt: StepSize = None,
    method: Method = None,
    picture: Picture = Path("supple-run.png"),
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """Load a mechanism: print and draw where it comes to rest, or where it is after some time.

    For example: supple run ladder --force tip 0 100 0
    """
    if time is None and (dt is not None or method is not None):
        raise typer.BadParameter("--dt and --method belong to a simulation; give its length too, with --time SECONDS")
    if springs is None and damping is not None:
        raise typer.BadParameter("--damping belongs to --springs STIFFNESS; give that too")
    with _plain_errors():
        loads = solve.wrenches(words.untied("--force", force), words.untied("--torque", torque))
        targets = {name: value for name, (value,) in words.untied("--target", target)}
        _check_picture(picture)
        mech = open_mechanism(source, keyframe)
        if springs is not None:
            mech = mech.with_springs(springs, damping or 0.0)
        task = solve.Task(mech, loads, frame, targets)
        if time is None:
            outcome = solve.settle(task)
        else:
            outcome = solve.simulate(task, time, 2e-3 if dt is None else dt, method or "euler")
        _draw(task, outcome, picture)
        if as_json:
            json.dump(outcome.facts | {"picture": str(picture)}, sys.stdout, indent=2, allow_nan=False)
            typer.echo()
        else:
            tables.show_outcome(outcome.facts, None if everything else 10)
            typer.echo(f"\nThe picture is in {picture}: the reference pose pale, the shape above solid.")
        if outcome.error is not None:
            raise outcome.error


def _check_picture(path: Path) -> None:
    """Before anything long is begun."""
    from supple.viewer.picture import FORMATS

    if path.suffix.lower() not in FORMATS:
        raise supple.MechanismError(f"'{path}': a picture's name ends in {', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise supple.MechanismError(f"there is no folder '{path.parent}' to write the picture to")


def _draw(task: solve.Task, outcome: solve.Outcome, path: Path) -> None:
    from supple.viewer import draw

    mech = task.mechanism
    what = "loaded" if task.wrenches else "at rest"
    if "time" in outcome.facts:
        what = f"at {outcome.facts['time']:g} s"
    labels, title = list(task.wrenches)[:6] or None, f"{mech.name} {what}"
    draw(mech, outcome.poses.array, path=path, ghost=mech.poses.array, labels=labels, title=title)


@app.command()
def demo(picture: Picture = Path("supple-demo.png")) -> None:
    """Fold the ladder into its top rung, pull it, compare with the full engine, draw both shapes."""
    from supple.cli.demo import FORCE, compare
    from supple.viewer import draw

    with _plain_errors():
        _check_picture(picture)
        found = compare()
        mech, model = found.mechanism, found.model
        tables.show(facts.describe(mech), rows=0)
        typer.echo(
            f"\nReduced to its top rung, 'tip', in {1e3 * found.built:.1f} ms: {len(model.stiffness)} numbers of rank "
            f"{model.rank} stand for\n{len(mech.bodies)} links and {len(mech.topology.loops)} closed loops. "
            f"{FORCE:g} N pull it sideways:\n"
        )
        tables.show_comparison(found.rows)
        title, view = f"{mech.name}, {FORCE:g} N", (10.0, -25.0)
        draw(mech, found.reduced.array, path=picture, ghost=found.full.array, title=title, view=view)
        typer.echo(f"\nBoth shapes are in {picture}: reduced solid, the engine's pale. Next:")
        typer.echo("  supple info ladder                              every body and joint of it")
        typer.echo("  supple run ladder --force tip 0 100 0 --time 2  a harder pull, by the engine")
        typer.echo("  supple info YOUR_ROBOT.xml                      your own MJCF, URDF or JSON file")
        typer.echo("  supple run YOUR_ROBOT.urdf --springs 50         how it sags on springs of 50 N m/rad")
