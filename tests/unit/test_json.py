"""supple's JSON files: identical after a round trip, readable, and clear errors for every fault."""

from __future__ import annotations

import contextlib
import json as stdlib_json
from dataclasses import fields, replace
from importlib import resources

import jsonschema
import numpy as np
import pytest

import mechanisms
import supple
from supple.mechanism import Curve, ImportNote, Keyframe, Mechanism, Mesh, Shape
from supple.mechanism.io import json
from supple.mechanism.io.json_records import FIELDS
from supple.mechanism.record import Record

SCHEMA = stdlib_json.loads(resources.files("supple.mechanism.io").joinpath("schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def everything() -> Mechanism:
    """A mechanism that uses every field of every record."""
    rng = np.random.default_rng(5)
    mech = mechanisms.random_mechanism(rng, 6, loops=2, couplings=3, motors=2, shapes=True, free_base=True)
    curved = replace(mech.couplings[0], curve=Curve((-1, 0, 1), (-2, 0, 3)), limits=(-np.inf, 3.5))
    key = Keyframe("kéy \u2028 \ud800 \x00", mech.reference)  # names are any text
    note = ImportNote("tendon 'x'", "left out")
    return replace(
        mech,
        couplings=(curved, *mech.couplings[1:]),
        keyframes=(key,),
        import_report=(note,),
        contact_excludes=(("body0", "body1"),),
    )


ALL = [everything(), mechanisms.four_bar(), mechanisms.stewart(limits=(-0.1, np.inf)), mechanisms.delta()]
ALL += [
    mechanisms.random_mechanism(np.random.default_rng(i), 4, loops=i % 3, shapes=i % 2 == 0) for i in range(6)
]
MADE = [getattr(supple.library, name)() for name in mechanisms.RIGID_LIBRARY]
ALL += [made for made in MADE if isinstance(made, supple.Mechanism)]  # millipede and molecule are bare trees


@pytest.mark.parametrize("mech", ALL, ids=lambda m: m.name)
def test_round_trip(mech, tmp_path):
    path = tmp_path / "mech.json"
    json.save(mech, path)
    again = json.load(path)
    assert again == mech
    assert json.dumps(again) == path.read_text("utf-8")
    assert_same_bits(again, mech)


def assert_same_bits(a, b):
    """Even the sign of zero."""
    for f in fields(a):
        x, y = getattr(a, f.name), getattr(b, f.name)
        if isinstance(x, np.ndarray):
            assert x.dtype == y.dtype
            assert x.tobytes() == y.tobytes()
        elif isinstance(x, tuple):
            for p, q in zip(x, y, strict=True):
                if isinstance(p, Record):
                    assert_same_bits(p, q)


@pytest.mark.parametrize("mech", ALL, ids=lambda m: m.name)
def test_schema(mech):
    VALIDATOR.validate(stdlib_json.loads(json.dumps(mech)))


def test_schema_names_every_field():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["version"] == {"const": json.VERSION}
    places = {"Mechanism": SCHEMA, "ImportNote": SCHEMA["$defs"]["note"]}
    places["FlexibleBody"] = SCHEMA["$defs"]["flexible"]
    for cls, codecs in FIELDS.items():
        schema = places.get(cls.__name__) or SCHEMA["$defs"][cls.__name__.lower()]
        assert (
            set(codecs) == {f.name for f in fields(cls)} == set(schema["properties"]) - {"format", "version"}
        )


def test_numbers_keep_every_digit():
    odd = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 123456789012345680.0]
    mech = replace(
        mechanisms.four_bar(), import_report=(), keyframes=(Keyframe("k", [odd[0], odd[1], odd[2]]),)
    )
    b = supple.Builder("odd")
    for i, number in enumerate(odd):
        b.link(f"l{i}", (0, 0, i), (0, 0, i + 1), 1.0)
        b.hinge(f"h{i}", f"l{i - 1}" if i else "world", f"l{i}", (0, 0, i), "x", rest=number)
    for m in (mech, b.build()):
        assert_same_bits(json.loads(json.dumps(m)), m)


def test_layout_is_readable():
    text = json.dumps(mechanisms.four_bar(limits=(-1.0, np.inf), stiffness=2.5))
    assert text.startswith('{\n  "format": "supple-mechanism",\n  "version": 1,\n  "name": "four_bar",\n')
    assert '"limits": [[-1, null]]' in text
    assert '"stiffness": [2.5]' in text
    assert '"twists": [[0, 0, 0, 0, 1, 0]]' in text
    assert '"damping"' not in text  # the default
    assert '"blocks"' not in text
    assert max(map(len, text.splitlines())) <= 118


def test_infinite_numbers_of_a_mesh_are_refused():
    mesh = Mesh("m", np.eye(3), [[0, 1, 2]])
    mech = replace(mechanisms.four_bar(), meshes=(mesh,), shapes=(Shape("mesh", (), np.eye(4), mesh="m"),))
    data = stdlib_json.loads(json.dumps(mech))
    words = data["meshes"][0]["vertices"]["base64"]
    data["meshes"][0]["vertices"]["base64"] = "AAAAAAAA8H8A" + words[12:]
    with pytest.raises(supple.MechanismError, match=r"^arm.json: meshes\[0\]: vertices of mesh 'm'"):
        json.loads(stdlib_json.dumps(data), "arm.json")


def small() -> dict:
    mech = replace(
        mechanisms.four_bar(),
        meshes=(Mesh("m", np.eye(3), [[0, 1, 2]]),),
        shapes=(Shape("mesh", (), np.eye(4), mesh="m"),),
        couplings=(supple.mechanism.Coupling("c", ("a", "b"), (1.0, 2.0), limits=(-1, 1)),),
    )
    return stdlib_json.loads(json.dumps(mech))


REMOVED = object()
FAULTS = {
    "joints[2].limits": (
        ["joints", 2, "limits"],
        [[1, 2, 3]],
        r"joints\[2\]\.limits\[0\]: must be a list of 2, got a list of 3",
    ),
    "upside down": (["joints", 2, "limits"], [[2, 1]], r"joints\[2\]: limits of 'c' are upside down"),
    "limits count": (
        ["joints", 2, "limits"],
        [[1, 2], [1, 2]],
        r"joints\[2\]: limits of joint 'c' \(1 axes\)",
    ),
    "text for number": (["bodies", 0, "mass"], "1", r"bodies\[0\]\.mass: must be a finite number, got '1'"),
    "true for number": (["bodies", 0, "mass"], True, r"bodies\[0\]\.mass: must be a finite number, got true"),
    "null for number": (["bodies", 1, "mass"], None, r"bodies\[1\]\.mass: must be a finite number, got null"),
    "number for text": (["bodies", 0, "name"], 5, r"bodies\[0\]\.name: must be a string, got 5"),
    "object for list": (["bodies"], {}, r"bodies: must be a list, got an object"),
    "list for object": (["joints", 1], [], r"joints\[1\]: must be an object .*got a list of 0"),
    "number in pose": (
        ["bodies", 0, "pose", 1, 2],
        "x",
        r"bodies\[0\]\.pose\[1\]\[2\]: must be a finite number",
    ),
    "ragged pose": (["bodies", 0, "pose", 1], [1, 2], r"bodies\[0\]\.pose\[1\]: must be a list of 4"),
    "no pose": (["bodies", 0, "pose"], REMOVED, r"bodies\[0\]: the key 'pose' is missing"),
    "bent pose": (["bodies", 0, "pose", 0, 0], 3, r"bodies\[0\]: pose of body 'crank' is not a rigid pose"),
    "unknown key": (
        ["joints", 0, "stifness"],
        [1],
        r"joints\[0\]: unknown key 'stifness'; did you mean 'stiffness'",
    ),
    "top key": (["joint"], [], r"unknown key 'joint'; did you mean 'joints'"),
    "negative mass": (["bodies", 2, "mass"], -1, r"bodies\[2\]: body 'rocker' has the negative mass"),
    "unknown body": (["joints", 0, "child"], "crnk", r"there is no body .*'a'.* named 'crnk'.*'crank'"),
    "unknown mesh": (["shapes", 0, "mesh"], "n", r"there is no mesh"),
    "unknown shape": (["shapes", 0, "kind"], "cone", r"shapes\[0\]: unknown shape kind 'cone'"),
    "mask": (
        ["shapes", 0, "contact_type"],
        1.5,
        r"shapes\[0\]\.contact_type: must be a whole number, got 1.5",
    ),
    "flag": (["couplings", 0, "rigid"], 1, r"couplings\[0\]\.rigid: must be true or false, got 1"),
    "curve": (
        ["joints", 0, "curves"],
        [{"torque": [1]}],
        r"joints\[0\]\.curves\[0\]: the key 'deflection' is missing",
    ),
    "twist": (
        ["joints", 0, "twists"],
        [[0, 0, 0, 2, 0, 0]],
        r"joints\[0\]: joint 'a' has an axis of length 2",
    ),
    "blocks": (["joints", 0, "blocks"], [2], r"joints\[0\]: joint 'a' has 1 axes"),
    "huge count": (
        ["meshes", 0, "vertices", "shape"],
        [10**18, 3],
        r"meshes\[0\]\.vertices: shape 10+ x 3 does not fit",
    ),
    "negative count": (
        ["meshes", 0, "faces", "shape"],
        [-1, 3],
        r"meshes\[0\]\.faces: shape -1 x 3 does not fit",
    ),
    "not base64": (["meshes", 0, "faces", "base64"], "*" * 16, r"meshes\[0\]\.faces\.base64: not base64"),
    "face": (
        ["meshes", 0, "faces", "base64"],
        "////" * 4,
        r"meshes\[0\]: mesh 'm' has a face that names a vertex",
    ),
    "short bytes": (
        ["meshes", 0, "faces", "base64"],
        "AAAAAAAAAAAAAA==",
        r"meshes\[0\]\.faces\.base64: 10 bytes",
    ),
    "not packed": (["meshes", 0, "faces"], [[0, 1, 2]], r"meshes\[0\]\.faces: must be \{\"shape\""),
    "no format": (["format"], REMOVED, r"not a mechanism file of supple"),
    "other format": (["format"], "urdf", r"not a mechanism file of supple"),
    "newer": (["version"], 2, r"version 2 was written by a newer supple.*update"),
    "zero version": (["version"], 0, r"version: must be a whole number"),
    "text version": (["version"], "1", r"version: must be a whole number"),
    "no version": (["version"], REMOVED, r"version: must be a whole number"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_the_place(fault):
    (*path, last), value, message = FAULTS[fault]
    data = small()
    where = data
    for key in path:
        where = where[key]
    if value is REMOVED:
        del where[last]
    else:
        where[last] = value
    with pytest.raises(supple.MechanismError, match="^arm.json: .*" + message):
        json.loads(stdlib_json.dumps(data), "arm.json")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"mass": 1', '"mass": NaN', "NaN is not a number"),
        ('"mass": 1', '"mass": -Infinity', "-Infinity is not a number"),
        ('"mass": 1', '"mass": 1e999', r"bodies\[0\]\.mass: must be a finite number"),
        ('"mass": 1', '"mass": ' + "9" * 5000, r"bodies\[0\]\.mass: must be a finite number"),
        ('"mass": 1', '"mass": 1, "mass": 2', r"bodies\[0\]: the key 'mass' is given twice"),
        ('"version": 1', '"version": 1, "version": 1', "the key 'version' is given twice"),
        ('"mass": 1', '"mass": ' + "[" * 100_000, "nested 100"),
        ('"mass": 1', '"mass": ' + '{"a":' * 100_000, "nested 100"),
        ('"mass": 1', '"mass": 1,', r"line 1, column \d+: "),
        ('"mass": 1', '"mass": "\\', r"line 1, column \d+: "),
    ],
)
def test_malicious_text(old, new, message):
    text = stdlib_json.dumps(small() | {"bodies": [{**b, "mass": 1} for b in small()["bodies"]]})
    with pytest.raises(supple.MechanismError, match=r"^arm.json: " + message):
        json.loads(text.replace(old, new, 1), "arm.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "1", '"x"', "{", "{}", '{"format": "supple-mechanism"}', "\ufeff"]
)
def test_not_a_mechanism(text):
    with pytest.raises(supple.MechanismError, match=r"^arm.json: "):
        json.loads(text, "arm.json")


def test_every_truncated_file_is_an_error():
    text = json.dumps(everything())
    for end in range(0, len(text) - 2, max(1, len(text) // 300)):
        with pytest.raises(supple.MechanismError):
            json.loads(text[:end])


def test_mutated_files_give_errors_only():
    """A changed file gives a `MechanismError` or a mechanism."""
    rng = np.random.default_rng(0)
    text = json.dumps(replace(everything(), meshes=(), shapes=(), bodies=_bare(everything())))
    pieces = [
        "",
        "null",
        "-1",
        "[]",
        "{}",
        '"world"',
        "1e308",
        "0",
        ",",
        "]",
        "}",
        '"',
        "true",
        "[[",
        "\\u0000",
        "3",
    ]
    for _ in range(1500):
        start, length = rng.integers(len(text)), int(rng.integers(8))
        changed = text[:start] + str(rng.choice(pieces)) + text[start + length :]
        with contextlib.suppress(supple.MechanismError):
            json.loads(changed)


def _bare(mech):
    return tuple(replace(body, shapes=()) for body in mech.bodies)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(supple.MechanismError, match=r"missing.json: cannot read"):
        json.load(tmp_path / "missing.json")
    with pytest.raises(supple.MechanismError, match="cannot read"):
        json.load(tmp_path)
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(supple.MechanismError, match=r"latin.json: not UTF-8"):
        json.load(tmp_path / "latin.json")
    with pytest.raises(supple.MechanismError, match="cannot write"):
        json.save(mechanisms.four_bar(), tmp_path / "nowhere" / "x.json")
    json.save(mechanisms.four_bar(), tmp_path / "arm.json")
    monkeypatch.setattr(json, "MAX_BYTES", 100)
    with pytest.raises(supple.MechanismError, match=r"arm.json: larger than"):
        json.load(tmp_path / "arm.json")


def test_too_many_containers(monkeypatch):
    monkeypatch.setattr(json, "MAX_CONTAINERS", 10)
    with pytest.raises(supple.MechanismError, match="more than 10 lists and objects"):
        json.loads(json.dumps(mechanisms.four_bar()))
