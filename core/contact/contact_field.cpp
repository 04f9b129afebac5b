// Contact points of shapes with height fields.
#include <algorithm>
#include <cmath>

#include "contact/contact_pairs.hpp"

namespace supple {

Vec3 HeightField::vertex(int row, int column) const {
    return {-half_x + column * step_x(), -half_y + row * step_y(), heights[row * columns + column]};
}

bool HeightField::surface(double x, double y, double& height, Vec3& normal) const {
    const double u = (x + half_x) / step_x(), v = (y + half_y) / step_y();
    if (!(u >= 0 && v >= 0 && u <= columns - 1 && v <= rows - 1)) return false;
    const int i = std::min(static_cast<int>(u), columns - 2), j = std::min(static_cast<int>(v), rows - 2);
    const double s = u - i, t = v - j;
    const double* row = &heights[j * columns + i];
    const double* next_row = row + columns;
    // each cell has two triangles: (0,0) (1,0) (1,1) below the diagonal, (0,0) (1,1) (0,1) above
    const double along_x = s >= t ? row[1] - row[0] : next_row[1] - next_row[0];
    const double along_y = s >= t ? next_row[1] - row[1] : next_row[0] - row[0];
    height = row[0] + s * along_x + t * along_y;
    normal = Vec3(-along_x / step_x(), -along_y / step_y(), 1).normalized();
    return true;
}

Vec3 nearest_on_triangle(const Vec3& p, const Vec3& a, const Vec3& b, const Vec3& c) {
    const Vec3 ab = b - a, ac = c - a, ap = p - a;
    const double d1 = ab.dot(ap), d2 = ac.dot(ap);
    if (d1 <= 0 && d2 <= 0) return a;
    const Vec3 bp = p - b;
    const double d3 = ab.dot(bp), d4 = ac.dot(bp);
    if (d3 >= 0 && d4 <= d3) return b;
    const double vc = d1 * d4 - d3 * d2;
    if (vc <= 0 && d1 >= 0 && d3 <= 0) return a + d1 / (d1 - d3) * ab;
    const Vec3 cp = p - c;
    const double d5 = ab.dot(cp), d6 = ac.dot(cp);
    if (d6 >= 0 && d5 <= d6) return c;
    const double vb = d5 * d2 - d1 * d6;
    if (vb <= 0 && d2 >= 0 && d6 <= 0) return a + d2 / (d2 - d6) * ac;
    const double va = d3 * d6 - d5 * d4;
    if (va <= 0 && d4 - d3 >= 0 && d5 - d6 >= 0) return b + (d4 - d3) / ((d4 - d3) + (d5 - d6)) * (c - b);
    const double s = 1 / (va + vb + vc);
    return a + vb * s * ab + vc * s * ac;
}

namespace {

constexpr double tiny = 1e-12;

// Contacts of a sphere at c (field's axes) with the triangles around it: the nearest point, and further points whose
// normals differ by more than 20 degrees.
void sphere_on_field(const HeightField& f, const Vec3& c, double radius, double margin, const Pose& B, Points& points) {
    const double range = radius + std::max(margin, 0.0);
    if (c[2] - range > f.highest) return;
    double height;
    Vec3 up;
    // Centre below the ground: the triangle's normal is used
    if (f.surface(c[0], c[1], height, up) && c[2] <= height) {
        const double depth = (height - c[2]) * up[2];
        const double gap = -depth - radius;
        points.add(B.act(c + (depth + 0.5 * gap) * up), B.R * up, gap);
        return;
    }
    const int first_x = std::max(0, static_cast<int>(std::floor((c[0] - range + f.half_x) / f.step_x())));
    const int last_x = std::min(f.columns - 2, static_cast<int>(std::floor((c[0] + range + f.half_x) / f.step_x())));
    const int first_y = std::max(0, static_cast<int>(std::floor((c[1] - range + f.half_y) / f.step_y())));
    const int last_y = std::min(f.rows - 2, static_cast<int>(std::floor((c[1] + range + f.half_y) / f.step_y())));
    // whether a lower bound of the distance to a triangle, from its bounding box and its diagonal, exceeds `range`
    auto out_of_range = [&](const Vec3& a, const Vec3& b, const Vec3& d) {
        const double up = c[2] - std::max({a[2], b[2], d[2]});
        const double x = std::max({a[0] - c[0], c[0] - d[0], 0.0}), y = std::max({a[1] - c[1], c[1] - d[1], 0.0});
        // the diagonal runs from a to d; b lies on one side of it, the sphere's centre perhaps on the other
        const Vec3 along = d - a;
        const double side = along[0] * (b[1] - a[1]) - along[1] * (b[0] - a[0]);
        const double over = (along[0] * (c[1] - a[1]) - along[1] * (c[0] - a[0])) * (side > 0 ? -1 : 1);
        const double across = std::max(over, 0.0) / std::hypot(along[0], along[1]);
        return std::max(x * x + y * y, across * across) + (up > 0 ? up * up : 0.0) >= range * range;
    };
    constexpr int most = 4;
    Vec3 normals[most], at[most];
    double gaps[most] = {INFINITY, INFINITY, INFINITY, INFINITY};
    int count = 0;
    for (int y = first_y; y <= last_y; ++y)
        for (int x = first_x; x <= last_x; ++x)
            for (int upper = 0; upper < 2; ++upper) {
                const Vec3 a = f.vertex(y, x), d = f.vertex(y + 1, x + 1);
                const Vec3 b = upper ? f.vertex(y + 1, x) : f.vertex(y, x + 1);
                if (out_of_range(a, b, d)) continue;
                const Vec3 q = upper ? nearest_on_triangle(c, a, d, b) : nearest_on_triangle(c, a, b, d);
                const Vec3 away = c - q;
                const double distance = away.norm(), gap = distance - radius;
                if (gap >= margin || distance < tiny) continue;
                const Vec3 n = away / distance;
                int entry = -1;
                for (int k = 0; k < count; ++k)
                    if (normals[k].dot(n) > 0.94) entry = k;  // within 20 degrees
                if (entry < 0) {  // a new entry, or that with the largest gap
                    entry = count < most ? count++ : static_cast<int>(std::max_element(gaps, gaps + most) - gaps);
                }
                if (gap < gaps[entry]) {
                    normals[entry] = n;
                    gaps[entry] = gap;
                    at[entry] = q + 0.5 * gap * n;
                }
            }
    for (int k = 0; k < count; ++k) points.add(B.act(at[k]), B.R * normals[k], gaps[k]);
}

void point_on_field(const HeightField& f, const Vec3& x, double margin, const Pose& B, Points& points) {
    double height;
    Vec3 up;
    if (!f.surface(x[0], x[1], height, up)) return;
    const double gap = (x[2] - height) * up[2];
    if (gap < margin) points.add(B.act(x - 0.5 * gap * up), B.R * up, gap);
}

}  // namespace

int shape_on_field(const Collider& a, const Pose& A, const HeightField& f, const Pose& B, double margin,
                   ContactPoint* out) {
    Points points{out};
    const Pose pose = A.seen_from(B);  // of the shape in the field's axes
    if (pose.p[2] - a.bounding_radius - std::max(margin, 0.0) > f.highest) return 0;
    if (a.kind == Collider::box && pose.p[2] - pose.R.row(2).cwiseAbs().dot(a.size) - std::max(margin, 0.0) > f.highest)
        return 0;
    if (a.kind == Collider::sphere) {
        sphere_on_field(f, pose.p, a.size[0], margin, B, points);
        return points.count;
    }
    if (a.kind == Collider::capsule) {  // spheres along its axis, no farther apart than the grid lines
        const double step = std::min(f.step_x(), f.step_y());
        const int pieces = std::clamp(static_cast<int>(std::ceil(2 * a.size[1] / step)), 1, most_points / 4 - 1);
        for (int i = 0; i <= pieces; ++i) {
            const double z = -a.size[1] + 2 * a.size[1] * i / pieces;
            sphere_on_field(f, pose.act(Vec3(0, 0, z)), a.size[0], margin, B, points);
        }
        return points.count;
    }
    if (a.kind == Collider::mesh) {
        for (const Vec3& v : a.vertices) point_on_field(f, pose.act(v), margin, B, points);
        return points.count;
    }
    Vec3 corner[8];
    double radius;
    // Fixed-point iteration for the point whose normal opposes that of the ground below it
    if (a.kind == Collider::ellipsoid) {
        Vec3 up = Vec3::UnitZ();
        double height;
        for (int k = 0; k < 6; ++k) {
            corners(a, -(pose.R.transpose() * up), corner, radius);
            const Vec3 x = pose.act(corner[0]);
            if (!f.surface(x[0], x[1], height, up)) break;
        }
        point_on_field(f, pose.act(corner[0]), margin, B, points);
        return points.count;
    }
    const int count = corners(a, -pose.R.row(2).transpose(), corner, radius);
    for (int i = 0; i < count; ++i) point_on_field(f, pose.act(corner[i]), margin, B, points);
    if (a.kind == Collider::box) {  // vertices of the height field inside or near the box
        const Pose back = pose.inverse();
        const Vec3 half_extent = pose.R.cwiseAbs() * a.size;
        auto index_range = [](double centre, double half_extent, double half_field, double step, int count, int& first,
                              int& last) {
            first = std::max(0, static_cast<int>(std::ceil((centre - half_extent + half_field) / step)));
            last = std::min(count - 1, static_cast<int>(std::floor((centre + half_extent + half_field) / step)));
        };
        int first_x, last_x, first_y, last_y;
        index_range(pose.p[0], half_extent[0], f.half_x, f.step_x(), f.columns, first_x, last_x);
        index_range(pose.p[1], half_extent[1], f.half_y, f.step_y(), f.rows, first_y, last_y);
        for (int y = first_y; y <= last_y; ++y)
            for (int x = first_x; x <= last_x; ++x) {
                const Vec3 vertex = f.vertex(y, x), in = back.act(vertex);
                int face = -1;
                double depth = INFINITY;
                for (int k = 0; k < 3; ++k)
                    if (a.size[k] - std::abs(in[k]) < depth) {
                        depth = a.size[k] - std::abs(in[k]);
                        face = k;
                    }
                if (depth < -std::max(margin, 0.0)) continue;
                Vec3 outward = Vec3::Zero();
                outward[face] = in[face] > 0 ? 1 : -1;
                const Vec3 n = -(pose.R * outward);
                if (n[2] <= 0) continue;
                points.add(B.act(vertex - 0.5 * depth * n), B.R * n, -depth);
            }
    }
    return points.count;
}

}  // namespace supple
