// A module of its own, built for the lowest instruction set: supple._core calls it to choose which core to load.
#include <Python.h>

#include "cpu/cpu.hpp"

static PyObject* best_variant(PyObject*, PyObject*) { return PyUnicode_FromString(best_variant()); }

static PyMethodDef methods[] = {{"best_variant", best_variant, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_cpu", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__cpu() { return PyModule_Create(&definition); }
