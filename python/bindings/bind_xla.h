#pragma once

#include <nanobind/nanobind.h>

namespace byteps::python {

// Adds the class XlaCall and `xla_handler`, which XLA calls, to the module.
void BindXla(nanobind::module_& module);

}  // namespace byteps::python
