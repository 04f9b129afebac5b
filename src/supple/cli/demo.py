"""What `supple demo` tells: the ladder folded into its top rung, blended, pulled, beside the engine and MuJoCo."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
import typer

import supple
from supple.cli import facts, tables
from supple.cli.comparison import compare
from supple.viewer import draw

FORCE = 50.0
"""N, sideways."""


def tell(picture: Path) -> None:
    """Prints the story and draws the blended shape over the engine's."""
    mech = supple.library.ladder()
    tables.show(facts.describe(mech), rows=0)
    supple.reduce(supple.library.y(), ["left_tip"])  # imported now, so that the time is that of the reduction
    start = perf_counter()
    model = supple.reduce(mech, ["tip"])
    built = perf_counter() - start
    typer.echo(
        f"\nReduced to its top rung, 'tip', in {1e3 * built:.1f} ms: {len(model.stiffness)} numbers of rank "
        f"{model.rank} stand for\n{len(mech.bodies)} links and {len(mech.topology.loops)} closed loops. Blended: that "
        f"model and two more, made under load.\n{FORCE:g} N pull the tip sideways:\n"
    )
    found = compare(mech, ["tip"], {"tip": np.array([0, FORCE, 0, 0, 0, 0])})
    tables.show_comparison(found.facts)
    linear, blended, engine = (found.row(method) for method in ("linear", "blended", "engine"))
    typer.echo(
        f"\nThe links move by {1e3 * found.moved:.0f} mm. One linear model is {engine.step / linear.step:.0f} times "
        f"faster than the engine and {1e3 * linear.error:.1f} mm off;\nthree blended are "
        f"{engine.step / blended.step:.0f} times faster and {1e3 * blended.error:.2f} mm off."
    )
    title, seen = f"{mech.name}, {FORCE:g} N", (10.0, -25.0)
    draw(mech, found.shapes["linear"].array, path=picture, ghost=found.exact.poses.array, title=title, view=seen)
    typer.echo(f"\nIn {picture}: the linear model's shape solid, the engine's pale. Next:")
    for line in (
        "supple view ladder                              see it move, pull it, in the browser",
        "supple info YOUR_ROBOT.xml                      your own MJCF, URDF or JSON file",
        "supple view YOUR_ROBOT.urdf --springs 50        on springs of 50 N m/rad",
        "supple compare YOUR_ROBOT.xml -e HAND           which method is good enough for it",
        "supple run ladder --force tip 0 100 0 --time 2  a harder pull, by the engine",
    ):
        typer.echo(f"  {line}")
