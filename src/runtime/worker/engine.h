// Engine: what executes a session's operations. Three kinds: a worker in a job with servers; a job
// of one, which needs neither servers nor a thread; and a worker of a job on one machine without
// servers (machine/serverless/local_engine.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/worker/worker.h"
#include "src/runtime/control_link.h"
#include "src/runtime/worker/lane_group.h"
#include "src/runtime/worker/standing.h"
#include "src/runtime/worker/tensor_memory.h"
#include "src/runtime/worker/worker_lanes.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

// All methods may be called from any thread.
class Engine {
 public:
  // How an operation ended; called once, on a thread of the engine or of one that helps it, never
  // under a lock. Must not throw: where there is no memory operations end all the same.
  using Done = std::function<void(protocol::Outcome)>;

  virtual ~Engine() = default;

  // Takes an operation; does not block. Its memory is borrowed until `done` is called, which
  // happens exactly once for every call. If it throws (no memory) nothing was accepted, and `done`
  // is not called.
  virtual void Submit(protocol::Operation operation, Done done) = 0;
  virtual void Declare(const std::string& name) = 0;
  // Front::SetStuck, after what was submitted before. Does not block.
  virtual void SetStuck(const std::string& name) = 0;
  // Front::AddProcessSet and RemoveProcessSet. Blocks for a moment: in force, and told to the
  // shards, for operations that are submitted after it.
  virtual Status AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) = 0;
  virtual Status RemoveProcessSet(uint32_t number) = 0;
  // The ranks of the last view, the lowest first.
  virtual std::vector<uint32_t> Members() = 0;
  // This process cannot go on: the job loses it, with this reason. Does not block; Leave follows.
  virtual void GiveUp(const std::string& why) = 0;
  // The calling thread waits for an operation, and may do the engine's work meanwhile. Blocks until
  // `over`, which must not block, or the deadline; or comes back early, at once where there is
  // nothing to help with, and in all cases when Leave has come back.
  virtual void Help(const std::function<bool()>& over, Time deadline) {
    (void)over, (void)deadline;
  }
  // Leaves the job in order: what is open ends with kShutdown, unless it is done before. Waits, for
  // a bounded time, until nobody needs what this process still holds. Idempotent; every call waits
  // for the same end. True: no operation is open, now and later. False: the engine's thread has
  // stood still all the time; what it has open ends when it goes on, or with the engine, whose
  // destructor waits for it.
  virtual bool Leave() = 0;
};

std::unique_ptr<Engine> MakeLoneEngine();

struct WorkerEngineOptions {
  ControlLinkOptions control;
  ShardLinkOptions shards;
  wire::Join join;
  protocol::WorkerOptions protocol;
  // Null: lanes of its own.
  MakeWorkerLanes make_lanes;
  // Called first on the thread of each lane; lane 0 is the thread of the worker itself. Must not
  // throw. Null: nothing is.
  std::function<void(uint32_t lane)> on_lane_thread;
  // From the first attempt to reach the coordinator to the last connection to a shard.
  Duration start_limit = seconds(150);
  // An operation that takes longer ends in an error, on every rank or on none; zero: no limit.
  Duration operation_limit{};
  // How long leaving in order may take; and then, for the loop to end what is open without that:
  // it never blocks, but may be busy. A coordinator that is away is waited for in between.
  Duration leave_limit = seconds(4);
  Duration end_limit = seconds(10);
  // Asked again and again on the thread that waits for the start, under no lock; `false` ends the
  // joining with kShutdown. Null: nothing does.
  std::function<bool()> go_on;
};

struct StartedEngine {
  std::unique_ptr<Engine> engine;
  Standing standing;
  // Shared with the session, which may end before its tensors do.
  std::shared_ptr<TensorMemory> memory = MakePlainMemory();
};

// Joins the job. Blocks until everybody is there and all shards are connected, or says why not; in
// that case this process is not in the job.
Result<StartedEngine> StartWorkerEngine(std::unique_ptr<transport::Transport> transport,
                                        const WorkerEngineOptions& options, Log& log);

}  // namespace byteps::runtime
