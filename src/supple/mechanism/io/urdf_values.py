"""Numbers, poses and names in the elements of a URDF file."""

from __future__ import annotations

import math

import numpy as np

from supple import spatial
from supple.mechanism.io.xml_tree import Element
from supple.mechanism.record import Array


def number(element: Element, key: str, default: float, infinite: bool = False) -> float:
    """An attribute with one number."""
    return float(numbers(element, key, (default,), infinite)[0])


def numbers(element: Element, key: str, default: tuple[float, ...], infinite: bool = False) -> Array:
    """An attribute with as many numbers as the default has."""
    text = element.attributes.get(key)
    if text is None:
        return np.array(default)
    try:
        values = np.array([float(token) for token in text.replace("_", "?").split()])  # Python's float reads 1_000
    except ValueError:
        element.fail(f'{element}: {key}="{text:.60}" must be {_count(default)}')
    if len(values) != len(default):
        element.fail(f'{element}: {key}="{text:.60}" must be {_count(default)}')
    if np.isnan(values).any() or not (infinite or np.isfinite(values).all()):
        element.fail(f'{element}: {key}="{text:.60}" is not finite; give ordinary numbers')
    return values


def _count(default: tuple[float, ...]) -> str:
    return "a number" if len(default) == 1 else f"{len(default)} numbers"


def origin(owner: Element) -> Array:
    """(4, 4) pose of the <origin> of an element; the identity if it has none."""
    place = owner.find("origin")
    if place is None:
        return np.eye(4)
    position = numbers(place, "xyz", (0.0, 0.0, 0.0))
    roll, pitch, yaw = map(math.fmod, numbers(place, "rpy", (0.0, 0.0, 0.0)), (2 * math.pi,) * 3)
    turn = np.eye(3)
    for axis, angle in ((2, yaw), (1, pitch), (0, roll)):  # fixed axes: R = Rz(yaw) Ry(pitch) Rx(roll)
        turn = turn @ _rotation_about(axis, angle)
    pose: Array = spatial.pose(turn, position)
    return pose


def _rotation_about(axis: int, angle: float) -> Array:
    i, j = (axis + 1) % 3, (axis + 2) % 3
    result = np.eye(3)
    result[i, i] = result[j, j] = math.cos(angle)
    result[j, i], result[i, j] = math.sin(angle), -math.sin(angle)
    return result


def name_of(element: Element) -> str:
    """The name of a link or joint; raises if there is none."""
    name = element.attributes.get("name", "")
    if not name.strip():
        element.fail(f"a <{element.tag}> has no name; give it one")
    return name
