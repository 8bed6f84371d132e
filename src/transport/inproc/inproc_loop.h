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

// Work that other threads leave for a loop. Thread-safe. Shared by the loop and all who post to it:
// it may outlive the loop, and then drops what it gets.
class Mailbox {
 public:
  using Work = std::function<void()>;

  void Post(Work work);
  // Take returns at once from now on; takes no memory.
  void Interrupt();
  // Blocks until there is work or `deadline` is over; replaces `*out` by all there is.
  void Take(std::vector<Work>* out, std::optional<Time> deadline);
  // Returns what was taken and not run, in front of what has come since.
  void PutBack(std::span<Work> works);
  // Drops what is there and all that comes.
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
  // Shared with the Transport and its other loops.
  explicit InprocLoop(std::shared_ptr<InprocRegistry> registry);
  ~InprocLoop() override;

  void Run() override;
  void Stop() override;
  void Post(std::function<void()> work) override;
  bool InLoop() const override;
  Time Now() const override;
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

  std::shared_ptr<InprocRegistry> registry_;
  std::shared_ptr<Mailbox> mailbox_;
  std::atomic<std::thread::id> thread_;
  std::atomic<bool> stopped_ = false;
  // Shared by the user's Timer object and the call in progress.
  std::multimap<Time, std::shared_ptr<TimerState>> timers_;
};

}  // namespace byteps::transport
