// Bindings of the time stepping of a reduced model.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "python/arrays.hpp"
#include "python/equations.hpp"
#include "python/module.hpp"
#include "python/motion_module.hpp"
#include "python/target_map.hpp"
#include "reduced/joints.hpp"
#include "reduced/reduced.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

class ReducedCore {
   public:
    Reduced model;
    std::unique_ptr<const System> system;  // that the joints refer to
    std::unique_ptr<Joints> joints;  // if links follow the joints
    std::unique_ptr<Links> links;
    std::vector<double> poses;  // (links, 4, 4)
    std::vector<double> velocities;  // (links, 6) body twists
    TipArrays tip_arrays;
    int corrections = 0;  // of the joints' coordinates
    TargetMap targets;
    std::vector<double> bounds_at_home;  // values of the bounds at y = 0 with the set-points of the model

    ReducedCore(const Doubles& mass, const Doubles& damping, const Doubles& stiffness, const Doubles& bias, double h) {
        const std::size_t m = bias.size();
        for (const Doubles* each : {&mass, &damping, &stiffness}) expect(*each, m * m);
        model.mass = matrix(mass, m);
        model.damping = matrix(damping, m);
        model.stiffness = matrix(stiffness, m);
        model.bias = vector(bias);
        model.target = Vector::Zero(m);
        model.h = h;
    }

    ExternalLoad& tip(int i) { return model.tips.at(i); }
    Vec6 tip_velocity(int i) const { return model.tip_velocity(i); }
    void update_velocities() {
        move_links();
        links->update_velocities(model.y.data(), model.v.data(), velocities.data());
    }

    // Sets the set-points of an array (dof,), see `TargetMap`: goal, offsets of the tips and values of the bounds now,
    // twists of the links and increments of the joints when they are needed.
    bool set_targets(nb::handle given, std::size_t dof, double furthest) {
        Doubles array;
        if (!targets.read(given, dof, furthest, array)) return false;
        const Eigen::VectorXd& effect = targets.take(array);
        const Eigen::Index m = model.target.size(), e = model.tips.size();
        model.target = effect.head(m);
        for (Eigen::Index i = 0; i < e; ++i) model.tips[i].offset = effect.segment<6>(m + 6 * i);
        for (std::size_t i = 0; i < model.bounds.size(); ++i)
            model.bounds[i].at = bounds_at_home[i] + effect[m + 6 * e + i];
        model.loads_changed();
        return true;
    }

    void move_links() {
        const double* moved = targets.later();
        if (!moved) return;
        links->set_offsets(moved);
        if (joints) joints->offset = Eigen::Map<const Vector>(moved + 6 * links->count(), joints->offset.size());
    }

    void add_tip(const Doubles& rest, const Doubles& map) {
        expect(rest, 16);
        expect(map, 6 * model.bias.size());
        Reduced::Tip tip;
        tip.rest = pose(rest.data());
        tip.map = matrix(map, 6);
        model.tips.push_back(std::move(tip));
    }

    void set_links(const Doubles& rest, const Doubles& maps, int threads) {
        const int n = static_cast<int>(rest.size() / 16), m = static_cast<int>(model.bias.size());
        expect(maps, 6 * n * m);
        links = std::make_unique<Links>(rest.data(), maps.data(), n, m, threads);
        poses.assign(16 * n, 0.0);
        for (int i = 0; i < n; ++i) poses[16 * i + 15] = 1;
        velocities.assign(6 * n, 0.0);
        tip_arrays.resize(model.tips.size());
        model.prepare();
    }

    const Joints& followed() const {
        if (!joints) throw std::logic_error("the links do not follow joint coordinates");
        return *joints;
    }

    // Links by joint coordinates instead of twists. `bodies`, `on_body` (e, 4, 4): of the end effectors.
    void set_joints(const Equations& equations, const std::vector<int>& bodies, const Doubles& on_body,
                    const Doubles& rest, const Doubles& map, const Doubles& by_tips, const Doubles& by_loops,
                    const Doubles& loop_tips, const Doubles& cobasis, int count) {
        auto own = std::make_unique<const System>(equations.new_system());
        const std::size_t axes = own->axes(), e = model.tips.size();
        expect(on_body, 16 * e);
        expect(rest, axes);
        std::vector<Joints::Tip> tips;
        for (std::size_t i = 0; i < e; ++i) tips.push_back({bodies.at(i), pose(on_body.data() + 16 * i)});
        joints = std::make_unique<Joints>(
            *own, std::move(tips),
            Joints::Maps{vector(rest), matrix(map, axes), matrix(by_tips, axes), matrix(by_loops, axes),
                         matrix(loop_tips, 6 * e), matrix(cobasis, cobasis.size() / (6 * e))});
        system = std::move(own);
        corrections = count;
    }

    void update() {
        move_links();
        if (!joints) {
            links->update(model.y.data(), poses.data());
            return;
        }
        tips_.resize(model.tips.size());
        for (std::size_t e = 0; e < tips_.size(); ++e) tips_[e] = model.tip_pose(static_cast<int>(e));
        joints->follow(model.y, tips_, corrections);
        joints->write_poses(poses.data());
    }

   private:
    std::vector<Pose> tips_;
};

}  // namespace

void bind_reduced(nb::module_& module) {
    nb::class_<ReducedCore> core(module, "ReducedCore");
    bind_motion(core);
    core.def(nb::init<const Doubles&, const Doubles&, const Doubles&, const Doubles&, double>())
        .def("add_tip", &ReducedCore::add_tip)
        .def("set_links", &ReducedCore::set_links)
        .def("set_joints", &ReducedCore::set_joints)
        .def("set_offsets",
             [](ReducedCore& c, const Doubles& twists, const Doubles& increments, const Doubles& target) {
                 expect(twists, 6 * c.links->count());
                 expect(target, c.model.bias.size());
                 c.links->set_offsets(twists.data());
                 c.model.target = vector(target);
                 c.model.loads_changed();
                 if (c.joints) c.joints->offset = vector(increments);
                 c.targets.forget();
             })
        .def("prepare_targets",
             [](ReducedCore& c, std::vector<int> places, const Doubles& values, const Doubles& now,
                const Doubles& later) { c.targets = TargetMap(std::move(places), values, now, later); })
        .def("set_targets", &ReducedCore::set_targets)
        .def("set_tip_offset",
             [](ReducedCore& c, int tip, const Doubles& twist) {
                 expect(twist, 6);
                 c.model.tips.at(tip).offset = Eigen::Map<const Vec6>(twist.data());
                 c.model.loads_changed();
             })
        .def("add_bound",
             [](ReducedCore& c, const Doubles& map, double at, double lower, double upper) {
                 expect(map, c.model.bias.size());
                 c.model.bounds.push_back({vector(map), at, lower, upper});
                 c.bounds_at_home.push_back(at);
             })
        .def("set_bounds_at",
             [](ReducedCore& c, const Doubles& at) {
                 expect(at, c.model.bounds.size());
                 for (std::size_t i = 0; i < at.size(); ++i) c.model.bounds[i].at = at.data()[i];
             })
        .def(
            "geometric_stiffness", [](const ReducedCore& c) { return copied(c.model.geometric_stiffness()); },
            nb::rv_policy::automatic)
        .def_prop_ro("deflection", [](const ReducedCore& c) { return c.model.deflection(); })
        .def_prop_ro(
            "participant", [](ReducedCore& c) -> Participant* { return &c.model; }, nb::rv_policy::reference_internal)
        .def("set_state",
             [](ReducedCore& c, const Doubles& y, const Doubles& v, double time) {
                 expect(y, c.model.bias.size());
                 expect(v, c.model.bias.size());
                 c.model.y = vector(y);
                 c.model.v = vector(v);
                 c.model.time = time;
             })
        .def("update_velocities", &ReducedCore::update_velocities)
        // as of the last update: a view of memory that later updates overwrite
        .def_prop_ro(
            "velocities",
            [](ReducedCore& c) {
                return nb::ndarray<nb::numpy, const double>(c.velocities.data(), {c.velocities.size() / 6, 6},
                                                            nb::find(c));
            },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "y", [](const ReducedCore& c) { return copied(c.model.y); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "v", [](const ReducedCore& c) { return copied(c.model.v); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "q", [](const ReducedCore& c) { return copied(c.followed().coordinates()); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "errors", [](const ReducedCore& c) { return copied(c.followed().errors()); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "gaps", [](const ReducedCore& c) { return copied(c.followed().gaps()); }, nb::rv_policy::automatic);
}
