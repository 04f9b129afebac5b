// Contact points of pairs of kinds, for contact_shapes.cpp.
#pragma once

#include "contact_shapes.hpp"

namespace supple {

struct Points {
    ContactPoint* out;
    int count = 0;
    void add(const Vec3& point, const Vec3& normal, double gap) {
        if (count < most_points) out[count++] = {point, normal, gap};
    }
};

// Corners of a shape that may rest on something below it (down: in the shape's axes), with the radius around them.
int corners(const Solid& s, const Vec3& down, Vec3* out, double& radius);

// Points a + s d1 and b + t d2 of two segments with unit directions, |s| <= h1, |t| <= h2, that are nearest.
void nearest_on_rods(const Vec3& a, const Vec3& d1, const Vec3& b, const Vec3& d2, double h1, double h2, double& s, double& t);

// Points of a shape at A on a height field at B; of two boxes. Returns how many.
int on_field(const Solid& a, const Pose& A, const HeightField& f, const Pose& B, double margin, ContactPoint* out);
int boxes(const Solid& a, const Pose& A, const Solid& b, const Pose& B, double margin, ContactPoint* out);

}  // namespace supple
