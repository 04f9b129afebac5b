// Kernels of the core against closed forms, without Python: for instruction sets that this machine has not. See
// check_arm.sh.
#include <cstdio>
#include <cstdlib>

#include "engine/fronts.hpp"
#include "engine/tie_inverses.hpp"
#include "spatial/abreast.hpp"

using namespace supple;

static int failures = 0;

static void expect(const char* what, double error, double tolerance = 1e-13) {
    const bool fine = error <= tolerance;  // false if not a number
    if (!fine) ++failures;
    std::printf("%-6s %-46s %.1e\n", fine ? "ok" : "FAILED", what, error);
}

static double uniform() { return 2.0 * std::rand() / RAND_MAX - 1; }  // in (-1, 1)

static void test_spatial() {
    Vec6 xi;
    xi << 1, 0, 0.5, 0, 0, M_PI / 2;  // a quarter turn about z: the arc of a circle, and a climb
    Pose expected;
    expected.R << 0, -1, 0, 1, 0, 0, 0, 0, 1;
    expected.p << 2 / M_PI, 2 / M_PI, 0.5;
    const Pose screw = exp(xi);
    expect("exp of a screw: rotation", (screw.R - expected.R).cwiseAbs().maxCoeff());
    expect("exp of a screw: position", (screw.p - expected.p).cwiseAbs().maxCoeff());
    double back = 0, inverse = 0;
    for (int i = 0; i < 200; ++i) {
        Vec6 twist;
        for (int k = 0; k < 6; ++k) twist[k] = uniform() * (i % 2 ? 1.7 : 1e-3);
        back = std::max(back, (log(exp(twist)) - twist).cwiseAbs().maxCoeff());
        const Mat6 product = left_jacobian(twist) * left_jacobian_inverse(twist);
        inverse = std::max(inverse, (product - Mat6::Identity()).cwiseAbs().maxCoeff());
    }
    expect("log(exp(twist)) = twist", back, 1e-12);
    expect("left Jacobian times its inverse", inverse, 1e-12);
}

static void test_eight() {
    double x[8], y[8], operations = 0, comparisons = 0;
    for (int l = 0; l < 8; ++l) x[l] = uniform(), y[l] = uniform() + 2;
    const Eight a = load(x), b = load(y), all = (2 * a - b / a) * b + 1.0, less = choose(a * a < b, a, b);
    Eight changed = a;
    changed *= 3;
    changed[5] = 7;
    double total = 0, most = x[0];
    for (int l = 0; l < 8; ++l) {
        operations = std::max(operations, std::abs(all[l] - ((2 * x[l] - y[l] / x[l]) * y[l] + 1)) / std::abs(all[l]));
        comparisons = std::max(comparisons, std::abs(less[l] - (x[l] * x[l] < y[l] ? x[l] : y[l])));
        comparisons = std::max(comparisons, std::abs(changed[l] - (l == 5 ? 7 : 3 * x[l])));
        total += x[l];
        most = std::max(most, x[l]);
    }
    expect("eight lanes: arithmetic", operations);
    expect("eight lanes: choice and change of one", comparisons, 0);
    expect("eight lanes: sum", std::abs(sum(a) - total));
    expect("eight lanes: largest", std::abs(largest(a) - most), 0);
    const Eight picks = picked<0, 9, 4, 12, 8, 15, 6, 1>(a, b);
    const double places[] = {x[0], y[1], x[4], y[4], y[0], y[7], x[6], x[1]};
    double wrong = 0;
    for (int l = 0; l < 8; ++l) wrong += std::abs(picks[l] - places[l]);
    expect("eight lanes: picked", wrong, 0);

    Eight rows[8];
    for (int k = 0; k < 8; ++k)
        for (int l = 0; l < 8; ++l) rows[k][l] = 10 * k + l;
    transpose(rows);
    for (int k = 0; k < 8; ++k)
        for (int l = 0; l < 8; ++l) wrong += std::abs(rows[k][l] - (10 * l + k));
    expect("eight lanes: transpose", wrong, 0);

    double sine = 0;
    const Eight angle = 3.0 * a, ratio = stumpff<1>(angle * angle);
    for (int l = 0; l < 8; ++l) sine = std::max(sine, std::abs(angle[l] * ratio[l] - std::sin(angle[l])));
    expect("eight lanes: sine by its series", sine);

    Turn first, second;  // rotations a little apart
    Vec3 turns[8];
    for (int l = 0; l < 8; ++l) {
        turns[l] = 0.05 * Vec3(uniform(), uniform(), uniform());
        const Mat3 A = so3_exp(Vec3(uniform(), uniform(), uniform())), B = A * so3_exp(turns[l]);
        Three* const to[] = {&first.x, &first.y, &first.z, &second.x, &second.y, &second.z};
        for (int c = 0; c < 6; ++c) put(*to[c], l, c < 3 ? A.col(c) : B.col(c - 3));
    }
    const Three between = short_log(first, second);
    double logarithm = 0;
    for (int l = 0; l < 8; ++l) logarithm = std::max(logarithm, (get(between, l) - turns[l]).norm());
    expect("eight lanes: logarithm of small rotations", logarithm);
}

// A chain of blocks of six unknowns, each coupled to the next, against the product with the matrix.
static void test_fronts() {
    constexpr int blocks = 9;
    std::vector<std::vector<int>> nodes, elements;
    for (int i = 0; i < blocks; ++i) nodes.push_back({i});
    for (int i = 0; i + 1 < blocks; ++i) elements.push_back({i, i + 1});
    Fronts fronts(std::vector<int>(blocks, 6), nodes, elements, blocks, std::vector<int>(blocks, -1));
    for (int e = 0; e < fronts.elements(); ++e)
        for (int i = 0; i < 12 * 12; ++i) fronts.element(e)[i] = uniform() + (i % 13 == 0 ? 12 : 0);
    const int n = fronts.size();
    std::vector<double> none(n, 0.0), x(9 * n), right(n), solved(9 * n);
    expect("fronts: vanishing pivots", fronts.factorise(none.data()), 0);
    for (double& value : x) value = uniform();
    for (const bool transposed : {false, true}) {
        for (int c = 0; c < 9; ++c) {  // eight right-hand sides together, and one
            fronts.multiply(&x[c * n], right.data(), transposed);
            std::copy(right.begin(), right.end(), solved.begin() + c * n);
        }
        transposed ? fronts.solve_transposed(solved.data(), 9) : fronts.solve(solved.data(), 9);
        double error = 0;
        for (int i = 0; i < 9 * n; ++i) error = std::max(error, std::abs(solved[i] - x[i]));
        expect(transposed ? "fronts: nine right-hand sides, transposed" : "fronts: nine right-hand sides", error,
               1e-12);
    }
}

// Blocks of one vector in the order of their rows, with exchanged rows (small pivots), and of two vectors.
static void test_inverses() {
    double in_order = 0, exchanged = 0, larger = 0;
    std::vector<double> work;
    for (int trial = 0; trial < 200; ++trial)
        for (int n : {1, 2, 3, 5, 6, 8, 12}) {
            const bool swap = trial % 2 && n <= width;
            const int next = n <= width ? width : 2 * width;
            std::vector<Eight> block(n * next / width, every(0.0)), inverse = block;
            double *M = reinterpret_cast<double*>(block.data()), *I = reinterpret_cast<double*>(inverse.data());
            for (int r = 0; r < n; ++r)
                for (int c = 0; c < n; ++c) M[r * next + c] = uniform() + (c == (swap ? n - 1 - r : r) ? 2.0 * n : 0.0);
            const std::vector<double> before(M, M + n * next);
            n <= width ? invert_small(block.data(), n, inverse.data(), work) : invert(M, n, next, I, work);
            double& worst = n > width ? larger : swap ? exchanged : in_order;
            for (int r = 0; r < n; ++r)
                for (int c = 0; c < n; ++c) {  // the inverse is stored by columns
                    double product = 0;
                    for (int k = 0; k < n; ++k) product += before[r * next + k] * I[c * next + k];
                    worst = std::max(worst, std::abs(product - (r == c)));
                }
        }
    expect("inverses of tie blocks in the order of the rows", in_order);
    expect("the same with exchanged rows", exchanged);
    expect("the same of two vectors", larger);
}

int main() {
    test_spatial();
    test_eight();
    test_fronts();
    test_inverses();
    if (failures) std::printf("%d failed\n", failures);
    return failures != 0;
}
