// The Python module: one function per file of the core binds that file's kernels.
#include "module.hpp"

NB_MODULE(SUPPLE_MODULE, module) {
    bind_blended(module);
    bind_condensed(module);
    bind_engine(module);
    bind_reduced(module);
    bind_spatial(module);
}
