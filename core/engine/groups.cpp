// Groups: bodies that fixed joints connect.
#include "engine/system.hpp"

namespace supple {

namespace {

// Inertia of a unit mass at the point d.
Mat3 of_unit_mass(const Vec3& d) { return d.squaredNorm() * Mat3::Identity() - d * d.transpose(); }

}  // namespace

// A body is carried by the body that a fixed joint of the spanning tree connects it to, or by that one's carrier. The
// frames of flexible bodies are in no group, because their inertia depends on amplitudes. Neither are bodies that
// together have no mass: their common centre of mass is not defined, and jumps to the first mass that one of them gets.
void Model::find_groups() {
    const int nb = bodies();
    std::vector<char> rigid(nb, 1);
    for (const FlexibleBody& each : flexible) rigid[each.body] = 0;
    carrier.resize(nb);
    in_carrier.assign(nb, Pose{});
    for (int b : order) {
        const Joint& joint = joints[holder[b]];
        const bool along = joint.child == b;
        const int inner = along ? joint.parent : joint.child;
        carrier[b] = b;
        if (joint.count || joint.interface >= 0 || inner < 0 || !rigid[b] || !rigid[inner]) continue;
        const Pose across = joint.pose_parent * joint.pose_child.inverse();
        carrier[b] = carrier[inner];
        in_carrier[b] = in_carrier[inner] * (along ? across : across.inverse());
    }
    std::vector<double> total(nb, 0.0);
    for (int b = 0; b < nb; ++b) total[carrier[b]] += mass[b];
    for (int b = 0; b < nb; ++b) {
        if (total[carrier[b]] > 0) continue;
        carrier[b] = b;
        in_carrier[b] = Pose{};
    }
}

// M = sum m,  M C = sum m c,  I = sum R I R^T + m (|d|^2 - d d^T) with d = c - C, all in the frame of the carrier.
void Model::combine_inertias() {
    const int nb = bodies();
    group_mass = mass;
    group_centre = centre;
    group_inertia = inertia;
    std::vector<char> alone(nb, 1);
    for (int b = 0; b < nb; ++b)
        if (is_carried(b)) alone[b] = alone[carrier[b]] = 0;
    std::vector<Vec3> moment(nb, Vec3::Zero());
    for (int b = 0; b < nb; ++b) {
        if (alone[b]) continue;
        moment[carrier[b]] += mass[b] * in_carrier[b].act(centre[b]);
        if (is_carried(b)) {
            group_mass[carrier[b]] += mass[b];
            group_mass[b] = 0;
        }
        group_inertia[b].setZero();
    }
    for (int b = 0; b < nb; ++b)
        if (!alone[b] && !is_carried(b)) group_centre[b] = moment[b] / group_mass[b];
    for (int b = 0; b < nb; ++b) {
        if (alone[b]) continue;
        const int by = carrier[b];
        const Pose& in = in_carrier[b];
        group_inertia[by] += in.R * inertia[b] * in.R.transpose() +
                             mass[b] * of_unit_mass(in.act(centre[b]) - group_centre[by]);
        if (is_carried(b)) group_centre[b] = in.inverse().act(group_centre[by]);
    }
}

// With the group's mass M, inertia I, angular velocity w, and the rates P', L' of its linear momentum and of its
// angular momentum about the centre: the centre has the acceleration a = P' / M, and the angular acceleration alpha
// follows from I alpha = L' - w x I w. A body of mass m and inertia J, whose centre is at d from that of the group,
// needs the force m (a + alpha x d + w x (w x d)) and the torque J alpha + w x J w. These add up to P' and L'.
void share_momentum_rates(const Model& model, const std::vector<Pose>& H, const std::vector<Vec6>& velocity,
                          const std::vector<Vec6>& inertial, std::vector<Vec6>& wrenches) {
    // On the carried bodies beyond a joint: in the frame of the carrier
    std::vector<Vec6> beyond(model.bodies(), Vec6::Zero());
    for (int b = 0; b < model.bodies(); ++b) {
        const int by = model.carrier[b];
        if (by == b) continue;
        const Mat3 Rt = H[by].R.transpose(), &I = model.group_inertia[by];
        const Vec3 w = velocity[by].tail<3>(), acceleration = -(Rt * inertial[by].head<3>()) / model.group_mass[by];
        const double size = I.trace();  // a group on a line has no inertia about it, and neither has any of its bodies
        const Vec3 rate = -(Rt * inertial[by].tail<3>()) - w.cross(Vec3(I * w));
        const Vec3 turning = size > 0 ? Vec3(Mat3(I + 1e-12 * size * Mat3::Identity()).inverse() * rate)
                                      : Vec3(Vec3::Zero());
        const Vec3 own_centre = model.in_carrier[b].act(model.centre[b]), d = own_centre - model.group_centre[by];
        const Mat3 J = model.in_carrier[b].R * model.inertia[b] * model.in_carrier[b].R.transpose();
        const Vec3 force = -model.mass[b] * (acceleration + turning.cross(d) + w.cross(Vec3(w.cross(d))));
        const Vec3 torque = -(J * turning + w.cross(Vec3(J * w)));
        beyond[b] = stack(force, torque + own_centre.cross(force));
    }
    for (std::size_t k = model.order.size(); k-- > 0;) {
        const int b = model.order[k];
        if (!model.is_carried(b)) continue;
        const Joint& joint = model.joints[model.holder[b]];
        const bool along = joint.child == b;
        // of the joint's frame on its child, in the carrier
        const Pose frame = along ? model.in_carrier[b] * joint.pose_child : model.in_carrier[b] * joint.pose_parent;
        wrenches[model.holder[b]] += (along ? 1.0 : -1.0) * (adjoint(frame).transpose() * beyond[b]);
        const int inner = along ? joint.parent : joint.child;
        beyond[inner] += beyond[b];
    }
}

}  // namespace supple
