#include "src/base/check.h"

#include <gtest/gtest.h>

namespace byteps {
namespace {

TEST(CheckTest, WhatIsTrueGoesOn) {
  int looked = 0;
  BYTEPS_CHECK(++looked == 1);
  EXPECT_EQ(looked, 1) << "it is looked at once, in every build";
}

TEST(CheckDeathTest, WhatIsNotTrueEndsTheProcessWithItsPlace) {
  int two = 2;
  EXPECT_DEATH(BYTEPS_CHECK(two == 3), "check_test.cc:[0-9]+: a bug: not true: two == 3");
}

}  // namespace
}  // namespace byteps
