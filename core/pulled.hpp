// What acts on an end effector or a free body from outside.
#pragma once

#include "spatial.hpp"

namespace supple {

struct Pulled {
    Vec6 wrench = Vec6::Zero();  // at its origin,
    bool world = true;           // in world axes, or its own
    bool held = false;           // by a handle: a spring and damper from `point` (its own frame) to `target` (the world)
    Vec3 point = Vec3::Zero(), target = Vec3::Zero();
    double stiffness = 0, damping = 0;

    Vec6 own(const Mat3& R) const {  // the wrench in its own axes, if it is turned by R
        return world ? stack(R.transpose() * wrench.head<3>(), R.transpose() * wrench.tail<3>()) : wrench;
    }
};

}  // namespace supple
