// Frictional contact: the laws, and the interface of everything that moves.
//
// A time step without contact ends with velocities v_free. Contact impulses p change them to v = W p + v_free with
// W = G^T A^-1 G: G collects the contact directions, and every participant keeps its own A^-1 (FORK-1S, section 6). In
// a contact's frame (normal, two tangents) the impulses obey Signorini's and Coulomb's laws at the end of the step,
//     0 <= p_n  _|_  v_n + gap / h >= 0,     |p_t| <= mu p_n,  p_t = -mu p_n v_t / |v_t| where it slides,
// with the round friction cone, not a pyramid. Joint limits add rows with 0 <= p _|_ v + gap / h >= 0.
//
// Torsional and rolling friction add three rows to a contact: moments about the normal and the tangents, divided by
// lengths l so that they are impulses, with the relative angular velocity times l. The laws are as above, with p_t and
// v_t of five components: MuJoCo's elliptic cone.
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
    Mat3 axes;  // columns, world: normal and tangents of the contact; negated on the contact's second side
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
    // (3, 6): velocities along the axes per unit twist of a frame, both in the frame's own axes; `local`: the point
    // there.
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

    virtual int frames() const = 0;  // frames that colliders can be fixed to
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
    virtual bool linear() const { return false; }  // whether the response holds for impulses of any size
    virtual bool symmetric() const { return false; }  // whether the response matrix is symmetric up to rounding
    // Rows: three for each touch, along its axes, then one for each limit. Writes the free velocities (rows,) and the
    // velocity changes per unit impulse (rows, rows), column-major.
    virtual void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                         double* response) = 0;
    // Completes the step with impulses (rows,) on the same touches and limits; false if it has no solution.
    virtual bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits,
                        const double* impulses) = 0;
    // Restores the state before begin.
    virtual void abandon() = 0;
    // Whether the step that has begun is of second order in time; `expect_impact` makes the next one backward Euler,
    // because a second-order difference across an impact would add energy.
    virtual bool second_order() const { return false; }
    virtual void expect_impact(bool) {}

    // Whether the time step can be changed between steps; that of linear models is part of their matrices.
    virtual bool has_any_step() const { return false; }
    // Changes the length of the next steps. Half of the present one divides the next scheduled set-points, too.
    virtual void set_step(double) {}

    virtual double energy() const = 0;  // kinetic and potential, J
};

// Columns: the normal, then two tangents.
Mat3 contact_frame(const Vec3& normal);

}  // namespace supple
