"""Condensed models as `.npz` files: arrays and JSON text, no pickle."""

from __future__ import annotations

from os import PathLike

from supple.engine.dynamics import METHODS
from supple.files import Format
from supple.mechanism import Poses
from supple.reduced.condensation import CondensedModel
from supple.reduced.files import check_array, equilibrium_in, opened, write

FORMAT = Format("supple-condensed-model", 1, "a condensed model", "supple.condense")


def save(model: CondensedModel, path: str | PathLike[str]) -> None:
    """Writes a model: its mechanism, its end effectors and its initial state."""
    rest = model.rest
    header = {
        "end_effectors": model.end_effectors,
        "method": model.method,
        "targets": rest.acting.targets,
        "loads": [],
    }
    arrays = dict(zip(("at_q", "at_reactions", "at_rows"), rest.state, strict=True))
    arrays |= {"poses": rest.poses.array, "at_gravity": rest.acting.gravity, "at_rest": rest.acting.rest}
    write(path, FORMAT, header, model.mechanism, arrays)


def load(path: str | PathLike[str]) -> CondensedModel:
    """Reads a file that `save` wrote. Any other file raises `MechanismError`."""
    with opened(path, FORMAT) as (mech, header, arrays):
        names = tuple(str(name) for name in header["end_effectors"])
        if not names or len(set(names)) < len(names) or any(mech.frame(name)[0] < 0 for name in names):
            raise ValueError("its end effectors do not fit the mechanism")
        check_array(arrays, "poses")
        if header["method"] not in METHODS or arrays["poses"].shape != (len(mech.bodies), 4, 4):
            raise ValueError("its method or the shape of its poses does not fit")
        rest = equilibrium_in(mech, header, arrays, Poses(mech, arrays["poses"]))
        return CondensedModel(mech, names, header["method"], rest)
