// The process to which an attempt of a ClockLoop leads: shakes hands, and keeps all frames that
// come.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/clock_loop_for_test.h"
#include "src/runtime/frames.h"
#include "src/runtime/handshake.h"

namespace byteps::runtime {

class ClockPeer final : public transport::FrameReceiver {
 public:
  // Answers the handshake of a process that knows the secret with `decision`; without a decision
  // the handshake does not end.
  ClockPeer(ClockLoop& loop, const ClockLoop::Attempt& attempt, const JobIdentity& identity,
            const std::optional<Status>& decision = Status::Ok()) {
    auto [first, far] = ClockConnection::Pair(loop);
    near_ = first.get();
    std::unique_ptr<transport::Connection> near = std::move(first);
    acceptor_ = std::make_unique<HandshakeAcceptor>(
        loop, std::move(far), identity,
        [decision](const wire::Hello&, const HandshakeAcceptor::Answer& answer) {
          if (decision.has_value()) answer(*decision);
        },
        [this](Result<std::unique_ptr<transport::Connection>> bound, const wire::Hello& said) {
          hello = said;
          if (!bound.ok()) return;
          connection = std::move(bound).value();
          connection->Start(this);
        });
    ClockLoop::Connected done = attempt.done;
    done(std::move(near));
    loop.Settle();
  }

  // Closes the connection's own end with `why`, as if the network had done it. REQUIRES: the
  // connection exists.
  void Break(const Status& why) { near_->EndWith(why); }

  void Say(const wire::Message& message) { connection->Send(ControlFrame(pool_, message)); }
  void Say(wire::FrameKind kind, ConstByteSpan bytes) {
    connection->Send(BytesFrame(pool_, kind, bytes));
  }

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan, size_t payload_bytes) override {
    kinds.push_back(static_cast<wire::FrameKind>(kind));
    payload_.resize(payload_bytes);
    return ByteSpan(payload_);
  }
  void OnFrame() override {
    if (kinds.back() != wire::FrameKind::kControl) return;
    Result<wire::Message> message = wire::DecodeControl(payload_);
    ASSERT_TRUE(message.ok());
    heard.push_back(std::move(message).value());
  }
  void OnClosed(const Status&) override { connection.reset(); }

  wire::Hello hello;
  std::vector<wire::FrameKind> kinds;
  std::vector<wire::Message> heard;

 private:
  BufferPool pool_;
  std::vector<std::byte> payload_;
  ClockConnection* near_ = nullptr;
  std::unique_ptr<HandshakeAcceptor> acceptor_;

 public:
  std::unique_ptr<transport::Connection> connection;  // null: not bound, or gone
};

}  // namespace byteps::runtime
