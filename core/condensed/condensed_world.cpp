// A condensed mechanism in a World.
#include "condensed/condensed.hpp"
#include "condensed/condensed_passes.hpp"

namespace supple {

namespace {
constexpr double shortest = 1e-3;  // shortest last part of a time step, over h
constexpr double largest_free_turn = 0.1;  // largest motion of a coordinate from the predicted state, rad or radii
}  // namespace

// If the step must be divided, contact forces act in its last part only. The last part is made as long as possible.
bool Condensed::begin() {
    linearised_ = begun_ = false;
    kept_use_.valid = false;
    if (unstable_steps_left == 0) use_passes();
    start_.tips.clear();
    start_.velocities.clear();
    for (int e = 0; e < frames(); ++e) {
        start_.tips.push_back(interior->tip_pose(e));
        start_.velocities.push_back(interior->tip_velocity(e));
    }
    save_start();
    if (is_stuck()) return false;
    ++steps;
    last_ = h;
    last_step_ = order == 2 && !fresh && !impact_ ? Step::of_order(2, h) : euler(h);
    linearised_ = linearise(last_step_);
    if (linearised_) return begun_ = true;
    for (last_ = h; last_ > shortest * h; last_ /= 2) {
        const bool second = order == 2 && last_ == h && !fresh && !impact_;
        last_step_ = second ? Step::of_order(2, h) : euler(last_);
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

// One Newton iteration from the predictor, without contact forces: the response of the step to contact forces, and the motion of the
// tips without them. The interior stays in the predicted state. False: it is not regular or not stable there; the state is then
// that before the step.
bool Condensed::linearise(const Step& step) {
    if (!passes || interior != passes.get()) return false;
    predict_step(step);
    double none = 0;
    bool regular = interior->respond(Tangent::first, &step, response_) && stable();
    ++tangents;
    if (regular) {
        projected_force_ = response_.force;
        compute_correction(step);
        regular = interior->move(mu_, 0, none) < largest_free_turn;
    }
    if (!regular) {
        restore_kept_state();
        return false;
    }
    free_ = response_.drift;
    free_.noalias() += response_.compliance * mu_;
    return true;
}

// Contact forces on the tips as wrenches in the tips' own axes, into `wrench_`.
const Vector& Condensed::contact_wrenches() {
    wrench_.setZero();
    for (int e = 0; e < frames(); ++e)
        for (const auto& [point, wrench] : interior->tips[e].contacts) {
            const Mat3 R = interior->tip_pose(e).R;
            const Vec3 seen = R.transpose() * wrench.head<3>();
            wrench_.segment<6>(6 * e) += stack(seen, point.cross(seen) + R.transpose() * wrench.tail<3>());
        }
    return wrench_;
}

// Newton's correction from the predicted state with the contact forces on the tips.
void Condensed::correct_with_contact() {
    response_.force = projected_force_;
    response_.force.noalias() += response_.left * contact_wrenches();
    compute_correction(last_step_);
}

Vec6 Condensed::free_velocity(int i) const {
    const Pose &from = start_.tips[i], to = interior->tip_pose(i);
    Vec6 moved = stack(to.p - from.p, from.R * so3_log(from.R.transpose() * to.R));
    if (linearised_) moved += stack(to.R * free_.segment<3>(6 * i), to.R * free_.segment<3>(6 * i + 3));
    return moved / h;
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
    if (linearised_) {
        correct_with_contact();
        free_ = response_.drift;
        free_.noalias() += response_.compliance * mu_;
        return;
    }
    outcome_ = solve(last_step_, Start::present);
    if (outcome_ != Outcome::failed) return;
    contact_predicted_ = set_contact_forces({}, nullptr);
    outcome_ = interior == sparse.get() ? solve_with_retry(last_step_) : solve(last_step_, Start::predictor);  // as begin() did
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
        Eigen::Map<Vec3> along(free + 3 * i);
        along = touches[i].axes.transpose() * moved;
        if (linearised_) along += forces_.block<6, 3>(6 * e, 3 * i).transpose() * free_.segment<6>(6 * e);
        along /= h;
    }
    auto moved = [&](const auto& by) {
        pulls_.noalias() = response_.left * by;
        pulls_ += soft_.asDiagonal() * by;
        factors_.solve_in_place(pulls_);
        pulls_ = response_.compliance * pulls_;
    };
    if (contact_predicted_) {  // subtract the effect of the predicted contact forces
        moved(contact_wrenches());
        Eigen::Map<Vector>(free, n).noalias() -= forces_.transpose() * pulls_ / h;
    }
    moved(forces_);
    Eigen::Map<Matrix> all(response, n, n);
    all.noalias() = forces_.transpose() * pulls_ / (last_ * last_);
    all = 0.5 * (all + all.transpose()).eval();
}

// A step whose solution with contact forces was not found, in parts: the forces act in the last part, which is made as long as possible.
void Condensed::finish_in_parts(const std::vector<Touch>& touches, const double* impulses) {
    outcome_ = Outcome::failed;
    for (last_ = h / 2; outcome_ == Outcome::failed && last_ > shortest * h; last_ /= 2) {
        set_contact_forces({}, nullptr);
        abandon();
        use_sparse();
        if (!step_in_parts(h - last_)) continue;
        last_step_ = euler(last_);
        set_contact_forces(touches, impulses);
        outcome_ = solve_with_retry(last_step_);
        if (outcome_ != Outcome::failed) break;
    }
}

bool Condensed::finish(const std::vector<Touch>& touches, const std::vector<Limit>&, const double* impulses) {
    const bool touched = set_contact_forces(touches, impulses);
    if (linearised_) {
        correct_with_contact();
        outcome_ = solve(last_step_, Start::linearised);
    } else if (touched || contact_predicted_) {
        outcome_ = solve(last_step_, Start::present);
    }
    if (interior != sparse.get() && outcome_ != Outcome::stable) {
        if (outcome_ == Outcome::unstable) restore_kept_state();
        use_sparse();
        outcome_ = solve_with_retry(last_step_);
        if (linearised_ && outcome_ == Outcome::failed) finish_in_parts(touches, impulses);
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
