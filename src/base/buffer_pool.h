// Buffers for pieces, reused last-in first-out so that the next piece lands in warm cache.
//
// A BufferPool and all BufferRefs taken from it belong to one thread; counts are not atomic. A
// BufferRef shares a buffer; the last BufferRef of a buffer gives it back to the pool. Steady state
// allocates nothing. The pool frees buffers that nobody has needed for a long time, counted in
// buffers taken, half of them at a time. So the memory of a peak does not stay for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "src/base/buffer_source.h"
#include "src/base/size_classes.h"
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
  // `source` must outlive the pool. `bytes_max`: the limit of the memory that the pool holds.
  explicit BufferPool(BufferSource& source = HeapMemory(), size_t bytes_max = SIZE_MAX)
      : source_(source), bytes_max_(bytes_max) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  // REQUIRES: every BufferRef of this pool is gone.
  ~BufferPool();

  // Returns a buffer of at least `bytes`, aligned to kBufferAlignment, contents unspecified; null
  // for zero bytes. If there is no memory, frees unused buffers of other sizes first. Throws
  // std::bad_alloc if that does not suffice.
  BufferRef Take(size_t bytes);

  // Until EndOffer, the next Take of exactly `bytes` returns `buffer`, in which such bytes lie
  // already. A null buffer is no offer. REQUIRES: the buffer has room for `bytes`.
  void Offer(BufferRef buffer, size_t bytes) {
    offered_bytes_ = buffer ? bytes : 0;
    offered_ = std::move(buffer);
  }
  // Returns whether Take has returned the buffer that was offered.
  bool EndOffer() {
    const bool taken = offered_bytes_ > 0 && !offered_;
    offered_bytes_ = 0;
    offered_ = BufferRef();
    return taken;
  }

  // Gives the memory of all buffers that nobody has back to the source. Returns whether there was
  // any.
  bool FreeUnused();

  // Return the bytes in buffers that are handed out, and the bytes in all buffers that are made and
  // not freed.
  size_t bytes_in_use() const { return bytes_in_use_; }
  size_t bytes_held() const { return bytes_held_; }

 private:
  friend class BufferRef;
  using Block = internal::BufferBlock;
  // Callers refuse requests larger than the last class long before, by limits of their own.
  struct Class {
    std::vector<Block*> free;  // Take hands out the last one; has room for all blocks of the class
    size_t count = 0;          // blocks, including those that are handed out
    size_t unused = 0;         // blocks that were free all the time since the last look
  };

  Block* Make(uint32_t size_class);
  void Release(Block* block);
  void Free(Class& of, size_t count);
  void FreeWhatIsNotNeeded();

  BufferSource& source_;
  // The blocks lie one behind the other: blocks that were taken in a row are given back in a row.
  std::deque<Block> blocks_;
  std::vector<Block*> spare_;  // blocks without memory
  Class classes_[kSizeClasses];
  const size_t bytes_max_;
  size_t block_count_ = 0;  // with memory
  size_t taken_ = 0;        // since the last look
  size_t bytes_in_use_ = 0;
  size_t bytes_held_ = 0;
  BufferRef offered_;  // null outside of an offer, and when it has been taken
  size_t offered_bytes_ = 0;
};

inline BufferRef::~BufferRef() {
  if (block_ != nullptr && --block_->references == 0) block_->pool->Release(block_);
}

}  // namespace byteps
