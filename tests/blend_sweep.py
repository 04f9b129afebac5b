"""A blend of two models under forces up to 1.2 times that of the second model, compared with the engine.

Each `Pull` has one model at the reference pose and one at the equilibrium under a force on the first end effector.
Other forces of the same direction then act, each from the reference pose and at once. The blend must end near the
equilibrium that the engine finds when the force grows slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import supple
from supple import spatial
from supple.engine import Equilibrium
from supple.errors import ConvergenceError
from supple.mechanism import Mechanism

WORSE, MARGIN = 1.2, 0.02
"""A blend may end at most WORSE times as far from the equilibrium as the better of its models alone, plus MARGIN."""
DT, SECONDS = 5e-3, 80.0
STILL = 1e-3
"""1/s: largest velocity (lengths over the radius) of an end effector that counts as at rest."""


@dataclass(frozen=True)
class Pull:
    """Two models of a mechanism and the loads to try."""

    name: str
    models: tuple[supple.ReducedModel, supple.ReducedModel]
    force: np.ndarray
    """(3,) N in world axes, on the first end effector, at which the second model was made."""
    fractions: tuple[float, ...]
    """Loads to try, over `force`. Those without an equilibrium on the branch of the reference pose are left out."""
    poses: tuple[np.ndarray, ...]
    """(e, 4, 4) of the end effectors at the equilibrium of each load."""
    left_out: int


@dataclass(frozen=True)
class Outcome:
    """Final state of a blend under one load. Errors are relative displacements from the equilibrium."""

    pull: str
    fraction: float
    blend: float
    alone: float
    """The error of the better of the two models alone."""
    speed: float
    """1/s, the largest of an end effector of the blend in the last four seconds."""

    @property
    def good(self) -> bool:
        return bool(self.blend <= WORSE * self.alone + MARGIN and self.speed < STILL)


def relative_displacement(mech: Mechanism, poses: np.ndarray, others: np.ndarray) -> float:
    """Largest relative displacement between poses (e, 4, 4) of end effectors."""
    with np.errstate(all="ignore"):
        twists = spatial.log(spatial.inverse(poses) @ others) / ([mech.radius] * 3 + [1.0] * 3)
    size = float(np.linalg.norm(twists, axis=-1).max())
    return size if np.isfinite(size) else np.inf


def slow_path(mech: Mechanism, tips: Sequence[str], force: np.ndarray, fractions: np.ndarray) -> list[Equilibrium]:
    """Equilibria as the force grows, as far as the branch of the reference pose is stable and continuous."""
    path: list[Equilibrium] = []
    last, before = None, None
    for fraction in fractions:
        try:
            at = supple.equilibrium(mech, {tips[0]: [*(fraction * force), 0, 0, 0]}, start=last)
        except ConvergenceError:
            break
        moved = np.inf if last is None else relative_displacement(mech, tip_poses(last, tips), tip_poses(at, tips))
        if not at.stable or (before is not None and moved > 5 * before + 0.02):  # a snap-through
            break
        last, before = at, moved if np.isfinite(moved) else None
        path.append(at)
    return path


def tip_poses(at: Equilibrium, tips: Sequence[str]) -> np.ndarray:
    return np.array([at.poses[tip] for tip in tips])


def pull(
    name: str, mech: Mechanism, tips: Sequence[str], direction: Sequence[float], force: float | None = None,
    displacement: float = 1.0, count: int = 40,
) -> Pull | None:  # fmt: skip
    """A pull along `direction` by `force` (N), or by as much as gives the relative `displacement`; at most as far as
    the branch is stable. None if the force moves nothing."""
    rest = supple.reduce(mech, tips)
    unit = np.array(direction) / np.linalg.norm(direction)
    if force is None:
        force = force_for(rest, unit, displacement)
    if not force:
        return None
    fractions = np.linspace(0, 1.2, count + 1)[1:]
    fine = np.unique(np.append(fractions, 1.0))
    path = slow_path(mech, tips, force * unit, fine)
    kept = dict(zip(fine.tolist(), path, strict=False))
    if 1.0 not in kept:
        return None
    second = supple.reduce(mech, tips, at=kept[1.0])
    tried = [fraction for fraction in fractions.tolist() if fraction in kept]
    poses = tuple(tip_poses(kept[fraction], tips) for fraction in tried)
    return Pull(name, (rest, second), force * unit, tuple(tried), poses, count - len(tried))


def force_for(rest: supple.ReducedModel, unit: np.ndarray, displacement: float) -> float:
    """The force (N) along `unit` on the first end effector that gives a relative displacement within 2 %. It is less
    where the branch ends or the mechanism is taut before that."""
    mech, tips = rest.mechanism, rest.end_effectors
    local = rest.end_effector_poses[0, :3, :3].T @ unit
    moved = rest.compliance[:, :3] @ local / np.tile([mech.radius] * 3 + [1.0] * 3, len(tips))
    size = float(np.linalg.norm(moved.reshape(-1, 6), axis=1).max())
    if not size > 1e-12:
        return 0.0
    step = 0.05 / size
    best, force, last, at = 0.0, 0.0, None, 0.0
    for _ in range(120):
        try:
            at_force = supple.equilibrium(mech, {tips[0]: [*((force + step) * unit), 0, 0, 0]}, start=last)
        except ConvergenceError:
            break
        moved_by = relative_displacement(mech, rest.end_effector_poses, tip_poses(at_force, tips))
        if not at_force.stable or abs(moved_by - at) > 0.3:  # a snap-through
            break
        if force and moved_by - at < 0.02 * displacement * step / force:  # taut: it hardly moves any more
            break
        if moved_by > 1.02 * displacement:
            step /= 2
            continue
        force, last, at, best = force + step, at_force, moved_by, force + step
        if moved_by > 0.98 * displacement:
            break
        step *= 1.4
    return best


def outcomes(each: Pull, loads: slice = slice(None), **options) -> list[Outcome]:
    """Final errors of the blend and of each model alone under the loads of a pull. `options`: of `supple.blend`."""
    motions = [supple.blend(each.models, **options), *each.models]
    longest = max(SECONDS, 14 / slowest_decay(each.models[0]))
    results = []
    for fraction, goal in zip(each.fractions[loads], each.poses[loads], strict=True):
        wrench = np.array([*(fraction * each.force), 0, 0, 0])
        errors, speeds = zip(*(final_error(model, wrench, goal, longest) for model in motions), strict=True)
        results.append(Outcome(each.name, fraction, errors[0], min(errors[1:]), speeds[0]))
    return results


def slowest_decay(model: supple.ReducedModel) -> float:
    """1/s, of the least damped mode of a model without load: how fast the engine comes to rest."""
    basis = model.basis
    mass, damping, stiffness = (basis.T @ part @ basis for part in (model.mass, model.damping, model.stiffness))
    rates = np.hstack([np.zeros_like(mass), np.eye(len(mass))])
    system = np.vstack([rates, -np.linalg.solve(mass, np.hstack([stiffness, damping]))])
    return -float(np.linalg.eigvals(system).real.max())


def final_error(model, wrench: np.ndarray, goal: np.ndarray, longest: float = SECONDS) -> tuple[float, float]:
    """Distance from the poses `goal` when the model has come to rest under a load that acts at once, or after `longest`
    seconds; and its largest speed (1/s) in the last four seconds. (At a single instant a swing may reverse.)"""
    motion = model.motion(DT, "twist", 0, 1)
    lengths = np.array([model.mechanism.radius] * 3 + [1.0] * 3)
    motion.core.set_wrench(0, wrench, True)
    steps = round(0.25 / DT)
    for _ in range(round(longest / 4.0)):
        speed = 0.0
        for _ in range(16):
            if motion.core.step(steps, False) != steps:
                return np.inf, np.inf
            speed = max(speed, float(np.abs(motion.tips[1] / lengths).max()))
        if speed < 1e-6:
            break
    return relative_displacement(model.mechanism, goal, motion.tips[0]), speed


# mechanisms


AROUND = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, -1), (1, 1, 1)]
LIBRARY = {
    "helix": (supple.library.helix, ["tip"], AROUND),
    "arm": (supple.library.robot_arm, ["tip"], AROUND),
    "y": (supple.library.y, ["left_tip", "right_tip"], AROUND),
    "ladder": (supple.library.ladder, ["tip"], [(0, 1, 0), (0, 1, 1), (0, 1, -1), (1, 1, 0), (0, -1, 1)]),
    "loop": (supple.library.loop, ["tip"], AROUND),
}
NEARLY_SINGULAR_PULLS = [("helix", (0, 0, 1), 246.0), ("helix", (1, 0, 0), 185.0), ("y", (0, 0, 1), 434.0)]
"""Pulls with a second model whose stiffness for loads that turn with the end effector is nearly zero."""
LIBRARY_PULLS = NEARLY_SINGULAR_PULLS + [(name, axis, None) for name, (_, _, axes) in LIBRARY.items() for axis in axes]


def library_pull(name: str, direction: Sequence[float], force: float | None, count: int = 40) -> Pull | None:
    build, tips, _ = LIBRARY[name]
    label = f"{name} {direction}" + (f" {force:g} N" if force else "")
    return pull(label, build(), tips, direction, force, count=count)


def random_pull(seed: int, count: int = 40) -> Pull | None:
    """A random arm (even seeds) or loop (odd seeds), pulled in a random direction to a relative displacement of 0.3 to
    1.2."""
    rng = np.random.default_rng(seed)
    mech = random_arm(rng, closed=seed % 2 == 1)
    return pull(f"random {seed}", mech, ["tip"], rng.normal(size=3), displacement=rng.uniform(0.3, 1.2), count=count)


def random_arm(rng: np.random.Generator, closed: bool) -> Mechanism:
    """A chain of 4 to 10 links with sprung hinges about random axes. `closed`: a ball joint ties its end to the world,
    and the tip is in its middle."""
    links = int(rng.integers(6 if closed else 4, 11))
    b = supple.Builder("random loop" if closed else "random arm", gravity=(0, 0, 0))
    at, heading = np.zeros(3), unit(rng)
    for i in range(links):
        heading = heading + 0.6 * rng.normal(size=3)
        heading /= np.linalg.norm(heading)
        end = at + rng.uniform(0.05, 0.3) * heading
        b.link(f"link{i}", at, end, mass=float(rng.uniform(0.2, 2)))
        stiffness = float(np.exp(rng.uniform(np.log(20), np.log(500))))
        b.hinge(f"hinge{i}", "world" if i == 0 else f"link{i - 1}", f"link{i}", at, unit(rng), stiffness=stiffness,
                damping=0.1 * stiffness)  # fmt: skip
        if i == (links // 2 if closed else links - 1):
            b.site("tip", f"link{i}", end)
        at = end
    if closed:
        b.ball("end", f"link{links - 1}", "world", at, stiffness=10.0, damping=1.0)
    return b.build()


def unit(rng: np.random.Generator) -> np.ndarray:
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)
