// Many linear models (samples) of one mechanism, blended by the poses of its end effectors (FORK-1S, section 7).
//
// The state consists of the poses H and velocities phi of the end effectors. Every step computes the weights alpha of the models
// (eq. 25 with local support), the mean Hbar of their poses, and their compliance, inverse mass and inverse damping, blended by
// eigenstructure (algorithm 3). Then xi = log(Hbar^-1 H) is advanced by backward Euler in the admissible space (eq. 24,
// algorithm 5). Models in use are those with a positive weight.
//
// Half-way rule. Let w and w_i be the present load and the loads of the samples, with sum alpha_i w_i = w, and kappa the curvature
// of the load-displacement curve. The mean of the tangents has the error -kappa/2 (sum alpha_i w_i^2 - w^2), the tangent at the
// mean the opposite error, so their average has no error of second order. Therefore every model is evaluated half-way between its
// own displacement log(H_i^-1 H) and the common one, xi, and the equilibrium wrenches enter as
// Cbar bbar + sum alpha_i C_i (b_i - bbar) / 2. A model's C_i (b_i - bbar) is at most three times as long as the way to its pose.
//
// Common spring. Near a snap-through the stiffness of a model may be zero or less, and its compliance passes through infinity.
// A spring `ground` is then added to all models, from the mean pose, so that their wrenches are b_i + ground log(Hbar^-1 H_i). It is
// subtracted from the force after blending.
//
// Loads. A model that predicts a large displacement under the applied loads has a smaller weight: trust_under_load() in
// blended.cpp. Without this, a blend of a soft model and one that is pulled taut follows the soft one far beyond both samples.
//
// Where the applied load is smaller than the mean load of the models, the geometric stiffness of the difference is limited, so that it
// cannot make the blend unstable: geometric_share() in blended.cpp.
//
// Changing weights. Weights change with xi, so the pose at which the springs are relaxed moves, and in stiff directions this would be
// an impulse at every step. The force lambda of the springs solves r = 0 for the strain r(xi) = xi + load_displacement - C lambda. A step uses
// r' = J xi' with J = 1 + sum_i (dr/d alpha_i) (d alpha_i/d xi)^T and adds J^T K J h v' to the springs' force. This term is
// symmetric, so it only dissipates, and it vanishes at rest, so it does not change equilibria.
//
// Energy budget. Changing weights may add energy. Velocities are scaled down where the energy exceeds the budget:
// limit_kinetic_energy() in blended_step.cpp.
//
// Twists are scaled by the mechanism's radius (lengths / r), so that they are in radians and generalised forces in joules.
#pragma once

#include <vector>

#include "contact/contact.hpp"
#include "reduced/blended_links.hpp"
#include "reduced/reduced.hpp"

namespace supple {

// A symmetric matrix (n, n) as frame * core * frame^T, columns matched across all models.
struct Eigenframe {
    Matrix frame;  // (n, c), a zero column for each direction that the model does not have
    Matrix core;   // (c, c)
    Vector has_column;  // (c,) 1 if the model has this direction, otherwise 0
};

// A pose as a dual quaternion: q, and p q.
struct DualQuaternion {
    Eigen::Quaterniond q{1, 0, 0, 0}, pq{0, 0, 0, 0};
    DualQuaternion() = default;
    DualQuaternion(const Pose& pose) : q(pose.R), pq(Eigen::Quaterniond(0, pose.p.x(), pose.p.y(), pose.p.z()) * q) {}
};

// The weighted mean of poses; it does not depend on their order.
class PoseMean {
   public:
    void add(double weight, const DualQuaternion& pose);
    Pose pose() const;
    void close();                             // to be called after all poses were added, before `towards`
    Vec6 towards(const DualQuaternion& pose) const;   // derivative of the mean (a body twist) by the weight of a pose

   private:
    Eigen::Quaterniond real_{0, 0, 0, 0}, moved_{0, 0, 0, 0}, inverse_{0, 0, 0, 0}, place_{0, 0, 0, 0};
    Mat3 back_;
};

class Blended : public Participant {
   public:
    enum Kind { compliance_kind, inverse_mass_kind, inverse_damping_kind };  // C, M^-1, D^-1
    struct Sample {
        std::vector<Pose> home;   // poses of the end effectors at which the model was made
        Eigenframe parts[3];      // scaled; the compliance includes the common spring
        Matrix compliance;              // (n, n) the compliance of `parts`
        Vector wrench;            // b, scaled
        double energy = 0;        // J, at these poses
        std::vector<Vec3> force;  // N in world axes, the forces of b on the end effectors
        Vector load, load_displacement;     // generalised force of b on xi, and displacement by b: compute_load_displacements()
        Matrix cobasis;           // (m, n): the model's own coordinates of a twist, not scaled
        double presence = 1;      // grows from 0 to 1 after a model is added
        double trust = 1;         // factor of its weight (before the power) under the applied loads; negative: not yet known
        std::vector<Pose> tips;   // `home`, moved by set-points
        std::vector<DualQuaternion> dual_quaternions;  // the same poses
        Vector eta, load_difference;          // twist from the mean pose to that of the model, its load less the mean load; scaled
        Vector own;               // displacement of the end effectors from the poses of this model, scaled
        Vector y;                 // the model's own coordinates at which its links are evaluated
        Matrix bounded;           // (n, bounds): bounded joint coordinates per twist, not scaled
        Vector bound_values;      // (bounds,) the same coordinates at the pose of the model, changed by set-points
    };
    struct Tip : ExternalLoad {
        Pose pose;
        Vec6 velocity = Vec6::Zero();  // body twist
    };

    std::vector<Sample> samples;
    std::vector<Tip> tips;
    double h = 0, time = 0, radius = 1, power = 4;
    double ground = 0;    // stiffness of the common spring added to all models, scaled, J
    double fading = 1;    // s, time in which the presence of a new model grows from 0 to 1
    int neighbours = 0;   // the weight vanishes at 1.2 times the distance of this neighbour; 0: never
    bool damped = false;
    bool loads_known = true;  // weights depend on the applied loads too
    bool published = false;  // the scheme of the paper (functions published_*, blend(), evaluation_twist(), solve(), step())
    Vector lower, upper;  // (bounds,) of joint coordinates; enforced in a World only

    void prepare();
    void add(Sample sample);
    void move_sample(int i, const Vector& twists);  // by set-points
    bool step();                     // false: the result is not finite; the state is that of the last successful step
    // in a World: the end effectors are the frames
    int frames() const override { return static_cast<int>(tips.size()); }
    Pose frame(int i) const override { return tips[i].pose; }
    Vec6 free_velocity(int i) const override;
    Vec6 start_velocity(int i) const override {
        const Vec6& twist = tips[i].velocity;
        return stack(tips[i].pose.R * twist.head<3>(), tips[i].pose.R * twist.tail<3>());
    }
    bool begin() override;
    void limits(std::vector<Limit>& out) const override;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override {}  // begin() does not change the state
    double energy() const override;

    double relax(int iterations, double tolerance);  // moves the tips to the equilibrium under the loads; returns the size of the last move
    void blend();                    // computes everything below at the present poses, if these have changed
    void mark_changed() { stale_ = budget_unset_ = loads_changed_ = true; }  // to be called when poses or samples were changed from outside
    // to be called when applied wrenches have changed
    void loads_changed() { stale_ = loads_changed_ = true; }
    bool has_energy_budget() const { return !budget_unset_; }
    void set_energy_budget(double energy) { energy_budget = energy, budget_unset_ = false; }
    double energy_budget = 0;              // J: initial energy plus work of loads less work of dampers

    Vector weights;                  // (k,) of the last blend
    std::vector<BlendedLinks::Use> used;
    std::vector<Pose> means;         // Hbar
    Matrix basis;                    // (n, r) P, orthonormal columns of scaled twists
    Matrix compliance, inverse_mass, inverse_damping;       // (r, r) blended compliance, inverse mass and inverse damping
    Matrix strain;                   // (r, r) J, of the last step
    Vector load_displacement;                  // (r,) displacement by the equilibrium wrenches of the models
    Vector xi;                       // (n,) from the means, scaled
    Vector holding_wrench() const;          // (n,) wrench that holds the tips at their present poses, in their own axes
    void compute_link_coordinates();                      // computes y of each model in use

   private:
    static constexpr double agreement = 0.5;  // a blended eigenvector shorter than this is lengthened by at most its inverse
    void weigh();
    void reset_trust();
    template <int n>
    double trust_under_load(const Sample& sample) const;
    template <int n>
    Eigen::Matrix<double, n, 1> predicted_displacement(const Sample& sample, const Eigen::Matrix<double, n, 1>& change) const;
    double distance(const std::vector<Pose>& a, const std::vector<Pose>& b) const;
    template <int n>
    void mix(Kind kind, Matrix& into);
    void mix(Kind kind, Matrix& into);
    template <int n>
    void compute_load_displacements();
    template <int n>
    double geometric_share();
    Vec3 applied_force(int e) const;
    double published_distance(int model) const;
    Pose published_mean(int e) const;
    Vector rest_with_ground() const;
    template <int n>
    void differentiate_strain(const Vector& spring_force);
    template <int n>
    void compliance_derivative(int use, const Vector& by, Vector& result);
    template <int n>
    bool solve();
    double stored_energy(const Vector& spring_force);
    void limit_kinetic_energy(double kinetic, double stored);
    Eigen::Matrix<double, 3, 6> point_map(int e, const Vec3& local) const;
    Eigen::Matrix<double, 3, 6> by_scaled_twist(int e, const Eigen::Matrix<double, 3, 6>& rows) const;
    Vec6 evaluation_twist(int use, int e) const;
    void evaluate_bounds() const;
    Vector bound_row(int bound) const;
    void admissible();
    void generalised_force(Vector& result) const;  // (n,) of the applied wrenches on xi, scaled
    void rates(Vector& result) const;   // (n,) of xi, scaled
    void to_basis(const Vector& twists, Vector& z) const;
    void from_basis(const Vector& z, Vector& twists) const;
    Vec6 scaled(const Vec6& twist) const { return stack(twist.head<3>() / radius, twist.tail<3>()); }
    Vec6 unscaled(const Vec6& x) const { return stack(x.head<3>() * radius, x.tail<3>()); }

    int n_ = 0;
    bool stale_ = true, budget_unset_ = true, loads_changed_ = true;
    double extent_ = 0;               // largest distance of a model from the first one
    double load_extent_ = 0;          // J, largest difference of a model's load (scaled) from that of the first one
    Vector external_impulse_;                    // (r,) impulses of loads and handles
    Matrix dissipation_;                     // (r, r) h D of dampers, and h (h k + d) J^T J of handles
    double reach_ = 0;                // 1/R of the weights
    int last_ = -1;                   // the neighbour whose distance determines R
    std::vector<double> distances_;
    std::vector<int> order_;
    Matrix frame_, core_, half_, full_[3];
    Vector column_share_, length_;           // per column of the frame: weight of the models that have it; norm before normalisation
    Vector new_rates_, z_, v_, push_;     // in the basis: rates after the step, coordinates, rates, applied force
    Vector wrench_, each_, all_, by_; // (n,) mean wrench, and scratch
    Matrix weight_gradient_, strain_by_weight_;           // (n, used): d alpha_i / d xi and d r / d alpha_i
    Matrix slope_;                    // (n, n): change of load_displacement by a change of the mean load
    Vector spring_force_;                     // (r,) lambda, force of the springs
    mutable Vector bound_at_, bound_rate_, bound_own_, moves_;  // scratch of limits(): (bounds,), and (n,) rates of xi
    Matrix system_, rows_, response_;   // A of this step; G and A^-1 G in a World
    std::vector<PoseMean> sums_;
    std::vector<Mat6> jacobians_;     // right Jacobians of exp at xi
    std::vector<Vec3> forces_;        // W, N in world axes: the mean force of the models on each end effector
    std::vector<int> active_;
};

}  // namespace supple
