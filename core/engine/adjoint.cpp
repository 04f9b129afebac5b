// Poses and velocities of the recorded time steps, and their equations, linearised and factorised.
#include "engine/adjoint.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace supple {

namespace {

struct Coefficients8 {
    Eight g2, g3, g4, g5;
};
template <int terms>
SUPPLE_INLINE Coefficients8 coefficients(const Eight& s) {
    const Eight g4 = stumpff<4, terms>(s), g5 = stumpff<5, terms>(s);
    return {0.5 - s * g4, 1.0 / 6 - s * g5, g4, g5};
}
SUPPLE_INLINE Coefficients8 stumpff_coefficients(const Eight& s) {
    return largest(s) < 0.03 ? coefficients<5>(s) : coefficients<14>(s);
}

}  // namespace

Adjoint::Adjoint(const System& system, const Articulated* passes, std::shared_ptr<const Tape> tape)
    : system_(system), tape_(std::move(tape)) {
    system_.active_fixed = true;
    for (Actuation& each : system_.actuation) {  // a tape on which one saturates is refused
        each.lower = -INFINITY;
        each.upper = INFINITY;
    }
    system_.gravity = tape_->gravity;
    if (!system_.flexible.empty()) passes = nullptr;  // the sparse factorisation differentiates their steps
    if (passes) passes_ = std::make_unique<Articulated>(*passes, system_);
    if (passes) past_ = passes_->layout().zero(system_.model());
    exact_passes_ = passes && passes->can_be_exact();
    const int nb = system_.bodies(), na = system_.axes(), nr = static_cast<int>(system_.model().rows.size()),
              ns = static_cast<int>(system_.model().springs.size());
    const int nodes = passes ? static_cast<int>(passes_->nodes_.size()) : nb, blocks = (nodes + width - 1) / width;
    body_of_.assign(width * blocks, -1);
    for (int b = 0; b < nb; ++b) {
        node_of_.push_back(passes ? passes_->body_node_[b] : system_.model().carrier[b]);
        body_in_node_.push_back(passes ? passes_->in_node_[b] : system_.model().in_carrier[b]);
        if (system_.model().is_carried(b)) continue;
        body_of_[node_of_[b]] = b;
        movers_.push_back(b);
    }
    const Three none = every(Vec3(0, 0, 0));
    constants_.assign(blocks, {every(0.0), none, none, {}, {none, none, none}});
    for (Constants& each : constants_) std::fill_n(each.inertia, 6, every(0.0));
    for (int b : movers_) {
        const int i = node_of_[b], l = i % width;
        Constants& to = constants_[i / width];
        const Pose& in = body_in_node_[b];
        const Mat3 I = in.R * system_.model().group_inertia[b] * in.R.transpose();
        const double six[] = {I(0, 0), I(1, 1), I(2, 2), I(0, 1), I(0, 2), I(1, 2)};
        to.mass[l] = system_.model().group_mass[b];
        put(to.centre, l, in.act(system_.model().group_centre[b]));
        put(to.arm, l, in.R * system_.model().group_centre[b]);
        for (int k = 0; k < 6; ++k) to.inertia[k][l] = six[k];
        put(to.body_axes.x, l, in.R.col(0));
        put(to.body_axes.y, l, in.R.col(1));
        put(to.body_axes.z, l, in.R.col(2));
    }
    if (passes) passes_->place(tape_->q(0));
    for (Frame& frame : frames_) {
        frame.blocks.resize(blocks);
        frame.p.assign(na, 0.0);
        if (passes) frame.nodes = passes_->present_;  // with the poses of grounded nodes, which are computed once
    }
    bodies_.resize(blocks);
    past_spin_.resize(blocks);
    by_motion_.resize(blocks);
    z_.resize(blocks);
    z_axes_.resize(na);
    z_rows_.resize(nr);
    wrenches_.resize(width * blocks);
    twists_.resize(width * blocks);
    axes_.resize(na);
    rows_.resize(nr);
    for (const Joint& joint : system_.model().joints) {
        int axis = joint.first;
        for (int size : joint.blocks) {
            blocks_.emplace_back().axis = axis;
            blocks_.back().size = size;
            axis += size;
        }
    }
    history_.H.resize(nb);
    history_.turn.resize(nb);
    history_.centre.resize(nb);
    history_.centre_before.resize(nb);
    history_.momentum.resize(nb);
    history_.momentum_before.resize(nb);
    history_.rate.assign(na, 0.0);
    history_.rate_before = history_.rate;
    history_.length.resize(ns);
    history_.length_before.resize(ns);
}

std::size_t Adjoint::size_of(const std::string& input) const {
    const std::size_t nb = system_.bodies(), na = system_.axes(), nt = times(), parts = tape_->records.size() - 1;
    if (input == "twists" || input == "start_velocities" || input == "twists_before" || input == "velocities_before")
        return 6 * nb;
    if (input == "increments" || input == "rates" || input == "increments_before" || input == "rates_before") return na;
    if (input == "stiffness" || input == "damping" || input == "armature") return na;
    if (input == "targets" || input == "multipliers") return nt * system_.model().rows.size();
    if (input == "rest" || input == "torques" || input == "coordinates") return nt * na;
    if (input == "spring_rest") return nt * system_.model().springs.size();
    if (input == "wrenches") return 6 * parts * nb;
    if (input == "poses" || input == "velocities") return 6 * nt * nb;
    if (input == "spring_stiffness" || input == "spring_damping") return system_.model().springs.size();
    if (input == "mass") return nb;
    if (input == "centre") return 3 * nb;
    if (input == "inertia") return 9 * nb;
    if (input == "gravity") return 3;
    if (input == "materials") return 3 * system_.flexible.size();
    throw std::invalid_argument("no such array: " + input);
}

double Adjoint::spring_slope(int axis) const {
    double torque, slope = 0, energy;
    if (system_.model().curve[axis] >= 0)
        system_.model().curves[system_.model().curve[axis]].evaluate(tape_->q(record_)[axis] - system_.rest[axis],
                                                                     torque, slope, energy);
    return system_.model().stiffness[axis] + slope;
}

double Adjoint::coupling_slope(int s) const {
    const Spring& spring = system_.model().springs[s];
    double torque, slope = 0, energy;
    if (spring.curve >= 0)
        system_.model().curves[spring.curve].evaluate(sum_of(spring.of, tape_->q(record_)) - system_.spring_rest[s],
                                                      torque, slope, energy);
    return spring.stiffness + slope;
}

double Adjoint::share_of(int row) const {
    const double share = tape_->records[record_].share;
    if (share == 1) return 1;
    const auto& driven = tape_->inputs(record_).driven;
    return std::find(driven.begin(), driven.end(), row) == driven.end() ? 1.0 : share;
}

// --- frames
// -----------------------------------------------------------------------------------------------------------

Adjoint::Frame& Adjoint::posed(int record) {
    Frame& frame = frames_[record % kept];
    if (frame.posed == record) return frame;
    frame.posed = record;
    frame.turned = frame.moved = -1;
    if (passes_) {
        passes_->present_.swap(frame.nodes);
        passes_->place(tape_->q(record));
        passes_->present_.swap(frame.nodes);
    } else {
        system_.state.q.assign(tape_->q(record), tape_->q(record) + system_.axes());
        system_.evaluate(false);
    }
    for (std::size_t k = 0; k < frame.blocks.size(); ++k) {
        FrameBlock& block = frame.blocks[k];
        Articulated::Motion& m = block.motion;
        if (passes_) {
            const Articulated::Present& node = frame.nodes[k];
            m.R = {three(node.R), three(node.R + 3), three(node.R + 6)};
            block.p = three(node.position);
        } else {
            const Three none = every(Vec3(0, 0, 0));
            m.R = {every(Vec3(1, 0, 0)), every(Vec3(0, 1, 0)), every(Vec3(0, 0, 1))};
            block.p = none;
            for (int l = 0; l < width && static_cast<int>(k) * width + l < system_.bodies(); ++l) {
                const Pose& H = system_.state.H[k * width + l];
                put(m.R.x, l, H.R.col(0));
                put(m.R.y, l, H.R.col(1));
                put(m.R.z, l, H.R.col(2));
                put(block.p, l, H.p);
            }
        }
        m.centre = m.R * constants_[k].centre + block.p;
    }
    frame.flexible.clear();
    for (const FlexibleBody& each : system_.flexible) {  // without passes: `system_` is at this record
        const std::vector<double> still(each.modes(), 0.0);
        frame.flexible.push_back(
            each.state_of(system_.state.H[each.body], tape_->q(record) + each.axis, Vec6::Zero(), still.data()));
    }
    return frame;
}

Adjoint::Frame& Adjoint::turned(int record) {
    Frame& frame = posed(record);
    if (frame.turned == record) return frame;
    frame.turned = record;
    const Three none = every(Vec3(0, 0, 0));
    if (record == 0) {
        for (FrameBlock& block : frame.blocks) {
            block.motion.x = none;
            block.inverse = {none, none, none};
        }
        return frame;
    }
    const Frame& last = posed(record - 1);
    for (std::size_t k = 0; k < frame.blocks.size(); ++k) {
        FrameBlock& block = frame.blocks[k];
        const Turn& R = block.motion.R;
        const Three x = block.motion.x = turn_between(last.blocks[k].motion.R, R);
        const Coefficients8 g = stumpff_coefficients(dot(x, x));
        const Eight d = (0.5 * g.g3 - g.g4) / g.g2;
        auto column = [&](const Three& v) {  // (1 + [x]/2 + d [x]^2) v
            const Three once = cross(x, v);
            return v + (0.5 * once + d * cross(x, once));
        };
        const Turn Rt = transposed(R);
        block.inverse = {column(Rt.x), column(Rt.y), column(Rt.z)};
    }
    return frame;
}

Adjoint::Frame& Adjoint::moved(int record) {
    Frame& frame = turned(record);
    if (frame.moved == record) return frame;
    frame.moved = record;
    if (record < 2) {
        const Three none = every(Vec3(0, 0, 0));
        for (FrameBlock& block : frame.blocks) block.linear = block.angular = none;
        for (int b : movers_) {
            FrameBlock& block = frame.blocks[node_of_[b] / width];
            put(block.linear, node_of_[b] % width, tape_->momentum[record][b].head<3>());
            put(block.angular, node_of_[b] % width, tape_->momentum[record][b].tail<3>());
        }
        frame.p = tape_->p[record];
        for (std::size_t f = 0; f < frame.flexible.size(); ++f) {
            frame.flexible[f].c_rate = tape_->flexible[record][f].c_rate;
            frame.flexible[f].Z_rate = tape_->flexible[record][f].Z_rate;
        }
        return frame;
    }
    const Step& step = tape_->records[record].step;
    const double c = step.c0 / step.h, c2 = step.c2 / step.h;
    const Frame &last = turned(record - 1), &before = posed(record - 2);
    for (std::size_t k = 0; k < frame.blocks.size(); ++k) {
        FrameBlock& block = frame.blocks[k];
        Articulated::Motion& m = block.motion;
        const Articulated::Motion& past = last.blocks[k].motion;
        const Three& centre_before = before.blocks[k].motion.centre;
        if (step.c2 != 0) m.set_rates<true>(step, constants_[k].inertia, past.centre, centre_before, past.x);
        else m.set_rates<false>(step, constants_[k].inertia, past.centre, centre_before, past.x);
        block.linear = constants_[k].mass * m.centre_velocity;
        block.angular = m.L;
    }
    for (std::size_t f = 0; f < frame.flexible.size(); ++f)
        FlexibleBody::set_rates(step, last.flexible[f], before.flexible[f], frame.flexible[f]);
    const double *q = tape_->q(record), *q1 = tape_->q(record - 1), *q2 = tape_->q(record - 2);
    for (const Block& block : blocks_) {
        const int a = block.axis;
        if (block.size == 1) {
            frame.p[a] = system_.model().armature[a] * step.rate(q[a], q1[a], q2[a]);
            continue;
        }
        const Mat3 Rt = so3_exp(Vec3(q1 + a)).transpose();
        Vec3 rate = c * so3_log(Rt * so3_exp(Vec3(q + a)));
        if (c2 != 0) rate += c2 * so3_log(Rt * so3_exp(Vec3(q2 + a)));
        for (int i = 0; i < 3; ++i) frame.p[a + i] = system_.model().armature[a + i] * rate[i];
    }
    return frame;
}

Pose Adjoint::body_pose(const Frame& frame, int body) const {
    const FrameBlock& block = frame.blocks[node_of_[body] / width];
    const int l = node_of_[body] % width;
    return Pose{get(block.motion.R, l), get(block.p, l)} * body_in_node_[body];
}

Pose Adjoint::recorded_pose(int record, int body) { return body_pose(posed(record), body); }

std::vector<double> Adjoint::recorded_velocities() {
    const int nb = system_.bodies();
    std::vector<double> result(size_of("velocities"));
    for (int b = 0; b < nb; ++b) Eigen::Map<Vec6>(result.data() + 6 * b) = tape_->velocity[b];
    for (int t = 1; t < times(); ++t) {
        const Frame& frame = moved(tape_->ends[t]);
        for (int b = 0; b < nb; ++b) {
            const Articulated::Motion& m = frame.blocks[node_of_[b] / width].motion;
            const int l = node_of_[b] % width;
            const Mat3 in = body_in_node_[b].R.transpose();
            const Vec3 spin = in * get(m.spin, l),
                       centre_velocity = in * Vec3(get(m.R, l).transpose() * get(m.centre_velocity, l));
            Eigen::Map<Vec6>(result.data() + 6 * (static_cast<std::size_t>(t) * nb + b)) = stack(
                centre_velocity - spin.cross(system_.model().group_centre[b]), spin);
        }
    }
    return result;
}

// --- equations
// --------------------------------------------------------------------------------------------------------

void Adjoint::set_inputs(int record) {
    if (inputs_ == tape_->records[record].inputs) return;
    inputs_ = tape_->records[record].inputs;
    const TapeInputs& in = tape_->inputs(record);
    system_.rest = in.rest;
    system_.applied = in.applied;
    system_.spring_rest = in.spring_rest;
    system_.loads = in.loads;
    system_.handles = in.handles;
    if (passes_) passes_->refresh(system_);
}

// ds = spin_by_turn (phi - phi_1) + past_spin (phi_1 - phi_2) for rotations phi in world axes at the end, one and two
// steps back: a common rotation changes nothing. spin_by_turn = (c0 - c2 D) / h Jr(x)^-1 R^T with D = d(Jr(x) y)/dx,
// past_spin = -c2 / h Jr(x) Jr(y)^-1 R_1^T.
void Adjoint::linearise(int i) {
    record_ = i;
    const Step& step = tape_->records[i].step;
    const double c = step.c0 / step.h, c1 = step.c1 / step.h, c2 = step.c2 / step.h;
    set_inputs(i);
    const Frame &now = moved(i), &last = moved(i - 1), &before = moved(i - 2);
    const Three none = every(Vec3(0, 0, 0));
    for (std::size_t k = 0; k < bodies_.size(); ++k) {
        const FrameBlock &block = now.blocks[k], &block1 = last.blocks[k], &block2 = before.blocks[k];
        const Constants& fixed = constants_[k];
        Articulated::ExactBody& body = bodies_[k];
        body.motion = block.motion;
        const Three &x = block.motion.x, &y = block1.motion.x;
        if (c2 != 0) {
            const Coefficients8 g = stumpff_coefficients(dot(x, x));
            // 2 d(Jr y)/ds
            const Three xy = cross(x, y), t = (g.g3 - 2.0 * g.g4) * xy + (3.0 * g.g5 - g.g4) * cross(x, xy);
            const Eight along = dot(x, y);
            auto by_x = [&](const Three& v) {
                const Eight xv = dot(x, v);
                const Three D = xv * t + g.g2 * cross(y, v) + g.g3 * (along * v + dot(y, v) * x - (2.0 * xv) * y);
                return c * v - c2 * D;
            };
            auto by_y = [&](const Three& v) {
                const Three once = cross(x, v);
                return (-c2) * (v - g.g2 * once + g.g3 * cross(x, once));
            };
            body.spin_by_turn = {by_x(block.inverse.x), by_x(block.inverse.y), by_x(block.inverse.z)};
            past_spin_[k] = {by_y(block1.inverse.x), by_y(block1.inverse.y), by_y(block1.inverse.z)};
        } else {
            body.spin_by_turn = {c * block.inverse.x, c * block.inverse.y, c * block.inverse.z};
            past_spin_[k] = {none, none, none};
        }
        auto turning = [&](const Three& v) { return c * (block.motion.R * times_inertia(fixed.inertia, v)); };
        body.turning = {turning(body.spin_by_turn.x), turning(body.spin_by_turn.y), turning(body.spin_by_turn.z)};
        body.force = fixed.mass * every(system_.gravity) - (c * block.linear + c1 * block1.linear);
        body.torque = -1.0 * (c * block.angular + c1 * block1.angular);
        if (c2 != 0) {
            body.force = body.force - c2 * block2.linear;
            body.torque = body.torque - c2 * block2.angular;
        }
    }

    const double* q[3] = {tape_->q(i), tape_->q(i - 1), tape_->q(i - 2)};
    for (Block& block : blocks_) {
        const int a = block.axis;
        if (block.size == 1) {
            block.rate[0] = step.rate(q[0][a], q[1][a], q[2][a]);
            continue;
        }
        const Vec3 vector(q[0] + a);
        const Mat3 Rt = so3_exp(Vec3(q[1] + a)).transpose();
        const Vec3 x = so3_log(Rt * so3_exp(vector)), y = so3_log(Rt * so3_exp(Vec3(q[2] + a)));
        block.rate = c * x + c2 * y;
        block.by_increment[0] = c * so3_right_jacobian_inverse(x);
        block.by_increment[1] = -(c * so3_left_jacobian_inverse(x) + c2 * so3_left_jacobian_inverse(y));
        block.by_increment[2] = c2 * so3_right_jacobian_inverse(y);
        block.of_vector = so3_right_jacobian_inverse(vector);
    }
    by_passes_ = false;
    if (passes_) {
        passes_->present_ = now.nodes;
        const double* p[3] = {now.p.data(), last.p.data(), before.p.data()};
        by_passes_ = passes_->factorise_exactly(past_, step, bodies_.data(), tape_->active(i), tape_->lambda(i), q,
                                                p) &&
                     exact_passes_;
    }
    if (!by_passes_) factorise_sparse(i);
}

void Adjoint::factorise_sparse(int i) {
    const int nb = system_.bodies(), na = system_.axes(), nr = static_cast<int>(system_.model().rows.size());
    const Frame* frame[3] = {&moved(i), &moved(i - 1), &moved(i - 2)};
    const double* q[3] = {tape_->q(i), tape_->q(i - 1), tape_->q(i - 2)};
    system_.state.q.assign(q[0], q[0] + na);
    system_.state.mu.assign(tape_->mu(i), tape_->mu(i) + nr);
    for (std::size_t j = 0; j < system_.model().joints.size(); ++j) {
        const auto position = std::find(tape_->loops.begin(), tape_->loops.end(), static_cast<int>(j));
        if (position != tape_->loops.end())
            system_.state.lambda[j] = Vec6(tape_->lambda(i) + 6 * (position - tape_->loops.begin()));
        else if (system_.model().joints[j].outer < 0)
            system_.state.lambda[j] = passes_->joint_wrench(static_cast<int>(j));
    }
    std::copy_n(tape_->targets(i), nr, system_.targets.begin());
    for (int b = 0; b < nb; ++b) {
        const int k = node_of_[b] / width, l = node_of_[b] % width;
        auto momentum = [&](const FrameBlock& block) { return stack(get(block.linear, l), get(block.angular, l)); };
        history_.H[b] = body_pose(*frame[1], b);
        history_.turn[b] = body_in_node_[b].R.transpose() * get(frame[1]->blocks[k].motion.x, l);
        history_.centre[b] = get(frame[1]->blocks[k].motion.centre, l);
        history_.centre_before[b] = get(frame[2]->blocks[k].motion.centre, l);
        history_.momentum[b] = history_.momentum_before[b] = Vec6::Zero();
        if (system_.model().is_carried(b)) continue;
        history_.momentum[b] = momentum(frame[1]->blocks[k]);
        history_.momentum_before[b] = momentum(frame[2]->blocks[k]);
    }
    history_.q.assign(q[1], q[1] + na);
    history_.q_before.assign(q[2], q[2] + na);
    history_.p = frame[1]->p;
    history_.p_before = frame[2]->p;
    history_.flexible = frame[1]->flexible;
    history_.flexible_before = frame[2]->flexible;
    for (std::size_t s = 0; s < system_.model().springs.size(); ++s) {
        history_.length[s] = sum_of(system_.model().springs[s].of, q[1]);
        history_.length_before[s] = sum_of(system_.model().springs[s].of, q[2]);
    }
    system_.set_active({tape_->active(i), tape_->active(i) + nr});
    system_.evaluate(true, &tape_->records[i].step, &history_);
    system_.factorise();
}

// Rotations of free joints that close loops are no coordinates of the passes. Their increments are the relative
// rotation of the two bodies along the joint's axes, in world axes here.
Vec3 Adjoint::free_axis(int loop, int i) const {
    const Articulated::Loop& tie = passes_->loops_[loop];
    if (tie.rows == 5) return passes_->pose(tie.slot[0]).R * tie.z[0];
    const Joint& joint = system_.model().joints[tie.joint];
    const Pose frame = joint.child < 0 ? joint.pose_child : passes_->body_pose(joint.child) * joint.pose_child;
    return frame.R * passes_->ball_axes(tie).col(i);
}

}  // namespace supple
