// The passes over a tree (condensed_tree.hpp): from the leaves to the root, and from the root to the leaves.
#include <algorithm>
#include <cmath>

#include "condensed_tree.hpp"

namespace supple {

// Wrenches that each coordinate's joint carries, and the residuals of balance and motion that follow; with `all`, also the
// inertia terms Gc. The sums run joint by joint, the rest is computed for eight joints at a time.
template <bool all>
void TreeState::sum_carried(const Step* step) {
    constexpr int groups = all ? 3 : 0;
    const double rate = step ? step->c0 / step->h : 0, square = rate * rate;
    for (int i : joined_) carried_[i] = Sums{};
    const Node* const nodes = nodes_.data();
    CoordinateTerms* const terms = terms_.data();
    const unsigned char* const kinds = kind_.data();
    Sums sums{};
    for (int block = own_.stride() - width; block >= 0; block -= width) {
        const bool plain = plain_[block / width];
        Eight still[8], moving[8], weighs[24];
        if (n_ - block < width)
            for (auto [first, count] : {std::pair(still, 8), std::pair(moving, 8), std::pair(weighs, 24)})
                std::fill_n(first, count, Eight{});
        for (int l = std::min(width, n_ - block) - 1; l >= 0; --l) {
            const int i = block + l;
            const Node& node = nodes[i];
            const unsigned char kind = kinds[i];
            if (kind & ends) sums = Sums{};
            if (kind & joins) {
                sums.still += carried_[i].still + load(node.still);
                sums.moving += carried_[i].moving;
                for (int k = 0; k < groups; ++k) sums.weighs[k] += carried_[i].weighs[k];
            } else if (heavy_) {
                sums.still += load(node.still);
            }
            sums.moving += load(node.moving);
            if (!plain) still[l] = sums.still;
            moving[l] = sums.moving;
            for (int k = 0; k < groups; ++k) weighs[8 * k + l] = sums.weighs[k] += load(node.weighs + 8 * k);
            if (kind & branches) {
                Sums& onto = carried_[before_[i]];
                onto.still += sums.still;
                onto.moving += sums.moving;
                for (int k = 0; k < groups; ++k) onto.weighs[k] += sums.weighs[k];
            }
        }
        if (plain)
            for (int k = 0; k < 6; ++k) still[k] = every(sums.still[k]);
        else
            transpose(still);
        transpose(moving);
        const Six s = {screws_.three(0, block), screws_.three(3, block)};
        const Six holds = {three(still), three(still + 3)}, drives = {three(moving), three(moving + 3)};
        const Eight spring = load(&spring_[block]);
        const Six n = carried_along(s, holds);
        Eight half[8] = {0.5 * n.linear.x,  0.5 * n.linear.y,  0.5 * n.linear.z, 0.5 * n.angular.x,
                         0.5 * n.angular.y, 0.5 * n.angular.z, spring - dot(s, holds),
                         spring + load(&drag_[block]) - dot(s, drives)};
        spread(half, [&](int l) { return terms[block + l].geometric; });
        if (!all) continue;
        for (int k = 0; k < 3; ++k) transpose(weighs + 8 * k);
        const Eight mass = square * weighs[0];
        const Three first = square * three(weighs + 1), p = three(weighs + 4), v = s.linear, w = s.angular;
        const Eight *I = weighs + 8, *Q = weighs + 14;
        const Three push = mass * v + cross(w, first);
        const Three turned = {I[0] * w.x + I[3] * w.y + I[4] * w.z, I[3] * w.x + I[1] * w.y + I[5] * w.z,
                             I[4] * w.x + I[5] * w.y + I[2] * w.z};
        const Three turn = cross(first, v) + square * turned;
        const Three across = {Q[0] * w.x + Q[1] * w.y + Q[2] * w.z, Q[3] * w.x + Q[4] * w.y + Q[5] * w.z,
                             Q[6] * w.x + Q[7] * w.y + Q[8] * w.z};
        const Three down = {Q[0] * w.x + Q[3] * w.y + Q[6] * w.z, Q[1] * w.x + Q[4] * w.y + Q[7] * w.z,
                           Q[2] * w.x + Q[5] * w.y + Q[8] * w.z};
        const Six bent = carried_along(s, drives - holds);
        const Three a = push + cross(w, p) + bent.linear, b = turn - down + bent.angular;
        const Three c = turn + cross(p, v) - across;
        Eight left[8] = {a.x, a.y, a.z, b.x, b.y, b.z}, right[8] = {push.x, push.y, push.z, c.x, c.y, c.z};
        spread(left, [&](int l) { return terms[block + l].left; });
        spread(right, [&](int l) { return terms[block + l].right; });
    }
}

// The sum of rows times their factors, added in pairs to shorten the chain of dependent operations.
template <int K>
SUPPLE_INLINE Eight combined(const double* by, const Eight (*rows)[K], int k) {
    return (by[0] * rows[0][k] + by[1] * rows[1][k]) + (by[2] * rows[2][k] + by[3] * rows[3][k]) +
           (by[4] * rows[4][k] + by[5] * rows[5][k]);
}

// From the leaves to the root, with anchors `boost` times as stiff. A pivot that is not positive is handled as `what` says:
// reject (returns false), accept (keeps it negative) or flip (makes it positive, so that the step goes downhill in energy).
template <int E>
bool Passes<E>::pass_back(double boost, Indefinite what) {
    const Inward nothing{};
    for (int i : joined_) inward_[i] = nothing;
    for (int e = 0; e < E; ++e) {
        const Tree::FixedFrame shown = end(e);
        const Mat6 Ad = adjoint(tree_.frame(shown).inverse());
        const Mat6 held = Ad.transpose() * (boost * anchor.template segment<6>(6 * e)).asDiagonal() * Ad;
        Inward& in = inward_[shown.step];
        for (int r = 0; r < 6; ++r)
            for (int c = 0; c < 6; ++c) {
                in.P[r][c] += held(r, c);
                in.right.row[r][(6 * e + c) / 8][(6 * e + c) % 8] -= Ad(c, r);
            }
    }
    Inward now = nothing;
    // The previous joint's update, u u^T / d and u g^T / d, is subtracted from P and the right-hand sides one joint later, so that
    // the next pivot, d = k + s^T P s - (u.s)^2 / d_before, does not depend on it.
    const Eight none = {};
    Eight u = none, part = none, g[K] = {};
    double over = 0;
    negative_ = 0;
    const double smallest = 1e-12 * system_.stiffness_scale;
    const Node* const nodes = nodes_.data();
    CoordinateTerms* const terms = terms_.data();
    Answer* const answers = answers_.data();
    const double* const slopes = slope_.data();
    const unsigned char* const kinds = kind_.data();
    double* const held = u_;  // a copy of u in memory, for scalar access
    const bool heavy = heavy_;
    for (int i = n_ - 1; i >= 0; --i) {
        const unsigned char kind = kinds[i];
        if (kind & ends) {
            now = nothing;
            u = part = none;
            for (int k = 0; k < K; ++k) g[k] = none;
            over = 0;
            store(held, none);
        }
        if (kind & joins) {
            const Inward& in = inward_[i];
            for (int r = 0; r < 6; ++r) {
                now.P[r] += in.P[r];
                for (int k = 0; k < K; ++k) now.right.row[r][k] += in.right.row[r][k];
            }
        }
        if (heavy) {  // geometric stiffness of the weight f at c: [[0, [f]/2], [-[f]/2, (c f^T + f c^T)/2 - f.c]]
            const double *c = nodes[i].weighs + 1, m = nodes[i].weighs[0];
            const Vec3 a = system_.gravity;
            const double x = 0.5 * m * a[0], y = 0.5 * m * a[1], z = 0.5 * m * a[2];
            const double xy = 0.5 * (c[0] * a[1] + c[1] * a[0]), xz = 0.5 * (c[0] * a[2] + c[2] * a[0]),
                         yz = 0.5 * (c[1] * a[2] + c[2] * a[1]), all = c[0] * a[0] + c[1] * a[1] + c[2] * a[2];
            now.P[0] -= Eight{0, 0, 0, 0, -z, y, 0, 0};
            now.P[1] -= Eight{0, 0, 0, z, 0, -x, 0, 0};
            now.P[2] -= Eight{0, 0, 0, -y, x, 0, 0, 0};
            now.P[3] -= Eight{0, z, -y, c[0] * a[0] - all, xy, xz, 0, 0};
            now.P[4] -= Eight{-z, 0, x, xy, c[1] * a[1] - all, yz, 0, 0};
            now.P[5] -= Eight{y, -x, 0, xz, yz, c[2] * a[2] - all, 0, 0};
        }
        CoordinateTerms& term = terms[i];
        Answer& answer = answers[i];
        const double* s = term.screw;
        const Eight screw = load(s), half = load(term.geometric);
        const Eight Ps = (s[0] * now.P[0] + s[1] * now.P[1]) + (s[2] * now.P[2] + s[3] * now.P[3]) +
                         (s[4] * now.P[4] + s[5] * now.P[5]);
        const double along = sum(screw * u), taken = along * over;
        for (int r = 0; r < 6; ++r) {
            now.P[r] -= held[r] * part;
            for (int k = 0; k < K; ++k) now.right.row[r][k] -= held[r] * g[k];
        }
        for (int k = 0; k < K; ++k) g[k] = combined<K>(s, now.right.row, k);
        g[K - 1] += picked<8, 8, 8, 8, 8, 8, 6, 8>(half, none);
        double d = (slopes[i] + sum(screw * Ps)) - along * taken;
        if (!(d > smallest)) {
            if (what == Indefinite::reject) return false;
            const double size = std::max(std::abs(d), smallest + 1e-6 * std::abs(slopes[i]));
            d = what == Indefinite::flip ? size : -size;
            if (what == Indefinite::flip) {  // leave a saddle point, where the residual is zero
                const double kicked = saddle_kick * size / scale_[i];
                g[K - 1][6] += g[K - 1][6] < 0 ? -kicked : kicked;
            }
            ++negative_;
        }
        u = (Ps + picked<0, 1, 2, 3, 4, 5, 8, 8>(half, none)) - taken * u;
        over = 1 / d;
        part = over * u;
        store(held, u);
        store(term.part, part);
        term.part[over_d] = over;
        for (int k = 0; k < K; ++k) answer.g[k] = g[k] = over * g[k];
        if (kind & branches) {
            Inward& in = inward_[before_[i]];
            for (int r = 0; r < 6; ++r) {
                in.P[r] += now.P[r] - held[r] * part;
                for (int k = 0; k < K; ++k) in.right.row[r][k] += now.right.row[r][k] - held[r] * g[k];
            }
        }
    }
    return true;
}

// From the root to the leaves: every coordinate's increment for each right-hand side, the residuals projected onto the first
// tangent's basis and, with a step, the inertia projected onto it.
template <int E>
void Passes<E>::pass_out(const Step* step, Tangent tangent, Response& response) {
    const bool again = tangent == Tangent::again;
    Right now{}, first{};
    Eight inertia[rows][K] = {}, force[K] = {}, unbalance[K] = {};
    CoordinateTerms* const terms = terms_.data();
    Answer* const answers = answers_.data();
    const double* const resists = resists_.data();
    const unsigned char* const kinds = kind_.data();
    for (int i = 0; i < n_; ++i) {
        const unsigned char kind = kinds[i];
        if (kind & roots) {
            now = first = Right{};
        } else if (kind & branches) {
            now = outward_[before_[i]];
            if (again) first = outward_first_[before_[i]];
        }
        CoordinateTerms& term = terms[i];
        Answer& answer = answers[i];
        const double* s = term.screw;
        alignas(64) Eight turn[K], behind[K];
        for (int k = 0; k < K; ++k) {
            answer.turns[k] = turn[k] = -(answer.g[k] + combined<K>(term.part, now.row, k));
            behind[k] = combined<K>(term.right, again ? first.row : now.row, k);
            for (int r = 0; r < 6; ++r) now.row[r][k] += s[r] * turn[k];
        }
        const Eight* onto = again ? first_[i].of : answer.turns;
        for (int k = 0; k < K; ++k) {
            force[k] -= term.geometric[lacks_motion] * onto[k];
            unbalance[k] -= term.geometric[lacks_balance] * onto[k];
            for (int r = 0; again && r < 6; ++r) first.row[r][k] += s[r] * onto[k];
        }
        if (kind & joins) {
            outward_[i] = now;
            if (again) outward_first_[i] = first;
        }
        if (!step) continue;
        const double *by = reinterpret_cast<const double*>(onto), *carries = reinterpret_cast<const double*>(behind);
        for (int k = 0; k < K; ++k) {
            const Eight ahead = combined<K>(term.left, now.row, k) + resists[i] * turn[k];
            for (int r = 0; r < rows; ++r) inertia[r][k] += by[r] * ahead + carries[r] * turn[k];
        }
    }
    for (int r = 0; r < rows; ++r) {
        response.force[r] = force[r / 8][r % 8];
        response.unbalance[r] = unbalance[r / 8][r % 8];
        for (int c = 0; step && c < rows; ++c) response.inertia(r, c) = inertia[r][c / 8][c % 8];
        if (step) response.inertia(r, rows) = inertia[r][K - 1][6];
    }
}

// The same passes with the previous tangent, for the present residuals of balance and motion.
template <int E>
void Passes<E>::pass_back_again(Response& response) {
    for (int i : joined_) inward_[i].P[0] = Eight{};
    Eight right = {};
    Eight drift[K] = {}, unbalance[K] = {}, force[K] = {};
    for (int i = n_ - 1; i >= 0; --i) {
        const CoordinateTerms& term = terms_[i];
        const Answer& answer = answers_[i];
        if (kind_[i] & ends) right = Eight{};
        if (kind_[i] & joins) right += inward_[i].P[0];
        const double arrived = term.geometric[lacks_balance] + sum(load(term.screw) * right);
        right -= arrived * load(term.part);
        answer_[i] = term.part[over_d] * arrived;
        for (int k = 0; k < K; ++k) {
            drift[k] += arrived * answer.g[k];
            unbalance[k] -= term.geometric[lacks_balance] * first_[i].of[k];
            force[k] -= term.geometric[lacks_motion] * first_[i].of[k];
        }
        if (kind_[i] & branches) inward_[before_[i]].P[0] += right;
    }
    for (int r = 0; r < rows; ++r) {
        response.drift[r] = drift[r / 8][r % 8];
        response.unbalance[r] = unbalance[r / 8][r % 8];
        response.force[r] = force[r / 8][r % 8];
    }
}

template <int E>
void Passes<E>::pass_out_again(const Step* step, Response& response) {
    Right first{};
    Eight twist = {}, inertia[K] = {};
    for (int i = 0; i < n_; ++i) {
        if (kind_[i] & roots) {
            twist = Eight{};
            first = Right{};
        } else if (kind_[i] & branches) {
            twist = outward_[before_[i]].row[0][0];
            first = outward_first_[before_[i]];
        }
        CoordinateTerms& term = terms_[i];
        Answer& answer = answers_[i];
        const double* s = term.screw;
        const double turn = -(answer_[i] + sum(load(term.part) * twist));
        answer.turns[K - 1][6] = turn;
        twist += turn * load(s);
        const double ahead = sum(load(term.left) * twist) + resists_[i] * turn;
        for (int k = 0; k < K; ++k) {
            inertia[k] += ahead * first_[i].of[k] + turn * combined<K>(term.right, first.row, k);
            for (int r = 0; r < 6; ++r) first.row[r][k] += s[r] * first_[i].of[k];
        }
        if (kind_[i] & joins) {
            outward_[i].row[0][0] = twist;
            outward_first_[i] = first;
        }
    }
    for (int r = 0; step && r < rows; ++r) response.inertia(r, rows) = inertia[r / 8][r % 8];
}

template void TreeState::sum_carried<true>(const Step*);
template void TreeState::sum_carried<false>(const Step*);
#define SUPPLE_PASSES(E)                                       \
    template bool Passes<E>::pass_back(double, Indefinite);    \
    template void Passes<E>::pass_out(const Step*, Tangent, Response&); \
    template void Passes<E>::pass_back_again(Response&);       \
    template void Passes<E>::pass_out_again(const Step*, Response&);
SUPPLE_PASSES(1)
SUPPLE_PASSES(2)
SUPPLE_PASSES(3)
SUPPLE_PASSES(4)
SUPPLE_PASSES(5)

}  // namespace supple
