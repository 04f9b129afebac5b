#include "engine/tape.hpp"

#include <algorithm>

namespace supple {

namespace {

bool is_equal(const Load& a, const Load& b) {
    return a.body == b.body && a.point == b.point && a.wrench == b.wrench && a.world == b.world;
}

bool is_equal(const Handle& a, const Handle& b) {
    return a.body == b.body && a.point == b.point && a.target == b.target && a.stiffness == b.stiffness &&
           a.damping == b.damping;
}

template <class T>
bool are_equal(const std::vector<T>& a, const std::vector<T>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return is_equal(x, y); });
}

}  // namespace

Tape::Tape(const System& system, const History& history, double time, bool uses_two_steps_, std::vector<int> loops_)
    : loops(std::move(loops_)),
      velocity(system.velocity),
      uses_two_steps(uses_two_steps_),
      gravity(system.gravity),
      axes_(system.axes()),
      rows_(static_cast<int>(system.model().rows.size())),
      stride_(axes_ + 2 * rows_ + 6 * loops.size()) {
    set_inputs(system, {});
    for (int record = 0; record < 2; ++record) {
        const bool is_before = record == 0 && uses_two_steps;
        add({}, time, 1, false);
        std::copy(system.state.q.begin(), system.state.q.end(), q(record));
        std::copy(system.state.mu.begin(), system.state.mu.end(), mu(record));
        std::copy(system.targets.begin(), system.targets.end(), targets(record));
        std::copy(system.active().begin(), system.active().end(), active(record));
        for (std::size_t i = 0; i < loops.size(); ++i)
            Eigen::Map<Vec6>(lambda(record) + 6 * i) = system.state.lambda[loops[i]];
        if (is_before) std::copy(history.q_before.begin(), history.q_before.end(), q(record));
        rate[record] = is_before ? history.rate_before : system.rate;
        momentum[record] = is_before ? history.momentum_before : history.momentum;
        p[record] = is_before ? history.p_before : history.p;
        flexible[record] = is_before ? history.flexible_before : history.flexible;
        records[record].index = 0;
    }
    ends = {1};
}

void Tape::set_inputs(const System& system, const std::vector<int>& driven) {
    if (!inputs_.empty()) {
        const TapeInputs& last = inputs_.back();
        if (last.rest == system.rest && last.applied == system.applied && last.driven == driven &&
            are_equal(last.loads, system.loads) && last.spring_rest == system.spring_rest &&
            are_equal(last.handles, system.handles))
            return;
    }
    inputs_.push_back({system.rest, system.spring_rest, system.applied, system.loads, system.handles, driven});
}

int Tape::add(const Step& step, double time, double share, bool impact) {
    const int record = static_cast<int>(records.size());
    records.push_back({step, time, share, static_cast<int>(ends.size()), static_cast<int>(inputs_.size()) - 1, impact});
    numbers_.resize(numbers_.size() + stride_);
    active_.resize(active_.size() + rows_);
    if (share == 1) ends.push_back(record);
    return record;
}

void Tape::record(const Step& step, double share, const System& system, const StateLayout& layout, const State& state) {
    const int record = add(step, state.time, share, state.fresh);
    std::copy(system.state.q.begin(), system.state.q.end(), q(record));
    std::copy(state.mu.begin(), state.mu.end(), mu(record));
    std::copy(system.targets.begin(), system.targets.end(), targets(record));
    std::copy(state.active.begin(), state.active.end(), active(record));
    layout.loop_wrenches(system.model(), state, lambda(record));
}

void Tape::drop_unfinished() {
    records.resize(ends.back() + 1);
    numbers_.resize(records.size() * stride_);
    active_.resize(records.size() * rows_);
}

std::size_t Tape::bytes() const {
    std::size_t sum = sizeof(TapeRecord) * records.size() + sizeof(double) * numbers_.size() + active_.size();
    for (const TapeInputs& in : inputs_)
        sum += sizeof(TapeInputs) + sizeof(double) * (in.rest.size() + in.spring_rest.size() + in.applied.size()) +
               sizeof(Load) * in.loads.size() + sizeof(Handle) * in.handles.size() + sizeof(int) * in.driven.size();
    return sum;
}

}  // namespace supple
