#include "src/protocol/worker/exchange/settling.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

TEST(SettlingTest, TheLastLaneToAnswerSettlesIt) {
  Settling settling;
  EXPECT_FALSE(settling.asks());
  EXPECT_FALSE(settling.OnAnswer({0})) << "nobody asked";
  uint64_t question = settling.Ask(3).question;
  EXPECT_TRUE(settling.asks());
  EXPECT_FALSE(settling.OnAnswer({question}));
  EXPECT_FALSE(settling.OnAnswer({question}));
  EXPECT_TRUE(settling.OnAnswer({question}));
  EXPECT_FALSE(settling.OnAnswer({question})) << "once";
}

// A view may have moved a verdict to a lane that had answered already.
TEST(SettlingTest, AnswersToAnEarlierQuestionDoNotCount) {
  Settling settling;
  uint64_t first = settling.Ask(2).question;
  EXPECT_FALSE(settling.OnAnswer({first}));
  uint64_t second = settling.Ask(2).question;
  EXPECT_NE(first, second);
  EXPECT_FALSE(settling.OnAnswer({first}));
  EXPECT_FALSE(settling.OnAnswer({second}));
  EXPECT_FALSE(settling.OnAnswer({first}));
  EXPECT_TRUE(settling.OnAnswer({second}));
}

}  // namespace
}  // namespace byteps::protocol
