"""Elastic zones: soft pads on moving bones, described by precomputed Green's functions and bonded at seams.

A `Zone` is a linear elastic pad in the frame of its bone. A `Skin` bonds zones on the bodies of a mechanism and follows
its poses.
"""

from supple.zones.blending import BlendedVertices
from supple.zones.boundary import BoundaryChange
from supple.zones.generate import block, curled_strip, pad
from supple.zones.greens import GreensFunctions
from supple.zones.moving import MovingSkin
from supple.zones.points import Taxels
from supple.zones.posed import PosedSkin, SkinShape
from supple.zones.probe import Probe, ProbeStatistics
from supple.zones.scenes import soft_hand
from supple.zones.skin import Attached, Skin
from supple.zones.soft import SoftMechanism, finger, hand
from supple.zones.zone import Zone
from supple.zones.zone_files import load

__all__ = [
    "Attached",
    "BlendedVertices",
    "BoundaryChange",
    "GreensFunctions",
    "MovingSkin",
    "PosedSkin",
    "Probe",
    "ProbeStatistics",
    "Skin",
    "SkinShape",
    "SoftMechanism",
    "Taxels",
    "Zone",
    "block",
    "curled_strip",
    "finger",
    "hand",
    "load",
    "pad",
    "soft_hand",
]
