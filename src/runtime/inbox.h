// Things for the thread of one loop, from any thread: taken there in the order in which they were
// put. One wake-up is enough for all that come together.
//
// The loop must not run any more when an inbox goes; what was not taken goes with it.
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
  // `take` is called on the loop's thread with all there are; it may put more, which wait for the
  // next turn.
  Inbox(transport::Loop& loop, std::function<void(std::vector<Thing>&)> take)
      : loop_(loop), take_(std::move(take)) {}

  // From any thread; does not block. If it throws (no memory) nothing was put.
  void Put(Thing thing) {
    MutexLock lock(mutex_);
    things_.push_back(std::move(thing));
    if (things_.size() > 1) return;  // the loop knows
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
  std::vector<Thing> taken_;  // of the loop's thread

  Mutex mutex_;
  std::vector<Thing> things_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::runtime
