// Tests the engine of one rank, beside a carrier that the test plays.
#include "src/machine/serverless/local_engine.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/count_for_test.h"
#include "src/device/device_lines.h"
#include "src/device/host/host_devices.h"
#include "src/local/local_for_test.h"
#include "src/machine/engine_for_test.h"
#include "src/protocol/never_complete.h"

namespace byteps::machine {
namespace {

LocalEngineOptions EngineOptions() {
  LocalEngineOptions options;
  options.rank = 1;
  options.size = kEngineRanks;
  options.alive_every = options.silence_max = 2 * local::kLong;  // the carrier gives no life sign
  return options;
}

// The process of rank 0, on a thread. Its rank does the same as rank 1.
class PlayedCarrier {
 public:
  // Called when the carrier has answered a word of rank 1, before the answers are sent.
  using Then = std::function<void(const LocalWords::ToCarrier& word, PlayedCarrier& carrier)>;
  PlayedCarrier(local::Meeting meeting, Then then)
      : meeting_(std::move(meeting)),
        then_(std::move(then)),
        room_(meeting_.memory.bytes(), SharedRoom::ShapeFor(kEngineRanks)),
        window_(room_.window(), SharedRoom::ShapeFor(kEngineRanks), kCarrierRank),
        channel_(room_, window_, kEngineRanks,
                 {[this](uint32_t rank, const LocalWords::ToCarrier& word) { OnWord(rank, word); },
                  [](const LocalWords::ToRank&) {}}),
        carrier_(window_,
                 {.ranks = kEngineRanks,
                  .piece_bytes_max = 4096,
                  .small = room_.Small(),
                  .plan = [](const std::vector<HasDevice>&) {}},
                 [this](uint32_t to, const LocalWords::ToRank& word) { channel_.SayTo(to, word); }),
        thread_([this] { Run(); }) {}
  PlayedCarrier(const PlayedCarrier&) = delete;
  PlayedCarrier& operator=(const PlayedCarrier&) = delete;
  ~PlayedCarrier() {
    stopped_.store(true);
    window_.Notify(Bit(kCarrierRank));
    thread_.join();
  }
  void Say(const LocalWords::ToRank& word) { channel_.SayTo(1, word); }
  void Leave() { carrier_.Close(); }
  // Does what a rank does that aborts its group of devices.
  void Abort() { window_.MarkAborted(); }
  // Do what a rank does that sees the end of this process: the second one if this rank had left.
  void IsLost() { window_.MarkLost(kCarrierRank); }
  void IsGone() { window_.MarkGone(kCarrierRank); }
  RankSet aborted() const { return window_.aborted(); }

 private:
  void OnWord(uint32_t rank, const LocalWords::ToCarrier& word) {
    carrier_.OnWord(rank, word, Time());
    if (!std::holds_alternative<Leaves>(word)) carrier_.OnWord(kCarrierRank, word, Time());
    then_(word, *this);
  }
  void Run() {
    while (!stopped_.load()) {
      const uint32_t events = window_.Events();
      bool heard = false;
      EXPECT_TRUE(channel_.Hear([] { return true; }, heard).ok());
      channel_.Flush();
      if (!heard) window_.Sleep(events, local::In(local::kLong));
    }
  }

  local::Meeting meeting_;
  const Then then_;
  const SharedRoom room_;
  local::Window window_;
  WordChannel<LocalWords> channel_;
  LocalCarrier carrier_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

// Rank 0 has its own part of the last round, and leaves at once.
TEST(LocalEngineTest, ARoundThatWasCompleteEndsWellThoughTheCarrierLeavesRightAfterIt) {
  auto met = MeetForTest("engine", SharedRoom::BytesFor(SharedRoom::ShapeFor(kEngineRanks)));
  ASSERT_TRUE(met[0].has_value() && met[1].has_value());
  PlayedCarrier carrier(std::move(*met[0]),
                        [](const LocalWords::ToCarrier& word, PlayedCarrier& one) {
                          if (std::holds_alternative<Begun>(word)) one.Leave();
                        });
  Log log("engine test", "fatal", true);
  LocalEngine engine(EngineOptions(), std::move(*met[1]), log);
  ASSERT_TRUE(engine.Start().ok());
  const std::array<float, 2> input = {3, 4};
  std::array<float, 2> output = {-1, -1};
  protocol::Operation operation;
  operation.name = "the last";
  operation.spec.shape = {2};
  operation.input = reinterpret_cast<const std::byte*>(input.data());
  operation.output = reinterpret_cast<std::byte*>(output.data());
  std::promise<Status> ended;
  engine.Submit(std::move(operation),
                [&ended](const protocol::Outcome& outcome) { ended.set_value(outcome.status); });
  EXPECT_EQ(ended.get_future().get().ToString(), "ok");
  EXPECT_EQ(output, input) << "rank 0 has brought zeros";
  engine.Leave();
}

// Rank 1 with an operation in the memory of its device. `on_met` is called at the carrier when rank
// 1 has met its group.
class GroupOfEngineTest : public testing::Test {
 protected:
  void Start(const std::function<void(PlayedCarrier&)>& on_met) {
    auto met = MeetForTest("engine", SharedRoom::BytesFor(SharedRoom::ShapeFor(kEngineRanks)));
    ASSERT_TRUE(met[0].has_value() && met[1].has_value());
    const auto then = [on_met](const LocalWords::ToCarrier& word, PlayedCarrier& one) {
      if (std::holds_alternative<HasDevice>(word)) {
        one.Say(SumsSo{StuckGroup::kName, std::string(sizeof(device::GroupId), 'g'), 1, 0b11});
      } else if (std::holds_alternative<Met>(word)) {
        on_met(one);
      }
    };
    carrier_.emplace(std::move(*met[0]), then);
    LocalEngineOptions options = EngineOptions();
    options.groups = ToolsOf(group_);
    options.groups.limits.end = group_limit_;
    engine_.emplace(options, std::move(*met[1]), log_);
    ASSERT_TRUE(engine_->Start().ok());
    protocol::Operation operation;
    operation.name = "on a device";
    operation.spec.shape = {2};
    operation.input = operation.output = device_.NewMemory(2 * sizeof(float));
    operation.memory = Memory::kDevice;
    operation.device = {&lines_, 7};
    engine_->Submit(std::move(operation),
                    [this](const protocol::Outcome& outcome) { ended_.set_value(outcome.status); });
  }

  Duration group_limit_ = kForEver;
  const std::shared_ptr<StuckGroup> group_ = std::make_shared<StuckGroup>();
  Log log_{"engine test", "fatal", true};
  device::host::HostDevice device_{1};
  device::DeviceLines lines_{
      {std::shared_ptr<device::Device>(), &device_}, 1, size_t{1} << 20, [](const std::string&) {}};
  std::promise<Status> ended_;
  std::optional<PlayedCarrier> carrier_;
  std::optional<LocalEngine> engine_;
};

// The carrier has left in order, so the engine of rank 1 is over, and its group waits for all ranks
// to leave. Then rank 0 aborts, for example because a third rank was killed, and needs this rank.
TEST_F(GroupOfEngineTest, ARankThatIsOverEndsItsGroupWhenAnotherOneAborts) {
  Start([](PlayedCarrier& one) {
    one.Say(GroupOver());
    one.Leave();
  });
  EXPECT_EQ(ended_.get_future().get(), protocol::ErrorOfLeftRank(kCarrierRank));
  EXPECT_TRUE(group_->leaves.Reaches(1));
  EXPECT_EQ(group_->aborts.now(), 0);
  carrier_->Abort();
  EXPECT_TRUE(group_->aborts.Reaches(1)) << "rank 0 waits for this rank";
  engine_->Leave();
}

// The carrier has left in order, and the session of rank 1 is closed.
class EndOfEngineTest : public GroupOfEngineTest {
 protected:
  void BeginToEnd() {
    Start([](PlayedCarrier& one) {
      one.Say(GroupOver());
      one.Leave();
    });
    EXPECT_EQ(ended_.get_future().get(), protocol::ErrorOfLeftRank(kCarrierRank));
    end_ = std::async(std::launch::async, [this] { engine_.reset(); });
  }
  void ExpectToWait() {
    EXPECT_EQ(end_.wait_for(milliseconds(100)), std::future_status::timeout)
        << "the group waits for all ranks";
    EXPECT_EQ(group_->aborts.now(), 0);
  }
  std::future<void> end_;  // destroyed first
};

TEST_F(EndOfEngineTest, AnEngineThatEndsHeedsAbortsUntilItsGroupHasEnded) {
  BeginToEnd();
  ExpectToWait();
  carrier_->Abort();
  EXPECT_TRUE(group_->aborts.Reaches(1)) << "rank 0 waits for this rank";
}

TEST_F(EndOfEngineTest, AnEngineThatEndsHeedsLossesUntilItsGroupHasEnded) {
  BeginToEnd();
  ExpectToWait();
  carrier_->IsLost();
  EXPECT_TRUE(group_->aborts.Reaches(1)) << "no rank can leave any more";
}

TEST_F(EndOfEngineTest, AnEngineThatEndsHeedsThatARankOfItsGroupIsGone) {
  BeginToEnd();
  ExpectToWait();
  carrier_->IsGone();
  EXPECT_TRUE(group_->aborts.Reaches(1)) << "rank 0 had left in order before its process has ended";
}

TEST_F(EndOfEngineTest, AnEngineWhoseGroupDoesNotEndTellsTheOthersThatItAborts) {
  group_limit_ = milliseconds(60);
  BeginToEnd();
  end_.get();
  EXPECT_EQ(group_->aborts.now(), 1);
  EXPECT_EQ(carrier_->aborted(), 0b10u);
}

TEST_F(GroupOfEngineTest, ARankThatEndsAtOnceTellsTheOthersThatItAborts) {
  const Status why(StatusCode::kPeerLost, "worker 2 was lost");
  Start([why](PlayedCarrier& one) { one.Say(JobOver{why}); });
  EXPECT_EQ(ended_.get_future().get(), why);
  EXPECT_TRUE(group_->aborts.Reaches(1));
  EXPECT_EQ(carrier_->aborted(), 0b10u);
  engine_->Leave();
}

}  // namespace
}  // namespace byteps::machine
