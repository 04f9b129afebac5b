"""The page of a recording: a timeline."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.recording import Recording
from supple.viewer.clock import WALL_CLOCK, Clock
from supple.viewer.scenery import coloured
from supple.viewer.session import FRAME_RATE
from supple.viewer.skins import COLOUR
from supple.viewer.stage import Stage

if TYPE_CHECKING:
    import viser

SPEEDS = ("0.1", "0.25", "0.5", "1", "2", "5")


class ReplayPage:
    """A recording that is played in a loop, or shown at the time of the slider."""

    def __init__(self, server: viser.ViserServer, recording: Recording, clock: Clock = WALL_CLOCK) -> None:
        self.server, self.recording, self._clock = server, recording, clock
        first = float(recording.times[0])
        self._stage = Stage(server, coloured(recording.mechanism), recording.at(first))
        self._surfaces: list[tuple[str, Any]] = [
            (
                surface.name,
                server.scene.add_mesh_simple(
                    f"/surfaces/{surface.name}",
                    recording.vertices(surface.name, first).astype(np.float32),
                    surface.triangles.astype(np.uint32),
                    color=COLOUR,
                    side="double",
                ),
            )
            for surface in recording.surfaces
        ]
        self.playing = True
        gui = server.gui
        gui.set_panel_label(f"supple: {recording.mechanism.name}, recorded")
        gui.add_markdown(f"{len(recording.times)} frames, {recording.duration:.1f} s, by the {recording.method}")
        end = max(recording.duration, 1e-3)
        self._slider: Any = gui.add_slider("Time, s", 0.0, end, end / 1000, 0.0)
        self._slider.on_update(self._on_slider)
        self._button = gui.add_button("Pause")
        self._button.on_click(lambda event: self._set_playing(not self.playing))
        self._speed = gui.add_dropdown("Speed", SPEEDS, initial_value="1")
        self._stop, self._thread = Event(), Thread(target=self._run, name="supple replay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def time(self) -> float:
        """s since the first frame, as the slider shows."""
        return float(self._slider.value)

    @time.setter
    def time(self, value: float) -> None:
        self._slider.value = value

    def _set_playing(self, playing: bool) -> None:
        self.playing = playing
        self._button.label = "Pause" if playing else "Play"

    def _on_slider(self, event: Any) -> None:
        if event.client is not None:  # None if this page moved it
            self._set_playing(False)

    def _run(self) -> None:
        shown, last = -1.0, self._clock()
        while not self._stop.wait(1 / FRAME_RATE):
            now = self._clock()
            time = self.time
            if self.playing:
                time += (now - last) * float(self._speed.value)
                time = time if time <= self.recording.duration else 0.0
                self.time = time
            last = now
            if time != shown:
                shown = time
                self._show(float(self.recording.times[0]) + time)

    def _show(self, time: float) -> None:
        """Shows the frame nearest to a time of the recording, s."""
        with self.server.atomic():
            self._stage.show(self.recording.at(time))
            for name, mesh in self._surfaces:
                mesh.vertices = self.recording.vertices(name, time).astype(np.float32)
