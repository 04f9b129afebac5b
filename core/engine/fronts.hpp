// Sparse LU of a matrix that is a sum of small dense elements: the multifrontal method. The pattern is analysed
// once; every factorisation is then a fixed sequence of small dense eliminations ("fronts").
//
// Unknowns come in blocks (a body's twist, a joint's multipliers, ...) and blocks in nodes. The unknowns of one node
// are eliminated together, with row pivoting inside the node. A joint's multipliers share the node of the body that
// the joint holds: the pair [[H, A^T], [A, 0]] is regular for every H. The caller knows the inverse of A, so the pair
// is eliminated at once, without pivoting.
#pragma once

#include <vector>

#include "spatial/eight.hpp"

namespace supple {

class Fronts {
   public:
    // block_sizes[i]: unknowns in block i, numbered one after the other. nodes[n]: the blocks of node n; every block
    // is in one node. elements[e]: the blocks that element e couples, in the order of its dense matrix. The first
    // `early` nodes are eliminated before all others. The later ones are pairs: their first two blocks are a twist
    // and the multipliers of the joint that holds it, which nothing but the twist, its own coordinates and one
    // other twist enters; they form a tree, inner[n] being the node next to n, and go from its leaves to its root.
    Fronts(std::vector<int> block_sizes, std::vector<std::vector<int>> nodes, std::vector<std::vector<int>> elements,
           int early, const std::vector<int>& inner);

    int size() const { return size_; }
    int elements() const { return static_cast<int>(element_start_.size()) - 1; }
    int element_size(int e) const { return static_cast<int>(element_rows_[e].size()); }
    // Dense matrix of element e, column major; the caller fills it.
    double* element(int e) { return element_values_.data() + element_start_[e]; }
    const double* element(int e) const { return element_values_.data() + element_start_[e]; }
    const std::vector<int>& element_rows(int e) const { return element_rows_[e]; }

    // Negative pivots of the pairs' own coordinates in the last factorisation: for a symmetric matrix, its number of
    // unstable directions.
    int negative() const { return negative_; }
    // Whether the determinant of the pairs' own coordinates, after all other unknowns are eliminated, is negative: the
    // product of their pivots, times -1 for each exchange of rows. Its sign holds for unsymmetric matrices too.
    // Whether the matrix has an unstable direction. Exchanges of rows spoil the signs of single pivots; then only that
    // of the determinant tells.
    bool indefinite() const { return exchanges_ ? negative_determinant() : negative_ > 0; }
    bool negative_determinant() const { return (negative_ + exchanges_) % 2 != 0; }

    // Inverse of the block A of a pair, 6x6 column major; the caller fills it.
    double* pair_inverse(int node) { return pair_inverses_.data() + 36 * node; }

    // Factorises the sum of the elements with `diagonal` (size()) added. Pivots that vanish are replaced by a small
    // one: returns how many, solutions then need refining.
    int factorise(const double* diagonal);

    // Solves A x = b, or A^T x = b, in place for `columns` right-hand sides of size() each.
    void solve(double* x, int columns = 1) const;
    void solve_transposed(double* x, int columns = 1) const;

    // y = (sum of elements) x, or its transpose times x; without the diagonal.
    void multiply(const double* x, double* y, bool transposed = false) const;

    // Floating-point numbers held by the factors, and multiply-adds of one factorisation (an upper bound).
    long long storage() const { return static_cast<long long>(fronts_.size()); }
    long long operations() const { return operations_; }

   private:
    struct Scatter {  // an element, or an earlier front's remainder, added into a front
        int source = 0;
        std::vector<int> position;  // row in the front for each row of the source
    };
    struct Front {
        int own = 0, total = 0;  // rows eliminated here, and rows in all
        int node = 0;
        bool pair = false;
        int stride = 0;  // between columns: total, rounded up to whole vectors
        std::size_t start = 0;  // of its column-major matrix in fronts_
        std::vector<int> rows;  // global unknowns; the first `own` are eliminated here
        std::vector<Scatter> elements, children;
    };
    void analyse(const std::vector<std::vector<int>>& nodes, const std::vector<std::vector<int>>& elements, int early,
                 const std::vector<int>& inner);
    void eliminate_pair(Front& front);
    int eliminate(Front& front, int first);
    template <class Value>
    static void multiply_by_transposed_inverse(const double* matrix, int stride, Value* lambda);
    template <class Value>
    void solve_in(Value* x, Value* local) const;

    std::vector<int> block_sizes_, block_start_;
    int size_ = 0;
    long long operations_ = 0;
    std::vector<std::vector<int>> element_rows_;
    std::vector<std::size_t> element_start_;
    std::vector<double> element_values_;
    std::vector<Front> order_;
    std::vector<double> fronts_;
    std::vector<double> multipliers_;
    std::vector<double> pair_inverses_;
    int negative_ = 0;
    int exchanges_ = 0;  // of rows of the pairs' own coordinates
    mutable std::vector<double> local_;
    mutable std::vector<Eight> local_eight_, together_;
    std::vector<int> pivots_;  // row swaps inside each node, by the global position of the node's rows
    std::vector<int> pivot_start_;
};

}  // namespace supple
