// The memory of one rank in which its shared tensors lie: the other ranks of the machine map it
// read-only, and sum from it. It is one memfd, as large as the machine's memory, of which only
// pages that were touched exist; it has no name, and is gone with the last process that has it.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/types.h"
#include "src/local/unique_fd.h"

namespace byteps::local {

class Heap {
 public:
  // The address space that a rank of so many takes for its own heap and for the others'.
  static size_t BytesFor(uint32_t ranks);
  // REQUIRES: bytes is a multiple of 4096.
  static Result<std::shared_ptr<Heap>> Create(size_t bytes);
  // For Create.
  Heap(UniqueFd own, UniqueFd for_others, size_t bytes);
  ~Heap();

  // Memory all zero, aligned to a page. kExhausted: there is no such room.
  Result<ByteSpan> Take(size_t bytes);
  // The machine has the pages again. False: `data` was not taken here. REQUIRES: nothing uses it.
  bool Give(const std::byte* data);
  // Nothing is taken any more; address space and descriptors are given back with the last that was.
  void Close();

  // Where these bytes lie; nothing if they lie elsewhere.
  std::optional<uint64_t> OffsetOf(ConstByteSpan bytes) const;
  // REQUIRES: something is taken at the offset.
  const std::byte* At(uint64_t offset) const { return base_.load() + offset; }
  size_t bytes() const { return bytes_; }
  // To be handed to the others, who cannot write with it; borrowed. REQUIRES: Close was not called.
  int fd() const { return for_others_.get(); }

 private:
  Status MapIfFirst() BYTEPS_REQUIRES(mutex_);
  void LetGoIfLast() BYTEPS_REQUIRES(mutex_);
  void PutFree(uint64_t offset, uint64_t bytes) BYTEPS_REQUIRES(mutex_);

  UniqueFd own_;         // changes with base_
  UniqueFd for_others_;  // the same
  const size_t bytes_;
  std::atomic<std::byte*> base_{nullptr};

  Mutex mutex_;
  bool closed_ BYTEPS_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, uint64_t> free_ BYTEPS_GUARDED_BY(mutex_);   // by offset
  std::map<uint64_t, uint64_t> taken_ BYTEPS_GUARDED_BY(mutex_);  // the same
};

}  // namespace byteps::local
