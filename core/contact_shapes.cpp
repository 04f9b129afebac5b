#include "contact_shapes.hpp"

#include <algorithm>
#include <cmath>

namespace supple {

namespace {

constexpr double tiny = 1e-12;

struct Points {
    ContactPoint* out;
    int count = 0;
    void add(const Vec3& point, const Vec3& normal, double gap) {
        if (count < most_points) out[count++] = {point, normal, gap};
    }
};

// --- the points of a shape that stand out furthest -------------------------------------------------------------------

// Corners of a shape that may rest on something below it (down: in the shape's axes), with the radius around them.
int corners(const Solid& s, const Vec3& down, Vec3* out, double& radius) {
    radius = 0;
    switch (s.kind) {
        case Solid::sphere:
            radius = s.size[0];
            out[0].setZero();
            return 1;
        case Solid::capsule:
            radius = s.size[0];
            out[0] = Vec3(0, 0, -s.size[1]);
            out[1] = Vec3(0, 0, s.size[1]);
            return 2;
        case Solid::box:
            for (int i = 0; i < 8; ++i)
                out[i] = Vec3(i & 1 ? s.size[0] : -s.size[0], i & 2 ? s.size[1] : -s.size[1], i & 4 ? s.size[2] : -s.size[2]);
            return 8;
        case Solid::cylinder: {  // on the lower disc four points of its rim, the lowest among them; one of the upper
            const double across = std::hypot(down[0], down[1]);
            const Vec3 e = across > 1e-9 ? Vec3(down[0] / across, down[1] / across, 0) : Vec3(1, 0, 0);
            const Vec3 f(-e[1], e[0], 0);
            const double z = down[2] > 0 ? s.size[1] : -s.size[1];
            const Vec3 directions[4] = {e, f, -e, -f};
            for (int i = 0; i < 4; ++i) out[i] = s.size[0] * directions[i] + Vec3(0, 0, z);
            out[4] = s.size[0] * e - Vec3(0, 0, z);
            return 5;
        }
        case Solid::ellipsoid: {
            const Vec3 scaled = s.size.cwiseProduct(down);
            out[0] = s.size.cwiseProduct(scaled) / std::max(scaled.norm(), tiny);
            return 1;
        }
        default: return 0;
    }
}

// A mesh's corners: those within `margin` of the plane, at most 8, the ones furthest apart kept.
int hull_on_plane(const Solid& s, const Pose& A, const Vec3& n, const Vec3& at, double margin, ContactPoint* out) {
    Points points{out};
    double lowest = INFINITY;
    for (const Vec3& v : s.vertices) lowest = std::min(lowest, n.dot(A.act(v) - at));
    if (lowest > margin) return 0;
    // the lowest corner in each of eight directions across the plane, near the lowest height
    const double band = lowest + std::max(margin - lowest, 0.0);
    const Vec3 e = (std::abs(n[0]) < 0.9 ? n.cross(Vec3::UnitX()) : n.cross(Vec3::UnitY())).normalized();
    const Vec3 f = n.cross(e);
    int chosen[9], count = 0;
    for (int k = -1; k < 8; ++k) {
        const Vec3 d = std::cos(k * M_PI / 4) * e + std::sin(k * M_PI / 4) * f;
        int best = -1;
        double value = INFINITY;
        for (int i = 0; i < static_cast<int>(s.vertices.size()); ++i) {
            const Vec3 x = A.act(s.vertices[i]);
            const double height = n.dot(x - at);
            if (height > band) continue;
            const double score = k < 0 ? height : -d.dot(x);
            if (score < value) {
                value = score;
                best = i;
            }
        }
        if (best >= 0 && std::find(chosen, chosen + count, best) == chosen + count) chosen[count++] = best;
    }
    for (int i = 0; i < count; ++i) {
        const Vec3 x = A.act(s.vertices[chosen[i]]);
        const double gap = n.dot(x - at);
        points.add(x - 0.5 * gap * n, n, gap);
    }
    return points.count;
}

int on_plane(const Solid& a, const Pose& A, const Pose& B, double margin, ContactPoint* out) {
    const Vec3 n = B.R.col(2);
    if (n.dot(A.p - B.p) - a.reach > margin) return 0;
    if (a.kind == Solid::mesh) return hull_on_plane(a, A, n, B.p, margin, out);
    Vec3 corner[8];
    double radius;
    const int count = corners(a, -(A.R.transpose() * n), corner, radius);
    Points points{out};
    for (int i = 0; i < count; ++i) {
        const Vec3 x = A.act(corner[i]);
        const double gap = n.dot(x - B.p) - radius;
        if (gap < margin) points.add(x - (radius + 0.5 * gap) * n, n, gap);
    }
    return points.count;
}

// --- height fields ---------------------------------------------------------------------------------------------------

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

// A ball at c (field's axes) on the triangles below and around it: the nearest point, and others where the ground
// faces another way.
void ball_on_field(const HeightField& f, const Vec3& c, double radius, double margin, const Pose& B, Points& points) {
    const double around = radius + std::max(margin, 0.0);
    if (c[2] - around > f.highest) return;
    double height;
    Vec3 up;
    if (f.surface(c[0], c[1], height, up) && c[2] <= height) {  // its centre is below the ground: straight out
        const double depth = (height - c[2]) * up[2];
        const double gap = -depth - radius;
        points.add(B.act(c + (depth + 0.5 * gap) * up), B.R * up, gap);
        return;
    }
    const int first_x = std::max(0, static_cast<int>(std::floor((c[0] - around + f.half_x) / f.step_x())));
    const int last_x = std::min(f.columns - 2, static_cast<int>(std::floor((c[0] + around + f.half_x) / f.step_x())));
    const int first_y = std::max(0, static_cast<int>(std::floor((c[1] - around + f.half_y) / f.step_y())));
    const int last_y = std::min(f.rows - 2, static_cast<int>(std::floor((c[1] + around + f.half_y) / f.step_y())));
    // how far the ball reaches at least beyond a triangle's edges and highest corner
    auto beyond = [&](const Vec3& a, const Vec3& b, const Vec3& d) {
        const double up = c[2] - std::max({a[2], b[2], d[2]});
        const double x = std::max({a[0] - c[0], c[0] - d[0], 0.0}), y = std::max({a[1] - c[1], c[1] - d[1], 0.0});
        // the diagonal leads from a to d; b lies on one side of it, and the ball's middle may lie on the other
        const Vec3 along = d - a;
        const double side = along[0] * (b[1] - a[1]) - along[1] * (b[0] - a[0]);
        const double over = (along[0] * (c[1] - a[1]) - along[1] * (c[0] - a[0])) * (side > 0 ? -1 : 1);
        const double across = std::max(over, 0.0) / std::hypot(along[0], along[1]);
        return std::max(x * x + y * y, across * across) + (up > 0 ? up * up : 0.0) >= around * around;
    };
    constexpr int most = 4;
    Vec3 normals[most], at[most];
    double gaps[most] = {INFINITY, INFINITY, INFINITY, INFINITY};
    int count = 0;
    for (int y = first_y; y <= last_y; ++y)
        for (int x = first_x; x <= last_x; ++x)
            for (int half = 0; half < 2; ++half) {
                const Vec3 a = f.vertex(y, x), d = f.vertex(y + 1, x + 1);
                const Vec3 b = half ? f.vertex(y + 1, x) : f.vertex(y, x + 1);
                if (beyond(a, b, d)) continue;
                const Vec3 q = half ? nearest_on_triangle(c, a, d, b) : nearest_on_triangle(c, a, b, d);
                const Vec3 away = c - q;
                const double distance = away.norm(), gap = distance - radius;
                if (gap >= margin || distance < tiny) continue;
                const Vec3 n = away / distance;
                int same = -1;
                for (int k = 0; k < count; ++k)
                    if (normals[k].dot(n) > 0.94) same = k;  // within 20 degrees
                if (same < 0) {  // a place of its own, or that of the furthest so far
                    same = count < most ? count++ : static_cast<int>(std::max_element(gaps, gaps + most) - gaps);
                }
                if (gap < gaps[same]) {
                    normals[same] = n;
                    gaps[same] = gap;
                    at[same] = q + 0.5 * gap * n;
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

int on_field(const Solid& a, const Pose& A, const HeightField& f, const Pose& B, double margin, ContactPoint* out) {
    Points points{out};
    const Pose inside = A.seen_from(B);
    if (inside.p[2] - a.reach - std::max(margin, 0.0) > f.highest) return 0;
    if (a.kind == Solid::box && inside.p[2] - inside.R.row(2).cwiseAbs().dot(a.size) - std::max(margin, 0.0) > f.highest)
        return 0;
    if (a.kind == Solid::sphere) {
        ball_on_field(f, inside.p, a.size[0], margin, B, points);
        return points.count;
    }
    if (a.kind == Solid::capsule) {  // balls along it, no further apart than the grid
        const double step = std::min(f.step_x(), f.step_y());
        const int pieces = std::clamp(static_cast<int>(std::ceil(2 * a.size[1] / step)), 1, most_points / 4 - 1);
        for (int i = 0; i <= pieces; ++i) {
            const double z = -a.size[1] + 2 * a.size[1] * i / pieces;
            ball_on_field(f, inside.act(Vec3(0, 0, z)), a.size[0], margin, B, points);
        }
        return points.count;
    }
    if (a.kind == Solid::mesh) {
        for (const Vec3& v : a.vertices) point_on_field(f, inside.act(v), margin, B, points);
        return points.count;
    }
    Vec3 corner[8];
    double radius;
    if (a.kind == Solid::ellipsoid) {  // its point that faces the ground below that point
        Vec3 up = Vec3::UnitZ();
        double height;
        for (int k = 0; k < 6; ++k) {
            corners(a, -(inside.R.transpose() * up), corner, radius);
            const Vec3 x = inside.act(corner[0]);
            if (!f.surface(x[0], x[1], height, up)) break;
        }
        point_on_field(f, inside.act(corner[0]), margin, B, points);
        return points.count;
    }
    const int count = corners(a, -inside.R.row(2).transpose(), corner, radius);
    for (int i = 0; i < count; ++i) point_on_field(f, inside.act(corner[i]), margin, B, points);
    if (a.kind == Solid::box) {  // peaks of the ground that stick into it
        const Pose back = inside.inverse();
        const Vec3 wide = inside.R.cwiseAbs() * a.size;
        auto range = [](double at, double wide, double half, double step, int count, int& first, int& last) {
            first = std::max(0, static_cast<int>(std::ceil((at - wide + half) / step)));
            last = std::min(count - 1, static_cast<int>(std::floor((at + wide + half) / step)));
        };
        int first_x, last_x, first_y, last_y;
        range(inside.p[0], wide[0], f.half_x, f.step_x(), f.columns, first_x, last_x);
        range(inside.p[1], wide[1], f.half_y, f.step_y(), f.rows, first_y, last_y);
        for (int y = first_y; y <= last_y; ++y)
            for (int x = first_x; x <= last_x; ++x) {
                const Vec3 peak = f.vertex(y, x), in = back.act(peak);
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
                const Vec3 n = -(inside.R * outward);
                if (n[2] <= 0) continue;
                points.add(B.act(peak - 0.5 * depth * n), B.R * n, -depth);
            }
    }
    return points.count;
}

// --- balls and rods --------------------------------------------------------------------------------------------------

// Nearest point of a solid to x (its own axes), the outward normal there, and the distance, negative inside.
double nearest(const Solid& s, const Vec3& x, Vec3& normal) {
    switch (s.kind) {
        case Solid::sphere: {
            const double d = x.norm();
            normal = d > tiny ? Vec3(x / d) : Vec3(Vec3::UnitZ());
            return d - s.size[0];
        }
        case Solid::capsule: {
            const Vec3 away = x - Vec3(0, 0, std::clamp(x[2], -s.size[1], s.size[1]));
            const double d = away.norm();
            normal = d > tiny ? Vec3(away / d) : Vec3(Vec3::UnitX());
            return d - s.size[0];
        }
        case Solid::box: {
            const Vec3 q = x.cwiseMax(-s.size).cwiseMin(s.size), away = x - q;
            const double d = away.norm();
            if (d > tiny) {
                normal = away / d;
                return d;
            }
            int face = 0;
            const Vec3 depth = s.size - x.cwiseAbs();
            depth.minCoeff(&face);
            normal.setZero();
            normal[face] = x[face] < 0 ? -1 : 1;
            return -depth[face];
        }
        case Solid::cylinder: {
            const double r = std::hypot(x[0], x[1]);
            const Vec3 side = r > tiny ? Vec3(x[0] / r, x[1] / r, 0) : Vec3(Vec3::UnitX());
            const double out = r - s.size[0], over = std::abs(x[2]) - s.size[1];
            const Vec3 cap(0, 0, x[2] < 0 ? -1 : 1);
            if (out <= 0 && over <= 0) {
                normal = out > over ? side : cap;
                return std::max(out, over);
            }
            const double d = std::hypot(std::max(out, 0.0), std::max(over, 0.0));
            normal = (std::max(out, 0.0) * side + std::max(over, 0.0) * cap) / d;
            return d;
        }
        default: return INFINITY;
    }
}

bool ball_on_solid(const Vec3& centre, double radius, const Solid& b, const Pose& B, double margin, Points& points) {
    Vec3 n;
    const double gap = nearest(b, B.R.transpose() * (centre - B.p), n) - radius;
    if (gap >= margin) return false;
    n = B.R * n;
    points.add(centre - (radius + 0.5 * gap) * n, n, gap);
    return true;
}

void nearest_on_rods(const Vec3& a, const Vec3& d1, const Vec3& b, const Vec3& d2, double h1, double h2, double& s,
                     double& t) {
    // points a + s d1 and b + t d2 of two segments with unit directions, |s| <= h1, |t| <= h2
    const Vec3 r = a - b;
    const double along = d1.dot(d2), c = d1.dot(r), f = d2.dot(r), denominator = 1 - along * along;
    s = denominator > 1e-12 ? std::clamp((along * f - c) / denominator, -h1, h1) : std::clamp(-c, -h1, h1);
    t = along * s + f;
    if (t > h2 || t < -h2) {
        t = std::clamp(t, -h2, h2);
        s = std::clamp(along * t - c, -h1, h1);
    }
}

int rods(const Solid& a, const Pose& A, const Solid& b, const Pose& B, double margin, ContactPoint* out) {
    Points points{out};
    const Vec3 da = A.R.col(2), db = B.R.col(2);
    const double radius = a.size[0];
    double s, t;
    nearest_on_rods(A.p, da, B.p, db, a.size[1], b.size[1], s, t);
    ball_on_solid(A.p + s * da, radius, b, B, margin, points);
    if (std::abs(da.dot(db)) > 0.999)  // side by side: both ends of what they share
        for (double end : {-a.size[1], a.size[1]}) {
            const double other = std::clamp(db.dot(A.p + end * da - B.p), -b.size[1], b.size[1]);
            const double back = std::clamp(da.dot(B.p + other * db - A.p), -a.size[1], a.size[1]);
            if (std::abs(back - s) > 0.1 * a.size[1]) ball_on_solid(A.p + back * da, radius, b, B, margin, points);
        }
    return points.count;
}

// The distance to a convex solid is convex along the rod: golden section, and the ends where they are near as well.
int rod_on_solid(const Solid& a, const Pose& A, const Solid& b, const Pose& B, double margin, ContactPoint* out) {
    Points points{out};
    const Vec3 d = A.R.col(2);
    const double half = a.size[1];
    Vec3 n;
    auto distance = [&](double s) { return nearest(b, B.R.transpose() * (A.p + s * d - B.p), n); };
    double low = -half, high = half;
    constexpr double golden = 0.6180339887498949;
    double x1 = high - golden * (high - low), x2 = low + golden * (high - low), f1 = distance(x1), f2 = distance(x2);
    for (int i = 0; i < 40; ++i)
        if (f1 <= f2) {
            high = x2;
            x2 = x1;
            f2 = f1;
            x1 = high - golden * (high - low);
            f1 = distance(x1);
        } else {
            low = x1;
            x1 = x2;
            f1 = f2;
            x2 = low + golden * (high - low);
            f2 = distance(x2);
        }
    const double s = 0.5 * (low + high), best = distance(s), ends[2] = {distance(-half), distance(half)};
    for (int i = 0; i < 2; ++i)
        if (ends[i] < best + 0.05 * half) ball_on_solid(A.p + (i ? half : -half) * d, a.size[0], b, B, margin, points);
    if (std::min(ends[0], ends[1]) > best + 1e-6 * half) ball_on_solid(A.p + s * d, a.size[0], b, B, margin, points);
    return points.count;
}

// --- boxes -----------------------------------------------------------------------------------------------------------

// Separating axes of two boxes; the face (or pair of edges) that separates most, then the other's face clipped to it.
int boxes(const Solid& a, const Pose& A, const Solid& b, const Pose& B, double margin, ContactPoint* out) {
    Points points{out};
    const Vec3 offset = A.p - B.p;  // normals lead from b to a
    double best = -INFINITY;
    int owner = -1, face = -1;
    Vec3 normal = Vec3::Zero();
    const Mat3 C = A.R.transpose() * B.R;
    for (int side = 0; side < 2; ++side)
        for (int k = 0; k < 3; ++k) {
            const Vec3 axis = side ? Vec3(B.R.col(k)) : Vec3(A.R.col(k));
            const double along = axis.dot(offset);
            const double reach = side ? b.size[k] + C.col(k).cwiseAbs().dot(a.size)
                                      : a.size[k] + C.row(k).cwiseAbs().dot(b.size);
            const double gap = std::abs(along) - reach;
            if (gap >= margin) return 0;
            if (gap > best + 1e-9 * reach) {  // of equals the first, so that the choice does not flicker
                best = gap;
                owner = side;
                face = k;
                normal = along < 0 ? Vec3(-axis) : axis;
            }
        }
    double edge_best = -INFINITY;
    int edge_a = -1, edge_b = -1;
    Vec3 edge_normal = Vec3::Zero();
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) {
            const Vec3 cross = A.R.col(i).cross(B.R.col(j));
            const double length = cross.norm();
            if (length < 1e-3) continue;
            const Vec3 axis = cross / length;
            const double along = axis.dot(offset);
            const double reach = (A.R.transpose() * axis).cwiseAbs().dot(a.size) + (B.R.transpose() * axis).cwiseAbs().dot(b.size);
            const double gap = std::abs(along) - reach;
            if (gap >= margin) return 0;
            if (gap > edge_best) {
                edge_best = gap;
                edge_a = i;
                edge_b = j;
                edge_normal = along < 0 ? Vec3(-axis) : axis;
            }
        }
    const double size = std::min(a.size.minCoeff(), b.size.minCoeff());
    if (edge_a >= 0 && edge_best > best + 0.02 * size * (best < 0 ? 1 : 0) + 1e-4 * size) {
        Vec3 on_a = A.p, on_b = B.p;  // the edges that face each other
        for (int k = 0; k < 3; ++k) {
            if (k != edge_a) on_a += (A.R.col(k).dot(edge_normal) > 0 ? -a.size[k] : a.size[k]) * A.R.col(k);
            if (k != edge_b) on_b += (B.R.col(k).dot(edge_normal) > 0 ? b.size[k] : -b.size[k]) * B.R.col(k);
        }
        double s, t;
        nearest_on_rods(on_a, A.R.col(edge_a), on_b, B.R.col(edge_b), a.size[edge_a], b.size[edge_b], s, t);
        const Vec3 middle = 0.5 * (on_a + s * A.R.col(edge_a) + on_b + t * B.R.col(edge_b));
        points.add(middle, edge_normal, edge_best);
        return points.count;
    }
    // reference face on the owner, incident face on the other, clipped by the sides of the reference face
    const Solid &ref = owner ? b : a, &inc = owner ? a : b;
    const Pose &R = owner ? B : A, &I = owner ? A : B;
    const Vec3 outward = owner ? normal : Vec3(-normal);  // of the reference face
    int facing = 0;
    double most = -1;
    for (int k = 0; k < 3; ++k) {
        const double d = std::abs(I.R.col(k).dot(outward));
        if (d > most) {
            most = d;
            facing = k;
        }
    }
    const int u = (facing + 1) % 3, v = (facing + 2) % 3;
    const Vec3 centre = I.p + (I.R.col(facing).dot(outward) > 0 ? -inc.size[facing] : inc.size[facing]) * I.R.col(facing);
    Vec3 polygon[16] = {centre + inc.size[u] * I.R.col(u) + inc.size[v] * I.R.col(v),
                        centre - inc.size[u] * I.R.col(u) + inc.size[v] * I.R.col(v),
                        centre - inc.size[u] * I.R.col(u) - inc.size[v] * I.R.col(v),
                        centre + inc.size[u] * I.R.col(u) - inc.size[v] * I.R.col(v)};
    int count = 4;
    for (int k = 0; k < 3; ++k) {
        if (k == face) continue;
        for (int sign = -1; sign <= 1; sign += 2) {
            Vec3 clipped[16];
            int kept = 0;
            const Vec3 axis = sign * R.R.col(k);
            const double bound = axis.dot(R.p) + ref.size[k] * (1 + 1e-12) + 1e-14;
            for (int i = 0; i < count; ++i) {
                const Vec3 &p = polygon[i], &q = polygon[(i + 1) % count];
                const double dp = axis.dot(p) - bound, dq = axis.dot(q) - bound;
                if (dp <= 0) clipped[kept++] = p;
                if ((dp < 0 && dq > 0) || (dp > 0 && dq < 0)) clipped[kept++] = p + dp / (dp - dq) * (q - p);
            }
            count = kept;
            std::copy(clipped, clipped + kept, polygon);
            if (!count) return 0;
        }
    }
    const double top = outward.dot(R.p) + ref.size[face];
    for (int i = 0; i < count; ++i) {
        const double gap = outward.dot(polygon[i]) - top;
        if (gap < margin) points.add(polygon[i] - 0.5 * gap * outward, normal, gap);
    }
    return points.count;
}

bool round(Solid::Kind kind) { return kind == Solid::sphere || kind == Solid::capsule; }
bool near_known(Solid::Kind kind) { return round(kind) || kind == Solid::box || kind == Solid::cylinder; }

int ordered(const Solid& a, const Pose& A, const Solid& b, const Pose& B, double margin, ContactPoint* out) {
    if (b.kind == Solid::plane) return on_plane(a, A, B, margin, out);
    if (b.kind == Solid::height_field) return on_field(a, A, b.field, B, margin, out);
    if (a.kind == Solid::sphere && near_known(b.kind)) {
        Points points{out};
        ball_on_solid(A.p, a.size[0], b, B, margin, points);
        return points.count;
    }
    if (a.kind == Solid::capsule && b.kind == Solid::capsule) return rods(a, A, b, B, margin, out);
    if (a.kind == Solid::capsule && near_known(b.kind)) return rod_on_solid(a, A, b, B, margin, out);
    if (a.kind == Solid::box && b.kind == Solid::box) return boxes(a, A, b, B, margin, out);
    return -1;
}

// Whether the pair is known with `a` first.
bool known(Solid::Kind a, Solid::Kind b) {
    if (b == Solid::plane || b == Solid::height_field) return a != Solid::plane && a != Solid::height_field;
    return (a == Solid::sphere && near_known(b)) || (a == Solid::capsule && near_known(b) && b != Solid::sphere) ||
           (a == Solid::box && b == Solid::box);
}

}  // namespace

Vec3 HeightField::vertex(int row, int column) const {
    return {-half_x + column * step_x(), -half_y + row * step_y(), heights[row * columns + column]};
}

bool HeightField::surface(double x, double y, double& height, Vec3& normal) const {
    const double u = (x + half_x) / step_x(), v = (y + half_y) / step_y();
    if (!(u >= 0 && v >= 0 && u <= columns - 1 && v <= rows - 1)) return false;
    const int i = std::min(static_cast<int>(u), columns - 2), j = std::min(static_cast<int>(v), rows - 2);
    const double s = u - i, t = v - j;
    const double* low = &heights[j * columns + i];
    const double* high = low + columns;
    // triangles (0,0) (1,0) (1,1) below the diagonal, (0,0) (1,1) (0,1) above
    const double along_x = s >= t ? low[1] - low[0] : high[1] - high[0];
    const double along_y = s >= t ? high[1] - low[1] : high[0] - low[0];
    height = low[0] + s * along_x + t * along_y;
    normal = Vec3(-along_x / step_x(), -along_y / step_y(), 1).normalized();
    return true;
}

void Solid::measure() {
    switch (kind) {
        case sphere: reach = size[0]; break;
        case capsule: reach = size[0] + size[1]; break;
        case cylinder: reach = std::hypot(size[0], size[1]); break;
        case box: reach = size.norm(); break;
        case ellipsoid: reach = size.maxCoeff(); break;
        case mesh:
            reach = 0;
            for (const Vec3& v : vertices) reach = std::max(reach, v.norm());
            break;
        case plane:
        case height_field: reach = INFINITY; break;
    }
}

bool compiled(Solid::Kind a, Solid::Kind b) { return known(a, b) || known(b, a); }

int collide(const Solid& a, const Pose& A, const Solid& b, const Pose& B, double margin, ContactPoint* out) {
    if (known(a.kind, b.kind)) return ordered(a, A, b, B, margin, out);
    const int count = ordered(b, B, a, A, margin, out);
    for (int i = 0; i < count; ++i) out[i].normal = -out[i].normal;
    return count;
}

}  // namespace supple
