// Steps of a mechanism in a World.
#include <algorithm>
#include <cmath>

#include "engine/stepper.hpp"

namespace supple {

void Stepper::schedule(const std::vector<int>& driven, std::vector<double> targets) {
    driven_ = driven;
    scheduled_ = std::move(targets);
    next_ = 0;
}

void Stepper::set_step(double h) {
    if (h == h_) return;
    if (h == 0.5 * h_ && next_ + driven_.size() <= scheduled_.size()) {
        std::vector<double> middle;
        for (std::size_t i = 0; i < driven_.size(); ++i)
            middle.push_back(0.5 * (system_.targets[driven_[i]] + scheduled_[next_ + i]));
        scheduled_.insert(scheduled_.begin() + next_, middle.begin(), middle.end());
    }
    state.fresh = true;
    h_ = h;
}

bool Stepper::begin() {
    tape.reset();  // contact forces are not recorded
    before_.state = state;
    before_.targets.clear();
    for (int row : driven_) before_.targets.push_back(system_.targets[row]);
    before_.next = next_;
    before_.softened = softened;
    if (next_ + driven_.size() <= scheduled_.size()) set_targets(driven_, scheduled_.data() + next_);
    contact_order_ = state.fresh || impact_ ? 1 : order_;
    advance_activations();
    by_passes_ = passes_ready(!driven_.empty());
    if (by_passes_) {
        if (passes_->begin(state, h_, contact_order_)) return true;
        by_passes_ = false;
        passes_refused();
    }
    if (begin_sparse()) return true;
    abandon();
    return false;
}

// Solves the step without contact with the sparse solver, linearised at the predicted state. Limits are left out: they
// are rows of the contact problem.
bool Stepper::begin_sparse() {
    load();
    loaded_ = system_.state;
    const Step step = Step::of_order(contact_order_, h_);
    x_.assign(system_.unknowns(), 0.0);
    for (int axis = 0; axis < system_.axes(); ++axis) x_[system_.axis_row(axis)] = h_ * history.rate[axis];
    system_.retract(loaded_, x_.data(), 1.0);
    system_.released = true;
    system_.evaluate(true, &step, &history);
    system_.factorise();
    ++factorisations;
    ++iterations;
    predicted_ = system_.state;
    free_.resize(x_.size());
    system_.solve(system_.residual().data(), free_.data(), false, false);
    const bool solved = !system_.fronts().indefinite() && std::isfinite(system_.motion_size(free_.data()));
    if (solved) {
        system_.retract(predicted_, free_.data(), 1.0);
        system_.evaluate(false, &step, &history);
    }
    system_.released = false;
    return solved;
}

Vec6 Stepper::free_velocity(int b) const {
    if (by_passes_) return passes_->free_velocity(b);
    const Pose &from = history.H[b], &to = system_.state.H[b];
    return stack((to.p - from.p) / h_, from.R * so3_log(from.R.transpose() * to.R) / h_);
}

Vec6 Stepper::start_velocity(int b) const {
    const Mat3 R = frame(b).R;
    const Vec6 twist = layout_.twist(system_.model(), state, b);
    return stack(R * twist.head<3>(), R * twist.tail<3>());
}

void Stepper::limits(std::vector<Limit>& out) const {
    if (by_passes_) return passes_->limits(out);
    for (std::size_t r = 0; r < system_.model().rows.size(); ++r) {
        const Row& row = system_.model().rows[r];
        if (row.equality) continue;
        const double from = row.of.value(history.q), rate = (row.of.value(system_.state.q) - from) / h_;
        near_limits(r, from, rate, row.lower, row.upper, h_, out);
    }
}

// A force f moves the points by J K^-1 J^T f with the tangent K and the lever arms J of the predicted state; divided by
// h^2 this is velocity per impulse.
void Stepper::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                      double* response) {
    if (by_passes_) return passes_->respond(touches, limits, free, response);
    const int k = static_cast<int>(touches.size()), n = 3 * k + static_cast<int>(limits.size());
    Eigen::Map<Eigen::MatrixXd> all(response, n, n);
    if (touches.empty()) {  // the step itself enforces the limits
        all.setIdentity();
        std::fill_n(free, n, 0.0);
        return;
    }
    auto local = [&](const Touch& touch) { return history.H[touch.frame].inverse().act(touch.point); };
    auto moved = [&](const Touch& touch, const std::vector<double>& x) -> Vec3 {
        const Eigen::Map<const Vec6> twist(x.data() + system_.twist_row(touch.frame));
        if (touch.moment) return predicted_.H[touch.frame].R * twist.tail<3>();
        return predicted_.H[touch.frame].R * (twist.head<3>() + twist.tail<3>().cross(local(touch)));
    };
    auto turned = [&](const Limit& limit, const std::vector<double>& x) {
        const Combination& of = system_.model().rows[limit.row].of;
        double sum = 0;
        for (std::size_t a = 0; a < of.axes.size(); ++a) sum += of.coefficients[a] * x[system_.axis_row(of.axes[a])];
        return limit.sign * sum;
    };
    right_.assign(system_.unknowns(), 0.0);
    auto answer = [&](int column) {
        system_.solve(right_.data(), x_.data(), false, false);
        for (int i = 0; i < k; ++i)
            all.block<3, 1>(3 * i, column) = touches[i].axes.transpose() * moved(touches[i], x_) / (h_ * h_);
        for (int i = 3 * k; i < n; ++i) all(i, column) = turned(limits[i - 3 * k], x_) / (h_ * h_);
    };
    for (int j = 0; j < 3 * k; ++j) {
        const Touch& touch = touches[j / 3];
        const Pose& H = predicted_.H[touch.frame];
        const Vec3 at = local(touch), along = touch.axes.col(j % 3), f = H.R.transpose() * along;
        const Pose& start = history.H[touch.frame];
        const Vec3 predicted = touch.moment ? Vec3(start.R * so3_log(start.R.transpose() * H.R))
                                            : Vec3(H.act(at) - touch.point);
        free[j] = along.dot(predicted + moved(touch, free_)) / h_;
        Eigen::Map<Vec6> load(right_.data() + system_.twist_row(touch.frame));
        load = touch.moment ? stack(Vec3::Zero(), f) : stack(f, at.cross(f));
        answer(j);
        load.setZero();
    }
    for (int j = 3 * k; j < n; ++j) {
        const Limit& limit = limits[j - 3 * k];
        const Combination& of = system_.model().rows[limit.row].of;
        free[j] = (limit.sign * (of.value(predicted_.q) - of.value(history.q)) + turned(limit, free_)) / h_;
        for (std::size_t a = 0; a < of.axes.size(); ++a)
            right_[system_.axis_row(of.axes[a])] = limit.sign * of.coefficients[a];
        answer(j);
        for (int axis : of.axes) right_[system_.axis_row(axis)] = 0;
    }
}

bool Stepper::finish(const std::vector<Touch>& touches, const std::vector<Limit>&, const double* impulses) {
    std::vector<Load> forces;
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const Vec6 wrench = touches[i].mean_wrench(impulses + 3 * i, h_);
        if (!wrench.isZero(0))
            forces.push_back({touches[i].frame, frame(touches[i].frame).inverse().act(touches[i].point), wrench, true});
    }
    const std::size_t before = system_.loads.size();
    bool whole = by_passes_ && passes_->finish(state, touches, impulses), solved = whole;
    if (whole) state.refusals = 0;
    if (!whole && by_passes_) {
        if (contact_order_ == 2) return false;  // the world repeats the step with backward Euler
        by_passes_ = false;
        passes_refused();
    }
    system_.loads.insert(system_.loads.end(), forces.begin(), forces.end());
    if (!solved) {
        load();
        whole = solve(h_, contact_order_) || (contact_order_ == 1 && solve_with_stops(h_));
        if (whole) accept(h_);
        // the contact forces stay as they are in a divided step
        const double* end = before_.next + driven_.size() <= scheduled_.size() ? scheduled_.data() + before_.next
                                                                               : before_.targets.data();
        solved = whole || (contact_order_ == 1 && divide(h_, driven_, before_.targets.data(), end, 1));
    }
    kept_at_ = -1;
    if (solved) keep_loads();
    kept_at_ = -1;  // without contact forces they are others
    system_.loads.resize(before);
    if (!solved) {
        abandon();
        return false;
    }
    for (std::size_t i = 0; i < state.activation.size(); ++i) state.activation[i] = system_.actuation[i].activation;
    state.fresh = impact_ || !whole || (!by_passes_ && limit_changed_) || order_ == 1;
    impact_ = by_passes_ = false;
    next_ += driven_.size();
    return true;
}

void Stepper::abandon() {
    state = before_.state;
    kept_at_ = -1;
    set_targets(driven_, before_.targets.data());
    set_activations();
    next_ = before_.next;
    softened = before_.softened;
    by_passes_ = false;
}

}  // namespace supple
