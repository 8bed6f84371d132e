// The meaning of names, as the coordinator sees it: many specs under one name, ranks that disagree
// at their first use of a spec or when they go back to an old one, and ranks that are in different
// process sets.
#include "src/protocol/control/names/declarations_for_test.h"
#include "src/wire/data.h"

namespace byteps::protocol {
namespace {

TEST_F(DeclarationsTest, ANameHasATensorForEachSpec) {
  EXPECT_EQ(Declare(0, 1, Spec(3)), (Said{{0, "T1"}}));
  EXPECT_EQ(Declare(1, 1, Spec(3)), (Said{{1, "T1"}}));
  EXPECT_EQ(Declare(1, 2, Spec(4)), (Said{{1, "T2"}}));
  EXPECT_EQ(Declare(0, 2, Spec(4)), (Said{{0, "T2"}}));
  EXPECT_EQ(Declare(0, 2, Spec(4)), (Said{{0, "T2"}})) << "asked again";
  EXPECT_EQ(Declare(2, 7, Spec(3)), (Said{{2, "T1"}})) << "it was away for rounds of others";
  EXPECT_EQ(Declare(0, 1, Spec(3, 1)), (Said{{0, "T3"}})) << "another process set, other rounds";
  EXPECT_TRUE(failures.empty());
}

TEST_F(DeclarationsTest, TwoSpecsInOneRoundFailAtOnceAndRetireAllTensors) {
  Declare(0, 1, Spec(3));
  Declare(1, 1, Spec(3));
  Declare(0, 2, Spec(4));
  EXPECT_EQ(Declare(1, 2, Spec(5)), (Said{{0, "failed"}, {1, "failed"}}));
  EXPECT_EQ(failures.back().use, (wire::Use{0, 0, 2, 1}));
  EXPECT_EQ(retired, (std::set<TensorId>{1, 2}));
  for (const char* part : {"rank 0 has sum of float32[4]", "rank 1 has sum of float32[5]"}) {
    EXPECT_NE(failures.back().text.find(part), std::string::npos) << failures.back().text;
  }
  EXPECT_EQ(Declare(2, 1, Spec(3)), (Said{{2, "failed"}})) << "who asks later fails, too";
  EXPECT_EQ(Declare(1, 1, Spec(3), 1), (Said{{1, "T3"}}));
  EXPECT_EQ(Declare(0, 1, Spec(3), 1), (Said{{0, "T3"}}));
}

// Rank 0 goes back to the first spec, and rank 1 stays with the second. Both know both specs.
TEST_F(DeclarationsTest, RanksThatGoBackToDifferentSpecsAreFoundWhenTheyWait) {
  for (uint32_t rank : {0, 1}) Declare(rank, 1, Spec(3));
  for (uint32_t rank : {0, 1}) Declare(rank, 2, Spec(4));
  EXPECT_EQ(Overdue(0, {0, 0, 3}, 1), (Said{}));
  EXPECT_EQ(Overdue(1, {0, 0, 3}, 2), (Said{{0, "failed"}, {1, "failed"}}));
  EXPECT_EQ(failures.back().use.round, 3u);
  for (const char* part : {"rank 0 has sum of float32[3]", "rank 1 has sum of float32[4]"}) {
    EXPECT_NE(failures.back().text.find(part), std::string::npos) << failures.back().text;
  }
  EXPECT_EQ(Overdue(0, {0, 0, 3}, 1), (Said{{0, "failed"}})) << "its report was under way";
}

TEST_F(DeclarationsTest, AnOldReportIsNoMismatch) {
  for (uint32_t rank : {0, 1}) Declare(rank, 1, Spec(3));
  EXPECT_EQ(Overdue(0, {0, 0, 1}, 1), (Said{}));
  for (uint32_t rank : {0, 1}) Declare(rank, 2, Spec(4));
  EXPECT_EQ(Overdue(0, {0, 0, 1}, 1), (Said{})) << "of a round that is over";
  EXPECT_EQ(Overdue(1, {0, 0, 3}, 1), (Said{}));
  EXPECT_EQ(Overdue(0, {0, 0, 2}, 2), (Said{}));
  EXPECT_EQ(Overdue(1, {0, 3, 3}, 1), (Said{})) << "an attempt that does not exist";
  EXPECT_EQ(Overdue(1, {5, 0, 3}, 1), (Said{})) << "a process set that does not exist";
  EXPECT_EQ(Overdue(1, {0, 0, 9}, 99), (Said{})) << "a tensor that does not exist";
  EXPECT_TRUE(failures.empty());
}

// Rank 0 uses the name in the set of all ranks. Rank 1 uses it in set 1, which has both ranks.
TEST_F(DeclarationsTest, RanksThatWaitForEachOtherInTwoProcessSetsFailInBothOnce) {
  for (uint32_t rank : {0, 1, 2}) Declare(rank, 1, Spec(3));
  for (uint32_t rank : {0, 1}) Declare(rank, 1, Spec(3, 1));
  // All ranks agree until here. Rank 2 has not come to its next use.
  EXPECT_EQ(Overdue(1, {1, 0, 2}, 2, {0, 1}, {{0, 0, 1}}), (Said{}));
  EXPECT_EQ(Overdue(0, {0, 0, 2}, 1, {}, {{1, 0, 1}}),
            (Said{{0, "failed"}, {1, "failed"}, {2, "failed"}}));
  EXPECT_EQ(retired, (std::set<TensorId>{1, 2}));
  for (const wire::DeclareFailed& failed : failures) {
    ASSERT_EQ(failed.also.size(), 1u);
    EXPECT_EQ(
        failed.also[0],
        (wire::NamedUse{"x", {1 - failed.use.process_set, 0, 2, 2 - failed.use.process_set}}));
    for (const char* part : {"rank 0 has sum of float32[3] of all ranks",
                             "rank 1 has sum of float32[3] in process set 1"}) {
      EXPECT_NE(failed.text.find(part), std::string::npos) << failed.text;
    }
  }
  EXPECT_EQ(Declare(0, 1, Spec(3), 1), (Said{{0, "T3"}}));
  EXPECT_EQ(Declare(0, 1, Spec(3, 1), 1), (Said{{0, "T4"}}));
}

TEST_F(DeclarationsTest, RanksThatOnlyTakeTurnsAreNoCircle) {
  for (uint32_t rank : {0, 1, 2}) Declare(rank, 1, Spec(3));
  for (uint32_t rank : {1, 2}) Declare(rank, 1, Spec(3, 1));
  // Rank 0 waits for all ranks. The others still use the name among themselves, because rank 2 is
  // late.
  EXPECT_EQ(Overdue(0, {0, 0, 2}, 1), (Said{}));
  EXPECT_EQ(Overdue(1, {1, 0, 2}, 2, {1, 2}, {{0, 0, 1}}), (Said{}));
  // Rank 1 has gone on to the set of all ranks, and now rank 2's old word comes in.
  EXPECT_EQ(Overdue(1, {0, 0, 2}, 1, {}, {{1, 0, 2}}), (Said{}));
  EXPECT_EQ(Overdue(2, {1, 0, 2}, 2, {1, 2}, {{0, 0, 1}}), (Said{}));
  EXPECT_TRUE(failures.empty());
}

TEST_F(DeclarationsTest, ACircleOfThreeProcessSetsIsFound) {
  for (uint32_t process_set : {1, 2, 3}) Declare(process_set % 3, 1, Spec(3, process_set));
  EXPECT_EQ(Overdue(1, {1, 0, 1}, 1, {1, 2}), (Said{}));
  EXPECT_EQ(Overdue(2, {2, 0, 1}, 2, {2, 0}), (Said{}));
  EXPECT_EQ(Overdue(0, {3, 0, 1}, 3, {0, 1}), (Said{{0, "failed"}, {1, "failed"}, {2, "failed"}}));
  EXPECT_EQ(failures.back().also.size(), 2u);
}

TEST_F(DeclarationsTest, WhatALostRankMeantContradictsNobody) {
  Declare(2, 1, Spec(4));
  names.ForgetLost([](uint64_t incarnation) { return incarnation == 102; });
  EXPECT_EQ(Declare(0, 1, Spec(3)), (Said{{0, "T2"}}));
  EXPECT_EQ(Overdue(3, {0, 0, 1}, 1), (Said{{0, "failed"}, {2, "failed"}, {3, "failed"}}))
      << "rank 3 lives and means what rank 2 meant";
}

// The round of this rank has ended in an error for the others, which then disagreed about a later
// one.
TEST_F(DeclarationsTest, ARankThatIsBehindAFailureHearsWhatWasMeantInItsRound) {
  Declare(0, 1, Spec(3));
  Declare(0, 4, Spec(4));
  EXPECT_EQ(Declare(1, 4, Spec(5)), (Said{{0, "failed"}, {1, "failed"}}));
  Declarations::Answers answers = names.OnDeclare(Rank(2), {"x", 0, Spec(3), 3});
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(std::get<wire::Declared>(answers[0].message).tensor, 1u);
  EXPECT_EQ(std::get<wire::DeclareFailed>(answers[1].message).use.round, 4u);
  EXPECT_EQ(Declare(2, 3, Spec(6)), (Said{{2, "failed"}})) << "nobody has ever meant this";
  EXPECT_EQ(failures.back().use.round, 3u);
  EXPECT_EQ(Declare(2, 4, Spec(3)), (Said{{2, "failed"}}));
  EXPECT_EQ(failures.back().use.round, 4u);
}

TEST_F(DeclarationsTest, WhoIsGoneOrHasJoinedOrTakesItBackIsInNoCircle) {
  uint64_t joined = wire::FirstRoundAfter(1);
  auto wait_in_set = [&] { return Overdue(1, {1, 0, 1}, 2, {0, 1}); };
  Declare(0, 1, Spec(3));
  Declare(1, 1, Spec(3, 1));
  wait_in_set();
  names.ForgetOverdue([](uint64_t incarnation) { return incarnation == 101; });
  EXPECT_EQ(Overdue(0, {0, 0, 1}, 1), (Said{}));
  EXPECT_EQ(Overdue(0, {0, 0, 1}, UINT32_MAX), (Said{})) << "an error has ended it";
  EXPECT_EQ(wait_in_set(), (Said{}));
  EXPECT_EQ(Overdue(0, {0, 0, joined + 1}, 1), (Said{})) << "rank 1's word is of before the join";
  EXPECT_TRUE(failures.empty());
  EXPECT_EQ(Overdue(1, {1, 0, joined + 1}, 2, {0, 1}), (Said{{0, "failed"}, {1, "failed"}}));
}

TEST_F(DeclarationsTest, RanksThatAreStuckInDifferentNamesFailInBothOnce) {
  DeclareTwo();
  EXPECT_EQ(Stuck(0, in_x, 1), (Said{}));
  EXPECT_EQ(Stuck(1, in_y, 2), (Said{{0, "asked"}, {1, "asked"}}));
  EXPECT_EQ(Lacks(0, in_x, in_y), (Said{}));
  EXPECT_EQ(Lacks(1, in_y, in_x), (Said{{0, "failed"}, {1, "failed"}}));
  EXPECT_EQ(retired, (std::set<TensorId>{1, 2}));
  ASSERT_EQ(failures.size(), 4u) << "two for the servers";
  for (const wire::DeclareFailed& failed : failures) {
    EXPECT_EQ(failed.code, StatusCode::kOutOfStep);
    EXPECT_EQ(failed.also, (std::vector<wire::NamedUse>{failed.name == "x" ? in_y : in_x}));
    for (const char* part :
         {"rank 0 waits for 'x' (sum of float32[3]), which rank 1 has not begun",
          "rank 1 waits for 'y' (sum of float32[4]), which rank 0 has not begun", "same order"}) {
      EXPECT_NE(failed.text.find(part), std::string::npos) << failed.text;
    }
  }
  EXPECT_EQ(Lacks(1, in_y, in_x), (Said{})) << "said again";
  EXPECT_EQ(Stuck(0, in_x, 1), (Said{{0, "failed"}})) << "its report was under way";
  EXPECT_EQ(Declare(0, 1, Spec(3), 1), (Said{{0, "T3"}}));
}

// Two circles have one name in different rounds; the first one fails both rounds.
TEST_F(DeclarationsTest, AWordThatFailedWithAnotherCircleIsNoCircle) {
  const wire::NamedUse in_later_x{"x", {0, 0, 2, 1}};
  const wire::NamedUse in_z{"z", {0, 0, 1, 3}};
  DeclareTwo();
  Note(names.OnDeclare(Rank(3), {"z", 0, Spec(5), 1}));
  Stuck(0, in_x, 1);
  Stuck(1, in_y, 2);
  Stuck(2, in_later_x, 1);
  Stuck(3, in_z, 3);
  EXPECT_TRUE(names.OnUnbegun(Rank(0), {in_x, {in_y}}));
  EXPECT_TRUE(names.OnUnbegun(Rank(1), {in_y, {in_x}}));
  EXPECT_TRUE(names.OnUnbegun(Rank(2), {in_later_x, {in_z}}));
  EXPECT_EQ(Lacks(3, in_z, in_later_x), (Said{{0, "failed"}, {1, "failed"}}));
  for (const wire::DeclareFailed& failed : failures) EXPECT_NE(failed.name, "z");
}

// The attempt fails once, from the first of its rounds on.
TEST_F(DeclarationsTest, ACircleOfTwoRoundsOfANameFailsTheEarlierOne) {
  const wire::NamedUse in_later_x{"x", {0, 0, 2, 1}};
  DeclareTwo();
  Stuck(0, in_x, 1);
  Stuck(1, in_y, 2);
  Stuck(2, in_later_x, 1);
  EXPECT_TRUE(names.OnUnbegun(Rank(0), {in_x, {in_y}}));
  EXPECT_TRUE(names.OnUnbegun(Rank(2), {in_later_x, {in_y}}));
  Note(names.OnUnbegun(Rank(1), {in_y, {in_x, in_later_x}}) ? names.JudgeStuck()
                                                            : Declarations::Answers{});
  ASSERT_FALSE(failures.empty());
  for (const wire::DeclareFailed& failed : failures) {
    EXPECT_EQ(failed.use.round, 1u) << failed.name;
    EXPECT_EQ(failed.also.size(), 1u);
  }
}

// Any two of the uses are a circle, too.
TEST_F(DeclarationsTest, AllWhoAreStuckThenAreToldAsOne) {
  const wire::NamedUse in_z{"z", {0, 0, 1, 3}};
  DeclareTwo();
  Note(names.OnDeclare(Rank(2), {"z", 0, Spec(5), 1}));
  Stuck(0, in_x, 1);
  Stuck(1, in_y, 2);
  EXPECT_TRUE(names.OnUnbegun(Rank(0), {in_x, {in_y}}));
  EXPECT_TRUE(names.OnUnbegun(Rank(1), {in_y, {in_x}}));
  Stuck(2, in_z, 3);
  EXPECT_TRUE(names.OnUnbegun(Rank(0), {in_x, {in_z}}));
  EXPECT_EQ(Lacks(2, in_z, in_y), (Said{{0, "failed"}, {1, "failed"}, {2, "failed"}}));
  for (const wire::DeclareFailed& failed : failures) {
    EXPECT_EQ(failed.also.size(), 2u);
    EXPECT_EQ(failed.text, failures[0].text);
    for (const char* part :
         {"rank 0 waits for 'x'", "rank 1 waits for 'y'", "rank 2 waits for 'z'"}) {
      EXPECT_NE(failed.text.find(part), std::string::npos) << failed.text;
    }
  }
}

TEST_F(DeclarationsTest, WhoCanGoOnIsNotStuckAnyMore) {
  DeclareTwo();
  auto both_lack = [&] {
    Said first = Lacks(0, in_x, in_y);
    Said second = Lacks(1, in_y, in_x);
    return first.empty() && second.empty();
  };
  auto both_stick = [&] {
    Stuck(0, in_x, 1);
    Stuck(1, in_y, 2);
  };
  both_stick();
  Overdue(0, in_x.use, 1);  // Ctrl-C: it is open, but nobody waits
  EXPECT_TRUE(both_lack());
  both_stick();
  Overdue(0, in_x.use, UINT32_MAX);  // an error has ended it
  EXPECT_TRUE(both_lack());
  both_stick();
  names.ForgetOverdue([](uint64_t incarnation) { return incarnation == 101; });
  EXPECT_TRUE(both_lack());
  both_stick();
  Begin(names);  // a generation begins
  EXPECT_TRUE(both_lack());
  EXPECT_TRUE(failures.empty());
}

TEST_F(DeclarationsTest, WhoDoesNotSayThatItIsStuckIsAskedNothing) {
  DeclareTwo();
  EXPECT_EQ(Overdue(0, in_x.use, 1), (Said{}));
  EXPECT_EQ(Stuck(1, in_y, 2), (Said{}));
  EXPECT_EQ(Lacks(0, in_x, in_y), (Said{}));
  EXPECT_EQ(Lacks(1, in_y, in_x), (Said{}));
}

TEST_F(DeclarationsTest, ANameWithTooManySpecsFailsWithAdvice) {
  int64_t elements = 0;
  while (failures.empty() && elements < 100000) {
    ++elements;
    Declare(0, static_cast<uint64_t>(elements), Spec(elements));
  }
  EXPECT_EQ(elements, static_cast<int64_t>(Declarations::kVariantsMax) + 1);
  EXPECT_EQ(failures.back().code, StatusCode::kExhausted);
  EXPECT_NE(failures.back().text.find("several names"), std::string::npos);
  EXPECT_EQ(retired.size(), Declarations::kVariantsMax);
  EXPECT_EQ(Declare(0, 1, Spec(3), 1).at(0).substr(0, 1), "T");
}

// A coordinator without memory learns all specs again. Of a failure in two process sets it learns
// both, although the only worker that is left was told of one.
TEST_F(DeclarationsTest, AllComesBackFromWhatWorkersKnow) {
  Declare(0, 1, Spec(3));
  Declare(0, 2, Spec(4));
  std::vector<uint64_t> placement = {0, 0, 2};
  wire::DeclareFailed failed{"y",      {0, 0, 2},         {7, 8}, StatusCode::kMismatch,
                             "differ", {{"y", {1, 3, 5}}}};
  Declarations fresh;
  Begin(fresh);
  fresh.Number(1 << 22, 1000);
  fresh.OnKnown(
      Rank(0),
      {{{{"x", 0, 0, 1, placement}, Spec(3)}, {{"x", 0, 0, 2, placement}, Spec(4)}}, {failed}});
  fresh.OnKnown(Rank(1), {{{{"x", 0, 0, 1, placement}, Spec(3)}}, {}});
  ASSERT_TRUE(fresh.OnAllKnown().ok());
  EXPECT_EQ(Note(fresh.OnDeclare(Rank(1), {"x", 0, Spec(4), 2})), (Said{{1, "T2"}}));
  EXPECT_EQ(Note(fresh.OnDeclare(Rank(1), {"y", 3, Spec(4, 1), 5})), (Said{{1, "failed"}}));
  EXPECT_EQ(failures.back().use, (wire::Use{1, 3, 5}));
  EXPECT_EQ(failures.back().also, (std::vector<wire::NamedUse>{{"y", {0, 0, 2}}}));
  EXPECT_EQ(Note(fresh.OnDeclare(Rank(1), {"y", 4, Spec(4, 1), 1})), (Said{{1, "T4194304"}}));
  Note(fresh.ForServer(9));
  EXPECT_EQ(failures.back().tensors, (std::vector<TensorId>{7, 8}));
}

// Returns what is told of tensors that nobody knows any more, message by message.
std::vector<wire::StillKnown> StillKnownIn(const Declarations::Answers& answers) {
  std::vector<wire::StillKnown> all;
  for (const Declarations::Answer& answer : answers) {
    const auto* known = std::get_if<wire::StillKnown>(&answer.message);
    if (known != nullptr) all.push_back(*known);
  }
  return all;
}

TEST_F(DeclarationsTest, ServersAreToldWhatIsStillKnownAfterARestart) {
  EXPECT_TRUE(StillKnownIn(names.ForServer(9)).empty()) << "nothing was forgotten";
  constexpr TensorId kFirst = 1 << 22;
  std::vector<uint64_t> placement = {0, 0, 2};
  Declarations fresh;
  Begin(fresh);
  fresh.Number(kFirst, 1000);
  // The last two words are ignored: no round is played of so many attempts, and nobody can know
  // this number yet.
  fresh.OnKnown(Rank(0), {{{{"x", 0, 0, 5, placement}, Spec(3)},
                           {{"x", 0, 5000, 7, placement}, Spec(3)},
                           {{"z", 0, 0, kFirst, placement}, Spec(3)}},
                          {}});
  fresh.OnKnown(Rank(1), {{{{"y", 0, 0, 2, placement}, Spec(3)}}, {}});
  EXPECT_TRUE(StillKnownIn(fresh.ForServer(9)).empty()) << "not all have spoken";
  ASSERT_TRUE(fresh.OnAllKnown().ok());
  const std::vector<wire::StillKnown> told = {{0, kFirst, {2, 5, 7}}};
  EXPECT_EQ(StillKnownIn(fresh.StillKnown(Declarations::kServers)), told);
  EXPECT_EQ(StillKnownIn(fresh.ForServer(9)), told);
  Begin(fresh);  // a generation does not know earlier tensors
  EXPECT_TRUE(StillKnownIn(fresh.ForServer(9)).empty());
}

}  // namespace
}  // namespace byteps::protocol
