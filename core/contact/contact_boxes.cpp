// Contact points of two boxes.
#include <algorithm>
#include <cmath>

#include "contact/contact_pairs.hpp"

namespace supple {

// Separating-axis test. If a face normal separates the boxes most, the facing face of the other box is clipped to that
// face; if a pair of edges does, the contact is the pair's nearest point.
int box_on_box(const Collider& a, const Pose& A, const Collider& b, const Pose& B, double margin, ContactPoint* out) {
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
            const double extent = side ? b.size[k] + C.col(k).cwiseAbs().dot(a.size)
                                       : a.size[k] + C.row(k).cwiseAbs().dot(b.size);
            const double gap = std::abs(along) - extent;
            if (gap >= margin) return 0;
            // Ties go to the first axis, so that the choice is stable from step to step
            if (gap > best + 1e-9 * extent) {
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
            const double extent = (A.R.transpose() * axis).cwiseAbs().dot(a.size) +
                                  (B.R.transpose() * axis).cwiseAbs().dot(b.size);
            const double gap = std::abs(along) - extent;
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
        Vec3 on_a = A.p, on_b = B.p;  // midpoints of the two edges that face each other
        for (int k = 0; k < 3; ++k) {
            if (k != edge_a) on_a += (A.R.col(k).dot(edge_normal) > 0 ? -a.size[k] : a.size[k]) * A.R.col(k);
            if (k != edge_b) on_b += (B.R.col(k).dot(edge_normal) > 0 ? b.size[k] : -b.size[k]) * B.R.col(k);
        }
        double s, t;
        nearest_on_segments(on_a, A.R.col(edge_a), on_b, B.R.col(edge_b), a.size[edge_a], b.size[edge_b], s, t);
        const Vec3 middle = 0.5 * (on_a + s * A.R.col(edge_a) + on_b + t * B.R.col(edge_b));
        points.add(middle, edge_normal, edge_best);
        return points.count;
    }
    // clip the incident face of one box by the sides of the reference face of the other (the owner of the axis)
    const Collider &ref = owner ? b : a, &inc = owner ? a : b;
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
    const Vec3 centre = I.p +
                        (I.R.col(facing).dot(outward) > 0 ? -inc.size[facing] : inc.size[facing]) * I.R.col(facing);
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

}  // namespace supple
