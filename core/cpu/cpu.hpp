// The best instruction set of this machine among those that the core is built for. The sets are nested: a machine with
// avx512 runs avx2 and baseline, too.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

inline const char* best_variant() {
#if defined(__x86_64__)
    // The bits are those of CPUID, by leaf and register. The builtin __builtin_cpu_supports needs a run-time library
    // that clang-cl does not link.
    unsigned eax, ebx, ecx, edx;
    const auto has = [](unsigned value, unsigned bits) { return (value & bits) == bits; };
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return "baseline";
    constexpr unsigned fma = 1u << 12, movbe = 1u << 22, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    if (!has(ecx, fma | movbe | osxsave | avx | f16c)) return "baseline";
    unsigned saved, upper;  // registers that the operating system saves: XMM 2, YMM 4, AVX-512 0xe0
    __asm__("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
    if (!has(saved, 0x6)) return "baseline";
    constexpr unsigned lzcnt = 1u << 5;
    if (!__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) || !has(ecx, lzcnt)) return "baseline";
    constexpr unsigned bmi1 = 1u << 3, avx2 = 1u << 5, bmi2 = 1u << 8;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !has(ebx, bmi1 | avx2 | bmi2)) return "baseline";
    constexpr unsigned f = 1u << 16, dq = 1u << 17, cd = 1u << 28, bw = 1u << 30, vl = 1u << 31;
    if (!has(ebx, f | dq | cd | bw | vl) || !has(saved, 0xe6)) return "avx2";
    return "avx512";
#else
    return "baseline";
#endif
}
