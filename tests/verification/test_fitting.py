"""Fitting of materials: synthetic measurements give back the material that they were made with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supple
from supple import elastic, spatial
from supple.elastic.cache import with_cached_basis
from supple.mechanism.flexible import FlexibleBody
from supple.retargeting import MeasuredMotion, Motion, fit_material
from supple.retargeting.altered import stiffened

pytestmark = pytest.mark.filterwarnings("ignore::supple.RangeWarning")  # measurements are made with the same basis
TURN = Motion.from_samples([0, 0.2, 0.5, 1.4, 1.7, 3.4], {"motor": np.radians([0, 0, 30, 30, 0, 0])})
"""A turn that lasts a whole period (0.42 s for the rod) would hardly excite vibrations."""


@pytest.fixture(scope="module")
def rod():
    return supple.library.rod_on_motor(modes=8, sections=12)


def with_material(mech, factor, alpha, beta):
    """The mechanism whose only flexible body has `factor` times the modulus, and other damping."""
    part = stiffened(mech.flexible[0].part, factor)
    material, basis = replace(part.material, alpha=alpha, beta=beta), replace(part.basis, alpha=alpha, beta=beta)
    part = replace(part, material=material, basis=basis)
    return replace(mech, flexible=(FlexibleBody(mech.flexible[0].name, part),))


def measure(mech, noise, dt=1e-3, rate=100):
    """Positions of the tip with noise, a fraction of its largest displacement."""
    sim = supple.Simulation(mech, dt, "bdf2", at=supple.equilibrium(mech), motors={"motor": lambda t: TURN(t)[0]})
    with sim.tape() as tape:
        sim.step(round(TURN.duration / dt))
    exact = tape.poses[:: round(1 / dt / rate), mech.frame("tip")[0], :3, 3]
    size = noise * np.linalg.norm(exact - exact[0], axis=1).max()
    noisy = exact + size * np.random.default_rng(0).normal(size=exact.shape)
    return MeasuredMotion(np.arange(len(exact)) / rate, noisy)


def test_a_rod_with_noise(rod, tmp_path):
    true = with_material(rod, 1.25, 0.0, 8e-4)
    measured = measure(true, 0.01)
    measured.save(tmp_path / "tip.csv")
    fitted = fit_material(rod, TURN, tmp_path / "tip.csv", "tip", dt=2e-3)
    assert fitted.young == pytest.approx(250e9, rel=0.01)
    assert fitted.beta == pytest.approx(8e-4, rel=0.1)
    assert fitted.kept == ("alpha",)  # one vibration does not tell alpha from beta
    assert 0 < fitted.standard_errors["young"] < 1e-3 * fitted.young
    assert fitted.standard_errors["beta"] < 0.04 * fitted.beta
    assert abs(fitted.beta - 8e-4) < 4 * fitted.standard_errors["beta"]
    assert fitted.material == fitted.part.material == fitted.mechanism.flexible[0].part.material
    size = np.linalg.norm(measured.positions - measured.positions[0], axis=1).max()
    assert fitted.residual_rms == pytest.approx(0.01 * np.sqrt(3) * size, rel=0.15)
    assert fitted.history[-1] == pytest.approx(fitted.residual_rms)
    fitted.plot(tmp_path / "fit.png")
    assert (tmp_path / "fit.png").stat().st_size > 10_000
    with pytest.raises(supple.MechanismError, match=r"does not determine 'alpha', 'beta'.*fit=\('beta',\)"):
        fit_material(fitted.mechanism, TURN, measured, "tip", dt=4e-3, fit=("alpha", "beta"))


def test_both_damping_numbers_from_an_exact_measurement(rod):
    measured = measure(with_material(rod, 1.02, 0.4, 4e-4), 0.0, 4e-3, 125)
    short = MeasuredMotion(measured.times[:201], measured.positions[:201])
    fitted = fit_material(rod, TURN, short, "tip", dt=4e-3)
    assert fitted.kept == ()
    assert [fitted.young, fitted.alpha, fitted.beta] == pytest.approx([204e9, 0.4, 4e-4], rel=1e-3)


def test_a_printed_plate_with_noise():
    plastic = elastic.Material(young=2.5e9, poisson=0.36, density=1240, law="neo-hookean", beta=1e-3)
    part = elastic.plate(0.3, 0.03, 3e-3, plastic, divisions=(8, 1, 1))
    build = supple.Builder("plate")
    build.flexible("plate", with_cached_basis(part, plane="y"))
    build.body("tip", spatial.translation([0.3, 0, 0]), mass=0.1, inertia=(1e-5, 1e-5, 1e-5))
    build.hinge("edge", "world", "plate.start", at=(0, 0, 0), axis=(0, -1, 0))
    build.fixed("clamp", "plate.end", "tip")
    build.motor("motor", "edge")
    mech = build.build()
    fitted = fit_material(mech, TURN, measure(with_material(mech, 1.3, 0.0, 1.6e-3), 0.01), "tip", dt=3e-3)
    assert fitted.young == pytest.approx(1.3 * 2.5e9, rel=0.01)
    assert fitted.beta == pytest.approx(1.6e-3, rel=0.1)
    assert fitted.standard_errors["beta"] < 0.04 * fitted.beta
