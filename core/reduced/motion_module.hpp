// Bindings that the cores of all simulated models share.
#pragma once

#include <nanobind/nanobind.h>

#include "contact/pulled.hpp"
#include "spatial/arrays.hpp"

namespace supple {

inline void pull(Pulled& what, const Doubles& wrench, bool world) {
    expect(wrench, 6);
    what.wrench = Eigen::Map<const Vec6>(wrench.data());
    what.world = world;
}

inline void hold(Pulled& what, bool held, const Doubles& point, const Doubles& target, double stiffness, double damping) {
    expect(point, 3);
    expect(target, 3);
    what.held = held;
    what.point = Vec3(point.data());
    what.target = Vec3(target.data());
    what.stiffness = stiffness;
    what.damping = damping;
}

// Core has `model`, `tip(i)` and, if it computes links, `update()` and `poses` (links, 4, 4).
template <class Core>
void bind_motion(nanobind::class_<Core>& core) {
    namespace nb = nanobind;
    core.def("set_wrench", [](Core& c, int tip, const Doubles& wrench, bool world) {
        pull(c.tip(tip), wrench, world);
        if constexpr (requires { c.model.loads_changed(); }) c.model.loads_changed();
    });
    core.def("set_handle", [](Core& c, int tip, bool held, const Doubles& point, const Doubles& target, double stiffness,
                              double damping) { hold(c.tip(tip), held, point, target, stiffness, damping); });
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
