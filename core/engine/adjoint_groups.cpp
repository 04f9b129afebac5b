// Groups of bodies that fixed joints connect, in the arrays of the sweeps over recorded time steps.
//
// A twist xi of the carrier moves a body of the group by Ad xi, where Ad is the adjoint of the inverse of the body's
// pose T in the carrier; a wrench w on the body acts as Ad^T w on the carrier. The mass M, the centre C and the inertia
// I of the group change with the mass m, the centre c and the inertia J of one of its bodies, all in the carrier's
// frame and with d = c - C, by
//     dM = dm,   M dC = dm d + m dc,   dI = dJ + dm (d.d - d d^T) + m (2 d.dc - d dc^T - dc d^T).
#include "engine/adjoint.hpp"

namespace supple {

namespace {

Mat6 to_body(const System& system, int b) { return adjoint(system.model().in_carrier[b].inverse()); }

// Rows of six numbers for each body, in sequence: those of carried bodies are added to their carriers' and become zero.
void add_to_carriers(const System& system, std::vector<double>& rows) {
    const std::size_t nb = system.bodies();
    for (std::size_t i = 0; i < rows.size() / 6; ++i) {
        const int b = static_cast<int>(i % nb);
        if (!system.model().is_carried(b)) continue;
        Eigen::Map<Vec6> own(&rows[6 * i]), at_carrier(&rows[6 * (i - b + system.model().carrier[b])]);
        at_carrier += to_body(system, b).transpose() * own;
        own.setZero();
    }
}

}  // namespace

void Adjoint::carry_to_groups(OutputArrays& gradient) const {
    add_to_carriers(system_, gradient.poses);
    add_to_carriers(system_, gradient.velocities);
}

void Adjoint::carry_to_groups(InputArrays& direction) const {
    if (movers_.size() == static_cast<std::size_t>(system_.bodies())) return;
    add_to_carriers(system_, direction.wrenches);
    const std::size_t nb = system_.bodies();
    if (direction.mass.empty() && direction.centre.empty() && direction.inertia.empty()) return;
    for (auto [all, size] : {std::pair{&direction.mass, nb}, {&direction.centre, 3 * nb}, {&direction.inertia, 9 * nb}})
        all->resize(size, 0.0);
    const std::vector<double> mass = direction.mass, centre = direction.centre, inertia = direction.inertia;
    for (auto* all : {&direction.mass, &direction.centre, &direction.inertia}) std::fill(all->begin(), all->end(), 0.0);
    for (std::size_t b = 0; b < nb; ++b) {
        const int by = system_.model().carrier[b];
        const Pose& in = system_.model().in_carrier[b];
        const double dm = mass[b], m = system_.model().mass[b], M = system_.model().group_mass[by];
        const Vec3 dc = in.R * Vec3(&centre[3 * b]),
                   d = in.act(system_.model().centre[b]) - system_.model().group_centre[by];
        const Mat3 dJ = in.R * Eigen::Map<const Mat3>(&inertia[9 * b]) * in.R.transpose();
        direction.mass[by] += dm;
        // a group has mass; the centre of a single body is its own
        Eigen::Map<Vec3>(&direction.centre[3 * by]) += M > 0 ? Vec3((dm * d + m * dc) / M) : dc;
        Eigen::Map<Mat3>(&direction.inertia[9 * by]) += dJ +
                                                        dm * (d.squaredNorm() * Mat3::Identity() - d * d.transpose()) +
                                                        m * (2 * d.dot(dc) * Mat3::Identity() - d * dc.transpose() -
                                                             dc * d.transpose());
    }
}

void Adjoint::carry_from_groups(InputArrays& gradient) const {
    if (movers_.size() == static_cast<std::size_t>(system_.bodies())) return;
    const std::size_t nb = system_.bodies();
    for (std::size_t i = 0; i < gradient.wrenches.size() / 6; ++i) {
        const int b = static_cast<int>(i % nb);
        if (system_.model().is_carried(b))
            Eigen::Map<Vec6>(
                &gradient.wrenches[6 * i]) = to_body(system_, b) *
                                             Vec6(&gradient.wrenches[6 * (i - b + system_.model().carrier[b])]);
    }
    const std::vector<double> mass = gradient.mass, centre = gradient.centre, inertia = gradient.inertia;
    for (std::size_t b = 0; b < nb; ++b) {
        const int by = system_.model().carrier[b];
        const Pose& in = system_.model().in_carrier[b];
        const double m = system_.model().mass[b], M = system_.model().group_mass[by];
        const Vec3 by_centre(&centre[3 * by]), d = in.act(system_.model().centre[b]) - system_.model().group_centre[by];
        const Mat3 by_inertia = Eigen::Map<const Mat3>(&inertia[9 * by]), both = by_inertia + by_inertia.transpose();
        gradient.mass[b] = mass[by] + by_inertia.trace() * d.squaredNorm() - d.dot(by_inertia * d) +
                           (M > 0 ? by_centre.dot(d) / M : 0.0);
        const Vec3 by_own = (M > 0 ? m / M : 1.0) * by_centre + m * (2 * by_inertia.trace() * d - both * d);
        Eigen::Map<Vec3>(&gradient.centre[3 * b]) = in.R.transpose() * by_own;
        Eigen::Map<Mat3>(&gradient.inertia[9 * b]) = in.R.transpose() * by_inertia * in.R;
    }
}

}  // namespace supple
