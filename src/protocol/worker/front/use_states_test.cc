// Tests of the states of uses, as a worker reports them.
#include "src/protocol/worker/front/use_states.h"

#include <gtest/gtest.h>

#include "src/protocol/protocol_for_test.h"

namespace byteps::protocol {
namespace {

class UseStatesTest : public testing::Test {
 protected:
  UseStatesTest() { sets.Begin(ViewFor(3, 1).workers, 0); }

  // Opens a use at this place of its path. The tensor is declared if the place is not the first.
  Tensor& Open(const std::string& text, size_t at) {
    Name& name = names.NameOf(text);
    Lifetime& lifetime = Names::LifetimeOf(name, 0);
    Tensor& tensor = Names::TensorOf(lifetime, {wire::Op::kSum, DataType::kUint8, 0, {8}});
    if (at > 0) names.SetDeclared(tensor, {text, 0, 0, 70, {0, 1}});
    Operation operation;
    operation.id = 9;
    tensor.task = std::make_unique<Task>(operation, tensor.spec, sets.Of(0), tensor.deal);
    tensor.task->path = PathOf(false, false);
    tensor.task->at = at;
    if (at > 0) tensor.round = ++lifetime.round;
    name.open = &tensor;
    return tensor;
  }

  Names names;
  PlacedSets sets;
  Joins joins{1};
  UseStates uses{names, sets, joins};
};

TEST_F(UseStatesTest, ADeclarationIsOfTheNextRound) {
  Open("x", 0);
  const wire::UseState state = uses.Open().at(9);
  EXPECT_EQ(state.stage, wire::UseStage::kDeclares);
  EXPECT_EQ(state.use, (wire::NamedUse{"x", {0, 0, 1}}));
  EXPECT_EQ(state.tensor, UINT32_MAX);
  EXPECT_EQ(uses.Of(state.use).second, 9u);
}

TEST_F(UseStatesTest, StagesAreToldByWhatTheyWaitFor) {
  Open("x", 1);
  EXPECT_EQ(uses.Open().at(9).stage, wire::UseStage::kPrepares);
  Open("x", 3);
  EXPECT_EQ(uses.Open().at(9).stage, wire::UseStage::kExchanges);
}

TEST_F(UseStatesTest, EarlierUsesHaveEndedAndLaterOnesHaveNotBegun) {
  Open("x", 3);
  Open("x", 3);
  EXPECT_EQ(uses.Of({"x", {0, 0, 1}}).first.stage, wire::UseStage::kEnded);
  EXPECT_EQ(uses.Of({"x", {0, 0, 2}}).first.stage, wire::UseStage::kExchanges);
  EXPECT_EQ(uses.Of({"x", {0, 0, 3}}).first.stage, wire::UseStage::kNotBegun);
  EXPECT_EQ(uses.Of({"unknown", {0, 0, 1}}).first.stage, wire::UseStage::kNotBegun);
}

TEST_F(UseStatesTest, AnInputThatIsLateIsToldUntilItsUseHasBegun) {
  uses.SetDeviceWaits({{"x"}, {}});
  EXPECT_EQ(uses.Of({"x", {0, 0, 1}}).first.stage, wire::UseStage::kAwaitsInput);
  EXPECT_EQ(uses.Of({"y", {0, 0, 1}}).first.stage, wire::UseStage::kNotBegun);
  Open("x", 3);
  EXPECT_EQ(uses.Of({"x", {0, 0, 1}}).first.stage, wire::UseStage::kExchanges);
}

TEST_F(UseStatesTest, ARankThatHasJoinedSaysSo) {
  joins.OnSubmitted();
  joins.Begin();
  EXPECT_EQ(uses.Of({"x", {0, 0, 1}}).first.stage, wire::UseStage::kJoined);
}

}  // namespace
}  // namespace byteps::protocol
