// Counts the calls that are inside an object, so that one of them can end it while others run.
//
// Thread-safe. It outlives the object that it guards, so a later call finds it closed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>

#include "src/base/thread_annotations.h"

namespace byteps::session {

class CallGate {
 public:
  // Lets a call in; costs one atomic addition. False: the object is gone, or about to go. True: the
  // object stays until Leave. Does not block.
  bool Enter();
  void Leave();

  // Decides which caller ends the object. True: this one, who must call the other two functions.
  // False: another caller ends it or has; blocks until that is over.
  bool ClaimEnd();
  // Lets no call in from now on. Blocks until all calls have left.
  void Shut();
  // Tells that the object is gone, and wakes callers in ClaimEnd.
  void SetOver();

 private:
  std::atomic<uint64_t> state_ = 0;  // how many are inside; and kShut

  Mutex mutex_;
  std::condition_variable changed_;
  bool claimed_ BYTEPS_GUARDED_BY(mutex_) = false;
  bool over_ BYTEPS_GUARDED_BY(mutex_) = false;
};

}  // namespace byteps::session
