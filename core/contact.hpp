// Frictional contact between things that move: what a thing must offer to take part, and the solver.
//
// A step first lets everything move freely to velocities v_free. Contact impulses p change them to v = W p + v_free
// with W = G^T A^-1 G, where every participant keeps its own A^-1 (FORK-1S, section 6). In a contact's frame (normal,
// two tangents) the law is that of Signorini and Coulomb at the end of the step,
//     0 <= p_n  _|_  v_n + gap / h >= 0,     |p_t| <= mu p_n,  p_t = -mu p_n v_t / |v_t| where it slides,
// with the round cone itself, not a pyramid. Limits are further rows with 0 <= p _|_ v + gap / h >= 0.
#pragma once

#include <vector>

#include "dense.hpp"
#include "spatial.hpp"

namespace supple {

// Numbers at an address that suits vector instructions: sums then have the same order, and bits, in every run.
using Numbers = std::vector<double, Eigen::aligned_allocator<double>>;

struct Touch {  // a point of the world where something acts on a frame of a participant
    int frame;
    Vec3 point;
    Mat3 axes;  // columns, world: normal and tangents of the contact, or their opposites on its second side
};

struct Limit {  // a one-sided row of a participant: the distance left, and which way
    int row;
    double gap, sign;
};

// Adds the limits of a coordinate q that a step at this rate might reach.
void near_limits(std::size_t row, double q, double rate, double lower, double upper, double h, std::vector<Limit>& out);

using Wrenches = Eigen::Matrix<double, 6, Eigen::Dynamic, Eigen::RowMajor>;  // a column for each row of a step

inline int padded(int n) { return (n + 7) / 8 * 8; }  // columns of G, with zeros beyond the n that are used

// W = G^T A^-1 G (n, n) for wrenches G (6, padded) on one body and its response A^-1.
void couple(const Wrenches& G, int n, const Mat6& response, double* W);

// Something that moves: a mechanism, a free body. A step is begin, then respond, then finish; or abandon.
class Participant {
   public:
    virtual ~Participant() = default;

    virtual int frames() const = 0;        // bodies that shapes can be fixed to
    virtual Pose frame(int i) const = 0;   // its world pose now
    virtual Vec6 drift(int i) const = 0;   // after begin: velocity of its origin and angular velocity, world axes

    // The step without contact: false if it has no solution.
    virtual bool begin() = 0;
    // The step with the impulses (3 touches,) of the step before: what does not answer linearly responds from there, so
    // that what stays as it was is exact.
    virtual void lean(const std::vector<Touch>&, const double*) {}
    // Limits that this step might reach.
    virtual void limits(std::vector<Limit>&) const {}
    virtual bool symmetric() const { return false; }  // what unit impulses do, but for rounding
    // Free velocities (rows,) at the touches (three a touch, along its axes) and limits, and what unit impulses on them
    // do (rows, rows), column by column.
    virtual void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                         double* response) = 0;
    // The step with impulses (rows,) on the same touches and limits; false if it has no solution.
    virtual bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) = 0;
    // Back to where begin() started.
    virtual void abandon() = 0;

    virtual double energy() const = 0;     // kinetic and potential, J
};

// Impulses of all contacts (three rows each, normal first) and limits (a row each) of one step.
class FrictionSolver {
   public:
    static constexpr double tolerance = 5e-10; // of the residual, over the largest free speed or 1 m/s
    static constexpr int most_sweeps = 2000;

    void resize(int contacts, int limits);  // zeroes everything
    int rows() const { return n_; }
    double& W(int i, int j) { return W_[static_cast<std::size_t>(j) * n_ + i]; }
    double W(int i, int j) const { return W_[static_cast<std::size_t>(j) * n_ + i]; }

    Numbers b;                     // free velocities, with what the gaps add
    std::vector<double> friction;  // per contact
    std::vector<double> loose;     // per contact: the most that either side gives anywhere
    // Whether nothing can move along a contact's normal: what moves less than rounding leaves of what its sides give.
    bool blocked(int contact) const { return !(W(3 * contact, 3 * contact) > 1e-14 * loose[contact]); }
    Numbers p;                     // impulses: a first guess in, the solution out

    void solve(bool symmetric = false);  // whether W is so, but for rounding
    // Largest |p - P(p - v)| over rows, with the impulses as velocities through W's own blocks; m/s over the scale.
    double residual() const { return residual_; }
    int sweeps() const { return sweeps_; }

   private:
    using Vector = Eigen::VectorXd;
    void symmetrise();
    void factor();
    void sweep();
    double measure();
    bool newton(double widen);
    bool eliminate(int m, bool sliding);
    void velocities();

    int contacts_ = 0, limits_ = 0, n_ = 0, sweeps_ = 0;
    double residual_ = 0, scale_ = 1;
    Numbers W_, v_, rho_, kept_, best_;
    struct Block {
        Mat3 inverse;     // of W's diagonal block, a little regularised
        double normal;    // W_nn; zero: nothing can move along the normal
        double step;      // 1 / the block's size
    };
    std::vector<Block> blocks_;
    Eigen::MatrixXd jacobian_;
    Vector right_;
    std::vector<int> index_;  // rows that are not open
};

// Impulse that solves one contact by itself: v = W p + b.
Vec3 solve_contact(const Mat3& W, const Mat3& inverse, const Vec3& b, double friction);

// Normal first, then two tangents: columns.
Mat3 contact_frame(const Vec3& normal);

}  // namespace supple
