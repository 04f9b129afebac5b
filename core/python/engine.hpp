// The Python class of a mechanism in motion: a System and its Stepper.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "python/equations.hpp"
#include "engine/stepper.hpp"
#include "python/finite_array.hpp"

namespace supple {

// What the numbers of a user's array mean: torques and set-points (dof,) of the spanning tree, controls (actuators,).
struct ArrayInputs {
    std::vector<int> axes;              // of the tree's coordinates
    std::vector<double> efforts;        // largest torque on each; zero where none acts
    std::vector<int> sprung, motors;    // per coordinate: whether it has a spring; row of the motor on it, -1 without
    std::vector<double> lower, upper;   // ranges of controls
    std::vector<double> shares;         // per actuator: change of its force with the set-point of the spring that contains it
};

class Engine {
   public:
    System system;
    ArrayInputs arrays;
    std::optional<Stepper> stepper;  // has the state; it stays where it is when `start` makes another one, because a World refers to it

    Engine(const Equations& of, const Acting& acting) : system(of.new_system()) { act(acting); }

    // (actuators, 4): whether it is on, control, activation, and the constant part of the force that the springs contain.
    Array actuation() const {
        std::vector<double> values;
        for (const Actuation& each : system.actuation) values.insert(values.end(), {each.on ? 1.0 : 0.0, each.control, each.activation, each.contained});
        return numpy(std::move(values), {system.actuation.size(), 4});
    }
    void set_actuation(const Doubles& values) {
        expect(values, 4 * system.actuation.size());
        refresh();
        const double* at = values.data();
        for (Actuation& each : system.actuation) {
            each.on = *at++ != 0;
            each.control = *at++;
            each.activation = *at++;
            each.contained = *at++;
        }
        for (std::size_t i = 0; stepper && i < system.actuation.size(); ++i) stepper->state.activation[i] = system.actuation[i].activation;
    }
    // Force of each actuator in the present state, before its gear.
    Array actuator_forces() const {
        const auto [q, rates] = coordinates();
        std::vector<double> forces;
        for (std::size_t i = 0; i < system.actuation.size(); ++i) {
            const Actuator& each = system.model().actuators[i];
            const double x = each.axis >= 0 ? q[each.axis] : system.model().springs[each.spring].of.value(q);
            const double speed = each.axis >= 0 ? rates[each.axis] : system.model().springs[each.spring].of.value(rates);
            double slope;
            forces.push_back(each.force(system.actuation[i], x, speed, 0.0, slope));
        }
        return numpy(std::move(forces), {system.actuation.size()});
    }

    // Sets controls (actuators,), limited to their ranges. False, and nothing is changed, where `read_finite` is.
    bool set_controls(nb::handle given) {
        const std::size_t n = system.actuation.size();
        Doubles controls;
        if (!n || !read_finite(given, n, controls)) return false;
        refresh();
        for (std::size_t i = 0; i < n; ++i) {
            system.actuation[i].on = true;
            system.actuation[i].control = std::clamp(controls.data()[i], arrays.lower[i], arrays.upper[i]);
        }
        return true;
    }
    // Sets torques (dof,), limited to the efforts. False, and nothing is changed, as for `set_controls`, and if one is on a coordinate
    // that takes none.
    bool set_torques(nb::handle given) {
        Doubles torques;
        if (!read_finite(given, arrays.axes.size(), torques)) return false;
        for (std::size_t i = 0; i < torques.size(); ++i)
            if (arrays.efforts[i] == 0 && torques.data()[i] != 0) return false;
        refresh();
        for (std::size_t i = 0; i < torques.size(); ++i)
            system.applied[arrays.axes[i]] = std::clamp(torques.data()[i], -arrays.efforts[i], arrays.efforts[i]);
        return true;
    }
    // Sets the set-points (dof,) of the springs and motors on coordinates. False, and nothing is changed, as for `set_controls`, and if
    // one is beyond `furthest`.
    bool set_targets(nb::handle given, double furthest) {
        Doubles targets;
        if (!read_finite(given, arrays.axes.size(), targets)) return false;
        bool some = false;
        for (std::size_t i = 0; i < targets.size(); ++i) {
            if (!arrays.sprung[i] && arrays.motors[i] < 0) continue;
            some = true;
            if (std::abs(targets.data()[i]) > furthest) return false;
        }
        if (!some) return false;
        refresh();
        const std::vector<double> before = set_points_of_actuators();
        for (std::size_t i = 0; i < targets.size(); ++i) {
            if (arrays.motors[i] >= 0)
                system.targets[arrays.motors[i]] = targets.data()[i];
            else if (arrays.sprung[i])
                system.rest[arrays.axes[i]] = targets.data()[i];
        }
        shift_controls(before);
        return true;
    }

    // Coordinates (axes,) and rates of their increments; without `loops` perhaps not those of loop joints.
    std::pair<std::vector<double>, std::vector<double>> coordinates(bool loops = true) const {
        if (!stepper) return {system.state.q, system.rate};
        std::vector<double> q(system.axes()), rates(system.axes());
        stepper->layout().coordinates(system.model(), stepper->state, q.data(), rates.data(), loops);
        return {std::move(q), std::move(rates)};
    }
    // Coordinates (dof,) of the spanning tree.
    Array tree_q() const {
        const auto [all, rates] = coordinates(stepper && stepper->layout().own_tree);
        std::vector<double> q;
        for (int axis : arrays.axes) q.push_back(all[axis]);
        return numpy(std::move(q), {arrays.axes.size()});
    }
    // Their time derivatives. The rate of a rotation vector r is Jr(r)^-1 times that of its increments.
    Array tree_rates() const {
        const auto [q, all] = coordinates(stepper && stepper->layout().own_tree);
        std::vector<double> rates;
        for (std::size_t i = 0; i < arrays.axes.size(); ++i) {
            const int axis = arrays.axes[i];
            if (system.model().single[axis]) {
                rates.push_back(all[axis]);
                continue;
            }
            const Vec3 rate = so3_right_jacobian_inverse(Vec3(&q[axis])) * Vec3(&all[axis]);
            rates.insert(rates.end(), rate.data(), rate.data() + 3);
            i += 2;
        }
        return numpy(std::move(rates), {arrays.axes.size()});
    }
    Array body_poses() const {
        if (!stepper) return poses(system.state.H);
        std::vector<double> rows(16 * system.bodies());
        stepper->layout().write_poses(stepper->state.slots, rows.data());
        return numpy(std::move(rows), {static_cast<std::size_t>(system.bodies()), 4, 4});
    }
    Array velocities() const {
        std::vector<Vec6> twists = system.velocity;
        for (int b = 0; stepper && b < system.bodies(); ++b) twists[b] = stepper->layout().twist(system.model(), stepper->state, b);
        return sixes(twists);
    }
    Array reactions() const {
        return sixes(stepper ? stepper->layout().wrenches(system.model(), system.gravity, stepper->state) : system.state.lambda);
    }
    Array mu() const {
        const std::vector<double>& all = stepper ? stepper->state.mu : system.state.mu;
        return numpy(all, {all.size()});
    }

    // Everything that acts, but handles, torques and actuators.
    void act(const Acting& acting) {
        refresh();
        set_acting(system, acting);
    }
    void set_loads(std::vector<Load> loads) {
        refresh();
        system.loads = std::move(loads);
    }
    // Sets one of the loads, or adds it behind the others.
    void set_load(std::size_t i, int body, const Doubles& point, const Doubles& wrench, bool world) {
        expect(point, 3);
        expect(wrench, 6);
        if (i > system.loads.size()) throw std::out_of_range("there is no such load");
        refresh();
        if (i == system.loads.size()) system.loads.emplace_back();
        system.loads[i] = {body, Vec3(point.data()), Vec6(wrench.data()), world};
    }
    // Other set-points, as in `Equations::acting`. Controls move with those of the springs that contain their actuators.
    void aim(const Doubles& rest, const std::vector<double>& spring_rest, const std::vector<double>& targets) {
        refresh();
        const std::vector<double> before = set_points_of_actuators();
        set_points(system, rest, spring_rest, targets);
        shift_controls(before);
    }

    void set_handles(const std::vector<int>& body, const Doubles& points, const Doubles& targets,
                     const std::vector<double>& stiffness, const std::vector<double>& damping) {
        refresh();
        const auto at = vectors<3>(points), to = vectors<3>(targets);
        system.handles.clear();
        for (std::size_t i = 0; i < body.size(); ++i)
            system.handles.push_back({body[i], at[i], to[i], stiffness[i], damping[i]});
    }

    void set_applied(const Doubles& torques) {
        refresh();
        expect(torques, system.axes());
        system.applied = doubles(torques);
    }

    // Sets coordinates and multipliers, with the poses that follow, for `start`.
    void place(const Doubles& q, const Doubles& lambda, const Doubles& mu) {
        system.state = state_of(system, q, lambda, mu);
        system.evaluate(false);
    }

    void start(double h, int order, double time, const Doubles& velocities, const Doubles& rates) {
        expect(velocities, 6 * system.model().mass.size());
        expect(rates, system.axes());
        stepper.emplace(system, h, order);
        stepper->start(time, vectors<6>(velocities), doubles(rates));
    }

    void refresh() { ++system.input_changes; }  // to be called after inputs of a step (loads, handles, set-points) were changed

    // Steps once for every row of `targets` (n, driven rows); returns how many steps succeeded.
    int step(const std::vector<int>& driven, const Doubles& targets, int n) {
        expect(targets, driven.size() * n);
        nb::gil_scoped_release release;
        for (int k = 0; k < n; ++k)
            if (!stepper->step(driven, targets.data() + k * driven.size())) return k;
        return n;
    }

    // Records the following time steps, until another record begins or the state is set from outside.
    std::shared_ptr<Tape> record() {
        stepper->start_tape();
        return stepper->tape;
    }

    // Everything that the next step depends on, as one flat array.
    Array history() const {
        std::vector<double> flat = stepper->state.numbers();
        const std::size_t n = flat.size();
        return numpy(std::move(flat), {n});
    }
    void set_history(const Doubles& flat) {
        if (!stepper->restore(flat.data(), flat.size())) throw std::invalid_argument("array of unexpected size");
    }

    // The two states of the history in the description's terms, as one flat array; for tests of derivatives.
    Array described() {
        std::vector<double> flat;
        visit_described([&](const double* from, std::size_t count) { flat.insert(flat.end(), from, from + count); });
        const std::size_t n = flat.size();
        return numpy(std::move(flat), {n});
    }
    void set_described(const Doubles& flat) {
        std::size_t size = 0;
        visit_described([&](const double*, std::size_t count) { size += count; });
        expect(flat, size);
        const double* from = flat.data();
        visit_described([&](double* to, std::size_t count) {
            std::copy_n(from, count, to);
            from += count;
        });
        History& h = stepper->history;
        const auto lambda = system.state.lambda;
        const auto velocity = system.velocity;
        h.q = system.state.q;
        h.rate = system.rate;
        system.evaluate(false);
        system.state.lambda = lambda;
        system.velocity = velocity;
        h.H = system.state.H;
        stepper->take(h);
    }

   private:
    template <class Visit>
    void visit_described(Visit visit) {
        stepper->evaluated();
        History& h = stepper->history;
        for (auto* v : {&system.state.q, &system.state.mu, &h.q_before, &h.p, &h.p_before, &h.rate_before, &system.rate}) visit(v->data(), v->size());
        for (auto* all : {&system.state.lambda, &h.momentum, &h.momentum_before, &system.velocity})
            for (Vec6& v : *all) visit(v.data(), 6);
        for (auto* all : {&h.turn, &h.centre, &h.centre_before})
            for (Vec3& v : *all) visit(v.data(), 3);
        for (auto* all : {&h.flexible, &h.flexible_before})
            for (FlexibleState& each : *all) visit_numbers(each, visit);
    }

    std::vector<double> set_points_of_actuators() const {
        std::vector<double> values;
        for (const Actuator& each : system.model().actuators) values.push_back(each.axis >= 0 ? system.rest[each.axis] : system.spring_rest[each.spring]);
        return values;
    }
    // A set-point moves the force of a spring by stiffness times its change. The actuator that the spring contains takes all of it.
    void shift_controls(const std::vector<double>& before) {
        const std::vector<double> now = set_points_of_actuators();
        for (std::size_t i = 0; i < arrays.shares.size(); ++i) {
            if (arrays.shares[i] == 0 || now[i] == before[i]) continue;
            const Actuator& actuator = system.model().actuators[i];
            Actuation& by = system.actuation[i];
            const double force = arrays.shares[i] * (now[i] - before[i]);
            by.contained += force;
            (actuator.dynamics == Actuator::integrator ? by.activation : by.control) += force / actuator.gain[0];
            if (stepper) stepper->state.activation[i] = by.activation;
        }
    }
};

}  // namespace supple
