// When Newton's method for a time step has converged: the same for the passes and the sparse solver.
#pragma once

#include <cmath>

namespace supple::convergence {

constexpr int newton_limit = 25;
constexpr double negligible_correction = 1e-14;
constexpr double closed = 1e-11;  // largest gap of a loop and error of a row
constexpr double largest_turn = 2;  // of a coordinate or a body in one step, rad: full turns could not be detected
constexpr double shrinking = 0.05;  // a correction over the one before it, below which the tangent serves on

// Whether the coordinates have converged after correction k (from 0) of this size, rad or radii; `last`: size of the
// one before it, infinite for none. They have if the next correction, extrapolated from these two, is negligible, or if
// only rounding errors are left.
inline bool reached(int k, double size, double last) {
    constexpr double rounding = 1e-12, redundant_rounding = 1e-8;  // redundant_rounding: with redundant loops
    if (size < rounding || (k >= 4 && size < redundant_rounding && size > 0.5 * last)) return true;
    return std::isfinite(last) && size < shrinking * last && size * size < negligible_correction * last;
}

}  // namespace supple::convergence
