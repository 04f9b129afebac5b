// Body terms of eight nodes at a time, and their rows for the serial passes.
#pragma once

#include "engine/articulated.hpp"

namespace supple {

typedef double Four __attribute__((vector_size(32)));
SUPPLE_INLINE Four four(double value) { return Four{} + value; }
SUPPLE_INLINE Four four(double x, double y, double z) { return Four{x, y, z, 0}; }
SUPPLE_INLINE Four unit_four(int k) { return Four{k == 0 ? 1.0 : 0.0, k == 1 ? 1.0 : 0.0, k == 2 ? 1.0 : 0.0, 0.0}; }
SUPPLE_INLINE Four load_four(const double* from) {
    Four v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
SUPPLE_INLINE void store_four(double* to, const Four& v) { std::memcpy(to, &v, sizeof v); }

SUPPLE_INLINE const double* numbers(const Eight& of) { return reinterpret_cast<const double*>(&of); }
SUPPLE_INLINE double* numbers(Eight* of) { return reinterpret_cast<double*>(of); }
SUPPLE_INLINE double* numbers(std::vector<Eight>& of) { return numbers(of.data()); }

// s_0 rows[0] + ... + s_5 rows[5] + more
SUPPLE_INLINE Eight combined(const double* s, const Eight* rows, const Eight& more) {
    return ((s[0] * rows[0] + s[1] * rows[1]) + (s[2] * rows[2] + s[3] * rows[3])) +
           ((s[4] * rows[4] + s[5] * rows[5]) + more);
}

SUPPLE_INLINE double& lane(Eight* row, int k) { return numbers(row + 1)[k]; }  // tie column k of a front's row

SUPPLE_INLINE void add(Three& to, const Three& more) { to = to + more; }
SUPPLE_INLINE void subtract(Three& to, const Three& less) { to = to - less; }
// I v for an inertia of six numbers: xx, yy, zz, xy, xz, yz
SUPPLE_INLINE Three times_inertia(const Eight* I, const Three& v) {
    return {I[0] * v.x + I[3] * v.y + I[4] * v.z, I[3] * v.x + I[1] * v.y + I[5] * v.z,
            I[4] * v.x + I[5] * v.y + I[2] * v.z};
}
SUPPLE_INLINE Mat3 get(const Turn& from, int lane) {
    Mat3 m;
    m << get(from.x, lane), get(from.y, lane), get(from.z, lane);
    return m;
}

inline Three log_of_each(const Turn& A, const Turn& B) {  // log(A^T B) of any size
    Three result = {every(0.0), every(0.0), every(0.0)};
    for (int l = 0; l < width; ++l) put(result, l, so3_log(get(A, l).transpose() * get(B, l)));
    return result;
}

// log(A^T B), fast for rotations of less than 0.14 rad
SUPPLE_INLINE Three turn_between(const Turn& A, const Turn& B) {
    return largest(-trace(A, B)) < -2.98 ? short_log(A, B) : log_of_each(A, B);
}

struct Articulated::Motion {
    Three centre, centre_velocity, L, x, spin;  // x and spin in the node's axes, the others in world axes
    Turn R;

    // Velocities and angular momentum by backward differences, with x = log(R_n^T R) and the turn x_0 of the step
    // before: spin = (c0 x - c2 Jr(x) x_0) / h. `turn_past` and `centre_before` are read with `second` only.
    template <bool second>
    SUPPLE_INLINE void set_rates(const Step& step, const Eight* inertia, const Three& centre_past,
                                 const Three& centre_before, const Three& turn_past) {
        centre_velocity = (1 / step.h) * (step.c0 * centre + step.c1 * centre_past);
        spin = (step.c0 / step.h) * x;
        if (second) {
            centre_velocity = centre_velocity + (step.c2 / step.h) * centre_before;
            const Three once = cross(x, turn_past), twice = cross(x, once);
            const Eight s = dot(x, x);
            const bool near = largest(s) < 0.0201;
            const Eight g2 = near ? stumpff<2, 6>(s) : stumpff<2, 14>(s),
                        g3 = near ? stumpff<3, 6>(s) : stumpff<3, 14>(s);
            spin = spin - (step.c2 / step.h) * (turn_past - g2 * once + g3 * twice);
        }
        L = R * times_inertia(inertia, spin);
    }
};

struct Articulated::ExactBody {
    Motion motion;
    Three force, torque;  // weight less the rate of momentum, about the centre of mass
    Turn spin_by_turn;  // derivative of the spin (node's axes) by the body's rotation in world axes
    Turn turning;  // (c0/h) R I spin_by_turn
};

// Rows of the body elements of eight nodes, one node after the other: P' (rows 0 ... 5) and the last three rows of its
// transpose, with -W in lane 6; wrenches W; screws; n/2, with the coordinates' torques in lane 6 (where nothing reads
// B).
struct Lanes {
    alignas(64) double rows[9][width][width];
    alignas(64) double wrench[width][width], screw[width][width], half[width][width];
    // First rows of the transpose, for nodes where they differ from those of P'
    alignas(64) double transposed[3][width][width];
    bool skewed[width];
    bool few = false;  // the nodes are in the first half of the lanes

    SUPPLE_INLINE void put(double (*to)[width], const Eight& r0, const Eight& r1, const Eight& r2, const Eight& r3,
                           const Eight& r4, const Eight& r5, const Eight& r6, const Eight& r7 = every(0.0)) {
        Eight v[8] = {r0, r1, r2, r3, r4, r5, r6, r7};
        if (few) {
            transpose<width / 2>(v);
            for (int l = 0; l < width / 2; ++l) store(to[l], v[l]);
            return;
        }
        transpose(v);
        for (int l = 0; l < width; ++l) store(to[l], v[l]);
    }
    SUPPLE_INLINE void put_wrench(const Three& f, const Three& m) {
        put(wrench, f.x, f.y, f.z, m.x, m.y, m.z, every(0.0));
        std::fill_n(skewed, width, false);
    }
    SUPPLE_INLINE void put_screw(const Six& s) {
        put(screw, s.linear.x, s.linear.y, s.linear.z, s.angular.x, s.angular.y, s.angular.z, every(0.0));
    }
    SUPPLE_INLINE void put_half(const Six& n, const Eight& torque) {
        put(half, 0.5 * n.linear.x, 0.5 * n.linear.y, 0.5 * n.linear.z, 0.5 * n.angular.x, 0.5 * n.angular.y,
            0.5 * n.angular.z, torque);
    }

    // P' of a body: m2 = mass (c0/h)^2, centre c, wrench (f, c x f + t). The wrench is fixed in world axes, except for
    // the inertial part with (c0/h times) the angular momentum kL and its derivative G by the rotation of the body:
    //   [[m2, -[a]], [[a], G - [kL] - [t]/2 - m2 [c]^2 - ([f][c] + [c][f])/2]],   a = m2 c + f/2
    SUPPLE_INLINE void put_body(const Eight& m2, const Three& c, const Three& f, const Three& t, const Three& kL,
                                const Turn& G, const Three& moment) {
        const Eight none = every(0.0);
        const Three a = m2 * c + 0.5 * f, g = m2 * c + f, e = -0.5 * t - kL;
        // -m2 [c]^2 - ([f][c] + [c][f])/2 = c.g - (c g^T + g c^T)/2
        const Eight cg = dot(c, g);
        const Eight sxy = 0.5 * (c.x * g.y + c.y * g.x), sxz = 0.5 * (c.x * g.z + c.z * g.x),
                    syz = 0.5 * (c.y * g.z + c.z * g.y);
        const Eight xx = G.x.x + (cg - c.x * g.x), yy = G.y.y + (cg - c.y * g.y), zz = G.z.z + (cg - c.z * g.z);
        const Eight xy = G.y.x - sxy - e.z, yx = G.x.y - sxy + e.z, xz = G.z.x - sxz + e.y, zx = G.x.z - sxz - e.y,
                    yz = G.z.y - syz - e.x, zy = G.y.z - syz + e.x;
        put(rows[0], m2, none, none, none, a.z, -a.y, -f.x);
        put(rows[1], none, m2, none, -a.z, none, a.x, -f.y);
        put(rows[2], none, none, m2, a.y, -a.x, none, -f.z);
        put(rows[3], none, -a.z, a.y, xx, xy, xz, -moment.x);
        put(rows[4], a.z, none, -a.x, yx, yy, yz, -moment.y);
        put(rows[5], -a.y, a.x, none, zx, zy, zz, -moment.z);
        put(rows[6], none, -a.z, a.y, xx, yx, zx, none);
        put(rows[7], a.z, none, -a.x, xy, yy, zy, none);
        put(rows[8], -a.y, a.x, none, xz, yz, zz, none);
    }

    void add_block(int l, int row, int column, const Mat3& M) {  // to P'; 0: linear, 3: angular
        for (int r = 0; r < 3; ++r)
            for (int c = 0; c < 3; ++c) {
                rows[row + r][l][column + c] += M(r, c);
                if (column == 3) rows[6 + c][l][row + r] += M(r, c);
            }
        // rows 0 ... 2 of the transpose are those of P' itself: only symmetric pairs of off-diagonal blocks are added
    }
    // From here on the first rows of the transpose differ from those of P'.
    void make_skewed(int l) {
        if (!skewed[l])
            for (int r = 0; r < 3; ++r) std::memcpy(transposed[r][l], rows[r][l], sizeof rows[r][l]);
        skewed[l] = true;
    }
    // Adds whole rows: with single numbers, the next vector load would have to wait for the stores.
    SUPPLE_INLINE static void add(double* to, const Eight& more) { store(to, load(to) + more); }
    void add_wrench(int l, const Vec3& f, const Vec3& m, bool tangent) {
        add(wrench[l], Eight{f[0], f[1], f[2], m[0], m[1], m[2], 0, 0});
        for (int r = 0; tangent && r < 3; ++r) {
            rows[r][l][6] -= f[r];
            rows[3 + r][l][6] -= m[r];
        }
    }
    // force and torque fixed in world axes, at a point of the node: P' gets [[0, -[f]/2], [[f]/2, S - [t]/2]] with
    // S = -([f][c] + [c][f])/2 = c.f - (c f^T + f c^T)/2
    template <bool tangent>
    SUPPLE_INLINE void add_world_wrench(int l, const Vec3& c, const Vec3& f, const Vec3& t) {
        const Vec3 m = c.cross(f) + t;
        add(wrench[l], Eight{f[0], f[1], f[2], m[0], m[1], m[2], 0, 0});
        if (!tangent) return;
        const double x = 0.5 * f[0], y = 0.5 * f[1], z = 0.5 * f[2], u = 0.5 * t[0], v = 0.5 * t[1], w = 0.5 * t[2];
        const double cf = c.dot(f), xx = cf - c[0] * f[0], yy = cf - c[1] * f[1], zz = cf - c[2] * f[2];
        const double xy = -c[0] * y - c[1] * x, xz = -c[0] * z - c[2] * x, yz = -c[1] * z - c[2] * y;
        add(rows[0][l], Eight{0, 0, 0, 0, z, -y, -f[0], 0});
        add(rows[1][l], Eight{0, 0, 0, -z, 0, x, -f[1], 0});
        add(rows[2][l], Eight{0, 0, 0, y, -x, 0, -f[2], 0});
        add(rows[3][l], Eight{0, -z, y, xx, xy + w, xz - v, -m[0], 0});
        add(rows[4][l], Eight{z, 0, -x, xy - w, yy, yz + u, -m[1], 0});
        add(rows[5][l], Eight{-y, x, 0, xz + v, yz - u, zz, -m[2], 0});
        add(rows[6][l], Eight{0, -z, y, xx, xy - w, xz + v, 0, 0});
        add(rows[7][l], Eight{z, 0, -x, xy + w, yy, yz - u, 0, 0});
        add(rows[8][l], Eight{-y, x, 0, xz - v, yz + u, zz, 0, 0});
    }
    // force and torque that turn with the node: P = N(W), P' = N(W)/2, antisymmetric; after everything else of the node
    template <bool tangent>
    void add_body_wrench(int l, const Vec3& at, const Vec3& f, const Vec3& t) {
        const Vec3 m = at.cross(f) + t;
        add_wrench(l, f, m, tangent);
        if (!tangent) return;
        make_skewed(l);
        const Mat3 F = 0.5 * skew(f);
        for (int r = 0; r < 3; ++r)
            for (int c = 0; c < 3; ++c) {
                rows[r][l][3 + c] += F(r, c);
                rows[3 + r][l][c] += F(r, c);
                transposed[c][l][3 + r] += F(r, c);
                rows[6 + c][l][r] += F(r, c);
            }
        add_block(l, 3, 3, 0.5 * skew(m));
    }
    // force -k (x + w x at) on the node's displacement
    void add_point_spring(int l, const Vec3& at, double k) {
        const Mat3 C = skew(at);
        add_block(l, 0, 0, k * Mat3::Identity());
        add_block(l, 0, 3, -k * C);
        add_block(l, 3, 0, k * C);
        add_block(l, 3, 3, -k * C * C);
    }
    // the node's element, added to P' and its transpose
    SUPPLE_INLINE void add_element(int l, Eight* A, Eight* B, int stride = 1) const {
        for (int r = 0; r < 6; ++r) A[r * stride] += load(rows[r][l]);
        for (int r = 0; r < 3; ++r) {
            B[r * stride] += load(skewed[l] ? transposed[r][l] : rows[r][l]);
            B[(3 + r) * stride] += load(rows[6 + r][l]);
        }
    }
};

// Derivative of the rate of angular momentum by the body's rotation, (c0/h^2) J (c0 (1 + [x]/2 + [x]^2/12) - c2
// [before]/2), in world axes, by columns. J = R I R^T; x is the rotation in this step and `before` that in the previous
// one, both in the node's axes.
template <bool second>
SUPPLE_INLINE Turn turning_tangent(const Eight* I, const Turn& R, const Three& x, const Three& before,
                                   const Step& step) {
    const Turn RI = {I[0] * R.x + (I[3] * R.y + I[4] * R.z), I[3] * R.x + (I[1] * R.y + I[5] * R.z),
                     I[4] * R.x + (I[5] * R.y + I[2] * R.z)};
    const Eight xx = RI.x.x * R.x.x + RI.y.x * R.y.x + RI.z.x * R.z.x,
                yy = RI.x.y * R.x.y + RI.y.y * R.y.y + RI.z.y * R.z.y,
                zz = RI.x.z * R.x.z + RI.y.z * R.y.z + RI.z.z * R.z.z,
                xy = RI.x.x * R.x.y + RI.y.x * R.y.y + RI.z.x * R.z.y,
                xz = RI.x.x * R.x.z + RI.y.x * R.y.z + RI.z.x * R.z.z,
                yz = RI.x.y * R.x.z + RI.y.y * R.y.z + RI.z.y * R.z.z;
    const Turn J = {{xx, xy, xz}, {xy, yy, yz}, {xz, yz, zz}};
    auto times_skew = [](const Turn& M, const Three& y) -> Turn {
        return {y.z * M.y - y.y * M.z, y.x * M.z - y.z * M.x, y.y * M.x - y.x * M.y};
    };
    const Three turned = R * x;
    const Turn once = times_skew(J, turned), twice = times_skew(once, turned);
    const double c = step.c0 / (step.h * step.h);
    auto mix = [&](const Three& j, const Three& j1, const Three& j2) {
        return (c * step.c0) * (j + (0.5 * j1 + (1.0 / 12) * j2));
    };
    Turn G = {mix(J.x, once.x, twice.x), mix(J.y, once.y, twice.y), mix(J.z, once.z, twice.z)};
    if (second) {
        const Turn last = times_skew(J, R * before);
        const double by = -0.5 * step.c2 * c;
        G = {G.x + by * last.x, G.y + by * last.y, G.z + by * last.z};
    }
    return G;
}

// exp([w]) by short series for rotations of less than 0.1 rad, such as corrections and the turn in a time step.
SUPPLE_INLINE Mat3 so3_exp_short(const Vec3& w) {
    const double s = w.squaredNorm();
    if (!(s < 0.01)) return so3_exp(w);
    const double a = 1 - s / 6 * (1 - s / 20 * (1 - s / 42 * (1 - s / 72 * (1 - s / 110))));
    const double b = 0.5 - s / 24 * (1 - s / 30 * (1 - s / 56 * (1 - s / 90 * (1 - s / 132))));
    return detail::polynomial(w, a, b);
}

}  // namespace supple
