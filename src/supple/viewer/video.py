"""Videos of recordings, drawn without a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import MechanismError
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array
from supple.progress import progress_callback
from supple.recording import Recording
from supple.viewer.rendering import VIEW, Renderer, camera_axes, moving_points

FORMATS = (".mp4", ".gif")
SIZE, GIF_SIZE = (1920, 1080), (640, 360)
"""Width and height in pixels, if not given."""
FPS, GIF_FPS = 30.0, 20.0
"""Pictures per second, if not given."""
LARGEST = 7680
"""Pixels along a side, at most."""
PALETTE = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1:dither=bayer"
"""ffmpeg's filter for animated GIF: a palette for each picture."""
ONE_PALETTE = "split[a][b];[a]palettegen=max_colors=56[p];[b][p]paletteuse=dither=none:diff_mode=rectangle"
"""One palette for all pictures, which ffmpeg keeps in memory meanwhile. What stands still needs no space in the
file."""
INK = (43, 47, 54)
MARGIN = 8
"""Pixels around a text."""


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
    gif = _is_gif(path)
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


def write_panels(
    recordings: Mapping[str, Recording],
    path: str | PathLike[str],
    *,
    ghost: str | None = None,
    begin: float = 0.0,
    end: float = np.inf,
    fps: float = 12.5,
    height: int = 280,
    view: tuple[float, float] = (10.0, -65.0),
    progress: Callable[[float], None] | None = None,
) -> int:
    """Writes a video (`.mp4`) or an animated picture (`.gif`) of several recordings of one mechanism side by side, each
    under its title, at their own speed; returns the number of pictures.

    Args:
        recordings: by title; `supple.viewer.side_by_side.retargeted_recordings` makes those of a retargeted motion.
        path: name of the file.
        ghost: title of the recording that is drawn pale behind the others.
        begin, end: the part that is shown, s.
        fps: pictures per second.
        height: of the picture, pixels, an even number; the width follows from the motion.
        view: elevation and azimuth of the camera, degrees; z is up.
        progress: is called with the fraction done; by default a bar on the terminal.

    Raises:
        MechanismError: a name, size or time that is not possible, or a file that cannot be written.
        ImportError: imageio-ffmpeg is not installed.
    """
    gif, rate = _is_gif(path), _positive(fps, "fps")
    if not recordings:
        raise MechanismError("name at least one recording to show")
    behind = None if ghost is None else recordings[list(recordings)[find(list(recordings), ghost, "recording")]]
    last = min(end, *(float(recording.times[-1]) for recording in recordings.values()))
    times = np.arange(begin, last + 1e-9, 1 / rate)
    if len(times) < 2:
        raise MechanismError(f"the recordings have no two pictures between {begin:g} and {end:g} s")
    seen = np.concatenate([moving_points(each, begin, last, with_ground=True) for each in recordings.values()])
    width, height = _size((2 * round(0.5 * height * _aspect(seen, view)), height))
    renderers = [
        Renderer(each, (width, height), view, ghost=None if each is behind else behind, seen=seen)
        for each in recordings.values()
    ]
    text, whole = f"video {Path(path).name}", width * len(renderers)
    encoder = _Encoder(path, whole, height, rate, ONE_PALETTE if gif else PALETTE)
    with progress_callback(text, progress) as done, encoder:
        for i, time in enumerate(times.tolist()):
            panels = np.concatenate([renderer.picture(time) for renderer in renderers], axis=1)
            encoder.send(_with_titles(panels, list(recordings), width, time))
            done((i + 1) / len(times))
    return len(times)


def _aspect(points: Array, view: tuple[float, float]) -> float:
    """Width over height of points (n, 3) as the camera sees them, from 1/3 to 3."""
    across, up = np.ptp(points @ camera_axes(view)[:2].T, axis=0)
    return float(np.clip(across / max(up, 1e-9), 1 / 3, 3.0))


def _with_titles(panels: NDArray[np.uint8], titles: list[str], width: int, time: float) -> NDArray[np.uint8]:
    """The picture with a title over each panel, and the time, s, after the first."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(panels)
    draw = ImageDraw.Draw(image)
    for i, title in enumerate(titles):
        draw.text((i * width + MARGIN, MARGIN // 2), f"{title}, {time:.1f} s" if i == 0 else title, fill=INK)
    return np.asarray(image)


def _is_gif(path: str | PathLike[str]) -> bool:
    """Whether a video is an animated picture; raises unless its name is that of a video."""
    kind = Path(path).suffix.lower()
    if kind not in FORMATS:
        raise MechanismError(f"'{path}': a video's name ends in {' or '.join(FORMATS)}")
    return kind == ".gif"


class _Encoder:
    """ffmpeg in a process of its own, which gets the pictures."""

    def __init__(
        self, path: str | PathLike[str], width: int, height: int, fps: float, palette: str = PALETTE
    ) -> None:
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
        options: dict[str, Any] = {"codec": "gif", "output_params": ["-filter_complex", palette, "-loop", "0"]}
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
