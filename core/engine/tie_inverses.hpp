// Inverses of the blocks of tie multipliers that are eliminated at one node; row major.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "spatial/eight.hpp"

namespace supple {

// Inverse of a small dense matrix (row major) by Gauss and Jordan with row pivoting.
inline void invert(double* M, int n, double* inverse) {
    for (int i = 0; i < n * n; ++i) inverse[i] = i % (n + 1) == 0 ? 1.0 : 0.0;
    for (int k = 0; k < n; ++k) {
        int pivot = k;
        for (int r = k + 1; r < n; ++r)
            if (std::abs(M[r * n + k]) > std::abs(M[pivot * n + k])) pivot = r;
        if (pivot != k)
            for (int c = 0; c < n; ++c) {
                std::swap(M[k * n + c], M[pivot * n + c]);
                std::swap(inverse[k * n + c], inverse[pivot * n + c]);
            }
        const double over = 1 / M[k * n + k];
        for (int c = 0; c < n; ++c) {
            M[k * n + c] *= over;
            inverse[k * n + c] *= over;
        }
        for (int r = 0; r < n; ++r) {
            const double by = M[r * n + k];
            if (r == k || by == 0) continue;
            for (int c = 0; c < n; ++c) {
                M[r * n + c] -= by * M[k * n + c];
                inverse[r * n + c] -= by * inverse[k * n + c];
            }
        }
    }
}

// The same for n <= 8, a row in a vector.
inline void invert_small(const double* from, int n, double* inverse) {
    Eight M[width], I[width];
    for (int r = 0; r < n; ++r) {
        alignas(64) double row[width] = {}, unit[width] = {};
        for (int c = 0; c < n; ++c) row[c] = from[r * n + c];
        unit[r] = 1;
        M[r] = load(row);
        I[r] = load(unit);
    }
    alignas(64) double column[width];
    for (int k = 0; k < n; ++k) {
        int pivot = k;
        for (int r = 0; r < n; ++r) column[r] = reinterpret_cast<const double*>(&M[r])[k];
        for (int r = k + 1; r < n; ++r)
            if (std::abs(column[r]) > std::abs(column[pivot])) pivot = r;
        if (pivot != k) {
            std::swap(M[k], M[pivot]);
            std::swap(I[k], I[pivot]);
            std::swap(column[k], column[pivot]);
        }
        const double over = 1 / column[k];
        const Eight m = over * M[k], i = over * I[k];
        for (int r = 0; r < n; ++r) {
            M[r] -= column[r] * m;
            I[r] -= column[r] * i;
        }
        M[k] = m;
        I[k] = i;
    }
    for (int r = 0; r < n; ++r)
        for (int c = 0; c < n; ++c) inverse[r * n + c] = reinterpret_cast<const double*>(&I[r])[c];
}

// The same without rows that depend on others: pivots on the diagonal, and a zero row and column in the inverse for each dependent
// one. `floor`: pivots below it are rounding errors. False: the remainder of the dependent rows is not zero.
inline bool invert_independent(double* M, int n, double* inverse, double floor) {
    constexpr double negligible = 1e-9;
    std::vector<double> scale(n);
    std::vector<char> done(n, 0);
    for (int k = 0; k < n; ++k) scale[k] = std::max(std::abs(M[k * (n + 1)]), floor / negligible);
    for (;;) {
        int k = -1;
        double best = negligible;
        for (int i = 0; i < n; ++i) {
            if (done[i] || !(std::abs(M[i * (n + 1)]) > best * scale[i])) continue;
            best = std::abs(M[i * (n + 1)]) / scale[i];
            k = i;
        }
        if (k < 0) break;
        done[k] = 1;
        const double over = 1 / M[k * (n + 1)];
        double* row = M + k * n;
        for (int c = 0; c < n; ++c) row[c] *= over;
        row[k] = over;
        for (int r = 0; r < n; ++r) {
            if (r == k) continue;
            const double by = M[r * n + k];
            M[r * n + k] = 0;
            for (int c = 0; c < n; ++c) M[r * n + c] -= by * row[c];
        }
    }
    for (int r = 0; r < n; ++r)
        for (int c = 0; c < n; ++c) {
            inverse[r * n + c] = done[r] && done[c] ? M[r * n + c] : 0.0;
            if (!done[r] && !done[c] && !(std::abs(M[r * n + c]) <= 10 * negligible * std::sqrt(scale[r] * scale[c]))) return false;
        }
    return true;
}

// Positive pivots of a symmetric matrix (row major): as many as positive eigenvalues (Sylvester's law of inertia).
inline int positive_pivots(std::vector<double> M, int n) {
    int count = 0;
    for (int k = 0; k < n; ++k) {
        const double pivot = M[k * n + k];
        count += pivot > 0;
        for (int r = k + 1; r < n; ++r) {
            const double by = M[r * n + k] / pivot;
            for (int c = k + 1; c < n; ++c) M[r * n + c] -= by * M[k * n + c];
        }
    }
    return count;
}

}  // namespace supple
