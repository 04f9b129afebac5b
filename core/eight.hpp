// Eight numbers in one vector, whatever the machine has for them.
#pragma once

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

}  // namespace supple
