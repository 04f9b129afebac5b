// Builds nodes and ties from the description of a System.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/articulated.hpp"

namespace supple {

namespace {

// Measured on nets of rods and on chains with a tie to the world at each link (benchmarks/engine.py, "tangled"): time
// of a multiply-add in the elimination of ties and in that of the sparse solver, which needs more for each body
// besides.
constexpr double tie_nanoseconds = 0.08, sparse_nanoseconds = 0.2, body_nanoseconds = 3500;

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

Articulated::Articulated(const System& system, Use use)
    : system_(&system), use_(use), length_scale_(system.model().length_scale) {
    find_axes_acted_on(system.model());
    find_bushings(system.model());
    add_flexible_bodies(system.model());
    if (!*uncovered_) add_nodes(system.model());
    if (!*uncovered_ && use != Use::poses) add_ties(system.model());
    if (!*uncovered_) lay_out_nodes();
    if (!*uncovered_) lay_out_fronts();
    if (!*uncovered_) lay_out_state();
    if (!*uncovered_ && tie_nanoseconds * tie_operations() >
                            sparse_nanoseconds * system.fronts().operations() + body_nanoseconds * system.bodies())
        uncovered_ = "so many loops around one body that the sparse solver is faster";
    if (*uncovered_) return;
    mean_mass_ = std::accumulate(system.model().mass.begin(), system.model().mass.end(), 0.0) /
                 std::max(1, system.bodies());
    refresh(system);
}

void Articulated::find_axes_acted_on(const Model& model) {
    acted_on_.assign(model.axes(), 0);
    for (int a = 0; a < model.axes(); ++a)
        acted_on_[a] = model.stiffness[a] != 0 || model.damping[a] != 0 || model.armature[a] != 0 ||
                       model.curve[a] >= 0;
    for (const Actuator& each : model.actuators)
        if (each.axis >= 0) acted_on_[each.axis] = 1;
    for (const Spring& spring : model.springs)
        for (int a : spring.of.axes) acted_on_[a] = 1;
    for (const Row& row : model.rows)
        for (int a : row.of.axes) acted_on_[a] = 1;
}

// Rows of a joint that closes a loop: none for a bushing, 3 for a free ball, 5 for a free hinge, otherwise 6, its own
// axes being nodes.
int Articulated::rows_of(const Model& model, int j) const {
    const Joint& joint = model.joints[j];
    if (is_bushing_[j]) return 0;
    for (int a = joint.first; a < joint.first + joint.count; ++a)
        if (acted_on_[a]) return 6;
    if (joint.blocks.size() != 1) return 6;
    if (joint.count == 3) return 3;
    return is_pure_rotation(model.twists[joint.first]) ? 5 : 6;
}

// The joint of each body in a spanning tree with short cycles. It starts from the system's tree and exchanges edges as
// long as this reduces the sum of tie multipliers over all nodes. With flexible bodies it is the system's tree, because
// the derivatives of recorded steps use the system's loops then. Poses alone take no time for loops.
std::vector<int> Articulated::choose_tree(const Model& model) const {
    const int nb = model.bodies(), nj = static_cast<int>(model.joints.size());
    if (!model.flexible.empty() || use_ == Use::poses) return model.holder;
    std::vector<char> in(nj, 0);
    std::vector<double> rows(nj);
    for (int j = 0; j < nj; ++j) {
        in[j] = model.joints[j].outer >= 0;
        rows[j] = rows_of(model, j) / 6.0;
    }
    std::vector<int> holder, inner, depth;
    std::vector<std::vector<int>> beside(nb + 1), cycles;
    auto cost = [&](bool with_cycles) {
        for (auto& list : beside) list.clear();
        for (int j = 0; j < nj; ++j)
            if (in[j])
                for (int body : {model.joints[j].parent, model.joints[j].child}) beside[body + 1].push_back(j);
        holder.assign(nb + 1, -1);
        inner.assign(nb + 1, -1);
        depth.assign(nb + 1, -1);
        depth[0] = 0;
        std::vector<int> queue{0};
        for (std::size_t k = 0; k < queue.size(); ++k)
            for (int j : beside[queue[k]]) {
                const int a = model.joints[j].parent + 1, b = model.joints[j].child + 1, next = a == queue[k] ? b : a;
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
            int x = model.joints[j].parent + 1, y = model.joints[j].child + 1;
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
                if (model.connects_group(e) || holds_ground_[e]) continue;
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

void Articulated::add_nodes(const Model& model) {
    const int nb = model.bodies(), nj = static_cast<int>(model.joints.size());
    const std::vector<int> holder = choose_tree(model);
    in_tree_.assign(nj, 0);
    for (int j : holder) in_tree_[j] = 1;

    struct Branch {
        int joint, outer;  // outer -1: the massless axes of a joint that closes a loop
    };
    std::vector<std::vector<Branch>> beyond(nb + 1);
    for (int j = 0; j < nj; ++j)
        if (!in_tree_[j] && use_ != Use::poses && rows_of(model, j) == 6)
            beyond[model.joints[j].parent + 1].push_back({j, -1});
    for (int b = 0; b < nb; ++b) {
        const Joint& joint = model.joints[holder[b]];
        beyond[(joint.child == b ? joint.parent : joint.child) + 1].push_back({holder[b], b});
    }
    // number of bodies in each subtree: the largest branch comes directly after its parent, so that its data stay in
    // registers
    std::vector<int> weight(nb + 1, 1), order{-1};
    for (std::size_t k = 0; k < order.size(); ++k)
        for (const Branch& branch : beyond[order[k] + 1])
            if (branch.outer >= 0) order.push_back(branch.outer);
    for (std::size_t k = order.size(); k-- > 0;)
        for (const Branch& branch : beyond[order[k] + 1])
            if (branch.outer >= 0) weight[order[k] + 1] += weight[branch.outer + 1];

    const std::vector<char> single_node = find_single_nodes(model, holder);
    auto flexible_index = [&](const Joint& joint) {
        std::size_t f = 0;
        while (model.flexible[f].axis != amplitude_axis_[joint.first]) ++f;
        return f;
    };
    body_node_.assign(nb, -1);
    joint_node_.assign(nj, -1);
    in_node_.resize(nb);
    layout_.inner.resize(nb);
    layout_.held_by = holder;
    nodes_.push_back({});  // the world
    std::vector<Branch> todo, fixed;  // fixed: to the world; these come first
    std::vector<char> still(nb + 1, 0);
    still[0] = flexible_.empty();
    auto follow = [&](int body) {
        std::vector<Branch> list = beyond[body + 1];
        for (const Branch& branch : list) {
            if (!still[body + 1] || branch.outer < 0 || model.joints[branch.joint].count) continue;
            still[branch.outer + 1] = 1;
            fixed.push_back(branch);
        }
        std::erase_if(list, [&](const Branch& branch) { return branch.outer >= 0 && still[branch.outer + 1]; });
        auto size = [&](const Branch& b) { return b.outer < 0 ? 0 : weight[b.outer + 1]; };
        std::stable_sort(list.begin(), list.end(), [&](const Branch& a, const Branch& b) { return size(a) < size(b); });
        todo.insert(todo.end(), list.begin(), list.end());
    };
    // In a tree nothing but poses is computed for the grounded nodes. Nodes without bodies fill their last vector, so
    // that the moving nodes begin with a vector of their own: seven links take one vector instead of two.
    const bool tree = nj == nb && flexible_.empty();
    bool aligned = false;
    follow(-1);
    while (!fixed.empty() || !todo.empty()) {
        std::vector<Branch>& from = fixed.empty() ? todo : fixed;
        if (fixed.empty() && !aligned) {  // the first node that moves
            aligned = true;
            while (tree && nodes_.size() % width) nodes_.push_back({JointNode{}, 0});
            grounded_ = static_cast<int>(nodes_.size());
        }
        const Branch branch = from.back();
        from.pop_back();
        const Joint& joint = model.joints[branch.joint];
        if (branch.outer < 0 && !joint.count) continue;  // a weld: the loop ends on the inner body itself
        const bool along = branch.outer < 0 || joint.child == branch.outer;
        const int inner = along ? joint.parent : joint.child;
        if (branch.outer >= 0) {
            layout_.inner[branch.outer] = inner;
            layout_.outward.push_back(branch.outer);
        }
        if (model.connects_group(branch.joint)) {  // the bodies of a group share a node
            const int b = branch.outer, node = joint_node_[branch.joint] = body_node_[b] = body_node_[inner];
            in_node_[b] = nodes_[node].body_in_node * model.in_carrier[b];
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
        JointNodes parts = joint_nodes(model, joint, along);
        if (single_node[branch.joint]) {
            parts.nodes.erase(parts.nodes.begin(), parts.nodes.begin() + 3);
            parts.nodes[0].frame = joint.pose_parent;
        }
        for (const JointNode& part : parts.nodes) {
            Node node{part, last};
            node.frame = lead * part.frame;
            if (part.size == 3 && !is_ball(&model.twists[part.axis]))
                uncovered_ = "a joint of three axes that is no ball with orthogonal, right-handed axes";
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
        nodes_[last].body = model.carrier[b];
        nodes_[last].body_in_node = in_node_[b] * model.in_carrier[b].inverse();
        if (flexible) flexible->interfaces.push_back({last, branch.joint, model.interfaces[joint.interface], {}});
        follow(b);
    }
    if (!aligned) grounded_ = static_cast<int>(nodes_.size());
}

void Articulated::add_ties(const Model& model) {
    const int nj = static_cast<int>(model.joints.size());
    axis_node_.assign(model.axes(), -1);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (nodes_[i].size == 1) axis_node_[nodes_[i].axis] = static_cast<int>(i);
    ends_.assign(nodes_.size(), {});
    for (int j = 0; j < nj; ++j) {
        if (in_tree_[j] || is_bushing_[j]) continue;
        const Joint& joint = model.joints[j];
        Loop loop;
        loop.joint = j;
        loop.rows = rows_of(model, j);
        loop.first = tie_rows_;
        tie_rows_ += loop.rows;
        Pose in_joint;  // z along a free hinge
        if (loop.rows == 5) in_joint = screw_axis(model.twists[joint.first]).frame;
        if (loop.rows < 6)
            for (int a = joint.first; a < joint.first + joint.count; ++a) loop.axes.push_back(a);
        for (int side = 0; side < 2; ++side) {
            const int body = loop.body[side] = side ? joint.parent : joint.child;
            Pose in_node;
            if (side == 1 && joint_node_[j] >= 0) {
                loop.slot[side] = joint_node_[j];
                in_node = nodes_[loop.slot[side]].body_in_node;
            } else {
                loop.slot[side] = body < 0 ? 0 : body_node_[body];
                in_node = (body < 0 ? Pose{} : in_node_[body]) * (side ? joint.pose_parent : joint.pose_child);
            }
            in_node = in_node * in_joint;
            loop.point[side] = in_node.p;
            loop.z[side] = in_node.R.col(2);
            loop.x[side] = in_node.R.col(0);
            ends_[loop.slot[side]].push_back({static_cast<int>(loops_.size()), side});
        }
        loops_.push_back(loop);
    }
    for (int first = 0; first < static_cast<int>(loops_.size()); first += width) {
        EightLoops abreast{};
        abreast.first = first;
        abreast.count = std::min<int>(width, loops_.size() - first);
        for (int l = 0; l < abreast.count; ++l) {
            const Loop& loop = loops_[first + l];
            for (int r = 0; r < loop.rows; ++r) abreast.has[r][l] = 1;
            for (int side = 0; side < 2; ++side)
                for (int c = 0; c < 3; ++c) {
                    abreast.point[side][c][l] = loop.point[side][c];
                    abreast.z[side][c][l] = loop.z[side][c];
                    abreast.x[side][c][l] = loop.x[side][c];
                }
        }
        loops_abreast_.push_back(abreast);
    }

    for (Bushing& each : bushings_) {
        const Joint& joint = model.joints[each.joint];
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
    for (std::size_t k = 0; k < model.springs.size(); ++k) {
        Coupling coupling = couple(model.springs[k].of);
        coupling.spring = static_cast<int>(k);
        coupling.stiffness = model.springs[k].stiffness;
        coupling.damping = model.springs[k].damping;
        coupling.curve = model.springs[k].curve;
        for (std::size_t a = 0; a < model.actuators.size(); ++a)
            if (model.actuators[a].spring == static_cast<int>(k)) coupling.actuators.push_back(static_cast<int>(a));
        coupling.pushes = coupling.stiffness != 0 || coupling.damping != 0 || coupling.curve >= 0 ||
                          std::any_of(coupling.actuators.begin(), coupling.actuators.end(),
                                      [&](int a) { return model.actuators[a].depends_on_length(); });
        couplings_.push_back(coupling);
    }
    lock_of_.assign(nodes_.size(), -1);
    for (std::size_t r = 0; r < model.rows.size(); ++r) {
        const Row& row = model.rows[r];
        if (copies_amplitude(row)) {
            copy_rows_.push_back(static_cast<int>(r));
            continue;
        }
        const int single = row.of.axes.size() == 1 ? axis_node_[row.of.axes[0]] : -1;
        const bool second_limit = single >= 0 && lock_of_[single] >= 0 && !row.equality &&
                                  !locks_[lock_of_[single]].equality;
        const bool stop = system_->is_stop(static_cast<int>(r));
        if (stop && single >= 0 && row.of.coefficients[0] == 1) {
            stops_.emplace_back(single, static_cast<int>(r));
            continue;
        }
        if (row.of.axes.size() > 1 || stop || second_limit) {
            Coupling coupling = couple(row.of);
            coupling.system_row = static_cast<int>(r);
            coupling.stop = stop;
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
    multiplier_.assign(tie_rows_ + width, 0.0);  // those of a loop are read and written as a vector
    residual_.assign(tie_rows_ + width, 0.0);
    tie_step_.assign(tie_rows_, 0.0);
    diagonal_.assign(tie_rows_, 0.0);
}

}  // namespace supple
