// Contributors that speak for several ranks. Averages count ranks, not contributors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "src/protocol/shard/room_for_test.h"
#include "src/protocol/shard/shard_fixture_for_test.h"
#include "src/protocol/shard/shard_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

// The contributors have 2 ranks and 1 rank.
class ContributorsTest : public testing::TestWithParam<ShardMistake> {
 protected:
  ContributorsTest() {
    view = ViewOfContributors({2, 1});
    shard.OnView(view, 0);
  }
  void Push(Slot from, uint32_t set, const std::string& text) {
    wire::DataHeader header = PushOf({7, 0, 1}, 1, Combine::kAverage);
    header.process_set = set;
    Result<ByteSpan> place = shard.OnDataHeader(from, wire::FrameKind::kPush, header, 1, kStart);
    ASSERT_TRUE(place.ok()) << place.status().message();
    place.value()[0] = static_cast<std::byte>(text[0]);
    shard.OnPayload(from);
  }
  std::string Average() { return driver.answers.empty() ? "" : driver.answers[0].bytes; }

  wire::View view;
  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  MistakenShard mistaken{GetParam(), arithmetic, driver};
  Shard shard{mistaken.OptionsFrom({}), pool, mistaken.arithmetic(), mistaken.driver()};
};

TEST_P(ContributorsTest, AnAverageCountsRanks) {
  Push(0, 0, "\x05");
  Push(1, 0, "\x01");
  bool right = Average() == "\x02";  // 6 / 3
  EXPECT_EQ(right, GetParam() == ShardMistake::kNone);
}

INSTANTIATE_TEST_SUITE_P(All, ContributorsTest,
                         testing::Values(ShardMistake::kNone,
                                         ShardMistake::kDivisorCountsContributors));

class RightContributorsTest : public ContributorsTest {};

TEST_P(RightContributorsTest, AContributorOfASetSpeaksForItsRanksInIt) {
  for (Slot slot : {0u, 1u}) Say(shard, slot, wire::ProcessSet{4, 1, BitmapOf({1, 2})});
  Push(0, 4, "\x05");
  Push(1, 4, "\x01");
  EXPECT_EQ(Average(), "\x03") << "6 / 2";
}

TEST_P(RightContributorsTest, WhoIsLostCountsWhereItPushed) {
  Push(0, 0, "\x05");
  Lose(view, 0);
  shard.OnView(view, 0);
  Push(1, 0, "\x01");
  EXPECT_EQ(Average(), "\x02") << "6 / 3";
}

TEST_P(RightContributorsTest, WhoHasJoinedCountsWithItsRanks) {
  Say(shard, 0, wire::Joined{1, 1, {}});
  Push(1, 0, "\x09");
  EXPECT_EQ(Average(), "\x03") << "9 / 3";
}

TEST_P(RightContributorsTest, ARankThatHasLeftEndsWhatItsContributorHasNotPushed) {
  view.workers[1].left = true;
  ++view.epoch;
  shard.OnView(view, 0);
  Push(1, 0, "\x01");
  ASSERT_EQ(driver.answers.size(), 1u);
  EXPECT_EQ(driver.answers[0].header.status, StatusCode::kPeerLost);
  Push(0, 0, "\x05");
  EXPECT_EQ(driver.answers.back().to, 0u) << "rank 0 is still there";
}

INSTANTIATE_TEST_SUITE_P(All, RightContributorsTest, testing::Values(ShardMistake::kNone));

// ---- The order of sums.

constexpr float kLarge = 1e8F;  // adding 1 to it changes nothing

class OrderOfSumsTest : public testing::TestWithParam<ShardMistake> {
 protected:
  struct Pushed {
    Slot from;
    float value;
  };
  using RanksBySlot = std::vector<std::vector<uint32_t>>;
  static wire::View ViewOf(const RanksBySlot& ranks, uint32_t generation, uint32_t sum_group) {
    wire::View view = ViewFor(0, 1);
    view.epoch = view.generation = view.began = generation;
    view.sum_group = sum_group;
    for (Slot slot = 0; slot < ranks.size(); ++slot) {
      const auto count = static_cast<uint32_t>(ranks[slot].size());
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t rank = ranks[slot][i];
        view.workers.push_back({slot, rank, 100 + rank, "h", rank, i, count});
      }
    }
    return view;
  }

  // Returns the sum that a shard makes of what arrives in this order.
  float SumOf(const RanksBySlot& ranks, const std::vector<Pushed>& pushed,
              const std::vector<uint32_t>& set = {}) {
    BufferPool pool;
    KernelArithmetic arithmetic;
    RecordingShardDriver driver;
    MistakenShard mistaken(GetParam(), arithmetic, driver);
    Shard shard(mistaken.OptionsFrom({}), pool, mistaken.arithmetic(), mistaken.driver());
    shard.OnView(ViewOf(ranks, 1, sum_group), 0);
    return SumIn(shard, driver, 1, pushed, set);
  }
  // The same, in a generation of a shard.
  static float SumIn(Shard& shard, RecordingShardDriver& driver, uint32_t generation,
                     const std::vector<Pushed>& pushed, const std::vector<uint32_t>& set = {}) {
    wire::DataHeader header = PushOf({7, 0, 1}, sizeof(float));
    header.generation = generation;
    header.epoch = generation;
    header.dtype = DataType::kFloat32;
    header.process_set = set.empty() ? 0 : 4;
    driver.answers.clear();
    for (const Pushed& one : pushed) {
      if (!set.empty()) Say(shard, one.from, wire::ProcessSet{4, 1, BitmapOf(set)});
      auto place = shard.OnDataHeader(one.from, wire::FrameKind::kPush, header, 4, kStart);
      EXPECT_TRUE(place.ok()) << place.status().message();
      std::memcpy(place.value().data(), &one.value, sizeof one.value);
      shard.OnPayload(one.from);
    }
    float sum = NAN;
    EXPECT_EQ(driver.answers.size(), pushed.size());
    std::memcpy(&sum, driver.answers.at(0).bytes.data(), sizeof sum);
    return sum;
  }

  uint32_t sum_group = 1;
};

class RightOrderOfSumsTest : public OrderOfSumsTest {};

// Checks sums that depend on their order. Each mistake makes one of them wrong.
TEST_P(OrderOfSumsTest, IsTheTreeOverRanks) {
  const float right[] = {0, 3, 0, 0};
  const float sums[] = {
      // 1e8 + (1 - 1e8), where each pair is a node
      SumOf({{0}, {1}, {2}, {3}}, {{2, -kLarge}, {0, 1}, {3, 1}, {1, kLarge}}),
      // Rank 1 is a newcomer, whose slot is behind all others: ((1e8 - 1e8) + (1 + 1)) + 1.
      SumOf({{0}, {2}, {3}, {4}, {1}}, {{0, kLarge}, {1, 1}, {2, 1}, {3, 1}, {4, -kLarge}}),
      // The ranks of the set are 1, 4 and 5, 6: 1e8 + (-1e8 + 1).
      SumOf({{0, 1, 2}, {3, 4, 5}, {6, 7}}, {{0, kLarge}, {1, -kLarge}, {2, 1}}, {1, 4, 5, 6}),
      // Rank 0 is not in the set, and ranks 2 and 3 are a node all the same: 1e8 + (-1e8 + 1).
      SumOf({{0}, {1}, {2}, {3}}, {{1, kLarge}, {2, -kLarge}, {3, 1}}, {1, 2, 3})};
  const bool is_right = std::ranges::equal(sums, right);
  EXPECT_EQ(is_right, GetParam() == ShardMistake::kNone)
      << sums[0] << ", " << sums[1] << ", " << sums[2] << ", " << sums[3];
}

TEST_P(RightOrderOfSumsTest, GroupsHaveBlocksOfTheirOwn) {
  const std::vector<std::vector<uint32_t>> ranks = {{0}, {1}, {2}, {3}, {4}, {5}};
  const std::vector<Pushed> pushed = {{0, kLarge}, {1, 1}, {2, -kLarge}, {3, 1}, {4, 1}, {5, 1}};
  EXPECT_EQ(SumOf(ranks, pushed), 2) << "((1e8 + 1) + (-1e8 + 1)) + (1 + 1)";
  sum_group = 3;
  EXPECT_EQ(SumOf(ranks, pushed), 3) << "((1e8 + 1) - 1e8) + ((1 + 1) + 1)";
}

// Nothing is added to what is alone below a node.
TEST_P(RightOrderOfSumsTest, MinusZerosStay) {
  EXPECT_TRUE(std::signbit(SumOf({{0}}, {{0, -0.0F}})));
  const float some = SumOf({{0}, {1}, {2}, {3}}, {{0, -0.0F}, {2, -0.0F}, {3, -0.0F}}, {0, 2, 3});
  EXPECT_TRUE(std::signbit(some));
}

// The server stays, and the coordinator deals ranks and groups anew.
TEST_P(RightOrderOfSumsTest, AGenerationHasItsOwnPlaces) {
  const std::vector<Pushed> pushed = {{0, kLarge}, {1, 1}, {2, -kLarge}, {3, 1}};
  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  Shard shard(ShardOptions(), pool, arithmetic, driver);
  shard.OnView(ViewOf({{0}, {1}, {2}, {3}}, 1, 1), 0);
  EXPECT_EQ(SumIn(shard, driver, 1, pushed), 0) << "(1e8 + 1) + (-1e8 + 1)";
  shard.OnView(ViewOf({{0}, {2}, {1}, {3}}, 2, 1), 0);
  EXPECT_EQ(SumIn(shard, driver, 2, pushed), 2) << "(1e8 - 1e8) + (1 + 1)";
  shard.OnView(ViewOf({{0}, {1}, {2}, {3}}, 3, 3), 0);
  EXPECT_EQ(SumIn(shard, driver, 3, pushed), 1) << "((1e8 + 1) - 1e8) + 1";
}

// A server rounds each node to the type of the tensor only in a generation that wants it.
TEST_P(RightOrderOfSumsTest, AGenerationHasItsOwnNodes) {
  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  Shard shard(ShardOptions(), pool, arithmetic, driver);
  for (uint32_t generation : {1, 2, 3}) {
    wire::View view = ViewOf({{0}, {1}, {2}}, generation, 1);
    view.same_bits = generation == 2;
    shard.OnView(view, 0);
    wire::DataHeader header = PushOf({7, 0, 1}, sizeof(uint16_t));
    header.generation = generation;
    header.epoch = generation;
    header.dtype = DataType::kFloat16;
    driver.answers.clear();
    const uint16_t values[] = {0x6800, 0x3c00, 0x3c00};  // 2048, 1, 1
    for (Slot slot : {0u, 1u, 2u}) {
      auto place = shard.OnDataHeader(slot, wire::FrameKind::kPush, header, 2, kStart);
      ASSERT_TRUE(place.ok()) << place.status().message();
      std::memcpy(place.value().data(), &values[slot], sizeof values[slot]);
      shard.OnPayload(slot);
    }
    ASSERT_EQ(driver.answers.size(), 3u);
    uint16_t sum = 0;
    std::memcpy(&sum, driver.answers[0].bytes.data(), sizeof sum);
    EXPECT_EQ(sum, generation == 2 ? 0x6800 : 0x6801) << "generation " << generation;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RightOrderOfSumsTest, testing::Values(ShardMistake::kNone));

INSTANTIATE_TEST_SUITE_P(All, OrderOfSumsTest,
                         testing::Values(ShardMistake::kNone,
                                         ShardMistake::kCombineInOrderOfArrival,
                                         ShardMistake::kCombineFromLeftToRight,
                                         ShardMistake::kPlacesAreSlots,
                                         ShardMistake::kPlacesArePositionsInTheSet,
                                         ShardMistake::kPlacesAreOfLowestRanks));

}  // namespace
}  // namespace byteps::protocol
