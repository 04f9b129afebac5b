"""Files whose mechanism touches something: simulated by the engine in a `World`, on their ground, from a keyframe."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import typer

import supple
from supple import spatial
from supple.cli.preparing import Preparation
from supple.cli.source import library_names
from supple.contact.colliders import collider, contact_points
from supple.mechanism import Mechanism, Shape
from supple.mechanism.io.mjcf_report import DRY_FRICTION
from supple.viewer.methods import loose_bodies

HOME = "home"
"""The keyframe to start from, if there is one of this name; else the first."""
PLANE = np.array([0.0, 0.0, 1.0])
"""Size of a plane without an end."""


def open_standing(preparation: Preparation, source: str, scenes: Collection[str] = ()) -> tuple[Mechanism, bool]:
    """The mechanism that `source` names, and whether it is to be simulated with contact: that of a file with ground or
    with a free base. It is at a keyframe of the file then, if the options name neither a keyframe nor coordinates.
    Lines on stderr say so, and which joints have no dry friction."""
    mech = preparation.open(source, scenes)
    for note in mech.import_report:
        if note.reason == DRY_FRICTION:
            typer.echo(f"supple: {note.brief}", err=True)
    if source in library_names() or not has_contact(mech):
        return mech, False
    names = [key.name for key in mech.keyframes]
    if names and preparation.keyframe is None and not preparation.q:
        first = HOME if HOME in names else names[0]
        typer.echo(f"supple: '{mech.name}' starts from its keyframe '{first}'", err=True)
        mech = replace(preparation, keyframe=first).open(source)
    return mech, True


def has_contact(mech: Mechanism) -> bool:
    """Whether bodies can touch ground of the mechanism, or float and so fall until they touch something."""
    if not any(shape.touches for body in mech.bodies for shape in body.shapes):
        return False
    ground = any(shape.touches for shape in mech.shapes) or any(field.touches for field in mech.height_fields)
    return ground or bool(loose_bodies(mech))


def world_of(sim: supple.Simulation) -> supple.World:
    """The world of a mechanism, with its ground; without any, with a floor under its lowest point."""
    mech, world = sim.mechanism, supple.World()
    world.add(sim, self_contact=True)
    if not world.still:
        height = _lowest(mech)
        text = f"'{mech.name}' has no ground; it gets a floor under its lowest point, z = {height:.4g}"
        typer.echo(f"supple: {text}", err=True)
        world.ground(Shape("plane", PLANE, spatial.translation([0, 0, height]), name="floor"))
    return world


def _lowest(mech: Mechanism) -> float:
    """z, m, of the lowest point of the shapes that touch, at the reference pose."""
    floor = collider(Shape("plane", PLANE, np.eye(4)), {}, np.eye(4))
    meshes = {mesh.name: mesh for mesh in mech.meshes}
    solids = [collider(s, meshes, body.pose) for body in mech.bodies for s in body.shapes if s.touches]
    return min(float(contact_points(solid, floor, np.inf)["gap"].min()) for solid in solids)
