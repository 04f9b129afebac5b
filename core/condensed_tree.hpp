// The interior of a tree of single-axis joints. All quantities are in world axes at the world's origin, where a body's
// twist is its parent's plus s dq and needs no transformation.
//
// Second variation of the energy, with W the wrench that a joint carries:
//     sum 1/2 k dq^2 - 1/2 W^T [xi_parent, s] dq + sum over bodies 1/2 xi^T P xi
// From the leaves to the root each coordinate is eliminated by minimisation (dynamic programming):
//     u = P s + n,  n = 1/2 ad(s)^T W,  d = k + s^T P s,  P <- P - u u^T / d
// and likewise the right-hand sides (the tips' wrenches and the residual of balance) side by side in the lanes of
// vectors. A pass to the root and one to the leaves give every coordinate's increments t and every link's twists xi.
//
// The tangent of motion, sum over bodies xi^T G xi with G = M (c0/h)^2 plus the geometric stiffness of inertial forces, comes
// from the same pass to the leaves. With Gc the sum of G over a body and all that it carries, and xi = xi_before + s t, it is
//     sum over coordinates  t (s^T Gc xi) + (xi_before^T Gc s) t
#pragma once

#include <vector>

#include "abreast.hpp"
#include "condensed.hpp"
#include "reduced.hpp"

namespace supple {

// Data of one joint for the passes, world axes. ("Step" in this file: one AxisTransform of the kinematic tree.)
struct alignas(64) Node {
    double moving[8];  // wrench in the equation of motion: applied wrenches minus the rate of momentum
    double still[8];   // wrench in the equation of balance
    double weighs[24]; // m, m c, inertial force p; inertia about the origin (xx, yy, zz, xy, xz, yz), c p^T - p.c
};

using Numbers = std::vector<double, Eigen::aligned_allocator<double>>;

// Columns of structure-of-arrays data, contiguous over the steps.
class Columns {
   public:
    void resize(int steps, int columns) {
        stride_ = (steps + width - 1) / width * width;
        values.assign(static_cast<std::size_t>(stride_) * columns, 0.0);
    }
    double* operator[](int column) { return values.data() + static_cast<std::size_t>(stride_) * column; }
    const double* operator[](int column) const { return values.data() + static_cast<std::size_t>(stride_) * column; }
    SUPPLE_INLINE Eight at(int column, int i) const { return load((*this)[column] + i); }
    SUPPLE_INLINE Three three(int column, int i) const { return {at(column, i), at(column + 1, i), at(column + 2, i)}; }
    SUPPLE_INLINE Turn turn(int i) const { return {three(0, i), three(3, i), three(6, i)}; }
    SUPPLE_INLINE void set(int column, int i, const Three& v) {
        store((*this)[column] + i, v.x);
        store((*this)[column + 1] + i, v.y);
        store((*this)[column + 2] + i, v.z);
    }
    Vec3 vector(int column, int i) const { return {(*this)[column][i], (*this)[column + 1][i], (*this)[column + 2][i]}; }
    int stride() const { return stride_; }
    Numbers values;

   private:
    int stride_ = 0;
};

// columns of the description (inertia as in Node), of frames, and of momenta and velocities
enum { own_slide = 0, own_turn = 1, own_centre = 2, own_mass = 5, own_inertia = 6, own_count = 12 };
enum { frame_turn = 0, frame_count = 9 };
enum { at_turn = 0, at_centre = 3, at_angular = 6, at_flight = 9, at_spin = 12, at_count = 15 };

enum class Indefinite { reject, accept, flip };

// The state of a tree and the data of the passes that do not depend on the number of end effectors.
class TreeState : public TreeInterior {
   public:
    explicit TreeState(const System& system);
    void start() override;
    void restart() override;
    Pose tip_pose(int e) const override { return tree_.frame(end(e)); }
    void move_on(double alpha) override {
        for (int i = 0; i < n_; ++i) q_[i] += alpha * answer_[i];
    }
    double energy() const override;
    bool changed() const override { return false; }
    double gap() const override { return 0; }
    void predict(double h, double trend) override;
    void finish(const Step* step) override;
    void accept(double h) override;
    void keep() override;
    void back() override;
    void write_poses(double* out) const override;
    double kinetic() const override;
    void save(Moment moment) override { saved_[moment] = flat(); }
    void restore(Moment moment) override { set_flat(saved_[moment].data()); }
    void tell(System& system) const override;
    std::vector<double> flat() const override;
    void set_flat(const double* values) override;

   protected:
    struct alignas(64) CoordinateTerms {     // of one coordinate
        double screw[8];           // s
        double geometric[8];       // n; then the residuals of balance and of motion
        double left[8], right[8];  // s^T Gc + ad(s)^T W with the difference W of the wrenches in motion and balance; Gc s
        double part[8];            // u / d; then 1 / d
    };
    enum { lacks_balance = 6, lacks_motion = 7, over_d = 6 };
    Tree::FixedFrame end(int e) const {
        const Tree::FixedFrame& body = bodies_[tips[e].body];
        return {body.step, body.fixed * tips[e].on_body};
    }
    void add_inertia(int step, double mass, const Vec3& centre, const Mat3& inertia);
    SUPPLE_INLINE Three rate(const Step& step, const Three& now, int of, int i) const {  // of eight steps from i on
        const Three two = step.c0 * now + step.c1 * past_.three(of, i);
        return (1 / step.h) * (step.c2 == 0 ? two : two + step.c2 * old_.three(of, i));
    }
    struct Motion {  // of eight links: turn and velocities, angular momenta, and the rates of momenta
        Three turn, flight, spin, angular, force, torque;
    };
    Motion motion(const Step& step, int i, const Turn& R, const Three& centre, const Eight& mass, const Turn& M) const;
    template <bool nodes>
    void update_frames(const Step* step);
    template <class To>  // stores eight columns of eight numbers, one row for each of eight steps
    SUPPLE_INLINE static void spread(Eight* columns, To to) {
        transpose(columns);
        for (int l = 0; l < width; ++l) store(to(l), columns[l]);
    }
    Vec3 centre(int i) const {  // of mass
        const Pose at = tree_.frame({i, Pose{}});
        return at.act(own_.vector(own_centre, i));
    }
    void act(const Step* step);
    void update_torques(const Step* step);
    template <bool all>
    void sum_carried(const Step* step);

    const System& system_;
    Tree tree_;
    std::vector<Tree::FixedFrame> bodies_;
    std::vector<Tree::Rows> shown_;    // their fixed poses
    std::vector<int> axis_, before_, step_of_;  // axis of a step, step before it, step of an axis
    enum : unsigned char { ends = 1, joins = 2, branches = 4, roots = 8 };
    // ends: the next step does not start from this one. joins: other steps, or a tip, are attached to it. branches: it starts from
    // another step than the previous one. roots: it starts from the world.
    std::vector<unsigned char> kind_;
    std::vector<int> joined_;          // steps that are `joins`
    std::vector<char> plain_;          // per eight steps: whether all carry the same wrench in balance
    int n_ = 0;
    bool heavy_ = false;
    int negative_ = 0;
    Columns own_, screws_, frame_, past_frame_, now_, past_, old_;
    std::vector<Node> nodes_;
    std::vector<CoordinateTerms> terms_;
    struct Sums {                  // sums over a body and all that it carries: wrenches and inertias
        Eight still, moving, weighs[3];
    };
    std::vector<Sums> carried_;    // sums from branches other than the next step
    // per step: coordinates and rates; momenta of armatures; torques of springs, dampers and armatures
    Numbers q_, q_past_, q_old_, rate_, rate_old_, spin_, spin_past_, spin_old_;
    Numbers stiffness_, damping_, armature_;
    bool curved_ = false;
    Numbers spring_, slope_, drag_, resists_, scale_, kept_q_, kept_rate_, answer_;
    std::vector<double> saved_[2];  // by their moments
    Vector kept_lambda_;
    alignas(64) double u_[8] = {};
};

// The passes for E end effectors.
template <int E>
class Passes : public TreeState {
    static constexpr int rows = 6 * E, K = (rows + 1 + 7) / 8;  // K: vectors for the right-hand sides,
    static constexpr int balance = 8 * K - 2;                   // the tips' wrenches first, the residual of balance in this lane

    struct Answer {            // solution of one coordinate for all right-hand sides
        Eight g[K], turns[K];  // accumulated right-hand sides over d; the coordinate's increments
    };
    struct Right {
        Eight row[6][K];
    };
    using Twists = Eigen::Matrix<double, 6, 8 * K, Eigen::RowMajor>;
    static Eigen::Map<const Twists> twists(const Right& of) {
        return Eigen::Map<const Twists>(reinterpret_cast<const double*>(of.row));
    }
    struct Inward {                // passed towards the root
        Eight P[6];
        Right right;
    };

   public:
    explicit Passes(const System& system);
    bool respond(Tangent tangent, const Step* step, Response& response) override;
    double move(const Vector& mu, double largest, double& alpha) override;

   private:
    bool pass_back(double boost, Indefinite what);
    void pass_out(const Step* step, Tangent tangent, Response& response);
    void pass_back_again(Response& response);
    void pass_out_again(const Step* step, Response& response);

    std::vector<Answer> answers_;
    struct Increments {
        Eight of[K];
    };
    std::vector<Increments> first_;      // increments by the first tangent of a step, stored when another tangent is computed
    bool has_first_ = false;
    std::vector<Inward> inward_;
    std::vector<Right> outward_, outward_first_;
};

}  // namespace supple
