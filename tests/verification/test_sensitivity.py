"""Gradients by the adjoint against central differences, for random mechanisms with loops."""

from __future__ import annotations

import numpy as np
import pytest
from tests.mechanisms import four_bar, random_mechanism

import supple
from supple.engine.linearisation import linearised
from supple.engine.sensitivity import unit_wrenches

KINDS = ("hinge", "slide", "universal", "ball", "bushing", "cylindrical", "axes")
CLOSE = 1e-6


def outcome(mech, loads, tip, frame="world"):
    """World position of the tip (3,), its compliance in world axes (36,) and the two lowest frequencies (2,)."""
    eq = supple.equilibrium(mech, loads, frame=frame) if loads is not None else None
    linear = linearised(mech, eq)
    pose, forces = linear.poses[tip], unit_wrenches(linear, [tip])
    turn = np.kron(np.eye(2), pose[:3, :3])
    compliance = turn @ (forces @ linear.solve(forces).T) @ turn.T
    return np.concatenate([pose[:3, 3], compliance.ravel(), supple.modes(mech, eq).frequencies[:2]])


def central_difference(mech, name, step, *args):
    """Fourth order."""
    at = mech.parameters.get(name, 0.0)
    values = [outcome(mech.with_parameters({name: at + k * step}), *args) for k in (1, -1, 2, -2)]
    return (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * step)


def chosen(rng, mech, count):
    """Some parameters that matter, of different kinds."""
    kinds = (".stiffness", ".rest", ".mass", ".armature", ".target")
    values = mech.parameters
    found = []
    for kind in kinds[:count]:
        names = [n for n in values if n.endswith(kind) and (values[n] or kind in (".rest", ".target"))]
        if names:
            found.append(str(rng.choice(names)))
    return found


def gradients(mech, at, tip, weights, names, **options):
    """Three gradients: of the position, of the compliance and of the frequencies, each times its weights."""
    position, compliance, frequencies = weights
    return [
        supple.gradient(mech, at=at, poses={tip: [*position, 0, 0, 0]}, parameters=names, **options),
        supple.gradient(mech, at=at, compliance={tip: compliance}, parameters=names, **options),
        supple.gradient(mech, at=at, frequencies=frequencies, parameters=names, **options),
    ]


def assert_gradients(mech, loads, tip, names, rng, frame="world", step=1e-3):
    at = supple.equilibrium(mech, loads, frame=frame) if loads is not None else None
    count = min(2, len(supple.modes(mech, at).frequencies))
    weights = rng.normal(size=3), rng.normal(size=(6, 6)), rng.normal(size=count)
    found = gradients(mech, at, tip, weights, names)
    values = np.abs(outcome(mech, loads, tip, frame))
    sizes = np.abs(weights[0]) @ values[:3], np.abs(weights[1]).ravel() @ values[3:39], np.abs(weights[2]) @ values[39:]
    for name in names:
        size = abs(mech.parameters.get(name, 0.1)) or 0.1
        by = central_difference(mech, name, step * size, loads, tip, frame)
        expected = weights[0] @ by[:3], weights[1].ravel() @ by[3:39], weights[2] @ by[39:]
        for got, want, value in zip(found, expected, sizes, strict=True):
            noise = 1e-9 * value / size  # of the differences
            assert abs(got[name] - want) <= CLOSE * abs(want) + noise, name


@pytest.mark.parametrize("seed", range(10))
def test_random_mechanisms_with_loops(seed):
    rng = np.random.default_rng([7, seed])
    mech = random_mechanism(rng, 5, KINDS, loops=1 + seed % 2, couplings=2, motors=1)
    tip = mech.bodies[-1].name
    loads = {tip: [*rng.normal(size=3), 0, 0, 0]} if seed % 5 else None
    assert_gradients(mech, loads, tip, chosen(rng, mech, 5)[seed % 2 :: 2], rng)


def test_loads_that_turn_with_the_body_and_torques_have_no_potential():
    rng = np.random.default_rng(3)
    mech = random_mechanism(rng, 4, ("hinge", "ball"), loops=1, motors=0)
    tip = mech.bodies[-1].name
    weights = rng.normal(size=(6, 6))
    loads = {tip: [1.0, 0.5, -0.3, 0.1, 0.2, 0.1]}
    for frame in ("body", "world"):
        eq = supple.equilibrium(mech, loads, frame=frame)
        name = chosen(rng, mech, 1)[0]
        found = supple.gradient(mech, at=eq, compliance={tip: weights}, parameters=name)[name]
        by = central_difference(mech, name, 1e-3 * mech.parameters[name], loads, tip, frame)
        assert np.isclose(found, weights.ravel() @ by[3:39], rtol=CLOSE)


def test_payload_and_motor():
    b = supple.Builder("arm")
    b.link("upper", (0, 0, 0), (0.5, 0, 0), mass=1.0)
    b.link("lower", (0.5, 0, 0), (1, 0, 0.1), mass=0.5)
    b.hinge("shoulder", "world", "upper", (0, 0, 0), "y")
    b.ball("elbow", "upper", "lower", (0.5, 0, 0), stiffness=[20.0, 50.0, 30.0])
    b.site("tip", "lower", (1, 0, 0.1))
    b.motor("drive", "shoulder", 0.3)
    bare = b.build()
    mech = bare.with_parameters({"tip.payload": 0.2})
    rng, names = np.random.default_rng(0), ["drive.target", "lower.mass", "elbow.1.stiffness"]
    assert_gradients(mech, {}, "tip", names, rng)
    eq = supple.equilibrium(mech)
    found = supple.gradient(mech, at=eq, poses={"tip": [0, 0, 1, 0, 0, 0]}, parameters="tip.payload")["tip.payload"]
    loaded = [supple.equilibrium(bare.with_parameters({"tip.payload": mass})) for mass in (0.2001, 0.1999)]
    assert np.isclose(found, (loaded[0].poses["tip"][2, 3] - loaded[1].poses["tip"][2, 3]) / 2e-4, rtol=CLOSE)


def test_the_compliance_at_the_reference_pose():
    mech = four_bar(stiffness=20.0, damping=1.0)
    for name in ("a.stiffness", "d.stiffness"):
        by = supple.gradient(mech, compliance={"crank": np.eye(6)}, axes="body", parameters=name)[name]
        step = 1e-4
        more, less = (
            np.trace(supple.reduce(mech.with_parameters({name: 20 + s}), "crank").compliance) for s in (step, -step)
        )
        assert np.isclose(by, (more - less) / (2 * step), rtol=CLOSE)
