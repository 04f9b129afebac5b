"""`supple demo`: reduces the ladder to its top rung, pulls it, and compares all methods and MuJoCo."""

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


def run_demo(picture: Path) -> None:
    """Prints the comparison and draws the linear model's shape over the engine's."""
    mech = supple.library.ladder()
    tables.show(facts.describe_mechanism(mech), rows=0)
    supple.reduce(supple.library.y(), ["left_tip"])  # imports everything, so that the time below has no imports in it
    start = perf_counter()
    model = supple.reduce(mech, ["tip"])
    built = perf_counter() - start
    typer.echo(
        f"\nReduced to its top rung, 'tip', in {1e3 * built:.1f} ms: {len(model.stiffness)} numbers (the tip's "
        f"displacement, of which {model.rank}\ncan change) describe {len(mech.bodies)} links and "
        f"{len(mech.topology.loops)} closed loops. The blended model has two more samples,\nmade under load. "
        f"A force of {FORCE:g} N pulls the tip sideways:\n"
    )
    found = compare(mech, ["tip"], {"tip": np.array([0, FORCE, 0, 0, 0, 0])})
    tables.show_comparison(found.facts)
    linear, blended, engine = (found.row(method) for method in ("linear", "blended", "engine"))
    typer.echo(
        f"\nThe links move by {1e3 * found.moved:.0f} mm. One linear model is {engine.step / linear.step:.0f} times "
        f"faster than the engine, with an error of {1e3 * linear.error:.1f} mm;\nthree blended are "
        f"{engine.step / blended.step:.0f} times faster, with an error of {1e3 * blended.error:.2f} mm."
    )
    title, seen = f"{mech.name}, {FORCE:g} N", (10.0, -25.0)
    draw(mech, found.shapes["linear"], path=picture, ghost=found.exact.poses, title=title, view=seen)
    typer.echo(f"\nIn {picture}: the linear model's shape solid, the engine's pale. Next:")
    for line in (
        "supple view ladder                              simulate it in the browser and pull it",
        "supple info YOUR_ROBOT.xml                      contents of your own MJCF, URDF or JSON file",
        "supple view YOUR_ROBOT.urdf --springs 50        with springs of 50 N m/rad on its joints",
        "supple compare YOUR_ROBOT.xml -e HAND           which method is accurate enough for it",
        "supple run ladder --force tip 0 100 0 --time 2  a larger force, with the engine",
    ):
        typer.echo(f"  {line}")
