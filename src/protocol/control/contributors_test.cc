// Processes that form one contributor: they are let in together, go together, have one vote, and
// are no company for each other (docs/membership.md, rule 15).
#include "src/protocol/control/control_for_test.h"
#include "src/protocol/control/views/coordinator_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

// Two contributors of two ranks each: ranks 0 and 1 on connections 10 and 11 on host "a", ranks 2
// and 3 on 12 and 13 on host "b". Two servers are on 20 and 21. The job goes on with two ranks.
class ContributorsTest : public ControlTest {
 protected:
  ContributorsTest() {
    options.worker_machines = 4;
    options.server_count = 2;
    options.min_workers = 2;
  }

  wire::Join JoinAs(int32_t rank, const std::string& key) {
    wire::Join join = Join(Role::kWorker, rank);
    join.host = join.node = key;
    join.contributor = key;
    join.contributor_size = 2;
    join.local_rank = static_cast<uint32_t>(rank) % 2;
    join.local_size = 2;
    return join;
  }

  void StartServers() {
    for (int32_t i : {0, 1}) Say(20 + static_cast<ConnectionId>(i), Join(Role::kServer, i));
  }
  void StartAll() {
    for (int32_t rank : {0, 1, 2, 3}) {
      Say(10 + static_cast<ConnectionId>(rank), JoinAs(rank, rank < 2 ? "a" : "b"));
    }
    StartServers();
  }
  void SyncAll(const std::vector<ConnectionId>& ids) {
    for (ConnectionId id : ids) Say(id, members.at(id).NextSync());
  }
  void Exit(ConnectionId id) {
    uint64_t incarnation = IncarnationAt(id);
    coordinator().OnLost(id, "reset", now);
    coordinator().OnMessage(
        1, wire::Suspect{Role::kWorker, 0, incarnation, wire::Suspicion::kExited, "it has ended"},
        now);
    Pump();
  }

  static std::vector<std::pair<uint32_t, uint32_t>> SlotsAndRanks(const wire::View& view) {
    std::vector<std::pair<uint32_t, uint32_t>> found;
    for (const wire::WorkerInfo& one : view.workers) found.emplace_back(one.slot, one.rank);
    return found;
  }
  using Places = std::vector<std::pair<uint32_t, uint32_t>>;
};

TEST_F(ContributorsTest, EachHasOneSlotAndThatIsItsLowestRank) {
  StartAll();
  EXPECT_EQ(SlotsAndRanks(ViewOf(20)), (Places{{0, 0}, {0, 1}, {2, 2}, {2, 3}}));
  EXPECT_EQ(wire::ContributorsOf(ViewOf(20)).size(), 2u);
  EXPECT_EQ(VotersOf(ViewOf(20)).size(), 4u) << "two carriers and two servers";
  EXPECT_EQ(MembersOf(ViewOf(20)).size(), 6u);
}

// The processes are here, and will join in a moment.
TEST_F(ContributorsTest, TheJobDoesNotBeginWithoutAMachineWhoseProcessesStillMeet) {
  std::vector<wire::Join> joins = {JoinAs(2, "b"), JoinAs(3, "b")};
  for (wire::Join& join : joins) {
    join.meets = true;
    Say(10 + static_cast<ConnectionId>(join.rank), join);
  }
  for (int32_t rank : {0, 1}) Say(10 + static_cast<ConnectionId>(rank), JoinAs(rank, "a"));
  StartServers();
  EXPECT_EQ(coordinator().epoch(), 0u);
  for (wire::Join& join : joins) {
    join.meets = false;
    Say(12 + static_cast<ConnectionId>(join.rank), join);
  }
  EXPECT_EQ(SlotsAndRanks(ViewOf(20)), (Places{{0, 0}, {0, 1}, {2, 2}, {2, 3}}));
}

TEST_F(ContributorsTest, AMachineThatLacksAProcessIsNamedWhileTheJobWaits) {
  for (int32_t rank : {0, 1, 2}) {
    Say(10 + static_cast<ConnectionId>(rank), JoinAs(rank, rank < 2 ? "a" : "b"));
  }
  StartServers();
  Wait(options.report_every);
  EXPECT_TRUE(Said("missing worker 3")) << driver.reports.back();
  EXPECT_TRUE(Said("b lacks 1 of its 2 processes")) << driver.reports.back();
  EXPECT_EQ(coordinator().epoch(), 0u);
  Wait(options.start_timeout, {10, 11, 12, 20, 21});
  EXPECT_EQ(SlotsAndRanks(ViewOf(20)), (Places{{0, 0}, {0, 1}})) << "the whole one begins";
  EXPECT_EQ(ViewOf(20).gone.size(), 2u);
  Say(13, JoinAs(3, "b"));
  SyncAll({10, 11});
  EXPECT_EQ(SlotsAndRanks(ViewOf(20)), (Places{{0, 0}, {0, 1}, {4, 2}, {4, 3}}));
}

// The process hears that the job has begun, and hears again when its last process has come.
TEST_F(ContributorsTest, WhoIsLeftOutAtALateStartIsToldWhatItWaitsForUntilItIsLetIn) {
  for (int32_t rank : {0, 1, 2}) {
    Say(10 + static_cast<ConnectionId>(rank), JoinAs(rank, rank < 2 ? "a" : "b"));
  }
  StartServers();
  Wait(options.start_timeout, {10, 11, 12, 20, 21});
  ASSERT_EQ(coordinator().epoch(), 1u);
  ASSERT_FALSE(To<wire::Waiting>(12).empty());
  std::string told = To<wire::Waiting>(12).back().text;
  EXPECT_TRUE(told.starts_with("the job runs without this worker: b lacks 1 of its 2")) << told;
  size_t count = To<wire::Waiting>(12).size();
  Wait(options.report_every, {10, 11, 12, 20, 21});
  EXPECT_EQ(To<wire::Waiting>(12).size(), count) << "nothing has changed";
  Say(13, JoinAs(3, "b"));
  for (ConnectionId id : {12, 13}) {
    ASSERT_FALSE(To<wire::Waiting>(id).empty());
    told = To<wire::Waiting>(id).back().text;
    EXPECT_TRUE(told.starts_with("the job runs without this worker; it is let in when")) << told;
  }
  SyncAll({10, 11});
  EXPECT_EQ(SlotsAndRanks(ViewOf(12)), (Places{{0, 0}, {0, 1}, {4, 2}, {4, 3}}));
}

TEST_F(ContributorsTest, WhatItsProcessesSayOfItMustAgree) {
  Say(10, JoinAs(0, "a"));
  wire::Join other = JoinAs(1, "a");
  other.contributor_size = 3;
  Say(11, other);
  ASSERT_EQ(To<wire::Refused>(11).size(), 1u);
  EXPECT_NE(To<wire::Refused>(11)[0].text.find("BYTEPS_LOCAL_SIZE"), std::string::npos);
  other = JoinAs(1, "a");
  other.host = "elsewhere";
  Say(12, other);
  EXPECT_EQ(To<wire::Refused>(12).size(), 1u);
  other = JoinAs(1, "a");
  other.contributor_size = 0;
  Say(13, other);
  EXPECT_EQ(To<wire::Refused>(13).size(), 1u);
  Say(14, JoinAs(1, "a"));
  Say(15, JoinAs(2, "a"));
  ASSERT_EQ(To<wire::Refused>(15).size(), 1u);
  EXPECT_NE(To<wire::Refused>(15)[0].text.find("are here already"), std::string::npos);
}

TEST_F(ContributorsTest, ItsRanksNeedNotFollowOneAnotherButGoUpWithLocalRanks) {
  wire::Join later = JoinAs(3, "a");
  Say(13, later);
  Say(12, JoinAs(2, "b"));
  wire::Join below = JoinAs(1, "b");
  below.local_rank = 1;
  Say(11, below);
  ASSERT_EQ(To<wire::Refused>(11).size(), 1u);
  const std::string why = To<wire::Refused>(11)[0].text;
  EXPECT_NE(why.find("local rank 1"), std::string::npos) << why;
  EXPECT_NE(why.find("worker 2"), std::string::npos) << why;
  EXPECT_NE(why.find("BYTEPS_LOCAL_REDUCE=0"), std::string::npos) << why;
  below.rank = 0;
  below.local_rank = 0;
  below.contributor = below.node = below.host = "a";
  Say(10, below);
  EXPECT_TRUE(To<wire::Refused>(10).empty()) << "ranks 0 and 3";
}

TEST_F(ContributorsTest, ItIsLostWithAnyOfItsProcessesAndTheOthersAreToldWhy) {
  StartAll();
  Exit(13);
  EXPECT_EQ(coordinator().epoch(), 2u);
  EXPECT_EQ(SlotsAndRanks(coordinator().view()), (Places{{0, 0}, {0, 1}}));
  EXPECT_EQ(coordinator().view().gone.size(), 2u) << "all of it, in one view";
  ASSERT_EQ(To<wire::JobOver>(12).size(), 1u);
  EXPECT_EQ(To<wire::JobOver>(12)[0].code, StatusCode::kEvicted);
  EXPECT_NE(To<wire::JobOver>(12)[0].text.find("worker 3"), std::string::npos);
  EXPECT_TRUE(Said("and with it worker 2")) << driver.reports.back();
  EXPECT_TRUE(driver.finished.empty()) << "two ranks are enough";
}

TEST_F(ContributorsTest, WhoWasAwayIsToldWhyWhenItReports) {
  StartAll();
  wire::Message report = members.at(12).Greeting();
  deaf.insert(12);
  coordinator().OnLost(12, "reset", now);
  Exit(13);
  coordinator().OnMessage(99, report, now);
  ASSERT_EQ(To<wire::JobOver>(99).size(), 1u);
  EXPECT_NE(To<wire::JobOver>(99)[0].text.find("worker 3"), std::string::npos);
}

TEST_F(ContributorsTest, TheLeastNumberOfWorkersIsOneOfRanks) {
  options.min_workers = 3;
  StartAll();
  Exit(13);
  ASSERT_EQ(driver.finished.size(), 1u) << "two ranks are left";
  EXPECT_NE(EndText().find("the job needs 3 workers"), std::string::npos);
}

TEST_F(ContributorsTest, AContributorThatOutlivesAProcessIsNoticed) {
  options.rules = &RulesWith(CoordinatorMistake::kContributorOutlivesProcess);
  StartAll();
  Exit(13);
  EXPECT_EQ(SlotsAndRanks(coordinator().view()), (Places{{0, 0}, {0, 1}, {2, 2}}))
      << "the mistake that ItIsLostWithAnyOfItsProcessesAndTheOthersAreToldWhy is about";
}

// The view is made after rank 3 is known to be lost, when its new process waits already.
TEST_F(ContributorsTest, ARebornProcessWaitsUntilItsContributorIsWhole) {
  for (bool wrong : {false, true}) {
    SCOPED_TRACE(wrong ? "the mistake" : "the rule");
    machine.reset();
    members.clear();
    cursor = driver.sent.size();
    if (wrong) options.rules = &RulesWith(CoordinatorMistake::kRebornTakesPlace);
    StartAll();
    coordinator().OnLost(13, "reset", now);
    wire::Join reborn = JoinAs(3, "b");
    reborn.rank = -1;  // rank 3 is not free yet
    Say(14, reborn);
    ASSERT_EQ(coordinator().epoch(), 1u);
    coordinator().OnMessage(1,
                            wire::Suspect{Role::kWorker, 0, reborn.incarnation - 3,
                                          wire::Suspicion::kExited, "it has ended"},
                            now);
    Pump();
    Places expected = {{0, 0}, {0, 1}};
    if (wrong) expected = {{0, 0}, {0, 1}, {2, 2}, {2, 3}};
    EXPECT_EQ(SlotsAndRanks(coordinator().view()), expected);
    if (wrong) continue;
    SyncAll({10, 11});
    EXPECT_EQ(SlotsAndRanks(coordinator().view()), expected) << "one of two waits";
    Say(15, JoinAs(2, "b"));
    SyncAll({10, 11});
    EXPECT_EQ(SlotsAndRanks(coordinator().view()), (Places{{0, 0}, {0, 1}, {3, 2}, {3, 3}}))
        << "a slot of its own";
  }
}

TEST_F(ContributorsTest, OnlyItsCarrierVotes) {
  for (bool wrong : {false, true}) {
    SCOPED_TRACE(wrong ? "the mistake" : "the rule");
    machine.reset();
    members.clear();
    deaf.clear();
    cursor = driver.sent.size();
    if (wrong) options.rules = &RulesWith(CoordinatorMistake::kAnyProcessVotes);
    StartAll();
    // Two of four votes are missing: the first carrier's and a server's.
    for (ConnectionId id : {10, 20}) deaf.insert(id);
    Say(12, wire::Suspect{Role::kServer, 1, IncarnationAt(21), wire::Suspicion::kNonsense, "x"});
    EXPECT_EQ(coordinator().epoch(), wrong ? 2u : 1u) << "ranks 1 and 3 have promised, too";
    deaf.clear();
    if (wrong) continue;
    Reconnect(10, 30);
    EXPECT_EQ(coordinator().epoch(), 2u) << "the carrier has promised";
  }
}

TEST_F(ContributorsTest, ACarrierThatHasLeftVotesAndCarriesUntilTheOthersLeave) {
  StartAll();
  Say(12, wire::Leave{});
  wire::View view = coordinator().view();
  ASSERT_EQ(view.epoch, 2u);
  EXPECT_EQ(SlotsAndRanks(view), (Places{{0, 0}, {0, 1}, {2, 2}, {2, 3}}));
  EXPECT_TRUE(view.workers[2].left) << "the rank has left, its contributor has not";
  EXPECT_EQ(VotersOf(view)[1].index, 2u);
  EXPECT_TRUE(To<wire::Leave>(12).empty()) << "it may not close yet";
  SyncAll({10, 11, 13});
  EXPECT_EQ(To<wire::GoOn>(13).size(), 1u) << "nobody waits for a rank that has left";
  Say(13, wire::Leave{});
  EXPECT_EQ(SlotsAndRanks(coordinator().view()), (Places{{0, 0}, {0, 1}}));
  EXPECT_EQ(coordinator().view().gone.size(), 2u);
  for (ConnectionId id : {12, 13}) EXPECT_EQ(To<wire::Leave>(id).size(), 1u) << id;
  EXPECT_TRUE(To<wire::JobOver>(12).empty());
}

TEST_F(ContributorsTest, ACarrierThatHasLeftTakesTheOthersAlongWhenItEndsTooEarly) {
  StartAll();
  Say(12, wire::Leave{});
  Exit(12);
  EXPECT_EQ(SlotsAndRanks(coordinator().view()), (Places{{0, 0}, {0, 1}}));
  ASSERT_EQ(To<wire::JobOver>(13).size(), 1u);
  EXPECT_NE(To<wire::JobOver>(13)[0].text.find("worker 2"), std::string::npos);
}

// Otherwise every operation would miss the rank for ever.
TEST_F(ContributorsTest, ARankThatHasLeftGoesWithItsContributor) {
  StartAll();
  Say(13, wire::Leave{});
  ASSERT_EQ(SlotsAndRanks(coordinator().view()).size(), 4u);
  Exit(12);
  EXPECT_EQ(SlotsAndRanks(coordinator().view()), (Places{{0, 0}, {0, 1}}));
  EXPECT_EQ(coordinator().view().gone.size(), 2u);
}

TEST_F(ContributorsTest, ARankThatHasLeftIsNotMissed) {
  StartAll();
  Say(13, wire::Leave{});
  EXPECT_EQ(To<wire::Leave>(13).size(), 1u) << "it carries for nobody";
  Lose(13);
  Wait(seconds(1), {10, 11, 12, 20, 21});
  EXPECT_EQ(SlotsAndRanks(coordinator().view()).size(), 4u);
  SyncAll({10, 11, 12});
  for (ConnectionId id : {14, 15}) {
    wire::Join join = JoinAs(3, "c");
    join.rank = -1;
    Say(id, join);
  }
  SyncAll({10, 11, 12});
  EXPECT_EQ(SlotsAndRanks(coordinator().view()), (Places{{0, 0}, {0, 1}, {2, 2}, {3, 3}, {3, 4}}));
}

// The contributor was let in, but one of its processes has gone while the view was proposed.
TEST_F(ContributorsTest, AProcessThatGoesWhileItIsLetInTakesItsContributorAlong) {
  StartAll();
  Exit(13);
  Say(14, JoinAs(2, "c"));
  Say(15, JoinAs(3, "c"));
  deaf.insert(15);
  SyncAll({10, 11});
  ASSERT_EQ(coordinator().epoch(), 2u) << "its promise is missing";
  Lose(15);
  EXPECT_EQ(coordinator().epoch(), 3u);
  Wait(seconds(1), {10, 11, 14, 20, 21});
  EXPECT_EQ(SlotsAndRanks(coordinator().view()), (Places{{0, 0}, {0, 1}}));
}

// These processes come without ranks of their own.
TEST_F(ContributorsTest, TheFirstProcessOfItsMachineIsTheCarrierWhoeverCameFirst) {
  StartAll();
  Exit(13);
  for (auto [id, local_rank] : {std::pair{14u, 1u}, {15u, 0u}}) {
    wire::Join join = JoinAs(static_cast<int32_t>(local_rank), "c");
    join.rank = -1;
    Say(id, join);
  }
  SyncAll({10, 11});
  const wire::View& view = coordinator().view();
  ASSERT_EQ(SlotsAndRanks(view), (Places{{0, 0}, {0, 1}, {3, 2}, {3, 3}}));
  EXPECT_EQ(wire::ContributorsOf(view)[1].carrier().incarnation, IncarnationAt(15));
}

// All connections of one machine close, and a server has seen one of them close.
TEST_F(ContributorsTest, ProcessesOfOneMachineAreNoCompanyForEachOther) {
  for (bool wrong : {false, true}) {
    SCOPED_TRACE(wrong ? "the mistake" : "the rule");
    machine.reset();
    members.clear();
    cursor = driver.sent.size();
    if (wrong) options.rules = &RulesWith(CoordinatorMistake::kSiblingsAreCompany);
    StartAll();
    for (ConnectionId id : {12, 13}) coordinator().OnLost(id, "reset", now);
    Say(20, wire::Suspect{Role::kWorker, 2, 0, wire::Suspicion::kClosed, "reset"});
    Wait(milliseconds(20), {10, 11, 20, 21});
    EXPECT_EQ(coordinator().epoch(), wrong ? 1u : 2u);
    Wait(milliseconds(200), {10, 11, 20, 21});
    EXPECT_EQ(coordinator().epoch(), 2u);
  }
}

}  // namespace
}  // namespace byteps::protocol
