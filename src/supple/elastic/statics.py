"""Nonlinear static shapes of the full mesh under dead nodal forces, and samples of them for a basis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from supple.elastic._checks import Array
from supple.elastic.held import HeldStiffness, held_rows
from supple.elastic.modal import wrench_loads, wrenches_in_plane
from supple.errors import ConvergenceError

if TYPE_CHECKING:
    from supple.elastic.part import Part

TOLERANCE = 1e-11
"""Last Newton step over the size of the part."""
ITERATIONS = 25
SMALLEST = 1 / 256
"""Smallest step of the load's fraction."""
LARGEST_TURN = 0.6
"""Largest rotation of an interface in linear estimates of sampled shapes, rad."""


def static_path(
    part: Part, reference: str, forces: Array, fractions: Array | None = None, start: Array | None = None
) -> Array:
    """Shapes (s, n, 3) in equilibrium with given fractions (s,) of dead nodal forces (n, 3), N, in the frame of the
    reference interface: its centroid and mean rotation stay at rest. Newton's method follows the load with steps that
    shrink when it fails. `start`: (n, 3) first guess at the first fraction, else the path starts at rest.

    Raises:
        ConvergenceError: the path ends (an instability, or inverted elements).
    """
    size = float(np.ptp(part.nodes, axis=0).max())
    rows = held_rows(part, [reference])
    wanted = np.array([1.0]) if fractions is None else np.asarray(fractions, dtype=float)
    done, u, rate = 0.0, np.zeros_like(part.nodes), np.zeros_like(part.nodes)
    if start is not None:
        u = start
    shapes: list[Array] = []
    step = float(wanted[0])
    while len(shapes) < len(wanted):
        goal = min(done + step, wanted[len(shapes)])
        reached = _newton(part, rows, goal * forces, u + (goal - done) * rate, size)
        if reached is None:
            step = 0.5 * (goal - done)
            if step < SMALLEST:
                raise ConvergenceError(
                    f"no static shape beyond {done:.3g} of the load: the part snaps through or elements invert; use "
                    "smaller "
                    "loads (`deflection`, `strain`)",
                    load_fraction=done,
                )
            continue
        rate = (reached - u) / (goal - done) if goal > done else rate
        step = max(step, goal - done)
        done, u = goal, reached
        if done == wanted[len(shapes)]:
            shapes.append(u)
            if len(shapes) < len(wanted):
                step = float(wanted[len(shapes)] - done)
    return np.array(shapes)


def _newton(part: Part, rows: Array, forces: Array, u: Array, size: float) -> Array | None:
    """The equilibrium near u, or None. Steps are limited to half the part's size."""
    last, step = np.inf, None
    for iteration in range(ITERATIONS):
        internal, K = part.elements.tangent(u, last_step=step, allow_inverted=True)
        change = HeldStiffness(K, rows).solve((forces - internal).ravel()).reshape(-1, 3)
        length = float(np.abs(change).max())
        if not np.isfinite(length) or (iteration > 12 and length > last):
            return None
        step = change * min(1.0, 0.5 * size / max(length, 1e-300))
        u = u + step
        if length < TOLERANCE * size or (length < 1e3 * TOLERANCE * size and length > 0.1 * last):  # at rounding
            return u if part.elements.inverted(u) < 0 else None
        last = length
    return None


def sample_shapes(
    part: Part,
    reference: str,
    loads: Array,
    count: int,
    seed: int,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Array:
    """(count, n, 3) static shapes under random combinations of loads (3n, k), N, each given at its limit.

    The coefficients of a combination have the norm 1. Each path of loads gives two shapes, at half and at all of its
    load. A path that ends early (the limits are linear estimates) is repeated with a smaller load.
    """
    rng = np.random.default_rng(seed)
    shapes: list[Array] = []
    known: dict[bytes, Array] = {}  # a single load has two combinations only
    while len(shapes) < count:
        weights = rng.standard_normal((1, loads.shape[1]))[0]
        weights /= np.linalg.norm(weights)
        key = weights.tobytes()
        if key not in known:
            known[key] = _shapes_on_path(part, reference, (loads @ weights).reshape(-1, 3))
        shapes.extend(known[key])
        progress(min(1.0, len(shapes) / count))
    return np.array(shapes[:count])


def _shapes_on_path(part: Part, reference: str, forces: Array) -> Array:
    """(2, n, 3) shapes at half and at all of the forces (n, 3), N, which are reduced until there is an equilibrium."""
    amplitude = 1.0
    while True:
        try:
            return static_path(part, reference, amplitude * forces, np.array([0.5, 1.0]))
        except ConvergenceError as error:
            amplitude *= 0.8 * (error.load_fraction or 0.0)
            if amplitude < 0.05:
                raise


def limited_loads(part: Part, reference: str, deflection: float, strain: float, plane: str | None) -> Array:
    """(3n, 6k) nodal forces of wrenches on the k other interfaces at the limits of linear shapes; with `plane` the 3k
    of them in the plane normal to an axis. A part with one interface has its weight in three directions instead.

    Forces in all directions have the same limit, that of the most compliant direction, and so have torques: otherwise a
    rod would be stretched by forces that no motion causes.
    """
    _, K = part.elements.tangent(np.zeros_like(part.nodes))
    weight = np.kron(np.asarray(part.mass_matrix().sum(axis=1)).reshape(-1, 1), np.eye(3))
    loads = weight if len(part.interfaces) == 1 else wrench_loads(part, reference)
    limits = limit_factors(part, HeldStiffness(K, held_rows(part, [reference])).solve(loads), deflection, strain)
    for first in range(0, len(limits), 3):  # three forces, three torques, ...
        limits[first : first + 3] = limits[first : first + 3].min()
    return np.asarray((loads * limits)[:, wrenches_in_plane(len(limits), plane)])


def limit_factors(part: Part, shapes: Array, deflection: float, strain: float) -> Array:
    """(k,) factors that bring linear shapes (3n, k) to the limits of displacement, strain and rotation."""
    size = float(np.ptp(part.nodes, axis=0).max())
    fields = shapes.reshape(len(part.nodes), 3, -1)
    gradients, _ = part.elements.modal_gradients(fields)
    strains = 0.5 * (gradients + gradients.transpose(0, 2, 1, 3))
    largest = np.abs(np.linalg.eigvalsh(strains.transpose(0, 3, 1, 2))).max(axis=(0, 2))
    moved = np.linalg.norm(fields, axis=1).max(axis=0)
    turned = np.zeros(shapes.shape[1])
    for name in part.interfaces:
        own = part.interface(name)
        frame = own.frame_of_modes(fields, own.centroid)
        angular = frame.motion(np.zeros(fields.shape[2])).jacobian[3:]
        turned = np.maximum(turned, np.linalg.norm(angular, axis=0))
    bounds = [deflection * size / moved, strain / largest, LARGEST_TURN / np.maximum(turned, 1e-300)]
    return np.asarray(np.min(bounds, axis=0))
