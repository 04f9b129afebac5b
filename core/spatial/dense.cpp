// The only place where Eigen's products of matrices of any size are compiled; decompositions.
#define SUPPLE_DENSE template
#include "spatial/dense.hpp"

#include <Eigen/Cholesky>
#include <algorithm>

#include "spatial/eight.hpp"

namespace supple::whole {

using Eigen::Index;

// a.operator*(b) is Eigen's; a * b would call these functions recursively
void multiply(const MatrixXd& a, const MatrixXd& b, MatrixXd& into) { into.noalias() = a.operator*(b); }
void multiply_transposed(const MatrixXd& a, const MatrixXd& b, MatrixXd& into) {
    into.noalias() = a.transpose().operator*(b);
}
void multiply(const MatrixXd& a, const VectorXd& b, VectorXd& into) { into.noalias() = a.operator*(b); }
void multiply_transposed(const MatrixXd& a, const VectorXd& b, VectorXd& into) {
    into.noalias() = a.transpose().operator*(b);
}

namespace {

// y += s x
void add(double s, const double* x, double* y, Index n) {
    for (Index i = 0; i < n; ++i) y[i] += s * x[i];
}

// x <- (L L^T)^-1 x for the columns of x
template <class T>
T solve_by_cholesky(MatrixXd a, T x) {
    const Index n = a.rows();
    double* L = a.data();
    for (Index j = 0; j < n; ++j) {
        double* column = L + n * j;
        const double inverse = 1 / std::sqrt(column[j]);
        for (Index i = j; i < n; ++i) column[i] *= inverse;
        for (Index k = j + 1; k < n; ++k) add(-column[k], column + k, L + n * k + k, n - k);
    }
    for (Index c = 0; c < x.cols(); ++c) {
        double* z = x.data() + n * c;
        for (Index j = 0; j < n; ++j) {
            z[j] /= L[n * j + j];
            add(-z[j], L + n * j + j + 1, z + j + 1, n - j - 1);
        }
        for (Index j = n; j-- > 0;) {
            for (Index i = j + 1; i < n; ++i) z[j] -= L[n * j + i] * z[i];
            z[j] /= L[n * j + j];
        }
    }
    return x;
}

}  // namespace

MatrixXd solve_positive(const MatrixXd& a, const MatrixXd& b) { return solve_by_cholesky(a, b); }
VectorXd solve_positive(const MatrixXd& a, const VectorXd& b) { return solve_by_cholesky(a, b); }
MatrixXd solve_semidefinite(const MatrixXd& a, const MatrixXd& b) { return a.ldlt().solve(b); }
VectorXd solve_general(const MatrixXd& a, VectorXd b) {
    LU(a).solve_in_place(b);
    return b;
}
MatrixXd inverse(const MatrixXd& a) {
    MatrixXd result = MatrixXd::Identity(a.rows(), a.rows());
    LU(a).solve_in_place(result);
    return result;
}

void LU::resize(Index n) {
    if (n == n_ && regular_) return;  // zeros stand beyond n
    n_ = n;
    stride_ = (n + width - 1) / width * width;
    lower_.assign(stride_ * n + width, 0.0);
    upper_.assign(stride_ * n, 0.0);
    exchanged_.resize(n);
}

void LU::compute(const MatrixXd& a) {
    resize(a.rows());
    for (Index j = 0; j < n_; ++j) std::copy_n(a.data() + n_ * j, n_, column(j));
    factorise();
}

void LU::factorise() {
    stride_ == width ? eliminate<1>() : stride_ == 2 * width ? eliminate<2>() : eliminate<0>();
    regular_ = true;
    for (Index j = 0; j < n_; ++j) regular_ = regular_ && std::isfinite(upper_[stride_ * j + j]);
}

// `fixed`: vectors of eight numbers in a column, 0 if that is not known at compile time. In the remaining columns the
// rows that have been eliminated are zero to rounding. Single numbers are never written into a vector that is read
// next, because the read would wait.
template <int fixed>
void LU::eliminate() {
    const Index stride = fixed ? fixed * width : stride_;
    double *L = lower_.data(), *U = upper_.data();
    for (Index j = 0; j < n_; ++j) {
        double* column = L + stride * j;
        const Index from = j / width * width;
        Eight most = absolute(load(column + from));
        for (Index i = from + width; i < stride; i += width) most = larger(most, absolute(load(column + i)));
        exchanged_[j] = j;
        if (std::abs(column[j]) < 0.1 * largest(most)) {  // a pivot that is not much smaller than the largest stays
            Index best = j;
            for (Index i = j + 1; i < n_; ++i)
                if (std::abs(column[i]) > std::abs(column[best])) best = i;
            exchanged_[j] = best;
            for (Index k = 0; k < n_; ++k) std::swap(L[stride * k + j], L[stride * k + best]);
        }
        const double inverse = 1 / column[j];
        U[stride * j + j] = inverse;
        for (Index i = from; i < stride; i += width) store(column + i, inverse * load(column + i));
        for (Index k = j + 1; k < n_; ++k) {
            double* other = L + stride * k;
            const double by = U[stride * k + j] = other[j];
            for (Index i = from; i < stride; i += width) store(other + i, load(other + i) - by * load(column + i));
        }
    }
}

// x <- A^-1 x, with x padded as a column and followed by as many numbers to work with
template <int fixed>
void LU::solve(double* x) const {
    const Index stride = fixed ? fixed * width : stride_;
    double* work = x + stride;
    const double *L = lower_.data(), *U = upper_.data();
    for (Index j = 0; j < n_; ++j) std::swap(x[j], x[exchanged_[j]]);
    for (Index j = 0; j < n_; ++j) {
        work[j] = x[j];
        for (Index i = j / width * width; i < stride; i += width)
            store(x + i, load(x + i) - work[j] * load(L + stride * j + i));
    }
    for (Index j = n_; j-- > 0;) {
        x[j] = work[j] * U[stride * j + j];
        for (Index i = 0; i < j; i += width) store(work + i, load(work + i) - x[j] * load(U + stride * j + i));
    }
}

void LU::solve_columns(double* b, Index columns) const {
    double few[128] = {};
    std::vector<double> many(stride_ > 64 ? 2 * stride_ : 0);
    double* x = stride_ > 64 ? many.data() : few;
    for (double* column = b; column != b + n_ * columns; column += n_) {
        std::copy_n(column, n_, x);
        stride_ == width ? solve<1>(x) : stride_ == 2 * width ? solve<2>(x) : solve<0>(x);
        std::copy_n(x, n_, column);
    }
}

SymmetricEigen::SymmetricEigen(MatrixXd a) {
    const Index n = a.rows();
    vectors = MatrixXd::Identity(n, n);
    double *A = a.data(), *V = vectors.data();
    const double tiny = 1e-32 * a.squaredNorm();  // of the squares off the diagonal
    for (int sweep = 0; sweep < 60; ++sweep) {
        double off = 0;
        for (Index q = 1; q < n; ++q)
            for (Index p = 0; p < q; ++p) off += A[n * q + p] * A[n * q + p];
        if (!(off > tiny)) break;
        for (Index q = 1; q < n; ++q) {
            for (Index p = 0; p < q; ++p) {
                const double apq = A[n * q + p];
                if (apq == 0) continue;
                // the rotation by the smaller angle that makes the entry zero
                const double cot = (A[n * q + q] - A[n * p + p]) / (2 * apq);
                const double t = std::copysign(1 / (std::abs(cot) + std::hypot(cot, 1.0)), cot);
                const double c = 1 / std::hypot(t, 1.0), s = t * c;
                auto turn = [&](double& x, double& y) {
                    const double first = x;
                    x = c * first - s * y;
                    y = s * first + c * y;
                };
                for (Index i = 0; i < n; ++i) turn(A[n * p + i], A[n * q + i]);
                for (Index i = 0; i < n; ++i) turn(A[n * i + p], A[n * i + q]);
                for (Index i = 0; i < n; ++i) turn(V[n * p + i], V[n * q + i]);
            }
        }
    }
    values = a.diagonal();
}

}  // namespace supple::whole
