// The solver for the impulses of contacts and limits in one time step. The laws are in contact.hpp.
#pragma once

#include <vector>

#include "contact/contact.hpp"

namespace supple {

// A single contact with moments: v = W p + b in the rows that may have an impulse, the normal first. Friction is
// bounded for up to five components together.
struct MomentBlock {
    template <int rows>
    using Up = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, rows, rows>;
    template <int rows>
    using Few = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, rows, 1>;

    int count = 0, rows[6] = {};
    Up<6> W;
    Up<5> axes;  // eigenvectors of the tangential part of W after elimination of the normal
    Few<5> values, coupling;  // its eigenvalues; W_tn in these axes

    void prepare();  // from W
    // Impulse that satisfies the contact laws.
    Few<6> solve(const Few<6>& b, double friction) const;
};

// Solves for the impulses of all contacts (three rows each, normal first), of moments (three rows each, about the same
// axes) and of limits (one row each) of one step.
class FrictionSolver {
   public:
    // Of the residual, relative to the largest free speed or 1 m/s: where the solver stops, and where it stops after
    // the first round.
    static constexpr double tolerance = 5e-10, sufficient = 1e-6;

    void resize(int contacts, int moments, int limits);  // zeroes everything
    int rows() const { return n_; }
    int steps() const { return steps_; }  // linear systems solved and sweeps since `resize`
    int moment_row(int moment) const { return 3 * (contacts_ + moment); }
    double& W(int i, int j) { return W_[static_cast<std::size_t>(j) * n_ + i]; }
    double W(int i, int j) const { return W_[static_cast<std::size_t>(j) * n_ + i]; }

    Numbers b;  // free velocities plus gap / h
    std::vector<double> friction;  // per contact
    std::vector<int> moment;  // per contact: index of its moments, -1: none
    std::vector<double> max_response;  // per contact: the largest diagonal entry of its participants' responses
    // Whether neither side can move along the contact's normal, up to rounding.
    bool blocked(int contact) const { return !(W(3 * contact, 3 * contact) > 1e-14 * max_response[contact]); }
    Numbers p;  // impulses: initial guess in, solution out

    void solve(bool symmetric = false);  // symmetric: W is, up to rounding
    // Largest |p - P(p - rho v)| / rho over all rows, m/s, relative to the largest free speed or 1 m/s. P projects onto
    // the cone; rho is the inverse of the row's own diagonal block of W.
    double residual() const { return residual_; }
    double speed_error() const { return residual_ * scale_; }  // the same in m/s
    int worst() const { return worst_; }  // the contact or, beyond their number, the limit that it belongs to; -1: none

   private:
    using Vector = Eigen::VectorXd;
    void symmetrise();
    void prepare_blocks();
    void sweep();
    double compute_residual();
    void newton(double rho_factor, int most);
    bool newton_step(double rho_factor);
    bool solve_newton_system(int m, bool sliding);
    void update_velocities();
    void keep_best();
    // friction_convex.cpp
    void convex_round(int most);
    void project(const Vector& u, Vector& p, bool directions);
    bool convex_direction(const Vector& off, Vector& change);
    // Rows of a contact that may have an impulse: the normal; with friction also the tangents and the moments about
    // axes about which something can turn.
    int rows_of(int contact, int* rows) const;

    int contacts_ = 0, moments_ = 0, limits_ = 0, n_ = 0, first_limit_ = 0, steps_ = 0;
    int most_steps_ = 0;  // for about a millisecond; the best impulses found are then taken
    double residual_ = 0, scale_ = 1, least_ = 0;
    int worst_ = -1;  // contact or, beyond their number, limit with the largest residual
    Numbers W_, v_, limit_rho_, start_, best_;
    struct Block {
        Mat3 inverse;  // of W's diagonal block, slightly regularised
        double normal;  // W_nn; zero if the contact is blocked
        double rho;  // 1 / largest diagonal entry of the block
    };
    std::vector<Block> blocks_;
    std::vector<MomentBlock> moment_blocks_;
    std::vector<char> moves_;  // per moment row: whether something can turn about its axis
    // of a convex problem: the impulses that the regularisation draws to, radii of the discs of friction, and the
    // directions along which the projection is not constant: their rows, components and slopes
    Vector centre_, disc_;
    struct Direction {
        int count, rows[5];
        double along[5], slope, weight;
    };
    std::vector<Direction> directions_;
    Eigen::MatrixXd jacobian_;
    std::vector<double> panel_;  // of `solve_newton_system`
    Vector right_;
    std::vector<int> closed_rows_;  // rows of closed contacts and limits
};

// Impulse that satisfies the contact laws of a single contact without moments, v = W p + b.
Vec3 solve_contact(const Mat3& W, const Mat3& inverse, const Vec3& b, double friction);

}  // namespace supple
