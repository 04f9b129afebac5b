// The sparse solver against dense matrices of Eigen.
#include "engine/fronts.hpp"

#include <doctest/doctest.h>

#include <Eigen/Dense>
#include <numeric>

#include "mechanisms.hpp"

using namespace supple;
using namespace supple::tests;

namespace {

Eigen::MatrixXd dense(const Fronts& fronts) {
    Eigen::MatrixXd sum = Eigen::MatrixXd::Zero(fronts.size(), fronts.size());
    for (int e = 0; e < fronts.elements(); ++e) {
        const std::vector<int>& rows = fronts.element_rows(e);
        const int n = fronts.element_size(e);
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < n; ++i) sum(rows[i], rows[j]) += fronts.element(e)[j * n + i];
    }
    return sum;
}

// Solves for nine right-hand sides, with A and A^T; relative errors of the solutions.
double solution_error(const Fronts& fronts, const Eigen::MatrixXd& A, Random& random) {
    const int n = fronts.size(), columns = 9;
    Eigen::MatrixXd b(n, columns);
    for (Eigen::Index i = 0; i < b.size(); ++i) b.data()[i] = random.uniform();
    double worst = 0;
    for (bool transposed : {false, true}) {
        Eigen::MatrixXd x = b;
        transposed ? fronts.solve_transposed(x.data(), columns) : fronts.solve(x.data(), columns);
        const Eigen::MatrixXd M = transposed ? Eigen::MatrixXd(A.transpose()) : A;
        const Eigen::MatrixXd expected = M.partialPivLu().solve(b);
        worst = std::max(worst, (x - expected).norm() / expected.norm());
    }
    return worst;
}

}  // namespace

TEST_CASE("random blocks in a tree") {
    for (unsigned seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        const int count = 2 + random.below(12);
        const bool symmetric = seed % 2 == 0;
        std::vector<int> sizes;
        std::vector<std::vector<int>> nodes, elements;
        for (int i = 0; i < count; ++i) {
            sizes.push_back(1 + random.below(7));
            nodes.push_back({i});
            if (i) elements.push_back({random.below(i), i});
        }
        for (int extra = random.below(3); extra-- > 0;) {  // loops
            const int i = random.below(count), j = random.below(count);
            if (i != j) elements.push_back({i, j});
        }
        Fronts fronts(sizes, nodes, elements, count, std::vector<int>(count, -1));
        for (int e = 0; e < fronts.elements(); ++e) {
            const int n = fronts.element_size(e);
            double* values = fronts.element(e);
            for (int j = 0; j < n; ++j)
                for (int i = 0; i < n; ++i)
                    values[j * n + i] = symmetric && i < j ? values[i * n + j]
                                                           : random.uniform() + (i == j ? 0.5 * n : 0);
        }
        std::vector<double> diagonal(fronts.size());
        for (double& value : diagonal) value = random.uniform(0, 1);
        REQUIRE(fronts.factorise(diagonal.data()) == 0);
        const Eigen::MatrixXd sum = dense(fronts),
                              A = sum + Eigen::MatrixXd(
                                            Eigen::Map<Eigen::VectorXd>(diagonal.data(), fronts.size()).asDiagonal());
        CHECK(solution_error(fronts, A, random) < 1e-10);
        Eigen::VectorXd x = Eigen::VectorXd::Random(fronts.size()), y(fronts.size());
        fronts.multiply(x.data(), y.data());
        CHECK((y - sum * x).norm() < 1e-12 * sum.norm());
        fronts.multiply(x.data(), y.data(), true);
        CHECK((y - sum.transpose() * x).norm() < 1e-12 * sum.norm());
    }
}

TEST_CASE("tangents of random mechanisms: symmetric in statics, unsymmetric with follower loads") {
    for (unsigned seed = 0; seed < 20; ++seed)
        for (bool follower : {false, true}) {
            CAPTURE(seed);
            CAPTURE(follower);
            Random random(seed);
            System system(random_mechanism(seed, {true, true, true, true, true}));
            system.gravity = Vec3(0, 0, -9.81);
            for (double& q : system.state.q) q = random.uniform(-0.1, 0.1);
            if (follower)
                system.loads.push_back(
                    {system.bodies() - 1, random.vector(0.1), stack(random.vector(5), random.vector()), false});
            system.evaluate(true);
            system.factorise();  // sets the inverses that pairs are eliminated with
            std::vector<double> diagonal(system.unknowns(), 0.0);
            const System::Range rows = system.rows();
            for (int i = 0; i < rows.size; ++i) diagonal[rows.start + i] = -0.5;
            for (std::size_t j = 0; j < system.model().joints.size(); ++j)
                if (system.model().joints[j].outer < 0)
                    std::fill_n(diagonal.begin() + system.lambda_row(static_cast<int>(j)), 6, -0.5);
            REQUIRE(system.fronts().factorise(diagonal.data()) == 0);
            const int n = system.unknowns();
            const Eigen::MatrixXd A = dense(system.fronts()) +
                                      Eigen::MatrixXd(Eigen::Map<Eigen::VectorXd>(diagonal.data(), n).asDiagonal());
            const double asymmetry = (A - A.transpose()).norm() / A.norm();
            if (!follower && system.gap_size() < 1e-12) CHECK(asymmetry < 1e-12);
            CHECK(solution_error(system.fronts(), A, random) < 1e-7);
        }
}

TEST_CASE("negative pivots count the unstable directions of a tree") {
    for (unsigned seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        auto model = std::make_shared<Model>(*random_mechanism(seed, {true, true}));
        for (double& stiffness : model->stiffness) stiffness *= random.uniform(-0.3, 1);
        System system(model);
        system.gravity = Vec3(0, 0, -9.81);
        system.evaluate(true);
        system.factorise();
        const Eigen::MatrixXd A = dense(system.fronts());
        const Eigen::VectorXd values = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(A, Eigen::EigenvaluesOnly)
                                           .eigenvalues();
        // each pair of a twist and the multipliers of the joint that holds it has six negative and six positive ones
        CHECK((values.array() < 0).count() == 6 * system.bodies() + system.fronts().negative());
    }
}

TEST_CASE("redundant constraints: the regularised solution, refined, satisfies the equations") {
    Simulation simulation(four_bar(2, 0.1, false), 1e-3, 1);
    System& system = simulation.system;
    system.evaluate(true);
    system.factorise();
    std::vector<double> x(system.unknowns()), product(system.unknowns());
    CHECK(system.solve(system.residual().data(), x.data(), false, true) < 1e-10);
    const std::vector<double> scale = system.scales();
    std::vector<double> scaled = x;
    for (std::size_t i = 0; i < x.size(); ++i) scaled[i] /= scale[i];
    system.fronts().multiply(scaled.data(), product.data());
    for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(product[i] / scale[i] == doctest::Approx(system.residual()[i]).epsilon(1e-8).scale(1));
}
