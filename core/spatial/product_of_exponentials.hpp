// The displacement across a joint, and its screws.
#pragma once

#include "spatial/spatial.hpp"

namespace supple {

// exp(q twist) for a twist whose axis is a unit vector, or which has none
SUPPLE_INLINE Pose exp_axis(const Vec6& twist, double q) {
    const Vec3 v = twist.head<3>(), w = twist.tail<3>();
    if (w.isZero(0)) return {Mat3::Identity(), q * v};
    const double h = std::sin(q / 2), c = 2 * h * h, s = 2 * h * std::cos(q / 2);  // c = 1 - cos q, s = sin q
    const Mat3 W = skew(w);
    Mat3 W2 = w * w.transpose();
    W2.diagonal().array() -= 1;
    Pose pose{Mat3::Identity() + s * W + c * W2, Vec3::Zero()};
    if (!v.isZero(0)) pose.p = q * v + c * (W * v) + (q - s) * (W2 * v);
    return pose;
}

// X(q), the product of a joint's exponentials in the order of its axes `first` to `last` - 1: exp(q_i t_i) of a single
// axis, exp(sum of q_i t_i) of three axes that are a rotation vector. screws[i] is the twist of X per unit increment of
// coordinate i, in the frame at the end of X; a rotation vector has increments R exp(d). Without `screws` these are not
// computed. size(i): 3 if axis i belongs to a rotation vector, otherwise 1.
template <class Size, class Twist>
SUPPLE_INLINE Pose product_of_exponentials(int first, int last, const double* q, Size size, Twist twist, Vec6* screws) {
    Pose after;  // of the exponentials from here to the end
    for (int axis = last; axis > first;) {
        const int count = size(axis - 1);
        axis -= count;
        for (int i = axis; screws && i < axis + count; ++i)
            screws[i] = axis + count == last ? twist(i) : transform_twist(after.inverse(), twist(i));
        Pose block;
        if (count == 1) {
            block = exp_axis(twist(axis), q[axis]);
        } else {
            Vec6 xi = q[axis] * twist(axis);
            for (int i = axis + 1; i < axis + count; ++i) xi += q[i] * twist(i);
            block = exp(xi);
        }
        after = axis + count == last ? block : block * after;
    }
    return after;
}

}  // namespace supple
