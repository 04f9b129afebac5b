"""The graph of bodies and joints: a spanning tree, and the remaining joints, which close loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.errors import MechanismError, listed
from supple.mechanism.body import WORLD, Body
from supple.mechanism.joint import Joint
from supple.mechanism.notebook import brief

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Topology:
    """A spanning tree rooted at the world. Bodies and joints are indices; the world is -1."""

    __repr__ = brief

    tree: tuple[int, ...]
    """Joints of the tree, in the order of the description."""
    loops: tuple[int, ...]
    """Joints that close a loop, in the order of the description."""
    order: tuple[int, ...]
    """Bodies, each after its parent."""
    parent: Indices
    """(bodies,) the next body towards the world."""
    joint: Indices
    """(bodies,) the tree joint towards the parent."""
    reversed: NDArray[np.bool_]
    """(bodies,) true where this body is that joint's parent and the next body towards the world its child."""
    columns: dict[int, slice]
    """Slice of each joint's coordinates: of tree joints in q, of loop joints in the vector of loop coordinates."""
    dof: int
    """Length of q."""
    moves: NDArray[np.bool_]
    """(bodies, dof): whether a coordinate of the tree moves a body."""


def span(bodies: Sequence[Body], joints: Sequence[Joint]) -> Topology:
    """The spanning tree that takes joints in the order of the description (Kruskal's algorithm)."""
    index = {body.name: i for i, body in enumerate(bodies)} | {WORLD: -1}
    ends = [(index[j.parent], index[j.child]) for j in joints]
    tree, loops = _split_tree_and_loops(ends, len(bodies))

    neighbours: dict[int, list[int]] = {i: [] for i in range(-1, len(bodies))}
    for j in tree:
        for end in ends[j]:
            neighbours[end].append(j)
    parent, via = np.full(len(bodies), -2), np.full(len(bodies), -1)
    backwards = np.zeros(len(bodies), dtype=bool)
    order: list[int] = []
    stack = [-1]
    while stack:
        current = stack.pop()
        if current >= 0:
            order.append(current)
        for j in reversed(neighbours[current]):
            a, b = ends[j]
            neighbour = b if a == current else a
            if neighbour == -1 or parent[neighbour] != -2:
                continue
            parent[neighbour], via[neighbour], backwards[neighbour] = current, j, a != current
            stack.append(neighbour)
    if len(order) < len(bodies):
        unreachable = [body.name for body, p in zip(bodies, parent, strict=True) if p == -2]
        raise MechanismError(
            f"{len(unreachable)} bodies cannot be reached from the world through joints: {listed(unreachable)}. "
            "Connect them with a joint; a body that floats has a free joint to 'world'"
        )
    columns = _columns(tree, joints) | _columns(loops, joints)
    dof = sum(len(joints[j].axes) for j in tree)
    moves = np.zeros((len(bodies), dof), dtype=bool)
    for b in order:
        if parent[b] >= 0:
            moves[b] = moves[parent[b]]
        moves[b, columns[via[b]]] = True
    return Topology(tuple(tree), tuple(loops), tuple(order), parent, via, backwards, columns, dof, moves)


def welded_groups(bodies: Sequence[Body], joints: Sequence[Joint]) -> list[int]:
    """For each body the number of its group: bodies that fixed joints connect have the same one. -1: fixed to the
    world."""
    index = {body.name: i for i, body in enumerate(bodies)} | {WORLD: len(bodies)}
    group = list(range(len(bodies) + 1))
    for joint in joints:
        if joint.axes:
            continue
        a, b = group[index[joint.parent]], group[index[joint.child]]
        group = [a if g == b else g for g in group]
    return [-1 if g == group[-1] else g for g in group[:-1]]


def _split_tree_and_loops(ends: list[tuple[int, int]], count: int) -> tuple[list[int], list[int]]:
    """Joints of the tree and joints that close loops, by union-find over the `count` bodies and the world."""
    representative = list(range(count + 1))  # the last entry is the world, index -1

    def find(i: int) -> int:
        while representative[i] != i:
            representative[i] = representative[representative[i]]
            i = representative[i]
        return i

    tree: list[int] = []
    loops: list[int] = []
    for j, (a, b) in enumerate(ends):
        a, b = find(a % (count + 1)), find(b % (count + 1))
        (loops if a == b else tree).append(j)
        representative[a] = b
    return tree, loops


def _columns(chosen: Sequence[int], joints: Sequence[Joint]) -> dict[int, slice]:
    columns, start = {}, 0
    for j in chosen:
        columns[j] = slice(start, start + len(joints[j].axes))
        start += len(joints[j].axes)
    return columns
