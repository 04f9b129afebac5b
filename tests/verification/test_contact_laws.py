"""Restitution, torsional and rolling friction, and BDF2 in a World: closed forms, MuJoCo, energy, levels of detail."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import supple
from mujoco_reference import load_quietly
from supple import spatial
from supple.mechanism import Shape
from supple.world import rigid_object

G = 9.81
RADIUS = 0.05


def world_with_floor(dt: float = 1e-3, **floor: object) -> supple.World:
    world = supple.World(dt)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), name="floor", **{"friction": (0, 0, 0), **floor}))
    return world


def ball_on_a_joint(method: str = "euler", dt: float = 1e-3, at: float = RADIUS, **shape: object) -> supple.Simulation:
    """A ball as a mechanism with a free joint, with the inertia of a rigid object."""
    twin = rigid_object("ball", "sphere", (RADIUS,), 0.5)
    b = supple.Builder("ball")
    form = Shape("sphere", (RADIUS,), np.eye(4), **{"friction": (0, 0, 0), **shape})
    b.body("ball", spatial.translation([0, 0, at]), twin.mass, inertia=twin.inertia, shapes=(form,))
    b.free("loose", "world", "ball")
    return supple.Simulation(b.build(), dt, method=method)


def peaks(heights: np.ndarray) -> np.ndarray:
    inner = (heights[1:-1] >= heights[:-2]) & (heights[1:-1] > heights[2:])
    return heights[1:-1][inner]


# restitution


@pytest.mark.parametrize("restitution", [0.5, 0.8, 1.0])
def test_heights_of_a_bouncing_ball_fall_by_the_square_of_the_restitution(restitution):
    world = world_with_floor(5e-4)
    world.add(rigid_object("ball", "sphere", (RADIUS,), 0.5, (0, 0, RADIUS + 0.5), restitution=restitution))
    heights, energies = [], [world.energy.total]
    for _ in range(3500):
        world.step()
        heights.append(world.pose("ball")[2, 3] - RADIUS)
        energies.append(world.energy.total)
    found = peaks(np.array(heights))[:3]
    np.testing.assert_allclose(found, 0.5 * restitution ** (2 * np.arange(1, len(found) + 1)), rtol=0.01, atol=8e-4)
    assert len(found) >= 2
    assert min(heights) > -1e-8
    assert np.diff(energies).max() < 1e-8  # J


def test_a_ball_comes_to_rest_below_the_bounce_speed():
    world = world_with_floor(restitution=0.6)  # of the floor: the larger one of a pair counts
    world.add(rigid_object("ball", "sphere", (RADIUS,), 0.5, (0, 0, RADIUS + 0.02)))
    world.step(1000)
    assert np.abs(world.velocity("ball")).max() < 1e-9
    assert world.force_on("ball")[2] == pytest.approx(0.5 * G, rel=1e-6)
    quiet = supple.World(1e-3, bounce_speed=5.0)
    quiet.ground(Shape("plane", (0, 0, 1), np.eye(4), restitution=0.9))
    quiet.add(rigid_object("ball", "sphere", (RADIUS,), 0.5, (0, 0, RADIUS + 0.02)))
    quiet.step(100)
    assert quiet.pose("ball")[2, 3] == pytest.approx(RADIUS, abs=1e-6)


def test_equal_balls_exchange_their_velocities():
    world = supple.World(1e-3, gravity=(0, 0, 0))
    for name, x, speed in (("a", 0.0, 2.0), ("b", 0.2, 0.0)):
        ball = rigid_object(name, "sphere", (RADIUS,), 0.5, (x, 0, 0), friction=0.0, restitution=1.0)
        world.add(ball, velocity=[speed, 0, 0, 0, 0, 0])
    world.step(100)
    assert world.velocity("a")[0] == pytest.approx(0.0, abs=3e-5)
    assert world.velocity("b")[0] == pytest.approx(2.0, abs=3e-5)


@pytest.mark.parametrize("seed", range(3))
def test_bounces_never_add_energy(seed):
    """Boxes and balls that tumble, slide, spin and hit each other."""
    rng = np.random.default_rng(seed)
    world = supple.World(1e-3)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), friction=(0.4, 0, 0), restitution=0.3))
    for i in range(6):
        kind = ("box", "sphere")[i % 2]
        size = (0.05, 0.08, 0.03) if kind == "box" else (0.05,)
        at, turn = (*rng.uniform(-0.1, 0.1, 2), 0.15 + 0.2 * i), spatial.so3_exp(rng.normal(size=3))
        law = {"friction": (rng.uniform(0, 1), 0.01, 0.002), "restitution": rng.uniform(0.5, 1)}
        world.add(rigid_object(f"o{i}", kind, size, rng.uniform(0.1, 2), at, turn, **law), velocity=rng.normal(size=6))
    before = world.energy.total
    for _ in range(600):
        world.step()
        after = world.energy.total
        # overlaps are pushed apart at 0.1 m/s at most
        assert after < before + 1e-4 * max(1.0, before)
        assert all(c.force @ c.normal >= -1e-9 for c in world.contacts)  # nothing pulls
        before = after


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_mechanism_bounces_like_an_object(method, sparse):
    world = world_with_floor()
    sim = ball_on_a_joint(method, at=RADIUS + 0.3, restitution=0.7)
    sim._core.use_passes(not sparse)
    world.add(sim)
    heights = []
    for _ in range(900):
        world.step()
        heights.append(sim.poses["ball"][2, 3] - RADIUS)
    np.testing.assert_allclose(peaks(np.array(heights))[:2], 0.3 * 0.7 ** (2 * np.arange(1, 3)), rtol=0.03)


# torsional and rolling friction


def test_a_spinning_ball_stops_by_torsional_friction():
    """I w' = -mu_t m g; without condim 4 it spins on."""
    spin, torsional = 20.0, 0.004
    for condim, expected in ((3, spin), (4, spin - torsional * G / (0.4 * RADIUS**2) * 0.2)):
        world = world_with_floor(friction=(0.5, torsional, 0), condim=condim)
        world.add(rigid_object("ball", "sphere", (RADIUS,), 0.5, (0, 0, RADIUS)), velocity=[0, 0, 0, 0, 0, spin])
        world.step(200)
        assert world.velocity("ball")[5] == pytest.approx(expected, rel=1e-4)
    assert world.contacts[0].torque[2] == pytest.approx(-torsional * 0.5 * G, rel=1e-4)
    world.step(1000)
    assert np.abs(world.velocity("ball")).max() < 1e-9


def test_a_spinning_disc_is_braked_by_its_rim_and_by_torsional_friction():
    """The cone is elliptic: each point of the rim slides and spins, which takes m g sqrt((mu r)^2 + mu_t^2)."""
    mu, torsional, r = 0.3, 0.02, 0.1
    world = world_with_floor(2e-4, friction=(mu, torsional, 0), condim=4)
    disc = rigid_object("disc", "cylinder", (r, 0.01), 2.0, (0, 0, 0.01), friction=0.0)
    world.add(disc, velocity=[0, 0, 0, 0, 0, 30.0])
    world.step(500)
    torque = 2.0 * G * np.hypot(mu * r, torsional)
    assert world.velocity("disc")[5] == pytest.approx(30.0 - torque / disc.inertia[2, 2] * 0.1, rel=1e-3)


def test_a_ball_rolls_to_rest_by_rolling_friction():
    """(m + I / r^2) a = mu_r m g / r, so it rolls the distance v^2 / (2 a)."""
    speed, rolling = 0.5, 0.002
    a = rolling * G / (1.4 * RADIUS)
    world = world_with_floor(friction=(0.8, 0, rolling), condim=6)
    ball = rigid_object("ball", "sphere", (RADIUS,), 0.5, (0, 0, RADIUS))
    world.add(ball, velocity=[speed, 0, 0, 0, speed / RADIUS, 0])
    world.step(round(1.2 * speed / a / 1e-3))
    assert np.abs(world.velocity("ball")).max() < 1e-9
    assert world.pose("ball")[0, 3] == pytest.approx(speed**2 / (2 * a), rel=0.01)
    world.apply("ball", [0.9 * rolling * 0.5 * G / RADIUS, 0, 0, 0, 0, 0])  # less than what starts it to roll
    world.step(200)
    assert np.abs(world.velocity("ball")).max() < 1e-6


@pytest.mark.parametrize("sparse", [False, True])
def test_a_mechanism_spins_and_rolls_like_an_object(sparse):
    law = {"friction": (0.5, 0.004, 0.002), "condim": 6}
    start = [0.4, 0.1, 0, 2.0, 5.0, 15.0]
    dt = 2.5e-4
    world = world_with_floor(dt, **law)
    sim = supple.Simulation(ball_on_a_joint(dt=dt).mechanism, dt, rates=start)
    sim._core.use_passes(not sparse)
    world.add(sim)
    world.add(rigid_object("twin", "sphere", (RADIUS,), 0.5, (0, 1, RADIUS), friction=0.0), velocity=start)
    for _ in range(3):
        world.step(240)
        pose = sim.poses["ball"] - world.pose("twin")
        np.testing.assert_allclose(pose[:3, 3], [0, -1, 0], atol=5e-4)
        turning = [m[:3, :3] @ v[3:] for m, v in ((sim.poses["ball"], sim.velocities["ball"]),
                                                  (world.pose("twin"), world.velocity("twin")))]  # fmt: skip
        np.testing.assert_allclose(turning[0], turning[1], atol=0.06)


START = np.array([1.0, 0.3, 0, 3.0, -4.0, 20.0])
COEFFICIENTS = 0.3, 0.01, 0.004


def exact_ball(seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Position (2,) and velocities (6,) of a ball that slides, spins and rolls: f_i = -N mu_i^2 u_i / |mu u|."""
    mu, mass, h = np.array(COEFFICIENTS)[[0, 0, 1, 2, 2]], 0.5, 1e-4
    down = np.array([0, 0, -RADIUS])

    def rate(y: np.ndarray) -> np.ndarray:
        slip = y[:3] + np.cross(y[3:], down)
        u = np.array([slip[0], slip[1], y[5], y[3], y[4]])
        f = -mass * G * mu**2 * u / (np.linalg.norm(mu * u) + 1e-12)
        force = np.array([f[0], f[1], 0.0])
        torque = np.cross(down, force) + [f[3], f[4], f[2]]
        return np.concatenate([force / mass, torque / (0.4 * mass * RADIUS**2)])

    y, x = START.copy(), np.zeros(2)
    for _ in range(round(seconds / h)):
        half = y + h / 2 * rate(y)
        x, y = x + h * half[:2], y + h * rate(half)
    return x, y


def test_a_ball_that_slides_spins_and_rolls():
    """The elliptic cone against its differential equation, and the distance against MuJoCo. MuJoCo's ball hops a little
    while it slides."""
    floor = {"friction": COEFFICIENTS, "condim": 6}
    world = world_with_floor(**floor)
    world.add(rigid_object("ball", "sphere", (RADIUS,), 0.5, (0, 0, RADIUS), friction=0.0), velocity=START)
    world.step(200)
    place, velocity = exact_ball(0.2)
    np.testing.assert_allclose(world.pose("ball")[:2, 3], place, rtol=3e-3)
    turning = world.pose("ball")[:3, :3] @ world.velocity("ball")[3:]
    np.testing.assert_allclose(turning, velocity[3:], atol=0.02)
    text = f"""<mujoco><option timestep="1e-4" cone="elliptic"/><default><geom solref="0.001 1"
    solimp="0.99 0.999 0.0001"/></default><worldbody><geom type="plane" size="5 5 1" friction="0 0 0"/>
    <body pos="0 0 {RADIUS}"><freejoint/><geom type="sphere" size="{RADIUS}" mass="0.5" condim="6"
    friction="{COEFFICIENTS[0]} {COEFFICIENTS[1]} {COEFFICIENTS[2]}"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qvel[:] = START
    mujoco.mj_step(model, data, 2000)
    np.testing.assert_allclose(world.pose("ball")[:2, 3], data.qpos[:2], rtol=0.015)


def press_on_a_turntable(level: str, dt: float = 1e-3) -> tuple[supple.World, supple.Simulation]:
    """A sprung finger with a spring about the vertical presses on a turntable, whose torsional friction turns it."""
    b = supple.Builder("finger", gravity=(0, 0, 0))
    tip = Shape("sphere", (0.02,), np.eye(4), friction=(0.5, 0.02, 0), condim=4)
    b.body("carriage", spatial.translation([0, 0, 0.2]), 0.5, inertia=(1e-3,) * 3)
    b.body("finger", spatial.translation([0, 0, 0.12]), 0.2, inertia=(1e-3,) * 3, shapes=(tip,))
    b.slide("lift", "world", "carriage", at=(0, 0, 0.2), axis="z", stiffness=500.0, damping=20.0)
    b.hinge("twist", "carriage", "finger", at=(0, 0, 0.12), axis="z", stiffness=2.0, damping=0.02)
    mech = b.build()
    sim: supple.Simulation | supple.ReducedSimulation
    if level == "full":
        sim = supple.Simulation(mech, dt)
    elif level == "blended":
        sim = supple.ReducedSimulation(supple.blend([supple.reduce(mech, ["finger"])]), dt)
    else:
        sim = supple.ReducedSimulation(supple.reduce(mech, ["finger"]), dt)
    world = supple.World(dt)
    world.add(sim)
    table = rigid_object("table", "cylinder", (0.2, 0.05), 10.0, (0, 0, 0.05), friction=0.0)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), friction=(0, 0, 0)))
    world.add(table, velocity=[0, 0, 0, 0, 0, 3.0])
    sim.set_target("lift", -0.05)
    return world, sim


@pytest.fixture(scope="module")
def turned_by_the_table() -> float:
    world, sim = press_on_a_turntable("full")
    world.step(700)
    return float(sim.q["twist"])


def test_a_turntable_turns_a_finger_by_torsional_friction(turned_by_the_table):
    """Spring torque = mu_t N, with N from the spring of the slide: it is pressed by 50 mm less the gap of 0 mm."""
    assert turned_by_the_table == pytest.approx(0.02 * 500 * 0.05 / 2.0, rel=0.05)


@pytest.mark.parametrize("level", ["reduced", "blended"])
def test_reduced_models_feel_torsional_friction(level, turned_by_the_table):
    world, sim = press_on_a_turntable(level)
    world.step(700)
    assert float(sim.q["twist"]) == pytest.approx(turned_by_the_table, rel=0.02)


# BDF2


@pytest.mark.parametrize("passes", [True, False])
def test_bdf2_in_a_world_is_bdf2(passes):
    """Without contact a world steps a mechanism as it steps itself."""
    mech = supple.library.robot_arm(3).with_springs(stiffness=20.0, damping=0.01)

    def simulation() -> supple.Simulation:
        sim = supple.Simulation(mech, 2e-3, method="bdf2")
        sim._core.use_passes(passes)
        return sim

    alone, within = simulation(), simulation()
    world = supple.World(2e-3)
    world.add(within)
    for sim in (alone, within):
        sim.apply("tip", [0, 3.0, 0, 0, 0, 0])
    alone.step(100)
    world.step(100)
    np.testing.assert_allclose(within.q, alone.q, atol=1e-8)


def slider(method: str, dt: float) -> float:
    """Position of a block on a slope without friction, held by a spring along x, after 0.4 s."""
    b = supple.Builder("slider")
    b.body("block", spatial.translation([0, 0, 0.05]), 1.0, inertia=(1e-3,) * 3)
    ball = Shape("sphere", (0.05,), np.eye(4), friction=(0, 0, 0))
    b.body("foot", spatial.translation([0, 0, 0.05]), 1.0, inertia=(1e-3,) * 3, shapes=(ball,))
    b.slide("x", "world", "block", at=(0, 0, 0.05), axis="x", stiffness=200.0)
    b.slide("z", "block", "foot", at=(0, 0, 0.05), axis="z")
    turn = spatial.so3_exp(np.array([0.0, 0.3, 0.0]))
    place = spatial.pose(turn, np.array([0, 0, 0.05]) - turn @ [0, 0, 0.05])
    sim = supple.Simulation(b.build(), dt, method=method)
    world = supple.World(dt)
    world.ground(Shape("plane", (0, 0, 1), place, friction=(0, 0, 0)))
    world.add(sim)
    world.step(round(0.4 / dt))
    return float(sim.q["x"])


def test_bdf2_converges_with_second_order_in_a_lasting_contact():
    """(m_x + m_z tan^2) x'' + k x = m_z g tan"""
    tan = np.tan(0.3)
    mass, force = 2.0 + tan**2, G * tan
    rate = np.sqrt(200.0 / mass)
    exact = force / 200.0 * (1 - np.cos(rate * 0.4))
    errors = {method: [abs(slider(method, dt) - exact) for dt in (4e-3, 2e-3)] for method in ("euler", "bdf2")}
    assert 1.7 < errors["euler"][0] / errors["euler"][1] < 2.3
    assert errors["bdf2"][0] / errors["bdf2"][1] > 3.0
    assert errors["bdf2"][0] < 0.2 * errors["euler"][0]


def test_a_restored_bdf2_world_repeats_to_the_last_bit():
    world = world_with_floor(friction=(0.5, 0.005, 0.001), condim=6)
    sim = ball_on_a_joint("bdf2", at=RADIUS + 0.01, restitution=0.5)
    world.add(sim)
    world.step(60)
    saved = world.save()
    world.step(60)
    once = sim.poses["ball"].copy()
    world.restore(saved)
    world.step(60)
    assert (sim.poses["ball"] == once).all()


# files


def test_mjcf_has_condim_and_restitution(tmp_path):
    text = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><body name="b" pos="0 0 1"><freejoint/>
    <geom name="soft" type="sphere" size="0.1" condim="6" friction="0.7 0.01 0.002" solref="0.02 0.3"/>
    <geom name="direct" type="sphere" size="0.1" condim="1" solref="-10000 -10"/></body></worldbody></mujoco>"""
    (tmp_path / "a.xml").write_text(text, encoding="utf-8")
    mech = load_quietly(tmp_path / "a.xml")
    soft, direct = mech.bodies[0].shapes
    assert (soft.condim, direct.condim, mech.shapes[0].condim) == (6, 1, 3)
    assert soft.restitution == pytest.approx(0.451, abs=1e-3)  # measured in MuJoCo: 0.4514
    assert direct.restitution == pytest.approx(0.859, abs=2e-3)  # 0.8589
    assert mech.shapes[0].restitution == 0
    mech.save(tmp_path / "b.xml")
    mech.save(tmp_path / "b.json")
    for name in ("b.xml", "b.json"):
        again = load_quietly(tmp_path / name).bodies[0].shapes[0]
        assert (again.condim, *again.friction) == (6, 0.7, 0.01, 0.002)
        assert again.restitution == pytest.approx(soft.restitution, abs=1e-6)


@pytest.mark.parametrize(
    ("law", "message"),
    [({"condim": 2}, "condim of a sphere must be 1"), ({"restitution": 1.5}, "must be from 0 to 1"),
     ({"restitution": np.nan}, "restitution of a sphere")],
)  # fmt: skip
def test_bad_laws_raise(law, message):
    with pytest.raises(supple.MechanismError, match=message):
        Shape("sphere", (1.0,), np.eye(4), **law)
