"""Statics of pads: the core against a readable twin."""

import numpy as np
import pytest

from supple import _core, spatial, zones
from supple.contact.pads import NEAR, Pad
from supple.mechanism import Shape

RADIUS = 0.02


def random_pad(seed):
    """A curved patch with a random compliance in which near points act on each other."""
    rng = np.random.default_rng(seed)
    side = np.linspace(-4e-3, 4e-3, 6)
    x, y = (own.ravel() for own in np.meshgrid(side, side))
    points = np.stack([x, y, -20 * (x**2 + y**2)], axis=1)
    normals = np.stack([40 * x, 40 * y, np.ones_like(x)], axis=1)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    C = np.kron(1e-3 / (1 + distance / 1e-3) ** 2, np.eye(3))
    noise = rng.standard_normal(C.shape)
    C = C + 1e-7 * noise @ noise.T
    return Pad(points, normals, np.full(len(x), 2.5e-6), C, friction=0.4)


def axes_of(normal):
    """(3, 3) columns: a normal and two tangents."""
    first = np.cross(normal, np.eye(3)[int(np.abs(normal).argmin())])
    first /= np.linalg.norm(first)
    return np.stack([normal, first, np.cross(normal, first)], axis=1)


def press_twin(pad, centre, friction, start=None, before_centre=None):
    """Forces (n, 3) of a ball that presses on a pad: contact laws for all points near it."""
    away = pad.points - centre
    distance = np.linalg.norm(away, axis=1)
    gaps, normals = distance - RADIUS, away / distance[:, None]
    facing = np.einsum("ni,ni->n", normals, pad.normals) < 0
    near = np.flatnonzero((gaps < NEAR * np.linalg.norm(np.ptp(pad.points, axis=0))) & facing)
    forces = np.zeros_like(pad.points)
    if not len(near):
        return forces
    axes = np.array([axes_of(normal) for normal in normals[near]])
    rows = (3 * near[:, None] + np.arange(3)).ravel()
    blocks = pad.compliance[np.ix_(rows, rows)].reshape(len(near), 3, len(near), 3)
    W = np.einsum("ira,irjs,jsb->iajb", axes, blocks, axes).reshape(len(rows), len(rows))
    b = np.zeros((len(near), 3))
    b[:, 0] = gaps[near]
    if start is not None:
        slip = -(pad.compliance @ start.ravel()).reshape(-1, 3)[near] - (centre - before_centre)
        b[:, 1:] = np.einsum("ira,ir->ia", axes, slip)[:, 1:]
    scale = 1 / np.abs(gaps[near].min())  # the solver's tolerance is that of lengths near 1
    mu = np.full(len(near), friction)
    p, _ = _core.contact_testing.solve_friction(np.ascontiguousarray(W), scale * b.ravel(), mu, np.zeros(len(rows)))
    forces[near] = np.einsum("ira,ia->ir", axes, p.reshape(-1, 3) / scale)
    return forces


@pytest.mark.parametrize("seed", [0, 1])
def test_pressing_a_pad_agrees_with_its_twin(seed):
    pad, rng = random_pad(seed), np.random.default_rng(seed)
    ball = Shape("sphere", [RADIUS], np.eye(4), friction=(0.2, 0, 0))
    centre = np.array([*rng.normal(scale=1e-3, size=2), RADIUS - 8e-4])
    touch = pad.press(ball, spatial.translation(centre))
    forces = press_twin(pad, centre, 0.4)
    assert (touch.normal_forces > 0).sum() > 5
    np.testing.assert_allclose(touch.forces, forces, atol=1e-6 * np.abs(forces).max())
    moved = centre + [3e-4, -2e-4, 1e-5]
    again = pad.press(ball, spatial.translation(moved), start=touch)
    slid = press_twin(pad, moved, 0.4, forces, centre)
    np.testing.assert_allclose(again.forces, slid, atol=1e-6 * np.abs(slid).max())
    np.testing.assert_allclose(again.displacements.ravel(), pad.compliance @ again.forces.ravel(), atol=1e-15)


@pytest.mark.parametrize("depth", [3e-4, 3e-3])  # the second is deeper than the ball's radius
def test_a_probe_at_rest_agrees_with_its_twin(depth):
    """Gaps and normals of a ball that came from above, on a flat pad without friction."""
    curved, radius = random_pad(3), 2e-3
    points, up = curved.points * [1, 1, 0], np.array([0, 0, 1.0])
    pad = Pad(points, np.tile(up, (len(points), 1)), curved.areas, curved.compliance, friction=0.0)
    probe = zones.Probe(pad, radius, [2e-4, 3e-4, radius + 1e-4], damping=0.0, most_force=50.0)
    for part in np.linspace(0, 1, 40):
        probe.move([2e-4, 3e-4, radius - part * depth])
        probe.tick()
    probe.tick(60)
    x = points - probe.position
    across = x * [1, 1, 0]
    below = radius**2 - (across**2).sum(axis=1)
    own = np.flatnonzero(below > 0)
    normals = (across[own] - np.sqrt(below[own])[:, None] * up) / radius
    gaps = np.einsum("ni,ni->n", normals, x[own]) - radius
    blocks = pad.compliance.reshape(len(points), 3, len(points), 3)[own][:, :, own]
    W = np.einsum("ia,iajb,jb->ij", normals, blocks, normals)
    forces, change = np.zeros(len(own)), 1.0
    while change > 1e-12 * max(1e-300, np.abs(forces).max()):  # Gauss-Seidel for forces that only push
        before = forces.copy()
        for i in range(len(own)):
            forces[i] = max(0.0, forces[i] - (W[i] @ forces + gaps[i]) / W[i, i])
        change = float(np.abs(forces - before).max())
    assert (forces > 0).any()
    np.testing.assert_allclose(probe.force, -(forces @ normals), atol=1e-4 * np.abs(forces).sum())
