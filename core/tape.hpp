// A record of accepted time steps: everything needed to rebuild the equations at the end of each of them.
#pragma once

#include <memory>
#include <vector>

#include "system.hpp"

namespace supple {

// What a user may change between time steps.
struct TapeInputs {
    std::vector<double> rest, spring_rest;
    std::vector<Load> loads;
    std::vector<Handle> handles;
    std::vector<int> driven;  // rows whose targets move linearly through a divided step
};

struct TapeRecord {
    Step step;                          // the differences that led here
    double time = 0;
    int index = 0;                      // of the time step that it belongs to, from 1; 0 at the start
    double share = 1;                   // of that time step that has passed; below 1 inside a divided step
    bool impact = false;                // a limit was met or left
    std::vector<double> q, mu, p;       // coordinates, multipliers of rows, armature momenta
    std::vector<double> targets;        // of every row: the lower limit, or the value of an equality
    std::vector<signed char> active;    // of every row
    std::vector<Pose> H;
    std::vector<Vec6> momentum;
    std::vector<Vec6> loop_lambda;      // multipliers of the loop joints, in the order of the joints
    std::shared_ptr<const TapeInputs> inputs;
};

class Tape {
   public:
    // Starts at the system's state. `looks_back`: the next step uses both steps of the history.
    Tape(const System& system, const History& history, double time, bool looks_back);

    // Before each call of the stepper: what acts, and the rows that are driven.
    void set_inputs(const System& system, const std::vector<int>& driven);
    // The state at the end of a step or of a part of one; `share` of the time step has passed.
    void add(const System& system, const History& history, const Step& step, double time, double share, bool impact);
    // Removes the parts of a divided step that failed.
    void drop_unfinished();

    int steps() const { return steps_; }
    std::size_t bytes() const;  // of all records

    // records[0] is the state before the start (or the start again), records[1] the start
    std::vector<TapeRecord> records;
    std::vector<int> ends;        // the record at the start and at the end of each time step
    bool looks_back = false;
    std::vector<Vec6> velocity;   // at the start
    std::vector<double> rate;     // at the start, of the increments
    Vec3 gravity = Vec3::Zero();

   private:
    TapeRecord record(const System& system) const;

    std::shared_ptr<const TapeInputs> inputs_;
    int steps_ = 0;
};

}  // namespace supple
