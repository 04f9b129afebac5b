#include <algorithm>
#include <cmath>
#include <map>

#include "contact/contact_pairs.hpp"
#include "contact/pad.hpp"

namespace supple {

namespace {
constexpr double tiny = 1e-12;
}  // namespace

int corners(const Collider& s, const Vec3& down, Vec3* out, double& radius) {
    radius = 0;
    switch (s.kind) {
        case Collider::sphere:
            radius = s.size[0];
            out[0].setZero();
            return 1;
        case Collider::capsule:
            radius = s.size[0];
            out[0] = Vec3(0, 0, -s.size[1]);
            out[1] = Vec3(0, 0, s.size[1]);
            return 2;
        case Collider::box:
            for (int i = 0; i < 8; ++i)
                out[i] = Vec3(i & 1 ? s.size[0] : -s.size[0], i & 2 ? s.size[1] : -s.size[1],
                              i & 4 ? s.size[2] : -s.size[2]);
            return 8;
        case Collider::cylinder: {  // four points of the lower rim, the lowest one included, and one of the upper rim
            const double across = std::sqrt(down[0] * down[0] + down[1] * down[1]);
            const Vec3 e = across > 1e-9 ? Vec3(down[0] / across, down[1] / across, 0) : Vec3(1, 0, 0);
            const Vec3 f(-e[1], e[0], 0);
            const double z = down[2] > 0 ? s.size[1] : -s.size[1];
            const Vec3 directions[4] = {e, f, -e, -f};
            for (int i = 0; i < 4; ++i) out[i] = s.size[0] * directions[i] + Vec3(0, 0, z);
            out[4] = s.size[0] * e - Vec3(0, 0, z);
            return 5;
        }
        case Collider::ellipsoid: {
            const Vec3 scaled = s.size.cwiseProduct(down);
            out[0] = s.size.cwiseProduct(scaled) / std::max(scaled.norm(), tiny);
            return 1;
        }
        default: return 0;
    }
}

void nearest_on_segments(const Vec3& a, const Vec3& d1, const Vec3& b, const Vec3& d2, double h1, double h2, double& s,
                         double& t) {
    const Vec3 r = a - b;
    const double along = d1.dot(d2), c = d1.dot(r), f = d2.dot(r), denominator = 1 - along * along;
    s = denominator > 1e-12 ? std::clamp((along * f - c) / denominator, -h1, h1) : std::clamp(-c, -h1, h1);
    t = along * s + f;
    if (t > h2 || t < -h2) {
        t = std::clamp(t, -h2, h2);
        s = std::clamp(along * t - c, -h1, h1);
    }
}

// The nearest point of an ellipsoid to x is a_i^2 x_i / (t + a_i^2) with sum_i (a_i x_i / (t + a_i^2))^2 = 1; bisection
// for t.
static double distance_from_ellipsoid(const Vec3& size, const Vec3& x, Vec3& normal) {
    const Vec3 square = size.cwiseProduct(size);
    auto outside = [&](double t) { return (size.cwiseProduct(x).array() / (square.array() + t)).square().sum() > 1; };
    double low = -square.minCoeff(), high = size.maxCoeff() * x.norm();
    for (int k = 0; k < 80 && high - low > 1e-16 * std::abs(high); ++k) {
        const double middle = 0.5 * (low + high);
        (outside(middle) ? low : high) = middle;
    }
    const Vec3 nearest = (square.array() * x.array() / (square.array() + high)).matrix();
    normal = nearest.cwiseQuotient(square).normalized();
    return normal.dot(x - nearest);
}

double signed_distance(const Collider& s, const Vec3& x, Vec3& normal) {
    switch (s.kind) {
        case Collider::sphere: {
            const double d = x.norm();
            normal = d > tiny ? Vec3(x / d) : Vec3(Vec3::UnitZ());
            return d - s.size[0];
        }
        case Collider::capsule: {
            const Vec3 away = x - Vec3(0, 0, std::clamp(x[2], -s.size[1], s.size[1]));
            const double d = away.norm();
            normal = d > tiny ? Vec3(away / d) : Vec3(Vec3::UnitX());
            return d - s.size[0];
        }
        case Collider::box: {
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
        case Collider::cylinder: {
            const double r = std::sqrt(x[0] * x[0] + x[1] * x[1]);
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
        case Collider::plane: normal = Vec3::UnitZ(); return x[2];
        case Collider::mesh: {
            double most = -INFINITY;
            for (const Eigen::Vector4d& face : s.faces) {
                const double distance = face.head<3>().dot(x) + face[3];
                if (distance <= most) continue;
                most = distance;
                normal = face.head<3>();
            }
            return most;
        }
        case Collider::height_field: {
            double height;
            return s.field.surface(x[0], x[1], height, normal) ? (x[2] - height) * normal[2] : INFINITY;
        }
        case Collider::ellipsoid: return distance_from_ellipsoid(s.size, x, normal);
        default: return INFINITY;
    }
}

namespace {

// --- planes ---------------------------------------------------------------------------------------------------------

// Corners of a mesh within `margin` of the plane: the lowest one and, in each of eight directions, the farthest one.
// Those within the margin are connected by edges, so they are found from the lowest one.
int mesh_on_plane(const Collider& s, const Pose& A, const Vec3& n, const Vec3& at, double margin, ContactPoint* out) {
    Points points{out};
    auto height = [&](int i) { return n.dot(A.act(s.vertices[i]) - at); };
    const int lowest = s.farthest(-(A.R.transpose() * n));
    if (!(height(lowest) <= margin)) return 0;
    const Vec3 e = (std::abs(n[0]) < 0.9 ? n.cross(Vec3::UnitX()) : n.cross(Vec3::UnitY())).normalized();
    const Vec3 f = n.cross(e);
    struct Low {
        int corner;
        double height, x, y;
    };
    std::vector<Low> low;
    std::vector<char> seen(s.vertices.size(), 0);
    auto visit = [&](int i) {
        if (seen[i]) return;
        seen[i] = 1;
        const Vec3 x = A.act(s.vertices[i]) - at;
        const double height = n.dot(x);
        if (height <= margin) low.push_back({i, height, e.dot(x), f.dot(x)});
    };
    visit(lowest);
    for (std::size_t k = 0; k < low.size(); ++k)
        for (int i : s.neighbours(low[k].corner)) visit(i);
    std::sort(low.begin(), low.end(), [](const Low& a, const Low& b) { return a.corner < b.corner; });
    constexpr double half = 0.70710678118654752;
    constexpr double directions[8][2] = {{1, 0},  {half, half},   {0, 1},  {-half, half},
                                         {-1, 0}, {-half, -half}, {0, -1}, {half, -half}};
    int chosen[9], count = 0;
    for (int k = -1; k < 8; ++k) {
        int best = -1;
        double value = INFINITY;
        for (std::size_t i = 0; i < low.size(); ++i) {
            const double score = k < 0 ? low[i].height : -(directions[k][0] * low[i].x + directions[k][1] * low[i].y);
            if (score < value) {
                value = score;
                best = static_cast<int>(i);
            }
        }
        if (best >= 0 && std::find(chosen, chosen + count, best) == chosen + count) chosen[count++] = best;
    }
    for (int i = 0; i < count; ++i) {
        const Low& each = low[chosen[i]];
        points.add(A.act(s.vertices[each.corner]) - 0.5 * each.height * n, n, each.height);
    }
    return points.count;
}

int shape_on_plane(const Collider& a, const Pose& A, const Pose& B, double margin, ContactPoint* out) {
    const Vec3 n = B.R.col(2);
    if (n.dot(A.p - B.p) - a.bounding_radius > margin) return 0;
    if (a.kind == Collider::mesh) return mesh_on_plane(a, A, n, B.p, margin, out);
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

// --- spheres and capsules
// --------------------------------------------------------------------------------------------------

bool sphere_on_collider(const Vec3& centre, double radius, const Collider& b, const Pose& B, double margin,
                        Points& points) {
    Vec3 n;
    const double gap = signed_distance(b, B.R.transpose() * (centre - B.p), n) - radius;
    if (gap >= margin) return false;
    n = B.R * n;
    points.add(centre - (radius + 0.5 * gap) * n, n, gap);
    return true;
}

int capsule_on_capsule(const Collider& a, const Pose& A, const Collider& b, const Pose& B, double margin,
                       ContactPoint* out) {
    Points points{out};
    const Vec3 da = A.R.col(2), db = B.R.col(2);
    const double radius = a.size[0];
    double s, t;
    nearest_on_segments(A.p, da, B.p, db, a.size[1], b.size[1], s, t);
    sphere_on_collider(A.p + s * da, radius, b, B, margin, points);
    if (std::abs(da.dot(db)) > 0.999)  // nearly parallel: both ends of the part along which they overlap
        for (double end : {-a.size[1], a.size[1]}) {
            const double other = std::clamp(db.dot(A.p + end * da - B.p), -b.size[1], b.size[1]);
            const double back = std::clamp(da.dot(B.p + other * db - A.p), -a.size[1], a.size[1]);
            if (std::abs(back - s) > 0.1 * a.size[1]) sphere_on_collider(A.p + back * da, radius, b, B, margin, points);
        }
    return points.count;
}

// The distance to a convex collider is convex along the capsule's axis: golden-section search for its minimum. The ends
// are contact points too where they are nearly as close.
int capsule_on_collider(const Collider& a, const Pose& A, const Collider& b, const Pose& B, double margin,
                        ContactPoint* out) {
    Points points{out};
    const Vec3 d = A.R.col(2);
    const double half = a.size[1];
    Vec3 n;
    auto distance = [&](double s) { return signed_distance(b, B.R.transpose() * (A.p + s * d - B.p), n); };
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
        if (ends[i] < best + 0.05 * half)
            sphere_on_collider(A.p + (i ? half : -half) * d, a.size[0], b, B, margin, points);
    if (std::min(ends[0], ends[1]) > best + 1e-6 * half)
        sphere_on_collider(A.p + s * d, a.size[0], b, B, margin, points);
    return points.count;
}

bool has_round_ends(Collider::Kind kind) { return kind == Collider::sphere || kind == Collider::capsule; }
bool has_signed_distance(Collider::Kind kind) {
    return has_round_ends(kind) || kind == Collider::box || kind == Collider::cylinder;
}

int collide_in_order(const Collider& a, const Pose& A, const Collider& b, const Pose& B, double margin,
                     ContactPoint* out) {
    if (b.kind == Collider::plane) return shape_on_plane(a, A, B, margin, out);
    if (b.kind == Collider::height_field) return shape_on_field(a, A, b.field, B, margin, out);
    if (a.kind == Collider::sphere && has_signed_distance(b.kind)) {
        Points points{out};
        sphere_on_collider(A.p, a.size[0], b, B, margin, points);
        return points.count;
    }
    if (a.kind == Collider::capsule && b.kind == Collider::capsule) return capsule_on_capsule(a, A, b, B, margin, out);
    if (a.kind == Collider::capsule && has_signed_distance(b.kind)) return capsule_on_collider(a, A, b, B, margin, out);
    if (a.kind == Collider::box && b.kind == Collider::box) return box_on_box(a, A, b, B, margin, out);
    return -1;
}

// Whether collide_in_order handles the pair.
bool handled_in_order(Collider::Kind a, Collider::Kind b) {
    if (b == Collider::plane || b == Collider::height_field) return a != Collider::plane && a != Collider::height_field;
    return (a == Collider::sphere && has_signed_distance(b)) ||
           (a == Collider::capsule && has_signed_distance(b) && b != Collider::sphere) ||
           (a == Collider::box && b == Collider::box);
}

}  // namespace

void Collider::compute_bounding_radius() {
    switch (kind) {
        case sphere: bounding_radius = size[0]; break;
        case capsule: bounding_radius = size[0] + size[1]; break;
        case cylinder: bounding_radius = std::hypot(size[0], size[1]); break;
        case box: bounding_radius = size.norm(); break;
        case ellipsoid: bounding_radius = size.maxCoeff(); break;
        case mesh:
        case pad:
            bounding_radius = 0;
            for (const Vec3& v : vertices) bounding_radius = std::max(bounding_radius, v.norm());
            break;
        case plane:
        case height_field: bounding_radius = INFINITY; break;
    }
}

void Collider::find_border() {
    std::map<std::pair<int, int>, int> count;  // of triangles, by edge
    const auto edge = [](const std::array<int, 3>& corners, int k) {
        return std::minmax({corners[(k + 1) % 3], corners[(k + 2) % 3]});
    };
    for (const auto& corners : triangles)
        for (int k = 0; k < 3; ++k) ++count[edge(corners, k)];
    border.assign(triangles.size(), {});
    at_border.assign(vertices.size(), false);
    for (std::size_t i = 0; i < triangles.size(); ++i)
        for (int k = 0; k < 3; ++k)
            if (count[edge(triangles[i], k)] == 1)
                border[i][k] = at_border[triangles[i][(k + 1) % 3]] = at_border[triangles[i][(k + 2) % 3]] = true;
}

void Collider::find_loops() {
    loops.assign(faces.size(), {});
    for (std::size_t f = 0; f < faces.size(); ++f) {
        const Vec3 n = faces[f].head<3>();
        std::vector<int>& loop = loops[f];
        for (int i = 0; i < static_cast<int>(vertices.size()); ++i)
            if (std::abs(n.dot(vertices[i]) + faces[f][3]) < 1e-7 * bounding_radius) loop.push_back(i);
        if (loop.size() < 3) continue;
        Vec3 middle = Vec3::Zero();
        for (int i : loop) middle += vertices[i] / static_cast<double>(loop.size());
        const Vec3 e = (vertices[loop[0]] - middle).normalized(), g = n.cross(e);
        auto angle = [&](int i) { return std::atan2(g.dot(vertices[i] - middle), e.dot(vertices[i] - middle)); };
        std::sort(loop.begin(), loop.end(), [&](int i, int j) { return angle(i) < angle(j); });
    }
    neighbours_.assign(vertices.size(), {});
    for (const std::vector<int>& loop : loops)
        for (std::size_t k = 0; k < loop.size(); ++k) {
            const int one = loop[k], two = loop[(k + 1) % loop.size()];
            neighbours_[one].push_back(two);
            neighbours_[two].push_back(one);
        }
    for (std::vector<int>& each : neighbours_) {
        std::sort(each.begin(), each.end());
        each.erase(std::unique(each.begin(), each.end()), each.end());
    }
    for (int k = 0; k < 8; ++k) {
        const Vec3 d(k & 1 ? 1 : -1, k & 2 ? 1 : -1, k & 4 ? 1 : -1);
        auto nearer = [&](const Vec3& v, const Vec3& w) { return d.dot(v) < d.dot(w); };
        starts_[k] = static_cast<int>(std::max_element(vertices.begin(), vertices.end(), nearer) - vertices.begin());
    }
}

// Hill climbing: a corner of a convex body without a neighbour that is farther is the farthest one. The start depends
// on the direction only, so the result does, too.
int Collider::farthest(const Vec3& d) const {
    int best = starts_[(d[0] > 0) + 2 * (d[1] > 0) + 4 * (d[2] > 0)];
    double most = vertices[best].dot(d);
    for (bool climbing = true; climbing;) {
        climbing = false;
        for (int i : neighbours_[best]) {
            const double along = vertices[i].dot(d);
            if (along <= most) continue;
            most = along;
            best = i;
            climbing = true;
            break;
        }
    }
    return best;
}

ContactLaw contact_law(const Collider& a, const Collider& b) {
    auto own = [](const Collider& c) {
        return ContactLaw{c.friction, c.torsional, c.rolling, c.restitution, c.condim};
    };
    if (a.priority != b.priority) return own(a.priority > b.priority ? a : b);
    return {std::max(a.friction, b.friction), std::max(a.torsional, b.torsional), std::max(a.rolling, b.rolling),
            std::max(a.restitution, b.restitution), std::max(a.condim, b.condim)};
}

static bool is_convex(Collider::Kind kind) { return kind >= Collider::sphere && kind <= Collider::mesh; }

bool can_touch(Collider::Kind a, Collider::Kind b) {
    return handled_in_order(a, b) || handled_in_order(b, a) || (is_convex(a) && is_convex(b));
}

int collide(const Collider& a, const Pose& A, const Collider& b, const Pose& B, double margin, ContactPoint* out,
            Vec3* apart) {
    if (handled_in_order(a.kind, b.kind)) return collide_in_order(a, A, b, B, margin, out);
    const bool closed = handled_in_order(b.kind, a.kind);
    if (!closed && a.kind <= b.kind) return convex_on_convex(a, A, b, B, margin, out, apart);
    const int count = closed ? collide_in_order(b, B, a, A, margin, out)
                             : convex_on_convex(b, B, a, A, margin, out, apart);
    for (int i = 0; i < count; ++i) out[i].normal = -out[i].normal;
    return count;
}

}  // namespace supple
