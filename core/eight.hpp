// Eight numbers in one vector, whatever the machine has for them.
#pragma once

#include <cstring>

#include "spatial.hpp"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than the machine's are passed to inlined functions only

namespace supple {

inline constexpr int width = 8;
typedef double Eight __attribute__((vector_size(8 * width)));

SUPPLE_INLINE Eight every(double value) { return Eight{} + value; }
SUPPLE_INLINE double sum(const Eight& a) {  // by halves
    typedef double Four __attribute__((vector_size(32)));
    typedef double Two __attribute__((vector_size(16)));
    Four four[2];
    std::memcpy(four, &a, sizeof(a));
    four[0] += four[1];
    Two two[2];
    std::memcpy(two, four, sizeof(four[0]));
    two[0] += two[1];
    return two[0][0] + two[0][1];
}

}  // namespace supple
