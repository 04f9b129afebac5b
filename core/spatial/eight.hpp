// Eight numbers at once, in as many registers as the instruction set needs: one with AVX-512, two with AVX, four with
// SSE2 and NEON.
//
// GCC keeps a vector that is wider than the machine's registers in memory and moves it number by number. `Eight` is
// therefore a struct of vectors that do fit. Operations are lane by lane, so that all instruction sets round alike,
// apart from fused products.
#pragma once

#include <array>
#include <cstring>

#include "spatial/spatial.hpp"

#pragma GCC diagnostic ignored "-Wpsabi"  // these vectors are arguments of inlined functions only

// Numbers of two vectors of the same length, by their places in the first vector followed by the second.
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector)
#define SUPPLE_SHUFFLE(places, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else  // GCC 11
#define SUPPLE_SHUFFLE(places, a, b, ...) __builtin_shuffle(a, b, places{__VA_ARGS__})
#endif

namespace supple {

inline constexpr int width = 8;

#if defined(__AVX512F__)

typedef double Eight __attribute__((vector_size(8 * width)));
typedef long long Mask __attribute__((vector_size(8 * width)));  // result of a comparison, for `choose`

SUPPLE_INLINE Eight every(double value) { return Eight{} + value; }
SUPPLE_INLINE Eight load(const double* from) {
    Eight v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
SUPPLE_INLINE void store(double* to, const Eight& v) { std::memcpy(to, &v, sizeof v); }
SUPPLE_INLINE Eight choose(const Mask& mask, const Eight& yes, const Eight& no) { return mask ? yes : no; }

template <int... at>
SUPPLE_INLINE Eight picked(const Eight& v) {
    return SUPPLE_SHUFFLE(Mask, v, v, at...);
}
template <int... at>  // places from 8 on are those of the second
SUPPLE_INLINE Eight picked(const Eight& a, const Eight& b) {
    return SUPPLE_SHUFFLE(Mask, a, b, at...);
}

#else

#if defined(__AVX__)
#define SUPPLE_IF_FOUR(...)  // Eight is two registers of four numbers
#else
#define SUPPLE_IF_FOUR(...) __VA_ARGS__  // Eight is four registers of two numbers
#endif

inline constexpr int part_width = 4 SUPPLE_IF_FOUR(/ 2);
typedef double Part __attribute__((vector_size(8 * part_width)));
typedef long long PartMask __attribute__((vector_size(8 * part_width)));

struct Mask {  // result of a comparison, for `choose`
    PartMask a, b SUPPLE_IF_FOUR(, c, d);
};

struct Eight {
    Part a, b SUPPLE_IF_FOUR(, c, d);

    Eight() = default;
    SUPPLE_INLINE Eight(Part a, Part b SUPPLE_IF_FOUR(, Part c, Part d)) : a(a), b(b) SUPPLE_IF_FOUR(, c(c), d(d)) {}
#if defined(__AVX__)
    SUPPLE_INLINE Eight(double s, double t, double u, double v, double w, double x, double y, double z)
        : a{s, t, u, v}, b{w, x, y, z} {}
    template <int i>
    SUPPLE_INLINE Part part() const {
        if constexpr (i == 0) return a;
        else return b;
    }
#else
    SUPPLE_INLINE Eight(double s, double t, double u, double v, double w, double x, double y, double z)
        : a{s, t}, b{u, v}, c{w, x}, d{y, z} {}
    template <int i>
    SUPPLE_INLINE Part part() const {
        if constexpr (i == 0) return a;
        else if constexpr (i == 1) return b;
        else if constexpr (i == 2) return c;
        else return d;
    }
#endif

    // A known lane is read from its register, an unknown one through memory.
    SUPPLE_INLINE double operator[](int lane) const {
        if (__builtin_constant_p(lane)) {
            if (lane < part_width) return a[lane];
            if (lane < 2 * part_width) return b[lane - part_width];
            SUPPLE_IF_FOUR(return lane < 3 * part_width ? c[lane - 2 * part_width] : d[lane - 3 * part_width];)
        }
        return reinterpret_cast<const double*>(this)[lane];
    }
    SUPPLE_INLINE double& operator[](int lane) { return reinterpret_cast<double*>(this)[lane]; }

    SUPPLE_INLINE Eight operator-() const { return {-a, -b SUPPLE_IF_FOUR(, -c, -d)}; }
#define SUPPLE_EIGHT(op)                                                                 \
    SUPPLE_INLINE friend Eight operator op(const Eight& x, const Eight& y) {             \
        return {x.a op y.a, x.b op y.b SUPPLE_IF_FOUR(, x.c op y.c, x.d op y.d)};        \
    }                                                                                    \
    SUPPLE_INLINE friend Eight operator op(double x, const Eight& y) {                   \
        return {x op y.a, x op y.b SUPPLE_IF_FOUR(, x op y.c, x op y.d)};                \
    }                                                                                    \
    SUPPLE_INLINE friend Eight operator op(const Eight& x, double y) {                   \
        return {x.a op y, x.b op y SUPPLE_IF_FOUR(, x.c op y, x.d op y)};                \
    }                                                                                    \
    SUPPLE_INLINE Eight& operator op## = (const Eight& y) { return *this = *this op y; } \
    SUPPLE_INLINE Eight& operator op## = (double y) { return *this = *this op y; }
    SUPPLE_EIGHT(+)
    SUPPLE_EIGHT(-)
    SUPPLE_EIGHT(*)
    SUPPLE_EIGHT(/)
#undef SUPPLE_EIGHT
#define SUPPLE_EIGHT(op)                                                          \
    SUPPLE_INLINE friend Mask operator op(const Eight& x, const Eight& y) {       \
        return {x.a op y.a, x.b op y.b SUPPLE_IF_FOUR(, x.c op y.c, x.d op y.d)}; \
    }
    SUPPLE_EIGHT(<)
    SUPPLE_EIGHT(<=)
    SUPPLE_EIGHT(>)
    SUPPLE_EIGHT(>=)
#undef SUPPLE_EIGHT
};

SUPPLE_INLINE Eight every(double value) {
    const Part all = Part{} + value;
    return {all, all SUPPLE_IF_FOUR(, all, all)};
}

// Part by part: GCC copies a whole struct through memory in pieces that later reads have to wait for.
SUPPLE_INLINE Part load_part(const double* from) {
    Part v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
SUPPLE_INLINE Eight load(const double* from) {
    return {load_part(from), load_part(from + part_width)
                                 SUPPLE_IF_FOUR(, load_part(from + 2 * part_width), load_part(from + 3 * part_width))};
}
SUPPLE_INLINE void store(double* to, const Eight& v) {
    std::memcpy(to, &v.a, sizeof v.a);
    std::memcpy(to + part_width, &v.b, sizeof v.b);
    SUPPLE_IF_FOUR(std::memcpy(to + 2 * part_width, &v.c, sizeof v.c);)
    SUPPLE_IF_FOUR(std::memcpy(to + 3 * part_width, &v.d, sizeof v.d);)
}

SUPPLE_INLINE Eight choose(const Mask& mask, const Eight& yes, const Eight& no) {
    return {mask.a ? yes.a : no.a,
            mask.b ? yes.b : no.b SUPPLE_IF_FOUR(, mask.c ? yes.c : no.c, mask.d ? yes.d : no.d)};
}

namespace detail {

// The part that holds a place; places from 8 on are those of y.
template <int place>
SUPPLE_INLINE Part holding(const Eight& x, const Eight& y) {
    if constexpr (place < width) return x.part<place / part_width>();
    else return y.part<place / part_width - width / part_width>();
}

#if defined(__AVX__)
// Numbers at four places. The places of at most two parts need one shuffle.
template <int i, int j, int k, int l>
SUPPLE_INLINE Part gathered(const Eight& x, const Eight& y) {
    constexpr int I = i / 4, J = j / 4, K = k / 4, L = l / 4, other = J != I ? j : K != I ? k : l;
    if constexpr (i % 4 == 0 && j == i + 1 && k == i + 2 && l == i + 3) {
        return holding<i>(x, y);
    } else if constexpr ((J == I || J == other / 4) && (K == I || K == other / 4) && (L == I || L == other / 4)) {
        return SUPPLE_SHUFFLE(PartMask, (holding<i>(x, y)), (holding<other>(x, y)), i % 4, j % 4 + (J == I ? 0 : 4),
                              k % 4 + (K == I ? 0 : 4), l % 4 + (L == I ? 0 : 4));
    } else {
        return Part{holding<i>(x, y)[i % 4], holding<j>(x, y)[j % 4], holding<k>(x, y)[k % 4], holding<l>(x, y)[l % 4]};
    }
}
#else
template <int i, int j>
SUPPLE_INLINE Part gathered(const Eight& x, const Eight& y) {
    if constexpr (i % 2 == 0 && j == i + 1) return holding<i>(x, y);
    else return SUPPLE_SHUFFLE(PartMask, (holding<i>(x, y)), (holding<j>(x, y)), i % 2, 2 + j % 2);
}
#endif

}  // namespace detail

template <int i, int j, int k, int l, int m, int n, int o, int p>  // places from 8 on are those of the second
SUPPLE_INLINE Eight picked(const Eight& x, const Eight& y) {
#if defined(__AVX__)
    return {detail::gathered<i, j, k, l>(x, y), detail::gathered<m, n, o, p>(x, y)};
#else
    return {detail::gathered<i, j>(x, y), detail::gathered<k, l>(x, y), detail::gathered<m, n>(x, y),
            detail::gathered<o, p>(x, y)};
#endif
}
template <int... at>
SUPPLE_INLINE Eight picked(const Eight& v) {
    return picked<at...>(v, v);
}

#undef SUPPLE_IF_FOUR
#endif

SUPPLE_INLINE Eight larger(const Eight& a, const Eight& b) { return choose(a > b, a, b); }
SUPPLE_INLINE Eight absolute(const Eight& v) { return larger(v, -v); }
SUPPLE_INLINE Eight six_lanes(const double* v) { return Eight{v[0], v[1], v[2], v[3], v[4], v[5], 0, 0}; }

SUPPLE_INLINE double sum(const Eight& v) {  // by halves
    const Eight four = v + picked<4, 5, 6, 7, 0, 1, 2, 3>(v), two = four + picked<2, 3, 0, 1, 6, 7, 4, 5>(four);
    return two[0] + two[1];
}
SUPPLE_INLINE double largest(const Eight& v) {
    const Eight four = larger(v, picked<4, 5, 6, 7, 0, 1, 2, 3>(v));
    const Eight two = larger(four, picked<2, 3, 0, 1, 6, 7, 4, 5>(four));
    return two[0] > two[1] ? two[0] : two[1];
}

// v[k][l] becomes v[l][k]; of eight or four lanes l
template <int lanes = width>
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
        if constexpr (lanes == width) v[l + 4] = picked<4, 5, 6, 7, 12, 13, 14, 15>(b[l], b[l + 4]);
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
