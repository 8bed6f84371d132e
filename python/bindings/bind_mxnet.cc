#include "python/bindings/bind_mxnet.h"

#include <dlfcn.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings/mxnet_call.h"
#include "python/bindings/without_interpreter.h"

namespace byteps::python {
namespace nb = nanobind;
namespace {

// Starts exchanges in the engine of the MXNet that this process has loaded. Any thread.
class MxnetEngine {
 public:
  explicit MxnetEngine(const std::string& library) {
    void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (loaded == nullptr) {
      throw std::runtime_error("the library of MXNet is not loaded: " + library);
    }
    Find(loaded, "MXEnginePushAsyncND", functions_.push_async);
    Find(loaded, "MXShallowCopyNDArray", functions_.shallow_copy);
    Find(loaded, "MXNDArrayFree", functions_.free_array);
    Find(loaded, "MXNDArrayToDLPack", functions_.to_dlpack);
    Find(loaded, "MXGetLastError", functions_.get_last_error);
  }

  // Pushes an exchange that overwrites `array`. A `gate` belongs to the exchange of the array
  // `after`: the new exchange starts only if that one has succeeded, even if somebody has read its
  // error by then. Returns the gate of the new exchange.
  std::shared_ptr<Outcome> Push(uintptr_t session, uintptr_t array, uintptr_t after,
                                const std::shared_ptr<Outcome>& gate, const std::string& name,
                                int operation, int dtype, const std::vector<int64_t>& shape,
                                int32_t root_rank, int32_t priority, int combine,
                                int32_t process_set, const std::string& detail, bool atomic) {
    Submission submission{.name = name,
                          .operation = operation,
                          .dtype = dtype,
                          .shape = shape,
                          .root_rank = root_rank,
                          .priority = priority,
                          .combine = combine,
                          .process_set = process_set,
                          .detail = detail,
                          .atomic = atomic};
    const WithoutInterpreter released;  // the engine may run the call inside push_async
    mxnet::ArrayHandle copy = nullptr;
    Check(functions_.shallow_copy(reinterpret_cast<mxnet::ArrayHandle>(array), &copy));
    auto call = std::make_unique<std::shared_ptr<MxnetCall>>(
        std::make_shared<MxnetCall>(functions_, reinterpret_cast<byteps_session*>(session),
                                    std::move(submission), copy, gate, outstanding_));
    std::shared_ptr<Outcome> outcome = (*call)->outcome();
    auto* read = reinterpret_cast<mxnet::ArrayHandle>(after);
    const int read_count = gate == nullptr ? 0 : 1;
    const mxnet::Context context{mxnet::kCpu, 0};
    // MXNet owns the call now, even if it refuses it: MxnetCall::Delete deletes it.
    Check(functions_.push_async(&MxnetCall::Run, call.release(), &MxnetCall::Delete, &context,
                                &read, read_count, &copy, 1, &mxnet::kAsynchronous, priority,
                                name.c_str(), false));
    return outcome;
  }

  int64_t WaitForFewer(int64_t limit_ms) {
    const WithoutInterpreter released;
    return outstanding_->WaitForFewer(std::chrono::milliseconds(limit_ms));
  }

 private:
  template <typename Function>
  void Find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) {
      throw std::runtime_error(std::string("the library of MXNet has no function ") + name);
    }
  }

  void Check(int result) const {
    if (result != 0) throw std::runtime_error(functions_.get_last_error());
  }

  mxnet::Functions functions_{};
  const std::shared_ptr<Outstanding> outstanding_ = std::make_shared<Outstanding>();
};

}  // namespace

void BindMxnet(nb::module_& module) {
  nb::class_<Outcome>(module, "MxnetGate");
  nb::class_<MxnetEngine>(module, "MxnetEngine")
      .def(nb::init<const std::string&>(), nb::arg("library"))
      .def("push", &MxnetEngine::Push, nb::arg("session"), nb::arg("array"), nb::arg("after"),
           nb::arg("gate").none(), nb::arg("name"), nb::arg("operation"), nb::arg("dtype"),
           nb::arg("shape"), nb::arg("root_rank"), nb::arg("priority"), nb::arg("combine"),
           nb::arg("process_set"), nb::arg("detail"), nb::arg("atomic"))
      .def("wait_for_fewer", &MxnetEngine::WaitForFewer, nb::arg("limit_ms"));
}

}  // namespace byteps::python
