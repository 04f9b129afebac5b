// The only place where Eigen's large kernels are compiled.
#define SUPPLE_DENSE template
#include "dense.hpp"
