#include "python/bindings/xla_call.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace byteps::python {
namespace {

constexpr const char* kTextAttribute = "call";

std::vector<XlaFrame::Place> PlacesOf(const xla::Buffers& buffers) {
  std::vector<XlaFrame::Place> places;
  places.reserve(static_cast<size_t>(buffers.size));
  for (int64_t i = 0; i < buffers.size; ++i) {
    const xla::Buffer& buffer = *buffers.buffers[i];
    std::vector<int64_t> shape(buffer.dimensions, buffer.dimensions + buffer.rank);
    places.emplace_back(buffer.data_type, std::move(shape),
                        reinterpret_cast<uintptr_t>(buffer.data));
  }
  return places;
}

std::string TextOf(const xla::Attributes& attributes) {
  for (int64_t i = 0; i < attributes.size; ++i) {
    const xla::Text& name = *attributes.names[i];
    if (attributes.kinds[i] != xla::kAttributeIsText) continue;
    if (std::string(name.begin, name.size) != kTextAttribute) continue;
    const auto& value = *static_cast<const xla::Text*>(attributes.values[i]);
    return {value.begin, value.size};
  }
  return {};
}

// Answers XLA, which asks for the version of a handler's interface before it makes calls.
bool AnswerQuestion(const xla::CallFrame& frame) {
  for (xla::Extension* extension = frame.extensions; extension != nullptr;
       extension = extension->next) {
    if (extension->kind != xla::ExtensionKind::kMetadata) continue;
    xla::Version& version = reinterpret_cast<xla::MetadataExtension*>(extension)->metadata->version;
    version.major = xla::kMajorVersion;
    version.minor = xla::kMinorVersion;
    return true;
  }
  return false;
}

xla::Error* MakeError(const xla::Api& api, byteps_code code, const std::string& message) {
  xla::ErrorCreateArguments arguments{sizeof(arguments), nullptr, message.c_str(),
                                      StatusCodeOf(code)};
  return api.error_create(&arguments);
}

// Makes the error of a call, whose text byteps.common.programs.program_errors reads.
xla::Error* MakeCallError(const xla::Api& api, int code, const std::string& message) {
  const std::string text = "byteps error " + std::to_string(code) + ": " + message;
  return MakeError(api, static_cast<byteps_code>(code), text);
}

}  // namespace

XlaFrame::XlaFrame(const xla::CallFrame& frame)
    : text_(TextOf(frame.attributes)),
      inputs_(PlacesOf(frame.arguments)),
      outputs_(PlacesOf(frame.results)) {}

XlaCall::XlaCall(const xla::CallFrame& frame, xla::Future* future)
    : XlaFrame(frame), api_(frame.api), future_(future) {}

void XlaCall::Fail(int code, const std::string& message) {
  xla::FutureErrorArguments arguments{sizeof(arguments), nullptr, future_,
                                      MakeCallError(*api_, code, message)};
  api_->future_set_error(&arguments);
}

void XlaCall::Succeed() {
  xla::FutureAvailableArguments arguments{sizeof(arguments), nullptr, future_};
  api_->future_set_available(&arguments);
}

void XlaCall::Ended(byteps_session* session, byteps_handle handle, byteps_code code) {
  byteps_error error{};
  if (code != BYTEPS_OK) {
    byteps_wait(session, handle, 0, &error);
    Fail(code, error.message);
    return;
  }
  const std::string problem = expected_.empty() ? std::string() : TakeRows(session, handle);
  if (problem.empty()) {
    Succeed();
  } else {
    Fail(BYTEPS_MISMATCH, problem);
  }
}

std::string XlaCall::TakeRows(byteps_session* session, byteps_handle handle) {
  byteps_result result{};
  byteps_error error{};
  if (byteps_get_result(session, handle, &result, &error) != BYTEPS_OK) return error.message;
  const std::span<const int64_t> received(result.received_splits, result.received_split_count);
  if (!std::equal(received.begin(), received.end(), expected_.begin(), expected_.end())) {
    std::string text =
        "inside jit every rank must have the same number of rows, but the ranks' "
        "rows are";
    for (const int64_t rows : received) text += " " + std::to_string(rows);
    return text + ". Make this call outside jit";
  }
  std::memcpy(reinterpret_cast<void*>(std::get<2>(outputs()[0])), result.data, result.bytes);
  return {};
}

xla::Error* AnswerXla(xla::CallFrame* frame, BeginXlaCall begin) noexcept {
  if (AnswerQuestion(*frame)) return nullptr;
  xla::FutureCreateArguments create{sizeof(create), nullptr, nullptr};
  if (xla::Error* error = frame->api->future_create(&create); error != nullptr) return error;
  try {
    begin(std::make_shared<XlaCall>(*frame, create.future));
  } catch (const std::exception& error) {
    return MakeError(*frame->api, BYTEPS_INTERNAL, error.what());
  }
  frame->future = create.future;
  return nullptr;
}

xla::Error* AnswerXlaOnDevice(xla::CallFrame* frame, RunXlaCall run) noexcept {
  if (AnswerQuestion(*frame)) return nullptr;
  xla::StreamGetArguments get{sizeof(get), nullptr, frame->execution, nullptr};
  if (xla::Error* error = frame->api->stream_get(&get); error != nullptr) return error;
  try {
    const XlaEnd end = run(XlaDeviceCall(*frame, get.stream));
    return end.code == BYTEPS_OK ? nullptr : MakeCallError(*frame->api, end.code, end.text);
  } catch (const std::exception& error) {
    return MakeError(*frame->api, BYTEPS_INTERNAL, error.what());
  }
}

xla::Error* KeepOperands(xla::CallFrame* frame) noexcept {
  AnswerQuestion(*frame);
  return nullptr;
}

}  // namespace byteps::python
