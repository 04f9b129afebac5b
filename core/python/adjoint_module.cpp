// Binds the tape and the sweeps over it.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "engine/adjoint.hpp"
#include "python/engine.hpp"
#include "python/module.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

// Fills the arrays that a dictionary has; others stay empty, which means zero.
template <class Arrays>
Arrays from_dict(const Adjoint& adjoint, const nb::dict& given) {
    Arrays result;
    Arrays::visit(result, [&](const char* name, std::vector<double>& all) {
        if (!given.contains(name)) return;
        const Doubles array = nb::cast<Doubles>(given[name]);
        const bool at_start = std::is_same_v<Arrays, InputArrays> && name == std::string("velocities");
        expect(array, adjoint.size_of(at_start ? "start_velocities" : name));
        all = doubles(array);
    });
    return result;
}

template <class Arrays>
nb::dict to_dict(Arrays&& arrays) {
    nb::dict result;
    Arrays::visit(arrays, [&](const char* name, std::vector<double>& all) {
        const std::size_t n = all.size();
        result[name] = numpy(std::move(all), {n});
    });
    return result;
}

}  // namespace

void bind_adjoint(nb::module_& module) {
    nb::class_<Tape>(module, "Tape")
        .def_prop_ro("steps", &Tape::steps)
        .def_prop_ro("bytes", &Tape::bytes)

        .def_prop_ro(
            "times",
            [](const Tape& tape) {
                std::vector<double> values;
                for (int i : tape.ends) values.push_back(tape.records[i].time);
                const std::size_t n = values.size();
                return numpy(std::move(values), {n});
            },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "q",
            [](const Tape& tape) {
                std::vector<double> values;
                for (int i : tape.ends) values.insert(values.end(), tape.q(i), tape.q(i) + tape.axes());
                return numpy(std::move(values), {tape.ends.size(), static_cast<std::size_t>(tape.axes())});
            },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "multipliers",
            [](const Tape& tape) {
                std::vector<double> values;
                for (int i : tape.ends) values.insert(values.end(), tape.mu(i), tape.mu(i) + tape.rows());
                return numpy(std::move(values), {tape.ends.size(), static_cast<std::size_t>(tape.rows())});
            },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "targets",
            [](const Tape& tape) {
                std::vector<double> values;
                for (int i : tape.ends) values.insert(values.end(), tape.targets(i), tape.targets(i) + tape.rows());
                return numpy(std::move(values), {tape.ends.size(), static_cast<std::size_t>(tape.rows())});
            },
            nb::rv_policy::automatic)
        // parts: the start, then the end of every time step or of each part of a divided one
        .def_prop_ro("step_of_part",
                     [](const Tape& tape) {
                         std::vector<int> result;
                         for (std::size_t i = 1; i < tape.records.size(); ++i) result.push_back(tape.records[i].index);
                         return result;
                     })
        .def_ro("driven", &Tape::driven)
        .def_ro("softened", &Tape::softened)
        // time steps (from 1) that were divided, and those in which a limit was met or left
        .def_prop_ro("divided",
                     [](const Tape& tape) {
                         std::vector<int> result;
                         for (std::size_t t = 1; t < tape.ends.size(); ++t)
                             if (tape.ends[t] - tape.ends[t - 1] > 1) result.push_back(static_cast<int>(t));
                         return result;
                     })
        .def_prop_ro("impacts", [](const Tape& tape) {
            std::vector<int> result;
            for (const TapeRecord& record : tape.records)
                if (record.impact && (result.empty() || result.back() != record.index)) result.push_back(record.index);
            return result;
        });

    nb::class_<Adjoint>(module, "Adjoint")
        .def("__init__",
             [](Adjoint* self, const Engine& engine, const std::shared_ptr<Tape>& tape) {
                 new (self) Adjoint(engine.system, engine.stepper->passes(), tape);
             })
        .def(
            "poses",
            [](Adjoint& self) {  // (times, bodies, 4, 4)
                const std::size_t n = self.bodies(), times = self.times();
                std::vector<double> values(16 * n * times, 0.0);
                double* at = values.data();
                for (int record : self.tape().ends)
                    for (int b = 0; b < self.bodies(); ++b, at += 16) {
                        write(self.recorded_pose(record, b), at);
                        at[15] = 1;
                    }
                return numpy(std::move(values), {times, n, 4, 4});
            },
            nb::rv_policy::automatic)
        .def(
            "part_rotations",
            [](Adjoint& self, int body) {  // of a body at the start and at the end of every part
                std::vector<double> values;
                const std::size_t records = self.tape().records.size();
                for (std::size_t i = 1; i < records; ++i) {
                    const Pose H = self.recorded_pose(static_cast<int>(i), body);
                    for (int r = 0; r < 3; ++r)
                        for (int c = 0; c < 3; ++c) values.push_back(H.R(r, c));
                }
                return numpy(std::move(values), {records - 1, 3, 3});
            },
            nb::rv_policy::automatic)
        .def("backward",
             [](Adjoint& self, const nb::dict& gradient) {
                 auto objective = from_dict<OutputArrays>(self, gradient);
                 InputArrays result;
                 {
                     nb::gil_scoped_release release;
                     result = self.backward(std::move(objective));
                 }
                 return to_dict(std::move(result));
             })
        .def("forward",
             [](Adjoint& self, const std::vector<nb::dict>& directions, bool coordinates, bool poses, bool velocities,
                bool multipliers) {
                 std::vector<InputArrays> inputs;
                 for (const nb::dict& direction : directions) inputs.push_back(from_dict<InputArrays>(self, direction));
                 std::vector<OutputArrays> result;
                 {
                     nb::gil_scoped_release release;
                     result = self.forward(std::move(inputs), coordinates, poses, velocities, multipliers);
                 }
                 nb::list list;
                 for (OutputArrays& each : result) list.append(to_dict(std::move(each)));
                 return list;
             })
        .def("start",
             [](Adjoint& self, const Doubles& q, const Doubles& rates, bool before) {
                 expect(q, self.axes());
                 expect(rates, self.axes());
                 return to_dict(self.start(before ? 0 : 1, q.data(), rates.data()));
             })
        .def("velocities", [](Adjoint& self) {
            auto values = self.recorded_velocities();
            const std::size_t n = values.size();
            return numpy(std::move(values), {n});
        });
}
