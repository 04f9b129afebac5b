"""Skins against monolithic finite-element solves with the same turned zones."""

import numpy as np
import pytest

import supple
from monolithic_skin import monolithic
from supple import MechanismError, elastic, spatial, zones
from supple.elastic.linear import coordinates_of
from supple.mechanism import Poses, Shape
from supple.zones.layout import placed

SKIN = elastic.Material(young=1e5, poisson=0.4, density=1e3)
SIDE = 0.01
SOLVERS = ("cholesky", "cg", "forces")


def bodies(places, parents=None):
    """A mechanism of free bodies at given places (n, 3)."""
    builder = supple.Builder("bodies")
    for i, place in enumerate(places):
        builder.body(f"b{i}", spatial.translation(np.asarray(place, dtype=float)), mass=1.0, inertia=(1e-4,) * 3)
        builder.free(f"j{i}", "world", f"b{i}")
    return builder.build()


def block(sides, bone="bottom"):
    return zones.Zone.from_solid(zones.block((SIDE,) * 3, (2, 2, 2)), SKIN, bone=bone, seam=sides, touch="top")


def skin_of(places, sides, bone="bottom"):
    """Blocks on free bodies; their frames are those of the bodies."""
    mech = bodies(places)
    attached = {f"z{i}": zones.Attached(block(own, bone), f"b{i}") for i, own in enumerate(sides)}
    return zones.Skin(mech, attached)


def chain(n):
    sides = [[name for name, there in (("left", i > 0), ("right", i < n - 1)) if there] for i in range(n)]
    return skin_of([(SIDE * i, 0, 0) for i in range(n)], sides)


def star():
    """A block with a neighbour on each of three sides: a tree."""
    places = [(0, 0, 0), (SIDE, 0, 0), (-SIDE, 0, 0), (0, SIDE, 0)]
    return skin_of(places, [["left", "right", "back"], ["left"], ["right"], ["front"]])


def ring():
    """Four blocks around a line whose nodes belong to all of them."""
    places = [(0, 0, 0), (SIDE, 0, 0), (SIDE, SIDE, 0), (0, SIDE, 0)]
    return skin_of(places, [["right", "back"], ["left", "back"], ["left", "front"], ["right", "front"]])


def bent(mech, seed, angle=0.4):
    rng = np.random.default_rng(seed)
    poses = mech.poses.array.copy()
    for H in poses:
        H[:] = H @ spatial.exp(np.concatenate([0.1 * SIDE * rng.standard_normal(3), angle * rng.standard_normal(3)]))
    return Poses(mech, poses)


def loaded(skin, seed):
    rng = np.random.default_rng(seed)
    forces = np.zeros((skin.vertex_count, 3))
    chosen = rng.permutation(skin.touch)[:6]
    forces[chosen] = 0.05 * rng.standard_normal((len(chosen), 3))
    return forces


SKINS = {"two": lambda: chain(2), "nine": lambda: chain(9), "tree": star, "ring": ring}


@pytest.fixture(scope="module", params=list(SKINS))
def skin(request):
    return SKINS[request.param]()


@pytest.mark.filterwarnings("ignore::supple.RangeWarning")
def test_a_skin_agrees_with_the_monolithic_solve(skin):
    where, forces = bent(skin.mechanism, 3), loaded(skin, 4)
    vertices, per_zone = monolithic(skin, where, forces)
    for solver in SOLVERS:
        shape = skin.at(where, solver=solver).solve(forces)
        tolerance = 1e-10 * SIDE if solver != "cg" else 1e-8 * SIDE
        assert np.abs(shape.vertices - vertices).max() < tolerance
    shape = skin.at(where).solve(forces)
    energy = 0.0
    frames, _ = skin.frames(where)
    total = {}
    for (name, zone), (x, f), H, of in zip(skin.zones.items(), per_zone, frames, skin.vertex_of, strict=True):
        assert np.allclose(shape.seam_forces[name], f[zone.seam], rtol=0, atol=1e-10 * np.abs(f).max())
        bone = zone.bones["bone"]
        (body,) = skin.bodies[name]
        torque = np.cross(x[bone] - where.of(body)[:3, 3], f[bone]).sum(axis=0)
        wrench = -np.concatenate([f[bone].sum(axis=0), torque])
        assert np.allclose(shape.bone_wrenches[body], wrench, rtol=0, atol=1e-10 * np.abs(f).sum())
        energy += 0.5 * np.sum(f * (x - placed(zone.nodes, H)))
        for node, force in zip(of[zone.seam].tolist(), shape.seam_forces[name], strict=True):
            total[node] = total.get(node, 0) + force
        # in each zone forces add up to nothing, and moments about undeformed points
        assert np.abs(f.sum(axis=0)).max() < 1e-11 * np.abs(f).sum()
        assert np.abs(np.cross(placed(zone.nodes, H), f).sum(axis=0)).max() < 1e-11 * np.abs(f).sum()
    assert shape.energy == pytest.approx(energy, rel=1e-10)
    for node, force in total.items():  # forces of the zones cancel at seams, but for the load
        assert np.allclose(force, forces[node], atol=1e-11 * np.abs(shape.seam_forces["z0"]).max())


@pytest.mark.filterwarnings("ignore::supple.RangeWarning")
def test_the_compliance_of_a_skin_is_its_response(skin):
    """C gives the displacements by forces; it is symmetric and positive semidefinite, also in a body's frame."""
    where = bent(skin.mechanism, 5)
    posed = skin.at(where)
    rest = posed.solve().vertices
    points = posed.pad()
    forces = loaded(skin, 6)
    moved = posed.solve(forces).vertices - rest
    at = points.vertices[:, 0]
    assert set(at.tolist()) == set(skin.touch.tolist())
    assert np.allclose(points.points, rest[at], atol=1e-14)
    predicted = (points.compliance @ forces[at].ravel()).reshape(-1, 3)
    assert np.abs(predicted - moved[at]).max() < 1e-11 * np.abs(moved).max()
    assert (points.compliance == points.compliance.T).all()
    assert np.linalg.eigvalsh(points.compliance)[0] > 0
    chosen = skin.touch[::3]
    some = posed.pad(chosen, frame="b1")
    H = where.of("b1")
    order = [int(np.flatnonzero(at == v)[0]) for v in some.vertices[:, 0]]
    assert np.allclose(placed(some.points, H), points.points[order])
    assert np.allclose(some.normals @ H[:3, :3].T, points.normals[order])
    rows = coordinates_of(np.array(order))
    R = np.kron(np.eye(len(order)), H[:3, :3])
    assert np.allclose(R @ some.compliance @ R.T, points.compliance[np.ix_(rows, rows)])


def test_the_reference_pose_is_at_rest(skin):
    shape = skin.at().solve()
    assert shape.energy < 1e-20
    assert shape.volume_ratio == pytest.approx(1)
    points = skin.pad("z0")
    assert np.allclose(points.normals[np.isclose(points.points[:, 2], 0)].mean(axis=0), [0, 0, 1])
    assert set(points.vertices[:, 0].tolist()) == set(skin.touch_of_zone["z0"].tolist())
    assert skin.pad().areas.sum() == pytest.approx(len(skin.zones) * SIDE**2, rel=1e-9)


def test_the_surface_is_closed_and_bonded_faces_are_left_out(skin):
    from supple.elastic.solid import closed

    assert closed(skin.triangles)
    corners = skin.at().solve().vertices[skin.triangles]
    volume = np.einsum("ti,ti->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6
    assert volume == pytest.approx(len(skin.zones) * SIDE**3)


def test_the_factor_of_a_chain_has_no_fill():
    pattern = chain(9).pattern
    assert sum(map(len, pattern.below)) == 7


def test_a_zone_half_way_between_two_bodies():
    """It is carried rigidly when both bodies turn alike, and lies half-way when one turns."""
    mech = supple.Builder("joint")
    for name in ("first", "second"):
        mech.body(name, mass=1.0, inertia=(1e-4,) * 3)
    mech.free("base", "world", "first")
    mech.hinge("bend", "first", "second", at=(0, 0, 0), axis="y", limits=(-1.0, 1.0))
    mech = mech.build()
    solid = zones.pad(0.022, start=-0.011, cells=(4, 4, 2))

    def end(sign):
        return lambda x: (sign * x[:, 0] > 0.0109) & (np.hypot(x[:, 1], x[:, 2]) < 4.6e-3)

    zone = zones.Zone.from_solid(solid, SKIN, bone={"first": end(-1), "second": end(1)}, touch="outer")
    skin = zones.Skin(mech, {"half": zones.Attached(zone, ("first", "second"))})
    q = mech.reference.copy()
    q[-1] = 0.6
    frame = skin.frames(q)[0][0]
    assert np.allclose(spatial.log(frame), [0, 0, 0, 0, 0.3, 0])
    shape = skin.at(q).solve()
    vertices, _ = monolithic(skin, q, np.zeros((skin.vertex_count, 3)))
    assert np.abs(shape.vertices - vertices).max() < 1e-12
    wrenches = np.array([shape.bone_wrenches[name] for name in ("first", "second")])
    assert np.abs(wrenches).max() > 1e-3
    assert np.abs(wrenches[:, :3].sum(axis=0)).max() < 1e-12
    q[:6] = 0.3
    turned = skin.at(q).solve()
    assert turned.energy == pytest.approx(shape.energy, rel=1e-9)
    with pytest.raises(MechanismError, match=r"'bend' is 1\.2, beyond the range"):
        skin.at([*q[:6], 1.2])


def test_bad_skins_are_refused():
    mech = bodies([(0, 0, 0), (SIDE, 0, 0)])
    left, right = block(["right"]), block(["left"])
    with pytest.raises(MechanismError, match=r"node \d+ of zone 'b' at .* no seam node of another zone"):
        zones.Skin(mech, {"a": zones.Attached(left, "b0"), "b": zones.Attached(block(["left", "back"]), "b1")})
    moved = spatial.translation(np.array([0, 1e-4, 0]))
    with pytest.raises(MechanismError, match=r"node \d+ of zone 'a' .* node \d+ of zone 'b', 0\.0001 m away"):
        zones.Skin(mech, {"a": zones.Attached(left, "b0"), "b": zones.Attached(right, "b1", moved)})
    with pytest.raises(MechanismError, match=r"no body .* named 'b7'"):
        zones.Skin(mech, {"a": zones.Attached(left, "b7")})
    with pytest.raises(MechanismError, match="needs 1 bodies"):
        zones.Skin(mech, {"a": zones.Attached(left, ("b0", "b1"))})
    skin = zones.Skin(mech, {"a": zones.Attached(left, "b0"), "b": zones.Attached(right, "b1")})
    with pytest.raises(MechanismError, match="no solver 'lu'"):
        skin.at(solver="lu")
    posed = skin.at()
    forces = np.zeros((skin.vertex_count, 3))
    forces[np.setdiff1d(np.arange(skin.vertex_count), skin.touch)[0]] = 1.0
    with pytest.raises(MechanismError, match="no touch vertex"):
        posed.solve(forces)
    with pytest.raises(MechanismError, match="finite"):
        posed.solve(forces * np.nan)
    with pytest.raises(MechanismError, match="no zone 'c'"):
        posed.pad("c")
    with pytest.raises(MechanismError, match="carries no zone"):
        posed.pad("a", frame="b9")
    cube = zones.block((SIDE,) * 3, (2, 2, 2))
    above = cube.nodes[:, 2] > -0.9 * SIDE  # the nodes below are on the neighbour's bone
    floating = zones.Zone.from_solid(cube, SKIN, seam=above & (cube.nodes[:, 0] < -0.49 * SIDE))
    with pytest.raises(MechanismError, match="zone 'b' has no bone"):
        zones.Skin(mech, {"a": zones.Attached(left, "b0"), "b": zones.Attached(floating, "b1")}).at(solver="forces")
    lost = mech.poses.array.copy()
    lost[0, 0, 3] = np.inf
    with pytest.raises(MechanismError, match="finite"):
        skin.at(Poses(mech, lost))
    with pytest.raises(MechanismError, match="other bodies"):
        skin.at(bodies([(0, 0, 0)]).poses)
    with pytest.raises(MechanismError, match=r"zones\.Attached"):
        zones.Skin(mech, {"a": left})
    with pytest.raises(MechanismError, match="must not be negative"):
        skin.with_seams_near_surface(-1e-3)
    with pytest.raises(MechanismError, match="need samples"):
        skin.with_interpolated_seams([])
    ball = Shape("sphere", [0.3 * SIDE], np.eye(4))
    with pytest.raises(MechanismError, match="rigid pose"):
        skin.press(ball, 2 * np.eye(4))
    with pytest.raises(MechanismError, match="start must be the Touch"):
        skin.press(ball, start=3)
    with pytest.raises(MechanismError, match="1 seams, got 0"):
        skin.with_bases([])


def test_a_zone_of_given_compliance_on_a_body():
    points = np.array([[0, 0, 0.01], [0.01, 0, 0.01], [0, 0.01, 0.01]])
    zone = zones.Zone.from_compliance(points, np.tile([0, 0, 1.0], (3, 1)), np.full(3, 1e-5), 1e-3 * np.eye(9))
    skin = zones.Skin(bodies([(0, 0, 0)]), {"a": zones.Attached(zone, "b0")})
    where = bent(skin.mechanism, 1)
    posed = skin.at(where)
    forces = np.zeros((3, 3))
    forces[1, 2] = -1.0
    shape = posed.solve(forces)
    assert np.allclose(shape.vertices, placed(points, where.of("b0")) + 1e-3 * forces)
    arm = placed(points, where.of("b0"))[1] - where.of("b0")[:3, 3]
    assert np.allclose(shape.bone_wrenches["b0"], [*forces[1], *np.cross(arm, forces[1])])
    assert np.allclose(posed.pad(frame="b0").points, points)
    assert np.allclose(posed.pad(frame="b0").normals, [0, 0, 1])
