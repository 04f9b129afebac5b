#include "engine/system.hpp"

#include <algorithm>
#include <cmath>

namespace supple {

namespace {
constexpr double stop_stiffness = 1e3;  // of limits that are springs, over the stiffest spring
constexpr double stop_onset = 1e-3;     // rad, or over the radius

// Ad(h^-1)^T w, without forming the matrix: a wrench from the frame h to the frame in which h is given
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

}  // namespace

void System::prepare() {
    const int nb = bodies(), nj = static_cast<int>(joints.size()), nr = static_cast<int>(rows.size());
    applied.assign(axes(), 0.0);
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

    // loops and rows first: their regularisation makes them regular, and bodies that are connected only by a loop get their
    // stiffness from them
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
    for (const FlexibleBody& each : flexible) elements.push_back({each.body, nb + 2 * axis_joint[each.axis] + 1});
    fronts_.emplace(sizes, nodes, elements, early, inner);

    find_groups();
    for (int b = 0; b < nb; ++b) mass_matrix_.push_back(spatial_inertia(mass[b], centre[b], inertia[b]));
    momentum_wrench_.assign(nb, Vec6::Zero());
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
    spin_derivative_.resize(nb);
    loop_child_.resize(nj);
    loop_parent_.resize(nj);
    residual_.resize(unknowns());
    regular_.resize(unknowns());
    active_.assign(nr, 0);
    row_error_.assign(nr, 0);
    velocity.assign(nb, Vec6::Zero());
    momentum.assign(nb, Vec6::Zero());
    rate.assign(axes(), 0);
    for (const FlexibleBody& each : flexible) {
        const std::vector<double> zero(each.modes(), 0.0);
        flexible_state.push_back(each.state_of(Pose{}, zero.data(), Vec6::Zero(), zero.data()));
    }
    state.lambda.resize(nj, Vec6::Zero());
    state.mu.resize(nr, 0);
    state.H.resize(nb);
}

void System::set_inertia(int body, double new_mass, const Vec3& new_centre, const Mat3& new_inertia) {
    mass.at(body) = new_mass;
    centre[body] = new_centre;
    inertia[body] = new_inertia;
    mass_matrix_[body] = spatial_inertia(new_mass, new_centre, new_inertia);
    combine_inertias();
}

void System::set_stops(bool stops) {
    for (Row& row : rows) {
        if (row.equality) continue;
        bool slide = true;
        for (int axis : row.of.axes) slide = slide && twists[axis].tail<3>().isZero(0);
        const double unit = slide ? length_scale : 1.0;
        row.stop = stops ? stop_stiffness * stiffness_scale / (unit * unit) : 0.0;
        row.onset = stop_onset * unit;
    }
}

void System::absorb_gaps(double below) {
    move();
    for (std::size_t j = 0; j < joints.size(); ++j) {
        Joint& joint = joints[j];
        const double size = std::max(gap_[j].head<3>().cwiseAbs().maxCoeff() / length_scale, gap_[j].tail<3>().cwiseAbs().maxCoeff());
        if (joint.outer >= 0 || size < 1e-12 || size > below) continue;
        const Pose child = joint.child < 0 ? joint.pose_child : state.H[joint.child] * joint.pose_child;
        const Pose closed = child * displacement_[j].inverse();
        joint.pose_parent = joint.parent < 0 ? closed : closed.seen_from(state.H[joint.parent]);
        joint.Ad_parent = adjoint_inverse(joint.pose_parent);
    }
    move();
}

// X(q) = product of the blocks' exponentials, and its twists S in the frame at its end.
void System::joint_kinematics(int j) {
    const Joint& joint = joints[j];
    if (joint.interface >= 0) {
        InterfaceFrame& frame = interfaces[joint.interface];
        frame.evaluate(&state.q[joint.first]);
        displacement_[j] = frame.pose();
        for (int i = 0; i < joint.count; ++i) screw_[joint.first + i] = stack(frame.linear(i), frame.angular(i));
        B_parent_[j] = adjoint_inverse(displacement_[j]) * joint.Ad_parent;
        return;
    }
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

// Multipliers of the tree's joints from the bodies' balance, outermost first.
void System::react() {
    std::vector<Vec6>& left = carried_;  // wrench that the joint towards the world must carry
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

double System::largest_error(int& joint, int& row) const {
    double size = 0;
    joint = row = -1;
    for (std::size_t j = 0; j < joints.size(); ++j) {
        if (joints[j].outer >= 0) continue;
        const double gap = std::max(gap_[j].head<3>().cwiseAbs().maxCoeff() / length_scale, gap_[j].tail<3>().cwiseAbs().maxCoeff());
        if (gap > size) {
            size = gap;
            joint = static_cast<int>(j);
        }
    }
    for (std::size_t r = 0; r < rows.size(); ++r)
        if (std::abs(row_error_[r]) > size) {
            size = std::abs(row_error_[r]);
            joint = -1;
            row = static_cast<int>(r);
        }
    return size;
}

double System::imbalance() const {
    double worst = 0, largest = 0;
    for (const Vec6& lambda : state.lambda) largest = std::max(largest, lambda.cwiseAbs().maxCoeff());
    const double floor = 1e-3 * largest + 1e-12 * stiffness_scale;  // for torques that are only rounding errors
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

double System::solve(const double* rhs, double* x, bool transposed, bool refine, int columns) const {
    const int n = fronts_->size(), all = n * columns;
    std::vector<double> goal(rhs, rhs + all);
    for (int c = 0; c < columns; ++c) scale_multipliers(goal.data() + c * n);
    std::vector<double> size(columns, 0.0);
    for (int c = 0; c < columns; ++c)
        for (int i = 0; i < n; ++i) size[c] = std::max(size[c], std::abs(goal[c * n + i]));
    std::copy(goal.begin(), goal.end(), x);
    transposed ? fronts_->solve_transposed(x, columns) : fronts_->solve(x, columns);
    double error = 0, last = INFINITY;
    const bool needed = refine && std::any_of(size.begin(), size.end(), [](double value) { return value > 0; }) &&
                        std::any_of(regular_.begin(), regular_.end(), [](double value) { return value < 0; });
    std::vector<double> left(needed ? all : 0), best;
    for (int k = 0; needed && k < 8; ++k) {
        error = 0;
        for (int c = 0; c < columns; ++c) {
            double* r = left.data() + c * n;
            fronts_->multiply(x + c * n, r, transposed);
            double largest = 0;
            for (int i = 0; i < n; ++i) {
                r[i] = goal[c * n + i] - r[i] - std::max(regular_[i], 0.0) * x[c * n + i];
                largest = std::max(largest, std::abs(r[i]));
            }
            if (largest > 0) error = std::max(error, largest / size[c]);
        }
        if (!(error < 0.5 * last)) {  // no progress: redundant constraints that contradict each other
            std::copy(best.begin(), best.end(), x);
            error = last;
            break;
        }
        last = error;
        if (error < 1e-13) break;
        best.assign(x, x + all);
        transposed ? fronts_->solve_transposed(left.data(), columns) : fronts_->solve(left.data(), columns);
        for (int i = 0; i < all; ++i) x[i] += left[i];
    }
    for (int c = 0; c < columns; ++c) scale_multipliers(x + c * n);
    return error;
}

void System::carry(double* x) const {
    for (int b : order) {
        const Joint& joint = joints[holder_[b]];
        Vec6 by = Vec6::Zero();
        for (int axis = joint.first; axis < joint.first + joint.count; ++axis) by += x[axis_row_[axis]] * screw_[axis];
        Eigen::Map<Vec6> twist(x + 6 * b);
        if (joint.child == b) {
            if (joint.parent >= 0) by += B_parent_[holder_[b]] * Eigen::Map<const Vec6>(x + 6 * joint.parent);
            twist = adjoint(joint.pose_child) * by;
        } else {
            by *= -1;
            if (joint.child >= 0) by += joint.A_child * Eigen::Map<const Vec6>(x + 6 * joint.child);
            twist = adjoint(joint.pose_parent * displacement_[holder_[b]]) * by;
        }
    }
}

// c' x - s (mu + dmu) = 0 in place of c' x - s dmu = 0, with the softness s of the regularisation
bool System::null_space_rhs(double* rhs) const {
    bool any = false;
    std::fill_n(rhs, unknowns(), 0.0);
    auto put = [&](int at, double multiplier, double scale) {
        rhs[at] = -regular_[at] * multiplier / (scale * scale);
        any = any || rhs[at] != 0;
    };
    for (std::size_t j = 0; j < joints.size(); ++j)
        for (int i = 0; i < 6 && joints[j].outer < 0; ++i) put(joint_start_[j] + i, state.lambda[j][i], scale_[i]);
    for (std::size_t r = 0; r < rows.size(); ++r) put(row_start_ + static_cast<int>(r), state.mu[r], regular_scale_);
    return any;
}

void System::remove_null_space(const double* x, double most) {
    const double size = motion_size(x);
    if (!std::isfinite(size)) return;
    const double alpha = size > most ? most / size : 1.0;
    for (std::size_t j = 0; j < joints.size(); ++j)
        if (joints[j].outer < 0) state.lambda[j] += alpha * Eigen::Map<const Vec6>(x + joint_start_[j]);
    for (std::size_t r = 0; r < rows.size(); ++r) state.mu[r] += alpha * x[row_start_ + r];
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

}  // namespace supple
