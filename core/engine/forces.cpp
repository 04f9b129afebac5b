// Forces on bodies and coordinates with their derivatives (the elements of the tangent), and energies.
#include <algorithm>
#include <cmath>

#include "engine/system.hpp"

namespace supple {

namespace {

// x^T N y = w^T [x, y] with the Lie bracket of twists: antisymmetric.
SUPPLE_INLINE Mat6 bracket_form(const Vec6& w) {
    const Mat3 f = skew(w.head<3>());
    return blocks(Mat3::Zero(), -f, -f, -skew(w.tail<3>()));
}

}  // namespace

void Curve::evaluate(double x, double& torque, double& slope, double& energy) const {
    // piece 0 and piece 1 start at the same break: everything to the left of it belongs to piece 0
    const auto piece = std::upper_bound(start.begin() + 1, start.end(), x) - start.begin() - 1;
    const auto& c = coefficients[piece];
    const double t = x - start[piece];
    torque = c[0] + t * (c[1] + t * (c[2] + t * c[3]));
    slope = c[1] + t * (2 * c[2] + t * 3 * c[3]);
    auto integral = [&](std::size_t i, double h) {
        const auto& k = coefficients[i];
        return h * (k[0] + h * (k[1] / 2 + h * (k[2] / 3 + h * k[3] / 4)));
    };
    energy = integral(piece, t);
    for (std::ptrdiff_t i = 1; i < piece; ++i) energy += integral(i, start[i + 1] - start[i]);
}

double Combination::value(const std::vector<double>& q) const {
    double sum = 0;
    for (std::size_t i = 0; i < axes.size(); ++i) sum += coefficients[i] * q[axes[i]];
    return sum;
}

double Actuator::next_activation(double h) const {
    if (dynamics == none) return control;
    const double next = dynamics == integrator ? activation + h * control : control + (activation - control) * std::exp(-h / lag);
    return std::min(std::max(next, least), most);
}

bool System::is_driven() const {
    for (const Actuator& each : actuators) {
        const double x = each.axis >= 0 ? state.q[each.axis] : springs[each.spring].of.value(state.q);
        double speed = each.axis >= 0 ? rate[each.axis] : springs[each.spring].of.value(rate), slope;
        if (std::abs(each.excess(x, speed, 1.0, slope)) > 1e-9 * std::abs(each.share[0]) + 1e-12 || std::abs(slope) > 1e-9 * std::abs(each.share[1])) return true;
    }
    return false;
}

// Torque of a stop at penetration p: k p^2 / (2 onset) up to p = onset, then k (p - onset / 2).
void Row::stop_torque(double value, double& torque, double& slope, double& energy) const {
    torque = slope = energy = 0;
    const double sign = value > upper ? 1 : -1, depth = value > upper ? value - upper : lower - value;
    if (!(depth > 0)) return;
    const double over = std::max(depth - onset, 0.0), within = depth - over;
    torque = sign * stop * (within * within / (2 * onset) + over);
    slope = stop * within / onset;
    energy = stop * (within * within * within / (6 * onset) + over * (onset + over) / 2);
}

// The torque of a stop grows quadratically, so Newton's method in the coordinate converges only linearly to a light touch. The
// unknown of the step is therefore the torque: the coordinate moves to the value at which the stop has the linearly predicted torque. A
// negative prediction means that the stop is left. It is trusted only within the onset; at a deeper penetration the tangent
// is not accurate enough for such a small torque, and the Newton step in the coordinate is used.
double Row::pushed_to(double from, double to) const {
    double torque, slope, energy;
    stop_torque(from, torque, slope, energy);
    if (slope == 0 || to == from) return to;
    const double sign = torque > 0 ? 1 : -1, limit = torque > 0 ? upper : lower;
    const double next = sign * (torque + slope * (to - from)) / stop;  // p^2 / (2 onset), or p - onset / 2
    if (next < 0) return slope < stop ? limit + sign * next * stop / slope : to;
    return limit + sign * penetration(next);
}

double Row::penetration(double torque_over_stiffness) const {
    return torque_over_stiffness < onset / 2 ? std::sqrt(2 * onset * torque_over_stiffness) : torque_over_stiffness + onset / 2;
}

Vec6 System::momentum_of(int b, const Pose& H, const Vec6& v) const {
    const Vec3 linear = group_mass[b] * (v.head<3>() + v.tail<3>().cross(group_centre[b]));
    return stack(H.R * linear, H.R * (group_inertia[b] * v.tail<3>()));
}

// Minus the rate of momentum, as a wrench at the body's origin. Differences of the centre of mass and of the momenta are taken in
// world axes, so that a body without loads moves in a straight line and keeps its momentum exactly.
void System::apply_inertia(int b, const Step& step, const History& history, Mat6* derivative) {
    const Pose& H = state.H[b];
    const Mat3 Rt = H.R.transpose();
    const double mass = group_mass[b];
    const Vec3& centre = group_centre[b];
    const Mat3& inertia = group_inertia[b];
    const double c = step.c0 / step.h;
    const Vec3 centre_velocity = (step.c0 * H.act(centre) + step.c1 * history.centre[b] + step.c2 * history.centre_before[b]) / step.h;
    // spin = Jr(x) (c0 x - c2 x_0) / h with x = log(R_n^T R)
    const Vec3 x = so3_log(history.H[b].R.transpose() * H.R);
    const Vec3& before = history.turn[b];
    Vec3 spin = step.c0 * x;
    if (step.c2 != 0) spin -= step.c2 * (so3_right_jacobian(x) * before);
    spin /= step.h;
    velocity[b] = stack(Rt * centre_velocity - spin.cross(centre), spin);
    momentum[b] = stack(mass * centre_velocity, H.R * (inertia * spin));

    const Vec6 past = (step.c1 * history.momentum[b] + step.c2 * history.momentum_before[b]) / step.h;
    momentum_wrench_[b] = -(c * momentum[b] + past);
    const Vec3 force = Rt * momentum_wrench_[b].head<3>();
    const Vec3 past_torque = -(Rt * past.tail<3>());
    wrench_[b] += at_origin(force, past_torque - c * (inertia * spin), centre);
    if (!derivative) return;
    *derivative += world_wrench_derivative(force, past_torque, centre);
    const Mat3 r = skew(centre);
    *derivative -= mass * c * c * blocks(Mat3::Identity(), -r, r, -r * r);
    // d spin = (c0 - c2 d(Jr(x) x_0)/dx) Jr(x)^-1 / h
    Mat3 turn = step.c0 * Mat3::Identity();
    if (step.c2 != 0) turn -= step.c2 * so3_right_jacobian_directional(x, before);
    spin_derivative_[b] = turn * so3_right_jacobian_inverse(x) / step.h;
    derivative->bottomRightCorner<3, 3>() -= c * (inertia * spin_derivative_[b]);
}

// Inertia, weight, internal force and damping of flexible bodies.
void System::apply_flexible(const Step* step, const History* history, bool tangent) {
    for (std::size_t f = 0; f < flexible.size(); ++f) {
        FlexibleBody& each = flexible[f];
        each.evaluate(state.H[each.body], &state.q[each.axis], gravity, step, step ? &history->flexible[f] : nullptr,
                      step ? &history->flexible_before[f] : nullptr, flexible_state[f], tangent);
        wrench_[each.body] -= each.wrench();
        const int r = each.modes();
        for (int p = 0; p < r; ++p) residual_[axis_row_[each.axis + p]] -= each.forces()[p];
        if (!tangent) continue;
        wrench_derivative_[each.body] -= each.by_twist();
        const int e = bodies() + static_cast<int>(joints.size() + springs.size() + rows.size() + f);
        Eigen::Map<Eigen::MatrixXd> element(fronts_->element(e), 6 + r, 6 + r);
        element.topLeftCorner<6, 6>().setZero();
        for (int p = 0; p < r; ++p) {
            element.block<6, 1>(0, 6 + p) = each.mixed(p);
            element.block<1, 6>(6 + p, 0) = each.mixed(p).transpose();
            for (int q = 0; q < r; ++q) element(6 + p, 6 + q) = each.slope(p, q);
        }
    }
}

// Wrenches on bodies: gravity, loads, handles, and minus the rate of momentum. The tangent's body element is
// -dw/dxi - N(w)/2, the second term from the exponential chart.
void System::apply(const Step* step, const History* history, bool tangent) {
    const int nb = bodies();
    std::vector<Mat6>& derivative = wrench_derivative_;
    for (int b = 0; b < nb; ++b) {
        const Vec3 weight = state.H[b].R.transpose() * (mass[b] * gravity);
        wrench_[b] = at_origin(weight, Vec3::Zero(), centre[b]);
        if (tangent) derivative[b] = world_wrench_derivative(weight, Vec3::Zero(), centre[b]);
        if (step) apply_inertia(b, *step, *history, tangent ? &derivative[b] : nullptr);
    }
    for (const Load& load : loads) {
        const Mat3 Rt = state.H[load.body].R.transpose();
        Vec3 force = load.wrench.head<3>(), torque = load.wrench.tail<3>();
        if (load.world) {
            force = Rt * force;
            torque = Rt * torque;
            if (tangent) derivative[load.body] += world_wrench_derivative(force, torque, load.point);
        }
        wrench_[load.body] += at_origin(force, torque, load.point);
    }
    for (const Handle& handle : handles) {
        const Pose& H = state.H[handle.body];
        const Vec3 at = H.act(handle.point);
        Vec3 force = handle.stiffness * (handle.target - at);
        const Vec6& v = velocity[handle.body];
        if (step) force -= handle.damping * (H.R * (v.head<3>() + v.tail<3>().cross(handle.point)));
        force = H.R.transpose() * force;
        wrench_[handle.body] += at_origin(force, Vec3::Zero(), handle.point);
        if (tangent) {
            derivative[handle.body] += world_wrench_derivative(force, Vec3::Zero(), handle.point);
            const Mat3 r = skew(handle.point);
            Mat3 moved = handle.stiffness * Mat3::Identity(), turned = -handle.stiffness * r;
            if (step) {  // velocity of the point: that of the centre of mass, and spin x arm
                const double c = handle.damping * step->c0 / step->h;
                const Vec3 arm = handle.point - group_centre[handle.body], spin = v.tail<3>();
                moved += c * Mat3::Identity();
                turned -= c * skew(group_centre[handle.body]) +
                          handle.damping * (skew(spin.cross(arm)) + skew(arm) * spin_derivative_[handle.body]);
            }
            derivative[handle.body] -= blocks(moved, turned, r * moved, r * turned);
        }
    }
    apply_flexible(step, history, tangent);
    if (!tangent) return;
    for (int b = 0; b < nb; ++b)
        Eigen::Map<Mat6>(fronts_->element(b)) = -derivative[b] - 0.5 * bracket_form(wrench_[b]);
}

// Spring, damper and armature of one block of a joint: torque and its derivative in the block's increments.
void System::axis_torque(int first, int size, const Step* step, const History* history,
                         Eigen::Ref<Eigen::VectorXd> torque, Eigen::Ref<Eigen::MatrixXd> slope) {
    for (int i = 0; i < size; ++i) {
        const int axis = first + i;
        const double deflection = state.q[axis] - rest[axis];
        torque[i] = stiffness[axis] * deflection - applied[axis];
        slope(i, i) = stiffness[axis];
        if (curve[axis] >= 0) {
            double t, s, e;
            curves[curve[axis]].evaluate(deflection, t, s, e);
            torque[i] += t;
            slope(i, i) += s;
        }
    }
    Vec3 increment = Vec3::Zero();
    Mat3 turn = Mat3::Identity();  // derivative of a rotation's increment
    if (size == 3) {  // torque Jr^-T y on the increment of R exp(delta), derivative in the exponential chart
        const Vec3 r(state.q[first], state.q[first + 1], state.q[first + 2]), y = torque;
        const Mat3 Ji = so3_right_jacobian_inverse(r);
        slope = (Ji.transpose() * slope + so3_right_jacobian_inverse_directional(r, y)) * Ji;
        torque = Ji.transpose() * y;
        if (step) {
            const Vec3 r_n(history->q[first], history->q[first + 1], history->q[first + 2]);
            const Vec3 r_b(history->q_before[first], history->q_before[first + 1], history->q_before[first + 2]);
            const Mat3 R_n = so3_exp(r_n);
            const Vec3 x = so3_log(R_n.transpose() * so3_exp(r));
            increment = (step->c0 * x + step->c2 * so3_log(R_n.transpose() * so3_exp(r_b))) / step->h;
            turn = so3_right_jacobian_inverse(x);
        }
    }
    for (int i = 0; step && i < size; ++i) {
        const int axis = first + i;
        const double v = size == 3 ? increment[i]
                                   : step->rate(state.q[axis], history->q[axis], history->q_before[axis]);
        rate[axis] = v;
        const double c = step->c0 / step->h;
        torque[i] += damping[axis] * v;
        double resistance = damping[axis] * c;
        if (armature[axis] != 0) {
            torque[i] += step->rate(armature[axis] * v, history->p[axis], history->p_before[axis]);
            resistance += armature[axis] * c * c;
        }
        for (int k = 0; k < size; ++k) slope(i, k) += resistance * turn(i, k);
    }
    if (size == 3) slope -= 0.5 * skew(torque);
    if (actuators.empty() || size != 1) return;
    for (const Actuator& each : actuators) {
        if (each.axis != first) continue;
        double by_length;
        torque[0] -= each.excess(state.q[first], step ? rate[first] : 0.0, step ? step->c0 / step->h : 0.0, by_length);
        slope(0, 0) -= by_length;
    }
}

// -(dS_i/dq_k + dS_k/dq_i) . lambda / 2 for the screws S of an interface: the second derivative of lambda^T c.
void System::add_interface_curvature(int j, Eigen::Ref<Eigen::MatrixXd> slope) {
    const Joint& joint = joints[j];
    const int r = joint.count;
    const Vec6& lambda = state.lambda[j];
    double change[64 * 64];  // a joint has at most 64 axes
    std::fill_n(change, r * r, 0.0);
    interfaces[joint.interface].add_contracted(lambda.head<3>(), lambda.tail<3>(), change);
    for (int i = 0; i < r; ++i)
        for (int k = 0; k < r; ++k) slope(i, k) -= 0.5 * (change[i * r + k] + change[k * r + i]);
}

void System::fill_joint(int j, const Step* step, const History* history, bool tangent) {
    const Joint& joint = joints[j];
    const int k = joint.count;
    const Vec6& lambda = state.lambda[j];

    double torque_buffer[64], slope_buffer[64 * 64];
    Eigen::Map<Eigen::VectorXd> torque(torque_buffer, k);
    Eigen::Map<Eigen::MatrixXd> slope(slope_buffer, k, k);
    slope.setZero();
    int at = 0;
    for (int size : joint.blocks) {
        axis_torque(joint.first + at, size, step, history, torque.segment(at, size),
                    slope.block(at, at, size, size));
        at += size;
    }
    const bool loop = joint.outer < 0;
    const Vec6 on_parent = loop ? Vec6(loop_parent_[j].transpose() * lambda) : lambda;
    for (int i = 0; i < k; ++i) {
        const int axis = joint.first + i;
        residual_[axis_row_[axis]] -= torque[i] - screw_[axis].dot(on_parent);
    }
    if (loop) Eigen::Map<Vec6>(&residual_[joint_start_[j]]) -= gap_[j];
    if (!tangent) return;

    // c' = A_b b - B_a a - S q, of a loop as at `loop_child_`; second derivatives of lambda^T c where it is closed:
    //   qa: S^T N B/2,  qb: -S^T N A/2,  ab: -B^T N A/2,  qq: -s_i^T N s_k/2 between different exponentials
    const int nb = bodies();
    const int n = fronts_->element_size(nb + j);
    Eigen::Map<Eigen::MatrixXd> element(fronts_->element(nb + j), n, n);
    element.setZero();
    const int a = 0, b = joint.parent >= 0 ? 6 : 0, l = b + (joint.child >= 0 ? 6 : 0), q = l + 6;
    const Mat6 N = bracket_form(lambda);
    const Mat6& A = joint.A_child;
    const Mat6& B = B_parent_[j];
    if (joint.parent >= 0) {
        element.block<6, 6>(l, a) = -(scale_.asDiagonal() * (loop ? Mat6(loop_parent_[j] * B) : B));
        element.block<6, 6>(a, l) = element.block<6, 6>(l, a).transpose();
    }
    if (joint.child >= 0) {
        element.block<6, 6>(l, b) = scale_.asDiagonal() * (loop ? Mat6(loop_child_[j] * A) : A);
        element.block<6, 6>(b, l) = element.block<6, 6>(l, b).transpose();
    }
    if (joint.parent >= 0 && joint.child >= 0) {
        const Mat6 ab = -0.5 * (B.transpose() * (N * A));
        element.block<6, 6>(a, b) = ab;
        element.block<6, 6>(b, a) = ab.transpose();
    }
    for (int i = 0; i < k; ++i) {
        const Vec6& s = screw_[joint.first + i];
        element.block<6, 1>(l, q + i) = -scale_.cwiseProduct(loop ? Vec6(loop_parent_[j] * s) : s);
        element.block<1, 6>(q + i, l) = element.block<6, 1>(l, q + i).transpose();
        const Vec6 Ns = 0.5 * (N.transpose() * s);  // (s^T N)^T / 2
        if (joint.parent >= 0) {
            const Vec6 qa = B.transpose() * Ns;
            element.block<6, 1>(a, q + i) = qa;
            element.block<1, 6>(q + i, a) = qa.transpose();
        }
        if (joint.child >= 0) {
            const Vec6 qb = -(A.transpose() * Ns);
            element.block<6, 1>(b, q + i) = qb;
            element.block<1, 6>(q + i, b) = qb.transpose();
        }
    }
    if (joint.interface >= 0) add_interface_curvature(j, slope);
    element.block(q, q, k, k) = slope;
    if (joint.interface >= 0) return;
    at = 0;
    for (std::size_t m = 0; m < joint.blocks.size(); ++m) {
        for (int i = at; i < at + joint.blocks[m]; ++i)
            for (int h = at + joint.blocks[m]; h < k; ++h) {
                const double value = -0.5 * screw_[joint.first + i].dot(N * screw_[joint.first + h]);
                element(q + i, q + h) += value;
                element(q + h, q + i) += value;
            }
        at += joint.blocks[m];
    }
}

void System::fill_spring(int s, const Step* step, const History* history, bool tangent) {
    const Spring& spring = springs[s];
    const double length = spring.of.value(state.q);
    double force = spring.stiffness * (length - spring.rest), slope = spring.stiffness;
    if (spring.curve >= 0) {
        double t, d, e;
        curves[spring.curve].evaluate(length - spring.rest, t, d, e);
        force += t;
        slope += d;
    }
    const double speed = step ? step->rate(length, history->length[s], history->length_before[s]) : 0.0, c = step ? step->c0 / step->h : 0.0;
    force += spring.damping * speed;
    slope += spring.damping * c;
    for (const Actuator& each : actuators) {
        if (each.spring != s) continue;
        double by_length;
        force -= each.excess(length, speed, c, by_length);
        slope -= by_length;
    }
    const auto& of = spring.of;
    for (std::size_t i = 0; i < of.axes.size(); ++i) residual_[axis_row_[of.axes[i]]] -= of.coefficients[i] * force;
    if (!tangent) return;
    const int e = bodies() + static_cast<int>(joints.size()) + s;
    const auto& rows_of = fronts_->element_rows(e);
    const int n = static_cast<int>(rows_of.size());
    Eigen::Map<Eigen::MatrixXd> element(fronts_->element(e), n, n);
    element.setZero();
    std::vector<int> local;
    for (int axis : of.axes)
        local.push_back(static_cast<int>(std::find(rows_of.begin(), rows_of.end(), axis_row_[axis]) - rows_of.begin()));
    for (std::size_t i = 0; i < local.size(); ++i)
        for (std::size_t k = 0; k < local.size(); ++k)
            element(local[i], local[k]) += slope * of.coefficients[i] * of.coefficients[k];
}

// A row is active if its multiplier, corrected by the regularised error, pushes (augmented Lagrangian).
void System::fill_row(int r, bool tangent) {
    const Row& row = rows[r];
    const double value = row.of.value(state.q);
    const double stiff = penalty * regular_scale_, mu = state.mu[r];
    double torque = 0, slope = 0, energy = 0;
    if (row.stop != 0) row.stop_torque(value, torque, slope, energy);
    if (row.stop != 0 || (released && !row.equality)) {
        active_[r] = 0;
        row_error_[r] = 0;
    } else if (active_fixed) {
        row_error_[r] = active_[r] == 0 ? 0 : value - (active_[r] > 0 && !row.equality ? row.upper : row.lower);
    } else if (row.equality) {
        active_[r] = 1;
        row_error_[r] = value - row.lower;
    } else if (mu + stiff * (value - row.upper) > 0) {
        active_[r] = 1;
        row_error_[r] = value - row.upper;
    } else if (mu + stiff * (value - row.lower) < 0) {
        active_[r] = -1;
        row_error_[r] = value - row.lower;
    } else {
        active_[r] = 0;
        row_error_[r] = 0;
    }
    residual_[row_start_ + r] = active_[r] ? -row_error_[r] : mu / regular_scale_;
    for (std::size_t i = 0; i < row.of.axes.size(); ++i)
        residual_[axis_row_[row.of.axes[i]]] -= row.of.coefficients[i] * (mu + torque);
    if (!tangent) return;
    const int e = bodies() + static_cast<int>(joints.size() + springs.size()) + r;
    const auto& rows_of = fronts_->element_rows(e);
    const int n = static_cast<int>(rows_of.size()), last = n - 1;
    Eigen::Map<Eigen::MatrixXd> element(fronts_->element(e), n, n);
    element.setZero();
    if (!active_[r]) element(last, last) = -regular_scale_;  // inactive: the multiplier and its torque become zero
    auto place = [&](int axis) {
        return static_cast<int>(std::find(rows_of.begin(), rows_of.end(), axis_row_[axis]) - rows_of.begin());
    };
    for (std::size_t i = 0; i < row.of.axes.size(); ++i) {
        const int at = place(row.of.axes[i]);
        element(at, last) = regular_scale_ * row.of.coefficients[i];
        if (active_[r]) element(last, at) = element(at, last);
        for (std::size_t k = 0; slope != 0 && k < row.of.axes.size(); ++k)
            element(at, place(row.of.axes[k])) += slope * row.of.coefficients[i] * row.of.coefficients[k];
    }
}

double System::strain_energy() const {
    double sum = 0, t, s, e;
    for (int axis = 0; axis < axes(); ++axis) {
        const double deflection = state.q[axis] - rest[axis];
        sum += 0.5 * stiffness[axis] * deflection * deflection;
        if (curve[axis] >= 0) {
            double zero;
            curves[curve[axis]].evaluate(deflection, t, s, e);
            curves[curve[axis]].evaluate(0, t, s, zero);
            sum += e - zero;
        }
    }
    for (const Spring& spring : springs) {
        const double deflection = spring.of.value(state.q) - spring.rest;
        sum += 0.5 * spring.stiffness * deflection * deflection;
        if (spring.curve >= 0) {
            double zero;
            curves[spring.curve].evaluate(deflection, t, s, e);
            curves[spring.curve].evaluate(0, t, s, zero);
            sum += e - zero;
        }
    }
    for (const Row& row : rows) {
        if (row.stop == 0) continue;
        row.stop_torque(row.of.value(state.q), t, s, e);
        sum += e;
    }
    for (const FlexibleBody& each : flexible) sum += each.strain_energy(&state.q[each.axis]);
    return sum;
}

double System::gravity_energy() const {
    double sum = 0;
    for (int b = 0; b < bodies(); ++b) sum -= mass[b] * gravity.dot(state.H[b].act(centre[b]));
    for (const FlexibleBody& each : flexible) sum += each.potential_energy(state.H[each.body], &state.q[each.axis], gravity);
    return sum;
}

Vec6 System::total_momentum() const {
    Vec6 sum = Vec6::Zero();
    for (int b = 0; b < bodies(); ++b) {
        const Vec3 linear = momentum[b].head<3>();
        sum += stack(linear, momentum[b].tail<3>() + state.H[b].act(group_centre[b]).cross(linear));
    }
    for (std::size_t f = 0; f < flexible.size(); ++f) sum += flexible[f].momentum(flexible_state[f]);
    return sum;
}

double System::kinetic_energy() const {
    double sum = 0;
    for (int b = 0; b < bodies(); ++b) sum += 0.5 * velocity[b].dot(mass_matrix_[b] * velocity[b]);
    for (int axis = 0; axis < axes(); ++axis) sum += 0.5 * armature[axis] * rate[axis] * rate[axis];
    for (std::size_t f = 0; f < flexible.size(); ++f) sum += flexible[f].kinetic_energy(flexible_state[f]);
    return sum;
}

}  // namespace supple
