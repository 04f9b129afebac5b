"""Accuracy of supple.spatial against 50-digit arithmetic, SciPy and cases known by hand."""

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.transform import Rotation

from supple import spatial

ANGLES = [1e-12, 1e-9, 1e-6, 1e-5, 1e-4, 1e-2, 0.3, 1.0, 2.0, 3.0, np.pi - 1e-3, np.pi - 1e-6]
FAR_ANGLES = [np.pi, np.sqrt(10) - 1e-9, np.sqrt(10) + 1e-9, 4.0, 6.0, 10.0]
BLOCKS = [(slice(3), slice(3)), (slice(3), slice(3, 6)), (slice(3, 6), slice(3)), (slice(3, 6), slice(3, 6))]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def twist(angle, seed=0):
    """A twist whose rotation has this angle, with all entries of one order."""
    v, w = np.random.default_rng(seed).normal(size=(2, 3))
    return np.concatenate([v, angle * w / np.linalg.norm(w)])


def exactly(values):
    return np.vectorize(mp.mpf, otypes=[object])(values)


def rounded(values):
    return np.asarray(values).astype(np.float64)


def series(matrix, coefficient):
    """sum_n coefficient(n) matrix^n, n >= 0."""
    power = exactly(np.eye(len(matrix)))
    total = power * coefficient(0)
    for n in range(1, 80):
        power = power @ matrix
        term = power * coefficient(n)
        total = total + term
        if np.abs(rounded(term)).max() < 1e-60:
            break
    return total


def exp_exactly(xi):
    generator = np.zeros((4, 4), dtype=object) * mp.mpf(0)
    generator[:3, :3], generator[:3, 3] = exactly(spatial.skew(xi[3:])), exactly(xi[:3])
    return series(generator, lambda n: 1 / mp.factorial(n))


def jacobian_exactly(ad):
    """Left Jacobian of any matrix group: sum ad^n / (n + 1)!."""
    return series(ad, lambda n: 1 / mp.factorial(n + 1))


def inverse_exactly(matrix):
    return np.array(mp.inverse(mp.matrix(matrix.tolist())).tolist(), dtype=object)


def assert_close(actual, expected, tolerance=1e-13):
    """Relative in the norm of the whole; 6x6 matrices block by block."""
    if actual.shape == (6, 6):
        for rows, columns in BLOCKS:
            assert_close(actual[rows, columns], expected[rows, columns], tolerance)
        return
    error = np.linalg.norm(rounded(actual - expected))
    assert error <= tolerance * np.linalg.norm(rounded(expected))


@pytest.mark.parametrize("angle", ANGLES + FAR_ANGLES)
def test_exp_is_accurate(angle):
    xi = twist(angle)
    exact = exp_exactly(xi)
    assert_close(spatial.exp(xi), exact)
    assert_close(spatial.so3_exp(xi[3:]), exact[:3, :3])
    if angle < 1:  # the rotation itself to 12 digits, not only relative to the identity
        assert_close(spatial.unskew(spatial.so3_exp(xi[3:])), unskew_exactly(exact[:3, :3]))


def unskew_exactly(r):
    return np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]) / 2


@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize("seed", range(3))
def test_log_is_accurate(angle, seed):
    xi = twist(angle, seed)
    exact = rounded(exp_exactly(xi))
    assert_close(spatial.log(exact)[3:], xi[3:])
    assert_close(spatial.log(exact)[:3], xi[:3])
    assert_close(spatial.so3_log(exact[:3, :3]), xi[3:])


@pytest.mark.parametrize("angle", ANGLES + FAR_ANGLES)
def test_jacobians_are_accurate(angle):
    xi = twist(angle)
    for point, left, inverse in [
        (xi, spatial.left_jacobian, spatial.left_jacobian_inverse),
        (-xi, spatial.right_jacobian, spatial.right_jacobian_inverse),
    ]:
        exact = jacobian_exactly(exactly(spatial.ad(point)))
        assert_close(left(xi), exact)
        assert_close(inverse(xi), inverse_exactly(exact))


@pytest.mark.parametrize("angle", ANGLES + FAR_ANGLES)
def test_rotation_jacobians_are_accurate(angle):
    w = twist(angle)[3:]
    for point, left, inverse in [
        (w, spatial.so3_left_jacobian, spatial.so3_left_jacobian_inverse),
        (-w, spatial.so3_right_jacobian, spatial.so3_right_jacobian_inverse),
    ]:
        exact = jacobian_exactly(exactly(spatial.skew(point)))
        assert_close(left(w), exact)
        assert_close(inverse(w), inverse_exactly(exact))


def right_transpose_exactly(x):
    """Jr(x)^T from the series, x of 3 or 6 numbers in high precision."""
    turn = spatial.ad if len(x) == 6 else spatial.skew
    units = [exactly(turn(unit)) for unit in np.eye(len(x))]
    return jacobian_exactly(-sum(value * unit for value, unit in zip(x, units, strict=True))).T


def derivatives_exactly(function, x):
    """Derivatives of a matrix by the entries of x."""
    step = mp.mpf("1e-15")
    return [(function(x + step * unit) - function(x - step * unit)) / (2 * step) for unit in exactly(np.eye(len(x)))]


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-6, 1e-2, 1.0, 3.0, np.pi - 1e-6, 4.0])
@pytest.mark.parametrize("size", [3, 6])
def test_derivatives_of_transposed_jacobians_are_accurate(angle, size):
    x, y = twist(angle)[-size:], twist(1.0, seed=1)[-size:]
    prefix = {3: "so3_", 6: ""}[size]
    forward = getattr(spatial, f"{prefix}right_jacobian_directional")(x, y)
    backward = getattr(spatial, f"{prefix}right_jacobian_inverse_directional")(x, y)
    exact_x, exact_y = exactly(x), exactly(y)
    derivatives = derivatives_exactly(right_transpose_exactly, exact_x)
    inverse = inverse_exactly(right_transpose_exactly(exact_x))

    assert_close(forward, np.stack([D @ exact_y for D in derivatives], axis=-1))
    # the derivative of an inverse: -J^-1 J' J^-1
    assert_close(backward, np.stack([-inverse @ (D @ (inverse @ exact_y)) for D in derivatives], axis=-1))


def test_derivative_at_zero_is_half_a_bracket():
    # Jr^-1 = I + ad/2 + ... and Jr = I - ad/2 + ...
    y = twist(1.0)
    bracket = np.stack([spatial.ad(unit).T @ y for unit in np.eye(6)], axis=-1)
    np.testing.assert_array_equal(spatial.right_jacobian_inverse_directional(np.zeros(6), y), bracket / 2)
    np.testing.assert_array_equal(spatial.right_jacobian_directional(np.zeros(6), y), -bracket / 2)


def test_quarter_turn_about_z_carries_x_to_y():
    turn = spatial.so3_exp([0, 0, np.pi / 2])
    np.testing.assert_allclose(turn, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15)


def test_screw_motion_by_hand():
    # half a turn about the vertical line through c = (1, 0), climbing 0.3 m; v = w x (0 - c) at the origin
    xi = np.array([0, -np.pi, 0.3, 0, 0, np.pi])
    expected = spatial.pose(np.diag([-1, -1, 1]), [2, 0, 0.3])
    np.testing.assert_allclose(spatial.exp(xi), expected, atol=1e-15)


@pytest.mark.parametrize("angle", [0.0, 1e-200, 0.7, 3.0, 7.0, 1e3])
def test_exp_agrees_with_scipy(angle):
    xi = twist(angle)
    generator = np.zeros((4, 4))
    generator[:3, :3], generator[:3, 3] = spatial.skew(xi[3:]), xi[:3]
    np.testing.assert_allclose(spatial.exp(xi), scipy.linalg.expm(generator), atol=1e-11)
    np.testing.assert_allclose(spatial.so3_exp(xi[3:]), Rotation.from_rotvec(xi[3:]).as_matrix(), atol=1e-12)


def test_log_keeps_the_tiniest_rotations():
    for scale in [0.0, 1e-300, 1e-160, 1e-20]:
        w = scale * np.array([1.0, -2.0, 3.0])
        np.testing.assert_allclose(spatial.so3_log(np.eye(3) + spatial.skew(w)), w, rtol=1e-14, atol=0)


@pytest.mark.parametrize("axis", [*np.eye(3), *-np.eye(3), [1, 1, 0], [-1, 2, -3], [1e-9, 0, 1]])
def test_log_of_a_half_turn_reproduces_it(axis):
    axis = np.array(axis) / np.linalg.norm(axis)
    half_turn = 2 * np.outer(axis, axis) - np.eye(3)
    w = spatial.so3_log(half_turn)
    assert np.linalg.norm(w) == pytest.approx(np.pi, rel=1e-15)
    np.testing.assert_allclose(spatial.so3_exp(w), half_turn, atol=1e-15)


def test_log_is_continuous_up_to_sign_across_a_half_turn():
    axis = np.array([2.0, -1.0, 2.0]) / 3
    for excess in [1e-6, 1e-12]:
        w = spatial.so3_log(spatial.so3_exp((np.pi + excess) * axis))
        np.testing.assert_allclose(w, (excess - np.pi) * axis, atol=1e-14)


def test_jacobian_inverse_grows_towards_a_full_turn():
    near = spatial.so3_left_jacobian_inverse([0, 0, 2 * np.pi - 1e-6])
    assert np.isfinite(near).all()
    assert np.linalg.norm(near) > 1e6


def test_nan_stays_in_its_element():
    xi = np.stack([np.full(6, np.nan), twist(1.0)])
    for function in [spatial.exp, spatial.left_jacobian, spatial.left_jacobian_inverse]:
        assert np.isnan(function(xi)[0]).any()
        np.testing.assert_array_equal(function(xi)[1], function(xi[1]))


def test_arguments_are_not_changed():
    h = spatial.exp(twist(1.0))
    for value, functions in [
        (h[:3, :3].copy(), [spatial.so3_log, spatial.project_rotation, spatial.quat_wxyz_from_matrix]),
        (h, [spatial.log, spatial.inverse, spatial.adjoint]),
    ]:
        before = value.copy()
        for function in functions:
            function(value)
        np.testing.assert_array_equal(value, before)


def test_quaternions_agree_with_scipy():
    rotations = Rotation.random(200, rng=np.random.default_rng(0))
    expected = rotations.as_quat(canonical=True, scalar_first=True)
    np.testing.assert_allclose(spatial.quat_wxyz_from_matrix(rotations.as_matrix()), expected, atol=1e-15)
    np.testing.assert_allclose(spatial.matrix_from_quat_wxyz(3 * expected), rotations.as_matrix(), atol=1e-15)


@pytest.mark.parametrize("gap", [0.0, 1e-16, 1e-12, 1e-8, 1e-4, 1.0])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("seed", range(3))
def test_rotation_between_directions(gap, sign, seed):
    axes = spatial.so3_exp(np.random.default_rng(seed).normal(size=3))
    a, sideways = axes[0], axes[1]
    b = sign * np.cos(gap) * a + np.sin(gap) * sideways
    turn = spatial.rotation_between(a, 5 * b)
    np.testing.assert_allclose(turn @ a, b, atol=1e-15)
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=2e-15)
    assert np.linalg.det(turn) == pytest.approx(1)
    smallest = gap if sign > 0 else np.pi - gap
    assert np.linalg.norm(spatial.so3_log(turn)) == pytest.approx(smallest, abs=1e-14)


def test_rotation_between_same_axes_is_identity():
    np.testing.assert_array_equal(spatial.rotation_between([0, 0, 1], [0, 0, 1]), np.eye(3))


def test_project_rotation_finds_the_nearest():
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=(50, 3, 3))  # about half of them mirror
    nearest = spatial.project_rotation(matrices)
    np.testing.assert_allclose(np.linalg.det(nearest), 1)
    distance = np.linalg.norm(matrices - nearest, axis=(-2, -1))
    for w in rng.normal(scale=0.3, size=(40, 3)):
        other = nearest @ spatial.so3_exp(w)
        assert (np.linalg.norm(matrices - other, axis=(-2, -1)) > distance).all()
    np.testing.assert_allclose(spatial.project_rotation(2 * nearest), nearest, atol=1e-14)


def point_masses():
    rng = np.random.default_rng(3)
    return rng.uniform(0.1, 2.0, size=7), rng.normal(size=(7, 3))


def test_inertia_of_point_masses():
    masses, points = point_masses()
    mass = masses.sum()
    centre = masses @ points / mass
    arms = points - centre
    about_centre = sum(m * ((r @ r) * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, arms, strict=True))
    inertia = spatial.spatial_inertia(mass, centre, about_centre)

    np.testing.assert_allclose(
        inertia, spatial.spatial_inertia(masses, points, np.zeros((3, 3))).sum(axis=0), atol=1e-13
    )
    xi = twist(1.3)
    velocities = xi[:3] + np.cross(xi[3:], points)
    assert xi @ inertia @ xi == pytest.approx(masses @ (velocities**2).sum(axis=1), rel=1e-14)


def test_parallel_axis_of_a_box_about_its_corner():
    mass, sides = 3.0, np.array([0.2, 0.5, 0.7])
    about_centre = mass / 12 * np.diag(sides @ sides - sides**2)
    inertia = spatial.spatial_inertia(mass, sides / 2, about_centre)
    about_corner = mass / 3 * np.diag(sides @ sides - sides**2)
    products = -mass / 4 * (np.outer(sides, sides) - np.diag(sides**2))
    np.testing.assert_allclose(inertia[3:, 3:], about_corner + products, rtol=1e-14)


def test_inertia_follows_a_change_of_frame():
    masses, points = point_masses()
    pose_ba = spatial.exp(twist(2.0))
    in_a = spatial.spatial_inertia(masses, points, np.zeros((3, 3))).sum(axis=0)
    moved = points @ pose_ba[:3, :3].T + pose_ba[:3, 3]
    in_b = spatial.spatial_inertia(masses, moved, np.zeros((3, 3))).sum(axis=0)
    change = spatial.adjoint(pose_ba)
    np.testing.assert_allclose(change.T @ in_b @ change, in_a, atol=1e-12)


def test_pose_has_defaults():
    np.testing.assert_array_equal(spatial.pose(), np.eye(4))
    turn = spatial.so3_exp([0.1, 0.2, 0.3])
    many = spatial.pose(turn, np.arange(6.0).reshape(2, 3))
    assert many.shape == (2, 4, 4)
    np.testing.assert_array_equal(many[1, :3, :3], turn)
    np.testing.assert_array_equal(many[1, :, 3], [3, 4, 5, 1])
    np.testing.assert_array_equal(spatial.translation([1, 2, 3]), spatial.pose(position=[1, 2, 3]))


def test_force_at_an_offset_is_a_torque():
    # frame b sits 2 m along x from a; a unit force along y at b turns about z at a
    pose_ab = spatial.translation([2, 0, 0])
    wrench_a = spatial.transform_wrench(spatial.inverse(pose_ab), [0, 1, 0, 0, 0, 0])
    np.testing.assert_allclose(wrench_a, [0, 1, 0, 0, 0, 2])
