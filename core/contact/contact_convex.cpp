// Contact points of two convex shapes without a closed form.
//
// Gilbert, Johnson and Keerthi's algorithm (GJK) finds the nearest points of the two shapes, or that they overlap. Then
// the expanding polytope algorithm (EPA) finds the direction of the least overlap. Both work on the difference of the
// shapes, {a - b}, by its support points only. If the direction is the normal of a face, the facing face, edge or
// corner of the other shape is clipped to this face.
#include <algorithm>
#include <cmath>

#include "contact/contact_pairs.hpp"

namespace supple {

namespace {

constexpr int gjk_limit = 100, epa_limit = 120, most_corners = 64;
// Cosine of the angle between the contact normal and the normal of the face that it belongs to
constexpr double aligned = 1 - 1e-7;
constexpr double facing = 0.7;  // least cosine for the facing face of the other shape

// A shape at a pose, seen as the points at a distance of `radius` around a core.
struct Convex {
    const Collider& shape;
    const Pose& H;
    double radius = 0;

    Convex(const Collider& s, const Pose& pose) : shape(s), H(pose) {
        if (s.kind == Collider::sphere || s.kind == Collider::capsule) radius = s.size[0];
    }

    // The point of the core that is farthest in a direction.
    Vec3 support(const Vec3& direction) const {
        const Vec3 d = H.R.transpose() * direction, &size = shape.size;
        switch (shape.kind) {
            case Collider::capsule: return H.act(Vec3(0, 0, d[2] < 0 ? -size[1] : size[1]));
            case Collider::box:
                return H.act(
                    Vec3(d[0] < 0 ? -size[0] : size[0], d[1] < 0 ? -size[1] : size[1], d[2] < 0 ? -size[2] : size[2]));
            case Collider::cylinder: {
                const double across = std::sqrt(d[0] * d[0] + d[1] * d[1]), by = across > 0 ? size[0] / across : 0.0;
                return H.act(Vec3(by * d[0], by * d[1], d[2] < 0 ? -size[1] : size[1]));
            }
            case Collider::ellipsoid: {
                const Vec3 scaled = size.cwiseProduct(d);
                const double length = scaled.norm();
                return length > 0 ? H.act(size.cwiseProduct(scaled) / length) : H.p;
            }
            case Collider::mesh: return H.act(shape.vertices[shape.farthest(d)]);
            default: return H.p;
        }
    }
};

struct Corner {  // of the difference: w = a - b
    Vec3 w, a, b;
};

struct Simplex {
    Corner corner[4];
    double weight[4];
    int count = 0;

    void keep(std::initializer_list<int> which, std::initializer_list<double> weights) {
        Corner kept[4];
        int n = 0;
        for (int i : which) kept[n++] = corner[i];
        std::copy_n(kept, n, corner);
        std::copy(weights.begin(), weights.end(), weight);
        count = n;
    }
    Vec3 nearest() const {
        Vec3 sum = Vec3::Zero();
        for (int i = 0; i < count; ++i) sum += weight[i] * corner[i].w;
        return sum;
    }
};

// Weights of the point of a triangle that is nearest to the origin (Ericson, Real-Time Collision Detection, 5.1.5).
void triangle_weights(const Vec3& a, const Vec3& b, const Vec3& c, double* weight) {
    const Vec3 ab = b - a, ac = c - a;
    const double d1 = -ab.dot(a), d2 = -ac.dot(a), d3 = -ab.dot(b), d4 = -ac.dot(b), d5 = -ab.dot(c), d6 = -ac.dot(c);
    auto set = [&](double x, double y, double z) {
        weight[0] = x;
        weight[1] = y;
        weight[2] = z;
    };
    if (d1 <= 0 && d2 <= 0) return set(1, 0, 0);
    if (d3 >= 0 && d4 <= d3) return set(0, 1, 0);
    const double vc = d1 * d4 - d3 * d2;
    if (vc <= 0 && d1 >= 0 && d3 <= 0) return set(1 - d1 / (d1 - d3), d1 / (d1 - d3), 0);
    if (d6 >= 0 && d5 <= d6) return set(0, 0, 1);
    const double vb = d5 * d2 - d1 * d6;
    if (vb <= 0 && d2 >= 0 && d6 <= 0) return set(1 - d2 / (d2 - d6), 0, d2 / (d2 - d6));
    const double va = d3 * d6 - d5 * d4;
    if (va <= 0 && d4 - d3 >= 0 && d5 - d6 >= 0) {
        const double t = (d4 - d3) / ((d4 - d3) + (d5 - d6));
        return set(0, 1 - t, t);
    }
    const double sum = va + vb + vc;
    set(va / sum, vb / sum, vc / sum);
}

// Reduces a simplex to the part that contains its nearest point to the origin; false if the origin is inside a
// tetrahedron.
bool reduce(Simplex& s) {
    if (s.count == 1) {
        s.weight[0] = 1;
        return true;
    }
    if (s.count == 2) {
        const Vec3 ab = s.corner[1].w - s.corner[0].w;
        const double t = -s.corner[0].w.dot(ab) / std::max(ab.squaredNorm(), 1e-300);
        if (t <= 0) s.keep({0}, {1});
        else if (t >= 1) s.keep({1}, {1});
        else s.keep({0, 1}, {1 - t, t});
        return true;
    }
    auto keep_triangle = [&](int i, int j, int k, const double* w) {
        const int which[] = {i, j, k};
        Simplex out;
        for (int m = 0; m < 3; ++m)
            if (w[m] > 0) {
                out.corner[out.count] = s.corner[which[m]];
                out.weight[out.count++] = w[m];
            }
        s = out;
    };
    double weights[3];
    if (s.count == 3) {
        triangle_weights(s.corner[0].w, s.corner[1].w, s.corner[2].w, weights);
        keep_triangle(0, 1, 2, weights);
        return true;
    }
    // Three corners, the fourth
    static constexpr int faces[4][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {1, 3, 2, 0}};
    double best = INFINITY, best_weights[3] = {};
    int chosen = -1;
    for (int f = 0; f < 4; ++f) {
        const Vec3 &a = s.corner[faces[f][0]].w, &b = s.corner[faces[f][1]].w, &c = s.corner[faces[f][2]].w;
        const Vec3 n = (b - a).cross(c - a);
        const double inner = n.dot(s.corner[faces[f][3]].w - a), outer = -n.dot(a);
        if (inner * outer > 0) continue;  // the origin is on the side of the fourth corner
        triangle_weights(a, b, c, weights);
        const double size = (weights[0] * a + weights[1] * b + weights[2] * c).squaredNorm();
        if (size < best) {
            best = size;
            chosen = f;
            std::copy_n(weights, 3, best_weights);
        }
    }
    if (chosen < 0) return false;
    keep_triangle(faces[chosen][0], faces[chosen][1], faces[chosen][2], best_weights);
    return true;
}

struct Meeting {  // where two shapes are nearest to one another, or overlap most
    Vec3 normal;  // from b to a
    double gap;  // of the cores
    Vec3 on_a, on_b;
};

Corner difference(const Convex& a, const Convex& b, const Vec3& direction) {  // the farthest one in a direction
    Corner c;
    c.a = a.support(direction);
    c.b = b.support(-direction);
    c.w = c.a - c.b;
    return c;
}

// Adds corners to a simplex until it is a tetrahedron; false if the difference is flat.
bool fill(const Convex& a, const Convex& b, Simplex& s, double scale) {
    const double least = 1e-7 * scale;
    auto away = [&](const Vec3& w) {  // distance from the hull of the present corners
        if (s.count == 1) return (w - s.corner[0].w).norm();
        const Vec3 u = s.corner[1].w - s.corner[0].w, x = w - s.corner[0].w;
        if (s.count == 2) return u.cross(x).norm() / u.norm();
        const Vec3 n = u.cross(s.corner[2].w - s.corner[0].w);
        return std::abs(n.dot(x)) / n.norm();
    };
    while (s.count < 4) {
        Corner best = s.corner[0];
        double most = least;
        auto consider = [&](const Vec3& direction) {
            const Corner c = difference(a, b, direction);
            const double distance = away(c.w);
            if (distance > most) {
                most = distance;
                best = c;
            }
        };
        if (s.count == 3) {
            const Vec3 n = (s.corner[1].w - s.corner[0].w).cross(s.corner[2].w - s.corner[0].w).normalized();
            consider(n);
            consider(-n);
        } else {
            for (int k = 0; k < 3; ++k)
                for (double sign : {1.0, -1.0}) consider(sign * Vec3::Unit(k));
        }
        if (!(most > least)) return false;
        s.corner[s.count++] = best;
    }
    return true;
}

// The face of the difference that is nearest to the origin, which is inside.
bool expand(const Convex& a, const Convex& b, Simplex& s, double scale, Meeting& found) {
    if (!fill(a, b, s, scale)) return false;
    struct Face {
        int i, j, k;
        Vec3 normal;
        double distance;
    };
    std::vector<Corner> corners(s.corner, s.corner + 4);
    std::vector<Face> faces;
    std::vector<std::pair<int, int>> horizon;
    Vec3 inside = Vec3::Zero();
    for (const Corner& c : corners) inside += 0.25 * c.w;
    auto add = [&](int i, int j, int k) {
        Vec3 n = (corners[j].w - corners[i].w).cross(corners[k].w - corners[i].w);
        const double length = n.norm();
        if (length < 1e-300) return;
        n /= length;
        double d = n.dot(corners[i].w);
        if (n.dot(corners[i].w - inside) < 0) {
            n = -n;
            d = -d;
            std::swap(j, k);
        }
        faces.push_back({i, j, k, n, d});
    };
    add(0, 1, 2);
    add(0, 1, 3);
    add(0, 2, 3);
    add(1, 2, 3);
    const Face* best = nullptr;
    for (int iteration = 0;; ++iteration) {
        best = &*std::min_element(faces.begin(), faces.end(),
                                  [](const Face& x, const Face& y) { return x.distance < y.distance; });
        const Corner next = difference(a, b, best->normal);
        const double beyond = next.w.dot(best->normal) - best->distance;
        if (beyond < 1e-9 * scale + 1e-6 * std::abs(best->distance) || iteration == epa_limit) break;
        const int added = static_cast<int>(corners.size());
        corners.push_back(next);
        horizon.clear();
        auto edge = [&](int i, int j) {
            const auto same = std::find(horizon.begin(), horizon.end(), std::make_pair(j, i));
            if (same != horizon.end()) horizon.erase(same);
            else horizon.emplace_back(i, j);
        };
        for (std::size_t f = 0; f < faces.size();) {
            const Face& face = faces[f];
            if (face.normal.dot(next.w) - face.distance > 1e-12 * scale) {
                edge(face.i, face.j);
                edge(face.j, face.k);
                edge(face.k, face.i);
                faces[f] = faces.back();
                faces.pop_back();
            } else {
                ++f;
            }
        }
        if (horizon.empty()) return false;
        for (const auto& [i, j] : horizon) add(i, j, added);
        if (faces.empty()) return false;
    }
    double weight[3];
    const Vec3 shift = best->distance * best->normal;
    triangle_weights(corners[best->i].w - shift, corners[best->j].w - shift, corners[best->k].w - shift, weight);
    found.normal = -best->normal;
    found.gap = -best->distance;
    found.on_a = weight[0] * corners[best->i].a + weight[1] * corners[best->j].a + weight[2] * corners[best->k].a;
    found.on_b = weight[0] * corners[best->i].b + weight[1] * corners[best->j].b + weight[2] * corners[best->k].b;
    return true;
}

// False: the cores are farther apart than `most`, or nothing was found. `apart` as in `collide`; the margin of the
// first test is larger than rounding errors, so that the result does not depend on what was tried.
bool meet(const Convex& a, const Convex& b, double most, Meeting& found, Vec3* apart) {
    const double scale = a.shape.bounding_radius + b.shape.bounding_radius;
    if (apart && !apart->isZero(0) && difference(a, b, -*apart).w.dot(*apart) > most + 1e-9 * scale) return false;
    Simplex s;
    Vec3 v = a.H.p - b.H.p;
    if (v.squaredNorm() < 1e-20 * scale * scale) v = Vec3(scale, 0, 0);
    for (int k = 0; k < gjk_limit; ++k) {
        const Corner next = difference(a, b, -v);
        const double size = v.squaredNorm(), along = v.dot(next.w);
        if (along > 0 && along * along > most * most * size) {  // a separating plane farther away
            if (apart) *apart = v / std::sqrt(size);
            return false;
        }
        bool known = false;
        for (int i = 0; i < s.count; ++i)
            known = known || (s.corner[i].w - next.w).squaredNorm() < 1e-24 * scale * scale;
        if (s.count > 0 && (known || size - along <= 1e-12 * size)) break;
        s.corner[s.count++] = next;
        if (!reduce(s)) return expand(a, b, s, scale, found);
        v = s.nearest();
        if (v.squaredNorm() < 1e-18 * scale * scale) return expand(a, b, s, scale, found);
    }
    const double distance = v.norm();
    if (distance > most) return false;
    found.normal = v / distance;
    found.gap = distance;
    found.on_a = found.on_b = Vec3::Zero();
    for (int i = 0; i < s.count; ++i) {
        found.on_a += s.weight[i] * s.corner[i].a;
        found.on_b += s.weight[i] * s.corner[i].b;
    }
    return true;
}

// Part of a surface that faces a direction: a face (three or more corners, in order), an edge or a corner
struct Patch {
    Vec3 corner[most_corners];
    int count = 0;
    Vec3 normal = Vec3::Zero();  // of a face, outward
};

// `least`: cosine of the largest angle between the direction and the normal of a face.
Patch facing_patch(const Convex& c, const Vec3& direction, double least) {
    Patch patch;
    const Pose& H = c.H;
    const Vec3 d = H.R.transpose() * direction, &size = c.shape.size;
    const double edge = std::sqrt(1 - least * least);  // sine of the same angle
    auto add = [&](const Vec3& local) {
        if (patch.count < most_corners) patch.corner[patch.count++] = H.act(local);
    };
    auto single = [&] { patch.corner[patch.count++] = c.support(direction) + c.radius * direction; };
    switch (c.shape.kind) {
        case Collider::box: {
            int k = 0;
            d.cwiseAbs().maxCoeff(&k);
            if (std::abs(d[k]) < least) {
                single();
                break;
            }
            const int u = (k + 1) % 3, v = (k + 2) % 3;
            for (int i = 0; i < 4; ++i) {
                Vec3 corner;
                corner[k] = d[k] < 0 ? -size[k] : size[k];
                corner[u] = i == 1 || i == 2 ? -size[u] : size[u];
                corner[v] = i >= 2 ? -size[v] : size[v];
                add(corner);
            }
            patch.normal = (d[k] < 0 ? -1 : 1) * H.R.col(k);
            break;
        }
        case Collider::cylinder:
            if (std::abs(d[2]) >= least) {
                const double z = d[2] < 0 ? -size[1] : size[1];
                for (int i = 0; i < 8; ++i)
                    add(Vec3(size[0] * std::cos(i * M_PI / 4), size[0] * std::sin(i * M_PI / 4), z));
                patch.normal = (d[2] < 0 ? -1 : 1) * H.R.col(2);
            } else if (std::abs(d[2]) <= std::max(edge, 0.05)) {
                const Vec3 across = Vec3(d[0], d[1], 0).normalized() * size[0];
                add(across + Vec3(0, 0, size[1]));
                add(across - Vec3(0, 0, size[1]));
            } else {
                single();
            }
            break;
        case Collider::capsule:
            if (std::abs(d[2]) <= std::max(edge, 0.05))
                for (double z : {size[1], -size[1]})
                    patch.corner[patch.count++] = H.act(Vec3(0, 0, z)) + c.radius * direction;
            else single();
            break;
        case Collider::mesh: {
            int best = -1;
            double most = least;
            for (int f = 0; f < static_cast<int>(c.shape.faces.size()); ++f) {
                const double along = c.shape.faces[f].head<3>().dot(d);
                if (along > most && c.shape.loops[f].size() > 2) {
                    most = along;
                    best = f;
                }
            }
            if (best < 0) {
                single();
                break;
            }
            for (int i : c.shape.loops[best]) add(c.shape.vertices[i]);
            patch.normal = H.R * c.shape.faces[best].head<3>();
            break;
        }
        default: single();
    }
    return patch;
}

// Clips an edge or polygon to the sides of a face.
void clip(Patch& patch, const Patch& face) {
    for (int k = 0; k < face.count && patch.count; ++k) {
        const Vec3 &from = face.corner[k], &to = face.corner[(k + 1) % face.count];
        Vec3 side = (to - from).cross(face.normal);
        // loops run either way: the rest of the face is inside
        const Vec3 across = face.corner[(k + 2) % face.count] - from;
        if (side.dot(across) > 0) side = -side;
        const double length = side.norm();
        if (length < 1e-300) continue;
        side /= length;
        Patch kept;
        const int pairs = patch.count == 2 ? 1 : patch.count;
        auto height = [&](const Vec3& p) { return side.dot(p - from); };
        for (int i = 0; i < patch.count; ++i) {
            const Vec3 &p = patch.corner[i], &q = patch.corner[(i + 1) % patch.count];
            const double dp = height(p), dq = height(q);
            if (dp <= 1e-12) kept.corner[kept.count++] = p;
            if (patch.count > 1 && i < pairs && ((dp < 0 && dq > 0) || (dp > 0 && dq < 0)) && kept.count < most_corners)
                kept.corner[kept.count++] = p + dp / (dp - dq) * (q - p);
            if (kept.count == most_corners) break;
        }
        kept.normal = patch.normal;
        patch = kept;
    }
}

}  // namespace

int convex_on_convex(const Collider& a, const Pose& A, const Collider& b, const Pose& B, double margin,
                     ContactPoint* out, Vec3* apart) {
    const Convex first(a, A), second(b, B);
    Meeting at;
    if (!meet(first, second, margin + first.radius + second.radius, at, apart)) return 0;
    const double gap = at.gap - first.radius - second.radius;
    if (!(gap < margin)) return 0;
    Points points{out};
    // the face that the normal belongs to, and what faces it
    Patch reference = facing_patch(first, -at.normal, aligned), other;
    double sign = -1;
    if (reference.count > 2) {
        other = facing_patch(second, -reference.normal, facing);
    } else {
        reference = facing_patch(second, at.normal, aligned);
        sign = 1;
        if (reference.count > 2) other = facing_patch(first, -reference.normal, facing);
    }
    if (reference.count > 2 && other.count > 1) {
        clip(other, reference);
        int chosen[most_corners], count = 0;
        double gaps[most_corners];
        for (int i = 0; i < other.count; ++i) {
            gaps[i] = reference.normal.dot(other.corner[i] - reference.corner[0]);
            if (gaps[i] < margin) chosen[count++] = i;
        }
        if (count > 8) {  // the deepest one, and the farthest in each of six directions
            const Vec3 e = (reference.corner[1] - reference.corner[0]).normalized(), f = reference.normal.cross(e);
            int some[8], kept = 0;
            for (int k = -1; k < 6; ++k) {
                const Vec3 d = std::cos(k * M_PI / 3) * e + std::sin(k * M_PI / 3) * f;
                const int best = *std::max_element(chosen, chosen + count, [&](int x, int y) {
                    return k < 0 ? gaps[x] > gaps[y] : d.dot(other.corner[x]) < d.dot(other.corner[y]);
                });
                if (std::find(some, some + kept, best) == some + kept) some[kept++] = best;
            }
            count = kept;
            std::copy_n(some, kept, chosen);
        }
        for (int i = 0; i < count; ++i) {
            const int k = chosen[i];
            points.add(other.corner[k] - 0.5 * gaps[k] * reference.normal, sign * reference.normal, gaps[k]);
        }
        double deepest = INFINITY;
        for (int i = 0; i < points.count; ++i) deepest = std::min(deepest, points.out[i].gap);
        // The rim of a cap has more points
        if (deepest <= gap + 1e-4 * std::min(a.bounding_radius, b.bounding_radius)) return points.count;
    }
    const Vec3 on_a = at.on_a - first.radius * at.normal, on_b = at.on_b + second.radius * at.normal;
    points.add(0.5 * (on_a + on_b), at.normal, gap);
    return points.count;
}

}  // namespace supple
