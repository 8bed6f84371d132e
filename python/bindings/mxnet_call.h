#pragma once

#include <memory>
#include <string>

#include "python/bindings/ending.h"
#include "python/bindings/mxnet_c.h"
#include "python/bindings/outstanding.h"
#include "python/bindings/submission.h"

namespace byteps::python {

// The outcome of an operation. The operation that starts after it reads this; the engine keeps the
// order.
struct Outcome : std::enable_shared_from_this<Outcome> {
  bool has_failed = false;
};

// One operation in MXNet's engine: an exchange that overwrites an array. The engine runs it when
// everything before it that touches the array is done. The operation is over when the exchange is
// over or has failed; then the engine goes on with the operations after it. No thread takes the
// interpreter lock.
class MxnetCall : public Ending {
 public:
  // `array` is a copy of the user's handle, which this object frees. A `gate`, if there is one,
  // must be over when the engine runs this operation, which does nothing if the gate has failed.
  MxnetCall(const mxnet::Functions& functions, byteps_session* session, Submission submission,
            mxnet::ArrayHandle array, std::shared_ptr<Outcome> gate,
            std::shared_ptr<Outstanding> outstanding);
  ~MxnetCall() override;

  // The engine calls it; `argument` is a pointer to a shared pointer to the call.
  static void Run(void* run_context, void* on_complete, void* argument) noexcept;
  // The engine needs `argument` no more. It has not called Run if an operation before this one has
  // failed.
  static void Delete(void* argument) noexcept;

  const std::shared_ptr<Outcome>& outcome() const { return outcome_; }

  void Accepted() override {}
  void Ended(byteps_session* session, byteps_handle handle, byteps_code code) override;

 private:
  // Starts the exchange, or ends the operation with the reason why it cannot start.
  void Begin();
  // Takes the memory of the array, which exists only now. Returns false if the memory is not plain.
  bool TakeMemory();
  void LetGoOfMemory();
  void Succeed();
  void Fail(int code, const std::string& message);

  const mxnet::Functions functions_;
  byteps_session* const session_;
  Submission submission_;
  const mxnet::ArrayHandle array_;
  const std::shared_ptr<Outcome> gate_;
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
  const std::shared_ptr<Outstanding> outstanding_;
  mxnet::OnComplete on_complete_{};
  mxnet::ManagedTensor* memory_ = nullptr;
};

}  // namespace byteps::python
