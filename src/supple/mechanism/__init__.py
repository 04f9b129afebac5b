"""The description of a mechanism: frozen data, checked at construction."""

from supple.mechanism.actuator import Actuator
from supple.mechanism.assembling import Assembly, assemble
from supple.mechanism.body import WORLD, Body, Site
from supple.mechanism.builder import Builder
from supple.mechanism.coupling import Coupling, ImportNote, Keyframe, Motor
from supple.mechanism.inverse_kinematics import InverseKinematics, inverse_kinematics
from supple.mechanism.joining import Split, attach
from supple.mechanism.joint import Curve, Joint
from supple.mechanism.kinematics import Kinematics, jacobian, kinematics, mass_matrix
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.poses import Poses
from supple.mechanism.shapes import Mesh, Shape

__all__ = [
    "WORLD",
    "Actuator",
    "Assembly",
    "Body",
    "Builder",
    "Coupling",
    "Curve",
    "ImportNote",
    "InverseKinematics",
    "Joint",
    "Keyframe",
    "Kinematics",
    "Mechanism",
    "Mesh",
    "Motor",
    "Poses",
    "Shape",
    "Site",
    "Split",
    "assemble",
    "attach",
    "inverse_kinematics",
    "jacobian",
    "kinematics",
    "mass_matrix",
]
