// Tests that the condition of plan/follows_ranks.h tells equal from different bits of sums that the
// kernels make: inside of each contributor first, then between contributors by their lowest places.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <vector>

#include "src/base/sum_place.h"
#include "src/kernels/kernels.h"
#include "src/plan/follows_ranks.h"
#include "src/plan/random_layout_for_test.h"

namespace byteps {
namespace {

constexpr size_t kElements = 64;
using Vector = std::array<float, kElements>;
struct Input {
  uint32_t place = 0;
  Vector value{};
};

Vector SumOf(std::vector<Input> inputs) {
  std::ranges::sort(inputs, {}, &Input::place);
  std::vector<uint32_t> places;
  std::vector<const std::byte*> pointers;
  for (const Input& one : inputs) {
    places.push_back(one.place);
    pointers.push_back(reinterpret_cast<const std::byte*>(one.value.data()));
  }
  Vector sum;
  kernels::Combine(Combine::kSum, DataType::kFloat32, reinterpret_cast<std::byte*>(sum.data()),
                   pointers, kernels::SumTree(places), kElements);
  return sum;
}

TEST(LayoutSums, TheConditionTellsEqualFromDifferentBitsInBothDirections) {
  std::mt19937 random(47);
  std::normal_distribution<float> gradient;
  size_t equal = 0, different = 0;
  for (int i = 0; i < 20000; ++i) {
    const plan::RandomLayout one = plan::DealAtRandom(random);
    if (one.contributors.empty()) continue;
    std::vector<Input> all, pushed;
    for (const plan::Summands& ranks : one.contributors) {
      std::vector<Input> own;
      for (const uint32_t rank : ranks) {
        own.push_back({PlaceOf(rank, one.group), {}});
        for (float& value : own.back().value) value = gradient(random);
      }
      all.insert(all.end(), own.begin(), own.end());
      pushed.push_back({own.front().place, SumOf(own)});
    }
    const bool same = SumOf(all) == SumOf(pushed);
    const plan::SumBits bits = plan::BitsOf(one.contributors, {one.group, true});
    ASSERT_EQ(bits == plan::SumBits::kOnNothingElse, same) << "case " << i;
    ++(same ? equal : different);
  }
  EXPECT_GT(equal, 4000u);
  EXPECT_GT(different, 4000u);
}

}  // namespace
}  // namespace byteps
