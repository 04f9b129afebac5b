#include "reduced/floating.hpp"

#include <algorithm>
#include <cmath>

#include "reduced/floating_groups.hpp"

namespace supple {

Floating::Floating() = default;
Floating::~Floating() = default;

void Floating::prepare() {
    const int m = static_cast<int>(stiffness.rows());
    y.setZero(m);
    v.setZero(m);
    rest_inertia_.setZero();
    for (const Link& link : links) {
        const Vec3 c = link.rest.act(link.centre);
        rest_inertia_ += spatial_inertia(link.mass, c, link.rest.R * link.inertia * link.rest.R.transpose());
    }
    divide_into_parts();
    assign_lanes();
    refresh();
}

void Floating::refresh() {
    evaluate();
    parts_momentum_ = momentum_of_parts();
    twist.noalias() = inverted(M_base_) * (transform_wrench(base, momentum) - parts_momentum_);
}

void Floating::set_twist(const Vec6& V) {
    evaluate();
    parts_momentum_ = momentum_of_parts();
    momentum = transform_wrench(base.inverse(), M_base_ * V + parts_momentum_);
    twist = V;
}

// (3, 6): velocity of a contact point along the contact's axes per unit twist of the base.
Floating::Rows Floating::by_base(const Touch& touch) const {
    return touch.by_twist(base.R, base.R.transpose() * (touch.point - base.p));
}

// Adds a force (world axes) at a point of a tip and a torque (base axes) to the right-hand side.
void Floating::add_load(int e, const Vec3& at, const Vec3& force, const Vec3& torque) {
    Vec6 wrench = by_base({e, at, Mat3::Identity()}).transpose() * force;
    wrench.tail<3>() += torque;
    base_rhs_ += h * wrench;
    const Place place = link_place_[tips[e].link].part;
    Group& group = groups_[place.group];
    for (int i = 0; i < group.size; ++i) group.rhs[i][place.lane] += h * screw(tips[e].link, i).dot(wrench);
}

void Floating::add_loads() {
    if (mounted) {  // implicit: springs and dampers act with their state at the end of the step
        mount_error_ = log(mount.seen_from(base));
        base_rhs_ += h * mount_stiffness.cwiseProduct(mount_error_);
        A_base_.diagonal() += h * (mount_damping + h * mount_stiffness);
    }
    for (int e = 0; e < frames(); ++e) {
        const Tip& tip = tips[e];
        if (!tip.wrench.isZero(0)) {
            const Pose pose = frame(e);
            const Mat3 turn = tip.world ? Mat3(Mat3::Identity()) : pose.R;
            const Vec3 force = turn * tip.wrench.head<3>(), torque = turn * tip.wrench.tail<3>();
            add_load(e, pose.p, force, base.R.transpose() * torque);
            momentum_change_ += h * stack(force, torque + pose.p.cross(force));
        }
        if (tip.has_handle) add_handle(e);
    }
}

// Adds the spring and damper of a handle, implicitly.
void Floating::add_handle(int e) {
    const Tip& tip = tips[e];
    const Vec3 at = frame(e).act(tip.point);
    add_load(e, at, tip.stiffness * (tip.target - at), Vec3::Zero());
    const double stiff = h * (h * tip.stiffness + tip.damping);
    const Rows rows = by_base({e, at, Mat3::Identity()});
    A_base_.noalias() += stiff * (rows.transpose() * rows);
    const Place place = link_place_[tip.link].part;
    Group& group = groups_[place.group];
    Eigen::Matrix<double, 3, Eigen::Dynamic> by_part(3, group.size);
    for (int i = 0; i < group.size; ++i) by_part.col(i) = rows * screw(tip.link, i);
    for (int i = 0; i < group.size; ++i) {
        for (int j = 0; j < group.size; ++j)
            group.A[i * group.size + j][place.lane] += stiff * by_part.col(i).dot(by_part.col(j));
        for (int r = 0; r < 6; ++r) group.A_base[6 * i + r][place.lane] += stiff * by_part.col(i).dot(rows.col(r));
    }
}

// Adds the impulses of handles to the momentum, with the rates at the end of the step.
void Floating::add_handle_impulses() {
    update_tip_twists();
    for (int e = 0; e < frames(); ++e) {
        const Tip& tip = tips[e];
        if (!tip.has_handle) continue;
        const Vec3 at = frame(e).act(tip.point);
        const Vec3 rate = by_base({e, at, Mat3::Identity()}) * link_twist(tip.link);
        const Vec3 force = tip.stiffness * (tip.target - at - h * rate) - tip.damping * rate;
        momentum_change_ += h * stack(force, at.cross(force));
    }
}

bool Floating::begin() {
    before_step_.base = base;
    before_step_.y = y;
    before_step_.v = v;
    before_step_.momentum = momentum;
    before_step_.twist = twist;
    before_step_.time = time;
    // gravity accelerates all links alike
    const Vec6 fall = stack(base.R.transpose() * gravity, Vec3::Zero()), start = twist + h * fall;
    base_rhs_.noalias() = M_base_ * start;
    base_rhs_ += parts_momentum_;
    momentum_change_ = h * transform_wrench(base.inverse(), M_base_ * fall);
    A_base_ = M_base_;
    begin_parts(start);
    coriolis();
    add_loads();
    if (!factorise()) return false;
    solve();
    return base_rate_.allFinite();
}

Vec6 Floating::start_velocity(int e) const {
    const int link = tips[e].link;
    const Place place = link_place_[link].part;
    const Group& group = groups_[place.group];
    Vec6 all = twist;
    for (int i = 0; i < group.size; ++i) all += v[group.columns[i][place.lane]] * screw(link, i);
    return tip_velocity(e, all);
}

// Velocity of a tip's origin and its angular velocity, world axes, for the twist of its link in base axes.
Vec6 Floating::tip_velocity(int e, const Vec6& all) const {
    const Vec3 w = all.tail<3>(), at = links[tips[e].link].pose.act(tips[e].fixed.p);
    return stack(base.R * (all.head<3>() + w.cross(at)), base.R * w);
}

void Floating::limits(std::vector<Limit>& out) const {
    if (bounds.empty()) return;
    Vector rates(y.size());
    for (Eigen::Index c = 0; c < y.size(); ++c) {
        const Place& place = place_[c];
        rates[c] = groups_[place.group].rates[place.row][place.lane];
    }
    for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i].near(i, y, rates, h, out);
}

Floating::Group::Round& Floating::Group::round(int& lane) {
    for (std::size_t k = 0;; ++k) {
        if (k == rounds.size()) {
            rounds.emplace_back();
            rounds[k].by_part.resize(3 * size);
            rounds[k].response.resize(3 * size);
        }
        Round& round = rounds[k];
        if (static_cast<int>(k) == rounds_used) {
            ++rounds_used;
            std::fill_n(round.row, width, -1);
            std::fill_n(round.by_base, 3, Six{});
            std::fill(round.by_part.begin(), round.by_part.end(), Eight{});
        }
        if (!size)  // links without coordinates may use any lane
            for (lane = 0; lane < width - 1 && round.row[lane] >= 0;) ++lane;
        if (round.row[lane] < 0) return round;
    }
}

// Responses of the parts to unit impulses, the wrenches on the base that result from them, and the contact velocities
// without impulses.
void Floating::Group::respond_in_parts(const Vec6& base, Wrenches& left, double* free) {
    const Six base_twist{every(Vec3(base.head<3>())), every(Vec3(base.tail<3>()))};
    for (int k = 0; k < rounds_used; ++k) {
        Round& round = rounds[k];
        for (int r = 0; r < 3; ++r) {
            Eight rate = dot(round.by_base[r], base_twist);
            Six arrives = round.by_base[r];
            for (int i = 0; i < size; ++i) {
                Eight moves{};
                for (int j = 0; j < size; ++j) moves += inverse[i * size + j] * round.by_part[3 * j + r];
                round.response[3 * i + r] = moves;
                const Eight* across = &A_base[6 * i];
                arrives.linear = arrives.linear - moves * Three{across[0], across[1], across[2]};
                arrives.angular = arrives.angular - moves * Three{across[3], across[4], across[5]};
                rate += round.by_part[3 * i + r] * rates[i];
            }
            for (int l = 0; l < width; ++l) {
                if (round.row[l] < 0 || r >= round.rows[l]) continue;
                free[round.row[l] + r] = rate[l];
                left.col(round.row[l] + r) = get(arrives, l);
            }
        }
    }
}

// Adds to W the coupling of two rounds through the parts that both act on.
void Floating::Group::add_coupling(const Round& a, const Round& b, Eigen::Map<Matrix>& W) const {
    if (!size) return;
    for (int r = 0; r < 3; ++r)
        for (int c = 0; c < 3; ++c) {
            Eight value{};
            for (int i = 0; i < size; ++i) value += a.by_part[3 * i + r] * b.response[3 * i + c];
            for (int l = 0; l < count; ++l) {
                if (a.row[l] < 0 || b.row[l] < 0 || r >= a.rows[l] || c >= b.rows[l]) continue;
                W(a.row[l] + r, b.row[l] + c) += value[l];
                if (&a != &b) W(b.row[l] + c, a.row[l] + r) += value[l];
            }
        }
}

// Changes the rates of the parts by the impulses of a round.
void Floating::Group::apply_impulses(const Round& round, const double* impulses) {
    Eight p[3] = {};
    for (int l = 0; l < width; ++l)
        for (int r = 0; r < 3; ++r)
            if (round.row[l] >= 0 && r < round.rows[l]) p[r][l] = impulses[round.row[l] + r];
    for (int i = 0; i < size; ++i)
        for (int r = 0; r < 3; ++r) rates[i] += round.response[3 * i + r] * p[r];
}

void Floating::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                       double* response) {
    const int k = static_cast<int>(touches.size()), n = 3 * k + static_cast<int>(limits.size());
    for (Group& group : groups_) group.rounds_used = 0;
    for (int i = 0; i < k; ++i) {
        const int link = tips[touches[i].frame].link;
        Place place = link_place_[link].part;
        Group::Round& to = groups_[place.group].round(place.lane);
        const Rows rows = by_base(touches[i]);
        to.row[place.lane] = 3 * i;
        to.rows[place.lane] = 3;
        for (int r = 0; r < 3; ++r) {
            put(to.by_base[r].linear, place.lane, rows.row(r).head<3>());
            put(to.by_base[r].angular, place.lane, rows.row(r).tail<3>());
        }
        for (int c = 0; c < groups_[place.group].size; ++c) {
            const Vec3 moves = rows * screw(link, c);
            for (int r = 0; r < 3; ++r) to.by_part[3 * c + r][place.lane] = moves[r];
        }
    }
    for (std::size_t i = 0; i < limits.size(); ++i) {
        const Vector& map = bounds[limits[i].row].map;
        Place place = place_of_limit(map);
        Group::Round& to = groups_[place.group].round(place.lane);
        to.row[place.lane] = 3 * k + static_cast<int>(i);
        to.rows[place.lane] = 1;
        const Group& group = groups_[place.group];
        for (int c = 0; c < group.size; ++c)
            to.by_part[3 * c][place.lane] = limits[i].sign * map[group.columns[c][place.lane]];
    }
    impulse_to_base_.resize(6, padded(n));
    impulse_to_base_.rightCols(impulse_to_base_.cols() - n).setZero();
    for (Group& group : groups_) group.respond_in_parts(base_rate_, impulse_to_base_, free);
    couple(impulse_to_base_, n, inverse_base_, response);
    Eigen::Map<Matrix> W(response, n, n);
    for (const Group& group : groups_)
        for (int a = 0; a < group.rounds_used; ++a)
            for (int b = 0; b <= a; ++b) group.add_coupling(group.rounds[a], group.rounds[b], W);
}

bool Floating::finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) {
    const std::size_t k = touches.size(), n = 3 * k + limits.size();
    if (n) {
        const Vec6 arrives = impulse_to_base_.leftCols(n) * Eigen::Map<const Vector>(impulses, n),
                   change = inverse_base_ * arrives;
        base_rate_ += change;
        for (Group& group : groups_)
            for (int a = 0; a < group.rounds_used; ++a) group.apply_impulses(group.rounds[a], impulses);
        subtract_base_motion(change);
        for (std::size_t i = 0; i < k; ++i) {
            for (int c = 0; c < 3; ++c) momentum_change_ += impulses[3 * i + c] * touches[i].wrench(c, Vec3::Zero());
        }
    }
    if (!base_rate_.allFinite()) return false;
    if (mounted) {
        const Vec6 wrench = mount_stiffness.cwiseProduct(mount_error_ - h * base_rate_) -
                            mount_damping.cwiseProduct(base_rate_);
        momentum_change_ += h * transform_wrench(base.inverse(), wrench);
    }
    if (std::any_of(tips.begin(), tips.end(), [](const Tip& tip) { return tip.has_handle; })) add_handle_impulses();
    for (Eigen::Index c = 0; c < v.size(); ++c) {
        const Place& place = place_[c];
        v[c] = groups_[place.group].rates[place.row][place.lane];
    }
    if (!v.allFinite()) return false;
    y += h * v;
    momentum += momentum_change_;
    base = base * exp(Vec6(h * base_rate_));
    base.R = 0.5 * base.R * (3 * Mat3::Identity() - base.R.transpose() * base.R);  // keeps it orthogonal
    time += h;
    refresh();
    return base.R.allFinite() && base.p.allFinite() && twist.allFinite() && y.allFinite();
}

bool Floating::step() {
    if (begin() && finish({}, {}, nullptr)) return true;
    abandon();
    return false;
}

void Floating::abandon() {
    base = before_step_.base;
    y = before_step_.y;
    v = before_step_.v;
    momentum = before_step_.momentum;
    time = before_step_.time;
    refresh();
    twist = before_step_.twist;
}

double Floating::energy() const {
    // M_bb contains the mass and, in its off-diagonal blocks, mass times centre of mass in base axes
    const Vec3 first(M_base_(5, 1), M_base_(3, 2), M_base_(4, 0));
    const Vector off = y - target;
    double sum = 0.5 * twist.dot(M_base_ * twist) - gravity.dot(M_base_(0, 0) * base.p + base.R * first);
    sum += twist.dot(parts_momentum_) + 0.5 * off.dot(stiffness * off);
    for (const Group& group : groups_)
        for (int i = 0; i < group.size; ++i)
            for (int j = 0; j < group.size; ++j)
                for (int l = 0; l < group.count; ++l)
                    sum += 0.5 * group.v[i][l] * group.M[i * group.size + j][l] * group.v[j][l];
    return sum;
}

}  // namespace supple
