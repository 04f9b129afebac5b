// Bindings of the time stepping of a reduced model on a moving base.
#include <nanobind/ndarray.h>

#include "python/arrays.hpp"
#include "python/module.hpp"
#include "python/motion_module.hpp"
#include "reduced/floating.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

Matrix square(const Doubles& array, std::size_t n) {
    expect(array, n * n);
    return Eigen::Map<const Matrix>(array.data(), n, n);  // symmetric
}

class FloatingCore {
   public:
    Floating model;

    FloatingCore(const Doubles& damping, const Doubles& stiffness, const Doubles& armature, const Doubles& held_mass,
                 const Doubles& gravity, const Doubles& base, double h, std::size_t m) {
        model.damping = square(damping, m);
        model.stiffness = square(stiffness, m);
        model.armature = square(armature, m);
        model.held_mass = square(held_mass, m);
        expect(gravity, 3);
        model.gravity = Vec3(gravity.data());
        expect(base, 16);
        model.base = pose(base.data());
        model.target = Vector::Zero(m);
        model.h = h;
    }

    ExternalLoad& tip(int i) { return model.tips.at(i); }

    void add_link(const Doubles& rest, double mass, const Doubles& centre, const Doubles& inertia, const Doubles& map) {
        expect(rest, 16);
        expect(centre, 3);
        expect(inertia, 9);
        expect(map, 6 * model.target.size());
        using RowMajor = Eigen::Matrix<double, 6, Eigen::Dynamic, Eigen::RowMajor>;
        const Floating::Map all = Eigen::Map<const RowMajor>(map.data(), 6, map.size() / 6);
        Floating::Link link;
        link.rest = link.pose = pose(rest.data());
        for (Eigen::Index c = 0; c < all.cols(); ++c)
            if (!all.col(c).isZero(0)) link.columns.push_back(static_cast<int>(c));
        link.map.resize(6, link.columns.size());
        for (std::size_t c = 0; c < link.columns.size(); ++c) link.map.col(c) = all.col(link.columns[c]);
        link.mass = mass;
        link.centre = Vec3(centre.data());
        link.inertia = Eigen::Map<const Mat3>(inertia.data());
        model.links.push_back(std::move(link));
    }

    void add_tip(int link, const Doubles& fixed) {
        expect(fixed, 16);
        Floating::Tip tip;
        tip.link = link;
        tip.fixed = pose(fixed.data());
        model.tips.push_back(tip);
    }
};

}  // namespace

void bind_floating(nb::module_& module) {
    nb::class_<FloatingCore> core(module, "FloatingCore");
    bind_motion(core);
    core.def(nb::init<const Doubles&, const Doubles&, const Doubles&, const Doubles&, const Doubles&, const Doubles&,
                      double, std::size_t>())
        .def("add_link", &FloatingCore::add_link)
        .def("add_tip", &FloatingCore::add_tip)
        .def("add_bound",
             [](FloatingCore& c, const Doubles& map, double at, double lower, double upper) {
                 expect(map, c.model.target.size());
                 c.model.bounds.push_back({vector(map), at, lower, upper});
             })
        .def("set_bounds_at",
             [](FloatingCore& c, const Doubles& at) {
                 expect(at, c.model.bounds.size());
                 for (std::size_t i = 0; i < at.size(); ++i) c.model.bounds[i].at = at.data()[i];
             })
        .def("prepare", [](FloatingCore& c) { c.model.prepare(); })
        .def("decouple",
             [](FloatingCore& c) {
                 const Vec6 V = c.model.twist;
                 c.model.decoupled = true;
                 c.model.set_twist(V);
             })
        .def("set_targets",
             [](FloatingCore& c, const Doubles& goal, const Doubles& links) {
                 expect(goal, c.model.target.size());
                 expect(links, 6 * c.model.links.size());
                 c.model.target = vector(goal);
                 c.model.set_offsets(links.data());
             })
        .def("set_mount",
             [](FloatingCore& c, bool mounted, const Doubles& at, const Doubles& stiffness, const Doubles& damping) {
                 expect(at, 16);
                 expect(stiffness, 6);
                 expect(damping, 6);
                 c.model.mounted = mounted;
                 c.model.mount = pose(at.data());
                 c.model.mount_stiffness = Eigen::Map<const Vec6>(stiffness.data());
                 c.model.mount_damping = Eigen::Map<const Vec6>(damping.data());
             })
        .def("set_twist",
             [](FloatingCore& c, const Doubles& twist) {
                 expect(twist, 6);
                 c.model.set_twist(Eigen::Map<const Vec6>(twist.data()));
             })
        .def("set_state",
             [](FloatingCore& c, const Doubles& base, const Doubles& y, const Doubles& v, const Doubles& momentum,
                double time) {
                 expect(base, 16);
                 expect(y, c.model.target.size());
                 expect(v, c.model.target.size());
                 expect(momentum, 6);
                 c.model.base = pose(base.data());
                 c.model.y = vector(y);
                 c.model.v = vector(v);
                 c.model.momentum = Eigen::Map<const Vec6>(momentum.data());
                 c.model.time = time;
                 c.model.refresh();
             })
        .def_prop_ro(
            "participant", [](FloatingCore& c) -> Participant* { return &c.model; }, nb::rv_policy::reference_internal)
        .def_prop_ro(
            "y", [](const FloatingCore& c) { return copied(c.model.y); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "v", [](const FloatingCore& c) { return copied(c.model.v); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "momentum", [](const FloatingCore& c) { return copied(Vector(c.model.momentum)); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "twist", [](const FloatingCore& c) { return copied(Vector(c.model.twist)); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "base",
            [](const FloatingCore& c) {
                std::vector<double> rows(16, 0.0);
                write(c.model.base, rows.data());
                rows[15] = 1;
                return numpy(std::move(rows), {4, 4});
            },
            nb::rv_policy::automatic);
}
