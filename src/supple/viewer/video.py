"""Videos of recordings, drawn without a window."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import MechanismError
from supple.mechanism.record import array
from supple.progress import progress_callback
from supple.recording import Recording
from supple.viewer.rendering import VIEW, Renderer

FORMATS = (".mp4", ".gif")
SIZE, GIF_SIZE = (1920, 1080), (640, 360)
"""Width and height in pixels, if not given."""
FPS, GIF_FPS = 30.0, 20.0
"""Pictures per second, if not given."""
LARGEST = 7680
"""Pixels along a side, at most."""
PALETTE = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1:dither=bayer"
"""ffmpeg's filter for animated GIF: a palette for each picture."""


def write_video(
    recording: Recording,
    path: str | PathLike[str],
    *,
    size: tuple[int, int] | None = None,
    fps: float | None = None,
    speed: float = 1.0,
    view: tuple[float, float] = VIEW,
    follow: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> int:
    """Writes a recording as a video (`.mp4`, H.264) or an animated picture (`.gif`); returns the number of pictures.

    Args:
        recording: what to show.
        path: name of the file.
        size: width and height in pixels, even numbers; 1920 x 1080, or 640 x 360 for a GIF.
        fps: pictures per second; 30, or 20 for a GIF.
        speed: seconds of the recording per second of the video.
        view: elevation and azimuth of the camera, degrees; z is up.
        follow: body or site that the camera moves along with.
        progress: is called with the fraction done; by default a bar on the terminal.

    Raises:
        MechanismError: a name, size or rate that is not possible, or a file that cannot be written.
        ImportError: imageio-ffmpeg is not installed.
    """
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise MechanismError(f"'{path}': a video's name ends in {' or '.join(FORMATS)}")
    gif = kind == ".gif"
    width, height = _size(size if size is not None else GIF_SIZE if gif else SIZE)
    rate = _positive(fps if fps is not None else GIF_FPS if gif else FPS, "fps")
    step = _positive(speed, "speed") / rate
    times = recording.times[0] + step * np.arange(int(recording.duration / step + 1e-6) + 1)
    renderer = Renderer(recording, (width, height), view, follow)
    text = f"video {Path(path).name}"
    with progress_callback(text, progress) as done, _Encoder(path, width, height, rate) as encoder:
        for i, time in enumerate(times):
            encoder.send(renderer.picture(float(time)))
            done((i + 1) / len(times))
    return len(times)


class _Encoder:
    """ffmpeg in a process of its own, which gets the pictures."""

    def __init__(self, path: str | PathLike[str], width: int, height: int, fps: float) -> None:
        try:
            from imageio_ffmpeg import write_frames
        except ImportError:
            raise ImportError("videos need imageio-ffmpeg; install it with: pip install 'supple[video]'") from None
        self._path = fspath(path)
        try:
            open(self._path, "wb").close()  # ffmpeg's own messages do not name the remedy
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise MechanismError(f"{path}: cannot write the file: {reason}; check its name and folder") from None
        gif = self._path.lower().endswith(".gif")
        options: dict[str, Any] = {"codec": "gif", "output_params": ["-filter_complex", PALETTE, "-loop", "0"]}
        if not gif:
            options = {"codec": "libx264", "quality": 8, "output_params": ["-movflags", "+faststart"]}
        self._frames = write_frames(
            self._path, (width, height), fps=fps, pix_fmt_out="pal8" if gif else "yuv420p", macro_block_size=2,
            ffmpeg_log_level="error", **options,
        )  # fmt: skip

    def __enter__(self) -> _Encoder:
        self._frames.send(None)
        return self

    def send(self, picture: Any) -> None:
        """Adds a picture (height, width, 3), 0 to 255."""
        try:
            self._frames.send(np.ascontiguousarray(picture))
        except OSError as error:
            reason = str(error).strip().splitlines()[0]
            raise MechanismError(f"{self._path}: the video cannot be written: {reason}; check the disk") from None

    def __exit__(self, *error: object) -> None:
        self._frames.close()


def _size(size: tuple[int, int]) -> tuple[int, int]:
    width, height = array(size, (2,), "size (width, height)")
    if not all(2 <= n <= LARGEST and n == 2 * (n // 2) for n in (width, height)):
        raise MechanismError(f"a video's width and height are even numbers from 2 to {LARGEST}, got {size!r}")
    return int(width), int(height)


def _positive(value: float, what: str) -> float:
    number = float(array(value, (), what))
    if number <= 0:
        raise MechanismError(f"{what} of a video must be positive, got {value!r}")
    return number
