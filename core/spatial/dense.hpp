// Eigen, with its products of matrices of any size compiled once, in dense.cpp; and decompositions of such matrices.
// Eigen's own decompositions take ten seconds to compile and are written for matrices larger than those of a reduced
// model.
#pragma once

#include <Eigen/Core>
#include <Eigen/Geometry>
#include <Eigen/LU>
#include <cmath>
#include <concepts>
#include <utility>
#include <vector>

#ifndef SUPPLE_DENSE
#define SUPPLE_DENSE extern template
#endif

namespace Eigen {
namespace internal {

// C += a A B for all storage orders of A and B
SUPPLE_DENSE struct general_matrix_matrix_product<Index, double, ColMajor, false, double, ColMajor, false, ColMajor, 1>;
SUPPLE_DENSE struct general_matrix_matrix_product<Index, double, ColMajor, false, double, RowMajor, false, ColMajor, 1>;
SUPPLE_DENSE struct general_matrix_matrix_product<Index, double, RowMajor, false, double, ColMajor, false, ColMajor, 1>;
SUPPLE_DENSE struct general_matrix_matrix_product<Index, double, RowMajor, false, double, RowMajor, false, ColMajor, 1>;
using PlainMapper = blas_data_mapper<double, Index, ColMajor, Unaligned, 1>;
SUPPLE_DENSE struct gebp_kernel<double, double, Index, PlainMapper, gebp_traits<double, double>::mr,
                                gebp_traits<double, double>::nr, false, false>;

// y += a A x
using ColumnsMapper = const_blas_data_mapper<double, Index, ColMajor>;
using RowsMapper = const_blas_data_mapper<double, Index, RowMajor>;
SUPPLE_DENSE struct general_matrix_vector_product<Index, double, ColumnsMapper, ColMajor, false, double, RowsMapper,
                                                  false, 0>;
SUPPLE_DENSE struct general_matrix_vector_product<Index, double, RowsMapper, RowMajor, false, double, ColumnsMapper,
                                                  false, 0>;

}  // namespace internal
}  // namespace Eigen

// Sums, products and solutions of matrices of any size, evaluated at once by functions that are compiled once. They
// serve code that opens this namespace, and are preferred to Eigen's where both operands are whole matrices or vectors.
// Each allocates its result.
namespace supple::whole {

using Eigen::MatrixXd, Eigen::VectorXd;
using Transposed = Eigen::Transpose<const MatrixXd>;

void multiply(const MatrixXd& a, const MatrixXd& b, MatrixXd& into);
void multiply_transposed(const MatrixXd& a, const MatrixXd& b, MatrixXd& into);  // a^T b
void multiply(const MatrixXd& a, const VectorXd& b, VectorXd& into);
void multiply_transposed(const MatrixXd& a, const VectorXd& b, VectorXd& into);
MatrixXd solve_positive(const MatrixXd& a, const MatrixXd& b);  // a^-1 b by Cholesky's method
VectorXd solve_positive(const MatrixXd& a, const VectorXd& b);
// The same where a may be singular: L D L^T with pivoting
MatrixXd solve_semidefinite(const MatrixXd& a, const MatrixXd& b);
VectorXd solve_general(const MatrixXd& a, VectorXd b);  // a^-1 b by L U with row pivoting
MatrixXd inverse(const MatrixXd& a);

// P A = L U with row pivoting. A singular matrix gives infinite or undefined numbers.
class LU {
   public:
    LU() = default;
    explicit LU(const MatrixXd& a) { compute(a); }
    void compute(const MatrixXd& a);
    // The same for a matrix that is written in place, column after column: `resize`, `column`, `factorise`. A column
    // has room for eight more numbers; those written beyond n must be zero.
    void resize(Eigen::Index n);
    double* column(Eigen::Index j) { return lower_.data() + stride_ * j; }
    void factorise();
    void solve_in_place(MatrixXd& b) const { solve_columns(b.data(), b.cols()); }
    void solve_in_place(VectorXd& b) const { solve_columns(b.data(), 1); }

   private:
    template <int fixed>
    void eliminate();
    template <int fixed>
    void solve(double* x) const;
    void solve_columns(double* b, Eigen::Index columns) const;

    bool regular_ = false;  // the last factors are finite
    Eigen::Index n_ = 0, stride_ = 0;  // columns are padded to a multiple of eight numbers
    // Columns of L, whose diagonal is 1, and of U, with the inverse of its diagonal; numbers of U below it are zero
    std::vector<double> lower_, upper_;
    std::vector<Eigen::Index> exchanged_;  // row i was exchanged with exchanged_[i]
};

// A = V diag(values) V^T by Jacobi's rotations; values in no order
struct SymmetricEigen {
    explicit SymmetricEigen(MatrixXd a);

    VectorXd values;
    MatrixXd vectors;  // columns
};

template <class T>
concept Whole = std::same_as<T, MatrixXd> || std::same_as<T, VectorXd>;

template <Whole T>
T operator*(const std::same_as<MatrixXd> auto& a, const T& b) {
    T c;
    multiply(a, b, c);
    return c;
}

template <Whole T>
T operator*(const Transposed& a, const T& b) {
    T c;
    multiply_transposed(a.nestedExpression(), b, c);
    return c;
}

template <Whole T>
T operator*(double s, T a) {
    for (Eigen::Index i = 0; i < a.size(); ++i) a.data()[i] *= s;
    return a;
}

template <Whole T>
T operator+(T a, const T& b) {
    for (Eigen::Index i = 0; i < a.size(); ++i) a.data()[i] += b.data()[i];
    return a;
}

template <Whole T>
T operator-(T a, const T& b) {
    for (Eigen::Index i = 0; i < a.size(); ++i) a.data()[i] -= b.data()[i];
    return a;
}

// For fixed sizes, with all columns of b in one loop
template <int n, int m>
Eigen::Matrix<double, n, m> solve_positive(const Eigen::Matrix<double, n, n>& a, const Eigen::Matrix<double, n, m>& b)
    requires(n != Eigen::Dynamic)
{
    double L[n][n], x[n][m];  // a = L L^T, with the inverse of L's diagonal on its diagonal
    for (int j = 0; j < n; ++j) {
        for (int i = j; i < n; ++i) {
            double sum = a.data()[i + n * j];
            for (int k = 0; k < j; ++k) sum -= L[i][k] * L[j][k];
            L[i][j] = i == j ? 1 / std::sqrt(sum) : sum * L[j][j];
        }
    }
    for (int i = 0; i < n; ++i) {
        for (int c = 0; c < m; ++c) x[i][c] = b.data()[i + n * c];
        for (int k = 0; k < i; ++k)
            for (int c = 0; c < m; ++c) x[i][c] -= L[i][k] * x[k][c];
        for (int c = 0; c < m; ++c) x[i][c] *= L[i][i];
    }
    Eigen::Matrix<double, n, m> result;
    for (int i = n; i-- > 0;) {
        for (int k = i + 1; k < n; ++k)
            for (int c = 0; c < m; ++c) x[i][c] -= L[k][i] * x[k][c];
        for (int c = 0; c < m; ++c) result.data()[i + n * c] = x[i][c] *= L[i][i];
    }
    return result;
}

}  // namespace supple::whole
