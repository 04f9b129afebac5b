// Many linear models of one mechanism, blended by where its end effectors stand (FORK-1S, section 7).
//
// The state is the end effectors' true poses H and velocities phi. Every step finds the weights alpha of the models in
// use (eq. 25 with local support), the mean Hbar of their poses, and their compliance, inverse mass and inverse damping
// blended by eigenstructure (algorithm 3); then xi = log(Hbar^-1 H) makes one step of backward Euler in the
// admissible space (eq. 24, algorithm 5).
//
// The half-way rule. With w and w_i the loads now and at the samples, and K's curvature kappa, the mean of the tangents
// errs by -kappa/2 (sum alpha_i w_i^2 - w^2), the tangent at the mean by as much the other way, if sum alpha_i w_i = w:
// their mean has no second-order error. So every model is asked half-way between its own displacement
// log(H_i^-1 H) and the common one, xi; and the equilibrium wrenches enter as (Cbar bbar + sum alpha_i C_i b_i) / 2.
//
// Common spring. Near a snap-through the stiffness of a model may be zero or less, and its compliance passes through infinity.
// A spring `ground` is then added to all models, from the mean pose, so that their wrenches are b_i + ground log(Hbar^-1 H_i). It is
// subtracted from the force after blending.
//
// Loads. A model that the applied loads, by its own compliance, move out of its range has a smaller weight: trust_under_load() in
// blended.cpp. Without this, a blend of a soft model and one that is pulled taut follows the soft one far beyond both samples.
//
// Where the applied load is smaller than the mean load of the models, the geometric stiffness of the difference is limited, so that it
// cannot make the blend unstable: geometric_share() in blended.cpp.
//
// Changing weights. Weights change with xi, so the pose at which the springs are relaxed moves, and in stiff directions this would be
// an impulse at every step. lambda is the force of the springs by C from the strain r(xi) = xi + settled - C lambda. A step uses
// r' = J xi' with J = 1 + sum_i (dr/d alpha_i) (d alpha_i/d xi)^T and adds J^T K J h v' to the springs' force. It is symmetric, so it
// only dissipates, and it vanishes at rest, so it does not change equilibria.
//
// Energy budget. Changing weights may add energy to the motion. Velocities are scaled down where it exceeds the budget: curb() in
// blended_step.cpp.
//
// Twists are scaled by the mechanism's radius (lengths / r), so that all of it is in radians and joules.
#pragma once

#include <vector>

#include "contact/contact.hpp"
#include "reduced/blended_links.hpp"
#include "reduced/reduced.hpp"

namespace supple {

// A symmetric matrix (n, n) as frame * core * frame^T, columns matched across all models.
struct Eigenframe {
    Matrix frame;  // (n, c), zero columns where the model has no such direction
    Matrix core;   // (c, c)
    Vector there;  // (c,) 1 where it has, 0 elsewhere
};

// A pose as dual quaternions have it: q, and p q.
struct Turned {
    Eigen::Quaterniond q{1, 0, 0, 0}, pq{0, 0, 0, 0};
    Turned() = default;
    Turned(const Pose& pose) : q(pose.R), pq(Eigen::Quaterniond(0, pose.p.x(), pose.p.y(), pose.p.z()) * q) {}
};

// The weighted mean of poses, the same whatever their order.
class PoseMean {
   public:
    void add(double weight, const Turned& pose);
    Pose pose() const;
    void close();                             // when all are added, for
    Vec6 towards(const Turned& pose) const;   // the mean's body twist per weight of one more of these

   private:
    Eigen::Quaterniond real_{0, 0, 0, 0}, moved_{0, 0, 0, 0}, inverse_{0, 0, 0, 0}, place_{0, 0, 0, 0};
    Mat3 back_;
};

class Blended : public Participant {
   public:
    enum Kind { compliance, mobility, yielding };  // C, M^-1, D^-1
    struct Sample {
        std::vector<Pose> home;   // end effectors where the model was made
        Eigenframe parts[3];      // scaled, compliance with the ground's spring
        Matrix soft;              // (n, n) the compliance of `parts`
        Vector wrench;            // b, scaled
        double energy = 0;        // J, where it was made
        std::vector<Vec3> force;  // N in world axes, the forces of b on the end effectors
        Vector load, settled;     // generalised force of b on xi, and displacement by b: hold_loads()
        Matrix cobasis;           // (m, n): the model's own coordinates of a twist, not scaled
        double presence = 1;      // grows from 0 to 1 after a model is added
        double trust = 1;         // factor of its weight (before the power) under the applied loads; negative: not yet known
        std::vector<Pose> tips;   // home, moved by set-points
        std::vector<Turned> turned;  // the same
        Vector eta, lag;          // its pose from the mean, its load less the mean load; scaled
        Vector own;               // displacement of the end effectors from the poses of this model, scaled
        Vector y;                 // the model's own coordinates at which its links are evaluated
        Matrix bounded;           // (n, bounds): bounded joint coordinates per twist, not scaled
        Vector bound_values;      // (bounds,) the same coordinates at the pose of the model, changed by set-points
    };
    struct Tip : Pulled {
        Pose pose;
        Vec6 velocity = Vec6::Zero();  // body twist
    };

    std::vector<Sample> samples;
    std::vector<Tip> tips;
    double h = 0, time = 0, radius = 1, power = 4;
    double ground = 0;    // stiffness of the common spring added to all models, scaled, J
    double fading = 1;    // s, until a new model has its full weight
    int neighbours = 0;   // the weight vanishes at 1.2 times the distance of this neighbour; 0: never
    bool damped = false;
    bool loads_known = true;  // weights depend on the applied loads too
    bool published = false;  // the scheme of the paper (functions published_*, blend(), asked(), solve(), step())
    Vector lower, upper;  // (bounds,) of joint coordinates, kept in a World

    void prepare();
    void add(Sample sample);
    void move_sample(int i, const Vector& twists);  // by set-points
    bool step();                     // false: not finite, the state is that of the last good step
    // in a World: the end effectors are the frames
    int frames() const override { return static_cast<int>(tips.size()); }
    Pose frame(int i) const override { return tips[i].pose; }
    Vec6 free_velocity(int i) const override;
    bool begin() override;
    void limits(std::vector<Limit>& out) const override;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override {}  // begin() leaves the state alone
    double energy() const override;

    double settle(int iterations, double tolerance);  // towards rest under the loads; the size of the last move
    void blend();                    // everything below, at the present poses; nothing if nothing has moved since
    void touch() { stale_ = renew_ = loads_changed_ = true; }  // to be called when poses or samples were changed from outside
    // to be called when applied wrenches have changed
    void loads_changed() { stale_ = loads_changed_ = true; }
    bool kept() const { return !renew_; }
    void allow(double energy) { allowed = energy, renew_ = false; }
    double allowed = 0;              // J, the energy budget: initial energy plus work of loads less work of dampers

    Vector weights;                  // (k,) of the last blend
    std::vector<BlendedLinks::Use> used;
    std::vector<Pose> means;         // Hbar
    Matrix basis;                    // (n, r) P, orthonormal columns of scaled twists
    Matrix soft, light, slack;       // (r, r) blended compliance, inverse mass and inverse damping
    Matrix strain;                   // (r, r) J, of the last step
    Vector settled;                  // (r,)
    Vector xi;                       // (n,) from the means, scaled
    Vector holding() const;          // (n,) wrench that holds the tips where they are, in their own axes
    void ask();                      // computes y of each model in use

   private:
    static constexpr double agreement = 0.5;  // a blended eigenvector shorter than this is lengthened by at most its inverse
    void weigh();
    void forget_trust();
    double trust_under_load(const Sample& sample);
    double distance(const std::vector<Pose>& a, const std::vector<Pose>& b) const;
    template <int n>
    void mix(Kind kind, Matrix& into);
    void mix(Kind kind, Matrix& into);
    template <int n>
    void hold_loads();
    template <int n>
    double geometric_share();
    Vec3 applied_force(int e) const;
    double published_distance(int model) const;
    Pose published_mean(int e) const;
    Vector grounded() const;
    template <int n>
    void slope(const Vector& held);
    template <int n>
    void turn_frame(int use, const Vector& by, Vector& result);
    template <int n>
    bool solve();
    double stored(const Vector& held);
    void curb(double kinetic, double stored);
    Eigen::Matrix<double, 3, 6> point_map(int e, const Vec3& local) const;
    Vec6 asked(int use, int e) const;
    void meet_bounds() const;
    Vector bound_row(int bound) const;
    void admissible();
    void pulled(Vector& result) const;  // (n,) scaled, what the applied wrenches do on xi
    void rates(Vector& result) const;   // (n,) of xi, scaled
    void to_basis(const Vector& twists, Vector& z) const;
    void from_basis(const Vector& z, Vector& twists) const;
    Vec6 scaled(const Vec6& twist) const { return stack(twist.head<3>() / radius, twist.tail<3>()); }
    Vec6 unscaled(const Vec6& x) const { return stack(x.head<3>() * radius, x.tail<3>()); }

    int n_ = 0;
    bool stale_ = true, renew_ = true, loads_changed_ = true;
    double extent_ = 0;               // largest distance of a model from the first one
    Vector outer_;                    // (r,) impulses of loads and handles,
    Matrix lost_;                     // (r, r) and what dampers and handles take
    double reach_ = 0;                // 1/R of the weights
    int last_ = -1;                   // the neighbour that R follows
    std::vector<double> distances_;
    std::vector<int> order_;
    Matrix frame_, core_, half_, full_[3];
    Vector there_, length_;           // of the frame's columns: share of models that have it; length before it was made unit
    Vector fresh_, z_, v_, push_;     // in the basis: rates after the step, coordinates, rates, what pulls
    Vector wrench_, each_, all_, by_; // (n,) mean wrench, and scratch
    Matrix climb_, change_;           // (n, used): d alpha_i / d xi and d r / d alpha_i
    Vector hold_;                     // (r,) lambda, what the springs hold with
    mutable Vector bound_at_, bound_rate_, bound_own_, moves_;  // scratch of limits(): (bounds,), and (n,) rates of xi
    Matrix system_, rows_, turned_;   // A of this step; G and A^-1 G in a World
    std::vector<PoseMean> sums_;
    std::vector<Mat6> jacobians_;     // right Jacobians of exp at xi
    std::vector<Vec3> forces_;        // W, N in world axes: the mean force of the models on each end effector
    std::vector<int> active_;
};

}  // namespace supple
