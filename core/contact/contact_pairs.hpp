// Contact points by pair of kinds; used by contact_shapes.cpp.
#pragma once

#include "contact/contact_shapes.hpp"

namespace supple {

struct Points {
    ContactPoint* out;
    int count = 0;
    void add(const Vec3& point, const Vec3& normal, double gap) {
        if (count < most_points) out[count++] = {point, normal, gap};
    }
};

// Points of a shape that may touch something below it (down: a direction in the shape's axes). The shape's surface is
// at distance `radius` around them. Returns their number.
int corners(const Collider& s, const Vec3& down, Vec3* out, double& radius);

// Nearest points a + s d1 and b + t d2 of two segments with unit directions, |s| <= h1, |t| <= h2.
void nearest_on_segments(const Vec3& a, const Vec3& d1, const Vec3& b, const Vec3& d2, double h1, double h2, double& s,
                         double& t);

Vec3 nearest_on_triangle(const Vec3& p, const Vec3& a, const Vec3& b, const Vec3& c);

// Contact points of any two bounded convex shapes; returns their number. `apart` as in `collide`.
int convex_on_convex(const Collider& a, const Pose& A, const Collider& b, const Pose& B, double margin,
                     ContactPoint* out, Vec3* apart);

// Contact points of a shape at A with a height field at B, and of two boxes; return their number.
int shape_on_field(const Collider& a, const Pose& A, const HeightField& f, const Pose& B, double margin,
                   ContactPoint* out);
int box_on_box(const Collider& a, const Pose& A, const Collider& b, const Pose& B, double margin, ContactPoint* out);

}  // namespace supple
