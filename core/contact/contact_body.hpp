// A free rigid body.
//
// The state is the position of the centre of mass, the rotation, and the linear and angular momentum (about the centre
// of mass, world axes). Without loads both momenta are conserved exactly. The angular velocity is computed from the
// momentum, which keeps gyroscopic motion bounded at any time step.
#pragma once

#include "contact/contact.hpp"
#include "contact/external_load.hpp"

namespace supple {

class FreeBody : public Participant, public ExternalLoad {
   public:
    FreeBody(double mass, const Vec3& centre, const Mat3& inertia, const Pose& pose, double h);

    int frames() const override { return 1; }
    Pose frame(int) const override { return {rotation_, position_ - rotation_ * centre_}; }
    Vec6 free_velocity(int) const override;
    Vec6 start_velocity(int) const override;
    bool begin() override;
    bool symmetric() const override { return true; }
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override { read_state(saved_); }
    double energy() const override;

    void place(const Pose& pose);
    bool linear() const override { return true; }
    bool has_any_step() const override { return true; }
    void set_step(double h) override { h_ = h; }
    Vec6 velocity() const;  // twist in the body's own frame, of its origin
    void set_velocity(const Vec6& twist);
    // 18 numbers: position, rotation, linear and angular momentum
    void write_state(double* out) const;
    void read_state(const double* in);

    Vec3 gravity = Vec3::Zero();

   private:
    Mat3 world_inverse(const Mat3& R) const { return R * inverse_inertia_ * R.transpose(); }

    double mass_, h_;
    Vec3 centre_;
    Mat3 inertia_, inverse_inertia_;
    Vec3 position_ = Vec3::Zero(), momentum_ = Vec3::Zero(), angular_momentum_ = Vec3::Zero();
    Mat3 rotation_ = Mat3::Identity();
    Mat3 predicted_rotation_ = Mat3::Identity();  // after the step, with the present angular momentum
    // After the step without contact, world axes: velocity of the centre of mass and angular velocity.
    Vec6 free_ = Vec6::Zero();
    Mat6 response_;  // A^-1: change of these per unit impulse at the centre of mass
    Wrenches rows_;  // G: impulse at the centre of mass per unit impulse on each contact row
    double saved_[18];  // the state before begin
};

}  // namespace supple
