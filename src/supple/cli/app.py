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
from supple.cli import facts, tables
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
KeyframeName = Annotated[str | None, typer.Option("--keyframe", help="Look at this keyframe of the file")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts")]
Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version")
]
Picture = Annotated[Path, typer.Option("--picture", help="Where to write the picture")]


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turns what a user can put right into one line on stderr and exit code 1."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever reads has seen enough: typer ends quietly
    except (supple.MechanismError, ImportError, OSError) as error:
        typer.echo(f"supple: {' '.join(tables.printable(str(error)).split())}", err=True)
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


@app.command()
def demo(picture: Picture = Path("supple-demo.png")) -> None:
    """Build the ladder, print its table and write its picture."""
    with _plain_errors():
        from supple.viewer import draw

        mech = supple.library.ladder()
        tables.show(facts.describe(mech), rows=6)
        draw(mech, path=picture)
        typer.echo(f"\nThe picture is in {picture}. Next:")
        typer.echo("  supple info ladder              every body and joint of it")
        typer.echo("  supple info YOUR_ROBOT.xml      your own MJCF, URDF or JSON file")
        typer.echo("  python -c 'import supple; print(supple.library.helix())'")
