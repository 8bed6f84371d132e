#include "src/config/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace byteps::config {
namespace {

TEST(EnvironmentTest, OfProcessSeesThisProcess) {
  ASSERT_EQ(setenv("BYTEPS_TEST_VARIABLE", "a=b", 1), 0);
  EXPECT_EQ(Environment::OfProcess().Get("BYTEPS_TEST_VARIABLE"), "a=b");
  ASSERT_EQ(unsetenv("BYTEPS_TEST_VARIABLE"), 0);
  EXPECT_EQ(Environment::OfProcess().Get("BYTEPS_TEST_VARIABLE"), "");
}

}  // namespace
}  // namespace byteps::config
