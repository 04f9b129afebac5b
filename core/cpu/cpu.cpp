// A module of its own, built for the lowest instruction set: names the build of the core that suits this machine.
#include <Python.h>

static PyObject* best_variant(PyObject*, PyObject*) {
    const char* name = "baseline";
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
        name = "avx2";
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl"))
            name = "avx512";
    }
#endif
    return PyUnicode_FromString(name);
}

static PyMethodDef methods[] = {{"best_variant", best_variant, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_cpu", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit__cpu() { return PyModule_Create(&definition); }
