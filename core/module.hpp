#pragma once
#include <nanobind/nanobind.h>

void bind_spatial(nanobind::module_& module);
