// Coefficients of an assembly from those of its two parts.
//
// Part A is on the left (towards the root), part B on the right; a joint connects A's bottom body to B's top body. The
// inputs of an assembly are the acceleration a of its top body and the force f on its bottom body. In B's frame:
//
//     a_B   = Y_A a + E x                  E = [F_A, S]: compliance of A's bottom, and the joint's axes
//     phi   = I_B a_B + p_B - Y_B' f        force through the joint on B
//     E' phi = (s_A, Q) - diag(1, armature) x
//
// with amplitudes x = (z_A, qdd). D x = (s_A, Q) - E' (I_B Y_A a + p_B - Y_B' f), D = E' I_B E + diag(1, armature) = C
// C'. With U = I_B E C'^-1 and V = E C'^-1 the solution is
//
//     t = U' Y_A a + V' (p_B - Y_B' f) - C^-1 (s_A, Q),   x = -C'^-1 t,   a_B = Y_A a - V t,   phi = I_B a_B + p_B -
//     Y_B' f
//
// and the coefficients of the whole are
//
//     I = I_A + Y_A' (I_B - U U') Y_A,   Y = Y_B (1 - V U') Y_A,   F = [F_B, Y_B V],   s = [s_B, -t(a = 0, f = 0)].
//
// F is compressed to six columns by Householder reflections H; amplitudes z of the whole become H (z, left) = (z_B, -t
// at a = 0) of the parts. The inputs handed down are a and z, not f: the force on a light body between heavy ones would
// be needed to more digits than a double has. For the same reason there are no inverse inertias here: the paper's
// eq. 2, Phi_A - Phi_A W Phi_A, loses all digits at a light body; inertias and compliances here are sums of squares.
#include <algorithm>
#include <cmath>

#include "linkage/linkage_blocks.hpp"

namespace supple {

using namespace linkage;

namespace {

using Row6 = Eigen::Matrix<double, 6, 6, Eigen::RowMajor>;
using Pack = Eigen::Array<double, 4, 1>;

constexpr int most_columns = 12;  // of the elimination: 6 of a compliance, 6 axes
constexpr double no_rest = 0;

template <class To>
Eigen::Map<To> to(double* at) {
    return Eigen::Map<To>(at);
}

// Adds m rows D of L columns to the row `pivot` of a triangle by a reflection with v: the columns right of the pivot's.
template <int L>
SUPPLE_INLINE void reflect(double* pivot, double* D, int stride, int m, const double* v, double tau) {
    using Columns = Eigen::Array<double, L, 1>;
    Columns w = Eigen::Map<Columns>(pivot);
    for (int i = 0; i < m; ++i) w += v[i] * Eigen::Map<Columns>(D + i * stride);
    w *= tau;
    Eigen::Map<Columns>{pivot} -= w;
    for (int i = 0; i < m; ++i) Eigen::Map<Columns>{D + i* stride} -= v[i] * w;
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
            if (start == 0) reflect<12>(row, D, N, m, v, tau);
            else if (start == 4) reflect<8>(row + 4, D + 4, N, m, v, tau);
            else reflect<4>(row + 8, D + 8, N, m, v, tau);
        } else {
            if (start == 0) reflect<6>(row, D, N, m, v, tau);
            else reflect<2>(row + 4, D + 4, N, m, v, tau);
        }
        for (int i = start; i < j; ++i) row[i] = 0;
        row[j] = diagonal;
    }
}

// The same reflections of the right-hand side r of the triangle and c of the added rows; the norm of the remaining c is
// rho.
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

Linkage::Part Linkage::part(int child) const {
    if (child < 0) {
        const double* inertia = leaf_inertia_[~child].data();
        return {inertia, nullptr, nullptr, leaf_bias_[~child].data(), nullptr, nullptr, nullptr, &no_rest, 0, false};
    }
    const Node& n = nodes_[child];
    const Assembly m(const_cast<Linkage*>(this)->assembly(n), n.handles, n.columns, n.stacked);
    const Total t(const_cast<double*>(total_.data()) + n.total, 6 * n.handles);
    return {m.I, m.Y, m.F, m.p, m.s, t.R, t.r, t.rho, n.rank, n.stacked > 0};
}

namespace {

// Eliminates m columns E of the motion of a body of inertia I, one after the other: fills U, V and C. Returns the
// largest factor by which a subtraction magnifies rounding errors; 0 where the last k columns, the joint's axes, do not
// move independently.
double eliminate(const double* inertia, const Vec6* E, const Linkage::Axis* axis, int m, int k,
                 const Assembly& result) {
    const Map6 I(inertia);
    double C[most_columns][most_columns];
    const int yielding = m - k;
    double worst = 1;
    for (int i = 0; i < m; ++i) {
        Vec6 along, left = E[i];
        along.noalias() = I * E[i];
        const double size = E[i].cwiseAbs().dot(I.cwiseAbs() * E[i].cwiseAbs());
        double before = 0;
        for (int j = 0; j < i; ++j) {
            if (j == yielding) before = E[i].dot(along);
            const MapVec U(result.U + 6 * j), V(result.V + 6 * j);
            C[i][j] = U.dot(E[i]);
            along -= C[i][j] * U;
            left -= C[i][j] * V;
        }
        double pivot = E[i].dot(along);
        if (i < yielding) {
            pivot = 1 + std::max(0.0, pivot);
        } else {
            const double armature = axis[i - yielding].armature;
            pivot += armature;
            if (!(pivot > 0) || (i > yielding && !(pivot > 1e-12 * (before + armature)))) return 0;
        }
        worst = std::max(worst, size / pivot);
        C[i][i] = std::sqrt(pivot);
        const double scale = 1 / C[i][i];
        to<Vec6>(result.U + 6 * i) = scale * along;
        to<Vec6>(result.V + 6 * i) = scale * left;
    }
    for (int j = 0; j < m; ++j)
        for (int i = 0; i < m; ++i) {
            double sum = i == j ? 1 : 0;
            for (int l = j; l < i; ++l) sum -= C[i][l] * result.C[m * l + j];
            result.C[m * i + j] = i < j ? 0 : sum / C[i][i];
        }
    return worst;
}

SUPPLE_INLINE void symmetrise(Eigen::Map<Mat6> m) {
    for (int j = 0; j < 6; ++j)
        for (int i = 0; i < j; ++i) m(i, j) = m(j, i) = (m(i, j) + m(j, i)) / 2;
}

// Whether a joint has six degrees of freedom and no armature, so that it transmits only its own forces.
bool transmits_nothing(const Linkage::Axis* axis, int k) {
    if (k < 6) return false;
    for (int a = 0; a < k; ++a)
        if (axis[a].armature > 0) return false;
    return true;
}

// Factor F of F_B F_B' + G G', `own` and m columns: side by side where they fit into six, otherwise a triangle by
// Householder reflections. F_B is a triangle already where `triangle`.
void add_compliance(const double* F, int own, bool triangle, const double* G, int m, const Assembly& result,
                    int stacked) {
    if (!stacked) {
        std::copy(F, F + 6 * own, result.F);
        std::copy(G, G + 6 * m, result.F + 6 * own);
        std::fill(result.F + 6 * (own + m), result.F + 36, 0.0);
        return;
    }
    double rows[6 * (6 + most_columns)];
    Total reflections(result.F, 6);
    reflections.tau = result.tau;
    reflections.v = result.v;
    if (triangle) {
        std::copy(F, F + 36, result.F);
        std::copy(G, G + 6 * m, rows);
    } else {
        std::fill(result.F, result.F + 36, 0.0);
        std::copy(F, F + 6 * own, rows);
        std::copy(G, G + 6 * m, rows + 6 * own);
    }
    triangulate<6>(reflections, rows, triangle ? m : own + m);
    for (int i = 1; i < 6; ++i) std::fill(result.F + 6 * i, result.F + 7 * i, 0.0);
}

// Amplitudes before compression (6 of the triangle, then `count` rows) from those after it: top <- , rows <- H (top,
// rows).
void decompress(const Assembly& node, int count, double* top, double* rows) {
    const int padded = (count + 3) / 4 * 4;
    for (int j = 5; j >= 0; --j) {
        const double* v = node.v + padded * j;
        double sum = top[j];
        for (int i = 0; i < count; ++i) sum += v[i] * rows[i];
        sum *= node.tau[j];
        top[j] -= sum;
        for (int i = 0; i < count; ++i) rows[i] -= sum * v[i];
    }
}

void compress(const Assembly& node, int count, double* top, double* rows) {
    const int padded = (count + 3) / 4 * 4;
    for (int j = 0; j < 6; ++j) {
        const double* v = node.v + padded * j;
        double sum = top[j];
        for (int i = 0; i < count; ++i) sum += v[i] * rows[i];
        sum *= node.tau[j];
        top[j] -= sum;
        for (int i = 0; i < count; ++i) rows[i] -= sum * v[i];
    }
}

// Amplitudes (z_B, -t) of the parts from six of the whole; on entry `rows` has the remainder of the compression.
void parts_of_amplitudes(const Assembly& node, int own, int m, int stacked, bool triangle, const double* z,
                         double* rows, double* z_b, double* x) {
    if (!stacked) {
        std::copy(z, z + own, z_b);
        std::copy(z + own, z + own + m, x);
        return;
    }
    double top[6];
    std::copy(z, z + 6, top);
    decompress(node, triangle ? m : own + m, top, rows);
    if (triangle) {
        std::copy(top, top + 6, z_b);
        std::copy(rows, rows + m, x);
    } else {
        std::copy(rows, rows + own, z_b);
        std::copy(rows + own, rows + own + m, x);
    }
}

}  // namespace

// Joins two assemblies. A: handles of the left one. B: remaining handles of the right one: 0 none, 1 the top, which
// is also the bottom of the whole, 2 the bottom.
template <int A, int B>
bool Linkage::join(const Node& n, bool moved, bool totals) {
    constexpr int H = B ? 2 : 1;
    const int k = n.joint < 0 ? 0 : joints[n.joint].count, first = k ? joints[n.joint].first : 0, m = n.columns;
    const int yielding = m - k;
    const Part a = part(n.left), b = part(n.right);
    const int own = B == 2 ? b.rank : 0;
    const Assembly whole(assembly(n), H, m, n.stacked);
    const Descent down(descent_.data() + n.descent, H, k, A == 2, n.right >= 0, B == 2);
    const Pose& T = n.joint < 0 ? identity_pose : across_[n.joint];
    const int t = H == 1 || n.top_first ? 0 : 6, o = 6 - t;

    if (moved) {
        const Mat6 Ad = adjoint(T.inverse());
        Vec6 E[most_columns];
        for (int i = 0; i < yielding; ++i) E[i].noalias() = Ad * MapVec(a.F + 6 * i);
        for (int i = 0; i < k; ++i) E[yielding + i] = subspace_[first + i];
        double& worst = magnification_[&n - nodes_.data()];
        worst = eliminate(b.I, E, axes.data() + first, m, k, whole);
        if (worst == 0) return false;
        for (const int child : {n.left, n.right})
            if (child >= 0) worst = std::max(worst, magnification_[child]);

        Mat6 Y, reached;  // Y_A in B's frame; a_B per a
        if constexpr (A == 1) Y = Ad;
        else Y.noalias() = Ad * Map6(a.Y);
        reached = Y;
        Eigen::Matrix<double, most_columns, 6, Eigen::RowMajor> shares;  // t per a
        for (int i = 0; i < m; ++i) {
            shares.row(i).noalias() = MapVec(whole.U + 6 * i).transpose() * Y;
            reached.noalias() -= MapVec(whole.V + 6 * i) * shares.row(i);
        }
        if (transmits_nothing(axes.data() + first, k)) reached.setZero();
        auto I = to<Mat6>(whole.I);
        I = Map6(a.I);
        Mat6 phi;
        phi.noalias() = Map6(b.I) * reached;
        I.noalias() += Y.transpose() * phi;
        symmetrise(I);
        const auto amplitude = [&](int i, const auto& of_t) {  // row i of x = -C'^-1 t
            Eigen::Matrix<double, 1, 6> row = Eigen::Matrix<double, 1, 6>::Zero();
            for (int j = i; j < m; ++j) row -= whole.C[m * j + i] * of_t.row(j);
            return row;
        };
        if constexpr (A == 2) {
            auto s_a = to<Mat6>(down.s_a);
            s_a.setZero();
            for (int i = 0; i < yielding; ++i) s_a.row(i) = amplitude(i, shares);
        }
        for (int i = 0; i < k; ++i)
            to<Eigen::Matrix<double, 1, 6>>(down.u + 6 * H * i + t) = amplitude(yielding + i, shares);
        if (n.right >= 0) to<Mat6>(down.a_a) = reached;
        if constexpr (B > 0) {
            double G[6 * most_columns];  // Y_B V
            for (int i = 0; i < m; ++i) {
                if constexpr (B == 1) to<Vec6>(G + 6 * i) = MapVec(whole.V + 6 * i);
                else to<Vec6>(G + 6 * i).noalias() = Map6(b.Y) * MapVec(whole.V + 6 * i);
            }
            add_compliance(b.F, own, b.triangle, G, m, whole, n.stacked);
            if constexpr (B == 1) to<Mat6>(whole.Y) = reached;
            else to<Mat6>(whole.Y).noalias() = Map6(b.Y) * reached;
            Eigen::Matrix<double, most_columns, 6, Eigen::RowMajor> of_z;  // t per z
            Mat6 kept = Mat6::Zero();  // z_B per z
            for (int c = 0; c < 6; ++c) {
                double z[6] = {}, rows[6 + most_columns] = {}, z_b[6] = {}, x[most_columns];
                z[c] = 1;
                if (!n.stacked && c >= own + m) {
                    of_z.col(c).setZero();
                    continue;
                }
                parts_of_amplitudes(whole, own, m, n.stacked, b.triangle, z, rows, z_b, x);
                for (int i = 0; i < m; ++i) of_z(i, c) = -x[i];
                kept.col(c) = Vec6(z_b);
            }
            if constexpr (A == 2) {
                auto s_z = to<Mat6>(down.s_z);
                s_z.setZero();
                for (int i = 0; i < yielding; ++i) s_z.row(i) = amplitude(i, of_z);
            }
            for (int i = 0; i < k; ++i)
                to<Eigen::Matrix<double, 1, 6>>(down.u + 6 * H * i + o) = amplitude(yielding + i, of_z);
            if (n.right >= 0) {
                Mat6 yields = Mat6::Zero();
                for (int i = 0; i < m; ++i) yields.noalias() -= MapVec(whole.V + 6 * i) * of_z.row(i);
                to<Mat6>(down.a_z) = yields;
            }
            if constexpr (B == 2) to<Mat6>(down.b_z) = kept;
        }
    }

    // the constant terms: t, then t after compression
    double constant[most_columns], sizes[most_columns];
    constants(n, whole, b, A == 2 ? a.s : nullptr, constant, sizes);
    Vec6 phi = MapVec(b.p);
    for (int i = 0; i < m; ++i) phi -= constant[i] * MapVec(whole.U + 6 * i);
    const Vec6 on_left = transform_wrench(T.inverse(), phi);
    if constexpr (A == 1) to<Vec6>(whole.p) = MapVec(a.p) + on_left;
    else to<Vec6>(whole.p) = MapVec(a.p) + Map6(a.Y).transpose() * on_left;
    if constexpr (B > 0) {
        Vec6 s = Vec6::Zero();
        double rows[6 + most_columns];
        if (!n.stacked) {
            std::copy(b.s, b.s + own, s.data());
            for (int i = 0; i < m; ++i) s[own + i] = -constant[i];
            std::fill(constant, constant + m, 0.0);
        } else {
            const int above = b.triangle ? 0 : own, count = above + m;
            if (b.triangle) s = MapVec(b.s);
            std::copy(b.s, b.s + above, rows);
            for (int i = 0; i < m; ++i) rows[above + i] = -constant[i];
            compress(whole, count, s.data(), rows);
            std::copy(rows, rows + count, whole.left);
            double z[6] = {}, z_b[6] = {}, x[most_columns];
            parts_of_amplitudes(whole, own, m, n.stacked, b.triangle, z, rows, z_b, x);
            for (int i = 0; i < m; ++i) constant[i] = -x[i];
            if constexpr (B == 2) to<Vec6>(down.b_0) = Vec6(z_b);
        }
        if constexpr (B == 2)
            if (!n.stacked) to<Vec6>(down.b_0).setZero();
        to<Vec6>(whole.s) = s;
    }
    write_constants(n, whole, constant, sizes, A == 2 ? down.s_0 : nullptr, n.right >= 0 ? down.a_0 : nullptr, down.q_0,
                    down.size);
    if (totals) join_total<A, B>(n, a, b, moved);
    return true;
}

// t = V' p_B - C^-1 (s_A, Q), and the sum of the magnitudes of its terms.
void Linkage::constants(const Node& n, const Assembly& whole, const Part& b, const double* s, double* t,
                        double* sizes) const {
    const int k = n.joint < 0 ? 0 : joints[n.joint].count, first = k ? joints[n.joint].first : 0, m = n.columns;
    for (int i = 0; i < m; ++i) {
        const MapVec V(whole.V + 6 * i), p(b.p);
        t[i] = V.dot(p);
        sizes[i] = V.cwiseAbs().dot(p.cwiseAbs());
        for (int j = 0; j <= i; ++j) {
            const double term = whole.C[m * i + j] * (j < m - k ? s[j] : drive_[first + j - (m - k)]);
            t[i] -= term;
            sizes[i] += std::abs(term);
        }
    }
}

// Amplitudes, acceleration of B's top and joint acceleration for given t.
void Linkage::write_constants(const Node& n, const Assembly& whole, const double* t, const double* sizes, double* s_0,
                              double* a_0, double* q_0, double* size) const {
    const int k = n.joint < 0 ? 0 : joints[n.joint].count, m = n.columns;
    if (s_0) std::fill(s_0, s_0 + 6, 0.0);
    for (int i = 0; i < m; ++i) {
        double x = 0, terms = 0;
        for (int j = i; j < m; ++j) {
            x -= whole.C[m * j + i] * t[j];
            terms += std::abs(whole.C[m * j + i]) * std::max(std::abs(t[j]), sizes[j]);
        }
        if (i >= m - k) {
            q_0[i - (m - k)] = x;
            size[i - (m - k)] = terms;
        } else if (s_0) {
            s_0[i] = x;
        }
    }
    if (!a_0) return;
    Vec6 reached = Vec6::Zero();
    for (int i = 0; i < m; ++i) reached -= t[i] * MapVec(whole.V + 6 * i);
    to<Vec6>(a_0) = reached;
}

// The inputs of the parts are affine in those of the whole, so the rows of both parts' factors and the joint's own
// acceleration are rows in the latter; reflections reduce them to a triangle.
template <int A, int B>
void Linkage::join_total(const Node& n, const Part& a, const Part& b, bool moved) {
    constexpr int H = B ? 2 : 1, N = 6 * H, NB = B == 2 ? 12 : 6;
    using RowsA = Eigen::Map<const Eigen::Matrix<double, 6 * A, 6 * A, Eigen::RowMajor>>;
    using RowsB = Eigen::Map<const Eigen::Matrix<double, NB, NB, Eigen::RowMajor>>;
    using Rows = Eigen::Matrix<double, 24, N, Eigen::RowMajor>;
    const int k = n.joint < 0 ? 0 : joints[n.joint].count;
    const Descent down(descent_.data() + n.descent, H, k, A == 2, n.right >= 0, B == 2);
    const Total total(total_.data() + n.total, N);
    const int t = H == 1 || n.top_first ? 0 : 6, o = 6 - t;
    // The amplitudes of B's bottom are no triangle in those of the whole
    const bool scattered = n.stacked && !b.triangle;
    double c[24];
    int rows = 0;

    if (moved) {
        Rows D;
        auto R = to<Eigen::Matrix<double, N, N, Eigen::RowMajor>>(total.R);
        R.setZero();
        if (a.R) {
            const RowsA Ra(a.R);
            if constexpr (A == 1) {
                R.template block<6, 6>(t, t) = Ra;
            } else {
                const Row6 held = Ra.template topLeftCorner<6, 6>();
                Row6 rows_a = Ra.template topRightCorner<6, 6>();
                rows_a.noalias() += held * Map6(down.s_a);
                D.template block<6, 6>(0, t) = rows_a;
                if constexpr (B > 0) {
                    rows_a.noalias() = held * Map6(down.s_z);
                    D.template block<6, 6>(0, o) = rows_a;
                }
                R.template block<6, 6>(t, t) = Ra.template bottomRightCorner<6, 6>();
                rows = 6;
            }
        }
        if (b.R) {
            const RowsB Rb(b.R);
            const Row6 held = Rb.template topLeftCorner<6, 6>();
            Row6 rows_b;
            rows_b.noalias() = held * Map6(down.a_a);
            D.template block<6, 6>(rows, t) = rows_b;
            if constexpr (B > 0) {
                rows_b.noalias() = held * Map6(down.a_z);
                if constexpr (B == 2) rows_b.noalias() += Row6(Rb.template topRightCorner<6, 6>()) * Map6(down.b_z);
                D.template block<6, 6>(rows, o) = rows_b;
            }
            rows += 6;
            if constexpr (B == 2) {
                rows_b.noalias() = Row6(Rb.template bottomRightCorner<6, 6>()) * Map6(down.b_z);
                if (scattered) {
                    D.template block<6, 6>(rows, t).setZero();
                    D.template block<6, 6>(rows, o) = rows_b;
                    rows += 6;
                } else {
                    for (int i = 1; i < 6; ++i) rows_b.row(i).head(i).setZero();
                    R.template block<6, 6>(o, o) = rows_b;
                }
            }
        }
        for (int i = 0; i < k; ++i) D.row(rows + i) = Eigen::Map<const Eigen::Matrix<double, 1, N>>(down.u + N * i);
        triangulate<N>(total, D.data(), rows + k);
    }

    rows = 0;
    auto r = to<Eigen::Matrix<double, N, 1>>(total.r);
    r.setZero();
    if (a.R) {
        if constexpr (A == 1) {
            r.template segment<6>(t) = MapVec(a.r);
        } else {
            to<Vec6>(c) = MapVec(a.r) + RowsA(a.R).template topLeftCorner<6, 6>() * MapVec(down.s_0);
            r.template segment<6>(t) = MapVec(a.r + 6);
            rows = 6;
        }
    }
    if (b.R) {
        Vec6 top = MapVec(b.r) + RowsB(b.R).template topLeftCorner<6, 6>() * MapVec(down.a_0);
        if constexpr (B == 2) top += RowsB(b.R).template topRightCorner<6, 6>() * MapVec(down.b_0);
        to<Vec6>(c + rows) = top;
        rows += 6;
        if constexpr (B == 2) {
            const Vec6 bottom = MapVec(b.r + 6) + RowsB(b.R).template bottomRightCorner<6, 6>() * MapVec(down.b_0);
            if (scattered) {
                to<Vec6>(c + rows) = bottom;
                rows += 6;
            } else {
                r.template segment<6>(o) = bottom;
            }
        }
    }
    for (int i = 0; i < k; ++i) c[rows + i] = down.q_0[i];
    reflect_constants<N>(total, c, rows + k, *a.rho * *a.rho + *b.rho * *b.rho);
}

// A whole tree on the world (eqs. 6 and 7). Gravity: the world accelerates upwards.
bool Linkage::attach(const Node& n, bool moved, bool totals) {
    const int k = joints[n.joint].count, first = joints[n.joint].first;
    const Part b = part(n.right);
    const Assembly whole(assembly(n), 0, k, 0);
    const Descent down(descent_.data() + n.descent, 0, k, false, n.right >= 0, false);
    if (moved) {
        double& worst = magnification_[&n - nodes_.data()];
        worst = eliminate(b.I, subspace_.data() + first, axes.data() + first, k, k, whole);
        if (worst == 0) return false;
        if (n.right >= 0) worst = std::max(worst, magnification_[n.right]);
    }
    const Vec6 upwards = transform_twist(across_[n.joint].inverse(), stack(-gravity, Vec3::Zero()));
    double t[most_columns], sizes[most_columns];
    constants(n, whole, b, nullptr, t, sizes);
    for (int i = 0; i < k; ++i) {
        t[i] += MapVec(whole.U + 6 * i).dot(upwards);
        sizes[i] += MapVec(whole.U + 6 * i).cwiseAbs().dot(upwards.cwiseAbs());
    }
    Vec6 reached;
    write_constants(n, whole, t, sizes, nullptr, reached.data(), down.q_0, down.size);
    reached += upwards;
    if (n.right >= 0) to<Vec6>(down.a_0) = reached;
    if (totals) {
        double squares = *b.rho * *b.rho;
        for (int i = 0; i < k; ++i) squares += down.q_0[i] * down.q_0[i];
        if (b.R) squares += (MapVec(b.r) + Eigen::Map<const Row6>(b.R) * reached).squaredNorm();
        total_[n.total] = std::sqrt(squares);
    }
    return true;
}

bool Linkage::update(int i, bool moved, bool totals) {
    const Node& n = nodes_[i];
    if (n.kind == rooted) return attach(n, moved, totals);
    if (n.kind == united) {
        magnification_[i] = std::max(magnification_[n.left], magnification_[n.right]);
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
