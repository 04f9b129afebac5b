"""The viewer's page in the system's Chromium, with software rendering."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import numpy as np

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist",
         "--disable-gpu-compositing", "--disable-gpu-rasterization")  # fmt: skip
"""WebGL in software. The page around it is put together without it: that stalls for minutes on a busy machine."""
BLIND = ("--no-sandbox", "--disable-gpu", "--disable-3d-apis")
"""Without WebGL."""
HARMLESS = "Unable to preventDefault inside passive event listener"
"""Chromium's remark on viser's own mouse wheel and drag listeners; nothing is lost by it."""
FEWER_FRAMES = """
const request = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (draw) => window.setTimeout(() => request(draw), 250);
window.cancelAnimationFrame = (id) => window.clearTimeout(id);
"""
"""Limits the page to 4 frames a second: without a graphics card every frame costs processor time."""
RESOLUTION = 0.5
"""Pixels drawn per pixel of the page, in each direction: fewer cost less processor time."""
PATIENCE = 600.0
"""s after which a test gives up. Nothing is asserted about speed: software rendering on a busy machine is slow."""


def chromium() -> str | None:
    """Path of the system's browser."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def until(condition: Callable[[], Any], what: str) -> Any:
    """Waits for a condition; returns its value once that is true."""
    end = monotonic() + PATIENCE
    while monotonic() < end:
        if found := condition():
            return found
        sleep(0.05)
    raise AssertionError(f"no sign of {what} within {PATIENCE:g} s")


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield running
        running.close()


class Visit:
    """An open page and the errors of its console."""

    def __init__(
        self, running: Any, server: Any, width: int = 900, height: int = 540, resolution: float = RESOLUTION
    ) -> None:
        self.server = server
        size = {"width": width, "height": height}
        self.page = running.new_page(viewport=size, device_scale_factor=resolution)
        self.page.add_init_script(FEWER_FRAMES)
        self.page.set_default_timeout(1e3 * PATIENCE)
        self.errors: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        before = set(server.get_clients())
        self.page.goto(f"http://127.0.0.1:{server.get_port()}")
        new = until(lambda: self._pump() or set(server.get_clients()) - before, "the page to connect")
        self.client = server.get_clients()[new.pop()]

    def _heard(self, message: Any) -> None:
        if message.type == "error" and not message.text.startswith(HARMLESS):
            self.errors.append(message.text)

    def _pump(self, milliseconds: int = 50) -> None:
        """Lets the browser's messages through."""
        self.page.wait_for_timeout(milliseconds)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """As the function `until`. Each look at the page costs processor time, so there are few."""
        return until(lambda: self._pump(200) or condition(), what)

    def close(self) -> None:
        self.page.close()

    @property
    def _canvas(self) -> dict[str, float]:
        """Place and size of the drawing, in pixels of the page."""
        return self.page.locator("canvas[data-engine]").bounding_box()

    def pixels(self) -> np.ndarray:
        """(height, width, 3) of the drawing, left of the panel, 0 to 1."""
        from io import BytesIO

        from matplotlib.image import imread

        box = self._canvas
        clip = {"x": box["x"], "y": box["y"], "width": 0.65 * box["width"], "height": box["height"]}
        return imread(BytesIO(self.page.screenshot(clip=clip)))[..., :3]

    def painted(self) -> float:
        """Fraction of the drawing that is clearly not background or grid."""
        return float((self.pixels().min(axis=-1) < 0.7).mean())

    def on_screen(self, point: np.ndarray) -> tuple[float, float]:
        """Pixels where a point (3,) of the world is seen."""
        camera, box = self.client.camera, self._canvas
        ahead = camera.look_at - camera.position
        ahead /= np.linalg.norm(ahead)
        right = np.cross(ahead, camera.up_direction)
        right /= np.linalg.norm(right)
        away = point - camera.position
        x, y, depth = away @ right, away @ np.cross(right, ahead), away @ ahead
        scale = 0.5 * box["height"] / np.tan(camera.fov / 2) / depth
        return box["x"] + 0.5 * box["width"] + scale * x, box["y"] + 0.5 * box["height"] - scale * y

    def drag(
        self, point: np.ndarray, by: tuple[float, float], dragged: Callable[[], Any], release: bool = True
    ) -> None:
        """Drags what is seen at a point of the world by so many pixels, until `dragged()` is true. The page looks for
        what is under the mouse now and then only, so that a first attempt may miss it."""
        mouse = self.page.mouse

        def attempt() -> Any:
            mouse.up()
            x, y = self.on_screen(point)
            mouse.move(x, y)
            self.page.wait_for_timeout(300)
            mouse.down()
            for fraction in np.linspace(0.1, 1.0, 8):
                mouse.move(x + fraction * by[0], y + fraction * by[1])
                self._pump()
            return dragged()

        self.until(attempt, "the mouse to drag it")
        if release:
            mouse.up()
            self._pump()

    def press(self, button: str) -> None:
        self.page.get_by_role("button", name=button, exact=True).first.click()
        self._pump()

    def type_value(self, slider: str, value: float) -> None:
        """Types a number into the field of a slider."""
        label = self.page.get_by_text(slider, exact=True).locator("visible=true").first
        field = label.locator("xpath=following::input[not(@type='hidden')][1]")
        field.fill(str(value))
        field.press("Enter")
        self._pump()

    def choose(self, label: str, option: str) -> None:
        self.page.get_by_label(label).first.click()
        self.page.get_by_role("option", name=option, exact=True).click()
        self._pump()
