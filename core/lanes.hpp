// Series of eight numbers at a time.
#pragma once

#include <array>

#include "eight.hpp"

namespace supple {

inline constexpr int lanes = width;

template <int k, int terms>
constexpr std::array<double, terms> stumpff_series() {  // of the Stumpff function g_k
    std::array<double, terms> c{};
    for (int j = 0; j < terms; ++j) c[j] = (j % 2 ? -1.0 : 1.0) / detail::factorial(2 * j + k);
    return c;
}

// g_k(s) for s <= 10 with 14 terms, for s <= 2.5 with 11, to rounding.
template <int k, int terms = 14>
SUPPLE_INLINE Eight stumpff_lanes(const Eight& s) {
    static constexpr auto c = stumpff_series<k, terms>();
    Eight g = every(c[terms - 1]);
    for (int j = terms - 2; j >= 0; --j) g = g * s + c[j];
    return g;
}

}  // namespace supple
