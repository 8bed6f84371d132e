// The threads of a line. A thread may stand still inside a device's driver for as long as it likes,
// and its line must end nevertheless: the line leaves such a thread behind.
//
// Belongs to one thread, or to a mutex of its owner.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/time.h"

namespace byteps::device {

class LineThreads {
 public:
  // The end of a line waits so long for its threads, except in tests.
  static constexpr Duration kEndLimit = seconds(3);

  explicit LineThreads(Duration end_limit);
  // REQUIRES: End was called, or no thread was started.
  ~LineThreads();
  LineThreads(const LineThreads&) = delete;
  LineThreads& operator=(const LineThreads&) = delete;

  // Starts a thread. `run` owns all that it uses, and is destroyed on the thread. Throws
  // std::system_error if the system has no thread.
  void Start(std::function<void()> run);
  size_t count() const { return threads_.size(); }

  // Blocks until all threads have ended, at most for the limit; then leaves the others to
  // themselves. REQUIRES: they have been told to end.
  void End();

 private:
  struct Running;
  const Duration end_limit_;
  const std::shared_ptr<Running> running_;  // shared with the threads
  std::vector<std::thread> threads_;
};

}  // namespace byteps::device
