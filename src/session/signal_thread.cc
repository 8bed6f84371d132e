#include "src/session/signal_thread.h"

#include <utility>

namespace byteps::session {

SignalThread::SignalThread(std::function<void(int)> on_signal) : on_signal_(std::move(on_signal)) {
  sigemptyset(&set_);
  sigaddset(&set_, SIGTERM);
  sigaddset(&set_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set_, &before_);
  thread_ = std::thread([this] { Run(); });
}

// Wakes the thread by one of the signals for which it waits, sent to it alone. Any other signal
// could come from outside, too, and would then need a meaning.
SignalThread::~SignalThread() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalThread::Run() {
  int number = 0;
  while (sigwait(&set_, &number) == 0 && !ending_) on_signal_(number);
}

}  // namespace byteps::session
