// Python classes of element forces, reduced internal forces and interface frames.
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include "elastic/elements.hpp"
#include "elastic/interface_frame.hpp"
#include "elastic/reduced_force.hpp"
#include "python/arrays.hpp"
#include "python/module.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

using Integers = nb::ndarray<const int, nb::c_contig, nb::device::cpu>;
using IntegerArray = nb::ndarray<nb::numpy, int>;

IntegerArray numpy_integers(const std::vector<int>& values) {
    auto* kept = new std::vector<int>(values);
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<int>*>(p); });
    const std::size_t size = kept->size();
    return IntegerArray(kept->data(), 1, &size, owner);
}

nb::tuple evaluate(ReducedForce& of, const Doubles& eta, bool with_tangent) {
    const std::size_t r = of.modes();
    expect(eta, r);
    std::vector<double> force(r), tangent(with_tangent ? r * r : 0);
    const double energy = of.evaluate(eta.data(), force.data(), with_tangent ? tangent.data() : nullptr);
    if (!with_tangent) return nb::make_tuple(energy, numpy(std::move(force), {r}));
    return nb::make_tuple(energy, numpy(std::move(force), {r}), numpy(std::move(tangent), {r, r}));
}

template <class T>
void bind_reduced_force(nb::class_<T, ReducedForce>& of) {
    of.def("evaluate", [](T& force, const Doubles& eta) {
          return evaluate(force, eta, true);
      }).def("force", [](T& force, const Doubles& eta) { return evaluate(force, eta, false); });
}

nb::tuple element_forces(Elements& of, const Doubles& u, bool with_tangent, const Doubles* last_step = nullptr) {
    const std::size_t n = of.nodes();
    expect(u, 3 * n);
    if (last_step) expect(*last_step, 3 * n);
    std::vector<double> force(3 * n), tangent(with_tangent ? 9 * of.blocks() : 0);
    int inverted;
    double energy;
    {
        nb::gil_scoped_release release;
        energy = of.evaluate(u.data(), force.data(), with_tangent ? tangent.data() : nullptr, inverted,
                             last_step ? last_step->data() : nullptr);
    }
    if (!with_tangent) return nb::make_tuple(energy, numpy(std::move(force), {n, 3}), inverted);
    return nb::make_tuple(energy, numpy(std::move(force), {n, 3}), numpy(std::move(tangent), {of.blocks(), 3, 3}),
                          inverted);
}

}  // namespace

void bind_elastic(nb::module_& module) {
    nb::class_<Elements>(module, "Elements")
        .def("__init__",
             [](Elements* self, const Doubles& nodes, const Integers& tets, bool stvk, double mu, double lam) {
                 const int n = static_cast<int>(nodes.size() / 3),
                           t = static_cast<int>(tets.size() / Elements::corners);
                 expect(nodes, 3 * static_cast<std::size_t>(n));
                 for (std::size_t i = 0; i < tets.size(); ++i)
                     if (tets.data()[i] < 0 || tets.data()[i] >= n) throw std::invalid_argument("node out of range");
                 new (self) Elements(nodes.data(), n, tets.data(), t, Law{stvk, mu, lam});
             })
        .def("forces", [](Elements& e, const Doubles& u) { return element_forces(e, u, false); })
        .def("tangent", [](Elements& e, const Doubles& u) { return element_forces(e, u, true); })
        .def("tangent_after",
             [](Elements& e, const Doubles& u, const Doubles& step) { return element_forces(e, u, true, &step); })
        .def("pattern",
             [](const Elements& e) {
                 return nb::make_tuple(numpy_integers(e.row_starts()), numpy_integers(e.columns()));
             })
        .def("gradients", [](const Elements& e) {
            const std::size_t t = e.count(), q = Elements::points, a = Elements::corners;
            std::vector<double> volumes;
            for (std::size_t i = 0; i < t; ++i) volumes.insert(volumes.end(), q, e.volume(static_cast<int>(i)));
            std::vector<double> gradients(e.gradient(0, 0), e.gradient(0, 0) + t * q * a * 3);
            return nb::make_tuple(numpy(std::move(gradients), {t, q, a, 3}), numpy(std::move(volumes), {t, q}));
        });

    nb::class_<ReducedForce>(module, "ReducedForce").def_prop_ro("modes", &ReducedForce::modes);
    nb::class_<QuarticForce, ReducedForce> quartic(module, "QuarticForce");
    quartic.def("__init__", [](QuarticForce* self, int r, const Doubles& K2, const Doubles& K3, const Doubles& K4) {
        const std::size_t p = r * (r + 1) / 2;
        expect(K2, p);
        expect(K3, p * r);
        expect(K4, p * p);
        new (self) QuarticForce(r, K2.data(), K3.data(), K4.data());
    });
    bind_reduced_force(quartic);
    nb::class_<CubatureForce, ReducedForce> cubature(module, "CubatureForce");
    cubature.def("__init__", [](CubatureForce* self, int r, const Doubles& gradients, const Doubles& weights, bool stvk,
                                double mu, double lam) {
        expect(gradients, weights.size() * 9 * r);
        new (self)
            CubatureForce(r, static_cast<int>(weights.size()), gradients.data(), weights.data(), {stvk, mu, lam});
    });
    bind_reduced_force(cubature);

    nb::class_<InterfaceFrame>(module, "InterfaceFrame")
        .def("__init__",
             [](InterfaceFrame* self, const Doubles& point, const Doubles& point_rate, const Doubles& matrix,
                const Doubles& matrix_rate) {
                 const std::size_t d = point_rate.size() / 3;
                 expect(point, 3);
                 expect(point_rate, 3 * d);
                 expect(matrix, 9);
                 expect(matrix_rate, 9 * d);
                 new (self) InterfaceFrame(static_cast<int>(d), point.data(), point_rate.data(), matrix.data(),
                                           matrix_rate.data());
             })
        .def("contracted",  // for tests: geometric stiffness (d, d) of a wrench (6,) in the frame's own axes
             [](InterfaceFrame& f, const Doubles& z, const Doubles& wrench) {
                 const std::size_t d = f.coordinates();
                 expect(z, d);
                 expect(wrench, 6);
                 f.evaluate(z.data());
                 std::vector<double> result(d * d);
                 f.add_contracted(Eigen::Map<const Eigen::Vector3d>(wrench.data()),
                                  Eigen::Map<const Eigen::Vector3d>(wrench.data() + 3), result.data());
                 return numpy(std::move(result), {d, d});
             })
        .def("motion", [](InterfaceFrame& f, const Doubles& z) {  // pose (4, 4), jacobian (6, d), hessian (6, d, d)
            const std::size_t d = f.coordinates();
            expect(z, d);
            f.evaluate(z.data());
            std::vector<double> pose(16), first(6 * d), second(6 * d * d);
            write(f.pose(), pose.data());
            pose[15] = 1;
            for (std::size_t j = 0; j < d; ++j)
                for (int i = 0; i < 3; ++i) {
                    first[i * d + j] = f.linear(j)[i];
                    first[(3 + i) * d + j] = f.angular(j)[i];
                }
            for (std::size_t j = 0; j < d; ++j)
                for (std::size_t k = 0; k < d; ++k) {
                    const auto linear = f.linear_change(j, k), angular = f.angular_change(j, k);
                    for (int i = 0; i < 3; ++i) {
                        second[(i * d + j) * d + k] = linear[i];
                        second[((3 + i) * d + j) * d + k] = angular[i];
                    }
                }
            return nb::make_tuple(numpy(std::move(pose), {4, 4}), numpy(std::move(first), {6, d}),
                                  numpy(std::move(second), {6, d, d}));
        });
}
