#include "condensed.hpp"

#include <algorithm>
#include <cmath>

namespace supple {

namespace {
constexpr int newton_limit = 20;      // iterations of a time step before it is divided
constexpr int eager_steps = 5;        // after which stops that let go and are met again in turns are come to by halves
constexpr double small_motion = 1e-4; // below which the tangent of before still serves
constexpr int static_limit = 40, relax_limit = 400;
constexpr int line_search = 6;        // halvings of a motion that does not lead down
constexpr int halvings = 10;
constexpr double last_motion = 1e-7;  // a last correction this small leaves far less, rad or radii
constexpr double not_needed = 1e-8;   // a correction as small as this need not be made
constexpr double surely = 0.1;        // of that, where the rate of convergence is that of steps before,
constexpr int trusted = 8;            // which it is for so many
constexpr double rounding = 1e-10;
constexpr double closed = 1e-10;
constexpr double apart = 1e-4;        // a step that leaves loops or motors as far from closed as this had no solution
constexpr double largest_turn = 0.5;  // of a coordinate in one Newton step, rad or radii
constexpr double softest_pull = 1e-2, stiffest_pull = 1e4;  // over the anchors
constexpr double close_by = 0.1;        // rad or radii from where tips are to be held
constexpr double smallest_fraction = 1e-4;
// along a branch of equilibria, as in engine/newton.py and engine/path.py
constexpr int branch_limit = 12;
constexpr double passing = 1e-4, last_static = 1e-9, largest_branch_turn = 2.0, kink_turn = 0.1;
constexpr double first_rate = 0.5, later_rate = 0.25, wanted_rate = 0.6, largest_growth = 3.0, smallest_share = 1e-6;
constexpr double least_soft = 1e-9;   // compliance over that of the anchors below which a direction is hard
constexpr int polish = 2;             // more corrections of statics: stiff directions make wrenches of small errors
constexpr double hard = 1e-6;        // compliance over that of the anchor below which a direction is a hard constraint
}  // namespace

void Condensed::prepare() {
    const Eigen::Index n = 6 * static_cast<Eigen::Index>(interior->tips.size());
    for (Matrix* each : {&response_.compliance, &response_.left, &response_.anchor, &small_, &projected_, &derivative_}) each->setZero(n, n);
    response_.inertia.setZero(n, n + 1);
    for (Vector* each : {&response_.drift, &response_.force, &response_.unbalance, &right_, &wrench_,
                         &mu_, &moved_, &soft_, &before_, &lambda_before, &interior->lambda})
        each->setZero(n);
}

// Anchors about as stiff as the mechanism is to the tips at its present state.
void Condensed::drop_anchors(double linear, double angular) {
    const Eigen::Index n = lambda().size();
    interior->anchor.resize(n);
    for (Eigen::Index i = 0; i < n; ++i) interior->anchor[i] = i % 6 < 3 ? linear : angular;
    interior->respond(Tangent::first, nullptr, response_);
    for (Eigen::Index i = 0; i < n; i += 3) {
        const double mean = response_.compliance.diagonal().segment<3>(i).mean();
        if (mean > 0 && std::isfinite(mean)) interior->anchor.segment<3>(i).setConstant(1 / mean);
    }
    soft_ = hard * interior->anchor.cwiseInverse();
}

// A fraction of the wrenches from outside in the tips' own axes, and their derivatives along the tips' twists; `rate`
// is how a handle's speed answers to its place.
void Condensed::outside(double fraction, double rate) {
    derivative_.setZero();
    for (std::size_t e = 0; e < interior->tips.size(); ++e) {
        const EndEffector& tip = interior->tips[e];
        const Pose pose = interior->tip_pose(static_cast<int>(e));
        Vec6 w = tip.own(pose.R);
        auto own = derivative_.block<6, 6>(6 * e, 6 * e);
        if (tip.world) {
            own.topRightCorner<3, 3>() = skew(w.head<3>());
            own.bottomRightCorner<3, 3>() = skew(w.tail<3>());
        }
        for (const auto& [point, force] : tip.contacts) {
            const Vec3 seen = pose.R.transpose() * force;
            w += stack(seen, point.cross(seen));
            own.topRightCorner<3, 3>() += skew(seen);
            own.bottomRightCorner<3, 3>() += skew(point) * skew(seen);
        }
        if (tip.held) {
            const Vec3 pull = tip.stiffness * (pose.R.transpose() * (tip.target - pose.act(tip.point)));
            const double slope = tip.stiffness + rate * tip.damping;
            const Mat3 r = skew(tip.point);
            Eigen::Matrix<double, 3, 6> top;
            top << -slope * Mat3::Identity(), slope * r + skew(pull);
            own.topRows<3>() += top;
            own.bottomRows<3>() += r * top;
            w += stack(pull, tip.point.cross(pull));
        }
        wrench_.segment<6>(6 * e) = fraction * w;
    }
    derivative_ *= fraction;
}

// Moves along `mu_`, no coordinate by more than `largest`; returns the size of the whole motion.
double Condensed::apply(double largest) {
    double alpha = 1;
    moved_.noalias() = response_.compliance * mu_;
    moved_ += response_.drift;
    const double size = interior->move(mu_, largest, alpha);
    if (std::isfinite(size)) interior->lambda += alpha * (mu_ - response_.anchor * moved_);
    ++iterations;
    return interior->lambda.allFinite() ? size : INFINITY;
}

bool Condensed::step() {
    ++steps;
    const Step whole = fresh || order == 1 ? euler(h) : Step{h, 1.5, -2.0, 0.5};
    Found found = solve(whole, false);
    bool done = taken(found) && accept(whole);
    if (!done) {
        interior->back();
        remember();
        found = again(whole, found);
        done = found != Found::nothing && accept(fresh ? euler(h) : whole);  // after a fall it looks back one step only
    }
    if (done) {
        look_after(found);
        return true;
    }
    done = in_parts(h);
    if (!done) abandon();
    return done;
}

// The start of a step, from which it may be abandoned.
void Condensed::remember() {
    start_.lambda = lambda();
    start_.lambda_before = lambda_before;
    start_.time = time;
    start_.fresh = fresh;
    start_.patience = patience;
    start_.pace = pace;
    interior->save(Interior::begun);
}

void Condensed::abandon() {
    begun_ = false;
    interior->restore(Interior::begun);
    interior->lambda = start_.lambda;
    lambda_before = start_.lambda_before;
    time = start_.time;
    fresh = start_.fresh;
    patience = start_.patience;
    pace = start_.pace;
    interior->finish(nullptr);
    interior->restore(Interior::begun);
}

// A step, or a part of one, that is not found as a whole. Motors that jump take their way in parts too.
bool Condensed::in_parts(double whole) {
    const double end = time + whole, before = time;
    parted_ = time;
    whole_ = whole;
    interior->set_out();
    bool done = divide(whole, 1);
    for (int k = 0; !done && k < 10 && fall(end - time); ++k) done = advance(end - time) || divide(end - time, 1);
    interior->drive(1);
    if (time != before) fresh = true;  // substeps leave no even history
    return done;
}

// The branch of stable states ended: here, or ahead of a state that still stands. False: the state is put back.
bool Condensed::fall(double ahead) {
    if (!stands()) return relax();
    const Vector held = lambda();
    interior->save(Interior::ahead);
    interior->predict(ahead, 0);
    if (relax()) return true;
    interior->restore(Interior::ahead);
    interior->lambda = held;
    interior->finish(nullptr);
    interior->restore(Interior::ahead);
    return false;
}

bool Condensed::taken(Found found) const {
    return found == Found::stable || (found == Found::unstable && patience > 0);
}

Condensed::Found Condensed::attempt(const Step& step) {
    const Found found = solve(step, false);
    return taken(found) ? found : again(step, found);
}

// Once more to the end of a step, from its start, after `found` was not taken.
Condensed::Found Condensed::again(const Step& step, Found found) {
    interior->back();
    const bool fell = !stands() && relax();  // set-points that moved, say, had left it unbalanced
    return found == Found::nothing && !fell ? found : solve(fell ? euler(step.h) : step, false);
}

// The branch of stable states ended within the step: the interior falls to another.
void Condensed::look_after(Found found) {
    if (patience > 0)
        --patience;
    else if (found == Found::unstable && !relax())
        patience = patience_limit;
}

// With the tips held: K + J^T A J then has as many negative pivots as J (K + J^T A J)^-1 J^T has negative eigenvalues.
bool Condensed::stable() {
    if (response_.negative == 0) return true;
    const Vector scale = interior->anchor.cwiseSqrt();
    return response_.negative <= negative(scale.asDiagonal() * response_.compliance * scale.asDiagonal());
}

Eigen::Index Condensed::negative(const Matrix& of) {
    spectrum_.compute(of, Eigen::EigenvaluesOnly);
    return (spectrum_.eigenvalues().array() < -rounding).count();
}

// With the tips free under their wrenches, after `settle`: K - J^T dw/dx J has as many negative pivots as K + J^T A J, less
// those of S = A + dw/dx, and those of S - S C S more.
bool Condensed::stable_under_load() {
    const Vector scale = interior->anchor.cwiseSqrt(), over = scale.cwiseInverse();
    const Matrix S = 0.5 * over.asDiagonal() * (derivative_ + derivative_.transpose()) * over.asDiagonal();
    const Matrix C = scale.asDiagonal() * response_.compliance * scale.asDiagonal();
    return response_.negative + negative(S - S * C * S) <= negative(S);
}

// Energy of the interior and of the springs that draw the tips to their goals; these springs' wrenches into lambda.
double Condensed::drawn(const std::vector<Pose>& goals) {
    interior->finish(nullptr);
    errors(goals);
    interior->lambda = stiffer * interior->anchor.cwiseProduct(right_);
    return interior->energy() + 0.5 * lambda().dot(right_);
}

// In balance and stable, with the tips held.
bool Condensed::stands() {
    if (!interior->respond(Tangent::first, nullptr, response_)) return false;
    ++iterations, ++tangents;
    if (!stable()) return false;
    std::vector<Pose> here;
    for (int e = 0; e < frames(); ++e) here.push_back(interior->tip_pose(e));
    double none = 0;
    aim_at(here);
    return interior->move(mu_, 0, none) < small_motion;
}

// Lets the interior fall to where it is stable, with the tips held: Newton's method on its energy, made definite, downhill
// all the way and off saddles; then the tips exactly. Links keep their velocities. False: there is no such place.
bool Condensed::relax() {
    ++snaps;
    interior->keep();
    interior->finish(nullptr);
    std::vector<Pose> here;
    for (int e = 0; e < frames(); ++e) here.push_back(interior->tip_pose(e));
    interior->back();
    interior->downhill = true;
    bool found = false;
    double energy = drawn(here);
    mu_.setZero();
    for (int k = 0; k < relax_limit && !found; ++k) {
        double alpha = 1;
        if (!interior->respond(Tangent::first, nullptr, response_)) break;
        ++iterations, ++tangents;
        const double size = interior->move(mu_, largest_turn, alpha);
        if (!std::isfinite(size)) break;
        double next = drawn(here);
        for (int half = 0; half < line_search && size > small_motion && !(next <= energy); ++half) {
            interior->move_on(-alpha / 2);
            alpha /= 2;
            next = drawn(here);
        }
        energy = next;
        found = size < rounding && response_.negative == 0 && interior->gap() < closed;
    }
    interior->downhill = false;
    if (!found) {
        put_back();
        return false;
    }
    interior->keep();
    if (!settle([&] { return aim_at(here); }, static_limit) || !stable()) {
        interior->back();
        interior->finish(nullptr);
    }
    interior->restart();
    lambda_before = lambda();
    pace = {};
    fresh = true;
    return true;
}

bool Condensed::divide(double whole, int depth) {
    ++divisions;
    if (depth > halvings) return false;
    for (int half = 0; half < 2; ++half)
        if (!advance(whole / 2) && !divide(whole / 2, depth + 1)) return false;
    return true;
}

bool Condensed::advance(double h_now) {
    interior->drive((time + h_now - parted_) / whole_);
    return solve(euler(h_now), false) != Found::nothing && accept(euler(h_now));
}

// False: motors that fight each other leave loops open; the state is put back.
bool Condensed::accept(const Step& step) {
    interior->finish(&step);
    if (interior->gap() > apart) {
        put_back();
        return false;
    }
    interior->accept(step.h);
    lambda_before = before_;
    time += step.h;
    fresh = false;
    return true;
}

void Condensed::put_back() {
    interior->back();
    interior->finish(nullptr);
    interior->back();
}

// To the end of a step, from where the rates lead or from here. If nothing is found, the state is put back.
Condensed::Found Condensed::solve(const Step& step, bool from_here) {
    const double rate = step.c0 / step.h;
    const Eigen::Index n = mu_.size();
    if (!from_here) {
        interior->keep();
        before_ = lambda();
        const bool even = !fresh && step.h == h;
        interior->predict(step.h, even ? (step.c2 != 0 ? 0.5 : 1.0) : 0.0);
        if (even) interior->lambda += lambda() - lambda_before;
    }
    double last = INFINITY;
    bool turned = false, usual = !from_here && step.h == h;
    Tangent tangent = from_here ? Tangent::again : Tangent::first;
    for (int k = 0; k < newton_limit; ++k) {
        if (!interior->respond(tangent, &step, response_)) break;
        tangents += tangent != Tangent::kept;
        outside(1, rate);
        // [D + (L + soft)(1 - S C)] mu = F - U - D drift + L S drift + soft (w - lambda + S drift), S = A + dw/dx, L = B^T E
        derivative_ += response_.anchor;
        for (Eigen::Index i = 0; i < n; i += 6)  // what pulls more than balance needs turns with the tip
            derivative_.block<6, 6>(i, i) += 2 * turning(wrench_.segment<6>(i) - lambda().segment<6>(i));
        right_.noalias() = derivative_ * response_.drift;
        small_.noalias() = -derivative_ * response_.compliance;
        small_.diagonal().array() += 1;
        projected_ = response_.inertia.leftCols(n);
        projected_ += soft_.asDiagonal() * small_;
        mu_ = response_.force - response_.inertia.col(n);
        mu_ += soft_.cwiseProduct(wrench_ - lambda() + right_);
        if (!response_.whole) {
            mu_ -= response_.unbalance;
            mu_.noalias() += response_.left * right_;
            projected_.noalias() += response_.left * small_;
        }
        factors_.compute(projected_);
        mu_ = factors_.solve(mu_).eval();
        interior->eager = k < eager_steps;
        const double size = apply(INFINITY);
        interior->eager = false;
        if (!(size < largest_turn)) break;
        tangent = size < small_motion && size < 0.1 * last ? Tangent::kept : Tangent::again;
        // the next correction would be as small as this, with a rate of size / last, or that of a step before
        const double next = k > 0 ? size * size / last : usual ? pace.of(size) / surely : INFINITY;
        const bool done = size < last_motion || next < not_needed;
        if (k == 1 && usual)
            pace = {size / last, last, trusted};
        else if (k == 0 && done && pace.left > 0)
            --pace.left;
        last = size;
        if (!done) continue;
        if (stable()) return Found::stable;
        if (turned) return Found::unstable;
        // where a branch ends the manifold has turned: along where it led at first, motion could gain energy from nothing
        turned = true;
        usual = false;
        tangent = Tangent::first;
        last = INFINITY;
        k = -1;
    }
    put_back();
    return Found::nothing;
}

// Newton's method on balance alone; `aim` sets `mu_` from the response and returns what else is amiss.
bool Condensed::settle(const std::function<double()>& aim, int limit) {
    int good = 0;
    for (int k = 0; k < limit; ++k) {
        if (!interior->respond(Tangent::first, nullptr, response_)) return false;
        ++tangents;
        const double amiss = aim();
        const double size = apply(largest_turn);
        if (!std::isfinite(size)) return false;
        good = std::max(size, amiss) < rounding && !(k > 0 && interior->changed()) ? good + 1 : 0;
        if (good > polish) {
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
        interior->back();
        interior->finish(nullptr);
        part = (goal - reached) / 4;
        if (part < smallest_fraction) break;
    }
    interior->restart();
    lambda_before = lambda();
    fresh = true;
    return reached;
}

// Newton's step to balance under a share of the outside wrenches and the rest of `begin`, into `mu_`:
// lambda + mu - A x = w + dw/dx x with x = drift + C mu. Leaves S = A + dw/dx in `derivative_`.
double Condensed::aim_under(double share, const Vector& begin) {
    outside(share, 0);
    wrench_ += (1 - share) * begin;
    derivative_ += response_.anchor;
    small_.noalias() = -derivative_ * response_.compliance;
    small_.diagonal().array() += 1;
    right_ = wrench_ - lambda();
    right_.noalias() += derivative_ * response_.drift;
    factors_.compute(small_);
    mu_ = factors_.solve(right_);
    return 0;
}

// One step along the branch of equilibria, accepted only if Newton's steps contract fast and the tangent stays regular
// (as engine/newton.py). Returns the largest contraction rate over the largest accepted: above 1, the step failed.
double Condensed::continue_branch(double share, const Vector& begin) {
    double rate = 0, first = 0, last = 0;
    bool kinked = false;
    for (int k = 0; k < branch_limit; ++k) {
        if (!interior->respond(Tangent::first, nullptr, response_)) return 4;
        ++tangents;
        aim_under(share, begin);
        const bool regular = stable_under_load();
        const double size = apply(INFINITY);
        if (!std::isfinite(size) || (!regular && (k > 0 || size > last_static))) return 4;
        if (size > largest_branch_turn) return size / largest_branch_turn;
        kinked = kinked || (k > 0 && interior->changed());
        if (k > 0 && size > passing) {
            const double allowed = kinked && first < kink_turn ? 1.0 : k == 1 ? first_rate : later_rate;
            rate = std::max(rate, size / last / allowed);
            if (rate > 1) return rate;
        }
        if (k == 0) first = size;
        last = size;
        if (size < passing && !(k > 0 && interior->changed())) {
            if (share < 1) return rate;
            return settle([&] { return aim_under(share, begin); }, static_limit) && (size < last_static || stable_under_load())
                       ? rate : 2;
        }
    }
    return 2;
}

double Condensed::follow_branch() {
    const Vector begin = lambda();
    double reached = 0, step = 1, growth = largest_growth;
    while (reached < 1 && step > smallest_share) {
        const double share = reached + step > 1 - smallest_share ? 1.0 : reached + step;
        interior->keep();
        const double rate = continue_branch(share, begin), taken = share - reached;
        const bool converged = rate <= 1;
        if (converged)
            reached = share;
        else {
            interior->back();
            interior->finish(nullptr);
        }
        const double factor = wanted_rate / std::max(rate, 1e-300);
        step = taken * (converged ? std::clamp(factor, 0.5, growth) : std::clamp(factor, 0.1, 0.5));
        growth = converged ? largest_growth : 1.0;
    }
    interior->restart();
    lambda_before = lambda();
    fresh = true;
    return reached;
}

// Any balanced state, a stable one if Newton's method leads to one.
double Condensed::balance() {
    bool stable_only = true;
    const Vector none = Vector::Zero(mu_.size());
    auto reach = [&](double fraction) {
        return settle([&] { return aim_under(fraction, none); }, static_limit) && (!stable_only || stable_under_load());
    };
    const double reached = follow(reach);
    if (reached == 1) return 1;
    stable_only = false;
    return std::max(reached, follow(reach));
}

// Springs draw the tips towards their poses, ever stiffer, so that a way leads there; then they are held.
double Condensed::hold(const std::vector<Pose>& poses) {
    if (errors(poses) < close_by) {  // on the present branch, if it leads there
        interior->keep();
        if (settle([&] { return aim_at(poses); }, static_limit)) {
            if (!stable()) relax();
            return 1;
        }
        interior->back();
        interior->finish(nullptr);
    }
    const double reached = follow([&](double fraction) {
        const double stiff = softest_pull * std::pow(stiffest_pull / softest_pull, fraction);
        return settle([&] { return draw(poses, stiff); }, static_limit);
    });
    interior->keep();
    if (reached == 1 && settle([&] { return aim_at(poses); }, static_limit)) {
        if (!stable()) relax();
        return 1;
    }
    interior->back();
    interior->finish(nullptr);
    return std::min(reached, 0.99);
}

// lambda + mu - A x = k (error - x) with x = drift + C mu, and k `stiff` times the anchors
double Condensed::draw(const std::vector<Pose>& goals, double stiff) {
    errors(goals);
    const Vector k = stiff * interior->anchor;
    derivative_ = response_.anchor;
    derivative_.diagonal() -= k;
    small_.noalias() = -derivative_ * response_.compliance;
    small_.diagonal().array() += 1;
    right_ = k.cwiseProduct(right_) - lambda();
    right_.noalias() += derivative_ * response_.drift;
    factors_.compute(small_);
    mu_ = factors_.solve(right_);
    return 0;
}

// The tips' twists to their goals, into `right_`; returns the largest, lengths over the radius.
double Condensed::errors(const std::vector<Pose>& goals) {
    double worst = 0;
    for (std::size_t e = 0; e < goals.size(); ++e) {
        const Vec6 error = log(goals[e].seen_from(interior->tip_pose(static_cast<int>(e))));
        right_.segment<6>(6 * e) = error;
        worst = std::max({worst, error.head<3>().norm() / length, error.tail<3>().norm()});
    }
    return worst;
}

// C mu = error - drift, where C allows it, with lengths scaled by the anchors; returns the largest error.
double Condensed::aim_at(const std::vector<Pose>& goals) {
    const double worst = errors(goals);
    right_ -= response_.drift;
    const Vector scale = interior->anchor.cwiseSqrt();
    small_ = scale.asDiagonal() * response_.compliance * scale.asDiagonal();
    spectrum_.compute(small_);
    const Matrix& ways = spectrum_.eigenvectors();
    Vector along = ways.transpose() * scale.cwiseProduct(right_);
    for (Eigen::Index i = 0; i < along.size(); ++i) {
        const double soft = spectrum_.eigenvalues()[i];
        along[i] *= soft / (soft * soft + least_soft * least_soft);
    }
    mu_ = scale.cwiseProduct(ways * along);
    return worst;
}

// C with wrenches fixed in the tips' own axes: C_a (1 - A C_a)^-1
Matrix Condensed::compliance() {
    interior->respond(Tangent::first, nullptr, response_);
    const Eigen::Index n = mu_.size();
    const Matrix left = Matrix::Identity(n, n) - response_.anchor * response_.compliance;
    return response_.compliance * left.inverse();
}

}  // namespace supple
