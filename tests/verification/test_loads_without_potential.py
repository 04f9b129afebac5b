"""Torques fixed in the world and forces fixed in the body have no potential: flutter, divergence and the path there."""

from __future__ import annotations

import numpy as np
import pytest

import engine_reference
import mechanisms
import supple
from supple import spatial
from supple.engine.assembly import equations, loads
from supple.engine.linearisation import Linearisation, linearised
from supple.engine.newton import Newton
from supple.engine.stability import diverges, eigenvalues, has_potential
from supple.mechanism import Mechanism


def torqued_arm(seed: int) -> tuple[Mechanism, dict[str, np.ndarray]]:
    """A random arm, and a torque fixed in the world (with a force on some arms) that moves it far."""
    rng = np.random.default_rng(seed + 5000)
    bodies = int(rng.integers(3, 8))
    kinds = [("hinge",), ("hinge", "universal"), ("hinge", "ball", "slide")][seed % 3]
    mech = mechanisms.random_mechanism(rng, bodies, kinds, loops=0, branching=0.0)
    size = 10 ** rng.uniform(1, 2.3)
    force = rng.normal(size=3) * (rng.random() < 0.3)
    return mech, {mech.bodies[-1].name: size * np.concatenate([force, rng.normal(size=3)])}


def ziegler(damping: float = 0.0, mass: float = 1.0) -> Mechanism:
    """Ziegler's column: two links of 1 m and springs of 1 N m/rad, with point masses of 2 and 1 kg at their ends."""
    b = supple.Builder("ziegler", gravity=(0, 0, 0))
    b.body("lower", mass=2 * mass, centre=(1, 0, 0), inertia=(0, 0, 0))
    b.body("upper", spatial.pose(np.eye(3), [1.0, 0, 0]), mass=mass, centre=(1, 0, 0), inertia=(0, 0, 0))
    b.hinge("foot", "world", "lower", at=(0, 0, 0), axis="y", stiffness=1.0, damping=damping)
    b.hinge("knee", "lower", "upper", at=(1, 0, 0), axis="y", stiffness=1.0, damping=damping)
    b.site("top", "upper", at=(2, 0, 0))
    return b.build()


def pressed(mech: Mechanism, force: float) -> supple.engine.Equilibrium:
    """Under a force on the top that turns with the upper link."""
    return supple.equilibrium(mech, {"top": [-force, 0, 0, 0, 0, 0]}, frame="body")


# flutter


def test_flutter_load_of_the_undamped_column():
    """H. Ziegler, Ingenieur-Archiv 20 (1952): P = (7/2 - sqrt 2) c/l. The determinant is c^2 at any load."""
    mech, critical = ziegler(), 3.5 - np.sqrt(2)
    assert pressed(mech, critical - 1e-6).stable
    above = pressed(mech, critical + 1e-6)
    assert not above.stable
    assert above.snaps == ()
    assert not diverges(linearised(mech, above))
    assert not pressed(mech, 10.0).stable


@pytest.mark.parametrize("damping", [0.01, 0.1, 0.5])
def test_equal_dampers_lower_the_flutter_load(damping):
    """P = (41/28) c/l + d^2 / (2 m l^3)."""
    mech, critical = ziegler(damping), 41 / 28 + damping**2 / 2
    assert pressed(mech, critical - 1e-4).stable
    assert not pressed(mech, critical + 1e-4).stable


def test_frequencies_of_the_column():
    """K x = w^2 M x for the angles x of the links, M = [[3, 1], [1, 1]] and K = [[2 - P, P - 1], [-1, 1]]."""
    load = 1.9
    mass, stiffness = np.array([[3, 1], [1, 1]]), np.array([[2 - load, load - 1], [-1, 1]])
    squares = np.sort(np.linalg.eigvals(np.linalg.solve(mass, stiffness)))
    mech = ziegler()
    found = supple.modes(mech, pressed(mech, load))
    np.testing.assert_allclose(found.frequencies, np.sqrt(squares) / (2 * np.pi), rtol=1e-9)
    np.testing.assert_allclose(supple.modes(mech, pressed(mech, load), count=1).shapes, found.shapes[:1])
    angles = np.cumsum(found.shapes, axis=1)  # of the links
    for square, angle in zip(squares, angles, strict=True):
        np.testing.assert_allclose(stiffness @ angle, square * mass @ angle, atol=1e-9)
        assert angle @ mass @ angle == pytest.approx(1.0)
    with pytest.raises(supple.MechanismError, match=r"flutters .* complex frequencies 0\.131 \+- 0\.0269i Hz"):
        supple.modes(mech, pressed(mech, 2.2))


def test_frequencies_without_a_potential_have_no_gradient_here():
    mech = ziegler()
    with pytest.raises(supple.MechanismError, match="loads on 'ziegler' have no potential"):
        supple.gradient(mech, at=pressed(mech, 1.0), frequencies=[1.0])


@pytest.mark.parametrize(("seed", "grows"), [(42, True), (12, False)])
def test_small_motions_of_a_simulation_grow_or_decay(seed, grows):
    """The symmetric part of the stiffness is definite for the first arm, which flutters, and not for the second."""
    mech, load = torqued_arm(seed)
    eq = supple.equilibrium(mech, load)
    stiffness = linearised(mech, eq).stiffness
    assert (np.linalg.eigvalsh((stiffness + stiffness.T) / 2)[0] > 0) == grows
    assert eq.stable != grows
    rng = np.random.default_rng(0)
    sim = supple.Simulation(mech, 2e-3, "bdf2", at=eq, rates=1e-4 * rng.normal(size=mech.dof))
    sim.apply(*next(iter(load.items())))
    largest = []
    for _ in range(6):
        moved = []
        for _ in range(40):
            sim.step(10)
            moved.append(np.abs(sim.q - eq.q).max())
        largest.append(max(moved))
    assert (largest[-1] > 10 * largest[0]) if grows else (largest[-1] < 0.5 * largest[0])


# eigenvalues


def test_motions_without_mass_are_the_limit_of_light_ones():
    """Of three coupled motions one has no mass, and one neither mass nor damping."""
    rng = np.random.default_rng(5)
    stiffness = 10 * np.eye(3) + rng.normal(size=(3, 3))
    mass, damping = np.diag([2.0, 0, 0]), np.diag([0.3, 0.5, 0])
    found = eigenvalues(mass, damping, stiffness)
    assert len(found) == 3
    light = eigenvalues(mass + np.diag([0, 1e-9, 1e-12]), damping + np.diag([0, 0, 1e-7]), stiffness)
    for rate in found:
        assert np.abs(light - rate).min() < 1e-5 * abs(rate)
    left = np.diag([0, 0, 1.0])
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    again = eigenvalues(turned.T @ mass @ turned, turned.T @ damping @ turned, turned.T @ stiffness @ turned)
    np.testing.assert_allclose(np.sort_complex(again), np.sort_complex(found), rtol=1e-9)
    assert np.isinf(eigenvalues(mass, damping, stiffness - 30 * left)).any()  # nothing holds the third motion


def test_stability_of_a_column_without_mass():
    """Statics needs no mass. With light dampers at the hinges, K = [[1, P], [0, 1]] has no growing motion."""
    assert pressed(ziegler(mass=0.0), 10.0).stable
    assert pressed(ziegler(mass=0.0, damping=1.0), 10.0).stable


@pytest.mark.parametrize(("mass", "damping"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
def test_a_column_that_buckles_in_two_directions_at_once_is_not_stable(mass, damping):
    """The determinant of the stiffness is positive below and above the buckling load of 10 N."""
    b = supple.Builder("mast", gravity=(0, 0, 0))
    b.body("rod", mass=mass, centre=(0, 0, 1), inertia=(mass, mass, mass))
    b.universal("foot", "world", "rod", at=(0, 0, 0), axes=["x", "y"], stiffness=10.0, damping=damping)
    b.site("top", "rod", at=(0, 0, 1))
    mech = b.build()
    assert supple.equilibrium(mech, {"top": [0, 0, -9.9, 0, 0, 1e-3]}).stable
    above = supple.equilibrium(mech, {"top": [0, 0, -10.1, 0, 0, 1e-3]})
    assert np.linalg.det(linearised(mech, above).stiffness) > 0
    assert diverges(linearised(mech, above))
    assert not above.stable


# the path


def fine_path(mech: Mechanism, load: dict[str, np.ndarray]) -> tuple[float, np.ndarray]:
    """Share reached and coordinates (axes,) there, by Newton's method in steps of at most 0.02 of every coordinate."""
    eqs = equations(mech)
    begin, goal = eqs.unloaded(), eqs.acting(loads(mech, load))
    newton = Newton(eqs)
    assert newton.solve(begin.interpolated(goal, 0.0))
    share, step = 0.0, 0.01
    while share < 1 and step > 1e-7:
        before, following = newton.state, min(1.0, share + step)
        if newton.solve(begin.interpolated(goal, following), minimise=False):
            if np.abs(newton.state[0] - before[0]).max() < 0.02:
                share, step = following, 1.5 * step
                continue
            newton.state = before
        step /= 2
    return share, newton.state[0]


@pytest.mark.parametrize("seed", [1, 5, 12, 42, 322])
def test_a_torque_at_once_ends_where_a_slow_one_does(seed):
    """Pivots of the tangent become negative along some of these paths. If 322 is loaded by a third at once, two of them
    are negative from the first iteration on, the determinant is positive, and Newton's method leaves the branch."""
    mech, load = torqued_arm(seed)
    eq = supple.equilibrium(mech, load)
    share, q = fine_path(mech, load)
    assert share == 1
    assert eq.snaps == ()
    np.testing.assert_allclose(eq.state[0], q, atol=1e-7)


@pytest.mark.parametrize(("seed", "joint"), [(41, "joint3"), (68, "joint2"), (122, "joint2"), (224, "joint1")])
def test_a_path_goes_on_to_the_half_turn_of_a_ball_joint(seed, joint):
    """Negative pivots ended these paths at 31, 65, 34 and 52 % of the load, where the tangent is regular."""
    mech, load = torqued_arm(seed)
    with pytest.raises(supple.ConvergenceError, match=f"'{joint}' has made half a turn") as caught:
        supple.equilibrium(mech, load)
    assert caught.value.reason == "limit"
    assert np.linalg.norm(caught.value.state.coordinates[joint]) > np.pi - 1e-3
    assert caught.value.load_fraction == pytest.approx(fine_path(mech, load)[0], abs=1e-3)


@pytest.mark.parametrize("seed", [82, 103, 277, 310, 334])
def test_a_path_ends_where_the_determinant_is_zero(seed):
    """The error names the coordinate that moves most in the null vector. Arms 310 and 334 leave a limit on the way and
    move several times as fast from there. Newton's method finds another branch beyond the end of 103."""
    mech, load = torqued_arm(seed)
    with pytest.raises(supple.ConvergenceError) as caught:
        supple.equilibrium(mech, load)
    state = caught.value.state
    linear = linearised(mech, state)
    _, sizes, right = np.linalg.svd(linear.stiffness)
    assert sizes[-1] < 0.01 * np.linalg.svd(linearised(mech).stiffness, compute_uv=False)[-1]
    softest = list(linear.equations.axis)[int(np.abs(linear.free @ right[-1]).argmax())]
    assert caught.value.reason == "snap"
    assert f"snaps through there along '{softest}' (its stiffness falls to zero)" in str(caught.value)
    share, q = fine_path(mech, load)
    assert state.load_fraction == pytest.approx(share, abs=1e-4)
    np.testing.assert_allclose(state.state[0], q, atol=0.1)  # the coordinates move without limit there


def test_a_limit_ends_a_path_if_the_determinant_changes_its_sign_there():
    mech, load = torqued_arm(126)
    with pytest.raises(supple.ConvergenceError, match="'joint5' meets or leaves its limit") as caught:
        supple.equilibrium(mech, load)
    assert caught.value.reason == "limit"
    assert caught.value.load_fraction == pytest.approx(fine_path(mech, load)[0], abs=1e-4)
    linear = linearised(mech, caught.value.state)
    stiffness = linear.free @ linear.stiffness @ linear.free.T
    assert np.linalg.det(stiffness) > 0  # off all limits
    others = [i for i, name in enumerate(linear.equations.axis) if name != "joint5"]
    assert np.linalg.det(stiffness[np.ix_(others, others)]) < 0


@pytest.mark.parametrize(("seed", "stable"), [(15, False), (30, False), (94, True), (113, True), (162, True)])
def test_a_jump_leads_to_a_state_that_does_not_diverge(seed, stable):
    """It may flutter, as the states of a branch may."""
    mech, load = torqued_arm(seed)
    eq = supple.equilibrium(mech, load)
    assert eq.snaps[0] == pytest.approx(fine_path(mech, load)[0], abs=1e-4)
    assert eq.stable == stable
    assert not diverges(linearised(mech, eq))


def test_a_sweep_over_torques_and_forces_agrees_with_single_equilibria():
    mech, load = torqued_arm(12)
    ((tip, wrench),) = load.items()
    sets = [{tip: wrench}, {tip: [20.0, 10, 0, 0, 0, 0]}, {tip: 0.1 * wrench}]
    name = f"{mech.coordinates[0]}.stiffness"
    values = mech.parameters[name] * np.array([0.9, 1.0, 1.1])
    found = supple.sweep(mech, {name: values}, sets, tip).values
    for i, value in enumerate(values):
        for k, each in enumerate(sets):
            eq = supple.equilibrium(mech.with_parameters({name: value}), each)
            np.testing.assert_allclose(found[i, k], eq.poses[tip][:3, 3], atol=1e-7)


# the tangent


@pytest.mark.parametrize("frame", ["world", "body"])
@pytest.mark.parametrize("seed", range(12))
def test_the_sign_of_the_determinant_comes_from_the_factors(seed, frame):
    """Also with loops, and if the factorisation exchanges rows."""
    rng = np.random.default_rng([seed, 77])
    mech = engine_reference.unlimited(mechanisms.random_mechanism(rng, 5, loops=seed % 3))
    eqs = equations(mech)
    seen = set()
    for size in (0.0, 10.0, 100.0, 1000.0, 1e4):
        acting = eqs.acting(loads(mech, {mech.bodies[-1].name: size * rng.normal(size=6)}, frame))
        linear = Linearisation.at(eqs, acting, eqs.zero_state())
        assert linear.core.negative_determinant == (np.linalg.slogdet(linear.stiffness)[0] < 0)
        seen.add(linear.core.negative_determinant)
    assert False in seen


def asymmetry(mech: Mechanism, wrenches: dict[str, np.ndarray], frame: str) -> float:
    eq = supple.equilibrium(mech, wrenches, frame=frame)
    stiffness = linearised(mech, eq).stiffness
    return float(np.abs(stiffness - stiffness.T).max() / np.abs(stiffness).max())


PLANAR = {"hinges": ("hinge", "hinge", "hinge"), "with a slide": ("hinge", "slide", "hinge"), "slides": ("slide",) * 3}


def planar_arm(kinds: tuple[str, ...], axis: np.ndarray) -> Mechanism:
    """A chain whose hinges are all parallel to an axis (3,), with slides in any direction."""
    rng = np.random.default_rng(len(kinds))
    b = supple.Builder("planar", gravity=(0, 0, -9.81))
    at, before = np.zeros(3), "world"
    for i, kind in enumerate(kinds):
        end = at + rng.normal(size=3)
        b.link(f"link{i}", at, end, mass=1.0)
        along = axis if kind == "hinge" else rng.normal(size=3)
        getattr(b, kind)(f"joint{i}", before, f"link{i}", at=at, axis=along, stiffness=200.0)
        at, before = end, f"link{i}"
    return b.build()


@pytest.mark.parametrize("kinds", PLANAR.values(), ids=PLANAR)
def test_torques_on_a_planar_arm_have_a_potential(kinds):
    rng = np.random.default_rng(1)
    axis = rng.normal(size=3)
    mech = planar_arm(kinds, axis)
    for frame in ("world", "body"):
        torque = {"link2": np.array([0, 0, 0, *rng.normal(size=3)])}
        assert has_potential(mech, loads(mech, torque, frame))
        assert asymmetry(mech, torque, frame) < 1e-12
    force = {"link2": np.array([*rng.normal(size=3), 0, 0, 0])}
    assert has_potential(mech, loads(mech, force))
    turns = "hinge" in kinds
    assert has_potential(mech, loads(mech, force, "body")) != turns
    assert (asymmetry(mech, force, "body") > 1e-6) == turns
    along = {"link2": np.array([*(mech.poses["link2"][:3, :3].T @ axis), 0, 0, 0])}
    assert has_potential(mech, loads(mech, along, "body"))
    assert asymmetry(mech, along, "body") < 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_loads_on_spatial_mechanisms(seed):
    rng = np.random.default_rng([seed, 3])
    kinds = ("hinge", "universal", "ball", "slide")
    mech = engine_reference.unlimited(mechanisms.random_mechanism(rng, 5, kinds, loops=seed % 2, branching=0.0))
    body = mech.bodies[-1].name
    force, torque = (np.array([*rng.normal(size=3), 0, 0, 0]), np.array([0, 0, 0, *rng.normal(size=3)]))
    assert has_potential(mech, loads(mech, {body: force}))
    assert asymmetry(mech, {body: force}, "world") < 1e-9
    assert not has_potential(mech, loads(mech, {body: torque}))
    assert not has_potential(mech, loads(mech, {body: force}, "body"))
    assert has_potential(mech, loads(mech, {body: 0 * torque}, "body"))
    assert asymmetry(mech, {body: torque}, "world") > 1e-9


def test_the_antisymmetric_part_of_a_torque():
    """K(u, v) - K(v, u) = m . (w_u x w_v) for a torque m on a body that motions u, v turn by w_u, w_v; world axes."""
    mech, load = torqued_arm(12)
    ((body, wrench),) = load.items()
    eq = supple.equilibrium(mech, {body: wrench})
    linear = linearised(mech, eq)
    index = mech.body_index(body)
    turns = eq.poses[body][:3, :3] @ linear.motions[6 * index + 3 : 6 * index + 6]  # (3, m)
    expected = -turns.T @ spatial.skew(wrench[3:]) @ turns
    found = linear.stiffness - linear.stiffness.T
    assert np.abs(found).max() > 0.1 * np.abs(linear.stiffness).max()
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
