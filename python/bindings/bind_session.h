#pragma once

#include <nanobind/nanobind.h>

namespace byteps::python {

// Adds the class Session to the module.
void BindSession(nanobind::module_& module);

}  // namespace byteps::python
