// A reduced model on a moving base.
//
// H is the pose of the base, y are the model's coordinates relative to the base, and the pose of link i is
// H E_i exp(Phi_i y). V is the twist of the base and v the rate of y. The link's twist in the base's frame is
// phi_i = V + S_i v with S_i = Ad(E_i exp(Phi_i y)) Jr(Phi_i y) Phi_i. The kinetic energy is that of all links,
// 1/2 sum phi_i^T M_i phi_i = 1/2 u^T M(y) u for u = (V, v). The state consists of H, y, v and the momentum of the
// whole mechanism in the world. V is computed from the momentum,
//     M_bb(y) V + M_bz(y) v = Ad_H^T momentum,
// so a mechanism without external forces keeps linear and angular momentum to rounding.
// One step solves (M + h D + h^2 K) u' = M u - h c(u) + h (loads - K y), where c has the centrifugal and Coriolis
// terms. Then H' = H exp(h V'), y' = y + h v', and V is computed from the momentum.
// A part is a set of coordinates that is coupled to others only through the base, for example a leg. So the matrix has
// the shape of an arrow. Eight parts at a time are built, factorised and solved in the lanes of vector instructions.
// The decoupled variant is the published one (FORK-1S, section 6.1): the base is a rigid body with the mass and inertia
// of all links in the reference pose, and only external forces couple it to y.
#pragma once

#include "reduced/reduced.hpp"

namespace supple {

class Floating : public Participant {
   public:
    using Map = Eigen::Matrix<double, 6, Eigen::Dynamic>;
    struct Link {
        Pose rest;  // E, reference pose relative to the base
        std::vector<int> columns;  // coordinates that this link depends on
        Map map;  // Phi: a column for each of these
        double mass = 0;
        Vec3 centre = Vec3::Zero();  // in the link's frame
        Mat3 inertia = Mat3::Zero();  // about the centre, in the link's axes
        Pose pose;  // only of links with tips: present pose relative to the base
    };
    struct Tip : ExternalLoad {
        int link;  // the tip is fixed to this link
        Pose fixed;  // pose of the tip in the link's frame
    };

    std::vector<Link> links;
    std::vector<Tip> tips;  // the last one is the base itself
    std::vector<Reduced::Bound> bounds;
    Matrix damping, stiffness, armature;
    Matrix held_mass;  // of y with a fixed base, for the decoupled variant
    Vector target;
    Vec3 gravity = Vec3::Zero();
    bool mounted = false;  // springs and dampers along and about its axes hold the base at `mount`
    Pose mount;
    Vec6 mount_stiffness = Vec6::Zero(), mount_damping = Vec6::Zero();
    bool decoupled = false;
    double h = 0, time = 0;

    Pose base;
    Vector y, v;
    Vec6 momentum = Vec6::Zero();  // of the whole mechanism, world axes, about the world's origin
    Vec6 twist = Vec6::Zero();  // V, computed from the momentum

    Floating();
    ~Floating() override;
    Floating(const Floating&) = delete;
    void prepare();
    void set_twist(const Vec6& V);  // sets the momentum
    void set_offsets(const double* twists);  // (links, 6): twists of the links that the set-points cause
    void refresh();  // updates mass matrix and V after a change of state
    bool step();  // false: a result is not finite; the state stays as before the step

    int frames() const override { return static_cast<int>(tips.size()); }
    Pose frame(int i) const override { return base * links[tips[i].link].pose * tips[i].fixed; }
    Vec6 free_velocity(int i) const override { return tip_velocity(i, link_twist(tips[i].link)); }
    Vec6 start_velocity(int i) const override;
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
    struct Group;  // up to eight parts with equally many coordinates, one in each lane
    struct Place {  // where a coordinate, or the part of a link, is stored
        int group = 0, lane = 0, row = 0;
    };
    // floating_groups.cpp
    void divide_into_parts();
    void assign_lanes();
    void evaluate();
    Vec6 momentum_of_parts();
    void begin_parts(const Vec6& start);
    void coriolis();
    bool factorise();
    void solve();
    void subtract_base_motion(const Vec6& V);
    void update_tip_twists();
    Vec6 link_twist(int link) const;  // twist of a link with tips at the end of the step, base axes
    Vec6 screw(int link, int i) const;  // column of S of a link for the i-th coordinate of its part
    Place place_of_limit(const Vector& map) const;
    // floating.cpp
    Rows by_base(const Touch& touch) const;
    Vec6 tip_velocity(int tip, const Vec6& link_twist) const;
    void add_load(int tip, const Vec3& at, const Vec3& force, const Vec3& torque);
    void add_handle(int tip);
    void add_loads();
    void add_handle_impulses();

    std::vector<Group> groups_;  // the first one has the links that depend on no coordinate
    struct LinkPlace {
        Place part;
        int block = 0, lane = 0;  // of the link itself: the links of a part may use several lanes
    };
    std::vector<Place> place_;  // per coordinate
    std::vector<LinkPlace> link_place_;
    bool offsets_changed_ = true;  // links without coordinates have new offsets
    Mat6 M_base_, A_base_, inverse_base_;
    Vec6 base_rhs_, base_rate_;  // of the base: right-hand side, twist at the end of the step
    Vec6 momentum_change_ = Vec6::Zero();  // of the momentum in this step, world
    Vec6 mount_error_ = Vec6::Zero();  // twist from the base to its mount
    Vec6 parts_momentum_ = Vec6::Zero();  // M_bz v, momentum from the rates of the parts, base axes
    Wrenches impulse_to_base_;  // (6, rows): wrench on the base per unit impulse of a contact or limit row
    Mat6 rest_inertia_;
    struct {
        Pose base;
        Vector y, v;
        Vec6 momentum, twist;
        double time = 0;
    } before_step_;
};

}  // namespace supple
