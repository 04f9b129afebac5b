"""A rod between two ball joints can turn about itself: found, reported, and left out of statics, modes and models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supple
from rounded_linkages import delta
from supple import spatial

ENDS = np.array([0.0, 0, 0.5]), np.array([1.0, 0.2, 0.7])


def linkage(kind: str = "ball", stiffness: float = 60.0) -> supple.Mechanism:
    """A crank and a rocker, connected by a rod with ball joints; with kind "universal" the rod cannot spin."""
    b = supple.Builder("linkage")
    b.link("crank", (0, 0, 0), ENDS[0], mass=1.0)
    b.link("rod", *ENDS, mass=0.5)
    b.link("rocker", (1, 0.2, 0), ENDS[1], mass=1.0)
    b.hinge("a", "world", "crank", at=(0, 0, 0), axis="y", stiffness=stiffness, damping=0.1)
    if kind == "ball":
        b.ball("p", "crank", "rod", at=ENDS[0])
    else:
        along = (ENDS[1] - ENDS[0]) / np.linalg.norm(ENDS[1] - ENDS[0])
        across = np.cross(along, [0, 0, 1.0])
        b.universal("p", "crank", "rod", at=ENDS[0], axes=(across, np.cross(along, across)))
    b.hinge("c", "world", "rocker", at=(1, 0.2, 0), axis=(0.1, 1, 0))
    b.ball("r", "rod", "rocker", at=ENDS[1])
    return b.build()


@pytest.fixture(scope="module")
def spinning() -> supple.Mechanism:
    return linkage()


@pytest.fixture(scope="module")
def still() -> supple.Mechanism:
    return linkage("universal")


def test_idle_spins_are_found(spinning: supple.Mechanism, still: supple.Mechanism) -> None:
    assert spinning.idle_spins == ("rod",)
    assert still.idle_spins == ()
    assert spinning.unheld == ()
    assert set(linkage(stiffness=0.0).unheld) == set(spinning.coordinates) | set(spinning.loop_coordinates)
    joint = replace(spinning.joint("p"), stiffness=np.full(3, 0.1))
    sprung = replace(spinning, joints=tuple(joint if j.name == "p" else j for j in spinning.joints))
    assert sprung.idle_spins == ()
    heavy = spinning.with_payload("rod", 0.1, centre=(0.1, 0, 0))  # its weight resists the turn
    assert heavy.idle_spins == ()


def test_statics_leaves_them_out(spinning: supple.Mechanism, still: supple.Mechanism) -> None:
    load = {"crank": [5.0, 0, 0, 0, 0, 0]}
    eq, expected = supple.equilibrium(spinning, load), supple.equilibrium(still, load)
    assert eq.stable
    for name in ("crank", "rocker"):
        np.testing.assert_allclose(eq.poses[name], expected.poses[name], atol=1e-6)
    axis = [eq.poses["rod"][:3, 2], expected.poses["rod"][:3, 2]]
    np.testing.assert_allclose(axis[0], axis[1], atol=1e-6)
    with pytest.raises(supple.MechanismError, match="nothing holds"):
        supple.equilibrium(spinning, {"rod": [0, 0, 0, 1.0, 0, 0]})  # a load on the rod may turn it


def test_modes_and_models_leave_them_out(spinning: supple.Mechanism, still: supple.Mechanism) -> None:
    modes = supple.modes(spinning)
    assert len(modes.frequencies) == 1
    assert modes.frequencies[0] == pytest.approx(supple.modes(still).frequencies[0], rel=1e-3)  # the rod's own turn
    at, at_still = (supple.equilibrium(mech) for mech in (spinning, still))
    for options in (({}, {}), ({"at": at}, {"at": at_still})):
        model, expected = (
            supple.reduce(mech, "crank", **given) for mech, given in zip((spinning, still), options, strict=True)
        )
        np.testing.assert_allclose(model.compliance, expected.compliance, rtol=1e-5, atol=1e-10)
        np.testing.assert_allclose(model.mass, expected.mass, rtol=2e-3, atol=1e-6)
        k, m = (np.trace(matrix) for matrix in (model.stiffness, model.mass))
        if not options[0]:  # the only mode of the whole mechanism
            assert np.sqrt(k / m) / (2 * np.pi) == pytest.approx(modes.frequencies[0], rel=1e-6)
    with pytest.raises(supple.MechanismError, match="nothing holds"):
        supple.reduce(spinning, "rod")


def test_models_move(spinning: supple.Mechanism) -> None:
    tip = {"crank": [3.0, 0, 0, 0, 0, 0]}
    eq = supple.equilibrium(spinning, tip)
    linear = supple.reduce(spinning, "crank", at=supple.equilibrium(spinning))
    sim = supple.ReducedSimulation(linear, dt=5e-3)
    sim.apply("crank", tip["crank"])
    sim.step(4000)
    turn = spatial.so3_log(sim.poses["crank"][:3, :3].T @ eq.poses["crank"][:3, :3])
    assert np.abs(turn).max() < 5e-3
    held = supple.equilibrium(spinning, hold={"crank": eq.poses["crank"]})
    np.testing.assert_allclose(held.poses["crank"], eq.poses["crank"], atol=1e-8)
    full = supple.Simulation(spinning, dt=1e-3)  # dynamics needs no holding: the rod has mass
    full.step(50)
    assert full.gap < 1e-9


def telescope(axis: tuple[float, float, float] = (0, 0, 1), hinge: bool = False) -> supple.Mechanism:
    """A platform that a hinge guides and a leg with a slide holds, between two ball joints."""
    b = supple.Builder("telescope")
    b.link("platform", (0, 0, 1), (0.5, 0, 1), mass=2.0)
    b.link("lower", (0.5, 0, 0), (0.5, 0, 0.5), mass=0.5)
    b.link("upper", (0.5, 0, 0.5), (0.5, 0, 1), mass=0.5)
    b.hinge("guide", "world", "platform", at=(0, 0, 1), axis="y", damping=0.1)
    b.ball("foot", "world", "lower", at=(0.5, 0, 0))
    if hinge:
        b.hinge("leg", "lower", "upper", at=(0.5, 0, 0.5), axis="z")
    else:
        b.slide("leg", "lower", "upper", at=(0.5, 0, 0.5), axis=axis, stiffness=1e4, damping=50.0)
    b.ball("top", "upper", "platform", at=(0.5, 0, 1))
    return b.build()


def test_a_leg_with_a_slide_spins_idly() -> None:
    mech = telescope()
    assert mech.idle_spins == ("lower",)
    assert mech.unheld == ()
    assert telescope(axis=(0.1, 0, 1)).idle_spins == ()  # the leg is not straight at other lengths
    assert telescope(hinge=True).idle_spins == ()
    eq = supple.equilibrium(mech, {"platform": [0, 0, -20, 0, 0, 0]})
    assert eq.stable
    assert np.isfinite(supple.reduce(mech, ["platform"]).compliance).all()
    assert supple.modes(mech).frequencies.min() > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_rods_of_a_delta_robot_do_not_end_the_path(seed):
    """Rounding errors of the loops' regularisation are as large as a weak spring; they must not look like a snap.
    Centres of mass that are off the axis by rounding do not count."""
    exact = delta(None, seed, ends="ball")
    load = {"tip": np.append(0.3 * exact.gravity, np.zeros(3))}
    wanted = supple.equilibrium(delta(None, seed), load).poses["tip"][:3, 3]
    for digits in (None, 4, 6, 10):
        eq = supple.equilibrium(delta(digits, seed, ends="ball"), load)
        assert not eq.snaps
        assert eq.stable
        assert eq.residual < 1e-9
        assert eq.iterations < 200
        assert np.abs(eq.poses["tip"][:3, 3] - wanted).max() < 1e-9 + (10 * 10.0**-digits if digits else 0.0)
