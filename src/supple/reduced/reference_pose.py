"""Reference poses at which a mechanism can be linearised."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from supple.engine.linearisation import REMEDY
from supple.errors import RangeWarning
from supple.mechanism import Mechanism
from supple.mechanism.record import Array


def without_broken_limits(mech: Mechanism) -> Mechanism:
    """The mechanism without those limits that its reference pose violates, which would lock their coordinates; warns
    of each."""
    joints = list(mech.joints)
    for i, joint in enumerate(joints):
        outside = _violated_limits(joint.limits, joint.reference)
        if not outside.any():
            continue
        for k in np.flatnonzero(outside.any(axis=1)):
            _warn(mech, joint.axes[k], float(joint.reference[k]), joint.limits[k])
        joints[i] = replace(joint, limits=np.where(outside, [-np.inf, np.inf], joint.limits))
    reference = {name: value for joint in mech.joints for name, value in zip(joint.axes, joint.reference, strict=True)}
    couplings = list(mech.couplings)
    for i, c in enumerate(couplings):
        length = float(c.coefficients @ [reference[name] for name in c.coordinates])
        outside = _violated_limits(c.limits[None], np.array([length]))[0]
        if outside.any():
            _warn(mech, c.name, length, c.limits)
            couplings[i] = replace(c, limits=np.where(outside, [-np.inf, np.inf], c.limits))
    if joints == list(mech.joints) and couplings == list(mech.couplings):
        return mech
    return replace(mech, joints=tuple(joints), couplings=tuple(couplings))


def _violated_limits(limits: Array, values: Array) -> Array:
    """(k, 2) whether each value is below its lower limit, and above its upper."""
    beyond: Array = np.stack([values < limits[:, 0] - 1e-9, values > limits[:, 1] + 1e-9], axis=1)
    return beyond


def _warn(mech: Mechanism, name: str, value: float, limits: Array) -> None:
    warnings.warn(
        RangeWarning(
            f"'{name}' of '{mech.name}' is at {value:g} at the reference pose, outside its limits {limits[0]:g} ... "
            f"{limits[1]:g} by {max(limits[0] - value, value - limits[1]):.3g}; the model leaves this limit out. To "
            f"keep it, {REMEDY}"
        ),
        stacklevel=4,
    )
