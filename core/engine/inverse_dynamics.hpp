// Inverse dynamics of the spanning tree: the generalised forces for given coordinates, rates and accelerations, by the
// engine's passes over its nodes (articulated.hpp): poses, twists and accelerations outward, wrenches inward. Recursive
// Newton-Euler algorithm.
//
// All twists v, accelerations a and wrenches f are in world axes about one point. With the screw s of a coordinate
//     v = v_parent + s q',   a = a_parent + s q'' + v x s q',   a_world = -gravity
//     f = I a + v x* (I v) - w + (wrenches of the nodes beyond),    torque = s . f + armature q''
// where I is the body's inertia, w the load on it, x the bracket of twists and x* that of a twist and a momentum.
// Springs and dampers are not included.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/articulated.hpp"

namespace supple {

struct OwnSystem {  // a base class, because Articulated refers to the system from its construction on
    System own;
};

class InverseDynamics : private OwnSystem, private Articulated {
   public:
    explicit InverseDynamics(std::shared_ptr<const Model> model);
    InverseDynamics(const InverseDynamics&) = delete;  // a copy would refer to the system of the original
    InverseDynamics& operator=(const InverseDynamics&) = delete;

    int size() const { return size_; }  // coordinates of the spanning tree
    // q, its first and second time derivative, and the torques: in the order of the tree's joints in the description.
    void compute(const double* q, const double* rates, const double* accelerations, const Vec3& gravity,
                 const std::vector<Load>& loads, double* torques);

   private:
    struct Moving {  // eight nodes: motion along their coordinates
        Eight rate = every(0.0), acceleration = every(0.0), armature = every(0.0);
        Eight screw[6], wrench[6];
    };
    struct Ball {
        int column = 0;
        Mat3 jacobian;  // right Jacobian of the rotation vector
        Vec3 spin, turning;  // world axes, of the node in its parent; turning: without the motion of its axes
        Vec3 acceleration;  // of the joint's increments
    };
    void outward(const Vec3& gravity);
    void inward(double* torques);

    int size_ = 0;
    std::vector<std::pair<int, int>> singles_;  // node and column of each single coordinate
    std::vector<Ball> rotations_;  // of `balls_`
    std::vector<Moving> moving_;  // per block
    std::vector<Eight> twist_, acceleration_;  // of nodes with several children
};

}  // namespace supple
