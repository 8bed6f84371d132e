// A server that takes part again after the others went on without it. It was frozen, or cut off for
// a moment, and lives: what it held is worth nothing any more, so it drops all of it and joins as
// another process would, with an incarnation of its own, in the place that it has lost.
//
// Run blocks on its thread; Stop may be called from any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/runtime/server/server_process.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

struct ComebackOptions {
  // Without having been in the job for `steady` in between. One that is left behind again and again
  // only costs the others a view each time; 0: it never comes back.
  uint32_t in_a_row_max = 5;
  Duration steady = seconds(30);
  // Before the second in a row; it doubles from there. Before the first there is none.
  Duration pause_first = milliseconds(250);
  Duration pause_max = seconds(4);
};

class ReturningServer {
 public:
  ReturningServer(transport::Transport& transport, const ServerProcessOptions& options,
                  const ComebackOptions& comebacks, Log& log);
  ~ReturningServer();

  // As ServerProcess::Listen; those that come back bind the same address.
  Result<std::string> Listen(const std::string& address);

  // As ServerProcess::Run; kEvicted when it was left behind too often.
  Status Run();

  void Stop(const Status& why);

 private:
  void Begin();
  Status RunOnce();
  // False: it was stopped meanwhile.
  bool Pause(Duration pause);

  transport::Transport& transport_;
  ServerProcessOptions options_;
  const ComebackOptions comebacks_;
  Log& log_;
  std::string address_;  // to listen on; empty: what it announces
  Mutex mutex_;
  std::condition_variable stopped_;
  std::optional<Status> stop_ BYTEPS_GUARDED_BY(mutex_);
  // Replaced on Run's thread only.
  std::unique_ptr<ServerProcess> process_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
