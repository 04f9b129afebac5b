// Conversions between NumPy arrays and Eigen types, for the bindings.
#pragma once

#include <nanobind/ndarray.h>

#include <stdexcept>
#include <vector>

#include "spatial/spatial.hpp"

namespace supple {

using Doubles = nanobind::ndarray<const double, nanobind::c_contig, nanobind::device::cpu>;
using NumpyArray = nanobind::ndarray<nanobind::numpy, double>;

inline NumpyArray numpy(std::vector<double> values, std::vector<std::size_t> shape) {
    auto* kept = new std::vector<double>(std::move(values));
    nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
    return NumpyArray(kept->data(), shape.size(), shape.data(), owner);
}

inline NumpyArray copied(const Eigen::VectorXd& v) {
    return numpy({v.data(), v.data() + v.size()}, {static_cast<std::size_t>(v.size())});
}

inline NumpyArray copied(const Eigen::MatrixXd& m) {
    std::vector<double> rows;
    for (Eigen::Index r = 0; r < m.rows(); ++r)
        for (Eigen::Index c = 0; c < m.cols(); ++c) rows.push_back(m(r, c));
    return numpy(std::move(rows), {static_cast<std::size_t>(m.rows()), static_cast<std::size_t>(m.cols())});
}

inline void expect(const Doubles& array, std::size_t size) {
    if (array.size() != size) throw std::invalid_argument("array of unexpected size");
}

inline Eigen::MatrixXd matrix(const Doubles& array, std::size_t rows) {
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    return Eigen::Map<const RowMajor>(array.data(), rows, rows ? array.size() / rows : 0);
}

inline Eigen::VectorXd vector(const Doubles& array) {
    return Eigen::Map<const Eigen::VectorXd>(array.data(), array.size());
}

inline std::vector<double> doubles(const Doubles& array) { return {array.data(), array.data() + array.size()}; }

template <int n>
std::vector<Eigen::Matrix<double, n, 1>> vectors(const Doubles& array) {
    std::vector<Eigen::Matrix<double, n, 1>> result(array.size() / n);
    for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = Eigen::Map<const Eigen::Matrix<double, n, 1>>(array.data() + n * i);
    return result;
}

}  // namespace supple
