// A condensed mechanism in a World.
#include "condensed.hpp"

namespace supple {

namespace {
constexpr double shortest = 1e-3;  // last part of a step, over h
}  // namespace

// Where a step must be divided, contacts push in its last part only, which is as long as it can be.
bool Condensed::begin() {
    start_.tips.clear();
    for (int e = 0; e < frames(); ++e) start_.tips.push_back(interior->tip_pose(e));
    remember();
    ++steps;
    for (last_ = h; last_ > shortest * h; last_ /= 2) {
        const Step step = euler(last_);
        found_ = Found::nothing;
        if (last_ == h || in_parts(h - last_)) found_ = attempt(step);
        begun_ = found_ != Found::nothing;
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

// Forces of impulses over the last part of the step, in place of those of before; false: all nothing.
bool Condensed::push(const std::vector<Touch>& touches, const double* impulses) {
    for (EndEffector& tip : interior->tips) tip.contacts.clear();
    bool touched = false;
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const Vec3 force = touches[i].axes * Vec3(impulses + 3 * i) / last_;
        const int e = touches[i].frame;
        if (force.isZero(0)) continue;
        interior->tips[e].contacts.push_back({start_.tips[e].inverse().act(touches[i].point), force});
        touched = true;
    }
    return touched;
}

void Condensed::predict(const std::vector<Touch>& touches, const double* impulses) {
    leans_ = push(touches, impulses);
    if (!leans_) return;
    found_ = solve(euler(last_), true);
    if (found_ != Found::nothing) return;
    leans_ = push({}, nullptr);
    found_ = attempt(euler(last_));  // as begin() did
}

// A wrench w on the tips moves them by C P^-1 (L + soft) w, with P that of the step's last Newton iteration: as velocities
// per impulse, over the square of its time.
void Condensed::respond(const std::vector<Touch>& touches, const std::vector<Limit>&, double* free, double* response) {
    const Eigen::Index n = 3 * static_cast<Eigen::Index>(touches.size());
    forces_.setZero(lambda().size(), n);
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const int e = touches[i].frame;
        const Pose now = interior->tip_pose(e);
        const Vec3 local = start_.tips[e].inverse().act(touches[i].point);
        const Mat3 along = now.R.transpose() * touches[i].axes;
        forces_.block<3, 3>(6 * e, 3 * i) = along;
        forces_.block<3, 3>(6 * e + 3, 3 * i) = skew(local) * along;
        Eigen::Map<Vec3>(free + 3 * i) = touches[i].axes.transpose() * (now.act(local) - touches[i].point) / h;
    }
    auto moved = [&](const auto& by) {
        pulls_.noalias() = response_.left * by;
        pulls_ += soft_.asDiagonal() * by;
        pulls_ = response_.compliance * factors_.solve(pulls_);
    };
    if (leans_) {  // not free yet
        wrench_.setZero();
        for (int e = 0; e < frames(); ++e)
            for (const auto& [point, force] : interior->tips[e].contacts) {
                const Vec3 seen = interior->tip_pose(e).R.transpose() * force;
                wrench_.segment<6>(6 * e) += stack(seen, point.cross(seen));
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
    if (push(touches, impulses) || leans_) found_ = solve(euler(last_), true);
    if (found_ != Found::nothing && !accept(euler(last_))) found_ = Found::nothing;
    for (EndEffector& tip : interior->tips) tip.contacts.clear();
    if (found_ == Found::nothing) {
        abandon();
        return false;
    }
    begun_ = false;
    if (last_ != h) fresh = true;  // parts leave no even history
    look_after(found_);
    return true;
}

}  // namespace supple
