// Tests when a member connects, says that it lives, doubts the coordinator, and gives up.
#include "src/runtime/control_link.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "src/runtime/clock_peer_for_test.h"

namespace byteps::runtime {
namespace {

const Status kNobody(StatusCode::kUnavailable, "nobody is there");

std::vector<Duration> Ms(const std::vector<int>& all) {
  std::vector<Duration> times;
  for (int one : all) times.emplace_back(milliseconds(one));
  return times;
}

class ControlLinkTest : public testing::Test {
 protected:
  ControlLinkTest() {
    options.coordinator = "c:1";
    options.identity = {"job", "secret", 5};
  }
  void Start(WaitingStyle style = WaitingStyle::kLines, const char* level = "fatal") {
    log.emplace("test", level, true, style);
    link.emplace(
        loop, options, *log,
        ControlLink::Events{[this] { ++ready; },
                            [this](const wire::Message& one) { messages.push_back(one); },
                            [this](const Status& why) { lost.push_back(why); }, make_alive});
    link->Start();
  }
  // Answers the last attempt.
  std::unique_ptr<ClockPeer> Answer(const std::optional<Status>& decision = Status::Ok(),
                                    const std::string& secret = "secret") {
    return std::make_unique<ClockPeer>(loop, loop.attempts.back(), JobIdentity{"job", secret, 1},
                                       decision);
  }
  // Returns a connection on which the coordinator has said something.
  std::unique_ptr<ClockPeer> Connected() {
    Start();
    auto peer = Answer();
    peer->Say(wire::Waiting{"for others"});
    loop.Settle();
    return peer;
  }
  // Returns the log lines of a link that tries in vain for this time.
  std::string SaidWhile(Duration how_long, WaitingStyle style) {
    testing::internal::CaptureStderr();
    loop.failure = kNobody;
    Start(style, "warning");
    loop.Advance(how_long);
    link.reset();
    log.reset();
    return testing::internal::GetCapturedStderr();
  }

  ClockLoop loop;
  ControlLinkOptions options;
  std::function<wire::Alive()> make_alive;
  int ready = 0;
  std::vector<wire::Message> messages;
  std::vector<Status> lost;
  std::optional<Log> log;
  std::optional<ControlLink> link;
};

TEST_F(ControlLinkTest, ItTriesAgainWithLongerPausesUntilItsLimit) {
  options.connect_limit = seconds(2);
  loop.failure = kNobody;
  Start();
  loop.Advance(seconds(10));
  EXPECT_EQ(loop.AttemptTimes(), Ms({0, 20, 60, 140, 300, 620, 1120, 1620, 2000}));
  EXPECT_EQ(loop.attempts[1].timeout, milliseconds(1980)) << "no attempt lasts longer than all";
  EXPECT_EQ(loop.attempts.back().timeout, milliseconds(1));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].code(), StatusCode::kUnavailable);
  EXPECT_NE(
      lost[0].message().find("cannot reach the scheduler at c:1 (nobody is there); waited 2 s"),
      std::string::npos)
      << lost[0].message();
}

TEST_F(ControlLinkTest, AnAttemptHasALimitOfItsOwnAndAShorterOneAfterAConnection) {
  auto peer = Connected();
  EXPECT_EQ(loop.attempts[0].timeout, seconds(5));
  peer.reset();
  loop.Advance(milliseconds(20));
  ASSERT_EQ(loop.attempts.size(), 2u);
  EXPECT_EQ(loop.attempts[1].timeout, seconds(2));
}

TEST_F(ControlLinkTest, AnAddressThatCannotBeIsToldAtOnce) {
  loop.failure = Status(StatusCode::kInvalidArgument, "no such option");
  Start();
  loop.Advance(seconds(1));
  EXPECT_EQ(loop.attempts.size(), 1u);
  EXPECT_EQ(lost, std::vector<Status>{*loop.failure});
}

TEST_F(ControlLinkTest, WhoWaitsSaysSoNowAndThen) {
  EXPECT_EQ(SaidWhile(seconds(38), WaitingStyle::kLines),
            "[W test] waiting: cannot reach the scheduler at c:1 (nobody is there); waited 5 s\n"
            "[W test] waiting: cannot reach the scheduler at c:1 (nobody is there); waited 10 s\n"
            "[W test] waiting: cannot reach the scheduler at c:1 (nobody is there); waited 20 s\n");
}

TEST_F(ControlLinkTest, ALineThatIsRewrittenSaysSoEachSecond) {
  const std::string said = SaidWhile(milliseconds(3200), WaitingStyle::kOneLine);
  EXPECT_NE(said.find("waited 1 s"), std::string::npos) << said;
  EXPECT_NE(said.find("waited 2 s"), std::string::npos) << said;
  EXPECT_EQ(said.find("waited 4 s"), std::string::npos) << said;
}

TEST_F(ControlLinkTest, ItSaysThatItLivesAndHearsLongMessages) {
  make_alive = [] {
    wire::Alive alive;
    alive.account.emplace().ended = 7;
    return alive;
  };
  Start();
  auto peer = Answer();
  EXPECT_EQ(ready, 1);
  EXPECT_EQ(peer->hello.wanted_role, Role::kCoordinator);
  EXPECT_EQ(peer->hello.role, Role::kWorker);
  loop.Advance(seconds(1));
  ASSERT_EQ(peer->heard.size(), 5u);
  EXPECT_EQ(std::get<wire::Alive>(peer->heard[4]).account->ended, 7u);
  peer->Say(wire::Waiting{std::string(100'000, 'x')});
  loop.Settle();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(std::get<wire::Waiting>(messages[0]).text.size(), 100'000u);
}

TEST_F(ControlLinkTest, ACoordinatorThatIsSilentIsDoubtedAndThenLeft) {
  auto peer = Connected();
  loop.Advance(milliseconds(3399));
  EXPECT_TRUE(link->is_connected()) << "this process may have stood still";
  loop.Advance(milliseconds(1));
  EXPECT_FALSE(link->is_connected());
  loop.Advance(milliseconds(20));
  ASSERT_EQ(loop.attempts.size(), 2u);
  auto next = Answer();
  EXPECT_TRUE(link->is_connected());
  EXPECT_EQ(ready, 2);
  loop.Advance(milliseconds(3399));
  EXPECT_TRUE(link->is_connected()) << "the silence of the last connection does not count";
}

TEST_F(ControlLinkTest, AWordEndsTheDoubt) {
  auto peer = Connected();
  loop.Advance(milliseconds(3300));
  peer->Say(wire::Waiting{"for others"});
  loop.Advance(milliseconds(3200));
  EXPECT_TRUE(link->is_connected());
  EXPECT_EQ(messages.size(), 2u);
  loop.Advance(milliseconds(200));
  EXPECT_FALSE(link->is_connected());
}

TEST_F(ControlLinkTest, ThePatienceIsForOneAbsence) {
  auto peer = Connected();
  peer->Break({StatusCode::kPeerLost, "reset"});
  loop.failure = kNobody;
  loop.Advance(seconds(10));
  loop.failure.reset();
  loop.Advance(seconds(1));
  auto silent = Answer();
  EXPECT_TRUE(link->is_connected());
  loop.failure = kNobody;
  loop.Advance(milliseconds(18'900));
  EXPECT_TRUE(lost.empty());
  loop.Advance(milliseconds(200));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].code(), StatusCode::kPeerLost);
  EXPECT_NE(lost[0].message().find("did not come back within 30 s"), std::string::npos)
      << lost[0].message();
}

TEST_F(ControlLinkTest, AfterAWordTheNextAbsenceHasAPatienceOfItsOwn) {
  auto peer = Connected();
  loop.failure = kNobody;
  peer->Break({StatusCode::kPeerLost, "reset"});
  loop.Advance(seconds(29));
  loop.failure.reset();
  loop.Advance(milliseconds(600));
  auto next = Answer();
  next->Say(wire::Waiting{"for others"});
  loop.Settle();
  loop.failure = kNobody;
  next->Break({StatusCode::kPeerLost, "reset"});
  const size_t before = loop.attempts.size();
  loop.Advance(milliseconds(60));
  EXPECT_EQ(loop.attempts.size(), before + 2) << "the pauses begin anew";
  loop.Advance(seconds(29));
  EXPECT_TRUE(lost.empty());
  loop.Advance(seconds(2));
  EXPECT_EQ(lost.size(), 1u);
}

TEST_F(ControlLinkTest, WhoIsRefusedAtFirstHearsWhy) {
  Start();
  auto stranger = Answer(Status::Ok(), "another secret");
  loop.Advance(seconds(1));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].code(), StatusCode::kRefused);
  EXPECT_EQ(loop.attempts.size(), 1u);
}

TEST_F(ControlLinkTest, OnceTheJobHasBeenMetARefusalPasses) {
  auto peer = Connected();
  peer->Break({StatusCode::kPeerLost, "reset"});
  loop.Advance(milliseconds(20));
  auto stranger = Answer(Status::Ok(), "another secret");
  loop.Advance(milliseconds(40));
  EXPECT_TRUE(lost.empty());
  EXPECT_EQ(loop.attempts.size(), 3u);
}

TEST_F(ControlLinkTest, AHandshakeThatBreaksIsTriedAgain) {
  Start();
  auto peer = Answer(std::nullopt);
  peer->Break({StatusCode::kPeerLost, "reset"});
  loop.Advance(milliseconds(20));
  EXPECT_TRUE(lost.empty());
  EXPECT_EQ(loop.attempts.size(), 2u);
}

TEST_F(ControlLinkTest, NonsenseEndsTheConnectionAndNotTheJob) {
  auto peer = Connected();
  const std::vector<std::byte> bytes(100, std::byte{0xee});
  peer->Say(wire::FrameKind::kControl, bytes);
  loop.Settle();
  EXPECT_FALSE(link->is_connected());
  loop.Advance(milliseconds(20));
  auto next = Answer();
  next->Say(wire::FrameKind::kPush, bytes);
  loop.Settle();
  EXPECT_FALSE(link->is_connected());
  EXPECT_TRUE(lost.empty());
  EXPECT_EQ(messages.size(), 1u);
}

TEST_F(ControlLinkTest, BehindACloseNothingComes) {
  auto peer = Connected();
  peer->Say(wire::Waiting{"for others"});
  link->Close();
  loop.failure = kNobody;
  loop.Advance(seconds(100));
  EXPECT_EQ(messages.size(), 1u);
  EXPECT_TRUE(lost.empty());
  EXPECT_EQ(loop.attempts.size(), 1u);
}

TEST_F(ControlLinkTest, AnAttemptThatEndsBehindACloseIsDropped) {
  Start();
  link->Close();
  auto peer = Answer();
  EXPECT_EQ(peer->connection, nullptr);
  EXPECT_EQ(ready, 0);
}

TEST_F(ControlLinkTest, ItEndsWithItsConnectionIfItIsToldSo) {
  auto peer = Connected();
  link->EndWithConnection();
  EXPECT_TRUE(link->is_connected());
  peer->Break({StatusCode::kPeerLost, "reset"});
  loop.Advance(seconds(100));
  EXPECT_EQ(loop.attempts.size(), 1u);
  EXPECT_TRUE(lost.empty());
}

TEST_F(ControlLinkTest, WithoutAConnectionItEndsAtOnceIfItIsToldSo) {
  Start();
  link->EndWithConnection();
  auto peer = Answer();
  EXPECT_EQ(peer->connection, nullptr);
  EXPECT_EQ(ready, 0);
}

}  // namespace
}  // namespace byteps::runtime
