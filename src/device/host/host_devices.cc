#include "src/device/host/host_devices.h"

#include <condition_variable>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace byteps::device::host {
namespace {

constexpr size_t kAlignment = 64;

// A mark and the stream that reaches it share a point; the last of the two destroys it.
struct Point {
  Mutex mutex;
  std::condition_variable changed;
  bool reached BYTEPS_GUARDED_BY(mutex) = false;
};

class HostMark final : public Mark {
 public:
  explicit HostMark(std::shared_ptr<Point> point) : point_(std::move(point)) {}
  Status Wait() override {
    MutexLock lock(point_->mutex);
    while (!point_->reached) lock.Wait(point_->changed);
    return Status::Ok();
  }
  Result<bool> IsReached() override {
    MutexLock lock(point_->mutex);
    return bool{point_->reached};
  }

 private:
  const std::shared_ptr<Point> point_;  // shared with the stream
};

class HostCopyStream final : public CopyStream {
 public:
  explicit HostCopyStream(HostDevice& device) : device_(device) {}
  Status Copy(std::byte* to, const std::byte* from, size_t bytes) override {
    Status status = device_.StatusOf(HostDevice::Step::kCopy);
    if (!status.ok()) return status;
    std::memcpy(to, from, bytes);
    device_.CountCopy();
    return status;
  }
  Status Close(int batch) override {
    Status closed = device_.StatusOf(HostDevice::Step::kClose);
    if (closed.ok()) work_.Close(batch);
    return closed;
  }
  Status Wait(int batch) override {
    device_.copies_wait().Drain();
    work_.Wait(batch);
    return device_.StatusOf(HostDevice::Step::kWait);
  }
  void Drain() override { work_.Drain(); }
  void* handle() override { return &work_; }

 private:
  HostDevice& device_;
  HostWork work_;
};

}  // namespace

void HostStream::Give(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    if (is_held_) {
      work_.push_back(std::move(work));
      return;
    }
  }
  work();
}

void HostStream::Hold() {
  MutexLock lock(mutex_);
  is_held_ = true;
}

void HostStream::LetGo() {
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(mutex_);
      if (work_.empty()) {
        is_held_ = false;
        return;
      }
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

void HostStream::Drain() {
  Point point;
  Give([&point] {
    MutexLock lock(point.mutex);
    point.reached = true;
    point.changed.notify_all();
  });
  MutexLock lock(point.mutex);
  while (!point.reached) lock.Wait(point.changed);
}

size_t HostStream::waiting() {
  MutexLock lock(mutex_);
  return work_.size();
}

HostDevice::HostDevice(int number)
    : facts_{.name = "host memory", .uuid = "host:" + std::to_string(number), .address = ""} {}

HostDevice::~HostDevice() = default;

std::byte* HostDevice::NewMemory(size_t bytes) {
  std::vector<std::byte> block(bytes);
  std::byte* const memory = block.data();
  MutexLock lock(mutex_);
  memory_.emplace(memory, std::move(block));
  return memory;
}

void HostDevice::FreeMemory(std::byte* memory) {
  MutexLock lock(mutex_);
  memory_.erase(memory);
}

Result<std::unique_ptr<Mark>> HostDevice::MarkOf(void* stream) {
  auto point = std::make_shared<Point>();
  auto* const of_user = static_cast<HostStream*>(stream);
  if (of_user != nullptr && of_user->is_captured()) {
    return Status(StatusCode::kInvalidArgument, "the stream is being captured");
  }
  auto reach = [point] {
    MutexLock lock(point->mutex);
    point->reached = true;
    point->changed.notify_all();
  };
  if (of_user == nullptr) {
    reach();
  } else {
    of_user->Give(reach);
  }
  return std::unique_ptr<Mark>(std::make_unique<HostMark>(point));
}

Status HostDevice::CheckMemory(const void* memory) {
  const auto* const byte = static_cast<const std::byte*>(memory);
  MutexLock lock(mutex_);
  auto behind = memory_.upper_bound(byte);
  const bool is_ours = behind != memory_.begin() &&
                       byte < std::prev(behind)->first + std::prev(behind)->second.size();
  if (is_ours) return Status::Ok();
  return {StatusCode::kInvalidArgument, "the memory is no memory of this device"};
}

Status HostDevice::StatusOf(Step step) {
  if (throws_[static_cast<size_t>(step)].exchange(false)) throw std::bad_alloc();
  if (!fails_[static_cast<size_t>(step)].exchange(false)) return Status::Ok();
  return {StatusCode::kUnavailable, "a copy of host memory: the test wants an error"};
}

Result<std::unique_ptr<CopyStream>> HostDevice::NewCopyStream() {
  Status may = StatusOf(Step::kStream);
  if (!may.ok()) return may;
  return std::unique_ptr<CopyStream>(std::make_unique<HostCopyStream>(*this));
}

Result<std::byte*> HostDevice::TakePinned(size_t bytes) {
  pinned_waits_.Drain();
  if (refuses_pinned_) return Status(StatusCode::kExhausted, "the test wants no pinned memory");
  size_t room = bytes + kAlignment;
  auto all = std::make_unique_for_overwrite<std::byte[]>(room);
  void* place = all.get();
  auto* const memory = static_cast<std::byte*>(std::align(kAlignment, bytes, place, room));
  MutexLock lock(mutex_);
  pinned_.emplace(memory, Pinned{std::move(all), bytes});
  pinned_bytes_ += bytes;
  return memory;
}

void HostDevice::GivePinned(std::byte* memory) {
  MutexLock lock(mutex_);
  auto found = pinned_.find(memory);
  pinned_bytes_ -= found->second.bytes;
  pinned_.erase(found);
}

Status HostDevice::Pin(std::byte* memory, size_t bytes) {
  pinned_waits_.Drain();
  if (refuses_pinned_) return {StatusCode::kExhausted, "the test wants no pinned memory"};
  MutexLock lock(mutex_);
  registered_.emplace(memory, bytes);
  pinned_bytes_ += bytes;
  return Status::Ok();
}

void HostDevice::Unpin(std::byte* memory) {
  MutexLock lock(mutex_);
  auto found = registered_.find(memory);
  pinned_bytes_ -= found->second;
  registered_.erase(found);
}

HostDevices::HostDevices(int count) {
  for (int number = 0; number < count; ++number) {
    devices_.push_back(std::make_unique<HostDevice>(number));
  }
}

Result<DeviceFacts> HostDevices::FactsOf(int number) const {
  if (number < 0 || number >= count()) {
    return Status(StatusCode::kInvalidArgument, "there is no device " + std::to_string(number));
  }
  return devices_[static_cast<size_t>(number)]->facts();
}

Result<Device*> HostDevices::Open(int number) {
  Result<DeviceFacts> facts = FactsOf(number);
  if (!facts.ok()) return facts.status();
  return static_cast<Device*>(devices_[static_cast<size_t>(number)].get());
}

}  // namespace byteps::device::host
