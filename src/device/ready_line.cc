#include "src/device/ready_line.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <string>
#include <system_error>
#include <utility>

namespace byteps::device {
namespace {

// The pause of the thread that asks, when it has asked all streams.
constexpr Duration kPause = milliseconds(1);

}  // namespace

struct ReadyLine::State {
  struct Entry {
    uint64_t owner = 0;
    std::unique_ptr<Mark> mark;
    Reached reached;  // null: called off while a thread has the mark
  };
  struct Queue {
    std::deque<Entry> entries;
    bool is_held = false;    // by a thread, which has the first mark
    bool was_asked = false;  // since the last pause, and had not reached its mark
    bool IsFree() const { return !is_held && !entries.empty(); }
  };

  explicit State(std::shared_ptr<Device> of) : device(std::move(of)) {}

  void Run();
  Queue* Take(MutexLock& lock) BYTEPS_REQUIRES(mutex);
  void Put(Queue& queue) BYTEPS_REQUIRES(mutex);
  size_t FreeQueues() const BYTEPS_REQUIRES(mutex);

  const std::shared_ptr<Device> device;  // see the constructor of ReadyLine
  Mutex mutex;
  std::condition_variable changed;
  std::map<void*, Queue> queues BYTEPS_GUARDED_BY(mutex);
  size_t idle BYTEPS_GUARDED_BY(mutex) = 0;
  size_t blocked BYTEPS_GUARDED_BY(mutex) = 0;  // threads that wait for one stream
  bool ends BYTEPS_GUARDED_BY(mutex) = false;
};

ReadyLine::ReadyLine(std::shared_ptr<Device> device, Duration end_limit)
    : state_(std::make_shared<State>(std::move(device))), threads_(end_limit) {}

ReadyLine::~ReadyLine() {
  {
    MutexLock lock(state_->mutex);
    state_->ends = true;
    state_->changed.notify_all();
  }
  MutexLock lock(threads_mutex_);
  threads_.End();
}

Status ReadyLine::Await(uint64_t owner, void* stream, std::unique_ptr<Mark> mark, Reached reached) {
  MutexLock threads_lock(threads_mutex_);
  {
    MutexLock lock(state_->mutex);
    State::Queue& queue = state_->queues[stream];
    queue.entries.push_back({owner, std::move(mark), std::move(reached)});
    state_->changed.notify_one();
    if (state_->FreeQueues() <= state_->idle || threads_.count() == kThreadsMax) {
      return Status::Ok();
    }
  }
  try {
    threads_.Start([state = state_] { state->Run(); });
  } catch (const std::system_error& failure) {
    if (threads_.count() > 0) return Status::Ok();  // the others come to it
    CallOff(owner);
    return {StatusCode::kExhausted,
            std::string("no thread that waits for a device can be started (") + failure.what() +
                "); raise the limit of threads (ulimit -u)"};
  }
  return Status::Ok();
}

bool ReadyLine::CallOff(uint64_t owner) {
  State::Entry dropped;  // destroyed outside of the lock
  MutexLock lock(state_->mutex);
  for (auto& [of_user, queue] : state_->queues) {
    auto found = std::ranges::find(queue.entries, owner, &State::Entry::owner);
    if (found == queue.entries.end() || found->reached == nullptr) continue;
    if (queue.is_held && found == queue.entries.begin()) {
      std::swap(found->reached, dropped.reached);  // the thread keeps the mark
    } else {
      std::swap(*found, dropped);
      queue.entries.erase(found);
      if (queue.entries.empty()) state_->queues.erase(of_user);
    }
    return true;
  }
  return false;
}

size_t ReadyLine::State::FreeQueues() const {
  return static_cast<size_t>(
      std::ranges::count_if(queues, [](const auto& of) { return of.second.IsFree(); }));
}

// Returns the queue that this thread holds from now on; null at the end.
ReadyLine::State::Queue* ReadyLine::State::Take(MutexLock& lock) {
  for (;;) {
    const bool may_block = blocked + 1 < kThreadsMax;
    bool must_pause = false;
    for (auto& [stream, queue] : queues) {
      if (!queue.IsFree()) continue;
      if (may_block || !queue.was_asked) {
        queue.is_held = true;
        return &queue;
      }
      must_pause = true;
    }
    if (ends) return nullptr;
    if (must_pause) {
      lock.WaitUntil(changed, std::chrono::steady_clock::now() + kPause);
      for (auto& [stream, queue] : queues) queue.was_asked = false;
    } else {
      ++idle;
      lock.Wait(changed);
      --idle;
    }
  }
}

void ReadyLine::State::Put(Queue& queue) {
  queue.is_held = false;
  if (!queue.entries.empty()) return;
  std::erase_if(queues, [&](const auto& of) { return &of.second == &queue; });
}

void ReadyLine::State::Run() {
  const Status entered = device->Enter();
  for (;;) {
    Queue* queue = nullptr;
    Mark* mark = nullptr;
    bool blocks = false;
    {
      MutexLock lock(mutex);
      queue = Take(lock);
      if (queue == nullptr) return;
      mark = queue->entries.front().mark.get();
      blocks = blocked + 1 < kThreadsMax;
      if (blocks) ++blocked;
    }
    Result<bool> reached = true;
    if (!entered.ok()) {
      reached = entered;
    } else if (blocks) {
      Status waited = mark->Wait();
      if (!waited.ok()) reached = waited;
    } else {
      reached = mark->IsReached();
    }
    Entry entry;  // destroyed outside of the lock
    {
      MutexLock lock(mutex);
      if (blocks) --blocked;
      Entry& first = queue->entries.front();
      if (reached.ok() && !reached.value() && first.reached != nullptr) {
        queue->was_asked = true;
        queue->is_held = false;
        continue;
      }
      entry = std::move(first);
      queue->entries.pop_front();
    }
    if (entry.reached != nullptr) entry.reached(reached.status());
    MutexLock lock(mutex);
    Put(*queue);
  }
}

}  // namespace byteps::device
