// Exact condensation: end effectors that move, with everything between them and the world in static balance.
//
// The interior's balanced states under wrenches lambda on the tips form a manifold of at most 6e dimensions, whose
// tangent is B = K^-1 J^T: what moves per unit of wrench. A time step asks two things of the state at its end:
//     balance    g(q) - J^T lambda = 0              springs, gravity, loops, motors and touched limits, exactly
//     motion     B^T (f - M a - D v - g) = 0        all that acts, and the inertia of every link, along the manifold
// so a tip carries its own mass and the interior's, Phi^T M Phi of the present pose, and is held by the compliance
// C = J K^-1 J^T. Nothing is ever divided by C: a direction that it does not allow is a hard constraint. Newton's
// method solves both at once; the tips are anchored by stiffnesses A meanwhile (wrench lambda - A x), which only
// changes the numbers that the manifold is described by and keeps K + J^T A J regular where K itself is not.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "dense.hpp"
#include "pulled.hpp"
#include "stepper.hpp"

namespace supple {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

struct EndEffector : Pulled {
    int body = 0;
    Pose on_body;
    struct Contact {
        Vec3 point, force;           // its own frame; world axes
    };
    std::vector<Contact> contacts;   // in a World
};

struct Response {  // of an interior to numbers mu that describe the manifold: the tips' wrenches, anchored
    Matrix compliance;  // (6e, 6e): tips' twists
    Matrix left;        // (6e, 6e): the same as the manifold's tangent has it, transposed
    Matrix inertia;     // (6e, 6e + 1): mass, damping and armature along the manifold, over the step; last, with `drift`
    Vector drift;       // (6e,): tips' twists of the step back to balance
    Vector force;       // (6e,): all that acts, less momentum's rate, along the manifold
    Vector unbalance;   // (6e,): what balance lacks, along the manifold
    Matrix anchor;      // (6e, 6e): stiffness A that the tips were anchored with
    int negative = 0;   // negative pivots of the anchored tangent
    bool whole = false; // `inertia` has all that motion answers with
};

// A wrench that turns with its tip changes by -ad(x)^T w as the world sees it; with this added to the anchor the tangent
// has half of that, and is symmetric.
SUPPLE_INLINE Mat6 turning(const Vec6& w) {
    const Mat3 f = skew(w.head<3>());
    return -0.5 * blocks(Mat3::Zero(), f, f, skew(w.tail<3>()));
}

// Which tangent a response is taken with: a new one that also is the manifold's for the rest of the step, so that what
// motion lacks is measured along the same directions throughout; a new one; or the one of before.
enum class Tangent { first, again, kept };

constexpr double stiffer = 100;  // anchors, where the mechanism is not stable without
constexpr double kick = 1e-3;    // off a saddle, rad or radii
constexpr int patience_limit = 20;  // steps

class Interior {
   public:
    virtual ~Interior() = default;

    std::vector<EndEffector> tips;
    Vector lambda;   // (6e,) wrenches that hold the tips, in their own axes
    Vector anchor;   // (6e,) stiffness A
    bool eager = false;     // at touched stops, Newton's step is taken in the torque
    bool downhill = false;  // the tips are anchored `stiffer`, and the step back to balance leads down, off saddles too

    virtual void start() = 0;  // at rest in the system's state
    virtual void restart() = 0;  // in the present state, with the links' velocities of before
    virtual Pose tip_pose(int e) const = 0;
    // At the present state. Without a step, balance only. False: not finite.
    virtual bool respond(Tangent tangent, const Step* step, Response& response) = 0;
    // Moves by alpha (drift + B mu), alpha at most 1 and such that no coordinate moves by more than `largest`, rad or
    // radii; returns the largest increment before alpha.
    virtual double move(const Vector& mu, double largest, double& alpha) = 0;
    virtual void move_on(double alpha) = 0;   // by more of the same motion, or back
    virtual double energy() const = 0;        // of springs and weight, and of gaps as if springs closed them, J
    virtual bool changed() const = 0;         // limits met or left between the last two responses
    virtual double gap() const = 0;           // of loops, over the radius, and of touched limits
    virtual void predict(double h, double trend) = 0;  // moves on with the present rates and `trend` of their change
    virtual void finish(const Step* step) = 0;         // poses and velocities at the present state
    virtual void accept(double h) = 0;        // the present state as the end of a step
    virtual void set_out() {}                 // motors and rigid couplings that have been set elsewhere go there
    virtual void drive(double) {}             // from where they stand: by such a part of the way
    virtual void keep() = 0;                  // remembers the state,
    virtual void back() = 0;                  // and goes back to it
    virtual void write_poses(double* rows) const = 0;  // (bodies, 4, 4)
    virtual double kinetic() const = 0;       // energy after a step, J
    enum Moment { begun, ahead };             // of a step
    virtual void save(Moment) = 0;            // everything the next step depends on but `lambda`,
    virtual void restore(Moment) = 0;         // and back
};

inline Step euler(double h) { return {h, 1.0, -1.0, 0.0}; }

// By the joint coordinates of a tree, in one pass out and one back (condensed_tree.cpp): mechanisms without loops,
// couplings, motors, rotation vectors and limits that are no stops, with at most five end effectors; null for others.
class TreeInterior : public Interior {
   public:
    virtual void tell(System& system) const = 0;  // hands over coordinates, rates and velocities
    virtual std::vector<double> flat() const = 0;  // everything the next step depends on but `lambda`,
    virtual void set_flat(const double* values) = 0;  // and back
};
std::unique_ptr<TreeInterior> tree_interior(const System& system, int tips);

// By the engine's equations and their sparse tangent: any mechanism.
class SparseInterior : public Interior {
   public:
    SparseInterior(System& system, Stepper& stepper);
    void start() override;
    void restart() override;
    Pose tip_pose(int e) const override { return system_.state.H[tips[e].body] * tips[e].on_body; }
    bool respond(Tangent tangent, const Step* step, Response& response) override;
    double move(const Vector& mu, double largest, double& alpha) override;
    void move_on(double alpha) override { system_.retract(system_.state, x_.data(), alpha); }
    double energy() const override;
    bool changed() const override { return changed_; }
    double gap() const override { return system_.gap_size(); }
    void predict(double h, double trend) override;
    void finish(const Step* step) override;
    void accept(double h) override { stepper_.accept(h); }
    void set_out() override;
    void drive(double part) override;
    void keep() override;
    void back() override;
    void write_poses(double* rows) const override;
    double kinetic() const override { return system_.kinetic_energy(); }
    void save(Moment moment) override;
    void restore(Moment moment) override;

   private:
    void act(bool outside);
    void factorise(Response& response);
    void leave_saddle();
    void project(Vector& onto) const;
    void fill_inertia(const Step& step, bool fresh, Response& response);
    void fill_motion(bool fresh, Response& response);

    System& system_;
    Stepper& stepper_;
    std::vector<Mat6> mass_;
    std::vector<double> scales_, x_;
    std::vector<double> rows_;              // their values before a motion
    Matrix columns_;       // (unknowns, 6e + 2): B, the step back to balance, and what relieves redundant loops
    Matrix basis_;         // (unknowns, 6e): B of the first tangent of a step
    Matrix weighted_;      // (6, 6e + 1): a body's twists among them, times its mass
    Matrix along_;         // (unknowns, 2): one of them, and what motion answers
    std::vector<int> touching_;             // per row, as System::active
    bool changed_ = false;
    bool exact_ = false;   // elements hold the tangent of motion
    struct Way {
        int row;
        double from, to;
    };
    std::vector<Way> ways_;  // of motors
    State kept_;
    Vector kept_lambda_;
    std::vector<Vec6> kept_velocity_, kept_momentum_;
    std::vector<double> kept_rate_;
    struct {
        State state;
        std::vector<Vec6> velocity, momentum;
        std::vector<double> rate;
        History history;
    } saved_[2];           // by their moments
};

// How fast corrections shrank in a step not long ago: the second was `rate` times the first, of size `first`.
struct Pace {
    double rate = 0, first = 1;
    int left = 0;  // steps that it still holds for
    double of(double size) const { return left > 0 ? rate * size * std::max(1.0, size / first) : INFINITY; }
};

class Condensed : public Participant {
   public:
    std::unique_ptr<Interior> interior;
    double h = 0, time = 0;
    int order = 1;
    bool fresh = true;                // the next step looks back one step only
    int patience = 0;                 // steps to go until an interior that is not stable is left again
    long long steps = 0, iterations = 0, tangents = 0, divisions = 0, snaps = 0;
    Vector lambda_before;
    Pace pace;

    double length = 1;                // the mechanism's radius

    void prepare();                   // once the tips are known
    void drop_anchors(double linear, double angular);  // once the interior stands in balance; N/m and N m/rad to try
    bool step();                      // false: failed at every size; the state is as it was
    // Statics: balance under the tips' wrenches and handles, or with the tips held at poses; from the present state, in
    // steps that adapt. Returns the fraction reached, 1 if all is well.
    double balance();
    double follow_branch();           // the same, only along the continuous branch of stable states from the present one
    double hold(const std::vector<Pose>& poses);
    Matrix compliance();              // (6e, 6e) of the tips, wrenches fixed in their own axes
    const Vector& lambda() const { return interior->lambda; }

    // in a World: every end effector is a frame; steps of backward Euler
    int frames() const override { return static_cast<int>(interior->tips.size()); }
    Pose frame(int i) const override { return begun_ ? start_.tips[i] : interior->tip_pose(i); }
    Vec6 free_velocity(int i) const override;
    bool begin() override;
    void predict(const std::vector<Touch>& touches, const double* impulses) override;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override;
    bool symmetric() const override { return true; }
    double energy() const override { return interior->kinetic() + interior->energy(); }

   private:
    enum class Found { nothing, unstable, stable };
    Found solve(const Step& step, bool from_here);
    bool taken(Found found) const;
    Found again(const Step& step, Found found);
    Found attempt(const Step& step);
    bool push(const std::vector<Touch>& touches, const double* impulses);
    void remember();
    bool advance(double h);
    bool accept(const Step& step);
    void put_back();
    bool in_parts(double whole);
    bool divide(double h, int depth);
    void look_after(Found found);
    bool stable();
    bool stable_under_load();
    Eigen::Index negative(const Matrix& of);
    bool stands();
    bool relax();
    bool fall(double ahead);
    double drawn(const std::vector<Pose>& goals);
    bool settle(const std::function<double()>& aim, int limit);
    double aim_at(const std::vector<Pose>& goals);
    double draw(const std::vector<Pose>& goals, double stiff);
    double errors(const std::vector<Pose>& goals);
    double aim_under(double share, const Vector& begin);
    double continue_branch(double share, const Vector& begin);
    double follow(const std::function<bool(double)>& reach);
    void outside(double fraction, double rate);
    double apply(double largest);

    Response response_;
    Eigen::PartialPivLU<Matrix> factors_;
    Eigen::SelfAdjointEigenSolver<Matrix> spectrum_;
    Matrix small_, projected_, derivative_;
    Vector right_, wrench_, mu_, moved_, soft_, before_;
    struct {
        std::vector<Pose> tips;
        Vector lambda, lambda_before;
        double time = 0;
        bool fresh = true;
        int patience = 0;
        Pace pace;
    } start_;                         // of a step
    bool begun_ = false;
    double last_ = 0;                 // part of it, s: h, or less where it had to be divided
    Found found_ = Found::nothing;
    bool leans_ = false;              // on what it touched in the step before
    double parted_ = 0, whole_ = 1;   // when a step in parts began and how long it is, s
    Matrix forces_, pulls_;           // unit forces at the touches as wrenches on the tips (6e, rows), and what they do
};

}  // namespace supple
