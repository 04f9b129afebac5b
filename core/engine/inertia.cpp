// Momenta of bodies, and the wrench that their rate of change takes.
#include "engine/system.hpp"

namespace supple {

Vec6 System::momentum_of(int b, const Pose& H, const Vec6& v) const {
    const Vec3 linear = model_->group_mass[b] * (v.head<3>() + v.tail<3>().cross(model_->group_centre[b]));
    return stack(H.R * linear, H.R * (model_->group_inertia[b] * v.tail<3>()));
}

// Minus the rate of momentum, as a wrench at the body's origin. Differences of the centre of mass and of the momenta
// are taken in world axes, so that a body without loads moves in a straight line and keeps its momentum exactly. The
// passes have the same differences for eight bodies abreast (Articulated::Motion::set_rates). This plain form stays
// beside it: the sparse solver is what tests compare the passes with.
void System::apply_inertia(int b, const Step& step, const History& history, Mat6* derivative) {
    const Pose& H = state.H[b];
    const Mat3 Rt = H.R.transpose();
    const double mass = model_->group_mass[b];
    const Vec3& centre = model_->group_centre[b];
    const Mat3& inertia = model_->group_inertia[b];
    const double c = step.c0 / step.h;
    const Vec3 centre_velocity = (step.c0 * H.act(centre) + step.c1 * history.centre[b] +
                                  step.c2 * history.centre_before[b]) /
                                 step.h;
    // spin = Jr(x) (c0 x - c2 x_0) / h with x = log(R_n^T R)
    const Vec3 x = so3_log(history.H[b].R.transpose() * H.R);
    const Vec3& before = history.turn[b];
    Vec3 spin = step.c0 * x;
    if (step.c2 != 0) spin -= step.c2 * (so3_right_jacobian(x) * before);
    spin /= step.h;
    velocity[b] = stack(Rt * centre_velocity - spin.cross(centre), spin);
    momentum[b] = stack(mass * centre_velocity, H.R * (inertia * spin));

    const Vec6 past = (step.c1 * history.momentum[b] + step.c2 * history.momentum_before[b]) / step.h;
    momentum_wrench_[b] = -(c * momentum[b] + past);
    const Vec3 force = Rt * momentum_wrench_[b].head<3>();
    const Vec3 past_torque = -(Rt * past.tail<3>());
    wrench_[b] += at_origin(force, past_torque - c * (inertia * spin), centre);
    if (!derivative) return;
    *derivative += world_wrench_derivative(force, past_torque, centre);
    const Mat3 r = skew(centre);
    *derivative -= mass * c * c * blocks(Mat3::Identity(), -r, r, -r * r);
    // d spin = (c0 - c2 d(Jr(x) x_0)/dx) Jr(x)^-1 / h
    Mat3 turn = step.c0 * Mat3::Identity();
    if (step.c2 != 0) turn -= step.c2 * so3_right_jacobian_directional(x, before);
    spin_derivative_[b] = turn * so3_right_jacobian_inverse(x) / step.h;
    derivative->bottomRightCorner<3, 3>() -= c * (inertia * spin_derivative_[b]);
}

}  // namespace supple
