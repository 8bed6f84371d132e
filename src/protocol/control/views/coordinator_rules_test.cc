#include "src/protocol/control/views/coordinator_rules.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

// Workers 1 and 2 are one contributor, worker 3 is another one.
wire::View Siblings() {
  wire::View view = JobView(1, 3, 1);
  view.workers[1].slot = view.workers[0].slot;
  return view;
}

const CoordinatorRules& kRules = kCoordinatorRules;

TEST(CoordinatorRulesTest, APromiseIsItsOwnProcessesAndNobodyElses) {
  EXPECT_EQ(kRules.VoterFor(Siblings(), 2), 2u) << "not that of its carrier";
  EXPECT_EQ(kRules.VoterFor(Siblings(), 1), 1u);
}

TEST(CoordinatorRulesTest, TheDeadCountWhereTwoCoordinatorsMayLive) {
  EXPECT_EQ(kRules.Discounted({1, 2}, false), (Incarnations{1, 2}));
  EXPECT_TRUE(kRules.Discounted({1, 2}, true).empty());
}

TEST(CoordinatorRulesTest, InReadingTheDeadAlwaysCount) {
  wire::View view = JobView(1, 2, 1);
  EXPECT_FALSE(kRules.MayRead(view, {101}, {1, 2}));
  EXPECT_TRUE(kRules.MayRead(view, {1, 101}, {2}));
  EXPECT_TRUE(kRules.CompletesPromised(view));
  EXPECT_TRUE(kRules.ReadsAgain());
}

TEST(CoordinatorRulesTest, AViewComesIntoForceWithItsQuorum) {
  ViewChange change(1, JobView(1, 2, 1), JobView(2, 1, 1), false);
  EXPECT_FALSE(kRules.MayCommit(change, {}));
  for (uint64_t who : {1, 101}) change.OnPromise(who, {1, 2});
  EXPECT_TRUE(kRules.MayCommit(change, {}));
}

TEST(CoordinatorRulesTest, WorkersAreLetInOnlyAtASyncPoint) {
  EXPECT_FALSE(kRules.MayAdmit(false));
  EXPECT_TRUE(kRules.MayAdmit(true));
}

TEST(CoordinatorRulesTest, AContributorGoesAsAWholeAndNobodyTakesAPlaceInIt) {
  EXPECT_EQ(kRules.LostWith(Siblings(), 2), (Incarnations{1, 2}));
  EXPECT_EQ(kRules.LostWith(Siblings(), 3), Incarnations{3});
  EXPECT_EQ(kRules.LostWith(Siblings(), 101), Incarnations{101});
  Roster roster;
  Member& reborn = Add(roster, Role::kWorker, 9, Presence::kWaiting);
  reborn.join.contributor = "h";
  EXPECT_EQ(kRules.Heir(Siblings().workers[1], roster), nullptr);
}

TEST(CoordinatorRulesTest, ProcessesOfOneContributorAreOneCompany) {
  EXPECT_EQ(kRules.CompanyOf(Siblings(), 2), kRules.CompanyOf(Siblings(), 1));
  EXPECT_NE(kRules.CompanyOf(Siblings(), 3), kRules.CompanyOf(Siblings(), 1));
  EXPECT_NE(kRules.CompanyOf(Siblings(), 101), kRules.CompanyOf(Siblings(), 3));
}

TEST(CoordinatorRulesTest, ItAsksToBeCalledAsOftenAsItWasTold) {
  EXPECT_EQ(kRules.ListeningStep(milliseconds(25)), milliseconds(25));
}

}  // namespace
}  // namespace byteps::protocol
