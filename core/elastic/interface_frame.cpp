#include "elastic/interface_frame.hpp"

namespace supple {

namespace {

using Vector3 = InterfaceFrame::Vector3;
using Matrix3 = InterfaceFrame::Matrix3;

Vector3 axial(const Matrix3& B) { return {B(2, 1) - B(1, 2), B(0, 2) - B(2, 0), B(1, 0) - B(0, 1)}; }  // of B - B^T

Matrix3 spin_of(const Matrix3& S) { return S.trace() * Matrix3::Identity() - S; }

Matrix3 rows(const double* m) { return Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(m); }

// The rotation by a vector w that Newton's step wants; any rotation that agrees to second order in w would do.
Matrix3 turn(const Vector3& w) {
    const double angle = w.norm();
    if (angle < 1e-300) return Matrix3::Identity();
    return Eigen::AngleAxisd(angle, w / angle).toRotationMatrix();
}

// The eigenvector of the largest eigenvalue of the 4x4 matrix of Davenport's q-method, by shifted squaring: the global
// maximiser of tr(R^T A).
Matrix3 best_rotation(const Matrix3& A) {
    Eigen::Matrix4d N;  // quaternion (w, v): q^T N q = tr(R^T A)
    const Vector3 z = axial(A);
    N(0, 0) = A.trace();
    N.block<1, 3>(0, 1) = z.transpose();
    N.block<3, 1>(1, 0) = z;
    N.block<3, 3>(1, 1) = A + A.transpose() - A.trace() * Matrix3::Identity();
    const double shift = N.cwiseAbs().rowwise().sum().maxCoeff();
    N.diagonal().array() += shift;
    for (int i = 0; i < 30 && N.norm() > 0; ++i) {
        N = (N * N).eval();
        N /= N.norm();
    }
    int column;
    N.diagonal().maxCoeff(&column);
    const Eigen::Vector4d q = N.col(column).normalized();
    return Eigen::Quaterniond(q[0], q[1], q[2], q[3]).toRotationMatrix();
}

}  // namespace

InterfaceFrame::InterfaceFrame(int coordinates, const double* point, const double* point_rate, const double* matrix,
                               const double* matrix_rate)
    : point_(Eigen::Map<const Vector3>(point)),
      matrix_(rows(matrix)),
      linear_(coordinates),
      angular_(coordinates),
      turned_(coordinates),
      along_(coordinates),
      across_(coordinates) {
    for (int j = 0; j < coordinates; ++j) {
        point_rate_.push_back(Eigen::Map<const Vector3>(point_rate + 3 * j));
        matrix_rate_.push_back(rows(matrix_rate + 9 * j));
    }
    pose_.R = Matrix3::Identity();
    pose_.p = point_;
}

void InterfaceFrame::evaluate(const double* z) {
    const int d = coordinates();
    Matrix3 A = matrix_;
    Vector3 p = point_;
    for (int j = 0; j < d; ++j) {
        p += z[j] * point_rate_[j];
        A += z[j] * matrix_rate_[j];
    }
    // R maximises tr(R^T A): R^T A is symmetric and tr(S) I - S is positive definite there
    Matrix3 R = Matrix3::Identity();  // the same guess for the same result, to the last bit
    bool restarted = false;
    for (int iteration = 0; iteration < 40; ++iteration) {
        S_ = R.transpose() * A;
        const Matrix3 G = spin_of(0.5 * (S_ + S_.transpose()));
        const bool maximum = G(0, 0) > 0 && G(0, 0) * G(1, 1) - G(0, 1) * G(0, 1) > 0 && G.determinant() > 0;
        if (!maximum && !restarted) {
            R = best_rotation(A);
            restarted = true;
            continue;
        }
        const Vector3 step = G.inverse() * axial(S_);
        R = R * turn(step);
        if (step.squaredNorm() < 1e-18) break;  // the next step would be below rounding: convergence is quadratic
    }
    // one step of orthonormalisation, so that products of many turns do not drift
    R = 0.5 * R * (3.0 * Matrix3::Identity() - R.transpose() * R);
    S_ = R.transpose() * A;
    S_ = (0.5 * (S_ + S_.transpose())).eval();
    inverse_ = spin_of(S_).inverse();
    pose_.R = R;
    pose_.p = p;
    for (int j = 0; j < d; ++j) {
        turned_[j] = R.transpose() * matrix_rate_[j];
        angular_[j] = inverse_ * axial(turned_[j]);
        linear_[j] = R.transpose() * point_rate_[j];
    }
}

InterfaceFrame::Vector3 InterfaceFrame::angular_change(int j, int k) const {
    const Vector3 &theta = angular_[j], &turn_k = angular_[k];
    Matrix3 spun, changed;  // [theta_k] B_j; dS = B_k - [theta_k] S
    for (int c = 0; c < 3; ++c) {
        spun.col(c) = turn_k.cross(turned_[j].col(c));
        changed.col(c) = turned_[k].col(c) - turn_k.cross(S_.col(c));
    }
    return inverse_ * (-axial(spun) - spin_of(changed) * theta);
}

// With y = G^-1 torque and dS_k = B_k - [theta_k] S, torque . d(theta_j)/dz_k = (B_j^T y - tr(B_j) y) . theta_k +
// (dS_k y - tr(dS_k) y) . theta_j: products of vectors that belong to j or to k alone.
void InterfaceFrame::add_contracted(const Vector3& force, const Vector3& torque, double* result) {
    const int d = coordinates();
    const Vector3 y = inverse_ * torque;
    for (int j = 0; j < d; ++j) {
        const Matrix3& B = turned_[j];
        const Vector3& theta = angular_[j];
        along_[j] = B.transpose() * y - B.trace() * y - linear_[j].cross(force);
        // tr([theta] S) = 0, as S is symmetric
        across_[j] = B * y - theta.cross(S_ * y) - B.trace() * y;
    }
    for (int j = 0; j < d; ++j)
        for (int k = 0; k < d; ++k) result[j * d + k] += along_[j].dot(angular_[k]) + across_[k].dot(angular_[j]);
}

}  // namespace supple
