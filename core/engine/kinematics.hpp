// Kinematics of a mechanism as it is described: poses, Jacobians, mass matrix and constraints as functions of the
// coordinates
//     x = (q, loop coordinates),   q (dof,) of the spanning tree.
// The model does not change once it is made; what was computed at some coordinates is in a `KinematicState`.
#pragma once

#include <memory>
#include <vector>

#include "elastic/interface_frame.hpp"
#include "spatial/spatial.hpp"

namespace supple {

struct KinematicModel {
    struct Joint {  // H_child = H_parent on_parent X(q) on_child^-1
        int parent = -1, child = -1;  // bodies, -1 for the world
        Pose on_parent, on_child;
        int first = 0, count = 0;  // its coordinates in x
        int interface = -1;  // if not -1: X(q) is the frame of this interface of a flexible body
    };
    struct Branch {  // of the spanning tree
        int body = 0, inner = -1;  // inner: the next body towards the world, -1 for the world
        int joint = 0;
        bool reversed = false;  // the body is the joint's parent
    };
    struct Row {  // a rigid coupling: sum of coefficient_i x_i = rest
        std::vector<int> places;
        std::vector<double> coefficients;
        double rest = 0;
    };

    std::vector<Joint> joints;  // of the tree, then those that close loops
    std::vector<Branch> branches;  // each after that of its inner body
    std::vector<Row> couplings;
    std::vector<InterfaceFrame> interfaces;
    // per coordinate in x
    std::vector<Vec6> twists;
    std::vector<int> block;  // 3 if it belongs to a rotation vector, otherwise 1
    std::vector<double> armature;
    // per body
    std::vector<double> mass;
    std::vector<Vec3> centre;
    std::vector<Mat3> inertia;
    std::vector<int> branch_of;
    int dof = 0;

    int size() const { return static_cast<int>(twists.size()); }
    int bodies() const { return static_cast<int>(mass.size()); }
    int tree_joints() const { return static_cast<int>(branches.size()); }
    int constraints() const {
        return 6 * (static_cast<int>(joints.size()) - tree_joints()) + static_cast<int>(couplings.size());
    }
};

class KinematicState {
   public:
    explicit KinematicState(std::shared_ptr<const KinematicModel> model);

    const KinematicModel& model() const { return *model_; }
    // Poses of all bodies at q (dof,).
    void place(const double* q);
    const Pose& pose(int body) const { return body < 0 ? world_ : poses_[body]; }

    // X(q) of the tree's joints at q (dof,).
    void displacements(const double* q, Pose* poses);

    // The functions below are of the coordinates of the last `place`. Matrices are by rows.
    // (6, dof): twist of a frame on a body, in its own axes, per unit rate of q; `stride` numbers from row to row.
    void jacobian(int body, const Pose& frame, double* rows, int stride);
    // (dof, 6): twist of the bodies that a coordinate moves, at the world's origin in world axes.
    void screws(double* rows);
    // (dof, dof): composite-rigid-body algorithm, with armature; without flexible bodies.
    void mass_matrix(double* rows);
    // Gaps of loops and couplings (m,) at loop coordinates (n - dof,), those of loops in units of `length`, and their
    // Jacobian (m, n), exact where loops are closed.
    void constraints(const double* loop_coordinates, double length, double* gaps, double* rows);

   private:
    // X(q); columns: its twist per unit rate of q
    Pose displacement(const KinematicModel::Joint& joint, Vec6* columns);
    void make_columns();
    // Adds the twists of a frame at `at` on a body relative to a body towards the world, in the frame's axes, times
    // `factor`.
    void add_columns(int body, int relative_to, const Pose& at, double factor, double* rows, int stride) const;
    int common(int first, int second) const;  // body from which the paths to both bodies part

    std::shared_ptr<const KinematicModel> model_;
    Pose world_;
    std::vector<double> x_;
    std::vector<Pose> poses_;
    std::vector<Vec6> columns_;  // of x, in the joints' frames on their children
    std::vector<Pose> frames_;  // of the tree's joints on their children, in the world
    std::vector<InterfaceFrame> interfaces_;  // they keep what they computed last
    struct Composite {
        double mass;
        Vec3 moment;  // mass times centre
        Mat3 inertia;  // about the same point
    };
    std::vector<Composite> composites_;
    std::vector<Vec6> screws_;
};

}  // namespace supple
