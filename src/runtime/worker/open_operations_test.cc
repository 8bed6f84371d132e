#include "src/runtime/worker/open_operations.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "src/runtime/fake_loop_for_test.h"

namespace byteps::runtime {
namespace {

using protocol::OperationId;

class OpenOperationsTest : public testing::Test {
 protected:
  static protocol::Operation Named(const std::string& name) {
    protocol::Operation operation;
    operation.name = name;
    return operation;
  }
  void Submit(const std::string& name) {
    operations.Submit(Named(name), [this, name](protocol::Outcome outcome) {
      ends[name].push_back(outcome.status.code());
    });
  }
  std::vector<std::string> TakeAll() {
    std::vector<std::string> names;
    while (auto next = operations.Next()) names.push_back(std::to_string(next->id) + next->name);
    return names;
  }
  using Names = std::vector<std::string>;
  using Codes = std::vector<StatusCode>;
  using Ids = std::vector<OperationId>;

  FakeLoop loop;
  int told = 0;
  std::vector<Ids> late;
  std::map<std::string, Codes> ends;
  OpenOperations operations{
      loop, seconds(4), {[this] { ++told; }, [this](const Ids& ids) { late.push_back(ids); }}};
};

TEST_F(OpenOperationsTest, AreTakenInTheirOrderAndOneWordIsEnough) {
  Submit("a");
  Submit("b");
  loop.RunPosted();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(TakeAll(), (Names{"1a", "2b"}));
  EXPECT_EQ(TakeAll(), Names());
  Submit("c");
  loop.RunPosted();
  EXPECT_EQ(told, 2);
  EXPECT_EQ(TakeAll(), Names{"3c"});
}

TEST_F(OpenOperationsTest, EachEndsOnce) {
  Submit("a");
  Submit("b");
  TakeAll();
  operations.Complete(2, {});
  operations.Complete(2, {});
  operations.Complete(7, {});
  EXPECT_EQ(ends["b"], Codes{StatusCode::kOk});
  operations.EndAll({StatusCode::kShutdown, "over"});
  operations.EndAll({StatusCode::kInternal, "over again"});
  EXPECT_EQ(ends["a"], Codes{StatusCode::kShutdown});
  EXPECT_EQ(ends["b"], Codes{StatusCode::kOk});
}

TEST_F(OpenOperationsTest, WhatCannotBeToldWasNotAccepted) {
  loop.has_no_memory = true;
  EXPECT_THROW(Submit("a"), std::bad_alloc);
  loop.has_no_memory = false;
  EXPECT_EQ(TakeAll(), Names());
  Submit("b");
  loop.RunPosted();
  EXPECT_EQ(told, 1) << "the next one is told of again";
  EXPECT_EQ(TakeAll(), Names{"1b"});
  operations.EndAll({StatusCode::kShutdown, "over"});
  EXPECT_FALSE(ends.contains("a"));
}

TEST_F(OpenOperationsTest, WhatIsRefusedEndsInsideTheCall) {
  Submit("before");
  EXPECT_TRUE(operations.Refuse({StatusCode::kShutdown, "over"}));
  EXPECT_FALSE(operations.Refuse({StatusCode::kInternal, "again"}));
  EXPECT_EQ(operations.refusal()->code(), StatusCode::kShutdown);
  Submit("after");
  EXPECT_EQ(ends["after"], Codes{StatusCode::kShutdown});
  EXPECT_FALSE(ends.contains("before"));
  EXPECT_EQ(TakeAll(), Names{"1before"});
}

TEST_F(OpenOperationsTest, WhatNobodyHasTakenEndsWithTheRest) {
  Submit("a");
  TakeAll();
  Submit("b");
  operations.EndAll({StatusCode::kExhausted, "no memory"});
  EXPECT_EQ(ends["a"], Codes{StatusCode::kExhausted});
  EXPECT_EQ(ends["b"], Codes{StatusCode::kExhausted});
  Submit("c");
  EXPECT_EQ(ends["c"], Codes{StatusCode::kExhausted});
}

TEST_F(OpenOperationsTest, WhatTakesTooLongIsToldOfAgainAndAgain) {
  Submit("a");
  TakeAll();
  loop.now += seconds(3);
  Submit("b");
  TakeAll();
  loop.tick();
  EXPECT_EQ(late.size(), 0u);
  loop.now += seconds(1);
  loop.tick();
  loop.tick();
  EXPECT_EQ(late, (std::vector<Ids>{{1}, {1}}));
  operations.Complete(1, {});
  loop.now += seconds(3);
  loop.tick();
  EXPECT_EQ(late.back(), Ids{2});
}

TEST_F(OpenOperationsTest, ALimitOfItsOwnCountsInPlaceOfTheGeneralOne) {
  Submit("a");
  protocol::Operation patient = Named("b");
  patient.limit = seconds(10);
  operations.Submit(std::move(patient), [](const protocol::Outcome&) {});
  Submit("c");
  TakeAll();
  loop.now += seconds(4);
  loop.tick();
  EXPECT_EQ(late, (std::vector<Ids>{{1, 3}}));
  EXPECT_EQ(operations.AgeOf(2).limit, seconds(10));
  EXPECT_TRUE(operations.AgeOf(2).own_limit);
  EXPECT_FALSE(operations.AgeOf(1).own_limit);
  operations.Complete(1, {});
  operations.Complete(3, {});
  loop.now += seconds(5);
  loop.tick();
  EXPECT_EQ(late.size(), 1u);
  loop.now += seconds(1);
  loop.tick();
  EXPECT_EQ(late.back(), Ids{2});
}

TEST_F(OpenOperationsTest, WithoutAGeneralLimitOthersHaveTheirOwn) {
  OpenOperations unlimited(loop, Duration(),
                           {[] {}, [this](const Ids& ids) { late.push_back(ids); }});
  unlimited.Submit(Named("a"), [](const protocol::Outcome&) {});
  protocol::Operation limited = Named("b");
  limited.limit = seconds(10);
  unlimited.Submit(std::move(limited), [](const protocol::Outcome&) {});
  while (unlimited.Next()) {
  }
  loop.now += seconds(100);
  loop.tick();
  EXPECT_EQ(late, std::vector<Ids>{{2}});
  EXPECT_EQ(unlimited.AgeOf(1).limit, Duration());
}

TEST_F(OpenOperationsTest, ManyThatTakeTooLongHaveSeveralTurns) {
  for (int i = 0; i < 600; ++i) Submit(std::to_string(i));
  TakeAll();
  loop.posted.clear();
  loop.now += seconds(4);
  loop.tick();
  loop.tick();  // the second half of the first look
  ASSERT_EQ(late.size(), 1u);
  EXPECT_LT(late[0].size(), 600u);
  loop.RunPosted();
  Ids all;
  for (const Ids& ids : late) all.insert(all.end(), ids.begin(), ids.end());
  ASSERT_EQ(all.size(), 600u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i + 1);
}

}  // namespace
}  // namespace byteps::runtime
