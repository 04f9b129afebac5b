// Time steps of a blended model: derivative of the strain, linear solve, energy budget, contacts and limits in a World.
#include <algorithm>
#include <array>
#include <cmath>

#include "reduced/blended.hpp"

namespace supple {

using namespace whole;

namespace {

constexpr double furthest = 1e6;    // largest displacement, over the radius, of an accepted state
constexpr double calm = 2e-3;       // s, least ratio of damping to stiffness: that of backward Euler with a step of this size
constexpr double floor = 0.01;      // of the largest compliance, where energy is summed up
constexpr double unsure = 0.25;     // relative error allowed for the stored energy above that of the models in use
constexpr double stride = 0.2;      // displacement that one step may make, over the radius, before it is divided
constexpr double most_parts = 16;

// Inverses of four symmetric positive matrices, one in each lane: a = L L^T, a^-1 = L^-T L^-1. Roots and quotients take most of the
// time of one; four abreast take as long.
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

// What a twist of xi (scaled) does to a point of an end effector, world axes.
Eigen::Matrix<double, 3, 6> Blended::point_map(int e, const Vec3& local) const {
    const Pose& pose = tips[e].pose;
    Eigen::Matrix<double, 3, 6> point;
    point.leftCols<3>() = pose.R;
    point.rightCols<3>() = -pose.R * skew(local);
    Eigen::Matrix<double, 3, 6> by = point * jacobians_[e];
    by.leftCols<3>() *= radius;
    return by;
}

// dC/d alpha times a vector, for a model in use. Columns of the frame are sums made unit: q = s/|s| turns by
// (q_i - q (q . q_i)) / |s| per weight of q_i, or is s over a given length where the models do not agree.
template <int n>
void Blended::turn_frame(int use, const Vector& by, Vector& result) {
    using Column = Eigen::Matrix<double, n, 1>;
    using Given = Eigen::Map<const Eigen::Matrix<double, n, n>>;
    const Eigenframe& part = samples[used[use].model].parts[compliance];
    const Given frame(frame_.data(), n_, n_), core(core_.data(), n_, n_);
    const Given own_frame(part.frame.data(), n_, n_), own_core(part.core.data(), n_, n_);
    const Eigen::Map<const Column> vector(by.data(), n_);
    const Column seen = frame.transpose() * vector, own = own_frame.transpose() * vector, carried = core * seen;
    Column turned(n_), back(n_), shrunk(n_);
    for (int j = 0; j < n_; ++j) {
        const double least = agreement * there_[j];
        const bool unit = length_[j] > least;
        const double share = unit ? frame.col(j).dot(own_frame.col(j)) : agreement * part.there[j];
        const double over = there_[j] > 0 ? 1 / std::max(length_[j], least) : 0;
        turned[j] = over * (own[j] - share * seen[j]);
        back[j] = over * carried[j];
        shrunk[j] = share * back[j];
    }
    const Column inner = core * turned + own_core * seen - shrunk;
    Eigen::Map<Column> into(result.data(), n_);
    into.noalias() = frame * inner;
    into.noalias() += own_frame * back;
}

// J: how the strain changes with xi, weights included.
template <int n>
void Blended::slope(const Vector& held) {
    using Column = Eigen::Matrix<double, n, 1>;
    const int r = static_cast<int>(basis.cols()), count = static_cast<int>(used.size());
    strain.setIdentity(r, r);
    if (count < 2) return;
    // d ln(weight)/d xi = p / (1/d - 1/R) (-d'/d^2 + R'/R^2), before the weights are made to add up to 1
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
    climb_.resize(n_, count);
    change_.resize(n_, count);
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
        climb_.col(k) = power / (1 / d - reach_) * (reach - step / (d * d));
        mean += used[k].weight * climb_.col(k);
        if (used[k].weight > used[most].weight) most = k;
    }
    Column others = Column::Zero(n_);
    for (int k = 0; k < count; ++k) {
        if (k == most) continue;
        climb_.col(k) = used[k].weight * (climb_.col(k) - mean);
        others += climb_.col(k);
    }
    climb_.col(most) = -others;  // they add up to nothing; its own is the difference of large numbers near a sample
    from_basis(held, all_);
    by_ = 0.5 * wrench_ - all_;
    const Eigen::Map<const Eigen::Matrix<double, n, n>> soft(full_[0].data(), n_, n_);
    for (int k = 0; k < count; ++k) {
        const Sample& sample = samples[used[k].model];
        turn_frame<n>(k, by_, all_);
        const Eigen::Map<const Column> load(sample.load.data(), n_);
        change_.col(k).noalias() = 0.5 * (soft * load);
        change_.col(k) += 0.5 * sample.settled + all_;
    }
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec6 twist = unscaled(xi.segment<6>(6 * e));
        const Mat6 back = right_jacobian_inverse(-twist), on = jacobians_[e].transpose();
        sums_[e].close();
        for (int k = 0; k < count; ++k) {
            change_.template block<6, 1>(6 * e, k) -= scaled(back * sums_[e].towards(samples[used[k].model].turned[e]));
            const Vec6 by = on * climb_.template block<6, 1>(6 * e, k);
            climb_.template block<6, 1>(6 * e, k) = stack(radius * by.template head<3>(), by.template tail<3>());
        }
    }
    if (r == n_) {
        Eigen::Map<Eigen::Matrix<double, n, n>> J(strain.data(), r, r);
        for (int k = 0; k < count; ++k)
            for (int j = 0; j < r; ++j) J.col(j) += climb_(j, k) * Eigen::Map<const Column>(&change_(0, k), r);
    } else
        strain += Matrix(basis.transpose() * change_) * Matrix(climb_.transpose() * basis);
}

// (M + h D + h tau J^T K J) v' = M v + h (f - K (z + c) + ground z), with handles as springs on points of the tips at the end of
// the step. tau = max(h, calm, s / omega), s the skew part of K J relative to K and omega the frequency, both along the velocity:
// changing weights make K J unsymmetric, and two modes of equal frequency then grow at most at the rate s omega / 2. Damping of
// s / omega over stiffness takes out as much.
template <int n>
bool Blended::solve() {
    using Square = Eigen::Matrix<double, n, n>;
    using Column = Eigen::Matrix<double, n, 1>;
    const int r = static_cast<int>(basis.cols());
    const Square I = Square::Identity(r, r);
    std::array<Square, 4> inverse{light, soft, damped ? Square(slack) : I, Square(soft) + floor * soft.diagonal().maxCoeff() * I};
    invert_positive<n>(inverse);
    const Square &mass = inverse[0], &stiffness = inverse[1];
    const Column stretch = z_ + settled;
    hold_ = stiffness * stretch;
    Square system = mass;
    if (published) {  // eq. 24
        climb_.setZero(n_, used.size());
        system += h * h * stiffness;
    } else {
        const Column v = v_, springs = stiffness * v;
        const double kinetic = v.dot(mass * v), elastic = v.dot(springs);
        curb(0.5 * kinetic, stored(inverse[3] * stretch));
        slope<n>(hold_);
        const Square J = strain, bent = stiffness * J;
        double damping = std::max(h, calm);
        if (used.size() > 1 && elastic > 0) {
            const Column skew = 0.5 * (bent * v - J.transpose() * springs);
            const double share = std::min(1.0, skew.dot(Square(soft) * skew) / elastic);
            damping = std::max(damping, std::sqrt(share * kinetic / elastic));
        }
        system += (h * damping) * (J.transpose() * bent);
    }
    outer_ = h * push_;
    lost_.setZero(r, r);
    if (damped) lost_ = h * inverse[2];
    Column right = mass * v_ + h * (push_ - hold_ + ground * z_);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Tip& tip = tips[e];
        if (!tip.held) continue;
        const Eigen::Matrix<double, 3, n> J = point_map(e, tip.point) * basis.middleRows(6 * e, 6);
        const Column pull = h * tip.stiffness * (J.transpose() * (tip.target - tip.pose.act(tip.point)));
        right += pull;
        outer_ += pull;
        lost_ += h * (h * tip.stiffness + tip.damping) * (J.transpose() * J);
    }
    system += lost_;
    fresh_ = solve_positive(system, right);
    system_ = system;
    return fresh_.allFinite();
}

// Energy by the trapezoidal rule from every model in use, sum_i alpha_i (E_i + (b_i + lambda) . xi_i / 2). Stiff directions
// store almost none of it; in `held`, lambda, their compliance is raised to `floor` times the largest one.
double Blended::stored(const Vector& held) {
    from_basis(held, by_);
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
// (`unsure`) for the error of the estimate of the stored energy.
void Blended::curb(double kinetic, double stored) {
    double least = stored;
    for (const auto& use : used) least = std::min(least, samples[use.model].energy);
    const double doubt = unsure * (stored - least), most = allowed - stored + doubt;
    if (renew_ || !std::isfinite(allowed)) {
        allowed = kinetic + stored;
        renew_ = false;
    } else if (kinetic > std::max(most, 0.0)) {
        v_ *= std::sqrt(std::max(most, 0.0) / kinetic);
    }
    // debts and savings stay within the margin
    allowed = std::clamp(allowed, stored - doubt, kinetic + stored + doubt);
}

bool Blended::begin() {
    blend();
    to_basis(xi, z_);
    rates(all_);
    to_basis(all_, v_);
    pulled(all_);
    to_basis(all_, push_);
    return basis.cols() == 6 && n_ == 6 ? solve<6>() : solve<Eigen::Dynamic>();
}

// The twist of one end effector at which a model in use is evaluated.
Vec6 Blended::asked(int use, int e) const {
    const Vec6 own = samples[used[use].model].own.segment<6>(6 * e);
    return published ? unscaled(own) : Vec6(0.5 * unscaled(own + xi.segment<6>(6 * e)));
}

// Values of the bounded coordinates and their rates in this step: weighted means over the models in use, each linear in the twist at
// which it is evaluated, plus the effect of changing weights.
void Blended::meet_bounds() const {
    bound_at_.setZero(lower.size());
    bound_rate_.setZero(lower.size());
    from_basis(fresh_, moves_);
    for (std::size_t k = 0; k < used.size(); ++k) {
        const Sample& sample = samples[used[k].model];
        bound_own_ = sample.bound_values;
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Vec6 half = asked(k, e), common = unscaled(xi.segment<6>(6 * e)), u = unscaled(moves_.segment<6>(6 * e));
            const Vec6 rate = 0.5 * used[k].weight * (right_jacobian_inverse(2 * half - common) * (jacobians_[e] * u) + u);
            bound_own_.noalias() += sample.bounded.middleRows(6 * e, 6).transpose() * half;
            bound_rate_.noalias() += sample.bounded.middleRows(6 * e, 6).transpose() * rate;
        }
        bound_at_ += used[k].weight * bound_own_;
        if (used.size() > 1) bound_rate_ += climb_.col(k).dot(moves_) * bound_own_;
    }
}

// (r,) how a bounded coordinate changes with the basis' coordinates, the weights' changes included.
Vector Blended::bound_row(int bound) const {
    Vector row = Vector::Zero(n_);
    for (std::size_t k = 0; k < used.size(); ++k) {
        const Sample& sample = samples[used[k].model];
        double own = sample.bound_values[bound];
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Vec6 map = sample.bounded.col(bound).segment<6>(6 * e), half = asked(k, e);
            const Vec6 common = unscaled(xi.segment<6>(6 * e));
            own += map.dot(half);
            const Vec6 by = jacobians_[e].transpose() * (right_jacobian_inverse(2 * half - common).transpose() * map);
            const Vec6 total = 0.5 * used[k].weight * (by + map);
            row.segment<6>(6 * e) += stack(radius * total.head<3>(), total.tail<3>());
        }
        if (used.size() > 1) row += own * climb_.col(k);
    }
    return basis.transpose() * row;
}

void Blended::limits(std::vector<Limit>& out) const {
    if (!lower.size()) return;
    meet_bounds();
    for (Eigen::Index i = 0; i < lower.size(); ++i) near_limits(i, bound_at_[i], bound_rate_[i], lower[i], upper[i], h, out);
}

bool Blended::finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) {
    const std::size_t rows = 3 * touches.size() + limits.size();
    if (rows) {
        fresh_.noalias() += turned_ * Eigen::Map<const Vector>(impulses, rows);
        if (!fresh_.allFinite()) return false;
    }
    allowed += fresh_.dot(outer_) - fresh_.dot(lost_ * fresh_);
    if (rows) allowed += Eigen::Map<const Vector>(impulses, rows).dot(rows_.transpose() * fresh_);
    z_ += h * fresh_;
    from_basis(z_, all_);
    from_basis(fresh_, by_);
    if (!(all_.norm() < furthest)) return false;
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

// Where weights change much within a step it is made in parts.
bool Blended::step() {
    if (!begin()) return false;
    const double whole = h, parts = std::clamp(std::ceil(h * fresh_.norm() / stride), 1.0, most_parts);
    if (parts == 1 || published) return finish({}, {}, nullptr);
    h = whole / parts;
    bool good = true;
    for (int k = 0; good && k < parts; ++k) good = begin() && finish({}, {}, nullptr);
    h = whole;
    return good;
}

Vec6 Blended::free_velocity(int e) const {
    const Vec6 twist = jacobians_[e] *
                       unscaled(Vec6(basis.middleRows(6 * e, 6) * fresh_));
    return stack(tips[e].pose.R * twist.head<3>(), tips[e].pose.R * twist.tail<3>());
}

void Blended::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                      double* response) {
    const int k = 3 * static_cast<int>(touches.size()), n = k + static_cast<int>(limits.size());
    rows_.resize(basis.cols(), n);
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const int e = touches[i].frame;
        const Vec3 local = tips[e].pose.R.transpose() * (touches[i].point - tips[e].pose.p);
        const Eigen::Matrix<double, 3, 6> by = touches[i].axes.transpose() * point_map(e, local);
        rows_.middleCols<3>(3 * i).noalias() = basis.middleRows(6 * e, 6).transpose() * by.transpose();
    }
    for (int i = k; i < n; ++i) rows_.col(i) = limits[i - k].sign * bound_row(limits[i - k].row);
    turned_ = solve_positive(system_, rows_);
    Eigen::Map<Vector>(free, n).noalias() = rows_.transpose() * fresh_;
    Eigen::Map<Matrix>(response, n, n).noalias() = rows_.transpose() * turned_;
}

// Kinetic, and what the blended springs hold about where they would rest, at the last blend.
double Blended::energy() const {
    Vector all(n_);
    rates(all);
    const Vector v = basis.transpose() * all, z = basis.transpose() * xi, r = z + settled;
    return 0.5 * (v.dot(solve_positive(light, v)) + r.dot(solve_positive(soft, r)) - ground * z.squaredNorm());
}

}  // namespace supple
