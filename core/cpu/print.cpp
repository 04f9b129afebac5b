// CMake runs this to choose the instruction set of a source install.
#include <cstdio>

#include "cpu.hpp"

int main() { std::puts(best_variant()); }
