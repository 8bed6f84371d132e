// A member's connection to the coordinator: connects with patience, shakes hands, exchanges control
// messages, and says that it lives. When the connection breaks, or the coordinator is silent, it is
// made again: a coordinator that was restarted is met as if nothing had happened.
//
// Lives on one loop; all calls and callbacks on its thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/base/buffer_pool.h"
#include "src/base/log.h"
#include "src/runtime/frames.h"
#include "src/runtime/handshake.h"
#include "src/transport/transport.h"
#include "src/wire/control.h"

namespace byteps::runtime {

struct ControlLinkOptions {
  std::string coordinator;  // "host:port"
  Role role = Role::kWorker;
  JobIdentity identity;
  // For the first connection.
  Duration connect_limit = seconds(120);
  // How long a coordinator that was lost may take to come back.
  Duration patience = seconds(30);
  Duration alive_every = milliseconds(200);
  // A coordinator that says nothing for this long, although it was told that we live, is lost.
  Duration silence_max = seconds(3);
};

class ControlLink final : public transport::FrameReceiver {
 public:
  struct Events {
    // Connected and bound, for the first time or again; the first message is ours.
    std::function<void()> on_ready;
    std::function<void(const wire::Message&)> on_message;
    // Could not connect, or the coordinator is gone and did not come back. Comes once, nothing
    // after it.
    std::function<void(const Status&)> on_lost;
    // What is said beside "I live"; null: nothing.
    std::function<wire::Alive()> make_alive = nullptr;
  };

  ControlLink(transport::Loop& loop, const ControlLinkOptions& options, Log& log, Events events);

  void Start();
  // Does nothing while there is no connection: who is ready again says what still matters.
  void Send(const wire::Message& message);
  bool is_connected() const { return connection_ != nullptr; }
  // Ends the connection; nothing is called after it.
  void Close();
  // The coordinator will end the connection: then the link ends, too. Without one it ends at once.
  void EndWithConnection();
  // "10.0.0.3": how the coordinator's network sees this host. REQUIRES: is_connected().
  std::string LocalAddress() const { return connection_->LocalAddress(); }
  // As of transport::Connection. REQUIRES: is_connected().
  Duration RoundTrip() const { return connection_->RoundTrip(); }

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan header, size_t payload_bytes) override;
  void OnFrame() override;
  void OnClosed(const Status& why) override;

 private:
  void Connect();
  void OnConnected(Result<std::unique_ptr<transport::Connection>> connection);
  void OnBound(Result<std::unique_ptr<transport::Connection>> connection);
  void OnAliveTimer();
  void Reconnect(const std::string& why);
  void TryAgain(const Status& why);
  void Lose(const Status& why);
  Duration ReportEvery() const;
  Status GiveUp(const std::string& why, Duration waited) const;

  transport::Loop& loop_;
  const ControlLinkOptions options_;
  Log& log_;
  Events events_;
  BufferPool pool_;  // before the connection, whose queue holds its buffers
  bool had_connection_ = false;
  Time waiting_since_{};  // for a coordinator that answers
  Time give_up_{};
  Time next_report_{};
  Duration pause_{};
  std::unique_ptr<transport::Loop::Timer> retry_;
  std::unique_ptr<transport::Loop::Timer> alive_;
  std::unique_ptr<HandshakeInitiator> handshake_;
  std::unique_ptr<transport::Connection> connection_;
  std::vector<std::byte> incoming_;
  bool heard_ = false;  // on this connection
  Time last_heard_{};
  bool doubted_ = false;  // it was silent at the last look; the loop itself may have stood still
  bool lost_ = false;
  bool ends_with_connection_ = false;
};

}  // namespace byteps::runtime
