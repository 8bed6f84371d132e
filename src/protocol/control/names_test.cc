// The parts of the declarations: an attempt, the numbers of tensors, and circles of waiting ranks.
// declarations_test.cc has them together.
#include <gtest/gtest.h>

#include "src/protocol/control/attempt.h"
#include "src/protocol/control/tensor_dealer.h"
#include "src/protocol/control/wait_circles.h"

namespace byteps::protocol {
namespace {

wire::TensorSpec SpecOf(int64_t elements) {
  return {wire::Op::kSum, DataType::kFloat32, 0, {elements}};
}

TEST(AttemptTest, OnlyTheLatestRoundIsCompared) {
  Attempt attempt;
  const Attempt::Entry& three = attempt.Add(SpecOf(3), {1, {}});
  const Attempt::Entry& four = attempt.Add(SpecOf(4), {2, {}});
  EXPECT_EQ(&attempt.Add(SpecOf(3), {9, {}}), &three) << "it is there already";
  EXPECT_FALSE(attempt.Contradicts(1, nullptr));
  attempt.Mean(1, three, 0);
  EXPECT_FALSE(attempt.Contradicts(1, &three));
  EXPECT_TRUE(attempt.Contradicts(1, &four));
  EXPECT_TRUE(attempt.Contradicts(1, nullptr)) << "a spec that is new";
  attempt.Mean(2, four, 5);
  EXPECT_FALSE(attempt.Contradicts(1, &four));
  attempt.Mean(1, three, 0);
  EXPECT_TRUE(attempt.Contradicts(2, &three));
  EXPECT_EQ(attempt.meant_by(), 5u);
}

TEST(AttemptTest, AFailureNamesAllItsTensors) {
  Attempt attempt;
  attempt.Add(SpecOf(3), {7, {}});
  attempt.Retire(7);
  attempt.Retire(6);
  EXPECT_EQ(attempt.Fail({"x", {0, 0, 1}, {1, 2, 3}}).tensors, (std::vector<TensorId>{6, 7}));
  EXPECT_TRUE(attempt.failed().has_value());
}

class TensorDealerTest : public testing::Test {
 protected:
  TensorDealerTest() { Begin(dealer); }
  static void Begin(TensorDealer& which) {
    which.Begin(plan::PieceAssigner::Create({{1, 1}}, 4096).value(), 4, 4096);
  }
  TensorDealer dealer;
};

TEST_F(TensorDealerTest, NumbersRiseAndEnd) {
  dealer.Number(10, 2);
  EXPECT_EQ(dealer.Deal(SpecOf(3)).value().tensor, 10u);
  EXPECT_EQ(dealer.Deal(SpecOf(-1)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(dealer.Deal(SpecOf(3)).value().tensor, 11u);
  EXPECT_EQ(dealer.Deal(SpecOf(3)).status().code(), StatusCode::kExhausted);
}

TEST_F(TensorDealerTest, ARestartedOneDealsOnWhereTheLatestTensorEnded) {
  Attempt attempt;
  const Attempt::Entry& first = attempt.Add(SpecOf(3), dealer.Deal(SpecOf(3)).value());
  std::vector<uint64_t> expected = dealer.Deal(SpecOf(4)).value().placement;
  TensorDealer next;
  Begin(next);
  next.Number(100, 10);
  EXPECT_TRUE(next.StillKnown().empty());
  next.Hear(1);
  next.Hear(105);
  ASSERT_TRUE(next.GoOnAfter(&first).ok());
  EXPECT_EQ(next.Deal(SpecOf(4)).value().placement, expected);
  ASSERT_EQ(next.StillKnown().size(), 1u);
  EXPECT_EQ(next.StillKnown()[0], (wire::StillKnown{0, 100, {1}}))
      << "its own numbers are no matter of the earlier ones";
}

TEST_F(TensorDealerTest, ALongListOfWhatIsStillKnownComesInParts) {
  constexpr TensorId kFirst = 1 << 22;
  constexpr TensorId kTensors = 600000;
  dealer.Number(kFirst, 1000);
  for (TensorId i = 0; i < kTensors; ++i) dealer.Hear(2 * i + 1);
  ASSERT_TRUE(dealer.GoOnAfter(nullptr).ok());
  std::vector<wire::StillKnown> parts = dealer.StillKnown();
  ASSERT_EQ(parts.size(), 3u);
  TensorId at = 0;
  TensorId next = 1;
  for (const wire::StillKnown& part : parts) {
    EXPECT_EQ(part.first, at) << "nothing lies between two parts";
    EXPECT_LT(wire::EncodeControl(part).size(), wire::kControlBytesMax / 8);
    for (TensorId tensor : part.tensors) {
      ASSERT_EQ(tensor, next);
      ASSERT_TRUE(part.first <= tensor && tensor < part.end);
      next += 2;
    }
    at = part.end;
  }
  EXPECT_EQ(at, kFirst);
  EXPECT_EQ(next, 2 * kTensors + 1);
}

class WaitCirclesTest : public testing::Test {
 protected:
  static WaitCircles::Wait WaitFor(uint32_t rank, const wire::Use& use,
                                   const std::vector<uint32_t>& ranks,
                                   const std::vector<wire::Use>& elsewhere = {}) {
    auto shared = ranks.empty() ? nullptr : std::make_shared<const std::vector<uint32_t>>(ranks);
    return {100 + rank, use, 1, elsewhere, shared};
  }
  // The rank is stuck in its only use of this name.
  std::vector<WaitCircles::Question> Stick(uint32_t rank, const std::string& name) {
    EXPECT_FALSE(circles.Add(rank, name, WaitFor(rank, {0, 0, 1}, {})).has_value());
    return circles.AddStuck(rank, name);
  }
  WaitCircles circles{[](const wire::NamedUse&, TensorId) { return "sum of int8[1]"; }};
};

TEST_F(WaitCirclesTest, TwoProcessSetsOfOneNameThatNeedEachOther) {
  EXPECT_FALSE(circles.Add(0, "x", WaitFor(0, {1, 0, 1}, {0, 1})).has_value());
  auto found = circles.Add(1, "x", WaitFor(1, {2, 0, 1}, {0, 1}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->uses, (std::vector<wire::NamedUse>{{"x", {1, 0, 1}}, {"x", {2, 0, 1}}}));
  EXPECT_NE(found->text.find("rank 0 has sum of int8[1]"), std::string::npos) << found->text;
  circles.Clear();
  EXPECT_FALSE(circles.Add(0, "x", WaitFor(0, {1, 0, 1}, {0, 1})).has_value());
  EXPECT_FALSE(circles.Add(1, "x", WaitFor(1, {2, 0, 1}, {0, 1}, {{1, 0, 1}})).has_value())
      << "rank 1 has begun what rank 0 waits for";
}

TEST_F(WaitCirclesTest, RanksThatCallInAnotherOrderAreFoundByAsking) {
  EXPECT_TRUE(Stick(0, "a").empty());
  std::vector<WaitCircles::Question> questions = Stick(1, "b");
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_FALSE(circles.Judge().has_value()) << "nobody has answered";
  wire::NamedUse in_a{"a", {0, 0, 1}}, in_b{"b", {0, 0, 1}};
  EXPECT_TRUE(circles.OnUnbegun(0, 100, {in_a, {in_b}}));
  EXPECT_FALSE(circles.Judge().has_value());
  EXPECT_TRUE(circles.OnUnbegun(1, 101, {in_b, {in_a}}));
  std::optional<WaitCircles::Mismatch> found = circles.Judge();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->code, StatusCode::kOutOfStep);
  EXPECT_EQ(found->uses, (std::vector<wire::NamedUse>{in_a, in_b}));
  EXPECT_NE(found->text.find("which rank 1 has not begun"), std::string::npos) << found->text;
  circles.ForgetFailed("a", {0, 0, 1});
  EXPECT_FALSE(circles.Judge().has_value());
}

TEST_F(WaitCirclesTest, WhoIsGoneOrGoesOnMakesNoCircle) {
  wire::NamedUse in_a{"a", {0, 0, 1}}, in_b{"b", {0, 0, 1}};
  for (bool gone : {false, true}) {
    circles.Clear();
    Stick(0, "a");
    Stick(1, "b");
    circles.OnUnbegun(0, 100, {in_a, {in_b}});
    circles.OnUnbegun(1, 101, {in_b, {in_a}});
    ASSERT_TRUE(circles.Judge().has_value());
    gone ? circles.ForgetIf([](uint64_t who) { return who == 101; })
         : circles.Forget(1, 101, "b", false);
    EXPECT_FALSE(circles.Judge().has_value());
  }
}

}  // namespace
}  // namespace byteps::protocol
