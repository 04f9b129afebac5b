// Derivatives of recorded time steps: a sweep forward for directions of the inputs, and a sweep backward for the gradient of
// a scalar.
//
// A time step is F(x; past, inputs) = 0 for x = (twists of bodies, multipliers, increments of coordinates), where the past is
// pose, momentum, coordinates and armature momentum of one and two steps back. With K = dF/dx at the converged state,
//     forward    K dx = -(dF/d past) d past - (dF/d inputs) d inputs
//     backward   K^T z = g,   gradient of past and inputs  -=  (dF/d past)^T z, (dF/d inputs)^T z
// where g collects what the scalar and later steps have with respect to x. Momenta follow from poses,
// M = M(H, H_1, H_2), and are differentiated alike. Poses are moved by body twists, H exp(xi); gradients with respect to
// poses are wrenches in body frames.
//
// The set of active limits is that of the record.
#pragma once

#include "adjoint_tree.hpp"
#include "tape.hpp"

namespace supple {

// Directions of the inputs, or gradients with respect to them. An empty array is zero. Arrays over time have a row for the
// start and for the end of each time step: what acts in the step that ends there.
struct InputArrays {
    std::vector<double> twists, velocities;          // at the start (bodies, 6)
    std::vector<double> increments, rates;           // at the start (axes)
    std::vector<double> targets, rest, spring_rest;  // (times, rows), (times, axes), (times, springs)
    std::vector<double> wrenches;                    // (parts, bodies, 6): at the bodies' origins, in body axes. The start, then
                                                     // every part of a divided step, since a world load turns in these axes
    std::vector<double> stiffness, damping, armature;       // (axes)
    std::vector<double> spring_stiffness, spring_damping;   // (springs)
    std::vector<double> mass, centre, inertia, gravity;     // (bodies), (bodies, 3), (bodies, 3, 3), (3)

    template <class Self, class Visit>
    static void visit(Self& self, Visit visit) {
        visit("twists", self.twists);
        visit("velocities", self.velocities);
        visit("increments", self.increments);
        visit("rates", self.rates);
        visit("targets", self.targets);
        visit("rest", self.rest);
        visit("spring_rest", self.spring_rest);
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
    }
};

// Derivatives of the recorded motion, or gradients with respect to it. An empty array is zero, or not wanted.
struct OutputArrays {
    std::vector<double> coordinates;        // (times, axes)
    std::vector<double> poses, velocities;  // (times, bodies, 6)

    template <class Self, class Visit>
    static void visit(Self& self, Visit visit) {
        visit("coordinates", self.coordinates);
        visit("poses", self.poses);
        visit("velocities", self.velocities);
    }
};

class Adjoint {
   public:
    Adjoint(const System& system, std::shared_ptr<const Tape> tape);
    Adjoint(const Adjoint&) = delete;

    InputArrays backward(const OutputArrays& gradient);
    // One motion for each direction of the inputs; only the arrays named in `wanted` are filled.
    std::vector<OutputArrays> forward(const std::vector<InputArrays>& directions, bool coordinates, bool poses,
                                      bool velocities);
    // Twists, velocities, increments and rates at the start that follow from coordinates q and rates of the spanning tree,
    // for their directions (axes); those of loop joints follow from the bodies.
    InputArrays start(const double* q, const double* rates);

    int axes() const { return system_.axes(); }
    int times() const { return tape_->steps() + 1; }
    std::size_t size_of(const std::string& input) const;  // of an array of InputArrays or OutputArrays

    // Twists of the bodies at the start and at the end of each step (times, bodies, 6).
    std::vector<double> recorded_velocities();

   private:
    struct BodyStep {            // of the present record; (f, s) are flight and spin
        Vec3 flight, spin;       // velocity of the centre of mass in world axes, angular velocity in body axes
        Vec3 force, torque;      // weight less rate of momentum, about the centre of mass, body axes
        Mat6 by_twist[3];        // d(f, s) by twists at the end, one and two steps back
        Mat3 by_centre;          // df by the centre of mass
        Mat6 wrench_by_motion;   // dw by (f, s), handles included
        Mat6 wrench_by_past;     // dw by the past momenta's sum (c1 M_1 + c2 M_2) / h
        Mat6 momentum_by_motion;
        Mat3 momentum_by_turn;   // of the angular momentum by the body's rotation
        Mat6 velocity_by_motion;
        Eigen::Matrix<double, 6, 3> wrench_by_centre;
        Vec6 wrench_by_mass;
    };
    struct Block {               // coordinates that share an exponential
        int axis = 0, size = 1;
        Vec3 rate;
        Mat3 by_increment[3];    // of a rotation's rate, by increments at the end, one and two steps back
        Mat3 of_vector;          // of a rotation: Jr(q)^-1, the change of its vector with an increment
    };
    // Tangent or gradient of one record's poses, momenta, increments and armature momenta.
    struct Variation {
        std::vector<Vec6> H, M;
        std::vector<double> q, p;
    };

    Variation zero() const;
    void linearise(int record, bool tangent = true);
    struct Turn {                // of a body between two records
        Vec3 vector;
        Mat3 inverse;            // Jr(vector)^-1; its transpose is Jl(vector)^-1
    };
    void linearise_body(int b, const Step& step, const Pose& now, const Pose& last, const Pose& before, const Turn& turn, const Turn& past);
    const std::vector<Turn>& turns(int record);  // from the record before
    // The equations at the linearised record, by passes over the tree where these serve, else by the sparse factorisation.
    void factorise(const TapeRecord& record);
    void solve(const double* right, double* x, bool transposed, int columns = 1);
    double spring_slope(int axis) const;
    double coupling_slope(int spring) const;
    void record_motion(const Variation& now, const std::vector<double>& velocity, int time, OutputArrays& out) const;
    bool acts(const InputArrays& direction, int record) const;

    System system_;
    std::shared_ptr<const Tape> tape_;
    History history_;
    std::vector<Turn> turns_[2];
    int turns_of_[2] = {-1, -1};  // records that they belong to
    std::vector<BodyStep> bodies_;
    std::vector<Block> blocks_;
    std::vector<double> z_, right_;
    TreeTangent tree_;
    bool by_passes_ = false;     // the present record is factorised by tree_
    std::vector<TreeTangent::Body> wrenches_;
    std::vector<Mat3> slopes_;   // of the torques of every coordinate
};

}  // namespace supple
