"""Inertias in MJCF files that MuJoCo's compiler refuses."""

from __future__ import annotations

import numpy as np

from supple.mechanism.coupling import ImportNote
from supple.mechanism.io.mended_inertia import (
    breaks_triangle_inequality,
    has_negative_moment,
    moments_text,
    nearest_inertia,
)
from supple.mechanism.io.xml_tree import Element
from supple.mechanism.record import Array

LEAST_MOMENT = 1e-14
"""kg m^2; MuJoCo refuses moving bodies with moments of 1e-15 and below."""
FORMS = {"diaginertia": 3, "fullinertia": 6}


def mend_inertia(element: Element, notes: list[ImportNote]) -> None:
    """Replaces an inertia of an <inertial> that no body can have by the nearest physical one, and notes it."""
    for key, count in FORMS.items():
        inertia = _matrix(element.attributes.get(key, ""), count)
        if inertia is None or not inertia.any():
            continue
        if not breaks_triangle_inequality(inertia, 1e-12) and not has_negative_moment(inertia, 0.0):
            continue
        mended = nearest_inertia(inertia, LEAST_MOMENT) + LEAST_MOMENT * np.eye(3)
        # a margin against rounding: MuJoCo computes the principal moments again
        mended += 1e-12 * np.trace(mended) * np.eye(3)
        entries = mended[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]][:count]
        element.attributes[key] = " ".join(repr(float(value)) for value in entries)
        reason = (
            f"no body can have the principal moments {moments_text(inertia)} kg m^2; "
            f"the nearest physical inertia is used ({moments_text(mended)})"
        )
        notes.append(ImportNote(f"inertial in {element.file}, line {element.line}", reason))


def _matrix(text: str, count: int) -> Array | None:
    """(3, 3) of an attribute with `count` numbers; None if it has not as many (MuJoCo's compiler then raises)."""
    try:
        values = np.array([float(token) for token in text.split()])
    except ValueError:
        return None
    if len(values) != count:
        return None
    if count == 3:
        return np.diag(values)
    xx, yy, zz, xy, xz, yz = values
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
