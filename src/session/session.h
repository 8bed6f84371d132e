// Session: one process' membership in a job, behind the C interface. Turns options into an engine,
// refuses operations that cannot begin, keeps operations until their user has looked at them,
// counts bytes.
//
// Thread-safe. Only the completion thread calls users' functions, and only Open calls `go_on`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/log.h"
#include "src/base/machine_layout.h"
#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/config/options.h"
#include "src/runtime/seeing/timeline_log.h"
#include "src/runtime/worker/engine.h"
#include "src/session/admission.h"
#include "src/session/completion_thread.h"
#include "src/session/device/staged_operations.h"
#include "src/session/helpers.h"
#include "src/session/speed_meter.h"
#include "src/session/started_operation.h"
#include "src/session/trust.h"
#include "src/session/wide_average.h"

namespace byteps::session {

class Session {
 public:
  // Joins the job. Blocks until the job has started, at most the start timeout. Calls `go_on`, if
  // it is not null, again and again on this thread. kShutdown: `go_on` has returned false.
  static Result<std::unique_ptr<Session>> Open(const config::Options& options,
                                               std::function<bool()> go_on);
  ~Session();

  // Leaves the job in order. Open operations end with kShutdown, and none begins any more. Blocks a
  // bounded time; idempotent, and every call waits for the same end. Returns false if the engine's
  // thread (Engine::Leave), or the driver of a device, has stood still all the time. Then
  // operations that were open still borrow their memory until they are complete, at the latest
  // until the session is destroyed, which waits for these.
  bool Shutdown();
  // Blocks until the functions of all operations that have ended have been called. REQUIRES: not
  // called by one of these functions.
  void DrainCompletions() { completions_.Drain(); }
  // Makes the job lose this process, with this reason. Does not block; Shutdown should follow.
  void GiveUp(const std::string& why);

  int rank() const { return static_cast<int>(standing_.rank); }
  int size() const { return static_cast<int>(standing_.size); }
  int local_rank() const { return local_rank_; }
  int local_size() const { return static_cast<int>(layout_.SizeOf(machine_)); }
  const MachineLayout& layout() const { return layout_; }
  // Returns the number of this process' machine in the layout.
  uint64_t machine() const { return machine_; }

  // Return the results of ProofOf and TakesObjects in trust.h.
  JobProof proof() const { return proof_; }
  bool takes_objects() const { return takes_objects_; }
  // Returns the limit of operations that have none of their own; zero: no limit.
  Duration operation_limit() const { return operation_limit_; }

  void Declare(const std::string& name);

  // See byteps_set_stuck.
  void SetStuck(const std::string& name);

  // Call Engine::AddProcessSet and RemoveProcessSet.
  Status AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks);
  Status RemoveProcessSet(uint32_t number);

  // Starts an operation, in the memory of the device at `place`, or in the host's. Does not block,
  // except for the driver of the device. On success borrows its memory until it has ended, and then
  // calls `on_complete`, if it is not null. The caller owns the handle until Release. After an
  // error nothing was accepted.
  Result<Handle> Start(protocol::Operation operation, const std::optional<DevicePlace>& place,
                       Completion::Function on_complete);

  // Returns the operation of a handle; null for an unknown one. The operation may be used after
  // this session is gone.
  std::shared_ptr<StartedOperation> Find(Handle handle);

  // Returns the ranks whose contributions are in every part of a result, the lowest first; none if
  // the operation failed.
  std::vector<uint32_t> MembersOf(const protocol::Outcome& outcome) const;
  // Returns the ranks of the last view, the lowest first.
  std::vector<uint32_t> Members() const { return engine_->Members(); }
  // Returns what bits of sums depend on in the job as it is now.
  plan::SumReport Sums() const { return engine_->Sums(); }

  void Release(Handle handle);

  // Returns the memory for tensors, which outlives the session.
  const std::shared_ptr<runtime::TensorMemory>& memory() const { return memory_; }

  SpeedMeter::Sample Speed();

  // Returns the timeline of the pieces that this process carries, and of operations that have a
  // completion function, because no caller asks for the times of these.
  runtime::TimelineLog& timeline() { return *timeline_; }

 private:
  struct Parts {
    std::unique_ptr<Log> log;
    std::unique_ptr<runtime::TimelineLog> timeline;
    runtime::StartedEngine started;
  };
  Session(const config::Options& options, Parts parts);
  Result<std::unique_ptr<Completion>> MakeCompletion(Completion::Function function);
  std::shared_ptr<WideAverage> Widened(protocol::Operation& operation) const;
  Status Begin(protocol::Operation operation, const std::optional<DevicePlace>& place,
               runtime::Engine::Done done);
  void Submit(protocol::Operation operation, runtime::Engine::Done done);
  void TellStuck(const std::string& name) BYTEPS_REQUIRES(stuck_mutex_);
  runtime::TimelineEntry EntryOf(const protocol::Operation& operation) const;
  Handle Keep(const std::shared_ptr<StartedOperation>& started);
  void End(StartedOperation& started, const Admission::Open* open, uint64_t bytes,
           protocol::Outcome outcome);

  const std::unique_ptr<Log> log_;
  const std::unique_ptr<runtime::TimelineLog> timeline_;  // outlives the engine, which writes it
  const int local_rank_;
  const uint64_t machine_;
  const MachineLayout layout_;
  const bool telemetry_on_;
  const bool machines_sum_;
  const JobProof proof_;
  const bool takes_objects_;
  const bool devices_may_add_;  // on this machine or on another one
  const Duration operation_limit_;
  const bool own_limits_count_;
  const runtime::Standing standing_;
  const std::shared_ptr<runtime::TensorMemory> memory_;  // shared with the tensors in it
  SpeedMeter speed_;
  Admission admission_;

  Mutex mutex_;
  bool shut_down_ BYTEPS_GUARDED_BY(mutex_) = false;
  Handle next_handle_ BYTEPS_GUARDED_BY(mutex_) = 1;
  // StartedOperation says who shares these.
  std::unordered_map<Handle, std::shared_ptr<StartedOperation>> started_ BYTEPS_GUARDED_BY(mutex_);

  Mutex stuck_mutex_;                                  // held while the engine is told
  std::string stuck_ BYTEPS_GUARDED_BY(stuck_mutex_);  // the promise of the user's process

  // The order matters: the engine goes first and ends open operations; then their copies end, and
  // the thread tells their users. The engine's lanes use the memory for pieces of devices.
  CompletionThread completions_;
  StagedOperations staged_;
  std::unique_ptr<runtime::Engine> engine_;
  const std::shared_ptr<Helpers> helpers_;  // shared with operations
};

}  // namespace byteps::session
