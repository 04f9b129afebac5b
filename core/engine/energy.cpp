// Energies and the total momentum.
#include "engine/system.hpp"

namespace supple {

double System::strain_energy() const {
    double sum = 0, t, s, e;
    for (int axis = 0; axis < axes(); ++axis) {
        const double deflection = state.q[axis] - rest[axis];
        sum += 0.5 * model_->stiffness[axis] * deflection * deflection;
        if (model_->curve[axis] >= 0) {
            double zero;
            model_->curves[model_->curve[axis]].evaluate(deflection, t, s, e);
            model_->curves[model_->curve[axis]].evaluate(0, t, s, zero);
            sum += e - zero;
        }
    }
    for (std::size_t k = 0; k < model_->springs.size(); ++k) {
        const Spring& spring = model_->springs[k];
        const double deflection = spring.of.value(state.q) - spring_rest[k];
        sum += 0.5 * spring.stiffness * deflection * deflection;
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
        row.stop_torque(row.of.value(state.q), t, s, e);
        sum += e;
    }
    for (const FlexibleBody& each : flexible) sum += each.strain_energy(&state.q[each.axis]);
    return sum;
}

double System::gravity_energy() const {
    double sum = 0;
    for (int b = 0; b < bodies(); ++b) sum -= model_->mass[b] * gravity.dot(state.H[b].act(model_->centre[b]));
    for (const FlexibleBody& each : flexible) sum += each.potential_energy(state.H[each.body], &state.q[each.axis], gravity);
    return sum;
}

Vec6 System::total_momentum() const {
    Vec6 sum = Vec6::Zero();
    for (int b = 0; b < bodies(); ++b) {
        const Vec3 linear = momentum[b].head<3>();
        sum += stack(linear, momentum[b].tail<3>() + state.H[b].act(model_->group_centre[b]).cross(linear));
    }
    for (std::size_t f = 0; f < flexible.size(); ++f) sum += flexible[f].momentum(flexible_state[f]);
    return sum;
}

double System::kinetic_energy() const {
    double sum = 0;
    for (int b = 0; b < bodies(); ++b) sum += 0.5 * velocity[b].dot(model_->spatial_inertia[b] * velocity[b]);
    for (int axis = 0; axis < axes(); ++axis) sum += 0.5 * model_->armature[axis] * rate[axis] * rate[axis];
    for (std::size_t f = 0; f < flexible.size(); ++f) sum += flexible[f].kinetic_energy(flexible_state[f]);
    return sum;
}

}  // namespace supple
