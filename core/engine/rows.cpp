// Rigid rows: couplings, motors and limits; limits as stiff springs.
#include <algorithm>
#include <cmath>

#include "engine/system.hpp"

namespace supple {

// Torque of a stop at penetration p: k p^2 / (2 onset) up to p = onset, then k (p - onset / 2).
void Row::stop_torque(double value, double& torque, double& slope, double& energy) const {
    torque = slope = energy = 0;
    const double sign = value > upper ? 1 : -1, depth = value > upper ? value - upper : lower - value;
    if (!(depth > 0)) return;
    const double over = std::max(depth - onset, 0.0), within = depth - over;
    torque = sign * stop * (within * within / (2 * onset) + over);
    slope = stop * within / onset;
    energy = stop * (within * within * within / (6 * onset) + over * (onset + over) / 2);
}

// The torque of a stop grows quadratically, so Newton's method in the coordinate converges only linearly to a light
// touch. The unknown of the step is therefore the torque: the coordinate moves to the value at which the stop has the
// linearly predicted torque. A negative prediction means that the stop is left. It is trusted only within the onset; at
// a deeper penetration the tangent is not accurate enough for such a small torque, and the Newton step in the
// coordinate is used.
double Row::pushed_to(double from, double to) const {
    double torque, slope, energy;
    stop_torque(from, torque, slope, energy);
    if (slope == 0 || to == from) return to;
    const double sign = torque > 0 ? 1 : -1, limit = torque > 0 ? upper : lower;
    const double next = sign * (torque + slope * (to - from)) / stop;  // p^2 / (2 onset), or p - onset / 2
    if (next < 0) return slope < stop ? limit + sign * next * stop / slope : to;
    return limit + sign * penetration(next);
}

double Row::penetration(double torque_over_stiffness) const {
    return torque_over_stiffness < onset / 2 ? std::sqrt(2 * onset * torque_over_stiffness)
                                             : torque_over_stiffness + onset / 2;
}

void System::set_stops(bool on) {
    if (stops == on) return;
    for (std::size_t r = 0; r < model_->rows.size(); ++r) {
        const Row& row = model_->rows[r];
        if (row.stop == 0) continue;
        double slope, energy;
        state.mu[r] = 0;
        if (!on) row.stop_torque(row.of.value(state.q), state.mu[r], slope, energy);
    }
    stops = on;
}

// A row is active if its multiplier, corrected by the regularised error, pushes (augmented Lagrangian). A row without
// force becomes active only beyond the rounding of its coordinates: at rest on a limit it would otherwise be met and
// left in turn.
void System::fill_row(int r, bool tangent) {
    const Row& row = model_->rows[r];
    const double value = row.of.value(state.q);
    const double stiff = penalty * regular_scale_, mu = state.mu[r];
    double torque = 0, slope = 0, energy = 0;
    const bool stop = is_stop(r);
    if (stop) row.stop_torque(value, torque, slope, energy);
    if (stop || (released && !row.equality)) {
        active_[r] = 0;
        row_error_[r] = 0;
    } else if (active_fixed) {
        row_error_[r] = active_[r] == 0 ? 0
                                        : value - (row.equality     ? targets[r]
                                                   : active_[r] > 0 ? row.upper
                                                                    : row.lower);
    } else if (row.equality) {
        active_[r] = 1;
        row_error_[r] = value - targets[r];
    } else if (mu + stiff * (value - row.upper - (mu > 0 ? 0 : limit_rounding)) > 0) {
        active_[r] = 1;
        row_error_[r] = value - row.upper;
    } else if (mu + stiff * (value - row.lower + (mu < 0 ? 0 : limit_rounding)) < 0) {
        active_[r] = -1;
        row_error_[r] = value - row.lower;
    } else {
        active_[r] = 0;
        row_error_[r] = 0;
    }
    residual_[row_start_ + r] = active_[r] ? -row_error_[r] : mu / regular_scale_;
    for (std::size_t i = 0; i < row.of.axes.size(); ++i)
        residual_[axis_row_[row.of.axes[i]]] -= row.of.coefficients[i] * (mu + torque);
    if (!tangent) return;
    const int e = bodies() + static_cast<int>(model_->joints.size() + model_->springs.size()) + r;
    const auto& rows_of = fronts_->element_rows(e);
    const int n = static_cast<int>(rows_of.size()), last = n - 1;
    Eigen::Map<Eigen::MatrixXd> element(fronts_->element(e), n, n);
    element.setZero();
    if (!active_[r]) element(last, last) = -regular_scale_;  // inactive: the multiplier and its torque become zero
    auto place = [&](int axis) {
        return static_cast<int>(std::find(rows_of.begin(), rows_of.end(), axis_row_[axis]) - rows_of.begin());
    };
    for (std::size_t i = 0; i < row.of.axes.size(); ++i) {
        const int at = place(row.of.axes[i]);
        element(at, last) = regular_scale_ * row.of.coefficients[i];
        if (active_[r]) element(last, at) = element(at, last);
        for (std::size_t k = 0; slope != 0 && k < row.of.axes.size(); ++k)
            element(at, place(row.of.axes[k])) += slope * row.of.coefficients[i] * row.of.coefficients[k];
    }
}

}  // namespace supple
