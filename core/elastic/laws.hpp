// Energy densities W(F) of the material laws, with stress P = dW/dF and its derivative along a direction. V is a number
// or a vector of numbers (one per quadrature point).
#pragma once

#include <cmath>

namespace supple {

struct Law {
    bool stvk;  // St. Venant-Kirchhoff; otherwise stable Neo-Hookean (Smith, De Goes, Kim 2018)
    double mu, lam;  // Pa, in the energy of the law
};

// Row-major 3x3 matrices as arrays of nine.
template <class V>
inline void cofactor(const V* F, V* c) {
    c[0] = F[4] * F[8] - F[5] * F[7], c[1] = F[5] * F[6] - F[3] * F[8], c[2] = F[3] * F[7] - F[4] * F[6];
    c[3] = F[2] * F[7] - F[1] * F[8], c[4] = F[0] * F[8] - F[2] * F[6], c[5] = F[1] * F[6] - F[0] * F[7];
    c[6] = F[1] * F[5] - F[2] * F[4], c[7] = F[2] * F[3] - F[0] * F[5], c[8] = F[0] * F[4] - F[1] * F[3];
}

template <class V>
inline V dot9(const V* a, const V* b) {
    V sum = a[0] * b[0];
    for (int i = 1; i < 9; ++i) sum += a[i] * b[i];
    return sum;
}

// The state of one quadrature point at a deformation gradient.
template <class V>
struct Deformed {
    V F[9], cof[9], det, energy;
    V P[9];  // first Piola-Kirchhoff stress, Pa

    Deformed(const Law& law, const V* gradient) {
        for (int i = 0; i < 9; ++i) F[i] = gradient[i];
        cofactor(F, cof);
        det = F[0] * cof[0] + F[1] * cof[1] + F[2] * cof[2];
        if (law.stvk) {  // W = mu E:E + lam/2 (tr E)^2, E = (F^T F - I) / 2, P = F S
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j <= i; ++j) {
                    V e = 0.5 * (F[i] * F[j] + F[3 + i] * F[3 + j] + F[6 + i] * F[6 + j]);
                    if (i == j) e -= 0.5;
                    S_[3 * i + j] = S_[3 * j + i] = e;
                }
            const V trace = S_[0] + S_[4] + S_[8];
            energy = law.mu * dot9(S_, S_) + 0.5 * law.lam * trace * trace;
            for (int i = 0; i < 9; ++i) S_[i] = 2 * law.mu * S_[i];
            for (int i = 0; i < 9; i += 4) S_[i] += law.lam * trace;
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 3; ++j)
                    P[3 * i + j] = F[3 * i] * S_[j] + F[3 * i + 1] * S_[3 + j] + F[3 * i + 2] * S_[6 + j];
        } else {  // W = mu/2 (I - 3) + lam/2 (J - a)^2 - mu/2 log(I + 1) + constant, a = 1 + 3/4 mu/lam
            const V square = dot9(F, F);
            const V shrunk = 1.0 / (square + 1.0);
            const double a = 1 + 0.75 * law.mu / law.lam;
            shear_ = law.mu * (1.0 - shrunk);
            growth_ = 2 * law.mu * shrunk * shrunk;
            pressure_ = law.lam * (det - a);
            energy = 0.5 * law.mu * (square - 3.0) + 0.5 * law.lam * ((det - a) * (det - a) - (1 - a) * (1 - a)) -
                     0.5 * law.mu * log_of(0.25 * (square + 1.0));
            for (int i = 0; i < 9; ++i) P[i] = shear_ * F[i] + pressure_ * cof[i];
        }
    }

    // dP for a change dF of the deformation gradient
    void stress_change(const Law& law, const V* dF, V* dP) const {
        if (law.stvk) {
            V dS[9];
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j <= i; ++j) {
                    V e = dF[i] * F[j] + F[i] * dF[j];
                    e += dF[3 + i] * F[3 + j] + F[3 + i] * dF[3 + j];
                    e += dF[6 + i] * F[6 + j] + F[6 + i] * dF[6 + j];
                    dS[3 * i + j] = dS[3 * j + i] = law.mu * e;
                }
            const V trace = law.lam / (2 * law.mu) * (dS[0] + dS[4] + dS[8]);
            for (int i = 0; i < 9; i += 4) dS[i] += trace;
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 3; ++j) {
                    V sum = dF[3 * i] * S_[j] + F[3 * i] * dS[j];
                    sum += dF[3 * i + 1] * S_[3 + j] + F[3 * i + 1] * dS[3 + j];
                    dP[3 * i + j] = sum + dF[3 * i + 2] * S_[6 + j] + F[3 * i + 2] * dS[6 + j];
                }
        } else {
            const V along = growth_ * dot9(F, dF), swelling = law.lam * dot9(cof, dF);
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 3; ++j) {
                    const int i1 = 3 * ((i + 1) % 3), i2 = 3 * ((i + 2) % 3), j1 = (j + 1) % 3, j2 = (j + 2) % 3;
                    const V dcof = dF[i1 + j1] * F[i2 + j2] + F[i1 + j1] * dF[i2 + j2] - dF[i1 + j2] * F[i2 + j1] -
                                   F[i1 + j2] * dF[i2 + j1];
                    const int k = 3 * i + j;
                    dP[k] = shear_ * dF[k] + along * F[k] + swelling * cof[k] + pressure_ * dcof;
                }
        }
    }

    // St. Venant-Kirchhoff: `stress_change` uses from now on the stress that was extrapolated linearly before F last
    // changed by dF.
    void extrapolate_stress(const Law& law, const V* dF) {
        if (!law.stvk) return;
        V e[9];  // dF^T dF / 2, the part of the strain that is quadratic in the change
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j)
                e[3 * i + j] = 0.5 * (dF[i] * dF[j] + dF[3 + i] * dF[3 + j] + dF[6 + i] * dF[6 + j]);
        const V trace = e[0] + e[4] + e[8];
        for (int i = 0; i < 9; ++i) S_[i] -= 2 * law.mu * e[i];
        for (int i = 0; i < 9; i += 4) S_[i] -= law.lam * trace;
    }

   private:
    static double log_of(double x) { return std::log(x); }
    template <class Lanes>
    static Lanes log_of(const Lanes& x) {
        Lanes result = x;
        for (unsigned i = 0; i < sizeof(Lanes) / sizeof(double); ++i) result[i] = std::log(x[i]);
        return result;
    }
    V S_[9];  // second Piola-Kirchhoff stress, St. Venant-Kirchhoff
    V shear_, growth_, pressure_;  // factors of F, F (F : dF) and cof(F), Neo-Hookean
};

}  // namespace supple
