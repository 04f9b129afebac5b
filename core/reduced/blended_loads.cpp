// Blended models under applied loads: weights under load, and the pose at which the end effectors are predicted to be at rest.
#include <algorithm>
#include <cmath>

#include "reduced/blended.hpp"

namespace supple {

using namespace whole;

namespace {

constexpr double range = 0.5;         // displacement up to which a model is valid, over the extent of the collection
constexpr int prediction_steps = 3;   // Newton steps for the displacement that a model predicts under the applied loads
constexpr double own_load_range = 0.02;  // nearer than this to the load of a model, over the range of loads, no rest pose is predicted
constexpr double widest_offset = 0.4;    // distance from the line between two loads up to which a rest pose is predicted
constexpr double path_error = 0.15;   // of the path between two samples in its middle, over the change of its direction
constexpr double least_predicted = 1e-8;  // a model with a smaller compliance, over its largest, is too stiff for a predicted rest pose
constexpr double rest_pull = 0.25;    // factor of the distance from the predicted rest pose in its share

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

// Displacement (scaled) of the end effectors from the pose of a model, if this model alone were at rest under the applied loads: the
// solution of x = C f(x), where f is the generalised force of the applied loads less those of the model. Forces keep their direction in
// the world. A few Newton steps from x = 0; the geometric stiffness of f is limited as in geometric_share(). `change`: f(0).
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

// A factor of the weight of a model, from 0 to 1. Let e be the displacement from its own pose that the model alone predicts under the
// applied loads w, and l the change of the load, |w - b_i| over the range of the models' loads, at most 1. The error of a linear model grows
// with both, so the factor falls as (l e)^-2 where l e exceeds half of the extent of the collection. Handles and contacts do not count as
// loads here.
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
// Between the loads of two models, the pose at rest is known better than by weights: both poses, both compliances and the nonlinear
// response of both models are known. Three predictions are averaged, each with the inverse square of its estimated error:
//   1, 2. the displacement that each of the two models alone predicts. Its error is known at the pose of the other model.
//   3. a path from one pose to the other: a cubic with the directions of the first-order responses at both ends, along which
//      the end effectors move as a rational function of the load, with the speeds of these responses. A mechanism that is pulled taut moves
//      fast at first and slowly then; the rational function follows this, and a cubic of the load would not.

// Load w - b_i (scaled) in the axes of the end effectors at the pose of a model
Vector Blended::load_change(const Sample& sample) const {
    Vector change(n_);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec6 load = tips[e].own(sample.tips[e].R);
        change.segment<6>(6 * e) = stack(radius * load.head<3>(), load.tail<3>()) - sample.wrench.segment<6>(6 * e);
    }
    return change;
}

// Forces of a scaled load in the axes of a model, turned to world axes; torques stay in those of the end effectors
Vector Blended::with_world_forces(const Sample& sample, const Vector& load) const {
    Vector result = load;
    for (std::size_t e = 0; e < tips.size(); ++e) result.segment<3>(6 * e) = sample.tips[e].R * load.segment<3>(6 * e);
    return result;
}

std::vector<Pose> Blended::moved_tips(const Sample& sample, const Vector& displacement) const {
    std::vector<Pose> poses;
    for (std::size_t e = 0; e < tips.size(); ++e) poses.push_back(sample.tips[e] * exp(unscaled(displacement.segment<6>(6 * e))));
    return poses;
}

Vector Blended::displacement_between(const std::vector<Pose>& from, const std::vector<Pose>& to) const {
    Vector displacement(n_);
    for (std::size_t e = 0; e < tips.size(); ++e) displacement.segment<6>(6 * e) = scaled(log(to[e].seen_from(from[e])));
    return displacement;
}

const Blended::Pair& Blended::pair(int first, int second) {
    const auto [found, added] = pairs_.try_emplace({first, second});
    Pair& pair = found->second;
    if (!added) return pair;
    const Sample &a = samples[first], &b = samples[second];
    pair.load = with_world_forces(b, b.wrench) - with_world_forces(a, a.wrench);
    pair.way = displacement_between(a.tips, b.tips);
    const double length = pair.way.norm();
    Vector at_first = pair.load, at_second = pair.load;  // in the axes of the end effectors there
    for (std::size_t e = 0; e < tips.size(); ++e) {
        at_first.segment<3>(6 * e) = a.tips[e].R.transpose() * pair.load.segment<3>(6 * e);
        at_second.segment<3>(6 * e) = b.tips[e].R.transpose() * pair.load.segment<3>(6 * e);
    }
    pair.start = a.compliance * at_first;
    pair.end = b.compliance * at_second;
    for (std::size_t e = 0; e < tips.size(); ++e) {  // as a rate of the displacement from the first pose
        auto rate = pair.end.segment<6>(6 * e);
        rate = scaled(right_jacobian_inverse(unscaled(pair.way.segment<6>(6 * e))) * unscaled(rate));
    }
    pair.speed = {pair.start.norm() / length, pair.end.norm() / length};
    if (pair.speed[0] > 0) pair.start /= pair.speed[0];
    if (pair.speed[1] > 0) pair.end /= pair.speed[1];
    pair.error = {(predicted_displacement(a, at_first) - pair.way).norm(),
                  (predicted_displacement(b, -at_second) - displacement_between(b.tips, a.tips)).norm()};
    return pair;
}

// Displacement from the first pose of a pair, on the path to the second, at the fraction t of the change of the load: a cubic of u, with
// u = (t^2 + m_0 t (1 - t)) / (1 + (m_0 + m_1 - 2) t (1 - t)), which increases from 0 to 1 with the slopes m_0 and m_1 at the ends
// (Gregory and Delbourgo).
Vector Blended::path_between(const Pair& pair, double t) const {
    const double both = t * (1 - t), u = (t * t + pair.speed[0] * both) / (1 + (pair.speed[0] + pair.speed[1] - 2) * both);
    return u * (1 - u) * (1 - u) * pair.start + u * u * (3 - 2 * u) * pair.way - u * u * (1 - u) * pair.end;
}

// Whether a direction of a model is stiffer than that of any joint spring, as the axis of a slender rod. A small error of the predicted
// pose along it would be a huge force.
bool Blended::nearly_rigid(const Sample& sample) const {
    double most = 0, least = INFINITY;
    for (int j = 0; j < n_; ++j) {
        const double value = sample.core[j + n_ * j][compliance_kind];
        if (sample.has_column[j][compliance_kind] == 0) continue;
        most = std::max(most, value);
        least = std::min(least, value);
    }
    return least < least_predicted * most;
}

// Computes `rest_`, the pose at which the end effectors are predicted to be at rest under the applied loads, and `rest_presence_`: near 1
// where the load is between those of two models, 0 at the loads of models and far from the line between them, where nothing is predicted.
void Blended::predict_rest() {
    rest_presence_ = 0;
    const int count = static_cast<int>(samples.size());
    if (!loads_known || published || count < 2 || ground > 0 || !(load_extent_ > 0)) return;
    if (std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) { return nearly_rigid(sample); })) return;
    std::vector<Vector> changes(count), gaps(count);
    std::vector<double> away(count), near(count);
    for (int i = 0; i < count; ++i) {
        changes[i] = load_change(samples[i]);
        gaps[i] = with_world_forces(samples[i], changes[i]);
        away[i] = gaps[i].norm();
    }
    std::vector<double> sorted = away;
    std::sort(sorted.begin(), sorted.end());
    const double over = sorted[0] / (own_load_range * load_extent_), eighth = std::pow(over, 8);
    if (!(eighth > 1e-9)) return;
    const double reach = neighbours > 0 && count > neighbours ? 1 / (reach_factor * sorted[neighbours - 1]) : 0;
    for (int i = 0; i < count; ++i) near[i] = presence(i) * std::max(0.0, 1 / away[i] - reach) * sorted[0];
    std::vector<std::vector<Pose>> alone(count);
    double total = 0, present = 0, heaviest = 0;
    std::vector<std::pair<double, std::vector<Pose>>> predictions;
    std::size_t base = 0;
    for (int i = 0; i < count; ++i)
        for (int j = i + 1; j < count; ++j) {
            if (!(near[i] * near[j] > 0)) continue;
            const Pair& between = pair(i, j);
            const double length = between.load.norm();
            if (!(length > 1e-9 * load_extent_ && between.way.norm() > 0)) continue;
            const double sideways = 1 + gaps[i].dot(gaps[j]) / (away[i] * away[j]);  // 0 on the line between both loads
            const double weight = std::pow(near[i] * near[j] / (1 + 4 * sideways), 4);
            const double t = std::clamp(0.5 + 0.5 * (gaps[i] + gaps[j]).dot(between.load) / (length * length), 0.0, 1.0);
            const double off = 0.5 * ((gaps[i] - t * between.load).norm() + (gaps[j] + (1 - t) * between.load).norm()) / length;
            for (int k : {i, j})
                if (alone[k].empty()) alone[k] = moved_tips(samples[k], predicted_displacement(samples[k], changes[k]));
            predictions.emplace_back(weight, predict_between(between, {alone[i], alone[j]}, samples[i], t, off,
                                                             {away[i] / length, away[j] / length}));
            total += weight;
            present += weight / (1 + std::pow(off / widest_offset, 8));
            if (weight > heaviest) heaviest = weight, base = predictions.size() - 1;
        }
    if (!(total > 0)) return;
    rest_ = predictions[base].second;
    Vector mean = Vector::Zero(n_);
    for (const auto& [weight, poses] : predictions) mean += weight / total * displacement_between(rest_, poses);
    if (!mean.allFinite()) return;
    for (std::size_t e = 0; e < tips.size(); ++e) rest_[e] = rest_[e] * exp(unscaled(mean.segment<6>(6 * e)));
    rest_presence_ = present / total * eighth / (1 + eighth);
}

// Poses at rest under a load between those of two models. `alone`: those that each of the models predicts; `t`: fraction of the change of
// the load; `off`: distance of the load from the line between both, `away`: from the loads of the models, over the distance of the two loads.
std::vector<Pose> Blended::predict_between(const Pair& pair, const std::array<std::vector<Pose>, 2>& alone, const Sample& first,
                                           double t, double off, const std::array<double, 2>& away) const {
    const double speeds = pair.speed[0] + pair.speed[1], bent = 4 * t * (1 - t);
    double error[3];
    for (int k : {0, 1})  // a taut model is valid far beyond its load, a soft one is not
        error[k] = pair.error[k] * std::pow(away[k], 2 + 2 * pair.speed[1 - k] / speeds);
    error[2] = path_error * (pair.start - pair.end).norm() * bent * bent + off * speeds * pair.way.norm();
    const std::vector<Pose> path = moved_tips(first, path_between(pair, t));
    const std::vector<Pose>* poses[3] = {&alone[0], &alone[1], &path};
    double weights[3], total = 0;
    int best = 2;
    for (int k : {2, 0, 1}) {
        weights[k] = displacement_between(path, *poses[k]).allFinite() ? 1 / (error[k] * error[k] + 1e-24) : 0;
        total += weights[k];
        if (weights[k] > weights[best]) best = k;
    }
    std::vector<Pose> result = *poses[best];
    Vector mean = Vector::Zero(n_);
    for (int k : {0, 1, 2})
        if (weights[k] > 0) mean += weights[k] / total * displacement_between(*poses[best], *poses[k]);
    for (std::size_t e = 0; e < tips.size(); ++e) result[e] = result[e] * exp(unscaled(mean.segment<6>(6 * e)));
    return result;
}

// The share phi of the predicted rest pose in the strain: 1 at this pose, 0 at the poses of the models. Shepard's weights with the predicted
// pose as one more sample: phi = presence / (1 + (k D)^p sum_i (1/d_i - 1/R)^p), with D the distance from the predicted pose.
// `nearness`: the sum; its terms are scaled by `scale`^p.
void Blended::compute_rest_share(double nearness, double scale) {
    rest_distance_ = 0;
    for (std::size_t e = 0; e < tips.size(); ++e)
        rest_distance_ += std::sqrt((tips[e].pose.p - rest_[e].p).squaredNorm() / (radius * radius) +
                                    0.5 * (tips[e].pose.R - rest_[e].R).squaredNorm() / (M_PI * M_PI));
    const double D = rest_pull * rest_distance_ / scale;
    rest_share_ = rest_presence_ / (1 + (power == 4 ? (D * D) * (D * D) : std::pow(D, power)) * nearness);
}

}  // namespace supple
