#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/bindings/ending.h"
#include "python/bindings/tensorflow_api.h"

namespace byteps::python::tensorflow {

// TensorFlow gives a kernel the address of a std::function<void()> that is gone when the kernel
// returns, so the kernel copies it. Its layout is that of libstdc++, not of TensorFlow;
// `CanCopyDone` returns whether TensorFlow and this library agree about it.
using OwnDone = std::function<void()>;
bool CanCopyDone(const Api& api);

// The outputs of an operation of TensorFlow.
enum class Kind {
  kSame,    // each output has the shape of its input
  kRows,    // rows, and their number by rank; the second input has the number of rows for each rank
  kNumber,  // a number, without an input
};

// One run of a kernel: its tensors, which TensorFlow keeps until all parts of the run are over.
// Then the run tells TensorFlow, once. Any thread. Its parts share it until the session and Python
// have let go of them.
class KernelRun {
 public:
  using Place = std::tuple<int, std::vector<int64_t>, uintptr_t>;  // type, shape, address

  KernelRun(const Api& api, Kind kind, int parts, KernelContext* context, OwnDone done);
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;

  // Takes the tensors, and makes the outputs of kSame, in the memory of the inputs if nobody else
  // needs that. Returns the error, or an empty text. REQUIRES: called once, before the parts start.
  std::string TakeTensors();

  Kind kind() const { return kind_; }
  const std::vector<Place>& inputs() const { return inputs_; }
  // Makes an output. Returns null if TensorFlow refuses.
  void* MakeOutput(int number, const std::vector<int64_t>& shape);
  uintptr_t output(int number) const;

  // Notes that one part is over, with an error unless the code is BYTEPS_OK. The last part ends the
  // run.
  void EndPart(byteps_code code, const std::string& message);

 private:
  void End();
  std::string TakeInput(int number);
  std::string MakeSameOutput(int number);

  const Api& api_;
  const Kind kind_;
  KernelContext* const context_;
  const OwnDone done_;
  Status* const status_;
  std::vector<Tensor*> tensors_;  // to be deleted at the end
  std::vector<Place> inputs_;
  std::vector<Tensor*> outputs_;
  std::mutex mutex_;
  byteps_code code_ = BYTEPS_OK;  // guarded by mutex_, as are the next two
  std::string message_;
  int open_parts_;
};

// One exchange of a run. Python's `byteps.tensorflow.kernels.begin` starts it.
class KernelPart : public Ending {
 public:
  KernelPart(std::shared_ptr<KernelRun> run, int number, std::string text)
      : run_(std::move(run)), number_(number), text_(std::move(text)) {}

  // Returns the text with which Python made the operation.
  const std::string& text() const { return text_; }
  // Returns the inputs; for kSame only the tensor that this part exchanges.
  std::vector<KernelRun::Place> inputs() const;
  // Returns the address of the output. Only kSame has an output already; other kinds get one of
  // this shape.
  uintptr_t Output(const std::vector<int64_t>& shape);
  // Tells that the operation brings rows or a number, which become the outputs when it ends.
  void ExpectResult() { expects_result_ = true; }

  bool is_accepted() const { return is_accepted_; }
  // Each ends the part, without an operation. REQUIRES: not accepted.
  void Answer(int32_t number);
  void Succeed() { run_->EndPart(BYTEPS_OK, {}); }
  void Fail(int code, const std::string& message);

  void Accepted() override { is_accepted_ = true; }
  void Ended(byteps_session* session, byteps_handle handle, byteps_code code) override;

 private:
  std::string TakeResult(byteps_session* session, byteps_handle handle);
  std::string TakeRows(const byteps_result& result);

  const std::shared_ptr<KernelRun> run_;
  const int number_;
  const std::string text_;
  bool expects_result_ = false;
  std::atomic<bool> is_accepted_{false};
};

}  // namespace byteps::python::tensorflow
