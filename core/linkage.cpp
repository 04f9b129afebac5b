#include "linkage.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace supple {

namespace {

using Row6 = Eigen::Matrix<double, 6, 6, Eigen::RowMajor>;
using Map6 = Eigen::Map<const Mat6>;
using MapVec = Eigen::Map<const Vec6>;
using Pack = Eigen::Array<double, 4, 1>;

constexpr double rounding = 4e-15;  // of a sum of at most 13 products, generously
const Pose identity_pose;
constexpr double none_left = 0;

template <class To>
Eigen::Map<To> to(double* at) {
    return Eigen::Map<To>(at);
}

// Of a symmetric positive definite matrix, by L D L^T; false if it is not.
SUPPLE_INLINE bool invert(const Mat6& a, Mat6& inverse) {
    double l[6][6], x[6][6], d[6];
    bool fine = true;
    for (int j = 0; j < 6; ++j) {
        double w[6];
        double pivot = a(j, j);
        for (int k = 0; k < j; ++k) {
            w[k] = l[j][k] * d[k];
            pivot -= l[j][k] * w[k];
        }
        fine &= pivot > 0;
        d[j] = pivot;
        const double scale = 1 / pivot;
        for (int i = j + 1; i < 6; ++i) {
            double sum = a(i, j);
            for (int k = 0; k < j; ++k) sum -= l[i][k] * w[k];
            l[i][j] = sum * scale;
        }
    }
    for (int j = 0; j < 6; ++j) {  // x = L^-1
        x[j][j] = 1;
        for (int i = j + 1; i < 6; ++i) {
            double sum = -l[i][j];
            for (int k = j + 1; k < i; ++k) sum -= l[i][k] * x[k][j];
            x[i][j] = sum;
        }
    }
    double y[6][6];
    for (int i = 0; i < 6; ++i) {
        const double scale = 1 / d[i];
        for (int j = 0; j <= i; ++j) y[i][j] = x[i][j] * scale;
    }
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j <= i; ++j) {
            double sum = 0;
            for (int k = i; k < 6; ++k) sum += x[k][i] * y[k][j];
            inverse(i, j) = inverse(j, i) = sum;
        }
    return fine;
}

// Where a node's coefficients stand, with h handles and k axes: what its parent needs and what changes of the forces
// alone need (`at`), and what the way down needs (`down`).
struct Motion {
    double *ff, *fs, *ss, *bias, *W, *U, *M, *G, *gamma, *u, *q0;
    Motion(double* at, double* down, int h, int k) {
        ff = at;
        fs = at + 36;
        ss = at + 72;
        bias = at + (h == 2 ? 108 : 36 * h);
        W = bias + 6 * h;
        U = W + 36;          // k rows of 6
        M = U + 6 * k;       // (k, k) inverse inertia of the joint
        G = down;            // h blocks: force through the joint per force on a handle
        gamma = G + 36 * h;  // force through the joint without any
        u = gamma + 6;       // k rows of 6 h: less acceleration of the joint per force on a handle
        q0 = u + 6 * h * k;  // acceleration without any
    }
};

// Where its total acceleration |R f + r|^2 + rho^2 stands: N = 6 h columns.
struct Total {
    double *R, *r, *rho, *tau, *v;
    Total(double* at, int N) : R(at), r(at + N * N), rho(r + N), tau(rho + 1), v(tau + N) {}
};

// Adds m rows D of L columns to the row `pivot` of a triangle by a reflection with v: the columns right of the pivot's.
template <int L>
SUPPLE_INLINE void reflect(double* pivot, double* D, int stride, int m, const double* v, double tau) {
    using Columns = Eigen::Array<double, L, 1>;
    Columns w = Eigen::Map<Columns>(pivot);
    for (int i = 0; i < m; ++i) w += v[i] * Eigen::Map<Columns>(D + i * stride);
    w *= tau;
    Eigen::Map<Columns>{pivot} -= w;
    for (int i = 0; i < m; ++i) Eigen::Map<Columns>{D + i * stride} -= v[i] * w;
}

// R^T R <- R^T R + D^T D by Householder reflections; their vectors are kept, for changes of the right-hand side alone.
template <int N>
void triangulate(const Total& total, double* D, int m) {
    const int padded = (m + 3) / 4 * 4;
    for (int j = 0; j < N; ++j) {
        double* v = total.v + j * padded;
        double below = 0;
        for (int i = 0; i < m; ++i) {
            v[i] = D[i * N + j];
            below += v[i] * v[i];
        }
        for (int i = m; i < padded; ++i) v[i] = 0;
        double* row = total.R + j * N;
        if (below == 0) {
            total.tau[j] = 0;
            continue;
        }
        const double old = row[j], diagonal = -std::copysign(std::sqrt(old * old + below), old);
        const double scale = 1 / (old - diagonal), tau = (diagonal - old) / diagonal;
        for (int i = 0; i < m; ++i) v[i] *= scale;
        total.tau[j] = tau;
        const int start = j / 4 * 4;
        if constexpr (N == 12) {
            if (start == 0)
                reflect<12>(row, D, N, m, v, tau);
            else if (start == 4)
                reflect<8>(row + 4, D + 4, N, m, v, tau);
            else
                reflect<4>(row + 8, D + 8, N, m, v, tau);
        } else {
            if (start == 0)
                reflect<6>(row, D, N, m, v, tau);
            else
                reflect<2>(row + 4, D + 4, N, m, v, tau);
        }
        for (int i = start; i < j; ++i) row[i] = 0;
        row[j] = diagonal;
    }
}

// The same reflections of the right-hand side r of the triangle and c of the added rows; what is left of c is rho.
template <int N>
void reflect_constants(const Total& total, double* c, int m, double squares) {
    const int packs = (m + 3) / 4;
    for (int i = m; i < 4 * packs; ++i) c[i] = 0;
    for (int j = 0; j < N; ++j) {
        const double* v = total.v + 4 * packs * j;
        Pack sum = Pack::Zero();
        for (int p = 0; p < packs; ++p) sum += Eigen::Map<const Pack>(v + 4 * p) * Eigen::Map<const Pack>(c + 4 * p);
        const double w = total.tau[j] * (total.r[j] + ((sum[0] + sum[1]) + (sum[2] + sum[3])));
        total.r[j] -= w;
        for (int p = 0; p < packs; ++p) Eigen::Map<Pack>{c + 4 * p} -= w * Eigen::Map<const Pack>(v + 4 * p);
    }
    for (int i = 0; i < m; ++i) squares += c[i] * c[i];
    *total.rho = std::sqrt(squares);
}

}  // namespace

// --- coefficients ---------------------------------------------------------------------------------------------------

Linkage::Half Linkage::half(int child) const {
    if (child < 0)
        return {leaf_inverse_[~child].data(), nullptr, nullptr, leaf_bias_[~child].data(), nullptr, nullptr, nullptr, &none_left};
    const Node& n = nodes_[child];
    const int k = n.joint < 0 ? 0 : joints[n.joint].count;
    const Motion m(const_cast<Linkage*>(this)->assembly(n), nullptr, n.handles, k);
    const Total t(const_cast<double*>(total_.data()) + n.total, 6 * n.handles);
    return {m.ff, m.fs, m.ss, m.bias, m.bias + 6, t.R, t.r, t.rho};
}

namespace {

// Eq. 2: V = (Phi_a + Phi_b)^-1, W = V - V S (S^T V S + armature)^-1 S^T V, U = (S^T V S + armature)^-1 S^T V.
// False where the joint's axes do not move independently.
bool hold(const Mat6& sum, const Vec6* S, const Linkage::Axis* axis, int k, const Motion& to_) {
    Mat6 V;
    if (!invert(sum, V)) return false;
    auto W = to<Mat6>(to_.W);
    if (k == 0) {
        W = V;
    } else if (k == 1) {
        const Vec6 along = V * S[0];
        const double inverse = 1 / (S[0].dot(along) + axis[0].armature);
        to_.M[0] = inverse;
        to<Vec6>(to_.U) = inverse * along;
        W.noalias() = V - (inverse * along) * along.transpose();
    } else {
        using Columns = Eigen::Matrix<double, 6, Eigen::Dynamic, 0, 6, 6>;
        using Square = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, 6, 6>;
        Columns motion(6, k);
        bool driven = false;
        for (int a = 0; a < k; ++a) motion.col(a) = S[a];
        const Columns along = V * motion;
        Square inertia = motion.transpose() * along;
        for (int a = 0; a < k; ++a) {
            inertia(a, a) += axis[a].armature;
            driven |= axis[a].armature > 0;
        }
        const Eigen::LLT<Square> factor(inertia);
        if (factor.info() != Eigen::Success) return false;
        for (int a = 0; a < k; ++a) {
            const double pivot = factor.matrixLLT()(a, a);
            if (!(pivot * pivot > 1e-12 * inertia(a, a))) return false;
        }
        const Square inverse = factor.solve(Square::Identity(k, k));
        Eigen::Map<Square>(to_.M, k, k) = inverse;
        const Columns U = along * inverse;  // transposed
        Eigen::Map<Columns>(to_.U, 6, k) = U;
        if (k == 6 && !driven)
            W.setZero();  // a joint that holds nothing
        else
            W = V - U * along.transpose();
    }
    return true;
}

}  // namespace

// Joins two assemblies (eqs. 2 and 9). A: handles of the left one. B: what the right one keeps: 0 nothing, 1 the handle
// that the joint holds, 2 its other one. phi is the force through the joint on the right one, in the left body's frame.
template <int A, int B>
bool Linkage::join(const Node& n, bool moved, bool totals) {
    constexpr int H = B ? 2 : 1;
    const int k = n.joint < 0 ? 0 : joints[n.joint].count, first = k ? joints[n.joint].first : 0;
    const Half a = half(n.left), b = half(n.right);
    const Motion m(assembly(n), descent_.data() + n.descent, H, k);
    const Pose& T = n.joint < 0 ? identity_pose : across_[n.joint];
    const int t = H == 1 || n.top_first ? 0 : 1, o = 1 - t;

    if (moved) {
        const Mat6 Ad = adjoint(T);
        Mat6 seen, sum;
        seen.noalias() = Ad * Map6(b.ff);
        sum = Map6(a.ff);
        sum.noalias() += seen * Ad.transpose();
        if (!hold(sum, subspace_.data() + first, axes.data() + first, k, m)) return false;
        const Map6 W(m.W);
        const Map6 D_t(A == 1 ? a.ff : a.fs);
        Mat6 G_t;
        G_t.noalias() = W * D_t;
        to<Mat6>(m.G + 36 * t) = G_t;
        auto tt = to<Mat6>(H == 1 || t == 0 ? m.ff : m.ss);
        tt = Map6(A == 1 ? a.ff : a.ss);
        tt.noalias() -= D_t.transpose() * G_t;
        for (int i = 0; i < k; ++i) to<Vec6>(m.u + 6 * (H * i + t)).noalias() = D_t.transpose() * MapVec(m.U + 6 * i);
        if constexpr (B > 0) {
            Mat6 D_o, G_o;
            if constexpr (B == 1)
                D_o = -seen;
            else
                D_o.noalias() = -Ad * Map6(b.fs);
            G_o.noalias() = W * D_o;
            to<Mat6>(m.G + 36 * o) = G_o;
            auto oo = to<Mat6>(t == 0 ? m.ss : m.ff);
            oo = Map6(B == 1 ? b.ff : b.ss);
            oo.noalias() -= D_o.transpose() * G_o;
            auto fs = to<Mat6>(m.fs);
            if (t == 0)
                fs.noalias() = -D_t.transpose() * G_o;
            else
                fs.noalias() = -D_o.transpose() * G_t;
            for (int i = 0; i < k; ++i)
                to<Vec6>(m.u + 6 * (H * i + o)).noalias() = D_o.transpose() * MapVec(m.U + 6 * i);
        }
    }

    const Vec6 beta = MapVec(a.bf) - transform_twist(T, MapVec(b.bf));
    Vec6 gamma = Map6(m.W) * beta;
    for (int i = 0; i < k; ++i) {
        gamma += drive_[first + i] * MapVec(m.U + 6 * i);
        double q0 = -MapVec(m.U + 6 * i).dot(beta);
        for (int j = 0; j < k; ++j) q0 += m.M[k * i + j] * drive_[first + j];
        m.q0[i] = q0;
    }
    to<Vec6>(m.gamma) = gamma;
    if constexpr (A == 1)
        to<Vec6>(m.bias + 6 * t) = MapVec(a.bf) - Map6(a.ff) * gamma;
    else
        to<Vec6>(m.bias + 6 * t) = MapVec(a.bs) - Map6(a.fs).transpose() * gamma;
    if constexpr (B > 0) {
        const Vec6 pushed = transform_wrench(T, gamma);
        if constexpr (B == 1)
            to<Vec6>(m.bias + 6 * o) = MapVec(b.bf) + Map6(b.ff) * pushed;
        else
            to<Vec6>(m.bias + 6 * o) = MapVec(b.bs) + Map6(b.fs).transpose() * pushed;
    }
    if (totals) join_total<A, B>(n, a, b, moved);
    return true;
}

// The forces on the parts are affine in those on the whole, so the rows of both parts' factors and the joint's own
// acceleration are rows in these; reflections make a triangle of them again.
template <int A, int B>
void Linkage::join_total(const Node& n, const Half& a, const Half& b, bool moved) {
    constexpr int H = B ? 2 : 1, N = 6 * H, NA = 6 * A, NB = B == 2 ? 12 : 6;
    using RowsA = Eigen::Map<const Eigen::Matrix<double, NA, NA, Eigen::RowMajor>>;
    using RowsB = Eigen::Map<const Eigen::Matrix<double, NB, NB, Eigen::RowMajor>>;
    using Rows = Eigen::Matrix<double, 18, N, Eigen::RowMajor>;
    const int k = n.joint < 0 ? 0 : joints[n.joint].count;
    const Motion m(assembly(n), descent_.data() + n.descent, H, k);
    const Total total(total_.data() + n.total, N);
    const Pose& T = n.joint < 0 ? identity_pose : across_[n.joint];
    const int t = H == 1 || n.top_first ? 0 : 6, o = 6 - t;
    const MapVec gamma(m.gamma);
    double c[20];
    int rows = 0;

    if (moved) {
        Rows D;
        auto R = to<Eigen::Matrix<double, N, N, Eigen::RowMajor>>(total.R);
        R.setZero();
        if (a.R) {
            const RowsA Ra(a.R);
            const Row6 held = Ra.template topLeftCorner<6, 6>();
            Row6 part = A == 1 ? held : Row6(Ra.template topRightCorner<6, 6>());
            part.noalias() -= held * Map6(m.G + 6 * t);
            D.template block<6, 6>(0, t) = part;
            if constexpr (B > 0) {
                part.noalias() = -held * Map6(m.G + 6 * o);
                D.template block<6, 6>(0, o) = part;
            }
            if constexpr (A == 2) R.template block<6, 6>(t, t) = Ra.template bottomRightCorner<6, 6>();
            rows = 6;
        }
        if (b.R) {
            const RowsB Rb(b.R);
            const Row6 held = Rb.template topLeftCorner<6, 6>();
            Row6 turned, part;
            turned.noalias() = held * adjoint(T).transpose();
            part.noalias() = turned * Map6(m.G + 6 * t);
            D.template block<6, 6>(rows, t) = part;
            if constexpr (B > 0) {
                part = B == 1 ? held : Row6(Rb.template topRightCorner<6, 6>());
                part.noalias() += turned * Map6(m.G + 6 * o);
                D.template block<6, 6>(rows, o) = part;
            }
            if constexpr (B == 2) R.template block<6, 6>(o, o) = Rb.template bottomRightCorner<6, 6>();
            rows += 6;
        }
        for (int i = 0; i < k; ++i) D.row(rows + i) = -Eigen::Map<const Eigen::Matrix<double, 1, N>>(m.u + N * i);
        triangulate<N>(total, D.data(), rows + k);
    }

    rows = 0;
    auto r = to<Eigen::Matrix<double, N, 1>>(total.r);
    r.setZero();
    if (a.R) {
        to<Vec6>(c) = MapVec(a.r) - RowsA(a.R).template topLeftCorner<6, 6>() * gamma;
        if constexpr (A == 2) r.template segment<6>(t) = MapVec(a.r + 6);
        rows = 6;
    }
    if (b.R) {
        to<Vec6>(c + rows) = MapVec(b.r) + RowsB(b.R).template topLeftCorner<6, 6>() * transform_wrench(T, gamma);
        if constexpr (B == 2) r.template segment<6>(o) = MapVec(b.r + 6);
        rows += 6;
    }
    for (int i = 0; i < k; ++i) c[rows + i] = m.q0[i];
    reflect_constants<N>(total, c, rows + k, *a.rho * *a.rho + *b.rho * *b.rho);
}

// A whole tree on the world (eqs. 6 and 7), which falls upwards instead of everything else falling down.
bool Linkage::attach(const Node& n, bool moved, bool totals) {
    const int k = joints[n.joint].count, first = joints[n.joint].first;
    const Half b = half(n.right);
    const Motion m(assembly(n), descent_.data() + n.descent, 0, k);
    const Pose& T = across_[n.joint];
    if (moved) {
        const Mat6 Ad = adjoint(T);
        if (!hold(Ad * Map6(b.ff) * Ad.transpose(), subspace_.data() + first, axes.data() + first, k, m)) return false;
    }
    const Vec6 beta = stack(-gravity, Vec3::Zero()) - transform_twist(T, MapVec(b.bf));
    Vec6 gamma = Map6(m.W) * beta;
    double squares = totals ? *b.rho * *b.rho : 0.0;
    for (int i = 0; i < k; ++i) {
        gamma += drive_[first + i] * MapVec(m.U + 6 * i);
        double q0 = -MapVec(m.U + 6 * i).dot(beta);
        for (int j = 0; j < k; ++j) q0 += m.M[k * i + j] * drive_[first + j];
        m.q0[i] = q0;
        squares += q0 * q0;
    }
    to<Vec6>(m.gamma) = gamma;
    if (totals) {
        if (b.R) squares += (MapVec(b.r) + Eigen::Map<const Row6>(b.R) * transform_wrench(T, gamma)).squaredNorm();
        total_[n.total] = std::sqrt(squares);
    }
    return true;
}

bool Linkage::update(int i, bool moved, bool totals) {
    const Node& n = nodes_[i];
    if (n.kind == rooted) return attach(n, moved, totals);
    if (n.kind == united) {
        if (totals) total_[n.total] = std::hypot(total_[nodes_[n.left].total], total_[nodes_[n.right].total]);
        return true;
    }
    if (n.left_handles == 1)
        return n.right_keeps == 0   ? join<1, 0>(n, moved, totals)
               : n.right_keeps == 1 ? join<1, 1>(n, moved, totals)
                                    : join<1, 2>(n, moved, totals);
    return n.right_keeps == 0   ? join<2, 0>(n, moved, totals)
           : n.right_keeps == 1 ? join<2, 1>(n, moved, totals)
                                : join<2, 2>(n, moved, totals);
}

// --- positions and what acts ----------------------------------------------------------------------------------------

// T and the motion subspace of a joint, both in its parent's frame, from its coordinates.
void Linkage::place_joint(int body) {
    const TreeJoint& joint = joints[body];
    Pose reached = joint.inner;
    const auto turn = [&](int a) {
        Vec6 xi = q[a] * axes[a].twist;
        for (int i = 1; i < axes[a].block; ++i) xi += q[a + i] * axes[a + i].twist;
        return xi;
    };
    const auto moves = [&](int a, double sign) {
        for (int i = a; i < a + axes[a].block; ++i) subspace_[i] = sign * transform_twist(reached, axes[i].twist);
    };
    const int end = joint.first + joint.count;
    if (!joint.reversed) {
        for (int a = joint.first; a < end; a += axes[a].block) {
            reached = reached * exp(turn(a));
            moves(a, 1);
        }
    } else {
        for (int a = end; a > joint.first;) {
            a -= axes[a - 1].block;
            moves(a, -1);
            reached = reached * exp(-turn(a));
        }
    }
    across_[body] = reached * joint.outer;
}

// Active forces on the increments of a joint's coordinates: applied ones and springs.
void Linkage::drive(int body) {
    const TreeJoint& joint = joints[body];
    for (int a = joint.first; a < joint.first + joint.count; a += axes[a].block) {
        Vec3 pull = Vec3::Zero();
        for (int i = 0; i < axes[a].block; ++i) {
            const Axis& axis = axes[a + i];
            const double deflection = q[a + i] - axis.rest;
            pull[i] = axis.stiffness * deflection;
            if (axis.curve >= 0) {
                double torque, slope, energy;
                curves[axis.curve].evaluate(deflection, torque, slope, energy);
                pull[i] += torque;
            }
        }
        if (axes[a].block == 3 && (pull.array() != 0).any())
            pull = so3_right_jacobian_inverse(Vec3(q[a], q[a + 1], q[a + 2])).transpose() * pull;
        for (int i = 0; i < axes[a].block; ++i) drive_[a + i] = force_[a + i] - pull[i];
    }
}

// Eqs. 10 and 11: pose of the right part's top, and of the bottom, in the frame of the node's top.
void Linkage::place_node(int i) {
    const Node& n = nodes_[i];
    if (n.kind == united) return;
    const Pose& T = n.joint < 0 ? identity_pose : across_[n.joint];
    offset_[i] = n.left_handles == 2 ? bottom_[n.left] * T : T;
    if (n.right_keeps) bottom_[i] = n.right_keeps == 2 ? offset_[i] * bottom_[n.right] : offset_[i];
}

void Linkage::mark(int i, Mark how) {
    for (; i >= 0 && mark_[i] < how; i = nodes_[i].up) {
        if (mark_[i] == clean) dirty_[nodes_[i].height].push_back(i);
        mark_[i] = how;
    }
}

void Linkage::set_load(int index, const Load& load) {
    if (index >= static_cast<int>(loads_.size())) {
        loads_.resize(index + 1);
        load_active_.resize(index + 1, 0);
    }
    loads_[index] = load;
    load_active_[index] = (load.wrench.array() != 0).any() ? 1 : 2;  // 2: to be taken off
}

void Linkage::set_force(int axis, double force) {
    force_[axis] = force;
    redrive(axis);
}

void Linkage::set_rest(int axis, double rest) {
    axes[axis].rest = rest;
    redrive(axis);
}

void Linkage::redrive(int axis) {
    const auto after = [](int a, const TreeJoint& joint) { return a < joint.first; };
    const int body = static_cast<int>(std::upper_bound(joints.begin(), joints.end(), axis, after) - joints.begin()) - 1;
    drive(body);
    mark(joint_node_[body], biased);
}

void Linkage::set_gravity(const Vec3& acceleration) {
    gravity = acceleration;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (nodes_[i].kind == rooted) mark(static_cast<int>(i), biased);
}

void Linkage::set_coordinates(const double* values) {
    std::copy(values, values + q.size(), q.begin());
    for (std::size_t b = 0; b < parent.size(); ++b) {
        place_joint(static_cast<int>(b));
        drive(static_cast<int>(b));
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) place_node(static_cast<int>(i));
    all_dirty_ = true;
}

// Loads in their bodies' frames; world poses only along the ways from the root to those fixed in world axes (5.2).
void Linkage::take_loads() {
    ++now_;
    for (std::size_t l = 0; l < loads_.size(); ++l) {
        if (load_active_[l] != 1 || !loads_[l].world) continue;
        for (int i = leaves_[main_leaf_[loads_[l].body]].up; i >= 0 && stamp_[i] != now_; i = nodes_[i].up) {
            stamp_[i] = now_;
            wanted_[nodes_[i].height].push_back(i);
        }
    }
    const auto below = [this](int up, bool left) { return left ? world_[up] : world_[up] * offset_[up]; };
    for (std::size_t h = wanted_.size(); h-- > 0;) {
        for (const int i : wanted_[h]) {
            const int up = nodes_[i].up;
            world_[i] = up < 0 ? Pose{} : below(up, nodes_[up].kind == united || nodes_[up].left == i);
        }
        wanted_[h].clear();
    }
    for (std::size_t l = 0; l < loads_.size(); ++l)
        if (load_active_[l]) body_wrench_[loads_[l].body].setZero();
    for (std::size_t l = 0; l < loads_.size(); ++l) {
        if (load_active_[l] != 1) continue;
        const Load& load = loads_[l];
        const Leaf& leaf = leaves_[main_leaf_[load.body]];
        Vec3 force = load.wrench.head<3>(), torque = load.wrench.tail<3>();
        if (load.world) {
            const Mat3 R = below(leaf.up, leaf.on_left).R.transpose();
            force = R * force;
            torque = R * torque;
        }
        body_wrench_[load.body] += stack(force, torque + load.point.cross(force));
    }
    for (std::size_t l = 0; l < loads_.size(); ++l) {
        if (!load_active_[l]) continue;
        if (load_active_[l] == 2) load_active_[l] = 0;
        const int at = main_leaf_[loads_[l].body];
        const Vec6 bias = leaf_inverse_[at] * body_wrench_[loads_[l].body];
        if (bias == leaf_bias_[at]) continue;
        leaf_bias_[at] = bias;
        mark(leaves_[at].up, biased);
    }
}

// All forces on the way down, without keeping what an adaptive pass would need: where everything has moved, the
// coefficients of the parts stay in a few places near the processor.
bool Linkage::sweep() {
    if (!all_dirty_) return refresh(totals_current_);
    take_loads();
    fleeting_ = true;
    bool fine = true;
    for (std::size_t i = 0; fine && i < nodes_.size(); ++i) {
        fine = update(static_cast<int>(i), true, false);
        if (!fine) singular_ = nodes_[i].joint;
    }
    fleeting_ = false;
    return fine;
}

// Brings the coefficients up to date, level by level, of those nodes only whose parts have moved or are pushed anew.
bool Linkage::refresh(bool totals) {
    take_loads();
    if (totals && !totals_current_) all_dirty_ = true;
    const auto failed = [this](int i) {
        singular_ = nodes_[i].joint;
        return false;
    };
    bool any = all_dirty_;
    if (all_dirty_) {
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            if (!update(static_cast<int>(i), true, totals)) return failed(static_cast<int>(i));
    } else {
        for (const auto& level : dirty_)
            for (const int i : level)
                if (!update(i, mark_[i] == moved_mark, totals)) return failed(i);
    }
    for (auto& level : dirty_) {
        any |= !level.empty();
        for (const int i : level) mark_[i] = clean;
        level.clear();
    }
    all_dirty_ = false;
    if (any) totals_current_ = totals;
    return true;
}

bool Linkage::rebuild(bool totals) {
    all_dirty_ = true;
    return refresh(totals);
}

// --- accelerations --------------------------------------------------------------------------------------------------

// Eqs. 4 to 7: acceleration of a node's joint, and the forces on its two parts.
void Linkage::descend(int i) {
    const Node& n = nodes_[i];
    if (n.kind == united) return;
    const int k = n.joint < 0 ? 0 : joints[n.joint].count, h = n.handles, first = k ? joints[n.joint].first : 0;
    const Motion m(nullptr, descent_.data() + n.descent, h, k);
    const Pose& T = n.joint < 0 ? identity_pose : across_[n.joint];
    const Vec6* f = &handle_force_[2 * i];
    Vec6 phi = MapVec(m.gamma);
    for (int s = 0; s < h; ++s) phi.noalias() += Map6(m.G + 36 * s) * f[s];
    for (int a = 0; a < k; ++a) {
        double qdd = m.q0[a];
        for (int s = 0; s < h; ++s) qdd -= MapVec(m.u + 6 * (h * a + s)).dot(f[s]);
        acceleration_[first + a] = qdd;
    }
    const int t = n.top_first ? 0 : 1, o = 1 - t;
    if (n.left >= 0) {
        Vec6* left = &handle_force_[2 * n.left];
        if (n.left_handles == 1) {
            left[0] = f[h == 1 ? 0 : t] - phi;
        } else {
            left[0] = -phi;
            left[1] = f[h == 1 ? 0 : t];
        }
    }
    if (n.right >= 0) {
        Vec6* right = &handle_force_[2 * n.right];
        right[0] = transform_wrench(T, phi);
        if (n.right_keeps == 1) right[0] += f[o];
        if (n.right_keeps == 2) right[1] = f[o];
    }
}

// Eq. 8, from above: the sum of squared joint accelerations below a node, with room for rounding.
double Linkage::total(int i) const {
    const Node& n = nodes_[i];
    if (n.handles == 0) return total_[n.total] * total_[n.total] * (1 + rounding);
    const int N = 6 * n.handles;
    const Total t(const_cast<double*>(total_.data()) + n.total, N);
    const double* f = handle_force_[2 * i].data();  // two handles stand side by side
    double squares = *t.rho * *t.rho, sizes = squares;
    for (int r = 0; r < N; ++r) {
        double sum = t.r[r], size = std::abs(sum);
        for (int c = r; c < N; ++c) {
            const double part = t.R[N * r + c] * f[c];
            sum += part;
            size += std::abs(part);
        }
        squares += sum * sum;
        sizes += size * size;
    }
    const double norm = std::sqrt(squares) + rounding * std::sqrt(sizes);
    return norm * norm;
}

Linkage::Outcome Linkage::advance(double dt, double error, Measure measure, bool complete, double seconds, int most) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    Outcome outcome;
    singular_ = -1;
    if (!(complete ? sweep() : refresh(true))) return outcome;
    for (const int b : moved_)
        for (int a = joints[b].first; a < joints[b].first + joints[b].count; ++a) acceleration_[a] = 0;
    moved_.clear();
    visited_.clear();

    double largest = 0, squares = 0;
    const auto visit = [&](int i) {
        const Node& n = nodes_[i];
        descend(i);
        visited_.push_back(i);
        if (n.joint < 0 || joints[n.joint].count == 0) return;
        double size = 0;
        for (int a = joints[n.joint].first; a < joints[n.joint].first + joints[n.joint].count; ++a)
            size += acceleration_[a] * acceleration_[a];
        largest = std::max(largest, size);
        squares += size;
        moved_.push_back(n.joint);
    };

    if (complete) {
        for (int i = static_cast<int>(nodes_.size()) - 1; i >= 0; --i) visit(i);
    } else {
        const int top = static_cast<int>(nodes_.size()) - 1;
        const double whole = total(top);
        double sum = whole, peak = whole;
        queue_.assign(1, {whole, top});
        node_total_[top] = whole;
        const bool by_joint = measure == Measure::absolute_joint || measure == Measure::relative_joint;
        const auto bound = [&]() -> double {  // of the error, if the traversal stopped here
            if (queue_.empty() || queue_.front().first == 0) return 0;
            const double left = std::sqrt(by_joint ? queue_.front().first : sum);
            if (measure == Measure::relative_joint) return largest > 0 ? std::min(1.0, left / std::sqrt(largest)) : 1;
            if (measure == Measure::relative_linkage)
                return std::min(1.0, left / std::max(std::sqrt(squares), (1 - 1e-9) * std::sqrt(whole)));
            return left;
        };
        outcome.bound = bound();
        while (outcome.bound > error && !queue_.empty() && static_cast<int>(moved_.size()) != most) {
            if (visited_.size() % 16 == 15 && seconds < 1e30 &&
                std::chrono::duration<double>(Clock::now() - start).count() > seconds)
                break;
            std::pop_heap(queue_.begin(), queue_.end());
            const auto [below, i] = queue_.back();
            queue_.pop_back();
            visit(i);
            sum -= below;
            for (const int child : {nodes_[i].left, nodes_[i].right}) {
                if (child < 0) continue;
                const double part = total(child);
                node_total_[child] = part;
                sum += part;
                queue_.emplace_back(part, child);
                std::push_heap(queue_.begin(), queue_.end());
            }
            if (!by_joint && sum < peak / 4) {  // what subtracting has lost
                sum = 0;
                for (const auto& each : queue_) sum += each.first;
                peak = sum;
            }
            outcome.bound = std::min(outcome.bound, bound());
        }
    }
    outcome.computed = static_cast<int>(moved_.size());
    if (!std::isfinite(squares) || !std::isfinite(outcome.bound)) {
        singular_ = -2;
        return outcome;
    }
    if (dt > 0) integrate(dt, complete);
    return outcome;
}

// From rest: q <- q + 1/2 qdd dt^2; a rotation vector turns by exp. Then the poses that this changes.
void Linkage::integrate(double dt, bool all) {
    const double half = dt * dt / 2;
    for (const int b : moved_) {
        const TreeJoint& joint = joints[b];
        for (int a = joint.first; a < joint.first + joint.count; a += axes[a].block) {
            if (axes[a].block == 3) {
                const Eigen::Map<const Vec3> step(&acceleration_[a]);
                Eigen::Map<Vec3> v(&q[a]);
                v = so3_log(so3_exp(v) * so3_exp(half * step));
            } else {
                q[a] += half * acceleration_[a];
            }
        }
        place_joint(b);
        drive(b);
    }
    if (all) {
        all_dirty_ = true;
        for (std::size_t i = 0; i < nodes_.size(); ++i) place_node(static_cast<int>(i));
        return;
    }
    for (const int i : visited_) mark(i, moved_mark);
    for (const auto& level : dirty_)
        for (const int i : level) place_node(i);
}

bool Linkage::respond(const double* forces, double* accelerations) {
    if (!refresh(totals_current_)) return false;
    const auto loads = leaf_bias_;
    const auto driven = drive_, before = acceleration_;
    const Vec3 weight = gravity;
    const auto push = [this] {
        for (std::size_t i = 0; i < nodes_.size(); ++i) update(static_cast<int>(i), false, false);
    };
    std::fill(leaf_bias_.begin(), leaf_bias_.end(), Vec6::Zero());
    std::copy(forces, forces + drive_.size(), drive_.begin());
    gravity.setZero();
    push();
    for (std::size_t i = nodes_.size(); i-- > 0;) descend(static_cast<int>(i));
    std::copy(acceleration_.begin(), acceleration_.end(), accelerations);
    acceleration_ = before;
    leaf_bias_ = loads;
    drive_ = driven;
    gravity = weight;
    push();
    return true;
}

Pose Linkage::pose(int body) const {
    const Leaf& leaf = leaves_[main_leaf_[body]];
    Pose result = leaf.on_left ? Pose{} : offset_[leaf.up];
    for (int i = leaf.up, up = nodes_[i].up; up >= 0; i = up, up = nodes_[i].up)
        if (nodes_[up].kind != united && nodes_[up].left != i) result = offset_[up] * result;
    return result;
}

void Linkage::write_poses(std::vector<Pose>& result) const {
    std::vector<Pose> world(nodes_.size());
    result.resize(parent.size());
    for (std::size_t i = nodes_.size(); i-- > 0;) {
        const Node& n = nodes_[i];
        const Pose& here = world[i];
        const auto give = [&](int child, const Pose& pose) {
            if (child >= 0)
                world[child] = pose;
            else if (child != none)
                result[leaves_[~child].body] = pose;
        };
        give(n.left, here);
        give(n.right, n.kind == united ? here : here * offset_[i]);
    }
}

}  // namespace supple
