// Puts the parts together: options become transports, engines and processes. Nothing else knows
// both the configuration and the runtime.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/config/options.h"
#include "src/device/nccl/library.h"
#include "src/runtime/seeing/timeline_log.h"
#include "src/runtime/worker/engine.h"
#include "src/session/device/staged_operations.h"

namespace byteps::session {

// Makes a log for this process, named by its role until it knows its number.
std::unique_ptr<Log> MakeLog(const config::Options& options);

// Makes the engine of a worker, alone or in a job. Blocks until the job has started, or until
// `go_on` is not null and returns false (runtime::WorkerEngineOptions). `timeline` gets the times
// of its pieces, and must outlive it.
Result<runtime::StartedEngine> MakeEngine(const config::Options& options,
                                          std::function<bool()> go_on,
                                          runtime::TimelineLog& timeline, Log& log);

// Returns how this process looks for devices with memory of their own. If it has found some, it
// says in `log`, unless that is null, which way their sums take; once for each machine.
StagedOperations::FindDevices DeviceFinderOf(const config::Options& options, Log* log);

// Returns a text for people: which way the sums of GPUs take in the job of these options, the
// reason and the forecast. Asks NVML, so it may wait for NVIDIA's driver. kUnavailable: NVML does
// not tell, with the reason.
Result<std::string> DescribeDeviceSums(const config::Options& options);
// Says which NCCL this process would use, or why none. Needs no GPU.
Result<device::nccl::Library::Facts> LookForNccl(const config::Options& options);

// Returns what bits of sums will depend on in the job of these options, if the first machine has
// the first ranks, and so on. REQUIRES: role is worker.
plan::SumReport ForeseeSums(const config::Options& options);

// Runs a server or the coordinator, as the options say. Blocks until the job is over, or until
// SIGTERM or SIGINT comes; it takes these signals over from the process for that time.
Status Serve(const config::Options& options);

}  // namespace byteps::session
