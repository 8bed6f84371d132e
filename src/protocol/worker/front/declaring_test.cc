#include "src/protocol/worker/front/declaring.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

class DeclaringTest : public testing::Test {
 protected:
  Tensor& Open(const std::string& text, uint32_t process_set = 0, wire::Op op = wire::Op::kSum) {
    Name& name = names.NameOf(text);
    Tensor& tensor =
        Names::TensorOf(Names::LifetimeOf(name, process_set), {op, DataType::kUint8, 0, {8}});
    tensor.task = std::make_unique<Task>(Operation(), tensor.spec, set, tensor.deal);
    tensor.task->path = PathOf(false, false);
    name.open = &tensor;
    return tensor;
  }
  void Close(Tensor& tensor) {
    tensor.task.reset();
    tensor.lifetime.name.open = nullptr;
  }
  static wire::DeclareFailed Failure(const std::string& name, const wire::Use& use,
                                     const std::vector<wire::NamedUse>& also = {}) {
    return {name, use, {}, StatusCode::kMismatch, "ranks disagree", also};
  }
  std::vector<wire::Declare> Asked() const {
    std::vector<wire::Declare> found;
    for (const wire::Message& one : sent) found.push_back(std::get<wire::Declare>(one));
    return found;
  }

  Tensor* Hear(const wire::Declared& message) { return declaring.OnDeclared(message, replaced); }
  // Returns the tensors of the last LetGo message.
  std::vector<TensorId> LetGo() const {
    for (size_t i = sent.size(); i-- > 0;) {
      if (const auto* let_go = std::get_if<wire::LetGo>(&sent[i])) return let_go->tensors;
    }
    return {};
  }
  // One use of the name by all ranks, from its begin to its good end.
  Tensor& Use(const std::string& text, TensorId id, uint32_t lifetime = 1) {
    Tensor& tensor = Open(text);
    if (!declaring.BeginUse(tensor)) Hear({text, 0, 0, id, {0, 1}, lifetime});
    declaring.EndUse(tensor, true);
    Close(tensor);
    return tensor;
  }
  // Uses `text` once, and then another tensor until this rank lets go of `text`.
  void LetGoOf(const std::string& text, TensorId id, uint32_t lifetime = 1) {
    Use(text, id, lifetime);
    for (int i = 0; i < 4; ++i) Use("other", 1000, 1000);
    ASSERT_EQ(LetGo(), std::vector<TensorId>{id});
    sent.clear();
  }

  PlacedSet set;
  std::vector<TensorId> replaced;
  Names names;
  Joins joins{1};
  std::vector<wire::Message> sent;
  Declaring declaring{names, joins, kFrontRules, IdleTensors(2, 2),
                      [this](const wire::Message& message) { sent.push_back(message); }};
};

TEST_F(DeclaringTest, ASpecIsDeclaredOnceAndThenUsed) {
  Tensor& tensor = Open("x");
  EXPECT_FALSE(declaring.BeginUse(tensor));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(Asked()[0].name, "x");
  EXPECT_EQ(Asked()[0].round, 1U);
  EXPECT_EQ(Hear({"x", 0, 0, 7, {0, 1}}), &tensor);
  EXPECT_TRUE(tensor.declared);
  EXPECT_EQ(tensor.round, 1U);
  EXPECT_TRUE(declaring.BeginUse(tensor));
  EXPECT_EQ(tensor.round, 2U);
  EXPECT_EQ(sent.size(), 1U);
}

TEST_F(DeclaringTest, WordsThatNobodyWaitsForChangeNothing) {
  Tensor& tensor = Open("x");
  declaring.BeginUse(tensor);
  EXPECT_EQ(Hear({"y", 0, 0, 7, {}}), nullptr) << "never heard of";
  EXPECT_EQ(Hear({"x", 1, 0, 7, {}}), nullptr) << "of another process set";
  EXPECT_EQ(Hear({"x", 0, 1, 7, {}}), nullptr) << "of another attempt";
  tensor.task->withdrawn = Status(StatusCode::kShutdown, "the end");
  EXPECT_EQ(Hear({"x", 0, 0, 7, {}}), nullptr) << "it ends in an error";
  tensor.task->withdrawn.reset();
  EXPECT_EQ(Hear({"x", 0, 0, 7, {}}), &tensor);
  tensor.task->at = 1;
  EXPECT_EQ(Hear({"x", 0, 0, 8, {}}), nullptr) << "it has its answer";
  Tensor& other = Open("z");
  declaring.BeginUse(other);
  EXPECT_EQ(Hear({"z", 0, 0, 7, {}}), nullptr) << "that number has a tensor";
}

TEST_F(DeclaringTest, AFailureIsKnownOnceInItsAttempt) {
  Tensor& tensor = Open("x");
  EXPECT_EQ(declaring.OnFailed(Failure("y", {0, 0, 1})), nullptr);
  EXPECT_EQ(declaring.OnFailed(Failure("x", {0, 1, 1})), nullptr) << "of a later attempt";
  EXPECT_EQ(declaring.OnFailed(Failure("x", {0, 0, 2})), &tensor.lifetime);
  EXPECT_EQ(declaring.OnFailed(Failure("x", {0, 0, 2})), nullptr) << "one is enough";
  declaring.EndAttempt(tensor.lifetime);
  EXPECT_EQ(tensor.lifetime.attempt, 1U);
  EXPECT_EQ(declaring.OnFailed(Failure("x", {0, 0, 2})), nullptr) << "it is over";
  ASSERT_EQ(declaring.Known().size(), 1U);
  EXPECT_EQ(declaring.Known()[0].failed.size(), 1U);
  declaring.Clear();
  EXPECT_TRUE(declaring.Known()[0].failed.empty());
}

// The lifetime that a rank uses first raises the failure.
TEST_F(DeclaringTest, AFailureOfSeveralLifetimesEndsTheirAttemptsButThoseThatAreOpen) {
  Tensor& x = Open("x");
  Hear({"x", 0, 0, 7, {0, 1}});
  Tensor& y = Open("y");
  Hear({"y", 0, 0, 8, {0, 1}});
  Tensor& z = Open("z");
  Hear({"z", 0, 0, 9, {0, 1}});
  Close(y);
  declaring.OnFailed(
      Failure("x", {0, 0, 1}, {{"y", {0, 2, 1}}, {"z", {0, 0, 1}}, {"n", {4, 0, 1}}}));
  EXPECT_EQ(declaring.EndAttempt(x.lifetime), (std::vector<TensorId>{7, 8}));
  EXPECT_EQ(x.lifetime.attempt, 1U);
  EXPECT_EQ(names.Find("y")->lifetimes.at(0).attempt, 3U);
  EXPECT_EQ(z.lifetime.attempt, 0U) << "its operation needs an end of its own";
  EXPECT_EQ(names.Find("n")->lifetimes.at(4).attempt, 1U) << "also before its first use";
}

TEST_F(DeclaringTest, WhatBrokeWhileThisRankHadJoinedWasTheOthersBusiness) {
  Tensor& tensor = Open("x");
  declaring.OnFailed(Failure("x", {0, 0, 2}));
  EXPECT_NE(declaring.FailureOf(tensor.lifetime), Declaring::Failure::kPast);
  joins.OnSubmitted();
  joins.Begin();
  joins.End(true);
  EXPECT_EQ(declaring.FailureOf(tensor.lifetime), Declaring::Failure::kPast);
}

TEST_F(DeclaringTest, AFailureConcernsTheUseOfItsRound) {
  Tensor& tensor = Open("x");
  Hear({"x", 0, 0, 7, {0, 1}});
  EXPECT_EQ(declaring.FailureOf(tensor.lifetime), Declaring::Failure::kNone);
  declaring.OnFailed(Failure("x", {0, 0, 3}));
  EXPECT_EQ(declaring.FailureOf(tensor.lifetime), Declaring::Failure::kLater);
  EXPECT_TRUE(declaring.BeginUse(tensor)) << "the second use is as the others had it";
  EXPECT_EQ(declaring.FailureOf(tensor.lifetime), Declaring::Failure::kNext);
  tensor.lifetime.round = 3;
  EXPECT_EQ(declaring.FailureOf(tensor.lifetime), Declaring::Failure::kPast);
}

// The coordinator says that this rank uses the name in round 1 with a spec that no other rank has
// ever used.
TEST_F(DeclaringTest, AFailureMayConcernAnEarlierRoundOfThisRank) {
  Tensor& tensor = Open("x");
  EXPECT_EQ(declaring.OnFailed(Failure("x", {0, 0, 3})), &tensor.lifetime);
  EXPECT_EQ(declaring.OnFailed(Failure("x", {0, 0, 1})), &tensor.lifetime);
  EXPECT_EQ(declaring.FailureOf(tensor.lifetime), Declaring::Failure::kNext);
  EXPECT_EQ(declaring.Known()[0].failed[0].use.round, 3U) << "what the job knows";
}

// If the rank did not count the ended use, its next gradient would meet the previous gradient of
// the others.
TEST_F(DeclaringTest, WhatEndedHereInAnotherErrorCountsInTheNextAttempt) {
  Tensor& tensor = Open("x");
  Hear({"x", 0, 0, 7, {0, 1}});
  for (int i = 0; i < 3; ++i) declaring.BeginUse(tensor);
  ASSERT_EQ(tensor.lifetime.round, 4U);
  declaring.OnFailed(Failure("x", {0, 0, 2}));
  EXPECT_EQ(declaring.SkipFailure(tensor.lifetime), std::vector<TensorId>{7});
  declaring.BeginUse(tensor);
  EXPECT_EQ(Asked().back().attempt, 1U);
  EXPECT_EQ(Asked().back().round, 3U) << "rounds 3 and 4 were rounds 1 and 2 of the others";
}

TEST_F(DeclaringTest, AfterAFailureTheNextAttemptCountsFromOne) {
  Tensor& tensor = Open("x");
  Hear({"x", 0, 0, 7, {0, 1}});
  declaring.BeginUse(tensor);
  declaring.OnFailed(Failure("x", {0, 0, 2}));
  declaring.EndAttempt(tensor.lifetime);
  declaring.BeginUse(tensor);
  EXPECT_EQ(Asked().back().round, 1U);
}

TEST_F(DeclaringTest, ARestartedCoordinatorHearsAllAndIsAskedAgain) {
  Tensor& first = Open("x");
  declaring.BeginUse(first);
  Hear({"x", 0, 0, 7, {3, 1}});
  Close(first);
  declaring.BeginUse(Open("y"));
  auto known = declaring.Known();
  ASSERT_EQ(known.size(), 1U);
  ASSERT_EQ(known[0].tensors.size(), 1U);
  EXPECT_EQ(known[0].tensors[0].declared, (wire::Declared{"x", 0, 0, 7, {3, 1}}));
  sent.clear();
  declaring.AskAgain();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(Asked()[0].name, "y");
}

TEST_F(DeclaringTest, WhoHasLetGoOfATensorAsksBeforeItsNextUse) {
  LetGoOf("x", 7);
  Tensor& tensor = Open("x");
  EXPECT_FALSE(declaring.BeginUse(tensor));
  EXPECT_EQ(Asked()[0].lifetime, 1U);
  EXPECT_EQ(Asked()[0].round, 2U);
  EXPECT_EQ(Hear({"x", 0, 0, 7, {0, 1}, 1}), &tensor) << "others hold it";
  EXPECT_EQ(tensor.round, 2U);
  EXPECT_TRUE(replaced.empty());
  Close(tensor);
  EXPECT_TRUE(declaring.BeginUse(Open("x"))) << "it holds it again";
}

TEST_F(DeclaringTest, WhatAllHaveLetGoOfIsForgotten) {
  LetGoOf("x", 7);
  EXPECT_EQ(declaring.OnForgotten({{7}, {{"x", 0, 1}}}), std::vector<TensorId>{7});
  EXPECT_EQ(names.Find("x"), nullptr);
  Tensor& tensor = Open("x");
  EXPECT_FALSE(declaring.BeginUse(tensor));
  EXPECT_EQ(Asked()[0].lifetime, 0U);
  EXPECT_EQ(Asked()[0].round, 1U);
  EXPECT_EQ(Hear({"x", 0, 0, 8, {0, 1}, 5}), &tensor);
  EXPECT_EQ(tensor.lifetime.number, 5U);
  EXPECT_EQ(tensor.round, 1U);
}

// Another shape of the name is in use, so its uses are counted on.
TEST_F(DeclaringTest, ATensorIsForgottenAndItsNameIsNot) {
  LetGoOf("x", 7);
  EXPECT_EQ(declaring.OnForgotten({{7}, {}}), std::vector<TensorId>{7});
  Tensor& tensor = Open("x");
  EXPECT_FALSE(declaring.BeginUse(tensor));
  EXPECT_EQ(Asked()[0].lifetime, 1U);
  EXPECT_EQ(Asked()[0].round, 2U);
}

TEST_F(DeclaringTest, WhoHasAskedMeanwhileAsksAnewWhenItsLifetimeIsOver) {
  LetGoOf("x", 7);
  Tensor& tensor = Open("x");
  declaring.BeginUse(tensor);
  declaring.OnForgotten({{7}, {{"x", 0, 1}}});
  ASSERT_EQ(Asked().size(), 2U);
  EXPECT_EQ(Asked()[1].lifetime, 0U);
  EXPECT_EQ(Asked()[1].round, 1U);
  declaring.OnForgotten({{}, {{"x", 0, 1}}});
  EXPECT_EQ(Asked().size(), 2U) << "the answer to the first question";
  EXPECT_EQ(Hear({"x", 0, 0, 8, {0, 1}, 5}), &tensor);
  EXPECT_EQ(tensor.id, 8U);
}

// This rank lost the message that all ranks had let go of the tensor, because a connection broke.
TEST_F(DeclaringTest, AnotherTensorTakesThePlaceOfOneThatOthersForgot) {
  LetGoOf("x", 7);
  Tensor& tensor = Open("x");
  declaring.BeginUse(tensor);
  EXPECT_EQ(Hear({"x", 0, 0, 8, {0, 1}, 1}), &tensor);
  EXPECT_EQ(replaced, std::vector<TensorId>{7});
  EXPECT_EQ(names.ById(7), nullptr);
  EXPECT_EQ(names.ById(8), &tensor);
}

TEST_F(DeclaringTest, WhatIsInUseIsNotForgotten) {
  Use("x", 7);
  EXPECT_TRUE(declaring.OnForgotten({{7}, {{"x", 0, 1}}}).empty());
  EXPECT_NE(names.ById(7), nullptr);
  EXPECT_EQ(names.Find("x")->lifetimes.at(0).number, 1U);
}

// Ranks that have not come to a use that ended in an error begin that use later, and count it.
TEST_F(DeclaringTest, AfterAnErrorARankDoesNotLetGo) {
  Tensor& tensor = Open("x");
  declaring.BeginUse(tensor);
  Hear({"x", 0, 0, 7, {0, 1}, 1});
  declaring.EndUse(tensor, false);
  Close(tensor);
  for (int i = 0; i < 8; ++i) Use("other", 1000, 1000);
  EXPECT_TRUE(LetGo().empty());
}

TEST_F(DeclaringTest, ANameThatIsDeclaredAndNeverUsedIsLostByAndBy) {
  declaring.Reserve("unused");
  declaring.Reserve("x");
  const uint32_t order = names.Find("x")->order;
  Use("x", 7);
  for (int i = 0; i < 40; ++i) Use("other", 1000, 1000);
  EXPECT_EQ(names.Find("unused"), nullptr);
  ASSERT_NE(names.Find("x"), nullptr);
  EXPECT_EQ(names.Find("x")->order, order);
  declaring.Reserve("x");
  declaring.Clear();
  names.Clear();
  declaring.Reserve("later");
  for (int i = 0; i < 32; ++i) Use("other", 1001, 1001);
  EXPECT_NE(names.Find("later"), nullptr);
  Use("other", 1001, 1001);
  EXPECT_EQ(names.Find("later"), nullptr);
}

TEST_F(DeclaringTest, WithAProcessSetAllItsTensorsGo) {
  Tensor& tensor = Open("x", 4);
  declaring.BeginUse(tensor);
  Hear({"x", 4, 0, 7, {0, 1}, 1});
  Close(tensor);
  Use("x", 8, 2);
  declaring.LetGoOf(4);
  EXPECT_EQ(LetGo(), std::vector<TensorId>{7});
  declaring.OnForgotten({{7}, {{"x", 4, 1}}});
  EXPECT_FALSE(names.Find("x")->lifetimes.contains(4));
}

TEST_F(DeclaringTest, ARestartedCoordinatorHearsWhatIsLetGoOf) {
  LetGoOf("x", 7);
  bool found = false;
  const std::vector<wire::Known> known = declaring.Known();
  for (const wire::KnownTensor& one : known[0].tensors) {
    if (one.declared.tensor != 7) continue;
    found = true;
    EXPECT_TRUE(one.let_go);
    EXPECT_EQ(one.declared.lifetime, 1U);
  }
  EXPECT_TRUE(found);
  declaring.AskAgain();
  EXPECT_EQ(LetGo(), std::vector<TensorId>{7});
  sent.clear();
  declaring.BeginUse(Open("x"));
  declaring.AskAgain();
  EXPECT_TRUE(LetGo().empty()) << "it wants it again";
}

TEST_F(DeclaringTest, WithALifetimeItsFailuresAreForgotten) {
  Tensor& tensor = Open("x");
  declaring.OnFailed(Failure("x", {0, 0, 1, 3}));
  EXPECT_EQ(tensor.lifetime.number, 3U);
  declaring.EndAttempt(tensor.lifetime);
  Close(tensor);
  declaring.OnForgotten({{}, {{"x", 0, 3}}});
  EXPECT_TRUE(declaring.Known()[0].failed.empty());
}

// The joined rank is told of the others' failure. It will pass over the failure, and the others
// have gone on without it.
TEST_F(DeclaringTest, WhoHasJoinedForgetsWhatTheOthersHaveLetGoOf) {
  Use("x", 7);
  joins.OnSubmitted();
  joins.Begin();
  declaring.OnFailed(Failure("x", {0, 0, 2, 1}));
  EXPECT_EQ(declaring.OnForgotten({{9, 7}, {{"x", 0, 1}}}), (std::vector<TensorId>{9, 7}));
  EXPECT_EQ(names.Find("x"), nullptr);
  EXPECT_TRUE(declaring.Known()[0].failed.empty());
}

TEST_F(DeclaringTest, WhoHasStillToRaiseAFailureForgetsNothing) {
  Use("x", 7);
  declaring.OnFailed(Failure("x", {0, 0, 2, 1}));
  EXPECT_TRUE(declaring.OnForgotten({{7}, {{"x", 0, 1}}}).empty());
  EXPECT_NE(names.Find("x"), nullptr);
}

// If a rank still told such a failure, a restarted coordinator would begin with a failure that no
// rank remembers.
TEST_F(DeclaringTest, FailuresOfLifetimesThatAreOverAreToldNobody) {
  Tensor& x = Open("x");
  declaring.OnFailed(Failure("x", {0, 0, 1, 3}, {{"y", {0, 0, 1, 5}}}));
  declaring.EndAttempt(x.lifetime);
  Close(x);
  declaring.OnForgotten({{}, {{"y", 0, 5}}});
  const std::vector<wire::Known> known = declaring.Known();
  ASSERT_EQ(known[0].failed.size(), 1U);
  EXPECT_TRUE(known[0].failed[0].also.empty());
}

TEST_F(DeclaringTest, WithATensorTheFailuresBeforeItsAttemptAreForgotten) {
  Tensor& x = Open("x");
  declaring.OnFailed(Failure("x", {0, 0, 1, 3}));
  declaring.EndAttempt(x.lifetime);
  declaring.BeginUse(x);
  Hear({"x", 0, 1, 7, {0, 1}, 3});
  declaring.EndUse(x, true);
  Close(x);
  for (int i = 0; i < 4; ++i) Use("other", 1000, 1000);
  ASSERT_EQ(LetGo(), std::vector<TensorId>{7});
  EXPECT_EQ(declaring.OnForgotten({{7}, {}}), std::vector<TensorId>{7});
  EXPECT_TRUE(declaring.Known()[0].failed.empty());
}

TEST_F(DeclaringTest, WhatIsKnownComesInMessagesOfBoundedSize) {
  const std::vector<uint64_t> placement(1 << 16, 1);
  for (TensorId id = 0; id < 8; ++id) {
    Tensor& tensor = Open("x" + std::to_string(id));
    Hear({tensor.name, 0, 0, id, placement});
    Close(tensor);
  }
  size_t tensors = 0;
  for (const wire::Known& part : declaring.Known()) {
    EXPECT_LE(part.tensors.size(), 2U) << "half a megabyte each";
    tensors += part.tensors.size();
  }
  EXPECT_EQ(tensors, 8U);
}

}  // namespace
}  // namespace byteps::protocol
