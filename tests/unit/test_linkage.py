"""Adaptive linkages: arguments, errors for bad input, the assembly tree, and the result of a step."""

import dataclasses

import numpy as np
import pytest

import mechanisms
import supple
from linkages import loaded, random_linkage
from supple import spatial
from supple.linkage import AdaptiveLinkage, LinkageStep
from supple.mechanism.tree import Tree


def tree_of(parent, **options):
    """Unit rods along x, hinged about z, with a given shape of the tree."""
    n = len(parent)
    settings = {
        "pose_parent": np.tile(spatial.translation(np.array([1.0, 0, 0])), (n, 1, 1)),
        "pose_child": np.tile(np.eye(4), (n, 1, 1)),
        "twists": np.tile([0.0, 0, 0, 0, 0, 1], (n, 1)),
        "mass": np.ones(n),
        "centre": np.tile([0.5, 0, 0], (n, 1)),
        "inertia": np.tile(0.1 * np.eye(3), (n, 1, 1)),
    }
    return Tree(parent=np.asarray(parent), **(settings | options))


SHAPES = {
    "chain": lambda n: np.arange(n) - 1,
    "star": lambda n: np.where(np.arange(n) == 0, -1, 0),
    "comb": lambda n: np.where(np.arange(n) < n // 2, np.arange(n) - 1, np.arange(n) - n // 2),
    "broom": lambda n: np.where(np.arange(n) < n // 2, np.arange(n) - 1, n // 2 - 1),
    "binary": lambda n: (np.arange(n) - 1) // 2,
    "random": lambda n: np.array([-1, *(np.random.default_rng(0).integers(i) for i in range(1, n))]),
    "separate": lambda n: np.full(n, -1),
}


# the assembly tree


@pytest.mark.parametrize("shape", SHAPES)
def test_the_assembly_tree_is_shallow_with_at_most_two_boundary_bodies(shape):
    n = 4000
    parent = SHAPES[shape](n)
    parent[0] = -1
    chain = AdaptiveLinkage(tree_of(parent))
    tree = chain._core.tree().astype(int)
    assert chain.depth <= 2.5 * np.log2(n)
    assert tree[:, 3].max() <= 2
    assert sorted(tree[tree[:, 2] >= 0, 2]) == list(range(n))  # every joint once
    children = tree[:, :2][tree[:, :2] >= 0]
    assert sorted(children) == list(range(len(tree) - 1))  # one root, everything below it


@pytest.mark.parametrize("shape", SHAPES)
def test_accelerations_of_every_shape_of_tree_agree_with_the_mass_matrix(shape):
    parent = SHAPES[shape](23)
    parent[0] = -1
    rng = np.random.default_rng(1)
    frames = spatial.pose(spatial.so3_exp(rng.normal(size=(23, 3))), rng.normal(size=(23, 3)))
    tree = tree_of(parent, pose_parent=frames)
    mech, torques = tree.mechanism(), rng.normal(size=23)
    chain = AdaptiveLinkage(tree)
    for i, torque in enumerate(torques):
        chain.set_joint_force(i, torque)
    chain.accelerate()
    expected = np.linalg.solve(supple.mass_matrix(mech), torques)
    np.testing.assert_allclose(chain.accelerations, expected, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_allclose(chain.poses.array, mech.poses.array, atol=1e-12)


def test_arrays_and_a_mechanism_are_the_same_linkage():
    mech, loads = random_linkage(np.random.default_rng(2), 30, sprung=True)
    tree = Tree.of(mech)
    back = tree.mechanism()
    fields = {f.name: getattr(tree, f.name) for f in dataclasses.fields(Tree)}
    linkages = [
        loaded(mech, loads, error=0.01),
        loaded(back, loads, error=0.01),
        AdaptiveLinkage.from_arrays(error=0.01, **fields),
    ]
    for body, wrench in loads.items():
        linkages[2].apply(body, wrench)
    infos = [chain.step(1e-3) for chain in linkages]
    assert len({info.computed for info in infos}) == 1
    assert len({info.error_bound for info in infos}) == 1
    for chain in linkages[1:]:
        np.testing.assert_array_equal(chain.poses.array, linkages[0].poses.array)
    np.testing.assert_allclose(back.poses.array, mech.poses.array, atol=1e-12)


def test_the_same_input_gives_the_same_bits():
    mech, loads = random_linkage(np.random.default_rng(4), 60, sprung=True)
    runs = []
    for _ in range(2):
        chain = loaded(mech, loads, error=0.03)
        infos = [chain.step(1e-3) for _ in range(20)]
        runs.append((chain.coordinates, [i.error_bound for i in infos], infos[-1].moved))
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first, second)


# using it


def test_a_step_returns_its_statistics():
    chain = AdaptiveLinkage(supple.library.bicycle_chain(), error=2**-5)
    chain.apply("tip", [0, 0, 0.1, 0, 0, 0])
    before = chain.coordinates
    info = chain.step(1e-3)
    assert isinstance(info, LinkageStep)
    assert 0 < info.computed < 30
    assert 0 < info.error_bound <= 2**-5
    assert info.gap == 0
    assert chain.time == 1e-3
    moved = np.flatnonzero(chain.coordinates != before)
    np.testing.assert_array_equal(np.sort(info.moved), moved)
    np.testing.assert_allclose(chain.coordinates - before, chain.accelerations * 1e-3**2 / 2, rtol=1e-9)
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.computed = 3


def test_wrenches_act_as_described():
    """World or body axes, on bodies and sites, replaced by the next one on the same name."""
    mech = mechanisms.random_mechanism(np.random.default_rng(8), 12, sites=3)
    q = mech.reference
    state = supple.kinematics(mech, q)
    site = next(s.name for s in mech.sites if s.body != "world")
    wrench = np.array([1.0, -2, 3, 0.4, -0.5, 0.6])
    base = AdaptiveLinkage(mech)
    base.accelerate()
    for name in ("body5", site):
        pose, jacobian = state.poses[name], state.jacobian(name)
        for frame in ("world", "body"):
            chain = AdaptiveLinkage(mech)
            chain.apply(name, [9.0, 9, 9, 9, 9, 9], frame)
            chain.apply(name, wrench, frame)
            chain.accelerate()
            turn = pose[:3, :3].T if frame == "world" else np.eye(3)
            local = np.concatenate([turn @ wrench[:3], turn @ wrench[3:]])
            expected = np.linalg.solve(supple.mass_matrix(mech), jacobian.T @ local)
            for j in mech.topology.tree:
                columns = mech.topology.columns[j]
                expected[columns] = mech.joints[j].increments(q[columns]) @ expected[columns]
            np.testing.assert_allclose(
                chain.accelerations - base.accelerations, expected, atol=1e-9 * np.abs(expected).max()
            )
            chain.apply(name, np.zeros(6))
            chain.accelerate()
            np.testing.assert_allclose(chain.accelerations, base.accelerations, rtol=1e-12, atol=1e-12)


def test_gravity_joint_forces_and_targets_act_from_the_next_step():
    mech = supple.library.helix(8)
    chain = AdaptiveLinkage(mech, error=1e-3)
    assert chain.step(1e-4).computed == 0  # nothing acts
    chain.set_gravity((0, 0, -9.81))
    assert chain.accelerate().computed > 0
    other = AdaptiveLinkage(dataclasses.replace(mech, gravity=np.array([0, 0, -9.81])))
    other.accelerate()
    chain.error = 0
    chain.accelerate()
    np.testing.assert_allclose(chain.accelerations, other.accelerations, rtol=1e-12)
    chain.set_gravity((0, 0, 0))
    chain.set_target("hinge_3", 0.1)
    chain.set_joint_force("hinge_3", -100.0)  # what the spring of 1000 N m/rad pulls with
    chain.accelerate()
    assert np.abs(chain.accelerations).max() < 1e-9
    chain.set_joint_force(2, 0.0)
    chain.accelerate()
    assert np.abs(chain.accelerations).max() > 1


def test_poses_by_name_index_and_all_at_once():
    mech, loads = random_linkage(np.random.default_rng(6), 40, sprung=False)
    chain = loaded(mech, loads, error=0.1)
    for _ in range(30):
        chain.step(3e-3)
    expected = supple.kinematics(mech, chain.coordinates).poses
    np.testing.assert_allclose(chain.poses.array, expected.array, atol=1e-9)
    np.testing.assert_allclose(np.array([chain.poses[i] for i in range(40)]), chain.poses.array, atol=1e-12)
    site = mech.sites[0].name
    np.testing.assert_allclose(chain.poses[site], expected[site], atol=1e-9)
    np.testing.assert_array_equal(chain.poses["body7"], chain.poses[7])
    assert len(chain.poses) == len(list(chain.poses)) == 40


def test_a_budget_ends_the_refinement_and_states_the_bound_reached():
    chain = AdaptiveLinkage(supple.library.molecule(3000), measure="absolute_linkage")
    rng = np.random.default_rng(0)
    for body in range(0, 3000, 10):
        chain.apply(body, [*rng.normal(size=3), 0, 0, 0])
    chain.accelerate()
    exact = chain.accelerations
    chain.accelerate(budget=1e-9)  # prepares the total accelerations
    hurried = chain.accelerate(budget=1e-9)
    assert 0 < hurried.computed < 100
    assert np.linalg.norm(chain.accelerations - exact) <= hurried.error_bound
    patient = chain.accelerate(budget=100.0)
    assert patient.computed == 3000
    assert patient.error_bound < 1e-6 * hurried.error_bound
    np.testing.assert_allclose(chain.accelerations, exact, atol=1e-9 * np.abs(exact).max())


def test_loops_can_be_closed_by_penalty_forces():
    mech = supple.library.loop(7)
    chain = AdaptiveLinkage(mech, loops="penalty")
    chain.apply("tip", [0, 0, 5.0, 0, 0, 0])
    gaps = [chain.step(2e-3).gap for _ in range(50)]
    assert gaps[0] < 1e-12
    assert 0 < max(gaps) < 0.01


def test_nothing_moves_where_all_joints_are_fixed():
    b = supple.Builder("rigid")
    b.body("a", np.eye(4), 1.0, inertia=(1, 1, 1))
    b.body("b", np.eye(4), 1.0, inertia=(1, 1, 1))
    b.fixed("f", "world", "a")
    b.fixed("g", "a", "b")
    chain = AdaptiveLinkage(b.build(), error=0.1)
    chain.apply("b", np.ones(6))
    info = chain.step(0.1)
    assert (info.computed, info.error_bound, len(info.moved)) == (0, 0.0, 0)


def test_a_body_has_one_load_by_name_or_index():
    chains = [AdaptiveLinkage(supple.library.helix(5)) for _ in range(2)]
    chains[0].apply(4, [9.0, 9, 9, 9, 9, 9])
    for chain in chains:
        chain.apply("tip", [1.0, 2, 3, 0, 0, 0])
        chain.accelerate()
    np.testing.assert_array_equal(chains[0].accelerations, chains[1].accelerations)


# bad input


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"error": -1e-3}, "error must be"),
        ({"error": np.nan}, "error must be"),
        ({"error": "small"}, "error must be"),
        ({"error": np.inf}, "error must be"),
        ({"measure": "relative"}, "absolute_linkage, relative_linkage"),
        ({"measure": 3}, "measure must be"),
        ({"loops": "cut"}, "loops must be"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(supple.MechanismError, match=text):
        AdaptiveLinkage(supple.library.y(), **options)


def test_unsupported_parts_raise():
    with pytest.raises(supple.MechanismError, match=r"loops, closed by 'd'.*penalty"):
        AdaptiveLinkage(mechanisms.four_bar())
    with pytest.raises(supple.MechanismError, match="Mechanism is needed"):
        AdaptiveLinkage("robot.xml")
    b = supple.Builder("driven")
    b.body("a", np.eye(4), 1.0, inertia=(1, 1, 1))
    b.hinge("h", "world", "a", (0, 0, 0), "z")
    b.motor("m", "h")
    with pytest.raises(supple.MechanismError, match=r"no motors and couplings.*'m'"):
        AdaptiveLinkage(b.build())


@pytest.mark.parametrize("inertia", [(0, 0, 0), (1, 1, 0)])
@pytest.mark.parametrize("mass", [0.0, 1.0])
def test_bodies_without_mass_or_inertia_are_named(mass, inertia):
    b = supple.Builder("light")
    b.body("stem", np.eye(4), 1.0, inertia=(1, 1, 1))
    if mass == 0 or inertia == (0, 0, 0):
        b.body("leaf", np.eye(4), mass)
    else:
        b.body("leaf", np.eye(4), mass, inertia=(1, 1, 0))
    b.hinge("h", "world", "stem", (0, 0, 0), "z")
    b.hinge("i", "stem", "leaf", (0, 0, 0), "z")
    with pytest.raises(supple.MechanismError, match=r"'leaf'.*mass and inertia"):
        AdaptiveLinkage(b.build())


@pytest.mark.parametrize("body", ["nobody", 3.5, 99, -99, True, None])
def test_a_force_on_a_missing_body(body):
    mech = supple.library.helix(5)
    chain = AdaptiveLinkage(mech, error=1e-3)
    chain.apply("tip", [0, 1.0, 0, 0, 0, 0])
    chain.step(1e-4)
    before = chain.coordinates
    with pytest.raises(supple.MechanismError, match=r"no body|there is no"):
        chain.apply(body, np.zeros(6))
    np.testing.assert_array_equal(chain.coordinates, before)
    with pytest.raises(supple.MechanismError, match="fixed to the world"):
        chain.apply("world", np.zeros(6))


def test_bad_arguments_leave_the_state_unchanged():
    chain = AdaptiveLinkage(supple.library.helix(5), error=1e-3)
    chain.apply("tip", [0, 1.0, 0, 0, 0, 0])
    chain.step(1e-4)
    before = chain.coordinates
    bad = [
        lambda: chain.apply("tip", [1, 2, 3]),
        lambda: chain.apply("tip", [np.nan] * 6),
        lambda: chain.apply("tip", np.zeros(6), frame="mine"),
        lambda: chain.set_joint_force("hinge_1", [1, 2]),
        lambda: chain.set_joint_force("hinge", 1.0),
        lambda: chain.set_joint_force(77, 1.0),
        lambda: chain.set_target("hinge_1", np.inf),
        lambda: chain.set_gravity([1, 2]),
        lambda: chain.step(0),
        lambda: chain.step(-1e-3),
        lambda: chain.step(np.nan),
        lambda: chain.step(1e-3, budget=-1),
        lambda: setattr(chain, "coordinates", [1.0]),
    ]
    for call in bad:
        with pytest.raises(supple.MechanismError):
            call()
    with pytest.raises(supple.MechanismError, match="budget must be a positive"):
        chain.accelerate(budget=-1)
    chain.error = -1.0
    with pytest.raises(supple.MechanismError, match="error must be"):
        chain.step(1e-3)
    chain.error, chain.measure = 1e-3, "largest"
    with pytest.raises(supple.MechanismError, match="measure must be"):
        chain.step(1e-3)
    chain.measure = "absolute_joint"
    np.testing.assert_array_equal(chain.coordinates, before)
    with pytest.raises(supple.MechanismError, match="no spring"):
        AdaptiveLinkage(supple.library.bicycle_chain()).set_target("pin_1", 0.1)


def test_overflow_raises_and_leaves_the_state_unchanged():
    chain = AdaptiveLinkage(supple.library.helix(5), error=1e-3)
    chain.apply("tip", [0, 1e300, 0, 0, 0, 0])
    before = chain.coordinates
    with pytest.raises(supple.ConvergenceError, match="not finite"):
        chain.step(1e-4)
    np.testing.assert_array_equal(chain.coordinates, before)
    chain.apply("tip", [0, 1.0, 0, 0, 0, 0])
    assert np.isfinite(chain.step(1e-4).error_bound)


@pytest.mark.parametrize("stiffness", [0.0, 1.0])
def test_aligned_axes_are_named(stiffness):
    b = supple.Builder("gimbal")
    b.body("a", np.eye(4), 1.0, inertia=(1, 1, 1))
    turns = np.concatenate([np.zeros((3, 3)), [[0, 0, 1], [0, 1, 0], [0, 0, 1]]], axis=1)
    b.joint("wrist", "world", "a", np.eye(4), turns, stiffness=stiffness)
    chain = AdaptiveLinkage(b.build())
    with pytest.raises(supple.ConvergenceError, match=r"'a' do not move independently"):
        chain.step(1e-3)
    chain.coordinates = [0, 0.5, 0]
    chain.step(1e-3)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"parent": np.array([-1, 2, 1])}, "'body_1', 'body_2' is its own ancestor"),
        ({"parent": np.array([-1, 0, 7])}, "'body_2' has a parent"),
        ({"parent": np.array([-1, 0.5, 1])}, "whole numbers"),
        ({"mass": np.array([1.0, 1])}, "masses"),
        ({"twists": np.ones((3, 6))}, "no unit vector"),
        ({"stiffness": -1.0}, "negative stiffness"),
        ({"pose_child": np.ones((3, 4, 4))}, "rigid pose"),
        ({"axes": np.array([1, 1, 7])}, "more than 6 axes"),
        ({"blocks": np.array([1, 2, 1])}, "not 1 or 3"),
        ({"inertia": np.array([[[1, 1, 0], [0, 1, 0], [0, 0, 1]]] * 3)}, "not symmetric"),
        ({"names": ("a",)}, "as many names"),
        ({"reversed": [True]}, "reversed"),
    ],
)
def test_bad_arrays(changes, text):
    with pytest.raises(supple.MechanismError, match=text):
        tree_of(changes.pop("parent", np.array([-1, 0, 1])), **changes)
    with pytest.raises(supple.MechanismError, match="at least one body"):
        tree_of(np.zeros(0))


def test_arrays_without_mass_raise():
    with pytest.raises(supple.MechanismError, match="'body_1' of 'tree'"):
        AdaptiveLinkage(tree_of(np.array([-1, 0, 1]), mass=np.array([1.0, 0, 1])))


# the library's large linkages


def test_the_molecule_is_a_tree_of_tetrahedral_bonds():
    tree = supple.library.molecule(2000, branching=0.05, seed=3)
    poses = AdaptiveLinkage(tree).poses.array
    place, inner = poses[:, :3, 3], tree.parent[1:]
    bonds = place[1:] - place[inner]
    np.testing.assert_allclose(np.linalg.norm(bonds, axis=1), 0.1, atol=1e-12)
    follows = inner > 0
    cosines = np.einsum("ni,ni->n", bonds[follows], bonds[inner[follows] - 1]) / 0.01
    np.testing.assert_allclose(cosines, 1 / 3, atol=1e-9)
    assert len(np.unique(np.round(place, 6), axis=0)) == 2000
    assert np.bincount(inner).max() <= 3
    np.testing.assert_allclose(poses[1:, :3, 2], bonds / 0.1, atol=1e-9)
    assert supple.library.molecule(50) == supple.library.molecule(50)
    for bad in ({"joints": 0}, {"joints": 2.5}, {"branching": 2.0}):
        with pytest.raises(supple.MechanismError):
            supple.library.molecule(**bad)


def test_the_millipede_has_thirteen_links_a_leg():
    tree = supple.library.millipede(20)
    assert len(tree.parent) == 260
    assert tree.axes[0] == 6
    assert (tree.axes[1:] == 1).all()
    hips = tree.parent[60::10]
    np.testing.assert_array_equal(hips, 3 * np.arange(20) + 1)
    poses = AdaptiveLinkage(tree).poses.array
    ends = poses[:, :3, 3] + poses[:, :3, 2] * np.where(np.arange(260) < 60, 0.06, 0.04)[:, None]
    within = (tree.parent >= 0) & ~np.isin(np.arange(260), np.arange(60, 260, 10))
    np.testing.assert_allclose(poses[within, :3, 3], ends[tree.parent[within]], atol=1e-12)


def test_the_bicycle_chain_is_pinned_half_an_inch_apart():
    mech = supple.library.bicycle_chain(links=5, stiffness=0.1)
    assert [j.kind for j in mech.joints] == ["hinge"] * 5
    places = np.array([(mech.poses[j.parent] @ j.pose_parent)[:3, 3] for j in mech.joints])
    np.testing.assert_allclose(places, np.outer(np.arange(5) * 0.0127, [1, 0, 0]), atol=1e-15)
    assert mech.bodies[-1].name == "tip"
    assert {float(j.stiffness[0]) for j in mech.joints} == {0.1}
