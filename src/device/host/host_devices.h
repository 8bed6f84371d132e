// Devices whose memory is the process' own, for tests: nothing happens later than the test says.
//
// A stream does what it is given at once, until the test holds it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/device/device.h"

namespace byteps::device::host {

// A user's stream. Thread-safe.
class HostStream {
 public:
  // Does the work now, or, if the stream is held, when it is let go.
  void Give(std::function<void()> work);
  void Hold();
  void LetGo();
  // Blocks while the stream is held.
  void Drain();
  // Returns how much work waits until the stream is let go; each Drain counts as work.
  size_t waiting();
  // Begins or ends a capture, in which marks are refused.
  void Capture(bool on) { is_captured_ = on; }
  bool is_captured() const { return is_captured_; }

 private:
  Mutex mutex_;
  bool is_held_ BYTEPS_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> work_ BYTEPS_GUARDED_BY(mutex_);
  std::atomic<bool> is_captured_ = false;
};

// Has the work that other code gives to a copy stream, whose handle this is. Belongs to the thread
// of the stream.
class HostWork {
 public:
  // Adds work to the batch that is open: `wait` blocks until it has ended.
  void Give(std::function<void()> wait) { open_.push_back(std::move(wait)); }
  void Close(int batch) { closed_[batch].swap(open_); }
  void Wait(int batch) { End(closed_[batch]); }
  void Drain() {
    for (std::vector<std::function<void()>>& batch : closed_) End(batch);
    End(open_);
  }

 private:
  static void End(std::vector<std::function<void()>>& batch) {
    for (const std::function<void()>& wait : batch) wait();
    batch.clear();
  }
  std::vector<std::function<void()>> open_;
  std::vector<std::function<void()>> closed_[CopyStream::kBatches];
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(int number);
  ~HostDevice() override;

  // Return and take back the device's memory.
  std::byte* NewMemory(size_t bytes);
  void FreeMemory(std::byte* memory);
  // Makes the next copy fail, or waiting for it, or closing its batch.
  enum class Step : uint8_t { kCopy, kClose, kWait, kStream };
  void FailOnce(Step step) { fails_[static_cast<size_t>(step)] = true; }
  // Makes it throw std::bad_alloc, as without memory for the text of an error. kStream: the making
  // of a stream.
  void ThrowOnce(Step step) { throws_[static_cast<size_t>(step)] = true; }
  // Lets copies wait until they are let go, or pinned memory.
  HostStream& copies_wait() { return copies_wait_; }
  HostStream& pinned_waits() { return pinned_waits_; }
  // Returns how many copies there were, and the bytes of pinned memory that are taken.
  uint64_t copies() const { return copies_; }
  size_t pinned_bytes() const { return pinned_bytes_; }
  // Makes TakePinned fail from now on.
  void RefusePinned() { refuses_pinned_ = true; }

  const DeviceFacts& facts() const override { return facts_; }
  Result<std::unique_ptr<Mark>> MarkOf(void* stream) override;
  Status CheckMemory(const void* memory) override;
  Status Enter() override { return Status::Ok(); }
  Result<std::unique_ptr<CopyStream>> NewCopyStream() override;
  Result<std::byte*> TakePinned(size_t bytes) override;
  void GivePinned(std::byte* memory) override;
  Status Pin(std::byte* memory, size_t bytes) override;
  void Unpin(std::byte* memory) override;

  // For the stream: counts a copy, and says whether a step fails.
  void CountCopy() { ++copies_; }
  Status StatusOf(Step step);

 private:
  using Blocks = std::map<const std::byte*, std::vector<std::byte>>;
  // Nobody writes the bytes before their user: a slab is large.
  struct Pinned {
    std::unique_ptr<std::byte[]> all;
    size_t bytes;
  };

  const DeviceFacts facts_;
  std::atomic<bool> fails_[4] = {};
  std::atomic<bool> throws_[4] = {};
  HostStream copies_wait_;
  HostStream pinned_waits_;
  std::atomic<uint64_t> copies_ = 0;
  std::atomic<size_t> pinned_bytes_ = 0;
  std::atomic<bool> refuses_pinned_ = false;
  Mutex mutex_;
  Blocks memory_ BYTEPS_GUARDED_BY(mutex_);
  std::map<const std::byte*, Pinned> pinned_ BYTEPS_GUARDED_BY(mutex_);  // by aligned address
  std::multimap<const std::byte*, size_t> registered_ BYTEPS_GUARDED_BY(mutex_);  // by Pin
};

class HostDevices final : public Devices {
 public:
  explicit HostDevices(int count);
  int count() const override { return static_cast<int>(devices_.size()); }
  const std::string& version() const override { return version_; }
  Result<DeviceFacts> FactsOf(int number) const override;
  Result<Device*> Open(int number) override;
  HostDevice& device(int number) { return *devices_[static_cast<size_t>(number)]; }

 private:
  const std::string version_ = "none";
  std::vector<std::unique_ptr<HostDevice>> devices_;
};

}  // namespace byteps::device::host
