// Tests when a lane connects to its shards, which path it takes, and which servers it suspects.
#include "src/runtime/worker/shard_links.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/runtime/clock_peer_for_test.h"
#include "src/runtime/shared_address.h"
#include "src/runtime/worker/lane_runner.h"

namespace byteps::runtime {
namespace {

using wire::Suspicion;

constexpr uint64_t kServer = 7;
const Status kDown(StatusCode::kUnavailable, "it is down");
const Status kReset(StatusCode::kPeerLost, "reset");

// One server with one shard, at these addresses.
wire::View OneServer(const std::vector<std::string>& addresses, uint64_t epoch = 1,
                     uint64_t incarnation = kServer) {
  wire::View view;
  view.epoch = epoch;
  view.generation = 3;
  view.began = 1;
  view.piece_bytes_max = 4096;
  view.workers.emplace_back();
  wire::ServerInfo server;
  server.index = 2;
  server.incarnation = incarnation;
  server.host = "h";
  server.address = addresses.front();
  server.more_addresses.assign(addresses.begin() + 1, addresses.end());
  server.since = epoch;
  server.shard_weights = {1};
  view.servers.push_back(server);
  return view;
}

class ShardLinksTest : public testing::Test {
 protected:
  void Start(const wire::View& view) {
    runner.emplace(
        loop, protocol::LaneOptions(), options, identity, log,
        LaneRunner::Events{[](const protocol::FrontMail&) {},
                           [this](uint64_t epoch, bool all) { up_epoch = all ? epoch : 0; }, [] {},
                           [this](const wire::Suspect& one) { suspects.push_back(one); },
                           [this](const std::string& why) { evicted.push_back(why); }});
    Show(view);
  }
  void Show(const wire::View& view) {
    runner->OnMail(protocol::to_lane::View{std::make_shared<wire::View>(view), 0});
    loop.Settle();
  }
  std::unique_ptr<ClockPeer> Answer(const std::optional<Status>& decision = Status::Ok()) {
    return std::make_unique<ClockPeer>(loop, loop.attempts.back(),
                                       JobIdentity{"job", "secret", kServer}, decision);
  }
  std::vector<std::string> Addresses() const {
    std::vector<std::string> all;
    for (const auto& one : loop.attempts) all.push_back(one.address);
    return all;
  }
  std::vector<Suspicion> Whys() const {
    std::vector<Suspicion> all;
    for (const auto& one : suspects) all.push_back(one.why);
    return all;
  }
  using All = std::vector<std::string>;

  ClockLoop loop;
  const JobIdentity identity{"job", "secret", 5};
  ShardLinkOptions options;
  Log log{"test", "fatal", true};
  uint64_t up_epoch = 77;
  std::vector<wire::Suspect> suspects;
  std::vector<std::string> evicted;
  std::optional<LaneRunner> runner;
};

TEST_F(ShardLinksTest, AServerThatIsNotThereYetHasLongerThanOneThatWas) {
  loop.failure = kDown;
  Start(OneServer({"s:1"}));
  EXPECT_EQ(up_epoch, 0u);
  loop.Advance(milliseconds(1700));
  std::vector<Duration> times;
  for (int ms : {0, 20, 60, 140, 300, 620, 1120, 1620}) times.emplace_back(milliseconds(ms));
  EXPECT_EQ(loop.AttemptTimes(), times);
  EXPECT_EQ(loop.attempts[0].timeout, seconds(2));
  loop.Advance(milliseconds(8299));
  EXPECT_TRUE(suspects.empty());
  loop.Advance(milliseconds(2001));
  EXPECT_EQ(suspects, std::vector<wire::Suspect>(
                          3, {Role::kServer, 2, kServer, Suspicion::kUnreachable, "it is down", 3}))
      << "again and again";
}

TEST_F(ShardLinksTest, WhoDoesNotAnswerAtAllIsSuspectedToo) {
  Start(OneServer({"s:1"}));
  loop.Advance(seconds(10));
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0].text, "it does not answer");
}

TEST_F(ShardLinksTest, TheServerHearsWhoComesAndToWhichShard) {
  Start(OneServer({"s:1"}));
  auto peer = Answer();
  EXPECT_EQ(up_epoch, 1u);
  EXPECT_EQ(peer->hello.role, Role::kWorker);
  EXPECT_EQ(peer->hello.wanted_role, Role::kServer);
  EXPECT_EQ(peer->hello.wanted_incarnation, kServer);
  EXPECT_EQ(peer->hello.generation, 3u);
  loop.Advance(seconds(100));
  EXPECT_TRUE(suspects.empty());
}

TEST_F(ShardLinksTest, AClosedConnectionIsToldAtOnceAndMadeAgain) {
  Start(OneServer({"s:1"}));
  auto peer = Answer();
  loop.failure = kDown;
  peer->Break(kReset);
  loop.Settle();
  EXPECT_EQ(up_epoch, 0u);
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0],
            (wire::Suspect{Role::kServer, 2, kServer, Suspicion::kClosed, "reset", 3}));
  loop.Advance(milliseconds(999));
  EXPECT_EQ(loop.attempts.size(), 6u) << "at once, and with pauses";
  EXPECT_EQ(suspects.size(), 1u);
  loop.Advance(milliseconds(1));
  EXPECT_EQ(Whys(), (std::vector{Suspicion::kClosed, Suspicion::kUnreachable}));
  runner->OnCoordinatorBack();
  EXPECT_EQ(Whys().back(), Suspicion::kClosed) << "a coordinator that has forgotten it is told";
  EXPECT_EQ(suspects.size(), 3u) << "not that it was out of reach: so was the coordinator";
  loop.failure.reset();
  auto again = Answer();
  EXPECT_EQ(up_epoch, 1u);
  runner->OnCoordinatorBack();
  loop.Advance(seconds(100));
  EXPECT_EQ(suspects.size(), 3u);
}

TEST_F(ShardLinksTest, AnotherLossHasItsPausesAnew) {
  Start(OneServer({"s:1"}));
  for (int time = 0; time < 3; ++time) {
    auto peer = Answer();
    const size_t before = loop.attempts.size();
    peer->Break(kReset);
    loop.Advance(milliseconds(20));
    EXPECT_EQ(loop.attempts.size(), before + 1);
  }
}

TEST_F(ShardLinksTest, NonsenseIsToldAsSuch) {
  Start(OneServer({"s:1"}));
  auto peer = Answer();
  peer->Say(wire::FrameKind::kPush, {});
  loop.Settle();
  EXPECT_EQ(Whys(), std::vector{Suspicion::kNonsense});
}

// Nobody knows which end is cut off, so the lane tries another path before it tells the
// coordinator.
TEST_F(ShardLinksTest, WhereNothingComesThroughAnotherWayIsTriedFirst) {
  Start(OneServer({"a:1", "b:1"}));
  auto peer = Answer();
  peer->Break(kDown);
  loop.Advance(milliseconds(20));
  EXPECT_TRUE(suspects.empty());
  EXPECT_EQ(up_epoch, 0u);
  EXPECT_EQ(Addresses(), (All{"a:1", "b:1"}));
  auto other = Answer();
  EXPECT_EQ(up_epoch, 1u);
  other->Break(kReset);
  loop.Advance(milliseconds(20));
  EXPECT_EQ(Addresses().back(), "a:1") << "the best way comes first again";
}

TEST_F(ShardLinksTest, WaysTakeTurnsAndNoneHoldsUpTheOthers) {
  loop.failure = kDown;
  Start(OneServer({"a:1", "b:1", "c:1"}));
  loop.Advance(milliseconds(300));
  EXPECT_EQ(Addresses(), (All{"a:1", "b:1", "c:1", "a:1", "b:1"}));
  EXPECT_EQ(loop.attempts[0].timeout, milliseconds(400));
}

// The attempt on the broken path has failed late, and the server is slow on the other one.
TEST_F(ShardLinksTest, AServerIsNotOverdueWhileAnotherWayHasNotFailed) {
  Start(OneServer({"a:1", "b:1"}));
  auto peer = Answer();
  loop.failure = kDown;
  peer->Break(kReset);
  loop.Advance(milliseconds(30));
  EXPECT_EQ(Whys(), (std::vector{Suspicion::kClosed}));
  loop.failure.reset();
  loop.Advance(milliseconds(50));
  EXPECT_EQ(Addresses(), (All{"a:1", "a:1", "b:1"}));
  loop.Advance(milliseconds(1900));
  EXPECT_EQ(suspects.size(), 1u);
  loop.Advance(milliseconds(200));
  EXPECT_EQ(Whys(), (std::vector{Suspicion::kClosed, Suspicion::kUnreachable}));
}

TEST_F(ShardLinksTest, AServerIsOverdueInTimeIfAllWaysHaveFailed) {
  Start(OneServer({"a:1", "b:1"}));
  auto peer = Answer();
  loop.failure = kDown;
  peer->Break(kReset);
  loop.Advance(milliseconds(1010));
  EXPECT_EQ(Whys(), (std::vector{Suspicion::kClosed, Suspicion::kUnreachable}));
}

TEST_F(ShardLinksTest, ALaneLeavesFromItsInterface) {
  options.interfaces = {{{"10.1.0.1", 16}}, {{"10.2.0.1", 16}}};
  Start(OneServer({"10.2.0.9:8", "10.1.0.9:7"}));
  EXPECT_EQ(loop.attempts[0].own, "10.1.0.1");
  EXPECT_EQ(loop.attempts[0].address, "10.1.0.9:7");
}

TEST_F(ShardLinksTest, AServerOfThisHostIsReachedThroughSharedMemoryAndElseThroughTcp) {
  options.shared_host = "h";
  Start(OneServer({"s:1"}));
  EXPECT_EQ(Addresses(), All{SharedAddress(identity, kServer)});
  auto attempt = loop.attempts.back();
  attempt.done(kDown);
  EXPECT_EQ(Addresses().back(), "s:1") << "without a pause";
  auto peer = Answer();
  EXPECT_EQ(up_epoch, 1u);
  peer->Break(kReset);
  loop.Advance(milliseconds(20));
  EXPECT_EQ(Addresses().back(), "s:1") << "and it stays with it";
  Show(OneServer({"s:2"}, 2, kServer + 1));
  EXPECT_EQ(Addresses().back(), SharedAddress(identity, kServer + 1)) << "another process may do";
}

TEST_F(ShardLinksTest, AServerThatRefusesInSharedMemoryIsReachedThroughTcp) {
  options.shared_host = "h";
  Start(OneServer({"s:1"}));
  auto peer = Answer(Status(StatusCode::kRefused, "no"));
  EXPECT_EQ(Addresses().back(), "s:1");
}

TEST_F(ShardLinksTest, AServerOfAnotherHostIsReachedThroughTcp) {
  options.shared_host = "another";
  Start(OneServer({"s:1"}));
  EXPECT_EQ(Addresses(), All{"s:1"});
}

TEST_F(ShardLinksTest, AServerThatRefusesIsAskedAgainAndOneThatEvictsIsNot) {
  Start(OneServer({"s:1"}));
  auto refuses = Answer(Status(StatusCode::kRefused, "not yet"));
  EXPECT_TRUE(evicted.empty());
  loop.Advance(milliseconds(20));
  ASSERT_EQ(loop.attempts.size(), 2u);
  auto evicts = Answer(Status(StatusCode::kEvicted, "you were silent"));
  ASSERT_EQ(evicted.size(), 1u);
  EXPECT_NE(evicted[0].find("you were silent"), std::string::npos);
  loop.Advance(seconds(1));
  EXPECT_EQ(loop.attempts.size(), 2u);
}

TEST_F(ShardLinksTest, AnAttemptToWhomAViewHasEndedIsDropped) {
  Start(OneServer({"s:1"}));
  auto old = loop.attempts.back();
  Show(OneServer({"s:2"}, 2, kServer + 1));
  ASSERT_EQ(Addresses(), (All{"s:1", "s:2"}));
  ClockPeer late(loop, old, {"job", "secret", kServer});
  EXPECT_EQ(late.connection, nullptr);
  EXPECT_EQ(up_epoch, 0u);
  auto peer = Answer();
  EXPECT_EQ(up_epoch, 2u);
}

TEST_F(ShardLinksTest, WhatTheViewEndsIsClosed) {
  Start(OneServer({"s:1"}));
  auto peer = Answer();
  wire::View view = OneServer({"s:1"}, 2);
  view.servers[0].alive = false;
  Show(view);
  EXPECT_EQ(peer->connection, nullptr);
  EXPECT_EQ(up_epoch, 2u) << "none that lives is missing";
  loop.Advance(seconds(100));
  EXPECT_TRUE(suspects.empty());
  EXPECT_EQ(loop.attempts.size(), 1u);
}

TEST_F(ShardLinksTest, WhenTheCoordinatorIsBackAllIsTriedAtOnce) {
  loop.failure = kDown;
  Start(OneServer({"s:1"}));
  loop.Advance(milliseconds(10'100));
  EXPECT_EQ(suspects.size(), 1u);
  const size_t before = loop.attempts.size();
  runner->OnCoordinatorBack();
  loop.Settle();
  EXPECT_EQ(loop.attempts.size(), before + 1);
  loop.Advance(milliseconds(60));
  EXPECT_EQ(loop.attempts.size(), before + 3) << "its pauses begin anew";
  loop.Advance(milliseconds(9'939));
  EXPECT_EQ(suspects.size(), 1u) << "and so does its time";
  loop.Advance(milliseconds(1));
  EXPECT_EQ(suspects.size(), 2u);
}

TEST_F(ShardLinksTest, AHandshakeThatIsUnderWayIsNotBegunTwice) {
  Start(OneServer({"s:1"}));
  auto peer = Answer(std::nullopt);
  runner->OnCoordinatorBack();
  loop.Settle();
  EXPECT_EQ(loop.attempts.size(), 1u);
}

TEST_F(ShardLinksTest, AnAttemptThatEndsWhenTheLaneIsClosedIsDropped) {
  Start(OneServer({"s:1"}));
  runner->Close();
  const auto peer = Answer();
  EXPECT_EQ(peer->connection, nullptr);
  EXPECT_TRUE(evicted.empty());
}

TEST_F(ShardLinksTest, AClosedLaneConnectsToNobody) {
  loop.failure = kDown;
  Start(OneServer({"s:1"}));
  runner->Close();
  loop.Advance(seconds(100));
  EXPECT_EQ(loop.attempts.size(), 1u);
  EXPECT_TRUE(suspects.empty());
}

}  // namespace
}  // namespace byteps::runtime
