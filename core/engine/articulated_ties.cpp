// Ties (loops and couplings): their residuals, their columns in the articulated tangent, and the elimination of nodes with ties.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/articulated.hpp"
#include "engine/articulated_lanes.hpp"

namespace supple {

namespace {

constexpr double regularised = 1e-8;   // compliance of a tie over that of the mechanism: keeps redundant ties solvable
constexpr double unresisted_stiffness = 1e-6;      // stiffness given to a massless coordinate without any, over the mechanism's

SUPPLE_INLINE double& lane(Eight* row, int k) { return reinterpret_cast<double*>(row + 1)[k]; }  // of a front's tie columns

// Inverse of a small dense matrix (row major) by Gauss and Jordan with row pivoting.
void invert(double* M, int n, double* inverse) {
    for (int i = 0; i < n * n; ++i) inverse[i] = i % (n + 1) == 0 ? 1.0 : 0.0;
    for (int k = 0; k < n; ++k) {
        int pivot = k;
        for (int r = k + 1; r < n; ++r)
            if (std::abs(M[r * n + k]) > std::abs(M[pivot * n + k])) pivot = r;
        if (pivot != k)
            for (int c = 0; c < n; ++c) {
                std::swap(M[k * n + c], M[pivot * n + c]);
                std::swap(inverse[k * n + c], inverse[pivot * n + c]);
            }
        const double over = 1 / M[k * n + k];
        for (int c = 0; c < n; ++c) {
            M[k * n + c] *= over;
            inverse[k * n + c] *= over;
        }
        for (int r = 0; r < n; ++r) {
            const double by = M[r * n + k];
            if (r == k || by == 0) continue;
            for (int c = 0; c < n; ++c) {
                M[r * n + c] -= by * M[k * n + c];
                inverse[r * n + c] -= by * inverse[k * n + c];
            }
        }
    }
}

// The same for n <= 8, a row in a vector.
void invert_small(const double* from, int n, double* inverse) {
    Eight M[width], I[width];
    for (int r = 0; r < n; ++r) {
        alignas(64) double row[width] = {}, unit[width] = {};
        for (int c = 0; c < n; ++c) row[c] = from[r * n + c];
        unit[r] = 1;
        M[r] = load(row);
        I[r] = load(unit);
    }
    alignas(64) double column[width];
    for (int k = 0; k < n; ++k) {
        int pivot = k;
        for (int r = 0; r < n; ++r) column[r] = reinterpret_cast<const double*>(&M[r])[k];
        for (int r = k + 1; r < n; ++r)
            if (std::abs(column[r]) > std::abs(column[pivot])) pivot = r;
        if (pivot != k) {
            std::swap(M[k], M[pivot]);
            std::swap(I[k], I[pivot]);
            std::swap(column[k], column[pivot]);
        }
        const double over = 1 / column[k];
        const Eight m = over * M[k], i = over * I[k];
        for (int r = 0; r < n; ++r) {
            M[r] -= column[r] * m;
            I[r] -= column[r] * i;
        }
        M[k] = m;
        I[k] = i;
    }
    for (int r = 0; r < n; ++r)
        for (int c = 0; c < n; ++c) inverse[r * n + c] = reinterpret_cast<const double*>(&I[r])[c];
}

// The same without rows that depend on others: pivots on the diagonal, and a zero row and column in the inverse for each dependent
// one. `floor`: pivots below it are rounding errors. False: the remainder of the dependent rows is not zero.
bool invert_independent(double* M, int n, double* inverse, double floor) {
    constexpr double negligible = 1e-9;
    double scale[8 * 8];
    bool done[8 * 8] = {};
    for (int k = 0; k < n; ++k) scale[k] = std::max(std::abs(M[k * (n + 1)]), floor / negligible);
    for (;;) {
        int k = -1;
        double best = negligible;
        for (int i = 0; i < n; ++i) {
            if (done[i] || !(std::abs(M[i * (n + 1)]) > best * scale[i])) continue;
            best = std::abs(M[i * (n + 1)]) / scale[i];
            k = i;
        }
        if (k < 0) break;
        done[k] = 1;
        const double over = 1 / M[k * (n + 1)];
        double* row = M + k * n;
        for (int c = 0; c < n; ++c) row[c] *= over;
        row[k] = over;
        for (int r = 0; r < n; ++r) {
            if (r == k) continue;
            const double by = M[r * n + k];
            M[r * n + k] = 0;
            for (int c = 0; c < n; ++c) M[r * n + c] -= by * row[c];
        }
    }
    for (int r = 0; r < n; ++r)
        for (int c = 0; c < n; ++c) {
            inverse[r * n + c] = done[r] && done[c] ? M[r * n + c] : 0.0;
            if (!done[r] && !done[c] && !(std::abs(M[r * n + c]) <= 10 * negligible * std::sqrt(scale[r] * scale[c]))) return false;
        }
    return true;
}

}  // namespace

// Positive pivots of a symmetric matrix (row major): as many as positive eigenvalues (Sylvester's law of inertia).
static int positive_pivots(std::vector<double> M, int n) {
    int count = 0;
    for (int k = 0; k < n; ++k) {
        const double pivot = M[k * n + k];
        count += pivot > 0;
        for (int r = k + 1; r < n; ++r) {
            const double by = M[r * n + k] / pivot;
            for (int c = k + 1; c < n; ++c) M[r * n + c] -= by * M[k * n + c];
        }
    }
    return count;
}

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
                system_->curves[c.curve].evaluate(c.value - c.rest, t, d, energy);
                force += t;
                slope += d;
            }
            const double speed = (step.c0 * c.value + step.c1 * c.past + step.c2 * c.before) / step.h;
            force += c.damping * speed;
            slope += c.damping * step.c0 / step.h;
            const double stiffest = slope;
            for (int actuator : c.actuators) {
                double by_length;
                force -= system_->actuators[actuator].excess(c.value, speed, step.c0 / step.h, by_length);
                slope -= by_length;
            }
            multiplier = force;
            // a saturated actuator cancels the slope of its spring
            diagonal_[c.row] = std::abs(slope) <= 1e-12 * stiffest ? -1e20 / soft_scale_ : -1 / slope;
        } else if (c.stop) {
            double slope, energy;
            system_->rows[c.system_row].stop_torque(c.value, multiplier, slope, energy);
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
void Articulated::start_fronts() {
    for (std::size_t f = 0; f < fronts_.size(); ++f) {
        Front& front = fronts_[f];
        if (f + 1 < fronts_.size() && fronts_[f + 1].A == front.A) continue;  // it uses the memory of its child
        const int k = front.open + front.own, wide = 1 + front.chunks;
        const Eight none = every(0.0);
        if (tangent) {
            std::fill_n(&numbers_[front.A], (6 + k) * wide, none);
            if (!symmetric_) std::fill_n(&numbers_[front.B], (6 + k) * wide, none);
        } else {
            std::fill_n(&numbers_[front.right], wide, none);
        }
        for (int own = front.open; own < k; ++own) {
            const int row = front.rows[own];
            if (tangent) {
                Eight* a = &numbers_[front.A + (6 + own) * wide];
                a[0][6] = residual_[row];
                lane(a, own) = diagonal_[row];
                if (!symmetric_) lane(&numbers_[front.B + (6 + own) * wide], own) = diagonal_[row];
            } else {
                lane(&numbers_[front.right], own) = residual_[row];
            }
        }
    }
}
template void Articulated::start_fronts<true>();
template void Articulated::start_fronts<false>();

void Articulated::add_to_front(Front& front, const Eight* A, const Eight* B) {
    const int wide = 1 + front.chunks;
    for (int r = 0; r < 6; ++r) {
        numbers_[front.A + r * wide] += A[r];
        if (!symmetric_) numbers_[front.B + r * wide] += B[r];
    }
}

// Rows of a loop at one of its ends: derivatives with respect to the node's twist.
void Articulated::add_loop_rows(Front& front, const LoopEnd& which) {
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
    Eight *a = &numbers_[front.A], *b = &numbers_[front.B];
    for (int r = 0; r < loop.rows; ++r) {
        a[(6 + which.place + r) * wide] += g[r];
        if (!symmetric_) b[(6 + which.place + r) * wide] += g[r];
    }
    transpose(g);
    for (int c = 0; c < 6; ++c) {  // padding may be written behind the row
        Lanes::add(&lane(a + c * wide, which.place), g[c]);
        if (!symmetric_) Lanes::add(&lane(b + c * wide, which.place), g[c]);
    }
}

namespace {

template <class Call>
void with_width(int wide, Call call) {  // call(constant) for the usual widths
    switch (wide) {
        case 1: return call(std::integral_constant<int, 1>{});
        case 2: return call(std::integral_constant<int, 2>{});
        case 3: return call(std::integral_constant<int, 3>{});
        case 4: return call(std::integral_constant<int, 4>{});
        case 5: return call(std::integral_constant<int, 5>{});
        case 6: return call(std::integral_constant<int, 6>{});
        case 7: return call(std::integral_constant<int, 7>{});
        default: return call(std::integral_constant<int, 8>{});
    }
}

// Subtracts from one row of A or B the rows X of the multipliers times the row's entries in their columns. Columns of
// eliminated multipliers become zero.
template <int wide>
SUPPLE_INLINE void take_own(Eight* row, const double* entries, const Eight* X, int t, const Eight* mask) {
    Eight x[wide];
    for (int c = 0; c < wide; ++c) x[c] = row[c];
    for (int k = 0; k < t; ++k, X += wide)
        for (int c = 0; c < wide; ++c) x[c] -= entries[k] * X[c];
    row[0] = x[0];
    for (int c = 1; c < wide; ++c) row[c] = x[c] * mask[c - 1];
}

}  // namespace

// Eliminates the multipliers of the ties whose common ancestor this node is: with E their own block, X = E^-1 (their rows), Y = (their columns) E^-1.
bool Articulated::eliminate_own(Front& front) {
    const int m = front.open, t = front.own, wide = 1 + front.chunks;
    Eight *A = &numbers_[front.A], *B = &numbers_[front.B], *X = &numbers_[front.X], *Y = &numbers_[front.Y];
    double* inverse = &inverses_[front.inverse];
    work_.resize(std::max<std::size_t>(work_.size(), static_cast<std::size_t>(t) * t));
    for (int a = 0; a < t; ++a)
        for (int b = 0; b < t; ++b) work_[a * t + b] = lane(A + (6 + m + a) * wide, m + b);
    if (count_inertia_ && negative_ > 0) negative_ -= positive_pivots(work_, t);
    if (exact_) {
        double floor = 1 / soft_scale_;
        for (int a = 0; a < t; ++a)
            if (diagonal_[front.rows[m + a]] == 0) floor = std::max(floor, std::abs(work_[a * (t + 1)]));
        if (!invert_independent(work_.data(), t, inverse, 1e-12 * floor)) return false;
    } else if (t <= width)
        invert_small(work_.data(), t, inverse);
    else
        invert(work_.data(), t, inverse);
    const double soft = regularised / soft_scale_;
    for (int a = 0; a < t; ++a) redundant_ = redundant_ || std::abs(inverse[a * (t + 1)]) * soft > 1e-4;
    with_width(wide, [&](auto constant) {
        constexpr int w = constant();
        for (int a = 0; a < t; ++a) {
            Eight x[w], y[w];
            for (int c = 0; c < w; ++c) x[c] = y[c] = every(0.0);
            for (int b = 0; b < t; ++b)
                for (int c = 0; c < w; ++c) {
                    x[c] += inverse[a * t + b] * A[(6 + m + b) * w + c];
                    if (!symmetric_) y[c] += inverse[b * t + a] * B[(6 + m + b) * w + c];
                }
            for (int c = 0; c < w; ++c) {
                X[a * w + c] = x[c];
                Y[a * w + c] = symmetric_ ? x[c] : y[c];
            }
        }
        const Eight* mask = &numbers_[front.mask];
        double row[width * most_chunks];
        for (int r = 0; r < 6 + m; ++r) {
            const int at = r < 6 ? r : r + 2;  // of column r in a row
            for (int k = 0; k < t; ++k) row[k] = reinterpret_cast<const double*>(A + (6 + m + k) * w)[at];
            take_own<w>(A + r * w, &lane(A + r * w, m), X, t, mask);
            if (!symmetric_) take_own<w>(B + r * w, row, Y, t, mask);
        }
    });
    return true;
}

namespace {

// A -= u l^T / d and B -= l u^T / d for the first 6 + m rows. `part` and `upart` hold l and u, and become l / d and u / d.
template <int wide, bool symmetric>
void eliminate_column(Eight* A, Eight* B, Eight* part, Eight* upart, int m, double inverse) {
    Eight l[wide], u[wide];
    for (int c = 0; c < wide; ++c) {
        l[c] = inverse * part[c];
        u[c] = inverse * upart[c];
    }
    const double *lv = reinterpret_cast<const double*>(part), *uv = reinterpret_cast<const double*>(upart);
    for (int r = 0; r < 6 + m; ++r) {
        const int at = r < 6 ? r : r + 2;
        const double ur = uv[at], lr = lv[at];
        for (int c = 0; c < wide; ++c) {
            A[r * wide + c] -= ur * l[c];
            if (!symmetric) B[r * wide + c] -= lr * u[c];
        }
    }
    for (int c = 0; c < wide; ++c) {
        part[c] = l[c];
        upart[c] = u[c];
    }
}

// part = A^T s, upart = B^T s over the first six rows, `half` added to both
template <int wide, bool symmetric>
void combine_rows(const Eight* A, const Eight* B, const double* s, const Eight& half, Eight* part, Eight* upart) {
    for (int c = 0; c < wide; ++c) {
        Eight l = c ? every(0.0) : half, u = l;
        for (int k = 0; k < 6; ++k) {
            l += s[k] * A[k * wide + c];
            if (!symmetric) u += s[k] * B[k * wide + c];
        }
        part[c] = l;
        upart[c] = symmetric ? l : u;
    }
}

}  // namespace

// A node with ties, or a ball joint: as in `inward`, for a front of 6 + m rows.
template <bool second, bool tangent>
bool Articulated::eliminate_general(const Step& step, int i, Lanes& lanes, const Eight& carried, double torque, double slope,
                                    Eight* A, Eight* B, Eight& right) {
    const int l = i % width;
    const unsigned char flags = flags_[i];
    const Eight none = every(0.0);
    Front* front = flags & fronted ? &fronts_[front_of_[i]] : nullptr;
    const int wide = front ? 1 + front->chunks : 1, m = front ? front->open : 0;
    Eight *FA = front ? &numbers_[front->A] : A, *FB = front ? &numbers_[front->B] : B;
    Eight* R = front ? &numbers_[front->right] : &right;
    const int size = nodes_[i].size;
    bool regular = true;

    if (!front) {
        if (!(flags & chained)) {
            for (int r = 0; tangent && r < 6; ++r) A[r] = B[r] = none;
            right = none;
        }
        if (flags & joins) {
            if (tangent)
                for (int r = 0; r < 6; ++r) {
                    A[r] += summed_[i].A[r];
                    B[r] += summed_[i].B[r];
                }
            else
                right += summed_[i].A[0];
        }
    }
    if (tangent) {
        lanes.add_element(l, FA, FB, wide, symmetric_);
        if (front) {
            for (const LoopEnd& end : ends_[i]) add_loop_rows(*front, end);
            if (front->own) regular = eliminate_own(*front);
        }
    } else {
        R[0] -= load(lanes.wrench[l]);
        if (front && front->own) {
            const int t = front->own;
            double* inverse = &inverses_[front->inverse];
            Eight *X = &numbers_[front->X], *Y = &numbers_[front->Y];
            work_.resize(t);
            for (int a = 0; a < t; ++a) work_[a] = lane(R, m + a);
            for (int a = 0; a < t; ++a) {
                double y = 0;
                for (int b = 0; b < t; ++b) y += inverse[a * t + b] * work_[b];
                X[a * wide][6] = y;
                for (int c = 0; c < wide; ++c) R[c] -= work_[a] * Y[a * wide + c];
            }
            for (int c = 1; c < wide; ++c) R[c] *= numbers_[front->mask + c - 1];
        }
    }

    if (flags & flexes) regular = eliminate_amplitudes<tangent>(flexible_[flexible_of_[i]], FA, FB, R) && regular;
    if (flags & attached) add_interface<tangent>(i, carried, front, FA, FB, R);

    // coordinates
    if (size == 1) {
        Eliminated& out = eliminated_[i];
        const Eight screw = load(lanes.screw[l]);
        if (tangent) out.screw = screw;
        Eight *part = &numbers_[front->part], *upart = &numbers_[front->upart];
        if (tangent) {
            const double* sv = lanes.screw[l];
            const Eight half = load(lanes.half[l]);
            with_width(wide, [&](auto w) {
                symmetric_ ? combine_rows<w(), true>(FA, FB, sv, half, part, upart) : combine_rows<w(), false>(FA, FB, sv, half, part, upart);
            });
            for (const auto& [place, coefficient] : front->coupled) {
                lane(part, place) += coefficient;
                lane(upart, place) += coefficient;
            }
            const double d = sum(screw * upart[0]) + slope + unresisted_stiffness * soft_scale_ * unresisted_[i];
            const bool locked = lock_of_[i] >= 0 && locks_[lock_of_[i]].active;
            if (!(d > 0)) {
                regular = false;
                negative_ += !locked;
            }
            if (locked) {
                const double by = correction_[i];
                for (int r = 0; r < 6; ++r) FA[r * wide][6] += upart[0][r] * by;
                for (int r = 0; r < m; ++r) FA[(6 + r) * wide][6] += lane(upart, r) * by;
                if (!exact_) std::fill_n(upart, wide, none);
                out.inverse = 0;
                out.diagonal = d;
            } else {
                out.inverse = 1 / d;
                with_width(wide, [&](auto w) {
                    symmetric_ ? eliminate_column<w(), true>(FA, FB, part, upart, m, out.inverse)
                               : eliminate_column<w(), false>(FA, FB, part, upart, m, out.inverse);
                });
            }
        } else {
            const double rho = torque + sum(screw * R[0]);
            part[0][6] = out.inverse == 0 ? rho : rho * out.inverse;
            for (int c = 0; c < wide; ++c) R[c] -= rho * upart[c];
        }
    } else if (size == 3) {
        BallNode& node = balls_[ball_of_[i]];
        Vec3 tau;
        Mat3 stiff;
        ball_torque<second>(node, step, tau, stiff);
        regular = (front ? eliminate_tied_ball<tangent>(node, tau, stiff, carried, *front)
                         : eliminate_ball<tangent>(node, tau, stiff, carried, A, B, right)) && regular;
    }

    // add to the parent
    if (flags & rooted) return regular;
    const int parent = nodes_[i].parent;
    if (flags_[parent] & fronted) {
        Front& next = fronts_[front_of_[parent]];
        const int next_wide = 1 + next.chunks;
        if (front && next.A == front->A) return regular;  // the parent uses the same memory
        if (!tangent) {
            numbers_[next.right] += R[0];
            for (int k = 0; k < m; ++k) lane(&numbers_[next.right], front->place[k]) += lane(R, k);
            return regular;
        }
        for (int r = 0; r < 6 + m; ++r) {
            const int to = r < 6 ? r : 6 + front->place[r - 6];
            Eight *a = &numbers_[next.A + to * next_wide], *b = &numbers_[next.B + to * next_wide];
            a[0] += FA[r * wide];
            if (!symmetric_) b[0] += FB[r * wide];
            if (front && front->shift >= 0) {
                double *to_a = &lane(a, front->shift), *to_b = &lane(b, front->shift);
                for (int c = 1; c <= (m + width - 1) / width; ++c, to_a += width, to_b += width) {
                    store(to_a, load(to_a) + FA[r * wide + c]);
                    if (!symmetric_) store(to_b, load(to_b) + FB[r * wide + c]);
                }
            } else {
                for (int k = 0; k < m; ++k) {
                    lane(a, front->place[k]) += lane(FA + r * wide, k);
                    if (!symmetric_) lane(b, front->place[k]) += lane(FB + r * wide, k);
                }
            }
        }
    } else if (tangent) {
        if (flags & branches) {
            for (int r = 0; r < 6; ++r) {
                summed_[parent].A[r] += FA[r * wide];
                summed_[parent].B[r] += FB[r * wide];
            }
        } else if (front) {
            for (int r = 0; r < 6; ++r) {
                A[r] = FA[r * wide];
                B[r] = FB[r * wide];
            }
        }
    } else if (flags & branches) {
        summed_[parent].A[0] += R[0];
    } else {
        right = R[0];
    }
    return regular;
}
template bool Articulated::eliminate_general<false, true>(const Step&, int, Lanes&, const Eight&, double, double, Eight*, Eight*, Eight&);
template bool Articulated::eliminate_general<false, false>(const Step&, int, Lanes&, const Eight&, double, double, Eight*, Eight*, Eight&);
template bool Articulated::eliminate_general<true, true>(const Step&, int, Lanes&, const Eight&, double, double, Eight*, Eight*, Eight&);
template bool Articulated::eliminate_general<true, false>(const Step&, int, Lanes&, const Eight&, double, double, Eight*, Eight*, Eight&);

void Articulated::outward_general(int i, Eight& eta, std::vector<double>& tie_step, double* correction) {
    Front* front = flags_[i] & fronted ? &fronts_[front_of_[i]] : nullptr;
    const int wide = front ? 1 + front->chunks : 1;
    alignas(64) double open[8 * most_chunks] = {};
    if (front)
        for (int k = 0; k < front->open; ++k) open[k] = tie_step[front->rows[k]];
    auto response = [&](const Eight& first, const Eight* chunks) {
        Eight y = first * eta;
        for (int c = 0; c < wide - 1; ++c) y += chunks[c] * load(open + 8 * c);
        return sum(y);
    };
    if (nodes_[i].size == 1) {
        const Eliminated& out = eliminated_[i];
        const Eight* part = &numbers_[front->part];
        const double turn = response(part[0], part + 1);
        if (!correction) {
            if (out.inverse != 0) eta -= turn * out.screw;
        } else {
            if (out.inverse == 0)
                rho_[i] = turn;
            else
                *correction = -turn;
            eta += *correction * out.screw;
        }
    } else if (nodes_[i].size == 3) {
        BallNode& node = balls_[ball_of_[i]];
        for (int k = 0; k < 3; ++k)
            node.step[k] = -response(node.part[k], front ? &numbers_[node.parts + k * (wide - 1)] : nullptr);
        for (int k = 0; k < 3; ++k) eta += node.step[k] * node.screw[k];
    } else if (flags_[i] & flexes) {
        FlexibleNode& each = flexible_[flexible_of_[i]];
        for (int p = 0; p < each.modes; ++p) each.step[p] = -response(each.part[p * wide], &each.part[p * wide] + 1);
    } else if (flags_[i] & attached) {
        add_interface_twist(i, eta);
    }
    if (front)
        for (int a = 0; a < front->own; ++a) {
            const Eight* x = &numbers_[front->X + a * wide];
            tie_step[front->rows[front->open + a]] = -response(x[0], x + 1);
        }
}

}  // namespace supple
