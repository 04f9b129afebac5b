// Exchange of the state with a System, and its copies for `save` and `restore`.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/articulated.hpp"

namespace supple {

namespace {
// A wrench about the world's origin, in world axes, seen from a frame: at its origin, in its axes.
Vec6 wrench_in(const Pose& frame, const Vec6& w) {
    const Vec3 f = w.head<3>(), m = w.tail<3>() - frame.p.cross(f);
    return stack(frame.R.transpose() * f, frame.R.transpose() * m);
}

}  // namespace

// Multipliers for directions that are frozen at the present pose.
void Articulated::read_multipliers(Loop& loop, const Vec6& lambda) {
    const Joint& joint = system_->model().joints[loop.joint];
    const Pose frame = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child, H = pose(loop.end[0].node);
    const Vec3 force = frame.R * lambda.head<3>();
    const Vec3 moment = frame.R * lambda.tail<3>() + (frame.p - H.act(loop.end[0].point)).cross(force);
    const Vec3 z = H.R * loop.end[0].direction[0], x = H.R * loop.end[0].direction[1], y = z.cross(x);
    const double all[] = {force[0] * length_scale_, force[1] * length_scale_, force[2] * length_scale_,
                          moment.dot(y), -moment.dot(x), moment.dot(z)};
    std::copy_n(all, loop.rows, &multiplier_[loop.first]);
}

Vec6 Articulated::loop_wrench(const Loop& loop) const {
    const Joint& joint = system_->model().joints[loop.joint];
    const double* multiplier = &multiplier_[loop.first];
    const Pose H = pose(loop.end[0].node);
    const Vec3 force = Vec3(multiplier) / length_scale_;
    const Vec3 z = H.R * loop.end[0].direction[0], x = H.R * loop.end[0].direction[1];
    Vec3 moment = Vec3::Zero();
    if (loop.rows > 3) moment += z.cross(Vec3(multiplier[3] * loop.along[0] + multiplier[4] * loop.along[1]));
    if (loop.rows > 5) moment += multiplier[5] * x.cross(loop.along[2]);
    const Pose frame = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child;
    Vec6 wrench = wrench_in(frame, stack(force, H.act(loop.end[0].point).cross(force) + moment));
    if (loop.rows == 5) wrench.tail<3>() -= loop.applied * system_->model().twists[loop.axes[0]].tail<3>();
    return wrench;
}

// Coordinates of a free ball joint that closes a loop.
Vec3 Articulated::free_ball(const Loop& loop) const {
    const Joint& joint = system_->model().joints[loop.joint];
    const Pose a = joint.parent < 0 ? joint.pose_parent : body_pose(joint.parent) * joint.pose_parent;
    const Pose b = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child;
    return ball_axes(loop).transpose() * so3_log(a.R.transpose() * b.R);
}

Mat3 Articulated::ball_axes(const Loop& loop) const {
    Mat3 axes;  // the coordinates are components along the joint's own axes
    for (int i = 0; i < 3; ++i) axes.col(i) = system_->model().twists[loop.axes[i]].tail<3>();
    return axes;
}

void Articulated::read(const System& s, const History& history, double h, bool fresh) {
    fresh_ = fresh;
    h_past_ = h;
    in_step_ = false;
    contact_loads_.clear();
    curvature_ = 1;
    for (Past& past : past_) past.missed = past.expected = every(0.0);
    for (BallNode& node : balls_) node.missed = node.expected = node.t_missed = node.t_expected = Vec3::Zero();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i].size != 1) continue;
        const int l = static_cast<int>(i % width), a = nodes_[i].axis;
        Past& past = past_[i / width];
        present_[i / width].q[l] = past.q[l] = s.state.q[a];
        past.q_before[l] = history.q_before[a];
        past.p[l] = history.p[a];
        past.p_before[l] = history.p_before[a];
        past.rate[l] = s.rate[a];
        past.rate_before[l] = history.rate_before[a];
    }
    for (BallNode& node : balls_) {
        auto of = [&](const std::vector<double>& all) { return Vec3(all[node.axis], all[node.axis + 1], all[node.axis + 2]); };
        node.rotation_past = so3_exp(of(s.state.q));
        node.set_joint_rotation(node.rotation_past);
        node.rotation_before = so3_exp(of(history.q_before));
        node.rate = of(s.rate);
        node.rate_before = of(history.rate_before);
        node.p = of(history.p);
        node.p_before = of(history.p_before);
        if (node.shift_axis < 0) continue;
        auto translations = [&](const std::vector<double>& all) { return Vec3(&all[node.shift_axis]); };
        node.t = node.t_past = translations(s.state.q);
        node.t_before = translations(history.q_before);
        node.t_rate = translations(s.rate);
        node.t_rate_before = translations(history.rate_before);
    }
    read_flexible(s, history);
    forward();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const int l = static_cast<int>(i % width), b = nodes_[i].body;
        Past& past = past_[i / width];
        const Present& now = present_[i / width];
        for (int k = 0; k < 9; ++k) past.R[k][l] = now.R[k][l];
        if (b < 0) continue;
        const Mat3& turned = nodes_[i].body_in_node.R;
        const Vec3 turn = turned * history.turn[b], w = s.velocity[b].tail<3>(), spin = turned * w;
        const Vec3 centre_velocity = history.H[b].R * (s.velocity[b].head<3>() + w.cross(s.model().group_centre[b]));
        for (int k = 0; k < 3; ++k) {
            past.turn[k][l] = turn[k];
            past.spin[k][l] = spin[k];
            past.centre_velocity[k][l] = centre_velocity[k];
            past.centre[k][l] = history.centre[b][k];
            past.centre_before[k][l] = history.centre_before[b][k];
        }
        for (int k = 0; k < 6; ++k) {
            past.momentum[k][l] = history.momentum[b][k];
            past.momentum_before[k][l] = history.momentum_before[b][k];
        }
    }
    for (Loop& loop : loops_) {
        read_multipliers(loop, s.state.lambda[loop.joint]);
        if (loop.rows == 5) {
            const int a = loop.axes[0];
            loop.angle = s.state.q[a];
            loop.angle_before = history.q_before[a];
            loop.rate = s.rate[a];
            loop.rate_before = history.rate_before[a];
        }
    }
    for (Bushing& each : bushings_) {
        auto of = [&](const std::vector<double>& all) { return Vec6(&all[each.axis]); };
        each.past = of(s.state.q);
        each.before = of(history.q_before);
        each.rate = of(s.rate);
        each.rate_before = of(history.rate_before);
    }
    for (Coupling& c : couplings_) {
        c.value = 0;
        for (std::size_t i = 0; i < c.nodes.size(); ++i) c.value += c.coefficients[i] * coordinate(c.nodes[i]);
        c.past = c.value;
        c.before = c.spring >= 0 ? history.length_before[c.spring] : c.value;
        if (c.system_row >= 0) {
            multiplier_[c.row] = s.state.mu[c.system_row];
            c.active = c.equality ? 1 : c.stop ? 0 : s.active()[c.system_row];
        }
    }
    for (Coupling& c : couplings_)
        if (c.idle >= 0 && !c.resists()) c.idle = most_idle + 1;
    lay_out_couplings(most_idle);
    for (Lock& lock : locks_) {
        const bool negative = lock.coefficient < 0;
        lock.active = lock.equality ? 1 : (negative ? -1 : 1) * s.active()[lock.system_row];
        if (&locks_[lock_of_[lock.node]] == &lock) rho_[lock.node] = -lock.coefficient * s.state.mu[lock.system_row];
    }
}

// Multipliers of the system's rows, and which rows are active.
template <class Integer>
void Articulated::put_rows(double* mu, Integer* active) const {
    for (int row : copy_rows_) active[row] = 1;  // nothing depends on their multipliers
    for (const Coupling& c : couplings_) {
        if (c.spring >= 0) continue;
        mu[c.system_row] = c.active || c.stop ? multiplier_[c.row] : 0;
        active[c.system_row] = static_cast<Integer>(c.active);
    }
    for (const Lock& lock : locks_) {
        const bool first = &locks_[lock_of_[lock.node]] == &lock;
        mu[lock.system_row] = first && lock.active ? -rho_[lock.node] / lock.coefficient : 0;
        active[lock.system_row] = static_cast<Integer>(first ? (lock.coefficient < 0 && !lock.equality ? -lock.active : lock.active) : 0);
    }
}

void Articulated::record(double* q, double* mu, signed char* active, double* lambda) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (nodes_[i].size == 1) q[nodes_[i].axis] = past_[i / width].q[i % width];
    for (const BallNode& node : balls_) {
        const Vec3 vector = so3_log(node.rotation_past);
        std::copy_n(vector.data(), 3, q + node.axis);
        if (node.shift_axis >= 0) std::copy_n(node.t_past.data(), 3, q + node.shift_axis);
    }
    for (const FlexibleNode& each : flexible_)
        for (const Attachment& interface : each.interfaces) std::copy_n(each.past.eta.data(), each.modes, q + system_->model().joints[interface.joint].first);
    for (const Loop& loop : loops_) {
        if (loop.rows == 5) q[loop.axes[0]] = loop.angle;
        if (loop.rows == 3) Eigen::Map<Vec3>(q + loop.axes[0]) = free_ball(loop);
        Eigen::Map<Vec6>(lambda + 6 * (&loop - loops_.data())) = loop_wrench(loop);
    }
    for (const Bushing& each : bushings_) {
        Eigen::Map<Vec6>(q + each.axis) = each.past;
        Eigen::Map<Vec6>(lambda + 6 * (loops_.size() + (&each - bushings_.data()))) = wrench(each);
    }
    put_rows(mu, active);
}

void Articulated::write_coordinates(System& s) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i].size != 1) continue;
        s.state.q[nodes_[i].axis] = past_[i / width].q[i % width];
        s.rate[nodes_[i].axis] = past_[i / width].rate[i % width];
    }
    auto put = [](std::vector<double>& all, int axis, const Vec3& v) { std::copy_n(v.data(), 3, &all[axis]); };
    for (const BallNode& node : balls_) {
        put(s.state.q, node.axis, so3_log(node.rotation_past));
        put(s.rate, node.axis, node.rate);
        if (node.shift_axis < 0) continue;
        put(s.state.q, node.shift_axis, node.t_past);
        put(s.rate, node.shift_axis, node.t_rate);
    }
    for (const FlexibleNode& each : flexible_)
        for (const Attachment& interface : each.interfaces) {
            const int axis = s.model().joints[interface.joint].first;
            std::copy_n(each.past.eta.begin(), each.modes, &s.state.q[axis]);
            std::copy_n(each.rate.begin(), each.modes, &s.rate[axis]);
        }
}

Vec6 Articulated::twist(int b) const {
    const int i = body_node_[b], l = i % width;
    const Past& past = past_[i / width];
    auto vector = [&](const Eight* from) { return Vec3(from[0][l], from[1][l], from[2][l]); };
    const Vec3 spin = in_node_[b].R.transpose() * vector(past.spin), centre_velocity = body_pose(b).R.transpose() * vector(past.centre_velocity);
    return stack(centre_velocity - spin.cross(system_->model().group_centre[b]), spin);
}

void Articulated::write(System& s, History& history) const {
    const int n = static_cast<int>(nodes_.size()), nb = s.bodies();
    write_coordinates(s);
    for (int i = 0; i < n; ++i) {
        if (nodes_[i].size != 1) continue;
        const int l = i % width, a = nodes_[i].axis;
        const Past& past = past_[i / width];
        history.q_before[a] = past.q_before[l];
        history.p[a] = past.p[l];
        history.p_before[a] = past.p_before[l];
        history.rate_before[a] = past.rate_before[l];
    }
    for (const BallNode& node : balls_) {
        auto put = [&](std::vector<double>& all, const Vec3& v) { std::copy_n(v.data(), 3, &all[node.axis]); };
        put(history.q_before, so3_log(node.rotation_before));
        put(history.rate_before, node.rate_before);
        put(history.p, node.p);
        put(history.p_before, node.p_before);
        if (node.shift_axis < 0) continue;
        auto put_translations = [&](std::vector<double>& all, const Vec3& v) { std::copy_n(v.data(), 3, &all[node.shift_axis]); };
        put_translations(history.q_before, node.t_before);
        put_translations(history.rate_before, node.t_rate_before);
        const Vec3 armature(&s.model().armature[node.shift_axis]);
        put_translations(history.p, armature.cwiseProduct(node.t_rate));
        put_translations(history.p_before, armature.cwiseProduct(node.t_rate_before));
    }
    write_flexible(s, history);
    for (int b = 0; b < nb; ++b) {
        const int i = body_node_[b], l = i % width;
        const Past& past = past_[i / width];
        const Mat3& turned = in_node_[b].R;
        auto vector = [&](const Eight* from) { return Vec3(from[0][l], from[1][l], from[2][l]); };
        history.turn[b] = turned.transpose() * vector(past.turn);
        history.centre[b] = vector(past.centre);
        history.centre_before[b] = vector(past.centre_before);
        history.momentum[b] = s.momentum[b] = history.momentum_before[b] = Vec6::Zero();
        if (!s.model().is_carried(b)) {
            history.momentum[b] = s.momentum[b] = stack(vector(past.momentum), vector(past.momentum + 3));
            history.momentum_before[b] = stack(vector(past.momentum_before), vector(past.momentum_before + 3));
        }
        s.velocity[b] = twist(b);
    }
    for (const Loop& loop : loops_) {
        const Joint& joint = s.model().joints[loop.joint];
        if (loop.rows == 5) {
            const int a = loop.axes[0];
            s.state.q[a] = loop.angle;
            history.q_before[a] = loop.angle_before;
            s.rate[a] = loop.rate;
            history.rate_before[a] = loop.rate_before;
            history.p[a] = history.p_before[a] = 0;
        } else if (loop.rows == 3) {
            const Pose b = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child;
            Vec3 spin = Vec3::Zero();
            if (joint.child >= 0) spin += body_pose(joint.child).R * s.velocity[joint.child].tail<3>();
            if (joint.parent >= 0) spin -= body_pose(joint.parent).R * s.velocity[joint.parent].tail<3>();
            const Vec3 rate = ball_axes(loop).transpose() * (b.R.transpose() * spin), q = free_ball(loop);
            const Vec3 before = so3_log(so3_exp(q) * so3_exp(Vec3(-h_past_ * rate)));
            for (int i = 0; i < 3; ++i) {
                const int axis = loop.axes[i];
                s.state.q[axis] = q[i];
                history.q_before[axis] = before[i];
                s.rate[axis] = history.rate_before[axis] = rate[i];
                history.p[axis] = history.p_before[axis] = 0;
            }
        }
    }
    for (const Bushing& each : bushings_) {
        auto put = [&](std::vector<double>& all, const Vec6& v) { std::copy_n(v.data(), 6, &all[each.axis]); };
        put(s.state.q, each.past);
        put(history.q_before, each.before);
        put(s.rate, each.rate);
        put(history.rate_before, each.rate_before);
        put(history.p, Vec6::Zero());
        put(history.p_before, Vec6::Zero());
    }
    history.q = s.state.q;
    history.rate = s.rate;

    // multipliers: of loops from the ties, of joints of the tree from the wrenches on the bodies beyond them
    std::vector<Vec6> carried(nb, Vec6::Zero()), inertial(nb, Vec6::Zero());  // carried: about the world's origin
    auto add = [&](int body, const Vec3& at, const Vec3& f, const Vec3& t) {
        if (body >= 0) carried[body] += stack(f, at.cross(f) + t);
    };
    for (int b = 0; b < nb; ++b) {
        add(b, body_pose(b).act(s.model().centre[b]), s.model().mass[b] * gravity_, Vec3::Zero());
        if (s.model().is_carried(b) || body_node_[b] < grounded_) continue;
        const int l = body_node_[b] % width;
        const Past& past = past_[body_node_[b] / width];
        auto vector = [&](const Eight* from) { return Vec3(from[0][l], from[1][l], from[2][l]); };
        inertial[b] = stack(vector(past.wrench) - s.model().group_mass[b] * gravity_, vector(past.wrench + 3));
        add(b, vector(past.centre), inertial[b].head<3>(), inertial[b].tail<3>());
    }
    for (const FlexibleNode& each : flexible_) {
        const Pose H = pose(each.node);
        add(each.body.body, H.p, H.R * each.wrench.head<3>(), H.R * each.wrench.tail<3>());
    }
    for (const NodeLoad& load : contact_loads_) add(load.body, pose(load.node).act(load.point), load.force, load.torque);
    for (const NodeLoad& load : loads_) {
        const Pose H = pose(load.node);
        add(load.body, H.act(load.point), load.world ? load.force : Vec3(H.R * load.force), load.world ? load.torque : Vec3(H.R * load.torque));
    }
    for (const NodeHandle& handle : handles_) {
        const Pose body = body_pose(handle.body);
        const Vec3 at = pose(handle.node).act(handle.point), local = body.inverse().act(at);
        const Vec6& v = s.velocity[handle.body];
        const Vec3 velocity = body.R * (v.head<3>() + v.tail<3>().cross(local));
        add(handle.body, at, handle.stiffness * (handle.target - at) - handle.damping * velocity, Vec3::Zero());
    }
    for (const Loop& loop : loops_) {
        const double* multiplier = &multiplier_[loop.first];
        for (int side = 0; side < 2; ++side) {
            const Pose H = pose(loop.end[side].node);
            const Vec3 at = H.act(loop.end[side].point), force = Vec3(multiplier) / length_scale_;
            const Vec3 z = H.R * loop.end[side].direction[0], x = H.R * loop.end[side].direction[1];
            Vec3 moment = Vec3::Zero();
            if (loop.rows > 3) moment += z.cross(Vec3(multiplier[3] * loop.along[0] + multiplier[4] * loop.along[1]));
            if (loop.rows > 5) moment += multiplier[5] * x.cross(loop.along[2]);
            const double sign = side == 0 ? -1.0 : 1.0;
            add(loop.end[side].body, at, sign * force, sign * moment);
        }
        s.state.lambda[loop.joint] = loop_wrench(loop);
    }
    for (const Bushing& each : bushings_) {
        const Pose H = pose(each.node) * each.in_node;
        const Vec6 w = s.state.lambda[each.joint] = wrench(each);
        const Vec3 force = H.R * w.head<3>(), moment = H.R * w.tail<3>();
        add(s.model().joints[each.joint].child, H.p, -force, -moment);
        add(s.model().joints[each.joint].parent, H.p, force, moment);
    }
    for (std::size_t k = outward_bodies_.size(); k-- > 0;) {
        const int b = outward_bodies_[k], j = held_by_[b];
        const Joint& joint = s.model().joints[j];
        const Pose frame = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child;
        s.state.lambda[j] = (held_along(j) ? 1.0 : -1.0) * wrench_in(frame, carried[b]);
        if (inner_[b] >= 0) carried[inner_[b]] += carried[b];
    }
    std::vector<int> active(s.model().rows.size(), 0);
    for (const Coupling& c : couplings_) {
        if (c.spring < 0) continue;
        history.length[c.spring] = c.past;
        history.length_before[c.spring] = c.before;
    }
    put_rows(s.state.mu.data(), active.data());
    put_copies(s);
    const auto lambda = s.state.lambda;
    const auto mu = s.state.mu;
    const auto rate = s.rate;
    const auto velocity = s.velocity;
    const auto momentum = s.momentum;
    s.evaluate(false);
    s.state.lambda = lambda;
    s.state.mu = mu;
    s.rate = rate;
    s.velocity = velocity;
    s.momentum = momentum;
    s.share_momentum_rates(inertial);
    s.set_active(active);
    history.H = s.state.H;
}

// Calls visit(numbers, count) for everything that a step depends on.
template <class Self, class Visit>
void Articulated::visit_state(Self& self, Visit visit) {
    using Numbers = std::conditional_t<std::is_const_v<Self>, const double*, double*>;
    for (auto& past : self.past_) visit(reinterpret_cast<Numbers>(&past), static_cast<int>(sizeof(Past) / sizeof(double)));
    for (auto& ball : self.balls_) {
        for (auto* R : {&ball.rotation_past, &ball.rotation_before}) visit(R->data(), 9);
        for (auto* v : {&ball.rate, &ball.rate_before, &ball.p, &ball.p_before, &ball.t, &ball.t_past, &ball.t_before, &ball.t_rate,
                        &ball.t_rate_before, &ball.missed, &ball.expected, &ball.t_missed, &ball.t_expected})
            visit(v->data(), 3);
    }
    for (auto& each : self.flexible_) {
        for (auto* state : {&each.past, &each.before}) visit_numbers(*state, visit);
        for (auto* v : {&each.rate, &each.rate_before}) visit(v->data(), each.modes);
        visit(each.wrench.data(), 6);
    }
    for (auto& loop : self.loops_)
        for (auto* v : {&loop.angle, &loop.angle_before, &loop.rate, &loop.rate_before}) visit(v, 1);
    for (auto& bushing : self.bushings_)
        for (auto* v : {&bushing.past, &bushing.before, &bushing.rate, &bushing.rate_before}) visit(v->data(), 6);
    for (auto& coupling : self.couplings_)
        for (auto* v : {&coupling.value, &coupling.past, &coupling.before}) visit(v, 1);
    visit(self.multiplier_.data(), self.tie_rows_);
    visit(self.rho_.data(), static_cast<int>(self.rho_.size()));
    for (auto* v : {&self.h_past_, &self.curvature_}) visit(v, 1);
}

std::size_t Articulated::saved_size() const {
    std::size_t size = 2 + locks_.size() + 2 * couplings_.size();
    visit_state(*this, [&](const double*, int count) { size += count; });
    return size;
}

void Articulated::save(std::vector<double>& flat) const {
    visit_state(*this, [&](const double* from, int count) { flat.insert(flat.end(), from, from + count); });
    for (const Lock& lock : locks_) flat.push_back(lock.active);
    for (const Coupling& coupling : couplings_) {
        flat.push_back(coupling.active);
        flat.push_back(coupling.idle);
    }
    flat.push_back(fresh_);
    flat.push_back(redundant_);
}

void Articulated::restore(const double* flat) {
    in_step_ = false;
    contact_loads_.clear();
    visit_state(*this, [&](double* to, int count) {
        std::copy_n(flat, count, to);
        flat += count;
    });
    for (Lock& lock : locks_) lock.active = static_cast<int>(*flat++);
    bool laid_out = true;
    for (Coupling& coupling : couplings_) {
        coupling.active = static_cast<int>(*flat++);
        const int idle = static_cast<int>(*flat++);
        laid_out = laid_out && (idle < 0) == (coupling.idle < 0);
        coupling.idle = idle;
    }
    if (!laid_out) lay_out_fronts();  // the same columns give the same rounding errors
    fresh_ = *flat++ != 0;
    redundant_ = *flat != 0;
    for (int b = 0; b < blocks_; ++b) present_[b].q = past_[b].q;
    for (BallNode& node : balls_) node.set_joint_rotation(node.rotation_past);
    for (FlexibleNode& each : flexible_) each.eta = each.past.eta;
    forward();
}

}  // namespace supple
