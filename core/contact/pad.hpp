// Pads: points of a soft skin on a body, with the compliance between them.
//
// Let x_i be the points of the unpressed skin, fixed to the body, C their compliance (3n, 3n) and f the contact forces
// on them. The skin moves them by u = C f, or with a relaxation time tau, tau u' + u = C f, by backward Euler over a
// step h:
//     u = (1 - theta) u_past + theta C f,     theta = h / (tau + h).
// A contact (normal n, tangents t) of point i closes when the point, moved by the body's velocity v and by u, reaches
// the other surface, and sticks when it does not move along that surface:
//     gap_i + h v_n + n.u_i >= 0,     h v_t + t.(u_i - u_past_i) = 0,
// where gap_i is that of the unpressed skin. With impulses p = h f, the contact problem v = W p + b gains theta C / h^2
// in W, (1 - theta) n.u_past / h in the normal rows of b and -theta t.u_past / h in the tangential ones.
#pragma once

#include <array>

#include "contact/contact_shapes.hpp"
#include "spatial/dense.hpp"

namespace supple {

// The part of a contact on one of its sides if that side is a pad: a point, or a place on a triangle of points.
struct PadPlace {
    int pad = -1;  // -1: the side is not a pad
    int count = 0;
    std::array<int, 3> points{};
    std::array<double, 3> shares{};  // they add up to 1
};

struct PadContact {
    ContactPoint at;  // on the other shape's surface; the normal points from the other shape to the pad
    int point = 0;  // of the pad
    PadPlace other;  // if the other shape is a pad
};

class Pad {
   public:
    Pad(Eigen::MatrixXd compliance, double relaxation);

    int points() const { return static_cast<int>(u_.size()) / 3; }
    Vec3 displacement(int point) const { return u_.segment<3>(3 * point); }
    double largest_displacement() const { return largest_; }
    Vec3 displacement(const PadPlace& place) const;
    double relaxed_share(double h) const { return h / (relaxation_ + h); }  // theta
    // The block of C between two points, and between two places.
    Eigen::Ref<const Mat3, 0, Eigen::OuterStride<>> compliance(int i, int j) const {
        return C_.block<3, 3>(3 * i, 3 * j);
    }
    Mat3 compliance(const PadPlace& a, const PadPlace& b) const;
    // What acts on the points in a step, body axes: forces, sums of contact normals, largest friction coefficients.
    struct Loads {
        Eigen::VectorXd forces, normals, friction;  // (3n,), (3n,), (n,)
    };
    void advance(Loads loads, double h);  // to the end of the step
    double energy() const { return 0.5 * loads_.forces.dot(u_); }

    // The state at the end of the last step.
    const Eigen::VectorXd& displacements() const { return u_; }
    const Loads& loads() const { return loads_; }
    void restore(const Eigen::VectorXd& displacements, Loads loads);

   private:
    Eigen::MatrixXd C_;
    double relaxation_, largest_ = 0;
    Eigen::VectorXd u_;
    Loads loads_;
};

// Barycentric coordinates of a place q in the plane of a triangle; not finite if the triangle has no area.
std::array<double, 3> shares_on_triangle(const Vec3& q, const Vec3& a, const Vec3& b, const Vec3& c);

// Appends the contacts of a pad (a collider at the world pose A) with another shape: points that are closer to it than
// `margin` with the displacements of the last step, or nearly so. Only points whose outward normal faces the other
// surface count. The distance is linearised at the unpressed points. If a shape is so deep that they are beyond its
// middle, it is linearised where the shape ends along the inward normal: the displacements of the last step tell that
// the shape came from outside.
void collide_pad(const Collider& a, const Pose& A, const Pad& pad, const Collider& b, const Pose& B, double margin,
                 std::vector<PadContact>& out);

// Signed distance from x (collider's axes) to a shape other than a pad, negative inside, and the outward normal.
// Outside of a mesh it is the largest distance from a plane of its hull, which is at most the true one.
double signed_distance(const Collider& s, const Vec3& x, Vec3& normal);

}  // namespace supple
