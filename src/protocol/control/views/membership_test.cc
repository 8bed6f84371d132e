#include "src/protocol/control/views/membership.h"

#include <gtest/gtest.h>

#include "src/protocol/control/views/membership_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

wire::Join Self(uint64_t incarnation) {
  wire::Join join;
  join.incarnation = incarnation;
  return join;
}

wire::View ViewWith(uint64_t epoch, const std::vector<uint64_t>& workers) {
  wire::View view;
  view.epoch = epoch;
  for (uint32_t i = 0; i < workers.size(); ++i) view.workers.push_back({i, i, workers[i]});
  return view;
}

TEST(MembershipTest, JoinsUntilItHasMetACoordinator) {
  Membership member(Self(1));
  EXPECT_TRUE(std::holds_alternative<wire::Join>(member.Greeting()));
  EXPECT_FALSE(member.OnMessage(wire::Propose{3, {}, ViewWith(1, {1, 2})}).view.has_value());
  wire::Message greeting = member.Greeting();
  const auto& report = std::get<wire::Report>(greeting);
  EXPECT_EQ(report.term, 3u);
  EXPECT_EQ(report.promised_term, 3u);
  EXPECT_EQ(report.promised, ViewWith(1, {1, 2}));
  EXPECT_EQ(report.committed.epoch, 0u);
}

TEST(MembershipTest, APromiseChangesNothingUntilItIsCommitted) {
  Membership member(Self(1));
  Membership::Step step = member.OnMessage(wire::Propose{1, {}, ViewWith(1, {1, 2})});
  EXPECT_EQ(std::get<wire::Promise>(*step.answer), (wire::Promise{1, 1}));
  EXPECT_EQ(member.view().epoch, 0u);
  step = member.OnMessage(wire::Commit{1, ViewWith(1, {1, 2})});
  EXPECT_EQ(step.view, ViewWith(1, {1, 2}));
  EXPECT_TRUE(member.IsMember());
  EXPECT_FALSE(member.OnMessage(wire::Commit{1, ViewWith(1, {1, 2})}).view.has_value());
}

TEST(MembershipTest, AProposalBringsTheViewThatWasMissed) {
  Membership member(Self(1));
  member.OnMessage(wire::Commit{1, ViewWith(1, {1, 2, 3})});
  Membership::Step step = member.OnMessage(wire::Propose{1, ViewWith(2, {1, 2}), ViewWith(3, {1})});
  EXPECT_EQ(step.view, ViewWith(2, {1, 2}));
  EXPECT_TRUE(step.answer.has_value());
}

TEST(MembershipTest, LowerTermsAreIgnored) {
  Membership member(Self(1));
  member.OnMessage(wire::Commit{5, ViewWith(1, {1, 2})});
  EXPECT_FALSE(member.OnMessage(wire::Query{4}).answer.has_value());
  EXPECT_FALSE(member.OnMessage(wire::Propose{4, {}, ViewWith(2, {1})}).answer.has_value());
  EXPECT_FALSE(member.OnMessage(wire::Commit{4, ViewWith(2, {1})}).view.has_value());
  EXPECT_TRUE(member.OnMessage(wire::Query{6}).answer.has_value());
  EXPECT_FALSE(member.OnMessage(wire::Commit{5, ViewWith(2, {1})}).view.has_value());
  Membership obeys(Self(1), RulesWith(MembershipMistake::kObeyLowerTerm));
  obeys.OnMessage(wire::Commit{5, ViewWith(1, {1, 2})});
  EXPECT_TRUE(obeys.OnMessage(wire::Commit{4, ViewWith(2, {1})}).view.has_value());
}

TEST(MembershipTest, WhatIsInForceIsPromisedAgainAndNothingElseOfItsEpoch) {
  Membership member(Self(1));
  member.OnMessage(wire::Commit{1, ViewWith(2, {1, 2})});
  EXPECT_TRUE(
      member.OnMessage(wire::Propose{2, ViewWith(1, {1}), ViewWith(2, {1, 2})}).answer.has_value());
  EXPECT_FALSE(
      member.OnMessage(wire::Propose{2, ViewWith(1, {1}), ViewWith(2, {1})}).answer.has_value());
}

TEST(MembershipTest, EvictionIsFinalAndWhoWaitsIsNotEvicted) {
  Membership waits(Self(9));
  EXPECT_FALSE(waits.OnMessage(wire::Commit{1, ViewWith(1, {1})}).view.has_value());
  EXPECT_FALSE(waits.IsEvicted());
  Membership member(Self(1));
  member.OnMessage(wire::Commit{1, ViewWith(1, {1, 2})});
  EXPECT_TRUE(member.OnMessage(wire::Commit{1, ViewWith(2, {2})}).view.has_value());
  EXPECT_TRUE(member.IsEvicted());
  member.OnMessage(wire::Commit{1, ViewWith(3, {1, 2})});
  EXPECT_TRUE(member.IsEvicted());
}

TEST(MembershipTest, AServerIsAMemberWhileItsPlaceLives) {
  wire::Join self = Self(5);
  self.role = Role::kServer;
  wire::View view = ViewWith(1, {1});
  wire::ServerInfo place;
  place.incarnation = 5;
  view.servers.push_back(place);
  Membership member(self);
  member.OnMessage(wire::Commit{1, view});
  EXPECT_TRUE(member.IsMember());
  view.epoch = 2;
  view.servers[0].alive = false;
  member.OnMessage(wire::Commit{1, view});
  EXPECT_TRUE(member.IsEvicted());
}

}  // namespace
}  // namespace byteps::protocol
