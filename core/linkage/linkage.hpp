// Adaptive quasi-statics of huge trees of rigid bodies (Redon and Lin 2006; "eq." below means theirs).
//
// The bodies are joined pairwise by their joints into ever larger sub-assemblies, as a balanced binary tree whose
// leaves are bodies. The rest of the linkage acts on a sub-assembly only at its handles (boundary bodies): their
// accelerations are a = Phi f + b in the forces f on them (eq. 1), and the sum of squared joint accelerations inside is
// |R f + r|^2 + rho^2 (eq. 8, stored as an orthogonal factor: no cancellation). Both follow from those of the two
// parts. So parts that do not move need no update, and a traversal from the root stops where the remaining
// accelerations are small.
//
// The tree is split along heavy paths, so that every sub-assembly has one or two handles: the top, towards the root of
// the linkage, and a bottom. The handle of the next joint is the first, the other one the second. All quantities of a
// handle are in the axes of its body and about its origin, so they stay valid when the assembly moves (section 5.1).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "engine/system.hpp"

namespace supple {

namespace linkage {
struct Assembly;
}

class Linkage {
   public:
    enum class Measure { absolute_linkage, relative_linkage, absolute_joint, relative_joint };

    // Of a body to its parent: pose of the body in the parent T = inner X(q) outer, or inner X^-1 outer
    struct TreeJoint {
        Pose inner, outer;
        int first = 0, count = 0;  // its axes
        bool reversed = false;  // described from the body to its parent: X^-1
    };
    struct Axis {
        Vec6 twist = Vec6::Zero();
        int block = 1;  // 3 for each axis of a rotation vector
        double stiffness = 0, rest = 0, armature = 0;
        int curve = -1;
    };
    struct Outcome {
        int computed = 0;  // joints whose acceleration was computed
        double bound = 0;  // of the error, by the measure asked for, rounding included
    };

    // the description, to be filled in before prepare()
    std::vector<int> parent;  // of each body, -1 for the world
    std::vector<TreeJoint> joints;
    std::vector<Axis> axes;
    std::vector<Curve> curves;
    std::vector<Mat6> inertia;
    Vec3 gravity = Vec3::Zero();
    std::vector<double> q;

    void prepare();

    // inputs; may be changed at any time
    void set_load(int index, const Load& load);
    void set_force(int axis, double force);
    void set_rest(int axis, double rest);
    void set_gravity(const Vec3& acceleration);
    void set_coordinates(const double* values);

    // Computes the largest joint accelerations (algorithm of section 4.3), then if dt > 0 makes a step from rest,
    // q += 1/2 qdd dt^2. Stops when the bound is at most `error`, or after `seconds`, or after `most` joints.
    // `complete`: a full pass over all joints, without total accelerations (the divide-and-conquer algorithm alone). A
    // full pass also replaces an adaptive one that would take more operations, unless seconds or joints are limited.
    Outcome advance(double dt, double error, Measure measure, bool complete,
                    double seconds = std::numeric_limits<double>::infinity(), int most = -1);
    // The joint accelerations for given joint forces alone, without loads and gravity: M^-1 tau.
    bool respond(const double* forces, double* accelerations);
    int failure() const { return singular_; }  // joint with a singular inertia; -2: not finite; -1: none

    Pose pose(int body) const;  // in O(depth)
    void write_poses(std::vector<Pose>& poses) const;
    bool rebuild(bool totals);  // computes all coefficients

    // Operations (multiplications, roughly) of the last pass and of a full pass, estimated from the sizes of the
    // blocks.
    double operations() const { return operations_; }
    double full_operations() const { return full_operations_; }
    void set_switching(bool on) { switching_ = on; }  // whether a full pass may replace an adaptive one

    const std::vector<int>& moved() const { return moved_; }
    const std::vector<double>& accelerations() const { return acceleration_; }
    int depth() const;
    std::size_t bytes() const;

    enum Kind : std::int8_t { joined, rooted, united };  // by a joint; on the world; separate trees
    static constexpr int none = std::numeric_limits<int>::min();
    struct Node {
        int left = none, right = none;  // children: a node, or ~leaf
        int up = -1;
        int joint = -1;  // body whose joint it is; -1 where parts of one body, or separate trees, are united
        int height = 0;
        int rows = 0;  // of the total acceleration that a joining adds to the triangle
        Kind kind = joined;
        std::int8_t handles = 0;
        std::int8_t left_handles = 1;
        std::int8_t right_keeps = 0;  // 0: its handle is no handle of the whole; 1: it is; 2: its other handle is
        bool top_first = false;
        int columns = 0;  // of the elimination: joint axes, and the rank of the left part's compliance
        int rank = 0;  // of the compliance of its bottom
        int stacked = 0;  // columns of that compliance before compression; 0 where none is needed
        int slot = 0;  // of its coefficients during a sweep
        std::size_t motion = 0, descent = 0, total = 0;
    };
    const std::vector<Node>& nodes() const { return nodes_; }
    std::vector<int> leaf_bodies() const;
    const std::vector<double>& motion_pool() const { return motion_; }
    const std::vector<double>& descent_pool() const { return descent_; }
    const std::vector<double>& total_pool() const { return total_; }
    const std::vector<double>& node_totals() const { return node_total_; }

   private:
    struct Leaf {
        int body = 0, up = -1;
        bool on_left = false, main = true;  // main: carries the loads of its body
    };
    enum Mark : std::uint8_t { clean, biased, moved_mark };

    std::vector<Node> nodes_;  // children before parents
    std::vector<Leaf> leaves_;
    std::vector<int> main_leaf_, joint_node_;
    std::vector<Mat6> leaf_inertia_;
    std::vector<Vec6> leaf_bias_, body_wrench_;
    std::vector<double> motion_, descent_, total_, slots_;
    std::vector<double> magnification_;  // of a node: largest magnification of rounding errors in its eliminations
    bool fleeting_ = false;  // coefficients of parts are stored in slots_, for the duration of a sweep
    static constexpr std::size_t slot_size = 600;
    double* assembly(const Node& n) {
        return fleeting_ ? slots_.data() + slot_size * n.slot : motion_.data() + n.motion;
    }
    std::vector<Pose> across_, offset_, bottom_;  // of a joint: T; of a node: right top and bottom, in its top
    std::vector<Vec6> subspace_;  // of an axis, in the body's frame
    std::vector<double> force_, drive_;  // of an axis: applied force; sum of applied and spring force
    std::vector<Load> loads_;
    std::vector<char> load_active_;  // 0 no, 1 yes, 2 to be removed

    // scratch
    std::vector<std::uint8_t> mark_;
    std::vector<std::vector<int>> dirty_;  // by height
    std::vector<Vec6> handle_input_;  // two a node
    std::vector<double> node_total_;
    std::vector<std::pair<double, int>> queue_;
    std::vector<int> moved_, visited_;
    std::vector<double> acceleration_;
    std::vector<int> stamp_;
    std::vector<std::vector<int>> wanted_;
    std::vector<Pose> world_;
    int now_ = 0, singular_ = -1;
    bool all_dirty_ = true, totals_current_ = false;

    // choosing between an adaptive and a full pass
    static constexpr double bias_share = 0.25;  // operations of an update of the forces alone, of those of the whole
    std::vector<float> update_operations_;  // of a node: coefficients and total acceleration
    double full_operations_ = 0, all_update_operations_ = 0, visit_operations_ = 0, operations_ = 0, last_visits_ = 0;
    int full_passes_ = 0;  // since the last adaptive one
    bool switching_ = true;
    bool full_mode_ = false;  // adaptive passes are being replaced by full ones
    bool return_pays_ = false;  // an adaptive pass is expected to be cheaper than a full one
    void count_operations();
    bool full_pass_is_cheaper();
    double pending_operations() const;
    void consider_return(double error, Measure measure);

    // the tree
    struct Builder;
    void lay_out();

    // coefficients
    struct Part {  // coefficients of a child, a node or a leaf; see Assembly and Total
        const double *I, *Y, *F, *p, *s, *R, *r, *rho;
        int rank;  // columns of F
        bool triangle;  // F' is upper triangular
    };
    Part part(int child) const;
    bool update(int node, bool moved, bool totals);
    template <int A, int B>
    bool join(const Node& n, bool moved, bool totals);
    bool attach(const Node& n, bool moved, bool totals);
    template <int A, int B>
    void join_total(const Node& n, const Part& a, const Part& b, bool moved);
    void constants(const Node& n, const linkage::Assembly& whole, const Part& b, const double* s, double* t,
                   double* sizes) const;
    void write_constants(const Node& n, const linkage::Assembly& whole, const double* t, const double* sizes,
                         double* s_0, double* a_0, double* q_0, double* size) const;
    void place_joint(int body);
    void drive(int joint);
    void redrive(int axis);
    void place_node(int node);
    void mark(int node, Mark how);
    bool refresh(bool totals);
    bool sweep();
    void take_loads();

    // accelerations
    double descend(int node);
    double total(int node) const;
    void integrate(double dt, bool all);
};

}  // namespace supple
