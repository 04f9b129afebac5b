#include "condensed/condensed.hpp"

#include <algorithm>
#include <cmath>

#include "condensed/condensed_passes.hpp"
#include "engine/articulated_exact.hpp"

namespace supple {

namespace {
constexpr int newton_limit = 20;      // Newton iterations of a time step before it is divided
constexpr int torque_steps_limit = 5; // iterations in which the torque of a stop is the unknown; after that its coordinate,
                                      // because contact with a stop may be lost and regained in turns
constexpr int halvings = 10;
constexpr double last_motion = 1e-7;  // converged if the last correction is below it, rad or radii
constexpr double negligible_correction = 1e-8;  // converged if the next correction would be below it
constexpr int convergence_lifetime = 24;        // time steps for which the measured convergence of Newton's method is reused
constexpr double largest_open_gap = 1e-4;  // a step that leaves a larger gap of a loop or motor has failed
constexpr double largest_singularity = 0.1;  // motion of the tips by the regularisation over that by the compliance
constexpr double regularisation = 1e-6;  // over the compliance of the anchors: added compliance, so that rigid directions
                                         // leave a regular matrix
// simplified Newton iterations
constexpr int kept_limit = 2;                // most iterations of a time step
constexpr int kept_lifetime = 1000;          // time steps for which the tangent of motion is kept
constexpr int shortest_run = 4;              // time steps with one tangent for which its renewal pays
constexpr int longest_pause = 64;            // most time steps without an attempt
constexpr int inverse_age = 3;               // time steps after which the factors of P are replaced by its inverse
constexpr double largest_kept_turn = 1e-3;   // largest correction, rad or radii
constexpr double largest_kept_wrench = 1e-4; // largest correction of a wrench, as in `wrench_correction`
constexpr double smallest_kept_rate = 1e-4;  // smaller contraction rates are not relied on
constexpr double kept_rounding = 1e-11;
constexpr double negligible_kept = 1e-9;     // accepted if the next correction would be below it: their errors add up, as rates are linear
}  // namespace

// to += a b, by blocks of 6 x 6
static void add_product(const Matrix& a, const Vector& b, Vector& to) {
    for (Eigen::Index k = 0; k < b.size(); k += 6)
        for (Eigen::Index i = 0; i < a.rows(); i += 6) to.segment<6>(i) += a.block<6, 6>(i, k).lazyProduct(b.segment<6>(k));
}

Condensed::Condensed() = default;
Condensed::~Condensed() = default;

void Condensed::prepare() {
    const Eigen::Index n = 6 * static_cast<Eigen::Index>(set.tips.size());
    for (Matrix* each : {&response_.compliance, &response_.left, &response_.anchor, &small_, &derivative_}) each->setZero(n, n);
    response_.inertia.setZero(n, n + 1);
    for (Vector* each : {&response_.drift, &response_.force, &right_, &wrench_,
                         &mu_, &moved_, &soft_, &before_, &free_, &projected_force_, &lambda_before, &set.lambda})
        each->setZero(n);
}

void Condensed::use_sparse() {
    if (interior == passes.get()) passes->write_to(sparse->system(), sparse->history());
    interior = sparse.get();
    kept_use_.valid = false;
}

void Condensed::use_passes() {
    if (!passes || interior == passes.get()) return;
    passes->read_from(sparse->system(), sparse->history(), h);
    interior = passes.get();
}

void Condensed::forget_kept() {
    kept_use_ = {};
    if (passes) passes->forget();
}

double Condensed::energy() const {
    if (interior == passes.get()) passes->write_to(sparse->system(), sparse->history());
    return sparse->kinetic() + sparse->energy();
}

// Makes the anchors about as stiff as the mechanism is at the tips in its present state.
void Condensed::set_anchors(double linear, double angular) {
    use_sparse();
    const Eigen::Index n = lambda().size();
    interior->anchor.resize(n);
    for (Eigen::Index i = 0; i < n; ++i) interior->anchor[i] = i % 6 < 3 ? linear : angular;
    sparse->respond(Tangent::first, nullptr, response_);
    for (Eigen::Index i = 0; i < n; i += 3) {
        const double mean = response_.compliance.diagonal().segment<3>(i).mean();
        if (mean > 0 && std::isfinite(mean)) interior->anchor.segment<3>(i).setConstant(1 / mean);
    }
    soft_ = regularisation * interior->anchor.cwiseInverse();
}

// Wrench on an end effector by loads, contacts and handles (at rest), in its own axes.
Vec6 Condensed::applied_wrench(int e) const {
    const EndEffector& tip = interior->tips[e];
    const Pose pose = interior->tip_pose(e);
    Vec6 w = tip.own(pose.R);
    for (const auto& [point, wrench] : tip.contacts) {
        const Vec3 seen = pose.R.transpose() * wrench.head<3>();
        w += stack(seen, point.cross(seen) + pose.R.transpose() * wrench.tail<3>());
    }
    if (tip.has_handle) {
        const Vec3 pull = tip.stiffness * (pose.R.transpose() * (tip.target - pose.act(tip.point)));
        w += stack(pull, tip.point.cross(pull));
    }
    return w;
}

// Its derivative with respect to the end effector's twist. `rate` is the derivative of a handle's velocity with respect to its position.
Mat6 Condensed::wrench_derivative(int e, double rate) const {
    const EndEffector& tip = interior->tips[e];
    const Pose pose = interior->tip_pose(e);
    Mat6 slope = Mat6::Zero();
    if (tip.world) {
        const Vec6 w = tip.own(pose.R);
        slope.topRightCorner<3, 3>() = skew(w.head<3>());
        slope.bottomRightCorner<3, 3>() = skew(w.tail<3>());
    }
    for (const auto& [point, wrench] : tip.contacts) {
        const Vec3 seen = pose.R.transpose() * wrench.head<3>(), torque = pose.R.transpose() * wrench.tail<3>();
        slope.topRightCorner<3, 3>() += skew(seen);
        slope.bottomRightCorner<3, 3>() += skew(point) * skew(seen) + skew(torque);
    }
    if (tip.has_handle) {
        const Vec3 pull = tip.stiffness * (pose.R.transpose() * (tip.target - pose.act(tip.point)));
        const double stiff = tip.stiffness + rate * tip.damping;
        const Mat3 r = skew(tip.point);
        Eigen::Matrix<double, 3, 6> top;
        top << -stiff * Mat3::Identity(), stiff * r + skew(pull);
        slope.topRows<3>() += top;
        slope.bottomRows<3>() += r * top;
    }
    return slope;
}

// Wrenches and derivatives of all end effectors times `fraction`, into `wrench_` and `derivative_`.
void Condensed::evaluate_wrenches(double fraction, double rate) {
    derivative_.setZero();
    for (int e = 0; e < frames(); ++e) {
        wrench_.segment<6>(6 * e) = fraction * applied_wrench(e);
        derivative_.block<6, 6>(6 * e, 6 * e) = fraction * wrench_derivative(e, rate);
    }
}

// Applies the correction `mu_`, scaled so that no coordinate moves by more than `largest`; returns its size before scaling.
double Condensed::apply(double largest, const Matrix& compliance) {
    double alpha = 1;
    moved_ = response_.drift;
    add_product(compliance, mu_, moved_);
    const double size = interior->move(mu_, largest, alpha);
    for (int e = 0; e < frames() && std::isfinite(size); ++e)
        interior->lambda.segment<6>(6 * e) +=
            alpha * (mu_.segment<6>(6 * e) - response_.anchor.block<6, 6>(6 * e, 6 * e) * moved_.segment<6>(6 * e));
    ++iterations;
    return interior->lambda.allFinite() ? size : INFINITY;
}

bool Condensed::step() {
    if (is_stuck()) return false;
    ++steps;
    const Step whole = Step::of_order(fresh ? 1 : order, h);
    const KeptUse kept_use = kept_use_;
    if (step_by_kept(whole) && accept(whole)) return true;
    if (step_by_passes(whole)) {
        keep_tangent(whole);
        if (accept(whole)) return true;
    }
    const bool by_passes = interior == passes.get();
    if (by_passes) save_start();
    use_sparse();
    Outcome outcome = solve(whole, Start::predictor);
    bool done = is_acceptable(outcome) && accept(whole);
    if (!done) {
        interior->restore_kept();
        if (!by_passes) save_start();
        outcome = retry_from_start(whole, outcome);
        done = outcome != Outcome::failed && accept(fresh ? euler(h) : whole);  // after a snap-through: backward Euler
    }
    if (done) {
        recover_stability(outcome);
        return true;
    }
    done = step_in_parts(h);
    if (!done) {
        abandon();
        kept_use_ = kept_use;
    }
    return done;
}

// A time step by the passes. False if it does not end in a stable state; the state is then unchanged.
bool Condensed::step_by_passes(const Step& step) {
    if (!passes || unstable_steps_left > 0) return false;
    use_passes();
    const Outcome outcome = solve(step, Start::predictor);
    if (outcome == Outcome::unstable) restore_kept_state();
    return outcome == Outcome::stable;
}

// Saves the state at the start of a step, for `abandon`.
void Condensed::save_start() {
    start_.lambda = lambda();
    start_.lambda_before = lambda_before;
    start_.time = time;
    start_.fresh = fresh;
    start_.unstable_steps_left = unstable_steps_left;
    start_.convergence = convergence;
    start_.interior = interior;
    interior->save(Interior::step_start);
}

void Condensed::abandon() {
    begun_ = false;
    interior = start_.interior;
    interior->restore(Interior::step_start);
    interior->lambda = start_.lambda;
    lambda_before = start_.lambda_before;
    time = start_.time;
    fresh = start_.fresh;
    unstable_steps_left = start_.unstable_steps_left;
    convergence = start_.convergence;
    interior->finish(nullptr);
    interior->restore(Interior::step_start);
}

// A time step, or a part of one, in smaller steps. Motors whose position has jumped also move in parts.
bool Condensed::step_in_parts(double whole) {
    const double end = time + whole, before = time;
    parts_start_ = time;
    parts_length_ = whole;
    sparse->start_motor_travel();
    bool done = divide(whole, 1);
    for (int k = 0; !done && k < 10 && snap_through(end - time); ++k) done = advance(end - time) || divide(end - time, 1);
    sparse->move_motors(1);
    if (time != before) fresh = true;  // the history is not equidistant after substeps
    return done;
}

bool Condensed::is_acceptable(Outcome outcome) const {
    return outcome == Outcome::stable || (outcome == Outcome::unstable && unstable_steps_left > 0);
}

Condensed::Outcome Condensed::solve_with_retry(const Step& step) {
    const Outcome outcome = solve(step, Start::predictor);
    return is_acceptable(outcome) ? outcome : retry_from_start(step, outcome);
}

// Solves a step again from its start, after an `outcome` that was not acceptable.
Condensed::Outcome Condensed::retry_from_start(const Step& step, Outcome outcome) {
    interior->restore_kept();
    const bool snapped = !is_stable_equilibrium() && descend_to_stable_state();  // for example because a set-point has changed
    return outcome == Outcome::failed && !snapped ? outcome : solve(snapped ? euler(step.h) : step, Start::predictor);
}

// If the stable branch ended within the step, the interior moves to another one. If there is none, the unstable state is
// accepted for `unstable_steps_limit` steps.
void Condensed::recover_stability(Outcome outcome) {
    if (unstable_steps_left > 0)
        --unstable_steps_left;
    else if (outcome == Outcome::unstable && !descend_to_stable_state())
        unstable_steps_left = unstable_steps_limit;
}

// Stability with the tips fixed: K + J^T A J then has as many negative pivots as J (K + J^T A J)^-1 J^T has negative
// eigenvalues.
bool Condensed::stable() {
    if (response_.negative == 0) return true;
    const Vector scale = interior->anchor.cwiseSqrt();
    return response_.negative <= negative(scale.asDiagonal() * response_.compliance * scale.asDiagonal());
}

Eigen::Index Condensed::negative(const Matrix& of) {
    return (whole::SymmetricEigen(of).values.array() < -static_rounding).count();
}

bool Condensed::divide(double whole, int depth) {
    ++divisions;
    if (depth > halvings) return false;
    for (int half = 0; half < 2; ++half)
        if (!advance(whole / 2) && !divide(whole / 2, depth + 1)) return false;
    return true;
}

bool Condensed::advance(double h_now) {
    sparse->move_motors((time + h_now - parts_start_) / parts_length_);
    return solve(euler(h_now), Start::predictor) != Outcome::failed && accept(euler(h_now));
}

// Whether the regularisation holds the tips. The equation of motion is C (lambda - w + inertia) + soft (lambda - w) = 0. In a rigid direction
// C is zero, and lambda = w. At a singular pose of the interior (a stretched elbow) C is zero in a direction in which balance needs
// lambda to differ from w: the interior then stays at this pose although its inertia would carry it on.
bool Condensed::is_singular() {
    double difference = 0, displaced = 0;  // squares, with the anchors as units
    const Vector& A = interior->anchor;
    right_ = lambda() - wrench_;
    for (Eigen::Index i = 0; i < A.size(); ++i) difference += right_[i] * right_[i] / A[i];
    for (Eigen::Index i = 0; i < A.size(); ++i)  // less than what moves a tip by the radius or by a radian
        if (difference < A[i] * (i % 6 < 3 ? length * length : 1.0)) return false;
    moved_.noalias() = response_.compliance * right_;
    for (Eigen::Index i = 0; i < A.size(); ++i) displaced += moved_[i] * moved_[i] * A[i];
    return regularisation * std::sqrt(difference) > largest_singularity * std::sqrt(displaced);
}

// Completes a step. False if gaps remain, because motors contradict each other; the state is then unchanged.
bool Condensed::accept(const Step& step) {
    interior->finish(&step);
    if (interior->gap() > largest_open_gap) {
        restore_kept_state();
        return false;
    }
    interior->accept(step.h);
    lambda_before = before_;
    time += step.h;
    fresh = false;
    singular_steps = is_singular() ? singular_steps + 1 : 0;
    return true;
}

void Condensed::restore_kept_state() {
    interior->restore_kept();
    interior->finish(nullptr);
    interior->restore_kept();
}

// Stores the state before a step and extrapolates to its end.
void Condensed::predict_step(const Step& step) {
    interior->keep();
    before_ = lambda();
    const bool even = !fresh && step.h == h;
    interior->predict(step.h, even ? (step.c2 != 0 ? 0.5 : 1.0) : 0.0);
    if (even) interior->lambda += lambda() - lambda_before;
}

// Newton's correction from the last response, into `mu_`, with new factors of the matrix or the last ones:
//     [D + (L + soft)(1 - S C)] mu = F - D drift + L S drift + soft (w - lambda + S drift),   S = A + dw/dx,   L = B^T E
void Condensed::compute_correction(const Step& step, bool factorise) {
    const Eigen::Index n = mu_.size();
    evaluate_wrenches(1, step.c0 / step.h);
    for (Eigen::Index i = 0; i < n; i += 6) {
        const Vec6 excess = wrench_.segment<6>(i) - lambda().segment<6>(i);  // has a geometric stiffness
        const Mat6 own = derivative_.block<6, 6>(i, i) + response_.anchor.block<6, 6>(i, i) + turning(excess);
        derivative_.block<6, 6>(i, i) = own;
        right_.segment<6>(i) = own * response_.drift.segment<6>(i);
        mu_.segment<6>(i) = response_.force.segment<6>(i) - response_.inertia.col(n).segment<6>(i) +
                            Vec6(soft_.segment<6>(i).cwiseProduct(excess + right_.segment<6>(i)));
    }
    if (!response_.whole) add_product(response_.left, right_, mu_);
    if (factorise) factorise_tangent();
    factors_.solve_in_place(mu_);
}

// Factors of D + (L + soft)(1 - S C), with S in `derivative_`. Six rows of a column at a time.
void Condensed::factorise_tangent() {
    const int n = static_cast<int>(mu_.size()), count = n / 6;
    lanes_.resize((n + 2) * count + n);
    Eight *left = lanes_.data(), *own = left + n * count, *soft = own + n, *column = soft + count;  // column: of 1 - S C
    for (int e = 0; e < count; ++e) {
        soft[e] = six_lanes(&soft_[6 * e]);
        for (int c = 0; c < 6; ++c) own[6 * e + c] = -six_lanes(&derivative_(6 * e, 6 * e + c));
        for (int c = 0; c < n && !response_.whole; ++c) left[n * e + c] = six_lanes(&response_.left(6 * e, c));
    }
    const Eight units[6] = {unit_eight(0), unit_eight(1), unit_eight(2), unit_eight(3), unit_eight(4), unit_eight(5)};
    factors_.resize(n);
    for (int j = 0; j < n; ++j) {
        const double* compliance = &response_.compliance(0, j);
        for (int e = 0; e < count; ++e) column[e] = combined(compliance + 6 * e, own + 6 * e, j / 6 == e ? units[j % 6] : every(0.0));
        for (int e = 0; e < count; ++e) {
            Eight entries = six_lanes(&response_.inertia(6 * e, j)) + soft[e] * column[e];
            for (int f = 0; f < count && !response_.whole; ++f) entries = combined(numbers(column[f]), left + n * e + 6 * f, entries);
            store(factors_.column(j) + 6 * e, entries);
        }
    }
    factors_.factorise();
}

// The same by matrices of an earlier time step: mu = P^-1 (F - D' drift + soft (w - lambda)), P = D + (L + soft)(1 - S C),
// D' = D - (L + soft) S J
void Condensed::compute_correction_by_kept() {
    for (int e = 0; e < frames(); ++e) wrench_.segment<6>(6 * e) = applied_wrench(e);
    right_ = response_.force - response_.inertia.col(mu_.size());
    right_ += soft_.cwiseProduct(wrench_ - lambda());
    if (kept_use_.age < inverse_age) {
        mu_ = right_;
        kept_.factors.solve_in_place(mu_);
    } else {
        mu_.noalias() = kept_.inverse * right_;
    }
}

// Keeps the tangent of the last Newton iteration for `step_by_kept`.
void Condensed::keep_tangent(const Step& step) {
    kept_use_.valid = kept_use_.pause == 0;
    if (!kept_use_.valid) {
        --kept_use_.pause;
        return;
    }
    for (Eigen::Index i = 0; i < mu_.size(); i += 6) {
        const Mat6 own = derivative_.block<6, 6>(i, i);
        small_.middleCols<6>(i) = response_.left.middleCols<6>(i) * own;
        small_.middleRows<6>(i).middleCols<6>(i) += soft_.segment<6>(i).asDiagonal() * own;
    }
    kept_use_.valid = passes->keep_projection(step, small_);
    kept_.compliance = response_.compliance;
    kept_.factors = factors_;
    kept_.step = step;
    kept_use_.age = 0;
}

// The correction of the wrenches as the motion that it would cause if the tips were as compliant as on average. In a rigid direction that turns with the
// mechanism, such as along the last link of an arm, an earlier tangent corrects the wrench too far, while the coordinates seem to have converged.
double Condensed::wrench_correction() const {
    double most = 0;
    for (Eigen::Index i = 0; i < mu_.size(); ++i) most = std::max(most, std::abs(mu_[i]) / (interior->anchor[i] * (i % 6 < 3 ? length : 1.0)));
    return most;
}

// A time step by simplified Newton iterations: the tangent of balance is that of the predicted state, and the tangent of motion and
// B are those of an earlier time step. The equations, and so the solution, are those of `solve`. False if more than `kept_limit`
// iterations would be needed; the state is then unchanged.
bool Condensed::step_by_kept(const Step& step) {
    if (!kept_use_.valid || unstable_steps_left > 0 || interior != passes.get()) return false;
    if (step.h != kept_.step.h || step.c0 != kept_.step.c0 || ++kept_use_.age > kept_lifetime) return false;
    if (kept_use_.age == inverse_age) {
        kept_.inverse = Matrix::Identity(mu_.size(), mu_.size());
        kept_.factors.solve_in_place(kept_.inverse);
    }
    predict_step(step);
    double last = INFINITY;
    for (int k = 0; k < kept_limit; ++k) {
        if (!passes->respond_by_kept(k == 0 ? Tangent::first : Tangent::kept, step, response_)) break;
        compute_correction_by_kept();
        const double size = apply(INFINITY, kept_.compliance);
        if (!(size < largest_kept_turn && wrench_correction() < largest_kept_wrench)) break;
        if (k > 0) kept_use_.rate = size / last / kept_use_.age;
        const double rate = std::max(smallest_kept_rate, kept_use_.rate * kept_use_.age);  // the tangent changes about linearly with time
        const bool known = k > 0 || !passes->touches_stop();  // a stop that is met or left changes the rate
        if (size < kept_rounding || (known && rate * size < negligible_kept)) {
            if (k > 0 && frames() == 1) end_run();  // the columns of one end effector cost no more than a second iteration
            return true;
        }
        last = size;
    }
    end_run();
    restore_kept_state();
    return false;
}

// The tangent has served its time. The next one is kept after a pause, which grows with the number of successive short runs.
void Condensed::end_run() {
    kept_use_.valid = false;
    kept_use_.short_runs = kept_use_.age > shortest_run ? 0 : std::min(kept_use_.short_runs + 1, longest_pause);
    kept_use_.pause = std::min(2 * kept_use_.short_runs * kept_use_.short_runs, longest_pause);
}

// Newton's method for the end of a step. If it fails, the state is that before the step.
Condensed::Outcome Condensed::solve(const Step& step, Start start) {
    if (start == Start::predictor) predict_step(step);
    double last = INFINITY;
    bool tangent_renewed = false, usual = start != Start::present && step.h == h;
    Tangent tangent = start == Start::present ? Tangent::renewed : Tangent::first;
    for (int k = 0; k < newton_limit; ++k) {
        if (k > 0 || start != Start::linearised) {
            if (!interior->respond(tangent, &step, response_)) break;
            tangents += tangent != Tangent::kept;
            compute_correction(step, tangent != Tangent::kept || interior == sparse.get());
        }
        start = Start::present;
        interior->step_in_torque = k < torque_steps_limit;
        const double size = apply(INFINITY, response_.compliance);
        interior->step_in_torque = false;
        if (!(size < largest_turn)) break;
        tangent = size < small_motion && size < 0.1 * last ? Tangent::kept : Tangent::renewed;
        // estimate of the next correction, with the contraction rate size / last or the quadratic convergence of an earlier time step
        const double next = k > 0 ? size * size / last : usual ? convergence.second_correction(size) : INFINITY;
        const bool done = size < last_motion || next < negligible_correction;
        if (k == 1 && usual)
            convergence = {size / (last * last), convergence_lifetime};
        else if (k == 0 && done && convergence.left > 0)
            --convergence.left;
        last = size;
        if (!done) continue;
        if (stable()) return Outcome::stable;
        if (tangent_renewed) return Outcome::unstable;
        // The branch has ended: the manifold's tangent at the start of the step differs from that at its end, and with the old
        // one the step could gain energy. Iterate again with the present tangent.
        tangent_renewed = true;
        usual = false;
        tangent = Tangent::first;
        last = INFINITY;
        k = -1;
    }
    restore_kept_state();
    return Outcome::failed;
}

}  // namespace supple
