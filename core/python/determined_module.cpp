// The Python class of a condensed model without an interior: the poses of its end effectors determine all coordinates. B is then
// invertible on the admissible motions, so that the equation of motion B^T (f - M a - D v - g) = 0 is the engine's, and its time
// steps are those of the engine's Stepper, with exact limits.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "python/engine.hpp"
#include "python/module.hpp"
#include "python/motion_module.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

struct Tip : ExternalLoad {
    int body = 0;
    Pose on_body;
};

struct Determined {
    Engine& engine;
    double& time;  // the stepper's
    std::vector<Tip> tips{};
    long long steps = 0;
    std::vector<int> motors{};        // equality rows: motors and rigid couplings
    std::vector<double> positions{};  // of these rows at the end of the last step
    std::vector<int> moved{};         // those whose position has changed since then
    std::vector<double> targets{};

    int frames() const { return static_cast<int>(tips.size()); }
    Pose frame(int e) const { return engine.stepper->frame(tips[e].body) * tips[e].on_body; }
    void loads_changed() {
        System& system = engine.system;
        engine.refresh();
        system.loads.clear();
        system.handles.clear();
        for (const Tip& tip : tips) {
            const Mat3 R = tip.world ? Mat3::Identity() : tip.on_body.R;
            system.loads.push_back({tip.body, tip.on_body.p, stack(R * tip.wrench.head<3>(), R * tip.wrench.tail<3>()), tip.world});
            if (tip.has_handle) system.handles.push_back({tip.body, tip.on_body.act(tip.point), tip.target, tip.stiffness, tip.damping});
        }
    }
    void handles_changed() { loads_changed(); }

    // A time step. The stepper must know which rows move, because it moves them in parts if it divides the step.
    bool step() {
        std::vector<double>& of_rows = engine.system.targets;
        moved.clear();
        targets.clear();
        for (std::size_t i = 0; i < motors.size(); ++i) {
            double& target = of_rows[motors[i]];
            if (target == positions[i]) continue;
            moved.push_back(motors[i]);
            targets.push_back(target);
            target = positions[i];
            positions[i] = targets.back();
        }
        const bool done = engine.stepper->step(moved, targets.data());
        for (std::size_t i = 0; i < moved.size(); ++i) of_rows[moved[i]] = targets[i];
        if (!done) read_positions();
        steps += done;
        return done;
    }
    void read_positions() {
        const System& system = engine.synchronised();
        motors.clear();
        positions.clear();
        for (std::size_t r = 0; r < system.model().rows.size(); ++r) {
            if (!system.model().rows[r].equality) continue;
            motors.push_back(static_cast<int>(r));
            positions.push_back(system.model().rows[r].of.value(system.state.q));
        }
    }
};

class DeterminedCore {
   public:
    Engine& engine;
    Determined model;
    std::vector<double> poses;  // (bodies, 4, 4)
    TipArrays tip_arrays;

    // Starts at rest in the engine's state. End effectors are given by their bodies and their poses (e, 4, 4) on them.
    DeterminedCore(Engine& of, const std::vector<int>& bodies, const Doubles& on_body, double h, int order)
        : engine(with_stepper(of, h, order)), model{of, of.stepper->time} {
        expect(on_body, 16 * bodies.size());
        for (std::size_t e = 0; e < bodies.size(); ++e) {
            Tip tip;
            tip.body = bodies[e];
            tip.on_body = pose(on_body.data() + 16 * e);
            model.tips.push_back(tip);
        }
        tip_arrays.resize(bodies.size());
        engine.stepper->start(std::vector<Vec6>(engine.system.model().mass.size(), Vec6::Zero()), std::vector<double>(engine.system.axes(), 0.0));
        model.read_positions();
        poses.assign(16 * engine.system.bodies(), 0.0);
        for (int b = 0; b < engine.system.bodies(); ++b) poses[16 * b + 15] = 1;
        update();
    }

    static Engine& with_stepper(Engine& of, double h, int order) {
        of.stepper.emplace(of.system, h, order);
        of.stepper->soften_limits_at = 1;
        return of;
    }
    ExternalLoad& tip(int i) { return model.tips.at(i); }
    Vec6 tip_velocity(int i) {
        const Tip& tip = model.tips[i];
        return transform_twist(tip.on_body.inverse(), engine.synchronised().velocity[tip.body]);
    }
    void update() { engine.stepper->write_poses(poses.data()); }

    void set_state(const Doubles& flat, double time) {
        engine.set_history(flat);
        model.time = time;
        model.read_positions();
        update();
    }

    // (6e,) applied wrenches in the end effectors' axes: at rest they balance the mechanism.
    NumpyArray wrenches() const {
        Eigen::VectorXd all(6 * model.frames());
        for (int e = 0; e < model.frames(); ++e) {
            const Tip& tip = model.tips[e];
            const Pose at = model.frame(e);
            const Vec3 pull = at.R.transpose() * (tip.stiffness * (tip.target - at.act(tip.point)));
            all.segment<6>(6 * e) = tip.own(at.R);
            if (tip.has_handle) all.segment<6>(6 * e) += stack(pull, tip.point.cross(pull));
        }
        return copied(all);
    }
};

}  // namespace

void bind_determined(nb::module_& module) {
    nb::class_<DeterminedCore> core(module, "DeterminedCore");
    bind_motion(core);
    core.def(nb::init<Engine&, const std::vector<int>&, const Doubles&, double, int>(), nb::keep_alive<1, 2>())
        .def_prop_ro("participant", [](DeterminedCore& c) -> Participant* { return &*c.engine.stepper; },
                     nb::rv_policy::reference_internal)
        .def("state", [](const DeterminedCore& c) { return c.engine.history(); })
        .def("set_state", &DeterminedCore::set_state)
        .def("forget_past", [](DeterminedCore& c) { c.engine.stepper->fresh = true; })  // the steps before had another length
        .def("tip_pose",
             [](const DeterminedCore& c, int tip) {
                 std::vector<double> rows(16, 0.0);
                 write(c.model.frame(tip), rows.data());
                 rows[15] = 1;
                 return numpy(std::move(rows), {4, 4});
             })
        .def_prop_ro("wrenches", &DeterminedCore::wrenches, nb::rv_policy::automatic)
        .def_prop_ro("passes", [](const DeterminedCore& c) { return std::string_view(c.engine.stepper->solver()) == "passes"; })
        .def_prop_ro("gap", [](const DeterminedCore& c) { return c.engine.synchronised().gap_size(); })
        .def_prop_ro("steps", [](const DeterminedCore& c) { return c.model.steps; })
        .def_prop_ro("iterations", [](const DeterminedCore& c) { return c.engine.stepper->all_iterations(); })
        .def_prop_ro("tangents", [](const DeterminedCore& c) { return c.engine.stepper->all_factorisations(); });
}
