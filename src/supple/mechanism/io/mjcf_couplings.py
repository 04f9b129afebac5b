"""MuJoCo's fixed tendons and its joint and tendon equalities."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supple.mechanism.coupling import Coupling, ImportNote
from supple.mechanism.io.compiler import Model
from supple.mechanism.io.mjcf_report import DRY_FRICTION, Names, Report
from supple.mechanism.io.mjcf_springs import (
    SAMPLED,
    Spring,
    polynomial_law,
    sampling_positions,
    slack_law,
    slack_positions,
)
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array

WRAP_JOINT = 1
EQ_JOINT, EQ_TENDON = 2, 3
SAG = 1e-4
"""Deflection, rad or m, of the spring in place of a coupling under the mechanism's weight at a lever of its radius."""
RELAXATION = 1e-3
"""s: damping of that spring over its stiffness."""
BEYOND_LIMITS = (
    "cannot be met within the limits of its joints (it misses its value by {:.2g}); a stiff spring takes its place. "
    "Correct the limits or the constant to make it rigid"
)


@dataclass
class Tendon:
    """A fixed tendon: a linear combination of joint coordinates, with its spring and limits."""

    coefficients: dict[str, float]
    spring: Spring
    limits: Array
    force_range: Array
    """(2,) of the actuators' force on it, N."""


def read_tendons(model: Model, names: list[str], coordinates: list[str], report: Report) -> dict[int, Tendon]:
    """The fixed tendons by MuJoCo's index; `coordinates` has the coordinate names of hinges and slides."""
    tendons = {}
    for t, name in enumerate(names):
        start, count = int(model.tendon_adr[t]), int(model.tendon_num[t])
        if (model.wrap_type[start : start + count] != WRAP_JOINT).any():
            report.add("spatial tendon", name, "tendons along a path in space are not imported")
            continue
        sums: dict[str, float] = {}
        for w in range(start, start + count):
            axis = coordinates[model.wrap_objid[w]]
            sums[axis] = sums.get(axis, 0.0) + float(model.wrap_prm[w])
        sums = {axis: value for axis, value in sums.items() if value}
        if not sums:
            report.add("tendon", name, "all its coefficients are zero; not imported")
            continue
        tendons[t] = _tendon(model, t, name, sums, report)
    return tendons


def _tendon(model: Model, t: int, name: str, sums: dict[str, float], report: Report) -> Tendon:
    lower, upper = map(float, model.tendon_lengthspring[t])
    limits = model.tendon_range[t] if model.tendon_limited[t] else np.array([-np.inf, np.inf])
    stiffness, high = float(model.tendon_stiffness[t]), model.tendon_stiffnesspoly[t]
    spring = Spring((lower + upper) / 2, damping=report.damping(float(model.tendon_damping[t]), "tendon", name))
    around = sampling_positions(limits, spring.default_rest, 1.0 + abs(upper - lower))
    if stiffness < 0:
        report.add("stiffness of tendon", name, "a negative stiffness is not imported")
    elif lower < upper and (stiffness or high.any()):
        spring.add_sampled(slack_positions(lower, upper, around), slack_law(stiffness, high, lower, upper))
    else:
        if stiffness:
            spring.add_linear(stiffness, lower)
        if high.any():
            spring.add_sampled(around, polynomial_law(high, lower))
    if high.any():
        report.add("stiffness of tendon", name, SAMPLED)
    for field, reason in (
        ("frictionloss", DRY_FRICTION),
        ("armature", "inertia of tendons is not imported"),
        ("dampingpoly", "only the linear damping is imported"),
        ("springyield", "yielding springs are not imported; the spring stays elastic"),
    ):
        if getattr(model, f"tendon_{field}")[t].any():
            report.add(f"{field} of tendon", name, reason)
    force_range = model.tendon_actfrcrange[t] if model.tendon_actfrclimited[t] else np.array([-np.inf, np.inf])
    return Tendon(sums, spring, limits, force_range)


def tendon_coupling(tendon: Tendon, name: str, report: Report) -> Coupling:
    """The coupling of a tendon, after its actuators were added to its spring."""
    if tendon.spring.armature:
        report.add("actuator armature on tendon", name, "inertia of tendons is not imported")
    return Coupling(
        name,
        tuple(tendon.coefficients),
        np.array(list(tendon.coefficients.values())),
        stiffness=tendon.spring.stiffness,
        damping=tendon.spring.damping,
        rest=tendon.spring.rest,
        limits=tendon.limits,
        curve=tendon.spring.curve,
    )


def equality_coupling(
    model: Model,
    e: int,
    name: str,
    coordinates: list[str],
    tendons: dict[int, Tendon],
    names: Names,
    report: Report,
) -> Coupling | None:
    """(x1 - x1_0) = c0 + c1 (x2 - x2_0) as a rigid coupling; x is a coordinate or a tendon's length, x_0 its value at
    qpos0. None, with a report, if it cannot be represented."""
    first, second = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
    c0, c1 = map(float, model.eq_data[e, :2])
    if second >= 0 and model.eq_data[e, 2:5].any():
        report.add("equality", name, "is not linear (it has higher terms); not imported")
        return None
    sides = []
    for index in (first, second) if second >= 0 else (first,):
        side = _equality_side(model, int(model.eq_type[e]), index, coordinates, tendons)
        if side is None:
            report.add("equality", name, "concerns a ball or free joint or a spatial tendon; not imported")
            return None
        sides.append(side)
    sums, start = dict(sides[0][0]), c0 + sides[0][1]
    if second >= 0:
        for axis, value in sides[1][0].items():
            sums[axis] = sums.get(axis, 0.0) - c1 * value
        start -= c1 * sides[1][1]
    sums = {axis: value for axis, value in sums.items() if value}
    if not sums:
        report.add("equality", name, "its two sides are the same; not imported")
        return None
    return Coupling(names.make_unique(name), tuple(sums), np.array(list(sums.values())), rigid=True, rest=start)


def _equality_side(
    model: Model, kind: int, index: int, coordinates: list[str], tendons: dict[int, Tendon]
) -> tuple[dict[str, float], float] | None:
    if kind == EQ_TENDON:
        return (tendons[index].coefficients, float(model.tendon_length0[index])) if index in tendons else None
    if model.jnt_type[index] < 2:
        return None
    return {coordinates[index]: 1.0}, float(model.qpos0[model.jnt_qposadr[index]])


def with_yielding_couplings(mech: Mechanism) -> Mechanism:
    """The mechanism with springs in place of rigid couplings that the limits of their coordinates do not allow.

    MuJoCo's couplings and limits are soft and share the difference. `import_report` gets a note for each.
    """
    limits = {name: row for joint in mech.joints for name, row in zip(joint.axes, joint.limits, strict=True)}
    weight = max(9.81 * sum(body.mass for body in mech.bodies), 1e-3)
    notes, couplings = [], []
    for c in mech.couplings:
        reach = np.array([sorted(by * limits[name]) for name, by in zip(c.coordinates, c.coefficients, strict=True)])
        lowest, highest = reach.sum(axis=0)
        missing = float(max(lowest - c.rest, c.rest - highest))
        if c.rigid and missing > 1e-9:
            notes.append(ImportNote(f"equality '{c.name}'", BEYOND_LIMITS.format(missing)))
            stiffness = weight * mech.radius / (SAG * float(np.abs(c.coefficients).max()))
            c = replace(c, rigid=False, stiffness=stiffness, damping=RELAXATION * stiffness)
        couplings.append(c)
    if not notes:
        return mech
    return replace(mech, couplings=tuple(couplings), import_report=(*mech.import_report, *notes))
