// Statics of a condensed mechanism: balance under loads and with the end effectors held, and snap-through to other branches.
#include <algorithm>
#include <cmath>

#include "condensed/condensed.hpp"

namespace supple {

namespace {
constexpr double softest_pull = 1e-2, stiffest_pull = 1e4;  // springs that pull the tips to given poses, over the anchors
constexpr double near_pose = 0.1;  // tips closer than this to given poses are moved there directly, rad or radii
constexpr double smallest_fraction = 1e-4;
// along a branch of equilibria, as in engine/newton.py and engine/path.py
constexpr int branch_limit = 12;
constexpr double passing = 1e-4, last_static = 1e-9, largest_branch_turn = 2.0, kink_turn = 0.1;
constexpr double first_rate = 0.5, later_rate = 0.25, wanted_rate = 0.6, largest_growth = 3.0, smallest_share = 1e-6;
constexpr double smallest_compliance = 1e-9;  // over that of the anchors; directions with less compliance count as rigid in `aim_at`
constexpr int extra_corrections = 2;   // corrections of statics after convergence: in stiff directions, small errors of poses
                                       // are large errors of wrenches
constexpr int static_limit = 40, relax_limit = 400;
constexpr int line_search = 6;        // most halvings of a step that does not reduce the energy
constexpr double closed = 1e-10;
}  // namespace

// Moves to another branch when the stable one has ended: at the present state, or just ahead of it. False if there is no other
// stable state; the state is then unchanged.
bool Condensed::snap_through(double ahead) {
    if (!is_stable_equilibrium()) return descend_to_stable_state();
    const Vector held = lambda();
    interior->save(Interior::before_prediction);
    interior->predict(ahead, 0);
    if (descend_to_stable_state()) return true;
    interior->restore(Interior::before_prediction);
    interior->lambda = held;
    interior->finish(nullptr);
    interior->restore(Interior::before_prediction);
    return false;
}

// Energy of the interior and of springs that pull the tips to their goals; sets lambda to the wrenches of these springs.
double Condensed::energy_with_tip_springs(const std::vector<Pose>& goals) {
    interior->finish(nullptr);
    errors(goals);
    interior->lambda = anchor_boost * interior->anchor.cwiseProduct(right_);
    return sparse->energy() + 0.5 * lambda().dot(right_);
}

// Whether the present state is in balance and stable with the tips fixed.
bool Condensed::is_stable_equilibrium() {
    if (!sparse->respond(Tangent::first, nullptr, response_)) return false;
    ++iterations, ++tangents;
    if (!stable()) return false;
    std::vector<Pose> here;
    for (int e = 0; e < frames(); ++e) here.push_back(interior->tip_pose(e));
    double none = 0;
    aim_at(here);
    return interior->move(mu_, 0, none) < small_motion;
}

// Moves the interior to a stable state with the tips fixed: Newton's method on the energy, with the tangent made positive
// definite, a line search and a small step off saddle points. Springs hold the tips meanwhile; then they are moved to their
// poses exactly. Links keep their velocities. False if no stable state was found.
bool Condensed::descend_to_stable_state() {
    ++snaps;
    interior->keep();
    interior->finish(nullptr);
    std::vector<Pose> here;
    for (int e = 0; e < frames(); ++e) here.push_back(interior->tip_pose(e));
    interior->restore_kept();
    sparse->downhill = true;
    bool converged = false;
    double energy = energy_with_tip_springs(here);
    mu_.setZero();
    for (int k = 0; k < relax_limit && !converged; ++k) {
        double alpha = 1;
        if (!sparse->respond(Tangent::first, nullptr, response_)) break;
        ++iterations, ++tangents;
        const double size = interior->move(mu_, largest_turn, alpha);
        if (!std::isfinite(size)) break;
        double next = energy_with_tip_springs(here);
        for (int half = 0; half < line_search && size > small_motion && !(next <= energy); ++half) {
            sparse->move_on(-alpha / 2);
            alpha /= 2;
            next = energy_with_tip_springs(here);
        }
        energy = next;
        converged = size < static_rounding && response_.negative == 0 && interior->gap() < closed;
    }
    sparse->downhill = false;
    if (!converged) {
        restore_kept_state();
        return false;
    }
    interior->keep();
    if (!solve_balance([&] { return aim_at(here); }, static_limit) || !stable()) {
        interior->restore_kept();
        interior->finish(nullptr);
    }
    sparse->restart();
    lambda_before = lambda();
    convergence = {};
    fresh = true;
    return true;
}

// Stability with the tips free under their wrenches, after `aim_under`: the number of negative pivots of K - J^T dw/dx J is that of
// K + J^T A J, minus the negative eigenvalues of S = A + dw/dx, plus those of S - S C S.
bool Condensed::stable_under_load() {
    const Vector scale = interior->anchor.cwiseSqrt(), over = scale.cwiseInverse();
    const Matrix S = 0.5 * over.asDiagonal() * (derivative_ + derivative_.transpose()) * over.asDiagonal();
    const Matrix C = scale.asDiagonal() * response_.compliance * scale.asDiagonal();
    return response_.negative + negative(S - S * C * S) <= negative(S);
}

// Newton's method for static balance. `aim` sets `mu_` from the response and returns any other error that must vanish.
bool Condensed::solve_balance(const std::function<double()>& aim, int limit) {
    int good = 0;
    for (int k = 0; k < limit; ++k) {
        if (!sparse->respond(Tangent::first, nullptr, response_)) return false;
        ++tangents;
        const double error = aim();
        const double size = apply(largest_turn, response_.compliance);
        if (!std::isfinite(size)) return false;
        good = std::max(size, error) < static_rounding && !(k > 0 && sparse->changed()) ? good + 1 : 0;
        if (good > extra_corrections) {
            interior->finish(nullptr);
            return interior->gap() < closed;
        }
    }
    return false;
}

double Condensed::follow(const std::function<bool(double)>& reach) {
    double reached = 0, part = 1;
    while (reached < 1) {
        const double goal = std::min(1.0, reached + part);
        interior->keep();
        if (reach(goal)) {
            reached = goal;
            part *= 2;
            continue;
        }
        interior->restore_kept();
        interior->finish(nullptr);
        part = (goal - reached) / 4;
        if (part < smallest_fraction) break;
    }
    sparse->restart();
    lambda_before = lambda();
    fresh = true;
    return reached;
}

// Newton's step to balance under `share` of the applied wrenches and 1 - `share` of `begin`, into `mu_`:
// lambda + mu - A x = w + dw/dx x with x = drift + C mu. Leaves S = A + dw/dx in `derivative_`.
double Condensed::aim_under(double share, const Vector& begin) {
    evaluate_wrenches(share, 0);
    wrench_ += (1 - share) * begin;
    derivative_ += response_.anchor;
    small_.noalias() = -derivative_ * response_.compliance;
    small_.diagonal().array() += 1;
    right_ = wrench_ - lambda();
    right_.noalias() += derivative_ * response_.drift;
    factors_.compute(small_);
    mu_ = right_;
    factors_.solve_in_place(mu_);
    return 0;
}

// One step along the branch of equilibria. It is accepted only if Newton's corrections contract fast and the tangent stays
// regular (as in engine/newton.py). Returns the largest contraction rate over the largest accepted: above 1 the step failed.
double Condensed::continue_branch(double share, const Vector& begin) {
    double rate = 0, first = 0, last = 0;
    bool kinked = false;
    for (int k = 0; k < branch_limit; ++k) {
        if (!sparse->respond(Tangent::first, nullptr, response_)) return 4;
        ++tangents;
        aim_under(share, begin);
        const bool regular = stable_under_load();
        const double size = apply(INFINITY, response_.compliance);
        if (!std::isfinite(size) || (!regular && (k > 0 || size > last_static))) return 4;
        if (size > largest_branch_turn) return size / largest_branch_turn;
        kinked = kinked || (k > 0 && sparse->changed());
        if (k > 0 && size > passing) {
            const double allowed = kinked && first < kink_turn ? 1.0 : k == 1 ? first_rate : later_rate;
            rate = std::max(rate, size / last / allowed);
            if (rate > 1) return rate;
        }
        if (k == 0) first = size;
        last = size;
        if (size < passing && !(k > 0 && sparse->changed())) {
            if (share < 1) return rate;
            return solve_balance([&] { return aim_under(share, begin); }, static_limit) && (size < last_static || stable_under_load())
                       ? rate : 2;
        }
    }
    return 2;
}

double Condensed::follow_branch() {
    use_sparse();
    const Vector begin = lambda();
    double reached = 0, step = 1, growth = largest_growth;
    while (reached < 1 && step > smallest_share) {
        const double share = reached + step > 1 - smallest_share ? 1.0 : reached + step;
        interior->keep();
        const double rate = continue_branch(share, begin), increment = share - reached;
        const bool converged = rate <= 1;
        if (converged)
            reached = share;
        else {
            interior->restore_kept();
            interior->finish(nullptr);
        }
        const double factor = wanted_rate / std::max(rate, 1e-300);
        step = increment * (converged ? std::clamp(factor, 0.5, growth) : std::clamp(factor, 0.1, 0.5));
        growth = converged ? largest_growth : 1.0;
    }
    sparse->restart();
    lambda_before = lambda();
    fresh = true;
    return reached;
}

// Finds a state in balance, first among stable ones only; it need not be on the present branch.
double Condensed::balance() {
    use_sparse();
    bool stable_only = true;
    const Vector none = Vector::Zero(mu_.size());
    auto reach = [&](double fraction) {
        return solve_balance([&] { return aim_under(fraction, none); }, static_limit) && (!stable_only || stable_under_load());
    };
    const double reached = follow(reach);
    if (reached == 1) return 1;
    stable_only = false;
    return std::max(reached, follow(reach));
}

// Pulls the tips to given poses by springs of increasing stiffness (continuation), then fixes them there.
double Condensed::hold(const std::vector<Pose>& poses) {
    use_sparse();
    if (errors(poses) < near_pose) {  // stays on the present branch if possible
        interior->keep();
        if (solve_balance([&] { return aim_at(poses); }, static_limit)) {
            if (!stable()) descend_to_stable_state();
            return 1;
        }
        interior->restore_kept();
        interior->finish(nullptr);
    }
    const double reached = follow([&](double fraction) {
        const double stiff = softest_pull * std::pow(stiffest_pull / softest_pull, fraction);
        return solve_balance([&] { return aim_by_springs(poses, stiff); }, static_limit);
    });
    interior->keep();
    if (reached == 1 && solve_balance([&] { return aim_at(poses); }, static_limit)) {
        if (!stable()) descend_to_stable_state();
        return 1;
    }
    interior->restore_kept();
    interior->finish(nullptr);
    return std::min(reached, 0.99);
}

// Newton's step with springs k = `stiff` A on the tips: lambda + mu - A x = k (error - x) with x = drift + C mu
double Condensed::aim_by_springs(const std::vector<Pose>& goals, double stiff) {
    errors(goals);
    const Vector k = stiff * interior->anchor;
    derivative_ = response_.anchor;
    derivative_.diagonal() -= k;
    small_.noalias() = -derivative_ * response_.compliance;
    small_.diagonal().array() += 1;
    right_ = k.cwiseProduct(right_) - lambda();
    right_.noalias() += derivative_ * response_.drift;
    factors_.compute(small_);
    mu_ = right_;
    factors_.solve_in_place(mu_);
    return 0;
}

// Twists from the tips to their goals, into `right_`; returns the largest, lengths over the radius.
double Condensed::errors(const std::vector<Pose>& goals) {
    double worst = 0;
    for (std::size_t e = 0; e < goals.size(); ++e) {
        const Vec6 error = log(goals[e].seen_from(interior->tip_pose(static_cast<int>(e))));
        right_.segment<6>(6 * e) = error;
        worst = std::max({worst, error.head<3>().norm() / length, error.tail<3>().norm()});
    }
    return worst;
}

// Newton's step to the goals, C mu = error - drift, by a regularised inverse of C scaled with the anchors. Returns the largest
// error.
double Condensed::aim_at(const std::vector<Pose>& goals) {
    const double worst = errors(goals);
    right_ -= response_.drift;
    const Vector scale = interior->anchor.cwiseSqrt();
    small_ = scale.asDiagonal() * response_.compliance * scale.asDiagonal();
    const whole::SymmetricEigen modes(small_);
    Vector along = modes.vectors.transpose() * scale.cwiseProduct(right_);
    for (Eigen::Index i = 0; i < along.size(); ++i) {
        const double soft = modes.values[i];
        along[i] *= soft / (soft * soft + smallest_compliance * smallest_compliance);
    }
    mu_ = scale.cwiseProduct(modes.vectors * along);
    return worst;
}

// Compliance for wrenches fixed in the tips' own axes, from that with anchors: C_a (1 - A C_a)^-1
Matrix Condensed::compliance() {
    use_sparse();
    sparse->respond(Tangent::first, nullptr, response_);
    const Eigen::Index n = mu_.size();
    const Matrix left = Matrix::Identity(n, n) - response_.anchor * response_.compliance;
    return response_.compliance * whole::inverse(left);
}

}  // namespace supple
