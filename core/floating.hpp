// A reduced model on a moving base.
//
// The base stands at H, link i at H E_i exp(Phi_i y) with the model's own coordinates y as seen from the base. In the
// base's frame its twist is phi_i = V + S_i v, with the base's own twist V and S_i = Ad(E_i exp(Phi_i y)) Jr(Phi_i y)
// Phi_i, and the kinetic energy is that of all links, 1/2 sum phi_i^T M_i phi_i = 1/2 u^T M(y) u for u = (V, v). The
// state is H, y, v and the momentum of the whole mechanism in the world; V follows from it,
//     M_bb(y) V + M_bz(y) v = Ad_H^T momentum,
// so that what nothing acts on keeps linear and angular momentum to rounding.
// One step: (M + h D + h^2 K) u' = M u - h c(u) + h (loads - K y), with c the centrifugal and Coriolis terms; then
// H' = H exp(h V'), y' = y + h v', and V from the momentum.
// Legs that only the base connects are parts of their own: the matrix is an arrow, and eight parts at a time are built,
// factorised and solved in the lanes of vector instructions.
// Decoupled is the published variant (FORK-1S, section 6.1): the base is a rigid body with the mass and inertia of all
// links at rest, coupled to y by external forces only.
#pragma once

#include "reduced.hpp"

namespace supple {

class Floating : public Participant {
   public:
    using Map = Eigen::Matrix<double, 6, Eigen::Dynamic>;
    struct Link {
        Pose rest;                   // seen from the base
        std::vector<int> columns;    // coordinates that move it
        Map map;                     // Phi: its twist per each of these
        double mass = 0;
        Vec3 centre = Vec3::Zero();  // in the link's frame
        Mat3 inertia = Mat3::Zero(); // about the centre, in the link's axes
        Pose pose;                   // of links that carry tips: at the present coordinates, seen from the base
    };
    struct Tip : Pulled {
        int link;                    // that it is fixed to, with its frame at
        Pose fixed;
    };

    std::vector<Link> links;
    std::vector<Tip> tips;               // the base itself is the last
    std::vector<Reduced::Bound> bounds;
    Matrix damping, stiffness, armature;
    Matrix held_mass;                    // of y with the base held, for the decoupled variant
    Vector target;
    Vec3 gravity = Vec3::Zero();
    bool mounted = false;                // the base, by springs and dampers along and about its axes, on a pose
    Pose mount;
    Vec6 mount_stiffness = Vec6::Zero(), mount_damping = Vec6::Zero();
    bool decoupled = false;
    double h = 0, time = 0;

    Pose base;
    Vector y, v;
    Vec6 momentum = Vec6::Zero();  // of the whole, world axes, about the world's origin
    Vec6 twist = Vec6::Zero();     // V, from the momentum

    Floating();
    ~Floating() override;
    Floating(const Floating&) = delete;
    void prepare();
    void set_twist(const Vec6& V);  // sets the momentum
    void set_offsets(const double* twists);  // (links, 6): twists of the links by set-points alone
    void refresh();                 // mass matrix and V after a change of state
    bool step();  // false: not finite, the state is that of the last good step

    int frames() const override { return static_cast<int>(tips.size()); }
    Pose frame(int i) const override { return base * links[tips[i].link].pose * tips[i].fixed; }
    Vec6 free_velocity(int i) const override;
    bool begin() override;
    bool symmetric() const override { return true; }
    void limits(std::vector<Limit>& out) const override;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override;
    double energy() const override;

   private:
    using Rows = Eigen::Matrix<double, 3, 6>;
    struct Group;                  // parts (coordinates that depend on each other other than through the base) in lanes
    struct Place {                 // of a coordinate, or of a link's part
        int group = 0, lane = 0, row = 0;
    };
    // floating_groups.cpp
    void divide();
    void pack();
    void evaluate();
    Vec6 momentum_of_parts();
    void begin_parts(const Vec6& start);
    void coriolis();
    bool factorise();
    void solve();
    void follow_base(const Vec6& V);
    void move_tips();
    Vec6 moved_by(int link) const;      // a tip's link: its twist at the end of the step, seen from the base
    Vec6 screw(int link, int i) const;  // S of a link, by the i-th coordinate of its part
    Place place_of(const Vector& map) const;
    // floating.cpp
    Rows by_base(const Touch& touch) const;
    void load(int tip, const Vec3& at, const Vec3& force, const Vec3& torque);
    void hold(int tip);
    void add_loads();
    void gain_from_handles();

    std::vector<Group> groups_;                    // the first has what the base alone moves
    struct LinkPlace {
        Place part;
        int block = 0, lane = 0;   // of its own: a part may have several lanes for its links
    };
    std::vector<Place> place_;                     // per coordinate
    std::vector<LinkPlace> link_place_;
    bool stale_ = true;                            // offsets of links that the base alone moves
    Mat6 M_base_, A_base_, inverse_base_;
    Vec6 right_, fresh_;                           // of the base
    Vec6 gain_ = Vec6::Zero();                     // of momentum in this step, world
    Vec6 off_mount_ = Vec6::Zero();                // twist from the base to its mount
    Vec6 of_parts_ = Vec6::Zero();                 // momentum by the parts' rates, seen from the base
    Wrenches left_;                                // of a step's contacts: what arrives at the base
    Mat6 rest_inertia_;
    struct {
        Pose base;
        Vector y, v;
        Vec6 momentum, twist;
        double time = 0;
    } kept_;
};

}  // namespace supple
