// Things for the thread of one loop. Any thread may put them; the loop's thread takes them in the
// order in which they were put. One wake-up is enough for all that come together.
//
// REQUIRES: the loop does not run any more when an inbox is destroyed. Things that were not taken
// are destroyed, too.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

template <typename Thing>
class Inbox {
 public:
  // Calls `take` on the loop's thread, with all things there are. `take` may put more things, which
  // wait for the next turn.
  Inbox(transport::Loop& loop, std::function<void(std::vector<Thing>&)> take)
      : loop_(loop), take_(std::move(take)) {}

  // May be called from any thread; does not block. If Put throws (no memory), it has put nothing.
  void Put(Thing thing) {
    MutexLock lock(mutex_);
    things_.push_back(std::move(thing));
    if (things_.size() > 1) return;  // the loop has work already
    try {
      loop_.Post([this] { Take(); });
    } catch (...) {
      things_.pop_back();
      throw;
    }
  }

 private:
  void Take() {
    {
      MutexLock lock(mutex_);
      taken_.swap(things_);
    }
    take_(taken_);
    taken_.clear();
  }

  transport::Loop& loop_;
  const std::function<void(std::vector<Thing>&)> take_;
  std::vector<Thing> taken_;  // used on the loop's thread only

  Mutex mutex_;
  std::vector<Thing> things_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
