"""The commands of `supple`. Each is a thin layer on the public names."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import supple
from supple.cli import facts, solve, tables
from supple.cli.basis import remade_part
from supple.cli.fit import describe_fit, fit_lines
from supple.cli.grouped_options import GroupedCommand, error_in_one_line, split_groups
from supple.cli.options import (
    PICTURES,
    REGION,
    AsJson,
    Base,
    Browser,
    Coordinates,
    Damping,
    EndEffectors,
    Forces,
    Frame,
    Host,
    KeyframeName,
    Port,
    Source,
    Springs,
    Targets,
    Torques,
    check_file,
    completions,
)
from supple.cli.preparing import Preparation, movable, with_targets
from supple.cli.source import library_names, open_mechanism
from supple.cli.sweeping import varied
from supple.errors import RecordingWarning, StartWarning
from supple.files import writing
from supple.mechanism import Mechanism
from supple.progress import Bar
from supple.recording import Recorder, Recording
from supple.viewer import draw
from supple.viewer.methods import METHODS, likely_end_effectors
from supple.viewer.rendering import VIEW
from supple.viewer.scenery import SCENES, SceneModels
from supple.viewer.server import HOST, PORT

MOTIONS = (".npz", ".glb", ".mp4", ".gif", ".csv")
"""Files that hold a motion: recording, glTF animation, videos, table."""
FINGER = "finger"
"""The finger of `supple.zones`, which has a skin."""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from supple import _core

        typer.echo(f"supple {supple.__version__}, compiled for {_core.VARIANT}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the version and the core's instruction set"
    ),
]
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
Picture = Annotated[Path, typer.Option("--picture", "-o", help="File for the picture")]
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
ModelFile = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the model (.npz)")]
MethodName = Annotated[
    str | None,
    typer.Option("--method", help=f"Method at the start: {', '.join(METHODS)} (default: the fastest that is possible)"),
]


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Turns errors that a user can correct into one line on stderr and exit code 1, and start warnings into one
    line."""
    show = warnings.showwarning

    def show_in_one_line(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, StartWarning | RecordingWarning):
            text = str(message).partition(" To start there")[0]  # the rest is about Python
            typer.echo(f"supple: {tables.printable(text)}", err=True)
        else:
            show(message, category, *rest)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_in_one_line  # type: ignore[assignment]
            yield
    except BrokenPipeError:
        raise  # the reader of the pipe has closed it: typer ends quietly
    except (supple.MechanismError, supple.ConvergenceError, ImportError, OSError) as error:
        typer.echo(f"supple: {tables.printable(error_in_one_line(error))}", err=True)
        raise typer.Exit(1) from None


@app.callback()
def options(version: Version = False) -> None:
    """Simulate compliant mechanisms."""


@app.command()
def info(source: Source, keyframe: KeyframeName = None, as_json: AsJson = False, version: Version = False) -> None:
    """Print bodies, joints, springs, loops, mobility, and elements of the file that were not imported."""
    with _errors_in_one_line():
        mech = open_mechanism(source, keyframe)
        found = facts.describe_mechanism(mech)
        if as_json:
            _print_json(found)
        else:
            tables.show(found)


@app.command(cls=GroupedCommand)
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

    For example: supple run ladder --force tip 0 100 0
    """
    if time is None and (dt is not None or method is not None):
        raise typer.BadParameter("--dt and --method belong to a simulation; give its length too, with --time SECONDS")
    with _errors_in_one_line():
        loads = solve.wrenches(split_groups("--force", force), split_groups("--torque", torque))
        targets = _values("--target", target)
        files = out or [Path("supple-run.png")]
        if time is None and (motions := [path for path in files if path.suffix.lower() in MOTIONS]):
            raise supple.MechanismError(f"'{motions[0]}' holds a motion: give its length, with --time SECONDS")
        for path in files:
            check_file(path, PICTURES if time is None else (*PICTURES, *MOTIONS), "a picture or motion")
        mech = Preparation(keyframe, base, _values("--q", q), springs, damping).open(source)
        task = solve.Task(mech if time is None else movable(mech), loads, frame, targets)
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
            _print_json(result.facts | named | {"files": [str(path) for path in files]})
        else:
            tables.show_outcome(result.facts, None if everything else 10)
            typer.echo("")
            for path in files:
                typer.echo(_describe_file(path))
        if result.error is not None:
            raise result.error


@app.command()
def reduce(
    source: Source,
    end_effector: EndEffectors = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    out: ModelFile = Path("supple-model.npz"),
    as_json: AsJson = False,
) -> None:
    """Make a linear model of the end effectors, for small motion, and save it to a file.

    For example: supple reduce ladder --end-effector tip -o tip.npz
    """
    with _errors_in_one_line():
        check_file(out, (".npz",), "a model")
        mech = Preparation(keyframe, springs=springs, damping=damping).open(source)
        tips = _end_effectors(mech, end_effector)
        model = supple.reduce(mech, tips)
        model.save(out)
        found = facts.describe_model(model) | {"file": str(out)}
        if as_json:
            _print_json(found)
        else:
            tables.show_model(found)
            typer.echo(f"\nThe model is in {out}: supple.ReducedModel.load('{out}') reads it.")


@app.command(cls=GroupedCommand)
def sweep(
    source: Source,
    vary: Vary = None,
    measure: Measured = None,
    force: Forces = None,
    torque: Torques = None,
    frame: Frame = "world",
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
    with _errors_in_one_line():
        check_file(out, (".csv",), "a table")
        values = varied(vary)
        loads = solve.wrenches(split_groups("--force", force), split_groups("--torque", torque))
        mech = Preparation(keyframe, springs=springs, damping=damping).open(source)
        name = measure or _end_effectors(mech, None)[0]
        found = supple.sweep(mech, values, loads, name, frame=frame, resume=resume, skip_failures=skip_failures)
        found.to_csv(out)
        variants = math.prod(map(len, values.values()))
        told = {"variants": variants, "failures": len(found.failures), "measure": name, "file": str(out)}
        if as_json:
            _print_json(told)
        else:
            failed = f", {len(found.failures)} of them without an equilibrium" if found.failures else ""
            typer.echo(f"The positions of '{name}' in {variants} variants{failed} are in {out}.")


@app.command()
def explore(
    source: Source,
    end_effector: EndEffectors = None,
    max_error: Annotated[
        float,
        typer.Option("--max-error", help="Allowed position error of end effectors and separation, over the radius"),
    ] = 0.05,
    reach: Annotated[
        float, typer.Option("--reach", help="Largest displacement of end effectors, over the radius of the mechanism")
    ] = 0.5,
    budget: Annotated[int, typer.Option("--budget", help="Largest number of linear models")] = 100,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    out: ModelFile = Path("supple-models.npz"),
    as_json: AsJson = False,
) -> None:
    """Find linear models over a range of motion, and save the blended model to a file.

    For example: supple explore ladder --max-error 0.05 --reach 0.5 -o ladder.npz
    """
    with _errors_in_one_line(), warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)  # printed below
        check_file(out, (".npz",), "a model")
        mech = Preparation(keyframe, springs=springs, damping=damping).open(source)
        tips = _end_effectors(mech, end_effector)
        many = supple.explore(mech, tips, max_error, reach, budget=budget)
        many.save(out)
        found = facts.describe_exploration(many) | {"file": str(out)}
        if as_json:
            _print_json(found)
        else:
            tables.show_exploration(found)
            typer.echo(f"\nThe models are in {out}: supple.reduced.BlendedModel.load('{out}') reads them.")
        if not found["met"]:
            raise supple.MechanismError(
                f"only {found['within']:.0%} of the points are within {max_error:g}; raise --budget or --max-error, "
                "or lower --reach"
            )


@app.command()
def basis(
    source: Source,
    part: Annotated[
        str | None, typer.Option("--part", metavar="NAME", help="Flexible body (default: the only one)")
    ] = None,
    modes: Annotated[int, typer.Option("--modes", help="Number of modes")] = 15,
    plane: Annotated[
        str | None, typer.Option("--plane", metavar="AXIS", help="Bend only in the plane normal to an axis of the part")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="MOTION", help="CSV file (time, motors): snapshots of its full simulation"),
    ] = None,
    out: ModelFile = Path("supple-part.npz"),
    as_json: AsJson = False,
) -> None:
    """Make another basis for a flexible body, and save the part to a file.

    For example: supple basis rod_on_motor --modes 10 --plane y -o rod.npz
    """
    with _errors_in_one_line():
        check_file(out, (".npz",), "a part")
        mech = open_mechanism(source)
        with Bar("basis") as bar:
            options = {"modes": modes} | ({} if run is not None else {"plane": plane})
            made = remade_part(mech, part, run, bar.set_fraction, **options)
        made.save(out)
        assert made.basis is not None
        frequencies = made.basis.frequencies()[:3].tolist()
        if as_json:
            _print_json({"file": str(out), "modes": made.basis.size, "frequencies": frequencies})
        else:
            shown = ", ".join(f"{value:.4g}" for value in frequencies)
            typer.echo(f"{made.basis.size} modes; the first frequencies of the clamped part are {shown} Hz.")
            typer.echo(f"The part is in {out}: supple.elastic.load('{out}') reads it.")


@app.command()
def retarget(
    source: Source,
    motion: Annotated[Path, typer.Argument(help="Motor positions over time: CSV (time, motors), JSON or NPZ")],
    track: Annotated[
        list[str], typer.Option("--track", metavar="BODY[=WEIGHT]", help="Body that must not shake; may be repeated")
    ],
    method: Annotated[str, typer.Option("--method", help="gauss-newton, mixed, l-bfgs or bfgs")] = "gauss-newton",
    dt: Annotated[
        list[float] | None,
        typer.Option("--dt", metavar="SECONDS", help="Time step; several are used in turn (default 0.002, 0.0005)"),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", metavar="HZ", help="Samples a second in the file")] = 100.0,
    speed_limit: Annotated[
        float | None, typer.Option("--speed-limit", metavar="RAD/S", help="Of every motor; a penalty acts beyond it")
    ] = None,
    acceleration_limit: Annotated[
        float | None, typer.Option("--acceleration-limit", metavar="RAD/S^2", help="The same of the acceleration")
    ] = None,
    torque_limit: Annotated[
        float | None, typer.Option("--torque-limit", metavar="NM", help="The same of the torque")
    ] = None,
    robust: Annotated[
        float | None,
        typer.Option("--robust", metavar="SHARE", help="Optimise also for stiffnesses off by this share: 0.1"),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write a report: .html, .png, .pdf or .svg")
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            "--recording", metavar="FILE", help="Target, input and optimised side by side: .npz, .glb, .mp4 or .gif"
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the curves")] = Path(
        "supple-motion.csv"
    ),
    as_json: AsJson = False,
) -> None:
    """Change motor curves so that a robot with flexible parts does not shake, and save them to a file.

    After an interruption, the same command continues from the best curves so far.
    For example: supple retarget rod_on_motor turn.csv --track tip -o smooth.csv
    """
    from supple.viewer.side_by_side import retargeted_recording

    with _errors_in_one_line():
        check_file(out, (".csv", ".json", ".npz"), "a motion")
        if report is not None:
            check_file(report, (".html", *PICTURES), "a report")
        if recording is not None:
            check_file(recording, MOTIONS[:-1], "a recording")
        given = supple.retargeting.Motion.load(motion)
        mech = open_mechanism(source)
        checkpoint = out.with_name(f"{out.name}.checkpoint.npz")
        try:
            result = supple.retarget(
                mech,
                given,
                _weights(track),
                speed_limit=math.inf if speed_limit is None else speed_limit,
                acceleration_limit=math.inf if acceleration_limit is None else acceleration_limit,
                torque_limit=math.inf if torque_limit is None else torque_limit,
                method=method,
                dt=dt or (2e-3, 5e-4),
                robust=None if robust is None else {"stiffness": robust},
                checkpoint=checkpoint,
            )
        except KeyboardInterrupt:
            where = f"the best curves so far are in {checkpoint}, and the same command continues from them"
            typer.echo(f"Interrupted; {where if checkpoint.exists() else 'there are no curves yet'}.", err=True)
            raise typer.Exit(130) from None
        result.motion.save(out, rate)
        checkpoint.unlink(missing_ok=True)
        if report is not None:
            result.report(report)
        if recording is not None:
            _write_motion(retargeted_recording(result), recording)
        found = {
            "file": str(out),
            "fit_error": given.fit_error,
            "status": result.status,
            "iterations": len(result.history) - 1,
            "cost": [result.history[0], result.history[-1]],
            "rms_before": result.deviation_before,
            "rms_after": result.deviation_after,
        }
        if as_json:
            _print_json(found)
            return
        typer.echo(f"The spline follows the samples within {given.fit_error:.2g} rad or m.")
        typer.echo(f"{result.status} after {len(result.history) - 1} iterations")
        for name, before in result.deviation_before.items():
            after = result.deviation_after[name]
            typer.echo(f"{name}: {1e3 * before:.3g} mm rms from the slow motion before, {1e3 * after:.3g} mm after")
        typer.echo(f"The curves are in {out}.")
        if report is not None:
            typer.echo(f"The report is in {report}.")
        if recording is not None:
            typer.echo(_describe_file(recording))


def _weights(track: list[str]) -> dict[str, float]:
    """Weights of tracked bodies from texts BODY or BODY=WEIGHT."""
    weights = {}
    for text in track:
        name, _, weight = text.partition("=")
        try:
            weights[name] = float(weight or 1.0)
        except ValueError:
            raise supple.MechanismError(f"--track {text}: '{weight}' is no number") from None
    return weights


@app.command()
def fit(
    source: Source,
    motion: Annotated[Path, typer.Argument(metavar="MOTION", help="Motor positions (CSV: time,MOTOR,...; JSON, NPZ)")],
    measured: Annotated[Path, typer.Argument(metavar="MEASURED", help="Measured positions (CSV: time,x,y,z; s and m)")],
    body: Annotated[str, typer.Option("--body", metavar="NAME", help="The measured body or site")],
    part: Annotated[
        str | None, typer.Option("--part", metavar="NAME", help="Flexible body (default: the only one)")
    ] = None,
    numbers: Annotated[
        list[str] | None,
        typer.Option("--fit", metavar="NUMBER", help="young, alpha or beta; may be repeated (default: all)"),
    ] = None,
    dt: Annotated[float, typer.Option("--dt", metavar="SECONDS", help="Time step of the simulation")] = 1e-3,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw measured and simulated positions to this file")
    ] = None,
    out: ModelFile = Path("supple-part.npz"),
    as_json: AsJson = False,
) -> None:
    """Fit the material of a flexible body to a measured motion, and save the part to a file.

    For example: supple fit rod_on_motor turn.csv tip.csv --body tip -o rod.npz
    """
    from supple.retargeting import Motion, fit_material

    with _errors_in_one_line():
        check_file(out, (".npz",), "a part")
        if picture is not None:
            check_file(picture, PICTURES, "a picture")
        mech = open_mechanism(source)
        with Bar("fitting") as bar:
            fitted = fit_material(
                mech, Motion.load(motion), measured, body, part=part, fit=numbers, dt=dt, progress=bar.set_fraction
            )
        fitted.part.save(out)
        if picture is not None:
            fitted.plot(picture)
        if as_json:
            _print_json(describe_fit(fitted) | {"file": str(out)})
        else:
            typer.echo("\n".join(fit_lines(fitted)))
            typer.echo(f"\nThe part is in {out}: supple.elastic.load('{out}') reads it.")


@app.command(cls=GroupedCommand)
def compare(
    source: Source,
    end_effector: EndEffectors = None,
    force: Forces = None,
    torque: Torques = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    picture: Picture = Path("supple-compare.png"),
    as_json: AsJson = False,
) -> None:
    """Compare every method with the engine on your mechanism: error, separation, loop gaps, speed.

    Without --force a force pulls each end effector along its softest direction, by about 0.3 of the radius.
    For example: supple compare robot.xml --end-effector hand
    """
    from supple.cli.comparison import compare as compare_methods

    with _errors_in_one_line(), warnings.catch_warnings(), Bar("comparing") as bar:
        warnings.simplefilter("ignore", supple.RangeWarning)  # the table has the errors
        check_file(picture, PICTURES, "a picture")
        loads = solve.wrenches(split_groups("--force", force), split_groups("--torque", torque))
        mech = Preparation(keyframe, springs=springs, damping=damping).open(source)
        tips = end_effector or list(loads) or _end_effectors(mech, None)
        found = compare_methods(mech, tips, loads or None, bar.set_fraction)
        shape = "blended" if "blended" in found.shapes else "engine"
        title = f"{mech.name}: {shape} solid, exact pale"
        draw(mech, found.shapes[shape], path=picture, ghost=found.exact.poses, title=title)
        if as_json:
            _print_json(found.facts | {"picture": str(picture)})
        else:
            tables.show_comparison(found.facts)
            typer.echo(f"\n{picture}: the {shape} shape solid, the exact one pale.")


@app.command(cls=GroupedCommand)
def view(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NAME_OR_FILE",
            help=f"Mechanism of the library; scene ({', '.join(SCENES)}); {FINGER} (with a skin); MJCF, URDF, JSON; "
            "Python file that leaves a world or simulation",
            autocompletion=lambda incomplete: completions([*library_names(), *SCENES, FINGER], incomplete),
        ),
    ],
    end_effector: EndEffectors = None,
    method: MethodName = None,
    target: Targets = None,
    q: Coordinates = None,
    base: Base = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    motion: Annotated[
        str | None, typer.Option("--motion", metavar="NAME", help="Motion of a character, such as dance of dancer")
    ] = None,
    host: Host = HOST,
    port: Port = PORT,
    browser: Browser = True,
) -> None:
    """Simulate a mechanism, a contact scene or your own Python file in the browser, where you can pull it.

    For example: supple view ladder, supple view trampoline, or supple view scene.py. With --motion, a character
    performs: the target, its motion as given and the optimised one, side by side: supple view dancer --motion dance
    """
    from supple.viewer import view as show

    with _errors_in_one_line():
        warnings.simplefilter("ignore", supple.RangeWarning)  # the page shows it
        preparation = Preparation(keyframe, base, _values("--q", q), springs, damping)
        if motion is not None:
            if not preparation.is_empty or target or end_effector or method:
                raise typer.BadParameter("--motion shows a recording and takes none of these options")
            from supple.cli.performing import performance
            from supple.viewer.showing import replay as play

            play(performance(source, motion), host=host, port=port, browser=browser, say=typer.echo)
            return
        if source == FINGER:
            if not preparation.is_empty or target or end_effector or method:
                raise typer.BadParameter(f"'{FINGER}' is a finger with a skin and takes none of these options")
            from supple.viewer import view_skin
            from supple.zones import finger

            view_skin(finger(cells=(12, 10, 3)), host=host, port=port, browser=browser, say=typer.echo)
            return
        if Path(source).suffix == ".py":
            if not preparation.is_empty or target or end_effector or method:
                raise typer.BadParameter(f"--keyframe, --q and the like are for mechanisms; '{source}' is a script")
            from supple.viewer import view_script

            view_script(source, host=host, port=port, browser=browser, say=typer.echo)
            return
        if source in SCENES:
            if not preparation.is_empty or target:
                raise typer.BadParameter(f"--keyframe, --q and the like are for mechanisms; '{source}' is a scene")
            subject: Mechanism | SceneModels = SceneModels(source)
        else:
            subject = movable(with_targets(preparation.open(source, SCENES), _values("--target", target)))
        show(subject, end_effector, method=method, host=host, port=port, browser=browser, say=typer.echo)


@app.command()
def zone(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Mesh file that meshio reads, or a closed STL or OBJ")],
    bone: Annotated[str, typer.Option("--bone", metavar="REGION", help=f"Nodes that the bone holds: {REGION}")],
    young: Annotated[float, typer.Option("--young", help="Young's modulus, Pa")] = 1e5,
    poisson: Annotated[float, typer.Option("--poisson", help="Poisson's ratio, below 0.5")] = 0.45,
    touch: Annotated[
        str | None, typer.Option("--touch", metavar="REGION", help="Nodes that may be touched (default: the surface)")
    ] = None,
    scale: Annotated[float, typer.Option("--scale", help="m per unit of length in the file")] = 1.0,
    edge_length: Annotated[
        float | None, typer.Option("--edge-length", help="Of tetrahedra that fill a surface, over its diagonal")
    ] = None,
    out: ModelFile = Path("supple-zone.npz"),
    as_json: AsJson = False,
) -> None:
    """Make an elastic zone of a mesh: compute its Green's functions and save them.

    For example: supple zone tip.stl --bone box:0,0,-0.01,0.01,0.01,0.002 --young 2e5 -o tip.npz
    """
    from supple.cli.soft import zone_from_file

    with _errors_in_one_line():
        check_file(out, (".npz",), "a zone")
        made = zone_from_file(file, bone, touch, young, poisson, scale, edge_length)
        with Bar("Green's functions") as bar:
            made.prepare(progress=bar.set_fraction)
        made.save(out)
        held = sum(len(nodes) for nodes in made.bones.values())
        if as_json:
            _print_json({"file": str(out), "nodes": len(made.nodes), "bone": held, "touch": len(made.touch)})
        else:
            typer.echo(f"{len(made.nodes)} nodes; the bone holds {held}, {len(made.touch)} may be touched.")
            typer.echo(f"The zone is in {out}: supple.zones.load('{out}') reads it.")


@app.command()
def probe(
    subject: Annotated[str, typer.Argument(metavar="NAME", help="finger: the finger of supple.zones")] = "finger",
    time: Annotated[float, typer.Option("--time", metavar="SECONDS", help="Duration")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Poke a finger with a probe at 1 kHz while it bends, and print the times of the thread.

    For example: supple probe finger --time 60
    """
    from supple.zones.probe_run import ProbeRun

    with _errors_in_one_line():
        if subject != FINGER:
            raise supple.MechanismError(f"there is nothing named '{subject}' to probe; there is '{FINGER}'")
        if not 0 < time < 1e6:
            raise supple.MechanismError(f"--time must be positive, got {time:g}")
        run = ProbeRun()
        with Bar("probe") as bar:
            result = run.measure(time, bar.set_fraction)
        share = result.share_below()
        if as_json:
            _print_json(
                {
                    "ticks": result.ticks,
                    "missed": result.missed,
                    "poses": run.poses,
                    "share_below_half_ms": share,
                    "mean_work": result.mean_work,
                    "work_999": result.work_of(0.999),
                    "most_work": result.most_work,
                    "mean_lateness": result.mean_lateness,
                    "most_lateness": result.most_lateness,
                }
            )
            return
        typer.echo(f"{result.ticks} ticks in {time:g} s; the finger took {run.poses} poses meanwhile.")
        typer.echo(
            f"Work of a tick (thread time): mean {1e3 * result.mean_work:.3f} ms, 99.9 % within "
            f"{1e3 * result.work_of(0.999):.3f} ms, longest {1e3 * result.most_work:.3f} ms; "
            f"{100 * share:.2f} % below 0.5 ms."
        )
        typer.echo(
            f"Lateness: mean {1e3 * result.mean_lateness:.3f} ms, longest {1e3 * result.most_lateness:.3f} ms. "
            f"Missed deadlines: {result.missed}."
        )


@app.command()
def replay(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="Recording of a run, a .npz file")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Write a video (.mp4, .gif), a glTF animation (.glb), a table (.csv), a complete copy (.npz) or a "
            "picture of the end (.png) instead",
        ),
    ] = None,
    size: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="WIDTH HEIGHT", help="Pixels of a video (default 1920 1080, 640 360 for .gif)"),
    ] = None,
    fps: Annotated[
        float | None, typer.Option(help="Pictures of a video per second (default 30, 20 for .gif)")
    ] = None,
    speed: Annotated[float, typer.Option(help="Seconds of the recording per second of the video")] = 1.0,
    camera: Annotated[
        tuple[float, float],
        typer.Option("--view", metavar="ELEVATION AZIMUTH", help="Direction of a video's camera, degrees"),
    ] = VIEW,
    follow: Annotated[
        str | None, typer.Option(metavar="BODY", help="Body or site that a video's camera moves along with")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="NAME", help="Quantity in a table: q, qd, energy, a body or joint; may be repeated"
        ),
    ] = None,
    host: Host = HOST,
    port: Port = PORT,
    browser: Browser = True,
) -> None:
    """Play a recording in the browser, with a timeline, or convert it to a video, to glTF for Blender, or to a table.

    For example: supple run ladder --force tip 0 50 0 --time 2 -o run.npz, then supple replay run.npz -o run.mp4
    """
    from supple.viewer import replay as show

    with _errors_in_one_line():
        if out is not None:
            check_file(out, (*PICTURES, *MOTIONS), "a picture or motion")
            if out.resolve() == recording.resolve():
                raise supple.MechanismError(f"{out} would overwrite the recording; choose another name")
        kept = Recording.load(recording)
        if out is None:
            show(kept, host=host, port=port, browser=browser, say=typer.echo)
            return
        if out.suffix.lower() in MOTIONS:
            _write_motion(kept, out, columns, size=size, fps=fps, speed=speed, view=camera, follow=follow)
            typer.echo(_describe_file(out))
        else:
            last = kept.at(float(kept.times[-1]))
            draw(kept.mechanism, last, path=out, ghost=kept.at(float(kept.times[0])), title=kept.mechanism.name)
            typer.echo(f"The picture is in {out}: the start pale, the end solid.")


@app.command()
def demo(picture: Picture = Path("supple-demo.png")) -> None:
    """Pull the top rung of the ladder, and compare all methods with the engine and MuJoCo."""
    from supple.cli.demo import run_demo

    with _errors_in_one_line(), warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)
        check_file(picture, PICTURES, "a picture")
        run_demo(picture)


# helpers


def _values(option: str, given: list[str] | None) -> dict[str, float]:
    """Numbers by name, of an option that takes NAME VALUE."""
    return {name: value for name, (value,) in split_groups(option, given)}


def _end_effectors(mech: Mechanism, named: list[str] | None) -> list[str]:
    return named or list(likely_end_effectors(mech))


def _print_json(found: dict[str, Any]) -> None:
    json.dump(found, sys.stdout, indent=2, allow_nan=False)
    typer.echo()


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
            _write_motion(recorders[0].recording, path)
    return result


def _write_motion(recording: Recording, path: Path, columns: list[str] | None = None, **video: Any) -> None:
    """Writes a recording as another file. `columns` are for tables, other options for videos."""
    match path.suffix.lower():
        case ".npz":
            recording.save(path)
        case ".csv":
            recording.log(columns or [name for name in ("q", "qd", "energy") if name in recording]).to_csv(path)
        case ".glb":
            from supple.viewer.gltf import glb

            with writing(path, binary=True) as file:
                file.write(glb(recording))
        case _:
            supple.viewer.write_video(recording, path, **video)


def _describe_file(path: Path) -> str:
    match path.suffix.lower():
        case ".npz":
            return f"The recording is in {path}; play it with: supple replay {path}"
        case ".glb":
            return f"The motion is in {path}, for Blender and web pages."
        case ".mp4" | ".gif":
            return f"The video is in {path}."
        case ".csv":
            return f"The table is in {path}."
        case _:
            return f"The picture is in {path}: the reference pose pale, the shape above solid."


def _draw(task: solve.Task, result: solve.RunResult, path: Path) -> None:
    mech = task.mechanism
    what = "loaded" if task.wrenches else "in equilibrium"
    if "time" in result.facts:
        what = f"at {result.facts['time']:g} s"
    labels, title = list(task.wrenches)[:6] or None, f"{mech.name} {what}"
    draw(mech, result.poses, path=path, ghost=mech.poses, labels=labels, title=title)
