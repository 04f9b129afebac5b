// Builds nodes, ties and fronts from the description of a System.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/articulated.hpp"

namespace supple {

namespace {

// Measured on nets of rods and on chains with a tie to the world at each link (benchmarks/engine.py, "tangled"): time of a multiply-add
// in the elimination of ties and in that of the sparse solver, which needs more for each body besides.
constexpr double tie_nanoseconds = 0.14, sparse_nanoseconds = 0.2, body_nanoseconds = 3500;

bool is_pure_rotation(const Vec6& twist) {
    const Vec3 v = twist.head<3>(), w = twist.tail<3>();
    return w.squaredNorm() > 0 && std::abs(v.dot(w)) < 1e-14 * (1 + v.norm());
}

// Whether three axes are orthogonal, right-handed and without translation.
bool is_ball(const Vec6* twists) {
    Mat3 axes;
    for (int i = 0; i < 3; ++i) {
        axes.col(i) = twists[i].tail<3>();
        if (!twists[i].head<3>().isZero(0)) return false;
    }
    return (axes.transpose() * axes).isIdentity(1e-12) && axes.determinant() > 0;
}

}  // namespace

Articulated::Articulated(const System& system, bool floating) : system_(&system), floating_(floating), length_scale_(system.length_scale) {
    find_axes_acted_on(system);
    find_bushings(system);
    add_flexible_bodies(system);
    if (!*uncovered_) add_nodes(system);
    if (!*uncovered_) add_ties(system);
    if (!*uncovered_) lay_out_nodes();
    if (!*uncovered_) lay_out_fronts();
    if (!*uncovered_ && tie_nanoseconds * tie_operations() > sparse_nanoseconds * system.fronts().operations() + body_nanoseconds * system.bodies())
        uncovered_ = "so many loops around one body that the sparse solver is faster";
    if (*uncovered_) return;
    mean_mass_ = std::accumulate(system.mass.begin(), system.mass.end(), 0.0) / std::max(1, system.bodies());
    refresh(system);
}

void Articulated::find_axes_acted_on(const System& s) {
    acted_on_.assign(s.axes(), 0);
    for (int a = 0; a < s.axes(); ++a)
        acted_on_[a] = s.stiffness[a] != 0 || s.damping[a] != 0 || s.armature[a] != 0 || s.curve[a] >= 0;
    for (const Actuator& each : s.actuators)
        if (each.axis >= 0) acted_on_[each.axis] = 1;
    for (const Spring& spring : s.springs)
        for (int a : spring.of.axes) acted_on_[a] = 1;
    for (const Row& row : s.rows)
        for (int a : row.of.axes) acted_on_[a] = 1;
}

// Rows of a joint that closes a loop: none for a bushing, 3 for a free ball, 5 for a free hinge, otherwise 6, its own axes being nodes.
int Articulated::rows_of(const System& system, int j) const {
    const Joint& joint = system.joints[j];
    if (is_bushing_[j]) return 0;
    for (int a = joint.first; a < joint.first + joint.count; ++a)
        if (acted_on_[a]) return 6;
    if (joint.blocks.size() != 1) return 6;
    if (joint.count == 3) return 3;
    return is_pure_rotation(system.twists[joint.first]) ? 5 : 6;
}

// The joint of each body in a spanning tree with short cycles. It starts from the system's tree and exchanges edges as long as
// this reduces the sum of tie multipliers over all nodes. With flexible bodies it is the system's tree, because the derivatives of
// recorded steps use the system's loops then.
std::vector<int> Articulated::choose_tree(const System& s) const {
    const int nb = s.bodies(), nj = static_cast<int>(s.joints.size());
    if (!s.flexible.empty()) {
        std::vector<int> held(nb);
        for (int b = 0; b < nb; ++b) held[b] = s.holder(b);
        return held;
    }
    std::vector<char> in(nj, 0);
    std::vector<double> rows(nj);
    for (int j = 0; j < nj; ++j) {
        in[j] = s.joints[j].outer >= 0;
        rows[j] = rows_of(s, j) / 6.0;
    }
    std::vector<int> holder, inner, depth;
    std::vector<std::vector<int>> beside(nb + 1), cycles;
    auto cost = [&](bool with_cycles) {
        for (auto& list : beside) list.clear();
        for (int j = 0; j < nj; ++j)
            if (in[j])
                for (int body : {s.joints[j].parent, s.joints[j].child}) beside[body + 1].push_back(j);
        holder.assign(nb + 1, -1);
        inner.assign(nb + 1, -1);
        depth.assign(nb + 1, -1);
        depth[0] = 0;
        std::vector<int> queue{0};
        for (std::size_t k = 0; k < queue.size(); ++k)
            for (int j : beside[queue[k]]) {
                const int a = s.joints[j].parent + 1, b = s.joints[j].child + 1, next = a == queue[k] ? b : a;
                if (depth[next] >= 0) continue;
                depth[next] = depth[queue[k]] + 1;
                holder[next] = j;
                inner[next] = queue[k];
                queue.push_back(next);
            }
        if (static_cast<int>(queue.size()) != nb + 1) return static_cast<double>(INFINITY);
        std::vector<double> open(nb + 1, 0.0);
        if (with_cycles) cycles.assign(nj, {});
        for (int j = 0; j < nj; ++j) {
            if (in[j]) continue;
            int x = s.joints[j].parent + 1, y = s.joints[j].child + 1;
            while (x != y) {
                int& z = depth[x] >= depth[y] ? x : y;
                open[z] += rows[j];
                if (with_cycles) cycles[j].push_back(holder[z]);
                z = inner[z];
            }
        }
        double sum = 0;
        for (double o : open) sum += o + 0.6 * o * o;
        return sum;
    };
    double best = cost(true);
    for (bool better = true; better;) {
        better = false;
        for (int j = 0; j < nj && !better; ++j) {
            if (in[j]) continue;
            int pick = -1;
            const std::vector<int> cycle = cycles[j];
            double least = best - 1e-9;
            for (int e : cycle) {
                if (s.connects_group(e) || holds_ground_[e]) continue;
                in[j] = 1;
                in[e] = 0;
                const double c = cost(false);
                if (c < least) {
                    least = c;
                    pick = e;
                }
                in[j] = 0;
                in[e] = 1;
            }
            if (pick >= 0) {
                in[j] = 1;
                in[pick] = 0;
                best = cost(true);
                better = true;
            }
        }
    }
    cost(false);
    return {holder.begin() + 1, holder.end()};
}

void Articulated::add_nodes(const System& s) {
    const int nb = s.bodies(), nj = static_cast<int>(s.joints.size());
    const std::vector<int> holder = choose_tree(s);
    in_tree_.assign(nj, 0);
    for (int j : holder) in_tree_[j] = 1;

    struct Branch {
        int joint, outer;  // outer -1: the massless axes of a joint that closes a loop
    };
    std::vector<std::vector<Branch>> beyond(nb + 1);
    for (int j = 0; j < nj; ++j)
        if (!in_tree_[j] && rows_of(s, j) == 6) beyond[s.joints[j].parent + 1].push_back({j, -1});
    for (int b = 0; b < nb; ++b) {
        const Joint& joint = s.joints[holder[b]];
        beyond[(joint.child == b ? joint.parent : joint.child) + 1].push_back({holder[b], b});
    }
    // number of bodies in each subtree: the largest branch comes directly after its parent, so that its data stay in registers
    std::vector<int> weight(nb + 1, 1), order{-1};
    for (std::size_t k = 0; k < order.size(); ++k)
        for (const Branch& branch : beyond[order[k] + 1])
            if (branch.outer >= 0) order.push_back(branch.outer);
    for (std::size_t k = order.size(); k-- > 0;)
        for (const Branch& branch : beyond[order[k] + 1])
            if (branch.outer >= 0) weight[order[k] + 1] += weight[branch.outer + 1];

    const std::vector<char> single_node = find_single_nodes(s, holder);
    auto flexible_index = [&](const Joint& joint) {
        std::size_t f = 0;
        while (s.flexible[f].axis != amplitude_axis_[joint.first]) ++f;
        return f;
    };
    body_node_.assign(nb, -1);
    joint_node_.assign(nj, -1);
    in_node_.resize(nb);
    inner_.resize(nb);
    held_by_ = holder;
    for (int b = 0; b < nb; ++b)
        if (s.is_carried(b)) carried_bodies_.push_back(b);
    nodes_.push_back({});  // the world
    std::vector<Branch> todo, fixed;  // fixed: to the world; these come first
    std::vector<char> still(nb + 1, 0);
    still[0] = flexible_.empty();
    auto follow = [&](int body) {
        std::vector<Branch> list = beyond[body + 1];
        for (const Branch& branch : list) {
            if (!still[body + 1] || branch.outer < 0 || s.joints[branch.joint].count) continue;
            still[branch.outer + 1] = 1;
            fixed.push_back(branch);
        }
        std::erase_if(list, [&](const Branch& branch) { return branch.outer >= 0 && still[branch.outer + 1]; });
        auto size = [&](const Branch& b) { return b.outer < 0 ? 0 : weight[b.outer + 1]; };
        std::stable_sort(list.begin(), list.end(), [&](const Branch& a, const Branch& b) { return size(a) < size(b); });
        todo.insert(todo.end(), list.begin(), list.end());
    };
    follow(-1);
    while (!fixed.empty() || !todo.empty()) {
        std::vector<Branch>& from = fixed.empty() ? todo : fixed;
        const Branch branch = from.back();
        from.pop_back();
        const Joint& joint = s.joints[branch.joint];
        if (branch.outer < 0 && !joint.count) continue;  // a weld: the loop ends on the inner body itself
        const bool along = branch.outer < 0 || joint.child == branch.outer;
        const int inner = along ? joint.parent : joint.child;
        if (branch.outer >= 0) {
            inner_[branch.outer] = inner;
            outward_bodies_.push_back(branch.outer);
        }
        if (s.connects_group(branch.joint)) {  // the bodies of a group share a node
            const int b = branch.outer, node = joint_node_[branch.joint] = body_node_[b] = body_node_[inner];
            in_node_[b] = nodes_[node].body_in_node * s.in_carrier[b];
            follow(b);
            continue;
        }
        FlexibleNode* flexible = joint.interface >= 0 ? &flexible_[flexible_index(joint)] : nullptr;
        if (flexible && flexible->node == 0) {
            Node node;
            node.parent = body_node_[inner];
            node.frame = in_node_[inner];
            flexible->node = static_cast<int>(nodes_.size());
            nodes_.push_back(node);
        }
        Pose lead = inner < 0 || flexible ? Pose{} : in_node_[inner];
        int last = flexible ? flexible->node : inner < 0 ? 0 : body_node_[inner];
        JointNodes parts = joint_nodes(s, joint, along);
        if (single_node[branch.joint]) {
            parts.nodes.erase(parts.nodes.begin(), parts.nodes.begin() + 3);
            parts.nodes[0].frame = joint.pose_parent;
        }
        for (const JointNode& part : parts.nodes) {
            Node node{part, last};
            node.frame = lead * part.frame;
            if (part.size == 3 && !is_ball(&s.twists[part.axis])) uncovered_ = "a joint of three axes that is no ball with orthogonal, right-handed axes";
            lead = Pose{};
            if (single_node[branch.joint]) node.shift_axis = joint.first;
            last = static_cast<int>(nodes_.size());
            nodes_.push_back(node);
        }
        joint_node_[branch.joint] = last;
        if (branch.outer < 0) {
            nodes_[last].body_in_node = parts.end;
            continue;
        }
        const int b = branch.outer;
        in_node_[b] = parts.outer_body;
        body_node_[b] = last;
        nodes_[last].body = s.carrier[b];
        nodes_[last].body_in_node = in_node_[b] * s.in_carrier[b].inverse();
        if (flexible) flexible->interfaces.push_back({last, branch.joint, s.interfaces[joint.interface], {}});
        if (still[b + 1]) grounded_ = static_cast<int>(nodes_.size());
        follow(b);
    }
}

void Articulated::add_ties(const System& s) {
    const int nj = static_cast<int>(s.joints.size());
    axis_node_.assign(s.axes(), -1);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (nodes_[i].size == 1) axis_node_[nodes_[i].axis] = static_cast<int>(i);
    ends_.assign(nodes_.size(), {});
    for (int j = 0; j < nj; ++j) {
        if (in_tree_[j] || is_bushing_[j]) continue;
        const Joint& joint = s.joints[j];
        Loop loop;
        loop.joint = j;
        loop.rows = rows_of(s, j);
        loop.first = tie_rows_;
        tie_rows_ += loop.rows;
        Pose in_joint;  // z along a free hinge
        if (loop.rows == 5) in_joint = screw_axis(s.twists[joint.first]).frame;
        if (loop.rows < 6)
            for (int a = joint.first; a < joint.first + joint.count; ++a) loop.axes.push_back(a);
        for (int side = 0; side < 2; ++side) {
            End& end = loop.end[side];
            Pose in_node;
            if (side == 1 && joint_node_[j] >= 0) {
                end.node = joint_node_[j];
                in_node = nodes_[end.node].body_in_node;
            } else {
                const int body = side ? joint.parent : joint.child;
                end.node = body < 0 ? 0 : body_node_[body];
                in_node = (body < 0 ? Pose{} : in_node_[body]) * (side ? joint.pose_parent : joint.pose_child);
            }
            end.body = side ? joint.parent : joint.child;
            in_node = in_node * in_joint;
            end.point = in_node.p;
            end.direction[0] = in_node.R.col(2);
            end.direction[1] = in_node.R.col(0);
            ends_[end.node].push_back({static_cast<int>(loops_.size()), side, 0});
        }
        loops_.push_back(loop);
    }

    for (Bushing& each : bushings_) {
        const Joint& joint = s.joints[each.joint];
        each.node = body_node_[joint.child];
        each.in_node = in_node_[joint.child] * joint.pose_child;
        each.ground = joint.parent < 0 ? 0 : body_node_[joint.parent];
        each.in_ground = (joint.parent < 0 ? Pose{} : in_node_[joint.parent]) * joint.pose_parent;
    }

    auto couple = [&](const Combination& of) {
        Coupling coupling;
        for (std::size_t i = 0; i < of.axes.size(); ++i) {
            if (axis_node_[of.axes[i]] < 0) uncovered_ = "a coupling of a ball joint's coordinates or of amplitudes";
            if (of.coefficients[i] == 0) continue;
            coupling.nodes.push_back(axis_node_[of.axes[i]]);
            coupling.coefficients.push_back(of.coefficients[i]);
        }
        coupling.row = tie_rows_++;
        return coupling;
    };
    for (std::size_t k = 0; k < s.springs.size(); ++k) {
        Coupling coupling = couple(s.springs[k].of);
        coupling.spring = static_cast<int>(k);
        coupling.stiffness = s.springs[k].stiffness;
        coupling.damping = s.springs[k].damping;
        coupling.curve = s.springs[k].curve;
        for (std::size_t a = 0; a < s.actuators.size(); ++a)
            if (s.actuators[a].spring == static_cast<int>(k)) coupling.actuators.push_back(static_cast<int>(a));
        coupling.pushes = coupling.stiffness != 0 || coupling.damping != 0 || coupling.curve >= 0 ||
                          std::any_of(coupling.actuators.begin(), coupling.actuators.end(), [&](int a) { return s.actuators[a].depends_on_length(); });
        couplings_.push_back(coupling);
    }
    lock_of_.assign(nodes_.size(), -1);
    for (std::size_t r = 0; r < s.rows.size(); ++r) {
        const Row& row = s.rows[r];
        if (copies_amplitude(row)) {
            copy_rows_.push_back(static_cast<int>(r));
            continue;
        }
        const int single = row.of.axes.size() == 1 ? axis_node_[row.of.axes[0]] : -1;
        const bool second_limit = single >= 0 && lock_of_[single] >= 0 && !row.equality && !locks_[lock_of_[single]].equality;
        if (row.stop != 0 && single >= 0 && row.of.coefficients[0] == 1) {
            stops_.emplace_back(single, static_cast<int>(r));
            continue;
        }
        if (row.of.axes.size() > 1 || row.stop != 0 || second_limit) {
            Coupling coupling = couple(row.of);
            coupling.system_row = static_cast<int>(r);
            coupling.stop = row.stop != 0;
            coupling.equality = row.equality;
            couplings_.push_back(coupling);
            continue;
        }
        const int node = single;
        if (node < 0) {
            uncovered_ = "a limit or motor of a ball joint or of amplitudes";
            return;
        }
        Lock lock;
        lock.node = node;
        lock.system_row = static_cast<int>(r);
        lock.coefficient = row.of.coefficients[0];
        lock.equality = row.equality;
        const int other = lock_of_[node];
        if (other >= 0 && row.equality) uncovered_ = "a motor of a coordinate with another motor or limit";
        if (other < 0) lock_of_[node] = static_cast<int>(locks_.size());
        locks_.push_back(lock);
    }
    std::sort(stops_.begin(), stops_.end());
    for (const Coupling& c : couplings_)
        if (c.nodes.empty()) uncovered_ = "an empty coupling";
    multiplier_.assign(tie_rows_, 0.0);
    residual_.assign(tie_rows_, 0.0);
    tie_step_.assign(tie_rows_, 0.0);
    diagonal_.assign(tie_rows_, 0.0);
}

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
        BallNode node;
        node.node = i;
        node.axis = nodes_[i].axis;
        node.sign = nodes_[i].sign;
        node.shift_axis = nodes_[i].shift_axis;
        for (int a = node.shift_axis; a >= 0 && a < node.shift_axis + 3; ++a) node.sprung = node.sprung || acted_on_[a];
        for (Vec3* v : {&node.t, &node.t_past, &node.t_before, &node.t_rate, &node.t_rate_before, &node.shift}) v->setZero();
        for (Vec3* v : {&node.q, &node.q_past, &node.q_before, &node.rate, &node.rate_before, &node.p, &node.p_before}) v->setZero();
        ball_of_[i] = static_cast<int>(balls_.size());
        balls_.push_back(node);
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
    body_in_node_.resize(blocks_);
    past_.assign(blocks_, Past{});
    present_.assign(blocks_, Present{});
    eliminated_.assign(n, Eliminated{});
    summed_.assign(n, Summed{});
    outward_.assign(n, Eight{});
    correction_.assign(width * blocks_, 0.0);
    rho_.assign(width * blocks_, 0.0);
    extra_torque_.assign(width * blocks_, 0.0);
    unresisted_.assign(width * blocks_, 0.0);
    balance_.assign(width * blocks_, 0.0);
    const System& s = *system_;
    for (int i = 0; i < width * blocks_; ++i) {
        Fixed& fixed = fixed_[i / width];
        const int l = i % width;
        const Node node = i < n ? nodes_[i] : Node{};
        for (int c = 0; c < 3; ++c) {
            for (int r = 0; r < 3; ++r) fixed.frame[3 * c + r][l] = node.frame.R(r, c);
            fixed.frame[9 + c][l] = node.frame.p[c];
            for (int r = 0; r < 3; ++r) body_in_node_[i / width][3 * c + r][l] = node.body_in_node.R(r, c);
            body_in_node_[i / width][9 + c][l] = node.body_in_node.p[c];
            present_[i / width].R[4 * c][l] = past_[i / width].R[4 * c][l] = 1;
        }
        fixed.turns[l] = node.turns;
        fixed.slides[l] = node.slides;
        if (node.body >= 0) {
            const Vec3 centre = node.body_in_node.act(s.group_centre[node.body]);
            const Mat3 inertia = node.body_in_node.R * s.group_inertia[node.body] * node.body_in_node.R.transpose();
            const double six[] = {inertia(0, 0), inertia(1, 1), inertia(2, 2), inertia(0, 1), inertia(0, 2), inertia(1, 2)};
            fixed.mass[l] = s.group_mass[node.body];
            for (int c = 0; c < 3; ++c) fixed.centre[c][l] = centre[c];
            for (int c = 0; c < 6; ++c) fixed.inertia[c][l] = six[c];
        }
        if (node.size != 1) {
            fixed.stiffness[l] = 1;  // a pivot for lanes without a coordinate
            continue;
        }
        fixed.free[l] = 1;
        fixed.stiffness[l] = s.stiffness[node.axis];
        fixed.damping[l] = s.damping[node.axis];
        fixed.armature[l] = s.armature[node.axis];
        if (s.curve[node.axis] >= 0) curves_.emplace_back(i, s.curve[node.axis]);
        for (std::size_t a = 0; a < s.actuators.size(); ++a)
            if (s.actuators[a].axis == node.axis) actuators_.emplace_back(i, static_cast<int>(a));
        // massless axes of a loop joint: only the loop gives them stiffness
        if (node.body < 0 && s.stiffness[node.axis] == 0 && s.damping[node.axis] == 0 && s.armature[node.axis] == 0)
            for (const Loop& loop : loops_)
                if (s.joints[loop.joint].first <= node.axis &&
                    node.axis < s.joints[loop.joint].first + s.joints[loop.joint].count)
                    unresisted_[i] = 1;
    }
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
    auto carry = [&](int from, int top, int first, int rows) {  // adds rows to the nodes of a path, unless they have them already
        for (int i = from; i != top; i = nodes_[i].parent) {
            if (std::find(open[i].begin(), open[i].end(), first) != open[i].end()) break;
            for (int r = 0; r < rows; ++r) open[i].push_back(first + r);
        }
    };
    for (const Loop& loop : loops_) {
        const int top = beyond_amplitudes(meet(loop.end[0].node, loop.end[1].node));
        for (const End& end : loop.end) carry(end.node, top, loop.first, loop.rows);
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
    std::size_t size = 0, inverse_size = 0;
    auto place = [&](std::size_t count) {
        const std::size_t at = size;
        size += count;
        return at;
    };
    for (int i = 0; i < n; ++i) {
        if (open[i].empty() && own[i].empty()) continue;
        Front front;
        front.node = i;
        front.open = static_cast<int>(open[i].size());
        front.own = static_cast<int>(own[i].size());
        front.rows = open[i];
        front.rows.insert(front.rows.end(), own[i].begin(), own[i].end());
        const int k = front.open + front.own;
        front.chunks = padded_chunks((k + width - 1) / width);
        const std::size_t wide = 1 + front.chunks;
        if (front.chunks > most_chunks) uncovered_ = "too many loops around one body";
        front.A = place((6 + k) * wide);
        front.B = place((6 + k) * wide);
        front.part = place(wide);
        front.upart = place(wide);
        front.X = place(front.own * wide);
        front.Y = place(front.own * wide);
        front.right = place(wide);
        front.mask = place(front.chunks);
        front.inverse = inverse_size;
        inverse_size += static_cast<std::size_t>(front.own) * front.own;
        front_of_[i] = static_cast<int>(fronts_.size());
        fronts_.push_back(front);
    }
    std::vector<int> continued;  // fronts with the same rows as their only child: they use its memory
    for (Front& front : fronts_) {
        const int parent = nodes_[front.node].parent;
        if (front.open > 0) {
            front.parent = front_of_[parent];
            const Front& next = fronts_[front.parent];
            for (int k = 0; k < front.open; ++k)
                front.place.push_back(static_cast<int>(
                    std::find(next.rows.begin(), next.rows.end(), front.rows[k]) - next.rows.begin()));
            front.shift = front.place[0];
            for (int k = 0; k < front.open; ++k)
                if (front.place[k] != front.shift + k) front.shift = -1;
        }
        const int k = front_of_[front.node];
        const bool alone = front.node + 1 < n && nodes_[front.node + 1].parent == front.node && front_of_[front.node + 1] == k + 1 &&
                           std::count_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.parent == front.node; }) == 1;
        if (alone && front.own == 0 && flexible_of_[front.node] < 0 && fronts_[k + 1].chunks == front.chunks &&
            std::equal(front.rows.begin(), front.rows.end(), fronts_[k + 1].rows.begin(), fronts_[k + 1].rows.begin() + fronts_[k + 1].open))
            continued.push_back(k);
        for (LoopEnd& end : ends_[front.node])
            end.place = static_cast<int>(
                std::find(front.rows.begin(), front.rows.end(), loops_[end.loop].first) - front.rows.begin());
        for (const Coupling& coupling : couplings_)
            for (std::size_t q = 0; q < coupling.nodes.size(); ++q)
                if (coupling.idle >= 0 && coupling.nodes[q] == front.node)
                    front.coupled.emplace_back(
                        static_cast<int>(std::find(front.rows.begin(), front.rows.end(), coupling.row) - front.rows.begin()),
                        coupling.coefficients[q]);
    }
    for (std::size_t i = continued.size(); i-- > 0;) {
        Front &front = fronts_[continued[i]], &child = fronts_[continued[i] + 1];
        front.A = child.A;
        front.B = child.B;
        front.right = child.right;
    }
    lay_out_flexible();
    for (BallNode& node : balls_) {
        const int chunks = front_of_[node.node] < 0 ? 0 : fronts_[front_of_[node.node]].chunks;
        node.parts = place(3 * chunks);
        node.uparts = place(3 * chunks);
    }
    numbers_.assign(size + 1, Eight{});  // one more vector: padding of the last row of a child may be written behind the parent's
    inverses_.assign(inverse_size, 0.0);
    for (Front& front : fronts_)
        for (int k = 0; k < front.open; ++k) numbers_[front.mask + k / width][k % width] = 1;
    for (int i = 0; i < n; ++i) flags_[i] = static_cast<unsigned char>(front_of_[i] >= 0 ? flags_[i] | fronted : flags_[i] & ~fronted);
    int first = 0;
    while (first < grounded_ && !(flags_[first] & fronted)) ++first;
    first_block_ = std::min(first, n - 1) / width;
    std::fill(tie_step_.begin(), tie_step_.end(), 0.0);
}

// Gives columns in the fronts to couplings that resist, and takes them from those that have not resisted for more than `most_idle`
// steps: a hand may have tens of limits on sums of its coordinates, of which few act at a time.
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
        loads_.push_back({body_node_[load.body], load.body, body.act(load.point), load.world ? force : Vec3(body.R * force),
                          load.world ? torque : Vec3(body.R * torque), load.world});
    }
    for (const Loop& loop : loops_) {  // a torque about a free hinge, whose axis is fixed in both bodies
        if (loop.rows != 5 || s.applied[loop.axes[0]] == 0) continue;
        for (int side = 0; side < 2; ++side) {
            const End& end = loop.end[side];
            const Vec3 torque = (side == 0 ? 1.0 : -1.0) * s.applied[loop.axes[0]] * end.direction[0];
            loads_.push_back({end.node, end.body, end.point, Vec3::Zero(), torque, false});
        }
    }
    std::stable_partition(loads_.begin(), loads_.end(), [](const NodeLoad& load) { return load.world; });
    for (const Handle& handle : s.handles) {
        handles_.push_back({body_node_[handle.body], handle.body, in_node_[handle.body].act(handle.point), handle.target, handle.stiffness,
                            handle.damping});
    }
    for (Lock& lock : locks_) {
        const Row& row = s.rows[lock.system_row];
        lock.lower = row.lower / lock.coefficient;
        lock.upper = row.upper / lock.coefficient;
        if (lock.coefficient < 0) std::swap(lock.lower, lock.upper);
        if (lock.equality) lock.lower = lock.upper = row.lower / lock.coefficient;
    }
    for (Coupling& coupling : couplings_) {
        if (coupling.spring >= 0) {
            coupling.rest = s.springs[coupling.spring].rest;
            continue;
        }
        const Row& row = s.rows[coupling.system_row];
        coupling.lower = row.lower;
        coupling.upper = coupling.equality ? row.lower : row.upper;
    }
}

}  // namespace supple
