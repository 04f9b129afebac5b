// Eight numbers in one vector, whatever the machine has for them.
#pragma once

#include "spatial.hpp"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than the machine's are passed to inlined functions only

namespace supple {

inline constexpr int width = 8;
typedef double Eight __attribute__((vector_size(8 * width)));

SUPPLE_INLINE Eight every(double value) { return Eight{} + value; }
SUPPLE_INLINE double sum(const Eight& a) {
    typedef double Four __attribute__((vector_size(32)));
    typedef double Two __attribute__((vector_size(16)));
    const Four four = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
    const Two two = __builtin_shufflevector(four, four, 0, 1) + __builtin_shufflevector(four, four, 2, 3);
    return two[0] + two[1];
}

}  // namespace supple
