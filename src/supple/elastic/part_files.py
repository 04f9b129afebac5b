"""Parts as `.npz` files: arrays and JSON text, no pickle."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from typing import Any

import numpy as np

from supple.elastic._checks import numbers
from supple.elastic.basis import Basis
from supple.elastic.frames import InterfaceFrame
from supple.elastic.material import Material
from supple.elastic.part import Part
from supple.elastic.reduced_force import CubatureForce, QuarticForce, ReducedForce
from supple.files import Format, reading, write_archive

VERSION = 2
FORMAT = Format("supple-elastic-part", VERSION, "an elastic part", "part.save(path)")
BASIS_ARRAYS = ("origin", "modes", "first_moment", "gram", "singular_values")
FRAME_ARRAYS = ("point", "point_rate", "matrix", "matrix_rate")


def save(part: Part, path: str | PathLike[str]) -> None:
    """Writes a part and its basis."""
    header: dict[str, Any] = {
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
    write_archive(path, FORMAT, header, arrays)


def load(path: str | PathLike[str]) -> Part:
    """Reads a part that `part.save` wrote.

    Raises:
        MechanismError: no such file, not a part, damaged, or written by a newer supple.
    """
    with reading(path, FORMAT) as (header, arrays):
        material = Material(**header["material"])
        facets = {str(name): arrays[f"facets/{i}"] for i, name in enumerate(header["interfaces"])}
        part = Part(arrays["nodes"], arrays["tets"], material, facets, arrays["density"])
        if header["basis"] is None:
            return part
        basis = _unpacked_basis(part, header["basis"], arrays)
        return Part(part.nodes, part.tets, material, part.interfaces, part.density, basis)


def _packed_basis(basis: Basis) -> tuple[dict[str, Any], dict[str, Any]]:
    names = ("reference", "method", "mass", "alpha", "beta", "difference")
    header: dict[str, Any] = {name: getattr(basis, name) for name in names}
    header["trained_range"] = None if np.isinf(basis.trained_range) else basis.trained_range
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
    trained, difference = header["trained_range"], header.get("difference")  # files of version 1 have no difference
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
        difference=None if difference is None else float(difference),
    )
