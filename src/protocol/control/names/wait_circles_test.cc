#include "src/protocol/control/names/wait_circles.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "src/wire/data.h"

namespace byteps::protocol {
namespace {

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
  circles.ForgetUses("a", {0, 0, 1});
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

TEST_F(WaitCirclesTest, ACircleOfThreeProcessSetsIsFoundWhenItsLastRankSpeaks) {
  EXPECT_FALSE(circles.Add(0, "x", WaitFor(0, {1, 0, 5}, {0, 1})).has_value());
  EXPECT_FALSE(circles.Add(1, "x", WaitFor(1, {2, 0, 6}, {1, 2})).has_value());
  auto found = circles.Add(2, "x", WaitFor(2, {3, 0, 7}, {0, 2}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->uses.size(), 3u);
  EXPECT_EQ(found->code, StatusCode::kMismatch);
  EXPECT_NE(found->text.find("process set"), std::string::npos) << found->text;
}

TEST_F(WaitCirclesTest, WhatCountsAnotherJoinIsNoCircle) {
  uint64_t after = wire::FirstRoundAfter(1) + 1;
  EXPECT_FALSE(circles.Add(0, "x", WaitFor(0, {1, 0, after}, {0, 1})).has_value());
  EXPECT_FALSE(circles.Add(1, "x", WaitFor(1, {2, 0, 1}, {0, 1})).has_value());
}

TEST_F(WaitCirclesTest, NamesHaveNothingToDoWithEachOther) {
  EXPECT_FALSE(circles.Add(0, "x", WaitFor(0, {1, 0, 1}, {0, 1})).has_value());
  EXPECT_FALSE(circles.Add(1, "y", WaitFor(1, {2, 0, 1}, {0, 1})).has_value());
}

// A rank begins something else, so its arrows are those of the use that it waits for now.
TEST_F(WaitCirclesTest, ALaterWordTakesThePlaceOfAnEarlierOne) {
  circles.Add(0, "x", WaitFor(0, {1, 0, 1}, {0, 1}));
  circles.ForgetWait(0, "x");
  EXPECT_FALSE(circles.Add(1, "x", WaitFor(1, {2, 0, 1}, {0, 1})).has_value());
  circles.Add(0, "x", WaitFor(0, {2, 0, 1}, {0, 1}));
  EXPECT_FALSE(circles.Add(1, "x", WaitFor(1, {2, 0, 1}, {0, 1})).has_value()) << "the same set";
  EXPECT_TRUE(circles.Add(1, "x", WaitFor(1, {1, 0, 1}, {0, 1})).has_value());
}

TEST_F(WaitCirclesTest, WhatHasFailedIsForgottenUpToItsAttempt) {
  circles.Add(0, "x", WaitFor(0, {1, 3, 1}, {0, 1}));
  circles.ForgetUses("x", {1, 2, 1});
  EXPECT_TRUE(circles.Add(1, "x", WaitFor(1, {2, 0, 1}, {0, 1})).has_value()) << "a later attempt";
  circles.ForgetUses("x", {1, 3, 9});
  EXPECT_FALSE(circles.Add(1, "x", WaitFor(1, {2, 0, 1}, {0, 1})).has_value());
}

// Compares any ranks in any process sets of one name with a plain search for a way back.
RC_GTEST_FIXTURE_PROP(WaitCirclesTest, FindsExactlyTheCirclesOfArrows, ()) {
  const auto ranks = *rc::gen::inRange(2U, 6U);
  std::vector<WaitCircles::Wait> waits;
  std::vector<std::vector<bool>> leads(ranks, std::vector<bool>(ranks));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<uint32_t> members = {rank};
    for (uint32_t other = 0; other < ranks; ++other) {
      if (other != rank && *rc::gen::arbitrary<bool>()) members.push_back(other);
    }
    // A process set is what its number says. Here each rank waits in a process set of its own.
    std::vector<wire::Use> elsewhere;
    for (uint32_t other = 0; other < rank; ++other) {
      if (*rc::gen::inRange(0, 4) > 0) continue;
      elsewhere.push_back({other + 1, 0, *rc::gen::inRange<uint64_t>(1, 4)});
    }
    const wire::Use use{rank + 1, 0, *rc::gen::inRange<uint64_t>(1, 4)};
    const WaitCircles::Wait wait = WaitFor(rank, use, members, elsewhere);
    waits.push_back(wait);
    const auto lacks = [&](const WaitCircles::Wait& other) {
      return std::none_of(other.elsewhere.begin(), other.elsewhere.end(),
                          [&](const wire::Use& one) {
                            return one.process_set == use.process_set && one.round >= use.round;
                          });
    };
    for (uint32_t other : members) {
      if (other < rank) leads[rank][other] = lacks(waits[other]);
    }
    for (uint32_t other = 0; other < rank; ++other) {
      const auto& in = *waits[other].ranks;
      const bool needs = std::find(in.begin(), in.end(), rank) != in.end();
      const bool has = std::any_of(elsewhere.begin(), elsewhere.end(), [&](const wire::Use& one) {
        return one.process_set == other + 1 && one.round >= waits[other].use.round;
      });
      leads[other][rank] = needs && !has;
    }
    std::vector<std::vector<bool>> reaches = leads;
    for (uint32_t via = 0; via <= rank; ++via) {
      for (uint32_t from = 0; from <= rank; ++from) {
        for (uint32_t to = 0; to <= rank; ++to) {
          if (reaches[from][via] && reaches[via][to]) reaches[from][to] = true;
        }
      }
    }
    const auto found = circles.Add(rank, "x", wait);
    RC_ASSERT(found.has_value() == reaches[rank][rank]);
    if (found.has_value()) break;  // it is reported once, and fails
  }
}

}  // namespace
}  // namespace byteps::protocol
