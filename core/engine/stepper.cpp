#include "engine/stepper.hpp"

#include <algorithm>
#include <cmath>

#include "engine/convergence.hpp"
#include "spatial/arrays.hpp"

namespace supple {

namespace {
constexpr int halvings = 10;
constexpr double last_motion = 1e-9;  // corrections below it mean that coordinates have converged
constexpr double added_stiffness = 1e-3;  // to the tangent of coordinates, over the mechanism's, in steps that fail otherwise

}  // namespace

Stepper::Stepper(System& system, double h, int order) : system_(system), h_(h), order_(order) {
    auto passes = std::make_unique<Articulated>(system);
    uncovered_ = passes->uncovered();
    if (*uncovered_) return;
    for (int j : passes->loop_joints()) same_tree_ = same_tree_ && system.model().joints[j].outer < 0;
    passes_ = std::move(passes);
}

void Stepper::sync() {
    if (!system_outdated_) return;
    system_outdated_ = false;
    passes_->write(system_, history);
}

void Stepper::sync_coordinates() {
    if (!same_tree_) return sync();
    if (system_outdated_) passes_->write_coordinates(system_);
}

void Stepper::write_poses(double* rows) const {
    if (current_) return passes_->write_poses(rows);
    for (int b = 0; b < system_.bodies(); ++b) write(system_.state.H[b], rows + 16 * b);
}

void Stepper::write_velocities(double* rows) const {
    if (system_outdated_) return passes_->write_velocities(rows);
    for (int b = 0; b < system_.bodies(); ++b) Eigen::Map<Vec6>(rows + 6 * b) = system_.velocity[b];
}

void Stepper::save(std::vector<double>& flat) const {
    if (!passes_) return;
    for (double value : {double(current_), double(refusals_), double(steps_by_fronts_)}) flat.push_back(value);
    passes_->save(flat);
}

void Stepper::restore(const double* flat) {
    system_outdated_ = refreshed_ = false;
    if (!passes_) return;
    current_ = flat[0] != 0;
    refusals_ = static_cast<int>(flat[1]);
    steps_by_fronts_ = static_cast<int>(flat[2]);
    passes_->restore(flat + 3);
}

bool Stepper::prepare_passes(bool new_targets) {
    if (!passes_ || !wanted_ || (steps_by_fronts_ > 0 && steps_by_fronts_--)) return false;
    if (!current_) passes_->read(system_, history, h_, fresh);
    current_ = true;
    if (!refreshed_ || new_targets) passes_->refresh(system_);
    inputs_changed_ = inputs_changed_ || !refreshed_;
    refreshed_ = true;
    return true;
}

void Stepper::keep_inputs() {
    if (!inputs_changed_) return;
    inputs_changed_ = false;
    inputs_.acting = system_;  // one by one, because that allocates nothing
    inputs_.applied = system_.applied;
    inputs_.handles = system_.handles;
}

void Stepper::sync_before_failure() {
    if (!system_outdated_ || !inputs_changed_) return sync();
    const Inputs now{system_, system_.applied, system_.handles};
    auto use = [&](const Inputs& inputs) {
        static_cast<Acting&>(system_) = inputs.acting;
        system_.applied = inputs.applied;
        system_.handles = inputs.handles;
    };
    use(inputs_);
    passes_->refresh(system_);
    sync();
    use(now);
    refreshed_ = false;
}

// The number of steps until the passes are tried again doubles with every failure.
void Stepper::passes_refused() { steps_by_fronts_ = std::min(1 << std::min(refusals_++, 10), 1000); }

// False: the fronts must solve the step.
bool Stepper::step_by_passes(const std::vector<int>& driven, const double* targets) {
    set_targets(driven, targets);
    if (!prepare_passes(!driven.empty())) return false;
    if (!passes_->step(h_, fresh ? 1 : order_)) {
        passes_refused();
        return false;
    }
    refusals_ = 0;
    ++steps_by_passes;
    keep_inputs();
    system_outdated_ = true;
    fresh = passes_->limit_changed();
    time += h_;
    if (tape) record(h_, passes_->order_used(), fresh);
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
        history.centre[b] = system_.state.H[b].act(system_.model().group_centre[b]);
        history.momentum[b] = system_.momentum[b] = system_.momentum_of(b, system_.state.H[b], velocities[b]);
    }
    history.centre_before = history.centre;
    history.momentum_before = history.momentum;
    history.q = history.q_before = system_.state.q;
    history.p.resize(rates.size());
    for (std::size_t i = 0; i < rates.size(); ++i) history.p[i] = system_.model().armature[i] * rates[i];
    history.p_before = history.p;
    history.rate = history.rate_before = rates;
    history.length.clear();
    for (const Spring& spring : system_.model().springs) history.length.push_back(spring.of.value(system_.state.q));
    history.length_before = history.length;
    history.flexible.clear();
    for (const FlexibleBody& each : system_.flexible)
        history.flexible.push_back(each.state_of(system_.state.H[each.body], &system_.state.q[each.axis], velocities[each.body], &rates[each.axis]));
    history.flexible_before = system_.flexible_state = history.flexible;
    fresh = true;
}

void Stepper::set_targets(const std::vector<int>& driven, const double* values) {
    for (std::size_t i = 0; i < driven.size(); ++i) system_.targets[driven[i]] = values[i];
}

void Stepper::advance_activations() {
    kept_.activations.clear();
    for (std::size_t i = 0; i < system_.actuation.size(); ++i) {
        kept_.activations.push_back(system_.actuation[i].activation);
        system_.actuation[i].activation = system_.model().actuators[i].next_activation(system_.actuation[i], h_);
    }
}

void Stepper::restore_activations() {
    for (std::size_t i = 0; i < kept_.activations.size(); ++i) system_.actuation[i].activation = kept_.activations[i];
}

bool Stepper::step(const std::vector<int>& driven, const double* targets) {
    std::vector<double> from;
    for (int row : driven) from.push_back(system_.targets[row]);
    const int refusals = refusals_, pause = steps_by_fronts_;
    const bool current = current_;
    elapsed_ = 0;
    if (tape && !inputs_recorded_) tape->set_inputs(system_, driven);
    inputs_recorded_ = true;
    advance_activations();
    if (step_by_passes(driven, targets)) return true;
    sync_before_failure();
    set_targets(driven, targets);
    const int order = fresh ? 1 : order_;
    if (advance(h_, order)) {
        changed();
        fresh = limit_changed_;  // a second-order difference across an impact would add energy
        return true;
    }
    const auto start = kept_;
    const History history_at_start = history;
    const double time_at_start = time;
    const bool tape_softened = tape && tape->softened;
    const long long softened_before = softened;
    if (divide(h_, driven, from.data(), targets, 1)) {
        changed();
        fresh = true;  // the history is not equidistant after substeps
        return true;
    }
    // the state before the step, which the passes still have
    convergence_failure.q = system_.state.q;
    kept_ = start;
    history = history_at_start;
    time = time_at_start;
    restore_kept_state();
    system_.set_active(kept_.active);
    set_targets(driven, from.data());
    restore_activations();
    refusals_ = refusals;
    steps_by_fronts_ = pause;
    current_ = current;
    softened = softened_before;
    if (tape) {
        tape->drop_unfinished();
        tape->softened = tape_softened;
    }
    return false;
}

// Limits that contradict each other, as on a linkage with more limits than degrees of freedom, have no solution.
bool Stepper::solve_with_stops(double h) {
    if (!system_.model().has_limits()) return false;
    const std::vector<double> exact = kept_.state.mu;
    system_.set_stops(true);
    kept_.state.mu = system_.state.mu;
    bool done = solve(h, 1);
    if (!done) {  // where axes of joints without mass between them are parallel, no torque resists some motions
        shift_ = added_stiffness;
        done = solve(h, 1);
        shift_ = 0;
    }
    system_.set_stops(false);
    kept_.state.mu = exact;
    if (!done) {
        system_.state.mu = exact;
        system_.set_active(kept_.active);
    }
    softened += done;
    return done;
}

bool Stepper::advance_with_stops(double h) {
    keep();
    if (!solve_with_stops(h)) return false;
    accept(h);
    if (tape) {
        record(h, 1, limit_changed_);
        tape->softened = true;
    }
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
    sync();
    std::vector<int> loops;
    for (std::size_t j = 0; j < system_.model().joints.size(); ++j)
        if (system_.model().joints[j].outer < 0) loops.push_back(static_cast<int>(j));
    if (passes_) loops = passes_->loop_joints();
    tape = std::make_shared<Tape>(system_, history, time, !fresh && order_ == 2, std::move(loops));
    inputs_recorded_ = false;
}

void Stepper::record(double h, int order, bool impact) {
    if (!system_.model().actuators.empty()) {
        if (system_outdated_) passes_->write_coordinates(system_);  // actuators act on them
        tape->driven = tape->driven || system_.is_driven();
    }
    elapsed_ += h / h_;  // exact: h / h_ is a power of two
    const int record = tape->add(Step::of_order(order, h), time, elapsed_, impact);
    if (!system_outdated_) return tape->fill(record, system_);
    passes_->record(tape->q(record), tape->mu(record), tape->active(record), tape->lambda(record));
    std::copy(system_.targets.begin(), system_.targets.end(), tape->targets(record));
}

bool Stepper::advance(double h, int order) {
    keep();
    if (solve(h, order)) {
        accept(h);
        if (tape) record(h, order, limit_changed_);
        return true;
    }
    return order > 1 && limit_changed_ && advance(h, 1);
}

void Stepper::keep() {
    kept_.state = system_.state;
    kept_.velocity = system_.velocity;
    kept_.momentum = system_.momentum;
    kept_.flexible = system_.flexible_state;
    kept_.rate = system_.rate;
    kept_.active = system_.active();
}

void Stepper::restore_kept_state() {
    system_.state = kept_.state;
    system_.evaluate(false);
    system_.state = kept_.state;
    system_.velocity = kept_.velocity;
    system_.momentum = kept_.momentum;
    system_.flexible_state = kept_.flexible;
    system_.rate = kept_.rate;
}

bool Stepper::solve(double h, int order) {
    limit_changed_ = false;
    shrinking_ = true;
    const Step step = Step::of_order(order, h);
    x_.assign(system_.unknowns(), 0.0);
    // predictor: extrapolated rates; constant rates if the history is not equidistant
    const double trend = fresh || h != h_ ? 0.0 : order == 2 ? 0.5 : 1.0;
    for (int axis = 0; axis < system_.axes(); ++axis)
        x_[system_.axis_row(axis)] = h * (kept_.rate[axis] + trend * (kept_.rate[axis] - history.rate_before[axis]));
    system_.retract(kept_.state, x_.data(), 1.0);

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
        limit_changed_ = system_.active() != kept_.active;
        if (limit_changed_ && order > 1) break;  // an impact: repeat with backward Euler
        return true;
    }
    find_convergence_failure(last);
    restore_kept_state();
    return false;
}

void Stepper::find_convergence_failure(double motion) {
    if (motion < last_motion) {  // coordinates have converged, but an error of a loop or row remains, or something turned too far
        const double size = convergence_failure.size = system_.largest_error(convergence_failure.joint, convergence_failure.row);
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
    const State& state = system_.state;
    for (int b = 0; b < system_.bodies(); ++b) {
        history.turn[b] = so3_log(history.H[b].R.transpose() * state.H[b].R);
        history.H[b] = state.H[b];
        history.centre_before[b] = history.centre[b];
        history.centre[b] = state.H[b].act(system_.model().group_centre[b]);
    }
    system_.share_momentum_rates(system_.momentum_wrenches());
    history.momentum_before.swap(history.momentum);
    history.momentum = system_.momentum;
    history.q_before.swap(history.q);
    history.q = state.q;
    history.p_before.swap(history.p);
    for (int axis = 0; axis < system_.axes(); ++axis) history.p[axis] = system_.model().armature[axis] * system_.rate[axis];
    history.rate_before.swap(history.rate);
    history.rate = system_.rate;
    history.length_before.swap(history.length);
    for (std::size_t s = 0; s < system_.model().springs.size(); ++s)
        history.length[s] = system_.model().springs[s].of.value(state.q);
    history.flexible_before.swap(history.flexible);
    history.flexible = system_.flexible_state;
    time += h;
}

}  // namespace supple
