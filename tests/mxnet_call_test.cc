#include "python/bindings/mxnet_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/fake_byteps.h"

namespace byteps::python {
namespace {

using ::testing::ElementsAre;
using testing::FakeJob;
using ::testing::HasSubstr;

// The calls that the code has made to MXNet. MXNet's functions are plain, so the world is one
// object.
struct FakeMxnet {
  std::vector<std::string> ends;  // "" is success
  int freed_arrays = 0;
  int freed_tensors = 0;
  bool is_plain = true;
  std::array<float, 4> memory{};

  static FakeMxnet& Now() {
    static FakeMxnet now;  // tidy-allow(global): MXNet's functions take no context
    return now;
  }

  static int FreeArray(mxnet::ArrayHandle) {
    ++Now().freed_arrays;
    return 0;
  }
  static int ToDlpack(mxnet::ArrayHandle, mxnet::ManagedTensor** tensor) {
    if (!Now().is_plain) return -1;
    auto made = std::make_unique<mxnet::ManagedTensor>();
    made->tensor.data = Now().memory.data();
    made->tensor.byte_offset = sizeof(float);
    made->deleter = [](mxnet::ManagedTensor* own) {
      const std::unique_ptr<mxnet::ManagedTensor> owned(own);
      ++Now().freed_tensors;
    };
    *tensor = made.release();
    return 0;
  }
  static void OnComplete(void* engine, void* operation, const std::runtime_error* error) {
    EXPECT_EQ(engine, &Now());
    EXPECT_EQ(operation, Now().memory.data());
    Now().ends.emplace_back(error == nullptr ? "" : error->what());
  }
};

class MxnetCallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FakeMxnet::Now() = FakeMxnet();
    job_.complete_at_once = false;
    const std::string setting = job_.Setting();
    const std::array<const char*, 1> settings{setting.c_str()};
    ASSERT_EQ(byteps_open(settings.data(), settings.size(), &session_, nullptr), BYTEPS_OK);
  }
  void TearDown() override { byteps_close(session_); }

  // Returns what the engine gets: the engine calls Run with it, or not, and then Delete.
  std::shared_ptr<MxnetCall>* Make(std::shared_ptr<Outcome> gate = nullptr) {
    mxnet::Functions functions{};
    functions.free_array = &FakeMxnet::FreeArray;
    functions.to_dlpack = &FakeMxnet::ToDlpack;
    Submission submission{.name = "w", .operation = BYTEPS_SUM, .shape = {3}, .priority = -2};
    auto call = std::make_unique<std::shared_ptr<MxnetCall>>(std::make_shared<MxnetCall>(
        functions, session_, std::move(submission), &array_, std::move(gate), outstanding_));
    outcome_ = (*call)->outcome();
    return call.release();
  }
  void Run(std::shared_ptr<MxnetCall>* call) {
    std::optional<mxnet::OnComplete> on_complete{
        {&FakeMxnet::OnComplete, &FakeMxnet::Now(), FakeMxnet::Now().memory.data()}};
    MxnetCall::Run(nullptr, &*on_complete, call);
    on_complete->callback = nullptr;  // MXNet's object is a temporary
    MxnetCall::Delete(call);
  }
  int64_t Left() { return outstanding_->WaitForFewer(std::chrono::milliseconds(0)); }

  FakeJob job_;
  byteps_session* session_ = nullptr;
  int array_ = 0;
  std::shared_ptr<Outcome> outcome_;
  const std::shared_ptr<Outstanding> outstanding_ = std::make_shared<Outstanding>();
};

TEST_F(MxnetCallTest, ExchangesTheMemoryOfTheArrayInPlace) {
  Run(Make());
  ASSERT_EQ(job_.operations.size(), 1u);
  const testing::FakeOperation& operation = job_.operations.begin()->second;
  EXPECT_EQ(operation.name, "w");
  EXPECT_EQ(operation.priority, -2);
  EXPECT_THAT(operation.shape, ElementsAre(3));
  EXPECT_EQ(operation.input, FakeMxnet::Now().memory.data() + 1);
  EXPECT_EQ(operation.output, operation.input);
}

TEST_F(MxnetCallTest, EndsOnceWhenTheExchangeHasEndedAndThenLetsGo) {
  Run(Make());
  EXPECT_THAT(FakeMxnet::Now().ends, ElementsAre());
  EXPECT_EQ(FakeMxnet::Now().freed_arrays, 0);
  EXPECT_EQ(Left(), 1);
  job_.Complete(1);
  EXPECT_THAT(FakeMxnet::Now().ends, ElementsAre(""));
  EXPECT_EQ(FakeMxnet::Now().freed_arrays, 1);
  EXPECT_EQ(FakeMxnet::Now().freed_tensors, 1);
  EXPECT_EQ(Left(), 0);
  EXPECT_TRUE(job_.operations.at(1).released);
  EXPECT_FALSE(outcome_->has_failed);
}

TEST_F(MxnetCallTest, AnErrorHasItsCodeAndText) {
  Run(Make());
  job_.Complete(1, BYTEPS_MISMATCH);
  EXPECT_THAT(FakeMxnet::Now().ends, ElementsAre("byteps.error2: it failed"));
  EXPECT_TRUE(outcome_->has_failed);
  EXPECT_EQ(FakeMxnet::Now().freed_tensors, 1);
}

TEST_F(MxnetCallTest, ARefusedStartEndsIt) {
  job_.refuse_with = BYTEPS_DUPLICATE_NAME;
  Run(Make());
  EXPECT_THAT(FakeMxnet::Now().ends, ElementsAre("byteps.error3: not started"));
  EXPECT_EQ(Left(), 0);
}

TEST_F(MxnetCallTest, AnArrayThatIsNotPlainIsAnErrorAndNotAWait) {
  FakeMxnet::Now().is_plain = false;
  Run(Make());
  ASSERT_EQ(FakeMxnet::Now().ends.size(), 1u);
  EXPECT_THAT(FakeMxnet::Now().ends[0], HasSubstr("byteps.error1: tensor 'w'"));
  EXPECT_TRUE(job_.operations.empty());
  EXPECT_EQ(FakeMxnet::Now().freed_tensors, 0);
}

TEST_F(MxnetCallTest, StartsNothingBehindAGateThatHasFailed) {
  auto gate = std::make_shared<Outcome>();
  Run(Make(gate));
  EXPECT_EQ(job_.operations.size(), 1u);
  gate->has_failed = true;
  Run(Make(gate));
  EXPECT_EQ(job_.operations.size(), 1u);
  EXPECT_TRUE(outcome_->has_failed);  // so that a third call fails, too
  EXPECT_THAT(FakeMxnet::Now().ends, ElementsAre(""));
}

TEST_F(MxnetCallTest, OneThatTheEngineSkipsIsNoLongerOutstanding) {
  MxnetCall::Delete(Make());
  EXPECT_EQ(FakeMxnet::Now().freed_arrays, 1);
  EXPECT_EQ(Left(), 0);
  EXPECT_TRUE(job_.operations.empty());
}

TEST_F(MxnetCallTest, AShutdownEndsIt) {
  Run(Make());
  byteps_shutdown(session_, nullptr);
  EXPECT_THAT(FakeMxnet::Now().ends, ElementsAre("byteps.error7: it failed"));
}

}  // namespace
}  // namespace byteps::python
