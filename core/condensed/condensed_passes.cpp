#include "condensed/condensed_passes.hpp"

#include <algorithm>
#include <cmath>

#include "engine/articulated_exact.hpp"

namespace supple {

namespace {
constexpr Step statics{1, 0, 0, 0};     // differences of statics: all rates are zero
constexpr double largest_disturbance = 1e-8;  // by the removal of redundant multipliers, rad or radii
constexpr int longest_boost = 32;       // most time steps for which stiffer anchors are kept
constexpr int removal_period = 4;       // time steps between removals of redundant multipliers
constexpr double largest_jump = 0.5;    // of a motor within a step, rad or radii; beyond it, motors move in parts

// Stores eight columns of eight numbers, one row for each of eight nodes.
template <class To>
SUPPLE_INLINE void spread(Eight* columns, To to) {
    transpose(columns);
    for (int l = 0; l < width; ++l) store(to(l), columns[l]);
}
}  // namespace

PassesInterior::PassesInterior(TipSet& set, const System& system) : Interior(set), Articulated(system) {
    if (*uncovered()) return;
    stride_ = width * blocks_;
    symmetric_ = flexible_.empty();
    second_outward_.resize(nodes_.size());
    second_tie_step_.resize(tie_rows_);
    const std::size_t n = nodes_.size();
    for (std::size_t e = 0; e < tips.size(); ++e) {  // twists at the nodes of tips are stored
        const int node = tip_node(static_cast<int>(e));
        if (!(flags_[node] & joins)) joined_.push_back(node);
        flags_[node] |= joins;
    }
    // without stiffness of its own, its pivot is zero before the ties are eliminated; an actuator at its limit takes it away
    for (std::size_t i = 0; i < n; ++i)
        if (flags_[i] & fronted && nodes_[i].size == 1 && system.model().stiffness[nodes_[i].axis] == 0) unresisted_[i] = 1;
    for (const auto& [node, actuator] : actuators_)
        if (flags_[node] & fronted) unresisted_[node] = 1;
    tip_poses_.resize(tips.size());
    for (const EndEffector& tip : tips) tip_in_node_.push_back(in_node_[tip.body] * tip.on_body);
    on_tip_path_.assign(n, 0);
    for (std::size_t e = 0; e < tips.size(); ++e)
        for (int i = tip_node(static_cast<int>(e)); i >= 0 && !on_tip_path_[i]; i = nodes_[i].parent) on_tip_path_[i] = 1;
    columns_.assign(stride_ * count(), Eight{});
    first_ = path_columns_ = ahead_ = first_ahead_ = kept_columns_ = behind_ = motion_by_coordinate_ = columns_;
    tie_columns_.assign(tie_rows_ * count(), Eight{});
    kept_tie_columns_ = tie_columns_;
    inertia_.assign(stride_, Eight{});
    for (auto* each : {&motion_, &move_, &along_}) each->assign(stride_, 0.0);
    carried_.resize(n);
    twists_.assign(n * 12, Eight{});
    projected_ = std::make_unique<Solution<OneColumn>>();
    soft_scale_ = system.model().stiffness_scale;
}

PassesInterior::~PassesInterior() = default;

const char* PassesInterior::uncovered() const {
    if (*uncovered_) return uncovered_;
    if (!balls_.empty()) return "a ball joint";
    if (!bushings_.empty()) return "a bushing that closes a loop";
    return count() > most_tips ? "too many end effectors" : "";
}

// Set-points and gravity. Loads and handles act on the tips alone, through their wrenches.
void PassesInterior::read_inputs(const System& system) {
    refresh(system);
    loads_.clear();
    handles_.clear();
    input_changes_ = system.input_changes;
}

void PassesInterior::read_from(const System& system, const History& history, double h) {
    read_inputs(system);
    read(system, history, h, true);
    freeze_directions();
    place();
}

void PassesInterior::write_to(System& system, History& history) {
    if (!locks_.empty()) {  // torques of motors: the residual of balance without them
        set_anchors(boost_);
        inward<false, false, true>(statics);
        for (const Lock& lock : locks_)
            if (lock.active) rho_[lock.node] = balance_[lock.node];
    }
    system.loads.clear();
    system.handles.clear();
    write(system, history);
}

void PassesInterior::place() {
    forward();
    for (std::size_t e = 0; e < tips.size(); ++e) tip_poses_[e] = pose(tip_node(static_cast<int>(e))) * tip_in_node_[e];
}

void PassesInterior::set_anchors(double boost) {
    boost_ = boost;
    anchors_.resize(tips.size());
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Pose at = about_origin(static_cast<int>(e));
        const Mat3 arm = skew(at.p), one = Mat3::Identity();
        const double linear = boost * anchor[6 * e], angular = boost * anchor[6 * e + 3];  // the same in all directions
        anchors_[e].node = tip_node(static_cast<int>(e));
        anchors_[e].wrench = in_world(at, lambda.segment<6>(6 * e));
        anchors_[e].stiffness = blocks(linear * one, -linear * arm, linear * arm, angular * one - linear * arm * arm);
    }
}

bool PassesInterior::respond(Tangent tangent, const Step* step, Response& response) {
    const bool fresh = tangent != Tangent::kept;
    response.whole = by_kept_ = false;
    if (motor_jumped_) return false;
    place();
    if (tangent == Tangent::first) has_first_ = false;
    if (tangent == Tangent::renewed && !has_first_) {
        std::swap(first_, columns_);
        has_first_ = true;
    }
    if (fresh) {
        // Stiffer anchors if the tangent has negative eigenvalues otherwise. Where successive time steps need them, they come first in more
        // and more of the time steps that follow.
        const bool tried = tangent == Tangent::first && ++since_boost_ >= boost_lifetime_;
        if (tried) boost_ = 1;
        for (double boost : {boost_, anchor_boost}) {
            set_anchors(boost);
            inward<false, true, true>(statics);
            if (negative_ == 0 || boost == anchor_boost) break;
        }
        if (tried) {
            boost_lifetime_ = boost_ == 1 ? 0 : std::clamp(2 * boost_lifetime_, 1, longest_boost);
            since_boost_ = 0;
        }
        response.negative = negative_;
    } else {
        set_anchors(boost_);
        inward<false, false, true>(statics);
    }
    if (tie_rows_ > 0) compute_corrections();
    if (tangent == Tangent::first && redundant_ && ++since_removal_ >= removal_period) remove_redundant_multipliers();
    if (fresh) compute_columns();
    fresh ? evaluate_motion<true>(*step) : evaluate_motion<false>(*step);
    project(*step, fresh, response);
    return std::isfinite(response.drift.sum() + response.force.sum());
}

bool PassesInterior::respond_by_kept(Tangent tangent, const Step& step, Response& response) {
    if (motor_jumped_) return false;
    by_kept_ = true;
    place();
    set_anchors(1);
    evaluate_motion<false>(step);
    // The residual of motion is projected onto B by B^T r = J K^-1 r, because K is symmetric.
    if (tangent == Tangent::first) {
        second_torque_ = motion_.data();
        inward<false, true, true>(statics);
        second_torque_ = nullptr;
        if (negative_ != 0) return false;
        compute_corrections<true>();
    } else {
        inward<false, false, true>(statics);
        compute_corrections();
        projected_->prepare(*this);
        for (std::size_t i = 0; i < nodes_.size(); ++i) projected_->turn[i] = motion_[i];
        substitute(*projected_, false, nullptr, on_tip_path_.data());
    }
    for (std::size_t e = 0; e < tips.size(); ++e) {
        Eight along = every(0.0);
        for (std::size_t i = grounded_; i < nodes_.size(); ++i) along += correction_[i] * motion_by_coordinate_[e * stride_ + i];
        response.inertia.col(lambda.size()).segment<6>(6 * e) = first_six(along);
        const int node = tip_node(static_cast<int>(e));
        const Pose at = about_origin(static_cast<int>(e));
        response.drift.segment<6>(6 * e) = in_frame(at, outward_[node]);
        response.force.segment<6>(6 * e) = in_frame(at, tangent == Tangent::first ? second_outward_[node] : projected_->twist[node].v);
        auto anchored = response.anchor.block<6, 6>(6 * e, 6 * e);
        anchored = turning(lambda.segment<6>(6 * e));
        anchored.diagonal() += anchor.segment<6>(6 * e);
    }
    return response.drift.allFinite() && response.force.allFinite();
}

bool PassesInterior::keep_projection(const Step& step, const Matrix& wrenches) {
    if (boost_ != 1) return false;
    kept_columns_ = columns_;
    kept_tie_columns_ = tie_columns_;
    compute_motion_by_coordinates(step, wrenches);
    return true;
}

// Redundant ties have non-unique multipliers, and their null-space part grows with Newton's steps. This adds the correction that
// removes it, scaled so that the imbalance that it causes moves no coordinate by more than `largest_disturbance`.
void PassesInterior::remove_redundant_multipliers() {
    const std::vector<double> correction = correction_, tie_step = tie_step_;
    since_removal_ = 0;
    decay_ = 1;
    inward<false, false, true>(statics);
    decay_ = 0;
    compute_corrections();
    double moved = 0;
    for (std::size_t i = 0; i < correction.size(); ++i) moved = std::max(moved, std::abs(correction_[i] - correction[i]));
    const double share = moved > largest_disturbance ? largest_disturbance / moved : 1.0;
    for (int r = 0; r < tie_rows_; ++r) tie_step_[r] = tie_step[r] + share * (tie_step_[r] - tie_step[r]);
    correction_ = correction;
}

// Part of an actuator's excess force that is not in the balance, whose speeds are zero; `slope` by the coordinate, with the speed
// c times the coordinate.
static double excess_by_speed(const System& system, int actuator, double x, double speed, double c, double& slope) {
    double slope_at_rest;
    const double moving = system.excess(actuator, x, speed, c, slope), at_rest = system.excess(actuator, x, 0, 0, slope_at_rest);
    slope -= slope_at_rest;
    return moving - at_rest;
}

// Damping force of a coupling, with that of its actuators, and its slope.
double PassesInterior::coupling_drag(const Coupling& c, const Step& step, double& slope) const {
    double value = 0;
    for (std::size_t i = 0; i < c.nodes.size(); ++i) value += c.coefficients[i] * coordinate(c.nodes[i]);
    const double speed = step.rate(value, c.past, c.before), kappa = step.c0 / step.h;
    double force = c.damping * speed;
    slope = c.damping * kappa;
    for (int actuator : c.actuators) {
        double less;
        force -= excess_by_speed(*system_, actuator, value, speed, kappa, less);
        slope -= less;
    }
    return force;
}

// Residual of motion of every coordinate less that of balance: dampers and armatures less the work of the wrenches D; with
// `tangent` also `inertia_`. Sums run node by node, the rest is computed for eight nodes at a time.
template <bool second, bool tangent>
void PassesInterior::evaluate_motion(const Step& step) {
    const int n = static_cast<int>(nodes_.size());
    const double kappa = step.c0 / step.h, square = kappa * kappa;
    for (int i : joined_) carried_[i] = Carried{};
    Carried sums{};
    alignas(64) double wrenches[width][width], inertias[width][width];
    for (int b = blocks_ - 1; b >= grounded_ / width; --b) {
        const Fixed& fixed = fixed_[b];
        const Present& now = present_[b];
        const Past& past = past_[b];
        const Motion m = motion<second>(b, step);
        Three p = (kappa * fixed.mass) * m.centre_velocity + (step.c1 / step.h) * three(past.momentum);
        Three t = kappa * m.L + (step.c1 / step.h) * three(past.momentum + 3);
        if (second) {
            p = p + (step.c2 / step.h) * three(past.momentum_before);
            t = t + (step.c2 / step.h) * three(past.momentum_before + 3);
        }
        p = -1.0 * p;
        const Three c = m.centre - every(origin_), moment = cross(c, p) - t;
        const Eight m2 = tangent ? square * fixed.mass : every(0.0);
        const Three a = m2 * c + 0.5 * p;
        Eight D[8] = {p.x, p.y, p.z, moment.x, moment.y, moment.z, m2, a.x};
        spread(D, [&](int l) { return wrenches[l]; });
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const EndEffector& tip = tips[e];
            const int l = tip_node(static_cast<int>(e)) - width * b;
            if (l < 0 || l >= width) continue;
            const Pose at = about_origin(static_cast<int>(e));
            Vec6 more = in_world(tip.world ? Pose{Mat3::Identity(), at.p} : at, tip.wrench) - in_world(at, lambda.segment<6>(6 * e));
            for (const auto& [point, wrench] : tip.contacts) more += transform_wrench({Mat3::Identity(), -at.act(point)}, wrench);
            if (tip.has_handle) {
                const Vec3 point = at.act(tip.point), spin = get(m.R * m.spin, l);
                const Vec3 speed = get(m.centre_velocity, l) + spin.cross(point - get(c, l));
                const Vec3 force = tip.stiffness * (tip.target - origin_ - point) - tip.damping * speed;
                more += stack(force, point.cross(force));
            }
            for (int r = 0; r < 6; ++r) wrenches[l][r] += more[r];
        }
        if (tangent) {
            // G = [[m2, -[a]], [[a], m2-weighted inertia - ([p][c] + [c][p])/2]], as Lanes::put_body
            const Eight* I = fixed.inertia;
            const Turn J = (m.R * Turn{{I[0], I[3], I[4]}, {I[3], I[1], I[5]}, {I[4], I[5], I[2]}}) * transposed(m.R);
            const Three g = m2 * c + p;
            const Eight cg = dot(c, g);
            Eight G[8] = {a.y, a.z, square * J.x.x + (cg - c.x * g.x), square * J.y.y + (cg - c.y * g.y), square * J.z.z + (cg - c.z * g.z),
                          square * J.x.y - 0.5 * (c.x * g.y + c.y * g.x), square * J.x.z - 0.5 * (c.x * g.z + c.z * g.x),
                          square * J.y.z - 0.5 * (c.y * g.z + c.z * g.y)};
            spread(G, [&](int l) { return inertias[l]; });
        }
        const int count = std::min(width, n - width * b);
        Eight carried[8], inertia[8];
        for (int l = count; l < width; ++l) carried[l] = inertia[l] = every(0.0);
        for (int l = count - 1; l >= 0; --l) {
            const int i = width * b + l;
            if (!(flags_[i] & chained)) sums = Carried{};
            if (flags_[i] & joins) {
                sums.wrench += carried_[i].wrench;
                if (tangent) sums.inertia += carried_[i].inertia;
            }
            carried[l] = sums.wrench += load(wrenches[l]);
            if (tangent) inertia[l] = sums.inertia += load(inertias[l]);
            if (flags_[i] & branches) {
                Carried& onto = carried_[nodes_[i].parent];
                onto.wrench += sums.wrench;
                if (tangent) onto.inertia += sums.inertia;
            }
        }
        transpose(carried);
        const Six difference = {three(carried), three(carried + 3)};
        const Three z = three(now.R + 6), at = three(now.p) - every(origin_);
        const Six s = {fixed.turns * cross(at, z) + fixed.slides * z, fixed.turns * z};
        Eight rate = kappa * now.q + (step.c1 / step.h) * past.q, armature = (step.c1 / step.h) * past.p;
        if (second) {
            rate += (step.c2 / step.h) * past.q_before;
            armature += (step.c2 / step.h) * past.p_before;
        }
        const Eight drag = fixed.damping * rate + (kappa * fixed.armature * rate + armature);
        store(&motion_[width * b], drag - dot(s, difference));
        Eight slopes = kappa * fixed.damping + square * fixed.armature;
        for (const auto& [node, actuator] : actuators_)
            if (node / width == b) {
                double slope;
                motion_[node] -= excess_by_speed(*system_, actuator, now.q[node % width], rate[node % width], kappa, slope);
                slopes[node % width] -= slope;
            }
        if (!tangent) continue;
        transpose(inertia);
        const Three offset = {carried[7], inertia[0], inertia[1]}, v = s.linear, w = s.angular;
        const Six bent = carried_along(s, difference);
        const Three push = carried[6] * v + cross(w, offset) + 0.5 * bent.linear;
        const Three turn = cross(offset, v) + times_inertia(inertia + 2, w) + 0.5 * bent.angular;
        Eight terms[8] = {push.x, push.y, push.z, turn.x, turn.y, turn.z, every(0.0), dot(push, v) + dot(turn, w) + slopes};
        spread(terms, [&](int l) { return reinterpret_cast<double*>(&inertia_[width * b + l]); });
    }
    for (const Coupling& c : couplings_) {
        if (c.damping == 0) continue;
        double slope;
        const double drag = coupling_drag(c, step, slope);
        for (std::size_t i = 0; i < c.nodes.size(); ++i) motion_[c.nodes[i]] += c.coefficients[i] * drag;
    }
}

bool PassesInterior::touches_stop() const {
    double torque, slope, energy;
    for (const auto& [node, row] : stops_) {
        system_->model().rows[row].stop_torque(coordinate(node), torque, slope, energy);
        if (torque != 0) return true;
    }
    for (const Coupling& c : couplings_) {
        if (!c.stop) continue;
        system_->model().rows[c.system_row].stop_torque(c.value, torque, slope, energy);
        if (torque != 0) return true;
    }
    return false;
}

double PassesInterior::move(const Vector& mu, double largest, double& alpha) {
    const std::vector<Eight>&columns = by_kept_ ? kept_columns_ : columns_, &tie_columns = by_kept_ ? kept_tie_columns_ : tie_columns_;
    Eight by[most_tips], most = every(0.0), all = every(0.0);
    for (int e = 0; e < count(); ++e) by[e] = six_lanes(mu.segment<6>(6 * e));
    auto along = [&](const Eight* entry, int apart) {
        Eight sum = by[0] * entry[0];
        for (int e = 1; e < count(); ++e) sum += by[e] * entry[e * apart];
        return sum;
    };
    for (int b = grounded_ / width; b < blocks_; ++b) {
        Eight t[8];
        for (int l = 0; l < width; ++l) t[l] = along(&columns[width * b + l], stride_);
        transpose(t);
        const Eight x = fixed_[b].free * (load(&correction_[width * b]) + ((t[0] + t[1]) + (t[2] + t[3])) + (t[4] + t[5]));
        store(&move_[width * b], x);
        all += x;
        most = larger(most, absolute(x) * (fixed_[b].turns + (1.0 - fixed_[b].turns) * (1 / length_scale_)));
    }
    if (!std::isfinite(sum(all))) return INFINITY;
    const double size = supple::largest(most);
    alpha = std::min(1.0, largest / size);
    for (Coupling& c : couplings_) {
        c.value = 0;
        for (std::size_t i = 0; c.stop && i < c.nodes.size(); ++i) c.value += c.coefficients[i] * coordinate(c.nodes[i]);
    }
    for (int b = grounded_ / width; b < blocks_; ++b) present_[b].q += alpha * load(&move_[width * b]);
    for (int r = 0; r < tie_rows_; ++r) multiplier_[r] += alpha * (tie_step_[r] + sum(along(&tie_columns[r], tie_rows_)));
    if (!step_in_torque) return size;
    for (const auto& [node, row] : stops_) {
        double& q = present_[node / width].q[node % width];
        q = system_->model().rows[row].pushed_to(q - alpha * move_[node], q);
    }
    for (const Coupling& c : couplings_) {
        if (!c.stop) continue;
        double value = 0, square = 0;
        for (std::size_t i = 0; i < c.nodes.size(); ++i) {
            value += c.coefficients[i] * coordinate(c.nodes[i]);
            square += c.coefficients[i] * c.coefficients[i];
        }
        const double more = system_->model().rows[c.system_row].pushed_to(c.value, value) - value;
        for (std::size_t i = 0; i < c.nodes.size(); ++i) present_[c.nodes[i] / width].q[c.nodes[i] % width] += more / square * c.coefficients[i];
    }
    return size;
}

void PassesInterior::predict(double h, double trend) {
    if (input_changes_ != system_->input_changes) read_inputs(*system_);
    origin_ = pose(std::min<int>(grounded_, nodes_.size() - 1)).p;
    freeze_directions();
    for (int b = grounded_ / width; b < blocks_; ++b) {
        const Past& past = past_[b];
        present_[b].q = past.q + h * (past.rate + trend * (past.rate - past.rate_before));
    }
    lock_coordinates();
    motor_jumped_ = false;
    for (const Lock& lock : locks_) {
        const double unit = nodes_[lock.node].turns != 0 ? 1.0 : length_scale_;
        motor_jumped_ = motor_jumped_ || std::abs(coordinate(lock.node) - past_[lock.node / width].q[lock.node % width]) > largest_jump * unit;
    }
}

void PassesInterior::finish(const Step* step) {
    place();
    if (!step) return;
    step_ = *step;
    gap_ = 0;
    evaluate_ties<false>(statics);
}

Vec6 PassesInterior::tip_velocity(int e) const {
    const Pose body = body_pose(tips[e].body);
    const Vec6 moves = Articulated::velocity_of(tips[e].body, body);
    return stack(moves.head<3>() + moves.tail<3>().cross(body.R * tips[e].on_body.p), moves.tail<3>());
}

void PassesInterior::accept(double) {
    step_.c2 != 0 ? Articulated::accept<true>(step_) : Articulated::accept<false>(step_);
}

void PassesInterior::keep() {
    kept_state_.q.resize(blocks_);
    for (int b = 0; b < blocks_; ++b) kept_state_.q[b] = present_[b].q;
    kept_state_.multiplier = multiplier_;
    kept_state_.lambda = lambda;
}

void PassesInterior::restore_kept() {
    for (int b = 0; b < blocks_; ++b) present_[b].q = kept_state_.q[b];
    multiplier_ = kept_state_.multiplier;
    lambda = kept_state_.lambda;
}

std::vector<double> PassesInterior::flat() const {
    std::vector<double> all;
    Articulated::save(all);
    return all;
}

void PassesInterior::set_flat(const double* values) {
    Articulated::restore(values);
    freeze_directions();
    place();
}

void PassesInterior::save(Moment moment) { saved_[moment] = flat(); }
void PassesInterior::restore(Moment moment) { set_flat(saved_[moment].data()); }

}  // namespace supple
