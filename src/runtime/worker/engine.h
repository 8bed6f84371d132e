// Engine: executes a session's operations. There are three kinds: a worker in a job with servers; a
// job of one process, which needs neither servers nor a thread; and a worker of a job on one
// machine without servers (machine/serverless/local_engine.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/device/device_lines.h"
#include "src/plan/follows_ranks.h"
#include "src/protocol/worker/worker_options.h"
#include "src/runtime/control_link.h"
#include "src/runtime/worker/lane_group.h"
#include "src/runtime/worker/standing.h"
#include "src/runtime/worker/tensor_memory.h"
#include "src/runtime/worker/wait_meter.h"
#include "src/runtime/worker/worker_lanes.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

// All methods may be called from any thread.
class Engine {
 public:
  // Tells how an operation ended. Called once, on a thread of the engine or of a caller that helps
  // the engine, and never under a lock. Must not throw: operations end even when there is no
  // memory.
  using Done = std::function<void(protocol::Outcome)>;

  virtual ~Engine() = default;

  // Takes an operation; does not block. The engine borrows the operation's memory until it calls
  // `done`, which happens exactly once for every call. If Submit throws (no memory), it has
  // accepted nothing and never calls `done`.
  virtual void Submit(protocol::Operation operation, Done done) = 0;
  virtual void Declare(const std::string& name) = 0;
  // Calls Front::SetStuck after all operations that were submitted before. Does not block.
  virtual void SetStuck(const std::string& name) = 0;
  // Calls UseStates::SetDeviceWaits. Does not block.
  virtual void SetDeviceWaits(protocol::DeviceWaits waits) = 0;
  // Front::AddProcessSet and RemoveProcessSet. Each blocks for a moment, until the change is in
  // force and the shards are told, for all operations that are submitted after the call.
  virtual Status AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) = 0;
  virtual Status RemoveProcessSet(uint32_t number) = 0;
  // Returns the ranks of the last view, the lowest first.
  virtual std::vector<uint32_t> Members() = 0;
  // Returns what bits of sums depend on in the generation of the last view.
  virtual plan::SumReport Sums() = 0;
  // Reports that this process cannot go on: the job loses this process, with `why`. Does not block;
  // the caller calls Leave afterwards.
  virtual void GiveUp(const std::string& why) = 0;
  // Lends the calling thread, which waits for an operation, to the engine's work. Blocks until
  // `over` returns true or until the deadline; `over` must not block. May return early: at once if
  // the thread cannot help, and always when Leave has returned.
  virtual void Help(const std::function<bool()>& over, Time deadline) {
    (void)over, (void)deadline;
  }
  // Leaves the job in order. Operations that are open end with kShutdown, unless they finish
  // before. Waits, for a bounded time, until nobody needs what this process still holds.
  // Idempotent; every call waits for the same end. True: no operation is open, now and later.
  // False: the engine's thread has stood still all the time. The open operations then end when the
  // thread goes on, or with the engine, whose destructor waits for the thread.
  virtual bool Leave() = 0;
};

std::unique_ptr<Engine> MakeLoneEngine();

struct WorkerEngineOptions {
  ControlLinkOptions control;
  ShardLinkOptions shards;
  wire::Join join;
  protocol::WorkerOptions protocol;
  // Null: the engine makes its own lanes.
  MakeWorkerLanes make_lanes;
  // Called first on the thread of each lane; lane 0 is the thread of the worker itself. Must not
  // throw. Null: the engine calls nothing.
  std::function<void(uint32_t lane)> on_lane_thread;
  // The time from the first attempt to reach the coordinator to the last connection to a shard.
  Duration start_limit = seconds(150);
  // An operation that takes longer ends in an error, on every rank or on none. Zero: no limit.
  Duration operation_limit{};
  // `leave_limit`: the time for leaving in order. `end_limit`: the time that the loop then gets to
  // end the open operations out of order; the loop never blocks, but may be busy. Between the two
  // the engine waits for a coordinator that is away.
  Duration leave_limit = seconds(4);
  Duration end_limit = seconds(10);
  // The thread that waits for the start calls this again and again, under no lock. `false` ends the
  // joining with kShutdown. Null: nothing can end it early.
  std::function<bool()> go_on;
};

// Asks a device for what the engine's copies from and to it need. Returns true if there is nothing
// to wait for. A block that is asked of the lines' PinnedMemory after this call comes after the
// answer. Any thread. May throw std::bad_alloc; then nothing was asked.
using PrepareDevice = std::function<bool(device::DeviceLines&)>;

struct StartedEngine {
  std::unique_ptr<Engine> engine;
  Standing standing;
  // Shared with the session, which may end before its tensors do.
  std::shared_ptr<TensorMemory> memory = MakePlainMemory();
  // Gets the waits of the session's users; the engine tells the job of them.
  std::shared_ptr<WaitMeter> waits = std::make_shared<WaitMeter>();
  // Called before each reduction in the memory of a device (Operation::device). Null: the engine
  // takes none.
  PrepareDevice prepare_device = nullptr;
};

// Joins the job. Blocks until all members have come and all shards are connected. If this returns
// an error, this process is not in the job. The caller may go on using `transport`, from which the
// engine makes its loops.
Result<StartedEngine> StartWorkerEngine(std::shared_ptr<transport::Transport> transport,
                                        const WorkerEngineOptions& options, Log& log);

}  // namespace byteps::runtime
