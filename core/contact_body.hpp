// A free rigid body that takes part in contact.
//
// Its state is the position of its centre of mass, its rotation, and its linear and angular momentum (about the
// centre, world axes): what nothing acts on keeps both exactly, and the spin follows from them, so that gyroscopic
// motion stays bounded at any step.
#pragma once

#include "contact.hpp"
#include "pulled.hpp"

namespace supple {

class FreeBody : public Participant, public Pulled {
   public:
    FreeBody(double mass, const Vec3& centre, const Mat3& inertia, const Pose& pose, double h);

    int frames() const override { return 1; }
    Pose frame(int) const override { return {rotation_, position_ - rotation_ * centre_}; }
    Vec6 drift(int) const override;
    bool begin() override;
    bool symmetric() const override { return true; }
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override { read_state(kept_); }
    double energy() const override;

    void place(const Pose& pose);
    Vec6 velocity() const;  // twist in the body's own frame, of its origin
    void set_velocity(const Vec6& twist);
    // (position, rotation, momentum), 18 numbers
    void write_state(double* out) const;
    void read_state(const double* in);

    Vec3 gravity = Vec3::Zero();

   private:
    Mat3 world_inverse(const Mat3& R) const { return R * inverse_inertia_ * R.transpose(); }

    double mass_, h_;
    Vec3 centre_;
    Mat3 inertia_, inverse_inertia_;
    Vec3 position_ = Vec3::Zero(), momentum_ = Vec3::Zero(), spin_ = Vec3::Zero();
    Mat3 rotation_ = Mat3::Identity();
    Mat3 turned_ = Mat3::Identity();  // the rotation reached with the present spin
    Vec6 free_ = Vec6::Zero();  // velocity of the centre and angular velocity after the free step, world axes
    Mat6 response_;             // A^-1: the same per impulse on the centre
    Wrenches rows_;
    double kept_[18];           // the state that begin() started from
};

}  // namespace supple
