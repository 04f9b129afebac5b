// Links of a linear model from the coordinates of the joints.
#pragma once

#include "engine/articulated.hpp"
#include "spatial/dense.hpp"

namespace supple {

// The coordinates follow from the linear map, then from chord corrections that reduce the errors of the end effectors
// and the gaps of the loops. The poses are those of the engine's pass over the tree, whose joints stay closed.
class Joints : private Articulated {
   public:
    using Matrix = Eigen::MatrixXd;
    using Vector = Eigen::VectorXd;
    struct Maps {
        Vector rest;  // coordinates (axes,) at which the model was made
        Matrix map;  // (axes, m): increments per model coordinate
        Matrix by_tips, by_loops;  // (axes, 6e), (axes, 6 loops): increments per error of tips, per gap of loops
        Matrix loop_tips;  // (6e, 6 loops): twists of the tips per closed gap of the loops
        Matrix cobasis;  // (rank, 6e): the admissible part of tips' twists
    };
    struct Tip {
        int body = 0;
        Pose on_body;
    };
    Joints(const System& system, std::vector<Tip> tips, Maps maps);

    Vector offset;  // increments by set-points
    // Moves the joints so that the tips get these poses at the model's coordinates y.
    void follow(const Vector& y, const std::vector<Pose>& tips, int corrections);
    void write_poses(double* rows) const { Articulated::write_poses(rows); }  // (bodies, 4, 4)
    const Vector& coordinates() const { return q_; }
    const Vector& errors() const { return error_; }  // from the reconstructed tips to the model's
    const Vector& gaps() const { return gap_; }  // twists across the loops, in the order of the model's joints

   private:
    void move_by_increments();
    double measure(const std::vector<Pose>& tips, bool exact);
    Vec6 gap(const Joint& loop, bool exact) const;
    Pose pose_of(int body) const { return body < 0 ? Pose{} : body_pose(body); }

    std::vector<Tip> tips_;
    Maps maps_;
    std::vector<int> loops_, rotations_;  // joints outside the tree; first axes of rotation vectors
    Vector q_, increments_, error_, gap_, best_, last_, admissible_;
};

}  // namespace supple
