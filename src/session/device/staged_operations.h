// Operations whose input and output lie in a device's memory. Such an operation waits until the
// stream of its user has written the input, and is carried out in host memory, with a copy before
// it and one behind it.
//
// Any thread may call it. Lines (device/copy_line.h, device/ready_line.h) make all calls of the
// device's driver that may block, except for those inside Start, which are the user's own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/device/copy_line.h"
#include "src/device/device.h"
#include "src/device/pinned_memory.h"
#include "src/device/ready_line.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/runtime/worker/engine.h"

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
  struct Events {
    // Begins an operation in host memory, like Engine::Submit.
    std::function<void(protocol::Operation, Done)> submit;
    // The last operation that had not begun has begun, or has ended.
    std::function<void()> all_begun;
    // The names of operations that have waited for their input for kLateAfter, after each change.
    std::function<void(std::vector<std::string> names)> late;
    // The operation cannot end well here, and other ranks cannot hear of that any more: the job
    // must lose this process.
    std::function<void(const std::string& why)> give_up;
    std::function<void(const std::string& text)> warn;
  };

  static constexpr Duration kLateAfter = seconds(1);

  // Looks for devices when somebody asks for the first time. `rank`: this one, for errors.
  // `stall_after`: when an operation that waits for its input is worth a warning; zero: never.
  StagedOperations(FindDevices find, Events events, uint32_t rank, Duration stall_after);
  // Blocks until no line has anything to do. REQUIRES: Stop was called, and no operation is in the
  // engine.
  ~StagedOperations();
  StagedOperations(const StagedOperations&) = delete;
  StagedOperations& operator=(const StagedOperations&) = delete;

  // Returns the devices, or why there are none. May wait for the driver.
  Result<device::Devices*> Find();

  // Takes an operation; it borrows its memory until `done` is called, exactly once. Does not wait
  // for other ranks, but perhaps for the device's driver. An error: nothing was accepted.
  // `output_bytes`: of the user's output. `limit`: of the time until the input is written; zero:
  // none. If there is no input by then, or the copy of it fails, the operation ends in an error on
  // every rank (Operation::no_input).
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
  struct Lines;
  struct Staged;
  enum class Stage : uint8_t { kWaiting, kCopying, kElsewhere };

  Result<Lines*> LinesOf(int device);
  Status StartWatch() BYTEPS_REQUIRES(mutex_);
  Status CheckMemory(device::Device& device, const Staged& staged) const;
  Status Await(const std::shared_ptr<Staged>& staged, void* stream,
               std::unique_ptr<device::Mark> mark) BYTEPS_REQUIRES(mutex_);
  void OnReady(const std::shared_ptr<Staged>& staged, const Status& status);
  void TakeMemory(Staged& staged);
  void OnCopied(const std::shared_ptr<Staged>& staged, const Status& status);
  void OnResult(const std::shared_ptr<Staged>& staged, protocol::Outcome outcome);
  // Ends an operation, and this process' part in the job.
  void GiveUp(const std::shared_ptr<Staged>& staged, const Status& status);
  void End(const std::shared_ptr<Staged>& staged, protocol::Outcome outcome);
  void NoteBegun(Staged& staged);
  Time NextLook(const Staged& waiting) const BYTEPS_REQUIRES(mutex_);
  void EndLateOnes(Time now);
  void TellLateOnes(Time now);
  void Watch();

  const FindDevices find_;
  const Events events_;
  const uint32_t rank_;
  const Duration stall_after_;
  const Status shut_down_;

  Mutex devices_mutex_;
  std::optional<Status> why_none_ BYTEPS_GUARDED_BY(devices_mutex_);
  std::unique_ptr<device::Devices> devices_ BYTEPS_GUARDED_BY(devices_mutex_);

  Mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable watch_wakes_;
  Time watch_sleeps_until_ BYTEPS_GUARDED_BY(mutex_);
  uint64_t next_id_ BYTEPS_GUARDED_BY(mutex_) = 1;
  // Shared with the functions that lines and the engine call.
  std::map<uint64_t, std::shared_ptr<Staged>> open_ BYTEPS_GUARDED_BY(mutex_);
  bool stops_ BYTEPS_GUARDED_BY(mutex_) = false;
  size_t unbegun_ BYTEPS_GUARDED_BY(mutex_) = 0;  // operations that were not submitted yet
  size_t telling_ BYTEPS_GUARDED_BY(mutex_) = 0;  // calls of events_ that have not returned
  std::vector<std::string> told_late_;            // the watch's own
  std::thread watch_ BYTEPS_GUARDED_BY(mutex_);   // ends what waits for too long

  // Destroyed first, because its threads use the rest.
  std::map<int, std::unique_ptr<Lines>> lines_ BYTEPS_GUARDED_BY(devices_mutex_);
};

}  // namespace byteps::session
