#include "src/machine/room/block_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "src/machine/machine_for_test.h"
#include "src/machine/mover_for_test.h"
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
    std::vector<Status> fill_failures;
    std::vector<Status> taken_there;  // how copies of results to a device have ended
    bool keeps = false;               // the block of a result whose copy has failed
    BlockWork::Input input = BlockWork::Input::kHere;
    std::unique_ptr<MoverForTest> mover;
    std::unique_ptr<BlockWork> work;
  };
  BlockWorkTest() {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      Rank& one = ranks[rank];
      one.mover = std::make_unique<MoverForTest>(window.of(rank));
      one.work = std::make_unique<BlockWork>(
          window.of(rank),
          BlockWork::Lane{[&one](const local::AdmittedUse&) { return one.begun; },
                          [this, rank](BlockWork::Taken& taken) { Fill(rank, taken); },
                          [this, rank](BlockWork::Taken& taken, bool is_sum) {
                            ranks[rank].taken.push_back(is_sum);
                            if (is_sum && taken.exchange != nullptr) work(rank).CopyOut(taken);
                          },
                          [&one](const BlockWork::Taken&, const Status& why) {
                            one.fill_failures.push_back(why);
                          },
                          [&one](BlockWork::Taken& taken, const Status& how) {
                            one.taken_there.push_back(how);
                            if (one.keeps) taken.state = BlockWork::Taken::State::kKept;
                          },
                          [&one](const BlockWork::Taken&) { return one.input; }},
          one.mover.get());
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

// The memory of rank 0 lies on a device.
class DeviceBlockTest : public BlockWorkTest {
 protected:
  DeviceBlockTest() { bytes().exchange.memory = Memory::kDevice; }
  Bytes& bytes() { return ranks[0].bytes; }
  MoverForTest& mover() { return *ranks[0].mover; }
  // Admits a use, and lets both ranks do what they can. Returns its block.
  uint32_t Begin() {
    Admit(Combine::kSum, 0b11);
    Run(0);
    Run(1);
    const std::vector<uint32_t> blocks = mover().UnderWay();
    EXPECT_EQ(blocks.size(), 1u);
    return blocks.empty() ? 0 : blocks[0];
  }
  void RunBoth() {
    for (uint32_t rank : {0, 1, 0, 1}) Run(rank);
  }
};

TEST_F(DeviceBlockTest, APartIsFilledWhenItsCopyHasEnded) {
  const uint32_t block = Begin();
  EXPECT_TRUE(ranks[1].taken.empty()) << "the part is not there";
  mover().End(block);
  RunBoth();
  EXPECT_EQ(ranks[1].bytes.output, std::vector<std::byte>(kBlockWorkBytes, std::byte{2}));
  EXPECT_TRUE(work(1).IsDrained());
  EXPECT_FALSE(work(0).IsDrained()) << "the result is on its way to the device";
  EXPECT_TRUE(ranks[0].taken_there.empty());
  mover().End(block);
  Run(0);
  EXPECT_EQ(ranks[0].taken_there, std::vector<Status>{Status::Ok()});
  EXPECT_EQ(bytes().output, ranks[1].bytes.output);
  EXPECT_TRUE(work(0).IsDrained());
}

// Copies of all uses are under way while the thread does other work.
TEST_F(DeviceBlockTest, CopiesBeginBeforeThisThreadSums) {
  for (int i = 0; i < 2; ++i) Admit(Combine::kSum, 0b11);
  Run(0);
  EXPECT_EQ(mover().UnderWay().size(), 2u);
}

TEST_F(DeviceBlockTest, WhoForgetsWaitsForNothingAndKeepsTheBlock) {
  const uint32_t block = Begin();
  work(0).Forget(bytes().exchange);
  RunBoth();
  EXPECT_EQ(ranks[1].taken, std::vector<bool>{false}) << "nobody waits for the copy";
  EXPECT_FALSE(work(0).IsDrained()) << "the copy still writes into the block";
  mover().End(block);
  Run(0);
  EXPECT_TRUE(work(0).IsDrained());
  EXPECT_TRUE(ranks[0].fill_failures.empty());
}

TEST_F(DeviceBlockTest, AnErrorOfOthersWaitsForTheCopyToo) {
  const uint32_t block = Begin();
  ASSERT_TRUE(window.of(1).Withdraw(window.of(1).NextAfter(0).value().value()));
  RunBoth();
  EXPECT_TRUE(work(1).IsDrained());
  EXPECT_FALSE(work(0).IsDrained());
  mover().End(block);
  Run(0);
  EXPECT_TRUE(work(0).IsDrained());
  EXPECT_EQ(ranks[0].taken, std::vector<bool>{false});
}

// The carrier hears the reason before the use can be over.
TEST_F(DeviceBlockTest, ACopyThatFailsLeavesTheUseToTheCarrier) {
  const Status why(StatusCode::kUnavailable, "a copy has failed");
  const uint32_t block = Begin();
  mover().End(block, why);
  RunBoth();
  EXPECT_EQ(ranks[0].fill_failures, std::vector<Status>{why});
  EXPECT_TRUE(ranks[0].taken.empty() && ranks[1].taken.empty());
  ASSERT_TRUE(window.of(0).Withdraw(window.of(0).NextAfter(0).value().value()));
  RunBoth();
  for (Rank& one : ranks) {
    EXPECT_EQ(one.taken, std::vector<bool>{false});
    EXPECT_TRUE(one.work->IsDrained());
  }
}

TEST_F(DeviceBlockTest, WhoLacksItsPartAndForgetsEndsTheUse) {
  mover().End(Begin(), {StatusCode::kUnavailable, "a copy has failed"});
  Run(0);
  work(0).Forget(bytes().exchange);
  RunBoth();
  EXPECT_EQ(ranks[1].taken, std::vector<bool>{false});
  EXPECT_TRUE(work(0).IsDrained() && work(1).IsDrained());
}

TEST_F(DeviceBlockTest, AResultThatCannotBeCopiedIsTold) {
  const Status why(StatusCode::kUnavailable, "a copy has failed");
  const uint32_t block = Begin();
  mover().End(block);
  RunBoth();
  mover().End(block, why);
  Run(0);
  EXPECT_EQ(ranks[0].taken_there, std::vector<Status>{why});
  EXPECT_TRUE(work(0).IsDrained());
}

// While the block is not released, the carrier cannot take the result for a thing that all have.
TEST_F(DeviceBlockTest, ABlockThatTheLaneKeepsIsReleasedWhenItsExchangeIsForgotten) {
  ranks[0].keeps = true;
  const uint32_t block = Begin();
  mover().End(block);
  RunBoth();
  mover().End(block, {StatusCode::kUnavailable, "a copy has failed"});
  Run(0);
  EXPECT_EQ(ranks[0].taken_there.size(), 1u);
  EXPECT_FALSE(work(0).IsDrained());
  EXPECT_FALSE(window.of(1).IsOver(window.of(1).NextAfter(0).value().value()));
  work(0).Forget(bytes().exchange);
  Run(0);
  EXPECT_TRUE(work(0).IsDrained());
}

// Another block goes on meanwhile.
TEST_F(DeviceBlockTest, APartWhoseInputComesLaterIsFilledThen) {
  ranks[0].input = BlockWork::Input::kLater;
  Admit(Combine::kSum, 0b11);
  Admit(Combine::kSum, 0b10);
  RunBoth();
  EXPECT_EQ(ranks[1].taken, std::vector<bool>{true}) << "the use without the part of rank 0";
  const size_t before = mover().UnderWay().size();
  ranks[0].input = BlockWork::Input::kHere;
  Run(0);
  EXPECT_EQ(mover().UnderWay().size(), before + 1);
}

TEST_F(DeviceBlockTest, APartWithoutInputIsLeftToTheCarrier) {
  ranks[0].input = BlockWork::Input::kNever;
  Admit(Combine::kSum, 0b11);
  RunBoth();
  EXPECT_TRUE(mover().UnderWay().empty());
  EXPECT_TRUE(ranks[0].fill_failures.empty()) << "the lane knows why";
  EXPECT_TRUE(ranks[1].taken.empty());
  ASSERT_TRUE(window.of(0).Withdraw(window.of(0).NextAfter(0).value().value()));
  RunBoth();
  for (Rank& one : ranks) {
    EXPECT_EQ(one.taken, std::vector<bool>{false});
    EXPECT_TRUE(one.work->IsDrained());
  }
}

TEST_F(BlockWorkTest, PiecesThatAreCutInDifferentWaysAreAnError) {
  Admit(Combine::kSum, 0b11, kBlockWorkBytes * 2);
  EXPECT_EQ(work(1).Step().status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace byteps::machine
