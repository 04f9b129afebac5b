"""Elastic zones: speed of new poses, accuracy in bending, of approximations and of elements.

Parts, selected with `--only`:

- `speed`: Green's functions, a new pose and the whole surface of the finger, with and without half-way zones and by the
  seam basis, against SciPy's SuperLU on the monolithic system of the pose; chains of 9 and of 65 zones.
- `hand`: Green's functions, a new pose and the whole surface of the hand, whose skin goes on from the palm to the
  fingertips; vertices of a bent pose against the monolithic solve, volume ratios over the ranges of the joints.
- `coupling`: how weakly seams act on each other, and iterations of conjugate gradients.
- `bending`: a skin over one joint against Neo-Hookean statics of the same mesh, over the angle.
- `approximations`: the paper's approximations and the seam basis against the exact seams, over the angle and under a
  press.
- `elements`: compliance of a pressed pad of 834 vertices against a refined one, for several elements and Poisson's
  ratios.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
from scipy.sparse import coo_array, kron
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

import supple
from _neo_hookean import NeoHookean
from _report import Report, parse_args
from _report import best as best_of
from supple import spatial, zones
from supple.elastic import Material, Solid
from supple.elastic.linear import coordinates_of, stiffness
from supple.elastic.mesh import EDGES
from supple.zones.generate import lattice
from supple.zones.layout import coincident, placed
from supple.zones.soft import HINGES, RANGES
from supple.zones.zone import SOFT_SKIN

BENT = (0.1, 0.7, 0.6)
"""Angles of the finger's joints at which poses are timed, rad."""
LENGTH, BONE, SKIN, GAP = 0.022, 4.5e-3, 9.5e-3, 7.3e-3
"""The joint of the bending comparison: length of the skin on each side, radii of bone and skin, distance from the joint
to the bones' ends, m."""
LU = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
best = partial(best_of, clock=process_time)
"""CPU time: these runs use one core, and other programs on it do not count."""


def main() -> None:
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when NumPy is imported: start again
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    parts = {
        "speed": speed,
        "hand": hand,
        "coupling": coupling,
        "bending": bending,
        "approximations": approximations,
        "elements": elements,
    }
    args = parse_args(__doc__, list(parts))
    report = Report("elastic zones", args)
    warnings.simplefilter("ignore", supple.RangeWarning)
    for name in args.only:
        parts[name](report, args.quick)
    report.finish()


# --- speed ------------------------------------------------------------------------------------------------------------


def speed(report: Report, quick: bool) -> None:
    """Times of the finger."""
    repeat = 50 if quick else 300
    for halfway, targets in ((False, (1.0, 0.15)), (True, (2.0, 0.3))):
        name = "half-way zones" if halfway else "three pads"
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SUPPLE_CACHE"] = folder
            start = process_time()
            finger = zones.finger(halfway=halfway)
            finger.skin.prepare(progress=lambda fraction: None)
            made = process_time() - start
        poses = np.ascontiguousarray(supple.kinematics(finger.mechanism, BENT).poses.array)
        peer = monolithic_time(finger.skin, BENT)
        report.row(what=f"{name}: Green's functions", ms=1e3 * made)
        report.row(what=f"{name}: SuperLU on the monolithic system", ms=1e3 * peer)
        if not halfway:
            report.target("Green's functions, three pads, s", made, at_most=15)
        for kind, skin, target, ratio in (
            ("new pose", finger.skin, targets[0], 400),
            ("new pose, seam basis", finger.skin.with_seam_basis(24), targets[1], 2000),
        ):
            moving = skin.moving()
            pose = best(lambda m=moving, p=poses: m.core.move(p), repeat)
            surface = best(moving.vertices, repeat)
            touched = np.random.default_rng(0).choice(skin.touch, 20, replace=False)
            compliance = best(lambda m=moving, t=touched: m.compliance(t), repeat)
            report.row(what=f"{name}: {kind}", ms=1e3 * pose)
            report.row(what=f"{name}: whole surface, {kind.partition(', ')[2] or 'all seam nodes'}", ms=1e3 * surface)
            report.row(what=f"{name}: compliance of 20 nodes, {kind}", ms=1e3 * compliance)
            report.target(f"{name}: {kind}, ms", 1e3 * pose, at_most=target)
            if not halfway:
                report.target(f"{name}: {kind}, SuperLU over ours", peer / pose, at_least=ratio)
                report.target(f"{name}: whole surface after {kind}, ms", 1e3 * surface, at_most=0.15)
    times = {count: chain_time(count, repeat) for count in (9, 65)}
    for count, seconds in times.items():
        report.row(what=f"chain of {count} zones: new pose", ms=1e3 * seconds)
    report.target("65 zones against 9, time", times[65] / times[9], at_most=10)


def hand(report: Report, quick: bool) -> None:
    """Times and accuracy of the hand. Quick runs leave out the seam basis, and compare a coarser hand with the
    monolithic solve."""
    repeat = 15 if quick else 100
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SUPPLE_CACHE"] = folder
        start = process_time()
        whole = zones.hand()
        whole.skin.prepare(progress=lambda fraction: None)
        made = process_time() - start
        compared = zones.hand(cells=(10, 6, 2)) if quick else whole
        compared.skin.prepare(progress=lambda fraction: None)
    skin = whole.skin
    report.row(what=f"hand, {len(skin.zones)} zones: Green's functions", ms=1e3 * made)
    poses = np.ascontiguousarray(supple.kinematics(whole.mechanism, bent_hand(whole, BENT)).poses.array)
    kinds = {"all seam nodes": skin} | ({} if quick else {"24 seam functions": skin.with_seam_basis(24)})
    for kind, own in kinds.items():
        moving = own.moving()
        report.row(what=f"hand: new pose, {kind}", ms=1e3 * best(lambda m=moving: m.core.move(poses), repeat))
        report.row(what=f"hand: whole surface, {kind}", ms=1e3 * best(moving.vertices, repeat))
    where = bent_hand(compared, (0.5, 0.7, 0.6))
    K, rhs, held, given = monolithic(compared.skin, where)
    loose = np.setdiff1d(np.arange(len(rhs)), held)
    y = np.zeros(len(rhs))
    y[held] = given
    y[loose] = splu(K[loose][:, loose].tocsc(), **LU).solve(rhs[loose] - K[loose][:, held] @ given)
    vertices = compared.skin.at(where).solve().vertices
    difference = float(np.abs(vertices - y[: vertices.size].reshape(-1, 3)).max() / np.ptp(vertices))
    report.target("hand against the monolithic solve, over its size", difference, at_most=1e-10)
    for share in (-0.35 / 1.5, 0.25, 0.5, 0.75, 1.0):
        ratios = {}
        for i, (joint, (lower, upper)) in enumerate(zip(HINGES, RANGES, strict=True)):
            angle = max(share * upper, lower)
            ratios[joint] = skin.at(bent_hand(whole, np.eye(3)[i] * angle)).solve().volume_ratio
        report.row(share_of_range=share, **{f"{joint}: least volume ratio": own for joint, own in ratios.items()})


def bent_hand(whole: zones.SoftMechanism, finger: Any) -> np.ndarray:
    """Coordinates in which all fingers of a hand have the same three angles, rad."""
    angles = dict(zip(HINGES, finger, strict=True))
    return np.array([angles[name.partition("/")[2]] for name in whole.mechanism.coordinates])


def chain_time(count: int, repeat: int) -> float:
    """Seconds of a new pose of a chain of blocks."""
    side = 0.01
    builder = supple.Builder("chain")
    for i in range(count):
        builder.body(f"b{i}", spatial.translation(np.array([side * i, 0, 0])), mass=1.0, inertia=(1e-4,) * 3)
        builder.hinge(f"h{i}", f"b{i - 1}" if i else "world", f"b{i}", at=(side * (i - 0.5), 0, 0), axis="y")
    solid, attached = zones.block((side,) * 3, (4, 4, 4)), {}
    for i in range(count):
        sides = (["left"] if i else []) + (["right"] if i < count - 1 else [])
        zone = zones.Zone.from_solid(solid, SOFT_SKIN, bone="bottom", seam=sides, touch="top")
        attached[f"z{i}"] = zones.Attached(zone.prepare(cache=False, progress=lambda fraction: None), f"b{i}")
    mech = builder.build()
    moving = zones.Skin(mech, attached).moving()
    poses = np.ascontiguousarray(supple.kinematics(mech, np.full(count, 0.1)).poses.array)
    return best(lambda: moving.core.move(poses), repeat)


def monolithic_time(skin: zones.Skin, where: Any) -> float:
    """Seconds that SuperLU takes to factorise and solve the system of all nodes of the skin in a pose. Assembly is not
    counted."""
    K, rhs, held, given = monolithic(skin, where)
    loose = np.setdiff1d(np.arange(len(rhs)), held)
    matrix, right = K[loose][:, loose].tocsc(), rhs[loose] - K[loose][:, held] @ given
    return best(lambda: splu(matrix, **LU).solve(right), 8)


def monolithic(skin: zones.Skin, where: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Stiffness and right-hand side of the positions of all nodes of a skin in a pose; coordinates that bones hold, and
    their values."""
    frames, carried = skin.frames(where)
    count, rows, columns, data, given = skin.vertex_count, [], [], [], {}
    loads = []
    for zone, vertices, frame, bones in zip(skin.zones.values(), skin.vertex_of, frames, carried, strict=True):
        assert zone.solid is not None
        assert zone.material is not None
        number = vertices.copy()
        inner = np.flatnonzero(number < 0)
        number[inner] = count + np.arange(len(inner))
        count += len(inner)
        R = kron(np.eye(len(zone.nodes)), frame[:3, :3]).tocsc()
        turned = (R @ stiffness(zone.nodes, zone.solid.cells, zone.material) @ R.T).tocoo()
        at = coordinates_of(number)
        rows.append(at[turned.row])
        columns.append(at[turned.col])
        data.append(turned.data)
        loads.append((at, turned @ placed(zone.nodes, frame).ravel()))
        for nodes, bone in zip(zone.bones.values(), bones, strict=False):
            given |= dict(zip(number[nodes].tolist(), placed(zone.nodes[nodes], bone), strict=True))
    rhs = np.zeros(3 * count)
    for at, load in loads:
        np.add.at(rhs, at, load)
    places = (np.concatenate(rows), np.concatenate(columns))
    K = coo_array((np.concatenate(data), places), shape=(3 * count, 3 * count)).tocsc()
    held = coordinates_of(np.array(sorted(given)))
    return K, rhs, held, np.concatenate([given[node] for node in sorted(given)])


def coupling(report: Report, quick: bool) -> None:
    """Diagonal blocks of the seam equations over the others, and iterations of conjugate gradients."""
    for halfway, most in ((False, 10), (True, 20)):
        skin = zones.finger(halfway=halfway).skin
        posed = skin.at(BENT)
        norms = {key: float(np.linalg.norm(block, 2)) for key, block in posed.blocks.items()}
        off = {key: norm for key, norm in norms.items() if key[0] != key[1]}
        ratio = min(norms[i, i] for i in range(len(skin.seams))) / max(off.values())
        iterations = skin.at(BENT, solver="cg").solve().iterations
        name = "half-way zones" if halfway else "three pads"
        report.row(finger=name, diagonal_over_others=ratio, cg_iterations=iterations)
        if not halfway:
            report.target("three pads: diagonal blocks over the others", ratio, at_least=100)
        report.target(f"{name}: iterations of conjugate gradients", iterations, at_most=most)


# --- bending ----------------------------------------------------------------------------------------------------------


def bending(report: Report, quick: bool) -> None:
    """A skin over one joint: half-way zone and pair of zones against Neo-Hookean statics of the same mesh."""
    cells = (8, 6, 2) if quick else (12, 10, 3)
    material = Material(young=1e5, poisson=0.4, density=1e3)
    pieces = joint_pieces(cells)
    whole = glued(pieces)
    mech = joint()
    skins = {"half-way zone": halfway_skin(mech, pieces, material), "pair of zones": pair_skin(mech, pieces, material)}
    x = whole.nodes
    outer = np.hypot(x[:, 1], x[:, 2]) > SKIN - 1e-9
    shown = {name: cKDTree(skin.at().solve().vertices).query(x[outer])[1] for name, skin in skins.items()}
    reference, u = NeoHookean(whole, material), np.zeros_like(x)
    first, second = (np.flatnonzero(bone_end(side)(x)) for side in (-1, 1))
    held, at_45, moments = coordinates_of(np.concatenate([first, second])), {}, {}
    for degrees in range(5, 66, 5):
        angle = np.deg2rad(degrees)
        goal = np.zeros_like(x)
        goal[second] = x[second] @ spatial.so3_exp(np.array([0, angle, 0])).T - x[second]
        solved = reference.solve(u, held, goal.ravel()[held])
        if solved is None:
            break
        u = solved
        forces = reference.tangent(u)[0].reshape(-1, 3)  # type: ignore[index]
        moment = float(np.cross((x + u)[second], forces[second]).sum(axis=0)[1])
        for name, skin in skins.items():
            shape = skin.at([angle]).solve()
            error = np.sqrt((np.linalg.norm(shape.vertices[shown[name]] - (x + u)[outer], axis=1) ** 2).mean())
            torque = energy_slope(mech, skin, angle)
            if degrees == 45:
                at_45[name] = float(error)
            if degrees == 30:
                moments[name] = abs(torque / moment - 1)
            if degrees % 15 == 0:
                report.row(
                    degrees=degrees,
                    skin=name,
                    rms_mm=1e3 * float(error),
                    least_volume=shape.volume_ratio,
                    nonlinear_volume=reference.least_volume_ratio(u),
                    moment=torque,
                    nonlinear_moment=moment,
                )
    half, pair = at_45["half-way zone"], at_45["pair of zones"]
    report.target("half-way zone at 45 degrees, rms over thickness", half / (SKIN - BONE), at_most=0.03)
    report.target("half-way zone at 45 degrees over the pair", half / pair, at_most=0.4)
    report.target("half-way zone at 30 degrees, moment", moments["half-way zone"], at_most=0.15)
    for name, skin in skins.items():
        inverted = (d for d in range(30, 111) if skin.at([np.deg2rad(d)]).solve().volume_ratio <= 0)
        report.row(skin=name, first_inverts_an_element_at_degrees=next(inverted, "beyond 110"))


def energy_slope(mech: supple.Mechanism, skin: zones.Skin, angle: float, step: float = 1e-4) -> float:
    """Torque of the joint: the derivative of the skin's energy, N m."""
    low, high = (skin.at(supple.kinematics(mech, [angle + change])).energy() for change in (-step, step))
    return (high - low) / (2 * step)


def joint() -> supple.Mechanism:
    builder = supple.Builder("joint")
    for name in ("first", "second"):
        builder.body(name, mass=1.0, inertia=(1e-4,) * 3)
    builder.fixed("base", "world", "first")
    builder.hinge("bend", "first", "second", at=(0, 0, 0), axis="y", limits=(-0.1, 2.0))
    return builder.build()


def joint_pieces(cells: tuple[int, int, int]) -> list[Solid]:
    """Pads from -LENGTH to -GAP, to 0, to GAP, to LENGTH."""
    ticks = (-LENGTH, -GAP, 0.0, GAP, LENGTH)
    size = LENGTH / cells[0]
    return [
        zones.pad(b - a, start=a, bone=BONE, skin=SKIN, cells=(max(2, round((b - a) / size)), *cells[1:]))
        for a, b in pairwise(ticks)
    ]


def glued(pieces: list[Solid]) -> Solid:
    """One solid of several, whose coincident nodes are merged."""
    offsets = np.cumsum([0, *(len(piece.nodes) for piece in pieces)])
    x = np.vstack([piece.nodes for piece in pieces])
    cells = np.vstack([piece.cells + offset for piece, offset in zip(pieces, offsets, strict=False)])
    labels = coincident(x, 1e-9)
    return Solid(x[np.unique(labels, return_index=True)[1]], labels[cells])


def bone_end(side: int) -> Callable[[np.ndarray], np.ndarray]:
    """Marks nodes on the bone of one side."""
    return lambda x: (side * x[:, 0] > GAP - 1e-9) & (np.hypot(x[:, 1], x[:, 2]) < BONE + 1e-9)


def halfway_skin(mech: supple.Mechanism, pieces: list[Solid], material: Material) -> zones.Skin:
    first = zones.Zone.from_solid(pieces[0], material, bone="bone", seam="end")
    last = zones.Zone.from_solid(pieces[3], material, bone="bone", seam="start")
    bones = {"first": bone_end(-1), "second": bone_end(1)}
    at_ends = [lambda x: np.abs(np.abs(x[:, 0]) - GAP) < 1e-9]
    middle = zones.Zone.from_solid(glued(pieces[1:3]), material, bone=bones, seam=at_ends)
    return zones.Skin(
        mech,
        {
            "first": zones.Attached(first, "first"),
            "middle": zones.Attached(middle, ("first", "second")),
            "last": zones.Attached(last, "second"),
        },
    )


def pair_skin(mech: supple.Mechanism, pieces: list[Solid], material: Material) -> zones.Skin:
    def half(side: int, own: list[Solid]) -> zones.Zone:
        return zones.Zone.from_solid(
            glued(own), material, bone=bone_end(side), seam=lambda x: np.abs(x[:, 0]) < 1e-9
        )

    first, second = half(-1, pieces[:2]), half(1, pieces[2:])
    return zones.Skin(mech, {"a": zones.Attached(first, "first"), "b": zones.Attached(second, "second")})


# --- approximations ---------------------------------------------------------------------------------------------------


def approximations(report: Report, quick: bool) -> None:
    """Errors over the largest displacement: in bending of the whole surface within the zones' frames, under a press of
    the touch vertices by the press."""
    worst = {"bending": 0.0, "press": 0.0}
    for halfway in (False, True):
        skin = zones.finger(halfway=halfway).skin
        samples = [(0.0, 1.6 * s, 1.2 * s) for s in np.linspace(0, 1, 5)]
        variants: dict[str, tuple[zones.Skin, str]] = {
            "block-diagonal seams": (skin, "diagonal"),
            "inverses at five angles": (skin.with_interpolated_seams(samples), "interpolated"),
            "seams near the surface": (skin.with_seams_near_surface(1.3e-3), "cholesky"),
            "skeletal blending": (skin.with_blended_seams(), "cholesky"),
            "seam basis, 24 functions": (skin.with_seam_basis(24), "cholesky"),
            "seam basis, 36 functions": (skin.with_seam_basis(36), "cholesky"),
        }
        for angle in (0.4, 0.8, 1.2):
            q = (0.0, angle, angle)
            exact = skin.at(q)
            shape = exact.solve()
            largest = largest_displacement(skin, shape.vertices, exact.frames)
            forces = press_at_seam(skin, shape.vertices)
            pressed = (exact.solve(forces).vertices - shape.vertices)[skin.touch]
            for name, (other, solver) in variants.items():
                posed = other.at(q, solver=solver)
                bent = posed.solve().vertices
                error = float(np.linalg.norm(bent - shape.vertices, axis=1).max()) / largest
                touched = (posed.solve(forces).vertices - bent)[skin.touch]
                press = float(np.abs(touched - pressed).max() / np.abs(pressed).max())
                report.row(
                    finger="half-way zones" if halfway else "three pads",
                    angle=angle,
                    approximation=name,
                    bending_percent=100 * error,
                    press_percent=100 * press,
                )
                if name == "seam basis, 24 functions":
                    worst = {"bending": max(worst["bending"], error), "press": max(worst["press"], press)}
    report.target("seam basis of 24 functions, bending", worst["bending"], at_most=0.005)
    report.target("seam basis of 24 functions, press on the seam", worst["press"], at_most=0.02)


def largest_displacement(skin: zones.Skin, vertices: np.ndarray, frames: Any) -> float:
    """Of the surface, within the frames of the zones, m."""
    result = 0.0
    for zone, own, frame in zip(skin.zones.values(), skin.vertex_of, frames, strict=True):
        shown = own >= 0
        moved = vertices[own[shown]] - placed(zone.nodes[shown], frame)
        result = max(result, float(np.linalg.norm(moved, axis=1).max()))
    return result


def press_at_seam(skin: zones.Skin, vertices: np.ndarray) -> np.ndarray:
    """1 N inwards, spread over the 20 touch vertices nearest to the lowest one of the second seam."""
    seam = np.intersect1d(skin.seam_vertices(1), skin.touch)
    centre = vertices[seam[int(np.argmin(np.abs(skin.at().solve().vertices[seam][:, 1])))]]
    chosen = skin.touch[np.argsort(np.linalg.norm(vertices[skin.touch] - centre, axis=1))[:20]]
    forces = np.zeros_like(vertices)
    forces[chosen, 2] = 1.0 / len(chosen)
    return forces


# --- elements ---------------------------------------------------------------------------------------------------------


def elements(report: Report, quick: bool) -> None:
    """Work of a smooth pressure on a pad held at bone and ends, over that of a refined pad."""
    fine = (24, 18, 6) if quick else (40, 28, 8)
    for poisson in (0.3, 0.45, 0.49):
        material = Material(young=1e5, poisson=poisson, density=1e3)
        reference = pressed_work(zones.pad(cells=fine), material)
        coarse = zones.pad()
        solids = {
            "hexahedra, mean dilatation": (coarse, True),
            "hexahedra": (coarse, False),
            "10-node tetrahedra": (tetrahedra((20, 14, 4), True), None),
            "linear tetrahedra": (tetrahedra((20, 14, 4), False), None),
        }
        for name, (solid, mean) in solids.items():
            error = pressed_work(solid, material, mean) / reference - 1
            report.row(poisson=poisson, elements=name, nodes=len(solid.nodes), compliance_error_percent=100 * error)
            if name.endswith("dilatation"):
                report.target(f"pad of 834 vertices, ratio {poisson}", abs(error), at_most=0.04)


def tetrahedra(cells: tuple[int, int, int], quadratic: bool) -> Solid:
    """The default pad with tetrahedra on the same nodes: six in each cell, or in each double cell if quadratic."""
    kuhn = np.array([[0, 1, 2, 6], [0, 2, 3, 6], [0, 3, 7, 6], [0, 7, 4, 6], [0, 4, 5, 6], [0, 5, 1, 6]])
    solid = zones.pad(cells=cells)
    if not quadratic:
        return Solid(solid.nodes, solid.cells[:, kuhn].reshape(-1, 4))
    places = np.indices(np.array(cells) + 1).reshape(3, -1).T  # of each node in the lattice
    counts = np.array(cells) // 2
    coarse = np.indices(counts + 1).reshape(3, -1).T[lattice(counts)[1][:, kuhn].reshape(-1, 4)]
    middles = coarse[:, EDGES].sum(axis=2)  # (t, 6, 3) in the fine lattice
    number = {tuple(place): i for i, place in enumerate(places.tolist())}
    tets = [[number[tuple(place)] for place in own] for own in np.concatenate([2 * coarse, middles], axis=1).tolist()]
    return Solid(solid.nodes, np.array(tets))


def pressed_work(solid: Solid, material: Material, mean_dilatation: bool | None = None) -> float:
    """Force times displacement of a pressure exp(-(d / 3 mm)^2), 1 Pa in its middle, on the lowest part of a pad."""
    K = stiffness(solid.nodes, solid.cells, material, mean_dilatation=mean_dilatation)
    x = solid.nodes
    held = (np.hypot(x[:, 1], x[:, 2]) < BONE + 1e-6) | (x[:, 0] < 1e-9) | (x[:, 0] > 0.022 - 1e-9)
    loose = coordinates_of(np.flatnonzero(~held))
    forces = pressure_forces(solid).ravel()
    return float(forces[loose] @ splu(K[loose][:, loose].tocsc(), **LU).solve(forces[loose]))


def pressure_forces(solid: Solid) -> np.ndarray:
    """(n, 3) consistent nodal forces of the pressure, by quadrature over the outer faces."""
    x, faces = solid.nodes, solid.faces
    corners = faces[:, : 4 if faces.shape[1] == 4 else 3]
    outside = (np.hypot(x[corners][..., 1], x[corners][..., 2]) > SKIN - 1e-6).all(axis=1)
    faces, forces = faces[outside], np.zeros_like(x)
    for shape, along, across, weight in face_rule(faces.shape[1]):
        y = np.einsum("a,eai->ei", shape, x[faces])
        area = np.cross(np.einsum("a,eai->ei", along, x[faces]), np.einsum("a,eai->ei", across, x[faces]))
        pressure = np.exp(-((np.linalg.norm(y - [0.011, 0, -SKIN], axis=1) / 3e-3) ** 2))
        np.add.at(forces, faces, -weight * shape[None, :, None] * (pressure[:, None] * area)[:, None])
    return forces


def face_rule(nodes: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, float]]:
    """Shape functions, their two local derivatives and the weight at points of a fine rule over a face."""
    points, weights = np.polynomial.legendre.leggauss(4)
    result = []
    for s, ws in zip(points, weights, strict=True):
        for t, wt in zip(points, weights, strict=True):
            if nodes == 4:
                a, b = np.array([-1, 1, 1, -1]), np.array([-1, -1, 1, 1])
                result.append(
                    ((1 + a * s) * (1 + b * t) / 4, a * (1 + b * t) / 4, b * (1 + a * s) / 4, float(ws * wt))
                )
                continue
            p, q = (1 + s) / 2, (1 + t) / 2 * (1 - s) / 2
            r, weight = 1 - p - q, float(ws * wt * (1 - s) / 8)
            shape, along, across = np.array([r, p, q]), np.array([-1.0, 1, 0]), np.array([-1.0, 0, 1])
            if nodes == 6:
                shape = np.array([r * (2 * r - 1), p * (2 * p - 1), q * (2 * q - 1), 4 * r * p, 4 * p * q, 4 * r * q])
                along = np.array([1 - 4 * r, 4 * p - 1, 0, 4 * (r - p), 4 * q, -4 * q])
                across = np.array([1 - 4 * r, 0, 4 * q - 1, -4 * p, 4 * p, 4 * (r - q)])
            result.append((shape, along, across, weight))
    return result


if __name__ == "__main__":
    main()
