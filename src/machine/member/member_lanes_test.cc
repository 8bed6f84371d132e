// Tests how the threads of a rank end in a job with servers, beside a carrier that the test plays.
#include "src/machine/member/member_lanes.h"

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

#include "src/device/device_lines.h"
#include "src/device/host/host_devices.h"
#include "src/local/local_for_test.h"
#include "src/machine/engine_for_test.h"
#include "src/transport/inproc/inproc_transport.h"

namespace byteps::machine {
namespace {

namespace to_lane = protocol::to_lane;

// The process of rank 0, on a thread: the group of rank 1 meets, and ends when rank 1 leaves.
class PlayedMember {
 public:
  explicit PlayedMember(local::Meeting meeting)
      : meeting_(std::move(meeting)),
        room_(meeting_.memory.bytes(), MemberLanes::ShapeFor(kEngineRanks)),
        window_(room_.window(), MemberLanes::ShapeFor(kEngineRanks), kCarrierRank),
        channel_(room_, window_, kEngineRanks,
                 {[this](uint32_t, const MemberWords::ToCarrier& word) { OnWord(word); },
                  [](const MemberWords::ToRank&) {}}),
        thread_([this] { Run(); }) {}
  PlayedMember(const PlayedMember&) = delete;
  PlayedMember& operator=(const PlayedMember&) = delete;
  ~PlayedMember() {
    stopped_.store(true);
    window_.Notify(Bit(kCarrierRank));
    thread_.join();
  }
  void Abort() { window_.MarkAborted(); }
  void IsLost() { window_.MarkLost(kCarrierRank); }
  void IsGone() { window_.MarkGone(kCarrierRank); }
  RankSet aborted() const { return window_.aborted(); }
  RankSet left() const { return window_.left(); }
  Count met;

 private:
  void OnWord(const MemberWords::ToCarrier& word) {
    if (std::holds_alternative<HasDevice>(word)) {
      channel_.SayTo(1, SumsSo{StuckGroup::kName, std::string(sizeof(device::GroupId), 'g'), 1,
                               FirstRanks(kEngineRanks)});
    } else if (std::holds_alternative<Met>(word)) {
      met.Add();
    } else if (std::holds_alternative<Leaves>(word)) {
      channel_.SayTo(1, GroupOver());
      channel_.SayTo(1, MayLeave());
    }
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
  const SharedRoom room_;
  local::Window window_;
  WordChannel<MemberWords> channel_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

// Rank 1 leaves its job, and its group does not end.
class EndOfMemberTest : public testing::Test, protected protocol::SpanSource {
 protected:
  void BeginToEnd() {
    const local::WindowShape shape = MemberLanes::ShapeFor(kEngineRanks);
    auto met = MeetForTest("member", SharedRoom::BytesFor(shape));
    ASSERT_TRUE(met[0].has_value() && met[1].has_value());
    carrier_.emplace(std::move(*met[0]));
    MachineOptions options;
    options.local_rank = 1;
    options.groups = ToolsOf(group_);
    options.groups.limits.end = group_limit_;
    auto memory = std::make_shared<const local::SharedMemory>(std::move(met[1]->memory));
    lanes_.emplace(runtime::WorkerLanesParts{*transport_, *loop_, worker_, links_, identity_, log_,
                                             Events(), nullptr},
                   options, std::move(*met[1]), std::move(memory));
    lanes_->Start();
    BeginOnDevice();
    EXPECT_TRUE(carrier_->met.Reaches(1));
    lanes_->Close({StatusCode::kShutdown, "this worker has left"});
    end_ = std::async(std::launch::async, [this] { lanes_.reset(); });
  }
  void BeginOnDevice() {
    auto view = std::make_shared<wire::View>();
    view->epoch = view->generation = view->began = 1;
    for (uint32_t rank = 0; rank < kEngineRanks; ++rank) {
      wire::WorkerInfo worker;
      worker.slot = worker.rank = worker.local_rank = rank;
      view->workers.push_back(worker);
    }
    lanes_->Send(0, to_lane::View{view, 1});
    exchange_.serial = 9;
    exchange_.name = "w";
    exchange_.tensor.id = 5;
    exchange_.use = 1;
    exchange_.count = 1;
    exchange_.homes = &homes_;
    exchange_.spans = this;
    exchange_.memory = Memory::kDevice;
    exchange_.device = {&lines_, 7};
    lanes_->Send(0, to_lane::Begin{&exchange_});
  }
  protocol::Spans SpansOf(uint32_t) const override {
    protocol::Spans spans;
    spans.piece_bytes = static_cast<uint32_t>(memory_.size());
    spans.push = memory_;
    spans.want = memory_;
    return spans;
  }
  static runtime::WorkerLanes::Events Events() {
    return {[](protocol::FrontMail) {},
            [] {},
            [] {},
            [](const wire::Suspect&) {},
            [](const std::string&) {},
            [](const Status&) {}};
  }
  void ExpectToWait() {
    EXPECT_EQ(end_.wait_for(milliseconds(100)), std::future_status::timeout)
        << "the group waits for all ranks";
    EXPECT_EQ(carrier_->left(), 0b10u);
    EXPECT_EQ(group_->aborts.now(), 0);
  }

  Duration group_limit_ = kForEver;
  const std::shared_ptr<StuckGroup> group_ = std::make_shared<StuckGroup>();
  const std::unique_ptr<transport::Transport> transport_ = transport::MakeInprocTransport();
  const std::unique_ptr<transport::Loop> loop_ = transport_->MakeLoop();  // nobody runs it
  const protocol::WorkerOptions worker_;
  const runtime::ShardLinkOptions links_;
  const runtime::JobIdentity identity_;
  Log log_{"member test", "fatal", true};
  device::host::HostDevice device_{1};
  const ByteSpan memory_{device_.NewMemory(64), 64};
  device::DeviceLines lines_{
      {std::shared_ptr<device::Device>(), &device_}, 1, size_t{1} << 20, [](const std::string&) {}};
  const std::vector<ShardId> homes_ = {0};
  protocol::Exchange exchange_;
  std::optional<PlayedMember> carrier_;
  std::optional<MemberLanes> lanes_;
  std::future<void> end_;  // destroyed first
};

TEST_F(EndOfMemberTest, ARankThatHasLeftHeedsAbortsUntilItsGroupHasEnded) {
  BeginToEnd();
  ExpectToWait();
  carrier_->Abort();
  EXPECT_TRUE(group_->aborts.Reaches(1)) << "rank 0 waits for this rank";
}

TEST_F(EndOfMemberTest, ARankThatHasLeftHeedsLossesUntilItsGroupHasEnded) {
  BeginToEnd();
  ExpectToWait();
  carrier_->IsLost();
  EXPECT_TRUE(group_->aborts.Reaches(1)) << "no rank can leave any more";
}

TEST_F(EndOfMemberTest, ARankThatHasLeftHeedsThatARankOfItsGroupIsGone) {
  BeginToEnd();
  ExpectToWait();
  carrier_->IsGone();
  EXPECT_TRUE(group_->aborts.Reaches(1)) << "rank 0 had left in order before its process has ended";
}

TEST_F(EndOfMemberTest, ARankWhoseGroupDoesNotEndTellsTheOthersThatItAborts) {
  group_limit_ = milliseconds(60);
  BeginToEnd();
  end_.get();
  EXPECT_EQ(group_->aborts.now(), 1);
  EXPECT_EQ(carrier_->aborted(), 0b10u);
}

}  // namespace
}  // namespace byteps::machine
