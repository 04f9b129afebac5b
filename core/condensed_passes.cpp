// The passes over a tree (condensed_tree.hpp), from the leaves to the root and out again.
#include <algorithm>
#include <cmath>

#include "condensed_tree.hpp"

namespace supple {

// Force, unbalance and inertia along the tangent that the step began with.
template <int E>
void Passes<E>::along_first(Response& response) {
    const Inward nothing{};
    for (int i = 0; i < n_; ++i)
        if (joins_[i]) inward_[i] = nothing;
    Right carried{};
    Lanes mass[rows][K] = {}, force[K] = {}, unbalance[K] = {};
    for (int i = n_ - 1; i >= 0; --i) {
        if (i + 1 == n_ || before_[i + 1] != i) carried = Right{};
        Lanes resisted[K] = {};
        for (int r = 0; r < 6; ++r)
            for (int k = 0; k < K; ++k) {
                carried.row[r][k] += momenta_[i].row[r][k];
                if (joins_[i]) carried.row[r][k] += inward_[i].right.row[r][k];
                resisted[k] += nodes_[i].screw[r] * carried.row[r][k];
            }
        const double* first = reinterpret_cast<const double*>(first_[i].of);
        for (int k = 0; k < K; ++k) {
            resisted[k] += resisted_[i].of[k];
            force[k] -= lacks_[i][1] * first_[i].of[k];
            unbalance[k] -= lacks_[i][0] * first_[i].of[k];
            for (int r = 0; r < rows; ++r) mass[r][k] += first[r] * resisted[k];
        }
        if (before_[i] >= 0 && before_[i] != i - 1)
            for (int r = 0; r < 6; ++r)
                for (int k = 0; k < K; ++k) inward_[before_[i]].right.row[r][k] += carried.row[r][k];
    }
    for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < rows; ++c) response.inertia(r, c) = mass[r][c / 8][c % 8];
        response.inertia(r, rows) = mass[r][balance / 8][balance % 8];
        response.force[r] = force[r / 8][r % 8];
        response.unbalance[r] = unbalance[r / 8][r % 8];
    }
    for (int e = 0; e < E; ++e) {  // the tips' twists of the first tangent's motions, as the joints stand now
        const Tree::Shown shown = end(e);
        const Mat6 Ad = adjoint(tree_.frame(shown).inverse());
        for (int r = 0; r < rows; ++r) {
            Vec6 twist;
            for (int k = 0; k < 6; ++k) twist[k] = outward_first_[shown.step].row[k][r / 8][r % 8];
            response.left.template block<1, 6>(r, 6 * e) = (Ad * twist).transpose();
        }
    }
}

// From the leaves to the root, with anchors `boost` times as stiff. False: the tangent is not definite and that is
// refused; turned to its opposite where it is negative, the search goes downhill.
template <int E>
bool Passes<E>::pass_back(double boost, indefinite what) {
    const Inward nothing{};
    for (int i = 0; i < n_; ++i)
        if (joins_[i]) inward_[i] = nothing;
    for (int e = 0; e < E; ++e) {
        const Tree::Shown shown = end(e);
        const Mat6 Ad = adjoint(tree_.frame(shown).inverse());
        const Mat6 held = Ad.transpose() * (boost * anchor.template segment<6>(6 * e)).asDiagonal() * Ad;
        Inward& in = inward_[shown.step];
        for (int r = 0; r < 6; ++r)
            for (int c = 0; c < 6; ++c) {
                in.P[r][c] += held(r, c);
                in.right.row[r][(6 * e + c) / 8][(6 * e + c) % 8] -= Ad(c, r);
            }
    }
    Lanes gram[rows][K] = {};
    Inward now = nothing;
    negative_ = 0;
    const double smallest = 1e-12 * system_.stiffness_scale;
    for (int i = n_ - 1; i >= 0; --i) {
        const Node& node = nodes_[i];
        if (i + 1 == n_ || before_[i + 1] != i) now = nothing;
        if (joins_[i]) {
            const Inward& in = inward_[i];
            for (int r = 0; r < 6; ++r) {
                now.P[r] += in.P[r];
                for (int k = 0; k < K; ++k) now.right.row[r][k] += in.right.row[r][k];
            }
            now.still += in.still;
            now.moving += in.moving;
        }
        now.still += load(node.still);
        now.moving += load(node.moving);
        if (heavy_) {  // a dead force f at c: [[0, [f]/2], [-[f]/2, (c f^T + f c^T)/2 - f.c]] per twist
            const double* c = node.body + 7;
            const double x = node.body[6] * system_.gravity[0], y = node.body[6] * system_.gravity[1],
                         z = node.body[6] * system_.gravity[2];
            const double xy = 0.5 * (c[0] * y + c[1] * x), xz = 0.5 * (c[0] * z + c[2] * x),
                         yz = 0.5 * (c[1] * z + c[2] * y), all = c[0] * x + c[1] * y + c[2] * z;
            now.P[0] -= Lanes{0, 0, 0, 0, -0.5 * z, 0.5 * y, 0, 0};
            now.P[1] -= Lanes{0, 0, 0, 0.5 * z, 0, -0.5 * x, 0, 0};
            now.P[2] -= Lanes{0, 0, 0, -0.5 * y, 0.5 * x, 0, 0, 0};
            now.P[3] -= Lanes{0, 0.5 * z, -0.5 * y, c[0] * x - all, xy, xz, 0, 0};
            now.P[4] -= Lanes{-0.5 * z, 0, 0.5 * x, xy, c[1] * y - all, yz, 0, 0};
            now.P[5] -= Lanes{0.5 * y, -0.5 * x, 0, xz, yz, c[2] * z - all, 0, 0};
        }
        const double* s = node.screw;
        const Lanes Ps = (s[0] * now.P[0] + s[1] * now.P[1]) + (s[2] * now.P[2] + s[3] * now.P[3]) +
                         (s[4] * now.P[4] + s[5] * now.P[5]);
        const Lanes screw = load(s);
        double d = slope_[i] + sum(screw * Ps), kicked = 0;
        if (!(d > smallest)) {
            if (what == indefinite::refused) return false;
            const double size = std::max(std::abs(d), smallest + 1e-6 * std::abs(slope_[i]));
            d = what == indefinite::turned ? size : -size;
            if (what == indefinite::turned) kicked = kick * size / scale_[i];
            ++negative_;
        }
        const double over = 1 / d;
        const Lanes u = Ps + 0.5 * bracket(screw, now.still);
        Share& share = shares_[i];
        Lanes g[K] = {};
        const double balanced = spring_[i] - sum(screw * now.still), driven = spring_[i] + drag_[i] - sum(screw * now.moving);
        g[K - 1] = Lanes{0, 0, 0, 0, 0, 0, balanced, driven};
        lacks_[i] = {balanced, driven};
        for (int r = 0; r < 6; ++r)
            for (int k = 0; k < K; ++k) g[k] += s[r] * now.right.row[r][k];
        if (kicked != 0) g[K - 1][6] += g[K - 1][6] < 0 ? -kicked : kicked;  // off a saddle, where nothing pushes
        store(share.u, u);
        store(share.part, over * u);
        store(share.bent, bracket(screw, now.moving - now.still));
        share.over = over;
        for (int k = 0; k < K; ++k) share.g[k] = g[k];
        const double* arrived = reinterpret_cast<const double*>(share.g);
        for (int r = 0; r < rows; ++r)
            for (int k = 0; k < K; ++k) gram[r][k] += (arrived[r] * over) * g[k];
        for (int r = 0; r < 6; ++r) {
            now.P[r] -= share.part[r] * u;
            for (int k = 0; k < K; ++k) now.right.row[r][k] -= share.part[r] * g[k];
        }
        if (before_[i] >= 0 && before_[i] != i - 1) {
            Inward& in = inward_[before_[i]];
            for (int r = 0; r < 6; ++r) {
                in.P[r] += now.P[r];
                for (int k = 0; k < K; ++k) in.right.row[r][k] += now.right.row[r][k];
            }
            in.still += now.still;
            in.moving += now.moving;
        }
    }
    for (int r = 0; r < rows; ++r)
        for (int k = 0; k < K; ++k) gram_[r][k] = gram[r][k];
    return true;
}

// From the root to the leaves: every coordinate's answer to each right-hand side and, with a step, mass, damping and
// armature along them.
template <int E>
void Passes<E>::pass_out(const Step* step, Tangent tangent) {
    Right now{}, first{};
    Lanes mass[rows][K] = {};
    const double c = step ? step->c0 / step->h : 0, square = c * c;
    for (int i = 0; i < n_; ++i) {
        if (before_[i] < 0) {
            now = first = Right{};
        } else if (before_[i] != i - 1) {
            now = outward_[before_[i]];
            first = outward_first_[before_[i]];
        }
        const Node& node = nodes_[i];
        Share& share = shares_[i];
        Lanes turn[K];
        for (int k = 0; k < K; ++k) {
            const Lanes even = share.u[0] * now.row[0][k] + share.u[2] * now.row[2][k] + share.u[4] * now.row[4][k];
            const Lanes odd = share.u[1] * now.row[1][k] + share.u[3] * now.row[3][k] + share.u[5] * now.row[5][k];
            turn[k] = -share.over * (share.g[k] + (even + odd));
            share.turns[k] = turn[k];
            for (int r = 0; r < 6; ++r) now.row[r][k] += node.screw[r] * turn[k];
        }
        if (tangent == Tangent::first)
            for (int k = 0; k < K; ++k) first_[i].of[k] = turn[k];
        else
            for (int k = 0; k < K; ++k)
                for (int r = 0; r < 6; ++r) first.row[r][k] += node.screw[r] * first_[i].of[k];
        if (joins_[i]) {
            outward_[i] = now;
            outward_first_[i] = first;
        }
        if (!step) continue;
        const double* body = node.body;
        const double m = square * body[6], *at = body + 7, *push = body + 10;
        const double xx = square * body[0], yy = square * body[1], zz = square * body[2], xy = square * body[3],
                     xz = square * body[4], yz = square * body[5];
        Lanes fly[6][K], carry[6][K], resisted[K];  // twists about the centre of mass; momenta; torques
        for (int k = 0; k < K; ++k) {
            const Lanes &x = fly[3][k] = now.row[3][k], &y = fly[4][k] = now.row[4][k], &z = fly[5][k] = now.row[5][k];
            fly[0][k] = now.row[0][k] + at[2] * y - at[1] * z;
            fly[1][k] = now.row[1][k] + at[0] * z - at[2] * x;
            fly[2][k] = now.row[2][k] + at[1] * x - at[0] * y;
            for (int r = 0; r < 3; ++r) carry[r][k] = m * fly[r][k];
            carry[3][k] = xx * x + xy * y + xz * z - push[2] * fly[1][k] + push[1] * fly[2][k];
            carry[4][k] = xy * x + yy * y + yz * z - push[0] * fly[2][k] + push[2] * fly[0][k];
            carry[5][k] = xz * x + yz * y + zz * z - push[1] * fly[0][k] + push[0] * fly[1][k];
            const Lanes even = share.bent[0] * now.row[0][k] + share.bent[2] * now.row[2][k] + share.bent[4] * y;
            const Lanes odd = share.bent[1] * now.row[1][k] + share.bent[3] * x + share.bent[5] * z;
            resisted[k] = resists_[i] * turn[k] + (even + odd);
        }
        if (tangent == Tangent::again) {  // as wrenches at the world's origin
            for (int k = 0; k < K; ++k) {
                for (int r = 0; r < 6; ++r) momenta_[i].row[r][k] = carry[r][k];
                resisted_[i].of[k] = resisted[k];
                momenta_[i].row[3][k] += at[1] * carry[2][k] - at[2] * carry[1][k];
                momenta_[i].row[4][k] += at[2] * carry[0][k] - at[0] * carry[2][k];
                momenta_[i].row[5][k] += at[0] * carry[1][k] - at[1] * carry[0][k];
            }
            continue;
        }
        const double* along = reinterpret_cast<const double*>(fly);
        const double* turns = reinterpret_cast<const double*>(share.turns);
        for (int r = 0; r < rows; ++r)
            for (int k = 0; k < K; ++k) {
                mass[r][k] += turns[r] * resisted[k];
                for (int s = 0; s < 6; ++s) mass[r][k] += along[8 * K * s + r] * carry[s][k];
            }
    }
    for (int r = 0; r < rows; ++r)
        for (int k = 0; k < K; ++k) mass_[r][k] = mass[r][k];
}

// The same passes with the tangent of before, for the present residuals: what balance lacks and what motion lacks.
template <int E>
void Passes<E>::pass_back_again(Response& response) {
    const Inward nothing{};
    for (int i = 0; i < n_; ++i)
        if (joins_[i]) inward_[i] = nothing;
    Lanes right = {}, still = {}, moving = {};
    Lanes drift[K] = {}, unbalance[K] = {}, force[K] = {};
    for (int i = n_ - 1; i >= 0; --i) {
        const Node& node = nodes_[i];
        Share& share = shares_[i];
        if (i + 1 == n_ || before_[i + 1] != i) right = still = moving = Lanes{};
        if (joins_[i]) {
            right += inward_[i].P[0];
            still += inward_[i].still;
            moving += inward_[i].moving;
        }
        still += load(node.still);
        moving += load(node.moving);
        const Lanes screw = load(node.screw);
        const double balanced = spring_[i] - sum(screw * still), driven = spring_[i] + drag_[i] - sum(screw * moving);
        const double arrived = share.over * (balanced + sum(screw * right));
        right -= arrived * load(share.u);
        answer_[i] = arrived;
        for (int k = 0; k < K; ++k) {
            drift[k] += arrived * share.g[k];
            unbalance[k] -= balanced * first_[i].of[k];
            force[k] -= driven * first_[i].of[k];
        }
        if (before_[i] >= 0 && before_[i] != i - 1) {
            Inward& in = inward_[before_[i]];
            in.P[0] += right;
            in.still += still;
            in.moving += moving;
        }
    }
    for (int r = 0; r < rows; ++r) {
        response.drift[r] = drift[r / 8][r % 8];
        response.unbalance[r] = unbalance[r / 8][r % 8];
        response.force[r] = force[r / 8][r % 8];
    }
}

template <int E>
void Passes<E>::pass_out_again(const Step* step, Response& response) {
    const double c = step ? step->c0 / step->h : 0, square = c * c;
    Lanes twist = {};
    for (int i = 0; i < n_; ++i) {
        if (before_[i] < 0)
            twist = Lanes{};
        else if (before_[i] != i - 1)
            twist = outward_[before_[i]].row[0][0];
        Node& node = nodes_[i];
        Share& share = shares_[i];
        const double turn = -(answer_[i] + share.over * sum(load(share.u) * twist));
        share.turns[K - 1][6] = turn;
        twist += turn * load(node.screw);
        if (joins_[i]) outward_[i].row[0][0] = twist;
        const double* b = node.body;  // the momentum of this motion, as a wrench at the world's origin
        const double m = square * b[6], *at = b + 7, x = twist[3], y = twist[4], z = twist[5];
        const double vx = twist[0] + at[2] * y - at[1] * z, vy = twist[1] + at[0] * z - at[2] * x,
                     vz = twist[2] + at[1] * x - at[0] * y, *push = b + 10;
        const double fx = m * vx, fy = m * vy, fz = m * vz;
        store(node.moving,
              Lanes{fx, fy, fz,
                    square * (b[0] * x + b[3] * y + b[4] * z) + at[1] * fz - at[2] * fy - (push[2] * vy - push[1] * vz),
                    square * (b[3] * x + b[1] * y + b[5] * z) + at[2] * fx - at[0] * fz - (push[0] * vz - push[2] * vx),
                    square * (b[4] * x + b[5] * y + b[2] * z) + at[0] * fy - at[1] * fx - (push[1] * vx - push[0] * vy), 0,
                    0});
        answer_[i] = resists_[i] * turn + sum(load(share.bent) * twist);
    }
    if (!step) return;
    for (int i = 0; i < n_; ++i)
        if (joins_[i]) inward_[i].moving = Lanes{};
    Lanes moving = {}, along[K] = {};
    for (int i = n_ - 1; i >= 0; --i) {
        if (i + 1 == n_ || before_[i + 1] != i) moving = Lanes{};
        if (joins_[i]) moving += inward_[i].moving;
        moving += load(nodes_[i].moving);
        const double resisted = sum(load(nodes_[i].screw) * moving) + answer_[i];
        for (int k = 0; k < K; ++k) along[k] += resisted * first_[i].of[k];
        if (before_[i] >= 0 && before_[i] != i - 1) inward_[before_[i]].moving += moving;
    }
    for (int r = 0; r < rows; ++r) response.inertia(r, rows) = along[r / 8][r % 8];
}

#define SUPPLE_PASSES(E)                                                   \
    template bool Passes<E>::pass_back(double, indefinite);                \
    template void Passes<E>::pass_out(const Step*, Tangent);               \
    template void Passes<E>::along_first(Response&);                       \
    template void Passes<E>::pass_back_again(Response&);                   \
    template void Passes<E>::pass_out_again(const Step*, Response&);
SUPPLE_PASSES(1)
SUPPLE_PASSES(2)
SUPPLE_PASSES(3)
SUPPLE_PASSES(4)
SUPPLE_PASSES(5)

}  // namespace supple
