#include "engine/branch.hpp"

#include <algorithm>
#include <cmath>

namespace supple {

namespace {
// Factorises with enough stiffness added to the coordinates to make the tangent positive definite.
void factorise_definite(System& system) {
    double shift = 1e-4;
    for (; shift < 1e3; shift *= 10) {
        system.factorise(shift);
        if (!system.fronts().negative()) break;
    }
    system.factorise(3 * shift);  // a factor 3 away from singular
}
}  // namespace

BranchStep continue_branch(System& system, const BranchLimits& limits) {
    BranchStep result;
    std::vector<double> x(system.unknowns());
    std::vector<int> first, before;
    std::vector<bool> differs(system.model().rows.size(), false);
    auto note = [&](const std::vector<int>& active) {
        if (first.empty()) first = active;
        for (std::size_t r = 0; r < active.size(); ++r) differs[r] = differs[r] || active[r] != first[r];
    };
    auto end = [&](bool converged, double rate) {
        result.converged = converged;
        result.rate = rate;
        for (std::size_t r = 0; r < differs.size(); ++r)
            if (differs[r]) result.changed.push_back(static_cast<int>(r));
        return result;
    };
    for (int k = 0; k < limits.iterations; ++k) {
        system.evaluate(true);
        const std::vector<int> touched = system.active();
        note(touched);
        system.factorise();
        system.solve(system.residual().data(), x.data(), false, true);
        const double size = system.motion_size(x.data());
        result.history.push_back(size);
        const bool moves = size >= limits.accurate || k > 0;  // a perfect column stays straight, stable or not
        const Fronts& factors = system.fronts();
        const bool regular = limits.definite ? factors.negative() == 0 : !factors.negative_determinant();
        if (!std::isfinite(size) || (!regular && moves)) return end(false, 4.0);
        if (size > limits.most_turn) return end(false, size / limits.most_turn);
        // Pivots of an unsymmetric tangent may be negative on a regular path. An even number of changes of the
        // determinant's sign within the step would look the same, so the step must be short.
        if (!limits.definite && factors.negative())
            result.rate = std::max(result.rate, result.history[0] / limits.short_turn);
        if (result.rate > 1) return end(false, result.rate);
        if (k > 0 && size > limits.tolerance) {
            double allowed = k == 1 ? limits.first_rate : limits.later_rate;
            // a limit bends the path, however short the step is
            const bool bends = std::find(differs.begin(), differs.end(), true) != differs.end();
            if (bends && result.history[0] < limits.short_turn) allowed = 1.0;
            // The first Newton step after a limit was met or left is the predictor along another tangent, of any
            // length. With a potential a step may fail here, because the minimisation of the energy finds the state
            // beyond.
            if (!limits.definite && touched != before && size < limits.short_turn) allowed = INFINITY;
            result.rate = std::max(result.rate, size / result.history[k - 1] / allowed);
            if (result.rate > 1) return end(false, result.rate);
        }
        before = touched;
        const Configuration base = system.state;
        system.retract(base, x.data(), 1.0);
        // the gap is that of the state before this step
        if (size < limits.tolerance && system.gap_size() < std::max(limits.closed, limits.tolerance)) {
            system.evaluate(false);
            if (system.active() == touched) return end(true, result.rate);
        }
    }
    return end(false, 2.0);
}

Search find_equilibrium(System& system, const BranchLimits& limits, bool minimise) {
    Search result;
    std::vector<double> x(system.unknowns()), next(system.unknowns());
    auto newton_step = [&](std::vector<double>& to) {
        system.solve(system.residual().data(), to.data(), false, true);
        return system.motion_size(to.data());
    };
    for (int k = 0; k < limits.iterations; ++k) {
        const Configuration base = system.state;
        system.evaluate(true);
        const std::vector<int> touched = system.active();
        system.factorise();
        double size = newton_step(x);
        const Fronts& factors = system.fronts();
        const bool unstable = limits.definite ? factors.negative() > 0 : factors.negative_determinant();
        const bool shifted = minimise && unstable && size > limits.accurate;
        if (shifted) {
            factorise_definite(system);
            size = newton_step(x);
        }
        result.history.push_back(size);
        if (!std::isfinite(size)) return result;
        double alpha = std::min(1.0, limits.most_turn / std::max(size, 1e-300));
        while (true) {
            system.retract(base, x.data(), alpha);
            system.evaluate(false);
            // Limits met or left change the equations
            if (shifted || size < limits.accurate || system.active() != touched) break;
            if (newton_step(next) < std::max((1 - alpha / 4) * size, limits.accurate)) break;
            alpha /= 2;
            if (alpha < 0.005) return result;
        }
        result.found = size < limits.accurate && system.gap_size() < limits.closed && system.active() == touched;
        if (result.found) return result;
    }
    return result;
}

bool find_close(System& system) {
    std::vector<double> x(system.unknowns());
    for (int k = 0; k < 20; ++k) {
        system.evaluate(true);
        system.factorise();
        system.solve(system.residual().data(), x.data(), false, true);
        const double size = system.motion_size(x.data());
        if (!(size < 1) || system.fronts().negative()) return false;
        const Configuration base = system.state;
        system.retract(base, x.data(), 1.0);
        if (size < 1e-9) {
            system.evaluate(false);
            return true;
        }
    }
    return false;
}

}  // namespace supple
