"""Linear models made at random equilibria, for tests of blended models."""

from __future__ import annotations

import numpy as np

import supple
from supple import spatial
from supple.engine import Equilibrium
from supple.mechanism import Mechanism
from supple.reduced import BlendedModel

LIBRARY = {
    "y": (supple.library.y, ["left_tip", "right_tip"]),
    "ladder": (lambda: supple.library.ladder(4), ["tip"]),
    "helix": (lambda: supple.library.helix(20), ["tip"]),
    "loop": (lambda: supple.library.loop(15), ["tip"]),
    "arm": (supple.library.robot_arm, ["tip"]),
}


def library_case(name: str) -> tuple[Mechanism, list[str]]:
    build, tips = LIBRARY[name]
    return build(), tips


def rotated_wrench(rotation: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    """A wrench (..., 6) in other axes: both parts are multiplied by `rotation`."""
    parts = np.reshape(wrench, (*np.shape(wrench)[:-1], 2, 3, 1))
    return (rotation[..., None, :, :] @ parts).reshape(np.shape(wrench))


def tip_poses(eq: Equilibrium, tips: list[str]) -> np.ndarray:
    return np.array([eq.poses[tip] for tip in tips])


def relative_displacement(rest: supple.ReducedModel, poses: np.ndarray) -> float:
    """Largest relative displacement of end effectors (..., e, 4, 4) from their poses in a model."""
    twists = spatial.log(spatial.inverse(rest.end_effector_poses) @ poses)
    return float(np.linalg.norm(twists / ([rest.mechanism.radius] * 3 + [1.0] * 3), axis=-1).max())


def random_wrenches(rest: supple.ReducedModel, rng: np.random.Generator, size: float) -> np.ndarray:
    """(e, 6) in world axes, scaled so that the linear model `rest` predicts the relative displacement `size`."""
    wrenches = rng.normal(size=(len(rest.end_effectors), 6)) * ([1.0] * 3 + [rest.mechanism.radius] * 3)
    return wrenches * size / linear_displacement(rest, wrenches)


def soft_wrenches(rest: supple.ReducedModel, rng: np.random.Generator, size: float) -> np.ndarray:
    """As `random_wrenches`, with the compliance as covariance: wrenches in stiff directions are rare."""
    e = len(rest.end_effectors)
    lengths = np.tile([rest.mechanism.radius] * 3 + [1.0] * 3, e)
    values, vectors = np.linalg.eigh(rest.compliance / np.outer(lengths, lengths))
    body = vectors @ (np.sqrt(np.clip(values, 0, None)) * rng.normal(size=6 * e)) / lengths
    wrenches = rotated_wrench(rest.end_effector_poses[:, :3, :3], body.reshape(e, 6))
    return wrenches * size / linear_displacement(rest, wrenches)


def linear_displacement(rest: supple.ReducedModel, wrenches: np.ndarray) -> float:
    """Largest relative displacement of an end effector under wrenches (..., e, 6) in world axes, by the linear model
    `rest`."""
    body = rotated_wrench(np.swapaxes(rest.end_effector_poses[:, :3, :3], -1, -2), wrenches)
    n = 6 * len(rest.end_effectors)
    twists = (body.reshape(*wrenches.shape[:-2], n) @ rest.compliance[:n, :n]).reshape(wrenches.shape)
    return float(np.linalg.norm(twists / ([rest.mechanism.radius] * 3 + [1.0] * 3), axis=-1).max())


def random_models(mech: Mechanism, tips: list[str], count: int, size: float, seed: int = 0, **options):
    """Linear models: the first at the reference pose, the others at equilibria under random wrenches up to `size`."""
    rng = np.random.default_rng(seed)
    models = [supple.reduce(mech, tips, **options)]
    while len(models) < count:
        wrenches = random_wrenches(models[0], rng, size * rng.uniform(0.3, 1.0))
        at = supple.equilibrium(mech, dict(zip(tips, wrenches, strict=True)))
        models.append(supple.reduce(mech, tips, at=at, **options))
    return models


def closed_path(rest: supple.ReducedModel, rng: np.random.Generator, size: float, count: int) -> np.ndarray:
    """(count + 1, e, 6) wrenches in world axes on a smooth closed path from zero back to zero, of up to `size`."""
    e, s = len(rest.end_effectors), np.linspace(0, 2 * np.pi, count + 1)[:, None, None]
    sines = rng.normal(size=(2, 3, e, 6)) * ([1.0] * 3 + [rest.mechanism.radius] * 3)
    terms = [np.sin(k * s) * a + (np.cos(k * s) - 1) * b for k, (a, b) in enumerate(zip(*sines, strict=True), 1)]
    path = np.sum(terms, axis=0)
    return path * size / linear_displacement(rest, path)


def helix_models(count: int = 6, links: int = 8, **options) -> list[supple.ReducedModel]:
    return random_models(supple.library.helix(links), ["tip"], count, 0.5, **options)


def simulation_in_motion(many: BlendedModel, dt: float = 2e-3, steps: int = 150) -> supple.ReducedSimulation:
    """A simulation after `steps` time steps under one load and one handle; it still moves."""
    sim = supple.ReducedSimulation(many, dt)
    sim.apply(many.end_effectors[0], 0.8 * many.models[1].wrenches[:6], frame="body")
    sim.pull(many.end_effectors[-1], many.models[0].end_effector_poses[-1, :3, 3] + 0.1, 50.0, 1.0, at=(0, 0, 0.05))
    sim.step(steps)
    return sim
