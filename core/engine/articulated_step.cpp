// Newton's method for one time step, and the exchange of the state with a System.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/articulated.hpp"
#include "engine/articulated_lanes.hpp"

namespace supple {

namespace {
constexpr int newton_limit = 25;
constexpr double rounding = 1e-12;
constexpr double rounding_limit = 1e-8;  // smaller corrections that do not shrink are rounding errors (redundant loops)
constexpr double negligible_correction = 1e-13;     // a step has converged if the extrapolated next correction is smaller
constexpr double closed = 1e-11;      // gaps of ties
constexpr double decay_per_step = 0.005;
constexpr double largest_turn = 2;    // of a coordinate or a body in one step, rad
constexpr int changes_at_once = 5;    // changes of the active set before limits change one at a time
constexpr int most_changes = 40;
constexpr int most_idle = 100;        // steps after which a coupling that does not resist loses its columns in the fronts

// A wrench about the world's origin, in world axes, seen from a frame: at its origin, in its axes.
Vec6 wrench_in(const Pose& frame, const Vec6& w) {
    const Vec3 f = w.head<3>(), m = w.tail<3>() - frame.p.cross(f);
    return stack(frame.R.transpose() * f, frame.R.transpose() * m);
}
}  // namespace

// Motion of eight bodies at the end of the step: spin = Jr(x) (c0 x - c2 x_0) / h with x = log(R_n^T R), x_0 the turn of
// the step before.
template <bool second>
Articulated::Motion Articulated::motion(int b, const Step& step) const {
    const Fixed& fixed = fixed_[b];
    const Present& now = present_[b];
    const Past& past = past_[b];
    Motion m;
    m.R = {three(now.R), three(now.R + 3), three(now.R + 6)};
    m.centre = m.R * three(fixed.centre) + three(now.p);
    m.centre_velocity = (1 / step.h) * (step.c0 * m.centre + step.c1 * three(past.centre));
    if (second) m.centre_velocity = m.centre_velocity + (step.c2 / step.h) * three(past.centre_before);
    const Turn R_past = {three(past.R), three(past.R + 3), three(past.R + 6)};
    const bool near = largest(-trace(R_past, m.R)) < -2.98;
    m.x = near ? short_log(R_past, m.R) : log_of_each(R_past, m.R);
    if (second) {
        const Three before = three(past.turn), once = cross(m.x, before), twice = cross(m.x, once);
        const Eight s = dot(m.x, m.x);
        const Eight g2 = near ? stumpff<2, 6>(s) : stumpff<2, 14>(s), g3 = near ? stumpff<3, 6>(s) : stumpff<3, 14>(s);
        m.spin = (1 / step.h) * (step.c0 * m.x - step.c2 * (before - g2 * once + g3 * twice));
    } else {
        m.spin = (step.c0 / step.h) * m.x;
    }
    m.L = m.R * times_inertia(fixed.inertia, m.spin);
    return m;
}
template Articulated::Motion Articulated::motion<true>(int, const Step&) const;
template Articulated::Motion Articulated::motion<false>(int, const Step&) const;

// Spring, damper and armature of eight coordinates, and the slope.
template <bool second>
Eight Articulated::torque(int b, const Step& step, Eight& slope) const {
    const Fixed& fixed = fixed_[b];
    const Present& now = present_[b];
    const Past& past = past_[b];
    const double c = step.c0 / step.h;
    Eight rate = c * now.q + (step.c1 / step.h) * past.q;
    if (second) rate += (step.c2 / step.h) * past.q_before;
    Eight torque = fixed.stiffness * (now.q - fixed.rest) - fixed.applied + fixed.damping * rate + (c * fixed.armature * rate + (step.c1 / step.h) * past.p);
    if (second) torque += (step.c2 / step.h) * past.p_before;
    slope = fixed.stiffness + c * fixed.damping + (c * c) * fixed.armature;
    // what single coordinates have besides: nodes of this block in lists that are sorted by node
    alignas(64) double more[width] = {}, steeper[width] = {}, rates[width];
    store(rates, rate);
    bool any = false;
    const auto each_of = [&](const std::vector<std::pair<int, int>>& list, auto&& evaluate) {
        auto entry = std::lower_bound(list.begin(), list.end(), std::pair(width * b, 0));
        for (; entry != list.end() && entry->first < width * (b + 1); ++entry, any = true) {
            const int l = entry->first % width;
            double t, d, energy;
            evaluate(entry->second, l, t, d, energy);
            more[l] += t;
            steeper[l] += d;
        }
    };
    each_of(curves_, [&](int curve, int l, double& t, double& d, double& energy) {
        system_->curves[curve].evaluate(now.q[l] - fixed.rest[l], t, d, energy);
    });
    each_of(actuators_, [&](int actuator, int l, double& t, double& d, double&) {
        t = -system_->actuators[actuator].excess(now.q[l], rates[l], c, d);
        d = -d;
    });
    each_of(stops_, [&](int row, int l, double& t, double& d, double& energy) {
        system_->rows[row].stop_torque(now.q[l], t, d, energy);
    });
    if (any) {
        torque += load(more);
        slope += load(steeper);
    }
    return torque;
}
template Eight Articulated::torque<true>(int, const Step&, Eight&) const;
template Eight Articulated::torque<false>(int, const Step&, Eight&) const;

void Articulated::keep() {
    bool idle = false;
    for (Coupling& c : couplings_) {
        if (c.idle >= 0) c.idle = c.resists() ? 0 : c.idle + 1;
        idle = idle || c.idle > most_idle;
    }
    if (idle) lay_out_couplings(most_idle);
    tie_kept_ = multiplier_;
    rho_kept_ = rho_;
    for (Lock& lock : locks_) lock.active_past = lock.active;
    for (Coupling& coupling : couplings_) coupling.active_past = coupling.active;
    for (Loop& loop : loops_) std::copy_n(loop.along, 3, loop.along_past);
    limit_changed_ = false;
    contact_loads_.clear();
}

bool Articulated::step(double h, int order) {
    keep();
    order_used_ = order;
    if (order == 2) {
        if (solve<true>({h, 1.5, -2.0, 0.5})) return true;
        restore_kept_state();
        if (!limit_changed_) return false;
        order_used_ = 1;  // a second-order difference across an impact would add energy
    }
    if (solve<false>({h, 1.0, -1.0, 0.0})) return true;
    restore_kept_state();
    return false;
}

void Articulated::restore_kept_state() {
    multiplier_ = tie_kept_;
    rho_ = rho_kept_;
    for (int b = 0; b < blocks_; ++b) present_[b].q = past_[b].q;
    for (BallNode& node : balls_) node.turn_to(node.sign * node.q_past);
    for (FlexibleNode& each : flexible_) each.eta = each.past.eta;
    for (Lock& lock : locks_) lock.active = lock.active_past;
    for (Coupling& coupling : couplings_) coupling.active = coupling.active_past;
    for (Loop& loop : loops_) std::copy_n(loop.along_past, 3, loop.along);
    forward();
}

// Prescribes the coordinates of motors and active limits.
void Articulated::lock_coordinates() {
    for (const Lock& lock : locks_)
        if (lock.active) {
            present_[lock.node / width].q[lock.node % width] = lock.active > 0 ? lock.upper : lock.lower;
            correction_[lock.node] = 0;
        }
}

// Active set: activates limits that the solution violates and deactivates those whose force would pull. True: it changed.
// All at once this may cycle; with `one` only the first limit that is wrong changes, which ends for a positive definite tangent (K. G.
// Murty, Note on a Bard-type scheme for solving the complementarity problem, Opsearch 11, 1974).
bool Articulated::update_limits(bool one) {
    bool changed = false;
    auto update = [&](int& active, double value, double lower, double upper, double push) {
        if (one && changed) return;
        const int before = active;
        if (active != 0 && push * active < 0) active = 0;
        else if (active == 0 && value > upper + rounding) active = 1;
        else if (active == 0 && value < lower - rounding) active = -1;
        changed = changed || active != before;
    };
    for (Lock& lock : locks_) {
        if (lock.equality || lock_of_[lock.node] < 0 || &locks_[lock_of_[lock.node]] != &lock) continue;
        update(lock.active, coordinate(lock.node), lock.lower, lock.upper, -rho_[lock.node]);
    }
    for (Coupling& c : couplings_)
        if (c.system_row >= 0 && !c.equality && !c.stop) update(c.active, c.value, c.lower, c.upper, multiplier_[c.row]);
    return changed;
}

bool Articulated::turned_too_far() const {
    Eight most = every(0.0), least = every(3.0);
    for (int b = 0; b < blocks_; ++b) {
        const Present& now = present_[b];
        const Past& past = past_[b];
        most = larger(most, absolute(now.q - past.q) * fixed_[b].turns);
        const Eight cosine = trace({three(past.R), three(past.R + 3), three(past.R + 6)}, {three(now.R), three(now.R + 3), three(now.R + 6)});
        least = -larger(-least, -cosine);
    }
    return !(largest(most) <= largest_turn) || !(largest(-least) <= -(1 + 2 * std::cos(largest_turn)));
}

template <bool second>
bool Articulated::solve(const Step& step) {
    if (!predict<second>(step) || !iterate<second>(step, true)) return false;
    accept<second>(step);
    return true;
}

// Predictor: extrapolates the rates and their change. False: a motor's set-point is beyond a limit of its coordinate.
template <bool second>
bool Articulated::predict(const Step& step) {
    const double c = step.c0 / step.h;
    soft_scale_ = system_->stiffness_scale + mean_mass_ * length_scale_ * length_scale_ * c * c;
    origin_ = nodes_.size() > 1 ? pose(1).p : Vec3::Zero();
    for (const Lock& lock : locks_) {
        const Lock& first = locks_[lock_of_[lock.node]];
        if (&first != &lock && (first.upper > lock.upper + rounding || first.upper < lock.lower - rounding)) return false;
    }
    freeze_directions();
    const double trend = fresh_ || step.h != h_past_ ? 0.0 : second ? 0.5 : 1.0;
    for (int b = 0; b < blocks_; ++b) {
        const Past& past = past_[b];
        present_[b].q = past.q + step.h * (past.rate + trend * (past.rate - past.rate_before));
    }
    for (BallNode& node : balls_)
        node.set_joint_rotation(node.rotation_past * so3_exp_short(step.h * (node.rate + trend * (node.rate - node.rate_before))));
    for (FlexibleNode& each : flexible_)
        for (int p = 0; p < each.modes; ++p)
            each.eta[p] = each.past.eta[p] + step.h * (each.rate[p] + trend * (each.rate[p] - each.rate_before[p]));
    lock_coordinates();
    return true;
}

template <bool second>
bool Articulated::iterate(const Step& step, bool refactor) {
    double last = INFINITY;
    int changes = 0;  // of the active set
    for (int k = 0; k < newton_limit + 2 * changes; ++k) {
        if (k > 0 || refactor) forward();
        // Redundant ties have non-unique multipliers, and their null-space part grows with Newton's steps. The equation
        // c' x - soft (decay mu + dmu) = 0 in place of c' x - soft dmu = 0 lets it decay. The next correction removes the gap
        // that this leaves.
        decay_ = k == 0 && redundant_ ? decay_per_step : 0.0;
        if (refactor) {
            if (!inward<second, true>(step)) return false;
            ++factorisations;
        } else {
            inward<second, false>(step);
        }
        const double size = outward();
        ++iterations;
        if (!std::isfinite(size)) return false;
        const double rate = size / last;  // zero after the first correction
        // refactorise if three more corrections at this rate do not suffice
        refactor = !(size < 0.05 * last) || size * rate * rate * rate > negligible_correction;
        const bool stalled = k >= 4 && size < rounding_limit && size > 0.5 * last;
        const bool done = size < rounding || stalled || (std::isfinite(last) && size < 0.05 * last && size * size < negligible_correction * last);
        last = size;
        if (!done) continue;
        if (update_limits(changes >= changes_at_once)) {
            if (++changes > most_changes) return false;
            limit_changed_ = true;
            lay_out_couplings(most_idle);
            if (second) return false;
            lock_coordinates();
            refactor = true;
            last = INFINITY;
            continue;
        }
        for (BallNode& node : balls_) node.settle();
        forward();
        if (tie_rows_) {
            evaluate_ties<false>(step);
            if (!(gap_ <= closed)) continue;
        }
        if (turned_too_far()) return false;
        limit_changed_ = std::any_of(locks_.begin(), locks_.end(), [](const Lock& l) { return l.active != l.active_past; }) ||
                         std::any_of(couplings_.begin(), couplings_.end(), [](const Coupling& x) { return x.active != x.active_past; });
        return !(limit_changed_ && second);
    }
    return false;
}
template bool Articulated::predict<false>(const Step&);
template bool Articulated::predict<true>(const Step&);
template bool Articulated::iterate<false>(const Step&, bool);
template bool Articulated::iterate<true>(const Step&, bool);

double Articulated::free_angle(const Loop& loop) const {
    const Pose a = pose(loop.end[1].node), b = pose(loop.end[0].node);
    const Vec3 xa = a.R * loop.end[1].direction[1], xb = b.R * loop.end[0].direction[1], z = a.R * loop.end[1].direction[0];
    const double measured = std::atan2(z.dot(xa.cross(xb)), xa.dot(xb));
    return loop.angle + std::remainder(measured - loop.angle, 2 * M_PI);
}

template <bool second>
void Articulated::accept(const Step& step) {
    const double kappa = step.c0 / step.h;
    for (int b = 0; b < blocks_; ++b) {
        const Motion m = motion<second>(b, step);
        const Fixed& fixed = fixed_[b];
        const Present& now = present_[b];
        Past& past = past_[b];
        const Six resultant = applied_less_inertia<second>(b, step, m);
        auto keep = [](Eight* to, const Three& v) {
            to[0] = v.x;
            to[1] = v.y;
            to[2] = v.z;
        };
        keep(past.wrench, resultant.linear);
        keep(past.wrench + 3, resultant.angular);
        std::copy_n(now.R, 9, past.R);
        keep(past.turn, m.x);
        keep(past.spin, m.spin);
        keep(past.centre_velocity, m.centre_velocity);
        std::copy_n(past.centre, 3, past.centre_before);
        keep(past.centre, m.centre);
        std::copy_n(past.momentum, 6, past.momentum_before);
        keep(past.momentum, fixed.mass * m.centre_velocity);
        keep(past.momentum + 3, m.L);
        Eight rate = kappa * now.q + (step.c1 / step.h) * past.q;
        if (second) rate += (step.c2 / step.h) * past.q_before;
        past.q_before = past.q;
        past.q = now.q;
        past.p_before = past.p;
        past.p = fixed.armature * rate;
        past.rate_before = past.rate;
        past.rate = rate;
    }
    for (BallNode& node : balls_) {
        const Vec3 q = node.sign * node.q;
        const Mat3 rotation = node.joint_rotation();
        const Vec3 rate = ball_rate(node, step, rotation);
        node.q_before = node.q_past;
        node.q_past = q;
        node.rotation_past = rotation;
        node.p_before = node.p;
        for (int i = 0; i < 3; ++i) node.p[i] = system_->armature[node.axis + i] * rate[i];
        node.rate_before = node.rate;
        node.rate = rate;
    }
    accept_flexible(step);
    for (Loop& loop : loops_) {
        if (loop.rows != 5) continue;
        const double angle = free_angle(loop);
        loop.rate_before = loop.rate;
        loop.rate = (step.c0 * angle + step.c1 * loop.angle + step.c2 * loop.angle_before) / step.h;
        loop.angle_before = loop.angle;
        loop.angle = angle;
    }
    for (Bushing& each : bushings_) {
        const Vec6 q = coordinates(each), rate = rates(each, q, step);
        each.before = each.past;
        each.past = q;
        each.rate_before = each.rate;
        each.rate = rate;
    }
    for (Coupling& c : couplings_) {
        c.before = c.past;
        c.past = c.value;
    }
    fresh_ = false;
    h_past_ = step.h;
}
template void Articulated::accept<false>(const Step&);
template void Articulated::accept<true>(const Step&);

// --- exchange with a System -------------------------------------------------------------------------------------------------------

// Multipliers for directions that are frozen at the present pose.
void Articulated::read_multipliers(Loop& loop, const Vec6& lambda) {
    const Joint& joint = system_->joints[loop.joint];
    const Pose frame = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child, H = pose(loop.end[0].node);
    const Vec3 force = frame.R * lambda.head<3>();
    const Vec3 moment = frame.R * lambda.tail<3>() + (frame.p - H.act(loop.end[0].point)).cross(force);
    const Vec3 z = H.R * loop.end[0].direction[0], x = H.R * loop.end[0].direction[1], y = z.cross(x);
    const double all[] = {force[0] * length_scale_, force[1] * length_scale_, force[2] * length_scale_,
                          moment.dot(y), -moment.dot(x), moment.dot(z)};
    std::copy_n(all, loop.rows, &multiplier_[loop.first]);
}

Vec6 Articulated::loop_wrench(const Loop& loop) const {
    const Joint& joint = system_->joints[loop.joint];
    const double* multiplier = &multiplier_[loop.first];
    const Pose H = pose(loop.end[0].node);
    const Vec3 force = Vec3(multiplier) / length_scale_;
    const Vec3 z = H.R * loop.end[0].direction[0], x = H.R * loop.end[0].direction[1];
    Vec3 moment = Vec3::Zero();
    if (loop.rows > 3) moment += z.cross(Vec3(multiplier[3] * loop.along[0] + multiplier[4] * loop.along[1]));
    if (loop.rows > 5) moment += multiplier[5] * x.cross(loop.along[2]);
    const Pose frame = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child;
    Vec6 wrench = wrench_in(frame, stack(force, H.act(loop.end[0].point).cross(force) + moment));
    if (loop.rows == 5) wrench.tail<3>() -= system_->applied[loop.axes[0]] * system_->twists[loop.axes[0]].tail<3>();
    return wrench;
}

// Coordinates of a free ball joint that closes a loop.
Vec3 Articulated::free_ball(const Loop& loop) const {
    const Joint& joint = system_->joints[loop.joint];
    const Pose a = joint.parent < 0 ? joint.pose_parent : body_pose(joint.parent) * joint.pose_parent;
    const Pose b = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child;
    return ball_axes(loop).transpose() * so3_log(a.R.transpose() * b.R);
}

Mat3 Articulated::ball_axes(const Loop& loop) const {
    Mat3 axes;  // the coordinates are components along the joint's own axes
    for (int i = 0; i < 3; ++i) axes.col(i) = system_->twists[loop.axes[i]].tail<3>();
    return axes;
}

void Articulated::read(const System& s, const History& history, double h, bool fresh) {
    fresh_ = fresh;
    h_past_ = h;
    in_step_ = false;
    contact_loads_.clear();
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
        node.q_past = of(s.state.q);
        node.turn_to(node.sign * node.q_past);
        node.q_before = of(history.q_before);
        node.rotation_past = so3_exp(node.q_past);
        node.rate = of(s.rate);
        node.rate_before = of(history.rate_before);
        node.p = of(history.p);
        node.p_before = of(history.p_before);
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
        const Vec3 centre_velocity = history.H[b].R * (s.velocity[b].head<3>() + w.cross(s.centre[b]));
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

Pose Articulated::body_pose(int body) const { return pose(body_node_[body]) * nodes_[body_node_[body]].body_in_node; }

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
    for (const BallNode& node : balls_) std::copy_n(node.q_past.data(), 3, q + node.axis);
    for (const FlexibleNode& each : flexible_)
        for (const Attachment& interface : each.interfaces) std::copy_n(each.past.eta.data(), each.modes, q + system_->joints[interface.joint].first);
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

void Articulated::write_single_coordinates(System& s) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i].size != 1) continue;
        s.state.q[nodes_[i].axis] = past_[i / width].q[i % width];
        s.rate[nodes_[i].axis] = past_[i / width].rate[i % width];
    }
}

void Articulated::write(System& s, History& history) const {
    const int n = static_cast<int>(nodes_.size()), nb = s.bodies();
    write_single_coordinates(s);
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
        put(s.state.q, node.q_past);
        put(history.q_before, node.q_before);
        put(s.rate, node.rate);
        put(history.rate_before, node.rate_before);
        put(history.p, node.p);
        put(history.p_before, node.p_before);
    }
    write_flexible(s, history);
    for (int b = 0; b < nb; ++b) {
        const int i = body_node_[b], l = i % width;
        const Past& past = past_[i / width];
        const Mat3& turned = nodes_[i].body_in_node.R;
        auto vector = [&](const Eight* from) { return Vec3(from[0][l], from[1][l], from[2][l]); };
        history.turn[b] = turned.transpose() * vector(past.turn);
        history.centre[b] = vector(past.centre);
        history.centre_before[b] = vector(past.centre_before);
        history.momentum[b] = s.momentum[b] = stack(vector(past.momentum), vector(past.momentum + 3));
        history.momentum_before[b] = stack(vector(past.momentum_before), vector(past.momentum_before + 3));
        const Vec3 spin = turned.transpose() * vector(past.spin), centre_velocity = body_pose(b).R.transpose() * vector(past.centre_velocity);
        s.velocity[b] = stack(centre_velocity - spin.cross(s.centre[b]), spin);
    }
    for (const Loop& loop : loops_) {
        const Joint& joint = s.joints[loop.joint];
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

    // multipliers: of loops from the ties, of joints of the tree from the wrenches on their subtrees
    std::vector<Vec6> carried(n, Vec6::Zero());  // about the world's origin
    auto add = [&](int node, const Vec3& at, const Vec3& f, const Vec3& t) { carried[node] += stack(f, at.cross(f) + t); };
    for (int b = 0; b < nb; ++b) {
        const int i = body_node_[b], l = i % width;
        const Past& past = past_[i / width];
        auto vector = [&](const Eight* from) { return Vec3(from[0][l], from[1][l], from[2][l]); };
        add(i, vector(past.centre), vector(past.wrench), vector(past.wrench + 3));
    }
    for (const FlexibleNode& each : flexible_) {
        const Pose H = pose(each.node);
        add(each.node, H.p, H.R * each.wrench.head<3>(), H.R * each.wrench.tail<3>());
    }
    for (const NodeLoad& load : contact_loads_) add(load.node, pose(load.node).act(load.point), load.force, load.torque);
    for (const NodeLoad& load : loads_) {
        const Pose H = pose(load.node);
        add(load.node, H.act(load.point), load.world ? load.force : Vec3(H.R * load.force), load.world ? load.torque : Vec3(H.R * load.torque));
    }
    for (const NodeHandle& handle : handles_) {
        const Pose H = pose(handle.node), inverse = nodes_[handle.node].body_in_node.inverse();
        const int b = nodes_[handle.node].body;
        const Vec6& v = s.velocity[b];
        const Vec3 local = inverse.act(handle.point), velocity = body_pose(b).R * (v.head<3>() + v.tail<3>().cross(local));
        const Vec3 at = H.act(handle.point);
        add(handle.node, at, handle.stiffness * (handle.target - at) - handle.damping * velocity, Vec3::Zero());
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
            add(loop.end[side].node, at, sign * force, sign * moment);
        }
        s.state.lambda[loop.joint] = loop_wrench(loop);
    }
    for (const Bushing& each : bushings_) {
        const Pose H = pose(each.node) * each.in_node;
        const Vec6 w = s.state.lambda[each.joint] = wrench(each);
        const Vec3 force = H.R * w.head<3>(), moment = H.R * w.tail<3>();
        add(each.node, H.p, -force, -moment);
        add(each.ground, H.p, force, moment);
    }
    for (int i = n - 1; i > 0; --i) carried[nodes_[i].parent] += carried[i];
    for (std::size_t j = 0; j < s.joints.size(); ++j) {
        if (!in_tree_[j]) continue;
        const Joint& joint = s.joints[j];
        const int node = joint_node_[j];
        const double sign = nodes_[node].body == joint.child ? 1 : -1;
        const Pose frame = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child;
        s.state.lambda[j] = sign * wrench_in(frame, carried[node]);
    }
    std::vector<int> active(s.rows.size(), 0);
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
    s.set_active(active);
    history.H = s.state.H;
}

// Calls visit(numbers, count) for everything that a step depends on.
template <class Self, class Visit>
void Articulated::visit_state(Self& self, Visit visit) {
    using Numbers = std::conditional_t<std::is_const_v<Self>, const double*, double*>;
    for (auto& past : self.past_) visit(reinterpret_cast<Numbers>(&past), static_cast<int>(sizeof(Past) / sizeof(double)));
    for (auto& ball : self.balls_)
        for (auto* v : {&ball.q, &ball.q_past, &ball.q_before, &ball.rate, &ball.rate_before, &ball.p, &ball.p_before})
            visit(v->data(), 3);
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
    visit(&self.h_past_, 1);
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
    for (BallNode& node : balls_) {
        node.rotation_past = so3_exp(node.q_past);
        node.turn_to(node.q);
    }
    for (FlexibleNode& each : flexible_) each.eta = each.past.eta;
    forward();
}

}  // namespace supple
