#include "src/transport/rdma/registered_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include "src/transport/rdma/device.h"

namespace byteps::transport {
namespace {

size_t RoundedUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Says why the system registers nothing. Mostly the reason is the limit of locked memory.
Status Refused(const Device& device, int error) {
  std::string text = device.name() + " cannot reach this process' memory: " +
                     std::generic_category().message(error);
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += ". This process may lock " + std::to_string(limit.rlim_cur / 1024) +
            " KiB (ulimit -l); raise that limit. docker: --ulimit memlock=-1, systemd: "
            "LimitMEMLOCK=infinity";
  }
  return {StatusCode::kExhausted, text};
}

}  // namespace

bool SlabBudget::Take(size_t bytes) {
  size_t taken = taken_;
  do {
    if (taken + bytes > bytes_max_) return false;
  } while (!taken_.compare_exchange_weak(taken, taken + bytes));
  return true;
}

RegisteredMemory::~RegisteredMemory() {
  for (auto& [begin, slab] : slabs_) {
    assert(slab->count == 0);
    End(*slab);
  }
}

Status RegisteredMemory::Use(const Device& device) {
  if (std::ranges::count(devices_, &device) > 0) return Status::Ok();
  Slab* first = slabs_.empty() ? AddSlab(kSlabBytes) : slabs_.begin()->second.get();
  if (first == nullptr) {
    return {StatusCode::kExhausted, "there is no memory for messages over RDMA within " +
                                        std::to_string(budget_.bytes_max() >> 20) +
                                        " MiB (BYTEPS_RDMA_BUFFER_MB)"};
  }
  if (!Register(*first, device)) return Refused(device, errno);
  for (auto& [begin, slab] : slabs_) {
    if (slab.get() != first) Register(*slab, device);
  }
  devices_.push_back(&device);
  return Status::Ok();
}

void RegisteredMemory::Drop(const Device& device) {
  std::erase(devices_, &device);
  for (auto& [begin, slab] : slabs_) {
    auto region = slab->regions.find(&device);
    if (region == slab->regions.end()) continue;
    device.Deregister(region->second);
    slab->regions.erase(region);
  }
}

bool RegisteredMemory::Register(Slab& slab, const Device& device) {
  ibv_mr* region = device.Register(slab.begin, slab.bytes);
  if (region != nullptr) slab.regions[&device] = region;
  return region != nullptr;
}

// Tries again what the system may have refused before. Returns whether all devices reach the slab.
bool RegisteredMemory::RegisterWithAll(Slab& slab) noexcept {
  bool reached = true;
  try {
    for (const Device* device : devices_) {
      reached = (slab.regions.contains(device) || Register(slab, *device)) && reached;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return reached;
}

std::optional<uint32_t> RegisteredMemory::KeyOf(const std::byte* memory, size_t bytes,
                                                const Device& device) const {
  const Slab* slab = SlabOf(memory);
  if (slab == nullptr || memory + bytes > slab->begin + slab->bytes) return std::nullopt;
  auto region = slab->regions.find(&device);
  if (region == slab->regions.end()) return std::nullopt;
  return Device::KeyOf(region->second);
}

RegisteredMemory::Slab* RegisteredMemory::SlabOf(const std::byte* memory) const {
  auto behind = slabs_.upper_bound(memory);
  if (behind == slabs_.begin()) return nullptr;
  Slab* slab = std::prev(behind)->second.get();
  return memory < slab->begin + slab->bytes ? slab : nullptr;
}

std::byte* RegisteredMemory::Make(size_t bytes) noexcept {
  if (!devices_.empty()) {
    try {
      if (std::byte* memory = Carve(bytes)) return memory;
    } catch (const std::bad_alloc&) {
      // The heap decides.
    }
  }
  return HeapMemory().Make(bytes);
}

// Takes a buffer that was given back, or the next bytes of a slab, or of a new slab.
std::byte* RegisteredMemory::Carve(size_t bytes) {
  bytes = RoundedUp(bytes, kBufferAlignment);
  Size& size = sizes_[bytes];
  if (!size.returned.empty()) {
    std::byte* memory = size.returned.back();
    size.returned.pop_back();
    ++SlabOf(memory)->count;
    return memory;
  }
  // Free may not fail, so the list gets its room here.
  if (size.returned.capacity() <= size.count) size.returned.reserve(2 * size.count + 1);
  Slab* with_room = nullptr;
  for (auto& [begin, slab] : slabs_) {
    if (slab->bytes - slab->used < bytes) continue;
    with_room = slab.get();
    if (RegisterWithAll(*slab)) break;
  }
  if (with_room == nullptr) with_room = AddSlab(RoundedUp(bytes, kSlabBytes));
  if (with_room == nullptr) return nullptr;
  std::byte* memory = with_room->begin + with_room->used;
  with_room->used += bytes;
  ++with_room->count;
  ++size.count;
  return memory;
}

RegisteredMemory::Slab* RegisteredMemory::AddSlab(size_t bytes) {
  if (!budget_.Take(bytes)) return nullptr;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    budget_.Give(bytes);
    return nullptr;
  }
  // Large pages make the device's tables shorter; it is no error if there are none.
  madvise(memory, bytes, MADV_HUGEPAGE);
  madvise(memory, bytes, MADV_DONTFORK);
  auto slab = std::make_unique<Slab>();
  slab->begin = static_cast<std::byte*>(memory);
  slab->bytes = bytes;
  slab_bytes_ += bytes;
  // A slab that cannot be registered serves all the same, until the pool gives it back.
  RegisterWithAll(*slab);
  Slab& added = *slab;
  slabs_[added.begin] = std::move(slab);
  return &added;
}

void RegisteredMemory::Free(std::byte* memory, size_t bytes) noexcept {
  Slab* slab = SlabOf(memory);
  if (slab == nullptr) return HeapMemory().Free(memory, bytes);
  sizes_[RoundedUp(bytes, kBufferAlignment)].returned.push_back(memory);
  if (--slab->count > 0) return;
  // Nobody has anything of the slab any more.
  auto lies_in = [slab](const std::byte* one) {
    return one >= slab->begin && one < slab->begin + slab->bytes;
  };
  for (auto& [of, size] : sizes_) size.count -= std::erase_if(size.returned, lies_in);
  slab->used = 0;
  if (slabs_.size() == 1) return;  // the last one stays, for what comes next
  End(*slab);
  slabs_.erase(slab->begin);
  // The memory that this slab had locked may be what another one lacked.
  for (auto& [begin, other] : slabs_) RegisterWithAll(*other);
}

void RegisteredMemory::End(Slab& slab) {
  for (auto& [device, region] : slab.regions) device->Deregister(region);
  munmap(slab.begin, slab.bytes);
  slab_bytes_ -= slab.bytes;
  budget_.Give(slab.bytes);
}

}  // namespace byteps::transport
