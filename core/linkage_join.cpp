// Coefficients of an assembly from those of its two parts.
#include <cmath>

#include "linkage_blocks.hpp"

namespace supple {

using namespace linkage;

namespace {

using Row6 = Eigen::Matrix<double, 6, 6, Eigen::RowMajor>;
using Pack = Eigen::Array<double, 4, 1>;

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

}  // namespace supple
