// Pinned memory of the host for the pieces of tensors that lie on one device: slabs, from which the
// pools of lanes get their buffers, up to a limit.
//
// A lane must neither call the driver nor wait for it. So the first slab comes before the first
// operation needs it (Prepare), and the next one is asked for while there is still room. Without
// room a buffer is ordinary memory: copies of it are slower, but nobody waits.
//
// Thread-safe. No function waits for the driver, except the destructor.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/buffer_source.h"
#include "src/base/thread_annotations.h"
#include "src/device/pinned_memory.h"

namespace byteps::device {

class PieceMemory final : public BufferSource {
 public:
  static constexpr size_t kSlabBytes = size_t{32} << 20;
  static constexpr size_t kSlabsMax = 8;
  // The owner of the slabs in PinnedMemory; no other owner there may have this number.
  static constexpr uint64_t kOwner = UINT64_MAX;

  explicit PieceMemory(PinnedMemory& pinned, size_t slab_bytes = kSlabBytes);
  // Blocks while the driver makes a slab. REQUIRES: all buffers were given back.
  ~PieceMemory() override;
  PieceMemory(const PieceMemory&) = delete;
  PieceMemory& operator=(const PieceMemory&) = delete;

  // Asks for the first slab, if nobody has asked yet. Returns true if the slab is here, or if there
  // is none to wait for. A block that is asked of the PinnedMemory after this call comes after the
  // slab. Throws std::bad_alloc; then nothing was asked.
  bool Prepare();

  // Returns pinned memory as Make does; null: there is no room.
  std::byte* TakePinned(size_t bytes) noexcept;
  std::byte* Make(size_t bytes) noexcept override;
  void Free(std::byte* memory, size_t bytes) noexcept override;

  // Returns whether somebody holds ordinary memory in a pool, and a slab has room again. The pool
  // should then free what it does not use.
  bool HasBetter() const { return ordinary_bytes_ > 0 && free_bytes_ > slab_bytes_ / 4; }
  size_t ordinary_bytes() const { return ordinary_bytes_; }
  size_t free_bytes() const { return free_bytes_; }

 private:
  // Memory that nobody has. It lies at the begin of this memory itself, so that nobody needs other
  // memory to give some back.
  struct Run {
    Run* next;  // at a higher address
    size_t bytes;
  };

  void Ask() BYTEPS_REQUIRES(mutex_);
  void Add(PinnedMemory::Block slab);
  void Insert(std::byte* memory, size_t bytes) BYTEPS_REQUIRES(mutex_);
  std::byte* TakeRun(size_t bytes) BYTEPS_REQUIRES(mutex_);
  bool IsOfSlab(const std::byte* memory) const BYTEPS_REQUIRES(mutex_);

  PinnedMemory& pinned_;
  const size_t slab_bytes_;
  std::atomic<size_t> free_bytes_ = 0;
  std::atomic<size_t> ordinary_bytes_ = 0;

  Mutex mutex_;
  std::condition_variable changed_;
  bool asks_ BYTEPS_GUARDED_BY(mutex_) = false;
  bool had_answer_ BYTEPS_GUARDED_BY(mutex_) = false;
  bool refused_ BYTEPS_GUARDED_BY(mutex_) = false;
  Run* runs_ BYTEPS_GUARDED_BY(mutex_) = nullptr;  // by address
  std::vector<PinnedMemory::Block> slabs_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::device
