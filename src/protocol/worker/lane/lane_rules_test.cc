#include "src/protocol/worker/lane/lane_rules.h"

#include <gtest/gtest.h>

#include "src/protocol/worker/worker_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

TEST(LaneRulesTest, AnAnswerCountsFromTheOwnerSinceItOwnsThePiece) {
  EXPECT_TRUE(kLaneRules.Counts(2, 5, 2, 5));
  EXPECT_TRUE(kLaneRules.Counts(2, 5, 2, 6));
  EXPECT_FALSE(kLaneRules.Counts(2, 5, 2, 4));
  EXPECT_FALSE(kLaneRules.Counts(2, 5, 1, 5));
}

TEST(LaneRulesTest, APieceHasMovedToAnotherOwnerOrToTheSameOneAnew) {
  EXPECT_FALSE(kLaneRules.HasMoved(2, 2, 5, 5));
  EXPECT_TRUE(kLaneRules.HasMoved(2, 2, 6, 5));
  EXPECT_TRUE(kLaneRules.HasMoved(2, 1, 5, 5));
}

TEST(LaneRulesTest, WhatOthersMayLackIsKeptAndToldAndKeepsAWorkerHere) {
  EXPECT_TRUE(kLaneRules.KeepsVerdicts());
  for (bool reconnect : {false, true}) {
    EXPECT_TRUE(kLaneRules.TellsVerdict(false, reconnect));
    EXPECT_TRUE(kLaneRules.TellsVerdict(true, reconnect));
    EXPECT_TRUE(kLaneRules.TellsWhatIsStable(reconnect));
  }
  EXPECT_FALSE(kLaneRules.MayLeave(true));
  EXPECT_TRUE(kLaneRules.MayLeave(false));
}

// Returns the answers of the rules in cases in which each mistake answers differently.
std::vector<bool> AnswersOf(const LaneRules& rules) {
  return {rules.Counts(2, 5, 2, 4),
          rules.Counts(2, 5, 1, 5),
          rules.HasMoved(2, 2, 6, 5),
          rules.KeepsVerdicts(),
          rules.TellsVerdict(true, false),
          rules.TellsVerdict(false, false),
          rules.TellsVerdict(true, true),
          rules.TellsWhatIsStable(true),
          rules.MayLeave(true),
          rules.RepeatsPassCredit(),
          rules.LetsGo(),
          rules.WaitsForTakeOver()};
}

TEST(LaneRulesTest, EachMistakeOfALaneBreaksARuleOfIts) {
  const std::vector<bool> right = AnswersOf(kLaneRules);
  EXPECT_EQ(AnswersOf(LaneRulesWith(WorkerMistake::kNone)), right);
  EXPECT_EQ(AnswersOf(LaneRulesWith(WorkerMistake::kEndBeforeReleased)), right) << "the front's";
  for (auto mistake = WorkerMistake::kHandOverWithoutKeeping;
       mistake < WorkerMistake::kEndBeforeReleased;
       mistake = static_cast<WorkerMistake>(static_cast<int>(mistake) + 1)) {
    EXPECT_NE(AnswersOf(LaneRulesWith(mistake)), right) << static_cast<int>(mistake);
  }
}

TEST(FrontRulesTest, AnOperationEndsWhenEveryLaneHasReleasedIt) {
  EXPECT_TRUE(kFrontRules.MayEnd({true, true}));
  EXPECT_FALSE(kFrontRules.MayEnd({true, false}));
  EXPECT_TRUE(FrontRulesWith(WorkerMistake::kEndBeforeReleased).MayEnd({true, false}));
  EXPECT_FALSE(FrontRulesWith(WorkerMistake::kNone).MayEnd({true, false}));
}

TEST(FrontRulesTest, EachMistakeOfLettingGoBreaksOneRule) {
  auto answers = [](WorkerMistake mistake) {
    const FrontRules& rules = FrontRulesWith(mistake);
    return std::vector<bool>{rules.MayLetGo(false), rules.AsksAgain(true), rules.CountsAnew(),
                             rules.TellsLetGo(true)};
  };
  using Answers = std::vector<bool>;
  EXPECT_EQ(answers(WorkerMistake::kNone), (Answers{false, true, true, true}));
  EXPECT_EQ(answers(WorkerMistake::kLetsGoAfterAnError), (Answers{true, true, true, true}));
  EXPECT_EQ(answers(WorkerMistake::kUsesWhatItLetGoOf), (Answers{false, false, true, true}));
  EXPECT_EQ(answers(WorkerMistake::kCountsOn), (Answers{false, true, false, true}));
  EXPECT_EQ(answers(WorkerMistake::kHidesWhatItLetGoOf), (Answers{false, true, true, false}));
}

}  // namespace
}  // namespace byteps::protocol
