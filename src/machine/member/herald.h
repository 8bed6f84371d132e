// Tells the coordinator that a worker is here, while the worker still meets the others of its
// machine: so people see who is missing, and what ends the job ends the wait. The coordinator lets
// nobody in because of it. The worker then joins over a connection of its own, and the coordinator
// cuts this one.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/protocol/control/views/membership.h"
#include "src/runtime/control_link.h"
#include "src/transport/transport.h"

namespace byteps::machine {

// Thread-safe; has a thread of its own.
class Herald {
 public:
  // `join`: what the worker will join with; of its contributor only the size counts. `machine`: the
  // same text for all workers of the machine, and for nobody else. `transport` and `log` outlive
  // it. Throws std::system_error when the system has no thread or descriptor left.
  Herald(transport::Transport& transport, const runtime::ControlLinkOptions& control,
         wire::Join join, const std::string& machine, Log& log);
  ~Herald();

  // Why this worker cannot be in the job: it was refused, the job is over, or nobody answers. Ok:
  // nothing speaks against it.
  Status failure();
  // The worker is about to join, so the coordinator will cut this connection. Blocks for a moment.
  void Retire();

 private:
  void OnMessage(const wire::Message& message);
  void Fail(const Status& why);

  Log& log_;
  Mutex mutex_;
  Status failure_ BYTEPS_GUARDED_BY(mutex_);
  protocol::Membership membership_;
  const std::unique_ptr<transport::Loop> loop_;
  runtime::ControlLink link_;
  std::thread thread_;
};

}  // namespace byteps::machine
