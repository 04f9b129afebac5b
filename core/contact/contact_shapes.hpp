// Colliders (shapes as contact sees them), and contact points of pairs of them.
//
// A contact point lies half way between the two surfaces. Its normal points from the second shape to the first; its gap
// is the distance along the normal, negative where the shapes overlap. A face that rests on another has several points.
#pragma once

#include <array>
#include <vector>

#include "spatial/spatial.hpp"

namespace supple {

struct HeightField {  // heights on a grid of rows (along y) and columns (along x); each cell is two triangles
    int rows = 0, columns = 0;
    double half_x = 0, half_y = 0;
    std::vector<double> heights;  // row by row
    double lowest = 0, highest = 0;

    Vec3 vertex(int row, int column) const;
    double step_x() const { return 2 * half_x / (columns - 1); }
    double step_y() const { return 2 * half_y / (rows - 1); }
    // Height and upward normal at (x, y); false outside the grid.
    bool surface(double x, double y, double& height, Vec3& normal) const;
};

struct Collider {
    enum Kind { plane, sphere, capsule, box, cylinder, ellipsoid, mesh, height_field, pad };
    Kind kind = sphere;
    Vec3 size = Vec3::Zero();  // radius, half lengths: as in a Shape
    Pose local;  // in the frame that the collider is fixed to
    std::vector<Vec3> vertices;  // corners of a mesh's convex hull; points of a pad
    // Of a mesh's convex hull: outward normal n and offset d, inside where n.x + d < 0
    std::vector<Eigen::Vector4d> faces;
    std::vector<std::vector<int>> loops;  // corners of each face, in order
    std::vector<Vec3> normals;  // of a pad's points, outward
    std::vector<std::array<int, 3>> triangles;  // of a pad's points
    // Of each triangle: whether no other one shares the edge opposite to the corner
    std::vector<std::array<bool, 3>> border;
    std::vector<bool> at_border;  // of each point of a pad: whether such an edge ends there
    HeightField field;
    double bounding_radius = 0;  // of the sphere around its origin; infinite for planes and height fields
    double friction = 0, torsional = 0, rolling = 0;  // coefficients: sliding; torsional and rolling, m
    int condim = 3;  // directions of friction, as in MuJoCo: 1 none, 3 sliding, 4 and torsional, 6 and rolling
    double restitution = 0;
    int priority = 0;  // of the laws of two shapes that touch, those of the higher priority hold

    void compute_bounding_radius();
    void find_loops();  // of a mesh, from its corners and faces; also the neighbours
    const std::vector<int>& neighbours(int corner) const { return neighbours_[corner]; }
    int farthest(const Vec3& direction) const;  // corner of a mesh that is farthest in a direction of its frame
    void find_border();  // of a pad, from its triangles
    bool unbounded() const { return kind == plane || kind == height_field; }

   private:
    std::vector<std::vector<int>> neighbours_;  // of each corner of a mesh: those at the other ends of its edges
    std::array<int, 8> starts_{};  // the farthest corners along the diagonals, by the signs of x, y and z
};

// What holds between two shapes: that of the shape with the higher priority or, if they are equal, the larger of each
// number.
struct ContactLaw {
    double friction, torsional, rolling, restitution;
    int condim;
};
ContactLaw contact_law(const Collider& a, const Collider& b);

struct ContactPoint {
    Vec3 point, normal;
    double gap;
};

constexpr int most_points = 16;  // contact points of one pair, at most

// Whether `collide` takes shapes of these kinds: all but two planes or height fields.
bool can_touch(Collider::Kind a, Collider::Kind b);

// Writes the contact points with gap < margin of colliders at world poses A and B; returns their number. `apart`, a
// direction that separated the two before (zero: none), is tried first and replaced; it does not change the result.
int collide(const Collider& a, const Pose& A, const Collider& b, const Pose& B, double margin, ContactPoint* out,
            Vec3* apart = nullptr);

}  // namespace supple
