"""Recordings and logs of anything that moves: simulations and worlds."""

from supple.recording.log import Log
from supple.recording.recorder import FrameWriter, Recorder, SoftSurface
from supple.recording.recording import Recording

__all__ = ["FrameWriter", "Log", "Recorder", "Recording", "SoftSurface"]
