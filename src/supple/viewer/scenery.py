"""Contact scenes in the viewer: robot, rigid objects and ground as one mechanism to draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from supple.mechanism import WORLD, Body, Joint, Mechanism, Poses, Shape
from supple.mechanism.poses import find
from supple.mechanism.record import Array
from supple.mechanism.shapes import HeightField
from supple.reduced import ReducedSimulation
from supple.reduced.joints import separation
from supple.world import scenes
from supple.world.scenes import Scene
from supple.zones import soft_hand

SCENES: dict[str, Callable[[str], Scene]] = {
    name: getattr(scenes, name) for name in scenes.__all__ if name not in ("SceneHistory", "Scene", "shadow_hand")
} | {"soft_hand": soft_hand}
"""The scenes that need no file."""
LEVELS = {
    "reduced": "the robot reduced to its end effectors, which have contact",
    "full": "every body of the robot, exact, each with contact",
}
GROUND, OBJECT = np.array([0.82, 0.84, 0.86, 1.0]), np.array([0.88, 0.56, 0.17, 1.0])


class SceneMotion:
    """A scene with its controller. Objects can be pulled like end effectors."""

    def __init__(self, name: str, level: str) -> None:
        self.scene = SCENES[name](level)
        self.world, self.robot = self.scene.world, self.scene.robot
        self.dt = self.world.dt
        self.mechanism = _mechanism_to_draw(self.scene)
        """The robot, the objects as free bodies, and the ground; only for drawing."""
        self._steps_to_control = 0
        """Steps until the controller is called again."""

    @property
    def end_effectors(self) -> tuple[str, ...]:
        """Bodies and sites that can be pulled."""
        tips = self.robot.model.end_effectors if isinstance(self.robot, ReducedSimulation) else ()
        return (*tips, *self.world.objects)

    @property
    def time(self) -> float:
        """s."""
        return self.world.time

    @property
    def poses(self) -> Poses:
        objects = [self.world.pose(name) for name in self.world.objects]
        robot = self.robot.poses
        poses = np.concatenate([robot.array, np.reshape(objects, (-1, 4, 4))])
        return Poses(self.mechanism, poses, robot.amplitudes)

    def stiffness(self, name: str) -> float:
        """N/m of a handle: gives the mass of the object, or of the robot, a frequency of two hertz."""
        mass = self.world.bodies[name].mass if name in self.world.bodies else self.robot.mechanism.mass
        return float(mass * (4 * np.pi) ** 2)

    def pull(self, name: str, point: ArrayLike | None) -> None:
        k = self.stiffness(name)
        damping = k / (2 * np.pi)  # critical
        if name in self.world.bodies:
            self.world.pull(name, point, k, damping)
        else:
            self.robot.pull(name, point, k, damping)

    def step(self, n: int = 1) -> None:
        while n > 0:
            if self._steps_to_control == 0:
                self.robot.set_targets(self.scene.steer(self.world.time))
                self._steps_to_control = self.scene.every
            now = min(n, self._steps_to_control)
            self.world.step(now)
            self._steps_to_control -= now
            n -= now

    def reset(self) -> None:
        self.world.reset()
        self._steps_to_control = 0

    def joint_separations(self) -> Array:
        """(joints,) separation of each joint, m; zero for the free joints of the objects."""
        result = separation(self.robot.mechanism, self.robot.poses.array)
        return np.array([*result.joints.values(), *(0.0 for _ in self.world.objects)])


def _mechanism_to_draw(scene: Scene) -> Mechanism:
    mech, world = scene.mechanism, scene.world
    meshes = {mesh.name: mesh for mesh in mech.meshes} | world.meshes
    ground = []
    for shape in world.still:
        if isinstance(shape, HeightField):
            mesh = shape.mesh(f"height field {len(meshes)}")
            meshes[mesh.name] = mesh
            shape = Shape("mesh", (), shape.pose, mesh.name)  # type: ignore[arg-type]
        ground.append(replace(shape, rgba=GROUND))
    objects = [
        replace(body, name=name, shapes=tuple(replace(shape, rgba=OBJECT) for shape in body.shapes))
        for name, body in world.bodies.items()
    ]
    return replace(
        mech,
        bodies=(*mech.bodies, *objects),
        joints=(*mech.joints, *(_free_joint(body) for body in objects)),
        shapes=tuple(ground),
        height_fields=(),
        meshes=tuple(meshes.values()),
    )


def _free_joint(body: Body) -> Joint:
    """A free joint to the world: three translations, then a rotation vector."""
    return Joint(f"{body.name} is free", WORLD, body.name, body.pose, np.eye(4), np.eye(6), (1, 1, 1, 3))


class SceneModels:
    """A scene at its two levels of detail; takes the place of a mechanism's `Models`."""

    def __init__(self, name: str) -> None:
        find(list(SCENES), name, "scene")
        self.name, self.descriptions = name, LEVELS
        first = SceneMotion(name, "reduced")
        self.mechanism, self.end_effectors = first.mechanism, first.end_effectors

    def begin(self, method: str, dt: float) -> SceneMotion:
        """The scene at its start, at one of its levels; the scene has its own time step."""
        find(list(LEVELS), method, "method")
        return SceneMotion(self.name, method)
