"""Several motions of a mechanism in one recording, one beside the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.body import WORLD
from supple.mechanism.flexible import FlexibleBody
from supple.mechanism.poses import amplitudes_in
from supple.mechanism.record import Array
from supple.recording import FrameWriter, Recording
from supple.retargeting import Retargeted

RATE = 30.0
"""Frames per second of a recording of a retargeted motion."""
GAP = 0.3
"""Distance between neighbours, over the radius of the mechanism."""
ALONE: dict[str, Any] = {"contact_excludes": (), "keyframes": (), "actuators": ()}
"""Fields that are left out: they name parts of a single mechanism."""


def retargeted_recording(result: Retargeted) -> Recording:
    """A recording of the target, the motion with the input curves and the one with the optimised curves, in this order
    side by side."""
    return side_by_side(retargeted_recordings(result))


def retargeted_recordings(result: Retargeted, rate: float = RATE) -> dict[str, Recording]:
    """Recordings of the "target", of the motion with the "input" and of that with the "optimised" curves, `rate` frames
    per second."""
    return {name: _recording(result, name, rate) for name in result.poses}


def _recording(result: Retargeted, name: str, rate: float) -> Recording:
    mech, recorder = result.mechanism, FrameWriter(result.mechanism, "engine", rate=rate)
    last = -np.inf
    for time, poses, axes in zip(result.times, result.poses[name], result.axes[name], strict=True):
        if time >= last + (1 - 1e-6) / rate:
            recorder.take(float(time), Poses(mech, poses, amplitudes_in(mech, axes)))
            last = time
    return recorder.recording


def side_by_side(recordings: Mapping[str, Recording]) -> Recording:
    """One recording of several that have the same times. The mechanisms stand side by side along x or y, whichever
    needs less space; the names of their parts begin with the name of their recording. Frames and floors of the world
    are those of the first mechanism."""
    parts = list(recordings.values())
    if not parts or any(not np.array_equal(part.times, parts[0].times) for part in parts):
        raise MechanismError("recordings can be shown side by side only if they have the same times")
    everything = np.concatenate([part.positions.reshape(-1, 3) for part in parts])
    extent = np.ptp(everything, axis=0)[:2]
    axis = int(np.argmin(extent))
    distance = float(extent[axis]) + GAP * (parts[0].mechanism.radius or 1.0)
    offsets = [distance * k * np.eye(3)[axis] for k in range(len(parts))]
    pieces = [
        _displaced(part.mechanism, f"{name} ", offset)
        for (name, part), offset in zip(recordings.items(), offsets, strict=True)
    ]
    world = parts[0].mechanism
    fields = ("bodies", "joints", "sites", "couplings", "motors", "flexible")
    joined: dict[str, Any] = {
        field: tuple(each for piece in pieces for each in getattr(piece, field)) for field in fields
    }
    meshes = {mesh.name: mesh for part in parts for mesh in part.mechanism.meshes}
    mech = replace(
        world, name=f"{world.name}: {', '.join(recordings)}", meshes=tuple(meshes.values()), **ALONE, **joined
    )
    writer = FrameWriter(mech, parts[0].method, rate=parts[0].rate)
    for time in parts[0].times.tolist():
        own = [part.at(time) for part in parts]
        poses = [spatial.translation(offset) @ each.array for each, offset in zip(own, offsets, strict=True)]
        amplitudes = [each.amplitudes.values() for each in own]
        names = [each.name for each in mech.flexible]
        shapes = dict(zip(names, (values for each in amplitudes for values in each), strict=True))
        writer.take(time, Poses(mech, np.concatenate(poses), shapes))
    return writer.recording


def _displaced(mech: Mechanism, prefix: str, offset: Array) -> Mechanism:
    """The mechanism moved by an offset (3,), m, with a prefix before all names but those of meshes; without floors and
    terrain."""
    moved = spatial.translation(offset)

    def named(name: str) -> str:
        return name if name == WORLD else prefix + name

    def placed(pose: Array, body: str) -> Array:
        return np.asarray(moved @ pose) if body == WORLD else pose

    joints = [
        replace(
            joint,
            name=prefix + joint.name,
            parent=named(joint.parent),
            child=named(joint.child),
            pose_parent=placed(joint.pose_parent, joint.parent),
            pose_child=placed(joint.pose_child, joint.child),
            axes=tuple(prefix + axis for axis in joint.axes),
        )
        for joint in mech.joints
    ]
    return replace(
        mech,
        bodies=tuple(replace(body, name=prefix + body.name, pose=moved @ body.pose) for body in mech.bodies),
        joints=tuple(joints),
        sites=tuple(
            replace(site, name=prefix + site.name, body=named(site.body), pose=placed(site.pose, site.body))
            for site in mech.sites
        ),
        couplings=tuple(
            replace(each, name=prefix + each.name, coordinates=tuple(prefix + axis for axis in each.coordinates))
            for each in mech.couplings
        ),
        motors=tuple(
            replace(motor, name=prefix + motor.name, coordinate=prefix + motor.coordinate) for motor in mech.motors
        ),
        shapes=(),
        height_fields=(),
        **ALONE,
        flexible=tuple(FlexibleBody(prefix + each.name, each.part) for each in mech.flexible),
    )
