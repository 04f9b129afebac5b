"""Natural frequencies against dense eigenvalues in joint coordinates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh, null_space

import engine_reference
import mechanisms
import supple
from supple.mechanism import Mechanism, mobility

LIBRARY = {
    "helix": supple.library.helix(12),
    "ladder": supple.library.ladder(4),
    "loop": supple.library.loop(9),
    "robot_arm": supple.library.robot_arm(8),
    "y": supple.library.y(),
}


def spring_matrix(mech: Mechanism) -> np.ndarray:
    """(n, n) for the coordinates of the tree, then of the loops."""
    names = [*mech.coordinates, *mech.loop_coordinates]
    stiffness = np.zeros((len(names), len(names)))
    for joint in mech.joints:
        at = [names.index(axis) for axis in joint.axes]
        stiffness[at, at] += joint.stiffness
    for c in mech.couplings:
        if not c.rigid:
            row = np.zeros(len(names))
            row[[names.index(n) for n in c.coordinates]] = c.coefficients
            stiffness += c.stiffness * np.outer(row, row)
    return stiffness


def padded_mass(mech: Mechanism, q: np.ndarray) -> np.ndarray:
    """Mass matrix of the tree, with the armatures of the loops' joints."""
    extra = np.concatenate([np.zeros(0), *(mech.joints[j].armature for j in mech.topology.loops)])
    mass = np.zeros((len(q), len(q)))
    mass[: mech.dof, : mech.dof] = supple.mass_matrix(mech, q[: mech.dof])
    mass[mech.dof :, mech.dof :] = np.diag(extra)
    return mass


def frequencies(mass: np.ndarray, stiffness: np.ndarray, rows: np.ndarray) -> np.ndarray:
    free = null_space(rows, rcond=1e-9) if len(rows) else np.eye(len(mass))
    values = eigh(free.T @ stiffness @ free, free.T @ mass @ free, eigvals_only=True)
    return np.sign(values) * np.sqrt(np.abs(values)) / (2 * np.pi)


def start(mech: Mechanism) -> np.ndarray:
    return np.concatenate([mech.reference, *(mech.joints[j].reference for j in mech.topology.loops)])


@pytest.mark.parametrize("name", LIBRARY)
def test_frequencies_of_the_library(name):
    mech = LIBRARY[name]
    q = start(mech)
    expected = frequencies(padded_mass(mech, q), spring_matrix(mech), mobility.constraints(mech, q)[1])
    found = supple.modes(mech)
    np.testing.assert_allclose(found.frequencies, expected, rtol=1e-8)
    assert len(found.frequencies) == mech.mobility or name == "ladder"  # its rest is singular: it only bends
    assert (found.frequencies > 0).all()


def test_frequencies_of_random_trees_and_loops():
    kinds = [k for k in mechanisms.KINDS if k not in engine_reference.ROTATION_VECTORS]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(rng, 5, kinds, loops=seed % 3, couplings=3)
        mech = replace(mech, joints=tuple(replace(j, curves=()) for j in mech.joints))
        if mech.mobility == 0:
            continue
        q = start(mech)
        rows = mobility.constraints(mech, q)[1]
        expected = frequencies(padded_mass(mech, q), spring_matrix(mech), rows)
        np.testing.assert_allclose(supple.modes(mech).frequencies, expected, rtol=1e-6)


def loaded_frequencies(mech: Mechanism, eq: supple.engine.Equilibrium, force: np.ndarray, body: str) -> np.ndarray:
    """By finite differences of the potential along motions that keep the loops closed."""
    q = np.concatenate([eq.q, *(eq.coordinates[mech.joints[j].name] for j in mech.topology.loops)])
    rows = mobility.constraints(mech, q)[1]
    free = null_space(rows, rcond=1e-9) if len(rows) else np.eye(len(q))
    stiffness = spring_matrix(mech)
    rest = np.concatenate([mech.joints[j].rest for j in (*mech.topology.tree, *mech.topology.loops)])

    def potential(z: np.ndarray) -> float:
        moved = q + free @ z
        for _ in range(8):  # back onto the loops, across the allowed motions
            error, jacobian = mobility.constraints(mech, moved)
            if not len(error):
                break
            moved = moved - np.linalg.lstsq(jacobian, error, rcond=1e-9)[0]
        state = supple.kinematics(mech, moved[: mech.dof])
        centres = [pose[:3, :3] @ b.centre + pose[:3, 3] for pose, b in zip(state.poses, mech.bodies, strict=True)]
        weight = -sum(b.mass * mech.gravity @ c for b, c in zip(mech.bodies, centres, strict=True))
        bent = moved - rest
        return float(bent @ stiffness @ bent / 2 + weight - force @ state.poses[body][:3, 3])

    n, step = free.shape[1], 1e-3
    basis = np.eye(n) * step
    hessian = np.zeros((n, n))
    for i in range(n):
        for k in range(i + 1):
            corners = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            values = [a * b * potential(a * basis[i] + b * basis[k]) for a, b in corners]
            hessian[i, k] = hessian[k, i] = sum(values) / (4 * step**2)
    mass = free.T @ padded_mass(mech, q) @ free
    values = eigh(hessian, mass, eigvals_only=True)
    return np.sign(values) * np.sqrt(np.abs(values)) / (2 * np.pi)


@pytest.mark.parametrize(
    ("mech", "body", "force"),
    [
        (supple.library.robot_arm(5, stiffness=60.0, gravity=(0, 0, -9.81)), "tip", (20.0, 30.0, -40.0)),
        (supple.library.loop(7, stiffness=20.0, gravity=(0, 0, -9.81)), "tip", (2.0, -3.0, -10.0)),
        (mechanisms.four_bar(stiffness=10.0), "coupler", (30.0, 0.0, -20.0)),
    ],
    ids=["robot_arm", "loop", "four_bar"],
)
def test_frequencies_under_load(mech, body, force):
    eq = supple.equilibrium(mech, {body: [*force, 0, 0, 0]})
    assert np.abs(eq.q - mech.reference).max() > 0.1
    found = supple.modes(mech, eq).frequencies
    expected = loaded_frequencies(mech, eq, np.array(force), body)
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    unloaded = supple.modes(mech).frequencies
    assert np.abs(found[:1] / unloaded[:1] - 1).max() > 1e-3  # the load matters
    assert eq.stable == (expected[0] > 0)


def test_a_mode_vibrates_at_its_frequency():
    mech = supple.library.robot_arm(6, damping=0.0)
    modes = supple.modes(mech)
    period = 1 / modes.frequencies[1]
    shape = 1e-4 * modes.shapes[1] / np.abs(modes.shapes[1]).max()
    sim = supple.Simulation(mech, period / 400, "bdf2", q=mech.reference + shape)
    sim.step(200)
    half = np.concatenate(list(sim.coordinates.values())) - mech.reference
    np.testing.assert_allclose(half, -shape, atol=1e-7)
