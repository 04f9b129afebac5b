"""`supple reduce`, `explore` and `compare`: reduced models."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

import supple
from supple.cli import facts, solve, tables
from supple.cli.grouped_options import split_groups
from supple.cli.options import (
    PICTURES,
    AsJson,
    Base,
    Coordinates,
    Damping,
    EndEffectors,
    Forces,
    KeyframeName,
    ModelFile,
    Picture,
    Source,
    Springs,
    Torques,
    check_file,
    end_effectors_or_tips,
    values_by_name,
)
from supple.cli.output import errors_in_one_line, print_json
from supple.cli.preparing import Preparation, movable
from supple.progress import Bar
from supple.viewer import draw


def reduce(
    source: Source,
    end_effector: EndEffectors = None,
    q: Coordinates = None,
    base: Base = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    out: ModelFile = Path("supple-model.npz"),
    as_json: AsJson = False,
) -> None:
    """Make a linear model of the end effectors, for small motion, and save it to a file.

    For example: supple reduce ladder --end-effector tip -o tip.npz
    """
    with errors_in_one_line():
        check_file(out, (".npz",), "a model")
        mech = Preparation(keyframe, base, values_by_name("--q", q), springs, damping).open(source)
        tips = end_effectors_or_tips(mech, end_effector)
        model = supple.reduce(mech, tips)
        model.save(out)
        found = facts.describe_model(model) | {"file": str(out)}
        if as_json:
            print_json(found)
        else:
            tables.show_model(found)
            typer.echo(f"\nThe model is in {out}: supple.ReducedModel.load('{out}') reads it.")


def explore(
    source: Source,
    end_effector: EndEffectors = None,
    max_error: Annotated[
        float,
        typer.Option("--max-error", help="Allowed position error of end effectors and separation, over the radius"),
    ] = 0.05,
    reach: Annotated[
        float, typer.Option("--reach", help="Largest displacement of end effectors, over the radius of the mechanism")
    ] = 0.5,
    budget: Annotated[int, typer.Option("--budget", help="Largest number of linear models")] = 100,
    q: Coordinates = None,
    base: Base = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    out: ModelFile = Path("supple-models.npz"),
    as_json: AsJson = False,
) -> None:
    """Find linear models over a range of motion, and save the blended model to a file.

    For example: supple explore ladder --max-error 0.05 --reach 0.5 -o ladder.npz
    """
    with errors_in_one_line(), warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)  # printed below
        check_file(out, (".npz",), "a model")
        mech = Preparation(keyframe, base, values_by_name("--q", q), springs, damping).open(source)
        tips = end_effectors_or_tips(mech, end_effector)
        many = supple.explore(mech, tips, max_error, reach, budget=budget)
        many.save(out)
        found = facts.describe_exploration(many) | {"file": str(out)}
        if as_json:
            print_json(found)
        else:
            tables.show_exploration(found)
            typer.echo(f"\nThe models are in {out}: supple.reduced.BlendedModel.load('{out}') reads them.")
        if not found["met"]:
            raise supple.MechanismError(
                f"only {found['within']:.0%} of the points are within {max_error:g}; raise --budget or --max-error, "
                "or lower --reach"
            )


def compare(
    source: Source,
    end_effector: EndEffectors = None,
    force: Forces = None,
    torque: Torques = None,
    q: Coordinates = None,
    base: Base = None,
    keyframe: KeyframeName = None,
    springs: Springs = None,
    damping: Damping = None,
    picture: Picture = Path("supple-compare.png"),
    as_json: AsJson = False,
) -> None:
    """Compare every method with the engine on your mechanism: error, separation, loop gaps, speed.

    Without --force a force pulls each end effector along its softest direction, by about 0.3 of the radius or as far as
    limits and actuators allow.
    For example: supple compare robot.xml --end-effector hand
    """
    from supple.cli.comparison import compare as compare_methods

    with errors_in_one_line(), warnings.catch_warnings(), Bar("comparing") as bar:
        warnings.simplefilter("ignore", supple.RangeWarning)  # the table has the errors
        check_file(picture, PICTURES, "a picture")
        loads = solve.wrenches(split_groups("--force", force), split_groups("--torque", torque))
        mech = movable(Preparation(keyframe, base, values_by_name("--q", q), springs, damping).open(source))
        tips = end_effector or list(loads) or end_effectors_or_tips(mech, None)
        found = compare_methods(mech, tips, loads or None, bar.set_fraction)
        shape = "blended" if "blended" in found.shapes else "engine"
        title = f"{mech.name}: {shape} solid, exact pale"
        draw(mech, found.shapes[shape], path=picture, ghost=found.exact.poses, title=title)
        if as_json:
            print_json(found.facts | {"picture": str(picture)})
        else:
            tables.show_comparison(found.facts)
            typer.echo(f"\n{picture}: the {shape} shape solid, the exact one pale.")
