#include "src/machine/member/member_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "src/machine/launcher_for_test.h"
#include "src/machine/machine_for_test.h"
#include "src/machine/mover_for_test.h"

namespace byteps::machine {
namespace {

namespace to_front = protocol::to_front;
namespace to_lane = protocol::to_lane;
using Kind = device::Launch::Kind;

constexpr uint32_t kLaneBytes = 64;
constexpr RoundKey kLaneRound = {5, 1, 0};

// Rank 1 of a machine of two is the home of the only piece. The test plays the carrier.
class MemberLaneTest : public testing::Test, protected protocol::SpanSource {
 protected:
  MemberLaneTest() {
    auto view = std::make_shared<wire::View>();
    view->epoch = view->generation = view->began = 1;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      wire::WorkerInfo worker;
      worker.rank = worker.local_rank = rank;
      view->workers.push_back(worker);
    }
    lane_.OnMail(to_lane::View{view, 0});
    exchange_.serial = 9;
    exchange_.name = "w";
    exchange_.tensor.id = kLaneRound.tensor;
    exchange_.use = kLaneRound.use;
    exchange_.count = 1;
    exchange_.homes = &homes_;
    exchange_.spans = this;
    exchange_.memory = Memory::kDevice;
    lane_.OnMail(to_lane::Begin{&exchange_});
  }
  protocol::Spans SpansOf(uint32_t) const override {
    protocol::Spans spans;
    spans.piece_bytes = kLaneBytes;
    spans.push = input_;
    spans.want = output_;
    return spans;
  }
  static local::WindowShape Shape() { return {.ranks = 2, .blocks = 2, .block_bytes = kLaneBytes}; }
  void Run() {
    while (lane_.Step(Time()).value()) {
    }
  }
  void Launch(Kind kind) {
    const UnitLaunch word{kLaneRound,          kind, 0, 1, DataType::kFloat32, Combine::kSum,
                          {{1, 0, kLaneBytes}}};
    EXPECT_TRUE(lane_.OnLaunch(word).ok());
  }
  void EndLaunch(const Status& how = Status::Ok()) {
    launcher_.ends.push_back(how);
    Run();
  }
  // Gives the home a block with the answer, which the carrier's rank has released.
  local::AdmittedUse Answer() {
    local::BlockUse use;
    use.ranks = 0b11;
    use.bring = 0b01;
    use.bytes = kLaneBytes;
    use.type = DataType::kUint8;
    use.how = Combine::kOverlay;
    use.tensor = kLaneRound.tensor;
    use.round = kLaneRound.use;
    use.generation = kSpreads | kByGroup;
    const local::AdmittedUse at = window_.of(0).Admit(use).value();
    std::ranges::fill(window_.of(0).Part(at), std::byte{7});
    window_.of(0).Filled(at);
    window_.of(0).Release(at);
    Run();
    return at;
  }
  // Ends the copy of the answer to the device.
  void EndCopy(const Status& how = Status::Ok()) {
    const std::vector<uint32_t> blocks = mover_.UnderWay();
    ASSERT_EQ(blocks.size(), 1u) << "the others gather the answer from here";
    mover_.End(blocks[0], how);
    Run();
  }
  template <typename Mail>
  std::vector<Mail> Told() const {
    std::vector<Mail> all;
    for (const protocol::FrontMail& mail : told_) {
      if (const auto* one = std::get_if<Mail>(&mail)) all.push_back(*one);
    }
    return all;
  }

  const std::vector<ShardId> homes_ = {0};
  mutable std::vector<std::byte> input_ = std::vector<std::byte>(kLaneBytes, std::byte{1});
  mutable std::vector<std::byte> output_ = std::vector<std::byte>(kLaneBytes);
  protocol::Exchange exchange_;
  WindowForTest window_{Shape()};
  MoverForTest mover_{window_.of(1)};
  LaunchesForTest launcher_;
  std::vector<protocol::FrontMail> told_;
  MemberLane lane_{window_.of(1),
                   nullptr,
                   {[](const MemberWords::ToCarrier&) {},
                    [this](protocol::FrontMail mail) { told_.push_back(std::move(mail)); }},
                   &mover_,
                   &launcher_};
};

TEST_F(MemberLaneTest, ARoundEndsWellWhenItsUnitsAreGathered) {
  Launch(Kind::kReduce);
  EndLaunch();
  const local::AdmittedUse at = Answer();
  EndCopy();
  EXPECT_TRUE(window_.of(0).IsOver(at));
  EXPECT_EQ(output_, std::vector<std::byte>(kLaneBytes, std::byte{7}));
  Launch(Kind::kGather);
  lane_.OnEnded({kLaneRound, {}, {}, false}, Time());
  EXPECT_TRUE(Told<to_front::PartDone>().empty()) << "the gather writes into the output";
  EndLaunch();
  ASSERT_EQ(Told<to_front::PartDone>().size(), 1u);
  EXPECT_TRUE(Told<to_front::PartDone>()[0].status.ok());
  EXPECT_TRUE(Told<to_front::GivesUp>().empty());
}

// The groups have ended behind the reduce, and the servers had answered before.
TEST_F(MemberLaneTest, ARoundWithoutItsGatherEndsInAnError) {
  Launch(Kind::kReduce);
  EndLaunch();
  lane_.OnEnded({kLaneRound, {}, {}, false}, Time());
  ASSERT_EQ(Told<to_front::PartDone>().size(), 1u);
  EXPECT_EQ(Told<to_front::PartDone>()[0].status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(Told<to_front::GivesUp>().size(), 1u);
}

TEST_F(MemberLaneTest, AHomeThatTakesNoAnswersCopiesThoseThatOthersGather) {
  Launch(Kind::kReduce);
  EndLaunch();
  lane_.IgnoreAnswers();
  const local::AdmittedUse at = Answer();
  EXPECT_FALSE(window_.of(0).IsOver(at));
  EndCopy();
  EXPECT_TRUE(window_.of(0).IsOver(at));
  EXPECT_EQ(output_, std::vector<std::byte>(kLaneBytes, std::byte{7}));
}

TEST_F(MemberLaneTest, AHomeThatCannotCopyAnAnswerKeepsItsBlock) {
  Launch(Kind::kReduce);
  EndLaunch();
  const local::AdmittedUse at = Answer();
  EndCopy({StatusCode::kUnavailable, "a copy has failed"});
  EXPECT_EQ(Told<to_front::GivesUp>().size(), 1u);
  EXPECT_FALSE(window_.of(0).IsOver(at)) << "the others would gather what is no answer";
  lane_.OnMail(to_lane::Withdraw{&exchange_});
  Run();
  EXPECT_TRUE(window_.of(0).IsOver(at));
  EXPECT_TRUE(lane_.IsDrained());
}

// The carrier says MayLeave when it has closed the rank's rounds, and no launch follows that.
TEST_F(MemberLaneTest, ARankThatLeavesLaunchesWithItsMemoryUntilTheCarrierKnows) {
  lane_.OnLeaves();
  lane_.OnMail(to_lane::Withdraw{&exchange_});
  EXPECT_TRUE(Told<to_front::Released>().empty());
  Launch(Kind::kReduce);
  ASSERT_EQ(launcher_.launches.size(), 1u);
  EXPECT_EQ(launcher_.launches[0].from, input_.data());
  EXPECT_EQ(launcher_.launches[0].to, output_.data());
  lane_.OnMayLeave();
  ASSERT_EQ(Told<to_front::Released>().size(), 1u);
  EXPECT_EQ(Told<to_front::Released>()[0].serial, exchange_.serial);
}

TEST_F(MemberLaneTest, ARankEndsItsGroupWhenAnotherRankHasDoneSo) {
  Run();
  EXPECT_TRUE(launcher_.over.empty());
  window_.of(0).MarkAborted();
  Run();
  ASSERT_EQ(launcher_.over.size(), 1u);
  EXPECT_EQ(launcher_.over[0].message(), "rank 0 has ended the group of GPUs early");
}

}  // namespace
}  // namespace byteps::machine
