// Eight numbers at a time: plain loops that the compiler turns into vector instructions.
#pragma once

#include <array>

#include "spatial.hpp"

namespace supple {

inline constexpr int lanes = 8;

template <int k, int terms>
constexpr std::array<double, terms> stumpff_series() {  // of the Stumpff function g_k
    std::array<double, terms> c{};
    for (int j = 0; j < terms; ++j) c[j] = (j % 2 ? -1.0 : 1.0) / detail::factorial(2 * j + k);
    return c;
}

// g_k(s) for s <= 10 with 14 terms, for s <= 2.5 with 11, to rounding.
template <int k, int terms = 14>
inline void stumpff_lanes(const double* s, double* g) {
    static constexpr auto c = stumpff_series<k, terms>();
    for (int l = 0; l < lanes; ++l) g[l] = c[terms - 1];
    for (int j = terms - 2; j >= 0; --j)
        for (int l = 0; l < lanes; ++l) g[l] = g[l] * s[l] + c[j];
}

}  // namespace supple
