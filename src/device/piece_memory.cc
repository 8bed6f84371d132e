#include "src/device/piece_memory.h"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

namespace byteps::device {
namespace {

size_t Aligned(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

PieceMemory::PieceMemory(PinnedMemory& pinned, size_t slab_bytes)
    : pinned_(pinned), slab_bytes_(slab_bytes) {
  slabs_.reserve(kSlabsMax);
}

PieceMemory::~PieceMemory() {
  if (pinned_.CallOff(kOwner)) return;
  MutexLock lock(mutex_);
  while (asks_) lock.Wait(changed_);
}

bool PieceMemory::Prepare() {
  MutexLock lock(mutex_);
  if (!had_answer_ && !asks_) Ask();
  return had_answer_;
}

void PieceMemory::Ask() {
  pinned_.Make(kOwner, slab_bytes_, [this](PinnedMemory::Block slab) { Add(std::move(slab)); });
  asks_ = true;
}

// Takes a slab in; on the thread of the PinnedMemory.
void PieceMemory::Add(PinnedMemory::Block slab) {
  MutexLock lock(mutex_);
  asks_ = false;
  had_answer_ = true;
  if (slab.is_pinned()) {
    Insert(slab.data(), slab_bytes_);
    slabs_.push_back(std::move(slab));
  } else {
    refused_ = true;
  }
  changed_.notify_all();
}

// Joins runs that touch each other, so that the memory fits buffers of any size again.
void PieceMemory::Insert(std::byte* memory, size_t bytes) {
  free_bytes_ += bytes;
  Run* before = nullptr;
  Run* behind = runs_;
  while (behind != nullptr && reinterpret_cast<std::byte*>(behind) < memory) {
    before = std::exchange(behind, behind->next);
  }
  if (memory + bytes == reinterpret_cast<std::byte*>(behind)) {
    bytes += behind->bytes;
    behind = behind->next;
  }
  if (before != nullptr && reinterpret_cast<std::byte*>(before) + before->bytes == memory) {
    before->bytes += bytes;
    before->next = behind;
    return;
  }
  // tidy-allow(new): in memory that is there.
  Run* const run = ::new (memory) Run{behind, bytes};
  (before == nullptr ? runs_ : before->next) = run;
}

// Takes the end of the first run that is large enough; null: there is none.
std::byte* PieceMemory::TakeRun(size_t bytes) {
  Run** link = &runs_;
  while (*link != nullptr && (*link)->bytes < bytes) link = &(*link)->next;
  Run* const run = *link;
  if (run == nullptr) return nullptr;
  free_bytes_ -= bytes;
  run->bytes -= bytes;
  auto* const taken = reinterpret_cast<std::byte*>(run) + run->bytes;
  if (run->bytes == 0) *link = run->next;
  return taken;
}

bool PieceMemory::IsOfSlab(const std::byte* memory) const {
  return std::ranges::any_of(slabs_, [&](const PinnedMemory::Block& slab) {
    return std::greater_equal<>()(memory, slab.data()) &&
           std::less<>()(memory, slab.data() + slab_bytes_);
  });
}

std::byte* PieceMemory::TakePinned(size_t bytes) noexcept {
  MutexLock lock(mutex_);
  std::byte* const taken = TakeRun(Aligned(bytes));
  const bool is_low = free_bytes_ < slab_bytes_ / 4;
  if (is_low && !asks_ && !refused_ && slabs_.size() < kSlabsMax) {
    try {
      Ask();
    } catch (const std::bad_alloc&) {  // the next call asks again
    }
  }
  return taken;
}

std::byte* PieceMemory::Make(size_t bytes) noexcept {
  bytes = Aligned(bytes);
  if (std::byte* const taken = TakePinned(bytes); taken != nullptr) return taken;
  std::byte* const ordinary = HeapMemory().Make(bytes);
  if (ordinary != nullptr) ordinary_bytes_ += bytes;
  return ordinary;
}

void PieceMemory::Free(std::byte* memory, size_t bytes) noexcept {
  bytes = Aligned(bytes);
  {
    MutexLock lock(mutex_);
    if (IsOfSlab(memory)) return Insert(memory, bytes);
  }
  ordinary_bytes_ -= bytes;
  HeapMemory().Free(memory, bytes);
}

}  // namespace byteps::device
