// InprocLoop: a queue of work and timers, run by one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/transport/inproc/inproc_transport.h"
#include "src/transport/transport.h"

namespace byteps::transport {

// Work that other threads leave for a loop. Thread-safe. The loop and all threads that post to it
// share the mailbox, so it may outlive the loop. It then drops all work.
class Mailbox {
 public:
  using Work = std::function<void()>;

  void Post(Work work);
  // Makes Take return at once from now on. Takes no memory.
  void Interrupt();
  // Blocks until there is work or `deadline` is over; replaces `*out` by all work that is there.
  void Take(std::vector<Work>* out, std::optional<Time> deadline);
  // Puts back work that was taken and not run, in front of the work that has come since.
  void PutBack(std::span<Work> works);
  // Drops all work, now and later.
  void Close();

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<Work> work_ BYTEPS_GUARDED_BY(mutex_);
  bool closed_ BYTEPS_GUARDED_BY(mutex_) = false;
  bool interrupted_ BYTEPS_GUARDED_BY(mutex_) = false;
};

class InprocRegistry;

class InprocLoop final : public Loop {
 public:
  // `registry` is shared with the Transport and its other loops.
  explicit InprocLoop(std::shared_ptr<InprocRegistry> registry);
  ~InprocLoop() override;

  void Run() override;
  void Stop() override;
  void Post(std::function<void()> work) override;
  bool InLoop() const override;
  Time Now() const override;
  BufferPool& Buffers() override { return buffers_; }
  std::unique_ptr<Timer> Every(Duration period, std::function<void()> tick) override;
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) override;
  Result<std::unique_ptr<Listener>> Listen(
      const std::string& address, std::function<void(std::unique_ptr<Connection>)> accept) override;
  void Connect(const std::string& address, Duration timeout,
               std::function<void(Result<std::unique_ptr<Connection>>)> done) override;

  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

 private:
  class TimerHandle;
  struct TimerState {
    Time when;
    Duration period;
    std::function<void()> work;
    bool alive = true;
  };

  std::unique_ptr<Timer> StartTimer(Time when, Duration period, std::function<void()> work);
  void RunDueTimers();
  void Forget(const std::shared_ptr<TimerState>& state);

  BufferPool buffers_;  // before everything that holds its buffers: posted work may
  std::shared_ptr<InprocRegistry> registry_;
  std::shared_ptr<Mailbox> mailbox_;
  std::atomic<std::thread::id> thread_;
  std::atomic<bool> stopped_ = false;
  // The user's Timer object and the call in progress share each state.
  std::multimap<Time, std::shared_ptr<TimerState>> timers_;
};

}  // namespace byteps::transport
