// Forces on a linkage, its motion, and the passes over its assembly tree.
#include "linkage/linkage.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "linkage/linkage_blocks.hpp"
#include "spatial/product_of_exponentials.hpp"

namespace supple {

using namespace linkage;

namespace {

constexpr double rounding = 4e-14;  // of a sum of at most 13 products, with a factor of ten for depth
constexpr double slack = 1 + 1e-10;  // for the additions in the queue
constexpr int full_passes_before_return = 16;
constexpr std::size_t small = 1000;  // nodes: below, a pass takes microseconds and stays adaptive

// Estimate of the relative rounding error of accelerations, from the largest magnification in one elimination. The
// exponent stands for errors that several eliminations magnify one after the other, the constant (4e-9 altogether) for
// cancellation in the kinematics. Both are fitted to random linkages with masses over eight decades
// (tests/verification/test_linkage.py); no error in some thousand of those exceeded the estimate.
double rounding_error(double magnification) { return rounding * std::pow(2000 + 2 * magnification, 1.5); }

}  // namespace

// --- positions and forces -------------------------------------------------------------------------------------------

// From a joint's coordinates: the pose T of its body in the parent, and its motion subspace in the body's frame. With
// the screws S of X: Ad(outer^-1) S, or, for T = inner X^-1 outer, -Ad(outer^-1 X) S.
void Linkage::place_joint(int body) {
    const TreeJoint& joint = joints[body];
    const Pose X = product_of_exponentials(
        joint.first, joint.first + joint.count, q.data(), [&](int axis) { return axes[axis].block; },
        [&](int axis) -> const Vec6& { return axes[axis].twist; }, subspace_.data());
    across_[body] = joint.inner * (joint.reversed ? X.inverse() : X) * joint.outer;
    const Pose to_body = joint.reversed ? joint.outer.inverse() * X : joint.outer.inverse();
    for (int a = joint.first; a < joint.first + joint.count; ++a)
        subspace_[a] = (joint.reversed ? -1.0 : 1.0) * transform_twist(to_body, subspace_[a]);
}

// Active forces on the increments of a joint's coordinates: applied ones and springs.
void Linkage::drive(int body) {
    const TreeJoint& joint = joints[body];
    for (int a = joint.first; a < joint.first + joint.count; a += axes[a].block) {
        Vec3 pull = Vec3::Zero();
        for (int i = 0; i < axes[a].block; ++i) {
            const Axis& axis = axes[a + i];
            const double deflection = q[a + i] - axis.rest;
            pull[i] = axis.stiffness * deflection;
            if (axis.curve >= 0) {
                double torque, slope, energy;
                curves[axis.curve].evaluate(deflection, torque, slope, energy);
                pull[i] += torque;
            }
        }
        if (axes[a].block == 3 && (pull.array() != 0).any())
            pull = so3_right_jacobian_inverse(Vec3(q[a], q[a + 1], q[a + 2])).transpose() * pull;
        for (int i = 0; i < axes[a].block; ++i) drive_[a + i] = force_[a + i] - pull[i];
    }
}

// Eqs. 10 and 11: pose of the right part's top, and of the bottom, in the frame of the node's top.
void Linkage::place_node(int i) {
    const Node& n = nodes_[i];
    if (n.kind == united) return;
    const Pose& T = n.joint < 0 ? identity_pose : across_[n.joint];
    offset_[i] = n.left_handles == 2 ? bottom_[n.left] * T : T;
    if (n.right_keeps) bottom_[i] = n.right_keeps == 2 ? offset_[i] * bottom_[n.right] : offset_[i];
}

void Linkage::mark(int i, Mark how) {
    for (; i >= 0 && mark_[i] < how; i = nodes_[i].up) {
        if (mark_[i] == clean) dirty_[nodes_[i].height].push_back(i);
        mark_[i] = how;
    }
}

void Linkage::set_load(int index, const Load& load) {
    if (index >= static_cast<int>(loads_.size())) {
        loads_.resize(index + 1);
        load_active_.resize(index + 1, 0);
    }
    loads_[index] = load;
    load_active_[index] = (load.wrench.array() != 0).any() ? 1 : 2;  // 2: to be removed
}

void Linkage::set_force(int axis, double force) {
    force_[axis] = force;
    redrive(axis);
}

void Linkage::set_rest(int axis, double rest) {
    axes[axis].rest = rest;
    redrive(axis);
}

void Linkage::redrive(int axis) {
    const auto after = [](int a, const TreeJoint& joint) { return a < joint.first; };
    const int body = static_cast<int>(std::upper_bound(joints.begin(), joints.end(), axis, after) - joints.begin()) - 1;
    drive(body);
    mark(joint_node_[body], biased);
}

void Linkage::set_gravity(const Vec3& acceleration) {
    gravity = acceleration;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (nodes_[i].kind == rooted) mark(static_cast<int>(i), biased);
}

void Linkage::set_coordinates(const double* values) {
    std::copy(values, values + q.size(), q.begin());
    for (std::size_t b = 0; b < parent.size(); ++b) {
        place_joint(static_cast<int>(b));
        drive(static_cast<int>(b));
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) place_node(static_cast<int>(i));
    all_dirty_ = true;
}

// Loads in their bodies' frames; world poses only along the paths from the root to loads in world axes (section 5.2).
void Linkage::take_loads() {
    ++now_;
    for (std::size_t l = 0; l < loads_.size(); ++l) {
        if (load_active_[l] != 1 || !loads_[l].world) continue;
        for (int i = leaves_[main_leaf_[loads_[l].body]].up; i >= 0 && stamp_[i] != now_; i = nodes_[i].up) {
            stamp_[i] = now_;
            wanted_[nodes_[i].height].push_back(i);
        }
    }
    const auto below = [this](int up, bool left) { return left ? world_[up] : world_[up] * offset_[up]; };
    for (std::size_t h = wanted_.size(); h-- > 0;) {
        for (const int i : wanted_[h]) {
            const int up = nodes_[i].up;
            world_[i] = up < 0 ? Pose{} : below(up, nodes_[up].kind == united || nodes_[up].left == i);
        }
        wanted_[h].clear();
    }
    for (std::size_t l = 0; l < loads_.size(); ++l)
        if (load_active_[l]) body_wrench_[loads_[l].body].setZero();
    for (std::size_t l = 0; l < loads_.size(); ++l) {
        if (load_active_[l] != 1) continue;
        const Load& load = loads_[l];
        const Leaf& leaf = leaves_[main_leaf_[load.body]];
        Vec3 force = load.wrench.head<3>(), torque = load.wrench.tail<3>();
        if (load.world) {
            const Mat3 R = below(leaf.up, leaf.on_left).R.transpose();
            force = R * force;
            torque = R * torque;
        }
        body_wrench_[load.body] += stack(force, torque + load.point.cross(force));
    }
    for (std::size_t l = 0; l < loads_.size(); ++l) {
        if (!load_active_[l]) continue;
        if (load_active_[l] == 2) load_active_[l] = 0;
        const int at = main_leaf_[loads_[l].body];
        const Vec6 bias = -body_wrench_[loads_[l].body];
        if (bias == leaf_bias_[at]) continue;
        leaf_bias_[at] = bias;
        mark(leaves_[at].up, biased);
    }
}

// The upward half of a full pass: the coefficients of all nodes without total accelerations. Those that only the parent
// node needs are stored in a few slots that stay in the processor's cache; stored coefficients of earlier passes are
// not changed.
bool Linkage::sweep() {
    fleeting_ = true;
    bool fine = true;
    for (std::size_t i = 0; fine && i < nodes_.size(); ++i) {
        fine = update(static_cast<int>(i), true, false);
        if (!fine) singular_ = nodes_[i].joint;
    }
    fleeting_ = false;
    return fine;
}

// Brings the coefficients up to date, level by level, of those nodes only whose joints moved or whose forces changed.
bool Linkage::refresh(bool totals) {
    if (totals && !totals_current_) all_dirty_ = true;
    const auto failed = [this](int i) {
        singular_ = nodes_[i].joint;
        return false;
    };
    bool any = all_dirty_;
    if (all_dirty_) {
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            if (!update(static_cast<int>(i), true, totals)) return failed(static_cast<int>(i));
    } else {
        for (const auto& level : dirty_)
            for (const int i : level)
                if (!update(i, mark_[i] == moved_mark, totals)) return failed(i);
    }
    for (auto& level : dirty_) {
        any |= !level.empty();
        for (const int i : level) mark_[i] = clean;
        level.clear();
    }
    all_dirty_ = false;
    if (any) totals_current_ = totals;
    return true;
}

bool Linkage::rebuild(bool totals) {
    take_loads();
    all_dirty_ = true;
    return refresh(totals);
}

// --- accelerations --------------------------------------------------------------------------------------------------

// Eqs. 4 to 7: acceleration of a node's joint, and the inputs of its two parts. Returns the sum of the magnitudes of
// the terms of the joint's acceleration.
double Linkage::descend(int i) {
    const Node& n = nodes_[i];
    if (n.kind == united) return 0;
    const int k = n.joint < 0 ? 0 : joints[n.joint].count, h = n.handles, first = k ? joints[n.joint].first : 0;
    const bool left_bottom = n.left_handles == 2, right_bottom = n.right_keeps == 2;
    const Descent down(descent_.data() + n.descent, h, k, left_bottom, n.right >= 0, right_bottom);
    const int t = h == 1 || n.top_first ? 0 : 1, o = 1 - t;
    const Vec6* x = &handle_input_[2 * i];
    double squares = 0;
    for (int a = 0; a < k; ++a) {
        double qdd = down.q_0[a], size = down.size[a];
        for (int s = 0; s < h; ++s) {
            const Vec6 terms = MapVec(down.u + 6 * (h * a + s)).cwiseProduct(x[s]);
            qdd += terms.sum();
            size += terms.cwiseAbs().sum();
        }
        acceleration_[first + a] = qdd;
        squares += size * size;
    }
    if (n.left >= 0) {
        Vec6* left = &handle_input_[2 * n.left];
        if (left_bottom) {
            Vec6 amplitudes = MapVec(down.s_0) + Map6(down.s_a) * x[t];
            if (h == 2) amplitudes.noalias() += Map6(down.s_z) * x[o];
            left[0] = amplitudes;
            left[1] = x[t];
        } else {
            left[0] = x[t];
        }
    }
    if (n.right >= 0) {
        Vec6* right = &handle_input_[2 * n.right];
        Vec6 top = MapVec(down.a_0);
        if (h > 0) top.noalias() += Map6(down.a_a) * x[t];
        if (h == 2) top.noalias() += Map6(down.a_z) * x[o];
        right[0] = top;
        if (right_bottom) right[1] = MapVec(down.b_0) + Map6(down.b_z) * x[o];
    }
    return squares;
}

// Eq. 8: an upper bound of the sum of squared joint accelerations below a node, rounding errors included.
double Linkage::total(int i) const {
    const Node& n = nodes_[i];
    const double unit = rounding_error(magnification_[i]);
    if (n.handles == 0) return total_[n.total] * total_[n.total] * (1 + unit) * (1 + unit);
    const int N = 6 * n.handles;
    const Total t(const_cast<double*>(total_.data()) + n.total, N);
    const double* x = handle_input_[2 * i].data();  // the inputs of two handles are contiguous
    double squares = *t.rho * *t.rho, sizes = squares;
    for (int r = 0; r < N; ++r) {
        double sum = t.r[r], size = std::abs(sum);
        for (int c = r; c < N; ++c) {
            const double part = t.R[N * r + c] * x[c];
            sum += part;
            size += std::abs(part);
        }
        squares += sum * sum;
        sizes += size * size;
    }
    const double norm = std::sqrt(squares) + unit * std::sqrt(sizes);
    return norm * norm;
}

// Whether a full pass takes fewer operations than updating the marked nodes with their total accelerations and
// visiting as many nodes as the last time.
bool Linkage::full_pass_is_cheaper() {
    if (all_dirty_ || !totals_current_) {
        if (!full_mode_ || return_pays_) {
            full_mode_ = return_pays_ = false;
            full_passes_ = 0;
        }
        return full_mode_;
    }
    if (pending_operations() + visit_operations_ * last_visits_ > full_operations_) full_mode_ = true;
    return full_mode_;
}

// Operations of bringing the coefficients and total accelerations of all nodes up to date.
double Linkage::pending_operations() const {
    if (all_dirty_ || !totals_current_) return all_update_operations_;
    double sum = 0;
    for (const auto& level : dirty_)
        for (const int i : level) sum += (mark_[i] == moved_mark ? 1 : bias_share) * update_operations_[i];
    return sum;
}

// Called after a full pass that replaced an adaptive one. Whether the next pass should be adaptive, from the number of
// joints that an adaptive pass would have computed. The total accelerations of all nodes, which this needs, cost about
// two full passes, so it is checked once in `full_passes_before_return`.
void Linkage::consider_return(double error, Measure measure) {
    if (++full_passes_ % full_passes_before_return) return;
    const bool by_joint = measure == Measure::absolute_joint || measure == Measure::relative_joint;
    const bool relative = measure == Measure::relative_joint || measure == Measure::relative_linkage;
    std::vector<double> sizes;
    double whole = 0;
    for (const int b : moved_) {
        double size = 0;
        for (int a = joints[b].first; a < joints[b].first + joints[b].count; ++a)
            size += acceleration_[a] * acceleration_[a];
        sizes.push_back(size);
        whole = by_joint ? std::max(whole, size) : whole + size;
    }
    const double allowed = error * error * (relative ? whole : 1.0);
    std::sort(sizes.begin(), sizes.end());
    std::size_t left_out = 0;
    for (double sum = 0; left_out < sizes.size(); ++left_out) {
        sum = by_joint ? sizes[left_out] : sum + sizes[left_out];
        if (sum > allowed) break;
    }
    const double computed = static_cast<double>(sizes.size() - left_out) + nodes_.back().height;
    return_pays_ = 1.5 * computed * (visit_operations_ + all_update_operations_ / nodes_.size()) < full_operations_ / 2;
}

Linkage::Outcome Linkage::advance(double dt, double error, Measure measure, bool complete, double seconds, int most) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    Outcome outcome;
    singular_ = -1;
    take_loads();
    const bool replaced = !complete && switching_ && nodes_.size() >= small && seconds > 1e30 && most < 0 &&
                          full_pass_is_cheaper();
    const bool full = complete || replaced;
    operations_ = full ? full_operations_ : pending_operations();
    const bool anew = replaced || (complete && all_dirty_);
    if (!(anew ? sweep() : refresh(complete ? totals_current_ : true))) return outcome;
    for (const int b : moved_)
        for (int a = joints[b].first; a < joints[b].first + joints[b].count; ++a) acceleration_[a] = 0;
    moved_.clear();
    visited_.clear();

    const int top = static_cast<int>(nodes_.size()) - 1;
    const bool by_joint = measure == Measure::absolute_joint || measure == Measure::relative_joint;
    const double unit = rounding_error(magnification_[top]);
    double largest = 0, squares = 0, largest_terms = 0, terms_squares = 0;
    double whole = 0, sum = 0;
    queue_.clear();
    const auto visit = [&](int i) {
        const Node& n = nodes_[i];
        const double terms = descend(i);
        visited_.push_back(i);
        if (n.joint < 0 || joints[n.joint].count == 0) return;
        double size = 0;
        for (int a = joints[n.joint].first; a < joints[n.joint].first + joints[n.joint].count; ++a)
            size += acceleration_[a] * acceleration_[a];
        largest = std::max(largest, size);
        squares += size;
        largest_terms = std::max(largest_terms, terms);
        terms_squares += terms;
        moved_.push_back(n.joint);
    };
    // Bound of the error, rounding of the computed accelerations included, if the traversal stopped here.
    const auto bound = [&]() -> double {
        const bool none_left = queue_.empty() || queue_.front().first == 0;
        const double left = none_left ? 0 : slack * std::sqrt(by_joint ? queue_.front().first : sum);
        const double rounded = unit * std::sqrt(by_joint ? largest_terms : terms_squares);
        if (measure == Measure::absolute_joint || measure == Measure::absolute_linkage) return left + rounded;
        if (left == 0 && rounded == 0) return 0;
        double least = by_joint ? std::sqrt(largest) - rounded : std::sqrt(squares) - rounded;
        if (!by_joint) least = std::max(least, std::sqrt(whole) * (1 - 1e-9 - 2 * unit));
        if (!(least > 0)) return 1;
        return std::min(1.0, left / least) + rounded / least;
    };

    if (full) {
        for (int i = top; i >= 0; --i) visit(i);
        outcome.bound = bound();
    } else {
        whole = sum = total(top);
        double peak = whole;
        queue_.assign(1, {whole, top});
        node_total_[top] = whole;
        outcome.bound = bound();
        while (outcome.bound > error && !queue_.empty() && static_cast<int>(moved_.size()) != most) {
            if (visited_.size() % 16 == 15 && seconds < 1e30 &&
                std::chrono::duration<double>(Clock::now() - start).count() > seconds)
                break;
            std::pop_heap(queue_.begin(), queue_.end());
            const auto [below, i] = queue_.back();
            queue_.pop_back();
            visit(i);
            sum -= below;
            for (const int child : {nodes_[i].left, nodes_[i].right}) {
                if (child < 0) continue;
                const double part = total(child);
                node_total_[child] = part;
                sum += part;
                queue_.emplace_back(part, child);
                std::push_heap(queue_.begin(), queue_.end());
            }
            if (!by_joint && sum < peak / 4) {  // recompute the sum, because the differences have lost digits
                sum = 0;
                for (const auto& each : queue_) sum += each.first;
                peak = sum;
            }
            outcome.bound = std::min(outcome.bound, bound());
        }
        last_visits_ = static_cast<double>(visited_.size());
        operations_ += visit_operations_ * last_visits_;
    }
    outcome.computed = static_cast<int>(moved_.size());
    if (!std::isfinite(squares) || !std::isfinite(outcome.bound)) {
        singular_ = -2;
        return outcome;
    }
    if (replaced) consider_return(error, measure);
    if (dt > 0) integrate(dt, full);
    return outcome;
}

// From rest: q <- q + 1/2 qdd dt^2; a rotation vector turns by exp. Then the poses that this changes.
void Linkage::integrate(double dt, bool all) {
    const double half = dt * dt / 2;
    for (const int b : moved_) {
        const TreeJoint& joint = joints[b];
        for (int a = joint.first; a < joint.first + joint.count; a += axes[a].block) {
            if (axes[a].block == 3) {
                const Eigen::Map<const Vec3> step(&acceleration_[a]);
                Eigen::Map<Vec3> v(&q[a]);
                v = so3_log(so3_exp(v) * so3_exp(half * step));
            } else {
                q[a] += half * acceleration_[a];
            }
        }
        place_joint(b);
        drive(b);
    }
    if (all) {
        all_dirty_ = true;
        for (std::size_t i = 0; i < nodes_.size(); ++i) place_node(static_cast<int>(i));
        return;
    }
    for (const int i : visited_) mark(i, moved_mark);
    for (const auto& level : dirty_)
        for (const int i : level) place_node(i);
}

bool Linkage::respond(const double* forces, double* accelerations) {
    take_loads();
    if (!refresh(totals_current_)) return false;
    const auto loads = leaf_bias_;
    const auto driven = drive_, before = acceleration_;
    const Vec3 weight = gravity;
    const auto push = [this] {
        for (std::size_t i = 0; i < nodes_.size(); ++i) update(static_cast<int>(i), false, false);
    };
    std::fill(leaf_bias_.begin(), leaf_bias_.end(), Vec6::Zero());
    std::copy(forces, forces + drive_.size(), drive_.begin());
    gravity.setZero();
    push();
    for (std::size_t i = nodes_.size(); i-- > 0;) descend(static_cast<int>(i));
    std::copy(acceleration_.begin(), acceleration_.end(), accelerations);
    acceleration_ = before;
    leaf_bias_ = loads;
    drive_ = driven;
    gravity = weight;
    push();
    return true;
}

Pose Linkage::pose(int body) const {
    const Leaf& leaf = leaves_[main_leaf_[body]];
    Pose result = leaf.on_left ? Pose{} : offset_[leaf.up];
    for (int i = leaf.up, up = nodes_[i].up; up >= 0; i = up, up = nodes_[i].up)
        if (nodes_[up].kind != united && nodes_[up].left != i) result = offset_[up] * result;
    return result;
}

void Linkage::write_poses(std::vector<Pose>& result) const {
    std::vector<Pose> world(nodes_.size());
    result.resize(parent.size());
    for (std::size_t i = nodes_.size(); i-- > 0;) {
        const Node& n = nodes_[i];
        const Pose& here = world[i];
        const auto give = [&](int child, const Pose& pose) {
            if (child >= 0) world[child] = pose;
            else if (child != none) result[leaves_[~child].body] = pose;
        };
        give(n.left, here);
        give(n.right, n.kind == united ? here : here * offset_[i]);
    }
}

}  // namespace supple
