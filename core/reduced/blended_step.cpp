// Time steps of a blended model: derivative of the strain, linear solve, energy budget, contacts and limits in a World.
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "reduced/blended.hpp"

namespace supple {

using namespace whole;

namespace {

constexpr double largest_norm = 1e6;  // largest displacement, over the radius, of an accepted state
// S, least ratio of damping to stiffness, as of backward Euler with this step
constexpr double least_damping_time = 2e-3;
constexpr double least_compliance = 0.01;  // over the largest compliance, in the estimate of the stored energy
constexpr double energy_margin = 0.25;  // relative error allowed for the stored energy above that of the models in use
// Displacement that one step may make, over the radius, before it is divided
constexpr double largest_displacement = 0.2;
constexpr double most_parts = 16;

// Matrices (n, n) and vectors (n,) in lanes, for local use
template <int N>
using Squares = std::conditional_t<N == Eigen::Dynamic, std::vector<Four>,
                                   std::array<Four, static_cast<std::size_t>(N* N)>>;
template <int N>
using Columns = std::conditional_t<N == Eigen::Dynamic, std::vector<Four>,
                                   std::array<Four, static_cast<std::size_t>(N < 0 ? 0 : N)>>;

// The inverse of a pivot; undefined if the matrix is not positive
SUPPLE_INLINE Four inverse_pivot(const Four& pivot) {
    return choose(pivot > four(0), 1.0 / pivot, four(std::numeric_limits<double>::quiet_NaN()));
}

// Factors of a symmetric positive matrix `a` (n, n; lower triangle) = L D L^T: L below the diagonal of `l`, L D above
// it, D^-1 on it.
template <int N, class Given, class Square>
SUPPLE_INLINE void factorise(int n, const Given& a, Square& l) {
    repeat<N>(n, [&](auto j) __attribute__((always_inline)) {
        auto pivot = a(j, j);
        for (int k = 0; k < j; ++k) pivot -= l[k + n * j] * l[j + n * k];
        l[j + n * j] = inverse_pivot(pivot);
        for (int i = j + 1; i < n; ++i) {
            auto sum = a(i, j);
            for (int k = 0; k < j; ++k) sum -= l[k + n * i] * l[j + n * k];
            l[j + n * i] = sum;
            l[i + n * j] = sum * l[j + n * j];
        }
    });
}

// Inverses of four symmetric positive matrices (n, n), one in each lane, with `raised` added to the diagonal: L^-T D^-1
// L^-1. Quotients take most of the time, and four of them in vector lanes take as long as one.
template <int N>
void invert_positive(const Four* a, int size, const Four& raised, Four* into) {
    const int n = N == Eigen::Dynamic ? size : N;
    Squares<N> l, inverse;  // factors; L^-1 below the diagonal, D^-1 L^-1 above it
    if constexpr (N == Eigen::Dynamic) {
        l.resize(n * n);
        inverse.resize(n * n);
    }
    factorise<N>(n, [&](int i, int j) { return i == j ? a[i + n * j] + raised : a[i + n * j]; }, l);
    repeat<N>(n, [&](auto j) __attribute__((always_inline)) {
        for (int i = j + 1; i < n; ++i) {
            Four sum = -l[i + n * j];
            for (int k = j + 1; k < i; ++k) sum -= l[i + n * k] * inverse[k + n * j];
            inverse[i + n * j] = sum;
            inverse[j + n * i] = l[i + n * i] * sum;
        }
    });
    repeat<N>(n, [&](auto j) __attribute__((always_inline)) {
        for (int i = j; i < n; ++i) {
            Four sum = i == j ? l[i + n * i] : inverse[j + n * i];
            for (int k = i + 1; k < n; ++k) sum += inverse[i + n * k] * inverse[k + n * j];
            into[i + n * j] = into[j + n * i] = sum;
        }
    });
}

// a^-1 b for a symmetric positive matrix (lower triangle). All lanes are alike: where neighbouring entries share
// vectors, the processor waits for one entry to be written before it reads several.
template <int N>
Eigen::Matrix<double, N, 1> solve_symmetric(const Eigen::Matrix<double, N, N>& a,
                                            const Eigen::Matrix<double, N, 1>& b) {
    const int n = N == Eigen::Dynamic ? static_cast<int>(a.rows()) : N;
    Squares<N> l;
    Columns<N> x;
    if constexpr (N == Eigen::Dynamic) {
        l.resize(n * n);
        x.resize(n);
    }
    factorise<N>(n, [&](int i, int j) { return four(a.data()[i + n * j]); }, l);
    repeat<N>(n, [&](auto i) __attribute__((always_inline)) {
        Four sum = four(b.data()[i]);
        for (int k = 0; k < i; ++k) sum -= l[i + n * k] * x[k];
        x[i] = sum;
    });
    Eigen::Matrix<double, N, 1> result(n);
    repeat<N>(n, [&](auto back) __attribute__((always_inline)) {
        const int i = n - 1 - back;
        Four sum = x[i] * l[i + n * i];
        for (int k = n - 1; k > i; --k) sum -= l[k + n * i] * x[k];
        x[i] = sum;
        result.data()[i] = sum[0];
    });
    return result;
}

// Lanes as columns: to (4, pad) from x (n,), zero beyond n
SUPPLE_INLINE void to_columns(const Four* x, int n, Four* to) {
    const int pad = (n + 3) / 4;
    for (int b = 0; b < pad; ++b) {
        Four rows[4];
        for (int k = 0; k < 4; ++k) rows[k] = 4 * b + k < n ? x[4 * b + k] : four(0);
        transpose(rows[0], rows[1], rows[2], rows[3]);
        for (int l = 0; l < 4; ++l) to[l * pad + b] = rows[l];
    }
}

}  // namespace

// Displacement of a point of an end effector (world axes) per change of xi (scaled).
Eigen::Matrix<double, 3, 6> Blended::point_map(int e, const Vec3& local) const {
    const Pose& pose = tips[e].pose;
    Eigen::Matrix<double, 3, 6> point;
    point.leftCols<3>() = pose.R;
    point.rightCols<3>() = -pose.R * skew(local);
    return by_scaled_twist(e, point);
}

// (3, 6): rows per unit twist of a tip, as rows per unit of its coordinates.
Eigen::Matrix<double, 3, 6> Blended::by_scaled_twist(int e, const Eigen::Matrix<double, 3, 6>& rows) const {
    const TwistJacobian& J = jacobians_[e];
    Eigen::Matrix<double, 3, 6> by;
    by.leftCols<3>() = radius * (rows.leftCols<3>() * J.M);
    by.rightCols<3>() = rows.leftCols<3>() * J.dM + rows.rightCols<3>() * J.M;
    return by;
}

// dC/d alpha_i times a vector, added to the derivative of the strain by the weights. A column q = s/|s| of the frame,
// with the sum s, changes by (q_i - q (q . q_i)) / |s| per weight of q_i. If the models do not agree, q is s over a
// given length.
template <int N>
void Blended::add_compliance_derivative(const double* vector) {
    const int n = size<N>(n_);
    const auto frame = [&](int i, int j) { return frame_[i + n * j][compliance_kind]; };
    const auto core = [&](int i, int j) { return core_[i + n * j][compliance_kind]; };
    Eigen::Matrix<double, N, 1> seen(n), back(n), scale(n);
    Eigen::Matrix<bool, N, 1> unit(n);
    for (int j = 0; j < n; ++j) {
        Four sum = frame_[n * j] * vector[0];
        for (int i = 1; i < n; ++i) sum += frame_[i + n * j] * vector[i];
        seen[j] = sum[compliance_kind];
        scale[j] = column_scale_[j][compliance_kind];
        unit[j] = length_[j][compliance_kind] > agreement * column_share_[j][compliance_kind];
    }
    for (int j = 0; j < n; ++j) {
        back[j] = 0;
        for (int i = core_first_[j]; i < core_end_[j]; ++i) back[j] += core(i, j) * seen[i];
        back[j] *= scale[j];
    }
    for (Group& group : groups_) {
        Four* __restrict turned = group.turned.data(), * __restrict inner = group.inner.data();
        Four* __restrict to = group.strain_by_weight.data();
        const Four *own_frame = group.frame.data(), *own_core = group.core.data();
        for (int j = 0; j < n; ++j) {
            const Four* column = own_frame + n * j;
            Four own = column[0] * vector[0], share = column[0] * frame(0, j);
            for (int i = 1; i < n; ++i) {
                own += column[i] * vector[i];
                share += column[i] * frame(i, j);
            }
            if (!unit[j]) share = agreement * group.has_column[j];
            turned[j] = scale[j] * (own - share * seen[j]);
            inner[j] = -back[j] * share;
        }
        for (int j = 0; j < n; ++j) {
            Four sum = inner[j];
            for (int i = core_first_[j]; i < core_end_[j]; ++i)
                sum += core(i, j) * turned[i] + own_core[i + n * j] * seen[i];
            inner[j] = sum;
        }
        for (int i = 0; i < n; ++i) {
            Four sum = to[i];
            for (int j = 0; j < n; ++j) sum += frame(i, j) * inner[j] + own_frame[i + n * j] * back[j];
            to[i] = sum;
        }
    }
}

// d xi / d alpha_i by the derivative of the mean pose, subtracted from the derivative of the strain by the weights. The
// mean is the quotient of the sums of a q and of a p q.
template <int N>
void Blended::add_mean_derivative() {
    for (int e = 0; e < size<N>(n_) / 6; ++e) {
        const FourQuaternions& place = mean_poses_[e].place;
        // derivative of xi by a twist of the mean, in the axes of the mean: -Jl^-1, with Jl^-1 = Jr^-1 - ad
        const Vec6 twist = unscaled(xi.segment<6>(6 * e));
        const Mat3 back = means[e].R.transpose();
        const Mat3 diagonal = (1 - rest_share_) * ((inverse_jacobians_[e].M - skew(twist.tail<3>())) * back);
        const Mat3 corner = (1 - rest_share_) * ((inverse_jacobians_[e].dM - skew(twist.head<3>())) * back);
        for (Group& group : groups_) {
            const Group::Tip& tip = group.tips[e];
            const FourQuaternions turn = tip.sign * (tip.home.q * mean_poses_[e].inverse);
            const FourQuaternions away{-place.w, tip.home.p - place.v};
            const FourVectors linear = (away * turn).v, angular = 2.0 * turn.v;
            const FourVectors v = (1 / radius) * (times(diagonal, linear) + times(corner, angular)),
                              w = times(diagonal, angular);
            Four* to = &group.strain_by_weight[6 * e];
            to[0] -= v.x, to[1] -= v.y, to[2] -= v.z, to[3] -= w.x, to[4] -= w.y, to[5] -= w.z;
        }
    }
}

// d alpha_i / d xi, from d ln(weight) = p / (1/d - 1/R) (-d'/d^2 + R'/R^2) before normalisation of the weights
template <int N>
void Blended::differentiate_weights() {
    const int n = size<N>(n_);
    const double turn = 2 / (M_PI * M_PI), length = 1 / (radius * radius);
    const auto distance_gradient = [&](int e, const FourVectors& home, const FourQuaternions& seen, Four* into) {
        const FourVectors away = transpose_times(tips[e].pose.R, four(tips[e].pose.p) - home);
        const Four squared = length * dot(away, away) + 2 * turn * dot(seen.v, seen.v);
        const Four over = choose(squared > four(0), 1.0 / sqrt(squared), four(0));
        set(into, {length * over * away, turn * over * seen.w * seen.v});
    };
    Eigen::Matrix<double, N, 1> reach(n), mean(n), others(n);
    reach.setZero();
    mean.setZero();
    for (int e = 0; last_ >= 0 && e < n / 6; ++e) {
        const FourPoses& home = homes_[last_ / 4 * (n / 6) + e];
        Four gradient[6];
        distance_gradient(e, home.p, seen_from({four(turns_[e]), home.p}, home).q, gradient);
        for (int k = 0; k < 6; ++k) reach[6 * e + k] = reach_ / distance(last_) * gradient[k][last_ % 4];
    }
    Eigen::Matrix<double, N, 1> nearer(n);  // d ln sum (1/d - 1/R)^p
    nearer.setZero();
    double nearness = 0;
    for (Group& group : groups_) {
        Four* gradient = group.weight_gradient.data();
        for (int e = 0; e < n / 6; ++e)
            distance_gradient(e, group.tips[e].home.p, group.tips[e].seen.q, gradient + 6 * e);
        const Four d = group.distance, near = power / (1.0 / d - reach_), by = near / (d * d);
        for (int i = 0; i < n; ++i) gradient[i] = near * reach[i] - by * gradient[i];
        weighted_sums(group.weight, gradient, n, &group != &groups_[0], mean.data());
        if (rest_share_ > 0) {
            Four share = four(0);
            for (int l = 0; l < 4; ++l)
                if (group.weight[l] > 0) share[l] = nearness_[group.model[l] / 4][group.model[l] % 4];
            nearness += sum(share);
            weighted_sums(share, gradient, n, &group != &groups_[0], nearer.data());
        }
    }
    if (rest_share_ > 0) {
        rest_gradient_.template head<N>(n) = nearer / nearness;
        differentiate_rest_share();
    }
    const auto most = std::max_element(used.begin(), used.end(), [](auto& a, auto& b) { return a.weight < b.weight; }) -
                      used.begin();
    const Four lane{double(most % 4 == 0), double(most % 4 == 1), double(most % 4 == 2), double(most % 4 == 3)};
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        const Four weight = most / 4 == static_cast<int>(g) ? (1.0 - lane) * groups_[g].weight : groups_[g].weight;
        for (int i = 0; i < n; ++i) groups_[g].weight_gradient[i] = weight * (groups_[g].weight_gradient[i] - mean[i]);
        weighted_sums(four(1), groups_[g].weight_gradient.data(), n, g > 0, others.data());
    }
    // the gradients add up to zero; computed directly, that of the largest weight is a difference of large numbers near
    // a sample
    for (int i = 0; i < n; ++i) groups_[most / 4].weight_gradient[i] -= lane * others[i];
    for (Group& group : groups_)  // from twists of the end effector to xi
        for (int e = 0; e < n / 6; ++e) {
            const Mat3 &diagonal = jacobians_[e].M, &corner = jacobians_[e].dM;
            const FourTwists by = twists(&group.weight_gradient[6 * e]);
            set(&group.weight_gradient[6 * e],
                {radius * transpose_times(diagonal, by.linear),
                 transpose_times(corner, by.linear) + transpose_times(diagonal, by.angular)});
        }
}

// d phi / d xi, from d ln(D^p sum_i (k (1/d_i - 1/R))^p). `rest_gradient_`: on entry the gradient of the logarithm of
// the sum, by twists of the end effectors.
void Blended::differentiate_rest_share() {
    const double factor = -rest_share_ * (1 - rest_share_ / rest_presence_);
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Pose& pose = tips[e].pose;
        const Vec3 away = pose.R.transpose() * (pose.p - rest_[e].p) / (radius * radius);
        const Mat3 turned = rest_[e].R.transpose() * pose.R;
        const Vec3 sine = Vec3(turned(2, 1) - turned(1, 2), turned(0, 2) - turned(2, 0), turned(1, 0) - turned(0, 1)) /
                          (2 * M_PI * M_PI);
        const double distance = std::sqrt((pose.p - rest_[e].p).squaredNorm() / (radius * radius) +
                                          0.5 * (pose.R - rest_[e].R).squaredNorm() / (M_PI * M_PI));
        const double over = distance > 0 ? power / (distance * rest_distance_) : 0;
        const Vec6 by = factor * (rest_gradient_.segment<6>(6 * e) + over * stack(away, sine));
        const Vec6 on = jacobians_[e].transpose_times(by);
        rest_gradient_.segment<6>(6 * e) = stack(radius * on.head<3>(), on.tail<3>());
    }
}

// d r / d alpha_i of the strain r = xi + load_displacement - C lambda, with lambda = spring_force (n,)
template <int N>
void Blended::differentiate_strain(const double* spring_force) {
    const int n = size<N>(n_);
    Eigen::Matrix<double, N, 1> vector(n);
    const double kept = 1 - rest_share_;  // the predicted rest pose does not depend on weights
    for (int i = 0; i < n; ++i) vector[i] = wrench_[i] - spring_force[i];
    if (rest_share_ > 0)
        for (int i = 0; i < n; ++i) {
            vector[i] += rest_share_ * (push_all_[i] - wrench_[i]);
            rest_slope_[i] = rest_difference_[i] + rest_compliance_ * vector[i];
        }
    const double* slope = slope_.data();
    for (Group& group : groups_) {
        const Four *displacement = group.load_displacement.data(), *load = group.load.data();
        Four* __restrict to = group.strain_by_weight.data();
        repeat<N>(n, [&](auto i) __attribute__((always_inline)) {
            Four sum = 0.5 * displacement[i];
            for (int j = 0; j < n; ++j) sum += slope[entry(i, j)] * load[j];
            to[i] = kept * sum;
        });
    }
    add_compliance_derivative<N>(vector.data());
    add_mean_derivative<N>();
}

// tau = max(h, least_damping_time, s / omega), s the skew part of K J relative to K and omega the frequency, both along
// the velocity: changing weights make K J unsymmetric, and two modes of equal frequency then grow at most at the rate s
// omega / 2. A ratio s / omega of damping to stiffness compensates this. `springs`: K v; `kinetic`, `elastic`: v.M v
// and v.K v
template <int N>
double Blended::damping_time(const double* springs, double kinetic, double elastic) {
    const int r = size<N>(static_cast<int>(basis.cols()));
    const double least = std::max(h, least_damping_time);
    if (!(elastic > 0)) return least;
    const double* v = v_.data();
    Eigen::Matrix<double, N, 1> strained(r), skew(r);  // J v, and J^T K v
    for (std::size_t g = 0; 4 * g < static_cast<std::size_t>(columns_); ++g) {
        const Four *by_weight = &strain_lanes_[r * g], *gradient = &gradient_lanes_[r * g];
        Four rate = gradient[0] * v[0], work = by_weight[0] * springs[0];
        for (int i = 1; i < r; ++i) {
            rate += gradient[i] * v[i];
            work += by_weight[i] * springs[i];
        }
        weighted_sums(rate, by_weight, r, g > 0, strained.data());
        weighted_sums(work, gradient, r, g > 0, skew.data());
    }
    Eigen::Matrix<double, N, 1> force(r), displacement(r);
    for (int i = 0; i < r; ++i) strained[i] += v[i];
    multiply_lane<compliance_kind>(inverse_.data(), r, strained.data(), force.data());
    for (int i = 0; i < r; ++i) skew[i] = 0.5 * (force[i] - springs[i] - skew[i]);
    multiply_lane<compliance_kind>(matrices().data(), r, skew.data(), displacement.data());
    double squared = 0;
    for (int i = 0; i < r; ++i) squared += skew[i] * displacement[i];
    return std::max(least, std::sqrt(std::min(1.0, squared / elastic) * kinetic / elastic));
}

// J^T K J, with J = 1 + sum_i (dr/d alpha_i) (d alpha_i/d xi)^T
template <int N>
void Blended::add_strain_damping(double factor, Eigen::Matrix<double, N, N>& system) {
    const int r = size<N>(static_cast<int>(basis.cols())), pad = (r + 3) / 4, count = columns_;
    const auto number = [](const Four* row, int i) { return row[i / 4][i % 4]; };
    const Four *by_weight = strain_columns_.data(), *gradient = gradient_columns_.data(), *inverse = inverse_.data();
    Four* __restrict J = strain_.data(), * __restrict bent = bent_.data();
    repeat<N>(r, [&](auto i) __attribute__((always_inline)) {
        for (int b = 0; b < pad; ++b) {
            const Four unit{double(i % 4 == 0), double(i % 4 == 1), double(i % 4 == 2), double(i % 4 == 3)};
            Four sum = b == i / 4 ? unit : four(0);
            for (int k = 0; k < count; ++k) sum += number(by_weight + pad * k, i) * gradient[pad * k + b];
            J[pad * i + b] = sum;
        }
    });
    repeat<N>(r, [&](auto i) __attribute__((always_inline)) {
        for (int b = 0; b < pad; ++b) {
            Four sum = inverse[i][compliance_kind] * J[b];
            for (int k = 1; k < r; ++k) sum += inverse[i + r * k][compliance_kind] * J[pad * k + b];
            bent[pad * i + b] = sum;
        }
    });
    repeat<N>(r, [&](auto i) __attribute__((always_inline)) {
        for (int b = 0; b <= i / 4; ++b) {
            Four sum = number(J, i) * bent[b];
            for (int k = 1; k < r; ++k) sum += number(J + pad * k, i) * bent[pad * k + b];
            sum *= factor;
            for (int j = 4 * b; j < std::min(4 * b + 4, i + 1); ++j) system.data()[i + r * j] += sum[j % 4];
        }
    });
}

Matrix Blended::strain() const {
    const int r = static_cast<int>(basis.cols()), pad = (r + 3) / 4;
    Matrix J = Matrix::Identity(r, r);
    for (int i = 0; !strain_.empty() && i < r; ++i)
        for (int j = 0; j < r; ++j) J(i, j) = strain_[pad * i + j / 4][j % 4];
    return J;
}

// Twists from their coordinates in the basis.
template <int N>
void Blended::from_basis(const Eigen::Matrix<double, N, 1>& z, Vector& twists) const {
    if (reduced_) {
        twists.noalias() = basis * z;
        return;
    }
    twists.resize(z.size());
    twists.template head<N>(z.size()) = z;
}

Vector Blended::weight_gradient(int use) const {
    Vector gradient(n_);
    for (int i = 0; i < n_; ++i) gradient[i] = groups_[use / 4].weight_gradient[i][use % 4];
    return gradient;
}

// (M + h D + h tau J^T K J) v' = M v + h (f - K (z + c) + ground z), with handles as springs on points of the tips at
// the end of the step
template <int N>
bool Blended::solve() {
    using Square = Eigen::Matrix<double, N, N>;
    using Column = Eigen::Matrix<double, N, 1>;
    const int r = size<N>(static_cast<int>(basis.cols()));
    const std::vector<Four>& blended = matrices();
    for (std::vector<Four>* each : {&inverse_, &strain_, &bent_}) each->resize(r * std::max(r, 4 * ((r + 3) / 4)));
    double softest = 0;
    for (int i = 0; i < r; ++i) softest = std::max(softest, blended[i + r * i][compliance_kind]);
    invert_positive<N>(blended.data(), r, Four{0, 0, 0, least_compliance * softest}, inverse_.data());
    const Four* inverse = inverse_.data();
    // K (z + c), M v and the force of springs whose compliance is raised
    spring_force_.resize(r);
    Column momentum(r), raised(r);
    Columns<N> x;
    if constexpr (N == Eigen::Dynamic) x.resize(r);
    const double *z = z_.data(), *v = v_.data();
    for (int j = 0; j < r; ++j) {
        const double stretch = z[j] + load_displacement.data()[j];
        x[j] = Four{stretch, v[j], 0, stretch};
    }
    for (int i = 0; i < r; ++i) {
        Four sum = inverse[r * i] * x[0];
        for (int j = 1; j < r; ++j) sum += inverse[j + r * i] * x[j];
        spring_force_[i] = sum[compliance_kind];
        momentum[i] = sum[inverse_mass_kind];
        raised[i] = sum[soft_kind];
    }
    Square system(r, r);
    dissipation_.resize(r, r);
    const double damping = damped ? h : 0;
    for (int k = 0; k < r * r; ++k) {
        dissipation_.data()[k] = damping * inverse[k][inverse_damping_kind];
        system.data()[k] = inverse[k][inverse_mass_kind] + damping * inverse[k][inverse_damping_kind];
    }
    double factor = h * h;  // of J^T K J
    bool changing = false;
    if (published) {  // eq. 24
        for (Group& group : groups_) std::fill(group.weight_gradient.begin(), group.weight_gradient.end(), four(0));
    } else {
        Column springs(r);
        double kinetic = 0, elastic = 0;
        multiply_lane<compliance_kind>(inverse, r, v, springs.data());
        for (int i = 0; i < r; ++i) {
            kinetic += v[i] * momentum[i];
            elastic += v[i] * springs[i];
        }
        from_basis(raised, all_);
        momentum *= limit_kinetic_energy(0.5 * kinetic, stored_energy(all_.data()));
        factor = h * std::max(h, least_damping_time);
        changing = used.size() > 1;
        if (changing) {
            from_basis(spring_force_, all_);
            if (n_ == 6) {
                differentiate_weights<6>();
                differentiate_strain<6>(all_.data());
            } else {
                differentiate_weights<Eigen::Dynamic>();
                differentiate_strain<Eigen::Dynamic>(all_.data());
            }
            const int pad = (r + 3) / 4, last = static_cast<int>(used.size());
            columns_ = last + (rest_share_ > 0);
            const std::size_t fours = (columns_ + 3) / 4;
            for (std::vector<Four>* each : {&strain_lanes_, &gradient_lanes_}) each->resize(r * fours);
            for (std::vector<Four>* each : {&strain_columns_, &gradient_columns_}) each->resize(4 * pad * fours);
            for (std::size_t g = 0; g < groups_.size(); ++g) {
                to_basis(groups_[g].strain_by_weight.data(), &strain_lanes_[r * g]);
                to_basis(groups_[g].weight_gradient.data(), &gradient_lanes_[r * g]);
            }
            if (rest_share_ > 0) {  // one more lane
                if (last % 4 == 0)
                    for (std::vector<Four>* each : {&strain_lanes_, &gradient_lanes_})
                        std::fill(each->end() - r, each->end(), four(0));
                to_basis(rest_slope_, rest_part_);
                for (int i = 0; i < r; ++i) strain_lanes_[r * (last / 4) + i][last % 4] = rest_part_[i];
                to_basis(rest_gradient_, rest_part_);
                for (int i = 0; i < r; ++i) gradient_lanes_[r * (last / 4) + i][last % 4] = rest_part_[i];
            }
            for (std::size_t g = 0; g < fours; ++g) {
                to_columns(&strain_lanes_[r * g], r, &strain_columns_[4 * pad * g]);
                to_columns(&gradient_lanes_[r * g], r, &gradient_columns_[4 * pad * g]);
            }
            factor = h * damping_time<N>(springs.data(), kinetic, elastic);
        }
    }
    if (changing) {
        add_strain_damping<N>(factor, system);
    } else {
        strain_.clear();
        for (int k = 0; k < r * r; ++k) system.data()[k] += factor * inverse[k][compliance_kind];
    }
    external_impulse_.resize(r);
    Column right(r);
    for (int i = 0; i < r; ++i) {
        external_impulse_[i] = h * push_[i];
        right[i] = momentum[i] + h * (push_[i] - spring_force_[i] + ground_used() * z_[i]);
    }
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Tip& tip = tips[e];
        if (!tip.has_handle) continue;
        const Eigen::Matrix<double, 3, N> J = point_map(e, tip.point) * basis.middleRows(6 * e, 6);
        const Column pull = h * tip.stiffness * (J.transpose() * (tip.target - tip.pose.act(tip.point)));
        const Square more = h * (h * tip.stiffness + tip.damping) * (J.transpose() * J);
        right += pull;
        external_impulse_.template head<N>(r) += pull;
        dissipation_ += more;
        system += more;
    }
    new_rates_.resize(r);
    new_rates_.template head<N>(r) = solve_symmetric<N>(system, right);
    system_ = system;
    return new_rates_.allFinite();
}

// Energy by the trapezoidal rule from every model in use, sum_i alpha_i (E_i + (b_i + lambda) . xi_i / 2). Stiff
// directions store almost no energy; in `spring_force` (lambda) their compliance is raised to `least_compliance` times
// the largest one.
double Blended::stored_energy(const double* spring_force) {
    double stored = 0;
    for (const Group& group : groups_) {
        Four work = four(0);
        for (int i = 0; i < n_; ++i)
            work += group.own[i] * (group.wrench[i] + (spring_force[i] - ground_used() * xi[i]));
        stored += sum(group.weight * (group.energy + 0.5 * work));
    }
    return stored;
}

// The blended force has no potential, and changing weights can add energy. The budget is the initial energy plus the
// work of loads less that of dampers. Velocities are scaled down where the kinetic energy exceeds the budget less the
// stored energy, plus a margin
// (`energy_margin`) for the error of the estimate of the stored energy. Returns the factor of the velocities.
double Blended::limit_kinetic_energy(double kinetic, double stored) {
    double least = stored, factor = 1;
    for (const auto& use : used) least = std::min(least, samples[use.model].energy);
    const double doubt = energy_margin * (stored - least), most = energy_budget - stored + doubt;
    if (budget_unset_ || !std::isfinite(energy_budget)) {
        energy_budget = kinetic + stored;
        budget_unset_ = false;
    } else if (kinetic > std::max(most, 0.0)) {
        factor = std::sqrt(std::max(most, 0.0) / kinetic);
    }
    // the budget may differ from the present energy by the margin only
    energy_budget = std::clamp(energy_budget, stored - doubt, kinetic + stored + doubt);
    return factor;
}

bool Blended::begin() {
    blend();
    to_basis(xi, z_);
    rates(all_);
    to_basis(all_, v_);
    generalised_force(all_);
    to_basis(all_, push_);
    return basis.cols() == 6 && n_ == 6 ? solve<6>() : solve<Eigen::Dynamic>();
}

// The twist of one end effector at which a model in use is evaluated.
Vec6 Blended::evaluation_twist(int use, int e) const {
    Vec6 own;
    for (int k = 0; k < 6; ++k) own[k] = groups_[use / 4].own[6 * e + k][use % 4];
    return published ? unscaled(own) : Vec6(0.5 * unscaled(own + xi.segment<6>(6 * e)));
}

// Values of the bounded coordinates and their rates in this step: weighted means over the models in use, each linear in
// the twist at which it is evaluated, plus the effect of changing weights.
void Blended::evaluate_bounds() const {
    bound_at_.setZero(lower.size());
    bound_rate_.setZero(lower.size());
    from_basis(new_rates_, moves_);
    for (std::size_t k = 0; k < used.size(); ++k) {
        const Sample& sample = samples[used[k].model];
        bound_own_ = sample.bound_values;
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Vec6 half = evaluation_twist(k, e), common = unscaled(xi.segment<6>(6 * e)),
                       u = unscaled(moves_.segment<6>(6 * e));
            const Vec6 rate = 0.5 * used[k].weight *
                              (right_jacobian_inverse(2 * half - common) * (jacobians_[e] * u) + u);
            bound_own_.noalias() += sample.bounded.middleRows(6 * e, 6).transpose() * half;
            bound_rate_.noalias() += sample.bounded.middleRows(6 * e, 6).transpose() * rate;
        }
        bound_at_ += used[k].weight * bound_own_;
        if (used.size() > 1) bound_rate_ += weight_gradient(k).dot(moves_) * bound_own_;
    }
}

// (r,) derivative of a bounded coordinate by coordinates in the basis, changing weights included.
Vector Blended::bound_row(int bound) const {
    Vector row = Vector::Zero(n_);
    for (std::size_t k = 0; k < used.size(); ++k) {
        const Sample& sample = samples[used[k].model];
        double own = sample.bound_values[bound];
        for (std::size_t e = 0; e < tips.size(); ++e) {
            const Vec6 map = sample.bounded.col(bound).segment<6>(6 * e), half = evaluation_twist(k, e);
            const Vec6 common = unscaled(xi.segment<6>(6 * e));
            own += map.dot(half);
            const Vec6 by = jacobians_[e].transpose_times(right_jacobian_inverse(2 * half - common).transpose() * map);
            const Vec6 total = 0.5 * used[k].weight * (by + map);
            row.segment<6>(6 * e) += stack(radius * total.head<3>(), total.tail<3>());
        }
        if (used.size() > 1) row += own * weight_gradient(k);
    }
    return basis.transpose() * row;
}

void Blended::limits(std::vector<Limit>& out) const {
    if (!lower.size()) return;
    evaluate_bounds();
    for (Eigen::Index i = 0; i < lower.size(); ++i)
        near_limits(i, bound_at_[i], bound_rate_[i], lower[i], upper[i], h, out);
}

bool Blended::finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) {
    const std::size_t rows = 3 * touches.size() + limits.size();
    if (rows) {
        new_rates_.noalias() += response_ * Eigen::Map<const Vector>(impulses, rows);
        if (!new_rates_.allFinite()) return false;
    }
    energy_budget += new_rates_.dot(external_impulse_);
    for (int j = 0; j < new_rates_.size(); ++j) energy_budget -= new_rates_[j] * dissipation_.col(j).dot(new_rates_);
    if (rows) energy_budget += Eigen::Map<const Vector>(impulses, rows).dot(rows_.transpose() * new_rates_);
    z_ += h * new_rates_;
    from_basis(z_, all_);
    if (reduced_ && rest_share_ > 0) all_ += rest_offset_;
    from_basis(new_rates_, by_);
    if (!(all_.squaredNorm() < largest_norm * largest_norm)) return false;
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Vec6 twist = unscaled(all_.segment<6>(6 * e));
        const Stumpff g = stumpff(twist.tail<3>().squaredNorm());
        tips[e].pose = means[e] * detail::exp(twist, g);
        tips[e].velocity = TwistJacobian(-twist, jacobian_coefficients(g)) * unscaled(by_.segment<6>(6 * e));
    }
    if (fading_) fade_in();
    time += h;
    stale_ = true;
    return true;
}

void Blended::fade_in() {
    fading_ = false;
    for (int i = 0; i < static_cast<int>(samples.size()); ++i) {
        if (presence(i) == 1) continue;
        presence_[i / 4][i % 4] = std::min(1.0, presence(i) + h / fading);
        fading_ = loads_changed_ = true;  // predictions depend on presence
    }
}

// A step with a large displacement, in which weights change much, is divided.
bool Blended::step() {
    if (!begin()) return false;
    const double whole = h,
                 parts = std::clamp(std::ceil(h * new_rates_.norm() / largest_displacement), 1.0, most_parts);
    if (parts == 1 || published) return finish({}, {}, nullptr);
    h = whole / parts;
    bool good = true;
    for (int k = 0; good && k < parts; ++k) good = begin() && finish({}, {}, nullptr);
    h = whole;
    return good;
}

Vec6 Blended::free_velocity(int e) const {
    const Vec6 twist = jacobians_[e] * unscaled(Vec6(basis.middleRows(6 * e, 6) * new_rates_));
    return stack(tips[e].pose.R * twist.head<3>(), tips[e].pose.R * twist.tail<3>());
}

void Blended::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                      double* response) {
    const int k = 3 * static_cast<int>(touches.size()), n = k + static_cast<int>(limits.size());
    rows_.resize(basis.cols(), n);
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const int e = touches[i].frame;
        const Vec3 local = tips[e].pose.R.transpose() * (touches[i].point - tips[e].pose.p);
        const Eigen::Matrix<double, 3, 6> by = by_scaled_twist(e, touches[i].by_twist(tips[e].pose.R, local));
        rows_.middleCols<3>(3 * i).noalias() = basis.middleRows(6 * e, 6).transpose() * by.transpose();
    }
    for (int i = k; i < n; ++i) rows_.col(i) = limits[i - k].sign * bound_row(limits[i - k].row);
    response_ = solve_positive(system_, rows_);
    Eigen::Map<Vector>(free, n).noalias() = rows_.transpose() * new_rates_;
    Eigen::Map<Matrix>(response, n, n).noalias() = rows_.transpose() * response_;
}

// Kinetic energy, and energy of the blended springs relative to their unloaded state, at the last blend.
double Blended::energy() const {
    Vector all(n_);
    rates(all);
    const Vector v = basis.transpose() * all, z = basis.transpose() * xi, r = z + load_displacement;
    return 0.5 * (v.dot(solve_positive(blended(inverse_mass_kind), v)) +
                  r.dot(solve_positive(blended(compliance_kind), r)) - ground_used() * z.squaredNorm());
}

}  // namespace supple
