// The loop of a rank's thread: it sleeps on the rank's word in the window, so whoever does
// something that concerns the rank wakes it there, in any process. It has no connections.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/local/window.h"
#include "src/transport/transport.h"

namespace byteps::machine {

class WordLoop final : public transport::Loop {
 public:
  // `step` is called after each event, on the loop's thread, until it says that there is nothing
  // to do before the next one.
  WordLoop(local::Window& window, std::function<bool()> step);
  ~WordLoop() override;

  void Run() override;
  void Stop() override;
  void Post(std::function<void()> work) override;
  bool InLoop() const override;
  Time Now() const override;
  std::unique_ptr<Timer> Every(Duration period, std::function<void()> tick) override;
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) override;
  // kUnavailable.
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
  void Wake() { window_.Notify(local::RankSet{1} << window_.rank()); }

  local::Window& window_;
  const std::function<bool()> step_;
  Dues dues_;  // of the loop's thread; a timer that is gone leaves its place empty
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> thread_{0};

  Mutex mutex_;
  std::vector<std::function<void()>> posted_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::machine
