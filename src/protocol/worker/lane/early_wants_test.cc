#include "src/protocol/worker/lane/early_wants.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

TEST(EarlyWantsTest, EachTensorTakesItsOwnOnce) {
  EarlyWants wants;
  wants.Add({7, 0, 256});
  wants.Add({8, 0, 256});
  wants.Add({7, 1, 512});
  EXPECT_EQ(wants.Take(7), (std::vector<wire::PieceRef>{{7, 0, 256}, {7, 1, 512}}));
  EXPECT_TRUE(wants.Take(7).empty());
  EXPECT_EQ(wants.Take(8), (std::vector<wire::PieceRef>{{8, 0, 256}}));
  EXPECT_TRUE(wants.Take(9).empty()) << "never heard of";
}

TEST(EarlyWantsTest, NoMoreThanTheBoundAreKeptAndTakingMakesRoom) {
  EarlyWants wants;
  for (uint32_t piece = 0; piece <= EarlyWants::kMax; ++piece) wants.Add({piece % 2, piece, 256});
  EXPECT_EQ(wants.Take(0).size(), EarlyWants::kMax / 2) << "there was no room for the last one";
  wants.Add({0, 1, 256});
  EXPECT_EQ(wants.Take(0).size(), 1U);
  wants.Clear();
  EXPECT_TRUE(wants.Take(1).empty());
}

}  // namespace
}  // namespace byteps::protocol
