#include "src/protocol/control/members/suspicions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace byteps::protocol {
namespace {

// Members 1 to 5, each a company of its own, all heard at 0. A member that a test does not name
// lives: it is heard at each judgement.
class SuspicionsTest : public testing::Test {
 protected:
  static constexpr Duration kGrace = milliseconds(100);
  static constexpr Duration kSilence = milliseconds(900);
  static Time At(int64_t ms) { return Time{milliseconds(ms)}; }

  SuspicionsTest() {
    for (uint64_t who = 1; who <= 5; ++who) suspicions.Watch(who, who, kSilence, At(0));
  }
  std::vector<uint64_t> Lost(Time now, const std::vector<uint64_t>& heard = {2, 3, 4, 5}) {
    for (uint64_t who : heard) suspicions.Heard(who, now);
    std::vector<uint64_t> lost;
    for (const Suspicions::Loss& loss : suspicions.Judge(now)) {
      lost.push_back(loss.who);
      why = loss.why;
      exited = loss.exited;
    }
    return lost;
  }
  using Who = std::vector<uint64_t>;
  Suspicions suspicions{kGrace};
  std::string why;
  bool exited = false;
};

TEST_F(SuspicionsTest, WhoseEndWasSeenIsLostWhenItsConnectionCloses) {
  suspicions.HintExit(1, At(10));
  EXPECT_EQ(Lost(At(10)), Who{}) << "the launcher may mean one before it";
  suspicions.Closed(1, kOwnConnection, "reset", At(20));
  EXPECT_EQ(suspicions.NextDue(), At(20));
  EXPECT_EQ(Lost(At(20)), Who{1});
  EXPECT_TRUE(exited);
  EXPECT_EQ(why, "reset");
  EXPECT_EQ(Lost(At(5000)), Who{}) << "it is forgotten";
}

TEST_F(SuspicionsTest, ItsConnectionHereAndToAnotherMemberAreEnoughAlmostAtOnce) {
  suspicions.Closed(1, kOwnConnection, "reset", At(10));
  suspicions.Closed(1, 3, "refused", At(12));
  EXPECT_EQ(Lost(At(14)), Who{});
  EXPECT_EQ(suspicions.NextDue(), At(15));
  EXPECT_EQ(Lost(At(15)), Who{1});
  EXPECT_FALSE(exited);
  EXPECT_EQ(why, "reset") << "what was seen first";
}

TEST_F(SuspicionsTest, TwoOtherMembersAreNotEnough) {
  for (uint64_t party : {3, 4}) suspicions.Closed(1, party, "reset", At(10));
  EXPECT_EQ(Lost(At(109)), Who{});
  EXPECT_EQ(Lost(At(110)), Who{1});
}

TEST_F(SuspicionsTest, WhoSaysSomethingTakesBackWhatOthersSaw) {
  suspicions.Closed(1, 3, "reset", At(10));
  EXPECT_EQ(Lost(At(500), {1, 2, 3, 4, 5}), Who{});
}

TEST_F(SuspicionsTest, ItsOwnConnectionHereIsTakenBackByANewOneOnly) {
  for (bool back : {false, true}) {
    suspicions.Watch(1, 1, kSilence, At(0));
    suspicions.Closed(1, kOwnConnection, "reset", At(10));
    EXPECT_TRUE(suspicions.IsAway(1));
    suspicions.HintExit(1, At(10));
    if (back) {
      suspicions.Back(1, At(11));
    } else {
      suspicions.Heard(1, At(11));
    }
    EXPECT_EQ(suspicions.IsAway(1), !back);
    EXPECT_EQ(Lost(At(110)), back ? Who{} : Who{1});
  }
  suspicions.Closed(1, kOwnConnection, "reset", At(120));
  EXPECT_EQ(Lost(At(121)), Who{}) << "the end that was seen was another one's";
}

// A device between the members and the coordinator has reset both connections.
TEST_F(SuspicionsTest, WhoGoesInCompanyHasTheGraceToComeBack) {
  for (uint64_t who : {1, 2}) {
    suspicions.Closed(who, kOwnConnection, "reset", At(10));
    suspicions.Closed(who, 3, "reset", At(10));
  }
  EXPECT_EQ(Lost(At(20), {3, 4, 5}), Who{});
  suspicions.Back(2, At(50));
  EXPECT_EQ(Lost(At(109)), Who{});
  EXPECT_EQ(Lost(At(110)), Who{1});
}

TEST_F(SuspicionsTest, WhatHappensAWhileLaterIsNoCompany) {
  suspicions.Closed(2, kOwnConnection, "reset", At(10));
  suspicions.Closed(1, kOwnConnection, "reset", At(16));
  suspicions.Closed(1, 3, "reset", At(16));
  EXPECT_EQ(Lost(At(21), {3, 4, 5}), Who{1});
}

TEST_F(SuspicionsTest, ProcessesOfOneContributorAreNoCompany) {
  suspicions.Watch(2, 1, kSilence, At(0));
  for (uint64_t who : {1, 2}) suspicions.Closed(who, kOwnConnection, "reset", At(10));
  suspicions.Closed(1, 3, "reset", At(10));
  EXPECT_EQ(Lost(At(15), {3, 4, 5}), Who{1});
}

TEST_F(SuspicionsTest, OfAConnectionThatCarriedNothingOnlySilenceCounts) {
  suspicions.CutOff(1, "nothing came through");
  EXPECT_TRUE(suspicions.IsAway(1));
  EXPECT_TRUE(suspicions.IsCutOff(1));
  EXPECT_FALSE(suspicions.IsCutOff(2));
  EXPECT_EQ(Lost(At(899)), Who{});
  EXPECT_EQ(Lost(At(900)), Who{1});
  EXPECT_EQ(why, "it has been silent for 900 ms (nothing came through)");
}

TEST_F(SuspicionsTest, WhoIsBackIsNotCutOff) {
  suspicions.CutOff(1, "nothing came through");
  suspicions.Back(1, At(100));
  EXPECT_FALSE(suspicions.IsCutOff(1));
  EXPECT_EQ(Lost(At(999)), Who{});
  EXPECT_EQ(Lost(At(1000)), Who{1});
  EXPECT_EQ(why, "it has been silent for 900 ms");
}

TEST_F(SuspicionsTest, SilenceIsNoReasonWhereItHasNoLimit) {
  suspicions.Watch(1, 1, Duration::zero(), At(0));
  EXPECT_EQ(Lost(At(1000000)), Who{});
  EXPECT_EQ(suspicions.NextDue(), At(1000900)) << "of the others";
}

TEST_F(SuspicionsTest, WatchingAgainChangesTheLimitAndIsNoSignOfLife) {
  suspicions.Watch(1, 1, milliseconds(300), At(200));
  EXPECT_EQ(Lost(At(299)), Who{});
  EXPECT_EQ(Lost(At(300)), Who{1});
}

TEST_F(SuspicionsTest, WhoIsNotWatchedIsNotLost) {
  suspicions.Forget(1);
  suspicions.Closed(1, kOwnConnection, "reset", At(10));
  suspicions.HintExit(1, At(10));
  suspicions.CutOff(1, "x");
  suspicions.Back(1, At(10));
  EXPECT_FALSE(suspicions.IsAway(1));
  EXPECT_EQ(Lost(At(5000)), Who{});
  suspicions.ForgetAllBut({2});
  EXPECT_EQ(Lost(At(9000), {}), Who{}) << "one of one is silent, which is most";
  EXPECT_TRUE(suspicions.DoubtsOwnLink());
  suspicions.ForgetAllBut({});
  EXPECT_FALSE(suspicions.NextDue().has_value());
}

// The coordinator's own link is down for a second.
TEST_F(SuspicionsTest, WhenMostAreSilentNobodyIsGivenUpForThat) {
  EXPECT_EQ(Lost(At(850), {}), Who{});
  EXPECT_TRUE(suspicions.DoubtsOwnLink());
  EXPECT_EQ(Lost(At(910), {}), Who{});
  suspicions.Closed(2, kOwnConnection, "reset", At(920));
  suspicions.Closed(2, 3, "reset", At(920));
  EXPECT_EQ(Lost(At(950), {}), Who{}) << "nor for closed connections";
  suspicions.HintExit(3, At(960));
  suspicions.Closed(3, kOwnConnection, "reset", At(960));
  EXPECT_EQ(Lost(At(960), {}), Who{3}) << "but an end that was seen counts";
  EXPECT_EQ(Lost(At(1500), {4, 5}), Who{}) << "half of them";
  EXPECT_TRUE(suspicions.DoubtsOwnLink()) << "who was held up on the way has a while";
  EXPECT_EQ(Lost(At(1959), {4, 5}), Who{});
  EXPECT_EQ(Lost(At(1960), {4, 5}), (Who{1, 2}));
  EXPECT_FALSE(suspicions.DoubtsOwnLink());
}

TEST_F(SuspicionsTest, MostThatStaySilentAreLostAfterTwelveSeconds) {
  for (int64_t ms = 850; ms < 12850; ms += 50) ASSERT_EQ(Lost(At(ms), {}), Who{}) << ms;
  EXPECT_EQ(Lost(At(12850), {}), (Who{1, 2, 3, 4, 5}));
}

// The processes of two of three machines are most of what is watched; the processes of one machine
// are not.
TEST(SuspicionsOfContributorsTest, AMachineThatIsSilentIsOneOfThoseThatMayBe) {
  for (bool wrong : {false, true}) {
    Suspicions suspicions(milliseconds(100));
    for (uint64_t who : {1, 2, 3}) {
      suspicions.Watch(who, wrong ? who : 1, milliseconds(900), Time{});
    }
    for (uint64_t who : {4, 5}) suspicions.Watch(who, who, milliseconds(900), Time{});
    for (uint64_t who : {4, 5}) suspicions.Heard(who, Time{milliseconds(800)});
    suspicions.Judge(Time{milliseconds(850)});
    EXPECT_EQ(suspicions.DoubtsOwnLink(), wrong);
    suspicions.Heard(2, Time{milliseconds(850)});
    EXPECT_EQ(suspicions.Judge(Time{milliseconds(910)}).empty(), wrong);
  }
}

}  // namespace
}  // namespace byteps::protocol
