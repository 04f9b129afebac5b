// Mechanisms for tests, described in C++ on the plain Model: written part by part, or drawn at random.
#pragma once

#include <memory>
#include <random>

#include "engine/stepper.hpp"
#include "engine/system.hpp"

namespace supple::tests {

const Vec6 turn_x = Vec6::Unit(3), turn_y = Vec6::Unit(4), turn_z = Vec6::Unit(5), slide_z = Vec6::Unit(2);

struct Axes {  // of a joint: twists in the joint's frame, and the same spring, damper and armature for each
    std::vector<Vec6> twists;
    std::vector<int> blocks;
    double stiffness = 0, damping = 0, armature = 0;
};

inline Axes hinge(double stiffness, double damping = 0, const Vec6& twist = turn_z) {
    return {{twist}, {1}, stiffness, damping};
}
inline Axes ball(double stiffness, double damping = 0) { return {{turn_x, turn_y, turn_z}, {3}, stiffness, damping}; }

class Builder {
   public:
    Model model;

    // A body held by a joint at a frame of the parent (-1: the world); the joint's frame on the body is `on_body`.
    int add_body(int parent, const Pose& on_parent, const Axes& axes, const Pose& on_body, double mass,
                 const Vec3& centre, const Mat3& inertia);
    // A body that the joint names as its parent: the tree passes the joint from its child to its parent.
    int add_body_reversed(int child, const Pose& on_child, const Axes& axes, const Pose& on_body, double mass,
                          const Vec3& centre, const Mat3& inertia);
    // A joint that closes a loop at a frame of the world, where all coordinates are zero.
    void add_loop(int parent, int child, const Pose& at, const Axes& axes);
    void add_spring(std::vector<int> axes, std::vector<double> coefficients, double stiffness, double damping);
    void add_row(std::vector<int> axes, std::vector<double> coefficients, double lower, double upper, bool equality);
    Pose pose(int body) const { return body < 0 ? Pose{} : poses_[body]; }  // where all coordinates are zero
    // The prepared model. stiffness_scale: a typical stiffness, N m/rad; length_scale: radius of the mechanism, m.
    std::shared_ptr<const Model> build(double stiffness_scale, double length_scale);

   private:
    void add_joint(int parent, int child, int outer, const Pose& on_parent, const Pose& on_child, const Axes& axes);
    int add(const Pose& pose, double mass, const Vec3& centre, const Mat3& inertia);
    std::vector<Pose> poses_;
};

struct Kinds {  // what a random mechanism may have
    bool tree = false, balls = false, loops = false, couplings = false, limits = false;
};

class Random {
   public:
    explicit Random(unsigned seed) : bits_(seed) {}
    double uniform(double low = -1, double high = 1) { return low + (high - low) * (bits_() / 4294967296.0); }
    int below(int n) { return static_cast<int>(uniform(0, n)); }
    Vec3 vector(double size = 1) { return size * Vec3(uniform(), uniform(), uniform()); }
    Pose pose(double length, double angle) { return {so3_exp(vector(angle)), vector(length)}; }

   private:
    std::mt19937 bits_;
};

// 3 to 9 bodies under gravity, each with springs and dampers on the joint that holds it.
std::shared_ptr<const Model> random_mechanism(unsigned seed, const Kinds& kinds);
// A planar four-bar linkage of hinges: three of the six rows of its loop are redundant. Its first coordinate is the
// crank's.
std::shared_ptr<const Model> four_bar(double stiffness, double damping, bool motor);

struct Simulation {  // a system with its stepper, at rest at the coordinates zero under gravity along -z
    System system;
    Stepper stepper;
    Simulation(std::shared_ptr<const Model> model, double h, int order);
    Simulation(const Simulation&) = delete;
    bool step(int steps = 1);  // the system then has the state
};

}  // namespace supple::tests
