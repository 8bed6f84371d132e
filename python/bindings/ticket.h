#pragma once

#include <atomic>

#include "byteps/byteps.h"

namespace byteps::python {

// The result of starting an operation. Python has the ticket before the start, and the start itself
// fills it in. So an exception of a signal handler, which Python raises between two steps of its
// own, cannot lose the handle. Any thread.
class Ticket {
 public:
  // 0: the operation has not started.
  byteps_handle handle() const { return handle_.load(); }

  // Returns whether a thread of this module still needs the operation, to start it or to wait for
  // it.
  bool is_held() const { return is_held_.load(); }

  void Hold() { is_held_.store(true); }
  void LetGo() { is_held_.store(false); }
  void Start(byteps_handle handle) { handle_.store(handle); }

 private:
  std::atomic<byteps_handle> handle_{0};
  std::atomic<bool> is_held_{false};
};

}  // namespace byteps::python
