// Tells the coordinator that a worker is here, while the worker still meets the others of its
// machine. So people see who is missing, and the end of the job ends the wait. The coordinator
// admits no worker because of it. The worker then joins over a connection of its own, and the
// coordinator cuts this one.
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
class EarlyJoin {
 public:
  // `join`: the values with which the worker will join; of its contributor only the size counts.
  // `machine`: the same text for all workers of the machine, and for no other worker. `transport`
  // and `log` outlive this object. Throws std::system_error if the system has no thread or
  // descriptor left.
  EarlyJoin(transport::Transport& transport, const runtime::ControlLinkOptions& control,
            wire::Join join, const std::string& machine, Log& log);
  ~EarlyJoin();

  // Returns why this worker cannot be in the job: it was refused, the job is over, or nobody
  // answers. Ok: nothing is known against it.
  Status failure();
  // Says that the worker is about to join, so the coordinator will cut this connection. Blocks for
  // a moment.
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
