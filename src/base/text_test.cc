#include "src/base/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace byteps {
namespace {

TEST(CutTextTest, ShortTextsStay) {
  EXPECT_EQ(CutText("", 0), "");
  EXPECT_EQ(CutText("three", 5), "three");
}

TEST(CutTextTest, NoCharacterIsCutInTwo) {
  const std::string_view text = "a\u00e9\u20ac\U0001f600z";  // 1, 2, 3, 4 and 1 bytes
  const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
  for (size_t bytes = 0; bytes < std::size(expected); ++bytes) {
    EXPECT_EQ(CutText(text, bytes), text.substr(0, expected[bytes])) << bytes;
  }
}

TEST(TextTest, AListIsCutWhereItGetsLong) {
  const std::vector<uint32_t> numbers = {3, 1, 4, 1, 5};
  EXPECT_EQ(ListText({}), "");
  EXPECT_EQ(ListText(numbers, 5), "3, 1, 4, 1, 5");
  EXPECT_EQ(ListText(numbers, 2), "3, 1 and 3 more");
}

TEST(TextTest, SecondsAreWhole) { EXPECT_EQ(SecondsText(milliseconds(2900)), "2 s"); }

TEST(TextTest, ADurationWithPartsOfASecondIsToldInMilliseconds) {
  EXPECT_EQ(DurationText(milliseconds(2900)), "2900 ms");
  EXPECT_EQ(DurationText(seconds(60)), "60 s");
}

}  // namespace
}  // namespace byteps
