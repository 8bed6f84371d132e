#include "src/protocol/control/names/attempt.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

class AttemptTest : public testing::Test {
 protected:
  static wire::TensorSpec SpecOf(int64_t elements) {
    return {wire::Op::kSum, DataType::kFloat32, 0, {elements}};
  }
};

TEST_F(AttemptTest, OnlyTheLatestRoundIsCompared) {
  Attempt attempt;
  const Attempt::Entry& three = attempt.Add(SpecOf(3), {1, {}});
  const Attempt::Entry& four = attempt.Add(SpecOf(4), {2, {}});
  EXPECT_EQ(&attempt.Add(SpecOf(3), {9, {}}), &three) << "it is there already";
  EXPECT_FALSE(attempt.Contradicts(1, nullptr));
  attempt.Mean(1, three, 0, 100);
  EXPECT_FALSE(attempt.Contradicts(1, &three));
  EXPECT_TRUE(attempt.Contradicts(1, &four));
  EXPECT_TRUE(attempt.Contradicts(1, nullptr)) << "a spec that is new";
  attempt.Mean(2, four, 5, 105);
  EXPECT_FALSE(attempt.Contradicts(1, &four));
  attempt.Mean(1, three, 0, 100);
  EXPECT_TRUE(attempt.Contradicts(2, &three));
  EXPECT_EQ(attempt.meant_by(), 5u);
}

TEST_F(AttemptTest, AFailureNamesAllItsTensors) {
  Attempt attempt;
  attempt.Add(SpecOf(3), {7, {}});
  attempt.Retire(7);
  attempt.Retire(6);
  EXPECT_EQ(attempt.Fail({"x", {0, 0, 1}, {1, 2, 3}}).tensors, (std::vector<TensorId>{6, 7}));
  EXPECT_TRUE(attempt.failed().has_value());
}

TEST_F(AttemptTest, FindsATensorByItsSpecAndByItsNumber) {
  Attempt attempt;
  const Attempt::Entry& three = attempt.Add(SpecOf(3), {7, {1, 2}});
  attempt.Add(SpecOf(4), {8, {}});
  EXPECT_EQ(attempt.Find(SpecOf(3)), &three);
  EXPECT_EQ(attempt.Find(TensorId{7}), &three);
  EXPECT_EQ(attempt.Find(SpecOf(5)), nullptr);
  EXPECT_EQ(attempt.Find(TensorId{9}), nullptr);
  EXPECT_EQ(attempt.variants().size(), 2u);
}

// The first rank that spoke of a round stands for it. A round that is over is not opened again.
TEST_F(AttemptTest, TheFirstWhoMeantSomethingInARoundIsNamed) {
  Attempt attempt;
  const Attempt::Entry& three = attempt.Add(SpecOf(3), {7, {}});
  attempt.Mean(4, three, 2, 102);
  attempt.Mean(4, three, 5, 105);
  EXPECT_EQ(attempt.meant_by(), 2u);
  EXPECT_EQ(&attempt.meant(), &three);
  EXPECT_FALSE(attempt.Contradicts(5, nullptr)) << "nobody has said anything of that";
}

// A lost rank holds up nobody with what it meant.
TEST_F(AttemptTest, WhatALostRankMeantContradictsNobody) {
  Attempt attempt;
  const Attempt::Entry& three = attempt.Add(SpecOf(3), {7, {}});
  const Attempt::Entry& four = attempt.Add(SpecOf(4), {8, {}});
  attempt.Mean(4, three, 2, 102);
  attempt.ForgetMeaningIf([](uint64_t worker) { return worker == 105; });
  EXPECT_TRUE(attempt.Contradicts(4, &four)) << "another rank was lost";
  attempt.ForgetMeaningIf([](uint64_t worker) { return worker == 102; });
  EXPECT_FALSE(attempt.Contradicts(4, &four));
  attempt.Mean(4, four, 5, 105);
  EXPECT_TRUE(attempt.Contradicts(4, &three)) << "the others are compared as before";
  EXPECT_EQ(attempt.meant_by(), 5u);
}

TEST_F(AttemptTest, KnowsWhomItHasToTell) {
  Attempt attempt;
  EXPECT_TRUE(attempt.told().empty());
  for (uint64_t worker : {5, 5, 9}) attempt.Tell(worker);
  EXPECT_EQ(attempt.told(), (std::set<uint64_t>{5, 9}));
}

}  // namespace
}  // namespace byteps::protocol
