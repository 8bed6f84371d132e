// Pinned memory of the host, for copies from and to one device: blocks that are used again, last-in
// first-out, up to a limit.
//
// The driver may wait for all of the device's work before it gives pinned memory or takes it back,
// and this work may wait for another rank. So only a thread of this class calls the driver for it.
// If the device gives no more, or the limit is reached, a block is ordinary memory. Copies of it
// are slower, but nobody waits for pinned memory without a limit: ranks that waited could wait for
// each other.
//
// It also pins memory that the process has from elsewhere.
//
// Thread-safe. No function waits for the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "src/base/time.h"
#include "src/base/types.h"
#include "src/device/device.h"
#include "src/device/line_threads.h"

namespace byteps::device {

class PinnedMemory {
 private:
  struct State;

 public:
  // A block of memory. Gives it back at its end, which must come before the end of PinnedMemory.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          bytes_(std::exchange(other.bytes_, nullptr)),
          size_class_(other.size_class_) {}
    Block& operator=(Block other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(bytes_, other.bytes_);
      std::swap(size_class_, other.size_class_);
      return *this;
    }
    ~Block() {
      if (bytes_ != nullptr) PinnedMemory::Give(owner_, bytes_, size_class_);
    }
    std::byte* data() const { return bytes_; }
    bool is_pinned() const { return owner_ != nullptr; }

   private:
    friend class PinnedMemory;
    Block(State* owner, std::byte* bytes, uint32_t size_class)
        : owner_(owner), bytes_(bytes), size_class_(size_class) {}
    State* owner_ = nullptr;  // null: ordinary memory
    std::byte* bytes_ = nullptr;
    uint32_t size_class_ = 0;
  };
  using Made = std::function<void(Block)>;

  // Starts the thread; throws std::system_error if the system has none. `bytes_max`: the limit of
  // pinned memory. `warn` hears once, in a sentence, that there was none. The pointer is shared,
  // because a thread that stands still in the driver outlives this object.
  PinnedMemory(std::shared_ptr<Device> device, size_t bytes_max,
               std::function<void(const std::string&)> warn,
               Duration end_limit = LineThreads::kEndLimit);
  // Blocks at most for the limit. REQUIRES: all blocks are given back, and each owner
  // has been told or has called off.
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Returns a block of at least `bytes` that nobody uses, aligned to 64 bytes, contents
  // unspecified; none for zero, and none if there is no such block: see Make.
  Block TakeUnused(size_t bytes);

  // Asks the driver for a block, and gives it to `made`, on the thread of this object and under no
  // lock; not at all if the owner calls off. The block is ordinary memory if the device gives none,
  // and no block if the host has no memory either. `made` must not throw. Throws std::bad_alloc;
  // then nothing was accepted. REQUIRES: the owner waits for no other block.
  void Make(uint64_t owner, size_t bytes, Made made);
  // Returns true if `made` of the owner has not begun and never will.
  bool CallOff(uint64_t owner);

  // Pins `memory`, on the thread of this object, from the first call until the end of this object,
  // which shares it until then. Returns true if there is nothing to wait for: it is pinned, or the
  // device has refused. A block that is asked of Make after this call comes after the answer. If
  // the device refuses, `warn` hears why, with `remedy`, and copies of the memory are slower.
  // Throws std::bad_alloc; then nothing was asked.
  bool Pin(const std::shared_ptr<const void>& memory, ByteSpan bytes, const std::string& remedy);

  // Returns whether the driver has not answered somebody for so long. Whoever asks now would wait,
  // too.
  bool HasWaited(Duration limit);

  // Returns a block of ordinary memory; none if there is no memory.
  static Block Ordinary(size_t bytes);

  // Returns the bytes of pinned memory that this object has.
  size_t bytes_held();

 private:
  static void Give(State* owner, std::byte* bytes, uint32_t size_class);

  std::shared_ptr<State> state_;  // shared with the thread
  LineThreads thread_;
};

}  // namespace byteps::device
