// Ranks let go of tensors, and the coordinator forgets them.
#include "src/protocol/control/names/declarations_for_test.h"

namespace byteps::protocol {
namespace {

class LettingGoTest : public DeclarationsTest {};

TEST_F(LettingGoTest, WhatAllRanksLetGoOfIsForgotten) {
  for (uint32_t rank : {0, 1}) Declare(rank, 1, Spec(3));
  for (uint32_t rank : {0, 1}) Declare(rank, 2, Spec(4), 0, 1);
  EXPECT_EQ(LetGo(0, {1}), (Said{}));
  EXPECT_EQ(LetGo(1, {1}), (Said{{0, "without T1"}, {1, "without T1"}}));
  EXPECT_EQ(forgotten, (std::set<TensorId>{1}));
  EXPECT_TRUE(names.NamesOf({1}).empty());
  EXPECT_EQ(names.NamesOf({2}).at(2), "x");
  EXPECT_EQ(Declare(0, 3, Spec(3), 0, 1), (Said{{0, "T3"}})) << "the lifetime goes on";
  EXPECT_EQ(Declare(1, 3, Spec(3), 0, 1), (Said{{1, "T3"}}));
}

TEST_F(LettingGoTest, WhoAsksAgainHoldsATensorWhateverOthersLetGoOf) {
  for (uint32_t rank : {0, 1}) Declare(rank, 1, Spec(3));
  LetGo(0, {1});
  EXPECT_EQ(Declare(0, 2, Spec(3), 0, 1), (Said{{0, "T1"}}));
  EXPECT_EQ(LetGo(1, {1}), (Said{}));
  EXPECT_EQ(LetGo(1, {1}), (Said{})) << "said again";
  EXPECT_EQ(LetGo(2, {1}), (Said{})) << "it never held it";
  EXPECT_TRUE(forgotten.empty());
}

TEST_F(LettingGoTest, WithItsLastTensorALifetimeIsOver) {
  for (uint32_t rank : {0, 1}) Declare(rank, 1, Spec(3));
  LetGo(0, {1});
  EXPECT_EQ(LetGo(1, {1}),
            (Said{{0, "without T1 lifetime 1 of x"}, {1, "without T1 lifetime 1 of x"}}));
  EXPECT_EQ(Declare(1, 2, Spec(3), 0, 1), (Said{{1, "without lifetime 1 of x"}}))
      << "it had asked before it heard so";
  EXPECT_EQ(Declare(0, 1, Spec(3)), (Said{{0, "T2"}})) << "a new name";
  EXPECT_EQ(Declare(1, 2, Spec(3), 0, 1), (Said{{1, "without lifetime 1 of x"}}));
  EXPECT_EQ(Declare(1, 1, Spec(4)), (Said{{0, "failed"}, {1, "failed"}}));
  EXPECT_EQ(failures.back().use, (wire::Use{0, 0, 1, 2}));
  EXPECT_EQ(LetGo(0, {1}), (Said{{0, "without T1"}})) << "its connection broke before it heard so";
}

TEST_F(LettingGoTest, AReportOfALifetimeThatIsOverCountsForNothing) {
  for (uint32_t rank : {0, 1}) Declare(rank, 1, Spec(3));
  const wire::Overdue old{{{"x", {0, 0, 1, 1}, 1, {}}}, {}};
  for (uint32_t rank : {0, 1}) LetGo(rank, {1});
  Declare(0, 1, Spec(4));
  EXPECT_EQ(Note(names.OnOverdue(Rank(1), old)), (Said{}));
  EXPECT_TRUE(failures.empty());
}

TEST_F(LettingGoTest, WithALifetimeItsFailedAttemptsAreForgotten) {
  Declare(0, 1, Spec(3));
  Declare(1, 1, Spec(4));
  for (uint32_t rank : {0, 1, 2}) Declare(rank, 1, Spec(5), 1, 1);
  EXPECT_EQ(LetGo(0, {1, 2}), (Said{})) << "the attempt of T1 has failed; T2 goes on elsewhere";
  LetGo(1, {2});
  EXPECT_EQ(LetGo(2, {2}), (Said{{0, "without T2 T1 lifetime 1 of x"},
                                 {1, "without T2 T1 lifetime 1 of x"},
                                 {2, "without T2 T1 lifetime 1 of x"}}));
  EXPECT_EQ(forgotten, (std::set<TensorId>{1, 2}));
  EXPECT_TRUE(Note(names.FailedForWorker(100)).empty());
}

TEST_F(LettingGoTest, WhatALostRankHeldIsHeldByNobody) {
  for (uint32_t rank : {0, 1, 2}) Declare(rank, 1, Spec(3));
  LetGo(0, {1});
  LetGo(1, {1});
  names.ForgetLost([](uint64_t incarnation) { return incarnation == 102; });
  Said said = Note(names.ForgetUnheld());
  EXPECT_EQ(said.at(0), "without T1 lifetime 1 of x");
  EXPECT_EQ(said.at(1), "without T1 lifetime 1 of x");
  EXPECT_EQ(Note(names.ForgetUnheld()), (Said{}));
}

TEST_F(LettingGoTest, NamesThatComeAndGoCostNothingThatStays) {
  for (uint64_t i = 0; i < 5000; ++i) {
    const std::string name = "name " + std::to_string(i);
    for (uint32_t rank : {0, 1}) Note(names.OnDeclare(Rank(rank), {name, 0, Spec(3), 1}));
    const auto tensor = static_cast<TensorId>(i + 1);
    for (uint32_t rank : {0, 1}) LetGo(rank, {tensor});
    ASSERT_TRUE(forgotten.contains(tensor));
    lifetimes.clear();
  }
  EXPECT_EQ(names.known(), 0U);
}

// Before the coordinator was lost, one rank had heard that all have let go; another one had not.
TEST_F(LettingGoTest, WhatAllWhoKnowItHaveLetGoOfIsOverAfterARestart) {
  std::vector<uint64_t> placement = {0, 0, 2};
  Declarations fresh;
  Begin(fresh);
  fresh.Number(1 << 22, 1000);
  fresh.OnKnown(Rank(0), {});
  fresh.OnKnown(Rank(1), {{{{"x", 0, 0, 7, placement, 3}, Spec(3), true},
                           {{"y", 0, 0, 8, placement, 4}, Spec(3), true}},
                          {}});
  fresh.OnKnown(Rank(2), {{{{"y", 0, 0, 8, placement, 4}, Spec(3), false}}, {}});
  ASSERT_TRUE(fresh.OnAllKnown().ok());
  EXPECT_EQ(Note(fresh.ForgetUnheld()), (Said{{1, "without T7 lifetime 3 of x"}}));
  const std::vector<wire::StillKnown> told = {{0, 1 << 22, {8}}};
  std::vector<wire::StillKnown> known;
  for (const auto& answer : fresh.StillKnown(Declarations::kServers)) {
    known.push_back(std::get<wire::StillKnown>(answer.message));
  }
  EXPECT_EQ(known, told);
  EXPECT_EQ(Note(fresh.OnDeclare(Rank(1), {"y", 0, Spec(3), 2, 4})), (Said{{1, "T8"}}));
}

// One rank knows the lifetime that followed. Another one did not hear that the first lifetime is
// over.
TEST_F(LettingGoTest, OfTwoLifetimesOfANameTheEarlierOneIsOver) {
  std::vector<uint64_t> placement = {0, 0, 2};
  const wire::KnownTensor earlier{{"x", 0, 0, 7, placement, 3}, Spec(3), true};
  const wire::KnownTensor later{{"x", 0, 0, 9, placement, 5}, Spec(3), false};
  for (bool earlier_first : {true, false}) {
    Declarations fresh;
    Begin(fresh);
    fresh.Number(1 << 22, 1000);
    auto take = [&](uint32_t rank, const wire::KnownTensor& known) {
      return Note(fresh.OnKnown(Rank(rank), {{known}, {}}));
    };
    Said first = earlier_first ? take(0, earlier) : take(1, later);
    Said second = earlier_first ? take(1, later) : take(0, earlier);
    EXPECT_EQ(first, (Said{}));
    EXPECT_EQ(
        second,
        (Said{{0, earlier_first ? "without T7 lifetime 3 of x" : "without lifetime 3 of x"}}));
    ASSERT_TRUE(fresh.OnAllKnown().ok());
    EXPECT_EQ(Note(fresh.ForgetUnheld()), (Said{}));
    EXPECT_EQ(Note(fresh.OnDeclare(Rank(0), {"x", 0, Spec(3), 1})), (Said{{0, "T9"}}));
    EXPECT_TRUE(fresh.NamesOf({7}).empty());
  }
}

// One rank heard that all have let go of T7, and has had another tensor since. Another rank did not
// hear it.
TEST_F(LettingGoTest, OfTwoTensorsForOneSpecTheEarlierOneIsOver) {
  std::vector<uint64_t> placement = {0, 0, 2};
  const wire::KnownTensor earlier{{"x", 0, 0, 7, placement, 3}, Spec(3), true};
  const wire::KnownTensor later{{"x", 0, 0, 9, placement, 3}, Spec(3), false};
  const wire::KnownTensor held{{"x", 0, 0, 8, placement, 3}, Spec(4), false};
  for (bool earlier_first : {true, false}) {
    Declarations fresh;
    Begin(fresh);
    fresh.Number(1 << 22, 1000);
    forgotten.clear();
    auto take = [&](uint32_t rank, const wire::KnownTensor& known) {
      return Note(fresh.OnKnown(Rank(rank), {{held, known}, {}}));
    };
    EXPECT_EQ(earlier_first ? take(0, earlier) : take(1, later), (Said{}));
    Said said = earlier_first ? take(1, later) : take(0, earlier);
    EXPECT_EQ(said.at(0), "without T7");
    EXPECT_EQ(forgotten, (std::set<TensorId>{7}));
    ASSERT_TRUE(fresh.OnAllKnown().ok());
    EXPECT_EQ(Note(fresh.ForgetUnheld()), (Said{}));
    for (uint32_t rank : {0, 1}) {
      EXPECT_EQ(Note(fresh.OnDeclare(Rank(rank), {"x", 0, Spec(3), 5, 3})).at(rank), "T9");
    }
  }
}

TEST_F(LettingGoTest, ATensorThatIsNamedTwiceIsForgottenOnce) {
  Declare(0, 1, Spec(3));
  EXPECT_EQ(LetGo(0, {1, 1}), (Said{{0, "without T1 lifetime 1 of x"}}));
}

// No correct worker begins an attempt while the attempt before it goes on.
TEST_F(LettingGoTest, ALifetimeIsNotOverWhileAnAttemptOfItGoesOn) {
  for (uint32_t rank : {0, 1}) Declare(rank, 1, Spec(3));
  Declare(2, 1, Spec(3), 1, 1);
  EXPECT_EQ(LetGo(2, {2}), (Said{{2, "without T2"}}));
  EXPECT_EQ(forgotten, (std::set<TensorId>{2}));
  EXPECT_EQ(Declare(0, 2, Spec(4), 0, 1), (Said{{0, "T3"}}));
}

// Ranks 0 and 1 were stuck in "x" and "y" and got one error; rank 0 never used "y".
TEST_F(LettingGoTest, WhoWasToldOfAFailureThatNamesALifetimeHearsThatItIsOver) {
  DeclareTwo();
  Stuck(0, in_x, 1);
  Stuck(1, in_y, 2);
  Lacks(0, in_x, in_y);
  EXPECT_EQ(Lacks(1, in_y, in_x), (Said{{0, "failed"}, {1, "failed"}}));
  EXPECT_EQ(Note(names.OnDeclare(Rank(1), {"y", 1, Spec(4), 1, 2})), (Said{{1, "T3"}}));
  Said said = LetGo(1, {3});
  EXPECT_EQ(said.at(0), "without T2 lifetime 2 of y");
  EXPECT_EQ(said.at(1), "without T3 T2 lifetime 2 of y");
}

}  // namespace
}  // namespace byteps::protocol
