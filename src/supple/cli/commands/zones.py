"""`supple zone` and `probe`: elastic zones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import supple
from supple.cli.options import (
    FINGER,
    REGION,
    AsJson,
    ModelFile,
    check_file,
)
from supple.cli.output import errors_in_one_line, print_json
from supple.progress import Bar


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

    with errors_in_one_line():
        check_file(out, (".npz",), "a zone")
        made = zone_from_file(file, bone, touch, young, poisson, scale, edge_length)
        with Bar("Green's functions") as bar:
            made.prepare(progress=bar.set_fraction)
        made.save(out)
        held = sum(len(nodes) for nodes in made.bones.values())
        if as_json:
            print_json({"file": str(out), "nodes": len(made.nodes), "bone": held, "touch": len(made.touch)})
        else:
            typer.echo(f"{len(made.nodes)} nodes; the bone holds {held}, {len(made.touch)} may be touched.")
            typer.echo(f"The zone is in {out}: supple.zones.load('{out}') reads it.")


def probe(
    subject: Annotated[str, typer.Argument(metavar="NAME", help="finger: the finger of supple.zones")] = "finger",
    time: Annotated[float, typer.Option("--time", metavar="SECONDS", help="Duration")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Press a probe into a finger at 1 kHz while it bends, and print the computing times.

    For example: supple probe finger --time 60
    """
    from supple.zones.probe_run import ProbeRun

    with errors_in_one_line():
        if subject != FINGER:
            raise supple.MechanismError(f"there is nothing named '{subject}' to probe; there is '{FINGER}'")
        if not 0 < time < 1e6:
            raise supple.MechanismError(f"--time must be positive, got {time:g}")
        run = ProbeRun()
        with Bar("probe") as bar:
            result = run.measure(time, bar.set_fraction)
        share = result.share_below()
        if as_json:
            print_json(
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
