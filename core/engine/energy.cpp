// Energies of springs and weight.
#include "engine/system.hpp"

namespace supple {

namespace {

// A spring k (x - rest). The energy that actuators store on x is that of their own force, not that of the springs that
// contain it: these keep the force  k (x - rest) + slope x + offset.
struct LinearSpring {
    double stiffness, rest, slope = 0, offset = 0;

    // Removes the part of an actuator and returns the energy that it stores at x, zero if it is switched off.
    double exchange(const Actuator& actuator, const Actuation& by, double x) {
        slope += actuator.gear * actuator.gear * actuator.share[0];
        offset += actuator.gear * by.contained;
        const double own = -(actuator.gain[1] * by.activation + actuator.bias[1]);
        double unused;
        const double force = actuator.force(by, x, 0, 0, unused);
        return own > 0 ? force * (actuator.unlimited(by, x, 0) - 0.5 * force) / own : 0;
    }
    double energy(double x) const {
        const double force = stiffness * (x - rest) + slope * x + offset, left = stiffness + slope;
        return left > 1e-9 * stiffness ? 0.5 * force * force / left : 0;  // below that it is rounding of the difference
    }
};

}  // namespace

double System::strain_energy(const std::vector<double>& q) const {
    double sum = 0, t, s, e;
    std::vector<LinearSpring> of_axes, of_combinations;
    for (int axis = 0; axis < axes(); ++axis) of_axes.push_back({model_->stiffness[axis], rest[axis]});
    for (std::size_t k = 0; k < model_->springs.size(); ++k)
        of_combinations.push_back({model_->springs[k].stiffness, spring_rest[k]});
    for (std::size_t i = 0; i < model_->actuators.size(); ++i) {
        const Actuator& each = model_->actuators[i];
        if (each.share[0] == 0) continue;  // no spring
        sum += each.axis >= 0 ? of_axes[each.axis].exchange(each, actuation[i], q[each.axis])
                              : of_combinations[each.spring].exchange(each, actuation[i],
                                                                      model_->springs[each.spring].of.value(q));
    }
    for (int axis = 0; axis < axes(); ++axis) {
        const double deflection = q[axis] - rest[axis];
        sum += of_axes[axis].energy(q[axis]);
        if (model_->curve[axis] >= 0) {
            double zero;
            model_->curves[model_->curve[axis]].evaluate(deflection, t, s, e);
            model_->curves[model_->curve[axis]].evaluate(0, t, s, zero);
            sum += e - zero;
        }
    }
    for (std::size_t k = 0; k < model_->springs.size(); ++k) {
        const Spring& spring = model_->springs[k];
        const double deflection = spring.of.value(q) - spring_rest[k];
        sum += of_combinations[k].energy(spring.of.value(q));
        if (spring.curve >= 0) {
            double zero;
            model_->curves[spring.curve].evaluate(deflection, t, s, e);
            model_->curves[spring.curve].evaluate(0, t, s, zero);
            sum += e - zero;
        }
    }
    for (std::size_t r = 0; r < model_->rows.size(); ++r) {
        if (!is_stop(static_cast<int>(r))) continue;
        const Row& row = model_->rows[r];
        row.stop_torque(row.of.value(q), t, s, e);
        sum += e;
    }
    for (const FlexibleBody& each : flexible) sum += each.strain_energy(&q[each.axis]);
    return sum;
}

double System::gravity_energy(const std::vector<Pose>& H, const std::vector<double>& q) const {
    double sum = 0;
    for (int b = 0; b < bodies(); ++b) sum -= model_->mass[b] * gravity.dot(H[b].act(model_->centre[b]));
    for (const FlexibleBody& each : flexible) sum += each.potential_energy(H[each.body], &q[each.axis], gravity);
    return sum;
}

}  // namespace supple
