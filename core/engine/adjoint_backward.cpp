// The sweep backward over recorded time steps: from the gradient of a scalar with respect to the motion to that with
// respect to the inputs.
#include <algorithm>

#include "engine/adjoint.hpp"

namespace supple {

namespace {

// Six numbers of each of eight bodies, and back; bodies[l] < 0: none
Six gather(const double* all, const int* bodies) {
    alignas(64) double rows[width][width] = {};
    for (int l = 0; l < width; ++l)
        if (bodies[l] >= 0) std::copy_n(all + 6 * static_cast<std::size_t>(bodies[l]), 6, rows[l]);
    Eight v[8];
    for (int l = 0; l < width; ++l) v[l] = load(rows[l]);
    transpose(v);
    return {three(v), three(v + 3)};
}

void scatter(const Six& from, double* all, const int* bodies) {
    Eight v[8] = {from.linear.x,  from.linear.y,  from.linear.z, from.angular.x,
                  from.angular.y, from.angular.z, every(0.0),    every(0.0)};
    transpose(v);
    for (int l = 0; l < width; ++l)
        if (bodies[l] >= 0)
            std::copy_n(reinterpret_cast<const double*>(&v[l]), 6, all + 6 * static_cast<std::size_t>(bodies[l]));
}

}  // namespace

Adjoint::Gradient Adjoint::zero_gradient() const {
    const Three none = every(Vec3(0, 0, 0));
    std::vector<FlexibleState> flexible;
    for (const FlexibleBody& each : system_.flexible) flexible.push_back(each.zero_state());
    return {std::vector<Gradient::Bodies>(constants_.size(), {none, none, none, none}),
            std::vector<double>(system_.axes(), 0.0), std::vector<double>(system_.axes(), 0.0), std::move(flexible)};
}

// Poses and coordinates at a record. A wrench (f, t) at the origin, in body axes, is a gradient by displacement of the
// centre and rotation.
void Adjoint::add_objective(const OutputArrays& objective, int record, Gradient& g) {
    const int nb = system_.bodies(), na = system_.axes(), t = tape_->records[record].index;
    if (!objective.poses.empty()) {
        const Frame& frame = posed(record);
        for (std::size_t k = 0; k < constants_.size(); ++k) {
            const Six w = gather(&objective.poses[6 * static_cast<std::size_t>(t) * nb], &body_of_[width * k]);
            const Three f = constants_[k].body_axes * w.linear,
                        m = constants_[k].body_axes * w.angular - cross(constants_[k].arm, f);
            add(g.bodies[k].P, frame.blocks[k].motion.R * f);
            add(g.bodies[k].F, frame.blocks[k].motion.R * m);
        }
    }
    if (objective.coordinates.empty()) return;
    const double* by_q = &objective.coordinates[static_cast<std::size_t>(t) * na];
    for (const Block& block : blocks_) {
        const int a = block.axis;
        if (block.size == 1) {
            g.q[a] += by_q[a];
            continue;
        }
        const Vec3 by_increment = so3_right_jacobian_inverse(Vec3(tape_->q(record) + a)).transpose() * Vec3(by_q + a);
        for (int i = 0; i < 3; ++i) g.q[a + i] += by_increment[i];
    }
}

// z_, z_axes_ and z_rows_ from K^T z = g; `by_multipliers` (rows): gradient with respect to the multipliers, or null
void Adjoint::solve_transposed(const Gradient& g, const double* by_multipliers) {
    if (!by_passes_) {
        right_.assign(system_.unknowns(), 0.0);
        x_.resize(system_.unknowns());
        auto axes_of = [&](int b) {
            return get(bodies_[node_of_[b] / width].motion.R, node_of_[b] % width) * body_in_node_[b].R;
        };
        for (int b : movers_) {
            const Gradient::Bodies& from = g.bodies[node_of_[b] / width];
            const int l = node_of_[b] % width;
            const Mat3 Rt = axes_of(b).transpose();
            Eigen::Map<Vec6>(right_.data() + system_.twist_row(b)) = at_origin(Rt * get(from.P, l), Rt * get(from.F, l),
                                                                               system_.model().group_centre[b]);
        }
        for (int a = 0; a < system_.axes(); ++a) right_[system_.axis_row(a)] = g.q[a];
        for (std::size_t r = 0; by_multipliers && r < z_rows_.size(); ++r)
            right_[system_.row_row(static_cast<int>(r))] = by_multipliers[r];
        system_.solve(right_.data(), x_.data(), true, true);
        for (int b : movers_) {
            const Vec6 z(&x_[system_.twist_row(b)]);
            const Mat3 R = axes_of(b);
            put(z_[node_of_[b] / width].linear, node_of_[b] % width,
                R * velocity_at(z, system_.model().group_centre[b]));
            put(z_[node_of_[b] / width].angular, node_of_[b] % width, R * z.tail<3>());
        }
        for (int a = 0; a < system_.axes(); ++a) z_axes_[a] = x_[system_.axis_row(a)];
        for (std::size_t r = 0; r < z_rows_.size(); ++r) z_rows_[r] = x_[system_.row_row(static_cast<int>(r))];
        return;
    }
    one_.prepare(*passes_);
    const Three origin = every(passes_->origin_);
    for (std::size_t k = 0; k < constants_.size(); ++k) {
        const Gradient::Bodies& from = g.bodies[k];
        const Three moment = from.F + cross(bodies_[k].motion.centre - origin, from.P);
        Eight v[8] = {-from.P.x, -from.P.y, -from.P.z, -moment.x, -moment.y, -moment.z, every(0.0), every(0.0)};
        transpose(v);
        for (int l = 0; l < width; ++l) one_.wrench[width * k + l].v = v[l];
    }
    for (std::size_t i = 0; i < passes_->nodes_.size(); ++i)
        if (passes_->nodes_[i].size == 1) one_.turn[i] = -g.q[passes_->nodes_[i].axis];
    for (std::size_t k = 0; k < passes_->balls_.size(); ++k) {
        const Articulated::BallNode& node = passes_->balls_[k];
        Eigen::Map<Vec3>(one_.ball.data() + 3 * k) = -node.from_joint(Vec3(&g.q[node.axis]));
    }
    for (std::size_t k = 0; k < passes_->loops_.size(); ++k) {
        const Articulated::Loop& loop = passes_->loops_[k];
        for (std::size_t i = 0; i < loop.axes.size(); ++i) {
            const Vec3 moment = g.q[loop.axes[i]] * free_axis(static_cast<int>(k), static_cast<int>(i));
            const Eight w{0, 0, 0, moment[0], moment[1], moment[2], 0, 0};
            one_.wrench[loop.slot[0]].v -= w;
            one_.wrench[loop.slot[1]].v += w;
        }
    }
    if (by_multipliers) {
        for (const Articulated::Lock& lock : passes_->locks_)
            if (lock.active) one_.locked[lock.node] = by_multipliers[lock.system_row] / lock.coefficient;
        for (const Articulated::Coupling& coupling : passes_->couplings_)
            if (coupling.system_row >= 0) one_.tie[coupling.row] = -by_multipliers[coupling.system_row];
    }
    passes_->substitute(one_, true);
    for (std::size_t k = 0; k < constants_.size(); ++k) {
        Eight v[8];
        for (int l = 0; l < width; ++l) v[l] = one_.twist[width * k + l].v;
        transpose(v);
        z_[k].angular = three(v + 3);
        z_[k].linear = three(v) + cross(z_[k].angular, bodies_[k].motion.centre - origin);
    }
    for (std::size_t i = 0; i < passes_->nodes_.size(); ++i)
        if (passes_->nodes_[i].size == 1) z_axes_[passes_->nodes_[i].axis] = one_.turn[i];
    for (std::size_t k = 0; k < passes_->balls_.size(); ++k) {
        const Articulated::BallNode& node = passes_->balls_[k];
        Eigen::Map<Vec3>(z_axes_.data() + node.axis) = node.to_joint(Vec3(&one_.ball[3 * k]));
    }
    for (std::size_t k = 0; k < passes_->loops_.size(); ++k) {
        const Articulated::Loop& loop = passes_->loops_[k];
        const Eight turn = one_.twist[loop.slot[0]].v - one_.twist[loop.slot[1]].v;
        for (std::size_t i = 0; i < loop.axes.size(); ++i)
            z_axes_[loop.axes[i]] = free_axis(static_cast<int>(k), static_cast<int>(i))
                                        .dot(Vec3(turn[3], turn[4], turn[5]));
    }
    for (const Articulated::Lock& lock : passes_->locks_)
        z_rows_[lock.system_row] = lock.active ? one_.reaction[lock.node] / lock.coefficient : 0.0;
    for (const Articulated::Coupling& coupling : passes_->couplings_)
        if (coupling.system_row >= 0) z_rows_[coupling.system_row] = one_.tie[coupling.row];
}

InputArrays Adjoint::backward(OutputArrays objective) {
    carry_to_groups(objective);
    const int nb = system_.bodies(), na = system_.axes(), nr = static_cast<int>(system_.model().rows.size()),
              ns = static_cast<int>(system_.model().springs.size());
    const std::size_t blocks = constants_.size();
    InputArrays result;
    InputArrays::visit(result, [&](const char* name, std::vector<double>& all) {
        all.assign(size_of(name == std::string("velocities") ? "start_velocities" : name), 0.0);
    });
    const Three none = every(Vec3(0, 0, 0));
    struct ByBody {  // gradients by constants of eight bodies, in the axes of the nodes
        Eight mass;
        Three centre;
        Turn inertia;
    };
    std::vector<ByBody> by_body(blocks, {every(0.0), none, {none, none, none}});
    Three by_gravity = none;
    Vec3 by_flexible_gravity = Vec3::Zero();
    Gradient g = zero_gradient(), last = g, before = g;
    const Gradient zero = g;

    for (int i = static_cast<int>(tape_->records.size()) - 1; i >= 2; --i) {
        const TapeRecord& record = tape_->records[i];
        const Step& step = record.step;
        const int t = record.index;
        const double c = step.c0 / step.h, c1 = step.c1 / step.h, c2 = step.c2 / step.h;
        const bool at_end = record.share == 1;
        if (at_end) add_objective(objective, i, g);
        linearise(i);
        const Frame &frame1 = posed(i - 1), &frame2 = posed(i - 2);

        // momenta (m f, R I s) and velocities (R^T f - s x arm, s), as functions of poses
        const double* by_velocity = at_end && !objective.velocities.empty()
                                        ? &objective.velocities[6 * static_cast<std::size_t>(t) * nb]
                                        : nullptr;
        for (std::size_t k = 0; k < blocks; ++k) {
            const Articulated::ExactBody& body = bodies_[k];
            const Articulated::Motion& m = body.motion;
            const Constants& fixed = constants_[k];
            Gradient::Bodies& to = g.bodies[k];
            Three by_f = fixed.mass * to.linear,
                  by_s = times_inertia(fixed.inertia, product_transposed(m.R, to.angular));
            by_body[k].mass += dot(m.centre_velocity, to.linear);
            add(to.F, cross(m.L, to.angular));
            if (by_velocity) {
                const Six v = gather(by_velocity, &body_of_[width * k]);
                const Three linear = fixed.body_axes * v.linear, angular = fixed.body_axes * v.angular,
                            turned = m.R * linear;
                add(by_f, turned);
                add(by_s, angular - cross(fixed.arm, linear));
                add(to.F, cross(turned, m.centre_velocity));
                add(by_body[k].centre, cross(m.spin, linear));
            }
            add(to.P, c * by_f);
            add(to.F, product_transposed(body.spin_by_turn, by_s));
            by_motion_[k] = {by_f, by_s};
        }
        // armature momenta, as functions of coordinates
        auto through_rate = [&](const Block& block, const Vec3& by_rate, bool present) {
            const int a = block.axis;
            if (block.size == 1) {
                if (present) g.q[a] += c * by_rate[0];
                last.q[a] += c1 * by_rate[0];
                before.q[a] += c2 * by_rate[0];
                return;
            }
            Gradient* to[3] = {&g, &last, &before};
            for (int k = present ? 0 : 1; k < 3; ++k) {
                const Vec3 by_increment = block.by_increment[k].transpose() * by_rate;
                for (int n = 0; n < 3; ++n) to[k]->q[a + n] += by_increment[n];
            }
        };
        for (const Block& block : blocks_) {
            Vec3 by_rate = Vec3::Zero();
            for (int n = 0; n < block.size; ++n) {
                const int axis = block.axis + n;
                result.armature[axis] += block.rate[n] * g.p[axis];
                by_rate[n] = system_.model().armature[axis] * g.p[axis];
            }
            through_rate(block, by_rate, true);
        }

        pull_back_flexible(step, g, last, before, result.materials.data());
        solve_transposed(g, at_end && !objective.multipliers.empty()
                                ? &objective.multipliers[static_cast<std::size_t>(t) * nr]
                                : nullptr);
        add_flexible_past(step, last, before, by_flexible_gravity, result.materials.data());

        for (const Handle& handle : system_.handles) {  // its damper: -d (f + omega x a) at the point
            const int k = node_of_[handle.body] / width, l = node_of_[handle.body] % width;
            const Articulated::Motion& m = bodies_[k].motion;
            const Mat3 R = get(m.R, l);
            const Vec3 a = R * Vec3(body_in_node_[handle.body].R *
                                    Vec3(handle.point - system_.model().group_centre[handle.body]));
            const Vec3 omega = R * get(m.spin, l);
            const Vec3 force = -handle.damping * (get(z_[k].linear, l) + get(z_[k].angular, l).cross(a));
            put(by_motion_[k].linear, l, get(by_motion_[k].linear, l) + force);
            put(by_motion_[k].angular, l, get(by_motion_[k].angular, l) + R.transpose() * a.cross(force));
            put(by_body[k].centre, l, get(by_body[k].centre, l) + R.transpose() * omega.cross(force));
        }
        for (std::size_t k = 0; k < blocks; ++k) {
            const Articulated::ExactBody& body = bodies_[k];
            const Articulated::Motion& m = body.motion;
            const Constants& fixed = constants_[k];
            const Six& z = z_[k];
            const Three z_turn = product_transposed(m.R, z.angular);
            const Three by_f = by_motion_[k].linear - (c * fixed.mass) * z.linear;
            const Three by_s = by_motion_[k].angular - c * times_inertia(fixed.inertia, z_turn);
            Gradient::Bodies &to1 = last.bodies[k], &to2 = before.bodies[k];
            const Three by_turn = product_transposed(body.spin_by_turn, by_s);
            add(to1.P, c1 * by_f);
            subtract(to1.F, by_turn);
            subtract(to1.linear, c1 * z.linear);
            subtract(to1.angular, c1 * z.angular);
            Three by_centre = product_transposed(m.R, c * by_f + cross(body.force, z.angular)) +
                              c1 * product_transposed(frame1.blocks[k].motion.R, by_f);
            if (c2 != 0) {
                const Three by_past = product_transposed(past_spin_[k], by_s);
                add(to1.F, by_past);
                add(to2.P, c2 * by_f);
                subtract(to2.F, by_past);
                subtract(to2.linear, c2 * z.linear);
                subtract(to2.angular, c2 * z.angular);
                add(by_centre, c2 * product_transposed(frame2.blocks[k].motion.R, by_f));
            }
            ByBody& by = by_body[k];
            by.mass += dot(every(system_.gravity) - c * m.centre_velocity, z.linear);
            add(by.centre, by_centre);
            const Three on_momentum = product_transposed(m.R, g.bodies[k].angular) - c * z_turn;
            add(by.inertia.x, m.spin.x * on_momentum);
            add(by.inertia.y, m.spin.y * on_momentum);
            add(by.inertia.z, m.spin.z * on_momentum);
            add(by_gravity, fixed.mass * z.linear);
            const Three z_origin = product_transposed(m.R, z.linear) - cross(z_turn, fixed.arm);
            scatter({product_transposed(fixed.body_axes, z_origin), product_transposed(fixed.body_axes, z_turn)},
                    &result.wrenches[6 * static_cast<std::size_t>(i - 1) * nb], &body_of_[width * k]);
        }
        const double* q = tape_->q(i);
        for (const Block& block : blocks_) {
            Vec3 z = Vec3::Zero(), by_rate = Vec3::Zero();
            for (int n = 0; n < block.size; ++n) z[n] = z_axes_[block.axis + n];
            // Of springs and drives on coordinates
            const Vec3 by_torque = block.size == 3 ? Vec3(block.of_vector * z) : z;
            for (int n = 0; n < block.size; ++n) {
                const int axis = block.axis + n;
                result.torques[static_cast<std::size_t>(t) * na + axis] += by_torque[n];
                result.stiffness[axis] -= by_torque[n] * (q[axis] - system_.rest[axis]);
                result.rest[static_cast<std::size_t>(t) * na + axis] += by_torque[n] * spring_slope(axis);
                result.damping[axis] -= z[n] * block.rate[n];
                result.armature[axis] -= z[n] * c * block.rate[n];
                by_rate[n] = -z[n] * (system_.model().damping[axis] + c * system_.model().armature[axis]);
                last.p[axis] -= c1 * z[n];
                before.p[axis] -= c2 * z[n];
            }
            through_rate(block, by_rate, false);
        }
        for (int s = 0; s < ns; ++s) {
            const Spring& spring = system_.model().springs[s];
            const double length = sum_of(spring.of, q), z = sum_of(spring.of, z_axes_.data());
            result.spring_stiffness[s] -= z * (length - system_.spring_rest[s]);
            result.spring_rest[static_cast<std::size_t>(t) * ns + s] += z * coupling_slope(s);
            result.spring_damping[s] -= z * step.rate(length, sum_of(spring.of, tape_->q(i - 1)),
                                                      sum_of(spring.of, tape_->q(i - 2)));
            for (std::size_t n = 0; n < spring.of.axes.size(); ++n) {
                last.q[spring.of.axes[n]] -= z * spring.damping * c1 * spring.of.coefficients[n];
                before.q[spring.of.axes[n]] -= z * spring.damping * c2 * spring.of.coefficients[n];
            }
        }
        for (int r = 0; r < nr; ++r) {
            if (!system_.model().rows[r].equality) continue;
            const double share = share_of(r);
            result.targets[static_cast<std::size_t>(t) * nr + r] += share * z_rows_[r];
            if (share < 1) result.targets[static_cast<std::size_t>(t - 1) * nr + r] += (1 - share) * z_rows_[r];
        }
        std::swap(g, last);
        std::swap(last, before);
        before = zero;
    }

    add_objective(objective, 1, g);
    for (int b : movers_) {
        const int k = node_of_[b] / width, l = node_of_[b] % width;
        const Mat3& in = body_in_node_[b].R;
        result.mass[b] = by_body[k].mass[l];
        Eigen::Map<Vec3>(&result.centre[3 * b]) = in.transpose() * get(by_body[k].centre, l);
        Eigen::Map<Mat3>(&result.inertia[9 * b]) = Mat3(in.transpose() * get(by_body[k].inertia, l) * in);
    }
    Eigen::Map<Vec3>(result.gravity.data()) = sum(by_gravity) + by_flexible_gravity;
    if (!objective.velocities.empty()) std::copy_n(objective.velocities.begin(), 6 * nb, result.velocities[1].begin());
    pull_back_start(1, g, result);
    if (tape_->uses_two_steps) pull_back_start(0, last, result);
    carry_from_groups(result);
    return result;
}

}  // namespace supple
