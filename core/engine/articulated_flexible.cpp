// Flexible bodies in the passes.
//
// A flexible body has the twist of its body frame and the amplitudes eta of its modes. Its tree is: the node of the
// body frame, a node for the amplitudes (with the same frame; it carries the inertia), and beyond that a node for each
// interface but the reference. The frame of interface k is X_k(eta), and its twist is that of the body and s_kp per
// unit rate of eta_p. With the articulated tangent P_k eta + p_k of the subtree at interface k, on which the wrench W_k
// acts, Newton's equations of the amplitudes are
//     f_p + sum_q K_pq deta_q + l_p.twist + sum_k s_kp.p_k = 0
//     K_pq = df_p/deta_q + sum_k (s_kp.P'_k s_kq - curvature of X_k along W_k)
//     u_q  = m_q + sum_k (P'_k s_kq + n_kq / 2),      l_p = m_p + sum_k (P'_k^T s_kp + n_kp / 2),      n = ad(s)^T W_k
// where f are the body's own forces on its amplitudes and m their derivative by the twist (FlexibleBody). Multipliers
// of ties that run through an interface are extra entries of u and l. The amplitudes are eliminated,
//     P -= sum_pq u_p (K^-1)_pq l_q^T,
// and the inward pass continues with this P as for a rigid body. Vectors run over amplitudes in U, L and K, and over
// the entries of a twist in `part`.
#include <algorithm>
#include <cmath>

#include "engine/articulated.hpp"
#include "engine/articulated_lanes.hpp"

namespace supple {

// --- building
// ---------------------------------------------------------------------------------------------------------

void Articulated::add_flexible_bodies(const Model& model) {
    amplitude_axis_.assign(model.axes(), -1);
    for (std::size_t f = 0; f < model.flexible.size(); ++f) {
        const FlexibleBody& body = model.flexible[f];
        FlexibleNode node{.index = static_cast<int>(f),
                          .modes = body.modes(),
                          .chunks = (body.modes() + width - 1) / width,
                          .first = amplitudes_,
                          .body = body};
        amplitudes_ += node.modes;
        flexible_.push_back(std::move(node));
        bool attached = false;
        for (const Joint& joint : model.joints) {
            if (joint.interface < 0 || joint.parent != body.body) continue;
            attached = true;
            if (joint.outer != joint.child) uncovered_ = "a flexible body that is not held at its reference interface";
            for (int p = 0; p < joint.count; ++p) {
                const int a = joint.first + p;
                amplitude_axis_[a] = body.axis + p;
                if (use_ == Use::poses) continue;
                if (model.stiffness[a] != 0 || model.damping[a] != 0 || model.armature[a] != 0 || model.curve[a] >= 0)
                    uncovered_ = "a spring, damper or armature of amplitudes";
            }
        }
        if (!attached) uncovered_ = "a flexible body with a single interface";
    }
}

bool Articulated::copies_amplitude(const Row& row) const {
    const auto& of = row.of;
    if (!row.equality || row.lower != 0 || of.axes.size() != 2 || of.axes[0] == of.axes[1]) return false;
    const int original = amplitude_axis_[of.axes[0]];
    return original >= 0 && original == amplitude_axis_[of.axes[1]] && of.coefficients[0] == -of.coefficients[1];
}

void Articulated::lay_out_flexible() {
    for (FlexibleNode& each : flexible_) {
        const int r = each.modes, chunks = each.chunks;
        const Front* front = front_of_[each.node] < 0 ? nullptr : &fronts_[front_of_[each.node]];
        each.ties = front ? width * front->chunks : 0;
        each.wide = front ? 1 + front->chunks : 1;
        const Eight none = every(0.0);
        each.K.assign(r * chunks, none);
        each.factors = each.K;
        each.inverse.assign(r, 0.0);
        each.U.assign((6 + each.ties) * chunks, none);
        each.L = each.U;
        each.right.assign(chunks, none);
        each.part.assign(width * chunks * each.wide, none);
        each.curvature.assign(r * r, 0.0);
        for (Attachment& interface : each.interfaces) interface.screw.assign(6 * chunks, none);
        each.eta.assign(r, 0.0);
        each.step.assign(r, 0.0);
        each.now = each.body.zero_state();
    }
}

// --- one iteration
// ----------------------------------------------------------------------------------------------------

// The bodies' own forces; with `tangent`, K, U and L start with their derivatives.
template <bool tangent>
void Articulated::evaluate_flexible(const Step& step) {
    for (FlexibleNode& each : flexible_) {
        const Pose H = pose(each.node);
        each.body.evaluate(H, each.eta.data(), gravity_, &step, &past_->flexible[each.index].now,
                           &past_->flexible[each.index].before, each.now, tangent);
        const int r = each.modes, row = width * each.chunks;
        std::copy_n(each.body.forces(), r, numbers(each.right));
        if (!tangent) continue;
        const Vec3 at = H.p - origin_;
        double *K = numbers(each.K), *U = numbers(each.U);
        std::fill(each.U.begin() + 6 * each.chunks, each.U.end(), every(0.0));
        for (int p = 0; p < r; ++p) {
            for (int q = 0; q < r; ++q) K[p * row + q] = each.body.slope(p, q);
            const Vec3 force = H.R * each.body.mixed(p).head<3>(),
                       torque = H.R * each.body.mixed(p).tail<3>() + at.cross(force);
            for (int c = 0; c < 3; ++c) {
                U[c * row + p] = force[c];
                U[(3 + c) * row + p] = torque[c];
            }
        }
        each.L = each.U;
    }
}
template void Articulated::evaluate_flexible<true>(const Step&);
template void Articulated::evaluate_flexible<false>(const Step&);

// Wrench of a flexible body (its weight less the rate of its momentum), and P' = P - N(W)/2. In body axes P' is
// [[a, [c]], [-[c], D]].
template <bool tangent>
void Articulated::add_flexible_element(Lanes& lanes, const FlexibleNode& each) const {
    const Pose H = pose(each.node);
    const int l = each.node % width;
    const Vec3 at = H.p - origin_, force = -each.body.wrench().head<3>(), torque = -each.body.wrench().tail<3>();
    const Vec3 f = H.R * force;
    lanes.add_wrench(l, f, H.R * torque + at.cross(f), tangent);
    if (!tangent) return;
    const Mat6& by = each.body.by_twist();
    const double a = by(0, 0);
    const Vec3 c = H.R * (Vec3(by(2, 4), by(0, 5), by(1, 3)) + 0.5 * force);
    const Mat3 D = H.R * (by.bottomRightCorner<3, 3>() + 0.5 * skew(torque)) * H.R.transpose();
    const Mat3 P = skew(at), C = skew(c), shifted = C - a * P;
    lanes.add_block(l, 0, 0, a * Mat3::Identity());
    lanes.add_block(l, 0, 3, shifted);
    lanes.add_block(l, 3, 0, shifted.transpose());
    lanes.add_block(l, 3, 3, D + P * shifted + C * P);
}
template void Articulated::add_flexible_element<true>(Lanes&, const FlexibleNode&) const;
template void Articulated::add_flexible_element<false>(Lanes&, const FlexibleNode&) const;

// Adds the tangent of the subtree at an interface to the equations of the amplitudes: A and B are the rows of P' and of
// its transpose at the interface (with those of ties), `carried` is the wrench that it transmits, and without `tangent`
// R is the right-hand side.
template <bool tangent>
void Articulated::add_interface(int i, const Eight& carried, const Front* front, const Eight* A, const Eight* B,
                                const Eight* R) {
    FlexibleNode& each = flexible_[flexible_of_[i]];
    Attachment& interface = each.interfaces[interface_of_[i]];
    const int r = each.modes, chunks = each.chunks, row = width * chunks;
    const Pose H = pose(i);
    const Vec3 at = H.p - origin_;
    auto in_frame = [&](const Eight& w) {  // a wrench about origin_, in the frame of the interface
        const Vec3 f(w[0], w[1], w[2]), m = Vec3(w[3], w[4], w[5]) - at.cross(f);
        return stack(H.R.transpose() * f, H.R.transpose() * m);
    };
    if (!tangent) {
        const Vec6 w = in_frame(R[0]);
        const Vec3 f = w.head<3>(), m = w.tail<3>();
        double* right = numbers(each.right);
        for (int p = 0; p < r; ++p) right[p] += interface.frame.linear(p).dot(f) + interface.frame.angular(p).dot(m);
        return;
    }
    double* screw = numbers(interface.screw);
    for (int p = 0; p < r; ++p) {
        const Vec3 w = H.R * interface.frame.angular(p), v = H.R * interface.frame.linear(p) + at.cross(w);
        for (int c = 0; c < 3; ++c) {
            screw[c * row + p] = v[c];
            screw[(3 + c) * row + p] = w[c];
        }
    }
    const int wide = front ? 1 + front->chunks : 1, ties = front ? front->open : 0;
    const Front* above = ties ? &fronts_[front->parent] : nullptr;  // of the body, which eliminates no multipliers
    const double *a = reinterpret_cast<const double*>(A), *b = reinterpret_cast<const double*>(B);
    const int next = width * wide;  // from a row of A to the next one
    const Six W = {{every(carried[0]), every(carried[1]), every(carried[2])},
                   {every(carried[3]), every(carried[4]), every(carried[5])}};
    constexpr int most = 8;  // chunks of 64 amplitudes
    Eight u[6][most];
    for (int j = 0; j < chunks; ++j) {
        const Eight* s = &interface.screw[j];
        auto combine = [&](const double* column) {
            return ((column[0] * s[0] + column[next] * s[chunks]) +
                    (column[2 * next] * s[2 * chunks] + column[3 * next] * s[3 * chunks])) +
                   (column[4 * next] * s[4 * chunks] + column[5 * next] * s[5 * chunks]);
        };
        const Six n = carried_along(
            Six{{s[0], s[chunks], s[2 * chunks]}, {s[3 * chunks], s[4 * chunks], s[5 * chunks]}}, W);
        const Eight half[6] = {0.5 * n.linear.x,  0.5 * n.linear.y,  0.5 * n.linear.z,
                               0.5 * n.angular.x, 0.5 * n.angular.y, 0.5 * n.angular.z};
        for (int c = 0; c < 6; ++c) {
            u[c][j] = combine(b + c);
            each.U[c * chunks + j] += u[c][j] + half[c];
            each.L[c * chunks + j] += combine(a + c) + half[c];
        }
        each.right[j] += combine(a + 6);
        for (int k = 0; k < ties; ++k) {
            const int to = (6 + above->lanes[front->place[k].at]) * chunks + j, column = width + front->lanes[k];
            each.U[to] += combine(b + column);
            each.L[to] += combine(a + column);
        }
    }
    for (int p = 0; p < r; ++p)
        for (int j = 0; j < chunks; ++j) {
            Eight sum = each.K[p * chunks + j];
            for (int c = 0; c < 6; ++c) sum += screw[c * row + p] * u[c][j];
            each.K[p * chunks + j] = sum;
        }
    const Vec6 w = in_frame(carried);
    std::fill(each.curvature.begin(), each.curvature.end(), 0.0);
    interface.frame.add_contracted(w.head<3>(), w.tail<3>(), each.curvature.data());
    double* K = numbers(each.K);
    for (int p = 0; p < r; ++p)
        for (int q = 0; q < r; ++q) K[p * row + q] -= 0.5 * (each.curvature[p * r + q] + each.curvature[q * r + p]);
}
template void Articulated::add_interface<true>(int, const Eight&, const Front*, const Eight*, const Eight*,
                                               const Eight*);
template void Articulated::add_interface<false>(int, const Eight&, const Front*, const Eight*, const Eight*,
                                                const Eight*);

// Eliminates the amplitudes from the rows A of P', B of its transpose and those of the multipliers, and from the
// right-hand side R. False: a pivot is not positive.
template <bool tangent>
bool Articulated::eliminate_amplitudes(FlexibleNode& each, const Front* front, Eight* A, Eight* B, Eight* R) {
    const int r = each.modes, chunks = each.chunks, row = width * chunks, wide = each.wide, ties = each.ties;
    if (!tangent) {
        double* x = numbers(each.right);
        each.solve(x);
        for (int p = 0; p < r; ++p) each.part[p * wide][6] = x[p];
        auto moved = [&](int c) {
            Eight sum_of = each.U[c * chunks] * each.right[0];
            for (int j = 1; j < chunks; ++j) sum_of += each.U[c * chunks + j] * each.right[j];
            return sum(sum_of);
        };
        for (int c = 0; c < 6; ++c) R[0][c] -= moved(c);
        for (int k = 0; k < ties; ++k) reinterpret_cast<double*>(R + 1)[k] -= moved(6 + k);
        return true;
    }
    // rows of l
    for (int j = 0; j < chunks; ++j)
        for (int c = 0; c < wide; ++c) {
            Eight t[width];
            for (int k = 0; k < width; ++k) {
                const int of = c == 0 ? k : 6 + width * (c - 1) + k;
                if (c == 0 && k >= 6) t[k] = k == 6 ? each.right[j] : every(0.0);
                else t[k] = of < 6 + ties ? each.L[of * chunks + j] : every(0.0);
            }
            transpose(t);
            for (int l = 0; l < width; ++l) each.part[(width * j + l) * wide + c] = t[l];
        }
    // K = lower upper; the rows of l with it
    double *K = numbers(each.K), *factors = numbers(each.factors);
    bool regular = true;
    for (int k = 0; k < r; ++k) {
        const double pivot = K[k * row + k];
        regular = regular && pivot > 0;
        each.inverse[k] = 1 / pivot;
        const Eight *from = &each.K[k * chunks], *part = &each.part[k * wide];
        for (int i = k + 1; i < r; ++i) {
            const double by = K[i * row + k] * each.inverse[k];
            factors[i * row + k] = by;
            Eight* to = &each.K[i * chunks];
            for (int j = k / width; j < chunks; ++j) to[j] -= by * from[j];
            for (int c = 0; c < wide; ++c) each.part[i * wide + c] -= by * part[c];
        }
    }
    for (int k = r - 1; k >= 0; --k) {
        Eight* to = &each.part[k * wide];
        for (int c = 0; c < wide; ++c) {
            Eight sum = to[c];
            for (int i = k + 1; i < r; ++i) sum -= K[k * row + i] * each.part[i * wide + c];
            to[c] = each.inverse[k] * sum;
        }
    }
    const double *U = numbers(each.U), *part = numbers(each.part);
    auto subtract = [&](Eight* from, int a, int first, int count) {  // from -= (row a of U) part
        for (int c = 0; c < count; ++c) {
            Eight sum = from[c];
            for (int p = 0; p < r; ++p) sum -= U[a * row + p] * each.part[p * wide + first + c];
            from[c] = sum;
        }
    };
    for (int a = 0; a < 6; ++a) subtract(A + a * wide, a, 0, wide);
    for (int k = 0; front && k < front->open; ++k)
        subtract(&numbers_[front->E + k * (wide - 1)], 6 + front->lanes[k], 1, wide - 1);
    for (int k = 0; k < ties; ++k)
        for (int p = 0; p < r; ++p) {
            const double by = U[(6 + k) * row + p];
            const double* of = part + p * wide * width;
            for (int c = 0; c < 6; ++c) lane(B + c * wide, k) -= by * of[c];
            lane(R, k) -= by * of[6];
        }
    for (int a = 0; a < 6; ++a)
        for (int c = 0; c < 6; ++c) numbers(B + a * wide)[c] = numbers(A + c * wide)[a];
    return regular;
}
template bool Articulated::eliminate_amplitudes<true>(FlexibleNode&, const Front*, Eight*, Eight*, Eight*);
template bool Articulated::eliminate_amplitudes<false>(FlexibleNode&, const Front*, Eight*, Eight*, Eight*);

void Articulated::add_interface_twist(int i, Eight& eta) const {
    const FlexibleNode& each = flexible_at(i);
    const Attachment& interface = attachment_at(i);
    const double* screw = reinterpret_cast<const double*>(interface.screw.data());
    for (int c = 0; c < 6; ++c) {
        double sum = 0;
        for (int p = 0; p < each.modes; ++p) sum += screw[c * width * each.chunks + p] * each.step[p];
        eta[c] += sum;
    }
}

// --- state
// ------------------------------------------------------------------------------------------------------------

void Articulated::accept_flexible(State& state, const Step& step) {
    for (FlexibleNode& each : flexible_) {
        State::Flexible& past = state.flexible[each.index];
        each.body.evaluate(pose(each.node), each.eta.data(), gravity_, &step, &past.now, &past.before, each.now, false);
        past.wrench = -each.body.wrench();
        past.rate_before.swap(past.rate);
        for (int p = 0; p < each.modes; ++p) past.rate[p] = step.rate(each.eta[p], past.now.eta[p], past.before.eta[p]);
        std::swap(past.before, past.now);
        std::swap(past.now, each.now);
    }
}

}  // namespace supple
