// Python class of a moving skin.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "python/arrays.hpp"
#include "python/module.hpp"
#include "zones/skin.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

Eigen::MatrixXd columns(const nb::dict& of, const char* name, std::size_t rows) {
    return matrix(nb::cast<Doubles>(of[name]), rows);
}

std::vector<int> integers(const nb::dict& of, const char* name) { return nb::cast<std::vector<int>>(of[name]); }

std::vector<Pose> poses(const nb::dict& of, const char* name) {
    const auto given = nb::cast<Doubles>(of[name]);
    std::vector<Pose> result;
    for (std::size_t i = 0; i < given.size() / 16; ++i) result.push_back(pose(given.data() + 16 * i));
    return result;
}

std::shared_ptr<const zones::Terms> terms(const nb::dict& of) {
    const auto n = nb::cast<std::size_t>(of["amplitudes"]), b = nb::cast<std::size_t>(of["affine_count"]);
    const auto t = nb::cast<std::size_t>(of["touch_count"]), v = nb::cast<std::size_t>(of["surface_count"]);
    Eigen::MatrixXd affine = columns(of, "affine", n);
    if (n == 0) affine.resize(0, b);
    auto result = std::make_shared<zones::Terms>(integers(of, "functions"), columns(of, "stiffness", n), affine,
                                                 columns(of, "motion", 3 * t), columns(of, "surface_motion", 3 * v),
                                                 columns(of, "surface_affine", 3 * v));
    result->affine_stiffness = columns(of, "affine_stiffness", b);
    result->affine_motion = columns(of, "affine_motion", 3 * t);
    result->compliance = columns(of, "compliance", 3 * t);
    result->nodes = columns(of, "nodes", t).transpose();
    result->surface_nodes = columns(of, "surface_nodes", v).transpose();
    return result;
}

zones::Zone zone(const nb::dict& of, const std::vector<std::shared_ptr<const zones::Terms>>& all) {
    zones::Zone z;
    z.terms = all.at(nb::cast<std::size_t>(of["terms"]));
    z.seams = integers(of, "seams");
    z.bones = nb::cast<int>(of["bones"]);
    z.surface_vertices = integers(of, "surface_vertices");
    z.carried_bones = integers(of, "carried_bones");
    z.carried_vertices = integers(of, "carried_vertices");
    z.carried_nodes = columns(of, "carried_nodes", z.carried_vertices.size()).transpose();
    z.bodies = integers(of, "bodies");
    z.on_body = poses(of, "on_body");
    z.reference = poses(of, "reference").at(0);
    return z;
}

zones::Residual residual(const nb::dict& of) {
    zones::Residual r;
    const auto axis = nb::cast<std::vector<double>>(of["axis"]);
    for (int i = 0; i < 3; ++i) r.axis[i] = axis.at(i);
    r.angles = nb::cast<std::vector<double>>(of["angles"]);
    const auto n = nb::cast<std::size_t>(of["points"]);
    for (const auto& own : nb::cast<nb::list>(of["compliances"]))
        r.compliances.push_back(matrix(nb::cast<Doubles>(own), 3 * n));
    r.first = integers(of, "first");
    r.second = integers(of, "second");
    r.own = integers(of, "own");
    return r;
}

zones::Seam seam(const nb::dict& of) {
    zones::Seam s;
    s.zones = integers(of, "zones");
    s.vertices = integers(of, "vertices");
    s.functions = columns(of, "functions", s.vertices.size());
    s.nodes = columns(of, "nodes", s.vertices.size()).transpose();
    if (of.contains("residual")) s.residual = residual(nb::cast<nb::dict>(of["residual"]));
    return s;
}

std::vector<zones::TouchPoint> touch_points(const nb::ndarray<const int, nb::c_contig, nb::device::cpu>& rows) {
    std::vector<zones::TouchPoint> result;
    for (std::size_t i = 0; i < rows.size() / 3; ++i)
        result.push_back({rows.data()[3 * i], rows.data()[3 * i + 1], rows.data()[3 * i + 2]});
    return result;
}

}  // namespace

void bind_zones(nb::module_& module) {
    nb::class_<zones::Skin>(module, "ZoneSkin")
        .def("__init__",
             [](zones::Skin* self, const nb::list& all_terms, const nb::list& all_zones, const nb::list& all_seams,
                std::vector<int> order, std::vector<std::vector<int>> below, int vertices) {
                 std::vector<std::shared_ptr<const zones::Terms>> t;
                 std::vector<zones::Zone> z;
                 std::vector<zones::Seam> s;
                 for (const auto& own : all_terms) t.push_back(terms(nb::cast<nb::dict>(own)));
                 for (const auto& own : all_zones) z.push_back(zone(nb::cast<nb::dict>(own), t));
                 for (const auto& own : all_seams) s.push_back(seam(nb::cast<nb::dict>(own)));
                 new (self) zones::Skin(std::move(z), std::move(s), std::move(order), std::move(below), vertices);
             })
        .def("move",
             [](zones::Skin& skin, const Doubles& poses) {
                 nb::gil_scoped_release release;
                 skin.move(poses.data(), static_cast<int>(poses.size() / 16));
             })
        .def_prop_ro("energy", &zones::Skin::energy)
        .def("vertices",
             [](zones::Skin& skin) {
                 const std::vector<double>* values;
                 {
                     nb::gil_scoped_release release;
                     values = &skin.vertices();
                 }
                 return numpy(*values, {values->size() / 3, 3});
             })
        .def("points",
             [](const zones::Skin& skin, const nb::ndarray<const int, nb::c_contig, nb::device::cpu>& rows) {
                 std::vector<double> result;
                 for (const auto& at : touch_points(rows)) {
                     const Vec3 y = skin.point(at);
                     result.insert(result.end(), y.data(), y.data() + 3);
                 }
                 const std::size_t count = result.size() / 3;
                 return numpy(std::move(result), {count, 3});
             })
        .def("compliance", [](zones::Skin& skin, const nb::ndarray<const int, nb::c_contig, nb::device::cpu>& rows) {
            const auto points = touch_points(rows);
            Eigen::MatrixXd C;
            {
                nb::gil_scoped_release release;
                skin.compliance(points, C);
            }
            return copied(C);
        });
}
