// The tangent of a time step of a tree in its coordinates, factorised by passes over the tree: the recursion of
// core/articulated.hpp with the exact tangent, for both the equations and their transpose.
//
// For a coordinate with screw s (world axes), P the articulated tangent and W the wrench of everything beyond it:
//     u = P s,   l = P^T s + n,   n = ad(s)^T W,   d = k + s.u,   P -= u l^T / d
// K dq = r is solved inward with u and outward with l, K^T z = g inward with l and outward with u. A ball joint has three
// coordinates at once. Coordinates of motors and touched limits are prescribed; they are not eliminated.
#pragma once

#include "system.hpp"
#include "tape.hpp"

namespace supple {

class TreeTangent {
   public:
    explicit TreeTangent(const System& system);

    // Whether the mechanism is a tree whose springs and rows act on single coordinates.
    bool covers() const { return covers_; }

    // At a recorded state: wrenches of bodies and their derivatives by the bodies' twists (body frames), slopes of the torques of
    // every coordinate (3 x 3 for the components of a rotation vector). False: a pivot is not positive, or two rows hold a coordinate.
    struct Body {
        Vec6 wrench;
        Mat6 derivative;
    };
    bool factorise(const TapeRecord& record, const std::vector<Body>& bodies, const std::vector<Mat3>& slopes);

    // Solves for `columns` right-hand sides in the layout of the System; of multipliers, only those of equality rows are found, and
    // only by the transposed solution.
    void solve(const double* right, double* x, bool transposed, int columns);

   private:
    struct Node {
        int parent = -1, axis = 0, size = 1, joint = 0, block = 0;
        double sign = 1;            // -1: the joint is passed from its child to its parent
        int row = -1;               // the active row that holds the coordinate
        Vec6 screw[3], u[3], l[3];
        Mat3 inverse;               // of d; of a single coordinate its first entry
        Vec6 eta, p;
        Mat6 P;
        Vec6 W;
    };
    void place_screws(const TapeRecord& record);

    const System& system_;
    bool covers_ = true;
    std::vector<Node> nodes_;       // each after its parent
    std::vector<int> body_node_;    // the node that a body is fixed to, -1 for the world
    std::vector<Mat6> to_body_;     // twists from world axes to the body's frame
    std::vector<Vec3> rho_;
    std::vector<int> axis_row_;     // the active row of each axis, -1: none
};

}  // namespace supple
