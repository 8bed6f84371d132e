// The options of the RDMA transport, and what this process says of RDMA.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/config/options.h"
#include "src/transport/rdma/rdma_options.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport.h"

namespace byteps::session {

// Tells the log how connections fared, each thing once, and notes what ends the start of a process
// that wants no other way than RDMA. Thread-safe.
class RdmaTeller {
 public:
  // `strict`: transport=rdma.
  RdmaTeller(bool strict, Log& log) : strict_(strict), log_(log) {}

  void OnOutcome(const transport::RdmaOutcome& outcome);
  void OnDeviceEvent(const std::string& text) { log_.Warning("{}", text); }
  // A connection did not become RDMA during the start.
  void Fail(const std::string& why);
  // Returns ok, or the reason why this process cannot start.
  Status failure();
  // Calls `on_failure` with that reason, once, on any thread. Must be set before the start.
  void SetOnFailure(std::function<void(const Status&)> on_failure);

 private:
  const bool strict_;
  Log& log_;
  Mutex mutex_;
  std::set<std::string> told_ BYTEPS_GUARDED_BY(mutex_);
  bool went_over_ BYTEPS_GUARDED_BY(mutex_) = false;  // some connection did
  Status failure_ BYTEPS_GUARDED_BY(mutex_);
  std::function<void(const Status&)> on_failure_ BYTEPS_GUARDED_BY(mutex_);
};

// Returns whether connections for data shall go over RDMA and nothing else will do.
bool NeedsRdma(const config::Options& options);

// Makes the transport of a process without TLS. kUnavailable: it needs RDMA, and this host has no
// device; the text says why, and what to do. Blocks for milliseconds if RDMA is wanted.
Result<std::unique_ptr<transport::Transport>> MakePlainTransport(
    const config::Options& options, const transport::TcpOptions& tcp,
    const std::shared_ptr<RdmaTeller>& teller, Log& log);

}  // namespace byteps::session
