// Binds the engine.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "engine/inverse_dynamics.hpp"
#include "python/engine.hpp"
#include "python/linearisation.hpp"
#include "python/module.hpp"

namespace nb = nanobind;
using namespace supple;

void bind_engine(nb::module_& module) {
    nb::class_<InverseDynamics>(module, "InverseDynamics")
        .def("__init__", [](InverseDynamics* self, const Equations& e) { new (self) InverseDynamics(e.model()); })
        .def("torques",
             [](InverseDynamics& self, const Doubles& q, const Doubles& rates, const Doubles& accelerations,
                const Doubles& gravity, const std::vector<int>& body, const Doubles& points, const Doubles& wrenches,
                const std::vector<bool>& world) {
                 for (const Doubles* each : {&q, &rates, &accelerations}) expect(*each, self.size());
                 expect(gravity, 3);
                 const std::vector<Load> loads = loads_of(body, points, wrenches, world);
                 std::vector<double> torques(self.size());
                 self.compute(q.data(), rates.data(), accelerations.data(), Vec3(gravity.data()), loads,
                              torques.data());
                 return numpy(std::move(torques), {static_cast<std::size_t>(self.size())});
             })
        .def("seconds_per_call", [](InverseDynamics& self, const Doubles& q, const Doubles& rates,
                                    const Doubles& accelerations, int calls) {
            for (const Doubles* each : {&q, &rates, &accelerations}) expect(*each, self.size());
            std::vector<double> torques(self.size());
            const auto start = std::chrono::steady_clock::now();
            for (int k = 0; k < calls; ++k)
                self.compute(q.data(), rates.data(), accelerations.data(), Vec3(0, 0, -9.81), {}, torques.data());
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
        });

    nb::class_<ModelBuilder>(module, "Model")
        .def(nb::init<>())
        .def("add_body", &ModelBuilder::add_body)
        .def("add_curve", &ModelBuilder::add_curve)
        .def("add_joint", &ModelBuilder::add_joint)
        .def("set_interface", &ModelBuilder::set_interface)
        .def("add_flexible", &ModelBuilder::add_flexible)
        .def("add_spring", &ModelBuilder::add_spring)
        .def("add_actuator", &ModelBuilder::add_actuator)
        .def("add_row", &ModelBuilder::add_row)
        .def("set_tree", &ModelBuilder::set_tree)
        .def("set_stiffness", &ModelBuilder::set_stiffness)
        .def("set_spring_stiffness", &ModelBuilder::set_spring_stiffness)
        .def("set_inertia", &ModelBuilder::set_inertia);

    nb::class_<Acting>(module, "Acting");
    nb::class_<Evaluation>(module, "Evaluation")
        .def_prop_ro(
            "q", [](const Evaluation& e) { return numpy(e.system().state.q, {e.system().state.q.size()}); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "mu", [](const Evaluation& e) { return numpy(e.system().state.mu, {e.system().state.mu.size()}); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "reactions", [](const Evaluation& e) { return sixes(e.system().state.lambda); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "poses", [](const Evaluation& e) { return poses(e.system().state.H); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "gaps", [](const Evaluation& e) { return sixes(e.system().gaps()); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "residual",
            [](const Evaluation& e) { return numpy(e.system().residual(), {e.system().residual().size()}); },
            nb::rv_policy::automatic)  // with the sign of Newton's right-hand side
        .def_prop_ro("error",
                     [](const Evaluation& e) { return std::max(e.system().imbalance(), e.system().gap_size()); })
        .def_prop_ro("energies", [](const Evaluation& e) {
            return std::make_pair(e.system().strain_energy(e.system().state.q),
                                  e.system().gravity_energy(e.system().state.H, e.system().state.q));
        });
    nb::class_<TangentEvaluation, Evaluation>(module, "TangentEvaluation")
        .def("tangent", &TangentEvaluation::tangent)
        .def("multiply", &TangentEvaluation::multiply)
        .def("moved", &TangentEvaluation::moved)
        .def("carry", &TangentEvaluation::carry)
        .def("jacobian", &TangentEvaluation::jacobian);
    nb::class_<Linearisation, TangentEvaluation>(module, "Linearisation")
        .def("solve", [](const Linearisation& self, const Doubles& rhs) { return self.solve(rhs, false); })
        .def("solve_transposed", [](const Linearisation& self, const Doubles& rhs) { return self.solve(rhs, true); })
        .def("seconds_per_factorisation", &Linearisation::seconds_per_factorisation)
        .def_prop_ro("operations", [](const Linearisation& l) { return l.system().fronts().operations(); })
        .def_prop_ro("storage", [](const Linearisation& l) { return l.system().fronts().storage(); })
        .def_prop_ro("negative", [](const Linearisation& l) { return l.system().fronts().negative(); })
        .def_prop_ro("negative_determinant",
                     [](const Linearisation& l) { return l.system().fronts().negative_determinant(); });

    nb::class_<Equations>(module, "Equations")
        .def(nb::init<const ModelBuilder&, const Doubles&, double>())
        .def_prop_ro("model", [](const Equations& e) { return ModelBuilder{*e.model()}; })  // a copy
        .def("with_numbers", &Equations::with_numbers)
        .def_prop_ro("layout", &Equations::layout)
        .def("acting",
             [](const Equations& e, const std::vector<int>& bodies, const Doubles& points, const Doubles& wrenches,
                const std::vector<bool>& world, const Doubles& gravity, const Doubles& rest,
                const std::vector<double>& spring_rest, const std::vector<double>& targets) {
                 return e.acting(loads_of(bodies, points, wrenches, world), gravity, rest, spring_rest, targets);
             })
        .def("evaluate", [](const Equations& e, const Acting& acting, const Doubles& q, const Doubles& lambda,
                            const Doubles& mu) { return Evaluation(e.system(acting, q, lambda, mu)); })
        .def("linearise", [](const Equations& e, const Acting& acting, const Doubles& q, const Doubles& lambda,
                             const Doubles& mu) { return Linearisation(e, e.system(acting, q, lambda, mu)); })
        .def("continue_branch", &Equations::continue_branch)
        .def("find_equilibrium", &Equations::find_equilibrium)
        .def("positions_under", &Equations::positions_under)
        .def("follow", &Equations::follow);

    nb::class_<Engine>(module, "Engine")
        .def(nb::init<const Equations&, const Acting&>())
        .def("place", &Engine::place)
        .def("act", &Engine::act)
        .def("set_loads",
             [](Engine& e, const std::vector<int>& bodies, const Doubles& points, const Doubles& wrenches,
                const std::vector<bool>& world) { e.set_loads(loads_of(bodies, points, wrenches, world)); })
        .def("set_load", &Engine::set_load)
        .def("aim", &Engine::aim)
        .def_prop_ro("actuation", &Engine::actuation, nb::rv_policy::automatic)
        .def("set_actuation", &Engine::set_actuation)
        .def_prop_ro("actuator_forces", &Engine::actuator_forces, nb::rv_policy::automatic)
        .def("set_applied", &Engine::set_applied)
        .def_prop_ro(
            "applied", [](const Engine& e) { return numpy(e.system.applied, {e.system.applied.size()}); },
            nb::rv_policy::automatic)
        .def("take_arrays",  // see `ArrayInputs`
             [](Engine& e, std::vector<int> axes, std::vector<double> efforts, std::vector<int> sprung,
                std::vector<int> motors, std::vector<double> lower, std::vector<double> upper,
                std::vector<double> shares, nb::dict controls, nb::dict torques, nb::dict targets) {
                 e.arrays = {std::move(axes),       std::move(efforts),   std::move(sprung), std::move(motors),
                             std::move(lower),      std::move(upper),     std::move(shares), NamedNumbers(controls),
                             NamedNumbers(torques), NamedNumbers(targets)};
             })
        .def("set_controls", &Engine::set_controls, nb::arg("given").none(), nb::arg("control").none())
        .def("set_torques", &Engine::set_torques, nb::arg("given").none(), nb::arg("torque").none())
        .def("set_targets", &Engine::set_targets, nb::arg("given").none(), nb::arg("target").none(),
             nb::arg("furthest"))
        .def("set_wrench", &Engine::set_wrench)
        .def_prop_ro(
            "wrenches",
            [](const Engine& e) {
                std::vector<Vec6> wrenches;
                for (const Load& load : e.system.loads) wrenches.push_back(load.wrench);
                return sixes(wrenches);
            },
            nb::rv_policy::automatic)
        // rests of joints (axes,) and of couplings' springs, and targets of rows, as `aim` takes them
        .def_prop_ro(
            "set_points",
            [](const Engine& e) {
                return std::make_tuple(numpy(e.system.rest, {e.system.rest.size()}), e.system.spring_rest,
                                       e.system.targets);
            },
            nb::rv_policy::automatic)
        .def("set_handles", &Engine::set_handles)
        .def("start", &Engine::start)
        .def("step", nb::overload_cast<int>(&Engine::step))
        .def("step", nb::overload_cast<const std::vector<int>&, const Doubles&, int>(&Engine::step))
        .def("schedule", [](Engine& e, const std::vector<int>& driven,
                            const Doubles& targets) { e.stepper->schedule(driven, doubles(targets)); })
        .def_prop_ro(
            "participant", [](Engine& e) -> Participant* { return &*e.stepper; }, nb::rv_policy::reference_internal)
        .def("record", &Engine::record)
        .def("stop_recording", [](Engine& e) { e.stepper->tape.reset(); })
        .def("is_recording", [](const Engine& e, const Tape& tape) { return e.stepper->tape.get() == &tape; })
        .def("history", &Engine::history)
        .def("set_history", &Engine::set_history)
        .def("fits",
             [](const Engine& e, const Doubles& flat) {
                 return e.stepper->state.fits(flat.data(), flat.size());
             })  // for `set_history`
        .def("described", &Engine::described)
        .def("set_described", &Engine::set_described)
        .def("forget_past", [](Engine& e) { e.stepper->state.fresh = true; })  // the steps before had another length
        .def_prop_ro("time", [](const Engine& e) { return e.stepper->state.time; })
        .def_prop_ro("iterations", [](const Engine& e) { return e.stepper->all_iterations(); })
        .def_prop_ro("factorisations", [](const Engine& e) { return e.stepper->all_factorisations(); })
        .def_prop_ro("steps_by_passes", [](const Engine& e) { return e.stepper->steps_by_passes; })
        .def_prop_ro("convergence_failure",
                     [](const Engine& e) {
                         const auto& u = e.stepper->convergence_failure;
                         return std::make_tuple(u.axis, u.joint, u.row, u.size, u.q);
                     })
        .def_prop_ro("softened", [](const Engine& e) { return e.stepper->softened; })
        .def_prop_ro("uncovered", [](const Engine& e) { return e.stepper->uncovered(); })
        .def_prop_ro("solver", [](const Engine& e) { return e.stepper->solver(); })
        .def("use_passes", [](Engine& e, bool use) { e.stepper->use_passes(use); })
        .def("tree_q", &Engine::tree_q, nb::sig("def tree_q(self, like: tuple, /) -> typing.Any"))
        .def("tree_rates", &Engine::tree_rates, nb::sig("def tree_rates(self, like: tuple, /) -> typing.Any"))
        .def("read_poses", &Engine::read_poses)
        .def("velocities", &Engine::velocities, nb::sig("def velocities(self, like: tuple, /) -> typing.Any"))
        .def_prop_ro(
            "q",
            [](const Engine& e) { return numpy(e.coordinates().first, {static_cast<std::size_t>(e.system.axes())}); },
            nb::rv_policy::automatic)
        .def_prop_ro("mu", &Engine::mu, nb::rv_policy::automatic)
        .def_prop_ro(
            "rates",
            [](const Engine& e) { return numpy(e.coordinates().second, {static_cast<std::size_t>(e.system.axes())}); },
            nb::rv_policy::automatic)
        .def_prop_ro("reactions", &Engine::reactions, nb::rv_policy::automatic)
        .def_prop_ro(
            "gaps", [](Engine& e) { return sixes(e.stepper ? e.stepper->evaluated().gaps() : e.system.gaps()); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "momentum",
            [](const Engine& e) { return sixes({e.stepper->layout().momentum(e.system.model(), e.stepper->state)}); },
            nb::rv_policy::automatic)
        .def_prop_ro("energies", [](const Engine& e) {
            return std::make_tuple(e.stepper->kinetic_energy(), e.stepper->strain_energy(),
                                   e.stepper->gravity_energy());
        });
}
