"""Motions and static shapes with closed-form solutions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import ellipj, ellipk

import supple
from supple import spatial

GRAVITY = 9.81
STILL = (0.0, 0.0, 0.0)
ORDERS = {"euler": 1, "bdf2": 2}


def order(errors: list[float]) -> float:
    """Of convergence, from the last two of a sequence with halved steps."""
    return float(np.log2(errors[-2] / errors[-1]))


# pendulums


def swing(mech: supple.Mechanism, q: float, dt: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    sim = supple.Simulation(mech, dt, "bdf2", q=[q])
    angles = [q]
    for _ in range(steps):
        sim.step()
        angles.append(sim.coordinates["hinge"][0])
    return np.arange(steps + 1) * dt, np.array(angles)


def crossing(times: np.ndarray, angles: np.ndarray) -> float:
    """Time of the first passage through zero, interpolated by a cubic."""
    i = int(np.flatnonzero(np.diff(np.sign(angles)))[0])
    near = slice(i - 1, i + 3)
    fit = np.polyfit(times[near] - times[i], angles[near], 3)
    return float(times[i] + brentq(lambda t: np.polyval(fit, t), 0, times[1]))


@pytest.mark.parametrize("amplitude", [0.01, 1.5])
def test_period_of_a_torsion_pendulum(amplitude):
    b = supple.Builder("torsion", gravity=STILL)
    b.body("disc", mass=1.0, inertia=(0.2, 0.2, 0.35))
    b.hinge("hinge", "world", "disc", at=(0, 0, 0), axis="z", stiffness=8.0)
    mech = b.build()
    period = 2 * np.pi * np.sqrt(0.35 / 8)  # at any amplitude
    errors = []
    for steps in (100, 200, 400):
        times, angles = swing(mech, amplitude, period / steps, steps // 3)
        errors.append(abs(4 * crossing(times, angles) / period - 1))
    assert errors[-1] < 2e-4
    assert order(errors) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("amplitude", [0.05, 1.0, 2.5])
def test_period_of_a_swinging_pendulum(amplitude):
    b = supple.Builder("pendulum")
    b.body("bob", mass=1.3, centre=(0, 0, -0.6), inertia=(0.02, 0.03, 0.01))
    b.hinge("hinge", "world", "bob", at=(0, 0, 0), axis="y")
    moment = 0.03 + 1.3 * 0.36
    natural = np.sqrt(moment / (1.3 * GRAVITY * 0.6))
    period = 4 * natural * ellipk(np.sin(amplitude / 2) ** 2)
    errors = []
    for steps in (400, 800, 1600):
        times, angles = swing(b.build(), amplitude, period / steps, steps // 3)
        errors.append(abs(4 * crossing(times, angles) / period - 1))
    assert errors[-1] < 1e-4
    assert order(errors) == pytest.approx(2, abs=0.1)
    if amplitude == 0.05:
        assert period == pytest.approx(2 * np.pi * natural, rel=2e-4)


# a beam


def elastica(load: float) -> tuple[float, float]:
    """Tip (x, drop) of a cantilever of unit length and bending stiffness under a dead end load downwards:
    theta'' = -load cos(theta), theta(0) = 0, theta'(1) = 0."""

    def along(curvature: float) -> np.ndarray:
        def slopes(_: float, y: np.ndarray) -> list[float]:
            return [y[1], -load * np.cos(y[0]), np.cos(y[0]), np.sin(y[0])]

        return solve_ivp(slopes, (0, 1), [0, curvature, 0, 0], rtol=1e-11, atol=1e-12).y[:, -1]

    curvature = brentq(lambda c: along(c)[1], 0, load, xtol=1e-13)
    end = along(curvature)
    return float(end[2]), float(end[3])


def hinged_cantilever(n: int, centred: bool) -> supple.Mechanism:
    """n hinges of stiffness n (unit length and bending stiffness): at the middle of n equal pieces of the beam,
    or where they start."""
    first = 0.5 / n if centred else 0.0
    at = first + np.arange(n) / n
    b = supple.Builder("cantilever", gravity=STILL)
    b.body("clamp", mass=1.0)
    b.fixed("clamped", "world", "clamp")
    before = "clamp"
    for i, start in enumerate(at):
        end = at[i + 1] if i + 1 < n else 1.0
        b.link(f"link{i}", (start, 0, 0), (end, 0, 0), mass=1.0)
        b.hinge(f"hinge{i}", before, f"link{i}", at=(start, 0, 0), axis="y", stiffness=float(n))
        before = f"link{i}"
    b.site("end", before, at=(1, 0, 0))
    return b.build()


@pytest.mark.parametrize(("centred", "expected"), [(True, 2), (False, 1)])
@pytest.mark.parametrize("load", [0.01, 3.0])
def test_a_chain_of_hinges_converges_to_the_beam(centred, expected, load):
    """Bending lumped at the middle of each piece is the midpoint rule (second order), at its start the
    rectangle rule (first order)."""
    exact = elastica(load)
    errors = []
    for n in (16, 32, 64, 128):
        eq = supple.equilibrium(hinged_cantilever(n, centred), {"end": [0, 0, -load, 0, 0, 0]})
        x, _, z = eq.poses["end"][:3, 3]
        errors.append(np.hypot(x - exact[0], -z - exact[1]) / exact[1])
    assert order(errors) == pytest.approx(expected, abs=0.1)
    assert errors[-1] < (1e-4 if centred else 2e-2)
    if load == 0.01:  # the straight beam's own formula
        assert exact[1] == pytest.approx(load / 3, rel=1e-4)


# a four-bar with one variable


class FourBar:
    """Ground, crank, coupler and rocker in the x-z plane, by the crank's angle alone.

    Angles are from x towards z; a hinge about y turns the other way. Springs at the crank's foot and between
    rocker and coupler, the others passive.
    """

    ground, crank, coupler, rocker = 1.0, 0.4, 0.9, 0.7
    masses = np.array([1.0, 2.0, 1.5])
    stiffness = 6.0, 3.0
    start = 1.1

    def angles(self, crank: float) -> np.ndarray:
        """Of crank, coupler and rocker: the open branch."""
        end = self.crank * np.array([np.cos(crank), np.sin(crank)])
        across = np.array([self.ground, 0]) - end
        distance = np.hypot(*across)
        lean = np.arccos((self.coupler**2 + distance**2 - self.rocker**2) / (2 * self.coupler * distance))
        coupler = np.arctan2(across[1], across[0]) + lean
        top = end + self.coupler * np.array([np.cos(coupler), np.sin(coupler)])
        return np.array([crank, coupler, np.arctan2(top[1], top[0] - self.ground)])

    def slopes(self, angles: np.ndarray) -> np.ndarray:
        """Of the angles by the crank's: from the velocity of the joint between coupler and rocker."""
        a, b, c = angles
        coupler = -self.crank * np.sin(a - c) / (self.coupler * np.sin(b - c))
        rocker = self.crank * np.sin(a - b) / (self.rocker * np.sin(c - b))
        return np.array([1.0, coupler, rocker])

    def mechanism(self, gravity: float = GRAVITY, damping: float = 0.0) -> supple.Mechanism:
        a, b, _ = self.angles(self.start)
        points = {"o": (0.0, 0.0), "d": (self.ground, 0.0)}
        points["p"] = self.crank * np.cos(a), self.crank * np.sin(a)
        points["q"] = (
            points["p"][0] + self.coupler * np.cos(b),
            points["p"][1] + self.coupler * np.sin(b),
        )
        corner = {name: (x, 0.0, z) for name, (x, z) in points.items()}
        builder = supple.Builder("four_bar", gravity=(0, 0, -gravity))
        ends = {"crank": "op", "coupler": "pq", "rocker": "dq"}
        for (name, (start, end)), mass in zip(ends.items(), self.masses, strict=True):
            builder.link(name, corner[start], corner[end], mass=mass)
        first, second = self.stiffness
        builder.hinge("foot", "world", "crank", at=corner["o"], axis="y", stiffness=first, damping=damping)
        builder.hinge("elbow", "crank", "coupler", at=corner["p"], axis="y")
        builder.hinge("pivot", "world", "rocker", at=corner["d"], axis="y")
        builder.hinge("top", "rocker", "coupler", at=corner["q"], axis="y", stiffness=second)
        return builder.build()

    def force(self, crank: float, torque: float = 0.0, gravity: float = GRAVITY) -> float:
        """Generalised force on the crank's angle: a torque on the rocker (counted from x to z), springs, weights."""
        angles = self.angles(crank)
        slopes = self.slopes(angles)
        turned = angles - self.angles(self.start)
        first, second = self.stiffness
        total = torque * slopes[2] - first * turned[0]
        total -= second * (turned[1] - turned[2]) * (slopes[1] - slopes[2])
        heights = [
            0.5 * self.crank * np.cos(angles[0]),
            self.crank * np.cos(angles[0]) + 0.5 * self.coupler * np.cos(angles[1]) * slopes[1],
            0.5 * self.rocker * np.cos(angles[2]) * slopes[2],
        ]
        return float(total - gravity * self.masses @ heights)

    def inertia(self, crank: float) -> float:
        """Twice the kinetic energy at unit rate of the crank."""
        a, b, _ = angles = self.angles(crank)
        slopes = self.slopes(angles)
        lengths = np.array([self.crank, self.coupler, self.rocker])
        spins = self.masses * (3 * (lengths / 20) ** 2 + lengths**2) / 12
        speeds = np.array(
            [
                [-0.5 * self.crank * np.sin(a), 0.5 * self.crank * np.cos(a)],
                [
                    -self.crank * np.sin(a) - 0.5 * self.coupler * np.sin(b) * slopes[1],
                    self.crank * np.cos(a) + 0.5 * self.coupler * np.cos(b) * slopes[1],
                ],
                [0.5 * self.rocker * slopes[2], 0.0],
            ]
        )
        return float(self.masses @ (speeds**2).sum(axis=1) + spins @ slopes**2)

    def motion(self, time: float) -> np.ndarray:
        """Crank's angle and rate after release from rest:  I theta'' + I' theta'^2 / 2 = force."""

        def rates(_: float, y: np.ndarray) -> list[float]:
            step = 1e-5
            slope = (self.inertia(y[0] + step) - self.inertia(y[0] - step)) / (2 * step)
            return [y[1], (self.force(y[0]) - slope * y[1] ** 2 / 2) / self.inertia(y[0])]

        return solve_ivp(rates, (0, time), [self.start, 0.0], rtol=1e-10, atol=1e-11, method="DOP853").y[:, -1]


@pytest.mark.parametrize("torque", [-4.0, -0.5, 0.0, 1.0, 2.5])
def test_a_sprung_four_bar_follows_its_one_variable_equation(torque):
    linkage = FourBar()
    mech = linkage.mechanism()
    eq = supple.equilibrium(mech, {"rocker": [0, 0, 0, 0, -torque, 0]})
    found = linkage.start - eq.coordinates["foot"][0]
    assert abs(linkage.force(found, torque)) < 1e-9
    root = brentq(linkage.force, found - 0.02, found + 0.02, args=(torque,), xtol=1e-14)
    turned = linkage.angles(root) - linkage.angles(linkage.start)
    expected = {
        "foot": -turned[0],
        "elbow": turned[0] - turned[1],
        "pivot": -turned[2],
        "top": turned[2] - turned[1],
    }
    for name, value in expected.items():
        assert eq.coordinates[name][0] == pytest.approx(value, abs=1e-9)
    slope = (linkage.force(root + 1e-5, torque) - linkage.force(root - 1e-5, torque)) / 2e-5
    assert eq.stable == (slope < 0)


def test_the_frequency_of_the_four_bar():
    linkage = FourBar()
    eq = supple.equilibrium(linkage.mechanism())
    angle = linkage.start - eq.coordinates["foot"][0]
    step = 1e-5
    slope = (linkage.force(angle + step) - linkage.force(angle - step)) / (2 * step)
    expected = np.sqrt(-slope / linkage.inertia(angle)) / (2 * np.pi)
    assert supple.modes(eq.mechanism, eq).frequencies == pytest.approx([expected], rel=1e-8)


# orders of the integrators


def errors_of(
    mech: supple.Mechanism,
    method: str,
    time: float,
    steps: tuple[int, ...],
    exact: Callable[[supple.Simulation], tuple[np.ndarray, np.ndarray]],
    **start,
) -> tuple[list[float], list[float]]:
    """Largest errors of positions and of velocities for numbers of steps."""
    positions, velocities = [], []
    for n in steps:
        sim = supple.Simulation(mech, time / n, method, **start)
        sim.step(n)
        position, velocity = exact(sim)
        positions.append(np.abs(position).max())
        velocities.append(np.abs(velocity).max())
    return positions, velocities


@pytest.mark.parametrize("method", ORDERS)
def test_order_on_a_chain(method):
    """A double pendulum of two point masses on rods of unit length."""

    def rates(_: float, y: np.ndarray) -> list[float]:
        a, b, va, vb = y
        s, c = np.sin(a - b), np.cos(a - b)
        bottom = 2 - c * c
        alpha = (GRAVITY * (np.sin(b) * c - 2 * np.sin(a)) - s * (va**2 * c + vb**2)) / bottom
        beta = (2 * (va**2 * s - GRAVITY * np.sin(b) + GRAVITY * np.sin(a) * c) + vb**2 * s * c) / bottom
        return [va, vb, alpha, beta]

    exact = solve_ivp(rates, (0, 1), [1.2, 2.0, 0.0, 0.5], rtol=1e-11, atol=1e-12, method="DOP853").y[:, -1]
    b = supple.Builder("double pendulum")
    for i, name in enumerate(("upper", "lower")):
        b.body(name, spatial.translation(np.array([0, 0, -float(i)])), 1.0, centre=(0, 0, -1))
        b.hinge(f"hinge{i}", ("world", "upper")[i], name, at=(0, 0, -i), axis="y")

    def error(sim: supple.Simulation) -> tuple[np.ndarray, np.ndarray]:
        a, b = (sim.coordinates[f"hinge{i}"][0] for i in range(2))
        return np.array([a, a + b]) - exact[:2], sim.velocities[:, 4] - exact[2:]

    steps = (1000, 2000, 4000) if method == "euler" else (400, 800, 1600)
    start = {"q": [1.2, 0.8], "rates": [0.0, 0.5]}
    for errors in errors_of(b.build(), method, 1.0, steps, error, **start):
        assert order(errors) == pytest.approx(ORDERS[method], abs=0.15)
        assert errors[-1] < {"euler": 5e-2, "bdf2": 5e-4}[method]


@pytest.mark.parametrize("method", ORDERS)
def test_order_on_a_closed_loop(method):
    linkage = FourBar()
    angle, rate = linkage.motion(0.6)
    angles = linkage.angles(angle)
    slopes = linkage.slopes(angles)

    def error(sim: supple.Simulation) -> tuple[np.ndarray, np.ndarray]:
        turned = -np.array([sim.coordinates["foot"][0], sim.coordinates["pivot"][0]])
        started = linkage.angles(linkage.start)
        spins = [(pose[:3, :3] @ twist[3:])[1] for pose, twist in zip(sim.poses, sim.velocities, strict=True)]
        return turned - (angles - started)[[0, 2]], -np.array(spins) - rate * slopes

    steps = (200, 400, 800) if method == "euler" else (100, 200, 400)
    for errors in errors_of(linkage.mechanism(), method, 0.6, steps, error):
        assert order(errors) == pytest.approx(ORDERS[method], abs=0.15)
        assert errors[-1] < {"euler": 4e-2, "bdf2": 5e-4}[method]


@pytest.mark.parametrize("method", ORDERS)
def test_order_with_joints_of_every_kind(method):
    """Successive differences of a spatial tree with springs, dampers, armatures, a motor and a coupling."""
    b = supple.Builder("zoo")
    rng = np.random.default_rng(1)
    kinds = ("universal", "ball", "cylindrical", "screw", "planar", "hinge")
    options = {
        "universal": {"axes": ("y", "z")},
        "cylindrical": {"axis": "x"},
        "screw": {"axis": "z", "pitch": 0.1},
        "planar": {"normal": "y"},
        "hinge": {"axis": (1, 2, 3)},
    }
    before = "world"
    for i, kind in enumerate(kinds):
        at = (0.3 * i, 0.0, 0.0)
        b.link(kind, at, (0.3 * (i + 1), 0, 0.1), mass=1.0, radius=0.1)
        k = 1 if kind in ("screw", "hinge") else 2 if kind in ("universal", "cylindrical") else 3
        springs = {"stiffness": rng.uniform(20, 60, k), "damping": rng.uniform(0.2, 1, k)}
        springs["armature"] = rng.uniform(0.01, 0.1, k)
        getattr(b, kind)(f"{kind} joint", before, kind, at=at, **options.get(kind, {}), **springs)
        before = kind
    b.couple("coupling", {"screw joint": 1.0, "hinge joint": -0.5}, stiffness=30.0, damping=0.5)
    b.couple("gear", {"universal joint.0": 1.0, "cylindrical joint.0": 0.5}, rigid=True)
    mech = b.build()

    ends = []
    for n in (100, 200, 400, 800) if method == "bdf2" else (400, 800, 1600, 3200):
        sim = supple.Simulation(mech, 0.4 / n, method)
        sim.apply("hinge", [3, 10, 5, 1, 0, 2])
        sim.step(n)
        ends.append((sim.poses.array, sim.velocities))
    for kind in (0, 1):
        differences = [np.abs(a[kind] - b[kind]).max() for a, b in itertools.pairwise(ends)]
        assert order(differences) == pytest.approx(ORDERS[method], abs=0.2)


def test_order_of_a_damped_handle():
    b = supple.Builder("slider", gravity=STILL)
    b.body("bob", mass=1.0, inertia=(1, 1, 1))
    b.slide("rail", "world", "bob", at=(0, 0, 0), axis="x")
    omega = np.sqrt(24.0)
    exact = 1 - np.exp(-1) * (np.cos(omega) + np.sin(omega) / omega)
    errors = []
    for n in (100, 200, 400):
        sim = supple.Simulation(b.build(), 1 / n, "bdf2")
        sim.pull("bob", (1, 0, 0), stiffness=25.0, damping=2.0)
        sim.step(n)
        errors.append(abs(sim.coordinates["rail"][0] - exact))
    assert order(errors) == pytest.approx(2, abs=0.15)


# the free rigid body


class Top:
    """An asymmetric body that nothing acts on: Euler's equations by Jacobi's elliptic functions."""

    moments = np.array([1.0, 2.0, 3.0])
    start = np.array([1.2, 0.0, 1.5])  # turns mostly about the axis of the largest moment

    def __init__(self) -> None:
        a, b, c = self.moments
        self.energy = self.moments @ self.start**2 / 2
        self.momentum = float(np.linalg.norm(self.moments * self.start))
        h, e = self.momentum**2, 2 * self.energy
        assert h > e * b
        self.sizes = np.sqrt([(e * c - h) / (a * (c - a)), (e * c - h) / (b * (c - b)), (h - e * a) / (c * (c - a))])
        self.rate = np.sqrt((c - b) * (h - e * a) / (a * b * c))
        self.parameter = (b - a) * (e * c - h) / ((c - b) * (h - e * a))

    def spin(self, time: float) -> np.ndarray:
        """Angular velocity (3,) in body axes: along a as cn, along b as sn, along c as dn."""
        sn, cn, dn, _ = ellipj(self.rate * time, self.parameter)
        return self.sizes * [cn, -sn, dn] if self._falls() else self.sizes * [cn, sn, dn]

    def _falls(self) -> bool:
        """Whether b's rate starts negative:  b' = (c - a) / b times the product of the others ."""
        a, b, c = self.moments
        return bool((c - a) / b * self.start[2] * self.start[0] < 0)


@pytest.mark.parametrize("method", ORDERS)
def test_tumbling(method):
    top = Top()
    b = supple.Builder("top", gravity=STILL)
    b.body("top", mass=1.0, centre=(0.1, -0.2, 0.3), inertia=top.moments)
    b.free("float", "world", "top")
    mech = b.build()
    # the centre of mass rests: its velocity in body axes is v + w x c = 0
    rates = [*(-np.cross(top.start, [0.1, -0.2, 0.3])), *top.start]
    time, errors, energies = 3.0, [], []
    for n in (500, 1000, 2000):
        sim = supple.Simulation(mech, time / n, method, rates=rates)
        momentum = sim.poses["top"][:3, :3] @ (top.moments * sim.velocities[0, 3:])
        assert sim.energy.total == pytest.approx(top.energy, rel=1e-12)
        sim.step(n)
        errors.append(np.abs(sim.velocities[0, 3:] - top.spin(time)).max())
        energies.append(abs(sim.energy.total - top.energy))
        kept = sim.poses["top"][:3, :3] @ (top.moments * sim.velocities[0, 3:])
        np.testing.assert_allclose(kept, momentum, atol=1e-8)  # to rounding: the world's momentum is differenced
        centre = (sim.poses["top"] @ [0.1, -0.2, 0.3, 1])[:3]
        np.testing.assert_allclose(centre, [0.1, -0.2, 0.3], atol={"euler": 2e-2, "bdf2": 1e-4}[method])
    assert order(errors) == pytest.approx(ORDERS[method], abs=0.1)
    assert order(energies) == pytest.approx(ORDERS[method], abs=0.1)
    assert errors[-1] < {"euler": 2e-2, "bdf2": 2e-5}[method]


@pytest.mark.parametrize("method", ORDERS)
def test_a_spinning_body_flies_straight(method):
    b = supple.Builder("disc", gravity=STILL)
    b.body("disc", mass=1.0, inertia=(1, 2, 2.5))
    b.free("float", "world", "disc")
    sim = supple.Simulation(b.build(), 2e-3, method, rates=[1, 0, 0, 0, 0, 10])
    sim.step(500)
    np.testing.assert_allclose(sim.poses["disc"][:3, 3], [1, 0, 0], atol=1e-9)
