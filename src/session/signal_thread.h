// Turns SIGTERM and SIGINT into calls, for programs whose work ends in order when these signals
// come.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

namespace byteps::session {

class SignalThread {
 public:
  // Calls `on_signal` with each SIGTERM and SIGINT, on a thread of its own, as long as this object
  // lives. Blocks the signals in the calling thread, and so in threads that it starts. REQUIRES:
  // all other threads block them, because otherwise one of these may take them.
  explicit SignalThread(std::function<void(int)> on_signal);
  // Ends the calls, and restores the signal mask of the calling thread.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void Run();

  const std::function<void(int)> on_signal_;
  sigset_t set_{};
  sigset_t before_{};
  std::atomic<bool> ending_ = false;  // set by the destructor, read by the thread
  std::thread thread_;
};

}  // namespace byteps::session
