// The sweep forward over recorded time steps: from directions of the inputs to derivatives of the motion, eight
// directions at a time.
#include <algorithm>

#include "engine/adjoint.hpp"

namespace supple {

namespace {

SUPPLE_INLINE Three operator*(const Mat3& M, const Three& v) {
    return {M(0, 0) * v.x + M(0, 1) * v.y + M(0, 2) * v.z, M(1, 0) * v.x + M(1, 1) * v.y + M(1, 2) * v.z,
            M(2, 0) * v.x + M(2, 1) * v.y + M(2, 2) * v.z};
}
SUPPLE_INLINE Three cross(const Vec3& a, const Three& b) {
    return {a[1] * b.z - a[2] * b.y, a[2] * b.x - a[0] * b.z, a[0] * b.y - a[1] * b.x};
}
SUPPLE_INLINE Three operator*(const Eight& s, const Vec3& a) { return {s * a[0], s * a[1], s * a[2]}; }
SUPPLE_INLINE void add(Three& to, int column, const Vec3& more) { put(to, column, get(to, column) + more); }

Vec6 six(const std::vector<double>& all, std::size_t i) { return Vec6(all.data() + 6 * i); }
Vec3 three(const std::vector<double>& all, int i) { return Vec3(all.data() + 3 * i); }
Mat3 nine(const std::vector<double>& all, int i) { return Eigen::Map<const Mat3>(all.data() + 9 * i); }

const Six no_six = {every(Vec3(0, 0, 0)), every(Vec3(0, 0, 0))};

}  // namespace

// Whether a direction of the inputs enters the step, or the part of a divided one, that ends at a record.
bool Adjoint::acts(const InputArrays& d, int record) const {
    for (const auto* constant : {&d.stiffness, &d.damping, &d.armature, &d.spring_stiffness, &d.spring_damping, &d.mass,
                                 &d.centre, &d.inertia, &d.gravity, &d.materials})
        if (!constant->empty()) return true;
    auto nonzero = [](const std::vector<double>& all, std::size_t length, int first, int last) {
        const auto from = all.begin() + length * first, to = all.begin() + length * (last + 1);
        return !all.empty() && std::any_of(from, to, [](double value) { return value != 0; });
    };
    const TapeRecord& end = tape_->records[record];
    const int time = end.index, first = end.share < 1 ? time - 1 : time;
    for (const auto* over_time : {&d.targets, &d.rest, &d.spring_rest, &d.torques})
        if (nonzero(*over_time, over_time->size() / times(), first, time)) return true;
    return nonzero(d.wrenches, 6 * system_.bodies(), record - 1, record - 1);
}

// twists_, axes_ and rows_ (multipliers) from wrenches_ at the centres of mass, axes_ and rows_ (motions)
void Adjoint::solve_forward() {
    if (!by_passes_) {
        const std::size_t n = system_.unknowns();
        right_.assign(width * n, 0.0);
        x_.resize(width * n);
        for (int column = 0; column < width; ++column) {
            double* to = right_.data() + column * n;
            for (int b : movers_) {
                const int i = node_of_[b];
                const Mat3 Rt = Mat3(get(bodies_[i / width].motion.R, i % width) * body_in_node_[b].R).transpose();
                Eigen::Map<Vec6>(to + system_.twist_row(b)) = at_origin(Rt * get(wrenches_[i].linear, column),
                                                                        Rt * get(wrenches_[i].angular, column),
                                                                        system_.model().group_centre[b]);
            }
            for (int a = 0; a < system_.axes(); ++a) to[system_.axis_row(a)] = axes_[a][column];
            for (std::size_t r = 0; r < system_.model().rows.size(); ++r)
                to[system_.row_row(static_cast<int>(r))] = rows_[r][column];
        }
        system_.solve(right_.data(), x_.data(), false, true, width);
        for (int column = 0; column < width; ++column) {
            const double* from = x_.data() + column * n;
            for (int b : movers_) {
                const int i = node_of_[b];
                const Mat3 R = get(bodies_[i / width].motion.R, i % width) * body_in_node_[b].R;
                const Vec6 twist(from + system_.twist_row(b));
                put(twists_[i].linear, column, R * velocity_at(twist, system_.model().group_centre[b]));
                put(twists_[i].angular, column, R * twist.tail<3>());
            }
            for (int a = 0; a < system_.axes(); ++a) axes_[a][column] = from[system_.axis_row(a)];
            for (std::size_t r = 0; r < system_.model().rows.size(); ++r)
                rows_[r][column] = from[system_.row_row(static_cast<int>(r))];
        }
        return;
    }
    eight_.prepare(*passes_);
    const Articulated& passes = *passes_;
    auto arm = [&](int node) { return Vec3(get(bodies_[node / width].motion.centre, node % width) - passes.origin_); };
    for (int b : movers_) {
        const int i = node_of_[b];
        eight_.wrench[i].v = {-1.0 * wrenches_[i].linear,
                              -1.0 * (wrenches_[i].angular + cross(arm(i), wrenches_[i].linear))};
    }
    for (std::size_t i = 0; i < passes.nodes_.size(); ++i)
        if (passes.nodes_[i].size == 1) eight_.turn[i] = -axes_[passes.nodes_[i].axis];
    for (std::size_t k = 0; k < passes.balls_.size(); ++k) {
        const Articulated::BallNode& node = passes.balls_[k];
        for (int column = 0; column < width; ++column) {
            const Vec3 torque = node.from_joint(
                {axes_[node.axis][column], axes_[node.axis + 1][column], axes_[node.axis + 2][column]});
            for (int n = 0; n < 3; ++n) eight_.ball[3 * k + n][column] = -torque[n];
        }
    }
    for (std::size_t k = 0; k < passes.loops_.size(); ++k) {
        const Articulated::Loop& loop = passes.loops_[k];
        for (std::size_t i = 0; i < loop.axes.size(); ++i) {
            const Three moment = axes_[loop.axes[i]] * free_axis(static_cast<int>(k), static_cast<int>(i));
            subtract(eight_.wrench[loop.slot[0]].v.angular, moment);
            add(eight_.wrench[loop.slot[1]].v.angular, moment);
        }
    }
    for (const Articulated::Lock& lock : passes.locks_)
        if (lock.active) eight_.locked[lock.node] = (1 / lock.coefficient) * rows_[lock.system_row];
    for (const Articulated::Coupling& coupling : passes.couplings_)
        if (coupling.system_row >= 0) eight_.tie[coupling.row] = -rows_[coupling.system_row];
    passes_->substitute(eight_, false);
    for (const Articulated::Lock& lock : passes.locks_)
        rows_[lock.system_row] = lock.active ? (1 / lock.coefficient) * eight_.reaction[lock.node] : every(0.0);
    for (const Articulated::Coupling& coupling : passes.couplings_)
        if (coupling.system_row >= 0) rows_[coupling.system_row] = eight_.tie[coupling.row];
    for (int b : movers_) {
        const int i = node_of_[b];
        const Six& v = eight_.twist[i].v;
        twists_[i] = {v.linear - cross(arm(i), v.angular), v.angular};
    }
    for (std::size_t i = 0; i < passes.nodes_.size(); ++i)
        if (passes.nodes_[i].size == 1) axes_[passes.nodes_[i].axis] = eight_.turn[i];
    for (std::size_t k = 0; k < passes.balls_.size(); ++k) {
        const Articulated::BallNode& node = passes.balls_[k];
        for (int column = 0; column < width; ++column) {
            const Eight* from = &eight_.ball[3 * k];
            const Vec3 step = node.to_joint({from[0][column], from[1][column], from[2][column]});
            for (int n = 0; n < 3; ++n) axes_[node.axis + n][column] = step[n];
        }
    }
    for (std::size_t k = 0; k < passes.loops_.size(); ++k) {
        const Articulated::Loop& loop = passes.loops_[k];
        const Three turn = eight_.twist[loop.slot[0]].v.angular - eight_.twist[loop.slot[1]].v.angular;
        for (std::size_t i = 0; i < loop.axes.size(); ++i) {
            const Vec3 axis = free_axis(static_cast<int>(k), static_cast<int>(i));
            axes_[loop.axes[i]] = axis[0] * turn.x + axis[1] * turn.y + axis[2] * turn.z;
        }
    }
}

// The step that ends at the linearised record.
void Adjoint::step_tangents(const InputArrays* directions, int count, Tangents& now, const Tangents& last,
                            const Tangents& before, std::vector<Six>& velocities) {
    const int nb = system_.bodies(), na = system_.axes(), nr = static_cast<int>(system_.model().rows.size()),
              ns = static_cast<int>(system_.model().springs.size());
    const TapeRecord& record = tape_->records[record_];
    const Step& step = record.step;
    const double c = step.c0 / step.h, c1 = step.c1 / step.h, c2 = step.c2 / step.h;
    const std::size_t t = record.index;
    const double* q = tape_->q(record_);
    const Frame* frames[3] = {&posed(record_), &posed(record_ - 1), &posed(record_ - 2)};
    auto any = [&](auto member) {
        return std::any_of(directions, directions + count, [&](const InputArrays& d) { return !(d.*member).empty(); });
    };
    const bool with_mass = any(&InputArrays::mass) || any(&InputArrays::centre) || any(&InputArrays::inertia) ||
                           any(&InputArrays::gravity);
    const bool with_wrench = any(&InputArrays::wrenches), with_centre = any(&InputArrays::centre);

    // velocities f of the centres and spins s, as far as they do not depend on the pose at the end; in `velocities`
    for (int b : movers_) {
        const int i = node_of_[b], k = i / width, l = i % width;
        const Articulated::ExactBody& body = bodies_[k];
        const Articulated::Motion& m = body.motion;
        const Mat3 R = get(m.R, l), &in = body_in_node_[b].R,
                   I = in * system_.model().group_inertia[b] * in.transpose();
        const Vec3 spin = get(m.spin, l), centre_velocity = get(m.centre_velocity, l), force = get(body.force, l);
        const double mass = system_.model().group_mass[b];
        Three df = c1 * last.H[i].linear + c2 * before.H[i].linear;
        Three ds = get(body.spin_by_turn, l) * (-1.0 * last.H[i].angular);
        if (c2 != 0) add(ds, get(past_spin_[k], l) * (last.H[i].angular - before.H[i].angular));
        Three F = every(Vec3(0, 0, 0)), T = F;
        if (with_centre) {
            Mat3 by_centre = Mat3::Zero();
            for (int s = 0; s < 3; ++s)
                by_centre += (s == 0 ? c : s == 1 ? c1 : c2) * get(frames[s]->blocks[k].motion.R, l);
            for (int column = 0; column < count; ++column) {
                if (directions[column].centre.empty()) continue;
                const Vec3 moved = in * three(directions[column].centre, b);
                add(df, column, by_centre * moved);
                add(T, column, Vec3(R * moved).cross(force));
            }
        }
        velocities[i] = {df, ds};
        add(F, (-c * mass) * df - c1 * last.M[i].linear - c2 * before.M[i].linear);
        add(T, (-c) * (R * (I * ds)) - c1 * last.M[i].angular - c2 * before.M[i].angular);
        for (int column = 0; with_mass && column < count; ++column) {
            const InputArrays& d = directions[column];
            if (!d.mass.empty()) add(F, column, d.mass[b] * (system_.gravity - c * centre_velocity));
            if (!d.inertia.empty())
                add(T, column, -c * (R * Vec3(in * Vec3(nine(d.inertia, b) * Vec3(in.transpose() * spin)))));
            if (!d.gravity.empty()) add(F, column, mass * three(d.gravity, 0));
        }
        for (int column = 0; with_wrench && column < count; ++column) {
            if (directions[column].wrenches.empty()) continue;
            const Vec6 w = six(directions[column].wrenches, static_cast<std::size_t>(record_ - 1) * nb + b);
            const Mat3 axes = R * in;
            add(F, column, axes * w.head<3>());
            add(T, column, axes * Vec3(w.tail<3>() - system_.model().group_centre[b].cross(Vec3(w.head<3>()))));
        }
        wrenches_[i] = {F, T};
    }
    for (const Handle& handle : system_.handles) {  // its damper: -d (f + omega x a) at the point
        const int b = handle.body, i = node_of_[b], k = i / width, l = i % width;
        const Articulated::Motion& m = bodies_[k].motion;
        const Mat3 R = get(m.R, l), &in = body_in_node_[b].R;
        const Vec3 a = R * Vec3(in * Vec3(handle.point - system_.model().group_centre[b])), omega = R * get(m.spin, l);
        Three force = velocities[i].linear - cross(a, R * velocities[i].angular);
        for (int column = 0; with_centre && column < count; ++column)
            if (!directions[column].centre.empty()) {  // that of the group
                const int by = system_.model().carrier[b];
                add(force, column,
                    -omega.cross(Vec3(R * Vec3(body_in_node_[by].R * three(directions[column].centre, by)))));
            }
        force = -handle.damping * force;
        add(wrenches_[i].linear, force);
        add(wrenches_[i].angular, cross(a, force));
    }

    auto past_rate = [&](const Block& block, Eight* rate) {
        const int a = block.axis;
        for (int m = 0; m < block.size; ++m) {
            rate[m] = every(0.0);
            if (block.size == 1) rate[m] = c1 * last.q[a] + c2 * before.q[a];
            for (int n = 0; block.size == 3 && n < 3; ++n)
                rate[m] += block.by_increment[1](m, n) * last.q[a + n] + block.by_increment[2](m, n) * before.q[a + n];
        }
    };
    for (const Block& block : blocks_) {
        Eight rate[3], spring[3];  // springs, less the torques of drives, on coordinates
        past_rate(block, rate);
        for (int m = 0; m < block.size; ++m) {
            const int axis = block.axis + m;
            Eight torque = (system_.model().damping[axis] + c * system_.model().armature[axis]) * rate[m] +
                           c1 * last.p[axis] + c2 * before.p[axis];
            spring[m] = every(0.0);
            for (int column = 0; column < count; ++column) {
                const InputArrays& d = directions[column];
                if (!d.damping.empty()) torque[column] += d.damping[axis] * block.rate[m];
                if (!d.armature.empty()) torque[column] += d.armature[axis] * c * block.rate[m];
                if (!d.stiffness.empty()) spring[m][column] += d.stiffness[axis] * (q[axis] - system_.rest[axis]);
                if (!d.rest.empty()) spring[m][column] -= spring_slope(axis) * d.rest[t * na + axis];
                if (!d.torques.empty()) spring[m][column] -= d.torques[t * na + axis];
            }
            axes_[axis] = -torque;
        }
        for (int m = 0; m < block.size; ++m)
            for (int n = 0; n < block.size; ++n)
                axes_[block.axis + m] -= (block.size == 3 ? block.of_vector(n, m) : 1.0) * spring[n];
    }
    for (int s = 0; s < ns; ++s) {
        const Spring& spring = system_.model().springs[s];
        const double length = sum_of(spring.of, q);
        Eight force = spring.damping *
                      (c1 * sum_of(spring.of, last.q.data()) + c2 * sum_of(spring.of, before.q.data()));
        for (int column = 0; column < count; ++column) {
            const InputArrays& d = directions[column];
            if (!d.spring_stiffness.empty()) force[column] += d.spring_stiffness[s] * (length - system_.spring_rest[s]);
            if (!d.spring_rest.empty()) force[column] -= coupling_slope(s) * d.spring_rest[t * ns + s];
            if (!d.spring_damping.empty())
                force[column] += d.spring_damping[s] * step.rate(length, sum_of(spring.of, tape_->q(record_ - 1)),
                                                                 sum_of(spring.of, tape_->q(record_ - 2)));
        }
        for (std::size_t m = 0; m < spring.of.axes.size(); ++m)
            axes_[spring.of.axes[m]] -= spring.of.coefficients[m] * force;
    }
    for (int r = 0; r < nr; ++r) {
        rows_[r] = every(0.0);
        if (!system_.model().rows[r].equality) continue;
        const double share = share_of(r);
        for (int column = 0; column < count; ++column) {
            const std::vector<double>& targets = directions[column].targets;
            if (targets.empty()) continue;
            rows_[r][column] = share * targets[t * nr + r] +
                               (share < 1 ? (1 - share) * targets[(t - 1) * nr + r] : 0.0);
        }
    }

    add_flexible_forces(directions, count, last, before);
    solve_forward();

    for (int b : movers_) {
        const int i = node_of_[b], k = i / width, l = i % width;
        const Articulated::ExactBody& body = bodies_[k];
        const Articulated::Motion& m = body.motion;
        const Mat3 R = get(m.R, l), Rt = R.transpose(), &in = body_in_node_[b].R,
                   I = in * system_.model().group_inertia[b] * in.transpose();
        const Vec3 spin = get(m.spin, l), centre_velocity = get(m.centre_velocity, l);
        const Six& H = now.H[i] = twists_[i];
        const Three df = velocities[i].linear + c * H.linear,
                    ds = velocities[i].angular + get(body.spin_by_turn, l) * H.angular;
        Six& M = now.M[i] = {system_.model().group_mass[b] * df, R * (I * ds) - cross(get(m.L, l), H.angular)};
        // of (R^T f - s x arm, s), in body axes
        const Vec3 arm = in * system_.model().group_centre[b];
        Three v = Rt * (df + cross(centre_velocity, H.angular)) + cross(arm, ds);
        for (int column = 0; with_mass && column < count; ++column) {
            const InputArrays& d = directions[column];
            if (!d.mass.empty()) add(M.linear, column, d.mass[b] * centre_velocity);
            if (!d.inertia.empty())
                add(M.angular, column, R * Vec3(in * Vec3(nine(d.inertia, b) * Vec3(in.transpose() * spin))));
            if (!d.centre.empty()) add(v, column, -spin.cross(Vec3(in * three(d.centre, b))));
        }
        velocities[i] = {Mat3(in.transpose()) * v, Mat3(in.transpose()) * ds};
    }
    now.q = axes_;
    now.mu = rows_;
    step_flexible(directions, count, now, last, before);
    for (const Block& block : blocks_) {
        Eight rate[3];
        past_rate(block, rate);
        for (int m = 0; m < block.size; ++m) {
            const int axis = block.axis + m;
            if (block.size == 1) rate[m] += c * now.q[axis];
            for (int n = 0; block.size == 3 && n < 3; ++n)
                rate[m] += block.by_increment[0](m, n) * now.q[block.axis + n];
            now.p[axis] = system_.model().armature[axis] * rate[m];
            for (int column = 0; column < count; ++column)
                if (!directions[column].armature.empty())
                    now.p[axis][column] += directions[column].armature[axis] * block.rate[m];
        }
    }
}

void Adjoint::write_tangents(const Tangents& now, const std::vector<Six>& velocities, int time, int count,
                             OutputArrays* out) {
    const int nb = system_.bodies(), na = system_.axes(), record = tape_->ends[time];
    const std::size_t first = static_cast<std::size_t>(time) * nb;
    for (int b = 0; !out->poses.empty() && b < nb; ++b) {
        const Mat3 Rt = body_pose(posed(record), b).R.transpose();
        const Six& H = now.H[node_of_[b]];
        const Three turn = Rt * H.angular, moved = Rt * H.linear + cross(system_.model().group_centre[b], turn);
        for (int column = 0; column < count; ++column)
            Eigen::Map<Vec6>(&out[column].poses[6 * (first + b)]) = stack(get(moved, column), get(turn, column));
    }
    for (int b = 0; !out->velocities.empty() && b < nb; ++b) {
        const Mat6 to_body = adjoint(system_.model().in_carrier[b].inverse());
        for (int column = 0; column < count; ++column)
            Eigen::Map<Vec6>(
                &out[column].velocities[6 * (first + b)]) = to_body *
                                                            get(velocities[node_of_[system_.model().carrier[b]]],
                                                                column);
    }
    for (int column = 0; !out->multipliers.empty() && column < count; ++column)
        for (std::size_t r = 0; r < rows_.size(); ++r)
            out[column].multipliers[time * rows_.size() + r] = now.mu[r][column];
    for (int column = 0; !out->coordinates.empty() && column < count; ++column) {
        double* q = &out[column].coordinates[static_cast<std::size_t>(time) * na];
        for (int axis = 0; axis < na; ++axis) q[axis] = now.q[axis][column];
        for (const Block& block : blocks_)
            if (block.size == 3)
                Eigen::Map<Vec3>(q + block.axis) = so3_right_jacobian_inverse(Vec3(tape_->q(record) + block.axis)) *
                                                   Vec3(q + block.axis);
    }
}

std::vector<OutputArrays> Adjoint::forward(std::vector<InputArrays> directions, bool coordinates, bool poses,
                                           bool velocities, bool multipliers) {
    const int na = system_.axes(), columns = static_cast<int>(directions.size());
    for (InputArrays& each : directions) carry_to_groups(each);
    std::vector<OutputArrays> result(columns);
    for (OutputArrays& out : result) {
        if (coordinates) out.coordinates.assign(size_of("coordinates"), 0.0);
        if (poses) out.poses.assign(size_of("poses"), 0.0);
        if (velocities) out.velocities.assign(size_of("velocities"), 0.0);
        if (multipliers) out.multipliers.assign(size_of("multipliers"), 0.0);
    }
    struct Group {  // of eight directions
        int first = 0, count = 0;
        bool moves = false;
        Tangents now, last, before;
        std::vector<Six> velocities;
    };
    const std::vector<Six> still(body_of_.size(), no_six);
    const std::vector<Eight> none(na, every(0.0));
    std::vector<FlexibleState> flexible;
    for (const FlexibleBody& each : system_.flexible) flexible.insert(flexible.end(), width, each.zero_state());
    const Tangents zero{still, still, none, none, std::vector<Eight>(rows_.size(), every(0.0)), flexible};
    std::vector<Group> groups;
    for (int first = 0; first < columns; first += width) {
        Group& group = groups.emplace_back(
            Group{first, std::min(width, columns - first), false, zero, zero, zero, still});
        const InputArrays* d = &directions[first];
        if (tape_->uses_two_steps) start_tangents(0, d, group.count, group.last, group.velocities);
        start_tangents(1, d, group.count, group.now, group.velocities);
        for (int column = 0; column < group.count; ++column)
            for (const auto* states : {d[column].twists, d[column].velocities, d[column].increments, d[column].rates})
                for (const auto* part : {&states[0], &states[1]})
                    group.moves = group.moves ||
                                  std::any_of(part->begin(), part->end(), [](double value) { return value != 0; });
        write_tangents(group.now, group.velocities, 0, group.count, &result[first]);
    }
    for (int i = 2; i < static_cast<int>(tape_->records.size()); ++i) {
        bool linearised = false;
        for (Group& group : groups) {
            const InputArrays* d = &directions[group.first];
            group.moves = group.moves ||
                          std::any_of(d, d + group.count, [&](const InputArrays& each) { return acts(each, i); });
            if (!group.moves) continue;
            if (!linearised) linearise(i);
            linearised = true;
            std::swap(group.before, group.last);
            std::swap(group.last, group.now);
            step_tangents(d, group.count, group.now, group.last, group.before, group.velocities);
            if (tape_->records[i].share == 1)
                write_tangents(group.now, group.velocities, tape_->records[i].index, group.count, &result[group.first]);
        }
    }
    return result;
}

}  // namespace supple
