#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "byteps/byteps.h"
#include "python/bindings/ending.h"
#include "python/bindings/xla_ffi.h"

namespace byteps::python {

// Says what XLA tells of one custom call of a program: its buffers, which XLA keeps until the call
// is over.
class XlaFrame {
 public:
  using Place = std::tuple<int, std::vector<int64_t>, uintptr_t>;  // XLA's type, shape, address

  explicit XlaFrame(const xla::CallFrame& frame);

  // Returns the text with which the program was compiled.
  const std::string& text() const { return text_; }
  const std::vector<Place>& inputs() const { return inputs_; }
  const std::vector<Place>& outputs() const { return outputs_; }

 private:
  std::string text_;
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
};

// A call on the processor. It is over when it has failed, or when the operation that Python starts
// with it has ended.
class XlaCall : public XlaFrame, public Ending {
 public:
  XlaCall(const xla::CallFrame& frame, xla::Future* future);

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
  std::vector<int64_t> expected_;
  std::atomic<bool> is_accepted_{false};
};

// Starts the operation of a call, or fails it. Does not block.
using BeginXlaCall = void (*)(const std::shared_ptr<XlaCall>& call);

// Serves as XLA's handler: answers with the version of its interface, or makes a call and begins
// it. Returns the error, or null.
xla::Error* AnswerXla(xla::CallFrame* frame, BeginXlaCall begin) noexcept;

// A call on a GPU, whose buffers are in its memory. XLA has given `stream` all that writes the
// inputs, and gives it what reads the outputs when the call is over.
class XlaDeviceCall : public XlaFrame {
 public:
  XlaDeviceCall(const xla::CallFrame& frame, void* stream) : XlaFrame(frame), stream_(stream) {}
  uintptr_t stream() const { return reinterpret_cast<uintptr_t>(stream_); }

 private:
  void* const stream_;
};

// Says how a call on a GPU has ended.
struct XlaEnd {
  int code = BYTEPS_OK;  // a byteps_code
  std::string text;
};

// Carries the operations of a call out, and waits for them.
using RunXlaCall = XlaEnd (*)(const XlaDeviceCall& call);

// Serves as XLA's handler on a GPU. XLA makes such calls one after another, on a thread that it
// needs for nothing else meanwhile. Never part of a command buffer, because it waits. Returns the
// error, or null.
xla::Error* AnswerXlaOnDevice(xla::CallFrame* frame, RunXlaCall run) noexcept;

// Serves as the handler of a custom call that does nothing. XLA makes the call when all its
// operands are there, and keeps their memory until then.
xla::Error* KeepOperands(xla::CallFrame* frame) noexcept;

}  // namespace byteps::python
