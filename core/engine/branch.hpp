// One step along a branch of static equilibria, by Newton's method.
#pragma once

#include <vector>

#include "engine/system.hpp"

namespace supple {

struct BranchStep {
    bool converged = false;        // the new state continues the branch
    double rate = 0;               // largest contraction rate, or motion, over the largest accepted
    std::vector<int> changed;      // rows of limits that were met or left
    std::vector<double> history;   // size of each Newton step, rad (lengths over the length scale)
};

struct BranchLimits {
    double tolerance;              // a Newton step below this is the last one
    double accurate;               // the tolerance of a final state
    double closed;                 // largest gap of loops and error of rows
    double most_turn, short_turn;  // largest Newton step; the same where a limit is met or left or pivots are negative
    double first_rate, later_rate; // largest contraction rates
    int iterations;
    bool definite;                 // no pivot may be negative (loads with a potential); otherwise the determinant may not be
};

// Newton's method from system.state, an equilibrium under other loads. The state after it is meaningful only if it converged.
BranchStep continue_branch(System& system, const BranchLimits& limits);

}  // namespace supple
