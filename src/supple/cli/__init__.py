"""The command line: `supple info`, `run`, `view` and others; `supple.cli.app` lists them."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the command `supple`."""
    try:
        from supple.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        print(f"supple: the command line needs {error.name}; run: pip install 'supple[all]'", file=sys.stderr)
        raise SystemExit(1) from None
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character shows ? instead
            stream.reconfigure(errors="replace")
    app()
