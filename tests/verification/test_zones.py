"""Zones and skins against closed forms of linear elasticity."""

import numpy as np
import pytest

import supple
from supple import elastic, spatial, zones

SIDE, HEIGHT = 0.02, 0.005
SKIN = elastic.Material(young=1e5, poisson=0.45, density=1e3)


def on_faces(x):
    """All faces but the bottom."""
    return (x[:, 2] > -1e-9) | (np.abs(np.abs(x[:, :2]) - SIDE / 2) < 1e-9).any(axis=1)


@pytest.mark.parametrize("direction", range(3))
def test_uniform_strain_of_a_block(direction):
    """Compression without lateral strain has the modulus lambda + 2 mu, simple shear mu."""
    solid = zones.block((SIDE, SIDE, HEIGHT), (3, 4, 5), growth=1.3)
    zone = zones.Zone.from_solid(solid, SKIN, bone="bottom", seam=on_faces)
    strain = 0.01
    displacement = np.zeros((len(zone.seam), 3))
    displacement[:, direction] = strain * (HEIGHT + zone.nodes[zone.seam, 2])
    held = np.concatenate([displacement.ravel(), np.zeros(12)])
    force = (zone.greens.stiffness @ held)[: 3 * len(zone.seam)].reshape(-1, 3)
    bone = (zone.greens.stiffness @ held)[-3:]
    mu, lam = SKIN.lame
    modulus = lam + 2 * mu if direction == 2 else mu
    assert bone[direction] == pytest.approx(-modulus * strain * SIDE**2, rel=1e-10)
    assert np.allclose(force.sum(axis=0), -bone, atol=1e-12 * np.abs(force).sum())
    energy = 0.5 * held @ zone.greens.stiffness @ held
    assert energy == pytest.approx(0.5 * modulus * strain**2 * SIDE**2 * HEIGHT, rel=1e-10)


def test_two_blocks_share_a_stretch_as_one_bar():
    """Two bodies are pulled apart; the bar between them, two bonded zones with free sides, has the stiffness E A / l of
    a slender bar, with the ends' constraint within 2 %."""
    length, width = 0.1, 0.004
    solid = zones.block((length, width, width), (25, 2, 2))
    builder = supple.Builder("bar")
    for i in range(2):
        builder.body(f"b{i}", spatial.translation(np.array([length * i, 0, 0])), mass=1.0, inertia=(1e-4,) * 3)
        builder.slide(f"s{i}", "world", f"b{i}", at=(0, 0, 0), axis="x")
    first = zones.Zone.from_solid(solid, SKIN, bone="left", seam="right")
    second = zones.Zone.from_solid(solid, SKIN, bone="right", seam="left")
    attached = {"a": zones.Attached(first, "b0"), "b": zones.Attached(second, "b1")}
    skin = zones.Skin(builder.build(), attached)
    pulled = 1e-3
    shape = skin.at([0, pulled]).solve()
    stiffness = SKIN.young * width**2 / (2 * length)
    assert shape.energy == pytest.approx(0.5 * stiffness * pulled**2, rel=0.02)
    assert shape.bone_wrenches["b0"][0] == pytest.approx(stiffness * pulled, rel=0.02)
    assert shape.bone_wrenches["b0"] == pytest.approx(-shape.bone_wrenches["b1"], abs=1e-9)
    middle = shape.vertices[skin.seam_vertices(0), 0]
    assert middle == pytest.approx(length / 2 + pulled / 2, abs=1e-9)
