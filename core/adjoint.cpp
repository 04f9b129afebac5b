// The equations of a recorded time step, linearised and factorised.
#include "adjoint.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace supple {

Adjoint::Adjoint(const System& system, std::shared_ptr<const Tape> tape) : system_(system), tape_(std::move(tape)), tree_(system_) {
    system_.active_fixed = true;
    system_.gravity = tape_->gravity;
    bodies_.resize(system_.bodies());
    wrenches_.resize(system_.bodies());
    slopes_.resize(system_.axes());
    for (const Joint& joint : system_.joints) {
        int axis = joint.first;
        for (int size : joint.blocks) {
            blocks_.emplace_back().axis = axis;
            blocks_.back().size = size;
            axis += size;
        }
    }
    const int nb = system_.bodies(), na = system_.axes(), ns = static_cast<int>(system_.springs.size());
    history_.turn.assign(nb, Vec3::Zero());
    history_.centre.resize(nb);
    history_.centre_before.resize(nb);
    history_.rate.assign(na, 0.0);
    history_.rate_before = history_.rate;
    history_.length.resize(ns);
    history_.length_before.resize(ns);
}

std::size_t Adjoint::size_of(const std::string& input) const {
    const std::size_t nb = system_.bodies(), na = system_.axes(), nt = times(), parts = tape_->records.size() - 1;
    if (input == "twists" || input == "start_velocities") return 6 * nb;
    if (input == "increments" || input == "rates" || input == "stiffness" || input == "damping" || input == "armature") return na;
    if (input == "targets") return nt * system_.rows.size();
    if (input == "rest" || input == "coordinates") return nt * na;
    if (input == "spring_rest") return nt * system_.springs.size();
    if (input == "wrenches") return 6 * parts * nb;
    if (input == "poses" || input == "velocities") return 6 * nt * nb;
    if (input == "spring_stiffness" || input == "spring_damping") return system_.springs.size();
    if (input == "mass") return nb;
    if (input == "centre") return 3 * nb;
    if (input == "inertia") return 9 * nb;
    if (input == "gravity") return 3;
    throw std::invalid_argument("no such array: " + input);
}

Adjoint::Variation Adjoint::zero() const {
    const int nb = system_.bodies(), na = system_.axes();
    return {std::vector<Vec6>(nb, Vec6::Zero()), std::vector<Vec6>(nb, Vec6::Zero()), std::vector<double>(na, 0.0),
            std::vector<double>(na, 0.0)};
}

double Adjoint::spring_slope(int axis) const {
    double torque, slope = 0, energy;
    if (system_.curve[axis] >= 0)
        system_.curves[system_.curve[axis]].evaluate(system_.state.q[axis] - system_.rest[axis], torque, slope, energy);
    return system_.stiffness[axis] + slope;
}

double Adjoint::coupling_slope(int s) const {
    const Spring& spring = system_.springs[s];
    double torque, slope = 0, energy;
    if (spring.curve >= 0)
        system_.curves[spring.curve].evaluate(spring.of.value(system_.state.q) - spring.rest, torque, slope, energy);
    return spring.stiffness + slope;
}

// The equations at a record, factorised; derivatives of motion, momentum and wrench of every body, and of every rate.
void Adjoint::linearise(int i, bool tangent) {
    const TapeRecord &now = tape_->records[i], &last = tape_->records[i - 1], &before = tape_->records[i - 2];
    const Step& step = now.step;
    system_.state.q = now.q;
    system_.state.mu = now.mu;
    for (std::size_t j = 0, loop = 0; j < system_.joints.size(); ++j)
        if (system_.joints[j].outer < 0) system_.state.lambda[j] = now.loop_lambda[loop++];
    for (std::size_t r = 0; r < system_.rows.size(); ++r) system_.rows[r].lower = now.targets[r];
    system_.rest = now.inputs->rest;
    for (std::size_t s = 0; s < system_.springs.size(); ++s) {
        const Combination& of = system_.springs[s].of;
        system_.springs[s].rest = now.inputs->spring_rest[s];
        history_.length[s] = of.value(last.q);
        history_.length_before[s] = of.value(before.q);
    }
    system_.loads = now.inputs->loads;
    system_.handles = now.inputs->handles;
    history_.H = last.H;
    history_.momentum = last.momentum;
    history_.momentum_before = before.momentum;
    history_.q = last.q;
    history_.q_before = before.q;
    history_.p = last.p;
    history_.p_before = before.p;
    const std::vector<Turn>&turn = turns(i), &past = turns(i - 1);
    for (int b = 0; b < system_.bodies(); ++b) {
        history_.turn[b] = past[b].vector;
        history_.centre[b] = last.H[b].act(system_.centre[b]);
        history_.centre_before[b] = before.H[b].act(system_.centre[b]);
    }
    for (int b = 0; b < system_.bodies(); ++b) linearise_body(b, step, now.H[b], last.H[b], before.H[b], turn[b], past[b]);
    for (const Handle& handle : system_.handles) {  // its damper: -d (velocity of the point), that is f + R (s x arm)
        BodyStep& body = bodies_[handle.body];
        const Mat3 Rt = now.H[handle.body].R.transpose(), r = skew(handle.point);
        const Mat3 by_spin = -skew(handle.point - system_.centre[handle.body]);
        body.wrench_by_motion -= handle.damping * blocks(Rt, by_spin, r * Rt, r * by_spin);
        const Mat3 by_centre = handle.damping * skew(body.spin);
        body.wrench_by_centre.topRows<3>() += by_centre;
        body.wrench_by_centre.bottomRows<3>() += r * by_centre;
    }
    for (BodyStep& body : bodies_) body.wrench_by_centre += body.wrench_by_motion.leftCols<3>() * body.by_centre;

    for (Block& block : blocks_) {
        const int a = block.axis;
        if (block.size == 1) {
            block.rate[0] = step.rate(now.q[a], last.q[a], before.q[a]);
            continue;
        }
        const Vec3 q(&now.q[a]), q_last(&last.q[a]), q_before(&before.q[a]);
        const Mat3 Rt = so3_exp(q_last).transpose();
        const Vec3 x = so3_log(Rt * so3_exp(q)), y = so3_log(Rt * so3_exp(q_before));
        const double c0 = step.c0 / step.h, c2 = step.c2 / step.h;
        block.rate = c0 * x + c2 * y;
        block.by_increment[0] = c0 * so3_right_jacobian_inverse(x);
        block.by_increment[1] = -(c0 * so3_left_jacobian_inverse(x) + c2 * so3_left_jacobian_inverse(y));
        block.by_increment[2] = c2 * so3_right_jacobian_inverse(y);
        block.of_vector = so3_right_jacobian_inverse(q);
    }
    if (tangent) factorise(now);
}

void Adjoint::factorise(const TapeRecord& record) {
    const Step& step = record.step;
    by_passes_ = false;
    if (tree_.covers()) {
        for (int b = 0; b < system_.bodies(); ++b) {
            const BodyStep& body = bodies_[b];
            wrenches_[b] = {at_origin(body.force, Vec3::Zero(), system_.centre[b]), body.wrench_by_motion * body.by_twist[0]};
            wrenches_[b].wrench.tail<3>() += body.torque;
            // what is fixed in the world turns in the body's axes
            const Vec6 past = (step.c1 * history_.momentum[b] + step.c2 * history_.momentum_before[b]) / step.h;
            const Vec3 fixed = -(record.H[b].R.transpose() * past.tail<3>());
            wrenches_[b].derivative += world_wrench_derivative(body.force, fixed, system_.centre[b]);
        }
        for (const Load& load : system_.loads) {
            const Mat3 Rt = record.H[load.body].R.transpose();
            Vec3 force = load.wrench.head<3>(), torque = load.wrench.tail<3>();
            if (load.world) {
                force = Rt * force;
                torque = Rt * torque;
                wrenches_[load.body].derivative += world_wrench_derivative(force, torque, load.point);
            }
            wrenches_[load.body].wrench += at_origin(force, torque, load.point);
        }
        for (const Handle& handle : system_.handles) {
            const Pose& H = record.H[handle.body];
            const BodyStep& body = bodies_[handle.body];
            const Vec3 flight = H.R.transpose() * body.flight;
            const Vec3 fixed = handle.stiffness * (H.R.transpose() * (handle.target - H.act(handle.point))) - handle.damping * flight;
            const Vec3 arm = handle.point - system_.centre[handle.body];
            const Mat3 r = skew(handle.point);
            TreeTangent::Body& on = wrenches_[handle.body];
            on.wrench += at_origin(fixed - handle.damping * body.spin.cross(arm), Vec3::Zero(), handle.point);
            on.derivative += world_wrench_derivative(fixed, Vec3::Zero(), handle.point) -
                             handle.stiffness * blocks(Mat3::Identity(), -r, r, -(r * r));
        }
        const double c = step.c0 / step.h;
        for (const Block& block : blocks_) {
            const int a = block.axis;
            if (block.size == 1) {
                slopes_[a](0, 0) = spring_slope(a) + c * (system_.damping[a] + c * system_.armature[a]);
                continue;
            }
            Vec3 torque = Vec3::Zero(), resistance = Vec3::Zero(), slope = Vec3::Zero();
            for (int n = 0; n < 3; ++n) {
                const double deflection = record.q[a + n] - system_.rest[a + n];
                double value = 0, s, e;
                if (system_.curve[a + n] >= 0) system_.curves[system_.curve[a + n]].evaluate(deflection, value, s, e);
                torque[n] = system_.stiffness[a + n] * deflection + value;
                slope[n] = spring_slope(a + n);
                resistance[n] = system_.damping[a + n] + c * system_.armature[a + n];
            }
            const Mat3& J = block.of_vector;
            const Mat3 spring = (Mat3(J.transpose() * Mat3(slope.asDiagonal())) +
                                 so3_right_jacobian_inverse_directional(Vec3(&record.q[a]), torque)) * J;
            slopes_[a] = spring + Mat3(resistance.asDiagonal()) * block.by_increment[0];
        }
        by_passes_ = tree_.factorise(record, wrenches_, slopes_);
        if (by_passes_) return;
    }
    system_.set_active({record.active.begin(), record.active.end()});
    system_.evaluate(true, &step, &history_);
    system_.factorise();
}

void Adjoint::solve(const double* right, double* x, bool transposed, int columns) {
    if (by_passes_)
        tree_.solve(right, x, transposed, columns);
    else
        system_.solve(right, x, transposed, true, columns);
}

const std::vector<Adjoint::Turn>& Adjoint::turns(int record) {
    std::vector<Turn>& result = turns_[record % 2];
    if (turns_of_[record % 2] == record) return result;
    turns_of_[record % 2] = record;
    const TapeRecord &now = tape_->records[record], &last = tape_->records[record - 1];
    result.resize(now.H.size());
    for (std::size_t b = 0; b < result.size(); ++b) {
        result[b].vector = so3_log(last.H[b].R.transpose() * now.H[b].R);
        result[b].inverse = so3_right_jacobian_inverse(result[b].vector);
    }
    return result;
}

// f = (c0 P + c1 P_1 + c2 P_2) / h with P = H c, s = (c0 x - c2 Jr(x) y) / h with x = log(R_1^T R), y = log(R_2^T R_1);
// M = (m f, R I s), and the wrench  w = (F, T + c x F),  F = R^T (m g - c0/h m f - past),  T = -R^T past - c0/h I s.
void Adjoint::linearise_body(int b, const Step& step, const Pose& now, const Pose& last, const Pose& before, const Turn& turn,
                             const Turn& past_turn) {
    BodyStep& body = bodies_[b];
    const double m = system_.mass[b], c = step.c0 / step.h;
    const Vec3& centre = system_.centre[b];
    const Mat3 &I = system_.inertia[b], C = skew(centre), Rt = now.R.transpose(), O = Mat3::Zero();
    const Vec3 &x = turn.vector, &y = past_turn.vector;
    Mat3 by_x = c * Mat3::Identity(), by_y = Mat3::Zero();
    if (step.c2 != 0) {
        by_x -= (step.c2 / step.h) * so3_right_jacobian_directional(x, y);
        by_y = (-step.c2 / step.h) * so3_right_jacobian(x);
    }
    body.flight = (step.c0 * now.act(centre) + step.c1 * last.act(centre) + step.c2 * before.act(centre)) / step.h;
    body.spin = c * x + by_y * y;
    const Mat3 spin[3] = {by_x * turn.inverse, by_y * past_turn.inverse - by_x * turn.inverse.transpose(),
                          -(by_y * past_turn.inverse.transpose())};
    const double c_over_h[3] = {c, step.c1 / step.h, step.c2 / step.h};
    const Mat3* R[3] = {&now.R, &last.R, &before.R};
    body.by_centre.setZero();
    for (int k = 0; k < 3; ++k) {
        const Mat3 moved = c_over_h[k] * *R[k];
        body.by_twist[k] = blocks(moved, -(moved * C), O, spin[k]);
        body.by_centre += moved;
    }
    const Vec6 past = (step.c1 * history_.momentum[b] + step.c2 * history_.momentum_before[b]) / step.h;
    const Vec3 by_mass = Rt * (system_.gravity - c * body.flight);
    body.force = m * by_mass - Rt * past.head<3>();
    body.torque = -(Rt * past.tail<3>()) - c * (I * body.spin);
    body.wrench_by_mass = at_origin(by_mass, Vec3::Zero(), centre);
    const Mat3 by_flight = -(m * c) * Rt;
    body.wrench_by_motion = blocks(by_flight, O, C * by_flight, -c * I);
    body.wrench_by_past = -blocks(Rt, O, C * Rt, Rt);
    body.wrench_by_centre.topRows<3>().setZero();
    body.wrench_by_centre.bottomRows<3>() = -skew(body.force);
    body.momentum_by_motion = blocks(m * Mat3::Identity(), O, O, now.R * I);
    body.momentum_by_turn = -(now.R * skew(I * body.spin));
    body.velocity_by_motion = blocks(Rt, C, O, Mat3::Identity());
}

}  // namespace supple
