// How poses and velocities at the start follow from the coordinates and rates of the spanning tree.

#include "engine/adjoint.hpp"
#include "spatial/dense.hpp"

namespace supple {

// With a joint's increments d and rates r (of increments), its screws S and B = Ad(X^-1 pose_parent^-1):
//     A xi_child = B xi_parent + S d,      A V_child = B V_parent + S r
// and, with eta = S d, dB = -ad(eta) B and dS_i = -ad(sum of S_k d_k over the later exponentials) S_i,
//     A dV_child = B dV_parent + S dr + turned,   turned = dS r - ad(eta) B V_parent.
InputArrays Adjoint::start(const double* q, const double* rates) {
    const int nb = system_.bodies(), na = system_.axes();
    const double* recorded_q = tape_->q(1);
    system_.state.q.assign(recorded_q, recorded_q + na);
    system_.evaluate(false);
    InputArrays result;
    result.twists.assign(6 * nb, 0.0);
    result.velocities.assign(6 * nb, 0.0);
    result.increments.assign(na, 0.0);
    result.rates.assign(na, 0.0);

    for (const Block& block : blocks_) {  // d = Jr(q) dq, r = Jr(q) q'
        const int a = block.axis;
        if (block.size == 1) {
            result.increments[a] = q[a];
            result.rates[a] = rates[a];
            continue;
        }
        const Vec3 vector(recorded_q + a), rate(&tape_->rate[a]), dq(q + a), drate(rates + a);
        const Mat3 J = so3_right_jacobian(vector);
        const Vec3 d = J * dq, coordinate_rate = so3_right_jacobian_inverse(vector) * rate;
        const Vec3 r = J * drate + so3_right_jacobian_directional(vector, coordinate_rate) * dq;
        std::copy_n(d.data(), 3, &result.increments[a]);
        std::copy_n(r.data(), 3, &result.rates[a]);
    }

    auto twist = [&](std::vector<double>& all, int body) -> Vec6 {
        return body < 0 ? Vec6(Vec6::Zero()) : Vec6(Eigen::Map<const Vec6>(all.data() + 6 * body));
    };
    auto recorded = [&](int body) -> Vec6 { return body < 0 ? Vec6(Vec6::Zero()) : tape_->velocity[body]; };
    auto along = [&](const Joint& joint, const std::vector<double>& values) {
        Vec6 sum = Vec6::Zero();
        for (int axis = joint.first; axis < joint.first + joint.count; ++axis) sum += values[axis] * system_.screw(axis);
        return sum;
    };
    auto turned = [&](int j) {
        const Joint& joint = system_.model().joints[j];
        Vec6 sum = -(ad(along(joint, result.increments)) * (system_.parent_adjoint(j) * recorded(joint.parent)));
        if (joint.interface >= 0) {
            const InterfaceFrame& frame = system_.interfaces[joint.interface];
            for (int i = 0; i < joint.count; ++i)
                for (int k = 0; k < joint.count; ++k)
                    sum += tape_->rate[joint.first + i] * result.increments[joint.first + k] *
                           stack(frame.linear_change(i, k), frame.angular_change(i, k));
            return sum;
        }
        Vec6 later = Vec6::Zero();
        int end = joint.first + joint.count;
        for (std::size_t m = joint.blocks.size(); m-- > 0;) {
            const int begin = end - joint.blocks[m];
            for (int axis = begin; axis < end; ++axis) sum -= tape_->rate[axis] * (ad(later) * system_.screw(axis));
            for (int axis = begin; axis < end; ++axis) later += result.increments[axis] * system_.screw(axis);
            end = begin;
        }
        return sum;
    };

    for (int b : system_.model().order) {
        const int j = system_.model().holder[b];
        const Joint& joint = system_.model().joints[j];
        const Mat6& B = system_.parent_adjoint(j);
        const Vec6 d = along(joint, result.increments), r = along(joint, result.rates) + turned(j);
        Eigen::Map<Vec6> xi(&result.twists[6 * b]), dV(&result.velocities[6 * b]);
        if (joint.child == b) {
            const Mat6 to_body = adjoint(joint.pose_child);
            xi = to_body * (B * twist(result.twists, joint.parent) + d);
            dV = to_body * (B * twist(result.velocities, joint.parent) + r);
        } else {  // the joint is passed from its child to its parent; `turned` has the parent's own velocity
            Eigen::MatrixXd both(6, 2);
            both.col(0) = joint.A_child * twist(result.twists, joint.child) - d;
            both.col(1) = joint.A_child * twist(result.velocities, joint.child) - r;
            whole::LU(B).solve_in_place(both);
            xi = both.col(0);
            dV = both.col(1);
        }
    }
    for (std::size_t j = 0; j < system_.model().joints.size(); ++j) {  // loops: least squares, as the rates at the start are
        const Joint& joint = system_.model().joints[j];
        if (joint.outer >= 0 || joint.count == 0) continue;
        Eigen::MatrixXd S(6, joint.count);
        for (int i = 0; i < joint.count; ++i) S.col(i) = system_.screw(joint.first + i);
        const Mat6& B = system_.parent_adjoint(static_cast<int>(j));
        Eigen::MatrixXd products;
        whole::multiply_transposed(S, S, products);
        const whole::SymmetricEigen modes(products);
        auto least_squares = [&](const Vec6& b, double* x) {
            std::fill(x, x + joint.count, 0.0);
            for (Eigen::Index k = 0; k < modes.values.size(); ++k) {
                if (modes.values[k] < 1e-24 * modes.values.maxCoeff()) continue;
                const auto mode = modes.vectors.col(k);
                const double amplitude = b.dot(S * mode) / modes.values[k];
                for (int i = 0; i < joint.count; ++i) x[i] += amplitude * mode[i];
            }
        };
        const Vec6 moved = joint.A_child * twist(result.twists, joint.child) - B * twist(result.twists, joint.parent);
        least_squares(moved, result.increments.data() + joint.first);
        const Vec6 sped = joint.A_child * twist(result.velocities, joint.child) - B * twist(result.velocities, joint.parent) -
                          turned(static_cast<int>(j));
        least_squares(sped, result.rates.data() + joint.first);
    }
    return result;
}

}  // namespace supple
