#include "reduced/blended.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace supple {

using namespace whole;

namespace {

// Largest displacement that a model predicts between samples, over the distance of its sample
constexpr double steepest = 3;
constexpr double zero_compliance = 1e-12;  // compliance below this fraction of the largest counts as zero
constexpr double dependent_column = 1e-6;  // a column whose independent part is smaller is dropped from the basis

Four to_power(const Four& x, double power) {
    if (power == 4) return (x * x) * (x * x);
    return Four{std::pow(x[0], power), std::pow(x[1], power), std::pow(x[2], power), std::pow(x[3], power)};
}

void put(FourVectors& to, int lane, const Vec3& v) {
    to.x[lane] = v[0];
    to.y[lane] = v[1];
    to.z[lane] = v[2];
}

void put(FourPoses& to, int lane, const Pose& pose) {
    const Eigen::Quaterniond q(pose.R);
    to.q.w[lane] = q.w();
    put(to.q.v, lane, q.vec());
    put(to.p, lane, pose.p);
}

}  // namespace

PoseMean::PoseMean(const Four& real, const Four& moved) {
    const auto quaternion = [](const Four& q) -> FourQuaternions {
        return {four(q[3]), {four(q[0]), four(q[1]), four(q[2])}};
    };
    const double scale = 1 / sum(real * real);
    turn = quaternion(std::sqrt(scale) * real);
    inverse = conjugate(quaternion(scale * real));
    place = quaternion(moved) * inverse;
}

Pose PoseMean::pose() const {
    const Eigen::Quaterniond q(turn.w[0], turn.v.x[0], turn.v.y[0], turn.v.z[0]);
    return {q.toRotationMatrix(), {place.v.x[0], place.v.y[0], place.v.z[0]}};
}

// --- the model ------------------------------------------------------------------------------------------------------

void Blended::add(Sample sample, const std::array<Matrix, 3>& frames, const std::array<Matrix, 3>& cores,
                  double presence) {
    const int n = static_cast<int>(sample.wrench.size()), i = static_cast<int>(samples.size());
    sample.frame.assign(n * n, four(0));
    sample.core.assign(n * n, four(0));
    sample.has_column.assign(n, four(0));
    for (int kind = 0; kind < 4; ++kind) {
        const int from = kind == soft_kind ? compliance_kind : kind;
        for (int k = 0; k < n * n; ++k) {
            sample.frame[k][kind] = frames[from].data()[k];
            sample.core[k][kind] = cores[from].data()[k];
        }
        for (int j = 0; j < n; ++j) sample.has_column[j][kind] = cores[from](j, j) > 0;
    }
    sample.compliance = (frames[0] * cores[0]) * frames[0].transpose();
    sample.y = Vector::Zero(sample.cobasis.rows());
    sample.tips = sample.home;
    for (std::size_t e = 0; e < sample.home.size(); ++e)
        sample.force.push_back(sample.home[e].R * sample.wrench.segment<3>(6 * e) / radius);
    samples.push_back(std::move(sample));
    presence_.resize(i / 4 + 1, four(0));
    set_presence(i, presence);
}

void Blended::prepare() {
    n_ = 6 * static_cast<int>(tips.size());
    const int count = static_cast<int>(samples.size()), fours = (count + 3) / 4;
    for (std::vector<Four>* each : {&distances_, &weights_, &trust_, &nearness_}) each->assign(fours, four(0));
    presence_.resize(fours);
    for (int i = count; i < 4 * fours; ++i) set_presence(i, 0);
    homes_.resize(fours * tips.size());
    order_.resize(count);
    used.reserve(count);
    means.resize(tips.size());
    turns_.resize(tips.size());
    mean_poses_.resize(tips.size());
    forces_.resize(tips.size());
    jacobians_.resize(tips.size());
    inverse_jacobians_.resize(tips.size());
    for (Vector* each : {&xi, &wrench_, &each_, &all_, &by_, &push_all_, &rest_difference_, &rest_gradient_,
                         &rest_offset_, &rest_slope_})
        each->setZero(n_);
    for (std::vector<Four>* each : {&frame_, &core_, &half_, &full_}) each->resize(n_ * n_);
    for (std::vector<Four>* each : {&column_share_, &length_, &column_scale_}) each->resize(n_);
    slope_.resize((n_ * (n_ + 1) / 2 + 3) / 4 * 4);
    for (std::vector<int>* each : {&core_first_, &core_end_}) each->resize(n_);
    models_changed();
}

void Blended::models_changed() {
    mark_changed();
    groups_.clear();
    for (int i = 0; i < 4 * static_cast<int>(presence_.size()); ++i) {
        const Sample& sample = samples[std::min<std::size_t>(i, samples.size() - 1)];
        for (std::size_t e = 0; e < tips.size(); ++e) put(homes_[i / 4 * tips.size() + e], i % 4, sample.tips[e]);
    }
}

Vector Blended::weights() const {
    Vector all(samples.size());
    for (int i = 0; i < all.size(); ++i) all[i] = weights_[i / 4][i % 4];
    return all;
}

Matrix Blended::blended(int kind) const {
    const int r = static_cast<int>(basis.cols());
    Matrix result(r, r);
    for (int k = 0; k < r * r; ++k) result.data()[k] = matrices()[k][kind];
    return result;
}

void Blended::move_sample(int i, const Vector& twists) {
    for (std::size_t e = 0; e < tips.size(); ++e) {
        samples[i].tips[e] = samples[i].home[e] * exp(Vec6(twists.segment<6>(6 * e)));
        // the load of a model is assumed to turn with the end effector when set-points move it
        samples[i].force[e] = samples[i].tips[e].R * samples[i].wrench.segment<3>(6 * e) / radius;
    }
    models_changed();
}

// Eq. 25: distances of all models over all end effectors, lengths / r and angles / pi (2 sin(angle/2) for the angle,
// which is the same when small and smooth at half turns). A model that fades in is treated as more distant.
template <int N>
void Blended::compute_distances() {
    const int ends = size<N>(n_) / 6;
    const double turn = 4 / (M_PI * M_PI), length = 1 / (radius * radius);
    for (std::size_t i = 0; i < distances_.size(); ++i) {
        const Four missing = 1.0 - presence_[i];
        Four sum = missing * missing;
        for (int e = 0; e < ends; ++e) {
            const FourPoses& home = homes_[i * ends + e];
            const FourQuaternions now = four(turns_[e]);
            const FourVectors away = four(tips[e].pose.p) - home.p,
                              turned = relative(home.q, now, nearer_sign(home.q, now)).v;
            sum += sqrt(length * dot(away, away) + turn * dot(turned, turned));
        }
        distances_[i] = sum;
    }
}

// Weights (1/d - 1/R)^p, R just beyond the last neighbour.
void Blended::weigh() {
    const int k = static_cast<int>(samples.size());
    if (loads_changed_) reset_trust();
    for (std::size_t e = 0; e < tips.size(); ++e) turns_[e] = tips[e].pose.R;
    n_ == 6 ? compute_distances<6>() : compute_distances<Eigen::Dynamic>();
    if (published)
        for (int i = 0; i < k; ++i)
            distances_[i / 4][i % 4] = published_distance(i) + (1 - presence(i)) * (1 - presence(i));
    int nearest = 0;
    double more = -neighbours;  // models beyond the neighbours that count; a model that fades in counts by its presence
    for (int i = 0; i < k; ++i) {
        more += presence(i);
        if (distance(i) < distance(nearest)) nearest = i;
    }
    const double closest = distance(nearest);
    reach_ = 0;
    last_ = -1;
    rest_share_ = 0;
    if (closest < 1e-100 || !std::isfinite(closest)) {
        std::fill(weights_.begin(), weights_.end(), four(0));
        weights_[nearest / 4][nearest % 4] = 1;
    } else {
        if (neighbours > 0 && more > 0) {
            std::iota(order_.begin(), order_.end(), 0);
            std::nth_element(order_.begin(), order_.begin() + neighbours - 1, order_.end(),
                             [&](int a, int b) { return distance(a) < distance(b); });
            last_ = order_[neighbours - 1];
            reach_ = std::min(more, 1.0) / (reach_factor * distance(last_));
        }
        const double scale = 1 / (1 / closest - reach_);
        Four sum = four(0), nearness = four(0);
        for (std::size_t i = 0; i < weights_.size(); ++i) {
            Four near = scale * presence_[i] * (1.0 / distances_[i] - reach_);
            near = larger(near, four(0));
            if (largest(choose(trust_[i] < four(0), near, four(0))) > 0)
                for (int l = 0; l < 4; ++l)
                    if (near[l] > 0 && trust_[i][l] < 0) trust_[i][l] = trust_under_load(samples[4 * i + l]);
            if (rest_presence_ > 0) nearness += nearness_[i] = to_power(rest_region * near, power);
            near *= trust_[i];
            sum += weights_[i] = to_power(near, power);
        }
        const Four over = four(1 / supple::sum(sum));
        for (Four& weight : weights_) weight *= over;
        if (rest_presence_ > 0) compute_rest_share(supple::sum(nearness), scale);
    }
    used.clear();
    for (int i = 0; i < k; ++i)
        if (weights_[i / 4][i % 4] > 0) used.push_back({i, weights_[i / 4][i % 4], samples[i].y.data()});
}

// Copies the models in use to the lanes of `groups_`, if they are others than before, and sets their weights.
void Blended::group_models() {
    const std::size_t count = used.size();
    bool same = groups_.size() == (count + 3) / 4;
    for (std::size_t k = 0; same && k < 4 * groups_.size(); ++k)
        same = groups_[k / 4].model[k % 4] == used[std::min(k, count - 1)].model;
    if (!same) {
        groups_.resize((count + 3) / 4);
        for (std::size_t k = 0; k < 4 * groups_.size(); ++k)
            groups_[k / 4].put(k % 4, used[std::min(k, count - 1)].model, *this);
        find_core_ranges();
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const auto weight = [&](std::size_t k) { return k < count ? used[k].weight : 0; };
        const auto& [a, b, c, d] = groups_[g].model;
        groups_[g].weight = Four{weight(4 * g), weight(4 * g + 1), weight(4 * g + 2), weight(4 * g + 3)};
        groups_[g].distance = Four{distance(a), distance(b), distance(c), distance(d)};
    }
}

void Blended::find_core_ranges() {
    std::fill(core_.begin(), core_.end(), four(0));
    for (int j = 0; j < n_; ++j) {
        int &first = core_first_[j] = j, &end = core_end_[j] = j + 1;
        for (const auto& use : used)
            for (int i = 0; i < n_; ++i) {
                const Four& value = samples[use.model].core[i + n_ * j];
                if (largest(value) == 0 && largest(-value) == 0) continue;
                first = std::min(first, i);
                end = std::max(end, i + 1);
            }
    }
}

void Blended::Group::put(int lane, int index, const Blended& of) {
    const Sample& sample = of.samples[index];
    const int n = of.n_;
    model[lane] = index;
    energy[lane] = sample.energy;
    for (std::vector<Four>* each : {&frame, &core}) each->resize(n * n);
    compliance.resize(of.slope_.size(), four(0));
    for (std::vector<Four>* each : {&has_column, &wrench, &own, &eta, &load, &load_displacement, &load_difference,
                                    &weight_gradient, &strain_by_weight, &turned, &inner})
        each->resize(n);
    for (int k = 0; k < n * n; ++k) {
        frame[k][lane] = sample.frame[k][compliance_kind];
        core[k][lane] = sample.core[k][compliance_kind];
    }
    for (int i = 0; i < n; ++i)
        for (int j = 0; j <= i; ++j) compliance[entry(i, j)][lane] = sample.compliance(i, j);
    for (int k = 0; k < n; ++k) {
        has_column[k][lane] = sample.has_column[k][compliance_kind];
        wrench[k][lane] = sample.wrench[k];
    }
    tips.resize(n / 6);
    for (int e = 0; e < n / 6; ++e) {
        supple::put(tips[e].home, lane, sample.tips[e]);
        supple::put(tips[e].force, lane, sample.force[e]);
        supple::put(tips[e].torque, lane, sample.wrench.segment<3>(6 * e + 3));
    }
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
    const auto nearest = std::max_element(used.begin(), used.end(),
                                          [](auto& a, auto& b) { return a.weight < b.weight; });
    const Pose& base = samples[nearest->model].tips[e];
    Vec6 sum = Vec6::Zero();
    for (const auto& use : used) sum += use.weight * log(samples[use.model].tips[e].seen_from(base));
    return base * exp(sum);
}

// Algorithm 3: frames and cores are averaged separately, and the columns of the frame are normalised. A direction that
// some of the models do not have is averaged over the others; its eigenvalue is averaged over all, with zeros for the
// former.
template <int N>
void Blended::mix() {
    const int n = size<N>(n_);
    Four* __restrict frame = frame_.data(), * __restrict core = core_.data();
    Four* __restrict half = half_.data(), * __restrict full = full_.data();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const Group& group = groups_[g];
        const Sample& A = samples[group.model[0]];
        const Sample& B = samples[group.model[1]];
        const Sample& C = samples[group.model[2]];
        const Sample& D = samples[group.model[3]];
        const Four a = four(group.weight[0]), b = four(group.weight[1]), c = four(group.weight[2]),
                   d = four(group.weight[3]);
        const auto add_mean = [&](Four* __restrict to, std::vector<Four> Sample::* of, int first, int end) {
            const Four *p = (A.*of).data(), *q = (B.*of).data(), *r = (C.*of).data(), *s = (D.*of).data();
            for (int k = first; k < end; ++k) {
                const Four mean = (a * p[k] + b * q[k]) + (c * r[k] + d * s[k]);
                to[k] = g ? to[k] + mean : mean;
            }
        };
        add_mean(frame, &Sample::frame, 0, n * n);
        for (int j = 0; j < n; ++j) add_mean(core, &Sample::core, n * j + core_first_[j], n * j + core_end_[j]);
        add_mean(column_share_.data(), &Sample::has_column, 0, n);
    }
    for (int j = 0; j < n; ++j) {
        Four squared = frame[n * j] * frame[n * j];
        for (int i = 1; i < n; ++i) squared += frame[i + n * j] * frame[i + n * j];
        const Four share = column_share_[j], length = sqrt(squared);
        const Four scale = choose(share > four(0), 1.0 / larger(length, agreement * share), four(0));
        for (int i = 0; i < n; ++i) frame[i + n * j] *= scale;
        length_[j] = length;
        column_scale_[j] = scale;
    }
    for (int j = 0; j < n; ++j) {
        const int first = core_first_[j], end = core_end_[j];
        const Four* column = core + n * j;
        for (int i = 0; i < n; ++i) half[i + n * j] = frame[i + n * first] * column[first];
        for (int k = first + 1; k < end; ++k)
            for (int i = 0; i < n; ++i) half[i + n * j] += frame[i + n * k] * column[k];
    }
    repeat<N>(n, [&](auto i) __attribute__((always_inline)) {
        for (int j = 0; j <= i; ++j) {
            Four sum = half[i] * frame[j];
            for (int k = 1; k < n; ++k) sum += half[i + n * k] * frame[j + n * k];
            full[i + n * j] = full[j + n * i] = sum;
        }
    });
    rest_compliance_ = 0;
    if (rest_share_ > 0) add_rest_compliance();
}

// The displacement from the predicted rest pose has a part in stiff directions that the mechanism, on its curved way,
// does not have. In a nearly rigid direction its spring force would be huge, and it would change by orders of magnitude
// with the weights; this force feeds energy to the soft directions. A spring that is at rest at this pose may be softer
// without changing the rest, so its share of the compliance has a least value, which grows with the distance. Inverse
// mass and inverse damping are raised in proportion: a direction that a model does not have is small in all three.
void Blended::add_rest_compliance() {
    Four trace = four(0), most = four(0);
    for (int i = 0; i < n_; ++i) {
        const Four entry = full_[i + n_ * i];
        trace += entry;
        most = choose(most < entry, entry, most);
    }
    const double far = 16 * rest_distance_ * rest_distance_;
    rest_compliance_ = most[compliance_kind] *
                       (least_rest_compliance + far_rest_compliance * far / (extent_ * extent_ + far));
    const Four more = (rest_share_ * rest_compliance_ / trace[compliance_kind]) * trace;
    for (int i = 0; i < n_; ++i) full_[i + n_ * i] += more;
}

// P: the directions of the models in use in which the blended compliance is not zero.
void Blended::find_basis() {
    const double at_rest = rest_share_ * rest_compliance_;
    double most = 0;
    active_.clear();
    for (int j = 0; j < n_; ++j) most = std::max(most, core_[j + n_ * j][compliance_kind]);
    const double least = zero_compliance * most;
    for (int j = 0; j < n_; ++j) {
        const double own = core_[j + n_ * j][compliance_kind];
        if (own > least || (own > 0 && own + at_rest > least)) active_.push_back(j);
    }
    reduced_ = static_cast<int>(active_.size()) < n_;
    if (!reduced_) {
        if (basis.cols() != n_) basis.setIdentity(n_, n_);
        return;
    }
    Matrix P(n_, active_.size());
    int r = 0;
    for (int j : active_) {  // Gram-Schmidt, twice
        auto column = P.col(r);
        for (int i = 0; i < n_; ++i) column[i] = frame_[i + n_ * j][compliance_kind];
        column.normalize();
        double left = 1;
        for (int pass = 0; pass < 2; ++pass) {
            for (int i = 0; i < r; ++i) column -= P.col(i).dot(column) * P.col(i);
            left *= column.norm();
            column.normalize();
        }
        if (left > dependent_column) ++r;
    }
    basis = P.leftCols(r);
    projected_.resize(r * r);
    for (int kind = 0; kind < 4; ++kind) {  // P^T A P
        Matrix full(n_, n_);
        for (int k = 0; k < n_ * n_; ++k) full.data()[k] = full_[k][kind];
        const Matrix small = basis.transpose() * (full * basis);
        for (int k = 0; k < r * r; ++k) projected_[k][kind] = small.data()[k];
    }
}

void Blended::blend() {
    if (!stale_) return;
    stale_ = false;
    n_ == 6 ? blend_models<6>() : blend_models<Eigen::Dynamic>();
}

template <int N>
void Blended::blend_models() {
    weigh();
    group_models();
    mix<N>();
    find_basis();
    compute_displacements<N>();
    if (published) {
        wrench_.setZero();
        for (const auto& use : used) wrench_ += use.weight * samples[use.model].wrench;
        for (int i = 0; i < n_; ++i) {
            each_[i] = 0;
            for (int j = 0; j < n_; ++j) each_[i] += full_[i + n_ * j][compliance_kind] * wrench_[j];
        }
    } else {
        compute_load_displacements<N>();
        if (rest_share_ > 0) pull_to_rest<N>();
    }
    to_basis(each_, load_displacement);
}

// The displacements of the end effectors from the poses of the models in use (`own`), the mean Hbar of these poses, and
// the displacement xi from it.
template <int N>
void Blended::compute_displacements() {
    const int ends = size<N>(n_) / 6;
    for (int e = 0; e < ends; ++e) {
        const FourPoses now{four(turns_[e]), four(tips[e].pose.p)};
        Four real = four(0), moved = four(0);
        for (Group& group : groups_) {
            Group::Tip& tip = group.tips[e];
            tip.sign = nearer_sign(tip.home.q, now.q);
            tip.seen = {relative(tip.home.q, now.q, tip.sign), turned_back(tip.home.q, now.p - tip.home.p)};
            set(&group.own[6 * e], scaled(log(tip.seen)));
            const FourQuaternions q = (tip.sign * group.weight) * tip.home.q, pq = product(tip.home.p, q);
            real += sums(q.v.x, q.v.y, q.v.z, q.w);
            moved += sums(pq.v.x, pq.v.y, pq.v.z, pq.w);
        }
        mean_poses_[e] = {real, moved};
        if (used.size() == 1) {
            means[e] = samples[used[0].model].tips[e];
            for (int k = 0; k < 6; ++k) xi[6 * e + k] = groups_[0].own[6 * e + k][0];
        } else if (published) {
            means[e] = published_mean(e);
            xi.segment<6>(6 * e) = scaled(log(tips[e].pose.seen_from(means[e])));
        } else {
            means[e] = mean_poses_[e].pose();
            Four twist[6];
            set(twist, scaled(log(seen_from(now, {mean_poses_[e].turn, mean_poses_[e].place.v}))));
            for (int k = 0; k < 6; ++k) xi[6 * e + k] = twist[k][0];
        }
        const Vec6 twist = unscaled(xi.segment<6>(6 * e));
        const Stumpff g = stumpff(twist.tail<3>().squaredNorm());
        jacobians_[e] = {-twist, jacobian_coefficients(g)};
        inverse_jacobians_[e] = {-twist, jacobian_inverse_coefficients(g)};
    }
}

// The loads of the models in use and the displacements that they cause, by the half-way rule.
//
// Forces keep their direction in the world: the compliance for such forces is finite at every stable equilibrium. W_i
// is the force of model i in world axes, W the mean of all, R the present rotation of the end effector. W acts on xi by
// the generalised force Jr(xi)^T (R^T W, 0). In the axes of model i, its load differs from the mean load by d_i = R_i^T
// (W_i - W); torques likewise, each in the axes of its own model. With eta_i = log(Hbar^-1 H_i) and s_i = C_i d_i, the
// displacement s_i from H_i is eta_i + s_i + [eta_i, s_i] / 2 from Hbar to second order; without a common spring, xi -
// xi_i is used for eta_i. s_i is at most `steepest` times as long as eta_i, as in monotone interpolation by cubics.
//
// With applied forces w, the force W - w has the geometric stiffness A(W - w). Only the fraction t of it is used:
// geometric_share().
template <int N>
void Blended::compute_load_displacements() {
    const int n = size<N>(n_), ends = n / 6;
    for (int e = 0; e < ends; ++e) {
        forces_[e].setZero();
        for (const Group& group : groups_) forces_[e] += weighted_sum(group.weight, group.tips[e].force);
    }
    const double share = loads_known ? geometric_share<N>() : 1;
    for (int e = 0; e < ends; ++e) {
        const Vec3 force = forces_[e];
        Vec3 torque = Vec3::Zero();
        for (const Group& group : groups_) torque += weighted_sum(group.weight, group.tips[e].torque);
        const Mat3 back = tips[e].pose.R.transpose();  // (upper, lower): generalised force of a force in world axes
        Mat3 upper = radius * (jacobians_[e].M.transpose() * back);
        Mat3 lower = jacobians_[e].dM.transpose() * back;
        wrench_.segment<6>(6 * e) = stack(Vec3(Vec3::Zero()), torque);
        if (share < 1) {  // t times that at xi, 1 - t times that at 0
            const Mat3 less_upper = (1 - share) * (radius * means[e].R.transpose() - upper),
                       less_lower = (share - 1) * lower;
            const Vec3 applied = applied_force(e);
            wrench_.segment<6>(6 * e) -= stack(less_upper * applied, less_lower * applied);
            upper += less_upper;
            lower += less_lower;
        }
        wrench_.segment<6>(6 * e) += stack(upper * force, lower * force);
        for (Group& group : groups_) {
            const Group::Tip& tip = group.tips[e];
            FourTwists eta = twists(&group.own[6 * e]);
            if (ground > 0)
                eta = scaled(log(seen_from(tip.home, {four(Eigen::Quaterniond(means[e].R)), four(means[e].p)})));
            else
                eta = {four(Vec3(xi.segment<3>(6 * e))) - eta.linear,
                       four(Vec3(xi.segment<3>(6 * e + 3))) - eta.angular};
            set(&group.eta[6 * e], eta);
            set(&group.load[6 * e], {times(upper, tip.force) + ground * eta.linear,
                                     times(lower, tip.force) + tip.torque + ground * eta.angular});
            set(&group.load_difference[6 * e],
                {radius * turned_back(tip.home.q, tip.force - four(force)) + ground * eta.linear,
                 tip.torque - four(torque) + ground * eta.angular});
        }
    }
    for (Group& group : groups_) {
        Four* __restrict by = group.load_displacement.data();
        const Four *compliance = group.compliance.data(), *difference = group.load_difference.data(),
                   *eta = group.eta.data();
        Four size = four(0), most = four(0);
        repeat<N>(n, [&](auto i) __attribute__((always_inline)) {
            Four sum = compliance[entry(i, 0)] * difference[0];
            for (int j = 1; j < n; ++j) sum += compliance[entry(i, j)] * difference[j];
            by[i] = sum;
            size += sum * sum;
            most += eta[i] * eta[i];
        });
        most *= steepest * steepest;
        const Four kept = choose(size > most, sqrt(most / size), four(1));
        for (int i = 0; i < n; ++i) by[i] *= kept;
        for (int e = 0; e < ends; ++e) {
            const FourTwists change = bracket(twists(&group.eta[6 * e]), twists(by + 6 * e));
            by[6 * e] += 0.5 * change.linear.x, by[6 * e + 1] += 0.5 * change.linear.y,
                by[6 * e + 2] += 0.5 * change.linear.z;
            by[6 * e + 3] += 0.5 * change.angular.x, by[6 * e + 4] += 0.5 * change.angular.y,
                by[6 * e + 5] += 0.5 * change.angular.z;
        }
        const bool more = &group != &groups_[0];
        weighted_sums(0.5 * group.weight, by, n, more, each_.data());
        weighted_sums(-0.5 * group.weight * kept, compliance, (n * (n + 1) / 2 + 3) / 4 * 4, more, slope_.data());
    }
    double* __restrict slope = slope_.data();
    const Four* full = full_.data();
    Eigen::Matrix<double, N, 1> common(n);
    multiply_lane<compliance_kind>(full, n, wrench_.data(), common.data());
    for (int i = 0; i < n; ++i) each_.data()[i] += common.data()[i];
    repeat<N>(n, [&](auto i) __attribute__((always_inline)) {
        for (int j = 0; j <= i; ++j) slope[entry(i, j)] += full[j + n * i][compliance_kind];
    });
}

// The predicted rest pose H* enters as a spring with the compliance of the blend that is at rest at H* under the load
// w* of the path. Its strain is xi - xi* - C (lambda - w*) with xi* = log(Hbar^-1 H*), so its load_displacement is C w*
// - xi*. It has the share phi.
template <int N>
void Blended::pull_to_rest() {
    const int n = size<N>(n_);
    generalised_force(push_all_, true);
    for (int e = 0; e < n / 6; ++e) rest_offset_.segment<6>(6 * e) = scaled(log(rest_[e].seen_from(means[e])));
    multiply_lane<compliance_kind>(full_.data(), n, push_all_.data(), rest_difference_.data());
    for (int i = 0; i < n; ++i) rest_difference_[i] -= each_[i] + rest_offset_[i];
    each_ += rest_share_ * rest_difference_;
    if (!reduced_) return;
    rest_offset_ -= basis * (basis.transpose() * rest_offset_).eval();
    rest_offset_ *= rest_share_;
}

// N in world axes: the force that users apply to an end effector, without handles and contacts.
Vec3 Blended::applied_force(int e) const {
    const Tip& tip = tips[e];
    return tip.world ? Vec3(tip.wrench.head<3>()) : Vec3(tip.pose.R * tip.wrench.head<3>());
}

// The fraction t of the geometric stiffness of W - w that is used. Where users apply less than the mean load W, the
// geometric stiffness A(W - w) is subtracted from the stiffness C^-1 of the blend. The mechanism stays stable as the
// load decreases, but a model has only the first-order change of the stiffness, which may exceed C^-1. So t limits the
// norm of t A relative to C^-1: t^2 tr(C A C A) <= most_cancelled^2. Then C^-1 - t A is positive.
template <int N>
double Blended::geometric_share() const {
    using Square = Eigen::Matrix<double, N, N>;
    const int n = size<N>(n_);
    Square twice(n, n);  // 2 C A
    bool any = false;
    for (int e = 0; e < n / 6; ++e) {
        const Vec3 f = radius * (means[e].R.transpose() * (forces_[e] - applied_force(e)));
        any |= f.squaredNorm() > 0;
        const auto C = [&](int i, int j) { return full_[i + n * (6 * e + j)][compliance_kind]; };
        for (int i = 0; i < n; ++i) {  // rows of C times [[0, f x], [-f x, 0]]
            const Vec3 upper = f.cross(Vec3(C(i, 3), C(i, 4), C(i, 5))),
                       lower = Vec3(C(i, 0), C(i, 1), C(i, 2)).cross(f);
            for (int k = 0; k < 3; ++k) {
                twice(i, 6 * e + k) = upper[k];
                twice(i, 6 * e + 3 + k) = lower[k];
            }
        }
    }
    if (!any) return 1;
    double sum = 0;
    const double* entries = twice.data();
    repeat<N>(n, [&](auto i) __attribute__((always_inline)) {
        double row = 0.5 * entries[i + n * i] * entries[i + n * i];
        for (int j = 0; j < i; ++j) row += entries[i + n * j] * entries[j + n * i];
        sum += 2 * row;
    });
    const double norm = 0.5 * std::sqrt(std::max(0.0, sum));
    return norm > most_cancelled ? most_cancelled / norm : 1;
}

void Blended::compute_link_coordinates() {
    for (std::size_t k = 0; k < used.size(); ++k) {
        Sample& sample = samples[used[k].model];
        for (std::size_t e = 0; e < tips.size(); ++e) all_.segment<6>(6 * e) = evaluation_twist(k, e);
        sample.y.noalias() = sample.cobasis * all_;
    }
}

void Blended::generalised_force(Vector& result, bool of_path) const {
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec6 on = jacobians_[e].transpose_times(
            tips[e].own(tips[e].pose.R, of_path ? path_wrenches_[e] : tips[e].wrench));
        result.segment<6>(6 * e) = stack(radius * on.head<3>(), on.tail<3>());
    }
}

// Coordinates of twists in the basis. The basis is the identity if no direction is rigid.
void Blended::to_basis(const Vector& twists, Vector& z) const {
    if (!reduced_) z = twists;
    else z.noalias() = basis.transpose() * twists;
}

void Blended::to_basis(const Four* twists, Four* z) const {
    if (!reduced_) {
        std::copy(twists, twists + n_, z);
        return;
    }
    for (Eigen::Index j = 0; j < basis.cols(); ++j) {
        Four sum = four(0);
        for (int i = 0; i < n_; ++i) sum += basis(i, j) * twists[i];
        z[j] = sum;
    }
}

void Blended::rates(Vector& result) const {
    for (std::size_t e = 0; e < tips.size(); ++e)
        result.segment<6>(6 * e) = scaled(inverse_jacobians_[e] * tips[e].velocity);
}

Vector Blended::holding_wrench() const {
    const Vector z = basis.transpose() * xi;
    Vector result = basis * (solve_positive(blended(compliance_kind), z + load_displacement) - ground_used() * z);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        Vec6 on = result.segment<6>(6 * e);
        on.head<3>() /= radius;
        result.segment<6>(6 * e) = inverse_jacobians_[e].transpose_times(on);
    }
    return result;
}

// Equilibrium of the springs under the wrench all_. Negative stiffnesses are replaced by their magnitudes, so that the
// step goes along the force.
Vector Blended::rest_with_ground() const {
    const Matrix identity = Matrix::Identity(basis.cols(), basis.cols()),
                 K = solve_positive(blended(compliance_kind), identity);
    const SymmetricEigen modes(K - ground_used() * identity);
    const Vector force = basis.transpose() * all_ - K * (z_ + load_displacement) + ground_used() * z_;
    const Vector along = modes.vectors.transpose() * force;
    return z_ + modes.vectors * along.cwiseQuotient(modes.values.cwiseAbs().cwiseMax(0.01 * ground_used()));
}

// Damped fixed-point iteration: moves the tips by a fraction of the way to the equilibrium of the present blend.
double Blended::relax(int iterations, double tolerance) {
    double share = 0.5, last = INFINITY, size = INFINITY;
    for (Tip& tip : tips) tip.velocity.setZero();
    for (int k = 0; k < iterations; ++k) {
        blend();
        generalised_force(all_);
        z_.noalias() = basis.transpose() * xi;
        Vector goal = basis * (ground > 0
                                   ? rest_with_ground()
                                   : Vector(blended(compliance_kind) * (basis.transpose() * all_) - load_displacement));
        if (reduced_ && rest_share_ > 0) goal += rest_offset_;
        Vector move(n_);
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Pose goal_pose = means[e] * exp(unscaled(goal.segment<6>(6 * e)));
            move.segment<6>(6 * e) = scaled(log(goal_pose.seen_from(tips[e].pose)));
        }
        size = move.norm();
        if (!std::isfinite(size)) return INFINITY;
        share = size > (1 - 0.1 * share) * last ? std::max(0.7 * share, 0.02) : std::min(1.1 * share, 0.5);
        last = size;
        if (size > 0.5) move *= 0.5 / size;
        for (std::size_t e = 0; e < tips.size(); ++e)
            tips[e].pose = tips[e].pose * exp((size < tolerance ? 1.0 : share) * unscaled(move.segment<6>(6 * e)));
        poses_changed();
        if (size < tolerance) break;
    }
    blend();
    return size;
}

}  // namespace supple
