// Many linear models (samples) of one mechanism, blended by the poses of its end effectors (FORK-1S, section 7).
//
// The state consists of the poses H and velocities phi of the end effectors. Every step computes the weights alpha of
// the models (eq. 25 with local support), the mean Hbar of their poses, and their compliance, inverse mass and inverse
// damping, blended by eigenstructure (algorithm 3). Then xi = log(Hbar^-1 H) is advanced by backward Euler in the
// admissible space (eq. 24, algorithm 5). Models in use are those with a positive weight.
//
// Half-way rule. Let w and w_i be the present load and the loads of the samples, with sum alpha_i w_i = w, and kappa
// the curvature of the load-displacement curve. The mean of the tangents has the error -kappa/2 (sum alpha_i w_i^2 -
// w^2), the tangent at the mean the opposite error, so their average has no error of second order. Therefore every
// model is evaluated half-way between its own displacement log(H_i^-1 H) and the common one, xi, and the equilibrium
// wrenches enter as Cbar bbar + sum alpha_i C_i (b_i - bbar) / 2. A model's C_i (b_i - bbar) is at most three times as
// long as the way to its pose.
//
// Common spring. Near a snap-through the stiffness of a model may be zero or less, and its compliance passes through
// infinity. A spring `ground` is then added to all models, from the mean pose, so that their wrenches are b_i + ground
// log(Hbar^-1 H_i). It is subtracted from the force after blending.
//
// Loads. A model that predicts a large displacement under the applied loads has a smaller weight: trust_under_load() in
// blended_loads.cpp. Without this, a blend of a soft model and one that is pulled taut follows the soft one far beyond
// both samples.
//
// Between the loads of two models, the engine has computed the poses at which the end effectors are at rest (RestPath).
// The pose at the present loads enters the strain as one more model, with a share that is 1 there and 0 at the poses of
// the models: predict_rest() in blended_loads.cpp, pull_to_rest().
//
// Where the applied load is smaller than the mean load of the models, the geometric stiffness of the difference is
// limited, so that it cannot make the blend unstable: geometric_share() in blended.cpp.
//
// Changing weights. Weights change with xi, so the pose at which the springs are relaxed moves, and in stiff directions
// this would be an impulse at every step. The force lambda of the springs solves r = 0 for the strain r(xi) = xi +
// load_displacement - C lambda. A step uses r' = J xi' with J = 1 + sum_i (dr/d alpha_i) (d alpha_i/d xi)^T and adds
// J^T K J h v' to the springs' force. This term is symmetric, so it only dissipates, and it vanishes at rest, so it
// does not change equilibria.
//
// Energy budget. Changing weights may add energy. Velocities are scaled down where the energy exceeds the budget:
// limit_kinetic_energy() in blended_step.cpp.
//
// Twists are scaled by the mechanism's radius (lengths / r), so that they are in radians and generalised forces in
// joules.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "contact/contact.hpp"
#include "reduced/blended_links.hpp"
#include "reduced/reduced.hpp"
#include "spatial/four_poses.hpp"

namespace supple {

// [[M, dM], [0, M]]: the form of Jacobians of exp and log (spatial.hpp)
struct TwistJacobian {
    Mat3 M, dM;

    TwistJacobian() = default;
    // a left Jacobian; the right one is that of -twist
    __attribute__((flatten)) TwistJacobian(const Vec6& twist, const Coefficients& c)
        : M(detail::polynomial(twist.tail<3>(), c)),
          dM(detail::directional_derivative(twist.tail<3>(), twist.head<3>(), c)) {}
    SUPPLE_INLINE Vec6 operator*(const Vec6& x) const {
        return stack(M * x.head<3>() + dM * x.tail<3>(), M * x.tail<3>());
    }
    SUPPLE_INLINE Vec6 transpose_times(const Vec6& w) const {
        return stack(M.transpose() * w.head<3>(), dM.transpose() * w.head<3>() + M.transpose() * w.tail<3>());
    }
};

// The weighted mean of poses: sums of a q and a p q over poses with weights a, where the dual quaternion of a pose is
// (q, p q). It does not depend on the order of the poses. All lanes are alike.
struct PoseMean {
    FourQuaternions turn, inverse;  // rotation; inverse of the sum of a q
    FourQuaternions place;  // sum of a p q times this inverse: its vector is the position

    PoseMean() = default;
    PoseMean(const Four& real, const Four& moved);  // (x, y, z, w)
    Pose pose() const;
};

class Blended : public Participant {
   public:
    // lanes of the blended matrices: C, M^-1, D^-1, and C again
    static constexpr int compliance_kind = 0, inverse_mass_kind = 1, inverse_damping_kind = 2, soft_kind = 3;
    struct Sample {
        std::vector<Pose> home;  // poses of the end effectors at which the model was made
        Vector wrench;  // b, scaled
        double energy = 0;  // J, at these poses
        Matrix cobasis;  // (m, n): the model's own coordinates of a twist, not scaled
        Matrix bounded;  // (n, bounds): bounded joint coordinates per twist, not scaled
        Vector bound_values;  // (bounds,) the same coordinates at the pose of the model, changed by set-points

        // computed by add() and move_sample()
        // A kind in each lane: (n, n) by columns, (n, n), (n,) 1 where the kind has this direction
        std::vector<Four> frame, core, has_column;
        Matrix compliance;  // (n, n); it includes the common spring
        std::vector<Pose> tips;  // `home`, moved by set-points
        std::vector<Vec3> force;  // N in world axes, the forces of b on the end effectors
        Vector y;  // the model's own coordinates at which its links are evaluated
    };
    // Poses at rest as the load changes from that of one model (share 0) to that of another (share 1)
    struct RestPath {
        int first, second;
        std::vector<double> shares;  // (k,) increasing, k > 1
        // (n, k) from the pose of the first model, scaled, and their derivatives by the share
        Matrix displacements, slopes;
    };
    struct Tip : ExternalLoad {
        Pose pose;
        Vec6 velocity = Vec6::Zero();  // body twist
    };

    std::vector<Sample> samples;
    std::vector<Tip> tips;
    double h = 0, time = 0, radius = 1, power = 4;
    double ground = 0;  // stiffness of the common spring added to all models, scaled, J
    double fading = 1;  // s, time in which the presence of a new model grows from 0 to 1
    int neighbours = 0;  // the weight vanishes at 1.2 times the distance of this neighbour; 0: never
    bool damped = false;
    bool loads_known = true;  // weights depend on the applied loads too
    // The scheme of the paper (functions published_*, blend(), evaluation_twist(), solve(), step())
    bool published = false;
    Vector lower, upper;  // (bounds,) of joint coordinates; enforced in a World only

    void prepare();
    // frames (n, n) and cores (n, n) of C, M^-1 and D^-1, scaled: frame core frame^T, columns matched across all
    // models, with a zero column for each direction that the model does not have. `presence` grows from 0 to 1 after a
    // model is added.
    void add(Sample sample, const std::array<Matrix, 3>& frames, const std::array<Matrix, 3>& cores, double presence);
    void move_sample(int i, const Vector& twists);  // by set-points
    void add_path(RestPath path) {
        paths_.push_back(std::move(path));
        mark_changed();
    }
    void clear() {  // removes all models
        samples.clear();
        paths_.clear();
    }
    bool step();  // false: the result is not finite; the state is that of the last successful step
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

    // Moves the tips to the equilibrium under the loads; returns the size of the last move
    double relax(int iterations, double tolerance);
    void blend();  // computes everything below at the present poses, if these have changed
    // To be called when samples were changed from outside
    void mark_changed() { stale_ = budget_unset_ = loads_changed_ = true; }
    // To be called when poses or velocities were changed from outside
    void poses_changed() { stale_ = budget_unset_ = true; }
    // to be called when applied wrenches have changed
    void loads_changed() { stale_ = loads_changed_ = true; }
    bool has_energy_budget() const { return !budget_unset_; }
    void set_energy_budget(double energy) { energy_budget = energy, budget_unset_ = false; }
    double energy_budget = 0;  // J: initial energy plus work of loads less work of dampers

    double presence(int i) const { return presence_[i / 4][i % 4]; }
    void set_presence(int i, double presence) {
        presence_[i / 4][i % 4] = presence;
        fading_ = true;
    }

    // as of the last blend; matrices are (r, r)
    Vector weights() const;  // (k,)
    std::vector<BlendedLinks::Use> used;
    std::vector<Pose> means;  // Hbar
    Matrix basis;  // (n, r) P, orthonormal columns of scaled twists
    Matrix blended(int kind) const;
    Matrix strain() const;  // J, of the last step
    Vector load_displacement;  // (r,) displacement by the equilibrium wrenches of the models
    Vector xi;  // (n,) from the means, scaled
    Vector holding_wrench() const;  // (n,) wrench that holds the tips at their present poses, in their own axes
    void compute_link_coordinates();  // computes y of each model in use

   private:
    static constexpr double reach_factor = 1.2;  // reach of the weights, over the distance of the last neighbour
    // Largest geometric stiffness of missing loads, over the stiffness of the blend
    static constexpr double most_cancelled = 0.8;
    // Size of the region around a model in which it acts although a rest pose is predicted, over the distance from this
    // pose
    static constexpr double rest_region = 1. / 16;
    // Compliance added to the spring at a predicted rest pose, over the largest compliance: at this pose, and more far
    // from it
    static constexpr double least_rest_compliance = 1e-6, far_rest_compliance = 0.01;
    // A blended eigenvector shorter than this is lengthened by at most its inverse
    static constexpr double agreement = 0.5;

    // Four models in use, one in each lane. Lanes beyond the last model repeat it with weight zero. Arrays are (n,) or
    // (n, n) by columns; twists and wrenches are scaled.
    struct Group {
        struct Tip {
            FourPoses home;
            FourVectors force, torque;  // N in world axes, Nm in those of the end effector: the wrench of the model
            FourPoses seen;  // pose of the end effector relative to that of the model
            Four sign;  // of the quaternion in the mean
        };
        std::array<int, 4> model;
        Four weight, energy, distance;
        std::vector<Tip> tips;
        std::vector<Four> frame, core, has_column;  // of the compliance
        std::vector<Four> compliance;  // lower triangle by rows, padded to fours
        std::vector<Four> wrench;
        std::vector<Four> own;  // displacement of the end effectors from the poses of the model
        std::vector<Four> eta;  // twist from the mean pose to that of the model
        std::vector<Four> load_difference;  // the model's load less the mean load, in its own axes
        std::vector<Four> load;  // generalised force of b on xi
        std::vector<Four> load_displacement;  // displacement by this difference
        std::vector<Four> weight_gradient, strain_by_weight;  // d alpha_i / d xi and d r / d alpha_i
        std::vector<Four> turned, inner;  // scratch of add_compliance_derivative()

        void put(int lane, int model, const Blended& of);
    };

    // The size that is known when compiling, if it is: one end effector without rigid directions.
    template <int n>
    static constexpr int size(int given) {
        return n == Eigen::Dynamic ? given : n;
    }
    // of an entry in a lower triangle by rows
    static constexpr int entry(int i, int j) { return i < j ? entry(j, i) : i * (i + 1) / 2 + j; }
    void weigh();
    template <int n>
    void compute_distances();
    void group_models();
    void find_core_ranges();
    void reset_trust();
    double trust_under_load(const Sample& sample) const;
    Vector predicted_displacement(const Sample& sample, const Vector& change) const;
    double distance(const std::vector<Pose>& a, const std::vector<Pose>& b) const;
    Vector load_change(const Sample& sample) const;
    Vector with_applied_axes(const Sample& sample, const Vector& load) const;
    std::vector<Pose> moved_tips(const Sample& sample, const Vector& displacement) const;
    Vector displacement_between(const std::vector<Pose>& from, const std::vector<Pose>& to) const;
    Vector path_displacement(const RestPath& path, double share) const;
    void predict_rest();
    void compute_rest_share(double nearness, double scale);
    template <int n>
    void pull_to_rest();
    void differentiate_rest_share();
    void add_rest_compliance();
    template <int n>
    void blend_models();
    template <int n>
    void mix();
    template <int n>
    void compute_displacements();
    template <int n>
    void compute_load_displacements();
    template <int n>
    double geometric_share() const;
    Vec3 applied_force(int e) const;
    double published_distance(int model) const;
    Pose published_mean(int e) const;
    double ground_used() const { return (1 - rest_share_) * ground; }  // the predicted rest pose needs no common spring
    Vector rest_with_ground() const;
    template <int n>
    void differentiate_weights();
    template <int n>
    void differentiate_strain(const double* spring_force);
    template <int n>
    void add_compliance_derivative(const double* vector);
    template <int n>
    void add_mean_derivative();
    template <int r>
    double damping_time(const double* springs, double kinetic, double elastic);
    template <int r>
    void add_strain_damping(double factor, Eigen::Matrix<double, r, r>& system);
    template <int n>
    bool solve();
    double stored_energy(const double* spring_force);
    double limit_kinetic_energy(double kinetic, double stored);
    Eigen::Matrix<double, 3, 6> point_map(int e, const Vec3& local) const;
    Eigen::Matrix<double, 3, 6> by_scaled_twist(int e, const Eigen::Matrix<double, 3, 6>& rows) const;
    Vec6 evaluation_twist(int use, int e) const;
    Vector weight_gradient(int use) const;  // (n,)
    void fade_in();
    void evaluate_bounds() const;
    Vector bound_row(int bound) const;
    void find_basis();
    const std::vector<Four>& matrices() const { return reduced_ ? projected_ : full_; }  // (r, r)
    void models_changed();
    double distance(int model) const { return distances_[model / 4][model % 4]; }
    // (n,) of the applied wrenches, or `path_wrenches_`, on xi, scaled
    void generalised_force(Vector& result, bool of_path = false) const;
    void rates(Vector& result) const;  // (n,) of xi, scaled
    void to_basis(const Vector& twists, Vector& z) const;
    void to_basis(const Four* twists, Four* z) const;
    template <int r>
    void from_basis(const Eigen::Matrix<double, r, 1>& z, Vector& twists) const;
    Vec6 scaled(const Vec6& twist) const { return stack(twist.head<3>() / radius, twist.tail<3>()); }
    Vec6 unscaled(const Vec6& x) const { return stack(x.head<3>() * radius, x.tail<3>()); }
    FourTwists scaled(const FourTwists& twist) const { return {(1 / radius) * twist.linear, twist.angular}; }

    int n_ = 0;
    bool stale_ = true, budget_unset_ = true, loads_changed_ = true, fading_ = false, reduced_ = false;
    double extent_ = 0;  // largest distance of a model from the first one
    double load_extent_ = 0;  // J, largest difference of a model's load (scaled) from that of the first one
    std::vector<RestPath> paths_;
    std::vector<Pose> rest_;  // pose at rest under the load of a path nearest to the applied loads
    std::vector<Vec6> path_wrenches_;  // this load, in the axes in which the applied wrenches are given
    double rest_presence_ = 0;  // 0: none is predicted
    double rest_share_ = 0, rest_distance_ = 0;  // share in the strain, and distance from the present pose
    Vector rest_difference_;  // (n,) load_displacement by the predicted pose less that of the models
    double rest_compliance_ = 0;  // added to the compliance, times the share; 0 without a share
    Vector rest_slope_;  // (n,) d strain / d rest_share
    Vector rest_offset_;  // (n,) share of the way to the predicted pose that is not admissible
    Vector rest_gradient_;  // (n,) d rest_share / d xi
    Vector rest_part_;  // (r,) one of these in the basis
    Vector push_all_;  // (n,) generalised force of the path's load on xi
    std::vector<Four> nearness_;  // of all models: (k (1/d_i - 1/R))^p, scaled
    Vector external_impulse_;  // (r,) impulses of loads and handles
    Matrix dissipation_;  // (r, r) h D of dampers, and h (h k + d) J^T J of handles
    double reach_ = 0;  // 1/R of the weights
    int last_ = -1;  // the neighbour whose distance determines R
    // of all models, four abreast
    std::vector<FourPoses> homes_;  // by four models, then by end effector
    std::vector<Four> presence_, distances_, weights_;
    std::vector<Four> trust_;  // factor of a weight (before the power) under the applied loads; negative: not yet known
    std::vector<int> order_;
    std::vector<Group> groups_;  // of the models in use
    // a kind in each lane
    std::vector<Four> frame_, core_, half_, full_;  // (n, n) by columns: algorithm 3
    // Range of the rows of a column of `core_` that are not zero in all models in use
    std::vector<int> core_first_, core_end_;
    // (n,) weight of the models that have a column; its norm before normalisation
    std::vector<Four> column_share_, length_;
    std::vector<Four> column_scale_;  // factor of the column in the normalisation
    std::vector<Four> projected_, inverse_;  // (r, r) `full_` in the basis, if it is not the identity; inverses
    Vector new_rates_, z_, v_, push_;  // in the basis: rates after the step, coordinates, rates, applied force
    Vector wrench_, each_, all_, by_;  // (n,) mean wrench, and scratch
    Vector slope_;  // (n, n) lower triangle: change of load_displacement by a change of the mean load
    // per group of models: `strain_by_weight` and `weight_gradient` in the basis, (r,); the same, (r) padded to fours,
    // per model
    std::vector<Four> strain_lanes_, gradient_lanes_, strain_columns_, gradient_columns_;
    int columns_ = 0;  // of J: the models in use, and one for the predicted rest pose
    std::vector<Four> strain_, bent_;  // (r, r padded to fours) by rows: J and K J; empty if J is the identity
    Vector spring_force_;  // (r,) lambda, force of the springs
    mutable Vector bound_at_, bound_rate_, bound_own_, moves_;  // scratch of limits(): (bounds,), and (n,) rates of xi
    Matrix system_, rows_, response_;  // A of this step; G and A^-1 G in a World
    std::vector<Eigen::Quaterniond> turns_;  // rotations of the end effectors
    std::vector<PoseMean> mean_poses_;
    std::vector<TwistJacobian> jacobians_, inverse_jacobians_;  // right Jacobians of exp at xi, and their inverses
    std::vector<Vec3> forces_;  // W, N in world axes: the mean force of the models on each end effector
    std::vector<int> active_;
};

}  // namespace supple
