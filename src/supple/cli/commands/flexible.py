"""`supple basis`, `retarget` and `fit`: robots with flexible parts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

import supple
from supple.cli.basis import remade_part
from supple.cli.fit import describe_fit, fit_lines
from supple.cli.motion_files import MOTIONS, describe_file, write_motion
from supple.cli.options import (
    PICTURES,
    AsJson,
    ModelFile,
    Source,
    check_file,
)
from supple.cli.output import errors_in_one_line, print_json
from supple.cli.source import open_mechanism
from supple.progress import Bar


def basis(
    source: Source,
    part: Annotated[
        str | None, typer.Option("--part", metavar="NAME", help="Flexible body (default: the only one)")
    ] = None,
    modes: Annotated[
        int | None, typer.Option("--modes", help="Number of modes (default: 25, with --plane 8; 15 with --run)")
    ] = None,
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
    with errors_in_one_line():
        check_file(out, (".npz",), "a part")
        mech = open_mechanism(source)
        with Bar("basis") as bar:
            options = {"modes": modes} | ({} if run is not None else {"plane": plane})
            made = remade_part(mech, part, run, bar.set_fraction, **options)
        made.save(out)
        assert made.basis is not None
        frequencies = made.basis.frequencies()[:3].tolist()
        if as_json:
            print_json({"file": str(out), "modes": made.basis.size, "frequencies": frequencies})
        else:
            shown = ", ".join(f"{value:.4g}" for value in frequencies)
            typer.echo(f"{made.basis.size} modes; the first frequencies of the clamped part are {shown} Hz.")
            typer.echo(f"The part is in {out}: supple.elastic.load('{out}') reads it.")


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

    with errors_in_one_line():
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
            write_motion(retargeted_recording(result), recording)
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
            print_json(found)
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
            typer.echo(describe_file(recording))


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

    with errors_in_one_line():
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
            print_json(describe_fit(fitted) | {"file": str(out)})
        else:
            typer.echo("\n".join(fit_lines(fitted)))
            typer.echo(f"\nThe part is in {out}: supple.elastic.load('{out}') reads it.")
