#include "stepper.hpp"

#include <cmath>

namespace supple {

namespace {
constexpr int newton_limit = 25;
constexpr int halvings = 10;
constexpr double tolerance = 1e-12;  // of torques over the system's scale, of gaps over its length
constexpr double rounding = 1e-14;   // what long chains cannot get below

bool finite(const System::Size& size) {
    return std::isfinite(size.torque) && std::isfinite(size.gap) && std::isfinite(size.row);
}
}  // namespace

void Stepper::start(const std::vector<Vec6>& velocities, const std::vector<double>& rates) {
    const int nb = system_.bodies();
    system_.evaluate(false);
    system_.velocity = velocities;
    system_.rate = rates;
    history.H = system_.state.H;
    history.twist.assign(nb, Vec6::Zero());
    history.momentum.resize(nb);
    for (int b = 0; b < nb; ++b)
        history.momentum[b] = system_.momentum[b] = system_.momentum_of(b, system_.state.H[b], velocities[b]);
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
    const int order = fresh ? 1 : order_;
    std::vector<double> from;
    for (int row : driven) from.push_back(system_.rows[row].lower);
    set_targets(driven, targets);
    if (advance(h_, order)) {
        fresh = false;
        return true;
    }
    if (!divide(h_, driven, from.data(), targets, 1)) return false;
    fresh = true;  // the substeps left no even history
    return true;
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

bool Stepper::advance(double h, int order) {
    const Step step = order == 2 ? Step{h, 1.5, -2.0, 0.5} : Step{h, 1.0, -1.0, 0.0};
    const State before = system_.state;
    const auto velocity = system_.velocity, momentum = system_.momentum;
    const auto rate = system_.rate;

    // start where the rates' own trend leads; after uneven steps, where constant rates lead
    x_.assign(system_.unknowns(), 0.0);
    const double trend = fresh || h != h_ ? 0.0 : order == 2 ? 1.5 : 1.0;
    for (int axis = 0; axis < system_.axes(); ++axis)
        x_[system_.axis_row(axis)] = h * (rate[axis] + trend * (rate[axis] - history.rate_before[axis]));
    system_.retract(before, x_.data(), 1.0);

    double last = INFINITY;
    bool factorised = false;
    State base;
    for (int k = 0; k < newton_limit; ++k) {
        const bool exact = !factorised;
        system_.evaluate(exact, &step, &history);
        const System::Size size = system_.residual_size();
        if (!finite(size)) break;
        const double worst = std::max({size.torque, size.gap, size.row});
        // two solves leave an error far below the tolerance, which would add up over many small steps
        if (worst < (k < 2 ? rounding : tolerance)) {
            accept(h);
            return true;
        }
        if (exact) {
            system_.factorise();
            ++factorisations;
            factorised = true;
        } else if (worst > 0.05 * last) {  // the old tangent no longer serves
            system_.evaluate(true, &step, &history);
            system_.factorise();
            ++factorisations;
        }
        if (k > 3 && worst > 0.5 * last && worst < 100 * tolerance) {  // as far as rounding lets it go
            accept(h);
            return true;
        }
        last = worst;
        system_.solve(system_.residual().data(), x_.data());
        base = system_.state;
        system_.retract(base, x_.data(), 1.0);
        ++iterations;
    }
    system_.state = before;
    system_.velocity = velocity;
    system_.momentum = momentum;
    system_.rate = rate;
    return false;
}

void Stepper::accept(double h) {
    const State& state = system_.state;
    for (int b = 0; b < system_.bodies(); ++b) {
        history.twist[b] = log(state.H[b].seen_from(history.H[b]));
        history.H[b] = state.H[b];
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

}  // namespace supple
