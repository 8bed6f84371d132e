#include "src/base/status.h"

#include <gtest/gtest.h>

#include <string>

namespace byteps {
namespace {

TEST(StatusTest, OkHasNoMessage) {
  EXPECT_TRUE(Status::Ok().ok());
  EXPECT_EQ(Status::Ok().ToString(), "ok");
}

TEST(StatusTest, AnErrorSaysItsKindAndItsText) {
  Status status(StatusCode::kMismatch, "tensor 'w' differs");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.ToString(), "mismatch: tensor 'w' differs");
}

TEST(StatusTest, EveryCodeHasAName) {
  for (int code = 0; code <= static_cast<int>(kLastStatusCode); ++code) {
    EXPECT_NE(StatusCodeName(static_cast<StatusCode>(code)), "unknown") << code;
  }
}

TEST(ResultTest, HoldsEitherAValueOrAReason) {
  Result<int> good = 7;
  Result<int> bad = Status(StatusCode::kUnavailable, "nobody listens");
  EXPECT_EQ(good.value(), 7);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace byteps
