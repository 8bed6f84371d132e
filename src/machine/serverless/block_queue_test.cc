#include "src/machine/serverless/block_queue.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "src/machine/machine_for_test.h"

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

}  // namespace
}  // namespace byteps::machine
