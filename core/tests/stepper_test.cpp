// Time steps: orders of convergence, energy, and the state after a step that failed.
#include <doctest/doctest.h>

#include "mechanisms.hpp"

using namespace supple;
using namespace supple::tests;

namespace {

constexpr double mass = 0.8, length = 0.3, inertia = 0.004, gravity = 9.81, start_angle = 1.0;

std::shared_ptr<const Model> pendulum() {  // about a horizontal axis; it hangs along -z where its coordinate is zero
    Builder builder;
    const Vec6 axis = turn_y;
    builder.add_body(-1, Pose{}, hinge(0, 0, axis), Pose{}, mass, Vec3(0, 0, -length), inertia * Mat3::Identity());
    return builder.build(1, length);
}

struct Swing {
    double angle, rate, energy;  // energy over that at the start
};

Swing swing(double h, int order, double duration, bool passes) {
    Simulation simulation(pendulum(), h, order);
    System& system = simulation.system;
    system.state.q[0] = start_angle;
    simulation.stepper.start(0, {Vec6::Zero()}, {0.0});
    simulation.stepper.use_passes(passes);
    const double height = mass * gravity * length, start = -height * std::cos(start_angle);
    REQUIRE(simulation.step(static_cast<int>(std::lround(duration / h))));
    const double energy = simulation.stepper.energy();
    return {system.state.q[0], system.rate[0], (energy - start) / height};
}

// The same by Runge and Kutta's method with short steps.
double exact_angle(double duration) {
    const double factor = -mass * gravity * length / (inertia + mass * length * length);
    const int steps = 20000;
    const double h = duration / steps;
    double x = start_angle, v = 0;
    for (int k = 0; k < steps; ++k) {
        const double a1 = factor * std::sin(x), v2 = v + h / 2 * a1, a2 = factor * std::sin(x + h / 2 * v),
                     v3 = v + h / 2 * a2, a3 = factor * std::sin(x + h / 2 * v2), v4 = v + h * a3,
                     a4 = factor * std::sin(x + h * v3);
        x += h / 6 * (v + 2 * v2 + 2 * v3 + v4);
        v += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4);
    }
    return x;
}

}  // namespace

TEST_CASE("backward Euler is of first order, BDF2 of second") {
    const double duration = 0.8, exact = exact_angle(duration);
    for (bool passes : {true, false}) {
        const auto ratio = [&](int order, double h) {
            return (swing(h, order, duration, passes).angle - exact) /
                   (swing(h / 2, order, duration, passes).angle - exact);
        };
        CHECK(ratio(1, 1e-3) == doctest::Approx(2).epsilon(0.05));
        CHECK(ratio(2, 4e-3) == doctest::Approx(4).epsilon(0.1));
        CHECK(std::abs(swing(1e-3, 2, duration, passes).angle - exact) < 1e-4);
    }
}

TEST_CASE("a free pendulum loses less energy, the shorter the steps") {
    for (bool passes : {true, false}) {
        const double euler = swing(1e-3, 1, 2, passes).energy, coarse = swing(2e-3, 2, 2, passes).energy,
                     fine = swing(1e-3, 2, 2, passes).energy;
        CHECK(euler < 0);
        CHECK(coarse < 0);
        CHECK(std::abs(fine) < 1e-3);
        CHECK(std::abs(fine) < 0.3 * std::abs(coarse));
        CHECK(std::abs(fine) < 0.02 * std::abs(euler));
    }
}

TEST_CASE("a step that fails leaves the state equal") {
    for (bool passes : {true, false}) {
        CAPTURE(passes);
        Simulation simulation(four_bar(0.2, 0.01, true), 2e-3, 2), undisturbed(four_bar(0.2, 0.01, true), 2e-3, 2);
        for (Simulation* each : {&simulation, &undisturbed}) {
            each->stepper.use_passes(passes);
            for (int k = 1; k <= 40; ++k) {
                const double target = 0.005 * k;
                REQUIRE(each->stepper.step({0}, &target));
            }
        }
        const std::vector<double> before = simulation.stepper.state.numbers();
        const double unreachable = NAN;
        REQUIRE(!simulation.stepper.step({0}, &unreachable));
        const std::vector<double> after = simulation.stepper.state.numbers();
        REQUIRE(before.size() == after.size());
        for (std::size_t i = 0; i < before.size(); ++i) {
            CAPTURE(i);
            CHECK(before[i] == after[i]);
        }
        for (int k = 41; k <= 60; ++k) {
            const double target = 0.005 * k;
            REQUIRE(simulation.stepper.step({0}, &target));
            REQUIRE(undisturbed.stepper.step({0}, &target));
        }
        CHECK(simulation.stepper.state.numbers() == undisturbed.stepper.state.numbers());
    }
}
