// The interior of any mechanism, by the engine's equations and their sparse tangent.
#include <algorithm>
#include <cmath>

#include "condensed/condensed.hpp"

namespace supple {

namespace {
constexpr double negligible_motion = 1e-7;  // largest motion by `remove_null_space`, rad or radii; as a step's last correction
constexpr double motor_moved = 1e-6;  // rad or m between a motor's position and its coordinate
}

SparseInterior::SparseInterior(TipSet& tips, System& system, Stepper& stepper)
    : Interior(tips), system_(system), stepper_(stepper) {}

void SparseInterior::start() {
    act(false);
    stepper_.start(std::vector<Vec6>(system_.model().mass.size(), Vec6::Zero()), std::vector<double>(system_.axes(), 0.0));
    touching_ = system_.active();
    x_.resize(system_.unknowns());
    rows_.resize(system_.model().rows.size());
    columns_.setZero(system_.unknowns(), lambda.size() + 2);
    along_.setZero(system_.unknowns(), 2);
}

Vec6 SparseInterior::tip_velocity(int e) const {
    const Vec6& twist = system_.velocity[tips[e].body];
    const Mat3& R = system_.state.H[tips[e].body].R;
    return stack(R * (twist.head<3>() + twist.tail<3>().cross(tips[e].on_body.p)), R * twist.tail<3>());
}

// Sets the loads of the engine: the applied wrenches, or those that hold the tips.
void SparseInterior::act(bool outside) {
    system_.loads.clear();
    system_.handles.clear();
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const EndEffector& tip = tips[e];
        const Vec6 w = outside ? tip.wrench : Vec6(lambda.segment<6>(6 * e));
        const bool world = outside && tip.world;
        const Mat3 R = world ? Mat3::Identity() : tip.on_body.R;
        system_.loads.push_back({tip.body, tip.on_body.p, stack(R * w.head<3>(), R * w.tail<3>()), world});
        if (!outside) continue;
        for (const auto& [point, wrench] : tip.contacts) system_.loads.push_back({tip.body, tip.on_body.act(point), wrench, true});
        if (tip.has_handle)
            system_.handles.push_back(
                {tip.body, tip.on_body.act(tip.point), tip.target, tip.stiffness, tip.damping});
    }
}

// Factorises the tangent with anchored tips, with stiffer anchors if it has negative pivots; then sets the right-hand sides of B.
void SparseInterior::factorise(Response& response) {
    const int e6 = static_cast<int>(lambda.size());
    response.anchor.setZero();
    double added = 0;
    for (double boost : {1.0, anchor_boost}) {
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
        columns_.block<6, 6>(system_.twist_row(tips[e].body), 6 * e) = adjoint(tips[e].on_body.inverse()).transpose();
    scales_ = system_.scales();
}

// Adds a small step along the least stable direction (by inverse iteration with the shifted tangent) to the correction.
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
    double down = 0;  // work of the residual along the direction
    for (int axis = 0; axis < system_.axes(); ++axis)
        down += system_.residual()[system_.axis_row(axis)] * push[system_.axis_row(axis)];
    columns_.col(last) += (down < 0 ? -saddle_kick : saddle_kick) * push;
}

double SparseInterior::energy() const {
    const double stiff = 1e4 * system_.model().stiffness_scale, gap = system_.gap_size();
    return system_.strain_energy() + system_.gravity_energy() + 0.5 * stiff * gap * gap;
}

// Virtual work of the residual along the first tangent's basis B. Only coordinates contribute: bodies are balanced, and
// constraint forces of loops do no work.
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
    if (changed_ && !fresh) {  // the previous tangent has other active limits
        fresh = true;
        system_.evaluate(true);
    }
    if (fresh) factorise(response);
    const Eigen::Map<const Vector> scales(scales_.data(), n);
    columns_.col(e6) = Eigen::Map<const Vector>(system_.residual().data(), n);
    if (fresh) system_.null_space_rhs(columns_.col(e6 + 1).data());
    columns_.middleCols(e6, fresh ? 2 : 1).array().colwise() *= scales.array();
    system_.fronts().solve(fresh ? columns_.data() : columns_.col(e6).data(), fresh ? e6 + 2 : 1);
    if (fresh) columns_.array().colwise() *= scales.array();
    else columns_.col(e6).array() *= scales.array();
    if (downhill && response.negative) leave_saddle();
    for (std::size_t e = 0; e < tips.size(); ++e) {
        const Mat6 Ad = adjoint(tips[e].on_body.inverse());
        const auto rows = columns_.middleRows<6>(system_.twist_row(tips[e].body));
        if (fresh) response.compliance.middleRows<6>(6 * e) = Ad * rows.leftCols(e6);
        response.drift.segment<6>(6 * e) = Ad * rows.col(e6);
    }
    if (tangent == Tangent::first) {
        basis_ = columns_.leftCols(e6);
        response.left = response.compliance.transpose();
    }
    if (step) {
        act(true);
        system_.evaluate(fresh, step, &stepper_.history);
        project(response.force);
        response.whole = true;
        fill_motion(fresh, response);
    }
    return columns_.col(e6).allFinite() && response.compliance.allFinite();
}

// The complete tangent of motion, by the engine's tangent of a time step.
void SparseInterior::fill_motion(bool fresh, Response& response) {
    const Eigen::Index e6 = lambda.size();
    for (Eigen::Index c = 0; fresh && c < e6; ++c) system_.carry(basis_.col(c).data());  // twists at the present pose
    for (std::size_t e = 0; e < tips.size(); ++e)
        response.left.middleCols<6>(6 * e) =
            (adjoint(tips[e].on_body.inverse()) * basis_.middleRows<6>(system_.twist_row(tips[e].body))).transpose();
    const std::vector<double> elements = system_.scales();  // not those of the factorised matrix of balance
    const Eigen::Map<const Vector> scales(elements.data(), elements.size());
    const System::Range twists = system_.twists();
    for (Eigen::Index c = fresh ? 0 : e6; c <= e6; ++c) {
        along_.col(0) = columns_.col(c).cwiseQuotient(scales);
        system_.fronts().multiply(along_.col(0).data(), along_.col(1).data());
        auto onto = response.inertia.col(c);
        onto.noalias() = basis_.middleRows(twists.start, twists.size).transpose() * along_.col(1).segment(twists.start, twists.size);
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
    std::vector<double>& q = system_.state.q;
    for (std::size_t r = 0; r < rows_.size(); ++r) rows_[r] = system_.model().rows[r].of.value(q);
    system_.retract(system_.state, x_.data(), alpha);
    for (std::size_t r = 0; r < rows_.size() && step_in_torque; ++r) {
        const Row& row = system_.model().rows[r];
        if (!system_.is_stop(static_cast<int>(r))) continue;
        const double value = row.of.value(q), more = row.pushed_to(rows_[r], value) - value;
        double square = 0;
        for (double c : row.of.coefficients) square += c * c;
        for (std::size_t i = 0; i < row.of.axes.size(); ++i) q[row.of.axes[i]] += more / square * row.of.coefficients[i];
    }
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

void SparseInterior::start_motor_travel() {
    motor_travel_.clear();
    for (std::size_t r = 0; r < system_.model().rows.size(); ++r) {
        const Row& row = system_.model().rows[r];
        const double position = row.of.value(system_.state.q);
        const double target = system_.targets[r];
        if (row.equality && std::abs(target - position) > motor_moved) motor_travel_.push_back({static_cast<int>(r), position, target});
    }
}

void SparseInterior::move_motors(double part) {
    for (const MotorTravel& travel : motor_travel_) {
        system_.targets[travel.row] = part < 1 ? travel.from + part * (travel.to - travel.from) : travel.to;
        ++system_.input_changes;
    }
}

void SparseInterior::finish(const Step* step) {
    if (step) {
        system_.remove_null_space(columns_.rightCols(1).data(), negligible_motion);
        columns_.rightCols(1).setZero();
    }
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

void SparseInterior::restore_kept() {
    system_.state = kept_;
    lambda = kept_lambda_;
    system_.velocity = kept_velocity_;
    system_.momentum = kept_momentum_;
    system_.rate = kept_rate_;
}

void SparseInterior::save(Moment moment) {
    saved_[moment] = {system_.state, system_.velocity, system_.momentum, system_.rate, stepper_.history};
}

void SparseInterior::restore(Moment moment) {
    const auto& saved = saved_[moment];
    system_.state = saved.state;
    system_.velocity = saved.velocity;
    system_.momentum = saved.momentum;
    system_.rate = saved.rate;
    stepper_.history = saved.history;
}

void SparseInterior::write_poses(double* rows) const {
    for (int b = 0; b < system_.bodies(); ++b) write(system_.state.H[b], rows + 16 * b);
}

}  // namespace supple
