// Elimination of the three coordinates of a ball joint. With the screws s_k of its axes as columns of S, N = ad(S)^T W,
// and the matrices P', W of `inward`:
//     U = P' S + N/2,   L = P'^T S + N/2,   K = k + S^T (U - N),   P' <- P' - U K^-1 L^T,   p <- p - U K^-1 (tau + S^T
//     p)
#include <algorithm>

#include "engine/articulated.hpp"
#include "engine/articulated_lanes.hpp"

namespace supple {

namespace {

// Negative eigenvalues of the symmetric part: changes of sign in the sequence of its leading minors.
int negative_eigenvalues(const Mat3& K) {
    const Mat3 M = 0.5 * (K + K.transpose());
    const double minors[] = {1.0, M(0, 0), M(0, 0) * M(1, 1) - M(0, 1) * M(0, 1), M.determinant()};
    int count = 0;
    for (int k = 0; k < 3; ++k) count += !(minors[k + 1] * minors[k] > 0);
    return count;
}

// Torques of a wrench along the screws of the three axes R of a node at `at`: S^T w.
SUPPLE_INLINE Vec3 along_axes(const Vec3& at, const Mat3& R, const Eight& w) {
    const Vec3 f(w[0], w[1], w[2]), m(w[3], w[4], w[5]);
    return R.transpose() * (m - at.cross(f));
}

// Screws of the three axes of a node at `at` with the axes R, and N = ad(s)^T W for each.
struct BallScrews {
    Eight screw[3], carried[3];
    alignas(64) double s[3][width];  // the screws as numbers

    BallScrews(const Vec3& at, const Mat3& R, const Eight& W) {
        const Vec3 F(W[0], W[1], W[2]), M(W[3], W[4], W[5]);
        for (int k = 0; k < 3; ++k) {
            const Vec3 axis = R.col(k), v = at.cross(axis), linear = F.cross(axis),
                       angular = M.cross(axis) + F.cross(v);
            screw[k] = Eight{v[0], v[1], v[2], axis[0], axis[1], axis[2], 0, 0};
            carried[k] = Eight{linear[0], linear[1], linear[2], angular[0], angular[1], angular[2], 0, 0};
            store(s[k], screw[k]);
        }
    }
    // k + S^T (U - N)
    Mat3 stiffness(const Mat3& k, const Eight* u) const {
        Mat3 K = k;
        for (int b = 0; b < 3; ++b)
            for (int a = 0; a < 3; ++a) K(a, b) += sum(screw[a] * (u[b] - carried[b]));
        return K;
    }
};

}  // namespace

// The translations dt of a free joint on a parent at rest, world axes: (M + G k G^T) dt + p + G f = 0 with the linear
// part M of P', the linear part p of the residual, the axes G of the translations, the forces f of spring, damper and
// armature on them and their slope k.
void Articulated::eliminate_translations(const Step& step, BallNode& node, const Eight* A, int stride) {
    const System& s = *system_;
    const double c = step.c0 / step.h;
    Mat3 M;
    Eight right = every(0.0);
    for (int r = 0; r < 3; ++r) {
        alignas(64) double row[width];
        store(row, A[r * stride]);
        for (int k = 0; k < 3; ++k) M(r, k) = row[k];
        right[r] = row[6];
    }
    if (node.sprung) {
        Vec3 slope;
        for (int i = 0; i < 3; ++i) {
            const int a = node.shift_axis + i;
            slope[i] = s.model().stiffness[a] + c * (s.model().damping[a] + c * s.model().armature[a]);
        }
        M += node.along * slope.asDiagonal() * node.along.transpose();
    }
    node.compliance = M.inverse();
    correct_translations(step, node, right);
    negative_ += negative_eigenvalues(M);
}

void Articulated::correct_translations(const Step& step, BallNode& node, const Eight& right) const {
    const System& s = *system_;
    const State::Ball& past = past_->balls[node.index];
    Vec3 force = -Vec3(&s.applied[node.shift_axis]);
    for (int i = 0; node.sprung && i < 3; ++i) {
        const int a = node.shift_axis + i;
        const double rate = step.rate(node.t[i], past.shift[i], past.shift_before[i]);
        const double accelerated = step.rate(rate, past.shift_rate[i], past.shift_rate_before[i]);
        force[i] += s.model().stiffness[a] * (node.t[i] - s.rest[a]) + s.model().damping[a] * rate +
                    s.model().armature[a] * accelerated;
    }
    node.shift = -(node.compliance * (Vec3(right[0], right[1], right[2]) + node.along * force));
}

template <bool tangent>
bool Articulated::eliminate_ball(const Step& step, BallNode& node, const Vec3& tau, const Mat3& stiff,
                                 const Eight& carried, Eight* A, Eight* B, Eight& right) {
    if (!tangent) {
        const Pose H = pose(node.node);
        const Vec3 rho = tau + along_axes(H.p - origin_, H.R, right);
        const Vec3 by = node.inverse * rho;
        for (int k = 0; k < 3; ++k) {
            node.part[k][6] = by[k];
            right -= rho[k] * node.upart[k];
        }
        if (node.shift_axis >= 0) correct_translations(step, node, right);
        return true;
    }
    const Pose H = pose(node.node);
    const BallScrews screws(H.p - origin_, H.R, carried);
    alignas(64) double u[3][width], l[3][width];
    Eight left[3], up[3];
    for (int k = 0; k < 3; ++k) {
        node.screw[k] = screws.screw[k];
        const Eight half = 0.5 * screws.carried[k];
        left[k] = combined(screws.s[k], A, half);
        left[k] += Eight{0, 0, 0, 0, 0, 0, tau[k], 0};
        up[k] = combined(screws.s[k], B, half);
        store(l[k], left[k]);
        store(u[k], up[k]);
    }
    const Mat3 K = screws.stiffness(stiff, up);
    negative_ += negative_eigenvalues(K);
    node.inverse = K.inverse();
    for (int k = 0; k < 3; ++k) {
        node.part[k] = node.inverse(k, 0) * left[0] + node.inverse(k, 1) * left[1] + node.inverse(k, 2) * left[2];
        node.upart[k] = node.inverse(0, k) * up[0] + node.inverse(1, k) * up[1] + node.inverse(2, k) * up[2];
    }
    if (node.shift_axis >= 0) {  // its parent is at rest: only the translations remain
        for (int r = 0; r < 3; ++r) A[r] -= u[0][r] * node.part[0] + (u[1][r] * node.part[1] + u[2][r] * node.part[2]);
        eliminate_translations(step, node, A, 1);
        return std::isfinite(node.inverse.sum());
    }
    for (int r = 0; r < 6; ++r) {
        A[r] -= u[0][r] * node.part[0] + (u[1][r] * node.part[1] + u[2][r] * node.part[2]);
        B[r] -= l[0][r] * node.upart[0] + (l[1][r] * node.upart[1] + l[2][r] * node.upart[2]);
    }
    return std::isfinite(node.inverse.sum());
}
template bool Articulated::eliminate_ball<true>(const Step&, BallNode&, const Vec3&, const Mat3&, const Eight&, Eight*,
                                                Eight*, Eight&);
template bool Articulated::eliminate_ball<false>(const Step&, BallNode&, const Vec3&, const Mat3&, const Eight&, Eight*,
                                                 Eight*, Eight&);

// The multipliers of ties are further columns of U and L, in `parts` and `uparts`.
template <bool tangent>
bool Articulated::eliminate_tied_ball(const Step& step, BallNode& node, const Vec3& tau, const Mat3& stiff,
                                      const Eight& carried, Front& front) {
    const int chunks = front.chunks, wide = 1 + chunks, m = front.open;
    Eight *A = &numbers_[front.A], *B = &numbers_[front.B], *E = &numbers_[front.E], *right = &numbers_[front.right];
    Eight *parts = &numbers_[node.parts], *uparts = &numbers_[node.uparts];
    if (!tangent) {
        const Pose H = pose(node.node);
        const Vec3 rho = tau + along_axes(H.p - origin_, H.R, right[0]);
        const Vec3 by = node.inverse * rho;
        for (int k = 0; k < 3; ++k) {
            node.part[k][6] = by[k];
            right[0] -= rho[k] * node.upart[k];
            for (int c = 0; c < chunks; ++c) right[1 + c] -= rho[k] * uparts[k * chunks + c];
        }
        if (node.shift_axis >= 0) correct_translations(step, node, right[0]);
        return true;
    }
    const Pose H = pose(node.node);
    const BallScrews screws(H.p - origin_, H.R, carried);
    alignas(64) double u[3][width], l[3][width];
    for (int k = 0; k < 3; ++k) {
        node.screw[k] = screws.screw[k];
        for (int c = 0; c < wide; ++c) {
            Eight a = c ? every(0.0) : 0.5 * screws.carried[k], b = a;
            for (int r = 0; r < 6; ++r) {
                a += screws.s[k][r] * A[r * wide + c];
                b += screws.s[k][r] * B[r * wide + c];
            }
            if (c) {
                parts[k * chunks + c - 1] = a;
                uparts[k * chunks + c - 1] = b;
            } else {
                a[6] += tau[k];
                store(l[k], a);
                store(u[k], b);
            }
        }
    }
    const Eight up[3] = {load(u[0]), load(u[1]), load(u[2])};
    const Mat3 K = screws.stiffness(stiff, up);
    negative_ += negative_eigenvalues(K);
    node.inverse = K.inverse();
    for (int k = 0; k < 3; ++k) {
        node.part[k] = node.upart[k] = every(0.0);
        for (int j = 0; j < 3; ++j) {
            node.part[k] += node.inverse(k, j) * load(l[j]);
            node.upart[k] += node.inverse(j, k) * load(u[j]);
        }
    }
    scratch_.assign(uparts, uparts + 3 * chunks);
    for (int c = 0; c < chunks; ++c) {  // multiply by the inverse in place
        const Eight p[3] = {parts[c], parts[chunks + c], parts[2 * chunks + c]};
        const Eight q[3] = {uparts[c], uparts[chunks + c], uparts[2 * chunks + c]};
        for (int k = 0; k < 3; ++k) {
            parts[k * chunks + c] = node.inverse(k, 0) * p[0] + node.inverse(k, 1) * p[1] + node.inverse(k, 2) * p[2];
            uparts[k * chunks + c] = node.inverse(0, k) * q[0] + node.inverse(1, k) * q[1] + node.inverse(2, k) * q[2];
        }
    }
    for (int k = 0; k < 3; ++k) {
        const Eight *part = parts + k * chunks, *upart = uparts + k * chunks;
        const double* column = numbers(&scratch_[k * chunks]);
        for (int r = 0; r < 6; ++r) {
            A[r * wide] -= u[k][r] * node.part[k];
            B[r * wide] -= l[k][r] * node.upart[k];
            for (int c = 0; c < chunks; ++c) {
                A[r * wide + 1 + c] -= u[k][r] * part[c];
                B[r * wide + 1 + c] -= l[k][r] * upart[c];
            }
        }
        for (int r = 0; r < m; ++r)
            for (int c = 0; c < chunks; ++c) E[r * chunks + c] -= column[front.lanes[r]] * part[c];
        for (int c = 0; c < chunks; ++c) right[1 + c] -= l[k][6] * upart[c];
    }
    if (node.shift_axis >= 0) eliminate_translations(step, node, A, wide);
    return std::isfinite(node.inverse.sum());
}
template bool Articulated::eliminate_tied_ball<true>(const Step&, BallNode&, const Vec3&, const Mat3&, const Eight&,
                                                     Front&);
template bool Articulated::eliminate_tied_ball<false>(const Step&, BallNode&, const Vec3&, const Mat3&, const Eight&,
                                                      Front&);

// Free joints that are single nodes: the parent is at rest, nothing but linear springs, dampers and armatures acts on
// the translations, and no tie connects the bodies beyond with others.
std::vector<char> Articulated::find_single_nodes(const Model& model, const std::vector<int>& holder) const {
    const int nb = model.bodies(), nj = static_cast<int>(model.joints.size());
    std::vector<char> single(nj, 0), tied(nb, 0);
    if (use_ != Use::steps || !flexible_.empty()) return single;
    auto inner = [&](int body) {
        const Joint& joint = model.joints[holder[body]];
        return joint.child == body ? joint.parent : joint.child;
    };
    std::vector<int> top(nb, -2);  // the first moving body on the path from the world, -1 for bodies at rest
    auto find_top = [&](auto&& find, int body) -> int {
        if (body < 0) return -1;
        if (top[body] == -2) {
            const int before = find(find, inner(body));
            top[body] = before >= 0 ? before : model.joints[holder[body]].count ? body : -1;
        }
        return top[body];
    };
    auto tie = [&](int a, int b) {
        if (a == b) return;
        for (int body : {a, b})
            if (body >= 0) tied[body] = 1;
    };
    std::vector<int> of_axis(model.axes(), -1);
    for (int j = 0; j < nj; ++j) {
        const Joint& joint = model.joints[j];
        const int outer = in_tree_[j]
                              ? (holder[std::max(joint.child, 0)] == j && joint.child >= 0 ? joint.child : joint.parent)
                              : joint.parent;
        for (int a = joint.first; a < joint.first + joint.count; ++a) of_axis[a] = find_top(find_top, outer);
        if (!in_tree_[j] && !is_bushing_[j]) tie(find_top(find_top, joint.parent), find_top(find_top, joint.child));
    }
    std::vector<char> other(model.axes(), 0);  // coordinates with something else
    for (int a = 0; a < model.axes(); ++a) other[a] = model.curve[a] >= 0;
    for (const Actuator& each : model.actuators)
        if (each.axis >= 0) other[each.axis] = 1;
    auto tie_all = [&](const Combination& of) {
        for (int axis : of.axes) {
            tie(of_axis[of.axes[0]], of_axis[axis]);
            other[axis] = 1;
        }
    };
    for (const Spring& spring : model.springs) tie_all(spring.of);
    for (const Row& row : model.rows) tie_all(row.of);
    for (int b = 0; b < nb; ++b) {
        const int j = holder[b];
        const Joint& joint = model.joints[j];
        if (find_top(find_top, b) != b || tied[b] || joint.child != b || joint.blocks != std::vector<int>{1, 1, 1, 3})
            continue;
        single[j] = 1;
        for (int i = 0; i < 6; ++i)
            if (model.twists[joint.first + i] != Vec6::Unit(i) || (i < 3 && other[joint.first + i])) single[j] = 0;
    }
    return single;
}

}  // namespace supple
