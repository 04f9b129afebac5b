"""Bodies and joints as a directed acyclic graph from the world outwards, used by the recursion.

Bodies and joints are given by index. The world is -1: lists over bodies have a last entry for the world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from supple.mechanism import Mechanism


@dataclass(frozen=True)
class Paths:
    """Direction of every joint, and the dominator tree: bodies that every path from the world to a body passes."""

    parent: list[int]
    """(joints,) the body on the inner side of each joint."""
    child: list[int]
    """(joints,) the body on its outer side."""
    into: list[list[int]]
    """(bodies,) the joints that carry each body; several where branches merge."""
    order: list[int]
    """Bodies in topological order: each after the bodies that carry it."""
    dominator: list[int]
    """(bodies + 1,) the nearest other body that every path from the world to a body passes."""
    depth: list[int]
    """(bodies + 1,) number of dominators of a body."""

    def upwards(self, body: int, top: int = -1) -> Iterator[int]:
        """A body and its dominators, the nearest first, below `top`."""
        while body != top:
            yield body
            body = self.dominator[body]

    def common_dominator(self, a: int, b: int) -> int:
        """The nearest body, a and b included, that every path from the world to either passes."""
        return _common_dominator(self.dominator, self.depth, a, b)

    def ancestors(self, body: int, top: int = -1) -> set[int]:
        """All bodies on paths from the dominator `top` to a body, without both."""
        found: set[int] = set()
        stack = [body]
        while stack:
            fresh = {self.parent[j] for j in self.into[stack.pop()]} - found - {top, -1}
            found |= fresh
            stack += fresh
        return found

    def inside(self, body: int) -> set[int]:
        """The bodies of the branches that merge in a body: those between it and its dominator."""
        return self.ancestors(body, self.dominator[body])

    def ends_that_ignore_merge(self, body: int, ends: Iterable[int]) -> list[int]:
        """Those of `ends` that are carried by the branches that merge in a body, but not by the body itself."""
        branches = self.inside(body)
        return [e for e in ends if branches & (self.ancestors(e) | {e}) and body not in self.upwards(e)]


def paths(mech: Mechanism, ends: Sequence[int]) -> Paths:
    """Directs all joints. Joints of the spanning tree lead away from the world. A joint that closes a loop leads from
    its parent to its child, unless that makes a cycle or fewer of the bodies `ends` ignore the merge otherwise."""
    topology = mech.topology
    edges = {int(topology.joint[b]): (int(topology.parent[b]), b) for b in topology.order}
    current = _connect(mech, edges)
    for j in topology.loops:
        described = mech.body_index(mech.joints[j].parent), mech.body_index(mech.joints[j].child)
        ways = [way for way in (described, described[::-1]) if way[1] >= 0 and not _reaches(current, *way[::-1])]
        choices = [_connect(mech, edges | {j: way}) for way in ways]
        best = min(range(len(ways)), key=lambda i: _ignored_merges(choices[i], ways[i][1], ends))
        edges[j], current = ways[best], choices[best]
    return current


def _reaches(graph: Paths, start: int, end: int) -> bool:
    return end >= 0 and start in graph.ancestors(end)


def _ignored_merges(graph: Paths, merged: int, ends: Sequence[int]) -> tuple[int, int]:
    """Number of ends inside the loop that is closed at a body, and of ends that ignore its closure."""
    inside = graph.inside(merged)
    return sum(e in inside for e in ends), len(graph.ends_that_ignore_merge(merged, ends))


def _connect(mech: Mechanism, edges: dict[int, tuple[int, int]]) -> Paths:
    """Orders the bodies. The dominator of a body is where all bodies that carry it meet. Loops may still be open."""
    count = len(mech.bodies)
    into: list[list[int]] = [[] for _ in range(count)]
    out: list[list[int]] = [[] for _ in range(count + 1)]
    for j, (a, b) in sorted(edges.items()):
        into[b].append(j)
        out[a].append(b)
    waiting = [len(joints) for joints in into]
    order: list[int] = []
    stack = [-1]
    while stack:
        here = stack.pop()
        if here >= 0:
            order.append(here)
        for b in reversed(out[here]):
            waiting[b] -= 1
            if waiting[b] == 0:
                stack.append(b)
    dominator, depth = [-1] * (count + 1), [0] * (count + 1)
    for b in order:
        nearest = edges[into[b][0]][0]
        for j in into[b][1:]:
            nearest = _common_dominator(dominator, depth, nearest, edges[j][0])
        dominator[b], depth[b] = nearest, depth[nearest] + 1
    ends = [edges.get(j, (-1, -1)) for j in range(len(mech.joints))]
    return Paths([a for a, _ in ends], [b for _, b in ends], into, order, dominator, depth)


def _common_dominator(dominator: Sequence[int], depth: Sequence[int], a: int, b: int) -> int:
    while a != b:
        if depth[a] >= depth[b]:
            a = dominator[a]
        else:
            b = dominator[b]
    return a
