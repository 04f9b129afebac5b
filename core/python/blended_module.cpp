// The Python class of a blended model in motion.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "python/arrays.hpp"
#include "python/module.hpp"
#include "python/motion_module.hpp"
#include "python/target_map.hpp"
#include "reduced/blended.hpp"

namespace nb = nanobind;
using namespace supple;

namespace {

class BlendedCore {
   public:
    Blended model;
    BlendedLinks links;
    std::vector<double> poses;  // (links, 4, 4)
    std::vector<double> velocities;  // (links, 6) body twists
    TipArrays tip_arrays;
    std::vector<TargetMap> targets;  // of every model
    std::vector<Vector> bound_values_at_home;  // of every model, with its own set-points

    BlendedCore(int tips, int count, double radius, double power, int neighbours, bool published, double h, int threads)
        : links(count, threads), poses(16 * count, 0.0) {
        model.tips.resize(tips);
        tip_arrays.resize(tips);
        model.radius = radius;
        model.power = power;
        model.neighbours = neighbours;
        model.published = links.published = published;
        model.h = h;
        for (int i = 0; i < count; ++i) poses[16 * i + 15] = 1;
    }

    // frames and cores (n, n) of compliance, inverse mass and inverse damping
    void add(const Doubles& home, const std::vector<Doubles>& frames, const std::vector<Doubles>& cores,
             const Doubles& wrench, const Doubles& cobasis, const Doubles& rest, const Doubles& maps, double energy,
             bool damped, double fade) {
        const std::size_t n = 6 * model.tips.size(), m = cobasis.size() / n;
        expect(home, 16 * model.tips.size());
        expect(wrench, n);
        expect(rest, 16 * links.count());
        expect(maps, 6 * links.count() * m);
        Blended::Sample sample;
        for (std::size_t e = 0; e < model.tips.size(); ++e) sample.home.push_back(pose(home.data() + 16 * e));
        std::array<Matrix, 3> frame, core;
        for (std::size_t k = 0; k < 3; ++k) {
            expect(frames.at(k), n * n);
            expect(cores.at(k), n * n);
            frame[k] = matrix(frames[k], n);
            core[k] = matrix(cores[k], n);
        }
        sample.wrench = vector(wrench);
        sample.energy = energy;
        sample.cobasis = matrix(cobasis, m);
        if (fade > 0) model.fading = fade;  // s, time in which its presence grows to 1
        model.damped = model.damped || damped;
        model.add(std::move(sample), frame, core, fade > 0 ? 0 : 1);
        model.prepare();
        links.add(rest.data(), maps.data(), static_cast<int>(m));
    }

    ExternalLoad& tip(int i) { return model.tips.at(i); }
    Vec6 tip_velocity(int i) const { return model.tips[i].velocity; }

    void update() {
        for (std::size_t i = 0; i < targets.size(); ++i)
            if (const double* moved = targets[i].later()) links.set_offsets(static_cast<int>(i), moved);
        model.blend();
        model.compute_link_coordinates();
        links.update(model.used, poses.data());
    }

    // Sets the set-points of an array (dof,), see `TargetMap`: offsets of the tips and values of the bounded
    // coordinates now, twists of the links when they are needed.
    bool set_targets(nb::handle given, std::size_t dof, double furthest) {
        Doubles array;
        if (!targets.at(0).read(given, dof, furthest, array)) return false;
        for (std::size_t i = 0; i < targets.size(); ++i) {
            const Eigen::VectorXd& effect = targets[i].take(array);
            const Eigen::Index n = 6 * model.tips.size();
            model.samples[i].bound_values = bound_values_at_home[i] + effect.tail(effect.size() - n);
            model.move_sample(static_cast<int>(i), effect.head(n));
        }
        return true;
    }

    // Twists (links, 6) of the links by central differences of their poses along the velocities of the end effectors
    void update_velocities() {
        const std::vector<Blended::Tip> before = model.tips;
        const bool has_budget = model.has_energy_budget();
        const double budget = model.energy_budget;
        double speed = 1e-6;
        for (const Blended::Tip& tip : before)
            speed = std::max({speed, tip.velocity.head<3>().cwiseAbs().maxCoeff() / model.radius,
                              tip.velocity.tail<3>().cwiseAbs().maxCoeff()});
        const double small = 1e-6 / speed;
        std::vector<double> first;
        for (double sign : {-1.0, 1.0}) {
            for (std::size_t e = 0; e < before.size(); ++e)
                model.tips[e].pose = before[e].pose * exp(sign * small * before[e].velocity);
            model.poses_changed();
            update();
            if (sign < 0) first = poses;
        }
        velocities.resize(6 * links.count());
        for (int i = 0; i < links.count(); ++i)
            Eigen::Map<Vec6>(velocities.data() + 6 * i) = log(pose(&poses[16 * i]).seen_from(pose(&first[16 * i]))) /
                                                          (2 * small);
        model.tips = before;
        model.poses_changed();
        if (has_budget) model.set_energy_budget(budget);
    }

    double relax(int iterations, double tolerance) {
        nb::gil_scoped_release release;
        return model.relax(iterations, tolerance);
    }

    // (e, 22): pose and velocity of every end effector
    Matrix state() const {
        Matrix rows(model.tips.size(), 22);
        for (std::size_t e = 0; e < model.tips.size(); ++e) {
            double flat[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
            write(model.tips[e].pose, flat);
            rows.row(e) << Eigen::Map<const Eigen::Matrix<double, 1, 16>>(flat), model.tips[e].velocity.transpose();
        }
        return rows;
    }
    void set_state(const Doubles& rows, double time) {
        expect(rows, 22 * model.tips.size());
        for (std::size_t e = 0; e < model.tips.size(); ++e) {
            model.tips[e].pose = pose(rows.data() + 22 * e);
            model.tips[e].velocity = Eigen::Map<const Vec6>(rows.data() + 22 * e + 16);
        }
        model.time = time;
        model.poses_changed();
    }
};

}  // namespace

void bind_blended(nb::module_& module) {
    const auto copy = nb::rv_policy::automatic;
    nb::class_<BlendedCore> core(module, "BlendedCore");
    bind_motion(core);
    core.def(nb::init<int, int, double, double, int, bool, double, int>())
        .def("add", &BlendedCore::add)
        .def("set_ground",  // sets the common spring and removes all models, which must be added again
             [](BlendedCore& c, double ground) {
                 c.model.ground = ground;
                 c.model.clear();
                 c.links.clear();
                 c.targets.clear();
             })
        .def("add_path",  // poses at rest between two models: shares (k,), displacements and slopes (k, n), scaled
             [](BlendedCore& c, int first, int second, const Doubles& shares, const Doubles& displacements,
                const Doubles& slopes) {
                 const std::size_t n = 6 * c.model.tips.size(), k = shares.size();
                 expect(displacements, n * k);
                 expect(slopes, n * k);
                 c.model.add_path({first,
                                   second,
                                   {shares.data(), shares.data() + k},
                                   Eigen::Map<const Matrix>(displacements.data(), n, k),
                                   Eigen::Map<const Matrix>(slopes.data(), n, k)});
             })
        .def("set_limits",
             [](BlendedCore& c, const Doubles& lower, const Doubles& upper) {
                 c.model.lower = vector(lower);
                 c.model.upper = vector(upper);
             })
        .def("set_bounded",  // bounded coordinates of a model: maps (bounds, n) and values (bounds,)
             [](BlendedCore& c, int i, const Doubles& maps, const Doubles& bound_values) {
                 const std::size_t n = 6 * c.model.tips.size(), bounds = c.model.lower.size();
                 expect(maps, n * bounds);
                 expect(bound_values, bounds);
                 c.model.samples.at(i).bounded = Eigen::Map<const Matrix>(maps.data(), n, bounds);
                 c.model.samples.at(i).bound_values = vector(bound_values);
             })
        .def("set_offsets",
             [](BlendedCore& c, int i, const Doubles& tips, const Doubles& twists) {
                 expect(tips, 6 * c.model.tips.size());
                 expect(twists, 6 * c.links.count());
                 c.model.move_sample(i, vector(tips));
                 c.links.set_offsets(i, twists.data());
                 if (i < static_cast<int>(c.targets.size())) c.targets[i].forget();
             })
        .def("set_bound_values",  // (bounds,) of a model, with its set-points
             [](BlendedCore& c, int i, const Doubles& values) {
                 expect(values, c.model.lower.size());
                 c.model.samples.at(i).bound_values = vector(values);
             })
        .def("prepare_targets",  // of the next model; `bound_values` (bounds,) are those without a change
             [](BlendedCore& c, std::vector<int> places, const Doubles& values, const Doubles& now,
                const Doubles& later, const Doubles& bound_values) {
                 expect(bound_values, c.model.lower.size());
                 c.bound_values_at_home.resize(c.targets.size());
                 c.bound_values_at_home.push_back(vector(bound_values));
                 c.targets.emplace_back(std::move(places), values, now, later);
             })
        .def("set_targets", &BlendedCore::set_targets)
        .def_prop_ro(
            "participant", [](BlendedCore& c) -> Participant* { return &c.model; }, nb::rv_policy::reference_internal)
        .def("relax", &BlendedCore::relax)
        .def("velocities",
             [](BlendedCore& c) {
                 c.update_velocities();
                 return numpy(std::vector<double>(c.velocities), {c.velocities.size() / 6, 6});
             })
        .def("blend", [](BlendedCore& c) { c.model.blend(); })
        .def("set_state", &BlendedCore::set_state)
        .def("set_presence",  // of the first models; that of later ones is 1
             [](BlendedCore& c, const Doubles& presence) {
                 for (std::size_t i = 0; i < c.model.samples.size(); ++i)
                     c.model.set_presence(static_cast<int>(i), i < presence.size() ? presence.data()[i] : 1.0);
                 c.model.mark_changed();
             })
        .def("ignore_loads", [](BlendedCore& c) { c.model.loads_known = false; })  // weights depend on poses only
        .def("set_energy_budget", [](BlendedCore& c, double energy) { c.model.set_energy_budget(energy); })
        // J, (1,); (0,) before the first step
        .def_prop_ro(
            "energy_budget",
            [](const BlendedCore& c) {
                Vector all = Vector::Constant(c.model.has_energy_budget() ? 1 : 0, c.model.energy_budget);
                return copied(all);
            },
            copy)
        .def_prop_ro(
            "presence",
            [](const BlendedCore& c) {
                Vector all(c.model.samples.size());
                for (std::size_t i = 0; i < c.model.samples.size(); ++i) all[i] = c.model.presence(static_cast<int>(i));
                return copied(all);
            },
            copy)
        .def_prop_ro(
            "state", [](const BlendedCore& c) { return copied(c.state()); }, copy)
        // as of the last blend, in scaled twists
        .def_prop_ro(
            "weights", [](const BlendedCore& c) { return copied(c.model.weights()); }, copy)
        .def_prop_ro(
            "basis", [](const BlendedCore& c) { return copied(c.model.basis); }, copy)
        .def_prop_ro(
            "compliance", [](const BlendedCore& c) { return copied(c.model.blended(Blended::compliance_kind)); }, copy)
        .def_prop_ro(
            "inverse_mass", [](const BlendedCore& c) { return copied(c.model.blended(Blended::inverse_mass_kind)); },
            copy)
        .def_prop_ro(
            "inverse_damping",
            [](const BlendedCore& c) {
                return copied(c.model.damped ? c.model.blended(Blended::inverse_damping_kind) : Matrix());
            },
            copy)
        .def_prop_ro(
            "strain", [](const BlendedCore& c) { return copied(c.model.strain()); }, copy)
        .def_prop_ro(
            "load_displacement", [](const BlendedCore& c) { return copied(c.model.load_displacement); }, copy)
        .def_prop_ro(
            "xi", [](const BlendedCore& c) { return copied(c.model.xi); }, copy)
        .def_prop_ro(
            "holding_wrench", [](const BlendedCore& c) { return copied(c.model.holding_wrench()); }, copy)
        .def_prop_ro(
            "means",
            [](const BlendedCore& c) {
                std::vector<double> rows(16 * c.model.means.size(), 0.0);
                for (std::size_t e = 0; e < c.model.means.size(); ++e) {
                    write(c.model.means[e], &rows[16 * e]);
                    rows[16 * e + 15] = 1;
                }
                return numpy(std::move(rows), {c.model.means.size(), 4, 4});
            },
            copy);
}
