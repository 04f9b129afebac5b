// A flexible body: r modal amplitudes eta beside the twist of its body frame.
//
// A material point lies at x = c + R y, y = X + sum_k eta_k Phi_k(X), with (R, c) the body frame. With e = (1, eta),
// psi_0 = X and psi_k = Phi_k, x = c + sum_k Z_k psi_k is linear in c and Z_k = e_k R. Backward differences of c and
// Z_k, applied twice, are therefore those of every material point, and constant integrals give all inertia:
//     s_k = int psi_k dm,   G_kl = int psi_k psi_l^T dm.
// With alpha = R^T (x'' - g) = alpha_c + sum_k A_k psi_k (A_k = R^T Z_k''), the virtual work of int dx . alpha dm,
// where R^T dx = v + w x y + Phi deta for a twist (v, w), gives the generalised forces
//     on v      m alpha_c + sum_k A_k s_k
//     on w      axial(B),      B = int alpha y^T dm
//     on eta_p  trace(Q_p),    Q_p = int alpha Phi_p^T dm
// Their derivative is (c0 / h)^2 times the mass matrix M(eta), and what follows from R^T turning and from y changing.
#pragma once

#include <memory>
#include <vector>

#include "elastic/reduced_force.hpp"
#include "spatial/spatial.hpp"

namespace supple {

struct Step;

// A reduced force that is copied with the body that has it.
class ForceHolder {
   public:
    explicit ForceHolder(std::unique_ptr<ReducedForce> force) : force_(std::move(force)) {}
    ForceHolder(const ForceHolder& other) : force_(other.force_->clone()) {}
    ForceHolder(ForceHolder&&) = default;
    ForceHolder& operator=(const ForceHolder& other) {
        force_ = other.force_->clone();
        return *this;
    }
    ForceHolder& operator=(ForceHolder&&) = default;
    ReducedForce* operator->() const { return force_.get(); }

   private:
    std::unique_ptr<ReducedForce> force_;
};

struct FlexibleState {  // at the end of a time step; what the next differences need. Also its tangent, or a gradient
    Vec3 c = Vec3::Zero(), c_rate = Vec3::Zero();
    std::vector<Mat3> Z, Z_rate;  // (r + 1): e_k R and its rate
    std::vector<double> eta, force;  // (r): amplitudes and internal forces
};

// Calls visit(numbers, count) for all numbers of a state.
template <class State, class Visit>
void visit_numbers(State& state, const Visit& visit) {
    visit(state.c.data(), 3);
    visit(state.c_rate.data(), 3);
    for (auto* all : {&state.Z, &state.Z_rate})
        for (auto& each : *all) visit(each.data(), 9);
    for (auto* all : {&state.eta, &state.force}) visit(all->data(), all->size());
}

class FlexibleBody {
   public:
    FlexibleBody(int body, int axis, double mass, std::vector<Vec3> first_moment, std::vector<Mat3> gram,
                 std::unique_ptr<ReducedForce> force, double alpha, double beta);

    int body = 0, axis = 0;  // body frame, and the first of the r coordinates eta
    int modes() const { return r_; }
    double mass() const { return mass_; }

    // Generalised forces that the body and its material exert at a pose and amplitudes: inertia less gravity, internal
    // force and damping. Without `step` those of statics. With `tangent`, also their derivatives. `now` gets the state
    // at the end of the step.
    void evaluate(const Pose& H, const double* eta, const Vec3& gravity, const Step* step, const FlexibleState* past,
                  const FlexibleState* before, FlexibleState& now, bool tangent);
    const Vec6& wrench() const { return wrench_; }  // on the twist, body axes
    const double* forces() const { return force_.data(); }  // on eta
    const Mat6& by_twist() const { return by_twist_; }  // derivative of the wrench by the twist, body frame moving
    // Derivative of the wrench by eta_p, and of the force on eta_p by the twist
    const Vec6& mixed(int p) const { return mixed_[p]; }
    double slope(int p, int q) const { return slope_[p * r_ + q]; }  // derivative of the force on eta_p by eta_q

    // Rates of c and Z at the end of a step.
    static void set_rates(const Step& step, const FlexibleState& past, const FlexibleState& before, FlexibleState& now);
    FlexibleState zero_state() const;
    FlexibleState state_of(const Pose& H, const double* eta, const Vec6& twist, const double* rates) const;
    double strain_energy(const double* eta) const;
    double potential_energy(const Pose& H, const double* eta, const Vec3& gravity) const;
    double kinetic_energy(const FlexibleState& state) const;
    Vec6 momentum(const FlexibleState& state) const;  // linear, and angular about the world's origin; world axes

    // --- derivatives of time steps, at the pose and amplitudes of the last `evaluate` with tangent
    // ------------------------------- Tangent of c, Z and internal forces for a twist (body axes) and changes of the
    // amplitudes.
    void add_motion(const Mat3& R, const Vec6& twist, const double* eta, FlexibleState& tangent) const;
    // The transposed map, from gradients with respect to c, Z and internal forces.
    void pull_back(const Mat3& R, const FlexibleState& gradient, Vec6& by_twist, double* by_eta) const;
    // Generalised forces of given accelerations of c and Z (world axes), and the transposed map.
    void forces_of(const Mat3& R, const Vec3& acceleration, const std::vector<Mat3>& second, Vec6& wrench,
                   double* force) const;
    void accelerations_by(const Mat3& R, const Vec6& twist, const double* eta, Vec3& by_c,
                          std::vector<Mat3>& by_Z) const;
    // Damping forces of the rates of internal forces and amplitudes; symmetric, so it is its own transposed map.
    double beta() const { return beta_; }
    double alpha() const { return alpha_; }
    double modal_mass(int p, int q) const { return M_[p * r_ + q]; }
    // At the start: tangent of a state for changes of pose, of a velocity with the spin w, of amplitudes and of their
    // rates, and the transposed map.
    void add_start(const Mat3& R, const FlexibleState& state, const Vec3& w, const Vec6& twist, const Vec6& faster,
                   const double* eta, const double* faster_eta, FlexibleState& tangent) const;
    void pull_back_start(const Mat3& R, const FlexibleState& state, const Vec3& w, const FlexibleState& gradient,
                         Vec6& by_twist, Vec6& by_velocity, double* by_eta, double* by_rates) const;

   private:
    void position_moments(const double* eta);
    void add_forces(const Vec3& alpha, const Mat3* A, Vec6& wrench, double* force) const;

    int r_;
    double mass_, alpha_, beta_;
    std::vector<Vec3> s_;  // (r + 1)
    std::vector<Mat3> G_;  // (r + 1, r + 1): psi_k psi_l^T
    std::vector<double> M_;  // (r, r): trace of G_pq
    mutable ForceHolder internal_;

    Vec6 wrench_ = Vec6::Zero();
    Mat6 by_twist_ = Mat6::Zero();
    std::vector<Vec6> mixed_;
    std::vector<double> force_, slope_;
    std::vector<double> e_, internal_force_, stiffness_;
    // The same integrals in the order in which loops read them: G_kl for all k (a column of blocks for each l), and for
    // each mode p the columns of all G_kp below one another; and the rows of all A_k beside one another.
    std::vector<double> columns_, stacked_, rows_;
    std::vector<Mat3> H_, A_;  // int psi_k y^T dm, and R^T Z_k''
    Vec3 s_now_;
    Mat3 Y_;  // int y y^T dm
};

}  // namespace supple
