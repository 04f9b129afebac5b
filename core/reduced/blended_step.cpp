// Time steps of a blended model: derivative of the strain, linear solve, energy budget, contacts and limits in a World.
#include <algorithm>
#include <array>
#include <cmath>

#include "reduced/blended.hpp"

namespace supple {

using namespace whole;

namespace {

constexpr double largest_norm = 1e6;    // largest displacement, over the radius, of an accepted state
constexpr double least_damping_time = 2e-3;       // s, least ratio of damping to stiffness, as of backward Euler with this step
constexpr double least_compliance = 0.01;      // over the largest compliance, in the estimate of the stored energy
constexpr double energy_margin = 0.25;     // relative error allowed for the stored energy above that of the models in use
constexpr double largest_displacement = 0.2;      // displacement that one step may make, over the radius, before it is divided
constexpr double most_parts = 16;

// Inverses of four symmetric positive matrices, one in each lane: a = L L^T, a^-1 = L^-T L^-1. Roots and quotients take most of the
// time, and four of them in vector lanes take as long as one.
template <int n>
void invert_positive(std::array<Eigen::Matrix<double, n, n>, 4>& a) {
    if constexpr (n == Eigen::Dynamic) {
        for (auto& each : a) each = solve_positive(each, Matrix(Matrix::Identity(each.rows(), each.cols())));
    } else {
        constexpr int lanes = 4;
        alignas(32) double L[n][n][lanes], U[n][n][lanes];  // L with the inverse of its diagonal, and its inverse
        for (int j = 0; j < n; ++j)
            for (int i = j; i < n; ++i) {
                alignas(32) double sum[lanes];
                for (int c = 0; c < lanes; ++c) sum[c] = a[c](i, j);
                for (int k = 0; k < j; ++k)
                    for (int c = 0; c < lanes; ++c) sum[c] -= L[i][k][c] * L[j][k][c];
                for (int c = 0; c < lanes; ++c) L[i][j][c] = i == j ? 1 / std::sqrt(sum[c]) : sum[c] * L[j][j][c];
            }
        for (int j = 0; j < n; ++j) {
            for (int c = 0; c < lanes; ++c) U[j][j][c] = L[j][j][c];
            for (int i = j + 1; i < n; ++i) {
                alignas(32) double sum[lanes] = {};
                for (int k = j; k < i; ++k)
                    for (int c = 0; c < lanes; ++c) sum[c] -= L[i][k][c] * U[k][j][c];
                for (int c = 0; c < lanes; ++c) U[i][j][c] = sum[c] * L[i][i][c];
            }
        }
        for (int j = 0; j < n; ++j)
            for (int i = j; i < n; ++i) {
                alignas(32) double sum[lanes] = {};
                for (int k = i; k < n; ++k)
                    for (int c = 0; c < lanes; ++c) sum[c] += U[k][i][c] * U[k][j][c];
                for (int c = 0; c < lanes; ++c) a[c](i, j) = a[c](j, i) = sum[c];
            }
    }
}

}  // namespace

// Displacement of a point of an end effector (world axes) per change of xi (scaled).
Eigen::Matrix<double, 3, 6> Blended::point_map(int e, const Vec3& local) const {
    const Pose& pose = tips[e].pose;
    Eigen::Matrix<double, 3, 6> point;
    point.leftCols<3>() = pose.R;
    point.rightCols<3>() = -pose.R * skew(local);
    return by_scaled_twist(e, point);
}

// (3, 6): rows per unit twist of a tip, as rows per unit of its coordinates.
Eigen::Matrix<double, 3, 6> Blended::by_scaled_twist(int e, const Eigen::Matrix<double, 3, 6>& rows) const {
    Eigen::Matrix<double, 3, 6> by = rows * jacobians_[e];
    by.leftCols<3>() *= radius;
    return by;
}

// dC/d alpha times a vector, for a model in use. A column q = s/|s| of the frame, with the sum s, changes by
// (q_i - q (q . q_i)) / |s| per weight of q_i. If the models do not agree, q is s over a given length.
template <int n>
void Blended::compliance_derivative(int use, const Vector& by, Vector& result) {
    using Column = Eigen::Matrix<double, n, 1>;
    using Given = Eigen::Map<const Eigen::Matrix<double, n, n>>;
    const Eigenframe& part = samples[used[use].model].parts[compliance_kind];
    const Given frame(frame_.data(), n_, n_), core(core_.data(), n_, n_);
    const Given own_frame(part.frame.data(), n_, n_), own_core(part.core.data(), n_, n_);
    const Eigen::Map<const Column> vector(by.data(), n_);
    const Column seen = frame.transpose() * vector, own = own_frame.transpose() * vector, carried = core * seen;
    Column turned(n_), back(n_), shrunk(n_);
    for (int j = 0; j < n_; ++j) {
        const double least = agreement * column_share_[j];
        const bool unit = length_[j] > least;
        const double share = unit ? frame.col(j).dot(own_frame.col(j)) : agreement * part.has_column[j];
        const double over = column_share_[j] > 0 ? 1 / std::max(length_[j], least) : 0;
        turned[j] = over * (own[j] - share * seen[j]);
        back[j] = over * carried[j];
        shrunk[j] = share * back[j];
    }
    const Column inner = core * turned + own_core * seen - shrunk;
    Eigen::Map<Column> into(result.data(), n_);
    into.noalias() = frame * inner;
    into.noalias() += own_frame * back;
}

// J: derivative of the strain by xi, changing weights included.
template <int n>
void Blended::differentiate_strain(const Vector& spring_force) {
    using Column = Eigen::Matrix<double, n, 1>;
    const int r = static_cast<int>(basis.cols()), count = static_cast<int>(used.size());
    strain.setIdentity(r, r);
    if (count < 2) return;
    // d ln(weight)/d xi = p / (1/d - 1/R) (-d'/d^2 + R'/R^2), before normalisation of the weights
    const auto steps = [&](int i, auto&& into) {
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Pose &home = samples[i].tips[e], &pose = tips[e].pose;
            const Vec3 away = pose.R.transpose() * (pose.p - home.p) / (radius * radius);
            const Mat3 turned = home.R.transpose() * pose.R;
            const Vec3 turn(turned(2, 1) - turned(1, 2), turned(0, 2) - turned(2, 0), turned(1, 0) - turned(0, 1));
            const double d2 = away.dot(pose.R.transpose() * (pose.p - home.p)) + (3 - turned.trace()) / (M_PI * M_PI);
            const double over = d2 > 0 ? 1 / std::sqrt(d2) : 0;
            into.template segment<6>(6 * e) = over * stack(away, turn / (2 * M_PI * M_PI));
        }
    };
    weight_gradient_.resize(n_, count);
    strain_by_weight_.resize(n_, count);
    Column reach = Column::Zero(n_), mean = Column::Zero(n_);
    if (last_ >= 0) {
        steps(last_, reach);
        reach *= reach_ / distances_[last_];
    }
    int most = 0;
    for (int k = 0; k < count; ++k) {
        const double d = distances_[used[k].model];
        Column step(n_);
        steps(used[k].model, step);
        weight_gradient_.col(k) = power / (1 / d - reach_) * (reach - step / (d * d));
        mean += used[k].weight * weight_gradient_.col(k);
        if (used[k].weight > used[most].weight) most = k;
    }
    Column others = Column::Zero(n_);
    for (int k = 0; k < count; ++k) {
        if (k == most) continue;
        weight_gradient_.col(k) = used[k].weight * (weight_gradient_.col(k) - mean);
        others += weight_gradient_.col(k);
    }
    weight_gradient_.col(most) = -others;  // the gradients add up to zero; computed directly, this one is a difference of large numbers near a sample
    from_basis(spring_force, all_);
    by_ = wrench_ - all_;
    const Eigen::Map<const Eigen::Matrix<double, n, n>> slope(slope_.data(), n_, n_);
    for (int k = 0; k < count; ++k) {
        const Sample& sample = samples[used[k].model];
        compliance_derivative<n>(k, by_, all_);
        const Eigen::Map<const Column> load(sample.load.data(), n_);
        strain_by_weight_.col(k).noalias() = slope * load;
        strain_by_weight_.col(k) += 0.5 * sample.load_displacement + all_;
    }
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec6 twist = unscaled(xi.segment<6>(6 * e));
        const Mat6 back = right_jacobian_inverse(-twist), on = jacobians_[e].transpose();
        sums_[e].close();
        for (int k = 0; k < count; ++k) {
            strain_by_weight_.template block<6, 1>(6 * e, k) -= scaled(back * sums_[e].towards(samples[used[k].model].dual_quaternions[e]));
            const Vec6 by = on * weight_gradient_.template block<6, 1>(6 * e, k);
            weight_gradient_.template block<6, 1>(6 * e, k) = stack(radius * by.template head<3>(), by.template tail<3>());
        }
    }
    if (r == n_) {
        Eigen::Map<Eigen::Matrix<double, n, n>> J(strain.data(), r, r);
        for (int k = 0; k < count; ++k)
            for (int j = 0; j < r; ++j) J.col(j) += weight_gradient_(j, k) * Eigen::Map<const Column>(&strain_by_weight_(0, k), r);
    } else
        strain += Matrix(basis.transpose() * strain_by_weight_) * Matrix(weight_gradient_.transpose() * basis);
}

// (M + h D + h tau J^T K J) v' = M v + h (f - K (z + c) + ground z), with handles as springs on points of the tips at the end of
// the step. tau = max(h, least_damping_time, s / omega), s the skew part of K J relative to K and omega the frequency, both along the velocity:
// changing weights make K J unsymmetric, and two modes of equal frequency then grow at most at the rate s omega / 2. A ratio
// s / omega of damping to stiffness compensates this.
template <int n>
bool Blended::solve() {
    using Square = Eigen::Matrix<double, n, n>;
    using Column = Eigen::Matrix<double, n, 1>;
    const int r = static_cast<int>(basis.cols());
    const Square I = Square::Identity(r, r);
    std::array<Square, 4> inverse{inverse_mass, compliance, damped ? Square(inverse_damping) : I, Square(compliance) + least_compliance * compliance.diagonal().maxCoeff() * I};
    invert_positive<n>(inverse);
    const Square &mass = inverse[0], &stiffness = inverse[1];
    const Column stretch = z_ + load_displacement;
    spring_force_ = stiffness * stretch;
    Square system = mass;
    if (published) {  // eq. 24
        weight_gradient_.setZero(n_, used.size());
        system += h * h * stiffness;
    } else {
        const Column v = v_, springs = stiffness * v;
        const double kinetic = v.dot(mass * v), elastic = v.dot(springs);
        limit_kinetic_energy(0.5 * kinetic, stored_energy(inverse[3] * stretch));
        differentiate_strain<n>(spring_force_);
        const Square J = strain, bent = stiffness * J;
        double damping = std::max(h, least_damping_time);
        if (used.size() > 1 && elastic > 0) {
            const Column skew = 0.5 * (bent * v - J.transpose() * springs);
            const double share = std::min(1.0, skew.dot(Square(compliance) * skew) / elastic);
            damping = std::max(damping, std::sqrt(share * kinetic / elastic));
        }
        system += (h * damping) * (J.transpose() * bent);
    }
    external_impulse_ = h * push_;
    dissipation_.setZero(r, r);
    if (damped) dissipation_ = h * inverse[2];
    Column right = mass * v_ + h * (push_ - spring_force_ + ground * z_);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Tip& tip = tips[e];
        if (!tip.has_handle) continue;
        const Eigen::Matrix<double, 3, n> J = point_map(e, tip.point) * basis.middleRows(6 * e, 6);
        const Column pull = h * tip.stiffness * (J.transpose() * (tip.target - tip.pose.act(tip.point)));
        right += pull;
        external_impulse_ += pull;
        dissipation_ += h * (h * tip.stiffness + tip.damping) * (J.transpose() * J);
    }
    system += dissipation_;
    new_rates_ = solve_positive(system, right);
    system_ = system;
    return new_rates_.allFinite();
}

// Energy by the trapezoidal rule from every model in use, sum_i alpha_i (E_i + (b_i + lambda) . xi_i / 2). Stiff directions
// store almost no energy; in `spring_force` (lambda) their compliance is raised to `least_compliance` times the largest one.
double Blended::stored_energy(const Vector& spring_force) {
    from_basis(spring_force, by_);
    by_ -= ground * xi;
    double sum = 0;
    for (const auto& use : used) {
        const Sample& sample = samples[use.model];
        sum += use.weight * (sample.energy + 0.5 * sample.own.dot(sample.wrench + by_));
    }
    return sum;
}

// The blended force has no potential, and changing weights can add energy. The budget is the initial energy plus the work of loads
// less that of dampers. Velocities are scaled down where the kinetic energy exceeds the budget less the stored energy, plus a margin
// (`energy_margin`) for the error of the estimate of the stored energy.
void Blended::limit_kinetic_energy(double kinetic, double stored) {
    double least = stored;
    for (const auto& use : used) least = std::min(least, samples[use.model].energy);
    const double doubt = energy_margin * (stored - least), most = energy_budget - stored + doubt;
    if (budget_unset_ || !std::isfinite(energy_budget)) {
        energy_budget = kinetic + stored;
        budget_unset_ = false;
    } else if (kinetic > std::max(most, 0.0)) {
        v_ *= std::sqrt(std::max(most, 0.0) / kinetic);
    }
    // the budget may differ from the present energy by the margin only
    energy_budget = std::clamp(energy_budget, stored - doubt, kinetic + stored + doubt);
}

bool Blended::begin() {
    blend();
    to_basis(xi, z_);
    rates(all_);
    to_basis(all_, v_);
    generalised_force(all_);
    to_basis(all_, push_);
    return basis.cols() == 6 && n_ == 6 ? solve<6>() : solve<Eigen::Dynamic>();
}

// The twist of one end effector at which a model in use is evaluated.
Vec6 Blended::evaluation_twist(int use, int e) const {
    const Vec6 own = samples[used[use].model].own.segment<6>(6 * e);
    return published ? unscaled(own) : Vec6(0.5 * unscaled(own + xi.segment<6>(6 * e)));
}

// Values of the bounded coordinates and their rates in this step: weighted means over the models in use, each linear in the twist at
// which it is evaluated, plus the effect of changing weights.
void Blended::evaluate_bounds() const {
    bound_at_.setZero(lower.size());
    bound_rate_.setZero(lower.size());
    from_basis(new_rates_, moves_);
    for (std::size_t k = 0; k < used.size(); ++k) {
        const Sample& sample = samples[used[k].model];
        bound_own_ = sample.bound_values;
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Vec6 half = evaluation_twist(k, e), common = unscaled(xi.segment<6>(6 * e)), u = unscaled(moves_.segment<6>(6 * e));
            const Vec6 rate = 0.5 * used[k].weight * (right_jacobian_inverse(2 * half - common) * (jacobians_[e] * u) + u);
            bound_own_.noalias() += sample.bounded.middleRows(6 * e, 6).transpose() * half;
            bound_rate_.noalias() += sample.bounded.middleRows(6 * e, 6).transpose() * rate;
        }
        bound_at_ += used[k].weight * bound_own_;
        if (used.size() > 1) bound_rate_ += weight_gradient_.col(k).dot(moves_) * bound_own_;
    }
}

// (r,) derivative of a bounded coordinate by coordinates in the basis, changing weights included.
Vector Blended::bound_row(int bound) const {
    Vector row = Vector::Zero(n_);
    for (std::size_t k = 0; k < used.size(); ++k) {
        const Sample& sample = samples[used[k].model];
        double own = sample.bound_values[bound];
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Vec6 map = sample.bounded.col(bound).segment<6>(6 * e), half = evaluation_twist(k, e);
            const Vec6 common = unscaled(xi.segment<6>(6 * e));
            own += map.dot(half);
            const Vec6 by = jacobians_[e].transpose() * (right_jacobian_inverse(2 * half - common).transpose() * map);
            const Vec6 total = 0.5 * used[k].weight * (by + map);
            row.segment<6>(6 * e) += stack(radius * total.head<3>(), total.tail<3>());
        }
        if (used.size() > 1) row += own * weight_gradient_.col(k);
    }
    return basis.transpose() * row;
}

void Blended::limits(std::vector<Limit>& out) const {
    if (!lower.size()) return;
    evaluate_bounds();
    for (Eigen::Index i = 0; i < lower.size(); ++i) near_limits(i, bound_at_[i], bound_rate_[i], lower[i], upper[i], h, out);
}

bool Blended::finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) {
    const std::size_t rows = 3 * touches.size() + limits.size();
    if (rows) {
        new_rates_.noalias() += response_ * Eigen::Map<const Vector>(impulses, rows);
        if (!new_rates_.allFinite()) return false;
    }
    energy_budget += new_rates_.dot(external_impulse_) - new_rates_.dot(dissipation_ * new_rates_);
    if (rows) energy_budget += Eigen::Map<const Vector>(impulses, rows).dot(rows_.transpose() * new_rates_);
    z_ += h * new_rates_;
    from_basis(z_, all_);
    from_basis(new_rates_, by_);
    if (!(all_.norm() < largest_norm)) return false;
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec6 twist = unscaled(all_.segment<6>(6 * e));
        tips[e].pose = means[e] * exp(twist);
        tips[e].velocity = right_jacobian(twist) * unscaled(by_.segment<6>(6 * e));
    }
    for (Sample& sample : samples)
        if (sample.presence < 1) sample.presence = std::min(1.0, sample.presence + h / fading);
    time += h;
    stale_ = true;
    return true;
}

// A step with a large displacement, in which weights change much, is divided.
bool Blended::step() {
    if (!begin()) return false;
    const double whole = h, parts = std::clamp(std::ceil(h * new_rates_.norm() / largest_displacement), 1.0, most_parts);
    if (parts == 1 || published) return finish({}, {}, nullptr);
    h = whole / parts;
    bool good = true;
    for (int k = 0; good && k < parts; ++k) good = begin() && finish({}, {}, nullptr);
    h = whole;
    return good;
}

Vec6 Blended::free_velocity(int e) const {
    const Vec6 twist = jacobians_[e] *
                       unscaled(Vec6(basis.middleRows(6 * e, 6) * new_rates_));
    return stack(tips[e].pose.R * twist.head<3>(), tips[e].pose.R * twist.tail<3>());
}

void Blended::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                      double* response) {
    const int k = 3 * static_cast<int>(touches.size()), n = k + static_cast<int>(limits.size());
    rows_.resize(basis.cols(), n);
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const int e = touches[i].frame;
        const Vec3 local = tips[e].pose.R.transpose() * (touches[i].point - tips[e].pose.p);
        const Eigen::Matrix<double, 3, 6> by = by_scaled_twist(e, touches[i].by_twist(tips[e].pose.R, local));
        rows_.middleCols<3>(3 * i).noalias() = basis.middleRows(6 * e, 6).transpose() * by.transpose();
    }
    for (int i = k; i < n; ++i) rows_.col(i) = limits[i - k].sign * bound_row(limits[i - k].row);
    response_ = solve_positive(system_, rows_);
    Eigen::Map<Vector>(free, n).noalias() = rows_.transpose() * new_rates_;
    Eigen::Map<Matrix>(response, n, n).noalias() = rows_.transpose() * response_;
}

// Kinetic energy, and energy of the blended springs relative to their unloaded state, at the last blend.
double Blended::energy() const {
    Vector all(n_);
    rates(all);
    const Vector v = basis.transpose() * all, z = basis.transpose() * xi, r = z + load_displacement;
    return 0.5 * (v.dot(solve_positive(inverse_mass, v)) + r.dot(solve_positive(compliance, r)) - ground * z.squaredNorm());
}

}  // namespace supple
