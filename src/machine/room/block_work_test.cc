#include "src/machine/room/block_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "src/machine/machine_for_test.h"
#include "src/machine/room/words.h"

namespace byteps::machine {
namespace {

constexpr uint32_t kBlockWorkBytes = 64;

struct Bytes final : protocol::SpanSource {
  Bytes() {
    exchange.name = "w";
    exchange.count = 1;
    exchange.spans = this;
  }
  protocol::Spans SpansOf(uint32_t) const override {
    protocol::Spans spans;
    spans.piece_bytes = kBlockWorkBytes;
    spans.push = input;
    spans.want = output;
    return spans;
  }
  std::vector<std::byte> private_input = std::vector<std::byte>(kBlockWorkBytes, std::byte{1});
  ByteSpan input = private_input;
  mutable std::vector<std::byte> output = std::vector<std::byte>(kBlockWorkBytes);
  protocol::Exchange exchange;
};

class BlockWorkTest : public testing::Test {
 protected:
  struct Rank {
    Bytes bytes;
    const protocol::Exchange* begun = &bytes.exchange;
    std::vector<bool> taken;  // by use: true if there was a sum
    std::unique_ptr<BlockWork> work;
  };
  BlockWorkTest() {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      Rank& one = ranks[rank];
      one.work = std::make_unique<BlockWork>(
          window.of(rank),
          BlockWork::Lane{[&one](const local::AdmittedUse&) { return one.begun; },
                          [this, rank](BlockWork::Taken& taken) { Fill(rank, taken); },
                          [this, rank](const BlockWork::Taken& taken, bool is_sum) {
                            ranks[rank].taken.push_back(is_sum);
                            if (is_sum && taken.exchange != nullptr) work(rank).CopyOut(taken);
                          }});
    }
  }
  void Fill(uint32_t rank, BlockWork::Taken& taken) {
    if (taken.exchange == nullptr) {
      (void)window.of(rank).Withdraw(taken.at);
    } else if (Has(taken.at.use.bring, rank)) {
      work(rank).CopyIn(taken);
    }
  }
  BlockWork& work(uint32_t rank) { return *ranks[rank].work; }
  void Admit(Combine how, local::RankSet bring, uint32_t bytes = kBlockWorkBytes) {
    local::BlockUse use;
    use.ranks = 0b11;
    use.bring = bring;
    use.bytes = bytes;
    use.type = DataType::kUint8;
    use.how = how;
    ASSERT_TRUE(window.of(0).Admit(use).has_value());
  }
  void Run(uint32_t rank) {
    while (true) {
      Result<bool> did = work(rank).Step();
      ASSERT_TRUE(did.ok()) << did.status().ToString();
      if (!did.value()) return;
    }
  }

  WindowForTest window{{.ranks = 2, .blocks = 3, .block_bytes = 4096}};
  Rank ranks[2];
};

TEST_F(BlockWorkTest, FillsSumsTakesAndReleases) {
  Admit(Combine::kSum, 0b11);
  Run(0);
  EXPECT_FALSE(work(0).IsDrained());
  Run(1);
  Run(0);
  for (Rank& one : ranks) {
    EXPECT_EQ(one.taken, std::vector<bool>{true});
    EXPECT_EQ(one.bytes.output, std::vector<std::byte>(kBlockWorkBytes, std::byte{2}));
    EXPECT_TRUE(one.work->IsDrained());
  }
}

// The event of the decision has passed when rank 1 takes the use up.
TEST_F(BlockWorkTest, WhatWasDecidedBeforeIsTakenAtOnce) {
  Admit(Combine::kOverlay, 0b01);
  Run(0);
  Run(1);
  EXPECT_EQ(ranks[1].taken, std::vector<bool>{true});
  EXPECT_EQ(ranks[1].bytes.output, ranks[0].bytes.private_input);
}

TEST_F(BlockWorkTest, WhatIsForgottenIsTouchedNoMore) {
  Admit(Combine::kSum, 0b11);
  Run(0);
  work(0).Forget(ranks[0].bytes.exchange);
  Run(1);
  Run(0);
  const std::vector<std::byte> untouched(kBlockWorkBytes);
  EXPECT_EQ(ranks[0].bytes.output, untouched) << "its user has it";
  EXPECT_EQ(ranks[0].taken, std::vector<bool>{true}) << "the block goes on without";
}

TEST_F(BlockWorkTest, WhoHasNothingForAUseEndsItInAnError) {
  ranks[1].begun = nullptr;
  Admit(Combine::kSum, 0b11);
  Run(0);
  Run(1);
  Run(0);
  EXPECT_EQ(ranks[0].taken, std::vector<bool>{false});
  EXPECT_TRUE(work(1).IsDrained());
}

// Rank 0 brings its part in its heap, which rank 1 can read.
class LendingTest : public BlockWorkTest {
 protected:
  LendingTest() {
    ranks[0].bytes.input = window.heap(0).Take(kBlockWorkBytes).value();
    Set(std::byte{5});
    for (int turn = 0; turn < 2; ++turn) Sum();
  }
  void Set(std::byte value) { std::ranges::fill(ranks[0].bytes.input, value); }
  void Sum() {
    Admit(Combine::kSum, 0b11);
    Run(0);
    Run(1);
    Run(0);
    for (Rank& one : ranks) one.taken.clear();
  }
};

TEST_F(LendingTest, SharedBytesAreReadWhereTheyLie) {
  Admit(Combine::kSum, 0b11);
  Run(0);
  Set(std::byte{7});  // changes lent bytes, as no user may: so a copy would be seen
  Run(1);
  Run(0);
  EXPECT_EQ(ranks[1].bytes.output, std::vector<std::byte>(kBlockWorkBytes, std::byte{8}));
}

TEST_F(LendingTest, WhoTakesLentMemoryBackEndsWhatIsNotDecided) {
  Admit(Combine::kSum, 0b11);
  Run(0);
  work(0).Forget(ranks[0].bytes.exchange);
  Set(std::byte{99});  // the user has the memory again
  Run(1);
  Run(0);
  EXPECT_EQ(ranks[1].taken, std::vector<bool>{false}) << "nobody takes a sum of it";
  EXPECT_TRUE(work(0).IsDrained() && work(1).IsDrained());
}

TEST_F(LendingTest, WhatIsDecidedStays) {
  Admit(Combine::kSum, 0b11);
  Run(0);
  Run(1);
  work(0).Forget(ranks[0].bytes.exchange);
  Run(0);
  EXPECT_EQ(ranks[1].taken, std::vector<bool>{true});
}

TEST_F(BlockWorkTest, PiecesThatAreCutInDifferentWaysAreAnError) {
  Admit(Combine::kSum, 0b11, kBlockWorkBytes * 2);
  EXPECT_EQ(work(1).Step().status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace byteps::machine
