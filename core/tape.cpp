#include "tape.hpp"

namespace supple {

namespace {

bool same(const Load& a, const Load& b) {
    return a.body == b.body && a.point == b.point && a.wrench == b.wrench && a.world == b.world;
}

bool same(const Handle& a, const Handle& b) {
    return a.body == b.body && a.point == b.point && a.target == b.target && a.stiffness == b.stiffness &&
           a.damping == b.damping;
}

template <class T>
bool all_same(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (!same(a[i], b[i])) return false;
    return true;
}

}  // namespace

Tape::Tape(const System& system, const History& history, double time, bool looks_back_)
    : looks_back(looks_back_), velocity(system.velocity), rate(system.rate), gravity(system.gravity) {
    set_inputs(system, {});
    TapeRecord start = record(system);
    start.time = time;
    start.momentum = history.momentum;
    start.p = history.p;
    TapeRecord before = start;
    if (looks_back) {  // the pose of the step before, from what the history has of it
        before.q = history.q_before;
        before.p = history.p_before;
        before.momentum = history.momentum_before;
        for (int b = 0; b < system.bodies(); ++b) {
            Pose& H = before.H[b];
            H.R = start.H[b].R * so3_exp(-history.turn[b]);
            H.p = history.centre_before[b] - H.R * system.centre[b];
        }
    }
    records.push_back(std::move(before));
    records.push_back(std::move(start));
    ends.push_back(1);
}

void Tape::set_inputs(const System& system, const std::vector<int>& driven) {
    std::vector<double> spring_rest;
    for (const Spring& spring : system.springs) spring_rest.push_back(spring.rest);
    if (inputs_ && inputs_->rest == system.rest && inputs_->spring_rest == spring_rest && inputs_->driven == driven &&
        all_same(inputs_->loads, system.loads) && all_same(inputs_->handles, system.handles))
        return;
    inputs_ = std::make_shared<TapeInputs>(
        TapeInputs{system.rest, std::move(spring_rest), system.loads, system.handles, driven});
}

TapeRecord Tape::record(const System& system) const {
    TapeRecord result;
    result.q = system.state.q;
    result.mu = system.state.mu;
    result.H = system.state.H;
    for (const Row& row : system.rows) result.targets.push_back(row.lower);
    result.active.assign(system.active().begin(), system.active().end());
    for (std::size_t j = 0; j < system.joints.size(); ++j)
        if (system.joints[j].outer < 0) result.loop_lambda.push_back(system.state.lambda[j]);
    result.inputs = inputs_;
    return result;
}

void Tape::add(const System& system, const History& history, const Step& step, double time, double share, bool impact) {
    TapeRecord result = record(system);
    result.step = step;
    result.time = time;
    result.share = share;
    result.index = steps_ + 1;
    result.impact = impact;
    result.momentum = history.momentum;
    result.p = history.p;
    records.push_back(std::move(result));
    if (share < 1) return;
    ++steps_;
    ends.push_back(static_cast<int>(records.size()) - 1);
}

void Tape::drop_unfinished() { records.resize(ends.back() + 1); }

std::size_t Tape::bytes() const {
    std::size_t sum = 0;
    for (const TapeRecord& r : records)
        sum += sizeof(TapeRecord) + sizeof(double) * (r.q.size() + r.mu.size() + r.p.size() + r.targets.size()) +
               r.active.size() + sizeof(Pose) * r.H.size() + sizeof(Vec6) * (r.momentum.size() + r.loop_lambda.size());
    return sum;
}

}  // namespace supple
