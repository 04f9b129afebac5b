// The two states before the first step: how poses and velocities follow from the coordinates and rates of the spanning
// tree, and how momenta follow from them.

#include "engine/adjoint.hpp"
#include "spatial/dense.hpp"

namespace supple {

namespace {

Vec6 of_body(const std::vector<Vec6>& all, int body) { return body < 0 ? Vec6(Vec6::Zero()) : all[body]; }

Vec6 along(const System& system, const Joint& joint, const std::vector<double>& values) {
    Vec6 sum = Vec6::Zero();
    for (int axis = joint.first; axis < joint.first + joint.count; ++axis) sum += values[axis] * system.screw(axis);
    return sum;
}

}  // namespace

// A body's twist, from that of its neighbour in the tree and the relative motion of the joint between them.
Vec6 Adjoint::beyond_joint(int b, const std::vector<Vec6>& twists, const Vec6& across) const {
    const int j = system_.model().holder[b];
    const Joint& joint = system_.model().joints[j];
    const Mat6& B = system_.parent_adjoint(j);
    if (joint.child == b) return adjoint(joint.pose_child) * Vec6(B * of_body(twists, joint.parent) + across);
    Eigen::MatrixXd right(6, 1);  // the joint is passed from its child to its parent
    right.col(0).head<6>() = joint.A_child * of_body(twists, joint.child) - across;
    whole::LU(B).solve_in_place(right);
    return right.col(0);
}

std::vector<Vec6> Adjoint::evaluate_start(int record) {
    system_.state.q.assign(tape_->q(record), tape_->q(record) + system_.axes());
    system_.evaluate(!system_.flexible.empty());
    std::vector<Vec6> result(system_.bodies(), Vec6::Zero());
    for (int b : system_.model().order) {
        const Joint& joint = system_.model().joints[system_.model().holder[b]];
        result[b] = beyond_joint(b, result, along(system_, joint, tape_->rate[record]));
    }
    return result;
}

// Those one step before the start are known from the momenta only; bodies without inertia have none in theirs.
std::vector<Vec6> Adjoint::velocities_in_momenta(int record, std::vector<Vec6> by_kinematics) const {
    if (record == 1) return tape_->velocity;
    for (int b : movers_) {
        const Mat3 Rt = system_.state.H[b].R.transpose(), &I = system_.model().group_inertia[b];
        const double m = system_.model().group_mass[b], size = I.trace();
        const Vec6& M = tape_->momentum[record][b];
        Vec3 w = by_kinematics[b].tail<3>(),
             centre_velocity = velocity_at(by_kinematics[b], system_.model().group_centre[b]);
        if (I.determinant() > 1e-12 * size * size * size) w = I.inverse() * Vec3(Rt * M.tail<3>());
        if (m > 0) centre_velocity = Rt * Vec3(M.head<3>() / m);
        by_kinematics[b] = stack(centre_velocity - w.cross(system_.model().group_centre[b]), w);
    }
    return by_kinematics;
}

// With a joint's increments d and rates r (of increments), its screws S and B = Ad(X^-1 pose_parent^-1):
//     A xi_child = B xi_parent + S d,      A V_child = B V_parent + S r
// and, with eta = S d, dB = -ad(eta) B and dS_i = -ad(sum of S_k d_k over the later exponentials) S_i,
//     A dV_child = B dV_parent + S dr + turned,   turned = dS r - ad(eta) B V_parent.
InputArrays Adjoint::start(int record, const double* q, const double* rates) {
    const int nb = system_.bodies(), na = system_.axes();
    const double* recorded_q = tape_->q(record);
    const std::vector<double>& recorded_rate = tape_->rate[record];
    const std::vector<Vec6> recorded_velocity = evaluate_start(record);
    std::vector<double> increments(na, 0.0), more_rates(na, 0.0);
    std::vector<Vec6> twists(nb, Vec6::Zero()), velocities = twists;

    for (const Block& block : blocks_) {  // d = Jr(q) dq, r = Jr(q) q'
        const int a = block.axis;
        if (block.size == 1) {
            increments[a] = q[a];
            more_rates[a] = rates[a];
            continue;
        }
        const Vec3 vector(recorded_q + a), rate(&recorded_rate[a]), dq(q + a), drate(rates + a);
        const Mat3 J = so3_right_jacobian(vector);
        const Vec3 d = J * dq, coordinate_rate = so3_right_jacobian_inverse(vector) * rate;
        const Vec3 r = J * drate + so3_right_jacobian_directional(vector, coordinate_rate) * dq;
        std::copy_n(d.data(), 3, &increments[a]);
        std::copy_n(r.data(), 3, &more_rates[a]);
    }

    auto turned = [&](int j) {
        const Joint& joint = system_.model().joints[j];
        Vec6 sum = -(ad(along(system_, joint, increments)) *
                     (system_.parent_adjoint(j) * of_body(recorded_velocity, joint.parent)));
        if (joint.interface >= 0) {
            const InterfaceFrame& frame = system_.interfaces[joint.interface];
            for (int i = 0; i < joint.count; ++i)
                for (int k = 0; k < joint.count; ++k)
                    sum += recorded_rate[joint.first + i] * increments[joint.first + k] *
                           stack(frame.linear_change(i, k), frame.angular_change(i, k));
            return sum;
        }
        Vec6 later = Vec6::Zero();
        int end = joint.first + joint.count;
        for (std::size_t m = joint.blocks.size(); m-- > 0;) {
            const int begin = end - joint.blocks[m];
            for (int axis = begin; axis < end; ++axis) sum -= recorded_rate[axis] * (ad(later) * system_.screw(axis));
            for (int axis = begin; axis < end; ++axis) later += increments[axis] * system_.screw(axis);
            end = begin;
        }
        return sum;
    };

    for (int b : system_.model().order) {
        const int j = system_.model().holder[b];  // `turned` has the parent's own velocity, also where it is the body
        const Joint& joint = system_.model().joints[j];
        twists[b] = beyond_joint(b, twists, along(system_, joint, increments));
        velocities[b] = beyond_joint(b, velocities, along(system_, joint, more_rates) + turned(j));
    }
    // loops: least squares, as the rates at the start are
    for (std::size_t j = 0; j < system_.model().joints.size(); ++j) {
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
        const Vec6 moved = joint.A_child * of_body(twists, joint.child) - B * of_body(twists, joint.parent);
        least_squares(moved, increments.data() + joint.first);
        const Vec6 sped = joint.A_child * of_body(velocities, joint.child) - B * of_body(velocities, joint.parent) -
                          turned(static_cast<int>(j));
        least_squares(sped, more_rates.data() + joint.first);
    }
    InputArrays result;
    for (auto [from, to] : {std::pair{&twists, &result.twists[record]}, {&velocities, &result.velocities[record]}})
        for (const Vec6& each : *from) to->insert(to->end(), each.data(), each.data() + 6);
    result.increments[record] = std::move(increments);
    result.rates[record] = std::move(more_rates);
    return result;
}

// M = (m R (v + w x c), R I w), p = armature x rate
void Adjoint::start_tangents(int record, const InputArrays* directions, int count, Tangents& now,
                             std::vector<Six>& velocities) {
    const Frame& frame = moved(record);
    const std::vector<Vec6> by_kinematics = evaluate_start(record), V = velocities_in_momenta(record, by_kinematics);
    const std::vector<double>& rate = tape_->rate[record];
    for (int column = 0; column < count; ++column) {
        const InputArrays& d = directions[column];
        for (int b : movers_) {
            const int k = node_of_[b] / width, l = node_of_[b] % width;
            const Mat3 R = body_pose(frame, b).R, &I = system_.model().group_inertia[b];
            const Vec3 w = V[b].tail<3>(), &c = system_.model().group_centre[b];
            const double m = system_.model().group_mass[b];
            const Vec6 dV = d.velocities[record].empty() ? Vec6(Vec6::Zero()) : Vec6(&d.velocities[record][6 * b]);
            const Vec6 twist = d.twists[record].empty() ? Vec6(Vec6::Zero()) : Vec6(&d.twists[record][6 * b]);
            const Vec3 turn = R * twist.tail<3>();
            Vec3 linear = m * velocity_at(dV, c), angular = I * dV.tail<3>();
            if (!d.mass.empty()) linear += d.mass[b] * velocity_at(V[b], c);
            if (!d.centre.empty()) linear += m * w.cross(Vec3(&d.centre[3 * b]));
            if (!d.inertia.empty()) angular += Eigen::Map<const Mat3>(&d.inertia[9 * b]) * w;
            Six &H = now.H[node_of_[b]], &M = now.M[node_of_[b]], &v = velocities[node_of_[b]];
            put(H.linear, column, R * velocity_at(twist, c));
            put(H.angular, column, turn);
            put(M.linear, column, R * linear + turn.cross(get(frame.blocks[k].linear, l)));
            put(M.angular, column, R * angular + turn.cross(get(frame.blocks[k].angular, l)));
            put(v.linear, column, dV.head<3>());
            put(v.angular, column, dV.tail<3>());
        }
        for (int axis = 0; axis < system_.axes(); ++axis) {
            if (!d.increments[record].empty()) now.q[axis][column] = d.increments[record][axis];
            double p = 0;
            if (!d.rates[record].empty()) p += system_.model().armature[axis] * d.rates[record][axis];
            if (!d.armature.empty()) p += rate[axis] * d.armature[axis];
            now.p[axis][column] = p;
        }
    }
    start_flexible(record, by_kinematics, directions, count, now);
}

// The transposed map.
void Adjoint::pull_back_start(int record, const Gradient& g, InputArrays& result) {
    const Frame& frame = moved(record);
    const std::vector<Vec6> by_kinematics = evaluate_start(record), V = velocities_in_momenta(record, by_kinematics);
    for (int b : movers_) {
        const int k = node_of_[b] / width, l = node_of_[b] % width;
        const Gradient::Bodies& from = g.bodies[k];
        const Mat3 Rt = body_pose(frame, b).R.transpose();
        const Vec3 linear = get(from.linear, l), angular = get(from.angular, l), own_linear = Rt * linear,
                   own_angular = Rt * angular;
        const Vec3 w = V[b].tail<3>(), &c = system_.model().group_centre[b];
        const double m = system_.model().group_mass[b];
        const Vec3 turned = get(from.F, l) + get(frame.blocks[k].linear, l).cross(linear) +
                            get(frame.blocks[k].angular, l).cross(angular);
        Eigen::Map<Vec6>(&result.twists[record][6 * b]) += at_origin(Rt * get(from.P, l), Rt * turned, c);
        Eigen::Map<Vec6>(&result.velocities[record][6 * b]) += stack(
            m * own_linear, m * c.cross(own_linear) + system_.model().group_inertia[b] * own_angular);
        result.mass[b] += velocity_at(V[b], c).dot(own_linear);
        Eigen::Map<Vec3>(&result.centre[3 * b]) += m * own_linear.cross(w);
        Eigen::Map<Mat3>(&result.inertia[9 * b]) += own_angular * w.transpose();
    }
    for (int axis = 0; axis < system_.axes(); ++axis) {
        result.increments[record][axis] = g.q[axis];
        result.rates[record][axis] = system_.model().armature[axis] * g.p[axis];
        result.armature[axis] += tape_->rate[record][axis] * g.p[axis];
    }
    pull_back_flexible_start(record, g, by_kinematics, result);
}

}  // namespace supple
