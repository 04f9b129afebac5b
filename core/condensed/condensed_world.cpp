// A condensed mechanism in a World.
#include "condensed/condensed.hpp"
#include "condensed/condensed_passes.hpp"

namespace supple {

namespace {
constexpr double shortest = 1e-3;  // shortest last part of a time step, over h
}  // namespace

// If the step must be divided, contact forces act in its last part only. The last part is made as long as possible.
bool Condensed::begin() {
    if (unstable_steps_left == 0) use_passes();
    start_.tips.clear();
    start_.velocities.clear();
    for (int e = 0; e < frames(); ++e) {
        start_.tips.push_back(interior->tip_pose(e));
        start_.velocities.push_back(interior->tip_velocity(e));
    }
    save_start();
    ++steps;
    for (last_ = h; last_ > shortest * h; last_ /= 2) {
        const bool second = order == 2 && last_ == h && !fresh && !impact_;
        last_step_ = second ? Step{h, 1.5, -2.0, 0.5} : euler(last_);
        const Step step = last_step_;
        outcome_ = last_ == h && step_by_passes(step) ? Outcome::stable : Outcome::failed;
        if (outcome_ == Outcome::failed) {
            use_sparse();
            if (last_ == h || step_in_parts(h - last_)) outcome_ = solve_with_retry(step);
        }
        begun_ = outcome_ != Outcome::failed;
        if (begun_) {
            interior->finish(&step);
            return true;
        }
        abandon();
    }
    return false;
}

Vec6 Condensed::free_velocity(int i) const {
    const Pose &from = start_.tips[i], to = interior->tip_pose(i);
    return stack((to.p - from.p) / h, from.R * so3_log(from.R.transpose() * to.R) / h);
}

// Replaces the contact forces on the tips by those of impulses during the last part of the step. False if all are zero.
bool Condensed::set_contact_forces(const std::vector<Touch>& touches, const double* impulses) {
    for (EndEffector& tip : interior->tips) tip.contacts.clear();
    bool touched = false;
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const Vec6 wrench = touches[i].mean_wrench(impulses + 3 * i, last_);
        const int e = touches[i].frame;
        if (wrench.isZero(0)) continue;
        interior->tips[e].contacts.push_back({start_.tips[e].inverse().act(touches[i].point), wrench});
        touched = true;
    }
    return touched;
}

void Condensed::predict(const std::vector<Touch>& touches, const double* impulses) {
    contact_predicted_ = set_contact_forces(touches, impulses);
    if (!contact_predicted_) return;
    outcome_ = solve(last_step_, true);
    if (outcome_ != Outcome::failed) return;
    contact_predicted_ = set_contact_forces({}, nullptr);
    outcome_ = interior == sparse.get() ? solve_with_retry(last_step_) : solve(last_step_, false);  // as begin() did
}

// A wrench w on the tips moves them by C P^-1 (L + soft) w, with the matrix P of the step's last Newton iteration. Divided by the
// square of the last part's duration this is the velocity per unit impulse.
void Condensed::respond(const std::vector<Touch>& touches, const std::vector<Limit>&, double* free, double* response) {
    const Eigen::Index n = 3 * static_cast<Eigen::Index>(touches.size());
    forces_.setZero(lambda().size(), n);
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const int e = touches[i].frame;
        const Pose now = interior->tip_pose(e);
        const Vec3 local = start_.tips[e].inverse().act(touches[i].point);
        forces_.block<6, 3>(6 * e, 3 * i) = touches[i].by_twist(now.R, local).transpose();
        const Mat3& R = start_.tips[e].R;
        const Vec3 moved = touches[i].moment ? Vec3(R * so3_log(R.transpose() * now.R)) : Vec3(now.act(local) - touches[i].point);
        Eigen::Map<Vec3>(free + 3 * i) = touches[i].axes.transpose() * moved / h;
    }
    auto moved = [&](const auto& by) {
        pulls_.noalias() = response_.left * by;
        pulls_ += soft_.asDiagonal() * by;
        factors_.solve_in_place(pulls_);
        pulls_ = response_.compliance * pulls_;
    };
    if (contact_predicted_) {  // subtract the effect of the predicted contact forces
        wrench_.setZero();
        for (int e = 0; e < frames(); ++e)
            for (const auto& [point, wrench] : interior->tips[e].contacts) {
                const Mat3 R = interior->tip_pose(e).R;
                const Vec3 seen = R.transpose() * wrench.head<3>();
                wrench_.segment<6>(6 * e) += stack(seen, point.cross(seen) + R.transpose() * wrench.tail<3>());
            }
        moved(wrench_);
        Eigen::Map<Vector>(free, n).noalias() -= forces_.transpose() * pulls_ / h;
    }
    moved(forces_);
    Eigen::Map<Matrix> all(response, n, n);
    all.noalias() = forces_.transpose() * pulls_ / (last_ * last_);
    all = 0.5 * (all + all.transpose()).eval();
}

bool Condensed::finish(const std::vector<Touch>& touches, const std::vector<Limit>&, const double* impulses) {
    if (set_contact_forces(touches, impulses) || contact_predicted_) outcome_ = solve(last_step_, true);
    if (interior != sparse.get() && outcome_ != Outcome::stable) {
        if (outcome_ == Outcome::unstable) restore_kept_state();
        use_sparse();
        outcome_ = solve_with_retry(last_step_);
    }
    const Step step = fresh ? euler(last_) : last_step_;  // after a snap-through: backward Euler
    if (outcome_ != Outcome::failed && !accept(step)) outcome_ = Outcome::failed;
    for (EndEffector& tip : interior->tips) tip.contacts.clear();
    if (outcome_ == Outcome::failed) {
        abandon();
        return false;
    }
    begun_ = false;
    if (last_ != h || impact_) fresh = true;  // the history is not equidistant after substeps
    impact_ = false;
    recover_stability(outcome_);
    return true;
}

}  // namespace supple
