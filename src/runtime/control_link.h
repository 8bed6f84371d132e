// A member's connection to the coordinator: connects with patience, shakes hands, exchanges control
// messages, and says that it lives.
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
  Duration connect_limit = seconds(120);
  Duration alive_every = seconds(1);
};

class ControlLink final : public transport::FrameReceiver {
 public:
  struct Events {
    // Connected and bound; the first message is ours.
    std::function<void()> on_ready;
    std::function<void(const wire::Message&)> on_message;
    // Could not connect, or the coordinator is gone. Comes once, nothing after it.
    std::function<void(const Status&)> on_lost;
  };

  ControlLink(transport::Loop& loop, const ControlLinkOptions& options, Log& log, Events events);

  void Start();
  void Send(const wire::Message& message);
  // Ends the connection; nothing is called after it.
  void Close();
  // "10.0.0.3": how the coordinator's network sees this host. REQUIRES: ready.
  std::string LocalAddress() const { return connection_->LocalAddress(); }

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan header, size_t payload_bytes) override;
  void OnFrame() override;
  void OnClosed(const Status& why) override;

 private:
  void Connect();
  void OnConnected(Result<std::unique_ptr<transport::Connection>> connection);
  void OnBound(Result<std::unique_ptr<transport::Connection>> connection);
  void TryAgain(const Status& why);
  void Lose(const Status& why);

  transport::Loop& loop_;
  const ControlLinkOptions options_;
  Log& log_;
  Events events_;
  BufferPool pool_;  // before the connection, whose queue holds its buffers
  Time give_up_{};
  Time next_report_{};
  Duration pause_ = milliseconds(20);
  std::unique_ptr<transport::Loop::Timer> retry_;
  std::unique_ptr<transport::Loop::Timer> alive_;
  std::unique_ptr<HandshakeInitiator> handshake_;
  std::unique_ptr<transport::Connection> connection_;
  std::vector<std::byte> incoming_;
  bool lost_ = false;
};

}  // namespace byteps::runtime
