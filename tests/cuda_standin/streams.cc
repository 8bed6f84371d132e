#include "tests/cuda_standin/streams.h"

namespace byteps::standin {

StreamThread::StreamThread(std::function<void()> before_each)
    : before_each_(std::move(before_each)), thread_([this] { Run(); }) {}

StreamThread::~StreamThread() = default;

void StreamThread::Give(std::vector<Point> first, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  items_.push_back({std::move(first), std::move(work)});
  ++given_;
  changed_.notify_all();
}

uint64_t StreamThread::given() {
  std::lock_guard lock(mutex_);
  return given_;
}

void StreamThread::WaitFor(uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= count; });
}

void StreamThread::End() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void StreamThread::Run() {
  for (;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ends_ || !items_.empty(); });
      if (items_.empty()) return;
      item = std::move(items_.front());
      items_.pop_front();
    }
    for (const Point& point : item.first) point.stream->WaitFor(point.count);
    before_each_();
    item.work();
    item = Item();
    std::lock_guard lock(mutex_);
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace byteps::standin
