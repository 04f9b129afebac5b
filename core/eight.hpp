// Eight numbers in one vector, whatever the machine has for them.
#pragma once

#include <array>
#include <cstring>

#include "spatial.hpp"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than the machine's are passed to inlined functions only

namespace supple {

inline constexpr int width = 8;
typedef double Eight __attribute__((vector_size(8 * width)));

SUPPLE_INLINE Eight every(double value) { return Eight{} + value; }
SUPPLE_INLINE Eight load(const double* from) {
    Eight v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
SUPPLE_INLINE void store(double* to, const Eight& v) { std::memcpy(to, &v, sizeof v); }

template <int... at>
SUPPLE_INLINE Eight picked(const Eight& v) {
    return __builtin_shufflevector(v, v, at...);
}
template <int... at>  // places from 8 on are those of the second
SUPPLE_INLINE Eight picked(const Eight& a, const Eight& b) {
    return __builtin_shufflevector(a, b, at...);
}

SUPPLE_INLINE double sum(const Eight& v) {  // by halves
    const Eight four = v + picked<4, 5, 6, 7, 0, 1, 2, 3>(v), two = four + picked<2, 3, 0, 1, 6, 7, 4, 5>(four);
    return two[0] + two[1];
}
SUPPLE_INLINE double largest(const Eight& v) {
    const Eight other = picked<4, 5, 6, 7, 0, 1, 2, 3>(v), four = v > other ? v : other;
    const Eight next = picked<2, 3, 0, 1, 6, 7, 4, 5>(four), two = four > next ? four : next;
    return two[0] > two[1] ? two[0] : two[1];
}

// v[k][l] becomes v[l][k]
SUPPLE_INLINE void transpose(Eight* v) {
    Eight a[8], b[8];
    for (int k = 0; k < 8; k += 2) {
        a[k] = picked<0, 8, 2, 10, 4, 12, 6, 14>(v[k], v[k + 1]);
        a[k + 1] = picked<1, 9, 3, 11, 5, 13, 7, 15>(v[k], v[k + 1]);
    }
    for (int k = 0; k < 8; k += 4)
        for (int l = 0; l < 2; ++l) {
            b[k + l] = picked<0, 1, 8, 9, 4, 5, 12, 13>(a[k + l], a[k + 2 + l]);
            b[k + 2 + l] = picked<2, 3, 10, 11, 6, 7, 14, 15>(a[k + l], a[k + 2 + l]);
        }
    for (int l = 0; l < 4; ++l) {
        v[l] = picked<0, 1, 2, 3, 8, 9, 10, 11>(b[l], b[l + 4]);
        v[l + 4] = picked<4, 5, 6, 7, 12, 13, 14, 15>(b[l], b[l + 4]);
    }
}

template <int k, int terms>
constexpr std::array<double, terms> stumpff_series() {  // of the Stumpff function g_k
    std::array<double, terms> c{};
    for (int j = 0; j < terms; ++j) c[j] = (j % 2 ? -1.0 : 1.0) / detail::factorial(2 * j + k);
    return c;
}

// g_k(s) for s <= 10 with 14 terms, for s <= 2.5 with 11, to rounding.
template <int k, int terms = 14>
SUPPLE_INLINE Eight stumpff(const Eight& s) {
    static constexpr auto c = stumpff_series<k, terms>();
    Eight g = every(c[terms - 1]);
    for (int j = terms - 2; j >= 0; --j) g = g * s + c[j];
    return g;
}

}  // namespace supple
