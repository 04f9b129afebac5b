// Spring curves, actuators, and springs on combinations of coordinates.
#include <algorithm>
#include <cmath>

#include "engine/system.hpp"

namespace supple {

void Curve::evaluate(double x, double& torque, double& slope, double& energy) const {
    // piece 0 and piece 1 start at the same break: everything to the left of it belongs to piece 0
    const auto piece = std::upper_bound(start.begin() + 1, start.end(), x) - start.begin() - 1;
    const auto& c = coefficients[piece];
    const double t = x - start[piece];
    torque = c[0] + t * (c[1] + t * (c[2] + t * c[3]));
    slope = c[1] + t * (2 * c[2] + t * 3 * c[3]);
    auto integral = [&](std::size_t i, double h) {
        const auto& k = coefficients[i];
        return h * (k[0] + h * (k[1] / 2 + h * (k[2] / 3 + h * k[3] / 4)));
    };
    energy = integral(piece, t);
    for (std::ptrdiff_t i = 1; i < piece; ++i) energy += integral(i, start[i + 1] - start[i]);
}

double Combination::value(const std::vector<double>& q) const {
    double sum = 0;
    for (std::size_t i = 0; i < axes.size(); ++i) sum += coefficients[i] * q[axes[i]];
    return sum;
}

double Actuator::next_activation(const Actuation& by, double h) const {
    if (dynamics == none) return by.control;
    const double next = dynamics == integrator ? by.activation + h * by.control
                                               : by.control + (by.activation - by.control) * std::exp(-h / lag);
    return std::min(std::max(next, least), most);
}

bool System::is_driven() const {
    for (std::size_t i = 0; i < model_->actuators.size(); ++i) {
        const Actuator& each = model_->actuators[i];
        const double x = each.axis >= 0 ? state.q[each.axis] : model_->springs[each.spring].of.value(state.q);
        double speed = each.axis >= 0 ? rate[each.axis] : model_->springs[each.spring].of.value(rate), slope;
        if (std::abs(excess(static_cast<int>(i), x, speed, 1.0, slope)) >
                1e-9 * std::abs(actuation[i].contained) + 1e-12 ||
            std::abs(slope) > 1e-9 * std::abs(each.share[0]))
            return true;
    }
    return false;
}

void System::fill_spring(int s, const Step* step, const History* history, bool tangent) {
    const Spring& spring = model_->springs[s];
    const double length = spring.of.value(state.q);
    double force = spring.stiffness * (length - spring_rest[s]), slope = spring.stiffness;
    if (spring.curve >= 0) {
        double t, d, e;
        model_->curves[spring.curve].evaluate(length - spring_rest[s], t, d, e);
        force += t;
        slope += d;
    }
    const double speed = step ? step->rate(length, history->length[s], history->length_before[s]) : 0.0,
                 c = step ? step->c0 / step->h : 0.0;
    force += spring.damping * speed;
    slope += spring.damping * c;
    for (std::size_t i = 0; i < model_->actuators.size(); ++i) {
        if (model_->actuators[i].spring != s) continue;
        double by_length;
        force -= excess(static_cast<int>(i), length, speed, c, by_length);
        slope -= by_length;
    }
    const auto& of = spring.of;
    for (std::size_t i = 0; i < of.axes.size(); ++i) residual_[axis_row_[of.axes[i]]] -= of.coefficients[i] * force;
    if (!tangent) return;
    const int e = bodies() + static_cast<int>(model_->joints.size()) + s;
    const auto& rows_of = fronts_->element_rows(e);
    const int n = static_cast<int>(rows_of.size());
    Eigen::Map<Eigen::MatrixXd> element(fronts_->element(e), n, n);
    element.setZero();
    std::vector<int> local;
    for (int axis : of.axes)
        local.push_back(static_cast<int>(std::find(rows_of.begin(), rows_of.end(), axis_row_[axis]) - rows_of.begin()));
    for (std::size_t i = 0; i < local.size(); ++i)
        for (std::size_t k = 0; k < local.size(); ++k)
            element(local[i], local[k]) += slope * of.coefficients[i] * of.coefficients[k];
}

}  // namespace supple
