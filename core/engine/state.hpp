// The state of a mechanism between time steps. It is the only one: both solvers start a step from it and write it when
// the step has succeeded, so a step that fails has changed nothing. To save and to restore it is to copy the struct.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "engine/flexible.hpp"
#include "engine/model.hpp"
#include "spatial/abreast.hpp"

namespace supple {

class System;
struct History;

struct Load {  // a wrench (force, torque) at a point of a body, in world or body axes
    int body = 0;
    Vec3 point = Vec3::Zero();
    Vec6 wrench = Vec6::Zero();
    bool world = true;
};

struct Handle {  // a spring and damper from a point of a body to a point of the world
    int body = 0;
    Vec3 point = Vec3::Zero(), target = Vec3::Zero();
    double stiffness = 0, damping = 0;
};

struct State {
    // A slot has the motion of one body and that of one coordinate. With the recursive passes the slots are the nodes
    // of the tree, and a body's numbers are in the axes of its node; otherwise they are the bodies, and behind them the
    // coordinates.
    struct Slots {  // eight of them
        Eight R[9], position[3];  // of the node, world axes
        Eight turn[3];  // log(R_{n-1}^T R_n) of the last step, node's axes
        Eight centre[3], centre_before[3];  // of mass, world axes; after the last step and the one before it
        Eight momentum[6], momentum_before[6];  // linear, and angular about the centre of mass; world axes
        // Angular velocity in node's axes, velocity of the centre of mass in world axes
        Eight spin[3], centre_velocity[3];
        Eight inertial[6];  // minus the rate of momentum in the last step: force, torque about the centre of mass
        Eight q, q_before, rate, rate_before;  // of the coordinate
        Eight p, p_before;  // its armature times its rate
        Eight missed, expected;  // by which extrapolated rates missed q, and are expected to miss it in the next step
    };
    struct Ball {  // three coordinates that are a rotation; of a free joint that is a single node also its translations
        Mat3 rotation = Mat3::Identity(), rotation_before = Mat3::Identity();
        Vec3 rate = Vec3::Zero(), rate_before = Vec3::Zero();  // of the increments
        Vec3 p = Vec3::Zero(), p_before = Vec3::Zero();
        Vec3 shift = Vec3::Zero(), shift_before = Vec3::Zero(), shift_rate = Vec3::Zero(),
             shift_rate_before = Vec3::Zero();
        // As in Slots
        Vec3 missed = Vec3::Zero(), expected = Vec3::Zero(), shift_missed = Vec3::Zero(), shift_expected = Vec3::Zero();
    };
    struct Flexible {
        FlexibleState now, before;
        std::vector<double> rate, rate_before;  // of the amplitudes, where they are no coordinates of slots
        Vec6 wrench = Vec6::Zero();  // weight less the rate of momentum in the last step, body axes
    };
    struct Loop {
        Vec3 along[3] = {Vec3::Zero(), Vec3::Zero(), Vec3::Zero()};  // world directions of its moments
        // Of a hinge without a node; `applied`: torque
        double angle = 0, angle_before = 0, rate = 0, rate_before = 0, applied = 0;
    };
    struct Bushing {
        Vec6 q = Vec6::Zero(), q_before = Vec6::Zero(), rate = Vec6::Zero(), rate_before = Vec6::Zero();
        Vec6 wrench = Vec6::Zero();  // on its child, in its frame there
    };
    double time = 0, h = 0;  // h: duration of the last step
    // Contraction rate of Newton's method over the first correction with its factors, 1/rad; of the last steps
    double curvature = 1;
    bool fresh = true;  // the history is not equidistant: the next step is backward Euler
    bool redundant = false;  // some ties are redundant, see Articulated
    // Consecutive steps that the passes could not solve; next steps to solve without trying them
    int refusals = 0, pause = 0;
    std::vector<Slots> slots;
    std::vector<Ball> balls;
    std::vector<Flexible> flexible;
    std::vector<Loop> loops;
    std::vector<Bushing> bushings;
    // Forces times the length scale, then moments along `along`; of the tree solver's loops
    std::vector<double> loop_multipliers;
    std::vector<double> mu;  // per row: its multiplier
    std::vector<signed char> active;  // per row: 1 upper limit or equality, -1 lower limit, 0 not active
    std::vector<int> idle;  // per coupling: steps since it last resisted; -1: it has no columns in the fronts
    std::vector<double> activation;  // of each actuator
    std::vector<Load> loads;  // that acted in the last step, contact forces among them
    std::vector<Handle> handles;

    std::vector<double> numbers() const;
    // Takes what `numbers` of a state of the same mechanism gave; false, and nothing is changed, if these cannot be.
    bool assign(const double* numbers, std::size_t size);
    bool fits(const double* numbers, std::size_t size) const;
};

// Where the numbers of bodies, coordinates and loops are in a State.
class StateLayout {
   public:
    struct Ball {
        // First coordinates of the rotation and, of a free joint that is one node, of the translations
        int axis = 0, shift_axis = -1;
    };
    struct Flexible {
        std::vector<int> copies;  // first coordinate of each joint at an interface: copies of the amplitudes
    };
    struct Loop {
        int joint = 0, first = 0, rows = 0;  // rows: 3 point, 5 hinge, 6 weld; first: in State::loop_multipliers
        // Of its ends: on the child, on the parent; body: on which the wrench acts
        int slot[2] = {0, 0}, body[2] = {-1, -1};
        Vec3 point[2], z[2], x[2];  // in the slots' frames
        std::vector<int> axes;  // coordinates that have no slot
    };
    struct Bushing {
        int joint = 0, axis = 0;
    };

    // Slots are bodies, then coordinates: for mechanisms that the recursive passes do not cover.
    explicit StateLayout(const Model& model);
    StateLayout() = default;

    int size = 0;  // slots
    std::vector<int> body;  // slot of each body; bodies of a group share one
    std::vector<Pose> in_slot;  // pose of each body in the frame of its slot
    std::vector<int> axis;  // slot of each coordinate, or -1
    std::vector<Ball> balls;
    std::vector<Flexible> flexible;
    std::vector<Loop> loops;
    std::vector<Bushing> bushings;
    // Rows that keep copies of amplitudes equal; of each coordinate the amplitude, or -1
    std::vector<int> copy_rows, amplitude_axis;
    std::vector<int> outward, inner, held_by;  // bodies, each after `inner` of it; the joint between them
    int loop_rows = 0, couplings = 0;
    bool own_tree = false;  // other joints close loops than those of the system's tree
    void finish(const Model& model);  // prepares `write_poses`; to be called last

    State zero(const Model& model) const;

    template <class Block>  // State::Slots, or others with a rotation R and a position
    static Pose slot_pose(const std::vector<Block>& blocks, int slot);
    Pose slot_pose(const State& state, int slot) const { return slot_pose(state.slots, slot); }
    Pose pose(const State& state, int body) const {
        return body < 0 ? Pose{} : slot_pose(state, this->body[body]) * in_slot[body];
    }
    Vec6 twist(const Model& model, const State& state, int body) const;  // in the body's own frame
    template <class Block>
    void write_poses(const std::vector<Block>& blocks, double* rows) const;  // (bodies, 4, 4)
    void write_velocities(const Model& model, const State& state, double* rows) const;  // (bodies, 6), twists as above
    // Coordinates and rates of their increments (axes,). `loops`: also those of loop joints that have no slots.
    void coordinates(const Model& model, const State& state, double* q, double* rates, bool loops = true) const;
    // Joints that close loops, and their wrenches (6 each), as those of `wrenches`.
    std::vector<int> loop_joints() const;
    void loop_wrenches(const Model& model, const State& state, double* rows) const;
    double kinetic_energy(const Model& model, const State& state) const;
    // Linear, and angular about the world's origin; without armatures
    Vec6 momentum(const Model& model, const State& state) const;
    // Wrenches through all joints, on their children and in their frames there.
    std::vector<Vec6> wrenches(const Model& model, const Vec3& gravity, const State& state) const;

    // The state as the sparse solver has it, and back. `put` leaves out poses of slots, which the caller sets before.
    void get(const State& state, System& system, History& history) const;
    void put(const System& system, const History& history, State& state) const;

   private:
    Vec6 loop_wrench(const Model& model, const State& state, int loop) const;
    void put_copies(System& system) const;

    std::vector<int> carrier_;  // per slot: the body whose pose `write_poses` writes, -1 for none
    std::vector<std::array<Eight, 12>> body_in_slot_;  // poses of these in their slots
    std::vector<std::array<Eight, 3>> centre_;  // centres of mass of their groups, in their frames
    std::vector<int> carried_;  // other bodies of groups
};

// Multipliers of a loop in a State (for moments along x, y and y of the frame of its first end) that make the wrench w
// on the joint's child, in the joint's frame `joint` there; and that wrench. `end`: pose of the slot of the first end.
void multipliers_of(const StateLayout::Loop& loop, const Pose& end, const Pose& joint, const Vec6& w,
                    double length_scale, double* multipliers);
Vec6 wrench_of(const StateLayout::Loop& loop, const Pose& end, const Pose& joint, const Vec3* along,
               const double* multipliers, double length_scale);

template <class Block>
Pose StateLayout::slot_pose(const std::vector<Block>& blocks, int slot) {
    const Block& block = blocks[slot / width];
    const int l = slot % width;
    Pose result;
    for (int c = 0; c < 3; ++c) {
        for (int r = 0; r < 3; ++r) result.R(r, c) = block.R[3 * c + r][l];
        result.p[c] = block.position[c][l];
    }
    return result;
}

template <class Block>
void StateLayout::write_poses(const std::vector<Block>& blocks, double* rows) const {
    alignas(64) double unused[2 * width];
    for (std::size_t k = 0; k < body_in_slot_.size(); ++k) {
        const Eight* fixed = body_in_slot_[k].data();
        const Turn R = {three(blocks[k].R), three(blocks[k].R + 3), three(blocks[k].R + 6)};
        const Turn turned = R * Turn{three(fixed), three(fixed + 3), three(fixed + 6)};
        const Three p = R * three(fixed + 9) + three(blocks[k].position);
        Eight upper[8] = {turned.x.x, turned.y.x, turned.z.x, p.x, turned.x.y, turned.y.y, turned.z.y, p.y};
        Eight lower[8] = {turned.x.z, turned.y.z, turned.z.z, p.z, every(0.0), every(0.0), every(0.0), every(1.0)};
        transpose(upper);
        transpose(lower);
        for (int l = 0; l < width; ++l) {
            const int b = carrier_[width * k + l];
            double* to = b < 0 ? unused : rows + 16 * b;
            store(to, upper[l]);
            store(to + width, lower[l]);
        }
    }
    for (int b : carried_) {
        const Pose H = slot_pose(blocks, body[b]) * in_slot[b];
        double* to = rows + 16 * b;
        for (int r = 0; r < 3; ++r) {
            for (int c = 0; c < 3; ++c) to[4 * r + c] = H.R(r, c);
            to[4 * r + 3] = H.p[r];
            to[12 + r] = 0;
        }
        to[15] = 1;
    }
}

}  // namespace supple
