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
void multiply_transposed(const MatrixXd& a, const MatrixXd& b, MatrixXd& into) { into.noalias() = a.transpose().operator*(b); }
void multiply(const MatrixXd& a, const VectorXd& b, VectorXd& into) { into.noalias() = a.operator*(b); }
void multiply_transposed(const MatrixXd& a, const VectorXd& b, VectorXd& into) { into.noalias() = a.transpose().operator*(b); }

namespace {

// y += s x
void add(double s, const double* x, double* y, Index n) {
    for (Index i = 0; i < n; ++i) y[i] += s * x[i];
}

// y += s x for whole vectors of eight numbers that contain those from `first` up to `last`
void add_eights(double s, const double* x, double* y, Index first, Index last) {
    for (Index i = first / width * width; i < last; i += width) store(y + i, load(y + i) + s * load(x + i));
}

void swap_eights(double* x, double* y, Index last) {
    for (Index i = 0; i < last; i += width) {
        const Eight kept = load(x + i);
        store(x + i, load(y + i));
        store(y + i, kept);
    }
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

void LU::compute(const MatrixXd& a) {
    n_ = a.rows();
    stride_ = (n_ + width - 1) / width * width;
    lower_.resize(stride_ * n_);
    upper_.resize(stride_ * n_);
    exchanged_.resize(n_);
    double *L = lower_.data(), *U = upper_.data();
    for (Index j = 0; j < n_; ++j) {
        std::copy_n(a.data() + n_ * j, n_, L + stride_ * j);
        std::fill_n(L + stride_ * j + n_, stride_ - n_, 0.0);
    }
    for (Index j = 0; j < n_; ++j) {
        double* column = L + stride_ * j;
        Index best = j;
        double most = 0;
        for (Index k = j + 1; k < n_; ++k) most = std::max(most, std::abs(L[stride_ * k + j]));
        if (std::abs(column[j]) < 0.1 * most)  // a pivot that is not much smaller than the largest stays
            while (std::abs(L[stride_ * best + j]) < most) ++best;
        exchanged_[j] = best;
        if (best != j) {
            swap_eights(column, L + stride_ * best, stride_);
            swap_eights(U + stride_ * j, U + stride_ * best, j);
        }
        column[j] = 1 / column[j];
        for (Index k = j + 1; k < n_; ++k) {
            const double by = L[stride_ * k + j] * column[j];
            U[stride_ * k + j] = by;
            add_eights(-by, column, L + stride_ * k, j, stride_);
        }
    }
}

void LU::solve_columns(double* b, Index columns) const {
    const double *L = lower_.data(), *U = upper_.data();
    double few[64];
    std::vector<double> many(stride_ > 64 ? stride_ : 0);
    double* rest = stride_ > 64 ? many.data() : few;
    for (double* x = b; x != b + n_ * columns; x += n_) {
        std::copy_n(x, n_, rest);
        for (Index j = 0; j < n_; ++j) {
            x[j] = rest[j] * L[stride_ * j + j];
            add_eights(-x[j], L + stride_ * j, rest, j, stride_);
        }
        std::copy_n(x, n_, rest);
        for (Index j = n_; j-- > 0;) {
            x[j] = rest[j];
            add_eights(-x[j], U + stride_ * j, rest, 0, j);
        }
        for (Index j = n_; j-- > 0;) std::swap(x[j], x[exchanged_[j]]);
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
