"""Sweeps: many variants of a hand under several loads, and gradients by the adjoint.

200 variants (two joint stiffnesses) and 5 loads are 1000 equilibria. The rows compare `supple.sweep` on one and on two
threads with separate calls of `supple.equilibrium`. The hand is the Shadow Hand if its file is present, and the hand of
`supple.scenes`. Threads can run at once only where there are two idle cores.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import supple
from _report import Report, best, parse_args
from supple.mechanism import Mechanism
from supple.world.scenes.hand import robot

SHADOW = Path(__file__).parents[2] / "shared/robots/shadow_hand/right_hand.xml"
PARTS = ("sweep", "gradient")


def main() -> None:
    args = parse_args(__doc__, parts=PARTS)
    report = Report("sweeps and gradients", args)
    for name, (mech, tips, springs) in hands().items():
        if "sweep" in args.only:
            sweeps(report, name, mech, tips, springs, 3 if args.quick else 8)
        if "gradient" in args.only:
            gradients(report, name, mech, tips[0])
    report.finish()


def hands() -> dict[str, tuple[Mechanism, list[str], list[str]]]:
    """Mechanism, fingertips and the two springs that vary."""
    hand = robot(carried=True)
    tips = [f"{finger}_tip" for finger in ("thumb", "index", "middle", "ring", "little")]
    found = {"hand": (hand, tips, ["index_middle_bend.stiffness", "index_distal_bend.stiffness"])}
    if SHADOW.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = supple.load(SHADOW)
        shadow = replace(loaded.with_springs(stiffness=1.0, damping=0.05), gravity=(0, 0, 0))
        tips = [f"rh_{finger}distal" for finger in ("ff", "mf", "rf", "lf", "th")]
        found["Shadow Hand"] = (shadow, tips, ["rh_FFJ3.stiffness", "rh_FFJ4.stiffness"])
    return found


def position(tip: str, eq: supple.engine.Equilibrium) -> np.ndarray:
    return eq.poses[tip][:3, 3]


def sweeps(report: Report, name: str, mech: Mechanism, tips: list[str], springs: list[str], repeat: int) -> None:
    loads = [{tip: [0, 0, 0.3, 0, 0, 0]} for tip in tips]
    values = np.linspace(1, 4, 20), np.linspace(1, 4, 10)
    vary = dict(zip(springs, values, strict=True))
    seconds = {}
    for what, measure in (("position", tips[0]), ("function", partial(position, tips[0]))):
        for threads in (1, 2):
            with ThreadPoolExecutor(threads) as pool:
                run = partial(supple.sweep, mech, vary, loads, measure, executor=pool)
                seconds[what, threads] = best(run, repeat)
    variants = [mech.with_parameters({springs[0]: a, springs[1]: b}) for a in values[0][:5] for b in values[1][:2]]
    single = 20 * best(lambda: [supple.equilibrium(each, load) for each in variants for load in loads], 2)
    for (what, threads), taken in seconds.items():
        ratios = {"against_1_thread": seconds[what, 1] / taken, "against_single": single / taken}
        report.row(what=name, measure=what, threads=threads, s=taken, **ratios)
    report.target(f"{name}: 200 variants x 5 loads on one core, s", seconds["position", 1], at_most=0.4)
    two = seconds["position", 1] / seconds["position", 2]
    report.target(f"{name}: two cores against one", two, at_least=1.7)


def gradients(report: Report, name: str, mech: Mechanism, tip: str) -> None:
    """All stiffnesses at once, against central differences for each of them."""
    loads = {tip: [0, 0, 0.3, 0, 0, 0]}
    eq = supple.equilibrium(mech, loads)
    names = [each for each, value in mech.parameters.items() if each.endswith(".stiffness") and value > 0]
    weights = {tip: np.array([0, 0, 1.0, 0, 0, 0])}
    adjoint = best(lambda: supple.gradient(mech, at=eq, poses=weights, parameters=names), 3)
    found = supple.gradient(mech, at=eq, poses=weights, parameters=names)

    def height(which: str, value: float) -> float:
        return float(supple.equilibrium(mech.with_parameters({which: value}), loads).poses[tip][2, 3])

    def differences() -> dict[str, float]:
        result = {}
        for each in names:
            at = mech.parameters[each]
            result[each] = (height(each, 1.001 * at) - height(each, 0.999 * at)) / (0.002 * at)
        return result

    taken = best(differences, 1)
    largest = max(map(abs, found.values()))
    error = max(abs(found[each] - value) for each, value in differences().items()) / largest
    report.row(gradient=name, parameters=len(names), adjoint_ms=1e3 * adjoint, differences_ms=1e3 * taken, error=error)


if __name__ == "__main__":
    main()
