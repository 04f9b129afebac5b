"""The program of the child process that runs MuJoCo's compiler. It imports nothing of supple.

Each request on standard input is an 8-byte little-endian length and a JSON object: `xml` (the text), `models`
(texts of sub-models by file name). Each answer is an 8-byte length, a JSON header and the
arrays it lists, as raw bytes. Nothing else reaches the pipe, and no file is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import tempfile
from typing import Any, BinaryIO

MEMORY_LIMIT = 8 << 30
"""Bytes of address space; a file that needs more is treated as malicious."""

PREFIXES = (
    "body_", "jnt_", "dof_", "geom_", "site_", "eq_", "tendon_", "wrap_", "actuator_", "key_", "exclude_",
    "pair_",
)  # fmt: skip
SINGLE = (
    "qpos0", "qpos_spring", "mat_rgba", "mesh_vert", "mesh_face", "mesh_vertadr", "mesh_vertnum",
    "mesh_faceadr", "mesh_facenum", "hfield_size", "hfield_nrow", "hfield_ncol", "hfield_adr", "hfield_data",
)  # fmt: skip
COUNTS = ("nsensor", "ncam", "nlight", "ntex", "nflex", "nnumeric", "ntext", "ntuple")
OPTIONS = ("timestep", "gravity", "wind", "density", "viscosity", "disableflags", "disableactuator")
NAMED = ("body", "jnt", "geom", "site", "mesh", "eq", "tendon", "actuator", "key")


def main() -> None:
    requests, answers = _private_pipes()
    try:
        import mujoco
    except ImportError:
        _send_answer(answers, {"missing": True}, [])
        return
    mujoco.set_mju_user_warning(lambda text: None)  # otherwise MuJoCo writes a log file
    _restrict_process()
    _send_answer(answers, {"version": mujoco.__version__}, [])
    while (request := _read(requests)) is not None:
        try:
            header, arrays = _compile(mujoco, request)
        except ValueError as error:  # an error in the file
            header, arrays = {"error": str(error)}, []
        except Exception as error:  # out of memory or a fault of the compiler: the parent starts a new process
            header, arrays = {"error": str(error) or "MuJoCo ran out of memory", "last": True}, []
        _send_answer(answers, header, arrays)


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Reserves standard input and output for the protocol; whatever else is printed goes to the null device."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null_device = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null_device, descriptor)
    return requests, answers


def _restrict_process() -> None:
    """Restricts this process: a deleted working folder, in which nothing can be written; bounded memory; no core
    dumps."""
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        for kind, value in (("RLIMIT_FSIZE", 0), ("RLIMIT_CORE", 0), ("RLIMIT_AS", MEMORY_LIMIT)):
            with contextlib.suppress(AttributeError, ValueError, OSError):
                number = getattr(resource, kind)
                _, hard = resource.getrlimit(number)
                allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.setrlimit(number, (allowed, hard))


def _compile(mujoco: Any, request: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    models = {name: text.encode() for name, text in request["models"].items()}
    spec = mujoco.MjSpec.from_string(request["xml"], include=models)
    spec.compiler.fusestatic = False
    spec.compiler.discardvisual = False
    spec.compiler.LRopt.mode = mujoco.mjtLRMode.mjLRMODE_NONE  # otherwise MuJoCo simulates muscles, possibly for hours
    model = spec.compile()
    return _extract(model, spec.modelname)


def _extract(model: Any, name: str) -> tuple[dict[str, Any], list[Any]]:
    import numpy as np

    fields = [f for f in dir(model) if f.startswith(PREFIXES) and isinstance(getattr(model, f), np.ndarray)]
    arrays = {field: getattr(model, field) for field in (*fields, *SINGLE)}
    header: dict[str, Any] = {
        "name": name,
        "counts": {field: int(getattr(model, field)) for field in COUNTS},
        "options": {field: np.asarray(getattr(model.opt, field)).tolist() for field in OPTIONS},
        "names": {kind: [_name(model, int(start)) for start in getattr(model, f"name_{kind}adr")] for kind in NAMED},
        "arrays": [(field, value.dtype.str, value.shape) for field, value in arrays.items()],
    }
    return header, [np.ascontiguousarray(value) for value in arrays.values()]


def _name(model: Any, start: int) -> str:
    text: bytes = model.names[start : model.names.index(b"\0", start)]
    return text.decode(errors="replace")


def _read(stream: BinaryIO) -> dict[str, Any] | None:
    length = stream.read(8)
    if len(length) < 8:
        return None
    request: dict[str, Any] = json.loads(stream.read(struct.unpack("<Q", length)[0]))
    return request


def _send_answer(stream: BinaryIO, header: dict[str, Any], arrays: list[Any]) -> None:
    text = json.dumps(header).encode()
    stream.write(struct.pack("<Q", len(text)) + text)
    for value in arrays:
        stream.write(value.tobytes())
    stream.flush()


if __name__ == "__main__":
    main()
