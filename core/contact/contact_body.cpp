#include "contact/contact_body.hpp"

#include <cmath>

#include "spatial/dense.hpp"

namespace supple {

FreeBody::FreeBody(double mass, const Vec3& centre, const Mat3& inertia, const Pose& pose, double h)
    : mass_(mass), h_(h), centre_(centre), inertia_(inertia), inverse_inertia_(inertia.inverse()) {
    place(pose);
}

void FreeBody::place(const Pose& pose) {
    rotation_ = pose.R;
    position_ = pose.act(centre_);
}

Vec6 FreeBody::velocity() const {
    const Vec3 w = inverse_inertia_ * (rotation_.transpose() * angular_momentum_);
    return stack(rotation_.transpose() * momentum_ / mass_ - w.cross(centre_), w);
}

void FreeBody::set_velocity(const Vec6& twist) {
    momentum_ = mass_ * (rotation_ * (twist.head<3>() + twist.tail<3>().cross(centre_)));
    angular_momentum_ = rotation_ * (inertia_ * twist.tail<3>());
}

Vec6 FreeBody::free_velocity(int) const {
    const Vec3 w = free_.tail<3>();
    return stack(free_.head<3>() - w.cross(rotation_ * centre_), w);
}

Vec6 FreeBody::start_velocity(int) const {
    const Vec6 twist = velocity();
    return stack(rotation_ * twist.head<3>(), rotation_ * twist.tail<3>());
}

bool FreeBody::begin() {
    write_state(saved_);
    // the inertia in world axes is taken at the predicted rotation at the end of the step
    const Vec3 w = world_inverse(rotation_) * angular_momentum_;
    predicted_rotation_ = so3_exp(h_ * w) * rotation_;
    const Mat3 inverse = world_inverse(predicted_rotation_);
    Vec3 force = mass_ * gravity, torque = Vec3::Zero();
    const Vec3 origin = -(rotation_ * centre_);
    const Vec3 f = world ? Vec3(wrench.head<3>()) : Vec3(rotation_ * wrench.head<3>());
    force += f;
    torque += origin.cross(f) + (world ? Vec3(wrench.tail<3>()) : Vec3(rotation_ * wrench.tail<3>()));
    response_.setZero();
    response_.topLeftCorner<3, 3>() = Mat3::Identity() / mass_;
    response_.bottomRightCorner<3, 3>() = inverse;
    if (has_handle) {  // the handle's spring, implicit: (M + h (d + h k) J^T J) u = M u_n + h J^T k (target - x)
        const Vec3 arm = rotation_ * (point - centre_);
        const Mat6 J_J = blocks(Mat3::Identity(), -skew(arm), skew(arm), -skew(arm) * skew(arm));
        Mat6 system = h_ * (damping + h_ * stiffness) * J_J;
        system.topLeftCorner<3, 3>() += mass_ * Mat3::Identity();
        system.bottomRightCorner<3, 3>() += inverse.inverse();
        response_ = whole::solve_positive(system, Mat6(Mat6::Identity()));
        const Vec3 pull = stiffness * (target - position_ - arm);
        force += pull;
        torque += arm.cross(pull);
    }
    free_.noalias() = response_ * stack(momentum_ + h_ * force, angular_momentum_ + h_ * torque);
    return free_.allFinite();
}

void FreeBody::respond(const std::vector<Touch>& touches, const std::vector<Limit>&, double* free, double* response) {
    const int n = 3 * static_cast<int>(touches.size());
    rows_.resize(6, padded(n));
    rows_.rightCols(rows_.cols() - n).setZero();
    for (std::size_t j = 0; j < touches.size(); ++j)
        for (int c = 0; c < 3; ++c) rows_.col(3 * j + c) = touches[j].wrench(c, position_);
    Eigen::Map<Eigen::VectorXd>(free, n).noalias() = rows_.leftCols(n).transpose() * free_;
    couple(rows_, n, response_, response);
}

bool FreeBody::finish(const std::vector<Touch>& touches, const std::vector<Limit>&, const double* impulses) {
    const int n = 3 * static_cast<int>(touches.size());
    const Vec6 total = n ? Vec6(rows_.leftCols(n) * Eigen::Map<const Eigen::VectorXd>(impulses, n))
                         : Vec6(Vec6::Zero());
    const Vec6 u = free_ + response_ * total;
    if (!u.allFinite()) return false;
    momentum_ = mass_ * u.head<3>();
    angular_momentum_ = predicted_rotation_ * (inertia_ * (predicted_rotation_.transpose() * u.tail<3>()));
    position_ += h_ * u.head<3>();
    rotation_ = so3_exp(h_ * u.tail<3>()) * rotation_;
    // orthonormalise: one Newton step for the polar factor
    rotation_ = 0.5 * rotation_ * (3 * Mat3::Identity() - rotation_.transpose() * rotation_);
    return rotation_.allFinite() && position_.allFinite() && angular_momentum_.allFinite();
}

double FreeBody::energy() const {
    const Vec3 body = rotation_.transpose() * angular_momentum_;
    return 0.5 * momentum_.squaredNorm() / mass_ + 0.5 * body.dot(inverse_inertia_ * body) -
           mass_ * gravity.dot(position_);
}

void FreeBody::write_state(double* out) const {
    Eigen::Map<Vec3>(out + 0) = position_;
    Eigen::Map<Mat3>(out + 3) = rotation_;
    Eigen::Map<Vec3>(out + 12) = momentum_;
    Eigen::Map<Vec3>(out + 15) = angular_momentum_;
}

void FreeBody::read_state(const double* in) {
    position_ = Vec3(in);
    rotation_ = Eigen::Map<const Mat3>(in + 3);
    momentum_ = Vec3(in + 12);
    angular_momentum_ = Vec3(in + 15);
}

}  // namespace supple
