"""The page of a session: the drawing, the controls, the plots."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.errors import ConvergenceError, MechanismError
from supple.mechanism.record import Array
from supple.recording import Recording
from supple.viewer.ellipsoids import likely_force
from supple.viewer.gltf import glb
from supple.viewer.history import INTERVAL, LENGTH
from supple.viewer.measures import Frame
from supple.viewer.methods import METHODS
from supple.viewer.picture import draw
from supple.viewer.plots import Plots
from supple.viewer.session import Session
from supple.viewer.sliders import Sliders
from supple.viewer.stage import Handle, Stage, moving_colours, separation_colours

if TYPE_CHECKING:
    import viser

SPEEDS = ("0.1", "0.25", "0.5", "1", "2", "5")
TEXT_RATE = 5
"""Updates of numbers and plots per second."""
STEPS = 5
"""Steps that the button Step makes: 10 ms."""
NOTHING = "nothing"
"""What the camera follows at first."""
MAX_MESSAGES = 4
"""Messages on the page."""


class LivePage:
    """A session on a page. All browsers that open the page see and control the same session."""

    def __init__(self, server: viser.ViserServer, session: Session) -> None:
        self.server, self.session = server, session
        frame = session.frame
        self._stage = Stage(server, frame.mechanism, frame.poses)
        self._frame_rate = 0.0
        """Frames per second, averaged over about a second."""
        self._handles: dict[str, Handle] = {}
        self._last_recording: Recording | None = None
        self._pending: set[str] = set()
        """Attributes of the session that are being set to a user's choice."""
        self._time_buttons: dict[str, Callable[[], object]] = {
            "Pause": lambda: setattr(session, "paused", not session.paused),
            "Step": lambda: session.step(STEPS),
            "Reset": session.reset,
        }
        self._add_controls()
        self._add_handles()
        self._stop, self._thread = Event(), Thread(target=self._run, name="supple page", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    # controls

    def _add_controls(self) -> None:
        gui, session = self.server.gui, self.session
        gui.set_panel_label(f"supple: {session.mechanism.name}")
        self._status = gui.add_markdown("")
        names = tuple(session.methods)
        self._method = gui.add_dropdown(
            "Method", names, initial_value=session.method, hint=_hint(session), visible=len(names) > 1
        )
        self._bind(self._method, "method")
        with gui.add_folder("Time"):
            buttons = gui.add_button_group("", tuple(self._time_buttons))
            buttons.on_click(lambda event: self._attempt(self._time_buttons[buttons.value]))
            self._back: Any = gui.add_slider(
                "Go back, s", 0.0, LENGTH, INTERVAL, 0.0, hint="pauses and shows the past; Pause goes on from there"
            )
            self._back.on_update(self._on_back)
            self._speed = gui.add_dropdown("Speed", SPEEDS, initial_value="1", hint="times real time")
            self._bind(self._speed, "speed", float)
        self._sliders = Sliders(gui, session, self._attempt)
        with gui.add_folder("Better models", visible=session.changeable and "blended" in session.methods):
            gui.add_button("Linearise here", hint="add a linear model made where the end effectors are now").on_click(
                lambda event: self._attempt(session.linearise_here)
            )
            self._explore = gui.add_button("Explore", hint="find models over the range of motion automatically")
            self._explore.on_click(lambda event: self._attempt(self._toggle_exploring))
            self._progress = gui.add_progress_bar(0.0, visible=False)
        with gui.add_folder("Messages"):
            self._messages = gui.add_markdown("")
        self._plots = Plots(gui, separation=session.changeable or session.joints_separate)
        with gui.add_folder("Show"):
            self._ghost = gui.add_checkbox(
                "Engine's shape", False, hint="the exact shape, translucent", visible=session.changeable
            )
            self._bind(self._ghost, "ghost")
            self._colour = gui.add_checkbox(
                "Separation of joints",
                session.changeable or session.joints_separate,
                hint="grey: closed; red: 1 % of the radius",
            )
            self._contacts = gui.add_checkbox(
                "Contact forces", True, hint="arrows to one scale", visible=session.has_contacts
            )
            self._ellipsoids = gui.add_checkbox(
                "Compliance ellipsoids", False, hint="of the end effectors, at their present poses",
                visible=session.has_ellipsoids,
            )  # fmt: skip
            self._bind(self._ellipsoids, "ellipsoids")
            self._force: Any = gui.add_number(
                "Their force, N", 1.0, min=0.0, visible=False,
                hint="forces of this size, in all directions, would move the end effector to the surface",
            )  # fmt: skip
            self._followed = gui.add_dropdown(
                "Camera follows", (NOTHING, *followed_bodies(session)), hint="the view moves with this body"
            )
            self._hold = gui.add_checkbox("Hold after dragging", True, hint="the spring stays when the mouse lets go")
            gui.add_button("Let go").on_click(lambda event: session.let_go())
        with gui.add_folder("End effectors", expand_by_default=False, visible=session.changeable):
            self._chosen = gui.add_markdown("")
            mech = session.mechanism
            names = tuple(b.name for b in mech.bodies) + tuple(s.name for s in mech.sites if mech.frame(s.name)[0] >= 0)
            first = next((name for name in session.end_effectors if name in names), names[0])
            self._name = gui.add_dropdown("Body or site", names, initial_value=first)
            gui.add_button("Add or remove").on_click(lambda event: self._attempt(self._toggle_end_effector))
        with gui.add_folder("Keep", expand_by_default=False):
            self._record = gui.add_button("Record")
            self._record.on_click(lambda event: self._attempt(self._toggle_recording))
            gui.add_button("Save recording").on_click(lambda event: self._send(event.client, self._npz))
            gui.add_button("Save motion (glTF)").on_click(lambda event: self._send(event.client, self._glb))
            gui.add_button("Save picture").on_click(lambda event: self._send(event.client, self._png))

    def _attempt(self, action: Callable[[], object]) -> None:
        """Performs a user's action; if that fails, the error becomes a message on the page."""
        try:
            action()
        except (MechanismError, ConvergenceError) as error:
            self.session.notify(str(error), warning=True)

    def _bind(self, handle: Any, name: str, read: Callable[[Any], object] = lambda value: value) -> None:
        """Sets an attribute of the session when a user changes a control. Meanwhile the page does not overwrite it."""

        async def chosen(event: Any) -> None:  # async: called before the page is updated again
            if event.client is not None:  # None if the page itself changed it
                self._pending.add(name)
                Thread(target=self._set, args=(name, read(handle.value)), daemon=True).start()

        handle.on_update(chosen)

    def _set(self, name: str, value: object) -> None:
        self._attempt(lambda: setattr(self.session, name, value))
        self._pending.discard(name)

    def _on_back(self, event: Any) -> None:
        if event.client is not None:  # None if the page itself moved it
            self._attempt(lambda: self.session.rewind(float(self._back.value)))

    def _toggle_exploring(self) -> None:
        if self.session.progress is None:
            self.session.explore()
        else:
            self.session.cancel()

    def _toggle_end_effector(self) -> None:
        names, name = self.session.end_effectors, self._name.value
        self.session.end_effectors = tuple(n for n in names if n != name) if name in names else (*names, name)

    def _toggle_recording(self) -> None:
        if self.session.recording:
            recording = self._last_recording = self.session.recorded()
            self.session.notify(f"recorded {recording.duration:.1f} s in {len(recording.times)} frames")
        else:
            self.session.record()

    def _drag(self, name: str, point: Array | None) -> None:
        if point is None and self._hold.value:
            return
        self._attempt(lambda: self.session.pull(name, point))

    # files

    def _send(self, client: Any, make: Callable[[], tuple[str, bytes]]) -> None:
        def send() -> None:
            name, content = make()
            client.send_file_download(name, content, save_immediately=True)

        self._attempt(send)

    def _require_recording(self) -> Recording:
        if self._last_recording is None:
            raise MechanismError("nothing was recorded yet; press Record, then press it again to end")
        return self._last_recording

    def _npz(self) -> tuple[str, bytes]:
        return self._file_content(".npz", lambda path: self._require_recording().save(path))

    def _glb(self) -> tuple[str, bytes]:
        return f"{_file_name(self.session)}.glb", glb(self._require_recording())

    def _png(self) -> tuple[str, bytes]:
        frame = self.session.frame
        title = f"{self.session.mechanism.name}, {frame.method}"
        return self._file_content(
            ".png", lambda path: draw(self.session.mechanism, frame.poses, path=path, ghost=frame.ghost, title=title)
        )

    def _file_content(self, suffix: str, write: Callable[[Path], None]) -> tuple[str, bytes]:
        with TemporaryDirectory() as folder:
            path = Path(folder, f"file{suffix}")
            write(path)
            return f"{_file_name(self.session)}{suffix}", path.read_bytes()

    # drawing and text

    def _run(self) -> None:
        last: Frame | None = None
        last_text = 0.0
        last_drawn = self.session.clock()
        while not self._stop.is_set():
            self.session.new_frame.wait(1 / TEXT_RATE)
            self.session.new_frame.clear()
            frame, now = self.session.frame, self.session.clock()
            with self.server.atomic():
                if frame is not last:
                    self._draw_frame(frame)
                    elapsed, last_drawn = now - last_drawn, now
                    if elapsed > 0:
                        self._frame_rate += min(elapsed, 1.0) * (1 / elapsed - self._frame_rate)
                if now > last_text + 1 / TEXT_RATE:
                    self._write_text(frame)
                    last_text = now
            last = frame

    def _draw_frame(self, frame: Frame) -> None:
        mech = frame.mechanism
        radius = mech.radius or 1.0
        if mech is not self._stage.mechanism:  # another level of detail of a scene
            self.server.scene.reset()
            self._stage, self._handles = Stage(self.server, mech, frame.poses), {}
        joints = bodies = None
        if frame.moving_joints is not None:  # a body has the colour of the joint that connects it to its parent
            joints = moving_colours(frame.moving_joints)
            bodies = joints[mech.topology.joint]
        elif self._colour.value:
            joints = separation_colours(frame.joint_separations / radius)
        self._stage.follow(self._followed_motion(frame))
        self._stage.show(frame.poses, frame.ghost, joints, bodies)
        shown = self._contacts.value
        self._stage.show_forces(frame.contacts if shown else (), frame.touches, frame.time)
        if frame.ellipsoids and not self._force.visible:
            self._force.value, self._force.visible = likely_force(frame.ellipsoids, radius), True
        elif not frame.ellipsoids and self._force.visible:
            self._force.visible = False
        self._stage.show_ellipsoids(frame.ellipsoids, float(self._force.value))
        if self._handles.keys() != frame.pulls.keys():
            self._add_handles()
        for name, pull in frame.pulls.items():
            self._handles[name].show(pull)

    def _followed_motion(self, frame: Frame) -> Array:
        """(3,) m, how far the followed body is from where it was at the start."""
        name = self._followed.value
        known = name != NOTHING and name in {body.name for body in frame.mechanism.bodies}
        moved: Array = frame.poses[name][:3, 3] - frame.mechanism.poses[name][:3, 3] if known else np.zeros(3)
        return moved

    def _add_handles(self) -> None:
        for handle in self._handles.values():
            handle.remove()
        pulls = self.session.frame.pulls
        self._handles = {name: Handle(self._stage, name, pull, self._drag) for name, pull in pulls.items()}

    def _write_text(self, frame: Frame) -> None:
        session = self.session
        attainable = f" (could be {_two_digits(frame.attainable_factor)}×)" if frame.attainable_factor else ""
        state = "paused" if session.paused else f"{frame.real_time_factor:.2f}× real time{attainable}"
        self._status.content = (
            f"**{frame.time:.2f} s**, {state}  \n"
            f"{self._frame_rate:.0f} frames/s, "
            f"separation {frame.separation:.4f}, displacement {frame.displacement:.3f}  \n"
            f"force of handles {frame.force:.3g} N{_contact_text(frame)}{self._reason_of_pause()}"
        )
        if not session.paused:
            _assign(self._back, "value", 0.0)
            _assign(self._back, "max", max(INTERVAL, round(session.rewindable, 1)))
        self._sliders.show()
        for name, handle in (("method", self._method), ("ghost", self._ghost), ("ellipsoids", self._ellipsoids)):
            if name not in self._pending:
                _assign(handle, "value", getattr(session, name))
        _assign(self._record, "label", "End recording" if session.recording else "Record")
        exploring = session.progress is not None
        _assign(self._explore, "label", "Cancel exploring" if exploring else "Explore")
        _assign(self._progress, "visible", exploring)
        if session.progress is not None:
            _assign(self._progress, "value", 100 * session.progress)
        _assign(self._chosen, "content", "Pulled at: " + ", ".join(f"**{_escaped(n)}**" for n in session.end_effectors))
        lines = [f"{'⚠ ' if m.warning else ''}{_escaped(m.text)}" for m in list(session.messages)[-MAX_MESSAGES:]]
        _assign(self._messages, "content", "  \n".join(reversed(lines)) or "none")
        self._plots.show(session.series)


    def _reason_of_pause(self) -> str:
        """The last message if it is a warning and nothing moves."""
        last = self.session.messages[-1] if self.session.messages else None
        return f"  \n⚠ {_escaped(last.text)}" if self.session.paused and last is not None and last.warning else ""


def _contact_text(frame: Frame) -> str:
    sizes = [float(np.linalg.norm(contact.force)) for contact in frame.contacts]
    pressing = sum(size > 0 for size in sizes)
    return f"  \n{pressing} contacts, largest force {max(sizes):.3g} N" if pressing else ""


def followed_bodies(session: Session) -> tuple[str, ...]:
    """Bodies that the camera can follow: those on free joints, then end effectors."""
    mech = session.mechanism
    free = [joint.child for joint in mech.joints if joint.kind == "free"]
    bodies = [mech.bodies[mech.frame(name)[0]].name for name in session.end_effectors]
    return tuple(dict.fromkeys([*free, *bodies]))


def _assign(handle: Any, name: str, value: object) -> None:
    """Sets an attribute of a control if it differs, so that only changes are sent."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)


def _hint(session: Session) -> str:
    lines = [f"{name}: {text}" for name, text in session.methods.items()]
    if session.mechanism.flexible and session.changeable:
        others = [name for name in METHODS if name not in session.methods]
        lines.append(f"not offered: {', '.join(others)}, which cannot simulate flexible bodies")
    return "; ".join(lines)


def _escaped(text: str) -> str:
    """Text with the special characters of markdown escaped."""
    escaped = html.escape(text, quote=False)
    return "".join(f"\\{c}" if c in "\\`*_{}[]#|~" else c for c in escaped)


def _two_digits(number: float) -> str:
    digits = 1 - int(np.floor(np.log10(number)))
    return f"{round(number, digits):,.0f}" if number >= 10 else f"{number:.1f}"


def _file_name(session: Session) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in session.mechanism.name) or "supple"
