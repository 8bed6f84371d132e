#include "src/machine/serverless/block_queue.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "src/machine/machine_for_test.h"
#include "src/machine/room/group_uses.h"

namespace byteps::machine {
namespace {

constexpr local::WindowShape kShape = {.ranks = 3, .blocks = 3, .block_bytes = 4096};

// A window in memory of this process, and the queue of its carrier.
class BlockQueueTest : public testing::Test {
 protected:
  static LocalFacts FactsOf(RankSet ranks, std::vector<LocalFacts::Run> pieces) {
    LocalFacts facts;
    facts.ranks = ranks;
    facts.pieces = std::move(pieces);
    return facts;
  }
  static RoundKey Key(TensorId tensor) { return {tensor, 1, 0}; }
  void Add(TensorId tensor, int32_t priority, uint32_t pieces, RankSet ranks = 0b111) {
    LocalFacts facts = FactsOf(ranks, {{pieces, 128}});
    facts.priority = priority;
    facts.order = tensor;
    queue.Add(Key(tensor), {facts, ranks, 0, {}});
  }
  // Returns the (tensor, piece) of all uses that were admitted since the last call.
  std::vector<std::pair<TensorId, uint32_t>> Admitted() {
    std::vector<std::pair<TensorId, uint32_t>> all;
    while (auto at = window.of(0).NextAfter(seen).value()) {
      seen = at->number;
      uses.push_back(*at);
      all.emplace_back(at->use.tensor, at->use.piece);
    }
    return all;
  }
  // Takes all ranks through the use.
  void Pass(const local::AdmittedUse& at) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if ((at.use.bring >> rank & 1) == 0) continue;
      window.of(rank).Filled(at);
    }
    window.of(0).SumShare(at);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      if ((at.use.ranks >> rank & 1) != 0) window.of(rank).Release(at);
    }
  }
  using Pieces = std::vector<std::pair<TensorId, uint32_t>>;

  WindowForTest window{kShape};
  BlockQueue queue{window.of(0)};
  uint64_t seen = 0;
  std::vector<local::AdmittedUse> uses;
};

TEST_F(BlockQueueTest, TheMostUrgentPieceIsNext) {
  Add(1, 0, 3);
  Add(2, 5, 2);
  Add(3, 0, 1);
  EXPECT_TRUE(queue.Admit());
  // There are two blocks, and each may be promised to one more use of the same ranks.
  EXPECT_EQ(Admitted(), (Pieces{{2, 0}, {2, 1}, {1, 0}, {1, 1}}));
  EXPECT_FALSE(queue.Admit());
  Pass(uses[0]);
  EXPECT_TRUE(queue.Admit());
  EXPECT_EQ(Admitted(), (Pieces{{1, 2}}));
  EXPECT_TRUE(queue.TakeOver().empty());
  Pass(uses[1]);
  queue.Admit();
  EXPECT_EQ(queue.TakeOver(), std::vector<RoundKey>{Key(2)});
  EXPECT_TRUE(queue.TakeOver().empty()) << "told once";
  EXPECT_FALSE(queue.IsIdle());
}

TEST_F(BlockQueueTest, OneWithoutABlockHoldsUpTheSameRanksOnly) {
  Add(1, 9, 9, 0b011);
  EXPECT_TRUE(queue.Admit());
  Admitted();
  // Ranks 0 and 1 have filled blocks that wait for nothing of theirs, so they owe; rank 2 owes
  // nothing.
  Add(2, 0, 1, 0b100);
  EXPECT_TRUE(queue.Admit());
  EXPECT_TRUE(window.of(2).NextAfter(0).value().has_value());
}

TEST_F(BlockQueueTest, WhatWaitsForABlockCanBeBrokenOff) {
  Add(1, 0, 9);
  queue.Admit();
  EXPECT_TRUE(queue.BreakOff(Key(1)));
  size_t given = Admitted().size();
  for (size_t i = 0; i < given; ++i) Pass(uses[i]);
  EXPECT_FALSE(queue.Admit());
  EXPECT_TRUE(queue.IsIdle());
}

TEST_F(BlockQueueTest, WhatHasItsBlocksIsBrokenOffWhereOneIsNotDecided) {
  Add(1, 0, 1);
  queue.Admit();
  Admitted();
  EXPECT_FALSE(queue.BreakOff(Key(2))) << "nobody knows it";
  EXPECT_TRUE(queue.BreakOff(Key(1)));
  EXPECT_EQ(window.of(1).decision(uses[0]), local::Decision::kError);
}

TEST_F(BlockQueueTest, WhatIsDecidedCannotBeBrokenOff) {
  Add(1, 0, 1);
  queue.Admit();
  Admitted();
  for (uint32_t rank = 0; rank < 3; ++rank) window.of(rank).Filled(uses[0]);
  window.of(1).SumShare(uses[0]);
  EXPECT_FALSE(queue.BreakOff(Key(1)));
}

TEST_F(BlockQueueTest, WhoBringsDependsOnTheOperation) {
  LocalFacts facts = FactsOf(0b111, {{1, 8}});
  facts.how = Combine::kOverlay;
  facts.root = 2;
  queue.Add(Key(1), {facts, 0b111, 0, {}});
  facts.root = kNoRank;
  facts.how = Combine::kLast;
  queue.Add(Key(2), {facts, 0b111, 1, {}});
  queue.Add(Key(3), {FactsOf(0b110, {{1, 0}}), 0b110, 2, {}});
  facts.how = Combine::kAverage;
  queue.Add(Key(4), {facts, 0b011, 1, {}});
  std::vector<RankSet> bring(5);
  std::vector<uint32_t> divisors(5);
  uint64_t last = 0;
  for (int i = 0; i < 4; ++i) {
    queue.Admit();
    while (auto at = window.of(1).NextAfter(last).value()) {
      last = at->number;
      bring[at->use.tensor] = at->use.bring;
      divisors[at->use.tensor] = at->use.divisor;
      Pass(*at);
    }
  }
  EXPECT_EQ(bring, (std::vector<RankSet>{0, 0b100, 0b010, 0b010, 0b011}));
  EXPECT_EQ(divisors[4], 3u) << "one of the process set has joined";
}

// A round that groups sum, in three pieces and two units.
class GroupBlocksTest : public BlockQueueTest {
 protected:
  void Open(std::vector<plan::DeviceGroup> groups) {
    queue.SetGroups(std::move(groups), {.unit_bytes = 256, .launched_max = 1024});
    LocalFacts facts = FactsOf(0b111, {{3, 128}});
    facts.how = Combine::kAverage;
    queue.Add(Key(1), {facts, 0b111, 0, {}}, true);
    launches = queue.TakeLaunches();
  }
  std::vector<std::pair<RankSet, UnitLaunch>> launches;
};

TEST_F(GroupBlocksTest, OneGroupNeedsNoBlockButTheLast) {
  Open({{{0, 1, 2}, {}}});
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].first, 0b111u);
  EXPECT_EQ(launches[0].second.kind, device::Launch::Kind::kReduceAll);
  EXPECT_EQ(launches[0].second.how, Combine::kAverage) << "nobody else divides";
  queue.OnLaunchEnd();
  EXPECT_FALSE(queue.Admit()) << "a unit is under way";
  EXPECT_EQ(queue.RoundsOfGroups(), std::vector<RoundKey>{Key(1)});
  queue.OnLaunchEnd();
  EXPECT_TRUE(queue.Admit());
  Admitted();
  ASSERT_EQ(uses.size(), 1u);
  const local::BlockUse& last = uses[0].use;
  EXPECT_TRUE(Decides(last) && IsByGroup(last));
  EXPECT_EQ(last.ranks, 0b111u);
  EXPECT_EQ(last.bring, 0b111u);
  EXPECT_EQ(last.bytes, 0u);
  EXPECT_TRUE(queue.RoundsOfGroups().empty()) << "its last block decides";
  Pass(uses[0]);
  EXPECT_FALSE(queue.Admit());
  EXPECT_EQ(queue.TakeOver(), std::vector<RoundKey>{Key(1)});
  EXPECT_TRUE(queue.IsIdle());
}

TEST_F(GroupBlocksTest, SeveralGroupsBringThePiecesOfReducedUnits) {
  Open({{{0}, {1}}, {{1, 2}, {0.5, 0.5}}});
  ASSERT_EQ(launches.size(), 4u) << "a launch for each group";
  EXPECT_EQ(launches[0].second.how, Combine::kSum) << "the window divides";
  EXPECT_FALSE(queue.Admit());
  queue.OnLaunchEnd();
  EXPECT_TRUE(queue.Admit());
  EXPECT_EQ(Admitted(), (Pieces{{1, 0}, {1, 1}}));
  EXPECT_EQ(uses[0].use.ranks, 0b011u);
  EXPECT_EQ(uses[0].use.bring, 0b011u);
  EXPECT_EQ(uses[1].use.ranks, 0b101u);
  EXPECT_EQ(uses[0].use.how, Combine::kAverage);
  EXPECT_EQ(uses[0].use.divisor, 3u);
  EXPECT_FALSE(Decides(uses[0].use));
  Pass(uses[0]);
  queue.Admit();
  EXPECT_TRUE(queue.TakeLaunches().empty()) << "a sum is not at its homes";
  Pass(uses[1]);
  queue.Admit();
  EXPECT_EQ(queue.TakeLaunches().size(), 2u) << "the unit is gathered";
  queue.OnLaunchEnd();  // of the second reduce
  queue.OnLaunchEnd();
  queue.Admit();
  EXPECT_EQ(Admitted(), (Pieces{{1, 2}}));
  Pass(uses[2]);
  EXPECT_FALSE(queue.Admit());
  EXPECT_EQ(queue.TakeLaunches().size(), 2u);
  EXPECT_FALSE(queue.Admit()) << "the carrier's rank lacks a part";
  queue.OnLaunchEnd();
  EXPECT_TRUE(queue.Admit());
  Admitted();
  EXPECT_TRUE(Decides(uses.back().use));
}

TEST_F(GroupBlocksTest, ARoundIsBrokenOffUntilItsLastBlockIsDecided) {
  Open({{{0, 1, 2}, {}}});
  EXPECT_TRUE(queue.BreakOff(Key(1)));
  EXPECT_TRUE(queue.RoundsOfGroups().empty());
  for (int i = 0; i < 2; ++i) queue.OnLaunchEnd();
  EXPECT_FALSE(queue.Admit());
  EXPECT_TRUE(queue.IsIdle());
  queue.StopLaunches();
  queue.Add(Key(2), {FactsOf(0b111, {{3, 128}}), 0b111, 0, {}}, true);
  EXPECT_TRUE(queue.TakeLaunches().empty());
}

TEST_F(GroupBlocksTest, ARoundThatIsBrokenOffHasNoMoreLaunches) {
  queue.SetGroups({{{0, 1, 2}, {}}}, {.unit_bytes = 256, .launched_max = 256});
  queue.Add(Key(1), {FactsOf(0b111, {{3, 128}}), 0b111, 0, {}}, true);
  EXPECT_EQ(queue.TakeLaunches().size(), 1u);
  queue.BreakOff(Key(1));
  queue.OnLaunchEnd();
  EXPECT_TRUE(queue.TakeLaunches().empty());
}

}  // namespace
}  // namespace byteps::machine
