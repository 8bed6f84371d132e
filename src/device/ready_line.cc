#include "src/device/ready_line.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

namespace byteps::device {

ReadyLine::~ReadyLine() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

Status ReadyLine::Await(uint64_t owner, void* stream, std::unique_ptr<Mark> mark, Reached reached) {
  MutexLock lock(mutex_);
  Queue& queue = queues_[stream];
  queue.entries.push_back({owner, std::move(mark), std::move(reached)});
  changed_.notify_one();
  if (FreeQueues() <= idle_ || threads_.size() == kThreadsMax) return Status::Ok();
  try {
    threads_.emplace_back([this] { Run(); });
  } catch (const std::system_error& failure) {
    if (!threads_.empty()) return Status::Ok();  // the others come to it
    queue.entries.pop_back();
    return {StatusCode::kExhausted,
            std::string("no thread that waits for a device can be started (") + failure.what() +
                "); raise the limit of threads (ulimit -u)"};
  }
  return Status::Ok();
}

bool ReadyLine::CallOff(uint64_t owner) {
  Entry dropped;  // destroyed outside of the lock
  MutexLock lock(mutex_);
  for (auto& [of_user, queue] : queues_) {
    auto found = std::ranges::find(queue.entries, owner, &Entry::owner);
    if (found == queue.entries.end() || found->reached == nullptr) continue;
    if (queue.is_held && found == queue.entries.begin()) {
      std::swap(found->reached, dropped.reached);  // the thread keeps the mark
    } else {
      std::swap(*found, dropped);
      queue.entries.erase(found);
      if (queue.entries.empty()) queues_.erase(of_user);
    }
    return true;
  }
  return false;
}

size_t ReadyLine::FreeQueues() const {
  return static_cast<size_t>(std::ranges::count_if(
      queues_, [](const auto& of) { return !of.second.is_held && !of.second.entries.empty(); }));
}

ReadyLine::Queue* ReadyLine::FreeQueue() {
  for (auto& [stream, queue] : queues_) {
    if (!queue.is_held && !queue.entries.empty()) return &queue;
  }
  return nullptr;
}

void ReadyLine::Run() {
  const Status entered = device_.Enter();
  for (;;) {
    Queue* queue = nullptr;
    Mark* mark = nullptr;
    {
      MutexLock lock(mutex_);
      ++idle_;
      while ((queue = FreeQueue()) == nullptr && !ends_) lock.Wait(changed_);
      --idle_;
      if (queue == nullptr) return;
      queue->is_held = true;
      mark = queue->entries.front().mark.get();
    }
    const Status status = entered.ok() ? mark->Wait() : entered;
    Entry entry;
    {
      MutexLock lock(mutex_);
      entry = std::move(queue->entries.front());
      queue->entries.pop_front();
    }
    if (entry.reached != nullptr) entry.reached(status);
    MutexLock lock(mutex_);
    queue->is_held = false;
    if (queue->entries.empty()) {
      std::erase_if(queues_, [&](const auto& of) { return &of.second == queue; });
    }
  }
}

}  // namespace byteps::device
