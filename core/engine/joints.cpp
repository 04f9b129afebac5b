// Torques of a joint's springs, dampers and armatures, and the element of the joint in the tangent.
#include <cmath>

#include "engine/system.hpp"

namespace supple {

// Spring, damper and armature of one block of a joint: torque and its derivative in the block's increments.
void System::axis_torque(int first, int size, const Step* step, const History* history,
                         Eigen::Ref<Eigen::VectorXd> torque, Eigen::Ref<Eigen::MatrixXd> slope) {
    for (int i = 0; i < size; ++i) {
        const int axis = first + i;
        const double deflection = state.q[axis] - rest[axis];
        torque[i] = model_->stiffness[axis] * deflection - applied[axis];
        slope(i, i) = model_->stiffness[axis];
        if (model_->curve[axis] >= 0) {
            double t, s, e;
            model_->curves[model_->curve[axis]].evaluate(deflection, t, s, e);
            torque[i] += t;
            slope(i, i) += s;
        }
    }
    Vec3 increment = Vec3::Zero();
    Mat3 turn = Mat3::Identity();  // derivative of a rotation's increment
    if (size == 3) {  // torque Jr^-T y on the increment of R exp(delta), derivative in the exponential chart
        const Vec3 r(state.q[first], state.q[first + 1], state.q[first + 2]), y = torque.head<3>();
        const Mat3 Ji = so3_right_jacobian_inverse(r);
        const Mat3 on_vector = slope.topLeftCorner<3, 3>();
        slope.topLeftCorner<3, 3>() = (Ji.transpose() * on_vector + so3_right_jacobian_inverse_directional(r, y)) * Ji;
        torque.head<3>() = Ji.transpose() * y;
        if (step) {
            const Vec3 r_n(history->q[first], history->q[first + 1], history->q[first + 2]);
            const Vec3 r_b(history->q_before[first], history->q_before[first + 1], history->q_before[first + 2]);
            const Mat3 R_n = so3_exp(r_n);
            const Vec3 x = so3_log(R_n.transpose() * so3_exp(r));
            increment = (step->c0 * x + step->c2 * so3_log(R_n.transpose() * so3_exp(r_b))) / step->h;
            turn = so3_right_jacobian_inverse(x);
        }
    }
    for (int i = 0; step && i < size; ++i) {
        const int axis = first + i;
        const double v = size == 3 ? increment[i]
                                   : step->rate(state.q[axis], history->q[axis], history->q_before[axis]);
        rate[axis] = v;
        const double c = step->c0 / step->h;
        torque[i] += model_->damping[axis] * v;
        double resistance = model_->damping[axis] * c;
        if (model_->armature[axis] != 0) {
            torque[i] += step->rate(model_->armature[axis] * v, history->p[axis], history->p_before[axis]);
            resistance += model_->armature[axis] * c * c;
        }
        for (int k = 0; k < size; ++k) slope(i, k) += resistance * turn(i, k);
    }
    if (size == 3) slope -= 0.5 * skew(torque);
    if (model_->actuators.empty() || size != 1) return;
    for (std::size_t i = 0; i < model_->actuators.size(); ++i) {
        if (model_->actuators[i].axis != first) continue;
        double by_length;
        torque[0] -= excess(static_cast<int>(i), state.q[first], step ? rate[first] : 0.0,
                            step ? step->c0 / step->h : 0.0, by_length);
        slope(0, 0) -= by_length;
    }
}

// -(dS_i/dq_k + dS_k/dq_i) . lambda / 2 for the screws S of an interface: the second derivative of lambda^T c.
void System::add_interface_curvature(int j, Eigen::Ref<Eigen::MatrixXd> slope) {
    const Joint& joint = model_->joints[j];
    const int r = joint.count;
    const Vec6& lambda = state.lambda[j];
    double change[64 * 64];  // a joint has at most 64 axes
    std::fill_n(change, r * r, 0.0);
    interfaces[joint.interface].add_contracted(lambda.head<3>(), lambda.tail<3>(), change);
    for (int i = 0; i < r; ++i)
        for (int k = 0; k < r; ++k) slope(i, k) -= 0.5 * (change[i * r + k] + change[k * r + i]);
}

void System::fill_joint(int j, const Step* step, const History* history, bool tangent) {
    const Joint& joint = model_->joints[j];
    const int k = joint.count;
    const Vec6& lambda = state.lambda[j];

    double torque_buffer[64], slope_buffer[64 * 64];
    Eigen::Map<Eigen::VectorXd> torque(torque_buffer, k);
    Eigen::Map<Eigen::MatrixXd> slope(slope_buffer, k, k);
    slope.setZero();
    int at = 0;
    for (int size : joint.blocks) {
        axis_torque(joint.first + at, size, step, history, torque.segment(at, size), slope.block(at, at, size, size));
        at += size;
    }
    const bool loop = joint.outer < 0;
    const Vec6 on_parent = loop ? Vec6(loop_parent_[j].transpose() * lambda) : lambda;
    for (int i = 0; i < k; ++i) {
        const int axis = joint.first + i;
        residual_[axis_row_[axis]] -= torque[i] - screw_[axis].dot(on_parent);
    }
    if (loop) Eigen::Map<Vec6>(&residual_[joint_start_[j]]) -= gap_[j];
    if (!tangent) return;

    // c' = A_b b - B_a a - S q, of a loop as at `loop_child_`; second derivatives of lambda^T c where it is closed:
    //   qa: S^T N B/2,  qb: -S^T N A/2,  ab: -B^T N A/2,  qq: -s_i^T N s_k/2 between different exponentials
    const int nb = bodies();
    const int n = fronts_->element_size(nb + j);
    Eigen::Map<Eigen::MatrixXd> element(fronts_->element(nb + j), n, n);
    element.setZero();
    const int a = 0, b = joint.parent >= 0 ? 6 : 0, l = b + (joint.child >= 0 ? 6 : 0), q = l + 6;
    const Mat6 N = bracket_form(lambda);
    const Mat6& A = joint.A_child;
    const Mat6& B = B_parent_[j];
    if (joint.parent >= 0) {
        element.block<6, 6>(l, a) = -(scale_.asDiagonal() * (loop ? Mat6(loop_parent_[j] * B) : B));
        element.block<6, 6>(a, l) = element.block<6, 6>(l, a).transpose();
    }
    if (joint.child >= 0) {
        element.block<6, 6>(l, b) = scale_.asDiagonal() * (loop ? Mat6(loop_child_[j] * A) : A);
        element.block<6, 6>(b, l) = element.block<6, 6>(l, b).transpose();
    }
    if (joint.parent >= 0 && joint.child >= 0) {
        const Mat6 ab = -0.5 * (B.transpose() * (N * A));
        element.block<6, 6>(a, b) = ab;
        element.block<6, 6>(b, a) = ab.transpose();
    }
    for (int i = 0; i < k; ++i) {
        const Vec6& s = screw_[joint.first + i];
        element.block<6, 1>(l, q + i) = -scale_.cwiseProduct(loop ? Vec6(loop_parent_[j] * s) : s);
        element.block<1, 6>(q + i, l) = element.block<6, 1>(l, q + i).transpose();
        const Vec6 Ns = 0.5 * (N.transpose() * s);  // (s^T N)^T / 2
        if (joint.parent >= 0) {
            const Vec6 qa = B.transpose() * Ns;
            element.block<6, 1>(a, q + i) = qa;
            element.block<1, 6>(q + i, a) = qa.transpose();
        }
        if (joint.child >= 0) {
            const Vec6 qb = -(A.transpose() * Ns);
            element.block<6, 1>(b, q + i) = qb;
            element.block<1, 6>(q + i, b) = qb.transpose();
        }
    }
    if (joint.interface >= 0) add_interface_curvature(j, slope);
    element.block(q, q, k, k) = slope;
    if (joint.interface >= 0) return;
    at = 0;
    for (std::size_t m = 0; m < joint.blocks.size(); ++m) {
        for (int i = at; i < at + joint.blocks[m]; ++i)
            for (int h = at + joint.blocks[m]; h < k; ++h) {
                const double value = -0.5 * screw_[joint.first + i].dot(N * screw_[joint.first + h]);
                element(q + i, q + h) += value;
                element(q + h, q + i) += value;
            }
        at += joint.blocks[m];
    }
}

}  // namespace supple
