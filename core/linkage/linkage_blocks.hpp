// Memory layout of the coefficients of one node of the assembly tree; for the files of `Linkage` only.
#pragma once

#include "linkage/linkage.hpp"

namespace supple::linkage {

using Map6 = Eigen::Map<const Mat6>;
using MapVec = Eigen::Map<const Vec6>;

inline const Pose identity_pose;

// Coefficients that the parent node needs, and those that a change of the forces alone needs. h handles, m columns of
// the elimination, `stacked` columns of the bottom's compliance before they are compressed (0: they are not).
struct Assembly {
    double *I, *Y, *F, *p, *s, *U, *V, *C, *left, *tau, *v;
    Assembly(double* at, int h, int m, int stacked) {
        I = at;  // (6, 6) articulated inertia of the top handle
        Y = at + 36;  // (6, 6) acceleration of the bottom per acceleration of the top; two handles only
        F = at + 72;  // (6, 6) F F' is the inverse inertia of the bottom while the top is held
        p = at + (h == 2 ? 108 : 36 * h);
        s = p + 6;  // (6) the bottom accelerates by F s without inputs; two handles only
        U = p + 6 * h;  // (6, m)
        V = U + 6 * m;  // (6, m)
        C = V + 6 * m;  // (m, m) inverse Cholesky factor, lower, by rows
        left = C + m * m;  // (stacked) remainder of the amplitudes after compression
        tau = left + stacked;
        v = tau + (stacked ? 6 : 0);  // reflections, 6 of at most 20
    }
    static std::size_t size(int h, int m, int stacked) {
        return (h == 2 ? 108 : 36 * h) + 6 * h + 12 * m + m * m + stacked + (stacked ? 126 : 0);
    }
};

// Coefficients of the downward traversal: the inputs of both parts and the joint's acceleration as affine functions of
// the node's inputs, the acceleration a of its top and the amplitudes z of its bottom's compliance.
struct Descent {
    double *s_a, *s_z, *s_0;  // amplitudes of the left part's bottom; only where the left part has two handles
    double *a_a, *a_z, *a_0;  // acceleration of the right part's top; only where the right part is a node
    double *b_z, *b_0;  // amplitudes of the right part's bottom; only where that is the bottom of the whole
    double *u, *q_0, *size;  // (k, 6 h) and (k): joint acceleration; (k) sum of the magnitudes of the terms of q_0
    Descent(double* at, int h, int k, bool left_bottom, bool right_node, bool right_bottom) {
        const int blocks = 36 * h;
        s_a = at;
        s_z = at + 36;
        s_0 = at + blocks;
        a_a = at + (left_bottom ? blocks + 6 : 0);
        a_z = a_a + 36;
        a_0 = a_a + blocks;
        b_z = a_a + (right_node ? blocks + 6 : 0);
        b_0 = b_z + 36;
        u = b_z + (right_bottom ? 42 : 0);
        q_0 = u + 6 * h * k;
        size = q_0 + k;
    }
    static std::size_t size_of(int h, int k, bool left_bottom, bool right_node, bool right_bottom) {
        return (36 * h + 6) * (left_bottom + right_node) + (right_bottom ? 42 : 0) + 6 * h * k + 2 * k;
    }
};

// Total acceleration |R x + r|^2 + rho^2 of a node with N = 6 h inputs x; tau and v are the Householder reflections.
struct Total {
    double *R, *r, *rho, *tau, *v;
    Total(double* at, int N) : R(at), r(at + N * N), rho(r + N), tau(rho + 1), v(tau + N) {}
    static std::size_t size(int N, int rows) { return N * N + 2 * N + 1 + N * ((rows + 3) / 4 * 4); }
};

}  // namespace supple::linkage
