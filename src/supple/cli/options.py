"""Arguments and options that the commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import supple

PICTURES = (".png", ".pdf", ".svg")


def completed(names: list[str], incomplete: str) -> list[str]:
    """For the shell's completion (files it completes itself)."""
    return [name for name in names if name.startswith(incomplete)]


Source = Annotated[
    str,
    typer.Argument(
        metavar="NAME_OR_FILE",
        help="Ladder, helix ... or an MJCF, URDF or JSON file",
        autocompletion=lambda incomplete: completed(supple.library.__all__, incomplete),
    ),
]
KeyframeName = Annotated[str | None, typer.Option("--keyframe", help="Start from this keyframe of the file")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts")]
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
    float | None, typer.Option("--springs", metavar="STIFFNESS", help="Spring what nothing holds, N m/rad or N/m")
]
Damping = Annotated[
    float | None, typer.Option("--damping", metavar="DAMPING", help="Of those springs, N m s/rad or N s/m (none)")
]
EndEffectors = Annotated[
    list[str] | None,
    typer.Option(
        "--end-effector", "-e", metavar="NAME", help="Body or site that is pulled; may be repeated (tips, if not given)"
    ),
]
Host = Annotated[str, typer.Option("--host", help="Who may look: 127.0.0.1 this machine, 0.0.0.0 everyone")]
Port = Annotated[int, typer.Option("--port", help="Of the page")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser")]


def check_file(path: Path, endings: tuple[str, ...], what: str) -> None:
    """Before anything long is begun."""
    if path.suffix.lower() not in endings:
        raise supple.MechanismError(f"'{path}': {what}'s name ends in {', '.join(endings)}")
    if not path.parent.is_dir():
        raise supple.MechanismError(f"there is no folder '{path.parent}' to write the {what.partition(' ')[2]} to")
