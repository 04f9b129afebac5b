// The Python class of a mechanism in motion: a System and its Stepper.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engine/stepper.hpp"
#include "python/equations.hpp"
#include "python/finite_array.hpp"

namespace supple {

// What the numbers of a user's array mean: torques and set-points (dof,) of the spanning tree, controls (actuators,).
struct ArrayInputs {
    std::vector<int> axes;  // of the tree's coordinates
    std::vector<double> efforts;  // (axes,) largest torque on each coordinate; zero where none acts
    std::vector<int> sprung, motors;  // per coordinate: whether it has a spring; row of the motor on it, -1 without
    std::vector<double> lower, upper;  // ranges of controls
    std::vector<double> shares;  // per actuator: change of its force with the set-point of the spring that contains it
    // By name: actuators; coordinates that take a torque; set-points of the coordinates' springs, of the couplings'
    // springs (from `axes()` on) and of motors (from there on).
    NamedNumbers controls, torques, targets;
};

class Engine {
   public:
    System system;
    ArrayInputs arrays;
    // Has the state; it stays where it is when `start` makes another one, because a World refers to it
    std::optional<Stepper> stepper;

    Engine(const Equations& of, const Acting& acting) : system(of.new_system()) { act(acting); }

    // (actuators, 4): whether it is on, control, activation, and the constant part of the force that the springs
    // contain.
    Array actuation() const {
        std::vector<double> values;
        for (const Actuation& each : system.actuation)
            values.insert(values.end(), {each.on ? 1.0 : 0.0, each.control, each.activation, each.contained});
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
        for (std::size_t i = 0; stepper && i < system.actuation.size(); ++i)
            stepper->state.activation[i] = system.actuation[i].activation;
    }
    // Force of each actuator in the present state, before its gear.
    Array actuator_forces() const {
        const auto [q, rates] = coordinates();
        std::vector<double> forces;
        for (std::size_t i = 0; i < system.actuation.size(); ++i) {
            const Actuator& each = system.model().actuators[i];
            const double x = each.axis >= 0 ? q[each.axis] : system.model().springs[each.spring].of.value(q);
            const double speed = each.axis >= 0 ? rates[each.axis]
                                                : system.model().springs[each.spring].of.value(rates);
            double slope;
            forces.push_back(each.force(system.actuation[i], x, speed, 0.0, slope));
        }
        return numpy(std::move(forces), {system.actuation.size()});
    }

    // Sets controls, limited to their ranges: by name, or an array (actuators,). False, and nothing is changed, where
    // `read_finite` and `NamedNumbers::read` are.
    bool set_controls(nb::handle given, nb::handle control) {
        const std::size_t n = system.actuation.size();
        auto set = [&](std::size_t i, double value) {
            system.actuation[i].on = true;
            system.actuation[i].control = std::clamp(value, arrays.lower[i], arrays.upper[i]);
        };
        Doubles controls;
        if (!n) return false;
        if (control.is_none() && read_finite(given, n, controls)) {
            for (std::size_t i = 0; i < n; ++i) set(i, controls.data()[i]);
            return true;
        }
        if (!arrays.controls.read(given, control)) return false;
        for (const auto& [i, value] : arrays.controls.values()) set(i, value);
        return true;
    }
    // Sets torques, limited to the efforts: by name, or an array (dof,). False, and nothing is changed, as for
    // `set_controls`, and if one is on a coordinate that takes none.
    bool set_torques(nb::handle given, nb::handle torque) {
        Doubles torques;
        const std::size_t n = arrays.axes.size();
        if (torque.is_none() && read_finite(given, n, torques)) {
            for (std::size_t i = 0; i < n; ++i)
                if (arrays.efforts[arrays.axes[i]] == 0 && torques.data()[i] != 0) return false;
            refresh();
            for (std::size_t i = 0; i < n; ++i) set_torque(arrays.axes[i], torques.data()[i]);
            return true;
        }
        if (!arrays.torques.read(given, torque)) return false;
        refresh();
        for (const auto& [axis, value] : arrays.torques.values()) set_torque(axis, value);
        return true;
    }
    // Sets set-points: by name, or an array (dof,) of those of the springs and motors on coordinates. False, and
    // nothing is changed, as for `set_controls`, and if one is beyond `furthest`.
    bool set_targets(nb::handle given, nb::handle target, double furthest) {
        Doubles targets;
        if (target.is_none() && read_finite(given, arrays.axes.size(), targets)) {
            bool some = false;
            for (std::size_t i = 0; i < targets.size(); ++i) {
                if (!arrays.sprung[i] && arrays.motors[i] < 0) continue;
                some = true;
                if (std::abs(targets.data()[i]) > furthest) return false;
            }
            if (!some) return false;
            refresh();
            keep_set_points_of_actuators();
            for (std::size_t i = 0; i < targets.size(); ++i) {
                if (arrays.motors[i] >= 0) system.targets[arrays.motors[i]] = targets.data()[i];
                else if (arrays.sprung[i]) system.rest[arrays.axes[i]] = targets.data()[i];
            }
            shift_controls();
            return true;
        }
        if (!arrays.targets.read(given, target)) return false;
        for (const auto& [place, value] : arrays.targets.values())
            if (std::abs(value) > furthest) return false;
        refresh();
        keep_set_points_of_actuators();
        const int axes = system.axes(), springs = static_cast<int>(system.spring_rest.size());
        for (const auto& [place, value] : arrays.targets.values()) {
            if (place < axes) system.rest[place] = value;
            else if (place < axes + springs) system.spring_rest[place - axes] = value;
            else system.targets[place - axes - springs] = value;
        }
        shift_controls();
        return true;
    }
    // Another wrench of a load that is in these axes already. False, and nothing is changed, otherwise and where
    // `read_finite` is.
    bool set_wrench(std::size_t load, nb::handle wrench, bool world) {
        Doubles six;
        if (load >= system.loads.size() || system.loads[load].world != world || !read_finite(wrench, 6, six))
            return false;
        refresh();
        system.loads[load].wrench = Vec6(six.data());
        return true;
    }

    // Coordinates (axes,) and rates of their increments; without `loops` perhaps not those of loop joints.
    std::pair<std::vector<double>, std::vector<double>> coordinates(bool loops = true) const {
        if (!stepper) return {system.state.q, system.rate};
        std::pair<std::vector<double>, std::vector<double>> found;
        fill_coordinates(found.first, found.second, loops);
        return found;
    }
    // Coordinates (dof,) of the spanning tree, as a `named_array`.
    nb::object tree_q(const nb::tuple& like) const {
        fill_tree_coordinates();
        return named_array(like, arrays.axes.size(), [&](double* q) {
            for (std::size_t i = 0; i < arrays.axes.size(); ++i) q[i] = q_[arrays.axes[i]];
        });
    }
    // Their time derivatives. The rate of a rotation vector r is Jr(r)^-1 times that of its increments.
    nb::object tree_rates(const nb::tuple& like) const {
        fill_tree_coordinates();
        return named_array(like, arrays.axes.size(), [&](double* rates) {
            for (std::size_t i = 0; i < arrays.axes.size(); ++i) {
                const int axis = arrays.axes[i];
                if (system.model().single[axis]) {
                    rates[i] = rates_[axis];
                    continue;
                }
                Eigen::Map<Vec3>(rates + i) = so3_right_jacobian_inverse(Vec3(&q_[axis])) * Vec3(&rates_[axis]);
                i += 2;
            }
        });
    }
    void read_poses(nb::handle to) const {  // (bodies, 4, 4)
        Filled rows(to, 16 * system.bodies());
        if (stepper) return stepper->layout().write_poses(stepper->state.slots, rows.data());
        for (int b = 0; b < system.bodies(); ++b) {
            double* own = rows.data() + 16 * b;
            write(system.state.H[b], own);
            own[12] = own[13] = own[14] = 0;
            own[15] = 1;
        }
    }
    nb::object velocities(const nb::tuple& like) const {  // (bodies, 6)
        return named_array(like, 6 * system.bodies(), [&](double* rows) {
            if (stepper) return stepper->layout().write_velocities(system.model(), stepper->state, rows);
            for (int b = 0; b < system.bodies(); ++b) Eigen::Map<Vec6>(rows + 6 * b, 6) = system.velocity[b];
        });
    }
    Array reactions() const {
        return sixes(stepper ? stepper->layout().wrenches(system.model(), system.gravity, stepper->state)
                             : system.state.lambda);
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
    // Other set-points, as in `Equations::acting`. Controls move with those of the springs that contain their
    // actuators.
    void aim(const Doubles& rest, const std::vector<double>& spring_rest, const std::vector<double>& targets) {
        refresh();
        keep_set_points_of_actuators();
        set_points(system, rest, spring_rest, targets);
        shift_controls();
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

    // To be called after inputs of a step (loads, handles, set-points) were changed
    void refresh() { ++system.input_changes; }

    // Steps once for every row of `targets` (n, driven rows); returns how many steps succeeded.
    int step(const std::vector<int>& driven, const Doubles& targets, int n) {
        expect(targets, driven.size() * n);
        nb::gil_scoped_release release;
        for (int k = 0; k < n; ++k)
            if (!stepper->step(driven, targets.data() + k * driven.size())) return k;
        return n;
    }

    int step(int n) {  // without motors that follow a function of time
        nb::gil_scoped_release release;
        for (int k = 0; k < n; ++k)
            if (!stepper->step({}, nullptr)) return k;
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
        for (auto* v :
             {&system.state.q, &system.state.mu, &h.q_before, &h.p, &h.p_before, &h.rate_before, &system.rate})
            visit(v->data(), v->size());
        for (auto* all : {&system.state.lambda, &h.momentum, &h.momentum_before, &system.velocity})
            for (Vec6& v : *all) visit(v.data(), 6);
        for (auto* all : {&h.turn, &h.centre, &h.centre_before})
            for (Vec3& v : *all) visit(v.data(), 3);
        for (auto* all : {&h.flexible, &h.flexible_before})
            for (FlexibleState& each : *all) visit_numbers(each, visit);
    }

    void fill_coordinates(std::vector<double>& q, std::vector<double>& rates, bool loops) const {
        q.resize(system.axes());
        rates.resize(system.axes());
        stepper->layout().coordinates(system.model(), stepper->state, q.data(), rates.data(), loops);
    }
    void fill_tree_coordinates() const {
        if (stepper) return fill_coordinates(q_, rates_, stepper->layout().own_tree);
        q_ = system.state.q;
        rates_ = system.rate;
    }
    void set_torque(int axis, double torque) {
        system.applied[axis] = std::clamp(torque, -arrays.efforts[axis], arrays.efforts[axis]);
    }
    double set_point_of(const Actuator& actuator) const {
        return actuator.axis >= 0 ? system.rest[actuator.axis] : system.spring_rest[actuator.spring];
    }
    void keep_set_points_of_actuators() {
        set_points_before_.clear();
        for (const Actuator& each : system.model().actuators) set_points_before_.push_back(set_point_of(each));
    }
    // A set-point moves the force of a spring by stiffness times its change since `keep_set_points_of_actuators`. The
    // actuator that the spring contains takes all of it.
    void shift_controls() {
        for (std::size_t i = 0; i < arrays.shares.size(); ++i) {
            const Actuator& actuator = system.model().actuators[i];
            const double change = set_point_of(actuator) - set_points_before_[i];
            if (arrays.shares[i] == 0 || change == 0) continue;
            Actuation& by = system.actuation[i];
            const double force = arrays.shares[i] * change;
            by.contained += force;
            (actuator.dynamics == Actuator::integrator ? by.activation : by.control) += force / actuator.gain[0];
            if (stepper) stepper->state.activation[i] = by.activation;
        }
    }

    std::vector<double> set_points_before_;
    mutable std::vector<double> q_, rates_;  // (axes,), kept so that reading allocates nothing
};

}  // namespace supple
