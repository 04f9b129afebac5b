// The Python class of a mechanism in motion: a System and its Stepper.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>

#include "engine/equations.hpp"
#include "engine/stepper.hpp"
#include "spatial/finite_array.hpp"

namespace supple {

// What the numbers of a user's array mean: torques and set-points (dof,) of the spanning tree, controls (actuators,).
struct ArrayInputs {
    std::vector<int> axes;              // of the tree's coordinates
    std::vector<double> efforts;        // (axes,) largest torque on each coordinate; zero where none acts
    std::vector<int> sprung, motors;    // per coordinate: whether it has a spring; row of the motor on it, -1 without
    std::vector<double> lower, upper;   // ranges of controls
    std::vector<double> shares;         // per actuator: change of its force with the set-point of the spring that contains it
    // By name: actuators; coordinates that take a torque; set-points of the coordinates' springs, of the couplings' springs (from
    // `axes()` on) and of motors (from there on).
    NamedNumbers controls, torques, targets;
};

class Engine {
   public:
    System system;
    ArrayInputs arrays;
    // It stays where it is when `start` makes another one, because a World refers to it. Reading the system copies its state from it.
    mutable std::optional<Stepper> stepper;

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
    }
    // Force of each actuator in the present state, before its gear.
    Array actuator_forces() const {
        const System& s = synchronised();
        std::vector<double> forces;
        for (std::size_t i = 0; i < s.actuation.size(); ++i) {
            const Actuator& each = s.model().actuators[i];
            const double x = each.axis >= 0 ? s.state.q[each.axis] : s.model().springs[each.spring].of.value(s.state.q);
            const double speed = each.axis >= 0 ? s.rate[each.axis] : s.model().springs[each.spring].of.value(s.rate);
            double slope;
            forces.push_back(each.force(s.actuation[i], x, speed, 0.0, slope));
        }
        return numpy(std::move(forces), {s.actuation.size()});
    }

    // Sets controls, limited to their ranges: by name, or an array (actuators,). False, and nothing is changed, where `read_finite` and
    // `NamedNumbers::read` are.
    bool set_controls(nb::handle given, nb::handle control) {
        const std::size_t n = system.actuation.size();
        auto set = [&](std::size_t i, double value) {
            system.actuation[i].on = true;
            system.actuation[i].control = std::clamp(value, arrays.lower[i], arrays.upper[i]);
        };
        Doubles controls;
        if (!n) return false;
        if (control.is_none() && read_finite(given, n, controls)) {
            refresh();
            for (std::size_t i = 0; i < n; ++i) set(i, controls.data()[i]);
            return true;
        }
        if (!arrays.controls.read(given, control)) return false;
        refresh();
        for (const auto& [i, value] : arrays.controls.values()) set(i, value);
        return true;
    }
    // Sets torques, limited to the efforts: by name, or an array (dof,). False, and nothing is changed, as for `set_controls`, and if one
    // is on a coordinate that takes none.
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
    // Sets set-points: by name, or an array (dof,) of those of the springs and motors on coordinates. False, and nothing is changed, as
    // for `set_controls`, and if one is beyond `furthest`.
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
                if (arrays.motors[i] >= 0)
                    system.targets[arrays.motors[i]] = targets.data()[i];
                else if (arrays.sprung[i])
                    system.rest[arrays.axes[i]] = targets.data()[i];
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
            if (place < axes)
                system.rest[place] = value;
            else if (place < axes + springs)
                system.spring_rest[place - axes] = value;
            else
                system.targets[place - axes - springs] = value;
        }
        shift_controls();
        return true;
    }
    // Another wrench of a load that is in these axes already. False, and nothing is changed, otherwise and where `read_finite` is.
    bool set_wrench(std::size_t load, nb::handle wrench, bool world) {
        Doubles six;
        if (load >= system.loads.size() || system.loads[load].world != world || !read_finite(wrench, 6, six)) return false;
        refresh();
        system.loads[load].wrench = Vec6(six.data());
        return true;
    }

    // Coordinates (dof,) of the spanning tree, as a `named_array`.
    nb::object tree_q(const nb::tuple& like) const {
        if (stepper) stepper->sync_coordinates();
        return named_array(like, arrays.axes.size(), [&](double* q) {
            for (std::size_t i = 0; i < arrays.axes.size(); ++i) q[i] = system.state.q[arrays.axes[i]];
        });
    }
    // Their time derivatives. The rate of a rotation vector r is Jr(r)^-1 times that of its increments.
    nb::object tree_rates(const nb::tuple& like) const {
        if (stepper) stepper->sync_coordinates();
        return named_array(like, arrays.axes.size(), [&](double* rates) {
            for (std::size_t i = 0; i < arrays.axes.size(); ++i) {
                const int axis = arrays.axes[i];
                if (system.model().single[axis]) {
                    rates[i] = system.rate[axis];
                    continue;
                }
                Eigen::Map<Vec3>(rates + i) = so3_right_jacobian_inverse(Vec3(&system.state.q[axis])) * Vec3(&system.rate[axis]);
                i += 2;
            }
        });
    }
    void read_poses(nb::handle to) const {  // (bodies, 4, 4)
        const int n = system.bodies();
        Filled rows(to, 16 * n);
        for (int b = 0; b < n; ++b) {
            double* last = rows.data() + 16 * b + 12;
            last[0] = last[1] = last[2] = 0;
            last[3] = 1;
        }
        if (stepper && stepper->poses_follow_tree()) return stepper->write_poses(rows.data());
        const std::vector<Pose>& H = synchronised().state.H;
        for (int b = 0; b < n; ++b) write(H[b], rows.data() + 16 * b);
    }
    nb::object velocities(const nb::tuple& like) const {  // (bodies, 6)
        return named_array(like, 6 * system.bodies(), [&](double* rows) {
            if (stepper) return stepper->write_velocities(rows);
            for (int b = 0; b < system.bodies(); ++b) Eigen::Map<Vec6>(rows + 6 * b) = system.velocity[b];
        });
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

    // Sets coordinates and multipliers, with the poses that follow.
    void place(const Doubles& q, const Doubles& lambda, const Doubles& mu) {
        sync();
        system.state = state_of(system, q, lambda, mu);
        system.evaluate(false);
    }

    void start(double h, int order, double time, const Doubles& velocities, const Doubles& rates) {
        expect(velocities, 6 * system.model().mass.size());
        expect(rates, system.axes());
        stepper.emplace(system, h, order);
        stepper->time = time;
        stepper->start(vectors<6>(velocities), doubles(rates));
    }

    void refresh() {  // to be called after inputs of a step (loads, handles, set-points) were changed
        if (stepper) stepper->refresh();
    }
    // The system after the last step. The passes keep a state of their own; `synchronised` copies it to the system for
    // reading, `sync` also makes the passes read the system at the next step, because the caller will change it.
    const System& synchronised() const {
        if (stepper) stepper->sync();
        return system;
    }
    void sync() {
        if (!stepper) return;
        stepper->sync();
        stepper->changed();
    }

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
        synchronised();
        const History& h = stepper->history;
        std::vector<double> flat{stepper->time, stepper->fresh ? 1.0 : 0.0};
        auto put = [&](const std::vector<double>& v) { flat.insert(flat.end(), v.begin(), v.end()); };
        auto put6 = [&](const std::vector<Vec6>& all) {
            for (const Vec6& v : all) flat.insert(flat.end(), v.data(), v.data() + 6);
        };
        for (const auto* v : {&system.state.q, &system.state.mu, &h.q_before, &h.p, &h.p_before, &h.rate_before,
                              &h.length, &h.length_before, &system.rate})
            put(*v);
        for (const auto* v : {&system.state.lambda, &h.momentum, &h.momentum_before, &system.velocity}) put6(*v);
        for (const auto* v : {&h.turn, &h.centre, &h.centre_before})
            for (const Vec3& each : *v) flat.insert(flat.end(), each.data(), each.data() + 3);
        for (int a : system.active()) flat.push_back(a);
        for (const auto* all : {&h.flexible, &h.flexible_before})
            for (const FlexibleState& each : *all)
                visit_numbers(each, [&](const double* values, std::size_t count) { flat.insert(flat.end(), values, values + count); });
        stepper->save(flat);
        const std::size_t n = flat.size();
        return numpy(std::move(flat), {n});
    }

    void set_history(const Doubles& flat) { set_history(flat.data(), flat.size()); }
    void set_history(const double* at, std::size_t size) {
        History& h = stepper->history;
        const std::size_t na = system.axes(), nr = system.model().rows.size(), ns = system.model().springs.size(),
                          nj = system.model().joints.size(), nbod = system.model().mass.size();
        std::size_t own = 2 + 6 * na + 2 * nr + 2 * ns + 6 * nj + 27 * nbod;
        for (FlexibleState& each : h.flexible) visit_numbers(each, [&](double*, std::size_t count) { own += 2 * count; });
        if (size != own + stepper->saved_size())
            throw std::invalid_argument("array of unexpected size");
        const double* passes = at + own;
        stepper->tape.reset();
        stepper->time = *at++;
        stepper->fresh = *at++ != 0;
        for (auto* v : {&system.state.q, &system.state.mu, &h.q_before, &h.p, &h.p_before, &h.rate_before, &h.length,
                        &h.length_before, &system.rate}) {
            std::copy(at, at + v->size(), v->begin());
            at += v->size();
        }
        for (auto* all : {&system.state.lambda, &h.momentum, &h.momentum_before, &system.velocity})
            for (Vec6& v : *all) {
                v = Eigen::Map<const Vec6>(at);
                at += 6;
            }
        for (auto* all : {&h.turn, &h.centre, &h.centre_before})
            for (Vec3& v : *all) {
                v = Eigen::Map<const Vec3>(at);
                at += 3;
            }
        const std::vector<int> active(at, at + nr);
        at += nr;
        for (auto* all : {&h.flexible, &h.flexible_before})
            for (FlexibleState& each : *all)
                visit_numbers(each, [&](double* values, std::size_t count) {
                    std::copy_n(at, count, values);
                    at += count;
                });
        system.flexible_state = h.flexible;
        h.q = system.state.q;
        h.rate = system.rate;
        const auto rate = system.rate;
        const auto velocity = system.velocity;
        const auto lambda = system.state.lambda;
        system.evaluate(false);  // poses
        system.rate = rate;
        system.velocity = velocity;
        system.state.lambda = lambda;
        system.momentum = h.momentum;
        system.set_active(active);
        h.H = system.state.H;
        stepper->restore(passes);
    }

   private:
    void set_torque(int axis, double torque) { system.applied[axis] = std::clamp(torque, -arrays.efforts[axis], arrays.efforts[axis]); }
    double set_point_of(const Actuator& actuator) const {
        return actuator.axis >= 0 ? system.rest[actuator.axis] : system.spring_rest[actuator.spring];
    }
    void keep_set_points_of_actuators() {
        set_points_before_.clear();
        for (const Actuator& each : system.model().actuators) set_points_before_.push_back(set_point_of(each));
    }
    // A set-point moves the force of a spring by stiffness times its change since `keep_set_points_of_actuators`. The actuator that the
    // spring contains takes all of it.
    void shift_controls() {
        for (std::size_t i = 0; i < arrays.shares.size(); ++i) {
            const Actuator& actuator = system.model().actuators[i];
            const double change = set_point_of(actuator) - set_points_before_[i];
            if (arrays.shares[i] == 0 || change == 0) continue;
            Actuation& by = system.actuation[i];
            const double force = arrays.shares[i] * change;
            by.contained += force;
            (actuator.dynamics == Actuator::integrator ? by.activation : by.control) += force / actuator.gain[0];
        }
    }

    std::vector<double> set_points_before_;
};

}  // namespace supple
