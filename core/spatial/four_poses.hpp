// Vectors, quaternions and poses of four frames at a time, one in each lane.
#pragma once

#include "spatial/four.hpp"

namespace supple {

struct FourVectors {
    Four x, y, z;
};
SUPPLE_INLINE FourVectors operator+(const FourVectors& a, const FourVectors& b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}
SUPPLE_INLINE FourVectors operator-(const FourVectors& a, const FourVectors& b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}
SUPPLE_INLINE FourVectors operator*(const Four& s, const FourVectors& a) { return {s * a.x, s * a.y, s * a.z}; }
SUPPLE_INLINE FourVectors operator*(double s, const FourVectors& a) { return {s * a.x, s * a.y, s * a.z}; }
SUPPLE_INLINE Four dot(const FourVectors& a, const FourVectors& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
SUPPLE_INLINE FourVectors cross(const FourVectors& a, const FourVectors& b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
SUPPLE_INLINE FourVectors four(const Vec3& v) { return {four(v[0]), four(v[1]), four(v[2])}; }
SUPPLE_INLINE FourVectors vectors(const Four* v) { return {v[0], v[1], v[2]}; }
SUPPLE_INLINE void set(Four* to, const FourVectors& v) { to[0] = v.x, to[1] = v.y, to[2] = v.z; }
SUPPLE_INLINE Vec3 weighted_sum(const Four& weight, const FourVectors& v) {
    const Four all = sums(weight * v.x, weight * v.y, weight * v.z, four(0));
    return {all[0], all[1], all[2]};
}

// A v and A^T v, with the same A in all lanes
SUPPLE_INLINE FourVectors times(const Mat3& A, const FourVectors& v) {
    return {A(0, 0) * v.x + A(0, 1) * v.y + A(0, 2) * v.z, A(1, 0) * v.x + A(1, 1) * v.y + A(1, 2) * v.z,
            A(2, 0) * v.x + A(2, 1) * v.y + A(2, 2) * v.z};
}
SUPPLE_INLINE FourVectors transpose_times(const Mat3& A, const FourVectors& v) {
    return {A(0, 0) * v.x + A(1, 0) * v.y + A(2, 0) * v.z, A(0, 1) * v.x + A(1, 1) * v.y + A(2, 1) * v.z,
            A(0, 2) * v.x + A(1, 2) * v.y + A(2, 2) * v.z};
}

struct FourQuaternions {
    Four w;
    FourVectors v;
};
SUPPLE_INLINE FourQuaternions operator*(const FourQuaternions& a, const FourQuaternions& b) {
    return {a.w * b.w - dot(a.v, b.v), a.w * b.v + (b.w * a.v + cross(a.v, b.v))};
}
SUPPLE_INLINE FourQuaternions conjugate(const FourQuaternions& q) { return {q.w, {-q.v.x, -q.v.y, -q.v.z}}; }
SUPPLE_INLINE FourQuaternions four(const Eigen::Quaterniond& q) { return {four(q.w()), four(Vec3(q.vec()))}; }
SUPPLE_INLINE FourQuaternions operator*(const Four& s, const FourQuaternions& q) { return {s * q.w, s * q.v}; }
// The sign with which b is the nearer one of the two quaternions of its rotation to a
SUPPLE_INLINE Four nearer_sign(const FourQuaternions& a, const FourQuaternions& b) {
    return choose(a.w * b.w + dot(a.v, b.v) < four(0), four(-1), four(1));
}
// a* (sign b), a rotation of at most half a turn for the nearer sign. From the difference of a and b, so that its
// vector is exactly zero if they are equal.
SUPPLE_INLINE FourQuaternions relative(const FourQuaternions& a, const FourQuaternions& b, const Four& sign) {
    const FourQuaternions gap{sign * b.w - a.w, sign * b.v - a.v};
    return {1.0 + (a.w * gap.w + dot(a.v, gap.v)), a.w * gap.v - (gap.w * a.v + cross(a.v, gap.v))};
}
SUPPLE_INLINE FourQuaternions product(const FourVectors& p, const FourQuaternions& q) {  // of (0, p) and q
    return {-dot(p, q.v), q.w * p + cross(p, q.v)};
}
// q* v q for unit quaternions: v in axes that q turns
SUPPLE_INLINE FourVectors turned_back(const FourQuaternions& q, const FourVectors& v) {
    const FourVectors once = cross(v, q.v);
    return v + 2.0 * (q.w * once + cross(once, q.v));
}

struct FourPoses {
    FourQuaternions q;  // unit quaternions
    FourVectors p;
};
// These poses relative to `base`, with rotations of at most half a turn
SUPPLE_INLINE FourPoses seen_from(const FourPoses& poses, const FourPoses& base) {
    return {relative(base.q, poses.q, nearer_sign(base.q, poses.q)), turned_back(base.q, poses.p - base.p)};
}

struct FourTwists {
    FourVectors linear, angular;
};
SUPPLE_INLINE FourTwists bracket(const FourTwists& a, const FourTwists& b) {
    return {cross(a.angular, b.linear) + cross(a.linear, b.angular), cross(a.angular, b.angular)};
}
SUPPLE_INLINE FourTwists twists(const Four* x) { return {vectors(x), vectors(x + 3)}; }
SUPPLE_INLINE void set(Four* to, const FourTwists& x) {
    set(to, x.linear);
    set(to + 3, x.angular);
}

namespace detail {

// By Horner's rule; the first coefficient is the constant
template <std::size_t n>
SUPPLE_INLINE Four series(const double (&c)[n], const Four& x) {
    Four sum = four(c[n - 1]);
    for (int k = static_cast<int>(n) - 2; k >= 0; --k) sum = sum * x + c[k];
    return sum;
}

// atan(sqrt(u)) / sqrt(u) for 0 <= u <= 0.1716, that is up to pi / 8: Chebyshev's approximation, error 3e-17
constexpr double arctangent_ratio[] = {1,
                                       -0.333333333333284314,
                                       0.199999999988536195,
                                       -0.142857141808565759,
                                       0.111111061755847686,
                                       -0.0909077296165032683,
                                       0.0768995190245144525,
                                       -0.0664022008540202986,
                                       0.056882767804654847,
                                       -0.043478429345733104,
                                       0.0211328103133384974};

// (1 - (t/2) cot(t/2)) / t^2 by s = t^2: |B_2k| / (2k)!, to rounding for s < 0.5
constexpr double inverse_jacobian_series[] = {1.0 / 12,
                                              1.0 / 720,
                                              1.0 / 30240,
                                              1.0 / 1209600,
                                              1.0 / 47900160,
                                              5.28419013868749318e-10,
                                              1.33825365306846788e-11,
                                              3.38968029632258287e-13};

}  // namespace detail

// Logarithm of poses with rotations of at most half a turn (w >= 0). With t the angle, tan(t/4) = |v| / (1 + w), and
// tan(t/8) follows by halving once more, so that neither small nor large angles lose digits.
SUPPLE_INLINE FourTwists log(const FourPoses& h) {
    const Four by = 1.0 / (1.0 + h.q.w);
    // Tan^2 of a part of the angle; its inverse fraction over |v|
    Four u = dot(h.q.v, h.q.v) * (by * by), scale = 4.0 * by;
    if (largest(u) > 0.1716) {
        const Four half = 1.0 / (1.0 + sqrt(1.0 + u));
        u *= half * half;
        scale *= 2.0 * half;
    }
    const Four turn = scale * detail::series(detail::arctangent_ratio, u);  // t / sin(t/2)
    const FourVectors w = turn * h.q.v;
    const Four s = dot(w, w);
    Four d = detail::series(detail::inverse_jacobian_series, s);
    if (largest(s) > 0.5) d = choose(s > four(0.5), (1.0 - 0.5 * turn * h.q.w) / s, d);
    const FourVectors once = cross(w, h.p);
    return {h.p - 0.5 * once + d * cross(w, once), w};
}

}  // namespace supple
