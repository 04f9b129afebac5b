"""Arguments and options that the commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import supple
from supple.cli.grouped_options import split_groups
from supple.cli.output import print_version
from supple.cli.source import library_names
from supple.mechanism import Mechanism
from supple.viewer.methods import likely_end_effectors

REGION = "box:X,Y,Z,HX,HY,HZ (middle and half lengths, m), sphere:X,Y,Z,R, below:Z, or the name of a group of the file"
"""How a command line names nodes of a mesh."""
PICTURES = (".png", ".pdf", ".svg")
FINGER = "finger"
"""The finger of `supple.zones`, which has a skin."""


def completions(names: list[str], incomplete: str) -> list[str]:
    """Names for the shell's completion; the shell completes files by itself."""
    return [name for name in names if name.startswith(incomplete)]


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=print_version, is_eager=True, help="Print the version and the core's instruction set"
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="NAME_OR_FILE",
        help="MJCF, URDF or JSON file, or the name of a mechanism of the library (ladder, helix ...)",
        autocompletion=lambda incomplete: completions(library_names(), incomplete),
    ),
]
KeyframeName = Annotated[str | None, typer.Option("--keyframe", help="Keyframe of the file to use as reference pose")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON, for scripts")]
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
    typer.Option("--target", metavar="NAME VALUE", help="Set-point of a spring or motor, rad or m; may be repeated"),
]
Coordinates = Annotated[
    list[str] | None,
    typer.Option(
        "--q",
        metavar="NAME VALUE",
        help="Coordinate of the reference pose, rad or m; the others close loops; may be repeated",
    ),
]
Base = Annotated[
    str | None, typer.Option("--base", metavar="fixed|free", help="Joint between the world and the mechanism's base")
]
Frame = Annotated[str, typer.Option("--frame", help="Axes of forces and torques: world or body")]
Springs = Annotated[
    float | None,
    typer.Option(
        "--springs", metavar="STIFFNESS", help="Add springs to the coordinates that nothing holds, N m/rad or N/m"
    ),
]
Damping = Annotated[
    float | None,
    typer.Option(
        "--damping", metavar="DAMPING", help="Least damping beside the added springs, N m s/rad or N s/m (default 0)"
    ),
]
EndEffectors = Annotated[
    list[str] | None,
    typer.Option(
        "--end-effector",
        "-e",
        metavar="NAME",
        help="Body or site that the model keeps or that you pull; may be repeated (default: moving bodies and sites "
        "whose names end in tip, or else the last links)",
    ),
]
Picture = Annotated[Path, typer.Option("--picture", "-o", help="File for the picture")]
ModelFile = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the model (.npz)")]
Host = Annotated[
    str, typer.Option("--host", help="Address to listen on: 127.0.0.1 for this machine, 0.0.0.0 for all networks")
]
Port = Annotated[int, typer.Option("--port", help="Port of the page")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser")]


def check_file(path: Path, endings: tuple[str, ...], what: str) -> None:
    """Raises unless a file of that kind can be written, before a long computation starts."""
    if path.suffix.lower() not in endings:
        raise supple.MechanismError(f"'{path}': the name of {what} must end in {', '.join(endings)}")
    if not path.parent.is_dir():
        raise supple.MechanismError(f"there is no folder '{path.parent}' to write the {what.partition(' ')[2]} to")


def values_by_name(option: str, given: list[str] | None) -> dict[str, float]:
    """Numbers by name, of an option that takes NAME VALUE."""
    return {name: value for name, (value,) in split_groups(option, given)}


def end_effectors_or_tips(mech: Mechanism, named: list[str] | None) -> list[str]:
    """The end effectors that the user named, or else those that look like tips."""
    return named or list(likely_end_effectors(mech))
