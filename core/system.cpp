#include "system.hpp"

#include <algorithm>
#include <cmath>

namespace supple {

namespace {

// x^T N y = w^T [x, y] with the Lie bracket of twists: antisymmetric.
SUPPLE_INLINE Mat6 bracket_form(const Vec6& w) {
    const Mat3 f = skew(w.head<3>());
    return blocks(Mat3::Zero(), -f, -f, -skew(w.tail<3>()));
}

// Derivative, along a body's own twist, of a wrench that is fixed in world axes and acts at a point of the body.
SUPPLE_INLINE Mat6 world_wrench_derivative(const Vec3& force, const Vec3& torque, const Vec3& point) {
    const Mat3 f = skew(force);
    return blocks(Mat3::Zero(), f, Mat3::Zero(), skew(torque) + skew(point) * f);
}

SUPPLE_INLINE Vec6 at_origin(const Vec3& force, const Vec3& torque, const Vec3& point) {
    return stack(force, torque + point.cross(force));
}

// Ad(h^-1)^T w, without forming the matrix: a wrench in the frame h, seen in the frame that h stands in
SUPPLE_INLINE Vec6 wrench_from(const Pose& h, const Vec6& w) {
    const Vec3 f = h.R * w.head<3>();
    return stack(f, h.R * w.tail<3>() + h.p.cross(f));
}

Mat6 adjoint_inverse(const Pose& h) {
    const Mat3 Rt = h.R.transpose();
    return blocks(Rt, -Rt * skew(h.p), Mat3::Zero(), Rt);
}

// exp(q twist) for a twist whose axis is a unit vector, or which has none
SUPPLE_INLINE Pose exp_axis(const Vec6& twist, double q) {
    const Vec3 v = twist.head<3>(), w = twist.tail<3>();
    if (w.isZero(0)) return {Mat3::Identity(), q * v};
    const double h = std::sin(q / 2), c = 2 * h * h, s = 2 * h * std::cos(q / 2);  // c = 1 - cos q, s = sin q
    const Mat3 W = skew(w);
    Mat3 W2 = w * w.transpose();
    W2.diagonal().array() -= 1;
    Pose pose{Mat3::Identity() + s * W + c * W2, Vec3::Zero()};
    if (!v.isZero(0)) pose.p = q * v + c * (W * v) + (q - s) * (W2 * v);
    return pose;
}

constexpr double penalty = 1e9;  // stiffness of regularised constraints over that of the mechanism

}  // namespace

void Curve::evaluate(double x, double& torque, double& slope, double& energy) const {
    // piece 0 and piece 1 start at the same break: what lies left of it belongs to piece 0
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

void System::prepare() {
    const int nb = bodies(), nj = static_cast<int>(joints.size()), nr = static_cast<int>(rows.size());
    std::vector<int> sizes(nb, 6);
    std::vector<int> axis_joint(axes());
    for (int j = 0; j < nj; ++j) {
        joint_start_.push_back(6 * nb + 6 * j + joints[j].first);
        sizes.push_back(6);
        sizes.push_back(joints[j].count);
        for (int i = 0; i < joints[j].count; ++i) {
            axis_row_.push_back(joint_start_[j] + 6 + i);
            axis_joint[joints[j].first + i] = j;
        }
    }
    row_start_ = 6 * nb + 6 * nj + axes();
    sizes.insert(sizes.end(), nr, 1);

    // loops and rows first: with their regularisation they are regular by themselves, and bodies that only a loop
    // holds get their stiffness from them
    std::vector<std::vector<int>> nodes, elements;
    holder_.assign(nb, -1);
    for (int j = 0; j < nj; ++j) {
        if (joints[j].outer >= 0)
            holder_[joints[j].outer] = j;
        else
            nodes.push_back({nb + 2 * j, nb + 2 * j + 1});
    }
    for (int r = 0; r < nr; ++r) nodes.push_back({nb + 2 * nj + r});
    const int early = static_cast<int>(nodes.size());
    std::vector<int> inner(early + nb, -1);
    for (int b = 0; b < nb; ++b) {
        const Joint& joint = joints[holder_[b]];
        const int next = joint.child == b ? joint.parent : joint.child;
        if (next >= 0) inner[early + b] = early + next;
        nodes.push_back({b, nb + 2 * holder_[b], nb + 2 * holder_[b] + 1});
    }
    first_pair_ = early;

    for (int b = 0; b < nb; ++b) elements.push_back({b});
    for (int j = 0; j < nj; ++j) {
        auto& blocks = elements.emplace_back();
        for (int body : {joints[j].parent, joints[j].child})
            if (body >= 0) blocks.push_back(body);
        blocks.push_back(nb + 2 * j);
        blocks.push_back(nb + 2 * j + 1);
    }
    auto joint_blocks = [&](const Combination& of) {
        std::vector<int> blocks;
        for (int axis : of.axes) {
            const int block = nb + 2 * axis_joint[axis] + 1;
            if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) blocks.push_back(block);
        }
        return blocks;
    };
    for (const Spring& spring : springs) elements.push_back(joint_blocks(spring.of));
    for (int r = 0; r < nr; ++r) {
        auto& blocks = elements.emplace_back(joint_blocks(rows[r].of));
        blocks.push_back(nb + 2 * nj + r);
    }
    fronts_ = std::make_unique<Fronts>(sizes, nodes, elements, early, inner);

    for (int b = 0; b < nb; ++b) mass_matrix_.push_back(spatial_inertia(mass[b], centre[b], inertia[b]));
    for (Joint& joint : joints) {
        for (int size : joint.blocks) single_.insert(single_.end(), size, size == 1);
        joint.A_child = adjoint_inverse(joint.pose_child);
        joint.Ad_parent = adjoint_inverse(joint.pose_parent);
    }
    displacement_.resize(nj);
    screw_.resize(axes());
    B_parent_.resize(nj);
    gap_.assign(nj, Vec6::Zero());
    wrench_.resize(nb);
    wrench_derivative_.resize(nb);
    loop_child_.resize(nj);
    loop_parent_.resize(nj);
    residual_.resize(unknowns());
    regular_.resize(unknowns());
    active_.assign(nr, 0);
    row_error_.assign(nr, 0);
    velocity.assign(nb, Vec6::Zero());
    momentum.assign(nb, Vec6::Zero());
    rate.assign(axes(), 0);
    state.lambda.resize(nj, Vec6::Zero());
    state.mu.resize(nr, 0);
    state.H.resize(nb);
}

// X(q) = product of the blocks' exponentials, and its twists S in the frame at its end.
void System::joint_kinematics(int j) {
    const Joint& joint = joints[j];
    Pose after;  // from the joint's frame on the child to the end of the block
    bool trivial = true;
    int axis = joint.first + joint.count;
    for (std::size_t k = joint.blocks.size(); k-- > 0;) {
        const int size = joint.blocks[k];
        axis -= size;
        Vec6 xi = Vec6::Zero();
        for (int i = 0; i < size; ++i) {
            if (size > 1) xi += state.q[axis + i] * twists[axis + i];
            screw_[axis + i] = trivial ? twists[axis + i] : transform_twist(after.inverse(), twists[axis + i]);
        }
        const Pose block = size == 1 ? exp_axis(twists[axis], state.q[axis]) : exp(xi);
        after = trivial ? block : block * after;
        trivial = false;
    }
    displacement_[j] = after;
    // Ad(X^-1) Ad(pose_parent^-1), both block upper triangular
    const Mat3 Rt = after.R.transpose();
    const Mat3 lower = Rt * joint.Ad_parent.bottomRightCorner<3, 3>();
    B_parent_[j] = blocks(lower, Rt * (joint.Ad_parent.topRightCorner<3, 3>() -
                                       skew(after.p) * joint.Ad_parent.bottomRightCorner<3, 3>()),
                          Mat3::Zero(), lower);
}

void System::move() {
    for (std::size_t j = 0; j < joints.size(); ++j) joint_kinematics(static_cast<int>(j));
    for (int b : order) {
        const Joint& joint = joints[holder_[b]];
        const Pose across = joint.pose_parent * displacement_[holder_[b]] * joint.pose_child.inverse();
        const int inner = joint.child == b ? joint.parent : joint.child;
        const Pose step = joint.child == b ? across : across.inverse();
        state.H[b] = inner < 0 ? step : state.H[inner] * step;
    }
    for (std::size_t j = 0; j < joints.size(); ++j) {
        const Joint& joint = joints[j];
        if (joint.outer >= 0) continue;
        const Pose a = joint.parent < 0 ? joint.pose_parent : state.H[joint.parent] * joint.pose_parent;
        const Pose b = joint.child < 0 ? joint.pose_child : state.H[joint.child] * joint.pose_child;
        const Pose open = b.seen_from(a * displacement_[j]);
        gap_[j] = log(open);
        loop_child_[j] = right_jacobian_inverse(gap_[j]);
        loop_parent_[j] = loop_child_[j] * adjoint_inverse(open);
    }
}

Vec6 System::momentum_of(int b, const Pose& H, const Vec6& v) const {
    const Vec3 linear = mass[b] * (v.head<3>() + v.tail<3>().cross(centre[b]));
    return stack(H.R * linear, H.R * (inertia[b] * v.tail<3>()));
}

// Minus the rate of momentum, as a wrench at the body's origin. Positions of the centre of mass and the momenta are
// differenced in world axes, so that what nothing acts on flies straight and keeps its momentum exactly.
void System::apply_inertia(int b, const Step& step, const History& history, Mat6* derivative) {
    const Pose& H = state.H[b];
    const Mat3 Rt = H.R.transpose();
    const double c = step.c0 / step.h;
    const Vec3 flight = (step.c0 * H.act(centre[b]) + step.c1 * history.centre[b] + step.c2 * history.centre_before[b]) / step.h;
    // spin = Jr(x) (c0 x - c2 x_0) / h with x = log(R_n^T R)
    const Vec3 x = so3_log(history.H[b].R.transpose() * H.R);
    const Vec3& before = history.turn[b];
    Vec3 spin = step.c0 * x;
    if (step.c2 != 0) spin -= step.c2 * (so3_right_jacobian(x) * before);
    spin /= step.h;
    velocity[b] = stack(Rt * flight - spin.cross(centre[b]), spin);
    momentum[b] = stack(mass[b] * flight, H.R * (inertia[b] * spin));

    const Vec6 past = (step.c1 * history.momentum[b] + step.c2 * history.momentum_before[b]) / step.h;
    const Vec3 force = -(Rt * (c * momentum[b].head<3>() + past.head<3>()));
    const Vec3 past_torque = -(Rt * past.tail<3>());
    wrench_[b] += at_origin(force, past_torque - c * (inertia[b] * spin), centre[b]);
    if (!derivative) return;
    *derivative += world_wrench_derivative(force, past_torque, centre[b]);
    const Mat3 r = skew(centre[b]);
    *derivative -= mass[b] * c * c * blocks(Mat3::Identity(), -r, r, -r * r);
    // d spin = (c0 - c2 d(Jr(x) x_0)/dx) Jr(x)^-1 / h, to the second order in the step's own turn
    const Mat3 X = skew(x);
    Mat3 turn = step.c0 * (Mat3::Identity() + 0.5 * X + X * X / 12);
    if (step.c2 != 0) turn -= 0.5 * step.c2 * skew(before);
    derivative->bottomRightCorner<3, 3>() -= (c / step.h) * (inertia[b] * turn);
}

// What acts on bodies: gravity, loads, handles, and minus the rate of momentum. The tangent's body element is
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
        double slope = handle.stiffness;
        if (step) {
            const Vec6& v = velocity[handle.body];
            force -= handle.damping * (H.R * (v.head<3>() + v.tail<3>().cross(handle.point)));
            slope += handle.damping * step->c0 / step->h;
        }
        force = H.R.transpose() * force;
        wrench_[handle.body] += at_origin(force, Vec3::Zero(), handle.point);
        if (tangent) {
            derivative[handle.body] += world_wrench_derivative(force, Vec3::Zero(), handle.point);
            const Mat3 r = skew(handle.point);
            derivative[handle.body] -= slope * blocks(Mat3::Identity(), -r, r, -r * r);
        }
    }
    if (!tangent) return;
    for (int b = 0; b < nb; ++b)
        Eigen::Map<Mat6>(fronts_->element(b)) = -derivative[b] - 0.5 * bracket_form(wrench_[b]);
}

// Multipliers of the tree's joints from the bodies' balance, outermost first.
void System::react() {
    std::vector<Vec6>& left = carried_;  // what the joint towards the world must carry
    left = wrench_;
    for (std::size_t j = 0; j < joints.size(); ++j) {
        if (joints[j].outer >= 0) continue;
        const Vec6 on_child = loop_child_[j].transpose() * state.lambda[j];
        const Vec6 on_parent = loop_parent_[j].transpose() * state.lambda[j];
        if (joints[j].child >= 0) left[joints[j].child] -= joints[j].A_child.transpose() * on_child;
        if (joints[j].parent >= 0) left[joints[j].parent] += B_parent_[j].transpose() * on_parent;
    }
    for (std::size_t k = order.size(); k-- > 0;) {
        const int b = order[k];
        const Joint& joint = joints[holder_[b]];
        Vec6& lambda = state.lambda[holder_[b]];
        const Pose frame = joint.pose_parent * displacement_[holder_[b]];  // of the child's side, in the parent
        if (joint.child == b) {  // A_child^T lambda = left
            lambda = wrench_from(joint.pose_child.inverse(), left[b]);
            if (joint.parent >= 0) left[joint.parent] += wrench_from(frame, lambda);
        } else {  // -B_parent^T lambda = left
            lambda = -wrench_from(frame.inverse(), left[b]);
            if (joint.child >= 0) left[joint.child] -= wrench_from(joint.pose_child, lambda);
        }
    }
}

// Spring, damper and armature of one block of a joint: torque and its derivative in the block's increments.
void System::axis_torque(int first, int size, const Step* step, const History* history,
                         Eigen::Ref<Eigen::VectorXd> torque, Eigen::Ref<Eigen::MatrixXd> slope) {
    for (int i = 0; i < size; ++i) {
        const int axis = first + i;
        const double deflection = state.q[axis] - rest[axis];
        torque[i] = stiffness[axis] * deflection;
        slope(i, i) = stiffness[axis];
        if (curve[axis] >= 0) {
            double t, s, e;
            curves[curve[axis]].evaluate(deflection, t, s, e);
            torque[i] += t;
            slope(i, i) += s;
        }
    }
    Vec3 increment = Vec3::Zero();
    if (size == 3) {  // torque Jr^-T y on the increment of R exp(delta), derivative in the exponential chart
        const Vec3 r(state.q[first], state.q[first + 1], state.q[first + 2]), y = torque;
        const Mat3 Ji = so3_right_jacobian_inverse(r);
        slope = (Ji.transpose() * slope + so3_right_jacobian_inverse_directional(r, y)) * Ji;
        torque = Ji.transpose() * y;
        slope -= 0.5 * skew(torque);
        if (step) {
            const Vec3 r_n(history->q[first], history->q[first + 1], history->q[first + 2]);
            const Vec3 r_b(history->q_before[first], history->q_before[first + 1], history->q_before[first + 2]);
            const Mat3 R_n = so3_exp(r_n);
            increment = (step->c0 * so3_log(R_n.transpose() * so3_exp(r)) +
                         step->c2 * so3_log(R_n.transpose() * so3_exp(r_b))) /
                        step->h;
        }
    }
    if (!step) return;
    for (int i = 0; i < size; ++i) {
        const int axis = first + i;
        const double v = size == 3 ? increment[i]
                                   : (step->c0 * state.q[axis] + step->c1 * history->q[axis] +
                                      step->c2 * history->q_before[axis]) /
                                         step->h;
        rate[axis] = v;
        const double c = step->c0 / step->h;
        torque[i] += damping[axis] * v;
        slope(i, i) += damping[axis] * c;
        if (armature[axis] != 0) {
            torque[i] += (step->c0 * armature[axis] * v + step->c1 * history->p[axis] + step->c2 * history->p_before[axis]) /
                         step->h;
            slope(i, i) += armature[axis] * c * c;
        }
    }
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
    element.block(q, q, k, k) = slope;
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
    if (step) {
        force += spring.damping *
                 (step->c0 * length + step->c1 * history->length[s] + step->c2 * history->length_before[s]) / step->h;
        slope += spring.damping * step->c0 / step->h;
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
    if (row.equality) {
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
        residual_[axis_row_[row.of.axes[i]]] -= row.of.coefficients[i] * mu;
    if (!tangent) return;
    const int e = bodies() + static_cast<int>(joints.size() + springs.size()) + r;
    const auto& rows_of = fronts_->element_rows(e);
    const int n = static_cast<int>(rows_of.size()), last = n - 1;
    Eigen::Map<Eigen::MatrixXd> element(fronts_->element(e), n, n);
    element.setZero();
    if (!active_[r]) element(last, last) = -regular_scale_;  // the multiplier goes to zero, taking its torque along
    for (std::size_t i = 0; i < row.of.axes.size(); ++i) {
        const int at =
            static_cast<int>(std::find(rows_of.begin(), rows_of.end(), axis_row_[row.of.axes[i]]) - rows_of.begin());
        element(at, last) = regular_scale_ * row.of.coefficients[i];
        if (active_[r]) element(last, at) = element(at, last);
    }
}

void System::evaluate(bool tangent, const Step* step, const History* history) {
    regular_scale_ = stiffness_scale;
    if (step) {
        double total = 0;
        for (double m : mass) total += m;
        regular_scale_ += total / std::max<std::size_t>(1, mass.size()) * length_scale * length_scale *
                          (step->c0 / step->h) * (step->c0 / step->h);
    }
    scale_.head<3>().setConstant(regular_scale_ / length_scale);
    scale_.tail<3>().setConstant(regular_scale_);
    std::fill(residual_.begin(), residual_.end(), 0.0);
    move();
    apply(step, history, tangent);
    react();
    for (std::size_t j = 0; j < joints.size(); ++j) fill_joint(static_cast<int>(j), step, history, tangent);
    for (std::size_t s = 0; s < springs.size(); ++s) fill_spring(static_cast<int>(s), step, history, tangent);
    for (std::size_t r = 0; r < rows.size(); ++r) fill_row(static_cast<int>(r), tangent);
}

double System::gap_size() const {
    double size = 0;
    for (std::size_t j = 0; j < joints.size(); ++j)
        if (joints[j].outer < 0)
            size = std::max({size, gap_[j].head<3>().cwiseAbs().maxCoeff() / length_scale,
                             gap_[j].tail<3>().cwiseAbs().maxCoeff()});
    for (std::size_t r = 0; r < rows.size(); ++r) size = std::max(size, std::abs(row_error_[r]));
    return size;
}

double System::imbalance() const {
    double worst = 0, largest = 0;
    for (const Vec6& lambda : state.lambda) largest = std::max(largest, lambda.cwiseAbs().maxCoeff());
    const double floor = 1e-3 * largest + 1e-12 * stiffness_scale;  // rounding where nothing is carried
    for (std::size_t j = 0; j < joints.size(); ++j)
        for (int axis = joints[j].first; axis < joints[j].first + joints[j].count; ++axis) {
            const double carried = screw_[axis].cwiseAbs().dot(state.lambda[j].cwiseAbs());
            worst = std::max(worst, std::abs(residual_[axis_row_[axis]]) / (carried + floor));
        }
    return worst;
}

double System::motion_size(const double* x) const {
    double size = 0;
    for (int axis = 0; axis < axes(); ++axis) {
        const double moved = std::abs(x[axis_row_[axis]]);
        if (!(moved >= 0)) return INFINITY;
        size = std::max(size, twists[axis].tail<3>().isZero(0) ? moved / length_scale : moved);
    }
    return size;
}

int System::factorise(double shift) {
    std::fill(regular_.begin(), regular_.end(), 0.0);
    const double soft = -regular_scale_ / penalty;
    for (std::size_t j = 0; j < joints.size(); ++j)
        if (joints[j].outer < 0) std::fill_n(regular_.begin() + joint_start_[j], 6, soft);
    for (std::size_t r = 0; r < rows.size(); ++r)
        if (active_[r]) regular_[row_start_ + r] = soft;
    for (int axis = 0; axis < axes(); ++axis) regular_[axis_row_[axis]] = shift * regular_scale_;
    for (int b = 0; b < bodies(); ++b) {  // of scale A_child, or of -scale B_parent
        const Joint& joint = joints[holder_[b]];
        Eigen::Map<Mat6> inverse(fronts_->pair_inverse(first_pair_ + b));
        inverse = joint.child == b ? adjoint(joint.pose_child)
                                   : Mat6(-adjoint(joint.pose_parent * displacement_[holder_[b]]));
        inverse *= scale_.cwiseInverse().asDiagonal();
    }
    return fronts_->factorise(regular_.data());
}

void System::scale_multipliers(double* x) const {
    for (std::size_t j = 0; j < joints.size(); ++j) Eigen::Map<Vec6>(x + joint_start_[j]).array() *= scale_.array();
    for (std::size_t r = 0; r < rows.size(); ++r) x[row_start_ + r] *= regular_scale_;
}

std::vector<double> System::scales() const {
    std::vector<double> result(unknowns(), 1.0);
    scale_multipliers(result.data());
    return result;
}

double System::solve(const double* rhs, double* x, bool transposed, bool refine) const {
    const int n = fronts_->size();
    std::vector<double> goal(rhs, rhs + n);
    scale_multipliers(goal.data());
    double size = 0;
    for (double value : goal) size = std::max(size, std::abs(value));
    std::copy(goal.begin(), goal.end(), x);
    transposed ? fronts_->solve_transposed(x) : fronts_->solve(x);
    double error = 0, last = INFINITY;
    const bool needed = refine && size > 0 &&
                        std::any_of(regular_.begin(), regular_.end(), [](double value) { return value < 0; });
    std::vector<double> left(needed ? n : 0), best;
    for (int k = 0; needed && k < 8; ++k) {
        fronts_->multiply(x, left.data(), transposed);
        error = 0;
        for (int i = 0; i < n; ++i) {
            left[i] = goal[i] - left[i] - std::max(regular_[i], 0.0) * x[i];
            error = std::max(error, std::abs(left[i]));
        }
        error /= size;
        if (!(error < 0.5 * last)) {  // stalled: redundant constraints off their manifold
            std::copy(best.begin(), best.end(), x);
            error = last;
            break;
        }
        last = error;
        if (error < 1e-13) break;
        best.assign(x, x + n);
        transposed ? fronts_->solve_transposed(left.data()) : fronts_->solve(left.data());
        for (int i = 0; i < n; ++i) x[i] += left[i];
    }
    scale_multipliers(x);
    return error;
}

void System::retract(const State& base, const double* x, double alpha) {
    for (const Joint& joint : joints) {
        int axis = joint.first;
        for (int size : joint.blocks) {
            if (size == 3) {
                const Vec3 r(base.q[axis], base.q[axis + 1], base.q[axis + 2]);
                const Vec3 d = alpha * Vec3(x[axis_row_[axis]], x[axis_row_[axis + 1]], x[axis_row_[axis + 2]]);
                const Vec3 moved = so3_log(so3_exp(r) * so3_exp(d));
                for (int i = 0; i < 3; ++i) state.q[axis + i] = moved[i];
            } else {
                state.q[axis] = base.q[axis] + alpha * x[axis_row_[axis]];
            }
            axis += size;
        }
    }
    for (std::size_t j = 0; j < joints.size(); ++j)
        if (joints[j].outer < 0)
            state.lambda[j] = base.lambda[j] + alpha * Eigen::Map<const Vec6>(x + joint_start_[j]);
    for (std::size_t r = 0; r < rows.size(); ++r) state.mu[r] = base.mu[r] + alpha * x[row_start_ + r];
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
    return sum;
}

double System::gravity_energy() const {
    double sum = 0;
    for (int b = 0; b < bodies(); ++b) sum -= mass[b] * gravity.dot(state.H[b].act(centre[b]));
    return sum;
}

double System::kinetic_energy() const {
    double sum = 0;
    for (int b = 0; b < bodies(); ++b) sum += 0.5 * velocity[b].dot(mass_matrix_[b] * velocity[b]);
    for (int axis = 0; axis < axes(); ++axis) sum += 0.5 * armature[axis] * rate[axis] * rate[axis];
    return sum;
}

}  // namespace supple
