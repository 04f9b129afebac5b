// Convex problems whose solutions lead to that of the contact laws.
//
// With the radii D = mu p_n of the discs of friction taken from the previous problem and a regularisation towards its
// impulses c,
//     p = P(c - (W p + b) / R),
// where P projects normal impulses onto p_n >= 0 and tangential ones onto their discs, is the optimality of a strictly
// convex problem. Newton's method with a line search solves it from any start. Where D and c no longer change, the
// contact laws hold.
#include <algorithm>
#include <cmath>

#include "contact/friction.hpp"

namespace supple {

namespace {
constexpr double regularisation = 0.05;  // R, relative to the largest response of the contact's own block
constexpr int most_inner = 6;  // Newton steps on one convex problem
}  // namespace

// p = P(c - u / R). With `directions` also the directions along which p follows the argument of P, with their slopes.
void FrictionSolver::project(const Vector& u, Vector& p, bool directions) {
    p.setZero(n_);
    if (directions) directions_.clear();
    auto one_sided = [&](int row, double weight) {
        p[row] = std::max(0.0, centre_[row] - u[row] / weight);
        if (directions && p[row] > 0) directions_.push_back({1, {row}, {1.0}, 1.0, weight});
    };
    for (int i = 0; i < contacts_; ++i) {
        if (blocks_[i].normal == 0) continue;
        int rows[6];
        const int count = rows_of(i, rows);
        const double weight = regularisation / blocks_[i].rho;
        one_sided(rows[0], weight);
        if (count == 1 || disc_[i] == 0) continue;
        double length = 0;
        for (int r = 1; r < count; ++r) {
            p[rows[r]] = centre_[rows[r]] - u[rows[r]] / weight;
            length += p[rows[r]] * p[rows[r]];
        }
        length = std::sqrt(length);
        const double ratio = length > disc_[i] ? disc_[i] / length : 1.0;
        if (directions && ratio == 1) {
            for (int r = 1; r < count; ++r) directions_.push_back({1, {rows[r]}, {1.0}, 1.0, weight});
        } else if (directions) {
            // those across the direction of sliding: columns of the reflection that takes the first axis to it
            double e[5];
            for (int r = 1; r < count; ++r) e[r - 1] = p[rows[r]] / length;
            const double sign = e[0] < 0 ? -1 : 1, by = 1 / (1 + std::abs(e[0]));
            for (int k = 1; k < count - 1; ++k) {
                Direction across{count - 1, {}, {}, ratio, weight};
                for (int r = 0; r < count - 1; ++r) {
                    across.rows[r] = rows[r + 1];
                    across.along[r] = (r == k) - (e[r] + (r == 0 ? sign : 0)) * e[k] * by;
                }
                directions_.push_back(across);
            }
        }
        for (int r = 1; r < count; ++r) p[rows[r]] *= ratio;
    }
    for (int i = first_limit_; i < n_; ++i)
        if (limit_rho_[i] > 0) one_sided(i, regularisation / limit_rho_[i]);
}

// Solves (I + J W / R) change = off with the derivative J of the projection. In the directions Q of J, with slopes s,
// it is (R / s + Q^T W Q) z = R / s Q^T off - Q^T W off', where off' = off - Q Q^T off, and change = off' + Q z.
bool FrictionSolver::convex_direction(const Vector& off, Vector& change) {
    const int m = static_cast<int>(directions_.size());
    change = off;
    if (!m) return true;
    const Eigen::Map<const Eigen::MatrixXd> all(W_.data(), n_, n_);
    Vector part(m);
    for (int k = 0; k < m; ++k) {
        const Direction& d = directions_[k];
        part[k] = 0;
        for (int r = 0; r < d.count; ++r) part[k] += d.along[r] * off[d.rows[r]];
        for (int r = 0; r < d.count; ++r) change[d.rows[r]] -= d.along[r] * part[k];
    }
    const Vector moved = all * change;
    jacobian_.resize(padded(m), m);
    right_.resize(m);
    Vector column(n_);
    for (int k = 0; k < m; ++k) {
        const Direction& d = directions_[k];
        const double* of;
        if (d.count == 1) {
            of = &W_[static_cast<std::size_t>(d.rows[0]) * n_];
        } else {
            column.setZero();
            for (int r = 0; r < d.count; ++r) column += d.along[r] * all.col(d.rows[r]);
            of = column.data();
        }
        double* to = jacobian_.col(k).data();
        for (int j = k; j < m; ++j) {
            const Direction& e = directions_[j];
            double sum = e.along[0] * of[e.rows[0]];
            for (int r = 1; r < e.count; ++r) sum += e.along[r] * of[e.rows[r]];
            to[j] = sum;
        }
        std::fill(to + m, to + jacobian_.rows(), 0.0);
        to[k] += d.weight / d.slope;
        right_[k] = d.weight / d.slope * part[k];
        for (int r = 0; r < d.count; ++r) right_[k] -= d.along[r] * moved[d.rows[r]];
    }
    if (!solve_newton_system(m, false)) return false;
    for (int k = 0; k < m; ++k) {
        const Direction& d = directions_[k];
        for (int r = 0; r < d.count; ++r) change[d.rows[r]] += d.along[r] * right_[k];
    }
    return true;
}

// Solves convex problems one after the other, with at most so many steps of Newton's method; starts from p and ends
// with the last solution.
void FrictionSolver::convex_round(int most) {
    const Eigen::Map<const Eigen::MatrixXd> all(W_.data(), n_, n_);
    const Eigen::Map<const Vector> free(b.data(), n_);
    Eigen::Map<Vector> now(p.data(), n_);
    Vector u(n_), target(n_), change(n_), turned(n_), trial(n_);
    disc_.resize(contacts_);
    for (const int end = std::min(steps_ + most, most_steps_); steps_ < end;) {
        centre_ = now;
        for (int i = 0; i < contacts_; ++i) disc_[i] = friction[i] * std::max(0.0, p[3 * i]);
        u.noalias() = all * now;
        u += free;
        for (int k = 0;; ++k) {
            project(u, target, true);
            const Vector off = target - now;
            const double error = (all * off).cwiseAbs().maxCoeff() / scale_;
            // a problem that is solved already counts as a step, too, so that there is an end
            if (k && (error <= std::max(0.1 * tolerance, 0.1 * residual_) || k == most_inner || steps_ >= end)) break;
            ++steps_;
            if (!convex_direction(off, change)) return;
            // the derivative along the change, of which the convex function's least value is a zero
            turned.noalias() = all * change;
            auto slope = [&](double a) {
                project(u + a * turned, trial, false);
                return turned.dot(now + a * change - trial);
            };
            const double at_start = slope(0);
            double a = 1, at_end = slope(1);
            if (at_end > 0.1 * std::abs(at_start)) {
                double low = 0, high = 1, f_low = at_start, f_high = at_end;
                for (int b = 0; b < 30; ++b) {
                    a = (low * f_high - high * f_low) / (f_high - f_low);
                    if (b % 3 == 2 || !(a > low && a < high)) a = 0.5 * (low + high);
                    const double value = slope(a);
                    if (std::abs(value) <= 0.1 * std::abs(at_start)) break;
                    (value > 0 ? high : low) = a;
                    (value > 0 ? f_high : f_low) = value;
                }
            }
            now += a * change;
            u += a * turned;
        }
        now = target;
        residual_ = compute_residual();
        keep_best();
        if (residual_ <= 0.1 * sufficient) return;
    }
}

}  // namespace supple
