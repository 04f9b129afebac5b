// Python bindings of Linkage.
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "linkage/linkage.hpp"
#include "python/arrays.hpp"
#include "python/module.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

using Integers = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;

NumpyArray numbers(const std::vector<int>& values) { return numpy({values.begin(), values.end()}, {values.size()}); }

class LinkageCore {
   public:
    Linkage linkage;

    // For each body: parent, number of axes of its joint, whether the joint is reversed, poses of the joint on parent
    // and child (4, 4), inertia (6, 6). For each axis: twist (6), block, coordinate.
    LinkageCore(const Integers& parent, const Integers& counts, const Integers& reversed, const Doubles& pose_parent,
                const Doubles& pose_child, const Doubles& inertia, const Doubles& twists, const Integers& blocks,
                const Doubles& q) {
        const std::size_t n = parent.size(), k = q.size();
        expect(pose_parent, 16 * n);
        expect(pose_child, 16 * n);
        expect(inertia, 36 * n);
        expect(twists, 6 * k);
        linkage.parent.assign(parent.data(), parent.data() + n);
        linkage.joints.resize(n);
        linkage.inertia.resize(n);
        int first = 0;
        for (std::size_t b = 0; b < n; ++b) {
            Linkage::TreeJoint& joint = linkage.joints[b];
            const Pose on_parent = pose(pose_parent.data() + 16 * b), on_child = pose(pose_child.data() + 16 * b);
            joint.reversed = reversed.data()[b] != 0;
            joint.inner = joint.reversed ? on_child : on_parent;
            joint.outer = (joint.reversed ? on_parent : on_child).inverse();
            joint.first = first;
            joint.count = static_cast<int>(counts.data()[b]);
            first += joint.count;
            linkage.inertia[b] = Eigen::Map<const Mat6>(inertia.data() + 36 * b);
        }
        if (static_cast<std::size_t>(first) != k)
            throw std::invalid_argument("number of axes differs from number of coordinates");
        linkage.axes.resize(k);
        const std::vector<Vec6> axis_twists = vectors<6>(twists);
        for (std::size_t a = 0; a < k; ++a) {
            linkage.axes[a].twist = axis_twists[a];
            linkage.axes[a].block = static_cast<int>(blocks.data()[a]);
        }
        linkage.q = doubles(q);
    }

    void set_springs(const Doubles& stiffness, const Doubles& rest, const Doubles& armature) {
        for (const Doubles* values : {&stiffness, &rest, &armature}) expect(*values, linkage.axes.size());
        for (std::size_t a = 0; a < linkage.axes.size(); ++a) {
            linkage.axes[a].stiffness = stiffness.data()[a];
            linkage.axes[a].rest = rest.data()[a];
            linkage.axes[a].armature = armature.data()[a];
        }
    }
    void add_curve(int axis, const Doubles& start, const Doubles& coefficients) {
        Curve curve{doubles(start), {}};
        expect(coefficients, 4 * start.size());
        for (std::size_t i = 0; i < start.size(); ++i) {
            const double* cubic = coefficients.data() + 4 * i;
            curve.coefficients.push_back({cubic[0], cubic[1], cubic[2], cubic[3]});
        }
        linkage.axes.at(axis).curve = static_cast<int>(linkage.curves.size());
        linkage.curves.push_back(std::move(curve));
    }
    void prepare(const Doubles& gravity) {
        expect(gravity, 3);
        linkage.gravity = Vec3(gravity.data());
        nb::gil_scoped_release release;
        linkage.prepare();
    }
    void set_load(int index, int body, const Doubles& point, const Doubles& wrench, bool world) {
        expect(point, 3);
        expect(wrench, 6);
        linkage.set_load(index, {body, Vec3(point.data()), Eigen::Map<const Vec6>(wrench.data()), world});
    }

    // returns the number of computed joints, the error bound, and the index of a singular joint or a code below 0
    std::tuple<int, double, int> advance(double dt, double error, int measure, bool complete, double seconds,
                                         int most) {
        nb::gil_scoped_release release;
        const Linkage::Outcome outcome = linkage.advance(dt, error, static_cast<Linkage::Measure>(measure), complete,
                                                         seconds, most);
        return {outcome.computed, outcome.bound, linkage.failure()};
    }

    NumpyArray pose_of(int body) const {
        std::vector<double> rows(16, 0.0);
        rows[15] = 1;
        write(linkage.pose(body), rows.data());
        return numpy(std::move(rows), {4, 4});
    }
    NumpyArray poses() const {
        std::vector<Pose> all;
        linkage.write_poses(all);
        std::vector<double> rows(16 * all.size(), 0.0);
        for (std::size_t b = 0; b < all.size(); ++b) {
            rows[16 * b + 15] = 1;
            write(all[b], &rows[16 * b]);
        }
        return numpy(std::move(rows), {all.size(), 4, 4});
    }
    NumpyArray respond(const Doubles& forces) {
        expect(forces, linkage.axes.size());
        std::vector<double> result(forces.size());
        if (!linkage.respond(forces.data(), result.data())) throw std::runtime_error("singular joint");
        return numpy(std::move(result), {forces.size()});
    }
    // (nodes, 5): left and right child (a negative value is ~leaf), joint, handles, height
    NumpyArray tree() const {
        std::vector<double> rows;
        for (const Linkage::Node& n : linkage.nodes())
            for (const int value : {n.left, n.right, n.joint, static_cast<int>(n.handles), n.height})
                rows.push_back(value);
        return numpy(std::move(rows), {linkage.nodes().size(), 5});
    }
    NumpyArray coefficients() const {
        std::vector<double> all = linkage.motion_pool();
        for (const auto* pool : {&linkage.descent_pool(), &linkage.total_pool()})
            all.insert(all.end(), pool->begin(), pool->end());
        const std::size_t n = all.size();
        return numpy(std::move(all), {n});
    }
};

}  // namespace

void bind_linkage(nb::module_& module) {
    const auto copy = [](const std::vector<double>& v) { return numpy(v, {v.size()}); };
    nb::class_<LinkageCore>(module, "LinkageCore")
        .def(nb::init<const Integers&, const Integers&, const Integers&, const Doubles&, const Doubles&, const Doubles&,
                      const Doubles&, const Integers&, const Doubles&>())
        .def("set_springs", &LinkageCore::set_springs)
        .def("add_curve", &LinkageCore::add_curve)
        .def("prepare", &LinkageCore::prepare)
        .def("set_load", &LinkageCore::set_load)
        .def("set_force", [](LinkageCore& c, int axis, double value) { c.linkage.set_force(axis, value); })
        .def("set_rest", [](LinkageCore& c, int axis, double value) { c.linkage.set_rest(axis, value); })
        .def("set_gravity",
             [](LinkageCore& c, const Doubles& g) {
                 expect(g, 3);
                 c.linkage.set_gravity(Vec3(g.data()));
             })
        .def("set_coordinates",
             [](LinkageCore& c, const Doubles& q) {
                 expect(q, c.linkage.q.size());
                 c.linkage.set_coordinates(q.data());
             })
        .def("advance", &LinkageCore::advance)
        .def("pose", &LinkageCore::pose_of)
        .def("poses", &LinkageCore::poses)
        .def("respond", &LinkageCore::respond)
        .def("moved", [](const LinkageCore& c) { return numbers(c.linkage.moved()); })
        .def("accelerations", [copy](const LinkageCore& c) { return copy(c.linkage.accelerations()); })
        .def("q", [copy](const LinkageCore& c) { return copy(c.linkage.q); })
        .def_prop_ro("depth", [](const LinkageCore& c) { return c.linkage.depth(); })
        .def_prop_ro("bytes", [](const LinkageCore& c) { return c.linkage.bytes(); })
        // For tests and benchmarks.
        .def_prop_ro("operations", [](const LinkageCore& c) { return c.linkage.operations(); })
        .def("coefficients", &LinkageCore::coefficients)
        .def("tree", &LinkageCore::tree)
        .def("rebuild", [](LinkageCore& c, bool totals) { return c.linkage.rebuild(totals); })
        .def("leaf_bodies", [](const LinkageCore& c) { return numbers(c.linkage.leaf_bodies()); })
        .def("node_totals", [copy](const LinkageCore& c) { return copy(c.linkage.node_totals()); })
        .def("set_switching", [](LinkageCore& c, bool on) { c.linkage.set_switching(on); })
        .def_prop_ro("full_operations", [](const LinkageCore& c) { return c.linkage.full_operations(); });
}
