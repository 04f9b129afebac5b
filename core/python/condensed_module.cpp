// The Python class of a condensed mechanism in motion. It uses the equations of an engine that Python code has set up.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "condensed/condensed_passes.hpp"
#include "python/engine.hpp"
#include "python/module.hpp"
#include "python/motion_module.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

class CondensedCore {
   public:
    Engine& engine;
    Condensed model;
    std::vector<double> poses;  // (bodies, 4, 4)
    TipArrays tip_arrays;

    // Starts from the engine's state. Tips are given by their bodies and their poses (e, 4, 4) on them. `stops`: limits are
    // stiff springs (in dynamics; in statics they are exact). `sparse`: no recursive passes.
    CondensedCore(Engine& of, const std::vector<int>& bodies, const Doubles& on_body, double h, int order, bool stops,
                  bool sparse)
        : engine(of) {
        expect(on_body, 16 * bodies.size());
        System& system = engine.system;
        system.set_stops(stops);
        engine.stepper.emplace(system, h, order);
        model.h = h;
        model.order = order;
        model.length = system.model().length_scale;
        for (std::size_t e = 0; e < bodies.size(); ++e) {
            EndEffector tip;
            tip.body = bodies[e];
            tip.on_body = pose(on_body.data() + 16 * e);
            model.set.tips.push_back(tip);
        }
        tip_arrays.resize(bodies.size());
        model.sparse = std::make_unique<SparseInterior>(model.set, system, *engine.stepper);
        model.interior = model.sparse.get();
        if (stops && !sparse) model.passes = std::make_unique<PassesInterior>(model.set, system);
        if (model.passes && *model.passes->uncovered()) model.passes.reset();
        model.prepare();
        model.sparse->start();
        const double stiff = 1e-4 * system.model().stiffness_scale;
        model.set_anchors(stiff / (model.length * model.length), stiff);
        poses.assign(16 * system.bodies(), 0.0);
        for (int b = 0; b < system.bodies(); ++b) poses[16 * b + 15] = 1;
        update();
    }

    ExternalLoad& tip(int i) { return model.set.tips.at(i); }
    Vec6 tip_velocity(int i) {
        const EndEffector& tip = model.set.tips[i];
        if (i == 0) write_to_engine();
        return transform_twist(tip.on_body.inverse(), engine.system.velocity[tip.body]);
    }
    bool by_passes() const { return model.passes && model.interior == model.passes.get(); }

    // Sets a state of balance at rest, with the wrenches that hold the tips.
    void place(const Doubles& q, const Doubles& lambda, const Doubles& mu, const Doubles& wrenches) {
        expect(wrenches, model.lambda().size());
        engine.place(q, lambda, mu);
        model.set.lambda = model.lambda_before = Eigen::Map<const Vector>(wrenches.data(), wrenches.size());
        start();
        model.convergence = {};
        model.unstable_steps_left = 0;
        model.singular_steps = 0;
        model.fresh = true;
        update();
    }

    void start() {
        model.interior = model.sparse.get();
        model.forget_kept();
        model.sparse->start();
    }

    // Copies the present coordinates, rates, poses and velocities to the engine.
    void write_to_engine() {
        if (by_passes()) model.passes->write_to(engine.system, engine.stepper->history);
    }

    // Everything that the next step depends on, as one flat array.
    NumpyArray state() {
        model.use_passes();
        model.forget_kept();  // it is not part of the state
        std::vector<double> flat{model.fresh ? 1.0 : 0.0, static_cast<double>(model.unstable_steps_left), model.convergence.factor,
                                 static_cast<double>(model.convergence.left)};
        for (const Vector* each : {&std::as_const(model.set.lambda), &std::as_const(model.lambda_before)})
            flat.insert(flat.end(), each->data(), each->data() + each->size());
        if (model.passes) {
            const auto rest = model.passes->flat();
            flat.insert(flat.end(), rest.begin(), rest.end());
        } else {
            const NumpyArray rest = engine.history();
            flat.insert(flat.end(), rest.data(), rest.data() + rest.size());
        }
        const std::size_t n = flat.size();
        return numpy(std::move(flat), {n});
    }

    void set_state(const Doubles& flat, double time) {
        const std::size_t n = model.lambda().size();
        const double* at = flat.data();
        model.time = time;
        model.forget_kept();
        model.fresh = *at++ != 0;
        model.unstable_steps_left = static_cast<int>(*at++);
        model.convergence = {at[0], static_cast<int>(at[1])};
        model.singular_steps = 0;
        at += 2;
        for (Vector* each : {&model.set.lambda, &model.lambda_before}) {
            *each = Eigen::Map<const Vector>(at, n);
            at += n;
        }
        if (model.passes) {
            model.passes->set_flat(at);
            model.interior = model.passes.get();
        } else {
            engine.set_history(at, flat.size() - 4 - 2 * n);
        }
        update();
    }

    void update() { model.interior->write_poses(poses.data()); }

    double balance() {
        nb::gil_scoped_release release;
        const double reached = model.balance();
        update();
        return reached;
    }

    double follow_branch() {
        nb::gil_scoped_release release;
        const double reached = model.follow_branch();
        update();
        return reached;
    }

    // Starts dynamics from an equilibrium in which limits are exact. In dynamics, limits are stops (springs), which must be
    // compressed until they have the same torques mu. If the balance ends off an active stop (an inverted pendulum on its limit:
    // its weight acts as a negative spring), it is repeated from coordinates at which the stops already have the torques mu.
    void start_from_equilibrium(const Doubles& q, const Doubles& lambda, const Doubles& mu) {
        balance();
        write_to_engine();
        bool left = false;
        std::vector<double> deeper = doubles(q);
        for (std::size_t r = 0; r < engine.system.model().rows.size(); ++r) {
            const Row& row = engine.system.model().rows[r];
            if (!engine.system.is_stop(static_cast<int>(r)) || mu.data()[r] == 0) continue;
            double torque, slope, energy, square = 0;
            row.stop_torque(row.of.value(engine.system.state.q), torque, slope, energy);
            left = left || !(torque * mu.data()[r] > 0);
            const double more = std::copysign(row.penetration(std::abs(mu.data()[r]) / row.stop), mu.data()[r]);
            for (double c : row.of.coefficients) square += c * c;
            for (std::size_t i = 0; i < row.of.axes.size(); ++i) deeper[row.of.axes[i]] += more / square * row.of.coefficients[i];
        }
        if (!left) return;
        engine.place(q, lambda, mu);
        engine.system.state.q = deeper;
        model.set.lambda.setZero();
        start();
        balance();
    }

    double hold(const Doubles& goals) {
        expect(goals, 16 * model.set.tips.size());
        std::vector<Pose> at;
        for (std::size_t e = 0; e < model.set.tips.size(); ++e) at.push_back(pose(goals.data() + 16 * e));
        nb::gil_scoped_release release;
        return model.hold(at);
    }
};

}  // namespace

void bind_condensed(nb::module_& module) {
    nb::class_<CondensedCore> core(module, "CondensedCore");
    bind_motion(core);
    core.def(nb::init<Engine&, const std::vector<int>&, const Doubles&, double, int, bool, bool>(), nb::keep_alive<1, 2>())
        .def_prop_ro("participant", [](CondensedCore& c) -> Participant* { return &c.model; },
                     nb::rv_policy::reference_internal)
        .def("place", &CondensedCore::place)
        .def("write_to_engine", &CondensedCore::write_to_engine)
        .def("state", &CondensedCore::state)
        .def("set_state", &CondensedCore::set_state)
        .def("forget_past", [](CondensedCore& c) { c.model.fresh = true; })  // the steps before had another length
        .def("balance", &CondensedCore::balance)
        .def("follow_branch", &CondensedCore::follow_branch)
        .def("start_from_equilibrium", &CondensedCore::start_from_equilibrium)
        .def("hold", &CondensedCore::hold)
        .def("compliance",
             [](CondensedCore& c) {
                 const Matrix C = c.model.compliance().transpose();  // row major
                 const std::size_t n = C.rows();
                 return numpy({C.data(), C.data() + C.size()}, {n, n});
             })
        .def("tip_pose",
             [](const CondensedCore& c, int tip) {
                 std::vector<double> rows(16, 0.0);
                 write(c.model.interior->tip_pose(tip), rows.data());
                 rows[15] = 1;
                 return numpy(std::move(rows), {4, 4});
             })
        .def_prop_ro("wrenches", [](const CondensedCore& c) { return copied(c.model.lambda()); },
                     nb::rv_policy::automatic)
        .def("leave_passes",  // for tests: uses the sparse tangent from now on
             [](CondensedCore& c) {
                 c.model.use_sparse();
                 c.model.passes.reset();
             })
        .def_prop_ro("passes", [](const CondensedCore& c) { return c.model.passes != nullptr; })
        .def_prop_ro("gap", [](const CondensedCore& c) { return c.model.interior->gap(); })
        .def_prop_ro("stuck", [](const CondensedCore& c) { return c.model.is_stuck(); })
        .def_prop_ro("steps", [](const CondensedCore& c) { return c.model.steps; })
        .def_prop_ro("iterations", [](const CondensedCore& c) { return c.model.iterations; })
        .def_prop_ro("tangents", [](const CondensedCore& c) { return c.model.tangents; })
        .def_prop_ro("snaps", [](const CondensedCore& c) { return c.model.snaps; })
        .def_prop_ro("divisions", [](const CondensedCore& c) { return c.model.divisions; });
}
