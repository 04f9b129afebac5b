// Shapes that touch: contact points between pairs of common kinds, in closed form.
//
// A contact point has a normal that leads from the second shape to the first and a gap along it, negative where they
// overlap; it lies half way between the two surfaces. A face that rests on another gives several points.
#pragma once

#include <vector>

#include "spatial.hpp"

namespace supple {

struct HeightField {  // heights over a grid of rows (along y) and columns (along x), each cell in two triangles
    int rows = 0, columns = 0;
    double half_x = 0, half_y = 0;
    std::vector<double> heights;  // row by row
    double lowest = 0, highest = 0;

    Vec3 vertex(int row, int column) const;
    double step_x() const { return 2 * half_x / (columns - 1); }
    double step_y() const { return 2 * half_y / (rows - 1); }
    // Height and upward normal over a point of the plane; false outside the grid.
    bool surface(double x, double y, double& height, Vec3& normal) const;
};

struct Solid {
    enum Kind { plane, sphere, capsule, box, cylinder, ellipsoid, mesh, height_field };
    Kind kind = sphere;
    Vec3 size = Vec3::Zero();            // half lengths as in a Shape
    Pose local;                          // in the frame that carries it
    std::vector<Vec3> vertices;          // corners of a mesh's convex hull
    HeightField field;
    double reach = 0;                    // radius of the ball around its origin; infinite for planes
    double friction = 0;

    void measure();                      // sets `reach`
    bool endless() const { return kind == plane || kind == height_field; }
};

struct ContactPoint {
    Vec3 point, normal;
    double gap;
};

constexpr int most_points = 16;  // of one pair

// Whether `collide` knows the pair, in either order; others are general convex shapes.
bool compiled(Solid::Kind a, Solid::Kind b);

// Points closer than `margin` of shapes at world poses A and B; returns how many.
int collide(const Solid& a, const Pose& A, const Solid& b, const Pose& B, double margin, ContactPoint* out);

}  // namespace supple
