// The Python class of the canvas that videos are drawn on.
#include <nanobind/ndarray.h>

#include <memory>
#include <stdexcept>

#include "picture/raster.hpp"
#include "python/arrays.hpp"
#include "python/module.hpp"

namespace nb = nanobind;
using namespace supple;

void bind_picture(nb::module_& module) {
    nb::class_<Canvas>(module, "Canvas")
        .def("__init__",
             [](Canvas* self, int width, int height, int samples) {
                 if (width < 1 || height < 1 || samples < 1 || samples > 8 || width > 16384 || height > 16384)
                     throw std::invalid_argument("size of a canvas");
                 new (self) Canvas(width, height, samples);
             })
        .def("clear",
             [](Canvas& canvas, const Doubles& rows) {
                 expect(rows, 3 * static_cast<std::size_t>(canvas.height()));
                 canvas.clear(rows.data());
             })
        .def("draw",
             [](Canvas& canvas, const Doubles& corners, const Doubles& colours) {
                 expect(colours, corners.size());
                 const std::size_t n = corners.size() / 9;
                 nb::gil_scoped_release release;
                 canvas.draw(corners.data(), colours.data(), n);
             })
        .def("picture", [](const Canvas& canvas) {
            const std::size_t shape[3] = {static_cast<std::size_t>(canvas.height()),
                                          static_cast<std::size_t>(canvas.width()), 3};
            auto* kept = new std::vector<std::uint8_t>(shape[0] * shape[1] * shape[2]);
            nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<std::uint8_t>*>(p); });
            {
                nb::gil_scoped_release release;
                canvas.read(kept->data());
            }
            return nb::ndarray<nb::numpy, std::uint8_t>(kept->data(), 3, shape, owner);
        });
}
