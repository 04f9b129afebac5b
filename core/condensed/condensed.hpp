// Condensed models: the end effectors (tips) are dynamic; all links between them and the world, the interior, are in static
// equilibrium.
//
// The equilibria (states of balance) of the interior under wrenches lambda on the tips form a manifold of at most 6e dimensions. Its tangent
// is B = K^-1 J^T, the motion per unit wrench. The state at the end of a time step satisfies two equations:
//     balance    g(q) - J^T lambda = 0              springs, gravity, loops, motors and active limits
//     motion     B^T (f - M a - D v - g) = 0        applied forces and the inertia of every link, projected onto the manifold
// So the mass of a tip includes the interior's, Phi^T M Phi at the present pose, and its compliance is C = J K^-1 J^T. C is never
// inverted: a direction in which it is zero is a rigid constraint. Newton's method solves both equations together. During
// the iteration, springs of stiffness A (anchors) hold the tips, with wrench lambda - A x. They change the parametrisation of
// the manifold only, and keep K + J^T A J regular where K itself is singular.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "contact/external_load.hpp"
#include "engine/stepper.hpp"
#include "spatial/dense.hpp"
#include "spatial/eight.hpp"

namespace supple {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

struct EndEffector : ExternalLoad {
    int body = 0;
    Pose on_body;
    struct Contact {
        Vec3 point;                  // its own frame
        Vec6 wrench;                 // force and torque at the point, world axes
    };
    std::vector<Contact> contacts;   // in a World
};

struct Response {  // of an interior to the parameters mu of the manifold: wrenches on the anchored tips
    Matrix compliance;  // (6e, 6e): twists of the tips
    Matrix left;        // (6e, 6e): J times the basis B of the manifold's tangent, transposed
    Matrix inertia;     // (6e, 6e + 1): inertia, damping and armature of a step, projected; last column: for `drift`
    Vector drift;       // (6e,): twists of the tips by the correction to balance
    Vector force;       // (6e,): applied forces minus the rate of momentum, projected; unless `whole`, minus the residual of balance
    Matrix anchor;      // (6e, 6e): stiffness A that the tips were anchored with
    int negative = 0;   // negative pivots of the anchored tangent
    bool whole = false; // `inertia` is the complete tangent of motion
};

// A wrench w that turns with its tip changes by -ad(x)^T w in world axes. Adding this matrix to the anchor leaves half of that
// change in the tangent, which is then symmetric.
SUPPLE_INLINE Mat6 turning(const Vec6& w) {
    const Mat3 f = skew(w.head<3>());
    return -0.5 * blocks(Mat3::Zero(), f, f, skew(w.tail<3>()));
}

// Tangent of a response. first: a new one, whose B is the projection basis for the rest of the step, so that residuals are
// projected onto the same directions throughout. renewed: a new one, with the same basis. kept: the previous one.
enum class Tangent { first, renewed, kept };

constexpr double largest_turn = 0.5;  // largest motion of a coordinate in one Newton step, rad or radii
constexpr double small_motion = 1e-4; // corrections below it may reuse the previous tangent, rad or radii
constexpr double static_rounding = 1e-10;  // rad or radii
constexpr double anchor_boost = 100;  // factor on the anchors if the tangent has negative pivots without it
constexpr double saddle_kick = 1e-3;  // step off a saddle point, rad or radii
constexpr int unstable_steps_limit = 20;    // time steps for which an unstable state is accepted
constexpr int singular_steps_limit = 50;    // time steps for which a state at a singular pose of the interior is accepted

// The end effectors, the wrenches that hold them and the stiffness of their anchors.
struct TipSet {
    std::vector<EndEffector> tips;
    Vector lambda;   // (6e,) wrenches that hold the tips, in their own axes
    Vector anchor;   // (6e,) stiffness A
};

// Interface of a solver of the interior's balance.
class Interior {
   public:
    explicit Interior(TipSet& set) : tips(set.tips), lambda(set.lambda), anchor(set.anchor) {}
    virtual ~Interior() = default;

    std::vector<EndEffector>& tips;
    Vector &lambda, &anchor;
    bool step_in_torque = false;  // the unknown at active stops is their torque, not their coordinate

    virtual Pose tip_pose(int e) const = 0;
    virtual Vec6 tip_velocity(int e) const = 0;  // at the end of the last step: of its origin, and angular, world axes
    // Response at the present state. False if it is not finite.
    virtual bool respond(Tangent tangent, const Step* step, Response& response) = 0;
    // Moves by alpha (drift + B mu), alpha at most 1 and such that no coordinate moves by more than `largest`, rad or
    // radii; returns the largest increment before alpha.
    virtual double move(const Vector& mu, double largest, double& alpha) = 0;
    virtual double gap() const = 0;           // of loops, over the radius, and of active limits
    virtual void predict(double h, double trend) = 0;  // extrapolates the rates and `trend` times their change
    virtual void finish(const Step* step) = 0;         // poses and velocities at the present state
    virtual void accept(double h) = 0;        // makes the present state the end of a step
    virtual void keep() = 0;                  // stores the state
    virtual void restore_kept() = 0;                  // restores the stored state
    virtual void write_poses(double* rows) const = 0;  // (bodies, 4, 4)
    enum Moment { step_start, before_prediction };             // two slots of `save`
    virtual void save(Moment) = 0;            // saves all that the next step depends on, except `lambda`
    virtual void restore(Moment) = 0;
};

inline Step euler(double h) { return {h, 1.0, -1.0, 0.0}; }

// The interior of any mechanism, by the engine's equations and their sparse tangent.
class SparseInterior : public Interior {
   public:
    SparseInterior(TipSet& tips, System& system, Stepper& stepper);
    bool downhill = false;  // boosted anchors; the correction goes downhill in energy and leaves saddle points
    void start();           // starts at rest in the system's state
    void restart();         // starts in the present state, and keeps the velocities of the links
    Pose tip_pose(int e) const override { return system_.state.H[tips[e].body] * tips[e].on_body; }
    Vec6 tip_velocity(int e) const override;
    bool respond(Tangent tangent, const Step* step, Response& response) override;  // without a step, of balance only
    double move(const Vector& mu, double largest, double& alpha) override;
    void move_on(double alpha) {  // repeats the last move times alpha
        system_.retract(system_.state, x_.data(), alpha); }
    double energy() const;  // of springs, weight and penalty springs across gaps, J
    bool changed() const { return changed_; }  // limits met or left between the last two responses
    double gap() const override { return system_.gap_size(); }
    void predict(double h, double trend) override;
    void finish(const Step* step) override;
    void accept(double h) override { stepper_.accept(h); }
    void start_motor_travel();       // records motors and rigid couplings whose position has changed
    void move_motors(double part);   // moves them by a fraction of the way
    void keep() override;
    void restore_kept() override;
    void write_poses(double* rows) const override;
    double kinetic() const { return system_.kinetic_energy(); }  // kinetic energy after a step, J
    System& system() { return system_; }
    History& history() { return stepper_.history; }
    void save(Moment moment) override;
    void restore(Moment moment) override;

   private:
    void act(bool outside);
    void factorise(Response& response);
    void leave_saddle();
    void project(Vector& onto) const;
    void fill_motion(bool fresh, Response& response);

    System& system_;
    Stepper& stepper_;
    std::vector<double> scales_, x_;
    std::vector<double> rows_;              // values of the rows before a motion
    Matrix columns_;       // (unknowns, 6e + 2): B, the correction to balance, the null-space part of multipliers
    Matrix basis_;         // (unknowns, 6e): B of the first tangent of a step
    Matrix along_;         // (unknowns, 2): one of them, and the tangent of motion times it
    std::vector<int> touching_;             // per row, as System::active
    bool changed_ = false;
    struct MotorTravel {
        int row;
        double from, to;
    };
    std::vector<MotorTravel> motor_travel_;  // motion of each motor from its present position to its set-point
    State kept_;
    Vector kept_lambda_;
    std::vector<Vec6> kept_velocity_, kept_momentum_;
    std::vector<double> kept_rate_;
    struct {
        State state;
        std::vector<Vec6> velocity, momentum;
        std::vector<double> rate;
        History history;
    } saved_[2];           // by `Moment`
};

// Convergence of Newton's method measured in an earlier step: its second correction was `factor` times the square of the first.
struct MeasuredConvergence {
    double factor = 0;
    int left = 0;  // time steps for which it is still used
    double second_correction(double first) const { return left > 0 ? factor * first * first : INFINITY; }
};

class PassesInterior;

class Condensed : public Participant {
   public:
    Condensed();
    ~Condensed() override;
    TipSet set;
    std::unique_ptr<SparseInterior> sparse;
    std::unique_ptr<PassesInterior> passes;  // null if they do not cover the mechanism
    Interior* interior = nullptr;            // the one of them that has the present state
    void use_passes();                       // copies the state to the passes, if they cover the mechanism
    void use_sparse();                       // copies it to the sparse solver
    void forget_kept();                      // the next step depends on the state only
    double h = 0, time = 0;
    int order = 1;
    bool fresh = true;                // no equidistant history: the next step is backward Euler
    int unstable_steps_left = 0;                 // time steps for which an unstable interior is still accepted
    int singular_steps = 0;           // successive time steps that ended at a singular pose of the interior
    long long steps = 0, iterations = 0, tangents = 0, divisions = 0, snaps = 0;
    Vector lambda_before;
    MeasuredConvergence convergence;

    double length = 1;                // the mechanism's radius

    void prepare();                   // to be called when the tips are known
    void set_anchors(double linear, double angular);  // in a state of balance; initial guesses, N/m and N m/rad
    bool step();                      // false if it fails even with substeps; the state is then unchanged
    bool is_stuck() const { return singular_steps > singular_steps_limit; }  // in a singular pose: steps fail
    // Statics: balance under the tips' wrenches and handles, or with the tips fixed at poses; from the present state, with
    // adaptive load steps. Returns the fraction of the load (or of the way) that was reached.
    double balance();
    double follow_branch();           // the same along the continuous branch of stable equilibria from the present state
    double hold(const std::vector<Pose>& poses);
    Matrix compliance();              // (6e, 6e) of the tips, wrenches fixed in their own axes
    const Vector& lambda() const { return interior->lambda; }

    // as a participant of a World: every end effector is a frame
    int frames() const override { return static_cast<int>(interior->tips.size()); }
    Pose frame(int i) const override { return begun_ ? start_.tips[i] : interior->tip_pose(i); }
    Vec6 free_velocity(int i) const override;
    Vec6 start_velocity(int i) const override { return start_.velocities[i]; }
    bool second_order() const override { return last_step_.c2 != 0; }
    void expect_impact(bool expected) override { impact_ = expected; }
    bool begin() override;
    void predict(const std::vector<Touch>& touches, const double* impulses) override;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override;
    bool symmetric() const override { return true; }
    double energy() const override;

   private:
    enum class Outcome { failed, unstable, stable };
    // State from which Newton's method starts: the predictor, the present state, or the predictor with its tangent known.
    enum class Start { predictor, present, linearised };
    Outcome solve(const Step& step, Start start);
    void predict_step(const Step& step);
    void compute_correction(const Step& step, bool factorise = true);
    void factorise_tangent();
    void compute_correction_by_kept();
    double wrench_correction() const;
    void keep_tangent(const Step& step);
    bool step_by_kept(const Step& step);
    void end_run();
    bool linearise(const Step& step);
    const Vector& contact_wrenches();
    void correct_with_contact();
    void finish_in_parts(const std::vector<Touch>& touches, const double* impulses);
    bool is_singular();
    bool is_acceptable(Outcome outcome) const;
    Outcome retry_from_start(const Step& step, Outcome outcome);
    Outcome solve_with_retry(const Step& step);
    bool set_contact_forces(const std::vector<Touch>& touches, const double* impulses);
    void save_start();
    bool step_by_passes(const Step& step);
    bool advance(double h);
    bool accept(const Step& step);
    void restore_kept_state();
    bool step_in_parts(double whole);
    bool divide(double h, int depth);
    void recover_stability(Outcome outcome);
    bool stable();
    bool stable_under_load();
    Eigen::Index negative(const Matrix& of);
    bool is_stable_equilibrium();
    bool descend_to_stable_state();
    bool snap_through(double ahead);
    double energy_with_tip_springs(const std::vector<Pose>& goals);
    bool solve_balance(const std::function<double()>& aim, int limit);
    double aim_at(const std::vector<Pose>& goals);
    double aim_by_springs(const std::vector<Pose>& goals, double stiff);
    double errors(const std::vector<Pose>& goals);
    double aim_under(double share, const Vector& begin);
    double continue_branch(double share, const Vector& begin);
    double follow(const std::function<bool(double)>& reach);
    Vec6 applied_wrench(int e) const;
    Mat6 wrench_derivative(int e, double rate) const;
    void evaluate_wrenches(double fraction, double rate);
    double apply(double largest, const Matrix& compliance);

    Response response_;
    whole::LU factors_;
    // The tangent of motion of an earlier time step, for `step_by_kept`.
    struct {
        Matrix compliance, inverse;          // C and P^-1
        whole::LU factors;                   // of P
        Step step{};                         // differences of that time step
    } kept_;
    struct KeptUse {
        bool valid = false;
        int age = 0;                    // time steps since then
        double rate = 0.1;              // contraction rate over the age; a guess at first
        int pause = 0, short_runs = 0;  // time steps until the next tangent is kept; successive runs of steps that were too short
    } kept_use_;
    Matrix small_, derivative_;
    std::vector<Eight> lanes_;        // of `factorise_tangent`
    Vector right_, wrench_, mu_, moved_, soft_, before_;
    struct {
        std::vector<Pose> tips;
        std::vector<Vec6> velocities;  // of the tips
        Vector lambda, lambda_before;
        double time = 0;
        bool fresh = true;
        int unstable_steps_left = 0;
        MeasuredConvergence convergence;
        Interior* interior = nullptr;
    } start_;                         // state at the start of a step
    bool begun_ = false;
    double last_ = 0;                 // duration of the last part of the step, s; h if it is not divided
    Step last_step_{};                // the differences of that part
    bool impact_ = false;             // it must be backward Euler
    Outcome outcome_ = Outcome::failed;
    bool linearised_ = false;         // the interior is in the predicted state, with its response and the correction from it
    Vector free_;                     // (6e,) that correction as twists of the tips, in their own axes
    Vector projected_force_;          // (6e,) `Response::force` without contact forces
    bool contact_predicted_ = false;              // the step was predicted with the previous contact impulses
    double parts_start_ = 0, parts_length_ = 1;   // start and duration of a divided step, s
    Matrix forces_, pulls_;           // unit contact forces as wrenches on the tips (6e, rows), and the twists that they cause
};

}  // namespace supple
