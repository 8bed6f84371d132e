#include "src/plan/follows_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <span>
#include <utility>

#include "src/base/sum_place.h"
#include "src/plan/random_layout_for_test.h"

namespace byteps::plan {
namespace {

using Contributors = std::vector<Summands>;

constexpr size_t kElements = 64;
using Vector = std::array<float, kElements>;
struct Leaf {
  uint32_t place = 0;
  Vector value{};
};

// The node above all leaves, which come by ascending place: the definition, as a recursion.
Vector TreeSum(std::span<const Leaf> leaves) {
  if (leaves.size() == 1) return leaves[0].value;
  const uint32_t height = LevelOf(leaves.front().place, leaves.back().place);
  const auto right = std::ranges::find_if(leaves, [&](const Leaf& leaf) {
    return (leaf.place >> (height - 1)) != (leaves.front().place >> (height - 1));
  });
  const auto split = static_cast<size_t>(right - leaves.begin());
  Vector sum = TreeSum(leaves.first(split));
  const Vector other = TreeSum(leaves.subspan(split));
  for (size_t i = 0; i < kElements; ++i) sum[i] += other[i];
  return sum;
}

TEST(FollowsRanksTest, TellsEqualFromDifferentBitsInBothDirections) {
  std::mt19937 random(47);
  std::normal_distribution<float> gradient;
  size_t equal = 0, different = 0;
  for (int i = 0; i < 20000; ++i) {
    const RandomLayout one = DealAtRandom(random);
    if (one.contributors.empty()) continue;
    std::vector<Leaf> all, sums;
    for (const Summands& ranks : one.contributors) {
      std::vector<Leaf> own;
      for (const uint32_t rank : ranks) {
        own.push_back({PlaceOf(rank, one.group), {}});
        for (float& value : own.back().value) value = gradient(random);
      }
      sums.push_back({own.front().place, TreeSum(own)});
      all.insert(all.end(), own.begin(), own.end());
    }
    std::ranges::sort(all, {}, &Leaf::place);
    std::ranges::sort(sums, {}, &Leaf::place);
    const bool same = TreeSum(all) == TreeSum(sums);
    const bool said = BitsOf(one.contributors, {one.group, true}) == SumBits::kOnNothingElse;
    ASSERT_EQ(said, same) << "case " << i;
    ++(same ? equal : different);
  }
  EXPECT_GT(equal, 4000u);
  EXPECT_GT(different, 4000u);
}

// Returns machines of these sizes, one after the other.
Contributors Machines(std::initializer_list<uint32_t> sizes) {
  Contributors made;
  uint32_t rank = 0;
  for (const uint32_t size : sizes) {
    made.emplace_back();
    for (uint32_t i = 0; i < size; ++i) made.back().push_back(rank++);
  }
  return made;
}

SumBits Bits(const Contributors& contributors, uint32_t group = 1) {
  return BitsOf(contributors, {group, true});
}

TEST(FollowsRanksTest, LayoutsOfBlocks) {
  for (const Contributors& blocks :
       {Machines({1, 1, 1, 1, 1}), Machines({2, 2, 2, 2}), Machines({4, 4}), Machines({5}),
        Machines({4, 2, 1, 1}), Machines({4, 4, 3}), Machines({1, 1, 2, 4}), Machines({2, 1})}) {
    EXPECT_EQ(Bits(blocks), SumBits::kOnNothingElse);
  }
  for (const Contributors& others :
       {Machines({3, 3, 2}), Machines({4, 3, 1}), Machines({1, 2}), Contributors{{0, 2}, {1, 3}}}) {
    EXPECT_EQ(Bits(others), SumBits::kOnPlacement);
  }
  EXPECT_EQ(Bits(Machines({3, 3, 2}), 3), SumBits::kOnNothingElse);
  EXPECT_EQ(Bits(Machines({6, 6, 3}), 3), SumBits::kOnNothingElse);
  EXPECT_EQ(Bits(Machines({12, 12}), 3), SumBits::kOnNothingElse);
  EXPECT_EQ(Bits({{}, {0, 1}, {2}}), SumBits::kOnNothingElse) << "a machine outside of the set";
}

TEST(FollowsRanksTest, ASetHasTheBlocksOfTheJobAndNotItsOwn) {
  EXPECT_EQ(Bits({{1}, {4, 5}, {6}}), SumBits::kOnNothingElse) << "3+3+2, set {1, 4, 5, 6}";
  EXPECT_EQ(Bits({{0}, {2, 3}}), SumBits::kOnNothingElse) << "2x2 without rank 1";
  EXPECT_EQ(Bits({{2}, {3, 4}}), SumBits::kOnPlacement);
}

TEST(FollowsRanksTest, ReadsNumbersThatAreNear32Bits) {
  EXPECT_EQ(Bits({{0, UINT32_MAX}, {5}}), SumBits::kOnPlacement);
  EXPECT_EQ(Bits({{UINT32_MAX - 1, UINT32_MAX}, {5}}), SumBits::kOnNothingElse);
}

TEST(FollowsRanksTest, HalvesRoundWhereAMachinePushes) {
  EXPECT_EQ(BitsOf(Machines({2, 2}), {1, false}), SumBits::kOnMachines);
  EXPECT_EQ(BitsOf(Machines({4}), {1, false}), SumBits::kOnMachines);
  EXPECT_EQ(BitsOf(Machines({1, 1}), {1, false}), SumBits::kOnNothingElse);
  EXPECT_EQ(BitsOf(Machines({1, 2}), {1, false}), SumBits::kOnPlacement);
}

TEST(FollowsRanksTest, AResultIsOnAnyLayoutOnlyIfNothingSpeaksAgainstIt) {
  constexpr auto kAlone = SumBits::kOnNothingElse, kMachines = SumBits::kOnMachines,
                 kPlacement = SumBits::kOnPlacement;
  for (const Combine how : {Combine::kSum, Combine::kAverage, Combine::kProduct}) {
    EXPECT_TRUE(IsOnAnyLayout(kAlone, how, DataType::kBfloat16, false));
    EXPECT_FALSE(IsOnAnyLayout(kMachines, how, DataType::kFloat16, false));
    EXPECT_TRUE(IsOnAnyLayout(kMachines, how, DataType::kFloat64, false));
    EXPECT_FALSE(IsOnAnyLayout(kPlacement, how, DataType::kFloat32, false));
    EXPECT_TRUE(IsOnAnyLayout(kPlacement, how, DataType::kInt32, false));
    EXPECT_FALSE(IsOnAnyLayout(kAlone, how, DataType::kFloat32, true)) << "a codec rounds";
  }
  EXPECT_TRUE(IsOnAnyLayout(kPlacement, Combine::kMax, DataType::kFloat16, false));
  EXPECT_FALSE(IsOnAnyLayout(kPlacement, Combine::kMax, DataType::kFloat16, true));
  EXPECT_TRUE(IsOnAnyLayout(kPlacement, Combine::kOverlay, DataType::kFloat32, false));
  EXPECT_FALSE(IsOnAnyLayout(kAlone, Combine::kLast, DataType::kInt64, false)) << "who came last";
  EXPECT_TRUE(IsOnAnyLayout(kAlone, Combine::kSum, DataType::kInt64, false));
  EXPECT_FALSE(IsOnAnyLayout(kAlone, Combine::kAverage, DataType::kInt64, false));
  EXPECT_TRUE(FollowsRanks(kAlone, Combine::kAverage, DataType::kInt64, false));
}

std::string Text(const Contributors& contributors, SumRules rules = {}) {
  return DescribeSums(contributors, rules).text;
}

TEST(FollowsRanksTest, SaysWhatHelpsThisLayout) {
  EXPECT_EQ(Text(Machines({1, 1})), "sums depend on ranks alone");
  EXPECT_EQ(Text(Machines({2, 2}), {1, true}), "sums depend on ranks alone");
  EXPECT_EQ(Text(Machines({2, 2})),
            "sums of float16 and bfloat16 depend on which ranks share a machine "
            "(BYTEPS_SAME_BITS=1 ends that)");
  EXPECT_EQ(Text(Machines({3, 3})),
            "sums of floats depend on placement: ranks 0-2 and 3-5 are no blocks; set "
            "BYTEPS_SUM_GROUP=3 for all workers");
  EXPECT_EQ(
      Text(Machines({6, 6, 6, 6})),
      "sums of floats depend on placement: ranks 0-5 and those of 3 machines are no blocks; set "
      "BYTEPS_SUM_GROUP=3 for all workers");
  EXPECT_EQ(Text(Machines({1, 2})),
            "sums of floats depend on placement: ranks 1, 2 are no blocks; put larger machines "
            "first");
  EXPECT_EQ(Text({{0, 2}, {1, 3}}),
            "sums of floats depend on placement: ranks 0, 2 and 1, 3 are no blocks; give each "
            "machine ranks that follow one another (mpirun: --map-by slot)");
  EXPECT_EQ(Text({{0, 2, 4}, {1, 3, 5}}),
            "sums of floats depend on placement: ranks 0, 2, 4 and 1, 3, 5 are no blocks; give "
            "each machine ranks that follow one another (mpirun: --map-by slot), and set "
            "BYTEPS_SUM_GROUP=3 for all workers");
  EXPECT_EQ(
      Text({{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}, {1, 3, 5, 7, 9, 11, 13, 15, 17, 19}}),
      "sums of floats depend on placement: ranks 0, 2, 4, 6, 8, 10, 12, 14 and more and 1, "
      "3, 5, 7, 9, 11, 13, 15 and more are no blocks; give each machine ranks that follow one "
      "another (mpirun: --map-by slot), and set BYTEPS_SUM_GROUP=5 for all workers");
  EXPECT_EQ(Text(Machines({4, 3, 1})),
            "sums of floats depend on placement: ranks 4-6 are no blocks; set "
            "BYTEPS_LOCAL_REDUCE=0 for all workers, so that each of them pushes by itself");
  EXPECT_EQ(Text(Machines({4, 4}), {3}),
            "sums of floats depend on placement: ranks 0-3 and 4-7 are no blocks; set "
            "BYTEPS_SUM_GROUP=1 for all workers");
  EXPECT_EQ(RefusalOf(DescribeSums(Machines({1, 2}), {1, true})),
            "BYTEPS_SAME_BITS=1 allows only sums that depend on ranks alone, but sums of floats "
            "depend on placement: ranks 1, 2 are no blocks; put larger machines first");
}

// A layout that is changed as the text says is one of blocks.
TEST(FollowsRanksTest, TheGroupThatItNamesHelps) {
  for (uint32_t size = 2; size < 40; ++size) {
    const Contributors machines = Machines({size, size, size, size});
    const std::string text = Text(machines), before = "BYTEPS_SUM_GROUP=";
    const size_t at = text.find(before);
    if (at == std::string::npos) {
      EXPECT_TRUE(std::has_single_bit(size)) << text;
      continue;
    }
    const auto group = static_cast<uint32_t>(std::stoul(text.substr(at + before.size())));
    EXPECT_EQ(Bits(machines, group), SumBits::kOnNothingElse) << text;
  }
}

}  // namespace
}  // namespace byteps::plan
