"""`view` and `replay`: a page in the browser, until Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeAlias

from supple.mechanism import Mechanism
from supple.recording import Recording
from supple.viewer.clock import WALL_CLOCK, Clock
from supple.viewer.live import LivePage
from supple.viewer.scenery import SceneModels
from supple.viewer.server import HOST, PORT, address, open_browser, serving, watch
from supple.viewer.session import Session
from supple.viewer.soft import SoftPage, SoftSession
from supple.viewer.timeline import ReplayPage
from supple.zones import SoftMechanism

Page: TypeAlias = "LivePage | ReplayPage | SoftPage"


def view(
    subject: Mechanism | SceneModels,
    end_effectors: Sequence[str] | None = None,
    *,
    method: str | None = None,
    host: str = HOST,
    port: int = PORT,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Simulates a mechanism or a contact scene in the browser, where a user can pull its end effectors; returns on
    Ctrl-C.

    The page is visible on this machine only, unless `host` says otherwise ("0.0.0.0": the whole network). `browser`
    opens the page in the user's browser; `say` is called with lines for the user.
    """
    with viewing(subject, end_effectors, method=method, host=host, port=port) as page, _ctrl_c() as ended:
        say(f"'{subject.name}' is at {address(page.server)}, pulled at {', '.join(page.session.end_effectors)}.")
        _wait(page, browser, say, ended)


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
    subject: Mechanism | SceneModels,
    end_effectors: Sequence[str] | None = None,
    *,
    method: str | None = None,
    host: str = HOST,
    port: int = PORT,
    clock: Clock = WALL_CLOCK,
) -> Iterator[LivePage]:
    """Serves the page while a `with` block runs; `page.session` controls the mechanism. `clock` as for `Session`."""
    with serving(host, port) as server, Session(subject, end_effectors, method, clock=clock) as session:
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


def _wait(page: Page, browser: bool, say: Callable[[str], None], ended: SimpleQueue[None]) -> None:
    watch(page.server, say)
    opened = browser and open_browser(page.server)
    say("End with Ctrl-C." if opened else "Open that address in a browser; end with Ctrl-C.")
    ended.get()
    say("")
