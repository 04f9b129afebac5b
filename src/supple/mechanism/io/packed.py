"""A mechanism as arrays of bytes, for files that contain one among other arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.mechanism.io import json as mechanism_json
from supple.mechanism.mechanism import Mechanism

PART = ".npz"
"""How the names of arrays end that hold the file of a flexible body's part."""


def packed_mechanism(mech: Mechanism) -> dict[str, NDArray[np.uint8]]:
    """`mechanism`, its JSON text, and an array for the part of each flexible body; bytes."""
    with TemporaryDirectory() as folder:
        mechanism_json.save(mech, Path(folder, "mechanism.json"))
        contents = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    contents["mechanism"] = contents.pop("mechanism.json")
    return {name: np.frombuffer(content, dtype=np.uint8) for name, content in contents.items()}


def unpacked_mechanism(arrays: Mapping[str, NDArray[Any]], where: str) -> Mechanism:
    """The mechanism of arrays that `packed_mechanism` returned; other arrays are ignored. Error texts begin with
    `where`."""
    with TemporaryDirectory() as folder:
        for name in arrays:
            if name.endswith(PART) and name == Path(name).name:
                Path(folder, name).write_bytes(arrays[name].tobytes())
        return mechanism_json.loads(arrays["mechanism"].tobytes().decode(), where, Path(folder))
