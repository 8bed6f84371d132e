#pragma once

#include <nanobind/nanobind.h>

namespace byteps::python {

// Adds the class MxnetEngine to the module.
void BindMxnet(nanobind::module_& module);

}  // namespace byteps::python
