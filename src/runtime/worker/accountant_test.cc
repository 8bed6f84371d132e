// Tests the accounts of a worker: operations that are open for long, operations that the
// coordinator asks about, and operations that have ended since the last account.
#include "src/runtime/worker/accountant.h"

#include <gtest/gtest.h>

#include "src/runtime/fake_loop_for_test.h"

namespace byteps::runtime {
namespace {

class AccountantTest : public testing::Test {
 protected:
  explicit AccountantTest(Duration limit = {})
      : operations(loop, limit, {[] {}, [](const std::vector<protocol::OperationId>&) {}}) {
    wire::View view;
    view.workers = {{0, 0, 7}, {1, 1, 8}};
    sets.Begin(view.workers, 0);
    static_cast<void>(sets.Add(4, {0, 1}));
    Now(0);
  }
  void Now(int ms) { loop.now = Time(seconds(100)) + milliseconds(ms); }

  // Begins a use in the round after the last one.
  protocol::Tensor& Begin(const std::string& text, uint32_t process_set = 0) {
    protocol::Operation operation;
    operation.name = text;
    operation.spec = {wire::Op::kSum, DataType::kUint8, 0, {8}};
    operation.spec.process_set = process_set;
    operation.limit = own_limit;
    operations.Submit(operation, [](protocol::Outcome) {});
    operation = *operations.Next();
    protocol::Name& name = names.NameOf(text);
    protocol::Lifetime& lifetime = protocol::Names::LifetimeOf(name, process_set);
    protocol::Tensor& tensor = protocol::Names::TensorOf(lifetime, operation.spec);
    names.SetDeclared(tensor, {text, process_set, 0, 70, {0, 1}});
    tensor.task =
        std::make_unique<protocol::Task>(operation, tensor.spec, sets.Of(process_set), tensor.deal);
    tensor.task->path = protocol::PathOf(false, false);
    tensor.task->at = 3;
    tensor.round = ++lifetime.round;
    name.open = &tensor;
    return tensor;
  }
  void End(protocol::Tensor& tensor, StatusCode code = StatusCode::kOk) {
    protocol::Outcome outcome;
    outcome.status = Status(code, code == StatusCode::kOk ? "" : "no");
    outcome.tensor = tensor.id;
    outcome.round = tensor.round;
    const protocol::OperationId id = tensor.task->operation.id;
    tensor.lifetime.name.open = nullptr;
    tensor.task.reset();
    operations.Complete(id, std::move(outcome));
  }
  wire::Account Told() { return *accountant.Tell(milliseconds(7)).account; }

  FakeLoop loop;
  protocol::Names names;
  protocol::PlacedSets sets;
  protocol::Joins joins{1};
  protocol::UseStates uses{names, sets, joins};
  OpenOperations operations;
  Duration own_limit{};  // of operations that begin
  Accountant accountant{uses, operations};
};

// Tests with a limit for all operations.
class JudgeTest : public AccountantTest {
 protected:
  JudgeTest() : AccountantTest(seconds(4)) {}
  using Judged = std::pair<protocol::OperationId, protocol::TooLate>;
  static void ExpectLate(const Judged& one, const std::string& why, const std::string& others) {
    EXPECT_EQ(one.second.why, why);
    EXPECT_EQ(one.second.others, others);
  }
  static wire::Alive Noted(const std::string& name, uint32_t quiet_ms) {
    wire::Alive alive;
    alive.notes.push_back({{name, {0, 0, 1}}, "rank 1 sleeps", quiet_ms});
    return alive;
  }
};

TEST_F(JudgeTest, TheErrorSaysWhatTheCoordinatorHasToldOfTheOthers) {
  Begin("a");
  Begin("b");
  accountant.Hear(Noted("b", 0));
  const auto judged = accountant.Judge(0, {1, 2});
  ASSERT_EQ(judged.size(), 2u);
  const std::string why =
      "rank 0 has waited longer than the limit of 4 s (BYTEPS_OPERATION_TIMEOUT)";
  ExpectLate(judged[0], why, "");
  ExpectLate(judged[1], why, "rank 1 sleeps");
  accountant.Hear(wire::Alive());
  ExpectLate(accountant.Judge(0, {2}).at(0), why, "");
}

TEST_F(JudgeTest, ALimitOfItsOwnIsNotThatOfTheVariable) {
  own_limit = seconds(7);
  Begin("a");
  ExpectLate(accountant.Judge(3, {1}).at(0), "rank 3 has waited longer than its limit of 7 s", "");
}

TEST_F(JudgeTest, AJoinLastsWhileTheOthersEndOperations) {
  Begin("join");
  joins.OnSubmitted();
  joins.Begin();
  EXPECT_TRUE(accountant.Judge(0, {1}).empty()) << "nothing is known of the others";
  accountant.Hear(Noted("join", 3999));
  EXPECT_TRUE(accountant.Judge(0, {1}).empty());
  accountant.Hear(Noted("join", 4000));
  EXPECT_EQ(accountant.Judge(0, {1}).size(), 1u);
}

TEST_F(JudgeTest, OfAJoinNoTimeIsToldBeforeItsLimit) {
  Begin("join");
  joins.OnSubmitted();
  joins.Begin();
  Now(3999);
  EXPECT_EQ(Told().uses.at(0).left_ms, 0u);
  Now(4000);
  EXPECT_EQ(Told().uses.at(0).left_ms, 1u);
}

TEST_F(AccountantTest, HowMuchTimeIsLeftIsTold) {
  Begin("without");
  own_limit = seconds(3);
  Begin("with");
  Now(1200);
  const wire::Account account = Told();
  ASSERT_EQ(account.uses.size(), 2u);
  EXPECT_EQ(account.uses[0].left_ms, 0u);
  EXPECT_EQ(account.uses[1].left_ms, 1800u);
  Now(5000);
  EXPECT_EQ(Told().uses[1].left_ms, 1u) << "it has passed";
}

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
            (wire::UseState{{"a", {4, 0, 1}}, 70, wire::UseStage::kExchanges, 1100, 0}));
  EXPECT_EQ(account.process_sets, (std::vector<wire::ProcessSetRanks>{{4, {0, 1}}}));
  EXPECT_EQ(account.open, 2u);
}

TEST_F(AccountantTest, WhatIsAskedAboutIsAnswered) {
  protocol::Tensor& a = Begin("a");
  Begin("b");
  Now(200);
  End(a);
  wire::Alive question;
  question.asked = {{"a", {0, 0, 1}}, {"a", {0, 0, 2}}, {"b", {0, 0, 1}}, {"c", {0, 0, 1}}};
  accountant.Hear(question);
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
