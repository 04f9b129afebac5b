#include "elastic/reduced_force.hpp"

#include <algorithm>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpsabi"  // these vectors are arguments of inlined functions only

namespace supple {

namespace {

constexpr int lanes = 4;
typedef double Four __attribute__((vector_size(8 * lanes)));

inline Four load_four(const double* from) {
    Four v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

inline void add_to(double* to, const Four& v) {
    const Four sum = load_four(to) + v;
    std::memcpy(to, &sum, sizeof sum);
}

inline double sum_of(const Four& v) { return (v[0] + v[1]) + (v[2] + v[3]); }

// y += sum_j columns[j] x_j, four columns at a time so that y is read and written less often
void add_columns(int rows, int count, const double* columns, const double* x, double* y) {
    int j = 0;
    for (; j + 4 <= count; j += 4) {
        const double *a = columns + std::size_t(j) * rows, *b = a + rows, *c = b + rows, *d = c + rows;
        for (int i = 0; i < rows; ++i) y[i] += (a[i] * x[j] + b[i] * x[j + 1]) + (c[i] * x[j + 2] + d[i] * x[j + 3]);
    }
    for (; j < count; ++j)
        for (int i = 0; i < rows; ++i) y[i] += columns[std::size_t(j) * rows + i] * x[j];
}

}  // namespace

QuarticForce::QuarticForce(int modes, const double* quadratic, const double* cubic, const double* quartic)
    : ReducedForce(modes),
      pairs_(modes * (modes + 1) / 2),
      padded_((pairs_ + lanes - 1) / lanes * lanes),
      quadratic_(padded_),
      cubic_(std::size_t(modes) * padded_),
      quartic_(std::size_t(pairs_) * padded_),
      K3_(padded_),
      K4_(padded_),
      products_(pairs_) {
    std::copy_n(quadratic, pairs_, quadratic_.begin());
    for (int p = 0; p < pairs_; ++p) {
        for (int k = 0; k < modes; ++k) cubic_[std::size_t(k) * padded_ + p] = cubic[p * modes + k];
        // K4 e_m e_n / 2 is summed over all ordered pairs: a pair of different amplitudes counts twice
        for (int m = 0, pair = 0; m < modes; ++m)
            for (int n = 0; n <= m; ++n, ++pair)
                quartic_[std::size_t(pair) * padded_ + p] = quartic[std::size_t(p) * pairs_ + pair] *
                                                            (m == n ? 0.5 : 1.0);
    }
}

double QuarticForce::evaluate(const double* eta, double* force, double* tangent) {
    const int r = modes_;
    for (int k = 0, p = 0; k < r; ++k)
        for (int l = 0; l <= k; ++l) products_[p++] = eta[k] * eta[l];
    std::fill(K3_.begin(), K3_.end(), 0.0);
    std::fill(K4_.begin(), K4_.end(), 0.0);
    add_columns(padded_, r, cubic_.data(), eta, K3_.data());
    add_columns(padded_, pairs_, quartic_.data(), products_.data(), K4_.data());
    // the second derivative is K2 + K3 e + 1/2 K4 e e; Euler's theorem for each degree gives the gradient and the
    // energy
    std::fill_n(force, r, 0.0);
    double energy = 0;
    for (int k = 0, p = 0; k < r; ++k)
        for (int l = 0; l <= k; ++l, ++p) {
            const double slope = quadratic_[p] + K3_[p] / 2 + K4_[p] / 3;
            force[k] += slope * eta[l];
            if (l < k) force[l] += slope * eta[k];
            energy += (l < k ? 2 : 1) * (quadratic_[p] / 2 + K3_[p] / 6 + K4_[p] / 12) * products_[p];
            if (tangent) tangent[k * r + l] = tangent[l * r + k] = quadratic_[p] + K3_[p] + K4_[p];
        }
    return energy;
}

CubatureForce::CubatureForce(int modes, int points, const double* gradients, const double* weights, const Law& law)
    : ReducedForce(modes),
      law_(law),
      blocks_((points + lanes - 1) / lanes),
      gradients_(std::size_t(blocks_) * modes * 9 * lanes),
      weights_(std::size_t(blocks_) * lanes),
      changes_(std::size_t(modes) * 9 * lanes),
      sums_(std::size_t(modes) * (modes + 3) / 2 * lanes) {
    std::copy_n(weights, points, weights_.begin());
    for (int q = 0; q < points; ++q)
        for (int i = 0; i < 9; ++i)
            for (int k = 0; k < modes; ++k)
                gradients_[((std::size_t(q / lanes) * modes + k) * 9 + i) * lanes +
                           q % lanes] = gradients[(std::size_t(q) * 9 + i) * modes + k];
}

double CubatureForce::evaluate(const double* eta, double* force, double* tangent) {
    const int r = modes_;
    std::fill(sums_.begin(), sums_.end(), 0.0);
    double* first = sums_.data();  // (r, 4) force
    double* second = sums_.data() + std::size_t(r) * lanes;  // (p, 4) packed tangent
    Four energy = {};
    for (int block = 0; block < blocks_; ++block) {
        const double* own = gradients_.data() + std::size_t(block) * r * 9 * lanes;
        const Four weight = load_four(weights_.data() + block * lanes);
        Four F[9] = {};
        for (int i = 0; i < 9; i += 4) F[i] += 1.0;
        for (int k = 0; k < r; ++k)
            for (int i = 0; i < 9; ++i) F[i] += eta[k] * load_four(own + (k * 9 + i) * lanes);
        const Deformed<Four> at(law_, F);
        energy += weight * at.energy;
        for (int k = 0; k < r; ++k) {
            Four g[9];
            for (int i = 0; i < 9; ++i) g[i] = load_four(own + (k * 9 + i) * lanes);
            add_to(first + k * lanes, weight * dot9(at.P, g));
            if (!tangent) continue;
            Four dP[9];
            at.stress_change(law_, g, dP);
            for (int i = 0; i < 9; ++i) {
                dP[i] *= weight;
                std::memcpy(changes_.data() + (k * 9 + i) * lanes, &dP[i], sizeof(Four));
            }
        }
        if (!tangent) continue;
        for (int k = 0, p = 0; k < r; ++k) {
            Four dP[9];
            for (int i = 0; i < 9; ++i) dP[i] = load_four(changes_.data() + (k * 9 + i) * lanes);
            for (int l = 0; l <= k; ++l, ++p) {
                Four sum = dP[0] * load_four(own + l * 9 * lanes);
                for (int i = 1; i < 9; ++i) sum += dP[i] * load_four(own + (l * 9 + i) * lanes);
                add_to(second + p * lanes, sum);
            }
        }
    }
    for (int k = 0; k < r; ++k) force[k] = sum_of(load_four(first + k * lanes));
    if (tangent)
        for (int k = 0, p = 0; k < r; ++k)
            for (int l = 0; l <= k; ++l, ++p)
                tangent[k * r + l] = tangent[l * r + k] = sum_of(load_four(second + p * lanes));
    return sum_of(energy);
}

}  // namespace supple
