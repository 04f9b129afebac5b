#include "engine/stepper.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/convergence.hpp"

namespace supple {

namespace {
constexpr int halvings = 10;
constexpr double last_motion = 1e-9;  // corrections below it mean that coordinates have converged
// To the tangent of coordinates, over the mechanism's, in steps that fail otherwise
constexpr double added_stiffness = 1e-3;

}  // namespace

Stepper::Stepper(System& system, double h, int order) : system_(system), h_(h), order_(order) {
    auto passes = std::make_unique<Articulated>(system);
    uncovered_ = passes->uncovered();
    if (!*uncovered_) passes_ = std::move(passes);
    layout_ = passes_ ? passes_->layout() : StateLayout(system.model());
    state = layout_.zero(system.model());
}

void Stepper::start(double time, const std::vector<Vec6>& velocities, const std::vector<double>& rates) {
    const Model& model = system_.model();
    const int nb = system_.bodies();
    system_.evaluate(false);
    system_.velocity = velocities;
    system_.rate = rates;
    history.H = system_.state.H;
    history.turn.assign(nb, Vec3::Zero());
    history.centre.resize(nb);
    history.momentum.resize(nb);
    for (int b = 0; b < nb; ++b) {
        history.centre[b] = system_.state.H[b].act(model.group_centre[b]);
        history.momentum[b] = system_.momentum_of(b, system_.state.H[b], velocities[b]);
    }
    history.centre_before = history.centre;
    history.momentum_before = history.momentum;
    history.q = history.q_before = system_.state.q;
    history.p.resize(rates.size());
    for (std::size_t i = 0; i < rates.size(); ++i) history.p[i] = model.armature[i] * rates[i];
    history.p_before = history.p;
    history.rate = history.rate_before = rates;
    history.flexible.clear();
    for (const FlexibleBody& each : system_.flexible)
        history.flexible.push_back(each.state_of(system_.state.H[each.body], &system_.state.q[each.axis],
                                                 velocities[each.body], &rates[each.axis]));
    history.flexible_before = history.flexible;
    state = layout_.zero(model);
    take(history);
    for (State::Slots& slots : state.slots) std::fill_n(slots.inertial, 6, every(0.0));
    state.time = time;
    for (std::size_t i = 0; i < state.activation.size(); ++i) state.activation[i] = system_.actuation[i].activation;
    keep_loads();
}

bool Stepper::restore(const double* numbers, std::size_t size) {
    State given = state;
    const auto in_range = [&](const auto& each) { return each.body >= 0 && each.body < system_.bodies(); };
    if (!given.assign(numbers, size) || !std::all_of(given.loads.begin(), given.loads.end(), in_range) ||
        !std::all_of(given.handles.begin(), given.handles.end(), in_range))
        return false;
    state = std::move(given);
    tape.reset();
    set_activations();
    kept_at_ = -1;
    return true;
}

void Stepper::load() { layout_.get(state, system_, history); }

const System& Stepper::evaluated() {
    load();
    const auto lambda = system_.state.lambda;
    const auto velocity = system_.velocity;
    const auto rate = system_.rate;
    const auto active = system_.active();
    system_.evaluate(false);
    system_.state.lambda = lambda;
    system_.velocity = velocity;
    system_.rate = rate;
    system_.set_active(active);
    return system_;
}

void Stepper::take(const History& from) {
    if (passes_) {
        passes_->place_slots(from.q.data(), state);
    } else {
        for (int b = 0; b < system_.bodies(); ++b) {
            if (system_.model().is_carried(b)) continue;
            State::Slots& slots = state.slots[layout_.body[b] / width];
            const int l = layout_.body[b] % width;
            for (int k = 0; k < 9; ++k) slots.R[k][l] = from.H[b].R.data()[k];
            for (int k = 0; k < 3; ++k) slots.position[k][l] = from.H[b].p[k];
        }
    }
    layout_.put(system_, from, state);
}

std::vector<double> Stepper::coordinates() const {
    std::vector<double> q(system_.axes()), rates(system_.axes());
    layout_.coordinates(system_.model(), state, q.data(), rates.data());
    return q;
}

double Stepper::gravity_energy() const {
    std::vector<Pose> H;
    for (int b = 0; b < system_.bodies(); ++b) H.push_back(frame(b));
    return system_.gravity_energy(H, coordinates());
}

void Stepper::set_targets(const std::vector<int>& driven, const double* values) {
    for (std::size_t i = 0; i < driven.size(); ++i) system_.targets[driven[i]] = values[i];
}

void Stepper::set_activations() {
    for (std::size_t i = 0; i < state.activation.size(); ++i) system_.actuation[i].activation = state.activation[i];
}

void Stepper::advance_activations() {
    for (std::size_t i = 0; i < state.activation.size(); ++i)
        system_.actuation[i].activation = system_.model().actuators[i].next_activation(system_.actuation[i], h_);
}

bool Stepper::passes_ready(bool new_targets) {
    if (!passes_ || !wanted_ || (state.pause > 0 && state.pause--)) return false;
    if (refreshed_at_ != system_.input_changes || new_targets) passes_->refresh(system_);
    refreshed_at_ = system_.input_changes;
    return true;
}

// The number of steps until the passes are tried again doubles with every failure.
void Stepper::passes_refused() { state.pause = std::min(1 << std::min(state.refusals++, 10), 1000); }

void Stepper::keep_loads() {
    if (kept_at_ == system_.input_changes) return;
    kept_at_ = system_.input_changes;
    state.loads.clear();
    std::copy_if(system_.loads.begin(), system_.loads.end(), std::back_inserter(state.loads),
                 [](const Load& load) { return !load.wrench.isZero(0); });
    state.handles = system_.handles;
}

void Stepper::finish_step(double h, int order) {
    keep_loads();
    if (!tape) return;
    elapsed_ += h / h_;  // exact: h / h_ is a power of two
    layout_.coordinates(system_.model(), state, system_.state.q.data(), system_.rate.data());
    tape->driven = tape->driven || system_.is_driven();
    tape->record(Step::of_order(order, h), elapsed_, system_, layout_, state);
}

bool Stepper::step(const std::vector<int>& driven, const double* targets) {
    std::vector<double> from;  // allocates nothing without motors
    for (int row : driven) from.push_back(system_.targets[row]);
    elapsed_ = 0;
    if (tape) tape->set_inputs(system_, driven);
    const int refusals = state.refusals, pause = state.pause;
    advance_activations();
    set_targets(driven, targets);
    bool done = false;
    if (passes_ready(!driven.empty())) {
        done = passes_->step(state, h_, state.fresh ? 1 : order_);
        if (done) {
            state.refusals = 0;
            ++steps_by_passes;
            finish_step(h_, passes_->order_used());
        } else {
            passes_refused();
        }
    }
    if (!done) {
        State before = state;
        const bool tape_softened = tape && tape->softened;
        const long long softened_before = softened;
        done = advance(h_, state.fresh ? 1 : order_);
        if (!done && divide(h_, driven, from.data(), targets, 1)) {
            done = true;
            state.fresh = true;  // the history is not equidistant after substeps
        }
        if (!done) {
            convergence_failure.q = coordinates();
            before.refusals = refusals;
            before.pause = pause;
            state = std::move(before);
            kept_at_ = -1;
            softened = softened_before;
            set_targets(driven, from.data());
            set_activations();
            if (tape) {
                tape->drop_unfinished();
                tape->softened = tape_softened;
            }
            return false;
        }
    }
    for (std::size_t i = 0; i < state.activation.size(); ++i) state.activation[i] = system_.actuation[i].activation;
    return true;
}

// Limits that contradict each other, as on a linkage with more limits than degrees of freedom, have no solution.
bool Stepper::solve_with_stops(double h) {
    if (!system_.model().has_limits()) return false;
    load();
    system_.set_stops(true);
    bool done = solve(h, 1);
    if (!done) {  // where axes of joints without mass between them are parallel, no torque resists some motions
        system_.state = loaded_;
        shift_ = added_stiffness;
        done = solve(h, 1);
        shift_ = 0;
    }
    system_.set_stops(false);
    softened += done;
    return done;
}

bool Stepper::advance_with_stops(double h) {
    if (!solve_with_stops(h)) return false;
    accept(h);
    finish_step(h, 1);
    if (tape) tape->softened = true;
    return true;
}

// Solves both halves of a step that failed; each is divided further if necessary.
bool Stepper::divide(double h, const std::vector<int>& driven, const double* from, const double* to, int depth) {
    if (depth > halvings) return false;
    std::vector<double> middle(driven.size());
    for (std::size_t i = 0; i < driven.size(); ++i) middle[i] = 0.5 * (from[i] + to[i]);
    const double* ends[] = {from, middle.data(), to};
    for (int half = 0; half < 2; ++half) {
        set_targets(driven, ends[half + 1]);
        if (advance(h / 2, 1) || (depth >= soften_limits_at && advance_with_stops(h / 2))) continue;
        if (!divide(h / 2, driven, ends[half], ends[half + 1], depth + 1)) return false;
    }
    return true;
}

void Stepper::start_tape() {
    tape = std::make_shared<Tape>(evaluated(), history, state.time, !state.fresh && order_ == 2, layout_.loop_joints());
}

bool Stepper::advance(double h, int order) {
    load();
    if (solve(h, order)) {
        accept(h);
        finish_step(h, order);
        return true;
    }
    return order > 1 && limit_changed_ && advance(h, 1);
}

bool Stepper::solve(double h, int order) {
    limit_changed_ = false;
    shrinking_ = true;
    const Step step = Step::of_order(order, h);
    x_.assign(system_.unknowns(), 0.0);
    loaded_ = system_.state;
    const std::vector<int> active = system_.active();
    // predictor: extrapolated rates; constant rates if the history is not equidistant
    const double trend = state.fresh || h != state.h ? 0.0 : order == 2 ? 0.5 : 1.0;
    for (int axis = 0; axis < system_.axes(); ++axis)
        x_[system_.axis_row(axis)] = h *
                                     (history.rate[axis] + trend * (history.rate[axis] - history.rate_before[axis]));
    system_.retract(loaded_, x_.data(), 1.0);

    double last = INFINITY;
    convergence_failure = {};
    for (int k = 0; k < convergence::newton_limit; ++k) {
        const bool slow = k > 0 && !shrinking_;
        system_.evaluate(k == 0 || slow, &step, &history);
        if (k == 0 || slow) {
            system_.factorise(shift_);
            ++factorisations;
            if (system_.fronts().indefinite()) break;  // the step is so long that it may have several solutions
        }
        assumed_ = system_.active();
        system_.solve(system_.residual().data(), x_.data(), false, false);
        const double size = system_.motion_size(x_.data());
        if (!std::isfinite(size)) break;
        base_ = system_.state;
        system_.retract(base_, x_.data(), 1.0);
        ++iterations;
        shrinking_ = size < convergence::shrinking * last;
        const bool done = convergence::reached(k, size, last);
        last = size;
        if (!done) continue;
        right_.resize(x_.size());
        if (system_.null_space_rhs(right_.data())) {
            system_.solve(right_.data(), x_.data(), false, false);
            system_.remove_null_space(x_.data(), last_motion);
        }
        system_.evaluate(false, &step, &history);
        if (system_.gap_size() > convergence::closed || system_.active() != assumed_) continue;
        if (turned() > convergence::largest_turn) break;
        limit_changed_ = system_.active() != active;
        if (limit_changed_ && order > 1) break;  // an impact: repeat with backward Euler
        return true;
    }
    find_convergence_failure(last);
    system_.set_active(active);
    return false;
}

void Stepper::find_convergence_failure(double motion) {
    // Coordinates have converged, but an error of a loop or row remains, or something turned too far
    if (motion < last_motion) {
        const double size = convergence_failure.size = system_.largest_error(convergence_failure.joint,
                                                                             convergence_failure.row);
        if (size <= convergence::closed) convergence_failure.joint = convergence_failure.row = -1;
        return;
    }
    for (int axis = 0; axis < system_.axes(); ++axis) {
        const double moved = std::abs(x_[system_.axis_row(axis)]);
        if (moved <= convergence_failure.size && convergence_failure.axis >= 0) continue;
        convergence_failure.axis = axis;
        convergence_failure.size = moved;
    }
}

double Stepper::turned() const {
    double largest = 0;
    for (int axis = 0; axis < system_.axes(); ++axis)
        if (!system_.model().twists[axis].tail<3>().isZero(0) && system_.model().single[axis])
            largest = std::max(largest, std::abs(system_.state.q[axis] - history.q[axis]));
    for (int b = 0; b < system_.bodies(); ++b) {
        // cosine of the turn: (trace - 1) / 2
        const double trace = (history.H[b].R.transpose() * system_.state.H[b].R).trace();
        if (trace < 1 + 2 * std::cos(convergence::largest_turn)) return INFINITY;
    }
    return largest;
}

void Stepper::accept(double h) {
    const Model& model = system_.model();
    for (int b = 0; b < system_.bodies(); ++b) {
        const Pose& H = system_.state.H[b];
        history.turn[b] = so3_log(history.H[b].R.transpose() * H.R);
        history.H[b] = H;
        history.centre_before[b] = history.centre[b];
        history.centre[b] = H.act(model.group_centre[b]);
    }
    history.momentum_before.swap(history.momentum);
    history.momentum = system_.momentum;
    history.q_before.swap(history.q);
    history.q = system_.state.q;
    history.p_before.swap(history.p);
    for (int axis = 0; axis < system_.axes(); ++axis) history.p[axis] = model.armature[axis] * system_.rate[axis];
    history.rate_before.swap(history.rate);
    history.rate = system_.rate;
    history.flexible_before.swap(history.flexible);
    history.flexible = system_.flexible_state;
    take(history);
    state.redundant = false;
    state.fresh = limit_changed_;  // a second-order difference across an impact would add energy
    state.h = h;
    state.time += h;
}

}  // namespace supple
