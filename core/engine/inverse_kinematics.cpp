#include "engine/inverse_kinematics.hpp"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>

namespace supple {

namespace {
constexpr int iterations = 100;
constexpr double longest_step = 0.4;  // rad or lengths
constexpr double reached = 1e-9;  // largest remaining error of a solution
constexpr double pull_of_start = 1e-5;

double largest(const Eigen::VectorXd& v) { return v.size() ? v.cwiseAbs().maxCoeff() : 0.0; }

// Least squares |A s - b|^2 within low <= 0 <= high, from `s` that has the least one without bounds. Method of active
// sets (Stark and Parker, 1995): coordinates at bounds are released one by one where the gradient leads inwards.
Eigen::VectorXd within_bounds(const Eigen::MatrixXd& A, const Eigen::VectorXd& b, const Eigen::VectorXd& low,
                              const Eigen::VectorXd& high, Eigen::VectorXd s) {
    const int n = static_cast<int>(s.size());
    std::vector<char> held(n, 0);
    for (int i = 0; i < n; ++i) {
        held[i] = s[i] <= low[i] || s[i] >= high[i];
        s[i] = std::clamp(s[i], low[i], high[i]);
    }
    const double scale = A.cwiseAbs().maxCoeff() * (largest(b) + 1e-300);
    for (int round = 0; round < 10 * n + 10; ++round) {
        std::vector<int> free;
        for (int i = 0; i < n; ++i)
            if (!held[i]) free.push_back(i);
        if (!free.empty()) {
            const Eigen::VectorXd more = A(Eigen::all, free).householderQr().solve(b - A * s);
            double share = 1;
            int first = -1;
            for (std::size_t k = 0; k < free.size(); ++k) {
                const int i = free[k];
                const double room = (more[k] < 0 ? low[i] : high[i]) - s[i];
                if (std::abs(more[k]) * share > std::abs(room)) {
                    share = std::abs(room / more[k]);
                    first = i;
                }
            }
            for (std::size_t k = 0; k < free.size(); ++k) s[free[k]] += share * more[k];
            if (first >= 0) {
                s[first] = s[first] - low[first] < high[first] - s[first] ? low[first] : high[first];
                held[first] = 1;
                continue;
            }
        }
        const Eigen::VectorXd inwards = A.transpose() * (b - A * s);  // minus the gradient
        int release = -1;
        double most = 1e-14 * scale;
        for (int i = 0; i < n; ++i) {
            if (!held[i] || high[i] - low[i] < 1e-12) continue;
            const double gain = s[i] <= low[i] ? inwards[i] : -inwards[i];
            if (gain > most) {
                most = gain;
                release = i;
            }
        }
        if (release < 0) break;
        held[release] = 0;
    }
    return s;
}
}  // namespace

void InverseKinematics::evaluate(const Vector& x) {
    if (evaluated_at_.size() == x.size() && evaluated_at_ == x) return;
    const KinematicModel& m = state_.model();
    const int n = m.size(), tied = m.constraints();
    int count = tied;
    for (const Target& target : targets) count += target.turns ? 6 : 3;
    std::vector<std::pair<const Tendon*, double>> beyond;
    for (const Tendon& tendon : tendons) {
        double length = 0;
        for (std::size_t i = 0; i < tendon.places.size(); ++i) length += tendon.coefficients[i] * x[tendon.places[i]];
        const double error = length - std::clamp(length, tendon.lower, tendon.upper);
        if (error != 0) beyond.emplace_back(&tendon, error);
    }
    errors_.setZero(count + beyond.size());
    rows_.setZero(count + beyond.size(), n);
    state_.place(x.data());
    if (tied) state_.constraints(x.data() + m.dof, length_, errors_.data(), rows_.data());
    int at = tied;
    Eigen::Matrix<double, 6, Eigen::Dynamic, Eigen::RowMajor> twists(6, n);
    for (const Target& target : targets) {
        const Pose here = state_.pose(target.body) * target.frame;
        const int size = target.turns ? 6 : 3;
        state_.jacobian(target.body, target.frame, twists.data(), n);
        rows_.block(at, 0, size, m.dof) = twists.block(0, 0, size, m.dof);
        if (target.turns) errors_.segment<6>(at) = -log(target.pose.seen_from(here));
        else errors_.segment<3>(at) = here.R.transpose() * Vec3(here.p - target.pose.p);
        errors_.segment<3>(at) /= length_;
        rows_.middleRows(at, 3) /= length_;
        at += size;
    }
    for (const auto& [tendon, error] : beyond) {
        errors_[at] = error;
        for (std::size_t i = 0; i < tendon->places.size(); ++i) rows_(at, tendon->places[i]) = tendon->coefficients[i];
        ++at;
    }
    evaluated_at_ = x;
}

std::pair<double, double> InverseKinematics::farthest(const Vector& x) {
    double distance = 0, angle = 0;
    state_.place(x.data());
    for (const Target& target : targets) {
        const Pose here = state_.pose(target.body) * target.frame;
        distance = std::max(distance, (here.p - target.pose.p).norm());
        if (target.turns) angle = std::max(angle, so3_log(here.R.transpose() * target.pose.R).norm());
    }
    return {distance, angle};
}

double InverseKinematics::largest_error(const Vector& x) {
    evaluate(x);
    return largest(errors_);
}

double InverseKinematics::squares(const Vector& x) {
    evaluate(x);
    return errors_.squaredNorm();
}

double InverseKinematics::motion(const Vector& x) const { return (x - start).head(state_.model().dof).norm(); }

std::pair<InverseKinematics::Vector, int> InverseKinematics::solve(Vector x) {
    for (int i = 0; i < x.size(); ++i)
        if (moving[i]) x[i] = std::min(std::max(x[i], lower[i]), upper[i]);
    int used = reduce_errors(x, iterations);
    if (largest_error(x) > reached) return {x, used};
    double length = motion(x), scale = 1;
    Vector before, step_before;
    for (int k = 0; k < iterations; ++k) {
        const Vector s = step(x, pull_of_start, 1e-9);
        const double moved = largest(s);
        // Barzilai and Borwein (1988): the step's change over the last motion is the curvature
        if (before.size() && scale == 1) {
            const Vector went = x - before;
            const double change = went.dot(step_before - s);
            if (change > 0) scale = std::clamp(went.squaredNorm() / change, 0.1, 10.0);
        }
        if (moved < 1e-9 || scale < 1e-3) break;
        Vector trial = (x + s * std::min(scale, longest_step / moved))
                           .cwiseMax(lower.cwiseMin(x))
                           .cwiseMin(upper.cwiseMax(x));
        used += 1 + reduce_errors(trial, 10);
        const double shorter = motion(trial);
        if (largest_error(trial) > reached || shorter >= length) {
            scale *= 0.3;
            continue;
        }
        const bool done = length - shorter < 1e-12 * length;
        before = x;
        step_before = s;
        x = trial;
        length = shorter;
        scale = 1;
        if (done) break;
    }
    return {x, used};
}

// Levenberg and Marquardt's method on the errors alone, within the bounds.
int InverseKinematics::reduce_errors(Vector& x, int most) {
    double damping = 1e-4, size = squares(x);
    int slow = 0;
    for (int used = 0; used < most; ++used) {
        if (size <= 1e-26) return used;
        const Vector s = step(x, 0.0, damping);
        const double moved = largest(s);
        const Vector trial = x + s * std::min(1.0, longest_step / std::max(moved, 1e-300));
        const double value = squares(trial);
        if (value < size) {
            slow = size - value < 1e-3 * size ? slow + 1 : 0;
            x = trial;
            size = value;
            damping = std::max(damping / 10, 1e-10);
            if (slow == 6) return used;  // it does not get nearer
        } else if (damping > 1e3) {
            return used;
        } else {
            damping = std::max(10 * damping, 1e-6);
        }
        if (moved < 1e-14) return used;
    }
    return most;
}

InverseKinematics::Vector InverseKinematics::step(const Vector& x, double pull, double damping) {
    evaluate(x);
    const int n = static_cast<int>(x.size()), dof = state_.model().dof, m = static_cast<int>(errors_.size());
    Vector result = Vector::Zero(n);
    std::vector<int> free;
    for (int i = 0; i < n; ++i)
        if (moving[i]) free.push_back(i);
    const int k = static_cast<int>(free.size());
    if (!k) return result;
    // pull^2 (s - away)^2 + damping^2 s^2 is weight^2 (s - pull^2 away / weight^2)^2 and a constant
    Eigen::MatrixXd A = Eigen::MatrixXd::Zero(m + k, k);
    Vector b(m + k), low(k), high(k);
    b.head(m) = -errors_;
    for (int i = 0; i < k; ++i) {
        const int at = free[i];
        const double own = at < dof ? pull : 0.0, weight = std::hypot(own, damping);
        A.col(i).head(m) = rows_.col(at);
        A(m + i, i) = weight;
        b[m + i] = own * own / weight * (start[at] - x[at]);
        low[i] = lower[at] - x[at];
        high[i] = upper[at] - x[at];
    }
    Vector s = A.householderQr().solve(b);
    bool beyond = false;
    for (int i = 0; i < k; ++i) beyond = beyond || s[i] < low[i] - 1e-15 || s[i] > high[i] + 1e-15;
    if (beyond) s = within_bounds(A, b, low.cwiseMin(0.0), high.cwiseMax(0.0), s);
    for (int i = 0; i < k; ++i) result[free[i]] = s[i];
    return result;
}

}  // namespace supple
