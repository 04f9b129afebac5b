"""Elastic parts: meshes, checks, materials, files."""

import numpy as np
import pytest

from supple import MechanismError, elastic


@pytest.fixture(scope="module")
def bar():
    return elastic.plate(0.1, 0.02, 0.01, divisions=(3, 1, 1))


def test_sections_have_the_true_area():
    rod = elastic.rod(0.7, 4e-3, sections=4)
    assert rod.mass == pytest.approx(np.pi * 4e-6 * 0.7 * 7850, rel=1e-12)
    assert rod.interface("end").area == pytest.approx(np.pi * 4e-6, rel=1e-12)
    assert rod.rest_frame("end")[:3, 3] == pytest.approx([0, 0, 0.7], abs=1e-15)
    tube = elastic.tube(0.3, 0.02, 2e-3, elastic.brass(), sections=3)
    assert tube.mass == pytest.approx(np.pi * (0.01**2 - 0.008**2) * 0.3 * 8500, rel=1e-12)


def test_a_plate_has_named_edges():
    plate = elastic.plate(0.2, 0.05, 2e-3, divisions=(4, 2, 1), interfaces=("left", "start", "end"))
    assert list(plate.interfaces) == ["left", "start", "end"]
    assert plate.interface("left").area == pytest.approx(0.2 * 2e-3)
    assert plate.mass == pytest.approx(0.2 * 0.05 * 2e-3 * 7850)
    with pytest.raises(MechanismError, match="no edge 'top'"):
        elastic.plate(0.2, 0.05, 2e-3, interfaces=("top",))


def test_a_bar_has_thinned_sections_and_pads():
    profile = [(0, 0.02, 0.01), (0.03, 0.02, 0.01), (0.06, 0.008, 0.01), (0.1, 0.008, 0.01)]
    part = elastic.bar(profile, pads={"side": ("-x", 0.005, 0.015)}, length=0.01)
    assert list(part.interfaces) == ["start", "end", "side"]
    assert part.mass == pytest.approx(7850 * 0.01 * (0.03 * 0.02 + 0.03 * 0.014 + 0.04 * 0.008))
    assert part.interface("end").area == pytest.approx(0.008 * 0.01)
    assert part.interface("side").area == pytest.approx(0.01 * 0.01)
    assert part.interface("side").centroid == pytest.approx([-0.01, 0, 0.01])


@pytest.mark.parametrize(
    ("profile", "pads", "text"),
    [
        ([(0, 0.02, 0.01)], {}, "two rows or more"),
        ([(0, 0.02, 0.01), (0, 0.02, 0.01)], {}, "z rising"),
        ([(0, 0.02, 0.01), (0.1, 0.0, 0.01)], {}, "width of a part must be positive"),
        ([(0, 0.02, 0.01), (0.1, 0.02, 0.01)], {"side": ("top", 0.0, 0.1)}, "pad 'side' of a bar is on the face 'top'"),
        ([(0, 0.02, 0.01), (0.1, 0.02, 0.01)], {"side": ("+x", 0.05, 0.2)}, "must lie between 0 and 0.1 m"),
    ],
)
def test_bad_bars(profile, pads, text):
    with pytest.raises(MechanismError, match=text):
        elastic.bar(profile, pads=pads)


def test_mass_matrix_holds_mass_and_moments(bar):
    M = bar.mass_matrix()
    assert M.sum() == pytest.approx(bar.mass, rel=1e-12)
    x = bar.nodes[:, 0]
    assert x @ (M @ x) == pytest.approx(bar.mass * 0.1**2 / 3, rel=1e-12)


def test_density_by_element(bar):
    heavy = np.full(len(bar.tets), 1000.0)
    heavy[0] = 2000.0
    part = elastic.Part(bar.nodes, bar.tets, bar.material, bar.interfaces, heavy)
    assert part.mass_matrix().sum() == pytest.approx(1000 * (bar.volumes.sum() + bar.volumes[0]), rel=1e-12)


def test_the_skin_is_closed_and_points_outward(bar):
    corners = bar.nodes[bar.skin[:, :3]]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) / 2
    assert np.abs(normals.sum(axis=0)).max() < 1e-18
    assert np.einsum("fi,fi->", normals, corners.mean(axis=1)) / 3 == pytest.approx(bar.volumes.sum())


def test_bad_elements_are_named(bar):
    corners = bar.tets[:, :4].copy()
    used = bar.nodes[: corners.max() + 1]
    facets = {name: own[:, :3] for name, own in bar.interfaces.items()}
    flipped = corners.copy()
    flipped[5] = flipped[5, [1, 0, 2, 3]]
    with pytest.raises(MechanismError, match=r"tetrahedron 5 .* is inverted"):
        elastic.Part(used, flipped, bar.material, facets)
    flat = used.copy()
    a, b, c, d = corners[2]
    flat[d] = flat[[a, b, c]].mean(axis=0)
    with pytest.raises(MechanismError, match=r"tetrahedron .* is (degenerate|inverted)"):
        elastic.Part(flat, corners, bar.material, facets)
    twice = np.vstack([used, used + [1.0, 0, 0]])
    with pytest.raises(MechanismError, match="2 unconnected pieces"):
        elastic.Part(twice, np.vstack([corners, corners + len(used)]), bar.material, facets)
    curved = bar.nodes.copy()
    curved[bar.tets[0, 4]] += 1e-4
    with pytest.raises(MechanismError, match="curved edge"):
        elastic.Part(curved, bar.tets, bar.material, bar.interfaces)
    with pytest.raises(MechanismError, match="belongs to no tetrahedron"):
        elastic.Part(np.vstack([used, [1.0, 1, 1]]), corners, bar.material, facets)


def test_interfaces_lie_on_the_surface(bar):
    with pytest.raises(MechanismError, match=r"interface 'grip'.*no facet of the mesh's surface"):
        elastic.Part(bar.nodes, bar.tets, bar.material, {"grip": [[0, 1, int(bar.tets[0, 0])]]})
    with pytest.raises(MechanismError, match="no interface 'middle'; it has 'start', 'end'"):
        bar.interface("middle")
    with pytest.raises(MechanismError, match="needs an interface"):
        elastic.Part(bar.nodes, bar.tets, bar.material, {})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"poisson": 0.5}, "Poisson's ratio"),
        ({"young": 0.0}, "young must be positive"),
        ({"density": -1.0}, "density must be positive"),
        ({"law": "wood"}, "no material law 'wood'"),
        ({"beta": -1e-3}, "damping beta"),
    ],
)
def test_bad_materials(change, text):
    with pytest.raises(MechanismError, match=text):
        elastic.Material(**{"young": 1e9, "poisson": 0.3, "density": 1000.0, **change})


def test_damping_ratio():
    assert elastic.spring_steel().with_damping(0.003, 2.0).beta == pytest.approx(2 * 0.003 / (2 * np.pi * 2.0))


def test_inverted_elements_are_named(bar):
    u = np.zeros_like(bar.nodes)
    u[bar.tets[3, 0]] = 5 * (bar.nodes[bar.tets[3, 1:4]].mean(axis=0) - bar.nodes[bar.tets[3, 0]])
    with pytest.raises(MechanismError, match=r"tetrahedron .* is inverted by the deformation"):
        bar.elements.forces(u)
    assert bar.elements.inverted(u) >= 0
    assert bar.elements.inverted(0 * u) == -1


def test_mesh_files(bar, tmp_path):
    meshio = pytest.importorskip("meshio")
    corners = bar.tets[:, [0, 2, 1, 3]]  # numbered the other way
    triangles = bar.interfaces["start"][:, :3]
    points = 1e3 * np.vstack([bar.nodes, [9.0, 9.0, 9.0]])
    tags = [np.full(len(triangles), 1), np.full(len(corners), 2)]
    written = meshio.Mesh(
        points,
        [("triangle", triangles), ("tetra", corners)],
        cell_data={"gmsh:physical": tags, "gmsh:geometrical": tags},
        field_data={"foot": np.array([1, 2]), "body": np.array([2, 3])},
    )
    path = tmp_path / "bar.msh"
    meshio.write(path, written, file_format="gmsh22", binary=False)
    where = {"start": lambda x: x[:, 0] < 1e-9, "end": triangles}
    part = elastic.from_mesh(path, interfaces={"start": where["start"]}, scale=1e-3)
    assert part.mass == pytest.approx(bar.mass)
    assert part.interface("start").area == pytest.approx(2e-4)
    group = elastic.from_mesh(path, interfaces={"start": "foot"}, scale=1e-3)
    assert np.array_equal(np.sort(group.interface("start").nodes), np.sort(part.interface("start").nodes))
    with pytest.raises(MechanismError, match="interface 'end' is off the mesh"):
        elastic.from_mesh(path, interfaces={"end": lambda x: x[:, 0] > 5.0}, scale=1e-3)
    with pytest.raises(MechanismError, match="no group of triangles 'hand'"):
        elastic.from_mesh(path, interfaces={"end": "hand"})
    with pytest.raises(MechanismError, match="there is no file"):
        elastic.from_mesh(tmp_path / "nothing.msh", interfaces={})
    surface = tmp_path / "skin.ply"
    meshio.write(surface, meshio.Mesh(bar.nodes, [("triangle", bar.skin[:, :3])]))
    with pytest.raises(MechanismError, match="has no tetrahedra"):
        elastic.from_mesh(surface, interfaces=where)
