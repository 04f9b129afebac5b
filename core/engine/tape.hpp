// A record of accepted time steps: coordinates and multipliers at the end of each of them, from which the sweeps of
// Adjoint rebuild poses, momenta and wrenches.
#pragma once

#include <vector>

#include "engine/state.hpp"
#include "engine/system.hpp"

namespace supple {

// Inputs that a user may change between time steps.
struct TapeInputs {
    std::vector<double> rest, spring_rest, applied;
    std::vector<Load> loads;
    std::vector<Handle> handles;
    std::vector<int> driven;  // rows whose targets move linearly through a divided step
};

struct TapeRecord {
    Step step;  // the differences of the step that ends here
    double time = 0;
    double share = 1;  // of the time step that has passed; below 1 inside a divided step
    int index = 0;  // of the time step that the record belongs to, from 1; 0 at the start
    int inputs = 0;  // place in the tape's list of inputs
    bool impact = false;  // a limit was met or left
};

class Tape {
   public:
    // Starts at the system's state. `uses_two_steps`: the next step uses both steps of the history. `loops`: joints
    // whose wrenches are recorded, those that close loops.
    Tape(const System& system, const History& history, double time, bool uses_two_steps, std::vector<int> loops);

    // Called before each step: the inputs, and the rows that are driven.
    void set_inputs(const System& system, const std::vector<int>& driven);
    // Appends the end of a step or of a part of one, when `share` of the time step has passed. `system` has the
    // coordinates of the state.
    void record(const Step& step, double share, const System& system, const StateLayout& layout, const State& state);
    // Removes the parts of a divided step that failed.
    void drop_unfinished();

    int steps() const { return static_cast<int>(ends.size()) - 1; }
    std::size_t bytes() const;

    // numbers of a record
    double* q(int record) { return &numbers_[record * stride_]; }
    double* mu(int record) { return q(record) + axes_; }
    // Of every row: the lower limit, or the value of an equality
    double* targets(int record) { return mu(record) + rows_; }
    double* lambda(int record) { return targets(record) + rows_; }  // six for each of `loops`
    signed char* active(int record) { return &active_[static_cast<std::size_t>(record) * rows_]; }
    const double* q(int record) const { return const_cast<Tape*>(this)->q(record); }
    const double* mu(int record) const { return const_cast<Tape*>(this)->mu(record); }
    const double* targets(int record) const { return const_cast<Tape*>(this)->targets(record); }
    const double* lambda(int record) const { return const_cast<Tape*>(this)->lambda(record); }
    const signed char* active(int record) const { return const_cast<Tape*>(this)->active(record); }
    const TapeInputs& inputs(int record) const { return inputs_[records[record].inputs]; }
    int axes() const { return axes_; }
    int rows() const { return rows_; }

    // records[0] is the state one step before the start (the start itself where the first step uses one state),
    // records[1] the start
    std::vector<TapeRecord> records;
    std::vector<int> ends;  // the record at the start and at the end of each time step
    std::vector<int> loops;
    std::vector<Vec6> velocity;  // at the start
    // of the first two records:
    std::vector<double> rate[2];  // of the increments
    std::vector<Vec6> momentum[2];
    std::vector<double> p[2];  // armature momenta
    std::vector<FlexibleState> flexible[2];
    bool uses_two_steps = false;
    bool driven = false;  // an actuator acted that the derivatives do not cover
    bool softened = false;  // limits that contradict each other gave way, which the derivatives do not cover
    Vec3 gravity = Vec3::Zero();

   private:
    int add(const Step& step, double time, double share, bool impact);  // without numbers

    int axes_, rows_;
    std::size_t stride_;
    std::vector<double> numbers_;
    std::vector<signed char> active_;
    std::vector<TapeInputs> inputs_;
};

}  // namespace supple
