"""Reduced models as `.npz` files: arrays and JSON text, no pickle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.engine import Equilibrium
from supple.engine.assembly import Acting, Load, equations
from supple.files import Format, reading, write_archive
from supple.mechanism import Mechanism, Poses
from supple.mechanism.axes import axis_names, by_joint
from supple.mechanism.io.packed import packed_mechanism, unpacked_mechanism
from supple.mechanism.poses import amplitudes_in
from supple.reduced.blending import BlendedModel, blend
from supple.reduced.model import ReducedModel

LINEAR = Format("supple-reduced-model", 1, "a reduced model", "supple.reduce")
BLENDED = Format("supple-blended-model", 1, "a blended model", "supple.blend or supple.explore")
ARRAYS = (
    "compliance", "stiffness", "damping", "mass", "twist_map", "wrench_map", "motion_map", "coordinate_map",
    "basis", "cobasis", "wrenches", "q",
)  # fmt: skip


def save(model: ReducedModel, path: str | PathLike[str]) -> None:
    """Writes a model, its mechanism and its equilibrium."""
    header, arrays = _packed(model)
    write(path, LINEAR, header, model.mechanism, arrays)


def save_blended(many: BlendedModel, path: str | PathLike[str]) -> None:
    """Writes a collection: its mechanism once, then every model."""
    headers: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for i, model in enumerate(many.models):
        header, own = _packed(model)
        headers.append(header)
        arrays |= {f"{i}/{name}": each for name, each in own.items()}
    options = {"power": many.power, "support": many.support, "scheme": many.scheme}
    write(path, BLENDED, {**options, "models": headers}, many.mechanism, arrays)


def _packed(model: ReducedModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a model, without its mechanism."""
    header: dict[str, Any] = {
        "end_effectors": model.end_effectors,
        "rank": model.rank,
        "modes": model.modes,
        "method": model.method,
        "mass_kind": model.mass_kind,
        "free_base": model.free_base,
    }
    arrays: dict[str, Any] = {name: getattr(model, name) for name in ARRAYS}
    arrays["poses"] = model.rest_poses.array
    if model.at is not None:
        header["targets"] = model.at.acting.targets
        arrays |= {"at_gravity": model.at.acting.gravity, "at_rest": model.at.acting.rest}
        header["loads"] = [
            {"name": a.name, "body": a.body, "world": a.world, "point": a.point.tolist(), "wrench": a.wrench.tolist()}
            for a in model.at.loads
        ]
        arrays |= dict(zip(("at_q", "at_reactions", "at_rows"), model.at.state, strict=True))
    return header, arrays


def write(
    path: str | PathLike[str], form: Format, header: dict[str, Any], mech: Mechanism, arrays: dict[str, Any]
) -> None:
    """Writes a model of this format with its mechanism."""
    write_archive(path, form, header, {**packed_mechanism(mech), **arrays})


def load(path: str | PathLike[str]) -> ReducedModel:
    """Reads a file that `save` wrote. Raises `MechanismError` for any other file."""
    with opened(path, LINEAR) as (mech, header, arrays):
        return _model(mech, header, arrays)


def load_blended(path: str | PathLike[str]) -> BlendedModel:
    """Reads a file that `save_blended` wrote. Raises `MechanismError` for any other file."""
    with opened(path, BLENDED) as (mech, header, arrays):
        models = []
        for i, own in enumerate(header["models"]):
            start = f"{i}/"
            parts = {name.removeprefix(start): each for name, each in arrays.items() if name.startswith(start)}
            models.append(_model(mech, own, parts))
        scheme = header.get("scheme", "corrected")  # files of earlier versions have none
        return blend(models, power=header["power"], support=header["support"], scheme=scheme)


@contextmanager
def opened(
    path: str | PathLike[str], form: Format
) -> Iterator[tuple[Mechanism, dict[str, Any], dict[str, NDArray[Any]]]]:
    """Mechanism, header and arrays of a file of this format. Errors inside the `with` block are reported as a damaged
    file."""
    with reading(path, form) as (header, arrays):
        yield unpacked_mechanism(arrays, fspath(path)), header, arrays


def _model(mech: Mechanism, header: dict[str, Any], arrays: dict[str, Any]) -> ReducedModel:
    for name in (*ARRAYS, "poses"):
        check_array(arrays, name)
    poses = Poses(mech, arrays["poses"], amplitudes_in(mech, arrays["q"]))
    at = equilibrium_in(mech, header, arrays, poses) if "at_q" in arrays else None
    texts = {name: header[name] for name in ("rank", "modes", "method", "mass_kind", "free_base")}
    model = ReducedModel(
        mechanism=mech,
        end_effectors=tuple(str(name) for name in header["end_effectors"]),
        rest_poses=poses,
        at=at,
        **{name: arrays[name] for name in ARRAYS},
        **texts,
    )
    _check_shapes(model)
    return model


def check_array(arrays: dict[str, Any], name: str) -> None:
    if arrays[name].dtype != np.float64 or not np.isfinite(arrays[name]).all():
        raise ValueError(f"array '{name}' is not finite numbers")


def equilibrium_in(mech: Mechanism, header: dict[str, Any], arrays: dict[str, Any], poses: Poses) -> Equilibrium:
    """The equilibrium of the model, with the fields that a linearisation needs."""
    for a in header["loads"]:
        if mech.frame(a["name"])[0] != a["body"] or a["body"] < 0:
            raise ValueError(f"the load on '{a['name']}' does not fit the mechanism")
    eqs = equations(mech)
    names = "at_q", "at_reactions", "at_rows", "at_gravity", "at_rest"
    for name, like in zip(names, (*eqs.zero_state(), mech.gravity, eqs.rest), strict=True):
        check_array(arrays, name)
        if arrays[name].shape != like.shape:
            raise ValueError(f"array '{name}' has shape {arrays[name].shape}, expected {like.shape}")
    loads = tuple(
        Load(
            name=str(a["name"]),
            body=int(a["body"]),
            point=np.array(a["point"], dtype=float),
            wrench=np.array(a["wrench"], dtype=float),
            world=bool(a["world"]),
        )
        for a in header["loads"]
    )
    targets = {str(name): float(value) for name, value in header["targets"].items()}
    if targets.keys() != eqs.targets.keys() or not np.isfinite(list(targets.values())).all():
        raise ValueError("its set-points do not fit the mechanism")
    q, reactions, _ = state = arrays["at_q"], arrays["at_reactions"], arrays["at_rows"]
    acting = Acting(loads, arrays["at_gravity"], arrays["at_rest"], targets)
    return Equilibrium(
        mech,
        poses=poses,
        coordinates=by_joint(mech, q),
        reactions=eqs.reactions(reactions),
        motor_torques={},
        residual=0.0,
        load_fraction=1.0,
        iterations=0,
        acting=acting,
        state=state,
    )


def _check_shapes(model: ReducedModel) -> None:
    e, k, nb = len(model.end_effectors), model.modes, len(model.mechanism.bodies)
    axes = len(axis_names(model.mechanism))
    n, m = 6 * e + k, model.rank + k
    names = model.end_effectors
    if len(set(names)) < e or any(model.mechanism.frame(name)[0] < 0 for name in names) or min(k, model.rank) < 0:
        raise ValueError("its end effectors do not fit the mechanism")
    wanted = {
        "compliance": (n, n), "stiffness": (n, n), "damping": (n, n), "mass": (n, n),
        "basis": (n, m), "cobasis": (m, n), "wrenches": (6 * e,), "q": (axes,),
        "twist_map": (nb, 6, 6 * e), "wrench_map": (nb, 6, 6 * e),
        "motion_map": (nb, 6, n), "coordinate_map": (axes, n),
    }  # fmt: skip
    assert {f.name for f in fields(model)} >= set(wanted)
    for name, shape in wanted.items():
        if getattr(model, name).shape != shape:
            raise ValueError(f"array '{name}' has shape {getattr(model, name).shape}, expected {shape}")
    if model.rest_poses.array.shape != (nb, 4, 4):
        raise ValueError("poses do not match the mechanism")
