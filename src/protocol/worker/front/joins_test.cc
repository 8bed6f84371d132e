#include "src/protocol/worker/front/joins.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

Operation OperationWith(wire::Op op, uint32_t process_set = 0) {
  Operation operation;
  operation.name = "x";
  operation.spec.op = op;
  operation.spec.process_set = process_set;
  return operation;
}

TEST(JoinsTest, RoundsBeginAnewAfterEachJoin) {
  Joins joins(1);
  EXPECT_EQ(joins.NextRound(0), 1U);
  EXPECT_EQ(joins.NextRound(1), 2U);
  joins.OnSubmitted();
  EXPECT_EQ(joins.Begin(), 1U);
  joins.End(true);
  EXPECT_EQ(joins.done(), 1U);
  EXPECT_EQ(joins.NextRound(7), wire::FirstRoundAfter(1) + 1) << "whatever it had missed";
  EXPECT_EQ(joins.NextRound(wire::FirstRoundAfter(1) + 1), wire::FirstRoundAfter(1) + 2);
  joins.OnSubmitted();
  EXPECT_EQ(joins.Begin(), 2U) << "the next join has the next number";
  joins.Clear();
  EXPECT_EQ(joins.done(), 0U);
  EXPECT_EQ(joins.NextRound(0), 1U);
}

TEST(JoinsTest, OperationsAreCountedFromOneJoinToTheNext) {
  Joins joins(1);
  joins.OnTakenPart();
  joins.OnTakenPart();
  joins.OnSubmitted();
  joins.Begin();
  EXPECT_EQ(joins.taken_part(), 2U);
  joins.End(true);
  EXPECT_EQ(joins.taken_part(), 0U);
}

TEST(JoinsTest, WhoHasJoinedBeginsNothing) {
  Joins joins(1);
  EXPECT_TRUE(joins.Check(OperationWith(wire::Op::kSum), 3).ok());
  joins.OnSubmitted();
  EXPECT_FALSE(joins.Check(OperationWith(wire::Op::kSum), 0).ok());
  EXPECT_FALSE(joins.Check(OperationWith(wire::Op::kJoin), 0).ok());
  joins.Begin();
  joins.End(true);
  EXPECT_TRUE(joins.Check(OperationWith(wire::Op::kSum), 0).ok());
}

// Once shards know of the join, rounds may have gone on without this rank.
TEST(JoinsTest, AJoinThatFailsEndsThisRankIfShardsWereTold) {
  Joins joins(1);
  joins.OnSubmitted();
  joins.End(false);
  EXPECT_TRUE(joins.Check(OperationWith(wire::Op::kSum), 0).ok()) << "nobody was told";
  joins.OnSubmitted();
  joins.Begin();
  joins.End(false);
  EXPECT_FALSE(joins.Check(OperationWith(wire::Op::kSum), 0).ok());
  EXPECT_EQ(joins.done(), 0U);
}

TEST(JoinsTest, AJoinIsOfAllRanksAndOfNothingElse) {
  Joins joins(1);
  EXPECT_TRUE(joins.Check(OperationWith(wire::Op::kJoin), 0).ok());
  EXPECT_EQ(joins.Check(OperationWith(wire::Op::kJoin), 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(joins.Check(OperationWith(wire::Op::kJoin, 4), 0).code(), StatusCode::kInvalidArgument);
}

TEST(JoinsTest, JoinsAreCountedUpToTheirLimit) {
  Joins joins(1);
  for (uint32_t i = 0; i < wire::kJoinsMax; ++i) {
    joins.OnSubmitted();
    joins.Begin();
    joins.End(true);
  }
  EXPECT_EQ(joins.Check(OperationWith(wire::Op::kJoin), 0).code(), StatusCode::kExhausted);
  EXPECT_TRUE(joins.Check(OperationWith(wire::Op::kSum), 0).ok());
}

}  // namespace
}  // namespace byteps::protocol
