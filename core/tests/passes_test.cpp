// The two linear solvers, passes over the tree and sparse fronts, on one and the same state.
#include <doctest/doctest.h>

#include <string>

#include "mechanisms.hpp"

using namespace supple;
using namespace supple::tests;

namespace {

double difference(const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        REQUIRE(std::isfinite(a[i]));
        largest = std::max(largest, std::abs(a[i] - b[i]));
    }
    return largest;
}

// Wrenches of the joints, over the largest one.
double difference(const std::vector<Vec6>& a, const std::vector<Vec6>& b) {
    double largest = 0, size = 1;
    for (std::size_t i = 0; i < a.size(); ++i) {
        largest = std::max(largest, (a[i] - b[i]).cwiseAbs().maxCoeff());
        size = std::max(size, a[i].cwiseAbs().maxCoeff());
    }
    return largest / size;
}

// Rates of all coordinates but those of loops that are free balls: the sparse solver takes differences of their
// rotation vectors.
double difference_of_rates(const System& a, const System& b) {
    std::vector<double> of_a, of_b;
    for (const Joint& joint : a.model().joints)
        for (int axis = joint.first; axis < joint.first + joint.count; ++axis)
            if (joint.outer >= 0 || a.model().stiffness[axis] != 0) {
                of_a.push_back(a.rate[axis]);
                of_b.push_back(b.rate[axis]);
            }
    return difference(of_a, of_b);
}

const Kinds chain{}, tree{true}, balls{true, true}, loops{true, true, true}, couplings{true, false, false, true},
    limits{true, true, false, false, true}, everything{true, true, true, true, true};
const struct {
    const char* name;
    Kinds kinds;
} all_kinds[] = {{"chain", chain},         {"tree", tree},     {"balls", balls},          {"loops", loops},
                 {"couplings", couplings}, {"limits", limits}, {"everything", everything}};

}  // namespace

TEST_CASE("a step by the passes equals the step by the sparse solver from the same state") {
    for (const auto& [name, kinds] : all_kinds)
        for (int order : {1, 2})
            for (unsigned seed = 0; seed < 12; ++seed) {
                CAPTURE(std::string(name));
                CAPTURE(order);
                CAPTURE(seed);
                const auto model = random_mechanism(seed, kinds);
                Simulation passes(model, 2e-3, order), sparse(model, 2e-3, order);
                REQUIRE(passes.stepper.uncovered() == std::string());
                sparse.stepper.use_passes(false);
                for (int k = 0; k < 20; ++k) {
                    REQUIRE(passes.step(5));
                    sparse.stepper.state = passes.stepper.state;
                    const std::vector<int> active = passes.system.active();
                    const int expected_order = passes.stepper.state.fresh ? 1 : order;
                    REQUIRE(passes.step());
                    REQUIRE(sparse.step());
                    // where a limit is met, one solver may divide the step or use backward Euler, and the other not
                    if (passes.system.active() != active || passes.stepper.passes()->order_used() != expected_order)
                        continue;
                    CHECK(difference(passes.system.state.q, sparse.system.state.q) < 1e-10);
                    CHECK(difference_of_rates(passes.system, sparse.system) < 1e-7);
                    CHECK(difference(passes.system.state.lambda, sparse.system.state.lambda) < 1e-6);
                }
                CHECK(passes.stepper.steps_by_passes > 100);
            }
}

TEST_CASE("three hundred steps by either solver end at the same state") {
    for (const auto& [name, kinds] : all_kinds)
        for (unsigned seed = 100; seed < 106; ++seed) {
            CAPTURE(std::string(name));
            CAPTURE(seed);
            const auto model = random_mechanism(seed, kinds);
            Simulation passes(model, 2e-3, 2), sparse(model, 2e-3, 2);
            sparse.stepper.use_passes(false);
            REQUIRE(passes.step(300));
            REQUIRE(sparse.step(300));
            CHECK(sparse.stepper.steps_by_passes == 0);
            CHECK(difference(passes.system.state.q, sparse.system.state.q) < (kinds.limits ? 1e-3 : 1e-8));
        }
}

TEST_CASE("redundant loops: coordinates agree, multipliers balance the same motion") {
    const auto model = four_bar(0.5, 0.01, false);
    Simulation passes(model, 1e-3, 2), sparse(model, 1e-3, 2);
    sparse.stepper.use_passes(false);
    REQUIRE(passes.step(300));
    REQUIRE(sparse.step(300));
    CHECK(passes.stepper.steps_by_passes == 300);
    CHECK(std::abs(passes.system.state.q[0]) > 0.01);
    CHECK(difference(passes.system.state.q, sparse.system.state.q) < 1e-8);
    CHECK(passes.system.gap_size() < 1e-10);
}
