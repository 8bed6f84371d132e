// The coordinator as a process: one loop, one listener, a connection per member.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/protocol/control/coordinator.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/runtime/coordinator/exit_notices.h"
#include "src/runtime/handshakes.h"
#include "src/runtime/seeing/status_page.h"
#include "src/runtime/seeing/status_port.h"
#include "src/runtime/ticker.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

struct CoordinatorProcessOptions {
  std::string address;  // "host:port" to listen on
  JobIdentity identity;
  protocol::CoordinatorOptions protocol;
  // The file descriptor of a launcher's notices about processes on `host` (exit_notices.h); below
  // 0: there are no notices.
  int exit_notices = -1;
  std::string host;
  StatusPlaces status;  // where it shows the job's state
};

class CoordinatorProcess final : public protocol::CoordinatorDriver {
 public:
  CoordinatorProcess(transport::Transport& transport, const CoordinatorProcessOptions& options,
                     Log& log);
  ~CoordinatorProcess() override;

  // Binds the address and returns it with the port that was really bound. If nobody calls this, Run
  // binds the address. REQUIRES: called at most once, before Run.
  Result<std::string> Listen();

  // Blocks on the calling thread until the job is over. kOk: the job ended in order. Otherwise
  // returns the reason.
  Status Run();

  // Ends the job with `why`; may be called from any thread (a signal's thread, say).
  void Stop(const Status& why);

 private:
  struct Member;

  void OnBound(Result<std::unique_ptr<transport::Connection>> connection, const wire::Hello& hello,
               const std::string& peer);
  void OnFrame(uint64_t id, ConstByteSpan bytes);
  void OnClosed(uint64_t id, const Status& why);
  Status ShowStatus();
  StatusPage Page();
  void OnExit(uint32_t process, std::optional<uint32_t> rank);
  void StopIfAllKnow();

  void Send(protocol::ConnectionId to, const wire::Message& message) override;
  void Disconnect(protocol::ConnectionId id) override;
  void Report(const std::string& text) override;
  void Waiting(const std::string& who) override { log_.Waiting(who); }
  void Inform(const std::string& text) override { log_.Info("{}", text); }
  void Begun() override { log_.WaitIsOver(); }
  void Finish(const Status& how) override;

  const CoordinatorProcessOptions options_;
  Log& log_;
  std::unique_ptr<transport::Loop> loop_;
  protocol::Coordinator machine_;
  Ticker ticker_;
  std::unique_ptr<transport::Listener> listener_;
  uint64_t next_id_ = 1;
  Handshakes handshakes_;
  std::map<uint64_t, std::unique_ptr<Member>> members_;
  std::optional<Status> outcome_;
  std::unique_ptr<transport::Loop::Timer> farewell_;
  std::unique_ptr<ExitNotices> exit_notices_;
  std::deque<SaidLine> said_;
  const Time begun_;
  std::unique_ptr<StatusPort> status_port_;
};

}  // namespace byteps::runtime
