// The equations of statics at one state: evaluated, with their tangent, or with the tangent's factors too.
#pragma once

#include <algorithm>
#include <chrono>
#include <tuple>

#include "python/equations.hpp"

namespace supple {

class Evaluation {
   public:
    explicit Evaluation(std::shared_ptr<System> system, bool tangent = false)
        : owned_(std::move(system)), system_(*owned_) {
        owned_->evaluate(tangent);
    }

    const System& system() const { return system_; }

   protected:
    std::shared_ptr<System> owned_;  // nobody else changes it
    const System& system_;
};

// With the tangent K, which is not factorised.
class TangentEvaluation : public Evaluation {
   public:
    TangentEvaluation(const Equations& equations, std::shared_ptr<System> system)
        : Evaluation(std::move(system), true), equations_(equations) {}

    // At the state moved by alpha x, with the same active limits.
    TangentEvaluation moved(const Doubles& x, double alpha) const {
        expect(x, system_.unknowns());
        auto near = equations_.system(system_, system_.state);
        near->active_fixed = true;
        near->set_active(system_.active());
        near->retract(system_.state, x.data(), alpha);
        return {equations_, std::move(near)};
    }

    // K x, or K^T x; the regularisation is left out.
    Array multiply(const Doubles& x, bool transposed) const {
        const std::size_t n = system_.unknowns();
        expect(x, n);
        const auto scale = system_.scales();
        std::vector<double> scaled(n), product(n);
        for (std::size_t i = 0; i < n; ++i) scaled[i] = x.data()[i] / scale[i];
        system_.fronts().multiply(scaled.data(), product.data(), transposed);
        for (std::size_t i = 0; i < n; ++i) product[i] /= scale[i];
        return numpy(std::move(product), {n});
    }

    // x with the twists of the bodies that follow from the increments of the tree's coordinates in it.
    Array carry(const Doubles& x) const {
        const std::size_t n = system_.unknowns();
        expect(x, n);
        std::vector<double> carried(x.data(), x.data() + n);
        system_.carry(carried.data());
        return numpy(std::move(carried), {n});
    }

    // (axes, bodies, 6): the bodies' twists per increment of each coordinate; zero for the coordinates of loop joints.
    Array jacobian() const {
        const std::size_t axes = system_.axes();
        const System::Range bodies = system_.twists();
        std::vector<double> x(system_.unknowns()), twists(axes * bodies.size);
        for (std::size_t axis = 0; axis < axes; ++axis) {
            std::fill(x.begin(), x.end(), 0.0);
            x[system_.axis_row(axis)] = 1;
            system_.carry(x.data());
            std::copy_n(x.begin() + bodies.start, bodies.size, twists.begin() + axis * bodies.size);
        }
        return numpy(std::move(twists), {axes, static_cast<std::size_t>(system_.bodies()), 6});
    }

    // K as triplets (row, column, value); the regularisation is left out.
    std::tuple<Array, Array, Array> tangent() const {
        std::vector<double> rows, columns, values;
        const Fronts& fronts = system_.fronts();
        const auto scale = system_.scales();
        for (int e = 0; e < fronts.elements(); ++e) {
            const auto& index = fronts.element_rows(e);
            const double* element = fronts.element(e);
            for (std::size_t j = 0; j < index.size(); ++j)
                for (std::size_t i = 0; i < index.size(); ++i) {
                    rows.push_back(index[i]);
                    columns.push_back(index[j]);
                    values.push_back(element[j * index.size() + i] / (scale[index[i]] * scale[index[j]]));
                }
        }
        const std::size_t n = values.size();
        return {numpy(std::move(rows), {n}), numpy(std::move(columns), {n}), numpy(std::move(values), {n})};
    }

   private:
    Equations equations_;  // for `moved`; three pointers
};

// With the factors of K.
class Linearisation : public TangentEvaluation {
   public:
    Linearisation(const Equations& equations, std::shared_ptr<System> system)
        : TangentEvaluation(equations, std::move(system)) {
        owned_->factorise();
    }

    // Solutions x of K x = b, or of K^T x = b, for each row b of (m, unknowns).
    Array solve(const Doubles& rhs, bool transposed) const {
        const std::size_t n = system_.unknowns(), m = rhs.size() / n;
        expect(rhs, m * n);
        std::vector<double> x(m * n);
        {
            nb::gil_scoped_release release;
            for (std::size_t i = 0; i < m; ++i) system_.solve(rhs.data() + i * n, x.data() + i * n, transposed, true);
        }
        return numpy(std::move(x), {m, n});
    }

    // For benchmarks: factorises again, with the same result.
    double seconds_per_factorisation(int calls) {
        const auto start = std::chrono::steady_clock::now();
        for (int k = 0; k < calls; ++k) owned_->factorise();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
    }
};

}  // namespace supple
