// What a worker tells of its operations: what is open for long, what it is asked about, and what
// has ended since the last time.
#include "src/runtime/accountant.h"

#include <gtest/gtest.h>

#include "src/runtime/fake_loop_for_test.h"

namespace byteps::runtime {
namespace {

class AccountantTest : public testing::Test {
 protected:
  AccountantTest() {
    wire::View view;
    view.workers = {{0, 0, 7}, {1, 1, 8}};
    sets.Begin(view.workers, 0);
    static_cast<void>(sets.Add(4, {0, 1}));
    Now(0);
  }
  void Now(int ms) { loop.now = Time(seconds(100)) + milliseconds(ms); }

  // Its use has begun, in the round after the last.
  protocol::Tensor& Begin(const std::string& text, uint32_t group = 0) {
    protocol::Operation operation;
    operation.name = text;
    operation.spec = {wire::Op::kSum, DataType::kUint8, 0, {8}};
    operation.spec.group = group;
    operations.Submit(operation, [](protocol::Outcome) {});
    operation = *operations.Next();
    protocol::Name& name = names.NameOf(text);
    protocol::Course& course = protocol::Names::CourseOf(name, group);
    protocol::Tensor& tensor = protocol::Names::TensorOf(course, operation.spec);
    names.SetDeclared(tensor, {text, group, 0, 70, {0, 1}});
    tensor.task =
        std::make_unique<protocol::Task>(operation, tensor.spec, sets.Of(group), tensor.deal);
    tensor.task->path = protocol::PathOf(false, false);
    tensor.task->at = 3;
    tensor.round = ++course.round;
    name.open = &tensor;
    return tensor;
  }
  void End(protocol::Tensor& tensor, StatusCode code = StatusCode::kOk) {
    protocol::Outcome outcome;
    outcome.status = Status(code, code == StatusCode::kOk ? "" : "no");
    outcome.tensor = tensor.id;
    outcome.round = tensor.round;
    const protocol::OperationId id = tensor.task->operation.id;
    tensor.course.name.open = nullptr;
    tensor.task.reset();
    operations.Complete(id, std::move(outcome));
  }
  wire::Account Told() { return *accountant.Tell().account; }

  FakeLoop loop;
  protocol::Names names;
  protocol::PlacedSets sets;
  protocol::Joins joins{1};
  protocol::UseStates uses{names, sets, joins};
  OpenOperations operations{
      loop, Duration(), {[] {}, [](const std::vector<protocol::OperationId>&) {}}};
  Accountant accountant{uses, operations};
};

TEST_F(AccountantTest, WhatEndsIsCountedAndToldOnce) {
  Told();
  protocol::Tensor& a = Begin("a");
  Now(30);
  End(a);
  protocol::Tensor& b = Begin("b");
  End(b, StatusCode::kPeerLost);
  Now(80);
  const wire::Account account = Told();
  EXPECT_EQ(account.ended, 2u);
  EXPECT_EQ(account.failed, 1u);
  EXPECT_EQ(account.bytes, 8u);
  EXPECT_EQ(account.idle_ms, 50u);
  EXPECT_EQ(account.took, (std::vector<wire::Took>{{70, 1, 30000}}));
  EXPECT_TRUE(Told().took.empty());
  EXPECT_EQ(Told().ended, 2u);
}

TEST_F(AccountantTest, OnlyWhatIsOpenForLongIsToldUnasked) {
  Begin("a", 4);
  Now(600);
  Begin("b");
  EXPECT_TRUE(Told().uses.empty());
  Now(1100);
  const wire::Account account = Told();
  ASSERT_EQ(account.uses.size(), 1u);
  EXPECT_EQ(account.uses[0],
            (wire::UseState{{"a", {4, 0, 1}}, 70, wire::UseStage::kExchanges, 1100}));
  EXPECT_EQ(account.groups, (std::vector<wire::GroupRanks>{{4, {0, 1}}}));
  EXPECT_EQ(account.open, 2u);
}

TEST_F(AccountantTest, WhatIsAskedAboutIsAnswered) {
  protocol::Tensor& a = Begin("a");
  Begin("b");
  Now(200);
  End(a);
  accountant.Ask({{"a", {0, 0, 1}}, {"a", {0, 0, 2}}, {"b", {0, 0, 1}}, {"c", {0, 0, 1}}});
  const wire::Account account = Told();
  ASSERT_EQ(account.uses.size(), 4u);
  EXPECT_EQ(account.uses[0].stage, wire::UseStage::kEnded);
  EXPECT_EQ(account.uses[1].stage, wire::UseStage::kNotBegun);
  EXPECT_EQ(account.uses[2].stage, wire::UseStage::kExchanges);
  EXPECT_EQ(account.uses[2].age_ms, 200u);
  EXPECT_EQ(account.uses[3].stage, wire::UseStage::kNotBegun);
}

TEST_F(AccountantTest, ManyEndsTakeBoundedMemory) {
  Told();
  for (int i = 0; i < 1000; ++i) End(Begin("a"));
  EXPECT_EQ(Told().took.size(), wire::kTookInAccountMax);
}

}  // namespace
}  // namespace byteps::runtime
