// Newton's method for static equilibria: one step along a branch, and the search for a state on any branch.
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
    double most_turn, short_turn;  // largest Newton step; along a branch, the same where a limit is met or left or pivots are negative
    double first_rate, later_rate; // largest contraction rates
    int iterations;
    bool definite;                 // no pivot may be negative (loads with a potential); otherwise the determinant may not be
};

// From system.state, an equilibrium under other loads. The state after it is meaningful only if it converged.
BranchStep continue_branch(System& system, const BranchLimits& limits);

struct Search {
    bool found = false;
    std::vector<double> history;  // size of each Newton step
};

// Converges to an equilibrium from system.state, on whatever branch; of the limits, the rates have no effect.
// The line search requires that the next step, computed with the old factors, is smaller than this one (the natural level function,
// which does not depend on units or stiffness). With `minimise`, stiffness is added to an indefinite tangent until it is positive
// definite, so that the search leaves saddle points of the energy. Without a potential there is no energy; stiffness is added where
// the determinant is negative (divergence).
Search find_equilibrium(System& system, const BranchLimits& limits, bool minimise);

}  // namespace supple
