#include "python/bindings/bind_serve.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "byteps/byteps.h"
#include "python/bindings/bind_error.h"
#include "python/bindings/settings.h"
#include "python/bindings/without_interpreter.h"

namespace byteps::python {
namespace nb = nanobind;
namespace {

void Serve(const std::vector<std::string>& settings) {
  const std::vector<const char*> texts = PointersTo(settings);
  byteps_error error{};
  byteps_code code;
  {
    const WithoutInterpreter released;
    code = byteps_serve(texts.data(), texts.size(), &error);
  }
  RaiseIfFailed(code, error);
}

}  // namespace

void BindServe(nb::module_& module) {
  module.def("serve", &Serve, nb::arg("settings"));
  module.def("version", [] { return std::string(byteps_version()); });
}

}  // namespace byteps::python
