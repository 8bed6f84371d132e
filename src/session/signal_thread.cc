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

// The thread is woken by one of the signals that it waits for, sent to it alone: any other signal
// could come from outside, too, and would then have to mean something.
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
