#include "src/protocol/worker/front/leaving.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

TEST(LeavingTest, AWorkerSaysOnceThatItLeaves) {
  Leaving leaving;
  EXPECT_FALSE(leaving.wants());
  EXPECT_FALSE(leaving.Say(0).has_value()) << "it does not want to";
  EXPECT_TRUE(leaving.Begin());
  EXPECT_FALSE(leaving.Begin());
  EXPECT_FALSE(leaving.SayAgain().has_value()) << "it has not said it yet";
  EXPECT_EQ(leaving.Say(0), wire::Leave{true});
  EXPECT_FALSE(leaving.Say(0).has_value());
  EXPECT_EQ(leaving.SayAgain(), wire::Leave{true});
  leaving.End();
  EXPECT_TRUE(leaving.wants());
  EXPECT_FALSE(leaving.SayAgain().has_value()) << "the others have taken note";
  EXPECT_FALSE(leaving.Begin());
}

TEST(LeavingTest, WithOperationsOpenItDoesNotLeaveCleanWhateverEndsLater) {
  Leaving leaving;
  leaving.Begin();
  EXPECT_EQ(leaving.Say(2), wire::Leave{false});
  EXPECT_EQ(leaving.SayAgain(), wire::Leave{false});
}

}  // namespace
}  // namespace byteps::protocol
