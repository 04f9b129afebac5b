"""Sliders for joints, set-points and actuators, in their own units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.mechanism import Mechanism
from supple.mechanism.record import Array
from supple.viewer.clock import Clock
from supple.viewer.session import Session

if TYPE_CHECKING:
    import viser

MAX_EXPANDED = 8
"""Sliders of one kind that are shown at first."""
MAX_SLIDERS = 16
"""More inputs of one kind are shown one at a time."""
TOUCHED = 1.0
"""s after a user's last move of a slider in which the page does not move it."""
KINDS = {
    "q": ("Joints", "places the joint, at rest; pause first to keep it there"),
    "targets": ("Set-points", "of the spring, coupling or motor"),
    "controls": ("Actuators", "control of the actuator"),
}


@dataclass(frozen=True)
class Range:
    """What a slider shows."""

    low: float
    high: float
    unit: str
    """rad, m, or empty for the units of an actuator's file."""

    @property
    def step(self) -> float:
        """A thousandth of the range, rounded down to a power of ten."""
        return float(10.0 ** np.floor(np.log10((self.high - self.low) / 1000)))


def input_ranges(mech: Mechanism, kind: str) -> dict[str, Range]:
    """The range of each input of a kind ("q", "targets" or "controls") by name. Free joints, and the modal amplitudes
    of flexible bodies, have none."""
    if kind == "controls":
        return {a.name: _control_range(a.control_range, a.control) for a in mech.actuators}
    amplitudes = {flexible.frame(name) for flexible in mech.flexible for name in flexible.part.interfaces}
    found: dict[str, Range] = {}
    for joint in mech.joints:
        if joint.kind != "free" and joint.name not in amplitudes:
            for i, axis in enumerate(joint.axes):
                turns = bool(joint.twists[i, 3:].any())
                low, high = joint.limits[i]
                half = np.pi if turns else mech.radius or 1.0
                middle = float(joint.reference[i])
                found[axis] = Range(
                    float(low) if np.isfinite(low) else min(middle, float(high)) - half,
                    float(high) if np.isfinite(high) else max(middle, float(low)) + half,
                    "rad" if turns else "m",
                )
    found = {axis: own for axis, own in found.items() if own.high > own.low}
    if kind == "targets":
        for motor in mech.motors:
            if motor.coordinate in found:
                found[motor.name] = found[motor.coordinate]
        for coupling in mech.couplings:
            own = found.get(coupling.coordinates[0])
            if own is not None:
                half = (own.high - own.low) / 2
                found[coupling.name] = Range(coupling.rest - half, coupling.rest + half, own.unit)
    return found


def _control_range(limits: Array, control: float) -> Range:
    low, high = limits.tolist()
    reach = max(1.0, 2 * abs(control))
    return Range(
        low if np.isfinite(low) else min(-reach, high - reach),
        high if np.isfinite(high) else max(reach, low + reach),
        "",
    )


class Sliders:
    """The sliders of a page. They follow the session, except while a user moves them."""

    def __init__(
        self, gui: viser.GuiApi, session: Session, attempt: Callable[[Callable[[], object]], None]
    ) -> None:
        self._session, self._attempt = session, attempt
        self._folders = {kind: _Folder(gui, kind, session, self._set) for kind in KINDS}

    def _set(self, kind: str, name: str, value: float) -> None:
        self._attempt(lambda: self._session.set_input(kind, name, value))

    def show(self) -> None:
        """Moves the sliders to the present values."""
        inputs = self._session.inputs
        for kind, folder in self._folders.items():
            folder.show(getattr(inputs, kind))


class _Folder:
    """The sliders of one kind: one for each name, or one and a list of names."""

    def __init__(
        self, gui: viser.GuiApi, kind: str, session: Session, change: Callable[[str, str, float], None]
    ) -> None:
        title, self._hint = KINDS[kind]
        self._gui, self._kind, self._change, self._clock = gui, kind, change, session.clock
        present = getattr(session.inputs, kind)
        ranges = input_ranges(session.mechanism, kind)
        known = session.mechanism.coordinates if kind == "q" else present
        self._ranges = {name: own for name, own in ranges.items() if name in known}
        self._sliders: dict[str, _Slider] = {}
        expanded = kind != "q" and (len(self._ranges) <= MAX_EXPANDED or len(self._ranges) > MAX_SLIDERS)
        self._folder = gui.add_folder(title, expand_by_default=expanded, visible=bool(present and self._ranges))
        self._chosen: Any = None
        if not self._ranges:
            return
        with self._folder:
            if len(self._ranges) <= MAX_SLIDERS:
                for name in self._ranges:
                    self._add(name)
                return
            self._chosen = gui.add_dropdown(f"{title}: which", tuple(self._ranges))
            self._add(self._chosen.value)
        self._chosen.on_update(lambda event: self._show_chosen())

    def _show_chosen(self) -> None:
        for slider in self._sliders.values():
            slider.remove()
        self._sliders = {}
        with self._folder:
            self._add(self._chosen.value)

    def _add(self, name: str) -> None:
        change = partial(self._change, self._kind, name)
        self._sliders[name] = _Slider(self._gui, name, self._ranges[name], self._hint, change, self._clock)

    def show(self, values: dict[str, float | None]) -> None:
        visible = bool(values and self._ranges)
        if self._folder.visible != visible:
            self._folder.visible = visible
        for name, slider in list(self._sliders.items()):
            value = values.get(name)
            if value is not None:
                slider.show(value)


class _Slider:
    def __init__(
        self, gui: viser.GuiApi, name: str, own: Range, hint: str, change: Callable[[float], None], clock: Clock
    ) -> None:
        self._range, self._clock, self._touched = own, clock, -np.inf
        label = f"{name}, {own.unit}" if own.unit else name
        middle = float(np.clip(0.0, own.low, own.high))
        self._slider: Any = gui.add_slider(label, own.low, own.high, own.step, middle, hint=hint)

        async def moved(event: Any) -> None:  # async: viser calls it in the order of the events
            if event.client is not None:  # None if the page itself moved it
                self._touched = clock()
                change(float(self._slider.value))

        self._slider.on_update(moved)

    def show(self, value: float) -> None:
        if self._clock() < self._touched + TOUCHED:
            return
        shown = float(np.clip(value, self._range.low, self._range.high))
        if abs(shown - self._slider.value) > 0.5 * self._range.step:
            self._slider.value = shown

    def remove(self) -> None:
        self._slider.remove()
