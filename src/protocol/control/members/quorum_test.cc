#include "src/protocol/control/members/quorum.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

TEST(QuorumTest, VotersAreWorkersThatHaveNotLeftAndThenLivingServers) {
  wire::View view = JobView(1, 3, 2);
  std::swap(view.workers[0], view.workers[2]);
  view.workers[1].left = true;
  view.servers[0].alive = false;
  std::vector<Voter> voters = VotersOf(view);
  ASSERT_EQ(voters.size(), 3u);
  EXPECT_EQ(voters[0].incarnation, 1u);
  EXPECT_EQ(voters[1].incarnation, 3u);
  EXPECT_EQ(voters[2].incarnation, 102u);
}

TEST(QuorumTest, HalfIsEnoughForTheSideOfTheLowestVoterOnly) {
  wire::View view = JobView(1, 2, 2);
  EXPECT_TRUE(IsWriteQuorum(view, {1, 101}, {}));
  EXPECT_FALSE(IsWriteQuorum(view, {2, 102}, {}));
  EXPECT_TRUE(IsWriteQuorum(view, {2, 101, 102}, {}));
  EXPECT_FALSE(IsWriteQuorum(view, {1, 7, 8, 9}, {})) << "strangers do not count";
}

TEST(QuorumTest, WhoIsProvenDeadIsNotCountedInWriting) {
  wire::View view = JobView(1, 2, 2);
  EXPECT_TRUE(IsWriteQuorum(view, {2, 102}, {1}));
  EXPECT_TRUE(IsWriteQuorum(view, {2}, {1, 101})) << "half of two, and the lowest of them";
  EXPECT_FALSE(IsWriteQuorum(view, {102}, {1, 101}));
  EXPECT_FALSE(IsWriteQuorum(view, {}, {1, 2, 101, 102})) << "nobody is left to ask";
}

TEST(QuorumTest, ReadingCountsEverybody) {
  wire::View view = JobView(1, 2, 2);
  EXPECT_TRUE(IsReadQuorum(view, {1, 101}));
  EXPECT_FALSE(IsReadQuorum(view, {2, 102}));
  EXPECT_TRUE(IsReadQuorum(view, {2, 101, 102}));
}

// Three contributors of which the second has two processes, and one server.
wire::View WithSiblings() {
  wire::View view = JobView(1, 4, 1);
  view.workers[2].slot = view.workers[1].slot;
  return view;
}

TEST(QuorumTest, OfAContributorOnlyTheCarrierVotesAndAllAreMembers) {
  wire::View view = WithSiblings();
  EXPECT_EQ(MembersOf(view).size(), 5u);
  ASSERT_EQ(VotersOf(view).size(), 4u);
  EXPECT_EQ(VotersOf(view)[1].incarnation, 2u);
  EXPECT_EQ(ContributorOf(view, 3), (Incarnations{2, 3}));
  EXPECT_EQ(ContributorOf(view, 101), Incarnations{101});
  EXPECT_EQ(ContributorOf(view, 77), Incarnations{77}) << "no member";
  EXPECT_FALSE(IsWriteQuorum(view, {2, 3}, {})) << "one vote, and not the lowest";
}

TEST(QuorumTest, ACarrierThatHasLeftIsAMemberUntilTheOthersHave) {
  wire::View view = WithSiblings();
  view.workers[1].left = true;
  EXPECT_TRUE(IsIn(view, 2));
  EXPECT_TRUE(HasLeft(view, 2));
  EXPECT_EQ(VotersOf(view)[1].incarnation, 2u);
  view.workers[2].left = true;
  EXPECT_FALSE(IsIn(view, 2));
  EXPECT_EQ(VotersOf(view).size(), 3u);
  view = WithSiblings();
  view.workers[2].left = true;
  EXPECT_FALSE(IsIn(view, 3)) << "it carries for nobody";
  EXPECT_EQ(ContributorOf(view, 2), Incarnations{2});
}

TEST(QuorumTest, AServerWhosePlaceIsDeadIsNoMember) {
  wire::View view = JobView(1, 1, 2);
  view.servers[0].alive = false;
  EXPECT_FALSE(IsIn(view, 101));
  EXPECT_TRUE(IsIn(view, 102));
  EXPECT_FALSE(HasLeft(view, 101));
}

TEST(QuorumTest, NamesAPlaceAndAProcess) {
  wire::View view = JobView(1, 2, 1);
  EXPECT_EQ(NameOf(VotersOf(view)[1]), "worker 1 (process 2)");
  EXPECT_EQ(NameOf(VotersOf(view)[2]), "server 0 (process 101)");
}

wire::View AnyView() {
  wire::View view = JobView(1, *rc::gen::inRange(0U, 6U), *rc::gen::inRange(0U, 4U));
  Slot slot = 0;
  for (wire::WorkerInfo& one : view.workers) {
    slot += *rc::gen::arbitrary<bool>() ? 1 : 0;
    one.slot = slot;
    one.left = *rc::gen::inRange(0, 4) == 0;
  }
  for (wire::ServerInfo& one : view.servers) one.alive = *rc::gen::inRange(0, 4) > 0;
  return view;
}

Incarnations AnyOf(const std::vector<Voter>& voters) {
  Incarnations some;
  for (const Voter& voter : voters) {
    if (*rc::gen::arbitrary<bool>()) some.insert(voter.incarnation);
  }
  return some;
}

// The whole protocol rests on this: any two sets of voters that are enough have a voter in common.
RC_GTEST_PROP(QuorumTest, AnyTwoMeet, ()) {
  const wire::View view = AnyView();
  const std::vector<Voter> voters = VotersOf(view);
  const Incarnations all = [&] {
    Incarnations every;
    for (const Voter& voter : voters) every.insert(voter.incarnation);
    return every;
  }();
  const Incarnations one = AnyOf(voters);
  Incarnations rest;
  std::set_difference(all.begin(), all.end(), one.begin(), one.end(),
                      std::inserter(rest, rest.end()));
  RC_ASSERT(!(IsWriteQuorum(view, one, {}) && IsWriteQuorum(view, rest, {})));
  RC_ASSERT(!(IsWriteQuorum(view, one, {}) && IsReadQuorum(view, rest)));
  RC_ASSERT(voters.empty() || IsWriteQuorum(view, one, {}) || IsWriteQuorum(view, rest, {}));
  // The same holds among the voters that are not proven dead, and one more promise never takes a
  // quorum away.
  const Incarnations dead = AnyOf(voters);
  RC_ASSERT(!(IsWriteQuorum(view, one, dead) && IsWriteQuorum(view, rest, dead)));
  Incarnations more = one;
  more.merge(AnyOf(voters));
  RC_ASSERT(!IsWriteQuorum(view, one, dead) || IsWriteQuorum(view, more, dead));
}

RC_GTEST_PROP(QuorumTest, EachContributorAndEachLivingServerHasOneVote, ()) {
  const wire::View view = AnyView();
  std::vector<uint64_t> counted;
  for (const Voter& voter : VotersOf(view)) {
    for (uint64_t one : ContributorOf(view, voter.incarnation)) counted.push_back(one);
  }
  std::vector<uint64_t> members;
  for (const Voter& voter : MembersOf(view)) {
    members.push_back(voter.incarnation);
    RC_ASSERT(IsIn(view, voter.incarnation));
  }
  std::sort(counted.begin(), counted.end());
  std::sort(members.begin(), members.end());
  RC_ASSERT(counted == members);
}

}  // namespace
}  // namespace byteps::protocol
