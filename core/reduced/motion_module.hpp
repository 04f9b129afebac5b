// Bindings that the cores of all simulated models share.
#pragma once

#include <nanobind/nanobind.h>

#include "contact/external_load.hpp"
#include "spatial/arrays.hpp"

namespace supple {

inline void set_load(ExternalLoad& load, const Doubles& wrench, bool world) {
    expect(wrench, 6);
    load.wrench = Eigen::Map<const Vec6>(wrench.data());
    load.world = world;
}

inline void attach_handle(ExternalLoad& load, bool has_handle, const Doubles& point, const Doubles& target, double stiffness, double damping) {
    expect(point, 3);
    expect(target, 3);
    load.has_handle = has_handle;
    load.point = Vec3(point.data());
    load.target = Vec3(target.data());
    load.stiffness = stiffness;
    load.damping = damping;
}

// Core has `model`, `tip(i)` and, if it computes links, `update()` and `poses` (links, 4, 4).
template <class Core>
void bind_motion(nanobind::class_<Core>& core) {
    namespace nb = nanobind;
    core.def("set_wrench", [](Core& c, int tip, const Doubles& wrench, bool world) {
        set_load(c.tip(tip), wrench, world);
        if constexpr (requires { c.model.loads_changed(); }) c.model.loads_changed();
    });
    core.def("set_handle", [](Core& c, int tip, bool has_handle, const Doubles& point, const Doubles& target, double stiffness,
                              double damping) { attach_handle(c.tip(tip), has_handle, point, target, stiffness, damping); });
    core.def_prop_ro("time", [](const Core& c) { return c.model.time; });
    // n time steps, each followed by an update of all links if `show`; returns the number of successful steps
    core.def("step", [](Core& c, int n, bool show) {
        nb::gil_scoped_release release;
        for (int k = 0; k < n; ++k) {
            if (!c.model.step()) return k;
            if constexpr (requires { c.update(); })
                if (show) c.update();
        }
        return n;
    });
    if constexpr (requires(Core& c) { c.update(); }) {
        core.def("update", &Core::update);
        // the links' poses as of the last update: a view of memory that later updates overwrite
        core.def_prop_ro("poses", [](Core& c) {
            return nb::ndarray<nb::numpy, double>(c.poses.data(), {c.poses.size() / 16, 4, 4}, nb::find(c));
        }, nb::rv_policy::automatic);
    }
}

}  // namespace supple
