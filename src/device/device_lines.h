// All that one device of this process needs: its lines, and pinned memory of the host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/device/copy_line.h"
#include "src/device/device.h"
#include "src/device/launch_owners.h"
#include "src/device/piece_memory.h"
#include "src/device/pinned_memory.h"
#include "src/device/ready_line.h"

namespace byteps::device {

// Any thread. The order of members matters: copies end before the memory that they use.
class DeviceLines {
 public:
  // Throws std::system_error if the system has no threads.
  DeviceLines(const std::shared_ptr<Device>& of, int number, size_t pinned_bytes_max,
              const std::function<void(const std::string&)>& warn)
      : name("cuda:" + std::to_string(number)),
        device(*of),
        shared_device(of),
        pinned(of, pinned_bytes_max, warn),
        pieces(pinned),
        ready(of),
        down(of),
        up(of) {}

  // Keeps something that copies of these lines use, until all copies have ended. The pointer is
  // shared: the caller may let go of it before.
  void Keep(std::shared_ptr<void> used) {
    MutexLock lock(kept_mutex_);
    kept_.push_back(std::move(used));
  }

  const std::string name;
  Device& device;                               // lives as long as the lines
  const std::shared_ptr<Device> shared_device;  // the same, for lines of groups
  PinnedMemory pinned;
  PieceMemory pieces;
  LaunchOwners launches;

 private:
  Mutex kept_mutex_;
  std::vector<std::shared_ptr<void>> kept_ BYTEPS_GUARDED_BY(kept_mutex_);

 public:
  ReadyLine ready;
  CopyLine down;  // from the device
  CopyLine up;
};

}  // namespace byteps::device
