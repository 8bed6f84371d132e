#include "src/machine/member/block_transfers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "src/machine/machine_for_test.h"

namespace byteps::machine {
namespace {

using protocol::StageVerdict;

constexpr RoundKey kTransferRound = {5, 1, 0};

// Tests with two ranks, whose parts in the window the test plays.
class BlockTransfersTest : public testing::Test {
 protected:
  struct Told {
    uint64_t entry;
    StageVerdict how;
    Status why;
  };
  static local::WindowShape Shape() {
    local::WindowShape shape;
    shape.ranks = 2;
    shape.block_bytes = 64;
    return shape;
  }
  BlockTransfers::Piece Piece(BlockTransfers::Way way, uint64_t entry) {
    BlockTransfers::Piece piece;
    piece.way = way;
    piece.owner = this;
    piece.ticket = {kTransferRound.tensor, 0, 1, entry};
    piece.key = kTransferRound;
    piece.piece_bytes = 16;
    piece.resume = [this](const protocol::PieceTicket& ticket, StageVerdict how,
                          const Status& why) { told.push_back({ticket.entry, how, why}); };
    return piece;
  }
  BlockTransfers::Piece Collects(std::vector<std::byte>& to, uint64_t entry = 1) {
    BlockTransfers::Piece piece = Piece(BlockTransfers::Way::kCollect, entry);
    piece.to = to;
    return piece;
  }
  BlockTransfers::Piece Spreads(const std::vector<std::byte>& from, uint64_t entry = 1) {
    BlockTransfers::Piece piece = Piece(BlockTransfers::Way::kSpread, entry);
    piece.from = from;
    return piece;
  }
  static TransferRound Round(RankSet ranks) {
    TransferRound round;
    round.ranks = round.bring = ranks;
    round.type = DataType::kUint8;
    return round;
  }
  std::optional<local::AdmittedUse> NextUse(uint32_t rank) {
    auto next = window.of(rank).NextAfter(last[rank]);
    if (!next.ok() || !next.value().has_value()) return std::nullopt;
    last[rank] = next.value()->number;
    return *next.value();
  }
  void FillAll(const local::AdmittedUse& at) {
    for (uint32_t rank : {0u, 1u}) {
      if (!Has(at.use.bring, rank)) continue;
      std::ranges::fill(window.of(rank).Part(at), static_cast<std::byte>(rank + 1));
      window.of(rank).Filled(at);
    }
    while (window.of(0).SumShare(at)) {
    }
  }

  WindowForTest window{Shape()};
  BlockTransfers transfers{window.of(0)};
  uint64_t last[2] = {0, 0};
  std::vector<Told> told;
};

TEST_F(BlockTransfersTest, WhatIsPushedWaitsForAllAndIsTheirSum) {
  std::vector<std::byte> sum(16);
  EXPECT_TRUE(transfers.Begin(Collects(sum)));
  EXPECT_FALSE(transfers.Admit()) << "not all have begun the round";
  transfers.Open(kTransferRound, Round(0b11));
  EXPECT_TRUE(transfers.Admit());
  auto at = NextUse(1);
  ASSERT_TRUE(at.has_value());
  FillAll(*at);
  ASSERT_EQ(window.of(0).decision(*at), local::Decision::kSum);
  transfers.Take(*at, true, window.of(0).ResultOf(*at));
  EXPECT_EQ(sum, std::vector<std::byte>(16, std::byte{3}));
  EXPECT_TRUE(told.empty()) << "lanes are told of all that has ended at once";
  transfers.Resume();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].how, StageVerdict::kDone);
}

TEST_F(BlockTransfersTest, GapsOfRanksThatHaveJoinedAreMarked) {
  std::vector<std::byte> table(16, std::byte{9});
  TransferRound round = Round(0b10);
  round.how = Combine::kOverlay;
  round.parts = {{8, 4}};
  transfers.Open(kTransferRound, round);
  EXPECT_TRUE(transfers.Begin(Collects(table)));
  EXPECT_TRUE(transfers.Admit());
  auto at = NextUse(0);
  ASSERT_TRUE(at.has_value()) << "the carrier takes part in every use";
  FillAll(*at);
  transfers.Take(*at, true, window.of(0).ResultOf(*at));
  std::vector<std::byte> expected(16, std::byte{0xff});
  std::fill_n(expected.begin() + 8, 4, std::byte{2});
  EXPECT_EQ(table, expected);
}

// Rank 1 is the home of the piece: it alone fills the block, and reads the answer.
TEST_F(BlockTransfersTest, HomesBringWhatTheirGroupHasReduced) {
  transfers.SetGroups({{{0, 1}, {0, 1}}});
  TransferRound round = Round(0b11);
  round.by_group = GroupRound{0, 0, DataType::kUint8, Combine::kSum, {{1, 16}}};
  std::vector<std::byte> sum(16);
  transfers.Open(kTransferRound, round);
  EXPECT_TRUE(transfers.Begin(Collects(sum)));
  EXPECT_FALSE(transfers.Admit()) << "the unit is not reduced";
  const auto reduce = transfers.TakeLaunches();
  ASSERT_EQ(reduce.size(), 1u);
  EXPECT_EQ(reduce[0].first, 0b11u);
  EXPECT_EQ(reduce[0].second.kind, device::Launch::Kind::kReduce);
  transfers.OnLaunchEnd();
  EXPECT_TRUE(transfers.Admit());
  auto at = NextUse(1);
  ASSERT_TRUE(at.has_value());
  EXPECT_EQ(at->use.bring, 0b10u);
  EXPECT_EQ(at->use.ranks, 0b11u) << "the carrier takes part in every use";
  EXPECT_TRUE(IsByGroup(at->use));
  EXPECT_EQ(KeyOfTransfer(at->use), kTransferRound);
  EXPECT_FALSE(transfers.IsHome(at->use));
  FillAll(*at);
  transfers.Take(*at, true, window.of(0).ResultOf(*at));
  EXPECT_EQ(sum, std::vector<std::byte>(16, std::byte{2}));
  for (uint32_t rank : {0u, 1u}) window.of(rank).Release(*at);
  EXPECT_TRUE(transfers.Begin(Spreads(sum)));
  EXPECT_TRUE(transfers.Admit());
  at = NextUse(1);
  ASSERT_TRUE(at.has_value());
  EXPECT_TRUE(IsByGroup(at->use));
  ASSERT_TRUE(transfers.Fill(*at, window.of(0).Part(*at)));
  window.of(0).Filled(*at);
  EXPECT_TRUE(transfers.TakeLaunches().empty()) << "the answer is not at its home";
  for (uint32_t rank : {0u, 1u}) window.of(rank).Release(*at);
  EXPECT_TRUE(transfers.Admit());
  const auto gather = transfers.TakeLaunches();
  ASSERT_EQ(gather.size(), 1u);
  EXPECT_EQ(gather[0].second.kind, device::Launch::Kind::kGather);
}

TEST_F(BlockTransfersTest, NoLaunchFollowsTheEndOfGroups) {
  transfers.SetGroups({{{0, 1}, {0.5, 0.5}}});
  TransferRound round = Round(0b11);
  round.by_group = GroupRound{0, 0, DataType::kUint8, Combine::kSum, {{1, 16}}};
  transfers.Open(kTransferRound, round);
  transfers.StopLaunches();
  EXPECT_TRUE(transfers.TakeLaunches().empty());
}

TEST_F(BlockTransfersTest, AnAnswerIsOverWhenAllHaveReadIt) {
  std::vector<std::byte> answer(16, std::byte{7});
  EXPECT_FALSE(transfers.Begin(Spreads(answer))) << "there is no round";
  transfers.Open(kTransferRound, Round(0b11));
  EXPECT_TRUE(transfers.Begin(Spreads(answer)));
  EXPECT_TRUE(transfers.Admit());
  auto at = NextUse(1);
  ASSERT_TRUE(at.has_value());
  EXPECT_NE(at->use.generation & kSpreads, 0u);
  EXPECT_EQ(KeyOfTransfer(at->use), kTransferRound);
  ASSERT_TRUE(transfers.Fill(*at, window.of(0).Part(*at)));
  window.of(0).Filled(*at);
  EXPECT_TRUE(std::ranges::equal(window.of(1).ResultOf(*at), answer));
  window.of(0).Release(*at);
  EXPECT_FALSE(transfers.Admit());
  transfers.Resume();
  EXPECT_TRUE(told.empty());
  window.of(1).Release(*at);
  EXPECT_TRUE(transfers.Admit());
  transfers.Resume();
  EXPECT_EQ(told.size(), 1u);
}

TEST_F(BlockTransfersTest, WithoutARoundAnswersAreOverAndWhatIsPushedWaits) {
  std::vector<std::byte> bytes(16);
  transfers.Open(kTransferRound, Round(0b11));
  EXPECT_TRUE(transfers.Begin(Collects(bytes, 1)));
  EXPECT_TRUE(transfers.Begin(Spreads(bytes, 2)));
  transfers.Close(kTransferRound);
  EXPECT_TRUE(transfers.Admit());
  transfers.Resume();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].entry, 2u);
}

TEST_F(BlockTransfersTest, WhatIsCalledOffIsNotTouchedAndNotTold) {
  std::vector<std::byte> sum(16);
  std::vector<std::byte> answer(16, std::byte{7});
  transfers.Open(kTransferRound, Round(0b11));
  EXPECT_TRUE(transfers.Begin(Collects(sum, 1)));
  EXPECT_TRUE(transfers.Begin(Spreads(answer, 2)));
  EXPECT_TRUE(transfers.Begin(Collects(sum, 3)));
  EXPECT_TRUE(transfers.Admit());
  auto first = NextUse(0);
  auto second = NextUse(0);
  ASSERT_TRUE(first.has_value() && second.has_value());
  transfers.CallOff(Collects(sum, 1).ticket);
  transfers.CallOffAll(this);
  FillAll(*first);
  transfers.Take(*first, true, window.of(0).ResultOf(*first));
  EXPECT_FALSE(transfers.Fill(*second, window.of(0).Part(*second)));
  transfers.Resume();
  EXPECT_EQ(sum, std::vector<std::byte>(16));
  EXPECT_TRUE(told.empty());
}

TEST_F(BlockTransfersTest, ARankThatWithdrawsFailsThePiece) {
  std::vector<std::byte> sum(16);
  transfers.Open(kTransferRound, Round(0b11));
  EXPECT_TRUE(transfers.Begin(Collects(sum)));
  EXPECT_TRUE(transfers.Admit());
  auto at = NextUse(1);
  ASSERT_TRUE(at.has_value() && window.of(1).Withdraw(*at));
  transfers.Take(*at, false, {});
  transfers.Resume();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].how, StageVerdict::kFailed);
}

// A rank cannot fill its part, so nobody else decides the block.
TEST_F(BlockTransfersTest, ARoundThatIsBrokenOffEndsWhatIsToBePushed) {
  const Status why(StatusCode::kUnavailable, "a copy has failed");
  std::vector<std::byte> sum(16);
  std::vector<std::byte> answer(16, std::byte{7});
  transfers.Open(kTransferRound, Round(0b11));
  EXPECT_TRUE(transfers.Begin(Collects(sum, 1)));
  EXPECT_TRUE(transfers.Begin(Spreads(answer, 2)));
  EXPECT_TRUE(transfers.Admit());
  auto collected = NextUse(0);
  auto spread = NextUse(0);
  ASSERT_TRUE(collected.has_value() && spread.has_value());
  transfers.BreakOff(kTransferRound, why);
  EXPECT_TRUE(transfers.Begin(Collects(sum, 3)));
  transfers.Admit();
  EXPECT_EQ(window.of(1).decision(*collected), local::Decision::kError);
  EXPECT_EQ(window.of(1).decision(*spread), local::Decision::kOpen) << "an answer counts";
  transfers.Take(*collected, false, {});
  transfers.Resume();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].entry, 3u) << "it gets no block";
  for (const Told& one : told) {
    EXPECT_EQ(one.how, StageVerdict::kFailed);
    EXPECT_EQ(one.why, why);
  }
  transfers.Close(kTransferRound);
  transfers.Open(kTransferRound, Round(0b11));
  EXPECT_TRUE(transfers.Begin(Collects(sum, 4)));
  EXPECT_TRUE(transfers.Admit());
  EXPECT_TRUE(NextUse(0).has_value()) << "another round of this key gets blocks";
}

TEST_F(BlockTransfersTest, WhatHasNoBytesOnlyWaitsForTheRound) {
  std::vector<std::byte> nothing;
  EXPECT_TRUE(transfers.Begin(Collects(nothing)));
  EXPECT_FALSE(transfers.Admit());
  transfers.Open(kTransferRound, Round(0b11));
  EXPECT_TRUE(transfers.Admit());
  transfers.Resume();
  transfers.Resume();
  EXPECT_EQ(told.size(), 1u) << "once";
  EXPECT_FALSE(transfers.Begin(Collects(nothing, 2))) << "it goes on at once";
  transfers.Close(kTransferRound);
  EXPECT_TRUE(transfers.Begin(Collects(nothing, 3)));
}

}  // namespace
}  // namespace byteps::machine
