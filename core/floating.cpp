#include "floating.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than the machine's are passed to inlined functions only

namespace supple {

namespace {

constexpr int width = 8;
typedef double Eight __attribute__((vector_size(8 * width)));

struct Three {  // a vector in each lane
    Eight x, y, z;
};
SUPPLE_INLINE Three operator+(const Three& a, const Three& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
SUPPLE_INLINE Three operator-(const Three& a, const Three& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
SUPPLE_INLINE Three operator*(const Eight& s, const Three& a) { return {s * a.x, s * a.y, s * a.z}; }
SUPPLE_INLINE Eight dot(const Three& a, const Three& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
SUPPLE_INLINE Three cross(const Three& a, const Three& b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
SUPPLE_INLINE Eight every(double value) { return Eight{} + value; }
SUPPLE_INLINE Three every(const Vec3& v) { return {every(v[0]), every(v[1]), every(v[2])}; }
SUPPLE_INLINE double sum(const Eight& a) {
    return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
}
SUPPLE_INLINE Vec3 sum(const Three& a) { return {sum(a.x), sum(a.y), sum(a.z)}; }
SUPPLE_INLINE void put(Three& to, int lane, const Vec3& v) {
    to.x[lane] = v[0];
    to.y[lane] = v[1];
    to.z[lane] = v[2];
}
SUPPLE_INLINE Vec3 get(const Three& from, int lane) { return {from.x[lane], from.y[lane], from.z[lane]}; }

struct Six {  // a twist or wrench in each lane
    Three linear, angular;
};
SUPPLE_INLINE Six operator+(const Six& a, const Six& b) { return {a.linear + b.linear, a.angular + b.angular}; }
SUPPLE_INLINE Six operator*(const Eight& s, const Six& a) { return {s * a.linear, s * a.angular}; }
SUPPLE_INLINE Eight dot(const Six& a, const Six& b) { return dot(a.linear, b.linear) + dot(a.angular, b.angular); }
SUPPLE_INLINE Vec6 get(const Six& from, int lane) { return stack(get(from.linear, lane), get(from.angular, lane)); }

struct Turn {  // a rotation, or a symmetric matrix, by columns
    Three x, y, z;
};
SUPPLE_INLINE Three operator*(const Turn& R, const Three& a) { return a.x * R.x + a.y * R.y + a.z * R.z; }
SUPPLE_INLINE Turn operator*(const Turn& A, const Turn& B) { return {A * B.x, A * B.y, A * B.z}; }
SUPPLE_INLINE Turn transposed(const Turn& R) {
    return {{R.x.x, R.y.x, R.z.x}, {R.x.y, R.y.y, R.z.y}, {R.x.z, R.y.z, R.z.z}};
}

// ad(a)^T w, the rate at which a wrench or momentum w changes in a frame that moves with a
SUPPLE_INLINE Six carried_along(const Six& a, const Six& w) {
    return {cross(w.linear, a.angular), cross(w.angular, a.angular) + cross(w.linear, a.linear)};
}
SUPPLE_INLINE Six bracket(const Six& a, const Six& b) {  // ad(a) b
    return {cross(a.angular, b.linear) + cross(a.linear, b.angular), cross(a.angular, b.angular)};
}
Vec6 carried_along(const Vec6& a, const Vec6& w) { return ad(a).transpose() * w; }

// Gauss and Jordan, for a positive definite matrix of fixed size.
template <int n>
SUPPLE_INLINE Eigen::Matrix<double, n, n> inverted(Eigen::Matrix<double, n, n> A) {
    for (int k = 0; k < n; ++k) {
        const double pivot = 1 / A(k, k);
        A(k, k) = 1;
        A.col(k) *= pivot;
        for (int j = 0; j < n; ++j) {
            if (j == k) continue;
            const double factor = A(k, j);
            A(k, j) = 0;
            A.col(j) -= factor * A.col(k);
        }
    }
    return A;
}

}  // namespace

// Eight links that as many coordinates move each; lanes without a link have no mass.
struct Floating::Lanes {
    struct Column {
        int of[width];   // coordinate
        int part[width], row[width];
        Six map, screw;
    };
    int count = 0;
    int link[width];
    bool shown[width];       // carries a tip
    Turn rest_turn;
    Three rest_place;
    Six offset;
    Eight mass;
    Three centre;
    Turn inertia;
    std::vector<Column> columns;
    // at the present coordinates, seen from the base
    Turn turn, turned;
    Three place, at;

    SUPPLE_INLINE Six momentum(const Six& twist) const {
        const Three linear = mass * (twist.linear + cross(twist.angular, at));
        return {linear, turned * twist.angular + cross(at, linear)};
    }
    void follow(const Vector& y);
};

// E exp(xi) and, seen from the base, Ad(E exp(xi)) Jr(xi) = Ad(E) Jl(xi) on every column.
void Floating::Lanes::follow(const Vector& y) {
    Six xi = offset;
    for (const Column& column : columns) {
        Eight value;
        for (int l = 0; l < width; ++l) value[l] = y[column.of[l]];
        xi = xi + value * column.map;
    }
    const Three &u = xi.linear, &w = xi.angular;
    const Eight s = dot(w, w);
    double largest = 0;
    for (int l = 0; l < width; ++l) largest = std::max(largest, s[l]);
    Eight g1, g2, g3, g4, g5;
    if (largest < 0.3) {  // series, to rounding
        g4 = 1 / 24. - s * (1 / 720. - s * (1 / 40320. - s * (1 / 3628800. - s * (1 / 479001600. - s / 87178291200.))));
        g5 = 1 / 120. - s * (1 / 5040. - s * (1 / 362880. - s * (1 / 39916800. - s * (1 / 6227020800. - s / 1307674368000.))));
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
    const Eight level = 1 - g2 * s;
    const Turn step{{level + g2 * w.x * w.x, g2 * w.x * w.y + g1 * w.z, g2 * w.x * w.z - g1 * w.y},
                    {g2 * w.x * w.y - g1 * w.z, level + g2 * w.y * w.y, g2 * w.y * w.z + g1 * w.x},
                    {g2 * w.x * w.z + g1 * w.y, g2 * w.y * w.z - g1 * w.x, level + g2 * w.z * w.z}};
    turn = rest_turn * step;
    place = rest_turn * (u + g2 * wu + g3 * cross(w, wu)) + rest_place;
    at = turn * centre + place;
    turned = turn * inertia * transposed(turn);
    // Jl = [[M, dM], [0, M]] with M = I + g2 [w] + g3 [w]^2 and dM its derivative along u
    const Eight twice = 2 * dot(w, u), first = twice * (g4 - g3 / 2), second = twice * (3 * g5 - g4) / 2;
    for (Column& column : columns) {
        const Three &a = column.map.linear, &b = column.map.angular;
        const Three wa = cross(w, a), wb = cross(w, b), ub = cross(u, b), wwb = cross(w, wb);
        const Three angular = rest_turn * (b + g2 * wb + g3 * wwb);
        const Three linear = a + g2 * (wa + ub) + g3 * (cross(w, wa + ub) + cross(u, wb)) + first * wb + second * wwb;
        column.screw = {rest_turn * linear + cross(rest_place, angular), angular};
    }
}

Floating::Floating() = default;
Floating::~Floating() = default;

// Links into lanes, those with as many columns together.
void Floating::pack() {
    lanes_.clear();
    std::vector<bool> shown(links.size(), false);
    for (const Tip& tip : tips) shown[tip.link] = true;
    std::vector<int> order(links.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return links[a].columns.size() < links[b].columns.size(); });
    for (int index : order) {
        const Link& link = links[index];
        const std::size_t k = link.columns.size();
        if (lanes_.empty() || lanes_.back().count == width || lanes_.back().columns.size() != k) {
            lanes_.emplace_back();
            Lanes& fresh = lanes_.back();
            const Three zero{}, ones[3] = {every(Vec3::UnitX()), every(Vec3::UnitY()), every(Vec3::UnitZ())};
            fresh.rest_turn = fresh.turn = {ones[0], ones[1], ones[2]};
            fresh.rest_place = fresh.place = fresh.centre = fresh.at = zero;
            fresh.offset = {zero, zero};
            fresh.mass = Eight{};
            fresh.inertia = fresh.turned = {zero, zero, zero};
            fresh.columns.resize(k);
            for (Lanes::Column& column : fresh.columns) {
                std::fill_n(column.of, width, 0);
                column.map = column.screw = {zero, zero};
            }
        }
        Lanes& block = lanes_.back();
        const int l = block.count++;
        block.link[l] = index;
        block.shown[l] = shown[index];
        put(block.rest_turn.x, l, link.rest.R.col(0));
        put(block.rest_turn.y, l, link.rest.R.col(1));
        put(block.rest_turn.z, l, link.rest.R.col(2));
        put(block.rest_place, l, link.rest.p);
        block.mass[l] = link.mass;
        put(block.centre, l, link.centre);
        put(block.inertia.x, l, link.inertia.col(0));
        put(block.inertia.y, l, link.inertia.col(1));
        put(block.inertia.z, l, link.inertia.col(2));
        for (std::size_t c = 0; c < k; ++c) {
            Lanes::Column& column = block.columns[c];
            column.of[l] = link.columns[c];
            column.part[l] = part_of_[link.columns[c]];
            column.row[l] = row_of_[link.columns[c]];
            put(column.map.linear, l, link.map.col(c).head<3>());
            put(column.map.angular, l, link.map.col(c).tail<3>());
        }
    }
}

void Floating::prepare() {
    const int m = static_cast<int>(stiffness.rows());
    y.setZero(m);
    v.setZero(m);
    rest_inertia_.setZero();
    for (const Link& link : links) {
        const Vec3 c = link.rest.act(link.centre);
        rest_inertia_ += spatial_inertia(link.mass, c, link.rest.R * link.inertia * link.rest.R.transpose());
    }
    divide();
    pack();
    refresh();
}

// Coordinates that share a link, a spring, a damper or a limit belong together.
void Floating::divide() {
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
    for (const Matrix* each : {&stiffness, &damping, &armature, &held_mass})
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < i; ++j)
                if ((*each)(i, j) != 0) join(i, j);
    for (const Reduced::Bound& bound : bounds) {
        int first = -1;
        for (int i = 0; i < m; ++i)
            if (bound.map[i] != 0) first < 0 ? void(first = i) : join(first, i);
    }
    part_of_.assign(m, -1);
    row_of_.assign(m, 0);
    parts_.clear();
    for (int i = 0; i < m; ++i) {
        const int r = find(i);
        if (part_of_[r] < 0) {
            part_of_[r] = static_cast<int>(parts_.size());
            parts_.emplace_back();
        }
        part_of_[i] = part_of_[r];
        row_of_[i] = static_cast<int>(parts_[part_of_[i]].columns.size());
        parts_[part_of_[i]].columns.push_back(i);
    }
    for (Part& part : parts_) {
        const int n = static_cast<int>(part.columns.size());
        part.fixed.resize(n, n);
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) {
                const int a = part.columns[i], b = part.columns[j];
                part.fixed(i, j) = h * damping(a, b) + h * h * stiffness(a, b);
            }
        part.M_base.setZero(n, 6);
        part.right.setZero(n);
        part.fresh.setZero(n);
    }
    link_part_.clear();
    for (const Link& link : links) link_part_.push_back(link.columns.empty() ? -1 : part_of_[link.columns[0]]);
}

// M(y), link by link.
void Floating::evaluate() {
    for (Part& part : parts_) {
        const int n = static_cast<int>(part.columns.size());
        const Matrix& own = decoupled ? held_mass : armature;
        part.M.resize(n, n);
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < n; ++i) part.M(i, j) = own(part.columns[i], part.columns[j]);
        part.M_base.setZero();
    }
    Eight mass{};
    Three moment{}, own[3] = {}, spread[2] = {};  // m c; inertia by columns; m c c^T: diagonal, and yz, xz, xy
    for (Lanes& block : lanes_) {
        block.follow(y);
        for (int l = 0; l < block.count; ++l) {
            if (!block.shown[l]) continue;
            Link& link = links[block.link[l]];
            link.pose.R << get(block.turn.x, l), get(block.turn.y, l), get(block.turn.z, l);
            link.pose.p = get(block.place, l);
            for (std::size_t c = 0; c < block.columns.size(); ++c) link.screws.col(c) = get(block.columns[c].screw, l);
        }
        if (decoupled) continue;
        const Three weighted = block.mass * block.at;
        mass += block.mass;
        moment = moment + weighted;
        own[0] = own[0] + block.turned.x;
        own[1] = own[1] + block.turned.y;
        own[2] = own[2] + block.turned.z;
        const Three& c = block.at;
        spread[0] = spread[0] + Three{weighted.x * c.x, weighted.y * c.y, weighted.z * c.z};
        spread[1] = spread[1] + Three{weighted.y * c.z, weighted.x * c.z, weighted.x * c.y};
        const int k = static_cast<int>(block.columns.size());
        for (int j = 0; j < k; ++j) {
            const Lanes::Column& column = block.columns[j];
            const Six carried = block.momentum(column.screw);
            for (int l = 0; l < block.count; ++l) {
                double* to = parts_[column.part[l]].M_base.data() + column.row[l];
                const Eigen::Index n = parts_[column.part[l]].M_base.rows();
                const Vec6 value = get(carried, l);
                for (int r = 0; r < 6; ++r) to[r * n] += value[r];
            }
            for (int i = 0; i <= j; ++i) {
                const Eight value = dot(block.columns[i].screw, carried);
                for (int l = 0; l < block.count; ++l) {
                    Matrix& M = parts_[column.part[l]].M;
                    M(block.columns[i].row[l], column.row[l]) += value[l];
                    if (i != j) M(column.row[l], block.columns[i].row[l]) += value[l];
                }
            }
        }
    }
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
    for (Lanes& block : lanes_)
        for (int l = 0; l < block.count; ++l) {
            const double* twist = twists + 6 * block.link[l];
            put(block.offset.linear, l, Vec3(twist));
            put(block.offset.angular, l, Vec3(twist + 3));
        }
    refresh();
}

void Floating::refresh() {
    evaluate();
    Vec6 seen = transform_wrench(base, momentum);
    for (const Part& part : parts_)
        for (std::size_t i = 0; i < part.columns.size(); ++i) seen -= v[part.columns[i]] * part.M_base.row(i).transpose();
    twist.noalias() = inverted<6>(M_base_) * seen;
}

void Floating::set_twist(const Vec6& V) {
    evaluate();
    Vec6 seen = M_base_ * V;
    for (const Part& part : parts_)
        for (std::size_t i = 0; i < part.columns.size(); ++i) seen += v[part.columns[i]] * part.M_base.row(i).transpose();
    momentum = transform_wrench(base.inverse(), seen);
    twist = V;
}

// Velocity of a world point that moves with a tip, along the touch's axes: by the base's twist, and by the coordinates of
// the tip's part.
void Floating::fill(const Touch& touch, Answer& answer) const {
    const int index = tips[touch.frame].link;
    const Link& link = links[index];
    const Vec3 at = base.R.transpose() * (touch.point - base.p);
    answer.part = link_part_[index];
    answer.rows = 3;
    const Mat3 axes = base.R.transpose() * touch.axes;
    for (int r = 0; r < 3; ++r) answer.by_base.row(r) << axes.col(r).transpose(), at.cross(axes.col(r)).transpose();
    if (answer.part < 0) return;
    answer.by_part.setZero(3, parts_[answer.part].columns.size());
    for (std::size_t c = 0; c < link.columns.size(); ++c)
        answer.by_part.col(row_of_[link.columns[c]]).noalias() = answer.by_base * link.screws.col(c);
}

// A force in world axes on the right-hand side.
void Floating::load(const Answer& answer, const Vec3& force) {
    right_.noalias() += h * (answer.by_base.transpose() * force);
    if (answer.part >= 0) parts_[answer.part].right.noalias() += h * (answer.by_part.transpose() * force);
}

void Floating::add_loads() {
    if (mounted) {  // springs taken at the end of the step
        off_mount_ = log(mount.seen_from(base));
        right_ += h * mount_stiffness.cwiseProduct(off_mount_);
        A_base_.diagonal() += h * (mount_damping + h * mount_stiffness);
    }
    for (int e = 0; e < frames(); ++e) {
        const Tip& tip = tips[e];
        const Link& link = links[tip.link];
        if (!tip.wrench.isZero(0)) {
            const Pose pose = frame(e);
            const Mat3 turn = tip.world ? Mat3(Mat3::Identity()) : pose.R;
            const Vec3 force = turn * tip.wrench.head<3>(), torque = turn * tip.wrench.tail<3>();
            fill({e, pose.p, Mat3::Identity()}, scratch_);
            load(scratch_, force);
            const Vec3 seen = base.R.transpose() * torque;
            right_.tail<3>() += h * seen;
            for (std::size_t c = 0; c < link.columns.size(); ++c)
                parts_[scratch_.part].right[row_of_[link.columns[c]]] += h * link.screws.col(c).tail<3>().dot(seen);
            gain_ += h * stack(force, torque + pose.p.cross(force));
        }
        if (tip.held) {  // a spring taken at the end of the step
            const Vec3 at = frame(e).act(tip.point);
            fill({e, at, Mat3::Identity()}, scratch_);
            load(scratch_, tip.stiffness * (tip.target - at));
            const double stiff = h * (h * tip.stiffness + tip.damping);
            A_base_.noalias() += stiff * (scratch_.by_base.transpose() * scratch_.by_base);
            if (scratch_.part >= 0) {
                Part& part = parts_[scratch_.part];
                part.A.noalias() += stiff * (scratch_.by_part.transpose() * scratch_.by_part);
                part.A_base.noalias() += stiff * (scratch_.by_part.transpose() * scratch_.by_base);
            }
        }
    }
}

// -c: for every link ad(phi)^T M phi + M ad(S v) V, the forces that constant rates would need. (What S itself changes
// along v by the curvature of exp is of third order in the displacement and left out; the momentum is not touched by it.)
void Floating::coriolis() {
    if (decoupled) {
        right_ += h * carried_along(twist, rest_inertia_ * twist);
        return;
    }
    const Six base_twist{every(Vec3(twist.head<3>())), every(Vec3(twist.tail<3>()))};
    Six on_base{};
    for (const Lanes& block : lanes_) {
        Six own{};
        for (const Lanes::Column& column : block.columns) {
            Eight rate;
            for (int l = 0; l < width; ++l) rate[l] = v[column.of[l]];
            own = own + rate * column.screw;
        }
        const Six phi = base_twist + own;
        const Six force = carried_along(phi, block.momentum(phi)) + block.momentum(bracket(own, base_twist));
        on_base = on_base + force;
        for (const Lanes::Column& column : block.columns) {
            const Eight value = h * dot(column.screw, force);
            for (int l = 0; l < block.count; ++l) parts_[column.part[l]].right[column.row[l]] += value[l];
        }
    }
    right_ += h * stack(sum(on_base.linear), sum(on_base.angular));
}

// Calls f with the size of a part as a constant where it is small, so that nothing is done at run time but arithmetic.
template <class F>
SUPPLE_INLINE void sized(Eigen::Index n, F f) {
    switch (n) {
        case 1: return f(std::integral_constant<int, 1>());
        case 2: return f(std::integral_constant<int, 2>());
        case 3: return f(std::integral_constant<int, 3>());
        case 4: return f(std::integral_constant<int, 4>());
        case 5: return f(std::integral_constant<int, 5>());
        case 6: return f(std::integral_constant<int, 6>());
        default: return f(std::integral_constant<int, Eigen::Dynamic>());
    }
}

// Arrow: every part by itself, then what is left of the base.
bool Floating::factorise() {
    Mat6 left = A_base_;
    for (Part& part : parts_) {
        const Eigen::Index size = part.A.rows();
        part.inverse.resize(size, size);
        part.follows.resize(size, 6);
        sized(size, [&](auto constant) {
            constexpr int n = constant;
            using Square = Eigen::Matrix<double, n, n>;
            using Tall = Eigen::Matrix<double, n, 6>;
            const Eigen::Map<const Square> A(part.A.data(), size, size);
            Eigen::Map<Square> inverse(part.inverse.data(), size, size);
            if constexpr (n == Eigen::Dynamic) inverse = A.inverse();
            else inverse = inverted<n>(A);
            const Eigen::Map<const Tall> base(part.A_base.data(), size, 6);
            Eigen::Map<Tall> follows(part.follows.data(), size, 6);
            follows.noalias() = inverse * base;
            left.noalias() -= base.transpose() * follows;
        });
    }
    inverse_base_ = inverted<6>(left);
    return inverse_base_.allFinite();
}

void Floating::solve() {
    Vec6 left = right_;
    for (Part& part : parts_) left.noalias() -= part.follows.transpose() * part.right;  // A is symmetric
    fresh_.noalias() = inverse_base_ * left;
    for (Part& part : parts_) {
        part.fresh.noalias() = part.inverse * part.right;
        part.fresh.noalias() -= part.follows * fresh_;
    }
}

bool Floating::begin() {
    kept_.base = base;
    kept_.y = y;
    kept_.v = v;
    kept_.momentum = momentum;
    kept_.twist = twist;
    kept_.time = time;
    // gravity is an acceleration of everything
    const Vec6 fall = stack(base.R.transpose() * gravity, Vec3::Zero()), start = twist + h * fall;
    right_.noalias() = M_base_ * start;
    gain_ = h * transform_wrench(base.inverse(), M_base_ * fall);
    A_base_ = M_base_;
    for (Part& part : parts_) {
        const int n = static_cast<int>(part.columns.size());
        part.A = part.M + part.fixed;
        part.A_base = part.M_base;
        part.right.noalias() = part.M_base * start;
        for (int i = 0; i < n; ++i) {
            const int a = part.columns[i];
            right_ += v[a] * part.M_base.row(i).transpose();
            for (int j = 0; j < n; ++j) {
                const int b = part.columns[j];
                part.right[i] += part.M(i, j) * v[b] + h * stiffness(a, b) * (target[b] - y[b]);
            }
        }
    }
    coriolis();
    add_loads();
    if (!factorise()) return false;
    solve();
    return fresh_.allFinite();
}

Vec6 Floating::drift(int e) const {
    const Link& link = links[tips[e].link];
    Vec6 all = fresh_;
    for (std::size_t c = 0; c < link.columns.size(); ++c)
        all += parts_[link_part_[tips[e].link]].fresh[row_of_[link.columns[c]]] * link.screws.col(c);
    const Vec3 w = all.tail<3>(), at = link.pose.act(tips[e].fixed.p);
    return stack(base.R * (all.head<3>() + w.cross(at)), base.R * w);
}

void Floating::limits(std::vector<Limit>& out) const {
    if (bounds.empty()) return;
    Vector rates(y.size());
    for (const Part& part : parts_)
        for (std::size_t i = 0; i < part.columns.size(); ++i) rates[part.columns[i]] = part.fresh[i];
    for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i].near(i, y, rates, h, out);
}

void Floating::respond(const std::vector<Touch>& touches, const std::vector<Limit>& limits, double* free,
                       double* response) {
    const std::size_t k = touches.size(), all = k + limits.size();
    const int n = static_cast<int>(3 * k + limits.size());
    if (answers_.size() < all) answers_.resize(all);
    for (std::size_t i = 0; i < all; ++i) {
        Answer& answer = answers_[i];
        if (i < k) {
            fill(touches[i], answer);
        } else {
            const Limit& limit = limits[i - k];
            const Vector& map = bounds[limit.row].map;
            answer.by_base.setZero();
            answer.part = -1;
            answer.rows = 1;
            for (Eigen::Index c = 0; c < map.size(); ++c) {
                if (map[c] == 0) continue;
                if (answer.part < 0) answer.by_part.setZero(3, parts_[answer.part = part_of_[c]].columns.size());
                answer.by_part(0, row_of_[c]) = limit.sign * map[c];
            }
        }
        answer.left = answer.by_base.transpose();
        Vec3 rate = answer.by_base * fresh_;
        if (answer.part >= 0) {
            const Part& part = parts_[answer.part];
            const Eigen::Index size = part.fresh.size();
            answer.moved.resize(size, 3);
            sized(size, [&](auto constant) {
                constexpr int n = constant;
                const Eigen::Map<const Eigen::Matrix<double, n, n>> inverse(part.inverse.data(), size, size);
                const Eigen::Map<const Eigen::Matrix<double, 3, n>> rows(answer.by_part.data(), 3, size);
                Eigen::Map<Eigen::Matrix<double, n, 3>> moved(answer.moved.data(), size, 3);
                moved.noalias() = inverse * rows.transpose();
                answer.left.noalias() -= Eigen::Map<const Eigen::Matrix<double, n, 6>>(part.A_base.data(), size, 6).transpose() * moved;
                rate.noalias() += rows * Eigen::Map<const Eigen::Matrix<double, n, 1>>(part.fresh.data(), size);
            });
        }
        answer.moved_base.noalias() = inverse_base_ * answer.left;
        const std::size_t row = i < k ? 3 * i : 3 * k + (i - k);
        for (int r = 0; r < answer.rows; ++r) free[row + r] = rate[r];
    }
    Eigen::Map<Matrix> W(response, n, n);
    for (std::size_t j = 0; j < all; ++j)
        for (std::size_t i = 0; i <= j; ++i) {  // symmetric
            const Answer &a = answers_[i], &b = answers_[j];
            Mat3 block = a.left.transpose() * b.moved_base;
            if (a.part >= 0 && a.part == b.part) block.noalias() += a.by_part.lazyProduct(b.moved);
            const std::size_t row = i < k ? 3 * i : 3 * k + (i - k), column = j < k ? 3 * j : 3 * k + (j - k);
            for (int c = 0; c < b.rows; ++c)
                for (int r = 0; r < a.rows; ++r) W(row + r, column + c) = W(column + c, row + r) = block(r, c);
        }
}

bool Floating::finish(const std::vector<Touch>& touches, const std::vector<Limit>& limits, const double* impulses) {
    const std::size_t k = touches.size(), all = k + limits.size();
    Vec6 change = Vec6::Zero();
    for (std::size_t i = 0; i < all; ++i) {
        const Answer& answer = answers_[i];
        Vec3 p = Vec3::Zero();
        const std::size_t row = i < k ? 3 * i : 3 * k + (i - k);
        for (int r = 0; r < answer.rows; ++r) p[r] = impulses[row + r];
        change.noalias() += answer.moved_base * p;
        if (answer.part >= 0) parts_[answer.part].fresh.noalias() += answer.moved * p;
        if (i < k) {
            const Vec3 world = touches[i].axes * p;
            gain_ += stack(world, touches[i].point.cross(world));
        }
    }
    if (all) {
        fresh_ += change;
        for (Part& part : parts_) part.fresh.noalias() -= part.follows * change;
    }
    if (!fresh_.allFinite()) return false;
    if (mounted) {
        const Vec6 wrench = mount_stiffness.cwiseProduct(off_mount_ - h * fresh_) - mount_damping.cwiseProduct(fresh_);
        gain_ += h * transform_wrench(base.inverse(), wrench);
    }
    for (int e = 0; e < frames(); ++e) {  // what handles did, at the end of the step
        const Tip& tip = tips[e];
        if (!tip.held) continue;
        const Vec3 at = frame(e).act(tip.point);
        fill({e, at, Mat3::Identity()}, scratch_);
        Vec3 rate = scratch_.by_base * fresh_;
        if (scratch_.part >= 0) rate.noalias() += scratch_.by_part * parts_[scratch_.part].fresh;
        const Vec3 force = tip.stiffness * (tip.target - at - h * rate) - tip.damping * rate;
        gain_ += h * stack(force, at.cross(force));
    }
    for (const Part& part : parts_)
        for (std::size_t i = 0; i < part.columns.size(); ++i) {
            if (!std::isfinite(part.fresh[i])) return false;
            v[part.columns[i]] = part.fresh[i];
        }
    y += h * v;
    momentum += gain_;
    base = base * exp(Vec6(h * fresh_));
    base.R = 0.5 * base.R * (3 * Mat3::Identity() - base.R.transpose() * base.R);  // stays a rotation
    time += h;
    refresh();
    return base.R.allFinite() && base.p.allFinite() && twist.allFinite() && y.allFinite();
}

bool Floating::step() {
    if (begin() && finish({}, {}, nullptr)) return true;
    abandon();
    return false;
}

void Floating::abandon() {
    base = kept_.base;
    y = kept_.y;
    v = kept_.v;
    momentum = kept_.momentum;
    time = kept_.time;
    refresh();
    twist = kept_.twist;
}

double Floating::energy() const {
    // M_bb holds the mass and, off its diagonal, mass times the centre seen from the base
    const Vec3 first(M_base_(5, 1), M_base_(3, 2), M_base_(4, 0));
    double sum = 0.5 * twist.dot(M_base_ * twist) - gravity.dot(M_base_(0, 0) * base.p + base.R * first);
    for (const Part& part : parts_)
        for (std::size_t i = 0; i < part.columns.size(); ++i) {
            const int a = part.columns[i];
            sum += v[a] * part.M_base.row(i).dot(twist);
            for (std::size_t j = 0; j < part.columns.size(); ++j) {
                const int b = part.columns[j];
                sum += 0.5 * (v[a] * part.M(i, j) * v[b] + (y[a] - target[a]) * stiffness(a, b) * (y[b] - target[b]));
            }
        }
    return sum;
}

}  // namespace supple
