// Buffers for pieces, reused last-in first-out so that the next piece lands in warm cache.
//
// A BufferPool and all BufferRefs taken from it belong to one thread; counts are not atomic.
// A BufferRef shares a buffer; the last one gives it back. Steady state allocates nothing. What was
// not needed for a long time, counted in buffers taken, is freed, half of it at a time: peaks do
// not stay for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "src/base/types.h"

namespace byteps {

class BufferPool;

namespace internal {
struct BufferBlock {
  BufferPool* pool;
  std::byte* bytes;
  uint32_t references;
  uint32_t size_class;
};
}  // namespace internal

class BufferRef {
 public:
  BufferRef() = default;
  BufferRef(const BufferRef& other) : block_(other.block_) {
    if (block_ != nullptr) ++block_->references;
  }
  BufferRef(BufferRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BufferRef();

  explicit operator bool() const { return block_ != nullptr; }
  std::byte* data() const { return block_ == nullptr ? nullptr : block_->bytes; }

 private:
  friend class BufferPool;
  explicit BufferRef(internal::BufferBlock* block) : block_(block) {}
  internal::BufferBlock* block_ = nullptr;
};

class BufferPool {
 public:
  // `bytes_max`: what it holds at most.
  explicit BufferPool(size_t bytes_max = SIZE_MAX) : bytes_max_(bytes_max) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  // REQUIRES: every BufferRef of this pool is gone.
  ~BufferPool();

  // A buffer of at least `bytes`, 64-byte aligned, contents unspecified; null for zero bytes.
  // Throws std::bad_alloc when there is no memory, also not in buffers of other sizes that nobody
  // uses.
  BufferRef Take(size_t bytes);

  // Bytes in buffers that are out, and in all buffers ever made and not freed.
  size_t bytes_in_use() const { return bytes_in_use_; }
  size_t bytes_held() const { return bytes_held_; }

 private:
  friend class BufferRef;
  using Block = internal::BufferBlock;
  // Four to each power of two from 64 bytes on, so that a quarter is wasted at most; larger
  // requests than the last class are refused by the callers' own limits long before.
  static constexpr uint32_t kClassCount = 4 * 31 + 1;
  struct Class {
    std::vector<Block*> free;  // the next one out is the last; room for all blocks of the class
    size_t count = 0;          // blocks, also those that are out
    size_t unused = 0;         // so many were free all the time since the last look
  };

  Block* Make(uint32_t size_class);
  void Release(Block* block);
  void Free(Class& of, size_t count);
  bool FreeAllUnused();
  void FreeWhatIsNotNeeded();

  // One behind the other: those that were taken in a row are given back in a row.
  std::deque<Block> blocks_;
  std::vector<Block*> spare_;  // blocks without memory
  Class classes_[kClassCount];
  const size_t bytes_max_;
  size_t block_count_ = 0;  // with memory
  size_t taken_ = 0;        // since the last look
  size_t bytes_in_use_ = 0;
  size_t bytes_held_ = 0;
};

inline BufferRef::~BufferRef() {
  if (block_ != nullptr && --block_->references == 0) block_->pool->Release(block_);
}

}  // namespace byteps
