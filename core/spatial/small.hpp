// Sums and products of small matrices, evaluated at once. Eigen returns a new type for every expression, and compilers
// spend most of their time on such types; the matrices here are small enough to be returned by value. These operators
// serve code in namespace supple and are preferred to Eigen's where both operands are small.
#pragma once

#include <Eigen/Core>
#include <concepts>
#include <type_traits>

// For small functions that return matrices by value: the call would cost more than the computation.
#define SUPPLE_INLINE inline __attribute__((always_inline))

namespace supple {

using Vec3 = Eigen::Vector3d;
using Mat3 = Eigen::Matrix3d;
using Vec6 = Eigen::Matrix<double, 6, 1>;
using Mat6 = Eigen::Matrix<double, 6, 6>;

// T is an Eigen type of fixed size whose numbers lie in memory: a matrix or vector, a block, a transpose or a map of
// one.
template <class T>
concept Small =
    requires(const T& t) {
        []<class Derived>(const Eigen::MatrixBase<Derived>&) {}(t);
        t.data();
    } && std::same_as<typename T::Scalar, double> && int(T::SizeAtCompileTime) != Eigen::Dynamic &&
    int(T::SizeAtCompileTime) > 1 && (int(Eigen::internal::traits<T>::Flags) & Eigen::DirectAccessBit) != 0;

// the matrix type of an expression
template <class T>
using Plain = Eigen::Matrix<double, T::RowsAtCompileTime, T::ColsAtCompileTime>;

template <class T>
SUPPLE_INLINE double entry(const T& a, int i, int j) {
    return a.data()[i * a.rowStride() + j * a.colStride()];
}

// The matrix of size T whose entries are f(i, j)
template <class T, class Function>
SUPPLE_INLINE Plain<T> each_entry(const Function& f) {
    Plain<T> c;
    for (int j = 0; j < int(T::ColsAtCompileTime); ++j)
        for (int i = 0; i < int(T::RowsAtCompileTime); ++i) c.data()[i + j * int(T::RowsAtCompileTime)] = f(i, j);
    return c;
}

template <Small A, Small B>
    requires std::same_as<Plain<A>, Plain<B>>
SUPPLE_INLINE Plain<A> operator+(const A& a, const B& b) {
    return each_entry<A>([&](int i, int j) { return entry(a, i, j) + entry(b, i, j); });
}

template <Small A, Small B>
    requires std::same_as<Plain<A>, Plain<B>>
SUPPLE_INLINE Plain<A> operator-(const A& a, const B& b) {
    return each_entry<A>([&](int i, int j) { return entry(a, i, j) - entry(b, i, j); });
}

template <Small A>
SUPPLE_INLINE Plain<A> operator-(const A& a) {
    return each_entry<A>([&](int i, int j) { return -entry(a, i, j); });
}

template <class Number, Small A>
    requires std::is_arithmetic_v<Number>
SUPPLE_INLINE Plain<A> operator*(Number s, const A& a) {
    return each_entry<A>([&](int i, int j) { return double(s) * entry(a, i, j); });
}

template <class Number, Small A>
    requires std::is_arithmetic_v<Number>
SUPPLE_INLINE Plain<A> operator*(const A& a, Number s) {
    return s * a;
}

template <class Number, Small A>
    requires std::is_arithmetic_v<Number>
SUPPLE_INLINE Plain<A> operator/(const A& a, Number s) {
    return each_entry<A>([&](int i, int j) { return entry(a, i, j) / double(s); });
}

template <Small A, Small B>
    requires(int(A::ColsAtCompileTime) == int(B::RowsAtCompileTime))
SUPPLE_INLINE auto operator*(const A& a, const B& b) {
    constexpr int rows = A::RowsAtCompileTime, inner = A::ColsAtCompileTime, cols = B::ColsAtCompileTime;
    Eigen::Matrix<double, rows, cols> c;
    for (int j = 0; j < cols; ++j) {
        double* column = c.data() + rows * j;
        for (int i = 0; i < rows; ++i) column[i] = entry(a, i, 0) * entry(b, 0, j);
        for (int k = 1; k < inner; ++k)
            for (int i = 0; i < rows; ++i) column[i] += entry(a, i, k) * entry(b, k, j);
    }
    return c;
}

}  // namespace supple
