"""Contact of stock robots: work of the solver, priority of shapes, warnings of large residuals."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import supple
from supple import spatial
from supple.mechanism import Shape
from supple.world import rigid_object

mujoco = pytest.importorskip("mujoco")

DT = 2e-3


def robot_world(path: Path, limp: bool = False) -> supple.World:
    """A robot 2 cm above its keyframe "home", with the keyframe's controls or without actuators."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mech = supple.load(path, keyframe="home")
    q = mech.reference.copy()
    q[2] += 0.02
    sim, world = supple.Simulation(mech, DT, q=q), supple.World(dt=DT)
    world.add(sim, "robot", self_contact=True)
    model = mujoco.MjModel.from_xml_path(str(path))
    for actuator in mech.actuators:
        control = model.key("home").ctrl[model.actuator(actuator.name).id]
        sim.set_control(actuator.name, None if limp else float(control))
    return world


@pytest.mark.filterwarnings("ignore::supple.RangeWarning")
def test_a_robot_on_its_limits_needs_few_steps_of_the_solver(robots):
    """go2's keyframe drives its knees onto their limits. Without the limits' impulses of the step before it needs many
    steps of the solver in almost every time step."""
    world = robot_world(robots / "unitree_go2" / "scene.xml")
    world.step(200)
    warm, cold = [], []
    for _ in range(100):
        saved = world.save()
        assert len(saved.limit_impulses)
        world._core.limit_impulses = np.zeros(0)
        world.step()
        cold.append(world._core.solver_steps)
        world.restore(saved)
        world.step()
        warm.append(world._core.solver_steps)
    assert np.median(warm) <= 10
    assert np.mean(cold) > 3 * np.mean(warm)


@pytest.mark.filterwarnings("ignore::supple.RangeWarning")
@pytest.mark.parametrize("limp", [False, True])
@pytest.mark.parametrize("robot", ["unitree_go2", "unitree_h1", "booster_t1", "google_barkour_vb"])
def test_the_work_of_every_step_is_bounded(robot, limp, robots):
    world = robot_world(robots / robot / "scene.xml", limp)
    for _ in range(400):
        world.step()
        assert world._core.solver_steps <= 500
        assert world.residual < 2e-3


def test_limits_repeat_to_the_last_bit(robots):
    world = robot_world(robots / "unitree_go2" / "scene.xml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)
        world.step(150)
        saved = world.save()
        world.step(50)
        first = world.poses.array.copy()
        world.restore(saved)
        world.step(50)
    np.testing.assert_array_equal(world.poses.array, first)


PRIORITIES = """
<mujoco><worldbody>
  <geom name="floor" type="plane" size="1 1 1" friction="{}" priority="{}" condim="{}"/>
  <body pos="0 0 0.0999"><freejoint/>
    <geom name="ball" type="sphere" size="0.1" mass="1" friction="{}" priority="{}" condim="{}"/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize(
    "values",
    [
        ("0.9 0.1 0.2", 0, 6, "0.3 0.02 0.03", 1, 3),
        ("0.9 0.1 0.2", 2, 6, "0.3 0.02 0.03", 1, 3),
        ("0.9 0.01 0.2", 1, 3, "0.3 0.02 0.03", 1, 4),
        ("0.2 0.01 0.2", 0, 1, "0.7 0.02 0.03", 0, 6),
        ("0.2 0.01 0.2", -1, 6, "0.7 0.02 0.03", 0, 4),
    ],
)
def test_priority_as_in_mujoco(values, tmp_path):
    """The rows of the contact problem have the friction and condim of MuJoCo's contact of the same file."""
    file = tmp_path / "ball.xml"
    file.write_text(PRIORITIES.format(*values))
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    contact = data.contact[0]
    mech = supple.load(file)
    again = supple.load(mech.save(tmp_path / "again.xml") or tmp_path / "again.xml")
    copied = supple.load(mech.save(tmp_path / "again.json") or tmp_path / "again.json")
    for each in (mech, again, copied):
        world = supple.World()
        world.add(supple.Simulation(each, 1e-3), "ball")
        world.step()
        W, _, friction, _ = supple._core.contact_testing.friction_problem(world._core)
        assert friction[0] == pytest.approx(contact.friction[0] if contact.dim > 1 else 0.0)
        moments = np.diag(W)[3:]
        assert len(moments) == (3 if contact.dim > 3 else 0)
        if contact.dim > 3:
            lengths = contact.friction[[2, 3, 4]] / contact.friction[0] * [1, contact.dim > 4, contact.dim > 4]
            inertia = 0.4 * 1 * 0.1**2
            np.testing.assert_allclose(moments, lengths**2 / inertia, rtol=1e-6, atol=1e-15)


def test_priority_is_a_whole_number():
    with pytest.raises(supple.MechanismError, match="priority"):
        Shape("sphere", (0.1,), np.eye(4), priority=0.5)  # type: ignore[arg-type]


def test_a_large_residual_is_warned_of_once():
    """A heap that the solver cannot solve in its bounded work; the warning names the pair and the error in m/s."""
    world = supple.World(dt=5e-3)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), name="floor"))
    for i in range(12):
        box = rigid_object(
            f"box_{i}", "box", (0.05, 0.05, 0.05), 10.0 ** (i % 7 - 3), (0.02 * (i % 2), 0.0, 0.05 + 0.1 * i)
        )
        world.add(box, velocity=(0, 0, -30.0, 2, 3, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        worst = 0.0
        for _ in range(60):
            world.step()
            worst = max(worst, world.residual)
    assert worst > 1e-4
    texts = [str(w.message) for w in caught if issubclass(w.category, supple.RangeWarning)]
    assert len(texts) == 1
    assert "m/s" in texts[0]
    assert "between 'box_" in texts[0]


def test_a_tumbling_box_does_not_sink_in():
    """Corners that are far from the floor at the start of a step are left out of its contact problem."""
    world = supple.World(dt=2e-3)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4)))
    world.add(rigid_object("box", "box", (0.1, 0.1, 0.1), 1.0, (0, 0, 0.3)), velocity=(2.0, 0, -3.0, 4.0, 8.0, 2.0))
    deepest = 0.0
    for _ in range(600):
        world.step()
        deepest = min([deepest, *(c.gap for c in world.contacts)])
    assert deepest > -2e-4
    assert world.pose("box")[2, 3] == pytest.approx(0.1, abs=1e-4)


@pytest.mark.filterwarnings("ignore::supple.RangeWarning", "ignore::supple.ImportWarning")
@pytest.mark.parametrize(("robot", "seed"), [("unitree_h1", 1), ("agility_cassie", 2)])
def test_a_step_that_does_not_converge_is_divided(robot, seed, robots):
    """Limp robots are pushed while they fall and land, with long steps: limits, light links, contact change at once."""
    mech = supple.load(robots / robot / "scene.xml", keyframe="home")
    rng, q = np.random.default_rng(seed), mech.reference.copy()
    q[2] += 0.3 + 0.3 * seed
    sim, world = supple.Simulation(mech, 5e-3, q=q), supple.World(dt=5e-3)
    world.add(sim, "robot", self_contact=True)
    for actuator in mech.actuators:
        sim.set_control(actuator.name, None)
    for k in range(160):
        if k % 20 == 0:
            body = mech.bodies[int(rng.integers(len(mech.bodies)))].name
            sim.apply(body, [*(10 * mech.mass * rng.normal(size=3)), 0, 0, 0])
        world.step()
    assert np.isfinite(sim.q).all()


def hopping_leg(tilt: float, inertia: float, speed: float) -> supple.World:
    """A trunk of 50 kg, moving in a plane, lands on a light foot, with the ankle nearly above the point in contact. A
    motor turns a wheel."""
    at = np.array([0, 0, 0.122])
    b = supple.Builder("leg", gravity=(0, 0, 0))
    b.body("cart", spatial.translation(at), 0.1, inertia=(1e-3,) * 3)
    b.slide("fall", "world", "cart", at, "z")
    b.body("trunk", spatial.translation(at), 50.0, inertia=(1.0,) * 3)
    b.slide("side", "cart", "trunk", at, "x")
    sole = at + 0.1 * np.array([np.sin(tilt), 0, -np.cos(tilt)])
    b.body(
        "foot", spatial.translation(sole), 0.2, inertia=(inertia,) * 3, shapes=(Shape("sphere", (0.02,), np.eye(4)),)
    )
    b.hinge("ankle", "trunk", "foot", at, "y")
    b.body("wheel", spatial.translation(at), 0.1, inertia=(1e-3,) * 3)
    b.hinge("axle", "world", "wheel", at, "y")
    b.motor("drive", "axle")
    world = supple.World(dt=2e-3)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), friction=(1.0, 0, 0)))
    mech = b.build()
    rates = [{"fall": -speed, "axle": 5.0}.get(name, 0.0) for name in mech.coordinates]
    world.add(supple.Simulation(mech, 2e-3, rates=rates, motors={"drive": lambda t: 5.0 * t}), "leg")
    return world


@pytest.mark.parametrize("inertia", [1e-3, 1e-4])
@pytest.mark.parametrize("speed", [3.0, 10.0])
@pytest.mark.parametrize("tilt", [0.01, 0.05, 0.2])
def test_a_landing_on_a_light_foot_adds_no_energy(tilt, speed, inertia):
    """The force of the landing, constant in a step, would turn the foot by radians in a step that is not divided."""
    world = hopping_leg(tilt, inertia, speed)
    start = before = world.energy.total
    for k in range(10):
        world.step()
        assert world.energy.total < before + 1e-3 * start  # the floor and the hinge take energy
        before = world.energy.total
        assert world.q["leg:axle"] == pytest.approx(5.0 * 2e-3 * (k + 1), abs=1e-9)  # set-points are divided, too
        assert world.time == pytest.approx(2e-3 * (k + 1), rel=1e-12)


def test_divided_steps_repeat_to_the_last_bit():
    world = hopping_leg(0.05, 1e-3, 10.0)
    saved = world.save()
    world.step(10)
    first = world.poses.array.copy()
    world.restore(saved)
    world.step(10)
    np.testing.assert_array_equal(world.poses.array, first)


def test_a_contact_that_can_hardly_move_does_not_take_the_regularisation_of_others():
    """What regularises a contact has a least size beside its own response, however heavy other objects are: without it
    wedged contacts are undetermined."""

    def responses(*others: supple.mechanism.Body) -> np.ndarray:
        world = supple.World()
        world.ground(Shape("plane", (0, 0, 1), np.eye(4)))
        for body in (rigid_object("crate", "box", (0.1, 0.1, 0.1), 1.0, (0, 0, 0.1)), *others):
            world.add(body)
        world.step()
        W, *_ = supple._core.contact_testing.friction_problem(world._core)
        return np.diag(W)[:12]

    heavy, heavier = (rigid_object("rock", "box", (0.1, 0.1, 0.1), mass, (5, 0, 0.1)) for mass in (1e6, 1e9))
    np.testing.assert_array_equal(responses(heavy), responses(heavier))
    assert (responses(heavy)[::3] < responses()[::3]).all()  # the normal directions
