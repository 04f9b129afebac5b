"""Steps by recursive passes agree with steps by the sparse solver, which solves the same equations in another way."""

from __future__ import annotations

import numpy as np
import pytest

import mechanisms
import small_mechanisms
import supple

DT = 2e-3


def pair(mech: supple.Mechanism, method: str = "euler", **options) -> tuple[supple.Simulation, supple.Simulation]:
    """The same simulation with passes and with the sparse solver."""
    sims = tuple(supple.Simulation(mech, DT, method, **options) for _ in range(2))
    assert sims[0]._core.solver == "passes"
    sims[1]._core.use_passes(False)
    assert sims[1]._core.solver == "sparse"
    return sims


def agree(sims: tuple[supple.Simulation, supple.Simulation], steps: int = 100, within: float = 1e-9) -> None:
    radius = sims[0].mechanism.radius
    for _ in range(4):
        for sim in sims:
            sim.step(steps // 4)
        first, second = sims
        apart = np.abs(first.poses.array - second.poses.array).max() / max(1.0, radius)
        faster = DT * np.abs(first.velocities - second.velocities).max()
        turned = [first.coordinates[name] - value for name, value in second.coordinates.items()]
        assert max(apart, faster, np.abs(np.concatenate(turned)).max()) < within


def repeats_to_the_last_bit(sim: supple.Simulation) -> None:
    saved = sim.save()
    sim.step(20)
    after = sim.poses.array.copy()
    sim.restore(saved)
    sim.step(20)
    assert (sim.poses.array == after).all()


LIBRARY: dict[str, dict] = {
    "helix": {},
    "y": {},
    "ladder": {},
    "loop": {},
    "robot_arm": {},
    "bicycle_chain": {"gravity": (0, 1, -9.81), "damping": 1e-4},  # without damping, rounding errors grow as it whips
    "rod_on_motor": {"modes": 6, "sections": 4},
    "two_rods": {"modes": 6, "sections": 4},
    "flexible_four_bar": {"modes": 6, "sections": 4},
}


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("name", LIBRARY)
def test_library(name, method):
    mech = getattr(supple.library, name)(**LIBRARY[name])
    sims = pair(mech, method)
    tip = next((b.name for b in mech.bodies if b.name.endswith("tip")), mech.bodies[-1].name)
    size = min(1.0, 0.05 * mech.mass)
    for sim in sims:
        sim.apply(tip, size * np.array([3, 20, 5, 0.2, 0, 1]))
    agree(sims, 300)
    for sim in sims:
        sim.apply(tip, size * np.array([0, 0, 30, 0.5, 0.2, 1]), frame="body")
        sim.pull(tip, sim.poses[tip][:3, 3] + [0.1, 0.05, 0.2])
    agree(sims, 300)
    if name in ("ladder", "flexible_four_bar"):  # constraints out of the plane are redundant
        return
    for a, b in zip(*(sim.reactions.values() for sim in sims), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4 * size)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("loops", [0, 1, 3])
def test_random_mechanisms(loops, method):
    compared = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(
            rng, 3 + seed % 6, loops=loops, free_base=seed % 3 == 1, couplings=seed % 3, motors=seed % 2
        )
        passes, sparse = pair(mech, method)
        for sim in (passes, sparse):
            sim.apply(mech.bodies[-1].name, [1, -2, 1.5, 0.1, 0.2, -0.1])
        try:
            sparse.step(60)
        except supple.ConvergenceError:  # loops without mobility that loads tear apart
            continue
        sparse.reset()
        sparse.apply(mech.bodies[-1].name, [1, -2, 1.5, 0.1, 0.2, -0.1])
        agree((passes, sparse), 60)
        compared += 1
    assert compared >= 10


@pytest.mark.parametrize("loops", range(4))
def test_300_random_mechanisms_over_300_steps(loops):
    """75 trees for each number of loops, which may be nested or redundant; passive joints, limits, motors, couplings,
    floating bases."""
    compared, differing = 0, []
    for seed in range(loops, 300, 4):
        rng = np.random.default_rng([18, seed])
        mech = mechanisms.random_mechanism(
            rng,
            3 + seed % 8,
            loops=loops,
            sprung=seed % 5 != 4,
            free_base=seed % 3 == 1,
            couplings=seed % 3,
            motors=seed % 2,
        )
        sims = pair(mech, ("euler", "bdf2")[seed // 4 % 2])
        for sim in sims:
            sim.apply(mech.bodies[-1].name, [1, -2, 1.5, 0.1, 0.2, -0.1])
        saved = sims[1].save()
        try:
            sims[1].step(300)
        except supple.ConvergenceError:  # loops without mobility that loads tear apart
            continue
        sims[1].restore(saved)
        compared += 1
        try:
            agree(sims, 300)
        except (AssertionError, supple.ConvergenceError) as error:
            differing.append((seed, str(error).splitlines()[0]))
    assert compared >= 60
    assert not differing


ROBOTS = {
    "agility_cassie/cassie.xml": "home",  # its reference pose is outside its limits
    "iit_softfoot/softfoot.xml": None,
    "robotiq_2f85/2f85.xml": None,
    "shadow_hand/right_hand.xml": None,
    "toddlerbot_2xc/toddlerbot_2xc.xml": None,
    "wonik_allegro/right_hand.xml": None,
}
"""Files, and the keyframes where they start."""


@pytest.mark.filterwarnings("ignore::supple.ImportWarning", "ignore::supple.StartWarning")
@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("path", ROBOTS)
def test_robots(robots, path, method):
    """300 steps under gravity alone, and 300 with a wrench on another body every 60 steps."""
    mech = supple.load(robots / path, ROBOTS[path])
    sims, rng = pair(mech, method), np.random.default_rng(0)
    agree(sims, 300)
    for sim in sims:
        sim.reset()
    force = min(20.0, mech.mass)
    for _ in range(5):
        body = mech.bodies[rng.integers(len(mech.bodies))].name
        wrench = force * rng.uniform() * rng.normal(size=6) * np.repeat([1.0, 0.1 * mech.radius], 3)
        for sim in sims:
            sim.apply(body, wrench)
        agree(sims, 60)
        for sim in sims:
            sim.apply(body, np.zeros(6))


SCENES = ("hexapod", "hand", "peg_in_hole", "trampoline", "suspension")


@pytest.mark.parametrize("name", SCENES)
def test_contact(name):
    """Scenes with contact: the same motion by passes and by the sparse solver."""
    scenes = [getattr(supple.scenes, name)("full") for _ in range(2)]
    scenes[1].robot._core.use_passes(False)
    assert [scene.robot._core.solver for scene in scenes] == ["passes", "sparse"]
    for _ in range(4):
        for scene in scenes:
            scene.run(0.05)
        first, second = (scene.robot for scene in scenes)
        assert np.abs(first.poses.array - second.poses.array).max() < 1e-9
        np.testing.assert_allclose(scenes[0].world.force_on(first_object(scenes[0])),
                                   scenes[1].world.force_on(first_object(scenes[1])), rtol=1e-5, atol=1e-6)  # fmt: skip


def first_object(scene) -> str:
    return next(iter(scene.world.mechanisms))


def test_redundant_multipliers_stay_small():
    sim = supple.Simulation(supple.library.ladder(4), DT)
    assert sim._core.solver == "passes"
    sim.apply("tip", [0, 5, 0, 0, 0, 0])
    sim.step(2000)
    forces = np.abs([wrench[:3] for wrench in sim.reactions.values()])
    assert forces.max() < 200.0


@pytest.mark.filterwarnings("ignore::supple.ImportWarning")
def test_a_loop_gap_from_rounded_numbers_is_closed(robots):
    """ToddlerBot's neck: three parallel cranks of rounded lengths; their loops contradict each other by 1e-10."""
    sim = supple.Simulation(supple.load(robots / "toddlerbot_2xc" / "toddlerbot_2xc.xml"), DT)
    sim.apply("left_hand", [0, 0, 5, 0, 0, 0])
    sim.step(300)
    assert sim.gap < 1e-10
    assert sim.time == pytest.approx(0.6)


def test_the_error_names_the_part_that_does_not_converge():
    sim = supple.Simulation(small_mechanisms.pendulum(), 0.5)
    sim.apply(sim.mechanism.bodies[0].name, [0, 0, 0, 0, 1e9, 0])
    with pytest.raises(supple.ConvergenceError, match=r"coordinate '|turns too far"):
        sim.step(50)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_bushing_to_a_body_at_rest(method):
    """Its springs and dampers act without multipliers; coordinates and reactions are those of the joint."""
    sims = pair(small_mechanisms.held_arm(), method)
    for sim in sims:
        sim.set_target("grip", [0.1, 0.05, 0, 0.2, 0, 0.3])
        sim.apply("hand", [1, 2, 3, 0.1, 0.2, 0.3])
    agree(sims, 200)
    passes, sparse = sims
    for name, reaction in sparse.reactions.items():
        np.testing.assert_allclose(passes.reactions[name], reaction, atol=1e-7, err_msg=name)
    assert passes.energy.strain == pytest.approx(sparse.energy.strain, rel=1e-9)
    repeats_to_the_last_bit(passes)


@pytest.mark.parametrize("size", [(3, 3), (8, 8), (12, 12)])
def test_nets(size):
    """Loops that share rods: up to 121 of them, with hundreds of multipliers at one body."""
    sims = pair(small_mechanisms.net(*size))
    for sim in sims:
        sim.apply(sim.mechanism.bodies[-1].name, [0, 0, 5, 0, 0, 0])
    agree(sims, 20)


def test_the_solver_with_fewer_operations_is_chosen():
    """All ties of a tethered chain meet at the world: eliminated there, their cost grows with the cube of the links."""
    solvers = {n: supple.Simulation(small_mechanisms.tethered_chain(n), DT)._core for n in (5, 40)}
    assert solvers[5].solver == "passes"
    assert solvers[40].solver == "sparse"
    assert solvers[40].uncovered == "so many loops around one body that the sparse solver is faster"


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("tied", [False, True])
def test_free_joints(tied, method):
    """Free joints are one node each, unless a loop or coupling connects the bodies that float on them."""
    sims = pair(small_mechanisms.loose_bodies(tied), method)
    for sim in sims:
        sim.apply("boom01", [0.5, 1, -2, 0.1, 0.2, 0.05])
        sim.apply("hull1", [2, -3, 30, 0.3, 0.2, -0.4])
        sim.set_torque("float0", [1.0, -2.0, 3.0, 0.1, 0.2, -0.1])
    agree(sims, 100, within=1e-8)  # the rod spins about its axis, where nothing resists rounding errors
    passes, sparse = sims
    for name, reaction in sparse.reactions.items():
        np.testing.assert_allclose(passes.reactions[name], reaction, atol=1e-6, err_msg=name)
    assert passes.qd == pytest.approx(np.asarray(sparse.qd), abs=1e-6)
    repeats_to_the_last_bit(passes)


@pytest.mark.parametrize("passes", [True, False])
def test_reactions_are_those_of_the_last_step_after_set_points_change(passes):
    """A bushing to the world that closes a loop: its force is that of the step, not that of the new set-point."""
    b = supple.Builder("held", gravity=(0, 0, -9.81))
    b.link("rod", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("foot", "world", "rod", at=(0, 0, 0), axis="y", damping=0.1)
    b.bushing("grip", "world", "rod", at=(1, 0, 0), stiffness=[300.0] * 3 + [0.1] * 3, damping=1.0)
    sims = [supple.Simulation(b.build(), DT) for _ in range(2)]
    for sim in sims:
        sim._core.use_passes(passes)
        sim.step(20)
    sims[0].set_target("grip.2", 0.1)
    for name, reaction in sims[1].reactions.items():
        np.testing.assert_allclose(sims[0].reactions[name], reaction, atol=1e-9)


def test_a_light_push_rod_under_pressure():
    """A rod of a gram between ball joints. Under pressure its turns have negative pivots, because only the tie that
    closes the loop keeps it from folding: the passes must not give it to the sparse solver."""
    b = supple.Builder("push rod", gravity=(0, 0, 0))
    b.link("crank", (0, 0, 0), (0, 0, 0.1), mass=0.2)
    b.link("rod", (0, 0, 0.1), (0.05, 0, 0.1), mass=1e-3, radius=0.002)
    b.link("slider", (0.05, 0, 0.1), (0.15, 0, 0.1), mass=0.1)
    b.hinge("foot", "world", "crank", (0, 0, 0), "y", stiffness=200.0, damping=0.05)
    b.slide("guide", "world", "slider", at=(0.1, 0, 0.1), axis="x", stiffness=10.0)
    b.ball("second", "rod", "slider", (0.05, 0, 0.1), damping=1e-6)  # the tree goes from the slider to the rod
    b.ball("first", "crank", "rod", (0, 0, 0.1), damping=1e-6)
    sims = pair(b.build())
    for sim in sims:
        sim.apply("slider", [-60, 0, 0, 0, 0, 0])
    agree(sims)
    assert sims[0]._core.steps_by_passes == 100
