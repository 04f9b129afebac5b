"""Five characters that perform: table 1 of the retargeting paper beside ours.

Deviations are from the quasi-static motion of the input, mm: root mean square over the motion, and peak. "All" is the
root of the sum of squares, and the largest peak, of the tracked bodies. Shapers are the advanced ones, which know the
motion ahead by their mean delay; their frequency (from 0.7 to 2 times the first one) is tuned for least deviation of
all tracked bodies. A wrong model has 10 % more or less stiffness. The bartender's glass spills where its water reaches
the rim. Minutes are those of `retargeted` on this machine; the paper's are those of four cores.

`--character` runs some characters alone. `--write` writes the optimised curves into the package. `--stored` takes the
stored curves instead of optimising. `--basis` compares a basis trained on the boxing run with full finite elements of
the drumming run (alone with an empty `--character`). `--quick` takes the first two seconds of the dancer with one time
step of 8 ms. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter, process_time

import numpy as np

from _characters_basis import transferred_basis
from _report import Report, best, parse_args
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.library.characters._parts import SPEED_LIMIT, TORQUE_LIMIT
from supple.mechanism.library.characters.motions import WAVE
from supple.mechanism.record import Array
from supple.retargeting import Motion, Retargeted, baselines, characters
from supple.retargeting.altered import with_stiffness
from supple.retargeting.motion import FIXED
from supple.retargeting.problem import Problem
from supple.retargeting.spilling import RIM_ANGLE, surface_angles

PAPER = {
    "dancer": (81552, 76, 42, 800, 115, 160),
    "bartender": (82377, 67, 36, 1000, 120, 160),
    "rapper": (97788, 82, 54, 1000, 90, 340),
    "drummer": (85731, 75, 96, 2600, 108, 182),
    "boxer": (85731, 75, 96, 3250, 108, 185),
}
"""Table 1: deformable degrees of freedom, full and reduced; rigid ones; control points; steps a second; minutes."""
PEAKS = {"drummer": (50.0, 15.0), "boxer": (60.0, 20.0)}
"""Peak deviation: at least before, at most after, mm."""
PEAK_RATIOS = {"dancer": 4.0, "rapper": 4.0}
RMS_RATIO, STEPS_RATIO, MINUTES_RATIO = 6.0, 20.0, 15.0
CHECK_STEP = 2e-3
"""Time step for shapers and wrong models, s."""
BEGIN = perf_counter()


def main() -> None:
    args = parse_args(__doc__, more=options)
    report = Report("characters", args)
    for name in ["dancer"] if args.quick else args.character:
        measure(report, name, args)
    if args.basis:
        transferred_basis(report, note)
    report.finish()


def options(parser: argparse.ArgumentParser) -> None:
    names = list(characters.CHARACTERS)
    parser.add_argument("--character", nargs="*", choices=names, default=names, help="run only these")
    parser.add_argument("--write", action="store_true", help="write the optimised curves into the package")
    parser.add_argument("--basis", action="store_true", help="also compare bases with full finite elements, minutes")
    parser.add_argument("--stored", action="store_true", help="take the stored curves instead of optimising")


def note(text: str) -> None:
    """Says on stderr what begins now."""
    print(f"{perf_counter() - BEGIN:7.1f} s, processor {process_time():7.1f} s  {text}", file=sys.stderr, flush=True)


def measure(report: Report, name: str, args: argparse.Namespace) -> None:
    own = characters.character(name)
    seconds = 2.0 if args.quick else None
    dt = 8e-3 if args.quick else own.dt
    minutes = None
    note(f"{name}: retargeting")
    start, used = perf_counter(), process_time()
    if args.stored:
        result = characters.stored(name, seconds=seconds, dt=8e-3 if args.quick else own.dt[-1])
    else:
        progress = (lambda cost: None) if args.quick else (lambda cost: note(f"{name}: cost {cost:.4g}"))
        result = characters.retargeted(name, seconds=seconds, dt=dt, progress=progress)
        minutes = (perf_counter() - start) / 60, (process_time() - used) / 60
    if args.write and not args.quick:
        note(f"{name}: written to {characters.save_curves(name, result.motion)}")
    table_1(report, name, result, minutes)
    deviations(report, name, result)
    if args.quick:
        return
    curves = {"optimised": result.motion} | tuned_shapers(name, result)
    beside(report, name, result, curves)
    wrong_models(report, name, result)
    if name == "dancer":
        dances(report, result, args)
    if name == "rapper":
        loop(report, result)


def table_1(report: Report, name: str, result: Retargeted, minutes: tuple[float, float] | None) -> None:
    """Sizes, steps a second and minutes, beside those of the paper."""
    mech, paper = result.mechanism, PAPER[name]
    rigid = len(mech.bodies) - sum(len(each.part.interfaces) for each in mech.flexible)
    problem = characters.character(name)
    check = Problem(mech, characters.beginning(result.input, 1.0), problem.weights(), 5e-4)
    speed = check.steps / best(lambda: check.simulate(check.input.control), 3, clock=process_time)
    ours = (
        sum(3 * len(each.part.nodes) for each in mech.flexible),
        sum(each.basis.size for each in mech.flexible),
        6 * rigid,
        (len(result.motion.control) - 3) * len(result.motion.motors),
        round(speed),
        "-" if minutes is None else round(minutes[0], 1),
    )
    heads = "full_dof", "reduced_dof", "rigid_dof", "control_points", "steps_per_s", "minutes"
    for who, values in (("paper", paper), ("ours", ours)):
        report.row(character=name, whose=who, **dict(zip(heads, values, strict=True)))
    report.target(f"{name}: steps a second / the paper's", speed / paper[4], at_least=STEPS_RATIO)
    if minutes is not None and result.times[-1] > 5:
        report.row(character=name, wall_minutes=minutes[0], processor_minutes=minutes[1], status=result.status)
        report.target(f"{name}: the paper's minutes / ours", paper[5] / minutes[0], at_least=MINUTES_RATIO)


def lengths(deviations: dict[str, Array]) -> dict[str, tuple[float, float]]:
    """Root mean square and peak, mm, by body and of all."""
    found = {
        name: (1e3 * float(np.sqrt((d**2).sum(axis=1).mean())), 1e3 * float(np.linalg.norm(d, axis=1).max()))
        for name, d in deviations.items()
    }
    values = np.array(list(found.values()))
    return found | {"all": (float(np.sqrt((values[:, 0] ** 2).sum())), float(values[:, 1].max()))}


def deviations(report: Report, name: str, result: Retargeted) -> None:
    before, after = (lengths({body: pair[k] for body, pair in result.deviations.items()}) for k in (0, 1))
    for body in before:
        report.row(
            character=name,
            body=body,
            rms_before_mm=before[body][0],
            rms_after_mm=after[body][0],
            peak_before_mm=before[body][1],
            peak_after_mm=after[body][1],
        )
    if result.times[-1] < 5:
        return
    report.target(f"{name}: rms before / after", before["all"][0] / after["all"][0], at_least=RMS_RATIO)
    if name in PEAK_RATIOS:
        ratio = before["all"][1] / after["all"][1]
        report.target(f"{name}: peak before / after", ratio, at_least=PEAK_RATIOS[name])
    if name in PEAKS:
        least, most = PEAKS[name]
        report.target(f"{name}: peak before, mm", before["all"][1], at_least=least)
        report.target(f"{name}: peak after, mm", after["all"][1], at_most=most)
    for k, motor in enumerate(result.motion.motors):
        speeds = [
            float(np.abs(m.design(result.times, 1) @ m.control[:, k]).max()) for m in (result.input, result.motion)
        ]
        torques = [float(np.abs(values).max()) for values in result.torques[motor]]
        report.row(
            character=name,
            motor=motor,
            speed_before=speeds[0],
            speed_after=speeds[1],
            torque_before=torques[0],
            torque_after=torques[1],
        )
    fastest = float(np.abs(result.motion.design(result.times, 1) @ result.motion.control).max())
    strongest = max(float(np.abs(pair[1]).max()) for pair in result.torques.values())
    report.target(f"{name}: largest speed, rad/s", fastest, at_most=SPEED_LIMIT)
    report.target(f"{name}: largest torque, N m", strongest, at_most=TORQUE_LIMIT)


def tuned_shapers(name: str, result: Retargeted) -> dict[str, Motion]:
    own, motion = characters.character(name), result.input
    problem = Problem(result.mechanism, motion, own.weights(), CHECK_STEP)
    middle = dict(zip(motion.motors, motion(motion.duration / 2).tolist(), strict=True))
    natural = baselines.first_frequency(result.mechanism, middle)
    found = {}
    for kind in (baselines.zv, baselines.zvd, baselines.ei):
        note(f"{name}: tuning {kind.__name__}")
        trials = {f: kind(f, 0.003)(motion, advanced=True) for f in natural * np.geomspace(0.7, 2.0, 8)}
        costs = {
            f: lengths(problem.deviation_of(problem.play(trial(problem.times))))["all"][0]
            for f, trial in trials.items()
        }
        tuned = min(costs, key=lambda f: costs[f])
        found[f"{kind.__name__.upper()} {tuned:.2f} Hz"] = trials[tuned]
    return found


def beside(report: Report, name: str, result: Retargeted, curves: dict[str, Motion]) -> None:
    """Deviations with each curve, and whether the glass spills."""
    own = characters.character(name)
    problem = Problem(result.mechanism, result.input, own.weights(), CHECK_STEP)
    table = {}
    for curve, motion in {"unmodified": result.input, **curves}.items():
        tape = problem.play(motion(problem.times))
        table[curve] = lengths(problem.deviation_of(tape))["all"]
        columns = {"rms_mm": table[curve][0], "peak_mm": table[curve][1]}
        if name == "bartender":
            glass = result.mechanism.body_index("glass")
            angle = np.degrees(surface_angles(problem.times, tape.poses[:, glass])[1:-1].max())
            columns |= {"water_deg": float(angle), "rim_deg": float(np.degrees(RIM_ANGLE))}
            share = float(angle / np.degrees(RIM_ANGLE))
            if curve == "unmodified":
                report.target("bartender: angle of the water / rim, unmodified", share, at_least=1.0)
            elif curve == "optimised":
                report.target("bartender: angle of the water / rim, optimised", share, at_most=1.0)
        report.row(character=name, curve=curve, **columns)
    shapers = [values[0] for curve, values in table.items() if curve not in ("unmodified", "optimised")]
    report.target(f"{name}: best shaper / optimised, rms", min(shapers) / table["optimised"][0], at_least=1.0)


def wrong_models(report: Report, name: str, result: Retargeted) -> None:
    worst = 0.0
    for factor in (0.9, 1.1):
        mech: Mechanism = with_stiffness(result.mechanism, factor)
        problem = Problem(mech, result.input, characters.character(name).weights(), CHECK_STEP)
        before, after = (
            lengths(problem.deviation_of(problem.play(motion(problem.times))))["all"][0]
            for motion in (result.input, result.motion)
        )
        report.row(character=name, stiffness=factor, rms_before_mm=before, rms_after_mm=after)
        worst = max(worst, after / before)
    report.target(f"{name}: stiffness 10 % off, rms after / before", worst, at_most=0.5)


def loop(report: Report, result: Retargeted) -> None:
    """The rapper's loop over the whole motion, and the gradient through it for its first second beside differences."""
    mech = result.mechanism
    gap = 0.0
    for joint in mech.joints:
        if joint.kind in ("ball", "universal", "hinge") and joint.parent != "world":
            parent, child = (mech.body_index(body) for body in (joint.parent, joint.child))
            for poses in result.poses.values():
                sides = poses[:, parent] @ joint.pose_parent, poses[:, child] @ joint.pose_child
                gap = max(gap, float(np.abs(sides[0][:, :3, 3] - sides[1][:, :3, 3]).max()))
    report.target("rapper: largest gap of a joint, m", gap, at_most=1e-9)
    begin = characters.beginning(result.input, 1.0)
    problem = Problem(mech, begin, characters.character("rapper").weights(), CHECK_STEP)
    run = problem.simulate(begin.control)
    direction = np.random.default_rng(0).standard_normal(begin.control.shape)
    direction[:FIXED] = 0
    step, stencil = 2.5e-4, {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
    costs = {k: problem.simulate(begin.control + k * step * direction).cost for k in stencil}
    expected = sum(weight * costs[k] for k, weight in stencil.items()) / step
    error = abs(float((problem.gradient(run) * direction).sum()) / expected - 1)
    report.target("rapper: gradient through the loop, relative error", error, at_most=1e-6)


def dances(report: Report, first: Retargeted, args: argparse.Namespace) -> None:
    """The three weights of the paper's figure 10: deviations over the motion, and of the left hand's wave."""
    rows = {}
    for which in characters.DANCES:
        result = first if which == characters.FIRST_DANCE else another_dance(report, which, first, args)
        if result is None:
            continue
        found = {body: pair[1] for body, pair in result.deviations.items()}
        waving = (result.times >= WAVE[0]) & (result.times <= WAVE[1])
        rows[which] = {body: values[0] for body, values in lengths(found).items() if body != "all"}
        rows[which]["wave"] = lengths({"left_hand": found["left_hand"][waving]})["all"][0]
        report.row(dance=which, **{f"{body}_rms_mm": value for body, value in rows[which].items()})
        fastest = float(np.abs(result.motion.design(result.times, 1) @ result.motion.control).max())
        report.target(f"dancer, {which}: largest speed, rad/s", fastest, at_most=SPEED_LIMIT)
    one = rows[characters.FIRST_DANCE]
    for which, what, at_most, at_least in (
        ("clavicle 100", "clavicle", 0.5, None),
        ("clavicle 100", "wave", None, 1.0),
        ("left hand 100", "wave", 1 / 3, None),
        ("left hand 100", "right_hand", None, 1.0),
    ):
        if which in rows:
            ratio = rows[which][what] / one[what]
            report.target(f"dancer: {what}, {which} / all one", ratio, at_most=at_most, at_least=at_least)


def another_dance(report: Report, which: str, first: Retargeted, args: argparse.Namespace) -> Retargeted | None:
    """A dance with other weights: optimised from the curves of the first one, or stored; None if it is not stored."""
    if args.stored:
        try:
            return characters.stored("dancer", which)
        except MechanismError as error:
            note(str(error))
            return None
    note(f"dancer: {which}")
    start, used = perf_counter(), process_time()
    result = characters.another_dance(which, first.motion, progress=lambda cost: note(f"{which}: cost {cost:.4g}"))
    minutes = (perf_counter() - start) / 60, (process_time() - used) / 60
    report.row(dance=which, wall_minutes=minutes[0], processor_minutes=minutes[1], status=result.status)
    if args.write:
        note(f"dancer: written to {characters.save_curves('dancer', result.motion, which)}")
    return result


if __name__ == "__main__":
    main()
