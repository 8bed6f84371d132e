// A member's connection to the coordinator: connects with patience, shakes hands, exchanges control
// messages, and says that the member lives. When the connection breaks or the coordinator is
// silent, the link connects again. It meets a restarted coordinator as if nothing had happened.
//
// Lives on one loop; all calls and callbacks on the thread of the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

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
  // The limit for the first connection.
  Duration connect_limit = seconds(120);
  // The time that a lost coordinator may take to come back.
  Duration patience = seconds(30);
  Duration alive_every = milliseconds(200);
  // If the coordinator says nothing for this time, although the link tells it that this process
  // lives, the link takes it for lost.
  Duration silence_max = seconds(3);
};

class ControlLink final : public transport::FrameReceiver {
 public:
  struct Events {
    // Connected and bound, for the first time or again; this end sends the first message.
    std::function<void()> on_ready;
    std::function<void(const wire::Message&)> on_message;
    // The link could not connect, or the coordinator is gone and did not come back. Called once,
    // and nothing is called afterwards.
    std::function<void(const Status&)> on_lost;
    // Returns the message that says "I live" and perhaps more; null: the message says no more.
    std::function<wire::Alive()> make_alive = nullptr;
  };

  ControlLink(transport::Loop& loop, const ControlLinkOptions& options, Log& log, Events events);

  void Start();
  // Does nothing while there is no connection: when on_ready comes, the member sends again what
  // still matters.
  void Send(const wire::Message& message);
  bool is_connected() const { return connection_ != nullptr; }
  // Ends the connection; calls nothing afterwards.
  void Close();
  // Expects the coordinator to end the connection; the link then ends, too. If there is no
  // connection, the link ends at once.
  void EndWithConnection();
  // Returns the address of this host as the coordinator's network sees it, as in "10.0.0.3".
  // REQUIRES: is_connected().
  std::string LocalAddress() const { return connection_->LocalAddress(); }
  // Returns transport::Connection::RoundTrip. REQUIRES: is_connected().
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
  bool had_connection_ = false;
  Time waiting_since_{};  // the member has no coordinator that answers since then
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
  bool doubted_ = false;  // silent at the last look; but the loop itself may have stood still
  bool lost_ = false;
  bool ends_with_connection_ = false;
};

}  // namespace byteps::runtime
