// Reduced models on a moving base, eight parts at a time: mass matrices, forces and factorisation.
#include "reduced/floating_groups.hpp"

#include <algorithm>
#include <numeric>

namespace supple {

namespace {

Vec6 carried_along(const Vec6& a, const Vec6& w) { return ad(a).transpose() * w; }

// even I + both w w^T + odd [w]
SUPPLE_INLINE Turn rodrigues(const Three& w, const Eight& even, const Eight& both, const Eight& odd) {
    const Eight xx = both * w.x, xy = xx * w.y, xz = xx * w.z, yz = both * w.y * w.z;
    return {{even + xx * w.x, xy + odd * w.z, xz - odd * w.y},
            {xy - odd * w.z, even + both * w.y * w.y, yz + odd * w.x},
            {xz + odd * w.y, yz - odd * w.x, even + both * w.z * w.z}};
}

void invert_parts(const Eight* A, Eight* inverse, int n) {
    std::copy_n(A, n * n, inverse);
    switch (n) {  // loops of small matrices are unrolled
        case 1: return invert<1>(inverse);
        case 2: return invert<2>(inverse);
        case 3: return invert<3>(inverse);
        case 4: return invert<4>(inverse);
        default: invert<0>(inverse, n);
    }
}

}  // namespace

// Poses E exp(xi) relative to the base with xi = offset + Phi y, and S = Ad(E exp(xi)) Jr(xi) Phi = Ad(E) Jl(xi) Phi.
void Floating::Group::Block::evaluate(const Eight* y) {
    Six xi = offset;
    for (std::size_t c = 0; c < map.size(); ++c) xi = xi + y[c] * map[c];
    const Three &u = xi.linear, &w = xi.angular;
    const Eight s = dot(w, w);
    double largest = 0;
    for (int l = 0; l < width; ++l) largest = std::max(largest, s[l]);
    Eight g1, g2, g3, g4, g5;
    if (largest < 0.3) {  // truncated series, exact to rounding
        g4 = 1 / 24. - s * (1 / 720. - s * (1 / 40320. - s * (1 / 3628800. - s * (1 / 479001600. - s / 87178291200.))));
        g5 = 1 / 120. -
             s * (1 / 5040. - s * (1 / 362880. - s * (1 / 39916800. - s * (1 / 6227020800. - s / 1307674368000.))));
        g3 = 1 / 6. - s * g5;
        g2 = 0.5 - s * g4;
        g1 = 1 - s * g3;
    } else {
        for (int l = 0; l < width; ++l) {
            const Stumpff g = stumpff(s[l]);
            g1[l] = g[1], g2[l] = g[2], g3[l] = g[3], g4[l] = g[4], g5[l] = g[5];
        }
    }
    // exp: I + g1 [w] + g2 [w]^2, and u + g2 w x u + g3 w x (w x u)
    const Three wu = cross(w, u);
    const Turn step = rodrigues(w, 1 - g2 * s, g2, g1);
    turn = rest_turn * step;
    place = rest_turn * (u + g2 * wu + g3 * cross(w, wu)) + rest_place;
    base_centre = turn * centre + place;
    base_inertia = turn * inertia * transposed(turn);
    // Jl = [[M, dM], [0, M]] with M = I + g2 [w] + g3 [w]^2 and dM its derivative along u; Ad(E) Jl = [[P, Q], [0, P]]
    const Eight twice = dot(w, u), first = twice * (2 * g4 - g3), second = twice * (3 * g5 - g4), even = 1 - g3 * s;
    const Turn M = rodrigues(w, even, g3, g2);
    // [w][u] + [u][w] = w u^T + u w^T - 2 (w . u) I, and [w]^2 = w w^T - s I
    const Three a = second * w + g3 * u, b = g3 * w;  // w a^T and u b^T
    const Three turns = first * w + g2 * u;
    const Eight off = -s * second - 2 * twice * g3;
    const Turn dM{{off + w.x * a.x + u.x * b.x, w.y * a.x + u.y * b.x + turns.z, w.z * a.x + u.z * b.x - turns.y},
                  {w.x * a.y + u.x * b.y - turns.z, off + w.y * a.y + u.y * b.y, w.z * a.y + u.z * b.y + turns.x},
                  {w.x * a.z + u.x * b.z + turns.y, w.y * a.z + u.y * b.z - turns.x, off + w.z * a.z + u.z * b.z}};
    const Turn P = rest_turn * M,
               Q{rest_turn * dM.x + cross(rest_place, P.x), rest_turn * dM.y + cross(rest_place, P.y),
                 rest_turn * dM.z + cross(rest_place, P.z)};
    for (std::size_t c = 0; c < map.size(); ++c)
        screw[c] = {P * map[c].linear + Q * map[c].angular, P * map[c].angular};
}

// Divides the coordinates into parts: those with a common link, spring, damper or limit belong to the same part.
void Floating::divide_into_parts() {
    const int m = static_cast<int>(stiffness.rows());
    std::vector<int> root(m);
    std::iota(root.begin(), root.end(), 0);
    auto find = [&](int i) {
        while (root[i] != i) i = root[i] = root[root[i]];
        return i;
    };
    auto join = [&](int a, int b) { root[std::max(find(a), find(b))] = std::min(find(a), find(b)); };
    for (const Link& link : links)
        for (int c : link.columns) join(link.columns[0], c);
    for (const Matrix* matrix : {&stiffness, &damping, &armature, &held_mass})
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < i; ++j)
                if ((*matrix)(i, j) != 0) join(i, j);
    for (const Reduced::Bound& bound : bounds) {
        int first = -1;
        for (int i = 0; i < m; ++i)
            if (bound.map[i] != 0) first < 0 ? void(first = i) : join(first, i);
    }
    std::vector<int> part_of(m, -1);
    std::vector<std::vector<int>> parts;
    for (int i = 0; i < m; ++i) {
        const int r = find(i);
        if (part_of[r] < 0) {
            part_of[r] = static_cast<int>(parts.size());
            parts.emplace_back();
        }
        part_of[i] = part_of[r];
        parts[part_of[i]].push_back(i);
    }
    place_.assign(m, {});
    groups_.clear();
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    groups_.emplace_back();  // links without coordinates
    groups_.back().count = width;
    for (const std::vector<int>& part : parts) {
        if (groups_.back().size != static_cast<int>(part.size()) || groups_.back().count == width) {
            groups_.emplace_back();
            groups_.back().size = static_cast<int>(part.size());
            groups_.back().columns.assign(part.size(), {});
        }
        Group& group = groups_.back();
        for (int i = 0; i < group.size; ++i) {
            group.columns[i][group.count] = part[i];
            place_[part[i]] = {static_cast<int>(groups_.size()) - 1, group.count, i};
        }
        ++group.count;
    }
    for (Group& group : groups_) {
        const int n = group.size;
        for (int l = group.count; l < width && n; ++l)
            for (int i = 0; i < n; ++i) group.columns[i][l] = group.columns[i][l % group.count];
        for (auto* matrix : {&group.armature, &group.fixed_base_mass, &group.damping_stiffness, &group.step_stiffness,
                             &group.M, &group.A, &group.inverse})
            matrix->assign(n * n, Eight{});
        for (auto* matrix : {&group.M_base, &group.A_base, &group.base_response}) matrix->assign(6 * n, Eight{});
        for (auto* vector : {&group.rhs, &group.rates, &group.y, &group.v}) vector->assign(n, Eight{});
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j)
                for (int l = 0; l < width; ++l) {
                    const int a = group.columns[i][l], b = group.columns[j][l], at = i * n + j;
                    const bool used = l < group.count;
                    group.armature[at][l] = used ? armature(a, b) : double(i == j);
                    group.fixed_base_mass[at][l] = used ? held_mass(a, b) : double(i == j);
                    group.damping_stiffness[at][l] = used ? h * damping(a, b) + h * h * stiffness(a, b) : 0.0;
                    group.step_stiffness[at][l] = used ? h * stiffness(a, b) : 0.0;
                }
    }
}

Floating::Group::Block Floating::Group::empty_block() const {
    const Three zero{};
    Block block;
    std::fill_n(block.link, width, -1);
    std::fill_n(block.has_tip, width, false);
    block.rest_turn = block.turn = {every(Vec3::UnitX()), every(Vec3::UnitY()), every(Vec3::UnitZ())};
    block.rest_place = block.place = block.centre = block.base_centre = zero;
    block.offset = {zero, zero};
    block.mass = Eight{};
    block.inertia = block.base_inertia = {zero, zero, zero};
    block.map.assign(size, {zero, zero});
    block.screw = block.map;
    return block;
}

// Assigns the links to the lanes of their parts.
void Floating::assign_lanes() {
    std::vector<bool> shown(links.size(), false);
    for (const Tip& tip : tips) shown[tip.link] = true;
    link_place_.assign(links.size(), {});
    std::vector<std::vector<int>> filled(groups_.size(), std::vector<int>(width, 0));  // links in each lane so far
    for (std::size_t index = 0; index < links.size(); ++index) {
        const Link& link = links[index];
        const Place part = link.columns.empty() ? Place{} : place_[link.columns[0]];
        Group& group = groups_[part.group];
        std::vector<int>& depth = filled[part.group];
        int l = part.lane;
        const int stride = link.columns.empty() ? 1 : group.count;
        for (int k = l; k < width / stride * stride; k += stride)
            if (depth[k] < depth[l]) l = k;
        if (static_cast<int>(group.blocks.size()) == depth[l]) group.blocks.push_back(group.empty_block());
        link_place_[index] = {part, depth[l], l};
        Group::Block& block = group.blocks[depth[l]++];
        block.link[l] = static_cast<int>(index);
        block.has_tip[l] = shown[index];
        block.any_tip = block.any_tip || shown[index];
        put(block.rest_turn.x, l, link.rest.R.col(0));
        put(block.rest_turn.y, l, link.rest.R.col(1));
        put(block.rest_turn.z, l, link.rest.R.col(2));
        put(block.rest_place, l, link.rest.p);
        block.mass[l] = link.mass;
        put(block.centre, l, link.centre);
        put(block.inertia.x, l, link.inertia.col(0));
        put(block.inertia.y, l, link.inertia.col(1));
        put(block.inertia.z, l, link.inertia.col(2));
        for (std::size_t c = 0; c < link.columns.size(); ++c) {
            Six& map = block.map[place_[link.columns[c]].row];
            put(map.linear, l, link.map.col(c).head<3>());
            put(map.angular, l, link.map.col(c).tail<3>());
        }
    }
}

// Computes M(y) as a sum over links.
void Floating::evaluate() {
    Eight mass{};
    Three moment{}, own[3] = {}, spread[2] = {};  // m c; inertia by columns; m c c^T: diagonal, and yz, xz, xy
    for (Group& group : groups_) {
        const int n = group.size;
        group.gather(y, group.y);
        std::fill(group.M.begin(), group.M.end(), Eight{});
        std::fill(group.M_base.begin(), group.M_base.end(), Eight{});
        for (Group::Block& block : group.blocks) {
            if (n || offsets_changed_) block.evaluate(group.y.data());
            for (int l = 0; l < width; ++l) {
                if (!block.has_tip[l]) continue;
                Link& link = links[block.link[l]];
                link.pose.R << get(block.turn.x, l), get(block.turn.y, l), get(block.turn.z, l);
                link.pose.p = get(block.place, l);
            }
            if (decoupled) continue;
            const Three weighted = block.mass * block.base_centre;
            mass += block.mass;
            moment = moment + weighted;
            own[0] = own[0] + block.base_inertia.x;
            own[1] = own[1] + block.base_inertia.y;
            own[2] = own[2] + block.base_inertia.z;
            const Three& c = block.base_centre;
            spread[0] = spread[0] + Three{weighted.x * c.x, weighted.y * c.y, weighted.z * c.z};
            spread[1] = spread[1] + Three{weighted.y * c.z, weighted.x * c.z, weighted.x * c.y};
            for (int j = 0; j < n; ++j) {
                const Six carried = block.momentum(block.screw[j]);
                Eight* to = &group.M_base[6 * j];
                to[0] += carried.linear.x;
                to[1] += carried.linear.y;
                to[2] += carried.linear.z;
                to[3] += carried.angular.x;
                to[4] += carried.angular.y;
                to[5] += carried.angular.z;
                for (int i = 0; i <= j; ++i) group.M[j * n + i] += dot(block.screw[i], carried);
            }
        }
        for (Eight& value : group.M_base) value = group.folded(value);
        const std::vector<Eight>& constant = decoupled ? group.fixed_base_mass : group.armature;
        for (int j = 0; j < n; ++j)
            for (int i = 0; i <= j; ++i)
                group.M[i * n + j] = group.M[j * n + i] = group.folded(group.M[j * n + i]) + constant[j * n + i];
    }
    offsets_changed_ = false;
    if (decoupled) {
        M_base_ = rest_inertia_;
        return;
    }
    const Mat3 first = skew(sum(moment));
    const Vec3 diagonal = sum(spread[0]), off = sum(spread[1]);
    Mat3 inertia, square;
    inertia << sum(own[0]), sum(own[1]), sum(own[2]);
    square << diagonal[0], off[2], off[1], off[2], diagonal[1], off[0], off[1], off[0], diagonal[2];
    inertia += diagonal.sum() * Mat3::Identity() - square;
    M_base_ = blocks(sum(mass) * Mat3::Identity(), -first, first, inertia);
}

void Floating::set_offsets(const double* twists) {
    for (Group& group : groups_)
        for (Group::Block& block : group.blocks)
            for (int l = 0; l < width; ++l) {
                if (block.link[l] < 0) continue;
                const double* twist = twists + 6 * block.link[l];
                put(block.offset.linear, l, Vec3(twist));
                put(block.offset.angular, l, Vec3(twist + 3));
            }
    offsets_changed_ = true;
    refresh();
}

// M_bz v, the momentum from the rates of the parts, in base axes.
Vec6 Floating::momentum_of_parts() {
    Eight total[6] = {};
    for (Group& group : groups_) {
        group.gather(v, group.v);
        for (int i = 0; i < group.size; ++i)
            for (int r = 0; r < 6; ++r) total[r] += group.v[i] * group.M_base[6 * i + r];
    }
    Vec6 result;
    for (int r = 0; r < 6; ++r) result[r] = sum(total[r]);
    return result;
}

// The right-hand side of the parts without loads: M u + h K (target - y), with u = (start, v).
void Floating::begin_parts(const Vec6& start) {
    for (Group& group : groups_) {
        const int n = group.size;
        for (int i = 0; i < n * n; ++i) group.A[i] = group.M[i] + group.damping_stiffness[i];
        group.A_base = group.M_base;
        group.gather(target, group.rates);
        for (int i = 0; i < n; ++i) group.rates[i] -= group.y[i];  // extension of the springs
        for (int i = 0; i < n; ++i) {
            Eight value{};
            for (int r = 0; r < 6; ++r) value += group.M_base[6 * i + r] * start[r];
            for (int j = 0; j < n; ++j)
                value += group.M[i * n + j] * group.v[j] + group.step_stiffness[i * n + j] * group.rates[j];
            group.rhs[i] = value;
        }
    }
}

// Adds -h c: for every link ad(phi)^T M phi + M ad(S v) V. The change of S along v, from the curvature of exp, is of
// third order in the displacement and left out; the momentum does not depend on it.
void Floating::coriolis() {
    if (decoupled) {
        base_rhs_ += h * carried_along(twist, rest_inertia_ * twist);
        return;
    }
    const Six base_twist{every(Vec3(twist.head<3>())), every(Vec3(twist.tail<3>()))};
    Six on_base{};
    for (Group& group : groups_) {
        const int n = group.size;
        std::fill(group.rates.begin(), group.rates.end(), Eight{});
        for (const Group::Block& block : group.blocks) {
            Six own{};
            for (int c = 0; c < n; ++c) own = own + group.v[c] * block.screw[c];
            const Six phi = base_twist + own;
            const Six force = carried_along(phi, block.momentum(phi)) + block.momentum(bracket(own, base_twist));
            on_base = on_base + force;
            for (int c = 0; c < n; ++c) group.rates[c] += dot(block.screw[c], force);
        }
        for (int c = 0; c < n; ++c) group.rhs[c] += h * group.folded(group.rates[c]);
    }
    base_rhs_ += h * stack(sum(on_base.linear), sum(on_base.angular));
}

// Factorises the arrow matrix: the parts one by one, then the Schur complement of the base.
bool Floating::factorise() {
    Mat6 left = A_base_;
    for (Group& group : groups_) {
        const int n = group.size;
        if (!n) continue;
        invert_parts(group.A.data(), group.inverse.data(), n);
        for (int i = 0; i < n; ++i) {
            Eight row[6];
            for (int r = 0; r < 6; ++r) row[r] = group.inverse[i * n] * group.A_base[r];
            for (int k = 1; k < n; ++k)
                for (int r = 0; r < 6; ++r) row[r] += group.inverse[i * n + k] * group.A_base[6 * k + r];
            std::copy_n(row, 6, &group.base_response[6 * i]);
        }
        for (int r = 0; r < 6; ++r)
            for (int c = 0; c <= r; ++c) {
                Eight total = group.A_base[r] * group.base_response[c];
                for (int i = 1; i < n; ++i) total += group.A_base[6 * i + r] * group.base_response[6 * i + c];
                const double value = sum(total);
                left(r, c) -= value;
                if (r != c) left(c, r) -= value;
            }
    }
    inverse_base_ = inverted(left);
    return inverse_base_.allFinite();
}

void Floating::solve() {
    Eight total[6] = {};
    for (const Group& group : groups_)
        for (int i = 0; i < group.size; ++i)
            for (int r = 0; r < 6; ++r) total[r] += group.base_response[6 * i + r] * group.rhs[i];  // A is symmetric
    Vec6 left = base_rhs_;
    for (int r = 0; r < 6; ++r) left[r] -= sum(total[r]);
    base_rate_.noalias() = inverse_base_ * left;
    for (Group& group : groups_) {
        const int n = group.size;
        for (int i = 0; i < n; ++i) {
            Eight value{};
            for (int j = 0; j < n; ++j) value += group.inverse[i * n + j] * group.rhs[j];
            group.rates[i] = value;
        }
    }
    subtract_base_motion(base_rate_);
    update_tip_twists();
}

// Twists of links with tips at the end of the step, in base axes.
void Floating::update_tip_twists() {
    const Six base_twist{every(Vec3(base_rate_.head<3>())), every(Vec3(base_rate_.tail<3>()))};
    for (Group& group : groups_)
        for (Group::Block& block : group.blocks) {
            if (!block.any_tip) continue;
            block.twist = base_twist;
            for (int i = 0; i < group.size; ++i)
                block.twist = block.twist + group.spread(group.rates[i]) * block.screw[i];
        }
}

// Subtracts from the rates of the parts their response to a twist of the base.
void Floating::subtract_base_motion(const Vec6& V) {
    for (Group& group : groups_)
        for (int i = 0; i < group.size; ++i)
            for (int r = 0; r < 6; ++r) group.rates[i] -= group.base_response[6 * i + r] * V[r];
}

Vec6 Floating::link_twist(int link) const {
    const LinkPlace& place = link_place_[link];
    return get(groups_[place.part.group].blocks[place.block].twist, place.lane);
}

Vec6 Floating::screw(int link, int i) const {
    const LinkPlace& place = link_place_[link];
    return get(groups_[place.part.group].blocks[place.block].screw[i], place.lane);
}

Floating::Place Floating::place_of_limit(const Vector& map) const {
    for (Eigen::Index c = 0; c < map.size(); ++c)
        if (map[c] != 0) return place_[c];
    return {};
}

}  // namespace supple
