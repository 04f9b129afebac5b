"""Bases of flexible bodies beside closed forms and full finite elements of another mesh: bending that meets torsion,
guided ends, large deflections, stretch by rotation. A basis that locks is too stiff here by 20 to 60 %."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_bvp

import supple
from supple import elastic, spatial
from supple.engine import full_equilibrium
from supple.library import characters

LENGTH, WIDTH, THICKNESS = 0.05, 1e-3, 5e-4
STEEL = elastic.spring_steel()
BENDING = STEEL.young * WIDTH * THICKNESS**3 / 12


def quiet(fraction: float) -> None:
    """In place of a progress bar."""


@pytest.fixture(scope="module", params=[None, "y"])
def strip(request):
    """Upright, thin along x; with a basis in space, or in the plane normal to y."""
    profile = np.array([[0, THICKNESS, WIDTH], [LENGTH, THICKNESS, WIDTH]])
    return elastic.bar(profile, STEEL, length=LENGTH / 20).with_basis(plane=request.param, progress=quiet)


def test_parallel_guide(strip):
    """Two leaf springs and a stage that cannot turn, moved by 1 % of their length: 12 EI / L^3 each."""
    build = supple.Builder("guide", gravity=(0, 0, 0))
    build.body("stage", spatial.translation(np.array([0, 0, LENGTH])), 0.1, inertia=(1e-4,) * 3)
    for side, x in (("left", -0.015), ("right", 0.015)):
        build.flexible(side, strip, spatial.translation(np.array([x, 0, 0])))
        build.fixed(f"{side}_foot", "world", f"{side}.start")
        build.fixed(f"{side}_top", f"{side}.end", "stage")
    wanted = 0.01 * LENGTH
    eq = supple.equilibrium(build.build(), {"stage": [24 * BENDING / LENGTH**3 * wanted, 0, 0, 0, 0, 0]})
    assert eq.poses["stage"][0, 3] == pytest.approx(wanted, rel=0.015)


def test_elastica(strip):
    """A tip force bends the strip by 0.16 of its length: EI theta'' = -F cos(theta)."""
    force = 0.5 * BENDING / LENGTH**2
    s = np.linspace(0, 1, 50)
    bent = solve_bvp(
        lambda s, y: [y[1], -0.5 * np.cos(y[0])], lambda a, b: [a[0], b[1]], s, [0.25 * s, 0.5 * (1 - s)], tol=1e-9
    )
    theta = bent.sol(np.linspace(0, 1, 2001))[0]
    x, z = (LENGTH * np.trapezoid(part, dx=1 / 2000) for part in (np.sin(theta), np.cos(theta)))
    assert x == pytest.approx(0.16 * LENGTH, rel=0.02)
    build = supple.Builder("strip", gravity=(0, 0, 0))
    build.flexible("strip", strip)
    build.fixed("clamp", "world", "strip.start")
    end = supple.equilibrium(build.build(), {"strip.end": [force, 0, 0, 0, 0, 0]}).poses["strip.end"][:3, 3]
    assert end[0] == pytest.approx(x, rel=0.015)
    assert LENGTH - end[2] == pytest.approx(LENGTH - z, rel=0.03)


def test_dancers_hand():
    """The hand of the dancer with both arms raised sideways, pushed forward: full elements of fewer sections."""
    raised = {"left_raise": np.pi / 2, "right_raise": np.pi / 2}
    load = {"left_hand": [1.0, 0, 0, 0, 0, 0]}
    moved = []
    for mech, solve in ((characters.dancer(), supple.equilibrium), (characters.dancer(sections=6), full_equilibrium)):
        poses = [solve(mech, wrenches, targets=raised).poses["left_hand"][:3, 3] for wrenches in ({}, load)]
        moved.append(np.linalg.norm(poses[1] - poses[0]))
    assert moved[0] == pytest.approx(moved[1], rel=0.02)


def square_beam() -> elastic.Part:
    """10 m long, EA = 2.8e7 N, EI = 1.4e4 N m^2, 1.2 kg/m: the beam of Simo and Vu-Quoc (1986)."""
    height = np.sqrt(12 * 1.4e4 / 2.8e7)
    material = elastic.Material(2.8e7 / height**2, 0.0, 1.2 / height**2, beta=0.05)
    return elastic.plate(10.0, height, height, material, divisions=(10, 1, 1))


@pytest.mark.parametrize("plane", [None, "y"])
def test_stretch_by_rotation(plane):
    """A beam that rotates at 6 rad/s: its end moves outward by rho A omega^2 L^3 / (3 EA) = 5.14e-4 m."""
    omega = 6.0
    build = supple.Builder("spin", gravity=(0, 0, 0))
    build.flexible("beam", square_beam().with_basis(plane=plane, progress=quiet))
    build.hinge("shaft", "world", "beam.start", at=(0, 0, 0), axis="y")
    build.motor("drive", "shaft")
    mech = build.build()
    rates = np.array([omega if name == "shaft" else 0.0 for name in mech.coordinates])
    sim = supple.Simulation(mech, 5e-3, "bdf2", rates=rates, motors={"drive": lambda t: omega * t})
    sim.step(800)
    stretch = np.linalg.norm(sim.poses["beam.end"][:3, 3]) - 10.0
    assert stretch == pytest.approx(1.2 * omega**2 * 10.0**3 / (3 * 2.8e7), rel=0.02)


def test_derivatives_that_repeat_one_another_are_left_out():
    """Some of the 27 are zero: Poisson's ratio is."""
    assert square_beam().with_basis(27, progress=quiet).basis.size == 26


def test_a_basis_that_locks_is_warned_about():
    rod = elastic.rod(0.2, 4e-3, STEEL, sections=8, sides=6)
    with pytest.warns(supple.RangeWarning, match=r"9 modes differs by \d\d % from all nodes of the mesh") as caught:
        assert rod.with_basis(9, progress=quiet).basis.difference > 0.2
    assert "take more modes" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", supple.RangeWarning)
        converged = rod.with_basis(progress=quiet)
    assert 0 < converged.basis.difference < 0.01
