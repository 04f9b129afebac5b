#include "engine/model.hpp"

#include <algorithm>

namespace supple {

namespace {
constexpr double stop_stiffness = 1e3;  // of limits that are springs, over the stiffest spring
constexpr double stop_onset = 1e-3;  // rad, or over the radius
}  // namespace

void Model::prepare() {
    const int nb = bodies();
    holder.assign(nb, -1);
    single.clear();
    for (std::size_t j = 0; j < joints.size(); ++j) {
        Joint& joint = joints[j];
        if (joint.outer >= 0) holder[joint.outer] = static_cast<int>(j);
        for (int size : joint.blocks) single.insert(single.end(), size, size == 1);
        joint.A_child = adjoint_inverse(joint.pose_child);
        joint.Ad_parent = adjoint_inverse(joint.pose_parent);
    }
    spatial_inertia.clear();
    for (int b = 0; b < nb; ++b) spatial_inertia.push_back(supple::spatial_inertia(mass[b], centre[b], inertia[b]));
    for (Row& row : rows) {
        if (row.equality) continue;
        const bool slides = std::all_of(row.of.axes.begin(), row.of.axes.end(),
                                        [&](int axis) { return twists[axis].tail<3>().isZero(0); });
        const double unit = slides ? length_scale : 1.0;
        row.stop = stop_stiffness * stiffness_scale / (unit * unit);
        row.onset = stop_onset * unit;
    }
    find_groups();
    combine_inertias();
}

bool Model::has_limits() const {
    return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.equality; });
}

}  // namespace supple
