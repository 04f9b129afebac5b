// Coordinates x at which frames have given poses, by the least motion from a start, within bounds
// (supple.inverse_kinematics). Errors e(x): of loops and couplings, of the frames' poses (lengths over the
// mechanism's), and of tendons beyond their limits.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/kinematics.hpp"

namespace supple {

class InverseKinematics {
   public:
    struct Target {
        int body = 0;
        Pose frame, pose;  // frame: on the body; pose: where it should be
        bool turns = true;  // false: the rotation does not count
    };
    struct Tendon {  // limits of a sum of coefficient_i x_i
        std::vector<int> places;
        std::vector<double> coefficients;
        double lower = 0, upper = 0;
    };
    using Vector = Eigen::VectorXd;
    using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

    std::vector<Target> targets;
    std::vector<Tendon> tendons;
    std::vector<char> moving;  // per coordinate: it may move
    Vector start, lower, upper;  // where the motion counts from, bounds

    InverseKinematics(std::shared_ptr<const KinematicModel> model, double length)
        : state_(std::move(model)), length_(length) {}

    // A configuration with the poses, then that of the least motion from the start, from x on; number of iterations.
    std::pair<Vector, int> solve(Vector x);
    void evaluate(const Vector& x);  // the two below
    // Largest distance, m, and angle, rad, of a frame from its target
    std::pair<double, double> farthest(const Vector& x);
    const Vector& errors() const { return errors_; }
    const Rows& jacobian() const { return rows_; }

   private:
    double largest_error(const Vector& x);
    double squares(const Vector& x);
    double motion(const Vector& x) const;
    int reduce_errors(Vector& x, int most);
    // Least squares of e + J s, of `pull` times the motion from the start and of `damping` times s, within the bounds.
    Vector step(const Vector& x, double pull, double damping);

    KinematicState state_;
    double length_;  // of the mechanism
    Vector evaluated_at_, errors_;
    Rows rows_;
};

}  // namespace supple
