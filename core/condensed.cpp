#include "condensed.hpp"

#include <algorithm>
#include <cmath>

#include "arrays.hpp"

namespace supple {

namespace {
constexpr int newton_limit = 20;      // iterations of a time step before it is divided
constexpr double small_motion = 1e-4; // below which the tangent of before still serves
constexpr int static_limit = 40, relax_limit = 400;
constexpr int line_search = 6;        // halvings of a motion that does not lead down
constexpr int patience_limit = 20;    // steps
constexpr int halvings = 10;
constexpr double last_motion = 1e-8;  // a correction this small need not be made, rad or radii
constexpr double rounding = 1e-10;
constexpr double closed = 1e-10;
constexpr double largest_turn = 0.5;  // of a coordinate in one Newton step of statics, rad or radii
constexpr double softest_pull = 1e-2, stiffest_pull = 1e4;  // over the anchors
constexpr double close_by = 0.1;        // rad or radii from where tips are to be held
constexpr double smallest_fraction = 1e-4;
constexpr double hard = 1e-6;        // compliance over that of the anchor below which a direction is a hard constraint
}  // namespace

// --- the engine's equations -----------------------------------------------------------------------------------------

SparseInterior::SparseInterior(System& system, Stepper& stepper) : system_(system), stepper_(stepper) {
    for (int b = 0; b < system.bodies(); ++b)
        mass_.push_back(spatial_inertia(system.mass[b], system.centre[b], system.inertia[b]));
}

void SparseInterior::start() {
    act(false);
    stepper_.start(std::vector<Vec6>(system_.mass.size(), Vec6::Zero()), std::vector<double>(system_.axes(), 0.0));
    touching_ = system_.active();
    x_.resize(system_.unknowns());
    columns_.setZero(system_.unknowns(), lambda.size() + 1);
    weighted_.resize(6, lambda.size() + 1);
    along_.setZero(system_.unknowns(), 2);
}

// Loads of the engine: what acts from outside, or what holds the tips.
void SparseInterior::act(bool outside) {
    system_.loads.clear();
    system_.handles.clear();
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const EndEffector& tip = tips[e];
        const Vec6 w = outside ? tip.wrench : Vec6(lambda.segment<6>(6 * e));
        const bool world = outside && tip.world;
        const Mat3 R = world ? Mat3::Identity() : tip.on_body.R;
        system_.loads.push_back({tip.body, tip.on_body.p, stack(R * w.head<3>(), R * w.tail<3>()), world});
        if (outside && tip.held)
            system_.handles.push_back(
                {tip.body, tip.on_body.act(tip.point), tip.target, tip.stiffness, tip.damping});
    }
}

// The tangent with the tips anchored, more so where that is needed for one solution; then B.
void SparseInterior::factorise(Response& response) {
    const int e6 = static_cast<int>(lambda.size());
    response.anchor.setZero();
    double added = 0;
    for (double boost : {1.0, stiffer}) {
        if (downhill && boost == 1) continue;
        for (std::size_t e = 0; e < tips.size(); ++e) {
            auto own = response.anchor.block<6, 6>(6 * e, 6 * e);
            if (added == 0) own = turning(lambda.segment<6>(6 * e));
            own.diagonal() += (boost - added) * anchor.segment<6>(6 * e);
            const Mat6 Ad = adjoint(tips[e].on_body.inverse());
            Mat6 more = (boost - added) * Mat6(anchor.segment<6>(6 * e).asDiagonal());
            if (added == 0) more += turning(lambda.segment<6>(6 * e));
            Eigen::Map<Mat6>(system_.fronts().element(tips[e].body)) += Ad.transpose() * more * Ad;
        }
        added = boost;
        system_.factorise();
        if (!system_.fronts().negative()) break;
    }
    response.negative = system_.fronts().negative();
    for (double shift = 1e-4; downhill && system_.fronts().negative() && shift < 1e3; shift *= 10)
        system_.factorise(shift);
    columns_.leftCols(e6).setZero();
    for (std::size_t e = 0; e < tips.size(); ++e)  // a wrench on the tip, at its body's origin
        columns_.block<6, 6>(6 * tips[e].body, 6 * e) = adjoint(tips[e].on_body.inverse()).transpose();
    scales_ = system_.scales();
}

// Adds a little of the direction that is least stable, by inverse iteration with the shifted tangent.
void SparseInterior::leave_saddle() {
    const int n = system_.unknowns();
    const Eigen::Index last = lambda.size();
    Vector push = Vector::Zero(n);
    for (int axis = 0; axis < system_.axes(); ++axis) push[system_.axis_row(axis)] = axis % 2 ? 1 : -1;
    for (int k = 0; k < 4; ++k) {
        for (int i = 0; i < n; ++i) push[i] *= scales_[i];
        system_.fronts().solve(push.data(), 1);
        for (int i = 0; i < n; ++i) push[i] *= scales_[i];
        const double size = system_.motion_size(push.data());
        if (!(size > 0)) return;
        push /= size;
        if (k == 3) break;
        Vector only = Vector::Zero(n);
        for (int axis = 0; axis < system_.axes(); ++axis) only[system_.axis_row(axis)] = push[system_.axis_row(axis)];
        push = only;
    }
    double down = 0;  // along what balance lacks
    for (int axis = 0; axis < system_.axes(); ++axis)
        down += system_.residual()[system_.axis_row(axis)] * push[system_.axis_row(axis)];
    columns_.col(last) += (down < 0 ? -kick : kick) * push;
}

double SparseInterior::energy() const {
    const double stiff = 1e4 * system_.stiffness_scale, gap = system_.gap_size();
    return system_.strain_energy() + system_.gravity_energy() + 0.5 * stiff * gap * gap;
}

// B^T of the residual, with the first tangent's B: virtual work, where bodies balance and loops do none.
void SparseInterior::project(Vector& onto) const {
    onto.setZero();
    for (int axis = 0; axis < system_.axes(); ++axis) {
        const int row = system_.axis_row(axis);
        onto += system_.residual()[row] * basis_.row(row).transpose();
    }
}

bool SparseInterior::respond(Tangent tangent, const Step* step, Response& response) {
    bool fresh = tangent != Tangent::kept;
    const int e6 = static_cast<int>(lambda.size()), n = system_.unknowns();
    act(false);
    system_.evaluate(fresh);
    changed_ = system_.active() != touching_;
    touching_ = system_.active();
    if (changed_ && !fresh) {  // the tangent of before held other limits
        fresh = true;
        system_.evaluate(true);
    }
    if (fresh) factorise(response);
    for (int i = 0; i < n; ++i) columns_(i, e6) = system_.residual()[i] * scales_[i];
    system_.fronts().solve(fresh ? columns_.data() : columns_.col(e6).data(), fresh ? e6 + 1 : 1);
    const Eigen::Map<const Vector> scales(scales_.data(), n);
    if (fresh) columns_.array().colwise() *= scales.array();
    else columns_.col(e6).array() *= scales.array();
    if (downhill && response.negative) leave_saddle();
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Mat6 Ad = adjoint(tips[e].on_body.inverse());
        const auto rows = columns_.middleRows<6>(6 * tips[e].body);
        if (fresh) response.compliance.middleRows<6>(6 * e) = Ad * rows.leftCols(e6);
        response.drift.segment<6>(6 * e) = Ad * rows.col(e6);
    }
    if (tangent == Tangent::first) {
        basis_ = columns_.leftCols(e6);
        response.left = response.compliance.transpose();
    }
    project(response.unbalance);
    if (step) {
        act(true);
        if (fresh) exact_ = tangent == Tangent::again;
        system_.evaluate(fresh && exact_, step, &stepper_.history);
        project(response.force);
        if (exact_)
            fill_motion(fresh, response);
        else
            fill_inertia(*step, fresh, response);
    }
    return columns_.col(e6).allFinite() && response.compliance.allFinite();
}

void SparseInterior::fill_inertia(const Step& step, bool fresh, Response& response) {
    const int e6 = static_cast<int>(lambda.size());
    const double c = step.c0 / step.h;
    const int first = fresh ? 0 : e6, count = e6 + 1 - first;
    auto part = response.inertia.middleCols(first, count);
    part.setZero();
    for (int b = 0; b < system_.bodies(); ++b) {
        const auto twists = columns_.middleRows<6>(6 * b);
        weighted_.leftCols(count).noalias() = (c * c * mass_[b]) * twists.middleCols(first, count);
        part.noalias() += basis_.middleRows<6>(6 * b).transpose() * weighted_.leftCols(count);
    }
    for (int axis = 0; axis < system_.axes(); ++axis) {
        const double resists = c * (system_.damping[axis] + c * system_.armature[axis]);
        const auto row = columns_.row(system_.axis_row(axis));
        if (resists != 0)
            part.noalias() += resists * (basis_.row(system_.axis_row(axis)).transpose() * row.segment(first, count));
    }
    for (const Spring& spring : system_.springs) {
        if (spring.damping == 0) continue;
        Vector length = Vector::Zero(e6 + 1), along = Vector::Zero(e6);
        for (std::size_t i = 0; i < spring.of.axes.size(); ++i) {
            const int row = system_.axis_row(spring.of.axes[i]);
            length += spring.of.coefficients[i] * columns_.row(row).transpose();
            along += spring.of.coefficients[i] * basis_.row(row).transpose();
        }
        part.noalias() += c * spring.damping * (along * length.segment(first, count).transpose());
    }
}

// All that motion answers with, by the engine's tangent of a time step: for steps that take more than one.
void SparseInterior::fill_motion(bool fresh, Response& response) {
    const Eigen::Index e6 = lambda.size();
    response.left.setZero();
    response.unbalance.setZero();
    for (Eigen::Index c = 0; fresh && c < e6; ++c) system_.carry(basis_.col(c).data());  // as the joints stand now
    const Eigen::Map<const Vector> scales(scales_.data(), scales_.size());
    for (Eigen::Index c = fresh ? 0 : e6; c <= e6; ++c) {
        along_.col(0) = columns_.col(c).cwiseQuotient(scales);
        system_.fronts().multiply(along_.col(0).data(), along_.col(1).data());
        auto onto = response.inertia.col(c);
        onto.noalias() = basis_.topRows(6 * system_.bodies()).transpose() * along_.col(1).head(6 * system_.bodies());
        for (int axis = 0; axis < system_.axes(); ++axis) {
            const int row = system_.axis_row(axis);
            onto += along_(row, 1) * basis_.row(row).transpose();
        }
    }
}

double SparseInterior::move(const Vector& mu, double largest, double& alpha) {
    const Eigen::Index e6 = lambda.size();
    Eigen::Map<Vector> x(x_.data(), x_.size());
    x.noalias() = columns_.leftCols(e6) * mu;
    x += columns_.col(e6);
    const double size = system_.motion_size(x_.data());
    if (!std::isfinite(size)) return size;
    alpha = std::min(1.0, largest / size);
    system_.retract(system_.state, x_.data(), alpha);
    return size;
}

void SparseInterior::predict(double h, double trend) {
    std::fill(x_.begin(), x_.end(), 0.0);
    for (int axis = 0; axis < system_.axes(); ++axis) {
        const double rate = system_.rate[axis];
        x_[system_.axis_row(axis)] = h * (rate + trend * (rate - stepper_.history.rate_before[axis]));
    }
    system_.retract(system_.state, x_.data(), 1.0);
}

void SparseInterior::finish(const Step* step) {
    act(step != nullptr);
    system_.evaluate(false, step, step ? &stepper_.history : nullptr);
}

void SparseInterior::restart() {
    act(false);
    stepper_.start(std::vector<Vec6>(system_.velocity), std::vector<double>(system_.rate));
}

void SparseInterior::keep() {
    kept_ = system_.state;
    kept_lambda_ = lambda;
    kept_velocity_ = system_.velocity;
    kept_momentum_ = system_.momentum;
    kept_rate_ = system_.rate;
}

void SparseInterior::back() {
    system_.state = kept_;
    lambda = kept_lambda_;
    system_.velocity = kept_velocity_;
    system_.momentum = kept_momentum_;
    system_.rate = kept_rate_;
}

void SparseInterior::write_poses(double* rows) const {
    for (int b = 0; b < system_.bodies(); ++b) write(system_.state.H[b], rows + 16 * b);
}

// --- steps and statics ----------------------------------------------------------------------------------------------

void Condensed::prepare() {
    const Eigen::Index n = 6 * static_cast<Eigen::Index>(interior->tips.size());
    for (Matrix* each : {&response_.compliance, &response_.left, &response_.anchor, &small_, &projected_, &derivative_}) each->setZero(n, n);
    response_.inertia.setZero(n, n + 1);
    for (Vector* each : {&response_.drift, &response_.force, &response_.unbalance, &right_, &wrench_,
                         &mu_, &moved_, &soft_, &lambda_before, &interior->lambda})
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
    const double end = time + h, before = time;
    const bool anyhow = patience > 0;
    if (anyhow) --patience;
    if (advance(h, fresh ? 1 : order, anyhow)) return true;
    // set-points that moved, say, left the interior out of balance
    if (relax() == Relaxed::moved && advance(h, 1, false)) return true;
    // the branch of stable states ends within this step
    bool done = advance(h, fresh ? 1 : order, true) || divide(h, 1);
    for (int k = 0; !done && k < 10 && relax() == Relaxed::moved; ++k)
        done = advance(end - time, 1, true) || divide(end - time, 1);
    if (done && !stable() && relax() != Relaxed::moved) patience = patience_limit;
    if (time != before + h) fresh = true;  // substeps leave no even history
    return done;
}

// With the tips held: K + J^T A J then has as many negative pivots as J (K + J^T A J)^-1 J^T has negative eigenvalues.
bool Condensed::stable() {
    if (response_.negative == 0) return true;
    const Vector scale = interior->anchor.cwiseSqrt();
    small_ = scale.asDiagonal() * response_.compliance * scale.asDiagonal();
    spectrum_.compute(small_, Eigen::EigenvaluesOnly);
    return response_.negative <= (spectrum_.eigenvalues().array() < -rounding).count();
}

// Energy of the interior and of the springs that draw the tips to their goals; these springs' wrenches into lambda.
double Condensed::drawn(const std::vector<Pose>& goals) {
    interior->finish(nullptr);
    errors(goals);
    interior->lambda = stiffer * interior->anchor.cwiseProduct(right_);
    return interior->energy() + 0.5 * lambda().dot(right_);
}

// Lets the interior fall to where it is stable, with the tips held: Newton's method on its energy, made definite, downhill
// all the way and off saddles; then the tips exactly. Links keep their velocities.
Condensed::Relaxed Condensed::relax() {
    ++snaps;
    std::vector<Pose> here;
    for (std::size_t e = 0; e < interior->tips.size(); ++e) here.push_back(interior->tip_pose(static_cast<int>(e)));
    interior->keep();
    if (!interior->respond(Tangent::first, nullptr, response_)) return Relaxed::not_found;
    const bool stands = stable();
    aim_at(here);
    const double off = apply(largest_turn);
    interior->back();
    if (stands && off < small_motion) return Relaxed::stayed;
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
        interior->back();
        interior->finish(nullptr);
        interior->back();
        return Relaxed::not_found;
    }
    interior->keep();
    if (!settle([&] { return aim_at(here); }, static_limit) || !stable()) {
        interior->back();
        interior->finish(nullptr);
    }
    interior->restart();
    lambda_before = lambda();
    fresh = true;
    return Relaxed::moved;
}

bool Condensed::divide(double whole, int depth) {
    ++divisions;
    if (depth > halvings) return false;
    for (int half = 0; half < 2; ++half)
        if (!advance(whole / 2, 1, true) && !divide(whole / 2, depth + 1)) return false;
    return true;
}

// `anyhow`: also to an end where the interior is not stable.
bool Condensed::advance(double h_now, int order_now, bool anyhow) {
    const Step step = order_now == 2 ? Step{h_now, 1.5, -2.0, 0.5} : Step{h_now, 1.0, -1.0, 0.0};
    const double rate = step.c0 / step.h;
    interior->keep();
    const Vector before = lambda();
    const bool even = !fresh && h_now == h;
    interior->predict(h_now, even ? (order_now == 2 ? 1.5 : 1.0) : 0.0);
    if (even) interior->lambda += lambda() - lambda_before;

    double last = INFINITY;
    Tangent tangent = Tangent::first;
    for (int k = 0; k < newton_limit; ++k) {
        if (!interior->respond(tangent, &step, response_)) break;
        tangents += tangent != Tangent::kept;
        outside(1, rate);
        // [D + (L + soft)(1 - S C)] mu = F - U - D drift + L S drift + soft (w - lambda + S drift), S = A + dw/dx, L = B^T E
        const Eigen::Index n = mu_.size();
        derivative_ += response_.anchor;
        for (Eigen::Index i = 0; i < n; i += 6)  // what pulls more than balance needs turns with the tip
            derivative_.block<6, 6>(i, i) += 2 * turning(wrench_.segment<6>(i) - lambda().segment<6>(i));
        right_.noalias() = derivative_ * response_.drift;
        mu_ = response_.force - response_.unbalance - response_.inertia.col(n);
        mu_.noalias() += response_.left * right_;
        mu_ += soft_.cwiseProduct(wrench_ - lambda() + right_);
        small_.noalias() = -derivative_ * response_.compliance;
        small_.diagonal().array() += 1;
        projected_.noalias() = response_.left * small_;
        projected_ += soft_.asDiagonal() * small_;
        projected_ += response_.inertia.leftCols(n);
        factors_.compute(projected_);
        mu_ = factors_.solve(mu_).eval();
        const double size = apply(INFINITY);
        if (!(size < largest_turn)) break;
        tangent = size < small_motion && size < 0.1 * last ? Tangent::kept : Tangent::again;
        // with a rate of size / last, the next correction would be this small
        const bool done = size < last_motion || (k > 0 && size * size < last_motion * last);
        last = size;
        if (!done) continue;
        if (!anyhow && !stable()) break;
        interior->finish(&step);
        interior->accept(h_now);
        lambda_before = before;
        time += h_now;
        fresh = false;
        return true;
    }
    interior->back();
    interior->finish(nullptr);
    interior->back();
    return false;
}

// Newton's method on balance alone; `aim` sets `mu_` from the response and returns what else is amiss.
bool Condensed::settle(const std::function<double()>& aim, int limit) {
    for (int k = 0; k < limit; ++k) {
        if (!interior->respond(Tangent::first, nullptr, response_)) return false;
        ++tangents;
        const double amiss = aim();
        const double size = apply(largest_turn);
        if (!std::isfinite(size)) return false;
        if (std::max(size, amiss) < rounding && !(k > 0 && interior->changed())) {
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
    lambda_before = lambda();
    fresh = true;
    return reached;
}

double Condensed::balance() {
    return follow([&](double fraction) {
        return settle([&] {  // lambda + mu - A x = w + dw/dx x with x = drift + C mu
            outside(fraction, 0);
            derivative_ += response_.anchor;
            small_.noalias() = -derivative_ * response_.compliance;
            small_.diagonal().array() += 1;
            right_ = wrench_ - lambda();
            right_.noalias() += derivative_ * response_.drift;
            factors_.compute(small_);
            mu_ = factors_.solve(right_);
            return 0.0;
        }, static_limit);
    });
}

// Springs draw the tips towards their poses, ever stiffer, so that a way leads there; then they are held.
double Condensed::hold(const std::vector<Pose>& poses) {
    if (errors(poses) < close_by) {  // on the present branch, if it leads there
        interior->keep();
        if (settle([&] { return aim_at(poses); }, static_limit)) return 1;
        interior->back();
        interior->finish(nullptr);
    }
    const double reached = follow([&](double fraction) {
        const double stiff = softest_pull * std::pow(stiffest_pull / softest_pull, fraction);
        return settle([&] { return draw(poses, stiff); }, static_limit);
    });
    interior->keep();
    if (reached == 1 && settle([&] { return aim_at(poses); }, static_limit)) return 1;
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
    projected_.noalias() = small_.transpose() * small_;
    projected_.diagonal().array() += 1e-14;
    factors_.compute(projected_);
    mu_ = scale.cwiseProduct(factors_.solve(small_.transpose() * scale.cwiseProduct(right_)));
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
