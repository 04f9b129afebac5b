"""A finger that bends while a device pokes it: a load for the probe's thread."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, sleep

import numpy as np

from supple.zones.probe import Probe, ProbeStatistics
from supple.zones.soft import finger

POINTS = 100
"""Touch vertices near the probe that its contact problem may use."""
RADIUS = 4e-3
"""Of the ball, m."""
BEND = 0.25
"""Amplitude of the bending of the two outer joints, rad, at 0.5 Hz."""
POKE = 1.5e-3
"""Depth of the device in the unpressed skin, m, three times a second."""
PAUSE = 2e-3
"""Between two poses of the finger, s."""


class ProbeRun:
    """The finger of `zones.finger` with a seam basis, and a ball that pokes its middle pad."""

    def __init__(self) -> None:
        self._moving = finger().skin.with_seam_basis(24).moving()
        skin = self._moving.skin
        middle = skin.touch_of_zone["middle"]
        x = self._moving.vertices()
        low = x[middle].mean(axis=0)
        low[2] = x[middle][:, 2].min()
        self._near = skin.touch[np.argsort(np.linalg.norm(x[skin.touch] - low, axis=1))[:POINTS]]
        self.poses = 0
        """Poses of the finger so far."""
        self._pad = self._moving.pad(self._near, friction=0.5)
        self.probe = Probe(self._pad, RADIUS, self._device(0.0))

    def _device(self, time: float) -> np.ndarray:
        """(3,) position of the device at a time, s: it pokes at a point of the skin and slides along it."""
        middle = int(np.linalg.norm(self._pad.points - self._pad.points.mean(axis=0), axis=1).argmin())
        normal = self._pad.normals[middle]
        depth = POKE * np.sin(2 * np.pi * 3 * time) ** 2 - (0.2e-3 if time else 2e-3)
        slide = 2e-3 * np.sin(2 * np.pi * 0.7 * time) * np.array([0, 1, 0])
        return np.asarray(self._pad.points[middle] + (RADIUS - depth) * normal + slide)

    def measure(self, seconds: float, progress: Callable[[float], None] | None = None) -> ProbeStatistics:
        """Runs the thread for a time, s, while the finger bends; returns its statistics."""
        begin = perf_counter()
        with self.probe:
            while (time := perf_counter() - begin) < seconds:
                bend = BEND * (1 - np.cos(2 * np.pi * 0.5 * time))
                self._moving.move((0.0, bend, bend))
                self._pad = self._moving.pad(self._near, friction=0.5)
                self.probe.pad = self._pad
                self.probe.move(self._device(time))
                self.poses += 1
                if progress is not None:
                    progress(time / seconds)
                sleep(PAUSE)
        return self.probe.statistics
