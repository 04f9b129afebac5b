#include "engine/kinematics.hpp"

#include <algorithm>

#include "spatial/product_of_exponentials.hpp"

namespace supple {

KinematicState::KinematicState(std::shared_ptr<const KinematicModel> model)
    : model_(std::move(model)),
      x_(model_->size(), 0.0),
      poses_(model_->bodies()),
      columns_(model_->size()),
      frames_(model_->tree_joints()),
      interfaces_(model_->interfaces),
      composites_(model_->bodies()),
      screws_(model_->dof) {}

Pose KinematicState::displacement(const KinematicModel::Joint& joint, Vec6* columns) {
    const int end = joint.first + joint.count;
    if (joint.interface >= 0) {
        InterfaceFrame& frame = interfaces_[joint.interface];
        frame.evaluate(&x_[joint.first]);
        for (int i = 0; columns && i < joint.count; ++i)
            columns[joint.first + i] = stack(frame.linear(i), frame.angular(i));
        return frame.pose();
    }
    const KinematicModel& m = *model_;
    const Pose X = product_of_exponentials(
        joint.first, end, x_.data(), [&](int i) { return m.block[i]; },
        [&](int i) -> const Vec6& { return m.twists[i]; }, columns);
    for (int i = joint.first; columns && i < end; i += m.block[i]) {
        if (m.block[i] == 1) continue;
        // exp(r + dr) = exp(r) exp(Jr(r) dr)
        const Mat3 J = so3_right_jacobian(Vec3(&x_[i]));
        const Vec6 a = columns[i], b = columns[i + 1], c = columns[i + 2];
        for (int k = 0; k < 3; ++k) columns[i + k] = J(0, k) * a + J(1, k) * b + J(2, k) * c;
    }
    return X;
}

void KinematicState::place(const double* q) {
    std::copy_n(q, model_->dof, x_.begin());
    for (const KinematicModel::Branch& branch : model_->branches) {
        const KinematicModel::Joint& joint = model_->joints[branch.joint];
        Pose across = joint.count ? joint.on_parent * displacement(joint, nullptr) : joint.on_parent;
        across = across * joint.on_child.inverse();
        if (branch.reversed) across = across.inverse();
        poses_[branch.body] = branch.inner < 0 ? across : poses_[branch.inner] * across;
    }
}

void KinematicState::displacements(const double* q, Pose* poses) {
    std::copy_n(q, model_->dof, x_.begin());
    for (int j = 0; j < model_->tree_joints(); ++j) poses[j] = displacement(model_->joints[j], nullptr);
}

void KinematicState::make_columns() {
    for (const KinematicModel::Branch& branch : model_->branches) {
        const KinematicModel::Joint& joint = model_->joints[branch.joint];
        if (!joint.count) continue;
        if (joint.count == 1 && joint.interface < 0) columns_[joint.first] = model_->twists[joint.first];
        else displacement(joint, columns_.data());
        frames_[branch.joint] = pose(joint.child) * joint.on_child;
    }
}

void KinematicState::add_columns(int body, int relative_to, const Pose& at, double factor, double* rows,
                                 int stride) const {
    while (body != relative_to) {
        const KinematicModel::Branch& branch = model_->branches[model_->branch_of[body]];
        const KinematicModel::Joint& joint = model_->joints[branch.joint];
        const Pose relative = frames_[branch.joint].seen_from(at);
        const double sign = branch.reversed ? -factor : factor;
        for (int i = joint.first; i < joint.first + joint.count; ++i) {
            const Vec6 twist = transform_twist(relative, columns_[i]);
            for (int k = 0; k < 6; ++k) rows[k * stride + i] += sign * twist[k];
        }
        body = branch.inner;
    }
}

int KinematicState::common(int first, int second) const {
    auto order = [&](int body) { return body < 0 ? -1 : model_->branch_of[body]; };
    while (first != second) {
        int& outer = order(first) > order(second) ? first : second;
        outer = model_->branches[model_->branch_of[outer]].inner;
    }
    return first;
}

void KinematicState::jacobian(int body, const Pose& frame, double* rows, int stride) {
    make_columns();
    for (int k = 0; k < 6; ++k) std::fill_n(rows + k * stride, model_->dof, 0.0);
    add_columns(body, -1, pose(body) * frame, 1.0, rows, stride);
}

void KinematicState::screws(double* rows) {
    make_columns();
    for (const KinematicModel::Branch& branch : model_->branches) {
        const KinematicModel::Joint& joint = model_->joints[branch.joint];
        for (int i = joint.first; i < joint.first + joint.count; ++i) {
            const Vec6 screw = transform_twist(frames_[branch.joint], columns_[i]);
            for (int k = 0; k < 6; ++k) rows[6 * i + k] = branch.reversed ? -screw[k] : screw[k];
        }
    }
}

// M_ij = s_i^T I_c s_j, where s_i is the screw of coordinate i and I_c the composite inertia of the bodies that the
// outer of both coordinates moves; all about the mean of the bodies' origins, so that a mechanism far from the world's
// origin loses no digits.
void KinematicState::mass_matrix(double* rows) {
    make_columns();
    const KinematicModel& m = *model_;
    const int n = m.dof;
    std::fill_n(rows, n * n, 0.0);
    Vec3 middle = Vec3::Zero();
    for (const Pose& H : poses_) middle += H.p;
    middle /= std::max<double>(1, poses_.size());
    for (int b = 0; b < m.bodies(); ++b) {
        const Vec3 c = poses_[b].act(m.centre[b]) - middle;
        const Mat3& R = poses_[b].R;
        Composite& own = composites_[b];
        own.mass = m.mass[b];
        own.moment = m.mass[b] * c;
        own.inertia = R * m.inertia[b] * R.transpose() - m.mass[b] * (c * c.transpose());
        own.inertia.diagonal().array() += m.mass[b] * c.squaredNorm();
    }
    for (auto branch = m.branches.rbegin(); branch != m.branches.rend(); ++branch) {
        if (branch->inner < 0) continue;
        const Composite& outer = composites_[branch->body];
        Composite& inner = composites_[branch->inner];
        inner.mass += outer.mass;
        inner.moment += outer.moment;
        inner.inertia += outer.inertia;
    }
    for (const KinematicModel::Branch& branch : m.branches) {
        const KinematicModel::Joint& joint = m.joints[branch.joint];
        Pose frame = frames_[branch.joint];
        frame.p -= middle;
        for (int i = joint.first; i < joint.first + joint.count; ++i) {
            screws_[i] = transform_twist(frame, columns_[i]);
            if (branch.reversed) screws_[i] = -screws_[i];
        }
    }
    for (const KinematicModel::Branch& branch : m.branches) {
        const KinematicModel::Joint& joint = m.joints[branch.joint];
        const Composite& moved = composites_[branch.body];
        for (int j = joint.first; j < joint.first + joint.count; ++j) {
            const Vec3 v = screws_[j].head<3>(), w = screws_[j].tail<3>();
            const Vec6 momentum = stack(moved.mass * v + w.cross(moved.moment),
                                        moved.moment.cross(v) + moved.inertia * w);
            for (int i = joint.first; i <= j; ++i) rows[i * n + j] = rows[j * n + i] = screws_[i].dot(momentum);
            for (int body = branch.inner; body >= 0;) {
                const KinematicModel::Branch& carrying = m.branches[m.branch_of[body]];
                const KinematicModel::Joint& other = m.joints[carrying.joint];
                for (int i = other.first; i < other.first + other.count; ++i)
                    rows[i * n + j] = rows[j * n + i] = screws_[i].dot(momentum);
                body = carrying.inner;
            }
        }
        // Armature acts on the rates of increments
        for (int j = joint.first; j < joint.first + joint.count; j += m.block[j]) {
            if (m.block[j] == 1) {
                rows[j * n + j] += m.armature[j];
                continue;
            }
            const Mat3 J = so3_right_jacobian(Vec3(&x_[j]));
            const Mat3 own = J.transpose() * Mat3(Vec3(&m.armature[j]).asDiagonal()) * J;
            for (int r = 0; r < 3; ++r)
                for (int c = 0; c < 3; ++c) rows[(j + r) * n + j + c] += own(r, c);
        }
    }
}

void KinematicState::constraints(const double* loop_coordinates, double length, double* gaps, double* rows) {
    const KinematicModel& m = *model_;
    const int n = m.size();
    std::copy_n(loop_coordinates, n - m.dof, x_.begin() + m.dof);
    std::fill_n(rows, m.constraints() * n, 0.0);
    const bool loops = static_cast<int>(m.joints.size()) > m.tree_joints();
    if (loops) make_columns();
    for (std::size_t j = m.tree_joints(); j < m.joints.size(); ++j, gaps += 6, rows += 6 * n) {
        const KinematicModel::Joint& joint = m.joints[j];
        const Pose on_child = pose(joint.child) * joint.on_child;
        const Pose inside = pose(joint.parent) * joint.on_parent * displacement(joint, columns_.data());
        Eigen::Map<Vec6>(gaps, 6) = log(on_child.seen_from(inside));
        const int base = common(joint.child, joint.parent);
        add_columns(joint.child, base, on_child, 1.0, rows, n);
        add_columns(joint.parent, base, on_child, -1.0, rows, n);
        for (int i = joint.first; i < joint.first + joint.count; ++i)
            for (int k = 0; k < 6; ++k) rows[k * n + i] -= columns_[i][k];
        for (int k = 0; k < 3; ++k) {
            gaps[k] /= length;
            for (int i = 0; i < n; ++i) rows[k * n + i] /= length;
        }
    }
    for (const KinematicModel::Row& row : m.couplings) {
        *gaps = -row.rest;
        for (std::size_t i = 0; i < row.places.size(); ++i) {
            *gaps += row.coefficients[i] * x_[row.places[i]];
            rows[row.places[i]] = row.coefficients[i];
        }
        ++gaps;
        rows += n;
    }
}

}  // namespace supple
