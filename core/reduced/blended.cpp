#include "reduced/blended.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace supple {

using namespace whole;

namespace {

constexpr double reach_factor = 1.2;       // reach of the weights, over the distance of the last neighbour
constexpr double range = 0.5;        // displacement up to which a model is valid, over the extent of the collection
constexpr double most_cancelled = 0.8;  // largest geometric stiffness of missing loads, over the stiffness of the blend
constexpr int prediction_steps = 3;   // Newton steps for the displacement that a model predicts under the applied loads
constexpr double steepest = 3;       // largest displacement that a model predicts between samples, over the distance of its sample
constexpr double zero_compliance = 1e-12;   // compliance below this fraction of the largest counts as zero
constexpr double dependent_column = 1e-6;       // a column whose independent part is smaller is dropped from the basis

}  // namespace

// --- the mean -------------------------------------------------------------------------------------------------------

// Sums of a q and a p q; they do not depend on the order.
void PoseMean::add(double weight, const DualQuaternion& pose) {
    const double a = real_.coeffs().dot(pose.q.coeffs()) < 0 ? -weight : weight;
    real_.coeffs() += a * pose.q.coeffs();
    moved_.coeffs() += a * pose.pq.coeffs();
}

Pose PoseMean::pose() const {
    const Vec3 p = (moved_ * real_.conjugate()).vec() / real_.squaredNorm();
    return {real_.normalized().toRotationMatrix(), p};
}

void PoseMean::close() {
    inverse_ = real_.conjugate();
    inverse_.coeffs() /= real_.squaredNorm();
    place_ = moved_ * inverse_;
    back_ = real_.normalized().toRotationMatrix().transpose();
}

Vec6 PoseMean::towards(const DualQuaternion& pose) const {
    const double sign = real_.coeffs().dot(pose.q.coeffs()) < 0 ? -1 : 1;
    Eigen::Quaterniond gap = place_ * pose.q;
    gap.coeffs() = sign * (pose.pq.coeffs() - gap.coeffs());
    return stack(back_ * (gap * inverse_).vec(), back_ * (2 * sign * (pose.q * inverse_).vec()));
}

// --- the model ------------------------------------------------------------------------------------------------------

void Blended::add(Sample sample) {
    sample.tips = sample.home;
    sample.dual_quaternions.assign(sample.tips.begin(), sample.tips.end());
    for (Eigenframe& part : sample.parts) part.has_column = (part.core.diagonal().array() > 0).cast<double>();
    sample.y = Vector::Zero(sample.cobasis.rows());
    sample.load = sample.wrench;
    sample.force.resize(sample.home.size());
    for (std::size_t e = 0; e < sample.home.size(); ++e)
        sample.force[e] = sample.home[e].R * sample.wrench.segment<3>(6 * e) / radius;
    sample.own = sample.eta = sample.load_difference = Vector::Zero(sample.wrench.size());
    const Eigenframe& compliance = sample.parts[compliance_kind];
    sample.compliance.noalias() = (compliance.frame * compliance.core) * compliance.frame.transpose();
    sample.load_displacement = sample.compliance * sample.load;
    samples.push_back(std::move(sample));
}

void Blended::prepare() {
    n_ = 6 * static_cast<int>(tips.size());
    distances_.resize(samples.size());
    order_.resize(samples.size());
    weights.resize(samples.size());
    used.reserve(samples.size());
    means.resize(tips.size());
    sums_.resize(tips.size());
    forces_.resize(tips.size());
    jacobians_.resize(tips.size());
    for (Vector* each : {&xi, &wrench_, &each_, &all_, &by_, &column_share_, &length_}) each->setZero(n_);
    mark_changed();
}

void Blended::move_sample(int i, const Vector& twists) {
    for (std::size_t e = 0; e < tips.size(); ++e) {
        samples[i].tips[e] = samples[i].home[e] * exp(Vec6(twists.segment<6>(6 * e)));
        samples[i].dual_quaternions[e] = samples[i].tips[e];
        // the load of a model is assumed to turn with the end effector when set-points move it
        samples[i].force[e] = samples[i].tips[e].R * samples[i].wrench.segment<3>(6 * e) / radius;
    }
    mark_changed();
}

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
    extent_ = load_extent_ = 0;
    for (Sample& sample : samples) {
        sample.trust = counts ? -1 : 1;
        extent_ = std::max(extent_, distance(sample.tips, samples[0].tips));
        double squared = 0;
        for (std::size_t e = 0; counts && e < tips.size(); ++e)
            squared += (radius * (sample.force[e] - samples[0].force[e])).squaredNorm() +
                       (sample.wrench - samples[0].wrench).segment<3>(6 * e + 3).squaredNorm();
        load_extent_ = std::max(load_extent_, std::sqrt(squared));
    }
}

// Displacement (scaled) of the end effectors from the pose of a model, if this model alone were at rest under the applied loads: the
// solution of x = C f(x), where f is the generalised force of the applied loads less those of the model. Forces keep their direction in
// the world. A few Newton steps from x = 0; the geometric stiffness of f is limited as in geometric_share(). `change`: f(0).
template <int n>
Eigen::Matrix<double, n, 1> Blended::predicted_displacement(const Sample& sample, const Eigen::Matrix<double, n, 1>& change) const {
    using Column = Eigen::Matrix<double, n, 1>;
    using Square = Eigen::Matrix<double, n, n>;
    const Eigen::Map<const Square> compliance(sample.compliance.data(), n_, n_);
    Column x = Column::Zero(n_), force(n_);
    Square system(n_, n_);
    for (int k = 0; k < prediction_steps; ++k) {
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Vec6 twist = unscaled(x.template segment<6>(6 * e));
            const Vec3 local = so3_exp(Vec3(twist.tail<3>())).transpose() * change.template segment<3>(6 * e);
            const Vec3 torque = change.template segment<3>(6 * e + 3);
            const Vec6 on = right_jacobian(twist).transpose() * stack(Vec3(local / radius), torque);
            force.template segment<6>(6 * e) = stack(radius * on.head<3>(), on.tail<3>());
            const Mat3 cross = 0.5 * skew(local);
            system.template middleCols<3>(6 * e).noalias() = -compliance.template middleCols<3>(6 * e + 3) * cross;
            system.template middleCols<3>(6 * e + 3).noalias() = compliance.template middleCols<3>(6 * e) * cross;
        }
        const double norm = std::sqrt(std::max(0.0, system.cwiseProduct(system.transpose()).sum()));
        system *= norm > most_cancelled ? -most_cancelled / norm : -1;
        system.diagonal().array() += 1;
        x += solve_general(system, Column(compliance * force - x));
    }
    return x;
}

// A factor of the weight of a model, from 0 to 1. Let e be the displacement from its own pose that the model alone predicts under the
// applied loads w, and l the change of the load, |w - b_i| over the range of the models' loads, at most 1. The error of a linear model grows
// with both, so the factor falls as (l e)^-2 where l e exceeds half of the extent of the collection. Handles and contacts do not count as
// loads here.
template <int n>
double Blended::trust_under_load(const Sample& sample) const {
    Eigen::Matrix<double, n, 1> change(n_);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec6 load = tips[e].own(sample.tips[e].R);
        change.template segment<6>(6 * e) = stack(radius * load.head<3>(), load.tail<3>()) - sample.wrench.segment<6>(6 * e);
    }
    const double size = change.norm(), changed = size < load_extent_ ? size / load_extent_ : 1;
    const Eigen::Matrix<double, n, 1> x = predicted_displacement<n>(sample, change);
    double moved = 0;
    for (std::size_t e = 0; e < tips.size(); ++e)
        moved += std::hypot(x.template segment<3>(6 * e).norm(), x.template segment<3>(6 * e + 3).norm() / M_PI);
    const double over = changed * moved / (range * extent_), squared = over * over, fourth = squared * squared;
    return 1 / std::sqrt(std::sqrt(1 + fourth * fourth));
}

// Eq. 25: distances over all end effectors, lengths / r and angles / pi (2 sin(angle/2) for the angle, which is the
// same when small and smooth at half turns); weights (1/d - 1/R)^p, R just beyond the last neighbour.
void Blended::weigh() {
    const int k = static_cast<int>(samples.size());
    if (loads_changed_) reset_trust();
    const double turn = 1 / (M_PI * M_PI), length = 1 / (radius * radius);
    int nearest = 0;
    double more = -neighbours;  // models beyond the neighbours that count; a model that fades in counts by its presence
    for (int i = 0; i < k; ++i) {
        more += samples[i].presence;
        double d = published ? published_distance(i) : 0;
        for (std::size_t e = 0; !published && e < tips.size(); ++e) {
            const Pose& home = samples[i].tips[e];
            const double away = (home.p - tips[e].pose.p).squaredNorm();
            // |R - R_i|^2 = 8 sin^2(angle/2)
            const double turned = 0.5 * (home.R - tips[e].pose.R).squaredNorm();
            d += std::sqrt(length * away + turn * turned);
        }
        const double missing = 1 - samples[i].presence;  // a model that fades in is treated as more distant
        distances_[i] = d + missing * missing;
        if (distances_[i] < distances_[nearest]) nearest = i;
    }
    weights.setZero();
    const double closest = distances_[nearest];
    double sum = 0;
    reach_ = 0;
    last_ = -1;
    if (closest < 1e-100 || !std::isfinite(closest)) {
        weights[nearest] = sum = 1;
    } else {
        if (neighbours > 0 && more > 0) {
            std::iota(order_.begin(), order_.end(), 0);
            std::nth_element(order_.begin(), order_.begin() + neighbours - 1, order_.end(),
                             [&](int a, int b) { return distances_[a] < distances_[b]; });
            last_ = order_[neighbours - 1];
            reach_ = std::min(more, 1.0) / (reach_factor * distances_[last_]);
        }
        const double most = 1 / closest - reach_;
        for (int i = 0; i < k; ++i) {
            double near = samples[i].presence * (1 / distances_[i] - reach_) / most;
            if (near <= 0) continue;
            if (samples[i].trust < 0) samples[i].trust = n_ == 6 ? trust_under_load<6>(samples[i]) : trust_under_load<Eigen::Dynamic>(samples[i]);
            near *= samples[i].trust;
            sum += weights[i] = power == 4 ? near * near * near * near : std::pow(near, power);
        }
    }
    used.clear();
    for (int i = 0; i < k; ++i)
        if ((weights[i] /= sum) > 0) used.push_back({i, weights[i], samples[i].y.data()});
}

// The distance of eq. 25 as printed: |xi_e - xi_e^(i)| with both displacements from the first model's pose.
double Blended::published_distance(int i) const {
    double sum = 0;
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Pose& start = samples[0].tips[e];
        const Vec6 gap = log(tips[e].pose.seen_from(start)) - log(samples[i].tips[e].seen_from(start));
        sum += std::hypot(gap.head<3>().norm() / radius, gap.tail<3>().norm() / M_PI);
    }
    return sum;
}

// Eq. 28: the mean of poses with the nearest model as base.
Pose Blended::published_mean(int e) const {
    const auto nearest = std::max_element(used.begin(), used.end(), [](auto& a, auto& b) { return a.weight < b.weight; });
    const Pose& base = samples[nearest->model].tips[e];
    Vec6 sum = Vec6::Zero();
    for (const auto& use : used) sum += use.weight * log(samples[use.model].tips[e].seen_from(base));
    return base * exp(sum);
}

// Algorithm 3: frames and cores are averaged separately, and the columns of the frame are normalised. A direction that some of the
// models do not have is averaged over the others; its eigenvalue is averaged over all, with zeros for the former.
template <int n>
void Blended::mix(Kind kind, Matrix& into) {
    using Square = Eigen::Map<Eigen::Matrix<double, n, n>, Eigen::Aligned16>;
    using Given = Eigen::Map<const Eigen::Matrix<double, n, n>>;
    using Column = Eigen::Map<Eigen::Matrix<double, n, 1>>;
    for (Matrix* each : {&frame_, &core_, &half_, &into}) each->resize(n_, n_);
    Square frame(frame_.data(), n_, n_), core(core_.data(), n_, n_), half(half_.data(), n_, n_);
    Square result(into.data(), n_, n_);
    Column column_share(column_share_.data(), n_);
    frame.setZero();
    core.setZero();
    column_share.setZero();
    for (const auto& use : used) {
        const Eigenframe& part = samples[use.model].parts[kind];
        frame += use.weight * Given(part.frame.data(), n_, n_);
        core += use.weight * Given(part.core.data(), n_, n_);
        column_share += use.weight * Eigen::Map<const Eigen::Matrix<double, n, 1>>(part.has_column.data(), n_);
    }
    for (int j = 0; j < n_; ++j) {
        length_[j] = frame.col(j).norm();
        if (column_share[j] > 0) frame.col(j) /= std::max(length_[j], agreement * column_share[j]);
    }
    half.noalias() = frame * core;
    result.noalias() = half * frame.transpose();
}

void Blended::mix(Kind kind, Matrix& into) {
    if (n_ == 6) return mix<6>(kind, into);
    mix<Eigen::Dynamic>(kind, into);
}

// P: the directions in which the blended compliance is not zero.
void Blended::admissible() {
    active_.clear();
    const double most = core_.diagonal().maxCoeff();
    for (int j = 0; j < core_.cols(); ++j)
        if (core_(j, j) > zero_compliance * most) active_.push_back(j);
    if (static_cast<int>(active_.size()) == n_) {
        basis.setIdentity(n_, n_);
        return;
    }
    basis.resize(n_, active_.size());
    int r = 0;
    for (int j : active_) {  // Gram-Schmidt, twice
        auto column = basis.col(r);
        column = frame_.col(j).normalized();
        double left = 1;
        for (int pass = 0; pass < 2; ++pass) {
            for (int i = 0; i < r; ++i) column -= basis.col(i).dot(column) * basis.col(i);
            left *= column.norm();
            column.normalize();
        }
        if (left > dependent_column) ++r;
    }
    basis.conservativeResize(n_, r);
}

void Blended::blend() {
    if (!stale_) return;
    stale_ = false;
    weigh();
    mix(inverse_mass_kind, full_[1]);
    if (damped) mix(inverse_damping_kind, full_[2]);
    mix(compliance_kind, full_[0]);  // last: its frame is used below
    admissible();
    for (std::size_t e = 0; e < tips.size(); ++e) {
        sums_[e] = {};
        for (const auto& use : used) sums_[e].add(use.weight, samples[use.model].dual_quaternions[e]);
        means[e] = used.size() == 1 ? samples[used[0].model].tips[e] : published ? published_mean(e) : sums_[e].pose();
        const Vec6 twist = log(tips[e].pose.seen_from(means[e]));
        jacobians_[e] = right_jacobian(twist);
        xi.segment<6>(6 * e) = scaled(twist);
    }
    for (const auto& use : used) {
        Sample& sample = samples[use.model];
        for (std::size_t e = 0; e < tips.size(); ++e)
            sample.own.segment<6>(6 * e) = scaled(log(tips[e].pose.seen_from(sample.tips[e])));
    }
    if (published) {
        wrench_.setZero();
        for (const auto& use : used) wrench_ += use.weight * samples[use.model].wrench;
        each_ = 2.0 * (full_[0] * wrench_);
    } else {
        n_ == 6 ? compute_load_displacements<6>() : compute_load_displacements<Eigen::Dynamic>();
    }
    if (basis.cols() == n_) {
        compliance = full_[0];
        inverse_mass = full_[1];
        if (damped) inverse_damping = full_[2];
        load_displacement = 0.5 * each_;
    } else {
        const Matrix& P = basis;
        compliance = P.transpose() * (full_[0] * P);
        inverse_mass = P.transpose() * (full_[1] * P);
        if (damped) inverse_damping = P.transpose() * (full_[2] * P);
        load_displacement = 0.5 * (P.transpose() * each_);
    }
}

// The loads of the models in use and the displacements that they cause, by the half-way rule.
//
// Forces keep their direction in the world: the compliance for such forces is finite at every stable equilibrium. W_i is the force of
// model i in world axes, W the mean of all, R the present rotation of the end effector. W acts on xi by the generalised force
// Jr(xi)^T (R^T W, 0). In the axes of model i, its load differs from the mean load by d_i = R_i^T (W_i - W); torques likewise,
// each in the axes of its own model. With eta_i = log(Hbar^-1 H_i) and s_i = C_i d_i, the displacement s_i from H_i is
// eta_i + s_i + [eta_i, s_i] / 2 from Hbar to second order; without a common spring, xi - xi_i is used for eta_i. s_i is at most
// `steepest` times as long as eta_i, as in monotone interpolation by cubics.
//
// With applied forces w, the force W - w has the geometric stiffness A(W - w). Only the fraction t of it is used: geometric_share().
template <int n>
void Blended::compute_load_displacements() {
    using Column = Eigen::Matrix<double, n, 1>;
    using Square = Eigen::Map<const Eigen::Matrix<double, n, n>>;
    using Given = Eigen::Map<const Column>;
    const Given mean(wrench_.data(), n_);
    Eigen::Map<Column> by(by_.data(), n_), sum(each_.data(), n_);
    sum.setZero();
    for (std::size_t e = 0; e < tips.size(); ++e) {
        forces_[e].setZero();
        for (const auto& use : used) forces_[e] += use.weight * samples[use.model].force[e];
    }
    const double share = loads_known ? geometric_share<n>() : 1;
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec3 force = forces_[e];
        Vec3 torque = Vec3::Zero();
        for (const auto& use : used) torque += use.weight * samples[use.model].wrench.segment<3>(6 * e + 3);
        Eigen::Matrix<double, 6, 3> on =
            jacobians_[e].topRows<3>().transpose() * tips[e].pose.R.transpose();
        on.topRows<3>() *= radius;
        wrench_.segment<6>(6 * e).setZero();
        if (share < 1) {
            Eigen::Matrix<double, 6, 3> less = (share - 1) * on;  // t on(xi) + (1 - t) on(0) is on + less
            less.topRows<3>() += ((1 - share) * radius) * means[e].R.transpose();
            wrench_.segment<6>(6 * e) = -(less * applied_force(e));
            on += less;
        }
        wrench_.segment<6>(6 * e) += on * force;
        wrench_.segment<3>(6 * e + 3) += torque;
        for (const auto& use : used) {
            Sample& sample = samples[use.model];
            const Vec3 own = sample.wrench.segment<3>(6 * e + 3);
            const Vec6 eta = ground > 0 ? scaled(log(sample.tips[e].seen_from(means[e])))
                                        : Vec6(xi.segment<6>(6 * e) - sample.own.segment<6>(6 * e));
            sample.eta.segment<6>(6 * e) = eta;
            sample.load.segment<6>(6 * e) = on * sample.force[e] + stack(Vec3(Vec3::Zero()), own) + ground * eta;
            sample.load_difference.segment<6>(6 * e) =
                stack(radius * (sample.tips[e].R.transpose() * (sample.force[e] - force)), own - torque) + ground * eta;
        }
    }
    slope_ = full_[0];
    Eigen::Map<Eigen::Matrix<double, n, n>> slope(slope_.data(), n_, n_);
    for (const auto& use : used) {
        Sample& sample = samples[use.model];
        const Square compliance(sample.compliance.data(), n_, n_);
        by.noalias() = compliance * Given(sample.load_difference.data(), n_);
        const double size = by.norm(), most = steepest * Given(sample.eta.data(), n_).norm();
        const double kept = size > most ? most / size : 1;
        by *= kept;
        slope -= (0.5 * use.weight * kept) * compliance;
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Vec3 v = sample.eta.segment<3>(6 * e), w = sample.eta.segment<3>(6 * e + 3);
            const Vec3 V = by.template segment<3>(6 * e), W = by.template segment<3>(6 * e + 3);
            by.template segment<6>(6 * e) += 0.5 * stack(w.cross(V) + v.cross(W), w.cross(W));
        }
        Eigen::Map<Column>(sample.load_displacement.data(), n_) = by;
        sum += use.weight * by;
    }
    sum.noalias() += 2 * (Square(full_[0].data(), n_, n_) * mean);
}

// N in world axes: the force that users apply to an end effector, without handles and contacts.
Vec3 Blended::applied_force(int e) const {
    const Tip& tip = tips[e];
    return tip.world ? Vec3(tip.wrench.head<3>()) : Vec3(tip.pose.R * tip.wrench.head<3>());
}

// The fraction t of the geometric stiffness of W - w that is used. Where users apply less than the mean load W, the geometric stiffness
// A(W - w) is subtracted from the stiffness C^-1 of the blend. The mechanism stays stable as the load decreases, but a model
// has only the first-order change of the stiffness, which may exceed C^-1. So t limits the norm of t A relative to C^-1:
// t^2 tr(C A C A) <= most_cancelled^2. Then C^-1 - t A is positive.
template <int n>
double Blended::geometric_share() {
    half_.setZero(n_, n_);  // 2 C A
    bool any = false;
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec3 away = radius * (means[e].R.transpose() * (forces_[e] - applied_force(e)));
        any |= away.squaredNorm() > 0;
        const Mat3 cross = skew(away);
        half_.middleCols<3>(6 * e).noalias() = -full_[0].middleCols<3>(6 * e + 3) * cross;
        half_.middleCols<3>(6 * e + 3).noalias() = full_[0].middleCols<3>(6 * e) * cross;
    }
    if (!any) return 1;
    const Eigen::Map<const Eigen::Matrix<double, n, n>> twice(half_.data(), n_, n_);
    const double norm = 0.5 * std::sqrt(std::max(0.0, twice.cwiseProduct(twice.transpose()).sum()));
    return norm > most_cancelled ? most_cancelled / norm : 1;
}

void Blended::compute_link_coordinates() {
    for (std::size_t k = 0; k < used.size(); ++k) {
        Sample& sample = samples[used[k].model];
        for (std::size_t e = 0; e < tips.size(); ++e) all_.segment<6>(6 * e) = evaluation_twist(k, e);
        sample.y.noalias() = sample.cobasis * all_;
    }
}

void Blended::generalised_force(Vector& result) const {
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec6 on = jacobians_[e].transpose() * tips[e].own(tips[e].pose.R);
        result.segment<6>(6 * e) = stack(radius * on.head<3>(), on.tail<3>());
    }
}

// Conversion between twists and coordinates in the basis. The basis is the identity if no direction is rigid.
void Blended::to_basis(const Vector& twists, Vector& z) const {
    if (basis.cols() == n_) z = twists;
    else z.noalias() = basis.transpose() * twists;
}

void Blended::from_basis(const Vector& z, Vector& twists) const {
    if (basis.cols() == n_) twists = z;
    else twists.noalias() = basis * z;
}

void Blended::rates(Vector& result) const {
    for (std::size_t e = 0; e < tips.size(); ++e)
        result.segment<6>(6 * e) = scaled(right_jacobian_inverse(unscaled(xi.segment<6>(6 * e))) * tips[e].velocity);
}

Vector Blended::holding_wrench() const {
    const Vector z = basis.transpose() * xi;
    Vector result = basis * (solve_positive(compliance, z + load_displacement) - ground * z);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        Vec6 on = result.segment<6>(6 * e);
        on.head<3>() /= radius;
        result.segment<6>(6 * e) = right_jacobian_inverse(unscaled(xi.segment<6>(6 * e))).transpose() * on;
    }
    return result;
}

// Equilibrium of the springs under the wrench all_. Negative stiffnesses are replaced by their magnitudes, so that the step goes
// along the force.
Vector Blended::rest_with_ground() const {
    const Matrix identity = Matrix::Identity(compliance.rows(), compliance.cols()), K = solve_positive(compliance, identity);
    const SymmetricEigen modes(K - ground * identity);
    const Vector force = basis.transpose() * all_ - K * (z_ + load_displacement) + ground * z_;
    const Vector along = modes.vectors.transpose() * force;
    return z_ + modes.vectors * along.cwiseQuotient(modes.values.cwiseAbs().cwiseMax(0.01 * ground));
}

// Damped fixed-point iteration: moves the tips by a fraction of the way to the equilibrium of the present blend.
double Blended::relax(int iterations, double tolerance) {
    double share = 0.5, last = INFINITY, size = INFINITY;
    for (Tip& tip : tips) tip.velocity.setZero();
    for (int k = 0; k < iterations; ++k) {
        blend();
        generalised_force(all_);
        z_.noalias() = basis.transpose() * xi;
        const Vector goal = basis * (ground > 0 ? rest_with_ground() : Vector(compliance * (basis.transpose() * all_) - load_displacement));
        Vector move(n_);
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Pose goal_pose = means[e] * exp(unscaled(goal.segment<6>(6 * e)));
            move.segment<6>(6 * e) = scaled(log(goal_pose.seen_from(tips[e].pose)));
        }
        size = move.norm();
        if (!std::isfinite(size)) return INFINITY;
        if (size > 0.95 * last) share = std::max(0.7 * share, 0.02);
        last = size;
        if (size > 0.5) move *= 0.5 / size;
        for (std::size_t e = 0; e < tips.size(); ++e)
            tips[e].pose = tips[e].pose * exp((size < tolerance ? 1.0 : share) * unscaled(move.segment<6>(6 * e)));
        mark_changed();
        if (size < tolerance) break;
    }
    blend();
    return size;
}

}  // namespace supple
