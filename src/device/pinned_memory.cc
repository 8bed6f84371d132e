#include "src/device/pinned_memory.h"

#include <algorithm>
#include <bit>
#include <new>

namespace byteps::device {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kBlockBytesMin = 4096;

// Returns the size of the block for so many bytes: there are four sizes for each power of two, so a
// block wastes at most a quarter, and blocks fit later requests of nearly the same size.
size_t BlockSize(size_t bytes) {
  if (bytes <= kBlockBytesMin) return kBlockBytesMin;
  const size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace

PinnedMemory::~PinnedMemory() {
  MutexLock lock(mutex_);
  for (const auto& [size, blocks] : unused_) {
    for (std::byte* bytes : blocks) device_.GivePinned(bytes);
  }
}

PinnedMemory::Block PinnedMemory::Take(size_t bytes) {
  if (bytes == 0) return {};
  const size_t size = BlockSize(bytes);
  std::vector<std::byte*> too_many;
  bool has_room = false;
  {
    MutexLock lock(mutex_);
    if (std::byte* used_before = TakeUnused(size); used_before != nullptr) {
      return {this, used_before, size};
    }
    too_many = MakeRoom(size);
    has_room = held_ + size <= bytes_max_;
    if (has_room) held_ += size;
  }
  for (std::byte* unused : too_many) device_.GivePinned(unused);
  Result<std::byte*> pinned =
      has_room ? device_.TakePinned(size)
               : Status(StatusCode::kExhausted,
                        "the limit of " + std::to_string(bytes_max_) + " bytes is reached");
  if (pinned.ok()) return {this, pinned.value(), size};
  bool warns = false;
  {
    MutexLock lock(mutex_);
    if (has_room) held_ -= size;
    warns = !std::exchange(has_warned_, true);
  }
  if (warns) {
    warn_("there is no more pinned memory for copies from and to a device (" +
          pinned.status().message() + "); some copies use ordinary memory and are slower");
  }
  return {nullptr, static_cast<std::byte*>(::operator new(size, kAlignment)), size};
}

void PinnedMemory::Give(PinnedMemory* owner, std::byte* bytes, size_t size) {
  if (owner == nullptr) return ::operator delete(bytes, kAlignment);
  MutexLock lock(owner->mutex_);
  owner->unused_[size].push_back(bytes);
}

std::byte* PinnedMemory::TakeUnused(size_t size) {
  auto found = unused_.find(size);
  if (found == unused_.end()) return nullptr;
  std::byte* const bytes = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) unused_.erase(found);
  return bytes;
}

std::vector<std::byte*> PinnedMemory::MakeRoom(size_t size) {
  std::vector<std::byte*> out;
  while (held_ + size > bytes_max_ && !unused_.empty()) {
    const size_t of_one = std::prev(unused_.end())->first;  // the largest, so that few go
    out.push_back(TakeUnused(of_one));
    held_ -= of_one;
  }
  return out;
}

size_t PinnedMemory::bytes_held() {
  MutexLock lock(mutex_);
  return held_;
}

}  // namespace byteps::device
