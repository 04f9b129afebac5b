// Elimination of nodes with ties, of ball joints and of flexible bodies.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/articulated.hpp"
#include "engine/articulated_lanes.hpp"
#include "engine/tie_inverses.hpp"

namespace supple {

namespace {

constexpr double unresisted_stiffness = 1e-6;  // given to a massless coordinate without any, over the mechanism's

template <class Call>
void with_width(int wide, Call call) {  // call(constant) for the widths of fronts, see `padded_chunks`
    switch (wide) {
        case 1: return call(std::integral_constant<int, 1>{});
        case 2: return call(std::integral_constant<int, 2>{});
        case 3: return call(std::integral_constant<int, 3>{});
        case 4: return call(std::integral_constant<int, 4>{});
        case 5: return call(std::integral_constant<int, 5>{});
        case 6: return call(std::integral_constant<int, 6>{});
        case 7: return call(std::integral_constant<int, 7>{});
        case 8: return call(std::integral_constant<int, 8>{});
        case 12: return call(std::integral_constant<int, 12>{});
        case 16: return call(std::integral_constant<int, 16>{});
        case 24: return call(std::integral_constant<int, 24>{});
        default: return call(std::integral_constant<int, 40>{});
    }
}

// row -= entries[0] X[0] + entries[1] X[1] + ...; X has t rows, `apart` vectors apart
template <int wide>
SUPPLE_INLINE void subtract_rows(Eight* row, const double* entries, const Eight* X, int apart, int t) {
    Eight x[wide];
    for (int c = 0; c < wide; ++c) x[c] = row[c];
    for (int k = 0; k < t; ++k, X += apart)
        for (int c = 0; c < wide; ++c) x[c] -= entries[k] * X[c];
    for (int c = 0; c < wide; ++c) row[c] = x[c];
}

}  // namespace

int Articulated::padded_chunks(int chunks) {
    for (int most : {7, 11, 15, 23})
        if (chunks <= most) return chunks <= 7 ? chunks : most;
    return std::max(chunks, most_chunks);
}

double Articulated::tie_operations() const {
    double sum = 0;
    for (const Front& front : fronts_) {
        const double wide = 1 + front.chunks, top = 12 * wide, rows = front.open * front.chunks, t = front.own;
        sum += width * (nodes_[front.node].size * (2 * top + rows) + t * (2 * t * wide + top + rows));
    }
    return sum;
}

// Eliminates the multipliers of the ties whose common ancestor this node is. With D the block of E of these multipliers, X = D^-1 (their rows) and
// Y = D^-T (their columns, transposed): A -= (their columns) X, B -= (their rows, transposed) Y.
bool Articulated::eliminate_own(Front& front) {
    const int m = front.open, t = front.own, chunks = front.chunks, wide = 1 + chunks;
    Eight *A = &numbers_[front.A], *B = symmetric_ ? A : &numbers_[front.B], *E = &numbers_[front.E], *right = &numbers_[front.right];
    Eight *X = &numbers_[front.X], *Y = &numbers_[front.Y];
    double* inverse = &inverses_[front.inverse];
    work_.resize(std::max<std::size_t>(work_.size(), static_cast<std::size_t>(t) * t));
    for (int a = 0; a < t; ++a)
        for (int b = 0; b < t; ++b) work_[a * t + b] = numbers(E + (m + a) * chunks)[m + b];
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

    // their rows, with the right-hand side in lane 6, and their columns
    own_rows_.assign(2 * t * wide, every(0.0));
    Eight *rows = own_rows_.data(), *columns = rows + t * wide;
    for (int b = 0; b < t; ++b) {
        double *row = numbers(rows + b * wide), *column = numbers(columns + b * wide);
        for (int r = 0; r < 6; ++r) {
            row[r] = lane(B + r * wide, m + b);
            column[r] = lane(A + r * wide, m + b);
        }
        row[6] = lane(right, m + b);
        if (symmetric_) row[7] = numbers(right + wide)[m + b];
        std::copy_n(E + (m + b) * chunks, chunks, rows + b * wide + 1);
        for (int r = 0; r < m && !symmetric_; ++r) column[width + r] = numbers(E + r * chunks)[m + b];
    }
    with_width(wide, [&](auto constant) {
        constexpr int w = constant();
        for (int a = 0; a < t; ++a) {
            Eight x[w], y[w];
            for (int c = 0; c < w; ++c) x[c] = y[c] = every(0.0);
            for (int b = 0; b < t; ++b)
                for (int c = 0; c < w; ++c) {
                    x[c] += inverse[a * t + b] * rows[b * w + c];
                    if (!symmetric_) y[c] += inverse[b * t + a] * columns[b * w + c];
                }
            for (int c = 0; c < w; ++c) {
                X[a * w + c] = x[c];
                Y[a * w + c] = symmetric_ ? x[c] : y[c];
            }
        }
        const Eight* mask = &numbers_[front.mask];
        auto leave_open = [&](Eight* row) {  // columns of eliminated multipliers become zero
            for (int c = 0; c < w - 1; ++c) row[c] *= mask[c];
        };
        for (int r = 0; r < 6; ++r) {
            subtract_rows<w>(A + r * w, &lane(A + r * w, m), X, w, t);
            leave_open(A + r * w + 1);
            if (symmetric_) continue;
            subtract_rows<w>(B + r * w, &lane(B + r * w, m), Y, w, t);
            leave_open(B + r * w + 1);
        }
        if constexpr (w > 1) {
            for (int r = 0; r < m; ++r) {
                Eight* row = E + r * (w - 1);
                subtract_rows<w - 1>(row, numbers(row) + m, X + 1, w, t);
                leave_open(row);
            }
            for (Eight* each : {right + 1, right + w}) {
                subtract_rows<w - 1>(each, numbers(each) + m, Y + 1, w, t);
                leave_open(each);
                if (!symmetric_) break;
            }
        }
    });
    return true;
}

namespace {

// A -= u l^T / d and B -= l u^T / d, E -= u l^T / d and right -= rho u / d in the columns of the m open multipliers. `part` and `upart` hold l, with
// rho in lane 6 (and in lane 7 for the second right-hand side), and u, and become l / d and u / d.
template <int wide, bool symmetric>
void eliminate_column(Eight* A, Eight* B, Eight* E, Eight* right, Eight* part, Eight* upart, int m, double inverse) {
    Eight l[wide], u[wide];
    for (int c = 0; c < wide; ++c) {
        l[c] = inverse * part[c];
        u[c] = inverse * upart[c];
    }
    const double *lv = numbers(part), *uv = numbers(upart);
    for (int r = 0; r < 6; ++r)
        for (int c = 0; c < wide; ++c) {
            A[r * wide + c] -= uv[r] * l[c];
            if (!symmetric) B[r * wide + c] -= lv[r] * u[c];
        }
    for (int r = 0; r < m; ++r)
        for (int c = 1; c < wide; ++c) E[r * (wide - 1) + c - 1] -= uv[width + r] * l[c];
    for (int c = 1; c < wide; ++c) {
        right[c] -= lv[6] * u[c];
        if (symmetric) right[wide - 1 + c] -= lv[7] * u[c];
    }
    for (int c = 0; c < wide; ++c) {
        part[c] = l[c];
        upart[c] = u[c];
    }
}

// part = A^T s, upart = B^T s over the six rows, `half` added to both
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

// A node with ties, or a ball joint: as in `inward`, for a front with the columns of m multipliers.
template <bool second, bool tangent>
bool Articulated::eliminate_general(const Step& step, int i, Lanes& lanes, const Eight& carried, double torque, double slope,
                                    Eight* A, Eight* B, Eight& right) {
    const int l = i % width;
    const unsigned char flags = flags_[i];
    const Eight none = every(0.0);
    Front* front = flags & fronted ? &fronts_[front_of_[i]] : nullptr;
    const int wide = front ? 1 + front->chunks : 1, m = front ? front->open : 0;
    Eight *FA = front ? &numbers_[front->A] : A, *FB = front ? &numbers_[front->B] : B;
    Eight *E = front ? &numbers_[front->E] : nullptr, *R = front ? &numbers_[front->right] : &right;
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
            for (const LoopEnd& end : ends_[i]) add_loop_columns(*front, end);
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

    if (flags & flexes) regular = eliminate_amplitudes<tangent>(flexible_[flexible_of_[i]], FA, FB, E, R) && regular;
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
                for (int c = 1; c < wide; ++c) R[c] += by * upart[c];
                if (!exact_) std::fill_n(upart, wide, none);
                out.inverse = 0;
                out.diagonal = d;
            } else {
                out.inverse = 1 / d;
                with_width(wide, [&](auto w) {
                    symmetric_ ? eliminate_column<w(), true>(FA, FB, E, R, part, upart, m, out.inverse)
                               : eliminate_column<w(), false>(FA, FB, E, R, part, upart, m, out.inverse);
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
        regular = (front ? eliminate_tied_ball<tangent>(step, node, tau, stiff, carried, *front)
                         : eliminate_ball<tangent>(step, node, tau, stiff, carried, A, B, right)) && regular;
        if (node.shift_axis >= 0) return regular;  // its parent is at rest
    }

    // add to the parent
    if (flags & rooted) return regular;
    const int parent = nodes_[i].parent;
    if (flags_[parent] & fronted) {
        Front& next = fronts_[front_of_[parent]];
        const int next_wide = 1 + next.chunks;
        if (front && next.A == front->A) return regular;  // the parent uses the same memory
        for (int k = 0; k < m; ++k) {
            lane(&numbers_[next.right], front->place[k]) += lane(R, k);
            if (symmetric_) numbers(&numbers_[next.right + next_wide])[front->place[k]] += numbers(R + wide)[k];
        }
        if (!tangent) {
            numbers_[next.right] += R[0];
            return regular;
        }
        auto add_open = [&](double* to, const Eight* from) {  // the columns of the open multipliers; padding may be written behind the row
            if (front && front->shift >= 0)
                for (int c = 0; c < (m + width - 1) / width; ++c) Lanes::add(to + front->shift + width * c, from[c]);
            else
                for (int k = 0; k < m; ++k) to[front->place[k]] += numbers(from[k / width])[k % width];
        };
        for (int r = 0; r < 6; ++r) {
            Eight *a = &numbers_[next.A + r * next_wide], *b = &numbers_[next.B + r * next_wide];
            a[0] += FA[r * wide];
            add_open(&lane(a, 0), FA + r * wide + 1);
            if (symmetric_) continue;
            b[0] += FB[r * wide];
            add_open(&lane(b, 0), FB + r * wide + 1);
        }
        for (int k = 0; k < m; ++k)
            add_open(numbers(&numbers_[next.E + front->place[k] * next.chunks]), E + k * (wide - 1));
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
    alignas(64) double open[width * most_chunks];
    std::fill_n(open, width * (wide - 1), 0.0);
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
        for (int k = 0; node.shift_axis >= 0 && k < 3; ++k) eta[k] += node.shift[k];
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
