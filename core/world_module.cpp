// Python's view of a World, its free bodies and the friction solver.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "arrays.hpp"
#include "contact_body.hpp"
#include "module.hpp"
#include "motion_module.hpp"
#include "world.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

template <class Values>
NumpyArray array_of(const Values& values) {
    return numpy({values.begin(), values.end()}, {values.size()});
}

Solid solid(int kind, const Doubles& size, const Doubles& local, double friction, const Doubles& vertices, int rows) {
    expect(local, 16);
    Solid result;
    result.kind = static_cast<Solid::Kind>(kind);
    for (std::size_t i = 0; i < std::min<std::size_t>(3, size.size()); ++i) result.size[i] = size.data()[i];
    result.local = pose(local.data());
    result.friction = friction;
    if (result.kind == Solid::height_field) {
        HeightField& field = result.field;
        field.rows = rows;
        field.columns = static_cast<int>(vertices.size()) / rows;
        field.half_x = result.size[0];
        field.half_y = result.size[1];
        field.heights = doubles(vertices);
        field.lowest = *std::min_element(field.heights.begin(), field.heights.end());
        field.highest = *std::max_element(field.heights.begin(), field.heights.end());
    } else {
        result.vertices = vectors<3>(vertices);
    }
    result.measure();
    return result;
}

NumpyArray points_of(const ContactPoint* points, int count) {  // (n, 7): point, normal, gap
    std::vector<double> flat;
    for (int i = 0; i < count; ++i) {
        flat.insert(flat.end(), points[i].point.data(), points[i].point.data() + 3);
        flat.insert(flat.end(), points[i].normal.data(), points[i].normal.data() + 3);
        flat.push_back(points[i].gap);
    }
    return numpy(std::move(flat), {static_cast<std::size_t>(count), 7});
}

class WorldCore {
   public:
    World world;
    nb::object narrow;  // a Python function for pairs without a compiled path

    int add_participant(Participant* participant) {
        world.participants.push_back(participant);
        world.prepare();
        return static_cast<int>(world.participants.size()) - 1;
    }

    int add_solid(int participant, int frame, int kind, const Doubles& size, const Doubles& local, double friction,
                  const Doubles& vertices, int rows, unsigned type, unsigned affinity) {
        world.solids.push_back({solid(kind, size, local, friction, vertices, rows), participant, frame, type, affinity});
        world.prepare();
        return static_cast<int>(world.solids.size()) - 1;
    }

    void set_narrow(nb::object function) {
        narrow = std::move(function);
        // (first, second, poses (2, 4, 4), margin) -> (n, 7)
        world.narrow = [this](int i, int j, double margin, ContactPoint* out) {
            nb::gil_scoped_acquire held;
            std::vector<double> flat(32, 0.0);
            write(world.pose(i), flat.data());
            write(world.pose(j), flat.data() + 16);
            flat[15] = flat[31] = 1;
            const auto found = nb::cast<Doubles>(narrow(i, j, numpy(std::move(flat), {2, 4, 4}), margin));
            const int count = std::min<int>(most_points, static_cast<int>(found.size() / 7));
            for (int k = 0; k < count; ++k) {
                const double* at = found.data() + 7 * k;
                out[k] = {Vec3(at), Vec3(at + 3), at[6]};
            }
            return count;
        };
    }

    // n steps; how many succeeded, and why it ended.
    std::pair<int, int> step(int n) {
        nb::gil_scoped_release release;
        for (int k = 0; k < n; ++k) {
            const World::Outcome outcome = world.step();
            if (outcome != World::done) return {k, outcome};
        }
        return {n, World::done};
    }

    NumpyArray contacts() const {  // (n, 12): first, second, point, normal, gap, force on the first
        std::vector<double> flat;
        for (const World::Contact& c : world.contacts()) {
            flat.push_back(c.first);
            flat.push_back(c.second);
            flat.insert(flat.end(), c.at.point.data(), c.at.point.data() + 3);
            flat.insert(flat.end(), c.at.normal.data(), c.at.normal.data() + 3);
            flat.push_back(c.at.gap);
            for (int k = 0; k < 3; ++k) flat.push_back(c.impulse[k] / world.h);
        }
        return numpy(std::move(flat), {world.contacts().size(), 12});
    }
};

}  // namespace

void bind_world(nb::module_& module) {
    nb::class_<Participant>(module, "Participant").def_prop_ro("energy", [](const Participant& p) { return p.energy(); });
    nb::class_<FreeBody, Participant>(module, "FreeBody")
        .def("__init__",
             [](FreeBody* self, double mass, const Doubles& centre, const Doubles& inertia, const Doubles& at, double h) {
                 expect(centre, 3);
                 expect(inertia, 9);
                 expect(at, 16);
                 new (self) FreeBody(mass, Vec3(centre.data()), Eigen::Map<const Mat3>(inertia.data()), pose(at.data()), h);
             })
        .def("set_gravity", [](FreeBody& b, const Doubles& g) { expect(g, 3); b.gravity = Vec3(g.data()); })
        .def("set_wrench", [](FreeBody& b, const Doubles& wrench, bool world) { pull(b, wrench, world); })
        .def("set_handle",
             [](FreeBody& b, bool held, const Doubles& point, const Doubles& target, double stiffness, double damping) {
                 hold(b, held, point, target, stiffness, damping);
             })
        .def("set_velocity",
             [](FreeBody& b, const Doubles& twist) { expect(twist, 6); b.set_velocity(Eigen::Map<const Vec6>(twist.data())); })
        .def_prop_ro("velocity", [](const FreeBody& b) { const Vec6 v = b.velocity(); return numpy({v.data(), v.data() + 6}, {6}); },
                     nb::rv_policy::automatic)
        .def_prop_ro("pose",
                     [](const FreeBody& b) {
                         std::vector<double> flat(16, 0.0);
                         write(b.frame(0), flat.data());
                         flat[15] = 1;
                         return numpy(std::move(flat), {4, 4});
                     },
                     nb::rv_policy::automatic)
        .def_prop_rw("state",
                     [](const FreeBody& b) {
                         std::vector<double> flat(18);
                         b.write_state(flat.data());
                         return array_of(flat);
                     },
                     [](FreeBody& b, const Doubles& state) { expect(state, 18); b.read_state(state.data()); },
                     nb::rv_policy::automatic);
    nb::class_<WorldCore>(module, "WorldCore")
        .def("__init__",
             [](WorldCore* self, double h, double compliance, double correction) {
                 new (self) WorldCore();
                 self->world.h = h;
                 self->world.compliance = compliance;
                 self->world.correction = correction;
             })
        .def("add_participant", &WorldCore::add_participant, nb::keep_alive<1, 2>())
        .def("add_solid", &WorldCore::add_solid)
        .def("set_narrow", &WorldCore::set_narrow)
        .def("step", &WorldCore::step)
        .def("detect", [](WorldCore& c) { c.world.detect(0); })
        .def("contacts", &WorldCore::contacts)
        // of the last step: W (n, n), b (n,), friction (contacts,) and the impulses (n,)
        .def("problem",
             [](WorldCore& c) {
                 const FrictionSolver& solver = c.world.solver();
                 const std::size_t n = solver.rows();
                 std::vector<double> W(n * n);
                 for (std::size_t i = 0; i < n; ++i)
                     for (std::size_t j = 0; j < n; ++j) W[i * n + j] = solver.W(i, j);
                 return std::make_tuple(numpy(std::move(W), {n, n}), array_of(solver.b), array_of(solver.friction), array_of(solver.p));
             })
        .def_prop_ro("residual", [](const WorldCore& c) { return c.world.solver().residual(); })
        .def_prop_ro("sweeps", [](const WorldCore& c) { return c.world.solver().sweeps(); })
        .def_prop_ro("culprit", [](const WorldCore& c) { return c.world.culprit(); })
        .def_prop_ro("energy", [](const WorldCore& c) { return c.world.energy(); })
        .def_prop_rw("memory", [](const WorldCore& c) { return array_of(c.world.memory()); },
                     [](WorldCore& c, const Doubles& flat) { c.world.remember(doubles(flat)); }, nb::rv_policy::automatic)
        .def_prop_rw("time", [](const WorldCore& c) { return c.world.time; }, [](WorldCore& c, double t) { c.world.time = t; });

    // for tests and other callers: one pair, one solve
    module.def("collide", [](int kind_a, const Doubles& size_a, const Doubles& pose_a, const Doubles& vertices_a, int kind_b,
                             const Doubles& size_b, const Doubles& pose_b, const Doubles& vertices_b, int rows, double margin) {
        const Solid a = solid(kind_a, size_a, pose_a, 0, vertices_a, rows), b = solid(kind_b, size_b, pose_b, 0, vertices_b, rows);
        if (!compiled(a.kind, b.kind)) throw std::invalid_argument("no compiled path for this pair");
        ContactPoint points[most_points];
        return points_of(points, collide(a, a.local, b, b.local, margin, points));
    });
    module.def("compiled_pair", [](int a, int b) { return compiled(static_cast<Solid::Kind>(a), static_cast<Solid::Kind>(b)); });
    module.def("solve_friction", [](const Doubles& W, const Doubles& b, const Doubles& friction, const Doubles& guess) {
        FrictionSolver solver;
        const int n = static_cast<int>(b.size()), contacts = static_cast<int>(friction.size());
        expect(W, static_cast<std::size_t>(n) * n);
        expect(guess, n);
        if (n < 3 * contacts) throw std::invalid_argument("three rows a contact");
        solver.resize(contacts, n - 3 * contacts);
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) solver.W(i, j) = W.data()[i * n + j];
        solver.b.assign(b.data(), b.data() + n);
        solver.friction = doubles(friction);
        for (int i = 0; i < n; ++i)
            for (double& most : solver.loose) most = std::max(most, solver.W(i, i));
        solver.p.assign(guess.data(), guess.data() + n);
        solver.solve();
        return std::make_pair(array_of(solver.p), solver.residual());
    });
}
