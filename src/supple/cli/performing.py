"""The recording of a character that performs its motion."""

from __future__ import annotations

import warnings

import supple
from supple.mechanism.poses import find
from supple.recording import Recording
from supple.retargeting import characters
from supple.viewer.side_by_side import retargeted_recording

TIME_STEP = 5e-3
"""s."""


def performance(name: str, motion: str) -> Recording:
    """Target, given motion and optimised one of a character, side by side. The optimised curves are the stored ones."""
    known = characters.CHARACTERS
    find(list(known), name, "character with motions")
    own = known[name].keyframes.__name__
    find([own], motion, f"motion of '{name}'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)
        return retargeted_recording(characters.stored(name, dt=TIME_STEP))
