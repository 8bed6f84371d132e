#include "src/session/started_operation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace byteps::session {
namespace {

protocol::Outcome EndedWith(StatusCode code) {
  protocol::Outcome outcome;
  if (code != StatusCode::kOk) outcome.status = Status(code, "why");
  outcome.members = 3;
  return outcome;
}

TEST(StartedOperationTest, EndsInOrderOrNot) {
  StartedOperation good(nullptr);
  StartedOperation bad(nullptr);
  EXPECT_EQ(good.progress(), Progress::kRunning);
  EXPECT_EQ(good.outcome(), nullptr);
  EXPECT_EQ(good.Wait(milliseconds(0)).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(good.End(EndedWith(StatusCode::kOk)), nullptr);
  EXPECT_EQ(bad.End(EndedWith(StatusCode::kMismatch)), nullptr);
  EXPECT_EQ(good.progress(), Progress::kDone);
  EXPECT_EQ(bad.progress(), Progress::kFailed);
  EXPECT_EQ(good.outcome()->members, 3u);
  EXPECT_TRUE(good.Wait(milliseconds(-1)).ok());
  EXPECT_EQ(bad.Wait(milliseconds(0)).code(), StatusCode::kMismatch);
}

TEST(StartedOperationTest, ItsMembersAreRanks) {
  protocol::Outcome outcome = EndedWith(StatusCode::kOk);
  EXPECT_EQ(RanksIn(outcome, 5), (std::vector<uint32_t>{5})) << "a job of one has no receipt";
  auto contributors = std::make_shared<SlotSet>();
  auto ranks = std::make_shared<byteps::RankSet>();
  contributors->Insert(2);
  for (uint32_t rank : {2, 3, 4}) ranks->Insert(rank);
  outcome.receipt = contributors;
  outcome.ranks = ranks;
  EXPECT_EQ(RanksIn(outcome, 2), (std::vector<uint32_t>{2, 3, 4}));
  outcome.status = Status(StatusCode::kPeerLost, "why");
  EXPECT_TRUE(RanksIn(outcome, 2).empty());
}

TEST(StartedOperationTest, GivesBackWhatIsToBeCalledOnce) {
  auto completion = std::make_unique<Completion>();
  Completion* made = completion.get();
  StartedOperation started(std::move(completion));
  std::unique_ptr<Completion> due = started.End(EndedWith(StatusCode::kPeerLost));
  EXPECT_EQ(due.get(), made);
  EXPECT_EQ(due->code, StatusCode::kPeerLost);
}

TEST(StartedOperationTest, AllWhoWaitComeBack) {
  StartedOperation started(nullptr);
  auto wait = [&] { return started.Wait(milliseconds(-1)).code(); };
  auto first = std::async(std::launch::async, wait);
  auto second = std::async(std::launch::async, wait);
  started.End(EndedWith(StatusCode::kShutdown));
  EXPECT_EQ(first.get(), StatusCode::kShutdown);
  EXPECT_EQ(second.get(), StatusCode::kShutdown);
}

class NoEngine final : public runtime::Engine {
 public:
  void Submit(protocol::Operation, Done) override {}
  void Declare(const std::string&) override {}
  void SetStuck(const std::string&) override {}
  void SetDeviceWaits(protocol::DeviceWaits) override {}
  Status AddProcessSet(uint32_t, const std::vector<uint32_t>&) override { return Status::Ok(); }
  Status RemoveProcessSet(uint32_t) override { return Status::Ok(); }
  std::vector<uint32_t> Members() override { return {}; }
  plan::SumReport Sums() override { return {}; }
  void GiveUp(const std::string&) override {}
  bool Leave() override { return true; }
};

// Returns whether somebody waits: the time grows then.
bool IsWaitedFor(runtime::WaitMeter& meter) {
  const Time now = std::chrono::steady_clock::now();
  return meter.Waited(now + seconds(2)) > meter.Waited(now + seconds(1));
}

TEST(StartedOperationTest, AThreadAndACompletionWaitUntilTheEnd) {
  NoEngine engine;
  auto meter = std::make_shared<runtime::WaitMeter>();
  auto helpers = std::make_shared<Helpers>(engine, meter);
  {
    StartedOperation started(nullptr, helpers);
    EXPECT_EQ(started.Wait(milliseconds(0)).code(), StatusCode::kDeadlineExceeded);
    EXPECT_FALSE(IsWaitedFor(*meter)) << "a look is no wait";
    auto waiting = std::async(std::launch::async, [&] { return started.Wait(milliseconds(-1)); });
    while (!IsWaitedFor(*meter)) std::this_thread::yield();
    started.End(EndedWith(StatusCode::kOk));
    EXPECT_TRUE(waiting.get().ok());
    EXPECT_FALSE(IsWaitedFor(*meter));
  }
  StartedOperation called(std::make_unique<Completion>(), helpers);
  EXPECT_TRUE(IsWaitedFor(*meter));
  EXPECT_NE(called.End(EndedWith(StatusCode::kOk)), nullptr);
  EXPECT_FALSE(IsWaitedFor(*meter));
  {
    const StartedOperation refused(std::make_unique<Completion>(), helpers);
  }
  EXPECT_FALSE(IsWaitedFor(*meter)) << "the operation was not accepted";
  helpers->End();
}

}  // namespace
}  // namespace byteps::session
