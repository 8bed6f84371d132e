#include "src/machine/serverless/local_lane.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <variant>
#include <vector>

#include "src/machine/launcher_for_test.h"
#include "src/machine/machine_for_test.h"
#include "src/machine/mover_for_test.h"
#include "src/machine/serverless/block_queue.h"

namespace byteps::machine {
namespace {

constexpr uint32_t kPieceBytes = 64;
constexpr RoundKey kKey = {7, 1, 0};

// One exchange of a rank: floats that are all alike, and their sum.
struct Exchanged final : protocol::SpanSource {
  Exchanged(uint64_t serial, uint32_t pieces, float value)
      : input(pieces * kPieceBytes / sizeof(float), value), output(input.size()) {
    exchange.serial = serial;
    exchange.name = "w";
    exchange.tensor.id = kKey.tensor;
    exchange.use = kKey.use;
    exchange.count = pieces;
    exchange.spans = this;
  }
  protocol::Spans SpansOf(uint32_t number) const override {
    protocol::Spans spans;
    spans.piece_bytes = kPieceBytes;
    spans.push = std::as_bytes(std::span(input)).subspan(number * kPieceBytes, kPieceBytes);
    auto all = std::as_writable_bytes(std::span(output));
    spans.want = all.subspan(number * kPieceBytes, kPieceBytes);
    return spans;
  }
  std::vector<float> input;
  mutable std::vector<float> output;
  protocol::Exchange exchange;
};

class LocalLaneTest : public testing::Test {
 protected:
  struct Rank {
    std::vector<LocalWords::ToCarrier> said;
    std::vector<protocol::FrontMail> told;
    std::unique_ptr<MoverForTest> mover;
    std::unique_ptr<LocalLane> lane;
  };

  LocalLaneTest() {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ranks.push_back(std::make_unique<Rank>());
      Rank& one = *ranks.back();
      one.mover = std::make_unique<MoverForTest>(window.of(rank));
      one.lane = std::make_unique<LocalLane>(
          window.of(rank), 2, SmallMemory(),
          LocalLane::Events{
              [&one](const LocalWords::ToCarrier& word) { one.said.push_back(word); },
              [&one](protocol::FrontMail mail) { one.told.push_back(std::move(mail)); }},
          one.mover.get());
    }
  }
  LocalLane& lane(uint32_t rank) { return *ranks[rank]->lane; }
  void Begin(uint32_t rank, const Exchanged& what) {
    lane(rank).OnMail(protocol::to_lane::Begin{&what.exchange});
  }
  // Exchanges a tensor that rank 1 has in the memory of a device.
  void RunUntilRank1Copies(Exchanged& first, Exchanged& second) {
    second.exchange.memory = Memory::kDevice;
    Begin(0, first);
    Begin(1, second);
    Complete();
    RunAll();
  }
  // Completes the round: the carrier has heard both ranks.
  void Complete() {
    const auto& begun = std::get<Begun>(ranks[0]->said.front());
    queue.Add(begun.key, {begun.facts, 0b11, 1, {}});
  }
  // Does all that can be done, with the lanes of these ranks.
  void RunAll(RankSet running = 0b11) {
    bool did = true;
    while (did) {
      did = queue.Admit();
      for (uint32_t rank = 0; rank < 2; ++rank) {
        if ((running >> rank & 1) == 0) continue;
        Result<bool> stepped = lane(rank).Step(Time());
        ASSERT_TRUE(stepped.ok()) << stepped.status().ToString();
        did = stepped.value() || did;
      }
    }
  }
  template <typename Mail>
  const Mail* Told(uint32_t rank) {
    const auto& told = ranks[rank]->told;
    return told.empty() ? nullptr : std::get_if<Mail>(&told.back());
  }

  WindowForTest window{{.ranks = 2, .blocks = 3, .block_bytes = 4096}};
  BlockQueue queue{window.of(0)};
  std::vector<std::unique_ptr<Rank>> ranks;
};

TEST_F(LocalLaneTest, SaysWhatItHasBegun) {
  Exchanged mine(1, 5, 1);
  mine.exchange.priority = -3;
  lane(1).OnMail(protocol::to_lane::AddProcessSet{4,
                                                  [] {
                                                    SlotSet slots;
                                                    slots.Insert(1);
                                                    return slots;
                                                  }(),
                                                  {}});
  mine.exchange.tensor.process_set = 4;
  Begin(1, mine);
  const auto& begun = std::get<Begun>(ranks[1]->said.front());
  EXPECT_EQ(begun.key, kKey);
  EXPECT_EQ(begun.facts.ranks, 0b10u);
  EXPECT_EQ(begun.facts.priority, -3);
  EXPECT_EQ(begun.facts.pieces, (std::vector<LocalFacts::Run>{{5, kPieceBytes}}));
}

TEST_F(LocalLaneTest, AllPiecesOfAllRanksAreSummed) {
  Exchanged first(1, 9, 1);
  Exchanged second(2, 9, 2);
  Begin(0, first);
  Begin(1, second);
  Complete();
  RunAll();
  for (const Exchanged* one : {&first, &second}) {
    EXPECT_EQ(one->output, std::vector<float>(one->output.size(), 3));
  }
  const auto* done = Told<protocol::to_front::PartDone>(1);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->serial, 2u);
  EXPECT_EQ(done->pieces, 9u);
  EXPECT_TRUE(done->status.ok());
  EXPECT_EQ(done->receipt->count(), 2u);
  EXPECT_TRUE(lane(0).IsDrained());
  EXPECT_FALSE(lane(0).HasWhole());
}

// The event of the decision has passed when the rank takes the use up.
TEST_F(LocalLaneTest, WhatWasDecidedBeforeIsReadAtOnce) {
  Exchanged root(1, 1, 5);
  Exchanged other(2, 1, 0);
  for (Exchanged* one : {&root, &other}) {
    one->exchange.tensor.combine = Combine::kOverlay;
    one->exchange.root = 0;
  }
  Begin(0, root);
  Begin(1, other);
  Complete();
  RunAll(0b01);
  RunAll(0b10);
  ASSERT_NE(Told<protocol::to_front::PartDone>(1), nullptr);
  EXPECT_EQ(other.output, std::vector<float>(other.output.size(), 5));
}

TEST_F(LocalLaneTest, AnErrorOfTheCarrierEndsItAndTheBlocksGoOn) {
  Exchanged first(1, 9, 1);
  Exchanged second(2, 9, 2);
  Begin(0, first);
  Begin(1, second);
  Complete();
  RunAll(0b01);  // rank 1 has not come to it
  ASSERT_TRUE(queue.BreakOff(kKey));
  Status why(StatusCode::kDeadlineExceeded, "too late");
  for (uint32_t rank : {0, 1}) {
    lane(rank).OnFailed({kKey, why}, Time());
    const auto* done = Told<protocol::to_front::PartDone>(rank);
    ASSERT_NE(done, nullptr);
    EXPECT_EQ(done->status, why);
  }
  first.input.clear();  // nobody reads it any more
  first.output.clear();
  RunAll();
  EXPECT_TRUE(lane(0).IsDrained());
  EXPECT_TRUE(lane(1).IsDrained());
  EXPECT_TRUE(queue.IsIdle());
}

TEST_F(LocalLaneTest, WhatIsWithdrawnIsLetGoOfAtOnce) {
  Exchanged first(1, 1, 1);
  Begin(0, first);
  lane(0).OnMail(protocol::to_lane::Withdraw{&first.exchange});
  const auto* released = Told<protocol::to_front::Released>(0);
  ASSERT_NE(released, nullptr);
  EXPECT_EQ(released->serial, 1u);
  lane(0).OnFailed({kKey, Status(StatusCode::kPeerLost, "late")}, Time());
  EXPECT_EQ(ranks[0]->told.size(), 1u) << "it has ended";
}

TEST_F(LocalLaneTest, AWithdrawnPartLeavesTheOthersWithoutAResult) {
  Exchanged first(1, 1, 1);
  Exchanged second(2, 1, 2);
  Begin(0, first);
  Begin(1, second);
  Complete();
  queue.Admit();
  lane(1).OnMail(protocol::to_lane::Withdraw{&second.exchange});
  RunAll();
  EXPECT_TRUE(ranks[0]->told.empty()) << "the carrier says why";
  Status why(StatusCode::kMismatch, "other names");
  lane(0).OnFailed({kKey, why}, Time());
  EXPECT_EQ(Told<protocol::to_front::PartDone>(0)->status, why);
}

TEST_F(LocalLaneTest, WhatHasAllItsBlocksIsWhole) {
  Exchanged first(1, 1, 1);
  Begin(0, first);
  EXPECT_FALSE(lane(0).HasWhole());
  Complete();
  RunAll(0b01);
  EXPECT_TRUE(lane(0).HasWhole());
  EXPECT_FALSE(lane(0).IsDrained());
}

TEST_F(LocalLaneTest, TellsTheCarrierOfJoinsAndAborts) {
  Exchanged first(1, 1, 1);
  Begin(0, first);
  lane(0).OnMail(protocol::to_lane::Abort{7, 1, {StatusCode::kDeadlineExceeded, "late"}});
  EXPECT_EQ(std::get<Abort>(ranks[0]->said.back()).why.message(), "late");
  lane(0).OnMail(protocol::to_lane::Joined{3, {}});
  EXPECT_TRUE(std::holds_alternative<Joined>(ranks[0]->said.back()));
  size_t before = ranks[0]->said.size();
  lane(0).OnMail(protocol::to_lane::Joined());
  EXPECT_EQ(ranks[0]->said.size(), before);
}

// All pieces have their blocks when the copy fails, and the carrier still ends the round.
TEST_F(LocalLaneTest, ACopyThatFailsAfterAllBlocksWereGivenEndsTheRound) {
  Exchanged first(1, 2, 1);
  Exchanged second(2, 2, 2);
  RunUntilRank1Copies(first, second);
  const std::vector<uint32_t> blocks = ranks[1]->mover->UnderWay();
  ASSERT_EQ(blocks.size(), 2u);
  for (uint32_t block : blocks) {
    ranks[1]->mover->End(block, {StatusCode::kUnavailable, "a copy on cuda:1: BROKEN"});
  }
  RunAll();
  ASSERT_EQ(ranks[1]->said.size(), 2u) << "one word for all pieces";
  const auto& abort = std::get<Abort>(ranks[1]->said.back());
  EXPECT_EQ(abort.key, kKey);
  EXPECT_EQ(abort.why.message(), "rank 1 has no input for tensor 'w': a copy on cuda:1: BROKEN");
  EXPECT_TRUE(queue.BreakOff(kKey));
  for (uint32_t rank : {0, 1}) lane(rank).OnFailed({kKey, abort.why}, Time());
  RunAll();
  EXPECT_TRUE(lane(0).IsDrained() && lane(1).IsDrained() && queue.IsIdle());
}

TEST_F(LocalLaneTest, WhoCannotCopyAResultGivesUpAndTheOthersHaveIt) {
  Exchanged first(1, 2, 1);
  Exchanged second(2, 2, 2);
  RunUntilRank1Copies(first, second);
  MoverForTest& mover = *ranks[1]->mover;
  for (uint32_t block : mover.UnderWay()) mover.End(block);
  RunAll();
  EXPECT_EQ(first.output, std::vector<float>(first.output.size(), 3));
  const std::vector<uint32_t> blocks = mover.UnderWay();
  ASSERT_EQ(blocks.size(), 2u);
  mover.End(blocks[0], {StatusCode::kUnavailable, "a copy on cuda:1: BROKEN"});
  RunAll();
  const auto* gives_up = Told<protocol::to_front::GivesUp>(1);
  ASSERT_NE(gives_up, nullptr);
  EXPECT_EQ(gives_up->why.message(), "tensor 'w': a copy on cuda:1: BROKEN");
  const Status why = gives_up->why;
  mover.End(blocks[1]);
  RunAll();
  EXPECT_EQ(Told<protocol::to_front::PartDone>(1)->status, why);
  EXPECT_TRUE(Told<protocol::to_front::PartDone>(0)->status.ok());
}

TEST_F(LocalLaneTest, WhatIsSmallGoesThroughAPlaceOfTheRank) {
  std::vector<std::byte> memory(SmallMemory::BytesFor(2));
  SmallMemory small(memory, 2, 1);
  std::vector<RoundKey> ended;
  Rank one;
  one.lane = std::make_unique<LocalLane>(
      window.of(1), 2, small,
      LocalLane::Events{[&one](const LocalWords::ToCarrier& word) { one.said.push_back(word); },
                        [&one](protocol::FrontMail mail) { one.told.push_back(std::move(mail)); },
                        [&ended](const RoundKey& key, bool) { ended.push_back(key); }});
  Exchanged mine(1, 1, 5);
  Exchanged next(2, 1, 6);
  next.exchange.use = 2;
  one.lane->OnMail(protocol::to_lane::Begin{&mine.exchange});
  EXPECT_EQ(std::get<Begun>(one.said[0]).part, (SmallPart{0, 0, kPieceBytes}));
  EXPECT_EQ(std::memcmp(small.At(1, 0), mine.input.data(), kPieceBytes), 0);
  one.lane->OnMail(protocol::to_lane::Begin{&next.exchange});
  EXPECT_EQ(std::get<Begun>(one.said[1]).part, SmallPart()) << "no place is left";
  EXPECT_EQ(one.lane->OnCombined({{7, 2, 0}, 0b11}, Time()).code(), StatusCode::kProtocol);
  const std::vector<float> sum(kPieceBytes / sizeof(float), 11);
  std::memcpy(small.At(1, 0), sum.data(), kPieceBytes);
  EXPECT_TRUE(one.lane->OnCombined({kKey, 0b11}, Time()).ok());
  EXPECT_EQ(mine.output, sum);
  const auto& done = std::get<protocol::to_front::PartDone>(one.told.back());
  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.receipt->List(), (std::vector<Slot>{0, 1}));
  EXPECT_EQ(ended, std::vector<RoundKey>{kKey});
  EXPECT_TRUE(one.lane->OnCombined({kKey, 0b11}, Time()).ok()) << "it has ended";
  Exchanged last(3, 1, 7);
  last.exchange.use = 3;
  one.lane->OnMail(protocol::to_lane::Begin{&last.exchange});
  EXPECT_EQ(std::get<Begun>(one.said.back()).part.place, 0u) << "it is free again";
}

// Two ranks in one group, or each in a group of its own. The test plays the carrier and ends the
// launches.
class GroupsOfLocalLaneTest : public LocalLaneTest {
 protected:
  GroupsOfLocalLaneTest() {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      launchers.push_back(std::make_unique<LaunchesForTest>());
      Rank& one = *ranks[rank];
      LocalLane::Events events{
          [&one](const LocalWords::ToCarrier& word) { one.said.push_back(word); },
          [&one](protocol::FrontMail mail) { one.told.push_back(std::move(mail)); }};
      if (rank == 0) events.launch_ended = [this] { queue.OnLaunchEnd(); };
      one.lane = std::make_unique<LocalLane>(window.of(rank), 2, SmallMemory(), std::move(events),
                                             one.mover.get(), launchers.back().get());
    }
  }
  void BeginOnDevices(std::vector<plan::DeviceGroup> groups) {
    queue.SetGroups(std::move(groups), {});
    for (uint32_t rank : {0, 1}) {
      exchanged[rank].exchange.memory = Memory::kDevice;
      Begin(rank, exchanged[rank]);
    }
    const auto& begun = std::get<Begun>(ranks[0]->said.front());
    EXPECT_TRUE(begun.on_device);
    queue.Add(begun.key, {begun.facts, 0b11, 1, {}, 0b11}, true);
    Launch();
  }
  void Launch() {
    for (const auto& [to, launch] : queue.TakeLaunches()) {
      for (uint32_t rank : {0, 1}) {
        EXPECT_TRUE(!Has(to, rank) || lane(rank).OnLaunch(launch).ok());
      }
    }
  }
  void EndLaunch(uint32_t rank, const Status& how = Status::Ok()) {
    launchers[rank]->ends.push_back(how);
    RunAll();
  }
  bool HasEnded(uint32_t rank) {
    const auto* done = Told<protocol::to_front::PartDone>(rank);
    return done != nullptr && done->status.ok();
  }
  static Status Broken() { return {StatusCode::kUnavailable, "NCCL has failed"}; }

  std::vector<std::unique_ptr<LaunchesForTest>> launchers;
  Exchanged exchanged[2] = {{1, 3, 1}, {2, 3, 2}};
};

TEST_F(GroupsOfLocalLaneTest, NoRankEndsBeforeAllHaveTheSum) {
  BeginOnDevices({{{0, 1}, {}}});
  const device::Launch& launch = launchers[1]->launches.at(0);
  EXPECT_EQ(launch.kind, device::Launch::Kind::kReduceAll);
  EXPECT_EQ(launch.bytes, 3 * kPieceBytes);
  EXPECT_EQ(launch.from, reinterpret_cast<const std::byte*>(exchanged[1].input.data()));
  EXPECT_EQ(launch.to, reinterpret_cast<const std::byte*>(exchanged[1].output.data()));
  EndLaunch(0);
  EXPECT_FALSE(HasEnded(0)) << "rank 1 has no sum yet";
  EXPECT_TRUE(lane(0).HasWhole()) << "the last block is there";
  EXPECT_FALSE(lane(1).IsDrained());
  EndLaunch(1);
  EXPECT_TRUE(HasEnded(0) && HasEnded(1));
  EXPECT_EQ(Told<protocol::to_front::PartDone>(0)->receipt->count(), 2u);
  EXPECT_TRUE(lane(0).IsDrained() && lane(1).IsDrained() && queue.IsIdle());
  EXPECT_TRUE(ranks[0]->mover->UnderWay().empty()) << "nothing goes through the window";
}

// The error of one rank is that of all, although the other one has the sum.
TEST_F(GroupsOfLocalLaneTest, ARankWhoseLaunchHasFailedTellsTheCarrier) {
  BeginOnDevices({{{0, 1}, {}}});
  EndLaunch(0);
  EndLaunch(1, Broken());
  EXPECT_FALSE(HasEnded(0) || HasEnded(1));
  const auto& abort = std::get<Abort>(ranks[1]->said.back());
  EXPECT_EQ(abort.why.message(), "tensor 'w': NCCL has failed");
  EXPECT_TRUE(queue.BreakOff(kKey));
  for (uint32_t rank : {0, 1}) {
    lane(rank).OnFailed({kKey, abort.why}, Time());
    EXPECT_EQ(Told<protocol::to_front::PartDone>(rank)->status, abort.why);
  }
  RunAll();
  EXPECT_TRUE(lane(0).IsDrained() && lane(1).IsDrained() && queue.IsIdle());
}

TEST_F(GroupsOfLocalLaneTest, AnErrorWaitsForTheLastLaunch) {
  BeginOnDevices({{{0, 1}, {}}});
  EXPECT_TRUE(queue.BreakOff(kKey));
  lane(1).OnFailed({kKey, Broken()}, Time());
  EXPECT_EQ(Told<protocol::to_front::PartDone>(1), nullptr) << "the launch uses the memory";
  EndLaunch(1);
  ASSERT_NE(Told<protocol::to_front::PartDone>(1), nullptr);
  EXPECT_EQ(Told<protocol::to_front::PartDone>(1)->status, Broken());
}

// It launches with a scratch unit, and so the others have a wrong sum.
TEST_F(GroupsOfLocalLaneTest, ARankThatHasEndedLaunchesAndTheRoundIsAnError) {
  queue.SetGroups({{{0, 1}, {}}}, {});
  for (uint32_t rank : {0, 1}) {
    exchanged[rank].exchange.memory = Memory::kDevice;
    Begin(rank, exchanged[rank]);
  }
  const auto& begun = std::get<Begun>(ranks[0]->said.front());
  queue.Add(begun.key, {begun.facts, 0b11, 1, {}, 0b11}, true);
  lane(1).OnMail(protocol::to_lane::Withdraw{&exchanged[1].exchange});
  Launch();
  ASSERT_EQ(launchers[1]->launches.size(), 1u);
  EXPECT_EQ(launchers[1]->launches[0].to, nullptr);
  EndLaunch(1);
  EndLaunch(0);
  EXPECT_FALSE(HasEnded(0));
  EXPECT_TRUE(lane(0).IsDrained() && lane(1).IsDrained());
}

// A rank that will not hear the decision decides itself.
TEST_F(GroupsOfLocalLaneTest, WhoEndsEarlyLetsNoOtherRankHaveTheSum) {
  BeginOnDevices({{{0, 1}, {}}});
  EndLaunch(0);
  lane(0).BreakOffGroups();
  EndLaunch(1);
  EXPECT_FALSE(HasEnded(0) || HasEnded(1));
}

TEST_F(GroupsOfLocalLaneTest, HomesFillBlocksFromTheirOutputsAndReadThem) {
  BeginOnDevices({{{0}, {1}}, {{1}, {1}}});
  EXPECT_EQ(launchers[1]->launches.at(0).kind, device::Launch::Kind::kReduce);
  for (Exchanged& one : exchanged) one.output = one.input;  // of a group of one
  for (Exchanged& one : exchanged) one.input.assign(one.input.size(), 1e9F);
  for (uint32_t rank : {0, 1}) EndLaunch(rank);
  const auto end_copies = [this] {
    for (uint32_t rank : {0, 1}) {
      for (uint32_t block : ranks[rank]->mover->UnderWay()) ranks[rank]->mover->End(block);
    }
    RunAll();
  };
  for (int i = 0; i < 6; ++i) end_copies();
  for (const Exchanged& one : exchanged) {
    EXPECT_EQ(one.output, std::vector<float>(one.output.size(), 3));
  }
  Launch();
  EXPECT_EQ(launchers[0]->launches.at(1).kind, device::Launch::Kind::kGather);
  EXPECT_EQ(launchers[0]->launches.at(1).from, launchers[0]->launches.at(1).to);
  for (uint32_t rank : {0, 1}) {
    EXPECT_FALSE(HasEnded(rank));
    EndLaunch(rank);
  }
  EXPECT_TRUE(HasEnded(0) && HasEnded(1));
}

// Nobody has the result before the last block is decided.
TEST_F(GroupsOfLocalLaneTest, AHomeThatCannotCopyTheSumEndsTheRoundAndNobodyGivesUp) {
  BeginOnDevices({{{0}, {1}}, {{1}, {1}}});
  for (uint32_t rank : {0, 1}) EndLaunch(rank);
  for (int i = 0; i < 6; ++i) {
    for (uint32_t rank : {0, 1}) {
      MoverForTest& mover = *ranks[rank]->mover;
      for (uint32_t block : mover.UnderWay()) {
        const bool fails = rank == 1 && mover.CopyIn(block).way == Mover::Way::kUp;
        mover.End(block, fails ? Broken() : Status::Ok());
      }
    }
    RunAll();
  }
  Launch();
  for (uint32_t rank : {0, 1}) EndLaunch(rank);
  EXPECT_TRUE(ranks[1]->told.empty());
  EXPECT_FALSE(HasEnded(0));
  EXPECT_EQ(std::get<Abort>(ranks[1]->said.back()).why.message(), "tensor 'w': NCCL has failed");
}

TEST_F(GroupsOfLocalLaneTest, AGroupThatFailsByItselfIsAbortedByAllRanks) {
  BeginOnDevices({{{0, 1}, {}}});
  launchers[1]->broken = machine::Broken{Broken()};
  RunAll();
  EXPECT_EQ(window.of(0).aborted(), 0b10u);
  ASSERT_EQ(launchers[0]->over.size(), 1u);
  EXPECT_EQ(launchers[0]->over[0].message(), "rank 1 has ended the group of GPUs early");
}

TEST_F(GroupsOfLocalLaneTest, AnAtomicRoundDoesNotAskForGroups) {
  exchanged[0].exchange.memory = Memory::kDevice;
  exchanged[0].exchange.atomic = true;
  Begin(0, exchanged[0]);
  EXPECT_FALSE(std::get<Begun>(ranks[0]->said.back()).on_device);
}

}  // namespace
}  // namespace byteps::machine
