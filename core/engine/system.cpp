#include "engine/system.hpp"

#include <algorithm>
#include <cmath>

#include "spatial/product_of_exponentials.hpp"

namespace supple {

namespace {
// Ad(h^-1)^T w, without forming the matrix: a wrench from the frame h to the frame in which h is given
SUPPLE_INLINE Vec6 wrench_from(const Pose& h, const Vec6& w) {
    const Vec3 f = h.R * w.head<3>();
    return stack(f, h.R * w.tail<3>() + h.p.cross(f));
}

}  // namespace

System::System(std::shared_ptr<const Model> model) : model_(std::move(model)) {
    analyse();
    use(model_);
    const int nb = bodies(), nj = static_cast<int>(model_->joints.size()), nr = static_cast<int>(model_->rows.size());
    rest = model_->rest;
    for (const Spring& spring : model_->springs) spring_rest.push_back(spring.rest);
    for (const Row& row : model_->rows) targets.push_back(row.lower);
    for (const Actuator& each : model_->actuators) actuation.push_back(each.start);
    applied.assign(axes(), 0.0);
    momentum_wrench_.assign(nb, Vec6::Zero());
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
    state.q.assign(axes(), 0.0);
    state.lambda.resize(nj, Vec6::Zero());
    state.mu.resize(nr, 0);
    state.H.resize(nb);
}

void System::use(std::shared_ptr<const Model> model) {
    model_ = std::move(model);
    interfaces = model_->interfaces;
    flexible = model_->flexible;
}

std::shared_ptr<const Model> System::with_closed_loops(const std::vector<double>& q, double below) {
    state.q = q;
    move();
    std::shared_ptr<Model> closed;
    for (std::size_t j = 0; j < model_->joints.size(); ++j) {
        const Joint& joint = model_->joints[j];
        const double size = std::max(gap_[j].head<3>().cwiseAbs().maxCoeff() / model_->length_scale,
                                     gap_[j].tail<3>().cwiseAbs().maxCoeff());
        if (joint.outer >= 0 || size < 1e-12 || size > below) continue;
        if (!closed) closed = std::make_shared<Model>(*model_);
        const Pose child = joint.child < 0 ? joint.pose_child : state.H[joint.child] * joint.pose_child;
        const Pose frame = child * displacement_[j].inverse();
        closed->joints[j].pose_parent = joint.parent < 0 ? frame : frame.seen_from(state.H[joint.parent]);
    }
    if (closed) closed->prepare();
    return closed;
}

void System::analyse() {
    const int nb = bodies(), nj = static_cast<int>(model_->joints.size()), nr = static_cast<int>(model_->rows.size());
    std::vector<int> sizes(nb, 6);
    std::vector<int> axis_joint(axes());
    for (int j = 0; j < nj; ++j) {
        joint_start_.push_back(6 * nb + 6 * j + model_->joints[j].first);
        sizes.push_back(6);
        sizes.push_back(model_->joints[j].count);
        for (int i = 0; i < model_->joints[j].count; ++i) {
            axis_row_.push_back(joint_start_[j] + 6 + i);
            axis_joint[model_->joints[j].first + i] = j;
        }
    }
    row_start_ = 6 * nb + 6 * nj + axes();
    sizes.insert(sizes.end(), nr, 1);

    // loops and rows first: their regularisation makes them regular, and bodies that are connected only by a loop get
    // their stiffness from them
    std::vector<std::vector<int>> nodes, elements;
    for (int j = 0; j < nj; ++j)
        if (model_->joints[j].outer < 0) nodes.push_back({nb + 2 * j, nb + 2 * j + 1});
    for (int r = 0; r < nr; ++r) nodes.push_back({nb + 2 * nj + r});
    const int early = static_cast<int>(nodes.size());
    std::vector<int> inner(early + nb, -1);
    for (int b = 0; b < nb; ++b) {
        const Joint& joint = model_->joints[model_->holder[b]];
        const int next = joint.child == b ? joint.parent : joint.child;
        if (next >= 0) inner[early + b] = early + next;
        nodes.push_back({b, nb + 2 * model_->holder[b], nb + 2 * model_->holder[b] + 1});
    }
    first_pair_ = early;

    for (int b = 0; b < nb; ++b) elements.push_back({b});
    for (int j = 0; j < nj; ++j) {
        auto& blocks = elements.emplace_back();
        for (int body : {model_->joints[j].parent, model_->joints[j].child})
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
    for (const Spring& spring : model_->springs) elements.push_back(joint_blocks(spring.of));
    for (int r = 0; r < nr; ++r) {
        auto& blocks = elements.emplace_back(joint_blocks(model_->rows[r].of));
        blocks.push_back(nb + 2 * nj + r);
    }
    for (const FlexibleBody& each : model_->flexible)
        elements.push_back({each.body, nb + 2 * axis_joint[each.axis] + 1});
    fronts_.emplace(sizes, nodes, elements, early, inner);
}

void System::joint_kinematics(int j) {
    const Joint& joint = model_->joints[j];
    if (joint.interface >= 0) {
        InterfaceFrame& frame = interfaces[joint.interface];
        frame.evaluate(&state.q[joint.first]);
        displacement_[j] = frame.pose();
        for (int i = 0; i < joint.count; ++i) screw_[joint.first + i] = stack(frame.linear(i), frame.angular(i));
        B_parent_[j] = adjoint_inverse(displacement_[j]) * joint.Ad_parent;
        return;
    }
    const Pose after = displacement_[j] = product_of_exponentials(
        joint.first, joint.first + joint.count, state.q.data(), [&](int axis) { return model_->single[axis] ? 1 : 3; },
        [&](int axis) -> const Vec6& { return model_->twists[axis]; }, screw_.data());
    // Ad(X^-1) Ad(pose_parent^-1), both block upper triangular
    const Mat3 Rt = after.R.transpose();
    const Mat3 lower = Rt * joint.Ad_parent.bottomRightCorner<3, 3>();
    B_parent_[j] = blocks(
        lower,
        Rt * (joint.Ad_parent.topRightCorner<3, 3>() - skew(after.p) * joint.Ad_parent.bottomRightCorner<3, 3>()),
        Mat3::Zero(), lower);
}

void System::move() {
    for (std::size_t j = 0; j < model_->joints.size(); ++j) joint_kinematics(static_cast<int>(j));
    for (int b : model_->order) {
        const Joint& joint = model_->joints[model_->holder[b]];
        const Pose across = joint.pose_parent * displacement_[model_->holder[b]] * joint.pose_child.inverse();
        const int inner = joint.child == b ? joint.parent : joint.child;
        const Pose step = joint.child == b ? across : across.inverse();
        state.H[b] = inner < 0 ? step : state.H[inner] * step;
    }
    for (std::size_t j = 0; j < model_->joints.size(); ++j) {
        const Joint& joint = model_->joints[j];
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
    for (std::size_t j = 0; j < model_->joints.size(); ++j) {
        if (model_->joints[j].outer >= 0) continue;
        const Vec6 on_child = loop_child_[j].transpose() * state.lambda[j];
        const Vec6 on_parent = loop_parent_[j].transpose() * state.lambda[j];
        if (model_->joints[j].child >= 0)
            left[model_->joints[j].child] -= model_->joints[j].A_child.transpose() * on_child;
        if (model_->joints[j].parent >= 0) left[model_->joints[j].parent] += B_parent_[j].transpose() * on_parent;
    }
    for (std::size_t k = model_->order.size(); k-- > 0;) {
        const int b = model_->order[k];
        const Joint& joint = model_->joints[model_->holder[b]];
        Vec6& lambda = state.lambda[model_->holder[b]];
        const Pose frame = joint.pose_parent * displacement_[model_->holder[b]];  // of the child's side, in the parent
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
    regular_scale_ = model_->stiffness_scale;
    if (step) {
        double total = 0;
        for (double m : model_->mass) total += m;
        regular_scale_ += total / std::max<std::size_t>(1, model_->mass.size()) * model_->length_scale *
                          model_->length_scale * (step->c0 / step->h) * (step->c0 / step->h);
    }
    scale_.head<3>().setConstant(regular_scale_ / model_->length_scale);
    scale_.tail<3>().setConstant(regular_scale_);
    std::fill(residual_.begin(), residual_.end(), 0.0);
    move();
    apply(step, history, tangent);
    react();
    for (std::size_t j = 0; j < model_->joints.size(); ++j) fill_joint(static_cast<int>(j), step, history, tangent);
    for (std::size_t s = 0; s < model_->springs.size(); ++s) fill_spring(static_cast<int>(s), step, history, tangent);
    for (std::size_t r = 0; r < model_->rows.size(); ++r) fill_row(static_cast<int>(r), tangent);
}

double System::largest_error(int& joint, int& row) const {
    double size = 0;
    joint = row = -1;
    for (std::size_t j = 0; j < model_->joints.size(); ++j) {
        if (model_->joints[j].outer >= 0) continue;
        const double gap = std::max(gap_[j].head<3>().cwiseAbs().maxCoeff() / model_->length_scale,
                                    gap_[j].tail<3>().cwiseAbs().maxCoeff());
        if (gap > size) {
            size = gap;
            joint = static_cast<int>(j);
        }
    }
    for (std::size_t r = 0; r < model_->rows.size(); ++r)
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
    // Where nothing loads, torques are rounding errors: up to 1e-14 rad of the stiffest spring. They count against 1e-7
    // rad of it.
    const double rounding = 1e-7 * model_->stiffness_scale;
    for (std::size_t j = 0; j < model_->joints.size(); ++j)
        for (int axis = model_->joints[j].first; axis < model_->joints[j].first + model_->joints[j].count; ++axis) {
            const double carried = screw_[axis].cwiseAbs().dot(state.lambda[j].cwiseAbs());
            const double lever = model_->twists[axis].tail<3>().isZero(0) ? model_->length_scale : 1.0;
            worst = std::max(worst,
                             std::abs(residual_[axis_row_[axis]]) / (carried + 1e-3 * largest + rounding / lever));
        }
    return worst;
}

double System::motion_size(const double* x) const {
    double size = 0;
    for (int axis = 0; axis < axes(); ++axis) {
        const double moved = std::abs(x[axis_row_[axis]]);
        if (!(moved >= 0)) return INFINITY;
        size = std::max(size, model_->twists[axis].tail<3>().isZero(0) ? moved / model_->length_scale : moved);
    }
    return size;
}

int System::factorise(double shift) {
    std::fill(regular_.begin(), regular_.end(), 0.0);
    const double soft = -regular_scale_ / penalty;
    for (std::size_t j = 0; j < model_->joints.size(); ++j)
        if (model_->joints[j].outer < 0) std::fill_n(regular_.begin() + joint_start_[j], 6, soft);
    for (std::size_t r = 0; r < model_->rows.size(); ++r)
        if (active_[r]) regular_[row_start_ + r] = soft;
    for (int axis = 0; axis < axes(); ++axis) regular_[axis_row_[axis]] = shift * regular_scale_;
    for (int b = 0; b < bodies(); ++b) {  // of scale A_child, or of -scale B_parent
        const Joint& joint = model_->joints[model_->holder[b]];
        Eigen::Map<Mat6> inverse(fronts_->pair_inverse(first_pair_ + b));
        inverse = joint.child == b ? adjoint(joint.pose_child)
                                   : Mat6(-adjoint(joint.pose_parent * displacement_[model_->holder[b]]));
        inverse *= scale_.cwiseInverse().asDiagonal();
    }
    return fronts_->factorise(regular_.data());
}

void System::scale_multipliers(double* x) const {
    for (std::size_t j = 0; j < model_->joints.size(); ++j)
        Eigen::Map<Vec6>(x + joint_start_[j]).array() *= scale_.array();
    for (std::size_t r = 0; r < model_->rows.size(); ++r) x[row_start_ + r] *= regular_scale_;
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
    for (int b : model_->order) {
        const Joint& joint = model_->joints[model_->holder[b]];
        Vec6 by = Vec6::Zero();
        for (int axis = joint.first; axis < joint.first + joint.count; ++axis) by += x[axis_row_[axis]] * screw_[axis];
        Eigen::Map<Vec6> twist(x + twist_row(b));
        if (joint.child == b) {
            if (joint.parent >= 0)
                by += B_parent_[model_->holder[b]] * Eigen::Map<const Vec6>(x + twist_row(joint.parent));
            twist = adjoint(joint.pose_child) * by;
        } else {
            by *= -1;
            if (joint.child >= 0) by += joint.A_child * Eigen::Map<const Vec6>(x + twist_row(joint.child));
            twist = adjoint(joint.pose_parent * displacement_[model_->holder[b]]) * by;
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
    for (std::size_t j = 0; j < model_->joints.size(); ++j)
        for (int i = 0; i < 6 && model_->joints[j].outer < 0; ++i)
            put(joint_start_[j] + i, state.lambda[j][i], scale_[i]);
    for (std::size_t r = 0; r < model_->rows.size(); ++r)
        put(row_start_ + static_cast<int>(r), state.mu[r], regular_scale_);
    return any;
}

void System::remove_null_space(const double* x, double most) {
    const double size = motion_size(x);
    if (!std::isfinite(size)) return;
    const double alpha = size > most ? most / size : 1.0;
    for (std::size_t j = 0; j < model_->joints.size(); ++j)
        if (model_->joints[j].outer < 0) state.lambda[j] += alpha * Eigen::Map<const Vec6>(x + joint_start_[j]);
    for (std::size_t r = 0; r < model_->rows.size(); ++r) state.mu[r] += alpha * x[row_start_ + r];
}

void System::retract(const Configuration& base, const double* x, double alpha) {
    for (const Joint& joint : model_->joints) {
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
    for (std::size_t j = 0; j < model_->joints.size(); ++j)
        if (model_->joints[j].outer < 0)
            state.lambda[j] = base.lambda[j] + alpha * Eigen::Map<const Vec6>(x + joint_start_[j]);
    for (std::size_t r = 0; r < model_->rows.size(); ++r) state.mu[r] = base.mu[r] + alpha * x[row_start_ + r];
}

}  // namespace supple
