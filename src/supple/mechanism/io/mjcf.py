"""Reads MJCF: MuJoCo compiles the file, and the compiled model becomes a Mechanism."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.actuator import Actuator
from supple.mechanism.body import WORLD, Body, Site
from supple.mechanism.coupling import Coupling, ImportNote, Keyframe
from supple.mechanism.io import xml_check
from supple.mechanism.io.compiler import CompilerCrash, CompilerError, Model, compile_text
from supple.mechanism.io.mjcf_actuators import ControlInputs, Driven, read_actuators
from supple.mechanism.io.mjcf_couplings import (
    EQ_JOINT,
    EQ_TENDON,
    Tendon,
    equality_coupling,
    read_tendons,
    tendon_coupling,
    with_yielding_couplings,
)
from supple.mechanism.io.mjcf_geoms import read_height_fields, read_meshes, read_shapes
from supple.mechanism.io.mjcf_joints import Axes, body_joint, pose, read_axes, rotation
from supple.mechanism.io.mjcf_mocap import DRAGGED, bushing, is_mocap, softness
from supple.mechanism.io.mjcf_report import Names, Report
from supple.mechanism.io.xml_tree import Element
from supple.mechanism.joint import Joint
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.poses import find_keyframe
from supple.mechanism.record import Array
from supple.mechanism.redundancy import with_released_constraints
from supple.mechanism.shapes import Shape

EQ_CONNECT, EQ_WELD = 0, 1
EQUALITIES = {4: "flex", 5: "flex vertex", 6: "flex strain", 7: "distance"}
OBJ_SITE = 6
UNNAMED = "MuJoCo Model"
SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
SWITCHED_OFF = "is switched off in the file; not imported"
NO_GRAVITY = 1 << 7
COUNTED = {
    "nsensor": ("sensors", "not imported; read poses and coordinates from the simulation"),
    "ncam": ("cameras", "not imported; the viewer has its own"),
    "nlight": ("lights", "not imported; the viewer has its own"),
    "ntex": ("textures", "not imported; shapes keep their plain colours"),
    "nflex": ("flexes", "the elasticity of flexes is not imported; their points are bodies without springs"),
    "nnumeric": ("custom numbers", "not imported"),
    "ntext": ("custom texts", "not imported"),
    "ntuple": ("custom tuples", "not imported"),
}


def load(root: Element, path: Path, keyframe: str | None = None) -> Mechanism:
    """The mechanism of a parsed MJCF file; `keyframe` names the keyframe that becomes the reference pose."""
    checked = xml_check.check(root, path)
    try:
        model = compile_text(checked.text, checked.models)
    except CompilerCrash as error:
        raise MechanismError(f"{path.name}: {error}") from None
    except CompilerError as error:
        raise MechanismError(checked.explain(str(error), path.name)) from None
    try:
        reader = _Reader(model, keyframe)
        name = model.name.strip()
        mech = reader.mechanism(path.stem if name in ("", UNNAMED) else name, checked.notes)
        mech = with_released_constraints(mech)
        mech = with_yielding_couplings(mech)
        return mech if keyframe is None else mech.at(keyframe)
    except MechanismError as error:
        raise MechanismError(f"{path.name}: {error}") from None


class _Reader:
    """Converts a compiled model to a Mechanism, one kind of element after the other."""

    def __init__(self, model: Model, keyframe: str | None) -> None:
        self.model, self.report = model, Report()
        frames = Names([WORLD])
        given = enumerate(model.names["body"][1:], 1)
        self.bodies = [WORLD, *(frames.make_unique(name or f"body{b}") for b, name in given)]
        self.sites = [self._site_name(frames, s, n) for s, n in enumerate(model.names["site"])]
        self.keys = _named(model, "key", "key")
        self.key = None if keyframe is None else find_keyframe(self.keys, keyframe, "this file")
        self.meshes = _named(model, "mesh", "mesh")
        self.axes = self._axes()
        alone = model.body_jntnum[model.jnt_bodyid] == 1
        self.joint_names = Names(a.name for a in self.axes if alone[a.id])
        self.poses = self._poses()

    def mechanism(self, name: str, notes: list[ImportNote]) -> Mechanism:
        couplings, actuators = self._couplings_and_actuators()
        joints = (*self._tree_joints(), *self._loop_joints())
        shapes = read_shapes(self.model, self.model.names["geom"], self.meshes, self.report)
        bodies = tuple(self._body(b, tuple(shapes.get(b, ()))) for b in range(1, len(self.bodies)))
        self._report_counts()
        return Mechanism(
            name,
            bodies,
            joints,
            sites=tuple(self._site(s) for s in range(len(self.sites))),
            couplings=couplings,
            actuators=actuators,
            shapes=tuple(shapes.get(0, ())),
            height_fields=read_height_fields(self.model, self.model.names["geom"], self.poses),
            meshes=read_meshes(self.model, self.meshes),
            gravity=self._gravity(),
            contact_excludes=self._excludes(),
            keyframes=tuple(self._keyframe(k) for k in range(len(self.keys))),
            import_report=(*notes, *self.report.notes()),
        )

    # bodies and sites

    def _poses(self) -> Array:
        """(bodies + 1, 4, 4) at qpos0, the world first."""
        poses = np.tile(np.eye(4), (len(self.bodies), 1, 1))
        for b in range(1, len(self.bodies)):
            own = pose(self.model.body_pos[b], self.model.body_quat[b])
            poses[b] = poses[self.model.body_parentid[b]] @ own
        return poses

    def _body(self, b: int, shapes: tuple[Shape, ...]) -> Body:
        model = self.model
        if model.body_mocapid[b] >= 0:
            self.report.add("mocap body", self.bodies[b], "is fixed where the file places it")
        if model.body_gravcomp[b]:
            self.report.add("gravcomp of body", self.bodies[b], "gravity compensation is not imported")
        turn = rotation(model.body_iquat[b])
        inertia = turn @ np.diag(model.body_inertia[b]) @ turn.T
        inertia = (inertia + inertia.T) / 2
        mass = float(model.body_mass[b])
        centre = model.body_ipos[b] if mass > 0 else np.zeros(3)  # of a body without mass, body_ipos has no meaning
        return Body(self.bodies[b], self.poses[b], mass, centre, inertia, shapes)

    def _site_name(self, frames: Names, s: int, name: str) -> str:
        chosen = frames.make_unique(name or f"site{s}")
        if name and chosen != name:
            self.report.add("site", name, f"shares its name with a body; it is now called '{chosen}'")
        return chosen

    def _site(self, s: int) -> Site:
        frame = pose(self.model.site_pos[s], self.model.site_quat[s])
        return Site(self.sites[s], self.bodies[self.model.site_bodyid[s]], frame)

    # joints

    def _axes(self) -> list[Axes]:
        bodies = [self.bodies[b] for b in self.model.jnt_bodyid]
        given = self.model.names["jnt"]
        taken = Names(name for name in given if name)
        names = [name or taken.make_unique(f"{body}_joint") for name, body in zip(given, bodies, strict=True)]
        return [read_axes(self.model, j, name, self.report) for j, name in enumerate(names)]

    def _tree_joints(self) -> list[Joint]:
        model, joints = self.model, []
        for b in range(1, len(self.bodies)):
            start, count = int(model.body_jntadr[b]), int(model.body_jntnum[b])
            axes = self.axes[start : start + count] if count else []
            name = axes[0].name if count == 1 else self._joint_name(b, axes)
            parent = self.bodies[model.body_parentid[b]]
            joints.append(body_joint(model, b, name, parent, self.bodies[b], axes))
        return joints

    def _joint_name(self, b: int, axes: list[Axes]) -> str:
        """Name of the joint for several MuJoCo joints (or none) on one body; hip.x, hip.y, hip.z together are hip."""
        body = self.bodies[b]
        parts = dict.fromkeys(re.sub(r"\.[xyz]$", "", a.name) for a in axes)
        return self.joint_names.make_unique("+".join(parts) or f"{body}_fixed")

    def _loop_joints(self) -> list[Joint]:
        """Connect and weld equalities."""
        model, joints = self.model, []
        for e, given in enumerate(model.names["eq"]):
            kind = int(model.eq_type[e])
            if kind not in (EQ_CONNECT, EQ_WELD):
                continue
            bodies, frames = self._equality_frames(e)
            first, second = (self.bodies[b] for b in bodies)
            name = given or f"{('connect', 'weld')[kind]}_{first}_{second}"
            if not model.eq_active0[e]:
                self.report.add("equality", name, SWITCHED_OFF)
            elif is_mocap(model, bodies[0]) != is_mocap(model, bodies[1]):
                joints.append(self._dragged(e, self.joint_names.make_unique(name), bodies, frames))
            elif kind == EQ_WELD:
                joints.append(Joint(self.joint_names.make_unique(name), first, second, frames[0], frames[1]))
            else:
                joints.append(self._ball(self.joint_names.make_unique(name), bodies, [f[:3, 3] for f in frames]))
        return joints

    def _dragged(self, e: int, name: str, bodies: list[int], frames: list[Array]) -> Joint:
        """The bushing for a weld or connect between a mocap body, which becomes its parent, and another one."""
        stiffness, damping = softness(self.model, e, bodies)
        if int(self.model.eq_type[e]) == EQ_CONNECT:
            stiffness, damping = stiffness * [1, 0], damping * [1, 0]
        self.report.add("equality", name, DRAGGED.format(name))
        first, second = (0, 1) if is_mocap(self.model, bodies[0]) else (1, 0)
        (parent, child), on = (bodies[first], bodies[second]), [frames[first], frames[second]]
        poses = [self.poses[parent], self.poses[child]]
        return bushing(name, (self.bodies[parent], self.bodies[child]), on, poses, stiffness, damping)

    def _equality_frames(self, e: int) -> tuple[list[int], list[Array]]:
        """The two bodies of a connect or weld, and the frames on them that it makes coincide."""
        model, ends = self.model, [int(self.model.eq_obj1id[e]), int(self.model.eq_obj2id[e])]
        if int(model.eq_objtype[e]) == OBJ_SITE:
            frames = [pose(model.site_pos[s], model.site_quat[s]) for s in ends]
            return [int(model.site_bodyid[s]) for s in ends], frames
        data = np.array(model.eq_data[e])
        if int(model.eq_type[e]) == EQ_WELD:  # the anchor on the second body comes first
            return ends, [pose(data[3:6], data[6:10]), spatial.translation(data[:3])]
        return ends, [spatial.translation(data[:3]), spatial.translation(data[3:6])]

    def _ball(self, name: str, bodies: list[int], anchors: list[Array]) -> Joint:
        """A ball joint between two points; its frames are parallel at qpos0, so that its reference is zero."""
        turn = self.poses[bodies[1], :3, :3].T @ self.poses[bodies[0], :3, :3]
        return Joint(
            name,
            self.bodies[bodies[0]],
            self.bodies[bodies[1]],
            spatial.translation(anchors[0]),
            spatial.pose(turn, anchors[1]),
            np.eye(6)[3:],
            (3,),
            axes=tuple(f"{name}.{letter}" for letter in ("rx", "ry", "rz")),
        )

    # couplings

    def _couplings_and_actuators(self) -> tuple[tuple[Coupling, ...], tuple[Actuator, ...]]:
        model = self.model
        taken = Names([*(name for a in self.axes for name in a.names), *(a.name for a in self.axes)])
        names = [self._tendon_name(taken, name) for name in _named(model, "tendon", "tendon")]
        coordinates = [a.names[0] for a in self.axes]
        tendons = read_tendons(model, names, coordinates, self.report)
        actuators = read_actuators(
            model,
            _named(model, "actuator", "actuator"),
            {j: Driven(a.names[0], a.springs[0], a.force_range) for j, a in enumerate(self.axes)},
            {t: Driven(names[t], tendon.spring, tendon.force_range) for t, tendon in tendons.items()},
            ControlInputs.of(model, self.key),
            self.report,
        )
        couplings = [tendon_coupling(tendon, names[t], self.report) for t, tendon in tendons.items()]
        return (*couplings, *self._equalities(coordinates, tendons, taken)), actuators

    def _tendon_name(self, taken: Names, name: str) -> str:
        """Set-points and actuators find joints and couplings by one name; MuJoCo allows it once for each kind."""
        chosen = taken.make_unique(name)
        if chosen != name:
            self.report.add("tendon", name, f"shares its name with a joint; it is now called '{chosen}'")
        return chosen

    def _equalities(self, coordinates: list[str], tendons: dict[int, Tendon], taken: Names) -> list[Coupling]:
        model, couplings = self.model, []
        for e, given in enumerate(model.names["eq"]):
            kind, first = int(model.eq_type[e]), int(model.eq_obj1id[e])
            name = given or (f"{coordinates[first]}_equality" if kind == EQ_JOINT else f"equality{e}")
            if kind in EQUALITIES:
                self.report.add("equality", name, f"{EQUALITIES[kind]} equalities are not imported")
            elif kind in (EQ_JOINT, EQ_TENDON) and not model.eq_active0[e]:
                self.report.add("equality", name, SWITCHED_OFF)
            elif kind in (EQ_JOINT, EQ_TENDON):
                coupling = equality_coupling(model, e, name, coordinates, tendons, taken, self.report)
                couplings += [coupling] if coupling is not None else []
        return couplings

    # keyframes, contact masks, gravity, counts

    def _keyframe(self, k: int) -> Keyframe:
        parts = [a.coordinates(self.model, self.model.key_qpos[k]) for a in self.axes]
        return Keyframe(self.keys[k], np.concatenate([np.zeros(0), *parts]))

    def _excludes(self) -> tuple[tuple[str, str], ...]:
        pairs = map(int, self.model.exclude_signature)  # body1 << 16 + body2
        return tuple((self.bodies[pair >> 16], self.bodies[pair & 0xFFFF]) for pair in pairs)

    def _gravity(self) -> Array:
        flags = int(self.model.options["disableflags"])
        off = (flags & ~NO_GRAVITY).bit_count()
        self.report.count("option flags", off, "switch off parts of MuJoCo; not imported")
        return np.zeros(3) if flags & NO_GRAVITY else np.array(self.model.options["gravity"])

    def _report_counts(self) -> None:
        """Reports elements that are only counted."""
        for count, (what, reason) in COUNTED.items():
            self.report.count(what, self.model.counts[count], reason)
        pairs = len(self.model.pair_geom1)
        self.report.count("contact pairs", pairs, "not imported; shapes touch by their masks")
        self.report.count("solver settings", self._count_softened(), "MuJoCo's own softness of contacts and limits")
        for field in ("adhesion", "surfacevel"):
            many = int(np.any(np.atleast_2d(self.model.arrays[f"geom_{field}"].T), axis=0).sum())
            self.report.count(f"geoms with {field}", many, "not imported")
        for option in ("density", "viscosity", "wind"):
            if np.any(self.model.options[option]):
                self.report.add("option", option, "forces of a surrounding fluid are not imported")

    def _count_softened(self) -> int:
        """Number of elements whose solref, solimp, margin or gap is not MuJoCo's default."""
        total = 0
        for kind, ending in (("geom", ""), ("jnt", ""), ("eq", ""), ("tendon", "_lim")):
            reference = self.model.arrays[f"{kind}_solref{ending}"] != SOLREF
            impedance = self.model.arrays[f"{kind}_solimp{ending}"] != SOLIMP
            total += int((reference.any(axis=1) | impedance.any(axis=1)).sum())
        return total + int(((self.model.geom_margin != 0) | (self.model.geom_gap != 0)).sum())


def _named(model: Model, kind: str, stem: str) -> list[str]:
    """Names of a kind, with generated ones where the file gives none."""
    taken = Names(name for name in model.names[kind] if name)
    return [name or taken.make_unique(f"{stem}{i}") for i, name in enumerate(model.names[kind])]
