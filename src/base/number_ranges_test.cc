#include "src/base/number_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace byteps {
namespace {

TEST(NumberRangesTest, HasWhatWasInsertedAndNothingElse) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    NumberRanges ranges;
    std::set<uint32_t> numbers;
    for (int i = 0; i < 60; ++i) {
      uint32_t number = random() % 40;
      if (random() % 16 == 0) number += UINT32_MAX - 39;
      ranges.Insert(number);
      numbers.insert(number);
      size_t expected = 0;
      for (uint32_t one : numbers) {
        if (one == 0 || !numbers.contains(one - 1)) ++expected;
      }
      ASSERT_EQ(ranges.range_count(), expected) << "seed " << seed;
    }
    for (uint32_t one = 0; one < 42; ++one) {
      ASSERT_EQ(ranges.Contains(one), numbers.contains(one)) << "seed " << seed;
      ASSERT_EQ(ranges.Contains(UINT32_MAX - one), numbers.contains(UINT32_MAX - one));
    }
  }
}

TEST(NumberRangesTest, NumbersThatGoOneByOneAreOneRange) {
  NumberRanges ranges;
  for (uint32_t number = 1; number <= 100'000; ++number) ranges.Insert(number);
  EXPECT_EQ(ranges.range_count(), 1U);
  ranges.Clear();
  EXPECT_FALSE(ranges.Contains(1));
}

}  // namespace
}  // namespace byteps
