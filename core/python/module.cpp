// The Python module: one function per file of the core binds that file's kernels.
#include "python/module.hpp"

NB_MODULE(SUPPLE_MODULE, module) {
#ifdef NDEBUG  // no warnings about objects that a viewer thread still refers to at exit
    nanobind::set_leak_warnings(false);
#endif
    bind_world(module);  // first: other classes return its Participant
    bind_batch(module);  // before the classes that return its BatchMember
    bind_blended(module);
    bind_elastic(module);
    bind_engine(module);
    bind_adjoint(module);
    bind_kinematics(module);
    bind_linkage(module);
    bind_floating(module);
    bind_picture(module);
    bind_probe(module);
    bind_reduced(module);
    bind_spatial(module);
    bind_zones(module);
}
