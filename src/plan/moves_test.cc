#include "src/plan/moves.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "src/plan/piece_assigner.h"

namespace byteps::plan {
namespace {

constexpr uint32_t kPieceBytes = 32768;

std::vector<uint32_t> AnyWeights(uint32_t count) {
  std::vector<uint32_t> weights(count);
  for (uint32_t& weight : weights) weight = *rc::gen::inRange<uint32_t>(0, 1000);
  weights[*rc::gen::inRange<uint32_t>(0, count)] += 1;
  return weights;
}

// Returns how many of the `pieces` pieces of a tensor each shard has, if they were dealt by
// `dealt`.
std::vector<uint32_t> CountPlaces(const std::vector<uint32_t>& dealt, const Moves& moves,
                                  TensorId tensor, uint32_t pieces) {
  PieceAssigner dealer = PieceAssigner::Create(dealt, kPieceBytes).value();
  std::vector<uint32_t> counts(dealt.size());
  for (uint32_t piece = 0; piece < pieces; ++piece) {
    ++counts[moves.PlaceOf(dealer.Next(kPieceBytes), tensor, piece)];
  }
  return counts;
}

double PartOf(const std::vector<uint32_t>& weights, size_t shard) {
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  return weights[shard] / total;
}

TEST(MovesTest, EqualProportionsMoveNothing) {
  for (const Moves& moves : {Moves(), Moves({{1, 2, 3}}, {{2, 4, 6}}), Moves({{1, 1}}, {{0, 0}})}) {
    for (uint32_t piece = 0; piece < 100; ++piece) EXPECT_EQ(moves.PlaceOf(1, 7, piece), 1u);
  }
}

TEST(MovesTest, OnlyAShardThatLosesWeightGivesAndOnlyOneThatGainsTakes) {
  const Moves moves(std::vector<uint32_t>{4, 4, 4, 4}, std::vector<uint32_t>{2, 4, 4, 6});
  for (uint32_t piece = 0; piece < 1000; ++piece) {
    const ShardId place = moves.PlaceOf(0, 3, piece);
    EXPECT_TRUE(place == 0 || place == 3) << place;
    for (ShardId home : {1U, 2U, 3U}) EXPECT_EQ(moves.PlaceOf(home, 3, piece), home);
  }
}

TEST(MovesTest, AShardOfNoWeightGivesAll) {
  const Moves moves(std::vector<uint32_t>{1, 1, 1}, std::vector<uint32_t>{0, 1, 1});
  uint32_t second = 0;
  for (uint32_t piece = 0; piece < 1000; ++piece) {
    const ShardId place = moves.PlaceOf(0, 3, piece);
    ASSERT_NE(place, 0u);
    if (place == 1) ++second;
  }
  EXPECT_NEAR(second, 500, 10);
}

TEST(MovesTest, OneOfFourAtAQuarterIsRightToAFewPieces) {
  const std::vector<uint32_t> dealt(4, 1);
  const std::vector<uint32_t> wanted = {25, 100, 100, 100};
  for (TensorId tensor = 0; tensor < 50; ++tensor) {
    std::vector<uint32_t> counts = CountPlaces(dealt, {dealt, wanted}, tensor, 3000);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(counts[i], 3000 * PartOf(wanted, i), 12) << i;
  }
}

// Tests many tensors of one piece each.
TEST(MovesTest, SmallTensorsAreSpreadAsPiecesAre) {
  const std::vector<uint32_t> dealt(4, 1);
  const std::vector<uint32_t> wanted = {50, 100, 100, 100};
  const Moves moves(dealt, wanted);
  std::vector<uint32_t> counts(4);
  for (TensorId tensor = 0; tensor < 2000; ++tensor) ++counts[moves.PlaceOf(tensor % 4, tensor, 0)];
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(counts[i], 2000 * PartOf(wanted, i), 12) << i;
}

// Tests pieces that were dealt equally, as in a job without declared links.
RC_GTEST_PROP(MovesTest, EveryShardGetsItsPartOfEqualPieces, ()) {
  const auto count = *rc::gen::inRange<uint32_t>(2, 12);
  const std::vector<uint32_t> dealt(count, 1);
  const std::vector<uint32_t> wanted = AnyWeights(count);
  const auto tensor = *rc::gen::inRange<TensorId>(0, 100000);
  constexpr uint32_t kPieces = 4000;
  std::vector<uint32_t> counts = CountPlaces(dealt, {dealt, wanted}, tensor, kPieces);
  for (size_t i = 0; i < count; ++i) {
    RC_ASSERT(std::abs(counts[i] - kPieces * PartOf(wanted, i)) <= kPieces * 0.01);
  }
}

// With some weights the dealer and the sequence keep step for long, so a part goes to other shards.
RC_GTEST_PROP(MovesTest, EveryShardGetsAboutItsPartOfOthers, ()) {
  const auto count = *rc::gen::inRange<uint32_t>(2, 12);
  const std::vector<uint32_t> dealt = AnyWeights(count);
  const std::vector<uint32_t> wanted = AnyWeights(count);
  const auto tensor = *rc::gen::inRange<TensorId>(0, 100000);
  constexpr uint32_t kPieces = 4000;
  std::vector<uint32_t> counts = CountPlaces(dealt, {dealt, wanted}, tensor, kPieces);
  for (size_t i = 0; i < count; ++i) {
    RC_ASSERT(std::abs(counts[i] - kPieces * PartOf(wanted, i)) <= kPieces * 0.2);
  }
}

}  // namespace
}  // namespace byteps::plan
