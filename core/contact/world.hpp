// Mechanisms, rigid objects and fixed geometry, advanced together in time steps with contact and friction.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "contact/contact_shapes.hpp"
#include "contact/friction.hpp"
#include "contact/pad.hpp"

namespace supple {

class World {
   public:
    struct MountedCollider {
        Collider collider;
        int participant = -1, frame = -1;  // that the collider is fixed to; -1: the world
        unsigned type = 1, affinity = 1;  // bit masks, as MuJoCo's contype and conaffinity
        int pad = -1;  // index in `pads`
        bool still = false;  // its body is welded to the world
    };
    struct Contact {
        int first, second;  // colliders; the normal points from the second to the first
        ContactPoint at;
        Vec3 impulse;  // on the first, world axes
        Vec3 moment;  // moment of impulse on the first at the point, by torsional and rolling friction, world axes
        // The point in the first collider's frame (of pads, the unpressed one): identifies the contact in the next step
        Vec3 local;
        PadPlace place[2];  // on the first and the second, if they are pads
        bool soft() const { return place[0].pad >= 0 || place[1].pad >= 0; }
    };
    struct LimitImpulse {  // of one side of a limit
        int participant, row;
        double sign, impulse;
    };
    enum Outcome { done, no_solution, not_finite, too_many, impact };

    static constexpr int most_contacts = 1000;

    double h = 1e-3, time = 0;
    double compliance = 0;  // of every contact along its normal, m/N
    double correction = 0.1;  // m/s: largest speed at which overlapping shapes are separated
    double bounce_speed = 0;  // m/s: shapes that approach each other more slowly do not bounce
    std::vector<Participant*> participants;
    std::vector<MountedCollider> colliders;
    std::vector<Pad> pads;
    std::vector<char> self_contact;  // by participant: its bodies may touch each other
    std::set<std::pair<int, int>> excluded;  // pairs of colliders that never touch, the lower index first

    Outcome step();
    bool has_any_step() const;  // whether all participants have
    void set_step(double h);  // changes the length of the next steps
    // A step after which points in contact have other velocities than the contact problem gave them has no solution.
    bool checks_motion = true;
    void detect(double horizon);  // finds the contacts that the present poses and `horizon` seconds of motion allow
    void prepare();  // to be called after colliders or participants were added

    const std::vector<Contact>& contacts() const { return contacts_; }
    const FrictionSolver& solver() const { return solver_; }
    int failed_participant() const { return failed_participant_; }  // whose step had no solution; -1: none
    int participant_of_limit(int limit) const;  // by its number in the contact problem
    double energy() const;
    Pose pose(int collider) const;
    // The contacts and the impulses of limits of the last step, from which the next step starts: part of the state.
    const std::vector<Contact>& previous_contacts() const { return previous_; }
    void set_previous_contacts(std::vector<Contact> contacts);
    std::vector<LimitImpulse> limit_impulses;

   private:
    void find_candidate_pairs();
    void collide_pair(int i, int j, double horizon);
    void collide_pads(int i, int j, double margin);
    bool moved_as_computed(int participant) const;
    Outcome attempt();  // `impact`: a participant's step must be backward Euler
    void assemble();
    void place_touches();
    void add_participants();
    void add_gaps();
    void solve();
    bool meets_impact() const;
    double normal_velocity_at_start(int contact) const;
    void add_pads();
    void advance_pads();
    void warm_start();
    void warm_start_limits();
    void keep_limit_impulses();
    void regularise();
    bool regularised_too_much() const;
    ContactLaw law_of(const Contact& c) const {
        return contact_law(colliders[c.first].collider, colliders[c.second].collider);
    }
    // world_friction.cpp
    void find_moments();
    Mat3 moment_axes(int moment) const;  // normal and tangents of its contact, times lengths
    void find_bounces();
    void limit_bounces();

    std::vector<Contact> contacts_, previous_;
    // Of each contact with moments: ratios of torsional and rolling friction to sliding friction, m
    std::vector<Vec3> lengths_;
    std::vector<int> with_moments_;  // these contacts
    struct Bounce {
        int contact;
        double offset;  // that restitution adds to the row of the contact's normal velocity
    };
    std::vector<Bounce> bounces_;
    Numbers free_rows_;  // velocities without contact, if there are bounces
    FrictionSolver solver_;
    int failed_participant_ = -1;
    std::vector<double> regularisation_;  // added to each contact's W_nn
    bool symmetric_ = true;  // W is, up to rounding

    std::vector<Pose> poses_;
    std::vector<double> speed_;  // bound on the speed of each collider's points, m/s
    std::vector<double> swept_radius_;  // bounding radius plus the largest motion in this step, m
    std::vector<int> bounded_;  // colliders of finite size, sorted along x
    std::vector<int> unbounded_;  // planes and height fields
    std::vector<std::pair<int, int>> candidate_pairs_;
    std::map<std::pair<int, int>, Vec3> apart_;  // directions that separated pairs before
    struct ParticipantRows {  // the rows of the contact problem that act on one participant
        std::vector<Touch> touches;
        std::vector<int> contacts;  // of each touch: its contact or, beyond their number, its moments
        std::vector<Limit> limits;
        int first_limit = 0;  // row of the solver
        Numbers free, response, impulses;
        void gather_impulses(const Numbers& p);
    };
    std::vector<ParticipantRows> rows_;  // by participant
    std::vector<Mat3> frames_;
    std::vector<Pose> touched_frames_;  // of one participant, by touch, at the start of the step
    std::vector<PadContact> pad_contacts_;
    struct PadRows {  // the contacts of one pad
        std::vector<int> contacts, sides;
        std::vector<Mat3> axes;  // normal and tangents in the body's axes, negated on the second side
    };
    std::vector<PadRows> pad_rows_;
};

}  // namespace supple
