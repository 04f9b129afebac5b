#include "elastic/elements.hpp"

#include <algorithm>
#include <cmath>

namespace supple {

namespace {

constexpr int edges[6][2] = {{0, 1}, {1, 2}, {0, 2}, {0, 3}, {1, 3}, {2, 3}};

// Runs over [0, count) in one contiguous range per thread.
template <class Work>
void shared_loop(Team& team, int count, const Work& work) {
    team.run([&](int thread, int threads) {
        const long long n = count;
        for (int i = static_cast<int>(n * thread / threads); i < static_cast<int>(n * (thread + 1) / threads); ++i)
            work(i);
    });
}

// Groups items 0 .. keys.size() - 1 by key: items of key k are items[starts[k]] .. items[starts[k + 1] - 1], ascending.
void group(const std::vector<int>& keys, int key_count, std::vector<int>& starts, std::vector<int>& items) {
    starts.assign(key_count + 1, 0);
    for (int key : keys) ++starts[key + 1];
    for (int k = 0; k < key_count; ++k) starts[k + 1] += starts[k];
    std::vector<int> next(starts.begin(), starts.end() - 1);
    items.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) items[next[keys[i]]++] = static_cast<int>(i);
}

}  // namespace

Elements::Elements(const double* nodes, int node_count, const int* tets, int tet_count, const Law& law)
    : law_(law),
      node_count_(node_count),
      tets_(tet_count),
      gradients_(std::size_t(tet_count) * points * corners * 3),
      volumes_(tet_count) {
    constexpr double a = 0.5854101966249685, b = 0.1381966011250105;  // (5 + 3 sqrt 5) / 20, (5 - sqrt 5) / 20
    for (int e = 0; e < tet_count; ++e) {
        std::copy_n(tets + corners * e, corners, tets_[e].begin());
        const double* x[4];
        for (int i = 0; i < 4; ++i) x[i] = nodes + 3 * tets_[e][i];
        double J[9], cof[9];  // columns of J: edges from corner 0
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j) J[3 * i + j] = x[j + 1][i] - x[0][i];
        cofactor(J, cof);
        const double det = J[0] * cof[0] + J[1] * cof[1] + J[2] * cof[2];
        volumes_[e] = det / 24;
        double dL[4][3];  // gradients of the barycentric coordinates
        for (int i = 0; i < 3; ++i) {
            for (int k = 0; k < 3; ++k) dL[k + 1][i] = cof[3 * i + k] / det;
            dL[0][i] = -(dL[1][i] + dL[2][i] + dL[3][i]);
        }
        for (int q = 0; q < points; ++q) {
            double* g = gradients_.data() + (std::size_t(e) * points + q) * corners * 3;
            double L[4] = {b, b, b, b};
            L[q] = a;
            for (int i = 0; i < 3; ++i) {
                for (int k = 0; k < 4; ++k) g[3 * k + i] = (4 * L[k] - 1) * dL[k][i];
                for (int k = 0; k < 6; ++k) {
                    const auto [p, r] = edges[k];
                    g[3 * (4 + k) + i] = 4 * (L[p] * dL[r][i] + L[r] * dL[p][i]);
                }
            }
        }
    }
    find_pattern();
    const int threads = tet_count < 64 ? 1 : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
    team_ = std::make_unique<Team>(threads);
    element_forces_.resize(std::size_t(tet_count) * unknowns);
    energies_.resize(tet_count);
    determinants_.resize(tet_count);
}

void Elements::find_pattern() {
    std::vector<int> keys;
    keys.reserve(tets_.size() * corners);
    for (const auto& tet : tets_) keys.insert(keys.end(), tet.begin(), tet.end());
    group(keys, node_count_, node_starts_, node_items_);
    row_starts_.assign(1, 0);
    std::vector<int> neighbours;
    for (int n = 0; n < node_count_; ++n) {
        neighbours.clear();
        for (int i = node_starts_[n]; i < node_starts_[n + 1]; ++i) {
            const auto& tet = tets_[node_items_[i] / corners];
            neighbours.insert(neighbours.end(), tet.begin(), tet.end());
        }
        std::sort(neighbours.begin(), neighbours.end());
        neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
        columns_.insert(columns_.end(), neighbours.begin(), neighbours.end());
        row_starts_.push_back(static_cast<int>(columns_.size()));
    }
    keys.clear();
    for (const auto& tet : tets_)
        for (int row : tet)
            for (int column : tet) {
                const auto first = columns_.begin() + row_starts_[row], last = columns_.begin() + row_starts_[row + 1];
                keys.push_back(static_cast<int>(std::lower_bound(first, last, column) - columns_.begin()));
            }
    group(keys, static_cast<int>(columns_.size()), block_starts_, block_items_);
}

void Elements::add_gradient(int e, int q, const double* u, double* F) const {
    const double* g = gradient(e, q);
    for (int a = 0; a < corners; ++a) {
        const double* own = u + 3 * tets_[e][a];
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j) F[3 * i + j] += own[i] * g[3 * a + j];
    }
}

void Elements::element(int e, const double* u, const double* last_step, bool with_tangent) {
    double* f = element_forces_.data() + std::size_t(e) * unknowns;
    double* K = with_tangent ? element_tangents_.data() + std::size_t(e) * unknowns * unknowns : nullptr;
    std::fill_n(f, unknowns, 0.0);
    if (K) std::fill_n(K, unknowns * unknowns, 0.0);
    double energy = 0, smallest = INFINITY;
    const double volume = volumes_[e];
    for (int q = 0; q < points; ++q) {
        const double* g = gradient(e, q);
        double F[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
        add_gradient(e, q, u, F);
        Deformed<double> at(law_, F);
        energy += volume * at.energy;
        smallest = std::min(smallest, at.det);
        for (int a = 0; a < corners; ++a)
            for (int i = 0; i < 3; ++i)
                f[3 * a + i] += volume * (at.P[3 * i] * g[3 * a] + at.P[3 * i + 1] * g[3 * a + 1] +
                                          at.P[3 * i + 2] * g[3 * a + 2]);
        if (!K) continue;
        if (last_step) {
            double dF[9] = {};
            add_gradient(e, q, last_step, dF);
            at.extrapolate_stress(law_, dF);
        }
        double D[9][9];  // D[l][k]: change of stress k per unit of deformation gradient l
        for (int l = 0; l < 9; ++l) {
            double unit[9] = {};
            unit[l] = volume;
            at.stress_change(law_, unit, D[l]);
        }
        for (int a = 0; a < corners; ++a)
            for (int i = 0; i < 3; ++i) {  // change of stress per unit displacement i of node a
                double dP[9];
                for (int k = 0; k < 9; ++k)
                    dP[k] = D[3 * i][k] * g[3 * a] + D[3 * i + 1][k] * g[3 * a + 1] + D[3 * i + 2][k] * g[3 * a + 2];
                double* row = K + (3 * a + i) * unknowns;
                for (int b = 0; b < corners; ++b)
                    for (int k = 0; k < 3; ++k)
                        row[3 * b + k] += dP[3 * k] * g[3 * b] + dP[3 * k + 1] * g[3 * b + 1] +
                                          dP[3 * k + 2] * g[3 * b + 2];
            }
    }
    energies_[e] = energy;
    determinants_[e] = smallest;
}

double Elements::evaluate(const double* u, double* force, double* tangent, int& inverted, const double* last_step) {
    if (tangent) element_tangents_.resize(tets_.size() * unknowns * unknowns);
    shared_loop(*team_, count(), [&](int e) { element(e, u, last_step, tangent != nullptr); });
    shared_loop(*team_, node_count_, [&](int n) {
        double sum[3] = {};
        for (int i = node_starts_[n]; i < node_starts_[n + 1]; ++i)
            for (int k = 0; k < 3; ++k) sum[k] += element_forces_[3 * std::size_t(node_items_[i]) + k];
        std::copy_n(sum, 3, force + 3 * n);
    });
    if (tangent)
        shared_loop(*team_, static_cast<int>(columns_.size()), [&](int block) {
            double sum[9] = {};
            for (int i = block_starts_[block]; i < block_starts_[block + 1]; ++i) {
                const int item = block_items_[i], e = item / (corners * corners), pair = item % (corners * corners);
                const double* K = element_tangents_.data() + std::size_t(e) * unknowns * unknowns +
                                  3 * (pair / corners) * unknowns + 3 * (pair % corners);
                for (int r = 0; r < 3; ++r)
                    for (int c = 0; c < 3; ++c) sum[3 * r + c] += K[r * unknowns + c];
            }
            std::copy_n(sum, 9, tangent + 9 * std::size_t(block));
        });
    double energy = 0;
    for (double own : energies_) energy += own;
    const auto worst = std::min_element(determinants_.begin(), determinants_.end());
    inverted = *worst > 0 ? -1 : static_cast<int>(worst - determinants_.begin());
    return energy;
}

}  // namespace supple
