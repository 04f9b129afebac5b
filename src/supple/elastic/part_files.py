"""Parts as `.npz` files: arrays and JSON text, no pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import asdict
from os import PathLike, fspath
from typing import Any

import numpy as np

from supple.elastic._checks import numbers
from supple.elastic.basis import Basis
from supple.elastic.frames import InterfaceFrame
from supple.elastic.material import Material
from supple.elastic.part import Part
from supple.elastic.reduced_force import CubatureForce, QuarticForce, ReducedForce
from supple.errors import MechanismError

FORMAT, VERSION = "supple-elastic-part", 1
LARGEST = 2**31
"""Largest size of a file's unpacked arrays, bytes."""
BASIS_ARRAYS = ("origin", "modes", "first_moment", "gram", "singular_values")
FRAME_ARRAYS = ("point", "point_rate", "matrix", "matrix_rate")


def save(part: Part, path: str | PathLike[str]) -> None:
    """Writes a part and its basis."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "material": asdict(part.material),
        "interfaces": list(part.interfaces),
        "basis": None,
    }
    arrays: dict[str, Any] = {"nodes": part.nodes, "tets": part.tets, "density": part.density}
    arrays |= {f"facets/{i}": facets for i, facets in enumerate(part.interfaces.values())}
    if part.basis is not None:
        basis_header, basis_arrays = _packed_basis(part.basis)
        header["basis"] = basis_header
        arrays |= {f"basis/{name}": value for name, value in basis_arrays.items()}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    where = fspath(path)
    try:
        with open(where, "wb") as file:
            np.savez_compressed(file, **arrays)
    except OSError as error:
        raise MechanismError(f"cannot write {where}: {error.strerror or error}") from None


def load(path: str | PathLike[str]) -> Part:
    """Reads a part that `part.save` wrote.

    Raises:
        MechanismError: no such file, not a part, damaged, or written by a newer supple.
    """
    where = fspath(path)
    arrays = _read(where)
    try:
        header = json.loads(arrays["header"].tobytes().decode())
        kind, version = str(header["format"]), int(header["version"])
    except (KeyError, ValueError, TypeError, RecursionError):
        kind, version = "", 0
    if kind != FORMAT:
        raise MechanismError(f"{where} is not an elastic part; make one with part.save(path)")
    if version > VERSION:
        raise MechanismError(f"{where} was written by a newer supple (version {version}); update supple to read it")
    try:
        material = Material(**header["material"])
        facets = {str(name): arrays[f"facets/{i}"] for i, name in enumerate(header["interfaces"])}
        part = Part(arrays["nodes"], arrays["tets"], material, facets, arrays["density"])
        if header["basis"] is None:
            return part
        basis = _unpacked_basis(part, header["basis"], arrays)
        return Part(part.nodes, part.tets, material, part.interfaces, part.density, basis)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise MechanismError(f"{where} is damaged ({error}); save the part anew") from None


def _read(where: str) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(where) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
                raise MechanismError(f"{where} would unpack to more than {LARGEST >> 20} MiB; it is refused")
        with np.load(where, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise MechanismError(f"there is no file {where}") from None
    except MechanismError:
        raise
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise MechanismError(f"{where} is not an elastic part, or is damaged ({error})") from None


def _packed_basis(basis: Basis) -> tuple[dict[str, Any], dict[str, Any]]:
    names = ("reference", "method", "mass", "alpha", "beta")
    header: dict[str, Any] = {name: getattr(basis, name) for name in names}
    trained = basis.trained_range
    header["trained_range"] = trained if np.isfinite(trained) else None
    header["frames"] = list(basis.frames)
    arrays: dict[str, Any] = {name: getattr(basis, name) for name in BASIS_ARRAYS}
    for i, frame in enumerate(basis.frames.values()):
        arrays |= {f"frame/{i}/{name}": getattr(frame, name) for name in FRAME_ARRAYS}
    force = basis.force
    if isinstance(force, QuarticForce):
        header["force"] = "quartic"
        arrays |= {name: getattr(force, name) for name in ("quadratic", "cubic", "quartic")}
    else:
        header["force"] = "cubature"
        header |= {name: getattr(force, name) for name in ("law", "mu", "lam", "training_error")}
        arrays |= {"gradients": force.gradients, "weights": force.weights}
    return header, arrays


def _unpacked_basis(part: Part, header: dict[str, Any], arrays: dict[str, Any]) -> Basis:
    n, r = len(part.nodes), arrays["basis/modes"].shape[-1]

    def checked(name: str, *shape: int) -> Any:
        return numbers(arrays[f"basis/{name}"], shape, f"array '{name}' of the basis")

    p = r * (r + 1) // 2
    force: ReducedForce
    if header["force"] == "quartic":
        force = QuarticForce(checked("quadratic", p), checked("cubic", p, r), checked("quartic", p, p))
    else:
        weights = checked("weights", -1)
        gradients = checked("gradients", len(weights), 3, 3, r)
        mu, lam, error = (float(header[name]) for name in ("mu", "lam", "training_error"))
        force = CubatureForce(gradients, weights, str(header["law"]), mu, lam, error)
    shapes = {"point": (3,), "point_rate": (r, 3), "matrix": (3, 3), "matrix_rate": (r, 3, 3)}
    frames = {
        str(name): InterfaceFrame(**{a: checked(f"frame/{i}/{a}", *shape) for a, shape in shapes.items()})
        for i, name in enumerate(header["frames"])
    }
    if {header["reference"], *frames} != set(part.interfaces):
        raise ValueError("the interfaces of the basis are not those of the part")
    trained = header["trained_range"]
    return Basis(
        reference=str(header["reference"]),
        method=str(header["method"]),
        origin=checked("origin", 3),
        modes=checked("modes", n, 3, r),
        mass=float(header["mass"]),
        first_moment=checked("first_moment", r + 1, 3),
        gram=checked("gram", r + 1, r + 1, 3, 3),
        force=force,
        frames=frames,
        alpha=float(header["alpha"]),
        beta=float(header["beta"]),
        trained_range=np.inf if trained is None else float(trained),
        singular_values=checked("singular_values", -1),
    )
