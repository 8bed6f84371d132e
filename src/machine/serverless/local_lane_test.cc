#include "src/machine/serverless/local_lane.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <variant>
#include <vector>

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

}  // namespace
}  // namespace byteps::machine
