#include "python/bindings/bind_device.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "byteps/device.h"
#include "python/bindings/bind_error.h"
#include "python/bindings/settings.h"
#include "python/bindings/without_interpreter.h"

namespace byteps::python {
namespace nb = nanobind;
namespace {

// Returns the number of devices, and of this one the name and the version of the driver.
std::tuple<int32_t, std::string, std::string> DeviceInfo(const std::vector<std::string>& settings,
                                                         int32_t device) {
  const std::vector<const char*> texts = PointersTo(settings);
  byteps_device_info info{};
  byteps_error error{};
  byteps_code code;
  {
    const WithoutInterpreter released;
    code = byteps_get_device_info(texts.data(), texts.size(), device, &info, &error);
  }
  RaiseIfFailed(code, error);
  return {info.count, info.name, info.driver};
}

}  // namespace

void BindDevice(nb::module_& module) {
  module.def("device_info", &DeviceInfo, nb::arg("settings"), nb::arg("device"));
  module.attr("NO_STREAM") = reinterpret_cast<uintptr_t>(BYTEPS_NO_STREAM);
}

}  // namespace byteps::python
