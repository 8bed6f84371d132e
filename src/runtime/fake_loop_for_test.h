// A loop for tests: runs its posted work when the test says so, and its clock stands still.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "src/transport/transport.h"

namespace byteps::runtime {

class FakeLoop final : public transport::Loop {
 public:
  void Run() override { RunPosted(); }
  void Stop() override { ++stops; }
  void Post(std::function<void()> work) override {
    if (has_no_memory) throw std::bad_alloc();
    if (runs_at_once) return work();
    posted.push_back(std::move(work));
  }
  bool InLoop() const override { return is_in_loop; }
  Time Now() const override { return now; }
  BufferPool& Buffers() override { return buffers; }
  std::unique_ptr<Timer> Every(Duration, std::function<void()> work) override {
    tick = std::move(work);
    return std::make_unique<Timer>();
  }
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) override {
    delays.push_back(delay);
    ring = std::move(work);
    return std::make_unique<Timer>();
  }
  Result<std::unique_ptr<transport::Listener>> Listen(
      const std::string&, std::function<void(std::unique_ptr<transport::Connection>)>) override {
    return Status(StatusCode::kUnavailable, "none");
  }
  void Connect(const std::string& address, Duration,
               std::function<void(Result<std::unique_ptr<transport::Connection>>)>) override {
    connects.push_back(address);
  }

  void RunPosted() {
    while (!posted.empty()) {
      std::function<void()> work = std::move(posted.front());
      posted.pop_front();
      work();
    }
  }

  BufferPool buffers;  // before everything that holds its buffers
  Time now{};
  std::deque<std::function<void()>> posted;
  std::vector<Duration> delays;
  std::function<void()> ring;  // of the last After
  std::function<void()> tick;  // of the last Every
  std::vector<std::string> connects;
  int stops = 0;
  bool has_no_memory = false;
  bool is_in_loop = true;     // whether the test stands for the thread of the loop
  bool runs_at_once = false;  // as if the loop had another thread
};

}  // namespace byteps::runtime
