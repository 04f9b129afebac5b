// Python bindings of World, FreeBody and Collider.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <tuple>

#include "contact/contact_body.hpp"
#include "contact/world.hpp"
#include "python/finite_array.hpp"
#include "python/module.hpp"
#include "python/motion_module.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

template <class Values>
NumpyArray array_of(const Values& values) {
    return numpy({values.begin(), values.end()}, {values.size()});
}

// friction: sliding, torsional, rolling
Collider make_collider(int kind, const Doubles& size, const Doubles& local, const Doubles& friction, int condim,
                       double restitution, int priority, const Doubles& points, int rows, const Doubles& faces) {
    expect(local, 16);
    expect(friction, 3);
    Collider result;
    result.kind = static_cast<Collider::Kind>(kind);
    for (std::size_t i = 0; i < std::min<std::size_t>(3, size.size()); ++i) result.size[i] = size.data()[i];
    result.local = pose(local.data());
    result.friction = friction.data()[0];
    result.torsional = friction.data()[1];
    result.rolling = friction.data()[2];
    result.condim = condim;
    result.restitution = restitution;
    result.priority = priority;
    if (result.kind == Collider::height_field) {
        HeightField& field = result.field;
        field.rows = rows;
        field.columns = static_cast<int>(points.size()) / rows;
        field.half_x = result.size[0];
        field.half_y = result.size[1];
        field.heights = doubles(points);
        field.lowest = *std::min_element(field.heights.begin(), field.heights.end());
        field.highest = *std::max_element(field.heights.begin(), field.heights.end());
    } else {
        result.vertices = vectors<3>(points);
        for (std::size_t i = 0; i + 4 <= faces.size(); i += 4) result.faces.emplace_back(faces.data() + i);
    }
    result.compute_bounding_radius();
    if (result.kind == Collider::mesh) result.find_loops();
    return result;
}

Collider make_pad(const Doubles& points, const Doubles& normals, const Doubles& triangles, const Doubles& local,
                  double friction) {
    expect(local, 16);
    Collider result;
    result.kind = Collider::pad;
    result.local = pose(local.data());
    result.friction = friction;
    result.vertices = vectors<3>(points);
    result.normals = vectors<3>(normals);
    for (std::size_t i = 0; i + 3 <= triangles.size(); i += 3)
        result.triangles.push_back({static_cast<int>(triangles.data()[i]), static_cast<int>(triangles.data()[i + 1]),
                                    static_cast<int>(triangles.data()[i + 2])});
    result.find_border();
    result.compute_bounding_radius();
    return result;
}

// Records that Python sees as NumPy structured arrays: bytes, viewed with the dtype of the same layout.

struct PointRecord {
    double position[3], normal[3], gap;
};

struct ContactRecord {
    std::int64_t first, second;
    double position[3], normal[3], gap, impulse[3], moment[3], position_first[3];
};

nb::dict layout(std::initializer_list<std::tuple<const char*, const char*, std::size_t>> fields, std::size_t size) {
    nb::list names, formats, offsets;
    for (const auto& [name, format, offset] : fields) {
        names.append(name);
        formats.append(format);
        offsets.append(offset);
    }
    nb::dict result;
    result["names"] = names;
    result["formats"] = formats;
    result["offsets"] = offsets;
    result["itemsize"] = size;
    return result;
}

using NumpyBytes = nb::ndarray<nb::numpy, std::uint8_t>;
using Bytes = nb::ndarray<const std::uint8_t, nb::c_contig, nb::device::cpu>;

template <class Record>
NumpyBytes to_bytes(std::vector<Record> records) {
    auto* buffer = new std::vector<Record>(std::move(records));
    nb::capsule owner(buffer, [](void* p) noexcept { delete static_cast<std::vector<Record>*>(p); });
    return NumpyBytes(buffer->data(), {buffer->size() * sizeof(Record)}, owner);
}

template <class Record>
std::vector<Record> from_bytes(const Bytes& bytes) {
    if (bytes.size() % sizeof(Record)) throw std::invalid_argument("records of unexpected size");
    std::vector<Record> records(bytes.size() / sizeof(Record));
    if (!records.empty()) std::memcpy(records.data(), bytes.data(), bytes.size());
    return records;
}

void copy(const Vec3& from, double* to) { std::copy_n(from.data(), 3, to); }

NumpyBytes point_records(const ContactPoint* points, int count) {
    std::vector<PointRecord> records(count);
    for (int i = 0; i < count; ++i) {
        copy(points[i].point, records[i].position);
        copy(points[i].normal, records[i].normal);
        records[i].gap = points[i].gap;
    }
    return to_bytes(std::move(records));
}

NumpyBytes contact_records(const std::vector<World::Contact>& contacts) {
    std::vector<ContactRecord> records(contacts.size());
    for (std::size_t i = 0; i < contacts.size(); ++i) {
        const World::Contact& contact = contacts[i];
        ContactRecord& record = records[i];
        record.first = contact.first;
        record.second = contact.second;
        copy(contact.at.point, record.position);
        copy(contact.at.normal, record.normal);
        record.gap = contact.at.gap;
        copy(contact.impulse, record.impulse);
        copy(contact.moment, record.moment);
        copy(contact.local, record.position_first);
    }
    return to_bytes(std::move(records));
}

std::vector<World::Contact> contacts_of(const Bytes& bytes) {
    std::vector<World::Contact> contacts;
    for (const ContactRecord& r : from_bytes<ContactRecord>(bytes))
        contacts.push_back({static_cast<int>(r.first),
                            static_cast<int>(r.second),
                            {Vec3(r.position), Vec3(r.normal), r.gap},
                            Vec3(r.impulse),
                            Vec3(r.moment),
                            Vec3(r.position_first),
                            {}});
    return contacts;
}

class WorldCore {
   public:
    World world;
    struct Miss {  // the step with the largest residual above `visible`
        double speed = 0, time = 0;
        int first = -1, second = -1;  // colliders of the contact; of a limit -1 and the participant
    };
    Miss worst;

    void note_residual() {
        const FrictionSolver& solver = world.solver();
        // M/s: bodies that creep at this speed move by a tenth of a millimetre a second
        constexpr double visible = 1e-4;
        if (solver.speed_error() <= std::max(visible, worst.speed)) return;
        worst = {solver.speed_error(), world.time, -1, -1};
        const auto& contacts = world.contacts();
        const int at = solver.worst();
        if (at < static_cast<int>(contacts.size())) {
            worst.first = contacts[at].first;
            worst.second = contacts[at].second;
        } else {
            worst.second = world.participant_of_limit(at - static_cast<int>(contacts.size()));
        }
    }

    int add_participant(Participant* participant) {
        world.participants.push_back(participant);
        world.prepare();
        return static_cast<int>(world.participants.size()) - 1;
    }

    void set_participant(int index, Participant* participant) { world.participants.at(index) = participant; }

    int add_collider(const Collider& collider, int participant, int frame, unsigned type, unsigned affinity,
                     bool still) {
        world.colliders.push_back({collider, participant, frame, type, affinity});
        world.colliders.back().still = still;
        world.prepare();
        return static_cast<int>(world.colliders.size()) - 1;
    }

    int add_pad(const Collider& collider, int participant, int frame, const Doubles& compliance, double relaxation) {
        const std::size_t n = 3 * collider.vertices.size();
        expect(compliance, n * n);
        add_collider(collider, participant, frame, 1, 1, false);
        world.colliders.back().pad = static_cast<int>(world.pads.size());
        world.pads.emplace_back(Eigen::Map<const Eigen::MatrixXd>(compliance.data(), n, n), relaxation);
        return world.colliders.back().pad;
    }

    void exclude(int first, int second) { world.excluded.insert({std::min(first, second), std::max(first, second)}); }
    void allow_self_contact(int participant) { world.self_contact.at(participant) = 1; }

    // State of a pad's points at the end of the last step, in the pad's axes, (10 n,): displacements (n, 3), forces (n,
    // 3), contact normals (n, 3), friction coefficients (n,).
    NumpyArray pad_state(int pad) const {
        const Pad& each = world.pads[pad];
        std::vector<double> flat;
        for (const Eigen::VectorXd* v :
             {&each.displacements(), &each.loads().forces, &each.loads().normals, &each.loads().friction})
            flat.insert(flat.end(), v->data(), v->data() + v->size());
        return array_of(flat);
    }
    void set_pad_state(int pad, const Doubles& state) {
        const std::size_t n = world.pads[pad].points();
        expect(state, 10 * n);
        auto part = [&](std::size_t first, std::size_t count) -> Eigen::VectorXd {
            return Eigen::Map<const Eigen::VectorXd>(state.data() + first * n, count * n);
        };
        world.pads[pad].restore(part(0, 3), {part(3, 3), part(6, 3), part(9, 1)});
    }

    // Makes up to n steps; returns the number that succeeded, and the outcome of the last one.
    std::pair<int, int> step(int n) {
        nb::gil_scoped_release release;
        for (int k = 0; k < n; ++k) {
            const World::Outcome outcome = world.step();
            if (outcome != World::done) return {k, outcome};
            note_residual();
        }
        return {n, World::done};
    }
};

// Functions of the contact solver for tests.
void bind_testing(nb::module_ module) {
    // solves a contact problem W (n, n), b (n,), friction (contacts,) from an initial guess; returns impulses (n,) and
    // residual
    module.def("solve_friction", [](const Doubles& W, const Doubles& b, const Doubles& friction, const Doubles& guess) {
        FrictionSolver solver;
        const int n = static_cast<int>(b.size()), contacts = static_cast<int>(friction.size());
        expect(W, static_cast<std::size_t>(n) * n);
        expect(guess, n);
        if (n < 3 * contacts) throw std::invalid_argument("a contact needs three rows");
        solver.resize(contacts, 0, n - 3 * contacts);
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) solver.W(i, j) = W.data()[i * n + j];
        solver.b.assign(b.data(), b.data() + n);
        solver.friction = doubles(friction);
        for (int i = 0; i < n; ++i)
            for (double& largest : solver.max_response) largest = std::max(largest, solver.W(i, i));
        solver.p.assign(guess.data(), guess.data() + n);
        solver.solve();
        return std::make_pair(array_of(solver.p), solver.residual());
    });
    // impulses (n,) of one contact with moments: W (n, n), b (n,), the normal first
    module.def("solve_moments", [](const Doubles& W, const Doubles& b, double friction) {
        MomentBlock block;
        expect(W, b.size() * b.size());
        block.W = matrix(W, b.size());
        block.prepare();
        const MomentBlock::Few<6> p = block.solve(vector(b), friction);
        return array_of(std::vector<double>(p.data(), p.data() + p.size()));
    });
    module.def("farthest",
               [](const Collider& mesh, const Doubles& direction) { return mesh.farthest(Vec3(direction.data())); });
    // the contact problem of the last step: W (n, n), b (n,), friction (contacts,) and the impulses (n,)
    module.def("friction_problem", [](const WorldCore& c) {
        const FrictionSolver& solver = c.world.solver();
        const std::size_t n = solver.rows();
        std::vector<double> W(n * n);
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j) W[i * n + j] = solver.W(i, j);
        return std::make_tuple(numpy(std::move(W), {n, n}), array_of(solver.b), array_of(solver.friction),
                               array_of(solver.p));
    });
}

}  // namespace

void bind_world(nb::module_& module) {
    nb::class_<Participant>(module, "Participant").def_prop_ro("energy", [](const Participant& p) {
        return p.energy();
    });
    nb::class_<FreeBody, Participant>(module, "FreeBody")
        .def("__init__",
             [](FreeBody* self, double mass, const Doubles& centre, const Doubles& inertia, const Doubles& at,
                double h) {
                 expect(centre, 3);
                 expect(inertia, 9);
                 expect(at, 16);
                 new (self)
                     FreeBody(mass, Vec3(centre.data()), Eigen::Map<const Mat3>(inertia.data()), pose(at.data()), h);
             })
        .def("set_gravity",
             [](FreeBody& b, const Doubles& g) {
                 expect(g, 3);
                 b.gravity = Vec3(g.data());
             })
        .def("set_wrench", [](FreeBody& b, const Doubles& wrench, bool world) { set_load(b, wrench, world); })
        .def("set_handle",
             [](FreeBody& b, bool has_handle, const Doubles& point, const Doubles& target, double stiffness,
                double damping) { attach_handle(b, has_handle, point, target, stiffness, damping); })
        .def("set_velocity",
             [](FreeBody& b, const Doubles& twist) {
                 expect(twist, 6);
                 b.set_velocity(Eigen::Map<const Vec6>(twist.data()));
             })
        .def_prop_ro(
            "velocity",
            [](const FreeBody& b) {
                const Vec6 v = b.velocity();
                return numpy({v.data(), v.data() + 6}, {6});
            },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "pose",
            [](const FreeBody& b) {
                std::vector<double> flat(16, 0.0);
                write(b.frame(0), flat.data());
                flat[15] = 1;
                return numpy(std::move(flat), {4, 4});
            },
            nb::rv_policy::automatic)
        // coordinates (6,) relative to a pose: position and rotation vector; and their time derivatives
        .def("coordinates",
             [](const FreeBody& b, const Doubles& first) {
                 expect(first, 16);
                 const Pose moved = b.frame(0).seen_from(pose(first.data()));
                 const Vec3 turn = so3_log(moved.R);
                 return numpy({moved.p[0], moved.p[1], moved.p[2], turn[0], turn[1], turn[2]}, {6});
             })
        .def("rates",
             [](const FreeBody& b, const Doubles& first) {
                 expect(first, 16);
                 const Pose moved = b.frame(0).seen_from(pose(first.data()));
                 const Vec6 twist = b.velocity();
                 const Vec3 v = moved.R * twist.head<3>(),
                            w = so3_right_jacobian_inverse(so3_log(moved.R)) * twist.tail<3>();
                 return numpy({v[0], v[1], v[2], w[0], w[1], w[2]}, {6});
             })
        .def_prop_rw(
            "state",
            [](const FreeBody& b) {
                std::vector<double> flat(18);
                b.write_state(flat.data());
                return array_of(flat);
            },
            [](FreeBody& b, const Doubles& state) {
                expect(state, 18);
                b.read_state(state.data());
            },
            nb::rv_policy::automatic);
    nb::class_<WorldCore>(module, "WorldCore")
        .def("__init__",
             [](WorldCore* self, double h, double compliance, double correction, double bounce_speed) {
                 new (self) WorldCore();
                 self->world.h = h;
                 self->world.compliance = compliance;
                 self->world.correction = correction;
                 self->world.bounce_speed = bounce_speed;
             })
        .def("add_participant", &WorldCore::add_participant, nb::keep_alive<1, 2>())
        .def("set_participant", &WorldCore::set_participant, nb::keep_alive<1, 3>())
        .def("add_collider", &WorldCore::add_collider)
        .def("exclude", &WorldCore::exclude)
        .def("allow_self_contact", &WorldCore::allow_self_contact)
        .def("add_pad", &WorldCore::add_pad)
        .def("pad_state", &WorldCore::pad_state, nb::rv_policy::automatic)
        .def("set_pad_state", &WorldCore::set_pad_state)
        .def(
            "collider_pose",
            [](const WorldCore& c, int i) {
                std::vector<double> flat(16, 0.0);
                write(c.world.pose(i), flat.data());
                flat[15] = 1;
                return numpy(std::move(flat), {4, 4});
            },
            nb::rv_policy::automatic)
        .def("step", &WorldCore::step)
        .def_prop_ro("has_any_step", [](const WorldCore& c) { return c.world.has_any_step(); })
        .def("set_step", [](WorldCore& c, double h) { c.world.set_step(h); })
        .def_prop_rw(
            "checks_motion", [](const WorldCore& c) { return c.world.checks_motion; },
            [](WorldCore& c, bool checks) { c.world.checks_motion = checks; })
        .def("detect", [](WorldCore& c) { c.world.detect(0); })
        .def("contacts", [](const WorldCore& c) { return contact_records(c.world.contacts()); })
        // force (3,) of the contacts of the last step, which took h, on some colliders
        .def("read_contact_force",
             [](const WorldCore& c, const Bytes& of_collider, double h, nb::handle to) {
                 if (of_collider.size() != c.world.colliders.size())
                     throw std::invalid_argument("array of unexpected size");
                 Filled force(to, 3);
                 Vec3 sum = Vec3::Zero();
                 for (const World::Contact& contact : c.world.contacts())
                     sum += (of_collider.data()[contact.first] - of_collider.data()[contact.second]) * contact.impulse;
                 Eigen::Map<Vec3>(force.data(), 3) = sum / h;
             })
        .def_prop_ro("residual", [](const WorldCore& c) { return c.world.solver().residual(); })
        // of the worst step so far with a visible residual: speed, m/s (0: none), time, colliders of the contact; of a
        // limit -1 and the participant
        .def_prop_ro("worst_speed", [](const WorldCore& c) { return c.worst.speed; })
        .def_prop_ro("worst_residual",
                     [](const WorldCore& c) {
                         return std::make_tuple(c.worst.speed, c.worst.time, c.worst.first, c.worst.second);
                     })
        .def_prop_ro("solver_steps", [](const WorldCore& c) { return c.world.solver().steps(); })
        // impulses (4 n,) of limits: participant, row, sign, impulse
        .def_prop_rw(
            "limit_impulses",
            [](const WorldCore& c) {
                std::vector<double> flat;
                for (const World::LimitImpulse& each : c.world.limit_impulses)
                    flat.insert(flat.end(), {double(each.participant), double(each.row), each.sign, each.impulse});
                return array_of(flat);
            },
            [](WorldCore& c, const Doubles& flat) {
                c.world.limit_impulses.clear();
                for (std::size_t i = 0; i + 4 <= flat.size(); i += 4) {
                    const double* at = flat.data() + i;
                    c.world.limit_impulses.push_back({static_cast<int>(at[0]), static_cast<int>(at[1]), at[2], at[3]});
                }
            },
            nb::rv_policy::automatic)
        .def_prop_ro("failed_participant", [](const WorldCore& c) { return c.world.failed_participant(); })
        .def_prop_ro("energy", [](const WorldCore& c) { return c.world.energy(); })
        .def_prop_rw(
            "previous_contacts", [](const WorldCore& c) { return contact_records(c.world.previous_contacts()); },
            [](WorldCore& c, const Bytes& bytes) { c.world.set_previous_contacts(contacts_of(bytes)); },
            nb::rv_policy::automatic)
        .def_prop_rw(
            "time", [](const WorldCore& c) { return c.world.time; }, [](WorldCore& c, double t) { c.world.time = t; });

    nb::class_<Collider>(module, "Collider")
        .def("__init__",
             [](Collider* self, int kind, const Doubles& size, const Doubles& local, const Doubles& friction,
                int condim, double restitution, int priority, const Doubles& points, int rows, const Doubles& faces) {
                 new (self) Collider(
                     make_collider(kind, size, local, friction, condim, restitution, priority, points, rows, faces));
             });
    module.def("collide", [](const Collider& a, const Collider& b, double margin) {
        if (!can_touch(a.kind, b.kind)) throw std::invalid_argument("shapes of these kinds cannot touch each other");
        ContactPoint points[most_points];
        return point_records(points, collide(a, a.local, b, b.local, margin, points));
    });
    module.attr("point_layout") = layout({{"position", "3f8", offsetof(PointRecord, position)},
                                          {"normal", "3f8", offsetof(PointRecord, normal)},
                                          {"gap", "f8", offsetof(PointRecord, gap)}},
                                         sizeof(PointRecord));
    module.attr("contact_layout") = layout({{"first", "i8", offsetof(ContactRecord, first)},
                                            {"second", "i8", offsetof(ContactRecord, second)},
                                            {"position", "3f8", offsetof(ContactRecord, position)},
                                            {"normal", "3f8", offsetof(ContactRecord, normal)},
                                            {"gap", "f8", offsetof(ContactRecord, gap)},
                                            {"impulse", "3f8", offsetof(ContactRecord, impulse)},
                                            {"moment", "3f8", offsetof(ContactRecord, moment)},
                                            {"position_first", "3f8", offsetof(ContactRecord, position_first)}},
                                           sizeof(ContactRecord));
    module.def("pad_collider", &make_pad);
    // Points (k,) of an unpressed pad that are closer than `margin` to a shape, both fixed to the world, and their gaps
    // (k,).
    module.def("near_points", [](const Collider& pad, const Collider& shape, double margin) {
        std::vector<PadContact> found;
        collide_pad(pad, pad.local, Pad(Eigen::MatrixXd::Zero(3 * pad.vertices.size(), 0), 0), shape, shape.local,
                    margin, found);
        std::vector<double> indices, gaps;
        for (const PadContact& contact : found) {
            indices.push_back(contact.point);
            gaps.push_back(contact.at.gap);
        }
        return std::make_pair(array_of(indices), array_of(gaps));
    });
    bind_testing(module.def_submodule("contact_testing"));
}
