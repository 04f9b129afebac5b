// Mechanisms, free bodies and still geometry stepped together.
#pragma once

#include <functional>

#include "contact.hpp"
#include "contact_shapes.hpp"

namespace supple {

class World {
   public:
    struct Carried {  // a solid and what carries it
        Solid solid;
        int participant = -1, frame = -1;  // -1: fixed to the world
        unsigned type = 1, affinity = 1;
    };
    struct Contact {
        int first, second;  // solids; the normal leads from the second to the first
        ContactPoint at;
        Vec3 impulse;       // on the first, world axes
        Vec3 local;         // the point in the first solid's frame, to know it again in the next step
    };
    enum Outcome { done, no_solution, not_finite, too_many };
    // Contact points of a pair that no compiled path knows: (first, second, margin, out) -> count
    using Narrow = std::function<int(int, int, double, ContactPoint*)>;

    static constexpr int most_contacts = 1000;

    double h = 1e-3, time = 0;
    double compliance = 0;        // of every contact along its normal, m/N
    double correction = 0.1;      // m/s at most, at which shapes that overlap are taken apart
    std::vector<Participant*> participants;
    std::vector<Carried> solids;
    Narrow narrow;

    Outcome step();
    void detect(double horizon);  // contacts of the present poses, with `horizon` seconds to look ahead
    void prepare();               // after solids or participants were added

    const std::vector<Contact>& contacts() const { return contacts_; }
    const FrictionSolver& solver() const { return solver_; }
    int culprit() const { return culprit_; }  // participant that had no solution
    double energy() const;
    Pose pose(int solid) const;
    std::vector<double> memory() const;              // impulses of the last step, to go on to the same bits
    void remember(const std::vector<double>& flat);

   private:
    void pairs();
    void collide_pair(int i, int j, double horizon);
    void assemble();
    void guess();
    void soften();
    bool too_soft() const;

    std::vector<Contact> contacts_, before_;
    FrictionSolver solver_;
    int culprit_ = -1;
    double softened_ = 0;        // added to every contact's W along its normal
    bool symmetric_ = true;      // the response of all that touches

    std::vector<Pose> poses_;
    std::vector<double> speed_;  // bound on the speed of each solid's points
    std::vector<double> reach_;  // how far a bounded solid gets in this step from its middle
    std::vector<int> sorted_;    // bounded solids along x
    std::vector<int> endless_;
    std::vector<std::pair<int, int>> near_;
    struct Share {  // what one participant has in the contacts of a step
        std::vector<Touch> touches;
        std::vector<int> contacts;  // of each touch
        std::vector<Limit> limits;
        int first_limit = 0;  // row of the solver
        Numbers free, response, impulses;
        void gather(const Numbers& p);  // impulses
    };
    std::vector<Share> shares_;
    std::vector<Mat3> frames_;
};

}  // namespace supple
