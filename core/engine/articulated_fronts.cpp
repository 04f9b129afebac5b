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
        sum += width *
               (nodes_[front.node].size * (2 * top + rows) + t * (2 * t * (wide + front.own_chunks) + top + rows));
    }
    return sum;
}

// Eliminates the multipliers of the ties whose common ancestor this node is. With D the block of E of these
// multipliers, X = D^-1 (their rows) and Y = D^-T (their columns, transposed): A -= (their columns) X, B -= (their
// rows, transposed) Y.
bool Articulated::eliminate_own(Front& front) {
    const int m = front.open, t = front.own, chunks = front.chunks, own_chunks = front.own_chunks, wide = 1 + chunks,
              next = width * own_chunks;
    Eight *A = &numbers_[front.A], *B = &numbers_[front.B], *E = &numbers_[front.E], *right = &numbers_[front.right];
    Eight *own_A = &numbers_[front.own_A], *own_B = &numbers_[front.own_B], *own_columns = &numbers_[front.own_columns];
    Eight *own_rows = &numbers_[front.own_rows], *own_right = &numbers_[front.own_right];
    Eight *X = &numbers_[front.X], *Y = &numbers_[front.Y];
    double *D = numbers(&numbers_[front.D]), *inverse = numbers(&numbers_[front.inverse]);  // by columns
    if (negative_ > 0) negative_ -= positive_pivots(D, t, next);
    if (exact_) {
        double floor = 1 / soft_scale_;
        for (int a = 0; a < t; ++a)
            if (diagonal_[front.rows[m + a]] == 0) floor = std::max(floor, std::abs(D[a * (next + 1)]));
        if (!invert_independent(D, t, next, inverse, 1e-12 * floor)) return false;
    } else if (t == 1) {
        inverse[0] = 1 / D[0];
    } else if (t <= width) {
        invert_small(&numbers_[front.D], t, &numbers_[front.inverse], work_);
    } else {
        invert(D, t, next, inverse, work_);
    }
    const double soft = regularised / soft_scale_;
    for (int a = 0; a < t; ++a) redundant_ = redundant_ || std::abs(inverse[a * (next + 1)]) * soft > 1e-4;

    // their rows, with the right-hand side in lane 6, and their columns; a vector of multipliers at a time
    scratch_.resize(std::max<std::size_t>(scratch_.size(), 2 * next * wide));
    Eight *rows = scratch_.data(), *columns = rows + next * wide;
    if (t == 1) {  // one coupling: its numbers are the first lanes
        auto first = [](const Eight& of) { return *numbers(of); };
        rows[0] = Eight{first(own_B[0]), first(own_B[1]), first(own_B[2]),     first(own_B[3]),
                        first(own_B[4]), first(own_B[5]), first(own_right[0]), 0};
        columns[0] = Eight{
            first(own_A[0]), first(own_A[1]), first(own_A[2]), first(own_A[3]), first(own_A[4]), first(own_A[5]), 0, 0};
        for (int c = 0; c < chunks; ++c) {
            rows[1 + c] = own_rows[c];
            alignas(64) double column[width] = {};
            for (int k = 0; k < m; ++k)
                if (front.lanes[k] / width == c) column[front.lanes[k] % width] = first(own_columns[k]);
            columns[1 + c] = load(column);
        }
    }
    for (int q = 0; t > 1 && q < own_chunks; ++q) {
        Eight row[width], column[width];
        for (int r = 0; r < 6; ++r) {
            row[r] = own_B[r * own_chunks + q];
            column[r] = own_A[r * own_chunks + q];
        }
        row[6] = own_right[q];
        row[7] = column[6] = column[7] = every(0.0);
        transpose(row);
        transpose(column);
        for (int b = 0; b < width; ++b) {
            rows[(width * q + b) * wide] = row[b];
            columns[(width * q + b) * wide] = column[b];
        }
        for (int c = 0, k = 0; c < chunks; ++c) {
            for (int b = 0; b < std::min(width, t - width * q); ++b)
                rows[(width * q + b) * wide + 1 + c] = own_rows[(width * q + b) * chunks + c];
            for (int r = 0; r < width; ++r) column[r] = every(0.0);
            for (; k < m && front.lanes[k] < width * (c + 1); ++k)
                column[front.lanes[k] - width * c] = own_columns[k * own_chunks + q];
            transpose(column);
            for (int b = 0; b < width; ++b) columns[(width * q + b) * wide + 1 + c] = column[b];
        }
    }
    with_width(wide, [&](auto constant) {
        constexpr int w = constant();
        for (int a = 0; a < t; ++a) {
            Eight x[w], y[w];
            for (int c = 0; c < w; ++c) x[c] = y[c] = every(0.0);
            for (int b = 0; b < t; ++b)
                for (int c = 0; c < w; ++c) {
                    x[c] += inverse[b * next + a] * rows[b * w + c];
                    y[c] += inverse[a * next + b] * columns[b * w + c];
                }
            for (int c = 0; c < w; ++c) {
                X[a * w + c] = x[c];
                Y[a * w + c] = y[c];
            }
        }
        for (int r = 0; r < 6; ++r) {
            subtract_rows<w>(A + r * w, numbers(own_A + r * own_chunks), X, w, t);
            subtract_rows<w>(B + r * w, numbers(own_B + r * own_chunks), Y, w, t);
        }
        if constexpr (w > 1) {
            for (int r = 0; r < m; ++r)
                subtract_rows<w - 1>(E + r * (w - 1), numbers(own_columns + r * own_chunks), X + 1, w, t);
            subtract_rows<w - 1>(right + 1, numbers(own_right), Y + 1, w, t);
        }
    });
    return true;
}

namespace {

struct Rows {  // of a front, as in Front
    Eight *A, *B, *E, *right, *part, *upart;
    // Coefficients of the couplings of the node's coordinate, in the columns of the open multipliers
    const Eight* coupled;
};

// Adds the element of a node (the number among the eight of `nodes`) to its front, and eliminates its coordinate with
// the screw s:
//     l = A^T s + half, u = B^T s + half, d = s.u + slope,  A -= u l^T / d, B -= l u^T / d,
// and in the columns of the open multipliers E -= u l^T / d, right -= rho u / d. `part` and `upart` become l / d and u
// / d, with rho / d in lane 6. Returns d. With `locked` nothing is eliminated, and they become l and u.
template <int wide>
double eliminate_coordinate(const Rows& of, const Lanes& nodes, int node, double slope, bool locked,
                            const std::vector<int>& lanes) {
    const double* s = nodes.screw[node];
    const Eight half = load(nodes.half[node]);
    Eight A[6], B[6], l[wide], u[wide];
    for (int r = 0; r < 6; ++r) {
        A[r] = of.A[r * wide];
        B[r] = of.B[r * wide];
    }
    nodes.add_element(node, A, B);
    auto product = [&](const Eight* M, int next, const Eight& more) {
        const Eight low = (s[0] * M[0] + s[1] * M[next]) + s[2] * M[2 * next],
                    high = (s[3] * M[3 * next] + s[4] * M[4 * next]) + s[5] * M[5 * next];
        return (low + high) + more;
    };
    for (int c = 0; c < wide; ++c) {
        l[c] = c ? product(of.A + c, wide, of.coupled[c - 1]) : product(A, 1, half);
        u[c] = c ? product(of.B + c, wide, of.coupled[c - 1]) : product(B, 1, half);
    }
    const double d = sum(load(s) * u[0]) + slope, inverse = locked ? 1 : 1 / d;
    alignas(64) double uv[width * wide], lv[width];
    for (int c = 0; c < wide; ++c) store(uv + width * c, u[c]);
    store(lv, l[0]);
    for (int c = 0; c < wide; ++c) {
        of.part[c] = l[c] = inverse * l[c];
        of.upart[c] = u[c] = inverse * u[c];
    }
    for (int r = 0; r < 6; ++r) {
        of.A[r * wide] = locked ? A[r] : A[r] - uv[r] * l[0];
        of.B[r * wide] = locked ? B[r] : B[r] - lv[r] * u[0];
    }
    if (locked) return d;
    for (int r = 0; r < 6; ++r)
        for (int c = 1; c < wide; ++c) {
            of.A[r * wide + c] -= uv[r] * l[c];
            of.B[r * wide + c] -= lv[r] * u[c];
        }
    Eight* E = of.E;
    for (int lane : lanes)
        for (int c = 1; c < wide; ++c) *E++ -= uv[width + lane] * l[c];
    for (int c = 1; c < wide; ++c) of.right[c] -= lv[6] * u[c];
    return d;
}

}  // namespace

// A node with ties, or a ball joint: as in `inward`, for a front with the columns of m multipliers.
template <bool second, bool tangent>
bool Articulated::eliminate_general(const Step& step, int i, Lanes& lanes, const Eight& carried, double torque,
                                    double slope, Eight* A, Eight* B, Eight& right) {
    const int l = i % width;
    const unsigned char flags = flags_[i];
    const Eight none = every(0.0);
    Front* front = flags & fronted ? &started<tangent>(front_of_[i]) : nullptr;
    if (front) front->started = false;  // its memory is free after this function
    const int wide = front ? 1 + front->chunks : 1;
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
            else right += summed_[i].A[0];
        }
    }
    if (tangent) {
        if (size != 1) lanes.add_element(l, FA, FB, wide);
        if (front) {
            for (const LoopEnd& end : ends_[i]) add_loop_columns(*front, end);
            if (front->own) regular = eliminate_own(*front);
        }
    } else {
        R[0] -= load(lanes.wrench[l]);
        if (front && front->own) {
            const int t = front->own, own_chunks = front->own_chunks;
            const Eight *inverse = &numbers_[front->inverse], *Y = &numbers_[front->Y];
            const double* rho = numbers(&numbers_[front->own_right]);
            for (int q = 0; q < own_chunks; ++q) {
                Eight y = every(0.0);
                for (int b = 0; b < t; ++b) y += rho[b] * inverse[b * own_chunks + q];
                alignas(64) double of[width];
                store(of, y);
                Eight* X = &numbers_[front->X + width * q * wide];
                for (int a = 0; a < std::min(width, t - width * q); ++a) X[a * wide][6] = of[a];
            }
            for (int a = 0; a < t; ++a)
                for (int c = 0; c < wide; ++c) R[c] -= rho[a] * Y[a * wide + c];
        }
    }

    if (flags & flexes)
        regular = eliminate_amplitudes<tangent>(flexible_[flexible_of_[i]], front, FA, FB, R) && regular;
    if (flags & attached) add_interface<tangent>(i, carried, front, FA, FB, R);

    // coordinates
    if (size == 1) {
        Eliminated& out = eliminated_[i];
        const Eight screw = load(lanes.screw[l]);
        if (tangent) out.screw = screw;
        Eight *part = &numbers_[front->part], *upart = &numbers_[front->upart];
        if (tangent) {
            const bool locked = lock_of_[i] >= 0 && locks_[lock_of_[i]].active;
            const double stiffness = slope + unresisted_stiffness * soft_scale_ * unresisted_[i];
            const Rows rows = {FA, FB, E, R, part, upart, &numbers_[front->coupled]};
            double d = 0;
            with_width(wide,
                       [&](auto w) { d = eliminate_coordinate<w()>(rows, lanes, l, stiffness, locked, front->lanes); });
            if (!locked) {
                regular = regular && d != 0;
                negative_ += !(d > 0);
            }
            out.inverse = locked ? 0 : 1 / d;
            if (locked) {
                const double by = correction_[i];
                for (int r = 0; r < 6; ++r) FA[r * wide][6] += upart[0][r] * by;
                for (int c = 1; c < wide; ++c) R[c] += by * upart[c];
                if (!exact_) std::fill_n(upart, wide, none);
                out.diagonal = d;
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
                         : eliminate_ball<tangent>(step, node, tau, stiff, carried, A, B, right)) &&
                  regular;
        if (node.shift_axis >= 0) return regular;  // its parent is at rest
    }

    // add to the parent
    if (flags & rooted) return regular;
    const int parent = nodes_[i].parent;
    if (flags_[parent] & fronted) {
        if (fronts_[front_of_[parent]].continued) {
            fronts_[front_of_[parent]].started = true;
            return regular;
        }
        Front& next = started<tangent>(front_of_[parent]);
        numbers_[next.right] += R[0];
        for (int r = 0; tangent && r < 6; ++r) {
            numbers_[next.A + r * (1 + next.chunks)] += FA[r * wide];
            numbers_[next.B + r * (1 + next.chunks)] += FB[r * wide];
        }
        if (front) add_to_parent<tangent>(*front, next);
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
template bool Articulated::eliminate_general<false, true>(const Step&, int, Lanes&, const Eight&, double, double,
                                                          Eight*, Eight*, Eight&);
template bool Articulated::eliminate_general<false, false>(const Step&, int, Lanes&, const Eight&, double, double,
                                                           Eight*, Eight*, Eight&);
template bool Articulated::eliminate_general<true, true>(const Step&, int, Lanes&, const Eight&, double, double, Eight*,
                                                         Eight*, Eight&);
template bool Articulated::eliminate_general<true, false>(const Step&, int, Lanes&, const Eight&, double, double,
                                                          Eight*, Eight*, Eight&);

// The columns and rows of the open multipliers; those of the twist are added by the caller.
template <bool tangent>
void Articulated::add_to_parent(const Front& front, Front& next) {
    const int chunks = front.chunks, wide = 1 + chunks, next_wide = 1 + next.chunks;
    Eight* all = numbers_.data();
    // `add(to, from)` adds columns of one row: to the parent's open or own columns, by whole vectors or by single
    // numbers
    auto add_rows = [&](bool own, auto add) {
        add(all + (own ? next.own_right : next.right + 1), all + front.right + 1);
        if (!tangent) return;
        const int row = own ? next.own_chunks : next_wide, next_row = own ? next.own_chunks : next.chunks;
        Eight *A = all + (own ? next.own_A : next.A + 1), *B = all + (own ? next.own_B : next.B + 1);
        for (int r = 0; r < 6; ++r) add(A + r * row, all + front.A + r * wide + 1);
        for (int r = 0; r < 6; ++r) add(B + r * row, all + front.B + r * wide + 1);
        Eight *open_rows = all + (own ? next.own_columns : next.E), *own_rows = all + (own ? next.D : next.own_rows);
        for (int k = 0; k < front.open; ++k)
            add((front.place[k].own ? own_rows : open_rows) + front.place[k].at * next_row, all + front.E + k * chunks);
    };
    for (const Front::Run& run : front.runs) {  // zeros may be added beside the row
        const int chunk = run.chunk, at = run.to.at;
        if (run.all)
            add_rows(run.to.own, [&](Eight* to, const Eight* from) { Lanes::add(numbers(to) + at, from[chunk]); });
        else
            add_rows(run.to.own, [&, mask = run.mask](Eight* to, const Eight* from) {
                Lanes::add(numbers(to) + at, mask * from[chunk]);
            });
    }
    for (const auto& [column, to] : front.singles)
        add_rows(to.own, [&, column = column, at = to.at](Eight* to, const Eight* from) {
            numbers(to)[at] += numbers(*from)[column];
        });
}
template void Articulated::add_to_parent<true>(const Front&, Front&);
template void Articulated::add_to_parent<false>(const Front&, Front&);

// Corrections of the open multipliers, which the ancestors have computed.
void Articulated::gather_open(const Front& front, Eight* open) const {
    const double* steps = numbers(numbers_[0]);
    std::fill_n(open, front.chunks, every(0.0));
    for (const Front::Source& each : front.sources) {
        Eight& to = open[each.column / width];
        to = choose(each.mask > every(0.0), each.count == 1 ? every(steps[each.from]) : load(steps + each.from), to);
    }
}

// l.x / d for the open multipliers x; the sum of the lanes is meant
Eight Articulated::open_part(const Front& front) const {
    const double* steps = numbers(numbers_[0]);
    const Eight *part = &numbers_[front.part + 1], none = every(0.0);
    Eight y = none;
    double single = 0;
    for (const Front::Source& each : front.sources) {
        if (each.count == 1) single += numbers(*part)[each.column] * steps[each.from];
        else if (each.whole) y += part[each.column / width] * load(steps + each.from);
        else y += part[each.column / width] * choose(each.mask > none, load(steps + each.from), none);
    }
    return y + Eight{single, 0, 0, 0, 0, 0, 0, 0};
}

// Corrections of the own multipliers, for the twist of the node.
void Articulated::correct_own(const Front& front, const Eight& eta) {
    const int wide = 1 + front.chunks;
    Eight open[most_chunks];
    gather_open(front, open);
    for (int q = 0; q < front.own_chunks; ++q) {
        const Eight* X = &numbers_[front.X + width * q * wide];
        Eight y[width];
        for (int a = 0; a < width; ++a) {
            y[a] = X[a * wide] * eta;
            for (int c = 1; c < wide; ++c) y[a] += X[a * wide + c] * open[c - 1];
        }
        transpose(y);
        const Eight step = -(((y[0] + y[1]) + (y[2] + y[3])) + ((y[4] + y[5]) + (y[6] + y[7])));
        numbers_[front.step + q] = step;
        for (int a = 0; a < std::min(width, front.own - width * q); ++a)
            tie_step_[front.rows[front.open + width * q + a]] = step[a];
    }
}

// Corrections of a ball joint, or of the amplitudes of a flexible body; the twist of the parent becomes that of the
// node.
void Articulated::correct_general(int i, Eight& eta) {
    const Front* front = flags_[i] & fronted ? &fronts_[front_of_[i]] : nullptr;
    const int wide = front ? 1 + front->chunks : 1;
    Eight open[most_chunks];
    if (front) gather_open(*front, open);
    auto response = [&](const Eight& first, const Eight* chunks) {
        Eight y = first * eta;
        for (int c = 0; c < wide - 1; ++c) y += chunks[c] * open[c];
        return sum(y);
    };
    if (nodes_[i].size == 3) {
        BallNode& node = balls_[ball_of_[i]];
        for (int k = 0; node.shift_axis >= 0 && k < 3; ++k) eta[k] += node.shift[k];
        for (int k = 0; k < 3; ++k)
            node.step[k] = -response(node.part[k], front ? &numbers_[node.parts + k * (wide - 1)] : nullptr);
        for (int k = 0; k < 3; ++k) eta += node.step[k] * node.screw[k];
    } else if (flags_[i] & flexes) {
        FlexibleNode& each = flexible_[flexible_of_[i]];
        for (int p = 0; p < each.modes; ++p) each.step[p] = -response(each.part[p * wide], &each.part[p * wide] + 1);
    } else {
        add_interface_twist(i, eta);
    }
}

}  // namespace supple
