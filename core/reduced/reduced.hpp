// Time stepping of a reduced model, and the poses of its links.
//
// The model's coordinates are y = (z, eta): z in the admissible basis of the end effectors' twists, eta of added
// modes. One time step is linearly implicit Euler,
//     (M + h D + h^2 (K + K_g)) v' = M v + h (f(y) - b - K (y - y_target)),   y' = y + h v'.
// f: generalised force of the applied wrenches; K_g = -df/dy: their geometric stiffness at the target y_target that the
// set-points give. A model made under load may have a K that is only positive together with K_g, so both must be
// implicit. K_g changes with the loads only, so the inverse of the small dense matrix is reused. The pose of a link or
// an end effector is H exp(Phi y + offset).
#pragma once

#include <memory>
#include <vector>

#include "contact/contact.hpp"
#include "contact/external_load.hpp"
#include "spatial/dense.hpp"
#include "spatial/eight.hpp"
#include "spatial/spatial.hpp"
#include "spatial/team.hpp"

namespace supple {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// Poses H_i exp(xi_i), eight links at a time. The exponential is a series for |w| <= pi, and uses sine and cosine
// beyond; both are exact to rounding.
class Links {
   public:
    // rest (n, 4, 4) and maps (n, 6, m), row major
    Links(const double* rest, const double* maps, int n, int m, int threads);

    // poses (n, 4, 4) of all links at coordinates y (m,)
    void update(const double* y, double* poses);
    void update_velocities(const double* y, const double* v, double* twists);  // (n, 6) body twists, with rates v (m,)
    void set_offsets(const double* twists);  // (n, 6): constant terms of the links' twists

    int count() const { return n_; }

   private:
    struct Block {
        alignas(64) double offset[6][width];
        alignas(64) double rest[12][width];  // rotation by rows, then position
    };
    void run(const Block& block, int index);

    int n_, m_;
    std::vector<Block> blocks_;
    std::vector<double> maps_;  // per block: m x 6 x 8
    const double* y_ = nullptr;
    double* poses_ = nullptr;
    Team team_;
};

class Reduced : public Participant {
   public:
    struct Tip : ExternalLoad {
        Pose rest;
        Eigen::Matrix<double, 6, Eigen::Dynamic> map;  // E: twist per coordinate
        Vec6 offset = Vec6::Zero();  // twist due to motors in inadmissible directions
    };

    struct Bound {  // lower <= at + map y <= upper
        Vector map;
        double at = 0, lower = 0, upper = 0;
        // Adds the limits that a time step at rates v may reach.
        void near(std::size_t row, const Vector& y, const Eigen::Ref<const Vector>& v, double h,
                  std::vector<Limit>& out) const;
    };

    Matrix mass, damping, stiffness;
    std::vector<Bound> bounds;  // limits of joint coordinates; they act in a World only
    Vector bias;  // P^T b
    Vector target;  // coordinates at which the springs are unloaded, from set-points
    std::vector<Tip> tips;
    Vector y, v;
    double h = 0, time = 0;

    void prepare();
    bool step();  // returns false, with the state unchanged, if the new state is not finite
    Pose tip_pose(int e) const;
    Vec6 tip_velocity(int e) const;  // body twist
    double deflection() const;  // largest linear part of a tip's twist from its pose in the model, m

    // as a participant of a World: the end effectors are its frames
    int frames() const override { return static_cast<int>(tips.size()); }
    Pose frame(int i) const override { return tip_pose(i); }
    Vec6 free_velocity(int i) const override { return velocity(i, fresh_); }
    Vec6 start_velocity(int i) const override { return velocity(i, v); }
    bool begin() override;
    bool symmetric() const override { return symmetric_; }
    void limits(std::vector<Limit>& out) const override;
    void respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                 double* response) override;
    bool finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) override;
    void abandon() override;
    double energy() const override;

    void loads_changed() { loads_changed_ = true; }  // call it after changing a wrench, a target or an offset
    Matrix geometric_stiffness() const;  // K_g of the applied wrenches at the target

   private:
    Vec6 velocity(int tip, const Vector& rates) const;
    void update_system();
    void add_loads();
    void solve_with_handles();
    bool loads_changed_ = true;
    bool stiffness_positive_ = true;  // K by itself is positive definite
    bool symmetric_ = true;  // A is symmetric: no torque fixed in the world, no force in the body
    Matrix inverse_, system_, handled_;  // A^-1, A, and A^-1 with the handles of this step
    Matrix rows_, moved_;  // G^T and A^-1 G of the contacts and limits of this step
    Vector right_, fresh_, stretch_, pull_, kept_y_, kept_v_;
    double kept_time_ = 0;
    const Matrix& kept_inverse() const { return any_handle_ ? handled_ : inverse_; }
    bool any_handle_ = false;
};

}  // namespace supple
