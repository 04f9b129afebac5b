"""Equalities with a mocap body: the user moves the mocap body, and soft constraints drag the robot along."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism.io.compiler import Model
from supple.mechanism.joint import Joint
from supple.mechanism.record import Array

DRAGGED = (
    "is a bushing to the mocap body, as stiff as MuJoCo's constraint at its largest impedance; "
    "`sim.set_target('{}', [x, y, z, rx, ry, rz])` moves the pose that it pulls to, as data.mocap_pos and mocap_quat do"
)
LETTERS = ("x", "y", "z", "rx", "ry", "rz")
SOFTEST, STIFFEST = 1e-4, 0.9999
"""Bounds of an impedance, as in MuJoCo."""


def is_mocap(model: Model, body: int) -> bool:
    """Whether a body is a mocap body or fixed to one."""
    while body > 0 and not model.body_jntnum[body]:
        if model.body_mocapid[body] >= 0:
            return True
        body = int(model.body_parentid[body])
    return False


def softness(model: Model, e: int, bodies: list[int]) -> tuple[Array, Array]:
    """Stiffness and damping (2,) of an equality against translation (N/m, N s/m) and rotation (N m/rad, N m s/rad).

    MuJoCo's constraint accelerates its residual r by d a_ref + (1 - d) a_free with a_ref = -b r' - k r, the impedance d
    and the acceleration a_free without the constraint. With the inverse inertia A that MuJoCo assumes for r, its force
    is therefore f = (a_ref - r'') d / ((1 - d) A): a spring k d / ((1 - d) A), a damper b d / ((1 - d) A) and an
    inertia, which is left out here. The residual of a rotation is half its angle times `torquescale`.
    """
    d = float(np.clip(model.eq_solimp[e, 1], SOFTEST, STIFFEST))
    time, ratio = map(float, model.eq_solref[e])
    if time > 0:
        time = max(time, 2 * float(model.options["timestep"]))
        k, b = 1 / (d * time**2 * max(ratio, 1e-6) ** 2), 2 / (d * time)
    else:
        k, b = -time / d, -ratio / d
    inverse_inertia = model.body_invweight0[bodies].sum(axis=0)  # zero in directions in which the bodies cannot move
    residual = np.array([1.0, float(model.eq_data[e, 10]) / 2])
    inertia = np.divide(1.0, inverse_inertia, out=np.zeros(2), where=inverse_inertia > 0)
    share = residual**2 * inertia * d / (1 - d)
    return k * share, b * share


def bushing(
    name: str,
    bodies: tuple[str, str],
    frames: list[Array],
    poses: list[Array],
    stiffness: Array,
    damping: Array,
) -> Joint:
    """A free joint with springs between frames (4, 4) on two bodies. Its reference follows from their poses (4, 4)."""
    at = spatial.inverse(poses[0] @ frames[0]) @ poses[1] @ frames[1]
    return Joint(
        name,
        *bodies,
        frames[0],
        frames[1],
        np.eye(6),
        (1, 1, 1, 3),
        axes=tuple(f"{name}.{letter}" for letter in LETTERS),
        stiffness=np.repeat(stiffness, 3),
        damping=np.repeat(damping, 3),
        reference=np.concatenate([at[:3, 3], spatial.so3_log(at[:3, :3])]),
        rest=np.zeros(6),
    )
