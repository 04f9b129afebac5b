#include "reduced/joints.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include "spatial/product_of_exponentials.hpp"

namespace supple {

Joints::Joints(const System& system, std::vector<Tip> tips, Maps maps)
    : Articulated(system, Use::poses), tips_(std::move(tips)), maps_(std::move(maps)) {
    if (*uncovered())
        throw std::invalid_argument(std::string("links by joints do not cover ") + uncovered() +
                                    "; use reconstruction=\"twist\"");
    const std::vector<Joint>& joints = system.model().joints;
    for (std::size_t j = 0; j < joints.size(); ++j) {
        if (joints[j].outer < 0) loops_.push_back(static_cast<int>(j));
        int axis = joints[j].first;
        for (int size : joints[j].blocks) {
            if (size == 3) rotations_.push_back(axis);
            axis += size;
        }
    }
    q_ = maps_.rest;
    increments_ = last_ = offset = Vector::Zero(q_.size());
    admissible_.resize(maps_.cobasis.rows());
    error_.setZero(6 * tips_.size());
    gap_.setZero(6 * loops_.size());
}

void Joints::follow(const Vector& y, const std::vector<Pose>& tips, int corrections) {
    q_ = maps_.rest;
    increments_.noalias() = maps_.map * y;
    increments_ += offset;
    move_by_increments();
    double smallest = INFINITY, damping = 1;
    best_ = q_;
    last_.setZero();
    for (int k = 0;; ++k) {
        const double size = measure(tips, k == corrections);
        if (size < smallest) {
            smallest = size;
            if (k == corrections) return;
            best_ = q_;
            if (loops_.size()) error_.noalias() += maps_.loop_tips * gap_;
            last_.noalias() = maps_.by_tips * error_;
            if (loops_.size()) last_.noalias() -= maps_.by_loops * gap_;
            damping = 1;
        } else {  // the error grew: return to the best iterate and halve the correction
            q_ = best_;
            if (k == corrections || !std::isfinite(smallest)) break;
            damping /= 2;
        }
        increments_ = damping * last_;
        move_by_increments();
    }
    place(q_.data());
    measure(tips, true);
}

// Rotation vectors move as exp(q) exp(increment).
void Joints::move_by_increments() {
    for (int axis : rotations_) {
        const Vec3 now(q_.data() + axis), by(increments_.data() + axis);
        Eigen::Map<Vec3>(increments_.data() + axis) = so3_log(so3_exp(now) * so3_exp(by)) - now;
    }
    q_ += increments_;
    place(q_.data());
}

// Errors of the tips and gaps of the loops at the present frames; returns the squared norm of the errors that can be
// corrected: the tips' error in the admissible space, and the gaps, lengths over the mechanism's.
double Joints::measure(const std::vector<Pose>& tips, bool exact) {
    for (std::size_t e = 0; e < tips.size(); ++e)
        error_.segment<6>(6 * e) = log(tips[e].seen_from(body_pose(tips_[e].body) * tips_[e].on_body));
    admissible_.noalias() = maps_.cobasis * error_;
    double size = admissible_.squaredNorm();
    for (std::size_t i = 0; i < loops_.size(); ++i) {
        const Vec6 twist = gap(system_->model().joints[loops_[i]], exact);
        gap_.segment<6>(6 * i) = twist;
        size += twist.head<3>().squaredNorm() / (length_scale_ * length_scale_) + twist.tail<3>().squaredNorm();
    }
    return size;
}

// Gap of a loop joint as a twist, with its own coordinates. Two orders suffice for a chord correction.
Vec6 Joints::gap(const Joint& loop, bool exact) const {
    const Model& model = system_->model();
    const Pose X = product_of_exponentials(
        loop.first, loop.first + loop.count, q_.data(), [&](int axis) { return model.single[axis] ? 1 : 3; },
        [&](int axis) -> const Vec6& { return model.twists[axis]; }, nullptr);
    const Pose off = (pose_of(loop.child) * loop.pose_child).seen_from(pose_of(loop.parent) * loop.pose_parent * X);
    if (exact) return log(off);
    const Vec3 w = 0.5 * Vec3(off.R(2, 1) - off.R(1, 2), off.R(0, 2) - off.R(2, 0), off.R(1, 0) - off.R(0, 1));
    return stack(off.p - 0.5 * w.cross(off.p), w);
}

}  // namespace supple
