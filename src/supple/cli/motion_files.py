"""Files of motions that commands write: recordings, glTF, videos, tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import supple
from supple.files import writing
from supple.recording import Recording

MOTIONS = (".npz", ".glb", ".mp4", ".gif", ".csv")
"""Files that hold a motion: recording, glTF animation, videos, table."""


def write_motion(recording: Recording, path: Path, columns: list[str] | None = None, **video: Any) -> None:
    """Writes a recording as another file. `columns` are for tables, other options for videos."""
    match path.suffix.lower():
        case ".npz":
            recording.save(path)
        case ".csv":
            recording.log(columns or [name for name in ("q", "qd", "energy") if name in recording]).to_csv(path)
        case ".glb":
            from supple.viewer.gltf import glb

            with writing(path, binary=True) as file:
                file.write(glb(recording))
        case _:
            supple.viewer.write_video(recording, path, **video)


def describe_file(path: Path) -> str:
    match path.suffix.lower():
        case ".npz":
            return f"The recording is in {path}; play it with: supple replay {path}"
        case ".glb":
            return f"The motion is in {path}, for Blender and web pages."
        case ".mp4" | ".gif":
            return f"The video is in {path}."
        case ".csv":
            return f"The table is in {path}."
        case _:
            return f"The picture is in {path}: the reference pose pale, the shape above solid."
