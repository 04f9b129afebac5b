"""Recordings: poses at many times, to be saved, replayed and exported."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.record import Array
from supple.reduced.files import opened, write

FORMAT, VERSION = "supple-recording", 1
RATE = 30
"""Frames per second."""
MAX_FRAMES = 20 * 60 * RATE
"""Largest number of frames: twenty minutes."""

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Recording:
    """The motion of a mechanism, frame by frame. Poses are stored in single precision."""

    mechanism: Mechanism
    times: Array
    """(n,) s, increasing."""
    positions: Singles
    """(n, bodies, 3) of the bodies' origins in the world, m."""
    quats_wxyz: Singles
    """(n, bodies, 4) unit quaternions, w first; signs are chosen so that successive frames are close."""
    method: str
    """Name of the method that moved it: engine, linear ..."""
    end_effectors: tuple[str, ...] = ()
    amplitudes: Any = None
    """(n, modes) in single precision: modal amplitudes of the flexible bodies one after the other, in the order of
    `mechanism.flexible`, m. Zero if not given."""

    def __post_init__(self) -> None:
        n, bodies = len(self.times), len(self.mechanism.bodies)
        modes = sum(flexible.basis.size for flexible in self.mechanism.flexible)
        if self.amplitudes is None:
            object.__setattr__(self, "amplitudes", np.zeros((n, modes), dtype=np.float32))
        shapes = {
            "times": (n,), "positions": (n, bodies, 3), "quats_wxyz": (n, bodies, 4), "amplitudes": (n, modes)
        }  # fmt: skip
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values.shape != shape or values.dtype.kind != "f" or not np.isfinite(values).all():
                raise MechanismError(f"{name} of a recording of '{self.mechanism.name}' must be {shape} finite numbers")
        if n == 0 or n > MAX_FRAMES:
            raise MechanismError(f"a recording has 1 to {MAX_FRAMES} frames, not {n}")
        if (np.diff(self.times) <= 0).any():
            raise MechanismError("the times of a recording must increase")
        if np.abs(np.linalg.norm(self.quats_wxyz, axis=2) - 1).max() > 1e-4:
            raise MechanismError("the quaternions of a recording must have unit length")

    @property
    def duration(self) -> float:
        """s."""
        return float(self.times[-1] - self.times[0])

    def amplitudes_of(self, flexible: str) -> Singles:
        """(n, r) modal amplitudes of the flexible body of that name, m."""
        start = 0
        for body in self.mechanism.flexible:
            if body.name == flexible:
                own: Singles = self.amplitudes[:, start : start + body.basis.size]
                return own
            start += body.basis.size
        raise MechanismError(f"'{self.mechanism.name}' has no flexible body named {flexible!r}")

    def at(self, time: float) -> Poses:
        """Poses of the frame nearest to a time, s."""
        after = int(np.clip(np.searchsorted(self.times, time), 1, max(len(self.times) - 1, 1)))
        near = min(after, len(self.times) - 1)
        if abs(self.times[after - 1] - time) <= abs(self.times[near] - time):
            near = after - 1
        poses: Array = spatial.pose(
            spatial.matrix_from_quat_wxyz(self.quats_wxyz[near].astype(float)), self.positions[near].astype(float)
        )
        names = [flexible.name for flexible in self.mechanism.flexible]
        return Poses(self.mechanism, poses, {name: self.amplitudes_of(name)[near] for name in names})

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the recording and its mechanism as `.npz` (no pickle)."""
        header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "method": self.method}
        header["end_effectors"] = list(self.end_effectors)
        arrays = {name: getattr(self, name) for name in ("times", "positions", "quats_wxyz", "amplitudes")}
        write(path, header, self.mechanism, arrays)

    @staticmethod
    def load(path: str | PathLike[str]) -> Recording:
        """Reads a file that `save` wrote; raises `MechanismError` for any other."""
        with opened(path, FORMAT, "recording", "supple run ... --time 2 -o run.npz") as (mech, header, arrays):
            names = tuple(str(name) for name in header["end_effectors"])
            for name in names:
                mech.frame(name)
            times, positions, quats = (arrays[name] for name in ("times", "positions", "quats_wxyz"))
            amplitudes = arrays.get("amplitudes")  # files of earlier versions have none
            return Recording(mech, times, positions, quats, str(header["method"]), names, amplitudes)


class Recorder:
    """Collects frames of a moving mechanism."""

    def __init__(self, mech: Mechanism, method: str, end_effectors: tuple[str, ...] = ()) -> None:
        self.mechanism, self.method, self.end_effectors = mech, method, end_effectors
        self._times: list[float] = []
        self._time = self._offset = 0.0
        self._positions: list[Singles] = []
        self._quats: list[Singles] = []
        self._amplitudes: list[Singles] = []

    def __len__(self) -> int:
        return len(self._times)

    @property
    def full(self) -> bool:
        """Whether no more frames fit."""
        return len(self) >= MAX_FRAMES

    def take(self, time: float, poses: Poses | ArrayLike, last: bool = False) -> None:
        """Adds a frame of poses (bodies, 4, 4) at a time, s. It is skipped if the recording is full, or if less than
        1 / `RATE` has passed since the last frame and it is not marked as the `last`. If time jumps back (after a
        reset), the recording continues without a jump. An array of poses has no amplitudes: flexible bodies are
        undeformed."""
        if self._times and time < self._time:
            self._offset = self._times[-1] + 1 / RATE - time
        self._time = time
        time += self._offset
        interval = 1e-9 if last else (1 - 1e-6) / RATE
        if self.full or (self._times and time < self._times[-1] + interval):
            return
        if not isinstance(poses, Poses):
            poses = Poses(self.mechanism, np.asarray(poses))
        quats = spatial.quat_wxyz_from_matrix(poses.array[:, :3, :3])
        if self._quats:
            quats = quats * np.where((quats * self._quats[-1]).sum(axis=1) < 0, -1.0, 1.0)[:, None]
        self._times.append(time)
        self._positions.append(poses.array[:, :3, 3].astype(np.float32))
        self._amplitudes.append(np.concatenate([np.zeros(0), *poses.amplitudes.values()]).astype(np.float32))
        self._quats.append(quats.astype(np.float32))

    @property
    def recording(self) -> Recording:
        """The recording of all frames so far."""
        if not self._times:
            raise MechanismError("nothing was recorded yet")
        arrays = np.array(self._times), np.array(self._positions), np.array(self._quats)
        return Recording(self.mechanism, *arrays, self.method, self.end_effectors, np.array(self._amplitudes))
