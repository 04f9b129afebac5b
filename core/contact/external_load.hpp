// External loads on an end effector or a free body.
#pragma once

#include "spatial/spatial.hpp"

namespace supple {

struct ExternalLoad {
    Vec6 wrench = Vec6::Zero();  // at its origin
    bool world = true;  // the wrench is in world axes; otherwise in body axes
    bool has_handle = false;  // a handle is attached: a spring and damper from `point` (body) to `target` (world)
    Vec3 point = Vec3::Zero(), target = Vec3::Zero();
    double stiffness = 0, damping = 0;

    Vec6 own(const Mat3& R) const { return own(R, wrench); }  // the wrench in body axes, for a body with orientation R
    Vec6 own(const Mat3& R, const Vec6& given) const {  // another wrench that is given in the same axes
        return world ? stack(R.transpose() * given.head<3>(), R.transpose() * given.tail<3>()) : given;
    }
};

}  // namespace supple
