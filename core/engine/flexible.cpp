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

// sum_i a_i b_i with four sums side by side
SUPPLE_INLINE double dot(const double* a, const double* b, int n) {
    double sum[4] = {0, 0, 0, 0};
    int i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; ++k) sum[k] += a[i + k] * b[i + k];
    for (; i < n; ++i) sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
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
    : body(body_),
      axis(axis_),
      r_(static_cast<int>(first_moment.size()) - 1),
      mass_(mass),
      alpha_(alpha),
      beta_(beta),
      s_(std::move(first_moment)),
      G_(std::move(gram)),
      internal_(std::move(force)),
      mixed_(r_),
      force_(r_),
      slope_(r_ * r_),
      e_(r_ + 1),
      internal_force_(r_),
      stiffness_(r_ * r_),
      H_(r_ + 1),
      A_(r_ + 1) {
    M_.resize(r_ * r_);
    for (int p = 0; p < r_; ++p)
        for (int q = 0; q < r_; ++q) M_[p * r_ + q] = G_[(p + 1) * (r_ + 1) + q + 1].trace();
    const int n = r_ + 1;
    columns_.resize(9 * n * n);
    stacked_.resize(9 * n * n);
    rows_.resize(9 * n);
    for (int k = 0; k < n; ++k)
        for (int l = 0; l < n; ++l) {
            std::copy_n(G_[k * n + l].data(), 9, &columns_[9 * (l * n + k)]);
            for (int j = 0; j < 3; ++j)
                for (int m = 0; m < 3; ++m) stacked_[(3 * l + j) * 3 * n + 3 * k + m] = G_[k * n + l](m, j);
        }
}

// e, int y dm, H_k = int psi_k y^T dm, int y y^T dm
void FlexibleBody::position_moments(const double* eta) {
    const int n = r_ + 1;
    e_[0] = 1;
    std::copy_n(eta, r_, e_.begin() + 1);
    s_now_ = Vec3::Zero();
    Y_ = Mat3::Zero();
    double* H = H_[0].data();
    std::copy_n(columns_.begin(), 9 * n, H);
    for (int l = 1; l < n; ++l) {
        const double *column = &columns_[9 * n * l], factor = e_[l];
        for (int i = 0; i < 9 * n; ++i) H[i] += factor * column[i];
    }
    for (int k = 0; k < n; ++k) {
        s_now_ += e_[k] * s_[k];
        add(Y_, e_[k], H_[k]);
    }
}

void FlexibleBody::set_rates(const Step& step, const FlexibleState& past, const FlexibleState& before,
                             FlexibleState& now) {
    const double c0 = step.c0 / step.h, c1 = step.c1 / step.h, c2 = step.c2 / step.h;
    now.c_rate = c0 * now.c + c1 * past.c + c2 * before.c;
    for (std::size_t k = 0; k < now.Z.size(); ++k)
        for (int i = 0; i < 9; ++i)
            now.Z_rate[k].data()[i] = c0 * now.Z[k].data()[i] + c1 * past.Z[k].data()[i] + c2 * before.Z[k].data()[i];
}

// m alpha + sum_k A_k s_k, axial(B), trace(Q_p); A null: all zero
void FlexibleBody::add_forces(const Vec3& alpha, const Mat3* A, Vec6& wrench, double* force) const {
    const int n = r_ + 1;
    Vec3 on_origin = mass_ * alpha;
    Mat3 B = outer(alpha, s_now_);
    for (int k = 0; A && k < n; ++k) {
        on_origin += A[k] * s_[k];
        B += A[k] * H_[k];
    }
    wrench += stack(on_origin, axial(B));
    for (int p = 0; p < r_; ++p) {
        const Mat3* row = &G_[(p + 1) * n];  // int Phi_p psi_k^T dm
        force[p] += s_[p + 1].dot(alpha) + (A ? dot(A[0].data(), row[0].data(), 9 * n) : 0.0);
    }
}

void FlexibleBody::evaluate(const Pose& H, const double* eta, const Vec3& gravity, const Step* step,
                            const FlexibleState* past, const FlexibleState* before, FlexibleState& now, bool tangent) {
    const int n = r_ + 1;
    position_moments(eta);
    const Mat3 Rt = H.R.transpose();
    Vec3 alpha = -(Rt * gravity);  // of the body frame's origin
    if (step) {
        const double c0 = step->c0 / step->h, c1 = step->c1 / step->h, c2 = step->c2 / step->h;
        now.c = H.p;
        for (int k = 0; k < n; ++k) now.Z[k] = e_[k] * H.R;
        set_rates(*step, *past, *before, now);
        alpha += Rt * Vec3(c0 * now.c_rate + c1 * past->c_rate + c2 * before->c_rate);
        for (int k = 0; k < n; ++k) {
            Mat3 second;
            const Mat3 &V = now.Z_rate[k], &V1 = past->Z_rate[k], &V2 = before->Z_rate[k];
            for (int i = 0; i < 9; ++i) second.data()[i] = c0 * V.data()[i] + c1 * V1.data()[i] + c2 * V2.data()[i];
            A_[k] = Rt * second;
        }
        std::copy_n(eta, r_, now.eta.begin());
    }

    wrench_ = Vec6::Zero();
    internal_->evaluate(eta, internal_force_.data(), tangent ? stiffness_.data() : nullptr);
    std::copy_n(internal_force_.begin(), r_, force_.begin());
    add_forces(alpha, step ? A_.data() : nullptr, wrench_, force_.data());
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
    const Vec3 on_origin = wrench_.head<3>();
    Mat3 B = outer(alpha, s_now_);  // int alpha y^T dm
    for (int k = 0; step && k < n; ++k) B += A_[k] * H_[k];
    const Mat3 J = Y_.trace() * Mat3::Identity() - Y_;
    const Mat3 turned = B - B.trace() * Mat3::Identity();
    by_twist_ = blocks(k2 * mass_ * Mat3::Identity(), skew(on_origin) - k2 * skew(s_now_), k2 * skew(s_now_),
                       k2 * J + turned);
    for (int k = 0; step && k < n; ++k)
        for (int i = 0; i < 3; ++i)
            for (int m = 0; m < 3; ++m) rows_[i * 3 * n + 3 * k + m] = A_[k](i, m);
    for (int p = 0; p < r_; ++p) {
        // Int alpha Phi_p^T dm = alpha s_p^T + sum_k A_k G_kp; its diagonal is not needed
        Mat3 Q = outer(alpha, s_[p + 1]);
        for (int i = 0; step && i < 3; ++i)
            for (int j = 0; j < 3; ++j)
                if (i != j) Q(i, j) += dot(&rows_[i * 3 * n], &stacked_[(3 * (p + 1) + j) * 3 * n], 3 * n);
        mixed_[p] = stack(k2 * s_[p + 1], k2 * axial(H_[p + 1]) + axial(Q));
    }
    const double of_stiffness = 1 + beta_ * kappa, of_mass = k2 + alpha_ * kappa;
    for (int i = 0; i < r_ * r_; ++i) slope_[i] = of_stiffness * stiffness_[i] + of_mass * M_[i];
}

FlexibleState FlexibleBody::zero_state() const {
    FlexibleState state;
    state.Z.assign(r_ + 1, Mat3::Zero());
    state.Z_rate = state.Z;
    state.eta.assign(r_, 0.0);
    state.force = state.eta;
    return state;
}

FlexibleState FlexibleBody::state_of(const Pose& H, const double* eta, const Vec6& twist, const double* rates) const {
    FlexibleState state = zero_state();
    state.eta.assign(eta, eta + r_);
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

// --- derivatives of time steps
// ----------------------------------------------------------------------------------------------------

// dc = R v, dZ_k = e_k R [w] + deta_k R, df = K deta
void FlexibleBody::add_motion(const Mat3& R, const Vec6& twist, const double* eta, FlexibleState& tangent) const {
    const Mat3 turned = R * skew(twist.tail<3>());
    tangent.c += R * twist.head<3>();
    for (int k = 0; k <= r_; ++k) {
        add(tangent.Z[k], e_[k], turned);
        if (k) add(tangent.Z[k], eta[k - 1], R);
    }
    for (int p = 0; p < r_; ++p)
        for (int q = 0; q < r_; ++q) tangent.force[p] += stiffness_[p * r_ + q] * eta[q];
}

void FlexibleBody::pull_back(const Mat3& R, const FlexibleState& gradient, Vec6& by_twist, double* by_eta) const {
    const Mat3 Rt = R.transpose();
    Vec3 by_turn = Vec3::Zero();
    for (int k = 0; k <= r_; ++k) {
        by_turn += e_[k] * axial(Rt * gradient.Z[k]);
        if (k) by_eta[k - 1] += inner(gradient.Z[k], R);
    }
    by_twist += stack(Rt * gradient.c, by_turn);
    for (int p = 0; p < r_; ++p)
        for (int q = 0; q < r_; ++q) by_eta[p] += stiffness_[p * r_ + q] * gradient.force[q];
}

void FlexibleBody::forces_of(const Mat3& R, const Vec3& acceleration, const std::vector<Mat3>& second, Vec6& wrench,
                             double* force) const {
    const Mat3 Rt = R.transpose();
    std::vector<Mat3> A(second);
    for (Mat3& each : A) each = Rt * each;
    add_forces(Rt * acceleration, A.data(), wrench, force);
}

// With R^T dx = v + w x y + Phi eta: int dx dm and int dx psi_k^T dm.
void FlexibleBody::accelerations_by(const Mat3& R, const Vec6& twist, const double* eta, Vec3& by_c,
                                    std::vector<Mat3>& by_Z) const {
    const int n = r_ + 1;
    const Vec3 v = twist.head<3>(), w = twist.tail<3>();
    Vec3 sum = mass_ * v + w.cross(s_now_);
    for (int p = 0; p < r_; ++p) sum += eta[p] * s_[p + 1];
    by_c = R * sum;
    const Mat3 W = skew(w);
    by_Z.resize(n);
    for (int k = 0; k < n; ++k) {
        Mat3 moment = outer(v, s_[k]) + W * Mat3(H_[k].transpose());
        for (int p = 0; p < r_; ++p) add(moment, eta[p], G_[(p + 1) * n + k]);
        by_Z[k] = R * moment;
    }
}

// Z_rate_k = R (e_k [w] + rate_k)
// c' = R v and Z_k' = e_k R [w] + e_k' R, less what is not due to a motion of the body's points; that turns with the
// body.
void FlexibleBody::add_start(const Mat3& R, const FlexibleState& state, const Vec3& w, const Vec6& twist,
                             const Vec6& faster, const double* eta, const double* faster_eta,
                             FlexibleState& tangent) const {
    add_motion(R, twist, eta, tangent);
    const Vec3 turn = R * twist.tail<3>();
    const Mat3 turning = skew(turn), W = skew(w), spin = skew(faster.tail<3>());
    tangent.c_rate += R * faster.head<3>() + turn.cross(state.c_rate);
    for (int k = 0; k <= r_; ++k) {
        const double moved = k ? eta[k - 1] : 0.0, more = k ? faster_eta[k - 1] : 0.0;
        tangent.Z_rate[k] += turning * state.Z_rate[k] + R * Mat3(e_[k] * spin + moved * W + more * Mat3::Identity());
    }
}

void FlexibleBody::pull_back_start(const Mat3& R, const FlexibleState& state, const Vec3& w,
                                   const FlexibleState& gradient, Vec6& by_twist, Vec6& by_velocity, double* by_eta,
                                   double* by_rates) const {
    pull_back(R, gradient, by_twist, by_eta);
    const Mat3 Rt = R.transpose(), W = skew(w);
    by_velocity.head<3>() += Rt * gradient.c_rate;
    by_twist.tail<3>() += Rt * state.c_rate.cross(gradient.c_rate);
    for (int k = 0; k <= r_; ++k) {
        const Mat3 g = Rt * gradient.Z_rate[k];
        by_twist.tail<3>() += Rt * axial(gradient.Z_rate[k] * Mat3(state.Z_rate[k].transpose()));
        by_velocity.tail<3>() += e_[k] * axial(g);
        if (k == 0) continue;
        by_eta[k - 1] += inner(g, W);
        by_rates[k - 1] += g.trace();
    }
}

// --- energies
// -------------------------------------------------------------------------------------------------------------------

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

Vec6 FlexibleBody::momentum(const FlexibleState& state) const {
    const int n = r_ + 1;
    Vec3 first = Vec3::Zero(), first_rate = Vec3::Zero();  // int (x - c) dm and its rate
    Mat3 B = Mat3::Zero();  // int (x - c)' (x - c)^T dm
    for (int k = 0; k < n; ++k) {
        first += state.Z[k] * s_[k];
        first_rate += state.Z_rate[k] * s_[k];
        for (int l = 0; l < n; ++l) B += state.Z_rate[l] * Mat3(G_[l * n + k] * Mat3(state.Z[k].transpose()));
    }
    const Vec3 linear = mass_ * state.c_rate + first_rate;
    return stack(linear, state.c.cross(linear) + first.cross(state.c_rate) + axial(B));
}

}  // namespace supple
