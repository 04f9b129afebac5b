#include "engine/inverse_dynamics.hpp"

#include <algorithm>
#include <cmath>

#include "engine/articulated_lanes.hpp"

namespace supple {

InverseDynamics::InverseDynamics(const Model& m) {
    const int nb = m.bodies();
    std::vector<int> holder(nb, -1), column(m.joints.size(), -1);
    for (std::size_t j = 0; j < m.joints.size(); ++j) {
        if (m.joints[j].outer < 0) continue;
        holder[m.joints[j].outer] = static_cast<int>(j);
        column[j] = size_;
        size_ += m.joints[j].count;
    }
    body_node_.assign(nb, -1);
    body_in_node_.resize(nb);
    for (int b : m.order) {
        const int j = holder[b];
        const Joint& joint = m.joints[j];
        const bool along = joint.child == b;
        const int inner = along ? joint.parent : joint.child;
        Pose lead = inner < 0 ? Pose{} : body_in_node_[inner];
        int last = inner < 0 ? -1 : body_node_[inner];
        const JointNodes parts = joint_nodes(m, joint, along);
        const bool shares_node = joint.count == 0 && inner >= 0;
        for (const JointNode& part : parts.nodes) {
            if (shares_node) break;
            Node node{part, last};
            node.frame = lead * part.frame;
            if (part.size) node.column = column[j] + part.axis - joint.first;
            for (int i = 0; i < part.size; ++i) node.armature[i] = m.armature[part.axis + i];
            lead = Pose{};
            last = static_cast<int>(nodes_.size());
            ball_of_.push_back(part.size == 3 ? static_cast<int>(balls_.size()) : -1);
            if (part.size == 3) balls_.emplace_back();
            nodes_.push_back(node);
        }
        const Pose& in = body_in_node_[b] = shares_node ? lead * parts.nodes[0].frame * parts.outer_body : parts.outer_body;
        body_node_[b] = last;
        Node& node = nodes_[last];
        const Vec3 centre = in.act(m.centre[b]);
        const Mat3 c = skew(centre);
        node.mass += m.mass[b];
        node.moment += m.mass[b] * centre;
        node.inertia += in.R * m.inertia[b] * in.R.transpose() - m.mass[b] * c * c;
    }
    for (auto* each : {&angle_, &sine_, &cosine_}) each->assign((nodes_.size() + width - 1) / width * width, 0.0);
}

// Rotation, angular velocity and acceleration of a ball joint: w = Jr(r) r', w' = Jr r'' + d(Jr r')/dr r'. Where the tree passes the joint
// from its child to its parent, the node's rotation is the inverse, and w and w' become -R w and -R w'.
void InverseDynamics::move_ball(Node& node, const double* q, const double* rates, const double* accelerations) {
    Ball& ball = balls_[ball_of_[&node - nodes_.data()]];
    const Vec3 r(q), rate(rates), acceleration(accelerations);
    ball.rotation = so3_exp(r);
    ball.jacobian = so3_right_jacobian(r);
    ball.acceleration = ball.jacobian * acceleration + so3_right_jacobian_directional(r, rate) * rate;
    Vec3 spin = ball.jacobian * rate, turning = ball.acceleration;
    if (node.sign < 0) {
        spin = -(ball.rotation * spin);
        turning = -(ball.rotation * turning);
    }
    node.linear_rate += node.linear.cross(spin);
    node.angular_rate += turning + node.angular.cross(spin);
    node.angular += spin;
}

void InverseDynamics::compute(const double* q, const double* rates, const double* accelerations, const Vec3& gravity,
                              const std::vector<Load>& loads, double* torques) {
    const Vec3 zero = Vec3::Zero(), lifted = -gravity;
    for (std::size_t i = 0; i < nodes_.size(); ++i) angle_[i] = nodes_[i].turns != 0 ? q[nodes_[i].column] : 0.0;
    for (std::size_t i = 0; i < nodes_.size(); i += width) {
        Eight sine, cosine;
        sine_cosine(load(&angle_[i]), sine, cosine);
        store(&sine_[i], sine);
        store(&cosine_[i], cosine);
    }
    for (Node& node : nodes_) {
        const Node* parent = node.parent < 0 ? nullptr : &nodes_[node.parent];
        const Vec3 &w = parent ? parent->angular : zero, &a = parent ? parent->linear_rate : lifted;
        const Vec3 &v = parent ? parent->linear : zero, &alpha = parent ? parent->angular_rate : zero;
        node.p = node.frame.p;
        if (node.size == 1) {
            const double x = q[node.column], rate = rates[node.column];
            const std::size_t i = &node - nodes_.data();
            const double s = sine_[i], c = cosine_[i];
            node.R.col(0) = c * node.frame.R.col(0) + s * node.frame.R.col(1);
            node.R.col(1) = c * node.frame.R.col(1) - s * node.frame.R.col(0);
            node.R.col(2) = node.frame.R.col(2);
            node.p += (node.slides * x) * node.frame.R.col(2);
            node.linear.noalias() = node.R.transpose() * (v + w.cross(node.p));
            node.angular.noalias() = node.R.transpose() * w;
            node.linear_rate.noalias() = node.R.transpose() * (a + alpha.cross(node.p));
            node.angular_rate.noalias() = node.R.transpose() * alpha;
            // + S q'' + v x S q' with S along z
            const double turn = node.turns * rate, slide = node.slides * rate, acceleration = accelerations[node.column];
            node.linear_rate += Vec3(node.linear[1] * turn + node.angular[1] * slide, -node.linear[0] * turn - node.angular[0] * slide,
                                     node.slides * acceleration);
            node.angular_rate += Vec3(node.angular[1] * turn, -node.angular[0] * turn, node.turns * acceleration);
            node.linear[2] += slide;
            node.angular[2] += turn;
        } else {
            if (node.size == 3) {
                const Mat3 turned = so3_exp(node.sign * Vec3(q + node.column));
                node.R.noalias() = node.frame.R * turned;
            } else {
                node.R = node.frame.R;
            }
            node.linear.noalias() = node.R.transpose() * (v + w.cross(node.p));
            node.angular.noalias() = node.R.transpose() * w;
            node.linear_rate.noalias() = node.R.transpose() * (a + alpha.cross(node.p));
            node.angular_rate.noalias() = node.R.transpose() * alpha;
            if (node.size == 3) move_ball(node, q + node.column, rates + node.column, accelerations + node.column);
        }
        const Vec3 momentum = node.mass * node.linear + node.angular.cross(node.moment);
        const Vec3 spin = node.inertia * node.angular + node.moment.cross(node.linear);
        node.force = node.mass * node.linear_rate + node.angular_rate.cross(node.moment) + node.angular.cross(momentum);
        node.torque = node.inertia * node.angular_rate + node.moment.cross(node.linear_rate) + node.angular.cross(spin) + node.linear.cross(momentum);
    }
    if (!loads.empty()) add_loads(loads);
    for (std::size_t i = nodes_.size(); i-- > 0;) {
        const Node& node = nodes_[i];
        if (node.size == 1) {
            torques[node.column] = node.slides * node.force[2] + node.turns * node.torque[2] + node.armature[0] * accelerations[node.column];
        } else if (node.size == 3) {
            const Ball& ball = balls_[ball_of_[i]];
            Vec3 torque = node.sign < 0 ? Vec3(-(ball.rotation.transpose() * node.torque)) : node.torque;
            for (int k = 0; k < 3; ++k) torque[k] += node.armature[k] * ball.acceleration[k];
            Eigen::Map<Vec3>(torques + node.column) = ball.jacobian.transpose() * torque;
        }
        if (node.parent < 0) continue;
        Node& parent = nodes_[node.parent];
        const Vec3 force = node.R * node.force;
        parent.force += force;
        parent.torque += node.R * node.torque + node.p.cross(force);
    }
}

// Subtracts the loads from the wrenches of the bodies' nodes.
void InverseDynamics::add_loads(const std::vector<Load>& loads) {
    for (const Load& load : loads) {
        const int at = body_node_[load.body];
        Node& node = nodes_[at];
        const Pose& in = body_in_node_[load.body];
        Vec3 force = in.R * load.wrench.head<3>(), torque = in.R * load.wrench.tail<3>();
        if (load.world) {
            Mat3 R = Mat3::Identity();  // from the node to the world
            for (int i = at; i >= 0; i = nodes_[i].parent) R = nodes_[i].R * R;
            force = R.transpose() * load.wrench.head<3>();
            torque = R.transpose() * load.wrench.tail<3>();
        }
        node.force -= force;
        node.torque -= torque + in.act(load.point).cross(force);
    }
}

}  // namespace supple
