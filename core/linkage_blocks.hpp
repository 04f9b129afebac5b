// Where the coefficients of a node of the assembly tree stand in memory; for the files of `Linkage` only.
#pragma once

#include "linkage.hpp"

namespace supple::linkage {

using Map6 = Eigen::Map<const Mat6>;
using MapVec = Eigen::Map<const Vec6>;

inline const Pose identity_pose;

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

}  // namespace supple::linkage
