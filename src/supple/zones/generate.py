"""Generated solids of hexahedra: blocks, finger pads and strips that end as finger pads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic._checks import Array, Indices, numbers
from supple.elastic.solid import Solid
from supple.errors import MechanismError


def block(size: Sequence[float], cells: Sequence[int], *, growth: float | Sequence[float] = 1.0) -> Solid:
    """A block below the plane z = 0, centred on the z axis.

    Its groups are `bottom`, `top`, and the sides `left`, `right` (smallest and largest x), `front`, `back` (y).

    Args:
        size: lengths along x, y and z, m.
        cells: number of hexahedra along x, y and z.
        growth: length of a cell over that of its neighbour nearer to the middle of the top face. Above 1 the mesh is
            fine there. One number, or three.
    """
    lengths = _positive(size, 3, "size of a block")
    counts = _counts(cells)
    ratios = _positive(np.full(3, growth) if np.ndim(growth) == 0 else growth, 3, "growth of a block's cells")
    ticks = [lengths[i] / 2 * _graded_both(counts[i], ratios[i]) for i in range(2)]
    depth = -lengths[2] * _graded(counts[2], ratios[2])[::-1]
    ids, hexahedra = lattice(counts)
    nodes = np.stack(np.meshgrid(*ticks, depth, indexing="ij"), axis=-1).reshape(-1, 3)
    groups = {
        "bottom": ids[:, :, 0],
        "top": ids[:, :, -1],
        "left": ids[0],
        "right": ids[-1],
        "front": ids[:, 0],
        "back": ids[:, -1],
    }
    return Solid(nodes, hexahedra, {name: own.ravel() for name, own in groups.items()})


def pad(
    length: float = 0.022,
    *,
    bone: float = 4.5e-3,
    skin: float = 9.5e-3,
    arc: float = np.deg2rad(240),
    tip: bool = False,
    start: float = 0.0,
    cells: Sequence[int] = (20, 14, 4),
) -> Solid:
    """A pad around the lower side of a bone that lies along x.

    Its groups are `bone` (the inner face), `outer` (the skin), `start` and `end` (the faces across x) and `flanks` (the
    two faces along x where the arc ends). With the default cells its surface has 834 vertices and 1,664 triangles, and
    `start` and `end` have 60 nodes each besides the bone's.

    Args:
        length: along x, m.
        bone: radius of the bone, m.
        skin: outer radius, m.
        arc: angle that the pad covers, rad, centred on -z.
        tip: rounds the pad off towards its end, as a fingertip.
        start: x where it starts, m.
        cells: number of hexahedra along, around and through.
    """
    _positive((length,), 1, "length of a pad")
    counts = _counts(cells)
    _check_section(bone, skin, arc, int(counts[1]))
    ids, hexahedra = lattice(counts)
    along, around, through = (np.linspace(0, 1, n + 1) for n in counts)
    s, a, r = np.meshgrid(along, (around - 0.5) * arc, through, indexing="ij")
    inner, outer = np.full_like(s, bone), np.full_like(s, skin)
    if tip:
        profile = np.sqrt(1 - (np.clip(s - 0.45, 0, 1) / 0.62) ** 2)
        inner, outer = bone * (0.42 + 0.58 * profile), 0.55 * bone + (skin - 0.55 * bone) * profile
    radius = inner + (outer - inner) * r
    nodes = np.stack([start + s * length, -radius * np.sin(a), -radius * np.cos(a)], axis=-1).reshape(-1, 3)
    groups = {
        "bone": ids[:, :, 0].ravel(),
        "outer": ids[:, :, -1].ravel(),
        "start": ids[0].ravel(),
        "end": ids[-1].ravel(),
        "flanks": ids[:, [0, -1]].ravel(),
    }
    return Solid(nodes, hexahedra, groups)


def curled_strip(
    along: ArrayLike,
    curl: float,
    width: float = 0.022,
    *,
    bone: float = 4.5e-3,
    skin: float = 9.5e-3,
    arc: float = np.deg2rad(240),
    turn: float = 0.0,
    cells: Sequence[int] = (14, 4),
) -> Solid:
    """A strip along x that starts flat and ends in the section of a `pad`: the part of a palm's pad that leads to a
    finger. Its end has the nodes of the start of a pad with the same radii, arc and cells.

    The flat part lies between z = -bone and z = -skin. Then the strip curls up with constant thickness t = skin - bone:
    where the share c of the curl is done, its section covers the arc c `arc` of a ring whose lowest point stays where
    it is, and whose outer half width goes from that of the strip to that of the pad.

    Its groups are `bone` (the inner face), `outer` (the skin), `start` and `end` (the faces across x) and the faces of
    the flat part along x, `left` (y > 0) and `right`.

    Args:
        along: places of the nodes along the strip, m, rising: flat up to 0, curling from 0 to `curl`, a pad beyond.
        curl: length over which it curls, m.
        width: of the flat part, m.
        bone: radius of the pad's bone, m.
        skin: the pad's outer radius, m.
        arc: angle that the pad covers, rad.
        turn: angle about z by which the strip turns on a circle while it curls, rad.
        cells: number of hexahedra around and through.
    """
    ticks = numbers(along, (-1,), "places along a strip")
    _positive((curl, width), 2, "length of the curl and width of a strip")
    if len(ticks) < 2 or not (np.diff(ticks) > 0).all():
        raise MechanismError(f"a strip needs two rising places along it or more, got {ticks.tolist()}")
    counts = _counts((len(ticks) - 1, *cells))
    _check_section(bone, skin, arc, int(counts[1]))
    reach = 0.5 * width * abs(turn)
    if not reach < curl:
        raise MechanismError(
            f"a strip {width} m wide that turns by {turn:.3g} rad over {curl} m folds at its inner side; let it curl "
            f"over more than {reach:.3g} m"
        )
    ids, hexahedra = lattice(counts)
    x, a, r = np.meshgrid(ticks, *(np.linspace(0, 1, n + 1) for n in counts[1:]), indexing="ij")
    s = np.clip(x / curl, 0, 1)
    c = np.maximum(s**2 * (3 - 2 * s), 1e-14)  # smooth at both ends; a flat section is a ring of huge radius
    half = (1 - c) * width / 2 + c * skin * np.sin(min(arc, np.pi) / 2)
    outer = half / np.sin(np.minimum(c * arc, np.pi) / 2)
    inward, angle = (skin - bone) * (1 - r), (a - 0.5) * c * arc
    across = (inward - outer) * np.sin(angle)
    up = 2 * outer * np.sin(angle / 2) ** 2 + inward * np.cos(angle) - skin
    heading = turn * s
    centre = arc_end(curl * s, heading) + (x - curl * s)[..., None] * _direction(heading)
    level = centre + across[..., None] * _direction(heading + np.pi / 2)
    nodes = np.concatenate([level, up[..., None]], axis=-1).reshape(-1, 3)
    flat = ticks <= 0
    groups = {
        "bone": ids[:, :, 0],
        "outer": ids[:, :, -1],
        "start": ids[0],
        "end": ids[-1],
        "left": ids[flat, 0],
        "right": ids[flat, -1],
    }
    return Solid(nodes, hexahedra, {name: own.ravel() for name, own in groups.items()})


def arc_end(length: ArrayLike, turn: ArrayLike) -> Array:
    """(..., 2) end of a circular arc of a length (m) that starts at the origin along x and turns by an angle (rad)."""
    chord = np.asarray(length) * np.sinc(np.asarray(turn) / (2 * np.pi))
    return np.asarray(chord[..., None] * _direction(np.asarray(turn) / 2))


def _direction(angle: ArrayLike) -> Array:
    """(..., 2) unit vectors."""
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def lattice(counts: Indices) -> tuple[Indices, Indices]:
    """Numbers (i, j, k) of the nodes of a lattice with that many cells, and its hexahedra (e, 8)."""
    ids = np.arange(int(np.prod(counts + 1))).reshape(counts + 1)
    low, high = slice(None, -1), slice(1, None)
    bottom = [(low, low), (high, low), (high, high), (low, high)]
    corners = [ids[i, j, k].ravel() for k in (low, high) for i, j in bottom]
    return ids, np.stack(corners, axis=1)


def _check_section(bone: float, skin: float, arc: float, around: int) -> None:
    """Raises if a pad cannot have these radii (m), arc (rad) and cells around it."""
    _positive((bone, skin, arc), 3, "radii and arc of a pad")
    if not bone < skin:
        raise MechanismError(f"a pad's outer radius ({skin} m) must exceed the bone's radius ({bone} m)")
    if not arc < 2 * np.pi:
        raise MechanismError(f"a pad covers less than a full turn, got an arc of {arc} rad")
    if not arc / around < 0.9 * np.pi:
        raise MechanismError(f"a pad over an arc of {arc:.3g} rad needs more cells around it than {around}")


def _graded(count: int, ratio: float) -> Array:
    """(count + 1,) ticks from 0 to 1; each interval is `ratio` times the one before."""
    steps = ratio ** np.arange(count)
    return np.concatenate([[0.0], np.cumsum(steps) / steps.sum()])


def _graded_both(count: int, ratio: float) -> Array:
    """(count + 1,) ticks from -1 to 1, finest (for ratio > 1) about 0."""
    distance = np.abs(np.arange(count) - (count - 1) / 2)
    steps = ratio**distance
    return np.asarray(-1 + 2 * np.concatenate([[0.0], np.cumsum(steps) / steps.sum()]))


def _positive(values: ArrayLike, count: int, what: str) -> Array:
    given = numbers(values, (count,), what)
    if not (given > 0).all():
        raise MechanismError(f"{what} must be positive, got {given.tolist()}")
    return given


def _counts(cells: Sequence[int]) -> Indices:
    counts = np.asarray(cells)
    if counts.shape != (3,) or counts.dtype.kind not in "iu" or (counts < 1).any():
        raise MechanismError(f"cells must be three whole numbers of at least 1, got {cells}")
    return counts.astype(np.int64)
