"""Derivatives of recorded time steps: against central differences of the simulation, and the two sweeps against each
other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import rounded_linkages
import supple
from mechanisms import KINDS, delta, four_bar, random_mechanism
from small_mechanisms import arm, driven, held_arm, loose_bodies, satellite, square, wheels, with_motor
from supple import spatial
from supple.engine import Simulation, Tape, adjoint
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Curve, Mechanism

DT = 2e-3


@dataclass(frozen=True)
class Inputs:
    """What a motion depends on; also directions of it."""

    q: np.ndarray
    rates: np.ndarray
    motors: dict[str, np.ndarray] = field(default_factory=dict)
    set_points: dict[str, np.ndarray] = field(default_factory=dict)
    loads: dict[str, np.ndarray] = field(default_factory=dict)
    stiffness: dict[str, float] = field(default_factory=dict)
    damping: dict[str, float] = field(default_factory=dict)
    armature: dict[str, float] = field(default_factory=dict)
    mass: dict[str, float] = field(default_factory=dict)
    payload: dict[str, float] = field(default_factory=dict)
    gravity: np.ndarray = field(default_factory=lambda: np.zeros(3))
    joint_torques: dict[str, np.ndarray] = field(default_factory=dict)

    def moved(self, by: Inputs, size: float) -> Inputs:
        def add(a: Any, b: Any) -> Any:
            return {name: a[name] + size * b[name] for name in a} if isinstance(a, dict) else a + size * b

        return Inputs(*(add(getattr(self, f.name), getattr(by, f.name)) for f in fields(self)))

    def as_directions(self) -> dict[str, Any]:
        """Keywords of `adjoint.tangent`, one direction."""
        return {
            f.name: {k: np.asarray(v)[None] for k, v in value.items()} if isinstance(value, dict) else value[None]
            for f in fields(self)
            for value in [getattr(self, f.name)]
        }

    def names(self) -> list[tuple[str, str]]:
        """All inputs, as the name of a field and, if that is a dictionary, a name in it."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return [(part, name) for part, value in values.items() for name in (value if isinstance(value, dict) else [""])]

    def alone(self, part: str, name: str) -> Inputs:
        """The direction of one input only."""
        zero, value = self.moved(self, -1.0), getattr(self, part)
        return replace(zero, **{part: getattr(zero, part) | {name: value[name]} if name else value})

    def product(self, gradient: adjoint.Gradient, frame: str, part: str, name: str) -> float:
        """The part of the derivative that is due to one input."""
        value = getattr(self, part)[name] if name else getattr(self, part)
        match part:
            case "loads":
                slope: Any = gradient.load(name, frame)
            case "payload":
                slope = gradient.payload(name)
            case _:
                slope = getattr(gradient, part)[name] if name else getattr(gradient, part)
        return float(np.sum(slope * value))


@dataclass(frozen=True)
class Case:
    """A mechanism and how it is moved."""

    mech: Mechanism
    method: str = "bdf2"
    dt: float = DT
    steps: int = 12
    frame: str = "world"
    handle: str | None = None
    sparse: bool = False

    def altered(self, inputs: Inputs) -> Mechanism:
        mech = self.mech
        joints = tuple(
            replace(
                j,
                **{
                    what: getattr(j, what) + [getattr(inputs, what).get(axis, 0.0) for axis in j.axes]
                    for what in ("stiffness", "damping", "armature")
                },
            )
            for j in mech.joints
        )
        couplings = tuple(
            c
            if c.rigid
            else replace(
                c,
                stiffness=c.stiffness + inputs.stiffness.get(c.name, 0.0),
                damping=c.damping + inputs.damping.get(c.name, 0.0),
            )
            for c in mech.couplings
        )
        bodies = []
        for index, body in enumerate(mech.bodies):
            mass, centre, inertia = body.mass + inputs.mass.get(body.name, 0.0), body.centre, body.inertia
            for name, value in inputs.payload.items():
                on, pose = mech.frame(name)
                if on == index:
                    point, total = pose[:3, 3], mass + value
                    arm_ = point - centre
                    inertia = inertia + mass * value / total * (arm_ @ arm_ * np.eye(3) - np.outer(arm_, arm_))
                    mass, centre = total, (mass * centre + value * point) / total
            bodies.append(replace(body, mass=mass, centre=centre, inertia=inertia))
        gravity = mech.gravity + inputs.gravity
        return replace(mech, joints=joints, couplings=couplings, bodies=tuple(bodies), gravity=gravity)

    def run(self, inputs: Inputs) -> Tape:
        times = np.arange(self.steps + 1) * self.dt

        def motor(curve: np.ndarray) -> Callable[[float], float]:
            return lambda time: float(np.interp(time, times, curve))

        sim = Simulation(
            self.altered(inputs),
            self.dt,
            self.method,
            q=inputs.q,
            rates=inputs.rates,
            motors={name: motor(curve) for name, curve in inputs.motors.items()},
        )
        if self.sparse:
            sim._core.use_passes(False)
        tape = sim.tape()
        for k in range(1, self.steps + 1):
            if inputs.set_points:
                sim.set_targets({name: values[k] for name, values in inputs.set_points.items()})
            if inputs.joint_torques:
                sim.set_torque({name: values[k] for name, values in inputs.joint_torques.items()})
            for name, values in inputs.loads.items():
                sim.apply(name, values[k], self.frame)
            if self.handle is not None:
                sim.pull(self.handle, np.array([0.3, -0.2, 0.1 + 0.01 * k]), 80.0, 3.0, at=(0.1, 0.05, -0.02))
            sim.step()
        assert tape.steps == self.steps
        return tape


def usual_inputs(rng: np.random.Generator, case: Case, q: np.ndarray | None = None, speed: float = 1.0) -> Inputs:
    """Inputs with something on everything that the mechanism has."""
    mech, n = case.mech, case.steps + 1
    time = np.linspace(0, 1, n)
    wave = lambda: 0.1 * rng.normal() * time**2 + 0.05 * rng.normal() * np.sin(2 * np.pi * time)  # noqa: E731
    start = mech.reference if q is None else q
    value = dict(zip(mech.coordinates, start, strict=True))
    springs = [a for j in mech.joints for a, k, c in zip(j.axes, j.stiffness, j.curves, strict=True) if k or c]
    rest = {a: r for j in mech.joints for a, r in zip(j.axes, j.rest, strict=True)}
    couplings = {c.name: c for c in mech.couplings}
    set_points = {a: rest[a] + wave() for a in springs if a not in couplings}
    set_points |= {name: c.rest + wave() * (0.3 if c.rigid else 1.0) for name, c in couplings.items()}
    body = mech.bodies[-1].name
    rates = speed * rng.normal(size=mech.dof) if not mech.topology.loops else np.zeros(mech.dof)
    elastic = [c.name for c in mech.couplings if not c.rigid]
    drives = [  # a rotation vector that closes a loop takes no torque, nor does a coordinate with a motor
        a
        for i, j in enumerate(mech.joints)
        if not (3 in j.blocks and i in mech.topology.loops)
        for a in j.axes
        if a not in {m.coordinate for m in mech.motors}
    ]
    return Inputs(
        np.array(start, dtype=float),
        rates,
        {m.name: value.get(m.coordinate, 0.0) + wave() for m in mech.motors},
        set_points,
        {body: rng.normal(size=(n, 6)) * 0.5},
        dict.fromkeys([*springs, *elastic], 0.1),
        dict.fromkeys([*(a for j in mech.joints for a in j.axes), *elastic], 0.01),
        dict.fromkeys([a for j in mech.joints for a in j.axes], 0.001),
        {b.name: 0.0 for b in mech.bodies},
        {b.name: 0.0 for b in mech.bodies if b.mass > 0},
        joint_torques={a: wave() for a in drives},
    )


def random_direction(rng: np.random.Generator, case: Case, inputs: Inputs, skip: tuple[str, ...] = ()) -> Inputs:
    """A direction of every input; nothing that a motor or loop forbids at the start, or that makes a number
    negative."""
    mech = case.mech
    driven_ = {m.coordinate for m in mech.motors} | {a for c in mech.couplings if c.rigid for a in c.coordinates}
    free = np.array([not mech.topology.loops and name not in driven_ for name in mech.coordinates], dtype=float)

    def like(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: np.asarray(rng.normal(size=np.shape(v))) * (np.arange(len(v)) > 0 if np.ndim(v) == 1 else 1)
                if np.ndim(v)
                else float(rng.uniform(0.1, 1))
                for name, v in value.items()
            }
        return rng.normal(size=value.shape)

    found = {f.name: like(getattr(inputs, f.name)) for f in fields(inputs)}
    found["q"] = found["q"] * free
    found["rates"] = found["rates"] * free
    found["mass"] = {k: 0.2 * v for k, v in found["mass"].items()}
    found["payload"] = {k: 0.2 * v for k, v in found["payload"].items()}
    found["armature"] = {k: 0.05 * v for k, v in found["armature"].items()}
    for name in skip:
        found[name] = {k: 0 * v for k, v in found[name].items()} if isinstance(found[name], dict) else 0 * found[name]
    return Inputs(**found)


class Objective:
    """A scalar of the recorded motion with random weights: linear in coordinates, pose matrices, velocities and motor
    torques."""

    def __init__(self, rng: np.random.Generator, case: Case) -> None:
        n, bodies = case.steps + 1, len(case.mech.bodies)
        self.coordinates = rng.normal(size=(n, case.mech.dof))
        self.poses = rng.normal(size=(n, bodies, 3, 4))
        self.velocities = 0.05 * rng.normal(size=(n, bodies, 6))
        self.torques = {motor.name: 0.05 * rng.normal(size=n) for motor in case.mech.motors}
        for weights in self.torques.values():
            weights[0] = 0  # the torque at the start is kept

    def value(self, tape: Tape) -> float:
        return sum(float(np.sum(term)) for term in self.terms(tape))

    def terms(self, tape: Tape) -> list[np.ndarray]:
        torques = [weights * tape.torques[name] for name, weights in self.torques.items()]
        parts = (self.coordinates, tape.coordinates), (self.poses, tape.poses[:, :, :3])
        return [a * b for a, b in (*parts, (self.velocities, adjoint.velocities(tape)))] + torques

    def wrenches(self, tape: Tape) -> np.ndarray:
        H = tape.poses[:, :, :3]
        result = np.zeros((*H.shape[:2], 6))
        for i, unit in enumerate(np.eye(3)):
            result[..., i] = np.einsum("tbi,tbij,j->tb", self.poses[..., 3], H[..., :3], unit)
            result[..., 3 + i] = np.einsum("tbij,tbik,kj->tb", self.poses[..., :3], H[..., :3], spatial.skew(unit))
        return result

    def gradient(self, tape: Tape) -> adjoint.Gradient:
        return adjoint.gradient(
            tape,
            coordinates=self.coordinates,
            poses=self.wrenches(tape),
            velocities=self.velocities,
            torques=self.torques,
        )

    def along(self, tape: Tape, motion: adjoint.Motion) -> tuple[float, float]:
        """The derivative along a motion, and the sum of the sizes of its terms."""
        torques = np.reshape([self.torques[motor.name] for motor in tape.mechanism.motors], (-1, tape.steps + 1)).T
        parts = (self.coordinates, self.wrenches(tape), self.velocities, torques)
        moved = (motion.coordinates[0], motion.poses[0], motion.velocities[0], motion.torques[0])
        terms = [a * b for a, b in zip(parts, moved, strict=True)]
        return float(sum(map(np.sum, terms))), float(sum(np.abs(part).sum() for part in terms))


def central_difference(value: Callable[[float], float], size: float) -> float:
    """Fourth order."""
    near, far = ((value(s) - value(-s)) / (2 * s) for s in (size, 2 * size))
    return (4 * near - far) / 3


def check(
    case: Case,
    inputs: Inputs,
    seed: int = 0,
    sizes: Sequence[float] = (2e-4, 1e-3, 2e-5, 2e-6),
    skip: tuple[str, ...] = (),
) -> Tape:
    """The gradient and the tangent agree with central differences, along a direction of all inputs and along some
    inputs alone, and with each other to rounding.

    Differences must be large where loops are closed to 1e-11 only, and small where they cross a break of a spring's
    curve, so several are tried.
    """
    rng = np.random.default_rng(seed)
    objective, direction = Objective(rng, case), random_direction(rng, case, inputs, skip)
    tape = case.run(inputs)
    gradient = objective.gradient(tape)
    products = {which: direction.product(gradient, case.frame, *which) for which in direction.names()}
    backward = sum(products.values())
    motion = adjoint.tangent(tape, frame=case.frame, **direction.as_directions())
    forward, terms = objective.along(tape, motion)
    scale = sum(map(abs, products.values())) + terms  # they may cancel
    assert abs(forward - backward) < 1e-11 * scale

    def error(along: Inputs, derivative: float, size: float) -> float:
        moved = central_difference(lambda s: objective.value(case.run(inputs.moved(along, s))), size)
        return abs(moved - derivative)

    assert any(error(direction, backward, size) < 1e-7 * scale for size in sizes)
    # a few inputs alone: among all of them, an error of a small derivative would not be seen
    steps_to = 5e-15 * sum(np.abs(term).sum() for term in objective.terms(tape))  # the objective's rounding errors
    constraints_to = 1e-11 * scale if case.sparse else 0.0
    kinds = [part for part in dict.fromkeys(part for part, _ in products) if part not in skip]
    for part in rng.permutation(kinds)[:4]:
        which = str(part), str(rng.choice([name for each, name in products if each == part]))
        alone, slope = direction.alone(*which), products[which]
        assert any(
            error(alone, slope, size) < 1e-7 * abs(slope) + steps_to / np.clip(size, 2e-5, sizes[0]) + constraints_to
            for size in (3e-3, *sizes)
        ), which
    return tape


def one_joint(kind: str) -> Mechanism:
    return random_mechanism(np.random.default_rng(KINDS.index(kind)), 3, [kind], sites=1)


@pytest.mark.parametrize("method", ["bdf2", "euler"])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "fixed"])
def test_joints_of_every_kind(kind: str, method: str) -> None:
    case = Case(one_joint(kind), method)
    check(case, usual_inputs(np.random.default_rng(1), case))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "mech",
    [
        satellite(),
        arm(),
        with_motor(),
        driven(),
        wheels(rigid=True),
        wheels(stiffness=20.0, damping=1.0),
        held_arm(),
        loose_bodies(),
    ],
    ids=lambda m: m.name,
)
def test_free_bodies_motors_and_couplings(mech: Mechanism, sparse: bool) -> None:
    case = Case(mech, sparse=sparse)
    check(case, usual_inputs(np.random.default_rng(2), case))


@pytest.mark.parametrize("method", ["bdf2", "euler"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "mech",
    [
        square(a={"stiffness": 3.0, "damping": 0.1}, d={"stiffness": 2.0, "damping": 0.2, "armature": 0.05}),
        square(driven=True, c={"stiffness": 5.0}),
        four_bar(stiffness=5.0, damping=0.1),
        delta(),
        rounded_linkages.four_bar(7),
    ],
    ids=["springs", "driven", "four-bar", "delta", "rounded"],
)
def test_loops(mech: Mechanism, sparse: bool, method: str) -> None:
    case = Case(mech, method, sparse=sparse)
    check(case, usual_inputs(np.random.default_rng(3), case))


def test_redundant_loop_with_motors_on_both_sides() -> None:
    case = Case(square(**{"driven": True, "driven twice": True}))
    inputs = usual_inputs(np.random.default_rng(3), case)
    same = inputs.motors["drive"]
    tape = case.run(replace(inputs, motors={"drive": same, "other drive": same}))
    direction = np.linspace(0, 1, case.steps + 1)[None]
    found = adjoint.tangent(tape, motors={"drive": direction, "other drive": direction})
    a = list(case.mech.coordinates).index("a")
    assert np.allclose(found.coordinates[0, :, a], direction[0], atol=1e-10)


def free_loop(ball: bool) -> Mechanism:
    """A four-bar closed by a free hinge or ball joint, whose rotation is no coordinate of the recursive passes."""
    b = supple.Builder("free loop", gravity=(0, 0, -9.81))
    corners = np.array([(0, 0, 0), (0.1, 0, 0.4), (0.7, 0, 0.5), (0.6, 0, 0)], dtype=float)
    for name, i, j in (("crank", 0, 1), ("coupler", 1, 2), ("rocker", 3, 2)):
        b.link(name, corners[i], corners[j], mass=1.0)
    b.hinge("a", "world", "crank", at=corners[0], axis="y", stiffness=8.0, damping=0.1)
    b.hinge("b", "crank", "coupler", at=corners[1], axis="y")
    b.hinge("c", "world", "rocker", at=corners[3], axis="y", damping=0.2)
    (b.ball("d", "rocker", "coupler", at=corners[2]) if ball else b.hinge("d", "rocker", "coupler", corners[2], "y"))
    return b.build()


@pytest.mark.parametrize("ball", [False, True])
def test_loops_with_free_joints(ball: bool) -> None:
    case = Case(free_loop(ball))
    inputs = replace(usual_inputs(np.random.default_rng(3), case), damping={"a": 0.1}, armature={"c": 0.01})
    tape = check(case, inputs)
    # every coordinate, among them the free ones, and their dampers, in both sweeps
    objective, names = Objective(np.random.default_rng(5), case), list(tape.equations.axis)
    gradient = objective.gradient(tape)
    motion = adjoint.tangent(tape, damping={name: np.eye(len(names))[i] for i, name in enumerate(names)})
    weights = objective.coordinates, objective.wrenches(tape), objective.velocities
    moved = motion.coordinates, motion.poses, motion.velocities
    for i, name in enumerate(names):
        forward = sum(float(np.sum(a * b[i])) for a, b in zip(weights, moved, strict=True))
        assert np.isclose(gradient.damping[name], forward, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("processors", [1, 3])
def test_more_directions_than_lanes(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directions go through the sweep in groups of eight, in several threads; each is as if it were alone."""
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    case = Case(with_motor())
    tape = case.run(usual_inputs(np.random.default_rng(2), case))
    directions = np.random.default_rng(3).normal(size=(59, 3))
    together = adjoint.tangent(tape, gravity=directions)
    for i in (0, 7, 8, 15, 16, 24, 31, 47, 48, 55, 56, 58):
        alone = adjoint.tangent(tape, gravity=directions[i : i + 1])
        assert np.array_equal(together.coordinates[i], alone.coordinates[0])
        assert np.array_equal(together.velocities[i], alone.velocities[0])


def test_start_of_a_loop() -> None:
    """A parallelogram that starts anywhere on its path: the three angles of the tree move together."""
    mech = square(a={"stiffness": 3.0}, d={"armature": 0.05, "damping": 0.1})
    case, signs = Case(mech), {"a": 1.0, "b": -1.0, "c": 1.0, "d": -1.0}
    along = np.array([signs[name] for name in mech.coordinates])
    inputs = replace(usual_inputs(np.random.default_rng(4), case), q=0.2 * along, rates=0.7 * along)
    objective = Objective(np.random.default_rng(5), case)
    gradient = objective.gradient(case.run(inputs))
    for what in ("q", "rates"):
        direction = replace(inputs.moved(inputs, -1.0), **{what: along})
        difference = central_difference(lambda s, d=direction: objective.value(case.run(inputs.moved(d, s))), 2e-4)
        assert np.isclose(getattr(gradient, what) @ along, difference, rtol=1e-7)


@pytest.mark.parametrize("frame", ["world", "body"])
def test_handles_and_loads_in_both_frames(frame: str) -> None:
    for mech, handle in ((arm(), "lower"), (satellite(), "boom2")):
        case = Case(mech, handle=handle, frame=frame)
        check(case, usual_inputs(np.random.default_rng(6), case))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "mech", [arm(), satellite(), driven(), square(driven=True, c={"stiffness": 5.0}), delta()], ids=lambda m: m.name
)
def test_joint_torques_alone(mech: Mechanism, sparse: bool) -> None:
    """Ball joints, free bases, and coordinates inside and at the end of loops."""
    case = Case(mech, sparse=sparse)
    inputs = usual_inputs(np.random.default_rng(16), case)
    check(case, inputs, skip=tuple(f.name for f in fields(inputs) if f.name != "joint_torques"))


def test_torque_of_a_free_hinge_that_closes_a_loop() -> None:
    case = Case(free_loop(ball=False))
    inputs = replace(usual_inputs(np.random.default_rng(3), case), damping={}, armature={})
    inputs = replace(inputs, joint_torques={"d": inputs.joint_torques["d"]})
    check(case, inputs, skip=tuple(f.name for f in fields(inputs) if f.name != "joint_torques"))


def test_points_of_handles() -> None:
    """A handle's point moves its body like a force of stiffness times displacement at the place of the handle."""
    rng, steps, stiffness = np.random.default_rng(17), 12, 80.0
    points, change = 0.1 * rng.normal(size=(2, steps + 1, 3))

    def run(size: float) -> Tape:
        sim = Simulation(satellite(), DT, "bdf2")
        with sim.tape() as tape:
            for point in (points + size * change)[1:]:
                sim.pull("boom2", point, stiffness, 3.0)
                sim.step()
        return tape

    tape, weights = run(0.0), rng.normal(size=(steps + 1, satellite().dof))
    by_points = stiffness * adjoint.gradient(tape, coordinates=weights).load("boom2")[:, :3]
    difference = central_difference(lambda s: float(np.sum(weights * run(s).coordinates)), 1e-3)
    assert np.isclose(np.sum(by_points[1:] * change[1:]), difference, rtol=1e-7)


def test_spring_curves() -> None:
    curve = Curve((-1.0, -0.2, 0.3, 1.0), (-8.0, -1.0, 0.5, 9.0))
    b = supple.Builder("curved")
    b.link("rod", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.link("end", (1, 0, 0), (1.5, 0, 0.2), mass=0.5)
    b.hinge("hinge", "world", "rod", at=(0, 0, 0), axis="y", stiffness=20.0, curves=[curve])
    b.ball("ball", "rod", "end", at=(1, 0, 0), curves=[curve, None, curve], stiffness=5.0, damping=0.3, armature=0.02)
    b.couple("tendon", {"hinge": 1.0}, stiffness=1.0, damping=0.2, curve=curve)
    case = Case(b.build())
    check(case, usual_inputs(np.random.default_rng(7), case))


def test_fast_spin_of_a_ball_joint() -> None:
    """Large rotations in a step: the derivative of a step's rotation is exact, not a series."""
    b = supple.Builder("spinner")
    b.body(
        "top", spatial.translation(np.array([0.1, 0.0, 0.3])), 0.8, inertia=(0.01, 0.02, 0.025), centre=(0.1, 0, 0.05)
    )
    b.ball("ball", "world", "top", at=(0, 0, 0), stiffness=3.0, damping=(0.1, 0.2, 0.3), armature=(0.01, 0.02, 0.0))
    for method in ("bdf2", "euler"):
        case = Case(b.build(), method, dt=0.02, steps=8)
        inputs = usual_inputs(np.random.default_rng(8), case)
        check(case, replace(inputs, rates=np.array([8.0, -11.0, 6.0])))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_a_limit_that_stays_touched(coupled: bool, sparse: bool) -> None:
    """Of a hinge, or of a coupling of two hinges."""
    b = supple.Builder("resting")
    b.link("upper", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.link("lower", (1, 0, 0), (1.6, 0, 0), mass=0.5)
    b.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis="y", limits=(-1.0, np.inf if coupled else 0.0))
    b.hinge("elbow", "upper", "lower", at=(1, 0, 0), axis="y", stiffness=10.0, damping=0.1)
    if coupled:
        b.couple("cord", {"shoulder": 1.0, "elbow": 0.3}, stiffness=2.0, limits=(-1.0, 0.0))
    case = Case(b.build(), sparse=sparse)
    inputs = usual_inputs(np.random.default_rng(9), case)
    rates = np.array([-0.15, 0.5]) if coupled else np.array([0.0, 0.5])
    tape = check(case, replace(inputs, rates=rates), skip=("q", "rates"))
    assert tape.impacts == (1,)
    held = tape.coordinates @ ([1.0, 0.3] if coupled else [1.0, 0.0])
    assert np.abs(held).max() < 1e-12
    assert np.abs(tape.coordinates[:, 1]).max() > 1e-3


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", ["bdf2", "euler"])
@pytest.mark.parametrize("limited", ["a", "b", "c", "d", "e"])
def test_a_limit_that_stays_touched_in_a_loop(limited: str, method: str, sparse: bool) -> None:
    """Four bars that sag between two feet: a limit of one of the five hinges leaves one motion."""
    b = supple.Builder("five-bar", gravity=(0, 0, -9.81))
    corners = np.array([(0, 0, 0), (0.1, 0, 0.4), (0.4, 0, 0.6), (0.75, 0, 0.5), (0.8, 0, 0)])
    names = ["world", "first", "second", "third", "fourth", "world"]
    for i in range(4):
        b.link(names[i + 1], corners[i], corners[i + 1], mass=1.0)
    for i, hinge in enumerate("abcde"):
        limits = (-np.inf, np.inf) if hinge != limited else (-1.0, 0.0) if hinge in "bd" else (0.0, 1.0)
        b.hinge(hinge, names[i], names[i + 1], corners[i], "y", stiffness=2.0, damping=0.05, limits=limits)
    case = Case(b.build(), method, sparse=sparse)
    tape = check(case, usual_inputs(np.random.default_rng(9), case))
    ends = names["abcde".index(limited) :][:2]
    inner, outer = (tape.poses[:, case.mech.body_index(n), :3, :3] if n != "world" else np.eye(3) for n in ends)
    across = np.swapaxes(inner, -1, -2) @ outer
    assert np.abs(across - across[0]).max() < 1e-11
    assert np.abs(tape.coordinates).max() > 1e-4


def test_divided_steps() -> None:
    """A step too long for its motor is divided; its parts are differentiated one by one."""
    b = supple.Builder("whip", gravity=(0, 0, -9.81))
    for i in range(4):
        b.link(f"link{i}", (0.3 * i, 0, 0), (0.3 * i + 0.3, 0, 0), mass=0.3)
        b.hinge(f"hinge{i}", f"link{i - 1}" if i else "world", f"link{i}", (0.3 * i, 0, 0), "y", damping=0.01)
    b.motor("drive", "hinge0")
    case = Case(b.build(), dt=0.12, steps=8)
    inputs = usual_inputs(np.random.default_rng(10), case)
    curve = 2.5 * np.sin(np.arange(9) * 1.1)
    inputs = replace(inputs, motors={"drive": curve}, loads={}, rates=np.zeros(4))
    tape = check(case, inputs, sizes=(2e-5,))
    assert tape.divided


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
@example(1055)  # a step is divided while a world load acts on a turning body
def test_random_mechanisms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loops = int(rng.integers(3)) // 2
    base = bool(rng.random() < 0.3)
    mech = random_mechanism(
        rng, int(rng.integers(1, 6)), free_base=base, loops=loops, couplings=2, motors=0 if loops else 1
    )
    assume(mech.mobility > 0)
    case = Case(mech, str(rng.choice(["bdf2", "euler"])), steps=8)
    inputs = usual_inputs(rng, case, speed=0.5)
    assume(not case.run(inputs).impacts)
    check(case, inputs, seed=seed)


def test_tape() -> None:
    sim = Simulation(driven(), DT, "bdf2", motors={"drive": lambda t: 0.3 * np.sin(5 * t)})
    with sim.tape() as tape:
        sim.step(5)
        assert tape.recording
    sim.step(3)
    assert not tape.recording
    assert tape.steps == 5
    assert np.allclose(tape.times, DT * np.arange(6))
    assert tape.poses.shape == (6, 2, 4, 4)
    assert tape.coordinates.shape == (6, 2)
    assert np.allclose(tape.motors["drive"], 0.3 * np.sin(5 * tape.times))
    assert tape.memory < 6000
    later = sim.tape()
    sim.step(4)
    assert np.allclose(adjoint.velocities(later)[-1], sim.velocities)
    assert np.allclose(later.poses[-1], sim.poses.array)
    gradient = adjoint.gradient(later, coordinates=np.ones((5, 2)))
    assert gradient.motors["drive"].shape == (5,)
    sim.reset()
    assert not later.recording


def test_recording_does_not_change_the_motion() -> None:
    for method in ("bdf2", "euler"):
        plain, taped = (Simulation(arm(), DT, method, rates=[1.0, -2.0, 0.5]) for _ in range(2))
        taped.tape()
        plain.step(20)
        taped.step(20)
        assert np.array_equal(plain.poses.array, taped.poses.array)


def test_the_recording_ends_in_a_world() -> None:
    sim = Simulation(arm(), DT)
    world = supple.World(DT, gravity=sim.mechanism.gravity)
    world.add(sim)
    tape = sim.tape()
    world.step(3)
    assert not tape.recording
    assert tape.steps == 0


def test_a_step_that_fails_is_not_recorded() -> None:
    sim = Simulation(square(**{"driven": True, "driven twice": True}), DT)
    tape = sim.tape()
    sim.step(2)
    sim.set_target("drive", 0.4)
    with pytest.raises(ConvergenceError):
        sim.step(3)
    assert tape.recording
    assert tape.steps == 2
    assert adjoint.gradient(tape, coordinates=np.ones_like(tape.coordinates)).motors["drive"].shape == (3,)


def test_refusals() -> None:
    sim = Simulation(driven(), DT, motors={"drive": lambda t: 0.0})
    tape = sim.tape()
    sim.step(3)
    for wrong, text in (
        ({"coordinates": np.zeros((3, 2))}, "coordinates"),
        ({"poses": np.zeros((4, 3, 6))}, "poses"),
        ({"velocities": np.full((4, 2, 6), np.nan)}, "velocities"),
    ):
        with pytest.raises(MechanismError, match=text):
            adjoint.gradient(tape, **wrong)
    for wrong, text in (
        ({}, "at least one"),
        ({"motors": {"drift": np.zeros((1, 4))}}, "drive"),
        ({"motors": {"drive": np.zeros((1, 3))}}, "drive"),
        ({"motors": {"drive": np.zeros((1, 4))}, "gravity": np.zeros((2, 3))}, "gravity"),
        ({"stiffness": {"knee": [1.0]}}, "knee"),
        ({"joint_torques": {"knee": np.zeros((1, 4))}}, "knee"),
        ({"payload": {"world": [1.0]}}, "world"),
        ({"motors": {"drive": np.zeros((1, 4))}, "want": ("forces",)}, "forces"),
    ):
        with pytest.raises(MechanismError, match=text):
            adjoint.tangent(tape, **wrong)


def test_mass_of_bodies_that_have_none() -> None:
    """Two massless bodies, fixed to each other between two hinges: either may get mass, each at its own centre."""

    def mechanism(masses: dict[str, float]) -> Mechanism:
        build = supple.Builder("massless")
        build.link("upper", (0, 0, 0), (0.3, 0, 0), mass=0.7, radius=0.02)
        for name, centre in (("bracket", (0.35, 0, 0.1)), ("camera", (0.4, 0.2, 0.0))):
            build.body(name, mass=masses.get(name, 0.0), centre=centre)
        build.link("lower", (0.5, 0, 0), (0.8, 0, 0), mass=0.4, radius=0.02)
        build.hinge("shoulder", "world", "upper", (0, 0, 0), "y", stiffness=3.0)
        build.hinge("elbow", "upper", "bracket", (0.3, 0, 0), "z", stiffness=2.0, damping=0.01)
        build.fixed("mount", "bracket", "camera")
        build.hinge("wrist", "camera", "lower", (0.5, 0, 0), "y", stiffness=1.0)
        return build.build()

    def height(masses: dict[str, float], steps: int = 30) -> float:
        sim = Simulation(mechanism(masses), DT)
        sim.step(steps)
        return float(sim.poses["lower"][2, 3])

    sim = Simulation(mechanism({}), DT)
    tape = sim.tape()
    sim.step(30)
    weights = np.zeros((31, 4, 6))
    weights[-1, 3, :3] = sim.poses["lower"][2, :3]  # the height of `lower`
    found = adjoint.gradient(tape, poses=weights).mass
    still, m = height({}), 1e-5
    for name in ("bracket", "camera"):
        once, twice = height({name: m}), height({name: 2 * m})
        expected = (4 * once - twice - 3 * still) / (2 * m)  # one-sided, of second order
        np.testing.assert_allclose(found[name], expected, rtol=1e-6)
        forward = adjoint.tangent(tape, mass={name: [1.0]}).poses[0, -1, 3, :3] @ weights[-1, 3, :3]
        np.testing.assert_allclose(forward, expected, rtol=1e-6)
