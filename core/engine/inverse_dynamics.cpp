#include "engine/inverse_dynamics.hpp"

#include <algorithm>

#include "engine/articulated_lanes.hpp"

namespace supple {

namespace {
// Rows of six numbers, one for each of eight nodes, and back.
SUPPLE_INLINE void to_rows(const Six& all, Eight rows[8]) {
    const Three &v = all.linear, &w = all.angular;
    const Eight columns[8] = {v.x, v.y, v.z, w.x, w.y, w.z, every(0.0), every(0.0)};
    std::copy_n(columns, 8, rows);
    transpose(rows);
}
SUPPLE_INLINE Six from_rows(Eight rows[8]) {
    transpose(rows);
    return {three(rows), three(rows + 3)};
}
SUPPLE_INLINE void put(Six& to, int lane, const Vec3& linear, const Vec3& angular) {
    put(to.linear, lane, linear);
    put(to.angular, lane, angular);
}
SUPPLE_INLINE void split(const Six& six, Eight* to) {
    const Eight all[6] = {six.linear.x, six.linear.y, six.linear.z, six.angular.x, six.angular.y, six.angular.z};
    std::copy_n(all, 6, to);
}
}  // namespace

InverseDynamics::InverseDynamics(std::shared_ptr<const Model> described)
    : OwnSystem{System(std::move(described))}, Articulated(own, Use::poses) {
    const Model& model = own.model();
    std::vector<int> column(model.axes(), -1);
    for (const Joint& joint : model.joints)
        for (int a = joint.first; joint.outer >= 0 && a < joint.first + joint.count; ++a) column[a] = size_++;
    moving_.resize(blocks_);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i].size != 1) continue;
        singles_.emplace_back(static_cast<int>(i), column[nodes_[i].axis]);
        moving_[i / width].armature[i % width] = model.armature[nodes_[i].axis];
    }
    for (const BallNode& node : balls_) rotations_.emplace_back().column = column[node.axis];
    twist_.resize(nodes_.size());
    acceleration_.resize(nodes_.size());
}

void InverseDynamics::compute(const double* q, const double* rates, const double* accelerations, const Vec3& gravity,
                              const std::vector<Load>& loads, double* torques) {
    for (const auto& [node, column] : singles_) {
        const int b = node / width, l = node % width;
        present_[b].q[l] = q[column];
        moving_[b].rate[l] = rates[column];
        moving_[b].acceleration[l] = accelerations[column];
    }
    for (std::size_t i = 0; i < balls_.size(); ++i)
        balls_[i].set_joint_rotation(so3_exp(Vec3(q + rotations_[i].column)));
    forward();
    origin_ = pose(std::min<int>(grounded_, nodes_.size() - 1)).p;
    // w = Jr(r) r', w' = Jr r'' + d(Jr r')/dr r' in the axes of the joint's child
    for (std::size_t i = 0; i < balls_.size(); ++i) {
        Ball& ball = rotations_[i];
        const Vec3 r(q + ball.column), rate(rates + ball.column), acceleration(accelerations + ball.column);
        ball.jacobian = so3_right_jacobian(r);
        ball.acceleration = ball.jacobian * acceleration + so3_right_jacobian_directional(r, rate) * rate;
        const Mat3 R = pose(balls_[i].node).R;
        ball.spin = R * balls_[i].from_joint(ball.jacobian * rate);
        ball.turning = R * balls_[i].from_joint(ball.acceleration);
    }
    outward(gravity);
    for (const Load& load : loads) {
        const int node = body_node_[load.body];
        const Pose H = body_pose(load.body);
        const Mat3 R = load.world ? Mat3::Identity() : H.R;
        const Vec3 force = R * load.wrench.head<3>(),
                   moment = R * load.wrench.tail<3>() + (H.act(load.point) - origin_).cross(force);
        for (int k = 0; k < 3; ++k) {
            moving_[node / width].wrench[k][node % width] -= force[k];
            moving_[node / width].wrench[3 + k][node % width] -= moment[k];
        }
    }
    inward(torques);
}

// Twists and accelerations of all nodes, and the wrenches that move their bodies.
void InverseDynamics::outward(const Vec3& gravity) {
    const int n = static_cast<int>(nodes_.size());
    const Eight at_rest = every(0.0), lifted = {-gravity[0], -gravity[1], -gravity[2], 0, 0, 0, 0, 0};
    Eight v = at_rest, a = lifted;
    for (int b = grounded_ / width; b < blocks_; ++b) {
        const Fixed& fixed = fixed_[b];
        const Present& now = present_[b];
        Moving& moving = moving_[b];
        const Turn R = {three(now.R), three(now.R + 3), three(now.R + 6)};
        const Three p = three(now.position) - every(origin_);
        const Six screw = {fixed.turns * cross(p, R.z) + fixed.slides * R.z, fixed.turns * R.z};
        split(screw, moving.screw);
        Six own = moving.rate * screw, more = moving.acceleration * screw;  // of the node in its parent
        const int first = std::max(grounded_ - width * b, 0), end = std::min(width, n - width * b);
        for (int l = first; l < end && !balls_.empty(); ++l) {
            if (!(flags_[width * b + l] & ball)) continue;
            const Ball& each = rotations_[ball_of_[width * b + l]];
            put(own, l, get(p, l).cross(each.spin), each.spin);
            put(more, l, get(p, l).cross(each.turning), each.turning);
        }
        auto follow = [&](Eight rows[8], Eight& carried, std::vector<Eight>& kept, const Eight& world) {
            for (int l = 0; l < width; ++l) {
                const int i = width * b + l;
                if (l < first || l >= end || based_[i]) carried = world;
                else if (flags_[i] & branches) carried = kept[nodes_[i].parent];
                if (l >= first && l < end) carried += rows[l];
                rows[l] = carried;
                if (l < end && flags_[i] & joins) kept[i] = carried;
            }
        };
        Eight rows[8];
        to_rows(own, rows);
        follow(rows, v, twist_, at_rest);
        const Six twist = from_rows(rows);
        to_rows(more + bracket(twist, own), rows);
        follow(rows, a, acceleration_, lifted);
        const Six acceleration = from_rows(rows);
        // Newton's and Euler's equations about the centre of mass
        const Three &w = twist.angular, &turning = acceleration.angular, c = R * three(fixed.centre) + p;
        const Three force = fixed.mass *
                            (acceleration.linear + cross(turning, c) + cross(w, twist.linear + cross(w, c)));
        const Three spun = R * times_inertia(fixed.inertia, product_transposed(R, w));
        const Three torque = R * times_inertia(fixed.inertia, product_transposed(R, turning)) + cross(w, spun);
        split({force, cross(c, force) + torque}, moving.wrench);
    }
}

void InverseDynamics::inward(double* torques) {
    for (int i : joined_) summed_[i].W = every(0.0);
    Eight W = every(0.0);
    alignas(64) double along[width];
    std::size_t single = singles_.size();
    for (int b = blocks_ - 1; b >= grounded_ / width; --b) {
        Moving& moving = moving_[b];
        Eight rows[8];
        to_rows({three(moving.wrench), three(moving.wrench + 3)}, rows);
        for (int l = std::min(width, static_cast<int>(nodes_.size()) - width * b) - 1; l >= 0; --l) {
            const int i = width * b + l;
            if (!(flags_[i] & chained)) W = every(0.0);
            if (flags_[i] & joins) W += summed_[i].W;
            W += rows[l];
            rows[l] = W;
            if (flags_[i] & branches) summed_[nodes_[i].parent].W += W;
        }
        const Six carried = from_rows(rows), screw = {three(moving.screw), three(moving.screw + 3)};
        store(along, dot(screw, carried) + moving.armature * moving.acceleration);
        for (; single > 0 && singles_[single - 1].first >= width * b; --single)
            torques[singles_[single - 1].second] = along[singles_[single - 1].first % width];
        for (std::size_t k = 0; k < balls_.size(); ++k) {
            const BallNode& node = balls_[k];
            if (node.node / width != b) continue;
            const Ball& ball = rotations_[k];
            const Pose H = pose(node.node);
            const Vec6 wrench = get(carried, node.node % width);
            const Vec3 moment = H.R.transpose() * (wrench.tail<3>() - (H.p - origin_).cross(wrench.head<3>()));
            Vec3 torque = node.to_joint(moment);
            for (int i = 0; i < 3; ++i) torque[i] += own.model().armature[node.axis + i] * ball.acceleration[i];
            Eigen::Map<Vec3>(torques + ball.column) = ball.jacobian.transpose() * torque;
        }
    }
}

}  // namespace supple
