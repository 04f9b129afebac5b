"""Seams by forces: the unknowns are forces between zones instead of displacements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from supple.elastic._checks import Array
from supple.zones.blocks import BlockCholesky, Blocks, Pattern
from supple.zones.terms import turned, turned_rows

if TYPE_CHECKING:
    from supple.zones.skin import Skin


def amplitudes_by_forces(skin: Skin, rotations: Sequence[Array], loads: Sequence[Array], load: Array) -> Array:
    """Amplitudes of all seams in world axes.

    A seam of z zones has z - 1 unknown forces: each acts on a further zone and, reversed, on the first one, which also
    takes the load. Each zone's amplitudes are K^-1 (force + U_t^T f - A a); those of the zones of a seam must agree.

    Args:
        skin: its zones have bones.
        rotations: (3, 3) of each zone's frame.
        loads: U_t^T f - A a of each zone, in its own axes.
        load: on the amplitudes of all seams, in world axes.
    """
    numbered = [(i, j) for i, seam in enumerate(skin.seams) for j in range(1, len(seam.zones))]
    unknown = {pair: n for n, pair in enumerate(numbered)}
    sizes = [skin.pattern.sizes[i] for i, _ in numbered]
    offsets, at = skin.pattern.offsets, np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    blocks: Blocks = {}
    rhs = np.zeros(int(at[-1]))
    known = []  # amplitudes of each zone without the unknown forces, world axes
    inverses = [turned(R, terms.inverse) for terms, R in zip(skin.terms, rotations, strict=True)]
    for k, (terms, R) in enumerate(zip(skin.terms, rotations, strict=True)):
        force = turned_rows(R, loads[k])
        for i, rows in zip(terms.seams, terms.slices, strict=True):
            if skin.seams[i].zones[0] == k:
                force[rows] += load[offsets[i] : offsets[i + 1]]
        known.append(inverses[k] @ force)
        acting = [(n, sign, rows) for i, rows in _rows(skin, k) for n, sign in _forces(skin, unknown, i, k)]
        for a, sign_a, rows_a in acting:
            rhs[at[a] : at[a + 1]] -= sign_a * known[k][rows_a]
            for b, sign_b, rows_b in acting:
                if a >= b:
                    block = sign_a * sign_b * inverses[k][rows_a, rows_b]
                    blocks[a, b] = blocks[a, b] + block if (a, b) in blocks else block
    forces = BlockCholesky(Pattern.of(sizes, list(blocks)), blocks).solve(rhs)
    result = np.zeros(int(offsets[-1]))
    for i, seam in enumerate(skin.seams):
        k = seam.zones[0]
        force = np.zeros(len(known[k]))
        for j, rows in _rows(skin, k):
            for n, sign in _forces(skin, unknown, j, k):
                force[rows] += sign * forces[at[n] : at[n + 1]]
        own = dict(_rows(skin, k))[i]
        result[offsets[i] : offsets[i + 1]] = (known[k] + inverses[k] @ force)[own]
    return result


def _rows(skin: Skin, k: int) -> list[tuple[int, slice]]:
    return list(zip(skin.terms[k].seams, skin.terms[k].slices, strict=True))


def _forces(skin: Skin, unknown: dict[tuple[int, int], int], i: int, k: int) -> list[tuple[int, float]]:
    """The unknown forces of seam i that act on zone k, with their signs."""
    place = skin.seams[i].zones.index(k)
    if place > 0:
        return [(unknown[i, place], 1.0)]
    return [(unknown[i, j], -1.0) for j in range(1, len(skin.seams[i].zones))]
