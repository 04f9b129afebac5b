#include "stepper.hpp"

#include <algorithm>
#include <cmath>

namespace supple {

namespace {
constexpr int newton_limit = 25;
constexpr int halvings = 10;
constexpr double last_motion = 1e-9;  // a last correction this small, and shrinking fast, leaves far less
constexpr double rounding = 1e-12;
constexpr double rounding_limit = 1e-8;  // corrections below it that no longer shrink are rounding, of redundant loops say
constexpr double closed = 1e-11;      // gaps of loops and errors of rows
constexpr double largest_turn = 2;    // of a coordinate or a body in one step, rad

Step difference(double h, int order) { return order == 2 ? Step{h, 1.5, -2.0, 0.5} : Step{h, 1.0, -1.0, 0.0}; }

}  // namespace

Stepper::Stepper(System& system, double h, int order) : system_(system), h_(h), order_(order) {
    auto passes = std::make_unique<Articulated>(system);
    uncovered_ = passes->uncovered();
    if (!*uncovered_) passes_ = std::move(passes);
}

void Stepper::sync() {
    if (!ahead_) return;
    ahead_ = false;
    passes_->write(system_, history);
}

void Stepper::save(std::vector<double>& flat) const {
    if (!passes_) return;
    for (double value : {double(current_), double(refusals_), double(pause_)}) flat.push_back(value);
    passes_->save(flat);
}

void Stepper::restore(const double* flat) {
    ahead_ = refreshed_ = false;
    if (!passes_) return;
    current_ = flat[0] != 0;
    refusals_ = static_cast<int>(flat[1]);
    pause_ = static_cast<int>(flat[2]);
    passes_->restore(flat + 3);
}

// False: the step is left to the fronts.
bool Stepper::step_by_passes(const std::vector<int>& driven, const double* targets) {
    if (!passes_ || !wanted_ || (pause_ > 0 && pause_--)) return false;
    if (!current_) passes_->read(system_, history, h_, fresh);
    current_ = true;
    set_targets(driven, targets);
    if (!refreshed_ || !driven.empty()) passes_->refresh(system_);
    refreshed_ = true;
    if (!passes_->step(h_, fresh ? 1 : order_)) {
        pause_ = std::min(1 << std::min(refusals_++, 10), 1000);
        return false;
    }
    refusals_ = 0;
    ahead_ = true;
    const int order = fresh ? 1 : order_;
    fresh = passes_->limit_changed();
    time += h_;
    if (tape) {
        sync();
        record(h_, order == 2 && first_order_taken() ? 1 : order, fresh);
    }
    return true;
}

void Stepper::start(const std::vector<Vec6>& velocities, const std::vector<double>& rates) {
    const int nb = system_.bodies();
    system_.evaluate(false);
    system_.velocity = velocities;
    system_.rate = rates;
    history.H = system_.state.H;
    history.turn.assign(nb, Vec3::Zero());
    history.centre.resize(nb);
    history.momentum.resize(nb);
    for (int b = 0; b < nb; ++b) {
        history.centre[b] = system_.state.H[b].act(system_.centre[b]);
        history.momentum[b] = system_.momentum[b] = system_.momentum_of(b, system_.state.H[b], velocities[b]);
    }
    history.centre_before = history.centre;
    history.momentum_before = history.momentum;
    history.q = history.q_before = system_.state.q;
    history.p.resize(rates.size());
    for (std::size_t i = 0; i < rates.size(); ++i) history.p[i] = system_.armature[i] * rates[i];
    history.p_before = history.p;
    history.rate = history.rate_before = rates;
    history.length.clear();
    for (const Spring& spring : system_.springs) history.length.push_back(spring.of.value(system_.state.q));
    history.length_before = history.length;
    fresh = true;
}

void Stepper::set_targets(const std::vector<int>& driven, const double* values) {
    for (std::size_t i = 0; i < driven.size(); ++i) system_.rows[driven[i]].lower = values[i];
}

bool Stepper::step(const std::vector<int>& driven, const double* targets) {
    std::vector<double> from;
    for (int row : driven) from.push_back(system_.rows[row].lower);
    const int refusals = refusals_, pause = pause_;
    passed_ = 0;
    if (tape) tape->set_inputs(system_, driven);
    if (step_by_passes(driven, targets)) return true;
    sync();
    set_targets(driven, targets);
    const int order = fresh ? 1 : order_;
    if (advance(h_, order)) {
        changed();
        fresh = hit_;  // a second difference across an impact would make energy
        return true;
    }
    const double before = time;
    const bool done = divide(h_, driven, from.data(), targets, 1);
    if (time != before) {
        changed();
        fresh = true;  // substeps leave no even history
    } else {  // the passes are where they were, too
        refusals_ = refusals;
        pause_ = pause;
    }
    if (tape && !done) {
        tape->drop_unfinished();
        tape.reset();  // the state is not that of a recorded time step
    }
    return done;
}

// Both halves of a step that failed, each divided further if need be.
bool Stepper::divide(double h, const std::vector<int>& driven, const double* from, const double* to, int depth) {
    if (depth > halvings) {
        set_targets(driven, from);
        return false;
    }
    std::vector<double> middle(driven.size());
    for (std::size_t i = 0; i < driven.size(); ++i) middle[i] = 0.5 * (from[i] + to[i]);
    const double* ends[] = {from, middle.data(), to};
    for (int half = 0; half < 2; ++half) {
        set_targets(driven, ends[half + 1]);
        if (!advance(h / 2, 1) && !divide(h / 2, driven, ends[half], ends[half + 1], depth + 1)) return false;
    }
    return true;
}

// Whether the passes, asked for BDF2, took backward Euler because limits changed while they iterated: told by the rates.
bool Stepper::first_order_taken() const {
    const std::vector<double>&last = tape->records.back().q, &before = tape->records[tape->records.size() - 2].q;
    double first = 0, second = 0, size = 0;
    for (int axis = 0; axis < system_.axes(); ++axis) {
        if (!system_.single(axis)) continue;
        const double q = system_.state.q[axis], rate = system_.rate[axis];
        first += std::abs(rate - (q - last[axis]) / h_);
        second += std::abs(rate - (1.5 * q - 2 * last[axis] + 0.5 * before[axis]) / h_);
        size += std::abs(q) / h_;
    }
    return second > 1e-12 * size && first < 1e-3 * second;
}

void Stepper::record(double h, int order, bool impact) {
    passed_ += h / h_;  // halves of halves: exact
    tape->add(system_, history, difference(h, order), time, passed_, impact);
}

bool Stepper::advance(double h, int order) {
    keep();
    if (solve(h, order, false)) {
        accept(h);
        if (tape) record(h, order, hit_);
        return true;
    }
    return order > 1 && hit_ && advance(h, 1);
}

void Stepper::keep() {
    kept_.state = system_.state;
    kept_.velocity = system_.velocity;
    kept_.momentum = system_.momentum;
    kept_.rate = system_.rate;
    kept_.active = system_.active();
}

void Stepper::put_back() {
    system_.state = kept_.state;
    system_.evaluate(false);
    system_.state = kept_.state;
    system_.velocity = kept_.velocity;
    system_.momentum = kept_.momentum;
    system_.rate = kept_.rate;
}

bool Stepper::solve(double h, int order, bool from_here) {
    hit_ = false;
    shrinking_ = true;
    const Step step = difference(h, order);
    x_.assign(system_.unknowns(), 0.0);
    if (!from_here) {
        // start where the rates' own trend leads; after uneven steps, where constant rates lead
        const double trend = fresh || h != h_ ? 0.0 : order == 2 ? 0.5 : 1.0;
        for (int axis = 0; axis < system_.axes(); ++axis)
            x_[system_.axis_row(axis)] = h * (kept_.rate[axis] + trend * (kept_.rate[axis] - history.rate_before[axis]));
        system_.retract(kept_.state, x_.data(), 1.0);
    }

    double last = INFINITY;
    unsettled = {};
    for (int k = 0; k < newton_limit; ++k) {
        const bool slow = k > 0 && !shrinking_;
        system_.evaluate(k == 0 || slow, &step, &history);
        if (k == 0 || slow) {
            system_.factorise();
            ++factorisations;
            if (system_.fronts().negative()) break;  // so long a step has more than one solution
        }
        assumed_ = system_.active();
        system_.solve(system_.residual().data(), x_.data(), false, false);
        const double size = system_.motion_size(x_.data());
        if (!std::isfinite(size)) break;
        base_ = system_.state;
        system_.retract(base_, x_.data(), 1.0);
        ++iterations;
        shrinking_ = size < 0.05 * last;
        const bool stalled = k >= 4 && size < rounding_limit && size > 0.5 * last;
        const bool done = size < rounding || stalled || (size < last_motion && size < 0.01 * last);
        last = size;
        if (!done) continue;
        right_.resize(x_.size());
        if (system_.in_vain(right_.data())) {
            system_.solve(right_.data(), x_.data(), false, false);
            system_.relieve(x_.data(), last_motion);
        }
        system_.evaluate(false, &step, &history);
        if (system_.gap_size() > closed || system_.active() != assumed_) continue;
        if (turned() > largest_turn) break;  // whole turns would go unnoticed
        hit_ = system_.active() != kept_.active;
        if (hit_ && order > 1) break;  // an impact: with one difference
        return true;
    }
    find_unsettled(last);
    put_back();
    return false;
}

void Stepper::find_unsettled(double motion) {
    if (motion < last_motion) {  // coordinates settled, but an error stays
        unsettled.size = system_.largest_error(unsettled.joint, unsettled.row);
        return;
    }
    for (int axis = 0; axis < system_.axes(); ++axis) {
        const double moved = std::abs(x_[system_.axis_row(axis)]);
        if (moved <= unsettled.size && unsettled.axis >= 0) continue;
        unsettled.axis = axis;
        unsettled.size = moved;
    }
}

double Stepper::turned() const {
    double largest = 0;
    for (int axis = 0; axis < system_.axes(); ++axis)
        if (!system_.twists[axis].tail<3>().isZero(0) && system_.single(axis))
            largest = std::max(largest, std::abs(system_.state.q[axis] - history.q[axis]));
    for (int b = 0; b < system_.bodies(); ++b) {
        // cosine of the turn: (trace - 1) / 2
        const double trace = (history.H[b].R.transpose() * system_.state.H[b].R).trace();
        if (trace < 1 + 2 * std::cos(largest_turn)) return INFINITY;
    }
    return largest;
}

void Stepper::accept(double h) {
    const State& state = system_.state;
    for (int b = 0; b < system_.bodies(); ++b) {
        history.turn[b] = so3_log(history.H[b].R.transpose() * state.H[b].R);
        history.H[b] = state.H[b];
        history.centre_before[b] = history.centre[b];
        history.centre[b] = state.H[b].act(system_.centre[b]);
    }
    history.momentum_before.swap(history.momentum);
    history.momentum = system_.momentum;
    history.q_before.swap(history.q);
    history.q = state.q;
    history.p_before.swap(history.p);
    for (int axis = 0; axis < system_.axes(); ++axis) history.p[axis] = system_.armature[axis] * system_.rate[axis];
    history.rate_before.swap(history.rate);
    history.rate = system_.rate;
    history.length_before.swap(history.length);
    for (std::size_t s = 0; s < system_.springs.size(); ++s)
        history.length[s] = system_.springs[s].of.value(state.q);
    time += h;
}

// --- in a World -------------------------------------------------------------------------------------------------------

void Stepper::schedule(const std::vector<int>& driven, std::vector<double> targets) {
    driven_ = driven;
    scheduled_ = std::move(targets);
    next_ = 0;
}

bool Stepper::begin() {
    tape.reset();  // contact forces are not recorded
    sync();
    changed();
    keep();
    kept_.finished = false;
    kept_.targets.clear();
    for (int row : driven_) kept_.targets.push_back(system_.rows[row].lower);
    if (next_ + driven_.size() <= scheduled_.size()) set_targets(driven_, scheduled_.data() + next_);
    fresh = true;
    if (solve(h_, 1, false)) return true;
    set_targets(driven_, kept_.targets.data());
    return false;
}

Pose Stepper::frame(int i) const {
    if (ahead_) const_cast<Stepper*>(this)->sync();
    return history.H[i];
}

Vec6 Stepper::free_velocity(int b) const {
    const Pose &from = history.H[b], &to = system_.state.H[b];
    return stack((to.p - from.p) / h_, from.R * so3_log(from.R.transpose() * to.R) / h_);
}

void Stepper::limits(std::vector<Limit>& out) const {
    for (std::size_t r = 0; r < system_.rows.size(); ++r) {
        const Row& row = system_.rows[r];
        if (row.equality) continue;
        const double from = row.of.value(history.q), rate = (row.of.value(system_.state.q) - from) / h_;
        near_limits(r, from, rate, row.lower, row.upper, h_, out);
    }
}

// A force f moves the points by J K^-1 J^T f with the step's factorised tangent K; as velocities per impulse, over h^2.
// With limits near, K is that of the step without any, and what they pushed in it is taken off the free velocities.
void Stepper::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                      double* response) {
    const int k = static_cast<int>(touches.size()), n = 3 * k + static_cast<int>(limits.size());
    Eigen::Map<Eigen::MatrixXd> all(response, n, n);
    if (touches.empty()) {  // begin() has kept the limits
        all.setIdentity();
        std::fill_n(free, n, 0.0);
        return;
    }
    const Step step{h_, 1.0, -1.0, 0.0};
    if (!limits.empty()) {
        system_.released = true;
        system_.evaluate(true, &step, &history);
        system_.factorise();
        system_.released = false;
    }
    auto local = [&](const Touch& touch) { return history.H[touch.frame].inverse().act(touch.point); };
    right_.assign(system_.unknowns(), 0.0);
    auto answer = [&](int column) {
        system_.solve(right_.data(), x_.data(), false, false);
        for (int i = 0; i < k; ++i) {
            const Eigen::Map<const Vec6> twist(x_.data() + 6 * touches[i].frame);
            const Vec3 moved = twist.head<3>() + twist.tail<3>().cross(local(touches[i]));
            const Vec3 seen = system_.state.H[touches[i].frame].R * moved / (h_ * h_);
            all.block<3, 1>(3 * i, column) = touches[i].axes.transpose() * seen;
        }
        for (int i = 3 * k; i < n; ++i) {
            const Combination& of = system_.rows[limits[i - 3 * k].row].of;
            double turned = 0;
            for (std::size_t a = 0; a < of.axes.size(); ++a) turned += of.coefficients[a] * x_[system_.axis_row(of.axes[a])];
            all(i, column) = limits[i - 3 * k].sign * turned / (h_ * h_);
        }
    };
    for (int j = 0; j < 3 * k; ++j) {
        const Touch& touch = touches[j / 3];
        const Pose& H = system_.state.H[touch.frame];
        const Vec3 at = local(touch), along = touch.axes.col(j % 3), f = H.R.transpose() * along;
        free[j] = along.dot(H.act(at) - touch.point) / h_;
        Eigen::Map<Vec6> load(right_.data() + 6 * touch.frame);
        load = stack(f, at.cross(f));
        answer(j);
        load.setZero();
    }
    for (int j = 3 * k; j < n; ++j) {
        const Limit& limit = limits[j - 3 * k];
        const Combination& of = system_.rows[limit.row].of;
        free[j] = limit.sign * (of.value(system_.state.q) - of.value(history.q)) / h_;
        for (std::size_t a = 0; a < of.axes.size(); ++a) right_[system_.axis_row(of.axes[a])] = limit.sign * of.coefficients[a];
        answer(j);
        for (int axis : of.axes) right_[system_.axis_row(axis)] = 0;
    }
    if (limits.empty()) return;
    for (int j = 3 * k; j < n; ++j) {
        const Limit& limit = limits[j - 3 * k];
        const double pushed = -limit.sign * system_.state.mu[limit.row] * h_;
        if (pushed > 0) Eigen::Map<Eigen::VectorXd>(free, n) -= pushed * all.col(j);
    }
    system_.evaluate(false, &step, &history);
}

bool Stepper::finish(const std::vector<Touch>& touches, const std::vector<Limit>&, const double* impulses) {
    const std::size_t before = system_.loads.size();
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const Vec3 force = touches[i].axes * Vec3(impulses + 3 * i) / h_;
        if (force.isZero(0)) continue;
        const Vec3 at = history.H[touches[i].frame].inverse().act(touches[i].point);
        system_.loads.push_back({touches[i].frame, at, stack(force, Vec3::Zero()), true});
    }
    const bool solved = system_.loads.size() == before || solve(h_, 1, true);
    system_.loads.resize(before);
    if (!solved) {
        set_targets(driven_, kept_.targets.data());
        return false;
    }
    kept_.history = history;
    kept_.time = time;
    kept_.finished = true;
    accept(h_);
    next_ += driven_.size();
    return true;
}

void Stepper::abandon() {
    if (kept_.finished) {
        history = kept_.history;
        time = kept_.time;
        next_ -= driven_.size();
    }
    set_targets(driven_, kept_.targets.data());
    put_back();
}

double Stepper::energy() const {
    if (ahead_) const_cast<Stepper*>(this)->sync();
    return system_.kinetic_energy() + system_.strain_energy() + system_.gravity_energy();
}

}  // namespace supple
