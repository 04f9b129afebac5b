// The frame of an interface as a function of coordinates z in which nodal positions are linear (modal amplitudes, or
// displacements of the interface's nodes): p(z) = point + z . point_rate, R(z) = polar factor (determinant +1) of A(z)
// = matrix + z . matrix_rate.
#pragma once

#include <vector>

#include "spatial/spatial.hpp"

namespace supple {

class InterfaceFrame {
   public:
    using Vector3 = Eigen::Vector3d;
    using Matrix3 = Eigen::Matrix3d;

    // point: (3,), point_rate: (d, 3), matrix: (3, 3) and matrix_rate: (d, 3, 3) by rows
    InterfaceFrame(int coordinates, const double* point, const double* point_rate, const double* matrix,
                   const double* matrix_rate);

    int coordinates() const { return static_cast<int>(point_rate_.size()); }

    // Evaluates the pose and the first derivatives at z (d,). Newton's method on rotations takes three to five
    // iterations.
    void evaluate(const double* z);

    const Pose& pose() const { return pose_; }  // from the interface to the body frame
    const Vector3& linear(int j) const { return linear_[j]; }  // velocity of the origin, in the frame's own axes,
    const Vector3& angular(int j) const { return angular_[j]; }  // and angular velocity, per unit rate of z_j
    // Derivatives of linear(j) and angular(j) by z_k at the last evaluated z. Not symmetric in j and k.
    Vector3 linear_change(int j, int k) const { return -angular_[k].cross(linear_[j]); }
    Vector3 angular_change(int j, int k) const;
    // Adds the derivative by z_k of linear(j) . force + angular(j) . torque at [j, k] of `result`, (d, d) by rows: the
    // geometric stiffness of a wrench in the frame's own axes that does not change with z in those axes. Allocates
    // nothing.
    void add_contracted(const Vector3& force, const Vector3& torque, double* result);

   private:
    Vector3 point_;
    Matrix3 matrix_;
    std::vector<Vector3> point_rate_;
    std::vector<Matrix3> matrix_rate_;
    Pose pose_;
    Matrix3 S_;  // R^T A, symmetric
    Matrix3 inverse_;  // (tr S I - S)^-1
    std::vector<Vector3> linear_, angular_;
    std::vector<Matrix3> turned_;  // R^T dA/dz_j
    std::vector<Vector3> along_, across_;  // factors of `add_contracted`
};

}  // namespace supple
