#include "src/protocol/worker/lane/pieces.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

class PiecesTest : public testing::Test {
 protected:
  PiecesTest() {
    exchange.tensor.id = 7;
    exchange.count = 4;
    exchange.homes = &homes;
    Own({true, true, true, true});
  }

  // Says which shards live.
  void Own(const std::vector<bool>& alive) {
    std::vector<plan::ShardState> shards;
    for (bool one : alive) shards.push_back({1, one, one ? 1U : 2U});
    for (Pieces* pieces : {&even, &odd}) pieces->SetOwnership({shards, 1});
  }

  static std::vector<uint32_t> Here(const LaneTensor& tensor) {
    std::vector<uint32_t> here;
    for (uint32_t number = 0; number < tensor.pieces.size(); ++number) {
      if (tensor.pieces[number].step != PieceStep::kAway) here.push_back(number);
    }
    return here;
  }

  std::vector<ShardId> homes = {0, 1, 2, 3};
  Exchange exchange;
  Pieces even{0, 2};
  Pieces odd{1, 2};
};

TEST_F(PiecesTest, EachPieceIsInTheLaneOfItsOwner) {
  LaneTensor& a = even.FindOrAdd(exchange.tensor);
  LaneTensor& b = odd.FindOrAdd(exchange.tensor);
  even.Meet(a, exchange);
  odd.Meet(b, exchange);
  EXPECT_EQ(Here(a), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(Here(b), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(a.pieces[2].owner, 2U);
  EXPECT_EQ(a.pieces[2].since, 1U);
}

TEST_F(PiecesTest, AForgottenTensorGoesWithItsVerdicts) {
  LaneTensor& tensor = even.FindOrAdd(exchange.tensor);
  even.Meet(tensor, exchange);
  tensor.pieces[0].held.round = 3;
  even.Retire(7);
  EXPECT_EQ(even.Find(7), &tensor) << "others may lack its verdict";
  even.Forget(7);
  EXPECT_EQ(even.Find(7), nullptr);
  EXPECT_TRUE(even.all().empty());
}

TEST_F(PiecesTest, WithoutALivingShardItIsInTheLaneOfItsHome) {
  Own({false, false, false, false});
  LaneTensor& tensor = odd.FindOrAdd(exchange.tensor);
  odd.Meet(tensor, exchange);
  EXPECT_EQ(Here(tensor), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(tensor.pieces[1].owner, kNoShard);
}

TEST_F(PiecesTest, WhenItsHomeDiesOneLaneCarriesItAndBothSayWhich) {
  Own({true, false, true, true});
  LaneTensor& a = even.FindOrAdd(exchange.tensor);
  LaneTensor& b = odd.FindOrAdd(exchange.tensor);
  even.Meet(a, exchange);
  odd.Meet(b, exchange);
  EXPECT_EQ(Here(a).size() + Here(b).size(), 4U);
  EXPECT_EQ(even.LaneOf(a.pieces[1]), odd.LaneOf(b.pieces[1]));
  EXPECT_EQ(b.pieces[1].since, 2U);
  EXPECT_NE(b.pieces[1].owner, 1U);
}

TEST_F(PiecesTest, AShorterCutKeepsWhatItKnew) {
  LaneTensor& tensor = even.FindOrAdd(exchange.tensor);
  even.Meet(tensor, exchange);
  tensor.pieces[2].held.round = 256;
  exchange.count = 1;
  even.Meet(tensor, exchange);
  EXPECT_EQ(tensor.pieces.size(), 4U);
  EXPECT_EQ(tensor.pieces[2].held.round, 256U);
}

TEST_F(PiecesTest, WhatIsRetiredIsUnknown) {
  LaneTensor& tensor = even.FindOrAdd(exchange.tensor);
  EXPECT_EQ(&even.FindOrAdd(exchange.tensor), &tensor);
  EXPECT_EQ(even.Find(7), &tensor);
  even.Retire(7);
  EXPECT_EQ(even.Find(7), nullptr);
  EXPECT_TRUE(even.all().empty());
}

TEST_F(PiecesTest, WhatIsRetiredStaysIfItHasAVerdict) {
  LaneTensor& tensor = even.FindOrAdd(exchange.tensor);
  even.Meet(tensor, exchange);
  HeldVerdict& held = tensor.pieces[2].held;
  held.round = 256;
  held.stable = false;
  EXPECT_TRUE(tensor.HoldsUnstable());
  even.Retire(7);
  held.stable = true;
  EXPECT_FALSE(tensor.HoldsUnstable());
  even.EraseEmpty();
  EXPECT_EQ(even.Find(7), &tensor);
  tensor.pieces[2] = LanePiece();  // another lane has it
  even.EraseEmpty();
  EXPECT_EQ(even.Find(7), nullptr);
  EXPECT_TRUE(even.all().empty());
}

TEST(LaneTensorTest, APieceIsExpectedWhileItWaitsForItsVerdictInThisRound) {
  Exchange exchange;
  exchange.count = 2;
  const PiecePath path{{nullptr}, {}};  // the exchange comes second
  LaneTensor tensor;
  tensor.path = &path;
  tensor.pieces.resize(3);
  LanePiece& piece = tensor.pieces[0];
  piece.step = PieceStep::kUnderWay;
  piece.at = 1;
  piece.round = 256;
  EXPECT_FALSE(tensor.IsExpected({7, 0, 256})) << "no exchange is going on";
  tensor.exchange = &exchange;
  EXPECT_TRUE(tensor.IsExpected({7, 0, 256}));
  EXPECT_FALSE(tensor.IsExpected({7, 0, 257})) << "another attempt";
  EXPECT_FALSE(tensor.IsExpected({7, 1, 256})) << "in another lane";
  EXPECT_FALSE(tensor.IsExpected({7, 2, 256})) << "of an earlier cut";
  EXPECT_FALSE(tensor.IsExpected({7, 3, 256})) << "there is none";
  piece.at = 0;
  EXPECT_FALSE(tensor.IsExpected({7, 0, 256})) << "a stage before the exchange";
  EXPECT_TRUE(tensor.HasCredit(piece));
  piece.at = 2;
  EXPECT_FALSE(tensor.IsExpected({7, 0, 256})) << "a stage behind it";
  EXPECT_FALSE(tensor.HasCredit(piece));
}

}  // namespace
}  // namespace byteps::protocol
