#include "src/transport/inproc/inproc_loop.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <span>
#include <utility>

#include "src/transport/inproc/inproc_registry.h"

namespace byteps::transport {
namespace {

class InprocTransport final : public Transport {
 public:
  std::unique_ptr<Loop> MakeLoop() override { return std::make_unique<InprocLoop>(registry_); }

 private:
  std::shared_ptr<InprocRegistry> registry_ = std::make_shared<InprocRegistry>();
};

}  // namespace

std::unique_ptr<Transport> MakeInprocTransport() { return std::make_unique<InprocTransport>(); }

void Mailbox::Post(Work work) {
  MutexLock lock(mutex_);
  if (closed_) return;
  work_.push_back(std::move(work));
  changed_.notify_one();
}

void Mailbox::Interrupt() {
  MutexLock lock(mutex_);
  interrupted_ = true;
  changed_.notify_one();
}

void Mailbox::Take(std::vector<Work>* out, std::optional<Time> deadline) {
  out->clear();
  MutexLock lock(mutex_);
  while (work_.empty() && !interrupted_) {
    if (!deadline) {
      lock.Wait(changed_);
    } else if (!lock.WaitUntil(changed_, *deadline)) {
      break;
    }
  }
  out->swap(work_);
}

void Mailbox::PutBack(std::span<Work> works) {
  MutexLock lock(mutex_);
  work_.insert(work_.begin(), std::make_move_iterator(works.begin()),
               std::make_move_iterator(works.end()));
}

void Mailbox::Close() {
  std::vector<Work> dropped;  // destroyed after the lock is free, because work may post again
  MutexLock lock(mutex_);
  closed_ = true;
  dropped.swap(work_);
}

class InprocLoop::TimerHandle final : public Loop::Timer {
 public:
  TimerHandle(InprocLoop& loop, std::shared_ptr<TimerState> state)
      : loop_(loop), state_(std::move(state)) {}
  ~TimerHandle() override { loop_.Forget(state_); }

 private:
  InprocLoop& loop_;
  std::shared_ptr<TimerState> state_;
};

InprocLoop::InprocLoop(std::shared_ptr<InprocRegistry> registry)
    : registry_(std::move(registry)), mailbox_(std::make_shared<Mailbox>()) {}

InprocLoop::~InprocLoop() { mailbox_->Close(); }

void InprocLoop::Run() {
  thread_.store(std::this_thread::get_id());
  stopped_ = false;
  std::vector<Mailbox::Work> batch;
  while (!stopped_) {
    std::optional<Time> deadline;
    if (!timers_.empty()) deadline = timers_.begin()->first;
    mailbox_->Take(&batch, deadline);
    size_t done = 0;
    while (done < batch.size() && !stopped_) {
      batch[done]();
      batch[done++] = nullptr;  // frees its objects now, not at the end of the batch
    }
    if (stopped_) {  // work that was posted after Stop waits for the next Run
      mailbox_->PutBack(std::span(batch).subspan(done));
    } else {
      RunDueTimers();
    }
  }
  thread_.store(std::thread::id());
}

void InprocLoop::Stop() {
  try {
    mailbox_->Post([this] { stopped_ = true; });
  } catch (const std::bad_alloc&) {
    stopped_ = true;
    mailbox_->Interrupt();
  }
}

void InprocLoop::Post(std::function<void()> work) { mailbox_->Post(std::move(work)); }

bool InprocLoop::InLoop() const { return thread_.load() == std::this_thread::get_id(); }

Time InprocLoop::Now() const { return std::chrono::steady_clock::now(); }

std::unique_ptr<Loop::Timer> InprocLoop::Every(Duration period, std::function<void()> tick) {
  Duration least = std::max<Duration>(period, microseconds(1));
  return StartTimer(Now() + least, least, std::move(tick));
}

std::unique_ptr<Loop::Timer> InprocLoop::After(Duration delay, std::function<void()> work) {
  return StartTimer(Now() + delay, Duration::zero(), std::move(work));
}

std::unique_ptr<Loop::Timer> InprocLoop::StartTimer(Time when, Duration period,
                                                    std::function<void()> work) {
  auto state = std::make_shared<TimerState>(TimerState{when, period, std::move(work)});
  timers_.emplace(when, state);
  return std::make_unique<TimerHandle>(*this, std::move(state));
}

void InprocLoop::RunDueTimers() {
  Time now = Now();
  std::vector<std::shared_ptr<TimerState>> due;
  auto end = timers_.upper_bound(now);
  for (auto it = timers_.begin(); it != end; ++it) due.push_back(it->second);
  timers_.erase(timers_.begin(), end);
  for (const auto& state : due) {
    if (!state->alive) continue;
    state->work();
    if (!state->alive || state->period == Duration::zero()) continue;
    state->when = std::max(state->when + state->period, now);
    timers_.emplace(state->when, state);
  }
}

void InprocLoop::Forget(const std::shared_ptr<TimerState>& state) {
  state->alive = false;
  auto [begin, end] = timers_.equal_range(state->when);
  auto it = std::find_if(begin, end, [&](const auto& entry) { return entry.second == state; });
  if (it != end) timers_.erase(it);
}

Result<std::unique_ptr<Listener>> InprocLoop::Listen(
    const std::string& address, std::function<void(std::unique_ptr<Connection>)> accept) {
  return registry_->Listen(*this, address, std::move(accept));
}

void InprocLoop::Connect(const std::string& address, Duration /*timeout*/,
                         std::function<void(Result<std::unique_ptr<Connection>>)> done) {
  // A listener in the same process exists or does not, so the loop need not wait for it.
  Post([this, address, done = std::move(done)] { done(registry_->Connect(*this, address)); });
}

}  // namespace byteps::transport
