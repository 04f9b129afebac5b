// The only place where Eigen's large kernels are compiled.
#define SUPPLE_DENSE template
#include "dense.hpp"

namespace supple::whole {

// a.operator*(b) is Eigen's; a * b would call these functions again
void multiply(const MatrixXd& a, const MatrixXd& b, MatrixXd& into) { into.noalias() = a.operator*(b); }
void multiply_transposed(const MatrixXd& a, const MatrixXd& b, MatrixXd& into) { into.noalias() = a.transpose().operator*(b); }
void multiply(const MatrixXd& a, const VectorXd& b, VectorXd& into) { into.noalias() = a.operator*(b); }
void multiply_transposed(const MatrixXd& a, const VectorXd& b, VectorXd& into) { into.noalias() = a.transpose().operator*(b); }
MatrixXd solve_positive(const MatrixXd& a, const MatrixXd& b) { return a.llt().solve(b); }
VectorXd solve_positive(const MatrixXd& a, const VectorXd& b) { return a.llt().solve(b); }

}  // namespace supple::whole
