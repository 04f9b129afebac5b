// The passes: poses outward, articulated tangent inward, corrections outward.
#include "engine/articulated.hpp"

#include <algorithm>
#include <cmath>

#include "engine/articulated_lanes.hpp"

namespace supple {

// Poses of all nodes from their coordinates: transforms of the joints eight at a time, then their products in sequence.
void Articulated::forward() {
    alignas(64) double local[12][width];
    alignas(64) double out[width][16];
    const int n = static_cast<int>(nodes_.size());
    for (FlexibleNode& each : flexible_)
        for (Attachment& interface : each.interfaces) interface.frame.evaluate(each.eta.data());
    Four X = unit_four(0), Y = unit_four(1), Z = unit_four(2), P = four(0.0);
    const int first = placed_ ? grounded_ / width : 0;
    for (int b = first; b < blocks_; ++b) {
        const Fixed& fixed = fixed_[b];
        Present& now = present_[b];
        Eight s, c;
        sine_cosine(now.q * fixed.turns, s, c);
        const Eight slide = now.q * fixed.slides;
        for (int i = 0; i < 3; ++i) {
            const Eight x = fixed.frame[i], y = fixed.frame[3 + i], z = fixed.frame[6 + i];
            store(local[i], c * x + s * y);
            store(local[3 + i], c * y - s * x);
            store(local[6 + i], z);
            store(local[9 + i], fixed.frame[9 + i] + slide * z);
        }
        const int count = std::min(width, n - width * b);
        for (int l = 0; l < count; ++l) {
            const int i = width * b + l;
            const unsigned char flags = flags_[i];
            if (flags & ball) {
                const Mat3 turned = nodes_[i].frame.R * balls_[ball_of_[i]].rotation;
                for (int k = 0; k < 9; ++k) local[k][l] = turned.data()[k];
                const BallNode& node = balls_[ball_of_[i]];
                if (node.shift_axis >= 0) {
                    const Vec3 at = nodes_[i].frame.act(node.t);
                    for (int k = 0; k < 3; ++k) local[9 + k][l] = at[k];
                }
            }
            if (flags & attached) {
                const Pose frame = nodes_[i].frame * attachment_at(i).frame.pose();
                for (int k = 0; k < 9; ++k) local[k][l] = frame.R.data()[k];
                for (int k = 0; k < 3; ++k) local[9 + k][l] = frame.p[k];
            }
            if (flags & rooted) {
                X = unit_four(0);
                Y = unit_four(1);
                Z = unit_four(2);
                P = four(0.0);
            } else if (flags & branches || (b == first && l == 0)) {
                const int parent = nodes_[i].parent, m = parent % width;
                if (parent / width == b) {
                    X = load_four(&out[m][0]);
                    Y = load_four(&out[m][4]);
                    Z = load_four(&out[m][8]);
                    P = load_four(&out[m][12]);
                } else {
                    const double* from = numbers(present_[parent / width].R) + m;  // a number of the pose every `width`
                    auto column = [&](int c) {
                        return four(from[width * c], from[width * (c + 1)], from[width * (c + 2)]);
                    };
                    X = column(0);
                    Y = column(3);
                    Z = column(6);
                    P = column(9);
                }
            }
            const Four x = X * local[0][l] + (Y * local[1][l] + Z * local[2][l]);
            const Four y = X * local[3][l] + (Y * local[4][l] + Z * local[5][l]);
            const Four z = X * local[6][l] + (Y * local[7][l] + Z * local[8][l]);
            P = (P + X * local[9][l]) + (Y * local[10][l] + Z * local[11][l]);
            X = x;
            Y = y;
            Z = z;
            store_four(&out[l][0], X);
            store_four(&out[l][4], Y);
            store_four(&out[l][8], Z);
            store_four(&out[l][12], P);
        }
        for (int l = count; l < width; ++l)
            for (int k = 0; k < 16; ++k) out[l][k] = k == 0 || k == 5 || k == 10 ? 1.0 : 0.0;
        Eight t[8];
        for (int l = 0; l < width; ++l) t[l] = load(&out[l][0]);
        transpose(t);
        for (int i = 0; i < 3; ++i) {
            now.R[i] = t[i];
            now.R[3 + i] = t[4 + i];
        }
        for (int l = 0; l < width; ++l) t[l] = load(&out[l][8]);
        transpose(t);
        for (int i = 0; i < 3; ++i) {
            now.R[6 + i] = t[i];
            now.position[i] = t[4 + i];
        }
    }
    if (placed_) return;
    placed_ = true;
    for (BallNode& node : balls_)
        if (node.shift_axis >= 0) node.along = pose(nodes_[node.node].parent).R * nodes_[node.node].frame.R;
}

// Spring, damper and armature of a ball joint on its increments, in the node's own frame, with the derivative; see
// System::axis_torque. The springs act on the rotation of the joint from its parent to its child. Where the tree runs
// from the child to the parent, the node's rotation R' is the inverse, and its increments are d' = -R'^T d.
template <bool second>
void Articulated::ball_torque(const BallNode& node, const Step& step, Vec3& torque, Mat3& slope) const {
    const System& s = *system_;
    const State::Ball& past = past_->balls[node.index];
    torque.setZero();
    slope.setZero();
    bool sprung = false, damped = false;
    for (int a = node.axis; a < node.axis + 3; ++a) {
        sprung = sprung || s.model().stiffness[a] != 0 || s.model().curve[a] >= 0 || s.applied[a] != 0;
        damped = damped || s.model().damping[a] != 0 || s.model().armature[a] != 0;
    }
    const Vec3 q = sprung ? Vec3(node.sign * so3_log(node.rotation)) : Vec3::Zero();
    for (int i = 0; sprung && i < 3; ++i) {
        const int a = node.axis + i;
        const double deflection = q[i] - s.rest[a];
        torque[i] = s.model().stiffness[a] * deflection - s.applied[a];
        slope(i, i) = s.model().stiffness[a];
        if (s.model().curve[a] < 0) continue;
        double more, steeper, energy;
        s.model().curves[s.model().curve[a]].evaluate(deflection, more, steeper, energy);
        torque[i] += more;
        slope(i, i) += steeper;
    }
    if (sprung) {
        const Vec3 y = torque;
        const Mat3 Ji = so3_right_jacobian_inverse(q);
        slope = (Ji.transpose() * slope + so3_right_jacobian_inverse_directional(q, y)) * Ji;
        torque = Ji.transpose() * y;
    }
    const Vec3 rate = damped ? ball_rate(node, step, node.joint_rotation()) : Vec3::Zero();
    const double c = step.c0 / step.h;
    Vec3 resistance = Vec3::Zero();
    for (int i = 0; damped && i < 3; ++i) {
        const int a = node.axis + i;
        torque[i] += s.model().damping[a] * rate[i];
        torque[i] += (step.c0 * s.model().armature[a] * rate[i] + step.c1 * past.p[i] + step.c2 * past.p_before[i]) /
                     step.h;
        resistance[i] = c * (s.model().damping[a] + c * s.model().armature[a]);
    }
    if (exact_) {
        const Vec3 turned = so3_log(past.rotation.transpose() * node.joint_rotation());
        slope = slope + Mat3(resistance.asDiagonal()) * so3_right_jacobian_inverse(turned);
    } else {
        slope.diagonal() += resistance;  // accurate enough for Newton's method, because steps are short
    }
    if (node.sign < 0) {
        torque = -(node.rotation.transpose() * torque);
        slope = Mat3(node.rotation.transpose() * slope * node.rotation) + skew(torque);
    }
}

// Rate of a ball joint's increments, for its rotation at the end of the step.
Vec3 Articulated::ball_rate(const BallNode& node, const Step& step, const Mat3& rotation) const {
    const State::Ball& past = past_->balls[node.index];
    Vec3 rate = step.c0 * so3_log(past.rotation.transpose() * rotation);
    if (step.c2 != 0) rate += step.c2 * so3_log(past.rotation.transpose() * past.rotation_before);
    return rate / step.h;
}

template void Articulated::ball_torque<true>(const BallNode&, const Step&, Vec3&, Mat3&) const;
template void Articulated::ball_torque<false>(const BallNode&, const Step&, Vec3&, Mat3&) const;

// Minus the rate of momentum of eight bodies, about their centres of mass.
template <bool second>
Six Articulated::momentum_rate(int b, const Step& step, const Motion& m) const {
    const double kappa = step.c0 / step.h;
    const Fixed& fixed = fixed_[b];
    const Past& past = past_->slots[b];
    Three force = (step.c1 / step.h) * three(past.momentum), torque = (step.c1 / step.h) * three(past.momentum + 3);
    if (second) {
        force = force + (step.c2 / step.h) * three(past.momentum_before);
        torque = torque + (step.c2 / step.h) * three(past.momentum_before + 3);
    }
    return {-1.0 * ((kappa * fixed.mass) * m.centre_velocity + force), -1.0 * (kappa * m.L + torque)};
}
template Six Articulated::momentum_rate<true>(int, const Step&, const Motion&) const;
template Six Articulated::momentum_rate<false>(int, const Step&, const Motion&) const;

// --- inward
// -----------------------------------------------------------------------------------------------------------

// The articulated tangent and residual of what is beyond a node. The elimination of the last coordinate is still to be
// done (`settle`): with the screw s of the next one,
//     l = P'^T s + n/2 - (s.u/d) l_last,   u = P' s + n/2 - (s.l/d) u_last
// of P' before that elimination, and nothing but two numbers waits for the last pivot.
struct Articulated::Below {
    Eight A[6], B[6];  // rows of P' and of its transpose; lane 6 of A: p
    Eight l, u;  // of the last coordinate
    double factor;  // 1/d; for a residual alone rho, with u/d in u
    Eight right;  // p of a residual alone

    template <bool tangent>
    SUPPLE_INLINE void clear() {
        if (tangent)
            for (int r = 0; r < 6; ++r) A[r] = B[r] = every(0.0);
        else right = every(0.0);
        l = u = every(0.0);
        factor = 0;
    }
    template <bool tangent>
    SUPPLE_INLINE void put(Eight* rows, Eight* columns, Eight& residual) const {
        for (int r = 0; tangent && r < 6; ++r) {
            rows[r] = A[r];
            columns[r] = B[r];
        }
        if (!tangent) residual = right;
    }
    template <bool tangent>
    SUPPLE_INLINE void take(const Eight* rows, const Eight* columns, const Eight& residual) {
        for (int r = 0; tangent && r < 6; ++r) {
            A[r] = rows[r];
            B[r] = columns[r];
        }
        if (!tangent) right = residual;
    }
    // P' -= u l^T / d,  p -= u rho / d
    template <bool tangent>
    SUPPLE_INLINE void settle() {
        if (!tangent) {
            right -= factor * u;
        } else {
            alignas(64) double uv[width], lv[width];
            store(uv, u);
            store(lv, l);
            const Eight part = factor * l, upart = factor * u;
            for (int r = 0; r < 6; ++r) {
                A[r] -= uv[r] * part;
                B[r] -= lv[r] * upart;
            }
        }
        factor = 0;
    }
};

// From the outermost nodes to the world: the articulated tangent and its factors (with `tangent`), or only the
// right-hand side of the present residual for the last factors. False: the tangent is indefinite in the motions that
// ties allow, or singular.
template <bool second, bool tangent>
bool Articulated::inward(const Step& step) {
    const int n = static_cast<int>(nodes_.size());
    if (tangent) negative_ = 0;
    const double kappa = step.c0 / step.h;
    const Eight none = every(0.0);
    for (int i : joined_) summed_[i].clear<tangent>();
    evaluate_ties<tangent>(step);
    evaluate_flexible<tangent>(step);

    Lanes lanes;
    Below below;
    below.clear<true>();
    below.clear<false>();
    Eight W = none;
    bool regular = true;
    // grounded nodes do not move: only those with ties have a part in a step
    for (int b = blocks_ - 1; b >= (exact_ ? 0 : first_block_); --b) {
        const Fixed& fixed = fixed_[b];
        const Present& now = present_[b];
        const int count = std::min(width, n - width * b);
        lanes.few = 2 * count <= width;
        Eight slope = none;
        Eight tau = torque<second>(b, step, slope);
        const Motion m = exact_ ? Motion(exact_[b].motion) : motion<second>(b, step);
        const Six inertial = exact_ ? Six{exact_[b].force, exact_[b].torque} : momentum_rate<second>(b, step, m);
        const Three f = exact_ ? inertial.linear : fixed.mass * every(gravity_) + inertial.linear,
                    &t = inertial.angular;
        const Three c = m.centre - every(origin_);
        const Three moment = cross(c, f) + t;
        if (tangent) {
            const Turn turning = exact_ ? exact_[b].turning
                                        : turning_tangent<second>(fixed.inertia, m.R, m.x, three(past_->slots[b].turn),
                                                                  step);
            lanes.put_body(kappa * kappa * fixed.mass, c, f, t, kappa * m.L, turning, moment);
        }
        lanes.put_wrench(f, moment);

        alignas(64) double torques[width], slopes[width];
        tau += load(&extra_torque_[width * b]);
        store(torques, tau);
        store(slopes, slope);
        for (const NodeHandle& each : handles_)
            if (each.node / width == b) {
                const int l = each.node % width;
                const Vec3 at = pose(each.node).act(each.point), spin = get(m.R * m.spin, l);
                const Vec3 velocity = get(m.centre_velocity, l) + spin.cross(at - get(m.centre, l));
                const Vec3 force = each.stiffness * (each.target - at) - each.damping * velocity;
                lanes.add_world_wrench<tangent>(l, at - origin_, force, Vec3::Zero());
                if (tangent) lanes.add_point_spring(l, at - origin_, each.stiffness + each.damping * kappa);
            }
        for (const Bushing& each : bushings_)
            if (each.node / width == b) add_bushing<tangent>(lanes, each, step);
        for (const FlexibleNode& each : flexible_)
            if (each.node / width == b) add_flexible_element<tangent>(lanes, each);
        for (int l = 0; l < count && !loops_.empty(); ++l)
            for (const LoopEnd& end : ends_[width * b + l]) add_loop_wrench<tangent>(lanes, l, end);
        for (const NodeLoad& each : contact_loads_)
            if (each.node / width == b)
                lanes.add_world_wrench<tangent>(each.node % width, pose(each.node).act(each.point) - origin_,
                                                each.force, each.torque);
        for (const NodeLoad& each : loads_)
            if (each.node / width == b) {
                const Pose H = pose(each.node);
                const Vec3 at = H.act(each.point) - origin_;
                if (each.world) lanes.add_world_wrench<tangent>(each.node % width, at, each.force, each.torque);
                else lanes.add_body_wrench<tangent>(each.node % width, at, H.R * each.force, H.R * each.torque);
            }

        if (tangent && exact_)
            for (const NodeHandle& each : handles_)
                if (each.node / width == b) add_exact_damper(lanes, each, m, kappa);

        // wrench that each node transmits, from the outermost of the eight inward
        Eight carried[8] = {none, none, none, none, none, none, none, none};
        for (int l = count - 1; l >= 0; --l) {
            const int i = width * b + l;
            if (!(flags_[i] & chained)) W = none;
            if (flags_[i] & joins) W += summed_[i].W;
            W += load(lanes.wrench[l]);
            carried[l] = W;
            if (tangent && exact_) carried_[i] = W;
            if (flags_[i] & branches) summed_[nodes_[i].parent].W += W;
        }
        transpose(carried);
        const Three z = three(now.R + 6), p = three(now.position) - every(origin_);
        const Six s = {fixed.turns * cross(p, z) + fixed.slides * z, fixed.turns * z};
        lanes.put_screw(s);
        if (tangent) lanes.put_half(carried_along(s, Six{three(carried), three(carried + 3)}), tau);

        for (int l = count - 1; l >= 0; --l) {
            const int i = width * b + l;
            const unsigned char flags = flags_[i];
            if (!exact_ && i < grounded_ && !(flags & fronted)) continue;
            if (flags & general) {
                Eight wrench_carried = none;
                for (int r = 0; r < 6; ++r) wrench_carried[r] = carried[r][l];
                // `below` stays in registers because no function gets its address
                Eight A[6], B[6], right = none;
                if (!(flags & fronted)) {
                    below.settle<tangent>();
                    below.put<tangent>(A, B, right);
                }
                regular = eliminate_general<second, tangent>(step, i, lanes, wrench_carried, torques[l], slopes[l], A,
                                                             B, right) &&
                          regular;
                below.clear<tangent>();
                if (!(flags & (rooted | branches)) && !(flags_[nodes_[i].parent] & fronted))
                    below.take<tangent>(A, B, right);
                continue;
            }
            Eliminated& out = eliminated_[i];
            const Eight screw = load(lanes.screw[l]);
            if (!(flags & chained)) below.clear<tangent>();
            if (tangent) {
                if (flags & joins)
                    for (int r = 0; r < 6; ++r) {
                        below.A[r] += summed_[i].A[r];
                        below.B[r] += summed_[i].B[r];
                    }
                lanes.add_element(l, below.A, below.B);
                out.screw = screw;
                if (nodes_[i].size == 0) {
                    below.settle<true>();
                    out.part = out.upart = none;
                    out.inverse = 0;
                } else {
                    const double* sv = lanes.screw[l];
                    const Eight half = load(lanes.half[l]);
                    const double by_u = below.factor * sum(screw * below.u), by_l = below.factor * sum(screw * below.l);
                    const Eight lft_before = combined(sv, below.A, half), u_before = combined(sv, below.B, half);
                    const Eight lft = lft_before - by_u * below.l, u = u_before - by_l * below.u;
                    const double d = (sum(screw * u_before) + slopes[l]) - by_l * sum(screw * below.u);
                    below.settle<true>();
                    const bool locked = lock_of_[i] >= 0 && locks_[lock_of_[i]].active;
                    if (!locked) {
                        regular = regular && d != 0;
                        negative_ += !(d > 0);
                    }
                    if (locked) {
                        const double by = correction_[i];
                        alignas(64) double uv[width];
                        store(uv, u);
                        for (int r = 0; r < 6; ++r) below.A[r][6] += uv[r] * by;
                        out.part = lft;
                        out.upart = exact_ ? u : none;
                        out.inverse = 0;
                        out.diagonal = d;
                    } else {
                        below.factor = out.inverse = 1 / d;
                        below.l = lft;
                        below.u = u;
                        out.part = out.inverse * lft;
                        out.upart = out.inverse * u;
                    }
                }
                if (flags & rooted) continue;
                const int parent = nodes_[i].parent;
                if (flags_[parent] & fronted) {
                    below.settle<true>();
                    Eight A[6], B[6], unused;
                    below.put<true>(A, B, unused);
                    add_to_front(started<true>(front_of_[parent]), A, B);
                } else if (flags & branches) {
                    below.settle<true>();
                    for (int r = 0; r < 6; ++r) {
                        summed_[parent].A[r] += below.A[r];
                        summed_[parent].B[r] += below.B[r];
                    }
                }
            } else {
                if (flags & joins) below.right += summed_[i].A[0];
                below.right -= load(lanes.wrench[l]);
                const double rho = (torques[l] + sum(screw * below.right)) - below.factor * sum(screw * below.u);
                below.settle<false>();
                out.part[6] = nodes_[i].size == 0 ? 0 : out.inverse == 0 ? rho : rho * out.inverse;
                below.factor = rho;
                below.u = out.upart;
                if (flags & rooted) continue;
                const int parent = nodes_[i].parent;
                if (flags_[parent] & fronted) {
                    below.settle<false>();
                    numbers_[started<false>(front_of_[parent]).right] += below.right;
                } else if (flags & branches) {
                    below.settle<false>();
                    summed_[parent].A[0] += below.right;
                }
            }
        }
    }
    return regular && negative_ == 0;
}

template bool Articulated::inward<false, true>(const Step&);
template bool Articulated::inward<false, false>(const Step&);
template bool Articulated::inward<true, true>(const Step&);
template bool Articulated::inward<true, false>(const Step&);

// --- outward
// ----------------------------------------------------------------------------------------------------------

// Corrections of all coordinates and multipliers, from the world outward. With x_p the correction of the parent and s_p
// its screw,
//     l.eta_parent = l.eta_grandparent + (l.s_p) x_p,
// so that the two products with l do not wait for x_p.
void Articulated::compute_corrections() {
    const int n = static_cast<int>(nodes_.size());
    Eight start = every(0.0);
    start[6] = 1;
    Eight eta = start;  // twist without the step of the node before, which is `x` times `screw`
    Eight screw = every(0.0);
    double x = 0;
    for (int i = 0; i < n; ++i) {
        const unsigned char flags = flags_[i];
        if (i < grounded_ && !(flags & fronted)) {
            if (!in_step_) continue;
            outward_[i] = start;
            continue;
        }
        if (based_[i] || flags & branches) {
            eta = based_[i] ? start : outward_[nodes_[i].parent];
            screw = every(0.0);
            x = 0;
        }
        const Front* front = flags & fronted ? &fronts_[front_of_[i]] : nullptr;
        if (flags & (ball | flexes | attached)) {
            Eight twist = eta + x * screw;
            correct_general(i, twist);
            eta = twist;
            x = 0;
        } else {
            const Eliminated& out = eliminated_[i];
            const Eight part = front ? numbers_[front->part] : out.part;
            const Eight product = part * eta;
            const double with_parent = sum(part * screw);
            const double turn = sum(front ? product + open_part(*front) : product) + with_parent * x;
            eta += x * screw;
            if (out.inverse == 0) rho_[i] = turn;
            else correction_[i] = -turn;
            x = out.inverse == 0 ? correction_[i] : -turn;
            screw = out.screw;
        }
        if (front && front->own) correct_own(*front, eta + x * screw);
        if (in_step_ || flags & (joins | fronted)) outward_[i] = eta + x * screw;
    }
}

// Adds the corrections and returns the largest one of a coordinate, rad, or lengths over the length scale.
double Articulated::outward() {
    compute_corrections();
    Eight most = every(0.0);
    for (int b = grounded_ / width; b < blocks_; ++b) {
        const Eight x = load(&correction_[width * b]) * fixed_[b].free;
        present_[b].q += x;
        most = larger(most, absolute(x) * (fixed_[b].turns + (1.0 - fixed_[b].turns) * (1 / length_scale_)));
    }
    double size = largest(most);
    for (BallNode& node : balls_) {
        node.rotation = node.rotation * so3_exp_short(node.step);
        size = std::max(size, node.step.cwiseAbs().maxCoeff());
        if (!std::isfinite(node.step.sum())) size = INFINITY;
        if (node.shift_axis < 0) continue;
        node.t += node.along.transpose() * node.shift;
        size = std::max(size, node.shift.cwiseAbs().maxCoeff() / length_scale_);
        if (!std::isfinite(node.shift.sum())) size = INFINITY;
    }
    for (FlexibleNode& each : flexible_)
        for (int p = 0; p < each.modes; ++p) {
            each.eta[p] += each.step[p];
            if (!std::isfinite(each.step[p])) size = INFINITY;
            size = std::max(size, std::abs(each.step[p]) / length_scale_);
        }
    for (int r = 0; r < tie_rows_; ++r) multiplier_[r] += tie_step_[r];
    return std::isfinite(sum(most)) ? size : INFINITY;
}

}  // namespace supple
