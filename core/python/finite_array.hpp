// Arrays of a user that need no conversion.
#pragma once

#include <algorithm>
#include <cmath>

#include "python/arrays.hpp"

namespace supple {

// Whether `given` are `size` finite numbers of type double, side by side, which `array` is then. If not, the caller finds out what is
// wrong, or converts them.
inline bool read_finite(nanobind::handle given, std::size_t size, Doubles& array) {
    if (!nanobind::try_cast(given, array, false) || array.ndim() != 1 || array.size() != size) return false;
    return std::all_of(array.data(), array.data() + size, [](double value) { return std::isfinite(value); });
}

}  // namespace supple
