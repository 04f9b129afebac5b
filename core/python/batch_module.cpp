// Bindings of batches: copies of one reduced model that are stepped together.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "python/arrays.hpp"
#include "python/module.hpp"
#include "reduced/batch.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using View = nb::ndarray<nb::numpy, const double>;

// Rows of `columns` as an array (copies, ...) that cannot be written to; the last axes count the rows
View view(nb::handle owner, const Columns& columns, std::vector<std::size_t> shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    std::int64_t step = columns.stride();
    for (std::size_t k = shape.size() - 1; k > 0; --k) {
        strides[k] = step;
        step *= static_cast<std::int64_t>(shape[k]);
    }
    return View(columns.row(0), shape.size(), shape.data(), owner, strides.data());
}

std::vector<int> checked(const Indices& copies, int n) {
    std::vector<int> which(copies.size());
    for (std::size_t i = 0; i < which.size(); ++i) {
        if (copies.data()[i] < 0 || copies.data()[i] >= n) throw std::out_of_range("there is no such copy");
        which[i] = static_cast<int>(copies.data()[i]);
    }
    return which;
}

// The caller has checked the shape.
int apply(Batch& b, const nb::ndarray<const double, nb::ndim<3>, nb::device::cpu>& wrenches, bool world,
          const Indices& copies) {
    const std::vector<int> which = checked(copies, b.copies);
    const std::int64_t strides[] = {wrenches.stride(0), wrenches.stride(1), wrenches.stride(2)};
    if (wrenches.shape(0) != which.size() || wrenches.shape(1) != static_cast<std::size_t>(b.tips) ||
        wrenches.shape(2) != 6)
        throw std::invalid_argument("array of unexpected size");
    return b.apply(wrenches.data(), strides, world, which);
}

void set_rows(Columns& columns, const Doubles& values, const std::vector<int>& which) {
    const std::size_t rows = columns.rows();
    expect(values, rows * which.size());
    for (std::size_t i = 0; i < which.size(); ++i)
        for (std::size_t r = 0; r < rows; ++r) columns.row(static_cast<int>(r))[which[i]] = values.data()[i * rows + r];
}

LinearBatch* linear_batch(const Doubles& mass, const Doubles& damping, const Doubles& stiffness, const Doubles& bias,
                          const Doubles& poses, const Doubles& maps, double h, int copies, int threads) {
    const std::size_t m = bias.size(), tips = poses.size() / 16;
    for (const Doubles* each : {&mass, &damping, &stiffness}) expect(*each, m * m);
    expect(maps, 6 * tips * m);
    LinearBatch::Given given{matrix(mass, m), matrix(damping, m), matrix(stiffness, m), vector(bias), {}, {}, h};
    const Matrix all = matrix(maps, 6 * tips);
    for (std::size_t e = 0; e < tips; ++e) {
        given.rest.push_back(pose(poses.data() + 16 * e));
        given.map.push_back(all.middleRows<6>(6 * e));
    }
    return new LinearBatch(std::move(given), copies, threads);
}

}  // namespace

void bind_batch(nb::module_& module) {
    const auto automatic = nb::rv_policy::automatic;
    nb::class_<BatchMember>(module, "BatchMember");
    nb::class_<Batch>(module, "BatchCore")
        .def("apply", &apply)
        .def("set_in_body",  // (copies, tips): 1 where the wrench is in body axes
             [](Batch& b, const Doubles& in_body, const Indices& copies) {
                 const std::vector<int> which = checked(copies, b.copies);
                 set_rows(b.in_body, in_body, which);
                 for (int i : which) b.load_changed(i);
             })
        .def("set_base",
             [](Batch& b, const Doubles& poses, const Indices& copies) {
                 const std::vector<int> which = checked(copies, b.copies);
                 expect(poses, 16 * which.size());
                 for (std::size_t i = 0; i < which.size(); ++i) b.set_base(which[i], poses.data() + 16 * i);
             })
        .def("step", &Batch::step, nb::call_guard<nb::gil_scoped_release>())
        .def("update", &Batch::update, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("failed",
                     [](const Batch& b) {
                         std::vector<int> found;
                         for (int i = 0; i < b.copies; ++i)
                             if (b.failed[i]) found.push_back(i);
                         return found;
                     })
        .def("clear_failed",
             [](Batch& b, const Indices& copies) {
                 for (int i : checked(copies, b.copies)) b.failed[i] = 0;
             })
        // views of memory that every step overwrites
        .def_prop_ro(
            "poses",
            [](Batch& b) { return view(nb::find(b), b.pose, {std::size_t(b.copies), std::size_t(b.tips), 4, 4}); },
            automatic)
        .def_prop_ro(
            "velocities",
            [](Batch& b) { return view(nb::find(b), b.velocity, {std::size_t(b.copies), std::size_t(b.tips), 6}); },
            automatic)
        .def_prop_ro(
            "wrenches",
            [](Batch& b) { return view(nb::find(b), b.wrench, {std::size_t(b.copies), std::size_t(b.tips), 6}); },
            automatic)
        .def_prop_ro(
            "in_body",
            [](Batch& b) { return view(nb::find(b), b.in_body, {std::size_t(b.copies), std::size_t(b.tips)}); },
            automatic)
        .def_prop_ro(
            "base", [](Batch& b) { return view(nb::find(b), b.base, {std::size_t(b.copies), 12}); }, automatic)
        .def_prop_ro("time", [](Batch& b) { return view(nb::find(b), b.time, {std::size_t(b.copies)}); }, automatic);
    nb::class_<LinearBatch, Batch>(module, "LinearBatch")
        .def_static("create", &linear_batch, nb::rv_policy::take_ownership)
        .def("add_target", [](LinearBatch& b, const Doubles& goal,
                              const Doubles& offset) { return b.add_target(vector(goal), vector(offset)); })
        .def("set_target",
             [](LinearBatch& b, int target, const Doubles& changes, const Indices& copies) {
                 const std::vector<int> which = checked(copies, b.copies);
                 expect(changes, which.size());
                 for (std::size_t i = 0; i < which.size(); ++i) b.set_target(target, which[i], changes.data()[i]);
             })
        .def("set_state",
             [](LinearBatch& b, const Doubles& y, const Doubles& v, const Doubles& time, const Indices& copies) {
                 const std::vector<int> which = checked(copies, b.copies);
                 set_rows(b.y, y, which);
                 set_rows(b.v, v, which);
                 set_rows(b.time, time, which);
             })
        .def_prop_ro(
            "y",
            [](LinearBatch& b) { return view(nb::find(b), b.y, {std::size_t(b.copies), std::size_t(b.y.rows())}); },
            automatic)
        .def_prop_ro(
            "v",
            [](LinearBatch& b) { return view(nb::find(b), b.v, {std::size_t(b.copies), std::size_t(b.v.rows())}); },
            automatic);
    nb::class_<ThreadedBatch, Batch>(module, "ThreadedBatch")
        .def(nb::init<std::vector<BatchMember*>, int, int>(), nb::keep_alive<1, 2>())
        .def("mark_changed", [](ThreadedBatch& b, const Indices& copies) {
            for (int i : checked(copies, b.copies)) b.load_changed(i);
        });
}
