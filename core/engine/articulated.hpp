// One implicit time step of the whole mechanism by recursive passes over its tree: the equations of System, solved in
// time linear in the number of links.
//
// The tree is a list of nodes. A node turns or slides about one axis (its frame's z), is a ball joint, or is rigid; the
// last node of a joint carries the joint's outer body. All twists and wrenches are in world axes about one point near
// the mechanism. With s_i the screw of coordinate i, W_i the wrench that everything beyond it exerts (applied wrenches
// less rates of momentum), and eta the twist of a node, Newton's step solves
//     tau_i + k_i dq_i + n_i.eta_parent + s_i.(P eta + p) = 0,   eta = eta_parent + s_i dq_i,   n_i = ad(s_i)^T W_i
// where P eta + p is the articulated tangent: the wrench with which the subtree resists the twist eta, with all
// coordinates beyond i eliminated. A link adds minus its own wrench to p.
// Inward, coordinate by coordinate (Featherstone's articulated-body recursion with the exact, unsymmetric tangent):
//     u = P s,  l = P^T s + n,  d = k + s.u,  rho = tau + s.p,   P -= u l^T / d,   p -= u rho / d
// and outward dq = -(rho + l.eta_parent) / d. P' = P - N(W)/2 is kept in place of P (N(W) s = ad(s)^T W), so that the
// geometric stiffness is symmetric: u = P's + n/2, l = P'^T s + n/2.
//
// Ties are closed loops and couplings. The multipliers of a tie are extra rows and columns of P at all nodes between
// its two ends and their common ancestor, where they are eliminated.
//
// A flexible body has a node for its amplitudes beyond the node of its body frame, and its interfaces are nodes beyond
// that one: see articulated_flexible.cpp.
//
// The passes serve time steps of a Simulation, alone and in a World with contact, inverse dynamics
// (inverse_dynamics.cpp) and links by joints (reduced/joints.cpp). Statics, modes, linear models, and time steps that
// the passes cannot solve use the sparse factorisation of System, and so do the derivatives of recorded steps with
// flexible bodies.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "contact/contact.hpp"
#include "engine/joint_nodes.hpp"
#include "engine/state.hpp"
#include "engine/system.hpp"
#include "spatial/abreast.hpp"

namespace supple {

struct Lanes;
struct EightColumns;

class Articulated {
   public:
    // steps: free joints may be single nodes, which the exact tangent does not cover. derivatives: of recorded steps.
    // poses: forward kinematics only (`place`), by the System's spanning tree and without loops.
    enum class Use { steps, derivatives, poses };
    explicit Articulated(const System& system, Use use = Use::steps);

    // Why the mechanism needs the sparse solver; empty if the passes cover it.
    const char* uncovered() const { return uncovered_; }

    const StateLayout& layout() const { return layout_; }
    // Poses of all nodes for coordinates in the layout of System, as slots of a state.
    void place_slots(const double* q, State& state);
    // (bodies, 4, 4), of the present iterate
    void write_poses(double* rows) const { layout_.write_poses(present_, rows); }
    // Copies the inputs that may change between steps: loads, handles, set-points.
    void refresh(const System& system);

    // One step of h: backward Euler (order 1) or BDF2 (2). False: Newton's method did not converge, or the step needs
    // the treatment of the sparse stepper; the state is as before.
    bool step(State& state, double h, int order);
    bool limit_changed() const { return limit_changed_; }  // in the last step
    int order_used() const { return order_used_; }  // by the last step: BDF2 falls back to Euler where limits change

    // In a World, one step of order 1 or 2 in two parts: `begin` linearises it at the predicted state and solves it
    // without contact and limits, `respond` computes the response to impulses, `finish` solves the step with the
    // contact forces. See Participant. False: as for `step`; a step of second order in which a limit is met or left
    // also fails. The state must stay as it is between `begin` and `finish`, which writes it.
    bool begin(const State& state, double h, int order);
    Vec6 free_velocity(int body) const;  // of the step without contact, world axes
    void limits(std::vector<Limit>& out) const;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free, double* response);
    bool finish(State& state, const std::vector<Touch>& touches, const double* impulses);

    // Recorded steps, for Adjoint: the exact tangent of a step at its end, and solutions with it and with its
    // transpose.
    struct Motion;  // of eight bodies in a step
    struct Below;  // the articulated tangent during the pass inward
    struct ExactBody;  // the motion of eight bodies, and the exact derivative of their angular momentum
    template <class Column>
    struct Solution;  // right-hand sides and solutions, in the order of the nodes
    Articulated(const Articulated& passes, const System& system);  // a copy for a copy of the system
    // Whether the tangent is exact: no coordinate of a loop joint is without stiffness and mass.
    bool can_be_exact() const;
    // Poses of all nodes for coordinates in the layout of System.
    void place(const double* q);
    // Factorises the exact tangent at the placed pose. The rows that are active and the wrenches of the loop joints are
    // those of a record, `q` the coordinates and `p` the armature momenta at the end of the step and of the two steps
    // before. `past` is overwritten by what the tangent depends on. False: a pivot is not positive, or constraints
    // cannot be separated into independent and redundant ones.
    bool factorise_exactly(State& past, const Step& step, const ExactBody* bodies, const signed char* active,
                           const double* lambda, const double* const q[3], const double* const p[3]);
    // Solves with the last factors, or with their transpose. Nodes that are not marked are skipped. The pass inward may
    // skip nodes whose subtree has no right-hand side, the pass outward nodes whose solution is not needed.
    template <class Column>
    void substitute(Solution<Column>& columns, bool transposed, const char* inward_nodes = nullptr,
                    const char* outward_nodes = nullptr) const;
    Vec6 joint_wrench(int joint) const;  // of a joint of the tree, as System::state.lambda; after `factorise_exactly`

    // Multiply-adds by which one pass eliminates the nodes with ties.
    double tie_operations() const;

    long long iterations = 0, factorisations = 0;

   protected:
    friend class Adjoint;
    // flexes: has the amplitudes of a flexible body; attached: the frame of an interface. `general`: see
    // `eliminate_general`.
    enum Flag : unsigned char {
        chained = 1,
        joins = 2,
        branches = 4,
        rooted = 8,
        fronted = 16,
        ball = 32,
        flexes = 64,
        attached = 128
    };
    static constexpr unsigned char general = fronted | ball | flexes | attached;
    static constexpr int most_chunks = 39;  // most vectors of eight tie multipliers at one node
    // Compliance of a tie over that of the mechanism: keeps redundant ties solvable
    static constexpr double regularised = 1e-8;
    // Steps after which a coupling that does not resist loses its columns in the fronts
    static constexpr int most_idle = 100;
    struct Node : JointNode {  // its frame is in the parent node
        int parent = -1, body = -1;  // body: the carrier of the group of bodies that the node moves
        Pose body_in_node{};  // of that body; of the last axis of a joint that closes a loop: the joint's frame
        // Of a free joint that is a single node: the first of its three translations, which come before the rotation
        int shift_axis = -1;
    };
    struct Fixed {  // constants of eight nodes
        Eight frame[12], turns, slides, mass, centre[3], inertia[6], stiffness, damping, armature, rest, applied, free;
    };
    using Past = State::Slots;
    struct Present {
        Eight R[9], position[3], q;
    };
    struct Eliminated {  // of a node's coordinate, for back-substitution
        Eight screw, part, upart;  // part: l / d and, in lane 6, rho / d; upart: u / d
        double inverse = 0;  // 1 / d; zero where the coordinate is locked
        double diagonal = 0;  // d of a locked coordinate
    };
    struct Summed {  // sum of the contributions of several children to a node
        Eight A[6], B[6], W;

        template <bool tangent>  // without, only the first row of A and W are in use
        void clear() {
            A[0] = W = every(0.0);
            if (!tangent) return;
            for (int r = 1; r < 6; ++r) A[r] = every(0.0);
            for (int r = 0; r < 6; ++r) B[r] = every(0.0);
        }
    };
    // A node with ties: multipliers that its parent also has (open), and those that are eliminated here (own)
    struct Front {
        struct Place {
            bool own;  // else open
            int at;  // row, or column
        };
        struct Run {  // columns of a vector that are added to the parent's as a vector
            int chunk;
            Place to;  // column of the first lane
            bool all;  // the mask is not needed
            Eight mask;
        };
        struct Source {  // of corrections of open multipliers: the step of the front that eliminates them
            int column, count;  // here
            bool whole;  // no other open columns are in this vector, and the step has a vector from there
            std::size_t from;  // a number behind numbers_[0]; of several columns: for the first lane of their vector
            Eight mask;
        };
        int node = 0, open = 0, own = 0, chunks = 0, own_chunks = 0;  // chunks: vectors of eight columns
        std::vector<int> rows;  // multiplier of each row, open rows first
        std::vector<int> lanes;  // column of each open row; own rows are columns in their order
        // Indices in numbers_. A, B: six rows of P' and of its transpose, a vector each, with the columns of the open
        // multipliers behind it, `chunks` vectors. E: a row for each open multiplier, in these columns only. right:
        // right-hand side, of the twist in the vector and of the multipliers behind it; while the tangent is computed,
        // that of the twist is in lane 6 of A.
        std::size_t A = 0, B = 0, E = 0, right = 0, part = 0, upart = 0;
        // Coefficients of the couplings of the node's coordinate, in the columns of the open multipliers
        std::size_t coupled = 0;
        // The same of the own multipliers. own_A, own_B: their columns behind A and B; own_columns: those behind E;
        // own_rows: their rows in the columns of E; D: in their own columns; own_right: their right-hand side. inverse:
        // a column of D^-1 after the other. step: their corrections.
        std::size_t own_A = 0, own_B = 0, own_columns = 0, own_rows = 0, D = 0, own_right = 0, inverse = 0, X = 0,
                    Y = 0, step = 0;
        std::size_t rows_size = 0;  // of A ... own_right, which lie together
        bool continued = false;  // has the rows of its only child and uses their memory
        bool started = false;  // the memory of its rows holds them
        int parent = -1;  // the parent's front, -1 if it has none
        // Of each open row in the parent's front; of the columns in `runs` and, one by one, `singles`
        std::vector<Place> place;
        std::vector<Run> runs;
        std::vector<std::pair<int, Place>> singles;
        std::vector<Source> sources;
    };
    struct BallNode {
        int node = 0, axis = 0;
        double sign = 1;  // -1: the joint is passed from its child to its parent
        int index = 0;  // in State::balls, which has the rotations of the joint as it is described
        Mat3 rotation;  // present
        // As in Node; the translations are along the axes of the node's frame, on a parent at rest
        int shift_axis = -1;
        bool sprung = false;  // whether springs, dampers or armatures act on the translations
        Mat3 along;  // these axes in the world
        Vec3 t;  // present translations
        Mat3 compliance;  // inverse of their tangent after the elimination of the rotation, world axes
        Vec3 shift;  // their correction, world axes
        Eight screw[3], part[3], upart[3];
        std::size_t parts = 0, uparts = 0;  // tie chunks of each, in numbers_
        Mat3 inverse;
        Vec3 step;

        // Torques and increments of the joint as it is described, from and to those of the node.
        Vec3 from_joint(const Vec3& of_joint) const {
            return sign > 0 ? of_joint : Vec3(-(rotation.transpose() * of_joint));
        }
        Vec3 to_joint(const Vec3& of_node) const { return sign > 0 ? of_node : Vec3(-(rotation * of_node)); }
        // Makes the product of many rotations orthogonal again, to rounding.
        void settle() { rotation = rotation * (1.5 * Mat3::Identity() - 0.5 * rotation.transpose() * rotation); }
        Mat3 joint_rotation() const { return sign > 0 ? rotation : Mat3(rotation.transpose()); }
        void set_joint_rotation(const Mat3& to) { rotation = sign > 0 ? to : Mat3(to.transpose()); }
    };
    struct Attachment {  // an interface of a flexible body
        int node = 0, joint = 0;
        InterfaceFrame frame;
        std::vector<Eight> screw;  // (6, chunks): the twist per unit rate of each amplitude, world axes about origin_
    };
    // Amplitudes of a flexible body, at a node whose frame is the body's. Rows of `chunks` vectors hold a number for
    // each amplitude.
    struct FlexibleNode {
        int node = 0, index = 0, modes = 0, chunks = 0;  // index: in System::flexible
        int first = 0;  // of its amplitudes among those of all flexible bodies
        int ties = 0, wide = 1;  // tie columns of the node's front, and vectors of a row of it
        FlexibleBody body;
        std::vector<Attachment> interfaces{};
        std::vector<double> eta{}, step{};  // present amplitudes, and their correction
        FlexibleState now{};
        std::vector<Eight> K{}, factors{};  // tangent of the amplitudes, then its upper factor; the lower factor
        std::vector<double> inverse{};  // 1 / pivot
        std::vector<Eight> U{}, L{}, right{};  // u and l: (6 + ties, chunks); forces on the amplitudes: (chunks)
        std::vector<Eight> part{};  // (modes, wide): K^-1 l, with K^-1 times the forces in lane 6
        std::vector<double> curvature{};  // (modes, modes)

        Eight screw_of(const Attachment& interface, int p) const {
            const double* all = reinterpret_cast<const double*>(interface.screw.data()) + p;
            const int next = width * chunks;
            return Eight{all[0], all[next], all[2 * next], all[3 * next], all[4 * next], all[5 * next], 0, 0};
        }
        // x <- K^-1 x
        template <class Number>
        void solve(Number* x) const {
            const int row = width * chunks;
            const double *lower = reinterpret_cast<const double*>(factors.data()),
                         *upper = reinterpret_cast<const double*>(K.data());
            for (int i = 1; i < modes; ++i)
                for (int k = 0; k < i; ++k) x[i] -= lower[i * row + k] * x[k];
            for (int i = modes - 1; i >= 0; --i) {
                for (int k = i + 1; k < modes; ++k) x[i] -= upper[i * row + k] * x[k];
                x[i] *= inverse[i];
            }
        }
    };
    // Its slots are nodes: on the child, and on the parent (or the last node of the joint's own axes)
    struct Loop : StateLayout::Loop {
        // World directions of the alignment rows, kept within a step. Those of a point are multiplied by zero.
        Vec3 along[3] = {Vec3::Zero(), Vec3::Zero(), Vec3::Zero()};
        double applied = 0;  // torque about a free hinge
    };
    struct EightLoops {  // eight loops abreast; both sides
        int first = 0, count = 0;  // of the loops
        Eight point[2][3], z[2][3], x[2][3];  // in the frames of the ends' nodes
        Eight has[6];  // 1: the loop has this row
        // Of each loop, in the present pose: the wrench on an end; the rows of its part of P' (symmetric), with -W in
        // lane 6; its columns behind the last three rows of A and B. Those behind the first three do not depend on the
        // pose.
        Eight wrench[2][width], rows[2][6][width], columns[2][3][width];
    };
    // A joint with all six coordinates that closes a loop between a body at rest, its parent, and a moving one, its
    // child. Its springs and dampers are a wrench on the child and need no multipliers; its coordinates are computed
    // from the poses.
    struct Bushing {
        int joint = 0, axis = 0, node = 0, ground = 0;  // first coordinate; nodes of child and parent
        Pose in_node, in_ground;  // the joint's frames
        Vec6 rest = Vec6::Zero(), applied = Vec6::Zero();
    };
    struct LoopEnd {
        int loop = 0, side = 0;
        Front::Place place{};  // of its first column in the node's front
    };
    struct Coupling {
        std::vector<int> nodes;
        std::vector<double> coefficients;
        int row = 0;  // multiplier's number
        int system_row = -1, spring = -1;  // in the System
        double value = 0, past = 0, before = 0;
        double stiffness = 0, damping = 0, rest = 0, lower = 0, upper = 0;
        int curve = -1;
        std::vector<int> actuators;
        bool equality = false, stop = false;  // stop: a limit that is a spring
        int active = 0;
        int idle = 0;  // steps since it last resisted; -1: it has no columns in the fronts
        bool resists() const { return spring >= 0 ? pushes : equality || stop || active; }
        bool pushes = true;  // false: a spring whose force does not depend on the coordinates
    };
    struct Lock {  // of one coordinate: a motor, or a limit while it is touched
        int node = 0, system_row = 0;
        double coefficient = 1, lower = 0, upper = 0;
        bool equality = false;
        int active = 0;
    };
    // Actuators of eight coordinates, one of each; where a coordinate has several, the block has several of these
    struct Drives {
        int block = 0;
        std::array<int, width> actuator;  // -1: none
        Eight law[3], lower, upper;  // force = law[0] + law[1] q + law[2] rate, and its range
        Eight gear, contained, share[2];
        Eight end;  // of the range that the force is at: 1 upper, 0 none, -1 lower
        // Beyond that of the springs, on this piece of the law: torque[0] + torque[1] q + torque[2] rate
        Eight torque[3];

        void read(const System& system);
        void choose_piece();
    };
    struct NodeLoad {
        int node = 0, body = 0;
        Vec3 point, force, torque;
        bool world = true;
    };
    struct NodeHandle {
        int node = 0, body = 0;
        Vec3 point, target;
        double stiffness = 0, damping = 0;
    };

    // building
    std::vector<int> choose_tree(const Model& model) const;
    int rows_of(const Model& model, int joint) const;
    void find_bushings(const Model& model);
    std::vector<char> find_single_nodes(const Model& model, const std::vector<int>& holder) const;
    // Whether the tree passes a joint from its parent to its child.
    bool held_along(int joint) const {
        const int child = system_->model().joints[joint].child;
        return child >= 0 && layout_.held_by[child] == joint;
    }
    void find_axes_acted_on(const Model& model);
    void add_nodes(const Model& model);
    void add_flexible_bodies(const Model& model);
    // Whether a row keeps a copy of an amplitude equal to it: interfaces share the amplitudes here.
    bool copies_amplitude(const Row& row) const;
    void add_ties(const Model& model);
    void lay_out_nodes();
    void lay_out_state();
    void lay_out_fronts();
    std::vector<int> columns_of(const std::vector<int>& open) const;
    static Front::Place column_in(const Front& front, int row);
    void place_in_parent(Front& front) const;
    std::size_t lay_out_rows(std::size_t first);
    static int padded_chunks(int chunks);  // the next number of vectors for which there is compiled code
    void lay_out_couplings(int most_idle);

    // one step
    template <bool second>
    bool solve(const Step& step);
    void take(const State& state);  // multipliers, active limits and columns of couplings at the start of a step
    template <bool second>
    bool predict(const Step& step);  // false: the step has no solution
    // By which the predictor extrapolates the change of rates
    double trend_of(const State& past, const Step& step) const;
    // Newton's method from the present state, with the last factors at first unless `refactor`.
    template <bool second>
    bool iterate(const Step& step, bool refactor);
    template <bool second>
    bool begin_in_world();
    template <bool second>
    bool finish_in_world(State& state, bool changed);  // `changed`: contact forces act, or limits were left out
    void forward();
    template <bool second, bool tangent>
    bool inward(const Step& step);
    void add_exact_damper(Lanes& lanes, const NodeHandle& handle, const Motion& m, double kappa) const;
    template <bool tangent>
    void evaluate_ties(const Step& step);
    template <bool tangent, bool directed, int lanes>
    void evaluate_loops(EightLoops& loops, double soft);
    template <bool tangent>
    void add_loop_wrench(Lanes& lanes, int lane, const LoopEnd& end) const;
    void add_loop_columns(Front& front, const LoopEnd& end);
    // bushings
    Vec6 coordinates(const Bushing& bushing) const;
    const State::Bushing& past_of(const Bushing& bushing) const { return past_->bushings[&bushing - bushings_.data()]; }
    Vec6 rates(const Bushing& bushing, const Vec6& q, const Step& step) const;
    // Forces along the translations and torque on the increments of the rotation; `on_vector`: the springs' torque on
    // the rotation vector.
    Vec6 torques(const Bushing& bushing, const Vec6& q, const Vec6& rate, Vec3& on_vector) const;
    Vec6 wrench(const Bushing& bushing, const Vec6& q, const Vec6& rate) const;  // as System::state.lambda
    template <bool tangent>
    void add_bushing(Lanes& lanes, const Bushing& bushing, const Step& step) const;
    template <bool tangent>
    Front& started(int front);  // has zero rows until something is added
    void add_to_front(Front& front, const Eight* A, const Eight* B);
    bool eliminate_own(Front& front);
    template <bool second, bool tangent>
    bool eliminate_general(const Step& step, int node, Lanes& lanes, const Eight& carried, double torque, double slope,
                           Eight* A, Eight* B, Eight& right);
    // The three coordinates of a ball joint, as `inward` eliminates one; without and with ties.
    template <bool tangent>
    bool eliminate_ball(const Step& step, BallNode& node, const Vec3& tau, const Mat3& stiff, const Eight& carried,
                        Eight* A, Eight* B, Eight& right);
    // The translations of a free joint, after its rotation.
    void eliminate_translations(const Step& step, BallNode& node, const Eight* A, int stride);
    void correct_translations(const Step& step, BallNode& node, const Eight& right) const;
    template <bool tangent>
    bool eliminate_tied_ball(const Step& step, BallNode& node, const Vec3& tau, const Mat3& stiff, const Eight& carried,
                             Front& front);
    void gather_open(const Front& front, Eight* open) const;
    Eight open_part(const Front& front) const;
    void correct_own(const Front& front, const Eight& eta);
    void correct_general(int node, Eight& eta);
    // Adds a node's front to that of its parent.
    template <bool tangent>
    void add_to_parent(const Front& front, Front& next);
    // flexible bodies
    void lay_out_flexible();
    template <bool tangent>
    void evaluate_flexible(const Step& step);
    template <bool tangent>
    void add_flexible_element(Lanes& lanes, const FlexibleNode& body) const;
    template <bool tangent>
    void add_interface(int node, const Eight& carried, const Front* front, const Eight* A, const Eight* B,
                       const Eight* right);
    template <bool tangent>
    bool eliminate_amplitudes(FlexibleNode& body, const Front* front, Eight* A, Eight* B, Eight* right);
    void add_interface_twist(int node, Eight& eta) const;
    void accept_flexible(State& state, const Step& step);
    const FlexibleNode& flexible_at(int node) const { return flexible_[flexible_of_[node]]; }
    const Attachment& attachment_at(int node) const { return flexible_at(node).interfaces[interface_of_[node]]; }
    double outward();
    // Corrections from the last factors; does not change the state.
    void compute_corrections();
    template <bool second>
    void accept(State& state, const Step& step);
    bool update_limits(bool one);
    // The force of an actuator beyond that of the springs, as System::excess, on the present piece of its law.
    double excess(int actuator, double x, double speed, double c, double& slope) const;
    template <bool second>
    bool update_ends_of_range(const Step& step, bool first, bool one);
    void lock_coordinates();
    bool turned_too_far() const;
    bool limits_differ(const State& state) const;  // the active limits from those of the state
    double free_angle(const Loop& loop, double last) const;

    // contact
    struct ContactRow {  // a wrench at a node (about origin_), or a combination of coordinates, per unit impulse
        int node = -1;
        Vec6 wrench = Vec6::Zero();
        const Combination* of = nullptr;
        double sign = 1;
    };
    bool limit_active() const;
    template <class Block>
    double row_value(const Combination& of, const std::vector<Block>& at) const;
    void mark_paths(const ContactRow* rows, int count, std::vector<char>& marked);
    // Corrections of the marked nodes for as many right-hand sides; without `outward`, only the pass inward.
    void solve_eight(const ContactRow* rows, int count, bool outward = true);
    template <class Block>
    void freeze_directions(const std::vector<Block>& blocks);
    Mat3 ball_axes(const Loop& loop) const;

    template <bool second>
    Six momentum_rate(int block, const Step& step, const Motion& m) const;
    template <bool second>
    Motion motion(int block, const Step& step) const;
    template <bool second>
    Eight torque(int block, const Step& step, Eight& slope) const;
    template <bool second>
    void ball_torque(const BallNode& node, const Step& step, Vec3& torque, Mat3& slope) const;
    Vec3 ball_rate(const BallNode& node, const Step& step, const Mat3& rotation) const;
    Pose pose(int node) const { return StateLayout::slot_pose(present_, node); }
    Pose past_pose(int node) const { return StateLayout::slot_pose(past_->slots, node); }
    Pose body_pose(int body) const { return pose(body_node_[body]) * in_node_[body]; }
    double coordinate(int node) const { return present_[node / width].q[node % width]; }

    const System* system_ = nullptr;  // description and actuators only
    const State* past_ = nullptr;  // at the start of the present step
    StateLayout layout_;
    const char* uncovered_ = "";
    std::vector<Node> nodes_;
    std::vector<unsigned char> flags_;
    // joint_node_: last node of each joint, -1 if it has none
    std::vector<int> joined_, body_node_, joint_node_, axis_node_;
    std::vector<Pose> in_node_;  // pose of each body in its node
    Use use_ = Use::steps;
    std::vector<char> in_tree_, acted_on_;  // acted_on_: axes with a spring, damper, armature, coupling, motor or limit
    int blocks_ = 0;
    int grounded_ = 1;  // the first nodes: the world, and bodies that are fixed to it
    int first_block_ = 0;  // the first one with a node that moves or has ties
    bool placed_ = false;  // the grounded nodes have their poses
    std::vector<unsigned char> based_;  // nodes whose parent is grounded
    Vec3 gravity_ = Vec3::Zero(), origin_ = Vec3::Zero();
    double length_scale_ = 1, mean_mass_ = 0;
    bool limit_changed_ = false;
    int order_used_ = 1;

    std::vector<Fixed> fixed_;
    std::vector<Present> present_;
    std::vector<Eliminated> eliminated_;
    std::vector<Summed> summed_;
    std::vector<Eight> outward_;
    std::vector<double> correction_, rho_, extra_torque_;
    std::vector<std::pair<int, int>> curves_;  // node, curve; sorted, as the two lists below
    std::vector<std::pair<int, int>> actuators_;  // node, actuator
    std::vector<Drives> drives_;  // the same actuators
    // While `iterate` works, per actuator of a coupling: as in Drives; else empty
    std::vector<signed char> ends_of_range_;
    std::vector<BallNode> balls_;
    std::vector<int> ball_of_;
    std::vector<FlexibleNode> flexible_;
    int amplitudes_ = 0;  // of all flexible bodies
    std::vector<int> flexible_of_, interface_of_;  // per node, -1: none
    std::vector<int> amplitude_axis_;  // per axis: the amplitude of which it is a copy, or itself; -1: no amplitude
    std::vector<int> copy_rows_;  // rows of the System for which `copies_amplitude` is true
    std::vector<double> unresisted_;  // 1: a massless node without stiffness, which gets a small one in the tangent
    std::vector<NodeLoad> loads_;
    std::vector<NodeHandle> handles_;
    std::vector<std::pair<int, int>> stops_;  // node, row of the System: limits that are springs
    // Negative pivots of the last factors, less the positive eigenvalues of the blocks of tie multipliers: the number
    // of negative eigenvalues of the symmetric tangent in the motions that ties allow. A push rod between ball joints,
    // for instance, has negative pivots under pressure until the ties of its loop are eliminated.
    int negative_ = 0;

    // ties
    int tie_rows_ = 0;
    std::vector<Loop> loops_;
    std::vector<EightLoops> loops_abreast_;
    std::vector<Bushing> bushings_;
    // Per joint; holds_ground_: between the world and the parent of a bushing
    std::vector<char> is_bushing_, holds_ground_;
    std::vector<Coupling> couplings_;
    std::vector<Lock> locks_;
    std::vector<int> lock_of_;  // per node, -1: none
    std::vector<Front> fronts_;
    std::vector<int> front_of_;
    std::vector<std::vector<LoopEnd>> ends_;  // per node
    std::vector<double> multiplier_, residual_, tie_step_, diagonal_;
    std::vector<Eight> numbers_;
    std::vector<double> work_;
    std::vector<Eight> scratch_;  // of `eliminate_own` and `eliminate_tied_ball`
    const ExactBody* exact_ = nullptr;  // while `factorise_exactly` works
    std::vector<Eight> carried_;  // wrench carried by each node, about origin_; of `factorise_exactly`
    bool redundant_ = false;  // some ties are redundant: pivots of the last factors are as small as the regularisation
    // Contraction rate of Newton's method over the first correction with its factors, 1/rad; of the last steps
    double curvature_ = 1;
    double decay_ = 0;  // fraction of the null-space part of multipliers that the next correction removes
    double gap_ = 0, soft_scale_ = 1;

    // a step in a World
    bool in_step_ = false;
    bool released_ = false;  // the factors leave out limits that were active before the step
    std::vector<std::pair<Mat3, Vec3>> predicted_balls_;  // rotations and translations
    std::vector<std::vector<double>> predicted_amplitudes_;
    Step contact_step_{};
    std::vector<NodeLoad> contact_loads_;  // of the last step
    std::vector<Present> predicted_;  // predicted poses
    std::vector<ContactRow> contact_rows_;
    std::vector<char> on_path_, on_any_path_, on_no_path_;
    std::shared_ptr<Solution<EightColumns>> responses_;  // to eight right-hand sides
};

}  // namespace supple
