#include "python/bindings/bind_device.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
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

// Returns the version of NCCL, as number and as text, and its file.
std::tuple<int32_t, std::string, std::string> NcclInfo(const std::vector<std::string>& settings) {
  const std::vector<const char*> texts = PointersTo(settings);
  byteps_nccl_info info{};
  byteps_error error{};
  byteps_code code;
  {
    const WithoutInterpreter released;
    code = byteps_get_nccl_info(texts.data(), texts.size(), &info, &error);
  }
  RaiseIfFailed(code, error);
  return {info.version, info.text, info.file};
}

// Returns which way sums on GPUs take, as a text for people.
std::string ForeseeDeviceSums(const std::vector<std::string>& settings) {
  const std::vector<const char*> texts = PointersTo(settings);
  byteps_device_sums sums{};
  byteps_error error{};
  byteps_code code;
  {
    const WithoutInterpreter released;
    code = byteps_foresee_device_sums(texts.data(), texts.size(), &sums, &error);
  }
  RaiseIfFailed(code, error);
  return sums.text;
}

// Returns a capsule of DLPack for contiguous memory of a device, which `owner` keeps.
nb::object DeviceCapsule(uintptr_t address, uint8_t code, uint8_t bits,
                         const std::vector<size_t>& shape, int32_t device, nb::object owner) {
  const nb::dlpack::dtype type{code, bits, 1};
  const nb::ndarray<> array(reinterpret_cast<void*>(address), shape.size(), shape.data(), owner,
                            nullptr, type, nb::device::cuda::value, device);
  return nb::cast(array);
}

}  // namespace

void BindDevice(nb::module_& module) {
  module.def("device_info", &DeviceInfo, nb::arg("settings"), nb::arg("device"));
  module.def("nccl_info", &NcclInfo, nb::arg("settings"));
  module.def("foresee_device_sums", &ForeseeDeviceSums, nb::arg("settings"));
  module.def("device_capsule", &DeviceCapsule, nb::arg("address"), nb::arg("code"), nb::arg("bits"),
             nb::arg("shape"), nb::arg("device"), nb::arg("owner"));
  module.attr("NO_STREAM") = reinterpret_cast<uintptr_t>(BYTEPS_NO_STREAM);
}

}  // namespace byteps::python
