#include "python/bindings/xla_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/fake_byteps.h"

namespace byteps::python {

// XLA's own types, of which the package sees pointers only.
struct xla::Future {
  std::vector<std::string> ends;  // "" is success
};
struct xla::Error {
  std::string message;
  StatusCode code;
};

namespace {

using ::testing::ElementsAre;
using testing::FakeJob;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// XLA, and the frame of one call: a row of three int32 and a gate come in, four int32 go out.
struct FakeXla {
  xla::Future future;
  xla::Error error;
  bool refuses_futures = false;
  bool refuses_streams = false;
  int stream = 0;
  std::array<int32_t, 3> input{1, 2, 3};
  std::array<int32_t, 4> output{};
  uint32_t gate = 7;
  std::array<int64_t, 1> input_shape{3}, output_shape{4};
  xla::Buffer in{sizeof(in), nullptr, 4, input.data(), 1, input_shape.data()};
  xla::Buffer number{sizeof(number), nullptr, 8, &gate, 0, nullptr};
  xla::Buffer out{sizeof(out), nullptr, 4, output.data(), 1, output_shape.data()};
  std::array<xla::Buffer*, 2> arguments{&in, &number};
  std::array<xla::Buffer*, 1> results{&out};
  const std::string name = "call", other = "callee", text = R"({"name": "w"})";
  xla::Text name_view{name.data(), name.size()}, other_view{other.data(), other.size()};
  xla::Text text_view{text.data(), text.size()};
  int64_t scalar = 3;
  std::array<int, 3> kinds{1, xla::kAttributeIsText, xla::kAttributeIsText};
  std::array<xla::Text*, 3> names{&name_view, &other_view, &name_view};
  std::array<void*, 3> values{&scalar, &name_view, &text_view};
  xla::Api api{};
  xla::CallFrame frame{};

  // The functions have no context except their arguments, which lead here through the future.
  static inline FakeXla* now = nullptr;  // tidy-allow(global): XLA's functions take no context

  FakeXla() {
    now = this;
    api.error_create = [](xla::ErrorCreateArguments* wanted) {
      now->error = {wanted->message, wanted->code};
      return &now->error;
    };
    api.stream_get = [](xla::StreamGetArguments* wanted) -> xla::Error* {
      if (now->refuses_streams) return &now->error;
      wanted->stream = &now->stream;
      return nullptr;
    };
    api.future_create = [](xla::FutureCreateArguments* wanted) -> xla::Error* {
      if (now->refuses_futures) return &now->error;
      wanted->future = &now->future;
      return nullptr;
    };
    api.future_set_available = [](xla::FutureAvailableArguments* given) -> xla::Error* {
      given->future->ends.emplace_back();
      return nullptr;
    };
    api.future_set_error = [](xla::FutureErrorArguments* given) -> xla::Error* {
      given->future->ends.push_back(given->error->message);
      return nullptr;
    };
    frame.api = &api;
    frame.arguments = {sizeof(frame.arguments), nullptr, 2, nullptr, arguments.data()};
    frame.results = {sizeof(frame.results), nullptr, 1, nullptr, results.data()};
    frame.attributes = {
        sizeof(frame.attributes), nullptr, 3, kinds.data(), names.data(), values.data()};
  }
};

class XlaCallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    job_.complete_at_once = false;
    const std::string setting = job_.Setting();
    const std::array<const char*, 1> settings{setting.c_str()};
    ASSERT_EQ(byteps_open(settings.data(), settings.size(), &session_, nullptr), BYTEPS_OK);
    current_ = this;
    begun_ = nullptr;
  }
  void TearDown() override { byteps_close(session_); }

  static void Keep(const std::shared_ptr<XlaCall>& call) { current_->begun_ = call; }
  static void Throw(const std::shared_ptr<XlaCall>&) { throw std::runtime_error("no memory"); }

  // Makes the handler make a call, and starts an operation for the call.
  void Begin(byteps_op op = BYTEPS_SUM) {
    ASSERT_EQ(AnswerXla(&xla_.frame, &Keep), nullptr);
    EXPECT_EQ(xla_.frame.future, &xla_.future);
    byteps_request request{};
    request.name = "w";
    request.op = op;
    request.dtype = BYTEPS_INT32;
    request.shape = xla_.input_shape.data();
    request.dimensions = 1;
    request.input = xla_.input.data();
    byteps_handle handle = 0;
    ASSERT_EQ(StartFor(begun_, session_, request, &handle, nullptr), BYTEPS_OK);
  }

  static inline XlaCallTest* current_ = nullptr;  // tidy-allow(global): of a plain function
  FakeJob job_;
  byteps_session* session_ = nullptr;
  FakeXla xla_;
  std::shared_ptr<XlaCall> begun_;
};

TEST_F(XlaCallTest, HandlersAnswerWhichVersionTheySpeakAndMakeNoCall) {
  using Handler = xla::Error* (*)(xla::CallFrame*);
  const Handler answer = [](xla::CallFrame* frame) { return AnswerXla(frame, &Throw); };
  const Handler on_device = [](xla::CallFrame* frame) {
    return AnswerXlaOnDevice(frame, [](const XlaDeviceCall&) -> XlaEnd { throw std::exception(); });
  };
  for (const Handler handler : {answer, on_device, Handler{&KeepOperands}}) {
    xla::Metadata metadata{sizeof(metadata), {sizeof(xla::Version), nullptr, 9, 9}, 0};
    xla::MetadataExtension question{{sizeof(question), xla::ExtensionKind::kMetadata, nullptr},
                                    &metadata};
    xla::Extension unknown{sizeof(unknown), static_cast<xla::ExtensionKind>(99), &question.base};
    xla_.frame.extensions = &unknown;
    EXPECT_EQ(handler(&xla_.frame), nullptr);
    EXPECT_EQ(metadata.version.major, 0);
    EXPECT_EQ(metadata.version.minor, 1);
    EXPECT_EQ(xla_.frame.future, nullptr);
  }
}

TEST_F(XlaCallTest, ToKeepOperandsIsToDoNothing) {
  EXPECT_EQ(KeepOperands(&xla_.frame), nullptr);
  EXPECT_EQ(xla_.frame.future, nullptr);
  EXPECT_THAT(xla_.future.ends, IsEmpty());
}

TEST_F(XlaCallTest, ReadsBuffersAndTheTextOfItsName) {
  Begin();
  EXPECT_EQ(begun_->text(), xla_.text);
  ASSERT_EQ(begun_->inputs().size(), 2u);
  const XlaCall::Place in{4, {3}, reinterpret_cast<uintptr_t>(xla_.input.data())};
  const XlaCall::Place gate{8, {}, reinterpret_cast<uintptr_t>(&xla_.gate)};
  const XlaCall::Place out{4, {4}, reinterpret_cast<uintptr_t>(xla_.output.data())};
  EXPECT_THAT(begun_->inputs(), ElementsAre(in, gate));
  EXPECT_THAT(begun_->outputs(), ElementsAre(out));
}

TEST_F(XlaCallTest, ACallWithoutThatTextHasNone) {
  xla_.frame.attributes.size = 2;
  Begin();
  EXPECT_EQ(begun_->text(), "");
}

TEST_F(XlaCallTest, IsOverOnceWhenItsOperationIs) {
  Begin();
  EXPECT_TRUE(begun_->is_accepted());
  EXPECT_THAT(xla_.future.ends, IsEmpty());
  job_.Complete(1);
  EXPECT_THAT(xla_.future.ends, ElementsAre(""));
  EXPECT_TRUE(job_.operations.at(1).released);
}

TEST_F(XlaCallTest, AnErrorHasItsNumberAndXlasKind) {
  Begin();
  job_.Complete(1, BYTEPS_MISMATCH);
  EXPECT_THAT(xla_.future.ends, ElementsAre("byteps error 2: it failed"));
  EXPECT_EQ(xla_.error.code, StatusCode::kFailedPrecondition);
}

TEST_F(XlaCallTest, MayFailBeforeItsOperationStarts) {
  ASSERT_EQ(AnswerXla(&xla_.frame, &Keep), nullptr);
  EXPECT_FALSE(begun_->is_accepted());
  begun_->Fail(BYTEPS_INVALID_ARGUMENT, "what");
  EXPECT_THAT(xla_.future.ends, ElementsAre("byteps error 1: what"));
  EXPECT_EQ(xla_.error.code, StatusCode::kInvalidArgument);
}

TEST_F(XlaCallTest, WhatTheBeginningThrowsIsTheHandlersError) {
  ASSERT_EQ(AnswerXla(&xla_.frame, &Throw), &xla_.error);
  EXPECT_EQ(xla_.error.message, "no memory");
  EXPECT_EQ(xla_.frame.future, nullptr);
  EXPECT_THAT(xla_.future.ends, IsEmpty());
}

TEST_F(XlaCallTest, WithoutAFutureThereIsNoCall) {
  xla_.refuses_futures = true;
  xla_.error.message = "no future";
  EXPECT_EQ(AnswerXla(&xla_.frame, &Keep), &xla_.error);
  EXPECT_EQ(begun_, nullptr);
}

TEST_F(XlaCallTest, ACallOnADeviceIsOverWhenItsOperationsAre) {
  static std::vector<XlaDeviceCall> calls;  // tidy-allow(global): of a plain function
  calls.clear();
  const RunXlaCall run = [](const XlaDeviceCall& call) {
    calls.push_back(call);
    return XlaEnd();
  };
  EXPECT_EQ(AnswerXlaOnDevice(&xla_.frame, run), nullptr);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].text(), xla_.text);
  EXPECT_EQ(calls[0].stream(), reinterpret_cast<uintptr_t>(&xla_.stream));
  EXPECT_EQ(calls[0].inputs().size(), 2u);
  const XlaFrame::Place out{4, {4}, reinterpret_cast<uintptr_t>(xla_.output.data())};
  EXPECT_THAT(calls[0].outputs(), ElementsAre(out));
  EXPECT_EQ(xla_.frame.future, nullptr);  // XLA's streams wait for no future
}

TEST_F(XlaCallTest, AnErrorOnADeviceIsTheHandlersError) {
  const RunXlaCall fails = [](const XlaDeviceCall&) { return XlaEnd{BYTEPS_MISMATCH, "what"}; };
  ASSERT_EQ(AnswerXlaOnDevice(&xla_.frame, fails), &xla_.error);
  EXPECT_EQ(xla_.error.message, "byteps error 2: what");
  EXPECT_EQ(xla_.error.code, StatusCode::kFailedPrecondition);
  const RunXlaCall throws = [](const XlaDeviceCall&) -> XlaEnd {
    throw std::runtime_error("no memory");
  };
  ASSERT_EQ(AnswerXlaOnDevice(&xla_.frame, throws), &xla_.error);
  EXPECT_EQ(xla_.error.message, "no memory");
}

TEST_F(XlaCallTest, WithoutAStreamNothingRuns) {
  xla_.refuses_streams = true;
  xla_.error.message = "no stream";
  const RunXlaCall throws = [](const XlaDeviceCall&) -> XlaEnd { throw std::exception(); };
  EXPECT_EQ(AnswerXlaOnDevice(&xla_.frame, throws), &xla_.error);
  EXPECT_EQ(xla_.error.message, "no stream");
}

TEST_F(XlaCallTest, CopiesTheRowsThatItExpects) {
  Begin(BYTEPS_ALLGATHER);
  begun_->ExpectRows({2, 1});
  job_.operations.at(1).received_splits = {2, 1};
  job_.Complete(1);
  EXPECT_THAT(xla_.future.ends, ElementsAre(""));
  EXPECT_THAT(xla_.output, ElementsAre(1, 2, 3, 0));
}

TEST_F(XlaCallTest, OtherRowsAreAMismatchThatNamesThem) {
  Begin(BYTEPS_ALLGATHER);
  begun_->ExpectRows({2, 2});
  job_.operations.at(1).received_splits = {2, 1};
  job_.Complete(1);
  ASSERT_EQ(xla_.future.ends.size(), 1u);
  EXPECT_THAT(xla_.future.ends[0], HasSubstr("byteps error 2: "));
  EXPECT_THAT(xla_.future.ends[0], HasSubstr("rows are 2 1. Make this call outside jit"));
  EXPECT_THAT(xla_.output, ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace byteps::python
