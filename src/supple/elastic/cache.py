"""Bases of parts kept on disk, because a basis of a fine mesh takes some time to make."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from supple.elastic.comparison import warn_if_different
from supple.elastic.part import Part
from supple.elastic.part_files import VERSION, load
from supple.errors import MechanismError


def cache_folder() -> Path:
    """Folder of the stored bases: that of the environment variable SUPPLE_CACHE, or `supple` in the user's cache."""
    chosen = os.environ.get("SUPPLE_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "supple"


def with_cached_basis(part: Part, *, progress: Callable[[float], None] | None = None, **options: Any) -> Part:
    """Does the same as `part.with_basis(**options)`, but reads the basis from `cache_folder()` if it was made before
    for the same part with the same options, and otherwise writes it there."""
    file = cache_folder() / f"basis-{_fingerprint(part, options)}.npz"
    if file.is_file():
        with suppress(MechanismError):  # damaged: made again
            found = load(file)
            if found.basis is not None:
                warn_if_different(found.basis)
                return found
    made = part.with_basis(progress=progress, **options)
    with suppress(OSError, MechanismError):  # a cache that cannot be written is no error
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=file.parent, suffix=".npz", delete=False) as draft:
            pass
        made.save(draft.name)
        os.replace(draft.name, file)  # another process never sees half a file
    return made


def _fingerprint(part: Part, options: dict[str, Any]) -> str:
    arrays = [part.nodes, part.tets, part.density, *part.interfaces.values()]
    text = repr((VERSION, part.material, list(part.interfaces), sorted(options.items())))
    digest = sha256(text.encode())
    for values in arrays:
        digest.update(repr((values.shape, values.dtype.str)).encode() + values.tobytes())
    return digest.hexdigest()[:32]
