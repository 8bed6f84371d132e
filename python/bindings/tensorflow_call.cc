#include "python/bindings/tensorflow_call.h"

#include <cstring>
#include <utility>

namespace byteps::python::tensorflow {
namespace {

std::vector<int64_t> ShapeOf(const Api& api, const Tensor* tensor) {
  std::vector<int64_t> shape;
  for (int i = 0; i < api.dimensions(tensor); ++i) shape.push_back(api.dimension(tensor, i));
  return shape;
}

size_t BytesOf(const Api& api, int type, const std::vector<int64_t>& shape) {
  size_t bytes = api.type_size(type);
  for (const int64_t count : shape) bytes *= static_cast<size_t>(count);
  return bytes;
}

}  // namespace

bool CanCopyDone(const Api& api) {
  bool was_called = false;
  OwnDone done = [&was_called] { was_called = true; };
  api.run_done(reinterpret_cast<Done*>(&done));
  return was_called;
}

KernelRun::KernelRun(const Api& api, Kind kind, int parts, KernelContext* context, OwnDone done)
    : api_(api),
      kind_(kind),
      context_(context),
      done_(std::move(done)),
      status_(api.make_status()),
      open_parts_(parts) {}

std::string KernelRun::TakeTensors() {
  const int inputs = api_.input_count(context_);
  const int count = inputs > 0 ? inputs - 1 : 0;  // the last one is the gate
  outputs_.resize(kind_ == Kind::kRows ? 2 : kind_ == Kind::kNumber ? 1 : count);
  for (int i = 0; i < count; ++i) {
    std::string problem = kind_ == Kind::kSame ? MakeSameOutput(i) : std::string();
    if (problem.empty()) problem = TakeInput(i);
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string KernelRun::TakeInput(int number) {
  Tensor* tensor = nullptr;
  api_.get_input(context_, number, &tensor, status_);
  if (api_.get_code(status_) != StatusCode::kOk) return api_.message(status_);
  tensors_.push_back(tensor);
  inputs_.emplace_back(api_.tensor_type(tensor), ShapeOf(api_, tensor),
                       reinterpret_cast<uintptr_t>(api_.data(tensor)));
  return {};
}

std::string KernelRun::MakeSameOutput(int number) {
  Tensor* tensor = nullptr;
  api_.get_input(context_, number, &tensor, status_);
  if (api_.get_code(status_) != StatusCode::kOk) return api_.message(status_);
  const std::vector<int64_t> shape = ShapeOf(api_, tensor);
  api_.delete_tensor(tensor);  // TensorFlow lets its memory be overwritten only if nobody holds it
  int forwarded = -1;
  outputs_[number] = api_.forward_or_allocate(context_, &number, 1, number, shape.data(),
                                              static_cast<int>(shape.size()), &forwarded, status_);
  if (api_.get_code(status_) != StatusCode::kOk) return api_.message(status_);
  tensors_.push_back(outputs_[number]);
  return {};
}

void* KernelRun::MakeOutput(int number, const std::vector<int64_t>& shape) {
  const int type = api_.output_type(context_, number);
  const size_t bytes = BytesOf(api_, type, shape);
  Status* status = api_.make_status();
  Tensor* tensor = api_.allocate_output(context_, number, type, shape.data(),
                                        static_cast<int>(shape.size()), bytes, status);
  const bool is_made = api_.get_code(status) == StatusCode::kOk;
  api_.delete_status(status);
  if (!is_made) return nullptr;
  tensors_.push_back(tensor);
  outputs_[number] = tensor;
  return api_.data(tensor);
}

uintptr_t KernelRun::output(int number) const {
  return reinterpret_cast<uintptr_t>(api_.data(outputs_[number]));
}

void KernelRun::EndPart(byteps_code code, const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    if (code != BYTEPS_OK && code_ == BYTEPS_OK) {
      code_ = code;
      message_ = message;
    }
    if (--open_parts_ > 0) return;
  }
  End();
}

void KernelRun::End() {
  if (code_ != BYTEPS_OK) {
    // byteps.common.programs.program_errors reads this text.
    const std::string text = "byteps error " + std::to_string(code_) + ": " + message_;
    api_.set_status(status_, StatusCodeOf(code_), text.c_str());
    api_.fail(context_, status_);
  }
  for (Tensor* tensor : tensors_) api_.delete_tensor(tensor);
  api_.delete_status(status_);
  done_();
}

std::vector<KernelRun::Place> KernelPart::inputs() const {
  if (run_->kind() == Kind::kSame) return {run_->inputs()[static_cast<size_t>(number_)]};
  return run_->inputs();
}

uintptr_t KernelPart::Output(const std::vector<int64_t>& shape) {
  if (run_->kind() == Kind::kSame) return run_->output(number_);
  run_->MakeOutput(1, {0});  // no operation looks at the ranks of the rows
  return reinterpret_cast<uintptr_t>(run_->MakeOutput(0, shape));
}

void KernelPart::Answer(int32_t number) {
  void* place = run_->MakeOutput(0, {});
  if (place == nullptr) return Fail(BYTEPS_EXHAUSTED, "TensorFlow has no memory for a number");
  std::memcpy(place, &number, sizeof(number));
  Succeed();
}

void KernelPart::Fail(int code, const std::string& message) {
  run_->EndPart(static_cast<byteps_code>(code), message);
}

void KernelPart::Ended(byteps_session* session, byteps_handle handle, byteps_code code) {
  byteps_error error{};
  if (code != BYTEPS_OK) {
    byteps_wait(session, handle, 0, &error);
    return Fail(code, error.message);
  }
  const std::string problem = expects_result_ ? TakeResult(session, handle) : std::string();
  run_->EndPart(problem.empty() ? BYTEPS_OK : BYTEPS_INTERNAL, problem);
}

std::string KernelPart::TakeResult(byteps_session* session, byteps_handle handle) {
  byteps_result result{};
  byteps_error error{};
  if (byteps_get_result(session, handle, &result, &error) != BYTEPS_OK) return error.message;
  if (run_->kind() == Kind::kRows) return TakeRows(result);
  const auto number = static_cast<int32_t>(result.first_dimension);
  void* place = run_->MakeOutput(0, {});
  if (place == nullptr) return "TensorFlow has no memory for a number";
  std::memcpy(place, &number, sizeof(number));
  return {};
}

std::string KernelPart::TakeRows(const byteps_result& result) {
  std::vector<int64_t> shape = std::get<1>(run_->inputs()[0]);
  if (shape.empty()) shape.push_back(1);
  shape[0] = result.first_dimension;
  void* rows = run_->MakeOutput(0, shape);
  void* counts = run_->MakeOutput(1, {static_cast<int64_t>(result.received_split_count)});
  if (rows == nullptr || counts == nullptr) {
    return "TensorFlow has no memory for " + std::to_string(result.bytes) + " bytes of rows";
  }
  if (result.bytes > 0) std::memcpy(rows, result.data, result.bytes);
  for (size_t i = 0; i < result.received_split_count; ++i) {
    static_cast<int32_t*>(counts)[i] = static_cast<int32_t>(result.received_splits[i]);
  }
  return {};
}

}  // namespace byteps::python::tensorflow
