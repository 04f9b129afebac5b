"""The web server of the viewer: one port, visible on this machine only by default."""

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
"""s after which a browser that opened the page should have drawn it."""
NO_WEBGL = (
    "A browser opened the page but draws nothing: most likely it has no WebGL. Turn on hardware acceleration in its "
    "settings, or open the address in another browser."
)


@contextmanager
def serving(host: str = HOST, port: int = PORT) -> Iterator[viser.ViserServer]:
    """Runs a viser server while a `with` block runs. Raises `MechanismError` if the port is in use, `ImportError` if
    viser is not installed."""
    try:
        import viser
    except ImportError:
        raise ImportError("the viewer needs viser; install it with: pip install 'supple[all]'") from None
    _check_free(host, port)
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # no log entries about clients that leave
    with redirect_stdout(StringIO()):  # hides viser's banner; the caller prints the address
        server = viser.ViserServer(host=host, port=port, label="supple", verbose=False)
    server.gui.configure_theme(control_width="medium", show_share_button=False)
    server.gui.main_panel.dock_right()
    try:
        yield server
    finally:
        with redirect_stdout(StringIO()):  # hides viser's message
            server.stop()


def watch(server: viser.ViserServer, say: Callable[[str], None], patience: float = PATIENCE) -> None:
    """Calls `say` if a browser is connected for `patience` seconds and draws nothing. viser lists a client once it has
    sent its camera, which a browser without WebGL never does; the websocket server knows the client before."""
    connected: set[int] = set()

    def on_connect(connection: Any) -> None:
        def check() -> None:
            if connection.client_id in connected and connection.client_id not in server.get_clients():
                say(NO_WEBGL)

        connected.add(connection.client_id)
        timer = Timer(patience, check)
        timer.daemon = True
        timer.start()

    sockets = server._websock_server
    sockets.on_client_connect(on_connect)
    sockets.on_client_disconnect(lambda connection: connected.discard(connection.client_id))


def _check_free(host: str, port: int) -> None:
    """Raises `MechanismError` if the port cannot be used. viser itself would silently take the next one."""
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


def free_port(host: str = HOST) -> int:
    """The first port from `PORT` on that can be used."""
    for port in range(PORT, PORT + 100):
        try:
            _check_free(host, port)
        except MechanismError:
            continue
        return port
    raise MechanismError(f"none of the ports {PORT} to {PORT + 99} is free; end other viewers, or name a port")


def address(server: viser.ViserServer) -> str:
    """URL of the page."""
    host = server.get_host()
    name = "localhost" if host in (HOST, "0.0.0.0", "::", "localhost") else host
    return f"http://{name}:{server.get_port()}"


def open_browser(server: viser.ViserServer) -> bool:
    """Opens the page in the user's browser; returns False if there is no display or no browser."""
    import os
    import sys
    import webbrowser

    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    with suppress(webbrowser.Error):
        return webbrowser.open(address(server))
    return False
