// The Python module: one function per file of the core binds that file's kernels.
#include <nanobind/nanobind.h>

#include "module.hpp"

namespace nb = nanobind;

// Names the fastest variant of the core that this machine can run. Only called on the baseline build.
static const char* best_variant() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return "avx2";
#endif
    return "baseline";
}

NB_MODULE(SUPPLE_MODULE, module) {
    module.def("best_variant", &best_variant);
    bind_spatial(module);
}
