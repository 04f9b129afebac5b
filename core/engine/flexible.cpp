#include "engine/flexible.hpp"

#include <algorithm>

#include "engine/system.hpp"

namespace supple {

namespace {

// a x b summed over material points, from the integral of b a^T
SUPPLE_INLINE Vec3 axial(const Mat3& B) { return {B(2, 1) - B(1, 2), B(0, 2) - B(2, 0), B(1, 0) - B(0, 1)}; }

SUPPLE_INLINE double inner(const Mat3& a, const Mat3& b) {
    double sum = 0;
    for (int i = 0; i < 9; ++i) sum += a.data()[i] * b.data()[i];
    return sum;
}

SUPPLE_INLINE void add(Mat3& to, double factor, const Mat3& from) {
    for (int i = 0; i < 9; ++i) to.data()[i] += factor * from.data()[i];
}

SUPPLE_INLINE Mat3 outer(const Vec3& a, const Vec3& b) {
    Mat3 m;
    for (int j = 0; j < 3; ++j)
        for (int i = 0; i < 3; ++i) m(i, j) = a[i] * b[j];
    return m;
}

}  // namespace

FlexibleBody::FlexibleBody(int body_, int axis_, double mass, std::vector<Vec3> first_moment, std::vector<Mat3> gram,
                           std::unique_ptr<ReducedForce> force, double alpha, double beta)
    : body(body_), axis(axis_), r_(static_cast<int>(first_moment.size()) - 1), mass_(mass), alpha_(alpha), beta_(beta),
      s_(std::move(first_moment)), G_(std::move(gram)), internal_(std::move(force)), mixed_(r_), force_(r_), slope_(r_ * r_),
      e_(r_ + 1), internal_force_(r_), stiffness_(r_ * r_), H_(r_ + 1), A_(r_ + 1) {
    M_.resize(r_ * r_);
    for (int p = 0; p < r_; ++p)
        for (int q = 0; q < r_; ++q) M_[p * r_ + q] = G_[(p + 1) * (r_ + 1) + q + 1].trace();
}

// e, int y dm, H_k = int psi_k y^T dm, int y y^T dm
void FlexibleBody::position_moments(const double* eta) {
    const int n = r_ + 1;
    e_[0] = 1;
    std::copy_n(eta, r_, e_.begin() + 1);
    s_now_ = Vec3::Zero();
    Y_ = Mat3::Zero();
    for (int k = 0; k < n; ++k) {
        H_[k] = Mat3::Zero();
        for (int l = 0; l < n; ++l) add(H_[k], e_[l], G_[k * n + l]);
        s_now_ += e_[k] * s_[k];
        add(Y_, e_[k], H_[k]);
    }
}

void FlexibleBody::evaluate(const Pose& H, const double* eta, const Vec3& gravity, const Step* step, const FlexibleState* past,
                            const FlexibleState* before, FlexibleState& now, bool tangent) {
    const int n = r_ + 1;
    position_moments(eta);
    const Mat3 Rt = H.R.transpose();
    Vec3 alpha = -(Rt * gravity);  // of the body frame's origin
    if (step) {
        const double c0 = step->c0 / step->h, c1 = step->c1 / step->h, c2 = step->c2 / step->h;
        now.c = H.p;
        now.c_rate = c0 * H.p + c1 * past->c + c2 * before->c;
        alpha += Rt * Vec3(c0 * now.c_rate + c1 * past->c_rate + c2 * before->c_rate);
        for (int k = 0; k < n; ++k) {
            Mat3 &Z = now.Z[k], &rate = now.Z_rate[k], second;
            const Mat3 &Z1 = past->Z[k], &Z2 = before->Z[k], &V1 = past->Z_rate[k], &V2 = before->Z_rate[k];
            for (int i = 0; i < 9; ++i) {
                Z.data()[i] = e_[k] * H.R.data()[i];
                rate.data()[i] = c0 * Z.data()[i] + c1 * Z1.data()[i] + c2 * Z2.data()[i];
                second.data()[i] = c0 * rate.data()[i] + c1 * V1.data()[i] + c2 * V2.data()[i];
            }
            A_[k] = Rt * second;
        }
        std::copy_n(eta, r_, now.eta.begin());
    }

    // forces: m alpha + sum_k A_k s_k, axial(B), trace(Q_p)
    Vec3 on_origin = mass_ * alpha;
    Mat3 B = outer(alpha, s_now_);
    if (step)
        for (int k = 0; k < n; ++k) {
            on_origin += A_[k] * s_[k];
            B += A_[k] * H_[k];
        }
    wrench_ = stack(on_origin, axial(B));
    internal_->evaluate(eta, internal_force_.data(), tangent ? stiffness_.data() : nullptr);
    for (int p = 0; p < r_; ++p) {
        const Mat3* row = &G_[(p + 1) * n];  // int Phi_p psi_k^T dm
        double sum = s_[p + 1].dot(alpha);
        if (step)
            for (int k = 0; k < n; ++k) sum += inner(A_[k], row[k]);
        force_[p] = sum + internal_force_[p];
    }
    const double kappa = step ? step->c0 / step->h : 0.0;
    if (step) {
        std::copy_n(internal_force_.begin(), r_, now.force.begin());
        for (int p = 0; p < r_; ++p) {
            force_[p] += beta_ * step->rate(internal_force_[p], past->force[p], before->force[p]);
            if (alpha_ != 0)
                for (int q = 0; q < r_; ++q)
                    force_[p] += alpha_ * M_[p * r_ + q] * step->rate(eta[q], past->eta[q], before->eta[q]);
        }
    }
    if (!tangent) return;

    const double k2 = kappa * kappa;
    const Mat3 J = Y_.trace() * Mat3::Identity() - Y_;
    const Mat3 turned = B - B.trace() * Mat3::Identity();
    by_twist_ = blocks(k2 * mass_ * Mat3::Identity(), skew(on_origin) - k2 * skew(s_now_), k2 * skew(s_now_), k2 * J + turned);
    for (int p = 0; p < r_; ++p) {
        Mat3 Q = outer(alpha, s_[p + 1]);  // int alpha Phi_p^T dm
        if (step)
            for (int k = 0; k < n; ++k) Q += A_[k] * G_[k * n + p + 1];
        mixed_[p] = stack(k2 * s_[p + 1], k2 * axial(H_[p + 1]) + axial(Q));
    }
    const double of_stiffness = 1 + beta_ * kappa, of_mass = k2 + alpha_ * kappa;
    for (int i = 0; i < r_ * r_; ++i) slope_[i] = of_stiffness * stiffness_[i] + of_mass * M_[i];
}

FlexibleState FlexibleBody::state_of(const Pose& H, const double* eta, const Vec6& twist, const double* rates) const {
    FlexibleState state;
    state.Z.resize(r_ + 1);
    state.Z_rate.resize(r_ + 1);
    state.eta.assign(eta, eta + r_);
    state.force.resize(r_);
    const Mat3 turning = H.R * skew(twist.tail<3>());
    state.c = H.p;
    state.c_rate = H.R * twist.head<3>();
    for (int k = 0; k <= r_; ++k) {
        const double e = k ? eta[k - 1] : 1.0, rate = k ? rates[k - 1] : 0.0;
        state.Z[k] = e * H.R;
        state.Z_rate[k] = e * turning + rate * H.R;
    }
    internal_->evaluate(eta, state.force.data(), nullptr);
    return state;
}

double FlexibleBody::strain_energy(const double* eta) const {
    std::vector<double> force(r_);
    return internal_->evaluate(eta, force.data(), nullptr);
}

double FlexibleBody::potential_energy(const Pose& H, const double* eta, const Vec3& gravity) const {
    Vec3 s = s_[0];
    for (int k = 0; k < r_; ++k) s += eta[k] * s_[k + 1];
    return -gravity.dot(mass_ * H.p + H.R * s);
}

double FlexibleBody::kinetic_energy(const FlexibleState& state) const {
    const int n = r_ + 1;
    double twice = mass_ * state.c_rate.squaredNorm();
    for (int k = 0; k < n; ++k) {
        twice += 2 * state.c_rate.dot(Vec3(state.Z_rate[k] * s_[k]));
        for (int l = 0; l < n; ++l) twice += inner(state.Z_rate[l], Mat3(state.Z_rate[k] * G_[k * n + l]));
    }
    return 0.5 * twice;
}

void FlexibleBody::mass_matrix(const double* eta, double* matrix) const {
    FlexibleBody at = *this;
    at.position_moments(eta);
    const int size = 6 + r_;
    Eigen::Map<Eigen::MatrixXd> M(matrix, size, size);
    M.topLeftCorner<6, 6>() = blocks(mass_ * Mat3::Identity(), -skew(at.s_now_), skew(at.s_now_),
                                     at.Y_.trace() * Mat3::Identity() - at.Y_);
    for (int p = 0; p < r_; ++p) {
        M.block<6, 1>(0, 6 + p) = stack(s_[p + 1], axial(at.H_[p + 1]));
        M.block<1, 6>(6 + p, 0) = M.block<6, 1>(0, 6 + p).transpose();
        for (int q = 0; q < r_; ++q) M(6 + p, 6 + q) = M_[p * r_ + q];
    }
}

}  // namespace supple
