// Binds the functions of spatial.hpp for batches (n, ...). supple itself does not call these bindings: they exist for
// tests/parity/test_spatial.py, which compares each function that the compiled code uses with its NumPy twin. Tests of
// the code that uses them (engine, reduced, contact) could not show which term differs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "python/module.hpp"
#include "spatial/spatial.hpp"

namespace nb = nanobind;

namespace {

using namespace supple;

// Storage of an element of a batch in a C-contiguous array: trailing shape, reading and writing.
template <class T>
struct Layout;

template <>
struct Layout<double> {
    using Shape = nb::shape<-1>;
    static double read(const double* x) { return *x; }
};

template <int rows>
struct Layout<Eigen::Matrix<double, rows, 1>> {
    using Vector = Eigen::Matrix<double, rows, 1>;
    using Shape = nb::shape<-1, rows>;
    static Vector read(const double* x) { return Eigen::Map<const Vector>(x); }
    static void write(const Vector& value, double* x) { Eigen::Map<Vector>{x} = value; }
};

template <int n>
struct Layout<Eigen::Matrix<double, n, n>> {
    using Matrix = Eigen::Matrix<double, n, n>;
    using RowMajor = Eigen::Matrix<double, n, n, Eigen::RowMajor>;
    using Shape = nb::shape<-1, n, n>;
    static Matrix read(const double* x) { return Eigen::Map<const RowMajor>(x); }
    static void write(const Matrix& value, double* x) { Eigen::Map<RowMajor>{x} = value; }
};

template <>
struct Layout<Pose> {
    using Shape = nb::shape<-1, 4, 4>;
    static Pose read(const double* x) {
        const Eigen::Matrix4d h = Layout<Eigen::Matrix4d>::read(x);
        return {h.topLeftCorner<3, 3>(), h.topRightCorner<3, 1>()};
    }
    static void write(const Pose& value, double* x) {
        Eigen::Matrix4d h = Eigen::Matrix4d::Identity();
        h.topLeftCorner<3, 3>() = value.R;
        h.topRightCorner<3, 1>() = value.p;
        Layout<Eigen::Matrix4d>::write(h, x);
    }
};

template <class T>
using Input = nb::ndarray<const double, typename Layout<T>::Shape, nb::c_contig, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<nb::numpy, double, typename Layout<T>::Shape, nb::c_contig>;

// Numbers per element, from a shape whose first axis counts the elements.
template <class>
constexpr std::size_t size_of = 0;
template <nb::ssize_t... axes>
constexpr std::size_t size_of<nb::shape<-1, axes...>> = (std::size_t{1} * ... * axes);

template <class T>
T element(const Input<T>& array, std::size_t i) {
    return Layout<T>::read(array.data() + i * size_of<typename Layout<T>::Shape>);
}

template <class T, nb::ssize_t... axes>
Output<T> to_numpy(std::unique_ptr<double[]> data, std::size_t n, nb::shape<-1, axes...>) {
    nb::capsule owner(data.get(), [](void* p) noexcept { delete[] static_cast<double*>(p); });
    return Output<T>(data.release(), {n, static_cast<std::size_t>(axes)...}, owner);
}

template <class Result, class First, class... Rest>
void bind(nb::module_& module, const char* name, Result (*function)(const First&, const Rest&...)) {
    module.def(name, [function, name](const Input<First>& first, const Input<Rest>&... rest) {
        const std::size_t n = first.shape(0);
        if (((rest.shape(0) != n) || ...))
            throw std::invalid_argument(std::string(name) + ": the arrays differ in length");
        constexpr std::size_t size = size_of<typename Layout<Result>::Shape>;
        auto data = std::make_unique_for_overwrite<double[]>(n * size);
        {
            nb::gil_scoped_release release;
            for (std::size_t i = 0; i < n; ++i) {
                const Result result = function(element<First>(first, i), element<Rest>(rest, i)...);
                Layout<Result>::write(result, data.get() + i * size);
            }
        }
        return to_numpy<Result>(std::move(data), n, typename Layout<Result>::Shape{});
    });
}

}  // namespace

void bind_spatial(nb::module_& module) {
    bind(module, "so3_exp", so3_exp);
    bind(module, "so3_log", so3_log);
    bind(module, "so3_right_jacobian", so3_right_jacobian);
    bind(module, "so3_right_jacobian_inverse", so3_right_jacobian_inverse);
    bind(module, "so3_right_jacobian_inverse_directional", so3_right_jacobian_inverse_directional);
    bind(module, "spatial_exp", supple::exp);
    bind(module, "spatial_log", supple::log);
    bind(module, "spatial_inverse", inverse);
    bind(module, "spatial_adjoint", adjoint);
    bind(module, "spatial_ad", ad);
    bind(module, "spatial_right_jacobian", right_jacobian);
    bind(module, "spatial_right_jacobian_inverse", right_jacobian_inverse);
    bind(module, "spatial_transform_twist", transform_twist);
    bind(module, "spatial_transform_wrench", transform_wrench);
    bind(module, "spatial_inertia", spatial_inertia);
}
