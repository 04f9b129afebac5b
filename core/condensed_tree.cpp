// Interiors that are trees of single coordinates. All is written in world axes at the world's origin, where a body's
// twist is its parent's plus s dq and nothing needs transforming on the way.
//
// Second variation of the energy, with W the wrench that a joint carries:
//     sum 1/2 k dq^2 - 1/2 W^T [xi_parent, s] dq + sum over bodies 1/2 xi^T P xi
// so from the leaves to the root each coordinate can be minimised away (dynamic programming):
//     u = P s + n,  n = 1/2 ad(s)^T W,  d = k + s^T P s,  P <- P - u u^T / d
// and likewise the right-hand sides: the tips' wrenches, what balance lacks and what motion lacks, side by side in the
// lanes of vectors. One pass back gives the tips' compliance, one pass out every coordinate's and link's share.
#include <algorithm>
#include <cmath>

#include "arrays.hpp"
#include "condensed.hpp"
#include "reduced.hpp"

namespace supple {

namespace {

constexpr int wide = 8;
typedef double Lanes __attribute__((vector_size(64)));

SUPPLE_INLINE Lanes load(const double* from) {
    Lanes v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}
SUPPLE_INLINE void store(double* to, const Lanes& v) { __builtin_memcpy(to, &v, sizeof v); }

template <int... at>
SUPPLE_INLINE Lanes picked(const Lanes& v) {
    return __builtin_shufflevector(v, v, at...);
}
template <int... at>  // places from 8 on are those of the second
SUPPLE_INLINE Lanes picked(const Lanes& a, const Lanes& b) {
    return __builtin_shufflevector(a, b, at...);
}

SUPPLE_INLINE double sum(const Lanes& v) {
    const Lanes four = v + picked<4, 5, 6, 7, 0, 1, 2, 3>(v), two = four + picked<2, 3, 0, 1, 6, 7, 4, 5>(four);
    return two[0] + two[1];
}

// a x b of the first three lanes, and of the next three
SUPPLE_INLINE Lanes cross_both(const Lanes& a, const Lanes& b) {
    return picked<1, 2, 0, 4, 5, 3, 6, 7>(a) * picked<2, 0, 1, 5, 3, 4, 6, 7>(b) -
           picked<2, 0, 1, 5, 3, 4, 6, 7>(a) * picked<1, 2, 0, 4, 5, 3, 6, 7>(b);
}

// ad(s)^T w = (f x w_s, f x v_s + m x w_s)
SUPPLE_INLINE Lanes bracket(const Lanes& s, const Lanes& w) {
    const Lanes none = {};
    const Lanes turn = picked<3, 4, 5, 3, 4, 5, 6, 7>(s);
    return cross_both(w, turn) + cross_both(picked<8, 8, 8, 0, 1, 2, 8, 8>(w, none), picked<8, 8, 8, 0, 1, 2, 8, 8>(s, none));
}

// rows[k][l] becomes rows[l][k]
SUPPLE_INLINE void transpose(Lanes* v) {
    Lanes a[8], b[8];
    for (int k = 0; k < 8; k += 2) {
        a[k] = picked<0, 8, 2, 10, 4, 12, 6, 14>(v[k], v[k + 1]);
        a[k + 1] = picked<1, 9, 3, 11, 5, 13, 7, 15>(v[k], v[k + 1]);
    }
    for (int k = 0; k < 8; k += 4)
        for (int l = 0; l < 2; ++l) {
            b[k + l] = picked<0, 1, 8, 9, 4, 5, 12, 13>(a[k + l], a[k + 2 + l]);
            b[k + 2 + l] = picked<2, 3, 10, 11, 6, 7, 14, 15>(a[k + l], a[k + 2 + l]);
        }
    for (int l = 0; l < 4; ++l) {
        v[l] = picked<0, 1, 2, 3, 8, 9, 10, 11>(b[l], b[l + 4]);
        v[l + 4] = picked<4, 5, 6, 7, 12, 13, 14, 15>(b[l], b[l + 4]);
    }
}

struct Row3 {
    Lanes x, y, z;
};
SUPPLE_INLINE Row3 operator+(const Row3& a, const Row3& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
SUPPLE_INLINE Row3 operator*(const Lanes& s, const Row3& a) { return {s * a.x, s * a.y, s * a.z}; }
SUPPLE_INLINE Row3 operator*(double s, const Row3& a) { return {s * a.x, s * a.y, s * a.z}; }
SUPPLE_INLINE Row3 cross(const Row3& a, const Row3& b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
SUPPLE_INLINE Lanes dot(const Row3& a, const Row3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

struct Turn {  // rotation matrices, by columns
    Row3 c[3];
    SUPPLE_INLINE Row3 operator*(const Row3& v) const { return v.x * c[0] + (v.y * c[1] + v.z * c[2]); }
    SUPPLE_INLINE Row3 back(const Row3& v) const { return {dot(c[0], v), dot(c[1], v), dot(c[2], v)}; }
};

// What the passes need of one step, world axes
struct alignas(64) Node {
    double screw[8];
    double still[8];   // wrench that acts on it in balance,
    double moving[8];  // and in motion, less the rate of momentum
    double body[16];   // inertia about the centre of mass (xx, yy, zz, xy, xz, yz), mass, centre of mass, inertial force
};

// Columns of structure-of-arrays data: steps next to each other.
class Columns {
   public:
    void resize(int steps, int columns) {
        stride_ = (steps + wide - 1) / wide * wide;
        values.assign(static_cast<std::size_t>(stride_) * columns, 0.0);
    }
    double* operator[](int column) { return values.data() + static_cast<std::size_t>(stride_) * column; }
    const double* operator[](int column) const { return values.data() + static_cast<std::size_t>(stride_) * column; }
    SUPPLE_INLINE Lanes at(int column, int i) const { return load((*this)[column] + i); }
    SUPPLE_INLINE Row3 three(int column, int i) const { return {at(column, i), at(column + 1, i), at(column + 2, i)}; }
    SUPPLE_INLINE Turn turn(int i) const { return {{three(0, i), three(3, i), three(6, i)}}; }
    SUPPLE_INLINE void set(int column, int i, const Row3& v) {
        store((*this)[column] + i, v.x);
        store((*this)[column + 1] + i, v.y);
        store((*this)[column + 2] + i, v.z);
    }
    Vec3 vector(int column, int i) const { return {(*this)[column][i], (*this)[column + 1][i], (*this)[column + 2][i]}; }
    int stride() const { return stride_; }
    std::vector<double> values;

   private:
    int stride_ = 0;
};

// columns of the description (inertia as in Node), of frames, and of what a state's inertia needs
enum { own_twist = 0, own_centre = 6, own_mass = 9, own_inertia = 10, own_count = 16 };
enum { frame_turn = 0, frame_place = 9, frame_count = 12 };
enum { at_turn = 0, at_centre = 3, at_linear = 6, at_angular = 9, at_flight = 12, at_spin = 15, at_count = 18 };

enum class indefinite { refused, taken, turned };

template <int E>
class Passes : public TreeInterior {
    static constexpr int rows = 6 * E, K = (rows + 2 + 7) / 8;  // vectors for the right-hand sides:
    static constexpr int balance = 8 * K - 2, motion = 8 * K - 1;  // tips' wrenches first, these lanes last

    struct alignas(64) Share {     // what one pass back leaves for the pass out
        double u[8], part[8];      // u and u / d
        double bent[8];            // ad(s)^T W, W what motion carries more than balance
        double over, unused[7];    // 1 / d
        Lanes g[K], turns[K];      // right-hand sides that arrive; the coordinate's answers
    };
    struct Right {
        Lanes row[6][K];
    };
    struct Inward {                // what is handed towards the root
        Lanes P[6], still, moving;
        Right right;
    };

   public:
    explicit Passes(const System& system);
    void start() override;
    void restart() override;
    Pose tip_pose(int e) const override { return tree_.frame(end(e)); }
    bool respond(Tangent tangent, const Step* step, Response& response) override;
    double move(const Vector& mu, double largest, double& alpha) override;
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
    void swap() override;
    void write_poses(double* out) const override;
    double kinetic() const override;
    void save() override { saved_ = flat(); }
    void restore() override { set_flat(saved_.data()); }
    void tell(System& system) const override;
    std::vector<double> flat() const override;
    void set_flat(const double* values) override;

   private:
    Tree::Shown end(int e) const {
        const Tree::Shown& body = bodies_[tips[e].body];
        return {body.step, body.fixed * tips[e].on_body};
    }
    void add_inertia(int step, double mass, const Vec3& centre, const Mat3& inertia);
    template <bool nodes>
    void look(const Step* step);
    void spread(Lanes* columns, int i, double (Node::*to)[8]);
    void act(const Step* step);
    bool first_on_step(std::size_t e) const {  // no earlier tip stands on the same step
        for (std::size_t k = 0; k < e; ++k)
            if (bodies_[tips[k].body].step == bodies_[tips[e].body].step) return false;
        return true;
    }
    void pull(const Step* step);
    bool pass_back(double boost, indefinite what);
    void pass_out(const Step* step, Tangent tangent);
    void along_first(Response& response);
    void pass_back_again(Response& response);
    void pass_out_again(const Step* step, Response& response);

    const System& system_;
    Tree tree_;
    std::vector<Tree::Shown> bodies_;
    std::vector<int> axis_, before_, step_of_;  // axis of a step, step before it, step of an axis
    std::vector<char> joins_;  // other steps than the next stand on it, or a tip does
    int n_ = 0;
    bool heavy_ = false;
    int negative_ = 0;
    Columns own_, frame_, past_frame_, now_, past_, old_;
    std::vector<Node> nodes_;
    std::vector<Share> shares_;
    struct Each {
        Lanes of[K];
    };
    std::vector<Each> first_;     // the coordinates' answers by the first tangent of a step
    std::vector<Right> momenta_;   // of the links' motions, if another tangent is taken,
    std::vector<Each> resisted_;   // and the coordinates' own torques
    std::vector<std::array<double, 2>> lacks_;  // what balance lacks, and motion, of each coordinate's torque
    std::vector<Inward> inward_;
    std::vector<Right> outward_, outward_first_;
    // per step: coordinates and rates; momenta of armatures; torques of springs, dampers and armatures
    std::vector<double> q_, q_past_, q_old_, rate_, rate_old_, spin_, spin_past_, spin_old_;
    std::vector<double> stiffness_, damping_, armature_;
    bool curved_ = false;
    std::vector<double> spring_, slope_, drag_, resists_, scale_, kept_q_, kept_rate_, answer_, saved_;
    Vector kept_lambda_;
    Lanes gram_[rows][K], mass_[rows][K];
};

template <int E>
Passes<E>::Passes(const System& system) : system_(system) {
    std::vector<int> holder(system.bodies(), -1);
    for (std::size_t j = 0; j < system.joints.size(); ++j) holder[system.joints[j].outer] = static_cast<int>(j);
    bodies_.resize(system.bodies());
    for (int b : system.order) {
        const Joint& joint = system.joints[holder[b]];
        const bool backwards = joint.child != b;
        const int inner = backwards ? joint.child : joint.parent;
        Tree::Shown at = inner < 0 ? Tree::Shown{} : bodies_[inner];
        at.fixed = at.fixed * (backwards ? joint.pose_child : joint.pose_parent);
        for (int k = 0; k < joint.count; ++k) {
            const int axis = joint.first + (backwards ? joint.count - 1 - k : k);
            Tree::Step step;
            step.before = at.step;
            step.axis = n_;
            step.fixed = at.fixed;
            step.twist[0] = backwards ? Vec6(-system.twists[axis]) : system.twists[axis];
            tree_.steps.push_back(step);
            before_.push_back(at.step);
            axis_.push_back(axis);
            at = {n_++, Pose{}};
        }
        bodies_[b] = {at.step, at.fixed * (backwards ? joint.pose_parent : joint.pose_child).inverse()};
    }
    tree_.prepare();
    step_of_.resize(n_);
    for (int i = 0; i < n_; ++i) step_of_[axis_[i]] = i;
    own_.resize(n_, own_count);
    for (Columns* each : {&frame_, &past_frame_}) each->resize(n_, frame_count);
    for (Columns* each : {&now_, &past_, &old_}) each->resize(n_, at_count);
    nodes_.assign(own_.stride(), Node{});
    shares_.resize(n_);
    inward_.resize(n_);
    outward_.resize(n_);
    first_.resize(n_);
    momenta_.resize(n_);
    resisted_.resize(n_);
    outward_first_.resize(n_);
    lacks_.resize(n_);
    for (int i = 0; i < n_; ++i)
        for (int k = 0; k < 6; ++k) own_[own_twist + k][i] = tree_.steps[i].twist[0][k];
    for (int b = 0; b < system.bodies(); ++b) {
        const Tree::Shown& at = bodies_[b];
        if (at.step >= 0)
            add_inertia(at.step, system.mass[b], at.fixed.act(system.centre[b]),
                        at.fixed.R * system.inertia[b] * at.fixed.R.transpose());
    }
    for (auto* each : {&q_, &q_past_, &q_old_, &rate_, &rate_old_, &spin_, &spin_past_, &spin_old_, &spring_, &slope_,
                       &drag_, &resists_, &answer_})
        each->assign(n_, 0.0);
    for (int i = 0; i < n_; ++i)  // a slide's motion is measured in radii
        scale_.push_back(tree_.steps[i].twist[0].template tail<3>().isZero(0) ? 1 / system.length_scale : 1.0);
    heavy_ = !system.gravity.isZero(0);
    for (int axis : axis_) {
        stiffness_.push_back(system.stiffness[axis]);
        damping_.push_back(system.damping[axis]);
        armature_.push_back(system.armature[axis]);
        curved_ = curved_ || system.curve[axis] >= 0;
    }
}

// Bodies that move as one: masses add up, inertias about the common centre.
template <int E>
void Passes<E>::add_inertia(int i, double mass, const Vec3& centre, const Mat3& inertia) {
    const double had = own_[own_mass][i], sum = had + mass;
    const Vec3 old = own_.vector(own_centre, i), middle = sum > 0 ? Vec3((had * old + mass * centre) / sum) : centre;
    const Mat3 a = skew(old - middle), b = skew(centre - middle);
    const Mat3 added = inertia - had * a * a - mass * b * b;
    for (int k = 0; k < 3; ++k) own_[own_centre + k][i] = middle[k];
    own_[own_mass][i] = sum;
    constexpr int at[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
    for (int k = 0; k < 6; ++k) own_[own_inertia + k][i] += added(at[k][0], at[k][1]);
}

template <int E>
void Passes<E>::start() {
    joins_.assign(n_, 0);
    for (int i = 0; i < n_; ++i)
        if (before_[i] >= 0 && before_[i] != i - 1) joins_[before_[i]] = 1;
    for (std::size_t e = 0; e < tips.size(); ++e) joins_[end(static_cast<int>(e)).step] = 1;
    for (int i = 0; i < n_; ++i) q_[i] = system_.state.q[axis_[i]];
    std::fill(rate_.begin(), rate_.end(), 0.0);
    std::fill(past_.values.begin(), past_.values.end(), 0.0);
    restart();
}

template <int E>
void Passes<E>::restart() {
    look<true>(nullptr);
    for (int i = 0; i < n_; ++i) {
        Vec3 turning;  // angular momentum of the same spin, in the link's own axes
        for (int k = 0; k < 3; ++k) {
            past_[at_turn + k][i] = 0;
            past_[at_centre + k][i] = nodes_[i].body[7 + k];
        }
        Mat3 R, I;
        for (int c = 0; c < 3; ++c) R.col(c) = frame_.vector(3 * c, i);
        const double* b = nodes_[i].body;
        I << b[0], b[3], b[4], b[3], b[1], b[5], b[4], b[5], b[2];
        turning = I * (R * past_.vector(at_spin, i));
        for (int k = 0; k < 3; ++k) past_[at_angular + k][i] = turning[k];
        spin_[i] = armature_[i] * rate_[i];
    }
    old_ = past_;
    past_frame_ = frame_;
    q_past_ = q_old_ = q_;
    rate_old_ = rate_;
    spin_past_ = spin_old_ = spin_;
}

// Frames, screws, wrenches that act on links and, with a step, their momenta as the engine has them (System::apply).
template <int E>
template <bool nodes>
void Passes<E>::look(const Step* step) {
    tree_.move(q_.data());
    const Lanes none = {};
    const Row3 gravity = {none + system_.gravity[0], none + system_.gravity[1], none + system_.gravity[2]};
    for (int i = 0; i < n_; i += wide) {
        // rows of eight frames to columns
        Lanes upper[8], lower[8];
        for (int l = 0; l < wide; ++l) {
            const double* rows_of = reinterpret_cast<const double*>(tree_.rows(std::min(i + l, n_ - 1)));
            upper[l] = load(rows_of);
            lower[l] = Lanes{rows_of[8], rows_of[9], rows_of[10], rows_of[11], 0, 0, 0, 0};
        }
        transpose(upper);
        transpose(lower);
        const Turn R = {{{upper[0], upper[4], lower[0]}, {upper[1], upper[5], lower[1]}, {upper[2], upper[6], lower[2]}}};
        const Row3 place = {upper[3], upper[7], lower[3]};
        for (int c = 0; c < 3; ++c) frame_.set(frame_turn + 3 * c, i, R.c[c]);
        const Row3 about = R * own_.three(own_twist + 3, i);
        const Row3 along = R * own_.three(own_twist, i) + cross(place, about);
        const Row3 centre = R * own_.three(own_centre, i) + place;
        const Lanes mass = own_.at(own_mass, i);
        const Row3 diagonal = own_.three(own_inertia, i), off = own_.three(own_inertia + 3, i);
        const Row3 I0 = {diagonal.x, off.x, off.y}, I1 = {off.x, diagonal.y, off.z}, I2 = {off.y, off.z, diagonal.z};
        const Row3 M0 = R * I0, M1 = R * I1, M2 = R * I2;
        Row3 force = mass * gravity;
        const Row3 weight_torque = cross(centre, force);
        const Row3 weight = force;
        Row3 torque = {none, none, none};
        if (step) {
            const double over = 1 / step->h, c0 = step->c0, c1 = step->c1, c2 = step->c2;
            const Row3 flight = over * (c0 * centre + (c1 * past_.three(at_centre, i) + c2 * old_.three(at_centre, i)));
            // x = log(R_n^T R), from its antisymmetric part; far turns one by one
            const Turn Rn = past_frame_.turn(i);
            Row3 x = {0.5 * (dot(Rn.c[2], R.c[1]) - dot(Rn.c[1], R.c[2])),
                      0.5 * (dot(Rn.c[0], R.c[2]) - dot(Rn.c[2], R.c[0])),
                      0.5 * (dot(Rn.c[1], R.c[0]) - dot(Rn.c[0], R.c[1]))};
            const Lanes trace = dot(Rn.c[0], R.c[0]) + dot(Rn.c[1], R.c[1]) + dot(Rn.c[2], R.c[2]);
            const Lanes s = dot(x, x);
            constexpr double a[] = {1, 1.0 / 6, 3.0 / 40, 15.0 / 336, 105.0 / 3456, 945.0 / 42240, 10395.0 / 599040,
                                    135135.0 / 9676800, 2027025.0 / 175472640};
            Lanes ratio = none + a[8];
            for (int k = 7; k >= 0; --k) ratio = ratio * s + a[k];
            x = ratio * x;
            const Row3 turned = past_.three(at_turn, i);
            Row3 spin = c0 * x;
            if (c2 != 0) {  // Jr(x) x_0 = x_0 - b x x x_0 + c x x (x x x_0)
                const Lanes t = dot(x, x);
                const Lanes b = 0.5 + t * (-1.0 / 24 + t * (1.0 / 720 + t * (-1.0 / 40320 + t * (1.0 / 3628800))));
                const Lanes c = 1.0 / 6 + t * (-1.0 / 120 + t * (1.0 / 5040 + t * (-1.0 / 362880 + t / 39916800.0)));
                const Row3 once = cross(x, turned), twice = cross(x, once);
                spin = spin + (-c2) * (turned + (-b) * once + c * twice);
            }
            spin = over * spin;
            bool far = false;
            for (int l = 0; l < wide; ++l) far = far || !(trace[l] > 2.98);
            if (far)
                for (int l = 0; l < wide && i + l < n_; ++l) {
                    if (trace[l] > 2.98) continue;
                    Mat3 now, then;
                    for (int c = 0; c < 3; ++c) {
                        now.col(c) = frame_.vector(3 * c, i + l);
                        then.col(c) = past_frame_.vector(3 * c, i + l);
                    }
                    const Vec3 turn = so3_log(then.transpose() * now);
                    const Vec3 rate = over * (c0 * turn - c2 * (so3_right_jacobian(turn) * past_.vector(at_turn, i + l)));
                    x.x[l] = turn[0], x.y[l] = turn[1], x.z[l] = turn[2];
                    spin.x[l] = rate[0], spin.y[l] = rate[1], spin.z[l] = rate[2];
                }
            const Row3 linear = mass * flight;
            const Row3 angular = spin.x * M0 + (spin.y * M1 + spin.z * M2);
            const Row3 push = c0 * linear + (c1 * past_.three(at_linear, i) + c2 * old_.three(at_linear, i));
            const Row3 twist = c0 * angular + (c1 * past_.three(at_angular, i) + c2 * old_.three(at_angular, i));
            force = force + (-over) * push;
            torque = (-over) * twist;
            now_.set(at_turn, i, x);
            now_.set(at_centre, i, centre);
            now_.set(at_linear, i, linear);
            now_.set(at_angular, i, angular);
            now_.set(at_flight, i, flight);
            now_.set(at_spin, i, spin);
        }
        const Row3 moment = torque + cross(centre, force);
        if (!nodes) continue;
        Lanes still[8] = {weight.x, weight.y, weight.z, weight_torque.x, weight_torque.y, weight_torque.z};
        Lanes moving[8] = {force.x, force.y, force.z, moment.x, moment.y, moment.z};
        Lanes screw[8] = {along.x, along.y, along.z, about.x, about.y, about.z};
        // J = R I R^T
        Lanes body[10] = {M0.x * R.c[0].x + M1.x * R.c[1].x + M2.x * R.c[2].x,
                                M0.y * R.c[0].y + M1.y * R.c[1].y + M2.y * R.c[2].y,
                                M0.z * R.c[0].z + M1.z * R.c[1].z + M2.z * R.c[2].z,
                                M0.x * R.c[0].y + M1.x * R.c[1].y + M2.x * R.c[2].y,
                                M0.x * R.c[0].z + M1.x * R.c[1].z + M2.x * R.c[2].z,
                                M0.y * R.c[0].z + M1.y * R.c[1].z + M2.y * R.c[2].z,
                                mass, centre.x, centre.y, centre.z};
        spread(screw, i, &Node::screw);
        spread(moving, i, &Node::moving);
        if (heavy_) spread(still, i, &Node::still);
        const Row3 inertial = force + (-1.0) * weight;
        Lanes rest[8] = {body[8], body[9], inertial.x, inertial.y, inertial.z};
        transpose(body);
        transpose(rest);
        for (int l = 0; l < wide; ++l) {
            store(nodes_[i + l].body, body[l]);
            store(nodes_[i + l].body + 8, rest[l]);
        }
    }
}

// Eight steps' columns of six numbers, each to its own node.
template <int E>
void Passes<E>::spread(Lanes* columns, int i, double (Node::*to)[8]) {
    transpose(columns);
    for (int l = 0; l < wide; ++l) store(nodes_[i + l].*to, columns[l]);
}

void add_wrench(double* to, const Pose& at, const Vec6& own) {  // own axes, to the world's at its origin
    const Vec3 f = at.R * own.head<3>(), m = at.R * own.tail<3>() + at.p.cross(f);
    for (int k = 0; k < 3; ++k) {
        to[k] += f[k];
        to[3 + k] += m[k];
    }
}

// What acts on the tips: in balance lambda, in motion what comes from outside.
template <int E>
void Passes<E>::act(const Step* step) {
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const EndEffector& tip = tips[e];
        const Tree::Shown shown = end(static_cast<int>(e));
        const Pose pose = tree_.frame(shown);
        Node& node = nodes_[shown.step];
        if (!heavy_ && first_on_step(e)) std::fill_n(node.still, 8, 0.0);
        add_wrench(node.still, pose, lambda.segment<6>(6 * e));
        if (!step) continue;
        const Pose at = tip.world ? Pose{Mat3::Identity(), pose.p} : pose;
        add_wrench(node.moving, at, tip.wrench);
        for (const auto& [point, force] : tip.contacts)
            add_wrench(node.moving, {Mat3::Identity(), pose.act(point)}, stack(force, Vec3::Zero()));
        if (!tip.held) continue;
        const Vec3 point = pose.act(tip.point);
        Vec3 spin = now_.vector(at_spin, shown.step);
        Mat3 R;
        for (int c = 0; c < 3; ++c) R.col(c) = frame_.vector(3 * c, shown.step);
        spin = R * spin;
        const Vec3 speed = now_.vector(at_flight, shown.step) + spin.cross(point - Vec3(node.body + 7));
        const Vec3 force = tip.stiffness * (tip.target - point) - tip.damping * speed;
        add_wrench(node.moving, {Mat3::Identity(), point}, stack(force, Vec3::Zero()));
    }
}

// Torques of springs, dampers and armatures.
template <int E>
void Passes<E>::pull(const Step* step) {
    for (int i = 0; i < n_; ++i) {
        const double deflection = q_[i] - system_.rest[axis_[i]];
        slope_[i] = stiffness_[i];
        spring_[i] = slope_[i] * deflection;
    }
    for (int i = 0; curved_ && i < n_; ++i) {
        const int axis = axis_[i];
        const double deflection = q_[i] - system_.rest[axis];
        if (system_.curve[axis] >= 0) {
            double torque, slope, energy;
            system_.curves[system_.curve[axis]].evaluate(deflection, torque, slope, energy);
            spring_[i] += torque;
            slope_[i] += slope;
        }
    }
    for (const Row& row : system_.rows) {
        double torque, slope, energy;
        const int i = step_of_[row.of.axes[0]];
        row.push(q_[i], torque, slope, energy);
        spring_[i] += torque;
        slope_[i] += slope;
    }
    if (!step) return;
    const double c0 = step->c0, c1 = step->c1, c2 = step->c2, over = 1 / step->h, c = c0 / step->h;
    for (int i = 0; i < n_; ++i) {
        const double armature = armature_[i], damping = damping_[i];
        const double rate = over * (c0 * q_[i] + c1 * q_past_[i] + c2 * q_old_[i]), spin = armature * rate;
        rate_[i] = rate;
        spin_[i] = spin;
        drag_[i] = damping * rate + over * (c0 * spin + c1 * spin_past_[i] + c2 * spin_old_[i]);
        resists_[i] = c * (damping + c * armature);
    }
}

template <int E>
bool Passes<E>::respond(Tangent tangent, const Step* step, Response& response) {
    look<true>(step);
    act(step);
    pull(step);
    if (tangent == Tangent::kept) {
        pass_back_again(response);
        pass_out_again(step, response);
        return response.drift.allFinite() && response.force.allFinite();
    }
    double boost = 1;  // anchors stiffer where that makes the tangent definite; where it does not, as it is
    if (downhill || !pass_back(boost, indefinite::refused)) {
        boost = stiffer;
        if (downhill || !pass_back(boost, indefinite::refused))
            pass_back(boost, downhill ? indefinite::turned : indefinite::taken);
    }
    response.negative = negative_;
    pass_out(step, tangent);
    response.anchor.setZero();
    for (int e = 0; e < E; ++e) {
        auto own = response.anchor.template block<6, 6>(6 * e, 6 * e);
        own = turning(lambda.template segment<6>(6 * e));
        own.diagonal() += boost * anchor.template segment<6>(6 * e);
    }
    for (int r = 0; r < rows; ++r) {
        const double* gram = reinterpret_cast<const double*>(gram_[r]);
        for (int c = 0; c < rows; ++c) response.compliance(r, c) = gram[c];
        response.drift[r] = response.unbalance[r] = gram[balance];
        response.force[r] = gram[motion];
        if (!step || tangent == Tangent::again) continue;
        const double* mass = reinterpret_cast<const double*>(mass_[r]);
        for (int c = 0; c < rows; ++c) response.inertia(r, c) = mass[c];
        response.inertia(r, rows) = mass[balance];
    }
    if (tangent == Tangent::first)
        response.left = response.compliance;
    else if (step)
        along_first(response);
    return response.drift.allFinite() && response.compliance.allFinite();
}

// Force, unbalance and inertia along the tangent that the step began with.
template <int E>
void Passes<E>::along_first(Response& response) {
    const Inward nothing{};
    for (int i = 0; i < n_; ++i)
        if (joins_[i]) inward_[i] = nothing;
    Right carried{};
    Lanes mass[rows][K] = {}, force[K] = {}, unbalance[K] = {};
    for (int i = n_ - 1; i >= 0; --i) {
        if (i + 1 == n_ || before_[i + 1] != i) carried = Right{};
        Lanes resisted[K] = {};
        for (int r = 0; r < 6; ++r)
            for (int k = 0; k < K; ++k) {
                carried.row[r][k] += momenta_[i].row[r][k];
                if (joins_[i]) carried.row[r][k] += inward_[i].right.row[r][k];
                resisted[k] += nodes_[i].screw[r] * carried.row[r][k];
            }
        const double* first = reinterpret_cast<const double*>(first_[i].of);
        for (int k = 0; k < K; ++k) {
            resisted[k] += resisted_[i].of[k];
            force[k] -= lacks_[i][1] * first_[i].of[k];
            unbalance[k] -= lacks_[i][0] * first_[i].of[k];
            for (int r = 0; r < rows; ++r) mass[r][k] += first[r] * resisted[k];
        }
        if (before_[i] >= 0 && before_[i] != i - 1)
            for (int r = 0; r < 6; ++r)
                for (int k = 0; k < K; ++k) inward_[before_[i]].right.row[r][k] += carried.row[r][k];
    }
    for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < rows; ++c) response.inertia(r, c) = mass[r][c / 8][c % 8];
        response.inertia(r, rows) = mass[r][balance / 8][balance % 8];
        response.force[r] = force[r / 8][r % 8];
        response.unbalance[r] = unbalance[r / 8][r % 8];
    }
    for (int e = 0; e < E; ++e) {  // the tips' twists of the first tangent's motions, as the joints stand now
        const Tree::Shown shown = end(e);
        const Mat6 Ad = adjoint(tree_.frame(shown).inverse());
        for (int r = 0; r < rows; ++r) {
            Vec6 twist;
            for (int k = 0; k < 6; ++k) twist[k] = outward_first_[shown.step].row[k][r / 8][r % 8];
            response.left.template block<1, 6>(r, 6 * e) = (Ad * twist).transpose();
        }
    }
}

// From the leaves to the root, with anchors `boost` times as stiff. False: the tangent is not definite and that is
// refused; turned to its opposite where it is negative, the search goes downhill.
template <int E>
bool Passes<E>::pass_back(double boost, indefinite what) {
    const Inward nothing{};
    for (int i = 0; i < n_; ++i)
        if (joins_[i]) inward_[i] = nothing;
    for (int e = 0; e < E; ++e) {
        const Tree::Shown shown = end(e);
        const Mat6 Ad = adjoint(tree_.frame(shown).inverse());
        const Mat6 held = Ad.transpose() * (boost * anchor.template segment<6>(6 * e)).asDiagonal() * Ad;
        Inward& in = inward_[shown.step];
        for (int r = 0; r < 6; ++r)
            for (int c = 0; c < 6; ++c) {
                in.P[r][c] += held(r, c);
                in.right.row[r][(6 * e + c) / 8][(6 * e + c) % 8] -= Ad(c, r);
            }
    }
    Lanes gram[rows][K] = {};
    Inward now = nothing;
    negative_ = 0;
    const double smallest = 1e-12 * system_.stiffness_scale;
    for (int i = n_ - 1; i >= 0; --i) {
        const Node& node = nodes_[i];
        if (i + 1 == n_ || before_[i + 1] != i) now = nothing;
        if (joins_[i]) {
            const Inward& in = inward_[i];
            for (int r = 0; r < 6; ++r) {
                now.P[r] += in.P[r];
                for (int k = 0; k < K; ++k) now.right.row[r][k] += in.right.row[r][k];
            }
            now.still += in.still;
            now.moving += in.moving;
        }
        now.still += load(node.still);
        now.moving += load(node.moving);
        if (heavy_) {  // a dead force f at c: [[0, [f]/2], [-[f]/2, (c f^T + f c^T)/2 - f.c]] per twist
            const double* c = node.body + 7;
            const double x = node.body[6] * system_.gravity[0], y = node.body[6] * system_.gravity[1],
                         z = node.body[6] * system_.gravity[2];
            const double xy = 0.5 * (c[0] * y + c[1] * x), xz = 0.5 * (c[0] * z + c[2] * x),
                         yz = 0.5 * (c[1] * z + c[2] * y), all = c[0] * x + c[1] * y + c[2] * z;
            now.P[0] -= Lanes{0, 0, 0, 0, -0.5 * z, 0.5 * y, 0, 0};
            now.P[1] -= Lanes{0, 0, 0, 0.5 * z, 0, -0.5 * x, 0, 0};
            now.P[2] -= Lanes{0, 0, 0, -0.5 * y, 0.5 * x, 0, 0, 0};
            now.P[3] -= Lanes{0, 0.5 * z, -0.5 * y, c[0] * x - all, xy, xz, 0, 0};
            now.P[4] -= Lanes{-0.5 * z, 0, 0.5 * x, xy, c[1] * y - all, yz, 0, 0};
            now.P[5] -= Lanes{0.5 * y, -0.5 * x, 0, xz, yz, c[2] * z - all, 0, 0};
        }
        const double* s = node.screw;
        const Lanes Ps = (s[0] * now.P[0] + s[1] * now.P[1]) + (s[2] * now.P[2] + s[3] * now.P[3]) +
                         (s[4] * now.P[4] + s[5] * now.P[5]);
        const Lanes screw = load(s);
        double d = slope_[i] + sum(screw * Ps), kicked = 0;
        if (!(d > smallest)) {
            if (what == indefinite::refused) return false;
            const double size = std::max(std::abs(d), smallest + 1e-6 * std::abs(slope_[i]));
            d = what == indefinite::turned ? size : -size;
            if (what == indefinite::turned) kicked = kick * size / scale_[i];
            ++negative_;
        }
        const double over = 1 / d;
        const Lanes u = Ps + 0.5 * bracket(screw, now.still);
        Share& share = shares_[i];
        Lanes g[K] = {};
        const double balanced = spring_[i] - sum(screw * now.still), driven = spring_[i] + drag_[i] - sum(screw * now.moving);
        g[K - 1] = Lanes{0, 0, 0, 0, 0, 0, balanced, driven};
        lacks_[i] = {balanced, driven};
        for (int r = 0; r < 6; ++r)
            for (int k = 0; k < K; ++k) g[k] += s[r] * now.right.row[r][k];
        if (kicked != 0) g[K - 1][6] += g[K - 1][6] < 0 ? -kicked : kicked;  // off a saddle, where nothing pushes
        store(share.u, u);
        store(share.part, over * u);
        store(share.bent, bracket(screw, now.moving - now.still));
        share.over = over;
        for (int k = 0; k < K; ++k) share.g[k] = g[k];
        const double* arrived = reinterpret_cast<const double*>(share.g);
        for (int r = 0; r < rows; ++r)
            for (int k = 0; k < K; ++k) gram[r][k] += (arrived[r] * over) * g[k];
        for (int r = 0; r < 6; ++r) {
            now.P[r] -= share.part[r] * u;
            for (int k = 0; k < K; ++k) now.right.row[r][k] -= share.part[r] * g[k];
        }
        if (before_[i] >= 0 && before_[i] != i - 1) {
            Inward& in = inward_[before_[i]];
            for (int r = 0; r < 6; ++r) {
                in.P[r] += now.P[r];
                for (int k = 0; k < K; ++k) in.right.row[r][k] += now.right.row[r][k];
            }
            in.still += now.still;
            in.moving += now.moving;
        }
    }
    for (int r = 0; r < rows; ++r)
        for (int k = 0; k < K; ++k) gram_[r][k] = gram[r][k];
    return true;
}

// From the root to the leaves: every coordinate's answer to each right-hand side and, with a step, mass, damping and
// armature along them.
template <int E>
void Passes<E>::pass_out(const Step* step, Tangent tangent) {
    Right now{}, first{};
    Lanes mass[rows][K] = {};
    const double c = step ? step->c0 / step->h : 0, square = c * c;
    for (int i = 0; i < n_; ++i) {
        if (before_[i] < 0) {
            now = first = Right{};
        } else if (before_[i] != i - 1) {
            now = outward_[before_[i]];
            first = outward_first_[before_[i]];
        }
        const Node& node = nodes_[i];
        Share& share = shares_[i];
        Lanes turn[K];
        for (int k = 0; k < K; ++k) {
            const Lanes even = share.u[0] * now.row[0][k] + share.u[2] * now.row[2][k] + share.u[4] * now.row[4][k];
            const Lanes odd = share.u[1] * now.row[1][k] + share.u[3] * now.row[3][k] + share.u[5] * now.row[5][k];
            turn[k] = -share.over * (share.g[k] + (even + odd));
            share.turns[k] = turn[k];
            for (int r = 0; r < 6; ++r) now.row[r][k] += node.screw[r] * turn[k];
        }
        if (tangent == Tangent::first)
            for (int k = 0; k < K; ++k) first_[i].of[k] = turn[k];
        else
            for (int k = 0; k < K; ++k)
                for (int r = 0; r < 6; ++r) first.row[r][k] += node.screw[r] * first_[i].of[k];
        if (joins_[i]) {
            outward_[i] = now;
            outward_first_[i] = first;
        }
        if (!step) continue;
        const double* body = node.body;
        const double m = square * body[6], *at = body + 7, *push = body + 10;
        Lanes fly[3][K], carry[6][K], resisted[K];  // velocity of the centre of mass; momenta; torques
        for (int k = 0; k < K; ++k) {
            const Lanes &x = now.row[3][k], &y = now.row[4][k], &z = now.row[5][k];
            fly[0][k] = now.row[0][k] + (at[2] * y - at[1] * z);
            fly[1][k] = now.row[1][k] + (at[0] * z - at[2] * x);
            fly[2][k] = now.row[2][k] + (at[1] * x - at[0] * y);
            for (int r = 0; r < 3; ++r) carry[r][k] = m * fly[r][k];
            carry[3][k] = square * (body[0] * x + body[3] * y + body[4] * z) - (push[2] * fly[1][k] - push[1] * fly[2][k]);
            carry[4][k] = square * (body[3] * x + body[1] * y + body[5] * z) - (push[0] * fly[2][k] - push[2] * fly[0][k]);
            carry[5][k] = square * (body[4] * x + body[5] * y + body[2] * z) - (push[1] * fly[0][k] - push[0] * fly[1][k]);
            const Lanes even = share.bent[0] * now.row[0][k] + share.bent[2] * now.row[2][k] + share.bent[4] * y;
            const Lanes odd = share.bent[1] * now.row[1][k] + share.bent[3] * x + share.bent[5] * z;
            resisted[k] = resists_[i] * turn[k] + (even + odd);
        }
        if (tangent == Tangent::again) {  // as wrenches at the world's origin
            for (int k = 0; k < K; ++k) {
                for (int r = 0; r < 6; ++r) momenta_[i].row[r][k] = carry[r][k];
                resisted_[i].of[k] = resisted[k];
                momenta_[i].row[3][k] += at[1] * carry[2][k] - at[2] * carry[1][k];
                momenta_[i].row[4][k] += at[2] * carry[0][k] - at[0] * carry[2][k];
                momenta_[i].row[5][k] += at[0] * carry[1][k] - at[1] * carry[0][k];
            }
            continue;
        }
        const double* momenta = reinterpret_cast<const double*>(carry);
        const double* turns = reinterpret_cast<const double*>(share.turns);
        for (int r = 0; r < rows; ++r)
            for (int k = 0; k < K; ++k) {
                const Lanes a = momenta[r] * fly[0][k] + momenta[8 * K + r] * fly[1][k];
                const Lanes b = momenta[16 * K + r] * fly[2][k] + momenta[24 * K + r] * now.row[3][k];
                const Lanes d = momenta[32 * K + r] * now.row[4][k] + momenta[40 * K + r] * now.row[5][k];
                mass[r][k] += (a + b) + (d + turns[r] * resisted[k]);
            }
    }
    for (int r = 0; r < rows; ++r)
        for (int k = 0; k < K; ++k) mass_[r][k] = mass[r][k];
}

// The same passes with the tangent of before, for the present residuals: what balance lacks and what motion lacks.
template <int E>
void Passes<E>::pass_back_again(Response& response) {
    const Inward nothing{};
    for (int i = 0; i < n_; ++i)
        if (joins_[i]) inward_[i] = nothing;
    Lanes right = {}, still = {}, moving = {};
    Lanes drift[K] = {}, unbalance[K] = {}, force[K] = {};
    for (int i = n_ - 1; i >= 0; --i) {
        const Node& node = nodes_[i];
        Share& share = shares_[i];
        if (i + 1 == n_ || before_[i + 1] != i) right = still = moving = Lanes{};
        if (joins_[i]) {
            right += inward_[i].P[0];
            still += inward_[i].still;
            moving += inward_[i].moving;
        }
        still += load(node.still);
        moving += load(node.moving);
        const Lanes screw = load(node.screw);
        const double balanced = spring_[i] - sum(screw * still), driven = spring_[i] + drag_[i] - sum(screw * moving);
        const double arrived = share.over * (balanced + sum(screw * right));
        right -= arrived * load(share.u);
        answer_[i] = arrived;
        for (int k = 0; k < K; ++k) {
            drift[k] += arrived * share.g[k];
            unbalance[k] -= balanced * first_[i].of[k];
            force[k] -= driven * first_[i].of[k];
        }
        if (before_[i] >= 0 && before_[i] != i - 1) {
            Inward& in = inward_[before_[i]];
            in.P[0] += right;
            in.still += still;
            in.moving += moving;
        }
    }
    for (int r = 0; r < rows; ++r) {
        response.drift[r] = drift[r / 8][r % 8];
        response.unbalance[r] = unbalance[r / 8][r % 8];
        response.force[r] = force[r / 8][r % 8];
    }
}

template <int E>
void Passes<E>::pass_out_again(const Step* step, Response& response) {
    const double c = step ? step->c0 / step->h : 0, square = c * c;
    Lanes twist = {};
    for (int i = 0; i < n_; ++i) {
        if (before_[i] < 0)
            twist = Lanes{};
        else if (before_[i] != i - 1)
            twist = outward_[before_[i]].row[0][0];
        Node& node = nodes_[i];
        Share& share = shares_[i];
        const double turn = -(answer_[i] + share.over * sum(load(share.u) * twist));
        share.turns[K - 1][6] = turn;
        twist += turn * load(node.screw);
        if (joins_[i]) outward_[i].row[0][0] = twist;
        const double* b = node.body;  // the momentum of this motion, as a wrench at the world's origin
        const double m = square * b[6], *at = b + 7, x = twist[3], y = twist[4], z = twist[5];
        const double vx = twist[0] + at[2] * y - at[1] * z, vy = twist[1] + at[0] * z - at[2] * x,
                     vz = twist[2] + at[1] * x - at[0] * y, *push = b + 10;
        const double fx = m * vx, fy = m * vy, fz = m * vz;
        store(node.moving,
              Lanes{fx, fy, fz,
                    square * (b[0] * x + b[3] * y + b[4] * z) + at[1] * fz - at[2] * fy - (push[2] * vy - push[1] * vz),
                    square * (b[3] * x + b[1] * y + b[5] * z) + at[2] * fx - at[0] * fz - (push[0] * vz - push[2] * vx),
                    square * (b[4] * x + b[5] * y + b[2] * z) + at[0] * fy - at[1] * fx - (push[1] * vx - push[0] * vy), 0,
                    0});
        answer_[i] = resists_[i] * turn + sum(load(share.bent) * twist);
    }
    if (!step) return;
    for (int i = 0; i < n_; ++i)
        if (joins_[i]) inward_[i].moving = Lanes{};
    Lanes moving = {}, along[K] = {};
    for (int i = n_ - 1; i >= 0; --i) {
        if (i + 1 == n_ || before_[i + 1] != i) moving = Lanes{};
        if (joins_[i]) moving += inward_[i].moving;
        moving += load(nodes_[i].moving);
        const double resisted = sum(load(nodes_[i].screw) * moving) + answer_[i];
        for (int k = 0; k < K; ++k) along[k] += resisted * first_[i].of[k];
        if (before_[i] >= 0 && before_[i] != i - 1) inward_[before_[i]].moving += moving;
    }
    for (int r = 0; r < rows; ++r) response.inertia(r, rows) = along[r / 8][r % 8];
}

template <int E>
double Passes<E>::move(const Vector& mu, double largest, double& alpha) {
    Lanes by[K] = {};
    for (int r = 0; r < rows; ++r) by[r / 8][r % 8] = mu[r];
    by[K - 1][6] = 1;
    double size = 0;
    for (int i = 0; i < n_; ++i) {
        Lanes sum = by[0] * shares_[i].turns[0];
        for (int k = 1; k < K; ++k) sum += by[k] * shares_[i].turns[k];
        answer_[i] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
        size = std::max(size, scale_[i] * std::abs(answer_[i]));
    }
    double total = 0;  // of numbers that are not finite, a maximum knows nothing
    for (int i = 0; i < n_; ++i) total += answer_[i];
    if (!std::isfinite(total)) return INFINITY;
    alpha = std::min(1.0, largest / size);
    for (int i = 0; i < n_; ++i) q_[i] += alpha * answer_[i];
    return size;
}

template <int E>
double Passes<E>::energy() const {
    double sum = 0, torque, slope, energy, none;
    for (int i = 0; i < n_; ++i) {
        const double deflection = q_[i] - system_.rest[axis_[i]];
        sum += 0.5 * stiffness_[i] * deflection * deflection;
        if (system_.curve[axis_[i]] < 0) continue;
        const Curve& curve = system_.curves[system_.curve[axis_[i]]];
        curve.evaluate(deflection, torque, slope, energy);
        curve.evaluate(0, torque, slope, none);
        sum += energy - none;
    }
    for (const Row& row : system_.rows) {
        row.push(q_[step_of_[row.of.axes[0]]], torque, slope, energy);
        sum += energy;
    }
    for (int i = 0; heavy_ && i < n_; ++i) sum -= nodes_[i].body[6] * system_.gravity.dot(Vec3(nodes_[i].body + 7));
    return sum;
}

template <int E>
double Passes<E>::kinetic() const {
    double sum = 0;
    for (int i = 0; i < n_; ++i) {
        Mat3 R;
        for (int c = 0; c < 3; ++c) R.col(c) = past_frame_.vector(3 * c, i);
        sum += 0.5 * (past_.vector(at_linear, i).dot(past_.vector(at_flight, i)) +
                      past_.vector(at_angular, i).dot(R * past_.vector(at_spin, i)) + spin_past_[i] * rate_[i]);
    }
    return sum;
}

template <int E>
void Passes<E>::predict(double h, double trend) {
    for (int i = 0; i < n_; ++i) q_[i] += h * (rate_[i] + trend * (rate_[i] - rate_old_[i]));
}

template <int E>
void Passes<E>::finish(const Step* step) {
    if (step) {
        look<false>(step);
        pull(step);
    } else {
        look<true>(step);
    }
}

template <int E>
void Passes<E>::accept(double) {
    std::swap(old_, past_);
    std::swap(past_, now_);
    std::swap(past_frame_, frame_);
    q_old_.swap(q_past_);
    q_past_ = q_;
    spin_old_.swap(spin_past_);
    spin_past_ = spin_;
    rate_old_ = kept_rate_;
}

template <int E>
void Passes<E>::keep() {
    kept_q_ = q_;
    kept_rate_ = rate_;
    kept_lambda_ = lambda;
}

template <int E>
void Passes<E>::back() {
    q_ = kept_q_;
    rate_ = kept_rate_;
    lambda = kept_lambda_;
}

template <int E>
void Passes<E>::swap() {
    q_.swap(kept_q_);
    rate_.swap(kept_rate_);
    lambda.swap(kept_lambda_);
}

template <int E>
void Passes<E>::write_poses(double* out) const {
    for (std::size_t b = 0; b < bodies_.size(); ++b) {
        if (bodies_[b].step < 0)
            write(bodies_[b].fixed, out + 16 * b);
        else
            tree_.write(bodies_[b], out + 16 * b);
    }
}

template <int E>
void Passes<E>::tell(System& system) const {
    for (int i = 0; i < n_; ++i) {
        system.state.q[axis_[i]] = q_[i];
        system.rate[axis_[i]] = rate_[i];
    }
    for (int b = 0; b < system.bodies(); ++b) {
        const int i = bodies_[b].step;
        if (i < 0) continue;
        const Pose step = tree_.frame({i, Pose{}}), pose = tree_.frame(bodies_[b]);
        const Vec3 spin = step.R * past_.vector(at_spin, i);
        const Vec3 speed = past_.vector(at_flight, i) + spin.cross(pose.p - past_.vector(at_centre, i));
        system.velocity[b] = stack(pose.R.transpose() * speed, pose.R.transpose() * spin);
    }
}

template <int E>
std::vector<double> Passes<E>::flat() const {
    std::vector<double> all;
    for (const auto* each : {&q_, &q_old_, &rate_, &rate_old_, &spin_past_, &spin_old_, &past_.values, &old_.values,
                             &past_frame_.values})
        all.insert(all.end(), each->begin(), each->end());
    return all;
}

template <int E>
void Passes<E>::set_flat(const double* values) {
    for (auto* each : {&q_, &q_old_, &rate_, &rate_old_, &spin_past_, &spin_old_, &past_.values, &old_.values,
                       &past_frame_.values}) {
        std::copy(values, values + each->size(), each->begin());
        values += each->size();
    }
    q_past_ = q_;
    tree_.move(q_.data());
}

}  // namespace

std::unique_ptr<TreeInterior> tree_interior(const System& system, int tips) {
    if (!system.springs.empty()) return nullptr;
    for (const Row& row : system.rows)
        if (row.stop == 0 || row.of.axes.size() != 1 || row.of.coefficients[0] != 1) return nullptr;
    for (const Joint& joint : system.joints) {
        if (joint.outer < 0) return nullptr;
        for (int size : joint.blocks)
            if (size != 1) return nullptr;
    }
    switch (tips) {
        case 1: return std::make_unique<Passes<1>>(system);
        case 2: return std::make_unique<Passes<2>>(system);
        case 3: return std::make_unique<Passes<3>>(system);
        case 4: return std::make_unique<Passes<4>>(system);
        case 5: return std::make_unique<Passes<5>>(system);
        default: return nullptr;
    }
}

}  // namespace supple
