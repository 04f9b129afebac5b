// Python bindings of statics of pads and of the probe.
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include "contact/pad_statics.hpp"
#include "python/arrays.hpp"
#include "python/module.hpp"
#include "zones/probe.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

Vec3 vec3(const Doubles& array) {
    expect(array, 3);
    return Vec3(array.data());
}

Collider fixed_to_world(const Collider& pad) {
    Collider result = pad;
    result.local = Pose{};
    return result;
}

Eigen::MatrixXd square(const Doubles& array, std::size_t n) {
    expect(array, n * n);
    // symmetric: the order of its entries does not matter
    return Eigen::Map<const Eigen::MatrixXd>(array.data(), n, n);
}

std::shared_ptr<Probe::Skin> make_skin(const Collider& pad, const Doubles& compliance, const Doubles& areas,
                                       bool same_points) {
    expect(areas, pad.vertices.size());
    return std::make_shared<Probe::Skin>(Probe::Skin{
        PadStatics(fixed_to_world(pad), square(compliance, 3 * pad.vertices.size())), vector(areas), same_points});
}

template <class Histogram>
NumpyArray counts(const Histogram& histogram) {
    return numpy({histogram.begin(), histogram.end()}, {histogram.size()});
}

}  // namespace

void bind_probe(nb::module_& module) {
    nb::class_<PadStatics>(module, "PadStatics")
        .def("__init__",
             [](PadStatics* self, const Collider& pad, const Doubles& compliance) {
                 new (self) PadStatics(fixed_to_world(pad), square(compliance, 3 * pad.vertices.size()));
             })
        // Presses a shape at pose (4, 4). before: (3n,) displacements at the start, or empty; move (4, 4): of the shape
        // since then; guess: (3n,) forces, or empty. Returns displacements, forces, contact normals (3n,) and friction
        // coefficients (n,).
        .def("press", [](PadStatics& self, const Collider& shape, const Doubles& at, double margin,
                         const Doubles& before, const Doubles& move, const Doubles& guess) {
            expect(at, 16);
            expect(move, 16);
            const std::size_t n = 3 * self.state().points();
            if (before.size()) expect(before, n);
            if (guess.size()) expect(guess, n);
            const Eigen::VectorXd u = vector(before), forces = vector(guess);
            const PadStatics::Start start{before.size() ? &u : nullptr, pose(move.data()),
                                          guess.size() ? &forces : nullptr};
            bool solved;
            {
                nb::gil_scoped_release release;
                solved = self.press(shape, pose(at.data()), margin, start, {});
            }
            if (!solved) throw std::runtime_error("no finite contact forces");
            const Pad& state = self.state();
            return std::make_tuple(copied(state.displacements()), copied(state.loads().forces),
                                   copied(state.loads().normals), copied(state.loads().friction));
        });
    nb::class_<Probe>(module, "Probe")
        // settings: radius, stiffness, damping, largest force, friction, period
        .def("__init__",
             [](Probe* self, const Doubles& settings, bool mask, const Collider& pad, const Doubles& compliance,
                const Doubles& areas, const Doubles& position) {
                 expect(settings, 6);
                 const double* s = settings.data();
                 new (self) Probe({s[0], s[1], s[2], s[3], s[4], s[5], mask}, make_skin(pad, compliance, areas, false),
                                  vec3(position));
             })
        .def("set_skin", [](Probe& self, const Collider& pad, const Doubles& compliance, const Doubles& areas,
                            bool same_points) { self.set_skin(make_skin(pad, compliance, areas, same_points)); })
        .def("move", [](Probe& self, const Doubles& device) { self.move(vec3(device)); })
        .def("tick", &Probe::tick)
        .def("start", &Probe::start)
        .def("stop", &Probe::stop, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("running", &Probe::running)
        // force (3,), position (3,), stiffness (9,), number of ticks, whether the last one failed
        .def("output",
             [](const Probe& self) {
                 const Probe::Output out = self.output();
                 return std::make_tuple(copied(Eigen::VectorXd(out.force)), copied(Eigen::VectorXd(out.position)),
                                        copied(Eigen::MatrixXd(out.stiffness)), out.ticks, out.failed);
             })
        // ticks, missed, largest and total work and lateness (s), and histograms of both by microseconds
        .def("statistics", [](const Probe& self) {
            const Probe::Statistics s = self.statistics();
            return std::make_tuple(s.ticks, s.missed, s.most_work, s.total_work, s.most_late, s.total_late,
                                   counts(s.work), counts(s.late));
        });
}
