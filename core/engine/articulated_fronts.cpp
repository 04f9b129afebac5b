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

int Articulated::padded_chunks(int chunks) {
    for (int most : {7, 11, 15, 23})
        if (chunks <= most) return chunks <= 7 ? chunks : most;
    return std::max(chunks, most_chunks);
}

double Articulated::tie_operations() const {
    double sum = 0;
    for (const Front& front : fronts_) {
        const double rows = 6 + front.open, t = front.own;
        sum += 2.0 * width * (1 + front.chunks) * (nodes_[front.node].size * (6 + rows) + t * (t + rows));
    }
    return sum;
}

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
