// Operations whose input and output lie in a device's memory. Such an operation waits until the
// stream of its user has written the input. A large reduction then goes to the engine as it is, if
// the engine copies pieces from and to devices (runtime/worker/device_paths.h,
// machine/room/device_mover.h). Any other operation is carried out in host memory, with a copy
// before it and one behind it.
//
// Any thread may call it. Lines (device/copy_line.h, device/ready_line.h) make all calls of the
// device's driver that may block, except for those inside Start, which are the user's own. If the
// process has no memory for what an operation needs on its way, the operation ends in an error.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/device/device.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/runtime/worker/engine.h"
#include "src/session/device/staged_operation.h"

namespace byteps::session {

// The device that has the memory of an operation.
struct DevicePlace {
  int device = 0;
  // The operation comes behind what this stream has been given before. No value: it need not wait.
  std::optional<void*> stream;
};

class StagedOperations {
 public:
  using Done = runtime::Engine::Done;
  using FindDevices = std::function<Result<std::unique_ptr<device::Devices>>()>;
  static constexpr Duration kPinnedLimit = seconds(5);
  // Reductions of more bytes go by pieces.
  static constexpr uint64_t kWholeBytesMax = uint64_t{64} << 10;
  struct Events {
    // Begins an operation in host memory, or by pieces, like Engine::Submit.
    std::function<void(protocol::Operation, Done)> submit;
    // The last operation that had not begun has begun, or has ended.
    std::function<void()> all_begun;
    // Hears of inputs and copies that have waited for a second, after each change; so again and
    // again while a copy is under way.
    std::function<void(protocol::DeviceWaits waits)> late;
    // The operation cannot end well here, and other ranks cannot hear of that any more: the job
    // must lose this process.
    std::function<void(const std::string& why)> give_up;
    std::function<void(const std::string& text)> warn;
  };

  // Looks for devices when somebody asks for the first time. `rank`: this one, for errors.
  // `stall_after`: when an operation that waits for its input is worth a warning; zero: never.
  // `pinned_limit`: of the wait for pinned memory; then an operation takes ordinary memory.
  // `prepare`: the engine's, if it takes reductions in a device's memory; else null.
  StagedOperations(FindDevices find, Events events, uint32_t rank, Duration stall_after,
                   Duration pinned_limit = kPinnedLimit, runtime::PrepareDevice prepare = nullptr);
  // Blocks until no copy is under way. REQUIRES: no operation is in the engine.
  ~StagedOperations();
  StagedOperations(const StagedOperations&) = delete;
  StagedOperations& operator=(const StagedOperations&) = delete;

  // Returns the devices, or why there are none. May wait for the driver.
  Result<device::Devices*> Find();

  // Takes an operation; it borrows its memory until `done` is called, exactly once. Does not wait
  // for other ranks, but perhaps for the device's driver. An error: nothing was accepted.
  // `output_bytes`: of the user's output. `limit`: of the time until the input is in the host's
  // memory; zero: none. If there is no input by then, or the copy of it fails, the operation ends
  // in an error on every rank (Operation::no_input). On this rank it ends no earlier than a copy of
  // its input that is under way. May throw std::bad_alloc; then nothing was accepted.
  Status Start(protocol::Operation operation, uint64_t output_bytes, Duration limit,
               const DevicePlace& place, Done done);

  // Returns whether an operation of the process set has not ended.
  bool HasOpen(uint32_t process_set);
  // Returns whether an operation was accepted and not submitted yet.
  bool HasUnbegun();

  // Ends operations that the engine does not have yet, with kShutdown; Start accepts no more. A
  // copy that is under way ends first. Does not wait for it. Idempotent.
  void Stop();
  // Blocks until no operation is open. Returns false if the deadline comes first.
  bool WaitForEnd(Time deadline);

 private:
  using Staged = std::shared_ptr<StagedOperation>;
  using Stage = StagedOperation::Stage;
  // A call of the events, for which WaitForEnd waits.
  class Telling {
   public:
    explicit Telling(StagedOperations& all) : all_(all) {
      MutexLock lock(all_.mutex_);
      stops_ = all_.stops_;
      ++all_.telling_;
    }
    ~Telling() {
      MutexLock lock(all_.mutex_);
      --all_.telling_;
      all_.changed_.notify_all();
    }
    Telling(const Telling&) = delete;
    Telling& operator=(const Telling&) = delete;
    // Returns whether the session ends, so that nobody must be told.
    bool stops() const { return stops_; }

   private:
    StagedOperations& all_;
    bool stops_ = false;
  };
  struct LateOne {
    Staged staged;
    Stage stage;
    bool is_at_limit;
  };

  Result<DeviceLines*> LinesOf(int device);
  Status StartWatch() BYTEPS_REQUIRES(mutex_);
  Status Accept(const Staged& staged, std::optional<void*> stream,
                std::unique_ptr<device::Mark> mark, bool& is_ready);
  Status Await(const Staged& staged, void* stream, std::unique_ptr<device::Mark> mark)
      BYTEPS_REQUIRES(mutex_);
  void Enter(StagedOperation& staged, Stage stage) BYTEPS_REQUIRES(mutex_);
  void WakeWatchFor(const StagedOperation& staged) BYTEPS_REQUIRES(mutex_);
  bool GoesByPieces(const protocol::Operation& operation, uint64_t bytes) const;
  bool NeedNotAsk(DeviceLines& lines) const;
  bool PreparePieces(const Staged& staged) BYTEPS_REQUIRES(mutex_);
  bool BeginCopy(const Staged& staged) BYTEPS_REQUIRES(mutex_);
  void OnReady(const Staged& staged, const Status& status);
  void OnMemory(const Staged& staged, device::PinnedMemory::Block block);
  void OnCopied(const Staged& staged, const Status& status);
  void LeaveCopy(const Staged& staged, const Status& why);
  bool Submit(const Staged& staged, const Status& input);
  void SubmitOrGiveUp(const Staged& staged, const Status& input);
  void OnResult(const Staged& staged, protocol::Outcome outcome);
  void EndWhenOver(const Staged& staged);
  void AskForMemory(const Staged& staged) BYTEPS_REQUIRES(mutex_);
  // Ends an operation, and this process' part in the job.
  void GiveUp(const Staged& staged, const Status& status);
  void End(const Staged& staged, protocol::Outcome outcome);
  void NoteBegun(StagedOperation& staged);
  void EndLateOnes(Time now);
  void EndLateOne(const LateOne& one, Time now);
  void TellLateOnes(Time now);
  protocol::DeviceWaits LateOnes(Time now, std::vector<std::string>& warnings)
      BYTEPS_REQUIRES(mutex_);
  void NoteSlowCopies(DeviceLines& lines, Time now, protocol::DeviceWaits& waits,
                      std::vector<std::string>& warnings) BYTEPS_REQUIRES(mutex_);
  bool IsWorthAWarning(StagedOperation& staged, Time since, Time now) const BYTEPS_REQUIRES(mutex_);
  void Watch();
  // Runs what a line or the engine has called. They could do nothing with an exception.
  template <typename Body>
  void Guarded(const Staged& staged, Body body) {
    try {
      body();
    } catch (const std::bad_alloc&) {
      GiveUp(staged, no_memory_);
    }
  }

  const FindDevices find_;
  const Events events_;
  const uint32_t rank_;
  const Duration stall_after_;
  const Duration pinned_limit_;
  const runtime::PrepareDevice prepare_;
  const Status shut_down_;
  const Status no_memory_;

  Mutex devices_mutex_;
  std::optional<Status> why_none_ BYTEPS_GUARDED_BY(devices_mutex_);
  // Shared with threads that stand still in the driver.
  std::shared_ptr<device::Devices> devices_ BYTEPS_GUARDED_BY(devices_mutex_);

  Mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable watch_wakes_;
  Time watch_sleeps_until_ BYTEPS_GUARDED_BY(mutex_);
  uint64_t next_id_ BYTEPS_GUARDED_BY(mutex_) = 1;
  // Shared with the functions that lines and the engine call.
  std::map<uint64_t, Staged> open_ BYTEPS_GUARDED_BY(mutex_);
  bool stops_ BYTEPS_GUARDED_BY(mutex_) = false;
  size_t unbegun_ BYTEPS_GUARDED_BY(mutex_) = 0;  // operations that were not submitted yet
  size_t telling_ BYTEPS_GUARDED_BY(mutex_) = 0;  // see Telling
  protocol::DeviceWaits told_late_;               // the watch's own
  std::thread watch_ BYTEPS_GUARDED_BY(mutex_);   // ends what takes too long

  // Destroyed first, because its threads use the rest.
  std::map<int, std::unique_ptr<DeviceLines>> lines_ BYTEPS_GUARDED_BY(devices_mutex_);
};

}  // namespace byteps::session
