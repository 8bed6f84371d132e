#pragma once

namespace nanobind {
class module_;
}  // namespace nanobind

namespace byteps::python {

// Adds the class Session to the module.
void BindSession(nanobind::module_& module);

}  // namespace byteps::python
