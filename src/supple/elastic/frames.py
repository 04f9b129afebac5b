"""Frames that follow an interface: its centroid and its mean rotation, with exact first and second derivatives.

Barbic and Zhao (2011); section 4.3 of the retargeting paper. The rotation is the polar factor with determinant +1 of
A = integral of d D^T over the interface's facets (D: offset from the centroid at rest, d: the deformed offset). The
paper inverts the integral of D D^T, which is singular for a plane interface; the polar factor does not need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from supple.elastic._checks import Array
from supple.elastic._compiled import Compiled
from supple.spatial import skew, unskew


@dataclass(frozen=True, eq=False)
class FrameMotion:
    """Pose of an interface frame and its derivatives by the coordinates z."""

    pose: Array
    """(4, 4) from the interface's frame to the part's body frame."""
    jacobian: Array
    """(6, d) twist of the frame, linear then angular, in its own axes, per unit rate of each coordinate."""
    hessian: Array | None
    """(6, d, d) derivative of `jacobian[:, j]` by coordinate k at [:, j, k]; None unless asked for. It is not symmetric
    in j and k: twists are rates in a moving frame."""


@dataclass(frozen=True, eq=False)
class InterfaceFrame(Compiled):
    """An interface frame as a function of coordinates z in which nodal positions are linear: modal amplitudes of a
    basis, or displacements of the interface's nodes.

    Position p(z) = point + z . point_rate, rotation R(z) = polar factor of A(z) = matrix + z . matrix_rate. At rest the
    frame lies at the interface's centroid and has the axes of the part.
    """

    point: Array
    """(3,) centroid at rest, in the part's body frame, m."""
    point_rate: Array
    """(d, 3) derivative of the centroid by each coordinate."""
    matrix: Array
    """(3, 3) A at rest: the integral of D D^T over the interface divided by its area, m^2."""
    matrix_rate: Array
    """(d, 3, 3) derivative of A by each coordinate."""

    @property
    def size(self) -> int:
        """Number of coordinates, d."""
        return len(self.point_rate)

    @cached_property
    def core(self) -> Any:
        """The compiled frame (`supple::InterfaceFrame`)."""
        from supple import _core

        arrays = (self.point, self.point_rate, self.matrix, self.matrix_rate)
        return _core.InterfaceFrame(*(np.ascontiguousarray(array) for array in arrays))

    def in_plane(self, normal: int) -> InterfaceFrame:
        """The frame that moves only in the plane normal to an axis (0, 1 or 2), as that of a symmetric part does. The
        mesh is not quite symmetric: a remainder of 1e-8 of the motion would make joints that close a loop in the plane
        nearly redundant, which statics does not get through."""
        away = np.ones(3)
        away[normal] = 0
        within = np.outer(away, away) + np.outer(1 - away, 1 - away)
        return InterfaceFrame(self.point, self.point_rate * away, self.matrix * within, self.matrix_rate * within)

    def pose(self, z: Array) -> Array:
        """(4, 4) from the interface's frame to the body frame at the coordinates z (d,)."""
        result = np.eye(4)
        result[:3, :3] = polar_rotation(self.matrix + np.tensordot(z, self.matrix_rate, 1))
        result[:3, 3] = self.point + z @ self.point_rate
        return result

    def motion(self, z: Array, *, second: bool = False) -> FrameMotion:
        """Pose and derivatives at the coordinates z (d,).

        With S = R^T A (symmetric) and G = tr(S) I - S, the body rotation per unit of z_j is theta_j = G^-1 a_j,
        where a_j is the axial vector of R^T A_j - A_j^T R. Its derivative by z_k follows from dR = R [theta_k].
        """
        pose = self.pose(z)
        Rt = pose[:3, :3].T
        S = Rt @ (self.matrix + np.tensordot(z, self.matrix_rate, 1))
        inverse = np.linalg.inv(np.trace(S) * np.eye(3) - S)
        B = Rt @ self.matrix_rate  # (d, 3, 3)
        theta = 2 * unskew(B) @ inverse
        linear = self.point_rate @ Rt.T
        jacobian = np.concatenate([linear.T, theta.T])
        if not second:
            return FrameMotion(pose, jacobian, None)
        turns = skew(theta)  # (d, 3, 3)
        change = -turns @ S + B  # derivative of S by z_k, symmetric
        dG_theta = np.trace(change, axis1=1, axis2=2)[:, None, None] * theta - theta @ change  # [k, j]
        da = -2 * unskew(turns[:, None] @ B)  # [k, j]
        dtheta = (da - dG_theta) @ inverse  # [k, j]
        dlinear = -np.cross(theta[:, None], linear)  # [k, j]
        hessian = np.concatenate([dlinear, dtheta], axis=2).transpose(2, 1, 0)
        return FrameMotion(pose, jacobian, hessian)


def polar_rotation(A: Array) -> Array:
    """The rotation R (3, 3), determinant +1, that maximises tr(R^T A)."""
    U, _, Vt = np.linalg.svd(A)
    signs = np.array([1.0, 1.0, np.sign(np.linalg.det(U @ Vt))])
    result: Array = (U * signs) @ Vt
    return result
