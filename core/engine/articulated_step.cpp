// Newton's method for one time step.
#include <algorithm>
#include <cmath>

#include "engine/articulated.hpp"
#include "engine/articulated_lanes.hpp"
#include "engine/convergence.hpp"

namespace supple {

namespace {
constexpr double decay_per_step = 0.005;
constexpr int changes_at_once = 5;  // changes of the active set before limits change one at a time
constexpr int most_changes = 40;
// What extrapolated rates miss is expected again if it grows by at most this factor from step to step; the factors of
// single coordinates are trusted this near to the common one, and if their correlation exceeds this.
constexpr double largest_growth = 1.25, spread_of_growth = 0.1, trusted_correlation = 0.99;
// Expected error, rad or radii, below which limits and ends of ranges are looked at
constexpr double nearly_converged = 5e-3;
}  // namespace

// Motion of eight bodies at the end of the step.
template <bool second>
Articulated::Motion Articulated::motion(int b, const Step& step) const {
    const Fixed& fixed = fixed_[b];
    const Present& now = present_[b];
    const Past& past = past_->slots[b];
    Motion m;
    m.R = {three(now.R), three(now.R + 3), three(now.R + 6)};
    m.centre = m.R * three(fixed.centre) + three(now.position);
    m.x = turn_between({three(past.R), three(past.R + 3), three(past.R + 6)}, m.R);
    m.set_rates<second>(step, fixed.inertia, three(past.centre), three(past.centre_before), three(past.turn));
    return m;
}
template Articulated::Motion Articulated::motion<true>(int, const Step&) const;
template Articulated::Motion Articulated::motion<false>(int, const Step&) const;

// Spring, damper and armature of eight coordinates, and the slope.
template <bool second>
Eight Articulated::torque(int b, const Step& step, Eight& slope) const {
    const Fixed& fixed = fixed_[b];
    const Present& now = present_[b];
    const Past& past = past_->slots[b];
    const double c = step.c0 / step.h;
    Eight rate = c * now.q + (step.c1 / step.h) * past.q;
    if (second) rate += (step.c2 / step.h) * past.q_before;
    Eight torque = fixed.stiffness * (now.q - fixed.rest) - fixed.applied + fixed.damping * rate +
                   (c * fixed.armature * rate + (step.c1 / step.h) * past.p);
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
        system_->model().curves[curve].evaluate(now.q[l] - fixed.rest[l], t, d, energy);
    });
    if (ends_of_range_.empty())
        each_of(actuators_, [&](int actuator, int l, double& t, double& d, double&) {
            t = -system_->excess(actuator, now.q[l], rates[l], c, d);
            d = -d;
        });
    else
        for (const Drives& drives : drives_)
            if (drives.block == b) {
                torque -= drives.torque[0] + drives.torque[1] * now.q + drives.torque[2] * rate;
                slope -= drives.torque[1] + c * drives.torque[2];
            }
    each_of(stops_, [&](int row, int l, double& t, double& d, double& energy) {
        system_->model().rows[row].stop_torque(now.q[l], t, d, energy);
    });
    if (any) {
        torque += load(more);
        slope += load(steeper);
    }
    return torque;
}
template Eight Articulated::torque<true>(int, const Step&, Eight&) const;
template Eight Articulated::torque<false>(int, const Step&, Eight&) const;

void Articulated::take(const State& state) {
    past_ = &state;
    limit_changed_ = false;
    contact_loads_.clear();
    redundant_ = state.redundant;
    curvature_ = state.curvature;
    std::copy(state.loop_multipliers.begin(), state.loop_multipliers.end(), multiplier_.begin());
    for (Lock& lock : locks_) {
        lock.active = lock.equality ? 1 : (lock.coefficient < 0 ? -1 : 1) * state.active[lock.system_row];
        if (&locks_[lock_of_[lock.node]] == &lock) rho_[lock.node] = -lock.coefficient * state.mu[lock.system_row];
    }
    bool changed = false;
    for (std::size_t i = 0; i < couplings_.size(); ++i) {
        Coupling& c = couplings_[i];
        const bool had = c.idle >= 0;
        c.idle = state.idle[i];
        c.past = c.before = 0;
        for (std::size_t k = 0; k < c.nodes.size(); ++k) {
            const Past& past = state.slots[c.nodes[k] / width];
            c.past += c.coefficients[k] * past.q[c.nodes[k] % width];
            c.before += c.coefficients[k] * past.q_before[c.nodes[k] % width];
        }
        if (c.system_row >= 0) {
            multiplier_[c.row] = state.mu[c.system_row];
            c.active = c.equality ? 1 : c.stop ? 0 : state.active[c.system_row];
        }
        if (c.resists()) c.idle = 0;
        else if (c.idle >= 0 && ++c.idle > most_idle && flexible_.empty()) c.idle = -1;
        changed = changed || had != (c.idle >= 0);
    }
    if (changed) lay_out_fronts();
}

bool Articulated::step(State& state, double h, int order) {
    take(state);
    order_used_ = order;
    if (order == 2) {
        if (solve<true>(Step::of_order(2, h))) {
            accept<true>(state, Step::of_order(2, h));
            return true;
        }
        if (!limit_changed_) return false;
        take(state);
        order_used_ = 1;  // a second-order difference across an impact would add energy
    }
    if (!solve<false>(Step::of_order(1, h))) return false;
    accept<false>(state, Step::of_order(1, h));
    return true;
}

// Prescribes the coordinates of motors and active limits.
void Articulated::lock_coordinates() {
    for (const Lock& lock : locks_)
        if (lock.active) {
            present_[lock.node / width].q[lock.node % width] = lock.active > 0 ? lock.upper : lock.lower;
            correction_[lock.node] = 0;
        }
}

// Active set: activates limits that the solution violates and deactivates those whose force would pull. True: it
// changed. All at once this may cycle; with `one` only the first limit that is wrong changes, which ends for a positive
// definite tangent (K. G. Murty, Note on a Bard-type scheme for solving the complementarity problem, Opsearch 11,
// 1974).
bool Articulated::update_limits(bool one) {
    bool changed = false;
    auto update = [&](int& active, double value, double lower, double upper, double push) {
        if (one && changed) return;
        const int before = active;
        if (active != 0 && push * active < 0) active = 0;
        else if (active == 0 && value > upper + limit_rounding) active = 1;
        else if (active == 0 && value < lower - limit_rounding) active = -1;
        changed = changed || active != before;
    };
    for (Lock& lock : locks_) {
        if (lock.equality || lock_of_[lock.node] < 0 || &locks_[lock_of_[lock.node]] != &lock) continue;
        update(lock.active, coordinate(lock.node), lock.lower, lock.upper, -rho_[lock.node]);
    }
    for (Coupling& c : couplings_)
        if (c.system_row >= 0 && !c.equality && !c.stop)
            update(c.active, c.value, c.lower, c.upper, multiplier_[c.row]);
    return changed;
}

void Articulated::Drives::read(const System& system) {
    end = law[0] = law[1] = law[2] = gear = contained = share[0] = share[1] = every(0.0);
    lower = every(-INFINITY);
    upper = every(INFINITY);
    for (int l = 0; l < width; ++l) {
        if (actuator[l] < 0) continue;
        const Actuator& of = system.model().actuators[actuator[l]];
        const Actuation& by = system.actuation[actuator[l]];
        gear[l] = of.gear;
        contained[l] = by.contained;
        for (int i = 0; i < 2; ++i) share[i][l] = of.share[i];
        if (!by.on) continue;
        for (int i = 0; i < 3; ++i) law[i][l] = (of.gain[i] * by.activation + of.bias[i]) * (i ? of.gear : 1);
        lower[l] = by.lower;
        upper[l] = by.upper;
    }
}

void Articulated::Drives::choose_piece() {
    const Eight none = every(0.0), inside = 1.0 - absolute(end);
    const Eight force = choose(end > none, upper, choose(end < none, lower, law[0]));
    torque[0] = gear * (force - contained);
    for (int i = 0; i < 2; ++i) torque[1 + i] = gear * (inside * law[1 + i] - gear * share[i]);
}

double Articulated::excess(int i, double x, double speed, double c, double& slope) const {
    if (ends_of_range_.empty()) return system_->excess(i, x, speed, c, slope);
    Actuation piece = system_->actuation[i];
    const double lower = piece.lower, upper = piece.upper;
    piece.lower = ends_of_range_[i] > 0 ? upper : ends_of_range_[i] < 0 ? lower : -INFINITY;
    piece.upper = ends_of_range_[i] > 0 ? upper : ends_of_range_[i] < 0 ? lower : INFINITY;
    return system_->model().actuators[i].excess(piece, x, speed, c, slope);
}

// The force of an actuator with a range has three pieces: at the upper end (1), between (0) and at the lower end (-1).
// Newton's method on the whole law may jump between the ends for ever, so each actuator stays on its piece until the
// step has converged, and then goes to the next piece if its force left this one; never from one end to the other.
// True: a piece changed. `first`: all pieces are chosen by the present state; `one`: at most one changes.
template <bool second>
bool Articulated::update_ends_of_range(const Step& step, bool first, bool one) {
    if (first) {
        ends_of_range_.assign(system_->model().actuators.size(), 0);
        for (Drives& drives : drives_) drives.read(*system_);
    }
    bool changed = false;
    const Eight none = every(0.0);
    for (Drives& drives : drives_) {
        if (one && changed) break;
        const Eight q = present_[drives.block].q, now = drives.end;
        const Past& past = past_->slots[drives.block];
        Eight rate = step.c0 * q + step.c1 * past.q;
        if (second) rate += step.c2 * past.q_before;
        const Eight force = drives.law[0] + drives.law[1] * q + (1 / step.h) * drives.law[2] * rate;
        const Eight rounding = 1e-12 * absolute(force);
        const Eight below = choose(force < drives.lower - rounding, every(-1.0), none);
        const Eight wanted = choose(force > drives.upper + rounding, every(1.0), below);
        const Eight inward = choose(now > none, drives.upper - force, force - drives.lower);
        Eight next = choose(wanted * now < none, none, wanted);
        next = choose(now * now > none, choose(inward > rounding, next, now), next);
        const Eight change = absolute(next - now);
        if (!(largest(change) > 0)) {
            if (first) drives.choose_piece();
            continue;
        }
        for (int l = 0, any = 0; one && l < width; ++l) {
            if (any) next[l] = now[l];
            any = any || change[l] > 0;
        }
        drives.end = next;
        drives.choose_piece();
        changed = true;
    }
    auto update = [&](int i, double x, double past, double before) {
        if (one && changed) return;
        const Actuation& by = system_->actuation[i];
        const double speed = (step.c0 * x + step.c1 * past + (second ? step.c2 * before : 0.0)) / step.h;
        const double force = by.on ? system_->model().actuators[i].unlimited(by, x, speed) : 0.0;
        const double rounding = 1e-12 * std::abs(force);
        const int now = ends_of_range_[i], wanted = force > by.upper + rounding   ? 1
                                                    : force < by.lower - rounding ? -1
                                                                                  : 0;
        const bool left = now == 0 || now * (force - (now > 0 ? by.upper : by.lower)) < -rounding;
        const int next = !left ? now : wanted == -now ? 0 : wanted;
        changed = changed || (by.on && next != now);
        if (by.on) ends_of_range_[i] = next;
    };
    for (const Coupling& c : couplings_) {
        double value = 0;
        for (std::size_t k = 0; !c.actuators.empty() && k < c.nodes.size(); ++k)
            value += c.coefficients[k] * coordinate(c.nodes[k]);
        for (int i : c.actuators) update(i, value, c.past, c.before);
    }
    return changed;
}

bool Articulated::turned_too_far() const {
    Eight most = every(0.0), least = every(3.0);
    for (int b = grounded_ / width; b < blocks_; ++b) {
        const Present& now = present_[b];
        const Past& past = past_->slots[b];
        most = larger(most, absolute(now.q - past.q) * fixed_[b].turns);
        const Eight cosine = trace({three(past.R), three(past.R + 3), three(past.R + 6)},
                                   {three(now.R), three(now.R + 3), three(now.R + 6)});
        least = -larger(-least, -cosine);
    }
    return !(largest(most) <= convergence::largest_turn) ||
           !(largest(-least) <= -(1 + 2 * std::cos(convergence::largest_turn)));
}

template <bool second>
bool Articulated::solve(const Step& step) {
    if (!predict<second>(step)) return false;
    if (!second && update_limits(false)) {  // those that the predicted coordinates violate
        lay_out_couplings(most_idle);
        lock_coordinates();
    }
    return iterate<second>(step, true);
}

namespace {
template <class Numbers>
SUPPLE_INLINE Numbers extrapolated(const Numbers& rate, const Numbers& before, double h, double trend) {
    return h * (rate + trend * (rate - before));
}

// How what extrapolated rates miss grows from one step to the next: by a common factor, by least squares, and where
// that fits well by a factor of each coordinate near it. After a set-point jumped, for instance, it decays.
struct Growth {
    double product = 0, square = 0, square_before = 0;  // sums over the coordinates, rad^2 or radii^2
    // The common factor, zero if nothing can be expected; how far from it the others may be
    double factor = 0, spread = 0;

    void add(double missed, double before) {
        product += missed * before;
        square += missed * missed;
        square_before += before * before;
    }
    void fit() {
        factor = product / square_before;
        if (!(factor > 0 && factor < largest_growth)) factor = 0;
        else if (product * factor > trusted_correlation * square) spread = spread_of_growth;
    }
    double expected(double missed, double before) const {
        return missed *
               (before == 0 || spread == 0 ? factor : std::clamp(missed / before, factor - spread, factor + spread));
    }
    Vec3 expected(const Vec3& missed, const Vec3& before) const {
        return {expected(missed[0], before[0]), expected(missed[1], before[1]), expected(missed[2], before[2])};
    }
    Eight expected(const Eight& missed, const Eight& before) const {
        if (spread == 0) return factor * missed;
        const Eight none = every(0.0), ratio = missed / choose(before * before > none, before, every(1.0));
        return missed * larger(every(factor - spread), -larger(every(-factor - spread), -ratio));
    }
};
}  // namespace

double Articulated::trend_of(const State& past, const Step& step) const {
    return in_step_ || past.fresh || step.h != past.h ? 0.0 : step.c2 != 0 ? 0.5 : 1.0;
}

// Predictor: extrapolates the rates and their change. False: a motor's set-point is beyond a limit of its coordinate.
template <bool second>
bool Articulated::predict(const Step& step) {
    const double c = step.c0 / step.h;
    soft_scale_ = system_->model().stiffness_scale + mean_mass_ * length_scale_ * length_scale_ * c * c;
    origin_ = past_pose(std::min<int>(grounded_, nodes_.size() - 1)).p;
    for (const Lock& lock : locks_) {
        const Lock& first = locks_[lock_of_[lock.node]];
        if (&first != &lock && (first.upper > lock.upper + limit_rounding || first.upper < lock.lower - limit_rounding))
            return false;
    }
    freeze_directions(past_->slots);
    const double trend = trend_of(*past_, step);
    for (int b = grounded_ / width; b < blocks_; ++b) {
        const Past& past = past_->slots[b];
        present_[b].q = past.q + extrapolated(past.rate, past.rate_before, step.h, trend);
        if (trend > 0) present_[b].q += past.expected;
    }
    for (BallNode& node : balls_) {
        const State::Ball& past = past_->balls[node.index];
        Vec3 turn = extrapolated(past.rate, past.rate_before, step.h, trend);
        node.t = past.shift + extrapolated(past.shift_rate, past.shift_rate_before, step.h, trend);
        if (trend > 0) {
            turn += past.expected;
            node.t += past.shift_expected;
        }
        node.set_joint_rotation(past.rotation * so3_exp_short(turn));
    }
    for (FlexibleNode& each : flexible_) {
        const State::Flexible& past = past_->flexible[each.index];
        for (int p = 0; p < each.modes; ++p)
            each.eta[p] = past.now.eta[p] + step.h * (past.rate[p] + trend * (past.rate[p] - past.rate_before[p]));
    }
    lock_coordinates();
    return true;
}

namespace {
// How fast corrections shrink. With factors of the tangent at an error e the next correction is about `curvature` e
// times as large.
struct Contraction {
    double curvature;
    // Correction with these factors when they were new; unknown for those from before the iteration
    double first = NAN;
    bool old = false;  // the last correction was with factors from before it

    // Number of corrections that are not negligible, if the next one has this size and each is `rate` times the one
    // before.
    static int corrections(double size, double rate) {
        int count = 0;
        for (; size > convergence::negligible_correction && count < 9; ++count) size *= rate;
        return count;
    }
    // After a correction: whether new factors are worth their time, which is about that of one more correction with the
    // old ones.
    bool pays_to_refactor(double size, double last, bool refactored) {
        const double seen = size / last;  // zero after the first correction
        if (seen > 0 && size > noise) curvature = std::max(curvature, old ? seen / first : 2 * seen / last);
        if (refactored) first = size;
        const bool steady = old && !refactored;
        const double bound = std::isnan(first) ? 0.0 : curvature * first;
        const double rate = steady ? seen : std::max(refactored ? 0.0 : 2 * seen, bound);
        old = !refactored;
        if (!(size < convergence::shrinking * last)) return true;
        const double next = size * rate;
        return corrections(next, rate) > corrections(next, std::min(rate, curvature * next)) + 1;
    }
    static constexpr double noise = 1e-11;  // corrections below it may be rounding errors
};
}  // namespace

template <bool second>
bool Articulated::iterate(const Step& step, bool refactor) {
    double last = INFINITY;
    Contraction contraction{0.7 * curvature_};  // what was seen in earlier steps is forgotten slowly
    int changes = 0;  // of the active set
    bool early = true;  // no limit was looked at since the last change
    struct Kept {  // actuators keep to pieces of their laws during the iteration only
        std::vector<signed char>& pieces;
        ~Kept() { pieces.clear(); }
    } kept{ends_of_range_};
    update_ends_of_range<second>(step, true, false);
    for (int k = 0; k < convergence::newton_limit + 2 * changes; ++k) {
        if (k > 0 || refactor) forward();
        // Redundant ties have non-unique multipliers, and their null-space part grows with Newton's steps. The equation
        // c' x - soft (decay mu + dmu) = 0 in place of c' x - soft dmu = 0 lets it decay. The next correction removes
        // the gap that this leaves.
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
        refactor = contraction.pays_to_refactor(size, last, refactor);
        // With redundant ties, rounding errors of the multipliers hide how corrections shrink: new factors if three
        // more corrections at this rate do not suffice.
        if (redundant_)
            refactor = !(rate < convergence::shrinking) ||
                       size * rate * rate * rate > convergence::negligible_correction;
        const bool done = convergence::reached(k, size, last);
        last = size;
        // Limits and ends of ranges change once the coordinates show it, before these have converged.
        const double error = std::min(size, contraction.curvature * size * size);
        if (!done && !(early && error < nearly_converged && changes < changes_at_once)) continue;
        early = false;
        if (update_limits(changes >= changes_at_once)) {
            if (++changes > most_changes) return false;
            limit_changed_ = true;
            lay_out_couplings(most_idle);
            if (second) return false;
            lock_coordinates();
            refactor = true;
            last = INFINITY;
            early = true;
            continue;
        }
        if (update_ends_of_range<second>(step, false, changes >= changes_at_once)) {
            if (++changes > most_changes) return false;
            refactor = true;
            last = INFINITY;
            early = true;
            continue;
        }
        if (!done) continue;
        for (BallNode& node : balls_) node.settle();
        forward();
        if (tie_rows_) {
            evaluate_ties<false>(step);
            if (!(gap_ <= convergence::closed)) continue;
        }
        if (turned_too_far()) return false;
        limit_changed_ = limits_differ(*past_);
        if (limit_changed_ && second) return false;
        curvature_ = contraction.curvature;
        return true;
    }
    return false;
}
template bool Articulated::predict<false>(const Step&);
template bool Articulated::predict<true>(const Step&);
template bool Articulated::iterate<false>(const Step&, bool);
template bool Articulated::iterate<true>(const Step&, bool);

bool Articulated::limits_differ(const State& state) const {
    return std::any_of(locks_.begin(), locks_.end(),
                       [&](const Lock& l) {
                           return !l.equality && l.active != (l.coefficient < 0 ? -1 : 1) * state.active[l.system_row];
                       }) ||
           std::any_of(couplings_.begin(), couplings_.end(), [&](const Coupling& c) {
               return c.system_row >= 0 && !c.equality && !c.stop && c.active != state.active[c.system_row];
           });
}

double Articulated::free_angle(const Loop& loop, double last) const {
    const Pose a = pose(loop.slot[1]), b = pose(loop.slot[0]);
    const Vec3 xa = a.R * loop.x[1], xb = b.R * loop.x[0], z = a.R * loop.z[1];
    const double measured = std::atan2(z.dot(xa.cross(xb)), xa.dot(xb));
    return last + std::remainder(measured - last, 2 * M_PI);
}

// Writes the end of the step, which has converged.
template <bool second>
void Articulated::accept(State& state, const Step& step) {
    const double kappa = step.c0 / step.h, trend = trend_of(state, step);
    Growth growth;
    Eight products = every(0.0), squares = products, squares_before = products;
    for (int b = grounded_ / width; b < blocks_; ++b) {
        const Motion m = motion<second>(b, step);
        const Fixed& fixed = fixed_[b];
        const Present& now = present_[b];
        Past& past = state.slots[b];
        const Six inertial = momentum_rate<second>(b, step, m);
        auto keep = [](Eight* to, const Three& v) {
            to[0] = v.x;
            to[1] = v.y;
            to[2] = v.z;
        };
        keep(past.inertial, inertial.linear);
        keep(past.inertial + 3, inertial.angular);
        std::copy_n(now.R, 9, past.R);
        std::copy_n(now.position, 3, past.position);
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
        const Eight missed = (now.q - past.q) - extrapolated(past.rate, past.rate_before, step.h, trend);
        const Eight unit = fixed.free * (fixed.turns + (1.0 - fixed.turns) * (1 / length_scale_));
        products += (unit * missed) * (unit * past.missed);
        squares += (unit * missed) * (unit * missed);
        squares_before += (unit * past.missed) * (unit * past.missed);
        past.expected = past.missed;
        past.missed = missed;
        past.q_before = past.q;
        past.q = now.q;
        past.p_before = past.p;
        past.p = fixed.armature * rate;
        past.rate_before = past.rate;
        past.rate = rate;
    }
    for (const BallNode& node : balls_) {
        State::Ball& past = state.balls[node.index];
        const Mat3 rotation = node.joint_rotation();
        const Vec3 rate = ball_rate(node, step, rotation);
        const Vec3 turn = second ? so3_log(past.rotation.transpose() * rotation) : Vec3(step.h * rate);
        const Vec3 missed = turn - extrapolated(past.rate, past.rate_before, step.h, trend);
        for (int i = 0; i < 3; ++i) growth.add(missed[i], past.missed[i]);
        past.expected = past.missed;
        past.missed = missed;
        past.rotation_before = past.rotation;
        past.rotation = rotation;
        past.p_before = past.p;
        for (int i = 0; i < 3; ++i) past.p[i] = system_->model().armature[node.axis + i] * rate[i];
        past.rate_before = past.rate;
        past.rate = rate;
        if (node.shift_axis < 0) continue;
        const Vec3 shift_missed = node.t - past.shift -
                                  extrapolated(past.shift_rate, past.shift_rate_before, step.h, trend);
        for (int i = 0; i < 3; ++i) growth.add(shift_missed[i] / length_scale_, past.shift_missed[i] / length_scale_);
        past.shift_expected = past.shift_missed;
        past.shift_missed = shift_missed;
        const Vec3 shift_rate = (step.c0 * node.t + step.c1 * past.shift + step.c2 * past.shift_before) / step.h;
        past.shift_before = past.shift;
        past.shift = node.t;
        past.shift_rate_before = past.shift_rate;
        past.shift_rate = shift_rate;
    }
    growth.product += sum(products);
    growth.square += sum(squares);
    growth.square_before += sum(squares_before);
    if (trend > 0) growth.fit();
    for (int b = grounded_ / width; b < blocks_; ++b)
        state.slots[b].expected = growth.expected(state.slots[b].missed, state.slots[b].expected);
    for (const BallNode& node : balls_) {
        State::Ball& past = state.balls[node.index];
        past.expected = growth.expected(past.missed, past.expected);
        past.shift_expected = growth.expected(past.shift_missed, past.shift_expected);
    }
    accept_flexible(state, step);
    for (std::size_t k = 0; k < loops_.size(); ++k) {
        const Loop& loop = loops_[k];
        State::Loop& past = state.loops[k];
        std::copy_n(loop.along, 3, past.along);
        if (loop.rows != 5) continue;
        const double angle = free_angle(loop, past.angle);
        past.rate_before = past.rate;
        past.rate = step.rate(angle, past.angle, past.angle_before);
        past.angle_before = past.angle;
        past.angle = angle;
        past.applied = loop.applied;
    }
    std::copy_n(multiplier_.begin(), state.loop_multipliers.size(), state.loop_multipliers.begin());
    for (const Bushing& each : bushings_) {
        const Vec6 q = coordinates(each), rate = rates(each, q, step);
        State::Bushing& past = state.bushings[&each - bushings_.data()];
        past.q_before = past.q;
        past.q = q;
        past.rate_before = past.rate;
        past.rate = rate;
        past.wrench = wrench(each, q, rate);
    }
    for (int row : copy_rows_) state.active[row] = 1;  // nothing depends on their multipliers
    for (std::size_t i = 0; i < couplings_.size(); ++i) {
        const Coupling& c = couplings_[i];
        state.idle[i] = c.idle;
        if (c.spring >= 0) continue;
        state.mu[c.system_row] = c.active || c.stop ? multiplier_[c.row] : 0;
        state.active[c.system_row] = static_cast<signed char>(c.active);
    }
    for (const Lock& lock : locks_) {
        const bool first = &locks_[lock_of_[lock.node]] == &lock;
        state.mu[lock.system_row] = first && lock.active ? -rho_[lock.node] / lock.coefficient : 0;
        state.active[lock.system_row] = static_cast<signed char>(!first ? 0
                                                                 : lock.coefficient < 0 && !lock.equality
                                                                     ? -lock.active
                                                                     : lock.active);
    }
    state.redundant = redundant_;
    state.curvature = curvature_;
    state.fresh = limit_changed_;  // a second-order difference across an impact would add energy
    state.h = step.h;
    state.time += step.h;
}
template void Articulated::accept<false>(State&, const Step&);
template void Articulated::accept<true>(State&, const Step&);

}  // namespace supple
