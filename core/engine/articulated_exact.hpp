// Right-hand sides and solutions of Articulated::substitute: one column, or eight at a time.
#pragma once

#include "engine/articulated_lanes.hpp"

namespace supple {

SUPPLE_INLINE Eight six_lanes(const Vec6& v) { return six_lanes(v.data()); }

SUPPLE_INLINE Eight unit_eight(int lane) {
    Eight v = every(0.0);
    v[lane] = 1;
    return v;
}

struct OneColumn {  // a twist or wrench; lanes beyond the sixth are not read
    using Number = double;
    Eight v = every(0.0);

    SUPPLE_INLINE double product(const Eight& six) const { return sum(six * v); }
    SUPPLE_INLINE void add(double by, const Eight& six) { v += by * six; }
    SUPPLE_INLINE void add(const OneColumn& more) { v += more.v; }
};

struct EightColumns {  // a twist or wrench in each lane
    using Number = Eight;
    Six v = {{every(0.0), every(0.0), every(0.0)}, {every(0.0), every(0.0), every(0.0)}};

    SUPPLE_INLINE Eight product(const Eight& six) const {
        return (six[0] * v.linear.x + six[1] * v.linear.y + six[2] * v.linear.z) +
               (six[3] * v.angular.x + six[4] * v.angular.y + six[5] * v.angular.z);
    }
    SUPPLE_INLINE void add(const Eight& by, const Eight& six) {
        v = v + Six{{six[0] * by, six[1] * by, six[2] * by}, {six[3] * by, six[4] * by, six[5] * by}};
    }
    SUPPLE_INLINE void add(const EightColumns& more) { v = v + more.v; }
};

// Before the solution: minus the right-hand sides. After it: the solution. Wrenches and twists are in world axes about
// the passes' origin.
template <class Column>
struct Articulated::Solution {
    using Number = typename Column::Number;
    std::vector<Column> wrench;  // per node; overwritten by the solution
    std::vector<Column> twist;  // per node
    std::vector<Number> turn;  // of each node's coordinate
    std::vector<Number> ball;  // three for each ball node
    // Three for each ball node: minus the translations of a free joint that is a single node, world axes
    std::vector<Number> shift;
    std::vector<Number> amplitude;  // of flexible bodies
    std::vector<Number> tie;  // multipliers of loops and couplings
    std::vector<Number> locked;  // per node: the given motion of a locked coordinate
    std::vector<Number> reaction;  // per node: the torque that holds a locked coordinate

    // Zero right-hand sides, of all nodes or of the marked ones.
    void prepare(const Articulated& passes, const char* nodes = nullptr) {
        const int n = width * passes.blocks_;
        const Number zero = Number{} * 0.0;
        wrench.resize(n);
        twist.resize(n);
        turn.resize(n);
        locked.resize(n);
        reaction.resize(n);
        for (int i = 0; i < n; ++i)
            if (!nodes || (i < static_cast<int>(passes.nodes_.size()) && nodes[i])) {
                wrench[i] = {};
                turn[i] = locked[i] = zero;
            }
        ball.assign(3 * passes.balls_.size(), zero);
        shift.assign(3 * passes.balls_.size(), zero);
        amplitude.assign(passes.amplitudes_, zero);
        tie.assign(passes.tie_rows_, zero);
    }
};

}  // namespace supple
