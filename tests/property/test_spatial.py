"""Identities of SO(3) and SE(3) that hold for every input and every batch shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from supple import spatial

BATCHES = [(), (3,), (2, 0), (2, 3)]

pytestmark = pytest.mark.parametrize("batch", BATCHES, ids=str)


@st.composite
def vectors(draw, batch, size):
    """Arrays (*batch, size); rotation vectors in them stay below pi, zeros and tiny values are common."""
    return draw(arrays(np.float64, (*batch, size), elements=st.floats(-1.7, 1.7)))


def each(test):
    """Draw from the parametrised batch shape: the test gets draw(size)."""

    @settings(max_examples=15)
    @given(data=st.data())
    def wrapped(batch, data):
        test(batch, lambda size: data.draw(vectors(batch, size)))

    wrapped.__name__ = test.__name__
    wrapped.__doc__ = test.__doc__
    return wrapped


def close(actual, expected, tolerance=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def times(matrix, vector):
    return (matrix @ vector[..., None])[..., 0]


def transpose(matrix):
    return np.swapaxes(matrix, -1, -2)


def derivative(function, x, step=1e-5):
    """Central differences -> (..., m, n) for a function (..., n) -> (..., m)."""
    units = step * np.eye(x.shape[-1])
    return np.stack([(function(x + u) - function(x - u)) / (2 * step) for u in units], axis=-1)


@each
def test_log_undoes_exp(batch, draw):
    xi = draw(6)
    close(spatial.log(spatial.exp(xi)), xi)
    close(spatial.so3_log(spatial.so3_exp(xi[..., 3:])), xi[..., 3:])


@each
def test_exp_undoes_log(batch, draw):
    h = spatial.exp(3 * draw(6))  # up to 8.8 rad: the log comes back on the short way
    w = spatial.log(h)[..., 3:]
    assert (np.linalg.norm(w, axis=-1) <= np.pi + 1e-15).all()
    close(spatial.exp(spatial.log(h)), h)


@each
def test_shapes_and_types(batch, draw):
    xi = draw(6)
    h = spatial.exp(xi)
    expected = {
        (4, 4): [h, spatial.inverse(h)],
        (6, 6): [
            spatial.adjoint(h),
            spatial.ad(xi),
            spatial.left_jacobian(xi),
            spatial.right_jacobian_inverse(xi),
        ],
        (6,): [spatial.log(h), spatial.transform_twist(h, xi), spatial.transform_wrench(h, xi)],
        (3, 3): [
            spatial.skew(xi[..., :3]),
            spatial.so3_exp(xi[..., 3:]),
            spatial.project_rotation(h[..., :3, :3]),
        ],
        (4,): [spatial.quat_wxyz_from_matrix(h[..., :3, :3])],
    }
    for shape, values in expected.items():
        for value in values:
            assert value.shape == (*batch, *shape)
            assert value.dtype == np.float64


@each
def test_batches_are_elementwise(batch, draw):
    xi, y = draw(6), draw(6)
    many = spatial.right_jacobian_inverse_directional(xi, y)
    for index in np.ndindex(batch):
        close(many[index], spatial.right_jacobian_inverse_directional(xi[index], y[index]), 1e-14)
        close(spatial.log(spatial.exp(xi))[index], spatial.log(spatial.exp(xi[index])), 1e-14)


@each
def test_rotations_are_rotations(batch, draw):
    r = spatial.so3_exp(5 * draw(3))
    close(r @ transpose(r), np.broadcast_to(np.eye(3), r.shape))
    close(np.linalg.det(r), np.ones(batch))


@each
def test_adjoint_is_a_homomorphism(batch, draw):
    a, b = spatial.exp(draw(6)), spatial.exp(draw(6))
    close(spatial.adjoint(a @ b), spatial.adjoint(a) @ spatial.adjoint(b))
    close(
        spatial.adjoint(spatial.inverse(a)) @ spatial.adjoint(a), np.broadcast_to(np.eye(6), (*batch, 6, 6))
    )


@each
def test_adjoint_conjugates_exp(batch, draw):
    h, xi = spatial.exp(draw(6)), draw(6)
    moved = spatial.transform_twist(h, xi)
    close(spatial.exp(moved), h @ spatial.exp(xi) @ spatial.inverse(h))


@each
def test_ad_is_the_bracket(batch, draw):
    a, b, c = draw(6), draw(6), draw(6)

    def bracket(x, y):
        return times(spatial.ad(x), y)

    close(bracket(a, b), -bracket(b, a))
    close(bracket(a, bracket(b, c)) + bracket(b, bracket(c, a)) + bracket(c, bracket(a, b)), np.zeros_like(a))
    close(
        derivative(lambda t: times(spatial.adjoint(spatial.exp(t * a)), b), np.zeros((*batch, 1)))[..., 0],
        bracket(a, b),
        1e-8,
    )


@each
def test_inverse_undoes_a_pose(batch, draw):
    h = spatial.exp(draw(6))
    close(h @ spatial.inverse(h), np.broadcast_to(np.eye(4), h.shape))
    np.testing.assert_array_equal(spatial.unskew(spatial.skew(h[..., :3, 3])), h[..., :3, 3])


@each
def test_jacobians_differentiate_exp(batch, draw):
    xi = draw(6)
    h = spatial.exp(xi)
    right = derivative(lambda x: spatial.log(spatial.inverse(h) @ spatial.exp(x)), xi)
    left = derivative(lambda x: spatial.log(spatial.exp(x) @ spatial.inverse(h)), xi)
    close(spatial.right_jacobian(xi), right, 1e-8)
    close(spatial.left_jacobian(xi), left, 1e-8)


@each
def test_rotation_jacobians_differentiate_exp(batch, draw):
    w = draw(3)
    r = spatial.so3_exp(w)
    right = derivative(lambda x: spatial.so3_log(transpose(r) @ spatial.so3_exp(x)), w)
    left = derivative(lambda x: spatial.so3_log(spatial.so3_exp(x) @ transpose(r)), w)
    close(spatial.so3_right_jacobian(w), right, 1e-8)
    close(spatial.so3_left_jacobian(w), left, 1e-8)


@each
def test_left_and_right_jacobians_differ_by_the_adjoint(batch, draw):
    xi = draw(6)
    close(spatial.left_jacobian(xi), spatial.adjoint(spatial.exp(xi)) @ spatial.right_jacobian(xi))
    w = xi[..., 3:]
    close(spatial.so3_left_jacobian(w), spatial.so3_exp(w) @ spatial.so3_right_jacobian(w))
    close(spatial.left_jacobian(xi)[..., 3:, 3:], spatial.so3_left_jacobian(w))


@each
def test_jacobian_inverses_invert(batch, draw):
    xi = draw(6)
    w = xi[..., 3:]
    six, three = np.broadcast_to(np.eye(6), (*batch, 6, 6)), np.broadcast_to(np.eye(3), (*batch, 3, 3))
    close(spatial.left_jacobian(xi) @ spatial.left_jacobian_inverse(xi), six)
    close(spatial.right_jacobian(xi) @ spatial.right_jacobian_inverse(xi), six)
    close(spatial.so3_left_jacobian(w) @ spatial.so3_left_jacobian_inverse(w), three)
    close(spatial.so3_right_jacobian(w) @ spatial.so3_right_jacobian_inverse(w), three)


@each
def test_derivatives_of_transposed_jacobians(batch, draw):
    xi, y = draw(6), draw(6)
    for size, prefix in [(6, ""), (3, "so3_")]:
        x, load = xi[..., -size:], y[..., -size:]
        for name in ["right_jacobian", "right_jacobian_inverse"]:
            jacobian = getattr(spatial, prefix + name)
            expected = derivative(lambda p, j=jacobian, f=load: times(transpose(j(p)), f), x)
            close(getattr(spatial, f"{prefix}{name}_directional")(x, load), expected, 1e-7)


@each
def test_power_does_not_depend_on_the_frame(batch, draw):
    pose_ba, twist_a, wrench_b = spatial.exp(draw(6)), draw(6), draw(6)
    power_b = (wrench_b * spatial.transform_twist(pose_ba, twist_a)).sum(axis=-1)
    power_a = (spatial.transform_wrench(pose_ba, wrench_b) * twist_a).sum(axis=-1)
    close(power_a, power_b)


@each
def test_quaternions_round_trip(batch, draw):
    r = spatial.so3_exp(2 * draw(3))
    quat = spatial.quat_wxyz_from_matrix(r)
    assert (quat[..., 0] >= 0).all()
    close(np.linalg.norm(quat, axis=-1), np.ones(batch))
    close(spatial.matrix_from_quat_wxyz(quat), r)
    close(spatial.matrix_from_quat_wxyz(-2.5 * quat), r)


@each
def test_rotation_between_takes_a_to_b(batch, draw):
    a, b = draw(3) + [2, 0, 0], draw(3) + [0, 0, 2]
    turn = spatial.rotation_between(a, b)
    moved = times(turn, a / np.linalg.norm(a, axis=-1, keepdims=True))
    close(moved, b / np.linalg.norm(b, axis=-1, keepdims=True))
    close(times(turn, np.cross(a, b)), np.cross(a, b))


@each
def test_spatial_inertia_is_symmetric_and_moves_with_its_frame(batch, draw):
    mass, centre, half = 2.0 + draw(1)[..., 0], draw(3), draw(3)
    about_centre = half[..., :, None] * half[..., None, :] + np.eye(3)
    inertia = spatial.spatial_inertia(mass, centre, about_centre)
    close(inertia, transpose(inertia))
    # the same body seen from its centre of mass, carried back to the origin by the adjoint
    at_centre = spatial.spatial_inertia(mass, np.zeros(3), about_centre)
    back = spatial.adjoint(spatial.translation(-centre))
    close(inertia, transpose(back) @ at_centre @ back)
