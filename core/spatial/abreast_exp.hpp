// The exponential of SE(3) and its right Jacobian for eight twists at a time, one in each lane.
#pragma once

#include "spatial/abreast.hpp"

namespace supple {

SUPPLE_INLINE void set(Eight* to, const Six& from) {
    to[0] = from.linear.x, to[1] = from.linear.y, to[2] = from.linear.z;
    to[3] = from.angular.x, to[4] = from.angular.y, to[5] = from.angular.z;
}
SUPPLE_INLINE Six six(const Eight* from) { return {three(from), three(from + 3)}; }

// Stumpff functions g_1 to g_5 of eight squared angles.
struct Angles {
    Eight a, b, c, g4, g5;
    Eight b_slope() const { return g4 - 0.5 * c; }  // db/ds
    Eight c_slope() const { return 0.5 * (3.0 * g5 - g4); }  // dc/ds
};

SUPPLE_INLINE Angles angles(const Three& w) {
    const Eight s = dot(w, w);
    Angles g;
    const double most = largest(s);
    if (most <= 2.5) {
        g.g4 = stumpff<4, 11>(s);
        g.g5 = stumpff<5, 11>(s);
    } else if (most <= 10.0) {
        g.g4 = stumpff<4>(s);
        g.g5 = stumpff<5>(s);
    } else {
        for (int l = 0; l < width; ++l) {
            const Stumpff each = stumpff(s[l]);
            g.g4[l] = each[4];
            g.g5[l] = each[5];
        }
    }
    g.b = 0.5 - s * g.g4;
    g.c = 1.0 / 6 - s * g.g5;
    g.a = 1.0 - s * g.c;
    if (most > 10.0)  // the recurrence loses digits at large angles
        for (int l = 0; l < width; ++l) {
            const Stumpff each = stumpff(s[l]);
            g.a[l] = each[1];
            g.b[l] = each[2];
            g.c[l] = each[3];
        }
    return g;
}

// (I + p [w] + q [w]^2) x
SUPPLE_INLINE Three polynomial(const Three& w, const Eight& p, const Eight& q, const Three& x) {
    const Three once = cross(w, x);
    return x + (p * once + q * cross(w, once));
}

// Derivative of I + p [w] + q [w]^2 along v, times x; p and q have the slopes dp and dq by |w|^2.
SUPPLE_INLINE Three polynomial_derivative(const Three& w, const Three& v, const Eight& p, const Eight& q,
                                          const Eight& dp, const Eight& dq, const Three& x) {
    const Three once = cross(w, x), other = cross(v, x);
    const Eight change = 2.0 * dot(w, v);
    return p * other + q * (cross(v, once) + cross(w, other)) + change * (dp * once + dq * cross(w, once));
}

// Jr(xi)^T wrench
SUPPLE_INLINE Six pulled_back(const Six& xi, const Angles& g, const Six& wrench) {
    const Three &v = xi.linear, &w = xi.angular;
    return {polynomial(w, g.b, g.c, wrench.linear),
            polynomial_derivative(w, v, g.b, g.c, g.b_slope(), g.c_slope(), wrench.linear) +
                polynomial(w, g.b, g.c, wrench.angular)};
}

// Jr(xi) twist
SUPPLE_INLINE Six pushed_forward(const Six& xi, const Angles& g, const Six& twist) {
    const Three &v = xi.linear, &w = xi.angular;
    const Eight b = -g.b;
    return {polynomial(w, b, g.c, twist.linear) +
                polynomial_derivative(w, v, b, g.c, -g.b_slope(), g.c_slope(), twist.angular),
            polynomial(w, b, g.c, twist.angular)};
}

}  // namespace supple
