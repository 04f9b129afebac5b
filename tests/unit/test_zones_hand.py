"""A hand: strips of the palm's pad that curl into the section of a finger's pads; the skin from palm to fingertips."""

from itertools import pairwise

import numpy as np
import pytest

from monolithic_skin import monolithic
from supple import MechanismError, zones
from supple.elastic.linear import shape_gradients
from supple.zones.layout import placed

COARSE = (6, 4, 2)
FINGERS = ("thumb", "index", "middle", "ring", "little")
SIZE = 0.2
"""m, length of the hand."""


@pytest.fixture(scope="module", params=[True, False], ids=["half-way zones", "pads only"])
def hand(request):
    return zones.hand(cells=COARSE, halfway=request.param)


def angles(mechanism, **by_joint):
    """Coordinates in which all fingers have the same angles (rad) of their joints."""
    return np.array([by_joint.get(name.partition("/")[2], 0.0) for name in mechanism.coordinates])


def loaded(skin, seed):
    """Random forces on touch vertices of every zone."""
    rng = np.random.default_rng(seed)
    forces = np.zeros((skin.vertex_count, 3))
    for own in skin.touch_of_zone.values():
        forces[rng.choice(own, 2)] = 0.01 * rng.standard_normal((2, 3))
    return forces


def test_the_end_of_a_strip_has_the_nodes_of_a_pad():
    """A strip without a flat part and one that turns, too; no cell is inverted."""
    size = {"bone": 4e-3, "skin": 9e-3, "arc": 2.5}
    ring = zones.pad(0.01, start=0.02, **size, cells=(2, 6, 2))
    start = ring.nodes[ring.groups["start"]]
    flat = np.linspace(-0.03, 0, 4)
    for ticks, turn in ((np.linspace(0, 0.02, 6), 0.0), (np.append(flat[:-1], np.linspace(0, 0.02, 6)), 0.6)):
        strip = zones.curled_strip(ticks, 0.02, 0.03, **size, turn=turn, cells=(6, 2))
        end = strip.nodes[strip.groups["end"]]
        c, s = np.cos(turn), np.sin(turn)
        radius = 0.02 / turn if turn else 0.0
        centre = [radius * s, radius * (1 - c), 0] if turn else [0.02, 0, 0]
        turned = (start - [0.02, 0, 0]) @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
        assert np.allclose(end, turned + centre, atol=1e-12)
        assert shape_gradients(strip.nodes, strip.cells)[1].min() > 0
        left = strip.nodes[strip.groups["left"]]
        assert np.allclose(left[:, 1], 0.015, atol=1e-10)
        assert left[:, 0].max() <= 1e-10
        assert np.allclose(np.unique(left[:, 2].round(9)), [-9e-3, -6.5e-3, -4e-3])
    # it has constant thickness where it curls, as a ring has
    inner, outer = (strip.nodes[strip.groups[name]] for name in ("bone", "outer"))
    assert np.allclose(np.linalg.norm(outer - inner, axis=1), 5e-3, rtol=1e-6)


def test_bad_strips_are_refused():
    with pytest.raises(MechanismError, match="rising places"):
        zones.curled_strip([0, 0.01, 0.005], 0.01)
    with pytest.raises(MechanismError, match="folds at its inner side"):
        zones.curled_strip([0, 0.01], 0.01, 0.04, turn=0.6)
    with pytest.raises(MechanismError, match="must exceed the bone's radius"):
        zones.curled_strip([0, 0.01], 0.01, bone=0.01, skin=0.005)
    with pytest.raises(MechanismError, match="must be positive"):
        zones.curled_strip([0, 0.01], 0.0)


def test_a_hand_is_one_skin_with_equal_fingers(hand):
    skin = hand.skin
    halfway = "index/knuckle" in skin.zones
    assert len(skin.zones) == (35 if halfway else 20)
    # a finger's zones are a chain that starts at its part of the palm; the parts are bonded side by side
    names = list(skin.zones)
    bonded = {frozenset(names[k] for k in seam.zones) for seam in skin.seams}
    beside = list(pairwise(FINGERS))
    first = "knuckle" if halfway else "proximal"
    assert {frozenset((f"{a}/palm", f"{b}/palm")) for a, b in beside} <= bonded
    assert {frozenset((f"{name}/palm", f"{name}/{first}")) for name in FINGERS} <= bonded
    assert len(bonded) == len(names) - 1
    for zone in ("proximal", "distal") + (("knuckle",) if halfway else ()):
        assert len({id(skin.zones[f"{name}/{zone}"].greens) for name in FINGERS}) == 1
    assert skin.zones["middle/palm"].greens is skin.zones["ring/palm"].greens
    if halfway:
        assert skin.zones["thumb/knuckle"].greens is skin.zones["little/dip"].greens
        assert skin.bodies["ring/knuckle"] == ("palm", "ring/proximal")


@pytest.mark.filterwarnings("ignore::supple.RangeWarning")
def test_a_hand_agrees_with_the_monolithic_solve(hand):
    """In a bent pose and under forces on all zones; forces of the zones cancel at the seams, but for the load."""
    skin = hand.skin
    where = angles(hand.mechanism, knuckle=0.5, pip=0.6, dip=0.4) * np.linspace(0.7, 1.1, hand.mechanism.dof)
    forces = loaded(skin, 1)
    vertices, per_zone = monolithic(skin, where, forces)
    shape = skin.at(where).solve(forces)
    assert np.abs(shape.vertices - vertices).max() < 1e-10 * SIZE
    total, largest = np.zeros((skin.vertex_count, 3)), 0.0
    frames, carried = skin.frames(where)
    for k, (name, zone) in enumerate(skin.zones.items()):
        x, f = per_zone[k]
        assert np.abs(shape.seam_forces[name] - f[zone.seam]).max() < 1e-10 * np.abs(f).max()
        own = np.flatnonzero(skin.vertex_of[k] >= 0)
        assert np.allclose(x[own], shape.vertices[skin.vertex_of[k][own]], rtol=0, atol=1e-10 * SIZE)
        np.add.at(total, skin.vertex_of[k][zone.seam], shape.seam_forces[name])
        largest = max(largest, float(np.abs(f).max()))
        assert np.abs(f.sum(axis=0)).max() < 1e-11 * np.abs(f).sum()
        assert np.abs(np.cross(placed(zone.nodes, frames[k]), f).sum(axis=0)).max() < 1e-11 * np.abs(f).sum()
        # nodes on the bones of different bodies move with their own bodies
        for nodes, pose in zip(zone.bones.values(), carried[k], strict=True):
            assert np.allclose(x[nodes], placed(zone.nodes[nodes], pose), rtol=0, atol=1e-12)
    at_seams = np.unique(np.concatenate([skin.seam_vertices(i) for i in range(len(skin.seams))]))
    assert np.abs(total[at_seams] - forces[at_seams]).max() < 1e-10 * largest
    if "index/knuckle" not in skin.zones:  # every zone has a bone of its own
        by_forces = skin.at(where, solver="forces").solve(forces)
        assert np.abs(by_forces.vertices - vertices).max() < 1e-10 * SIZE
    moving = skin.moving()
    moving.move(where)
    assert np.abs(moving.vertices() - skin.at(where).solve().vertices).max() < 1e-6 * SIZE


def test_a_knuckle_bends_over_its_range_and_moves_the_palm():
    """Volume ratios of the half-way zones stay as high as those of a finger's other joints, and the palm's skin moves
    beside a bending knuckle only."""
    hand = zones.hand(cells=(10, 6, 2))
    skin, mechanism = hand.skin, hand.mechanism
    rest = skin.at().solve()
    assert rest.volume_ratio == pytest.approx(1, abs=1e-9)
    ratios = [skin.at(angles(mechanism, knuckle=angle)).solve().volume_ratio for angle in (-0.35, 0.75, 1.5)]
    assert ratios[0] > 0.85
    assert ratios[1] > 0.75
    assert ratios[2] > 0.25
    one = mechanism.reference.copy()
    one[mechanism.coordinates.index("index/knuckle")] = 0.75
    moved = np.linalg.norm(skin.at(one).solve().vertices - rest.vertices, axis=1)
    own, beside, far = (moved[skin.touch_of_zone[f"{name}/palm"]].max() for name in ("index", "middle", "little"))
    assert own > 3e-4
    assert beside < 0.2 * own
    assert far < 0.02 * beside
    torque = zones.SoftMechanism(mechanism, skin)._torque(mechanism.coordinates.index("index/knuckle"), 0.5)
    assert torque > 0


def test_seams_of_zones_on_one_body_need_one_inverse(hand):
    """Those of the palm's pad, which never turn."""
    skin = hand.skin
    where = angles(hand.mechanism, knuckle=0.4, pip=0.4, dip=0.4)
    posed = skin.with_interpolated_seams([None, where]).at(where, solver="interpolated").solve()
    assert np.allclose(posed.vertices, skin.at(where, solver="diagonal").solve().vertices, rtol=0, atol=1e-12)
