// Statics of a pad: the forces with which a shape, or a pressure mask, presses into it.
//
// With the compliance C of the points and forces f on them, displacements are u = C f. A contact (normal n, tangents t)
// of a place of the pad obeys Signorini's and Coulomb's laws for the distance and the slip
//     gap + n.(u - d) >= 0,     t.(u - u_before - moved - d),
// where `moved` is the motion of the shape since the displacements u_before, and d = approach - c sum f a further
// motion of the shape: it is held by a spring of compliance c whose other end moves by `approach`.
#pragma once

#include <utility>
#include <vector>

#include "contact/friction.hpp"
#include "contact/pad.hpp"

namespace supple {

class PadStatics {
   public:
    struct Support {  // of the shape
        double compliance = 0;  // c, m/N
        Vec3 approach = Vec3::Zero();  // m
    };
    struct Start {  // the result that the motion starts from
        // (3n,) displacements; null: points stick where they are first touched
        const Eigen::VectorXd* before = nullptr;
        Pose move;  // of the shape since then
        const Eigen::VectorXd* forces = nullptr;  // (3n,) first guess
    };

    PadStatics(Collider collider, Eigen::MatrixXd compliance);

    // A shape at pose `at` in the pad's frame. Only points within `margin` of it can touch. False: no finite solution.
    bool press(const Collider& shape, const Pose& at, double margin, const Start& start, const Support& support);
    // A ball that came from the side to which the unit vector `up` points, however deep it is: a point below it or in
    // it is pushed along -up out of the ball. Only points that the ball overlaps by -margin at least can touch; points
    // that face away from `up` do not. A ball smaller than the triangles between the points touches the triangle below
    // it, too.
    bool press_ball(const Vec3& at, double radius, const Vec3& up, double margin, double friction, const Start& start,
                    const Support& support);
    // A pressure mask about a point: the pressure is proportional to sqrt(1 - r^2 / radius^2) at distance r from it,
    // across `up`.
    bool press_mask(const Vec3& at, double radius, const Vec3& up, const Eigen::VectorXd& areas, double friction,
                    const Start& start, const Support& support);

    const Collider& collider() const { return collider_; }
    double longest_edge() const { return longest_edge_; }  // of the triangles between unpressed points, m
    const Pad& state() const { return pad_; }  // displacements and loads of the last result
    void set_state(const Eigen::VectorXd& displacements, Pad::Loads loads) {
        pad_.restore(displacements, std::move(loads));
    }
    Vec3 force() const;  // sum of the forces on the points, N
    // (3, 3) change of the force on the pad per displacement of the shape, N/m, with the closed contacts of the last
    // result.
    Mat3 stiffness() const;

   private:
    struct Contact {
        std::vector<std::pair<int, double>> shares;  // points and their weights, which add up to 1
        Mat3 axes;  // normal (from the shape to the pad), tangents
        Vec3 place;
        double gap;
    };
    void add(const Vec3& normal, const Vec3& place, double gap);  // a contact without shares
    void add_triangle_below(const Vec3& at, double radius, const Vec3& up);
    void release();  // no forces, no displacements
    bool solve(double friction, const Start& start, const Support& support);
    Mat3 compliance(const Contact& a, const Contact& b) const;
    Vec3 mean(const Contact& contact, const Eigen::VectorXd& values) const;

    Collider collider_;
    Pad pad_;
    double longest_edge_ = 0;
    std::vector<Contact> contacts_;
    std::vector<PadContact> found_, fresh_;
    std::vector<bool> known_;
    FrictionSolver solver_;
};

}  // namespace supple
