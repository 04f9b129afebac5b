// Flexible bodies in the sweeps over recorded time steps.
//
// With z = (c, Z) a body's state and V = D z its rate, where D is the backward difference of the step, its generalised
// forces depend on the accelerations D V = (c0 V + c1 V_1 + c2 V_2) / h, on eta and on the rate of the internal forces.
// The maps between twist, amplitudes and z are those of FlexibleBody; the sweeps add the differences.
#include "engine/adjoint.hpp"

namespace supple {

namespace {

// to += factor from, for positions (c, Z) or rates
void add_positions(Vec3& c, std::vector<Mat3>& Z, double factor, const Vec3& c_from, const std::vector<Mat3>& Z_from) {
    c += factor * c_from;
    for (std::size_t k = 0; k < Z.size(); ++k)
        for (int i = 0; i < 9; ++i) Z[k].data()[i] += factor * Z_from[k].data()[i];
}

}  // namespace

Mat3 Adjoint::flexible_axes(int f) const {
    const int i = node_of_[system_.flexible[f].body];
    return get(bodies_[i / width].motion.R, i % width);
}

// The internal force f is proportional to Young's modulus, with eta fixed. The forces are f + beta f' + alpha M eta',
// where f' and eta' are backward differences. The dependence of past internal forces on the modulus is part of the
// tangents and gradients of past states.
std::array<std::vector<double>, 3> Adjoint::material_forces(const Step& step, int f) const {
    const FlexibleBody& body = system_.flexible[f];
    const FlexibleState &now = system_.flexible_state[f], &one = history_.flexible[f],
                        &two = history_.flexible_before[f];
    const int r = body.modes();
    std::array<std::vector<double>, 3> result;
    for (auto& each : result) each.assign(r, 0.0);
    for (int p = 0; p < r; ++p) {
        result[0][p] = (1 + body.beta() * step.c0 / step.h) * now.force[p];
        for (int q = 0; q < r; ++q)
            result[1][p] += body.modal_mass(p, q) * step.rate(now.eta[q], one.eta[q], two.eta[q]);
        result[2][p] = step.rate(now.force[p], one.force[p], two.force[p]);
    }
    return result;
}

// --- backward
// -----------------------------------------------------------------------------------------------------------------

// V = (c0 z + c1 z_1 + c2 z_2) / h; then from z and the internal forces to twist and amplitudes.
void Adjoint::pull_back_flexible(const Step& step, Gradient& g, Gradient& last, Gradient& before,
                                 double* by_materials) {
    const double c0 = step.c0 / step.h, c1 = step.c1 / step.h, c2 = step.c2 / step.h;
    for (std::size_t f = 0; f < system_.flexible.size(); ++f) {
        const FlexibleBody& body = system_.flexible[f];
        FlexibleState& own = g.flexible[f];
        add_positions(own.c, own.Z, c0, own.c_rate, own.Z_rate);
        add_positions(last.flexible[f].c, last.flexible[f].Z, c1, own.c_rate, own.Z_rate);
        add_positions(before.flexible[f].c, before.flexible[f].Z, c2, own.c_rate, own.Z_rate);
        const Mat3 R = flexible_axes(static_cast<int>(f));
        Vec6 by_twist = Vec6::Zero();
        body.pull_back(R, own, by_twist, &g.q[body.axis]);
        for (int p = 0; p < body.modes(); ++p) by_materials[3 * f] += own.force[p] * system_.flexible_state[f].force[p];
        Gradient::Bodies& to = g.bodies[node_of_[body.body] / width];
        const int l = node_of_[body.body] % width;
        put(to.P, l, get(to.P, l) + R * by_twist.head<3>());
        put(to.F, l, get(to.F, l) + R * by_twist.tail<3>());
    }
}

// Accelerations (c0 V + c1 V_1 + c2 V_2) / h, with V as above; damping.
void Adjoint::add_flexible_past(const Step& step, Gradient& last, Gradient& before, Vec3& by_gravity,
                                double* by_materials) {
    const double c0 = step.c0 / step.h, c[2] = {step.c1 / step.h, step.c2 / step.h};
    std::vector<Mat3> by_Z;
    for (std::size_t f = 0; f < system_.flexible.size(); ++f) {
        const FlexibleBody& body = system_.flexible[f];
        const int i = node_of_[body.body], r = body.modes();
        const Mat3 R = flexible_axes(static_cast<int>(f)), Rt = R.transpose();
        const Six& z = z_[i / width];
        const Vec6 twist = stack(Rt * get(z.linear, i % width), Rt * get(z.angular, i % width));
        const double* eta = &z_axes_[body.axis];
        Vec3 by_c;
        body.accelerations_by(R, twist, eta, by_c, by_Z);
        by_gravity += by_c;
        const auto forces = material_forces(step, static_cast<int>(f));
        for (int k = 0; k < 3; ++k)
            for (int p = 0; p < r; ++p) by_materials[3 * f + k] -= forces[k][p] * eta[p];
        Gradient* to[2] = {&last, &before};
        for (int s = 0; s < 2; ++s) {
            FlexibleState& past = to[s]->flexible[f];
            add_positions(past.c_rate, past.Z_rate, -c[s], by_c, by_Z);
            add_positions(past.c, past.Z, -c0 * c[s], by_c, by_Z);
            for (int p = 0; p < r; ++p) {
                past.force[p] -= body.beta() * c[s] * eta[p];
                for (int q = 0; q < r; ++q)
                    to[s]->q[body.axis + p] -= body.alpha() * c[s] * body.modal_mass(p, q) * eta[q];
            }
        }
    }
}

// At a record of the start, where `system_` is evaluated.
void Adjoint::pull_back_flexible_start(int record, const Gradient& g, const std::vector<Vec6>& velocities,
                                       InputArrays& result) {
    for (std::size_t f = 0; f < system_.flexible.size(); ++f) {
        const FlexibleBody& body = system_.flexible[f];
        const FlexibleState& state = tape_->flexible[record][f];
        Vec6 by_twist = Vec6::Zero(), by_velocity = Vec6::Zero();
        body.pull_back_start(system_.state.H[body.body].R, state, velocities[body.body].tail<3>(), g.flexible[f],
                             by_twist, by_velocity, &result.increments[record][body.axis],
                             &result.rates[record][body.axis]);
        for (int p = 0; p < body.modes(); ++p) result.materials[3 * f] += g.flexible[f].force[p] * state.force[p];
        Eigen::Map<Vec6>(&result.twists[record][6 * body.body]) += by_twist;
        Eigen::Map<Vec6>(&result.velocities[record][6 * body.body]) += by_velocity;
    }
}

// --- forward
// ------------------------------------------------------------------------------------------------------------------

// Minus the changes of the generalised forces with the past and with gravity.
void Adjoint::add_flexible_forces(const InputArrays* directions, int count, const Tangents& last,
                                  const Tangents& before) {
    const Step& step = tape_->records[record_].step;
    const double c0 = step.c0 / step.h, c1 = step.c1 / step.h, c2 = step.c2 / step.h;
    for (std::size_t f = 0; f < system_.flexible.size(); ++f) {
        const FlexibleBody& body = system_.flexible[f];
        const int i = node_of_[body.body], r = body.modes();
        const Mat3 R = flexible_axes(static_cast<int>(f));
        const auto by_material = material_forces(step, static_cast<int>(f));
        for (int column = 0; column < count; ++column) {
            const FlexibleState &one = last.flexible[width * f + column], &two = before.flexible[width * f + column];
            FlexibleState change = body.zero_state();  // of the accelerations, in c and Z
            add_positions(change.c, change.Z, c1, one.c_rate, one.Z_rate);
            add_positions(change.c, change.Z, c2, two.c_rate, two.Z_rate);
            add_positions(change.c, change.Z, c0 * c1, one.c, one.Z);
            add_positions(change.c, change.Z, c0 * c2, two.c, two.Z);
            if (!directions[column].gravity.empty()) change.c -= Vec3(directions[column].gravity.data());
            Vec6 wrench = Vec6::Zero();
            std::vector<double> force(r, 0.0);
            body.forces_of(R, change.c, change.Z, wrench, force.data());
            for (int k = 0; k < 3 && !directions[column].materials.empty(); ++k)
                for (int p = 0; p < r; ++p) force[p] += directions[column].materials[3 * f + k] * by_material[k][p];
            for (int p = 0; p < r; ++p) {
                force[p] += body.beta() * (c1 * one.force[p] + c2 * two.force[p]);
                for (int q = 0; q < r; ++q)
                    force[p] += body.alpha() * body.modal_mass(p, q) *
                                (c1 * last.q[body.axis + q][column] + c2 * before.q[body.axis + q][column]);
                axes_[body.axis + p][column] -= force[p];
            }
            put(wrenches_[i].linear, column, get(wrenches_[i].linear, column) - R * wrench.head<3>());
            put(wrenches_[i].angular, column, get(wrenches_[i].angular, column) - R * wrench.tail<3>());
        }
    }
}

void Adjoint::step_flexible(const InputArrays* directions, int count, Tangents& now, const Tangents& last,
                            const Tangents& before) {
    for (std::size_t f = 0; f < system_.flexible.size(); ++f) {
        const FlexibleBody& body = system_.flexible[f];
        const Mat3 R = flexible_axes(static_cast<int>(f)), Rt = R.transpose();
        const Six& H = now.H[node_of_[body.body]];
        std::vector<double> eta(body.modes());
        for (int column = 0; column < count; ++column) {
            FlexibleState& state = now.flexible[width * f + column] = body.zero_state();
            for (int p = 0; p < body.modes(); ++p) eta[p] = now.q[body.axis + p][column];
            const Vec6 twist = stack(Rt * get(H.linear, column), Rt * get(H.angular, column));
            body.add_motion(R, twist, eta.data(), state);
            if (!directions[column].materials.empty())
                for (int p = 0; p < body.modes(); ++p)
                    state.force[p] += directions[column].materials[3 * f] * system_.flexible_state[f].force[p];
            FlexibleBody::set_rates(tape_->records[record_].step, last.flexible[width * f + column],
                                    before.flexible[width * f + column], state);
        }
    }
}

void Adjoint::start_flexible(int record, const std::vector<Vec6>& velocities, const InputArrays* directions, int count,
                             Tangents& now) {
    for (std::size_t f = 0; f < system_.flexible.size(); ++f) {
        const FlexibleBody& body = system_.flexible[f];
        const FlexibleState& state = tape_->flexible[record][f];
        const std::vector<double> none(std::max(6, body.modes()), 0.0);
        auto part = [&](const std::vector<double>& all, int first) {
            return all.empty() ? none.data() : all.data() + first;
        };
        for (int column = 0; column < count; ++column) {
            const InputArrays& d = directions[column];
            const Vec6 twist(part(d.twists[record], 6 * body.body)), faster(part(d.velocities[record], 6 * body.body));
            body.add_start(system_.state.H[body.body].R, state, velocities[body.body].tail<3>(), twist, faster,
                           part(d.increments[record], body.axis), part(d.rates[record], body.axis),
                           now.flexible[width * f + column]);
            for (int p = 0; p < body.modes() && !d.materials.empty(); ++p)
                now.flexible[width * f + column].force[p] += d.materials[3 * f] * state.force[p];
        }
    }
}

}  // namespace supple
