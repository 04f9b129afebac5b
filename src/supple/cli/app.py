"""The commands of `supple`. Each is a thin layer on the public names."""

from __future__ import annotations

import typer

from supple.cli.commands import flexible, mechanisms, models, viewing, zones
from supple.cli.grouped_options import GroupedCommand
from supple.cli.options import Version

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(version: Version = False) -> None:
    """Simulate compliant mechanisms."""


app.command()(mechanisms.info)
app.command(cls=GroupedCommand)(mechanisms.run)
app.command(cls=GroupedCommand)(mechanisms.sweep)
app.command(cls=GroupedCommand)(models.reduce)
app.command(cls=GroupedCommand)(models.explore)
app.command(cls=GroupedCommand)(models.compare)
app.command()(flexible.basis)
app.command()(flexible.retarget)
app.command()(flexible.fit)
app.command()(zones.zone)
app.command()(zones.probe)
app.command(cls=GroupedCommand)(viewing.view)
app.command()(viewing.replay)
app.command()(viewing.demo)
