"""Recordings: the motion of a simulation or a world, frame by frame, read from a file."""

from __future__ import annotations

import json
import os
import warnings
import zipfile
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from os.path import samestat
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.errors import MechanismError, RecordingWarning
from supple.files import MALFORMED, UNREADABLE, unpacked_header, writing
from supple.mechanism import Mechanism, Poses
from supple.mechanism.body import WORLD
from supple.mechanism.io.packed import unpacked_mechanism
from supple.mechanism.moving import Contact, Energy
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array
from supple.recording.archive import Archive, ArchiveWriter, Entry, array_in

if TYPE_CHECKING:
    from supple.recording.log import Log

FORMAT, VERSION = "supple-recording", 2
MAKER = "sim.record('run.npz') or supple run ... --time 2 -o run.npz"
CONTACT = np.dtype(
    [
        ("frame", "<i8"), ("first", "<i4"), ("second", "<i4"), ("point", "<f8", 3), ("normal", "<f8", 3),
        ("force", "<f8", 3), ("torque", "<f8", 3), ("gap", "<f8"),
    ]
)  # fmt: skip
"""A contact in a file: number of its frame, numbers of the names of its two sides, then as `Contact`."""


def frame_type(fields: Mapping[str, tuple[int, ...]]) -> np.dtype[Any]:
    """The type of a frame in a file: double-precision arrays of these shapes."""
    return np.dtype([(name, "<f8", tuple(shape)) for name, shape in fields.items()])


@dataclass(frozen=True)
class RecordedSurface:
    """A surface that deforms, such as the skin of a soft pad."""

    name: str
    body: int
    """Index of the body in whose frame its vertices are given; -1 for the world."""
    triangles: NDArray[np.int64]
    """(f, 3) indices of vertices."""


class Recording:
    """The motion of a mechanism or a world: `Recording.load("run.npz")`. Arrays are read from the file when they are
    asked for.

    `file` is open for reading, and is closed with the recording; `where` is its name for error texts. A file that was
    cut off is read up to its last complete part, with a `RecordingWarning` unless `complete=False`.
    """

    def __init__(self, file: BinaryIO, where: str, *, complete: bool = True) -> None:
        finalize(self, file.close)
        self._archive, self._lock = Archive(file, where), Lock()
        entries = {entry.name: entry for entry in self._archive.entries}
        header = self._header(entries)
        try:
            first = {e.name: self._archive.read(e) for e in self._archive.entries if "/" not in e.name}
            self.mechanism: Mechanism = unpacked_mechanism(first, where)
            """All bodies, joints and ground."""
            self.method = str(header["method"])
            """How it was simulated: engine, linear, world ..."""
            self.rate = float(header["rate"])
            """Frames per second that were asked for."""
            self._fields = {str(n): tuple(int(k) for k in shape) for n, shape in header["fields"].items()}
            self._type = frame_type(self._fields)
            self.surfaces = tuple(
                RecordedSurface(
                    str(each["name"]),
                    -1 if each["body"] == WORLD else self.mechanism.body_index(each["body"]),
                    self._archive.read(entries[f"triangles/{i}"]),
                )
                for i, each in enumerate(header["surfaces"])
            )
            """The surfaces that deform, besides the flexible bodies of the mechanism."""
            self._check_fields()
        except MALFORMED as error:
            if not self._archive.complete and not any(name.startswith("frames/") for name in entries):
                raise MechanismError(
                    f"{where} was cut off before its mechanism was complete, so nothing of it can be shown; make it "
                    f"again with {MAKER}"
                ) from None
            raise self._damaged(error) from None
        self._entries = entries
        self._chunks = [name[7:] for name in entries if name.startswith("frames/") and f"times/{name[7:]}" in entries]
        times = [self._chunk_times(key) for key in self._chunks]
        self.times: Array = np.concatenate([np.zeros(0), *times])
        """(n,) s, increasing."""
        self._starts = [0, *np.cumsum([len(each) for each in times]).tolist()]
        self._cached: tuple[str, NDArray[Any]] | None = None
        if not len(self.times):
            raise MechanismError(f"{where} has no frames: its program was killed within its first second")
        if not np.isfinite(self.times).all() or (np.diff(self.times) <= 0).any():
            raise self._damaged("its times do not increase")
        if complete and not self._archive.complete:
            warnings.warn(
                f"{where} lacks its end, because its program was killed or is still running; it is read up to "
                f"{self.times[-1]:.6g} s",
                RecordingWarning,
                stacklevel=3,
            )

    @staticmethod
    def load(path: str | PathLike[str], *, complete: bool = True) -> Recording:
        """Opens a file that `sim.record` or `save` wrote; raises `MechanismError` for any other. A file that was cut
        off is read up to its last complete part, with a `RecordingWarning` unless `complete=False`."""
        where = fspath(path)
        try:
            file = open(path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            raise MechanismError(f"there is no file {where}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise MechanismError(f"{where}: cannot read the file: {reason}; check its name and folder") from None
        return Recording(file, where, complete=complete)

    def _header(self, entries: Mapping[str, Entry]) -> dict[str, Any]:
        where = self._archive.where
        found: dict[str, Any] = {}
        if "header" in entries:
            with suppress(MechanismError):  # damaged
                found = unpacked_header(self._archive.read(entries["header"]))
        else:
            found = _other_header(self._archive.file)
        kind, version = str(found.get("format", "")), found.get("version", 0)
        if kind != FORMAT:
            if not kind.startswith("supple-"):
                raise MechanismError(f"{where} is not a recording, or is damaged; make one with {MAKER}")
            other = kind.removeprefix("supple-").replace("-", " ")
            raise MechanismError(f"{where} is not a recording but a {other}; make one with {MAKER}")
        if version != VERSION:
            age = "a newer" if isinstance(version, int) and version > VERSION else "an earlier"
            raise MechanismError(
                f"{where} was written by {age} supple (version {version}; this one reads {VERSION}); "
                f"{'update supple' if age == 'a newer' else 'record it again'}"
            )
        return found

    def _check_fields(self) -> None:
        """Raises ValueError if the arrays of a frame do not fit the mechanism."""
        mech, n = self.mechanism, len(self.mechanism.bodies)
        known = {"positions": (n, 3), "quats_wxyz": (n, 4), "velocities": (n, 6), "energy": (3,)}
        known |= {"q": (mech.dof,), "qd": (mech.dof,)}
        known["amplitudes"] = (sum(flexible.basis.size for flexible in mech.flexible),)
        for name, shape in self._fields.items():
            if not name.startswith("surface ") and known.get(name) != shape:
                raise ValueError(f"its {name} do not fit the mechanism")
        for i, surface in enumerate(self.surfaces):
            shape, faces = self._fields[f"surface {i}"], surface.triangles
            if len(shape) != 2 or shape[1] != 3 or faces.ndim != 2 or faces.shape[1] != 3:
                raise ValueError(f"the surface '{surface.name}' is not made of triangles")
            if faces.size and not (faces.min() >= 0 and faces.max() < shape[0]):
                raise ValueError(f"the surface '{surface.name}' names vertices that it does not have")

    def _damaged(self, reason: object) -> MechanismError:
        return MechanismError(f"{self._archive.where} is damaged ({reason}); make it again with {MAKER}")

    # times

    def _chunk_times(self, key: str) -> Array:
        values = self._archive.read(self._entries[f"times/{key}"])
        if values.ndim != 1 or values.dtype != np.float64:
            raise self._damaged("its times are no numbers")
        return values

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.times)

    @property
    def duration(self) -> float:
        """s."""
        return float(self.times[-1] - self.times[0])

    @property
    def complete(self) -> bool:
        """Whether the file was closed by its writer; otherwise its end may be missing."""
        return self._archive.complete

    def index(self, time: float) -> int:
        """Number of the frame nearest to a time, s."""
        time = float(array(time, (), "time of a frame"))
        after = int(np.clip(np.searchsorted(self.times, time), 1, max(len(self.times) - 1, 1)))
        near = min(after, len(self.times) - 1)
        return after - 1 if abs(self.times[after - 1] - time) <= abs(self.times[near] - time) else near

    # arrays of all frames

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def __getitem__(self, name: str) -> Array:
        """(n, ...) an array of all frames: `recording["q"]`. `"q" in recording` says whether it was recorded."""
        if name not in self._fields:
            raise MechanismError(f"{self._archive.where} has no {name!r}; it has {', '.join(self._fields)}")
        return np.concatenate([self._frames(k)[name] for k in range(len(self._chunks))])

    @cached_property
    def positions(self) -> Array:
        """(n, bodies, 3) of the bodies' origins in the world, m."""
        return self["positions"]

    @cached_property
    def quats_wxyz(self) -> Array:
        """(n, bodies, 4) unit quaternions, w first; signs are chosen so that successive frames are close."""
        return self["quats_wxyz"]

    def poses_of(self, name: str) -> Array:
        """(n, 4, 4) world poses of a body or site in all frames."""
        body, pose_body_frame = self.mechanism.frame(name)
        if body < 0:
            return np.tile(pose_body_frame, (len(self), 1, 1))
        turns = spatial.matrix_from_quat_wxyz(self.quats_wxyz[:, body])
        poses: Array = spatial.pose(turns, self.positions[:, body]) @ pose_body_frame
        return poses

    @property
    def velocities(self) -> Array:
        """(n, bodies, 6) twists, m/s and rad/s, each in its body's own frame."""
        return self["velocities"]

    @property
    def q(self) -> Array:
        """(n, dof) coordinates in the order of `mechanism.coordinates`, rad and m."""
        return self["q"]

    @property
    def qd(self) -> Array:
        """(n, dof) time derivative of `q`, rad/s and m/s."""
        return self["qd"]

    @property
    def energy(self) -> Array:
        """(n, 3) kinetic energy, energy of the springs and of gravity, J."""
        return self["energy"]

    @cached_property
    def amplitudes(self) -> Array:
        """(n, modes) modal amplitudes of the flexible bodies one after the other, in the order of
        `mechanism.flexible`, m."""
        return self["amplitudes"]

    def amplitudes_of(self, flexible: str) -> Array:
        """(n, r) modal amplitudes of the flexible body of that name, m."""
        return self.amplitudes[:, self._modes(flexible)]

    def _modes(self, flexible: str) -> slice:
        start = 0
        for body in self.mechanism.flexible:
            if body.name == flexible:
                return slice(start, start + body.basis.size)
            start += body.basis.size
        raise MechanismError(f"'{self.mechanism.name}' has no flexible body named {flexible!r}")

    # single frames

    def at(self, time: float) -> Poses:
        """Poses of the frame nearest to a time, s."""
        frame = self._frame(self.index(time))
        poses: Array = spatial.pose(spatial.matrix_from_quat_wxyz(frame["quats_wxyz"]), frame["positions"])
        names = [flexible.name for flexible in self.mechanism.flexible]
        return Poses(self.mechanism, poses, {name: frame["amplitudes"][self._modes(name)] for name in names})

    def vertices(self, surface: str, time: float) -> Array:
        """(v, 3) world positions of a surface's vertices in the frame nearest to a time, s; m."""
        i = find([each.name for each in self.surfaces], surface, f"soft surface in {self._archive.where}")
        frame = self._frame(self.index(time))
        local: Array = frame[f"surface {i}"]
        body = self.surfaces[i].body
        if body < 0:
            return np.array(local)
        turn = spatial.matrix_from_quat_wxyz(frame["quats_wxyz"][body])
        world: Array = local @ turn.T + frame["positions"][body]
        return world

    def contacts(self, time: float) -> tuple[Contact, ...]:
        """The contacts of the frame nearest to a time, s."""
        index = self.index(time)
        key = self._chunks[self._chunk(index)]
        entry = self._entries.get(f"contacts/{key}")
        if entry is None:
            return ()
        with self._lock:
            rows = self._archive.read(entry)
        if rows.dtype != CONTACT:
            raise self._damaged(f"its contacts of part {key} have the wrong type")
        try:
            return tuple(
                Contact(
                    self._names[row["first"]],
                    self._names[row["second"]],
                    row["point"].copy(),
                    row["normal"].copy(),
                    row["force"].copy(),
                    row["torque"].copy(),
                    float(row["gap"]),
                )
                for row in rows[rows["frame"] == index]
            )
        except IndexError as error:
            raise self._damaged(error) from None

    @cached_property
    def _names(self) -> list[str]:
        """Names of the sides of contacts."""
        names: list[str] = []
        for key in self._chunks:
            if (entry := self._entries.get(f"names/{key}")) is not None:
                with self._lock:
                    content = self._archive.read(entry)
                try:
                    names += [str(name) for name in json.loads(content.tobytes().decode())]
                except MALFORMED as error:
                    raise self._damaged(error) from None
        return names

    def _chunk(self, index: int) -> int:
        return bisect_right(self._starts, index) - 1

    def _frame(self, index: int) -> Any:
        k = self._chunk(index)
        return self._frames(k)[index - self._starts[k]]

    def _frames(self, k: int) -> NDArray[Any]:
        """The frames of one part of the file; the last part that was read is kept."""
        key = self._chunks[k]
        with self._lock:
            if self._cached is not None and self._cached[0] == key:
                return self._cached[1]
            frames = self._archive.read(self._entries[f"frames/{key}"])
            if frames.dtype != self._type or frames.shape != (self._starts[k + 1] - self._starts[k],):
                raise self._damaged(f"part {key} has the wrong type or size")
            if not np.isfinite(frames.view("<f8")).all():
                raise self._damaged(f"part {key} has numbers that are not finite")
            if np.abs(np.linalg.norm(frames["quats_wxyz"], axis=2) - 1).max(initial=0.0) > 1e-6:
                raise self._damaged(f"quaternions of part {key} do not have unit length")
            self._cached = key, frames
            return frames

    # logs and files

    def log(self, names: Iterable[str]) -> Log:
        """Quantities of all frames, as `sim.log` takes them: `recording.log(["q", "tip"]).to_csv("run.csv")`. Motor
        torques and set-points are not in a recording."""
        from supple.recording.log import Log, read_quantities

        log = Log(read_quantities(RecordedState(self, 0), names))
        for index in range(len(self)):
            log.add(RecordedState(self, index))
        return log

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a copy, complete also if this recording was cut off. It needs another name than this file's."""
        if self._is_own_file(path):
            raise MechanismError(f"{fspath(path)} is the file of this recording; choose another name for the copy")
        kept = {f"{kind}/{key}" for key in self._chunks for kind in ("names", "contacts", "times", "frames")}
        with writing(path, binary=True) as file:
            writer = ArchiveWriter(file, fspath(path))
            for entry in self._archive.entries:
                if "/" not in entry.name or entry.name in kept or entry.name.startswith("triangles/"):
                    with self._lock:
                        values = self._archive.read(entry)
                    writer.append({entry.name: values})
            writer.close()

    def _is_own_file(self, path: str | PathLike[str]) -> bool:
        """Whether a path leads to the file that this recording is read from."""
        try:
            return samestat(os.stat(path), os.fstat(self._archive.file.fileno()))
        except (OSError, ValueError):
            return False  # there is no such file, or the recording is in memory

    def __repr__(self) -> str:
        return (
            f"Recording of '{self.mechanism.name}' by the {self.method}: {len(self)} frames, {self.times[0]:g} to "
            f"{self.times[-1]:g} s"
        )


class RecordedState:
    """One frame with the properties of `Moving` that describe a state."""

    def __init__(self, recording: Recording, index: int) -> None:
        self.mechanism, self.time = recording.mechanism, float(recording.times[index])
        self._recording, self._frame = recording, recording._frame(index)

    @property
    def poses(self) -> Poses:
        return self._recording.at(self.time)

    @property
    def q(self) -> Array:
        return self._field("q")

    @property
    def qd(self) -> Array:
        return self._field("qd")

    @property
    def energy(self) -> Energy:
        return Energy(*self._field("energy").tolist())

    @property
    def has_contacts(self) -> bool:
        return any(name.startswith("contacts/") for name in self._recording._entries)

    @property
    def contacts(self) -> tuple[Contact, ...]:
        return self._recording.contacts(self.time)

    def _field(self, name: str) -> Array:
        if name not in self._recording:
            raise MechanismError(f"{self._recording!r} has no {name!r}")
        values: Array = self._frame[name]
        return values


def _other_header(file: BinaryIO) -> dict[str, Any]:
    """The header of another file of supple, to say what it is; empty if there is none."""
    try:
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            entry = archive.getinfo("header.npy")
            if entry.file_size > 2**20:
                return {}
            return unpacked_header(array_in(archive.read(entry)))
    except UNREADABLE:
        return {}
