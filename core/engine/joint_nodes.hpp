// A joint as a sequence of nodes of a tree, passed from its inner to its outer body. A node turns and slides about the
// z axis of its frame, or is a ball joint.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/model.hpp"

namespace supple {

struct JointNode {
    int axis = -1, size = 0;  // first coordinate in the Model; coordinates: 0 (rigid), 1 or 3 (ball)
    double sign = 1;  // of a ball, -1: the joint is passed from its child to its parent
    double turns = 0, slides = 0;  // motion along z per unit of the coordinate: rad or 0, m
    Pose frame;  // in the node before, at coordinate zero; of the first node: in the inner body
};

struct JointNodes {
    // At least one: a joint without coordinates, or with those of a flexible body, is a rigid node
    std::vector<JointNode> nodes;
    Pose end, outer_body;  // the joint's frame on the outer body, and that body, in the last node
};

// `along`: from the parent to the child. A ball joint has exp(sum a_i q_i) = A exp(q) A^T with the axes a_i as columns
// of A.
inline JointNodes joint_nodes(const Model& model, const Joint& joint, bool along) {
    std::vector<JointNode> nodes;
    int axis = joint.first;
    if (joint.interface < 0)
        for (int size : joint.blocks) {
            JointNode& node = nodes.emplace_back();
            node.axis = axis;
            node.size = size;
            axis += size;
        }
    if (nodes.empty()) nodes.emplace_back();
    if (!along) std::reverse(nodes.begin(), nodes.end());
    Pose lead = along ? joint.pose_parent : joint.pose_child;
    for (JointNode& node : nodes) {
        Pose on_axis;
        if (node.size == 3) {
            for (int i = 0; i < 3; ++i) on_axis.R.col(i) = model.twists[node.axis + i].tail<3>();
            node.sign = along ? 1 : -1;
        } else if (node.size == 1) {
            const ScrewAxis screw = screw_axis((along ? 1.0 : -1.0) * model.twists[node.axis]);
            node.turns = screw.turns;
            node.slides = screw.slides;
            on_axis = screw.frame;
        }
        node.frame = lead * on_axis;
        lead = on_axis.inverse();
    }
    return {std::move(nodes), lead, lead * (along ? joint.pose_child : joint.pose_parent).inverse()};
}

}  // namespace supple
