// Tests how long both ends of a handshake wait, and what they do with frames out of turn.
#include "src/runtime/handshake.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/clock_loop_for_test.h"
#include "src/runtime/frames.h"
#include "src/runtime/handshakes.h"

namespace byteps::runtime {
namespace {

using wire::FrameKind;
using Bytes = std::vector<std::byte>;

// Keeps all frames that come, and sends the frames that the test wants.
class Stranger final : public transport::FrameReceiver {
 public:
  explicit Stranger(std::unique_ptr<transport::Connection> line) : line_(std::move(line)) {
    line_->SetLimits({size_t{1} << 20});
    line_->Start(this);
  }
  void Say(FrameKind kind, const Bytes& bytes) { line_->Send(BytesFrame(pool_, kind, bytes)); }

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan, size_t payload_bytes) override {
    kinds.push_back(static_cast<FrameKind>(kind));
    last.resize(payload_bytes);
    return ByteSpan(last);
  }
  void OnFrame() override {}
  void OnClosed(const Status&) override { is_closed = true; }

  std::vector<FrameKind> kinds;
  Bytes last;
  bool is_closed = false;

 private:
  BufferPool pool_;
  std::unique_ptr<transport::Connection> line_;
};

class HandshakeTimesTest : public testing::Test {
 protected:
  std::unique_ptr<Stranger> Initiate() {
    auto [near, far] = ClockConnection::Pair(loop);
    near->SetOwner(owner);
    initiator = std::make_unique<HandshakeInitiator>(
        loop, std::move(near), identity, wire::Hello(), kHandshakeLimit,
        [this](Result<std::unique_ptr<transport::Connection>> bound) {
          ended.push_back(bound.status());
        });
    auto stranger = std::make_unique<Stranger>(std::move(far));
    loop.Settle();
    return stranger;
  }
  std::unique_ptr<Stranger> Accept() {
    auto [near, far] = ClockConnection::Pair(loop);
    near->SetOwner(owner);
    acceptor = std::make_unique<HandshakeAcceptor>(
        loop, std::move(near), identity,
        [this](const wire::Hello&, HandshakeAcceptor::Answer later) { answer = std::move(later); },
        [this](Result<std::unique_ptr<transport::Connection>> bound, const wire::Hello& hello) {
          ended.push_back(bound.status());
          version = hello.version;
        });
    auto stranger = std::make_unique<Stranger>(std::move(far));
    loop.Settle();
    return stranger;
  }
  Bytes Hello(const std::string& job = "job", uint16_t its_version = wire::kWireVersion) {
    wire::Hello hello;
    hello.job = job;
    hello.version = its_version;
    return wire::EncodeHello(hello);
  }
  void Prove(Stranger& stranger, const Bytes& hello) {
    stranger.Say(FrameKind::kHello, hello);
    loop.Settle();
    const ProofBytes proof = Proof("secret", "byteps initiator", hello, stranger.last);
    stranger.Say(FrameKind::kProof, {proof.begin(), proof.end()});
    loop.Settle();
  }
  std::vector<StatusCode> Codes() const {
    std::vector<StatusCode> codes;
    for (const Status& one : ended) codes.push_back(one.code());
    return codes;
  }
  bool Says(const std::string& part) const {
    return ended.at(0).message().find(part) != std::string::npos;
  }
  using Ends = std::vector<StatusCode>;
  using Kinds = std::vector<FrameKind>;

  ClockLoop loop;
  JobIdentity identity{"job", "secret", 1};
  Status owner;  // the result of CheckSameUser at the other end
  std::unique_ptr<HandshakeInitiator> initiator;
  std::unique_ptr<HandshakeAcceptor> acceptor;
  HandshakeAcceptor::Answer answer;
  std::vector<Status> ended;
  uint16_t version = 77;
};

TEST_F(HandshakeTimesTest, AnInitiatorToWhomNobodySpeaksGivesUp) {
  auto stranger = Initiate();
  EXPECT_EQ(stranger->kinds, Kinds{FrameKind::kHello});
  loop.Advance(kHandshakeLimit - milliseconds(1));
  EXPECT_TRUE(ended.empty());
  loop.Advance(milliseconds(1));
  EXPECT_EQ(Codes(), Ends{StatusCode::kUnavailable});
  EXPECT_TRUE(Says("10.0.0.9:1 accepted the connection but does not answer")) << ended[0].message();
  EXPECT_TRUE(stranger->is_closed);
}

TEST_F(HandshakeTimesTest, AnInitiatorTakesOneChallengeOfTheRightLength) {
  auto first = Initiate();
  first->Say(FrameKind::kChallenge, Bytes(sizeof(wire::Nonce) - 1));
  loop.Settle();
  EXPECT_EQ(Codes(), Ends{StatusCode::kProtocol});
  ended.clear();
  auto second = Initiate();
  second->Say(FrameKind::kChallenge, Bytes(sizeof(wire::Nonce)));
  loop.Settle();
  EXPECT_EQ(second->kinds, (Kinds{FrameKind::kHello, FrameKind::kProof}));
  second->Say(FrameKind::kChallenge, Bytes(sizeof(wire::Nonce)));
  loop.Settle();
  EXPECT_EQ(Codes(), Ends{StatusCode::kUnavailable});
  EXPECT_TRUE(Says("before the handshake's end")) << ended[0].message();
}

TEST_F(HandshakeTimesTest, ARefusalIsBelievedWithoutAProofAndSaysWhoRefused) {
  auto stranger = Initiate();
  wire::Welcome welcome;
  welcome.code = StatusCode::kRefused;
  welcome.text = "we are full";
  stranger->Say(FrameKind::kWelcome, wire::EncodeWelcome(welcome));
  loop.Settle();
  EXPECT_EQ(ended,
            (std::vector<Status>{Status(StatusCode::kRefused, "10.0.0.9:1 refused: we are full")}));
}

TEST_F(HandshakeTimesTest, AWelcomeBeforeAChallengeIsNoProof) {
  auto stranger = Initiate();
  stranger->Say(FrameKind::kWelcome, wire::EncodeWelcome(wire::Welcome()));
  loop.Settle();
  EXPECT_EQ(Codes(), Ends{StatusCode::kRefused});
  EXPECT_TRUE(Says("does not know this job's secret")) << ended[0].message();
}

TEST_F(HandshakeTimesTest, AnAcceptorWaitsForAProofForItsTime) {
  auto stranger = Accept();
  stranger->Say(FrameKind::kHello, Hello());
  loop.Advance(kProofLimit - milliseconds(1));
  EXPECT_EQ(stranger->kinds, Kinds{FrameKind::kChallenge});
  EXPECT_TRUE(ended.empty());
  loop.Advance(milliseconds(1));
  EXPECT_EQ(Codes(), Ends{StatusCode::kUnavailable});
  EXPECT_FALSE(acceptor->proven());
}

TEST_F(HandshakeTimesTest, WhoHasProvedItWaitsForTheDecisionLonger) {
  auto stranger = Accept();
  Prove(*stranger, Hello());
  EXPECT_TRUE(acceptor->proven());
  loop.Advance(kHandshakeLimit - milliseconds(1));
  EXPECT_TRUE(ended.empty());
  answer(Status::Ok());
  loop.Settle();
  EXPECT_EQ(stranger->kinds, (Kinds{FrameKind::kChallenge, FrameKind::kWelcome}));
  stranger->Say(FrameKind::kBound, {});
  loop.Settle();
  EXPECT_EQ(Codes(), Ends{StatusCode::kOk});
  loop.Advance(seconds(100));
  EXPECT_EQ(ended.size(), 1u);
}

TEST_F(HandshakeTimesTest, NothingComesBeforeTheAnswer) {
  auto stranger = Accept();
  Prove(*stranger, Hello());
  stranger->Say(FrameKind::kBound, {});
  loop.Settle();
  EXPECT_EQ(Codes(), Ends{StatusCode::kProtocol});
}

// No frame has kind 0, so kind 0 must not pass for the awaited frame in any state.
TEST_F(HandshakeTimesTest, AFrameOfKind0EndsTheHandshakeInEachStateOfBothSides) {
  constexpr auto kZero = static_cast<FrameKind>(0);
  using Come = std::function<std::unique_ptr<Stranger>()>;
  const std::vector<std::pair<std::string, Come>> states = {
      {"initiator, hello said", [&] { return Initiate(); }},
      {"initiator, challenged",
       [&] {
         auto stranger = Initiate();
         stranger->Say(FrameKind::kChallenge, Bytes(sizeof(wire::Nonce)));
         loop.Settle();
         return stranger;
       }},
      {"acceptor, nothing said", [&] { return Accept(); }},
      {"acceptor, challenge said",
       [&] {
         auto stranger = Accept();
         stranger->Say(FrameKind::kHello, Hello());
         loop.Settle();
         return stranger;
       }},
      {"acceptor, undecided",
       [&] {
         auto stranger = Accept();
         Prove(*stranger, Hello());
         return stranger;
       }},
      {"acceptor, welcome said",
       [&] {
         auto stranger = Accept();
         Prove(*stranger, Hello());
         answer(Status::Ok());
         loop.Settle();
         return stranger;
       }},
  };
  for (const auto& [state, come] : states) {
    SCOPED_TRACE(state);
    ended.clear();
    auto stranger = come();
    ASSERT_TRUE(ended.empty());
    stranger->Say(kZero, {});
    loop.Settle();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_FALSE(ended[0].ok());
    EXPECT_TRUE(Says("frame 0 before the handshake's end")) << ended[0].message();
    EXPECT_TRUE(stranger->is_closed);
  }
}

TEST_F(HandshakeTimesTest, ADecisionAboutWhoIsGoneIsDropped) {
  auto stranger = Accept();
  Prove(*stranger, Hello());
  acceptor.reset();
  answer(Status::Ok());
  loop.Settle();
  EXPECT_TRUE(ended.empty());
  EXPECT_TRUE(stranger->is_closed);
}

TEST_F(HandshakeTimesTest, EachSideHearsItsOwnReason) {
  struct Case {
    Bytes hello;
    std::string to_peer, to_us;
    uint16_t version;
  };
  const uint16_t other = wire::kWireVersion + 1;
  for (const Case& one :
       {Case{Hello("another"), "an earlier job", "BYTEPS_JOB_ID", wire::kWireVersion},
        Case{Hello("job", other), "you speak " + std::to_string(other), "the same version",
             other}}) {
    ended.clear();
    auto stranger = Accept();
    stranger->Say(FrameKind::kHello, one.hello);
    loop.Settle();
    EXPECT_EQ(stranger->kinds, Kinds{FrameKind::kWelcome});
    const wire::Welcome welcome = wire::DecodeWelcome(stranger->last).value();
    EXPECT_EQ(welcome.code, StatusCode::kRefused);
    EXPECT_NE(welcome.text.find(one.to_peer), std::string::npos) << welcome.text;
    EXPECT_EQ(Codes(), Ends{StatusCode::kRefused});
    EXPECT_TRUE(Says(one.to_us)) << ended[0].message();
    EXPECT_EQ(version, one.version);
  }
}

const Status kOfAnother(StatusCode::kRefused, "it belongs to user 7");

TEST_F(HandshakeTimesTest, InAJobOfOneUserAnotherUsersProcessIsRefusedBeforeTheProof) {
  identity.of_one_user = true;
  owner = kOfAnother;
  auto stranger = Accept();
  stranger->Say(FrameKind::kHello, Hello());
  loop.Settle();
  EXPECT_EQ(stranger->kinds, Kinds{FrameKind::kWelcome});
  const wire::Welcome welcome = wire::DecodeWelcome(stranger->last).value();
  EXPECT_EQ(welcome.code, StatusCode::kRefused);
  EXPECT_NE(welcome.text.find("set the same BYTEPS_JOB_SECRET"), std::string::npos) << welcome.text;
  EXPECT_EQ(Codes(), Ends{StatusCode::kRefused});
  EXPECT_TRUE(Says("it belongs to user 7")) << ended[0].message();
  EXPECT_FALSE(acceptor->proven());
}

TEST_F(HandshakeTimesTest, InAJobOfOneUserNobodyProvesAnythingToAnotherUsersProcess) {
  identity.of_one_user = true;
  owner = kOfAnother;
  auto stranger = Initiate();
  stranger->Say(FrameKind::kChallenge, Bytes(sizeof(wire::Nonce)));
  loop.Settle();
  EXPECT_EQ(stranger->kinds, Kinds{FrameKind::kHello});
  EXPECT_EQ(Codes(), Ends{StatusCode::kRefused});
  EXPECT_TRUE(Says("10.0.0.9:1 is no process of this job: it belongs to user 7"))
      << ended[0].message();
}

TEST_F(HandshakeTimesTest, WhereASecretIsTheProofTheUserDoesNotMatter) {
  owner = kOfAnother;
  auto stranger = Accept();
  Prove(*stranger, Hello());
  EXPECT_TRUE(acceptor->proven());
  stranger = Initiate();
  stranger->Say(FrameKind::kChallenge, Bytes(sizeof(wire::Nonce)));
  loop.Settle();
  EXPECT_EQ(stranger->kinds, (Kinds{FrameKind::kHello, FrameKind::kProof}));
}

TEST_F(HandshakeTimesTest, OfWhoSaidNothingNoVersionIsKnown) {
  auto stranger = Accept();
  stranger.reset();
  loop.Settle();
  EXPECT_EQ(Codes(), Ends{StatusCode::kPeerLost});
  EXPECT_EQ(version, 0u);
}

// A new unproven connection pushes out the oldest unproven one. A proven connection stays.
TEST_F(HandshakeTimesTest, StrangersMakeRoomForEachOtherAndMembersStay) {
  std::vector<std::string> done;
  Handshakes all(
      loop, identity, 2, [](const wire::Hello&, const HandshakeAcceptor::Answer&) {},  // undecided
      [&done](const Result<std::unique_ptr<transport::Connection>>& bound, const wire::Hello&,
              const std::string& peer) { done.push_back(peer + ": " + bound.status().message()); });
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 4; ++i) {
    auto [near, far] = ClockConnection::Pair(loop);
    all.Accept(std::move(near));
    strangers.push_back(std::make_unique<Stranger>(std::move(far)));
    loop.Settle();
    if (i == 0) Prove(*strangers[0], Hello());
  }
  EXPECT_FALSE(strangers[0]->is_closed);
  EXPECT_TRUE(strangers[1]->is_closed);
  EXPECT_FALSE(strangers[2]->is_closed);
  EXPECT_FALSE(strangers[3]->is_closed);
  EXPECT_TRUE(done.empty()) << "of who made room nobody is told";
  strangers[2].reset();
  loop.Settle();
  EXPECT_EQ(done, std::vector<std::string>{"10.0.0.9:1: the other end closed"});
  all.Clear();
  loop.Settle();
  EXPECT_TRUE(strangers[0]->is_closed);
  EXPECT_EQ(done.size(), 1u);
}

}  // namespace
}  // namespace byteps::runtime
