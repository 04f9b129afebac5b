// Time stepping of a reduced model, and the poses of its links.
//
// The model's coordinates are y = (z, eta): z in the admissible basis of the end effectors' twists, eta of added
// modes. One time step is linearly implicit Euler,
//     (M + h D + h^2 (K + K_g)) v' = M v + h (f(y) - b - K (y - y_target)),   y' = y + h v'.
// f: generalised force of the applied wrenches; K_g = -df/dy: their geometric stiffness at the target y_target that the
// set-points give. A model made under load may have a K that is only positive together with K_g, so both must be implicit. K_g
// changes with the loads only, so the inverse of the small dense matrix is reused. The pose of a link or an end
// effector is H exp(Phi y + offset).
#pragma once

#include <memory>
#include <vector>

#include "contact/contact.hpp"
#include "contact/external_load.hpp"
#include "spatial/dense.hpp"
#include "spatial/eight.hpp"
#include "spatial/spatial.hpp"
#include "spatial/team.hpp"

namespace supple {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// Poses H_i exp(xi_i), eight links at a time. The exponential is a series for |w| <= pi, and uses sine and cosine beyond;
// both are exact to rounding.
class Links {
   public:
    // rest (n, 4, 4) and maps (n, 6, m), row major
    Links(const double* rest, const double* maps, int n, int m, int threads);

    // poses (n, 4, 4) of all links at coordinates y (m,)
    void update(const double* y, double* poses);
    void update_velocities(const double* y, const double* v, double* twists);  // (n, 6) body twists, with rates v (m,)
    void set_offsets(const double* twists);  // (n, 6): constant terms of the links' twists

    int count() const { return n_; }

   private:
    struct Block {
        alignas(64) double offset[6][width];
        alignas(64) double rest[12][width];  // rotation by rows, then position
    };
    void run(const Block& block, int index);

    int n_, m_;
    std::vector<Block> blocks_;
    std::vector<double> maps_;  // per block: m x 6 x 8
    const double* y_ = nullptr;
    double* poses_ = nullptr;
    Team team_;
};

// Forward kinematics of the spanning tree: the transform of every coordinate (or rotation vector) leads from the frame
// before it to the next. The frame after a single coordinate has that coordinate's axis as its z axis.
class Tree {
   public:
    struct AxisTransform {              // frame = frame_before * fixed * exp(twist q); exp(sum of three) for a rotation vector
        int before = -1;       // index of the transform before this one, -1 for the world
        int axis = -1;         // index of its (first) coordinate, -1 if there is none
        int size = 1;          // number of coordinates in its exponential
        Pose fixed;
        Vec6 twist[3];
    };
    struct FixedFrame {        // a body or site: the frame of a transform (-1: the world) times a constant pose
        int step = -1;
        Pose fixed;
    };
    std::vector<AxisTransform> steps;   // in the order of `add`, with z along the axis

    FixedFrame add(AxisTransform step);      // returns the frame that the caller asked for, before z was turned
    void prepare();
    void move(const double* q);  // computes all frames
    Pose frame(const FixedFrame& shown) const;

    typedef double Four __attribute__((vector_size(32)));
    struct Rows {  // of a 3x4 pose: rotation and position
        Four row[3];
    };
    static Rows rows(const Mat3& R, const Vec3& p);
    void write(int step, const Rows& fixed, double* out) const;  // first three rows of frame(step) * fixed

    struct Frame {
        Four column[4];  // columns of the rotation, then the position; the fourth number is unused
    };
    const Frame* frames() const { return frames_.data(); }  // of all transforms, padded to a multiple of eight

   private:
    struct Motion {                // a transform, prepared for `move`
        Rows fixed;
        double slide = 0;          // translation along z per unit of the coordinate
        int before = -1, axis = -1;
        bool single = true;
    };
    std::vector<Motion> motions_;
    std::vector<Frame> frames_;
    // for the transforms with one coordinate, in order: coordinate; rotation about z per unit (1 or 0); present rotation
    std::vector<int> single_axis_;
    std::vector<double> turning_, turns_, sine_, cosine_;
};

class Reduced : public Participant {
   public:
    struct Tip : ExternalLoad {
        Pose rest;
        Eigen::Matrix<double, 6, Eigen::Dynamic> map;  // E: twist per coordinate
        Vec6 offset = Vec6::Zero();                    // twist due to motors in inadmissible directions
    };

    struct Bound {  // lower <= at + map y <= upper
        Vector map;
        double at = 0, lower = 0, upper = 0;
        // Adds the limits that a time step at rates v may reach.
        void near(std::size_t row, const Vector& y, const Eigen::Ref<const Vector>& v, double h,
                  std::vector<Limit>& out) const;
    };

    Matrix mass, damping, stiffness;
    std::vector<Bound> bounds;  // limits of joint coordinates; they act in a World only
    Vector bias;    // P^T b
    Vector target;  // coordinates at which the springs are unloaded, from set-points
    std::vector<Tip> tips;
    Vector y, v;
    double h = 0, time = 0;

    void prepare();
    bool step();  // returns false, with the state unchanged, if the new state is not finite
    Pose tip_pose(int e) const;
    Vec6 tip_velocity(int e) const;  // body twist
    double deflection() const;       // largest linear part of a tip's twist from its pose in the model, m

    // as a participant of a World: the end effectors are its frames
    int frames() const override { return static_cast<int>(tips.size()); }
    Pose frame(int i) const override { return tip_pose(i); }
    Vec6 free_velocity(int i) const override { return velocity(i, fresh_); }
    Vec6 start_velocity(int i) const override { return velocity(i, v); }
    bool begin() override;
    bool symmetric() const override { return symmetric_; }
    void limits(std::vector<Limit>& out) const override;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override;
    double energy() const override;

    void loads_changed() { loads_changed_ = true; }  // call it after changing a wrench, a target or an offset
    Matrix geometric_stiffness() const;              // K_g of the applied wrenches at the target

   private:
    Vec6 velocity(int tip, const Vector& rates) const;
    void update_system();
    void add_loads();
    void solve_with_handles();
    bool loads_changed_ = true;
    bool stiffness_positive_ = true;             // K by itself is positive definite
    bool symmetric_ = true;                      // A is symmetric: no torque fixed in the world, no force in the body
    Matrix inverse_, system_, handled_;          // A^-1, A, and A^-1 with the handles of this step
    Matrix rows_, moved_;                        // G^T and A^-1 G of the contacts and limits of this step
    Vector right_, fresh_, stretch_, pull_, kept_y_, kept_v_;
    double kept_time_ = 0;
    const Matrix& kept_inverse() const { return any_handle_ ? handled_ : inverse_; }
    bool any_handle_ = false;
};

// Links from joint coordinates: the linear map, then chord corrections that reduce the errors of the end effectors and
// the gaps of the loops. Joints of the tree stay closed.
class Joints {
   public:
    struct Loop {
        Tree::FixedFrame parent, child;  // the joint's frames on both bodies
        std::vector<Tree::AxisTransform> steps;
    };
    Tree tree;
    std::vector<Loop> loops;
    std::vector<Tree::FixedFrame> bodies, ends;
    Vector rest, offset;        // coordinates (axes,) at which the model was made; increments by set-points
    Matrix map;                 // (axes, m): increments per model coordinate
    Matrix by_tips, by_loops;   // (axes, 6e), (axes, 6 loops): increments per error of tips, per gap of loops
    Matrix loop_tips;           // (6e, 6 loops): twists of the tips per closed gap of the loops
    Matrix cobasis;             // (rank, 6e): the admissible part of tips' twists
    double length = 1;          // the mechanism's radius
    Vector q;

    void prepare(int tips);
    void follow(const Vector& y, const std::vector<Pose>& tips, int corrections);
    const Vector& errors() const { return error_; }  // from the reconstructed tips to the model's
    const Vector& gaps() const { return gap_; }      // twists across the loops

   private:
    void move_by();
    double measure(const std::vector<Pose>& tips, bool exact);
    Vec6 gap(const Loop& loop, bool exact) const;
    Vector increments_, error_, gap_, best_, last_, admissible_;
    std::vector<Tree::AxisTransform> turns_;  // rotation vectors: increments compose, they do not add
};

}  // namespace supple
