// Inverses of the blocks of tie multipliers that are eliminated at one node. The blocks are row major, `next` numbers
// from a row to the next one; the inverses are stored by columns, as far apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "spatial/eight.hpp"

namespace supple {

// By Gauss and Jordan with row pivoting. `M` becomes the unit matrix; `work` is for intermediate results. Rows end with
// padding.
inline void invert(double* M, int n, int next, double* inverse, std::vector<double>& work) {
    work.assign(n * next, 0.0);
    for (int i = 0; i < n; ++i) work[i * (next + 1)] = 1;
    for (int k = 0; k < n; ++k) {
        int pivot = k;
        for (int r = k + 1; r < n; ++r)
            if (std::abs(M[r * next + k]) > std::abs(M[pivot * next + k])) pivot = r;
        if (pivot != k) {
            std::swap_ranges(M + k * next, M + (k + 1) * next, M + pivot * next);
            std::swap_ranges(&work[k * next], &work[k * next] + next, &work[pivot * next]);
        }
        const double over = 1 / M[k * next + k];
        for (double* row : {M + k * next, &work[k * next]})
            for (int c = 0; c < next; c += width) store(row + c, over * load(row + c));
        for (int r = 0; r < n; ++r) {
            const double by = M[r * next + k];
            if (r == k || by == 0) continue;
            for (int c = k - k % width; c < next; c += width)
                store(M + r * next + c, load(M + r * next + c) - by * load(M + k * next + c));
            for (int c = 0; c < next; c += width)
                store(&work[r * next + c], load(&work[r * next + c]) - by * load(&work[k * next + c]));
        }
    }
    for (int r = 0; r < n; ++r)
        for (int c = 0; c < n; ++c) inverse[c * next + r] = work[r * next + c];
}

// One elimination of Gauss and Jordan in registers, without exchange of rows. False: a pivot is smaller than a tenth of
// a number below it.
template <int n, int k = 0>
SUPPLE_INLINE bool eliminate_in_order(Eight* M, Eight* I) {
    if constexpr (k == n) {
        return true;
    } else {
        const double pivot = M[k][k], over = 1 / pivot;
        const Eight m = over * M[k], i = over * I[k];
        double largest = 0;
        for (int r = 0; r < n; ++r) {
            if (r == k) continue;
            const double by = M[r][k];
            if (r > k) largest = std::max(largest, std::abs(by));
            M[r] -= by * m;
            I[r] -= by * i;
        }
        M[k] = m;
        I[k] = i;
        return (0.1 * largest <= std::abs(pivot)) & eliminate_in_order<n, k + 1>(M, I);
    }
}

template <int n>
bool invert_in_order(const Eight* rows, Eight* inverse) {
    Eight M[n], I[width];
    for (int r = 0; r < n; ++r) {
        M[r] = rows[r];
        for (int c = 0; c < width; ++c) I[r][c] = r == c;
    }
    for (int r = n; r < width; ++r) I[r] = every(0.0);
    if (!eliminate_in_order<n>(M, I)) return false;
    transpose(I);
    for (int c = 0; c < n; ++c) inverse[c] = I[c];
    return true;
}

// The same for n <= 8, a row in a vector.
inline void invert_small(Eight* rows, int n, Eight* inverse, std::vector<double>& work) {
    auto in_order = [&] {
        switch (n) {
            case 1: return invert_in_order<1>(rows, inverse);
            case 2: return invert_in_order<2>(rows, inverse);
            case 3: return invert_in_order<3>(rows, inverse);
            case 4: return invert_in_order<4>(rows, inverse);
            case 5: return invert_in_order<5>(rows, inverse);
            case 6: return invert_in_order<6>(rows, inverse);
            case 7: return invert_in_order<7>(rows, inverse);
            default: return invert_in_order<8>(rows, inverse);
        }
    };
    if (!in_order()) invert(reinterpret_cast<double*>(rows), n, width, reinterpret_cast<double*>(inverse), work);
}

// The same without rows that depend on others: pivots on the diagonal, and a zero row and column in the inverse for
// each dependent one. `floor`: pivots below it are rounding errors. False: the remainder of the dependent rows is not
// zero.
inline bool invert_independent(double* M, int n, int next, double* inverse, double floor) {
    constexpr double negligible = 1e-9;
    std::vector<double> scale(n);
    std::vector<char> done(n, 0);
    for (int k = 0; k < n; ++k) scale[k] = std::max(std::abs(M[k * (next + 1)]), floor / negligible);
    for (;;) {
        int k = -1;
        double best = negligible;
        for (int i = 0; i < n; ++i) {
            if (done[i] || !(std::abs(M[i * (next + 1)]) > best * scale[i])) continue;
            best = std::abs(M[i * (next + 1)]) / scale[i];
            k = i;
        }
        if (k < 0) break;
        done[k] = 1;
        const double over = 1 / M[k * (next + 1)];
        double* row = M + k * next;
        for (int c = 0; c < n; ++c) row[c] *= over;
        row[k] = over;
        for (int r = 0; r < n; ++r) {
            if (r == k) continue;
            const double by = M[r * next + k];
            M[r * next + k] = 0;
            for (int c = 0; c < n; ++c) M[r * next + c] -= by * row[c];
        }
    }
    for (int r = 0; r < n; ++r)
        for (int c = 0; c < n; ++c) {
            inverse[c * next + r] = done[r] && done[c] ? M[r * next + c] : 0.0;
            if (!done[r] && !done[c] &&
                !(std::abs(M[r * next + c]) <= 10 * negligible * std::sqrt(scale[r] * scale[c])))
                return false;
        }
    return true;
}

// Positive pivots of a symmetric matrix: as many as positive eigenvalues (Sylvester's law of inertia).
inline int positive_pivots(const double* block, int n, int next) {
    std::vector<double> M(block, block + n * next);
    int count = 0;
    for (int k = 0; k < n; ++k) {
        const double pivot = M[k * next + k];
        count += pivot > 0;
        for (int r = k + 1; r < n; ++r) {
            const double by = M[r * next + k] / pivot;
            for (int c = k + 1; c < n; ++c) M[r * next + c] -= by * M[k * next + c];
        }
    }
    return count;
}

}  // namespace supple
