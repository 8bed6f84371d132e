// The loop of a rank's thread. It sleeps on the rank's word in the window, so any process that does
// something for the rank can wake it there. It has no connections.
//
// While the thread sleeps, a thread that has posted something may run it itself (Offer), and a
// thread that waits for something may do all of the loop's work (Help), because a wake-up costs
// more than many operations have to do. One thread at a time does the loop's work; the work does
// not depend on which thread that is.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/local/window.h"
#include "src/transport/transport.h"

namespace byteps::machine {

class WordLoop final : public transport::Loop {
 public:
  struct Steps {
    // Called after each event, on the loop's thread, until it returns false: nothing can be done
    // before the next event. After each call the loop wakes the ranks that have had events by it.
    std::function<bool()> step;
    // Called in place of `step` after the work of an Offer. Does short work only. True: `step` must
    // follow. Null: `step` always follows.
    std::function<bool()> short_step;
  };
  WordLoop(local::Window& window, Steps steps);
  ~WordLoop() override;

  void Run() override;
  void Stop() override;
  void Post(std::function<void()> work) override;
  // Calls `post`, which posts something. If the loop's own thread sleeps, runs all posted work on
  // the calling thread; else wakes the loop. May be called from any thread, but not from inside the
  // loop's work.
  void Offer(const std::function<void()>& post);
  // Does the loop's work on the calling thread, and sleeps on the rank's word in place of the
  // loop's own thread, until `over` returns true, or until the deadline. Returns early if another
  // thread does the work just now, or after EndHelp. May be called from any thread, but not from
  // inside the loop's work; `over` must not block.
  void Help(const std::function<bool()>& over, Time deadline);
  // Makes a thread that helps return, and lets no other thread help any more. Does not block.
  void EndHelp();
  bool InLoop() const override;
  // Returns whether another thread than the thread of Run does the loop's work just now. REQUIRES:
  // InLoop.
  bool IsLent() const { return is_lent_; }
  Time Now() const override;
  BufferPool& Buffers() override { return buffers_; }
  std::unique_ptr<Timer> Every(Duration period, std::function<void()> tick) override;
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) override;
  // Fail with kUnavailable.
  Result<std::unique_ptr<transport::Listener>> Listen(
      const std::string& address,
      std::function<void(std::unique_ptr<transport::Connection>)> accept) override;
  void Connect(const std::string& address, Duration timeout,
               std::function<void(Result<std::unique_ptr<transport::Connection>>)> done) override;

 private:
  struct Due {
    std::function<void()> work;
    Duration period{};  // zero: once
  };
  using Dues = std::multimap<Time, std::shared_ptr<Due>>;
  class DueTimer;

  std::unique_ptr<Timer> Add(Duration delay, Due due);
  bool RunPosted();
  bool RunDue();
  bool RunOnce();
  Time FirstDue() const;
  bool HasPosted();
  void RunOffered();
  // One turn of the loop on the thread of a helper.
  struct Helped {
    bool may_go_on = false;  // else another thread does the work, or the loop does not run
    bool did = true;
    Time due{};                 // when there is more to do
    bool is_due_early = false;  // before the loop's own thread wakes by itself
  };
  Helped HelpOnce();
  void Wake() { window_.Notify(local::Bit(window_.rank())); }

  local::Window& window_;
  const Steps steps_;
  BufferPool buffers_;  // of the owner
  // Held by the thread that does the loop's work (the owner). Not annotated: the work on that
  // thread needs no lock of its own.
  std::mutex owner_;
  Dues dues_;                  // of the owner; a destroyed timer leaves an empty entry
  Time sleeps_until_{};        // of the owner: when the loop's thread wakes by itself
  bool is_lent_ = false;       // of the owner
  bool runs_ = false;          // of the owner: Run has begun and not ended
  std::exception_ptr thrown_;  // of the owner: by offered work; Run throws it again
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> thread_{0};     // the owner's
  std::atomic<bool> is_helped_{false};  // a thread is in Help
  std::atomic<bool> help_is_over_{false};
  std::atomic<uint32_t> offers_{0};  // threads in Offer: each will run its work, or wake the loop

  Mutex mutex_;
  std::vector<std::function<void()>> posted_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::machine
