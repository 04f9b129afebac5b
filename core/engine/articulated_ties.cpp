// Ties (loops and couplings): their residuals and their columns in the articulated tangent.
#include <algorithm>
#include <cmath>

#include "engine/articulated.hpp"
#include "engine/articulated_lanes.hpp"

namespace supple {

// World directions in which the axes of a loop are compared. They are constant during a step, so that the force of a row is a
// vector fixed in the world, and its derivative involves one end only.
void Articulated::freeze_directions() {
    for (Loop& loop : loops_) {
        if (loop.rows == 3) continue;
        const Pose H = pose(loop.end[0].node);
        const Vec3 z = H.R * loop.end[0].direction[0], x = H.R * loop.end[0].direction[1];
        loop.along[0] = x;
        loop.along[1] = loop.along[2] = z.cross(x);
    }
}

// Gaps of loops and couplings, and the torques of couplings on their coordinates:
//   points p_child - p_parent (world axes, over the length scale), directions t.(z_child - z_parent), values C q - target.
template <bool tangent>
void Articulated::evaluate_ties(const Step& step) {
    if (tie_rows_ == 0) return;
    gap_ = 0;
    if (tangent) redundant_ = false;
    const double soft = exact_ ? 0.0 : regularised / soft_scale_;  // an exact tangent leaves out redundant ties
    for (Loop& loop : loops_) {
        for (int side = 0; side < 2; ++side) {
            const End& end = loop.end[side];
            const Pose H = pose(end.node);
            loop.point[side] = H.act(end.point);
            loop.z[side] = H.R * end.direction[0];
            loop.x[side] = H.R * end.direction[1];
        }
        double e[6];
        Eigen::Map<Vec3>(e, 3) = (loop.point[0] - loop.point[1]) / length_scale_;
        if (loop.rows > 3) {
            e[3] = loop.along[0].dot(loop.z[0] - loop.z[1]);
            e[4] = loop.along[1].dot(loop.z[0] - loop.z[1]);
            if (loop.z[0].dot(loop.z[1]) < 0.5) gap_ = INFINITY;
        }
        if (loop.rows > 5) e[5] = loop.along[2].dot(loop.x[0] - loop.x[1]);
        for (int r = 0; r < loop.rows; ++r) {
            const int row = loop.first + r;
            gap_ = std::max(gap_, std::abs(e[r]));
            residual_[row] = e[r] - soft * decay_ * multiplier_[row];
            diagonal_[row] = -soft;
        }
    }
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
                force -= system_->excess(actuator, c.value, speed, step.c0 / step.h, by_length);
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
void Articulated::add_loop_wrench(Lanes& lanes, int l, const Loop& loop, int side) {
    const double* multiplier = &multiplier_[loop.first];
    const double sign = side == 0 ? -1.0 : 1.0;
    const Vec3 at = loop.point[side] - origin_;
    lanes.add_world_wrench<tangent>(l, at, (sign / length_scale_) * Vec3(multiplier), Vec3::Zero());
    if (loop.rows > 3)
        lanes.add_direction_moment<tangent>(l, loop.z[side], sign * (multiplier[3] * loop.along[0] + multiplier[4] * loop.along[1]));
    if (loop.rows > 5) lanes.add_direction_moment<tangent>(l, loop.x[side], sign * multiplier[5] * loop.along[2]);
}
template void Articulated::add_loop_wrench<true>(Lanes&, int, const Loop&, int);
template void Articulated::add_loop_wrench<false>(Lanes&, int, const Loop&, int);

template <bool tangent>
Articulated::Front& Articulated::started(int f) {
    Front& front = fronts_[f];
    if (front.started) return front;
    front.started = true;
    const Eight none = every(0.0);
    if (tangent) {
        std::fill_n(&numbers_[front.A], front.rows_size, none);
    } else {
        std::fill_n(&numbers_[front.right], 1 + 2 * front.chunks, none);
        std::fill_n(&numbers_[front.own_right], 2 * front.own_chunks, none);
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
        if (!symmetric_) numbers_[front.B + r * wide] += B[r];
    }
}

// Columns of a loop at one of its ends: derivatives of its rows with respect to the node's twist.
void Articulated::add_loop_columns(Front& front, const LoopEnd& which) {
    const Loop& loop = loops_[which.loop];
    const double sign = which.side == 0 ? 1.0 : -1.0;
    const int wide = 1 + front.chunks;
    const Vec3 at = loop.point[which.side] - origin_;
    const double by = sign / length_scale_, x = by * at[0], y = by * at[1], z = by * at[2];
    Eight g[width] = {{by, 0, 0, 0, z, -y, 0, 0}, {0, by, 0, -z, 0, x, 0, 0}, {0, 0, by, y, -x, 0, 0, 0}};
    for (int r = 3; r < width; ++r) g[r] = every(0.0);
    for (int r = 3; r < loop.rows; ++r) {
        const Vec3 turned = sign * (r < 5 ? loop.z : loop.x)[which.side].cross(loop.along[r - 3]);
        g[r] = Eight{0, 0, 0, turned[0], turned[1], turned[2], 0, 0};
    }
    transpose(g);
    const bool own = which.place.own;
    const int row = width * (own ? front.own_chunks : wide);
    double *a = numbers(&numbers_[own ? front.own_A : front.A + 1]) + which.place.at;
    double *b = numbers(&numbers_[own ? front.own_B : front.B + 1]) + which.place.at;
    for (int c = 0; c < 6; ++c) {  // zeros may be added behind the row
        Lanes::add(a + c * row, g[c]);
        if (!symmetric_) Lanes::add(b + c * row, g[c]);
    }
}

}  // namespace supple
