"""The frozen description of a mechanism."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.actuator import Actuator
from supple.mechanism.axes import per_axis, slices_of
from supple.mechanism.body import WORLD, Body, Site
from supple.mechanism.coupling import Coupling, ImportNote, Keyframe, Motor
from supple.mechanism.flexible import FlexibleBody
from supple.mechanism.identity import digest
from supple.mechanism.joint import Joint
from supple.mechanism.named import Coordinates
from supple.mechanism.notebook import html_table
from supple.mechanism.poses import Poses, amplitudes_in, find, find_keyframe
from supple.mechanism.record import Array, Record, array, checked_name, lock
from supple.mechanism.shapes import HeightField, Mesh, Shape, extreme_points, margin
from supple.mechanism.topology import Topology, span

if TYPE_CHECKING:
    from supple.mechanism.joining import Split

STANDARD_GRAVITY = (0.0, 0.0, -9.81)
IDENTITY = np.eye(4)
"""Pose of a body in its own frame; read-only."""
lock(IDENTITY)
FARTHEST = 1e100
"""m: positions beyond it overflow when they are squared."""


@dataclass(frozen=True, eq=False)
class Mechanism(Record):
    """An immutable description of bodies, the joints between them, couplings and motors. Build one with
    `supple.Builder`, read one with `supple.load`, or take one from `supple.library`."""

    name: str
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...]
    sites: tuple[Site, ...] = ()
    couplings: tuple[Coupling, ...] = ()
    motors: tuple[Motor, ...] = ()
    shapes: tuple[Shape, ...] = ()
    """Shapes fixed to the world: floors, walls."""
    height_fields: tuple[HeightField, ...] = ()
    """Terrain, fixed to the world."""
    meshes: tuple[Mesh, ...] = ()
    gravity: Array = STANDARD_GRAVITY  # type: ignore[assignment]
    """(3,) m/s^2, world axes."""
    contact_excludes: tuple[tuple[str, str], ...] = ()
    """Pairs of bodies that never touch."""
    keyframes: tuple[Keyframe, ...] = ()
    import_report: tuple[ImportNote, ...] = ()
    """Elements of the file that this description does not represent, or represents with other numbers."""
    flexible: tuple[FlexibleBody, ...] = ()
    """Elastic parts; the bodies and joints of their interfaces are among `bodies` and `joints`."""
    actuators: tuple[Actuator, ...] = ()
    """Drives with a control, from an MJCF file; `Simulation.set_control` sets it."""

    def __post_init__(self) -> None:
        from supple.mechanism.checks import check

        checked_name(self.name, "a mechanism")
        parts = ("bodies", "joints", "sites", "couplings", "motors", "shapes", "height_fields", "meshes", "keyframes")
        for field in (*parts, "flexible", "actuators"):
            self._freeze(**{field: tuple(getattr(self, field))})
        self._freeze(
            gravity=array(self.gravity, (3,), "gravity"),
            contact_excludes=tuple((a, b) for a, b in self.contact_excludes),
            import_report=tuple(self.import_report),
        )
        check(self)

    def __getstate__(self) -> dict[str, object]:
        """For pickle and copy: without what is computed from the description when needed."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def digest(self) -> str:
        """A text by which saved states tell mechanisms apart: the same for equal bodies, joints, couplings, motors,
        actuators, flexible bodies and gravity. Sites, shapes and notes of the import do not count."""
        bodies = tuple((b.name, b.pose, b.mass, b.centre, b.inertia) for b in self.bodies)
        return digest(bodies, self.joints, self.couplings, self.motors, self.actuators, self.flexible, self.gravity)

    # the graph

    @cached_property
    def topology(self) -> Topology:
        """Spanning tree and loops."""
        return span(self.bodies, self.joints)

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the coordinates q of the spanning tree, in order."""
        return tuple(name for j in self.topology.tree for name in self.joints[j].axes)

    @property
    def speed_limits(self) -> dict[str, float]:
        """Largest speed of the drive, rad/s or m/s, by coordinate, where `Joint.speed` gives one (URDF's velocity)."""
        pairs = (pair for joint in self.joints for pair in zip(joint.axes, joint.speed.tolist(), strict=True))
        return {name: speed for name, speed in pairs if np.isfinite(speed)}

    @cached_property
    def loop_coordinates(self) -> tuple[str, ...]:
        """Names of the coordinates of the joints that close loops."""
        return tuple(name for j in self.topology.loops for name in self.joints[j].axes)

    @cached_property
    def dof(self) -> int:
        """Number of coordinates of the spanning tree; with loops the mobility is smaller."""
        return self.topology.dof

    @cached_property
    def compiled(self) -> Any:
        """Kinematics in the core."""
        from supple.mechanism.compiled import compiled_kinematics

        return compiled_kinematics(self)

    @cached_property
    def reference(self) -> Coordinates:
        """(dof,) coordinates of the spanning tree at the bodies' reference poses, also by name."""
        parts = [self.joints[j].reference for j in self.topology.tree]
        q: Coordinates = Coordinates(self, np.concatenate([np.zeros(0), *parts]), copy=False)
        return q

    def joints_of(self, body: str) -> tuple[Joint, ...]:
        """The joints attached to a body."""
        self.body_index(body)
        return tuple(j for j in self.joints if body in (j.parent, j.child))

    @cached_property
    def mobility(self) -> int:
        """Number of independent motions that joints and rigid couplings leave at a generic pose; motors count as
        free."""
        from supple.mechanism.mobility import mobility

        return mobility(self)

    @cached_property
    def idle_spins(self) -> tuple[str, ...]:
        """Names of the bodies that can turn about their own axis without moving anything else: rods between two ball
        joints without springs. Statics, modes and reduced models leave these motions out."""
        from supple.mechanism.idle import idle_spins

        return tuple(spin.body for spin in idle_spins(self))

    @cached_property
    def unheld(self) -> tuple[str, ...]:
        """Names of the coordinates that no spring, motor or constraint holds (free bases included, idle spins not)."""
        from supple.mechanism.mobility import unheld

        return unheld(self)

    @cached_property
    def ranges(self) -> tuple[NDArray[np.bool_], Array, Array]:
        """Of the coordinates (n,) of the tree, then of the joints that close loops: whether inverse kinematics may move
        them (neither a free base nor the amplitudes of flexible bodies), lower and upper limits, rad and m."""
        tree = [self.joints[j] for j in self.topology.tree]
        joints = [*tree, *(self.joints[j] for j in self.topology.loops)]
        bases = {joint.name for joint in tree if joint.kind == "free" and WORLD in (joint.parent, joint.child)}
        movable = [joint.interface is None and joint.name not in bases for joint in joints]
        limits = np.concatenate([np.zeros((0, 2)), *(joint.limits for joint in joints)])
        return np.repeat(np.array(movable, bool), [len(joint.axes) for joint in joints]), limits[:, 0], limits[:, 1]

    # names

    @cached_property
    def axis_slices(self) -> list[slice]:
        """(joints,) slice of each joint's coordinates in an array (axes,) of those of all joints."""
        return slices_of(self.joints)

    @cached_property
    def tree_axes(self) -> NDArray[np.int64]:
        """(dof,) places of the spanning tree's coordinates in an array (axes,) of those of all joints."""
        parts = [np.arange(part.start, part.stop) for part in (self.axis_slices[j] for j in self.topology.tree)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    @cached_property
    def body_indices(self) -> dict[str, int]:
        """Index of each body by name."""
        return {body.name: i for i, body in enumerate(self.bodies)}

    @cached_property
    def _site_index(self) -> dict[str, int]:
        return {site.name: i for i, site in enumerate(self.sites)}

    def body_index(self, name: str) -> int:
        """Index of a body, -1 for the world."""
        if name == WORLD:
            return -1
        if name in self.body_indices:
            return self.body_indices[name]
        return find(list(self.body_indices), name, f"body of '{self.name}'")

    def joint_index(self, name: str) -> int:
        """Index of a joint, by its name or by that of one of its coordinates."""
        for i, joint in enumerate(self.joints):
            if name == joint.name or name in joint.axes:
                return i
        return find([j.name for j in self.joints], name, f"joint of '{self.name}'")

    def body(self, name: str) -> Body:
        if name == WORLD:
            raise MechanismError(f"'{WORLD}' is the fixed frame, not a body of '{self.name}'")
        return self.bodies[self.body_index(name)]

    def joint(self, name: str) -> Joint:
        return self.joints[self.joint_index(name)]

    def frame(self, name: str) -> tuple[int, Array]:
        """A body or site by name: the body's index (-1 for the world) and the frame's (4, 4) pose in it."""
        if name in self.body_indices:
            return self.body_indices[name], IDENTITY
        if name in self._site_index:
            site = self.sites[self._site_index[name]]
            return self.body_index(site.body), site.pose
        return find([*self.body_indices, *self._site_index], name, f"body or site of '{self.name}'"), IDENTITY

    def has_frame(self, name: str) -> bool:
        """Whether a body or site has this name."""
        return name in self.body_indices or name in self._site_index

    # mass and size

    @cached_property
    def poses(self) -> Poses:
        """World poses of every body at the reference pose."""
        poses = np.array([body.pose for body in self.bodies]).reshape(-1, 4, 4)
        return Poses(self, poses, amplitudes_in(self, per_axis(self, "reference")))

    @property
    def mass(self) -> float:
        """Total mass, kg."""
        return float(sum(body.mass for body in self.bodies))

    @cached_property
    def centre(self) -> Array:
        """(3,) centre of mass at the reference pose, world axes, m."""
        if self.mass == 0:
            raise MechanismError(f"'{self.name}' has no mass, so it has no centre of mass")
        weighted = [b.mass * (b.pose[:3, :3] @ b.centre + b.pose[:3, 3]) for b in self.bodies]
        centre: Array = np.sum(weighted, axis=0) / self.mass
        return centre

    @cached_property
    def bounding_sphere(self) -> tuple[Array, float]:
        """Centre (3,) and radius, m, of a sphere around joints, sites, body origins, centres of mass and shapes at the
        reference pose."""
        from supple.mechanism.ball import Cloud, enclosing_ball

        points = []
        for joint in self.joints:
            for name, local in ((joint.parent, joint.pose_parent), (joint.child, joint.pose_child)):
                if joint.kind != "fixed" and not (name == WORLD and joint.kind == "free"):
                    points.append((self.poses.of(name) @ local)[:3, 3])
        points += [self.poses[site.name][:3, 3] for site in self.sites if site.body != WORLD]
        points += [body.pose[:3, 3] for body in self.bodies]
        points += [b.pose[:3, :3] @ b.centre + b.pose[:3, 3] for b in self.bodies if b.mass > 0]
        clouds = [Cloud(np.array(points), np.eye(4), 0.0)]
        meshes = {mesh.name: mesh for mesh in self.meshes}
        for body in self.bodies:
            for shape in body.shapes:
                if len(extreme := extreme_points(shape, meshes)):
                    box = None if shape.mesh is None else meshes[shape.mesh].box
                    clouds.append(Cloud(extreme, body.pose @ shape.pose, margin(shape), box))
        with np.errstate(over="ignore"):
            balls = [cloud.bounding_ball() for cloud in clouds]
        if not max(float(np.abs(middle).max()) + size for middle, size in balls) < FARTHEST:
            raise MechanismError(
                f"'{self.name}' extends beyond {FARTHEST:g} m; check the exponents of its positions and sizes"
            )
        return enclosing_ball(clouds)

    @property
    def radius(self) -> float:
        """Radius of the bounding sphere, m: the length by which displacements are divided."""
        return self.bounding_sphere[1]

    # changed copies

    def with_springs(
        self,
        stiffness: ArrayLike | Mapping[str, ArrayLike],
        damping: ArrayLike | Mapping[str, ArrayLike] = 0.0,
        joints: Iterable[str] | str | None = None,
    ) -> Mechanism:
        """A copy with springs (and dampers) on the coordinates that nothing holds, unloaded at the reference pose.

        URDF files have no springs, and a tendon over two finger joints leaves one of their motions free. Coordinates
        that a spring, a motor, a loop or a rigid coupling holds do not change, and a free base stays free. `joints`
        names the joints or coordinates that get the spring instead, whether something holds them or not. {name: value}
        and arrays (dof,) as `stiffness` or `damping` also choose the coordinates, each with its own number. A larger
        damping than the given one stays; a warning names the coordinates whose damping is replaced.
        """
        from supple.mechanism.springs import with_springs

        return with_springs(self, stiffness, damping, joints)

    def at(self, q: ArrayLike | Mapping[str, ArrayLike] | str, relax: bool = False) -> Mechanism:
        """A copy whose reference pose has the coordinates q.

        q is an array (dof,), one number for all, {joint or coordinate: value} (the others stay), or the name of a
        keyframe. Springs keep their rest; with `relax` they are unloaded at the new pose. Joints that close loops get
        the coordinates that fit best.
        """
        from supple.mechanism.kinematics import kinematics
        from supple.mechanism.values import by_coordinate, relaxed

        if isinstance(q, str):
            q = self.keyframes[find_keyframe([k.name for k in self.keyframes], q, f"'{self.name}'")].coordinates
        state = kinematics(self, by_coordinate(self, q, self.reference, "q"))
        bodies = tuple(replace(b, pose=p) for b, p in zip(self.bodies, state.poses, strict=True))
        joints = list(self.joints)
        for i in self.topology.tree:
            joints[i] = replace(joints[i], reference=state.q[self.topology.columns[i]])
        for i in self.topology.loops:
            joint = joints[i]
            across = spatial.inverse(state.poses[joint.parent] @ joint.pose_parent) @ (
                state.poses[joint.child] @ joint.pose_child
            )
            joints[i] = replace(joint, reference=joint.coordinates(across)[0])
        moved = replace(self, bodies=bodies, joints=tuple(joints))
        return relaxed(moved) if relax else moved

    def placed(self, pose: ArrayLike) -> Mechanism:
        """A copy moved as a whole, its ground included: what was at the world's origin is then at `pose` (4, 4).

        Coordinates do not change; those of a free base are relative to the moved origin.
        """
        from supple.mechanism.placing import placed

        return placed(self, pose)

    def with_base(self, base: str | Joint) -> Mechanism:
        """A copy with another joint between the world and its base body.

        "fixed" holds the base where it is. "free" has the base's world pose as coordinates: position, then rotation
        vector. A `Joint` from "world" to the base body places the base at its reference coordinates. Keyframes get
        the coordinates of the new joint.
        """
        from supple.mechanism.placing import with_base

        return with_base(self, base)

    def with_payload(
        self, frame: str, mass: float, centre: ArrayLike = (0.0, 0.0, 0.0), inertia: ArrayLike = (0.0,) * 3
    ) -> Mechanism:
        """A copy with a rigid load fixed to a body or site.

        `mass` in kg; `centre` (3,), m, and `inertia` (3, 3) or principal moments (3,), kg m^2, about that centre, both
        in the frame of the body or site.
        """
        from supple.mechanism.placing import with_payload

        return with_payload(self, frame, mass, centre, inertia)

    @property
    def parameters(self) -> dict[str, float]:
        """Values by name: "elbow.stiffness", "elbow.damping", "elbow.rest" (or "elbow.target", the same number),
        "elbow.armature", "upper.mass", "drive.target" for a motor; SI units and radians. `with_parameters`,
        `supple.gradient` and `supple.sweep` use these names, and "tip.payload" for a point mass at a body or site."""
        from supple.mechanism.parameters import Parameters

        return {name: each.value(self) for name, each in Parameters(self).all.items()}

    def with_parameters(self, values: Mapping[str, ArrayLike]) -> Mechanism:
        """A copy with other values of parameters, by the names of `parameters`.

        A payload is added to the mass that is there: {"tip.payload": 2.0} adds 2 kg at the origin of 'tip'.
        """
        from supple.mechanism.parameters import with_parameters

        return with_parameters(self, values)

    def without(self, bodies: Iterable[str] | str) -> Mechanism:
        """A copy without bodies and all that they carry: their joints, sites, couplings, motors, actuators and
        meshes go too."""
        from supple.mechanism.joining import without

        return without(self, bodies)

    def split(self) -> Split:
        """Separates a scene into `robot` and `objects`.

        Objects are the bodies that only a free joint connects to the world and that carry nothing; the robot is a
        Mechanism of everything else, with the ground. `world.add(body, meshes=scene.meshes)` takes an object.
        """
        from supple.mechanism.joining import split

        return split(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a file: `.json` holds everything and reads back identical; `.xml` is MJCF for MuJoCo."""
        from supple.mechanism.io import save

        save(self, path)

    def __repr__(self) -> str:
        loops = len(self.topology.loops)
        return f"Mechanism('{self.name}': {len(self.bodies)} bodies, {len(self.joints)} joints, {loops} loops)"

    def _repr_html_(self) -> str:
        return html_table(f"Mechanism {self.name}", {
            "bodies": len(self.bodies), "joints": len(self.joints), "loops": len(self.topology.loops),
            "coordinates": self.dof, "mass": f"{self.mass:.4g} kg", "motors": len(self.motors),
            "sites": ", ".join(site.name for site in self.sites[:6]) or "none",
        })  # fmt: skip


def check_mechanism(mech: object) -> None:
    """Raises unless the argument is a Mechanism (it may be a file name, for example)."""
    if not isinstance(mech, Mechanism):
        raise MechanismError(f"a Mechanism is needed, got {mech!r:.60}; read a file with supple.load(...)")
