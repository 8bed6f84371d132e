#include "python/bindings/mxnet_call.h"

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace byteps::python {

MxnetCall::MxnetCall(const mxnet::Functions& functions, byteps_session* session,
                     Submission submission, mxnet::ArrayHandle array, std::shared_ptr<Outcome> gate,
                     std::shared_ptr<Outstanding> outstanding)
    : functions_(functions),
      session_(session),
      submission_(std::move(submission)),
      array_(array),
      gate_(std::move(gate)),
      outstanding_(std::move(outstanding)) {
  outstanding_->Add();
}

MxnetCall::~MxnetCall() {
  LetGoOfMemory();
  functions_.free_array(array_);
  outstanding_->Remove();
}

void MxnetCall::Run(void*, void* on_complete, void* argument) noexcept {
  const std::shared_ptr<MxnetCall> call = *static_cast<std::shared_ptr<MxnetCall>*>(argument);
  call->on_complete_ = *static_cast<const mxnet::OnComplete*>(on_complete);
  call->Begin();
}

void MxnetCall::Delete(void* argument) noexcept {
  const std::unique_ptr<std::shared_ptr<MxnetCall>> owned(
      static_cast<std::shared_ptr<MxnetCall>*>(argument));
}

void MxnetCall::Begin() {
  if (gate_ != nullptr && gate_->has_failed) {
    // Somebody has read the gate's error, because otherwise the engine would not run this. A second
    // error that nobody reads would end unrelated operations, with which MXNet shares scratch
    // memory.
    outcome_->has_failed = true;
    Succeed();
    return;
  }
  if (!TakeMemory()) {
    Fail(BYTEPS_INVALID_ARGUMENT,
         "tensor '" + submission_.name +
             "': this array cannot be changed in place, because its memory is not plain (oneDNN "
             "has chosen a layout of its own). Use the form that returns a new array.");
    return;
  }
  submission_.input =
      reinterpret_cast<uintptr_t>(memory_->tensor.data) + memory_->tensor.byte_offset;
  submission_.output = submission_.input;
  byteps_handle handle = 0;
  byteps_error error{};
  const byteps_code code =
      StartFor(shared_from_this(), session_, submission_.Request(), &handle, &error);
  if (code != BYTEPS_OK) Fail(code, error.message);
}

void MxnetCall::Ended(byteps_session* session, byteps_handle handle, byteps_code code) {
  if (code == BYTEPS_OK) {
    Succeed();
    return;
  }
  byteps_error error{};
  byteps_wait(session, handle, 0, &error);
  Fail(code, error.message);
}

bool MxnetCall::TakeMemory() {
  // MXNDArrayGetData would wait for this operation itself if the layout is oneDNN's.
  return functions_.to_dlpack(array_, &memory_) == 0;
}

void MxnetCall::LetGoOfMemory() {
  mxnet::ManagedTensor* const memory = std::exchange(memory_, nullptr);
  if (memory != nullptr) memory->deleter(memory);
}

void MxnetCall::Succeed() {
  LetGoOfMemory();
  on_complete_.callback(on_complete_.engine, on_complete_.operation, nullptr);
}

void MxnetCall::Fail(int code, const std::string& message) {
  LetGoOfMemory();
  outcome_->has_failed = true;
  // byteps.mxnet.errors reads this text.
  const std::runtime_error error("byteps.error" + std::to_string(code) + ": " + message);
  on_complete_.callback(on_complete_.engine, on_complete_.operation, &error);
}

}  // namespace byteps::python
