"""Encoding of each record of a mechanism in JSON: its fields, their types, and fields that may be omitted."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, NoReturn

import numpy as np

from supple.elastic import InterfaceFrame, Part
from supple.errors import MechanismError
from supple.mechanism.actuator import Actuator
from supple.mechanism.body import Body, Site
from supple.mechanism.coupling import Coupling, ImportNote, Keyframe, Motor
from supple.mechanism.flexible import FlexibleBody
from supple.mechanism.joint import Curve, Joint
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array, Record
from supple.mechanism.shapes import HeightField, Mesh, Shape


@dataclass(frozen=True)
class Codec:
    """Converts a value to JSON data and back; `decode` also takes the place of the value in the file, for errors."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any, str], Any]


class JsonObject(dict[str, Any]):
    """A JSON object that remembers a repeated key, so that the error can name its place."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated_key: str | None = None
        if len(self) < len(pairs):
            self.repeated_key = Counter(key for key, _ in pairs).most_common(1)[0][0]


def encode_mechanism(mech: Mechanism) -> dict[str, Any]:
    """JSON data without the format's own header."""
    return _encode_record(mech)


def decode_mechanism(data: JsonObject, where: str) -> Mechanism:
    """Raises MechanismError beginning with `where` and the place in the data."""
    mech: Mechanism = _decode_record(Mechanism, data, f"{where}:")
    return mech


def _encode_record(record: Record) -> dict[str, Any]:
    codecs, defaults = FIELDS[type(record)], _default_values(record)
    values = {name: getattr(record, name) for name in codecs}
    return {
        name: codecs[name].encode(v)
        for name, v in values.items()
        if name not in defaults or not _is_identical(v, defaults[name])
    }


def _default_values(record: Record) -> dict[str, Any]:
    """Values of the fields that may be omitted, as the record would set them by itself."""
    required = {f.name: getattr(record, f.name) for f in fields(record) if f.default is MISSING}
    if isinstance(record, Mechanism):  # constructing a second one would repeat costly checks
        defaults = {f.name: f.default for f in fields(record) if f.default is not MISSING}
        return defaults | {"gravity": np.array(defaults["gravity"])}
    fixed_defaults: dict[str, Any] = {}
    if isinstance(record, Joint):  # the rest position follows the reference
        required |= {"twists": record.twists, "reference": record.reference, "interface": record.interface}
        fixed_defaults = {"twists": np.zeros((0, 6)), "reference": np.zeros(len(record.axes)), "interface": None}
    if isinstance(record, Shape):
        required["mesh"] = record.mesh
        fixed_defaults = {"mesh": None}
    with_defaults = type(record)(**required)
    return {f.name: getattr(with_defaults, f.name) for f in fields(record) if f.name not in required} | fixed_defaults


def _is_identical(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return bool(a.shape == b.shape and a.tobytes() == b.tobytes())
    return bool(a == b) and str(a) == str(b)  # the text tells 0.0 from -0.0


def _decode_record(cls: type[Record], data: Any, place: str) -> Any:
    known = FIELDS[cls]
    if not isinstance(data, JsonObject):
        _fail(place, f"must be an object with the keys {', '.join(known)}; got {_describe(data)}")
    if data.repeated_key is not None:
        _fail(place, f"the key {_describe(data.repeated_key)} is given twice; keep one")
    for key in data:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(key[:80], known, n=1, cutoff=0.0)[0]
            _fail(place, f"unknown key {_describe(key)}; did you mean '{near}'? Known: {', '.join(known)}")
    missing = [f.name for f in fields(cls) if f.default is MISSING and f.name not in data]
    if missing:
        _fail(place, f"the key '{missing[0]}' is missing")
    values = {key: known[key].decode(value, _join(place, key)) for key, value in data.items()}
    try:
        return cls(**values)
    except MechanismError as error:
        _fail(place, str(error))


def _join(place: str, key: str) -> str:
    return f"{place}{' ' if place.endswith(':') else '.'}{key}"


def _fail(place: str, reason: str) -> NoReturn:
    raise MechanismError(f"{place.removesuffix(':')}: {reason}") from None


def _describe(value: Any) -> str:
    """A short description of a wrong value."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "...")
    return json.dumps(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# codecs of single values


def _decode_text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        _fail(place, f"must be a string, got {_describe(value)}")
    return value


def _decode_flag(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        _fail(place, f"must be true or false, got {_describe(value)}")
    return value


def _decode_integer(value: Any, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        _fail(place, f"must be a whole number, got {_describe(value)}")
    return value


def _decode_finite(value: Any, place: str) -> float:
    if not _is_number(value) or not math.isfinite(value):
        _fail(place, f"must be a finite number, got {_describe(value)}")
    return float(value)


def _optional(codec: Codec) -> Codec:
    return Codec(
        lambda value: None if value is None else codec.encode(value),
        lambda value, place: None if value is None else codec.decode(value, place),
    )


def _inserted(kind: type[Any], what: str) -> Codec:
    """An object that `json_parts` replaces by names, and inserts again before decoding."""

    def decode(value: Any, place: str) -> Any:
        if not isinstance(value, kind):
            _fail(place, f"must name {what}, got {_describe(value)}")
        return value

    return Codec(lambda value: value, decode)


TEXT, FLAG = Codec(str, _decode_text), Codec(bool, _decode_flag)
WHOLE, NUMBER = Codec(int, _decode_integer), Codec(float, _decode_finite)


# codecs of lists and arrays


def _checked_list(value: Any, place: str, length: int) -> list[Any]:
    if not isinstance(value, list) or length not in (-1, len(value)):
        _fail(place, f"must be a list{'' if length < 0 else f' of {length}'}, got {_describe(value)}")
    return value


def _tuple_of(codec: Codec, length: int = -1) -> Codec:
    """A tuple of values of one kind; -1 stands for any length."""

    def decode(value: Any, place: str) -> tuple[Any, ...]:
        return tuple(codec.decode(item, f"{place}[{i}]") for i, item in enumerate(_checked_list(value, place, length)))

    return Codec(lambda values: [codec.encode(value) for value in values], decode)


def _decode_row(value: Any, place: str, length: int) -> Array:
    items = _checked_list(value, place, length)
    if all(type(item) in (float, int) for item in items):
        row = np.array(items, dtype=float)
        if np.isfinite(row).all():
            return row
    return np.array([_decode_finite(item, f"{place}[{i}]") for i, item in enumerate(items)], dtype=float)


def _numbers(*shape: int) -> Codec:
    """An array of floats, one or two axes; -1 stands for any length."""
    row = Codec(np.ndarray.tolist, lambda value, place: _decode_row(value, place, shape[-1]))
    if len(shape) == 1:
        return row
    rows = _tuple_of(row, shape[0])
    return Codec(np.ndarray.tolist, lambda value, place: np.array(rows.decode(value, place)).reshape(-1, shape[1]))


def _encode_limits(pair: Array) -> list[float | None]:
    return [float(bound) if np.isfinite(bound) else None for bound in pair]


def _decode_limits(value: Any, place: str) -> Array:
    lower, upper = _tuple_of(_optional(NUMBER), 2).decode(value, place)
    return np.array([-np.inf if lower is None else lower, np.inf if upper is None else upper])


INTERVAL = Codec(_encode_limits, _decode_limits)
"""Lower and upper limit; null where there is no limit."""
INTERVALS = Codec(
    _tuple_of(INTERVAL).encode,
    lambda value, place: np.array(_tuple_of(INTERVAL).decode(value, place)).reshape(-1, 2),
)


BOUNDS = Codec(
    _encode_limits,
    lambda value, place: np.array(
        [np.inf if each is None else each for each in _tuple_of(_optional(NUMBER)).decode(value, place)]
    ),
)
"""Upper bounds; null where there is none."""


def _packed_array(kind: str, across: int | None = 3) -> Codec:
    """An (n, 3) array (or of any other width) as {"shape": [n, 3], "base64": little-endian bytes, row by row}."""
    wide = "m" if across is None else str(across)
    dtype = np.dtype(kind).newbyteorder("<")

    def encode(values: Any) -> dict[str, Any]:
        return {
            "shape": list(values.shape),
            "base64": base64.b64encode(values.astype(dtype).tobytes()).decode("ascii"),
        }

    def decode(value: Any, place: str) -> Any:
        if not isinstance(value, JsonObject) or set(value) != {"shape", "base64"} or value.repeated_key:
            _fail(place, f'must be {{"shape": [n, {wide}], "base64": "..."}}, got {_describe(value)}')
        rows, columns = _tuple_of(WHOLE, 2).decode(value["shape"], f"{place}.shape")
        text = _decode_text(value["base64"], f"{place}.base64")
        size = rows * columns * dtype.itemsize
        if min(rows, columns) < 0 or across not in (None, columns) or len(text) != 4 * -(-size // 3):
            _fail(
                place,
                f"shape {rows} x {columns} does not fit {len(text)} characters of base64 ({kind}, n x {wide})",
            )
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            _fail(f"{place}.base64", "not base64")
        if len(data) != size:
            _fail(f"{place}.base64", f"{len(data)} bytes instead of {size}")
        return np.frombuffer(data, dtype=dtype).reshape(rows, columns).astype(kind)

    return Codec(encode, decode)


def _record(cls: type[Record]) -> Codec:
    return Codec(_encode_record, lambda value, place: _decode_record(cls, value, place))


POSE, NAMES, ROW = _numbers(4, 4), _tuple_of(TEXT), _numbers(-1)

FIELDS: dict[type[Record], dict[str, Codec]] = {
    Mechanism: {
        "name": TEXT,
        "gravity": _numbers(3),
        "bodies": _tuple_of(_record(Body)),
        "joints": _tuple_of(_record(Joint)),
        "sites": _tuple_of(_record(Site)),
        "couplings": _tuple_of(_record(Coupling)),
        "motors": _tuple_of(_record(Motor)),
        "actuators": _tuple_of(_record(Actuator)),
        "keyframes": _tuple_of(_record(Keyframe)),
        "shapes": _tuple_of(_record(Shape)),
        "height_fields": _tuple_of(_record(HeightField)),
        "contact_excludes": _tuple_of(_tuple_of(TEXT, 2)),
        "import_report": _tuple_of(_record(ImportNote)),
        "meshes": _tuple_of(_record(Mesh)),
        "flexible": _tuple_of(_record(FlexibleBody)),
    },
    Body: {
        "name": TEXT,
        "pose": POSE,
        "mass": NUMBER,
        "centre": _numbers(3),
        "inertia": _numbers(3, 3),
        "shapes": _tuple_of(_record(Shape)),
    },
    Joint: {
        "name": TEXT,
        "parent": TEXT,
        "child": TEXT,
        "pose_parent": POSE,
        "pose_child": POSE,
        "twists": _numbers(-1, 6),
        "blocks": _tuple_of(WHOLE),
        "axes": NAMES,
        "stiffness": ROW,
        "damping": ROW,
        "rest": ROW,
        "limits": INTERVALS,
        "armature": ROW,
        "reference": ROW,
        "curves": _tuple_of(_optional(_record(Curve))),
        "interface": _optional(_inserted(InterfaceFrame, "a flexible body and its interface")),
        "effort": BOUNDS,
        "speed": BOUNDS,
    },
    FlexibleBody: {"name": TEXT, "part": _inserted(Part, "an .npz file in the same folder")},
    Curve: {"deflection": ROW, "torque": ROW},
    Site: {"name": TEXT, "body": TEXT, "pose": POSE},
    Coupling: {
        "name": TEXT,
        "coordinates": NAMES,
        "coefficients": ROW,
        "rigid": FLAG,
        "stiffness": NUMBER,
        "damping": NUMBER,
        "rest": NUMBER,
        "limits": INTERVAL,
        "curve": _optional(_record(Curve)),
    },
    Motor: {"name": TEXT, "coordinate": TEXT, "position": NUMBER},
    Actuator: {
        "name": TEXT,
        "drives": TEXT,
        "gear": NUMBER,
        "gain": _numbers(3),
        "bias": _numbers(3),
        "control_range": INTERVAL,
        "force_range": INTERVAL,
        "dynamics": TEXT,
        "lag": NUMBER,
        "activation_range": INTERVAL,
        "control": NUMBER,
        "activation": NUMBER,
        "in_spring": FLAG,
    },
    Keyframe: {"name": TEXT, "coordinates": ROW},
    ImportNote: {"item": TEXT, "reason": TEXT},
    Shape: {
        "name": _optional(TEXT),
        "kind": TEXT,
        "size": ROW,
        "pose": POSE,
        "mesh": _optional(TEXT),
        "rgba": _numbers(4),
        "friction": _numbers(3),
        "contact_type": WHOLE,
        "contact_affinity": WHOLE,
        "condim": WHOLE,
        "restitution": NUMBER,
        "priority": WHOLE,
    },
    HeightField: {
        "name": _optional(TEXT),
        "heights": _packed_array("float64", None),
        "size": _numbers(2),
        "pose": POSE,
        "friction": _numbers(3),
        "contact_type": WHOLE,
        "contact_affinity": WHOLE,
        "condim": WHOLE,
        "restitution": NUMBER,
        "priority": WHOLE,
    },
    Mesh: {"name": TEXT, "vertices": _packed_array("float64"), "faces": _packed_array("int32")},
}
