"""What all commands print: errors and warnings in one line, JSON, the version."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

import supple
from supple.cli import tables
from supple.cli.grouped_options import in_one_line


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turns errors that a user can correct into one line on stderr and exit code 1, and warnings into one line."""
    show = warnings.showwarning

    def show_in_one_line(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, UserWarning):
            typer.echo(f"supple: {tables.printable(in_one_line(message))}", err=True)
        else:
            show(message, category, *rest)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_in_one_line  # type: ignore[assignment]
            yield
    except BrokenPipeError:
        raise  # the reader of the pipe has closed it: typer ends quietly
    except (supple.MechanismError, supple.ConvergenceError, ImportError, OSError) as error:
        typer.echo(f"supple: {tables.printable(in_one_line(error))}", err=True)
        raise typer.Exit(1) from None


def print_json(found: dict[str, Any]) -> None:
    json.dump(found, sys.stdout, indent=2, allow_nan=False)
    typer.echo()


def print_version(wanted: bool) -> None:
    if wanted:
        from supple import _core

        typer.echo(f"supple {supple.__version__}, compiled for {_core.VARIANT}")
        raise typer.Exit
