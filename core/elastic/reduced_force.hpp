// Internal forces of a reduced elastic body: energy, gradient and second derivative by r modal amplitudes eta.
#pragma once

#include <memory>
#include <vector>

#include "elastic/laws.hpp"

namespace supple {

class ReducedForce {
   public:
    virtual ~ReducedForce() = default;
    int modes() const { return modes_; }
    // Returns the energy, J. force: (r,), N; tangent: (r, r), symmetric, N/m, or null. Allocates nothing. Not for use
    // by two threads at once: each needs a copy of its own.
    virtual double evaluate(const double* eta, double* force, double* tangent) = 0;
    virtual std::unique_ptr<ReducedForce> clone() const = 0;

   protected:
    explicit ReducedForce(int modes) : modes_(modes) {}
    int modes_;
};

// The quartic energy of St. Venant-Kirchhoff material, 1/2 K2 e e + 1/6 K3 e e e + 1/24 K4 e e e e with symmetric
// tensors. Pairs k >= l are packed: (0, 0), (1, 0), (1, 1), (2, 0) ...
class QuarticForce final : public ReducedForce {
   public:
    // quadratic: (p,), cubic: (p, r), quartic: (p, p), p = r (r + 1) / 2
    QuarticForce(int modes, const double* quadratic, const double* cubic, const double* quartic);
    double evaluate(const double* eta, double* force, double* tangent) override;
    std::unique_ptr<ReducedForce> clone() const override { return std::make_unique<QuarticForce>(*this); }

   private:
    int pairs_, padded_;  // `padded_`: pairs rounded up to whole vectors
    std::vector<double> quadratic_;  // (padded)
    std::vector<double> cubic_;  // (r, padded): a column for each amplitude
    std::vector<double> quartic_;  // (p, padded): a column for each pair
    std::vector<double> K3_, K4_;  // (padded)
    std::vector<double> products_;  // (p,) of the amplitudes
};

// A weighted sum over quadrature points with stored derivatives of the deformation gradient by the amplitudes.
class CubatureForce final : public ReducedForce {
   public:
    // gradients: (q, 9, r), 1/m; weights: (q,), m^3
    CubatureForce(int modes, int points, const double* gradients, const double* weights, const Law& law);
    double evaluate(const double* eta, double* force, double* tangent) override;
    std::unique_ptr<ReducedForce> clone() const override { return std::make_unique<CubatureForce>(*this); }

   private:
    Law law_;
    int blocks_;  // of four points; missing ones have no weight
    std::vector<double> gradients_;  // (blocks, r, 9, 4)
    std::vector<double> weights_;  // (blocks, 4)
    std::vector<double> changes_;  // (r, 9, 4)
    std::vector<double> sums_;  // (p, 4)
};

}  // namespace supple
