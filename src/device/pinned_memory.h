// Pinned memory of the host, for copies from and to one device: blocks that are used again, last-in
// first-out, up to a limit.
//
// If the device gives no more, or the limit is reached, a block is ordinary memory. Copies of it
// are slower, but nobody ever waits for pinned memory: ranks that waited could wait for each other.
//
// Thread-safe. Take may wait for the device's driver; the end of a block never does.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/device/device.h"

namespace byteps::device {

class PinnedMemory {
 public:
  // A block of memory. Gives it back at its end, which must come before the end of PinnedMemory.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          bytes_(std::exchange(other.bytes_, nullptr)),
          size_(other.size_) {}
    Block& operator=(Block other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(bytes_, other.bytes_);
      std::swap(size_, other.size_);
      return *this;
    }
    ~Block() {
      if (bytes_ != nullptr) PinnedMemory::Give(owner_, bytes_, size_);
    }
    std::byte* data() const { return bytes_; }
    bool is_pinned() const { return owner_ != nullptr; }

   private:
    friend class PinnedMemory;
    Block(PinnedMemory* owner, std::byte* bytes, size_t size)
        : owner_(owner), bytes_(bytes), size_(size) {}
    PinnedMemory* owner_ = nullptr;  // null: ordinary memory
    std::byte* bytes_ = nullptr;
    size_t size_ = 0;
  };

  // `bytes_max`: the limit of pinned memory. `warn` hears once, in a sentence, that there was none.
  PinnedMemory(Device& device, size_t bytes_max, std::function<void(const std::string&)> warn)
      : device_(device), bytes_max_(bytes_max), warn_(std::move(warn)) {}
  // REQUIRES: all blocks are given back.
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Returns a block of at least `bytes`, aligned to 64 bytes, contents unspecified; none for zero.
  // Throws std::bad_alloc if the host has no memory either.
  Block Take(size_t bytes);

  // Returns the bytes of pinned memory that this object has.
  size_t bytes_held();

 private:
  static void Give(PinnedMemory* owner, std::byte* bytes, size_t size);
  std::byte* TakeUnused(size_t size) BYTEPS_REQUIRES(mutex_);
  // Takes unused blocks of other sizes out, until `size` more bytes are within the limit.
  std::vector<std::byte*> MakeRoom(size_t size) BYTEPS_REQUIRES(mutex_);

  Device& device_;
  const size_t bytes_max_;
  const std::function<void(const std::string&)> warn_;
  Mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> unused_ BYTEPS_GUARDED_BY(mutex_);  // by size
  size_t held_ BYTEPS_GUARDED_BY(mutex_) = 0;
  bool has_warned_ BYTEPS_GUARDED_BY(mutex_) = false;
};

}  // namespace byteps::device
