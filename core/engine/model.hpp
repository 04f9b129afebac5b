// A mechanism as numbers: bodies, joints, springs, actuators and rows. It does not change once it is prepared;
// everything that changes, states and inputs, is in a System.
#pragma once

#include <array>
#include <vector>

#include "elastic/interface_frame.hpp"
#include "engine/flexible.hpp"
#include "spatial/spatial.hpp"

namespace supple {

// Piecewise cubic: on piece i, sum_k c[i][k] (x - start[i])^k; piece 0 also covers everything to its left
struct Curve {
    std::vector<double> start;
    std::vector<std::array<double, 4>> coefficients;
    void evaluate(double x, double& torque, double& slope, double& energy) const;
};

struct Joint {
    int parent = -1, child = -1;  // bodies, -1 for the world
    Pose pose_parent, pose_child;
    int first = 0, count = 0;  // its axes
    std::vector<int> blocks;  // axes in each exponential: 1 or 3
    int outer = -1;  // the body it holds in the spanning tree, -1 if it closes a loop
    int interface = -1;  // if not -1: X(q) is the frame of this interface of a flexible body, q the amplitudes
    Mat6 A_child = Mat6::Zero();  // Ad(pose_child^-1)
    Mat6 Ad_parent = Mat6::Zero();  // Ad(pose_parent^-1)
};

struct Combination {  // sum_i coefficient_i q_i
    std::vector<int> axes;
    std::vector<double> coefficients;
    double value(const std::vector<double>& q) const;
};

struct Spring {  // on a combination; the joints' own springs are stored per axis
    Combination of;
    double stiffness = 0, damping = 0, rest = 0;  // rest: at first
    int curve = -1;
};

// What an actuator gets from outside; it may change between time steps.
struct Actuation {
    bool on = true;  // false: the force is zero
    double control = 0, activation = 0;
    double contained = 0;  // constant part of the force that the springs contain
    double lower = 0, upper = 0;  // range of the force
};

// An actuator of a file: force = gain(l, l') activation + bias(l, l') on the length l = gear x, within a range; x is a
// coordinate or the length of a coupling. The springs of the coordinate or coupling already contain a part of it; the
// actuator adds the rest.
struct Actuator {
    enum Dynamics { none, integrator, filter };
    int axis = -1, spring = -1;  // one of them is -1
    double gear = 1;
    double gain[3], bias[3];  // of 1, l and l'
    double share[2];  // of l and l': the part that the springs contain
    Dynamics dynamics = none;
    double lag = 0;  // time constant of a filter, s
    double least = 0, most = 0;  // of the activation
    Actuation start;

    double unlimited(const Actuation& by, double x, double speed) const;  // force without its range
    // slope: of l, with l' = c l + ...
    double force(const Actuation& by, double x, double speed, double c, double& slope) const;
    // Force on x beyond that of the springs, and its slope.
    double excess(const Actuation& by, double x, double speed, double c, double& slope) const;
    double next_activation(const Actuation& by, double h) const;  // after h at a constant control
    bool depends_on_length() const {
        return gain[1] != 0 || gain[2] != 0 || bias[1] != 0 || bias[2] != 0 || share[0] != 0 || share[1] != 0;
    }
};

inline double Actuator::unlimited(const Actuation& by, double x, double speed) const {
    double law[3];
    for (int i = 0; i < 3; ++i) law[i] = gain[i] * by.activation + bias[i];
    return law[0] + gear * (law[1] * x + law[2] * speed);
}

inline double Actuator::force(const Actuation& by, double x, double speed, double c, double& slope) const {
    slope = 0;
    if (!by.on) return 0;
    const double f = unlimited(by, x, speed);
    if (f > by.upper) return by.upper;
    if (f < by.lower) return by.lower;
    slope = (gain[1] + c * gain[2]) * by.activation + (bias[1] + c * bias[2]);
    return f;
}

inline double Actuator::excess(const Actuation& by, double x, double speed, double c, double& slope) const {
    const double f = force(by, x, speed, c, slope);
    slope = gear * gear * (slope - (share[0] + c * share[1]));
    return gear * (f - by.contained - gear * (share[0] * x + share[1] * speed));
}

constexpr double limit_rounding = 1e-12;  // a limit is violated beyond it, rad or m

struct Row {  // equality: of = its target (lower, at first); otherwise lower <= of <= upper
    Combination of;
    double lower = 0, upper = 0;
    bool equality = true;
    double stop = 0;  // limits can also be stops without multipliers: springs of this stiffness,
    double onset = 1e-3;  // which rises from zero over a penetration of `onset`
    void stop_torque(double value, double& torque, double& slope, double& energy) const;  // of a stop
    // Value at which a Newton step ends if the torque of the stop, not its coordinate, is the unknown.
    double pushed_to(double from, double to) const;
    double penetration(double torque_over_stiffness) const;  // at which a stop has this torque
};

struct Model {
    std::vector<double> mass;
    std::vector<Vec3> centre;
    std::vector<Mat3> inertia;
    std::vector<Joint> joints;
    std::vector<InterfaceFrame> interfaces;
    std::vector<FlexibleBody> flexible;
    std::vector<int> order;  // bodies, each after its parent in the spanning tree
    std::vector<Vec6> twists;
    std::vector<double> stiffness, damping, armature;
    std::vector<double> rest;  // of the joints' springs, at first
    std::vector<int> curve;  // per axis, -1 for none
    std::vector<Curve> curves;
    std::vector<Spring> springs;
    std::vector<Actuator> actuators;
    std::vector<Row> rows;
    double stiffness_scale = 1, length_scale = 1;

    // Everything below follows from the numbers above.
    void prepare();

    std::vector<int> holder;  // per body: the joint that holds it in the spanning tree
    std::vector<char> single;  // per axis: not a component of a rotation vector
    std::vector<Mat6> spatial_inertia;
    // Bodies that fixed joints connect are a group: they move as one and have one momentum. One of them, the carrier,
    // has the mass and inertia of the group, about its common centre of mass; for the others both are zero.
    std::vector<int> carrier;  // per body; itself if it is not in a group
    std::vector<Pose> in_carrier;  // pose of each body in the frame of its carrier
    std::vector<double> group_mass;
    std::vector<Vec3> group_centre;  // of each body's group, in the frame of the body
    std::vector<Mat3> group_inertia;  // about that centre

    int bodies() const { return static_cast<int>(mass.size()); }
    int axes() const { return static_cast<int>(twists.size()); }
    bool is_carried(int body) const { return carrier[body] != body; }
    // Whether a joint is one of the fixed ones that connect a group.
    bool connects_group(int joint) const { return joints[joint].outer >= 0 && is_carried(joints[joint].outer); }
    bool has_limits() const;

   private:
    void find_groups();
    void combine_inertias();
};

}  // namespace supple
