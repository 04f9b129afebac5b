// Newton's method for static equilibria: one step along a branch, and the search for a state on any branch.
#pragma once

#include <vector>

#include "engine/system.hpp"

namespace supple {

struct BranchStep {
    bool converged = false;  // the new state continues the branch
    double rate = 0;  // largest contraction rate, or motion, over the largest accepted
    std::vector<int> changed;  // rows of limits that were met or left
    std::vector<double> history;  // size of each Newton step, rad (lengths over the length scale)
};

struct BranchLimits {
    double tolerance;  // a Newton step below this is the last one
    double accurate;  // the tolerance of a final state
    double closed;  // largest gap of loops and error of rows
    double most_turn;  // largest Newton step
    double short_turn;  // the same on a branch, in a step that meets or leaves a limit, or with negative pivots
    double first_rate, later_rate;  // largest contraction rates
    int iterations;
    bool definite;  // no pivot may be negative (loads with a potential); otherwise the determinant may not be
};

// From system.state, an equilibrium under other loads. The state after it is meaningful only if it converged.
BranchStep continue_branch(System& system, const BranchLimits& limits);

struct Search {
    bool found = false;
    std::vector<double> history;  // size of each Newton step
};

// From system.state to an equilibrium on any branch. It takes `accurate`, `closed`, `most_turn`, `iterations` and
// `definite` of the limits. Line search: a step is halved until the next step, solved with the same factors, is
// shorter. This measure (the natural level function) depends neither on units nor on stiffness. A step that meets or
// leaves a limit changes the equations and is not halved. With `minimise`, the search moves away from unstable states,
// such as saddle points of the energy: stiffness is added to the coordinates until no pivot is negative, and the step
// is not halved. Unstable: some pivot is negative; without a potential, the determinant is negative (divergence).
Search find_equilibrium(System& system, const BranchLimits& limits, bool minimise);

// From system.state to an equilibrium close by, by full steps below 1 rad (lengths over the length scale); evaluates
// the system there. False if it does not converge, or if the tangent has a negative pivot on the way.
bool find_close(System& system);

}  // namespace supple
