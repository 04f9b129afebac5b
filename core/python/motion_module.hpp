// Bindings that the cores of all simulated models share.
#pragma once

#include <nanobind/nanobind.h>

#include <cmath>

#include "contact/external_load.hpp"
#include "python/arrays.hpp"
#include "reduced/batch.hpp"

namespace supple {

inline void set_load(ExternalLoad& load, const Doubles& wrench, bool world) {
    expect(wrench, 6);
    load.wrench = Eigen::Map<const Vec6>(wrench.data());
    load.world = world;
}

inline void attach_handle(ExternalLoad& load, bool has_handle, const Doubles& point, const Doubles& target,
                          double stiffness, double damping) {
    expect(point, 3);
    expect(target, 3);
    load.has_handle = has_handle;
    load.point = Vec3(point.data());
    load.target = Vec3(target.data());
    load.stiffness = stiffness;
    load.damping = damping;
}

// Poses (4, 4) and body twists (6,) of the end effectors as of the last update. Python keeps views of them.
struct TipArrays {
    std::vector<double> poses, twists;
    std::vector<Pose> home;  // poses in the model's own state

    void resize(std::size_t tips) {
        poses.assign(16 * tips, 0.0);
        twists.assign(6 * tips, 0.0);
        for (std::size_t e = 0; e < tips; ++e) poses[16 * e + 15] = 1;
    }
};

// A copy in a batch. Core has `model`, `tip(i)` and `tip_velocity(i)`.
template <class Core>
class MemberOf : public BatchMember {
   public:
    explicit MemberOf(Core& core) : core_(core) {}
    bool step() override { return core_.model.step(); }
    ExternalLoad& tip(int i) override { return core_.tip(i); }
    void loads_changed() override {
        if constexpr (requires(Core& c) { c.model.loads_changed(); }) core_.model.loads_changed();
    }
    Pose tip_pose(int i) override { return core_.model.frame(i); }
    Vec6 tip_velocity(int i) override { return core_.tip_velocity(i); }
    double time() const override { return core_.model.time; }

   private:
    Core& core_;
};

// Distance of the end effectors from their poses in the model's own state, m and rad.
template <class Core>
double reach(const Core& c) {
    double sum = 0;
    for (std::size_t e = 0; e < c.tip_arrays.home.size(); ++e) {
        const Pose &from = c.tip_arrays.home[e], to = c.model.frame(static_cast<int>(e));
        sum += (to.p - from.p).squaredNorm() + 0.5 * (to.R - from.R).squaredNorm();
    }
    return std::sqrt(sum);
}

// Core has `model`, `tip(i)` and, if it computes links, `update()` and `poses` (links, 4, 4); with `tip_velocity(i)`
// and `tip_arrays` it also gives the poses and twists of the end effectors.
template <class Core>
void bind_motion(nanobind::class_<Core>& core) {
    namespace nb = nanobind;
    core.def("set_wrench", [](Core& c, int tip, const Doubles& wrench, bool world) {
        const ExternalLoad before = c.tip(tip);
        set_load(c.tip(tip), wrench, world);
        if constexpr (requires { c.model.loads_changed(); })
            if (before.wrench != c.tip(tip).wrench || before.world != world) c.model.loads_changed();
    });
    core.def("set_handle",
             [](Core& c, int tip, bool has_handle, const Doubles& point, const Doubles& target, double stiffness,
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
    if constexpr (requires(Core& c) { c.tip_velocity(0); }) {
        core.def("update_tips", [](Core& c) {
            const int count = c.model.frames();
            if (c.tip_arrays.twists.size() != 6u * count) c.tip_arrays.resize(count);
            for (int e = 0; e < count; ++e) {
                write(c.model.frame(e), &c.tip_arrays.poses[16 * e]);
                Eigen::Map<Vec6>(&c.tip_arrays.twists[6 * e]) = c.tip_velocity(e);
            }
        });
        // poses (tips, 4, 4) that `reach` is measured from
        core.def("set_home", [](Core& c, const Doubles& poses) {
            expect(poses, 16 * c.model.frames());
            c.tip_arrays.home.clear();
            for (int e = 0; e < c.model.frames(); ++e) c.tip_arrays.home.push_back(pose(poses.data() + 16 * e));
        });
        core.def_prop_ro("reach", &reach<Core>);
        // views of memory that later calls of update_tips overwrite
        core.def_prop_ro(
            "tip_poses",
            [](Core& c) {
                return nb::ndarray<nb::numpy, const double>(c.tip_arrays.poses.data(),
                                                            {c.tip_arrays.poses.size() / 16, 4, 4}, nb::find(c));
            },
            nb::rv_policy::automatic);
        core.def_prop_ro(
            "tip_twists",
            [](Core& c) {
                return nb::ndarray<nb::numpy, const double>(c.tip_arrays.twists.data(),
                                                            {c.tip_arrays.twists.size() / 6, 6}, nb::find(c));
            },
            nb::rv_policy::automatic);
        core.def(
            "batch_member", [](Core& c) -> BatchMember* { return new MemberOf<Core>(c); },
            nb::rv_policy::take_ownership, nb::keep_alive<0, 1>());
    }
    if constexpr (requires(Core& c) { c.update(); }) {
        // Returns the reach: one call less for every reading of poses
        if constexpr (requires(Core& c) { c.tip_velocity(0); })
            core.def("update", [](Core& c) {
                c.update();
                return reach(c);
            });
        else core.def("update", &Core::update);
        // the links' poses as of the last update: a view of memory that later updates overwrite
        core.def_prop_ro(
            "poses",
            [](Core& c) {
                return nb::ndarray<nb::numpy, double>(c.poses.data(), {c.poses.size() / 16, 4, 4}, nb::find(c));
            },
            nb::rv_policy::automatic);
    }
}

}  // namespace supple
