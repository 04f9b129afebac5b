"""Blended FORK-1S: table 2 of the paper, two models against one, automatic exploration, work around closed paths.

Microseconds are of a step of 2 ms with the poses of all links, beside our engine and MuJoCo (implicitfast, contacts
off, the same mechanism as MJCF) in turns. The paper's figures are of its own machine, an Intel Core i7 at 2.8 GHz with
four threads; ours are of one. Displacements are relative: the norm of a tip's twist from rest, lengths over the radius.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import perf_counter

import mujoco
import numpy as np

import supple
from _report import Report, parse_args
from engine import DT, alternate, mujoco_twin, simulation
from reduced import HAND
from separation import AROUND, OUT_OF_PLANE
from supple import ReducedModel, ReducedSimulation, Simulation, spatial
from supple.engine import Equilibrium
from supple.errors import ConvergenceError
from supple.mechanism.record import Array
from supple.reduced.blending import BlendedModel, BlendedMotion

PAPER = {  # Vortex, then FORK-1S with 1, 2 and 4 models
    "helix 200": (1048, 78, 96, 160),
    "ladder 36": (302, 37, 82, 99),
    "arm 20": (121, 26, 47, 86),
}
LIMITS = {"helix 200": 25, "ladder 36": 10, "arm 20": 6}
MANY = 64
BOUND = 0.02
"""Error that `explore` is asked for."""


def main() -> None:
    parts = {part.__name__: part for part in (stepping, two_models, sweep, sudden, cycles, exploring)}
    args = parse_args(__doc__, list(parts))
    report = Report("FORK-1S: blended models", args)
    for name in args.only:
        parts[name](report, args.quick)
    report.finish()


# pulling


def displacement(rest: ReducedModel, tips: Array) -> float:
    """Relative displacement of the end effector that is furthest from rest."""
    lengths = np.array([rest.mechanism.radius] * 3 + [1.0] * 3)
    twists = spatial.log(spatial.inverse(rest.end_effector_poses) @ tips) / lengths
    return float(np.linalg.norm(twists, axis=1).max())


def tips_of(found: Equilibrium, rest: ReducedModel) -> Array:
    return np.array([found.poses[name] for name in rest.end_effectors])


def pulled(rest: ReducedModel, direction: Array, far: float, tries: int = 25) -> tuple[Equilibrium, float] | None:
    """The engine at rest under wrenches (e, 6) along `direction`, at a relative displacement `far` (within 0.1 %; if it
    cannot be had, at the largest one below it), and the scale of the load."""
    mech, names = rest.mechanism, rest.end_effectors
    frames = rest.end_effector_poses[:, None, :3, :3]
    body = (direction.reshape(-1, 2, 1, 3) @ frames).ravel()
    lengths = np.tile([mech.radius] * 3 + [1.0] * 3, len(names))
    size = np.linalg.norm((rest.compliance @ body / lengths).reshape(-1, 6), axis=1).max()
    if not size > 0:
        return None
    low, high, scale, best = 0.0, np.inf, far / size, None
    for _ in range(tries):
        try:
            wrenches = dict(zip(names, scale * direction, strict=True))
            found = supple.equilibrium(mech, wrenches, start=None if best is None else best[0])
        except ConvergenceError:
            high = scale
        else:
            moved = displacement(rest, tips_of(found, rest))
            if moved <= 1.001 * far:
                low, best = scale, (found, scale)
                if moved >= 0.999 * far:
                    break
            else:
                high = scale
        scale = 1.6 * low if high == np.inf else (low + high) / 2
    return best


def directions(rest: ReducedModel, rng: np.random.Generator) -> Iterator[Array]:
    """Random wrenches (e, 6) in world axes, spread like the square root of the compliance at rest; of all end effectors
    and of one of them, by turns. That is the range `supple.explore` is made for, drawn anew."""
    e = len(rest.end_effectors)
    lengths = np.tile([rest.mechanism.radius] * 3 + [1.0] * 3, e)
    values, vectors = np.linalg.eigh(rest.compliance / np.outer(lengths, lengths))
    root = (vectors * np.sqrt(np.clip(values, 0, None) / values[-1])) / lengths[:, None]
    for i in count():
        wrench = (root @ rng.normal(size=6 * e)).reshape(e, 2, 3)
        wrench = np.einsum("eij,ekj->eki", rest.end_effector_poses[:, :3, :3], wrench).reshape(e, 6)
        if i % 2:
            wrench[np.arange(e) != rng.integers(e)] = 0
        yield wrench


def forces(rest: ReducedModel, rng: np.random.Generator) -> Iterator[Array]:
    """Forces on the first end effector, all directions alike."""
    while True:
        wrench = np.zeros((len(rest.end_effectors), 6))
        wrench[0, :3] = rng.normal(size=3)
        yield wrench / np.linalg.norm(wrench)


def scattered(rest: ReducedModel, number: int, seed: int) -> list[tuple[Equilibrium, Array]]:
    """Equilibria within relative displacement 1 of random loads, and the loads (e, 6)."""
    rng, points = np.random.default_rng(seed), []
    for direction in directions(rest, rng):
        far = pulled(rest, direction, float(rng.uniform(0.3, 1.0)), tries=8)
        if far is not None:
            points.append((far[0], far[1] * direction))
        if len(points) == number:
            break
    return points


def made(rest: ReducedModel, points: list[tuple[Equilibrium, Array]]) -> list[ReducedModel]:
    return [supple.reduce(rest.mechanism, rest.end_effectors, at=found) for found, _ in points]


# table 2


def stepping(report: Report, quick: bool) -> None:
    """Microseconds a step, taken between linearisation points."""
    library = supple.library
    mechanisms = {"helix 200": library.helix(200), "ladder 36": library.ladder(rungs=12), "arm 20": library.robot_arm()}
    for name, mech in mechanisms.items():
        assert len(mech.bodies) == int(name.split()[1])
        rest = supple.reduce(mech, ["tip"])
        points = scattered(rest, MANY - 1 if name == "helix 200" else 3, seed=1)
        models = [rest, *made(rest, points)]
        tours = {k: Tour(supple.blend(models[:k]), points) for k in (1, 2, 4, MANY) if k <= len(models)}
        engine, (mj_model, mj_data) = simulation(mech), mujoco_twin(mech)
        peer = max(2, 20_000 // len(mech.bodies) ** 2)
        peers = {
            "engine": lambda engine=engine, peer=peer: engine.step(peer),
            "mujoco": lambda m=mj_model, d=mj_data, n=peer: mujoco.mj_step(m, d, nstep=n),
        }
        took = dict.fromkeys(peers, float("inf"))
        for _ in range(15 if quick else 100):
            for tour in tours.values():
                tour.go()
            took = {key: min(took[key], seconds) for key, seconds in alternate(peers, 1).items()}
        us = {key: 1e6 * seconds / peer for key, seconds in took.items()}
        assert np.isfinite(mj_data.qpos).all()
        four = tours[4].us
        vortex, *paper = PAPER[name]
        report.row(
            us=name,
            one=tours[1].us,
            two=tours[2].us,
            four=four,
            **us,
            paper_1_2_4="/".join(map(str, paper)),
            vortex=vortex,
            to_mujoco=us["mujoco"] / four,
            to_engine=us["engine"] / four,
        )
        report.target(f"{name}, four models, us a step", four, at_most=LIMITS[name])
        if MANY in tours:
            used = tours[MANY].used
            report.target(f"{name}, four models, times faster than MuJoCo", us["mujoco"] / four, at_least=30)
            report.target(f"{name}, {MANY} models / four", tours[MANY].us / four, at_most=2)
            report.row(us_of_64_models=name, us=tours[MANY].us, in_use_mean=float(np.mean(used)), in_use_most=max(used))


class Tour:
    """A simulation put half-way from each linearisation point to the next, with the load of the next, in turns."""

    steps = 40

    def __init__(self, many: BlendedModel, points: list[tuple[Equilibrium, Array]]) -> None:
        self._motion = ReducedSimulation(many, DT)._motion
        tips = [tips_of(found, many.models[0]) for found, _ in points]
        self._legs = [
            (a @ spatial.exp(0.5 * spatial.log(spatial.inverse(a) @ b)), np.ascontiguousarray(load[0]))
            for a, b, (_, load) in zip([many.models[0].end_effector_poses, *tips], tips, points, strict=False)
        ]
        self._best = [float("inf")] * len(self._legs)
        self.used = [0] * len(self._legs)

    def go(self) -> None:
        for i, (tips, load) in enumerate(self._legs):
            self._motion.place(tips)
            self._motion.core.set_wrench(0, load, True)
            start = perf_counter()
            done = self._motion.core.step(self.steps, True)
            self._best[i] = min(self._best[i], perf_counter() - start)
            assert done == self.steps
            self.used[i] = int(np.count_nonzero(self._motion.core.weights))

    @property
    def us(self) -> float:
        """Microseconds a step: the best of every leg, averaged over legs."""
        return 1e6 * float(np.mean(self._best)) / self.steps


# two models against one


def two_models(report: Report, quick: bool) -> None:
    """Separation averaged over a pull to relative displacement 1, with the rest model and with one made at its end."""
    library = supple.library
    cases = {
        "y": (library.y(), ["left_tip", "right_tip"], AROUND),
        "ladder": (library.ladder(), ["tip"], OUT_OF_PLANE),
        "helix": (library.helix(), ["tip"], AROUND),
    }
    for name, (mech, tips, ways) in cases.items():
        rest = supple.reduce(mech, tips)
        pulls = [pull(way, len(tips)) for way in ways]
        if quick:
            pulls = pulls[::2]
        one = [curve(supple.blend([rest]), rest, along) for along in pulls]
        gains, worst, elsewhere = [], 0.0, []
        for i, along in enumerate(pulls):
            far = pulled(rest, along, 1.0)
            if far is None or displacement(rest, tips_of(far[0], rest)) < 0.99:
                report.row(
                    two_models=label(name, along),
                    separation_of_one="not reached",
                    of_two="-",
                    as_published="-",
                    gain="-",
                    worse="-",
                )
                continue
            many = supple.blend([rest, supple.reduce(mech, tips, at=far[0])])
            two = curve(many, rest, along)
            singles = [supple.blend([model]) for model in many.models]
            near = [separation_at(singles[int(np.argmin(many.distances(place)))], place) for place in two.places]
            ratios = [apart / alone for apart, alone in zip(two.apart, near, strict=True) if alone > 0.005]
            gains.append(one[i].mean / two.mean)
            worst = max([worst, *ratios])
            published = curve(supple.blend(many.models, scheme="published"), rest, along)
            report.row(
                two_models=label(name, along),
                separation_of_one=one[i].mean,
                of_two=two.mean,
                as_published=published.mean,
                gain=gains[-1],
                worse=max(ratios, default=0.0),
            )
            elsewhere += [one[j].mean / curve(many, rest, other).mean for j, other in enumerate(pulls) if j != i]
        report.target(f"{name}: separation of one model / of two, worst sample direction", min(gains), at_least=3)
        report.target(f"{name}: separation of two / of the nearest alone, worst place", worst, at_most=1.25)
        low, middle, high = np.percentile(elsewhere, [0, 50, 100])
        share = float(np.mean(np.array(elsewhere) >= 1))
        report.row(gain_elsewhere=name, pairs=len(elsewhere), least=low, median=middle, most=high, share_better=share)


def pull(way: tuple, e: int) -> Array:
    wrench = np.zeros((e, 6))
    wrench[0, :3] = np.array(way) / np.linalg.norm(way)
    return wrench


def label(name: str, along: Array) -> str:
    return "{} ({:.2g} {:.2g} {:.2g})".format(name, *along[0, :3] + 0.0)


class Curve:
    """Joints apart over the displacement of the first tip, as a load grows."""

    def __init__(self, moved: list[float], apart: list[float], places: list[Array]) -> None:
        self.moved, self.apart, self.places = moved, apart, places

    @property
    def mean(self) -> float:
        """Averaged over the displacement, to 1 or as far as it goes."""
        x = np.linspace(0, min(1.0, self.moved[-1]), 201)
        return float(np.interp(x, [0.0, *self.moved], [0.0, *self.apart]).mean())


def curve(many: BlendedModel, rest: ReducedModel, along: Array, step: float = 0.04) -> Curve:
    """A model at rest under a growing load, until its displacement is 1."""
    motion = BlendedMotion(many, 1.0, 1)
    moved, apart, places = [], [], []
    scale = grow = 0.0
    at = 0.0
    while at < 1 and len(moved) < 80:
        if not grow:
            grow = step / slope(motion, rest, along)
        scale += grow
        was, at = at, rested(motion, rest, scale * along)
        if at <= was and moved:
            break
        moved.append(at)
        apart.append(motion_separation(motion))
        places.append(motion.tips[0].copy())
        grow *= float(np.clip(step / (at - was), 0.5, 2.0))
    return Curve(moved, apart, places)


def slope(motion: BlendedMotion, rest: ReducedModel, along: Array) -> float:
    """Displacement per unit of a small load."""
    size = rested(motion, rest, along)
    small = 1e-3 / size
    return rested(motion, rest, small * along) / small


def rested(motion: BlendedMotion, rest: ReducedModel, wrenches: Array) -> float:
    """Lets a blended model come to rest under wrenches (e, 6); its displacement then."""
    for e, wrench in enumerate(wrenches):
        motion.core.set_wrench(e, np.ascontiguousarray(wrench), True)
    motion.settle()
    return displacement(rest, motion.tips[0])


def motion_separation(motion: BlendedMotion) -> float:
    return motion.evaluate().separation.total


def separation_at(many: BlendedModel, tips: Array) -> float:
    return many.at(tips).separation.total


# loads up to 1.2 times that of the second model


def sweep(report: Report, quick: bool) -> None:
    """Where a blend of two models ends under loads that act at once, compared with the better of its models alone; by
    scheme. tests/blend_sweep.py defines pulls and distances."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    import blend_sweep

    loads = 4 if quick else 40
    library = blend_sweep.FLEW_OFF if quick else blend_sweep.LIBRARY_PULLS
    pulls = [blend_sweep.library_pull(*case, loads) for case in library]
    pulls += [blend_sweep.random_pull(seed, loads) for seed in range(4 if quick else 50)]
    tried = [each for each in pulls if each is not None]
    for scheme in ("corrected", "published"):
        found = [outcome for each in tried for outcome in blend_sweep.outcomes(each, scheme=scheme)]
        moving = sum(outcome.speed >= blend_sweep.STILL for outcome in found)
        bad = sum(not outcome.good for outcome in found)
        excess = [outcome.blend - blend_sweep.WORSE * outcome.alone for outcome in found]
        report.row(
            sweep=scheme,
            pulls=len(tried),
            loads=len(found),
            left_out=sum(each.left_out for each in tried),
            too_far=bad,
            still_moving=moving,
            p95=float(np.percentile(excess, 95)),
            worst=max(excess),
        )
        if scheme == "corrected":
            report.target("sweep: loads at which the blend does not come to rest", moving, at_most=0)
            report.target("sweep: loads at which the blend ends too far from the equilibrium", bad, at_most=0)


# in motion


def sudden(report: Report, quick: bool) -> None:
    """The load of the second model put on at once, from rest: a minute of steps of 2 ms. Speeds (lengths over the
    radius, 1/s) should stay near the engine's, and end effectors come to rest where the second was made."""
    library = supple.library
    cases = {
        "ladder": (library.ladder(), ["tip"], OUT_OF_PLANE[:3]),
        "helix": (library.helix(), ["tip"], AROUND),
        "arm": (library.robot_arm(), ["tip"], AROUND),
        "y": (library.y(), ["left_tip", "right_tip"], AROUND),
    }
    for name, (mech, tips, ways) in cases.items():
        rest, worst = supple.reduce(mech, tips), 0.0
        for along in [pull(way, len(tips)) for way in (ways[:2] if quick else ways)]:
            far = pulled(rest, along, 1.0)
            if far is None:
                continue
            two = supple.blend([rest, supple.reduce(mech, tips, at=far[0])])
            load = far[1] * along
            speed, off = swung(two, load, tips_of(far[0], rest))
            engine = swung_by_engine(rest, load)
            report.row(
                put_on_at_once=label(name, along), N=far[1], speed=speed, speed_of_engine=engine, off_at_the_end=off
            )
            worst = max(worst, speed / engine)
        report.target(f"{name}: top speed of two models / of the engine, load put on at once", worst, at_most=2)


def swung(many: BlendedModel | ReducedModel, load: Array, there: Array) -> tuple[float, float]:
    """Top speed during a minute under a load (e, 6), and how far the end effectors are from poses `there` then; both
    infinite if the simulation gives up."""
    sim = ReducedSimulation(many, DT)
    lengths = np.array([many.mechanism.radius] * 3 + [1.0] * 3)
    sim.apply(many.end_effectors[0], load[0])
    top = 0.0
    for _ in range(600):
        try:
            sim.step(50)
        except ConvergenceError:
            return np.inf, np.inf
        top = max(top, float(np.abs(sim._motion.tips[1] / lengths).max()))
    away = np.linalg.norm(sim._motion.tips[0][:, :3, 3] - there[:, :3, 3], axis=1).max()
    return top, float(away / many.mechanism.radius)


def swung_by_engine(rest: ReducedModel, load: Array) -> float:
    """Top speed of the end effectors during 5 s under a load (e, 6) on the first."""
    sim, length = Simulation(rest.mechanism, DT), rest.mechanism.radius
    sim.apply(rest.end_effectors[0], load[0])
    before, top = rest.end_effector_poses, 0.0
    for _ in range(int(5 / DT / 5)):
        sim.step(5)
        now = np.array([sim.poses[name] for name in rest.end_effectors])
        twists = spatial.log(spatial.inverse(before) @ now) / (5 * DT)
        before, top = now, max(top, float(np.abs(twists / ([length] * 3 + [1.0] * 3)).max()))
    return top


# work around closed paths


def cycles(report: Report, quick: bool) -> None:
    """Net work of the load along closed paths of the tips through all four models (and, as a check of the sum, of one
    model), over the range of the energy on the way."""
    library = supple.library
    cases = {
        "helix 50": (library.helix(), ["tip"]),
        "ladder 48": (library.ladder(), ["tip"]),
        "arm 20": (library.robot_arm(), ["tip"]),
        "y": (library.y(), ["left_tip", "right_tip"]),
    }
    for name, (mech, tips) in cases.items():
        rest = supple.reduce(mech, tips)
        four, one = [], []
        for seed in range(2 if quick else 10):
            points = scattered(rest, 3, seed=100 + seed)
            loads = around([load for _, load in points], 100 if quick else 800)
            four.append(net_work(supple.blend([rest, *made(rest, points)]), loads))
            one.append(net_work(supple.blend([rest]), loads))
        share = np.abs([net / span for net, span in four])
        report.row(
            closed_paths=name,
            percent_mean=100 * float(share.mean()),
            percent_most=100 * float(share.max()),
            energy_J=float(np.mean([span for _, span in four])),
            one_model_percent=100 * float(np.max(np.abs([net / span for net, span in one]))),
        )


def around(loads: list[Array], n: int) -> Array:
    """(n + 1, e, 6): a smooth closed path of loads through none and the three given (trigonometric interpolation)."""
    a, b, c = loads
    t = np.linspace(0, 2 * np.pi, n + 1)[:, None, None]
    mean, cosine, sine, double = (a + b + c) / 4, -b / 2, (a - c) / 2, (b - a - c) / 4
    return mean + cosine * np.cos(t) + sine * np.sin(t) + double * np.cos(2 * t)


def net_work(many: BlendedModel, loads: Array) -> tuple[float, float]:
    """Work of the load (J) along a closed path at rest, and the range of the work done on the way."""
    motion = BlendedMotion(many, 1.0, 1)
    places = []
    for wrenches in loads:
        rested(motion, many.models[0], wrenches)
        places.append(motion.tips[0].copy())
    a, b = np.array(places[:-1]), np.array(places[1:])
    mean = (loads[:-1] + loads[1:]) / 2
    away = b[..., :3, 3] - a[..., :3, 3]
    turned = spatial.so3_log(b[..., :3, :3] @ np.swapaxes(a[..., :3, :3], -1, -2))
    work = np.cumsum((mean[..., :3] * away + mean[..., 3:] * turned).sum(axis=(1, 2)))
    return float(work[-1]), float(np.ptp(work))


# exploring by itself


def exploring(report: Report, quick: bool) -> None:
    """Models and seconds that `explore` takes, and the share of fresh random loads within its bound: of wrenches spread
    as it draws them, and of forces on the (first) tip in all directions alike."""
    library = supple.library
    cases = {"arm": (library.robot_arm(), ["tip"])}
    if not quick:
        cases |= {
            "ladder": (library.ladder(), ["tip"]),
            "loop": (library.loop(), ["tip"]),
            "helix 50": (library.helix(), ["tip"]),
            "y": (library.y(), ["left_tip", "right_tip"]),
        }
    if not quick and HAND.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what an import leaves out
            hand = supple.load(HAND).with_springs(1.0, 0.05)
        free = tuple(replace(joint, limits=None) for joint in hand.joints)  # reduced models have none
        cases["Shadow Hand's index"] = (replace(hand, joints=free, gravity=(0, 0, 0)), ["rh_ffdistal"])
    elif not quick:
        print(f"there is no {HAND.name} beside the project: the Shadow Hand is left out")
    for name, (mech, tips) in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", supple.RangeWarning)  # what was reached is in the table
            many = supple.explore(mech, tips, BOUND, budget=40 if quick else 1000, progress=lambda _: None)
        rest, found = many.models[0], many.exploration
        errors, before, free = [], [], []
        for seed, draw, into in ((7, directions, errors), (8, forces, free)):
            for load, there in fresh(rest, draw, 40 if quick else 200, seed):
                into.append(error(many, load, there))
                if draw is directions:
                    before.append(error(supple.blend([rest]), load, there))
        within = float(np.mean(np.array(errors) <= BOUND))
        report.row(
            explore=name,
            models=len(many.models),
            equilibria=found.pulled,
            seconds=found.seconds,
            within=within,
            its_own=found.within,
            p95_of_one=float(np.percentile(before, 95)),
            p95=float(np.percentile(errors, 95)),
            median=float(np.median(errors)),
            forces_within=float(np.mean(np.array(free) <= BOUND)),
            forces_p95=float(np.percentile(free, 95)),
        )
        if not quick:
            report.target(f"explore {name}: share of 200 fresh wrenches within {BOUND:g}", within, at_least=0.95)


def fresh(
    rest: ReducedModel, draw: Callable[[ReducedModel, np.random.Generator], Iterator[Array]], number: int, seed: int
) -> list[tuple[Array, Array]]:
    """Loads (e, 6), a random share of what takes an end effector to relative displacement 1 (or as far as the engine
    comes to rest), and poses of the end effectors under them."""
    rng, points = np.random.default_rng(seed), []
    for direction in draw(rest, rng):
        far = pulled(rest, direction, 1.0, tries=9)
        if far is None:
            continue
        load = float(rng.uniform()) * far[1] * direction
        try:
            found = supple.equilibrium(rest.mechanism, dict(zip(rest.end_effectors, load, strict=True)))
        except ConvergenceError:
            found = far[0]
            load = far[1] * direction
        points.append((load, tips_of(found, rest)))
        if len(points) == number:
            break
    return points


def error(many: BlendedModel, load: Array, there: Array) -> float:
    """The larger of the end effectors' position error over the radius and the separation, at rest under a load."""
    motion = BlendedMotion(many, 1.0, 1)
    rested(motion, many.models[0], load)
    off = np.linalg.norm(motion.tips[0][:, :3, 3] - there[:, :3, 3], axis=1).max() / many.mechanism.radius
    worse = max(float(off), motion_separation(motion))
    return worse if np.isfinite(worse) else float("inf")


if __name__ == "__main__":
    main()
