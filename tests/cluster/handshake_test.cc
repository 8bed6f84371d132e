// Tests both ends of a handshake, without a job.
#include "src/runtime/handshake.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/frames.h"
#include "src/transport/inproc/inproc_transport.h"

namespace byteps::cluster {
namespace {

using runtime::HandshakeAcceptor;
using runtime::HandshakeInitiator;
using runtime::JobIdentity;
using runtime::kHandshakeLimit;

// Changes the payload of a frame of this kind on its way.
using Edit = std::function<void(wire::FrameKind, std::vector<std::byte>&)>;

// One direction of a connection that a third party reads and writes.
class Relay final : public transport::FrameReceiver {
 public:
  Relay(BufferPool& pool, transport::Connection& to, const Edit& edit)
      : pool_(pool), to_(to), edit_(edit) {}

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan, size_t payload_bytes) override {
    kind_ = static_cast<wire::FrameKind>(kind);
    payload_.resize(payload_bytes);
    return ByteSpan(payload_);
  }
  void OnFrame() override {
    if (edit_ != nullptr) edit_(kind_, payload_);
    to_.Send(runtime::BytesFrame(pool_, kind_, payload_));
  }
  void OnClosed(const Status&) override {}

 private:
  BufferPool& pool_;
  transport::Connection& to_;
  const Edit& edit_;
  wire::FrameKind kind_{};
  std::vector<std::byte> payload_;
};

// Accepts in place of the process at `address`, and passes on what both ends say.
class Between {
 public:
  Between(transport::Loop& loop, const std::string& address, Edit edit) : edit_(std::move(edit)) {
    auto listener = loop.Listen(
        "inproc:0", [this, &loop, address](std::unique_ptr<transport::Connection> accepted) {
          near_ = std::move(accepted);
          loop.Connect(address, kHandshakeLimit,
                       [this, &loop](Result<std::unique_ptr<transport::Connection>> connection) {
                         far_ = std::move(connection).value();
                         onward_.emplace(loop.Buffers(), *far_, edit_);
                         back_.emplace(loop.Buffers(), *near_, edit_);
                         near_->Start(&*onward_);
                         far_->Start(&*back_);
                       });
        });
    EXPECT_TRUE(listener.ok());
    listener_ = std::move(listener).value();
  }
  std::string Address() const { return listener_->Address(); }

 private:
  const Edit edit_;
  std::unique_ptr<transport::Listener> listener_;
  std::optional<Relay> onward_;
  std::optional<Relay> back_;
  std::unique_ptr<transport::Connection> near_;
  std::unique_ptr<transport::Connection> far_;
};

// Returns how the initiator's attempt ends when the acceptor knows `secret` and takes this
// decision, and a third party edits. `decisions` counts how often the acceptor is asked to decide.
Status Shake(const std::string& secret, const Status& decision, const Edit& edit = nullptr,
             int* decisions = nullptr) {
  auto transport = transport::MakeInprocTransport();
  auto loop = transport->MakeLoop();
  std::unique_ptr<HandshakeAcceptor> acceptor;
  std::unique_ptr<HandshakeInitiator> initiator;
  std::optional<Status> ended;
  auto listener = loop->Listen("inproc:0", [&](std::unique_ptr<transport::Connection> connection) {
    acceptor = std::make_unique<HandshakeAcceptor>(
        *loop, std::move(connection), JobIdentity{"job", secret, 1},
        [&](const wire::Hello&, const HandshakeAcceptor::Answer& answer) {
          if (decisions != nullptr) ++*decisions;
          answer(decision);
        },
        [](Result<std::unique_ptr<transport::Connection>>, const wire::Hello&) {});
  });
  EXPECT_TRUE(listener.ok());
  Between between(*loop, listener.value()->Address(), edit);
  loop->Connect(between.Address(), kHandshakeLimit,
                [&](Result<std::unique_ptr<transport::Connection>> connection) {
                  initiator = std::make_unique<HandshakeInitiator>(
                      *loop, std::move(connection).value(), JobIdentity{"job", "secret", 2},
                      wire::Hello(), kHandshakeLimit,
                      [&](Result<std::unique_ptr<transport::Connection>> bound) {
                        ended = bound.ok() ? Status::Ok() : bound.status();
                        loop->Stop();
                      });
                });
  loop->Run();
  initiator.reset();
  acceptor.reset();
  listener.value().reset();
  return ended.value_or(Status(StatusCode::kInternal, "it has not ended"));
}

TEST(HandshakeTest, BothKnowTheSecret) { EXPECT_TRUE(Shake("secret", Status::Ok()).ok()); }

TEST(HandshakeTest, WhoDoesNotKnowTheSecretIsNotTaken) {
  EXPECT_EQ(Shake("another", Status::Ok()).code(), StatusCode::kRefused);
}

TEST(HandshakeTest, AMemberIsToldThatItIsNoneAnyMore) {
  Status ended = Shake("secret", {StatusCode::kEvicted, "you were silent"});
  EXPECT_EQ(ended.code(), StatusCode::kEvicted);
  EXPECT_NE(ended.message().find("you were silent"), std::string::npos);
}

// Otherwise a process that gets hold of a dead server's port could end the workers.
TEST(HandshakeTest, AStrangerCannotSayThatAMemberIsNoneAnyMore) {
  Status ended = Shake("another", {StatusCode::kEvicted, "a stranger says so"});
  EXPECT_EQ(ended.code(), StatusCode::kRefused);
  EXPECT_EQ(ended.message().find("a stranger says so"), std::string::npos) << ended.message();
}

// A welcome that a third party has changed proves nothing: it lets nobody in, and ends no member.
// Some bytes of a welcome mean nothing (its version, which a refusal of another version may have,
// too).
TEST(HandshakeTest, NobodyChangesAByteOfAWelcome) {
  for (const Status& decision : {Status::Ok(), Status(StatusCode::kEvicted, "you were silent")}) {
    size_t changes = 0;
    size_t size = 1;
    for (size_t at = 0; at < size; ++at) {
      bool says_the_same = false;
      auto flip = [&](wire::FrameKind kind, std::vector<std::byte>& payload) {
        if (kind != wire::FrameKind::kWelcome) return;
        size = payload.size();
        const Result<wire::Welcome> before = wire::DecodeWelcome(payload);
        payload[at] ^= std::byte{1};
        const Result<wire::Welcome> after = wire::DecodeWelcome(payload);
        says_the_same = after.ok() && after.value() == before.value();
      };
      const StatusCode code = Shake("secret", decision, flip).code();
      if (says_the_same) continue;
      ++changes;
      EXPECT_TRUE(code == StatusCode::kRefused || code == StatusCode::kProtocol)
          << "byte " << at << ": " << static_cast<int>(code);
    }
    EXPECT_GT(changes, sizeof(ProofBytes) + sizeof(wire::Welcome::incarnation));
  }
}

TEST(HandshakeTest, AWelcomeOfAMemberIsNotMadeAnEviction) {
  auto evict = [](wire::FrameKind kind, std::vector<std::byte>& payload) {
    if (kind != wire::FrameKind::kWelcome) return;
    wire::Welcome welcome = wire::DecodeWelcome(payload).value();
    welcome.code = StatusCode::kEvicted;
    payload = wire::EncodeWelcome(welcome);
  };
  EXPECT_EQ(Shake("secret", Status::Ok(), evict).code(), StatusCode::kRefused);
}

// A hello alone makes the acceptor remember nothing.
TEST(HandshakeTest, AboutAHelloThatIsNotProvenNobodyDecides) {
  int decisions = 0;
  EXPECT_EQ(Shake("another", Status::Ok(), nullptr, &decisions).code(), StatusCode::kRefused);
  EXPECT_EQ(decisions, 0);
  auto change_hello = [](wire::FrameKind kind, std::vector<std::byte>& payload) {
    if (kind != wire::FrameKind::kHello) return;
    wire::Hello hello = wire::DecodeHello(payload).value();
    hello.generation = UINT32_MAX;
    payload = wire::EncodeHello(hello);
  };
  EXPECT_EQ(Shake("secret", Status::Ok(), change_hello, &decisions).code(), StatusCode::kRefused);
  EXPECT_EQ(decisions, 0);
  EXPECT_TRUE(Shake("secret", Status::Ok(), nullptr, &decisions).ok());
  EXPECT_EQ(decisions, 1);
}

}  // namespace
}  // namespace byteps::cluster
