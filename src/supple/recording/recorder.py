"""Writes recordings while something moves."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from time import monotonic
from types import TracebackType
from typing import Any, BinaryIO
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.errors import MechanismError
from supple.files import packed_header
from supple.mechanism import Mechanism, Poses
from supple.mechanism.io.packed import packed_mechanism
from supple.mechanism.moving import Contact, Moving
from supple.mechanism.record import Array
from supple.recording.archive import ArchiveWriter
from supple.recording.observing import Observer, Schedule, checked_rate
from supple.recording.recording import CONTACT, FORMAT, VERSION, Recording, frame_type

RATE = 30.0
"""Frames per second, if not given."""
SECONDS = 1.0
"""s of computing: what is lost at most if the program is killed."""
CHUNK_BYTES = 4 * 2**20
"""Frames are written when they take so much memory."""


@dataclass(frozen=True)
class SoftSurface:
    """A surface that deforms, such as the skin of a soft pad."""

    name: str
    body: str
    """The body in whose frame its vertices are given; "world" for the world's."""
    triangles: NDArray[np.integer[Any]]
    """(f, 3) indices of vertices, counter-clockwise seen from outside."""
    vertices: Callable[[Moving], Array]
    """Returns the present vertices (v, 3), m, given what moves."""


class FrameWriter:
    """Writes the frames of a recording into a file, or into a temporary one if `path` is None.

    Frames are collected for `SECONDS` of computing or `CHUNK_BYTES`, then appended to the file. `fields` are the shapes
    of further arrays of each frame, by name: `velocities`, `q`, `qd`, `energy`, `surface 0` and so on.
    """

    def __init__(
        self,
        mech: Mechanism,
        method: str,
        path: str | PathLike[str] | None = None,
        *,
        rate: float = RATE,
        fields: Mapping[str, tuple[int, ...]] | None = None,
        surfaces: Sequence[SoftSurface] = (),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.mechanism, self.rate, self.path = mech, checked_rate(rate), path
        modes = sum(flexible.basis.size for flexible in mech.flexible)
        shapes = {"positions": (len(mech.bodies), 3), "quats_wxyz": (len(mech.bodies), 4), "amplitudes": (modes,)}
        self._fields, self._further = shapes | dict(fields or {}), tuple(fields or {})
        self._type = frame_type(self._fields)
        self.frames = 0
        """Number of frames so far."""
        self.time = -np.inf
        """Time of the last frame, s."""
        self._clock, self._written, self._chunks = clock, clock(), 0
        self._given_time, self._offset = -np.inf, 0.0
        self._quats: Array | None = None
        self._names: dict[str, int] = {}
        self._new_names: list[str] = []
        self._size = max(1, min(CHUNK_BYTES // max(self._type.itemsize, 1), 4096))
        self._frames: NDArray[Any] = np.zeros(self._size, self._type)
        self._times: list[float] = []
        self._contacts: list[tuple[Any, ...]] = []
        where = "the recording" if path is None else fspath(path)
        file = _opened(path)
        finalize(self, file.close)
        self._archive = ArchiveWriter(file, where)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "method": method,
            "rate": self.rate,
            "fields": {name: list(shape) for name, shape in self._fields.items()},
            "surfaces": [{"name": surface.name, "body": surface.body} for surface in surfaces],
        }
        arrays: dict[str, NDArray[Any]] = {"header": packed_header(header)}
        arrays |= packed_mechanism(mech)
        arrays |= {f"triangles/{i}": np.asarray(each.triangles, dtype="<i8") for i, each in enumerate(surfaces)}
        self._archive.append(arrays)

    def take(
        self, time: float, poses: Poses, contacts: Iterable[Contact] = (), values: Mapping[str, Any] | None = None
    ) -> None:
        """Adds a frame at a time, s. It is skipped if time has not advanced since the last one. If time jumps back
        (after a reset), the recording continues without a jump. `values` are the arrays of `fields`; zero if missing.

        Raises:
            MechanismError: the file cannot be written. The frame is kept; `close` tries again.
        """
        if time < self._given_time:
            self._offset = self.time + 1 / self.rate - time
        self._given_time = time
        time += self._offset
        if time <= self.time:
            return
        if len(self._times) == self._size:  # an earlier attempt to write them failed
            self.write()
        quats = spatial.quat_wxyz_from_matrix(poses.array[:, :3, :3])
        if self._quats is not None:
            quats = quats * np.where((quats * self._quats).sum(axis=1) < 0, -1.0, 1.0)[:, None]
        row = self._frames[len(self._times)]
        row["positions"], row["quats_wxyz"] = poses.array[:, :3, 3], quats
        if self.mechanism.flexible:
            row["amplitudes"] = np.concatenate([*poses.amplitudes.values()])
        for name in self._further:
            row[name] = (values or {}).get(name, 0.0)
        for c in contacts:
            sides = self._index(c.first), self._index(c.second)
            self._contacts.append((self.frames, *sides, c.point, c.normal, c.force, c.torque, c.gap))
        self._quats, self.time = quats, time
        self._times.append(time)
        self.frames += 1
        if len(self._times) == self._size or self._clock() >= self._written + SECONDS:
            self.write()

    def _index(self, name: str) -> int:
        """Number that stands for a name in the file."""
        if name not in self._names:
            self._names[name] = len(self._names)
            self._new_names.append(name)
        return self._names[name]

    def write(self) -> None:
        """Writes the frames that are not in the file yet."""
        if self._archive.closed or not self._times:
            return
        key, arrays = f"{self._chunks:06d}", {}
        if self._new_names:
            arrays[f"names/{key}"] = np.frombuffer(json.dumps(self._new_names).encode(), dtype=np.uint8)
        if self._contacts:
            arrays[f"contacts/{key}"] = np.array(self._contacts, dtype=CONTACT)
        arrays[f"times/{key}"] = np.array(self._times)
        arrays[f"frames/{key}"] = self._frames[: len(self._times)]
        self._archive.append(arrays)
        self._chunks += 1
        self._times, self._contacts, self._new_names = [], [], []
        self._written = self._clock()

    def close(self) -> None:
        """Writes what is not in the file yet, and ends it."""
        if self._archive.closed:
            return
        self.write()
        if self.path is not None:
            self._archive.close()

    @property
    def recording(self) -> Recording:
        """The recording so far."""
        if not self.frames:
            raise MechanismError("nothing was recorded yet")
        self.write()
        if self.path is not None:
            return Recording.load(self.path, complete=False)
        own = os.fdopen(os.dup(self._archive.file.fileno()), "rb", buffering=0)
        return Recording(own, "the recording", complete=False)


def _opened(path: str | PathLike[str] | None) -> BinaryIO:
    """A file for reading and writing, without a buffer: what was written survives the program."""
    if path is None:
        return tempfile.TemporaryFile(buffering=0)
    try:
        return open(path, "w+b", buffering=0)
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MechanismError(f"{path}: cannot write the file: {reason}; check its name and folder") from None


class Recorder:
    """Records something that moves: `sim.record("run.npz")` or `world.record("run.npz")` makes one.

    It takes a frame at the start, then `rate` frames per second of simulated time while the simulation steps, and the
    last state when it is closed. Use it in a `with` block, or call `close`; otherwise the end of the program closes it.
    """

    def __init__(
        self,
        moving: Moving,
        path: str | PathLike[str] | None = None,
        rate: float = RATE,
        skin: Any = None,
    ) -> None:
        self.moving, self._observers = moving, list[Observer]()
        self._schedule = Schedule(rate, moving.dt)
        self._surfaces = (*_pads(moving), *([] if skin is None else [_skin(skin)]))
        first = self._values(moving)
        self._names = tuple(first)
        self._writer = FrameWriter(
            moving.mechanism,
            moving.kind,
            path,
            rate=rate,
            fields={name: np.shape(value) for name, value in first.items()},
            surfaces=self._surfaces,
        )
        self._offered = -np.inf
        self._closing = finalize(self, _close_quietly, self._writer)

    def start(self, observers: list[Observer]) -> Recorder:
        """Takes the first frame and joins the observers of a simulation, which call it while the simulation steps.
        Without this, frames are taken by `take` and `offer` only."""
        self.take()
        self._observers = observers
        observers.append(self)
        return self

    def _values(self, moving: Moving) -> dict[str, Array]:
        energy = moving.energy
        values = {
            "velocities": np.asarray(moving.velocities),
            "q": np.asarray(moving.q),
            "energy": np.array([energy.kinetic, energy.strain, energy.gravity]),
        }
        with suppress(MechanismError):  # linear models of flexible bodies have no rates
            values["qd"] = np.asarray(moving.qd)
        return values | {f"surface {i}": np.asarray(each.vertices(moving)) for i, each in enumerate(self._surfaces)}

    # observing

    def steps_ahead(self) -> int:
        return self._schedule.steps_ahead()

    def after_steps(self, n: int) -> None:
        if self._schedule.after_steps(n):
            try:
                self.take()
            except MechanismError:
                self._detach()  # the simulation can go on without it
                raise

    # frames

    def take(self, moving: Moving | None = None, time: float | None = None) -> None:
        """Adds a frame of the present state. `moving` replaces what was recorded so far, with the same bodies; `time`,
        s, is its own if not given."""
        self.moving = moving = self.moving if moving is None else moving
        poses = moving.poses
        if poses.array.shape != (len(self._writer.mechanism.bodies), 4, 4):
            raise MechanismError(
                f"'{self._writer.mechanism.name}' has other bodies than when its recording began; begin another one"
            )
        values = {name: value for name, value in self._values(moving).items() if name in self._names}
        contacts = moving.contacts if moving.has_contacts else ()
        self._writer.take(moving.time if time is None else time, poses, contacts, values)

    def offer(self, moving: Moving, time: float) -> None:
        """Takes a frame if the last one is old enough for the rate of the recording."""
        if time < self._offered or time >= self._offered + (1 - 1e-6) / self._writer.rate:
            self._offered = time
            self.take(moving, time)

    @property
    def frames(self) -> int:
        """Number of frames so far."""
        return self._writer.frames

    @property
    def path(self) -> str | PathLike[str] | None:
        """The file; None for a recording that is not in a named file."""
        return self._writer.path

    @property
    def recording(self) -> Recording:
        """What was recorded so far."""
        return self._writer.recording

    def close(self) -> None:
        """Takes the last frame and ends the file; the simulation can go on."""
        if self._closing.alive:
            self._detach()
            self.take()
            self._writer.close()
            self._closing.detach()

    def _detach(self) -> None:
        if self in self._observers:
            self._observers.remove(self)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


def _close_quietly(writer: FrameWriter) -> None:
    """Closes the file at the end of the program."""
    with suppress(MechanismError, OSError):
        writer.close()


def _pads(moving: Moving) -> list[SoftSurface]:
    """The surfaces of the soft pads that cover bodies."""

    def vertices(name: str, moving: Moving) -> Array:
        touch = moving.touches[name]
        return np.asarray(touch.pad.points + touch.displacements)

    with_surface = {name: touch.pad for name, touch in moving.touches.items() if len(touch.pad.triangles)}
    return [
        SoftSurface(f"pad of {name}", name, pad.triangles, partial(vertices, name))
        for name, pad in with_surface.items()
    ]


def _skin(skin: Any) -> SoftSurface:
    """The surface of a `supple.zones.Skin` on the bodies of a mechanism that moves."""
    copy = skin.moving()

    def vertices(moving: Moving) -> Array:
        copy.move(moving.poses)
        return np.asarray(copy.vertices())

    return SoftSurface("skin", "world", skin.triangles, vertices)
