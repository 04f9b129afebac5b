"""`view` and `replay`: a page in the browser, until Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.moving import Moving
from supple.recording import Recording
from supple.viewer.clock import WALL_CLOCK, Clock
from supple.viewer.control import Controller
from supple.viewer.live import LivePage
from supple.viewer.notebook import NotebookView, in_notebook
from supple.viewer.scenery import SceneModels
from supple.viewer.script import Script
from supple.viewer.server import HOST, PORT, address, free_port, open_browser, serving, watch
from supple.viewer.session import Session
from supple.viewer.soft import SoftPage, SoftSession
from supple.viewer.timeline import ReplayPage
from supple.zones import SoftMechanism

if TYPE_CHECKING:
    import viser

RELOAD_PERIOD = 0.5
"""s between two looks at the file of a script."""
Page: TypeAlias = "LivePage | ReplayPage | SoftPage"


def view(
    subject: Mechanism | Moving | SceneModels,
    end_effectors: Sequence[str] | None = None,
    *,
    controller: Controller | None = None,
    method: str | None = None,
    host: str = HOST,
    port: int | None = None,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> NotebookView | None:
    """Shows a mechanism, a simulation or a world in the browser, where a user can pull it; returns on Ctrl-C.

    Args:
        subject: a `Mechanism` (simulated by one of several methods, which the page lists), or anything that moves: a
            `Simulation`, a `ReducedSimulation` or a `World`.
        end_effectors: bodies or sites to pull; by default those whose names end in tip (or else the outermost bodies),
            and the objects of a world.
        controller: a function f(sim) that is called before every time step with what moves. It may call its
            `set_targets`, `set_torque`, `set_control` or `apply`; what it returns, if not None, is given to
            `set_targets`. If it fails, the simulation pauses and the page shows the error.
        method: of `supple.viewer.methods.METHODS`, for a mechanism.
        host: the page is visible on this machine only, unless this says otherwise ("0.0.0.0": the whole network).
        port: of the page; 8080 if not given, in a notebook the next free one.
        browser: whether to open the page in the user's browser.
        say: is called with lines for the user.

    In a Jupyter notebook this returns at once, with an object that shows the page in the cell; its `close` ends it.
    """
    if in_notebook():
        resources = ExitStack()
        chosen = free_port(host) if port is None else port
        options: Any = {"controller": controller, "method": method, "host": host, "port": chosen}
        return NotebookView(resources.enter_context(viewing(subject, end_effectors, **options)), resources)
    with (
        viewing(
            subject, end_effectors, controller=controller, method=method, host=host, port=PORT if port is None else port
        ) as page,
        _ctrl_c() as ended,
    ):
        _say_where(page, say)
        _wait(page, browser, say, ended)
    return None


def view_script(
    path: str | PathLike[str],
    *,
    host: str = HOST,
    port: int = PORT,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Runs a Python file that leaves a variable `world`, `simulation` or `mechanism` (and optionally `controller`), and
    shows that in the browser. Runs it again whenever the file changes; returns on Ctrl-C."""
    with serving(host, port) as server, _ctrl_c() as ended, ScriptPages(server, Script(path)) as pages:
        _say_where(pages.page, say)
        watch(server, say)
        say(f"It is loaded again when '{path}' changes. {_how_to_end(server, browser)}")
        while ended.empty():
            if pages.reload_if_changed():
                say(f"'{path}' was loaded again." if pages.error is None else f"'{path}' was not loaded: {pages.error}")
            with suppress(Empty):
                ended.get(timeout=RELOAD_PERIOD)
                break
        say("")


class ScriptPages:
    """The page of a script; a new one takes its place when the file has changed."""

    def __init__(self, server: viser.ViserServer, script: Script, clock: Clock = WALL_CLOCK) -> None:
        self._server, self._script, self._clock = server, script, clock
        self.error: str | None = None
        """Why the last change was not shown."""
        self._resources = ExitStack()
        self.page = self._open(self._session())

    def _session(self) -> Session:
        found = self._script.run()
        return Session(found.subject, controller=found.controller, clock=self._clock)

    def _open(self, session: Session) -> LivePage:
        page = LivePage(self._server, self._resources.enter_context(session))
        self._resources.enter_context(_running(page))
        return page

    def reload_if_changed(self) -> bool:
        """Runs the script again if its file has changed; returns whether it had. If that fails, the former page stays
        and shows why."""
        if not self._script.changed:
            return False
        try:
            session = self._session()
        except (MechanismError, ConvergenceError) as error:
            self.error = str(error)
            self.page.session.notify(f"not loaded again: {error}", warning=True)
            return True
        self.error = None
        self._resources.close()
        self._server.gui.reset()
        self._server.scene.reset()
        self._server.gui.main_panel.dock_right()
        self.page = self._open(session)
        return True

    def __enter__(self) -> ScriptPages:
        return self

    def __exit__(self, *error: object) -> None:
        self._resources.close()


def view_skin(
    soft: SoftMechanism,
    *,
    host: str = HOST,
    port: int = PORT,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Shows a mechanism with a skin in the browser: sliders bend it, the mouse drags a ball that pokes it; returns on
    Ctrl-C."""
    with viewing_skin(soft, host=host, port=port) as page, _ctrl_c() as ended:
        say(f"'{soft.mechanism.name}' is at {address(page.server)}.")
        _wait(page, browser, say, ended)


@contextmanager
def viewing_skin(soft: SoftMechanism, *, host: str = HOST, port: int = PORT) -> Iterator[SoftPage]:
    """Serves the page of `view_skin` while a `with` block runs."""
    with serving(host, port) as server:
        page = SoftPage(server, SoftSession(soft))
        with _running(page):
            yield page


@contextmanager
def viewing(
    subject: Mechanism | Moving | SceneModels,
    end_effectors: Sequence[str] | None = None,
    *,
    controller: Controller | None = None,
    method: str | None = None,
    host: str = HOST,
    port: int = PORT,
    clock: Clock = WALL_CLOCK,
) -> Iterator[LivePage]:
    """Serves the page while a `with` block runs; `page.session` controls what moves. `clock` as for `Session`."""
    session = Session(subject, end_effectors, method, controller=controller, clock=clock)
    with serving(host, port) as server, session:
        page = LivePage(server, session)
        with _running(page):
            yield page


def replay(
    recording: Recording,
    *,
    host: str = HOST,
    port: int = PORT,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Shows a recording in the browser, with a timeline; returns on Ctrl-C."""
    with replaying(recording, host=host, port=port) as page, _ctrl_c() as ended:
        say(f"The recording of '{recording.mechanism.name}' is at {address(page.server)}.")
        _wait(page, browser, say, ended)


@contextmanager
def replaying(
    recording: Recording, *, host: str = HOST, port: int = PORT, clock: Clock = WALL_CLOCK
) -> Iterator[ReplayPage]:
    """Serves the page of a recording while a `with` block runs. `clock` gives the time, s, that it plays by."""
    with serving(host, port) as server:
        page = ReplayPage(server, recording, clock)
        with _running(page):
            yield page


@contextmanager
def _running(page: Page) -> Iterator[None]:
    page.start()
    try:
        yield
    finally:
        page.stop()


@contextmanager
def _ctrl_c() -> Iterator[SimpleQueue[None]]:
    """While the block runs, Ctrl-C puts an item into the queue instead of raising KeyboardInterrupt."""
    pressed: SimpleQueue[None] = SimpleQueue()
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield pressed
        return
    before = signal.signal(signal.SIGINT, lambda *_: pressed.put(None))
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _say_where(page: LivePage, say: Callable[[str], None]) -> None:
    pulled = ", ".join(page.session.end_effectors)
    say(f"'{page.session.name}' is at {address(page.server)}{f', pulled at {pulled}' if pulled else ''}.")


def _how_to_end(server: viser.ViserServer, browser: bool) -> str:
    opened = browser and open_browser(server)
    return "End with Ctrl-C." if opened else "Open that address in a browser; end with Ctrl-C."


def _wait(page: Page, browser: bool, say: Callable[[str], None], ended: SimpleQueue[None]) -> None:
    watch(page.server, say)
    say(_how_to_end(page.server, browser))
    ended.get()
    say("")
