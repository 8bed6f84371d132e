#include "src/session/open_names.h"

#include <gtest/gtest.h>

#include "src/operations/row.h"

namespace byteps::session {
namespace {

TEST(OpenNamesTest, ANameIsTakenUntilItIsGivenBack) {
  OpenNames names;
  wire::TensorSpec first;
  first.op = wire::Op::kMax;
  first.shape = {3};
  Result<OpenNames::Taken> taken = names.Take("w", first);
  ASSERT_TRUE(taken.ok());
  EXPECT_TRUE(names.Take("v", first).ok());
  Status twice = names.Take("w", wire::TensorSpec()).status();
  EXPECT_EQ(twice.code(), StatusCode::kDuplicateName);
  EXPECT_NE(twice.message().find("'w'"), std::string::npos) << twice.message();
  EXPECT_NE(twice.message().find(operations::Describe(first)), std::string::npos)
      << twice.message();
  names.GiveBack(taken.value());
  EXPECT_TRUE(names.Take("w", wire::TensorSpec()).ok());
}

}  // namespace
}  // namespace byteps::session
