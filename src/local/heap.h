// The memory of one rank for its shared tensors. The other ranks of the machine map it read-only,
// and sum from it. A heap is one memfd, as large as the machine's memory, of which only touched
// pages exist. It has no name, and is gone with the last process that has it.
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
  // Returns the size of each heap on a machine with `ranks` ranks, so that a rank's address space
  // has room for all of them.
  static size_t BytesFor(uint32_t ranks);
  // REQUIRES: bytes is a multiple of 4096.
  static Result<std::shared_ptr<Heap>> Create(size_t bytes);
  // For Create.
  Heap(UniqueFd own, UniqueFd for_others, size_t bytes);
  ~Heap();

  // Returns memory that is all zero and aligned to a page. kExhausted: the heap has no room for it.
  Result<ByteSpan> Take(size_t bytes);
  // Gives the pages back to the machine. Returns false if `data` was not taken from this heap.
  // REQUIRES: nothing uses the memory.
  bool Give(const std::byte* data);
  // Refuses further memory. Gives address space and descriptors back as soon as no memory is taken.
  void Close();

  // Returns the offset of these bytes; nothing if they are not in the heap.
  std::optional<uint64_t> OffsetOf(ConstByteSpan bytes) const;
  // REQUIRES: the offset lies in memory that is taken.
  const std::byte* At(uint64_t offset) const { return base_.load() + offset; }
  size_t bytes() const { return bytes_; }
  // Returns the descriptor for the other ranks, which cannot write with it. The heap owns it.
  // REQUIRES: Close was not called.
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
