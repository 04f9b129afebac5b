// Numbers of a user that need no conversion, and arrays of a caller that are filled.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "python/arrays.hpp"

namespace supple {

// Whether `given` are `size` finite numbers of type double, side by side, which `array` is then. If not, the caller
// finds out what is wrong, or converts them.
inline bool read_finite(nanobind::handle given, std::size_t size, Doubles& array) {
    if (!nanobind::try_cast(given, array, false) || array.ndim() != 1 || array.size() != size) return false;
    return std::all_of(array.data(), array.data() + size, [](double value) { return std::isfinite(value); });
}

// The same for one number of Python's or NumPy's types.
inline bool read_finite(nanobind::handle given, double& value) {
    if (PyFloat_Check(given.ptr())) {
        value = PyFloat_AsDouble(given.ptr());
    } else if (PyLong_Check(given.ptr())) {
        value = PyLong_AsDouble(given.ptr());
        if (value == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            return false;
        }
    } else {
        return false;
    }
    return std::isfinite(value);
}

// Numbers given by name, as name and number or as {name: number}.
class NamedNumbers {
   public:
    NamedNumbers() = default;
    explicit NamedNumbers(nanobind::dict places) : places_(std::move(places)) {}

    // False if a name has no place here, or if `read_finite` is: the caller finds out what is wrong.
    bool read(nanobind::handle given, nanobind::handle number) {
        values_.clear();
        if (PyUnicode_Check(given.ptr())) return add(given.ptr(), number);
        if (!number.is_none() || !PyDict_Check(given.ptr())) return false;
        PyObject *name, *value;
        Py_ssize_t at = 0;
        while (PyDict_Next(given.ptr(), &at, &name, &value))
            if (!add(name, value)) return false;
        return true;
    }
    const std::vector<std::pair<int, double>>& values() const { return values_; }  // place and number

   private:
    bool add(PyObject* name, nanobind::handle number) {
        PyObject* place = places_.is_valid() ? PyDict_GetItemWithError(places_.ptr(), name) : nullptr;
        if (!place) {
            PyErr_Clear();  // a name that cannot be hashed
            return false;
        }
        double value;
        if (!read_finite(number, value)) return false;
        values_.emplace_back(static_cast<int>(PyLong_AsLong(place)), value);
        return true;
    }

    nanobind::dict places_;
    std::vector<std::pair<int, double>> values_;
};

// The numbers of a caller's new array of doubles. It takes less time than an array that the core makes.
class Filled {
   public:
    Filled(nanobind::handle array, std::size_t size) {
        if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS))
            throw nanobind::python_error();
        if (buffer_.itemsize != sizeof(double) || static_cast<std::size_t>(buffer_.len) != size * sizeof(double)) {
            PyBuffer_Release(&buffer_);
            throw std::invalid_argument("array of unexpected size");
        }
    }
    ~Filled() { PyBuffer_Release(&buffer_); }
    Filled(const Filled&) = delete;
    Filled& operator=(const Filled&) = delete;
    double* data() { return static_cast<double*>(buffer_.buf); }

   private:
    Py_buffer buffer_;
};

// A new array that cannot be written to, of `size` numbers which `fill` writes. `like`: numpy.ndarray.__new__, the
// class, the shape, and the mechanism with the names.
template <class Fill>
nanobind::object named_array(const nanobind::tuple& like, std::size_t size, Fill fill) {
    static PyObject* const mechanism = PyUnicode_InternFromString("mechanism");
    static PyObject* const setflags = PyUnicode_InternFromString("setflags");
    using nanobind::steal;
    nanobind::object result = steal(PyObject_CallFunctionObjArgs(like[0].ptr(), like[1].ptr(), like[2].ptr(), nullptr));
    if (!result.is_valid()) throw nanobind::python_error();
    fill(Filled(result, size).data());
    if (PyObject_SetAttr(result.ptr(), mechanism, like[3].ptr())) throw nanobind::python_error();
    const nanobind::object done = steal(PyObject_CallMethodObjArgs(result.ptr(), setflags, Py_False, nullptr));
    if (!done.is_valid()) throw nanobind::python_error();
    return result;
}

}  // namespace supple
