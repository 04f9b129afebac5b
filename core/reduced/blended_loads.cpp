// Blended models under applied loads: weights under load, and the pose at which the end effectors are predicted to be
// at rest.
#include <algorithm>
#include <cmath>

#include "reduced/blended.hpp"

namespace supple {

using namespace whole;

namespace {

constexpr double range = 0.5;  // displacement up to which a model is valid, over the extent of the collection
constexpr int prediction_steps = 3;  // Newton steps for the displacement that a model predicts under the applied loads
// Nearer than this to the load of a model, over the range of loads, no rest pose is predicted
constexpr double own_load_range = 0.02;
constexpr double widest_offset = 0.4;  // distance from the line between two loads up to which a rest pose is predicted
// Distance of a load from that of a path, over the range of loads, that counts as none
constexpr double on_path = 1e-3;

}  // namespace

// Eq. 25 between two sets of end-effector poses.
double Blended::distance(const std::vector<Pose>& a, const std::vector<Pose>& b) const {
    double sum = 0;
    for (std::size_t e = 0; e < a.size(); ++e)
        sum += std::sqrt((a[e].p - b[e].p).squaredNorm() / (radius * radius) +
                         0.5 * (a[e].R - b[e].R).squaredNorm() / (M_PI * M_PI));
    return sum;
}

// Trust depends on loads and models, not on the pose. It is computed when a model is next in use.
void Blended::reset_trust() {
    loads_changed_ = false;
    const bool counts = loads_known && !published && samples.size() > 1;
    std::fill(trust_.begin(), trust_.end(), four(counts ? -1 : 1));
    extent_ = load_extent_ = 0;
    for (Sample& sample : samples) {
        extent_ = std::max(extent_, distance(sample.tips, samples[0].tips));
        double squared = 0;
        for (std::size_t e = 0; counts && e < tips.size(); ++e)
            squared += (radius * (sample.force[e] - samples[0].force[e])).squaredNorm() +
                       (sample.wrench - samples[0].wrench).segment<3>(6 * e + 3).squaredNorm();
        load_extent_ = std::max(load_extent_, std::sqrt(squared));
    }
    predict_rest();
}

// Displacement (scaled) of the end effectors from the pose of a model, if this model alone were at rest under the
// applied loads: the solution of x = C f(x), where f is the generalised force of the applied loads less those of the
// model. Forces keep their direction in the world. A few Newton steps from x = 0; the geometric stiffness of f is
// limited as in geometric_share(). `change`: f(0).
Vector Blended::predicted_displacement(const Sample& sample, const Vector& change) const {
    const Matrix& compliance = sample.compliance;
    Vector x = Vector::Zero(n_), force(n_);
    Matrix system(n_, n_);
    for (int k = 0; k < prediction_steps; ++k) {
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Vec6 twist = unscaled(x.segment<6>(6 * e));
            const Vec3 local = so3_exp(Vec3(twist.tail<3>())).transpose() * change.segment<3>(6 * e);
            const Vec3 torque = change.segment<3>(6 * e + 3);
            const Vec6 on = right_jacobian(twist).transpose() * stack(Vec3(local / radius), torque);
            force.segment<6>(6 * e) = stack(radius * on.head<3>(), on.tail<3>());
            const Mat3 cross = 0.5 * skew(local);
            system.middleCols<3>(6 * e).noalias() = -compliance.middleCols<3>(6 * e + 3) * cross;
            system.middleCols<3>(6 * e + 3).noalias() = compliance.middleCols<3>(6 * e) * cross;
        }
        const double norm = std::sqrt(std::max(0.0, system.cwiseProduct(system.transpose()).sum()));
        system *= norm > most_cancelled ? -most_cancelled / norm : -1;
        system.diagonal().array() += 1;
        x += solve_general(system, compliance * force - x);
    }
    return x;
}

// A factor of the weight of a model, from 0 to 1. Let e be the displacement from its own pose that the model alone
// predicts under the applied loads w, and l the change of the load, |w - b_i| over the range of the models' loads, at
// most 1. The error of a linear model grows with both, so the factor falls as (l e)^-2 where l e exceeds half of the
// extent of the collection. Handles and contacts do not count as loads here.
double Blended::trust_under_load(const Sample& sample) const {
    const Vector change = load_change(sample);
    const double size = change.norm(), changed = size < load_extent_ ? size / load_extent_ : 1;
    const Vector x = predicted_displacement(sample, change);
    double moved = 0;
    for (std::size_t e = 0; e < tips.size(); ++e)
        moved += std::hypot(x.segment<3>(6 * e).norm(), x.segment<3>(6 * e + 3).norm() / M_PI);
    const double over = changed * moved / (range * extent_), squared = over * over, fourth = squared * squared;
    return 1 / std::sqrt(std::sqrt(1 + fourth * fourth));
}

// --- predicted rest pose --------------------------------------------------------------------------------------------
//
// Between the loads of two models, the engine has computed a path of poses at rest (src/supple/reduced/rest_paths.py).
// Every point of it is like one more model: its load and its pose are known, and its compliance is taken from the
// blend.

// Load w - b_i (scaled) in the axes of the end effectors at the pose of a model
Vector Blended::load_change(const Sample& sample) const {
    Vector change(n_);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec6 load = tips[e].own(sample.tips[e].R);
        change.segment<6>(6 * e) = stack(radius * load.head<3>(), load.tail<3>()) - sample.wrench.segment<6>(6 * e);
    }
    return change;
}

// A scaled load in the axes of a model, turned to those in which the applied wrenches are given: world axes, or those
// of the end effector
Vector Blended::with_applied_axes(const Sample& sample, const Vector& load) const {
    Vector result = load;
    for (std::size_t e = 0; e < tips.size(); ++e)
        if (tips[e].world) {
            result.segment<3>(6 * e) = sample.tips[e].R * load.segment<3>(6 * e);
            result.segment<3>(6 * e + 3) = sample.tips[e].R * load.segment<3>(6 * e + 3);
        }
    return result;
}

std::vector<Pose> Blended::moved_tips(const Sample& sample, const Vector& displacement) const {
    std::vector<Pose> poses;
    for (std::size_t e = 0; e < tips.size(); ++e)
        poses.push_back(sample.tips[e] * exp(unscaled(displacement.segment<6>(6 * e))));
    return poses;
}

Vector Blended::displacement_between(const std::vector<Pose>& from, const std::vector<Pose>& to) const {
    Vector displacement(n_);
    for (std::size_t e = 0; e < tips.size(); ++e)
        displacement.segment<6>(6 * e) = scaled(log(to[e].seen_from(from[e])));
    return displacement;
}

// Displacement from the pose of the first model on a path, at a share of the load: cubics. Set-points that move the
// models move the path.
Vector Blended::path_displacement(const RestPath& path, double share) const {
    const int k = static_cast<int>(std::upper_bound(path.shares.begin() + 1, path.shares.end() - 1, share) -
                                   path.shares.begin()) -
                  1;
    const double length = path.shares[k + 1] - path.shares[k], u = (share - path.shares[k]) / length;
    const Sample &a = samples[path.first], &b = samples[path.second];
    const Vector moved = displacement_between(a.tips, b.tips) - displacement_between(a.home, b.home);
    return (1 + 2 * u) * (1 - u) * (1 - u) * path.displacements.col(k) +
           u * u * (3 - 2 * u) * path.displacements.col(k + 1) +
           length * u * (1 - u) * ((1 - u) * path.slopes.col(k) - u * path.slopes.col(k + 1)) + share * moved;
}

// Computes `rest_`, the pose at which the end effectors are at rest under the load of a path that is nearest to the
// applied loads, `path_wrenches_`, this load, and `rest_presence_`: near 1 where the applied loads are between those of
// two models, 0 at the loads of models and far from all paths.
void Blended::predict_rest() {
    rest_presence_ = 0;
    const int count = static_cast<int>(samples.size());
    if (!loads_known || paths_.empty() || !(load_extent_ > 0)) return;
    std::vector<Vector> gaps(count);  // applied loads less those of the models
    for (int i = 0; i < count; ++i) gaps[i] = with_applied_axes(samples[i], load_change(samples[i]));
    double total = 0, present = 0;
    Vector mean = Vector::Zero(n_);
    Vector beside_paths = Vector::Zero(n_);  // applied loads less those of the paths
    for (const RestPath& path : paths_) {
        const int i = path.first, j = path.second;
        const Vector load = with_applied_axes(samples[j], samples[j].wrench) -
                            with_applied_axes(samples[i], samples[i].wrench);
        const double squared = load.squaredNorm();
        if (!(squared > 0)) continue;
        const double t = std::clamp(0.5 + 0.5 * (gaps[i] + gaps[j]).dot(load) / squared, path.shares.front(),
                                    path.shares.back());
        const Vector beside = 0.5 * (gaps[i] + gaps[j] + (1 - 2 * t) * load);
        const double off = beside.norm();
        const double weight = presence(i) * presence(j) / std::pow(off / load_extent_ + on_path, 4);
        const std::vector<Pose> poses = moved_tips(samples[i], path_displacement(path, t));
        if (total == 0) rest_ = poses;
        mean += weight * displacement_between(rest_, poses);
        beside_paths += weight * beside;
        present += weight / (1 + std::pow(off / (widest_offset * std::sqrt(squared)), 8));
        total += weight;
    }
    if (!(total > 0) || !mean.allFinite()) return;
    path_wrenches_.resize(tips.size());
    for (std::size_t e = 0; e < tips.size(); ++e) {
        rest_[e] = rest_[e] * exp(unscaled(Vec6(mean.segment<6>(6 * e) / total)));
        const Vec6 beside = beside_paths.segment<6>(6 * e) / total;
        path_wrenches_[e] = tips[e].wrench - stack(beside.head<3>() / radius, beside.tail<3>());
    }
    double nearest = INFINITY;
    for (int i = 0; i < count; ++i)
        nearest = std::min(nearest, std::pow(gaps[i].norm() / (own_load_range * load_extent_), 8) +
                                        std::pow(distance(rest_, samples[i].tips) / (own_load_range * extent_), 8));
    rest_presence_ = present / total * (std::isfinite(nearest) ? nearest / (1 + nearest) : 1);
}

// The share phi of the predicted rest pose in the strain: 1 at this pose, 0 at the poses of the models. Shepard's
// weights with the predicted pose as one more sample: phi = presence / (1 + D^p sum_i (k (1/d_i - 1/R))^p), with D the
// distance from the predicted pose. `nearness`: the sum; its terms are scaled by `scale`^p.
void Blended::compute_rest_share(double nearness, double scale) {
    rest_distance_ = 0;
    for (std::size_t e = 0; e < tips.size(); ++e)
        rest_distance_ += std::sqrt((tips[e].pose.p - rest_[e].p).squaredNorm() / (radius * radius) +
                                    0.5 * (tips[e].pose.R - rest_[e].R).squaredNorm() / (M_PI * M_PI));
    const double D = rest_distance_ / scale;
    rest_share_ = rest_presence_ / (1 + (power == 4 ? (D * D) * (D * D) : std::pow(D, power)) * nearness);
}

}  // namespace supple
