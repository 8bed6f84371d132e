// Session: one process' membership in a job, behind the C interface. Turns options into an engine,
// keeps operations until their user has looked at them, counts bytes.
//
// Thread-safe. No callbacks to users.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/config/options.h"
#include "src/runtime/engine.h"
#include "src/session/speed_meter.h"

namespace byteps::session {

using Handle = uint64_t;

class Session {
 public:
  // Joins the job. Blocks until it has started, at most the start timeout, or until `go_on`, which
  // is asked again and again on this thread if it is not null, returns false: kShutdown then.
  static Result<std::unique_ptr<Session>> Open(const config::Options& options,
                                               std::function<bool()> go_on);
  ~Session();

  // Leaves the job in order; open operations end with kShutdown. Blocks a bounded time; idempotent,
  // and every call waits for the same end. False: the engine's thread has stood still all the time
  // (Engine::Leave), and operations that were open still borrow their memory: until Poll says that
  // they are complete, at the latest until the session is gone, which waits for that thread.
  bool Shutdown();
  // The job loses this process, with this reason. Does not block; Shutdown should follow.
  void GiveUp(const std::string& why);

  int rank() const { return static_cast<int>(standing_.rank); }
  int size() const { return static_cast<int>(standing_.size); }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

  void Declare(const std::string& name);

  void SetStuck(const std::string& name) { engine_->SetStuck(name); }

  // Engine::AddGroup and RemoveGroup.
  Status AddGroup(uint32_t number, const std::vector<uint32_t>& ranks) {
    return engine_->AddGroup(number, ranks);
  }
  Status RemoveGroup(uint32_t number) { return engine_->RemoveGroup(number); }

  // Starts an operation; does not block. Its memory is borrowed until it is complete. The caller
  // owns the handle until Release.
  Result<Handle> Start(protocol::Operation operation);

  enum class Progress : uint8_t { kRunning, kComplete, kUnknown };
  Progress Poll(Handle handle);

  // Blocks until complete or `limit` (negative: none) is over, then kDeadlineExceeded. Returns how
  // the operation ended.
  Status Wait(Handle handle, milliseconds limit);

  // What a complete operation brought; the pointer lives until Release. Null while it runs, or for
  // an unknown handle.
  const protocol::Outcome* Look(Handle handle);

  // Whose contributions are in every part of a complete operation's result, the lowest rank first;
  // nobody's when it failed.
  Result<std::vector<uint32_t>> MembersOf(Handle handle);
  // The ranks of the last view, the lowest first.
  std::vector<uint32_t> Members() const { return engine_->Members(); }
  static Status NotComplete(Handle handle);

  void Release(Handle handle);

  SpeedMeter::Sample Speed();

 private:
  // One operation; shared by the table, the engine and waiters, whichever lets go last.
  struct Entry {
    Mutex mutex;
    std::condition_variable changed;
    bool complete BYTEPS_GUARDED_BY(mutex) = false;
    protocol::Outcome outcome BYTEPS_GUARDED_BY(mutex);
  };

  Session(const config::Options& options, std::unique_ptr<Log> log);
  Status Join(const config::Options& options, std::function<bool()> go_on);
  std::shared_ptr<Entry> Find(Handle handle);

  const std::unique_ptr<Log> log_;
  const int local_rank_;
  const int local_size_;
  const bool telemetry_on_;
  runtime::Standing standing_;
  SpeedMeter speed_;

  Mutex mutex_;
  Handle next_handle_ BYTEPS_GUARDED_BY(mutex_) = 1;
  std::unordered_map<Handle, std::shared_ptr<Entry>> entries_ BYTEPS_GUARDED_BY(mutex_);

  std::unique_ptr<runtime::Engine> engine_;  // last: it ends first
};

}  // namespace byteps::session
