#pragma once
#include <nanobind/nanobind.h>

void bind_adjoint(nanobind::module_& module);
void bind_batch(nanobind::module_& module);
void bind_blended(nanobind::module_& module);
void bind_elastic(nanobind::module_& module);
void bind_engine(nanobind::module_& module);
void bind_kinematics(nanobind::module_& module);
void bind_linkage(nanobind::module_& module);
void bind_floating(nanobind::module_& module);
void bind_picture(nanobind::module_& module);
void bind_probe(nanobind::module_& module);
void bind_reduced(nanobind::module_& module);
void bind_world(nanobind::module_& module);
void bind_spatial(nanobind::module_& module);
void bind_zones(nanobind::module_& module);
