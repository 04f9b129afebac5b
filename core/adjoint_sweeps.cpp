// The sweeps over recorded time steps: backward for a gradient, forward for directions of the inputs.
#include <algorithm>

#include "adjoint.hpp"

namespace supple {

namespace {

Vec3 velocity_at(const Vec6& twist, const Vec3& point) { return twist.head<3>() + twist.tail<3>().cross(point); }

Vec6 six(const std::vector<double>& all, int i) { return Eigen::Map<const Vec6>(all.data() + 6 * i); }
Vec3 three(const std::vector<double>& all, int i) { return Eigen::Map<const Vec3>(all.data() + 3 * i); }
Mat3 nine(const std::vector<double>& all, int i) { return Eigen::Map<const Mat3>(all.data() + 9 * i); }

template <class Vector>
void add(std::vector<double>& all, int i, const Vector& value) {
    constexpr int n = Vector::SizeAtCompileTime;
    for (int k = 0; k < n; ++k) all[n * i + k] += value.data()[k];
}

double sum_of(const Combination& of, const double* values) {
    double sum = 0;
    for (std::size_t i = 0; i < of.axes.size(); ++i) sum += of.coefficients[i] * values[of.axes[i]];
    return sum;
}

}  // namespace

InputArrays Adjoint::backward(const OutputArrays& objective) {
    const int nb = system_.bodies(), na = system_.axes(), nr = static_cast<int>(system_.rows.size()),
              ns = static_cast<int>(system_.springs.size());
    InputArrays result;
    InputArrays::visit(result, [&](const char* name, std::vector<double>& all) {
        all.assign(size_of(name == std::string("velocities") ? "start_velocities" : name), 0.0);
    });
    Variation g = zero(), last = zero(), before = zero();
    std::vector<Vec6> by_velocity(nb, Vec6::Zero());

    auto add_objective = [&](const TapeRecord& record) {
        const int t = record.index;
        for (int b = 0; b < nb; ++b) {
            if (!objective.poses.empty()) g.H[b] += six(objective.poses, t * nb + b);
            if (!objective.velocities.empty()) by_velocity[b] = six(objective.velocities, t * nb + b);
        }
        if (objective.coordinates.empty()) return;
        for (const Block& block : blocks_) {
            const double* by_q = &objective.coordinates[static_cast<std::size_t>(t) * na + block.axis];
            if (block.size == 1) {
                g.q[block.axis] += by_q[0];
                continue;
            }
            const Vec3 q(&record.q[block.axis]);
            const Vec3 by_increment = so3_right_jacobian_inverse(q).transpose() * Vec3(by_q);
            for (int i = 0; i < 3; ++i) g.q[block.axis + i] += by_increment[i];
        }
    };

    right_.resize(system_.unknowns());
    z_.resize(system_.unknowns());
    for (int i = static_cast<int>(tape_->records.size()) - 1; i >= 2; --i) {
        const TapeRecord& record = tape_->records[i];
        const Step& step = record.step;
        const int t = record.index;
        const double c = step.c0 / step.h, c1 = step.c1 / step.h, c2 = step.c2 / step.h;
        if (record.share == 1) add_objective(record);
        linearise(i);

        // momenta and velocities, as functions of poses
        for (int b = 0; b < nb; ++b) {
            const BodyStep& body = bodies_[b];
            const Mat3 Rt = record.H[b].R.transpose();
            const Vec3 by_linear = by_velocity[b].head<3>(), seen = Rt * g.M[b].tail<3>();
            const Vec6 by_motion = body.momentum_by_motion.transpose() * g.M[b] + body.velocity_by_motion.transpose() * by_velocity[b];
            result.mass[b] += body.flight.dot(g.M[b].head<3>());
            add(result.centre, b, Vec3(body.by_centre.transpose() * by_motion.head<3>() + body.spin.cross(by_linear)));
            add(result.inertia, b, Mat3(seen * body.spin.transpose()));
            g.H[b] += body.by_twist[0].transpose() * by_motion;
            g.H[b].tail<3>() += body.momentum_by_turn.transpose() * g.M[b].tail<3>() + by_linear.cross(Vec3(Rt * body.flight));
            last.H[b] += body.by_twist[1].transpose() * by_motion;
            before.H[b] += body.by_twist[2].transpose() * by_motion;
            by_velocity[b].setZero();
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
            Variation* to[3] = {&g, &last, &before};
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
                by_rate[n] = system_.armature[axis] * g.p[axis];
            }
            through_rate(block, by_rate, true);
        }

        std::fill(right_.begin(), right_.end(), 0.0);
        for (int b = 0; b < nb; ++b) Eigen::Map<Vec6>(right_.data() + system_.twist_row(b)) = g.H[b];
        for (int axis = 0; axis < na; ++axis) right_[system_.axis_row(axis)] = g.q[axis];
        solve(right_.data(), z_.data(), true);

        for (int b = 0; b < nb; ++b) {
            const BodyStep& body = bodies_[b];
            const Vec6 z = Eigen::Map<const Vec6>(z_.data() + system_.twist_row(b));
            const Vec6 by_motion = body.wrench_by_motion.transpose() * z, by_past = body.wrench_by_past.transpose() * z;
            last.H[b] += body.by_twist[1].transpose() * by_motion;
            before.H[b] += body.by_twist[2].transpose() * by_motion;
            last.M[b] += c1 * by_past;
            before.M[b] += c2 * by_past;
            add(result.wrenches, (i - 1) * nb + b, z);
            result.mass[b] += body.wrench_by_mass.dot(z);
            add(result.centre, b, Vec3(body.wrench_by_centre.transpose() * z));
            add(result.inertia, b, Mat3(-c * (Vec3(z.tail<3>()) * body.spin.transpose())));
            add(result.gravity, 0, Vec3(system_.mass[b] * (record.H[b].R * velocity_at(z, system_.centre[b]))));
        }
        for (const Block& block : blocks_) {
            Vec3 z = Vec3::Zero(), by_rate = Vec3::Zero();
            for (int n = 0; n < block.size; ++n) z[n] = z_[system_.axis_row(block.axis + n)];
            const Vec3 on_spring = block.size == 3 ? Vec3(block.of_vector * z) : z;
            for (int n = 0; n < block.size; ++n) {
                const int axis = block.axis + n;
                result.stiffness[axis] -= on_spring[n] * (record.q[axis] - system_.rest[axis]);
                result.rest[static_cast<std::size_t>(t) * na + axis] += on_spring[n] * spring_slope(axis);
                result.damping[axis] -= z[n] * block.rate[n];
                result.armature[axis] -= z[n] * c * block.rate[n];
                by_rate[n] = -z[n] * (system_.damping[axis] + c * system_.armature[axis]);
                last.p[axis] -= c1 * z[n];
                before.p[axis] -= c2 * z[n];
            }
            through_rate(block, by_rate, false);
        }
        for (int s = 0; s < ns; ++s) {
            const Spring& spring = system_.springs[s];
            const double length = spring.of.value(record.q);
            double z = 0;
            for (std::size_t n = 0; n < spring.of.axes.size(); ++n)
                z += spring.of.coefficients[n] * z_[system_.axis_row(spring.of.axes[n])];
            result.spring_stiffness[s] -= z * (length - spring.rest);
            result.spring_rest[static_cast<std::size_t>(t) * ns + s] += z * coupling_slope(s);
            result.spring_damping[s] -= z * step.rate(length, history_.length[s], history_.length_before[s]);
            for (std::size_t n = 0; n < spring.of.axes.size(); ++n) {
                last.q[spring.of.axes[n]] -= z * spring.damping * c1 * spring.of.coefficients[n];
                before.q[spring.of.axes[n]] -= z * spring.damping * c2 * spring.of.coefficients[n];
            }
        }
        for (int r = 0; r < nr; ++r) {
            if (!system_.rows[r].equality) continue;
            const auto& driven = record.inputs->driven;
            const double z = z_[system_.row_row(r)];
            const double share = std::find(driven.begin(), driven.end(), r) == driven.end() ? 1.0 : record.share;
            result.targets[static_cast<std::size_t>(t) * nr + r] += share * z;
            if (share < 1) result.targets[static_cast<std::size_t>(t - 1) * nr + r] += (1 - share) * z;
        }
        std::swap(g, last);
        std::swap(last, before);
        std::fill(before.H.begin(), before.H.end(), Vec6::Zero());
        std::fill(before.M.begin(), before.M.end(), Vec6::Zero());
        std::fill(before.q.begin(), before.q.end(), 0.0);
        std::fill(before.p.begin(), before.p.end(), 0.0);
    }

    const TapeRecord& start = tape_->records[1];
    add_objective(start);
    for (int b = 0; b < nb; ++b) {  // M = (m R (v + w x c), R I w)
        const Mat3 Rt = start.H[b].R.transpose();
        const Vec3 linear = Rt * g.M[b].head<3>(), angular = Rt * g.M[b].tail<3>();
        const Vec3 w = tape_->velocity[b].tail<3>(), flight = velocity_at(tape_->velocity[b], system_.centre[b]);
        const double m = system_.mass[b];
        by_velocity[b] += stack(m * linear, m * system_.centre[b].cross(linear) + system_.inertia[b] * angular);
        g.H[b].tail<3>() += m * flight.cross(linear) + Vec3(system_.inertia[b] * w).cross(angular);
        result.mass[b] += flight.dot(linear);
        add(result.centre, b, Vec3(m * linear.cross(w)));
        add(result.inertia, b, Mat3(angular * w.transpose()));
        add(result.twists, b, g.H[b]);
        add(result.velocities, b, by_velocity[b]);
    }
    for (int axis = 0; axis < na; ++axis) {
        result.increments[axis] = g.q[axis];
        result.rates[axis] = system_.armature[axis] * g.p[axis];
        result.armature[axis] += tape_->rate[axis] * g.p[axis];
    }
    return result;
}

// Whether a direction of the inputs enters the step, or the part of a divided one, that ends at a record.
bool Adjoint::acts(const InputArrays& d, int record) const {
    for (const auto* constant : {&d.stiffness, &d.damping, &d.armature, &d.spring_stiffness, &d.spring_damping, &d.mass,
                                 &d.centre, &d.inertia, &d.gravity})
        if (!constant->empty()) return true;
    auto nonzero = [](const std::vector<double>& all, std::size_t width, int first, int last) {
        const auto from = all.begin() + width * first, to = all.begin() + width * (last + 1);
        return !all.empty() && std::any_of(from, to, [](double value) { return value != 0; });
    };
    const TapeRecord& end = tape_->records[record];
    const int time = end.index, first = end.share < 1 ? time - 1 : time;
    for (const auto* over_time : {&d.targets, &d.rest, &d.spring_rest})
        if (nonzero(*over_time, over_time->size() / times(), first, time)) return true;
    return nonzero(d.wrenches, 6 * system_.bodies(), record - 1, record - 1);
}

void Adjoint::record_motion(const Variation& now, const std::vector<double>& velocity, int time, OutputArrays& out) const {
    const int nb = system_.bodies(), na = system_.axes();
    if (!out.poses.empty())
        for (int b = 0; b < nb; ++b) Eigen::Map<Vec6>(out.poses.data() + 6 * (static_cast<std::size_t>(time) * nb + b)) = now.H[b];
    if (!out.velocities.empty())
        std::copy(velocity.begin(), velocity.end(), out.velocities.begin() + static_cast<std::ptrdiff_t>(time) * 6 * nb);
    if (out.coordinates.empty()) return;
    double* q = &out.coordinates[static_cast<std::size_t>(time) * na];
    std::copy(now.q.begin(), now.q.end(), q);
    for (const Block& block : blocks_) {
        if (block.size == 1) continue;
        const Vec3 vector(&tape_->records[tape_->ends[time]].q[block.axis]);
        const Vec3 moved = so3_right_jacobian_inverse(vector) * Vec3(&now.q[block.axis]);
        for (int i = 0; i < 3; ++i) q[block.axis + i] = moved[i];
    }
}

std::vector<OutputArrays> Adjoint::forward(const std::vector<InputArrays>& directions, bool coordinates, bool poses,
                                           bool velocities) {
    const int nb = system_.bodies(), na = system_.axes(), nr = static_cast<int>(system_.rows.size()),
              ns = static_cast<int>(system_.springs.size()), columns = static_cast<int>(directions.size());
    std::vector<OutputArrays> result(columns);
    std::vector<Variation> now(columns, zero()), last = now, before = now;
    std::vector<char> moves(columns, 0);
    std::vector<double> velocity(6 * nb, 0.0);
    for (int k = 0; k < columns; ++k) {
        const InputArrays& d = directions[k];
        if (coordinates) result[k].coordinates.assign(size_of("coordinates"), 0.0);
        if (poses) result[k].poses.assign(size_of("poses"), 0.0);
        if (velocities) result[k].velocities.assign(size_of("velocities"), 0.0);
        // the start: M = (m R (v + w x c), R I w), p = armature x rate
        const TapeRecord& start = tape_->records[1];
        std::fill(velocity.begin(), velocity.end(), 0.0);
        for (int b = 0; b < nb; ++b) {
            const Mat3 &R = start.H[b].R, &I = system_.inertia[b];
            const Vec6& V = tape_->velocity[b];
            const Vec3 w = V.tail<3>(), flight = velocity_at(V, system_.centre[b]);
            const double m = system_.mass[b];
            const Vec6 dV = d.velocities.empty() ? Vec6(Vec6::Zero()) : six(d.velocities, b);
            if (!d.twists.empty()) now[k].H[b] = six(d.twists, b);
            const Vec3 turn = now[k].H[b].tail<3>();
            Vec3 linear = m * velocity_at(dV, system_.centre[b]) + m * turn.cross(flight);
            Vec3 angular = I * dV.tail<3>() + turn.cross(Vec3(I * w));
            if (!d.mass.empty()) linear += d.mass[b] * flight;
            if (!d.centre.empty()) linear += m * w.cross(three(d.centre, b));
            if (!d.inertia.empty()) angular += nine(d.inertia, b) * w;
            now[k].M[b] = stack(R * linear, R * angular);
            Eigen::Map<Vec6>(velocity.data() + 6 * b) = dV;
        }
        if (!d.increments.empty()) now[k].q = d.increments;
        for (int axis = 0; axis < na; ++axis) {
            if (!d.rates.empty()) now[k].p[axis] += system_.armature[axis] * d.rates[axis];
            if (!d.armature.empty()) now[k].p[axis] += tape_->rate[axis] * d.armature[axis];
        }
        for (const auto* part : {&d.twists, &d.velocities, &d.increments, &d.rates})
            moves[k] = moves[k] || std::any_of(part->begin(), part->end(), [](double value) { return value != 0; });
        record_motion(now[k], velocity, 0, result[k]);
    }

    std::vector<int> moving;
    std::vector<double> right, x;
    for (std::size_t i = 2; i < tape_->records.size(); ++i) {
        const TapeRecord& record = tape_->records[i];
        const Step& step = record.step;
        const int t = record.index;
        const double c = step.c0 / step.h, c1 = step.c1 / step.h, c2 = step.c2 / step.h;
        std::swap(before, last);
        std::swap(last, now);
        moving.clear();
        for (int k = 0; k < columns; ++k) {
            moves[k] = moves[k] || acts(directions[k], static_cast<int>(i));
            if (moves[k]) moving.push_back(k);
        }
        if (moving.empty()) continue;
        linearise(static_cast<int>(i));
        const std::size_t n = system_.unknowns();
        right.assign(n * moving.size(), 0.0);
        x.resize(right.size());

        auto past_rate = [&](const Block& block, int k) {
            const int a = block.axis;
            if (block.size == 1) return Vec3(c1 * last[k].q[a] + c2 * before[k].q[a], 0, 0);
            return Vec3(block.by_increment[1] * Vec3(&last[k].q[a]) + block.by_increment[2] * Vec3(&before[k].q[a]));
        };
        for (std::size_t column = 0; column < moving.size(); ++column) {
            const int k = moving[column];
            const InputArrays& d = directions[k];
            double* to = right.data() + column * n;
            for (int b = 0; b < nb; ++b) {
                const BodyStep& body = bodies_[b];
                Vec6 w = body.wrench_by_motion * (body.by_twist[1] * last[k].H[b] + body.by_twist[2] * before[k].H[b]) +
                         body.wrench_by_past * (c1 * last[k].M[b] + c2 * before[k].M[b]);
                if (!d.wrenches.empty()) w += six(d.wrenches, (static_cast<int>(i) - 1) * nb + b);
                if (!d.mass.empty()) w += d.mass[b] * body.wrench_by_mass;
                if (!d.centre.empty()) w += body.wrench_by_centre * three(d.centre, b);
                if (!d.inertia.empty()) w.tail<3>() -= c * (nine(d.inertia, b) * body.spin);
                if (!d.gravity.empty())
                    w += at_origin(system_.mass[b] * (record.H[b].R.transpose() * three(d.gravity, 0)), Vec3::Zero(), system_.centre[b]);
                Eigen::Map<Vec6>(to + system_.twist_row(b)) = w;
            }
            for (const Block& block : blocks_) {
                const Vec3 rate = past_rate(block, k);
                Vec3 spring = Vec3::Zero();
                for (int m = 0; m < block.size; ++m) {
                    const int axis = block.axis + m;
                    double torque = (system_.damping[axis] + c * system_.armature[axis]) * rate[m] + c1 * last[k].p[axis] +
                                    c2 * before[k].p[axis];
                    if (!d.damping.empty()) torque += d.damping[axis] * block.rate[m];
                    if (!d.armature.empty()) torque += d.armature[axis] * c * block.rate[m];
                    to[system_.axis_row(axis)] -= torque;
                    if (!d.stiffness.empty()) spring[m] += d.stiffness[axis] * (record.q[axis] - system_.rest[axis]);
                    if (!d.rest.empty()) spring[m] -= spring_slope(axis) * d.rest[static_cast<std::size_t>(t) * na + axis];
                }
                if (block.size == 3) spring = block.of_vector.transpose() * spring;
                for (int m = 0; m < block.size; ++m) to[system_.axis_row(block.axis + m)] -= spring[m];
            }
            for (int s = 0; s < ns; ++s) {
                const Spring& spring = system_.springs[s];
                const double length = spring.of.value(record.q);
                double force = spring.damping * (c1 * sum_of(spring.of, last[k].q.data()) + c2 * sum_of(spring.of, before[k].q.data()));
                if (!d.spring_stiffness.empty()) force += d.spring_stiffness[s] * (length - spring.rest);
                if (!d.spring_rest.empty()) force -= coupling_slope(s) * d.spring_rest[static_cast<std::size_t>(t) * ns + s];
                if (!d.spring_damping.empty())
                    force += d.spring_damping[s] * step.rate(length, history_.length[s], history_.length_before[s]);
                for (std::size_t m = 0; m < spring.of.axes.size(); ++m)
                    to[system_.axis_row(spring.of.axes[m])] -= spring.of.coefficients[m] * force;
            }
            for (int r = 0; r < nr && !d.targets.empty(); ++r) {
                if (!system_.rows[r].equality) continue;
                const auto& driven = record.inputs->driven;
                const double share = std::find(driven.begin(), driven.end(), r) == driven.end() ? 1.0 : record.share;
                to[system_.row_row(r)] = share * d.targets[static_cast<std::size_t>(t) * nr + r] +
                                         (1 - share) * d.targets[static_cast<std::size_t>(t - 1) * nr + r];
            }
        }
        solve(right.data(), x.data(), false, static_cast<int>(moving.size()));

        for (std::size_t column = 0; column < moving.size(); ++column) {
            const int k = moving[column];
            const InputArrays& d = directions[k];
            const double* from = x.data() + column * n;
            for (int b = 0; b < nb; ++b) {
                const BodyStep& body = bodies_[b];
                const Mat3& R = record.H[b].R;
                const Vec6 twist = Eigen::Map<const Vec6>(from + system_.twist_row(b));
                const Vec3 turn = twist.tail<3>();
                Vec6 motion = body.by_twist[0] * twist + body.by_twist[1] * last[k].H[b] + body.by_twist[2] * before[k].H[b];
                if (!d.centre.empty()) motion.head<3>() += body.by_centre * three(d.centre, b);
                Vec6 momentum = body.momentum_by_motion * motion;
                momentum.tail<3>() += body.momentum_by_turn * turn;
                if (!d.mass.empty()) momentum.head<3>() += d.mass[b] * body.flight;
                if (!d.inertia.empty()) momentum.tail<3>() += R * (nine(d.inertia, b) * body.spin);
                now[k].H[b] = twist;
                now[k].M[b] = momentum;
                if (!velocities) continue;
                Vec6 moved = body.velocity_by_motion * motion;
                moved.head<3>() += Vec3(R.transpose() * body.flight).cross(turn);
                if (!d.centre.empty()) moved.head<3>() -= body.spin.cross(three(d.centre, b));
                Eigen::Map<Vec6>(velocity.data() + 6 * b) = moved;
            }
            for (int axis = 0; axis < na; ++axis) now[k].q[axis] = from[system_.axis_row(axis)];
            for (const Block& block : blocks_) {
                const int a = block.axis;
                Vec3 rate = past_rate(block, k);
                if (block.size == 1)
                    rate[0] += c * now[k].q[a];
                else
                    rate += block.by_increment[0] * Vec3(&now[k].q[a]);
                for (int m = 0; m < block.size; ++m)
                    now[k].p[a + m] = system_.armature[a + m] * rate[m] + (d.armature.empty() ? 0.0 : d.armature[a + m] * block.rate[m]);
            }
            if (record.share == 1) record_motion(now[k], velocity, t, result[k]);
        }
    }
    return result;
}

std::vector<double> Adjoint::recorded_velocities() {
    const int nb = system_.bodies();
    std::vector<double> result(size_of("velocities"));
    for (int b = 0; b < nb; ++b) Eigen::Map<Vec6>(result.data() + 6 * b) = tape_->velocity[b];
    for (int t = 1; t < times(); ++t) {
        const TapeRecord& record = tape_->records[tape_->ends[t]];
        linearise(tape_->ends[t], false);
        for (int b = 0; b < nb; ++b) {
            const BodyStep& body = bodies_[b];
            const Vec3 linear = record.H[b].R.transpose() * body.flight - body.spin.cross(system_.centre[b]);
            Eigen::Map<Vec6>(result.data() + 6 * (static_cast<std::size_t>(t) * nb + b)) = stack(linear, body.spin);
        }
    }
    return result;
}

}  // namespace supple
