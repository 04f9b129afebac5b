#include "engine/state.hpp"

#include <cmath>
#include <type_traits>

#include "engine/system.hpp"

namespace supple {

namespace {

Vec3 lane_of(const Eight* from, int l) { return {from[0][l], from[1][l], from[2][l]}; }
void put_lane(Eight* to, int l, const Vec3& v) {
    for (int k = 0; k < 3; ++k) to[k][l] = v[k];
}

// A wrench about the world's origin, in world axes, seen from a frame: at its origin, in its axes.
Vec6 wrench_in(const Pose& frame, const Vec6& w) {
    const Vec3 f = w.head<3>(), m = w.tail<3>() - frame.p.cross(f);
    return stack(frame.R.transpose() * f, frame.R.transpose() * m);
}

// Calls visit(numbers, count) for all numbers of a state whose count the mechanism determines, but its whole numbers.
template <class Self, class Visit>
void visit_state(Self& s, Visit visit) {
    using Numbers = std::conditional_t<std::is_const_v<Self>, const double*, double*>;
    visit(&s.time, 1);
    visit(&s.h, 1);
    visit(&s.curvature, 1);
    for (auto& slots : s.slots) visit(reinterpret_cast<Numbers>(&slots), sizeof(State::Slots) / sizeof(double));
    for (auto& ball : s.balls) {
        for (auto* R : {&ball.rotation, &ball.rotation_before}) visit(R->data(), 9);
        for (auto* v :
             {&ball.rate, &ball.rate_before, &ball.p, &ball.p_before, &ball.shift, &ball.shift_before, &ball.shift_rate,
              &ball.shift_rate_before, &ball.missed, &ball.expected, &ball.shift_missed, &ball.shift_expected})
            visit(v->data(), 3);
    }
    for (auto& each : s.flexible) {
        for (auto* state : {&each.now, &each.before}) visit_numbers(*state, visit);
        for (auto* v : {&each.rate, &each.rate_before}) visit(v->data(), v->size());
        visit(each.wrench.data(), 6);
    }
    for (auto& loop : s.loops) {
        for (auto& along : loop.along) visit(along.data(), 3);
        for (auto* v : {&loop.angle, &loop.angle_before, &loop.rate, &loop.rate_before, &loop.applied}) visit(v, 1);
    }
    for (auto& bushing : s.bushings)
        for (auto* v : {&bushing.q, &bushing.q_before, &bushing.rate, &bushing.rate_before, &bushing.wrench})
            visit(v->data(), 6);
    for (auto* v : {&s.loop_multipliers, &s.mu, &s.activation}) visit(v->data(), v->size());
}

// And visit(number) for its whole numbers.
template <class Self, class Visit>
void visit_whole(Self& s, Visit visit) {
    visit(s.fresh);
    visit(s.redundant);
    visit(s.refusals);
    visit(s.pause);
    for (auto& each : s.active) visit(each);
    for (auto& each : s.idle) visit(each);
}

constexpr std::size_t load_size = 11, handle_size = 9;

}  // namespace

std::vector<double> State::numbers() const {
    std::vector<double> flat;
    visit_state(*this, [&](const double* from, std::size_t count) { flat.insert(flat.end(), from, from + count); });
    visit_whole(*this, [&](auto number) { flat.push_back(number); });
    flat.push_back(loads.size());
    flat.push_back(handles.size());
    auto put = [&](const auto& v) { flat.insert(flat.end(), v.data(), v.data() + v.size()); };
    for (const Load& load : loads) {
        flat.push_back(load.body);
        put(load.point);
        put(load.wrench);
        flat.push_back(load.world);
    }
    for (const Handle& handle : handles) {
        flat.push_back(handle.body);
        put(handle.point);
        put(handle.target);
        flat.push_back(handle.stiffness);
        flat.push_back(handle.damping);
    }
    return flat;
}

bool State::fits(const double* from, std::size_t size) const {
    std::size_t own = 2;
    visit_state(*this, [&](const double*, std::size_t count) { own += count; });
    visit_whole(*this, [&](auto) { ++own; });
    if (size < own) return false;
    const double counts[] = {from[own - 2], from[own - 1]};  // of loads and handles
    for (double count : counts)
        if (!(count >= 0 && count <= static_cast<double>(size))) return false;
    return size - own ==
           load_size * static_cast<std::size_t>(counts[0]) + handle_size * static_cast<std::size_t>(counts[1]);
}

bool State::assign(const double* from, std::size_t size) {
    if (!fits(from, size)) return false;
    visit_state(*this, [&](double* to, std::size_t count) {
        std::copy_n(from, count, to);
        from += count;
    });
    visit_whole(*this, [&](auto& number) { number = static_cast<std::remove_reference_t<decltype(number)>>(*from++); });
    loads.resize(static_cast<std::size_t>(*from++));
    handles.resize(static_cast<std::size_t>(*from++));
    for (Load& load : loads) {
        load = {static_cast<int>(from[0]), Vec3(from + 1), Vec6(from + 4), from[10] != 0};
        from += load_size;
    }
    for (Handle& handle : handles) {
        handle = {static_cast<int>(from[0]), Vec3(from + 1), Vec3(from + 4), from[7], from[8]};
        from += handle_size;
    }
    return true;
}

StateLayout::StateLayout(const Model& model)
    : in_slot(model.in_carrier), flexible(model.flexible.size()), inner(model.bodies()), held_by(model.holder) {
    const int nb = model.bodies(), nj = static_cast<int>(model.joints.size());
    for (int b = 0; b < nb; ++b) body.push_back(model.carrier[b]);
    for (int a = 0; a < model.axes(); ++a) axis.push_back(nb + a);
    size = nb + model.axes();
    outward = model.order;
    for (int b : model.order)
        inner[b] = model.joints[model.holder[b]].child == b ? model.joints[model.holder[b]].parent
                                                            : model.joints[model.holder[b]].child;
    amplitude_axis.assign(model.axes(), -1);
    for (int j = 0; j < nj; ++j) {
        const Joint& joint = model.joints[j];
        if (joint.outer >= 0) continue;
        Loop loop{j, loop_rows, 6, {}, {joint.child, joint.parent}, {}, {}, {}, {}};
        loop_rows += 6;
        for (int side = 0; side < 2; ++side) {
            const int b = loop.body[side];
            if (b < 0) loop.slot[side] = -1;
            else loop.slot[side] = model.carrier[b];
            const Pose frame = (b < 0 ? Pose{} : model.in_carrier[b]) * (side ? joint.pose_parent : joint.pose_child);
            loop.point[side] = frame.p;
            loop.z[side] = frame.R.col(2);
            loop.x[side] = frame.R.col(0);
        }
        loops.push_back(loop);
    }
    finish(model);
}

void StateLayout::finish(const Model& model) {
    carrier_.assign((size + width - 1) / width * width, -1);
    int last = -1;
    for (int b = 0; b < model.bodies(); ++b) {
        if (model.is_carried(b)) {
            carried_.push_back(b);
            continue;
        }
        carrier_[body[b]] = b;
        last = std::max(last, body[b]);
    }
    body_in_slot_.assign(last / width + 1, {});
    centre_.assign(body_in_slot_.size(), {});
    for (std::size_t i = 0; i < width * body_in_slot_.size(); ++i) {
        const Pose in = carrier_[i] < 0 ? Pose{} : in_slot[carrier_[i]];
        for (int c = 0; c < 3; ++c) {
            for (int r = 0; r < 3; ++r) body_in_slot_[i / width][3 * c + r][i % width] = in.R(r, c);
            body_in_slot_[i / width][9 + c][i % width] = in.p[c];
            if (carrier_[i] >= 0) centre_[i / width][c][i % width] = model.group_centre[carrier_[i]][c];
        }
    }
}

State StateLayout::zero(const Model& model) const {
    State state;
    state.slots.assign((size + width - 1) / width, State::Slots{});
    for (State::Slots& slots : state.slots)
        for (int k : {0, 4, 8}) slots.R[k] = every(1.0);
    state.balls.resize(balls.size());
    state.flexible.resize(flexible.size());
    for (std::size_t f = 0; f < flexible.size(); ++f) {
        State::Flexible& each = state.flexible[f];
        each.now = each.before = model.flexible[f].zero_state();
        if (!flexible[f].copies.empty()) each.rate.assign(model.flexible[f].modes(), 0.0);
        each.rate_before = each.rate;
    }
    state.loops.resize(loops.size());
    state.bushings.resize(bushings.size());
    state.loop_multipliers.assign(loop_rows, 0.0);
    state.mu.assign(model.rows.size(), 0.0);
    state.active.assign(model.rows.size(), 0);
    state.idle.assign(couplings, flexible.empty() ? -1 : 0);  // fronts of flexible bodies keep all columns
    for (const Actuator& each : model.actuators) state.activation.push_back(each.start.activation);
    return state;
}

Vec6 StateLayout::twist(const Model& model, const State& state, int b) const {
    const State::Slots& slots = state.slots[body[b] / width];
    const int l = body[b] % width;
    const Vec3 spin = in_slot[b].R.transpose() * lane_of(slots.spin, l);
    const Vec3 v = lane_of(slots.centre_velocity, l);
    Vec3 turned;  // in the slot's axes
    for (int k = 0; k < 3; ++k)
        turned[k] = slots.R[3 * k][l] * v[0] + slots.R[3 * k + 1][l] * v[1] + slots.R[3 * k + 2][l] * v[2];
    const Vec3 centre_velocity = in_slot[b].R.transpose() * turned;
    return stack(centre_velocity - spin.cross(model.group_centre[b]), spin);
}

void StateLayout::write_velocities(const Model& model, const State& state, double* rows) const {
    alignas(64) double twists[width][width];
    for (std::size_t k = 0; k < body_in_slot_.size(); ++k) {
        const State::Slots& slots = state.slots[k];
        const Turn R = {three(slots.R), three(slots.R + 3), three(slots.R + 6)};
        const Eight* fixed = body_in_slot_[k].data();
        const Turn in_slot = {three(fixed), three(fixed + 3), three(fixed + 6)};
        const Three w = product_transposed(in_slot, three(slots.spin));
        const Three v = product_transposed(in_slot, product_transposed(R, three(slots.centre_velocity))) -
                        cross(w, three(centre_[k].data()));
        Eight lanes[8] = {v.x, v.y, v.z, w.x, w.y, w.z, every(0.0), every(0.0)};
        transpose(lanes);
        for (int l = 0; l < width; ++l) store(twists[l], lanes[l]);
        for (int l = 0; l < width; ++l)
            if (const int b = carrier_[width * k + l]; b >= 0) std::copy_n(twists[l], 6, rows + 6 * b);
    }
    for (int b : carried_) Eigen::Map<Vec6>(rows + 6 * b, 6) = twist(model, state, b);
}

namespace {

// Coordinates of a free ball joint that closes a loop, and their rates, from the motion of its bodies.
void measure_ball(const StateLayout& layout, const Model& model, const State& state, const StateLayout::Loop& loop,
                  Vec3& q, Vec3& rate) {
    const Joint& joint = model.joints[loop.joint];
    Mat3 axes;  // the coordinates are components along the joint's own axes
    for (int i = 0; i < 3; ++i) axes.col(i) = model.twists[loop.axes[i]].tail<3>();
    const Pose a = layout.pose(state, joint.parent) * joint.pose_parent,
               b = layout.pose(state, joint.child) * joint.pose_child;
    q = axes.transpose() * so3_log(a.R.transpose() * b.R);
    Vec3 spin = Vec3::Zero();
    if (joint.child >= 0) spin += layout.pose(state, joint.child).R * layout.twist(model, state, joint.child).tail<3>();
    if (joint.parent >= 0)
        spin -= layout.pose(state, joint.parent).R * layout.twist(model, state, joint.parent).tail<3>();
    rate = axes.transpose() * (b.R.transpose() * spin);
}

}  // namespace

void StateLayout::coordinates(const Model& model, const State& state, double* q, double* rates, bool with_loops) const {
    for (std::size_t a = 0; a < axis.size(); ++a) {
        if (axis[a] < 0) continue;
        const State::Slots& slots = state.slots[axis[a] / width];
        q[a] = slots.q[axis[a] % width];
        rates[a] = slots.rate[axis[a] % width];
    }
    auto put = [&](double* to, int first, const auto& v) { std::copy_n(v.data(), v.size(), to + first); };
    for (std::size_t k = 0; k < balls.size(); ++k) {
        const State::Ball& ball = state.balls[k];
        put(q, balls[k].axis, so3_log(ball.rotation));
        put(rates, balls[k].axis, ball.rate);
        if (balls[k].shift_axis < 0) continue;
        put(q, balls[k].shift_axis, ball.shift);
        put(rates, balls[k].shift_axis, ball.shift_rate);
    }
    for (std::size_t f = 0; f < flexible.size(); ++f)
        for (int first : flexible[f].copies) {
            put(q, first, state.flexible[f].now.eta);
            put(rates, first, state.flexible[f].rate);
        }
    if (!with_loops) return;
    for (std::size_t k = 0; k < loops.size(); ++k) {
        const Loop& loop = loops[k];
        if (loop.rows == 5) {
            q[loop.axes[0]] = state.loops[k].angle;
            rates[loop.axes[0]] = state.loops[k].rate;
        } else if (loop.rows == 3) {
            Vec3 at, rate;
            measure_ball(*this, model, state, loop, at, rate);
            put(q, loop.axes[0], at);
            put(rates, loop.axes[0], rate);
        }
    }
    for (std::size_t k = 0; k < bushings.size(); ++k) {
        put(q, bushings[k].axis, state.bushings[k].q);
        put(rates, bushings[k].axis, state.bushings[k].rate);
    }
}

void multipliers_of(const StateLayout::Loop& loop, const Pose& end, const Pose& joint, const Vec6& w,
                    double length_scale, double* multipliers) {
    const Vec3 force = joint.R * w.head<3>();
    const Vec3 moment = joint.R * w.tail<3>() + (joint.p - end.act(loop.point[0])).cross(force);
    const Vec3 z = end.R * loop.z[0], x = end.R * loop.x[0], y = z.cross(x);
    const double all[] = {force[0] * length_scale, force[1] * length_scale, force[2] * length_scale,
                          moment.dot(y),           -moment.dot(x),          moment.dot(z)};
    std::copy_n(all, loop.rows, multipliers);
}

namespace {

// Moment of a loop on one of its ends, with the directions z and x of that end.
Vec3 moment_of(const StateLayout::Loop& loop, const Vec3& z, const Vec3& x, const Vec3* along,
               const double* multipliers) {
    Vec3 moment = Vec3::Zero();
    if (loop.rows > 3) moment += z.cross(Vec3(multipliers[3] * along[0] + multipliers[4] * along[1]));
    if (loop.rows > 5) moment += multipliers[5] * x.cross(along[2]);
    return moment;
}

}  // namespace

Vec6 wrench_of(const StateLayout::Loop& loop, const Pose& end, const Pose& joint, const Vec3* along,
               const double* multipliers, double length_scale) {
    const Vec3 force = Vec3(multipliers) / length_scale;
    const Vec3 moment = moment_of(loop, end.R * loop.z[0], end.R * loop.x[0], along, multipliers);
    return wrench_in(joint, stack(force, end.act(loop.point[0]).cross(force) + moment));
}

Vec6 StateLayout::loop_wrench(const Model& model, const State& state, int k) const {
    const Loop& loop = loops[k];
    const Joint& joint = model.joints[loop.joint];
    const Pose end = loop.slot[0] < 0 ? Pose{} : slot_pose(state, loop.slot[0]);
    Vec6 w = wrench_of(loop, end, pose(state, joint.child) * joint.pose_child, state.loops[k].along,
                       &state.loop_multipliers[loop.first], model.length_scale);
    if (loop.rows == 5) w.tail<3>() -= state.loops[k].applied * model.twists[loop.axes[0]].tail<3>();
    return w;
}

std::vector<int> StateLayout::loop_joints() const {
    std::vector<int> joints;
    for (const Loop& loop : loops) joints.push_back(loop.joint);
    for (const Bushing& bushing : bushings) joints.push_back(bushing.joint);
    return joints;
}

void StateLayout::loop_wrenches(const Model& model, const State& state, double* rows) const {
    for (std::size_t k = 0; k < loops.size(); ++k, rows += 6)
        Eigen::Map<Vec6>(rows, 6) = loop_wrench(model, state, static_cast<int>(k));
    for (std::size_t k = 0; k < bushings.size(); ++k, rows += 6) Eigen::Map<Vec6>(rows, 6) = state.bushings[k].wrench;
}

// Wrenches of loops and bushings; those of the tree from the bodies' balance, outermost first.
std::vector<Vec6> StateLayout::wrenches(const Model& model, const Vec3& gravity, const State& state) const {
    const int nb = model.bodies();
    std::vector<Vec6> result(model.joints.size(), Vec6::Zero());
    // carried: about the world's origin
    std::vector<Vec6> carried(nb, Vec6::Zero()), inertial(nb, Vec6::Zero()), velocity(nb);
    std::vector<Pose> H(nb);
    for (int b = 0; b < nb; ++b) {
        H[b] = pose(state, b);
        velocity[b] = twist(model, state, b);
    }
    auto add = [&](int b, const Vec3& at, const Vec3& f, const Vec3& t) {
        if (b >= 0) carried[b] += stack(f, at.cross(f) + t);
    };
    for (int b = 0; b < nb; ++b) {
        add(b, H[b].act(model.centre[b]), model.mass[b] * gravity, Vec3::Zero());
        if (model.is_carried(b)) continue;
        const State::Slots& slots = state.slots[body[b] / width];
        const int l = body[b] % width;
        inertial[b] = stack(lane_of(slots.inertial, l), lane_of(slots.inertial + 3, l));
        add(b, lane_of(slots.centre, l), inertial[b].head<3>(), inertial[b].tail<3>());
    }
    for (std::size_t f = 0; f < flexible.size(); ++f) {
        const int b = model.flexible[f].body;
        const Vec6& w = state.flexible[f].wrench;
        add(b, H[b].p, H[b].R * w.head<3>(), H[b].R * w.tail<3>());
    }
    for (const Load& load : state.loads) {
        const Mat3 R = load.world ? Mat3::Identity() : H[load.body].R;
        add(load.body, H[load.body].act(load.point), R * load.wrench.head<3>(), R * load.wrench.tail<3>());
    }
    for (const Handle& handle : state.handles) {
        const Vec3 at = H[handle.body].act(handle.point);
        const Vec6& v = velocity[handle.body];
        const Vec3 speed = H[handle.body].R * (v.head<3>() + v.tail<3>().cross(handle.point));
        add(handle.body, at, handle.stiffness * (handle.target - at) - handle.damping * speed, Vec3::Zero());
    }
    for (std::size_t k = 0; k < loops.size(); ++k) {
        const Loop& loop = loops[k];
        const double* multipliers = &state.loop_multipliers[loop.first];
        const Vec3 force = Vec3(multipliers) / model.length_scale;
        for (int side = 0; side < 2; ++side) {
            const Pose end = loop.slot[side] < 0 ? Pose{} : slot_pose(state, loop.slot[side]);
            const Vec3 z = end.R * loop.z[side];
            Vec3 moment = moment_of(loop, z, end.R * loop.x[side], state.loops[k].along, multipliers);
            if (loop.rows == 5) moment -= state.loops[k].applied * z;
            const double sign = side == 0 ? -1.0 : 1.0;
            add(loop.body[side], end.act(loop.point[side]), sign * force, sign * moment);
        }
        result[loop.joint] = loop_wrench(model, state, static_cast<int>(k));
    }
    for (std::size_t k = 0; k < bushings.size(); ++k) {
        const Joint& joint = model.joints[bushings[k].joint];
        const Pose frame = H[joint.child] * joint.pose_child;
        const Vec6& w = result[bushings[k].joint] = state.bushings[k].wrench;
        const Vec3 force = frame.R * w.head<3>(), moment = frame.R * w.tail<3>();
        add(joint.child, frame.p, -force, -moment);
        add(joint.parent, frame.p, force, moment);
    }
    for (std::size_t k = outward.size(); k-- > 0;) {
        const int b = outward[k], j = held_by[b];
        const Joint& joint = model.joints[j];
        const Pose frame = joint.child < 0 ? joint.pose_child : H[joint.child] * joint.pose_child;
        result[j] = (joint.child == b ? 1.0 : -1.0) * wrench_in(frame, carried[b]);
        if (inner[b] >= 0) carried[inner[b]] += carried[b];
    }
    share_momentum_rates(model, H, velocity, inertial, result);
    return result;
}

double StateLayout::kinetic_energy(const Model& model, const State& state) const {
    std::vector<double> q(model.axes()), rates(model.axes());
    coordinates(model, state, q.data(), rates.data());
    double sum = 0;
    for (int b = 0; b < model.bodies(); ++b) {
        const Vec6 velocity = twist(model, state, b);
        sum += 0.5 * velocity.dot(model.spatial_inertia[b] * velocity);
    }
    for (int a = 0; a < model.axes(); ++a) sum += 0.5 * model.armature[a] * rates[a] * rates[a];
    for (std::size_t f = 0; f < flexible.size(); ++f) sum += model.flexible[f].kinetic_energy(state.flexible[f].now);
    return sum;
}

Vec6 StateLayout::momentum(const Model& model, const State& state) const {
    Vec6 sum = Vec6::Zero();
    for (int b = 0; b < model.bodies(); ++b) {
        if (model.is_carried(b)) continue;
        const State::Slots& slots = state.slots[body[b] / width];
        const int l = body[b] % width;
        const Vec3 linear = lane_of(slots.momentum, l);
        sum += stack(linear, lane_of(slots.momentum + 3, l) + lane_of(slots.centre, l).cross(linear));
    }
    for (std::size_t f = 0; f < flexible.size(); ++f) sum += model.flexible[f].momentum(state.flexible[f].now);
    return sum;
}

// A copy of an amplitude carries the wrench of its own interface.
void StateLayout::put_copies(System& s) const {
    for (int r : copy_rows) {
        const Combination& of = s.model().rows[r].of;
        const int side = of.axes[0] == amplitude_axis[of.axes[0]] ? 1 : 0, copy = of.axes[side];
        for (std::size_t j = 0; j < s.model().joints.size(); ++j) {
            const Joint& joint = s.model().joints[j];
            const int p = copy - joint.first;
            if (joint.interface < 0 || p < 0 || p >= joint.count) continue;
            const InterfaceFrame& frame = s.interfaces[joint.interface];
            const Vec6& lambda = s.state.lambda[j];
            s.state.mu[r] = (frame.linear(p).dot(lambda.head<3>()) + frame.angular(p).dot(lambda.tail<3>())) /
                            of.coefficients[side];
        }
    }
}

void StateLayout::get(const State& state, System& s, History& history) const {
    const Model& model = s.model();
    coordinates(model, state, s.state.q.data(), s.rate.data());
    history.q = s.state.q;
    history.rate = s.rate;
    for (auto* all : {&history.q_before, &history.p, &history.p_before, &history.rate_before})
        all->assign(model.axes(), 0.0);
    for (std::size_t a = 0; a < axis.size(); ++a) {
        if (axis[a] < 0) continue;
        const State::Slots& slots = state.slots[axis[a] / width];
        const int l = axis[a] % width;
        history.q_before[a] = slots.q_before[l];
        history.p[a] = slots.p[l];
        history.p_before[a] = slots.p_before[l];
        history.rate_before[a] = slots.rate_before[l];
    }
    auto write = [](std::vector<double>& all, int first, const auto& v) {
        std::copy_n(v.data(), v.size(), all.begin() + first);
    };
    for (std::size_t k = 0; k < balls.size(); ++k) {
        const State::Ball& ball = state.balls[k];
        write(history.q_before, balls[k].axis, so3_log(ball.rotation_before));
        write(history.rate_before, balls[k].axis, ball.rate_before);
        write(history.p, balls[k].axis, ball.p);
        write(history.p_before, balls[k].axis, ball.p_before);
        const int first = balls[k].shift_axis;
        if (first < 0) continue;
        const Vec3 armature(&model.armature[first]);
        write(history.q_before, first, ball.shift_before);
        write(history.rate_before, first, ball.shift_rate_before);
        write(history.p, first, Vec3(armature.cwiseProduct(ball.shift_rate)));
        write(history.p_before, first, Vec3(armature.cwiseProduct(ball.shift_rate_before)));
    }
    history.flexible.clear();
    history.flexible_before.clear();
    for (std::size_t f = 0; f < flexible.size(); ++f) {
        history.flexible.push_back(state.flexible[f].now);
        history.flexible_before.push_back(state.flexible[f].before);
        for (int first : flexible[f].copies) {
            write(history.q_before, first, state.flexible[f].before.eta);
            write(history.rate_before, first, state.flexible[f].rate_before);
        }
    }
    s.flexible_state = history.flexible;
    for (std::size_t k = 0; k < loops.size(); ++k) {
        const Loop& loop = loops[k];
        if (loop.rows == 5) {
            history.q_before[loop.axes[0]] = state.loops[k].angle_before;
            history.rate_before[loop.axes[0]] = state.loops[k].rate_before;
        } else if (loop.rows == 3) {
            const Vec3 q(&s.state.q[loop.axes[0]]), rate(&s.rate[loop.axes[0]]);
            write(history.q_before, loop.axes[0], so3_log(so3_exp(q) * so3_exp(Vec3(-state.h * rate))));
            write(history.rate_before, loop.axes[0], rate);
        }
    }
    for (std::size_t k = 0; k < bushings.size(); ++k) {
        write(history.q_before, bushings[k].axis, state.bushings[k].q_before);
        write(history.rate_before, bushings[k].axis, state.bushings[k].rate_before);
    }
    const int nb = model.bodies();
    history.H.resize(nb);
    for (auto* all : {&history.turn, &history.centre, &history.centre_before}) all->resize(nb);
    for (auto* all : {&history.momentum, &history.momentum_before}) all->assign(nb, Vec6::Zero());
    for (int b = 0; b < nb; ++b) {
        const State::Slots& slots = state.slots[body[b] / width];
        const int l = body[b] % width;
        history.H[b] = s.state.H[b] = pose(state, b);
        history.turn[b] = in_slot[b].R.transpose() * lane_of(slots.turn, l);
        history.centre[b] = lane_of(slots.centre, l);
        history.centre_before[b] = lane_of(slots.centre_before, l);
        if (!model.is_carried(b)) {
            history.momentum[b] = stack(lane_of(slots.momentum, l), lane_of(slots.momentum + 3, l));
            history.momentum_before[b] = stack(lane_of(slots.momentum_before, l),
                                               lane_of(slots.momentum_before + 3, l));
        }
        s.momentum[b] = history.momentum[b];
        s.velocity[b] = twist(model, state, b);
    }
    history.length.clear();
    history.length_before.clear();
    for (const Spring& spring : model.springs) {
        history.length.push_back(spring.of.value(history.q));
        history.length_before.push_back(spring.of.value(history.q_before));
    }
    s.state.lambda = wrenches(model, s.gravity, state);
    s.state.mu = state.mu;
    s.set_active({state.active.begin(), state.active.end()});
    if (copy_rows.empty()) return;
    for (std::size_t j = 0; j < model.joints.size(); ++j)
        if (const Joint& joint = model.joints[j]; joint.interface >= 0)
            s.interfaces[joint.interface].evaluate(&s.state.q[joint.first]);
    put_copies(s);
}

void StateLayout::put(const System& s, const History& history, State& state) const {
    const Model& model = s.model();
    state.curvature = 1;
    for (State::Slots& slots : state.slots) slots.missed = slots.expected = every(0.0);
    for (State::Ball& ball : state.balls)
        ball.missed = ball.expected = ball.shift_missed = ball.shift_expected = Vec3::Zero();
    for (std::size_t a = 0; a < axis.size(); ++a) {
        if (axis[a] < 0) continue;
        State::Slots& slots = state.slots[axis[a] / width];
        const int l = axis[a] % width;
        slots.q[l] = history.q[a];
        slots.q_before[l] = history.q_before[a];
        slots.p[l] = history.p[a];
        slots.p_before[l] = history.p_before[a];
        slots.rate[l] = history.rate[a];
        slots.rate_before[l] = history.rate_before[a];
    }
    for (std::size_t k = 0; k < balls.size(); ++k) {
        State::Ball& ball = state.balls[k];
        auto of = [&](const std::vector<double>& all) { return Vec3(&all[balls[k].axis]); };
        ball.rotation = so3_exp(of(history.q));
        ball.rotation_before = so3_exp(of(history.q_before));
        ball.rate = of(history.rate);
        ball.rate_before = of(history.rate_before);
        ball.p = of(history.p);
        ball.p_before = of(history.p_before);
        if (balls[k].shift_axis < 0) continue;
        auto shift = [&](const std::vector<double>& all) { return Vec3(&all[balls[k].shift_axis]); };
        ball.shift = shift(history.q);
        ball.shift_before = shift(history.q_before);
        ball.shift_rate = shift(history.rate);
        ball.shift_rate_before = shift(history.rate_before);
    }
    for (std::size_t f = 0; f < flexible.size(); ++f) {
        State::Flexible& each = state.flexible[f];
        each.now = history.flexible[f];
        each.before = history.flexible_before[f];
        each.wrench = -s.flexible[f].wrench();
        if (flexible[f].copies.empty()) continue;
        std::copy_n(&history.rate[model.flexible[f].axis], each.rate.size(), each.rate.begin());
        std::copy_n(&history.rate_before[model.flexible[f].axis], each.rate_before.size(), each.rate_before.begin());
    }
    for (int b = 0; b < model.bodies(); ++b) {
        if (model.is_carried(b)) continue;
        State::Slots& slots = state.slots[body[b] / width];
        const int l = body[b] % width;
        const Mat3& turned = in_slot[b].R;
        const Vec3 w = s.velocity[b].tail<3>();
        put_lane(slots.turn, l, turned * history.turn[b]);
        put_lane(slots.spin, l, turned * w);
        put_lane(slots.centre_velocity, l, history.H[b].R * (s.velocity[b].head<3>() + w.cross(model.group_centre[b])));
        put_lane(slots.centre, l, history.centre[b]);
        put_lane(slots.centre_before, l, history.centre_before[b]);
        for (int half : {0, 3}) {
            put_lane(slots.momentum + half, l, history.momentum[b].segment<3>(half));
            put_lane(slots.momentum_before + half, l, history.momentum_before[b].segment<3>(half));
            put_lane(slots.inertial + half, l, s.momentum_wrenches()[b].segment<3>(half));
        }
    }
    for (std::size_t k = 0; k < loops.size(); ++k) {
        const Loop& loop = loops[k];
        const Joint& joint = model.joints[loop.joint];
        State::Loop& to = state.loops[k];
        const Pose end = loop.slot[0] < 0 ? Pose{} : slot_pose(state, loop.slot[0]);
        const Vec3 z = end.R * loop.z[0], x = end.R * loop.x[0];
        to.along[0] = x;
        to.along[1] = to.along[2] = z.cross(x);
        Vec6 w = s.state.lambda[loop.joint];
        if (loop.rows == 5) {
            const int a = loop.axes[0];
            to.angle = history.q[a];
            to.angle_before = history.q_before[a];
            to.rate = history.rate[a];
            to.rate_before = history.rate_before[a];
            to.applied = s.applied[a];
            w.tail<3>() += to.applied * model.twists[a].tail<3>();
        }
        multipliers_of(loop, end, pose(state, joint.child) * joint.pose_child, w, model.length_scale,
                       &state.loop_multipliers[loop.first]);
    }
    for (std::size_t k = 0; k < bushings.size(); ++k) {
        State::Bushing& each = state.bushings[k];
        auto of = [&](const std::vector<double>& all) { return Vec6(&all[bushings[k].axis]); };
        each.q = of(history.q);
        each.q_before = of(history.q_before);
        each.rate = of(history.rate);
        each.rate_before = of(history.rate_before);
        each.wrench = s.state.lambda[bushings[k].joint];
    }
    state.mu = s.state.mu;
    std::copy(s.active().begin(), s.active().end(), state.active.begin());
}

}  // namespace supple
