// SIGTERM and SIGINT as calls: for programs whose work ends in order when they come.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

namespace byteps::session {

class SignalThread {
 public:
  // For as long as it lives, `on_signal` is called with each SIGTERM and SIGINT that comes, on a
  // thread of its own. Blocks them in the calling thread, and so in those that it starts. REQUIRES:
  // they are blocked in all others, or one of them may take them.
  explicit SignalThread(std::function<void(int)> on_signal);
  // Nothing is called any more; the signals are blocked as they were before.
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
