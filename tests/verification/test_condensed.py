"""Condensed models against the engine: statics anywhere, work around cycles, frequencies, responses, random loads."""

import numpy as np
import pytest

import supple
from condensed_reference import LIBRARY, ROBOT_FILES, apart, displacement, robot, wrenches_reaching
from supple import spatial


def models():
    return pytest.mark.parametrize("name", LIBRARY)


def own_axes(eq, wrenches):
    """Wrenches in world axes, turned into the bodies' own: (6e,)."""
    parts = [(eq.poses[name][:3, :3].T @ np.reshape(w, (2, 3)).T).T.ravel() for name, w in wrenches.items()]
    return np.concatenate(parts)


def compare_statics(name, count):
    """Random wrenches up to a relative displacement of 1.5, by wrench and by pose, against `equilibrium`."""
    mech, tips = LIBRARY[name]
    model = supple.condense(mech, tips)
    linear, rng, done, others = model.linear(), np.random.default_rng(7), 0, 0
    while done < count:
        wrenches = wrenches_reaching(linear, rng, rng.uniform(0, 1.5))
        try:
            full = supple.equilibrium(mech, wrenches)
        except supple.ConvergenceError:
            continue  # buckles
        if displacement(linear, full) > 1.5:
            continue
        done += 1
        loaded = model.under(wrenches)
        if apart(loaded.poses.array, full.poses.array, mech.radius) > 1e-7:  # another stable state under the same load
            assert full.stable
            others += 1
            full = supple.equilibrium(mech, wrenches, start=loaded.equilibrium)
            assert full.stable
        assert apart(loaded.poses.array, full.poses.array, mech.radius) < 1e-7
        # from nearby: a pose of the tips may have several equilibria of the interior
        nearly = model.under({tip: 0.98 * w for tip, w in wrenches.items()})
        held = model.at({tip: full.poses[tip] for tip in tips}, start=nearly)
        assert apart(held.poses.array, full.poses.array, mech.radius) < 1e-7
        torques = held.linear().linearisation.jacobian_of(tips).T
        wanted = torques @ own_axes(full, wrenches)
        assert np.abs(torques @ held.wrenches - wanted).max() < 1e-6 * np.abs(wanted).max()
        for pose in (loaded, held):
            assert pose.gap < 1e-8
            assert supple.reduced.joints.separation(mech, pose.poses.array).total < 1e-8
    assert others <= 0.01 * count


def test_a_large_load_does_not_lead_to_an_unstable_state():
    """Applied in one step, Newton's method converged to a saddle point at twice the displacement."""
    mech, tips = LIBRARY["ladder"]
    wrenches = {"tip": [5.87, -129.0, -84.26, -189.6, 44.86, -201.0]}
    full = supple.equilibrium(mech, wrenches)
    assert full.stable
    assert apart(supple.condense(mech, tips).under(wrenches).poses.array, full.poses.array, mech.radius) < 1e-7


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.long)])
@models()
def test_statics_are_those_of_the_engine(name, count):
    compare_statics(name, count)


@models()
def test_net_work_around_a_closed_path_is_zero(name):
    """A smooth closed path of the tips: the trapezoidal rule converges geometrically."""
    mech, tips = LIBRARY[name]
    model = supple.condense(mech, tips)
    linear = model.linear()
    pushes = [np.concatenate(list(wrenches_reaching(linear, np.random.default_rng(k), 0.3).values())) for k in (3, 4)]
    n, loaded, held, path = 64, None, None, []
    for angle in 2 * np.pi * np.arange(n) / n:
        push = (np.cos(angle) * pushes[0] + np.sin(angle) * pushes[1]).reshape(-1, 6)
        loaded = held = model.under(dict(zip(tips, push, strict=True)), "body", start=loaded)
        if linear.rank == 6 * len(tips):  # any pose nearby can be reached: the wrench is that of the pose alone
            held = model.at({tip: loaded.poses[tip] for tip in tips}, start=path[-1] if path else None)
        path.append(held)
    waves = np.fft.fftfreq(n, 1 / n)[:, None] * (np.abs(np.fft.fftfreq(n, 1 / n)) < n / 2)[:, None]
    work = 0.0
    for i, tip in enumerate(tips):  # velocity of the path by Fourier differentiation of log(H_0^-1 H)
        twists = np.array([spatial.log(np.linalg.inv(path[0].poses[tip]) @ pose.poses[tip]) for pose in path])
        rates = np.fft.ifft(1j * waves * np.fft.fft(twists, axis=0), axis=0).real
        for pose, twist, rate in zip(path, twists, rates, strict=True):
            work += pose.wrenches[6 * i : 6 * i + 6] @ spatial.right_jacobian(twist) @ rate * 2 * np.pi / n
    involved = np.ptp([pose.energy for pose in path])
    assert involved > 1
    assert abs(work) < 1e-8 * involved


def step_response(simulation, tip, wrench, steps):
    simulation.apply(tip, wrench)
    path = []
    for _ in range(steps):
        simulation.step(5)
        path.append(simulation.poses[tip][:3, 3].copy())
    return np.array(path)


@pytest.mark.parametrize("name", ["ladder", "robot_arm", "y", "loop"])
def test_a_pull_moves_the_tip_as_in_the_engine(name):
    """Up to a relative displacement of a quarter and more, where a linear model is off."""
    mech, tips = LIBRARY[name]
    linear = supple.reduce(mech, tips)
    push = wrenches_reaching(linear, np.random.default_rng(1), 0.3)[tips[0]]
    full = step_response(supple.Simulation(mech, 2e-3), tips[0], push, 60)
    exact = step_response(supple.ReducedSimulation(supple.condense(mech, tips), 2e-3), tips[0], push, 60)
    straight = step_response(supple.ReducedSimulation(linear, 2e-3), tips[0], push, 60)
    moved = np.linalg.norm(full - full[0], axis=1).max()
    off, linear_off = (np.linalg.norm(path - full, axis=1).max() / moved for path in (exact, straight))
    assert off < 0.1
    assert off < linear_off


def stiffness_under(linear, wrenches):
    """(6e, 6e) stiffness of a linear model under wrenches (6e,), in the end effectors' axes, that are fixed in the
    world: the symmetric part of the stiffness for wrenches that turn with the tips, minus [[0, [f]], [0, [t]]] of
    each."""
    stiffness = linear.stiffness.copy()
    for i in range(0, len(wrenches), 6):
        turned = np.vstack([spatial.skew(wrenches[i : i + 3]), spatial.skew(wrenches[i + 3 : i + 6])])
        stiffness[i : i + 6, i + 3 : i + 6] -= turned
    return (stiffness + stiffness.T) / 2


@pytest.mark.parametrize("name", ["robot_arm", "y", "loop", "ladder", "helix"])
@pytest.mark.parametrize("far", [0.0, 0.7])
def test_the_first_frequency_is_that_of_the_engine_within_seven_percent(name, far):
    """Released near an equilibrium under forces, undamped, with second-order steps. (Torques fixed in the world are not
    conservative and change frequencies in other ways.)"""
    from scipy.linalg import eigh

    tips = LIBRARY[name][1]
    mech = getattr(supple.library, name)(**({"links": 50} if name == "helix" else {}), damping=0.0)
    model = supple.condense(mech, tips, method="bdf2")
    loads = wrenches_reaching(model.linear(), np.random.default_rng(2), far, torques=False)
    eq = supple.equilibrium(mech, loads)
    wanted = supple.modes(mech, at=eq).frequencies[0]
    # along the slowest mode of the linear model there
    pose = model.under(loads)
    linear = pose.linear()
    stiffness, basis = stiffness_under(linear, pose.wrenches), linear.basis
    squares, shapes = eigh(basis.T @ stiffness @ basis, basis.T @ linear.mass @ basis)
    found = np.sqrt(squares[0]) / (2 * np.pi)
    assert found == pytest.approx(wanted, rel=0.07)
    assert found > 0.999 * wanted  # a constraint only stiffens
    shape = 2e-3 * basis @ shapes[:, 0] / np.abs(shapes[:, 0]).max()
    measured = swing(model, loads, pose, shape, stiffness @ shape, found)
    assert measured == pytest.approx(found, rel=0.02)


def swing(model, loads, pose, shape, push, guess):
    """Frequency (Hz) of a small free vibration about a loaded pose in the condensed simulation, along twists (6e,). It
    starts where additional wrenches (6e,) hold it."""
    sim = supple.ReducedSimulation(model, 1 / (200 * guess))
    more = {name: np.array(w) for name, w in loads.items()}
    for i, name in enumerate(model.end_effectors):
        turn = pose.poses[name][:3, :3]
        more[name] = more[name] + np.concatenate([turn @ push[6 * i : 6 * i + 3], turn @ push[6 * i + 3 : 6 * i + 6]])
    start = model.under(more)
    sim._motion._solver.place(start.state, start.wrenches)
    for name, wrench in loads.items():
        sim.apply(name, wrench)
    i = int(np.abs(shape).argmax())
    name, axis = model.end_effectors[i // 6], i % 6
    values = []
    for _ in range(500):
        sim.step()
        twist = spatial.log(np.linalg.inv(pose.poses[name]) @ sim.end_effector_pose(name))
        values.append(twist[axis])
    values = np.array(values) - np.mean(values[:400])
    down = np.flatnonzero((values[:-1] > 0) & (values[1:] <= 0))
    crossing = down + values[down] / (values[down] - values[down + 1])
    return 1 / (np.diff(crossing).mean() * sim.dt)


REACH = 0.7
"""Static relative displacement under a random wrench. The displacement in motion may be larger."""


def jerk(mech, tips, dt, steps, reach, seed=0):
    """Random wrenches, changed every 20 steps; returns the core, the largest energy and the simulation."""
    model = supple.condense(mech, tips)
    linear, rng = model.linear(), np.random.default_rng(seed)
    sim = supple.ReducedSimulation(model, dt)
    largest = 0.0
    for _ in range(steps // 20):
        for name, wrench in wrenches_reaching(linear, rng, rng.uniform(0, reach), times=10).items():
            sim.apply(name, wrench)
        sim.step(20)
        energies = sim._motion._solver.engine.energies
        assert np.isfinite(energies).all()
        largest = max(largest, abs(sum(energies)))
    assert np.isfinite(sim.poses.array).all()
    return sim, largest


def in_one_piece(sim: supple.ReducedSimulation, largest: float, most: float) -> None:
    """After random wrenches: energy bounded (J), at most four iterations of the interior per step on average, joints
    closed."""
    core = sim._motion.core
    assert largest < most
    assert core.iterations <= 4 * core.steps or not sim.model.has_interior
    assert sim.separation.total < 1e-8


@models()
@pytest.mark.parametrize("dt", [1e-3, 1e-2])
def test_random_wrenches_keep_states_finite_and_joints_closed(name, dt):
    mech, tips = LIBRARY[name]
    in_one_piece(*jerk(mech, tips, dt, 1000, REACH), 3000)


@pytest.mark.parametrize("name", ROBOT_FILES)
@pytest.mark.parametrize("dt", [1e-3, 1e-2])
def test_robots_under_random_wrenches(robots, name, dt):
    mech, tips = robot(robots, name)
    in_one_piece(*jerk(mech, tips, dt, 200, REACH), 1e3)


def iterations(sim, steps):
    """Of each of so many steps."""
    core, counts = sim._motion.core, []
    for _ in range(steps):
        before = core.iterations
        sim.step()
        counts.append(core.iterations - before)
    return counts


@pytest.mark.parametrize("seed", range(6))
def test_steps_under_random_wrenches_converge_quadratically(seed):
    """A loop under a sudden wrench: with a tangent that lacks the geometric stiffness of reactions, up to 14
    iterations."""
    mech, tips = LIBRARY["loop"]
    model = supple.condense(mech, tips)
    sim = supple.ReducedSimulation(model, 1e-2)
    for name, wrench in wrenches_reaching(model.linear(), np.random.default_rng(seed), REACH, times=10).items():
        sim.apply(name, wrench)
    assert max(iterations(sim, 6)) <= 5


@pytest.mark.parametrize("tree", [True, False])
def test_steps_that_touch_a_limit_converge_quadratically(tree):
    """A finger on its limits: Newton's method in the coordinate takes more than five iterations in 6 % of the steps."""
    b = supple.Builder("finger", gravity=(0, 0, 0))
    before = "world"
    for i, name in enumerate(["knuckle", "link", "middle", "tip"]):
        at = spatial.pose(np.eye(3), (0.1 * i, 0, 0))
        b.body(name, at, mass=0.1, centre=(0.05, 0, 0), inertia=np.diag([1e-5, 1e-4, 1e-4]))
        b.hinge(f"joint_{i}", before, name, at[:3, 3], (0, 1, 0), stiffness=1.0, damping=0.05, limits=(0.0, 1.5))
        before = name
    if not tree:
        b.couple("tendon", {"joint_1": 1.0, "joint_2": -1.0}, stiffness=0.5)
    model, counts = supple.condense(b.build(), ["tip"]), []
    for size in (0.03, 0.1, 0.3):
        sim, rng = supple.ReducedSimulation(model, 1e-2), np.random.default_rng(0)
        for _ in range(15):
            sim.apply("tip", size * rng.normal(size=6) * ([1] * 3 + [0.1] * 3))
            counts += iterations(sim, 20)
    assert sim._motion.core.passes
    assert np.mean(np.array(counts) > 5) < 0.03


@pytest.mark.parametrize("tree", [True, False])
def test_a_state_at_rest_on_a_limit_does_not_move(tree):
    b = supple.Builder("flap", gravity=(0, 0, -9.81))
    b.link("flap", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("hinge", "world", "flap", (0, 0, 0), "y", stiffness=1.0, damping=0.1, limits=(-1.0, 0.1))
    if not tree:
        b.link("arm", (0, 1, 0), (1, 1, 0), mass=1.0)
        b.hinge("other", "world", "arm", (0, 1, 0), "y", stiffness=100.0)
        b.couple("tendon", {"hinge": 1.0, "other": -1.0}, stiffness=0.5)
    sim = supple.ReducedSimulation(supple.condense(b.build(), ["flap"]), 1e-3)
    assert sim._motion.core.passes
    start = sim.poses.array
    sim.step(200)
    np.testing.assert_allclose(sim.poses.array, start, rtol=0, atol=1e-9)
    assert np.abs(sim.velocities).max() < 1e-9


@pytest.mark.parametrize("interior", [True, False])
@pytest.mark.parametrize("tree", [True, False])
def test_an_inverted_pendulum_on_its_limit_starts_there(tree, interior):
    """Its weight acts as a negative spring. From the limit itself, where the stop has no torque yet, Newton's method
    went to the upright pose. A wheel with the same axis makes the lid the interior; else its limit is exact."""
    b = supple.Builder("lid", gravity=(0, 0, -9.81))
    b.link("lid", (0, 0, 0), (0.2, 0, 1.0), mass=1.0)
    b.hinge("hinge", "world", "lid", (0, 0, 0), "y", stiffness=0.1, damping=0.1, limits=(-1.5, 0.0))
    if not tree:
        b.couple("latch", {"hinge": 1.0}, stiffness=0.1)
    if interior:
        b.body("wheel", np.eye(4), mass=0.1, inertia=(1e-3, 1e-3, 1e-3))
        b.hinge("axle", "lid", "wheel", (0, 0, 0), "y", stiffness=1.0, damping=0.1)
    model = supple.condense(b.build(), ["wheel" if interior else "lid"])
    sim = supple.ReducedSimulation(model, 1e-3)
    assert model.has_interior == interior
    assert sim._motion.core.passes
    for _ in range(2):
        q = sim.coordinates["hinge"][0]
        assert 0 < q < 2e-3 if interior else abs(q) < 1e-12
        sim.step(200)


@pytest.mark.long
@models()
@pytest.mark.parametrize("dt", [1e-3, 1e-2])
def test_a_million_steps_under_random_wrenches(name, dt):
    mech, tips = LIBRARY[name]
    in_one_piece(*jerk(mech, tips, dt, 1_000_000, REACH), 30_000)


def test_the_final_state_under_random_wrenches_is_the_engines():
    """Also through the ladder's folded pose, where its interior snaps through to another branch at 3.2 s."""
    mech, tips = LIBRARY["ladder"]
    model = supple.condense(mech, tips)
    linear, rng = model.linear(), np.random.default_rng(0)
    sim, full = supple.ReducedSimulation(model, 1e-2), supple.Simulation(mech, 1e-2)
    for _ in range(18):
        for tip, wrench in wrenches_reaching(linear, rng, rng.uniform(0, 0.15)).items():
            sim.apply(tip, wrench)
            full.apply(tip, wrench)
        sim.step(20)
        full.step(20)
    assert sim._motion.core.snaps > 0
    assert full.energy.kinetic + full.energy.strain > 10
    assert apart(sim.poses.array, full.poses.array, mech.radius) < 0.1


@pytest.mark.parametrize("tree", [True, False])
def test_a_bistable_lever_on_its_limit_snaps_through(tree):
    """A bistable spring holds a lever on its limit until a heavy wheel loads the soft spring between them with 0.2 N m.
    The stable branch ends there, directly after a stable state, so that shorter steps do not help."""
    curve = supple.mechanism.Curve((-1.0, 2.0), (3.2, -5.8))
    b = supple.Builder("switch", gravity=(0, 0, 0))
    b.body("lever", np.eye(4), mass=0.01, centre=(0.05, 0, 0), inertia=(1e-4, 1e-4, 1e-4))
    b.hinge("pivot", "world", "lever", (0, 0, 0), "z", curves=(curve,), damping=0.01, limits=(0.0, 1.0))
    b.body("wheel", np.eye(4), mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.hinge("axle", "lever", "wheel", (0, 0, 0), "z", stiffness=1.0, damping=0.01)
    if not tree:
        b.couple("lash", {"pivot": 1.0}, stiffness=1e-3)
    mech = b.build()
    sim, full = supple.ReducedSimulation(supple.condense(mech, ["wheel"]), 1e-2), supple.Simulation(mech, 1e-2)
    assert sim._motion.core.passes
    for each in (sim, full):
        each.apply("wheel", [0, 0, 0, 0, 0, 1.0])
    while sim.coordinates["pivot"][0] < 0.5:
        wound = sim.coordinates["axle"][0]
        sim.step()
    assert wound == pytest.approx(0.2, abs=0.02)
    assert sim._motion.core.divisions > 0
    full.step(round(sim.time / 1e-2))
    assert apart(sim.poses["wheel"], full.poses["wheel"], 1.0) < 0.025  # its motion in one step


def planar_chain(links, bend):
    """Hinges about y along x, each bent by `bend` rad at the reference pose; a straight chain if that is zero."""
    b = supple.Builder("chain", gravity=(0, 0, 0))
    at = np.eye(4)
    before, turned = "world", 0.0
    for i in range(links):
        name = "tip" if i == links - 1 else f"link_{i}"
        b.body(name, at, mass=0.1, centre=(0.05, 0, 0), inertia=np.diag([1e-5, 1e-4, 1e-4]))
        b.hinge(f"hinge_{i}", before, name, at=at[:3, 3], axis=(0, 1, 0), stiffness=1.0, damping=0.1)
        turned += bend
        at = at @ spatial.pose(np.eye(3), (0.1, 0, 0)) @ spatial.exp(np.array([0, 0, 0, 0, bend, 0.0]))
        before = name
    return b.build()


def test_motion_through_the_stretched_pose_and_back():
    """A bent chain is pulled straight and released. The straight pose is singular: the tip cannot move along the
    chain."""
    mech = planar_chain(6, 0.3)
    model = supple.condense(mech, ["tip"])
    sim = supple.ReducedSimulation(model, 1e-3)
    highest = 0.0
    for sign in (1, -1, 1, -1):
        sim.apply("tip", [sign * 40.0, 0, -sign * 20.0, 0, 0, 0])
        sim.step(400)
        highest = max(highest, sum(sim._motion._solver.engine.energies))
    assert highest < 40
    sim.apply("tip", np.zeros(6))
    sim.step(60_000)  # the amplitude of its slowest vibration halves every second
    assert apart(sim.poses.array, model.rest.poses.array, mech.radius) < 1e-6


def test_pulled_through_the_folded_pose_and_back():
    """A handle pulls the tip from the stretched pose through the base to the stretched pose on the other side."""
    mech = planar_chain(6, 0.3)
    model = supple.condense(mech, ["tip"])
    sim = supple.ReducedSimulation(model, 1e-3)
    away, highest = [], 0.0
    for x in np.concatenate([np.linspace(0.75, -0.75, 400), np.linspace(-0.75, 0.75, 400)]):
        sim.pull("tip", (x, 0, 0), stiffness=500.0, damping=5.0)
        sim.step(10)
        away.append(np.linalg.norm(sim.poses["tip"][:3, 3]))
        highest = max(highest, sum(sim._motion._solver.engine.energies))
    assert min(away) < 0.02
    assert max(away) == pytest.approx(0.5, abs=1e-3)  # five links of 0.1 m before the last one's origin
    assert highest < 20
    assert sim._motion.core.iterations <= 4 * sim._motion.core.steps
    sim.pull("tip", None)
    sim.step(40_000)
    assert apart(sim.poses.array, model.rest.poses.array, mech.radius) < 1e-6


def test_a_handle_out_of_reach_is_stretched_while_the_chain_is_straight():
    mech = planar_chain(6, 0.3)
    sim = supple.ReducedSimulation(supple.condense(mech, ["tip"]), 1e-3)
    sim.pull("tip", (3.0, 0, 0), stiffness=200.0, damping=2.0)
    for _ in range(40):
        sim.step(100)
        assert np.isfinite(sim.poses.array).all()
    end = sim.poses["tip"][:3, 3]
    assert end[0] == pytest.approx(0.5, abs=2e-3)  # five links of 0.1 m before the last one's origin
    assert abs(end[2]) < 0.05
    full = supple.Simulation(mech, 1e-3)
    full.pull("tip", (3.0, 0, 0), stiffness=200.0, damping=2.0)
    full.step(4000)
    assert apart(sim.poses.array, full.poses.array, mech.radius) < 1e-5


def test_a_handle_out_of_reach_in_a_world():
    """A sudden force of 600 N with steps of 10 ms, which must be divided."""
    mech = planar_chain(6, 0.3)
    sim, world = supple.ReducedSimulation(supple.condense(mech, ["tip"]), 1e-2), supple.World()
    world.add(sim)
    sim.pull("tip", (3.0, 0, 0), stiffness=200.0, damping=2.0)
    world.step(400)
    assert sim._motion.core.divisions > 0
    assert sim.time == pytest.approx(world.time)
    assert sim.poses["tip"][:3, 3] == pytest.approx([0.5, 0, 0], abs=1e-4)


def test_the_ladder_at_its_reference_pose_is_rigid_along_itself():
    mech, tips = LIBRARY["ladder"]
    sim = supple.ReducedSimulation(supple.condense(mech, tips), 2e-3)
    sim.apply("tip", [0, 0, 1000.0, 0, 0, 0])
    sim.step(200)
    assert apart(sim.poses.array, sim.model.rest.poses.array, mech.radius) < 1e-9


def test_multipliers_of_redundant_loops_do_not_grow():
    """Opposite forces in the two rails of a ladder balance each other, so their size is not determined. If they are not
    removed, they grow from rounding errors, a thousandfold in 50,000 steps, until the rails buckle."""
    mech, tips = LIBRARY["ladder"]
    sim = supple.ReducedSimulation(supple.condense(mech, tips), 1e-3)
    solver = sim._motion._solver
    along = solver.engine.reactions
    along[mech.joint_index("right_pin_16")] = 1e4
    solver.place((solver.engine.q, along, solver.engine.mu), np.zeros(6))
    sim.apply("tip", [0, 50.0, 0, 0, 0, 0])
    assert max(iterations(sim, 20)) <= 4
    assert np.abs(solver.engine.reactions).max() < 500


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_the_order_of_time_steps(method):
    """Halving the step halves the error of backward Euler and quarters that of second-order steps."""
    mech, tips = LIBRARY["robot_arm"]
    model = supple.condense(mech, tips, method=method)

    def end(dt):
        sim = supple.ReducedSimulation(model, dt)
        sim.apply("tip", [10.0, 20.0, 0, 0, 0, 0])
        sim.step(round(0.2 / dt))
        return sim.poses["tip"]

    coarse, middle, fine = (end(dt) for dt in (4e-3, 2e-3, 1e-3))
    ratio = np.abs(coarse - middle).max() / np.abs(middle - fine).max()
    assert ratio == pytest.approx(2 if method == "euler" else 4, rel=0.25)


def test_limits_and_spring_curves():
    """A joint with a spring curve and one with a limit: statics are exact, and motion comes to rest there within the
    penetration of the stop."""
    curve = supple.mechanism.Curve(np.linspace(-1, 1, 9), 2 * np.linspace(-1, 1, 9) + 30 * np.linspace(-1, 1, 9) ** 3)
    b = supple.Builder("finger")
    b.body("link", np.eye(4), mass=0.1, centre=(0.05, 0, 0), inertia=np.diag([1e-5, 1e-4, 1e-4]))
    b.hinge("knuckle", "world", "link", (0, 0, 0), (0, 1, 0), curves=(curve,), damping=0.05)
    outer = spatial.pose(np.eye(3), (0.1, 0, 0))
    b.body("tip", outer, mass=0.1, centre=(0.05, 0, 0), inertia=np.diag([1e-5, 1e-4, 1e-4]))
    b.hinge("joint", "link", "tip", (0.1, 0, 0), (0, 1, 0), stiffness=1.0, damping=0.05, limits=(-0.3, 0.3))
    mech = b.build()
    model = supple.condense(mech, ["tip"])
    load = {"tip": [0, 0, -6.0, 0, 2.0, 0]}
    full = supple.equilibrium(mech, load)
    assert full.coordinates["joint"][0] == pytest.approx(0.3, abs=1e-9)
    assert apart(model.under(load).poses.array, full.poses.array, mech.radius) < 1e-9
    sim = supple.ReducedSimulation(model, 1e-3)
    sim.apply("tip", load["tip"])
    sim.step(5000)
    assert sim.coordinates["joint"][0] == pytest.approx(0.3, abs=1e-3)
    assert apart(sim.poses.array, full.poses.array, mech.radius) < 5e-3
