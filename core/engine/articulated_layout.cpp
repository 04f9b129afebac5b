// Constants of the nodes eight abreast, places of the tie multipliers in the fronts, and inputs that change between
// steps.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "engine/articulated.hpp"

namespace supple {

void Articulated::lay_out_nodes() {
    const int n = static_cast<int>(nodes_.size());
    flexible_of_.assign(n, -1);
    interface_of_.assign(n, -1);
    for (std::size_t f = 0; f < flexible_.size(); ++f) {
        flexible_of_[flexible_[f].node] = static_cast<int>(f);
        for (std::size_t k = 0; k < flexible_[f].interfaces.size(); ++k) {
            flexible_of_[flexible_[f].interfaces[k].node] = static_cast<int>(f);
            interface_of_[flexible_[f].interfaces[k].node] = static_cast<int>(k);
        }
    }
    ball_of_.assign(n, -1);
    for (int i = 0; i < n; ++i) {
        if (nodes_[i].size != 3) continue;
        const int index = ball_of_[i] = static_cast<int>(balls_.size());
        BallNode& node = balls_.emplace_back();
        node.index = index;
        node.node = i;
        node.axis = nodes_[i].axis;
        node.sign = nodes_[i].sign;
        node.shift_axis = nodes_[i].shift_axis;
        for (int a = node.shift_axis; a >= 0 && a < node.shift_axis + 3; ++a) node.sprung = node.sprung || acted_on_[a];
        node.t.setZero();
        node.shift.setZero();
        node.rotation.setIdentity();
    }

    flags_.assign(n, 0);
    based_.assign(n, 0);
    for (int i = 0; i < n; ++i) {
        const int parent = nodes_[i].parent;
        based_[i] = parent < grounded_;
        if (parent < 0) flags_[i] |= rooted;
        if (nodes_[i].size == 3) flags_[i] |= ball;
        if (flexible_of_[i] >= 0) flags_[i] |= interface_of_[i] < 0 ? flexes : attached;
        if (parent >= 0 && parent != i - 1) {
            flags_[i] |= branches;
            if (!(flags_[parent] & joins)) joined_.push_back(parent);
            flags_[parent] |= joins;
        }
        if (parent >= 0 && parent == i - 1) flags_[parent] |= chained;  // its next node is its child
    }

    blocks_ = (n + width - 1) / width;
    fixed_.assign(blocks_, Fixed{});
    present_.assign(blocks_, Present{});
    eliminated_.assign(n, Eliminated{});
    summed_.assign(n, Summed{});
    outward_.assign(n, Eight{});
    correction_.assign(width * blocks_, 0.0);
    rho_.assign(width * blocks_, 0.0);
    extra_torque_.assign(width * blocks_, 0.0);
    unresisted_.assign(width * blocks_, 0.0);
    const System& s = *system_;
    for (int i = 0; i < width * blocks_; ++i) {
        Fixed& fixed = fixed_[i / width];
        const int l = i % width;
        const Node node = i < n ? nodes_[i] : Node{};
        for (int c = 0; c < 3; ++c) {
            for (int r = 0; r < 3; ++r) fixed.frame[3 * c + r][l] = node.frame.R(r, c);
            fixed.frame[9 + c][l] = node.frame.p[c];
            present_[i / width].R[4 * c][l] = 1;
        }
        fixed.turns[l] = node.turns;
        fixed.slides[l] = node.slides;
        if (node.body >= 0) {
            const Vec3 centre = node.body_in_node.act(s.model().group_centre[node.body]);
            const Mat3 inertia = node.body_in_node.R * s.model().group_inertia[node.body] *
                                 node.body_in_node.R.transpose();
            const double six[] = {inertia(0, 0), inertia(1, 1), inertia(2, 2),
                                  inertia(0, 1), inertia(0, 2), inertia(1, 2)};
            fixed.mass[l] = s.model().group_mass[node.body];
            for (int c = 0; c < 3; ++c) fixed.centre[c][l] = centre[c];
            for (int c = 0; c < 6; ++c) fixed.inertia[c][l] = six[c];
        }
        if (node.size != 1) {
            fixed.stiffness[l] = 1;  // a pivot for lanes without a coordinate
            continue;
        }
        fixed.free[l] = 1;
        fixed.stiffness[l] = s.model().stiffness[node.axis];
        fixed.damping[l] = s.model().damping[node.axis];
        fixed.armature[l] = s.model().armature[node.axis];
        if (s.model().curve[node.axis] >= 0) curves_.emplace_back(i, s.model().curve[node.axis]);
        for (std::size_t a = 0; a < s.model().actuators.size(); ++a)
            if (s.model().actuators[a].axis == node.axis) actuators_.emplace_back(i, static_cast<int>(a));
        // massless axes of a loop joint: only the loop gives them stiffness
        if (node.body < 0 && s.model().stiffness[node.axis] == 0 && s.model().damping[node.axis] == 0 &&
            s.model().armature[node.axis] == 0)
            for (const Loop& loop : loops_)
                if (s.model().joints[loop.joint].first <= node.axis &&
                    node.axis < s.model().joints[loop.joint].first + s.model().joints[loop.joint].count)
                    unresisted_[i] = 1;
    }
    for (std::size_t k = 0, of_node = 0; k < actuators_.size(); ++k) {
        const auto [node, actuator] = actuators_[k];
        of_node = k > 0 && actuators_[k - 1].first == node ? of_node + 1 : 0;
        std::size_t at = 0;  // of the node's block, the drives with a free lane
        for (std::size_t skip = of_node; at < drives_.size() && (drives_[at].block != node / width || skip-- > 0);)
            ++at;
        if (at == drives_.size()) {
            drives_.emplace_back().block = node / width;
            drives_.back().actuator.fill(-1);
        }
        drives_[at].actuator[node % width] = actuator;
    }
}

// Slots of the nodes; behind them come those of the coordinates of loop joints without nodes, if these are needed.
void Articulated::lay_out_state() {
    const Model& model = system_->model();
    StateLayout& to = layout_;
    to.size = static_cast<int>(nodes_.size());
    to.body = body_node_;
    to.in_slot = in_node_;
    to.axis.assign(model.axes(), -1);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (nodes_[i].size == 1) to.axis[nodes_[i].axis] = static_cast<int>(i);
    for (const BallNode& node : balls_) to.balls.push_back({node.axis, node.shift_axis});
    to.flexible.resize(flexible_.size());
    for (const FlexibleNode& each : flexible_)
        for (const Attachment& interface : each.interfaces)
            to.flexible[each.index].copies.push_back(model.joints[interface.joint].first);
    to.loops.assign(loops_.begin(), loops_.end());
    for (const Loop& loop : loops_) to.loop_rows += loop.rows;
    for (const Bushing& bushing : bushings_) to.bushings.push_back({bushing.joint, bushing.axis});
    to.copy_rows = copy_rows_;
    to.amplitude_axis = amplitude_axis_;
    to.couplings = static_cast<int>(couplings_.size());
    for (int j : to.loop_joints()) to.own_tree = to.own_tree || model.joints[j].outer >= 0;
    to.finish(model);
}

void Articulated::lay_out_fronts() {
    const int n = static_cast<int>(nodes_.size());
    std::vector<int> depth(n, 0);
    for (int i = 1; i < n; ++i) depth[i] = depth[nodes_[i].parent] + 1;
    auto meet = [&](int a, int b) {
        while (a != b) {
            int& deeper = depth[a] >= depth[b] ? a : b;
            deeper = nodes_[deeper].parent;
        }
        return a;
    };
    // The multipliers of ties between interfaces of one flexible body are eliminated after its amplitudes.
    auto beyond_amplitudes = [&](int i) { return flexible_of_[i] >= 0 && interface_of_[i] < 0 ? nodes_[i].parent : i; };
    std::vector<std::vector<int>> open(n), own(n);
    // Adds rows to the nodes of a path, unless they have them already
    auto carry = [&](int from, int top, int first, int rows) {
        for (int i = from; i != top; i = nodes_[i].parent) {
            if (std::find(open[i].begin(), open[i].end(), first) != open[i].end()) break;
            for (int r = 0; r < rows; ++r) open[i].push_back(first + r);
        }
    };
    for (const Loop& loop : loops_) {
        const int top = beyond_amplitudes(meet(loop.slot[0], loop.slot[1]));
        for (int slot : loop.slot) carry(slot, top, loop.first, loop.rows);
        for (int r = 0; r < loop.rows; ++r) own[top].push_back(loop.first + r);
    }
    for (const Coupling& coupling : couplings_) {
        if (coupling.idle < 0) continue;
        int top = nodes_[coupling.nodes[0]].parent;
        for (int node : coupling.nodes) top = meet(top, nodes_[node].parent);
        top = beyond_amplitudes(top);
        for (int node : coupling.nodes) carry(node, top, coupling.row, 1);
        own[top].push_back(coupling.row);
    }

    fronts_.clear();
    front_of_.assign(n, -1);
    std::size_t size = 0;
    auto place = [&](std::size_t count) {
        const std::size_t at = size;
        size += count;
        return at;
    };
    for (int i = 0; i < n; ++i) {
        if (open[i].empty() && own[i].empty()) continue;
        Front front;
        front.node = i;
        const int m = front.open = static_cast<int>(open[i].size()), t = front.own = static_cast<int>(own[i].size());
        front.rows = open[i];
        front.rows.insert(front.rows.end(), own[i].begin(), own[i].end());
        front.lanes = columns_of(open[i]);
        front.chunks = m == 0 ? 0 : padded_chunks(front.lanes.back() / width + 1);
        front.own_chunks = (t + width - 1) / width;
        if (front.chunks + front.own_chunks > most_chunks) uncovered_ = "too many loops around one body";
        const std::size_t own_chunks = front.own_chunks, wide = 1 + front.chunks;
        front.inverse = place(t * own_chunks);
        front.part = place(wide);
        front.upart = place(wide);
        front.coupled = place(front.chunks);
        front.X = place(width * own_chunks * wide);
        front.Y = place(width * own_chunks * wide);
        front_of_[i] = static_cast<int>(fronts_.size());
        fronts_.push_back(front);
    }
    for (Front& front : fronts_) front.step = place(front.own_chunks);
    std::vector<std::pair<std::size_t, double>> coefficients;  // of couplings
    for (Front& front : fronts_) {
        if (front.open > 0) {
            front.parent = front_of_[nodes_[front.node].parent];
            place_in_parent(front);
        }
        const int k = front_of_[front.node];
        const bool alone = front.node + 1 < n && nodes_[front.node + 1].parent == front.node &&
                           front_of_[front.node + 1] == k + 1 &&
                           std::count_if(nodes_.begin(), nodes_.end(),
                                         [&](const Node& node) { return node.parent == front.node; }) == 1;
        front.continued = alone && front.own == 0 && flexible_of_[front.node] < 0 &&
                          fronts_[k + 1].open == front.open &&
                          std::equal(front.rows.begin(), front.rows.end(), fronts_[k + 1].rows.begin());
        for (LoopEnd& end : ends_[front.node]) end.place = column_in(front, loops_[end.loop].first);
        for (const Coupling& coupling : couplings_)
            for (std::size_t q = 0; q < coupling.nodes.size(); ++q)
                if (coupling.idle >= 0 && coupling.nodes[q] == front.node)
                    coefficients.emplace_back(width * front.coupled + column_in(front, coupling.row).at,
                                              coupling.coefficients[q]);
    }
    lay_out_flexible();
    for (BallNode& node : balls_) {
        const int chunks = front_of_[node.node] < 0 ? 0 : fronts_[front_of_[node.node]].chunks;
        node.parts = place(3 * chunks);
        node.uparts = place(3 * chunks);
    }
    // One more vector: a row that is added may reach behind the last one
    numbers_.assign(size + lay_out_rows(size) + 1, Eight{});
    for (const auto& [at, coefficient] : coefficients) reinterpret_cast<double*>(numbers_.data())[at] += coefficient;
    for (int i = 0; i < n; ++i)
        flags_[i] = static_cast<unsigned char>(front_of_[i] >= 0 ? flags_[i] | fronted : flags_[i] & ~fronted);
    int first = 0;
    while (first < grounded_ && !(flags_[first] & fronted)) ++first;
    first_block_ = std::min(first, n - 1) / width;
    std::fill(tie_step_.begin(), tie_step_.end(), 0.0);
}

// Columns of open rows. Those of a loop are in one vector where that takes no more vectors: then whole vectors are
// added to the parent's.
std::vector<int> Articulated::columns_of(const std::vector<int>& open) const {
    std::vector<int> lanes, packed(open.size());
    std::iota(packed.begin(), packed.end(), 0);
    auto rows_together = [&](int row) {
        for (const Loop& loop : loops_)
            if (loop.first == row) return loop.rows;
        return 1;
    };
    int next = 0;
    for (std::size_t k = 0; k < open.size();) {
        const int rows = rows_together(open[k]);
        if (next / width != (next + rows - 1) / width) next += width - next % width;
        for (int r = 0; r < rows; ++r, ++k) lanes.push_back(next++);
    }
    return open.empty() || lanes.back() / width > packed.back() / width ? packed : lanes;
}

Articulated::Front::Place Articulated::column_in(const Front& front, int row) {
    const int at = static_cast<int>(std::find(front.rows.begin(), front.rows.end(), row) - front.rows.begin());
    return at < front.open ? Front::Place{false, front.lanes[at]} : Front::Place{true, at - front.open};
}

// Where the rows and columns of a front are in that of its parent, and where the corrections of its open multipliers
// come from.
void Articulated::place_in_parent(Front& front) const {
    const Front& next = fronts_[front.parent];
    for (int k = 0; k < front.open; ++k) {
        const int at = static_cast<int>(std::find(next.rows.begin(), next.rows.end(), front.rows[k]) -
                                        next.rows.begin());
        front.place.push_back({at >= next.open, at < next.open ? at : at - next.open});
    }
    for (int k = 0; k < front.open;) {  // columns with a constant offset within a vector
        const int lane = front.lanes[k], chunk = lane / width, first = width * chunk;
        const Front::Place to = column_in(next, front.rows[k]);
        int count = 0;
        Eight mask = every(0.0);
        for (; k < front.open && front.lanes[k] == lane + count && (lane + count) / width == chunk; ++k, ++count) {
            const Front::Place each = column_in(next, front.rows[k]);
            if (each.own != to.own || each.at != to.at + count) break;
            mask[lane + count - first] = 1;
        }
        const bool all = std::count_if(front.lanes.begin(), front.lanes.end(),
                                       [&](int other) { return other / width == chunk; }) == count;
        if (count > 1) front.runs.push_back({chunk, {to.own, to.at - (lane - first)}, all, mask});
        else front.singles.push_back({lane, to});
    }
    auto source = [&](int k) {  // the correction of an open row is with the ancestor that eliminates it
        int above = front.parent;
        Front::Place at = column_in(fronts_[above], front.rows[k]);
        while (!at.own) {
            above = front_of_[nodes_[fronts_[above].node].parent];
            at = column_in(fronts_[above], front.rows[k]);
        }
        return std::pair(&fronts_[above], at.at);
    };
    for (int k = 0; k < front.open;) {
        const int lane = front.lanes[k], first = lane - lane % width;
        const auto [above, at] = source(k);
        Front::Source each{lane, 0, true, 0, every(0.0)};
        for (; k < front.open && front.lanes[k] < first + width; ++k, ++each.count) {
            if (source(k) != std::pair(above, at + each.count)) break;
            each.mask[front.lanes[k] - first] = 1;
        }
        const int columns = std::count_if(front.lanes.begin(), front.lanes.end(),
                                          [&](int other) { return other / width == first / width; });
        each.whole = lane == first && each.count == columns && at + width <= width * above->own_chunks;
        each.from = width * above->step + at - (each.count == 1 ? 0 : lane - first);
        front.sources.push_back(each);
    }
}

// Places the rows of all fronts behind `first` and returns the size of their memory. Those of a front are in use from
// the first addition of a child until they are added to the parent's; then others may have their place, so that few
// rows go through the cache.
std::size_t Articulated::lay_out_rows(std::size_t first) {
    std::map<std::size_t, std::size_t> used;  // begin and end
    std::size_t size = 0;
    std::vector<char> placed(fronts_.size(), 0);
    auto place = [&](int f) {
        if (f < 0 || placed[f]) return;
        placed[f] = 1;
        Front& front = fronts_[f];
        if (front.continued) {  // its only child has its rows
            const Front& child = fronts_[f + 1];
            std::tie(front.A, front.B, front.E, front.right) = std::tie(child.A, child.B, child.E, child.right);
            return;
        }
        const std::size_t m = front.open, t = front.own, chunks = front.chunks, own_chunks = front.own_chunks,
                          wide = 1 + chunks;
        std::size_t end = 0;
        auto next = [&](std::size_t count) {
            const std::size_t at = end;
            end += count;
            return at;
        };
        front.A = next(6 * wide);
        front.B = next(6 * wide);
        front.E = next(m * chunks);
        front.right = next(wide);
        front.own_A = next(6 * own_chunks);
        front.own_B = next(6 * own_chunks);
        front.own_columns = next(m * own_chunks);
        front.own_rows = next(t * chunks);
        front.D = next(t * own_chunks);
        front.own_right = next(own_chunks);
        std::size_t at = 0;
        for (const auto& [begin, behind] : used) {
            if (at + end <= begin) break;
            at = behind;
        }
        used[at] = at + end;
        size = std::max(size, at + end);
        front.rows_size = end;
        for (std::size_t* each : {&front.A, &front.B, &front.E, &front.right, &front.own_A, &front.own_B,
                                  &front.own_columns, &front.own_rows, &front.D, &front.own_right})
            *each += first + at;
    };
    for (int i = static_cast<int>(nodes_.size()) - 1; i >= 0; --i) {
        const int f = front_of_[i], parent = nodes_[i].parent, next = parent < 0 ? -1 : front_of_[parent];
        place(f);
        place(next);
        if (f >= 0 && !(next >= 0 && fronts_[next].continued)) used.erase(fronts_[f].A - first);
    }
    return size;
}

// Gives columns in the fronts to couplings that resist, and takes them from those that have not resisted for more than
// `most_idle` steps: a hand may have tens of limits on sums of its coordinates, of which few act at a time.
void Articulated::lay_out_couplings(int most_idle) {
    bool changed = false;
    for (Coupling& c : couplings_) {
        const bool had = c.idle >= 0;
        if (c.resists()) c.idle = 0;
        else if (had && c.idle > most_idle && flexible_.empty()) c.idle = -1;
        changed = changed || had != (c.idle >= 0);
    }
    if (changed) lay_out_fronts();
}

void Articulated::refresh(const System& s) {
    gravity_ = s.gravity;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (nodes_[i].size == 1) {
            fixed_[i / width].rest[i % width] = s.rest[nodes_[i].axis];
            fixed_[i / width].applied[i % width] = s.applied[nodes_[i].axis];
        }
    loads_.clear();
    handles_.clear();
    for (const Load& load : s.loads) {
        const Pose& body = in_node_[load.body];
        const Vec3 force = load.wrench.head<3>(), torque = load.wrench.tail<3>();
        loads_.push_back({body_node_[load.body], load.body, body.act(load.point),
                          load.world ? force : Vec3(body.R * force), load.world ? torque : Vec3(body.R * torque),
                          load.world});
    }
    for (Bushing& each : bushings_) {
        each.rest = Vec6(&s.rest[each.axis]);
        each.applied = Vec6(&s.applied[each.axis]);
    }
    for (Loop& loop : loops_) {  // a torque about a free hinge, whose axis is fixed in both bodies
        if (loop.rows == 5) loop.applied = s.applied[loop.axes[0]];
        if (loop.applied == 0) continue;
        for (int side = 0; side < 2; ++side) {
            const Vec3 torque = (side == 0 ? 1.0 : -1.0) * loop.applied * loop.z[side];
            loads_.push_back({loop.slot[side], loop.body[side], loop.point[side], Vec3::Zero(), torque, false});
        }
    }
    std::stable_partition(loads_.begin(), loads_.end(), [](const NodeLoad& load) { return load.world; });
    for (const Handle& handle : s.handles) {
        handles_.push_back({body_node_[handle.body], handle.body, in_node_[handle.body].act(handle.point),
                            handle.target, handle.stiffness, handle.damping});
    }
    for (Lock& lock : locks_) {
        const Row& row = s.model().rows[lock.system_row];
        lock.lower = row.lower / lock.coefficient;
        lock.upper = row.upper / lock.coefficient;
        if (lock.coefficient < 0) std::swap(lock.lower, lock.upper);
        if (lock.equality) lock.lower = lock.upper = s.targets[lock.system_row] / lock.coefficient;
    }
    for (Coupling& coupling : couplings_) {
        if (coupling.spring >= 0) {
            coupling.rest = s.spring_rest[coupling.spring];
            continue;
        }
        const Row& row = s.model().rows[coupling.system_row];
        coupling.lower = coupling.equality ? s.targets[coupling.system_row] : row.lower;
        coupling.upper = coupling.equality ? coupling.lower : row.upper;
    }
}

}  // namespace supple
