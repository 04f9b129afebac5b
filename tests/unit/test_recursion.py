"""The published recursion against dense statics in joint coordinates: where it agrees, and terms that it omits."""

import dataclasses

import numpy as np
import pytest

import mechanisms
import supple
from random_cases import seeds
from supple import spatial
from supple.mechanism.mobility import constraints
from supple.reduced.published import accelerability, inverse_damping
from supple.reduced.recursion import ignored_merges, merge, recursion

EXACT = 1e-10
SPRINGS = {"stiffness": 20.0, "damping": 0.3}


@dataclasses.dataclass
class Dense:
    """Maps from the allowed motions of all joint coordinates, tree then loops."""

    compliance: np.ndarray
    twists: np.ndarray
    coordinates: np.ndarray


def dense(mech, tips):
    """[[K, G^T], [G, 0]] [dq; *] = [J^T; 0], solved in the null space of G and of the motors' coordinates."""
    joints = [mech.joints[j] for j in (*mech.topology.tree, *mech.topology.loops)]
    stiffness = np.concatenate([j.stiffness + [c.slope(0.0) if c else 0.0 for c in j.curves] for j in joints])
    q = np.concatenate([j.reference for j in joints])
    names = [name for j in joints for name in j.axes]
    held = np.array([[float(name == m.coordinate) for name in names] for m in mech.motors]).reshape(-1, len(q))
    rows = np.vstack([constraints(mech, q)[1], held])
    free = null_space(rows) if len(rows) else np.eye(len(q))

    def jacobian(name):
        return np.pad(supple.jacobian(mech, name), ((0, 0), (0, len(q) - mech.dof)))

    ends = np.vstack([jacobian(tip) for tip in tips])
    dq = free @ np.linalg.solve(free.T @ (stiffness[:, None] * free), free.T @ ends.T)
    increments, start = {}, 0
    for joint in joints:
        increments[joint.name] = joint.increments(joint.reference) @ dq[start : start + len(joint.axes)]
        start += len(joint.axes)
    return Dense(
        ends @ dq,
        np.array([jacobian(body.name) @ dq for body in mech.bodies]),
        np.concatenate([increments[j.name] for j in mech.joints]),
    )


def null_space(rows):
    _, sizes, right = np.linalg.svd(rows)
    return right[int((sizes > 1e-9 * sizes[0]).sum()) :].T


def largest_difference(maps, truth):
    """Over compliance, twists and coordinates, relative to the largest entry (or a compliance of 0.001)."""
    scale = max(np.abs(truth.twists).max(), np.abs(truth.coordinates).max(), 1e-3)
    pairs = [(getattr(maps, f.name), getattr(truth, f.name)) for f in dataclasses.fields(truth)]
    return max(np.abs(a - b).max() for a, b in pairs) / scale


def assert_symmetric_and_positive(matrix, size=0.1):
    np.testing.assert_array_equal(matrix, matrix.T)
    # what a loop without freedom leaves is rounding of the compliances before it was closed, which are larger
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-11 * max(np.abs(matrix).max(), size)


def random_tips(rng, mech):
    """One to three bodies or sites that can be end effectors."""
    names = [b.name for b in mech.bodies] + [s.name for s in mech.sites if s.body != "world"]
    return [str(name) for name in rng.choice(names, size=min(len(names), int(rng.integers(1, 4))), replace=False)]


def with_joint(mech, name, **changes):
    return dataclasses.replace(
        mech, joints=tuple(dataclasses.replace(j, **changes) if j.name == name else j for j in mech.joints)
    )


# trees


@pytest.mark.parametrize("seed", range(25))
def test_trees_are_exact(seed):
    rng = np.random.default_rng(seed)
    mech = mechanisms.random_mechanism(rng, int(rng.integers(1, 9)), sites=4)
    tips = random_tips(rng, mech)
    maps = recursion(mech, tips)
    assert largest_difference(maps, dense(mech, tips)) < EXACT
    assert ignored_merges(mech, tips) == ()
    assert_symmetric_and_positive(maps.compliance)


def towards_the_world(mech, body):
    """A body and all that carry it."""
    found = []
    while body >= 0:
        found.append(body)
        body = mech.topology.parent[body]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_wrenches_of_trees_follow_from_statics(seed):
    rng = np.random.default_rng(seed)
    mech = mechanisms.random_mechanism(rng, 7)
    tips = random_tips(rng, mech)
    wrenches = recursion(mech, tips).wrenches
    for b, body in enumerate(mech.bodies):
        for e, tip in enumerate(tips):
            to_tip = spatial.adjoint(spatial.inverse(mech.poses[tip]) @ body.pose)
            expected = to_tip.T if b in towards_the_world(mech, mech.frame(tip)[0]) else np.zeros((6, 6))
            np.testing.assert_allclose(wrenches[b, :, 6 * e : 6 * e + 6], expected, atol=1e-12)


def test_motors_hold_their_axes():
    rng = np.random.default_rng(1)
    mech = mechanisms.random_mechanism(rng, 6, ("hinge", "universal", "slide", "planar"), motors=3)
    assert largest_difference(recursion(mech, ["body5", "body3"]), dense(mech, ["body5", "body3"])) < EXACT


def test_maps_of_a_site_are_those_of_its_body_in_another_frame():
    mech = mechanisms.random_mechanism(np.random.default_rng(3), 4, sites=6)
    site = next(s for s in mech.sites if s.body != "world")
    to_site = spatial.adjoint(spatial.inverse(site.pose))
    own, other = recursion(mech, [site.name]), recursion(mech, [site.body])
    np.testing.assert_allclose(own.compliance, to_site @ other.compliance @ to_site.T, atol=1e-14)
    np.testing.assert_allclose(own.twists, other.twists @ to_site.T, atol=1e-14)
    np.testing.assert_allclose(own.wrenches, other.wrenches @ to_site.T, atol=1e-14)


# loops


def sprung_joints(mech):
    """The same linkage with springs on all its axes, of different stiffness."""
    rng = np.random.default_rng(0)
    joints = [dataclasses.replace(j, stiffness=rng.uniform(5, 50, len(j.axes))) for j in mech.joints]
    return dataclasses.replace(mech, joints=tuple(joints))


def loop_on_a_trunk():
    """Two sprung branches of spatial hinges between a trunk and a hand that carries two fingers."""
    rng = np.random.default_rng(8)
    b = supple.Builder("loop_on_a_trunk")
    points = {"trunk": (0, 0, 0.3), "hand": (0, 0, 1.2), "finger0": (0.1, 0, 1.4), "finger1": (-0.1, 0, 1.4)}
    points |= {f"branch{i}{k}": (0.2 * (-1) ** i, 0.1 * k, 0.5 + 0.2 * k) for i in range(2) for k in range(4)}
    for name, at in points.items():
        b.body(name, spatial.pose(spatial.so3_exp(rng.normal(size=3)), at), **mechanisms.random_inertia(rng))

    def hinge(name, parent, child):
        stiffness = float(rng.uniform(10, 40))
        b.hinge(name, parent, child, at=points[child], axis=rng.normal(size=3), stiffness=stiffness, damping=0.1)

    b.universal("root", "world", "trunk", at=(0, 0, 0), axes=("x", "y"), stiffness=30.0, damping=0.1)
    for i in range(2):
        for k in range(4):
            hinge(f"joint{i}{k}", f"branch{i}{k - 1}" if k else "trunk", f"branch{i}{k}")
    for i in range(2):
        hinge(f"wrist{i}", "branch03" if i == 0 else "hand", "hand" if i == 0 else "branch13")
    for i in range(2):
        hinge(f"knuckle{i}", "hand", f"finger{i}")
    return b.build()


LOOPS = {
    "four_bar": (mechanisms.four_bar(stiffness=30.0), ["coupler"]),
    "ring": (supple.library.loop(), ["tip"]),
    "small ring": (sprung_joints(supple.library.loop(7)), ["tip"]),
    "stewart": (sprung_joints(mechanisms.stewart()), ["platform"]),
    "delta": (sprung_joints(mechanisms.delta()), ["platform"]),
    "trunk": (loop_on_a_trunk(), ["finger0", "finger1", "hand", "trunk"]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_exact_for_end_effectors_at_or_beyond_the_merge(name):
    mech, tips = LOOPS[name]
    assert ignored_merges(mech, tips) == ()
    maps = recursion(mech, tips)
    assert largest_difference(maps, dense(mech, tips)) < EXACT
    assert_symmetric_and_positive(maps.compliance)


@pytest.mark.parametrize("block", seeds(5, 10))
def test_the_recursion_is_exact_wherever_it_says_so(block):
    checked, refused = 0, []
    for seed in range(20 * block, 20 * block + 20):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(rng, int(rng.integers(3, 9)), loops=int(rng.integers(1, 4)))
        tips = random_tips(rng, mech)
        try:
            maps = recursion(mech, tips)
        except supple.MechanismError as error:
            refused.append(str(error))
            continue
        assert_symmetric_and_positive(maps.compliance)
        if not ignored_merges(mech, tips):
            assert largest_difference(maps, dense(mech, tips)) < EXACT
            checked += 1
    assert checked >= 3
    assert all("inside the loop" in text for text in refused)


def test_the_direction_of_a_loop_joint_described_inwards_is_reversed():
    """`wrist1` leads from the hand back into a branch: taken as described, the hand would lie inside the loop."""
    mech, tips = LOOPS["trunk"]
    assert mech.joint("wrist1").parent == "hand"
    assert ignored_merges(mech, tips) == ()


def test_wrenches_inside_a_loop_are_those_of_the_engine():
    mech, push = sprung_joints(supple.library.loop(7)), 1e-3
    wrenches = recursion(mech, ["tip"]).wrenches
    for i in range(6):
        ends = [supple.equilibrium(mech, {"tip": sign * push * np.eye(6)[i]}, frame="body") for sign in (1, -1)]
        for joint in mech.joints[:-2]:  # those of the two branches
            assert joint.child not in ("world", "tip")
            exerted = (ends[0].reactions[joint.name] - ends[1].reactions[joint.name]) / (2 * push)
            on_body = spatial.adjoint(spatial.inverse(joint.pose_child)).T @ exerted
            np.testing.assert_allclose(-on_body, wrenches[mech.body_index(joint.child), :, i], atol=2e-6)


# merging


def random_compliance(rng, branches, rank):
    factor = rng.normal(size=(6 * branches, rank))
    return factor @ factor.T


def test_merging_is_the_saddle_point_of_equation_16():
    coupled = random_compliance(np.random.default_rng(0), 3, 20)
    sums = np.tile(np.eye(6), 3)
    inverse = np.linalg.inv(np.block([[coupled, sums.T], [sums, np.zeros((6, 6))]]))
    compliance, shares = merge(coupled, 0.7)
    np.testing.assert_allclose(compliance, -inverse[-6:, -6:], atol=1e-12)
    np.testing.assert_allclose(shares.reshape(18, 6), inverse[:-6, -6:], atol=1e-11)
    stiffness = np.linalg.inv(coupled)  # eq. 14, good while C has full rank
    np.testing.assert_allclose(compliance, np.linalg.inv(sums @ stiffness @ sums.T), atol=1e-10)


def test_merging_with_a_rigid_branch_holds_the_link():
    """A direction that one branch does not allow is rigid; the truncated-SVD inverse of eq. 14 takes it as free."""
    soft, rigid = np.diag([1.0, 2, 3, 4, 5, 6]), np.diag([1.0, 0, 3, 4, 0, 6])
    coupled = np.block([[soft, np.zeros((6, 6))], [np.zeros((6, 6)), rigid]])
    compliance, shares = merge(coupled)
    expected = [0.5, 0, 1.5, 2, 0, 3]
    np.testing.assert_allclose(compliance, np.diag(expected), atol=1e-14)
    np.testing.assert_allclose(np.diag(shares[1]), [0.5, 1, 0.5, 0.5, 1, 0.5], atol=1e-14)
    truncated = np.linalg.pinv(np.linalg.pinv(soft) + np.linalg.pinv(rigid))
    np.testing.assert_allclose(np.diag(truncated)[[1, 4]], [2.0, 5.0])


@pytest.mark.parametrize("rank", [0, 1, 5, 9])
def test_merging_any_singular_compliance_gives_a_compatible_motion(rank):
    coupled = random_compliance(np.random.default_rng(rank), 2, rank)
    compliance, shares = merge(coupled)
    np.testing.assert_allclose(shares.sum(axis=0), np.eye(6), atol=1e-12)
    both = (coupled @ shares.reshape(12, 6)).reshape(2, 6, 6)
    np.testing.assert_allclose(both, [compliance, compliance], atol=1e-10)


# what the recursion leaves out


def shear_ladder(rungs):
    """A ladder whose hinges turn about its normal, so that its cells shear: pins of every rung resist."""
    mech = supple.library.ladder(rungs)
    turned = []
    for joint in mech.joints:
        frame = mech.poses[joint.child][:3, :3] @ joint.pose_child[:3, :3]
        axis = np.concatenate([np.zeros(3), frame.T @ [0.0, 1.0, 0.0]])
        turned.append(dataclasses.replace(joint, twists=axis[None]))
    return dataclasses.replace(mech, name="shear_ladder", joints=tuple(turned))


def uneven_ladder(rungs):
    """The library's ladder with every second hinge of its left rail four times softer."""
    mech = supple.library.ladder(rungs)
    for k in range(1, rungs + 1, 2):
        mech = with_joint(mech, f"left_hinge_{k}", stiffness=mech.joints[0].stiffness / 4)
    return mech


def central_difference(mech, tip):
    """(6, 6) compliance by the engine's nonlinear statics, wrenches fixed in the body."""
    columns = []
    for i in range(6):
        push = 0.01 * np.eye(6)[i]
        plus, minus = (supple.equilibrium(mech, {tip: sign * push}, frame="body").poses[tip] for sign in (1, -1))
        columns.append(spatial.log(spatial.inverse(minus) @ plus) / 0.02)
    return np.array(columns).T


@pytest.mark.parametrize("rungs", range(2, 7))
@pytest.mark.parametrize("ladder", [shear_ladder, uneven_ladder])
def test_ladders_differ_and_central_differences_agree_with_the_dense_solution(ladder, rungs):
    mech = ladder(rungs)
    maps, truth = recursion(mech, ["tip"]), dense(mech, ["tip"])
    assert ignored_merges(mech, ["tip"]) == tuple(f"rung_{k}" for k in range(1, rungs))
    scale = np.abs(truth.compliance).max()
    off = np.abs(maps.compliance - truth.compliance).max() / scale
    links = np.abs(maps.twists - truth.twists).max() / np.abs(truth.twists).max()
    print(f"{mech.name} {rungs}: compliance off by {100 * off:.1f} %, twists of links by {100 * links:.1f} %")
    assert off > 0.01
    np.testing.assert_allclose(central_difference(mech, "tip"), truth.compliance, atol=1e-5 * scale)
    # an open loop is softer: the recursion's wrenches balance, but not with the least energy
    assert np.linalg.eigvalsh(maps.compliance - truth.compliance)[0] > -1e-12 * scale


@pytest.mark.parametrize("rungs", [2, 6, 16])
def test_the_library_ladder_is_exact_by_its_symmetry(rungs):
    """Both rails bend alike whether or not a rung ties them, so leaving the rungs out changes nothing."""
    mech = supple.library.ladder(rungs)
    assert len(ignored_merges(mech, ["tip"])) == rungs - 1
    assert largest_difference(recursion(mech, ["tip"]), dense(mech, ["tip"])) < EXACT


# equation 22


def twist_by_branching_ancestors(mech, body, compliance, wrenches, *, printed):
    """Eq. 22 on a tree: C_ii W_i plus, at each branching ancestor a, Ad C_aa (W_a - what arrives from below).

    As printed, what arrives from below is the wrench at link i; rightly it is that at the next branching link
    below a (or at i itself).
    """
    parent, branching = mech.topology.parent, np.bincount(mech.topology.parent[mech.topology.parent >= 0])
    result, below, a = compliance[body] @ wrenches[body], body, parent[body]
    while a >= 0:
        if a < len(branching) and branching[a] > 1:
            to_body = spatial.adjoint(spatial.inverse(mech.bodies[body].pose) @ mech.bodies[a].pose)
            source = body if printed else below
            from_source = spatial.adjoint(spatial.inverse(mech.bodies[source].pose) @ mech.bodies[a].pose).T
            result = result + to_body @ compliance[a] @ (wrenches[a] - from_source @ wrenches[source])
            below = a
        a = parent[a]
    return result


def test_equation_22_counts_nested_branches_twice_as_printed():
    rng = np.random.default_rng(5)
    b = supple.Builder("nested")
    names = ["trunk", "fork", "left", "right", "side"]
    for i, (name, parent) in enumerate(zip(names, ["world", "trunk", "fork", "fork", "trunk"], strict=True)):
        b.body(name, spatial.pose(spatial.so3_exp(rng.normal(size=3)), rng.normal(size=3) * 0.3))
        b.ball(f"joint{i}", parent, name, at=rng.normal(size=3) * 0.3, **SPRINGS)
    mech, tips = b.build(), ["left", "right", "side"]
    maps = recursion(mech, tips)
    compliance = [recursion(mech, [name]).compliance for name in names]
    corrected, as_printed = (
        np.array([twist_by_branching_ancestors(mech, i, compliance, maps.wrenches, printed=p) for i in range(5)])
        for p in (False, True)
    )
    truth = dense(mech, tips).twists
    np.testing.assert_allclose(corrected, truth, atol=1e-13)
    np.testing.assert_allclose(maps.twists, truth, atol=1e-13)
    error = np.abs(as_printed - truth).max(axis=(1, 2)) / np.abs(truth).max()
    print("eq. 22 as printed, error of", {name: f"{100 * e:.0f} %" for name, e in zip(names, error, strict=True)})
    assert error[:2].max() < 1e-12
    assert error[2] > 0.1
    assert error[3] > 0.1


# mass and damping as published


def test_accelerability_adds_the_inverse_inertia_of_each_link_about_its_joint():
    mech = mechanisms.random_mechanism(np.random.default_rng(2), 4, ("hinge", "ball"), branching=0.0, reversing=0.0)
    expected = np.zeros((6, 6))
    for body, joint in zip(mech.bodies, mech.joints, strict=True):
        own = spatial.adjoint(joint.pose_child) @ joint.twist_jacobian(joint.reference)
        speed = joint.increments(joint.reference)
        inertia = own.T @ spatial.spatial_inertia(body.mass, body.centre, body.inertia) @ own
        inertia += speed.T @ np.diag(joint.armature) @ speed
        to_tip = spatial.adjoint(spatial.inverse(mech.poses["body3"]) @ body.pose)
        expected += to_tip @ own @ np.linalg.solve(inertia, own.T) @ to_tip.T
    result = accelerability(mech, ["body3"])
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-10)
    assert_symmetric_and_positive(result)


def test_accelerability_of_one_link_is_exact():
    mech = mechanisms.random_mechanism(np.random.default_rng(4), 1, ("universal",))
    jacobian = supple.jacobian(mech, "body0")
    expected = jacobian @ np.linalg.solve(supple.mass_matrix(mech), jacobian.T)
    np.testing.assert_allclose(accelerability(mech, ["body0"]), expected, rtol=1e-10)


def test_inverse_damping_is_the_compliance_of_dampers():
    mech = mechanisms.random_mechanism(np.random.default_rng(6), 5, ("hinge", "slide", "universal", "planar"))
    dampers = [dataclasses.replace(j, stiffness=j.damping, curves=()) for j in mech.joints]
    expected = recursion(dataclasses.replace(mech, joints=tuple(dampers)), ["body4", "body2"]).compliance
    np.testing.assert_allclose(inverse_damping(mech, ["body4", "body2"]), expected, rtol=1e-12, atol=1e-12)


def test_inverse_damping_is_infinite_where_an_axis_has_no_damper():
    mech = supple.library.helix(4, damping=0.0)
    assert inverse_damping(mech, ["tip"]) is None
    assert inverse_damping(with_joint(mech, mech.joints[1].name, damping=1.0), ["tip"]) is None
    np.testing.assert_array_equal(supple.reduce(mech, ["tip"], method="recursion", mass="accelerability").damping, 0)


# what it refuses


def bad_input():
    helix = supple.library.helix(4)
    b = supple.Builder("coupled")
    for i in range(2):
        b.body(f"b{i}", mass=1.0)
        b.hinge(f"h{i}", f"b{i - 1}" if i else "world", f"b{i}", at=(0, 0, 0), axis="y", stiffness=1.0)
    b.site("ground", "world", at=(0, 0, 0))
    plain = b.build()
    b.couple("tendon", {"h0": 1.0, "h1": -1.0}, rigid=True)
    hinge = helix.joints[2].name
    yield helix, ["tipp"], "did you mean 'tip'"
    yield helix, ["tip", "tip"], "named twice"
    yield plain, ["ground"], "'ground' is fixed to the world"
    yield b.build(), ["b1"], "coupling 'tendon'.*method='projection'"
    yield with_joint(helix, hinge, stiffness=0.0), ["tip"], f"'{hinge}'.*no spring.*method='projection'"
    yield mechanisms.four_bar(stiffness=1.0), ["crank"], "'crank' lies inside the loop that joint 'd'.*'projection'"
    yield mechanisms.four_bar(stiffness=1.0), ["crank", "rocker"], "inside the loop that joint 'd'.*'projection'"


@pytest.mark.parametrize(("mech", "tips", "text"), list(bad_input()))
def test_bad_input_is_named(mech, tips, text):
    with pytest.raises(supple.MechanismError, match=text):
        recursion(mech, tips)


def test_accelerability_of_a_massless_link_is_named():
    b = supple.Builder("massless")
    b.body("b0")
    b.hinge("h0", "world", "b0", at=(0, 0, 0), axis="y", stiffness=1.0)
    with pytest.raises(supple.MechanismError, match=r"joint 'h0'.*without moving any mass of 'b0'"):
        accelerability(b.build(), ["b0"])
