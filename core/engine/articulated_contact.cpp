// Steps in a World: the response of the mechanism to contact impulses and limits, by the factors of the step.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "engine/articulated.hpp"
#include "engine/articulated_exact.hpp"

namespace supple {

bool Articulated::begin(const State& state, double h, int order) {
    contact_step_ = Step::of_order(order, h);
    take(state);
    return order == 2 ? begin_in_world<true>() : begin_in_world<false>();
}

template <bool second>
bool Articulated::begin_in_world() {
    in_step_ = true;
    decay_ = 0;
    bool solved = predict<second>(contact_step_);
    if (solved) {
        released_ = limit_active();  // limits are rows of the contact problem
        if (released_) {
            for (Lock& lock : locks_)
                if (!lock.equality) lock.active = 0;
            for (Coupling& c : couplings_)
                if (!c.equality) c.active = 0;
        }
        forward();
        predicted_ = present_;
        predicted_balls_.clear();
        for (const BallNode& node : balls_) predicted_balls_.emplace_back(node.rotation, node.t);
        predicted_amplitudes_.clear();
        for (const FlexibleNode& each : flexible_) predicted_amplitudes_.push_back(each.eta);
        solved = inward<second, true>(contact_step_) && std::isfinite(outward());
        ++factorisations;
        ++iterations;
    }
    if (solved) forward();
    else in_step_ = false;
    return solved;
}

Vec6 Articulated::free_velocity(int body) const {
    const Pose from = past_pose(body_node_[body]) * in_node_[body], to = body_pose(body);
    const double h = contact_step_.h;
    return stack((to.p - from.p) / h, from.R * so3_log(from.R.transpose() * to.R) / h);
}

template <class Block>
double Articulated::row_value(const Combination& of, const std::vector<Block>& at) const {
    double value = 0;
    for (std::size_t i = 0; i < of.axes.size(); ++i) {
        const int node = axis_node_[of.axes[i]];
        value += of.coefficients[i] * at[node / width].q[node % width];
    }
    return value;
}

void Articulated::limits(std::vector<Limit>& out) const {
    const double h = contact_step_.h;
    for (std::size_t r = 0; r < system_->model().rows.size(); ++r) {
        const Row& row = system_->model().rows[r];
        if (row.equality) continue;
        const double from = row_value(row.of, past_->slots), rate = (row_value(row.of, present_) - from) / h;
        near_limits(r, from, rate, row.lower, row.upper, h, out);
    }
}

bool Articulated::limit_active() const {
    return std::any_of(locks_.begin(), locks_.end(), [](const Lock& lock) { return !lock.equality && lock.active; }) ||
           std::any_of(couplings_.begin(), couplings_.end(),
                       [](const Coupling& c) { return c.system_row >= 0 && !c.equality && c.active; });
}

// A force f moves the points by J K^-1 J^T f with the tangent K and the Jacobian J of the predicted state. The
// prediction is accurate, because bodies in contact move little. Divided by h^2, this is velocity per impulse.
void Articulated::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                          double* response) {
    const int k = static_cast<int>(touches.size()), n = 3 * k + static_cast<int>(limits.size());
    const double h = contact_step_.h;
    Eigen::Map<Eigen::MatrixXd> all(response, n, n);
    if (touches.empty()) {  // the step without contact enforces the limits
        all.setIdentity();
        std::fill_n(free, n, 0.0);
        return;
    }
    contact_rows_.resize(n);
    for (int j = 3 * k; j < n; ++j) {
        const Limit& limit = limits[j - 3 * k];
        const Combination& of = system_->model().rows[limit.row].of;
        contact_rows_[j] = {-1, Vec6::Zero(), &of, limit.sign};
        free[j] = limit.sign * (row_value(of, present_) - row_value(of, past_->slots)) / h;
    }
    for (int i = 0; i < k; ++i) {
        const Touch& touch = touches[i];
        const int node = body_node_[touch.frame];
        const Vec3 point = StateLayout::slot_pose(predicted_, node).act(past_pose(node).inverse().act(touch.point)),
                   at = point - origin_;
        const Eight& twist = outward_[node];
        const Vec3 linear(twist[0], twist[1], twist[2]), angular(twist[3], twist[4], twist[5]);
        if (touch.moment) {
            const Vec3 turned = free_velocity(touch.frame).tail<3>();
            for (int c = 0; c < 3; ++c) {
                free[3 * i + c] = touch.axes.col(c).dot(turned);
                contact_rows_[3 * i + c] = {node, touch.wrench(c, origin_), nullptr, 1};
            }
            continue;
        }
        const Vec3 moved = (point - touch.point + linear + angular.cross(at)) / h;
        for (int c = 0; c < 3; ++c) {
            const Vec3 f = touch.axes.col(c);
            free[3 * i + c] = f.dot(moved);
            contact_rows_[3 * i + c] = {node, stack(f, at.cross(f)), nullptr, 1};
        }
    }
    on_any_path_.assign(nodes_.size(), 0);
    mark_paths(contact_rows_.data(), n, on_any_path_);
    const double per_impulse = 1 / (h * h);
    for (int first = 0; first < n; first += width) {
        const int count = std::min(width, n - first);
        solve_eight(&contact_rows_[first], count);
        for (int i = 0; i < n; ++i) {
            const ContactRow& row = contact_rows_[i];
            Eight moved = every(0.0);
            if (row.of)
                for (std::size_t a = 0; a < row.of->axes.size(); ++a)
                    moved += (row.sign * row.of->coefficients[a]) * responses_->turn[axis_node_[row.of->axes[a]]];
            else moved = responses_->twist[row.node].product(six_lanes(row.wrench));
            moved *= per_impulse;
            for (int c = 0; c < count; ++c) all(i, first + c) = moved[c];
        }
    }
}

void Articulated::mark_paths(const ContactRow* rows, int count, std::vector<char>& marked) {
    auto mark = [&](int node) {
        for (; node >= 0 && !marked[node]; node = nodes_[node].parent) marked[node] = 1;
    };
    for (int j = 0; j < count; ++j) {
        if (rows[j].of)
            for (int axis : rows[j].of->axes) mark(axis_node_[axis]);
        else mark(rows[j].node);
    }
}

// With the last factors, one right-hand side in each lane: inward from the nodes that it acts on, outward to all nodes
// that appear in a row of the contact problem.
void Articulated::solve_eight(const ContactRow* rows, int count, bool outward) {
    const int n = static_cast<int>(nodes_.size());
    if (!responses_) responses_ = std::make_shared<Solution<EightColumns>>();
    on_no_path_.assign(n, 0);
    on_path_.assign(n, 0);
    mark_paths(rows, count, on_path_);
    responses_->prepare(*this, on_any_path_.data());
    for (int j = 0; j < count; ++j) {
        if (rows[j].of) {
            for (std::size_t a = 0; a < rows[j].of->axes.size(); ++a)
                responses_->turn[axis_node_[rows[j].of->axes[a]]][j] -= rows[j].sign * rows[j].of->coefficients[a];
            continue;
        }
        Six& wrench = responses_->wrench[rows[j].node].v;
        put(wrench.linear, j, get(wrench.linear, j) - rows[j].wrench.head<3>());
        put(wrench.angular, j, get(wrench.angular, j) - rows[j].wrench.tail<3>());
    }
    substitute(*responses_, false, on_path_.data(), (outward ? on_any_path_ : on_no_path_).data());
}

bool Articulated::finish(State& state, const std::vector<Touch>& touches, const double* impulses) {
    const double h = contact_step_.h;
    std::vector<NodeLoad> loads;
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const Vec6 wrench = touches[i].mean_wrench(impulses + 3 * i, h);
        if (wrench.isZero(0)) continue;
        const int node = body_node_[touches[i].frame];
        loads.push_back({node, touches[i].frame, past_pose(node).inverse().act(touches[i].point), wrench.head<3>(),
                         wrench.tail<3>(), true});
    }
    const bool changed = released_ || !loads.empty();
    if (changed) {  // limits are active as before the step
        const bool redundant = redundant_;  // of the factors
        take(state);
        redundant_ = redundant;
    }
    contact_loads_ = std::move(loads);
    return contact_step_.c2 != 0 ? finish_in_world<true>(state, changed) : finish_in_world<false>(state, changed);
}

template <bool second>
bool Articulated::finish_in_world(State& state, bool changed) {
    if (changed) {
        // Start from the predicted state, at which the factors are exact: bodies in contact move little, so that it is
        // nearer to the solution than the step without contact.
        present_ = predicted_;
        for (std::size_t i = 0; i < balls_.size(); ++i) std::tie(balls_[i].rotation, balls_[i].t) = predicted_balls_[i];
        for (std::size_t i = 0; i < flexible_.size(); ++i) flexible_[i].eta = predicted_amplitudes_[i];
        lock_coordinates();
    }
    const bool solved = iterate<second>(contact_step_, released_);
    in_step_ = false;
    if (solved) accept<second>(state, contact_step_);
    return solved;
}

}  // namespace supple
