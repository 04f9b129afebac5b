// A mechanism as equations: residual and exact tangent of statics and of one implicit time step.
//
// Unknowns are a twist xi per body, and per joint six multipliers lambda (the wrench through the joint, in its frame
// on the child) and increments of its coordinates q; each rigid row (motor, limit, rigid coupling) adds a multiplier
// mu. The equations are those of a stationary  energy + lambda^T c + mu g:
//     bodies        sum_j A_j^T lambda_j = w        w: applied wrenches minus the rate of momentum
//     coordinates   spring + damper + armature - S^T lambda + C^T mu = 0
//     joints        c = log(X(q)^-1 X_bodies) = 0,  c' = A_b xi_b - B_a xi_a - S dq (where it is closed)
//     rows          g = C q - target = 0 (or one-sided)
// The tangent is taken in exponential charts H exp(xi), including every second derivative (Newton converges
// quadratically at any displacement). Poses follow from the coordinates of the spanning tree, and the multipliers of
// its joints from the bodies' balance, so joints of the tree are closed and bodies balanced at every iterate; only
// loops, rows and coordinates leave a residual.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/fronts.hpp"
#include "engine/model.hpp"
#include "engine/state.hpp"

namespace supple {

struct Configuration {  // what Newton's method of the sparse solver iterates
    std::vector<double> q;  // every joint's coordinates
    std::vector<double> mu;  // every row's multiplier
    std::vector<Vec6> lambda;  // every joint's multipliers
    std::vector<Pose> H;  // every body's pose
};

// Backward differences for one step: d/dt x = (c0 x + c1 x_n + c2 x_{n-1}) / h.
struct Step {
    double h = 0, c0 = 0, c1 = 0, c2 = 0;

    static Step of_order(int order, double h) { return order == 2 ? Step{h, 1.5, -2.0, 0.5} : Step{h, 1.0, -1.0, 0.0}; }
    double rate(double now, double last, double before) const { return (c0 * now + c1 * last + c2 * before) / h; }
};

struct History {  // previous states that the differences use, as the sparse solver reads them; see StateLayout::get
    std::vector<Pose> H;  // poses at t_n
    std::vector<Vec3> turn;  // log(R_{n-1}^T R_n)
    std::vector<Vec3> centre, centre_before;  // centres of mass, world
    std::vector<Vec6> momentum, momentum_before;  // linear, and angular about the centre of mass; world axes
    std::vector<double> q, q_before, p, p_before;  // coordinates and armature momenta
    std::vector<double> rate, rate_before;  // rates of coordinates, for the predictor
    std::vector<double> length, length_before;  // of the coupling springs
    std::vector<FlexibleState> flexible, flexible_before;
};

// What acts on a mechanism, besides its own springs.
struct Acting {
    Vec3 gravity = Vec3::Zero();
    std::vector<double> rest;  // of the joints' springs
    std::vector<double> spring_rest;  // of the springs on combinations
    std::vector<double> targets;  // per row; only those of equalities are used
    std::vector<Load> loads;
};

class System : public Acting {
   public:
    explicit System(std::shared_ptr<const Model> model);
    const Model& model() const { return *model_; }
    // A model with the same joints, springs and rows, but other numbers.
    void use(std::shared_ptr<const Model> model);
    // The model, with the frames of loop joints moved that have a gap of less than `below` (lengths over the length
    // scale) at the coordinates q, so that they are closed there; null if there are none. Such gaps come from rounded
    // numbers in files. Redundant loops (for example two points that hold a planar linkage in its plane) could not all
    // be closed otherwise.
    std::shared_ptr<const Model> with_closed_loops(const std::vector<double>& q, double below);

    // further inputs that may change between solves
    std::vector<Actuation> actuation;
    bool stops = false;  // limits are stiff springs; otherwise they are exact
    std::vector<double> applied;  // generalised force on each coordinate, paired with its rate
    long long input_changes = 0;  // counts the changes of inputs of a step
    std::vector<Handle> handles;
    bool released = false;  // limits are ignored
    bool active_fixed = false;  // rows stay as active as they are

    Configuration state;

    // own copies of these parts of the model, because they cache their last evaluation
    std::vector<InterfaceFrame> interfaces;
    std::vector<FlexibleBody> flexible;

    int bodies() const { return model_->bodies(); }
    int axes() const { return model_->axes(); }
    // Changes `stops`. On: the multipliers of limits become zero. Off: they become the torques of the springs.
    void set_stops(bool stops);
    bool is_stop(int row) const { return stops && model_->rows[row].stop != 0; }
    // `Actuator::excess` of actuator i.
    double excess(int i, double x, double speed, double c, double& slope) const {
        return model_->actuators[i].excess(actuation[i], x, speed, c, slope);
    }
    // The layout of the unknowns: twists, then multipliers and coordinates joint by joint, then multipliers of rows.
    struct Range {
        int start = 0, size = 0;
    };
    int unknowns() const { return fronts_->size(); }
    Range twists() const { return {0, 6 * bodies()}; }
    Range rows() const { return {row_start_, unknowns() - row_start_}; }
    int twist_row(int b) const { return 6 * b; }
    int row_row(int r) const { return row_start_ + r; }
    int lambda_row(int j) const { return joint_start_[j]; }
    int axis_row(int axis) const { return axis_row_[axis]; }
    Fronts& fronts() { return *fronts_; }
    const Fronts& fronts() const { return *fronts_; }
    // Scale of an unknown in the element matrices: they hold scale_i scale_k times the tangent.
    std::vector<double> scales() const;

    // Poses, reactions and residual at state.q, state.mu and the loop joints' state.lambda; for one time step if
    // `step` is given. With `tangent`, also the element matrices.
    void evaluate(bool tangent, const Step* step = nullptr, const History* history = nullptr);
    // Right-hand side of Newton's step: minus the residual, for every unknown.
    const std::vector<double>& residual() const { return residual_; }
    // Largest gap of loops (lengths over the length scale) and error of active rows.
    double gap_size() const {
        int joint, row;
        return largest_error(joint, row);
    }
    // The same, and which loop joint or row has it; the other is -1.
    double largest_error(int& joint, int& row) const;
    // Largest unbalanced torque of a coordinate, over the torque that its joint carries (or that of 1e-7 rad of the
    // stiffest spring).
    double imbalance() const;
    // Largest increment of a coordinate in a step x, rad, or lengths over the length scale. Convergence is judged by
    // it, because it does not depend on stiffnesses and masses.
    double motion_size(const double* x) const;
    bool is_driven() const;  // an actuator saturates, or its force differs from that of the springs
    const std::vector<int>& active() const { return active_; }  // per row: 1 upper or equality, -1 lower, 0 not
    void set_active(const std::vector<int>& active) { active_ = active; }

    // Factorises with the regularisation of loops and rows, `shift` times the stiffness scale on coordinates.
    int factorise(double shift = 0);
    // Newton's step: solves tangent x = rhs. With `refine`, iterations remove the effect of the regularisation, and the
    // relative residual is returned. Without it an error of 1e-9 remains, which the next Newton step corrects.
    // For `columns` right-hand sides, one after the other.
    double solve(const double* rhs, double* x, bool transposed, bool refine, int columns = 1) const;
    // Redundant constraints have non-unique multipliers, and Newton's steps let their null-space part grow.
    // `null_space_rhs` gives the right-hand side, for the last factors, of the correction that removes this part (false
    // if there are no multipliers). `remove_null_space` applies the solution x, scaled so that the imbalance moves no
    // coordinate by more than `most`, rad or radii.
    bool null_space_rhs(double* rhs) const;
    void remove_null_space(const double* x, double most);
    // After `evaluate` with a step: minus the rates of momentum of the bodies, linear and about the centre of mass;
    // world axes.
    const std::vector<Vec6>& momentum_wrenches() const { return momentum_wrench_; }
    // The bodies' twists that follow from increments of the tree's coordinates, both in x.
    void carry(double* x) const;
    // state <- base moved by alpha x
    void retract(const Configuration& base, const double* x, double alpha);

    // kinematics after evaluate: a coordinate's twist S, and Ad(X^-1 pose_parent^-1), in the joint's frame on the child
    const Vec6& screw(int axis) const { return screw_[axis]; }
    const Mat6& parent_adjoint(int joint) const { return B_parent_[joint]; }

    // after evaluate with a step
    std::vector<Vec6> velocity;  // body twists
    std::vector<FlexibleState> flexible_state;
    std::vector<double> rate;  // coordinates' rates
    std::vector<Vec6> momentum;  // world axes, about the centre of mass
    double strain_energy(const std::vector<double>& q) const;  // springs
    double gravity_energy(const std::vector<Pose>& H, const std::vector<double>& q) const;
    const std::vector<Vec6>& gaps() const { return gap_; }  // per joint; zero in the tree
    Vec6 momentum_of(int body, const Pose& H, const Vec6& velocity) const;

   private:
    static constexpr double penalty = 1e9;  // stiffness of regularised constraints over that of the mechanism

    void analyse();  // the pattern of the tangent
    void move();
    void joint_kinematics(int j);
    void apply(const Step* step, const History* history, bool tangent);
    void apply_flexible(const Step* step, const History* history, bool tangent);
    void apply_inertia(int b, const Step& step, const History& history, Mat6* derivative);
    void react();
    void add_interface_curvature(int j, Eigen::Ref<Eigen::MatrixXd> slope);
    void fill_joint(int j, const Step* step, const History* history, bool tangent);
    void fill_spring(int s, const Step* step, const History* history, bool tangent);
    void fill_row(int r, bool tangent);
    void scale_multipliers(double* x) const;
    void axis_torque(int first, int size, const Step* step, const History* history, Eigen::Ref<Eigen::VectorXd> torque,
                     Eigen::Ref<Eigen::MatrixXd> slope);

    std::shared_ptr<const Model> model_;
    std::optional<Fronts> fronts_;
    std::vector<int> joint_start_, axis_row_;
    int row_start_ = 0, first_pair_ = 0;
    std::vector<Vec6> momentum_wrench_;  // minus the rate of momentum of each body, world axes about the centre of mass
    std::vector<Pose> displacement_;  // X of each joint
    std::vector<Vec6> screw_;  // S, per axis, in the joint's frame on the child
    std::vector<Mat6> B_parent_;  // Ad(X^-1 pose_parent^-1)
    std::vector<Vec6> gap_, wrench_;  // c per joint, w per body
    std::vector<Vec6> carried_;  // per body: w and the wrenches from the joints beyond it
    std::vector<Mat6> wrench_derivative_;
    std::vector<Mat3> spin_derivative_;  // of a step's angular velocity, by the body's own rotation
    // of a loop joint with the gap c: c' = J A b - P (B a + S q) with J = Jr(c)^-1 and P = J Ad(exp(-c))
    std::vector<Mat6> loop_child_, loop_parent_;
    std::vector<double> residual_, regular_;
    std::vector<int> active_;  // per row: 1 upper (or equality), -1 lower, 0 inactive
    std::vector<double> row_error_;  // g of the active side
    double regular_scale_ = 1;  // stiffness in the regularisation of loops and rows
    Vec6 scale_;  // scale of multipliers in the factorised matrix, which has a single unit then
};

// The equations have the rate of momentum of a group at its carrier. This adds to the wrenches through the joints
// within groups what the bodies beyond them need for their own motion, so that they are the reactions of these joints.
// `inertial`: of each carrier, minus the rate of momentum, linear and about the centre of mass; world axes.
void share_momentum_rates(const Model& model, const std::vector<Pose>& H, const std::vector<Vec6>& velocity,
                          const std::vector<Vec6>& inertial, std::vector<Vec6>& wrenches);

}  // namespace supple
