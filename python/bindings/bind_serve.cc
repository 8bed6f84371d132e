#include "python/bindings/bind_serve.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "byteps/byteps.h"
#include "byteps/sums.h"
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

// Returns what bits of sums will depend on, as a byteps_sum_bits and a sentence.
std::pair<int, std::string> ForeseeSums(const std::vector<std::string>& settings) {
  const std::vector<const char*> texts = PointersTo(settings);
  byteps_sums sums{};
  byteps_error error{};
  RaiseIfFailed(byteps_foresee_sums(texts.data(), texts.size(), &sums, &error), error);
  return {static_cast<int>(sums.bits), sums.text};
}

}  // namespace

void BindServe(nb::module_& module) {
  module.def("serve", &Serve, nb::arg("settings"));
  module.def("foresee_sums", &ForeseeSums, nb::arg("settings"));
  module.def("version", [] { return std::string(byteps_version()); });
}

}  // namespace byteps::python
