"""The web server under the viewer: one port, this machine only unless told otherwise."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from threading import Timer
from typing import TYPE_CHECKING, Any

from supple.errors import MechanismError

if TYPE_CHECKING:
    import viser

HOST, PORT = "127.0.0.1", 8080
PATIENCE = 30.0
"""s in which a browser that opened the page has drawn something."""
BLIND = (
    "A browser opened the page but draws nothing: most likely it has no WebGL. Turn on hardware acceleration in its "
    "settings, or open the address in another browser."
)


@contextmanager
def serving(host: str = HOST, port: int = PORT) -> Iterator[viser.ViserServer]:
    """A viser server; a port that is taken, or a missing viser, is an error that says what to do."""
    try:
        import viser
    except ImportError:
        raise ImportError("the viewer needs viser; install it with: pip install 'supple[all]'") from None
    _check_free(host, port)
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # clients that leave are no news
    with redirect_stdout(StringIO()):  # viser's banner; the command line says where the page is
        server = viser.ViserServer(host=host, port=port, label="supple", verbose=False)
    server.gui.configure_theme(control_width="medium", show_share_button=False)
    server.gui.main_panel.dock_right()
    try:
        yield server
    finally:
        with redirect_stdout(StringIO()):  # its farewell
            server.stop()


def watch(server: viser.ViserServer, say: Callable[[str], None], patience: float = PATIENCE) -> None:
    """Says so when a browser came and draws nothing. viser lists a browser once it told its camera, which one without
    WebGL never does; the connection below knows of it before."""
    there: set[int] = set()

    def came(connection: Any) -> None:
        def look() -> None:
            if connection.client_id in there and connection.client_id not in server.get_clients():
                say(BLIND)

        there.add(connection.client_id)
        timer = Timer(patience, look)
        timer.daemon = True
        timer.start()

    sockets = server._websock_server
    sockets.on_client_connect(came)
    sockets.on_client_disconnect(lambda connection: there.discard(connection.client_id))


def _check_free(host: str, port: int) -> None:
    """viser would take the next port instead, and the user would look at the wrong one."""
    if not 0 < port < 65536:
        raise MechanismError(f"a port is a number from 1 to 65535, got {port}")
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise MechanismError(f"port {port} is in use; choose another one (--port), or end what uses it") from None
        raise MechanismError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None


def address(server: viser.ViserServer) -> str:
    """Where a browser finds it."""
    host = server.get_host()
    name = "localhost" if host in (HOST, "0.0.0.0", "::", "localhost") else host
    return f"http://{name}:{server.get_port()}"


def open_browser(server: viser.ViserServer) -> bool:
    """Whether the user's browser could be told to open the page; without a display it cannot."""
    import os
    import sys
    import webbrowser

    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    with suppress(webbrowser.Error):
        return webbrowser.open(address(server))
    return False
