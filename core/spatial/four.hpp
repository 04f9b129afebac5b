// Four numbers at once: one register with AVX, two with SSE2 and NEON. As `Eight`, for what comes in fours.
#pragma once

#include <limits>
#include <utility>

#include "spatial/eight.hpp"

namespace supple {

#if defined(__AVX__)

typedef double Four __attribute__((vector_size(32)));
typedef long long FourMask __attribute__((vector_size(32)));  // result of a comparison, for `choose`

SUPPLE_INLINE Four four(double value) { return Four{} + value; }
SUPPLE_INLINE Four choose(const FourMask& mask, const Four& yes, const Four& no) { return mask ? yes : no; }
template <int... at>  // places from 4 on are those of the second
SUPPLE_INLINE Four picked(const Four& a, const Four& b) {
    return SUPPLE_SHUFFLE(FourMask, a, b, at...);
}

#else

typedef double Two __attribute__((vector_size(16)));
typedef long long TwoMask __attribute__((vector_size(16)));

struct FourMask {
    TwoMask a, b;
};

struct Four {
    Two a, b;

    Four() = default;
    SUPPLE_INLINE Four(Two a, Two b) : a(a), b(b) {}
    SUPPLE_INLINE Four(double w, double x, double y, double z) : a{w, x}, b{y, z} {}
    SUPPLE_INLINE double operator[](int lane) const { return reinterpret_cast<const double*>(this)[lane]; }
    SUPPLE_INLINE double& operator[](int lane) { return reinterpret_cast<double*>(this)[lane]; }
    SUPPLE_INLINE Four operator-() const { return {-a, -b}; }
#define SUPPLE_FOUR(op)                                                                                      \
    SUPPLE_INLINE friend Four operator op(const Four& x, const Four& y) { return {x.a op y.a, x.b op y.b}; } \
    SUPPLE_INLINE friend Four operator op(double x, const Four& y) { return {x op y.a, x op y.b}; }          \
    SUPPLE_INLINE friend Four operator op(const Four& x, double y) { return {x.a op y, x.b op y}; }          \
    SUPPLE_INLINE Four& operator op## = (const Four& y) { return *this = *this op y; }                       \
    SUPPLE_INLINE Four& operator op## = (double y) { return *this = *this op y; }
    SUPPLE_FOUR(+)
    SUPPLE_FOUR(-)
    SUPPLE_FOUR(*)
    SUPPLE_FOUR(/)
#undef SUPPLE_FOUR
    SUPPLE_INLINE friend FourMask operator<(const Four& x, const Four& y) { return {x.a < y.a, x.b < y.b}; }
    SUPPLE_INLINE friend FourMask operator>(const Four& x, const Four& y) { return {x.a > y.a, x.b > y.b}; }
};

SUPPLE_INLINE Four four(double value) { return {Two{value, value}, Two{value, value}}; }
SUPPLE_INLINE Four choose(const FourMask& mask, const Four& yes, const Four& no) {
    return {mask.a ? yes.a : no.a, mask.b ? yes.b : no.b};
}
template <int i, int j, int k, int l>
SUPPLE_INLINE Four picked(const Four& x, const Four& y) {
    const auto at = [&](int place) { return place < 4 ? x[place] : y[place - 4]; };
    return {at(i), at(j), at(k), at(l)};
}

#endif

SUPPLE_INLINE Four larger(const Four& a, const Four& b) { return choose(a > b, a, b); }
SUPPLE_INLINE Four sqrt(const Four& v) {
    return Four{std::sqrt(v[0]), std::sqrt(v[1]), std::sqrt(v[2]), std::sqrt(v[3])};
}
SUPPLE_INLINE double sum(const Four& v) { return (v[0] + v[2]) + (v[1] + v[3]); }
SUPPLE_INLINE double largest(const Four& v) { return std::max(std::max(v[0], v[2]), std::max(v[1], v[3])); }

// rows[k][l] becomes rows[l][k]
SUPPLE_INLINE void transpose(Four& a, Four& b, Four& c, Four& d) {
    const Four ab = picked<0, 4, 2, 6>(a, b), AB = picked<1, 5, 3, 7>(a, b);
    const Four cd = picked<0, 4, 2, 6>(c, d), CD = picked<1, 5, 3, 7>(c, d);
    a = picked<0, 1, 4, 5>(ab, cd);
    b = picked<0, 1, 4, 5>(AB, CD);
    c = picked<2, 3, 6, 7>(ab, cd);
    d = picked<2, 3, 6, 7>(AB, CD);
}

// (sum of a, sum of b, sum of c, sum of d)
SUPPLE_INLINE Four sums(const Four& a, const Four& b, const Four& c, const Four& d) {
    const Four ab = picked<0, 4, 2, 6>(a, b) + picked<1, 5, 3, 7>(a, b);
    const Four cd = picked<0, 4, 2, 6>(c, d) + picked<1, 5, 3, 7>(c, d);
    return picked<0, 1, 4, 5>(ab, cd) + picked<2, 3, 6, 7>(ab, cd);
}

// Calls f(0), ..., f(n - 1). Where n is known when compiling (N), each index is a constant, so that triangular loops
// are unrolled too.
template <int N, class Function>
SUPPLE_INLINE void repeat(int n, const Function& f) {
    if constexpr (N == Eigen::Dynamic)
        for (int i = 0; i < n; ++i) f(i);
    else
        [&]<int... i>(std::integer_sequence<int, i...>) {
            (f(std::integral_constant<int, i>{}), ...);
        }(std::make_integer_sequence<int, N>{});
}

// to[i] = sum over the lanes of weight x[i], or to[i] += if `more`. Written as vectors, so that `to` must not have been
// written as single numbers just before: the processor would wait for these.
SUPPLE_INLINE void weighted_sums(const Four& weight, const Four* x, int count, bool more, double* to) {
    int i = 0;
    for (; i + 4 <= count; i += 4) {
        const Four all = sums(weight * x[i], weight * x[i + 1], weight * x[i + 2], weight * x[i + 3]);
        for (int k = 0; k < 4; ++k) to[i + k] = more ? to[i + k] + all[k] : all[k];
    }
    for (; i < count; ++i) to[i] = more ? to[i] + sum(weight * x[i]) : sum(weight * x[i]);
}

// (n,) y = A x for the matrix (n, n; symmetric) in one lane
template <int lane>
SUPPLE_INLINE void multiply_lane(const Four* A, int n, const double* x, double* y) {
    for (int i = 0; i < n; ++i) {
        Four sum = A[n * i] * x[0];
        for (int j = 1; j < n; ++j) sum += A[j + n * i] * x[j];
        y[i] = sum[lane];
    }
}

}  // namespace supple
