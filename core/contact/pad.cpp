#include "contact/pad.hpp"

#include <algorithm>
#include <cmath>

#include "contact/contact_pairs.hpp"

namespace supple {

namespace {
// Distance of a pressed point from the other surface, over the largest displacement of the pad, from which it is left
// out.
constexpr double sunk_share = 0.1;
// Cosine between a point's outward normal and that of the other surface above which the shape is deep.
constexpr double least_facing = -0.5;
}  // namespace

Pad::Pad(Eigen::MatrixXd compliance, double relaxation) : C_(std::move(compliance)), relaxation_(relaxation) {
    const Eigen::Index n = C_.rows();
    u_.setZero(n);
    loads_ = {Eigen::VectorXd::Zero(n), Eigen::VectorXd::Zero(n), Eigen::VectorXd::Zero(n / 3)};
}

Vec3 Pad::displacement(const PadPlace& place) const {
    Vec3 sum = Vec3::Zero();
    for (int k = 0; k < place.count; ++k) sum += place.shares[k] * displacement(place.points[k]);
    return sum;
}

Mat3 Pad::compliance(const PadPlace& a, const PadPlace& b) const {
    if (a.count == 1 && b.count == 1) return C_.block<3, 3>(3 * a.points[0], 3 * b.points[0]);
    Mat3 sum = Mat3::Zero();
    for (int i = 0; i < a.count; ++i)
        for (int j = 0; j < b.count; ++j)
            sum += a.shares[i] * b.shares[j] * C_.block<3, 3>(3 * a.points[i], 3 * b.points[j]);
    return sum;
}

void Pad::advance(Loads loads, double h) {
    const double theta = relaxed_share(h);
    Eigen::VectorXd u = (1 - theta) * u_;
    std::array<Eigen::Index, 4> columns{};  // of C, added four at a time
    int count = 0;
    const auto add = [&] {
        std::array<double, 4> f{};
        for (int k = 0; k < count; ++k) f[k] = theta * loads.forces[columns[k]];
        for (int k = count; k < 4; ++k) columns[k] = columns[0];
        u += f[0] * C_.col(columns[0]) + f[1] * C_.col(columns[1]) + f[2] * C_.col(columns[2]) +
             f[3] * C_.col(columns[3]);
        count = 0;
    };
    for (Eigen::Index j = 0; j < u.size(); ++j) {
        if (loads.forces[j] == 0) continue;
        columns[count++] = j;
        if (count == 4) add();
    }
    if (count) add();
    restore(u, std::move(loads));
}

std::array<double, 3> shares_on_triangle(const Vec3& q, const Vec3& a, const Vec3& b, const Vec3& c) {
    const Vec3 u = b - a, v = c - a, w = q - a;
    const double uu = u.dot(u), uv = u.dot(v), vv = v.dot(v), wu = w.dot(u), wv = w.dot(v), area = uu * vv - uv * uv;
    const double s = (vv * wu - uv * wv) / area, t = (uu * wv - uv * wu) / area;
    return {1 - s - t, s, t};
}

void Pad::restore(const Eigen::VectorXd& displacements, Loads loads) {
    u_ = displacements;
    loads_ = std::move(loads);
    largest_ = 0;
    for (int i = 0; i < points(); ++i) largest_ = std::max(largest_, displacement(i).norm());
}

namespace {

// Distance beyond the border of a surface, over the size of the triangle there, that still counts as on it
constexpr double overhang = 0.1;

// Whether x, whose nearest place on a pad is q on this triangle, lies beyond the border of the surface.
bool beyond_border(const Collider& pad, std::size_t triangle, const std::array<double, 3>& shares, const Vec3& x,
                   const Vec3& q) {
    constexpr double tiny = 1e-9;
    const auto& corners = pad.triangles[triangle];
    bool at_border = false;
    for (int k = 0; k < 3; ++k)
        at_border |= (shares[k] < tiny && pad.border[triangle][k]) ||
                     (shares[k] > 1 - tiny && pad.at_border[corners[k]]);
    if (!at_border) return false;
    const Vec3& a = pad.vertices[corners[0]];
    const Vec3 area = (pad.vertices[corners[1]] - a).cross(pad.vertices[corners[2]] - a), face = area.normalized(),
               to = x - q;
    return (to - face.dot(to) * face).squaredNorm() > overhang * overhang * area.norm();
}

// The nearest triangle of a pad to x (the pad's axes): the place on it, the normal there and the distance along the
// normal.
bool nearest_on_pad(const Collider& pad, const Vec3& x, double reach, PadPlace& place, Vec3& normal, double& gap) {
    double best = reach * reach;
    std::size_t nearest = pad.triangles.size();
    Vec3 at = Vec3::Zero();
    for (std::size_t k = 0; k < pad.triangles.size(); ++k) {
        const auto& triangle = pad.triangles[k];
        const Vec3 &a = pad.vertices[triangle[0]], &b = pad.vertices[triangle[1]], &c = pad.vertices[triangle[2]];
        if ((x.cwiseMax(a.cwiseMin(b).cwiseMin(c)).cwiseMin(a.cwiseMax(b).cwiseMax(c)) - x).squaredNorm() >= best)
            continue;
        const Vec3 q = nearest_on_triangle(x, a, b, c);
        const double distance = (x - q).squaredNorm();
        if (distance >= best) continue;
        const auto shares = shares_on_triangle(q, a, b, c);
        if (!std::isfinite(shares[0])) continue;
        best = distance;
        nearest = k;
        at = q;
        place.count = 3;
        place.points = triangle;
        place.shares = shares;
        normal = shares[0] * pad.normals[triangle[0]] + shares[1] * pad.normals[triangle[1]] +
                 shares[2] * pad.normals[triangle[2]];
        normal.normalize();
        gap = normal.dot(x - q);
    }
    return nearest < pad.triangles.size() && !beyond_border(pad, nearest, place.shares, x, at);
}

// A shape that has pressed a point x (collider's axes) inward by `pressed` ends at x - s outward. Finds s > 0, and the
// shape's normal there.
bool end_of_shape(const Collider& shape, const Vec3& x, const Vec3& outward, double pressed, double& s, Vec3& normal) {
    constexpr int most_steps = 30;
    constexpr double accuracy = 1e-3;  // over `pressed`
    s = pressed;
    for (int k = 0; k < most_steps; ++k) {
        const double distance = signed_distance(shape, x - s * outward, normal);
        if (!std::isfinite(distance)) return false;
        s -= distance;  // outside: towards the shape, never beyond its surface; inside: towards its end
        if (!(s > 0)) return false;
        if (std::abs(distance) < accuracy * pressed) break;
    }
    return normal.dot(outward) < 0;
}

}  // namespace

void collide_pad(const Collider& a, const Pose& A, const Pad& pad, const Collider& b, const Pose& B, double margin,
                 std::vector<PadContact>& out) {
    const Pose between = A.seen_from(B);
    // points of both may overlap by as much as the skins are deep; those farther apart cannot touch
    const double reach = b.unbounded() ? INFINITY : 1.01 * b.bounding_radius + margin + pad.largest_displacement();
    for (int i = 0; i < static_cast<int>(a.vertices.size()); ++i) {
        const Vec3 x = between.act(a.vertices[i]);
        if (x.squaredNorm() > reach * reach) continue;
        PadContact contact;
        Vec3 n;
        double gap = 0;
        if (b.kind == Collider::pad) {
            if (!nearest_on_pad(b, x, std::min(reach, 0.5 * b.bounding_radius), contact.other, n, gap)) continue;
        } else {
            gap = signed_distance(b, x, n);
        }
        const Vec3 outward = between.R * a.normals[i], u = between.R * pad.displacement(i);
        const double inward = -u.dot(outward);
        if (n.dot(outward) > least_facing && inward > 0 && b.kind != Collider::pad) {
            Vec3 end;
            double depth;
            if (end_of_shape(b, x, outward, inward, depth, end)) n = end, gap = depth * n.dot(outward);
        }
        // In the last step the points around the contact area were pushed away from the other surface. Most of them
        // stay away.
        const double pressed = gap + n.dot(u);
        const bool near = pressed < margin ||
                          (gap < margin && pressed < margin + sunk_share * pad.largest_displacement());
        if (!near || n.dot(outward) >= 0) continue;
        contact.at = {B.act(x - gap * n), B.R * n, gap};
        contact.point = i;
        out.push_back(contact);
    }
}

}  // namespace supple
