"""Elements, generated pads, zones and boundary changes against direct finite-element solves."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse.linalg import spsolve

import supple
from supple import MechanismError, elastic, zones
from supple.elastic.linear import coordinates_of, shape_gradients, stiffness
from supple.elastic.solid import Solid, closed, contact_points, point_areas, triangles_of
from supple.mechanism import Shape
from supple.zones import greens as greens_module

SKIN = elastic.Material(young=1e5, poisson=0.45, density=1e3)
CELLS = (4, 4, 2)


@pytest.fixture(scope="module")
def pad():
    return zones.pad(cells=CELLS)


@pytest.fixture(scope="module")
def zone(pad):
    return zones.Zone.from_solid(pad, SKIN, bone="bone", seam=["start", "end"], touch="outer")


def tetrahedra(solid, quadratic):
    kuhn = np.array([[0, 1, 2, 6], [0, 2, 3, 6], [0, 3, 7, 6], [0, 7, 4, 6], [0, 4, 5, 6], [0, 5, 1, 6]])
    corners = solid.cells[:, kuhn].reshape(-1, 4)
    nodes, cells = elastic.mesh.with_edge_nodes(solid.nodes, corners) if quadratic else (solid.nodes, corners)
    return Solid(nodes, cells)


# --- elements ---------------------------------------------------------------------------------------------------------


def test_the_default_pad_has_the_published_surface():
    pad = zones.pad()
    assert (len(pad.surface), len(pad.triangles)) == (834, 1664)
    assert closed(pad.triangles)
    assert len(np.setdiff1d(pad.groups["start"], pad.groups["bone"])) == 60
    assert closed(zones.pad(tip=True).triangles)


def test_a_graded_block_is_fine_in_the_middle_of_its_top():
    block = zones.block((0.02, 0.02, 0.01), (6, 5, 4), growth=1.5)
    assert block.volume == pytest.approx(4e-6)
    x, z = np.unique(block.nodes[:, 0].round(12)), np.unique(block.nodes[:, 2].round(12))
    assert np.diff(x)[2] < np.diff(x)[0]
    assert np.allclose(np.diff(z)[:-1] / np.diff(z)[1:], 1.5)
    assert np.allclose(block.nodes[block.groups["top"], 2], 0)
    assert np.allclose(x, -x[::-1])


@pytest.mark.parametrize("kind", ["hexahedra", "quadratic", "linear"])
def test_stiffness_is_exact_for_uniform_strain_and_zero_for_rigid_motions(pad, kind):
    solid = pad if kind == "hexahedra" else tetrahedra(pad, kind == "quadratic")
    K = stiffness(solid.nodes, solid.cells, SKIN)
    assert abs(K - K.T).max() == 0
    largest = abs(K).max()
    for field in (np.ones_like(solid.nodes), np.cross([0.3, -0.2, 0.5], solid.nodes)):
        assert abs(K @ field.ravel()).max() < 1e-12 * largest
    gradient = np.random.default_rng(0).standard_normal((3, 3))
    strain = (gradient + gradient.T) / 2
    mu, lam = SKIN.lame
    energy = solid.volume * (mu * (strain**2).sum() + lam / 2 * np.trace(strain) ** 2)
    u = (solid.nodes @ gradient.T).ravel()
    assert u @ (K @ u) / 2 == pytest.approx(energy, rel=1e-12)


def test_stiffness_agrees_with_scikit_fem_and_with_the_elements_of_flexible_bodies(pad):
    skfem = pytest.importorskip("skfem")
    from skfem.helpers import ddot, sym_grad, trace

    mu, lam = SKIN.lame
    # scikit-fem numbers the corners of a hexahedron by their distance from the first one
    order = [0, 4, 3, 1, 7, 5, 2, 6]
    mesh = skfem.MeshHex(pad.nodes.T.copy(), pad.cells[:, order].T.copy())
    basis = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementHex1()), intorder=3)

    @skfem.BilinearForm
    def form(u, v, w):
        e, f = sym_grad(u), sym_grad(v)
        return 2 * mu * ddot(e, f) + lam * trace(e) * trace(f)

    theirs = form.assemble(basis)
    mine = stiffness(pad.nodes, pad.cells, SKIN, mean_dilatation=False)
    assert abs(theirs - mine).max() < 1e-12 * abs(mine).max()
    tets = tetrahedra(pad, True)
    part = elastic.elements.Elements(tets.nodes, tets.cells, SKIN)
    compiled = part.tangent(np.zeros_like(tets.nodes))[1]
    mine = stiffness(tets.nodes, tets.cells, SKIN)
    assert abs(compiled - mine).max() < 1e-12 * abs(mine).max()


def test_contact_points_share_the_area_of_their_faces(pad):
    for solid in (pad, tetrahedra(pad, True), tetrahedra(pad, False)):
        matrix, shares = contact_points(solid.faces, len(solid.nodes))
        areas = point_areas(solid.faces, shares, solid.nodes, matrix.shape[0])
        x = matrix @ solid.nodes
        assert np.allclose(areas.sum(axis=0), 0, atol=1e-15)
        corners = solid.nodes[triangles_of(solid.faces)]
        volume = np.einsum("ti,ti->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6
        # bilinear faces and their two triangles enclose slightly different volumes
        assert np.einsum("pi,pi->", x, areas) / 3 == pytest.approx(volume, rel=2e-2)
        assert np.allclose(matrix.sum(axis=1), 1)


def test_solids_from_files(tmp_path, monkeypatch):
    meshio = pytest.importorskip("meshio")
    block = zones.block((1, 1, 1), (2, 2, 2))
    bottom = [np.flatnonzero(np.isin(block.cells, block.groups["bottom"]).any(axis=1))]
    file = tmp_path / "block.inp"
    meshio.Mesh(1e3 * block.nodes, [("hexahedron", block.cells)], cell_sets={"low": bottom}).write(file)
    read = elastic.read_solid(file, scale=1e-3)
    assert read.volume == pytest.approx(1)
    assert set(block.groups["bottom"]) < set(read.groups["low"])
    tets = tetrahedra(block, False)
    low = np.flatnonzero(tets.nodes[:, 2] < -0.9)
    file = tmp_path / "tets.inp"
    meshio.Mesh(tets.nodes, [("tetra", tets.cells)], point_sets={"low": low}).write(file)
    read = elastic.read_solid(file)
    assert read.cells.shape[1] == 10
    assert len(read.groups["low"]) == 25  # with the middles of edges
    file = tmp_path / "surface.stl"
    meshio.Mesh(block.nodes, [("triangle", block.triangles)]).write(file, binary=True)
    filled = SimpleNamespace(tetrahedralize=lambda nodes, faces, **options: (tets.nodes, tets.cells))
    monkeypatch.setitem(sys.modules, "pytetwild", filled)
    assert elastic.read_solid(file).volume == pytest.approx(1)
    with pytest.raises(MechanismError, match="does not close"):
        elastic.fill_surface(block.nodes, block.triangles[1:])
    with pytest.raises(MechanismError, match="no file"):
        elastic.read_solid(tmp_path / "none.msh")
    (tmp_path / "bad.vtk").write_text("nothing")
    with pytest.raises(MechanismError, match="cannot read"):
        elastic.read_solid(tmp_path / "bad.vtk")


def test_a_zone_of_ten_node_tetrahedra(pad):
    """Contact points are inside faces; their compliance is that of the faces' nodes."""
    tets = tetrahedra(zones.block((0.01, 0.01, 0.01), (2, 2, 1)), True)
    zone = zones.Zone.from_solid(tets, SKIN, bone=tets.nodes[:, 2] < -0.0099, touch=tets.nodes[:, 2] > -1e-9)
    builder = supple.Builder("one")
    builder.body("body", mass=1.0, inertia=(1e-4,) * 3)
    builder.fixed("hold", "world", "body")
    points = zones.Skin(builder.build(), {"zone": zones.Attached(zone, "body")}).pad()
    assert len(points.points) == 3 * 8
    assert np.allclose(points.normals, [0, 0, 1])
    assert points.areas.sum() == pytest.approx(1e-4)
    matrix = zone.points[0].toarray()
    C = np.zeros((len(zone.nodes), 3, len(zone.nodes), 3))
    t = 3 * len(zone.free_touch)
    own = zone.greens.compliance[:t].reshape(t // 3, 3, -1, 3)
    C[np.ix_(zone.free_touch, range(3), zone.free_touch, range(3))] = own
    expected = np.einsum("pn,nimj,qm->piqj", matrix, C, matrix).reshape(72, 72)
    assert relative(points.compliance, expected) < 1e-12


# --- zones ------------------------------------------------------------------------------------------------------------


def solve_directly(zone, fixed, values, forces):
    """Displacements (n, 3) and nodal forces (n, 3) with coordinates `fixed` given as `values`."""
    K = stiffness(zone.nodes, zone.solid.cells, zone.material).tocsc()
    n = K.shape[0]
    loose = np.setdiff1d(np.arange(n), fixed)
    u = np.zeros(n)
    u[fixed] = values
    u[loose] = spsolve(K[loose][:, loose], forces.ravel()[loose] - K[loose][:, fixed] @ values)
    return u.reshape(-1, 3), (K @ u).reshape(-1, 3)


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def test_a_zone_agrees_with_the_direct_solve(zone):
    rng = np.random.default_rng(1)
    seam = 1e-4 * rng.standard_normal((len(zone.seam), 3))
    touch = 1e-2 * rng.standard_normal((len(zone.free_touch), 3))
    forces = np.zeros_like(zone.nodes)
    forces[zone.free_touch] = touch
    fixed = coordinates_of(np.concatenate([zone.seam, zone.bones["bone"]]))
    values = np.concatenate([seam.ravel(), np.zeros(3 * len(zone.bones["bone"]))])
    u, f = solve_directly(zone, fixed, values, forces)
    held = np.concatenate([seam.ravel(), np.zeros(12)])
    assert relative(zone.displacements(held, touch.ravel()), u) < 1e-11
    t = 3 * len(zone.free_touch)
    p = zone.greens.stiffness @ held - zone.greens.motion[:t].T @ touch.ravel()
    s = 3 * len(zone.seam)
    assert relative(p[:s].reshape(-1, 3), f[zone.seam]) < 1e-11
    bone = f[zone.bones["bone"]]
    assert relative(p[s + 9 :], bone.sum(axis=0)) < 1e-11
    assert relative(p[s : s + 9].reshape(3, 3), bone.T @ zone.nodes[zone.bones["bone"]]) < 1e-11
    # forces add up to nothing, and moments about undeformed points
    x = zone.nodes
    everything = [(x[zone.seam], p[:s].reshape(-1, 3)), (x[zone.free_touch], touch)]
    moment = p[s : s + 9].reshape(3, 3)
    total = p[s + 9 :] + sum(own.sum(axis=0) for _, own in everything)
    turning = np.array([moment[2, 1] - moment[1, 2], moment[0, 2] - moment[2, 0], moment[1, 0] - moment[0, 1]])
    turning = turning + sum(np.cross(at, own).sum(axis=0) for at, own in everything)
    assert np.abs(total).max() < 1e-12 * np.abs(p).sum()
    assert np.abs(turning).max() < 1e-12 * np.abs(p).sum() * np.ptp(x)


def test_a_zone_with_two_bones_takes_their_full_rotations(pad):
    marks = {"first": lambda x: (x[:, 0] < 1e-9) & on_bone(x), "second": lambda x: (x[:, 0] > 0.0219) & on_bone(x)}
    zone = zones.Zone.from_solid(pad, SKIN, bone=marks, seam=["start", "end"], touch="outer")
    assert set(zone.bones) == {"first", "second"}
    rng = np.random.default_rng(2)
    held = np.concatenate([1e-4 * rng.standard_normal(3 * len(zone.seam)), rng.standard_normal(24)])
    nodes = [zone.seam, *zone.bones.values()]
    u = zone.displacements(held, np.zeros(3 * len(zone.free_touch)))
    for bone, own in zip(zone.bones.values(), (held[-24:-12], held[-12:]), strict=True):
        assert np.allclose(u[bone], zone.nodes[bone] @ own[:9].reshape(3, 3).T + own[9:])
    fixed = np.concatenate(nodes)
    direct, _ = solve_directly(zone, coordinates_of(fixed), u[fixed].ravel(), np.zeros_like(u))
    assert relative(u, direct) < 1e-11


def on_bone(x):
    return np.hypot(x[:, 1], x[:, 2]) < 4.6e-3


@pytest.mark.parametrize("seed", range(3))
def test_boundary_changes_agree_with_the_direct_solve(zone, seed):
    """Touch nodes held and seam nodes released, whole or in single directions; some restored again."""
    rng = np.random.default_rng(seed)
    change = zones.BoundaryChange(zone)
    touched = rng.permutation(zone.free_touch)[: (1, 4, 12)[seed]]
    released = rng.permutation(zone.seam)[: (1, 3, 8)[seed]]
    for node in rng.permutation(np.concatenate([touched, released])):
        axes = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        change.switch(int(node), None if rng.random() < 0.5 else axes[: rng.integers(1, 3)])
    for node in rng.permutation(np.concatenate([touched, released]))[: seed * 3]:
        change.restore(int(node))
    n = len(change.nodes)
    values = np.where(np.arange(n)[:, None] < len(zone.seam), 1e-4, 1e-2) * rng.standard_normal((n, 3))
    unknown = change.solve(values)
    # the same by the direct solve, in coordinates turned to the switched directions
    K = stiffness(zone.nodes, zone.solid.cells, zone.material).toarray()
    prescribed, seam = [], set(zone.seam.tolist())
    forces, free_directions = np.zeros(len(K)), []
    place = {int(node): i for i, node in enumerate(change.nodes)}
    for node in range(len(zone.nodes)):
        own = [d for other, d in change.switched if other == node]
        basis = np.array(own).reshape(-1, 3)
        rest = np.linalg.svd(np.vstack([basis, np.zeros((3, 3))]))[2][len(own) :]
        for d, switched in [(d, True) for d in own] + [(d, False) for d in rest]:
            e = np.zeros(len(K))
            e[3 * node : 3 * node + 3] = d
            given = values[place[node]] @ d if node in place else 0.0
            displaced = node in zone.bones["bone"] or (node in seam) != switched
            if displaced:
                prescribed.append((e, given))
            else:
                free_directions.append(e)
                forces += given * e
    Q = np.array(free_directions).T
    u = sum(given * e for e, given in prescribed)
    u = u + Q @ np.linalg.solve(Q.T @ K @ Q, Q.T @ (forces - K @ u))
    f = (K @ u).reshape(-1, 3)[change.nodes]
    u = u.reshape(-1, 3)[change.nodes]
    expected = np.where(np.arange(n)[:, None] < len(zone.seam), f, u)
    for node, d in change.switched:
        i = place[node]
        other = u[i] if node in seam else f[i]
        expected[i] += d * (d @ (other - expected[i]))
    assert relative(unknown, expected) < 1e-10
    for node in [node for node, _ in change.switched]:
        change.restore(node)
    assert relative(change.solve(values), zones.BoundaryChange(zone).solve(values)) < 1e-10


@pytest.mark.parametrize("count", [1, 20, 200])
def test_many_nodes_switched_agree_with_the_direct_solve(count):
    """Held touch nodes, without friction where odd, and a released seam."""
    solid = zones.block((0.02, 0.02, 0.004), (14, 14, 2))
    zone = zones.Zone.from_solid(solid, SKIN, bone="bottom", seam="left", touch="top")
    rng = np.random.default_rng(count)
    change = zones.BoundaryChange(zone)
    held, released = rng.permutation(zone.free_touch)[:count], zone.seam[: count // 10]
    for node in held:
        change.switch(int(node), (0, 0, 1) if node % 2 else None)
    for node in released:
        change.switch(int(node))
    values = 1e-4 * rng.standard_normal((len(change.nodes), 3))
    unknown = change.solve(values)
    place = {int(node): i for i, node in enumerate(change.nodes)}
    given, forces = {}, np.zeros_like(zone.nodes)
    for node in range(len(zone.nodes)):
        for axis in range(3):
            value = values[place[node], axis] if node in place else 0.0
            switched = node in released or (node in held and (node % 2 == 0 or axis == 2))
            if node in zone.bones["bone"] or (node in zone.seam) != switched:
                given[3 * node + axis] = value
            else:
                forces[node, axis] = value
    fixed = np.array(sorted(given))
    u, f = solve_directly(zone, fixed, np.array([given[i] for i in fixed]), forces)
    displaced = np.isin(3 * change.nodes[:, None] + np.arange(3), fixed)
    expected = np.where(displaced, f[change.nodes], u[change.nodes])
    for kind in (displaced, ~displaced):
        assert np.abs(unknown - expected)[kind].max() < 1e-11 * np.abs(expected[kind]).max()


def test_marks_by_shape_function_and_indices(pad):
    box = Shape("box", size=(1e-3, 1.0, 1.0), pose=np.eye(4))
    by_shape = zones.Zone.from_solid(pad, SKIN, bone="bone", seam=box, touch=lambda x: x[:, 2] < -9e-3)
    by_group = zones.Zone.from_solid(pad, SKIN, bone=pad.groups["bone"], seam="start", touch="outer")
    assert (by_shape.seam == by_group.seam).all()
    assert set(by_shape.touch) < set(by_group.touch)


def test_a_zone_of_a_given_compliance(zone):
    t = 3 * len(zone.free_touch)
    points, C = zone.nodes[zone.free_touch], zone.greens.compliance[:t]
    given = zones.Zone.from_compliance(points, points * [0, 1, 1], np.full(t // 3, 1e-6), C)
    assert np.allclose(given.greens.compliance, C)
    with pytest.raises(MechanismError, match="symmetric"):
        zones.Zone.from_compliance(points, points, np.ones(t // 3), C + np.triu(C))
    with pytest.raises(MechanismError, match="positive"):
        zones.Zone.from_compliance(points, points, np.ones(t // 3), -C)


# --- cache ------------------------------------------------------------------------------------------------------------


def test_green_functions_that_would_fill_the_memory_are_refused(pad, tmp_path, monkeypatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    monkeypatch.setattr(greens_module, "LARGEST", 10_000)
    zone = zones.Zone.from_solid(
        pad, elastic.Material(young=1.1e5, poisson=0.4, density=1e3), bone="bone", touch="outer"
    )
    with pytest.raises(MechanismError, match="mark fewer touch nodes"):
        zone.prepare()


def test_equal_zones_are_computed_once_and_cached(pad, tmp_path, monkeypatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    material = elastic.Material(young=1.5e5, poisson=0.3, density=1e3)

    def make():
        return zones.Zone.from_solid(pad, material, bone="bone", touch="outer")

    done = []
    first = make().prepare(progress=done.append)
    assert done
    assert all(0 < fraction <= 1 for fraction in done)
    assert make().greens is first.greens
    files = list(tmp_path.iterdir())
    assert len(files) == 1
    expected = first.greens.compliance.copy()
    del first
    monkeypatch.setattr(greens_module, "compute", None)  # must not be needed
    assert np.array_equal(make().greens.compliance, expected)


@pytest.mark.parametrize("damage", ["short", "other", "values"])
def test_a_damaged_cache_is_rebuilt_and_said_so(pad, tmp_path, monkeypatch, damage):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path))
    zone = zones.Zone.from_solid(pad, elastic.Material(2e5, 0.3, 1e3), bone="bone", touch="outer")
    monkeypatch.setattr(greens_module, "_COMPUTED", {})
    expected = zone.greens.compliance
    (file,) = tmp_path.iterdir()
    if damage == "short":
        file.write_bytes(file.read_bytes()[:1000])
    else:
        with np.load(file) as arrays:
            kept = dict(arrays)
        if damage == "other":
            kept["header"] = np.frombuffer(kept["header"].tobytes().replace(b'"version": 1', b'"version": 0'), np.uint8)
        else:
            kept["motion"] = np.full_like(kept["motion"], np.nan)
        np.savez(file, **kept)
    monkeypatch.setattr(greens_module, "_COMPUTED", {})
    again = zones.Zone.from_solid(pad, elastic.Material(2e5, 0.3, 1e3), bone="bone", touch="outer")
    with pytest.warns(UserWarning, match="computed again"):
        assert np.allclose(again.greens.compliance, expected)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_bad_zones_are_refused(pad):
    make = zones.Zone.from_solid
    with pytest.raises(MechanismError, match="no group 'bones'"):
        make(pad, SKIN, bone="bones")
    with pytest.raises(MechanismError, match=r"node \d+ .* two bones, 'a' and 'b'"):
        make(pad, SKIN, bone={"a": "bone", "b": "start"})
    with pytest.raises(MechanismError, match="no node of the mesh is selected"):
        make(pad, SKIN, bone=lambda x: x[:, 0] > 1)
    with pytest.raises(MechanismError, match="neither a bone nor a seam"):
        make(pad, SKIN, touch="outer")
    two = Solid(np.vstack([pad.nodes, pad.nodes + 1]), np.vstack([pad.cells, pad.cells + len(pad.nodes)]))
    with pytest.raises(MechanismError, match=rf"piece of the mesh with node {len(pad.nodes)} "):
        make(two, SKIN, bone=pad.groups["bone"])
    with pytest.raises(MechanismError, match="line or a point"):
        make(pad, SKIN, bone=pad.groups["bone"][:1])
    with pytest.raises(MechanismError, match=r"Poisson.*0\.49"):
        elastic.Material(young=1e5, poisson=0.5, density=1e3)
    with pytest.raises(MechanismError, match=r"hexahedron 0 .* inverted"):
        Solid(pad.nodes, pad.cells[:, [4, 5, 6, 7, 0, 1, 2, 3]])
    with pytest.raises(MechanismError, match="belongs to no element"):
        Solid(np.vstack([pad.nodes, np.zeros((1, 3))]), pad.cells)
    with pytest.raises(MechanismError, match="finite"):
        Solid(pad.nodes * np.nan, pad.cells)
    for wrong in (dict(bone=0.01), dict(length=-1.0), dict(arc=7.0), dict(cells=(0, 1, 1)), dict(cells=(1, 1, 1))):
        with pytest.raises(MechanismError):
            zones.pad(**wrong)
    for size, growth in (((1, 1, 1), 0), ((1, 1), 1), ((1, 1, 1), (1, 1)), ((1, 1, "a"), 1)):
        with pytest.raises(MechanismError, match="of a block"):
            zones.block(size, (2, 2, 2), growth=growth)
    with pytest.raises(MechanismError, match="made of a Solid, got str"):
        make("tip.stl", SKIN, bone="bone")
    with pytest.raises(MechanismError, match=r"needs an elastic\.Material"):
        make(pad, 1e5, bone="bone")
    with pytest.raises(MechanismError, match="a point at least"):
        zones.Zone.from_compliance(np.zeros((0, 3)), np.zeros((0, 3)), [], np.zeros((0, 0)))
    with pytest.raises(MechanismError, match="is zero"):
        zones.Zone.from_compliance([[0, 0, 0]], [[0, 0, 1]], [1e-6], np.zeros((3, 3)))


def test_bad_boundary_changes_are_refused(zone):
    change = zones.BoundaryChange(zone)
    node = int(zone.free_touch[0])
    with pytest.raises(MechanismError, match="neither a seam node nor a touch node"):
        change.switch(int(zone.bones["bone"][0]))
    with pytest.raises(MechanismError, match="zero"):
        change.switch(node, (0, 0, 0))
    change.switch(node, (1, 0, 0))
    with pytest.raises(MechanismError, match="perpendicular"):
        change.switch(node, (1, 1, 0))
    with pytest.raises(MechanismError, match="finite"):
        change.solve(np.full((len(change.nodes), 3), np.nan))


def test_volume_ratio_sees_an_inverted_element(zone):
    assert zone.least_volume_ratio(np.zeros_like(zone.nodes)) == pytest.approx(1)
    assert zone.least_volume_ratio(-1.5 * zone.nodes * [1, 0, 0]) == pytest.approx(-0.5)
    assert (shape_gradients(zone.nodes, zone.solid.cells)[1] > 0).all()
