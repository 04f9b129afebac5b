#include "engine/fronts.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <queue>
#include <set>

namespace supple {

namespace {
// Columns are processed in vectors of four with every instruction set.
constexpr int lanes = 4;
typedef double Four __attribute__((vector_size(lanes * sizeof(double)), aligned(8)));

inline Four four(const double* from) { return *reinterpret_cast<const Four*>(from); }
inline void store(double* to, Four value) { *reinterpret_cast<Four*>(to) = value; }

constexpr int paired = 12;  // rows of a pair: a twist and six multipliers
}  // namespace

Fronts::Fronts(std::vector<int> block_sizes, std::vector<std::vector<int>> nodes,
               std::vector<std::vector<int>> elements, int early, const std::vector<int>& inner)
    : block_sizes_(std::move(block_sizes)) {
    block_start_.resize(block_sizes_.size() + 1, 0);
    std::partial_sum(block_sizes_.begin(), block_sizes_.end(), block_start_.begin() + 1);
    size_ = block_start_.back();

    element_start_.push_back(0);
    for (const auto& blocks : elements) {
        auto& rows = element_rows_.emplace_back();
        for (int block : blocks)
            for (int i = 0; i < block_sizes_[block]; ++i) rows.push_back(block_start_[block] + i);
        element_start_.push_back(element_start_.back() + rows.size() * rows.size());
    }
    element_values_.assign(element_start_.back(), 0.0);
    pair_inverses_.assign(36 * nodes.size(), 0.0);
    analyse(nodes, elements, early, inner);
}

// Minimum degree: the node whose elimination couples the fewest unknowns goes first.
void Fronts::analyse(const std::vector<std::vector<int>>& nodes, const std::vector<std::vector<int>>& elements,
                     int early, const std::vector<int>& inner) {
    const int count = static_cast<int>(nodes.size());
    std::vector<int> node_of(block_sizes_.size());
    for (int n = 0; n < count; ++n)
        for (int block : nodes[n]) node_of[block] = n;

    std::vector<std::set<int>> neighbours(count);  // blocks of other nodes coupled to a node
    for (const auto& blocks : elements)
        for (int a : blocks)
            for (int b : blocks)
                if (node_of[a] != node_of[b]) neighbours[node_of[a]].insert(b);

    auto cost = [&](int n) {
        int total = n < early ? 0 : size_;
        for (int block : neighbours[n]) total += block_sizes_[block];
        return total;
    };
    using Entry = std::pair<int, int>;  // cost, node: ties go to the lower node, so the order is reproducible
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::vector<int> current(count);
    std::vector<int> waiting(count, 0);  // outer nodes of the tree that go first
    for (int n = early; n < count; ++n)
        if (inner[n] >= 0) ++waiting[inner[n]];
    for (int n = 0; n < count; ++n) {
        current[n] = cost(n);
        if (!waiting[n]) queue.emplace(current[n], n);
    }

    std::vector<int> position(count, -1);  // when a node is eliminated
    std::vector<int> sequence;
    while (!queue.empty()) {
        auto [degree, n] = queue.top();
        queue.pop();
        if (position[n] >= 0 || degree != current[n]) continue;
        position[n] = static_cast<int>(sequence.size());
        sequence.push_back(n);

        Front front;
        front.node = n;
        front.pair = n >= early;
        for (int block : nodes[n]) front.own += block_sizes_[block];
        std::vector<int> blocks(nodes[n]);
        blocks.insert(blocks.end(), neighbours[n].begin(), neighbours[n].end());
        for (int block : blocks)
            for (int i = 0; i < block_sizes_[block]; ++i) front.rows.push_back(block_start_[block] + i);
        front.total = static_cast<int>(front.rows.size());
        order_.push_back(std::move(front));

        std::set<int> touched;
        for (int block : neighbours[n]) touched.insert(node_of[block]);
        for (int m : touched) {
            for (int block : nodes[n]) neighbours[m].erase(block);
            for (int block : neighbours[n])
                if (node_of[block] != m) neighbours[m].insert(block);
            const int fresh = cost(m);
            if (fresh == current[m]) continue;
            current[m] = fresh;
            if (!waiting[m]) queue.emplace(fresh, m);
        }
        if (n >= early && inner[n] >= 0 && --waiting[inner[n]] == 0) queue.emplace(current[inner[n]], inner[n]);
    }

    // where each element and each remainder is added
    std::vector<int> local(size_, -1);
    std::vector<std::vector<int>> elements_of(count), children_of(count);
    for (int e = 0; e < static_cast<int>(elements.size()); ++e) {
        int first = count;
        for (int block : elements[e]) first = std::min(first, position[node_of[block]]);
        elements_of[first].push_back(e);
    }
    std::vector<int> node_of_row(size_);
    for (int block = 0; block < static_cast<int>(block_sizes_.size()); ++block)
        std::fill(node_of_row.begin() + block_start_[block], node_of_row.begin() + block_start_[block + 1],
                  node_of[block]);
    for (int k = 0; k < count; ++k) {
        const Front& front = order_[k];
        int next = count;
        for (int i = front.own; i < front.total; ++i) next = std::min(next, position[node_of_row[front.rows[i]]]);
        if (next < count) children_of[next].push_back(k);
    }
    std::size_t start = 0;
    for (int k = 0; k < count; ++k) {
        Front& front = order_[k];
        front.start = start;
        front.stride = (front.total + lanes - 1) / lanes * lanes;
        start += static_cast<std::size_t>(front.stride) * front.total;
        if (static_cast<std::size_t>(front.stride) > multipliers_.size()) multipliers_.resize(front.stride);
        for (int i = 0; i < front.total; ++i) local[front.rows[i]] = i;
        for (int e : elements_of[k]) {
            Scatter scatter{e, {}};
            for (int row : element_rows_[e]) scatter.position.push_back(local[row]);
            front.elements.push_back(std::move(scatter));
        }
        for (int c : children_of[k]) {
            Scatter scatter{c, {}};
            for (int i = order_[c].own; i < order_[c].total; ++i) scatter.position.push_back(local[order_[c].rows[i]]);
            front.children.push_back(std::move(scatter));
        }
        pivot_start_.push_back(static_cast<int>(pivots_.size()));
        pivots_.resize(pivots_.size() + front.own);
        const long long x = front.total - paired;
        if (front.pair) operations_ += 36 * x + x * (72 + 12 * x);
        for (long long i = front.pair ? paired : 0; i < front.own; ++i)
            operations_ += (front.total - i) * (front.total - i);
    }
    fronts_.assign(start, 0.0);
    local_.resize(multipliers_.size());
    local_eight_.resize(multipliers_.size());
    together_.resize(size_);
}

int Fronts::factorise(const double* diagonal) {
    int perturbed = 0;
    negative_ = exchanges_ = 0;
    for (Front& front : order_) {
        double* matrix = fronts_.data() + front.start;
        const int n = front.stride;
        std::memset(matrix, 0, sizeof(double) * n * front.total);
        for (int i = 0; i < front.own; ++i) matrix[i * (n + 1)] = diagonal[front.rows[i]];
        for (const Scatter& s : front.elements) {
            const int m = static_cast<int>(s.position.size());
            const double* values = element(s.source);
            for (int j = 0; j < m; ++j) {
                double* column = matrix + static_cast<std::size_t>(s.position[j]) * n;
                for (int i = 0; i < m; ++i) column[s.position[i]] += values[j * m + i];
            }
        }
        for (const Scatter& s : front.children) {
            const Front& child = order_[s.source];
            const int m = static_cast<int>(s.position.size());
            const double* rest = fronts_.data() + child.start +
                                 static_cast<std::size_t>(child.own) * (child.stride + 1);
            for (int j = 0; j < m; ++j) {
                double* column = matrix + static_cast<std::size_t>(s.position[j]) * n;
                const double* values = rest + static_cast<std::size_t>(j) * child.stride;
                for (int i = 0; i < m; ++i) column[s.position[i]] += values[i];
            }
        }
        if (front.pair) eliminate_pair(front);
        perturbed += eliminate(front, front.pair ? paired : 0);
    }
    return perturbed;
}

// The pair (xi, lambda) of the equations, with x for all other rows,
//     H xi + A^T lambda + F x = b_xi,   A xi + C x = b_lambda,   E xi + C' lambda + G x = b_x
// goes by xi = A^-1 b_lambda + T x, T = -A^-1 C, and lambda = A^-T (b_xi - H A^-1 b_lambda - Z x), Z = F + H T, which
// leaves G + E T + T' Z with T' = -C' A^-T. T, Z, T' and A^-1 take the places of C, F, C' and A.
void Fronts::eliminate_pair(Front& front) {
    const int n = front.stride, total = front.total;
    double* matrix = fronts_.data() + front.start;
    const double* inverse = pair_inverses_.data() + 36 * front.node;
    alignas(32) double columns[6][8] = {};  // of A^-1
    for (int j = 0; j < 6; ++j)
        for (int i = 0; i < 6; ++i) columns[j][i] = matrix[j * n + 6 + i] = inverse[6 * j + i];

    for (int i = paired; i < n; i += lanes) {  // T'
        Four right[6];
        for (int j = 0; j < 6; ++j) right[j] = four(matrix + (6 + j) * n + i);
        for (int j = 0; j < 6; ++j) {
            Four sum = inverse[j] * right[0];
            for (int k = 1; k < 6; ++k) sum += inverse[6 * k + j] * right[k];
            store(matrix + (6 + j) * n + i, -sum);
        }
    }
    alignas(32) double t[8], z[8];
    for (int c = paired; c < total; ++c) {
        double* column = matrix + static_cast<std::size_t>(c) * n;
        Four t0 = {}, t1 = {};
        for (int j = 0; j < 6; ++j) {
            t0 -= column[6 + j] * four(columns[j]);
            t1 -= column[6 + j] * four(columns[j] + lanes);
        }
        store(t, t0);
        store(t + lanes, t1);
        Four z0 = four(column), z1 = four(column + lanes);  // rows 6 and 7 are not part of it
        for (int j = 0; j < 6; ++j) {
            z0 += t[j] * four(matrix + j * n);
            z1 += t[j] * four(matrix + j * n + lanes);
        }
        store(z, z0);
        store(z + lanes, z1);
        for (int i = paired; i < n; i += lanes) {
            Four sum = four(column + i);
            for (int j = 0; j < 6; ++j) sum += t[j] * four(matrix + j * n + i) + z[j] * four(matrix + (6 + j) * n + i);
            store(column + i, sum);
        }
        for (int i = 0; i < 6; ++i) {
            column[i] = z[i];
            column[6 + i] = t[i];
        }
    }
}

// Right-looking LU of the own columns from `first` on, pivoting among the own rows. The multipliers are copied out with
// zeros above the pivot, so that every column is updated in whole vectors.
int Fronts::eliminate(Front& front, int first) {
    const int total = front.total, own = front.own, n = front.stride;
    double* matrix = fronts_.data() + front.start;
    double* multipliers = multipliers_.data();
    int* pivots = pivots_.data() + pivot_start_[&front - order_.data()];
    int perturbed = 0;
    double largest = 0;  // pivot so far
    std::fill(multipliers, multipliers + n, 0.0);
    for (int k = first; k < own; ++k) {
        double* pivot_column = matrix + static_cast<std::size_t>(k) * n;
        int best = k;
        // The diagonal of a pair's coordinates is good enough unless it is much smaller than the rest. Amplitudes of a
        // flexible body couple bending with stretching, which is 1e7 times as stiff; an exchange of rows would spoil
        // the sign of a pivot.
        const double keep = !front.pair ? 1 : own - first > 6 ? 1e6 : 100;
        for (int i = k + 1; i < own; ++i)
            if (std::abs(pivot_column[i]) > (best == k ? keep : 1) * std::abs(pivot_column[best])) best = i;
        pivots[k] = best;
        if (best != k) {
            for (int j = first; j < total; ++j) std::swap(matrix[j * n + k], matrix[j * n + best]);
            if (front.pair) ++exchanges_;
        }
        if (!(std::abs(pivot_column[k]) > 1e-16 * largest)) {
            pivot_column[k] = std::copysign(1e-8 * (largest > 0 ? largest : 1.0), pivot_column[k]);
            ++perturbed;
        }
        largest = std::max(largest, std::abs(pivot_column[k]));
        if (front.pair && pivot_column[k] < 0) ++negative_;
        const double inverse = 1 / pivot_column[k];
        multipliers[k] = 0;
        for (int i = k + 1; i < total; ++i) multipliers[i] = pivot_column[i] *= inverse;
        const int start = (k + 1) / lanes * lanes;
        for (int j = k + 1; j < total; ++j) {
            double* column = matrix + static_cast<std::size_t>(j) * n;
            const double factor = column[k];
            if (factor == 0) continue;
            for (int i = start; i < n; i += lanes) store(column + i, four(column + i) - factor * four(multipliers + i));
        }
    }
    return perturbed;
}

// Each front works on a contiguous copy of its rows of x. On the way down a pair keeps A^-1 b_lambda in the place of
// its twist and b_xi - H A^-1 b_lambda in that of its multipliers.
// lambda <- A^-T lambda
template <class Value>
void Fronts::multiply_by_transposed_inverse(const double* matrix, int stride, Value* lambda) {
    Value result[6] = {};
    for (int j = 0; j < 6; ++j)
        for (int i = 0; i < 6; ++i) result[j] += matrix[j * stride + 6 + i] * lambda[i];
    std::copy(result, result + 6, lambda);
}

// One right-hand side, or eight at a time.
template <class Value>
void Fronts::solve_in(Value* x, Value* local) const {
    for (std::size_t f = 0; f < order_.size(); ++f) {  // L y = P b
        const Front& front = order_[f];
        const int total = front.total, n = front.stride, first = front.pair ? paired : 0;
        const double* matrix = fronts_.data() + front.start;
        const int* rows = front.rows.data();
        const int* pivots = pivots_.data() + pivot_start_[f];
        for (int i = 0; i < total; ++i) local[i] = x[rows[i]];
        if (front.pair) {
            Value u[6] = {}, v[6];
            for (int j = 0; j < 6; ++j)
                for (int i = 0; i < 6; ++i) u[i] += matrix[j * n + 6 + i] * local[6 + j];
            for (int i = 0; i < 6; ++i) v[i] = local[i];
            for (int j = 0; j < 6; ++j)
                for (int i = 0; i < 6; ++i) v[i] -= matrix[j * n + i] * u[j];
            for (int j = 0; j < 6; ++j) {
                const double *E = matrix + j * n, *T = matrix + (6 + j) * n;
                for (int i = paired; i < total; ++i) local[i] += T[i] * v[j] - E[i] * u[j];
            }
            for (int i = 0; i < 6; ++i) {
                local[i] = u[i];
                local[6 + i] = v[i];
            }
        }
        for (int k = first; k < front.own; ++k) std::swap(local[k], local[pivots[k]]);
        for (int k = first; k < front.own; ++k) {
            const Value value = local[k];
            const double* column = matrix + static_cast<std::size_t>(k) * n;
            for (int i = k + 1; i < total; ++i) local[i] -= column[i] * value;
        }
        for (int i = 0; i < total; ++i) x[rows[i]] = local[i];
    }
    for (std::size_t f = order_.size(); f-- > 0;) {  // U x = y
        const Front& front = order_[f];
        const int own = front.own, n = front.stride, first = front.pair ? paired : 0;
        const double* matrix = fronts_.data() + front.start;
        const int* rows = front.rows.data();
        for (int i = 0; i < front.total; ++i) local[i] = x[rows[i]];
        for (int j = own; j < front.total; ++j) {
            const double* column = matrix + static_cast<std::size_t>(j) * n;
            for (int i = first; i < own; ++i) local[i] -= column[i] * local[j];
        }
        for (int k = own; k-- > first;) {
            const double* column = matrix + static_cast<std::size_t>(k) * n;
            const Value value = local[k] /= column[k];
            for (int i = first; i < k; ++i) local[i] -= column[i] * value;
        }
        if (front.pair) {
            for (int j = paired; j < front.total; ++j) {  // xi = u + T x; v - Z x
                const double* column = matrix + static_cast<std::size_t>(j) * n;
                for (int i = 0; i < 6; ++i) {
                    local[i] += column[6 + i] * local[j];
                    local[6 + i] -= column[i] * local[j];
                }
            }
            multiply_by_transposed_inverse(matrix, n, local + 6);
        }
        for (int i = 0; i < own; ++i) x[rows[i]] = local[i];
    }
}

void Fronts::solve(double* x, int columns) const {
    int done = 0;
    for (; columns - done > 2; done += 8) {  // eight at a time, padded with zeros
        const int count = std::min(8, columns - done);
        for (int i = 0; i < size_; ++i) {
            Eight row{};
            for (int c = 0; c < count; ++c) row[c] = x[static_cast<std::size_t>(done + c) * size_ + i];
            together_[i] = row;
        }
        solve_in(together_.data(), local_eight_.data());
        for (int c = 0; c < count; ++c)
            for (int i = 0; i < size_; ++i) x[static_cast<std::size_t>(done + c) * size_ + i] = together_[i][c];
    }
    for (; done < columns; ++done) solve_in(x + static_cast<std::size_t>(done) * size_, local_.data());
}

// The transpose has T'^T, Z^T and T^T where the matrix has T, E and T', and E^T for Z.
void Fronts::solve_transposed(double* x, int columns) const {
    double* local = local_.data();
    for (int c = 0; c < columns; ++c, x += size_) {
        for (const Front& front : order_) {  // U^T y = b
            const int own = front.own, total = front.total, n = front.stride, first = front.pair ? paired : 0;
            const double* matrix = fronts_.data() + front.start;
            const int* rows = front.rows.data();
            for (int i = 0; i < total; ++i) local[i] = x[rows[i]];
            if (front.pair) {
                double u[6] = {};
                for (int j = 0; j < 6; ++j)
                    for (int i = 0; i < 6; ++i) u[i] += matrix[j * n + 6 + i] * local[6 + j];
                for (int k = paired; k < total; ++k) {
                    const double* column = matrix + static_cast<std::size_t>(k) * n;
                    for (int i = 0; i < 6; ++i) local[k] += column[6 + i] * local[i] - column[i] * u[i];
                }
                for (int i = 0; i < 6; ++i) {
                    local[6 + i] = local[i];
                    local[i] = u[i];
                }
            }
            for (int k = first; k < own; ++k) {
                const double* column = matrix + static_cast<std::size_t>(k) * n;
                for (int i = first; i < k; ++i) local[k] -= column[i] * local[i];
                local[k] /= column[k];
            }
            for (int j = own; j < total; ++j) {
                const double* column = matrix + static_cast<std::size_t>(j) * n;
                for (int i = first; i < own; ++i) local[j] -= column[i] * local[i];
            }
            for (int i = 0; i < total; ++i) x[rows[i]] = local[i];
        }
        for (std::size_t f = order_.size(); f-- > 0;) {  // L^T P x = y
            const Front& front = order_[f];
            const int total = front.total, n = front.stride, first = front.pair ? paired : 0;
            const double* matrix = fronts_.data() + front.start;
            const int* rows = front.rows.data();
            const int* pivots = pivots_.data() + pivot_start_[f];
            for (int i = 0; i < total; ++i) local[i] = x[rows[i]];
            for (int k = front.own; k-- > first;) {
                const double* column = matrix + static_cast<std::size_t>(k) * n;
                for (int i = k + 1; i < total; ++i) local[k] -= column[i] * local[i];
            }
            for (int k = front.own; k-- > first;) std::swap(local[k], local[pivots[k]]);
            if (front.pair) {
                for (int j = 0; j < 6; ++j)
                    for (int i = paired; i < total; ++i) local[j] += matrix[(6 + j) * n + i] * local[i];
                for (int j = 0; j < 6; ++j) {
                    for (int i = 0; i < 6; ++i) local[6 + j] -= matrix[j * n + i] * local[i];
                    for (int i = paired; i < total; ++i) local[6 + j] -= matrix[j * n + i] * local[i];
                }
                multiply_by_transposed_inverse(matrix, n, local + 6);
            }
            for (int i = 0; i < front.own; ++i) x[rows[i]] = local[i];
        }
    }
}

// Products of an element are formed in contiguous copies of its rows, where the compiler vectorises them.
void Fronts::multiply(const double* x, double* y, bool transposed) const {
    std::fill(y, y + size_, 0.0);
    std::size_t most = 0;
    for (const auto& rows : element_rows_) most = std::max(most, rows.size());
    std::vector<double> work(2 * most);
    double *in = work.data(), *out = in + most;
    for (int e = 0; e < elements(); ++e) {
        const auto& rows = element_rows_[e];
        const int m = static_cast<int>(rows.size());
        const double* values = element(e);
        for (int i = 0; i < m; ++i) in[i] = x[rows[i]];
        if (transposed) {
            const Eigen::Map<const Eigen::VectorXd> right(in, m);
            for (int j = 0; j < m; ++j) y[rows[j]] += Eigen::Map<const Eigen::VectorXd>(values + j * m, m).dot(right);
            continue;
        }
        std::fill(out, out + m, 0.0);
        for (int j = 0; j < m; ++j)
            for (int i = 0; i < m; ++i) out[i] += values[j * m + i] * in[j];
        for (int i = 0; i < m; ++i) y[rows[i]] += out[i];
    }
}

}  // namespace supple
