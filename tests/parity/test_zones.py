"""The compiled skin against its twin in NumPy."""

import numpy as np
import pytest

import supple
from supple import MechanismError, zones

BENT = [(0.0, 0.0, 0.0), (0.1, 0.7, 0.5), (-0.2, 1.4, 1.1)]


@pytest.fixture(scope="module")
def finger():
    return zones.finger(cells=(10, 6, 2))


@pytest.mark.filterwarnings("ignore::supple.RangeWarning")
@pytest.mark.parametrize("basis", [None, 8, 0])
def test_a_moving_skin_agrees_with_its_twin(finger, basis):
    skin = finger.skin
    if basis is not None:
        skin = skin.with_seam_basis(basis) if basis else skin.with_blended_seams()
    moving = skin.moving()
    seam = np.intersect1d(skin.touch, skin.seam_vertices(1))
    chosen = np.concatenate([seam[:2], skin.touch[::9]])
    for q in BENT:
        twin = skin.at(q)
        moving.move(supple.kinematics(finger.mechanism, q))
        vertices = twin.solve().vertices
        assert moving.energy == pytest.approx(twin.energy(), rel=1e-10, abs=1e-18)
        assert np.abs(moving.vertices() - vertices).max() < 1e-8
        assert np.abs(moving.points(chosen) - vertices[chosen]).max() < 1e-14
        points = twin.pad(chosen)
        order = [int(np.flatnonzero(points.vertices == vertex)[0]) for vertex in chosen]
        rows = (3 * np.array(order)[:, None] + np.arange(3)).ravel()
        expected = points.compliance[np.ix_(rows, rows)]
        assert np.abs(moving.compliance(chosen) - expected).max() < 1e-12 * np.abs(expected).max()


def test_a_moving_skin_refuses_bad_poses_and_vertices(finger):
    moving = finger.skin.moving()
    poses = finger.mechanism.poses.array.copy()
    poses[0, 0, 3] = np.nan
    with pytest.raises(MechanismError, match="finite"):
        moving.move(supple.mechanism.Poses(finger.mechanism, poses))
    with pytest.raises(MechanismError, match="range"):
        moving.move((0, 3.0, 0))
    inner = np.setdiff1d(np.arange(finger.skin.vertex_count), finger.skin.touch)[0]
    with pytest.raises(MechanismError, match="cannot be touched"):
        moving.compliance([inner])
