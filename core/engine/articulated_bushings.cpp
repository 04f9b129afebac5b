// Bushings that close loops to bodies at rest: springs and dampers on the relative pose of two bodies, of which one
// moves.
#include <algorithm>

#include "engine/articulated.hpp"
#include "engine/articulated_lanes.hpp"

namespace supple {

// A bushing closes a loop, has three translations along the axes of its parent's frame and a rotation vector, its
// parent does not move, and nothing but springs and dampers acts on its coordinates.
void Articulated::find_bushings(const Model& model) {
    const int nj = static_cast<int>(model.joints.size());
    is_bushing_.assign(nj, 0);
    holds_ground_.assign(nj, 0);
    std::vector<char> other(model.axes(), 0);  // coordinates with something else
    for (int a = 0; a < model.axes(); ++a) other[a] = model.armature[a] != 0 || model.curve[a] >= 0;
    for (const Actuator& each : model.actuators)
        if (each.axis >= 0) other[each.axis] = 1;
    for (const Spring& spring : model.springs)
        for (int a : spring.of.axes) other[a] = 1;
    for (const Row& row : model.rows)
        for (int a : row.of.axes) other[a] = 1;
    auto inner = [&](int body) {
        const Joint& joint = model.joints[model.holder[body]];
        return joint.child == body ? joint.parent : joint.child;
    };
    for (int j = 0; j < nj; ++j) {
        const Joint& joint = model.joints[j];
        if (joint.outer >= 0 || joint.child < 0 || joint.interface >= 0 || joint.blocks != std::vector<int>{1, 1, 1, 3})
            continue;
        bool suits = true;
        for (int i = 0; i < 6; ++i)
            suits = suits && model.twists[joint.first + i] == Vec6::Unit(i) && !other[joint.first + i];
        std::vector<int> path;
        for (int b = joint.parent; b >= 0; b = inner(b)) path.push_back(model.holder[b]);
        if (!suits || std::any_of(path.begin(), path.end(), [&](int k) { return model.joints[k].count > 0; })) continue;
        is_bushing_[j] = 1;
        for (int k : path) holds_ground_[k] = 1;
        Bushing bushing;
        bushing.joint = j;
        bushing.axis = joint.first;
        bushings_.push_back(bushing);
    }
}

// (t, r) with X = G^-1 H = translation(t) exp(r), G and H the joint's frames on parent and child.
Vec6 Articulated::coordinates(const Bushing& of) const {
    const Pose X = (pose(of.ground) * of.in_ground).inverse() * (pose(of.node) * of.in_node);
    return stack(X.p, so3_log(X.R));
}

// Backward differences: t' of the translations, and of the increments of the rotation (c0 log(R_n^T R) + c2 log(R_n^T
// R_{n-1})) / h.
Vec6 Articulated::rates(const Bushing& of, const Vec6& q, const Step& step) const {
    const State::Bushing& past = past_of(of);
    const Vec3 t = step.c0 * q.head<3>() + step.c1 * past.q.head<3>() + step.c2 * past.q_before.head<3>();
    const Mat3 R_past = so3_exp(past.q.tail<3>()).transpose();
    Vec3 turn = step.c0 * so3_log(R_past * so3_exp(q.tail<3>()));
    if (step.c2 != 0) turn += step.c2 * so3_log(R_past * so3_exp(past.q_before.tail<3>()));
    return stack(t, turn) / step.h;
}

// Translations: k (t - rest) + d t' - applied. Rotation: Jr^-T (k (r - rest) - applied) + d times the rate of the
// increments.
Vec6 Articulated::torques(const Bushing& of, const Vec6& q, const Vec6& rate, Vec3& on_vector) const {
    const System& s = *system_;
    Vec6 spring, damper;
    for (int i = 0; i < 6; ++i) {
        const int a = of.axis + i;
        spring[i] = s.model().stiffness[a] * (q[i] - of.rest[i]) - of.applied[i];
        damper[i] = s.model().damping[a] * rate[i];
    }
    on_vector = spring.tail<3>();
    return stack(spring.head<3>(), so3_right_jacobian_inverse(q.tail<3>()).transpose() * on_vector) + damper;
}

// S^T lambda = torque with the twists S = [R^T, 0; 0, 1] of the increments in the joint's frame on the child.
Vec6 Articulated::wrench(const Bushing& of, const Vec6& q, const Vec6& rate) const {
    Vec3 on_vector;
    const Vec6 torque = torques(of, q, rate, on_vector);
    return stack(so3_exp(q.tail<3>()).transpose() * torque.head<3>(), torque.tail<3>());
}

// The force is fixed in the world for a fixed deflection, the moment in the child: P' gets the geometric stiffness of
// the force, [m]/2 of the moment m, the stiffness K = k + (c0/h) d of the point, and R (dtorque/dincrement) R^T.
template <bool tangent>
void Articulated::add_bushing(Lanes& lanes, const Bushing& of, const Step& step) const {
    const System& s = *system_;
    const int l = of.node % width;
    const Mat3 G = (pose(of.ground) * of.in_ground).R;
    const Pose H = pose(of.node) * of.in_node;
    const Vec3 at = H.p - origin_;
    const Vec6 q = coordinates(of);
    Vec3 on_vector;
    const Vec6 torque = torques(of, q, rates(of, q, step), on_vector);
    const Vec3 moment = -(H.R * torque.tail<3>());
    lanes.add_world_wrench<tangent>(l, at, -(G * torque.head<3>()), Vec3::Zero());
    lanes.add_wrench(l, Vec3::Zero(), moment, tangent);
    if (!tangent) return;
    Vec6 spring, damper;
    for (int i = 0; i < 6; ++i) {
        spring[i] = s.model().stiffness[of.axis + i];
        // Of the rotation accurate enough for Newton's method, because steps are short
        damper[i] = s.model().damping[of.axis + i] * step.c0 / step.h;
    }
    const Mat3 K = G * (spring + damper).head<3>().asDiagonal() * G.transpose(), C = skew(at);
    const Mat3 Ji = so3_right_jacobian_inverse(q.tail<3>());
    Mat3 slope = (Ji.transpose() * spring.tail<3>().asDiagonal() +
                  so3_right_jacobian_inverse_directional(q.tail<3>(), on_vector)) *
                 Ji;
    slope.diagonal() += damper.tail<3>();
    lanes.add_block(l, 0, 0, K);
    lanes.add_block(l, 0, 3, -K * C);
    lanes.add_block(l, 3, 0, C * K);
    lanes.add_block(l, 3, 3, H.R * slope * H.R.transpose() - C * K * C + 0.5 * skew(moment));
}
template void Articulated::add_bushing<true>(Lanes&, const Bushing&, const Step&) const;
template void Articulated::add_bushing<false>(Lanes&, const Bushing&, const Step&) const;

}  // namespace supple
