"""Damaged and malicious files, 2,000 of them (10,000 with `-m long`): the loaders return a mechanism or raise a
MechanismError."""

from __future__ import annotations

import copy
import json
import os
import re
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import supple
from supple.mechanism.io import json as own_json

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
INCLUDED = '<mujoco><worldbody><body name="inner"><joint/><geom size=".1"/></body></worldbody></mujoco>'
MJCF = """<mujoco model="seed">
  <compiler angle="radian" autolimits="true"/>
  <option gravity="0 0 -9.81" timestep="0.002"/>
  <default><default class="c"><joint armature="0.01" damping="0.1"/><geom rgba="1 0 0 1"/></default></default>
  <asset>
    <mesh name="t" file="tetrahedron.obj" scale="0.1 0.1 0.1"/>
    <texture name="grid" type="2d" builtin="checker" width="64" height="64"/>
    <material name="m" texture="grid" rgba="0 1 0 1"/>
  </asset>
  <include file="part.xml"/>
  <worldbody>
    <geom type="plane" size="1 1 .1"/>
    <body name="base" pos="0 0 1" childclass="c">
      <freejoint name="float"/>
      <geom type="mesh" mesh="t" material="m"/>
      <body name="upper" pos="0 0 .2" euler="0.1 0.2 0.3">
        <joint name="a" axis="1 0 0" range="-1 1" stiffness="5" springref="0.2"/>
        <joint name="b" type="slide" axis="0 1 0" ref="0.1"/>
        <geom type="capsule" fromto="0 0 0 0 0 .3" size=".02" mass="0.5"/>
        <body name="lower" pos="0 0 .3">
          <joint name="c" type="ball" pos="0 0 .01"/>
          <inertial mass="1" pos="0 0 .1" diaginertia=".01 .01 .005"/>
          <site name="tip" pos="0 0 .2"/>
        </body>
      </body>
      <replicate count="3" euler="0 0 1"><body><joint axis="0 1 0"/><geom size=".01"/></body></replicate>
    </body>
  </worldbody>
  <contact><exclude body1="base" body2="upper"/></contact>
  <tendon><fixed name="t" stiffness="2"><joint joint="a" coef="1"/><joint joint="b" coef="-2"/></fixed></tendon>
  <equality><connect body1="base" body2="lower" anchor="0 0 .5"/><joint joint1="a" joint2="b" polycoef="0 1 0 0 0"/>
  </equality>
  <actuator><position joint="a" kp="10" kv="1" ctrlrange="-1 1"/><position tendon="t" kp="3"/></actuator>
  <sensor><jointpos joint="a"/></sensor>
  <keyframe><key name="home" qpos="0 0 1 1 0 0 0 .1 .2 1 0 0 0 .1 .1 .1 0"/></keyframe>
</mujoco>
"""
URDF = """<?xml version="1.0"?>
<robot name="arm">
  <material name="blue"><color rgba="0 0 1 1"/></material>
  <link name="base"><visual><geometry><box size=".1 .1 .1"/></geometry><material name="blue"/></visual></link>
  <link name="upper">
    <inertial><origin xyz="0 0 .1" rpy="0 0 .1"/><mass value="1"/>
      <inertia ixx=".01" iyy=".01" izz=".005" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><mesh filename="package://arm/tetrahedron.obj" scale=".1 .1 .1"/></geometry></collision>
  </link>
  <link name="lower"><inertial><mass value=".5"/>
    <inertia ixx=".01" iyy=".01" izz=".005" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="tool"/>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="10" velocity="1"/><dynamics damping=".1" friction=".01"/></joint>
  <joint name="elbow" type="prismatic"><parent link="upper"/><child link="lower"/><origin xyz="0 0 .2"/>
    <axis xyz="0 0 1"/><limit lower="0" upper="1" effort="10" velocity="1"/>
    <mimic joint="shoulder" multiplier=".5" offset=".1"/></joint>
  <joint name="mount" type="fixed"><parent link="lower"/><child link="tool"/><origin xyz="0 0 .2"/></joint>
</robot>
"""
NUMBERS = [b"nan", b"inf", b"-inf", b"1e308", b"-1e308", b"1e400", b"1e-320", b"-1", b"0", b"99999999999",
           b"2147483648", b"-2147483649", b"1e20", b"3.5", b"", b"0x10", b"1 2 3 4 5 6 7 8", b"1e9"]  # fmt: skip
NUMBER = re.compile(rb"-?\d*\.?\d+(?:e-?\d+)?")
WORD = re.compile(rb"[A-Za-z_]+")
NAMES = [b"body", b"joint", b"geom", b"mesh", b"site", b"replicate", b"composite", b"flexcomp", b"include",
         b"plugin", b"link", b"frame", b"world", b"free", b"ball", b"hfield", b"skin", b"model", b"attach",
         b"size", b"muscle", b"weld", b"spatial", b"file", b"count", b"name", b"class", b"type", b"twists",
         b"bodies", b"null", b"NaN"]  # fmt: skip


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """One to four random injuries: to the bytes, or to the document so that it stays well-formed."""
    document = rng.random() < 0.6
    for _ in range(rng.integers(1, 5)):
        if not document or not data.startswith((b"{", b"<")):
            data = INJURIES[rng.integers(len(INJURIES))](data, rng)
        else:
            data = injure_json(data, rng) if data.startswith(b"{") else injure_xml(data, rng)
    return data


def injure_xml(data: bytes, rng: np.random.Generator) -> bytes:
    """Moves, copies, removes or renames an element, or gives an attribute another value."""
    root = ElementTree.fromstring(data)
    elements = list(root.iter())
    one, other = (elements[i] for i in rng.integers(len(elements), size=2))
    keys = list(one.attrib)
    match rng.integers(9):
        case 0 if other not in list(one.iter()):
            other.append(one)
        case 1:
            one.extend([copy.deepcopy(other)] * int(rng.integers(1, 4)))
        case 2 if len(one):
            one.remove(one[rng.integers(len(one))])
        case 3:
            one.tag = elements[rng.integers(len(elements))].tag if rng.random() < 0.7 else word(rng)
        case 4 if keys:
            del one.attrib[keys[rng.integers(len(keys))]]
        case 5 if other.attrib:
            one.attrib.update(other.attrib)
        case _ if keys:
            key = keys[rng.integers(len(keys))]
            if rng.random() < 0.2:
                one.set(key, word(rng))
            else:
                one.set(key, renumber(one.attrib[key].encode(), rng).decode())
    return ElementTree.tostring(root)


def injure_json(data: bytes, rng: np.random.Generator) -> bytes:
    """Replaces, removes or copies one value anywhere."""
    root = json.loads(data)
    places: list[tuple[Any, Any]] = []
    stack = [root]
    while stack:
        here = stack.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here))
        places += [(here, key) for key in keys]
        stack += [here[key] for key in keys if isinstance(here[key], dict | list)]
    if places:
        here, key = places[rng.integers(len(places))]
        there, other = places[rng.integers(len(places))]
        match rng.integers(4):
            case 0:
                del here[key]
            case 1:
                here[key] = copy.deepcopy(there[other])
            case 2:
                here[key] = [None, True, "", "world", [], {}, -1, 0, 1e308, float("nan"), 10**400][rng.integers(11)]
            case _ if isinstance(here[key], int | float):
                here[key] = float(rng.choice([-1.0, 1e308, 1e-320, 2.0])) * here[key]
    return json.dumps(root, separators=(",\n", ": ")).encode()  # `indent` would take ten times as long


def word(rng: np.random.Generator) -> str:
    return NAMES[rng.integers(len(NAMES))].decode()


def flip(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        if changed:
            changed[rng.integers(len(changed))] = rng.integers(256)
    return bytes(changed)


def truncate(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data) + 1)]


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    start = rng.integers(len(data) + 1)
    return data[:start] + data[start + rng.integers(40) :]


def duplicate(data: bytes, rng: np.random.Generator) -> bytes:
    start = rng.integers(len(data) + 1)
    return data[:start] + data[start : start + rng.integers(200)] * int(rng.integers(2, 4)) + data[start:]


def duplicate_line(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    at = rng.integers(len(lines))
    return b"".join([*lines[:at], *[lines[at]] * int(rng.integers(0, 4)), *lines[at + 1 :]])


def renumber(data: bytes, rng: np.random.Generator) -> bytes:
    return _replace(data, NUMBER, NUMBERS[rng.integers(len(NUMBERS))], rng)


def rename(data: bytes, rng: np.random.Generator) -> bytes:
    words = NAMES if rng.random() < 0.5 else WORD.findall(data) or NAMES
    return _replace(data, WORD, words[rng.integers(len(words))], rng)


def rename_everywhere(data: bytes, rng: np.random.Generator) -> bytes:
    words = WORD.findall(data) or NAMES
    return data.replace(words[rng.integers(len(words))], NAMES[rng.integers(len(NAMES))])


def nest(data: bytes, rng: np.random.Generator) -> bytes:
    depth = int(rng.choice([3, 30, 400, 3000]))
    opening, closing = [(b"<body>", b"</body>"), (b"[", b"]"), (b'{"a":', b"}")][rng.integers(3)]
    start = rng.integers(len(data) + 1)
    return data[:start] + opening * depth + closing * depth + data[start:]


def _replace(data: bytes, pattern: re.Pattern[bytes], by: bytes, rng: np.random.Generator) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    chosen = found[rng.integers(len(found))]
    return data[: chosen.start()] + by + data[chosen.end() :]


INJURIES = [flip, truncate, cut, duplicate, duplicate_line, renumber, renumber, renumber, rename, rename]
INJURIES += [rename_everywhere, nest]


def own_format(folder: Path) -> str:
    path = folder / "seed.json"
    own_json.save(supple.library.ladder(rungs=2), path)
    return path.read_text()


def attack(kind: str, count: int, seed: int, folder: Path) -> tuple[int, int]:
    """Loads mutated files; returns how many were mechanisms and how many were refused."""
    (folder / "tetrahedron.obj").write_text(TETRAHEDRON)
    (folder / "part.xml").write_text(INCLUDED)
    text = {"xml": lambda: MJCF, "urdf": lambda: URDF, "json": lambda: own_format(folder)}[kind]().encode()
    rng = np.random.default_rng(seed)
    path = folder / f"case.{kind}"
    path.write_bytes(text)
    supple.load(path)  # the seed itself is sound
    before = sorted(os.listdir(folder))
    loaded = refused = 0
    for _ in range(count):
        case = mutate(text, rng)
        path.write_bytes(case)
        try:
            supple.load(path)
            loaded += 1
        except supple.MechanismError as error:
            refused += bool(str(error))
    assert sorted(os.listdir(folder)) == before
    assert loaded + refused == count
    return loaded, refused


@pytest.mark.parametrize("share", [0.1, pytest.param(1.0, marks=pytest.mark.long)])
@pytest.mark.parametrize(("kind", "most"), [("xml", 5000), ("urdf", 2500), ("json", 2500)])
def test_damaged_files(kind: str, most: int, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, files = tmp_path / "elsewhere", tmp_path / "files"
    empty.mkdir()
    files.mkdir()
    monkeypatch.chdir(empty)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", supple.ImportWarning)
        loaded, refused = attack(kind, int(share * most), seed=2, folder=files)
    assert loaded > 0
    assert refused > 0
    assert os.listdir(empty) == []
