#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/bindings/ending.h"
#include "python/bindings/xla_ffi.h"

namespace byteps::python {

// One custom call of an XLA program: its buffers, which XLA keeps until the call is over. The call
// is over when it has failed, or when the operation that Python starts with it has ended.
class XlaCall : public Ending {
 public:
  using Place = std::tuple<int, std::vector<int64_t>, uintptr_t>;  // XLA's type, shape, address

  XlaCall(const xla::CallFrame& frame, xla::Future* future);

  // Returns the text with which the program was compiled.
  const std::string& text() const { return text_; }
  const std::vector<Place>& inputs() const { return inputs_; }
  const std::vector<Place>& outputs() const { return outputs_; }

  // Tells how many rows the operation brings from each rank. They are copied to the first output;
  // other numbers of rows are an error. REQUIRES: called before the operation starts.
  void ExpectRows(std::vector<int64_t> rows_of_ranks) { expected_ = std::move(rows_of_ranks); }

  bool is_accepted() const { return is_accepted_; }
  // Ends the call; `code` is a byteps_code. REQUIRES: not accepted.
  void Fail(int code, const std::string& message);

  void Accepted() override { is_accepted_ = true; }
  void Ended(byteps_session* session, byteps_handle handle, byteps_code code) override;

 private:
  // Copies the rows. Returns the error, or an empty text.
  std::string TakeRows(byteps_session* session, byteps_handle handle);
  void Succeed();

  const xla::Api* const api_;
  xla::Future* const future_;
  std::string text_;
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
  std::vector<int64_t> expected_;
  std::atomic<bool> is_accepted_{false};
};

// Starts the operation of a call, or fails it. Does not block.
using BeginXlaCall = void (*)(const std::shared_ptr<XlaCall>& call);

// Serves as XLA's handler: answers with the version of its interface, or makes a call and begins
// it. Returns the error, or null.
xla::Error* AnswerXla(xla::CallFrame* frame, BeginXlaCall begin) noexcept;

// Serves as the handler of a custom call that does nothing. XLA makes the call when all its
// operands are there, and keeps their memory until then.
xla::Error* KeepOperands(xla::CallFrame* frame) noexcept;

}  // namespace byteps::python
