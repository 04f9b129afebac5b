// Wrenches on bodies: weight, loads, handles and flexible parts.
#include "engine/system.hpp"

namespace supple {

// Wrenches on bodies: gravity, loads, handles, and minus the rate of momentum. The tangent's body element is
// -dw/dxi - N(w)/2, the second term from the exponential chart.
void System::apply(const Step* step, const History* history, bool tangent) {
    const int nb = bodies();
    std::vector<Mat6>& derivative = wrench_derivative_;
    for (int b = 0; b < nb; ++b) {
        const Vec3 weight = state.H[b].R.transpose() * (model_->mass[b] * gravity);
        wrench_[b] = at_origin(weight, Vec3::Zero(), model_->centre[b]);
        if (tangent) derivative[b] = world_wrench_derivative(weight, Vec3::Zero(), model_->centre[b]);
        if (step) apply_inertia(b, *step, *history, tangent ? &derivative[b] : nullptr);
    }
    for (const Load& load : loads) {
        const Mat3 Rt = state.H[load.body].R.transpose();
        Vec3 force = load.wrench.head<3>(), torque = load.wrench.tail<3>();
        if (load.world) {
            force = Rt * force;
            torque = Rt * torque;
            if (tangent) derivative[load.body] += world_wrench_derivative(force, torque, load.point);
        }
        wrench_[load.body] += at_origin(force, torque, load.point);
    }
    for (const Handle& handle : handles) {
        const Pose& H = state.H[handle.body];
        const Vec3 at = H.act(handle.point);
        Vec3 force = handle.stiffness * (handle.target - at);
        const Vec6& v = velocity[handle.body];
        if (step) force -= handle.damping * (H.R * (v.head<3>() + v.tail<3>().cross(handle.point)));
        force = H.R.transpose() * force;
        wrench_[handle.body] += at_origin(force, Vec3::Zero(), handle.point);
        if (tangent) {
            derivative[handle.body] += world_wrench_derivative(force, Vec3::Zero(), handle.point);
            const Mat3 r = skew(handle.point);
            Mat3 moved = handle.stiffness * Mat3::Identity(), turned = -handle.stiffness * r;
            if (step) {  // velocity of the point: that of the centre of mass, and spin x arm
                const double c = handle.damping * step->c0 / step->h;
                const Vec3 arm = handle.point - model_->group_centre[handle.body], spin = v.tail<3>();
                moved += c * Mat3::Identity();
                turned -= c * skew(model_->group_centre[handle.body]) +
                          handle.damping * (skew(spin.cross(arm)) + skew(arm) * spin_derivative_[handle.body]);
            }
            derivative[handle.body] -= blocks(moved, turned, r * moved, r * turned);
        }
    }
    apply_flexible(step, history, tangent);
    if (!tangent) return;
    for (int b = 0; b < nb; ++b)
        Eigen::Map<Mat6>(fronts_->element(b)) = -derivative[b] - 0.5 * bracket_form(wrench_[b]);
}

// Inertia, weight, internal force and damping of flexible bodies.
void System::apply_flexible(const Step* step, const History* history, bool tangent) {
    for (std::size_t f = 0; f < flexible.size(); ++f) {
        FlexibleBody& each = flexible[f];
        each.evaluate(state.H[each.body], &state.q[each.axis], gravity, step, step ? &history->flexible[f] : nullptr,
                      step ? &history->flexible_before[f] : nullptr, flexible_state[f], tangent);
        wrench_[each.body] -= each.wrench();
        const int r = each.modes();
        for (int p = 0; p < r; ++p) residual_[axis_row_[each.axis + p]] -= each.forces()[p];
        if (!tangent) continue;
        wrench_derivative_[each.body] -= each.by_twist();
        const int e = bodies() +
                      static_cast<int>(model_->joints.size() + model_->springs.size() + model_->rows.size() + f);
        Eigen::Map<Eigen::MatrixXd> element(fronts_->element(e), 6 + r, 6 + r);
        element.topLeftCorner<6, 6>().setZero();
        for (int p = 0; p < r; ++p) {
            element.block<6, 1>(0, 6 + p) = each.mixed(p);
            element.block<1, 6>(6 + p, 0) = each.mixed(p).transpose();
            for (int q = 0; q < r; ++q) element(6 + p, 6 + q) = each.slope(p, q);
        }
    }
}

}  // namespace supple
