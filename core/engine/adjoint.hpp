// Derivatives of recorded time steps: a sweep forward for directions of the inputs, and a sweep backward for the
// gradient of a scalar.
//
// A time step is F(x; past, inputs) = 0 for x = (twists of bodies, multipliers, increments of coordinates), where the
// past is pose, momentum, coordinates and armature momentum of one and two steps back. With K = dF/dx at the converged
// state,
//     forward    K dx = -(dF/d past) d past - (dF/d inputs) d inputs
//     backward   K^T z = g,   gradient of past and inputs  -=  (dF/d past)^T z, (dF/d inputs)^T z
// where g is the gradient of the scalar with respect to x, both directly and through later steps. Momenta follow from
// poses, M = M(H, H_1, H_2), and are differentiated alike. Inside the sweeps, a body moves by a displacement P of its
// centre of mass and a rotation phi, both in world axes. The set of active limits is that of the record.
//
// The equations are linearised and factorised by the recursive passes of Articulated, with the exact tangent. Where
// they are not applicable (see Articulated::uncovered and can_be_exact) or a pivot is not positive, the sparse
// factorisation of System is used.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "engine/articulated_exact.hpp"
#include "engine/tape.hpp"

namespace supple {

// Directions of the inputs, or gradients with respect to them. An empty array is zero. Arrays over time have a row for
// the start and for the end of each time step; a row has the inputs of the step that ends at its time.
struct InputArrays {
    // Two states, as records of the tape: 0 one step before the start, 1 the start.
    std::vector<double> twists[2], velocities[2];  // (bodies, 6)
    std::vector<double> increments[2], rates[2];  // (axes)
    std::vector<double> targets, rest, spring_rest;  // (times, rows), (times, axes), (times, springs)
    std::vector<double> torques;  // (times, axes): System::applied, paired with the rates of coordinates
    std::vector<double> wrenches;  // (parts, bodies, 6): at the bodies' origins, in body axes. The start, then
                                   // every part of a divided step, since a world load turns in these axes
    std::vector<double> stiffness, damping, armature;  // (axes)
    std::vector<double> spring_stiffness, spring_damping;  // (springs)
    std::vector<double> mass, centre, inertia, gravity;  // (bodies), (bodies, 3), (bodies, 3, 3), (3)
    std::vector<double> materials;  // (flexible bodies, 3): logarithm of Young's modulus, alpha, beta

    template <class Self, class Visit>
    static void visit(Self& self, Visit visit) {
        visit("twists", self.twists[1]);
        visit("velocities", self.velocities[1]);
        visit("increments", self.increments[1]);
        visit("rates", self.rates[1]);
        visit("twists_before", self.twists[0]);
        visit("velocities_before", self.velocities[0]);
        visit("increments_before", self.increments[0]);
        visit("rates_before", self.rates[0]);
        visit("targets", self.targets);
        visit("rest", self.rest);
        visit("spring_rest", self.spring_rest);
        visit("torques", self.torques);
        visit("wrenches", self.wrenches);
        visit("stiffness", self.stiffness);
        visit("damping", self.damping);
        visit("armature", self.armature);
        visit("spring_stiffness", self.spring_stiffness);
        visit("spring_damping", self.spring_damping);
        visit("mass", self.mass);
        visit("centre", self.centre);
        visit("inertia", self.inertia);
        visit("gravity", self.gravity);
        visit("materials", self.materials);
    }
};

// Derivatives of the recorded motion, or gradients with respect to it. An empty array is zero, or not wanted.
struct OutputArrays {
    std::vector<double> coordinates;  // (times, axes)
    std::vector<double> poses, velocities;  // (times, bodies, 6)
    std::vector<double> multipliers;  // (times, rows); those at the start do not count

    template <class Self, class Visit>
    static void visit(Self& self, Visit visit) {
        visit("coordinates", self.coordinates);
        visit("poses", self.poses);
        visit("velocities", self.velocities);
        visit("multipliers", self.multipliers);
    }
};

inline Vec3 velocity_at(const Vec6& twist, const Vec3& point) { return twist.head<3>() + twist.tail<3>().cross(point); }

template <class Number>
Number sum_of(const Combination& of, const Number* values) {
    Number sum = 0.0 * values[0];
    for (std::size_t i = 0; i < of.axes.size(); ++i) sum += of.coefficients[i] * values[of.axes[i]];
    return sum;
}

class Adjoint {
   public:
    // `passes`: of the stepper that recorded the tape; null if they do not cover the mechanism.
    Adjoint(const System& system, const Articulated* passes, std::shared_ptr<const Tape> tape);
    Adjoint(const Adjoint&) = delete;

    InputArrays backward(OutputArrays gradient);
    // One motion for each direction of the inputs; only the arrays asked for are filled.
    std::vector<OutputArrays> forward(std::vector<InputArrays> directions, bool coordinates, bool poses,
                                      bool velocities, bool multipliers);
    // Twists, velocities, increments and rates of a state (record 0 or 1) that follow from coordinates q and rates of
    // the spanning tree, for their directions (axes); those of loop joints follow from the bodies.
    InputArrays start(int record, const double* q, const double* rates);

    int axes() const { return system_.axes(); }
    int bodies() const { return system_.bodies(); }
    int times() const { return tape_->steps() + 1; }
    const Tape& tape() const { return *tape_; }
    std::size_t size_of(const std::string& input) const;  // of an array of InputArrays or OutputArrays

    Pose recorded_pose(int record, int body);
    // Twists of the bodies at the start and at the end of each step (times, bodies, 6).
    std::vector<double> recorded_velocities();

   private:
    static constexpr int kept = 8;  // records whose frames are kept

    // Bodies are processed eight at a time, in the order and in the axes of the nodes of the passes, or, without
    // passes, of the carriers in the system.
    struct Constants {
        Eight mass;
        Three centre;  // in the node
        Three arm;  // from the body's origin to its centre of mass, node's axes
        Eight inertia[6];
        Turn body_axes;  // from the body's axes to the node's
    };
    struct FrameBlock {
        Articulated::Motion motion;
        Three p;  // of the node's origin
        Turn inverse;  // Jr(x)^-1 R^T
        Three linear, angular;  // momentum
    };
    struct Frame {  // a record
        int posed = -1, turned = -1, moved = -1;  // records that the parts belong to
        std::vector<Articulated::Present> nodes;
        std::vector<FrameBlock> blocks;
        std::vector<double> p;  // armature momenta
        std::vector<FlexibleState> flexible;
    };
    struct Block {  // coordinates that share an exponential
        int axis = 0, size = 1;
        Vec3 rate;
        Mat3 by_increment[3];  // of a rotation's rate, by increments at the end, one and two steps back
        Mat3 of_vector;  // of a rotation: Jr(q)^-1, the change of its vector with an increment
    };
    // Gradient with respect to one record: positions P and rotations F of eight bodies, their linear and angular
    // momenta.
    struct Gradient {
        struct Bodies {
            Three P, F, linear, angular;
        };
        std::vector<Bodies> bodies;
        std::vector<double> q, p;  // increments and armature momenta
        std::vector<FlexibleState> flexible;
    };
    // Tangents along eight directions, one in each lane.
    struct Tangents {
        std::vector<Six> H, M;  // per node: displacement and rotation, momenta
        std::vector<Eight> q, p;  // per axis
        std::vector<Eight> mu;  // per row
        std::vector<FlexibleState> flexible;  // eight for each flexible body
    };
    Frame& posed(int record);  // with poses
    Frame& turned(int record);  // with rotations since the record before
    Frame& moved(int record);  // with velocities and momenta
    // Inside the sweeps a group of bodies is its carrier: directions and gradients of the other bodies become those of
    // the carrier, and gradients of the carrier those of all its bodies.
    void carry_to_groups(InputArrays& direction) const;
    void carry_to_groups(OutputArrays& gradient) const;
    void carry_from_groups(InputArrays& gradient) const;
    Gradient zero_gradient() const;
    void set_inputs(int record);
    void linearise(int record);
    void factorise_sparse(int record);
    Pose body_pose(const Frame& frame, int body) const;
    double spring_slope(int axis) const;
    double coupling_slope(int spring) const;
    double share_of(int row) const;  // of a row's target at the end of the time step; the rest is that at its start
    bool acts(const InputArrays& direction, int record) const;
    void add_objective(const OutputArrays& objective, int record, Gradient& g);
    void solve_transposed(const Gradient& g, const double* by_multipliers);
    // Flexible bodies in the sweep backward, before and after the solution, and at the start.
    void pull_back_flexible(const Step& step, Gradient& g, Gradient& last, Gradient& before, double* by_materials);
    void add_flexible_past(const Step& step, Gradient& last, Gradient& before, Vec3& by_gravity, double* by_materials);
    // Generalised forces on the amplitudes per unit of the logarithm of Young's modulus, of alpha and of beta, at the
    // linearised record.
    std::array<std::vector<double>, 3> material_forces(const Step& step, int f) const;
    void pull_back_flexible_start(int record, const Gradient& g, const std::vector<Vec6>& velocities,
                                  InputArrays& result);
    // And forward: right-hand sides, and tangents of their states.
    void add_flexible_forces(const InputArrays* directions, int count, const Tangents& last, const Tangents& before);
    void step_flexible(const InputArrays* directions, int count, Tangents& now, const Tangents& last,
                       const Tangents& before);
    void start_flexible(int record, const std::vector<Vec6>& velocities, const InputArrays* directions, int count,
                        Tangents& now);
    // Twists of the bodies that follow from the coordinates and rates of a record (0 or 1), where the system is then
    // evaluated. After time steps they are not quite the backward differences of poses that the momenta contain; the
    // rest turns with the body.
    std::vector<Vec6> evaluate_start(int record);
    std::vector<Vec6> velocities_in_momenta(int record, std::vector<Vec6> by_kinematics) const;
    Vec6 beyond_joint(int body, const std::vector<Vec6>& twists, const Vec6& across) const;
    void pull_back_start(int record, const Gradient& g, InputArrays& result);
    Mat3 flexible_axes(int f) const;  // of the body frame at the linearised record
    void solve_forward();  // eight columns
    Vec3 free_axis(int loop, int i) const;  // of a free joint that closes a loop, world axes
    void start_tangents(int record, const InputArrays* directions, int count, Tangents& now,
                        std::vector<Six>& velocities);
    void step_tangents(const InputArrays* directions, int count, Tangents& now, const Tangents& last,
                       const Tangents& before, std::vector<Six>& velocities);
    void write_tangents(const Tangents& now, const std::vector<Six>& velocities, int time, int count,
                        OutputArrays* out);

    System system_;
    std::shared_ptr<const Tape> tape_;
    std::unique_ptr<Articulated> passes_;  // null: they do not cover the mechanism
    bool exact_passes_ = false;  // they can factorise the exact tangent
    std::vector<int> node_of_, body_of_;  // node of each body, and its carrier (-1: none)
    std::vector<int> movers_;  // bodies that no other one carries
    std::vector<Pose> body_in_node_;
    std::vector<Constants> constants_;
    std::vector<Block> blocks_;
    Frame frames_[kept];
    int inputs_ = -1;  // those that the system and the passes have

    // the linearised record
    int record_ = -1;
    bool by_passes_ = false;
    History history_;
    State past_;  // what the exact tangent of the passes reads
    std::vector<Articulated::ExactBody> bodies_;
    std::vector<Turn> past_spin_;  // derivative of the spin by the rotation before, phi_1 - phi_2
    // Gradients by velocity of the centre and spin; adjoint displacements and rotations
    std::vector<Six> by_motion_, z_;
    std::vector<double> z_axes_, z_rows_, right_, x_;
    Articulated::Solution<OneColumn> one_;
    Articulated::Solution<EightColumns> eight_;
    std::vector<Six> wrenches_, twists_;  // eight columns, per node: at the centres of mass
    std::vector<Eight> axes_;  // per axis: right-hand sides, then increments
    std::vector<Eight> rows_;  // per row: motions of targets, then multipliers
};

}  // namespace supple
