// The interior of a condensed model on the engine's recursive passes (articulated.hpp): links without inertia in balance, in
// time linear in their number. It solves the regular time steps. SparseInterior solves statics, steps in which the interior is
// not stable, and steps that do not converge here.
//
// The tangent of balance is the articulated tangent without inertia, with springs (anchors) on the tips. Its factors give
// B, the motion per unit wrench on the tips, eight right-hand sides at a time, and the correction to balance.
//
// The equation of motion differs from balance by the wrenches D: rates of momentum, and the applied wrenches in place of
// those that hold the tips. Its tangent projected onto B is a sum over bodies xi^T G xi with the twists xi and the symmetric
// G = M (c0/h)^2 plus the geometric stiffness of the rates of momentum less N(D)/2 (articulated.hpp). With Gc the sum of G over a
// body and its subtree, m = Gc s + ad(s)^T D / 2 and xi = xi_parent + s t, this is
//     sum over coordinates  t (m.xi_parent) + (m.xi_parent) t + t (m.s + k) t      k: slope of dampers and armatures
#pragma once

#include <array>

#include "condensed/condensed.hpp"
#include "engine/articulated.hpp"

namespace supple {

struct OneColumn;

class PassesInterior : public Interior, private Articulated {
   public:
    PassesInterior(TipSet& tips, const System& system);
    ~PassesInterior() override;
    static constexpr int most_columns = 6;  // vectors of eight right-hand sides
    const char* uncovered() const;          // why the mechanism needs the sparse solver; empty if the passes cover it
    void read_from(const System& system, const History& history, double h);  // copies a state at the end of a step
    void write_to(System& system, History& history);                         // copies the present state

    Pose tip_pose(int e) const override { return tip_poses_[e]; }
    Vec6 tip_velocity(int e) const override;
    bool respond(Tangent tangent, const Step* step, Response& response) override;
    // The response with B and the tangent of motion of an earlier time step, kept by `keep_projection`. `force` is projected onto
    // the B of this time step's first tangent. False if it is not finite, or if the tangent of balance has negative eigenvalues.
    bool respond_by_kept(Tangent tangent, const Step& step, Response& response);
    // Keeps B and the tangent of motion of the last response. `wrenches` (6e, 6e): minus the part of the tangent that is due to the
    // tips' wrenches, by the tips' twists. False: its anchors were boosted.
    bool keep_projection(const Step& step, const Matrix& wrenches);
    bool touches_stop() const;
    double move(const Vector& mu, double largest, double& alpha) override;
    double gap() const override { return gap_; }
    void predict(double h, double trend) override;
    void finish(const Step* step) override;
    void accept(double h) override;
    void keep() override;
    void restore_kept() override;
    void write_poses(double* rows) const override { Articulated::write_poses(rows); }
    void save(Moment moment) override;
    void restore(Moment moment) override;
    std::vector<double> flat() const;
    void set_flat(const double* values);

   private:
    struct Carried {  // sums over a body and its subtree: D and the first two numbers of G; the other eight numbers
        Eight wrench, inertia;
    };
    int tip_node(int e) const { return body_node_[tips[e].body]; }
    Pose about_origin(int e) const { return {tip_poses_[e].R, tip_poses_[e].p - origin_}; }
    void place();                    // poses of all nodes and tips
    void set_anchors(double boost);
    void remove_redundant_multipliers();
    void compute_columns();
    template <int K>
    void start_columns();
    void solve_columns();
    template <bool second, bool tangent>
    void evaluate_motion(const Step& step);
    void project(const Step& step, bool fresh, Response& response);
    template <int K>
    void project_columns(Response& response);
    template <int K>
    void project_corrections(Response& response);
    double coupling_drag(const Coupling& c, const Step& step, double& slope) const;
    void compute_motion_by_coordinates(const Matrix& wrenches);
    template <int K>
    void compute_motion_by_coordinates(const Matrix& wrenches);
    template <bool tangent>
    void evaluate_motion(const Step& step) {
        step.c2 != 0 ? evaluate_motion<true, tangent>(step) : evaluate_motion<false, tangent>(step);
    }
    void add_coupling_dampers(const Step& step, bool fresh, Response& response);
    const std::vector<Eight>& basis() const { return has_first_ ? first_ : columns_; }

    int groups_ = 1;                            // of eight right-hand sides
    double boost_ = 1;
    Step step_{};
    std::vector<Eight> columns_, first_;        // (nodes, groups): B now, and that of the first tangent of the step
    std::vector<Eight> tie_columns_;            // (ties, groups)
    std::vector<Eight> kept_columns_, kept_tie_columns_;  // of `keep_projection`
    bool by_kept_ = false;                      // the last response has these columns
    std::vector<Eight> behind_;                 // (nodes, groups): m times the basis' twist of the parent
    std::vector<Eight> motion_by_coordinate_;   // (nodes, groups): tangent of motion, projected onto the basis only
    std::unique_ptr<Solution<OneColumn>> projected_;  // solution for the residual of motion
    bool has_first_ = false, motor_jumped_ = false;
    int since_removal_ = 0;                     // first tangents since redundant multipliers were removed
    std::vector<Eight> inertia_;                // per node: m and, in lane 7, m.s + k
    std::vector<double> motion_, move_;         // residual of motion; last move
    std::vector<Carried> carried_;
    std::vector<Eight> twists_, first_twists_;  // (nodes, 6, groups), of nodes with several children or a tip
    std::vector<ContactRow> unit_wrenches_;
    std::vector<Pose> tip_in_node_, tip_poses_;
    std::vector<char> on_tip_path_;             // per node: a tip is beyond it
    struct {
        std::vector<Eight> q;
        std::vector<double> multiplier;
        Vector lambda;
    } kept_state_;
    std::vector<double> saved_[2];  // by `Moment`
};

// A twist in world axes about the origin, in a frame's own axes.
inline Vec6 in_frame(const Pose& at, const Eight& v) {
    const Vec3 w(v[3], v[4], v[5]);
    return stack(at.R.transpose() * (Vec3(v[0], v[1], v[2]) + w.cross(at.p)), at.R.transpose() * w);
}

// A wrench in a frame's own axes, in world axes about the origin.
inline Vec6 in_world(const Pose& at, const Vec6& own) {
    const Vec3 f = at.R * own.head<3>();
    return stack(f, at.R * own.tail<3>() + at.p.cross(f));
}

}  // namespace supple
