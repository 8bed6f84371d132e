#pragma once

namespace nanobind {
class module_;
}  // namespace nanobind

namespace byteps::python {

// Adds the functions that need no session to the module: serve, version.
void BindServe(nanobind::module_& module);

}  // namespace byteps::python
