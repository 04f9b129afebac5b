// The assembly tree of a linkage: the order in which bodies and assemblies are joined.
//
// The bodies are divided into heavy paths. A heavy path leads from a body down to a leaf of the tree of bodies, always
// into the largest subtree. Each body is first joined with its smaller subtrees; then the bodies of a path are
// joined in pairs of about equal weight. So an assembly on a path has its two ends as handles, any other has one, and
// the depth is logarithmic for every tree. The mass of a body with many subtrees is divided among several leaves, which
// are united in pairs.
#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "linkage/linkage_blocks.hpp"

namespace supple {

namespace {

// Splits a sequence of weights (given by their running sums) so that both sides weigh about the same. Returns the first
// index of the right side.
std::size_t balanced_split(const std::vector<double>& sums, std::size_t begin, std::size_t end) {
    const double centre = (sums[begin] + sums[end]) / 2;
    const auto at = std::upper_bound(sums.begin() + begin + 1, sums.begin() + end - 1, centre);
    std::size_t cut = at - sums.begin();
    if (cut > begin + 1 && centre - sums[cut - 1] < sums[cut] - centre) --cut;
    return cut;
}

std::vector<double> running_sums(const std::vector<double>& weights) {
    std::vector<double> sums(weights.size() + 1, 0.0);
    std::partial_sum(weights.begin(), weights.end(), sums.begin() + 1);
    return sums;
}

}  // namespace

struct Linkage::Builder {
    static constexpr std::size_t few = 3;  // up to so many subtrees are joined to a body one after the other

    Linkage& linkage;
    std::vector<std::vector<int>> children;
    std::vector<int> size, shares;

    explicit Builder(Linkage& l) : linkage(l) {
        const int n = static_cast<int>(l.parent.size());
        children.resize(n);
        size.assign(n, 1);
        shares.assign(n, 0);
        std::vector<int> order;
        for (int b = 0; b < n; ++b) (l.parent[b] < 0 ? order : children[l.parent[b]]).push_back(b);
        const std::vector<int> roots = order;
        for (std::size_t i = 0; i < order.size(); ++i)
            order.insert(order.end(), children[order[i]].begin(), children[order[i]].end());
        if (static_cast<int>(order.size()) < n) throw std::invalid_argument("the bodies do not form a tree");
        for (auto b = order.rbegin(); b != order.rend(); ++b)
            if (l.parent[*b] >= 0) size[l.parent[*b]] += size[*b];
        for (auto& list : children)  // ascending sizes: the last child continues the heavy path
            std::stable_sort(list.begin(), list.end(), [this](int a, int b) { return size[a] < size[b]; });
        std::vector<int> tops;
        for (const int b : roots) {
            Node node;
            node.right = path(b);
            node.joint = b;
            node.kind = rooted;
            tops.push_back(add(node));
        }
        std::vector<double> weights;
        for (const int b : roots) weights.push_back(size[b]);
        unite(tops, running_sums(weights), 0, tops.size(), [](Node& node) { node.kind = united; });
    }

    int add(const Node& node) {
        linkage.nodes_.push_back(node);
        return static_cast<int>(linkage.nodes_.size()) - 1;
    }

    // Unites assemblies in pairs of about equal weight; `how` sets the kind of the new nodes.
    int unite(const std::vector<int>& parts, const std::vector<double>& sums, std::size_t begin, std::size_t end,
              const std::function<void(Node&)>& how) {
        if (end - begin == 1) return parts[begin];
        const std::size_t cut = balanced_split(sums, begin, end);
        Node node;
        node.left = unite(parts, sums, begin, cut, how);
        node.right = unite(parts, sums, cut, end, how);
        how(node);
        return add(node);
    }

    int leaf(int body) {
        linkage.leaves_.push_back({body, -1, false, shares[body]++ == 0});
        return ~(static_cast<int>(linkage.leaves_.size()) - 1);
    }

    // A body joined with some of its subtrees: an assembly with one handle.
    int with_subtrees(int body, std::size_t begin, std::size_t end) {
        const std::vector<int>& subtrees = children[body];
        if (end - begin > few) {
            std::vector<double> weights;
            for (std::size_t i = begin; i < end; ++i) weights.push_back(size[subtrees[i]]);
            const std::size_t cut = begin + balanced_split(running_sums(weights), 0, end - begin);
            Node node;
            node.left = with_subtrees(body, begin, cut);
            node.right = with_subtrees(body, cut, end);
            node.handles = 1;
            return add(node);
        }
        int whole = leaf(body);
        for (std::size_t i = begin; i < end; ++i) {
            Node node;
            node.left = whole;
            node.right = path(subtrees[i]);
            node.joint = subtrees[i];
            node.handles = 1;
            whole = add(node);
        }
        return whole;
    }

    int path(int top) {
        std::vector<int> bodies{top};
        while (!children[bodies.back()].empty()) bodies.push_back(children[bodies.back()].back());
        std::vector<double> weights(bodies.size());
        for (std::size_t i = 0; i < bodies.size(); ++i)
            weights[i] = size[bodies[i]] - (i + 1 < bodies.size() ? size[bodies[i + 1]] : 0);
        return segment(bodies, running_sums(weights), 0, bodies.size());
    }

    int segment(const std::vector<int>& bodies, const std::vector<double>& sums, std::size_t begin, std::size_t end) {
        if (end - begin == 1) {
            const std::vector<int>& subtrees = children[bodies[begin]];
            return with_subtrees(bodies[begin], 0, subtrees.size() - (subtrees.empty() ? 0 : 1));
        }
        const std::size_t cut = balanced_split(sums, begin, end);
        Node node;
        node.left = segment(bodies, sums, begin, cut);
        node.right = segment(bodies, sums, cut, end);
        node.joint = bodies[cut];
        node.left_handles = cut - begin > 1 ? 2 : 1;
        node.right_keeps = end == bodies.size() ? 0 : end - cut > 1 ? 2 : 1;
        node.handles = node.right_keeps ? 2 : 1;
        return add(node);
    }
};

void Linkage::prepare() {
    const Builder builder(*this);
    const int bodies = static_cast<int>(parent.size());
    main_leaf_.assign(bodies, -1);
    joint_node_.assign(bodies, -1);
    leaf_inertia_.resize(leaves_.size());
    for (std::size_t l = 0; l < leaves_.size(); ++l) {
        const int body = leaves_[l].body;
        if (leaves_[l].main) main_leaf_[body] = static_cast<int>(l);
        leaf_inertia_[l] = (inertia[body] + inertia[body].transpose()) / (2.0 * builder.shares[body]);
    }
    lay_out();
}

// Computes heights, parents and the positions of each node's coefficients in the pools.
void Linkage::lay_out() {
    const std::size_t count = nodes_.size();
    std::size_t motion = 0, descent = 0, total = 0;
    std::vector<int> idle;  // slots that no node needs any more
    int slots = 0;
    const auto padded_size = [](std::size_t size) { return (size + 7) / 8 * 8; };
    for (std::size_t i = 0; i < count; ++i) {
        Node& n = nodes_[i];
        if (n.joint >= 0) joint_node_[n.joint] = static_cast<int>(i);
        const std::size_t k = n.joint < 0 ? 0 : joints[n.joint].count, h = n.handles;
        for (const int child : {n.left, n.right}) {
            if (child == none) continue;
            if (child < 0) {
                leaves_[~child].up = static_cast<int>(i);
                leaves_[~child].on_left = child == n.left;
                n.height = std::max(n.height, 1);
            } else {
                nodes_[child].up = static_cast<int>(i);
                nodes_[child].top_first = nodes_[child].handles == 1 || child == n.right;
                n.height = std::max(n.height, nodes_[child].height + 1);
                if (child == n.right || n.left_handles == 2) n.rows += 6;
            }
        }
        if (idle.empty()) idle.push_back(slots++);
        n.slot = idle.back();
        idle.pop_back();
        for (const int child : {n.left, n.right})
            if (child >= 0) idle.push_back(nodes_[child].slot);
        n.rows += static_cast<int>(k);
        n.motion = motion;
        n.descent = descent;
        n.total = total;
        if (n.kind != united) {
            const bool left_bottom = n.left_handles == 2, right_bottom = n.right_keeps == 2;
            n.columns = static_cast<int>(k) + (left_bottom ? nodes_[n.left].rank : 0);
            if (h == 2) {
                const int columns = n.columns + (right_bottom ? nodes_[n.right].rank : 0);
                n.rank = std::min(6, columns);
                n.stacked = columns > 6 ? columns : 0;
                if (n.stacked && right_bottom && !nodes_[n.right].stacked) n.rows += 6;
            }
            motion += padded_size(linkage::Assembly::size(h, n.columns, n.stacked));
            descent += padded_size(linkage::Descent::size_of(h, k, left_bottom, n.right >= 0, right_bottom));
        }
        total += n.kind == joined ? padded_size(linkage::Total::size(6 * h, n.rows)) : 1;
    }
    motion_.assign(motion, 0.0);
    descent_.assign(descent, 0.0);
    slots_.assign(slot_size * slots, 0.0);
    total_.assign(total, 0.0);
    magnification_.assign(count, 1.0);
    leaf_bias_.assign(leaves_.size(), Vec6::Zero());
    const std::size_t bodies = parent.size();
    body_wrench_.assign(bodies, Vec6::Zero());
    across_.resize(bodies);
    subspace_.resize(axes.size());
    force_.assign(axes.size(), 0.0);
    drive_.assign(axes.size(), 0.0);
    acceleration_.assign(axes.size(), 0.0);
    offset_.resize(count);
    bottom_.resize(count);
    world_.resize(count);
    mark_.assign(count, clean);
    stamp_.assign(count, 0);
    handle_input_.assign(2 * count, Vec6::Zero());
    node_total_.assign(count, 0.0);
    dirty_.resize(nodes_.back().height + 1);
    wanted_.resize(nodes_.back().height + 1);
    queue_.reserve(count);
    moved_.reserve(bodies);
    visited_.reserve(count);
    for (std::size_t b = 0; b < bodies; ++b) {
        place_joint(static_cast<int>(b));
        drive(static_cast<int>(b));
    }
    for (std::size_t i = 0; i < count; ++i) place_node(static_cast<int>(i));
    count_operations();
}

// Counts multiplications from the sizes of the blocks. The factor `indirect` accounts for the slower memory accesses of
// an adaptive pass.
void Linkage::count_operations() {
    constexpr double indirect = 1.5, kinematics = 150;
    double visits = 0;
    full_operations_ = all_update_operations_ = 0;
    update_operations_.assign(nodes_.size(), 0.0f);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const Node& n = nodes_[i];
        if (n.kind == united) continue;
        const double m = n.columns, k = n.joint < 0 ? 0 : joints[n.joint].count, h = n.handles, N = 6 * h;
        const bool left_bottom = n.left_handles == 2, right_node = n.right >= 0, right_bottom = n.right_keeps == 2;
        double join = kinematics + m * (48 + 12 * m) + m * m * m / 6;
        if (h > 0) join += 432 + 72 * m + (left_bottom ? 216 : 0) + 6 * h * m * m / 2;
        if (h == 2)
            join += 36 * m + (right_bottom ? 36 * m + 216 : 0) + (right_node ? 36 * m : 0) + 24.0 * 6 * n.stacked;
        const double descend = 36 * h * (left_bottom + right_node) + 6 * h * k + (right_bottom ? 36 : 0);
        const double total = n.kind == joined ? 2 * N * N * n.rows + 216 * h * (left_bottom + 2 * right_node) : 40;
        update_operations_[i] = static_cast<float>(indirect * (join + total));
        all_update_operations_ += update_operations_[i];
        full_operations_ += join + descend;
        visits += indirect * (descend + N * N + 60);
    }
    visit_operations_ = visits / static_cast<double>(nodes_.size());
}

int Linkage::depth() const { return nodes_.back().height; }

std::vector<int> Linkage::leaf_bodies() const {
    std::vector<int> bodies;
    for (const Leaf& leaf : leaves_) bodies.push_back(leaf.body);
    return bodies;
}

std::size_t Linkage::bytes() const {
    const auto of = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
    return of(nodes_) + of(leaves_) + of(leaf_inertia_) + of(leaf_bias_) + of(body_wrench_) + of(motion_) +
           of(descent_) + of(total_) + of(magnification_) + of(update_operations_) + of(across_) + of(offset_) +
           of(bottom_) + of(world_) + of(subspace_) + of(handle_input_) + of(node_total_) + of(joints) + of(axes) +
           of(inertia) + of(q) + of(queue_) + of(moved_) + of(visited_);
}

}  // namespace supple
