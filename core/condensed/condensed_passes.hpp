// The interior of a condensed model on the engine's recursive passes (articulated.hpp): links without inertia in balance, in
// time linear in their number. It solves the regular time steps. SparseInterior solves statics, steps in which the interior is
// not stable, and steps that do not converge here.
//
// The tangent of balance is the articulated tangent without inertia, with springs (anchors) on the tips. Its factors give
// B, the motion per unit wrench on the tips, and the correction to balance. A row of six numbers of B, for one coordinate and one
// tip, is an Eight whose last two lanes are zero.
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
    static constexpr int most_tips = 8;
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
    // Forgets what earlier steps left besides the state: stiffer anchors, the age of redundant multipliers.
    void forget() {
        boost_ = 1;
        since_boost_ = boost_lifetime_ = since_removal_ = 0;
    }
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
    void read_inputs(const System& system);
    void set_anchors(double boost);
    void remove_redundant_multipliers();
    int count() const { return static_cast<int>(tips.size()); }
    void compute_columns();
    template <bool solve, int together>
    void carry(int e, std::vector<Eight>& columns, std::vector<Eight>& ahead, Matrix& twists);
    void carry_all(bool solve, std::vector<Eight>& columns, std::vector<Eight>& ahead, Matrix& twists);
    void project_columns(Response& response);
    void project_corrections(Response& response);
    void project(const Step& step, bool fresh, Response& response);
    double coupling_drag(const Coupling& c, const Step& step, double& slope) const;
    Vector length_by_columns(const Coupling& c, const std::vector<Eight>& columns) const;  // (6e,)
    void add_coupling_dampers(const Step& step, bool fresh, Response& response);
    void compute_motion_by_coordinates(const Step& step, const Matrix& wrenches);
    template <bool second, bool tangent>
    void evaluate_motion(const Step& step);
    template <bool tangent>
    void evaluate_motion(const Step& step) {
        step.c2 != 0 ? evaluate_motion<true, tangent>(step) : evaluate_motion<false, tangent>(step);
    }
    const std::vector<Eight>& basis() const { return has_first_ ? first_ : columns_; }

    int stride_ = 0;                            // nodes, to a multiple of eight
    double boost_ = 1;
    Step step_{};
    std::vector<Eight> columns_, first_;        // (tips, nodes): B now, and that of the first tangent of the step
    std::vector<Eight> path_columns_;           // (tips, nodes): results of the pass inward between a tip and the world, zero elsewhere
    std::vector<Eight> tie_columns_;            // (tips, ties)
    std::vector<Eight> kept_columns_, kept_tie_columns_;  // of `keep_projection`
    bool by_kept_ = false;                      // the last response has these columns
    std::vector<Eight> ahead_, first_ahead_;    // (tips, nodes): half of the tangent of motion times these columns
    std::vector<Eight> behind_;                 // (tips, nodes): m times the basis' twist of the parent
    std::vector<Eight> motion_by_coordinate_;   // (tips, nodes): tangent of motion, projected onto the basis only
    std::unique_ptr<Solution<OneColumn>> projected_;  // solution for the residual of motion
    bool has_first_ = false, motor_jumped_ = false;
    int since_boost_ = 0, boost_lifetime_ = 0;  // first tangents since softer anchors were tried; and until they are tried again
    int since_removal_ = 0;                     // first tangents since redundant multipliers were removed
    std::vector<Eight> inertia_;                // per node: m and, in lane 7, m.s + k
    std::vector<double> motion_, move_, along_; // residual of motion; last move; half of the tangent of motion times the correction to balance
    std::vector<Carried> carried_;
    std::vector<Eight> twists_;                 // (nodes, 2, 6), of nodes with several children or a tip; by the columns of two tips
    std::vector<Pose> tip_in_node_, tip_poses_;
    std::vector<char> on_tip_path_;             // per node: a tip is beyond it
    struct {
        std::vector<Eight> q;
        std::vector<double> multiplier;
        Vector lambda;
    } kept_state_;
    std::vector<double> saved_[2];  // by `Moment`
    long long input_changes_ = -1;   // of the system, when its inputs were read
};

inline Vec6 first_six(const Eight& v) { return {v[0], v[1], v[2], v[3], v[4], v[5]}; }

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
