// A server that takes part again after the others went on without it. The server was frozen, or cut
// off for a moment, and lives. Its contents are worth nothing any more, so it drops all of them and
// joins like another process: with a new incarnation, in the place that it has lost.
//
// Run blocks on its thread; any thread may call Stop.
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
  // The maximum number of comebacks in a row. A comeback after `steady` in the job begins a new
  // row. A server that is left behind again and again only costs the others a view each time. 0:
  // the server never comes back.
  uint32_t in_a_row_max = 5;
  // The server comes back no more if a worker has not reached it so many times in a row. Once may
  // be bad luck: the server stood still at its start.
  uint32_t unreached_max = 2;
  Duration steady = seconds(30);
  // The pause before the second comeback in a row; it doubles from there. There is no pause before
  // the first.
  Duration pause_first = milliseconds(250);
  Duration pause_max = seconds(4);
};

class ReturningServer {
 public:
  ReturningServer(transport::Transport& transport, const ServerProcessOptions& options,
                  const ComebackOptions& comebacks, Log& log);
  ~ReturningServer();

  // Like ServerProcess::Listen. Each comeback binds the same address.
  Result<std::string> Listen(const std::string& address);

  // Like ServerProcess::Run. kEvicted: the server was left behind too often, or a worker never
  // reached it.
  Status Run();

  void Stop(const Status& why);

 private:
  void Begin();
  Status RunOnce();
  // Returns false if the server was stopped meanwhile.
  bool Pause(Duration pause);

  transport::Transport& transport_;
  ServerProcessOptions options_;
  const ComebackOptions comebacks_;
  Log& log_;
  std::string address_;  // to listen on; empty: the announced address
  // The times in a row that the server was in the job and a worker never reached it; and that
  // worker.
  uint32_t unreached_ = 0;
  std::string unreached_by_;
  std::string announced_;
  Mutex mutex_;
  std::condition_variable stopped_;
  std::optional<Status> stop_ BYTEPS_GUARDED_BY(mutex_);
  // Replaced on Run's thread only.
  std::unique_ptr<ServerProcess> process_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
