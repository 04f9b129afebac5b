// Steps in a World: the answer of the mechanism to contact impulses and limits, by the factors of the step.
#include <algorithm>
#include <cmath>

#include "articulated.hpp"
#include "articulated_lanes.hpp"

namespace supple {

bool Articulated::begin(double h) {
    kept_.clear();
    save(kept_);
    keep();
    started_ = present_;
    contact_step_ = {h, 1.0, -1.0, 0.0};
    fresh_ = true;
    finished_ = false;
    in_step_ = true;
    leak_ = 0;
    bool solved = predict<false>(contact_step_);
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
        for (const BallNode& node : balls_) predicted_balls_.push_back(node.q);
        solved = inward<false, true>(contact_step_) && std::isfinite(outward());
        ++factorisations;
        ++iterations;
    }
    if (solved) forward();
    else abandon();
    return solved;
}

Pose Articulated::frame(int body) const {
    const int node = body_node_[body];
    return pose_in(in_step_ ? started_ : present_, node) * nodes_[node].body_in_node;
}

Vec6 Articulated::free_velocity(int body) const {
    const Pose from = frame(body), to = body_pose(body);
    const double h = contact_step_.h;
    return stack((to.p - from.p) / h, from.R * so3_log(from.R.transpose() * to.R) / h);
}

double Articulated::row_value(const Combination& of, const std::vector<Present>& at) const {
    double value = 0;
    for (std::size_t i = 0; i < of.axes.size(); ++i) {
        const int node = axis_node_[of.axes[i]];
        value += of.coefficients[i] * at[node / width].q[node % width];
    }
    return value;
}

void Articulated::limits(std::vector<Limit>& out) const {
    const double h = contact_step_.h;
    for (std::size_t r = 0; r < system_->rows.size(); ++r) {
        const Row& row = system_->rows[r];
        if (row.equality) continue;
        const double from = row_value(row.of, started_), rate = (row_value(row.of, present_) - from) / h;
        near_limits(r, from, rate, row.lower, row.upper, h, out);
    }
}

bool Articulated::limit_active() const {
    return std::any_of(locks_.begin(), locks_.end(), [](const Lock& lock) { return !lock.equality && lock.active; }) ||
           std::any_of(couplings_.begin(), couplings_.end(),
                       [](const Coupling& c) { return c.system_row >= 0 && !c.equality && c.active; });
}

// A force f moves the points by J K^-1 J^T f with the tangent K and the lever arms J of the predicted state, where what touches
// hardly moves from; as velocities per impulse, over h^2.
void Articulated::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free, double* response) {
    const int k = static_cast<int>(touches.size()), n = 3 * k + static_cast<int>(limits.size());
    const double h = contact_step_.h;
    Eigen::Map<Eigen::MatrixXd> all(response, n, n);
    if (touches.empty()) {  // the step without contact has kept the limits
        all.setIdentity();
        std::fill_n(free, n, 0.0);
        return;
    }
    contact_rows_.resize(n);
    for (int j = 3 * k; j < n; ++j) {
        const Limit& limit = limits[j - 3 * k];
        const Combination& of = system_->rows[limit.row].of;
        contact_rows_[j] = {-1, Vec6::Zero(), &of, limit.sign};
        free[j] = limit.sign * (row_value(of, present_) - row_value(of, started_)) / h;
    }
    for (int i = 0; i < k; ++i) {
        const Touch& touch = touches[i];
        const int node = body_node_[touch.frame];
        const Vec3 point = pose_in(predicted_, node).act(pose_in(started_, node).inverse().act(touch.point)), at = point - origin_;
        const Eight& twist = outward_[node];
        const Vec3 linear(twist[0], twist[1], twist[2]), angular(twist[3], twist[4], twist[5]);
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
                    moved += (row.sign * row.of->coefficients[a]) * turn_of_[axis_node_[row.of->axes[a]]][0];
            else
                for (int r = 0; r < 6; ++r) moved += row.wrench[r] * twist_of_[row.node][r];
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
        else
            mark(rows[j].node);
    }
}

// With the last factors, one right-hand side in each lane: inward from the nodes that it acts on, outward to all that a row of
// the contact problem asks for.
void Articulated::solve_eight(const ContactRow* rows, int count) {
    inward_eight(rows, count);
    outward_eight();
}

namespace {
SUPPLE_INLINE Eight times(const Eight& six, const std::array<Eight, 6>& v) {
    return ((six[0] * v[0] + six[1] * v[1]) + (six[2] * v[2] + six[3] * v[3])) + (six[4] * v[4] + six[5] * v[5]);
}
}  // namespace

void Articulated::inward_eight(const ContactRow* rows, int count) {
    const int n = static_cast<int>(nodes_.size());
    const Eight none = every(0.0);
    right_of_.resize(n);
    twist_of_.resize(n);
    rho_of_.resize(n);
    turn_of_.resize(n);
    tie_right_of_.assign(tie_rows_, none);
    tie_rho_of_.assign(tie_rows_, none);
    tie_step_of_.assign(tie_rows_, none);
    on_path_.assign(n, 0);
    mark_paths(rows, count, on_path_);
    receives_.assign(n, 0);  // nodes with a row of their own, or with several children
    for (int i : joined_) receives_[i] = 1;
    bool combined = false;
    for (int j = 0; j < count; ++j) {
        if (rows[j].of) combined = true;
        else receives_[rows[j].node] = 1;
    }
    for (int i = 0; i < n; ++i) {
        if (receives_[i]) right_of_[i].fill(none);
        if (combined || !on_path_[i]) rho_of_[i].fill(none);
    }
    for (int j = 0; j < count; ++j) {
        if (rows[j].of)
            for (std::size_t a = 0; a < rows[j].of->axes.size(); ++a)
                rho_of_[axis_node_[rows[j].of->axes[a]]][0][j] -= rows[j].sign * rows[j].of->coefficients[a];
        else
            for (int r = 0; r < 6; ++r) right_of_[rows[j].node][r][j] -= rows[j].wrench[r];
    }
    std::array<Eight, 6> right;  // along a chain, from one node to the next
    right.fill(none);
    for (int i = n - 1; i >= 0; --i) {
        if (!on_path_[i]) continue;
        if (!(flags_[i] & chained) || !on_path_[i + 1]) right.fill(none);
        if (receives_[i])
            for (int r = 0; r < 6; ++r) right[r] += right_of_[i][r];
        Front* front = flags_[i] & fronted ? &fronts_[front_of_[i]] : nullptr;
        const int m = front ? front->open : 0, wide = front ? 1 + front->chunks : 1;
        auto take = [&](const Eight& rho, const Eight& by, const Eight* more) {
            for (int r = 0; r < 6; ++r) right[r] -= by[r] * rho;
            for (int k = 0; k < m; ++k) tie_right_of_[front->rows[k]] -= reinterpret_cast<const double*>(more)[k] * rho;
        };
        for (int a = 0; front && a < front->own; ++a) {
            const double* inverse = &inverses_[front->inverse + a * front->own];
            Eight y = none;
            for (int b = 0; b < front->own; ++b) y += inverse[b] * tie_right_of_[front->rows[m + b]];
            tie_rho_of_[front->rows[m + a]] = y;
            const Eight* Y = &numbers_[front->Y + a * wide];
            take(tie_right_of_[front->rows[m + a]], Y[0], Y + 1);
        }
        if (nodes_[i].size == 1) {
            const Eliminated& out = eliminated_[i];
            Eight rho = times(out.screw, right);
            if (combined) rho += rho_of_[i][0];
            rho_of_[i][0] = out.inverse * rho;
            if (front)
                take(rho, numbers_[front->upart], &numbers_[front->upart + 1]);
            else
                take(rho, out.upart, nullptr);
        } else if (nodes_[i].size == 3) {
            const BallNode& node = balls_[ball_of_[i]];
            Eight rho[3];
            for (int k = 0; k < 3; ++k) rho[k] = times(node.screw[k], right);
            for (int k = 0; k < 3; ++k) {
                rho_of_[i][k] = node.inverse(k, 0) * rho[0] + node.inverse(k, 1) * rho[1] + node.inverse(k, 2) * rho[2];
                take(rho[k], node.upart[k], front ? &numbers_[node.uparts + k * (wide - 1)] : nullptr);
            }
        }
        if (flags_[i] & branches)
            for (int r = 0; r < 6; ++r) right_of_[nodes_[i].parent][r] += right[r];
    }
}

void Articulated::outward_eight() {
    const int n = static_cast<int>(nodes_.size());
    const Eight none = every(0.0);
    std::array<Eight, 6> twist;
    twist.fill(none);
    for (int i = 0; i < n; ++i) {
        if (!on_any_path_[i]) continue;
        Front* front = flags_[i] & fronted ? &fronts_[front_of_[i]] : nullptr;
        const int m = front ? front->open : 0, wide = front ? 1 + front->chunks : 1;
        if (i > 0 && (flags_[i] & branches || !on_any_path_[i - 1])) twist = twist_of_[nodes_[i].parent];
        auto answer = [&](const Eight& rho, const Eight& part, const Eight* more) {
            Eight y = rho + times(part, twist);
            for (int k = 0; k < m; ++k) y += reinterpret_cast<const double*>(more)[k] * tie_step_of_[front->rows[k]];
            return -y;
        };
        if (nodes_[i].size == 1) {
            const Eliminated& out = eliminated_[i];
            Eight turn = none;
            if (out.inverse != 0)
                turn = front ? answer(rho_of_[i][0], numbers_[front->part], &numbers_[front->part + 1])
                             : answer(rho_of_[i][0], out.part, nullptr);
            turn_of_[i][0] = turn;
            for (int r = 0; r < 6; ++r) twist[r] += out.screw[r] * turn;
        } else if (nodes_[i].size == 3) {
            const BallNode& node = balls_[ball_of_[i]];
            for (int k = 0; k < 3; ++k)
                turn_of_[i][k] = answer(rho_of_[i][k], node.part[k], front ? &numbers_[node.parts + k * (wide - 1)] : nullptr);
            for (int k = 0; k < 3; ++k)
                for (int r = 0; r < 6; ++r) twist[r] += node.screw[k][r] * turn_of_[i][k];
        }
        twist_of_[i] = twist;
        for (int a = 0; front && a < front->own; ++a) {
            const Eight* X = &numbers_[front->X + a * wide];
            const int row = front->rows[m + a];
            tie_step_of_[row] = answer(tie_rho_of_[row], X[0], X + 1);
        }
    }
}

bool Articulated::finish(const std::vector<Touch>& touches, const double* impulses) {
    const double h = contact_step_.h;
    for (std::size_t i = 0; i < touches.size(); ++i) {
        const Vec3 force = touches[i].axes * Vec3(impulses + 3 * i) / h;
        if (force.isZero(0)) continue;
        const int node = body_node_[touches[i].frame];
        contact_loads_.push_back({node, pose_in(started_, node).inverse().act(touches[i].point), force, Vec3::Zero(), true});
    }
    if (released_ || !contact_loads_.empty()) {
        // what touches hardly moves: the predicted state, where the factors are exact, is nearer than the step without contact
        multiplier_ = tie_kept_;
        rho_ = rho_kept_;
        for (Lock& lock : locks_) lock.active = lock.active_past;
        for (Coupling& coupling : couplings_) coupling.active = coupling.active_past;
        present_ = predicted_;
        for (std::size_t i = 0; i < balls_.size(); ++i) balls_[i].turn_to(predicted_balls_[i]);
        lock_coordinates();
    }
    if (!iterate<false>(contact_step_, released_)) {
        abandon();
        return false;
    }
    accept<false>(contact_step_);
    fresh_ = true;
    finished_ = true;
    in_step_ = false;
    return true;
}

void Articulated::abandon() {
    contact_loads_.clear();
    if (finished_) restore(kept_.data());
    else put_back();
    in_step_ = finished_ = false;
}

}  // namespace supple
