#include "contact/pad_statics.hpp"

#include <algorithm>
#include <cmath>

namespace supple {

namespace {
constexpr int most_rounds = 20;  // in which pressed points push others into contact
constexpr double sliding = 1 - 1e-6;  // share of the friction limit from which a contact counts as sliding
constexpr double least_ball_facing = 0.1;  // cosine between a point's normal and the direction from which a ball came
}  // namespace

PadStatics::PadStatics(Collider collider, Eigen::MatrixXd compliance)
    : collider_(std::move(collider)), pad_(std::move(compliance), 0) {
    if (pad_.points() != static_cast<int>(collider_.vertices.size()))
        throw std::invalid_argument("a compliance of another size");
    for (const auto& corners : collider_.triangles)
        for (int k = 0; k < 3; ++k)
            longest_edge_ = std::max(
                longest_edge_, (collider_.vertices[corners[k]] - collider_.vertices[corners[(k + 1) % 3]]).norm());
}

void PadStatics::release() {
    const int n = pad_.points();
    contacts_.clear();
    pad_.restore(Eigen::VectorXd::Zero(3 * n),
                 {Eigen::VectorXd::Zero(3 * n), Eigen::VectorXd::Zero(3 * n), Eigen::VectorXd::Zero(n)});
}

Vec3 PadStatics::force() const {
    Vec3 sum = Vec3::Zero();
    for (int i = 0; i < pad_.points(); ++i) sum += pad_.loads().forces.segment<3>(3 * i);
    return sum;
}

Mat3 PadStatics::compliance(const Contact& a, const Contact& b) const {
    if (a.shares.size() == 1 && b.shares.size() == 1) return pad_.compliance(a.shares[0].first, b.shares[0].first);
    Mat3 sum = Mat3::Zero();
    for (const auto& [i, first] : a.shares)
        for (const auto& [j, second] : b.shares) sum += first * second * pad_.compliance(i, j);
    return sum;
}

Vec3 PadStatics::mean(const Contact& contact, const Eigen::VectorXd& values) const {
    Vec3 sum = Vec3::Zero();
    for (const auto& [i, share] : contact.shares) sum += share * values.segment<3>(3 * i);
    return sum;
}

void PadStatics::add(const Vec3& normal, const Vec3& place, double gap) {
    contacts_.push_back({{}, contact_frame(normal), place, gap});
}

bool PadStatics::press(const Collider& shape, const Pose& at, double margin, const Start& start,
                       const Support& support) {
    const double friction = std::max(collider_.friction, shape.friction);
    const Pose placed = at * shape.local;
    Start warm = start;
    Eigen::VectorXd guess;
    // Where the points are expected: with the displacements of the start, few of them are near the shape.
    const int n = pad_.points();
    pad_.restore(start.before ? *start.before : Eigen::VectorXd(Eigen::VectorXd::Zero(3 * n)),
                 {Eigen::VectorXd::Zero(3 * n), Eigen::VectorXd::Zero(3 * n), Eigen::VectorXd::Zero(n)});
    contacts_.clear();
    known_.assign(n, false);
    for (int round = 0; round < most_rounds; ++round) {
        fresh_.clear();
        collide_pad(collider_, Pose{}, pad_, shape, placed, margin, fresh_);
        const bool new_points = std::any_of(fresh_.begin(), fresh_.end(),
                                            [&](const PadContact& c) { return !known_[c.point]; });
        if (!new_points && round) break;
        for (const PadContact& c : fresh_) {
            if (known_[c.point]) continue;
            known_[c.point] = true;
            add(c.at.normal, c.at.point, c.at.gap);
            contacts_.back().shares.emplace_back(c.point, 1.0);
        }
        if (!solve(friction, warm, support)) return false;
        guess = pad_.loads().forces;
        warm.forces = &guess;
    }
    return true;
}

void PadStatics::add_triangle_below(const Vec3& at, double radius, const Vec3& up) {
    for (const auto& corners : collider_.triangles) {
        const Vec3 &a = collider_.vertices[corners[0]], &b = collider_.vertices[corners[1]],
                   &c = collider_.vertices[corners[2]];
        const Vec3 face = (b - a).cross(c - a);
        if (face.dot(up) <= least_ball_facing * face.norm()) continue;
        const Vec3 place = at - face.dot(at - a) / face.dot(up) * up;  // along up
        const auto shares = shares_on_triangle(place, a, b, c);
        if (!(*std::min_element(shares.begin(), shares.end()) >= 0)) continue;
        add(-up, place, up.dot(at - place) - radius);
        for (int k = 0; k < 3; ++k) contacts_.back().shares.emplace_back(corners[k], shares[k]);
        return;
    }
}

bool PadStatics::press_ball(const Vec3& at, double radius, const Vec3& up, double margin, double friction,
                            const Start& start, const Support& support) {
    const int n = pad_.points();
    contacts_.clear();
    known_.assign(n, false);
    if (radius < longest_edge_) add_triangle_below(at, radius, up);
    Start warm = start;
    Eigen::VectorXd guess;
    for (int round = 0; round < most_rounds; ++round) {
        bool added = false;
        for (int i = 0; i < n; ++i) {
            if (known_[i] || collider_.normals[i].dot(up) <= least_ball_facing) continue;
            const Vec3 x = collider_.vertices[i] - at;
            const double height = up.dot(x);
            const Vec3 across = x - height * up;
            const double below = radius * radius - across.squaredNorm();
            // the normal of the ball where it ends below the point; beside the ball, that of its nearest place
            if (below <= 0 && height >= 0) continue;
            const Vec3 normal = below > 0 ? Vec3((across - std::sqrt(below) * up) / radius) : Vec3(x.normalized());
            const double gap = normal.dot(x) - radius;
            if (gap > margin && !(round && gap + normal.dot(pad_.displacement(i)) < 0)) continue;
            known_[i] = added = true;
            add(normal, at + radius * normal, gap);
            contacts_.back().shares.emplace_back(i, 1.0);
        }
        if (!added && round) break;
        if (!solve(friction, warm, support)) return false;
        guess = pad_.loads().forces;
        warm.forces = &guess;
    }
    return true;
}

bool PadStatics::press_mask(const Vec3& at, double radius, const Vec3& up, const Eigen::VectorXd& areas,
                            double friction, const Start& start, const Support& support) {
    contacts_.clear();
    const int n = pad_.points();
    double total = 0;
    Vec3 normal = Vec3::Zero(), place = Vec3::Zero();
    std::vector<std::pair<int, double>> shares;
    for (int i = 0; i < n; ++i) {
        if (collider_.normals[i].dot(up) <= 0) continue;
        Vec3 away = at - collider_.vertices[i];
        away -= up.dot(away) * up;
        const double weight = areas[i] * std::sqrt(std::max(0.0, 1 - away.squaredNorm() / (radius * radius)));
        if (weight <= 0) continue;
        shares.emplace_back(i, weight);
        total += weight;
        normal += weight * collider_.normals[i];
        place += weight * collider_.vertices[i];
    }
    if (!(total > 0)) {  // beyond the edge of the skin
        release();
        return true;
    }
    for (auto& [i, share] : shares) share /= total;
    place /= total;
    normal.normalize();
    add(-normal, place, normal.dot(at - place));
    contacts_.back().shares = std::move(shares);
    return solve(friction, start, support);
}

bool PadStatics::solve(double friction, const Start& start, const Support& support) {
    const int n = static_cast<int>(contacts_.size());
    solver_.resize(n, 0, 0);
    double most = 0, scale = 0;
    for (int i = 0; i < n; ++i) {
        const Contact& a = contacts_[i];
        for (int j = 0; j <= i; ++j) {
            const Contact& b = contacts_[j];
            Mat3 C = compliance(a, b);
            C.diagonal().array() += support.compliance;
            if (friction == 0 && i != j) {  // only normal forces act
                solver_.W(3 * i, 3 * j) = solver_.W(3 * j, 3 * i) = a.axes.col(0).dot(C * b.axes.col(0));
                continue;
            }
            const Mat3 block = a.axes.transpose() * C * b.axes;
            for (int r = 0; r < 3; ++r)
                for (int q = 0; q < 3; ++q)
                    solver_.W(3 * i + r, 3 * j + q) = solver_.W(3 * j + q, 3 * i + r) = block(r, q);
            if (i == j) most = std::max(most, block.diagonal().maxCoeff());
        }
        Vec3 slip = -support.approach;
        if (start.before)
            slip -= mean(a, *start.before) + a.place - start.move.R.transpose() * (a.place - start.move.p);
        Vec3 b = a.axes.transpose() * (start.before ? slip : Vec3(-support.approach));
        b[0] = a.gap - a.axes.col(0).dot(support.approach);
        Eigen::Map<Vec3>(solver_.b.data() + 3 * i) = b;
        scale = std::max(scale, -b[0]);
        solver_.friction[i] = friction;
        if (start.forces) {
            Vec3 guess = Vec3::Zero();
            for (const auto& [point, share] : a.shares) guess += start.forces->segment<3>(3 * point);
            Eigen::Map<Vec3>(solver_.p.data() + 3 * i) = a.axes.transpose() * guess;
        }
    }
    std::fill(solver_.max_response.begin(), solver_.max_response.end(), most);
    // the solver's tolerance is that of lengths near 1: with this scale, 5e-8 of the deepest gap
    scale = scale > 0 ? 0.01 / scale : 1;
    for (double& value : solver_.b) value *= scale;
    for (double& value : solver_.p) value *= scale;
    solver_.solve(true);
    const int points = pad_.points();
    Pad::Loads loads{Eigen::VectorXd::Zero(3 * points), Eigen::VectorXd::Zero(3 * points),
                     Eigen::VectorXd::Zero(points)};
    for (int i = 0; i < n; ++i) {
        Eigen::Map<Vec3> p(solver_.p.data() + 3 * i);
        p /= scale;
        if (!p.allFinite()) return false;
        const Vec3 force = contacts_[i].axes * p;
        for (const auto& [point, share] : contacts_[i].shares) {
            loads.forces.segment<3>(3 * point) += share * force;
            if (loads.friction[point] == 0 || contacts_[i].shares.size() == 1)
                loads.normals.segment<3>(3 * point) = contacts_[i].axes.col(0);
            loads.friction[point] = friction;
        }
    }
    pad_.advance(std::move(loads), 1);  // without relaxation: u = C f
    return pad_.displacements().allFinite();
}

Mat3 PadStatics::stiffness() const {
    std::vector<std::pair<int, int>> rows;  // contact, axis
    for (int i = 0; i < static_cast<int>(contacts_.size()); ++i) {
        const double *p = solver_.p.data() + 3 * i, limit = sliding * solver_.friction[i] * p[0];
        if (!(p[0] > 0)) continue;
        rows.emplace_back(i, 0);
        if (std::hypot(p[1], p[2]) < limit) rows.insert(rows.end(), {{i, 1}, {i, 2}});
    }
    if (rows.empty()) return Mat3::Zero();
    const int n = static_cast<int>(rows.size());
    Eigen::MatrixXd C(n, n), axes(n, 3);
    for (int a = 0; a < n; ++a) {
        axes.row(a) = contacts_[rows[a].first].axes.col(rows[a].second).transpose();
        for (int b = 0; b <= a; ++b) {
            const Mat3 block = compliance(contacts_[rows[a].first], contacts_[rows[b].first]);
            C(a, b) = C(b, a) = axes.row(a).dot(block * axes.row(b).transpose());
        }
    }
    const Mat3 K = axes.transpose() * whole::solve_semidefinite(C, axes);
    return K.allFinite() ? Mat3(0.5 * (K + K.transpose())) : Mat3(Mat3::Zero());
}

}  // namespace supple
