// Recorded steps: the exact tangent at the end of a step, and solutions with it and with its transpose.
#include "engine/articulated_exact.hpp"

#include <algorithm>

namespace supple {

Articulated::Articulated(const Articulated& passes, const System& system)
    : Articulated(std::any_of(passes.balls_.begin(), passes.balls_.end(),
                              [](const BallNode& node) { return node.shift_axis >= 0; })
                      ? Articulated(system, Use::derivatives)
                      : passes) {
    system_ = &system;
    past_ = nullptr;
    responses_.reset();
    for (Coupling& coupling : couplings_) coupling.idle = 0;  // any of them may resist in one of the recorded steps
    if (flexible_.empty()) lay_out_fronts();
}

bool Articulated::can_be_exact() const {
    return !*uncovered_ && flexible_.empty() && bushings_.empty() &&
           std::all_of(unresisted_.begin(), unresisted_.end(), [](double flag) { return flag == 0; });
}

void Articulated::place(const double* q) {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (nodes_[i].size == 1) present_[i / width].q[i % width] = q[nodes_[i].axis];
    for (BallNode& node : balls_) {
        node.set_joint_rotation(so3_exp(Vec3(q + node.axis)));
        if (node.shift_axis >= 0) node.t = Vec3(q + node.shift_axis);
    }
    for (FlexibleNode& each : flexible_) {
        const double* amplitudes = q + system_->model().joints[each.interfaces[0].joint].first;
        each.eta.assign(amplitudes, amplitudes + each.modes);
    }
    forward();
}

void Articulated::place_slots(const double* q, State& state) {
    place(q);
    for (int b = 0; b < blocks_; ++b) {
        std::copy_n(present_[b].R, 9, state.slots[b].R);
        std::copy_n(present_[b].position, 3, state.slots[b].position);
    }
}

Mat3 Articulated::ball_axes(const Loop& loop) const {
    Mat3 axes;  // the coordinates are components along the joint's own axes
    for (int i = 0; i < 3; ++i) axes.col(i) = system_->model().twists[loop.axes[i]].tail<3>();
    return axes;
}

bool Articulated::factorise_exactly(State& past, const Step& step, const ExactBody* bodies, const signed char* active,
                                    const double* lambda, const double* const q[3], const double* const p[3]) {
    const double c = step.c0 / step.h;
    past_ = &past;
    soft_scale_ = system_->model().stiffness_scale + mean_mass_ * length_scale_ * length_scale_ * c * c;
    origin_ = pose(std::min<int>(grounded_, nodes_.size() - 1)).p;
    for (BallNode& node : balls_) {
        node.set_joint_rotation(so3_exp(Vec3(q[0] + node.axis)));
        State::Ball& ball = past.balls[node.index];
        ball.rotation = so3_exp(Vec3(q[1] + node.axis));
        ball.rotation_before = so3_exp(Vec3(q[2] + node.axis));
        ball.p = Vec3(p[1] + node.axis);
        ball.p_before = Vec3(p[2] + node.axis);
    }
    for (std::size_t k = 0; k < bushings_.size(); ++k) {
        past.bushings[k].q = Vec6(q[1] + bushings_[k].axis);
        past.bushings[k].q_before = Vec6(q[2] + bushings_[k].axis);
    }
    freeze_directions(present_);
    for (std::size_t k = 0; k < loops_.size(); ++k) {
        const Joint& joint = system_->model().joints[loops_[k].joint];
        const Pose frame = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child;
        multipliers_of(loops_[k], pose(loops_[k].slot[0]), frame, Vec6(lambda + 6 * k), length_scale_,
                       &multiplier_[loops_[k].first]);
    }
    for (Coupling& coupling : couplings_)
        if (coupling.system_row >= 0) coupling.active = active[coupling.system_row];
    bool locked_twice = false;  // two active rows lock the same coordinate
    for (Lock& lock : locks_) {
        const bool first = &locks_[lock_of_[lock.node]] == &lock;
        locked_twice = locked_twice || (!first && active[lock.system_row]);
        lock.active = active[lock.system_row];
    }
    decay_ = 0;
    carried_.resize(width * blocks_);
    exact_ = bodies;
    const bool regular = step.c2 != 0 ? inward<true, true>(step) : inward<false, true>(step);
    exact_ = nullptr;
    return regular && !locked_twice;
}

// `inward` approximates the derivative of the velocity of a handle's point by (c0/h) (v + w x arm) for a twist (v, w)
// of the body. The velocity is f + omega x a with the velocity f of the centre of mass, omega = R s and the arm a from
// the centre of mass to the point. This function adds the missing terms, R ds x a + w x (omega x a) - (c0/h) w x a.
void Articulated::add_exact_damper(Lanes& lanes, const NodeHandle& handle, const Motion& m, double kappa) const {
    const int l = handle.node % width;
    const Vec3 at = pose(handle.node).act(handle.point), a = at - get(m.centre, l), omega = get(m.R * m.spin, l);
    const Mat3 omega_by_turn = get(m.R, l) * get(exact_[handle.node / width].spin_by_turn, l);
    const Mat3 missing = -handle.damping * (skew(a) * omega_by_turn + skew(omega.cross(a)) - kappa * skew(a));
    lanes.make_skewed(l);
    lanes.add_block(l, 0, 3, missing);
    lanes.add_block(l, 3, 3, skew(at - origin_) * missing);
}

Vec6 Articulated::joint_wrench(int j) const {
    const Joint& joint = system_->model().joints[j];
    const int node = joint_node_[j];
    const double sign = held_along(j) ? 1 : -1;
    const Pose frame = joint.child < 0 ? joint.pose_child : body_pose(joint.child) * joint.pose_child;
    const Eight& W = carried_[node];
    const Vec3 force(W[0], W[1], W[2]), moment = Vec3(W[3], W[4], W[5]) - (frame.p - origin_).cross(force);
    return sign * stack(frame.R.transpose() * force, frame.R.transpose() * moment);
}

// The pass inward uses u and the pass outward l; for the transpose it is the other way round. Flexible bodies have no
// transpose.
template <class Column>
void Articulated::substitute(Solution<Column>& columns, bool transposed, const char* inward_nodes,
                             const char* outward_nodes) const {
    using Number = typename Column::Number;
    const int n = static_cast<int>(nodes_.size());
    struct Vectors {  // of a coordinate or multiplier: six numbers, and those of the open ties
        const Eight* six;
        const double* ties;
    };
    auto vectors = [&](bool left, int i, const Front* front) -> Vectors {
        if (!front) return {left ? &eliminated_[i].part : &eliminated_[i].upart, nullptr};
        const Eight* at = &numbers_[left ? front->part : front->upart];
        return {at, reinterpret_cast<const double*>(at + 1)};
    };
    auto ball_vectors = [&](bool left, const BallNode& node, int k, int chunks) -> Vectors {
        return {left ? &node.part[k] : &node.upart[k],
                reinterpret_cast<const double*>(&numbers_[(left ? node.parts : node.uparts) + k * chunks])};
    };
    auto own_vectors = [&](bool left, const Front& front, int a) -> Vectors {
        const Eight* at = &numbers_[(left ? front.X : front.Y) + a * (1 + front.chunks)];
        return {at, reinterpret_cast<const double*>(at + 1)};
    };

    Column chain;  // contribution of the next node, which is a child of this one
    for (int i = n - 1; i >= 0; --i) {
        if (inward_nodes && !inward_nodes[i]) continue;
        const Front* front = flags_[i] & fronted ? &fronts_[front_of_[i]] : nullptr;
        const int m = front ? front->open : 0, own = front ? front->own : 0;
        Column right = columns.wrench[i];
        if (flags_[i] & chained && (!inward_nodes || inward_nodes[i + 1])) right.add(chain);
        auto add_column = [&](const Number& by, const Vectors& from) {
            right.add(by, *from.six);
            for (int k = 0; k < m; ++k) columns.tie[front->rows[k]] += by * from.ties[front->lanes[k]];
        };
        if (own) {
            Number y[width * most_chunks];
            const double* inverse = numbers(numbers_[front->inverse]);  // by columns
            const int next = width * front->own_chunks;
            for (int a = 0; a < own; ++a) {
                const Number& right_a = columns.tie[front->rows[m + a]];
                add_column(-right_a, own_vectors(transposed, *front, a));
                for (int b = 0; b < own; ++b) {
                    const Number term = (transposed ? inverse[b * next + a] : inverse[a * next + b]) * right_a;
                    y[b] = a ? y[b] + term : term;
                }
            }
            for (int a = 0; a < own; ++a) columns.tie[front->rows[m + a]] = y[a];
        }
        if (nodes_[i].size == 1) {
            const Eliminated& out = eliminated_[i];
            const Number rho = columns.turn[i] + right.product(out.screw);
            columns.turn[i] = out.inverse == 0 ? rho : out.inverse * rho;
            if (out.inverse != 0) add_column(-rho, vectors(transposed, i, front));
            else add_column(columns.locked[i], vectors(transposed, i, front));
        } else if (nodes_[i].size == 3) {
            const BallNode& node = balls_[ball_of_[i]];
            Number* turn = &columns.ball[3 * ball_of_[i]];
            Number rho[3];
            for (int k = 0; k < 3; ++k) rho[k] = turn[k] + right.product(node.screw[k]);
            for (int k = 0; k < 3; ++k) {
                turn[k] = rho[0] * 0.0;
                for (int j = 0; j < 3; ++j) turn[k] += (transposed ? node.inverse(j, k) : node.inverse(k, j)) * rho[j];
                add_column(-rho[k], ball_vectors(transposed, node, k, front ? front->chunks : 0));
            }
            for (int k = 0; node.shift_axis >= 0 && k < 3; ++k) {
                Number& shift = columns.shift[3 * ball_of_[i] + k];
                shift = right.product(unit_eight(0)) * node.compliance(k, 0);
                for (int j = 1; j < 3; ++j) shift += right.product(unit_eight(j)) * node.compliance(k, j);
            }
        } else if (flags_[i] & flexes) {
            const FlexibleNode& body = flexible_at(i);
            Number* amplitude = &columns.amplitude[body.first];
            body.solve(amplitude);
            auto row = [&](int r) {
                const double* by = reinterpret_cast<const double*>(&body.U[r * body.chunks]);
                Number y = amplitude[0] * by[0];
                for (int p = 1; p < body.modes; ++p) y += amplitude[p] * by[p];
                return y;
            };
            for (int r = 0; r < 6; ++r) right.add(-row(r), unit_eight(r));
            for (int k = 0; k < m; ++k) columns.tie[front->rows[k]] -= row(6 + front->lanes[k]);
        } else if (flags_[i] & attached) {
            const FlexibleNode& body = flexible_at(i);
            const Attachment& interface = attachment_at(i);
            for (int p = 0; p < body.modes; ++p)
                columns.amplitude[body.first + p] += right.product(body.screw_of(interface, p));
        }
        if (flags_[i] & branches) columns.wrench[nodes_[i].parent].add(right);
        else chain = right;
    }

    for (int i = 0; i < n; ++i) {
        if (outward_nodes && !outward_nodes[i]) continue;
        const Front* front = flags_[i] & fronted ? &fronts_[front_of_[i]] : nullptr;
        const int m = front ? front->open : 0, own = front ? front->own : 0;
        Column& twist = columns.twist[i];
        twist = i == 0 ? Column{} : columns.twist[nodes_[i].parent];
        auto back_substitute = [&](const Number& rho, const Vectors& from) {
            Number y = rho + twist.product(*from.six);
            for (int k = 0; k < m; ++k) y += from.ties[front->lanes[k]] * columns.tie[front->rows[k]];
            return -y;
        };
        if (nodes_[i].size == 1) {
            const Eliminated& out = eliminated_[i];
            Number turn = back_substitute(columns.turn[i], vectors(!transposed, i, front));
            if (out.inverse == 0) {
                columns.reaction[i] = turn - out.diagonal * columns.locked[i];
                turn = columns.locked[i];
            }
            columns.turn[i] = turn;
            twist.add(turn, out.screw);
        } else if (nodes_[i].size == 3) {
            const BallNode& node = balls_[ball_of_[i]];
            for (int k = 0; node.shift_axis >= 0 && k < 3; ++k)
                twist.add(-columns.shift[3 * ball_of_[i] + k], unit_eight(k));
            Number* turn = &columns.ball[3 * ball_of_[i]];
            for (int k = 0; k < 3; ++k)
                turn[k] = back_substitute(turn[k], ball_vectors(!transposed, node, k, front ? front->chunks : 0));
            for (int k = 0; k < 3; ++k) twist.add(turn[k], node.screw[k]);
        } else if (flags_[i] & flexes) {
            const FlexibleNode& body = flexible_at(i);
            for (int p = 0; p < body.modes; ++p) {
                const Eight* part = &body.part[p * body.wide];
                Number& amplitude = columns.amplitude[body.first + p];
                amplitude = back_substitute(amplitude, {part, reinterpret_cast<const double*>(part + 1)});
            }
        } else if (flags_[i] & attached) {
            const FlexibleNode& body = flexible_at(i);
            const Attachment& interface = attachment_at(i);
            for (int p = 0; p < body.modes; ++p)
                twist.add(columns.amplitude[body.first + p], body.screw_of(interface, p));
        }
        for (int a = 0; a < own; ++a) {
            Number& step = columns.tie[front->rows[m + a]];
            step = back_substitute(step, own_vectors(!transposed, *front, a));
        }
    }
}
template void Articulated::substitute<OneColumn>(Solution<OneColumn>&, bool, const char*, const char*) const;
template void Articulated::substitute<EightColumns>(Solution<EightColumns>&, bool, const char*, const char*) const;

}  // namespace supple
