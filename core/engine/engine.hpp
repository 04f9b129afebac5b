// The Python class of a System and its Stepper.
#pragma once

#include <nanobind/ndarray.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "engine/branch.hpp"
#include "engine/model_builder.hpp"
#include "engine/stepper.hpp"
#include "spatial/arrays.hpp"

namespace supple {

namespace nb = nanobind;

using Array = NumpyArray;

inline Array poses(const std::vector<Pose>& all) {
    std::vector<double> values(16 * all.size(), 0.0);
    for (std::size_t i = 0; i < all.size(); ++i) {
        write(all[i], &values[16 * i]);
        values[16 * i + 15] = 1;
    }
    return numpy(std::move(values), {all.size(), 4, 4});
}

inline Array sixes(const std::vector<Vec6>& all) {
    std::vector<double> values(6 * all.size());
    for (std::size_t i = 0; i < all.size(); ++i) Eigen::Map<Vec6>(values.data() + 6 * i) = all[i];
    return numpy(std::move(values), {all.size(), 6});
}

class Engine {
   public:
    System system;
    // It stays where it is when `start` makes another one, because a World refers to it. Reading the system copies its state from it.
    mutable std::optional<Stepper> stepper;

    explicit Engine(const ModelBuilder& described) : system(described.prepared()) {}
    // A model with other numbers: stiffness or inertia.
    void use(const ModelBuilder& changed) {
        if (stepper) throw std::logic_error("the passes of time steps keep the numbers of their model");
        system.use(changed.prepared());
    }

    // Closes loops with small gaps at the coordinates q, as `System::with_closed_loops`.
    void absorb_gaps(const Doubles& q, double below) {
        expect(q, system.axes());
        if (auto closed = system.with_closed_loops(doubles(q), below)) system.use(std::move(closed));
    }

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

    void set_loads(const std::vector<int>& body, const Doubles& points, const Doubles& wrenches,
                   const std::vector<bool>& world) {
        refresh();
        const auto at = vectors<3>(points);
        const auto values = vectors<6>(wrenches);
        system.loads.clear();
        for (std::size_t i = 0; i < body.size(); ++i) system.loads.push_back({body[i], at[i], values[i], world[i]});
    }

    void set_handles(const std::vector<int>& body, const Doubles& points, const Doubles& targets,
                     const std::vector<double>& stiffness, const std::vector<double>& damping) {
        refresh();
        const auto at = vectors<3>(points), to = vectors<3>(targets);
        system.handles.clear();
        for (std::size_t i = 0; i < body.size(); ++i)
            system.handles.push_back({body[i], at[i], to[i], stiffness[i], damping[i]});
    }

    void set_gravity(const Doubles& gravity) {
        refresh();
        expect(gravity, 3);
        system.gravity = Vec3(gravity.data());
    }

    void set_rest(const Doubles& rest) {
        refresh();
        expect(rest, system.axes());
        system.rest = doubles(rest);
    }

    void set_applied(const Doubles& torques) {
        refresh();
        expect(torques, system.axes());
        system.applied = doubles(torques);
    }

    void set_spring_rest(int spring, double rest) {
        refresh();
        system.spring_rest.at(spring) = rest;
    }
    void set_target(int row, double target) {
        refresh();
        system.targets.at(row) = target;
    }

    // The present state with other coordinates and multipliers; poses follow when it is evaluated.
    State state(const Doubles& q, const Doubles& lambda, const Doubles& mu) const {
        expect(q, system.axes());
        expect(lambda, 6 * system.model().joints.size());
        expect(mu, system.model().rows.size());
        State result = system.state;
        result.q = doubles(q);
        result.lambda = vectors<6>(lambda);
        result.mu = doubles(mu);
        return result;
    }

    void set_state(const Doubles& q, const Doubles& lambda, const Doubles& mu) {
        sync();
        system.state = state(q, lambda, mu);
    }

    // Right-hand side of Newton's step.
    Array evaluate(bool tangent) {
        sync();
        {
            nb::gil_scoped_release release;
            system.evaluate(tangent);
        }
        return numpy(system.residual(), {system.residual().size()});
    }

    int factorise(double shift) {
        nb::gil_scoped_release release;
        return system.factorise(shift);
    }

    std::pair<Array, double> solve(const Doubles& rhs, bool transposed) {
        expect(rhs, system.unknowns());
        std::vector<double> x(system.unknowns());
        double error;
        {
            nb::gil_scoped_release release;
            error = system.solve(rhs.data(), x.data(), transposed, true);
        }
        return {numpy(std::move(x), {static_cast<std::size_t>(system.unknowns())}), error};
    }

    void retract(const Doubles& q, const Doubles& lambda, const Doubles& mu, const Doubles& x, double alpha) {
        expect(x, system.unknowns());
        set_state(q, lambda, mu);
        const State base = system.state;
        system.retract(base, x.data(), alpha);
    }

    // One step along a branch of equilibria, from a state. `limits`: the numbers of BranchLimits but the last two.
    std::tuple<bool, double, std::vector<int>, std::vector<double>> continue_branch(const Doubles& q, const Doubles& lambda, const Doubles& mu,
                                                                                    const Doubles& limits, int iterations,
                                                                                    bool definite) {
        expect(limits, 7);
        set_state(q, lambda, mu);
        const double* at = limits.data();
        BranchStep step;
        {
            nb::gil_scoped_release release;
            step = supple::continue_branch(system, {at[0], at[1], at[2], at[3], at[4], at[5], at[6], iterations, definite});
        }
        return {step.converged, step.rate, step.changed, step.history};
    }

    // `continue_branch` from one state under each of several sets of loads: for each whether it converged, and the position (3,) of a
    // point of a body then (of the world if the body is -1). Set k has the loads from ends[k - 1] to ends[k]; definite[k] says whether
    // they have a potential.
    std::tuple<std::vector<bool>, Array> positions_under(const Doubles& q, const Doubles& lambda, const Doubles& mu, const Doubles& limits,
                                                         int iterations, const std::vector<int>& ends, const std::vector<bool>& definite,
                                                         const std::vector<int>& bodies,
                                                         const Doubles& points, const Doubles& wrenches, const std::vector<bool>& world,
                                                         int body, const Doubles& point) {
        expect(limits, 7);
        expect(point, 3);
        const auto at = vectors<3>(points);
        const auto values = vectors<6>(wrenches);
        if (at.size() != bodies.size() || values.size() != bodies.size() || world.size() != bodies.size())
            throw std::invalid_argument("as many points, wrenches and axes as bodies are needed");
        set_state(q, lambda, mu);
        const double* size = limits.data();
        const Vec3 on_body(point.data());
        std::vector<bool> converged;
        std::vector<double> positions;
        {
            nb::gil_scoped_release release;
            const State start = system.state;
            std::size_t first = 0;
            for (std::size_t k = 0; k < ends.size(); ++k) {
                system.loads.clear();
                for (; first < static_cast<std::size_t>(ends[k]); ++first)
                    system.loads.push_back({bodies.at(first), at[first], values[first], world[first]});
                system.state = start;
                const BranchStep step =
                    supple::continue_branch(system, {size[0], size[1], size[2], size[3], size[4], size[5], size[6], iterations,
                                                     definite.at(k)});
                converged.push_back(step.converged);
                const Vec3 found = body < 0 ? on_body : Vec3(system.state.H.at(body).R * on_body + system.state.H[body].p);
                positions.insert(positions.end(), found.data(), found.data() + 3);
            }
        }
        return {std::move(converged), numpy(std::move(positions), {ends.size(), 3})};
    }

    // Static equilibria along a path of set-points: Newton's method from each state to the next. `targets` (n, driven rows).
    // Poses (k, bodies, 4, 4) and coordinates (k, axes) of the first k that converge to a stable state.
    std::tuple<int, Array, Array> follow_statics(const std::vector<int>& driven, const Doubles& targets, int n) {
        expect(targets, driven.size() * n);
        std::vector<double> all_poses, all_q;
        std::size_t k = 0;
        {
            nb::gil_scoped_release release;
            sync();
            std::vector<double> x(system.unknowns());
            for (; k < static_cast<std::size_t>(n); ++k) {
                for (std::size_t i = 0; i < driven.size(); ++i)
                    system.targets[driven[i]] = targets.data()[k * driven.size() + i];
                bool converged = false;
                for (int iteration = 0; iteration < 20 && !converged; ++iteration) {
                    system.evaluate(true);
                    system.factorise();
                    system.solve(system.residual().data(), x.data(), false, true);
                    const double size = system.motion_size(x.data());
                    if (!(size < 1) || system.fronts().negative()) break;
                    const State base = system.state;
                    system.retract(base, x.data(), 1.0);
                    converged = size < 1e-9;
                }
                if (!converged) break;
                system.evaluate(false);
                all_q.insert(all_q.end(), system.state.q.begin(), system.state.q.end());
                const std::size_t first = all_poses.size();
                all_poses.resize(first + 16 * system.state.H.size(), 0.0);
                for (std::size_t b = 0; b < system.state.H.size(); ++b) {
                    write(system.state.H[b], &all_poses[first + 16 * b]);
                    all_poses[first + 16 * b + 15] = 1;
                }
            }
        }
        const std::size_t bodies = system.state.H.size(), axes = system.axes();
        return {static_cast<int>(k), numpy(std::move(all_poses), {k, bodies, 4, 4}), numpy(std::move(all_q), {k, axes})};
    }

    std::vector<int> axis_rows() const {
        std::vector<int> result;
        for (int axis = 0; axis < system.axes(); ++axis) result.push_back(system.axis_row(axis));
        return result;
    }
    std::vector<int> lambda_rows() const {
        std::vector<int> result;
        for (std::size_t j = 0; j < system.model().joints.size(); ++j) result.push_back(system.lambda_row(static_cast<int>(j)));
        return result;
    }

    void start(double h, int order, double time, const Doubles& velocities, const Doubles& rates) {
        expect(velocities, 6 * system.model().mass.size());
        expect(rates, system.axes());
        stepper.emplace(system, h, order);
        stepper->time = time;
        stepper->start(vectors<6>(velocities), doubles(rates));
    }

    void refresh() {  // to be called after inputs of a step (loads, handles, set-points) were changed
        ++system.input_changes;
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
        stepper->refresh();
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
};

}  // namespace supple
