"""Green's functions of a zone: its linear response to held coordinates and to nodal forces."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from supple.elastic._checks import Array, Indices
from supple.elastic.cache import cache_folder
from supple.elastic.linear import coordinates_of, stiffness
from supple.errors import MechanismError
from supple.files import packed_header, read_arrays, unpacked_header
from supple.progress import progress_callback
from supple.threads import single_blas_thread

if TYPE_CHECKING:
    from supple.zones.zone import Zone

FORMAT, VERSION = "supple-greens-functions", 1
LARGEST = 2**32
"""Largest size of the Green's functions of a zone, in memory or in a file, bytes."""
COLUMNS = 64
"""Right-hand sides solved at a time."""
AFFINE = 12
"""Coordinates of a bone's displacement u(x) = M x + t in the zone's frame: M by rows, then t (m). A bone that turns far
against the zone's frame needs all of them."""


@dataclass(frozen=True, eq=False)
class GreensFunctions:
    """The linear response of a zone, in its own frame.

    The held coordinates d (D,) are the displacements of the seam nodes (3 each), then 12 numbers M, t for each bone
    (`AFFINE`). f are forces on the free touch nodes. Then, with forces in place of the paper's tractions (eq. 3), all
    is symmetric:

        forces that hold   p = K d - U_t^T f        displacements   u = U d + G f

    with K `stiffness`, U `motion`, G `compliance`, and U_t the rows of the touch nodes, which come first.
    """

    stiffness: Array
    """(D, D) K: forces at seam nodes (N) and generalised forces on M (N m) and t (N), per held
    coordinate. Symmetric."""
    motion: Array
    """(3n, D) U: displacements of all free nodes, touch nodes first, per held coordinate."""
    compliance: Array
    """(3n, 3t) G: displacements of all free nodes, touch nodes first, per force on a free touch node, m/N."""


_COMPUTED: WeakValueDictionary[str, GreensFunctions] = WeakValueDictionary()
"""By fingerprint: equal zones share one object."""


def greens_functions(
    zone: Zone, *, cache: bool = True, progress: Callable[[float], None] | None = None
) -> GreensFunctions:
    """The zone's Green's functions: from memory, from the cache on disk, or computed (and then stored there)."""
    key = fingerprint(zone)
    known = _COMPUTED.get(key)
    if known is not None:
        return known
    file = cache_folder() / f"greens-{key}.npz"
    result = _stored(file, key, zone) if cache else None
    if result is None:
        _check_size(zone)
        with progress_callback("Green's functions", progress) as report, single_blas_thread():
            result = compute(zone, report)
        if cache:
            _store(file, key, result)
    _COMPUTED[key] = result
    return result


def _check_size(zone: Zone) -> None:
    """Raises before Green's functions are computed that would fill the memory."""
    columns = 3 * (len(zone.seam) + len(zone.free_touch))
    size = 8 * 3 * len(zone.free) * columns
    if size > LARGEST:
        raise MechanismError(
            f"the Green's functions of a zone with {len(zone.nodes)} nodes, {len(zone.seam)} of them seam and "
            f"{len(zone.touch)} touch nodes, would take {size / 1e9:.1f} GB (at most {LARGEST / 1e9:.1f}); mark fewer "
            "touch nodes, or make a coarser mesh (`edge_length` if it fills a surface)"
        )


def fingerprint(zone: Zone) -> str:
    """A hash of everything that Green's functions depend on."""
    solid, material = zone.solid, zone.material
    assert solid is not None
    assert material is not None
    arrays = [solid.nodes, solid.cells, zone.seam, zone.free, zone.free_touch, *zone.bones.values()]
    digest = sha256(repr((VERSION, material.young, material.poisson, len(zone.bones))).encode())
    for values in arrays:
        digest.update(repr((values.shape, values.dtype.str)).encode() + np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:32]


def compute(zone: Zone, progress: Callable[[float], None] = lambda fraction: None) -> GreensFunctions:
    """Factorises the stiffness of the free nodes and solves for every held coordinate and every touch node."""
    from scipy.sparse.linalg import splu

    assert zone.solid is not None
    assert zone.material is not None
    K = stiffness(zone.solid.nodes, zone.solid.cells, zone.material).tocsr()
    free, seam = coordinates_of(zone.free), coordinates_of(zone.seam)
    held = coordinates_of(np.concatenate([zone.seam, *zone.bones.values()]))
    fields_of_bones = _held_fields(zone, len(seam))  # (held, D)
    coupling = (K[free][:, held] @ fields_of_bones).toarray()  # forces on free nodes per held coordinate
    direct = (fields_of_bones.T @ K[held][:, held] @ fields_of_bones).toarray()
    t = 3 * len(zone.free_touch)
    D = direct.shape[0]
    motion, compliance = np.zeros((len(free), D)), np.zeros((len(free), t))
    if len(free):
        factors = splu(
            K[free][:, free].tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        for first in range(0, D, COLUMNS):
            motion[:, first : first + COLUMNS] = -factors.solve(coupling[:, first : first + COLUMNS])
            progress((first + COLUMNS) / (D + t + COLUMNS))
        for first in range(0, t, COLUMNS):
            width = min(COLUMNS, t - first)
            unit = np.zeros((len(free), width))
            unit[first + np.arange(width), np.arange(width)] = 1.0
            compliance[:, first : first + width] = factors.solve(unit)
            progress((D + first + COLUMNS) / (D + t + COLUMNS))
    condensed = direct + coupling.T @ motion
    compliance[:t] = 0.5 * (compliance[:t] + compliance[:t].T)
    return locked(0.5 * (condensed + condensed.T), motion, compliance)


def locked(stiffness: Array, motion: Array, compliance: Array) -> GreensFunctions:
    """Green's functions with read-only arrays."""
    arrays = [np.ascontiguousarray(values, dtype=float) for values in (stiffness, motion, compliance)]
    for values in arrays:
        values.flags.writeable = False
    return GreensFunctions(*arrays)


def _held_fields(zone: Zone, seam: int) -> Any:
    """(held, D) displacements of seam and bone nodes per held coordinate (SciPy CSR)."""
    from scipy.sparse import block_diag, csr_array, eye_array

    assert zone.solid is not None
    blocks: list[Any] = [eye_array(seam)] if seam else [csr_array((0, 0))]
    blocks += [csr_array(affine_fields(zone.solid.nodes[bone])) for bone in zone.bones.values()]
    return csr_array(block_diag(blocks))


def affine_fields(x: Array) -> Array:
    """(3n, 12) displacements M x + t of points x (n, 3) per entry of M (by rows) and t."""
    homogeneous = np.hstack([x, np.ones((len(x), 1))])
    columns = np.einsum("nj,ik->nkij", homogeneous, np.eye(3)).reshape(3 * len(x), 3, 4)  # (3n, i, j)
    return np.concatenate([columns[..., :3].reshape(-1, 9), columns[..., 3]], axis=1)


# --- files ------------------------------------------------------------------------------------------------------------


def _store(file: Path, key: str, greens: GreensFunctions) -> None:
    header = packed_header({"format": FORMAT, "version": VERSION, "fingerprint": key})
    with suppress(OSError):  # a cache that cannot be written is no error
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=file.parent, suffix=".npz", delete=False) as draft:
            arrays = {field.name: getattr(greens, field.name) for field in fields(greens)}
            np.savez(draft, header=header, **arrays)
        os.replace(draft.name, file)  # another process never sees half a file


def _stored(file: Path, key: str, zone: Zone) -> GreensFunctions | None:
    """Green's functions of a file; None if there is none, or if it is damaged or stale (a warning says so)."""
    if not file.is_file():
        return None
    try:
        return _read(file, key, zone)
    except (MechanismError, KeyError) as error:
        warnings.warn(
            f"the stored Green's functions {file} cannot be used ({error}); they are computed again", stacklevel=4
        )
        return None


def greens_shapes(zone: Zone) -> dict[str, tuple[int, int]]:
    """Shapes of the arrays of `GreensFunctions` for a zone."""
    held = 3 * len(zone.seam) + AFFINE * len(zone.bones)
    free, touch = 3 * len(zone.free), 3 * len(zone.free_touch)
    return {"stiffness": (held, held), "motion": (free, held), "compliance": (free, touch)}


def _read(file: Path, key: str, zone: Zone) -> GreensFunctions:
    shapes = greens_shapes(zone)
    arrays = read_arrays(file, "a file of Green's functions", LARGEST)
    header = unpacked_header(arrays.get("header", np.empty(0)))
    if (header.get("format"), header.get("version"), header.get("fingerprint")) != (FORMAT, VERSION, key):
        raise MechanismError("it belongs to another zone or version")
    values = {name: arrays[name] for name in shapes}
    for name, shape in shapes.items():
        if values[name].shape != shape or values[name].dtype != np.float64 or not np.isfinite(values[name]).all():
            raise MechanismError(f"'{name}' is damaged")
    return locked(**values)


def touch_rows(greens: GreensFunctions) -> tuple[Array, Array]:
    """U_t (3t, D) and G_t (3t, 3t): motion and compliance of the free touch nodes."""
    t = greens.compliance.shape[1]
    return greens.motion[:t], greens.compliance[:t]


def free_order(touch: Indices, surface: Indices, held: Indices, count: int) -> Indices:
    """(n,) free nodes: those of touch, then others of the surface, then inner ones."""
    rank = np.full(count, 2)
    rank[surface] = 1
    rank[touch] = 0
    rank[held] = 3
    order = np.argsort(rank, kind="stable")
    return np.asarray(order[: int((rank < 3).sum())])
