#include "src/local/window.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "src/local/heaps_for_test.h"
#include "src/local/local_for_test.h"
#include "src/local/shared_memory.h"

namespace byteps::local {
namespace {

constexpr size_t kBlockBytes = 4096;

// The test's thread plays all ranks of a machine.
class WindowTest : public testing::Test {
 protected:
  void Begin(uint32_t ranks, uint32_t blocks) {
    shape_ = {.ranks = ranks, .blocks = blocks, .block_bytes = kBlockBytes};
    memory_ = std::move(SharedMemory::Create(Window::BytesFor(shape_), Access::kReadWrite).value());
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      windows_.push_back(std::make_unique<Window>(memory_.bytes(), shape_, rank));
    }
  }
  // Gives each rank a heap with three floats in it.
  void BeginWithHeaps(uint32_t ranks, uint32_t blocks) {
    Begin(ranks, blocks);
    heaps_ = std::make_unique<HeapsForTest>(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      windows_[rank] = std::make_unique<Window>(memory_.bytes(), shape_, rank, &heaps_->of(rank));
      ByteSpan bytes = heaps_->own(rank).Take(3 * sizeof(float)).value();
      shared_.emplace_back(reinterpret_cast<float*>(bytes.data()), 3);
    }
  }
  // Returns true if the part is lent and not copied.
  bool BringShared(uint32_t rank, const AdmittedUse& at) {
    return Of(rank).Bring(at, 0, std::as_bytes(shared_[rank]).first(at.use.bytes));
  }
  // Makes the heaps known: no rank knows of a heap before its rank has brought something from it.
  void MeetHeaps() {
    for (int turn = 0; turn < 2; ++turn) {
      AdmittedUse at = *Of(0).Admit(Floats(FirstRanks(shape_.ranks)));
      for (uint32_t rank = 0; rank < shape_.ranks; ++rank) BringShared(rank, at);
      EXPECT_TRUE(Of(0).SumShare(at));
      ReleaseAll(at);
    }
  }

  static BlockUse Floats(RankSet ranks, size_t count = 3) {
    BlockUse use;
    use.ranks = ranks;
    use.bring = ranks;
    use.bytes = count * sizeof(float);
    return use;
  }

  Window& Of(uint32_t rank) { return *windows_[rank]; }

  void Fill(uint32_t rank, const AdmittedUse& at, const std::vector<float>& values) {
    ASSERT_TRUE(Of(rank).IsOurs(at));
    std::memcpy(Of(rank).Part(at).data(), values.data(), at.use.bytes);
    Of(rank).Filled(at);
  }

  std::vector<float> ReadResult(uint32_t rank, const AdmittedUse& at) {
    std::vector<float> values(at.use.bytes / sizeof(float));
    std::memcpy(values.data(), Of(rank).ResultOf(at).data(), at.use.bytes);
    Of(rank).Release(at);
    return values;
  }

  void ReleaseAll(const AdmittedUse& at) {
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      if ((at.use.ranks >> rank & 1) != 0) Of(rank).Release(at);
    }
  }

  WindowShape shape_;
  SharedMemory memory_;
  std::unique_ptr<HeapsForTest> heaps_;
  std::vector<std::span<float>> shared_;
  std::vector<std::unique_ptr<Window>> windows_;
};

TEST_F(WindowTest, TheSumIsInTheOrderOfRanksWhoeverComesFirst) {
  Begin(3, 2);
  AdmittedUse at = *Of(0).Admit(Floats(7, 1));
  Fill(2, at, {-1e8f});
  Fill(0, at, {1e8f});
  EXPECT_FALSE(Of(0).SumShare(at));
  Fill(1, at, {1});
  EXPECT_EQ(Of(0).decision(at), Decision::kOpen);
  EXPECT_TRUE(Of(1).SumShare(at));
  EXPECT_FALSE(Of(0).SumShare(at));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(Of(rank).decision(at), Decision::kSum);
    EXPECT_EQ(ReadResult(rank, at), std::vector<float>{1e8f + 1.0f - 1e8f});
  }
}

TEST_F(WindowTest, EveryoneIsToldWhatComesNext) {
  Begin(3, 3);
  AdmittedUse mine = *Of(0).Admit(Floats(5));
  BlockUse use = Floats(6, 2);
  use.tensor = 9;
  use.piece = 8;
  use.generation = 7;
  use.round = 6;
  use.how = Combine::kAverage;
  use.divisor = 5;
  use.type = DataType::kInt32;
  AdmittedUse second = *Of(0).Admit(use);
  std::optional<AdmittedUse> seen = Of(1).NextAfter(0).value();
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->number, second.number);
  EXPECT_EQ(seen->block, second.block);
  EXPECT_EQ(seen->use.tensor, 9u);
  EXPECT_EQ(seen->use.piece, 8u);
  EXPECT_EQ(seen->use.generation, 7u);
  EXPECT_EQ(seen->use.round, 6u);
  EXPECT_EQ(seen->use.how, Combine::kAverage);
  EXPECT_EQ(seen->use.divisor, 5u);
  EXPECT_EQ(seen->use.type, DataType::kInt32);
  EXPECT_EQ(seen->use.bytes, 8u);
  EXPECT_FALSE(Of(1).NextAfter(second.number).value().has_value());
  EXPECT_EQ(Of(2).NextAfter(0).value()->number, mine.number);
  EXPECT_EQ(Of(2).NextAfter(mine.number).value()->number, second.number);
}

TEST_F(WindowTest, ABlockIsUsedAgainWhenAllHaveReleasedIt) {
  Begin(2, 2);
  AdmittedUse first = *Of(0).Admit(Floats(3));
  AdmittedUse second = *Of(0).Admit(Floats(3));
  EXPECT_EQ(second.block, first.block);
  EXPECT_TRUE(Of(0).IsOurs(first));
  EXPECT_FALSE(Of(0).IsOurs(second));
  Fill(0, first, {1, 2, 3});
  Fill(1, first, {4, 5, 6});
  EXPECT_TRUE(Of(0).SumShare(first));
  EXPECT_EQ(ReadResult(0, first), (std::vector<float>{5, 7, 9}));
  EXPECT_FALSE(Of(0).IsOurs(second));
  EXPECT_FALSE(Of(0).SumShare(second));
  EXPECT_EQ(ReadResult(1, first), (std::vector<float>{5, 7, 9}));
  EXPECT_TRUE(Of(0).IsOurs(second));
  // The words of the first use do not count for the second.
  EXPECT_EQ(Of(0).decision(second), Decision::kOpen);
  EXPECT_FALSE(Of(0).SumShare(second));
  EXPECT_EQ(Of(0).Awaited(second), 3u);
}

TEST_F(WindowTest, NoMoreThanOneUseWaitsBehindAnother) {
  Begin(2, 2);
  ASSERT_TRUE(Of(0).Admit(Floats(3)).has_value());
  ASSERT_TRUE(Of(0).Admit(Floats(3)).has_value());
  EXPECT_FALSE(Of(0).Admit(Floats(3)).has_value());
}

TEST_F(WindowTest, TheReserveIsForRanksThatOweNothing) {
  Begin(3, 2);
  AdmittedUse first = *Of(0).Admit(Floats(7));
  // Rank 1 stands still. Rank 0 has not filled its part, so it owes it.
  EXPECT_FALSE(Of(0).Admit(Floats(1)).has_value());
  Fill(0, first, {1, 2, 3});
  EXPECT_FALSE(Of(0).Admit(Floats(3)).has_value());
  EXPECT_FALSE(Of(0).Admit(Floats(5)).has_value());
  Fill(2, first, {1, 2, 3});
  // Ranks 0 and 2 wait for rank 1, which owes its part.
  EXPECT_FALSE(Of(0).Admit(Floats(3)).has_value());
  std::optional<AdmittedUse> aside = Of(0).Admit(Floats(5));
  ASSERT_TRUE(aside.has_value());
  EXPECT_NE(aside->block, first.block);
  Fill(0, *aside, {1, 1, 1});
  Fill(2, *aside, {2, 2, 2});
  EXPECT_TRUE(Of(2).SumShare(*aside));
  EXPECT_EQ(ReadResult(0, *aside), (std::vector<float>{3, 3, 3}));
  // The window has only one reserve.
  EXPECT_FALSE(Of(0).Admit(Floats(1)).has_value());
  EXPECT_EQ(ReadResult(2, *aside), (std::vector<float>{3, 3, 3}));
  EXPECT_TRUE(Of(0).Admit(Floats(1)).has_value());
}

TEST_F(WindowTest, AnUseDoesNotWaitBehindRanksThatItDoesNotNeed) {
  Begin(3, 3);
  ASSERT_TRUE(Of(0).Admit(Floats(6)).has_value());
  ASSERT_TRUE(Of(0).Admit(Floats(6)).has_value());
  std::optional<AdmittedUse> third = Of(0).Admit(Floats(1));
  ASSERT_TRUE(third.has_value());
  EXPECT_TRUE(Of(0).IsOurs(*third));
  // The two uses that are not over belong to ranks of this one.
  std::optional<AdmittedUse> fourth = Of(0).Admit(Floats(7));
  ASSERT_TRUE(fourth.has_value());
  EXPECT_FALSE(Of(0).IsOurs(*fourth));
}

TEST_F(WindowTest, AnErrorIsDecidedForAllAndTheBlockWaitsForAll) {
  Begin(3, 2);
  AdmittedUse at = *Of(0).Admit(Floats(7));
  Fill(0, at, {1, 2, 3});
  EXPECT_TRUE(Of(0).Withdraw(at));
  EXPECT_TRUE(Of(1).Withdraw(at));
  EXPECT_EQ(Of(2).decision(at), Decision::kError);
  AdmittedUse next = *Of(0).Admit(Floats(7));
  Of(0).Release(at);
  Of(1).Release(at);
  EXPECT_FALSE(Of(0).IsOurs(next));
  // Rank 2 was in the middle of its copy.
  Fill(2, at, {1, 2, 3});
  EXPECT_FALSE(Of(0).IsOurs(next));
  Of(2).Release(at);
  ASSERT_TRUE(Of(0).IsOurs(next));
  for (uint32_t rank = 0; rank < 3; ++rank) Fill(rank, next, {2, 2, 2});
  EXPECT_TRUE(Of(1).SumShare(next));
  EXPECT_EQ(ReadResult(1, next), (std::vector<float>{6, 6, 6}));
}

TEST_F(WindowTest, ASumThatIsDecidedStays) {
  Begin(2, 2);
  AdmittedUse at = *Of(0).Admit(Floats(3));
  Fill(0, at, {1, 2, 3});
  Fill(1, at, {1, 2, 3});
  EXPECT_TRUE(Of(1).SumShare(at));
  EXPECT_FALSE(Of(0).Withdraw(at));
  EXPECT_EQ(Of(0).decision(at), Decision::kSum);
}

TEST_F(WindowTest, AnOverlayHasThePartsSideBySideWithTheirBits) {
  Begin(3, 2);
  BlockUse use = Floats(7);
  use.bring = 5;
  use.how = Combine::kOverlay;
  AdmittedUse at = *Of(0).Admit(use);
  const uint32_t odd_nan = 0x7fa12345;
  std::memcpy(Of(2).Part(at).data() + 8, &odd_nan, 4);
  Of(2).Filled(at);
  EXPECT_EQ(Of(1).decision(at), Decision::kOpen);
  const float first[] = {1, 2};
  std::memcpy(Of(0).Part(at).data(), first, 8);
  Of(0).Filled(at);
  ASSERT_EQ(Of(1).decision(at), Decision::kSum);
  std::vector<float> got = ReadResult(1, at);
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], 2);
  EXPECT_EQ(std::memcmp(&got[2], &odd_nan, 4), 0);
}

TEST_F(WindowTest, ManyUsesGoRoundAndWhoIsNotConcernedMayBeFarBehind) {
  Begin(2, 3);
  for (uint64_t i = 1; i <= 100; ++i) {
    AdmittedUse at = *Of(0).Admit(Floats(1));
    EXPECT_EQ(at.number, i);
    Fill(0, at, {1, 2, 3});
    EXPECT_TRUE(Of(0).SumShare(at));
    Of(0).Release(at);
  }
  EXPECT_FALSE(Of(1).NextAfter(0).value().has_value());
  AdmittedUse at = *Of(0).Admit(Floats(3));
  EXPECT_EQ(Of(1).NextAfter(0).value()->number, at.number);
}

TEST_F(WindowTest, WhoStandsStillKeepsItsBlockAndNothingElse) {
  Begin(3, 3);
  AdmittedUse held = *Of(0).Admit(Floats(0b101));
  for (uint64_t i = 0; i < 200; ++i) {
    std::optional<AdmittedUse> at = Of(0).Admit(Floats(0b11));
    ASSERT_TRUE(at.has_value()) << "use " << i;
    for (uint32_t rank : {0, 1}) {
      EXPECT_EQ(Of(rank).NextAfter(held.number + i).value()->number, at->number);
      Fill(rank, *at, {1, 2, 3});
    }
    EXPECT_TRUE(Of(0).SumShare(*at));
    for (uint32_t rank : {0, 1}) Of(rank).Release(*at);
  }
  EXPECT_EQ(Of(2).NextAfter(0).value()->number, held.number);
  EXPECT_EQ(Of(0).NextAfter(0).value()->number, held.number);
}

// Rank 2 may stop in its share, and the carrier must not wait for it.
TEST_F(WindowTest, WhoTakesTheLastShareTellsTheCarrierThatOthersOweNothing) {
  Begin(3, 2);
  AdmittedUse held = *Of(0).Admit(Floats(0b111));
  for (uint32_t rank : {0, 1, 2}) Fill(rank, held, {1, 2, 3});
  EXPECT_FALSE(Of(0).Admit(Floats(0b11)).has_value()) << "ranks 0 and 1 might still sum";
  const uint32_t events = Of(0).Events();
  EXPECT_EQ(Of(2).ClaimShare(held), 0u);
  EXPECT_NE(Of(0).Events(), events);
  EXPECT_FALSE(Of(1).ClaimShare(held).has_value());
  EXPECT_TRUE(Of(0).Admit(Floats(0b11)).has_value());
}

TEST_F(WindowTest, UsesThatCannotBeAreRefused) {
  Begin(2, 2);
  ASSERT_TRUE(Of(0).Admit(Floats(3)).has_value());
  UseWords& words = reinterpret_cast<WindowWords*>(memory_.bytes().data())->uses[0];
  auto refused = [&](std::atomic<uint64_t>& word, uint64_t value) {
    uint64_t before = word.exchange(value);
    bool is_refused = Of(1).NextAfter(0).status().code() == StatusCode::kInternal;
    word.store(before);
    return is_refused;
  };
  EXPECT_TRUE(refused(words.bytes, kBlockBytes + 4));
  EXPECT_TRUE(refused(words.bytes, 5));
  EXPECT_TRUE(refused(words.block, 2));
  EXPECT_TRUE(refused(words.ranks, 7));
  EXPECT_TRUE(refused(words.bring, 0));
  // Wrong words: no type; kLast; no operation; kAverage with a divisor below the number of ranks.
  for (uint64_t wrong : {0xffUL, 6UL << 8, 7UL << 8, 5UL << 8, 1UL << 32 | 5UL << 8})
    EXPECT_TRUE(refused(words.arithmetic, wrong)) << wrong;
  EXPECT_TRUE(Of(1).NextAfter(0).value().has_value());
}

TEST_F(WindowTest, SharedBytesAreLentOnceAllCanReadThem) {
  BeginWithHeaps(2, 2);
  AdmittedUse at = *Of(0).Admit(Floats(3));
  for (uint32_t rank : {0, 1}) std::ranges::fill(shared_[rank], float(rank + 1));
  EXPECT_FALSE(BringShared(0, at)) << "rank 1 has not seen the heap";
  EXPECT_FALSE(BringShared(1, at));
  EXPECT_TRUE(Of(0).SumShare(at));
  EXPECT_EQ(ReadResult(0, at), (std::vector<float>{3, 3, 3}));
  Of(1).Release(at);
  at = *Of(0).Admit(Floats(3));
  EXPECT_TRUE(BringShared(0, at));
  EXPECT_TRUE(BringShared(1, at)) << "rank 0 has seen its heap just now";
  EXPECT_TRUE(Of(1).SumShare(at));
  ReleaseAll(at);
  at = *Of(0).Admit(Floats(3));
  EXPECT_TRUE(BringShared(0, at));
  EXPECT_TRUE(BringShared(1, at));
  shared_[0][2] = 40;  // the ranks read it in the heap, when they sum
  EXPECT_TRUE(Of(1).SumShare(at));
  EXPECT_EQ(ReadResult(0, at), (std::vector<float>{3, 3, 42}));
  // The sum leaves the heaps as they are.
  EXPECT_EQ(shared_[0][0], 1);
  EXPECT_EQ(shared_[1][0], 2);
}

TEST_F(WindowTest, RanksWithAndWithoutSharedBytesSumTogetherInTheOrderOfRanks) {
  BeginWithHeaps(3, 2);
  MeetHeaps();
  AdmittedUse at = *Of(0).Admit(Floats(7, 1));
  shared_[1][0] = 1;
  Fill(2, at, {-1e8f});
  EXPECT_TRUE(BringShared(1, at));
  Fill(0, at, {1e8f});
  EXPECT_TRUE(Of(2).SumShare(at));
  EXPECT_EQ(ReadResult(1, at), std::vector<float>{1e8f + 1.0f - 1e8f});
  // The next use of the block does not see the lent part.
  for (uint32_t rank : {0, 2}) Of(rank).Release(at);
  at = *Of(0).Admit(Floats(7, 1));
  for (uint32_t rank : {0, 1, 2}) Fill(rank, at, {5});
  EXPECT_TRUE(Of(0).SumShare(at));
  EXPECT_EQ(ReadResult(0, at), std::vector<float>{15});
}

TEST_F(WindowTest, BytesThatMayChangeBeforeTheyAreReadAreNotLent) {
  BeginWithHeaps(2, 2);
  MeetHeaps();
  // The ranks read an overlay after the decision, so its parts are copied.
  BlockUse use = Floats(3);
  use.how = Combine::kOverlay;
  use.bring = 1;
  AdmittedUse at = *Of(0).Admit(use);
  shared_[0][0] = 9;
  EXPECT_FALSE(BringShared(0, at));
  shared_[0][0] = 0;
  EXPECT_EQ(ReadResult(1, at)[0], 9);
  Of(0).Release(at);
  // A piece of a part, and bytes outside the heaps, are copied, too.
  at = *Of(0).Admit(Floats(3));
  EXPECT_FALSE(Of(0).Bring(at, 0, std::as_bytes(shared_[0]).first(4)));
  std::vector<float> own{1, 2, 3};
  EXPECT_FALSE(Of(1).Bring(at, 0, std::as_bytes(std::span(own))));
}

TEST_F(WindowTest, WhoCannotReadAHeapGetsACopy) {
  BeginWithHeaps(3, 2);
  heaps_->of(2).Close();
  MeetHeaps();
  AdmittedUse at = *Of(0).Admit(Floats(7));
  EXPECT_FALSE(BringShared(0, at));
  for (uint32_t rank : {1, 2}) BringShared(rank, at);
  EXPECT_TRUE(Of(0).SumShare(at));
  ReleaseAll(at);
  AdmittedUse two = *Of(0).Admit(Floats(3));
  EXPECT_TRUE(BringShared(0, two)) << "rank 2 is not in it";
}

TEST_F(WindowTest, APlaceThatCannotBeMakesNobodyFault) {
  BeginWithHeaps(2, 2);
  MeetHeaps();
  AdmittedUse at = *Of(0).Admit(Floats(3));
  for (uint32_t rank : {0, 1}) BringShared(rank, at);
  auto& words = *reinterpret_cast<WindowWords*>(memory_.bytes().data());
  words.blocks[at.block].marks[0].source.store(UINT64_MAX - 7);
  heaps_->of(0).Close();
  EXPECT_TRUE(Of(0).SumShare(at));
  EXPECT_EQ(Of(1).decision(at), Decision::kSum);
}

TEST_F(WindowTest, AWaitThatIsInVainNamesWhoDidNotGoOn) {
  Begin(3, 2);
  AdmittedUse at = *Of(0).Admit(Floats(7));
  Fill(0, at, {1, 2, 3});
  Status waited = Of(0).Wait(Of(0).Events(), at, In(kSoon));
  EXPECT_EQ(waited.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(waited.message().find("local ranks 1, 2 "), std::string::npos) << waited.message();
}

TEST_F(WindowTest, WhatHappenedBeforeAWaitEndsIt) {
  Begin(2, 2);
  uint32_t events = Of(1).Events();
  AdmittedUse at = *Of(0).Admit(Floats(3));
  EXPECT_TRUE(Of(1).Wait(events, at, In(kLong)).ok());
}

TEST_F(WindowTest, WhoWaitsIsWoken) {
  Begin(2, 2);
  AdmittedUse at = *Of(0).Admit(Floats(3));
  Fill(0, at, {1, 2, 3});
  std::thread other([&] {
    Fill(1, at, {1, 2, 3});
    EXPECT_TRUE(Of(1).SumShare(at));
    Of(1).WakeSleepers();
  });
  while (Of(0).decision(at) == Decision::kOpen) {
    uint32_t events = Of(0).Events();
    if (Of(0).decision(at) != Decision::kOpen) break;
    ASSERT_TRUE(Of(0).Wait(events, at, In(kLong)).ok());
  }
  other.join();
}

TEST_F(WindowTest, ABlockThatIsOverConcernsTheCarrierAndWhoIsNext) {
  Begin(3, 2);
  for (uint32_t next : {0, 1}) {
    AdmittedUse at = *Of(0).Admit(Floats(7));
    if (next == 1) ASSERT_TRUE(Of(0).Admit(Floats(7)).has_value()) << "behind it";
    for (uint32_t rank : {0, 1, 2}) Fill(rank, at, {1, 2, 3});
    ASSERT_TRUE(Of(2).SumShare(at));
    for (uint32_t rank : {0, 1}) Of(rank).Release(at);
    const std::array before = {Of(0).Events(), Of(1).Events(), Of(2).Events()};
    Of(2).Release(at);
    EXPECT_EQ(Of(0).Events(), before[0] + 1);
    for (uint32_t rank : {1, 2}) EXPECT_EQ(Of(rank).Events(), before[rank] + next);
  }
}

TEST_F(WindowTest, WhoSleepsIsWokenByAnyEvent) {
  Begin(2, 2);
  uint32_t events = Of(1).Events();
  std::thread other([&] { Of(0).Notify(2); });
  Of(1).Sleep(events, In(kLong));
  other.join();
  EXPECT_NE(Of(1).Events(), events);
  events = Of(1).Events();
  Of(1).Sleep(events, In(milliseconds(1)));
  EXPECT_EQ(Of(1).Events(), events) << "nothing has happened";
}

TEST_F(WindowTest, AUseIsOverForAllWhenTheLastHasReleasedIt) {
  Begin(2, 2);
  AdmittedUse at = *Of(0).Admit(Floats(3));
  for (uint32_t rank : {0, 1}) Fill(rank, at, {1, 2, 3});
  Of(0).SumShare(at);
  Of(1).Release(at);
  EXPECT_FALSE(Of(0).IsOver(at));
  Of(0).Release(at);
  EXPECT_TRUE(Of(0).IsOver(at));
  AdmittedUse next = *Of(0).Admit(Floats(3));
  EXPECT_TRUE(Of(0).IsOver(at));
  EXPECT_FALSE(Of(0).IsOver(next));
}

TEST_F(WindowTest, ALostRankEndsEveryWaitAndIsNamed) {
  Begin(3, 2);
  AdmittedUse at = *Of(0).Admit(Floats(7));
  std::thread watch([&] { Of(0).MarkLost(2); });
  Status waited;
  while (waited.ok()) waited = Of(0).Wait(Of(0).Events(), at, In(kLong));
  watch.join();
  EXPECT_EQ(waited.code(), StatusCode::kPeerLost);
  EXPECT_NE(waited.message().find("local rank 2 "), std::string::npos) << waited.message();
  EXPECT_EQ(Of(1).Wait(Of(1).Events(), at, In(kLong)).code(), StatusCode::kPeerLost);
}

TEST_F(WindowTest, TheEndOfARankThatHasLeftIsNoLoss) {
  Begin(2, 2);
  EXPECT_EQ(Of(1).left(), 0u);
  Of(1).Leave();
  Of(0).MarkLost(1);
  EXPECT_EQ(Of(0).lost(), 0u);
}

}  // namespace
}  // namespace byteps::local
