// Ties (loops and couplings): their residuals and their columns in the articulated tangent.
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "engine/articulated.hpp"
#include "engine/articulated_lanes.hpp"

namespace supple {

// World directions in which the axes of a loop are compared. They are constant during a step, so that the force of a
// row is a vector fixed in the world, and its derivative involves one end only.
template <class Block>
void Articulated::freeze_directions(const std::vector<Block>& blocks) {
    for (Loop& loop : loops_) {
        if (loop.rows == 3) continue;
        const Pose H = StateLayout::slot_pose(blocks, loop.slot[0]);
        const Vec3 z = H.R * loop.z[0], x = H.R * loop.x[0];
        loop.along[0] = x;
        loop.along[1] = loop.along[2] = z.cross(x);
    }
}
template void Articulated::freeze_directions(const std::vector<Past>&);
template void Articulated::freeze_directions(const std::vector<Present>&);

// Gaps of eight loops and the rows of their ends:
//   points p_child - p_parent (world axes, over the length scale), directions t.(z_child - z_parent).
// The wrench on an end is a force f at a point c, and moments a x b of vectors b fixed in the world on directions a of
// the node. Its part of P' is
//   [[0, -[f]/2], [[f]/2, S]],   S = sum of -([b][a] + [a][b])/2 = a.b - (a b^T + b a^T)/2 over (c, f) and all (a, b).
// `lanes` are in use; the others repeat them or are zero. directed: some of the loops compare directions.
template <bool tangent, bool directed, int lanes>
void Articulated::evaluate_loops(EightLoops& of, double soft) {
    const Eight none = every(0.0);
    const Loop* loops = &loops_[of.first];
    auto loop_in = [&](int l) -> const Loop& { return loops[std::min(l, of.count - 1)]; };
    auto together = [](auto at) {
        if constexpr (lanes == 1) return every(at(0));
        else if constexpr (lanes == 4) return Eight{at(0), at(1), at(2), at(3), 0, 0, 0, 0};
        else return Eight{at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
    };
    auto put = [&](Eight* to, std::array<Eight, width> v) {  // a vector of each loop
        if constexpr (lanes == 1) {
            to[0] = Eight{v[0][0], v[1][0], v[2][0], v[3][0], v[4][0], v[5][0], v[6][0], v[7][0]};
        } else {
            transpose<lanes>(v.data());
            std::copy_n(v.data(), lanes, to);
        }
    };

    constexpr int most_rows = directed ? 6 : 3;
    Three point[2], z[2], x[2];
    for (int side = 0; side < 2; ++side) {
        const double* from[width];
        for (int l = 0; l < lanes; ++l) {
            const int node = loop_in(l).slot[side];
            from[l] = reinterpret_cast<const double*>(present_[node / width].R) + node % width;
        }
        auto number = [&](int c) { return together([&](int l) { return from[l][width * c]; }); };
        auto vector = [&](int c) { return Three{number(c), number(c + 1), number(c + 2)}; };
        const Turn R = {vector(0), vector(3), vector(6)};
        point[side] = R * three(of.point[side]) + vector(9);
        if (!directed) continue;
        z[side] = R * three(of.z[side]);
        x[side] = R * three(of.x[side]);
    }
    Three along[3];
    for (int r = 0; directed && r < 3; ++r) {
        auto number = [&](int c) { return together([&](int l) { return loop_in(l).along[r][c]; }); };
        along[r] = {number(0), number(1), number(2)};
    }
    Eight mu[6];
    for (int r = 0; r < most_rows; ++r)
        mu[r] = of.has[r] * together([&](int l) { return multiplier_[loop_in(l).first + r]; });

    const Three apart = (1 / length_scale_) * (point[0] - point[1]);
    std::array<Eight, width> e = {apart.x, apart.y, apart.z, none, none, none, none, none};
    if (directed) {
        const Three tilted = z[0] - z[1];
        e[3] = dot(along[0], tilted);
        e[4] = dot(along[1], tilted);
        e[5] = dot(along[2], x[0] - x[1]);
        if (largest(of.has[3] * (0.5 - dot(z[0], z[1]))) > 0) gap_ = INFINITY;
    }
    Eight most = none;
    for (int r = 0; r < most_rows; ++r) {
        most = larger(of.has[r] * absolute(e[r]), most);
        e[r] -= (soft * decay_) * mu[r];
    }
    gap_ = std::max(gap_, largest(most));
    Eight residual[lanes];
    put(residual, e);
    // In this order: the next loop's numbers are behind
    for (int l = 0; l < of.count; ++l) store(&residual_[loops[l].first], residual[l]);

    const Three zero = {none, none, none};
    Three bent = zero, twisted = zero;
    if (directed) {
        bent = mu[3] * along[0] + mu[4] * along[1];
        twisted = mu[5] * along[2];
    }
    for (int side = 0; side < 2; ++side) {
        const double sign = side == 0 ? -1.0 : 1.0, by = -sign / length_scale_;
        const Three c = point[side] - every(origin_), f = (sign / length_scale_) * Three{mu[0], mu[1], mu[2]};
        const Three b = sign * bent, w = sign * twisted;
        Three moment = cross(c, f);
        if (directed) moment = moment + (cross(z[side], b) + cross(x[side], w));
        put(of.wrench[side], {f.x, f.y, f.z, moment.x, moment.y, moment.z, none, none});
        if (!tangent) continue;
        auto mean = [&](auto of_a, auto of_b) {  // of products of two components, over the three pairs
            Eight sum = of_a(c) * of_b(f) + of_b(c) * of_a(f);
            if (directed)
                sum += (of_a(z[side]) * of_b(b) + of_b(z[side]) * of_a(b)) +
                       (of_a(x[side]) * of_b(w) + of_b(x[side]) * of_a(w));
            return 0.5 * sum;
        };
        auto X = [](const Three& v) { return v.x; };
        auto Y = [](const Three& v) { return v.y; };
        auto Z = [](const Three& v) { return v.z; };
        const Eight xx = mean(X, X), yy = mean(Y, Y), zz = mean(Z, Z), xy = -mean(X, Y), xz = -mean(X, Z),
                    yz = -mean(Y, Z);
        const Three h = 0.5 * f;
        put(of.rows[side][0], {none, none, none, none, h.z, -h.y, -f.x, none});
        put(of.rows[side][1], {none, none, none, -h.z, none, h.x, -f.y, none});
        put(of.rows[side][2], {none, none, none, h.y, -h.x, none, -f.z, none});
        put(of.rows[side][3], {none, -h.z, h.y, yy + zz, xy, xz, -moment.x, none});
        put(of.rows[side][4], {h.z, none, -h.x, xy, xx + zz, yz, -moment.y, none});
        put(of.rows[side][5], {-h.y, h.x, none, xz, yz, xx + yy, -moment.z, none});
        const Three at = by * c;
        Three turn[3] = {zero, zero, zero};
        if (directed) {
            turn[0] = -sign * of.has[3] * cross(z[side], along[0]);
            turn[1] = -sign * of.has[4] * cross(z[side], along[1]);
            turn[2] = -sign * of.has[5] * cross(x[side], along[2]);
        }
        put(of.columns[side][0], {none, -at.z, at.y, turn[0].x, turn[1].x, turn[2].x, none, none});
        put(of.columns[side][1], {at.z, none, -at.x, turn[0].y, turn[1].y, turn[2].y, none, none});
        put(of.columns[side][2], {-at.y, at.x, none, turn[0].z, turn[1].z, turn[2].z, none, none});
    }
}

// Gaps of loops and couplings (C q - target), and the torques of couplings on their coordinates.
template <bool tangent>
void Articulated::evaluate_ties(const Step& step) {
    if (tie_rows_ == 0) return;
    gap_ = 0;
    if (tangent) redundant_ = false;
    const double soft = exact_ ? 0.0 : regularised / soft_scale_;  // an exact tangent leaves out redundant ties
    for (EightLoops& each : loops_abreast_) {
        auto evaluate = [&](auto directed) {
            if (each.count == 1) evaluate_loops<tangent, directed(), 1>(each, soft);
            else if (each.count <= 4) evaluate_loops<tangent, directed(), 4>(each, soft);
            else evaluate_loops<tangent, directed(), width>(each, soft);
        };
        largest(each.has[3]) > 0 ? evaluate(std::true_type{}) : evaluate(std::false_type{});
    }
    if (tangent) std::fill(diagonal_.begin(), diagonal_.end(), -soft);
    std::fill(extra_torque_.begin(), extra_torque_.end(), 0.0);
    for (Coupling& c : couplings_) {
        c.value = 0;
        for (std::size_t i = 0; i < c.nodes.size(); ++i) c.value += c.coefficients[i] * coordinate(c.nodes[i]);
        double& multiplier = multiplier_[c.row];
        residual_[c.row] = 0;
        if (c.spring >= 0) {
            double force = c.stiffness * (c.value - c.rest), slope = c.stiffness;
            if (c.curve >= 0) {
                double t, d, energy;
                system_->model().curves[c.curve].evaluate(c.value - c.rest, t, d, energy);
                force += t;
                slope += d;
            }
            const double speed = (step.c0 * c.value + step.c1 * c.past + step.c2 * c.before) / step.h;
            force += c.damping * speed;
            slope += c.damping * step.c0 / step.h;
            const double stiffest = slope;
            for (int actuator : c.actuators) {
                double by_length;
                force -= excess(actuator, c.value, speed, step.c0 / step.h, by_length);
                slope -= by_length;
            }
            multiplier = force;
            // a saturated actuator cancels the slope of its spring
            diagonal_[c.row] = std::abs(slope) <= 1e-12 * stiffest ? -1e20 / soft_scale_ : -1 / slope;
        } else if (c.stop) {
            double slope, energy;
            system_->model().rows[c.system_row].stop_torque(c.value, multiplier, slope, energy);
            diagonal_[c.row] = slope == 0 ? -1e20 / soft_scale_ : -1 / slope;
        } else if (c.active == 0) {
            multiplier = 0;
            diagonal_[c.row] = -1e20 / soft_scale_;
        } else {
            const double error = c.value - (c.active > 0 ? c.upper : c.lower);
            gap_ = std::max(gap_, std::abs(error));
            residual_[c.row] = error - soft * decay_ * multiplier;
            diagonal_[c.row] = -soft;
        }
        for (std::size_t i = 0; i < c.nodes.size(); ++i) extra_torque_[c.nodes[i]] += c.coefficients[i] * multiplier;
    }
}
template void Articulated::evaluate_ties<true>(const Step&);
template void Articulated::evaluate_ties<false>(const Step&);

// Wrench of a loop on one of its ends, and its derivative by the motion of this end.
template <bool tangent>
void Articulated::add_loop_wrench(Lanes& lanes, int l, const LoopEnd& end) const {
    const EightLoops& loops = loops_abreast_[end.loop / width];
    const int k = end.loop % width;
    Lanes::add(lanes.wrench[l], loops.wrench[end.side][k]);
    for (int r = 0; tangent && r < 6; ++r) {
        const Eight& row = loops.rows[end.side][r][k];
        Lanes::add(lanes.rows[r][l], row);
        if (r >= 3) Lanes::add(lanes.rows[3 + r][l], row);
    }
}
template void Articulated::add_loop_wrench<true>(Lanes&, int, const LoopEnd&) const;
template void Articulated::add_loop_wrench<false>(Lanes&, int, const LoopEnd&) const;

template <bool tangent>
Articulated::Front& Articulated::started(int f) {
    Front& front = fronts_[f];
    if (front.started) return front;
    front.started = true;
    const Eight none = every(0.0);
    if (tangent) {
        std::fill_n(&numbers_[front.A], front.rows_size, none);
    } else {
        std::fill_n(&numbers_[front.right], 1 + front.chunks, none);
        std::fill_n(&numbers_[front.own_right], front.own_chunks, none);
    }
    double *right = numbers(&numbers_[front.own_right]), *D = numbers(&numbers_[front.D]);
    for (int a = 0; a < front.own; ++a) {
        const int row = front.rows[front.open + a];
        right[a] = residual_[row];
        if (tangent) D[a * (width * front.own_chunks + 1)] = diagonal_[row];
    }
    return front;
}
template Articulated::Front& Articulated::started<true>(int);
template Articulated::Front& Articulated::started<false>(int);

void Articulated::add_to_front(Front& front, const Eight* A, const Eight* B) {
    const int wide = 1 + front.chunks;
    for (int r = 0; r < 6; ++r) {
        numbers_[front.A + r * wide] += A[r];
        numbers_[front.B + r * wide] += B[r];
    }
}

// Columns of a loop at one of its ends: derivatives of its rows with respect to the node's twist.
void Articulated::add_loop_columns(Front& front, const LoopEnd& end) {
    const EightLoops& loops = loops_abreast_[end.loop / width];
    const double by = (end.side == 0 ? 1 : -1) / length_scale_;
    const bool own = end.place.own;
    const int row = width * (own ? front.own_chunks : 1 + front.chunks);
    double* a = numbers(&numbers_[own ? front.own_A : front.A + 1]) + end.place.at;
    double* b = numbers(&numbers_[own ? front.own_B : front.B + 1]) + end.place.at;
    for (int c = 0; c < 6; ++c) {
        Eight column = c < 3 ? every(0.0) : loops.columns[end.side][c - 3][end.loop % width];
        if (c < 3) column[c] = by;
        Lanes::add(a + c * row, column);  // zeros may be added behind the row
        Lanes::add(b + c * row, column);
    }
}

}  // namespace supple
