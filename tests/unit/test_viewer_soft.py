"""The page of a mechanism with a skin."""

import socket

import numpy as np
import pytest

from supple import zones
from supple.viewer.showing import viewing_skin
from supple.viewer.soft import MAP, RADIUS, SoftSession, colours


@pytest.fixture(scope="module")
def finger(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        soft = zones.finger(cells=(6, 8, 2), halfway=False)
        soft.skin.prepare()
        yield soft


def test_a_skin_is_bent_and_poked(finger):
    session = SoftSession(finger, 8)
    frame = session.frame()
    assert "does not touch" in frame.text
    assert len(frame.touched) == 0
    session.bend("pip", 0.4)
    bent = session.frame()
    assert np.abs(bent.vertices - frame.vertices).max() > 5e-3
    session.bend("pip", 9.0)
    assert session.q[1] == 1.6  # its limit
    session.bend("pip", 0.0)
    low = frame.vertices[:, 2].min()
    for depth in (5e-4, 1e-3, 0.5):  # a ball far inside is drawn back
        session.poke([0.011, 0, low - RADIUS + depth])
        poked = session.frame()
        if depth < 0.1:
            assert poked.pressures.max() > 0
            assert poked.flat.shape == (*MAP, 3)
            assert len(np.unique(poked.flat.reshape(-1, 3), axis=0)) > 1
        assert np.isfinite(poked.vertices).all()


def test_colours_go_from_dark_to_bright():
    shown = colours(np.array([0.0, 1.0, 2.0]), 2.0).astype(int).sum(axis=1)
    assert (np.diff(shown) > 0).all()
    assert colours(np.zeros(2), 0.0).shape == (2, 3)


def test_the_page_is_served(finger):
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = trial.getsockname()[1]
    with viewing_skin(finger, port=port) as page:
        low = finger.skin.at().solve().vertices[:, 2].min()
        page.session.poke([0.011, 0, low - RADIUS + 5e-4])
        page.draw()
        assert len(page._points.points) > 0
        assert "Force" in page._text.content
