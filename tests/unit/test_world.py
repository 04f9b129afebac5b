"""World: inputs, results, and errors for bad input."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import supple
from supple import spatial
from supple.mechanism import Body, Mesh, Shape
from supple.mechanism.shapes import HeightField
from supple.recording import Recording
from supple.world import rigid_object

FLOOR = Shape("plane", (0, 0, 1), np.eye(4), name="floor")


def arm(limits=(-np.inf, np.inf)) -> supple.Mechanism:
    b = supple.Builder("arm", gravity=(0, 0, 0))
    b.link("upper", (0, 0, 1), (0.5, 0, 1), 1.0, 0.05)
    b.hinge("hinge", "world", "upper", (0, 0, 1), "y", stiffness=50.0, damping=2.0, limits=limits)
    return b.build()


def moving(level: str, mech: supple.Mechanism, dt: float = 1e-3):
    if level == "full":
        return supple.Simulation(mech, dt)
    model = supple.reduce(mech, ["upper"])
    if level == "blended":
        turned = supple.equilibrium(mech, {"upper": [0, 0, 0, 0, 4.0, 0]})
        return supple.ReducedSimulation(supple.blend([model, supple.reduce(mech, ["upper"], at=turned)]), dt)
    return supple.ReducedSimulation(model, dt)


@pytest.fixture
def resting() -> supple.World:
    world = supple.World()
    world.ground(FLOOR)
    world.add(rigid_object("box", "box", (0.1, 0.1, 0.1), 1.0, (0, 0, 0.1)))
    return world


# what goes in


def test_the_step_is_that_of_the_first_mechanism():
    world = supple.World()
    world.add(moving("reduced", arm(), 2e-3))
    assert world.dt == 2e-3
    world.step(5)
    assert world.time == pytest.approx(0.01)
    assert world.mechanisms["arm"].time == pytest.approx(0.01)
    with pytest.raises(supple.MechanismError, match=r"steps by 0\.001 s and the world by 0\.002 s"):
        world.add(moving("full", arm(), 1e-3), "other")
    assert supple.World().dt == 1e-3


def test_ground_and_objects_take_the_step_of_a_mechanism_that_comes_later(resting):
    def made(world: supple.World, mechanism_first: bool) -> supple.World:
        if mechanism_first:
            world.add(moving("full", arm(), 2e-3))
        world.ground(FLOOR)
        world.add(rigid_object("box", "box", (0.1, 0.1, 0.1), 1.0, (3, 0, 0.1)), velocity=(1.0, 0, 0, 0, 0, 0))
        world.add(rigid_object("ball", "sphere", (0.1,), 1.0, (6, 0, 0.1)))
        world.add(rigid_object("ghost", "sphere", (0.1,), 1.0, (9, 0, 0.1)))
        world.exclude("ghost", "floor")
        world.apply("box", [0, 2.0, 0, 0, 0, 0])
        world.pull("ball", (6, 1, 0.1))
        if not mechanism_first:
            world.add(moving("full", arm(), 2e-3))
        return world

    late, early = made(supple.World(), False), made(supple.World(dt=2e-3), True)
    assert late.dt == 2e-3
    late.step(50)
    early.step(50)
    for name in ("box", "ball", "ghost"):
        np.testing.assert_allclose(late.pose(name), early.pose(name), rtol=0, atol=1e-12)
    assert late.pose("ball")[1, 3] > 0.01
    assert late.pose("ghost")[2, 3] < 0.09

    resting.step()
    with pytest.raises(supple.MechanismError, match=r"steps by 0\.002 s and the world by 0\.001 s.*World\(dt="):
        resting.add(moving("full", arm(), 2e-3))


@pytest.mark.parametrize("level", ["full", "reduced"])
def test_a_mechanism_carries_an_object_and_reports_the_contact(level):
    world = supple.World()
    sim = moving(level, arm())
    assert world.add(sim) == "arm"
    world.add(rigid_object("ball", "sphere", (0.05,), 0.5, (0.25, 0, 1.1001)))
    world.step(100)
    contact = next(c for c in world.contacts if np.linalg.norm(c.force) > 0)
    assert {contact.first, contact.second} == {"arm:upper", "ball"}
    assert abs(contact.normal[2]) > 0.9
    assert abs(contact.gap) < 1e-3
    np.testing.assert_allclose(world.force_on("arm"), -world.force_on("ball"))
    np.testing.assert_allclose(world.force_on("arm:upper"), world.force_on("arm"))
    assert world.objects == ("ball",)
    assert sim.poses["upper"][0, 0] is not None


def test_a_full_and_a_reduced_mechanism_touch_each_other():
    """One is simulated by the engine, the other by a reduced model; forces balance in both."""
    world = supple.World()
    lower = moving("full", arm())
    b = supple.Builder("bar", gravity=(0, 0, 0))
    b.link("beam", (0.2, -0.3, 1.15), (0.2, 0.3, 1.15), 1.0, 0.05)
    b.slide("lift", "world", "beam", (0.2, 0, 1.15), "z", stiffness=300.0, damping=5.0)
    upper = supple.ReducedSimulation(supple.reduce(b.build(), ["beam"]), 1e-3)
    world.add(lower)
    world.add(upper)
    upper.apply("beam", [0, 0, -40.0, 0, 0, 0])
    world.step(4000)
    force, (contact,) = world.force_on("bar"), [c for c in world.contacts if np.any(c.force)]
    assert force[2] == pytest.approx(40.0 + 300.0 * upper.coordinates["lift"][0], rel=1e-6)
    np.testing.assert_allclose(world.force_on("arm"), -force, atol=1e-12)
    lever = np.cross(contact.point - [0, 0, 1], -force)
    assert lever[1] == pytest.approx(50.0 * lower.coordinates["hinge"][0], rel=1e-5)


def test_forces_on_parts_with_unusual_names():
    """A colon in a mechanism's name, and a floor with the name of an object on it."""
    b = supple.Builder("left:leg")
    ball = Shape("sphere", (0.1,), np.eye(4))
    b.body("foot", spatial.translation([0, 0, 0.1]), 1.0, inertia=(1, 1, 1), shapes=(ball,))
    b.free("fall", "world", "foot")
    world = supple.World()
    world.add(supple.Simulation(b.build(), 1e-3))
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), name="left:leg"))
    world.step(10)
    for name in ("left:leg", "left:leg:foot"):
        assert world.force_on(name) == pytest.approx([0, 0, 9.81], abs=1e-6)


def test_bad_arguments_of_a_world(resting):
    with pytest.raises(supple.MechanismError, match="takes a Simulation, a ReducedSimulation or a Body, got Mechanism"):
        resting.add(arm())
    with pytest.raises(supple.MechanismError, match="something named 'box'"):
        resting.add(rigid_object("box", "sphere", (0.1,), 1.0))
    with pytest.raises(supple.MechanismError, match="needs a mass and an inertia"):
        resting.add(Body("ghost", np.eye(4)))
    sim = moving("full", arm())
    resting.add(sim)
    with pytest.raises(supple.MechanismError, match="in the world already"):
        resting.add(sim, "again")
    with pytest.raises(supple.MechanismError, match="'arm' is in a world, which steps it"):
        sim.step()
    with pytest.raises(supple.MechanismError, match="is in another world, as 'arm'"):
        supple.World().add(sim)
    assert (resting.pose("arm:upper") == sim.poses["upper"]).all()
    assert (resting.velocity("arm:upper") == sim.velocities["upper"]).all()
    with pytest.raises(supple.MechanismError, match="is a mechanism; name one of its bodies, as in 'arm:body'"):
        resting.pose("arm")
    with pytest.raises(supple.MechanismError, match="bx"):
        resting.pose("bx")
    with pytest.raises(supple.MechanismError, match="frame must be"):
        resting.apply("box", np.zeros(6), frame="tool")
    with pytest.raises(supple.MechanismError, match="must not be negative"):
        resting.pull("box", (0, 0, 1), stiffness=-1.0)
    with pytest.raises(supple.MechanismError, match="saved by another world"):
        resting.restore(sim.save())
    with pytest.raises(supple.MechanismError, match="whole number"):
        resting.step(-1)
    with pytest.raises(supple.MechanismError, match=r"named 'bx'; did you mean 'box'\?"):
        resting.force_on("bx")
    with pytest.raises(supple.MechanismError, match="made of Shape and HeightField, got str"):
        resting.ground("floor")  # type: ignore[arg-type]
    with pytest.raises(supple.MechanismError, match="rotation of 'crate' must have shape 3x3, got 4x4"):
        rigid_object("crate", "box", (1, 1, 1), 1.0, rotation=np.eye(4))
    with pytest.raises(supple.MechanismError, match="seconds must be a positive number of seconds, got nan"):
        supple.scenes.trampoline().run(np.nan)
    for wrong in ({"dt": 0.0}, {"compliance": -1.0}, {"correction": 0.0}, {"gravity": (0, 0)}, {"dt": np.nan}):
        with pytest.raises(supple.MechanismError):
            supple.World(**wrong)


@pytest.mark.parametrize("friction", [-0.1, np.nan, np.inf])
def test_friction_is_not_negative(friction):
    with pytest.raises(supple.MechanismError, match="friction"):
        rigid_object("block", "box", (1, 1, 1), 1.0, friction=friction)
    with pytest.raises(supple.MechanismError, match="friction"):
        HeightField(np.zeros((3, 3)), (1, 1), np.eye(4), friction=(friction, 0, 0))


def test_a_block_without_friction_keeps_sliding(resting):
    world = supple.World()
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), friction=(0, 0, 0)))
    puck = rigid_object("puck", "cylinder", (0.1, 0.02), 0.5, (0, 0, 0.02), friction=0.0)
    world.add(puck, velocity=[1.0, 0, 0, 0, 0, 0])
    world.step(1000)
    assert world.pose("puck")[0, 3] == pytest.approx(1.0, abs=1e-9)


def test_a_large_overlap_at_the_start_raises():
    block = Shape("box", (1, 1, 0.5), spatial.translation(np.array([0, 0, -0.5])), name="block")
    for other in (block, rigid_object("block", "box", (0.1, 0.1, 0.1), 1.0)):
        world = supple.World()
        if isinstance(other, Shape):
            world.ground(other)
        else:
            world.add(other)
        world.add(rigid_object("sunk", "box", (0.1, 0.1, 0.1), 1.0, (0, 0, 0.08)))
        for _ in range(2):
            with pytest.raises(supple.MechanismError, match=r"'\w+' and '\w+' overlap by 0\.\d+ m at the start"):
                world.step()


@pytest.mark.parametrize("depth", [0.004, 0.018, 0.15])
@pytest.mark.parametrize("floor", [FLOOR, HeightField(np.zeros((5, 5)), (1, 1), np.eye(4), name="floor")])
def test_what_begins_below_the_floor_is_pushed_out(depth, floor):
    world = supple.World()
    world.ground(floor)
    world.add(rigid_object("foot", "box", (0.1, 0.1, 0.1), 1.0, (0, 0, 0.1 - depth)))
    text = rf"below the floor at the start: 'foot and floor by {depth:.2g} m'; contact pushes them out at 0\.1 m/s"
    with pytest.warns(supple.StartWarning, match=text) as seen:
        world.step()
    assert seen[0].filename == __file__
    highest = 0.0
    for _ in range(round(depth / 0.1 / world.dt) + 100):
        assert world.velocity("foot")[2] <= world.correction + 1e-9
        world.step()
        highest = max(highest, world.pose("foot")[2, 3])
    assert world.pose("foot")[2, 3] == pytest.approx(0.1, abs=1e-6)
    assert highest < 0.1 + 1e-3


def test_a_small_overlap_separates_slowly():
    shallow = supple.World()
    shallow.ground(FLOOR)
    shallow.add(rigid_object("box", "box", (0.1, 0.1, 0.1), 1.0, (0, 0, 0.0995)))
    shallow.step(1)
    assert shallow.velocity("box")[2] <= shallow.correction + 1e-12  # separated no faster than this
    shallow.step(200)
    assert shallow.pose("box")[2, 3] == pytest.approx(0.1, abs=1e-9)


@pytest.mark.parametrize(
    "vertices",
    [np.zeros((4, 3)), np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.0]]), np.eye(3)],
    ids=["point", "flat", "three corners"],
)
def test_a_mesh_without_volume_raises(vertices):
    mesh = Mesh("sheet", vertices, np.array([[0, 1, 2]]))
    body = Body("thing", np.eye(4), 1.0, inertia=np.eye(3), shapes=(Shape("mesh", (), np.eye(4), mesh="sheet"),))
    with pytest.raises(supple.MechanismError, match="mesh 'sheet' has no volume"):
        supple.World().add(body, meshes=[mesh])
    with pytest.raises(supple.MechanismError, match="names the mesh 'sheet'"):
        supple.World().add(body)


def test_height_fields_are_checked():
    for heights, size in ((np.zeros((1, 5)), (1, 1)), (np.zeros((3, 3)), (1, 0)), (np.full((3, 3), np.nan), (1, 1))):
        with pytest.raises(supple.MechanismError):
            HeightField(heights, size, np.eye(4))


@pytest.mark.parametrize("shape", ["sphere", "box"])
def test_an_object_thrown_at_a_thousand_metres_a_second_stops_at_the_wall(shape):
    world = supple.World(gravity=(0, 0, 0))
    world.ground(
        Shape("plane", (0, 0, 1), spatial.pose(spatial.rotation_between([0, 0, 1], [-1.0, 0, 0]), [5.0, 0, 0]))
    )
    world.ground(Shape("box", (0.2, 2, 2), spatial.translation([-5.0, 0, 0]), name="thick"))
    size = (0.1,) if shape == "sphere" else (0.1, 0.1, 0.1)
    world.add(rigid_object("bullet", shape, size, 1.0), velocity=[1000.0, 0, 0, 0, 0, 0])
    world.add(rigid_object("other", shape, size, 1.0, (-1.0, 0, 0)), velocity=[-1000.0, 0, 0, 0, 0, 0])
    world.step(100)
    assert world.pose("bullet")[0, 3] == pytest.approx(4.9, abs=1e-3)
    assert world.pose("other")[0, 3] == pytest.approx(-4.7, abs=1e-3)
    assert world.energy.total < 1.0


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box", "cylinder", "ellipsoid"])
def test_a_thousand_metres_a_second_onto_uneven_ground(kind):
    """It stays above the ground, loses energy at every step, and the solver terminates."""
    size = {"sphere": (0.1,), "capsule": (0.1, 0.1), "box": (0.1, 0.1, 0.1), "cylinder": (0.1, 0.1),
            "ellipsoid": (0.1, 0.12, 0.15)}  # fmt: skip
    heights = np.random.default_rng(0).uniform(0, 0.02, (40, 40))
    world = supple.World(gravity=(0, 0, 0))
    world.ground(HeightField(heights, (3, 3), np.eye(4)))
    world.add(rigid_object("bullet", kind, size[kind], 1.0, (0, 0, 3.0)), velocity=[0, 0, -1000.0, 1.0, 0, 0])
    energy = world.energy.total
    for _ in range(20):
        world.step()
        assert world.energy.total <= energy * (1 + 1e-9) + 1e-2  # separating overlaps may add energy
        assert world.pose("bullet")[2, 3] > 0.05
        energy = world.energy.total
    assert energy < 0.05 * 500e3


@pytest.mark.parametrize("ratio", [1e-12, 1e-3, 1e3, 1e7])
def test_a_box_carries_one_that_is_far_lighter_or_heavier(ratio):
    world = supple.World()
    world.ground(FLOOR)
    world.add(rigid_object("lower", "box", (0.1, 0.1, 0.1), 1.0, (0, 0, 0.1)))
    world.add(rigid_object("upper", "box", (0.1, 0.1, 0.1), ratio, (0, 0, 0.3)))
    world.step(300)
    assert world.pose("lower")[2, 3] == pytest.approx(0.1, abs=1e-7)
    assert world.pose("upper")[2, 3] == pytest.approx(0.3, abs=1e-7)
    assert world.residual < 1e-8


@pytest.mark.parametrize("between", [False, True], ids=["nothing", "a box"])
def test_a_motor_drives_into_the_floor(between):
    """Neither can move: the motor's path is kept, the box between them is ignored, and the state stays finite."""
    b = supple.Builder("press", gravity=(0, 0, 0))
    ram = Shape("box", (0.2, 0.2, 0.05), np.eye(4))
    b.body("ram", spatial.translation([0, 0, 0.5]), 1.0, inertia=(0.1, 0.1, 0.1), shapes=[ram])
    b.slide("rise", "world", "ram", (0, 0, 0.5), "z")
    b.motor("drive", "rise")
    sim = supple.Simulation(b.build(), 1e-3, motors={"drive": lambda t: -0.5 * t})
    world = supple.World()
    world.add(sim)
    world.ground(FLOOR)
    if between:
        world.add(rigid_object("box", "box", (0.1, 0.1, 0.1), 1.0, (0, 0, 0.1)))
    world.step(1200)
    assert sim.poses["ram"][2, 3] == pytest.approx(-0.1, abs=1e-6)
    if between:
        assert np.linalg.norm(world.pose("box")[:3, 3]) < 1.0
        assert np.linalg.norm(world.velocity("box")) < 10.0


def test_a_mass_that_is_not_finite_raises():
    for mass in (np.inf, np.nan):
        with pytest.raises(supple.MechanismError, match="mass of 'lead' must be finite"):
            rigid_object("lead", "box", (1, 1, 1), mass)


def test_huge_forces_raise_and_leave_the_state_unchanged(resting):
    resting.step(10)
    kept = resting.save()
    resting.apply("box", [1e308, 1e308, 0, 0, 0, 1e308])
    with pytest.raises(supple.ConvergenceError, match="'box' has no solution"):
        resting.step(10)
    assert np.isfinite(resting.pose("box")).all()  # that after the last complete step
    assert resting.time < 0.02
    resting.apply("box", np.zeros(6))
    resting.restore(kept)
    resting.step(10)
    np.testing.assert_allclose(resting.pose("box")[:3, 3], [0, 0, 0.1], atol=1e-9)


def test_contact_in_a_direction_in_which_neither_side_can_move():
    """A tip that can move along z only is touched from the side: neither can move, and the state stays finite."""
    b = supple.Builder("piston", gravity=(0, 0, 0))
    b.body(
        "upper", spatial.translation([0, 0, 1.0]), 1.0, inertia=(1, 1, 1), shapes=[Shape("sphere", (0.1,), np.eye(4))]
    )
    b.slide("slide", "world", "upper", (0, 0, 1), "z", stiffness=100.0)
    world = supple.World()
    world.add(moving("reduced", b.build()))
    world.ground(Shape("box", (0.1, 1, 1), spatial.translation([0.1999, 0, 1.0]), name="wall"))
    world.step(100)
    assert np.isfinite(world.energy.total)
    assert world.mechanisms["arm" if "arm" in world.mechanisms else "piston"].poses["upper"][2, 3] == pytest.approx(1.0)


# what it does


def test_the_same_scene_gives_the_same_bits():
    ends = []
    for _ in range(2):
        scene = supple.scenes.hand()
        scene.run(0.6)
        ends.append((scene.world.pose("block"), scene.robot.poses.array.copy(), scene.world.contacts[0].force))
    for a, b in zip(*ends, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["hand", "hexapod", "trampoline"])
def test_a_restored_world_repeats_to_the_last_bit(name):
    scene = getattr(supple.scenes, name)()
    scene.run(0.5)
    kept = scene.world.save()
    scene.run(0.2)
    end = scene.robot.poses.array.copy()
    scene.world.restore(kept)
    assert scene.world.time == pytest.approx(0.5)
    scene.run(0.2)
    np.testing.assert_array_equal(scene.robot.poses.array, end)
    scene.world.reset()
    assert scene.world.time == 0.0
    with pytest.raises(supple.MechanismError, match="another world"):
        supple.World().restore(kept)


@pytest.mark.parametrize("seed", range(4))
def test_order_of_contacts_does_not_matter(seed):
    """Velocities agree to 1e-6 for any order of adding objects, while boxes slide and balls hit them."""
    rng = np.random.default_rng(seed)
    pushes = np.c_[rng.uniform(-1, 1, (8, 2)), np.zeros((8, 1)), rng.uniform(-2, 2, (8, 3))]
    size = (0.05, 0.05, 0.05)
    things = [rigid_object(f"thing_{i}", "box", size, 1.0 + i, (0.3 * i, 0.02, 0.05), friction=0.1 + 0.1 * i)
              for i in range(4)]  # fmt: skip
    things += [rigid_object(f"thing_{i}", "sphere", (0.04,), 1.0 + i, (0.3 * (i - 4) + 0.091, 0.01, 0.05), friction=0.3)
               for i in range(4, 8)]  # fmt: skip
    worlds = []
    for order in (range(8), rng.permutation(8)):
        world = supple.World()
        world.ground(FLOOR)
        for i in order:
            world.add(things[i], velocity=pushes[i] if i < 4 else [-1.0, 0.3, 0, 0, 0, 0])
        worlds.append(world)
    met = 0
    for _ in range(60):
        for world in worlds:
            world.step()
        first, second = (np.array([w.velocity(f"thing_{i}") for i in range(8)]) for w in worlds)
        np.testing.assert_allclose(first, second, atol=1e-6)
        met += sum({c.first, c.second}.isdisjoint({"floor"}) and np.any(c.force) for c in worlds[0].contacts)
    assert np.abs(first).max() > 0.1  # still in motion
    assert met > 3
    assert [c.first for c in worlds[0].contacts] != [c.first for c in worlds[1].contacts]


def test_wrenches_and_handles_act_on_objects():
    world = supple.World(gravity=(0, 0, 0))
    world.add(rigid_object("box", "box", (0.1, 0.2, 0.3), 2.0))
    world.apply("box", [4.0, 0, 0, 0, 0, 0])
    world.step(100)
    assert world.velocity("box")[0] == pytest.approx(0.2)
    world.apply("box", np.zeros(6))
    world.pull("box", (0, 0.5, 0), stiffness=200.0, damping=40.0)
    world.step(3000)
    np.testing.assert_allclose(world.pose("box")[:3, 3], [0, 0.5, 0], atol=1e-6)
    world.pull("box", None)
    world.apply("box", [0, 0, 0, 0, 0, 1.0], frame="body")
    world.step(10)
    assert world.velocity("box")[5] > 0


@pytest.mark.parametrize("level", ["full", "reduced", "blended"])
@pytest.mark.parametrize(("torque", "stop"), [(40.0, 0.2), (-40.0, -0.1)])
def test_joint_limits_hold_in_a_world(level, torque, stop):
    world = supple.World()
    sim = moving(level, arm((-0.1, 0.2)))
    world.add(sim)
    sim.apply("upper", [0, 0, 0, 0, torque, 0])
    world.step(2000)
    assert sim.coordinates["hinge"][0] == pytest.approx(stop, abs=1e-9)
    sim.apply("upper", np.zeros(6))
    world.step(3000)
    assert abs(sim.coordinates["hinge"][0]) < 1e-3


def test_a_finger_pressed_against_its_limit_grips():
    """Only the contact force presses the knuckle against its limit; a spring pulls it away. When the limit was not part
    of the contact problem, the friction was computed as if the knuckle could move, and the block slid."""
    b = supple.Builder("finger", gravity=(0, 0, 0))
    at = spatial.translation([0.3, 0, 0.3])
    tip = Shape("sphere", (0.02,), spatial.translation([-0.1, 0, -0.1]))
    b.body("slider", at, mass=0.5, inertia=(1e-3,) * 3)
    b.body("pad", at, mass=0.05, centre=(-0.1, 0, -0.1), inertia=(1e-5,) * 3, shapes=(tip,))
    b.slide("drive", "world", "slider", at[:3, 3], "x", stiffness=2000.0, damping=20.0)
    b.hinge("knuckle", "slider", "pad", at[:3, 3], "y", stiffness=1.0, damping=1e-3, limits=(0.0, 1.0))
    sim = supple.Simulation(b.build(), 1e-3)
    sim.set_target("drive", -0.03)
    world = supple.World()
    world.add(sim)
    world.ground(Shape("plane", (0, 0, 1), spatial.pose(spatial.so3_exp([0, np.pi / 2, 0]), [0, 0, 0]), name="wall"))
    world.add(rigid_object("block", "box", (0.08, 0.05, 0.05), mass=0.1, at=(0.08, 0, 0.2)))
    world.step(250)
    sim.set_target("knuckle", 0.5)
    world.step(250)
    height = world.pose("block")[2, 3]
    world.step(500)
    assert abs(sim.coordinates["knuckle"][0]) < 1e-3
    assert world.pose("block")[2, 3] == pytest.approx(height, abs=1e-4)


def test_limits_follow_set_points():
    """A set-point beyond the limit: the joint stops there in the reduced model as in the engine."""
    for level in ("full", "reduced", "blended"):
        world = supple.World()
        sim = moving(level, arm((-0.1, 0.2)))
        world.add(sim)
        sim.set_target("hinge", 0.5)
        world.step(2000)
        turned = sim.poses["upper"][:3, :3] @ arm().poses["upper"][:3, :3].T
        assert spatial.so3_log(turned)[1] == pytest.approx(0.2, abs=1e-6), level
        assert sim.coordinates["hinge"][0] == pytest.approx(0.2, abs=1e-6), level


def test_limits_of_a_blended_chain_act_as_in_the_engine():
    """Two hinges, both driven to their limits, between two models."""
    b = supple.Builder("chain", gravity=(0, 0, 0))
    b.link("upper", (0, 0, 1), (0.5, 0, 1), 1.0, 0.05)
    b.link("fore", (0.5, 0, 1), (0.9, 0, 1), 0.5, 0.05)
    spring = {"stiffness": 30.0, "damping": 2.0}
    b.hinge("shoulder", "world", "upper", (0, 0, 1), "y", **spring, limits=(-0.1, 0.25))
    b.hinge("elbow", "upper", "fore", (0.5, 0, 1), "y", **spring, limits=(-0.3, 0.2))
    mech = b.build()
    rest, bent = supple.reduce(mech, ["fore"]), supple.equilibrium(mech, {"fore": [0, 0, -4.0, 0, 5.0, 0]})
    model = supple.blend([rest, supple.reduce(mech, ["fore"], at=bent)])
    places = []
    for sim in (supple.Simulation(mech, 1e-3), supple.ReducedSimulation(model, 1e-3)):
        world = supple.World()
        world.add(sim)
        sim.apply("fore", [0, 0, -40.0, 0, 20.0, 0])
        world.step(4000)
        places.append(sim.poses["fore"])
        assert sim.coordinates["shoulder"][0] == pytest.approx(0.25, abs=1e-6)
        assert sim.coordinates["elbow"][0] == pytest.approx(0.2, abs=1e-6)
    np.testing.assert_allclose(places[1], places[0], atol=5e-3)


def test_motors_run_in_a_world():
    b = supple.Builder("lift", gravity=(0, 0, 0))
    b.body("upper", np.eye(4), 1.0, inertia=(0.1, 0.1, 0.1), shapes=[Shape("box", (0.2, 0.2, 0.05), np.eye(4))])
    b.slide("rise", "world", "upper", (0, 0, 0), "z")
    b.motor("drive", "rise")
    sim = supple.Simulation(b.build(), 1e-3, motors={"drive": lambda t: 0.1 * t})
    world = supple.World()
    world.add(sim)
    world.add(rigid_object("cargo", "sphere", (0.1,), 3.0, (0, 0, 0.15)))
    for _ in range(10):
        world.step(100)
    assert sim.poses["upper"][2, 3] == pytest.approx(0.1, abs=1e-9)
    assert world.pose("cargo")[2, 3] == pytest.approx(0.25, abs=1e-8)
    np.testing.assert_allclose(world.force_on("cargo"), [0, 0, 3 * 9.81], rtol=1e-5)


def test_joints_that_are_placed_in_a_world_move_on_from_there():
    """`set_q` begins a new history, with which the world goes on."""
    mech = supple.library.robot_arm()
    alone, inside = supple.Simulation(mech, 1e-3), supple.Simulation(mech, 1e-3)
    world = supple.World()
    world.add(inside, "arm")
    for sim, step, place in ((alone, alone.step, alone.set_q), (inside, world.step, inside.set_q)):
        sim.apply("tip", [0, 20, 10, 0, 0, 0])
        step(5)
        place({"hinge_3": 0.3})
        step(5)
    np.testing.assert_allclose(inside.poses.array, alone.poses.array, rtol=0, atol=1e-10)
    assert world.time == pytest.approx(inside.time) == pytest.approx(0.01)


def test_a_linear_model_grows_into_a_blend_in_a_world():
    mech = supple.library.robot_arm()
    sim, world = supple.ReducedSimulation(supple.reduce(mech, ["tip"]), 1e-3), supple.World()
    world.add(sim, "arm")
    sim.apply("tip", [0, 30, 0, 0, 0, 0])
    world.step(100)
    sim.grow()
    before = sim.poses["tip"]
    world.step(100)
    assert sim.time == pytest.approx(world.time) == pytest.approx(0.2)
    assert np.abs(sim.poses["tip"] - before).max() > 1e-6


def test_a_failed_step_of_the_engine_leaves_the_world_unchanged():
    world = supple.World()
    sim = moving("full", arm())
    world.add(sim)
    world.add(rigid_object("ball", "sphere", (0.05,), 0.5, (2.0, 0, 1.0)))
    world.step(10)
    height = world.pose("ball")[2, 3]
    sim.apply("upper", [0, 0, 0, 0, 1e20, 0])
    with pytest.raises(supple.ConvergenceError, match="'arm' has no solution"):
        world.step(50)
    assert world.pose("ball")[2, 3] <= height
    assert world.time == pytest.approx(sim.time)
    before = sim.save().history  # also that of the recursive passes, and when they are tried again
    with pytest.raises(supple.ConvergenceError):
        world.step()
    np.testing.assert_array_equal(sim.save().history, before)


# free bases


def hopper() -> supple.Mechanism:
    b = supple.Builder("hopper")
    b.body("hull", spatial.translation([0, 0, 0.5]), 2.0, inertia=(0.1, 0.1, 0.1))
    b.free("float", "world", "hull")
    b.link("leg", (0.1, 0, 0.5), (0.1, 0, 0.1), 0.5)
    b.hinge("hip", "hull", "leg", (0.1, 0, 0.5), "y", stiffness=20.0, damping=0.5, limits=(-0.3, 0.3))
    return b.build()


def test_free_bases_have_a_momentum_and_a_mount():
    sim = supple.ReducedSimulation(supple.reduce(hopper(), ["leg"]), 1e-3)
    sim.mount(sim.poses["hull"], [4000.0] * 3 + [200.0] * 3, [100.0] * 3 + [5.0] * 3)
    sim.step(2000)
    assert sim.poses["hull"][2, 3] == pytest.approx(0.5 - 2.5 * 9.81 / 4000, abs=1e-5)
    up = spatial.translation([0.1, 0, 0.2]) @ hopper().poses["hull"]
    sim.mount(up)
    kept = sim.save()
    sim.step(2000)
    np.testing.assert_allclose(sim.poses["hull"][:3, 3], [0.1, 0, 0.7 - 2.5 * 9.81 / 4000], atol=1e-3)
    end = sim.poses.array.copy()
    sim.restore(kept)
    sim.step(2000)
    np.testing.assert_array_equal(sim.poses.array, end)
    sim.mount(None)
    sim.step(100)
    assert sim.momentum[2] < -1.0
    with pytest.raises(supple.MechanismError, match="6 numbers each"):
        sim.mount(up, [1.0] * 3)
    fixed = supple.ReducedSimulation(supple.reduce(supple.library.y(), ["left_tip"]), 1e-3)
    for call in (lambda: fixed.mount(None), lambda: fixed.momentum, lambda: fixed.set_base_velocity(np.zeros(6))):
        with pytest.raises(supple.MechanismError, match="the base of 'y' is fixed"):
            call()
    with pytest.raises(supple.MechanismError, match="base is one of"):
        supple.ReducedSimulation(supple.reduce(hopper(), ["leg"]), 1e-3, base="loose")


def test_a_free_base_moves_far_and_makes_full_turns():
    sim = supple.ReducedSimulation(supple.reduce(hopper(), ["leg"]), 1e-3)
    sim.set_base_velocity([3.0, 0, 0, 0, 0, 4.0])
    sim.step(3000)
    assert np.linalg.norm(sim.poses["hull"][:2, 3]) > 0.5
    q = sim.coordinates
    np.testing.assert_allclose(q["float"][:3], (sim.poses["hull"] @ spatial.inverse(hopper().poses["hull"]))[:3, 3]
                               + 0 * q["float"][:3], atol=2.0)  # fmt: skip
    assert sim.end_effector_pose("leg") == pytest.approx(sim.poses["leg"], abs=1e-9)
    joints = supple.ReducedSimulation(supple.reduce(hopper(), ["leg"]), 1e-3, reconstruction="joints")
    joints.set_base_velocity([3.0, 0, 0, 0, 0, 4.0])
    joints.step(3000)
    np.testing.assert_allclose(joints.poses["hull"], sim.poses["hull"], atol=1e-9)
    assert joints.separation.joints["hip"] < 1e-9


def test_limits_of_a_floating_model_hold():
    world = supple.World()
    sim = supple.ReducedSimulation(supple.reduce(hopper(), ["leg"]), 1e-3)
    world.add(sim)
    sim.mount(sim.poses["hull"], [4000.0] * 3 + [2000.0] * 3, [100.0] * 3 + [50.0] * 3)
    sim.apply("leg", [0, 0, 0, 0, 30.0, 0])
    world.step(1000)
    assert sim.coordinates["hip"][0] == pytest.approx(0.3, abs=1e-6)


def test_scenes_record_poses(tmp_path):
    scene = supple.scenes.trampoline()
    recording = scene.record(0.3, tmp_path / "fall.npz", rate=20)
    np.testing.assert_allclose(recording.times, np.arange(7) / 20, atol=1e-9)
    np.testing.assert_allclose(recording.poses_of("body")[-1], scene.world.pose("body"), atol=1e-14)
    assert (Recording.load(tmp_path / "fall.npz").positions == recording.positions).all()
    with pytest.raises(supple.MechanismError, match="level is one of"):
        supple.scenes.hand("half")


def test_contacts_are_a_sequence_and_arrays_of_one_step():
    world = supple.World(dt=1e-3)
    world.ground(supple.mechanism.Shape("plane", (0, 0, 1), np.eye(4), name="floor"))
    world.add(rigid_object("crate", "box", (0.1, 0.1, 0.1), mass=2.0, at=(0, 0, 0.1), friction=0.5))
    assert len(world.contacts) == 0
    world.step(200)
    found = world.contacts
    each = list(found)
    assert len(found) == len(each) == 4
    for name, values in (("point", found.points), ("normal", found.normals), ("force", found.forces),
                         ("torque", found.torques), ("gap", found.gaps)):  # fmt: skip
        assert np.array_equal(values, [getattr(contact, name) for contact in each])
        values += 1.0  # a copy
    assert (found.first, found.second) == (tuple(c.first for c in each), tuple(c.second for c in each))
    assert np.array_equal(found[0].force, each[0].force)
    assert [c.gap for c in found[1:3]] == [c.gap for c in each[1:3]]
    with pytest.raises(IndexError):
        found[4]
    before = found.forces
    world.step(100)
    assert np.array_equal(found.forces, before)  # those of their step
    assert np.allclose(world.force_on("crate"), sum(c.force for c in world.contacts), atol=1e-12)
    assert np.allclose(world.force_on("floor"), -world.force_on("crate"), atol=1e-12)
    assert copy.deepcopy(found).forces.tolist() == before.tolist()
