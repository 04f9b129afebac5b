// Vectors, twists and rotations of eight bodies (or links, nodes) at a time, one in each lane.
#pragma once

#include <cmath>

#include "spatial/eight.hpp"

namespace supple {

struct Three {  // a vector in each lane
    Eight x, y, z;
};
SUPPLE_INLINE Three operator+(const Three& a, const Three& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
SUPPLE_INLINE Three operator-(const Three& a, const Three& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
SUPPLE_INLINE Three operator*(const Eight& s, const Three& a) { return {s * a.x, s * a.y, s * a.z}; }
SUPPLE_INLINE Three operator*(double s, const Three& a) { return {s * a.x, s * a.y, s * a.z}; }
SUPPLE_INLINE Eight dot(const Three& a, const Three& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
SUPPLE_INLINE Three cross(const Three& a, const Three& b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
SUPPLE_INLINE Three every(const Vec3& v) { return {every(v[0]), every(v[1]), every(v[2])}; }
SUPPLE_INLINE Three three(const Eight* v) { return {v[0], v[1], v[2]}; }
SUPPLE_INLINE Vec3 sum(const Three& a) { return {sum(a.x), sum(a.y), sum(a.z)}; }
SUPPLE_INLINE void put(Three& to, int lane, const Vec3& v) {
    to.x[lane] = v[0];
    to.y[lane] = v[1];
    to.z[lane] = v[2];
}
SUPPLE_INLINE Vec3 get(const Three& from, int lane) { return {from.x[lane], from.y[lane], from.z[lane]}; }

struct Six {  // a twist or wrench in each lane
    Three linear, angular;
};
SUPPLE_INLINE Six operator+(const Six& a, const Six& b) { return {a.linear + b.linear, a.angular + b.angular}; }
SUPPLE_INLINE Six operator-(const Six& a, const Six& b) { return {a.linear - b.linear, a.angular - b.angular}; }
SUPPLE_INLINE Six operator*(const Eight& s, const Six& a) { return {s * a.linear, s * a.angular}; }
SUPPLE_INLINE Eight dot(const Six& a, const Six& b) { return dot(a.linear, b.linear) + dot(a.angular, b.angular); }
SUPPLE_INLINE Vec6 get(const Six& from, int lane) { return stack(get(from.linear, lane), get(from.angular, lane)); }

struct Turn {  // a rotation, or a symmetric matrix, by columns
    Three x, y, z;
};
SUPPLE_INLINE Three operator*(const Turn& R, const Three& a) { return a.x * R.x + (a.y * R.y + a.z * R.z); }
SUPPLE_INLINE Turn operator*(const Turn& A, const Turn& B) { return {A * B.x, A * B.y, A * B.z}; }
SUPPLE_INLINE Three product_transposed(const Turn& M, const Three& v) {
    return {dot(M.x, v), dot(M.y, v), dot(M.z, v)};
}
SUPPLE_INLINE Turn transposed(const Turn& R) {
    return {{R.x.x, R.y.x, R.z.x}, {R.x.y, R.y.y, R.z.y}, {R.x.z, R.y.z, R.z.z}};
}

// Of A^T B
SUPPLE_INLINE Eight trace(const Turn& A, const Turn& B) { return dot(A.x, B.x) + dot(A.y, B.y) + dot(A.z, B.z); }

// log(A^T B), from its antisymmetric part: to rounding where the trace is above 2.98
SUPPLE_INLINE Three short_log(const Turn& A, const Turn& B) {
    const Three x = {0.5 * (dot(A.z, B.y) - dot(A.y, B.z)), 0.5 * (dot(A.x, B.z) - dot(A.z, B.x)),
                     0.5 * (dot(A.y, B.x) - dot(A.x, B.y))};
    constexpr double a[] = {1,
                            1.0 / 6,
                            3.0 / 40,
                            15.0 / 336,
                            105.0 / 3456,
                            945.0 / 42240,
                            10395.0 / 599040,
                            135135.0 / 9676800,
                            2027025.0 / 175472640};  // arc sine of s over s, by s^2
    const Eight s = dot(x, x);
    Eight ratio = every(a[8]);
    for (int k = 7; k >= 0; --k) ratio = ratio * s + a[k];
    return ratio * x;
}

// ad(a)^T w, the rate at which a wrench or momentum w changes in a frame that moves with a
SUPPLE_INLINE Six carried_along(const Six& a, const Six& w) {
    return {cross(w.linear, a.angular), cross(w.angular, a.angular) + cross(w.linear, a.linear)};
}
SUPPLE_INLINE Six bracket(const Six& a, const Six& b) {  // ad(a) b
    return {cross(a.angular, b.linear) + cross(a.linear, b.angular), cross(a.angular, b.angular)};
}

// Sine and cosine: reduced to +-pi/4 by Cody and Waite's constants, then polynomials, to rounding.
SUPPLE_INLINE void sine_cosine(const Eight& x, Eight& s, Eight& c) {
    alignas(64) double angle[width], sines[width], cosines[width];
    store(angle, x);
    for (int l = 0; l < width; ++l) {
        const double to_whole = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number
        const double k = (angle[l] * (2 / M_PI) + to_whole) - to_whole;
        const double r = ((angle[l] - k * 1.5707963267341256e+00) - k * 6.0771005065061922e-11) -
                         k * 2.0222662487959506e-21;
        const double z = r * r;
        const double ps = ((((1.58962301576546568060e-10 * z - 2.50507477628578072866e-08) * z +
                             2.75573136213857245213e-06) *
                                z -
                            1.98412698295895385996e-04) *
                               z +
                           8.33333333332211858878e-03) *
                              z -
                          1.66666666666666307295e-01;
        const double pc = ((((-1.13585365213876817300e-11 * z + 2.08757008419747316778e-09) * z -
                             2.75573141792967388112e-07) *
                                z +
                            2.48015872888517045348e-05) *
                               z -
                           1.38888888888730564116e-03) *
                              z +
                          4.16666666666665929218e-02;
        const double sr = r + r * z * ps, cr = 1.0 - 0.5 * z + z * z * pc;
        // quarter turns k mod 4, as a number in {0, 1, 2, 3}
        const double quarter = k - 4 * std::floor(k * 0.25);
        const bool odd = quarter == 1 || quarter == 3;
        const double a = odd ? cr : sr, b = odd ? sr : cr;
        sines[l] = quarter >= 2 ? -a : a;
        cosines[l] = quarter == 1 || quarter == 2 ? -b : b;
    }
    s = load(sines);
    c = load(cosines);
}

}  // namespace supple
