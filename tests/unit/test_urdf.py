"""Reading URDF: awkward files that other programs read, what is mended and reported, and errors for broken files.

Masses, centres, forward kinematics and mass matrices are compared with Pinocchio's own reader.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

import supple
from mujoco_reference import load_quietly
from supple import spatial
from supple.mechanism.io import mesh_files

TETRAHEDRON = np.array([[1.0, 2, 3], [2, 2, 3], [1, 3, 3], [1, 2, 5]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def inertial(mass: float = 1.0, moments: str = "0.1 0.2 0.25", products: str = "0 0 0", origin: str = "") -> str:
    xx, yy, zz = moments.split()
    xy, xz, yz = products.split()
    inertia = f'<inertia ixx="{xx}" ixy="{xy}" ixz="{xz}" iyy="{yy}" iyz="{yz}" izz="{zz}"/>'
    return f'<inertial>{origin}<mass value="{mass}"/>{inertia}</inertial>'


def joint(name: str, kind: str, parent: str, child: str, inner: str = "") -> str:
    if kind in ("revolute", "prismatic") and "<limit" not in inner:
        inner += '<limit lower="-2" upper="2" effort="10" velocity="3"/>'
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inner}</joint>'


def robot(*parts: str, name: str = "r") -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<robot name="{name}">\n' + "\n".join(parts) + "\n</robot>"


def arm(link: str) -> str:
    """A base, a link under test and one more after it."""
    return robot(
        '<link name="b"/>',
        f'<link name="a">{link}</link>',
        f'<link name="c">{inertial(0.5, origin=ORIGIN)}</link>',
        joint("j", "revolute", "b", "a", '<origin xyz="0.1 0.2 0.3" rpy="0.3 -0.2 1.7"/><axis xyz="0 1 0"/>'),
        joint("k", "revolute", "a", "c", '<origin xyz="0 0 0.4"/><axis xyz="1 2 3"/>'),
    )


ORIGIN = '<origin xyz="0.1 -0.2 0.3" rpy="1 2 3"/>'


def chain(count: int) -> str:
    return robot(
        '<link name="l0"/>', *(f'<link name="l{i + 1}">{inertial(0.1)}</link>' for i in range(count)),
        *(joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", '<origin xyz="0 0 0.01" rpy="0.1 0 0"/>')
          for i in range(count)),
    )  # fmt: skip


AS_GIVEN = {
    "ordinary": arm(inertial(origin=ORIGIN, products="0.01 -0.02 0.03")),
    "triangle inequality": arm(inertial(moments="0.1 0.1 5", origin=ORIGIN)),
    "tiny moments": arm(inertial(moments="1e-14 1e-14 1e-14")),
    "one moment zero": arm(inertial(moments="0 1 1")),
    "slightly negative moment": arm(inertial(moments="-1e-10 1 1")),
    "no inertia": arm(inertial(2.0, "0 0 0")),
    "mass without inertial": arm(""),
    "massless with inertia": arm(inertial(0.0, "0.1 0.1 0.1")),
    "massless virtual link": arm(inertial(0.0, "0 0 0")),
    "slide and continuous": robot(
        '<link name="b"/>', f'<link name="a">{inertial()}</link>', f'<link name="c">{inertial(origin=ORIGIN)}</link>',
        joint("j", "prismatic", "b", "a", '<axis xyz="0 0 -1"/>'),
        joint("k", "continuous", "a", "c", '<origin rpy="0.1 0.2 0.3"/><axis xyz="1 1 0"/>'),
    ),
    "default axis": robot('<link name="b"/>', f'<link name="a">{inertial()}</link>', joint("j", "revolute", "b", "a")),
    "fixed tools": robot(
        f'<link name="b">{inertial(3.0)}</link>', f'<link name="a">{inertial()}</link>', '<link name="tool0"/>',
        f'<link name="camera">{inertial(0.1, origin=ORIGIN)}</link>',
        joint("j", "revolute", "b", "a", '<axis xyz="0 0 1"/>'),
        joint("m", "fixed", "a", "tool0", '<origin xyz="0 0 1" rpy="0 1.5707963267948966 0"/><axis xyz="0 0 0"/>'),
        joint("n", "fixed", "tool0", "camera", ORIGIN),
    ),
    "floating base": robot(
        '<link name="world"/>', f'<link name="hull">{inertial(5.0, origin=ORIGIN)}</link>',
        f'<link name="leg">{inertial()}</link>',
        joint("base", "floating", "world", "hull", '<origin xyz="0 0 0.5" rpy="0 0 0.3"/>'),
        joint("hip", "revolute", "hull", "leg", '<axis xyz="0 1 0"/>'),
    ),
    "floating inside": robot(
        '<link name="b"/>', f'<link name="a">{inertial()}</link>', f'<link name="c">{inertial(origin=ORIGIN)}</link>',
        joint("j", "revolute", "b", "a"), joint("k", "floating", "a", "c", ORIGIN),
    ),
    "planar": robot(
        '<link name="b"/>', f'<link name="a">{inertial(origin=ORIGIN)}</link>', f'<link name="c">{inertial()}</link>',
        joint("j", "planar", "b", "a", ORIGIN + '<axis xyz="0 0 1"/>'), joint("k", "revolute", "a", "c"),
    ),
    "mimic": robot(
        '<link name="b"/>', *(f'<link name="f{i}">{inertial(origin=ORIGIN)}</link>' for i in range(3)),
        joint("j0", "revolute", "b", "f0"),
        joint("j1", "revolute", "b", "f1", '<mimic joint="j0" multiplier="-2" offset="0.1"/>'),
        joint("j2", "prismatic", "f1", "f2", '<mimic joint="j1" multiplier="0.5"/>'),
    ),
    "names": robot(
        '<link name="torso/base:0"/>', f'<link name="Gelenk-Ärmel μ">{inertial()}</link>',
        joint("/ns/関節:1.x", "revolute", "torso/base:0", "Gelenk-Ärmel μ", '<axis xyz="0 0 1"/>'), name="Rührwerk",
    ),
    "chain": chain(40),
}  # fmt: skip


def test_a_spherical_joint_is_a_ball_joint(tmp_path: Path) -> None:
    text = robot(
        '<link name="b"/>', f'<link name="a">{inertial(origin=ORIGIN)}</link>',
        joint("j", "spherical", "b", "a", ORIGIN),
    )  # fmt: skip
    ball = load_quietly(write(tmp_path, text))
    assert tuple(ball.coordinates) == ("j.rx", "j.ry", "j.rz")
    turn = np.array([0.3, -0.5, 0.8])
    free = load_quietly(write(tmp_path, text.replace("spherical", "floating")))
    expected = supple.kinematics(free, [0, 0, 0, *turn]).poses["a"]
    np.testing.assert_allclose(supple.kinematics(ball, turn).poses["a"], expected, atol=1e-14)
    np.testing.assert_allclose(
        supple.mass_matrix(ball, turn), supple.mass_matrix(free, [0, 0, 0, *turn])[3:, 3:], atol=1e-14
    )


def test_limits_of_a_spherical_joint_are_reported(tmp_path: Path) -> None:
    limit = '<limit lower="-0.5" upper="0.5" effort="3" velocity="2"/>'
    text = robot(
        '<link name="b"/>', f'<link name="a">{inertial(origin=ORIGIN)}</link>',
        joint("j", "spherical", "b", "a", limit),
    )  # fmt: skip
    mech = load_quietly(write(tmp_path, text))
    assert "limits of joint 'j': a spherical joint takes none; left out" in reported(mech)


@pytest.mark.parametrize("text", AS_GIVEN.values(), ids=AS_GIVEN)
def test_files_that_pinocchio_reads_agree_with_it(text: str, tmp_path: Path) -> None:
    pinocchio = pytest.importorskip("pinocchio")
    mech = load_quietly(write(tmp_path, text))
    model = pinocchio.buildModelFromXML(text)
    data = model.createData()
    rng = np.random.default_rng(3)
    q = rng.uniform(-1, 1, mech.dof)
    theirs, rates = _pinocchio_coordinates(pinocchio, model, mech, q)

    state = supple.kinematics(mech, q)
    matrix = pinocchio.crba(model, data, theirs)
    matrix = np.triu(matrix) + np.triu(matrix, 1).T
    mass = supple.mass_matrix(mech, q)
    np.testing.assert_allclose(mass, rates.T @ matrix @ rates, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(mass).max()))
    pinocchio.framesForwardKinematics(model, data, theirs)
    for frame, pose in zip(model.frames, data.oMf, strict=True):
        if frame.name in {b.name for b in mech.bodies} and frame.type == pinocchio.FrameType.BODY:
            np.testing.assert_allclose(state.poses[frame.name], pose.homogeneous, atol=1e-9)
    moving = sum(inertia.mass for inertia in model.inertias)  # with the links that are fixed to the world
    assert mech.mass == pytest.approx(moving, rel=1e-9)
    if mech.mass:
        np.testing.assert_allclose(mech.at(q).centre, _centre_of_mass(pinocchio, model, data, theirs), atol=1e-9)


def _pinocchio_coordinates(pinocchio, model, mech, q):
    """Pinocchio's q for ours, and its velocities (nv, dof) per unit of our rates."""
    theirs, rates = pinocchio.neutral(model), np.zeros((model.nv, mech.dof))
    for name, joint in zip(model.names[1:], list(model.joints)[1:], strict=True):
        own = mech.joint(name)
        columns = mech.topology.columns[mech.joint_index(name)]
        mine, start = q[columns], joint.idx_q
        match len(mine), joint.nq:
            case (1, 1):
                theirs[start] = mine[0]
            case (1, 2):
                theirs[start : start + 2] = np.cos(mine[0]), np.sin(mine[0])
            case (3, 4):
                theirs[start : start + 4] = *mine[:2], np.cos(mine[2]), np.sin(mine[2])
            case (6, 7):
                w, *xyz = spatial.quat_wxyz_from_matrix(spatial.so3_exp(mine[3:]))
                theirs[start : start + 7] = *mine[:3], *xyz, w
        subspace = {3: np.eye(6)[:, [0, 1, 5]], 6: np.eye(6)}.get(len(mine), own.twists.T)
        rates[joint.idx_v : joint.idx_v + joint.nv, columns] = np.linalg.pinv(subspace) @ own.twist_jacobian(mine)
    return theirs, rates


def _centre_of_mass(pinocchio, model, data, q):
    """With the links fixed to the world, which Pinocchio's own function leaves out."""
    pinocchio.forwardKinematics(model, data, q)
    parts = [(i.mass, pose.act(i.lever)) for i, pose in zip(model.inertias, data.oMi, strict=True)]
    return sum(mass * place for mass, place in parts) / sum(mass for mass, _ in parts)


def write(folder: Path, text: str, name: str = "robot.urdf") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def reported(mech: supple.Mechanism) -> str:
    return "\n".join(map(str, mech.import_report))


def test_five_hundred_joints_in_a_row(tmp_path: Path) -> None:
    mech = load_quietly(write(tmp_path, chain(500)))
    assert mech.dof == 500
    one = spatial.pose(spatial.so3_exp(np.array([0.1, 0, 0])), np.array([0, 0, 0.01]))
    np.testing.assert_allclose(mech.poses["l500"], np.linalg.matrix_power(one, 500), atol=1e-11)


# what a file means

ARM = robot(
    '<link name="base"/>',
    *(f'<link name="{name}">{inertial()}</link>' for name in ("upper", "lower", "sled", "bird")),
    '<link name="tool"/>',
    joint("shoulder", "revolute", "base", "upper", '<axis xyz="0 1 0"/><limit lower="-1" upper="2" effort="3" '
          'velocity="1"/><dynamics damping="0.2" friction="0.1"/>'),
    joint("elbow", "continuous", "upper", "lower", '<origin xyz="0 0 1"/><mimic joint="shoulder" multiplier="2" '
          'offset="0.5"/>'),
    joint("mount", "fixed", "lower", "tool", '<origin xyz="0 0 1"/>'),
    joint("rail", "planar", "base", "sled", '<axis xyz="1 0 0"/>'),
    joint("air", "floating", "base", "bird", '<origin xyz="1 2 3"/>'),
    name="arm",
)  # fmt: skip


def test_joints_are_ordered_depth_first(tmp_path: Path) -> None:
    """As docs/files.md says: siblings in the order of the file."""
    links = (f'<link name="{name}">{inertial()}</link>' for name in ("base", "a", "b", "c"))
    ends = (("j1", "base", "a"), ("j2", "base", "b"), ("j3", "a", "c"))
    file = robot(*links, *(joint(name, "continuous", parent, child) for name, parent, child in ends))
    assert load_quietly(write(tmp_path, file)).coordinates == ("j1", "j3", "j2")


def test_links_and_joints(tmp_path: Path) -> None:
    mech = load_quietly(write(tmp_path, ARM))
    assert mech.name == "arm"
    assert {b.name for b in mech.bodies} == {"base", "upper", "lower", "tool", "sled", "bird"}
    kinds = {j.name: j.kind for j in mech.joints}
    assert kinds == {
        "base_fixed": "fixed", "shoulder": "hinge", "elbow": "hinge", "mount": "fixed", "rail": "planar", "air": "free",
    }  # fmt: skip
    assert mech.joint("rail").axes == ("rail.x", "rail.y", "rail.rz")
    assert mech.joint("air").axes == ("air.x", "air.y", "air.z", "air.rx", "air.ry", "air.rz")
    np.testing.assert_array_equal(mech.joint("shoulder").limits, [[-1, 2]])
    assert mech.joint("shoulder").damping == 0.2
    assert mech.joint("shoulder").effort == 3
    assert mech.joint("elbow").effort == np.inf
    np.testing.assert_array_equal(mech.poses["bird"][:3, 3], [1, 2, 3])
    (mimic,) = mech.couplings
    assert mimic.rigid
    assert dict(zip(mimic.coordinates, mimic.coefficients, strict=True)) == {"elbow": 1, "shoulder": -2}
    assert mimic.rest == 0.5
    assert mech.joint("elbow").reference == 0.5  # where the mimic holds
    assert "friction of joint 'shoulder': dry friction is not simulated" in reported(mech)


def test_root_called_world_is_the_fixed_frame(tmp_path: Path) -> None:
    wall = '<collision><geometry><box size="2 4 6"/></geometry></collision>'
    text = robot(
        f'<link name="world">{inertial()}{wall}</link>', f'<link name="a">{inertial()}</link>',
        joint("j", "revolute", "world", "a"),
    )  # fmt: skip
    mech = load_quietly(write(tmp_path, text))
    assert [b.name for b in mech.bodies] == ["a"]
    np.testing.assert_array_equal(mech.shapes[0].size, [1, 2, 3])
    assert "inertial of link 'world'" in reported(mech)
    inside = text.replace("</robot>", '<link name="map"/>' + joint("m", "fixed", "map", "world") + "</robot>")
    mech = load_quietly(write(tmp_path, inside))
    assert [b.name for b in mech.bodies] == ["map", "world_2", "a"]
    assert "it is now called 'world_2'" in reported(mech)


def test_a_parent_called_world_needs_no_link(tmp_path: Path) -> None:
    text = robot(f'<link name="a">{inertial()}</link>', joint("j", "revolute", "world", "a"))
    mech = load_quietly(write(tmp_path, text))
    assert [b.name for b in mech.bodies] == ["a"]
    assert mech.joint("j").parent == "world"
    assert "link 'world': is a parent but not in the file; it is the fixed frame" in reported(mech)
    twice = text.replace("</robot>", f'<link name="b">{inertial()}</link></robot>')
    with pytest.raises(supple.MechanismError, match=r"2 links have no parent: 'world', 'b'; .* add a joint for 'b'"):
        load_quietly(write(tmp_path, twice))


@pytest.mark.parametrize("kind", ["fixed", "continuous"])
@pytest.mark.parametrize("ends", [("-1", "1"), ("", ""), ("nan", "0")])
def test_left_over_limits_are_ignored(tmp_path: Path, kind: str, ends: tuple[str, str]) -> None:
    limit = '<limit lower="{}" upper="{}" effort="3" velocity="2"/>'.format(*ends)
    text = robot('<link name="b"/>', f'<link name="a">{inertial()}</link>', joint("j", kind, "b", "a", limit))
    mech = load_quietly(write(tmp_path, text))
    assert not np.isfinite(mech.joint("j").limits).any()
    assert "limits of joint" not in reported(mech)


def test_elements_for_other_programs_are_reported(tmp_path: Path) -> None:
    others = '<transmission name="t"/><gazebo/><gazebo reference="base"/></robot>'
    text = ARM.replace("<dynamics", '<calibration rising="0"/><dynamics').replace("</robot>", others)
    found = reported(load_quietly(write(tmp_path, text)))
    for what in ("1 <transmission>: not", "2 <gazebo>: not", "1 <calibration>: not"):
        assert what in found


@pytest.mark.parametrize("limits", ['lower="0" upper="0"', 'lower="2" upper="-1"', "", 'lower="inf" upper="inf"'])
def test_empty_ranges_are_no_limits(tmp_path: Path, limits: str) -> None:
    mech = load_quietly(write(tmp_path, ARM.replace('lower="-1" upper="2"', limits)))
    np.testing.assert_array_equal(mech.joint("shoulder").limits, [[-np.inf, np.inf]])
    assert "limits of joint 'shoulder': lower" in reported(mech)


def test_infinite_limits_are_no_limits(tmp_path: Path) -> None:
    mech = load_quietly(write(tmp_path, ARM.replace('lower="-1"', 'lower="-inf"')))
    np.testing.assert_array_equal(mech.joint("shoulder").limits, [[-np.inf, 2]])
    assert "limits of joint" not in reported(mech)


def test_a_link_without_inertial_has_no_mass(tmp_path: Path) -> None:
    box = '<collision><geometry><box size="0.1 0.2 0.5"/></geometry></collision>'
    mech = load_quietly(write(tmp_path, arm(box)))
    assert mech.body("a").mass == 0
    assert "link 'a': has no <inertial>, so it has no mass" in reported(mech)
    assert "'b'" not in reported(mech)  # a frame without shapes is ordinary


@pytest.mark.parametrize(
    ("moments", "products", "expected"),
    [
        ("-1 2 2", "0 0 0", [0, 2, 2]),
        ("-1 -2 -3", "0 0 0", [0, 0, 0]),
        ("1 1 1", "2 0 0", None),  # principal moments -1, 1, 3
    ],
)
def test_negative_moments_are_mended(tmp_path: Path, moments: str, products: str, expected: list[float] | None) -> None:
    mech = load_quietly(write(tmp_path, arm(inertial(1.0, moments, products))))
    mended = np.linalg.eigvalsh(mech.body("a").inertia)
    if expected is not None:
        np.testing.assert_allclose(mended, expected, atol=1e-12)
    assert mended[0] >= 0
    assert mended[0] + mended[1] >= mended[2] - 1e-12
    assert re.search(r"inertia of link 'a': has a negative principal moment \(-.* nearest physical", reported(mech))


@pytest.mark.parametrize("moments", ["0.1 0.1 5", "1e-14 1e-14 1e-14"])
def test_awkward_inertias_are_simulated_and_saved(tmp_path: Path, moments: str) -> None:
    mech = load_quietly(write(tmp_path, arm(inertial(1.0, moments, origin=ORIGIN))))
    sim = supple.Simulation(mech, dt=1e-3)
    sim.step(20)
    assert np.isfinite(sim.poses.array).all()
    mech.save(tmp_path / "robot.json")
    assert load_quietly(tmp_path / "robot.json") == mech


def test_inertia_without_mass_moves_like_armature(tmp_path: Path) -> None:
    text = robot(
        '<link name="b"/>', f'<link name="a">{inertial(0.0, "0.3 0.3 0.3")}</link>',
        joint("j", "revolute", "b", "a", '<axis xyz="0 0 1"/>'),
    )  # fmt: skip
    mech = load_quietly(write(tmp_path, text))
    sim = supple.Simulation(mech, dt=1e-3)
    sim.apply("a", [0, 0, 0, 0, 0, 0.6])
    sim.step(100)
    angle = spatial.so3_log(sim.poses["a"][:3, :3])[2]
    assert angle == pytest.approx(0.5 * 2.0 * 0.1**2, rel=0.02)


# shapes and meshes


def shape(geometry: str, tag: str = "visual", more: str = "") -> str:
    return f"<{tag}>{more}<geometry>{geometry}</geometry></{tag}>"


def test_shapes_and_colours(tmp_path: Path) -> None:
    shapes = (
        shape('<box size="2 4 6"/>', more='<origin xyz="1 2 3"/><material name="red"/>'),
        shape('<cylinder radius="1" length="4"/>', more='<material name="x"><color rgba="0 1 0 1"/></material>'),
        shape('<sphere radius="0.5"/>', "collision"),
        shape('<capsule radius="0.5" length="3"/>', "collision"),
        shape('<sphere radius="0"/>'),
        shape("<hedgehog/>"),
        "<visual/>",
    )
    text = robot(
        '<material name="red"><color rgba="1 0 0 1"/></material>',
        f'<link name="b">{inertial()}{"".join(shapes)}</link>',
    )
    mech = load_quietly(write(tmp_path, text))
    box, cylinder, sphere, capsule = mech.bodies[0].shapes
    np.testing.assert_array_equal(box.size, [1, 2, 3])
    np.testing.assert_array_equal(box.pose[:3, 3], [1, 2, 3])
    np.testing.assert_array_equal(box.rgba, [1, 0, 0, 1])
    np.testing.assert_array_equal(cylinder.size, [1, 2])
    np.testing.assert_array_equal(cylinder.rgba, [0, 1, 0, 1])
    np.testing.assert_array_equal(capsule.size, [0.5, 1.5])
    assert [s.touches for s in (box, cylinder, sphere, capsule)] == [False, False, True, True]
    for note in ("its sphere has a size of zero", "<hedgehog> is not a known shape", "has no geometry"):
        assert note in reported(mech)


def obj(vertices: np.ndarray = TETRAHEDRON) -> bytes:
    return "\n".join(
        [*(f"v {x} {y} {z}" for x, y, z in vertices), *(f"f {a} {b} {c}" for a, b, c in FACES + 1)]
    ).encode()


def binary_stl(head: bytes = b"") -> bytes:
    triangles = b"".join(struct.pack("<12fH", 0, 0, 0, *TETRAHEDRON[face].ravel(), 0) for face in FACES)
    return head.ljust(80, b"\0") + struct.pack("<I", len(FACES)) + triangles


def ascii_stl() -> bytes:
    corners = ["".join(f"vertex {x} {y} {z}\n" for x, y, z in TETRAHEDRON[face]) for face in FACES]
    facets = "".join(f"facet normal 0 0 0\nouter loop\n{c}endloop\nendfacet\n" for c in corners)
    return f"solid part\n{facets}endsolid part\n".encode()


def collada(unit: float = 1.0, primitive: str = "triangles") -> bytes:
    """The tetrahedron, half its size in millimetres, doubled by its node; the fourth face in another colour."""
    numbers = " ".join(f"{x:g}" for x in (TETRAHEDRON / 2 / unit).ravel())

    def part(faces: np.ndarray, material: str) -> str:
        indices = " ".join(f"{i} 7" for i in faces.ravel())  # with a normal's index beside each
        inputs = '<input semantic="VERTEX" source="#v" offset="0"/><input semantic="NORMAL" source="#p" offset="1"/>'
        counts = f"<vcount>{'3 ' * len(faces)}</vcount>" if primitive == "polylist" else ""
        return f'<{primitive} material="{material}">{inputs}{counts}<p>{indices}</p></{primitive}>'

    effects = "".join(
        f'<effect id="e{i}"><profile_COMMON><technique><phong><diffuse><color>{c}</color></diffuse></phong></technique>'
        "</profile_COMMON></effect>"
        for i, c in enumerate(("1 0 0 1", "0 0 1 1"))
    )
    materials = "".join(f'<material id="m{i}"><instance_effect url="#e{i}"/></material>' for i in range(2))
    bound = "".join(f'<instance_material symbol="s{i}" target="#m{i}"/>' for i in range(2))
    return f"""<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="{unit}"/><up_axis>Z_UP</up_axis></asset>
<library_effects>{effects}</library_effects><library_materials>{materials}</library_materials>
<library_geometries><geometry id="g"><mesh><source id="p"><float_array id="pa" count="12">{numbers}</float_array>
<technique_common><accessor source="#pa" count="4" stride="3"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
{part(FACES[:3], "s0")}{part(FACES[3:], "s1")}</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node><scale>2 2 2</scale><rotate>0 0 1 90</rotate>
<node><matrix>0 1 0 0 -1 0 0 0 0 0 1 0 0 0 0 1</matrix><instance_geometry url="#g"><bind_material><technique_common>
{bound}</technique_common></bind_material></instance_geometry></node></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>""".encode()


def load_mesh(folder: Path, data: bytes, name: str, tag: str = "visual", attributes: str = "") -> supple.Mechanism:
    (folder / name).write_bytes(data)
    mesh = shape(f'<mesh filename="{name}" {attributes}/>', tag)
    return load_quietly(write(folder, robot(f'<link name="b">{inertial()}{mesh}</link>')))


def corners(mesh: supple.mechanism.Mesh) -> np.ndarray:
    """(m, 3, 3) corners of the triangles, sorted."""
    return np.array(sorted(mesh.vertices[mesh.faces].tolist()))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("m.obj", obj()),
        ("m.STL", binary_stl()),
        ("m.stl", binary_stl(b"solid but binary")),
        ("n.stl", ascii_stl()),
        ("m.dae", collada()),
        ("mm.dae", collada(0.001, "polylist")),
    ],
)
def test_mesh_formats(tmp_path: Path, name: str, data: bytes) -> None:
    mech = load_mesh(tmp_path, data, name, "collision")
    assert not mech.import_report
    (mesh,) = mech.meshes
    assert mesh.name == name.split(".")[0]
    expected = np.array(sorted(TETRAHEDRON[FACES].tolist()))
    turns = [np.roll(corners(mesh), k, axis=1) for k in range(3)]
    for triangle in expected:
        assert any(np.allclose(triangle, other, atol=1e-9) for turned in turns for other in turned)
    if not name.endswith("dae"):
        assert len(mesh.vertices) == 4  # STL repeats them


def test_collada_is_drawn_in_its_colours_and_touches_as_one(tmp_path: Path) -> None:
    mech = load_mesh(tmp_path, collada(), "m.dae")
    red, blue = mech.bodies[0].shapes
    np.testing.assert_array_equal(red.rgba, [1, 0, 0, 1])
    np.testing.assert_array_equal(blue.rgba, [0, 0, 1, 1])
    assert [len(mesh.faces) for mesh in mech.meshes] == [3, 1]
    (shape_,) = load_mesh(tmp_path, collada(), "m.dae", "collision").bodies[0].shapes
    assert shape_.touches


def test_scale_mirrors(tmp_path: Path) -> None:
    mech = load_mesh(tmp_path, obj(), "m.obj", attributes='scale="2 1 -1"')
    mesh = mech.meshes[0]
    np.testing.assert_array_equal(mesh.vertices.max(axis=0), [4, 3, -3])
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    assert np.einsum("ij,ij->", a, np.cross(b, c)) / 6 > 0  # its faces still point outwards


def test_a_mesh_without_volume_touches_nothing(tmp_path: Path) -> None:
    mech = load_mesh(tmp_path, obj(TETRAHEDRON * [1, 1, 0]), "flat.obj", "collision")
    assert not mech.bodies[0].shapes[0].touches
    assert "collision of link 'b': its mesh has no volume" in reported(mech)
    supple.World().add(supple.Simulation(mech, dt=1e-3))


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("m.stl", b"\0" * 200, "it (is damaged|has no triangles)"),
        ("m.stl", b"", "it (is damaged|has no triangles)"),
        ("m.obj", b"v 0 0 0\nf 1 2 3\n", "it is damaged"),
        ("m.dae", b"<COLLADA/>", "it has no triangles"),
        ("m.dae", collada()[:500], "it is damaged .*not well-formed"),
        ("m.dae", collada().replace(b"<p>", b"<p>99 0 "), "it is damaged .*names a vertex outside"),
        ("m.dae", b'<!DOCTYPE a [<!ENTITY b "c">]><COLLADA>&b;</COLLADA>', "it is damaged .*entities"),
        ("m.glb", b"", "its format is not one of"),
    ],
)
def test_unusable_meshes_are_left_out(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    mech = load_mesh(tmp_path, data, name)
    assert not mech.bodies[0].shapes
    assert re.search(f"mesh file '{name}': {reason}.*; the shapes that use it are left out", reported(mech))


def test_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    for folder in (tmp_path / "r" / "urdf", tmp_path / "r" / "meshes", elsewhere / "share" / "parts"):
        folder.mkdir(parents=True)
    (tmp_path / "r" / "meshes" / "a.obj").write_bytes(obj())
    (elsewhere / "share" / "parts" / "b.obj").write_bytes(obj())
    files = ("package://r/meshes/a.obj", "../meshes/a.obj", "package://parts/b.obj", "package://no/c.obj")
    link = "".join(shape(f'<mesh filename="{file}"/>') for file in files)
    path = write(tmp_path / "r" / "urdf", robot(f'<link name="b">{inertial()}{link}</link>'))
    mech = load_quietly(path)
    assert [s.mesh for s in mech.bodies[0].shapes] == ["a", "a_2"]
    assert "mesh file 'package://parts/b.obj', 'package://no/c.obj': is not there" in reported(mech)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(elsewhere))
    assert [s.mesh for s in load_quietly(path).bodies[0].shapes][-1] == "b"


# what is refused

B, A = '<link name="b"/>', '<link name="a"/>'
BOMB = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><robot name="&b;"/>'
REFUSED = {
    "entity bomb": (BOMB, "entities are not allowed"),
    "xacro": ('<robot name="r" xmlns:xacro="x"><xacro:include/></robot>', "run it through xacro"),
    "no links": (robot(), "line 2: the robot has no links"),
    "two roots": (robot(B, A), "line 4: 2 links have no parent: 'b', 'a'; a robot has one root"),
    "circle": (
        robot(B, A, joint("j", "fixed", "b", "a"), joint("k", "fixed", "a", "b")),
        "line 2: the joints form a circle: a -> b -> a",
    ),
    "circle beside the root": (
        robot(B, A, '<link name="root"/>', joint("j", "fixed", "b", "a"), joint("k", "fixed", "a", "b")),
        "the joints form a circle: a -> b -> a",
    ),
    "two parents": (
        robot(B, A, '<link name="c"/>', joint("j", "fixed", "b", "a"), joint("k", "fixed", "c", "a")),
        "line 7: the link 'a' is the child of both 'j' (line 6) and 'k'",
    ),
    "itself": (robot(B, joint("j", "fixed", "b", "b")), "connects the link 'b' to itself"),
    "no parent": (robot(A, '<joint name="j" type="fixed"/>'), "line 4: joint 'j' needs a <parent link=...>"),
    "no name": (robot("<link/>"), "line 3: a <link> has no name"),
    "names twice": (robot(B, B), "line 4: a second link is named 'b'"),
    "unknown type": (robot(B, A, joint("j", "ball", "b", "a")), "joint 'j' has the type 'ball'; known types are"),
    "unknown leader": (
        ARM.replace('mimic joint="shoulder"', 'mimic joint="sholder"'),
        "<mimic> of joint 'elbow' names the joint 'sholder', which is not in the file; did you mean 'shoulder'?",
    ),
    "mimic in a circle": (
        robot(
            B, A, '<link name="c"/>', joint("j", "revolute", "b", "a", '<mimic joint="k"/>'),
            joint("k", "revolute", "a", "c", '<mimic joint="j"/>'),
        ),
        "goes in a circle: j -> k -> j",
    ),
    "unknown link": (ARM.replace('child link="upper"', 'child link="uper"'), "did you mean 'upper'?"),
    "no axis": (ARM.replace('<axis xyz="0 1 0"/>', '<axis xyz="0 0 0"/>'), "axis of joint 'shoulder' has no direction"),
    "two numbers": (ARM.replace('xyz="0 0 1"', 'xyz="0 1"', 1), 'xyz="0 1" must be 3 numbers'),
    "text": (ARM.replace('damping="0.2"', 'damping="high"'), 'damping="high" must be a number'),
    "nan": (ARM.replace('xyz="1 2 3"', 'xyz="1 nan 3"'), 'xyz="1 nan 3" is not finite'),
    "negative mass": (arm(inertial(-1.0)), "link 'a' has the negative mass -1 kg"),
    "huge numbers": (
        robot(B, A, '<link name="c"/>', joint("j", "fixed", "b", "a", '<origin xyz="0 0 1e308"/>'),
              joint("k", "fixed", "a", "c", '<origin xyz="0 0 1e308"/>')),
        "must be finite",
    ),
    "no such keyframe": (ARM, "there is no keyframe"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_broken_files_raise(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    keyframe = "home" if "keyframe" in message else None
    with pytest.raises(supple.MechanismError, match=re.escape(message)) as raised:
        supple.load(path, keyframe)
    if keyframe is None:
        assert str(raised.value).startswith("robot.urdf")


def test_a_huge_mesh_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "m.stl").open("wb") as file:
        file.truncate(mesh_files.MAX_MESH_BYTES + 1)
    mesh = shape('<mesh filename="m.stl"/>')
    with pytest.raises(supple.MechanismError, match=r"robot\.urdf, line 3: the mesh 'm\.stl' has 1024 MiB, more than"):
        supple.load(write(tmp_path, robot(f'<link name="b">{mesh}</link>')))
