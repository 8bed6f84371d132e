#include "python/bindings/xla_handler.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "python/bindings/call_error.h"
#include "python/bindings/xla_call.h"

namespace byteps::python {
namespace nb = nanobind;
namespace {

constexpr const char* kBeginModule = "byteps.common.programs.xla";
constexpr const char* kRunModule = "byteps.common.programs.xla_device";

// Lets Python start the operation. An exception ends the call.
void Begin(const std::shared_ptr<XlaCall>& call) {
  nb::gil_scoped_acquire acquire;
  try {
    nb::module_::import_(kBeginModule).attr("begin")(call);
  } catch (nb::python_error& error) {
    if (call->is_accepted()) return DropError(error, "the start of an operation of XLA");
    const CallError ours = TakeError(error);
    call->Fail(ours.code, ours.text);
  }
}

// Lets Python carry the operations out. An exception ends the call.
XlaEnd Run(const XlaDeviceCall& call) {
  nb::gil_scoped_acquire acquire;
  try {
    // A copy, which Python may keep in an error's traceback.
    nb::module_::import_(kRunModule).attr("run")(XlaDeviceCall(call));
    return {};
  } catch (nb::python_error& error) {
    const CallError ours = TakeError(error);
    return {ours.code, ours.text};
  }
}

}  // namespace

xla::Error* HandleXlaCall(xla::CallFrame* frame) noexcept { return AnswerXla(frame, &Begin); }

xla::Error* HandleXlaDeviceCall(xla::CallFrame* frame) noexcept {
  return AnswerXlaOnDevice(frame, &Run);
}

}  // namespace byteps::python
