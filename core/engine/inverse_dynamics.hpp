// Inverse dynamics of the spanning tree: the generalised forces for given coordinates, rates and accelerations, by an outward pass
// (twists and accelerations) and an inward pass (wrenches). Recursive Newton-Euler algorithm, in the frames of the joints.
//
// A node turns and slides about the z axis of its frame (a hinge, slide or screw), is a ball joint, or is rigid; the last node of a joint
// carries the joint's outer body. With X the motion transform from the parent node to the node and S the joint's axis,
//     v = X v_parent + S q',   a = X a_parent + S q'' + v x S q',   a_world = -gravity
//     f = I a + v x* (I v) - w + (wrenches of the nodes beyond),    torque = S . f + armature q''
// where I is the body's inertia and w the load on it. Springs and dampers are not included.
#pragma once

#include <vector>

#include "engine/joint_nodes.hpp"
#include "engine/system.hpp"

namespace supple {

class InverseDynamics {
   public:
    explicit InverseDynamics(const Model& model);

    int size() const { return size_; }  // coordinates of the spanning tree
    // q, its first and second time derivative, and the torques: in the order of the tree's joints in the description.
    void compute(const double* q, const double* rates, const double* accelerations, const Vec3& gravity, const std::vector<Load>& loads,
                 double* torques);

   private:
    struct Node : JointNode {                    // its frame is in the parent node
        int parent = -1, column = -1;            // column: first coordinate, among those of the tree
        double mass = 0;
        Vec3 moment = Vec3::Zero();              // mass times centre
        Mat3 inertia = Mat3::Zero();             // about the node's origin
        double armature[3] = {0, 0, 0};
        // of the last call
        Mat3 R = Mat3::Identity();               // from the node to its parent
        Vec3 p = Vec3::Zero();
        Vec3 linear{}, angular{}, linear_rate{}, angular_rate{}, force{}, torque{};
    };
    struct Ball {
        Mat3 jacobian, rotation;                 // right Jacobian of the rotation vector
        Vec3 acceleration;                       // of the joint's increments
    };

    void move_ball(Node& node, const double* q, const double* rates, const double* accelerations);
    void add_loads(const std::vector<Load>& loads);

    int size_ = 0;
    std::vector<Node> nodes_;
    std::vector<int> body_node_;
    std::vector<Pose> body_in_node_;
    std::vector<Ball> balls_;
    std::vector<int> ball_of_;                   // per node
    std::vector<double> angle_, sine_, cosine_;  // per node, a multiple of eight
};

}  // namespace supple
