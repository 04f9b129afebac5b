// The equations of statics of a prepared model. They have no state: a state and what acts go in, an equilibrium, an
// evaluation or a factorised tangent comes out, which nothing else changes.
#pragma once

#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "engine/branch.hpp"
#include "python/arrays.hpp"
#include "python/model_builder.hpp"

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

inline std::vector<Load> loads_of(const std::vector<int>& bodies, const Doubles& points, const Doubles& wrenches,
                                  const std::vector<bool>& world) {
    const auto at = vectors<3>(points);
    const auto values = vectors<6>(wrenches);
    if (at.size() != bodies.size() || values.size() != bodies.size() || world.size() != bodies.size())
        throw std::invalid_argument("as many points, wrenches and axes as bodies are needed");
    std::vector<Load> loads;
    for (std::size_t i = 0; i < bodies.size(); ++i) loads.push_back({bodies[i], at[i], values[i], world[i]});
    return loads;
}

// Coordinates and multipliers as a state of a system; poses follow when it is evaluated.
inline Configuration state_of(const System& system, const Doubles& q, const Doubles& lambda, const Doubles& mu) {
    expect(q, system.axes());
    expect(lambda, 6 * system.model().joints.size());
    expect(mu, system.model().rows.size());
    return {doubles(q), doubles(mu), vectors<6>(lambda), system.state.H};
}

// `targets`: of the first rows; the others are limits.
inline void set_points(Acting& acting, const Doubles& rest, const std::vector<double>& spring_rest,
                       const std::vector<double>& targets) {
    expect(rest, acting.rest.size());
    if (spring_rest.size() != acting.spring_rest.size() || targets.size() > acting.targets.size())
        throw std::invalid_argument("list of unexpected size");
    acting.rest = doubles(rest);
    acting.spring_rest = spring_rest;
    std::copy(targets.begin(), targets.end(), acting.targets.begin());
}

inline void expect_entries(const std::string& array, std::size_t found, std::size_t expected) {
    if (found != expected)
        throw std::invalid_argument(array + " has " + std::to_string(found) + " entries, but " +
                                    std::to_string(expected) + " are expected");
}

// Raises if `acting` was made for a system with another number of coordinates, springs or rows, or with more bodies.
inline void set_acting(System& system, const Acting& acting) {
    expect_entries("rest", acting.rest.size(), system.rest.size());
    expect_entries("spring_rest", acting.spring_rest.size(), system.spring_rest.size());
    expect_entries("targets", acting.targets.size(), system.targets.size());
    for (const Load& load : acting.loads)
        if (load.body < 0 || load.body >= system.bodies())
            throw std::invalid_argument("loads: body " + std::to_string(load.body) + " is none of the " +
                                        std::to_string(system.bodies()));
    static_cast<Acting&>(system) = acting;
}

class Equations {
   public:
    // Q (axes,), multipliers of joints (joints, 6) and of rows (rows,)
    using StateArrays = std::tuple<Array, Array, Array>;

    // Loops with gaps below `below` at the coordinates `reference` are closed, as by `System::with_closed_loops`.
    Equations(const ModelBuilder& described, const Doubles& reference, double below) : model_(described.prepared()) {
        auto system = std::make_shared<System>(model_);
        expect(reference, system->axes());
        if (auto closed = system->with_closed_loops(doubles(reference), below)) system->use(model_ = std::move(closed));
        blank_ = std::move(system);
    }
    // A model with the same joints, springs and rows, but other numbers.
    Equations with_numbers(const ModelBuilder& changed) const {
        Equations result(*this);
        result.model_ = changed.prepared();
        return result;
    }

    const std::shared_ptr<const Model>& model() const { return model_; }
    System new_system() const {
        System own = *blank_;
        if (&own.model() != model_.get()) own.use(model_);
        return own;
    }

    // Places of the unknowns: their number, the ranges of the twists and of the rows, and for each coordinate and (for
    // the first of six multipliers) each joint one place.
    auto layout() const {
        std::vector<int> axes, joints;
        for (int axis = 0; axis < blank_->axes(); ++axis) axes.push_back(blank_->axis_row(axis));
        for (std::size_t j = 0; j < model_->joints.size(); ++j)
            joints.push_back(blank_->lambda_row(static_cast<int>(j)));
        const System::Range twists = blank_->twists(), rows = blank_->rows();
        return std::make_tuple(blank_->unknowns(), std::make_pair(twists.start, twists.start + twists.size), axes,
                               joints, std::make_pair(rows.start, rows.start + rows.size));
    }

    Acting acting(std::vector<Load> loads, const Doubles& gravity, const Doubles& rest,
                  const std::vector<double>& spring_rest, const std::vector<double>& targets) const {
        expect(gravity, 3);
        Acting result = *blank_;
        set_points(result, rest, spring_rest, targets);
        result.gravity = Vec3(gravity.data());
        result.loads = std::move(loads);
        return result;
    }

    // A system for the caller alone. Its storage is used again when it is given up.
    std::shared_ptr<System> system(const Acting& acting, Configuration state) const {
        std::unique_ptr<System> own = spare_->exchange(nullptr);
        if (!own) own = std::make_unique<System>(new_system());
        else if (&own->model() != model_.get()) own->use(model_);
        set_acting(*own, acting);
        own->state = std::move(state);
        own->active_fixed = false;
        return {own.release(), [spare = spare_](System* done) { spare->exchange(std::unique_ptr<System>(done)); }};
    }
    std::shared_ptr<System> system(const Acting& acting, const Doubles& q, const Doubles& lambda,
                                   const Doubles& mu) const {
        return system(acting, state_of(*blank_, q, lambda, mu));
    }

    // One step along a branch of equilibria, from a state: whether it converged and to which state, and the numbers of
    // BranchStep. `limits`: the numbers of BranchLimits but the last two.
    std::tuple<bool, StateArrays, double, std::vector<int>, std::vector<double>> continue_branch(
        const Acting& acting, const Doubles& q, const Doubles& lambda, const Doubles& mu, const Doubles& limits,
        int iterations, bool definite) const {
        const auto own = system(acting, q, lambda, mu);
        const BranchLimits within = branch_limits(limits, iterations, definite);
        BranchStep step;
        {
            nb::gil_scoped_release release;
            step = supple::continue_branch(*own, within);
        }
        return {step.converged, arrays(own->state), step.rate, step.changed, step.history};
    }

    // `find_equilibrium` from a state: whether one was found and which, and the sizes of Newton's steps.
    std::tuple<bool, StateArrays, std::vector<double>> find_equilibrium(const Acting& acting, const Doubles& q,
                                                                        const Doubles& lambda, const Doubles& mu,
                                                                        const Doubles& limits, int iterations,
                                                                        bool definite, bool minimise) const {
        const auto own = system(acting, q, lambda, mu);
        const BranchLimits within = branch_limits(limits, iterations, definite);
        Search search;
        {
            nb::gil_scoped_release release;
            search = supple::find_equilibrium(*own, within, minimise);
        }
        return {search.found, arrays(own->state), search.history};
    }

    // `continue_branch` from the same state under each of several sets of loads: for each set whether it converged, and
    // the position (3,) that a point of a body reaches (of the world if `body` is -1). The first set has the loads of
    // `acting` up to number ends[0], set k those from number ends[k - 1] to ends[k]; definite[k] says whether they have
    // a potential. Gravity and set-points are those of `acting`.
    std::tuple<std::vector<bool>, Array> positions_under(const Acting& acting, const Doubles& q, const Doubles& lambda,
                                                         const Doubles& mu, const Doubles& limits, int iterations,
                                                         const std::vector<int>& ends,
                                                         const std::vector<bool>& definite, int body,
                                                         const Doubles& point) const {
        expect(point, 3);
        expect_entries("definite", definite.size(), ends.size());
        if (!std::is_sorted(ends.begin(), ends.end()) ||
            (!ends.empty() && (ends.front() < 0 || ends.back() > static_cast<int>(acting.loads.size()))))
            throw std::invalid_argument("ends must rise, from 0 to at most " + std::to_string(acting.loads.size()) +
                                        ", the number of loads");
        const auto own = system(acting, q, lambda, mu);
        const Vec3 on_body(point.data());
        const BranchLimits within = branch_limits(limits, iterations, true);
        std::vector<bool> converged;
        std::vector<double> positions;
        {
            nb::gil_scoped_release release;
            const Configuration start = own->state;
            auto first = acting.loads.begin();
            for (std::size_t k = 0; k < ends.size(); ++k) {
                const auto last = acting.loads.begin() + ends[k];
                own->loads.assign(first, last);
                first = last;
                own->state = start;
                BranchLimits now = within;
                now.definite = definite[k];
                converged.push_back(supple::continue_branch(*own, now).converged);
                const Vec3 found = body < 0 ? on_body : own->state.H.at(body).act(on_body);
                positions.insert(positions.end(), found.data(), found.data() + 3);
            }
        }
        return {std::move(converged), numpy(std::move(positions), {ends.size(), 3})};
    }

    // Static equilibria along a path of set-points `targets` (n, driven rows), each by `find_close` from the one before
    // it: the number k that was found before the first failure, their poses (k, bodies, 4, 4) and coordinates (k,
    // axes).
    std::tuple<int, Array, Array> follow(const Acting& acting, const Doubles& q, const Doubles& lambda,
                                         const Doubles& mu, const std::vector<int>& driven, const Doubles& targets,
                                         int n) const {
        expect(targets, driven.size() * n);
        const auto own = system(acting, q, lambda, mu);
        std::vector<double> all_poses, all_q;
        std::size_t k = 0;
        {
            nb::gil_scoped_release release;
            for (; k < static_cast<std::size_t>(n); ++k) {
                for (std::size_t i = 0; i < driven.size(); ++i)
                    own->targets.at(driven[i]) = targets.data()[k * driven.size() + i];
                if (!find_close(*own)) break;
                all_q.insert(all_q.end(), own->state.q.begin(), own->state.q.end());
                const std::size_t first = all_poses.size();
                all_poses.resize(first + 16 * own->state.H.size(), 0.0);
                for (std::size_t b = 0; b < own->state.H.size(); ++b) {
                    write(own->state.H[b], &all_poses[first + 16 * b]);
                    all_poses[first + 16 * b + 15] = 1;
                }
            }
        }
        const std::size_t bodies = own->bodies(), axes = own->axes();
        return {static_cast<int>(k), numpy(std::move(all_poses), {k, bodies, 4, 4}),
                numpy(std::move(all_q), {k, axes})};
    }

   private:
    class Spare {  // at most one system that nobody uses
       public:
        std::unique_ptr<System> exchange(std::unique_ptr<System> with) {
            const std::lock_guard lock(mutex_);
            std::swap(system_, with);
            return with;
        }

       private:
        std::mutex mutex_;
        std::unique_ptr<System> system_;
    };

    static BranchLimits branch_limits(const Doubles& limits, int iterations, bool definite) {
        expect(limits, 7);
        const double* at = limits.data();
        return {at[0], at[1], at[2], at[3], at[4], at[5], at[6], iterations, definite};
    }
    static StateArrays arrays(const Configuration& state) {
        return {numpy(state.q, {state.q.size()}), sixes(state.lambda), numpy(state.mu, {state.mu.size()})};
    }

    std::shared_ptr<const Model> model_;
    std::shared_ptr<const System> blank_;
    std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();
};

}  // namespace supple
