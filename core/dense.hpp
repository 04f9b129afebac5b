// Eigen, with its large kernels for matrices of doubles compiled once, in dense.cpp. Every file that multiplies, inverts
// or decomposes a matrix of unknown size would otherwise compile them again, some seconds each.
#pragma once

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/Geometry>
#include <Eigen/LU>

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
SUPPLE_DENSE struct general_matrix_vector_product<Index, double, ColumnsMapper, ColMajor, false, double, RowsMapper, false, 0>;
SUPPLE_DENSE struct general_matrix_vector_product<Index, double, RowsMapper, RowMajor, false, double, ColumnsMapper, false, 0>;

// triangular systems of LLT and LU
SUPPLE_DENSE struct triangular_solve_matrix<double, Index, OnTheLeft, Lower, false, ColMajor, ColMajor, 1>;
SUPPLE_DENSE struct triangular_solve_matrix<double, Index, OnTheLeft, UnitLower, false, ColMajor, ColMajor, 1>;
SUPPLE_DENSE struct triangular_solve_matrix<double, Index, OnTheLeft, Upper, false, ColMajor, ColMajor, 1>;
SUPPLE_DENSE struct triangular_solve_matrix<double, Index, OnTheLeft, Upper, false, RowMajor, ColMajor, 1>;

SUPPLE_DENSE struct compute_inverse<MatrixXd, MatrixXd, Dynamic>;

}  // namespace internal

SUPPLE_DENSE class PartialPivLU<MatrixXd>;
SUPPLE_DENSE class LLT<MatrixXd>;
SUPPLE_DENSE LLT<MatrixXd>& LLT<MatrixXd>::compute(const EigenBase<MatrixXd>&);
SUPPLE_DENSE class SelfAdjointEigenSolver<MatrixXd>;
SUPPLE_DENSE SelfAdjointEigenSolver<MatrixXd>& SelfAdjointEigenSolver<MatrixXd>::compute(const EigenBase<MatrixXd>&, int);

}  // namespace Eigen
