// Contact: a block on a plane, and contact points of pairs of shapes at known distances.
#include <doctest/doctest.h>

#include "contact/contact_body.hpp"
#include "contact/world.hpp"
#include "mechanisms.hpp"

using namespace supple;
using namespace supple::tests;

namespace {

constexpr double side = 0.05, g = 9.81;  // half length of the block's edges, m

Collider shape(Collider::Kind kind, const Vec3& size, double friction = 0) {
    Collider collider;
    collider.kind = kind;
    collider.size = size;
    collider.friction = friction;
    collider.compute_bounding_radius();
    return collider;
}

// A block at rest on a plane with an inclination of `angle`, in axes along the plane: its position (along, above) and
// velocity after 0.5 s.
struct Slid {
    double along, above, speed;
};
Slid slide(double angle, double friction) {
    const double h = 1e-3, mass = 1.3;
    FreeBody block(mass, Vec3::Zero(), mass * 2 / 3 * side * side * Mat3::Identity(),
                   Pose{Mat3::Identity(), Vec3(0, 0, side)}, h);
    block.gravity = g * Vec3(std::sin(angle), 0, -std::cos(angle));
    World world;
    world.h = h;
    world.participants = {&block};
    world.self_contact = {0};
    World::MountedCollider ground, box;
    ground.collider = shape(Collider::plane, Vec3::Zero(), friction);
    box.collider = shape(Collider::box, Vec3::Constant(side), friction);
    box.participant = box.frame = 0;
    world.colliders = {ground, box};
    world.prepare();
    for (int k = 0; k < 500; ++k) REQUIRE(world.step() == World::done);
    return {block.frame(0).p.x(), block.frame(0).p.z() - side, block.velocity()[0]};
}

// The cube of a mesh with half length s.
Collider mesh_cube(double s) {
    Collider cube = shape(Collider::mesh, Vec3::Zero());
    for (int i = 0; i < 8; ++i) cube.vertices.emplace_back(i & 1 ? s : -s, i & 2 ? s : -s, i & 4 ? s : -s);
    for (int axis = 0; axis < 3; ++axis)
        for (double sign : {-1.0, 1.0}) {
            const Vec3 normal = sign * Vec3::Unit(axis);
            cube.faces.emplace_back(normal.x(), normal.y(), normal.z(), -s);
        }
    cube.find_loops();
    cube.compute_bounding_radius();
    return cube;
}

// Smallest gap of the contact points of two shapes; their normals must point from b to a along `normal`.
double gap(const Collider& a, const Pose& A, const Collider& b, const Pose& B, const Vec3& normal) {
    ContactPoint points[most_points];
    const int count = collide(a, A, b, B, 0.1, points);
    REQUIRE(count > 0);
    double least = INFINITY;
    for (int i = 0; i < count; ++i) {
        CHECK((points[i].normal - normal).norm() < 1e-6);
        least = std::min(least, points[i].gap);
    }
    return least;
}

Pose at(double x, double y, double z, const Vec3& turn = Vec3::Zero()) { return {so3_exp(turn), Vec3(x, y, z)}; }

}  // namespace

TEST_CASE("a block sticks to a plane within the friction cone") {
    const Slid slid = slide(std::atan(0.45), 0.5);
    CHECK(std::abs(slid.along) < 1e-5);
    CHECK(std::abs(slid.speed) < 1e-5);
    CHECK(std::abs(slid.above) < 1e-5);
}

TEST_CASE("a block slides on a steeper plane with a known acceleration") {
    for (double friction : {0.0, 0.2, 0.4}) {
        CAPTURE(friction);
        const double angle = 0.6, acceleration = g * (std::sin(angle) - friction * std::cos(angle));
        const Slid slid = slide(angle, friction);
        CHECK(slid.speed == doctest::Approx(0.5 * acceleration).epsilon(1e-3));
        CHECK(slid.along == doctest::Approx(0.125 * acceleration).epsilon(5e-3));
        CHECK(std::abs(slid.above) < 1e-5);
    }
}

TEST_CASE("pairs of convex shapes at known distances") {
    const Vec3 z = Vec3::UnitZ();
    const double diagonal = std::sqrt(2.0), quarter = M_PI / 4;
    const Collider plane = shape(Collider::plane, Vec3::Zero()), sphere = shape(Collider::sphere, Vec3(0.1, 0, 0)),
                   capsule = shape(Collider::capsule, Vec3(0.05, 0.2, 0)),
                   box = shape(Collider::box, Vec3(0.1, 0.2, 0.3)),
                   cylinder = shape(Collider::cylinder, Vec3(0.1, 0.2, 0)),
                   ellipsoid = shape(Collider::ellipsoid, Vec3(0.1, 0.2, 0.3)),
                   cube = shape(Collider::box, Vec3::Constant(0.1)), mesh = mesh_cube(0.1);
    for (double d : {-0.004, 0.003, 0.02}) {
        CAPTURE(d);
        const auto close = [&](double found) { CHECK(found == doctest::Approx(d).epsilon(1e-6).scale(1)); };
        close(gap(sphere, at(0, 0, 0.1 + d), plane, {}, z));
        close(gap(sphere, at(0, 0, 0.2 + d), sphere, {}, z));
        close(gap(sphere, at(0.02, 0.1, 0.4 + d), box, {}, z));
        close(gap(capsule, at(0, 0, 0.1 + d, Vec3(0, M_PI / 2, 0)), capsule, at(0, 0, 0, Vec3(M_PI / 2, 0, 0)), z));
        close(gap(capsule, at(0, 0, 0.25 + d), plane, {}, z));
        close(gap(box, at(0, 0, 0.3 + d), plane, {}, z));
        close(gap(box, at(0.05, 0, 0.6 + d), box, {}, z));
        close(gap(cylinder, at(0, 0, 0.2 + d), plane, {}, z));
        close(gap(cylinder, at(0, 0, 0.5 + d), box, {}, z));
        close(gap(ellipsoid, at(0, 0, 0.3 + d), plane, {}, z));
        close(gap(ellipsoid, at(0, 0, 0.4 + d), sphere, {}, z));
        close(gap(mesh, at(0, 0, 0.1 + d), plane, {}, z));
        close(gap(mesh, at(0, 0, 0.4 + d), box, {}, z));
        // an edge above a crossing edge
        const Pose edge_x = at(0, 0, 0.2 * diagonal + d, Vec3(quarter, 0, 0)),
                   edge_y = at(0, 0, 0, Vec3(0, quarter, 0));
        close(gap(cube, edge_x, cube, edge_y, z));
        close(gap(mesh, edge_x, mesh, edge_y, z));
        // a corner above a face
        const Mat3 on_corner = Eigen::Quaterniond::FromTwoVectors(Vec3(1, 1, 1), -z).toRotationMatrix();
        const Pose corner{on_corner, Vec3(0.01, 0.02, 0.1 + 0.1 * std::sqrt(3.0) + d)};
        close(gap(cube, corner, cube, {}, z));
        close(gap(mesh, corner, mesh, {}, z));
    }
}
