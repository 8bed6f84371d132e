#include "src/config/nearest_name.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace byteps::config {
namespace {

TEST(EditDistanceTest, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("abc", "abc"), 0u);
  EXPECT_EQ(EditDistance("abc", "abd"), 1u);
  EXPECT_EQ(EditDistance("abcd", "acd"), 1u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(EditDistanceTest, ASwapOfNeighboursIsOneEdit) {
  EXPECT_EQ(EditDistance("wokrer", "worker"), 1u);
  EXPECT_EQ(EditDistance("ab", "ba"), 1u);
}

TEST(NearestNameTest, FindsTheNearest) {
  const std::vector<std::string_view> names = {"num_worker", "num_server", "port"};
  EXPECT_EQ(NearestName("num_workers", names), "num_worker");
  EXPECT_EQ(NearestName("num_sevrer", names), "num_server");
  EXPECT_EQ(NearestName("ports", names), "port");
}

TEST(NearestNameTest, StaysSilentWhenNothingIsNear) {
  const std::vector<std::string_view> names = {"num_worker", "port"};
  EXPECT_EQ(NearestName("telemetry", names), "");
  EXPECT_EQ(NearestName("anything", {}), "");
}

}  // namespace
}  // namespace byteps::config
