#include "python/bindings/bind_xla.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "python/bindings/xla_call.h"
#include "python/bindings/xla_handler.h"

namespace byteps::python {
namespace nb = nanobind;

void BindXla(nb::module_& module) {
  nb::class_<Ending>(module, "Ending");
  nb::class_<XlaCall, Ending>(module, "XlaCall")
      .def_prop_ro("text", &XlaCall::text)
      .def_prop_ro("inputs", &XlaCall::inputs)
      .def_prop_ro("outputs", &XlaCall::outputs)
      .def("expect_rows", &XlaCall::ExpectRows, nb::arg("rows_of_ranks"));
  nb::class_<XlaDeviceCall>(module, "XlaDeviceCall")
      .def_prop_ro("text", &XlaDeviceCall::text)
      .def_prop_ro("inputs", &XlaDeviceCall::inputs)
      .def_prop_ro("outputs", &XlaDeviceCall::outputs)
      .def_prop_ro("stream", &XlaDeviceCall::stream);
  // XLA looks for this name in a capsule.
  constexpr const char* kCapsule = "xla._CUSTOM_CALL_TARGET";
  module.attr("xla_handler") = nb::capsule(reinterpret_cast<void*>(&HandleXlaCall), kCapsule);
  module.attr("xla_device_handler") =
      nb::capsule(reinterpret_cast<void*>(&HandleXlaDeviceCall), kCapsule);
  module.attr("xla_keep") = nb::capsule(reinterpret_cast<void*>(&KeepOperands), kCapsule);
}

}  // namespace byteps::python
