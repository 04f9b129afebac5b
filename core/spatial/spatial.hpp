// Rotations, rigid motions, twists, wrenches and inertias on fixed-size Eigen types: the compiled twin of
// supple.spatial, with the same names and conventions. A twist is (v, w), linear part first, in the body's frame; a
// pose maps from body to world; a body moves by H <- H exp(xi).
#pragma once

#include <Eigen/Geometry>
#include <array>
#include <cmath>

#include "spatial/small.hpp"

namespace supple {

struct Pose {
    Mat3 R = Mat3::Identity();
    Vec3 p = Vec3::Zero();

    Pose inverse() const { return {R.transpose(), -(R.transpose() * p)}; }
    Vec3 act(const Vec3& point) const { return R * point + p; }
    // This pose relative to `base`: base^-1 this.
    Pose seen_from(const Pose& base) const { return {base.R.transpose() * R, base.R.transpose() * (p - base.p)}; }
};

SUPPLE_INLINE Pose operator*(const Pose& a, const Pose& b) { return {a.R * b.R, a.R * b.p + a.p}; }

inline Pose inverse(const Pose& h) { return h.inverse(); }

inline Pose pose(const double* rows) {  // of a 4x4 array
    const Eigen::Map<const Eigen::Matrix<double, 4, 4, Eigen::RowMajor>> H(rows);
    return {H.topLeftCorner<3, 3>(), H.topRightCorner<3, 1>()};
}

inline void write(const Pose& pose, double* rows) {  // into a 4x4 array whose last row is set
    for (int r = 0; r < 3; ++r) {
        for (int c = 0; c < 3; ++c) rows[4 * r + c] = pose.R(r, c);
        rows[4 * r + 3] = pose.p[r];
    }
}

SUPPLE_INLINE Mat3 skew(const Vec3& w) {
    Mat3 m;
    m << 0, -w.z(), w.y(),  //
        w.z(), 0, -w.x(),  //
        -w.y(), w.x(), 0;
    return m;
}

// (a, b), as in a twist or a wrench
SUPPLE_INLINE Vec6 stack(const Vec3& a, const Vec3& b) {
    Vec6 v;
    v.head<3>() = a;
    v.tail<3>() = b;
    return v;
}

// [[a, b], [c, d]]
SUPPLE_INLINE Mat6 blocks(const Mat3& a, const Mat3& b, const Mat3& c, const Mat3& d) {
    Mat6 m;
    m.topLeftCorner<3, 3>() = a;
    m.topRightCorner<3, 3>() = b;
    m.bottomLeftCorner<3, 3>() = c;
    m.bottomRightCorner<3, 3>() = d;
    return m;
}

// --- coefficients, as functions of s = t^2 with t the rotation angle ------------------------------------------------

// Stumpff functions g_k(s) = sum_j (-s)^j / (2j + k)! for k = 0 ... 8: g_0 = cos t, g_1 = sin t / t, and so on by
// g_k = 1/k! - s g_{k+2}. Their derivatives are g_k' = (k g_{k+2} - g_{k+1}) / 2. No singularity at s = 0.
using Stumpff = std::array<double, 9>;

namespace detail {

constexpr double factorial(int n) { return n < 2 ? 1.0 : n * factorial(n - 1); }

constexpr int series_terms = 13;

constexpr std::array<double, series_terms> stumpff_series(int k) {
    std::array<double, series_terms> terms{};
    for (int j = 0; j < series_terms; ++j) terms[j] = (j % 2 ? -1.0 : 1.0) / factorial(2 * j + k);
    return terms;
}

inline constexpr std::array<double, 7> reciprocal_factorials = [] {
    std::array<double, 7> values{};
    for (int k = 0; k < 7; ++k) values[k] = 1 / factorial(k);
    return values;
}();

// From the series of g_7 and g_8 to g_0 by the recurrence; exact to rounding for s <= 10 (t slightly above pi).
inline Stumpff stumpff_near(double s) {
    static constexpr auto series7 = stumpff_series(7), series8 = stumpff_series(8);
    Stumpff g;
    g[7] = series7.back();
    g[8] = series8.back();
    for (int j = series_terms - 2; j >= 0; --j) {
        g[7] = g[7] * s + series7[j];
        g[8] = g[8] * s + series8[j];
    }
    for (int k = 6; k >= 0; --k) g[k] = reciprocal_factorials[k] - s * g[k + 2];
    return g;
}

// From cosine and sine to g_8 by the recurrence; the half angle keeps g_2 accurate near t = 2 pi, where it vanishes.
inline Stumpff stumpff_far(double s) {
    const double t = std::sqrt(s), half = std::sin(t / 2);
    Stumpff g;
    g[0] = std::cos(t);
    g[1] = std::sin(t) / t;
    g[2] = 2 * half * half / s;
    for (int k = 1; k < 7; ++k) g[k + 2] = (reciprocal_factorials[k] - g[k]) / s;
    return g;
}

}  // namespace detail

inline Stumpff stumpff(double s) { return s <= 10.0 ? detail::stumpff_near(s) : detail::stumpff_far(s); }

// Coefficients of M(w) = I + linear(s) [w] + quadratic(s) [w]^2: value and derivative in s.
struct Coefficients {
    std::array<double, 2> linear, quadratic;
};

// Left Jacobian of SO(3): b = (1 - cos t) / t^2 and c = (t - sin t) / t^3.
inline Coefficients jacobian_coefficients(const Stumpff& g) {
    return {{g[2], g[4] - g[3] / 2}, {g[3], (3 * g[5] - g[4]) / 2}};
}
inline Coefficients jacobian_coefficients(double s) { return jacobian_coefficients(stumpff(s)); }

// Inverse left Jacobian of SO(3): -1/2 and d = (1 - (t/2) cot(t/2)) / t^2. With b = g_2, d = -b'/b, hence
// d' = d^2 - b''/b. Infinite at t = 2 pi.
inline Coefficients jacobian_inverse_coefficients(const Stumpff& g) {
    const double b = g[2];
    const double b2 = 2 * g[6] - 1.25 * g[5] + g[4] / 4;
    const double d = (g[3] / 2 - g[4]) / b;
    return {{-0.5, 0}, {d, d * d - b2 / b}};
}
inline Coefficients jacobian_inverse_coefficients(double s) { return jacobian_inverse_coefficients(stumpff(s)); }

// --- M(w) and its derivatives ---------------------------------------------------------------------------------------
// A twist (v, w) is the dual number w + eps v, so the matrix for SE(3) that corresponds to M is [[M, dM], [0, M]],
// where dM is the derivative of M along v.

namespace detail {

inline Mat3 without_identity(const Vec3& w, double linear, double quadratic) {
    Mat3 m = linear * skew(w) + quadratic * (w * w.transpose());
    m.diagonal().array() -= quadratic * w.squaredNorm();
    return m;
}

// I + linear [w] + quadratic [w]^2
inline Mat3 polynomial(const Vec3& w, double linear, double quadratic) {
    return Mat3::Identity() + without_identity(w, linear, quadratic);
}

inline Mat3 polynomial(const Vec3& w, const Coefficients& c) { return polynomial(w, c.linear[0], c.quadratic[0]); }

// Derivative of M(w) along v:
// dM = linear [v] + quadratic ([w][v] + [v][w]) + 2 (w.v) (linear' [w] + quadratic' [w]^2)
inline Mat3 directional_derivative(const Vec3& w, const Vec3& v, const Coefficients& c) {
    const double change = 2 * w.dot(v);
    Mat3 mixed = w * v.transpose() + v * w.transpose();
    mixed.diagonal().array() -= change;
    return c.linear[0] * skew(v) + c.quadratic[0] * mixed + change * without_identity(w, c.linear[1], c.quadratic[1]);
}

// d/dw [M(w) y] = 2 (linear' w x y + quadratic' w x (w x y)) w^T - linear [y] + quadratic ((w.y) I + w y^T - 2 y w^T)
inline Mat3 product_derivative(const Vec3& w, const Vec3& y, const Coefficients& c) {
    Mat3 mixed = w * y.transpose() - 2 * y * w.transpose();
    mixed.diagonal().array() += w.dot(y);
    const Vec3 cross = w.cross(y);
    const Vec3 through_s = c.linear[1] * cross + c.quadratic[1] * w.cross(cross);
    return 2 * through_s * w.transpose() - c.linear[0] * skew(y) + c.quadratic[0] * mixed;
}

// [[M, dM], [0, M]] for the twist xi = (v, w)
inline Mat6 dual_matrix(const Vec6& xi, const Coefficients& c) {
    const Vec3 v = xi.head<3>(), w = xi.tail<3>();
    const Mat3 diagonal = polynomial(w, c);
    return blocks(diagonal, directional_derivative(w, v, c), Mat3::Zero(), diagonal);
}

}  // namespace detail

// --- SO(3) ----------------------------------------------------------------------------------------------------------

// R = I + a [w] + b [w]^2, a = sin t / t, b = (1 - cos t) / t^2
inline Mat3 so3_exp(const Vec3& w) {
    const Stumpff g = stumpff(w.squaredNorm());
    return detail::polynomial(w, g[1], g[2]);
}

namespace detail {

// asin(x) / x as a series in s = x^2, to rounding below s = 0.02
inline double arcsine_ratio(double s) {
    constexpr double c[] = {1,
                            1.0 / 6,
                            3.0 / 40,
                            15.0 / 336,
                            105.0 / 3456,
                            945.0 / 42240,
                            10395.0 / 599040,
                            135135.0 / 9676800,
                            2027025.0 / 175472640};
    double sum = c[8];
    for (int k = 7; k >= 0; --k) sum = sum * s + c[k];
    return sum;
}

}  // namespace detail

// Rotation vector of length at most pi. Small rotations, the usual case in a time step, are computed from the
// antisymmetric part, n sin t; others from the quaternion (cos(t/2), n sin(t/2)), which is accurate at every angle.
inline Vec3 so3_log(const Mat3& rotation) {
    if (rotation.trace() > 2.98) {
        const Vec3 sine = 0.5 * Vec3(rotation(2, 1) - rotation(1, 2), rotation(0, 2) - rotation(2, 0),
                                     rotation(1, 0) - rotation(0, 1));
        return detail::arcsine_ratio(sine.squaredNorm()) * sine;
    }
    Eigen::Quaterniond quat(rotation);
    if (quat.w() < 0) quat.coeffs() *= -1;
    const double sine = quat.vec().norm();
    return 2 * std::atan2(sine, quat.w()) / sine * quat.vec();
}

// A rotation that takes the z axis to the direction of a vector: the one about the normal of both, by the quaternion
// (1 + z.d, z x d). Against the z axis, half a turn about x.
inline Mat3 rotation_from_z(const Vec3& direction) {
    const Vec3 d = direction.normalized();
    const double c = d.z();
    if (c < -1 + 1e-12) return Vec3(1, -1, -1).asDiagonal();
    const Vec3 axis(-d.y(), d.x(), 0);
    const double s = std::sqrt((1 + c) * 2), inverse = 1 / s;
    return Eigen::Quaterniond(s * 0.5, axis.x() * inverse, axis.y() * inverse, 0).toRotationMatrix();
}

// The screw axis of a joint's twist (v, w), |w| = 1 or 0, as the z axis of a frame.
struct ScrewAxis {
    Pose frame;
    double turns, slides;  // motion along z per unit of the coordinate: rad or 0, m
};

inline ScrewAxis screw_axis(const Vec6& twist) {
    const Vec3 v = twist.head<3>(), w = twist.tail<3>();
    const bool turns = w.squaredNorm() > 0;
    return {{rotation_from_z(turns ? w : v), w.cross(v)}, turns ? 1.0 : 0.0, turns ? w.dot(v) : v.norm()};
}

// J with exp(w + d) ~ exp(J d) exp(w). Singular at t = 2 pi.
inline Mat3 so3_left_jacobian(const Vec3& w) {
    const Stumpff g = stumpff(w.squaredNorm());
    return detail::polynomial(w, g[2], g[3]);
}

// J with exp(w + d) ~ exp(w) exp(J d)
inline Mat3 so3_right_jacobian(const Vec3& w) { return so3_left_jacobian(-w); }

// Grows without bound towards t = 2 pi.
inline Mat3 so3_left_jacobian_inverse(const Vec3& w) {
    return detail::polynomial(w, jacobian_inverse_coefficients(w.squaredNorm()));
}

inline Mat3 so3_right_jacobian_inverse(const Vec3& w) { return so3_left_jacobian_inverse(-w); }

// d/dw [Jr(w)^-T y] for constant y
inline Mat3 so3_right_jacobian_inverse_directional(const Vec3& w, const Vec3& y) {
    return detail::product_derivative(w, y, jacobian_inverse_coefficients(w.squaredNorm()));
}

// d/dw [Jr(w) y] for constant y
inline Mat3 so3_right_jacobian_directional(const Vec3& w, const Vec3& y) {
    Coefficients c = jacobian_coefficients(w.squaredNorm());
    for (double& value : c.linear) value = -value;
    return detail::product_derivative(w, y, c);
}

// --- SE(3) ----------------------------------------------------------------------------------------------------------

namespace detail {

// exp(xi) from the Stumpff functions of |w|^2
inline Pose exp(const Vec6& xi, const Stumpff& g) {
    const Vec3 v = xi.head<3>(), w = xi.tail<3>(), turned = w.cross(v);
    return {polynomial(w, g[1], g[2]), v + g[2] * turned + g[3] * w.cross(turned)};
}

}  // namespace detail

// R = exp([w]), p = Jl(w) v
inline Pose exp(const Vec6& xi) { return detail::exp(xi, stumpff(xi.tail<3>().squaredNorm())); }

// w = log R, v = Jl(w)^-1 p
inline Vec6 log(const Pose& h) {
    const Vec3 w = so3_log(h.R);
    const double s = w.squaredNorm();
    const double d = s < 0.02 ? 1.0 / 12 + s * (1.0 / 720 + s * (1.0 / 30240 + s * (1.0 / 1209600 + s / 47900160)))
                              : jacobian_inverse_coefficients(s).quadratic[0];
    const Vec3 turned = w.cross(h.p);
    return stack(h.p - turned / 2 + d * w.cross(turned), w);
}

// Ad of pose_ba maps twists in frame a to twists in frame b: [[R, [p] R], [0, R]]
inline Mat6 adjoint(const Pose& h) { return blocks(h.R, skew(h.p) * h.R, Mat3::Zero(), h.R); }
inline Mat6 adjoint_inverse(const Pose& h) {
    const Mat3 Rt = h.R.transpose();
    return blocks(Rt, -Rt * skew(h.p), Mat3::Zero(), Rt);
}

// x^T N y = w^T [x, y] with the Lie bracket of twists: antisymmetric.
SUPPLE_INLINE Mat6 bracket_form(const Vec6& w) {
    const Mat3 f = skew(w.head<3>());
    return blocks(Mat3::Zero(), -f, -f, -skew(w.tail<3>()));
}

// ad(xi) eta = [xi, eta]: [[[w], [v]], [0, [w]]]
SUPPLE_INLINE Mat6 ad(const Vec6& xi) {
    const Mat3 cross_w = skew(xi.tail<3>());
    return blocks(cross_w, skew(xi.head<3>()), Mat3::Zero(), cross_w);
}

// J with exp(xi + d) ~ exp(J d) exp(xi). Singular at |w| = 2 pi.
inline Mat6 left_jacobian(const Vec6& xi) {
    return detail::dual_matrix(xi, jacobian_coefficients(xi.tail<3>().squaredNorm()));
}

// J with exp(xi + d) ~ exp(xi) exp(J d)
inline Mat6 right_jacobian(const Vec6& xi) { return left_jacobian(-xi); }

// Grows without bound towards |w| = 2 pi.
inline Mat6 left_jacobian_inverse(const Vec6& xi) {
    return detail::dual_matrix(xi, jacobian_inverse_coefficients(xi.tail<3>().squaredNorm()));
}

inline Mat6 right_jacobian_inverse(const Vec6& xi) { return left_jacobian_inverse(-xi); }

// Ad_ba twist_a, without the 6x6 matrix
inline Vec6 transform_twist(const Pose& pose_ba, const Vec6& twist_a) {
    const Vec3 w = pose_ba.R * twist_a.tail<3>();
    return stack(pose_ba.R * twist_a.head<3>() + pose_ba.p.cross(w), w);
}

// Ad_ba^T wrench_b, without the 6x6 matrix
inline Vec6 transform_wrench(const Pose& pose_ba, const Vec6& wrench_b) {
    const Vec3 f = wrench_b.head<3>(), m = wrench_b.tail<3>();
    return stack(pose_ba.R.transpose() * f, pose_ba.R.transpose() * (m - pose_ba.p.cross(f)));
}

// --- inertia --------------------------------------------------------------------------------------------------------

// About the body's origin, from the inertia about the centre of mass c: [[m I, -m [c]], [m [c], I_c - m [c]^2]]
inline Mat6 spatial_inertia(const double& mass, const Vec3& centre, const Mat3& inertia) {
    const Mat3 c = skew(centre);
    return blocks(mass * Mat3::Identity(), -mass * c, mass * c, inertia - mass * c * c);
}

// Derivative, along a body's own twist, of a wrench that is fixed in world axes and acts at a point of the body.
SUPPLE_INLINE Mat6 world_wrench_derivative(const Vec3& force, const Vec3& torque, const Vec3& point) {
    const Mat3 f = skew(force);
    return blocks(Mat3::Zero(), f, Mat3::Zero(), skew(torque) + skew(point) * f);
}

// A force and a torque at a point of the body, as a wrench at its origin.
SUPPLE_INLINE Vec6 at_origin(const Vec3& force, const Vec3& torque, const Vec3& point) {
    return stack(force, torque + point.cross(force));
}

}  // namespace supple
