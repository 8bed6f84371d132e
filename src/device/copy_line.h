// CopyLine: copies between host and device in one direction, in order, on a thread and a stream of
// its own.
//
// Takes the copies that there are, at most kBatchCopies or kBatchBytes, begins them, and waits for
// the batch before them. So two batches are under way while there is enough to do. Neighbours in
// both memories become one copy. If there is nothing more to begin, the line waits for the only
// batch under way, and a copy that comes meanwhile begins behind this batch: no call of a driver
// waits for two things. Nothing is lost by that, because copies end in order.
//
// Thread-safe. The functions that callers hand in run on the line's thread, under no lock, and must
// not throw. The line itself allocates nothing for a copy once its queue has had this length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/device/device.h"
#include "src/device/line_threads.h"

namespace byteps::device {

class CopyLine {
 public:
  using Done = std::function<void(const Status&)>;
  static constexpr size_t kBatchCopies = 32;
  static constexpr size_t kBatchBytes = size_t{2} << 20;

  // Starts the thread; throws std::system_error if the system has none. The pointer is shared,
  // because a thread that stands still in the driver outlives the line.
  explicit CopyLine(std::shared_ptr<Device> device);
  // Blocks until all copies have ended.
  ~CopyLine();
  CopyLine(const CopyLine&) = delete;
  CopyLine& operator=(const CopyLine&) = delete;

  // Does not block. Calls `done` once when the bytes are there, or with the reason why they are
  // not; not at all for a copy that was called off. Throws std::bad_alloc; then nothing was
  // accepted. REQUIRES: both memories stay until then.
  void Copy(uint64_t owner, std::byte* to, const std::byte* from, size_t bytes, Done done);

  // Drops the owner's copies that have not begun. Calls `over` when nothing of the owner touches
  // its memory any more: inside this call if no copy of the owner is under way. The line begins no
  // `done` of the owner's copies from now on. Does not block.
  void CallOff(uint64_t owner, std::function<void()> over);

  // Drops the owner's copy to this place, if it has not begun. Returns true if its `done` will
  // never be called. Does not block. REQUIRES: nobody waits for the owner with WhenOver.
  bool TakeBack(uint64_t owner, const std::byte* to);

  // Returns the copy that has been under way for longest, and since when. A copy that the driver
  // does not take is under way, too. Does not block.
  struct UnderWay {
    uint64_t owner = 0;
    Time since;
  };
  std::optional<UnderWay> Oldest();

  // Calls `over` when no copy of the owner touches its memory, or ever will: inside this call if
  // the owner has none. Drops nothing, and all `done` are called. Does not block. REQUIRES: the
  // owner begins no copy from now on.
  void WhenOver(uint64_t owner, std::function<void()> over);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread
  LineThreads thread_{LineThreads::kEndLimit};
};

}  // namespace byteps::device
