// Frictional contact: the interface of everything that moves, and the solver for the impulses.
//
// A time step without contact ends with velocities v_free. Contact impulses p change them to v = W p + v_free with
// W = G^T A^-1 G: G collects the contact directions, and every participant keeps its own A^-1 (FORK-1S, section 6). In a
// contact's frame (normal, two tangents) the impulses obey Signorini's and Coulomb's laws at the end of the step,
//     0 <= p_n  _|_  v_n + gap / h >= 0,     |p_t| <= mu p_n,  p_t = -mu p_n v_t / |v_t| where it slides,
// with the round friction cone, not a pyramid. Joint limits add rows with 0 <= p _|_ v + gap / h >= 0.
//
// Torsional and rolling friction add three rows to a contact: moments about the normal and the tangents, divided by lengths l so that
// they are impulses, with the relative angular velocity times l. The laws are as above, with p_t and v_t of five components: MuJoCo's
// elliptic cone.
#pragma once

#include <vector>

#include "spatial/dense.hpp"
#include "spatial/spatial.hpp"

namespace supple {

// Doubles at an aligned address: vectorised sums then have the same order, and so the same bits, in every run.
using Numbers = std::vector<double, Eigen::aligned_allocator<double>>;

struct Touch {  // one side of a contact: impulses act on a frame of a participant
    int frame;
    Vec3 point;  // world
    Mat3 axes;   // columns, world: normal and tangents of the contact; negated on the contact's second side
    bool moment = false;  // impulses are moments; the axes are then multiplied by lengths, m

    // Impulse and moment of impulse about `origin` per unit impulse along an axis, world axes.
    Vec6 wrench(int axis, const Vec3& origin) const {
        const Vec3 along = axes.col(axis);
        return moment ? stack(Vec3::Zero(), along) : stack(along, (point - origin).cross(along));
    }
    // Force (or moment) and, of a force, zero: the wrench of impulses p (3,) at the point during h.
    Vec6 mean_wrench(const double* p, double h) const {
        const Vec3 sum = axes * Vec3(p) / h;
        return moment ? stack(Vec3::Zero(), sum) : stack(sum, Vec3::Zero());
    }
    // (3, 6): velocities along the axes per unit twist of a frame, both in the frame's own axes; `local`: the point there.
    Eigen::Matrix<double, 3, 6> by_twist(const Mat3& R, const Vec3& local) const {
        const Mat3 along = axes.transpose() * R;
        Eigen::Matrix<double, 3, 6> rows;
        if (moment) rows << Mat3::Zero(), along;
        else rows << along, -along * skew(local);
        return rows;
    }
};

struct Limit {  // a one-sided row of a participant: the distance that is left, and the sign of the allowed direction
    int row;
    double gap, sign;
};

// Appends the limits of a coordinate q that a step with this rate of q might reach.
void near_limits(std::size_t row, double q, double rate, double lower, double upper, double h, std::vector<Limit>& out);

using Wrenches = Eigen::Matrix<double, 6, Eigen::Dynamic, Eigen::RowMajor>;  // a column for each contact or limit row

inline int padded(int n) { return (n + 7) / 8 * 8; }  // columns of G: those beyond n are zero

// W = G^T A^-1 G (n, n) for wrenches G (6, padded(n)) on one body with response A^-1 (6, 6).
void couple(const Wrenches& G, int n, const Mat6& response, double* W);

// Anything that moves: a mechanism or a free body. A time step calls begin, limits, predict, respond and finish in this
// order, or abandon after begin.
class Participant {
   public:
    virtual ~Participant() = default;

    virtual int frames() const = 0;       // frames that colliders can be fixed to
    virtual Pose frame(int i) const = 0;  // present world pose
    // After begin: velocity of the frame's origin and its angular velocity in the step without contact, world axes.
    virtual Vec6 free_velocity(int i) const = 0;
    virtual Vec6 start_velocity(int i) const = 0;  // the same at the start of the step

    // Computes the step without contact; false if it has no solution.
    virtual bool begin() = 0;
    // Predicts the step with the impulses (3 touches,) of the previous step. A participant whose response is not linear
    // linearises it at the predicted state, so that it is exact for contacts that do not change.
    virtual void predict(const std::vector<Touch>&, const double*) {}
    // Appends the limits that this step might reach.
    virtual void limits(std::vector<Limit>&) const {}
    virtual bool symmetric() const { return false; }  // whether the response matrix is symmetric up to rounding
    // Rows: three for each touch, along its axes, then one for each limit. Writes the free velocities (rows,) and the
    // velocity changes per unit impulse (rows, rows), column-major.
    virtual void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                         double* response) = 0;
    // Completes the step with impulses (rows,) on the same touches and limits; false if it has no solution.
    virtual bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) = 0;
    // Restores the state before begin.
    virtual void abandon() = 0;
    // Whether the step that has begun is of second order in time; `expect_impact` makes the next one backward Euler, because
    // a second-order difference across an impact would add energy.
    virtual bool second_order() const { return false; }
    virtual void expect_impact(bool) {}

    virtual double energy() const = 0;     // kinetic and potential, J
};

// Solves for the impulses of all contacts (three rows each, normal first), of moments (three rows each, about the same axes) and of
// limits (one row each) of one step.
class FrictionSolver {
   public:
    static constexpr double tolerance = 5e-10;  // on the residual, relative to the largest free speed or 1 m/s
    static constexpr int most_sweeps = 2000;

    void resize(int contacts, int moments, int limits);  // zeroes everything
    int rows() const { return n_; }
    int moment_row(int moment) const { return 3 * (contacts_ + moment); }
    double& W(int i, int j) { return W_[static_cast<std::size_t>(j) * n_ + i]; }
    double W(int i, int j) const { return W_[static_cast<std::size_t>(j) * n_ + i]; }

    Numbers b;                     // free velocities plus gap / h
    std::vector<double> friction;  // per contact
    std::vector<int> moment;       // per contact: index of its moments, -1: none
    std::vector<double> max_response;  // per contact: the largest diagonal entry of its participants' responses
    // Whether neither side can move along the contact's normal, up to rounding.
    bool blocked(int contact) const { return !(W(3 * contact, 3 * contact) > 1e-14 * max_response[contact]); }
    Numbers p;                     // impulses: initial guess in, solution out

    void solve(bool symmetric = false);  // symmetric: W is, up to rounding
    // Largest |p - P(p - rho v)| / rho over all rows, m/s, relative to the largest free speed or 1 m/s. P projects onto the
    // cone; rho is the inverse of the row's own diagonal block of W.
    double residual() const { return residual_; }

   private:
    using Vector = Eigen::VectorXd;
    void symmetrise();
    void prepare_blocks();
    void sweep();
    double compute_residual();
    bool newton_step(double rho_factor);
    bool solve_newton_system(int m, bool sliding);
    void update_velocities();
    void sweep_with_moments(int contact);
    // Rows of a contact that may have an impulse: the normal; with friction also the tangents and the moments about axes about which something
    // can turn.
    int rows_of(int contact, int* rows) const;

    int contacts_ = 0, moments_ = 0, limits_ = 0, n_ = 0, first_limit_ = 0, sweeps_ = 0;
    double residual_ = 0, scale_ = 1;
    Numbers W_, v_, limit_rho_, start_, best_;
    struct Block {
        Mat3 inverse;     // of W's diagonal block, slightly regularised
        double normal;    // W_nn; zero if the contact is blocked
        double rho;       // 1 / largest diagonal entry of the block
    };
    std::vector<Block> blocks_;
    std::vector<char> moves_;       // per moment row: whether something can turn about its axis
    Eigen::MatrixXd jacobian_;
    Vector right_;
    std::vector<int> closed_rows_;  // rows of closed contacts and limits
};

// Impulse that satisfies the contact laws of a single contact with velocity v = W p + b, without or with moments.
Vec3 solve_contact(const Mat3& W, const Mat3& inverse, const Vec3& b, double friction);
Eigen::VectorXd solve_contact_with_moments(const Eigen::MatrixXd& W, const Eigen::VectorXd& b, double friction);

// Columns: the normal, then two tangents.
Mat3 contact_frame(const Vec3& normal);

}  // namespace supple
