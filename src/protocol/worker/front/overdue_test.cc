#include "src/protocol/worker/front/overdue.h"

#include <gtest/gtest.h>

#include "src/protocol/protocol_for_test.h"

namespace byteps::protocol {
namespace {

class OverdueTest : public testing::Test {
 protected:
  OverdueTest() {
    sets.Begin(ViewFor(3, 1).workers, 0);
    EXPECT_TRUE(sets.Add(4, {0, 2}).ok());
  }

  // Returns a tensor whose use has begun, in the round after the last.
  Tensor& Open(const std::string& text, TensorId id, uint32_t process_set = 0,
               wire::Op op = wire::Op::kSum) {
    Name& name = names.NameOf(text);
    Lifetime& lifetime = Names::LifetimeOf(name, process_set);
    Tensor& tensor = Names::TensorOf(lifetime, {op, DataType::kUint8, 0, {8}});
    names.SetDeclared(tensor, {text, process_set, 0, id, {0, 1}});
    tensor.task = std::make_unique<Task>(Operation(), tensor.spec, sets.Of(0), tensor.deal);
    tensor.task->path = PathOf(false, false);
    tensor.task->at = 1;
    tensor.round = ++lifetime.round;
    name.open = &tensor;
    overdue.OnBegun();
    return tensor;
  }
  void Look(int times = 1) {
    for (int i = 0; i < times; ++i) overdue.Look(now += milliseconds(500));
  }
  std::vector<wire::OverdueUse> Told() const {
    std::vector<wire::OverdueUse> uses;
    for (const wire::Message& message : sent) {
      const auto* one = std::get_if<wire::Overdue>(&message);
      if (one != nullptr) uses.insert(uses.end(), one->uses.begin(), one->uses.end());
    }
    return uses;
  }

  Names names;
  PlacedSets sets;
  Joins joins{1};
  Time now = kStart;
  std::vector<wire::Message> sent;
  Overdue overdue{names, sets, joins, milliseconds(500),
                  [this](const wire::Message& message) { sent.push_back(message); }};
};

TEST_F(OverdueTest, ItLooksOnlyWhileSomethingMayBecomeOverdue) {
  EXPECT_FALSE(overdue.NextLook(now).has_value());
  Open("x", 7);
  EXPECT_EQ(overdue.NextLook(now), now + milliseconds(500));
  EXPECT_EQ(overdue.NextLook(now + milliseconds(9)), now + milliseconds(500)) << "it is fixed";
  Look();
  EXPECT_TRUE(overdue.NextLook(now).has_value());
  Look();
  EXPECT_FALSE(overdue.NextLook(now).has_value()) << "all that is open was told";
}

TEST_F(OverdueTest, WhatIsOpenAtTwoLooksIsToldOnceWithItsProcessSet) {
  names.NameOf("x");
  Names::LifetimeOf(names.NameOf("x"), 0).round = 3;
  Open("x", 7, 4);
  Look();
  EXPECT_TRUE(sent.empty());
  Look(2);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(Told()[0], (wire::OverdueUse{"x", {4, 0, 1}, 7, {{0, 0, 3}}}));
  EXPECT_EQ(std::get<wire::Overdue>(sent[0]).process_sets,
            (std::vector<wire::ProcessSetRanks>{{4, {0, 2}}}));
}

TEST_F(OverdueTest, WhatWaitsForItsDeclarationHasBeenToldBefore) {
  Tensor& tensor = Open("x", 7);
  tensor.task->at = 0;
  Look(3);
  EXPECT_TRUE(sent.empty());
  tensor.task->at = 1;
  Look();
  EXPECT_EQ(Told().size(), 1U);
}

TEST_F(OverdueTest, WhatEndsInAnErrorIsTakenBackIfItWasTold) {
  Tensor& tensor = Open("x", 7);
  overdue.TakeBack(tensor);
  EXPECT_TRUE(sent.empty());
  Look(2);
  overdue.TakeBack(tensor);
  ASSERT_EQ(Told().size(), 2U);
  EXPECT_EQ(Told()[1].tensor, UINT32_MAX);
}

TEST_F(OverdueTest, WhetherItsProcessIsStuckIsToldWhenItChanges) {
  Open("x", 7);
  Open("y", 8);
  Look(2);
  ASSERT_EQ(Told().size(), 2U);
  overdue.SetStuck("y");
  overdue.SetStuck("y");
  ASSERT_EQ(Told().size(), 3U);
  EXPECT_EQ(Told()[2].name, "y");
  EXPECT_TRUE(Told()[2].stuck);
  overdue.SetStuck("x");
  ASSERT_EQ(Told().size(), 5U);
  EXPECT_FALSE(Told()[3].stuck);
  EXPECT_TRUE(Told()[4].stuck);
  overdue.SetStuck("never heard of");
  EXPECT_FALSE(Told().back().stuck);
}

TEST_F(OverdueTest, WhoHasJoinedKeepsNobodyWaiting) {
  Open("x", 7, 0, wire::Op::kJoin);
  overdue.SetStuck("x");
  Look(2);
  EXPECT_FALSE(Told().at(0).stuck);
}

TEST_F(OverdueTest, ItAnswersWhatItHasNotBegunOnlyWhereItIsStuck) {
  Open("x", 7);
  Open("y", 8);
  const wire::NamedUse stuck{"x", {0, 0, 1}};
  const wire::Unbegun question{stuck, {{"y", {0, 0, 1}}, {"y", {0, 0, 2}}, {"z", {0, 0, 1}}}};
  overdue.OnUnbegun(question);
  Look(2);
  overdue.OnUnbegun(question);
  sent.clear();
  overdue.SetStuck("x");
  sent.clear();
  overdue.OnUnbegun({{"x", {0, 0, 2}}, question.uses});
  EXPECT_TRUE(sent.empty()) << "of another use";
  overdue.OnUnbegun(question);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(std::get<wire::Unbegun>(sent[0]),
            (wire::Unbegun{stuck, {{"y", {0, 0, 2}}, {"z", {0, 0, 1}}}}));
  overdue.OnUnbegun({stuck, {{"y", {0, 0, 1}}}});
  EXPECT_EQ(sent.size(), 1U) << "it has begun all of these";
}

TEST_F(OverdueTest, ACoordinatorThatHasForgottenIsToldAgain) {
  Open("x", 7);
  Look(2);
  Open("y", 8);
  overdue.ReportAgain();
  ASSERT_EQ(Told().size(), 2U);
  EXPECT_EQ(Told()[1], Told()[0]);
}

}  // namespace
}  // namespace byteps::protocol
