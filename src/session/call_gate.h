// Counts the calls that are inside an object, so that one of them can end it while others run.
//
// Thread-safe. It outlives the object that it guards: whoever comes later finds it closed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>

#include "src/base/thread_annotations.h"

namespace byteps::session {

class CallGate {
 public:
  // A call wants in; costs one atomic addition. False: the object is gone, or about to go. True: it
  // stays until Leave. Does not block.
  bool Enter();
  void Leave();

  // Whoever wants to end the object asks first. True: the caller shall, and calls the other two.
  // False: somebody else does or did; blocks until that is over.
  bool ClaimEnd();
  // Lets nobody in from now on; blocks until everybody has left.
  void Shut();
  // The object is gone: those who wait in ClaimEnd come back.
  void SetOver();

 private:
  std::atomic<uint64_t> state_ = 0;  // how many are inside; and kShut

  Mutex mutex_;
  std::condition_variable changed_;
  bool claimed_ BYTEPS_GUARDED_BY(mutex_) = false;
  bool over_ BYTEPS_GUARDED_BY(mutex_) = false;
};

}  // namespace byteps::session
