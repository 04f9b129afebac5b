"""Elastic parts beside a JSON file. The file names an `.npz` file for each flexible body, and for each joint of an
interface the flexible body and the interface. Parts are read from the folder of the JSON file only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supple import elastic
from supple.errors import MechanismError, listed
from supple.mechanism.mechanism import Mechanism


def replace_parts(content: dict[str, Any], mech: Mechanism, stem: str) -> dict[str, elastic.Part]:
    """Replaces the parts in the data of a mechanism by names; returns the part to be written for each file name."""
    files = {}
    for flexible, entry in zip(mech.flexible, content.get("flexible", []), strict=True):
        entry["part"] = f"{stem}.{flexible.name}.npz"
        files[entry["part"]] = flexible.part
        for joint in content["joints"]:
            for name in flexible.moving:
                if joint.get("interface") is flexible.basis.frames[name]:
                    joint["interface"] = [flexible.name, name]
    return files


def insert_parts(data: dict[str, Any], where: str, folder: Path) -> None:
    """Reads the parts that the data of a mechanism name and inserts them."""
    parts: dict[str, elastic.Part] = {}
    entries = data.get("flexible")
    for i, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            continue  # the decoder says what is missing
        place, file = f"{where}: flexible[{i}].part", entry.get("part")
        if not isinstance(file, str) or not file or file != Path(file).name or file in (".", ".."):
            raise MechanismError(f"{place}: must name an .npz file in the same folder, got {str(file)[:40]!r}")
        try:
            entry["part"] = parts[entry["name"]] = elastic.load(folder / file)
        except MechanismError as error:
            raise MechanismError(f"{place}: {error}") from None
    joints = data.get("joints")
    for i, joint in enumerate(joints if isinstance(joints, list) else []):
        if not isinstance(joint, dict) or joint.get("interface") is None:
            continue
        place, value = f"{where}: joints[{i}].interface", joint["interface"]
        if not (isinstance(value, list) and len(value) == 2 and all(isinstance(each, str) for each in value)):
            raise MechanismError(f"{place}: must be the names of a flexible body and of its interface")
        if value[0] not in parts:
            raise MechanismError(f"{place}: there is no flexible body '{value[0][:40]}', only {listed(list(parts))}")
        basis = parts[value[0]].basis
        if basis is None or value[1] not in basis.frames:
            raise MechanismError(f"{place}: the part of '{value[0]}' has no moving interface '{value[1][:40]}'")
        joint["interface"] = basis.frames[value[1]]
