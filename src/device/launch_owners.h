// LaunchOwners: the operations whose memory is used by launches of a group (group_line.h), as
// CopyLine knows those of its copies.
//
// Thread-safe. Nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "src/base/thread_annotations.h"

namespace byteps::device {

class LaunchOwners {
 public:
  // Notes that a launch of the owner begins, and that nothing of it touches memory any more.
  void Begin(uint64_t owner) {
    MutexLock lock(mutex_);
    ++all_[owner].launches;
  }
  void End(uint64_t owner) {
    std::function<void()> over;
    {
      MutexLock lock(mutex_);
      auto found = all_.find(owner);
      if (--found->second.launches > 0) return;
      over = std::move(found->second.over);
      all_.erase(found);
    }
    if (over != nullptr) over();
  }

  // Calls `over` when no launch touches the owner's memory, or ever will: inside this call if the
  // owner has none. REQUIRES: the owner begins no launch from now on.
  void WhenOver(uint64_t owner, std::function<void()> over) {
    {
      MutexLock lock(mutex_);
      auto found = all_.find(owner);
      if (found != all_.end()) {
        found->second.over = std::move(over);
        return;
      }
    }
    over();
  }

 private:
  struct Owner {
    size_t launches = 0;
    std::function<void()> over;
  };
  Mutex mutex_;
  std::map<uint64_t, Owner> all_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::device
