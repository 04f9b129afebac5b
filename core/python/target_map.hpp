// The linear response of a model to its set-points, prepared once for those that an array (dof,) of a user sets.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "python/finite_array.hpp"

namespace supple {

class TargetMap {
   public:
    TargetMap() = default;
    // places: of the set-points in the array. values: of them in the model. Per unit of each set-point: `now` (outputs,
    // set-points), which a step needs, and `later` (outputs, set-points), which only links need.
    TargetMap(std::vector<int> places, const Doubles& values, const Doubles& now, const Doubles& later)
        : places_(std::move(places)),
          values_(vector(values)),
          now_(matrix(now, now.size() / places_.size())),
          later_(matrix(later, later.size() / places_.size())),
          change_(Eigen::VectorXd::Zero(places_.size())) {}

    // Reads an array (size,) as `read_finite` does; false also if a set-point in it is beyond `furthest`.
    bool read(nanobind::handle given, std::size_t size, double furthest, Doubles& array) const {
        return read_finite(given, size, array) && std::all_of(places_.begin(), places_.end(), [&](int i) {
                   return std::abs(array.data()[i]) <= furthest;
               });
    }
    // Takes the set-points of an array that was read; returns what a step needs.
    const Eigen::VectorXd& take(const Doubles& array) {
        for (std::size_t i = 0; i < places_.size(); ++i) change_[i] = array.data()[places_[i]] - values_[i];
        pending_ = true;
        effect_.noalias() = now_ * change_;
        return effect_;
    }
    // What links need, if it was not computed since the last `take`; otherwise null.
    const double* later() {
        if (!pending_) return nullptr;
        pending_ = false;
        effect_.noalias() = later_ * change_;
        return effect_.data();
    }
    void forget() { pending_ = false; }  // to be called when set-points came another way

   private:
    std::vector<int> places_;
    Eigen::VectorXd values_;
    Eigen::MatrixXd now_, later_;
    Eigen::VectorXd change_, effect_;
    bool pending_ = false;
};

}  // namespace supple
